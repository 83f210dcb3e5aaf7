//! What the forward pass computes on its way, operation by operation (spec 7.10): for finding where two machines part.

use crate::config::Config;
use crate::halt::{Fault, try_reserve};
use crate::ops::ratio::TokenScale;

/// A point of the forward pass whose values can be seen, in the order of computation (spec 7.10).
///
/// Codes are followed by what scales them: a token scale as its mantissa and exponent, a head by its magnitude.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    /// The residual before the first layer, `[hidden]`.
    Embed,
    /// The quantised input of q, k and v: `[hidden]` codes, then the token scale.
    AttnNorm,
    /// The product with q, `[q_width]`.
    Q,
    /// The product with k, `[kv_width]`.
    K,
    /// The product with v, `[kv_width]`.
    V,
    /// Queries after q/k norm, `[q_width]`; only in models that have it.
    QNorm,
    /// Keys after q/k norm, `[kv_width]`; only in models that have it.
    KNorm,
    /// Queries after the rotary embedding, `[q_width]`.
    QRope,
    /// Keys after the rotary embedding, `[kv_width]`.
    KRope,
    /// Queries after the Hadamard rotation and its shift, `[q_width]`.
    QRotate,
    /// Keys after the Hadamard rotation and its shift, `[kv_width]`.
    KRotate,
    /// Quantised queries: for each head its codes and its magnitude.
    QQuant,
    /// Quantised keys: for each head its codes and its magnitude.
    KQuant,
    /// Quantised values: for each head its codes and its magnitude.
    VQuant,
    /// The output of attention, `[q_width]`.
    Attend,
    /// The quantised input of o: `[q_width]` codes, then the token scale.
    OQuant,
    /// The product with o, `[hidden]`.
    O,
    /// The residual after attention, `[hidden]`.
    AttnResidual,
    /// The quantised input of gate and up: `[hidden]` codes, then the token scale.
    MlpNorm,
    /// The product with gate, `[intermediate]`.
    Gate,
    /// The product with up, `[intermediate]`.
    Up,
    /// The gated activation, `[intermediate]`.
    Swiglu,
    /// The activation after its shift and Hadamard rotation, `[intermediate]`.
    MlpRotate,
    /// The quantised input of down: `[intermediate]` codes, then the token scale.
    MlpQuant,
    /// The product with down, `[hidden]`.
    Down,
    /// The residual after the layer, `[hidden]`.
    MlpResidual,
    /// The last residual in the basis of the final gain, `[hidden]`.
    HeadUnrotate,
    /// The row times the final gain, `[hidden]`.
    HeadGain,
    /// The row rotated again, `[hidden]`.
    HeadRotate,
    /// The quantised input of the head: `[hidden]` codes, then the token scale.
    HeadQuant,
    /// The logits, `[vocab]`.
    Logits,
}

impl Op {
    /// Every operation in the order of computation.
    pub const ALL: [Self; 31] = [
        Self::Embed,
        Self::AttnNorm,
        Self::Q,
        Self::K,
        Self::V,
        Self::QNorm,
        Self::KNorm,
        Self::QRope,
        Self::KRope,
        Self::QRotate,
        Self::KRotate,
        Self::QQuant,
        Self::KQuant,
        Self::VQuant,
        Self::Attend,
        Self::OQuant,
        Self::O,
        Self::AttnResidual,
        Self::MlpNorm,
        Self::Gate,
        Self::Up,
        Self::Swiglu,
        Self::MlpRotate,
        Self::MlpQuant,
        Self::Down,
        Self::MlpResidual,
        Self::HeadUnrotate,
        Self::HeadGain,
        Self::HeadRotate,
        Self::HeadQuant,
        Self::Logits,
    ];

    /// The name that spec 7.10 gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::AttnNorm => "attn_norm",
            Self::Q => "q",
            Self::K => "k",
            Self::V => "v",
            Self::QNorm => "q_norm",
            Self::KNorm => "k_norm",
            Self::QRope => "q_rope",
            Self::KRope => "k_rope",
            Self::QRotate => "q_rotate",
            Self::KRotate => "k_rotate",
            Self::QQuant => "q_quant",
            Self::KQuant => "k_quant",
            Self::VQuant => "v_quant",
            Self::Attend => "attend",
            Self::OQuant => "o_quant",
            Self::O => "o",
            Self::AttnResidual => "attn_residual",
            Self::MlpNorm => "mlp_norm",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::Swiglu => "swiglu",
            Self::MlpRotate => "mlp_rotate",
            Self::MlpQuant => "mlp_quant",
            Self::Down => "down",
            Self::MlpResidual => "mlp_residual",
            Self::HeadUnrotate => "head_unrotate",
            Self::HeadGain => "head_gain",
            Self::HeadRotate => "head_rotate",
            Self::HeadQuant => "head_quant",
            Self::Logits => "logits",
        }
    }

    /// The operation of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whether it belongs to a layer, not to the embedding or the head.
    #[must_use]
    pub fn in_layer(self) -> bool {
        (Self::AttnNorm..=Self::MlpResidual).contains(&self)
    }

    /// Whether it belongs to the head.
    #[must_use]
    pub fn in_head(self) -> bool {
        self >= Self::HeadUnrotate
    }

    /// How many values it has in a model of this configuration; 0 where it does not occur.
    #[must_use]
    pub fn len(self, config: &Config) -> usize {
        let (n, ff) = (config.hidden(), config.intermediate());
        let (qw, kw) = (config.q_width(), config.kv_width());
        match self {
            Self::QNorm | Self::KNorm if !config.qk_norm() => 0,
            Self::Embed | Self::O | Self::AttnResidual | Self::Down | Self::MlpResidual => n,
            Self::HeadUnrotate | Self::HeadGain | Self::HeadRotate => n,
            Self::AttnNorm | Self::MlpNorm | Self::HeadQuant => n + 2,
            Self::Q | Self::QNorm | Self::QRope | Self::QRotate | Self::Attend => qw,
            Self::K | Self::V | Self::KNorm | Self::KRope | Self::KRotate => kw,
            Self::QQuant => qw + config.heads(),
            Self::KQuant | Self::VQuant => kw + config.kv_heads(),
            Self::OQuant => qw + 2,
            Self::Gate | Self::Up | Self::Swiglu | Self::MlpRotate => ff,
            Self::MlpQuant => ff + 2,
            Self::Logits => config.vocab(),
        }
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The values of one operation at one position.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// Position of the token.
    pub position: usize,
    /// The layer; `None` for the embedding and the head.
    pub layer: Option<usize>,
    /// The operation.
    pub op: Op,
    /// Its values, [`Op::len`] of them.
    pub values: &'a [i64],
}

