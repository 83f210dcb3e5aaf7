//! What a run leaves behind: the machine and every sample. Figures, tables and plots are made from it alone.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::rounds::Series;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Where it ran.
    pub machine: Machine,
    /// Threads of every figure that says nothing else.
    pub threads: usize,
    /// Processors that the run could use.
    pub cores: usize,
    /// Load averages of 1, 5 and 15 minutes when it began.
    pub load_before: Option<[f64; 3]>,
    /// The same when it ended.
    pub load_after: Option<[f64; 3]>,
    /// Every sample of every contender.
    pub series: Vec<Series>,
}
