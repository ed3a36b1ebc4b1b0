//! Pieces of vacuum: one page at a time prune, freeze and mark all-visible; free line pointers
//! after the index pass. `vacuum/` on floor 8 puts them together.
//!
//! Invariants: all changes of a page, its map bits included, are one record; a line pointer is
//! freed only after its row id left every index, and the clock was advanced in between (R3); an xid
//! is frozen only below the horizon, together with the pruning of everything dead, so that no HOT
//! chain loses a link. One vacuum per table at a time; it excludes online builds: the caller sees
//! to both.
//! Does not do: decide when, hold the dead row ids, call an index.

use std::ops::Range;

use rightlink_env::points::broken;

use crate::buffer::{ReadStream, StreamOptions};
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::{HeapPage, Slot};
use crate::heap::page_edit;
use crate::heap::page_set::{Maps, PageSet};
use crate::heap::prune::{DeadRoot, Plan};
use crate::heap::tuple::{LOCK_ONLY, TupleHeader};
use crate::heap::visibility::{Birth, End, Judge};
use crate::heap::visibility_map::Bits;
use crate::ids::{BlockNo, RowId, Xid};
use crate::wal::RecordKind;

/// How to vacuum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VacuumOptions {
    /// Committed xids below this are frozen; `Xid::NONE` freezes nothing. At most the horizon
    /// counts.
    pub freeze_below: Xid,
}

/// What a page was like after its vacuum.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VacuumPage {
    /// Roots that died now.
    pub died: Vec<DeadRoot>,
    /// All dead line pointers of the page, those of `died` included: to be removed from the
    /// indexes.
    pub dead: Vec<RowId>,
    /// Marks of the page now.
    pub bits: Bits,
    /// Versions on the page.
    pub versions: u32,
    /// Oldest xid left on the page.
    pub oldest_unfrozen: Option<Xid>,
}

/// What a pass over a range of blocks did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VacuumPass {
    /// Pages looked at.
    pub pages: u32,
    /// Pages left out because they were marked.
    pub skipped: u32,
    /// Versions left on the pages.
    pub versions: u64,
    /// Oldest xid left on the pages looked at.
    pub oldest_unfrozen: Option<Xid>,
}

/// Which pages a pass leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    /// Those marked all-frozen: the pass learns the table's oldest unfrozen xid.
    AllFrozen,
    /// Those marked all-visible: nothing can be dead there.
    AllVisible,
}

/// Headers to store and what the page is like with them.
struct Freeze {
    edits: Vec<(u16, TupleHeader, TupleHeader)>,
    bits: Bits,
    versions: u32,
    oldest: Option<Xid>,
}

impl Heap {
    /// Prunes, freezes and marks one page, in one record.
    pub fn vacuum_page(&self, block: BlockNo, options: VacuumOptions) -> Result<VacuumPage> {
        let mut judge = Judge::new(self.txns());
        let snapshots = self.txns().live_snapshots();
        let horizon = snapshots.horizon;
        loop {
            let Some(set) = self.latch(&[block.0], Maps::All)? else {
                return Ok(VacuumPage::default());
            };
            let page = set.page(block.0)?;
            let plan = Plan::new(&page, &mut judge, &snapshots, self.clock().now())?;
            let freeze_below = options.freeze_below.min(horizon);
            let freeze = plan_freeze(&page, &plan.slots, &mut judge, (freeze_below, horizon))?;
            if judge.is_stuck() {
                drop(set);
                judge.resolve()?;
                continue;
            }
            let died = plan.dead.clone();
            let dead = dead_slots(block, &plan.slots);
            let removed = plan.removed();
            self.store_vacuum(set, block.0, Some(&plan), &freeze)?;
            self.take_garbage(removed);
            return Ok(VacuumPage {
                died,
                dead,
                bits: freeze.bits,
                versions: freeze.versions,
                oldest_unfrozen: freeze.oldest,
            });
        }
    }

    /// Stores what was planned, logs it, and notes the room in the free-space map.
    fn store_vacuum(
        &self,
        mut set: PageSet<'_>,
        block: u32,
        plan: Option<&Plan>,
        freeze: &Freeze,
    ) -> Result<()> {
        let had = set.bits(block)?;
        let flags = Bits::of_flags(set.page(block)?.flags());
        let rewrite = plan.filter(|plan| plan.changes());
        let rewrite = rewrite.map(|plan| plan.rewrite(&set.page(block)?)).transpose()?;
        if !freeze.edits.is_empty() {
            let mut page = set.store(block);
            for (offset, old, new) in &freeze.edits {
                page_edit::put_header(&mut page, *offset, old, new);
            }
        }
        if let (Some(plan), Some(rewrite)) = (plan, &rewrite) {
            plan.apply(&mut set.store(block), rewrite);
        }
        if had != Some(freeze.bits) || flags != freeze.bits {
            set.set_bits(block, freeze.bits);
        }
        let room = self.room_for_inserts(&set.page(block)?);
        set.commit(RecordKind::HeapVacuum, Xid::NONE)?;
        self.free_space().note(block, room)
    }