/// Receives what the forward pass computes.
pub type ProbeSink<'a> = &'a mut dyn FnMut(Probe<'_>);

/// Values kept until the threads of a layer have met again.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    values: Vec<i64>,
    marks: Vec<Mark>,
}

#[derive(Debug)]
struct Mark {
    position: usize,
    op: Op,
    start: usize,
    end: usize,
}

impl Recorder {
    /// Makes room for what `tokens` tokens leave in one layer, or in the head.
    pub(crate) fn reserve(&mut self, config: &Config, tokens: usize) -> Result<(), Fault> {
        let sum = |layer: bool| -> usize {
            Op::ALL
                .iter()
                .filter(|op| op.in_layer() == layer)
                .map(|op| op.len(config))
                .sum()
        };
        let what = "the probe's values";
        try_reserve(&mut self.values, tokens * sum(true).max(sum(false)), what)?;
        try_reserve(&mut self.marks, tokens * Op::ALL.len(), what)
    }

    /// Keeps the values of one operation at one position.
    pub(crate) fn record(
        &mut self,
        position: usize,
        op: Op,
        values: impl IntoIterator<Item = i64>,
    ) {
        let start = self.values.len();
        self.values.extend(values);
        let end = self.values.len();
        self.marks.push(Mark {
            position,
            op,
            start,
            end,
        });
    }

    /// Keeps a matrix `[tokens][width]`, its first row at position `first`.
    pub(crate) fn rows(&mut self, first: usize, op: Op, rows: &[i32], width: usize) {
        for (i, row) in rows.chunks_exact(width).enumerate() {
            self.record(first + i, op, row.iter().map(|&v| i64::from(v)));
        }
    }

    /// Keeps a row of codes and its token scale.
    pub(crate) fn codes(&mut self, position: usize, op: Op, codes: &[i8], scale: TokenScale) {
        let scale = [scale.mantissa, scale.exponent].map(i64::from);
        self.record(
            position,
            op,
            codes.iter().map(|&v| i64::from(v)).chain(scale),
        );
    }

    /// Keeps the quantised heads of one token: the codes of each, then its magnitude.
    pub(crate) fn heads(&mut self, position: usize, op: Op, codes: &[i8], largest: &[u16]) {
        let hd = codes.len() / largest.len();
        let heads = codes.chunks_exact(hd).zip(largest);
        self.record(
            position,
            op,
            heads.flat_map(|(codes, &m)| codes.iter().map(|&v| i64::from(v)).chain([i64::from(m)])),
        );
    }

    /// Hands over what was kept, positions ascending, the operations of each in order; keeps the memory.
    pub(crate) fn drain(&mut self, layer: Option<usize>, sink: ProbeSink<'_>) {
        self.marks.sort_unstable_by_key(|m| (m.position, m.op));
        for m in self.marks.drain(..) {
            sink(Probe {
                position: m.position,
                layer,
                op: m.op,
                values: &self.values[m.start..m.end],
            });
        }
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_lead_back() {
        for (i, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, i);
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        assert_eq!(Op::from_name("Embed"), None);
    }

    #[test]
    fn what_was_kept_comes_out_in_order() {
        let mut recorder = Recorder::default();
        recorder.record(4, Op::K, [5]);
        recorder.rows(3, Op::Q, &[1, 2, 3, 4], 2);
        let mut seen = Vec::new();
        recorder.drain(Some(7), &mut |p| {
            seen.push((p.position, p.layer, p.op, p.values.to_vec()));
        });
        assert_eq!(
            seen,
            [
                (3, Some(7), Op::Q, vec![1, 2]),
                (4, Some(7), Op::Q, vec![3, 4]),
                (4, Some(7), Op::K, vec![5]),
            ]
        );
        recorder.drain(None, &mut |_| panic!("nothing is left"));
    }
}
