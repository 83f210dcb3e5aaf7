//! The embedding and the output head.

use super::{Progress, Run};
use crate::collect;
use crate::error::ExportError;
use crate::gptq::{Factor, Quantized, quantize};
use crate::piece::TablePiece;
use crate::report::TensorReport;
use float_engine::source::Matrix;

pub(super) const EMBED: &str = "embed";
pub(super) const HEAD: &str = "head";

/// Rows of a table that are one step of progress.
const STEP_ROWS: usize = 4096;

impl Run<'_> {
    pub(super) fn load_table(&self, name: &str) -> Option<TablePiece> {
        TablePiece::decode(&self.partial.load(name)?.1)
    }

    /// Quantises the embedding and the head; returns the largest residual after the last layer.
    pub(super) fn tables(&self, progress: &mut dyn Progress) -> Result<f64, ExportError> {
        let (c, compute) = (self.checkpoint.config(), &self.compute);
        let steps = c.vocab.div_ceil(STEP_ROWS) as u64;
        let finished = |progress: &mut dyn Progress| (0..steps).for_each(|_| progress.step());
        // A table's row blocks, and the Hessian of the head's input.
        progress.stage("tables", if c.tied { steps } else { 2 * steps } + 1);
        if !c.tied {
            if self.load_table(EMBED).is_some() {
                finished(progress);
            } else {
                let piece = self.table(EMBED, &self.checkpoint.embed()?, None, 0.0, progress);
                self.partial.store(EMBED, 0, &piece.encode())?;
            }
        }
        let logits_table = if c.tied { EMBED } else { HEAD };
        if let Some(piece) = self.load_table(logits_table) {
            progress.step();
            finished(progress);
            return Ok(piece.residual_max);
        }
        let residual = self.last_residual()?;
        let norm = self.checkpoint.final_norm()?;
        let site = collect::head_site(&self.rotations, &residual, &norm, c.rms_eps, compute);
        drop(residual);
        let factor = self.factor(&site, || "the head's input".into())?;
        progress.step();
        let table = match self.checkpoint.lm_head()? {
            Some(head) => head,
            None => self.checkpoint.embed()?,
        };
        let piece = self.table(logits_table, &table, Some(&factor), site.max, progress);
        self.partial.store(logits_table, 0, &piece.encode())?;
        Ok(piece.residual_max)
    }

    /// Quantises a table in the rotated basis, a block of rows at a time.
    fn table(
        &self,
        name: &str,
        m: &Matrix,
        f: Option<&Factor>,
        residual_max: f64,
        progress: &mut dyn Progress,
    ) -> TablePiece {
        let mut matrix = Quantized {
            rows: m.rows,
            cols: m.cols,
            codes: Vec::with_capacity(m.rows * m.cols),
            scales: Vec::with_capacity(m.rows),
            errors: Vec::with_capacity(m.rows),
        };
        for first in (0..m.rows).step_by(STEP_ROWS) {
            let rows = STEP_ROWS.min(m.rows - first);
            let block = quantize(rows, m.cols, f, &self.compute, |o, row| {
                row.iter_mut()
                    .zip(m.row(first + o))
                    .for_each(|(r, &v)| *r = f64::from(v));
                self.rotations.rotate_residual(row);
            });
            matrix.codes.extend(block.codes);
            matrix.scales.extend(block.scales);
            matrix.errors.extend(block.errors);
            progress.step();
        }
        let report = TensorReport::of(name.into(), &matrix, f.is_some());
        TablePiece {
            matrix,
            report,
            residual_max,
        }
    }
}
