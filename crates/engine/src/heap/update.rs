//! Updating a row: a new version, on the same page if it fits, else on another.
//!
//! On the same page, when no index key, included column or predicate changed (R10, the caller
//! knows), the update is heap-only: the indexes keep naming the root. In all cases the old version
//! links to the new one by row id. A page without room may have a dead version of as many bytes,
//! whose place the new one takes (`hole`); else it is pruned. With two pages, both are latched in
//! block order (R12), and everything is judged again under the latches that the change is made
//! with.
//!
//! Invariants: one record holds the end of the old version and the beginning of the new one;
//! updates may use the fillfactor's reserve.
//! Does not do: wait for whoever is in the way, index entries.

use rightlink_env::points::broken;
use rightlink_env::sync::Ordering;

use crate::error::Result;
use crate::heap::hole::{Found, Hole};
use crate::heap::insert::Search;
use crate::heap::page::{HeapPage, Slot};
use crate::heap::page_edit::{self, choose_slot, how_many_fit};
use crate::heap::page_set::{Maps, PageSet};
use crate::heap::tuple::{HEAP_ONLY, TupleHeader, UPDATED};
use crate::heap::visibility::Judge;
use crate::heap::write::{Target, WriteOutcome, Writer, locks_to_keep, may_end};
use crate::heap::{Heap, check_row};
use crate::ids::{RowId, Xid};
use crate::txn::{Locker, NewVersionLocks, RowLock, Transaction};
use crate::wal::RecordKind;

/// The old version, as judged under its latch.
struct Old {
    offset: u16,
    header: TupleHeader,
    /// Earlier locks on it, which outlive the update or come back if it is undone.
    locks: Vec<Locker>,
}

/// What an attempt with certain pages came to.
enum Attempt {
    Ended(WriteOutcome),
    /// A status must be read, then the same again.
    Unknown,
    /// The page chosen for the new version has no room; may pruning it make some?
    NoRoom {
        prunable: bool,
    },
}

impl Heap {
    /// Replaces the version `old`, which the transaction's snapshot sees or [`Heap::newest`] found,
    /// by `row`. `hot`: no column of any index changed (R10).
    pub fn update(
        &self,
        txn: &mut Transaction,
        old: impl Into<Target>,
        row: &[u8],
        hot: bool,
    ) -> Result<WriteOutcome> {
        self.update_as(txn, old, row, (hot, RowLock::Exclusive))
    }

    /// The same, with the lock that the update needs: others go on sharing the row's keys if it
    /// leaves them alone.
    pub fn update_as(
        &self,
        txn: &mut Transaction,
        old: impl Into<Target>,
        row: &[u8],
        (hot, wants): (bool, RowLock),
    ) -> Result<WriteOutcome> {
        let old = old.into();
        let len = check_row(row)?;
        let xid = txn.xid()?;
        let change = Change { writer: Writer { xid, txn, wants }, old, row, len, hot };
        let mut judge = Judge::new(self.txns());
        let mut search: Option<Search> = None;
        let mut pruned = false;
        let home = old.at.block.0;
        let mut target = home;
        loop {
            match self.try_update(&change, target, &mut judge)? {
                Attempt::Ended(outcome) => {
                    if let Some(Search { group, .. }) = search
                        && matches!(outcome, WriteOutcome::Done { .. })
                    {
                        // The next row that has to leave its page need not search for room.
                        self.shared.targets[group].store(target, Ordering::Relaxed);
                    }
                    return Ok(outcome);
                }
                Attempt::Unknown => judge.resolve()?,
                Attempt::NoRoom { prunable: true } if !pruned && target == home => {
                    pruned = true;
                    self.prune_for_room(target)?;
                }
                Attempt::NoRoom { .. } => {
                    let search =
                        search.get_or_insert_with(|| Search::new(xid, self.target_group()));
                    search.failed = Some(target);
                    target = self.page_with_room(search, len, 1)?;
                }
            }
        }
    }

    /// [`Heap::update`] with the new version on block `target`, which has the room.
    #[cfg(all(test, feature = "shuttle"))]
    pub(super) fn update_onto(&self, txn: &mut Transaction, at: RowId, target: u32) -> Result<()> {
        let xid = txn.xid()?;
        let row = b"moved";
        let (writer, len) = (Writer { xid, txn, wants: RowLock::Exclusive }, check_row(row)?);
        let change = Change { writer, old: at.into(), row, len, hot: false };
        let mut judge = Judge::new(self.txns());
        loop {
            match self.try_update(&change, target, &mut judge)? {
                Attempt::Ended(_) => return Ok(()),
                Attempt::Unknown => judge.resolve()?,
                Attempt::NoRoom { .. } => panic!("block {target} has no room"),
            }
        }
    }

