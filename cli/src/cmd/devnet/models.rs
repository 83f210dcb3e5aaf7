//! The models that a development chain serves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blue_devnet::Adoption;
use int_engine::blob::{Loader, RECORD_LEN};
use int_engine::commitment::{Commitment, Hasher};
use int_engine::engine::Engine;
use precompile::memory::ModelSet;
use precompile::word::Word;
use precompile::{Models, Sizes};

use crate::cmd::chain::{default_name, text_name};
use crate::failure::{Code, Failure, Outcome};
use crate::loaded::{RunArgs, embedded_model};
use crate::progress::Progress;
use crate::{blob_file, embedded, files};

/// A model under its name.
pub(super) struct Named {
    /// The text that the name is of.
    pub(super) text: String,
    pub(super) sizes: Sizes,
    pub(super) adoption: Adoption,
}

/// The models, and the engines that run them: one set for blocks, one for calls.
pub(super) struct Served {
    pub(super) models: Vec<Named>,
    pub(super) blocks: Arc<dyn Models + Send + Sync>,
    pub(super) calls: Arc<dyn Models + Send + Sync>,
}

impl Served {
    pub(super) fn adoptions(&self) -> Vec<Adoption> {
        let models = self.models.iter();
        models.map(|named| named.adoption.clone()).collect()
    }
}

/// The name of the blob at this place of the command line.
fn named(index: usize, path: Option<&Path>) -> Outcome<(String, Word)> {
    let Some(path) = path.filter(|_| index > 0) else {
        return Ok(("blue".into(), default_name()));
    };
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let text = stem.ok_or_else(|| {
        Failure::input(format!("{} has no name to be served under", path.display()))
    })?;
    Ok((text.to_owned(), text_name(text)))
}

/// Loads the blobs, or the embedded model where there are none.
pub(super) fn load(blobs: &[PathBuf], run: &RunArgs, progress: Progress) -> Outcome<Served> {
    let mut served = Vec::new();
    let (mut blocks, mut calls) = (ModelSet::default(), ModelSet::default());
    let mut names: BTreeSet<Word> = BTreeSet::new();
    let mut seen: BTreeSet<Commitment> = BTreeSet::new();
    let paths: Vec<Option<&Path>> = match blobs {
        [] => vec![None],
        blobs => blobs.iter().map(|path| Some(path.as_path())).collect(),
    };
    for (index, path) in paths.into_iter().enumerate() {
        let (text, name) = named(index, path)?;
        let (model, head, tree) = match path {
            None => {
                let mut hasher = Hasher::new();
                hasher.update(embedded::BLOB);
                (embedded_model()?, embedded::BLOB.to_vec(), hasher.finish())
            }
            Some(path) => {
                let loader = Loader::new();
                let threads = run.threads();
                let model = blob_file::load(path, loader, threads, Code::Input, progress)?;
                let tree = blob_file::hash(path, threads, progress)?;
                (model, head(path)?, tree)
            }
        };
        if model.commitment() != tree.commitment() {
            return Err(Failure::input("the blob changed while it was read"));
        }
        let adoption = Adoption::new(name, &head, &tree);
        let adoption = adoption.ok_or_else(|| Failure::input("the blob has no record"))?;
        if !names.insert(name) {
            let said = format!("two blobs would be served under the name of {text:?}");
            return Err(Failure::input(said).hint("give the files other names"));
        }
        if !seen.insert(adoption.commitment) {
            return Err(Failure::input(format!(
                "{text} is the same blob as another"
            )));
        }
        let sizes = Sizes::of(model.config());
        let model = Arc::new(model);
        for set in [&mut blocks, &mut calls] {
            let engine = run.backend.engine(&model, run.threads(), || match path {
                Some(path) => std::fs::read(path).map_err(|e| Failure::file(path, e)),
                None => Ok(embedded::BLOB.to_vec()),
            })?;
            let engine: Arc<dyn Engine> = Arc::from(engine);
            set.insert(engine);
        }
        served.push(Named {
            text,
            sizes,
            adoption,
        });
    }
    Ok(Served {
        models: served,
        blocks: Arc::new(blocks),
        calls: Arc::new(calls),
    })
}

/// The first bytes of a blob file.
fn head(path: &Path) -> Outcome<Vec<u8>> {
    use std::io::Read;
    let (file, _) = files::open(path)?;
    let mut head = Vec::new();
    let read = file.take(RECORD_LEN as u64).read_to_end(&mut head);
    read.map_err(|e| Failure::file(path, e))?;
    Ok(head)
}
