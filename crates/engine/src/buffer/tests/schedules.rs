//! Schedules of latches, pins, eviction, reads and write-back on a pool of a few pages.
//!
//! See `schedules` for how worlds are run. Pages come and go by `evict_all`, so that two of them
//! are enough.

use rightlink_aio::SimDisk;
use rightlink_env::Broken;
use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::thread::{self, JoinHandle};

use crate::buffer::latch::{Latch, Mode, Parking};
use crate::buffer::replacement::Attempt;
use crate::buffer::testing::{self, TestPool};
use crate::buffer::{BufferPool, Mtr};
use crate::config::PAGE_SIZE;
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::page::{checksum, header};
use crate::schedules::{Case, catches, catches_beside_panics, survives, survives_panics};
use crate::wal::RecordKind;

const FILE: FileId = FileId(64);
/// A writer, where readers count as one.
const WRITER: u64 = 100;
/// Two words of a page that always change together.
const LOW: usize = 64;
const HIGH: usize = 8000;

/// Block 0 as it is in the file.
fn home(disk: &SimDisk) -> Box<[u8; PAGE_SIZE]> {
    let bytes = disk.peek("data/00000040", 0, PAGE_SIZE).into_boxed_slice();
    bytes.try_into().expect("the file has a page")
}

fn page(block: u32) -> PageId {
    PageId::new(FILE, block)
}

/// A pool with a file of `pages` formatted pages, all on disk.
fn world(pages: u32) -> TestPool {
    let test = testing::pool(16, 1);
    test.pool.create_file(FILE, true).expect("an empty disk");
    test.pool.extend(FILE, pages).expect("space");
    for block in 0..pages {
        add(&test.pool, block, 0);
    }
    test.pool.flush_all().expect("a sound disk");
    test
}

/// Adds to both words, and lets others run in between.
fn add(pool: &BufferPool, block: u32, amount: u64) {
    let pin = pool.pin(page(block)).expect("a sound disk");
    let mut mtr = Mtr::new(pool);
    let held = mtr.latch(pin);
    let value = header::u64_at(mtr.bytes(held), LOW) + amount;
    mtr.page(held).put_u64(LOW, value);
    thread::yield_now();
    mtr.page(held).put_u64(HIGH, value);
    mtr.commit(RecordKind::HeapUpdate, Xid(9)).expect("space");
}

/// The value, read under the shared latch and, when that works, without.
fn read(pool: &BufferPool, block: u32) -> u64 {
    let pin = pool.pin(page(block)).expect("a sound disk");
    assert_eq!(pin.page(), page(block), "the pin keeps the page");
    let loose = pin.optimistic(|view| {
        let low = view.word(LOW / 8);
        thread::yield_now();
        (low, view.word(HIGH / 8))
    });
    if let Some((low, high)) = loose {
        assert_eq!(low, high, "R11: what validates is one state");
    }
    let latch = pin.shared();
    let low = header::u64_at(latch.bytes(), LOW);
    thread::yield_now();
    assert_eq!(low, header::u64_at(latch.bytes(), HIGH), "no thread stores under a shared latch");
    low
}

