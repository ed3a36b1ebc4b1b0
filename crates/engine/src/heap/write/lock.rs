//! Row locks: the version's xmax becomes the statement's xid, marked as a lock, perhaps a shared
//! one.
//!
//! Once several transactions hold a row, xmax names their group, which is kept in memory
//! (`txn::lock::multixact`).
//!
//! Invariants: a lock ends with its transaction, or with the rollback to a savepoint before it,
//! without further stores. It hides the version from no snapshot, so the page stays all-visible,
//! but not all-frozen. If a statement is undone, the locks that its transaction had before come
//! back.
//! Does not do: queues; the order of waiting transactions is kept by `table`.
//!
//! PostgreSQL: `heap_lock_tuple` and `access/heap/README.tuplock`; a group replaces a multixact.

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::latch::MapLatches;
use crate::heap::page::HeapPage;
use crate::heap::page::store;
use crate::heap::page::tuple::fits;
use crate::heap::read::newest::TargetVersion;
use crate::heap::visibility::HeapVisibility;
use crate::heap::write::{EndCheck, WriteContext, WriteOutcome, check_end};
use crate::ids::{Lsn, RowId, Xid};
use crate::txn::{Locker, RowLock, Transaction};
use crate::wal::RecordKind;

impl Heap {
    /// Locks the row whose version `old` the snapshot sees or [`Heap::newest_version`] found.
    /// The lock is the xid of the statement in xmax, so it ends with that xid (R23).
    pub fn lock(
        &self,
        txn: &mut Transaction,
        old: impl Into<TargetVersion>,
        lock: RowLock,
    ) -> Result<WriteOutcome> {
        let old = old.into();
        let at = old.at;
        let xid = txn.xid()?;
        txn.note_row_lock(lock);
        let mut visibility = HeapVisibility::new(self.txns());
        // Taken when it is wanted first, without latches.
        let mut group = None;
        loop {
            let named: Xid = group.unwrap_or(xid);
            let Some(mut set) = self.latch_for_xid(&[at.block.0], MapLatches::Marked, named)?
            else {
                return Ok(WriteOutcome::Gone);
            };
            let writer = WriteContext { xid, txn, wants: lock };
            let found = match check_end(&set.page(at.block.0)?, old, writer, &mut visibility)? {
                EndCheck::Allowed(tuple) => {
                    let lockers = visibility.lockers(&tuple.header);
                    lockers.map(|lockers| (tuple.offset, tuple.header, lockers))
                }
                EndCheck::Refused(outcome) => return Ok(outcome),
                EndCheck::Unknown => None,
            };
            let Some((offset, head, lockers)) = found else {
                drop(set);
                visibility.resolve()?;
                continue;
            };
            if lockers.iter().any(|it| it.lock >= lock && txn.owns(it.xid)) {
                return Ok(done(at, Lsn(0)));
            }
            let others: Vec<Locker> = lockers.into_iter().filter(|it| it.xid != xid).collect();
            let own = Locker { xid, lock };
            let base = set.page(at.block.0)?.base();
            let known = txn.reusable_multixact(head.xmax, &others, own);
            let known = known.filter(|known| fits(base, *known));
            let locked = match (group, known) {
                (Some(group), _) => {
                    txn.create_multixact(group, head.xmax, others, own)?;
                    head.locked_by_group(group)
                }
                (None, _) if others.is_empty() => head.locked(xid, lock),
                (None, Some(known)) if txn.try_reuse_multixact(known) => {
                    head.locked_by_group(known)
                }
                (None, _) => {
                    drop(set);
                    group = Some(txn.new_multixact_xid()?);
                    continue;
                }
            };
            set.bits(at.block.0)?;
            store::put_xmax(&mut set.store(at.block.0), offset, &locked);
            set.clear_frozen_mark(at.block.0);
            let lsn = set.commit(RecordKind::HeapLock, xid)?;
            txn.release_multixact(head.group());
            return Ok(done(at, lsn));
        }
    }
}

impl Heap {
    /// Has `txn` made or locked the version at `at`?
    pub fn is_locked_by(&self, txn: &Transaction, at: RowId) -> Result<bool> {
        if !self.is_data_block(at.block.0) {
            return Ok(false);
        }
        let (pin, mut visibility) = (self.pin(at.block)?, HeapVisibility::new(self.txns()));
        loop {
            let latch = pin.shared();
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let Some(tuple) = page.tuple(at.slot)? else { return Ok(false) };
            if let Some(lockers) = visibility.lockers(&tuple.header) {
                let locks = lockers.iter().any(|locker| txn.owns(locker.xid));
                return Ok(locks || txn.owns(tuple.header.xmin));
            }
            drop(latch);
            visibility.resolve()?;
        }
    }
}

fn done(at: RowId, lsn: Lsn) -> WriteOutcome {
    WriteOutcome::Done { row_id: at, heap_only: false, lsn }
}
