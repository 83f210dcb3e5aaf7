//! The models that a development chain begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use blue_devnet::Adoption;
use blue_node::fetch;
use blue_node::library::Library;
use blue_node::models::{Cpu, Resident};
use blue_node::shelf::Shelf;
use blue_node::store::Store;
use int_engine::blob::{RECORD_LEN, Record};
use int_engine::commitment::{Commitment, Hasher};
use int_engine::kernels::Kernels;
use precompile::word::Word;
use precompile::{Fault, Lookup, Sizes};

use super::Args;
use super::library::{Blobs, Place, engines};
use crate::backend::Backend;
use crate::failure::{Code, Context, Failure, Outcome};
use crate::names::{default_name, text_name};
use crate::progress::Progress;
use crate::{blob_file, embedded, store};

/// Bytes of keys and values that an engine keeps of earlier calls.
const PREFIX_CACHE: usize = 64 << 20;

/// A model under its name.
pub(super) struct Named {
    /// The text that the name is of.
    pub(super) text: String,
    pub(super) sizes: Sizes,
    pub(super) adoption: Adoption,
}

/// The models of genesis, in memory, with those that come later.
pub(super) struct Served {
    pub(super) models: Vec<Named>,
    pub(super) resident: Arc<Resident>,
}

impl Served {
    pub(super) fn adoptions(&self) -> Vec<Adoption> {
        let models = self.models.iter();
        models.map(|named| named.adoption.clone()).collect()
    }
}

/// The engines that were asked for; `None` for the reference.
pub(super) fn cpu(args: &Args) -> Option<Cpu> {
    let kernels = match args.run.backend {
        Backend::Auto => Kernels::detect(),
        Backend::Kernels(kernels) => kernels,
        Backend::Reference => return None,
    };
    let threads = args.run.threads();
    Some(Cpu {
        kernels,
        threads,
        call_threads: threads,
        prefix_cache: PREFIX_CACHE,
    })
}

/// The name of the blob at this place of the command line.
fn named(index: usize, place: &Place) -> Outcome<(String, Word)> {
    let Place::File(path) = place else {
        return Ok(("blue".into(), default_name()));
    };
    if index == 0 {
        return Ok(("blue".into(), default_name()));
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let text = stem.ok_or_else(|| {
        Failure::input(format!("{} has no name to be served under", path.display()))
    })?;
    Ok((text.to_owned(), text_name(text)))
}

/// The first bytes of a blob, and its tree.
fn adoption(
    name: Word,
    place: &Place,
    threads: NonZeroUsize,
    progress: Progress,
) -> Outcome<(Adoption, Sizes)> {
    let (head, tree) = match place {
        Place::Embedded => {
            let mut hasher = Hasher::new();
            hasher.update(embedded::BLOB);
            (embedded::BLOB[..RECORD_LEN].to_vec(), hasher.finish())
        }
        Place::File(path) => (
            blob_file::head(path)?,
            blob_file::hash(path, threads, progress)?,
        ),
    };
    let record = Record::parse(&head).or_input("the blob has no valid record")?;
    let adoption = Adoption::new(name, &head, &tree);
    let adoption = adoption.ok_or_else(|| Failure::input("the blob has no record"))?;
    Ok((adoption, Sizes::of(&record.config)))
}

/// Loads the blobs, or the embedded model where there are none.
pub(super) fn load(args: &Args, progress: Progress) -> Outcome<Served> {
    let threads = args.run.threads();
    let places: Vec<Place> = match &args.blobs[..] {
        [] => vec![Place::Embedded],
        blobs => blobs.iter().cloned().map(Place::File).collect(),
    };
    let mut models = Vec::new();
    let mut names: BTreeSet<Word> = BTreeSet::new();
    let mut files: BTreeMap<Commitment, Place> = BTreeMap::new();
    for (index, place) in places.into_iter().enumerate() {
        let (text, name) = named(index, &place)?;
        let (adoption, sizes) = adoption(name, &place, threads, progress)?;
        if !names.insert(name) {
            let said = format!("two blobs would be served under the name of {text:?}");
            return Err(Failure::input(said).hint("give the files other names"));
        }
        if files.insert(adoption.commitment, place).is_some() {
            return Err(Failure::input(format!(
                "{text} is the same blob as another"
            )));
        }
        models.push(Named {
            text,
            sizes,
            adoption,
        });
    }
    let shelf = args.store.as_ref().map(|dir| shelf(dir, &args.from));
    let shelf = shelf.transpose()?;
    let library: Arc<dyn Library> = Arc::new(Blobs { files, shelf });
    let memory = args.model_memory.saturating_mul(1 << 20);
    let engines = engines(cpu(args), &library);
    let resident = Resident::new(library, engines, memory).load_threads(threads);
    let resident = Arc::new(resident);
    let spinner = progress.spinner("loading");
    for named in &models {
        spinner.set_message(format!("loading {}", named.text));
        prepare(&resident, named)?;
    }
    spinner.finish_and_clear();
    Ok(Served { models, resident })
}

fn prepare(resident: &Resident, named: &Named) -> Outcome {
    let text = &named.text;
    match resident.prepare(named.adoption.commitment) {
        Ok(Lookup::Ready(_)) => Ok(()),
        Ok(Lookup::Refused) => Err(Failure::input(format!(
            "{text} is refused by the format's rules"
        ))
        .hint("`blue inspect` says why")),
        Err(fault) => {
            let code = match fault {
                Fault::Missing { .. } => Code::Input,
                _ => Code::Runtime,
            };
            let said = anyhow::Error::new(fault).context(format!("cannot serve {text}"));
            Err(Failure::new(code, said))
        }
    }
}

fn shelf(dir: &Path, from: &[String]) -> Outcome<Shelf> {
    let store = Store::open(dir).map_err(store::failure)?;
    let sources = store::sources(from)?;
    Ok(Shelf::new(store, sources, fetch::Options::default()))
}
