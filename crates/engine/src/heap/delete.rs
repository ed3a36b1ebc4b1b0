//! Deleting a version: its xmax becomes the statement's xid.
//!
//! Invariants: the version and everything that index entries say about it stay until no snapshot
//! sees it.
//! Does not do: index entries; they leave with vacuum.

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page_edit;
use crate::heap::page_set::Maps;
use crate::heap::visibility::Judge;
use crate::heap::write::{Target, WriteOutcome, Writer, may_end};
use crate::txn::Transaction;
use crate::wal::RecordKind;

impl Heap {
    /// Deletes the version `old`, which the transaction's snapshot sees or [`Heap::newest`] found.
    pub fn delete(&self, txn: &mut Transaction, old: impl Into<Target>) -> Result<WriteOutcome> {
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
                Some(Ok(tuple)) => (tuple.offset, tuple.header.deleted(xid)),
                Some(Err(outcome)) => return Ok(outcome),
                None => {
                    drop(set);
                    judge.resolve()?;
                    continue;
                }
            };
            set.bits(at.block.0)?;
            let mut page = set.store(at.block.0);
            page_edit::put_xmax(&mut page, offset, &head);
            page_edit::mark_prunable(&mut page, xid);
            set.unmark(at.block.0, false);
            let lsn = set.commit(RecordKind::HeapDelete, xid)?;
            self.add_garbage(1);
            return Ok(WriteOutcome::Done { row_id: at, heap_only: false, lsn });
        }
    }
}
