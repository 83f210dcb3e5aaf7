//! Standard output: text or one line of JSON, with a closed pipe told apart from a failure.

use std::fmt::Write as _;
use std::io::{self, Write as _};

/// `0x` and lower-case hexadecimal digits.
pub(crate) use alloy_primitives::hex::encode_prefixed as hex;
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

/// Names and values as two columns, both to the left.
pub(crate) fn pairs(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<width$}  {value}");
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
    fn a_table_pads_text_left_and_numbers_right() {
        let rows = [
            vec!["name".to_string(), "n".into()],
            vec!["a".into(), "1000".into()],
            vec!["b".into(), "7".into()],
        ];
        assert_eq!(table(&rows), "name  n\na     1000\nb        7\n");
    }
}
