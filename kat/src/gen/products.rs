//! Cases of requantisation and of linear layers (spec 1.8, 3.2).

use int_reference as spec;

use super::{Cases, I31, drawn, fill, first_at_least, int, list, spread};
use crate::op::Value;
use crate::row::{Row, Stream};

const LIMITS: [i64; 4] = [32767, 1 << 22, 1 << 26, I31];
const MULT: (i64, i64) = (1 << 30, I31);

type Scale = Option<(i64, i64)>;

/// A row of accumulators where the result changes, for one multiplier, shift and scale; and the ends.
fn steps(psh: i64, scale: Scale, mult: i64, shift: i64, limit: i64) -> Vec<i64> {
    let top = I31 >> -psh;
    let f = |acc: i64| spec::requantize(acc, psh, scale, mult, shift, limit);
    let reach = f(top);
    let mut wanted = vec![1, 2, 3, reach / 2, reach, limit];
    wanted.extend([1 - limit, -1, 0, -reach / 2]);
    let found = wanted
        .iter()
        .filter_map(|&w| first_at_least(-top, top, w, f));
    let mut acc: Vec<i64> = found.flat_map(|a| [a, (a - 1).max(-top)]).collect();
    acc.extend([-top, -1, 0, 1, top]);
    acc.sort_unstable();
    acc.dedup();
    acc
}

fn add(
    cases: &mut Cases,
    name: String,
    psh: i64,
    scale: Scale,
    columns: [Vec<i64>; 3],
    limit: i64,
) {
    let [acc, mult, shift] = columns;
    for (i, at) in (0..acc.len()).step_by(40).enumerate() {
        let end = (at + 40).min(acc.len());
        cases.add(
            format!("{name} {i}"),
            vec![
                list(&acc[at..end]),
                int(psh),
                Value::Scale(scale),
                list(&mult[at..end]),
                list(&shift[at..end]),
                int(limit),
            ],
        );
    }
}

pub(super) fn requantize(cases: &mut Cases) {
    // One shift a case group, at every change of form: left shifts that saturate, none, right shifts, past the end.
    for shift in [
        -64i64, -33, -32, -31, -30, -2, -1, 0, 1, 2, 9, 15, 24, 30, 31, 32, 33, 61, 62, 63, 64,
    ] {
        for (mult, name) in [
            (MULT.0, "smallest"),
            (MULT.1, "largest"),
            (1_373_157_221, "a"),
        ] {
            let limit = LIMITS[(shift.unsigned_abs() % 4) as usize];
            let acc = steps(0, None, mult, shift, limit);
            let columns = [acc.clone(), vec![mult; acc.len()], vec![shift; acc.len()]];
            add(
                cases,
                format!("shift {shift}, {name} mult, limit {limit}"),
                0,
                None,
                columns,
                limit,
            );
        }
    }
    // Token scales move the exponent past both ends; a zero scale gives zeros.
    let scales = [
        (0, 0),
        (1 << 30, -1),
        (I31, -31),
        (1 << 30, 37),
        (1_234_567_891, -73),
        (1_111_111_111, 0),
        (I31, 5),
        (1 << 30, -128),
        (1 << 30, 128),
        (1, 0),
        (1500, -3),
    ];
    let mut s = Stream::new(30);
    for (t, te) in scales {
        for shift in [
            -64,
            -31 - te,
            -30 - te,
            -te - 32,
            -te,
            1 - te,
            8 - te,
            31 - te,
            32 - te,
            62 - te,
            63 - te,
            64,
        ] {
            if !(-64..=64).contains(&shift) {
                continue;
            }
            let mult = s.draw(MULT.0, MULT.1);
            let limit = s.pick(&LIMITS);
            let psh = s.draw(-5, 0);
            let acc = steps(psh, Some((t, te)), mult, shift, limit);
            let columns = [acc.clone(), vec![mult; acc.len()], vec![shift; acc.len()]];
            add(
                cases,
                format!(
                    "scale {t} * 2^{}, shift {shift}, psh {psh}, limit {limit}",
                    -te
                ),
                psh,
                Some((t, te)),
                columns,
                limit,
            );
        }
    }
    for psh in -5..=0i64 {
        let top = I31 >> -psh;
        let acc = vec![-top, -top + 1, -3, -1, 0, 1, 2, 3, top - 1, top];
        for (scale, name) in [(None, "no scale"), (Some((1_700_000_001, -4)), "a scale")] {
            let columns = [acc.clone(), vec![1_234_567_890; 10], vec![1; 10]];
            add(
                cases,
                format!("psh {psh}, {name}"),
                psh,
                scale,
                columns,
                I31,
            );
        }
    }
    published(cases);
    mixed(cases);
}

fn published(cases: &mut Cases) {
    let known = [
        (7984, 1_583_594_044, 9),
        (1, 1 << 30, 1),
        (5, 1 << 30, 1),
        (-1, 1 << 30, 0),
        (-3, 1 << 30, 1),
        (-966_241_705, 1_373_157_221, 0),
    ];
    let columns = [
        known.iter().map(|k| k.0).collect(),
        known.iter().map(|k| k.1).collect(),
        known.iter().map(|k| k.2).collect(),
    ];
    add(cases, "published values".into(), 0, None, columns, I31);
}

