//! Locking a row: its xmax becomes the statement's xid, marked as a lock only, and as a shared one
//! (`FOR SHARE`) if others may have it, too. Once several do, xmax is a group of theirs, which
//! memory knows (`txn::lock::multixact`).
//!
//! Invariants: a lock ends with the transaction whose xid it is, or with the savepoint that this is
//! rolled back to, by itself; it hides the version from nobody, so the page stays all-visible, but
//! not all-frozen. What a statement that is undone has done about a row brings back the locks that
//! its transaction had on it.
//! Does not do: queues: who shares a row first lets those go that wait to write it (`table`).

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::HeapPage;
use crate::heap::page_edit;
use crate::heap::page_set::Maps;
use crate::heap::tuple::fits;
use crate::heap::visibility::Judge;
use crate::heap::write::{Target, WriteOutcome, Writer, may_end};
use crate::ids::{Lsn, RowId, Xid};
use crate::txn::{Locker, RowLock, Transaction};
use crate::wal::RecordKind;

impl Heap {
    /// Locks the row whose version `old` the transaction's snapshot sees or [`Heap::newest`] found.
    pub fn lock(
        &self,
        txn: &mut Transaction,
        old: impl Into<Target>,
        lock: RowLock,
    ) -> Result<WriteOutcome> {
        let old = old.into();
        let at = old.at;
        let xid = txn.xid()?;
        let mut judge = Judge::new(self.txns());
        // Taken when it is wanted first, without latches.
        let mut group = None;
        loop {
            let named: Xid = group.unwrap_or(xid);
            let Some(mut set) = self.latch_for(&[at.block.0], Maps::Marked, named)? else {
                return Ok(WriteOutcome::Gone);
            };
            let writer = Writer { xid, txn, wants: lock };
            let found = match may_end(&set.page(at.block.0)?, old, writer, &mut judge)? {
                Some(Ok(tuple)) => {
                    let lockers = judge.lockers(&tuple.header);
                    lockers.map(|lockers| (tuple.offset, tuple.header, lockers))
                }
                Some(Err(outcome)) => return Ok(outcome),
                None => None,
            };
            let Some((offset, head, lockers)) = found else {
                drop(set);
                judge.resolve()?;
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
            page_edit::put_xmax(&mut set.store(at.block.0), offset, &locked);
            set.unmark(at.block.0, true);
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
        let (pin, mut judge) = (self.pin(at.block)?, Judge::new(self.txns()));
        loop {
            let latch = pin.shared();
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let Some(tuple) = page.tuple(at.slot)? else { return Ok(false) };
            if let Some(lockers) = judge.lockers(&tuple.header) {
                let locks = lockers.iter().any(|locker| txn.owns(locker.xid));
                return Ok(locks || txn.owns(tuple.header.xmin));
            }
            drop(latch);
            judge.resolve()?;
        }
    }
}

fn done(at: RowId, lsn: Lsn) -> WriteOutcome {
    WriteOutcome::Done { row_id: at, heap_only: false, lsn }
}
