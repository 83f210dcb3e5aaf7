//! Rows of integers and their recipes (spec 7.2).

use crate::file::FileError;
use crate::file::fields::{self, Fields};
use crate::json::Json;

/// Most values of one row.
pub const MAX_ROW: usize = 1 << 20;
/// Most values of all rows of one file.
pub const MAX_ROWS: usize = 1 << 24;
/// Largest magnitude of a drawn value.
const DRAW_LIMIT: i128 = 1 << 62;

/// The splitmix64 generator of spec 7.2.
#[derive(Clone, Debug)]
pub struct Stream(u64);

impl Stream {
    /// A generator with this initial state.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A value in `low ..= high`; both at most 2^62 in magnitude.
    pub fn draw(&mut self, low: i64, high: i64) -> i64 {
        debug_assert!(
            low <= high && i128::from(low).abs().max(i128::from(high).abs()) <= DRAW_LIMIT
        );
        // The width is at most 2^63 + 1 and the sum lies in low ..= high.
        low.wrapping_add((self.word() % high.wrapping_sub(low).wrapping_add(1) as u64) as i64)
    }

    /// One of the values, which are not none.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.word() % values.len() as u64) as usize]
    }
}

/// A row of integers, given or to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// The values themselves.
    List(Vec<i64>),
    /// One value, `count` times.
    Fill {
        /// The value.
        value: i64,
        /// How often, 1 ..= [`MAX_ROW`].
        count: usize,
    },
    /// Drawn values.
    Splitmix64 {
        /// Initial state of the generator.
        seed: u64,
        /// How many, 1 ..= [`MAX_ROW`].
        count: usize,
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
    },
    /// Rows that are no joins, one after the other.
    Join(Vec<Row>),
}

impl From<Vec<i64>> for Row {
    fn from(values: Vec<i64>) -> Self {
        Self::List(values)
    }
}

impl Row {
    /// Drawn values.
    #[must_use]
    pub fn drawn(seed: u64, count: usize, low: i64, high: i64) -> Self {
        Self::Splitmix64 {
            seed,
            count,
            low,
            high,
        }
    }

