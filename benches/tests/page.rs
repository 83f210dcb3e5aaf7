//! The page about speed shows what its record holds.

use std::fs;
use std::path::{Path, PathBuf};

use blue_bench::figures::{Key, MACHINE, What, Work};
use blue_bench::machine::Machine;
use blue_bench::quiet::Noise;
use blue_bench::record::Record;
use blue_bench::rounds::{Sample, Series};
use blue_bench::{page, plots};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every record of the repository.
fn records() -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(root().join("benches/records")) else {
        return Vec::new();
    };
    folder.map(|entry| entry.unwrap().path()).collect()
}

/// A record of this machine with one limit and one figure.
fn small() -> Record {
    let series = |what, engine: &str, bytes| Series {
        key: Key {
            what,
            subject: "qwen3-0.6b".into(),
            engine: engine.into(),
            threads: 2,
            size: 16,
        },
        work: Work {
            tokens: 16.0,
            bytes,
            operations: 0.0,
        },
        samples: vec![Sample {
            seconds: 0.5,
            noise: Noise::default(),
        }],
    };
    let machine = Machine::here();
    let best = machine.kernel_sets.last().unwrap().clone();
    Record {
        date: "2000-01-01".into(),
        machine,
        threads: 2,
        peers: vec![("candle".into(), "1; native".into())],
        load_before: Some([0.5, 0.25, 0.125]),
        load_after: None,
        memory: None,
        series: vec![
            series(What::StreamRead, MACHINE, 100.0),
            series(What::Decode, &best, 90.0),
            series(What::Decode, "candle", 0.0),
        ],
    }
}

#[test]
fn figures_and_plots_are_those_of_the_record() {
    let text = fs::read_to_string(root().join("docs/PERFORMANCE.md")).unwrap();
    let (name, figures) = page::shown(&text).expect("the page has marks");
    if name == page::NONE {
        assert!(records().is_empty(), "the page shows none of the records");
        assert!(figures.contains("blue bench"), "{figures}");
        return;
    }
    let record = Record::read(&root().join("benches/records").join(name)).unwrap();
    assert_eq!(
        figures,
        page::section(&record),
        "run `blue bench --from benches/records/{name} --page docs/PERFORMANCE.md --plot docs/plots`"
    );
    for (file, plot) in plots::plots(&record) {
        let path = root().join("docs/plots").join(file);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            plot,
            "{}",
            path.display()
        );
    }
}

#[test]
fn every_record_reads_back_as_it_was_written() {
    for path in records() {
        let record = Record::read(&path).unwrap();
        assert_eq!(
            record.to_text(),
            fs::read_to_string(&path).unwrap(),
            "{}",
            path.display()
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let record = small();
    let path = record.write(folder.path()).unwrap();
    assert_eq!(Record::read(&path).unwrap(), record);
}

#[test]
fn a_page_gets_the_figures_between_its_marks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.md");
    let record = small();
    fs::write(&path, "# A page\n").unwrap();
    for error in [page::check(&path), page::rewrite(&path, "x.json", &record)] {
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("page.md has no place for figures: it needs a line"),
            "{error}"
        );
    }
    fs::write(
        &path,
        "before\n<!-- figures of none -->\nstale\n<!-- end of figures -->\nafter\n",
    )
    .unwrap();
    page::check(&path).unwrap();
    page::rewrite(&path, "x.json", &record).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("before\n<!-- figures of x.json -->\n")
            && text.ends_with("<!-- end of figures -->\nafter\n")
    );
    assert!(!text.contains("stale"));
    assert_eq!(
        page::shown(&text),
        Some(("x.json", &page::section(&record)[..]))
    );
    for (file, plot) in plots::plots(&record) {
        assert!(text.contains(&format!("](plots/{file})")), "{file}");
        assert!(plot.starts_with("<svg") && plot.ends_with("</svg>\n"));
    }
    // Of what was not measured the page says so.
    assert!(text.contains(
        "| decode at context 16, of the streaming read | at least 0.850 | 0.900 | holds |"
    ));
    assert!(text.contains("not measured"));
    let again = text.clone();
    page::rewrite(&path, "x.json", &record).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), again);
}
