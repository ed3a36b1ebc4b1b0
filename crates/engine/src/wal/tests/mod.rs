//! Tests of the log through the public names of the module, on simulated and on real files.
//!
//! Record number `i` has xid `i` and contents that follow from `i` alone, so what a reader finds is
//! checked without a second copy of the log.

mod broken;
mod descriptors;
#[cfg(feature = "shuttle")]
mod schedules;

use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_aio::{Io, IoOptions, Method, SimDisk};
use rightlink_env::sync::Arc;
use rightlink_env::{Env, Rng, points, thread};

use super::*;
use crate::ids::{FileId, PageId};

const DATABASE: u64 = 0x1234_5678_9abc_def0;
const SMALL: u64 = 64 << 10;

fn options() -> WalOptions {
    WalOptions { segment_bytes: SMALL, buffer_bytes: 0, max_bytes: 4 * SMALL }
}

fn control() -> Control {
    let next_xid = Xid::FIRST;
    let (redo, durable) = (Lsn(0), Lsn(0));
    Control {
        database: DATABASE,
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

fn sim_io(disk: &SimDisk) -> Io {
    let options = IoOptions { direct: true, ..IoOptions::with_method(Method::Sync) };
    Io::simulated(&Env::simulated(1), disk.clone(), options).expect("a simulation opens")
}

fn create(disk: &SimDisk) -> Result<Wal> {
    Wal::create(&Env::simulated(1), &sim_io(disk), options(), &control())
}

/// The parts of record `i`: one to three pages, now and then with a long delta.
fn parts_of(i: u64) -> Vec<(PageId, Vec<u8>)> {
    let mut rng = Rng::from_seed(i);
    let count = 1 + rng.below(3);
    let long = rng.chance(1, 12);
    let part = |n| {
        let len = if long && n == 0 { rng.below(20_000) } else { rng.below(300) };
        let mut delta = vec![0; len as usize];
        rng.fill(&mut delta);
        (PageId::new(FileId(rng.below(1 << 20) as u32), rng.below(1 << 30) as u32), delta)
    };
    (0..count).map(part).collect()
}

fn kind_of(i: u64) -> RecordKind {
    RecordKind::ALL[i as usize % RecordKind::ALL.len()]
}

fn append(wal: &Wal, i: u64) -> Result<Lsn> {
    let parts = parts_of(i);
    let parts: Vec<_> = parts.iter().map(|(page, delta)| PagePart { page: *page, delta }).collect();
    wal.append(kind_of(i), Xid(i), &parts)
}

fn assert_is(record: &Record, i: u64) {
    assert_eq!((record.xid, record.kind), (Xid(i), kind_of(i)));
    assert!(record.parts == parts_of(i), "contents of record {i}");
    assert!(record.start < record.end);
}

/// Everything from `from` on, and the end.
fn read(io: &Io, from: Lsn) -> Result<(Vec<Record>, Lsn)> {
    let mut reader = Reader::open(&Env::simulated(1), io, from)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    Ok((records, reader.end()))
}

/// A log that was recovered, open to append.
struct Recovered {
    control: Control,
    records: Vec<Record>,
    wal: Wal,
}

/// Reads from redo, opens to append, as recovery does.
fn recover(disk: &SimDisk) -> Result<Recovered> {
    let io = sim_io(disk);
    let control = Wal::read_control(&io)?;
    let (records, end) = read(&io, control.redo)?;
    let wal = Wal::open(&Env::simulated(2), &io, options(), end)?;
    Ok(Recovered { control, records, wal })
}

fn temp_dir(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("rightlink-wal-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    Io::create_root(&dir).expect("a temporary directory");
    dir
}

fn round_trip(env: &Env, io: &Io) {
    let wal = Wal::create(env, io, options(), &control()).unwrap();
    let mut ends = vec![Lsn(0)];
    for i in 0..1500 {
        ends.push(append(&wal, i).unwrap());
        if i % 7 == 0 {
            wal.flush(wal.end()).unwrap();
        }
    }
    wal.flush(wal.end()).unwrap();
    assert!(wal.end().0 > 8 * SMALL, "several segments");
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
    let (records, end) = read(io, Lsn(0)).unwrap();
    assert_eq!((records.len(), end), (1500, wal.end()));
    for (i, record) in records.iter().enumerate() {
        assert_is(record, i as u64);
        assert_eq!(record.end, ends[i + 1]);
    }
    // Reading may start at the end of any record.
    for (i, from) in ends.iter().enumerate().step_by(13) {
        let (records, end) = read(io, *from).unwrap();
        assert_eq!((records.len(), end), (1500 - i, wal.end()), "from record {i}");
    }
    drop(wal);
    let wal = Wal::open(env, io, options(), end).unwrap();
    append(&wal, 1500).unwrap();
    wal.flush(wal.end()).unwrap();
    let (records, _) = read(io, ends[1400]).unwrap();
    assert_eq!(records.len(), 101);
    assert_is(&records[100], 1500);
}

#[test]
fn round_trip_on_simulated_disk() {
    round_trip(&Env::simulated(1), &sim_io(&SimDisk::new(1)));
}

#[test]
fn round_trip_on_files_direct_and_buffered() {
    for direct in [false, true] {
        let dir = temp_dir(if direct { "direct" } else { "buffered" });
        let env = Env::system(64 << 20);
        let io_options = IoOptions { direct, ..IoOptions::default() };
        round_trip(&env, &Io::open(&env, &dir, io_options).unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// Threads that commit at once share syncs, and each finds its record durable when flush returns.
#[test]
fn group_commit_shares_syncs() {
    let dir = temp_dir("group");
    let env = Env::system(64 << 20);
    let io = Io::open(&env, &dir, IoOptions::default()).unwrap();
    let wal = Arc::new(Wal::create(&env, &io, options(), &control()).unwrap());
    let (threads, each) = (8, 60);
    let commit = |t: u64| {
        let wal = Arc::clone(&wal);
        thread::spawn("commits", move || {
            for n in 0..each {
                let end = append(&wal, t * each + n).unwrap();
                wal.flush(end).unwrap();
                assert!(wal.durable() >= end);
            }
        })
    };
    let handles: Vec<_> = (0..threads).map(commit).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    let (mut records, _) = read(&io, Lsn(0)).unwrap();
    records.sort_by_key(|record| record.xid);
    assert_eq!(records.len() as u64, threads * each);
    records.iter().zip(0..).for_each(|(record, i)| assert_is(record, i));
    let stats = wal.stats();
    assert_eq!(stats.grouped_records, threads * each);
    assert!(stats.flushes() < threads * each, "{stats:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Appending more than both groups hold flushes by itself; the largest record fits.
#[test]
fn full_groups_flush_themselves() {
    let disk = SimDisk::new(1);
    let wal = create(&disk).unwrap();
    let delta = vec![5; MAX_RECORD_BYTES - 20];
    for i in 0..20 {
        let page = PageId::new(FileId(1), i);
        wal.append(RecordKind::Build, Xid(9), &[PagePart { page, delta: &delta }]).unwrap();
    }
    assert!(wal.durable() > Lsn(0) && wal.durable() < wal.end());
    wal.flush(wal.end()).unwrap();
    assert_eq!(read(&sim_io(&disk), Lsn(0)).unwrap().0.len(), 20);
}

/// What a run had promised when: number of calls, and how many records were durable or where redo
/// was.
#[derive(Default)]
struct Promises {
    durable: Vec<(u64, u64)>,
    redo: Vec<(u64, Lsn)>,
    ends: Vec<Lsn>,
}

fn last_before<T: Copy + Default>(promises: &[(u64, T)], ops: u64) -> Option<T> {
    promises.iter().rev().find(|(at, _)| *at <= ops).map(|(_, what)| *what)
}

/// Commits, long groups, checkpoints that recycle: about six segments of log.
fn scenario(disk: &SimDisk, promises: &mut Promises, steps: u64) -> Result<()> {
    let wal = create(disk)?;
    promises.redo.push((disk.op_count(), Lsn(0)));
    let mut rng = Rng::from_seed(77);
    for i in 0..steps {
        promises.ends.push(append(&wal, i)?);
        if rng.chance(1, 6) {
            wal.flush(wal.end())?;
            promises.durable.push((disk.op_count(), i + 1));
        }
        if i % 60 == 59 {
            let at = promises.ends[promises.ends.len() - 1 - rng.index(20)];
            wal.write_control(&Control { redo: at, next_xid: Xid(i), ..control() })?;
            promises.redo.push((disk.op_count(), at));
        }
    }
    Ok(())
}

/// The recovered log continues redo without a gap and holds what had been promised at `ops`.
fn check_recovered(disk: &SimDisk, promises: &Promises, ops: u64) -> Option<u64> {
    let Some(redo) = last_before(&promises.redo, ops) else {
        // The database was not created yet: it is not there, or there and empty.
        match recover(disk) {
            Err(Error::Io(error)) => assert_eq!(error.kind, rightlink_aio::IoErrorKind::NotFound),
            Err(other) => panic!("at {ops}: {other}"),
            Ok(found) => assert!(found.records.is_empty()),
        }
        return None;
    };
    let recovered = recover(disk).unwrap_or_else(|e| panic!("at {ops}: {e}"));
    let Recovered { control, records, wal } = recovered;
    assert!(control.redo >= redo, "a written control file counts");
    let first = promises.ends.iter().filter(|end| **end <= control.redo).count() as u64;
    records.iter().zip(first..).for_each(|(record, i)| assert_is(record, i));
    let found = first + records.len() as u64;
    let durable = last_before(&promises.durable, ops).unwrap_or(0);
    assert!(found >= durable, "at {ops}: {found} records, {durable} were durable");
    // Life goes on, and what was accepted survives the next crash.
    append(&wal, found).unwrap();
    wal.flush(wal.end()).unwrap();
    let again = disk.crash_image(&rightlink_aio::sim::CrashChoice::AllLost);
    let Recovered { records, .. } = recover(&again).unwrap();
    assert_eq!(first + records.len() as u64, found + 1);
    assert_is(records.last().unwrap(), found);
    Some(found)
}

/// Crash at every call with every choice of what survives.
#[test]
fn crash_at_every_point() {
    let disk = SimDisk::recorded(3);
    let mut promises = Promises::default();
    scenario(&disk, &mut promises, 400).unwrap();
    let recording = disk.recording();
    let mut states = 0;
    recording.for_each_moment(|ops, state| {
        for choice in state.choices(ops) {
            let crashed = recording.crash(state, &choice);
            check_recovered(&crashed, &promises, ops);
            states += 1;
        }
    });
    assert!(states > 2000, "{states} states");
    println!("{states} crash states");
}

/// Crash again inside recovery: what the first recovery could accept, the second one finds no less
/// of than was promised before the first crash.
#[test]
fn crash_inside_recovery() {
    let disk = SimDisk::recorded(4);
    let mut promises = Promises::default();
    scenario(&disk, &mut promises, 90).unwrap();
    let recording = disk.recording();
    let mut states = 0;
    recording.for_each_moment(|ops, state| {
        if last_before(&promises.redo, ops).is_none() {
            return;
        }
        for choice in state.choices(ops).into_iter().step_by(5) {
            let crashed = recording.crash(state, &choice);
            crashed.start_recording();
            let found = recover(&crashed).unwrap().records.len();
            let inner = crashed.recording();
            inner.for_each_moment(|at, state| {
                for choice in state.choices(at).into_iter().step_by(3) {
                    let twice = inner.crash(state, &choice);
                    check_recovered(&twice, &promises, ops);
                    states += 1;
                }
            });
            // Once `open` has returned, what it accepted is durable.
            let lost = crashed.crash_image(&rightlink_aio::sim::CrashChoice::AllLost);
            assert_eq!(recover(&lost).unwrap().records.len(), found);
        }
    });
    assert!(states > 500, "{states} states");
}

/// Every call fails once: the log answers with a typed error, and a reopened one keeps its
/// promises.
#[test]
fn every_call_fails_once() {
    let clean = SimDisk::new(5);
    scenario(&clean, &mut Promises::default(), 130).unwrap();
    for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::ShortWrite, FaultKind::Interrupted] {
        for op in 0..clean.op_count() {
            let disk = SimDisk::new(5);
            disk.fail_at(op, kind, Repeat::Once);
            let mut promises = Promises::default();
            let outcome = scenario(&disk, &mut promises, 130);
            disk.clear_faults();
            let now = disk.op_count();
            if let Err(error) = &outcome {
                let typed = matches!(error, Error::Io(_) | Error::DiskFull(_) | Error::Poisoned(_));
                assert!(typed, "{kind:?} at {op}: {error}");
            }
            // Both what a restarted process sees and what a power cut leaves.
            check_recovered(
                &disk.crash_image(&rightlink_aio::sim::CrashChoice::AllLost),
                &promises,
                now,
            );
            check_recovered(&disk, &promises, now);
        }
    }
}

/// Flip every byte of a durable log: nothing below an LSN that a later frame or the control file
/// states to have been durable is ever lost silently.
#[test]
fn every_flipped_byte_is_noticed_or_harmless() {
    let disk = SimDisk::new(6);
    let wal = create(&disk).unwrap();
    let mut ends = Vec::new();
    let mut flushed = Vec::new();
    for i in 0..60 {
        ends.push(append(&wal, i).unwrap());
        if i % 3 == 2 {
            wal.flush(wal.end()).unwrap();
            flushed.push(i + 1);
        }
    }
    // No frame states the last group; one states the group before it.
    let stated = flushed[flushed.len() - 2];
    let end = wal.end().0;
    drop(wal);
    let mut damaged = 0;
    for at in 0..end {
        let (file, offset) = (segment::name(at / SMALL), at % SMALL);
        disk.flip_bit(&file, offset, (at % 8) as u32);
        match read(&sim_io(&disk), Lsn(0)) {
            Ok((records, _)) => {
                assert!(records.len() as u64 >= stated, "byte {at}: {} records", records.len());
                records.iter().zip(0..).for_each(|(record, i)| assert_is(record, i));
            }
            Err(Error::Corruption { file: named, block: Some(_), .. }) => {
                assert!(named.starts_with("wal/"), "{named}");
                damaged += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
        disk.flip_bit(&file, offset, (at % 8) as u32);
    }
    assert!(damaged > end / 2, "{damaged} of {end} were called damage");
    let (records, _) = read(&sim_io(&disk), Lsn(0)).unwrap();
    assert_eq!(records.len(), 60);
}

/// After a clean close the control file states the whole log: damage in the last frame is noticed
/// too.
#[test]
fn the_control_file_states_the_end() {
    let disk = SimDisk::new(7);
    let wal = create(&disk).unwrap();
    append(&wal, 0).unwrap();
    let end = append(&wal, 1).unwrap();
    wal.write_control(&Control { durable: end, clean: true, ..control() }).unwrap();
    assert!(Wal::read_control(&sim_io(&disk)).unwrap().clean);
    disk.flip_bit(&segment::name(0), end.0 - 1, 3);
    assert!(matches!(read(&sim_io(&disk), Lsn(0)), Err(Error::Corruption { block: Some(0), .. })));
}

/// A frame that was never acknowledged and is cut is a clean end, and says how much was dropped.
#[test]
fn a_torn_tail_is_a_clean_end() {
    let disk = SimDisk::new(8);
    let wal = create(&disk).unwrap();
    append(&wal, 0).unwrap();
    wal.flush(wal.end()).unwrap();
    let durable = wal.end();
    for i in 1..100 {
        append(&wal, i).unwrap();
    }
    wal.flush(wal.end()).unwrap();
    drop(wal);
    disk.flip_bit(&segment::name(0), wal_middle(durable), 0);
    let mut reader = Reader::open(&Env::simulated(1), &sim_io(&disk), Lsn(0)).unwrap();
    assert_is(&reader.next().unwrap().unwrap(), 0);
    assert!(reader.next().unwrap().is_none() && reader.next().unwrap().is_none());
    assert_eq!(reader.end(), durable);
    assert!(reader.dropped() > 10_000, "{} bytes dropped", reader.dropped());
    let wal = recover(&disk).unwrap().wal;
    append(&wal, 1).unwrap();
    wal.flush(wal.end()).unwrap();
    assert_eq!(recover(&disk).unwrap().records.len(), 2);
}

fn wal_middle(after: Lsn) -> u64 {
    after.0 + 1000
}

/// Segments below redo are used again under new names; their old bytes are never taken for new
/// ones.
#[test]
fn recycled_segments_do_not_speak() {
    let disk = SimDisk::new(9);
    let wal = create(&disk).unwrap();
    let mut last = Lsn(0);
    for i in 0..2000 {
        last = append(&wal, i).unwrap();
        wal.flush(last).unwrap();
        if wal.needs_checkpoint() {
            wal.write_control(&Control { redo: last, ..control() }).unwrap();
            assert!(!wal.needs_checkpoint());
            let (records, end) = read(&sim_io(&disk), last).unwrap();
            assert_eq!((records.len(), end), (0, last));
        }
    }
    let stats = wal.stats();
    assert!(stats.recycled > 3 && stats.removed == 0, "{stats:?}");
    let kept = disk.files().iter().filter(|(name, _)| name.starts_with("wal/")).count();
    assert!(kept <= 4 + 3 + 2, "{:?}", disk.files());
    drop(wal);
    let control = Wal::read_control(&sim_io(&disk)).unwrap();
    let (records, end) = read(&sim_io(&disk), control.redo).unwrap();
    assert_eq!(end, last);
    assert_is(records.last().unwrap(), 1999);
}

/// A failed sync or write is final, for threads that wait and for later ones.
#[test]
fn a_failed_sync_poisons() {
    for op in [OpKind::Sync, OpKind::Write] {
        let disk = SimDisk::new(10);
        let wal = create(&disk).unwrap();
        append(&wal, 0).unwrap();
        wal.flush(wal.end()).unwrap();
        let durable = wal.durable();
        let end = append(&wal, 1).unwrap();
        disk.fail_nth(op, 0, FaultKind::Io, Repeat::Once);
        for _ in 0..2 {
            assert!(matches!(wal.flush(end), Err(Error::Poisoned(_))));
            assert!(matches!(append(&wal, 2), Err(Error::Poisoned(_))));
            assert!(matches!(wal.write_control(&control()), Err(Error::Poisoned(_))));
        }
        assert_eq!(wal.durable(), durable);
        wal.flush(durable).unwrap();
    }
}

/// The page cache shows a frame whose sync failed. What recovery accepts of it must survive a power
/// cut once the log is open again, and nothing else may be promised.
#[test]
fn recovery_does_not_trust_the_page_cache() {
    let disk = SimDisk::new(11);
    let wal = create(&disk).unwrap();
    append(&wal, 0).unwrap();
    wal.flush(wal.end()).unwrap();
    for i in 1..40 {
        append(&wal, i).unwrap();
    }
    disk.fail_nth(OpKind::Sync, 0, FaultKind::Io, Repeat::Once);
    assert!(wal.flush(wal.end()).is_err());
    drop(wal);
    let Recovered { records, wal, .. } = recover(&disk).unwrap();
    assert_eq!(records.len(), 40, "the page cache shows everything");
    drop(wal);
    let cut = disk.crash_image(&rightlink_aio::sim::CrashChoice::AllLost);
    assert_eq!(recover(&cut).unwrap().records.len(), 40);
}

/// Appends and flushes records for as long as work may begin: what it is told then, and how many.
fn begin_until_refused(wal: &Wal) -> (Error, u64) {
    let mut i = 0;
    loop {
        if let Err(error) = wal.admit(Admission::Begin) {
            return (error, i);
        }
        append(wal, i).unwrap();
        wal.flush(wal.end()).unwrap();
        i += 1;
    }
}

/// A full disk: `admit` says so while there is a reserve, the reserve carries a checkpoint, and
/// when there is space again everything goes on without reopening.
#[test]
fn a_full_disk_leaves_a_reserve() {
    let disk = SimDisk::new(12);
    let wal = create(&disk).unwrap();
    disk.capacity(disk.files().iter().map(|(_, len)| len).sum());
    let (refused, i) = begin_until_refused(&wal);
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    assert!(i > 10);
    wal.append(RecordKind::Checkpoint, Xid::NONE, &[]).unwrap();
    wal.flush(wal.end()).unwrap();
    wal.write_control(&Control { redo: wal.end(), ..control() }).unwrap();
    assert!(wal.admit(Admission::Begin).is_err(), "the only segment is still in use");
    disk.capacity(1 << 20);
    wal.admit(Admission::Begin).unwrap();
    append(&wal, i).unwrap();
    wal.flush(wal.end()).unwrap();
    assert_eq!(recover(&disk).unwrap().records.len(), 1);
}

/// A caller that ignores `admit` gets `DiskFull` from append, nothing appended, and loses nothing.
#[test]
fn append_on_a_full_disk_changes_nothing() {
    let disk = SimDisk::new(13);
    let wal = create(&disk).unwrap();
    disk.capacity(disk.files().iter().map(|(_, len)| len).sum());
    let mut i = 0;
    let refused = loop {
        match append(&wal, i) {
            Ok(_) => i += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    wal.flush(wal.end()).unwrap();
    disk.capacity(1 << 20);
    append(&wal, i).unwrap();
    wal.flush(wal.end()).unwrap();
    assert_eq!(recover(&disk).unwrap().records.len() as u64, i + 1);
}

/// A segment in the middle that is gone, and a write that never happened, are damage.
#[test]
fn gone_segments_and_lost_writes_are_damage() {
    let disk = SimDisk::new(21);
    let wal = create(&disk).unwrap();
    let mut after = Lsn(0);
    for i in 0..400 {
        after = if i == 100 { wal.end() } else { after };
        append(&wal, i).unwrap();
        // A frame of several sectors: the next write would repeat, and heal, a single one.
        if !(50..80).contains(&i) {
            wal.flush(wal.end()).unwrap();
        }
        if i == 79 {
            disk.fail_nth(OpKind::Write, 0, FaultKind::LostWrite, Repeat::Once);
        }
    }
    drop(wal);
    assert!(matches!(read(&sim_io(&disk), Lsn(0)), Err(Error::Corruption { .. })));
    assert_eq!(read(&sim_io(&disk), after).unwrap().0.len(), 300);
    sim_io(&disk).remove(&segment::name(2)).unwrap();
    assert!(matches!(read(&sim_io(&disk), after), Err(Error::Corruption { .. })));
}

/// What a copy of the database reads is kept while it is held, and goes when it is let go.
#[test]
fn held_log_is_not_recycled() {
    let disk = SimDisk::new(22);
    let wal = Arc::new(create(&disk).unwrap());
    let hold = wal.hold();
    assert_eq!(hold.from(), Lsn(0));
    for i in 0..900 {
        append(&wal, i).unwrap();
    }
    let first = segment::name(0);
    wal.write_control(&Control { redo: wal.end(), ..control() }).unwrap();
    assert_eq!(read(&sim_io(&disk), hold.from()).unwrap().0.len(), 900);
    drop(hold);
    wal.write_control(&Control { redo: wal.end(), ..control() }).unwrap();
    assert!(!sim_io(&disk).exists(&first).unwrap());
}

#[test]
fn one_damaged_control_copy_is_survived_both_are_not() {
    let disk = SimDisk::new(14);
    let wal = create(&disk).unwrap();
    let redo = append(&wal, 0).unwrap();
    wal.write_control(&Control { redo, next_xid: Xid(7), ..control() }).unwrap();
    drop(wal);
    for at in (0..8192).step_by(37) {
        disk.flip_bit(control::FILE, at, 5);
        let control = Wal::read_control(&sim_io(&disk)).unwrap();
        assert!([Xid(7), Xid::FIRST].contains(&control.next_xid));
        let (records, _) = read(&sim_io(&disk), control.redo).unwrap();
        assert_eq!(records.len() as u64, u64::from(control.redo < redo));
        disk.flip_bit(control::FILE, at, 5);
    }
    disk.flip_bit(control::FILE, 100, 0);
    disk.flip_bit(control::FILE, 4096 + 100, 0);
    let error = Wal::read_control(&sim_io(&disk)).unwrap_err();
    assert!(matches!(&error, Error::Corruption { file, .. } if file == control::FILE), "{error}");
}

/// A log of another database, or the records of one in the segments of another, are not read.
#[test]
fn another_databases_segments_are_refused() {
    let (ours, theirs) = (SimDisk::new(15), SimDisk::new(16));
    let wal = create(&ours).unwrap();
    let foreign = Control { database: 99, ..control() };
    let other = Wal::create(&Env::simulated(1), &sim_io(&theirs), options(), &foreign).unwrap();
    for i in 0..10 {
        append(&wal, i).unwrap();
        append(&other, i).unwrap();
        wal.flush(wal.end()).unwrap();
        other.flush(other.end()).unwrap();
    }
    ours.make_stale(&segment::name(0), 0, SMALL as usize, &theirs);
    assert_eq!(read(&sim_io(&ours), Lsn(0)).unwrap().0.len(), 0);
}

/// An error of the device is not the end of the log, and it sticks.
#[test]
fn a_read_error_is_not_the_end() {
    let disk = SimDisk::new(17);
    let wal = create(&disk).unwrap();
    for i in 0..200 {
        append(&wal, i).unwrap();
    }
    wal.flush(wal.end()).unwrap();
    let mut reader = Reader::open(&Env::simulated(1), &sim_io(&disk), Lsn(0)).unwrap();
    disk.fail_nth(OpKind::Read, 0, FaultKind::Io, Repeat::Once);
    for _ in 0..3 {
        assert!(matches!(reader.next(), Err(Error::Io(_))));
    }
}

/// A reader with a limit may run beside the writer and calls a hole below the limit damage.
#[test]
fn a_limited_reader_stops_there() {
    let disk = SimDisk::new(18);
    let wal = create(&disk).unwrap();
    let first = append(&wal, 0).unwrap();
    wal.flush(first).unwrap();
    let limit = append(&wal, 1).unwrap();
    wal.flush(limit).unwrap();
    append(&wal, 2).unwrap();
    wal.flush(wal.end()).unwrap();
    let count = || {
        let env = Env::simulated(1);
        let mut reader = Reader::open_until(&env, &sim_io(&disk), Lsn(0), limit)?;
        let mut count = 0;
        while reader.next()?.is_some() {
            count += 1;
        }
        Ok::<_, Error>(count)
    };
    assert_eq!(count().unwrap(), 2);
    disk.flip_bit(&segment::name(0), first.0 + 40, 1);
    assert!(matches!(count(), Err(Error::Corruption { .. })));
}

/// Every named point is passed by a plain life with checkpoints.
#[test]
fn all_points_are_hit() {
    let counting = points::count();
    let disk = SimDisk::new(19);
    scenario(&disk, &mut Promises::default(), 1200).unwrap();
    drop(recover(&disk).unwrap());
    append_on_a_full_disk_changes_nothing();
    full_groups_flush_themselves();
    held_log_is_not_recycled();
    drop(counting);
    let counts = points::counts();
    for name in [
        "wal.append.group-full",
        "wal.append.segment-missing",
        "wal.frame.before-write",
        "wal.frame.piece-written",
        "wal.flush.before-sync",
        "wal.flush.after-sync",
        "wal.segment.before-sync",
        "wal.segment.created",
        "wal.segment.recycled",
        "wal.segment.removed",
        "wal.control.before-write",
        "wal.control.before-sync",
        "wal.control.after-sync",
        "wal.open.before-sync",
    ] {
        assert!(counts.get(name).is_some_and(|&n| n > 0), "{name} was never passed");
    }
}

/// A panic while a record is copied poisons before anybody can write the half of it, together with
/// the records before it, which were not acknowledged as durable.
#[test]
fn a_panic_within_append_poisons() {
    let disk = SimDisk::new(21);
    let wal = create(&disk).unwrap();
    let end = append(&wal, 0).unwrap();
    let hook = points::install_local(|name| assert_ne!(name, "wal.append.begun", "on purpose"));
    let panics = std::panic::AssertUnwindSafe(|| append(&wal, 1));
    assert!(std::panic::catch_unwind(panics).is_err());
    drop(hook);
    assert!(matches!(wal.flush(end), Err(Error::Poisoned(_))));
    assert!(matches!(append(&wal, 2), Err(Error::Poisoned(_))));
    drop(wal);
    let Recovered { records, .. } = recover(&disk).unwrap();
    assert!(records.is_empty(), "{} records", records.len());
}

/// A panic in the leader poisons instead of leaving the followers waiting.
#[test]
fn a_panicking_leader_poisons() {
    let disk = SimDisk::new(20);
    let wal = create(&disk).unwrap();
    let end = append(&wal, 0).unwrap();
    let hook =
        points::install_local(|name| assert_ne!(name, "wal.flush.before-sync", "on purpose"));
    let flush = std::panic::AssertUnwindSafe(|| wal.flush(end));
    assert!(std::panic::catch_unwind(flush).is_err());
    drop(hook);
    assert!(matches!(wal.flush(end), Err(Error::Poisoned(_))));
}
