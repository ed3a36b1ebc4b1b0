//! Commit status: the outcome of each xid, in memory for recent xids and on disk for all.
//!
//! | file | holds |
//! |---|---|
//! | `recent` | outcomes of recent xids, read without a lock ([`recent::RecentOutcomes`]) |
//! | `durable` | which recent commits are durable (R1) |
//! | `spill` | commit numbers on their way from memory to disk |
//! | `file` | the status file: entries on pages, and the records that change them |
//! | `segment` | where the entry of an xid lies |
//!
//! Invariants: (R1) a commit number reaches a page only when its commit is durable.
//! Does not do: combine these into one answer (`manager::outcome`), decide outcomes
//! (`manager::commit`). As PostgreSQL's `pg_xact`, but with commit numbers, so that a snapshot is
//! one number instead of a list of running xids.

pub(in crate::txn) mod durable;
pub(in crate::txn) mod file;
pub(in crate::txn) mod recent;
pub(in crate::txn) mod segment;
pub(in crate::txn) mod spill;

use crate::ids::Csn;

/// Commit number of everything that every snapshot sees: committed before this process started, or
/// so long ago that its own number was dropped. Numbers given out are larger.
pub(crate) const CSN_OLD: Csn = Csn(file::COMMITTED);

/// State of an xid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Still running (in this process).
    InProgress,
    /// Committed and visible with this commit number.
    Committed(Csn),
    /// Rolled back, never finished before a crash, or never used.
    Aborted,
}

impl Status {
    /// What a slot of the recent outcomes says.
    pub(in crate::txn) fn from_slot(value: u64) -> Status {
        match value {
            recent::IN_PROGRESS => Status::InProgress,
            recent::ABORTED => Status::Aborted,
            csn => Status::Committed(Csn(csn)),
        }
    }
}
