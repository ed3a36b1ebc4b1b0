//! Fetch of one row: from the root that an index entry names, along the HOT chain, to the version
//! that a snapshot sees.
//!
//! Invariants: rows are copied out, and no reference leaves the latch (R11). Nothing is read from
//! the device while the heap page is latched (R7). A root that is gone, or whose slot holds another
//! row, is no row and no error: a snapshot never sees the new version of a slot that was freed
//! after it was registered (R3, R4).
//! Does not do: follow updates to other pages for a snapshot; those versions have index entries.
//!
//! PostgreSQL: `heap_hot_search_buffer` in `access/heap/heapam.c`.

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::chain::{walk_chain, walk_chain_since};
use crate::heap::page::{HeapPage, Slot};
use crate::heap::visibility::{CommitHints, HeapVisibility, SnapshotVisibility, XmaxStatus};
use crate::ids::{RowId, Xid};
use crate::txn::{Snapshot, Transaction};

/// Result of a fetch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fetched {
    /// The version that the snapshot sees, and its row.
    pub row: Option<(RowId, Vec<u8>)>,
    /// No snapshot sees any version of the row, now or later, and no crash changes that (R1): an
    /// index entry that names the root may be marked dead, if R3's clock allows.
    pub all_dead: bool,
}

/// Result of a fetch whose row went into the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FetchedVersion {
    /// The version that the snapshot sees.
    pub at: Option<RowId>,
    /// As [`Fetched::all_dead`].
    pub all_dead: bool,
}

impl Heap {
    /// The version of the row `root` that `snapshot` sees, on the row's pinned page.
    pub fn fetch_on(&self, pin: &Pin, snapshot: &Snapshot, root: RowId) -> Result<Fetched> {
        let mut bytes = Vec::new();
        let FetchedVersion { at, all_dead } = self.fetch_into(pin, snapshot, root, &mut bytes)?;
        Ok(Fetched { row: at.map(|at| (at, bytes)), all_dead })
    }

