//! Speed of the integer engine, as ratios: to the limits of the machine, to other engines, to itself.
//!
//! A run takes its samples in rounds, one sample of every contender in each, so that whatever slows the machine for a
//! while slows all of them. Every sample asserts that what was timed is the right work. Figures are medians of the
//! samples that nothing disturbed.

mod date;
mod error;
pub mod expected;
pub mod figures;
pub mod gas;
pub mod goals;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod page;
pub mod peers;
pub mod plain;
pub mod plots;
pub mod quiet;
pub mod record;
pub mod rounds;
pub mod run;
pub mod subject;
mod svg;
pub mod synthetic;
pub mod table;

pub use error::Error;