/// Rows whose outputs differ in everything, as those of a matrix do.
fn mixed(cases: &mut Cases) {
    let mut s = Stream::new(31);
    for i in 0..24u64 {
        let psh = -((i % 6) as i64);
        let scale = (i % 3 != 0).then(|| (s.draw(1 << 30, I31), s.draw(-31, 37)));
        let base = scale.map_or(0, |(_, e)| -e);
        let n = [1, 7, 8, 9, 16, 17, 31, 33, 40, 40][(i % 10) as usize];
        let top = I31 >> -psh;
        let acc = spread(&mut s, n, 31)
            .iter()
            .map(|v| v.clamp(&-top, &top).to_owned())
            .collect();
        let mult = (0..n).map(|_| s.draw(MULT.0, MULT.1)).collect();
        let shift = (0..n)
            .map(|_| (base + s.draw(-8, 24)).clamp(-64, 64))
            .collect();
        add(
            cases,
            format!("mixed {i}"),
            psh,
            scale,
            [acc, mult, shift],
            LIMITS[(i % 4) as usize],
        );
    }
    for (i, n) in [(0u64, 96usize), (1, 3072)] {
        cases.add(
            format!("a row of {n}"),
            vec![
                drawn(500 + i, n, -(1 << 24), 1 << 24),
                int(-5),
                Value::Scale(Some((1_999_999_999, 11))),
                drawn(502 + i, n, MULT.0, MULT.1),
                drawn(504 + i, n, -16, 16),
                int(LIMITS[i as usize + 1]),
            ],
        );
    }
}

/// One linear layer.
struct Layer {
    cols: usize,
    rows: usize,
    weight: Value,
    q: Value,
    scale: Scale,
    limit: i64,
}

fn psh_of(weight: &Value, cols: usize) -> i64 {
    let Value::Row(row) = weight else {
        unreachable!("a weight is a row")
    };
    let sums = row
        .expand()
        .chunks(cols)
        .map(|r| r.iter().map(|w| w.abs()).sum::<i64>())
        .max();
    (spec::bl(127 * sums.unwrap_or(0)) - 31).max(-5)
}

fn layer(cases: &mut Cases, name: String, seed: u64, l: Layer) {
    let psh = psh_of(&l.weight, l.cols);
    let mut s = Stream::new(seed);
    // Shifts that keep some results within the limit and let others saturate.
    let base = l.scale.map_or(0, |(_, e)| -e) - psh;
    let mult: Vec<i64> = (0..l.rows).map(|_| s.draw(MULT.0, MULT.1)).collect();
    let shift: Vec<i64> = (0..l.rows)
        .map(|_| (base + s.draw(-2, 9)).clamp(-64, 64))
        .collect();
    cases.add(
        name,
        vec![
            l.weight,
            int(psh),
            list(&mult),
            list(&shift),
            l.q,
            Value::Scale(l.scale),
            int(l.limit),
        ],
    );
}

pub(super) fn linear(cases: &mut Cases) {
    let lengths = [
        1usize, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 127, 128, 129, 160, 255, 256,
        257, 1024, 3072,
    ];
    for (i, &cols) in lengths.iter().enumerate() {
        let rows = [1, 2, 3, 4, 5, 7, 8, 9, 17][i % 9];
        let seed = 600 + 10 * i as u64;
        let scale = (i % 2 == 1).then_some((1_300_000_003, 7));
        let l = Layer {
            cols,
            rows,
            weight: drawn(seed, rows * cols, -127, 127),
            q: drawn(seed + 1, cols, -127, 127),
            scale,
            limit: LIMITS[i % 4],
        };
        layer(cases, format!("{rows} x {cols}"), seed + 2, l);
    }
    // Sums as large as they get: a saturating or 16-bit accumulate shows.
    let signs = [
        ("127 * 127", 127, 127),
        ("127 * -127", 127, -127),
        ("-127 * 127", -127, 127),
        ("-127 * -127", -127, -127),
    ];
    for (i, (name, w, q)) in signs.into_iter().enumerate() {
        for cols in [2usize, 32, 33, 64, 3072, 4161, 65536] {
            let rows = if cols > 4000 { 1 } else { 3 };
            let l = Layer {
                cols,
                rows,
                weight: fill(w, rows * cols),
                q: fill(q, cols),
                scale: None,
                limit: I31,
            };
            layer(cases, format!("{name}, {rows} x {cols}"), 700 + i as u64, l);
        }
    }
    for (i, cols) in [(0u64, 64usize), (1, 96), (2, 33)] {
        // Alternating signs cancel in pairs, the last ones do not.
        let pair = |n: usize, w: i64| {
            Value::Row(Row::List(
                (0..n).map(|k| if k % 2 == 0 { w } else { -w }).collect(),
            ))
        };
        let l = Layer {
            cols,
            rows: 1,
            weight: pair(cols, 127),
            q: fill(-127, cols),
            scale: Some((1 << 30, -3)),
            limit: I31,
        };
        layer(cases, format!("alternating signs, {cols}"), 710 + i, l);
    }
    let zero = Layer {
        cols: 40,
        rows: 3,
        weight: fill(0, 120),
        q: drawn(720, 40, -127, 127),
        scale: None,
        limit: I31,
    };
    layer(cases, "zero weights".into(), 721, zero);
    let zero = Layer {
        cols: 40,
        rows: 3,
        weight: drawn(722, 120, -127, 127),
        q: drawn(723, 40, -127, 127),
        scale: Some((0, 0)),
        limit: I31,
    };
    layer(cases, "zero scale".into(), 724, zero);
}
