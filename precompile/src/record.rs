//! The record of a commitment as the registry stores it (spec 6.4).

use crate::host::Host;
use crate::refusal::{Fault, Refusal, Stop, require};
use crate::slots;
use crate::word::{Pack, Unpack, Word, ZERO, be};
use int_engine::blob::{RECORD_LEN, Record};
use int_engine::commitment::{Commitment, verify_chunk};
use int_engine::config::{Config, Scheme};

/// Words of a stored record.
pub(crate) const WORDS: usize = 5;
/// The version of the specification that a record's blob is of.
const SPEC_VERSION: u64 = 1;
/// Bytes of word 1 that say what an engine computes: max_context, scheme, qk_norm, tied, number of stop ids, eps.
const COMPUTED: usize = 16;

/// Sizes of a model, as stored: what prices and the checks of a prompt depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Width of the residual stream.
    pub hidden: u32,
    /// Number of layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Width of one head.
    pub head_dim: u32,
    /// Width of the MLP.
    pub intermediate: u32,
    /// Rows of the embedding table.
    pub vocab: u32,
    /// Ids that a prompt may hold.
    pub accepted_ids: u32,
    /// Most tokens of prompt and output together.
    pub max_context: u32,
    /// Whether the scheme is the static one.
    pub is_static: bool,
}

impl Sizes {
    /// The sizes of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let d = config.dims();
        Self {
            hidden: d.hidden,
            layers: d.layers,
            heads: d.heads,
            kv_heads: d.kv_heads,
            head_dim: d.head_dim,
            intermediate: d.intermediate,
            vocab: d.vocab,
            accepted_ids: d.accepted_ids,
            max_context: d.max_context,
            is_static: d.scheme == Scheme::Static,
        }
    }

    fn priced(&self) -> [u32; 8] {
        [
            self.hidden,
            self.layers,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.intermediate,
            self.vocab,
            self.accepted_ids,
        ]
    }

    fn of_words(words: &[Word; 2]) -> Self {
        let mut fields = Unpack::new(&words[0]);
        let mut second = Unpack::new(&words[1]);
        let mut next = || fields.field(4) as u32;
        Self {
            hidden: next(),
            layers: next(),
            heads: next(),
            kv_heads: next(),
            head_dim: next(),
            intermediate: next(),
            vocab: next(),
            accepted_ids: next(),
            max_context: second.field(4) as u32,
            is_static: second.field(1) == Scheme::Static.code().into(),
        }
    }

    fn word(&self) -> Word {
        let pack = |pack: Pack, size: &u32| pack.field((*size).into(), 4);
        self.priced().iter().fold(Pack::default(), pack).word()
    }
}

/// The first half of word 1.
fn computed(config: &Config) -> Pack {
    let d = config.dims();
    Pack::default()
        .field(d.max_context.into(), 4)
        .field(d.scheme.code().into(), 1)
        .field(d.qk_norm.into(), 1)
        .field(d.tied.into(), 1)
        .field(d.stop_ids.len() as u64, 1)
        .field(d.eps, 8)
}

/// The stored form of a record.
pub(crate) fn words(record: &Record) -> [Word; WORDS] {
    let d = record.config.dims();
    let stops = |from: usize| {
        let ids = d.stop_ids.iter().skip(from).take(8);
        let pack = |pack: Pack, id: &u32| pack.field((*id).into(), 4);
        ids.fold(Pack::default(), pack).word()
    };
    [
        Sizes::of(&record.config).word(),
        computed(&record.config)
            .field(record.total_len, 8)
            .field(record.manifest_len.into(), 4)
            .field(SPEC_VERSION, 4)
            .word(),
        record.tokenizer_digest,
        stops(0),
        stops(8),
    ]
}

/// Length in bytes of the blob, of word 1 of a stored record.
pub(crate) fn total_len(word: &Word) -> u64 {
    be(&word[COMPUTED..COMPUTED + 8])
}

/// The sizes and what they were read from.
pub(crate) struct Stored {
    pub(crate) sizes: Sizes,
    words: [Word; 2],
}

impl Stored {
    /// Whether an engine's configuration is the record's, as far as the two words tell.
    pub(crate) fn agrees(&self, config: &Config) -> bool {
        let word = computed(config).word();
        self.words[0] == Sizes::of(config).word() && self.words[1][..COMPUTED] == word[..COMPUTED]
    }
}

/// Reads what calls need of a commitment's record.
pub(crate) fn load(host: &mut dyn Host, commitment: &Word) -> Result<Stored, Stop> {
    let words = [
        host.read(&slots::record(commitment, 0))?,
        host.read(&slots::record(commitment, 1))?,
    ];
    require(words[0] != ZERO, Refusal::NoRecord)?;
    Ok(Stored {
        sizes: Sizes::of_words(&words),
        words,
    })
}

/// Reads all words of a commitment's record.
pub(crate) fn load_all(host: &mut dyn Host, commitment: &Word) -> Result<[Word; WORDS], Stop> {
    let mut words = [ZERO; WORDS];
    for (i, word) in (0..).zip(&mut words) {
        *word = host.read(&slots::record(commitment, i))?;
    }
    require(words[0] != ZERO, Refusal::NoRecord)?;
    Ok(words)
}

/// Checks a record against a commitment and stores it.
pub(crate) fn store(
    host: &mut dyn Host,
    commitment: &Word,
    bytes: &[u8],
    proof: &[Word],
) -> Result<(), Stop> {
    require(bytes.len() == RECORD_LEN, Refusal::BadRecord)?;
    let record = Record::parse(bytes).map_err(|_| Refusal::BadRecord)?;
    require(record.total_len == record.implied_len(), Refusal::BadRecord)?;
    let proved = verify_chunk(Commitment(*commitment), record.total_len, 0, bytes, proof);
    require(proved, Refusal::BadProof)?;
    for (i, word) in (0..).zip(words(&record)) {
        host.write(&slots::record(commitment, i), &word)?;
    }
    Ok(())
}

/// Makes a commitment what inference serves under a name, as an activation leaves it, without votes: for tools and tests.
///
/// # Errors
/// The host's.
pub fn put_active(
    host: &mut dyn Host,
    name: &Word,
    commitment: Commitment,
    record: &Record,
) -> Result<(), Fault> {
    for (i, word) in (0..).zip(words(record)) {
        host.write(&slots::record(&commitment.0, i), &word)?;
    }
    host.write(&slots::commitment(name), &commitment.0)?;
    host.write(&slots::served(name), &commitment.0)
}
