//! Power cuts at every point of a workload, and what recovery makes of what they leave.
//!
//! The oracle: every page has the value of the last record below the end of the log that recovery
//! found, and that end covers everything whose flush had returned before the cut.

use rightlink_aio::sim::{FaultKind, OpKind, Recording, Repeat};
use rightlink_aio::{AlignedBuf, Io, OpenMode, SimDisk};
use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicBool, Mutex, Ordering};
use rightlink_env::thread::{self, JoinHandle};
use rightlink_env::{Env, Rng, points};

use super::{FILE, filled, get, init, page, set};
use crate::buffer::testing::{self, TestPool, control, io_options, wal_options};
use crate::buffer::{BufferPool, DoubleWrite, PoolOptions};
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId};
use crate::page::{checksum, header};
use crate::wal::{Control, Reader, Wal};

const FRAMES: usize = 16;
const PAGES: u32 = 28;

/// What was done, and when which promise was made.
#[derive(Default)]
struct History {
    /// Block, value, end of the record.
    stores: Vec<(u32, u64, Lsn)>,
    /// Calls that the disk had seen, and the log that was durable then.
    promises: Vec<(u64, Lsn)>,
}

impl History {
    fn expected(&self, block: u32, end: Lsn) -> Option<u64> {
        let known = |(b, _, lsn): &&(u32, u64, Lsn)| *b == block && *lsn <= end;
        self.stores.iter().rev().find(known).map(|(_, value, _)| *value)
    }

    fn promised(&self, calls: u64) -> Lsn {
        let kept = self.promises.iter().rev().find(|(at, _)| *at <= calls);
        kept.map_or(Lsn(0), |(_, lsn)| *lsn)
    }
}

fn checkpoint(pool: &BufferPool) -> Result<Lsn> {
    let below = pool.wal().end();
    while pool.write_back(below)? > 0 {}
    let redo = pool.redo_horizon();
    pool.sync_all()?;
    pool.wal().flush(redo)?;
    pool.wal().write_control(&Control { redo, durable: redo, ..control() })?;
    Ok(redo)
}

/// Random stores through a pool that is too small, with flushes, checkpoints and growth.
fn workload(test: &TestPool, seed: u64, steps: u32) -> History {
    let mut history = History::default();
    let mut rng = Rng::from_seed(seed);
    let pool = &test.pool;
    pool.create_file(FILE, true).unwrap();
    let mut blocks = 0;
    for step in 0..steps {
        if blocks < PAGES && (blocks < 4 || rng.chance(1, 4)) {
            let block = pool.extend(FILE, 1).unwrap().0;
            let end = init(pool, page(block), u64::from(step)).unwrap();
            history.stores.push((block, u64::from(step), end));
            blocks = block + 1;
        } else {
            let block = rng.below(u64::from(blocks)) as u32;
            let end = set(pool, page(block), u64::from(step)).unwrap();
            history.stores.push((block, u64::from(step), end));
        }
        match rng.below(30) {
            0 => pool.wal().flush(pool.wal().end()).unwrap(),
            1 => {
                checkpoint(pool).unwrap();
            }
            2 => {
                pool.pin(page(0)).unwrap().hint(None, |page| page.write_unlogged(6000, &[1]));
            }
            3 => {
                pool.write_back(Lsn(u64::MAX)).unwrap();
            }
            4 => {
                pool.sync_homes().unwrap();
            }
            _ => {}
        }
        history.promises.push((test.disk.op_count(), pool.wal().durable()));
    }
    history
}

/// What a restart does: heals torn pages, reads the log, applies it.
fn recover(disk: &SimDisk) -> Result<(Arc<BufferPool>, Lsn)> {
    let env = Env::simulated(1);
    let io = Io::simulated(&env, disk.clone(), io_options()).map_err(Error::Io)?;
    DoubleWrite::recover(&io, true)?;
    let redo = Wal::read_control(&io)?.redo;
    let mut reader = Reader::open(&env, &io, redo)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    let end = reader.end();
    let wal = Arc::new(Wal::open(&env, &io, wal_options(), end)?);
    let options = PoolOptions { frames: FRAMES, double_write_pages: 64 };
    let pool = BufferPool::new(&env, &io, wal, options)?;
    for file in pool.files_on_disk()? {
        pool.open_file(file, true)?;
    }
    for record in &records {
        testing::redo(&pool, record)?;
    }
    Ok((pool, end))
}

