//! In builds with debug assertions sums assert the ranges that spec 3.6 proves; beyond the domains of the
//! operations they say which one is broken.

use int_reference::{KvHead, attend, had_forward, head_norm, rms};

#[test]
fn the_largest_sums_of_the_domains_are_within() {
    let largest = (1i64 << 31) - 1;
    assert_eq!(rms(&[largest; 8192], 0), ((1i64 << 61).isqrt(), -7));
    assert!(
        head_norm(&[-largest; 256], &[32767 << 15; 256])
            .iter()
            .all(|&y| y == -2048)
    );
    assert_eq!(had_forward(&[1 << 29, -(1 << 29)], 2), [0, 1 << 30]);
    let kv = KvHead {
        k8: vec![vec![0]; 32768],
        mk: vec![32767; 32768],
        v8: vec![vec![-127]; 32768],
        mv: vec![32767; 32768],
    };
    assert_eq!(attend(&[127], 32767, &kv, 1 << 30, 0), [-127 * 32767 * 256]);
}

#[cfg(debug_assertions)]
mod with_debug_assertions {
    use super::*;

    #[test]
    #[should_panic(expected = "spec 3.6: rms sum")]
    fn more_values_than_a_row_has() {
        rms(&[(1 << 31) - 1; 8193], 0);
    }

    #[test]
    #[should_panic(expected = "spec 3.6: rms sum")]
    fn more_values_than_a_head_has() {
        head_norm(&[(1 << 31) - 1; 257], &[0; 257]);
    }

    #[test]
    #[should_panic(expected = "spec 3.6: rotation of h, of x and of y in the head")]
    fn a_block_without_headroom() {
        // 2^31 in one order, 0 in another.
        had_forward(&[1 << 30, -(1 << 30)], 2);
    }

    #[test]
    #[should_panic(expected = "spec 3.6: dot product, K inputs")]
    fn a_code_of_minus_128() {
        let kv = KvHead {
            k8: vec![vec![-128]],
            mk: vec![1],
            v8: vec![vec![0]],
            mv: vec![0],
        };
        attend(&[-128], 1, &kv, 1 << 30, 0);
    }

    #[test]
    #[should_panic(expected = "spec 3.6: den")]
    fn more_keys_than_a_context_holds() {
        let kv = KvHead {
            k8: vec![vec![0]; 32769],
            mk: vec![1; 32769],
            v8: vec![vec![0]; 32769],
            mv: vec![0; 32769],
        };
        attend(&[1], 1, &kv, 1 << 30, 0);
    }
}
