//! The matrix unit (AMX) for the products of several tokens; everything else, and a single token, as `avx512`.
//!
//! `tdpbssd` adds to each int32 of a tile the sums of four products of signed bytes, and wraps: nothing saturates on the
//! way, so a sum is exact whenever its value fits int32, in any order: |sum| <= 65536 * 127^2 < 2^30. Its second operand
//! is 16 groups of four columns of 16 rows, which is a kilobyte of a matrix in tiles as it lies in memory; its first is
//! 16 tokens by 64 columns of row-major inputs ([`Form::Rows`]).
//!
//! The unit's state belongs to a thread and is zero outside of [`gemm`]: each call configures it and releases it.
#![allow(unsafe_code)]

use super::super::Kernels;
use super::super::operands::{Form, INPUT_TILE, Inputs, Out};
use super::super::scalar;
use super::avx512;
use crate::tiles::{GROUP, TILE, View};
use core::arch::asm;

/// Bytes of a line: a group of a tile of weights.
const LINE: usize = TILE * GROUP;
/// Tokens of a tile of inputs, and columns.
const TOKENS: usize = INPUT_TILE[0];
const COLS: usize = INPUT_TILE[1];
/// Groups of a step: a tile of weights in the unit.
const GROUPS: usize = COLS / GROUP;
/// Bytes of a tile.
const BYTES: usize = GROUPS * LINE;

/// The table, if this CPU has the unit and the system lets this process use it. The functions of the table are reachable
/// through it alone.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    static KERNELS: std::sync::OnceLock<Option<Kernels>> = std::sync::OnceLock::new();
    let make = || {
        let base = avx512::kernels()?;
        (has_unit() && permitted()).then_some(Kernels {
            name: "amx",
            form: |tokens| match tokens {
                0 | 1 => (avx512::KERNELS.form)(tokens),
                _ => Form::Rows,
            },
            gemm,
            ..*base
        })
    };
    KERNELS.get_or_init(make).as_ref()
}

/// Whether the CPU has tiles and their products of int8.
fn has_unit() -> bool {
    // SAFETY: every x86-64 CPU has the instruction.
    #[allow(unused_unsafe)]
    let [most, features] = unsafe {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        [__cpuid(0).eax, __cpuid_count(7, 0).edx]
    };
    most >= 7 && features >> 24 & 3 == 3
}

/// Asks the system for the unit's state, which Linux gives to a process that asks for it.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        // SAFETY: the call takes two numbers and changes nothing but the permission.
        unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                ARCH_REQ_XCOMP_PERM,
                XFEATURE_XTILEDATA,
            ) == 0
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

/// Eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// A tile in memory.
#[repr(C, align(64))]
struct Tile<T, const N: usize>([T; N]);

fn gemm(weights: View<'_>, inputs: Inputs<'_>, mut out: Out<'_>) {
    if inputs.form() != Form::Rows {
        return (avx512::KERNELS.gemm)(weights, inputs, out);
    }
    scalar::check(weights, inputs, &out, Form::Rows);
    let tiles = weights.rows().div_ceil(TILE);
    let (groups, width) = (weights.groups(), weights.cols().next_multiple_of(COLS));
    assert!(
        weights.data().len() == tiles * groups * LINE
            && inputs.data().len() == inputs.tokens().next_multiple_of(TOKENS) * width,
        "whole tiles"
    );
    let product = Product {
        tiles: weights.data().as_ptr(),
        groups,
        rows: weights.rows(),
        inputs: inputs.data().as_ptr(),
        width,
        tokens: inputs.tokens(),
        out: out.as_mut_ptr(),
        stride: out.stride(),
    };
    // SAFETY: `kernels` hands out the table only where the unit may be used; the pointers are those of slices of whole
    // tiles and of an exclusive output with one element per row and token.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly, preserves_flags));
        product.run();
        asm!("tilerelease", options(nostack, nomem, preserves_flags));
    }
}

/// The operands of `gemm`.
struct Product {
    tiles: *const i8,
    groups: usize,
    rows: usize,
    inputs: *const i8,
    /// Bytes from a token to the next.
    width: usize,
    tokens: usize,
    out: *mut i32,
    stride: usize,
}

