//! The plan of what pruning does to one page.
//!
//! Invariants: everything is planned, and checked, before the first store; a plan never touches a
//! version whose state is unknown.
//! Does not do: latch or log (`prune/mod.rs`), or versions between snapshots (`gaps`).

use crate::error::Result;
use crate::heap::page::chain::walk_chain;
use crate::heap::page::compact::Compaction;
use crate::heap::page::tuple::{HEAP_ONLY, STUB, TupleHeader};
use crate::heap::page::{HeapPage, Slot, Tuple, store};
use crate::heap::prune::dead_roots::DeadRoot;
use crate::heap::visibility::{CommitHints, HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::{RowId, Xid};
use crate::page::PageMut;
use crate::txn::SnapshotSet;

/// The versions that planning looks at, decoded once: all but settled ones and redirects to settled
/// ones. A settled version starts no chain that may be shortened, is not aborted, has no end and
/// needs no hint.
pub(in crate::heap) struct UnsettledVersions<'a>(Vec<(u16, Option<Tuple<'a>>)>);

impl<'a> UnsettledVersions<'a> {
    fn read(page: &HeapPage<'a>, slots: &[Slot]) -> Result<Self> {
        let mut found = Vec::new();
        for (slot, state) in (1u16..).zip(slots) {
            match state {
                Slot::Normal { offset, .. } if page.is_settled(*offset) => {}
                Slot::Normal { offset, len } => {
                    found.push((slot, Some(page.tuple_at(slot, *offset, *len)?)));
                }
                // The target is checked with its chain.
                Slot::Redirect(to) => match slots.get(usize::from(*to).wrapping_sub(1)) {
                    Some(Slot::Normal { offset, .. }) if page.is_settled_chain(*offset) => {}
                    _ => found.push((slot, None)),
                },
                Slot::Unused | Slot::Dead => {}
            }
        }
        Ok(Self(found))
    }

    /// The versions that are not settled, by line pointer.
    pub(in crate::heap) fn unsettled(&self) -> impl Iterator<Item = (u16, &Tuple<'a>)> {
        self.0.iter().filter_map(|(slot, tuple)| tuple.as_ref().map(|tuple| (*slot, tuple)))
    }
}

/// May the HOT chain of a root lose versions? A chain of one living version may not. A root without
/// a version of its own redirects.
fn may_shorten(
    root: Option<&Tuple<'_>>,
    visibility: &mut HeapVisibility<'_>,
    horizon: Xid,
) -> bool {
    let Some(Tuple { header, .. }) = root else { return true };
    !header.has(HEAP_ONLY)
        && (header.hot_next().is_some() || visibility.is_dead_to_all(header, horizon) == Some(true))
}

/// What pruning will do to a page.
pub(in crate::heap) struct PrunePlan {
    /// Line pointers afterwards, offsets as they are now.
    pub(in crate::heap) slots: Vec<Slot>,
    /// Roots that die.
    pub(in crate::heap) dead: Vec<DeadRoot>,
    /// The recycle clock, read under the page's latch.
    pub(in crate::heap) now: u64,
    /// Headers to store, by offset: of versions whose successor is removed.
    pub(in crate::heap) edits: Vec<(u16, TupleHeader)>,
    /// Oldest xid that ends a version that stays: the new prunable mark.
    prune_xid: Xid,
    /// Outcomes learned about the versions that stay, so that later readers need not look them up.
    pub(in crate::heap) hints: CommitHints,
    /// Bytes of removed versions: offset and length.
    gone: Vec<(u16, u16)>,
    /// Removed versions.
    removed: u64,
    changed: bool,
}

impl PrunePlan {
    /// Plans the pruning of `page` beside the live `snapshots`. A version whose state `visibility`
    /// cannot tell stays.
    pub(in crate::heap) fn new(
        page: &HeapPage<'_>,
        visibility: &mut HeapVisibility<'_>,
        snapshots: &SnapshotSet,
        now: u64,
    ) -> Result<PrunePlan> {
        let mut plan = PrunePlan { now, ..PrunePlan::unchanged(page)? };
        let versions = UnsettledVersions::read(page, &plan.slots)?;
        let horizon = snapshots.horizon;
        for (root, version) in &versions.0 {
            let is_left = plan.slots[usize::from(*root) - 1] != Slot::Unused;
            if is_left && may_shorten(version.as_ref(), visibility, horizon) {
                plan.prune_chain(page, *root, visibility, horizon)?;
            }
        }
        plan.remove_aborted(&versions, visibility);
        plan.prune_gaps(page, &versions, visibility, snapshots)?;
        plan.find_prune_xid(page, &versions, visibility);
        Ok(plan)
    }

    /// A plan that leaves `page` as it is.
    pub(in crate::heap) fn unchanged(page: &HeapPage<'_>) -> Result<PrunePlan> {
        Ok(PrunePlan {
            slots: page.all_slots()?,
            dead: Vec::new(),
            now: 0,
            edits: Vec::new(),
            prune_xid: page.prune_xid().unwrap_or(Xid::NONE),
            hints: CommitHints::default(),
            gone: Vec::new(),
            removed: 0,
            changed: false,
        })
    }