    /// One attempt with the new version on block `target`.
    fn try_update(
        &self,
        change: &Change<'_>,
        target: u32,
        judge: &mut Judge<'_>,
    ) -> Result<Attempt> {
        let home = change.old.at.block.0;
        let mut blocks = [home, target];
        if !broken("r12-order") {
            blocks.sort_unstable();
        }
        let blocks = if home == target { &blocks[..1] } else { &blocks[..] };
        let Some(set) = self.latch_for(blocks, Maps::Marked, change.writer.xid)? else {
            let gone = !self.is_data_block(home);
            let no_room = Attempt::NoRoom { prunable: false };
            return Ok(if gone { Attempt::Ended(WriteOutcome::Gone) } else { no_room });
        };
        for block in blocks {
            set.bits(*block)?;
        }
        let old = match may_end(&set.page(home)?, change.old, change.writer, judge)? {
            None => return Ok(Attempt::Unknown),
            Some(Err(outcome)) => return Ok(Attempt::Ended(outcome)),
            Some(Ok(tuple)) => {
                let header = tuple.header;
                let Some(locks) = locks_to_keep(&header, change.writer, judge) else {
                    return Ok(Attempt::Unknown);
                };
                Old { offset: tuple.offset, header, locks }
            }
        };
        let place = match slot_with_room(&set.page(target)?, change.len)? {
            Some(slot) => Place::Gap(slot),
            None if target == home => match self.find_hole(&set.page(home)?, change, judge)? {
                Found::Hole(hole) => Place::Hole(hole),
                Found::None { prunable } => return Ok(Attempt::NoRoom { prunable }),
            },
            None => {
                let left = self.room_for_inserts(&set.page(target)?);
                drop(set);
                self.free_space().note(target, left)?;
                return Ok(Attempt::NoRoom { prunable: false });
            }
        };
        // One version is ended; one that was, leaves.
        self.add_garbage(u64::from(matches!(place, Place::Gap(_))));
        let outcome = replace(set, change, &old, (target, &place))?;
        let heap_only = matches!(outcome, WriteOutcome::Done { heap_only: true, .. });
        self.shared.counters.update(heap_only);
        Ok(Attempt::Ended(outcome))
    }
}

impl Heap {
    /// A dead version on a page that has no room, whose place the new one can take.
    fn find_hole(
        &self,
        page: &HeapPage<'_>,
        change: &Change<'_>,
        judge: &mut Judge<'_>,
    ) -> Result<Found> {
        let horizon = self.txns().horizon();
        let Some(oldest) = page.prune_xid() else { return Ok(Found::None { prunable: false }) };
        if oldest >= horizon && !broken("r9-hole") {
            // What lies between two snapshots may leave (R9).
            return Ok(Found::None { prunable: true });
        }
        Hole::find(page, change.len, judge, horizon)
    }
}

/// Where the new version goes.
enum Place {
    /// Between line pointers and tuples, named by this line pointer.
    Gap(u16),
    /// Where a dead one lay.
    Hole(Hole),
}

/// What is to be done.
struct Change<'c> {
    writer: Writer<'c>,
    old: Target,
    row: &'c [u8],
    len: usize,
    hot: bool,
}

/// A slot for a tuple of `len` bytes, if the page has the room.
fn slot_with_room(page: &HeapPage<'_>, len: usize) -> Result<Option<u16>> {
    if page.gap() < len {
        return Ok(None);
    }
    let Some(slot) = choose_slot(page) else { return Ok(None) };
    let fits = how_many_fit(page, &[slot], 0, std::iter::once(len)) == 1;
    assert!(!fits || page.slot(slot)? == Slot::Unused);
    Ok(fits.then_some(slot))
}

/// Stores both halves of the update and logs them.
fn replace(
    mut set: PageSet<'_>,
    change: &Change<'_>,
    old: &Old,
    (target, place): (u32, &Place),
) -> Result<WriteOutcome> {
    let slot = match place {
        Place::Gap(slot) => *slot,
        Place::Hole(hole) => hole.slot,
    };
    let new = RowId::new(target, slot);
    let (home, xid): (u32, Xid) = (change.old.at.block.0, change.writer.xid);
    let heap_only = change.hot && new.block == change.old.at.block;
    let mut header = TupleHeader::new(xid, UPDATED | if heap_only { HEAP_ONLY } else { 0 });
    let mut ended = old.header.replaced(xid, new, heap_only);
    if !old.locks.is_empty() {
        let txn = change.writer.txn;
        let others = old.locks.iter().any(|lock| !txn.owns(lock.xid));
        let carried = others && !broken("lock-carried");
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
        Place::Gap(slot) => page_edit::insert_tuples(&mut page, &[*slot], &[(header, change.row)]),
        Place::Hole(hole) => hole.fill(&mut page, &header, change.row),
    }
    let mut page = set.store(home);
    page_edit::put_xmax(&mut page, old.offset, &ended);
    page_edit::mark_prunable(&mut page, xid);
    set.unmark(home, false);
    if new.block.0 != home {
        set.unmark(new.block.0, false);
    }
    let lsn = set.commit(RecordKind::HeapUpdate, xid)?;
    change.writer.txn.release_multixact(old.header.group());
    Ok(WriteOutcome::Done { row_id: new, heap_only, lsn })
}
