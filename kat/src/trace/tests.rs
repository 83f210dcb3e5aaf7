use std::num::NonZeroUsize;
use std::sync::Arc;

use int_engine::config::{Config, Dims};
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;

use super::*;
use crate::file::{BlobRecipe, Scheme, Style};

/// A small model of random weights.
pub(crate) fn model(layers: u32, qk_norm: bool) -> Arc<Model> {
    let config = Config::new(Dims {
        scheme: Scheme::Dynamic,
        hidden: 64,
        layers,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        intermediate: 96,
        vocab: 67,
        accepted_ids: 61,
        max_context: 48,
        qk_norm,
        tied: true,
        eps: 2_560_000,
        stop_ids: vec![],
    })
    .unwrap();
    let blob = crate::blob::build(&BlobRecipe {
        config,
        style: Style::Plausible,
        seed: 1,
    });
    Arc::new(Model::from_bytes(&blob).unwrap())
}

fn engine() -> CpuEngine {
    CpuEngine::new(model(2, true), Kernels::detect(), NonZeroUsize::MIN)
}

fn header(prompt: &[u32]) -> Header {
    Header {
        commitment: [7; 32],
        prompt: prompt.to_vec(),
        target: "scalar".into(),
        machine: "here \"and\" there".into(),
    }
}

fn entries(engine: &CpuEngine, prompt: &[u32], chunk: usize, values: bool) -> Vec<Entry> {
    let run = Run::new(engine, prompt, chunk, values).unwrap();
    run.map(Result::unwrap).collect()
}

fn write(header: &Header, entries: &[Entry]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text, header).unwrap();
    entries.iter().for_each(|e| writer.entry(e).unwrap());
    text
}

#[test]
fn a_run_is_in_order_and_complete_in_any_chunks() {
    let (engine, prompt) = (engine(), [3, 1, 4, 1, 5]);
    let config = engine.config();
    let (layer, layers) = (Op::ALL.iter().filter(|op| op.in_layer()), config.layers());
    let each = 1 + layer.count() * layers;
    for chunk in [1, 2, 5, 99] {
        let all = entries(&engine, &prompt, chunk, true);
        assert!(all.windows(2).all(|w| w[0].place < w[1].place), "{chunk}");
        let heads = prompt.len().div_ceil(chunk);
        assert_eq!(all.len(), prompt.len() * each + 5 * heads, "{chunk}");
        for e in &all {
            let values = e.values.as_ref().unwrap();
            assert_eq!((e.count, e.digest), (values.len(), row_digest(values)));
            assert_eq!(e.count, e.place.op.len(config), "{}", e.place);
            assert_eq!(
                Run::values_at(&engine, &prompt, chunk, e.place),
                Ok(Some(values.clone()))
            );
        }
    }
    let absent = Place {
        position: 5,
        layer: None,
        op: Op::Embed,
    };
    assert_eq!(Run::values_at(&engine, &prompt, 2, absent), Ok(None));
}

#[test]
fn a_run_refuses_what_cannot_be() {
    let engine = engine();
    let error = |prompt: &[u32], chunk, values| Run::new(&engine, prompt, chunk, values).err();
    assert_eq!(error(&[1], 0, false), Some(RunError::EmptyChunk));
    assert!(matches!(error(&[], 1, false), Some(RunError::Engine(_))));
    assert!(matches!(
        error(&[1, 61], 1, false),
        Some(RunError::Engine(_))
    ));
    assert_eq!(error(&[1, 2], usize::MAX, true), None);
    assert!(buffer_bytes(engine.config(), usize::MAX, true) > 1 << 30);
}

#[test]
fn what_is_written_is_read() {
    let (engine, prompt) = (engine(), [3, 1]);
    for values in [false, true] {
        let all = entries(&engine, &prompt, 1, values);
        let text = write(&header(&prompt), &all);
        let mut reader = Reader::new(&text[..]).unwrap();
        assert_eq!(reader.header(), &header(&prompt));
        assert_eq!(reader.by_ref().map(Result::unwrap).collect::<Vec<_>>(), all);
        // Without the last newline it is the same trace.
        let reader = Reader::new(&text[..text.len() - 1]).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), all.len());
    }
}

