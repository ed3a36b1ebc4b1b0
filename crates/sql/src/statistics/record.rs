//! When a table was analyzed, by whom, and how many of its rows have changed since.
//!
//! The store counts changes since a table was opened. So what was counted when the table was
//! analyzed is kept with the process that counted: in another one, or after the table was opened
//! again, all that is counted has changed since.
//!
//! Invariants: nothing but the choice of tables to analyze depends on it.
//! Does not do: analyzing.

use rightlink::{Database, HeapFigures};
use rightlink_env::sync::OnceLock;

use crate::notes::line;

/// Who asked for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Client,
    /// Nobody did.
    Itself,
}

/// Of the tables that clients had analyzed, and of those that nobody had.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// How often.
    pub(crate) counts: [u64; 2],
    /// When last, in microseconds since 1970; 0 for never.
    pub(crate) last: [i64; 2],
    /// Changes that the store had counted when all columns were analyzed last.
    pub(crate) changes: u64,
    /// The process that counted.
    pub(crate) process: u64,
}

impl Record {
    /// One more time, after so many changes; `None` if not all columns were analyzed.
    pub(crate) fn of(db: &Database, by: By, changes: Option<u64>) -> Record {
        let mut record = Record::default();
        record.counts[by as usize] = 1;
        record.last[by as usize] = db.unix_micros();
        if let Some(changes) = changes {
            (record.changes, record.process) = (changes, process(db));
        }
        record
    }

    /// Of what was done now, behind what was done before.
    pub(crate) fn behind(self, before: Record) -> Record {
        let whole = self.process != 0;
        Record {
            counts: [0, 1].map(|by| self.counts[by] + before.counts[by]),
            last: [0, 1].map(|by| self.last[by].max(before.last[by])),
            changes: if whole { self.changes } else { before.changes },
            process: if whole { self.process } else { before.process },
        }
    }

    /// Rows that have changed since all columns were analyzed.
    pub(crate) fn changes_since(&self, db: &Database, figures: &HeapFigures) -> u64 {
        let all = changes(figures);
        if self.process == process(db) && self.changes <= all { all - self.changes } else { all }
    }

    pub(super) fn encode(&self, out: &mut String) {
        let Record { counts, last, changes, process } = self;
        let fields = [
            counts[0].to_string(),
            counts[1].to_string(),
            last[0].to_string(),
            last[1].to_string(),
            changes.to_string(),
            process.to_string(),
        ];
        let fields = std::iter::once("analyzed").chain(fields.iter().map(String::as_str));
        line(out, &fields.collect::<Vec<_>>());
    }

    pub(super) fn decode(fields: &[&str]) -> Option<Record> {
        let [asked, unasked, last, last_unasked, changes, process] = fields else { return None };
        Some(Record {
            counts: [asked.parse().ok()?, unasked.parse().ok()?],
            last: [last.parse().ok()?, last_unasked.parse().ok()?],
            changes: changes.parse().ok()?,
            process: process.parse().ok()?,
        })
    }
}

/// Rows that were written since the table was opened.
pub(crate) fn changes(figures: &HeapFigures) -> u64 {
    figures.inserted + figures.updated + figures.deleted
}

/// A number that other processes do not have: when this one asked first.
fn process(db: &Database) -> u64 {
    static BEGUN: OnceLock<u64> = OnceLock::new();
    *BEGUN.get_or_init(|| db.unix_micros().max(1).cast_unsigned())
}