    /// As [`Heap::fetch_on`], for many rows in turn: `row` is overwritten with the row.
    pub fn fetch_into(
        &self,
        pin: &Pin,
        snapshot: &Snapshot,
        root: RowId,
        row: &mut Vec<u8>,
    ) -> Result<FetchedVersion> {
        assert!(pin.page() == self.page_id(root.block.0), "the root's page");
        let mut visibility = SnapshotVisibility::new(snapshot);
        loop {
            let mut hints = CommitHints::default();
            let latch = pin.shared();
            if !self.is_data_block(root.block.0) {
                return Ok(FetchedVersion::default());
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            if let Some((xmin, plain)) = page.simple_row(root.slot)
                && visibility.sees_before(xmin)
            {
                row.clear();
                row.extend_from_slice(plain);
                return Ok(FetchedVersion { at: Some(root), all_dead: false });
            }
            let found = find_visible(&page, root, &mut visibility, &mut hints, row)?;
            if !visibility.is_incomplete() {
                let all_dead = found.is_none() && self.all_dead(&page, root)?;
                let version = latch.version();
                drop(latch);
                hints.set(pin, version);
                return Ok(FetchedVersion { at: found, all_dead });
            }
            drop(latch);
            visibility.resolve()?;
        }
    }

    /// The version at `at` itself, heap-only or not, if `snapshot` sees it; otherwise what
    /// [`Heap::fetch_on`] finds from there. For a write by a row id that a read of the same
    /// snapshot returned.
    pub fn fetch_version(
        &self,
        snapshot: &Snapshot,
        at: RowId,
    ) -> Result<Option<(RowId, Vec<u8>)>> {
        if !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        let pin = self.pin(at.block)?;
        match self.fetch_exact(&pin, snapshot, at)? {
            Some(row) => Ok(Some((at, row))),
            None => Ok(self.fetch_on(&pin, snapshot, at)?.row),
        }
    }

    /// The version at `at` itself, heap-only or not, if `snapshot` sees it.
    pub fn fetch_at(&self, snapshot: &Snapshot, at: RowId) -> Result<Option<Vec<u8>>> {
        // No row lies at slot 0.
        if at.slot == 0 || !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        self.fetch_exact(&self.pin(at.block)?, snapshot, at)
    }

    /// The version at `at` and no other, if `snapshot` sees it.
    fn fetch_exact(&self, pin: &Pin, snapshot: &Snapshot, at: RowId) -> Result<Option<Vec<u8>>> {
        let mut visibility = SnapshotVisibility::new(snapshot);
        loop {
            let latch = pin.shared();
            if !self.is_data_block(at.block.0) {
                return Ok(None);
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let Some(tuple) = page.tuple(at.slot)? else { return Ok(None) };
            match visibility.is_visible(&tuple.header) {
                Some(seen) => return Ok(seen.then(|| tuple.row.to_vec())),
                None => drop(latch),
            }
            visibility.resolve()?;
        }
    }

    /// The version at `at` as an earlier statement of `txn` returned it, although the row may have
    /// changed since. For a write by a row id that the present snapshot does not see.
    pub fn fetch_handed_out(&self, txn: &Transaction, at: RowId) -> Result<Option<Vec<u8>>> {
        let Some(xmin) = self.creator(at)? else { return Ok(None) };
        let Some(snapshot) = txn.snapshot_of(xmin) else { return Ok(None) };
        self.fetch_exact(&self.pin(at.block)?, &snapshot, at)
    }

    /// The creator of the version at `at`, if there is one.
    pub fn creator(&self, at: RowId) -> Result<Option<Xid>> {
        if !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        let pin = self.pin(at.block)?;
        let latch = pin.shared();
        if !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        Ok(page.tuple(at.slot)?.map(|tuple| tuple.header.xmin))
    }

    /// Can `snapshot`, which sees the version at `at`, see another row with the same unique key? Of
    /// two such rows ([`Snapshot::may_see_key_twice`]) the snapshot's own transaction wrote one,
    /// after another transaction had ended the other.
    pub fn may_share_key(&self, snapshot: &Snapshot, at: RowId) -> Result<bool> {
        if !snapshot.may_see_key_twice() {
            return Ok(false);
        }
        let pin = self.pin(at.block)?;
        let mut visibility = HeapVisibility::new(self.txns());
        loop {
            let latch = pin.shared();
            if !self.is_data_block(at.block.0) {
                return Ok(true);
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            // A version that the snapshot sees is gone only if the snapshot has expired.
            let Some(tuple) = page.tuple(at.slot)? else { return Ok(true) };
            let header = tuple.header;
            if snapshot.is_own(header.xmin) {
                return Ok(true);
            }
            if let Some(end) = visibility.xmax_status(&header) {
                return Ok(matches!(end, XmaxStatus::Committed(by) if !snapshot.is_own(by)));
            }
            drop(latch);
            visibility.resolve()?;
        }
    }

    /// Is every version of `root` dead to everyone, durably? No if the answer would need I/O.
    pub(in crate::heap) fn all_dead(&self, page: &HeapPage<'_>, root: RowId) -> Result<bool> {
        if page.slot(root.slot)? == Slot::Dead {
            return Ok(page.lsn() <= self.pool().wal().durable());
        }
        let (mut visibility, horizon) = (HeapVisibility::new(self.txns()), self.txns().horizon());
        let (mut versions, mut dead) = (0, 0);
        walk_chain(page, root.slot, |_, tuple| {
            versions += 1;
            dead += u32::from(visibility.is_durably_dead(&tuple.header, horizon) == Some(true));
            Ok(versions == dead)
        })?;
        Ok(versions > 0 && versions == dead)
    }
}

/// The visible version of `root`'s chain, and its bytes in `row`. Incomplete when `seer` is stuck
/// afterwards.
pub(in crate::heap) fn find_visible(
    page: &HeapPage<'_>,
    root: RowId,
    visibility: &mut SnapshotVisibility<'_>,
    hints: &mut CommitHints,
    row: &mut Vec<u8>,
) -> Result<Option<RowId>> {
    let mut found = None;
    walk_chain_since(page, root.slot, visibility.oldest(), |slot, tuple| {
        hints.note(visibility.manager(), tuple.offset, &tuple.header);
        if visibility.is_visible(&tuple.header) == Some(true) {
            row.clear();
            row.extend_from_slice(tuple.row);
            found = Some(RowId { block: root.block, slot });
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}
