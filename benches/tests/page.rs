//! The page about speed shows what its record holds.

use std::fs;
use std::path::{Path, PathBuf};

use blue_bench::record::Record;
use blue_bench::{page, plots};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn figures_and_plots_are_those_of_the_record() {
    let text = fs::read_to_string(root().join("docs/PERFORMANCE.md")).unwrap();
    let (name, figures) = page::shown(&text).expect("the page shows a record");
    let record = Record::read(&root().join("benches/records").join(name)).unwrap();
    assert_eq!(
        figures,
        page::section(&record),
        "run `blue bench --from benches/records/{name} --page docs/PERFORMANCE.md`"
    );
    for (file, plot) in plots::plots(&record) {
        let path = root().join("docs/plots").join(file);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            plot,
            "{}",
            path.display()
        );
        assert!(
            text.contains(&format!("(plots/{file})")),
            "the page shows {file}"
        );
    }
}

#[test]
fn every_record_reads_back_as_it_was_written() {
    let mut records = 0;
    for entry in fs::read_dir(root().join("benches/records")).unwrap() {
        let path = entry.unwrap().path();
        let record = Record::read(&path).unwrap();
        assert_eq!(
            record.to_text(),
            fs::read_to_string(&path).unwrap(),
            "{}",
            path.display()
        );
        records += 1;
    }
    assert!(records > 0);
}

#[test]
fn a_page_without_marks_is_refused() {
    let path = std::env::temp_dir().join(format!("blue-bench-page-{}.md", std::process::id()));
    fs::write(&path, "# A page\n").unwrap();
    let record = fs::read_dir(root().join("benches/records"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let record = Record::read(&record.path()).unwrap();
    let error = page::rewrite(&path, "x.json", &record)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no line"), "{error}");
    fs::write(
        &path,
        "before\n<!-- figures of old -->\nstale\n<!-- end of figures -->\nafter\n",
    )
    .unwrap();
    page::rewrite(&path, "x.json", &record).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("before\n<!-- figures of x.json -->\n")
            && text.ends_with("<!-- end of figures -->\nafter\n")
    );
    assert!(!text.contains("stale"));
    fs::remove_file(path).unwrap();
}
