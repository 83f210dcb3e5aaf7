//! Files that must be read, and the writer.
#![forbid(unsafe_code)]

use proptest::prelude::*;
use quant_core::gguf::{Array, GgufBuilder, GgufError, GgufFile, Value};
use quant_core::{Format, dequantize};

const PYTHON: &[u8] = include_bytes!("data/python.gguf");

/// A file of ggml's Python package: every metadata type, shapes and data.
#[test]
fn reads_a_file_of_the_python_package() {
    let file = GgufFile::parse(PYTHON).unwrap();
    assert_eq!(file.version(), 3);
    assert_eq!(file.alignment(), 64);
    let string = |s: &str| s.to_owned();
    for (key, value) in [
        ("general.architecture", Value::String(string("llama"))),
        ("general.alignment", Value::U32(64)),
        ("t.u8", Value::U8(200)),
        ("t.i8", Value::I8(-100)),
        ("t.u16", Value::U16(60000)),
        ("t.i16", Value::I16(-30000)),
        ("t.u32", Value::U32(4_000_000_000)),
        ("t.i32", Value::I32(-2_000_000_000)),
        ("t.f32", Value::F32(0.1)),
        ("t.u64", Value::U64(u64::MAX)),
        ("t.i64", Value::I64(i64::MIN)),
        ("t.f64", Value::F64(0.1)),
        ("t.bool", Value::Bool(true)),
        ("t.string", Value::String(string("naïve ½ 漢"))),
        ("a.i32", Value::Array(Array::I32(vec![1, -2, 3]))),
        ("a.f32", Value::Array(Array::F32(vec![0.5, -1.5]))),
        ("a.bool", Value::Array(Array::Bool(vec![true, false]))),
        (
            "a.string",
            Value::Array(Array::String(vec![string("a"), string(""), string("Ġb")])),
        ),
        (
            "a.nested",
            Value::Array(Array::Array(vec![
                Array::I32(vec![1, 2]),
                Array::I32(vec![3]),
            ])),
        ),
    ] {
        assert_eq!(file.get(key), Some(&value), "{key}");
    }
    assert_eq!(file.metadata().len(), 19);
    assert_eq!(file.get("t.absent"), None);

    let names: Vec<&str> = file.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "token_embd.weight",
            "blk.0.attn_q.weight",
            "blk.0.attn_norm.weight",
            "output.weight"
        ]
    );
    for (name, format, shape) in [
        ("token_embd.weight", Format::Q6_K, &[3, 256][..]),
        ("blk.0.attn_q.weight", Format::Q4_0, &[2, 5, 32]),
        ("blk.0.attn_norm.weight", Format::F32, &[7]),
        ("output.weight", Format::BF16, &[3, 1]),
    ] {
        let tensor = file.tensor(name).unwrap();
        assert_eq!(
            (tensor.format, tensor.shape.as_slice()),
            (format, shape),
            "{name}"
        );
        let data = file.data(tensor);
        assert_eq!(
            data.as_ptr() as usize - PYTHON.as_ptr() as usize - tensor.offset() as usize,
            { data_start(PYTHON, &file) }
        );
        let values = file.dequantize(tensor).unwrap();
        assert_eq!(values.len() as u64, shape.iter().product::<u64>());
        assert!(values.iter().all(|x| x.is_finite()));
        let mut last = vec![0.0; tensor.row_len() as usize];
        let rows = values.len() / last.len();
        file.dequantize_rows(tensor, rows - 1..rows, &mut last)
            .unwrap();
        assert_eq!(last, values[values.len() - last.len()..]);
    }
    assert_eq!(file.tensor("blk.0.attn_k.weight"), None);
}

/// Start of the data section, from the end: the last tensor is padded to the alignment.
fn data_start(bytes: &[u8], file: &GgufFile<'_>) -> usize {
    let last = file.tensors().last().unwrap();
    let end = (last.offset() + last.size()).next_multiple_of(file.alignment().into());
    bytes.len() - end as usize
}

#[test]
fn version_2_reads_as_version_3() {
    let mut bytes = PYTHON.to_vec();
    bytes[4] = 2;
    let (v2, v3) = (
        GgufFile::parse(&bytes).unwrap(),
        GgufFile::parse(PYTHON).unwrap(),
    );
    assert_eq!(v2.version(), 2);
    assert_eq!((v2.metadata(), v2.tensors()), (v3.metadata(), v3.tensors()));
}

