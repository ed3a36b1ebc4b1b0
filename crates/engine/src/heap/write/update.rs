//! Updates: a new version of a row, on the same page if it fits, else on another.
//!
//! The update is heap-only if the page is the same and no index key, included column or predicate
//! changed (R10; the caller knows). On a full page the new version takes the space of a dead one of
//! as many bytes (`slot_reuse`), or the page is pruned. With two pages, both are latched in block
//! order (R12), and everything is checked again under the latches of the change.
//!
//! Invariants: one record holds the end of the old version and the beginning of the new one.
//! Updates may use the fillfactor's reserve.
//! Does not do: wait for another transaction, or change index entries.
//!
//! PostgreSQL: `heap_update` in `access/heap/heapam.c`.

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

use crate::error::Result;
use crate::heap::latch::{LatchedPages, MapLatches};
use crate::heap::page::store::{self, choose_slot, how_many_fit};
use crate::heap::page::tuple::{HEAP_ONLY, TupleHeader, UPDATED};
use crate::heap::page::{HeapPage, Slot};
use crate::heap::read::newest::TargetVersion;
use crate::heap::space::page_search::PageSearch;
use crate::heap::visibility::HeapVisibility;
use crate::heap::write::slot_reuse::{ReusableSpace, ReuseSearch};
use crate::heap::write::{EndCheck, WriteContext, WriteOutcome, check_end, locks_to_keep};
use crate::heap::{Heap, check_row};
use crate::ids::{RowId, Xid};
use crate::txn::{Locker, NewVersionLocks, RowLock, Transaction};
use crate::wal::RecordKind;

/// The old version, as judged under its latch.
struct OldVersion {
    offset: u16,
    header: TupleHeader,
    /// Earlier locks on it, which outlive the update or come back if it is undone.
    locks: Vec<Locker>,
}

/// Result of an attempt with certain pages.
enum UpdateAttempt {
    Ended(WriteOutcome),
    /// A status must be read before the same attempt is made again.
    Unknown,
    /// The page chosen for the new version has no room; may pruning it make some?
    NoRoom {
        prunable: bool,
    },
}

impl Heap {
    /// Replaces the version `old`, which the transaction's snapshot sees or
    /// [`Heap::newest_version`] found, by `row`. `hot`: no column of any index changed (R10).
    /// `wants` is the lock mode that the update needs: a weak one lets others go on sharing the
    /// row's keys.
    pub fn update_with_lock(
        &self,
        txn: &mut Transaction,
        old: impl Into<TargetVersion>,
        row: &[u8],
        hot: bool,
        wants: RowLock,
    ) -> Result<WriteOutcome> {
        let old = old.into();
        let len = check_row(row)?;
        let xid = txn.xid()?;
        let change = UpdateRequest { writer: WriteContext { xid, txn, wants }, old, row, len, hot };
        let mut visibility = HeapVisibility::new(self.txns());
        let mut search: Option<PageSearch> = None;
        let mut pruned = false;
        let home = old.at.block.0;
        let mut target = home;
        loop {
            match self.try_update(&change, target, &mut visibility)? {
                UpdateAttempt::Ended(outcome) => {
                    if let Some(PageSearch { group, .. }) = search
                        && matches!(outcome, WriteOutcome::Done { .. })
                    {
                        // The next row that has to leave its page need not search for room.
                        self.shared.insert_blocks[group].store(target, Ordering::Relaxed);
                    }
                    return Ok(outcome);
                }
                UpdateAttempt::Unknown => visibility.resolve()?,
                UpdateAttempt::NoRoom { prunable: true } if !pruned && target == home => {
                    pruned = true;
                    self.prune_for_room(target)?;
                }
                UpdateAttempt::NoRoom { .. } => {
                    let search =
                        search.get_or_insert_with(|| PageSearch::new(xid, self.insert_group()));
                    search.failed = Some(target);
                    target = self.page_with_room(search, len, 1)?;
                }
            }
        }
    }

    /// [`Heap::update_with_lock`] with the new version on block `target`, which has the room.
    #[cfg(all(test, feature = "shuttle"))]
    pub(in crate::heap) fn update_onto(
        &self,
        txn: &mut Transaction,
        at: RowId,
        target: u32,
    ) -> Result<()> {
        let xid = txn.xid()?;
        let row = b"moved";
        let (writer, len) = (WriteContext { xid, txn, wants: RowLock::Exclusive }, check_row(row)?);
        let change = UpdateRequest { writer, old: at.into(), row, len, hot: false };
        let mut visibility = HeapVisibility::new(self.txns());
        loop {
            match self.try_update(&change, target, &mut visibility)? {
                UpdateAttempt::Ended(_) => return Ok(()),
                UpdateAttempt::Unknown => visibility.resolve()?,
                UpdateAttempt::NoRoom { .. } => panic!("block {target} has no room"),
            }
        }
    }

