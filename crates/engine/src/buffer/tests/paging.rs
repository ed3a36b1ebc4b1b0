//! Pages in and out of memory, by one thread and by many.

use rightlink_aio::OpenMode;
use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::{Rng, points, thread};

use super::{FILE, filled, get, init, page, set};
use crate::buffer::data_file;
use crate::buffer::testing::{TestPool, pool};
use crate::buffer::{BufferPool, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::page::PageKind;
use crate::page::header::{self, HEADER_SIZE};
use crate::wal::RecordKind;

#[test]
fn pages_leave_a_small_pool_and_come_back() {
    let test = pool(16, 1);
    filled(&test, 200);
    assert_eq!(test.pool.blocks(FILE), 200);
    for block in (0..200).rev() {
        assert_eq!(get(&test.pool, page(block)).unwrap(), u64::from(block));
        set(&test.pool, page(block), u64::from(block) + 1000).unwrap();
    }
    for block in 0..200 {
        assert_eq!(get(&test.pool, page(block)).unwrap(), u64::from(block) + 1000);
    }
    let stats = test.pool.stats();
    assert!(stats.evictions > 300 && stats.written > 300, "{stats:?}");
    assert!(stats.double_write_bytes > 300 * 8192, "{stats:?}");
}

/// A scan over twenty times the pool leaves the pages in memory that are used again and again; with
/// the least recently used page leaving first, none of them would stay.
#[test]
fn a_scan_does_not_drive_out_what_is_used_often() {
    const HOT: u32 = 40;
    let test = pool(100, 21);
    filled(&test, 2100);
    test.pool.evict_all().unwrap();
    for _ in 0..4 {
        (0..HOT).for_each(|block| assert_eq!(get(&test.pool, page(block)).unwrap(), block.into()));
    }
    for block in HOT..2100 {
        assert_eq!(get(&test.pool, page(block)).unwrap(), u64::from(block));
    }
    let before = test.pool.stats().reads;
    (0..HOT).for_each(|block| assert_eq!(get(&test.pool, page(block)).unwrap(), block.into()));
    let lost = test.pool.stats().reads - before;
    assert!(lost <= u64::from(HOT) / 10, "{lost} of {HOT} pages had to be read again");
}

/// Where a thread cleans ahead, no other that needs a frame has to write first.
#[test]
fn cleaning_ahead_spares_whoever_needs_a_frame() {
    let foreground = |ahead: bool| {
        let test = pool(256, 22);
        filled(&test, 1000);
        test.pool.flush_all().unwrap();
        let before = test.pool.stats();
        for block in 0..1000 {
            set(&test.pool, page(block), 7).unwrap();
            while ahead && test.pool.clean_ahead().unwrap() > 0 {}
        }
        let stats = test.pool.stats();
        assert!(stats.evictions - before.evictions > 700, "{stats:?}");
        stats.foreground_groups - before.foreground_groups
    };
    assert_eq!(foreground(true), 0);
    assert!(foreground(false) > 3);
}

#[test]
fn a_page_beyond_the_end_is_an_error_and_a_grown_one_is_zero() {
    let test = pool(16, 2);
    test.pool.create_file(FILE, true).unwrap();
    assert!(matches!(test.pool.pin(page(0)), Err(Error::Corruption { block: Some(0), .. })));
    test.pool.extend(FILE, 3).unwrap();
    let pin = test.pool.pin(page(2)).unwrap();
    assert!(header::is_zero(pin.shared().bytes()));
    assert!(test.pool.pin(page(3)).is_err());
}

#[test]
fn every_frame_pinned_is_a_typed_error_and_passes() {
    let test = pool(16, 3);
    filled(&test, 20);
    let pins: Vec<Pin> = (0..16).map(|block| test.pool.pin(page(block)).unwrap()).collect();
    assert!(matches!(test.pool.pin(page(17)), Err(Error::OutOfMemory(_))));
    assert!(test.pool.try_pin(page(17)).is_none() && test.pool.try_pin(page(3)).is_some());
    drop(pins);
    assert_eq!(get(&test.pool, page(17)).unwrap(), 17);
}

#[test]
fn a_pin_outlives_the_pool() {
    let test = pool(16, 4);
    filled(&test, 2);
    let pin = test.pool.pin(page(1)).unwrap();
    drop(test);
    assert_eq!(header::u64_at(pin.shared().bytes(), 4096), 1);
}

/// Many threads move amounts between pages of a pool that holds a tenth of them: the sum stays.
#[test]
fn threads_share_a_small_pool() {
    const PAGES: u32 = 160;
    let test = pool(24, 5);
    filled(&test, PAGES);
    let expected: u64 = (0..u64::from(PAGES)).sum();
    let moved = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (pool, moved) = (Arc::clone(&test.pool), Arc::clone(&moved));
            thread::spawn("mover", move || {
                let mut rng = Rng::from_seed(seed);
                for _ in 0..1500 {
                    let (a, b) =
                        (rng.below(u64::from(PAGES)) as u32, rng.below(u64::from(PAGES)) as u32);
                    if a == b {
                        continue;
                    }
                    let (a, b) = (a.min(b), a.max(b));
                    let pins = (pool.pin(page(a)).unwrap(), pool.pin(page(b)).unwrap());
                    let mut mtr = Mtr::new(&pool);
                    let (from, to) = (mtr.latch(pins.0), mtr.latch(pins.1));
                    let have = header::u64_at(mtr.bytes(from), 4096);
                    let amount = rng.below(3).min(have);
                    let sum = header::u64_at(mtr.bytes(to), 4096) + amount;
                    mtr.page(from).put_u64(4096, have - amount);
                    mtr.page(to).put_u64(4096, sum);
                    mtr.commit(RecordKind::HeapUpdate, Xid(9)).unwrap();
                    moved.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let sum: u64 = (0..PAGES).map(|block| get(&test.pool, page(block)).unwrap()).sum();
    assert_eq!(sum, expected);
    assert!(moved.load(Ordering::Relaxed) > 5000);
    test.pool.flush_all().unwrap();
    assert_eq!(test.pool.stats().dirty, 0);
    assert_eq!(test.pool.redo_horizon(), test.pool.wal().end());
}

#[test]
fn a_failed_read_reaches_every_waiter_and_a_later_pin_reads_again() {
    let test = pool(16, 6);
    filled(&test, 60);
    test.pool.flush_all().unwrap();
    assert!(test.pool.try_pin(page(1)).is_none());
    test.disk.fail_nth(OpKind::Read, 0, FaultKind::Io, Repeat::Forever);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let pool = Arc::clone(&test.pool);
            thread::spawn("reader", move || pool.pin(page(1)).map(|_| ()))
        })
        .collect();
    for thread in threads {
        assert!(matches!(thread.join().unwrap(), Err(Error::Io(_))));
    }
    test.disk.clear_faults();
    assert_eq!(get(&test.pool, page(1)).unwrap(), 1);
    assert!(test.pool.stats().read_errors >= 1);
    // No frame was lost on the way.
    let pins: Vec<Pin> = (0..16).map(|block| test.pool.pin(page(block)).unwrap()).collect();
    assert_eq!(pins.len(), 16);
}

/// Whoever waits for a page in a read that fails because of another page of it reads again, also if
/// it then waits for another such read: only its own read tells.
#[test]
fn a_page_is_spared_the_failures_of_its_neighbours_however_often() {
    let test = pool(64, 23);
    filled(&test, 60);
    test.pool.evict_all().unwrap();
    let (pool, disk) = (Arc::clone(&test.pool), test.disk.clone());
    let together = move || {
        disk.clear_faults();
        disk.fail_nth(OpKind::Read, 0, FaultKind::Io, Repeat::Once);
        let started = pool.read_ahead(&mut vec![page(10), page(11), page(12)]);
        assert_eq!((started.reads, started.joined), (1, 2));
    };
    together();
    let times = Arc::new(AtomicU64::new(1));
    let counted = Arc::clone(&times);
    let hook = points::install_local(move |name| {
        if name == "buffer.pin.again" && counted.fetch_add(1, Ordering::Relaxed) < 4 {
            together();
        }
    });
    assert_eq!(get(&test.pool, page(11)).unwrap(), 11);
    drop(hook);
    assert_eq!(times.load(Ordering::Relaxed), 5, "four reads failed");
    assert_eq!(test.pool.stats().read_errors, 12);
    for block in 0..60 {
        assert_eq!(get(&test.pool, page(block)).unwrap(), u64::from(block));
    }
}

#[test]
fn a_damaged_page_is_named_and_the_others_go_on() {
    let test = pool(16, 7);
    filled(&test, 60);
    test.pool.flush_all().unwrap();
    test.disk.flip_bit("data/00000046", 8192 + 100, 3);
    let Err(Error::Corruption { file, block, what, .. }) = test.pool.pin(page(1)) else {
        panic!("a flipped bit is corruption");
    };
    assert_eq!((file.as_str(), block), ("data/00000046", Some(1)));
    assert!(what.contains("checksum is") && what.contains("the bytes give"), "{what}");
    assert_eq!(get(&test.pool, page(2)).unwrap(), 2);
}

#[test]
fn hints_need_the_version_and_reach_the_file_without_a_record() {
    let test = pool(16, 8);
    filled(&test, 40);
    let pin = test.pool.pin(page(3)).unwrap();
    let version = pin.version();
    let end = test.pool.wal().end();
    assert!(pin.hint(Some(version), |page| page.write_unlogged(5000, &[7])));
    assert!(!pin.hint(Some(version), |_| panic!("the page has changed")), "the hint changed it");
    let held = pin.shared();
    assert!(!pin.hint(None, |_| panic!("the latch is held")));
    drop(held);
    assert_eq!(test.pool.wal().end(), end, "a hint is not logged");
    drop(pin);
    test.pool.evict_all().unwrap();
    assert!(test.pool.try_pin(page(3)).is_none(), "the page has left memory");
    assert_eq!(test.pool.pin(page(3)).unwrap().shared().bytes()[5000], 7);
}

#[test]
fn versions_differ_after_a_page_was_gone() {
    let test = pool(16, 9);
    filled(&test, 60);
    let mut seen = Vec::new();
    for round in 0..5 {
        let version = test.pool.pin(page(0)).unwrap().version();
        assert!(!seen.contains(&version), "round {round}");
        seen.push(version);
        assert!(test.pool.evict_all().unwrap() > 0);
    }
}

#[test]
fn unlogged_files_write_no_log() {
    let test = pool(16, 10);
    test.pool.create_file(FILE, false).unwrap();
    test.pool.extend(FILE, 40).unwrap();
    let end = test.pool.wal().end();
    for block in 0..40 {
        assert_eq!(init(&test.pool, page(block), 3).unwrap(), Lsn(0));
    }
    assert_eq!(get(&test.pool, page(0)).unwrap(), 3);
    assert_eq!(test.pool.wal().end(), end);
    assert_eq!(test.pool.stats().double_write_bytes, 0);
}

#[test]
fn truncate_and_drop_forget_pages() {
    let test = pool(64, 11);
    filled(&test, 40);
    test.pool.truncate(FILE, 10).unwrap();
    assert_eq!(test.pool.blocks(FILE), 10);
    assert!(test.pool.pin(page(10)).is_err());
    assert_eq!(test.pool.extend(FILE, 5).unwrap().0, 10);
    assert!(header::is_zero(test.pool.pin(page(12)).unwrap().shared().bytes()));
    test.pool.drop_file(FILE).unwrap();
    assert_eq!(test.pool.stats().dirty, 0);
    assert!(test.pool.files_on_disk().unwrap().is_empty() && !test.pool.is_open(FILE));
    filled(&test, 64);
    assert_eq!(get(&test.pool, page(20)).unwrap(), 20);
}

#[test]
fn optimistic_reads_see_no_mixture() {
    let test = pool(16, 12);
    filled(&test, 2);
    set(&test.pool, page(1), 0).unwrap();
    let pool = Arc::clone(&test.pool);
    let writer = thread::spawn("writer", move || {
        for value in 1..3000 {
            set(&pool, page(1), value).unwrap();
        }
    });
    let pin = test.pool.pin(page(1)).unwrap();
    let (mut seen, mut last) = (0, 0);
    while last < 2999 {
        let read = pin.optimistic(|view| (view.word(512), view.word(1000)));
        if let Some((low, high)) = read {
            assert_eq!(low, high);
            assert!(low >= last);
            (seen, last) = (seen + 1, low);
        }
    }
    writer.join().unwrap();
    assert!(seen > 0);
}

/// A writer between two loads of an optimistic read (here the same thread, so it is certain to come
/// by): the read must not count.
#[test]
fn an_optimistic_read_that_met_a_writer_does_not_count() {
    let test = pool(16, 14);
    filled(&test, 2);
    set(&test.pool, page(1), 1).unwrap();
    let pin = test.pool.pin(page(1)).unwrap();
    let mixed = pin.optimistic(|view| {
        let low = view.word(512);
        set(&test.pool, page(1), 2).unwrap();
        (low, view.word(1000))
    });
    assert_eq!(mixed, None);
    assert_eq!(pin.optimistic(|view| (view.word(512), view.word(1000))), Some((2, 2)));
}

#[test]
fn a_panic_between_stores_poisons_and_hides_the_page() {
    let test = pool(16, 13);
    filled(&test, 2);
    let pool = Arc::clone(&test.pool);
    let failed = thread::spawn("panics", move || {
        let mut mtr = Mtr::new(&pool);
        let held = mtr.latch(pool.pin(page(1)).unwrap());
        mtr.page(held).put_u64(4096, 99);
        panic!("on purpose");
    });
    assert!(failed.join().is_err());
    assert!(matches!(test.pool.pin(page(1)), Err(Error::Poisoned(_))));
    assert!(matches!(set(&test.pool, page(0), 1), Err(Error::Poisoned(_))));
    assert!(test.pool.write_back(Lsn(u64::MAX)).is_err());
    assert_eq!(get(&test.pool, page(0)).unwrap(), 1, "a change in memory that failed to be logged");
}

/// Stores `value` in both pages, in one long record.
fn set_both(pool: &BufferPool, value: u64) -> Result<Lsn> {
    let pins = (pool.pin(page(0))?, pool.pin(page(1))?);
    let mut mtr = Mtr::new(pool);
    for pin in [pins.0, pins.1] {
        let held = mtr.latch(pin);
        let mut image = Box::new([value as u8 | 1; PAGE_SIZE]);
        image[..HEADER_SIZE].copy_from_slice(&header::format(PageKind::Heap, 0)[..HEADER_SIZE]);
        image[4096..4104].copy_from_slice(&value.to_le_bytes());
        mtr.page(held).replace(&image);
    }
    mtr.commit(RecordKind::HeapUpdate, Xid(5))
}

/// The log has no room for a record and the disk none for a segment: the pages are as they were,
/// nothing is poisoned, and when there is space work goes on.
#[test]
fn a_record_without_room_takes_its_stores_back() {
    let test = pool(16, 31);
    filled(&test, 2);
    test.disk.capacity(test.disk.allocated());
    let (done, refused) = change_until_refused(&test);
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    assert!(done > 60, "a segment and more was used: {done}");
    let lsn = |block| header::lsn(test.pool.pin(page(block)).unwrap().shared().bytes());
    let before = (lsn(0), lsn(1));
    for _ in 0..3 {
        assert!(matches!(set_both(&test.pool, 7777), Err(Error::DiskFull(_))));
        for block in 0..2 {
            assert_eq!(get(&test.pool, page(block)).unwrap(), done + 1);
        }
    }
    assert_eq!((lsn(0), lsn(1)), before);
    test.pool.wal().check().expect("the log is sound");
    test.pool.flush_all().expect("a checkpoint needs no new space");
    test.disk.capacity(1 << 30);
    set_both(&test.pool, 8888).expect("there is space");
    test.pool.evict_all().unwrap();
    assert_eq!(get(&test.pool, page(1)).unwrap(), 8888);
}

/// Changes both pages until that is refused: how often that went well, and why it did not.
fn change_until_refused(test: &TestPool) -> (u64, Error) {
    let mut done = 0;
    loop {
        match set_both(&test.pool, 2 + done) {
            Ok(_) => done += 1,
            Err(error) => return (done, error),
        }
    }
}

/// The pages that leave next are all of a file that cannot be written, more of them than a search
/// for a frame looks at: other files are read and written all the same. Every miss once failed.
#[test]
fn an_unwritable_file_stops_nobody_else() {
    const OTHER: FileId = FileId(71);
    let other = |block| PageId::new(OTHER, block);
    for kind in [FaultKind::Io, FaultKind::NoSpace] {
        let test = pool(600, 32);
        test.pool.create_file(OTHER, true).unwrap();
        test.pool.extend(OTHER, 900).unwrap();
        for block in 0..900 {
            init(&test.pool, other(block), u64::from(block)).unwrap();
        }
        test.pool.flush_all().unwrap();
        test.pool.evict_all().unwrap();
        filled(&test, 300);
        test.disk.fail_writes_of(&data_file::name(FILE), kind);
        for block in (0..900).chain(0..900) {
            assert_eq!(get(&test.pool, other(block)).unwrap(), u64::from(block), "{kind:?}");
        }
        for block in 0..900 {
            set(&test.pool, other(block), u64::from(block) + 5000).unwrap();
        }
        for block in 0..900 {
            assert_eq!(get(&test.pool, other(block)).unwrap(), u64::from(block) + 5000);
        }
        assert!(test.pool.flush_all().is_err(), "{kind:?}: a checkpoint would not end");
        test.disk.clear_faults();
        test.pool.flush_all().unwrap();
        test.pool.evict_all().unwrap();
        (0..300).for_each(|at| assert_eq!(get(&test.pool, page(at)).unwrap(), u64::from(at)));
    }
}

/// A file is opened by somebody who knew it from before, as a backup does, while it is dropped: it
/// does not stay open, whichever of the two is in the middle of it when the other comes.
#[test]
fn a_file_that_is_opened_while_it_is_dropped_does_not_stay_open() {
    let test = pool(16, 3);
    let gone = || {
        assert!(!test.io.exists(&FILE.path()).unwrap() && !test.pool.is_open(FILE));
        assert_eq!(test.pool.logged_files(), []);
    };
    test.pool.create_file(FILE, true).unwrap();
    let other = Arc::clone(&test.pool);
    let hook = points::install_local(move |name: &'static str| {
        if name == "buffer.file-closed" {
            other.open_file(FILE, true).unwrap();
        }
    });
    test.pool.drop_file(FILE).unwrap();
    drop(hook);
    gone();
    // It is there, and not open yet.
    drop(test.io.open_file(&FILE.path(), OpenMode::Create).unwrap());
    let other = Arc::clone(&test.pool);
    let hook = points::install_local(move |name: &'static str| {
        if name == "buffer.file-opened" {
            other.drop_file(FILE).unwrap();
        }
    });
    let opened = test.pool.open_file(FILE, true);
    assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
    drop(hook);
    gone();
}
