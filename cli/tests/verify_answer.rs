//! `blue verify-answer` on answers of `blue generate`, whole, cut, continued and changed.

mod common;

use common::{blue, error_of, json_of, run, text_of};
use serde_json::{Value, json};

fn list(ids: &[u64]) -> String {
    let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
    ids.join(",")
}

/// The verdict on an answer after the prompt 1,2,3, and the exit code.
fn verdict(answer: &[u64], max_new: &str, more: &[&str]) -> (Value, i32) {
    let mut command = blue(["verify-answer", "--json", "--tokens", "1,2,3"]);
    command.args(["--answer", &list(answer), "--max-new", max_new]);
    let output = run(command.args(more));
    let verdict = serde_json::from_slice(&output.stdout).expect("JSON");
    (verdict, output.status.code().unwrap())
}

#[test]
fn the_answer_is_right_and_every_other_one_is_named() {
    let generate = ["generate", "--json", "--tokens", "1,2,3", "--max-new", "6"];
    let base = json_of(&mut blue(generate));
    let ids = base["output_ids"].as_array().unwrap();
    let ids: Vec<_> = ids.iter().map(|id| id.as_u64().unwrap()).collect();
    for more in [
        &[][..],
        &["--backend", "scalar"],
        &["--backend", "reference"],
        &["--threads", "3"],
    ] {
        let (right, code) = verdict(&ids, "6", more);
        assert_eq!((&right["right"], code), (&json!(true), 0), "{more:?}");
        assert_eq!(right["finish"], base["finish"]);
        assert_eq!(right["commitment"], base["commitment"]);
        let mut wrong = ids.clone();
        wrong[2] += 1;
        let longer = [&ids[..], &[7]].concat();
        for (answer, index, expected, claimed) in [
            (&wrong[..], 2, Some(ids[2]), Some(wrong[2])),
            (&ids[..4], 4, Some(ids[4]), None),
            (&[], 0, Some(ids[0]), None),
            (&longer, ids.len(), None, Some(7)),
        ] {
            let (found, code) = verdict(answer, "6", more);
            assert_eq!((&found["right"], code), (&json!(false), 3), "{more:?}");
            assert_eq!(found["finish"], Value::Null);
            assert_eq!(found["index"], json!(index));
            assert_eq!(found["expected"], json!(expected));
            assert_eq!(found["claimed"], json!(claimed));
        }
    }
    let command = |ids: &[u64]| {
        let mut command = blue(["verify-answer", "--tokens", "1,2,3", "--max-new", "6"]);
        command.args(["--answer", &list(ids)]);
        command
    };
    assert!(text_of(&mut command(&ids)).starts_with("right: 6 ids"));
    let error = error_of(&mut command(&ids[..5]), 3);
    assert!(
        error.contains("wrong at index 5: it has its end"),
        "{error}"
    );
}

#[test]
fn texts_and_hostile_ids() {
    let generate = [
        "generate",
        "--json",
        "--prompt",
        "It was a",
        "--max-new",
        "5",
    ];
    let base = json_of(&mut blue(generate));
    let ids = base["output_ids"].as_array().unwrap();
    let ids: Vec<_> = ids.iter().map(|id| id.as_u64().unwrap()).collect();
    let prompt = [
        "verify-answer",
        "--prompt",
        "It was a",
        "--max-new",
        "5",
        "--answer",
    ];
    text_of(blue(prompt).arg(list(&ids)));
    // An id that no answer holds is wrong; what is no id is a usage error.
    let error = error_of(blue(prompt).arg("4294967295"), 3);
    assert!(error.contains("index 0"), "{error}");
    for bad in ["-1", "1.5", "1,,2", "4294967296"] {
        error_of(blue(prompt).arg(bad), 2);
    }
    let empty = [
        "verify-answer",
        "--tokens",
        "1",
        "--max-new",
        "0",
        "--answer",
        "",
    ];
    assert!(text_of(&mut blue(empty)).contains("finish length"));
    let refused = [
        "verify-answer",
        "--max-new",
        "0",
        "--answer",
        "",
        "--tokens",
    ];
    for prompt in ["", "4294967295"] {
        error_of(blue(refused).arg(prompt), 2);
    }
}