    /// One attempt with the new version on block `target`.
    fn try_update(
        &self,
        change: &UpdateRequest<'_>,
        target: u32,
        visibility: &mut HeapVisibility<'_>,
    ) -> Result<UpdateAttempt> {
        let home = change.old.at.block.0;
        let mut blocks = [home, target];
        if !broken(Broken::HeapLatchesUnordered) {
            blocks.sort_unstable();
        }
        let blocks = if home == target { &blocks[..1] } else { &blocks[..] };
        let Some(set) = self.latch_for_xid(blocks, MapLatches::Marked, change.writer.xid)? else {
            let gone = !self.is_data_block(home);
            let no_room = UpdateAttempt::NoRoom { prunable: false };
            return Ok(if gone { UpdateAttempt::Ended(WriteOutcome::Gone) } else { no_room });
        };
        for block in blocks {
            set.bits(*block)?;
        }
        let old = match check_end(&set.page(home)?, change.old, change.writer, visibility)? {
            EndCheck::Unknown => return Ok(UpdateAttempt::Unknown),
            EndCheck::Refused(outcome) => return Ok(UpdateAttempt::Ended(outcome)),
            EndCheck::Allowed(tuple) => {
                let header = tuple.header;
                let Some(locks) = locks_to_keep(&header, change.writer, visibility) else {
                    return Ok(UpdateAttempt::Unknown);
                };
                OldVersion { offset: tuple.offset, header, locks }
            }
        };
        let place = match slot_with_room(&set.page(target)?, change.len)? {
            Some(slot) => Placement::Free(slot),
            None if target == home => {
                match self.find_reusable(&set.page(home)?, change, visibility)? {
                    ReuseSearch::Space(space) => Placement::Reused(space),
                    ReuseSearch::None { prunable } => {
                        return Ok(UpdateAttempt::NoRoom { prunable });
                    }
                }
            }
            None => {
                let left = self.room_for_inserts(&set.page(target)?);
                drop(set);
                self.free_space().note(target, left)?;
                return Ok(UpdateAttempt::NoRoom { prunable: false });
            }
        };
        // One version is ended; one that was, leaves.
        self.add_garbage(u64::from(matches!(place, Placement::Free(_))));
        let outcome = replace(set, change, &old, target, &place)?;
        let heap_only = matches!(outcome, WriteOutcome::Done { heap_only: true, .. });
        self.shared.counters.update(heap_only, target != home);
        Ok(UpdateAttempt::Ended(outcome))
    }
}

impl Heap {
    /// A dead version on a page that has no room, whose place the new one can take.
    fn find_reusable(
        &self,
        page: &HeapPage<'_>,
        change: &UpdateRequest<'_>,
        visibility: &mut HeapVisibility<'_>,
    ) -> Result<ReuseSearch> {
        let horizon = self.txns().horizon();
        let Some(oldest) = page.prune_xid() else {
            return Ok(ReuseSearch::None { prunable: false });
        };
        if oldest >= horizon && !broken(Broken::SeenVersionOverwritten) {
            // What lies between two snapshots may leave (R9).
            return Ok(ReuseSearch::None { prunable: true });
        }
        ReusableSpace::find(page, change.len, visibility, horizon)
    }
}

/// Where the new version is placed.
enum Placement {
    /// Between line pointers and tuples, named by this line pointer.
    Free(u16),
    /// Where a dead one lay.
    Reused(ReusableSpace),
}

/// One update to be made.
struct UpdateRequest<'c> {
    writer: WriteContext<'c>,
    old: TargetVersion,
    row: &'c [u8],
    len: usize,
    hot: bool,
}

/// A slot for a tuple of `len` bytes, if the page has the room.
fn slot_with_room(page: &HeapPage<'_>, len: usize) -> Result<Option<u16>> {
    if page.free_bytes() < len {
        return Ok(None);
    }
    let Some(slot) = choose_slot(page) else { return Ok(None) };
    let fits = how_many_fit(page, &[slot], 0, std::iter::once(len)) == 1;
    assert!(!fits || page.slot(slot)? == Slot::Unused);
    Ok(fits.then_some(slot))
}

/// Stores both halves of the update and logs them.
fn replace(
    mut set: LatchedPages<'_>,
    change: &UpdateRequest<'_>,
    old: &OldVersion,
    target: u32,
    place: &Placement,
) -> Result<WriteOutcome> {
    let slot = match place {
        Placement::Free(slot) => *slot,
        Placement::Reused(space) => space.slot,
    };
    let new = RowId::new(target, slot);
    let (home, xid): (u32, Xid) = (change.old.at.block.0, change.writer.xid);
    let heap_only = change.hot && new.block == change.old.at.block;
    let mut header = TupleHeader::new(xid, UPDATED | if heap_only { HEAP_ONLY } else { 0 });
    let mut ended = old.header.replaced(xid, new, heap_only);
    if !old.locks.is_empty() {
        let txn = change.writer.txn;
        let others = old.locks.iter().any(|lock| !txn.owns(lock.xid));
        let carried = others && !broken(Broken::LockNotCarriedOver);
        let new_version = match carried {
            true => NewVersionLocks::Carried,
            false => NewVersionLocks::OldVersionOnly,
        };
        txn.keep_row_locks(&old.locks, new_version)?;
        ended = ended.in_group();
        if carried {
            header = header.locked_by_group(xid);
        }
    }
    let mut page = set.store(target);
    match place {
        Placement::Free(slot) => store::insert_tuples(&mut page, &[*slot], &[(header, change.row)]),
        Placement::Reused(space) => space.fill(&mut page, &header, change.row),
    }
    let mut page = set.store(home);
    store::put_xmax(&mut page, old.offset, &ended);
    store::mark_prunable(&mut page, xid);
    set.clear_marks(home);
    if new.block.0 != home {
        set.clear_marks(new.block.0);
    }
    let lsn = set.commit(RecordKind::HeapUpdate, xid)?;
    change.writer.txn.release_multixact(old.header.group());
    Ok(WriteOutcome::Done { row_id: new, heap_only, lsn })
}
