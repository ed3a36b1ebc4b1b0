//! For the tests: a status file in memory, with a log and pages that a crash treats as a disk
//! would.
//!
//! Invariants: a page is written back only after its log; a crash keeps what was written back, and
//! redoes a prefix of the log that is at least the durable part. Hints live in pages only.
//! Does not do: torn pages, checksums (the pool's business).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rightlink_env::Rng;
use rightlink_env::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};
use crate::txn::manager::{TxnManager, TxnOptions};
use crate::txn::status::file::{
    CHILD, MAX_PAGES, NOT_COMMITTED, StatusEntries, StatusFile, StatusMeta,
};
use crate::txn::status::segment::{PER_PAGE, page_of, split_by_page};
use crate::wal::RecordKind;

/// What a page holds: entries, or in page `u64::MAX` the meta data.
#[derive(Clone)]
struct Page {
    lsn: u64,
    words: Vec<u64>,
}

#[derive(Clone)]
struct Store {
    page: u64,
    at: Range<usize>,
    value: u64,
}

struct LogRecord {
    end: u64,
    stores: Vec<Store>,
}

#[derive(Default)]
struct Inner {
    memory: BTreeMap<u64, Page>,
    disk: BTreeMap<u64, Page>,
    log: Vec<LogRecord>,
    end: u64,
    durable: u64,
    flushes: u64,
    flush_fails: bool,
    write_fails: bool,
    unreadable: bool,
}

const META: u64 = u64::MAX;
const RECORD_BYTES: u64 = 100;

fn apply(pages: &mut BTreeMap<u64, Page>, record: &LogRecord) {
    let has_it = |store: &&Store| pages.get(&store.page).is_some_and(|page| page.lsn >= record.end);
    let done: BTreeSet<u64> = record.stores.iter().filter(has_it).map(|store| store.page).collect();
    for store in record.stores.iter().filter(|store| !done.contains(&store.page)) {
        let empty = || Page { lsn: 0, words: vec![0; PER_PAGE as usize] };
        let page = pages.entry(store.page).or_insert_with(empty);
        page.words[store.at.clone()].fill(store.value);
        page.lsn = record.end;
    }
}

impl Inner {
    fn append(&mut self, stores: Vec<Store>) -> Lsn {
        self.end += RECORD_BYTES;
        let record = LogRecord { end: self.end, stores };
        apply(&mut self.memory, &record);
        self.log.push(record);
        Lsn(self.end)
    }

    fn write_back(&mut self, page: u64) {
        let image = self.memory[&page].clone();
        self.durable = self.durable.max(image.lsn);
        self.disk.insert(page, image);
    }
}

/// A status file that can crash. Clones are the same file.
#[derive(Clone, Default)]
pub(super) struct ModelFile(Arc<Mutex<Inner>>);

impl ModelFile {
    /// A new, empty file.
    pub(super) fn create() -> ModelFile {
        let file = ModelFile::default();
        let first = Xid::FIRST.0;
        file.set_meta(StatusMeta { limit: first, oldest: first }).unwrap();
        file.flush(Lsn(u64::MAX)).unwrap();
        file
    }

    /// A manager over it.
    pub(super) fn open(&self, options: TxnOptions) -> Arc<TxnManager> {
        TxnManager::open_over(Box::new(self.clone()), Xid::FIRST, options).unwrap()
    }

    /// Writes some pages back.
    pub(super) fn write_back_some(&self, rng: &mut Rng) {
        let mut inner = self.0.lock();
        let pages: Vec<u64> = inner.memory.keys().copied().collect();
        pages.into_iter().filter(|_| rng.chance(1, 2)).for_each(|page| inner.write_back(page));
    }

    /// Writes the page of `xid` back.
    pub(super) fn write_back(&self, xid: u64) {
        self.0.lock().write_back(page_of(xid));
    }

    /// The file after a crash that kept `chance` of 4 of the log that was not durable.
    pub(super) fn crash(&self, rng: &mut Rng, chance: u64) -> ModelFile {
        let inner = self.0.lock();
        let mut memory = inner.disk.clone();
        let mut kept = inner.durable;
        for record in &inner.log {
            if record.end > inner.durable && !rng.chance(chance, 4) {
                break;
            }
            kept = kept.max(record.end);
            apply(&mut memory, record);
        }
        let disk = memory.clone();
        ModelFile(Arc::new(Mutex::new(Inner {
            memory,
            disk,
            end: kept,
            durable: kept,
            ..Inner::default()
        })))
    }

