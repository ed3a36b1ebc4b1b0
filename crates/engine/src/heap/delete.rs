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
use crate::heap::write::{Target, WriteOutcome, Writer, locks_to_keep, may_end};
use crate::txn::{NewVersionLocks, RowLock, Transaction};
use crate::wal::RecordKind;

impl Heap {
    /// Deletes the version `old`, which the transaction's snapshot sees or [`Heap::newest`] found.
    pub fn delete(&self, txn: &mut Transaction, old: impl Into<Target>) -> Result<WriteOutcome> {
        let old = old.into();
        let at = old.at;
        let xid = txn.xid()?;
        let writer = Writer { xid, txn, wants: RowLock::Exclusive };
        let mut judge = Judge::new(self.txns());
        loop {
            let Some(mut set) = self.latch_for(&[at.block.0], Maps::Marked, xid)? else {
                return Ok(WriteOutcome::Gone);
            };
            let found = may_end(&set.page(at.block.0)?, old, writer, &mut judge)?;
            let ended = match found {
                Some(Ok(tuple)) => {
                    let locks = locks_to_keep(&tuple.header, writer, &mut judge);
                    locks.map(|locks| (tuple.offset, tuple.header, locks))
                }
                Some(Err(outcome)) => return Ok(outcome),
                None => None,
            };
            let Some((offset, gone, locks)) = ended else {
                drop(set);
                judge.resolve()?;
                continue;
            };
            set.bits(at.block.0)?;
            let mut head = gone.deleted(xid);
            if !locks.is_empty() {
                txn.keep_row_locks(&locks, NewVersionLocks::OldVersionOnly)?;
                head = head.in_group();
            }
            let mut page = set.store(at.block.0);
            page_edit::put_xmax(&mut page, offset, &head);
            page_edit::mark_prunable(&mut page, xid);
            set.unmark(at.block.0, false);
            let lsn = set.commit(RecordKind::HeapDelete, xid)?;
            txn.release_multixact(gone.group());
            self.add_garbage(1);
            self.shared.counters.delete();
            return Ok(WriteOutcome::Done { row_id: at, heap_only: false, lsn });
        }
    }
}
