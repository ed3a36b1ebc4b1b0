//! What the experiment asks of an engine, ours or a peer.
//!
//! Invariants: making the rows of a batch is apart from inserting them, so that only the latter is
//! timed; every row that is read is compared with what was inserted.
//! Does not do: opening one (`open`), measuring.

use std::ops::Range;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::GROUP;
use crate::load::table;

/// The name of ours.
pub(crate) const OURS: &str = "rightlink";

/// An engine with the table of the experiment.
pub(crate) trait Engine {
    /// Makes the rows of these ids, for the next [`Engine::insert`].
    fn prepare(&mut self, ids: Range<u64>);
    /// Inserts the rows that were made, all indexes with them, as one transaction.
    fn insert(&mut self) -> Result<(), Failure>;
    /// After it a kill of the process takes nothing of what was committed, relaxed or not.
    fn settle(&mut self) -> Result<(), Failure>;
    /// Bytes that went to the device since the process began.
    fn written(&self) -> Result<Written, Failure>;
    /// One more than the largest id: ids are given out without gaps and committed in order.
    fn rows(&mut self) -> Result<u64, Failure>;
    /// Pages of the table and its indexes, of those that a pool of ours holds.
    fn pages(&self) -> Result<Option<u64>, Failure>;
    /// Reads a row by its first indexed uuid, by its id where none is.
    fn read(&mut self, id: u64) -> Result<(), Failure>;
    /// Reads many rows likewise, in whatever way is the fastest here.
    fn read_many(&mut self, ids: &[u64]) -> Result<(), Failure>;
    /// Brings everything to its place and closes.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// What a process of a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Fill,
    Reopen,
    Read,
}

/// What every engine is told.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "ours asks the cell"))]
pub(crate) struct Setup {
    pub(crate) indexes: usize,
    pub(crate) durable: bool,
    /// Does the memory hold everything?
    pub(crate) roomy: bool,
    /// Does a control group limit the memory?
    pub(crate) grouped: bool,
    /// Bytes of memory for everything: caches, buffers, the page cache.
    pub(crate) memory: u64,
    /// Bytes that the data will take, roughly.
    pub(crate) expected: u64,
}

impl Setup {
    pub(crate) fn of(cell: &Cell) -> Result<Setup, String> {
        Ok(Setup {
            indexes: cell.get("indexes")?,
            durable: cell.get("durable")?,
            roomy: cell.get("fits_memory")?,
            grouped: cell.get::<String>(GROUP).is_ok(),
            memory: table::memory(cell)?,
            expected: table::expected(cell)?,
        })
    }
}

/// Bytes that went to log, double-write area and data files; of peers only the sum is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) log: Option<u64>,
    pub(crate) double_write: Option<u64>,
    pub(crate) data: u64,
}

impl Written {
    /// What was written after `before`, as figures.
    pub(crate) fn since(&self, before: &Written) -> super::wire::Figures {
        let mut figures = super::wire::Figures::default();
        let grown = |now: u64, then: u64| {
            assert!(now >= then, "counters only grow");
            (now - then) as f64
        };
        let known = |now: Option<u64>, then: Option<u64>| {
            now.map_or(f64::NAN, |now| grown(now, then.unwrap_or(0)))
        };
        figures.set("log_bytes", known(self.log, before.log));
        figures.set("double_write_bytes", known(self.double_write, before.double_write));
        figures.set("data_bytes", grown(self.data, before.data));
        figures
    }
}
