//! The status file in a real pool with a real log, on a disk that loses power.

use rightlink_aio::sim::CrashChoice;
use rightlink_aio::{Io, SimDisk};
use rightlink_env::{Env, Logger, Rng};

use super::*;
use crate::buffer::testing::{self, TestPool};
use crate::buffer::{BufferPool, DoubleWrite, PoolOptions};
use crate::config::MIN_POOL_PAGES;
use crate::error::Error;
use crate::ids::FileId;
use crate::txn::status::segment::PER_PAGE;
use crate::wal::{Reader, Wal};

fn create(frames: usize, seed: u64) -> (TestPool, Arc<TxnManager>) {
    create_at(frames, seed, Xid::FIRST)
}

/// A database whose first xid is `first`.
fn create_at(frames: usize, seed: u64, first: Xid) -> (TestPool, Arc<TxnManager>) {
    let test = testing::pool(frames, seed);
    TxnManager::create(&test.pool, first).unwrap();
    test.pool.wal().flush(test.pool.wal().end()).unwrap();
    let manager = TxnManager::open_with(Arc::clone(&test.pool), first, small()).unwrap();
    (test, manager)
}

/// Comes back from `disk` as recovery does: pages healed, the log redone.
fn recover(disk: &SimDisk, frames: usize, seed: u64) -> crate::Result<Arc<TxnManager>> {
    let env = Env::simulated(seed);
    let io = Io::simulated(&env, disk.clone(), testing::io_options()).map_err(Error::Io)?;
    DoubleWrite::recover(&io, true)?;
    let control = Wal::read_control(&io)?;
    let mut reader = Reader::open(&env, &io, control.redo)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    let wal = Wal::open(&env, &io, testing::wal_options(), reader.end())?;
    let options = PoolOptions { frames, double_write_pages: 64 };
    let pool = BufferPool::new(&env, &io, Arc::new(wal), options)?;
    for record in &records {
        testing::redo(&pool, record)?;
    }
    TxnManager::open_with(pool, control.next_xid, small())
}

fn commits(manager: &TxnManager, xid: Xid) -> bool {
    xid < manager.next_xid() && manager.status(xid).unwrap() != Status::Aborted
}

/// One transaction that ended, or did not: its xids, and whether it must, or may, be there.
struct Fate {
    xids: Vec<Xid>,
    must: bool,
    may: bool,
}

fn work(manager: &Arc<TxnManager>, rng: &mut Rng, fates: &mut Vec<Fate>) -> Option<Transaction> {
    let mut txn = begin(manager);
    let statements = if rng.chance(1, 12) { 5 * PER_PAGE } else { 1 + rng.below(30) };
    let mut xids = Vec::new();
    for _ in 0..statements {
        txn.begin_statement().unwrap();
        xids.push(txn.xid().unwrap());
    }
    match rng.below(6) {
        0 => fates.push(Fate { xids, must: false, may: false }),
        1 => {
            fates.push(Fate { xids, must: false, may: false });
            return Some(txn);
        }
        2 | 3 => {
            txn.commit(true).unwrap();
            fates.push(Fate { xids, must: false, may: true });
        }
        _ => {
            txn.commit(false).unwrap();
            // What was relaxed before it is in the log before it.
            fates.iter_mut().for_each(|fate| fate.must = fate.may);
            fates.push(Fate { xids, must: true, may: true });
        }
    }
    None
}

#[test]
fn a_power_cut_keeps_what_was_acknowledged() {
    let mut tried = 0;
    for seed in 0..4 {
        let mut rng = Rng::from_seed(seed);
        let (test, manager) = create(MIN_POOL_PAGES, seed);
        let (mut fates, mut unfinished) = (Vec::new(), Vec::new());
        let reader = begin(&manager).begin_statement().unwrap();
        for _ in 0..40 {
            unfinished.extend(work(&manager, &mut rng, &mut fates));
            if rng.chance(1, 8) {
                test.pool.write_back(Lsn(u64::MAX)).unwrap();
            }
        }
        assert!(fates.iter().all(|fate| fate.xids.iter().all(|xid| !sees(&reader, *xid))));
        let mut choices = test.disk.pending().choices(seed);
        rng.shuffle(&mut choices);
        for choice in choices.iter().take(8) {
            let again = recover(&test.disk.crash_image(choice), MIN_POOL_PAGES, seed).unwrap();
            tried += 1;
            for Fate { xids, must, may } in &fates {
                let kept = xids.iter().filter(|xid| commits(&again, **xid)).count();
                assert!(kept == 0 || kept == xids.len(), "seed {seed} {choice:?}: half is there");
                assert!(kept > 0 || !must, "seed {seed} {choice:?}: {:?} is lost", xids[0]);
                assert!(kept == 0 || *may, "seed {seed} {choice:?}: {:?} is back", xids[0]);
                let reusable = again.next_xid() <= xids[xids.len() - 1];
                assert!(!reusable || !must, "seed {seed} {choice:?}: an xid would be reused");
            }
            let fresh = commit_one(&again, false);
            assert!(commits(&again, fresh));
        }
    }
    assert!(tried > 20, "power was cut in the middle of something");
}