    /// Number of values, at most [`MAX_ROW`] in a parsed row.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::List(values) => values.len(),
            Self::Fill { count, .. } | Self::Splitmix64 { count, .. } => *count,
            Self::Join(rows) => rows.iter().map(Self::count).sum(),
        }
    }

    /// The values.
    #[must_use]
    pub fn expand(&self) -> Vec<i64> {
        match self {
            Self::List(values) => values.clone(),
            Self::Fill { value, count } => vec![*value; *count],
            &Self::Splitmix64 {
                seed,
                count,
                low,
                high,
            } => {
                let mut stream = Stream::new(seed);
                (0..count).map(|_| stream.draw(low, high)).collect()
            }
            Self::Join(rows) => rows.iter().flat_map(Self::expand).collect(),
        }
    }

    /// Reads a row at `at`, and takes its values from the file's `budget`.
    pub(crate) fn read(json: Json, at: &str, budget: &mut usize) -> Result<Self, FileError> {
        let row = Self::read_part(json, at, true)?;
        let count = row.count();
        if count > MAX_ROW {
            return Err(FileError::RowLength {
                at: at.into(),
                count: count as u64,
            });
        }
        *budget = budget.checked_sub(count).ok_or(FileError::RowTotal)?;
        Ok(row)
    }

    fn read_part(json: Json, at: &str, may_join: bool) -> Result<Self, FileError> {
        let json = match json {
            Json::List(items) => {
                let values = items.iter().enumerate().map(|(i, v)| {
                    fields::integer(v, || format!("{at}[{i}]"), i64::MIN.into(), i64::MAX.into())
                        .map(|v| v as i64)
                });
                return values.collect::<Result<_, _>>().map(Self::List);
            }
            Json::Object(members) => members,
            _ => {
                return Err(FileError::Type {
                    at: at.into(),
                    expected: "a list of integers or a recipe",
                    found: json.kind(),
                });
            }
        };
        let mut recipe = Fields::new(json, at);
        let row = if let Some(fill) = recipe.optional("fill") {
            let mut fill = Fields::of(fill, &format!("{at}.fill"))?;
            let row = Self::Fill {
                value: fill.int("value", i64::MIN.into(), i64::MAX.into())? as i64,
                count: fill.int("count", 1, MAX_ROW as i128)? as usize,
            };
            fill.end()?;
            row
        } else if let Some(draw) = recipe.optional("splitmix64") {
            let mut draw = Fields::of(draw, &format!("{at}.splitmix64"))?;
            let seed = draw.int("seed", 0, u64::MAX.into())? as u64;
            let count = draw.int("count", 1, MAX_ROW as i128)? as usize;
            let low = draw.int("low", -DRAW_LIMIT, DRAW_LIMIT)? as i64;
            let high = draw.int("high", low.into(), DRAW_LIMIT)? as i64;
            draw.end()?;
            Self::drawn(seed, count, low, high)
        } else if may_join {
            let rows = recipe.list("join")?;
            let parts = rows
                .into_iter()
                .enumerate()
                .map(|(i, part)| Self::read_part(part, &format!("{at}.join[{i}]"), false));
            Self::Join(parts.collect::<Result<_, _>>()?)
        } else {
            return Err(FileError::Missing {
                at: at.into(),
                member: "fill or splitmix64",
            });
        };
        recipe.end()?;
        Ok(row)
    }

    /// The row as a file holds it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::List(values) => Json::integers(values.iter().copied()),
            Self::Fill { value, count } => Json::object([(
                "fill",
                Json::object([
                    ("value", Json::integer((*value).into())),
                    ("count", Json::Int(*count as i64)),
                ]),
            )]),
            Self::Splitmix64 {
                seed,
                count,
                low,
                high,
            } => Json::object([(
                "splitmix64",
                Json::object([
                    ("seed", Json::integer((*seed).into())),
                    ("count", Json::Int(*count as i64)),
                    ("low", Json::integer((*low).into())),
                    ("high", Json::integer((*high).into())),
                ]),
            )]),
            Self::Join(rows) => {
                Json::object([("join", Json::List(rows.iter().map(Self::to_json).collect()))])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Row, FileError> {
        Row::read(crate::json::parse(text.as_bytes())?, "row", &mut {
            MAX_ROWS
        })
    }

    #[test]
    fn the_first_words() {
        let mut stream = Stream::new(0);
        let words: Vec<_> = (0..3).map(|_| stream.word()).collect();
        assert_eq!(
            words,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }

    #[test]
    fn draws_reach_both_ends_of_the_widest_range() {
        let limit = 1i64 << 62;
        let row = Row::drawn(3, 2000, -limit, limit).expand();
        assert!(row.iter().all(|v| v.abs() <= limit));
        assert!(row.iter().any(|&v| v < -limit / 2) && row.iter().any(|&v| v > limit / 2));
        assert_eq!(Row::drawn(3, 4, 7, 7).expand(), [7; 4]);
    }

    #[test]
    fn rows_are_read_as_written() {
        let joined = Row::Join(vec![
            Row::List(vec![1, -(1 << 60)]),
            Row::Fill {
                value: -5,
                count: 2,
            },
            Row::drawn(u64::MAX, 3, -1, 1),
        ]);
        let text = joined.to_json().to_string();
        assert_eq!(read(&text), Ok(joined.clone()));
        assert_eq!(joined.count(), 7);
        assert_eq!(joined.expand()[..4], [1, -(1 << 60), -5, -5]);
    }

    #[test]
    fn counts_are_refused_before_memory_is_taken() {
        let count = |n: &str| read(&format!(r#"{{"fill":{{"value":0,"count":{n}}}}}"#));
        assert!(count("1048576").is_ok());
        for n in [
            "1048577",
            "0",
            "-1",
            "\"99999999999999999999\"",
            "9007199254740991",
        ] {
            assert!(matches!(count(n), Err(FileError::Range { .. })), "{n}");
        }
        let two = r#"{"join":[{"fill":{"value":0,"count":1048576}},[1]]}"#;
        assert!(matches!(read(two), Err(FileError::RowLength { .. })));
        let json = crate::json::parse(b"[1,2,3]").unwrap();
        assert_eq!(Row::read(json, "row", &mut 2), Err(FileError::RowTotal));
        assert!(matches!(
            read(r#"{"join":[{"join":[]}]}"#),
            Err(FileError::Missing { .. })
        ));
        assert!(matches!(
            read(r#"{"splitmix64":{"seed":0,"count":1,"low":1,"high":0}}"#),
            Err(FileError::Range { .. })
        ));
    }
}
