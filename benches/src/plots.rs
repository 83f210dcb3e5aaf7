//! Plots of a record.

use std::fs;
use std::path::Path;

use crate::Error;
use crate::figures::{Figure, MACHINE, PEERS, What, figures, stream_limit};
use crate::record::Record;
use crate::svg::{Chart, Line};
use crate::synthetic;

/// File names, and what they show.
pub const TITLES: [(&str, &str); 4] = [
    ("decode.svg", "decode against context"),
    ("prefill.svg", "prefill against length"),
    ("batch.svg", "several sessions together"),
    ("threads.svg", "threads"),
];

/// File names, those of [`TITLES`] in order, and contents.
#[must_use]
pub fn plots(record: &Record) -> Vec<(&'static str, String)> {
    let all = figures(&record.series);
    let best = record.machine.kernel_sets.last().map_or("", String::as_str);
    let of = |what: What, engine: &str| -> Vec<&Figure> {
        let mut found: Vec<&Figure> = all
            .iter()
            .filter(|f| {
                let key = &f.key;
                key.what == what
                    && key.engine == engine
                    && key.subject == synthetic::NAME
                    && key.threads == record.threads
            })
            .collect();
        found.sort_by_key(|f| f.key.size);
        found
    };
    let rate = |f: &Figure| f.tokens_per_s().unwrap_or(0.0);
    let line = |name: &str, figures: &[&Figure], y: &dyn Fn(&Figure) -> f64| Line {
        name: name.to_owned(),
        points: figures.iter().map(|f| (f.key.size as f64, y(f))).collect(),
        computed: false,
    };
    let engines = [&[best][..], &PEERS[..]].concat();
    let lines = |what: What, y: &dyn Fn(&Figure) -> f64| -> Vec<Line> {
        let lines = engines
            .iter()
            .map(|engine| line(engine, &of(what, engine), y));
        lines.filter(|line| !line.points.is_empty()).collect()
    };
    let title = |what: &str| {
        let s = if record.threads == 1 { "" } else { "s" };
        format!(
            "{} {what}, {} thread{s}, {}",
            synthetic::NAME,
            record.threads,
            record.date
        )
    };
    let mut decode = lines(What::Decode, &|f| 1e3 * f.seconds / f.work.tokens);
    if let Some(limit) = stream_limit(&all, record.threads) {
        let points = of(What::Decode, best).into_iter();
        decode.push(Line {
            name: "bytes of weights, keys and values / streaming read".into(),
            points: points
                .map(|f| {
                    (
                        f.key.size as f64,
                        1e3 * f.work.bytes / f.work.tokens / limit,
                    )
                })
                .collect(),
            computed: true,
        });
    }
    let mut batch = lines(What::Batch, &rate);
    if let Some(one) = of(What::Batch, best).first() {
        let sizes = of(What::Batch, best).into_iter().map(|f| f.key.size as f64);
        let one = rate(one);
        batch.push(Line {
            name: "half of as many times one session".into(),
            points: sizes.map(|n| (n, n * one / 2.0)).collect(),
            computed: true,
        });
    }
    vec![
        (
            TITLES[0].0,
            chart(
                title("decode"),
                "context (tokens)",
                "milliseconds a token",
                false,
                decode,
            ),
        ),
        (
            TITLES[1].0,
            chart(
                title("prefill"),
                "prompt (tokens)",
                "tokens a second",
                true,
                lines(What::Prefill, &rate),
            ),
        ),
        (
            TITLES[2].0,
            chart(
                title("decode together"),
                "sessions",
                "tokens a second, all sessions",
                false,
                batch,
            ),
        ),
        (
            TITLES[3].0,
            chart(
                threads_title(record),
                "threads",
                "times one thread",
                false,
                threads(&all, best),
            ),
        ),
    ]
}

fn chart(title: String, x: &'static str, y: &'static str, log_x: bool, lines: Vec<Line>) -> String {
    Chart {
        title,
        x,
        y,
        log_x,
        lines,
    }
    .to_svg()
}

fn threads_title(record: &Record) -> String {
    format!("{} on several threads, {}", synthetic::NAME, record.date)
}

/// Speed relative to one thread, of decode, of prefill, and of the streaming read.
fn threads(all: &[Figure], best: &str) -> Vec<Line> {
    let relative = |name: &str, chosen: &dyn Fn(&Figure) -> bool, rate: &dyn Fn(&Figure) -> f64| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for figure in all.iter().filter(|f| chosen(f)) {
            let x = figure.key.threads as f64;
            match points.iter_mut().find(|p| p.0 == x) {
                Some(point) => point.1 = point.1.max(rate(figure)),
                None => points.push((x, rate(figure))),
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let one = points.first().filter(|p| p.0 == 1.0).map(|p| p.1);
        Line {
            name: name.to_owned(),
            points: one.map_or(Vec::new(), |one| {
                points.iter().map(|p| (p.0, p.1 / one)).collect()
            }),
            computed: false,
        }
    };
    let model = |what: What, size: usize| {
        move |f: &Figure| {
            f.key.what == what
                && f.key.size == size
                && f.key.engine == best
                && f.key.subject == synthetic::NAME
        }
    };
    let tokens = |f: &Figure| f.tokens_per_s().unwrap_or(0.0);
    vec![
        relative("decode at context 16", &model(What::Decode, 16), &tokens),
        relative("prefill of 128", &model(What::Prefill, 128), &tokens),
        relative(
            "streaming read",
            &|f| f.key.what == What::StreamRead && f.key.engine == MACHINE,
            &|f| f.work.bytes / f.seconds,
        ),
    ]
}

/// Writes the plots to files of `folder`.
///
/// # Errors
/// [`Error::File`].
pub fn write(record: &Record, folder: &Path) -> Result<(), Error> {
    for (name, text) in plots(record) {
        let path = folder.join(name);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Error::File { path, error })?;
    }
    Ok(())
}
