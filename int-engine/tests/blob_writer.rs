//! The writer takes each tensor once, in order, whole and within its ranges.

mod sample;

use int_engine::blob::{BlobError, Header, WriteError, Writer};
use int_engine::commitment::{commitment, verify_chunk};
use int_engine::config::{Config, Dims, Scheme};
use sample::sample;
use std::io::{self, Write};

fn config() -> Config {
    Config::new(Dims {
        scheme: Scheme::Dynamic,
        hidden: 8,
        layers: 1,
        heads: 2,
        kv_heads: 2,
        head_dim: 4,
        intermediate: 8,
        vocab: 9000,
        accepted_ids: 9000,
        max_context: 8,
        qk_norm: true,
        tied: false,
        eps: 1,
        stop_ids: vec![],
    })
    .unwrap()
}

type Tensors = Vec<(String, Vec<u8>)>;

/// A writer that has taken the first `count` tensors of the sample.
fn after(count: usize) -> (Writer<Vec<u8>>, Tensors) {
    let blob = sample(&config(), 4);
    let header = Header::parse(&blob).unwrap();
    let tensors: Tensors = header
        .entries
        .iter()
        .map(|e| {
            (
                e.name.clone(),
                blob[e.offset as usize..(e.offset + e.length) as usize].to_vec(),
            )
        })
        .collect();
    let mut writer = Writer::new(Vec::new(), &config(), [0; 32], header.metadata).unwrap();
    for (name, bytes) in &tensors[..count] {
        assert_eq!(writer.expected().map(|e| &e.name), Some(name));
        writer.tensor(name, bytes).unwrap();
    }
    (writer, tensors)
}

#[test]
fn order() {
    let (mut writer, tensors) = after(3);
    let error = writer.tensor(&tensors[4].0, &tensors[4].1).unwrap_err();
    assert!(
        matches!(&error, WriteError::Order { expected, found } if *expected == tensors[3].0 && *found == tensors[4].0)
    );
    let (mut writer, tensors) = after(3);
    assert!(matches!(
        writer.tensor(&tensors[2].0, &tensors[2].1),
        Err(WriteError::Order { .. })
    ));
    let (mut writer, tensors) = after(tensors.len());
    assert!(writer.expected().is_none());
    assert!(matches!(
        writer.tensor(&tensors[0].0, &tensors[0].1),
        Err(WriteError::NoneDue { .. })
    ));
}

#[test]
fn length() {
    let (mut writer, tensors) = after(0);
    let (name, bytes) = &tensors[0];
    let is = |error: WriteError, given: usize| {
        assert!(
            matches!(&error, WriteError::Length { tensor, expected: 72_000, found } if tensor == name && *found == given as u64),
            "{error}"
        );
    };
    is(writer.tensor(name, &bytes[1..]).unwrap_err(), 71_999);
    let (mut writer, _) = after(0);
    is(
        writer
            .tensor(name, &[&bytes[..], &[1]].concat())
            .unwrap_err(),
        72_001,
    );
    let (mut writer, _) = after(0);
    writer.begin(name).unwrap();
    writer.append(&bytes[..40]).unwrap();
    is(writer.begin(&tensors[1].0).unwrap_err(), 40);
    let (mut writer, _) = after(0);
    writer.begin(name).unwrap();
    is(writer.finish().unwrap_err(), 0);
    let (mut writer, _) = after(1);
    assert!(matches!(writer.append(&[1]), Err(WriteError::NotBegun)));
}

#[test]
fn an_early_end() {
    let (writer, tensors) = after(5);
    assert!(
        matches!(writer.finish(), Err(WriteError::Missing { tensor }) if tensor == tensors[5].0)
    );
}

#[test]
fn values_out_of_range_are_not_written() {
    let (mut writer, tensors) = after(0);
    let (name, mut bytes) = tensors[0].clone();
    bytes[70_000] = 0x80;
    let error = writer.tensor(&name, &bytes).unwrap_err();
    let expected = BlobError::OutOfRange {
        tensor: name.clone(),
        index: 70_000,
        value: -128,
        min: -127,
        max: 127,
    };
    assert!(
        matches!(&error, WriteError::Invalid(e) if *e == expected),
        "{error}"
    );
    // After a failure nothing more is written.
    assert!(matches!(
        writer.tensor(&name, &tensors[0].1),
        Err(WriteError::Failed)
    ));
    assert!(matches!(writer.finish(), Err(WriteError::Failed)));
}

#[test]
fn a_wrong_pre_shift_is_refused() {
    let at = |name: &str| after(0).1.iter().position(|(n, _)| n == name).unwrap();
    for (consts, weights) in [
        ("layers.0.consts", "layers.0.q.weight"),
        ("head.consts", "head.weight"),
    ] {
        let (mut writer, tensors) = after(at(consts));
        let mut bytes = tensors[at(consts)].1.clone();
        bytes[..4].copy_from_slice(&(-4i32).to_le_bytes());
        writer.tensor(consts, &bytes).unwrap();
        let error = writer.tensor(weights, &tensors[at(weights)].1).unwrap_err();
        let expected = BlobError::PreShift {
            tensor: weights.into(),
            consts: consts.into(),
            index: 0,
            expected: -5,
            found: -4,
        };
        assert!(
            matches!(&error, WriteError::Invalid(e) if *e == expected),
            "{error}"
        );
    }
}

#[test]
fn the_tree_proves_every_chunk_of_the_file() {
    let (writer, tensors) = after(after(0).1.len());
    drop(tensors);
    let (blob, tree) = writer.finish_tree().unwrap();
    let (root, len) = (commitment(&blob), blob.len() as u64);
    assert_eq!(tree.commitment(), root);
    assert!(tree.leaves().len() > 4);
    let chunks = std::iter::once(&blob[..1024]).chain(blob[1024..].chunks(65536));
    for (i, chunk) in chunks.enumerate() {
        assert!(verify_chunk(
            root,
            len,
            i as u64,
            chunk,
            &tree.prove(i).unwrap()
        ));
    }
}

/// A sink that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failing_sink_is_reported() {
    assert!(matches!(
        Writer::new(Full(1000), &config(), [0; 32], vec![]),
        Err(WriteError::Io(_))
    ));
    let mut writer = Writer::new(Full(10_000), &config(), [0; 32], vec![]).unwrap();
    let (name, bytes) = &after(0).1[0];
    assert!(matches!(writer.tensor(name, bytes), Err(WriteError::Io(_))));
    assert!(matches!(writer.append(bytes), Err(WriteError::Failed)));
}