fn check(disk: &SimDisk, history: &History, calls: u64) -> std::result::Result<(), String> {
    let (pool, end) = recover(disk).map_err(|error| format!("recovery: {error}"))?;
    if end < history.promised(calls) {
        return Err(format!("the log ends at {end}, {} was promised", history.promised(calls)));
    }
    for block in 0..PAGES {
        let Some(expected) = history.expected(block, end) else {
            continue;
        };
        let found = get(&pool, page(block)).map_err(|error| format!("block {block}: {error}"))?;
        let pin = pool.pin(page(block)).map_err(|error| error.to_string())?;
        let lsn = header::lsn(pin.shared().bytes());
        if found != expected || lsn > end {
            return Err(format!("block {block} at {lsn}: {found}, expected {expected} at {end}"));
        }
    }
    Ok(())
}

/// Every moment, with a few of the choices of each (`stride` thins them out).
fn explore(recording: &Recording, history: &History, stride: usize) -> u64 {
    let (mut states, mut turn) = (0, 0);
    recording.for_each_moment(|calls, state| {
        for choice in state.choices(calls) {
            turn += 1;
            if turn % stride != 0 {
                continue;
            }
            states += 1;
            let disk = recording.crash(state, &choice);
            if let Err(what) = check(&disk, history, calls) {
                panic!("after {calls} calls, {choice:?}: {what}");
            }
        }
    });
    states
}

fn recorded(seed: u64, steps: u32) -> (Recording, History) {
    let disk = SimDisk::new(seed);
    let test = testing::on_disk(disk.clone(), FRAMES, 64, seed);
    disk.start_recording();
    let history = workload(&test, seed, steps);
    (disk.recording(), history)
}

#[test]
fn every_power_cut_is_recovered_from() {
    let mut states = 0;
    for seed in 1..6 {
        let (recording, history) = recorded(seed, 60);
        states += explore(&recording, &history, 13);
    }
    assert!(states > 300, "{states} states");
}

/// The page on disk is never newer than the durable log, whatever write completes first.
#[test]
fn no_page_reaches_the_disk_before_its_log() {
    let seed = 11;
    let disk = SimDisk::new(seed);
    let test = testing::on_disk(disk.clone(), FRAMES, 64, seed);
    let checked = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&checked);
    let pool = Arc::clone(&test.pool);
    let hook = points::install_local(move |name| {
        if name == "buffer.writeback.after-homes" || name == "buffer.writeback.after-doublewrite" {
            let durable = pool.wal().durable();
            let (_, len) = disk.files().into_iter().find(|(f, _)| f == "data/00000046").unwrap();
            for block in 0..(len / 8192) as u32 {
                let bytes = disk.peek("data/00000046", u64::from(block) * 8192, 8192);
                let bytes: &[u8; 8192] = bytes[..].try_into().unwrap();
                assert!(header::lsn(bytes) <= durable, "block {block}");
                assert_eq!(checksum::verify(page(block), bytes), Ok(()));
                *seen.lock() += 1;
            }
        }
    });
    workload(&test, seed, 300);
    drop(hook);
    assert!(*checked.lock() > 500);
}

/// A group is torn in every manner between its copies and its homes; the area heals all of it.
#[test]
fn torn_homes_are_healed_from_the_area() {
    let seed = 5;
    let disk = SimDisk::new(seed);
    let test = testing::on_disk(disk.clone(), FRAMES, 64, seed);
    let mut history = workload(&test, seed, 80);
    let mut healed = 0;
    test.pool.flush_all().unwrap();
    for block in 0..4 {
        let end = set(&test.pool, page(block), 1000).unwrap();
        history.stores.push((block, 1000, end));
    }
    // Written home and not synced.
    while test.pool.write_back(Lsn(u64::MAX)).unwrap() > 0 {}
    let pending = disk.pending();
    for choice in pending.choices(3) {
        let torn = disk.crash_image(&choice);
        let env = Env::simulated(2);
        let io = Io::simulated(&env, torn.clone(), io_options()).unwrap();
        let restored: Vec<PageId> = DoubleWrite::recover(&io, true).unwrap();
        assert_eq!(DoubleWrite::recover(&io, true).unwrap(), [], "what is healed stays healed");
        healed += restored.len();
        check(&torn, &history, disk.op_count()).unwrap_or_else(|what| panic!("{choice:?}: {what}"));
    }
    assert!(healed > 10, "{healed} pages were torn");
}