/// [`steps!`].
type Steps = unsafe fn([*const i8; 2], usize, [*const i8; 2], usize, *const i8, usize) -> *const i8;

/// The steps of MT tiles of tokens with NT tiles of rows. Sums are tmm0 to tmm3, `[MT][2]`; inputs tmm4 and tmm5; weights
/// tmm6 and tmm7.
macro_rules! steps {
    ($name:ident: $($line:literal)*) => {
        /// Adds `steps` > 0 steps; requests `lines` > 0 lines from `next` in each, returns where the requests end.
        ///
        /// # Safety
        /// The unit is configured; `steps` tiles lie behind each pointer in use, inputs `width` bytes apart.
        #[inline]
        unsafe fn $name(
            x: [*const i8; 2],
            width: usize,
            w: [*const i8; 2],
            steps: usize,
            next: *const i8,
            lines: usize,
        ) -> *const i8 {
            let mut next = next;
            // SAFETY: the caller's; a request of any address is harmless.
            unsafe {
                asm!(
                    "2:",
                    $($line,)*
                    "add {x0}, 64",
                    "add {x1}, 64",
                    "add {w0}, 1024",
                    "add {w1}, 1024",
                    "mov {count}, {lines}",
                    "3:",
                    "prefetcht1 [{next}]",
                    "add {next}, 64",
                    "dec {count}",
                    "jnz 3b",
                    "dec {steps}",
                    "jnz 2b",
                    x0 = inout(reg) x[0] => _,
                    x1 = inout(reg) x[1] => _,
                    w0 = inout(reg) w[0] => _,
                    w1 = inout(reg) w[1] => _,
                    next = inout(reg) next,
                    steps = inout(reg) steps => _,
                    count = out(reg) _,
                    lines = in(reg) lines,
                    width = in(reg) width,
                    line = in(reg) LINE,
                    options(nostack, readonly),
                );
            }
            next
        }
    };
}

steps!(steps_2_2:
    "tileloadd tmm4, [{x0} + {width}*1]"
    "tileloadd tmm6, [{w0} + {line}*1]"
    "tdpbssd tmm0, tmm4, tmm6"
    "tileloadd tmm7, [{w1} + {line}*1]"
    "tdpbssd tmm1, tmm4, tmm7"
    "tileloadd tmm5, [{x1} + {width}*1]"
    "tdpbssd tmm2, tmm5, tmm6"
    "tdpbssd tmm3, tmm5, tmm7");
steps!(steps_2_1:
    "tileloadd tmm4, [{x0} + {width}*1]"
    "tileloadd tmm6, [{w0} + {line}*1]"
    "tdpbssd tmm0, tmm4, tmm6"
    "tileloadd tmm5, [{x1} + {width}*1]"
    "tdpbssd tmm2, tmm5, tmm6");
steps!(steps_1_2:
    "tileloadd tmm4, [{x0} + {width}*1]"
    "tileloadd tmm6, [{w0} + {line}*1]"
    "tdpbssd tmm0, tmm4, tmm6"
    "tileloadd tmm7, [{w1} + {line}*1]"
    "tdpbssd tmm1, tmm4, tmm7");
steps!(steps_1_1:
    "tileloadd tmm4, [{x0} + {width}*1]"
    "tileloadd tmm6, [{w0} + {line}*1]"
    "tdpbssd tmm0, tmm4, tmm6");

impl Product {
    /// # Safety
    /// The unit is configured; valid operands.
    unsafe fn run(&self) {
        let pair = 2 * TILE;
        for row in (0..self.rows).step_by(pair) {
            // The tiles that follow in memory, if there are any: a request of any address is harmless.
            let mut next = self
                .tiles
                .wrapping_add((row / TILE + 2) * self.groups * LINE);
            let two = row + TILE < self.rows;
            for token in (0..self.tokens).step_by(2 * TOKENS) {
                // SAFETY: the caller's; a tile of rows and one of tokens begin here.
                next = unsafe { self.block(row, two, token, next) };
            }
        }
    }

