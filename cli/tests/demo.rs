//! `blue demo` on the embedded model.

mod common;

use common::{blue, json_of, text_of};

#[test]
fn every_present_backend_equals_the_reference() {
    let demo = json_of(&mut blue(["demo", "--json"]));
    assert_eq!(demo["equal"], true);
    assert!(
        !demo["output_ids"].as_array().unwrap().is_empty()
            && !demo["text"].as_str().unwrap().is_empty()
    );
    let rows = demo["backends"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"reference") && names.contains(&"scalar"),
        "{names:?}"
    );
    for row in rows.iter().filter(|r| r["present"] == true) {
        assert_eq!(row["equal"], true, "{row}");
        assert_eq!(row["logits_digest"], rows[0]["logits_digest"]);
        assert!(row["tokens_per_s"].as_f64().unwrap() > 0.0);
    }
    // The answer is a function of the embedded blob alone.
    let again = json_of(&mut blue(["demo", "--json"]));
    assert_eq!(
        (&demo["output_ids"], &demo["commitment"]),
        (&again["output_ids"], &again["commitment"])
    );
}

#[test]
fn the_text_form_lists_every_backend() {
    let text = text_of(&mut blue(["demo"]));
    for part in [
        "prompt ids",
        "output ids",
        "commitment  0x",
        "reference",
        "scalar",
        "avx2",
        "verdict",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