/// The process is killed between the homes of a group and their sync; the next one heals what there
/// is, uses the area for pages of another file, and then the power fails. What it found whole was
/// in the page cache only, and the copies are gone by then. Returns the states that lost something.
fn killed_then_cut() -> Vec<String> {
    const OTHER: FileId = FileId(71);
    let seed = 21;
    let disk = SimDisk::new(seed);
    let test = testing::on_disk(disk.clone(), FRAMES, 64, seed);
    let mut history = workload(&test, seed, 80);
    test.pool.create_file(OTHER, true).unwrap();
    test.pool.extend(OTHER, 8).unwrap();
    init(&test.pool, PageId::new(OTHER, 7), 1).unwrap();
    // The log has no images of the pages any more.
    checkpoint(&test.pool).unwrap();
    test.pool.flush_all().unwrap();
    for block in 0..4 {
        let end = set(&test.pool, page(block), 1000).unwrap();
        history.stores.push((block, 1000, end));
    }
    while test.pool.write_back(Lsn(u64::MAX)).unwrap() > 0 {}
    drop(test);
    let env = Env::simulated(2);
    let io = Io::simulated(&env, disk.clone(), io_options()).unwrap();
    assert_eq!(DoubleWrite::recover(&io, true).unwrap(), [], "nothing is torn by a kill");
    let redo = Wal::read_control(&io).unwrap().redo;
    let mut reader = Reader::open(&env, &io, redo).unwrap();
    while reader.next().unwrap().is_some() {}
    let wal = Arc::new(Wal::open(&env, &io, wal_options(), reader.end()).unwrap());
    let options = PoolOptions { frames: FRAMES, double_write_pages: 64 };
    let pool = BufferPool::new(&env, &io, wal, options).unwrap();
    pool.open_file(OTHER, true).unwrap();
    for round in 0..16 {
        init(&pool, PageId::new(OTHER, round % 8), u64::from(round)).unwrap();
        pool.sync_file(OTHER).unwrap();
    }
    let pending = disk.pending();
    let lost = |choice| check(&disk.crash_image(&choice), &history, disk.op_count()).err();
    pending.choices(4).into_iter().filter_map(lost).collect()
}

#[test]
fn homes_that_recovery_keeps_are_durable_before_the_area_is_used_again() {
    assert_eq!(killed_then_cut(), [""; 0]);
    let _broken = points::break_rule(Broken::RecoveredHomesNotSynced);
    assert_ne!(killed_then_cut(), [""; 0], "the only good copy was overwritten");
}

/// Homes are made durable beside the groups that follow, which then take the places of their
/// copies; whatever of the rest a power cut tears is healed.
#[test]
fn homes_settled_early_need_their_copies_no_more() {
    let seed = 23;
    let disk = SimDisk::new(seed);
    let test = testing::on_disk(disk.clone(), FRAMES, 64, seed);
    let mut history = workload(&test, seed, 80);
    // The log has no images of the pages any more.
    checkpoint(&test.pool).unwrap();
    test.pool.flush_all().unwrap();
    let mut synced = 0;
    for group in 0..14 {
        let block = group % PAGES;
        let end = set(&test.pool, page(block), 1000).unwrap();
        history.stores.push((block, 1000, end));
        assert_eq!(test.pool.write_back(Lsn(u64::MAX)).unwrap(), 1);
        // Each time half of the slots are used.
        synced += u64::from(test.pool.sync_homes().unwrap());
    }
    assert!((2..=4).contains(&synced), "{synced}");
    let pending = disk.pending();
    for choice in pending.choices(6) {
        let torn = disk.crash_image(&choice);
        if let Err(what) = check(&torn, &history, disk.op_count()) {
            panic!("{choice:?}: {what}");
        }
    }
}