    /// Syncs so far.
    pub(super) fn flushes(&self) -> u64 {
        self.0.lock().flushes
    }

    /// From now on syncs fail.
    pub(super) fn fail_flushes(&self) {
        self.0.lock().flush_fails = true;
    }

    /// Do stores fail before they change anything?
    pub(super) fn fail_writes(&self, fail: bool) {
        self.0.lock().write_fails = fail;
    }

    /// From now on pages cannot be had without I/O.
    pub(super) fn forget_pages(&self) {
        self.0.lock().unreadable = true;
    }

    /// How many entries of the file point to a parent.
    pub(super) fn children(&self) -> usize {
        let inner = self.0.lock();
        let pages = inner.memory.iter().filter(|(page, _)| **page != META);
        pages.flat_map(|(_, page)| &page.words).filter(|word| **word & CHILD != 0).count()
    }

    /// Overwrites the entry of `xid` without a record.
    pub(super) fn damage(&self, xid: u64, value: u64) {
        let mut inner = self.0.lock();
        let page = inner.memory.get_mut(&page_of(xid)).unwrap();
        page.words[(xid % PER_PAGE) as usize] = value;
    }
}

impl StatusFile for ModelFile {
    fn meta(&self) -> Result<StatusMeta> {
        let inner = self.0.lock();
        let page = inner.memory.get(&META).expect("the file was created");
        Ok(StatusMeta { limit: page.words[0], oldest: page.words[1] })
    }

    fn set_meta(&self, meta: StatusMeta) -> Result<Lsn> {
        let store = |at: usize, value| Store { page: META, at: at..at + 1, value };
        Ok(self.0.lock().append(vec![store(0, meta.limit), store(1, meta.oldest)]))
    }

    fn reserve(&self, _xids: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn forget(&self, _oldest: u64) -> Result<()> {
        Ok(())
    }

    fn drop_segments(&self, _oldest: u64) -> Result<()> {
        Ok(())
    }

    fn read(&self, xid: u64) -> Result<u64> {
        let inner = self.0.lock();
        let page = inner.memory.get(&page_of(xid));
        Ok(page.map_or(NOT_COMMITTED, |page| page.words[(xid % PER_PAGE) as usize]))
    }

    fn try_read(&self, xid: u64) -> Option<u64> {
        if self.0.lock().unreadable { None } else { self.read(xid).ok() }
    }

    fn write(&self, _kind: RecordKind, _xid: Xid, entries: &[StatusEntries]) -> Result<Lsn> {
        let mut inner = self.0.lock();
        if inner.write_fails {
            return Err(Error::DiskFull("the model".to_string()));
        }
        let mut stores: Vec<Store> = Vec::new();
        for StatusEntries { xids, value } in entries {
            stores.extend(split_by_page(xids.clone()).map(|part| {
                let at = (part.start % PER_PAGE) as usize;
                let len = (part.end - part.start) as usize;
                Store { page: page_of(part.start), at: at..at + len, value: *value }
            }));
        }
        let mut pages: Vec<u64> = stores.iter().map(|store| store.page).collect();
        assert!(pages.is_sorted(), "entries ascend");
        pages.dedup();
        assert!(!pages.is_empty() && pages.len() as u64 <= MAX_PAGES);
        Ok(inner.append(stores))
    }

    fn hint(&self, first: u64, numbers: &[u64]) -> Result<()> {
        let mut inner = self.0.lock();
        let Some(page) = inner.memory.get_mut(&page_of(first)) else { return Ok(()) };
        let at = (first % PER_PAGE) as usize;
        for (word, number) in page.words[at..at + numbers.len()].iter_mut().zip(numbers) {
            if *number != 0 && *word != NOT_COMMITTED {
                *word = *number;
            }
        }
        Ok(())
    }

    fn flush(&self, upto: Lsn) -> Result<()> {
        let mut inner = self.0.lock();
        if inner.flush_fails {
            return Err(Error::Poisoned("sync failed".to_string()));
        }
        let upto = upto.0.min(inner.end);
        if inner.durable < upto {
            inner.durable = upto;
            inner.flushes += 1;
        }
        Ok(())
    }

    fn durable(&self) -> Lsn {
        Lsn(self.0.lock().durable)
    }
}
