//! Figures as rows of text.

use crate::figures::{Figure, PEERS, What, figures, peak_limit, stream_limit};
use crate::limits::Unit;
use crate::record::Record;

/// Head and rows of the table of limits.
#[must_use]
pub fn limits(record: &Record) -> Vec<Vec<String>> {
    let all = figures(&record.series);
    let mut rows = vec![
        ["limit", "threads", "median", "spread", "samples"]
            .map(String::from)
            .to_vec(),
    ];
    for figure in all
        .iter()
        .filter(|f| matches!(f.key.what, What::StreamRead | What::Peak))
    {
        let rate = if figure.key.what == What::Peak {
            format!(
                "{:.0} GOP/s",
                figure.work.operations / figure.seconds * 1e-9
            )
        } else {
            format!("{:.1} GB/s", figure.work.bytes / figure.seconds * 1e-9)
        };
        let name = figure.key.to_string();
        let name = name
            .rsplit_once(", ")
            .map_or(name.as_str(), |(name, _)| name);
        rows.push(vec![
            name.to_owned(),
            figure.key.threads.to_string(),
            rate,
            percent(figure.spread),
            samples(figure),
        ]);
    }
    rows
}

/// One line for each number of threads: the limits that figures are compared with.
#[must_use]
pub fn limit_lines(record: &Record) -> Vec<String> {
    let all = figures(&record.series);
    let mut counts = vec![1, record.threads];
    counts.dedup();
    counts
        .into_iter()
        .map(|threads| {
            let read =
                stream_limit(&all, threads).map_or("?".into(), |r| format!("{:.1} GB/s", r * 1e-9));
            let peaks = Unit::ALL.into_iter().filter_map(|unit| {
                let peak = peak_limit(&all, unit.kernels(), threads)?;
                Some(format!(", {} {:.0} GOP/s", unit.name(), peak * 1e-9))
            });
            let s = if threads == 1 { "" } else { "s" };
            format!(
                "limits, {threads} thread{s}: read {read}{}",
                peaks.collect::<String>()
            )
        })
        .collect()
}

/// Head and rows of the table of models.
#[must_use]
pub fn models(record: &Record) -> Vec<Vec<String>> {
    let all = figures(&record.series);
    let mut head: Vec<String> = [
        "measurement",
        "engine",
        "threads",
        "tokens/s",
        "ms",
        "least",
        "spread",
        "samples",
        "of limit",
    ]
    .map(String::from)
    .to_vec();
    head.push("ratio".into());
    let peers: Vec<usize> = (0..PEERS.len())
        .filter(|&i| all.iter().any(|f| f.times[i].is_some()))
        .collect();
    head.extend(peers.iter().map(|&i| format!("x {}", PEERS[i])));
    let mut rows = vec![head];
    for figure in all
        .iter()
        .filter(|f| !matches!(f.key.what, What::StreamRead | What::Peak))
    {
        let mut row = vec![
            title(figure),
            figure.key.engine.clone(),
            figure.key.threads.to_string(),
            figure
                .tokens_per_s()
                .map_or(String::new(), |rate| format!("{rate:.1}")),
            format!("{:.1}", figure.seconds * 1e3),
            format!("{:.1}", figure.least * 1e3),
            percent(figure.spread),
            samples(figure),
            figure
                .of_limit
                .map_or(String::new(), |(share, of)| format!("{share:.2} {of}")),
            figure
                .compared
                .map_or(String::new(), |(ratio, of)| format!("{ratio:.2} {of}")),
        ];
        row.extend(
            peers
                .iter()
                .map(|&i| figure.times[i].map_or(String::new(), |times| format!("{times:.2}"))),
        );
        rows.push(row);
    }
    rows
}

/// What is measured, without engine and threads.
fn title(figure: &Figure) -> String {
    let key = &figure.key;
    match key.what {
        What::StreamRead | What::Peak => String::new(),
        What::Decode => format!("{} decode, context {}", key.subject, key.size),
        What::Prefill => format!("{} prefill, {} tokens", key.subject, key.size),
        What::Products => format!(
            "{} products alone, {} token{}",
            key.subject,
            key.size,
            if key.size == 1 { "" } else { "s" }
        ),
        What::Batch => format!("{} decode, {} together", key.subject, key.size),
        What::Generate => format!("{} generate {} after 64", key.subject, key.size),
        What::Verify => format!("{} verify {} after 64", key.subject, key.size),
        What::OutsideWeightsMean => format!(
            "{} outside products with weights, context {}",
            key.subject, key.size
        ),
        What::OutsideWeights => format!(
            "{} no thread in a product with weights, context {}",
            key.subject, key.size
        ),
        What::OutsideProductsMean => {
            format!("{} outside all products, context {}", key.subject, key.size)
        }
        What::OutsideProducts => format!(
            "{} no thread in any product, context {}",
            key.subject, key.size
        ),
        What::Hash => format!("{} hash a file, {} MB", key.subject, key.size),
        What::HashPlain => format!("{} hash a file by sha3, {} MB", key.subject, key.size),
        What::Load => format!("{} load a file, {} MB", key.subject, key.size),
        What::CopyPlain => format!("{} repeats a text, {}", key.subject, key.size),
        What::CopyDrafted => format!("{} repeats a text, {}, drafts", key.subject, key.size),
        What::NewPlain => format!("{} writes a new text, {}", key.subject, key.size),
        What::NewDrafted => format!("{} writes a new text, {}, drafts", key.subject, key.size),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The samples used, and what was left out or could not be.
fn samples(figure: &Figure) -> String {
    let n = figure.samples;
    match (figure.disturbed, figure.left_out) {
        (true, _) => format!("{n} disturbed"),
        (false, 0) => n.to_string(),
        (false, out) => format!("{n} (+{out})"),
    }
}

/// How quiet the machine was, in one line.
#[must_use]
pub fn quietness(record: &Record) -> String {
    let samples: Vec<_> = record.series.iter().flat_map(|s| &s.samples).collect();
    let n = samples.len();
    let disturbed = samples.iter().filter(|s| s.noise.disturbed).count();
    let mean = |of: fn(&crate::quiet::Noise) -> f64| {
        let weighted: f64 = samples.iter().map(|s| of(&s.noise) * s.seconds).sum();
        weighted / samples.iter().map(|s| s.seconds).sum::<f64>().max(1e-9)
    };
    let load = |load: Option<[f64; 3]>| load.map_or("?".into(), |l| format!("{:.2}", l[0]));
    format!(
        "quietness: load {} before, {} after; other processes {:.1} % of the processors, stolen {:.1} %, waiting {:.1} %; \
         {disturbed} of {n} samples disturbed{}",
        load(record.load_before),
        load(record.load_after),
        100.0 * mean(|noise| noise.others),
        100.0 * mean(|noise| noise.steal),
        100.0 * mean(|noise| noise.delay),
        if 2 * disturbed > n {
            ": too busy a machine to trust these figures"
        } else {
            ""
        }
    )
}