/// A valid home is never replaced by its copy, which may be older.
#[test]
fn a_valid_home_is_never_replaced() {
    let test = testing::pool(64, 6);
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, 1).unwrap();
    init(&test.pool, page(0), 1).unwrap();
    test.pool.flush_all().unwrap();
    let old = test.disk.snapshot();
    set(&test.pool, page(0), 2).unwrap();
    test.pool.flush_all().unwrap();
    // The area has both copies; the home is put back to the older one, which is valid.
    test.disk.make_stale("data/00000046", 0, 8192, &old);
    assert_eq!(DoubleWrite::recover(&test.io, true).unwrap(), []);
    test.disk.flip_bit("data/00000046", 5000, 0);
    assert_eq!(DoubleWrite::recover(&test.io, true).unwrap(), [page(0)]);
    let bytes = test.disk.peek("data/00000046", 4096, 8);
    assert_eq!(bytes, 2u64.to_le_bytes(), "the younger copy wins");
}

/// Of the last group the head gets to the device and the copy does not: in its place lies a sound
/// copy of the same page, left by the group that was there eight groups before. The torn home needs
/// that of the last group but one.
#[test]
fn a_copy_left_by_an_older_group_does_not_count() {
    const SLOT: u64 = 257 * 8192;
    let test = testing::pool(64, 15);
    filled(&test, 1);
    let write = |value| {
        set(&test.pool, page(0), value).unwrap();
        assert_eq!(test.pool.write_back(Lsn(u64::MAX)).unwrap(), 1);
    };
    (1..=9).for_each(write);
    let before = test.disk.snapshot();
    let (disk, cut) = (test.disk.clone(), Arc::new(Mutex::new(None)));
    let theirs = Arc::clone(&cut);
    let hook = points::install_local(move |name| {
        if name == "buffer.double-write.before-sync" {
            *theirs.lock() = Some(disk.snapshot());
        }
    });
    write(10);
    drop(hook);
    let disk = cut.lock().take().unwrap();
    disk.make_stale("doublewrite", SLOT + 8192, 8192, &before);
    disk.flip_bit("data/00000046", 5000, 0);
    let io = Io::simulated(&Env::simulated(2), disk.clone(), io_options()).unwrap();
    assert_eq!(DoubleWrite::recover(&io, true).unwrap(), [page(0)]);
    let found = disk.peek("data/00000046", 4096, 8);
    assert_eq!(found, 9u64.to_le_bytes());
}

/// An area whose heads have no checksums of copies is refused if it has copies that may be needed.
#[test]
fn an_area_of_an_older_version_is_refused_unless_it_is_empty() {
    let test = testing::pool(64, 16);
    filled(&test, 1);
    test.pool.flush_all().unwrap();
    let mut head = test.disk.peek("doublewrite", 0, 8192);
    head[..8].copy_from_slice(b"RLDWRT02");
    let area = test.io.open_file("doublewrite", OpenMode::Existing).unwrap();
    let mut bytes = AlignedBuf::zeroed(8192);
    bytes.copy_from_slice(&head);
    area.write_all_at(&bytes, 0).unwrap();
    let refused = DoubleWrite::recover(&test.io, true);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    area.write_all_at(&AlignedBuf::zeroed(8192), 0).unwrap();
    assert_eq!(DoubleWrite::recover(&test.io, true).unwrap(), []);
}

/// A checkpoint that runs between the marking of a page and its record does not lose the record.
#[test]
fn a_checkpoint_between_mark_and_append_loses_nothing() {
    for point in ["buffer.mtr.before-append", "buffer.mtr.after-append"] {
        let test = testing::pool(FRAMES, 7);
        test.pool.create_file(FILE, true).unwrap();
        test.pool.extend(FILE, 1).unwrap();
        init(&test.pool, page(0), 1).unwrap();
        checkpoint(&test.pool).unwrap();
        let start = test.pool.wal().end();
        let pool = Arc::clone(&test.pool);
        let hook = points::install_local(move |name| {
            if name == point {
                assert!(pool.redo_horizon() <= start, "the page that is being changed counts");
            }
        });
        set(&test.pool, page(0), 2).unwrap();
        drop(hook);
        assert_eq!(test.pool.redo_horizon(), start);
        checkpoint(&test.pool).unwrap();
        assert_eq!(test.pool.redo_horizon(), test.pool.wal().end());
    }
}

