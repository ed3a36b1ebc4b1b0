//! Visibility of a version to one snapshot.
//!
//! Invariants: an answer never changes during the life of a [`SnapshotVisibility`]; nothing is read
//! while the caller holds a latch (R7).
//! Does not do: walk chains.
//!
//! PostgreSQL: `HeapTupleSatisfiesMVCC` in `access/heap/heapam_visibility.c`.

use crate::error::Result;
use crate::heap::page::tuple::{
    TupleHeader, XMAX_ABORTED, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED,
};
use crate::heap::visibility::MEMORY;
use crate::ids::Xid;
use crate::txn::{Snapshot, TxnManager};

/// Checks versions against one snapshot, as `HeapTupleSatisfiesMVCC` of PostgreSQL.
pub(in crate::heap) struct SnapshotVisibility<'s> {
    snapshot: &'s Snapshot,
    known: Vec<(Xid, bool)>,
    missing: Vec<Xid>,
}

impl<'s> SnapshotVisibility<'s> {
    pub(in crate::heap) fn new(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, known: Vec::new(), missing: Vec::new() }
    }

    pub(in crate::heap) fn manager(&self) -> &'s TxnManager {
        self.snapshot.manager()
    }

    /// The snapshot sees the work of every xid below this one that has committed.
    #[inline]
    pub(in crate::heap) fn oldest(&self) -> Xid {
        self.snapshot.xmin()
    }

    /// Does the snapshot see the work of `xid`, which has committed, without a further look?
    #[inline]
    pub(in crate::heap) fn sees_before(&self, xid: Xid) -> bool {
        xid == Xid::FROZEN || xid < self.snapshot.xmin()
    }

    /// Is the work of `xid` visible? `None`: ask again after [`SnapshotVisibility::resolve`].
    fn sees(&mut self, xid: Xid) -> Option<bool> {
        if xid == Xid::FROZEN {
            return Some(true);
        }
        if let Some((_, seen)) = self.known.iter().rev().find(|(known, _)| *known == xid) {
            return Some(*seen);
        }
        let seen = self.snapshot.try_sees(xid);
        if seen.is_none() && !self.missing.contains(&xid) {
            self.missing.push(xid);
        }
        seen
    }

    fn remember(&mut self, xid: Xid, seen: bool) {
        if self.known.len() >= MEMORY {
            self.known.clear();
        }
        self.known.push((xid, seen));
    }

    /// Does the snapshot see this version?
    pub(in crate::heap) fn is_visible(&mut self, tuple: &TupleHeader) -> Option<bool> {
        let begun = tuple.has(XMIN_COMMITTED) && self.sees_before(tuple.xmin);
        if tuple.has(XMIN_ABORTED) || !begun && !self.sees(tuple.xmin)? {
            return Some(false);
        }
        if tuple.only_locked() || tuple.has(XMAX_ABORTED) {
            return Some(true);
        }
        let ended = tuple.has(XMAX_COMMITTED) && tuple.xmax < self.snapshot.xmin();
        Some(!ended && !self.sees(tuple.xmax)?)
    }

    /// Is an answer missing?
    pub(in crate::heap) fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Reads the missing statuses; the caller holds no latch (R7).
    pub(in crate::heap) fn resolve(&mut self) -> Result<()> {
        for xid in std::mem::take(&mut self.missing) {
            let seen = self.snapshot.sees(xid)?;
            self.remember(xid, seen);
        }
        Ok(())
    }
}
