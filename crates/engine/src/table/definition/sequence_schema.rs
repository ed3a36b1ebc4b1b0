//! Definitions of sequences, those of generated columns included.
//!
//! Invariants: a definition that passed [`SequenceSchema::validate`] has numbers to hand out.
//! Does not do: handing them out (`table::sequence`).

use super::limits::{check_name, check_note};
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};

/// A column whose values come from a sequence of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// May inserts not name the column?
    pub always: bool,
    /// The sequence.
    pub sequence: SequenceDef,
}

/// A sequence as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDef {
    /// Its number in the catalog.
    pub id: ObjectId,
    /// Its file.
    pub file: FileId,
    /// What it hands out.
    pub schema: SequenceSchema,
}

/// Description of a sequence that belongs to no column.
///
/// ```
/// use rightlink::SequenceSchema;
/// let odd = SequenceSchema::new("odd").increment(2).max(99);
/// assert_eq!((odd.start, odd.min, odd.max), (1, 1, 99));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceSchema {
    /// Name, unique among tables, indexes and sequences.
    pub name: String,
    /// First number, from `min` to `max`.
    pub start: i64,
    /// Difference from a number to the next, not 0. Negative: downwards.
    pub increment: i64,
    /// Smallest number.
    pub min: i64,
    /// Largest number.
    pub max: i64,
    /// True if the sequence begins again after its last number: with `min`, or with `max` if it
    /// goes down. Otherwise drawing a number fails with `Limit`.
    pub cycle: bool,
    /// Text that a layer above keeps with the sequence, at most 7 KiB. The engine never reads
    /// it.
    pub note: String,
}

impl SequenceSchema {
    /// A sequence of the numbers 1, 2, 3 and so on.
    pub fn new(name: impl Into<String>) -> Self {
        let (max, cycle, note) = (i64::MAX, false, String::new());
        Self { name: name.into(), start: 1, increment: 1, min: 1, max, cycle, note }
    }

    /// Sets the first number, and lowers the smallest number to it if that is larger.
    #[must_use]
    pub fn start(mut self, start: i64) -> Self {
        (self.start, self.min) = (start, self.min.min(start));
        self
    }

    /// Sets the difference from a number to the next. Negative: downwards, with no smallest number.
    #[must_use]
    pub fn increment(mut self, increment: i64) -> Self {
        self.increment = increment;
        if increment < 0 {
            self.min = i64::MIN;
        }
        self
    }

    /// Sets the largest number.
    #[must_use]
    pub fn max(mut self, max: i64) -> Self {
        self.max = max;
        self
    }

    /// Lets the sequence begin again after its last number.
    #[must_use]
    pub fn cycle(mut self) -> Self {
        self.cycle = true;
        self
    }

    /// Checks name and bounds.
    pub(crate) fn validate(&self) -> Result<()> {
        check_name("sequence", &self.name)?;
        check_note(&self.name, &self.note)?;
        let Self { name, start, increment, min, max, .. } = self;
        if *increment == 0 || !(min..=max).contains(&start) {
            let what = format!(
                "sequence {name} from {start} in steps of {increment} between {min} and {max}"
            );
            return Err(Error::Invalid(what));
        }
        Ok(())
    }
}
