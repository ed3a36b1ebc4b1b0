//! Pruning a page: versions that no snapshot sees leave, HOT chains are shortened.
//!
//! Of each chain, the versions up to the last dead one go. Is nothing left, the root's line pointer
//! becomes dead: index entries still name it, so it is reported upward and freed only after they
//! are gone (R3). Else the root redirects to the first version left. Heap-only versions are named
//! by no entry, so their line pointers are free at once. What stays is moved together. Versions
//! in the middle, between live snapshots (R9), go by `between`.
//!
//! Invariants: everything is planned, and checked, before the first store; a plan never touches a
//! version whose state is not known; pruning what a not yet durable commit ended is sound, as the
//! prune's record lies behind the commit's in the log, and pages are written after their records.
//! Does not do: call an index.

use crate::buffer::Pin;
use crate::error::{Error, Result};
use crate::heap::page::{HeapPage, Slot, Tuple, walk_chain};
use crate::heap::page_edit::{self, Rewrite};
use crate::heap::page_set::Maps;
use crate::heap::tuple::{HEAP_ONLY, STUB, TupleHeader};
use crate::heap::visibility::{Birth, End, Hints, Judge};
use crate::heap::{Heap, Shared};
use crate::ids::{BlockNo, RowId, Xid};
use crate::page::PageMut;
use crate::txn::SnapshotSet;
use crate::wal::{Admission, RecordKind};
use rightlink_env::sync::Ordering;

/// Most bytes of roots kept for [`Heap::take_dead_roots`]; vacuum finds the others.
const MAX_DEAD_BYTES: usize = 256 << 10;
/// A page that has so much room after pruning is offered to everyone.
const MUCH_ROOM: usize = crate::config::PAGE_SIZE / 2;
/// A page with less room than this part of a page is short of space.
const SHORT_OF_SPACE: usize = crate::config::PAGE_SIZE / 10;

/// A root that has no version left, or only a forwarding stub: index entries may still name it and
/// can go. Its line pointer is dead, unless there is a stub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadRoot {
    /// The root.
    pub row_id: RowId,
    /// Bytes of a version of its HOT chain: all of them have the same index keys.
    pub row: Vec<u8>,
    /// Who created that version. An index that is younger may have been built from a later one with
    /// other keys (R10), which left before this one did (R9).
    pub born: Xid,
    /// The recycle clock while the root died (R3): until row ids of its block are given free after
    /// that, its row id names nothing else.
    pub pruned_at: u64,
}

impl DeadRoot {
    fn memory(&self) -> usize {
        std::mem::size_of::<Self>() + self.row.capacity()
    }
}

/// Roots that died on access.
#[derive(Default)]
pub(super) struct DeadQueue {
    roots: Vec<DeadRoot>,
    /// Those that a cleaning could not give free: for vacuum, as long as others need no room.
    left: Vec<DeadRoot>,
    bytes: usize,
}

impl DeadQueue {
    fn has_room(&self, root: &DeadRoot) -> bool {
        self.bytes + root.memory() <= MAX_DEAD_BYTES
    }

    /// False: there is no room for it.
    fn push(&mut self, root: DeadRoot) -> bool {
        while !self.has_room(&root)
            && let Some(left) = self.left.pop()
        {
            self.bytes -= left.memory();
        }
        let room = self.has_room(&root);
        if room {
            self.bytes += root.memory();
            self.roots.push(root);
        }
        room
    }

    /// Keeps what a cleaning left, as far as there is room.
    pub(super) fn leave(&mut self, roots: Vec<DeadRoot>) {
        for root in roots {
            if self.has_room(&root) {
                self.bytes += root.memory();
                self.left.push(root);
            }
        }
    }

    pub(super) fn take(&mut self) -> Vec<DeadRoot> {
        let roots = std::mem::take(&mut self.roots);
        self.bytes -= roots.iter().map(DeadRoot::memory).sum::<usize>();
        roots
    }

