//! Deletes: the version's xmax becomes the statement's xid.
//!
//! Invariants: the version and its index entries stay until no snapshot sees it.
//! Does not do: remove index entries; vacuum and cleaning by key do.
//!
//! PostgreSQL: `heap_delete` in `access/heap/heapam.c`.

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::latch::MapLatches;
use crate::heap::page::store;
use crate::heap::read::newest::TargetVersion;
use crate::heap::visibility::HeapVisibility;
use crate::heap::write::{EndCheck, WriteContext, WriteOutcome, check_end, locks_to_keep};
use crate::txn::{NewVersionLocks, RowLock, Transaction};
use crate::wal::RecordKind;

impl Heap {
    /// Deletes the version `old`, which the transaction's snapshot sees or [`Heap::newest_version`]
    /// found.
    pub fn delete(
        &self,
        txn: &mut Transaction,
        old: impl Into<TargetVersion>,
    ) -> Result<WriteOutcome> {
        let old = old.into();
        let at = old.at;
        let xid = txn.xid()?;
        let writer = WriteContext { xid, txn, wants: RowLock::Exclusive };
        let mut visibility = HeapVisibility::new(self.txns());
        loop {
            let Some(mut set) = self.latch_for_xid(&[at.block.0], MapLatches::Marked, xid)? else {
                return Ok(WriteOutcome::Gone);
            };
            let found = check_end(&set.page(at.block.0)?, old, writer, &mut visibility)?;
            let ended = match found {
                EndCheck::Allowed(tuple) => {
                    let locks = locks_to_keep(&tuple.header, writer, &mut visibility);
                    locks.map(|locks| (tuple.offset, tuple.header, locks))
                }
                EndCheck::Refused(outcome) => return Ok(outcome),
                EndCheck::Unknown => None,
            };
            let Some((offset, gone, locks)) = ended else {
                drop(set);
                visibility.resolve()?;
                continue;
            };
            set.bits(at.block.0)?;
            let mut head = gone.deleted(xid);
            if !locks.is_empty() {
                txn.keep_row_locks(&locks, NewVersionLocks::OldVersionOnly)?;
                head = head.in_group();
            }
            let mut page = set.store(at.block.0);
            store::put_xmax(&mut page, offset, &head);
            store::mark_prunable(&mut page, xid);
            set.clear_marks(at.block.0);
            let lsn = set.commit(RecordKind::HeapDelete, xid)?;
            txn.release_multixact(gone.group());
            self.add_garbage(1);
            self.shared.counters.delete();
            return Ok(WriteOutcome::Done { row_id: at, heap_only: false, lsn });
        }
    }
}
