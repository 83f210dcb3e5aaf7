//! Speed of the integer engine, as ratios: to the limits of the machine, to other engines, to itself.
//!
//! A run takes its samples in rounds, one sample of every contender in each, so that whatever slows the machine for a
//! while slows all of them. Every sample asserts that what was timed is the right work. Figures are medians of the
//! samples that nothing disturbed.

mod error;
pub mod expected;
pub mod figures;
pub mod limits;
pub mod machine;
pub mod quiet;
pub mod record;
pub mod rounds;
pub mod run;
pub mod subject;
pub mod synthetic;
pub mod table;

pub use error::Error;
