// Blobs, tokens and the digests of their logits. Two programs assert the same constants: the engine's own test and
// the comparison with the reference.

use crate::sample::sample;
use int_engine::blob::Loader;
use int_engine::commitment::keccak256;
use int_engine::config::{Config, Dims, Scheme};

/// One known answer.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) blob: Vec<u8>,
    pub(crate) tokens: Vec<u32>,
    /// Of [`digest`].
    pub(crate) digest: &'static str,
}

/// Keccak-256 over the logits digests of all positions, in hex.
pub(crate) fn digest(logits: &[[u8; 32]]) -> String {
    let hash = keccak256(&logits.concat());
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// A sample with wider residuals, an eps that counts, and some rows of q, k, gate and up that saturate.
fn blob(dims: Dims) -> Vec<u8> {
    let mut blob = sample(&Config::new(dims).expect("a valid configuration"), 11);
    let mut loader = Loader::new();
    loader.push(&blob).expect("a valid blob");
    let header = loader.header().expect("all its bytes are there");
    for entry in &header.entries {
        let (every, less) = match entry.name.rsplit_once('.') {
            Some(("embed", "shift")) => (1, 6),
            Some((of, "shift")) if [".q", ".k"].iter().any(|m| of.ends_with(m)) => (3, 13),
            Some((of, "shift")) if [".gate", ".up"].iter().any(|m| of.ends_with(m)) => (5, 17),
            // What the wide products of gate and up take back.
            Some((of, "shift")) if of.ends_with(".down") => (1, -28),
            _ => continue,
        };
        let shifts = &mut blob[entry.offset as usize..][..entry.length as usize];
        for shift in shifts.iter_mut().step_by(every) {
            *shift = (*shift as i8 - less) as u8;
        }
    }
    blob
}

/// With q/k norm and an own head on a residual of H_12 (x) H_8; without on one of H_20 (x) H_4; one long row; and the
/// static scheme with H_12 (x) H_16 on the intermediate.
pub(crate) fn cases() -> Vec<Case> {
    let norm = Dims {
        scheme: Scheme::Dynamic,
        hidden: 96,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 24,
        intermediate: 160,
        vocab: 67,
        accepted_ids: 61,
        max_context: 64,
        qk_norm: true,
        tied: false,
        eps: 1 << 50,
        stop_ids: vec![],
    };
    let plain = Dims {
        hidden: 80,
        head_dim: 16,
        qk_norm: false,
        tied: true,
        ..norm.clone()
    };
    let long = Dims {
        intermediate: 9216,
        layers: 1,
        ..plain.clone()
    };
    let constant = Dims {
        scheme: Scheme::Static,
        intermediate: 192,
        ..norm.clone()
    };
    let tokens: Vec<u32> = (0..40).map(|i| (i * i * 31 + i * 7 + 3) % 61).collect();
    let case = |name, dims, digest| Case {
        name,
        blob: blob(dims),
        tokens: tokens.clone(),
        digest,
    };
    vec![
        case(
            "norm",
            norm,
            "4d065a5a1fade709d2bb1aef3d21b6ccffe9785a18397b93e74a231842f66d80",
        ),
        case(
            "plain",
            plain,
            "4f6cc824274c7fead3c594f87d18230e32c5172e6081830d4b73babd926891d5",
        ),
        case(
            "long",
            long,
            "48106ad597662f2cbaa3ce7cae37d32680b909c729ae16c037417e2b633a268a",
        ),
        case(
            "static",
            constant,
            "dd7a2e82499694665c49a69fa74565153f1fab4849a0b5075910354c2d411ca4",
        ),
    ]
}