/// A page that changes all the time does not hold the redo position back.
#[test]
fn a_hot_page_lets_the_redo_position_move() {
    let test = testing::pool(FRAMES, 8);
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, 1).unwrap();
    init(&test.pool, page(0), 1).unwrap();
    let pool = Arc::clone(&test.pool);
    let hook = points::install_local(move |name| {
        if name == "buffer.writeback.copied" {
            set(&pool, page(0), 7).unwrap();
        }
    });
    let before = test.pool.wal().end();
    assert_eq!(test.pool.write_back(before).unwrap(), 1);
    drop(hook);
    assert_eq!(test.pool.stats().dirty, 1, "it changed after it was copied");
    assert_eq!(test.pool.redo_horizon(), before);
}

#[test]
fn a_failed_home_write_leaves_the_page_dirty_and_can_be_tried_again() {
    let test = testing::pool(64, 9);
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, 3).unwrap();
    for block in 0..3 {
        init(&test.pool, page(block), 7).unwrap();
    }
    test.pool.wal().flush(test.pool.wal().end()).unwrap();
    let horizon = test.pool.redo_horizon();
    // The first write goes to the double-write area, the second one home.
    test.disk.fail_nth(OpKind::Write, 1, FaultKind::Io, Repeat::Forever);
    assert!(matches!(test.pool.write_back(Lsn(u64::MAX)), Err(Error::Io(_))));
    assert_eq!((test.pool.stats().dirty, test.pool.redo_horizon()), (3, horizon));
    test.disk.clear_faults();
    assert_eq!(test.pool.write_back(Lsn(u64::MAX)).unwrap(), 3);
    assert_eq!(test.pool.stats().dirty, 0);
}

/// A pool with a page of `FILE` whose home was half written before the write failed, and another
/// file, a page of which goes home as often as the returned closure is told.
fn torn_by_a_failure(seed: u64) -> (TestPool, impl Fn(&TestPool, u64) -> Result<()>) {
    let other = PageId::new(FileId(71), 0);
    let test = testing::pool(64, seed);
    filled(&test, 2);
    test.pool.create_file(other.file, true).unwrap();
    test.pool.extend(other.file, 1).unwrap();
    init(&test.pool, other, 0).unwrap();
    // The log has no images of the pages any more.
    checkpoint(&test.pool).unwrap();
    set(&test.pool, page(1), 7).unwrap();
    // The first write is the log's, the second one goes to the double-write area, the third home.
    test.disk.fail_nth(OpKind::Write, 2, FaultKind::TornWrite, Repeat::Once);
    assert!(matches!(test.pool.sync_file(FILE), Err(Error::Io(_))));
    let home: [u8; 8192] = test.disk.peek("data/00000046", 8192, 8192).try_into().unwrap();
    assert!(checksum::verify(page(1), &home).is_err(), "half of the page is there");
    let groups = move |test: &TestPool, count: u64| {
        (0..count).try_for_each(|round| {
            set(&test.pool, other, round)?;
            test.pool.sync_file(other.file)
        })
    };
    (test, groups)
}

/// Groups of other pages go home until every slot was used again: the page is not among them, and
/// its only whole copy was once overwritten.
fn a_home_torn_by_a_failed_write_is_mended() {
    let (test, groups) = torn_by_a_failure(18);
    for _ in 0..10 {
        groups(&test, 1).unwrap();
        let pending = test.disk.pending();
        for choice in pending.choices(3) {
            let (pool, _) = recover(&test.disk.crash_image(&choice)).unwrap();
            assert_eq!(get(&pool, page(1)).expect("a torn home is mended"), 7, "{choice:?}");
        }
    }
    let (pool, _) = recover(&test.disk.snapshot()).unwrap();
    assert_eq!(get(&pool, page(1)).expect("a torn home is mended"), 7);
    test.pool.flush_all().unwrap();
    assert_eq!(test.pool.stats().dirty, 0);
}

#[test]
fn a_torn_home_keeps_its_copy_until_it_is_mended() {
    a_home_torn_by_a_failed_write_is_mended();
    // As long as it cannot be mended, no slot is used again.
    let (test, groups) = torn_by_a_failure(19);
    test.disk.fail_writes_of("data/00000046", FaultKind::Io);
    for _ in 0..3 {
        assert!(matches!(groups(&test, 20), Err(Error::Io(_))));
        let (pool, _) = recover(&test.disk.snapshot()).unwrap();
        assert_eq!(get(&pool, page(1)).unwrap(), 7);
    }
    test.disk.clear_faults();
    groups(&test, 20).unwrap();
    // What is cut off needs no mending.
    let (test, groups) = torn_by_a_failure(20);
    test.pool.truncate(FILE, 1).unwrap();
    groups(&test, 20).unwrap();
    let files = test.disk.files();
    assert!(files.contains(&("data/00000046".into(), 8192)), "{files:?}");
}

