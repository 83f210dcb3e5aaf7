//! Files of models: blobs of every shape that changes a path through the forward pass (spec 7.6).

use std::path::Path;

use int_engine::config::{Config, Dims, Scheme};
use int_engine::engine::logits_digest;

use super::GenerateError;
use super::edits;
use crate::blob;
use crate::file::{BlobRecipe, BlobSource, HaltCase, MAX_BLOB, ModelFile, Run, Style, ids};
use crate::row::{Row, Stream};
use crate::set;
use crate::target::{Model, Models, Ops, ReferenceTarget, Stop};

/// The blob of the default model, below the repository's root.
const TINY: &str = "models/default/blue-tiny.blob";

/// Shapes by what they reach; 61 of 67 ids accepted and a context of 48 if not said otherwise.
fn base() -> Dims {
    Dims {
        scheme: Scheme::Dynamic,
        hidden: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        intermediate: 96,
        vocab: 67,
        accepted_ids: 61,
        max_context: 48,
        qk_norm: false,
        tied: true,
        eps: 40_000 * 64,
        stop_ids: Vec::new(),
    }
}

fn shape(
    hidden: u32,
    layers: u32,
    (heads, kv_heads, head_dim): (u32, u32, u32),
    intermediate: u32,
) -> Dims {
    Dims {
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        intermediate,
        eps: 40_000 * u64::from(hidden),
        ..base()
    }
}

fn qk_norm(d: Dims) -> Dims {
    Dims { qk_norm: true, ..d }
}

fn untied(d: Dims) -> Dims {
    Dims { tied: false, ..d }
}

fn fixed(d: Dims) -> Dims {
    Dims {
        scheme: Scheme::Static,
        ..d
    }
}

fn ids_of(vocab: u32, accepted_ids: u32, d: Dims) -> Dims {
    Dims {
        vocab,
        accepted_ids,
        ..d
    }
}

/// What is asked of a model.
#[derive(Clone, Copy)]
enum Ask {
    /// A prompt with every digest, a single id, tokens of another prompt.
    Usual,
    /// The usual, a full context, halts, refused edits.
    All,
    /// The usual with a stop id among the tokens.
    Stops,
    /// A prompt longer than a block of 512 keys.
    Long,
    /// The usual and a prompt, found by search, of which one key is past int16 between its angles and its rotation.
    Turned,
}

