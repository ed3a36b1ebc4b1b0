//! The present state of a row, for unique checks.
//!
//! Invariants: the question itself does no I/O, since an index latch is held (R7).
//! [`Heap::prepare_liveness`] reads missing pages beforehand.
//! Does not do: wait for the transaction that decides.
//!
//! PostgreSQL: `SnapshotDirty` in `access/heap/heapam_visibility.c`.

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::chain::walk_chain;
use crate::heap::page::{HeapPage, Tuple};
use crate::heap::visibility::{CommitHints, HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::{RowId, Xid};

/// Present state of the row that an index entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// The entry stands for no row: deleted, replaced by a version with its own entry, or aborted.
    Dead,
    /// The row is there.
    Live,
    /// A running transaction decides.
    InProgress(Xid),
    /// It cannot be told without I/O: call [`Heap::prepare_liveness`] without latches, then ask
    /// again.
    NeedsRead,
}

impl Heap {
    /// Present state of the row `root`, without I/O, so that it may be asked under an index latch.
    /// `owns` tells the xids of the asking transaction.
    pub fn liveness(&self, root: RowId, owns: &dyn Fn(Xid) -> bool) -> Result<Liveness> {
        if !self.is_data_block(root.block.0) {
            return Ok(Liveness::Dead);
        }
        let Some(pin) = self.pool().try_pin(self.page_id(root.block.0)) else {
            return Ok(Liveness::NeedsRead);
        };
        self.liveness_on(&pin, root, &mut HeapVisibility::new(self.txns()), owns)
    }

    /// Reads what [`Heap::liveness`] needs. The caller holds no latch, and keeps the pin while it
    /// asks again. Sets commit hints, so that statuses need no second read.
    pub fn prepare_liveness(&self, root: RowId) -> Result<Option<Pin>> {
        if !self.is_data_block(root.block.0) {
            return Ok(None);
        }
        let pin = self.pin(root.block)?;
        let mut visibility = HeapVisibility::new(self.txns());
        while self.liveness_on(&pin, root, &mut visibility, &|_| false)? == Liveness::NeedsRead {
            visibility.resolve()?;
        }
        Ok(Some(pin))
    }

    fn liveness_on(
        &self,
        pin: &Pin,
        root: RowId,
        visibility: &mut HeapVisibility<'_>,
        owns: &dyn Fn(Xid) -> bool,
    ) -> Result<Liveness> {
        let mut hints = CommitHints::default();
        let latch = pin.shared();
        if !self.is_data_block(root.block.0) {
            return Ok(Liveness::Dead);
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        let mut verdict = Liveness::Dead;
        walk_chain(&page, root.slot, |_, tuple| {
            hints.note(visibility.txns(), tuple.offset, &tuple.header);
            let version = liveness_of(tuple, visibility, owns);
            verdict = version.unwrap_or(Liveness::Dead);
            Ok(version.is_none())
        })?;
        let version = latch.version();
        drop(latch);
        hints.set(pin, version);
        Ok(verdict)
    }
}

/// State of one version; `None`: it has ended, and its successor decides.
fn liveness_of(
    tuple: &Tuple<'_>,
    visibility: &mut HeapVisibility<'_>,
    owns: &dyn Fn(Xid) -> bool,
) -> Option<Liveness> {
    let head = &tuple.header;
    match visibility.xmin_status(head) {
        None => return Some(Liveness::NeedsRead),
        Some(XminStatus::Aborted) => return Some(Liveness::Dead),
        Some(XminStatus::InProgress) if !owns(head.xmin) => {
            return Some(Liveness::InProgress(head.xmin));
        }
        Some(_) => {}
    }
    match visibility.xmax_status(head) {
        None => Some(Liveness::NeedsRead),
        Some(XmaxStatus::Invalid | XmaxStatus::Locked(_)) => Some(Liveness::Live),
        Some(XmaxStatus::InProgress(by)) if !owns(by) => Some(Liveness::InProgress(by)),
        Some(XmaxStatus::InProgress(_) | XmaxStatus::Committed(_)) => None,
    }
}