#[test]
fn old_outcomes_are_read_from_pages() {
    let (test, manager) = create(MIN_POOL_PAGES, 1);
    let kept = commit_one(&manager, false);
    let reader = begin(&manager).begin_statement().unwrap();
    let (txn, some) = crash::big_transaction(&manager, 30 * PER_PAGE);
    txn.commit(false).unwrap();
    burn(&manager, manager.next_xid().0 + 2 * FEW_RECENT as u64);
    test.pool.evict_all().unwrap();
    assert_eq!(reader.try_sees(kept), None, "its page is on disk");
    assert!(sees(&reader, kept) && some.iter().all(|xid| !sees(&reader, *xid)));
    assert_eq!(reader.try_sees(kept), Some(true), "now it is in memory");
    let later = begin(&manager).begin_statement().unwrap();
    assert!(some.iter().all(|xid| sees(&later, *xid)));
}

#[test]
fn a_damaged_status_page_is_an_error() {
    let (test, manager) = create(MIN_POOL_PAGES, 2);
    let xid = commit_one(&manager, false);
    burn(&manager, manager.next_xid().0 + 2 * FEW_RECENT as u64);
    test.pool.evict_all().unwrap();
    let mut files = test.disk.files().into_iter();
    let (name, _) = files.find(|(name, _)| name.ends_with("/80000000")).unwrap();
    test.disk.flip_bit(&name, 100, 3);
    let error = manager.status(xid).unwrap_err();
    assert!(matches!(error, Error::Corruption { block: Some(0), .. }), "{error}");
    assert_eq!(manager.try_status(xid), None);
}

/// Numbers of the segments in the directory.
fn segments(test: &TestPool) -> Vec<u32> {
    let files = test.pool.files_on_disk().unwrap().into_iter();
    let mut numbers: Vec<_> = files.filter(|file| is_segment(*file)).collect();
    numbers.sort();
    numbers.into_iter().map(|file| file.0 - FIRST_SEGMENT).collect()
}

/// Outcomes on both sides of the end of a segment, and of a transaction that has xids on both.
#[test]
fn a_segment_is_made_when_xids_reach_it() {
    let (test, manager) = create_at(MIN_POOL_PAGES, 3, Xid(SEGMENT_XIDS - 3000));
    let before = commit_one(&manager, false);
    assert_eq!(segments(&test), [0]);
    let reader = begin(&manager).begin_statement().unwrap();
    let (txn, some) = crash::big_transaction(&manager, 6 * PER_PAGE);
    assert!(some[0].0 < SEGMENT_XIDS && some[some.len() - 1].0 > SEGMENT_XIDS);
    txn.commit(false).unwrap();
    let after = commit_one(&manager, false);
    assert_eq!(segments(&test), [0, 1]);
    burn(&manager, manager.next_xid().0 + 2 * FEW_RECENT as u64);
    test.pool.evict_all().unwrap();
    assert!(some.iter().all(|xid| !sees(&reader, *xid)), "numbers are on the pages");
    assert!(sees(&reader, before) && !sees(&reader, after));
    let again = recover(&test.disk.crash_image(&CrashChoice::AllLost), MIN_POOL_PAGES, 3).unwrap();
    assert!(some.iter().chain([&before, &after]).all(|xid| commits(&again, *xid)));
}