    /// Vacuums the pages of `range` that are not left out, and hands each result to `sink`.
    pub fn scan_dead(
        &self,
        range: Range<u32>,
        options: VacuumOptions,
        skip: Skip,
        sink: &mut dyn FnMut(BlockNo, VacuumPage) -> Result<()>,
    ) -> Result<VacuumPass> {
        let mut pass = VacuumPass::default();
        let end = range.end.min(self.blocks());
        let total = end.saturating_sub(range.start);
        let mut stream = self.stream(range.start..end, |block| {
            let bits = self.all_visible(BlockNo(block))?;
            let left_out = match skip {
                Skip::AllFrozen => bits.all_frozen,
                Skip::AllVisible => bits.all_visible,
            };
            Ok(!left_out)
        });
        while let Some((pin, block)) = stream.next()? {
            let page = self.vacuum_page(BlockNo(block), options)?;
            drop(pin);
            pass.pages += 1;
            pass.versions += u64::from(page.versions);
            pass.oldest_unfrozen = oldest(pass.oldest_unfrozen, page.oldest_unfrozen);
            sink(BlockNo(block), page)?;
        }
        pass.skipped = total.saturating_sub(pass.pages);
        Ok(pass)
    }

    /// Frees dead line pointers whose row ids are in no index any more. `rows` is sorted. A line
    /// pointer that is not dead is left alone. An error of `go_on`, which is asked before each page
    /// with nothing latched, ends it.
    pub fn free_slots(&self, rows: &[RowId], go_on: &dyn Fn() -> Result<()>) -> Result<u64> {
        assert!(rows.is_sorted(), "row ids in order: one visit per page");
        let mut chunks = rows.chunk_by(|a, b| a.block == b.block);
        let mut stream = ReadStream::new(self.pool(), StreamOptions::ORDERED, move || {
            let chunk = chunks.find(|chunk| self.is_data_block(chunk[0].block.0));
            Ok(chunk.map(|chunk| (self.page_id(chunk[0].block.0), chunk)))
        });
        let mut freed = 0;
        while let Some((pin, chunk)) = stream.next()? {
            go_on()?;
            freed += self.free_slots_of(chunk)?;
            drop(pin);
        }
        Ok(freed)
    }

    fn free_slots_of(&self, rows: &[RowId]) -> Result<u64> {
        let block = rows[0].block;
        let late = broken("r3-late");
        if !broken("r3-clock") && !late {
            self.clock().advance(block);
        }
        let horizon = self.txns().horizon();
        let mut judge = Judge::new(self.txns());
        let Some(set) = self.latch(&[block.0], Maps::All)? else { return Ok(0) };
        let page = set.page(block.0)?;
        let mut plan = Plan::nothing(&page)?;
        let freed = plan.free(rows);
        let freeze = plan_freeze(&page, &plan.slots, &mut judge, (Xid::NONE, horizon))?;
        self.store_vacuum(set, block.0, Some(&plan), &freeze)?;
        if late {
            self.clock().advance(block);
        }
        Ok(freed)
    }
}

/// The older of two xids that may be missing.
fn oldest(a: Option<Xid>, b: Option<Xid>) -> Option<Xid> {
    [a, b].into_iter().flatten().min()
}

fn dead_slots(block: BlockNo, slots: &[Slot]) -> Vec<RowId> {
    let dead = (1u16..).zip(slots).filter(|(_, state)| **state == Slot::Dead);
    dead.map(|(slot, _)| RowId { block, slot }).collect()
}

/// Plans the freezing of the versions that `slots` keeps, with the limits (freeze below, horizon).
/// A version whose state is not known stays as it is, and the page unmarked.
fn plan_freeze(
    page: &HeapPage<'_>,
    slots: &[Slot],
    judge: &mut Judge<'_>,
    limits: (Xid, Xid),
) -> Result<Freeze> {
    let no_dead = !slots.contains(&Slot::Dead);
    let mut plan = Freeze {
        edits: Vec::new(),
        bits: Bits { all_visible: no_dead, all_frozen: no_dead },
        versions: 0,
        oldest: None,
    };
    for (slot, state) in (1u16..).zip(slots) {
        let Slot::Normal { offset, .. } = *state else { continue };
        plan.versions += 1;
        // Most are, and nothing below would change that.
        if page.is_frozen(offset) {
            continue;
        }
        let tuple = page.tuple(slot)?.expect("a kept version");
        let new = frozen(&tuple.header, judge, limits.0);
        if new != tuple.header {
            plan.edits.push((tuple.offset, tuple.header, new));
        }
        plan.bits.all_visible &= visible_to_all(&tuple.header, judge, limits.1);
        plan.bits.all_frozen &= new.xmin == Xid::FROZEN && new.xmax == Xid::NONE;
        for used in [new.xmin, new.xmax].into_iter().filter(|used| *used >= Xid::FIRST) {
            plan.oldest = oldest(plan.oldest, Some(used));
        }
    }
    plan.bits.all_frozen &= plan.bits.all_visible;
    Ok(plan)
}

/// `head` without the xids below `limit` that nobody needs.
fn frozen(head: &TupleHeader, judge: &mut Judge<'_>, limit: Xid) -> TupleHeader {
    let mut new = *head;
    if head.xmax != Xid::NONE && head.xmax < limit && judge.end(head) == Some(End::Open) {
        new = new.unlocked();
    }
    if head.xmin != Xid::FROZEN && head.xmin < limit && judge.birth(head) == Some(Birth::Committed)
    {
        new.xmin = Xid::FROZEN;
    }
    new
}

/// Is the version visible to every snapshot, present and future?
fn visible_to_all(head: &TupleHeader, judge: &mut Judge<'_>, horizon: Xid) -> bool {
    let begun = head.xmin < horizon && judge.birth(head) == Some(Birth::Committed);
    begun && (head.flags & LOCK_ONLY != 0 || judge.end(head) == Some(End::Open))
}
