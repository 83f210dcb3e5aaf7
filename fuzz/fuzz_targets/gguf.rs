//! GGUF files: what is read is written and read again the same; rows of accepted tensors decode.
#![no_main]

use float_engine::config::ModelConfig;
use libfuzzer_sys::fuzz_target;
use quant_core::gguf::{GgufBuilder, GgufFile, MAX_ALLOCATION_RATIO};

/// The file's contents as a builder writes them.
fn rewrite(file: &GgufFile<'_>) -> Vec<u8> {
    let mut builder = GgufBuilder::new();
    for (key, value) in file.metadata() {
        builder.metadata(key.clone(), value.clone());
    }
    for tensor in file.tensors() {
        builder.tensor(
            tensor.name.clone(),
            tensor.format,
            tensor.shape.clone(),
            file.data(tensor),
        );
    }
    builder.to_bytes().expect("what was read can be written")
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Whole tensor and rows of it: the same bits.
fn decode(file: &GgufFile<'_>) {
    for tensor in file.tensors() {
        let all = file.dequantize(tensor).expect("a tensor of the file");
        let row_len = usize::try_from(tensor.row_len()).expect("at most the data's values");
        let rows = all.len() / row_len;
        assert_eq!(rows * row_len, all.len());
        for range in [0..1, rows - 1..rows, rows / 3..rows] {
            let mut out = vec![0.0; range.len() * row_len];
            file.dequantize_rows(tensor, range.clone(), &mut out)
                .expect("rows of the tensor");
            assert_eq!(
                bits(&out),
                bits(&all[range.start * row_len..range.end * row_len])
            );
        }
        let mut out = vec![0.0; row_len];
        assert!(
            file.dequantize_rows(tensor, rows..rows + 1, &mut out)
                .is_err()
        );
    }
}

fuzz_target!(|input: &[u8]| {
    let Ok(file) = GgufFile::parse(input) else {
        return;
    };
    let total: u64 = file.tensors().iter().map(|t| t.size()).sum();
    assert!(
        total <= input.len() as u64 && file.tensors().len() <= MAX_ALLOCATION_RATIO * input.len()
    );
    // An alignment of up to 2 MiB pads what is written after each tensor.
    if u64::from(file.alignment()) * (file.tensors().len() as u64 + 1) < 1 << 22 {
        let written = rewrite(&file);
        let again = GgufFile::parse(&written).expect("what was written is read");
        // Debug output is the same for NaN, which equals nothing.
        assert_eq!(
            format!("{:?}", again.metadata()),
            format!("{:?}", file.metadata())
        );
        assert_eq!(again.alignment(), file.alignment());
        assert_eq!(again.tensors().len(), file.tensors().len());
        for (a, b) in again.tensors().iter().zip(file.tensors()) {
            assert_eq!((&a.name, a.format, &a.shape), (&b.name, b.format, &b.shape));
            assert_eq!(again.data(a), file.data(b));
        }
        assert_eq!(rewrite(&again), written);
    }
    decode(&file);
    let _ = ModelConfig::from_gguf(&file);
});