    /// Frees the line pointers among `rows` that are dead; returns how many.
    pub(in crate::heap) fn free(&mut self, rows: &[RowId]) -> u64 {
        let mut freed = 0;
        for row in rows {
            if self.slots.get(usize::from(row.slot).wrapping_sub(1)) == Some(&Slot::Dead) {
                self.set_slot(row.slot, Slot::Unused);
                freed += 1;
            }
        }
        freed
    }

    pub(in crate::heap) fn changes(&self) -> bool {
        self.changed
    }

    pub(in crate::heap) fn set_slot(&mut self, slot: u16, to: Slot) {
        let place = &mut self.slots[usize::from(slot) - 1];
        if *place == to {
            return;
        }
        let before = std::mem::replace(place, to);
        self.changed = true;
        let Slot::Normal { offset, len } = before else { return };
        match to {
            // The rest of the tuple stays where it is.
            Slot::Normal { len: left, .. } => self.gone.push((offset + left, len - left)),
            _ => {
                self.gone.push((offset, len));
                self.removed += 1;
            }
        }
    }

    fn prune_chain(
        &mut self,
        page: &HeapPage<'_>,
        root: u16,
        visibility: &mut HeapVisibility<'_>,
        horizon: Xid,
    ) -> Result<()> {
        let mut chain: Vec<(u16, Tuple<'_>)> = Vec::new();
        let mut dead = 0;
        walk_chain(page, root, |slot, tuple| {
            chain.push((slot, *tuple));
            let gone = visibility.is_dead_to_all(&tuple.header, horizon) == Some(true);
            if gone
                && (dead + 1 == chain.len()
                    || visibility.xmin_status(&tuple.header) != Some(XminStatus::Aborted))
            {
                dead = chain.len();
            }
            Ok(true)
        })?;
        if dead == 0 {
            return Ok(());
        }
        for (slot, _) in &chain[..dead] {
            self.set_slot(*slot, Slot::Unused);
        }
        match chain.get(dead) {
            Some((first, _)) => self.set_slot(root, Slot::Redirect(*first)),
            None => {
                self.set_slot(root, Slot::Dead);
                let row_id = RowId { block: page.id().block, slot: root };
                if let Some((xmin, row)) = row_of_entries(&chain, visibility) {
                    self.dead.push(DeadRoot { row_id, row, xmin, pruned_at: self.now });
                }
            }
        }
        Ok(())
    }

    /// Removes heap-only versions of aborted updates: no chain leads to them, now or later.
    fn remove_aborted(
        &mut self,
        versions: &UnsettledVersions<'_>,
        visibility: &mut HeapVisibility<'_>,
    ) {
        for (slot, tuple) in versions.unsettled() {
            if self.slots[usize::from(slot) - 1] != Slot::Unused
                && tuple.header.has(HEAP_ONLY)
                && visibility.xmin_status(&tuple.header) == Some(XminStatus::Aborted)
            {
                self.set_slot(slot, Slot::Unused);
            }
        }
    }

    fn find_prune_xid(
        &mut self,
        page: &HeapPage<'_>,
        versions: &UnsettledVersions<'_>,
        visibility: &mut HeapVisibility<'_>,
    ) {
        self.prune_xid = Xid::NONE;
        for (slot, tuple) in versions.unsettled() {
            if !matches!(self.slots[usize::from(slot) - 1], Slot::Normal { .. }) {
                continue;
            }
            self.hints.note(visibility.txns(), tuple.offset, &tuple.header);
            // A lock ends nothing, also one whose holder's status is not known.
            if tuple.header.only_locked()
                || matches!(
                    visibility.xmax_status(&tuple.header),
                    Some(XmaxStatus::Invalid | XmaxStatus::Locked(_))
                )
            {
                continue;
            }
            let by = tuple.header.xmax;
            if self.prune_xid == Xid::NONE || by < self.prune_xid {
                self.prune_xid = by;
            }
        }
        self.changed |= page.prune_xid().unwrap_or(Xid::NONE) != self.prune_xid;
    }

    /// Number of versions that are removed.
    pub(in crate::heap) fn removed(&self) -> u64 {
        self.removed
    }

    /// The stores of the plan. Every defect of the page is found here.
    pub(in crate::heap) fn compaction(&self, page: &HeapPage<'_>) -> Result<Compaction> {
        Compaction::removing(page, &self.slots, &self.gone)
    }

    /// Carries the plan out.
    pub(in crate::heap) fn apply(&self, page: &mut PageMut<'_>, compaction: &Compaction) {
        rightlink_env::points::hit("heap.prune");
        for (offset, head) in &self.edits {
            store::put_xmax(page, *offset, head);
        }
        compaction.apply(page);
        store::put_prune_xid(page, self.prune_xid);
    }
}

/// The creator and row of the version whose keys the index entries of a chain have: its last
/// version that was ever visible. An index that is younger than the chain does not have the keys
/// before it. `None` for a stub, which does not tell its keys any more; vacuum finds its entries.
fn row_of_entries(
    chain: &[(u16, Tuple<'_>)],
    visibility: &mut HeapVisibility<'_>,
) -> Option<(Xid, Vec<u8>)> {
    let mut seen = chain
        .iter()
        .rev()
        .filter(|(_, it)| visibility.xmin_status(&it.header) != Some(XminStatus::Aborted));
    let (_, last) = seen.next().or(chain.last())?;
    (!last.header.has(STUB)).then(|| (last.header.xmin, last.row.to_vec()))
}