fn recipes() -> Vec<(&'static str, Dims, Style, u64, Ask)> {
    use Ask::{All, Long, Stops, Turned, Usual};
    use Style::{Extreme, Plausible, Zero};
    let large_eps = |eps, d| Dims { eps, ..d };
    let context = |max_context, d| Dims { max_context, ..d };
    vec![
        // Two query heads a kv head, tied head, no q/k norm.
        ("dense", base(), Plausible, 2, All),
        ("dense_qk_norm", untied(qk_norm(base())), Plausible, 3, All),
        ("dense_static", fixed(base()), Plausible, 5, All),
        // The smallest of everything.
        (
            "ones",
            ids_of(1, 1, shape(1, 1, (1, 1, 2), 1)),
            Plausible,
            1,
            Usual,
        ),
        // Blocks of 1 on the residual and the MLP, of 2 on heads of 6.
        (
            "odd",
            untied(shape(63, 2, (3, 3, 6), 31)),
            Plausible,
            3,
            Usual,
        ),
        (
            "odd_static",
            fixed(qk_norm(shape(63, 2, (3, 3, 6), 31))),
            Plausible,
            2,
            Usual,
        ),
        // H_12 on the residual and the heads; H_20 on the MLP, whole or by 4.
        ("twelve", shape(12, 3, (3, 1, 12), 20), Plausible, 4, Usual),
        (
            "twelve_static",
            fixed(untied(shape(12, 3, (3, 1, 12), 20))),
            Plausible,
            6,
            Usual,
        ),
        // H_20 (x) H_4 on the residual and on one wide head.
        (
            "eighty",
            untied(shape(80, 2, (2, 1, 80), 77)),
            Plausible,
            3,
            Usual,
        ),
        // H_12 (x) H_8; three query heads a kv head; more MLP than residual.
        (
            "ninety_six",
            untied(qk_norm(shape(96, 2, (6, 2, 32), 160))),
            Plausible,
            4,
            Usual,
        ),
        (
            "ninety_six_static",
            fixed(qk_norm(shape(96, 2, (6, 2, 32), 192))),
            Plausible,
            1,
            Usual,
        ),
        // Seven query heads on one kv head; three blocks of 16 on the residual.
        (
            "seven",
            untied(shape(48, 3, (7, 1, 16), 40)),
            Plausible,
            1,
            Usual,
        ),
        // The smallest sums that need psh -4.
        (
            "wide",
            ids_of(9, 8, shape(4, 1, (2, 1, 4), 4161)),
            Plausible,
            3,
            Usual,
        ),
        // Ids that are stop ids and ids that are only padding.
        (
            "stops",
            untied(shape(32, 2, (2, 2, 16), 48)),
            Plausible,
            2,
            Stops,
        ),
        (
            "padding",
            ids_of(67, 5, untied(shape(32, 2, (2, 1, 8), 48))),
            Plausible,
            7,
            Usual,
        ),
        // No eps and the largest.
        (
            "no_eps",
            large_eps(0, qk_norm(shape(24, 2, (2, 1, 4), 12))),
            Plausible,
            3,
            Usual,
        ),
        (
            "largest_eps",
            large_eps((1 << 53) - 1, shape(24, 2, (2, 1, 4), 12)),
            Plausible,
            3,
            Usual,
        ),
        // More keys than a block of 512.
        (
            "long",
            context(640, untied(shape(12, 1, (2, 1, 4), 12))),
            Plausible,
            2,
            Long,
        ),
        // Everything at the ends of its range.
        ("extreme_a", base(), Extreme, 1, Usual),
        (
            "extreme_b",
            untied(qk_norm(shape(24, 2, (4, 2, 6), 20))),
            Extreme,
            2,
            Usual,
        ),
        (
            "extreme_c",
            untied(shape(20, 3, (2, 1, 10), 33)),
            Extreme,
            3,
            Usual,
        ),
        (
            "extreme_d",
            qk_norm(shape(48, 2, (3, 1, 20), 48)),
            Extreme,
            8,
            Usual,
        ),
        (
            "extreme_static_a",
            fixed(untied(shape(24, 2, (4, 2, 6), 20))),
            Extreme,
            15,
            Usual,
        ),
        (
            "extreme_static_b",
            fixed(qk_norm(shape(48, 2, (3, 1, 12), 60))),
            Extreme,
            16,
            Usual,
        ),
        // One channel in the MLP: its saturation is half of the largest magnitude.
        (
            "narrow_static",
            fixed(untied(shape(8, 8, (1, 1, 2), 1))),
            Extreme,
            1,
            Usual,
        ),
        // A normalised head of one pair that its angle turns onto one channel.
        (
            "turned",
            qk_norm(shape(8, 2, (8, 8, 2), 8)),
            Extreme,
            877,
            Turned,
        ),
        ("zero", qk_norm(shape(12, 1, (2, 1, 4), 12)), Zero, 1, Usual),
        (
            "zero_static",
            large_eps(0, fixed(shape(12, 1, (2, 1, 4), 12))),
            Zero,
            1,
            Usual,
        ),
    ]
}

