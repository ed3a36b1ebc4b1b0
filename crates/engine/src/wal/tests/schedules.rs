//! Schedules of the log: insertion, group flush, a sync that fails. See `schedules` for how worlds
//! are run: `cargo test -p rightlink --features shuttle --lib wal::tests::schedules`.
//!
//! A power cut is simulated when each flush returns: the flushed records must be there.
//! The checker itself reports a follower that is never woken.

use rightlink_aio::sim::{CrashChoice, FaultKind, OpKind, Repeat};
use rightlink_aio::{Io, IoOptions, Method, SimDisk};
use rightlink_env::Broken;
use rightlink_env::sync::Arc;
use rightlink_env::{Env, thread};

use crate::ids::{FileId, PageId};
use crate::schedules::{Case, catches, survives};
use crate::wal::*;

const RUNS: usize = 300;
const THREADS: u64 = 3;
const EACH: u64 = 3;

fn control() -> Control {
    let (redo, durable, next_xid) = (Lsn(0), Lsn(0), Xid::FIRST);
    Control {
        database: 7,
        redo,
        next_xid,
        oldest_xid: Xid::FIRST,
        next_file: 64,
        durable,
        clean: false,
        redo_speed: RedoSpeed::default(),
        device: Default::default(),
        outcomes: 0,
    }
}

fn open(disk: &SimDisk) -> Io {
    let options = IoOptions::with_method(Method::Sync);
    Io::simulated(&Env::simulated(1), disk.clone(), options).expect("a simulation opens")
}

fn create(disk: &SimDisk) -> Arc<Wal> {
    let options = WalOptions { segment_bytes: 64 << 10, buffer_bytes: 0, max_bytes: 1 << 20 };
    Arc::new(Wal::create(&Env::simulated(1), &open(disk), options, &control()).expect("creates"))
}

/// The xids of the log that a power cut now would leave.
fn left(disk: &SimDisk) -> Vec<u64> {
    let cut = open(&disk.crash_image(&CrashChoice::AllLost));
    let mut reader = Reader::open(&Env::simulated(1), &cut, Lsn(0)).expect("opens");
    let mut found = Vec::new();
    while let Some(record) = reader.next().expect("a clean end") {
        found.push(record.xid.0);
    }
    found
}

/// Appends and flushes; returns the xids whose flush returned.
fn commit(wal: &Wal, disk: &SimDisk, thread: u64) -> Vec<u64> {
    let mut done = Vec::new();
    for n in 0..EACH {
        let (xid, delta) = (thread * EACH + n, vec![thread as u8; 3000]);
        let part = PagePart { page: PageId::new(FileId(1), 1), delta: &delta };
        let end = wal.append(RecordKind::Commit, Xid(xid), &[part]);
        match end.and_then(|end| wal.flush(end).map(|()| end)) {
            Ok(end) => {
                assert!(wal.durable() >= end, "flush returns when it is durable");
                assert!(left(disk).contains(&xid), "what is called durable is on the disk");
                done.push(xid);
            }
            Err(error) => assert!(matches!(error, Error::Poisoned(_)), "{error}"),
        }
    }
    done
}

/// Runs the threads and returns what was acknowledged and what a power cut leaves.
fn run(fault: bool) -> (Vec<u64>, Vec<u64>) {
    let disk = SimDisk::new(1);
    let wal = create(&disk);
    if fault {
        disk.fail_nth(OpKind::Sync, 2, FaultKind::Io, Repeat::Once);
    }
    let start = |n| {
        let (wal, disk) = (Arc::clone(&wal), disk.clone());
        thread::spawn("commits", move || commit(&wal, &disk, n))
    };
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    let acked = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    (acked, left(&disk))
}

fn commits() {
    let (acked, mut found) = run(false);
    found.sort_unstable();
    assert_eq!(acked.len() as u64, THREADS * EACH);
    assert_eq!(found, (0..THREADS * EACH).collect::<Vec<_>>());
}

fn a_sync_fails() {
    let (acked, found) = run(true);
    assert!((acked.len() as u64) < THREADS * EACH, "a thread saw the failure");
    assert!(acked.iter().all(|xid| found.contains(xid)), "{acked:?} of {found:?}");
}

#[test]
fn acknowledged_commits_are_durable_in_every_schedule() {
    survives("commits", commits, RUNS);
}

#[test]
fn a_failed_sync_wakes_everyone_in_every_schedule() {
    survives("a sync fails", a_sync_fails, RUNS);
}

#[test]
fn broken_logs_are_caught() {
    catches(&[
        Case { rule: Broken::LogDurableEarly, world: commits, within: 1000 },
        Case { rule: Broken::FlushEndsEarly, world: commits, within: 1000 },
        Case { rule: Broken::FlushWaitersNotWoken, world: commits, within: 1000 },
        Case { rule: Broken::NextFlushLeaderNotWoken, world: commits, within: 1000 },
        Case { rule: Broken::LogNotSynced, world: commits, within: 100 },
        Case { rule: Broken::FailedSyncForgiven, world: a_sync_fails, within: 1000 },
    ]);
}