    /// One or two tiles of rows from `row` with one or two tiles of tokens from `token`.
    ///
    /// # Safety
    /// The unit is configured; valid operands; each tile begins before the end.
    unsafe fn block(&self, row: usize, two: bool, token: usize, next: *const i8) -> *const i8 {
        let (whole, rest) = (self.groups / GROUPS, self.groups % GROUPS);
        let blocks = self.tokens.div_ceil(2 * TOKENS);
        let lines = (2 * GROUPS).div_ceil(blocks);
        let second = token + TOKENS < self.tokens;
        let steps: Steps = match (second, two) {
            (true, true) => steps_2_2,
            (true, false) => steps_2_1,
            (false, true) => steps_1_2,
            (false, false) => steps_1_1,
        };
        let tile = self.groups * LINE;
        // The second pointers are used only where there is a second tile.
        let w = self.tiles.wrapping_add(row / TILE * tile);
        let x = self.inputs.wrapping_add(token * self.width);
        let (mut w, mut x) = (
            [w, w.wrapping_add(tile)],
            [x, x.wrapping_add(TOKENS * self.width)],
        );
        let mut next = next;
        // SAFETY: the caller's; `whole` steps of every tile in use lie in memory. The rest of a tile of weights is
        // copied to a tile filled up with zeros, and inputs are filled up with zeros.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                options(nostack, nomem, preserves_flags)
            );
            if whole > 0 {
                next = steps(x, self.width, w, whole, next, lines);
                w = w.map(|w| w.wrapping_add(whole * BYTES));
                x = x.map(|x| x.wrapping_add(whole * COLS));
            }
            if rest > 0 {
                let mut ends = [const { Tile([0i8; BYTES]) }; 2];
                for (end, w) in ends.iter_mut().zip(w).take(1 + usize::from(two)) {
                    core::ptr::copy_nonoverlapping(w, end.0.as_mut_ptr(), rest * LINE);
                }
                let w = [ends[0].0.as_ptr(), ends[1].0.as_ptr()];
                next = steps(x, self.width, w, 1, next, lines);
            }
            self.store(0, row, token);
            if two {
                self.store(1, row + TILE, token);
            }
            if second {
                self.store(2, row, token + TOKENS);
            }
            if second && two {
                self.store(3, row + TILE, token + TOKENS);
            }
        }
        next
    }

    /// Stores a tile of sums.
    ///
    /// # Safety
    /// The unit is configured; valid operands; a tile of rows begins at `row` and one of tokens at `token`.
    unsafe fn store(&self, register: usize, row: usize, token: usize) {
        let (rows, tokens) = (TILE.min(self.rows - row), TOKENS.min(self.tokens - token));
        // SAFETY: the tile, or the part of it that the output has, lies within the output; the copy is a whole tile.
        unsafe {
            let out = self.out.add(token * self.stride + row);
            if rows == TILE && tokens == TOKENS {
                return store_tile(register, out, self.stride);
            }
            let mut copy = Tile([0i32; TOKENS * TILE]);
            store_tile(register, copy.0.as_mut_ptr(), TILE);
            for (t, sums) in copy.0.chunks_exact(TILE).take(tokens).enumerate() {
                core::ptr::copy_nonoverlapping(sums.as_ptr(), out.add(t * self.stride), rows);
            }
        }
    }
}

/// Stores tmm0 to tmm3 to 16 rows of 16 elements, `stride` elements apart.
///
/// # Safety
/// The unit is configured; the rows are writable.
unsafe fn store_tile(register: usize, out: *mut i32, stride: usize) {
    let stride = stride * size_of::<i32>();
    macro_rules! store {
        ($line:literal) => {
            // SAFETY: the caller's.
            unsafe { asm!($line, out = in(reg) out, stride = in(reg) stride, options(nostack, preserves_flags)) }
        };
    }
    match register {
        0 => store!("tilestored [{out} + {stride}*1], tmm0"),
        1 => store!("tilestored [{out} + {stride}*1], tmm1"),
        2 => store!("tilestored [{out} + {stride}*1], tmm2"),
        _ => store!("tilestored [{out} + {stride}*1], tmm3"),
    }
}
