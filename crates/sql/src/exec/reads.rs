//! What a statement reads by: its snapshot of the tables, values of rows around its queries, what
//! is kept of queries that have run.
//!
//! Invariants: a slot is filled before what reads it runs. Does not do: reading.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rightlink::Reader;
use rightlink_env::sync::{Arc, Mutex};

use crate::error::{Result, SqlError};
use crate::exec::kept::Kept;
use crate::exec::subquery::Memo;
use crate::exec::with::Common;
use crate::types::{Datum, Row};

/// What one execution of a statement reads by.
#[derive(Clone, Default)]
pub(crate) struct Reads {
    /// `None` for a statement that reads no table.
    reader: RefCell<Option<Reader>>,
    /// Values of rows around queries, by their slots.
    outer: RefCell<Vec<Datum>>,
    /// Rows of what the store knows about itself, by slots.
    views: RefCell<Vec<Arc<Vec<Row>>>>,
    /// Common table expressions by number.
    pub(super) commons: RefCell<BTreeMap<usize, Arc<Mutex<Common>>>>,
    /// Rows that the second part of a recursive one reads.
    pub(super) steps: RefCell<BTreeMap<usize, Arc<Mutex<Kept>>>>,
    /// What queries in expressions gave, by number.
    pub(super) memos: RefCell<BTreeMap<usize, Memo>>,
}

impl std::fmt::Debug for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reads")
    }
}

impl Reads {
    /// The value of a slot.
    pub(crate) fn outer(&self, slot: usize) -> Datum {
        self.outer.borrow()[slot].clone()
    }

    /// Fills a slot.
    pub(crate) fn fill(&self, slot: usize, value: Datum) {
        let mut outer = self.outer.borrow_mut();
        if outer.len() <= slot {
            outer.resize(slot + 1, Datum::Null);
        }
        outer[slot] = value;
    }

    /// What tables are read by.
    pub(crate) fn reader(&self) -> Result<Reader> {
        let reader = self.reader.borrow().clone();
        reader.ok_or_else(|| SqlError::unsupported("reading a table here"))
    }

    /// Reads tables by this from now on.
    pub(crate) fn read_by(&self, reader: Reader) {
        *self.reader.borrow_mut() = Some(reader);
    }

    /// Rows of what the store knows about itself, by their slot.
    pub(super) fn view(&self, slot: usize) -> Arc<Vec<Row>> {
        Arc::clone(&self.views.borrow()[slot])
    }

    /// Adds rows of what the store knows about itself, in the order of slots.
    pub(super) fn add_view(&self, rows: Vec<Row>) {
        self.views.borrow_mut().push(Arc::new(rows));
    }
}
