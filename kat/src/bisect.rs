//! The first operation at which two sides part: traces of files, passes of engines, or one of each.
//!
//! Both sides are read in the order of computation and compared as far as they have operations in common; reading ends
//! at the first difference. A later operation is computed from earlier ones, so the first difference is where the
//! fault is, and everything after it is its consequence. The cost is that of one pass up to the difference; the digests
//! after a fault need not differ everywhere (a wrong value can be rounded away again), which is why the search
//! does not halve.

use std::io::BufRead;

use int_engine::engine::Engine;

use crate::trace::{Entry, Header, Place, Reader, Run, RunError, TraceError};

/// One of the two sides.
pub trait Side {
    /// What the side's trace says of itself.
    fn header(&self) -> &Header;
    /// The next operation in the order of computation.
    ///
    /// # Errors
    /// [`SideError`] when the side cannot go on.
    fn next(&mut self) -> Result<Option<Entry>, SideError>;
    /// The values at a place, where the side can compute them.
    ///
    /// # Errors
    /// As [`Side::next`].
    fn values(&mut self, place: Place) -> Result<Option<Vec<i64>>, SideError>;
}

/// A side that cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum SideError {
    /// A defect of its file.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its engine.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A trace file.
#[derive(Debug)]
pub struct FileSide<R> {
    reader: Reader<R>,
}