#[test]
fn large_values_are_text() {
    let values = vec![
        i64::MIN,
        -(1 << 53),
        1 - (1 << 53),
        0,
        (1 << 53) - 1,
        i64::MAX,
    ];
    let entry = Entry {
        place: Place {
            position: 0,
            layer: None,
            op: Op::Embed,
        },
        count: values.len(),
        digest: row_digest(&values),
        values: Some(values),
    };
    let text = write(&header(&[1]), std::slice::from_ref(&entry));
    let shown = String::from_utf8(text.clone()).unwrap();
    assert!(shown.contains(r#"["-9223372036854775808","-9007199254740992",-9007199254740991,0,"#));
    assert_eq!(
        Reader::new(&text[..]).unwrap().next().unwrap().unwrap(),
        entry
    );
}

const HEADER: &str =
    r#"{"schema":"blue-trace-1","commitment":"COMMIT","prompt":[1,2],"target":"t","machine":"m"}"#;
const LINE: &str = r#"{"position":0,"layer":1,"op":"q","count":2,"digest":"DIGEST"}"#;

/// The first error of a file of these lines; `COMMIT` and `DIGEST` stand for digests.
fn refused(lines: &[&str]) -> String {
    let text = lines
        .join("\n")
        .replace("COMMIT", &"0".repeat(64))
        .replace("DIGEST", &crate::hex::encode(&row_digest(&[5, 6])));
    match Reader::new(text.as_bytes()) {
        Err(e) => e.to_string(),
        Ok(mut reader) => {
            let error = reader.by_ref().find_map(Result::err).expect("a defect");
            assert!(reader.next().is_none(), "nothing follows an error");
            error.to_string()
        }
    }
}

#[test]
fn every_defect_is_named_with_its_line() {
    let with = |from: &str, to: &str| LINE.replace(from, to);
    let header = |from: &str, to: &str| HEADER.replace(from, to);
    for (text, says) in [
        (String::new(), "the file is empty"),
        ("\n".into(), "line 1: EOF"),
        ("[]".into(), "line 1: "),
        (
            header("trace-1", "trace-2"),
            "the schema is \"blue-trace-2\"",
        ),
        (header("[1,2]", "[]"), "the prompt has 0 ids"),
        (
            header("[1,2]", &format!("{:?}", vec![0; 32769])),
            "has 32769 ids",
        ),
        (header("[1,2]", "[1,4294967296]"), "line 1: "),
        (header("[1,2]", "[1,-2]"), "line 1: "),
        (
            header("COMMIT", "0xCOMMIT"),
            "line 1: `commitment` is not 64",
        ),
        (header("\"t\"", "7"), "line 1: invalid type"),
        (header(",\"machine\":\"m\"", ""), "missing field `machine`"),
        (header("\"m\"}", "\"m\",\"x\":1}"), "unknown field `x`"),
    ] {
        let found = refused(&[&text]);
        assert!(found.contains(says), "{text}: {found}");
    }
    for (text, says) in [
        (
            with("\"q\"", "\"qq\""),
            "line 3: no operation is named \"qq\"",
        ),
        (
            with("\"layer\":1", "\"layer\":null"),
            "line 3: `layer` of op q must be a number",
        ),
        (
            with("\"q\"", "\"embed\""),
            "line 3: `layer` of op embed must be null",
        ),
        (with("\"layer\":1,", ""), "line 3: missing field `layer`"),
        (
            with("\"position\":0", "\"position\":2"),
            "line 3: position 2 is outside the prompt of 2",
        ),
        (
            with("\"position\":0", "\"position\":-1"),
            "line 3: -1 is not a uint64",
        ),
        (
            with("\"position\":0", "\"position\":\"0x0\""),
            "line 3: \"0x0\" is not a uint64 in decimal digits",
        ),
        (
            with("\"position\":0", "\"position\":0.0"),
            "line 3: invalid type",
        ),
        (
            with("\"position\":0", "\"position\":0,\"position\":0"),
            "line 3: duplicate field",
        ),
        (
            LINE.into(),
            "line 3: position 0, layer 1, op q does not come after position 0, layer 1, op q",
        ),
        (with("\"layer\":1", "\"layer\":0"), "does not come after"),
        (
            with("DIGEST", "DIGES").replace("\"q\"", "\"k\""),
            "line 3: `digest` is not 64",
        ),
        (
            with("}", ",\"values\":[5,6]}")
                .replace("\"q\"", "\"k\"")
                .replace(":2,", ":3,"),
            "line 3: `count` is 3, but there are 2",
        ),
        (
            with("}", ",\"values\":[5,7]}").replace("\"q\"", "\"k\""),
            "line 3: `digest` is not the digest of the values",
        ),
        (
            with("}", ",\"values\":[5,6.0]}"),
            "line 3: invalid type: floating point",
        ),
        (
            with("}", ",\"values\":[5,9007199254740992]}"),
            "2^53 or more",
        ),
        (
            with("\"count\":2", "\"count\":9007199254740992"),
            "2^53 or more",
        ),
        (with("}", ",\"values\":null}"), "line 3: invalid type: null"),
        (
            with("}", ",\"values\":[5,\"+6\"]}"),
            "not an int64 in decimal digits",
        ),
        (
            with("}", ",\"values\":[5,\"9223372036854775808\"]}"),
            "not an int64",
        ),
        (
            with("}", ",\"values\":[5,\"06\"]}"),
            "not an int64 in decimal digits",
        ),
        (
            with("}", ",\"values\":[\"-0\",6]}"),
            "not an int64 in decimal digits",
        ),
        (
            with("\"position\":0", "\"position\":\"00\""),
            "not a uint64 in decimal digits",
        ),
        (
            with("\"count\":2", "\"count\":9007199254740992"),
            "2^53 or more",
        ),
        (
            "[0,1,\"q\",2,\"00\",null]".into(),
            "line 3: a list, must be an object",
        ),
        (with("}", ""), "line 3: EOF"),
        (with("}", "}}"), "line 3: trailing characters (column"),
        (String::from("\u{0}"), "line 3: expected value"),
    ] {
        let found = refused(&[HEADER, LINE, &text]);
        assert!(found.contains(says), "{text}: {found}");
    }
}

#[test]
fn an_integer_may_be_a_string_everywhere() {
    let header = HEADER.replace("COMMIT", &"0".repeat(64));
    let line = LINE.replace(
        "DIGEST",
        &row_digest(&[5, 6]).map(|b| format!("{b:02x}")).concat(),
    );
    let plain = [&header[..], &line].join("\n");
    let quoted = plain
        .replace("\"position\":0", "\"position\":\"0\"")
        .replace("\"layer\":1", "\"layer\":\"1\"")
        .replace("\"count\":2", "\"count\":\"2\"")
        .replace("\"prompt\":[1,", "\"prompt\":[\"1\",");
    assert_eq!(quoted.matches('"').count(), plain.matches('"').count() + 8);
    let all = |text: &str| {
        let reader = Reader::new(text.as_bytes()).unwrap();
        let header = reader.header().clone();
        (header, reader.map(Result::unwrap).collect::<Vec<_>>())
    };
    assert_eq!(all(&quoted), all(&plain));
}

#[test]
fn declared_sizes_reserve_nothing_and_lines_are_bounded() {
    let huge = LINE.replace("\"count\":2", "\"count\":\"18446744073709551615\"");
    let huge = huge.replace("\"layer\":1", "\"layer\":\"18446744073709551615\"");
    let text = [HEADER, &huge]
        .join("\n")
        .replace("COMMIT", &"0".repeat(64));
    let text = text.replace("DIGEST", &"0".repeat(64));
    let entry = Reader::new(text.as_bytes())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!((entry.count, entry.values), (usize::MAX, None));

    let endless = std::io::BufReader::new(std::io::repeat(b' '));
    assert!(matches!(
        Reader::new(endless),
        Err(TraceError::LineTooLong { line: 1 })
    ));
    assert!(refused(&[HEADER, &"[".repeat(100_000)]).starts_with("line 2: "));
}

#[test]
fn places_read_as_people_say_them() {
    let place = |layer, op| Place {
        position: 3,
        layer,
        op,
    };
    let text = |layer, op| place(layer, op).to_string();
    assert_eq!(
        text(Some(1), Op::QRotate),
        "position 3, layer 1, op q_rotate"
    );
    assert_eq!(text(None, Op::Embed), "position 3, op embed");
    assert_eq!(text(None, Op::Logits), "position 3, head, op logits");
}