/// Writes of a file that change nothing, and a file that is dead as a whole, stop no other file.
#[test]
fn a_dead_file_stops_no_other() {
    for dead in [false, true] {
        let (test, groups) = torn_by_a_failure(21);
        test.pool.flush_all().unwrap();
        set(&test.pool, page(1), 8).unwrap();
        test.disk.fail_writes_of("data/00000046", FaultKind::Io);
        if dead {
            test.disk.fail_reads_of("data/00000046", 0, 2 * 8192);
        }
        assert!(matches!(test.pool.sync_file(FILE), Err(Error::Io(_))));
        groups(&test, 20).unwrap();
        test.disk.clear_faults();
        let (pool, _) = recover(&test.disk.snapshot()).unwrap();
        assert_eq!(get(&pool, page(1)).unwrap(), 8);
    }
}

#[test]
fn a_failed_sync_poisons() {
    for nth in 0..2 {
        let test = testing::pool(64, 10);
        test.pool.create_file(FILE, true).unwrap();
        test.pool.extend(FILE, 3).unwrap();
        init(&test.pool, page(0), 7).unwrap();
        test.pool.wal().flush(test.pool.wal().end()).unwrap();
        // The first sync is the double-write area's, the second one the file's.
        test.disk.fail_nth(OpKind::Sync, nth, FaultKind::Io, Repeat::Once);
        assert!(matches!(test.pool.flush_all(), Err(Error::Poisoned(_))), "sync {nth}");
        assert!(matches!(test.pool.write_back(Lsn(u64::MAX)), Err(Error::Poisoned(_))));
        assert!(test.pool.wal().check().is_err());
        assert_eq!(get(&test.pool, page(0)).unwrap(), 7, "reads go on");
    }
}

/// A sync of the directory that fails may have given up the name of a file that another makes at
/// the same time, whose own sync then succeeds. Other calls that fail leave what was there.
#[test]
fn a_failed_sync_of_a_name_poisons() {
    const OTHER: FileId = FileId(71);
    let make = |pool: &BufferPool| pool.create_file(OTHER, true);
    let drop = |pool: &BufferPool| pool.drop_file(FILE);
    type Call = fn(&BufferPool) -> Result<()>;
    let calls: [(OpKind, Call, bool); 6] = [
        (OpKind::Open, make, false),
        (OpKind::SetLen, make, false),
        (OpKind::Sync, make, true),
        (OpKind::SyncDir, make, true),
        (OpKind::Remove, drop, false),
        (OpKind::SyncDir, drop, true),
    ];
    for (op, call, poisons) in calls {
        for kind in [FaultKind::Io, FaultKind::NoSpace].into_iter().filter(|k| k.fits(op)) {
            let test = testing::pool(64, 22);
            filled(&test, 1);
            test.disk.fail_nth(op, 0, kind, Repeat::Once);
            let failed = call(&test.pool);
            match poisons {
                true => assert!(matches!(failed, Err(Error::Poisoned(_))), "{op:?}: {failed:?}"),
                false => assert!(
                    matches!(failed, Err(Error::Io(_) | Error::DiskFull(_))),
                    "{op:?}: {failed:?}"
                ),
            }
            assert_eq!(test.pool.wal().check().is_err(), poisons, "{op:?} {kind:?}");
            if !poisons {
                call(&test.pool).unwrap();
            }
        }
    }
}

/// Write-back waits for the latch of a page that somebody changes; meanwhile the log fails, so that
/// he cannot log the change. The page's LSN is that of its last record: nothing else tells.
#[test]
fn a_change_that_could_not_be_logged_stays_in_memory() {
    let test = testing::pool(64, 14);
    filled(&test, 1);
    set(&test.pool, page(0), 1).unwrap();
    test.pool.flush_all().unwrap();
    set(&test.pool, page(0), 2).unwrap();
    test.pool.wal().flush(test.pool.wal().end()).unwrap();
    let started = Arc::new(Mutex::new(None));
    let (theirs, pool) = (Arc::clone(&started), Arc::clone(&test.pool));
    let hook = points::install_local(move |name| {
        if name == "buffer.mtr.before-append" {
            *theirs.lock() = Some(wait_for_the_latch(&pool));
            pool.wal().poison("a sync failed");
        }
    });
    assert!(matches!(set(&test.pool, page(0), 3), Err(Error::Poisoned(_))));
    drop(hook);
    let writer = started.lock().take().unwrap();
    let written = writer.join().unwrap();
    assert!(matches!(written, Err(Error::Poisoned(_))), "{written:?}");
    let home = test.disk.peek("data/00000046", 4096, 8);
    assert_eq!(home, 1u64.to_le_bytes(), "nothing was written");
}

