//! Pruning between snapshots (R9): removes a version that no live snapshot sees although an older
//! snapshot exists. The version was created after snapshot A and replaced before the next snapshot
//! B.
//!
//! The predecessor gets the removed version's xmax, next and flags, in the same record. So every
//! snapshot that sees the predecessor sees the same as before, and links lead where the removed
//! version's led. If the predecessor may lie on another page, a forwarding stub stays: the header
//! without the row.
//!
//! Invariants: creation and end are committed, with known commit numbers. No live snapshot lies
//! between them, in a set copied under the lock that registers snapshots. A link keeps naming the
//! next version's creator as its xmax. A HOT chain never gets a version with other keys: a link
//! over the end of a chain becomes an ordinary one.
//! Does not do: versions that no snapshot sees at all (`plan`); links from other pages.
//!
//! J. Lee et al., 2016 (SAP HANA), and J. Böttcher et al., 2019; PostgreSQL has no counterpart.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};

use crate::error::Result;
use crate::heap::page::tuple::{HEAP_ONLY, HOT_UPDATED, STUB, TUPLE_HEADER, TupleHeader, UPDATED};
use crate::heap::page::{HeapPage, Slot};
use crate::heap::prune::dead_roots::DeadRoot;
use crate::heap::prune::plan::{PrunePlan, UnsettledVersions};
use crate::heap::visibility::{HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::{Csn, RowId, Xid};
use crate::txn::{SnapshotSet, Status};

/// The versions of a page and the links between them.
struct VersionLinks {
    /// Per slot the header of a version that stays, with its offset.
    heads: Vec<Option<(u16, TupleHeader)>>,
    /// Per slot the version on this page that it replaced; 0: none.
    before: Vec<u16>,
    /// Per slot the line pointer that redirects to it; 0: none.
    redirect: Vec<u16>,
    /// Slots whose header changes.
    changed: Vec<u16>,
}

impl VersionLinks {
    fn read(page: &HeapPage<'_>, slots: &[Slot]) -> Result<VersionLinks> {
        let count = slots.len() + 1;
        let mut links = VersionLinks {
            heads: vec![None; count],
            before: vec![0; count],
            redirect: vec![0; count],
            changed: Vec::new(),
        };
        for (slot, state) in (1u16..).zip(slots) {
            match state {
                Slot::Normal { .. } => {
                    let tuple = page.tuple(slot)?;
                    links.heads[usize::from(slot)] =
                        tuple.map(|tuple| (tuple.offset, tuple.header));
                }
                Slot::Redirect(to) if usize::from(*to) < count => {
                    links.redirect[usize::from(*to)] = slot;
                }
                _ => {}
            }
        }
        for slot in 1..count as u16 {
            let Some(next) = links.next_here(slot, page.id().block.0) else { continue };
            links.before[usize::from(next)] = slot;
        }
        Ok(links)
    }

    fn head(&self, slot: u16) -> Option<&TupleHeader> {
        self.heads.get(usize::from(slot))?.as_ref().map(|(_, head)| head)
    }

    /// The version on this page, block `block`, that replaced the one at `slot`.
    fn next_here(&self, slot: u16, block: u32) -> Option<u16> {
        let head = self.head(slot)?;
        let next = head.next.filter(|next| next.block.0 == block && !head.only_locked())?;
        let same = self.head(next.slot).is_some_and(|child| child.xmin == head.xmax);
        same.then_some(next.slot)
    }

    fn put(&mut self, slot: u16, head: TupleHeader) {
        let place = self.heads[usize::from(slot)].as_mut().expect("a version that stays");
        place.1 = head;
        if !self.changed.contains(&slot) {
            self.changed.push(slot);
        }
    }
}

/// Does this version lie between two live snapshots? No, if that cannot be told.
pub(in crate::heap) fn is_between_snapshots(
    head: &TupleHeader,
    visibility: &mut HeapVisibility<'_>,
    set: &SnapshotSet,
) -> bool {
    if visibility.xmin_status(head) != Some(XminStatus::Committed) {
        return false;
    }
    let Some(XmaxStatus::Committed(by)) = visibility.xmax_status(head) else { return false };
    let created = match head.xmin < set.horizon {
        true => Some(Csn(0)),
        false => commit_number(head.xmin, visibility),
    };
    let numbers = created.zip(commit_number(by, visibility));
    numbers.is_some_and(|(created, ended)| !set.sees_between(created, ended))
}

fn commit_number(xid: Xid, visibility: &mut HeapVisibility<'_>) -> Option<Csn> {
    match visibility.status(xid)? {
        Status::Committed(csn) => Some(csn),
        _ => None,
    }
}

impl PrunePlan {
    /// Plans the removal of versions between the snapshots of `set`.
    pub(in crate::heap) fn prune_gaps(
        &mut self,
        page: &HeapPage<'_>,
        versions: &UnsettledVersions<'_>,
        visibility: &mut HeapVisibility<'_>,
        set: &SnapshotSet,
    ) -> Result<()> {
        let mut gone = Vec::new();
        for (slot, tuple) in versions.unsettled() {
            if !matches!(self.slots[usize::from(slot) - 1], Slot::Normal { .. }) {
                continue;
            }
            if tuple.header.xmax != Xid::NONE
                && is_between_snapshots(&tuple.header, visibility, set)
            {
                gone.push((RowId { block: page.id().block, slot }, tuple.row));
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let mut links = VersionLinks::read(page, &self.slots)?;
        gone.into_iter().for_each(|(at, row)| self.remove_version(at, row, &mut links, set));
        let edit = |slot: &u16| links.heads[usize::from(*slot)];
        self.edits.extend(links.changed.iter().filter_map(edit));
        Ok(())
    }

    /// Removes one version, or leaves a stub of it.
    fn remove_version(
        &mut self,
        at: RowId,
        row: &[u8],
        links: &mut VersionLinks,
        set: &SnapshotSet,
    ) {
        let Some(head) = links.head(at.slot).copied() else { return };
        let before = links.before[usize::from(at.slot)];
        let is_root = !head.has(HEAP_ONLY);
        if before == 0 {
            // A reader that sees the predecessor, on another page, may follow its link to here.
            let awaited = is_root && head.has(UPDATED) && head.xmin >= set.horizon;
            if awaited && !broken(Broken::NoForwardingStub) {
                return self.leave_stub(at, &head, row, links);
            }
            if !is_root && links.redirect[usize::from(at.slot)] == 0 {
                return;
            }
        }
        hit("heap.between.removed");
        let next = links.next_here(at.slot, at.block.0);
        let hot = next.filter(|_| head.has(HOT_UPDATED));
        self.unlink(at, hot, links, &head, row);
        if let Some(next) = next {
            links.before[usize::from(next)] = before;
        }
        links.heads[usize::from(at.slot)] = None;
        links.changed.retain(|slot| *slot != at.slot);
        if before != 0 {
            self.relink(RowId { slot: before, ..at }, &head, row, links);
        }
    }

    /// Updates the line pointers after the version at `at` was removed; `hot` follows it in its HOT
    /// chain.
    fn unlink(
        &mut self,
        at: RowId,
        hot: Option<u16>,
        links: &mut VersionLinks,
        head: &TupleHeader,
        row: &[u8],
    ) {
        let redirect = links.redirect[usize::from(at.slot)];
        let root = match redirect {
            0 if !head.has(HEAP_ONLY) => Some(at.slot),
            0 => None,
            root => Some(root),
        };
        if root != Some(at.slot) {
            self.set_slot(at.slot, Slot::Unused);
        }
        let Some(root) = root else { return };
        match hot {
            Some(next) => {
                self.set_slot(root, Slot::Redirect(next));
                links.redirect[usize::from(next)] = root;
            }
            None => {
                self.set_slot(root, Slot::Dead);
                self.push_dead_root(RowId { slot: root, ..at }, head, row);
            }
        }
    }

    /// Links the version at `before` past the removed one, which had `gone`.
    fn relink(&mut self, before: RowId, gone: &TupleHeader, row: &[u8], links: &mut VersionLinks) {
        let Some(old) = links.head(before.slot).copied() else { return };
        let new = match broken(Broken::OldVersionKeepsItsEnd) {
            true => TupleHeader { next: gone.next, ..old },
            false => old.relinked_past(gone),
        };
        links.put(before.slot, new);
        let was_hot = old.has(HOT_UPDATED) && !new.has(HOT_UPDATED);
        if old.has(STUB) && was_hot {
            // Its chain had the keys that only this row still told.
            self.push_dead_root(before, gone, row);
        }
    }

    fn leave_stub(&mut self, at: RowId, head: &TupleHeader, row: &[u8], links: &mut VersionLinks) {
        if head.has(STUB) {
            return;
        }
        let Some((offset, _)) = links.heads[usize::from(at.slot)] else { return };
        hit("heap.between.stub");
        let stub = TupleHeader { flags: head.flags | STUB, ..*head };
        links.put(at.slot, stub);
        self.set_slot(at.slot, Slot::Normal { offset, len: TUPLE_HEADER as u16 });
        if head.hot_next().is_none() {
            self.push_dead_root(at, head, row);
        }
    }

    /// Reports that no version is left that index entries for `root` lead to. `head` and `row` are
    /// those of its last version. A stub does not know its keys any more; vacuum finds its entries.
    fn push_dead_root(&mut self, root: RowId, head: &TupleHeader, row: &[u8]) {
        if !head.has(STUB) {
            let (row, xmin, pruned_at) = (row.to_vec(), head.xmin, self.now);
            self.dead.push(DeadRoot { row_id: root, row, xmin, pruned_at });
        }
    }
}
