//! Operations of attention and of the feed-forward layer (spec 1.11 to 1.14) at the corners of their
//! domains.

use int_reference::*;

#[test]
fn head_norm_corners() {
    let full = 32767 << 15;
    assert_eq!(head_norm(&[0; 128], &[full; 128]), [0; 128], "a zero row");
    assert_eq!(head_norm(&[1 << 20, 0], &[full; 2]), [32767, 0]);
    assert_eq!(head_norm(&[I31, 0], &[-full; 2]), [-32767, 0]);
    for n in [2, 16, 256] {
        for v in [1, 1 << 24, I31, -I31] {
            for g in [full, -full, 0, 1] {
                let y = head_norm(&vec![v; n], &vec![g; n]);
                assert!(y.iter().all(|y| y.abs() <= I16));
                if v > 1 && g == full {
                    // Equal entries: each is 32767 / sqrt n.
                    assert!(
                        (y[0] * y[0] * n as i64 - 32767 * 32767).abs() <= 32767 * 32767 / 100,
                        "{n} times {v}: {}",
                        y[0]
                    );
                }
            }
        }
    }
}

#[test]
fn swiglu_corners() {
    let edge = 1 << 26;
    assert_eq!(swiglu(0, edge), 0);
    assert_eq!(
        swiglu(edge, edge),
        1 << 52,
        "silu is the identity far to the right"
    );
    assert_eq!(swiglu(-edge, edge), 0, "and zero far to the left");
    assert_eq!(swiglu(1 << 16, 1), 1 << 16, "from 16 on");
    assert_eq!(swiglu(-(1 << 16), 1), 0);
    assert_eq!(swiglu(4096, 1), 2994, "silu(1) = 0.7310586");
    assert_eq!(swiglu(-4096, 1), -1102, "silu(-1) = -0.2689414");
    for g in (0..=(1 << 16)).step_by(7) {
        // silu(g) - silu(-g) = g, up to the two roundings.
        assert!((swiglu(g, 1) - (g + swiglu(-g, 1))).abs() <= 1, "{g}");
    }
}

#[test]
fn exp2_weight_corners() {
    assert_eq!(exp2_weight(0), 32768);
    assert_eq!(exp2_weight(256), 16384);
    assert_eq!(exp2_weight(255), 16428);
    assert_eq!(exp2_weight(15 * 256), 1);
    assert_eq!(exp2_weight(16 * 256), 1, "one half rounds up");
    assert_eq!(exp2_weight(17 * 256), 0);
    assert_eq!(exp2_weight(30 * 256 + 255), 0);
    assert_eq!(exp2_weight(31 * 256), 0, "no shift above 30");
    assert_eq!(
        exp2_weight((1 << 31) - 2),
        0,
        "the largest difference of scores"
    );
    for d in 0..32 * 256 {
        assert!(
            exp2_weight(d) >= exp2_weight(d + 1),
            "not increasing at {d}"
        );
    }
}

fn keys(
    n: usize,
    hd: usize,
    k: impl Fn(usize) -> i8,
    mk: i64,
    v: impl Fn(usize) -> i8,
    mv: i64,
) -> KvHead {
    let rows = |code: &dyn Fn(usize) -> i8| (0..n).map(|s| vec![code(s); hd]).collect::<Vec<_>>();
    KvHead {
        k8: rows(&k),
        mk: vec![mk; n],
        v8: rows(&v),
        mv: vec![mv; n],
    }
}

#[test]
fn attend_answers() {
    // One key: the value itself, in units of 1 / (256 * 127).
    let kv = keys(1, 2, |_| 5, 100, |_| 127, 32767);
    assert_eq!(
        attend(&[1, 2], 50, &kv, 1 << 30, 30),
        [32767 * 127 * 256; 2]
    );
    // Two equal scores: the mean.
    let kv = keys(2, 2, |_| 5, 100, |s| if s == 0 { 127 } else { -127 }, 1000);
    assert_eq!(attend(&[1, 2], 50, &kv, 1 << 30, 30), [0; 2]);
    // Opposite keys and a large scale: the best key alone.
    let kv = keys(
        2,
        2,
        |s| if s == 0 { 127 } else { -127 },
        32767,
        |s| if s == 0 { 3 } else { -100 },
        1000,
    );
    assert_eq!(attend(&[127, 127], 32767, &kv, I31, 0), [3 * 1000 * 256; 2]);
}

#[test]
fn attend_corners() {
    for hd in [2, 256] {
        for n in [1, 2, 511, 512, 513, 32768] {
            for (k, v) in [(127i8, 127i8), (-127, 127), (127, -127)] {
                for (mk, mv) in [(32767, 32767), (0, 0), (32767, 0), (0, 32767), (1, 1)] {
                    if n == 32768 && hd == 256 && mk != mv {
                        continue; // the largest sums are those of full magnitudes
                    }
                    let kv = keys(n, hd, |s| if s % 2 == 0 { k } else { -k }, mk, |_| v, mv);
                    for (mult, shift) in [(1 << 30, 0), (I31, 0), (I31, 61), (1 << 30, 30)] {
                        let y = attend(&vec![127; hd], 32767, &kv, mult, shift);
                        assert!(y.iter().all(|x| x.abs() <= 2_130_641_408));
                        if mv == 0 {
                            assert!(y.iter().all(|&x| x == 0), "a zero value row");
                        } else if mv > 1 {
                            assert!(y.iter().all(|x| x.signum() == i64::from(v.signum())));
                        }
                    }
                }
            }
        }
    }
}
