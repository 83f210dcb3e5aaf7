use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::probe::Op;

use super::*;
use crate::trace::tests::model;
use crate::trace::{Writer, row_digest};

const PROMPT: [u32; 6] = [3, 1, 4, 1, 5, 9];
const LAYERS: usize = 3;

fn engine(kernels: &'static Kernels) -> CpuEngine {
    CpuEngine::new(model(LAYERS as u32, false), kernels, NonZeroUsize::MIN)
}

fn header(engine: &dyn Engine) -> Header {
    Header {
        commitment: engine.commitment().0,
        prompt: PROMPT.to_vec(),
        target: engine.backend().to_owned(),
        machine: "test".into(),
    }
}

/// The kernels of the portable backend, to be altered.
fn kernels() -> Kernels {
    Kernels {
        name: "faulty",
        ..*Kernels::scalar()
    }
}

fn run(a: (&CpuEngine, usize), b: (&CpuEngine, usize)) -> Report {
    let headers = [header(a.0), header(b.0)];
    let mut left = EngineSide::new(a.0, &headers[0], a.1).unwrap();
    let mut right = EngineSide::new(b.0, &headers[1], b.1).unwrap();
    bisect(&mut left, &mut right).unwrap()
}

fn text(engine: &CpuEngine, values: bool, keep: impl Fn(&Entry) -> bool) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text, &header(engine)).unwrap();
    for entry in Run::new(engine, &PROMPT, 1, values).unwrap() {
        let entry = entry.unwrap();
        if keep(&entry) {
            writer.entry(&entry).unwrap();
        }
    }
    text
}

fn files(a: &[u8], b: &[u8]) -> Result<Report, BisectError> {
    bisect(
        &mut FileSide::new(a).unwrap(),
        &mut FileSide::new(b).unwrap(),
    )
}

#[test]
fn equal_sides_have_no_difference() {
    let scalar = engine(Kernels::scalar());
    let best = engine(Kernels::detect());
    for chunks in [(1, 1), (1, 4), (99, 1), (99, 99)] {
        let report = run((&scalar, chunks.0), (&best, chunks.1));
        let heads = |chunk: usize| PROMPT.len().div_ceil(chunk) as u64;
        let layer_ops = Op::ALL.iter().filter(|op| op.in_layer()).count() - 2;
        let body = PROMPT.len() * (1 + LAYERS * layer_ops);
        let common = heads(chunks.0.max(chunks.1));
        assert_eq!(report.difference, None);
        assert_eq!(report.agreed, body as u64 + 5 * common, "{chunks:?}");
        assert_eq!(report.only_a, 5 * (heads(chunks.0) - common));
        assert_eq!(report.only_b, 5 * (heads(chunks.1) - common));
    }
}

/// Rounding towards minus infinity in the call of one position and layer; one call a position is the head's.
#[test]
fn a_fault_in_one_operation_of_one_layer_is_found() {
    static CALL: AtomicUsize = AtomicUsize::new(0);
    static FAULT: AtomicUsize = AtomicUsize::new(0);
    let faulty: &'static Kernels = Box::leak(Box::new(Kernels {
        narrow: |h, c, out| {
            (Kernels::scalar().narrow)(h, c, out);
            if CALL.fetch_add(1, Ordering::Relaxed) == FAULT.load(Ordering::Relaxed) {
                out.iter_mut()
                    .zip(h)
                    .for_each(|(out, &h)| *out = (h >> c) as i32);
            }
        },
        ..kernels()
    }));
    let (good, bad) = (engine(Kernels::scalar()), engine(faulty));
    for (position, layer) in [(0, 0), (0, 2), (4, 1)] {
        let fault = position * (LAYERS + 1) + layer;
        FAULT.store(fault, Ordering::Relaxed);
        let headers = [header(&good), header(&bad)];
        let mut left = EngineSide::new(&good, &headers[0], 1).unwrap();
        let mut right = Recorded {
            entries: {
                CALL.store(0, Ordering::Relaxed);
                let run = Run::new(&bad, &PROMPT, 1, true).unwrap();
                run.map(Result::unwrap).collect::<Vec<_>>().into_iter()
            },
            header: &headers[1],
        };
        let report = bisect(&mut left, &mut right).unwrap();
        let found = report.difference.expect("a fault");
        let place = Place {
            position,
            layer: Some(layer),
            op: Op::MlpRotate,
        };
        assert_eq!((found.place, found.unseen), (place, 0));
        assert_eq!(report.last_agreed.unwrap().op, Op::Swiglu);
        let element = found.element.expect("both sides have values");
        assert_ne!(element.a, element.b);
        assert!(element.differing >= 1);
    }
}

/// A side of entries at hand: the call count of the faulty kernel would not survive a second pass.
struct Recorded<'a> {
    entries: std::vec::IntoIter<Entry>,
    header: &'a Header,
}

impl Side for Recorded<'_> {
    fn header(&self) -> &Header {
        self.header
    }
    fn next(&mut self) -> Result<Option<Entry>, SideError> {
        Ok(self.entries.next())
    }
    fn values(&mut self, _: Place) -> Result<Option<Vec<i64>>, SideError> {
        Ok(None)
    }
}