    pub(super) fn take_left(&mut self) -> Vec<DeadRoot> {
        let left = std::mem::take(&mut self.left);
        self.bytes -= left.iter().map(DeadRoot::memory).sum::<usize>();
        left
    }
}

/// What planning has to look at, decoded once: all but the versions that are settled, as most are,
/// and what redirects to one. Those are no roots of chains that may be shortened, no aborted ones,
/// have no end and need no hint.
pub(super) struct Versions<'a>(Vec<(u16, Option<Tuple<'a>>)>);

impl<'a> Versions<'a> {
    fn read(page: &HeapPage<'a>, slots: &[Slot]) -> Result<Self> {
        let mut found = Vec::new();
        for (slot, state) in (1u16..).zip(slots) {
            match state {
                Slot::Normal { offset, .. } if page.is_settled(*offset) => {}
                Slot::Normal { offset, len } => {
                    found.push((slot, Some(page.tuple_at(slot, (*offset, *len))?)));
                }
                // What it redirects to is looked at when its chain is, else.
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
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (u16, &Tuple<'a>)> {
        self.0.iter().filter_map(|(slot, tuple)| tuple.as_ref().map(|tuple| (*slot, tuple)))
    }
}

/// May the HOT chain of a root lose versions? Not one that is a single living version. A root
/// without a version of its own redirects.
fn may_shorten(root: Option<&Tuple<'_>>, judge: &mut Judge<'_>, horizon: Xid) -> bool {
    let Some(Tuple { header, .. }) = root else { return true };
    !header.has(HEAP_ONLY)
        && (header.hot_next().is_some() || judge.dead_to_all(header, horizon) == Some(true))
}

/// What pruning will do to a page.
pub(super) struct Plan {
    /// Line pointers afterwards, offsets as they are now.
    pub(super) slots: Vec<Slot>,
    /// Roots that die.
    pub(super) dead: Vec<DeadRoot>,
    /// The recycle clock, read under the page's latch.
    pub(super) now: u64,
    /// Headers to store, by offset: those of versions whose successor leaves.
    pub(super) edits: Vec<(u16, TupleHeader)>,
    /// Oldest xid that ends a version that stays: the new prunable mark.
    prune_xid: Xid,
    /// What was learnt of the versions that stay, so that nobody has to ask again.
    hints: Hints,
    /// Bytes of versions that go: offset, how many.
    gone: Vec<(u16, u16)>,
    /// Versions that go.
    removed: u64,
    changed: bool,
}

impl Plan {
    /// Plans the pruning of `page` beside the live `snapshots`. Versions whose state `judge` cannot
    /// tell stay.
    pub(super) fn new(
        page: &HeapPage<'_>,
        judge: &mut Judge<'_>,
        snapshots: &SnapshotSet,
        now: u64,
    ) -> Result<Plan> {
        let mut plan = Plan { now, ..Plan::nothing(page)? };
        let versions = Versions::read(page, &plan.slots)?;
        let horizon = snapshots.horizon;
        for (root, version) in &versions.0 {
            let is_left = plan.slots[usize::from(*root) - 1] != Slot::Unused;
            if is_left && may_shorten(version.as_ref(), judge, horizon) {
                plan.prune_chain(page, *root, judge, horizon)?;
            }
        }
        plan.drop_orphans(&versions, judge);
        plan.remove_between(page, &versions, judge, snapshots)?;
        plan.find_prune_xid(page, &versions, judge);
        Ok(plan)
    }

    /// A plan that leaves `page` as it is.
    pub(super) fn nothing(page: &HeapPage<'_>) -> Result<Plan> {
        Ok(Plan {
            slots: page.all_slots()?,
            dead: Vec::new(),
            now: 0,
            edits: Vec::new(),
            prune_xid: page.prune_xid().unwrap_or(Xid::NONE),
            hints: Hints::default(),
            gone: Vec::new(),
            removed: 0,
            changed: false,
        })
    }

    /// Frees those of `rows` whose line pointers are dead; returns how many.
    pub(super) fn free(&mut self, rows: &[RowId]) -> u64 {
        let mut freed = 0;
        for row in rows {
            if self.slots.get(usize::from(row.slot).wrapping_sub(1)) == Some(&Slot::Dead) {
                self.set(row.slot, Slot::Unused);
                freed += 1;
            }
        }
        freed
    }

    pub(super) fn changes(&self) -> bool {
        self.changed
    }

    pub(super) fn set(&mut self, slot: u16, to: Slot) {
        let place = &mut self.slots[usize::from(slot) - 1];
        if *place == to {
            return;
        }
        let before = std::mem::replace(place, to);
        self.changed = true;
        let Slot::Normal { offset, len } = before else { return };
        match to {
            // What is left of it lies where it lay.
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
        judge: &mut Judge<'_>,
        horizon: Xid,
    ) -> Result<()> {
        let mut chain: Vec<(u16, Tuple<'_>)> = Vec::new();
        let mut dead = 0;
        walk_chain(page, root, |slot, tuple| {
            chain.push((slot, *tuple));
            let gone = judge.dead_to_all(&tuple.header, horizon) == Some(true);
            if gone
                && (dead + 1 == chain.len() || judge.birth(&tuple.header) != Some(Birth::Aborted))
            {
                dead = chain.len();
            }
            Ok(true)
        })?;
        if dead == 0 {
            return Ok(());
        }
        for (slot, _) in &chain[..dead] {
            self.set(*slot, Slot::Unused);
        }
        match chain.get(dead) {
            Some((first, _)) => self.set(root, Slot::Redirect(*first)),
            None => {
                self.set(root, Slot::Dead);
                let row_id = RowId { block: page.id().block, slot: root };
                if let Some((born, row)) = row_of_entries(&chain, judge) {
                    self.dead.push(DeadRoot { row_id, row, born, pruned_at: self.now });
                }
            }
        }
        Ok(())
    }

    /// Heap-only versions of aborted updates: no chain leads to them any more, or ever will.
    fn drop_orphans(&mut self, versions: &Versions<'_>, judge: &mut Judge<'_>) {
        for (slot, tuple) in versions.unsettled() {
            if self.slots[usize::from(slot) - 1] != Slot::Unused
                && tuple.header.has(HEAP_ONLY)
                && judge.birth(&tuple.header) == Some(Birth::Aborted)
            {
                self.set(slot, Slot::Unused);
            }
        }
    }

    fn find_prune_xid(
        &mut self,
        page: &HeapPage<'_>,
        versions: &Versions<'_>,
        judge: &mut Judge<'_>,
    ) {
        self.prune_xid = Xid::NONE;
        for (slot, tuple) in versions.unsettled() {
            if !matches!(self.slots[usize::from(slot) - 1], Slot::Normal { .. }) {
                continue;
            }
            self.hints.note(judge.txns(), tuple.offset, &tuple.header);
            // A lock ends nothing, also one whose holder's status is not known.
            if tuple.header.only_locked()
                || matches!(judge.end(&tuple.header), Some(End::Open | End::Locked(_)))
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

    /// How many versions of the page go.
    pub(super) fn removed(&self) -> u64 {
        self.removed
    }

    /// Plans the stores; everything that can be wrong with the page is found here.
    pub(super) fn rewrite(&self, page: &HeapPage<'_>) -> Result<Rewrite> {
        Rewrite::without(page, &self.slots, &self.gone)
    }

    /// Carries the plan out.
    pub(super) fn apply(&self, page: &mut PageMut<'_>, rewrite: &Rewrite) {
        rightlink_env::points::hit("heap.prune");
        for (offset, head) in &self.edits {
            page_edit::put_xmax(page, *offset, head);
        }
        rewrite.apply(page);
        page_edit::put_prune_xid(page, self.prune_xid);
    }
}

/// The row whose keys the entries of a chain have. That is its last version that was ever seen: an
/// index that is younger than the chain knows nothing of the keys before. A stub does not tell its
/// keys any more; vacuum finds the entries. With its creator.
fn row_of_entries(chain: &[(u16, Tuple<'_>)], judge: &mut Judge<'_>) -> Option<(Xid, Vec<u8>)> {
    let mut seen =
        chain.iter().rev().filter(|(_, it)| judge.birth(&it.header) != Some(Birth::Aborted));
    let (_, last) = seen.next().or(chain.last())?;
    (!last.header.has(STUB)).then(|| (last.header.xmin, last.row.to_vec()))
}

impl Heap {
    /// Is it worth calling [`Heap::prune`]: short of space, and something may be dead? No latch is
    /// held.
    pub fn should_prune(&self, pin: &Pin) -> bool {
        let latch = pin.shared();
        let Ok(page) = HeapPage::open(pin.page(), latch.bytes()) else { return false };
        if page.room() >= SHORT_OF_SPACE.max(self.shared.reserve) {
            return false;
        }
        let mark = page.prune_xid();
        drop(latch);
        mark.is_some_and(|xid| xid < self.txns().horizon())
    }

    /// Prunes a page on access. Roots that died are given back and not queued.
    pub fn prune(&self, block: BlockNo) -> Result<Vec<DeadRoot>> {
        let mut judge = Judge::new(self.txns());
        let snapshots = self.txns().live_snapshots();
        let Some(mut set) = self.latch(&[block.0], Maps::Marked)? else { return Ok(Vec::new()) };
        let now = self.clock().now();
        let plan = Plan::new(&set.page(block.0)?, &mut judge, &snapshots, now)?;
        if plan.changes() {
            let rewrite = plan.rewrite(&set.page(block.0)?)?;
            let mut store = set.store(block.0);
            plan.hints.store(&mut store);
            plan.apply(&mut store, &rewrite);
            let room = self.room_for_inserts(&set.page(block.0)?);
            set.commit(RecordKind::HeapPrune, Xid::NONE)?;
            self.take_garbage(plan.removed());
            // Less is left to updates of the page's own rows.
            if room >= MUCH_ROOM {
                self.free_space().note(block.0, room)?;
            }
        }
        Ok(plan.dead)
    }

    /// Prunes a page and queues the roots that died; returns how many did.
    pub fn prune_and_queue(&self, block: BlockNo) -> Result<usize> {
        let dead = self.prune(block)?;
        let count = dead.len();
        self.shared.queue(dead);
        Ok(count)
    }

    /// Prunes a page that a write needs room on.
    pub(super) fn prune_for_room(&self, block: u32) -> Result<()> {
        self.prune_and_queue(BlockNo(block)).map(drop)
    }

    /// Prunes `pin`'s page if that is worth it, and queues the roots that died. Whoever reads needs
    /// none of this: where nothing can be logged, for lack of descriptors say, nothing is
    /// done.
    pub(super) fn prune_on_read(&self, pin: &Pin) -> Result<()> {
        let wal = self.pool().wal();
        if !self.should_prune(pin) || !wal.has_room(Admission::GoOn) || wal.check().is_err() {
            return Ok(());
        }
        match self.prune_for_room(pin.page().block.0) {
            Err(Error::DiskFull(_) | Error::Io(_) | Error::Poisoned(_)) => Ok(()),
            pruned => pruned,
        }
    }
}

impl Shared {
    pub(super) fn queue(&self, dead: Vec<DeadRoot>) {
        if dead.is_empty() {
            return;
        }
        let mut queue = self.dead_roots.lock();
        let mut left = 0;
        for root in dead {
            left += u64::from(!queue.push(root));
        }
        self.dead_count.store(queue.roots.len(), Ordering::Relaxed);
        self.garbage.fetch_add(left, Ordering::Relaxed);
    }
}
