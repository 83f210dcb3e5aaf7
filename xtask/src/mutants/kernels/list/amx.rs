//! The kernels of the matrix unit; one token and everything else are those of AVX-512.

use super::{Mutant, m};

const PRODUCT: &str = "kernels/x86_64/amx/product.rs";
const SUMS: &str = "kernels/x86_64/amx/sums.rs";
/// Its requantisation is that of AVX-512.
const ROWS: &str = "kernels/x86_64/avx512/rows.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "gemm-rest",
        PRODUCT,
        "block",
        "tail: groups that fill no tile of weights are left out",
        &[("rest > 0", "false")],
    ),
    m(
        "gemm-rest-short",
        PRODUCT,
        "block",
        "tail: the last of the groups that fill no tile is left out",
        &[("rest * LINE", "(rest - 1) * LINE")],
    ),
    m(
        "gemm-inputs-step",
        PRODUCT,
        "block",
        "every step meets the first inputs",
        &[("x.wrapping_add(TOKENS * COLS)", "x")],
    ),
    m(
        "gemm-weights-step",
        PRODUCT,
        "block",
        "every step meets the first weights",
        &[("w.wrapping_add(BYTES)", "w")],
    ),
    m(
        "gemm-second-rows",
        PRODUCT,
        "run",
        "tail: a second tile that is an edge tile is left out",
        &[("row + TILE < self.rows", "row + 2 * TILE <= self.rows")],
    ),
    m(
        "gemm-second-tokens",
        PRODUCT,
        "run",
        "tail: a second tile of tokens that is not whole is left out",
        &[(
            "token + TOKENS < self.tokens",
            "token + 2 * TOKENS <= self.tokens",
        )],
    ),
    m(
        "gemm-last-block",
        PRODUCT,
        "run",
        "tail: the outputs of the last block are not written",
        &[("self.finish::<END>(&mut waiting, BLOCK);", "")],
    ),
    m(
        "gemm-tokens-end",
        PRODUCT,
        "run",
        "tail: the last token of a block that is not whole is left out",
        &[(
            "self.tokens.min(token + BLOCK)",
            "(self.tokens - 1).min(token + BLOCK)",
        )],
    ),
    m(
        "gemm-edge-overwrites",
        PRODUCT,
        "waiting",
        "tail: an edge tile stores 16 rows",
        &[(
            "lanes(self.rows.saturating_sub(row))",
            "lanes(self.rows.saturating_sub(row).next_multiple_of(TILE))",
        )],
    ),
    m(
        "linear-constants",
        PRODUCT,
        "waiting",
        "the second tile of rows has the constants of the first",
        &[("row + i * TILE", "row")],
    ),
    m(
        "linear-scale",
        PRODUCT,
        "finish",
        "each token has the scale of the block's first",
        &[(
            "*self.scales.get_unchecked(waiting.token)",
            "*self.scales.get_unchecked(waiting.first)",
        )],
    ),
    m(
        "gemm-waiting",
        PRODUCT,
        "finish",
        "the sums of the second tile of tokens are those of the first",
        &[(
            "(waiting.token - waiting.first)",
            "((waiting.token - waiting.first) % TOKENS)",
        )],
    ),
    m(
        "linear-share",
        PRODUCT,
        "step",
        "the steps of a block leave some sums of the block before",
        &[("share / 2", "0")],
    ),
    m(
        "linear-limit",
        ROWS,
        "outputs",
        "outputs do not stop at the limit",
        &[("_mm512_min_epi32(m, self.limit)", "m")],
    ),
    m(
        "gemm-register",
        PRODUCT,
        "store",
        "the sums of the second tokens go where those of the second rows belong",
        &[(
            "store!(\"tmm2\", TOKENS * stride);",
            "store!(\"tmm2\", TILE);",
        )],
    ),
    m(
        "gemm-last-register",
        PRODUCT,
        "store",
        "the sums of the second rows with the second tokens are not stored",
        &[("store!(\"tmm3\", TOKENS * stride + TILE);", "")],
    ),
    m(
        "weighted-sum-high",
        SUMS,
        "combine",
        "correction: the high bytes of weights count half",
        &[("high << 8", "high << 7")],
    ),
    m(
        "weighted-sum-second",
        SUMS,
        "block",
        "tail: a second tile of rows is left out",
        &[("!n1.is_empty()", "false")],
    ),
    m(
        "weighted-sum-short-page",
        SUMS,
        "block",
        "tail: a page that is not whole is read at the first channels",
        &[("&line[at * GROUP..][..LINE]", "&line[..LINE]")],
    ),
    m(
        "weighted-sum-runs",
        SUMS,
        "block",
        "each run of keys has the weights of the first",
        &[("run * RUN", "run * 0")],
    ),
];
