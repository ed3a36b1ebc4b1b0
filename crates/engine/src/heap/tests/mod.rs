//! Tests of the heap as a whole, over a real pool, log and transaction manager on a simulated disk.

mod damage;
mod garbage;
mod locks;
mod model;
mod rows;
#[cfg(feature = "shuttle")]
mod schedules;
mod writes;

use rightlink_env::sync::Arc;

use super::*;
use crate::buffer::{Mtr, testing};
use crate::heap::page::tuple::TupleHeader;
use crate::heap::page::{HeapPage, Slot};
use crate::heap::prune::vacuum::VacuumPass;
use crate::heap::read::fetch::Fetched;
use crate::ids::{Lsn, RowId, Xid};
use crate::page::{PageFinding, PageMut};
use crate::txn::{Isolation, RowLock, Snapshot, Transaction, TxnOptions};
use crate::wal::RecordKind;

/// A heap and everything below it.
struct Fixture {
    pool: Arc<BufferPool>,
    txns: Arc<TxnManager>,
    heap: Heap,
}

const FILES: HeapFiles =
    HeapFiles { heap: FileId(64), free_space: FileId(65), visibility: FileId(66) };
const OPTIONS: HeapOptions = HeapOptions { fillfactor: 100, logged: true };

impl Fixture {
    fn new() -> Fixture {
        Self::with(512, OPTIONS)
    }

    fn with(frames: usize, options: HeapOptions) -> Fixture {
        let pool = testing::pool(frames, 1).pool;
        TxnManager::create(&pool, Xid::FIRST).expect("a status file");
        let txns = TxnManager::open_with(Arc::clone(&pool), Xid::FIRST, TxnOptions::default())
            .expect("a manager");
        let heap = Heap::create(&pool, &txns, FILES, options).expect("a heap");
        Fixture { pool, txns, heap }
    }

    fn begin(&self) -> Transaction {
        self.txns.begin(Isolation::Snapshot)
    }

    /// A snapshot of now, with the transaction that keeps it.
    fn snapshot(&self) -> (Transaction, Arc<Snapshot>) {
        let mut txn = self.begin();
        let snapshot = txn.begin_statement().expect("a snapshot");
        (txn, snapshot)
    }

    /// Runs `work` as a transaction of one statement and commits it.
    fn commit<T>(&self, work: impl FnOnce(&mut Transaction) -> T) -> T {
        let mut txn = self.begin();
        txn.begin_statement().expect("a statement");
        let result = work(&mut txn);
        txn.commit(false).expect("a commit");
        result
    }

    fn insert(&self, row: &[u8]) -> RowId {
        self.commit(|txn| {
            let xid = txn.xid().expect("an xid");
            self.heap.insert(xid, row).expect("inserted")
        })
    }

    /// Updates as a transaction of its own; the update must go through.
    fn update(&self, at: RowId, row: &[u8], hot: bool) -> RowId {
        self.commit(|txn| done(self.heap.update(txn, at, row, hot).expect("updated")))
    }

    fn delete(&self, at: RowId) {
        self.commit(|txn| done(self.heap.delete(txn, at).expect("deleted")));
    }

    /// What a new snapshot sees of the row.
    fn fetch(&self, root: RowId) -> Option<Vec<u8>> {
        let (_txn, snapshot) = self.snapshot();
        self.heap.fetch(&snapshot, root).expect("fetched").row.map(|(_, row)| row)
    }

    fn scan(&self) -> Vec<(RowId, Vec<u8>)> {
        let (_txn, snapshot) = self.snapshot();
        scan(&self.heap, &snapshot)
    }

    /// Reads something of a heap page.
    fn page<T>(&self, block: u32, read: impl FnOnce(&HeapPage<'_>) -> T) -> T {
        let pin = self.heap.pin(BlockNo(block)).expect("pinned");
        let latch = pin.shared();
        read(&HeapPage::open(pin.page(), latch.bytes()).expect("a heap page"))
    }

    fn slot(&self, at: RowId) -> Slot {
        self.page(at.block.0, |page| page.slot(at.slot).expect("a sound slot"))
    }

    fn header(&self, at: RowId) -> TupleHeader {
        self.page(at.block.0, |page| page.tuple(at.slot).expect("sound").expect("normal").header)
    }

    /// Changes a page behind the heap's back.
    fn meddle(&self, page: PageId, change: impl FnOnce(&mut PageMut<'_>)) {
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(self.pool.pin(page).expect("pinned"));
        change(&mut mtr.page(held));
        mtr.commit(RecordKind::HeapVacuum, Xid::NONE).expect("logged");
    }

    fn vacuum_all(&self) -> (Vec<RowId>, VacuumPass) {
        let mut dead = Vec::new();
        let options = VacuumOptions { freeze_below: self.txns.horizon() };
        let pass = self
            .heap
            .scan_dead(1..u32::MAX, options, &mut |_, page| {
                dead.extend(page.dead);
                Ok(())
            })
            .expect("vacuumed");
        (dead, pass)
    }

    /// All findings that matter.
    fn findings(&self) -> Vec<PageFinding> {
        let mut findings = Vec::new();
        self.heap
            .verify(&mut |finding| {
                if finding.check != HARMLESS_CHECK {
                    findings.push(finding);
                }
            })
            .expect("verified");
        findings
    }

    fn assert_sound(&self) {
        assert_eq!(self.findings(), []);
    }
}

fn scan(heap: &Heap, snapshot: &Snapshot) -> Vec<(RowId, Vec<u8>)> {
    let mut rows = Vec::new();
    for block in 1..heap.blocks() {
        rows.extend(scan_block(heap, snapshot, block).expect("scanned"));
    }
    rows
}

/// The rows of one block that `snapshot` sees.
fn scan_block(heap: &Heap, snapshot: &Snapshot, block: u32) -> Result<Vec<(RowId, Vec<u8>)>> {
    let mut page = PageRows::default();
    heap.read_page(&heap.pin(BlockNo(block))?, snapshot, &mut page)?;
    Ok((0..page.len()).map(|i| page.get(i)).map(|(at, row)| (at, row.to_vec())).collect())
}

impl Heap {
    /// The version of the row `root` that `snapshot` sees. May read the page.
    pub(crate) fn fetch(&self, snapshot: &Snapshot, root: RowId) -> Result<Fetched> {
        if !self.is_data_block(root.block.0) {
            return Ok(Fetched::default());
        }
        let pin = self.pin(root.block)?;
        self.fetch_on(&pin, snapshot, root)
    }

    /// An update with the strongest lock mode.
    pub(crate) fn update(
        &self,
        txn: &mut Transaction,
        old: impl Into<TargetVersion>,
        row: &[u8],
        hot: bool,
    ) -> Result<WriteOutcome> {
        self.update_with_lock(txn, old, row, hot, RowLock::Exclusive)
    }
}

#[track_caller]
fn done(outcome: WriteOutcome) -> RowId {
    match outcome {
        WriteOutcome::Done { row_id, .. } => row_id,
        other => panic!("expected a change, got {other:?}"),
    }
}