/// Files of all models by name.
pub(super) fn files(root: &Path) -> Result<Vec<(&'static str, ModelFile)>, GenerateError> {
    let mut files = vec![("blue_tiny", tiny(root)?)];
    for (name, mut dims, style, seed, ask) in recipes() {
        let make = |dims: &Dims| BlobRecipe {
            config: Config::new(dims.clone()).expect("a valid configuration"),
            style,
            seed,
        };
        if let Ask::Stops = ask {
            dims.stop_ids = stop_ids(name, &make(&dims))?;
        }
        let recipe = make(&dims);
        let bytes = blob::build(&recipe);
        let mut file = empty(BlobSource::Recipe(recipe.clone()), &bytes);
        let model = load(name, &bytes)?;
        let asker = Asker {
            model: &*model,
            dims: &dims,
        };
        file.runs = asker.runs(ask, seed);
        file.halts = asker.halts();
        if let Ask::All = ask {
            file.edits = edits::edits(&recipe.config, &bytes);
        }
        files.push((name, file));
    }
    Ok(files)
}

fn empty(source: BlobSource, bytes: &[u8]) -> ModelFile {
    ModelFile {
        source,
        bytes: bytes.len() as u64,
        keccak256: ReferenceTarget.keccak256(bytes),
        commitment: ReferenceTarget.commitment(bytes),
        runs: Vec::new(),
        halts: Vec::new(),
        edits: Vec::new(),
    }
}

fn load(name: &str, bytes: &[u8]) -> Result<Box<dyn Model>, GenerateError> {
    ReferenceTarget
        .load(bytes)
        .map_err(|why| GenerateError::Blob {
            name: name.into(),
            why,
        })
}

/// The id that is generated first at a later place than all others, and ids that are never generated.
fn stop_ids(name: &str, recipe: &BlobRecipe) -> Result<Vec<u32>, GenerateError> {
    let model = load(name, &blob::build(recipe))?;
    let prompt = ids(&prompt_row(
        recipe.seed,
        12,
        recipe.config.accepted_ids() as u32,
    ));
    let (tokens, _) = model
        .generate(&prompt, 16)
        .map_err(|_| GenerateError::Blob {
            name: name.into(),
            why: "the prompt is refused".into(),
        })?;
    let first = |id: u32| tokens.iter().position(|&t| t == id);
    let last = tokens
        .iter()
        .copied()
        .max_by_key(|&id| first(id))
        .unwrap_or(0);
    let accepted = recipe.config.accepted_ids() as u32;
    let mut stops = vec![last];
    stops.extend(
        (0..accepted)
            .filter(|&id| first(id).is_none())
            .step_by(9)
            .take(5),
    );
    stops.sort_unstable();
    stops.dedup();
    Ok(stops)
}

fn prompt_row(seed: u64, count: usize, accepted: u32) -> Row {
    Row::drawn(9000 + seed, count, 0, i64::from(accepted) - 1)
}

/// Asks one model.
struct Asker<'a> {
    model: &'a dyn Model,
    dims: &'a Dims,
}