/// The end may be anywhere between the last byte of data and the end of its padding.
#[test]
fn padding_after_the_last_tensor_is_optional() {
    let mut builder = GgufBuilder::new();
    builder.tensor("x", Format::F32, [3], vec![0u8; 12]);
    let bytes = builder.to_bytes().unwrap();
    assert_eq!(bytes.len() % 32, 0);
    let data = bytes.len() - 32;
    for len in data..data + 12 {
        assert!(
            matches!(
                GgufFile::parse(&bytes[..len]),
                Err(GgufError::PastEnd { .. })
            ),
            "{len}"
        );
    }
    for len in data + 12..=data + 32 {
        assert!(GgufFile::parse(&bytes[..len]).is_ok(), "{len}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(
        GgufFile::parse(&longer).unwrap_err(),
        GgufError::TrailingBytes {
            expected: bytes.len() as u64,
            found: bytes.len() as u64 + 1
        }
    );
}

/// A vocabulary file has no tensors; its end may be padded.
#[test]
fn a_file_without_tensors_is_read() {
    let mut builder = GgufBuilder::new();
    builder.metadata("x", Value::U8(1));
    let bytes = builder.to_bytes().unwrap();
    let end = 24 + 8 + 1 + 4 + 1;
    for len in end..=bytes.len() {
        assert_eq!(GgufFile::parse(&bytes[..len]).unwrap().tensors(), []);
    }
    assert!(matches!(
        GgufFile::parse(&bytes[..end - 1]),
        Err(GgufError::Truncated { .. })
    ));
}

#[test]
fn the_writer_refuses_what_the_reader_refuses() {
    let refuse = |build: &dyn Fn(&mut GgufBuilder<'static>)| {
        let mut builder = GgufBuilder::new();
        build(&mut builder);
        let mut sink = Vec::new();
        assert!(builder.write_to(&mut sink).is_err());
        assert!(sink.is_empty());
        builder.to_bytes().unwrap_err()
    };
    assert!(matches!(
        refuse(&|b| {
            b.metadata("k", Value::U8(1)).metadata("k", Value::U8(1));
        }),
        GgufError::DuplicateKey { .. }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.tensor("t", Format::F32, [1], vec![0; 4])
                .tensor("t", Format::F32, [1], vec![0; 4]);
        }),
        GgufError::DuplicateTensor { .. }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.tensor("t", Format::F32, [2], vec![0; 4]);
        }),
        GgufError::Size { .. }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.tensor("t", Format::Q8_0, [33], vec![0; 34]);
        }),
        GgufError::Size { .. }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.tensor("t", Format::F32, [], vec![0; 4]);
        }),
        GgufError::DimensionCount { found: 0, .. }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.tensor("t", Format::F32, [0], vec![]);
        }),
        GgufError::ZeroDimension { .. }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.metadata("general.alignment", Value::U32(3));
        }),
        GgufError::Alignment { found: 3 }
    ));
    assert!(matches!(
        refuse(&|b| {
            b.metadata("k".repeat(65536), Value::U8(0));
        }),
        GgufError::NameTooLong { .. }
    ));
}

/// A tensor description altered by the caller gives an error, not a panic.
#[test]
fn altered_descriptions_are_errors() {
    let file = GgufFile::parse(PYTHON).unwrap();
    let mut tensor = file.tensors()[0].clone();
    tensor.format = Format::Q8_0;
    assert!(file.dequantize(&tensor).is_err());
    tensor.format = Format::Q6_K;
    tensor.shape = vec![3, u64::MAX];
    assert!(
        file.dequantize_rows(&tensor, 0..1, &mut [0.0; 256])
            .is_err()
    );
    tensor.shape = vec![];
    assert!(
        file.dequantize_rows(&tensor, 0..1, &mut [0.0; 256])
            .is_err()
    );
    let other = GgufBuilder::new().to_bytes().unwrap();
    let other = GgufFile::parse(&other).unwrap();
    assert_eq!(other.data(&file.tensors()[0]), []);
    assert!(
        other
            .dequantize_rows(&file.tensors()[0], 0..1, &mut [0.0; 256])
            .is_err()
    );
}

