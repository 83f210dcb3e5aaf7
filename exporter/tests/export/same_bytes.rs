//! One checkpoint and one calibration give one blob.

use super::{A, B, C, bytes, load, open, options};
use exporter::{Progress, Scheme, calibration, export};
use float_engine::config::ConfigLayout;
use float_engine::source::{Checkpoint, SaveDtype, SaveOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    for name in [A, B, C] {
        let c = open(name);
        let [dynamic, fixed] = [Scheme::Dynamic, Scheme::Static].map(|scheme| {
            let with = |threads| {
                let mut o = options(&c, threads);
                o.scheme = scheme;
                bytes(&c, &o).unwrap()
            };
            let one = with(1);
            for threads in [2, 5] {
                let many = with(threads);
                assert!(one == many, "{name}, {scheme}, {threads} threads");
            }
            load(&one);
            one
        });
        assert!(dynamic != fixed);
    }
}

#[test]
fn the_stored_type_and_sharding_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    for (name, own) in [(A, SaveDtype::Bf16), (C, SaveDtype::F16)] {
        let c = open(name);
        let expected = bytes(&c, &options(&c, 1)).unwrap();
        for (dtype, shards) in [(own, 3), (SaveDtype::F32, 1), (SaveDtype::F32, 2)] {
            let save = SaveOptions {
                dtype,
                shards,
                layout: ConfigLayout::V4,
            };
            let copy = dir.path().join(format!("{own:?}-{dtype:?}-{shards}"));
            c.save_hf(&copy, &save).unwrap();
            let copy = Checkpoint::open(&copy).unwrap();
            let found = bytes(&copy, &options(&copy, 1)).unwrap();
            assert!(expected == found, "{name} as {dtype:?}");
        }
    }
}

/// Panics at the step after the given number of them.
struct StopAfter(usize);

impl Progress for StopAfter {
    fn stage(&mut self, _name: &str, _steps: u64) {}
    fn step(&mut self) {
        self.0 = self.0.checked_sub(1).expect("interrupted");
    }
}

#[test]
fn an_interrupted_export_resumes_to_the_same_bytes() {
    for (name, scheme) in [
        (A, Scheme::Dynamic),
        (B, Scheme::Dynamic),
        (B, Scheme::Static),
    ] {
        let c = open(name);
        let options = |c: &Checkpoint, threads| {
            let mut o = options(c, threads);
            o.scheme = scheme;
            o
        };
        let expected = bytes(&c, &options(&c, 1)).unwrap();
        let mut interruptions = 0;
        for steps in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("model.blob");
            let mut stop = StopAfter(steps);
            let run = || export(&c, &out, &options(&c, 1), &mut stop);
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                interruptions += 1;
                // In every second run one of the pieces is damaged.
                let partial = dir.path().join("model.blob.partial");
                let piece = std::fs::read_dir(&partial)
                    .ok()
                    .and_then(|pieces| pieces.map(|p| p.unwrap().path()).min());
                if let (1, Some(piece)) = (steps % 2, piece) {
                    let mut b = std::fs::read(&piece).unwrap();
                    let middle = b.len() / 2;
                    b[middle] ^= 4;
                    std::fs::write(&piece, b).unwrap();
                }
                export(&c, &out, &options(&c, 2), &mut ()).unwrap();
            }
            let found = std::fs::read(&out).unwrap();
            assert!(found == expected, "{name}, {scheme}, stopped after {steps}");
            let left = std::fs::read_dir(dir.path()).unwrap().count();
            assert_eq!(left, 1, "only the blob is left");
        }
        // Fingerprint, layers, tables, blob.
        assert!(interruptions > 2 * c.config().layers);
    }
}

#[test]
fn finished_layers_are_kept_and_those_of_another_calibration_are_not() {
    let c = open(C);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model.blob");
    let stop = |steps| {
        let mut stop = StopAfter(steps);
        let run = || export(&c, &out, &options(&c, 1), &mut stop);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    };
    stop(2);
    let first = dir.path().join("model.blob.partial/layer-000");
    let written = || std::fs::metadata(&first).unwrap().modified().unwrap();
    let before = written();
    stop(3);
    assert_eq!(written(), before);
    let mut other = options(&c, 1);
    other.calibration = calibration::random_windows(2, c.config().vocab, 3, 40);
    export(&c, &out, &other, &mut ()).unwrap();
    let found = std::fs::read(&out).unwrap();
    assert!(found == bytes(&c, &other).unwrap());
    assert!(found != bytes(&c, &options(&c, 1)).unwrap());
}

#[test]
fn finished_layers_of_the_other_scheme_are_not_used() {
    for name in [A, B] {
        let c = open(name);
        let fresh = [Scheme::Dynamic, Scheme::Static].map(|scheme| {
            let mut o = options(&c, 1);
            o.scheme = scheme;
            (bytes(&c, &o).unwrap(), o)
        });
        for (first, (expected, second)) in [(&fresh[0].1, &fresh[1]), (&fresh[1].1, &fresh[0])] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("model.blob");
            // Every layer is finished, and so is a table.
            let mut stop = StopAfter(c.config().layers + 2);
            let run = || export(&c, &out, first, &mut stop);
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert!(dir.path().join("model.blob.partial/layer-000").exists());
            export(&c, &out, second, &mut ()).unwrap();
            assert!(&std::fs::read(&out).unwrap() == expected, "{name}");
        }
    }
}
