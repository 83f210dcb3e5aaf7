//! Sums that carry their proven range (spec 3.6) in builds with debug assertions.
//!
//! The specification bounds the sum of the *magnitudes* of each sum's terms, so that every partial sum, in any order,
//! fits the accumulator (spec 0.4). [`Proven`] keeps that sum of magnitudes beside the value and asserts its bound
//! when the value is taken. Without debug assertions it is the plain integer.
#![cfg_attr(
    not(debug_assertions),
    allow(dead_code, reason = "only the assertions read the bounds")
)]

/// A row of the table of spec 3.6: a quantity and how large it can be.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The quantity, as the table names it.
    pub(crate) quantity: &'static str,
    /// The largest magnitude of one term.
    pub(crate) term: u64,
    /// The largest number of terms.
    pub(crate) terms: usize,
}

/// Products of int8 values over the inputs of a matrix.
pub(crate) const DOT_PRODUCT: Bound = Bound {
    quantity: "dot product, K inputs",
    term: 127 * 127,
    terms: 65536,
};
/// Squares of values aligned to 24 bits.
pub(crate) const RMS_SUM: Bound = Bound {
    quantity: "rms sum",
    term: 1 << 48,
    terms: 8192,
};
/// The values of one block together, which bound every sum of some of them with any signs.
pub(crate) const ROTATION: Bound = Bound {
    quantity: "rotation of h, of x and of y in the head",
    term: (1 << 31) - 1,
    terms: 1,
};
/// Attention weights in Q15.
pub(crate) const DEN: Bound = Bound {
    quantity: "den",
    term: 1 << 15,
    terms: 32768,
};
/// Narrowed weights times value codes.
pub(crate) const WEIGHTED_VALUES: Bound = Bound {
    quantity: "n = sum w * v8",
    term: 127 << 15,
    terms: 32768,
};
/// An accumulator before its requantisation.
pub(crate) const SHIFTED: Bound = Bound {
    quantity: "acc << -psh",
    term: (1 << 31) - 1,
    terms: 1,
};
/// The gated activation.
pub(crate) const SWIGLU: Bound = Bound {
    quantity: "swiglu",
    term: 1 << 52,
    terms: 1,
};
/// A channel of an attention head.
pub(crate) const ATTENTION_OUTPUT: Bound = Bound {
    quantity: "attention output",
    term: 2_130_641_408,
    terms: 1,
};

impl Bound {
    /// Asserts that the magnitude of a sum of `terms` terms, or the sum of their magnitudes, is within the bound.
    #[cfg(debug_assertions)]
    #[track_caller]
    fn holds(&self, terms: usize, magnitude: u128) {
        let Self {
            quantity,
            term,
            terms: most,
        } = self;
        assert!(
            terms <= *most,
            "spec 3.6: {quantity}: {terms} terms, proven for at most {most}"
        );
        let limit = u128::from(*term) * terms as u128;
        assert!(
            magnitude <= limit,
            "spec 3.6: {quantity}: {terms} terms have magnitude {magnitude}, proven at most {limit}"
        );
    }

    /// `value`, which is asserted to be within the bound of one term.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn within(&self, value: i64) -> i64 {
        #[cfg(debug_assertions)]
        self.holds(1, value.unsigned_abs().into());
        value
    }

    /// Asserts that the magnitudes of each run of `len` values together are within the bound of one term.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn within_runs(&self, values: &[i32], len: usize) {
        #[cfg(debug_assertions)]
        for run in values.chunks(len) {
            let sum: u128 = run.iter().map(|v| u128::from(v.unsigned_abs())).sum();
            self.holds(1, sum);
        }
        #[cfg(not(debug_assertions))]
        let _ = (values, len);
    }
}

/// An integer that is summed.
pub(crate) trait Term: Copy + Default + PartialEq {
    /// Holds the sum of magnitudes of any sum that fits the memory of a machine.
    type Magnitude: Copy + Default + Into<u128>;
    /// `self + term`. With debug assertions it wraps, so that the assertion on the magnitudes is what speaks.
    fn plus(self, term: Self) -> Self;
    /// `sum` and the magnitude of `self`.
    fn magnitude_plus(self, sum: Self::Magnitude) -> Self::Magnitude;
}