/// The story: the file kept 8 bytes for each xid that was ever used, and copies and checks of it
/// took as long as that asked for.
#[test]
fn segments_go_with_their_outcomes() {
    let (test, manager) = create_at(MIN_POOL_PAGES, 4, Xid(SEGMENT_XIDS - 2000));
    let old = commit_one(&manager, false);
    burn(&manager, SEGMENT_XIDS + 5 * PER_PAGE);
    let reader = begin(&manager).begin_statement().unwrap();
    let kept = commit_one(&manager, false);
    manager.forget_outcomes(kept).unwrap();
    assert_eq!(segments(&test), [0, 1], "the control file does not say so yet");
    assert!(manager.status(old).is_err());
    manager.drop_segments(kept).unwrap();
    assert_eq!(segments(&test), [1]);
    assert_eq!(manager.segments(), [FileId(FIRST_SEGMENT + 1)]);
    assert!(manager.blocks_not_kept(FileId(FIRST_SEGMENT + 1)) >= 5);
    assert!(matches!(manager.status(old), Err(Error::Corruption { .. })));
    assert_eq!(manager.try_status(old), None);
    // Numbers that are still in memory, of xids that no segment has any more.
    burn(&manager, manager.next_xid().0 + 3 * FEW_RECENT as u64);
    assert!(!sees(&reader, kept));
    test.pool.flush_all().unwrap();
    let again = recover(&test.disk.crash_image(&CrashChoice::AllLost), MIN_POOL_PAGES, 4).unwrap();
    assert_eq!(again.oldest_xid(), kept);
    assert!(again.status(old).is_err() && commits(&again, kept));
    commit_one(&again, false);
}

/// A thread reads the outcome of a removed segment's xid while it is being removed: the reader
/// learns that it is not kept, and takes nothing for a rollback.
#[test]
fn an_outcome_that_goes_while_it_is_read_is_no_rollback() {
    let (test, manager) = create_at(MIN_POOL_PAGES, 5, Xid(SEGMENT_XIDS - 2000));
    let old = commit_one(&manager, false);
    burn(&manager, SEGMENT_XIDS + 3 * FEW_RECENT as u64);
    test.pool.evict_all().unwrap();
    let remover = Arc::clone(&manager);
    let hook = points::install_local(move |name| {
        if name == "txn.status.read" {
            let below = remover.horizon();
            remover.forget_outcomes(below).unwrap();
            remover.drop_segments(remover.oldest_xid()).unwrap();
        }
    });
    assert!(matches!(manager.status(old), Err(Error::Corruption { .. })));
    drop(hook);
    assert_eq!(segments(&test), [1]);
}

/// Xids end, after 284 years at a million a second. That is told from long before on, and at the
/// end the database can still be read.
#[test]
fn the_last_xid_is_told_of_and_refused() {
    let (logger, lines) = Logger::collecting();
    let options = TxnOptions { logger, ..small() };
    let open = |pool: &Arc<BufferPool>, first| {
        TxnManager::open_with(Arc::clone(pool), first, options.clone()).unwrap()
    };
    let far = testing::pool(MIN_POOL_PAGES, 6);
    let first = Xid(MAX_XID / 16 * 15 - 10_000);
    TxnManager::create(&far.pool, first).unwrap();
    let manager = open(&far.pool, first);
    commit_one(&manager, false);
    assert_eq!(lines.all(), [], "there are enough");
    burn(&manager, first.0 + 20_000);
    assert_eq!((lines.all().len(), lines.containing("are left")), (1, 1), "{:?}", lines.all());

    let near = testing::pool(MIN_POOL_PAGES, 7);
    let first = Xid(MAX_XID - 5000);
    TxnManager::create(&near.pool, first).unwrap();
    let manager = open(&near.pool, first);
    assert_eq!(lines.containing("are left"), 2, "told at once");
    let last = loop {
        let mut txn = begin(&manager);
        match txn.xid() {
            Ok(xid) => {
                txn.commit(false).unwrap();
                assert!(matches!(manager.status(xid).unwrap(), Status::Committed(_)));
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(&last, Error::Limit(what) if what.contains("used up")), "{last}");
    assert_eq!((manager.next_xid(), manager.xids_left()), (Xid(MAX_XID), 0));
    let snapshot = begin(&manager).begin_statement().unwrap();
    assert!(sees(&snapshot, Xid(MAX_XID - 1)), "reads go on");
    manager.forget_outcomes(manager.horizon()).unwrap();
    near.pool.flush_all().unwrap();
    near.pool.wal().flush(near.pool.wal().end()).unwrap();
    let image = near.disk.crash_image(&CrashChoice::AllLost);
    let again = recover(&image, MIN_POOL_PAGES, 7).unwrap();
    assert!(commits(&again, Xid(MAX_XID - 1)));
    assert!(matches!(begin(&again).xid(), Err(Error::Limit(_))));
}
