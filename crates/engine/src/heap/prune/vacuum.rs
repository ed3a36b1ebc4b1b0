//! Vacuum of one heap page: prune, freeze and mark it all-visible, in one record.
//!
//! Invariants: all changes of a page, its map bits included, are one record. Only one vacuum runs
//! per table, and none beside an online index build; the caller sees to both.
//! Does not do: decide when, hold the dead row ids, or call an index (`vacuum/` of the engine).
//!
//! PostgreSQL: `lazy_scan_prune` in `access/heap/vacuumlazy.c`.

use std::ops::Range;

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::latch::{LatchedPages, MapLatches};
use crate::heap::page::Slot;
use crate::heap::page::store;
use crate::heap::prune::dead_roots::DeadRoot;
use crate::heap::prune::freeze::{FreezeLimits, FreezePlan, oldest, plan_freeze};
use crate::heap::prune::plan::PrunePlan;
use crate::heap::space::visibility_map::VisibilityBits;
use crate::heap::visibility::HeapVisibility;
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
    /// All dead line pointers of the page, including those of `died`. Their entries are to be
    /// removed from the indexes.
    pub dead: Vec<RowId>,
    /// Marks of the page now.
    pub bits: VisibilityBits,
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

impl Heap {
    /// Prunes, freezes and marks one page, in one record.
    pub fn vacuum_page(&self, block: BlockNo, options: VacuumOptions) -> Result<VacuumPage> {
        let mut visibility = HeapVisibility::new(self.txns());
        let snapshots = self.txns().live_snapshots();
        let horizon = snapshots.horizon;
        loop {
            let Some(set) = self.latch(&[block.0], MapLatches::All)? else {
                return Ok(VacuumPage::default());
            };
            let page = set.page(block.0)?;
            let plan = PrunePlan::new(&page, &mut visibility, &snapshots, self.clock().now())?;
            let freeze_below = options.freeze_below.min(horizon);
            let limits = FreezeLimits { freeze_below, horizon };
            let freeze = plan_freeze(&page, &plan.slots, &mut visibility, limits)?;
            if visibility.is_incomplete() {
                drop(set);
                visibility.resolve()?;
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

    /// Stores the plans, logs them, and notes the room in the free-space map.
    pub(in crate::heap) fn store_vacuum(
        &self,
        mut set: LatchedPages<'_>,
        block: u32,
        plan: Option<&PrunePlan>,
        freeze: &FreezePlan,
    ) -> Result<()> {
        let had = set.bits(block)?;
        let flags = VisibilityBits::of_flags(set.page(block)?.flags());
        let changing = plan.filter(|plan| plan.changes());
        let compaction = changing.map(|plan| plan.compaction(&set.page(block)?)).transpose()?;
        if !freeze.edits.is_empty() {
            let mut page = set.store(block);
            for edit in &freeze.edits {
                store::put_header(&mut page, edit.offset, &edit.old, &edit.new);
            }
        }
        if let (Some(plan), Some(compaction)) = (plan, &compaction) {
            plan.apply(&mut set.store(block), compaction);
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
        sink: &mut dyn FnMut(BlockNo, VacuumPage) -> Result<()>,
    ) -> Result<VacuumPass> {
        let mut pass = VacuumPass::default();
        let end = range.end.min(self.blocks());
        let total = end.saturating_sub(range.start);
        let mut stream = self
            .stream(range.start..end, |block| Ok(!self.all_visible(BlockNo(block))?.all_frozen));
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
}

fn dead_slots(block: BlockNo, slots: &[Slot]) -> Vec<RowId> {
    let dead = (1u16..).zip(slots).filter(|(_, state)| **state == Slot::Dead);
    dead.map(|(slot, _)| RowId { block, slot }).collect()
}