macro_rules! terms {
    ($($term:ident: $wide:ident, $magnitude:ident;)*) => {
        $(impl Term for $term {
            type Magnitude = $wide;

            #[inline(always)]
            fn plus(self, term: Self) -> Self {
                #[cfg(debug_assertions)]
                return self.wrapping_add(term);
                #[cfg(not(debug_assertions))]
                return self + term;
            }

            #[inline(always)]
            fn magnitude_plus(self, sum: $wide) -> $wide {
                sum + $wide::from(self.$magnitude())
            }
        })*
    };
}

/// The magnitude of an unsigned value.
trait Unsigned {
    fn itself(self) -> Self;
}

impl Unsigned for u32 {
    fn itself(self) -> Self {
        self
    }
}

impl Unsigned for u64 {
    fn itself(self) -> Self {
        self
    }
}

terms! {
    i32: u64, unsigned_abs;
    u32: u64, itself;
    i64: u128, unsigned_abs;
    u64: u128, itself;
}

/// A sum that starts at zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proven<T: Term> {
    sum: T,
    #[cfg(debug_assertions)]
    magnitude: T::Magnitude,
}

impl<T: Term> Proven<T> {
    /// The empty sum.
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self {
            sum: T::default(),
            #[cfg(debug_assertions)]
            magnitude: T::Magnitude::default(),
        }
    }

    /// The sum with one more term.
    #[inline(always)]
    pub(crate) fn plus(self, term: T) -> Self {
        Self {
            sum: self.sum.plus(term),
            #[cfg(debug_assertions)]
            magnitude: term.magnitude_plus(self.magnitude),
        }
    }

    /// The value of a sum of `terms` terms, which is asserted to be as proven.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn value(self, bound: &Bound, terms: usize) -> T {
        #[cfg(debug_assertions)]
        bound.holds(terms, self.magnitude.into());
        #[cfg(not(debug_assertions))]
        let _ = (bound, terms);
        self.sum
    }
}

/// The sums of magnitudes of several sums whose terms come one for each at a time. Empty without debug assertions.
#[derive(Debug)]
pub(crate) struct Columns {
    #[cfg(debug_assertions)]
    magnitudes: Vec<u128>,
}

impl Columns {
    /// For `columns` sums.
    #[inline(always)]
    pub(crate) fn zero(columns: usize) -> Self {
        #[cfg(not(debug_assertions))]
        let _ = columns;
        Self {
            #[cfg(debug_assertions)]
            magnitudes: vec![0; columns],
        }
    }

    /// One more term of each sum.
    #[inline(always)]
    pub(crate) fn plus(&mut self, terms: impl Iterator<Item = i64>) {
        #[cfg(debug_assertions)]
        for (sum, term) in self.magnitudes.iter_mut().zip(terms) {
            *sum = term.magnitude_plus(*sum);
        }
        #[cfg(not(debug_assertions))]
        let _ = terms;
    }

    /// Asserts that sums of `terms` terms each are as proven.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn hold(self, bound: &Bound, terms: usize) {
        #[cfg(debug_assertions)]
        for magnitude in self.magnitudes {
            bound.holds(terms, magnitude);
        }
        #[cfg(not(debug_assertions))]
        let _ = (bound, terms);
    }
}