/// Starts to write everything back; the pool was found sound, and a page is about to be latched.
fn wait_for_the_latch(pool: &Arc<BufferPool>) -> JoinHandle<Result<usize>> {
    let (arrived, theirs) = (Arc::new(AtomicBool::new(false)), Arc::clone(pool));
    let told = Arc::clone(&arrived);
    let writer = thread::spawn("writes back", move || {
        let _hook = points::install_local(move |name| {
            told.fetch_or(name == "buffer.writeback.before-copy", Ordering::SeqCst);
        });
        theirs.write_back(Lsn(u64::MAX))
    });
    while !arrived.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    writer
}

/// A block that was cut off, grown again and not formatted: old changes in the log leave it alone.
#[test]
fn redo_skips_changes_of_pages_that_were_cut_off() {
    let test = testing::pool(64, 12);
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, 4).unwrap();
    for block in 0..4 {
        init(&test.pool, page(block), 1).unwrap();
    }
    checkpoint(&test.pool).unwrap();
    set(&test.pool, page(3), 2).unwrap();
    set(&test.pool, page(2), 2).unwrap();
    test.pool.truncate(FILE, 3).unwrap();
    test.pool.extend(FILE, 1).unwrap();
    let (pool, _) = recover(&test.disk.snapshot()).unwrap();
    assert_eq!(get(&pool, page(2)).unwrap(), 2);
    let found = get(&pool, page(3));
    assert!(matches!(found, Ok(0) | Err(Error::Corruption { .. })), "{found:?}");
}

/// A file that was dropped after its records: redo makes it, so that its owner can remove it.
#[test]
fn redo_makes_missing_files() {
    let test = testing::pool(64, 13);
    test.pool.create_file(FILE, true).unwrap();
    test.pool.extend(FILE, 2).unwrap();
    init(&test.pool, page(1), 1).unwrap();
    set(&test.pool, page(1), 2).unwrap();
    test.pool.wal().flush(test.pool.wal().end()).unwrap();
    test.pool.drop_file(FILE).unwrap();
    let (pool, _) = recover(&test.disk.snapshot()).unwrap();
    assert_eq!(get(&pool, page(1)).unwrap(), 2);
    assert_eq!(pool.files_on_disk().unwrap(), [FILE]);
    pool.drop_file(FILE).unwrap();
    assert_eq!(pool.files_on_disk().unwrap(), []);
}

/// Each rule of write-back, broken, is caught by the test beside it.
#[test]
fn broken_write_back_is_caught() {
    let cases: [(Broken, &'static str, fn()); 9] = [
        (Broken::HomesNotSynced, "settled early", homes_settled_early_need_their_copies_no_more),
        (Broken::AnyValidCopyCounts, "older group", a_copy_left_by_an_older_group_does_not_count),
        (Broken::TornHomesNotRepaired, "failed write", a_home_torn_by_a_failed_write_is_mended),
        (
            Broken::UnloggedChangeWritten,
            "not logged",
            a_change_that_could_not_be_logged_stays_in_memory,
        ),
        (Broken::DataBeforeLog, "log first", no_page_reaches_the_disk_before_its_log),
        (Broken::NoDoubleWrite, "torn homes", torn_homes_are_healed_from_the_area),
        (
            Broken::DirtyPageWithoutRedo,
            "checkpoint",
            a_checkpoint_between_mark_and_append_loses_nothing,
        ),
        (Broken::ChangedPageMarkedClean, "hot page", a_hot_page_lets_the_redo_position_move),
        (Broken::DirtyFrameEvicted, "power cut", every_power_cut_is_recovered_from),
    ];
    for (rule, name, check) in cases {
        assert!(points::caught(rule, &[(name, check)]).is_some(), "no check noticed {rule}");
    }
}
