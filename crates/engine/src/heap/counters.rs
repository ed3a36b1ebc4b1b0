//! What was done to a heap since it was opened, for statistics.
//!
//! Invariants: figures only grow, and nothing depends on them. Does not do: transactions; what a
//! rolled-back one did is counted, too.

use rightlink_env::sync::{AtomicU64, Ordering};

/// Counters beside the data that they count.
#[derive(Default)]
pub(super) struct Counters {
    scans: AtomicU64,
    rows_scanned: AtomicU64,
    inserted: AtomicU64,
    updated: AtomicU64,
    heap_only: AtomicU64,
    deleted: AtomicU64,
}

/// What they say.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HeapFigures {
    /// Scans of the whole heap that began.
    pub scans: u64,
    /// Rows that they handed out.
    pub rows_scanned: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Those of them whose indexes needed no entry.
    pub heap_only: u64,
    /// Rows deleted.
    pub deleted: u64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn scan(&self) {
        add(&self.scans, 1);
    }

    pub(super) fn scanned(&self, rows: u64) {
        add(&self.rows_scanned, rows);
    }

    pub(super) fn insert(&self, rows: usize) {
        add(&self.inserted, rows as u64);
    }

    pub(super) fn update(&self, heap_only: bool) {
        add(&self.updated, 1);
        if heap_only {
            add(&self.heap_only, 1);
        }
    }

    pub(super) fn delete(&self) {
        add(&self.deleted, 1);
    }

    pub(super) fn figures(&self) -> HeapFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HeapFigures {
            scans: read(&self.scans),
            rows_scanned: read(&self.rows_scanned),
            inserted: read(&self.inserted),
            updated: read(&self.updated),
            heap_only: read(&self.heap_only),
            deleted: read(&self.deleted),
        }
    }
}
