//! What a run leaves behind: the machine and every sample. Figures, tables and plots are made from it alone.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::rounds::Series;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The day, in UTC.
    pub date: String,
    /// Where it ran.
    pub machine: Machine,
    /// Threads of every figure that says nothing else.
    pub threads: usize,
    /// Names and builds of the other engines.
    pub peers: Vec<(String, String)>,
    /// Load averages of 1, 5 and 15 minutes when it began.
    pub load_before: Option<[f64; 3]>,
    /// The same when it ended.
    pub load_after: Option<[f64; 3]>,
    /// Peak memory of a process that runs the random model.
    pub memory: Option<Memory>,
    /// Every sample of every contender.
    pub series: Vec<Series>,
}

impl Record {
    /// The record as JSON text, one series a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or(Value::Null);
        let mut text = String::from("{\n");
        let fields: Vec<_> = value.as_object().into_iter().flatten().collect();
        for (i, (name, value)) in fields.iter().enumerate() {
            text.push_str(&format!("\"{name}\": "));
            match value {
                Value::Array(items) if name.as_str() == "series" => {
                    let lines: Vec<String> = items.iter().map(Value::to_string).collect();
                    text.push_str(&format!("[\n{}\n]", lines.join(",\n")));
                }
                other => text.push_str(&other.to_string()),
            }
            text.push_str(if i + 1 < fields.len() { ",\n" } else { "\n}\n" });
        }
        text
    }

    /// Writes `DATE-MACHINE.json` in `folder` and returns its path.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let path = folder.join(format!("{}-{}.json", self.date, self.machine.slug()));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, self.to_text()))
            .map_err(|error| Error::File {
                path: path.clone(),
                error,
            })?;
        Ok(path)
    }

    /// Reads a file that [`Record::write`] wrote.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Record`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|error| Error::File {
            path: path.to_owned(),
            error,
        })?;
        serde_json::from_str(&text).map_err(|e| Error::Record {
            path: path.to_owned(),
            reason: e.to_string(),
        })
    }
}