/// The sum of the terms, asserted to be as proven.
#[inline(always)]
#[track_caller]
pub(crate) fn sum<T: Term>(bound: &Bound, terms: impl ExactSizeIterator<Item = T>) -> T {
    let len = terms.len();
    terms
        .fold(Proven::zero(), |sum, term| sum.plus(term))
        .value(bound, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Kernels;

    const BOUNDS: [&Bound; 8] = [
        &DOT_PRODUCT,
        &RMS_SUM,
        &ROTATION,
        &DEN,
        &WEIGHTED_VALUES,
        &SHIFTED,
        &SWIGLU,
        &ATTENTION_OUTPUT,
    ];

    #[test]
    fn every_quantity_is_in_the_table() {
        let page = include_str!("../../../spec/3-forward.md");
        for bound in BOUNDS {
            assert!(
                page.contains(&format!("\n| {} | ", bound.quantity)),
                "{bound:?}"
            );
        }
    }

    #[test]
    fn a_sum_within_its_bound_is_the_plain_sum() {
        let terms = [127 * 127, -127 * 127, 5, 0];
        assert_eq!(sum(&DOT_PRODUCT, terms.iter().copied()), 5);
        assert_eq!(sum(&RMS_SUM, [1u64 << 48; 8192].into_iter()), 1 << 61);
        assert_eq!(sum(&DEN, [1u32 << 15; 32768].into_iter()), 1 << 30);
        let most = 127i64 << 15;
        assert_eq!(
            sum(&WEIGHTED_VALUES, vec![-most; 32768].into_iter()),
            -(most << 15)
        );
        assert_eq!(sum(&DOT_PRODUCT, [0i32; 0].into_iter()), 0);
        assert_eq!(SWIGLU.within(-(1 << 52)), -(1 << 52));
        ROTATION.within_runs(&[i32::MAX, 0, 1 << 30, -(1 << 30) + 1], 2);
    }

    #[cfg(not(debug_assertions))]
    #[test]
    fn without_debug_assertions_it_is_the_plain_integer() {
        assert_eq!(size_of::<Proven<i32>>(), size_of::<i32>());
        assert_eq!(size_of::<Proven<u64>>(), size_of::<u64>());
        assert_eq!(sum(&DOT_PRODUCT, [128 * 128].into_iter()), 128 * 128);
        assert_eq!(SWIGLU.within(1 << 53), 1 << 53);
        ROTATION.within_runs(&[i32::MAX, 1], 2);
        let mut out = [0];
        Kernels::scalar().multiply(&[-128], 1, &[-128], &mut out);
        assert_eq!(out, [128 * 128]);
    }

    /// Beyond their domains the kernels' sums say which bound is broken.
    #[cfg(debug_assertions)]
    mod with_debug_assertions {
        use super::*;

        const KERNELS: fn() -> &'static Kernels = Kernels::scalar;

        #[test]
        #[should_panic(expected = "spec 3.6: dot product, K inputs: 1 terms have magnitude 16384")]
        fn a_product_of_two_least_int8() {
            KERNELS().multiply(&[-128], 1, &[-128], &mut [0]);
        }

        #[test]
        #[should_panic(expected = "spec 3.6: dot product, K inputs: 2 terms")]
        fn terms_that_cancel_count() {
            // The value is 0; in another order or grouping a partial sum need not be.
            sum(&DOT_PRODUCT, [1 << 20, -(1 << 20)].into_iter());
        }

        #[test]
        #[should_panic(expected = "spec 3.6: dot product, K inputs: 65537 terms")]
        fn more_terms_than_proven() {
            sum(&DOT_PRODUCT, vec![0i32; 65537].into_iter());
        }

        #[test]
        #[should_panic(
            expected = "spec 3.6: dot product, K inputs: 3 terms have magnitude 6442450941"
        )]
        fn a_sum_that_leaves_its_type_is_reported_by_its_bound() {
            sum(&DOT_PRODUCT, [i32::MAX; 3].into_iter());
        }

        #[test]
        #[should_panic(expected = "spec 3.6: rms sum")]
        fn squares_of_values_that_are_not_aligned() {
            (KERNELS().sum_squares)(&[i32::MAX], 0);
        }

        #[test]
        #[should_panic(expected = "spec 3.6: rotation of h, of x and of y in the head")]
        fn a_run_without_headroom() {
            // The transform's own values would fit: 0 and 2^31 - 2, but not in every order.
            (KERNELS().butterflies)(&mut [1 << 30, 1 << 30], 2);
        }

        #[test]
        #[should_panic(expected = "spec 3.6: den: 32769 terms")]
        fn more_keys_than_a_context_holds() {
            let mut z = vec![0; 32769];
            (KERNELS().softmax_weights)(&mut z, 0, &[1; 32769], &mut [0; 32769]);
        }

        #[test]
        #[should_panic(expected = "spec 3.6: n = sum w * v8")]
        fn a_weight_that_was_not_narrowed() {
            KERNELS().weigh(&[1 << 15, u16::MAX], &[127, 127], 1, &mut [0]);
        }

        #[test]
        #[should_panic(expected = "spec 3.6: acc << -psh")]
        fn an_accumulator_without_room_for_its_shift() {
            crate::ops::requantize::requantize(1 << 26, 5, None, 1 << 30, 0, i32::MAX);
        }

        #[test]
        #[should_panic(expected = "spec 3.6: swiglu")]
        fn a_gate_that_was_not_saturated() {
            crate::ops::swiglu::swiglu(1 << 27, 1 << 26);
        }
    }
}