fn start<T: Send + 'static>(
    test: &TestPool,
    work: impl FnOnce(&BufferPool) -> T + Send + 'static,
) -> JoinHandle<T> {
    let pool = Arc::clone(&test.pool);
    thread::spawn("explores", move || work(&pool))
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    // All are started before the first is waited for.
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

/// Two writers and two readers of one page.
fn latches() {
    let test = world(1);
    let pin = test.pool.pin(page(0)).expect("a sound disk");
    let writer = || start(&test, |pool| (0..2).for_each(|_| add(pool, 0, 1)));
    let reader = || start(&test, |pool| assert!(read(pool, 0) <= read(pool, 0)));
    join([writer(), reader(), writer(), reader()]);
    drop(pin);
    assert_eq!(read(&test.pool, 0), 4, "no change is lost");
}

/// A latch that is held exclusively has one holder.
fn latch_modes() {
    let shared = Arc::new((Latch::default(), Parking::default(), AtomicU64::new(0)));
    let take = |mode, mark| {
        let shared = Arc::clone(&shared);
        thread::spawn("latches", move || {
            for _ in 0..2 {
                shared.0.take(mode, &shared.1);
                let others = shared.2.fetch_add(mark, Ordering::SeqCst);
                let alone = mode == Mode::Shared && others < WRITER || others == 0;
                assert!(alone, "{mode:?} beside {others}");
                shared.2.fetch_sub(mark, Ordering::SeqCst);
                shared.0.release(mode, &shared.1);
            }
        })
    };
    let (reader, writer) = (|| take(Mode::Shared, 1), || take(Mode::Exclusive, WRITER));
    join([reader(), writer(), reader(), writer()]);
}

/// Changes of pages that leave memory all the time.
fn pages_come_and_go() {
    let test = world(2);
    let cold = || test.pool.evict_all().expect("a sound disk");
    cold();
    let writer = |block| {
        start(&test, move |pool| {
            add(pool, block, 1);
            add(pool, 1 - block, 1);
        })
    };
    let evictor = start(&test, |pool| {
        for _ in 0..2 {
            pool.evict_all().expect("a sound disk");
        }
    });
    join([writer(0), writer(1), evictor]);
    cold();
    assert_eq!((read(&test.pool, 0), read(&test.pool, 1)), (2, 2), "no change is lost");
}

/// Frames are emptied while other threads fill them: no frame is taken from its next page. This
/// happened when an empty frame was filled between the look at its tag and the claim. The tag still
/// named the old page, and the new page stayed in the page table.
fn frames_change_hands() {
    let test = world(4);
    test.pool.evict_all().expect("a sound disk");
    let reader = start(&test, |pool| {
        for block in [0, 1, 2, 3] {
            drop(pool.pin(page(block)).expect("a sound disk"));
        }
    });
    let evictor = start(&test, |pool| {
        let core = &pool.core;
        let taken =
            |index: &u32| core.try_evict(core.arena.frame(*index), *index) == Attempt::Taken;
        let gone: Vec<u32> = (0..4).filter(taken).collect();
        core.replacement.lock().forget(&gone);
    });
    join([reader, evictor]);
}

/// A thread that takes a frame waits for the readers without pins that peeked at it (R11).
fn peeks() {
    let test = world(1);
    let inside = Arc::new(AtomicU64::new(0));
    let (mark, pool) = (Arc::clone(&inside), Arc::clone(&test.pool));
    let reader = thread::spawn("peeks", move || {
        for _ in 0..3 {
            let reading = pool.reading();
            let Some(peek) = reading.peek(page(0)) else { continue };
            mark.store(1, Ordering::SeqCst);
            let (low, high) = (reading.view(peek).word(LOW / 8), reading.view(peek).word(HIGH / 8));
            assert!(!reading.unchanged(peek) || low == high, "R11: what validates is one state");
            mark.store(0, Ordering::SeqCst);
        }
    });
    let taker = start(&test, move |pool| {
        let core = &pool.core;
        let frame = |index: &u32| core.arena.frame(*index).tag() == page(0);
        let index = (0..16).find(frame).expect("the page is in memory");
        if core.try_evict(core.arena.frame(index), index) == Attempt::Taken {
            assert_eq!(inside.load(Ordering::SeqCst), 0, "R11: none reads a taken frame");
            core.replacement.lock().forget(&[index]);
        }
    });
    reader.join().expect("no panic");
    taker.join().expect("no panic");
}

/// A reader without pins finds a page whose read is failing, and pins it, beside somebody who takes
/// a frame that was peeked at under the lock of the replacement and waits for the reader: so the
/// reader must not want that lock, not even to give back the last pin of the failed read.
fn announced_readers_take_no_lock() {
    let test = world(2);
    test.pool.evict_all().expect("a sound disk");
    read(&test.pool, 0);
    test.disk.fail_reads_of("data/00000040", PAGE_SIZE as u64, PAGE_SIZE as u64);
    let misser = start(&test, |pool| assert!(pool.pin(page(1)).is_err(), "it cannot be read"));
    let reader = start(&test, |pool| {
        for _ in 0..3 {
            let reading = pool.reading();
            let peek = reading.peek(page(0));
            assert!(reading.pin(page(1)).is_none(), "it is not there");
            drop((peek, reading));
        }
    });
    let taker = start(&test, |pool| {
        let core = &pool.core;
        let frame = |index: &u32| core.arena.frame(*index).tag() == page(0);
        let index = (0..16).find(frame).expect("the page is in memory");
        let mut replacement = core.replacement.lock();
        if core.try_evict(core.arena.frame(index), index) == Attempt::Taken {
            replacement.forget(&[index]);
        }
    });
    misser.join().expect("no panic");
    reader.join().expect("no panic");
    taker.join().expect("no panic");
}

/// A completion of a read or a write panics: whoever waits for it learns that, and nobody waits for
/// ever.
fn completions_panic() {
    let test = world(2);
    test.pool.evict_all().expect("a sound disk");
    add(&test.pool, 0, 1);
    let left = Arc::new(AtomicU64::new(2));
    let _panics = points::install_local(move |name| {
        let once = name == "buffer.read.page" || name == "buffer.writeback.complete";
        assert!(!once || left.swap(0, Ordering::SeqCst) == 0, "on purpose");
    });
    let reader = || start(&test, |pool| pool.pin(page(1)).is_err());
    let writer = start(&test, |pool| pool.flush_all().is_err());
    let [first, second, writer] = join([reader(), reader(), writer])[..] else { unreachable!() };
    assert!(first || second || writer, "a thread waited for it");
    assert!(test.pool.wal().check().is_err(), "poisoned");
    let again = test.pool.pin(page(1)).expect("a later pin reads again");
    assert_eq!(header::u64_at(again.shared().bytes(), LOW), 0);
}

/// One read serves all threads that miss a page.
fn one_read_of_a_missing_page() {
    let test = world(1);
    test.pool.evict_all().expect("a sound disk");
    let before = test.pool.stats().reads;
    join((0..3).map(|_| start(&test, |pool| add(pool, 0, 1))));
    assert_eq!(test.pool.stats().reads - before, 1, "one read");
    assert_eq!(read(&test.pool, 0), 3, "all changed the same frame");
}

/// Hints are set while the page is written; what reaches the disk has the right checksum (R2).
fn hints_beside_write_back() {
    let test = world(1);
    let hinter = start(&test, |pool| {
        let pin = pool.pin(page(0)).expect("a sound disk");
        for n in 1..4u8 {
            pin.hint(None, |page| {
                page.write_unlogged(LOW, &[n; 8]);
                thread::yield_now();
                page.write_unlogged(HIGH, &[n; 8]);
            });
        }
    });
    let disk = test.disk.clone();
    let writer = start(&test, move |pool| {
        for _ in 0..2 {
            pool.flush_all().expect("a sound disk");
            let home = home(&disk);
            checksum::verify(page(0), &home).expect("what is written is what was checksummed");
        }
    });
    join([hinter, writer]);
}

/// No page reaches its file before the log that made it (and redo starts early enough).
fn log_before_data() {
    let test = world(1);
    let begin = test.pool.wal().end();
    let writer = start(&test, |pool| add(pool, 0, 1));
    let horizon = start(&test, move |pool| {
        assert!(pool.redo_horizon() <= begin, "redo begins before what is only in memory");
    });
    join([writer, horizon]);
    assert!(test.pool.redo_horizon() <= begin, "nothing was written back since");
    let writer = start(&test, |pool| add(pool, 0, 1));
    let disk = test.disk.clone();
    let back = start(&test, move |pool| {
        pool.write_back(Lsn(u64::MAX)).expect("a sound disk");
        let durable = pool.wal().durable();
        assert!(header::lsn(&home(&disk)) <= durable, "the log is durable before the page");
    });
    join([writer, back]);
}

#[test]
fn latches_exclude_each_other() {
    survives("latches", latches, 600);
    survives("latch modes", latch_modes, 2000);
    survives("peeks", peeks, 1000);
    survives("announced readers", announced_readers_take_no_lock, 1000);
}

#[test]
fn changes_survive_eviction() {
    survives("pages come and go", pages_come_and_go, 400);
    survives("frames change hands", frames_change_hands, 1000);
}

#[test]
fn a_missing_page_is_read_once() {
    survives("one read", one_read_of_a_missing_page, 400);
}

#[test]
fn a_panic_in_a_completion_leaves_nobody_waiting() {
    survives_panics("completions panic", completions_panic, 400);
}

#[test]
fn broken_handling_of_panics_is_caught() {
    catches_beside_panics(&[
        Case { rule: Broken::PanickedReadNotReported, world: completions_panic, within: 400 },
        Case { rule: Broken::PanickedWriteNotCounted, world: completions_panic, within: 400 },
    ]);
}

#[test]
fn write_back_does_not_race_hints() {
    survives("hints beside write-back", hints_beside_write_back, 400);
}

#[test]
fn the_log_comes_first() {
    survives("log before data", log_before_data, 400);
}

#[test]
fn broken_pools_are_caught() {
    catches(&[
        Case { rule: Broken::OptimisticReadNotValidated, world: latches, within: 600 },
        Case { rule: Broken::FrameTakenFromReaders, world: peeks, within: 2000 },
        Case {
            rule: Broken::AnnouncedReaderLocks,
            world: announced_readers_take_no_lock,
            within: 2000,
        },
        Case { rule: Broken::ExclusiveLatchBesideReaders, world: latch_modes, within: 1000 },
        Case { rule: Broken::LatchWakeupLost, world: latch_modes, within: 1000 },
        Case { rule: Broken::PinnedFrameEvicted, world: pages_come_and_go, within: 400 },
        Case { rule: Broken::DirtyFrameEvicted, world: pages_come_and_go, within: 400 },
        Case { rule: Broken::StaleTagEvicted, world: frames_change_hands, within: 2000 },
        Case { rule: Broken::ChangedPageMarkedClean, world: pages_come_and_go, within: 400 },
        Case {
            rule: Broken::PageReadIntoTwoFrames,
            world: one_read_of_a_missing_page,
            within: 400,
        },
        Case {
            rule: Broken::PageCopiedAfterChecksum,
            world: hints_beside_write_back,
            within: 2000,
        },
        Case { rule: Broken::DataBeforeLog, world: log_before_data, within: 400 },
        Case { rule: Broken::DirtyPageWithoutRedo, world: log_before_data, within: 2000 },
    ]);
}
