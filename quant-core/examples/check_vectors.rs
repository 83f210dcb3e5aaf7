//! Compares `dequantize` with the vector files of a folder made by `tests/gen_vectors.py`.

#[path = "../tests/common/vectors.rs"]
mod vectors;

use quant_core::Format;

fn main() {
    let folder = std::env::args()
        .nth(1)
        .expect("usage: check_vectors FOLDER");
    let mut failed = false;
    for &format in Format::ALL {
        let path = std::path::Path::new(&folder).join(format!("{format}.bin"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (blocks, differing) = vectors::compare(format, &bytes);
        println!("{format}: {blocks} blocks, {} differ", differing.len());
        failed |= !differing.is_empty();
    }
    std::process::exit(i32::from(failed));
}