/// A product that is wrong only for several tokens at once.
#[test]
fn a_fault_of_prefill_alone_is_found_against_single_tokens() {
    let faulty: &'static Kernels = Box::leak(Box::new(Kernels {
        gemm: |w, x, mut out| {
            let rows = out.rows();
            (Kernels::scalar().gemm)(w, x, out.part(0..rows));
            if x.tokens() == 4 && w.cols() == 96 && rows > 7 {
                out.token(2)[7] += 1 << 20;
            }
        },
        ..kernels()
    }));
    let bad = engine(faulty);
    assert_eq!(
        run((&bad, 1), (&engine(Kernels::scalar()), 1)).difference,
        None
    );
    let report = run((&bad, 4), (&bad, 1));
    let found = report.difference.expect("a fault");
    assert_eq!(
        found.place,
        Place {
            position: 2,
            layer: Some(0),
            op: Op::Down
        }
    );
    let element = found.element.expect("both sides compute");
    assert_eq!((element.index, element.differing), (7, 1));
}

#[test]
fn files_with_parts_are_compared_where_they_meet() {
    let engine = engine(Kernels::detect());
    let whole = text(&engine, true, |_| true);
    let lines = whole.iter().filter(|&&b| b == b'\n').count() as u64 - 1;
    let some = text(&engine, false, |e| {
        e.place.position == 3 && e.place.op > Op::K
    });
    let report = files(&whole, &some).unwrap();
    assert_eq!(report.difference, None);
    assert_eq!((report.agreed + report.only_a, report.only_b), (lines, 0));

    // An altered element of the third layer, in a trace without the operations from gate to swiglu.
    let mut altered = Vec::new();
    let mut writer = Writer::new(&mut altered, &header(&engine)).unwrap();
    for entry in Run::new(&engine, &PROMPT, 1, true).unwrap() {
        let mut entry = entry.unwrap();
        if (Op::Gate..=Op::Swiglu).contains(&entry.place.op) {
            continue;
        }
        if entry.place.position == 2
            && entry.place.layer == Some(2)
            && entry.place.op == Op::MlpRotate
        {
            let values = entry.values.as_mut().unwrap();
            values[17] += 1;
            entry.digest = row_digest(values);
        }
        writer.entry(&entry).unwrap();
    }
    for (a, b, up) in [(&whole, &altered, 1), (&altered, &whole, -1)] {
        let found = files(a, b).unwrap().difference.expect("altered");
        assert_eq!(
            found.place.to_string(),
            "position 2, layer 2, op mlp_rotate"
        );
        assert_eq!(found.unseen, 3);
        let element = found.element.unwrap();
        assert_eq!((element.index, element.differing), (17, 1));
        assert_eq!(element.b.unwrap() - element.a.unwrap(), up);
    }
    // With digests alone the element is unknown, unless the other side computes: both are needed.
    let digests = text(&engine, false, |_| true);
    let found = files(&digests, &altered).unwrap().difference.unwrap();
    assert_eq!(found.element, None);
    let own = header(&engine);
    let mut computed = EngineSide::new(&engine, &own, 3).unwrap();
    let report = bisect(&mut computed, &mut FileSide::new(&altered[..]).unwrap()).unwrap();
    assert_eq!(report.difference.unwrap().element.unwrap().index, 17);
}

#[test]
fn a_row_of_another_length_differs() {
    let row = |values: &[i64]| Element {
        index: 2,
        a: values.get(2).copied(),
        b: Some(9),
        differing: 1,
    };
    assert_eq!(first_difference(&[1, 2], &[1, 2, 9]), Some(row(&[1, 2])));
    assert_eq!(
        first_difference(&[1, 2, 8], &[1, 2, 9]),
        Some(row(&[1, 2, 8]))
    );
    assert_eq!(first_difference(&[1], &[1]), None);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let engine = engine(Kernels::detect());
    let whole = text(&engine, false, |_| true);
    let refused = |from: &str, to: &str| {
        let other = String::from_utf8(whole.clone())
            .unwrap()
            .replacen(from, to, 1);
        files(&whole, other.as_bytes()).unwrap_err().to_string()
    };
    let commitment = crate::hex::encode(&engine.commitment().0);
    let other = "0".repeat(64);
    assert_eq!(
        refused(&commitment, &other),
        format!("the traces are of different models: commitment {commitment} and {other}")
    );
    assert_eq!(
        refused("[3,1,4,", "[3,1,5,"),
        "the traces are of different prompts: id 2 is 4 and 5"
    );
    assert_eq!(
        refused("5,9]", "5,9,2]"),
        "the traces are of different prompts: 6 and 7 ids"
    );
    let parts = [Op::Q, Op::K].map(|op| text(&engine, false, |e| e.place.op == op));
    let count = (PROMPT.len() * LAYERS) as u64;
    assert!(matches!(
        files(&parts[0], &parts[1]),
        Err(BisectError::NothingInCommon { a, b }) if (a, b) == (count, count)
    ));
    // A defect is the side's that has it.
    let cut = &whole[..whole.len() - 9];
    assert!(matches!(
        files(&whole, cut),
        Err(BisectError::B(SideError::Trace(_)))
    ));
    assert!(matches!(
        files(cut, &whole),
        Err(BisectError::A(SideError::Trace(_)))
    ));
}
