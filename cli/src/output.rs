//! Standard output: text or one line of JSON, with a closed pipe told apart from a failure.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde::Serialize;

use crate::failure::{Context, Failure, Outcome};

/// Writes `text` as it is and flushes.
pub(crate) fn text(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Failure::stdout)
}

/// Writes `value` as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let mut line = serde_json::to_string(value).or_runtime("cannot encode the result as JSON")?;
    line.push('\n');
    text(&line)
}

/// `0x` and the lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for b in bytes {
        let _ = write!(text, "{b:02x}");
    }
    text
}

/// Thirty-two bytes from 64 hexadecimal digits, with or without `0x`.
pub(crate) fn parse_hash(text: &str) -> Result<[u8; 32], String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(
            "expected 64 hexadecimal digits after 0x, as `blue commit` prints them".to_string(),
        );
    }
    let mut hash = [0; 32];
    for (i, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).map_err(|e| e.to_string())?;
    }
    Ok(hash)
}

/// Rows as columns padded to their widest cell, two spaces between; numbers (by their first byte) to the right.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            rows.iter()
                .filter_map(|r| r.get(c))
                .map(|s| s.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            let number =
                cell.bytes().next().is_some_and(|b| b.is_ascii_digit()) && !cell.starts_with("0x");
            let _ = if number {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number of bytes for people: `1.5 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..=1023 => format!("{n} B"),
        1024..=1_048_575 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..=1_073_741_823 => format!("{:.1} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", n as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_round_trip_and_bad_ones_are_refused() {
        let hash: [u8; 32] = std::array::from_fn(|i| (i * 7) as u8);
        assert_eq!(parse_hash(&hex(&hash)), Ok(hash));
        assert_eq!(parse_hash(&hex(&hash)[2..]), Ok(hash));
        for bad in [
            "",
            "0x",
            "0x12",
            &hex(&[0; 31]),
            &hex(&[0; 33]),
            &"é".repeat(32),
            &"g".repeat(64),
        ] {
            assert!(parse_hash(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_table_pads_text_left_and_numbers_right() {
        let rows = [
            vec!["name".to_string(), "n".into()],
            vec!["a".into(), "1000".into()],
            vec!["b".into(), "7".into()],
        ];
        assert_eq!(table(&rows), "name  n\na     1000\nb        7\n");
    }
}