impl Asker<'_> {
    /// An accepted prompt; `layers` and `logits` say which digests are kept.
    fn run(&self, name: &str, prompt: Row, max_new: u32, layers: bool, logits: bool) -> Run {
        let tokens = ids(&prompt);
        let accepted = "the prompt is accepted";
        let mut run = Run {
            name: name.into(),
            prompt,
            max_new,
            layers: Vec::new(),
            logits: Vec::new(),
            tokens: Vec::new(),
            finish: String::new(),
        };
        if layers {
            run.layers = vec![Vec::new(); tokens.len()];
            let sink = &mut |position: usize, _: usize, row: &[i32]| {
                run.layers[position].push(logits_digest(row));
            };
            self.model.layers(&tokens, sink).expect(accepted);
        }
        if logits {
            let sink = &mut |_: usize, row: &[i32]| run.logits.push(logits_digest(row));
            self.model.logits(&tokens, sink).expect(accepted);
        }
        let (new, finish) = self.model.generate(&tokens, max_new).expect(accepted);
        run.tokens = new;
        run.finish = finish.into();
        run
    }

    fn runs(&self, ask: Ask, seed: u64) -> Vec<Run> {
        let prompt = |salt: u64, count| prompt_row(seed + salt, count, self.dims.accepted_ids);
        let last = Row::List(vec![i64::from(self.dims.accepted_ids) - 1]);
        if let Ask::Long = ask {
            return vec![
                self.run("a long prompt", prompt(0, 600), 8, false, false),
                self.run("its last positions", prompt(0, 24), 24, true, true),
            ];
        }
        let mut runs = vec![
            self.run("twelve ids", prompt(0, 12), 16, true, true),
            self.run("one id", last, 12, false, true),
            self.run("seven ids", prompt(100, 7), 0, false, true),
        ];
        if let Ask::Turned = ask {
            let ids = (0..33).map(|i| (7 * i + 23) % 61).collect();
            runs.push(self.run("past int16", Row::List(ids), 8, true, true));
        }
        if let Ask::All = ask {
            let max = self.dims.max_context as usize;
            runs.push(self.run("up to the context", prompt(200, max - 5), 100, false, true));
            runs.push(self.run(
                "exactly to the context",
                prompt(200, max - 5),
                5,
                false,
                false,
            ));
            runs.push(self.run("a full context", prompt(300, max), 3, false, false));
            runs.push(self.run(
                "a full context, nothing wanted",
                prompt(300, max),
                0,
                false,
                false,
            ));
        }
        runs
    }

    fn halts(&self) -> Vec<HaltCase> {
        let (max, accepted) = (
            self.dims.max_context as usize,
            i64::from(self.dims.accepted_ids),
        );
        let fill = |value, count| Row::Fill { value, count };
        let end = |id| Row::Join(vec![fill(0, max - 1), Row::List(vec![id])]);
        let prompts = [
            ("empty", Row::List(Vec::new()), 1),
            ("empty, nothing wanted", Row::List(Vec::new()), 0),
            ("one too many", fill(0, max + 1), 1),
            (
                "one too many, the first not accepted",
                fill(accepted, max + 1),
                0,
            ),
            (
                "the first id past the accepted",
                Row::List(vec![accepted]),
                1,
            ),
            (
                "two ids not accepted",
                Row::List(vec![0, accepted + 5, accepted]),
                0,
            ),
            ("the largest id", Row::List(vec![0, i64::from(u32::MAX)]), 1),
            ("the last of a full context", end(accepted), 1),
        ];
        let case = |(name, prompt, max_new): (&str, Row, u32)| match self
            .model
            .generate(&ids(&prompt), max_new)
        {
            Err(Stop::Halt(halt)) => HaltCase {
                name: name.into(),
                prompt,
                max_new,
                halt: halt.name.into(),
                token: halt.token,
            },
            other => panic!("{name}: {other:?}"),
        };
        prompts
            .into_iter()
            .filter(|(_, p, _)| p.count() <= max + 1)
            .map(case)
            .collect()
    }
}

/// The default model.
fn tiny(root: &Path) -> Result<ModelFile, GenerateError> {
    let bytes = set::read(&root.join(TINY), MAX_BLOB)?;
    let mut file = empty(BlobSource::File(TINY.into()), &bytes);
    let model = load(TINY, &bytes)?;
    let header = int_engine::blob::Header::parse(&bytes).map_err(|e| GenerateError::Blob {
        name: TINY.into(),
        why: e.to_string(),
    })?;
    let asker = Asker {
        model: &*model,
        dims: header.config.dims(),
    };
    let readme = Row::List(vec![1, 7, 13, 2, 500, 1023, 1532, 0]);
    let mut s = Stream::new(9100);
    let random = Row::List((0..6).map(|_| s.draw(0, 1500)).collect());
    file.runs = vec![
        asker.run("the specification's prompt", readme, 16, true, true),
        asker.run("six ids", random, 8, true, true),
        asker.run("one id", Row::List(vec![0]), 12, false, true),
    ];
    file.edits = edits::metadata(&header, &bytes);
    Ok(file)
}
