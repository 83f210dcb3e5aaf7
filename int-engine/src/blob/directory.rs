//! The tensors of a blob, their order, places and meaning: all of it follows from the configuration (spec 4.3).

use super::{ALIGNMENT, RECORD_LEN};
use crate::config::{Config, Scheme};
use borsh::BorshSerialize;

/// Type of a tensor's elements. The discriminant is the stored byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, BorshSerialize)]
pub enum Dtype {
    /// One byte, signed.
    Int8,
    /// Two bytes, signed.
    Int16,
    /// Four bytes, signed.
    Int32,
    /// Eight bytes, unsigned.
    Uint64,
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 => 4,
            Self::Uint64 => 8,
        }
    }

    /// The stored byte.
    pub(super) const fn code(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Uint64 => "uint64",
        })
    }
}

/// One tensor of a blob.
#[derive(Clone, PartialEq, Eq, Debug, BorshSerialize)]
pub struct Entry {
    /// Name, such as `layers.0.q.weight`.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, slowest first.
    pub shape: Vec<u32>,
    /// Position of the first byte in the file, a multiple of 64.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    #[borsh(skip)]
    pub(super) role: Role,
}

impl Entry {
    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.length / self.dtype.size() as u64
    }
}

/// What a tensor's values mean, and with it their ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Weights of rows of `cols` inputs; `psh` is the element of the last constants that holds their shift.
    Weight {
        cols: usize,
        psh: Option<usize>,
    },
    Mult,
    Shift,
    Phase,
    LayerConsts,
    /// The constants of the static scheme.
    StaticScales,
    /// The head's shift; `tied` when the embedding table's weights imply it.
    HeadConsts {
        tied: bool,
    },
    HeadGain,
    FinalGain,
}

/// Number of elements of `layers.i.consts`.
pub(super) const LAYER_CONSTS: usize = 9;
/// Number of elements of `layers.i.static`.
pub(super) const STATIC_SCALES: usize = 5;

struct Builder {
    entries: Vec<Entry>,
    end: u64,
}

impl Builder {
    /// Sizes stay far below 2^64: at most 256 layers of tensors below 2^32 bytes.
    fn add(&mut self, name: String, dtype: Dtype, shape: Vec<u32>, role: Role) {
        let offset = self.end.next_multiple_of(ALIGNMENT);
        let length = shape
            .iter()
            .fold(dtype.size() as u64, |n, &s| n * u64::from(s));
        self.end = offset + length;
        self.entries.push(Entry {
            name,
            dtype,
            shape,
            offset,
            length,
            role,
        });
    }

    fn channel(&mut self, name: &str, rows: u32) {
        self.add(format!("{name}.mult"), Dtype::Int32, vec![rows], Role::Mult);
        self.add(
            format!("{name}.shift"),
            Dtype::Int8,
            vec![rows],
            Role::Shift,
        );
    }

    fn matrix(&mut self, name: &str, rows: u32, cols: u32, psh: Option<usize>) {
        let role = Role::Weight {
            cols: cols as usize,
            psh,
        };
        self.add(
            format!("{name}.weight"),
            Dtype::Int8,
            vec![rows, cols],
            role,
        );
        self.channel(name, rows);
    }
}

/// The directory of a blob with this configuration and manifest length, and the end of its last tensor.
pub(super) fn lay_out(config: &Config, manifest_len: u32) -> (Vec<Entry>, u64) {
    let d = config.dims();
    let (n, ff, hd) = (d.hidden, d.intermediate, d.head_dim);
    let (qd, kd) = (d.heads * hd, d.kv_heads * hd);
    let mut b = Builder {
        entries: Vec::new(),
        end: RECORD_LEN as u64 + u64::from(manifest_len),
    };
    b.matrix("embed", d.vocab, n, None);
    b.add(
        "rope.phase".into(),
        Dtype::Uint64,
        vec![hd / 2],
        Role::Phase,
    );
    for i in 0..d.layers {
        let p = format!("layers.{i}");
        b.add(
            format!("{p}.consts"),
            Dtype::Int32,
            vec![LAYER_CONSTS as u32],
            Role::LayerConsts,
        );
        if d.scheme == Scheme::Static {
            b.add(
                format!("{p}.static"),
                Dtype::Int32,
                vec![STATIC_SCALES as u32],
                Role::StaticScales,
            );
        }
        b.matrix(&format!("{p}.q"), qd, n, Some(0));
        b.matrix(&format!("{p}.k"), kd, n, Some(1));
        b.matrix(&format!("{p}.v"), kd, n, Some(2));
        if d.qk_norm {
            b.add(
                format!("{p}.q_norm.gain"),
                Dtype::Int32,
                vec![hd],
                Role::HeadGain,
            );
            b.add(
                format!("{p}.k_norm.gain"),
                Dtype::Int32,
                vec![hd],
                Role::HeadGain,
            );
        }
        b.matrix(&format!("{p}.o"), n, qd, Some(3));
        b.matrix(&format!("{p}.gate"), ff, n, Some(4));
        b.matrix(&format!("{p}.up"), ff, n, Some(5));
        b.matrix(&format!("{p}.down"), n, ff, Some(6));
    }
    b.add(
        "final_norm.gain".into(),
        Dtype::Int16,
        vec![n],
        Role::FinalGain,
    );
    b.add(
        "head.consts".into(),
        Dtype::Int32,
        vec![1],
        Role::HeadConsts { tied: d.tied },
    );
    if d.tied {
        b.channel("head", d.vocab);
    } else {
        b.matrix("head", d.vocab, n, Some(0));
    }
    (b.entries, b.end)
}