impl<R: BufRead> FileSide<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TraceError`] for anything that is not a header.
    pub fn new(input: R) -> Result<Self, TraceError> {
        Ok(Self {
            reader: Reader::new(input)?,
        })
    }
}

impl<R: BufRead> Side for FileSide<R> {
    fn header(&self) -> &Header {
        self.reader.header()
    }

    fn next(&mut self) -> Result<Option<Entry>, SideError> {
        Ok(self.reader.next().transpose()?)
    }

    fn values(&mut self, _: Place) -> Result<Option<Vec<i64>>, SideError> {
        Ok(None)
    }
}

/// An engine that computes its trace as it is asked for.
pub struct EngineSide<'a> {
    engine: &'a dyn Engine,
    header: &'a Header,
    chunk: usize,
    run: Run<'a>,
}

impl<'a> EngineSide<'a> {
    /// A pass over the header's prompt in chunks of `chunk` tokens.
    ///
    /// # Errors
    /// As [`Run::new`].
    pub fn new(engine: &'a dyn Engine, header: &'a Header, chunk: usize) -> Result<Self, RunError> {
        Ok(Self {
            engine,
            header,
            chunk,
            run: Run::new(engine, &header.prompt, chunk, false)?,
        })
    }
}

impl Side for EngineSide<'_> {
    fn header(&self) -> &Header {
        self.header
    }

    fn next(&mut self) -> Result<Option<Entry>, SideError> {
        Ok(self.run.next().transpose()?)
    }

    fn values(&mut self, place: Place) -> Result<Option<Vec<i64>>, SideError> {
        Ok(Run::values_at(
            self.engine,
            &self.header.prompt,
            self.chunk,
            place,
        )?)
    }
}

/// Why two sides cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// The traces are of different models.
    #[error("the traces are of different models: commitment {a} and {b}")]
    Commitment {
        /// Of the first side.
        a: String,
        /// Of the second side.
        b: String,
    },
    /// The traces are of different prompts.
    #[error("the traces are of different prompts: {}", prompts(a, b))]
    Prompt {
        /// Of the first side.
        a: Vec<u32>,
        /// Of the second side.
        b: Vec<u32>,
    },
    /// There is no operation that both sides have.
    #[error("the traces have no operation in common: {a} and {b} operations")]
    NothingInCommon {
        /// Operations of the first side.
        a: u64,
        /// Operations of the second side.
        b: u64,
    },
    /// The first side cannot be read.
    #[error("the first trace")]
    A(#[source] SideError),
    /// The second side cannot be read.
    #[error("the second trace")]
    B(#[source] SideError),
}

fn prompts(a: &[u32], b: &[u32]) -> String {
    let at = a.iter().zip(b).position(|(a, b)| a != b);
    match at {
        Some(i) => format!("id {i} is {} and {}", a[i], b[i]),
        None => format!("{} and {} ids", a.len(), b.len()),
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Operations that both sides have and that agree.
    pub agreed: u64,
    /// The last of them.
    pub last_agreed: Option<Place>,
    /// Operations that only the first side has, as far as it was read.
    pub only_a: u64,
    /// Operations that only the second side has, as far as it was read.
    pub only_b: u64,
    /// The first operation that differs.
    pub difference: Option<Difference>,
}

/// An operation that two sides computed differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub place: Place,
    /// Operations between the last agreement and here that one side lacks: the fault may be in one of them.
    pub unseen: u64,
    /// How many values each side has.
    pub counts: (usize, usize),
    /// The digests.
    pub digests: ([u8; 32], [u8; 32]),
    /// The first element that differs, where both sides have values or can compute them.
    pub element: Option<Element>,
}

/// The first differing element of two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its index.
    pub index: usize,
    /// The first side's value; `None` beyond its end.
    pub a: Option<i64>,
    /// The second side's value; `None` beyond its end.
    pub b: Option<i64>,
    /// How many elements differ in all.
    pub differing: usize,
}

/// Compares two sides up to their first difference.
///
/// # Errors
/// [`BisectError`] when they are not of one model and prompt, have nothing in common, or one cannot be read.
pub fn bisect(a: &mut dyn Side, b: &mut dyn Side) -> Result<Report, BisectError> {
    comparable(a.header(), b.header())?;
    let mut report = Report {
        agreed: 0,
        last_agreed: None,
        only_a: 0,
        only_b: 0,
        difference: None,
    };
    let mut unseen = 0;
    let (mut left, mut right) = (
        a.next().map_err(BisectError::A)?,
        b.next().map_err(BisectError::B)?,
    );
    loop {
        let order = match (&left, &right) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(x), Some(y)) => x.place.cmp(&y.place),
        };
        if order.is_eq() {
            if let (Some(x), Some(y)) = (&left, &right) {
                if (x.count, x.digest) != (y.count, y.digest) {
                    report.difference = Some(difference(a, b, x, y, unseen)?);
                    break;
                }
                report.agreed += 1;
                report.last_agreed = Some(x.place);
                unseen = 0;
            }
        } else {
            unseen += 1;
        }
        report.only_a += u64::from(order.is_lt());
        report.only_b += u64::from(order.is_gt());
        if order.is_le() {
            left = a.next().map_err(BisectError::A)?;
        }
        if order.is_ge() {
            right = b.next().map_err(BisectError::B)?;
        }
    }
    if report.agreed == 0 && report.difference.is_none() {
        return Err(BisectError::NothingInCommon {
            a: report.only_a,
            b: report.only_b,
        });
    }
    Ok(report)
}

fn comparable(a: &Header, b: &Header) -> Result<(), BisectError> {
    if a.commitment != b.commitment {
        let [a, b] = [a, b].map(|h| crate::hex::encode(&h.commitment));
        return Err(BisectError::Commitment { a, b });
    }
    if a.prompt != b.prompt {
        let [a, b] = [a, b].map(|h| h.prompt.clone());
        return Err(BisectError::Prompt { a, b });
    }
    Ok(())
}

fn difference(
    a: &mut dyn Side,
    b: &mut dyn Side,
    x: &Entry,
    y: &Entry,
    unseen: u64,
) -> Result<Difference, BisectError> {
    let place = x.place;
    let of = |side: &mut dyn Side, entry: &Entry| match &entry.values {
        Some(values) => Ok(Some(values.clone())),
        None => side.values(place),
    };
    let rows = (
        of(a, x).map_err(BisectError::A)?,
        of(b, y).map_err(BisectError::B)?,
    );
    Ok(Difference {
        place,
        unseen,
        counts: (x.count, y.count),
        digests: (x.digest, y.digest),
        element: match rows {
            (Some(a), Some(b)) => first_difference(&a, &b),
            _ => None,
        },
    })
}

fn first_difference(a: &[i64], b: &[i64]) -> Option<Element> {
    let differs = |&i: &usize| a.get(i) != b.get(i);
    let len = a.len().max(b.len());
    (0..len).find(differs).map(|index| Element {
        index,
        a: a.get(index).copied(),
        b: b.get(index).copied(),
        differing: (index..len).filter(differs).count(),
    })
}

#[cfg(test)]
mod tests;
