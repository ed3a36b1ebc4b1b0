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
    /// The first number.
    pub start: i64,
    /// From a number to the next, not 0.
    pub increment: i64,
    /// Smallest number.
    pub min: i64,
    /// Largest number.
    pub max: i64,
    /// Does it begin again behind the last one, with the smallest, or the largest if it goes down?
    pub cycle: bool,
    /// What a layer above keeps with it: text that is stored and never read here.
    pub note: String,
}

impl SequenceSchema {
    /// 1, 2, 3 and so on.
    pub fn new(name: impl Into<String>) -> Self {
        let (max, cycle, note) = (i64::MAX, false, String::new());
        Self { name: name.into(), start: 1, increment: 1, min: 1, max, cycle, note }
    }

    /// The first number; what is smaller comes never.
    #[must_use]
    pub fn start(mut self, start: i64) -> Self {
        (self.start, self.min) = (start, self.min.min(start));
        self
    }

    /// From a number to the next. Negative: downwards.
    #[must_use]
    pub fn increment(mut self, increment: i64) -> Self {
        self.increment = increment;
        if increment < 0 {
            self.min = i64::MIN;
        }
        self
    }

    /// Largest number.
    #[must_use]
    pub fn max(mut self, max: i64) -> Self {
        self.max = max;
        self
    }

    /// Behind the last number it begins again.
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
