//! Versions between snapshots leave (R9): created after one live snapshot was taken, replaced or
//! deleted before the next.
//!
//! The version before it gets its end: who ended it and what came then, in the record that removes
//! it. So for every snapshot that sees the version before nothing changes, and whoever follows
//! links comes to where the removed version would have led. If the version before lies on another
//! page, a forwarding stub stays: the header without the row. What was inserted, not updated, has
//! no version before it.
//!
//! Invariants: only versions whose beginning and end are committed, with known commit numbers, and
//! with no live snapshot from the first to before the second in a set that was copied under the
//! lock that registers snapshots; those of running transactions, of rolled-back savepoints and of
//! open cursors are thereby never removed. A link keeps naming the next version's creator as its
//! xmax. A HOT chain never gets a version with other keys: a link that goes over the end of a chain
//! is an ordinary one.
//! Does not do: versions that nobody sees at all (`prune`); links from other pages.

use rightlink_env::points::{broken, hit};

use crate::error::Result;
use crate::heap::page::{HeapPage, Slot};
use crate::heap::prune::{DeadRoot, Plan, Versions};
use crate::heap::tuple::{HEAP_ONLY, HOT_UPDATED, STUB, TUPLE_HEADER, TupleHeader, UPDATED};
use crate::heap::visibility::{Birth, End, Judge};
use crate::ids::{Csn, RowId, Xid};
use crate::txn::{SnapshotSet, Status};

/// The versions of a page and how they hang together.
struct Links {
    /// Per slot the header of a version that stays, with its offset.
    heads: Vec<Option<(u16, TupleHeader)>>,
    /// Per slot the version on this page that it replaced; 0: none.
    before: Vec<u16>,
    /// Per slot the line pointer that redirects to it; 0: none.
    redirect: Vec<u16>,
    /// Slots whose header changes.
    changed: Vec<u16>,
}

impl Links {
    fn read(page: &HeapPage<'_>, slots: &[Slot]) -> Result<Links> {
        let count = slots.len() + 1;
        let mut links = Links {
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

/// Is this version between two live snapshots? No, if that cannot be told.
pub(super) fn lies_between(head: &TupleHeader, judge: &mut Judge<'_>, set: &SnapshotSet) -> bool {
    if judge.birth(head) != Some(Birth::Committed) {
        return false;
    }
    let Some(End::Ended(by)) = judge.end(head) else { return false };
    let created = match head.xmin < set.horizon {
        true => Some(Csn(0)),
        false => commit_number(head.xmin, judge),
    };
    let numbers = created.zip(commit_number(by, judge));
    numbers.is_some_and(|(created, ended)| !set.sees_between(created, ended))
}

fn commit_number(xid: Xid, judge: &mut Judge<'_>) -> Option<Csn> {
    match judge.status(xid)? {
        Status::Committed(csn) => Some(csn),
        _ => None,
    }
}

impl Plan {
    /// Plans the removal of versions between the snapshots of `set`.
    pub(super) fn remove_between(
        &mut self,
        page: &HeapPage<'_>,
        versions: &Versions<'_>,
        judge: &mut Judge<'_>,
        set: &SnapshotSet,
    ) -> Result<()> {
        let mut gone = Vec::new();
        for (slot, tuple) in versions.unsettled() {
            if !matches!(self.slots[usize::from(slot) - 1], Slot::Normal { .. }) {
                continue;
            }
            if tuple.header.xmax != Xid::NONE && lies_between(&tuple.header, judge, set) {
                gone.push((RowId { block: page.id().block, slot }, tuple.row));
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let mut links = Links::read(page, &self.slots)?;
        gone.into_iter().for_each(|(at, row)| self.take_out(at, row, &mut links, set));
        let edit = |slot: &u16| links.heads[usize::from(*slot)];
        self.edits.extend(links.changed.iter().filter_map(edit));
        Ok(())
    }

    /// Removes one version, or leaves a stub of it.
    fn take_out(&mut self, at: RowId, row: &[u8], links: &mut Links, set: &SnapshotSet) {
        let Some(head) = links.head(at.slot).copied() else { return };
        let before = links.before[usize::from(at.slot)];
        let is_root = !head.has(HEAP_ONLY);
        if before == 0 {
            // Somebody who sees the version before, on another page, may come by.
            let awaited = is_root && head.has(UPDATED) && head.xmin >= set.horizon;
            if awaited && !broken("r9-stub") {
                return self.leave_stub(at, &head, row, links);
            }
            if !is_root && links.redirect[usize::from(at.slot)] == 0 {
                return;
            }
        }
        hit("heap.between.removed");
        let next = links.next_here(at.slot, at.block.0);
        let hot = next.filter(|_| head.has(HOT_UPDATED));
        self.unhook(at, hot, links, (row, &head));
        if let Some(next) = next {
            links.before[usize::from(next)] = before;
        }
        links.heads[usize::from(at.slot)] = None;
        links.changed.retain(|slot| *slot != at.slot);
        if before != 0 {
            self.relink(RowId { slot: before, ..at }, &head, row, links);
        }
    }

    /// Line pointers after the version at `at` is gone, which `hot` follows in its HOT chain.
    fn unhook(
        &mut self,
        at: RowId,
        hot: Option<u16>,
        links: &mut Links,
        (row, head): (&[u8], &TupleHeader),
    ) {
        let redirect = links.redirect[usize::from(at.slot)];
        let root = match redirect {
            0 if !head.has(HEAP_ONLY) => Some(at.slot),
            0 => None,
            root => Some(root),
        };
        if root != Some(at.slot) {
            self.set(at.slot, Slot::Unused);
        }
        let Some(root) = root else { return };
        match hot {
            Some(next) => {
                self.set(root, Slot::Redirect(next));
                links.redirect[usize::from(next)] = root;
            }
            None => {
                self.set(root, Slot::Dead);
                self.entries_go(RowId { slot: root, ..at }, head, row);
            }
        }
    }

    /// The version at `before` is followed by what followed the removed one, which had `gone`.
    fn relink(&mut self, before: RowId, gone: &TupleHeader, row: &[u8], links: &mut Links) {
        let Some(old) = links.head(before.slot).copied() else { return };
        let new = match broken("r9-link") {
            true => TupleHeader { next: gone.next, ..old },
            false => old.ended_as(gone),
        };
        links.put(before.slot, new);
        let was_hot = old.has(HOT_UPDATED) && !new.has(HOT_UPDATED);
        if old.has(STUB) && was_hot {
            // Its chain had the keys that only this row still told.
            self.entries_go(before, gone, row);
        }
    }

    fn leave_stub(&mut self, at: RowId, head: &TupleHeader, row: &[u8], links: &mut Links) {
        if head.has(STUB) {
            return;
        }
        let Some((offset, _)) = links.heads[usize::from(at.slot)] else { return };
        hit("heap.between.stub");
        let stub = TupleHeader { flags: head.flags | STUB, ..*head };
        links.put(at.slot, stub);
        self.set(at.slot, Slot::Normal { offset, len: TUPLE_HEADER as u16 });
        if head.hot_next().is_none() {
            self.entries_go(at, head, row);
        }
    }

    /// No version is left that index entries for `root` lead to. `head` and `row` are those of its
    /// last one; a stub does not know its keys any more, vacuum finds the entries.
    fn entries_go(&mut self, root: RowId, head: &TupleHeader, row: &[u8]) {
        if !head.has(STUB) {
            let (row, born, pruned_at) = (row.to_vec(), head.xmin, self.now);
            self.dead.push(DeadRoot { row_id: root, row, born, pruned_at });
        }
    }
}
