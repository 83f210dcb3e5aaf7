//! The CPU kernels: one table of plain functions a backend, all with the same results.
//!
//! A backend may take the sums in any order (spec 0.4: every partial sum fits the accumulator), may
//! round magnitudes instead of signed values where the rounding is symmetric, and must otherwise
//! equal the scalar backend on every input of the stated domains. The choice is a value held by its owner:
//! there is no global and nothing is read from the environment.

use crate::buffer::{Buffer, LINE};
use crate::ops::attention::{Normalizer, QueryScale};
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::ops::rope::CosSin;
use crate::ops::rotation::HeadRotation;
use crate::tiles::{self, TILE, Tiles, View};
use operands::{Form, Inputs, Out, PAGE, Values};

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
))]
mod blocks;
#[cfg(test)]
mod conformance;
mod heads;
pub mod operands;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// The functions of one backend. Lengths that do not fit together are a caller's mistake and panic.
#[derive(Debug)]
pub struct Kernels {
    /// The backend's name, as [`Kernels::by_name`] takes it.
    pub name: &'static str,
    /// The form in which `gemm` and `linear` take the inputs of so many tokens.
    pub form: fn(usize) -> Form,
    /// `gemm(weights, inputs, out)`: `out[t][r] = sum_k weights[r][k] * inputs[t][k]` in int32.
    ///
    /// `out` `[tokens][rows]`; weights in -127 ..= 127, inputs in -127 ..= 127: |out| <= 65536 * 127^2 < 2^30.
    pub gemm: fn(View<'_>, Inputs<'_>, Out<'_>),
    /// `linear(kernels, weights, inputs, scales, channels, out)`: spec 3.2, `gemm` and then `requantize` of each token's
    /// outputs with its scale, one per token or none. `kernels` is the table itself.
    pub linear: fn(&Self, View<'_>, Inputs<'_>, Option<&[TokenScale]>, Channels<'_>, Out<'_>),
    /// `weighted_sum(w, values, n)`: `n[r][i] = sum_s w[r][s] * values[s][i]`; at most 32768 weights w_s <= 2^15 a row.
    ///
    /// `w` `[rows][keys]`, `n` `[rows][width]`; values in -127 ..= 127: |n| < 2^37.
    pub weighted_sum: fn(&[u16], Values<'_>, &mut [i64]),
    /// The largest magnitude of a row of |u_i| <= 2^31 - 1; 0 for an empty row.
    pub max_abs: fn(&[i32]) -> u32,
    /// `quantize(u, m, q)`: spec 1.5 for a row of magnitudes at most m < 2^31; all zeros for m = 0.
    pub quantize: fn(&[i32], u32, &mut [i8]),
    /// `sum_squares(x, sh)`: the sum of spec 1.6 without eps; sh = max(0, bl(max |x_i|) - 24).
    pub sum_squares: fn(&[i32], u32) -> u64,
    /// `requantize(row, scale, channels)`: spec 1.8 in place.
    pub requantize: fn(&mut [i32], Option<TokenScale>, Channels<'_>),
    /// `add_residual(x, y)`: x_i = sat(x_i + y_i, 2^31 - 1); inputs above -2^31.
    pub add_residual: fn(&mut [i32], &[i32]),
    /// `butterflies(x, size)`: the Walsh-Hadamard transform of every run of `size` values, in place.
    pub butterflies: fn(&mut [i32], usize),
    /// `swiglu(g, u, h)`: spec 1.12 on a row; returns the largest magnitude.
    pub swiglu: fn(&[i32], &[i32], &mut [i64]) -> u64,
    /// `narrow(h, c, out)`: rdbpot(h_i, c), |h_i| <= 2^52, results within int32.
    pub narrow: fn(&[i64], u32, &mut [i32]),
    /// `log_scores(scale, dots, mk)`: scores of spec 1.14 in place of dot products; returns the largest.
    /// |dot| <= 256 * 127^2, mk in 0 ..= 32767.
    pub log_scores: fn(QueryScale, &mut [i32], &[u16]) -> i32,
    /// `softmax_weights(z, top, mv, w)`: the weights of spec 1.14, mv in 0 ..= 32767; `z` is overwritten.
    pub softmax_weights: fn(&mut [i32], i32, &[u16], &mut [u16]) -> Normalizer,
    /// `attention_output(normalizer, n, out)`: the outputs of spec 1.14; |n_i| < 2^37.
    pub attention_output: fn(Normalizer, &[i64], &mut [i32]),
    /// `head_norm(x, gain)`: spec 1.11 in place for one head of at most 256 values.
    pub head_norm: fn(&mut [i32], &[i32]),
    /// `rope(x, cos_sin, limit)`: spec 1.9 in place for one head, then sat(x_i, limit); |x_i| <= 2^22.
    pub rope: fn(&mut [i32], &[CosSin], i32),
    /// `round_shift(x, r, limit)`: x_i = sat(rdbpot(x_i, r), limit); r <= 31.
    pub round_shift: fn(&mut [i32], u32, i32),
    /// `rotate_heads(row, rotation, codes, largest)`: spec 1.11 with gains, 1.9, 1.10, the shift saturated to 2^15 - 1, and
    /// 1.5, for each head of a token: codes and largest magnitudes. `row` is overwritten.
    pub rotate_heads: fn(&mut [i32], HeadRotation<'_>, &mut [i8], &mut [u16]),
    /// `apply_gain(y, gain, out)`: out_i = y_i * gain_i; returns the largest magnitude.
    pub apply_gain: fn(&[i32], &[i16], &mut [i64]) -> u64,
    /// The largest value; -2^31 for an empty row.
    pub largest: fn(&[i32]) -> i32,
}

/// Rows of a product that are requantised while their accumulators are in the cache, when there are several tokens: a
/// multiple of what the backends multiply at once.
pub const PANEL: usize = 6 * TILE;

/// [`Kernels::linear`] in two steps for each panel.
fn linear_by_panels(
    kernels: &Kernels,
    weights: View<'_>,
    inputs: Inputs<'_>,
    scales: Option<&[TokenScale]>,
    channels: Channels<'_>,
    mut out: Out<'_>,
) {
    let (rows, tokens) = (weights.rows(), inputs.tokens());
    let panel = if tokens == 1 { rows.max(1) } else { PANEL };
    for start in (0..rows).step_by(panel) {
        let range = start..rows.min(start + panel);
        let mut out = out.part(range.clone());
        (kernels.gemm)(
            weights.part(range.clone()),
            inputs,
            out.part(0..range.len()),
        );
        let channels = channels.part(range);
        for t in 0..tokens {
            (kernels.requantize)(out.token(t), scales.map(|s| s[t]), channels);
        }
    }
}

impl Kernels {
    /// `gemm` of row-major operands, which are packed for this one call: `weights` `[rows][cols]`, `x`
    /// `[tokens][cols]`, `out` `[tokens][rows]`.
    ///
    /// # Panics
    /// When the lengths do not fit together, or `cols` is not in 1 ..= 65536.
    pub fn multiply(&self, weights: &[i8], cols: usize, x: &[i8], out: &mut [i32]) {
        assert!((1..=65536).contains(&cols), "1 <= cols <= 65536");
        let tiles = Tiles::pack(weights, cols);
        assert_eq!(
            out.len() * cols,
            tiles.rows() * x.len(),
            "one output per row and token"
        );
        if out.is_empty() {
            return;
        }
        let mut memory = Buffer::default();
        memory
            .grow(Inputs::room(x.len() / cols, cols), "inputs")
            .expect("memory for packed inputs");
        let form = (self.form)(x.len() / cols);
        let inputs = Inputs::pack(x, cols, form, memory.bytes_mut());
        (self.gemm)(tiles.view(), inputs, Out::new(out, tiles.rows()));
    }

    /// `weighted_sum` of row-major values, `[keys][width]`, which are grouped for this one call.
    ///
    /// # Panics
    /// When the lengths do not fit together.
    pub fn weigh(&self, w: &[u16], values: &[i8], width: usize, n: &mut [i64]) {
        let grouped = tiles::group_values(values, width);
        let pages: Vec<_> = grouped.chunks(PAGE * width).collect();
        (self.weighted_sum)(w, Values::new(values.len() / width, width, &pages), n);
    }

    /// The portable backend, present everywhere.
    #[must_use]
    pub fn scalar() -> &'static Self {
        &scalar::KERNELS
    }

    /// Every backend that this crate knows, the slowest first, with `None` where this CPU or target lacks it.
    ///
    /// On Linux this asks the system once for the use of the matrix unit, where there is one; from then on the process
    /// cannot give a thread an alternate signal stack too small for the unit's state.
    #[must_use]
    pub fn all() -> [(&'static str, Option<&'static Self>); 6] {
        #[cfg(target_arch = "x86_64")]
        let [avx2, avxvnni, avx512, amx] = [
            x86_64::avx2::kernels(),
            x86_64::avxvnni::kernels(),
            x86_64::avx512::kernels(),
            x86_64::amx::kernels(),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let [avx2, avxvnni, avx512, amx] = [None; 4];
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        let neon = aarch64::neon::kernels();
        #[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
        let neon = None;
        [
            ("scalar", Some(Self::scalar())),
            ("avx2", avx2),
            ("avxvnni", avxvnni),
            ("avx512", avx512),
            ("amx", amx),
            ("neon", neon),
        ]
    }

    /// The fastest backend of this CPU.
    #[must_use]
    pub fn detect() -> &'static Self {
        Self::all()
            .into_iter()
            .rev()
            .find_map(|(_, kernels)| kernels)
            .unwrap_or(Self::scalar())
    }

    /// A backend by name.
    ///
    /// # Errors
    /// When no backend has the name, or this machine lacks it.
    pub fn by_name(name: &str) -> Result<&'static Self, BackendError> {
        match Self::all().into_iter().find(|(known, _)| *known == name) {
            Some((_, Some(kernels))) => Ok(kernels),
            Some((name, None)) => Err(BackendError::Absent(name)),
            None => Err(BackendError::Unknown(name.to_owned())),
        }
    }
}

/// Asks for memory to be brought near the calling thread. It changes no result.
#[inline]
pub(crate) fn prefetch<T>(memory: &[T]) {
    let start: *const u8 = memory.as_ptr().cast();
    for offset in (0..size_of_val(memory)).step_by(LINE) {
        let line = start.wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        x86_64::prefetch(line);
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        aarch64::prefetch(line);
        #[cfg(not(any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little")
        )))]
        let _ = line;
    }
}

/// Why a backend cannot be had by name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BackendError {
    /// No backend has the name.
    #[error("backend `{0}` is unknown, must be one of {names}", names = Kernels::all().map(|(name, _)| name).join(", "))]
    Unknown(String),
    /// The backend exists, but not on this CPU or target.
    #[error("backend `{0}` needs instructions that this machine lacks")]
    Absent(&'static str),
}