fn array(depth: u32) -> BoxedStrategy<Array> {
    let leaf = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Array::U8),
        prop::collection::vec(any::<i8>(), 0..5).prop_map(Array::I8),
        prop::collection::vec(any::<u16>(), 0..5).prop_map(Array::U16),
        prop::collection::vec(any::<i16>(), 0..5).prop_map(Array::I16),
        prop::collection::vec(any::<u32>(), 0..5).prop_map(Array::U32),
        prop::collection::vec(any::<i32>(), 0..5).prop_map(Array::I32),
        prop::collection::vec(any::<f32>(), 0..5).prop_map(Array::F32),
        prop::collection::vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        prop::collection::vec(".{0,6}", 0..5).prop_map(Array::String),
        prop::collection::vec(any::<u64>(), 0..5).prop_map(Array::U64),
        prop::collection::vec(any::<i64>(), 0..5).prop_map(Array::I64),
        prop::collection::vec(any::<f64>(), 0..5).prop_map(Array::F64),
    ];
    leaf.prop_recursive(depth - 1, 16, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(Array::Array)
    })
    .boxed()
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<f32>().prop_map(Value::F32),
        any::<bool>().prop_map(Value::Bool),
        ".{0,12}".prop_map(Value::String),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f64>().prop_map(Value::F64),
        array(4).prop_map(Value::Array),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is written is read back, and written again with the same bytes.
    #[test]
    fn written_files_read_back(
        metadata in prop::collection::btree_map("[a-z.]{1,12}", value(), 0..8),
        tensors in prop::collection::btree_map(
            ".{0,12}",
            (0..Format::ALL.len(), prop::collection::vec(1u64..4, 0..4), 1u64..3, any::<u8>()),
            0..6,
        ),
        alignment in prop::option::of(3u32..9),
    ) {
        let mut builder = GgufBuilder::new();
        for (key, value) in &metadata {
            builder.metadata(key, value.clone());
        }
        if let Some(power) = alignment {
            builder.metadata("general.alignment", Value::U32(1 << power));
        }
        let mut expected = Vec::new();
        for (name, (format, outer, blocks, fill)) in &tensors {
            let format = Format::ALL[*format];
            let mut shape = outer.clone();
            shape.push(blocks * format.block_len() as u64);
            let size = (outer.iter().product::<u64>() * blocks) as usize * format.block_bytes();
            let data: Vec<u8> = (0..size).map(|i| (i as u8).wrapping_mul(31) ^ fill).collect();
            builder.tensor(name, format, shape.clone(), data.clone());
            expected.push((name, format, shape, data));
        }
        let bytes = builder.to_bytes().unwrap();
        let mut streamed = Vec::new();
        builder.write_to(&mut streamed).unwrap();
        prop_assert!(bytes == streamed);

        let file = GgufFile::parse(&bytes).unwrap();
        let alignment = alignment.map_or(32, |power| 1 << power);
        prop_assert_eq!(file.alignment(), alignment);
        prop_assert_eq!(file.tensors().len(), expected.len());
        let mut again = GgufBuilder::new();
        for (key, value) in &metadata {
            again.metadata(key, file.get(key).unwrap().clone());
            prop_assert_eq!(file.get(key).unwrap().type_name(), value.type_name());
        }
        if let Some(value) = file.get("general.alignment") {
            again.metadata("general.alignment", value.clone());
        }
        for (tensor, (name, format, shape, data)) in file.tensors().iter().zip(&expected) {
            prop_assert_eq!((&tensor.name, tensor.format, &tensor.shape), (*name, *format, shape));
            prop_assert_eq!(file.data(tensor), data.as_slice());
            prop_assert_eq!(file.tensor(name), Some(tensor));
            prop_assert_eq!(file.data(tensor).as_ptr() as usize % 8, bytes.as_ptr() as usize % 8);
            let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
            dequantize(*format, data, &mut values).unwrap();
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&file.dequantize(tensor).unwrap()), bits(&values));
            again.tensor(&tensor.name, tensor.format, tensor.shape.clone(), file.data(tensor));
        }
        prop_assert!(again.to_bytes().unwrap() == bytes);
    }
}
