//! Panics in the middle of a change, and in completions of reads and writes: half a change is
//! neither seen nor written, and all who wait learn that what they wait for will not come.

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicUsize, Ordering};
use rightlink_env::{points, thread};

use super::{FILE, filled, get, page, set};
use crate::buffer::testing::{TestPool, pool};
use crate::buffer::{BufferPool, Mtr, data_file};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::wal::RecordKind;

/// The next time that this thread comes to `point` it panics.
fn panic_once(point: &'static str) -> points::InstalledLocal {
    panic_at_pass(point, 0)
}

/// As [`panic_once`], after `passes` times without a panic.
fn panic_at_pass(point: &'static str, passes: usize) -> points::InstalledLocal {
    let seen = AtomicUsize::new(0);
    points::install_local(move |name| {
        let at = name == point && seen.fetch_add(1, Ordering::SeqCst) == passes;
        assert!(!at, "on purpose");
    })
}

fn is_poisoned<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Poisoned(_)))
}

/// The value of a page in its file.
fn at_home(test: &TestPool, block: u32) -> u64 {
    let place = u64::from(block) * PAGE_SIZE as u64 + 4096;
    let bytes = test.disk.peek(&data_file::name(FILE), place, 8);
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Runs `change` of pages 1 and 2 on a thread that panics within it; afterwards neither can be
/// read, and what is in the file is what was there before.
fn change_that_panics(change: fn(&BufferPool)) {
    let test = pool(64, 41);
    filled(&test, 45);
    test.pool.flush_all().unwrap();
    let theirs = Arc::clone(&test.pool);
    assert!(thread::spawn("panics", move || change(&theirs)).join().is_err());
    for block in [1, 2] {
        assert!(is_poisoned(&test.pool.pin(page(block))), "block {block} is never seen");
        assert_eq!(at_home(&test, block), u64::from(block));
    }
    assert!(is_poisoned(&test.pool.flush_all()) && is_poisoned(&test.pool.wal().check()));
    assert_eq!((at_home(&test, 1), at_home(&test, 2)), (1, 2), "nothing was written");
    assert!(is_poisoned(&set(&test.pool, page(0), 7)));
    assert_eq!(get(&test.pool, page(44)).unwrap(), 44, "other pages can be read");
}

fn change_two(pool: &BufferPool) {
    let pins = [1, 2].map(|block| pool.pin(page(block)).unwrap());
    let mut mtr = Mtr::new(pool);
    for pin in pins {
        let held = mtr.latch(pin);
        mtr.page(held).put_u64(4096, 99);
    }
    mtr.commit(RecordKind::HeapUpdate, Xid(5)).unwrap();
}

/// Panics when the stores are made: before, within and after the making of the record in the log.
fn a_panic_within_commit_publishes_nothing() {
    change_that_panics(|pool| {
        let _hook = panic_once("buffer.mtr.before-append");
        change_two(pool);
    });
    change_that_panics(|pool| {
        let _hook = panic_once("wal.append.begun");
        change_two(pool);
    });
    change_that_panics(|pool| {
        let _hook = panic_once("buffer.mtr.after-append");
        change_two(pool);
    });
}

/// A record that is longer than any may be: a mistake of the caller that only `commit` can see.
fn a_record_too_long_publishes_nothing() {
    change_that_panics(|pool| {
        let pins: Vec<_> = (1..41).map(|block| pool.pin(page(block)).unwrap()).collect();
        let mut mtr = Mtr::new(pool);
        for pin in pins {
            let held = mtr.latch(pin);
            let image: Vec<u8> = (0..PAGE_SIZE).map(|at| (at * 7919 % 251) as u8 | 1).collect();
            mtr.page(held).replace(image[..].try_into().unwrap());
        }
        mtr.commit(RecordKind::HeapUpdate, Xid(5)).unwrap();
    });
}

#[test]
fn a_change_that_panics_while_it_is_committed_is_never_seen() {
    a_panic_within_commit_publishes_nothing();
    a_record_too_long_publishes_nothing();
    for check in [a_panic_within_commit_publishes_nothing, a_record_too_long_publishes_nothing] {
        let caught = points::caught(Broken::PanicPublishesChange, &[("commit", check)]);
        assert!(caught.is_some(), "broken, and no check noticed");
    }
}

#[test]
fn a_panic_in_the_completion_of_a_write_poisons() {
    let test = pool(64, 42);
    filled(&test, 20);
    test.pool.flush_all().unwrap();
    for block in [3, 9, 15] {
        set(&test.pool, page(block), 99).unwrap();
    }
    let hook = panic_once("buffer.writeback.complete");
    let flushed = test.pool.flush_all();
    assert!(matches!(&flushed, Err(Error::Poisoned(why)) if why.contains("on purpose")));
    drop(hook);
    assert!(is_poisoned(&test.pool.flush_all()) && is_poisoned(&set(&test.pool, page(1), 7)));
    for block in [3, 9, 15] {
        assert_eq!(get(&test.pool, page(block)).unwrap(), 99, "it is in memory and in the log");
    }
}

/// Neighbours come with one read, whose completion panics at the third of them: the first two are
/// there, the others never come, and whoever waits is told.
#[test]
fn a_panic_in_the_completion_of_a_read_poisons() {
    let test = pool(64, 43);
    filled(&test, 20);
    test.pool.evict_all().unwrap();
    let hook = panic_at_pass("buffer.read.page", 2);
    let mut pages: Vec<_> = (4..8).map(page).collect();
    assert_eq!(test.pool.read_ahead(&mut pages).reads, 1, "the four are read together");
    test.pool.drain_reads();
    drop(hook);
    assert_eq!((get(&test.pool, page(4)).unwrap(), get(&test.pool, page(5)).unwrap()), (4, 5));
    assert!(is_poisoned(&set(&test.pool, page(4), 7)) && is_poisoned(&test.pool.flush_all()));
    assert_eq!(get(&test.pool, page(6)).unwrap(), 6, "it is read again, into another frame");
    // As above, while a thread waits for the page.
    let _hook = panic_once("buffer.read.complete");
    let waited = get(&test.pool, page(12));
    assert!(matches!(&waited, Err(Error::Poisoned(why)) if why.contains("on purpose")));
}
