//! The blob, written beside its place and renamed.

use super::layers::layer_file;
use super::tables::{EMBED, HEAD};
use super::{Progress, Run};
use crate::emit::{Emitter, Units};
use crate::error::ExportError;
use crate::partial::sync_folder;
use crate::piece::LayerFacts;
use crate::report::TensorReport;
use int_engine::commitment::Commitment;
use int_engine::config::{Config, had_block};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// What the file holds besides the pieces of the work folder.
pub(super) struct Contents<'a> {
    pub(super) config: Config,
    pub(super) metadata: Vec<(String, String)>,
    pub(super) residual_unit: f64,
    /// Rotary frequencies.
    pub(super) phases: Vec<u64>,
    /// Of every layer.
    pub(super) facts: &'a [LayerFacts],
}

/// The finished file.
pub(super) struct Written {
    pub(super) commitment: Commitment,
    pub(super) len: u64,
    /// In the order of the file.
    pub(super) tensors: Vec<TensorReport>,
}

/// A file beside its place; removed unless it was put there.
struct Beside {
    path: PathBuf,
    placed: bool,
}

impl Beside {
    fn new(out: &Path) -> Self {
        let mut path = out.as_os_str().to_owned();
        path.push(".tmp");
        Self {
            path: path.into(),
            placed: false,
        }
    }

    /// Makes the file durable under the name `out`; returns its length.
    fn place(mut self, sink: BufWriter<File>, out: &Path) -> std::io::Result<u64> {
        let file = sink
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let len = file.metadata()?.len();
        drop(file);
        std::fs::rename(&self.path, out)?;
        self.placed = true;
        sync_folder(out.parent().unwrap_or(Path::new(".")))?;
        Ok(len)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.placed {
            // An error or a panic is under way, and says more than a failure to clean up.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Run<'_> {
    /// Writes the blob beside `out`, syncs and renames it.
    pub(super) fn write(
        &self,
        out: &Path,
        contents: Contents<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Written, ExportError> {
        let c = self.checkpoint.config();
        let beside = Beside::new(out);
        let sink = File::create(&beside.path).map_err(ExportError::io(&beside.path))?;
        let sink = BufWriter::with_capacity(1 << 20, sink);
        progress.stage("blob", c.layers as u64 + 2);
        let mut emit = Emitter::new(
            sink,
            &contents.config,
            contents.residual_unit,
            self.options.tokenizer_digest,
            contents.metadata,
        )?;
        let embed = self.need(self.load_table(EMBED), EMBED)?;
        emit.embed(&embed.matrix, &contents.phases)?;
        let mut tensors = vec![embed.report.clone()];
        let tied = c.tied.then_some(embed);
        progress.step();
        for (i, f) in contents.facts.iter().enumerate() {
            let piece = self.need(self.load_layer(i), &layer_file(i))?;
            let units = Units::of(i, f, c.head_dim, had_block(c.head_dim))?;
            emit.layer(i, &piece, &units)?;
            tensors.extend(f.reports.iter().cloned());
            progress.step();
        }
        let head = match tied {
            Some(embed) => embed,
            None => {
                let head = self.need(self.load_table(HEAD), HEAD)?;
                tensors.push(head.report.clone());
                head
            }
        };
        let (sink, commitment) = emit.head(&self.checkpoint.final_norm()?, &head.matrix)?;
        let len = beside.place(sink, out).map_err(ExportError::io(out))?;
        progress.step();
        Ok(Written {
            commitment,
            len,
            tensors,
        })
    }

    /// A piece that this export stored or found whole.
    fn need<T>(&self, piece: Option<T>, name: &str) -> Result<T, ExportError> {
        piece.ok_or_else(|| {
            let kind = std::io::ErrorKind::InvalidData;
            let error = std::io::Error::new(kind, "a finished piece changed during the export");
            ExportError::io(Path::new(name))(error)
        })
    }
}
