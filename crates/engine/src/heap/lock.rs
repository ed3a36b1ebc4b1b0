//! Locking a row (`FOR UPDATE`): its xmax becomes the statement's xid, marked as a lock only.
//!
//! Invariants: a lock ends with the transaction whose xid it is, by itself; it hides the version
//! from nobody, so the page stays all-visible, but not all-frozen.
//! Does not do: shared locks, and locks that outlive a rolled-back update of the same transaction.

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page_edit;
use crate::heap::page_set::Maps;
use crate::heap::visibility::Judge;
use crate::heap::write::{Target, WriteOutcome, Writer, holds_lock, may_end};
use crate::ids::{Lsn, RowId};
use crate::txn::Transaction;
use crate::wal::RecordKind;

impl Heap {
    /// Locks the row whose version `old` the transaction's snapshot sees or [`Heap::newest`] found.
    pub fn lock(&self, txn: &mut Transaction, old: impl Into<Target>) -> Result<WriteOutcome> {
        let old = old.into();
        let at = old.at;
        let xid = txn.xid()?;
        let writer = Writer { xid, txn };
        let mut judge = Judge::new(self.txns());
        loop {
            let Some(mut set) = self.latch_for(&[at.block.0], Maps::Marked, xid)? else {
                return Ok(WriteOutcome::Gone);
            };
            let found = may_end(&set.page(at.block.0)?, old, writer, &mut judge)?;
            let (offset, head) = match found {
                Some(Ok(tuple)) if holds_lock(&tuple, writer) => return Ok(done(at, Lsn(0))),
                Some(Ok(tuple)) => (tuple.offset, tuple.header.locked(xid)),
                Some(Err(outcome)) => return Ok(outcome),
                None => {
                    drop(set);
                    judge.resolve()?;
                    continue;
                }
            };
            set.bits(at.block.0)?;
            page_edit::put_xmax(&mut set.store(at.block.0), offset, &head);
            set.unmark(at.block.0, true);
            return Ok(done(at, set.commit(RecordKind::HeapLock, xid)?));
        }
    }
}

fn done(at: RowId, lsn: Lsn) -> WriteOutcome {
    WriteOutcome::Done { row_id: at, heap_only: false, lsn }
}
