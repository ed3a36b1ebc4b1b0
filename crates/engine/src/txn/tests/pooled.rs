//! The status file in a real pool with a real log, on a disk that loses power.

use rightlink_aio::{Io, SimDisk};
use rightlink_env::{Env, Rng};

use super::*;
use crate::buffer::testing::{self, TestPool};
use crate::buffer::{BufferPool, DoubleWrite, PoolOptions};
use crate::config::{MIN_POOL_PAGES, PAGE_SIZE};
use crate::error::Error;
use crate::txn::status::PER_PAGE;
use crate::wal::{Reader, Wal};

fn create(frames: usize, seed: u64) -> (TestPool, Arc<TxnManager>) {
    let test = testing::pool(frames, seed);
    TxnManager::create(&test.pool).unwrap();
    test.pool.wal().flush(test.pool.wal().end()).unwrap();
    let manager = TxnManager::open_with(Arc::clone(&test.pool), Xid::FIRST, small()).unwrap();
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
    burn(&manager, manager.next_xid().0 + 2 * SMALL_RING as u64);
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
    burn(&manager, manager.next_xid().0 + 2 * SMALL_RING as u64);
    test.pool.evict_all().unwrap();
    let mut files = test.disk.files().into_iter();
    let (name, _) = files.find(|(name, _)| name.ends_with("/00000001")).unwrap();
    test.disk.flip_bit(&name, PAGE_SIZE as u64 + 100, 3);
    let error = manager.status(xid).unwrap_err();
    assert!(matches!(error, Error::Corruption { block: Some(1), .. }), "{error}");
    assert_eq!(manager.try_status(xid), None);
}
