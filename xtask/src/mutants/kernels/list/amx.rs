//! The kernels of the matrix unit; one token and everything else are those of AVX-512.

use super::{Mutant, m};

const AMX: &str = "kernels/x86_64/amx.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-rest",
        AMX,
        "block",
        "tail: groups that fill no tile of weights are left out",
        &[("rest > 0", "false")],
    ),
    m(
        "gemm-rest-short",
        AMX,
        "block",
        "tail: the last of the groups that fill no tile is left out",
        &[("rest * LINE", "(rest - 1) * LINE")],
    ),
    m(
        "gemm-rest-inputs",
        AMX,
        "block",
        "tail: groups that fill no tile meet the first inputs",
        &[("x.wrapping_add(whole * COLS)", "x")],
    ),
    m(
        "gemm-rest-weights",
        AMX,
        "block",
        "tail: the first groups are taken for those that fill no tile",
        &[("w.wrapping_add(whole * BYTES)", "w")],
    ),
    m(
        "gemm-second-rows",
        AMX,
        "run",
        "tail: a second tile that is an edge tile is left out",
        &[("row + TILE < self.rows", "row + 2 * TILE <= self.rows")],
    ),
    m(
        "gemm-second-tokens",
        AMX,
        "block",
        "tail: a second tile of tokens that is not whole is left out",
        &[(
            "token + TOKENS < self.tokens",
            "token + 2 * TOKENS <= self.tokens",
        )],
    ),
    m(
        "gemm-edge-overwrites",
        AMX,
        "store",
        "tail: an edge tile stores 16 rows",
        &[("rows == TILE && tokens == TOKENS", "tokens == TOKENS")],
    ),
    m(
        "gemm-edge-tokens",
        AMX,
        "store",
        "tail: the last token of a tile that is not whole is left out",
        &[(
            "TOKENS.min(self.tokens - token)",
            "(if self.tokens - token < TOKENS { self.tokens - token - 1 } else { TOKENS })",
        )],
    ),
    m(
        "gemm-register",
        AMX,
        "block",
        "the sums of the second tokens are those of the second rows",
        &[(
            "self.store(2, row, token + TOKENS);",
            "self.store(1, row, token + TOKENS);",
        )],
    ),
    m(
        "gemm-last-register",
        AMX,
        "block",
        "the sums of the second rows with the second tokens are not stored",
        &[("second && two", "false")],
    ),
];
