//! Sound backends agree; faulty ones are caught, named and replayed.

use super::*;

fn backends() -> Vec<(&'static str, &'static Kernels)> {
    vec![
        ("scalar", Kernels::scalar()),
        ("detected", Kernels::detect()),
    ]
}

fn run_plans(backends: &[(&'static str, &'static Kernels)], plans: &[Plan]) -> Outcome {
    let hidden = Progress::new("tokens", 0, true);
    differ(&tiny().unwrap(), backends, plans, &hidden).unwrap()
}

#[test]
fn plans_hold_the_tokens_asked_for_and_every_length() {
    let all = plans(7, 20_000, 512, 1536);
    let held = all.iter().map(|p| p.len).sum::<usize>();
    assert!((20_000..20_512).contains(&held));
    assert!(
        all.iter()
            .all(|p| (1..=p.len).contains(&p.prompt.len()) && p.len <= 512)
    );
    assert!(all.iter().any(|p| p.len < 9) && all.iter().any(|p| p.len > 300));
    assert_eq!(all[3], plan(7, 3, 512, 1536));
}

#[test]
fn sound_backends_agree_and_every_position_is_compared() {
    let outcome = run_plans(&backends(), &plans(3, 300, 512, 1536));
    assert_eq!(outcome.first, None);
    let names: Vec<_> = outcome
        .pairs
        .iter()
        .map(|p| (p.names.0.as_str(), p.names.1.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("reference", "scalar"),
            ("reference", "detected"),
            ("scalar", "detected")
        ]
    );
    for pair in &outcome.pairs {
        assert_eq!(pair.differences, 0);
        assert!(pair.tokens >= 300 && pair.rows >= pair.tokens && pair.chunks >= pair.sessions);
    }
}

/// Spec 1.2 with ties towards plus infinity: wrong for negative halves alone.
fn narrow_half_up(h: &[i64], c: u32, out: &mut [i32]) {
    for (out, &h) in out.iter_mut().zip(h) {
        *out = if c == 0 { h } else { (h + (1 << (c - 1))) >> c } as i32;
    }
}

/// Spec 3.3 without the saturation to the stored range, one unit off where a value is a multiple of 4096.
fn add_residual_rarely_wrong(x: &mut [i32], y: &[i32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x = x.saturating_add(*y).max(-i32::MAX);
        *x += i32::from(*x & 4095 == 4095);
    }
}

#[test]
fn a_faulty_backend_is_caught_named_and_replayed() {
    let faults = [
        Kernels {
            name: "half up",
            narrow: narrow_half_up,
            ..*Kernels::scalar()
        },
        Kernels {
            name: "rare",
            add_residual: add_residual_rarely_wrong,
            ..*Kernels::scalar()
        },
    ];
    for fault in faults {
        let fault: &'static Kernels = Box::leak(Box::new(fault));
        let backends = [("scalar", Kernels::scalar()), (fault.name, fault)];
        let outcome = run_plans(&backends, &plans(1, 300, 512, 1536));
        let differences: Vec<usize> = outcome.pairs.iter().map(|p| p.differences).collect();
        assert_eq!(differences[0], 0, "the scalar backend is sound");
        assert!(differences[1] > 0 && differences[2] > 0, "{}", fault.name);
        let first = outcome.first.expect("a difference");
        assert_eq!(first.names.1, fault.name);
        assert!(first.expected != first.found);
        let again = run_plans(&backends, &[plan(1, first.session, 512, 1536)]);
        assert_eq!(again.first, Some(first));
    }
}
