//! Every call of every scenario fails, once or for ever: the store succeeds, returns a typed error,
//! or takes no more writes; it never panics and never lies. Then the disk fills up, and bits flip.
//!
//! `RIGHTLINK_FAULTS=N` asks for about N runs with a fault, `RIGHTLINK_FLIPS=N` for N flipped bits
//! of each kind of file, `all` for all; the defaults are for quick runs.
//! `RIGHTLINK_CRASH_ONLY=SCENARIO` picks one.
//!
//! Invariants: a finding names scenario, call and fault, the same in every run.
//! Does not do: power cuts without a fault (`crash.rs`).

mod space;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::scenarios::ALL;
use crate::common::{Content, Scenario, Script, Settings, oracle, usual_row, usual_rows};
use rightlink::{Database, Error, RowId, ScanOptions, Transaction, Written};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{CrashChoice, FaultKind, OpKind, Repeat};
use rightlink_env::sync::{Arc, AtomicUsize, Mutex, Ordering};
use rightlink_env::{Rng, thread};

const SEED: u64 = 1;
/// Runs with a fault without `RIGHTLINK_FAULTS`.
const FEW_FAULTS: usize = 100;
/// Flipped bits of each kind without `RIGHTLINK_FLIPS`.
const FEW_FLIPS: usize = 50;

fn setting(name: &str, default: usize) -> usize {
    match std::env::var(name).ok().as_deref() {
        None => default,
        Some("all") => usize::MAX / 1024,
        Some(number) => number.parse().expect("a number"),
    }
}

fn told(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_string()
}

/// Runs `check` for each of `items` on every core; panics and errors become findings.
fn each<T: Send + Sync + 'static>(
    items: Vec<T>,
    name: impl Fn(&T) -> String + Send + Sync + 'static,
    check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
) {
    let shared = Arc::new((items, AtomicUsize::new(0), Mutex::new(Vec::new()), name, check));
    let workers: Vec<_> = (0..thread::parallelism().min(4))
        .map(|worker| {
            let shared = Arc::clone(&shared);
            thread::spawn(&format!("faults-{worker}"), move || {
                let (items, next, findings, name, check) = &*shared;
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = catch_unwind(AssertUnwindSafe(|| check(item)));
                    let result =
                        result.unwrap_or_else(|panic| Err(format!("panic: {}", told(&*panic))));
                    if let Err(what) = result {
                        findings.lock().push(format!("{}: {what}", name(item)));
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("findings are collected"));
    let mut findings = std::mem::take(&mut *shared.2.lock());
    findings.sort();
    let count = findings.len();
    findings.truncate(40);
    assert!(findings.is_empty(), "{count} findings:\n{}", findings.join("\n"));
}

/// One call of one scenario that fails.
#[derive(Clone)]
struct Case {
    scenario: &'static Scenario,
    op: OpKind,
    nth: u64,
    kind: FaultKind,
    repeat: Repeat,
}

const OPS: [OpKind; 12] = [
    OpKind::Open,
    OpKind::Read,
    OpKind::Write,
    OpKind::Sync,
    OpKind::SyncDir,
    OpKind::SetLen,
    OpKind::Allocate,
    OpKind::Rename,
    OpKind::Remove,
    OpKind::CreateDir,
    OpKind::List,
    OpKind::Stat,
];
const KINDS: [FaultKind; 6] = [
    FaultKind::Io,
    FaultKind::NoSpace,
    FaultKind::Interrupted,
    FaultKind::ShortRead,
    FaultKind::ShortWrite,
    FaultKind::TornWrite,
];

/// Every call of `scenario` with every fault that fits it.
fn cases(scenario: &'static Scenario, into: &mut Vec<Case>) {
    let before: Arc<Mutex<Vec<u64>>> = Arc::default();
    let theirs = Arc::clone(&before);
    let count = |disk: &SimDisk| OPS.iter().map(|op| disk.calls(*op)).collect::<Vec<u64>>();
    let mut script = Script::run(scenario, true, move |disk| *theirs.lock() = count(disk));
    let after = count(&script.disk);
    script.abandon();
    let before = before.lock();
    for (at, op) in OPS.into_iter().enumerate() {
        for nth in 0..after[at] - before[at] {
            for kind in KINDS.into_iter().filter(|kind| kind.fits(op)) {
                let case = |repeat| Case { scenario, op, nth, kind, repeat };
                into.push(case(Repeat::Once));
                // An interruption for ever is waited out for ever, which is right and takes long.
                if kind != FaultKind::Interrupted {
                    into.push(case(Repeat::Forever));
                }
            }
        }
    }
}

#[test]
fn every_failing_call_is_survived() {
    let only = std::env::var("RIGHTLINK_CRASH_ONLY").ok();
    let mut all = Vec::new();
    for scenario in ALL.iter().filter(|s| only.as_ref().is_none_or(|only| only == s.name)) {
        cases(scenario, &mut all);
    }
    let total = all.len();
    Rng::from_seed(SEED).shuffle(&mut all);
    all.truncate(setting("RIGHTLINK_FAULTS", FEW_FAULTS));
    assert!(ALL.iter().all(|scenario| !scenario.points.is_empty()), "each proves what it does");
    println!("{} of {total} combinations of call and fault", all.len());
    let name = |case: &Case| {
        let Case { scenario, op, nth, kind, repeat } = case;
        format!("{}: {kind:?} {repeat:?} at {op:?} {nth}", scenario.name)
    };
    each(all, name, fail);
}

/// Runs the scenario of `case` with its fault, lifts the fault, and looks what is there: at once,
/// after a power cut, and after a restart.
fn fail(case: &Case) -> Result<(), String> {
    let Case { scenario, op, nth, kind, repeat } = case.clone();
    let mut script = Script::run(scenario, false, move |disk| disk.fail_nth(op, nth, kind, repeat));
    let ops = script.disk.op_count();
    for choice in [CrashChoice::AllLost, CrashChoice::AllKept, CrashChoice::Subset(nth)] {
        let disk = script.disk.crash_image(&choice);
        look(&script, &disk, ops).map_err(|what| format!("after {choice:?}: {what}"))?;
    }
    match nth % 3 {
        0 => script.kill(vec![]),
        1 => {
            script.disk.clear_faults();
            goes_on(&mut script)?;
            script.abandon();
        }
        _ => {
            script.abandon();
            script.disk.clear_faults();
        }
    }
    let ops = script.disk.op_count();
    let shown = look(&script, &script.disk, ops).map_err(|what| format!("opened again: {what}"))?;
    // What was shown after the restart may not be taken back, whatever the page cache pretended.
    let disk = script.disk.crash_image(&CrashChoice::AllLost);
    match look(&script, &disk, ops)? {
        state if state >= shown => Ok(()),
        state => Err(format!("state {shown} was shown, state {state} is there after a power cut")),
    }
}

/// Opens `disk` and compares; returns the state found. The power is cut afterwards.
fn look(script: &Script, disk: &SimDisk, ops: u64) -> Result<usize, String> {
    let (floor, ceiling) = script.bounds(ops);
    let db = script.settings.open(disk).map_err(|error| format!("open: {error}"))?;
    let found = oracle::read(&db)?;
    disk.crash_at(disk.op_count());
    drop(db);
    disk.clear_faults();
    let states = oracle::matching(script, &found, script.clean_close.is_some());
    match states.iter().rev().find(|state| (floor..=ceiling).contains(*state)) {
        Some(state) => Ok(*state),
        None => {
            let summary = oracle::summary(&found);
            Err(format!("states {floor} to {ceiling} allowed, {states:?} found: {summary}"))
        }
    }
}

/// The fault is over: the instance takes writes again, unless it said that it takes no more.
fn goes_on(script: &mut Script) -> Result<(), String> {
    let usable =
        script.is_open() && script.states.last().is_some_and(|s| has_usual_table(&s.content));
    if !usable {
        return Ok(());
    }
    let poisoned = script.errors.iter().any(|error| matches!(error, Error::Poisoned(_)));
    let before = script.states.len();
    let wrote = script.transact(|script, tx| tx.insert(script, "t", usual_row(9_999, 10)));
    let checkpointed = wrote.and_then(|()| script.checkpoint());
    match (poisoned, checkpointed) {
        (true, Ok(())) => Err("a poisoned instance took a write".into()),
        (true, Err(_)) | (false, Ok(())) if poisoned || script.states.len() > before => Ok(()),
        (false, Err(_)) if matches!(script.errors.last(), Some(Error::Poisoned(_))) => Ok(()),
        other => Err(format!("does not go on: {other:?}, errors {:?}", script.errors)),
    }
}

fn has_usual_table(content: &Content) -> bool {
    content.get("t").is_some_and(|table| table.columns.len() == 4)
}

/// A database of 200 rows that was used a little, open.
fn filled(rows: i64) -> Script {
    static FILL: Scenario = Scenario {
        name: "filled",
        points: &[],
        settings: Settings::ROOMY,
        run: |script| {
            script.open_with_table()?;
            script.record();
            Ok(())
        },
    };
    let mut script = Script::run(&FILL, true, |_| {});
    for start in (0..rows).step_by(20) {
        let rows = usual_rows(start..start + 20, 60);
        script.transact(|script, tx| tx.insert_many(script, "t", rows)).expect("no fault");
    }
    script.transact(|script, tx| tx.delete(script, "t", 3)).expect("no fault");
    script
}

fn content(db: &Database) -> Content {
    oracle::read(db).expect("a whole database")
}

/// Disk full: the statement fails as such and leaves nothing, reads go on; when rows are deleted
/// and vacuumed, or the disk grows, work goes on in the same instance.
#[test]
fn a_full_disk_refuses_and_recovers_without_a_restart() {
    // No vacuum has been here: the first one made the maps once, and needed space for them.
    let mut script = filled(200);
    script.checkpoint().expect("no fault");
    let expected = script.states.last().expect("a state").content.clone();
    let db = script.db().clone();
    script.disk.capacity(script.disk.allocated() + (256 << 10));
    let (mut next, mut full) = (10_000, None);
    for _ in 0..200 {
        let mut txn = db.begin();
        let refused =
            txn.insert_many("t", &usual_rows(next..next + 20, 600)).and_then(|_| txn.commit());
        if let Err(error) = refused {
            full = Some(error);
            break;
        }
        next += 20;
    }
    assert!(matches!(full, Some(Error::DiskFull(_))), "{full:?}");
    let found = content(&db);
    assert_eq!(found["t"].rows.len(), expected["t"].rows.len() + (next - 10_000) as usize);
    let mut txn = db.begin();
    for id in 10_000..next {
        let row = txn.get("t", &[rightlink::Value::Int8(id)]).expect("reads go on");
        let row = row.expect("it was inserted");
        assert!(txn.delete("t", row.id).expect("a delete needs no new space"));
    }
    txn.commit().expect("a commit needs no new space");
    db.vacuum(None).expect("vacuum makes space");
    db.checkpoint().expect("a checkpoint needs no new space");
    let mut txn = db.begin();
    txn.insert_many("t", &usual_rows(10_000..10_040, 600)).expect("freed space is used");
    txn.commit().expect("there is space");
    script.disk.capacity(1 << 40);
    let mut txn = db.begin();
    txn.insert_many("t", &usual_rows(20_000..20_400, 600)).expect("the disk has grown");
    txn.commit().expect("there is space");
    assert_eq!(content(&db)["t"].rows.len(), expected["t"].rows.len() + 440);
    drop(db);
    script.abandon();
    let db = script.settings.open(&script.disk).expect("it was closed");
    assert_eq!(content(&db)["t"].rows.len(), expected["t"].rows.len() + 440);
}

/// The process ends while the disk is full and no segment of the log is left ahead: the next one
/// can read, and make space. Opening used to ask for a segment first, so nothing could be read
/// before somebody else made space.
#[test]
fn a_database_on_a_full_disk_opens_and_makes_space() {
    const SEGMENT: u64 = 64 << 10;
    let mut script = filled(200);
    script
        .transact(|script, tx| tx.create_table(script, &crate::common::usual_table("other")))
        .expect("no fault");
    // Up to the first half of a segment: the rest of it is what a full disk leaves.
    for id in (1000..).step_by(5) {
        script.checkpoint().expect("no fault");
        if redo_position(&script) % SEGMENT < SEGMENT / 4 {
            break;
        }
        let rows = usual_rows(id..id + 5, 60);
        script.transact(|script, tx| tx.insert_many(script, "t", rows)).expect("no fault");
    }
    let last = redo_position(&script) / SEGMENT;
    let before = script.states.last().expect("a state").content.clone();
    script.kill(vec![]);
    let io = rightlink_aio::Io::simulated(
        &rightlink_env::Env::simulated(1),
        script.disk.clone(),
        rightlink_aio::IoOptions::with_method(rightlink_aio::Method::Sync),
    );
    let io = io.expect("a simulated disk");
    for (name, _) in script.disk.files() {
        let number = name.strip_prefix("wal/").and_then(|n| u64::from_str_radix(n, 16).ok());
        if number.is_some_and(|number| number != last) {
            io.remove(&name).expect("it is there");
        }
    }
    script.disk.capacity(script.disk.allocated());
    let db = script.settings.open(&script.disk).expect("a full disk can be read");
    assert_eq!(content(&db), before);
    let mut txn = db.begin();
    let refused = txn.insert("other", &usual_row(1, 10));
    assert!(matches!(refused, Err(Error::DiskFull(_))), "{refused:?}");
    let row = txn.get("t", &[rightlink::Value::Int8(7)]).expect("reads go on").expect("a row");
    assert!(txn.delete("t", row.id).expect("a delete needs no new space"));
    txn.commit().expect("a commit needs no new space");
    let mut txn = db.begin();
    txn.drop_table("t").expect("a drop makes space");
    txn.commit().expect("a commit needs no new space");
    let mut txn = db.begin();
    txn.insert_many("other", &usual_rows(0..40, 60)).expect("freed space is used");
    txn.commit().expect("there is space");
    assert_eq!(content(&db)["other"].rows.len(), 40);
}

/// A database with a table "t" of `rows` rows and little log, on a disk of its own.
fn little(rows: i64) -> (SimDisk, Database) {
    let disk = SimDisk::new(9);
    let db = Settings::LITTLE_LOG.open(&disk).expect("no fault");
    let mut txn = db.begin();
    txn.create_table(&crate::common::usual_table("t")).expect("no fault");
    txn.commit().expect("no fault");
    for start in (0..rows).step_by(50) {
        let mut txn = db.begin();
        let rows = usual_rows(start..rows.min(start + 50), 60);
        txn.insert_many("t", &rows).expect("no fault");
        txn.commit().expect("no fault");
    }
    // The first vacuum makes the maps, and needs space for them.
    db.vacuum(None).expect("no fault");
    db.checkpoint().expect("no fault");
    (disk, db)
}

fn all_ids(txn: &mut Transaction) -> Vec<RowId> {
    let rows = txn.scan("t", &ScanOptions::all()).expect("reads go on");
    rows.map(|row| row.expect("reads go on").id).collect()
}

/// Not a byte is left when a statement deletes all rows, which takes several times the log that
/// there is, and when vacuum removes them. Both had one admission at most, and what they logged
/// then poisoned the instance where the log ended.
#[test]
fn on_a_full_disk_large_deletes_and_vacuum_succeed() {
    const ROWS: i64 = 20_000;
    type Delete = fn(&mut Transaction) -> rightlink::Result<u64>;
    let by_writer: Delete = |txn| {
        txn.freeing(|txn| {
            txn.write("t", |writer| {
                let mut deleted = 0;
                for row in writer.scan(&ScanOptions::all())? {
                    let written = writer.delete(row?.id, &mut |_, _| Ok(true))?;
                    deleted += u64::from(matches!(written, Written::Done(_)));
                }
                Ok(deleted)
            })
        })
    };
    let by_ids: Delete = |txn| {
        let ids = all_ids(txn);
        txn.delete_many("t", &ids)
    };
    for delete in [by_writer, by_ids] {
        let (disk, db) = little(ROWS);
        disk.capacity(disk.allocated());
        let mut txn = db.begin();
        assert_eq!(delete(&mut txn).expect("a delete needs no new space"), ROWS as u64);
        txn.commit().expect("a commit needs no new space");
        assert_eq!(all_ids(&mut db.begin()).len(), 0);
        db.vacuum(None).expect("vacuum makes space");
        let mut txn = db.begin();
        txn.insert_many("t", &usual_rows(0..500, 60)).expect("freed space is used");
        txn.commit().expect("there is space");
        assert_eq!(content(&db)["t"].rows.len(), 500);
    }
}

/// Several at a time insert, update and delete on a full disk, in statements of any size, between
/// readers: what takes space may fail, but as such, and the instance goes on.
#[test]
fn on_a_full_disk_several_writers_fail_without_harm() {
    const WRITERS: i64 = 4;
    const ROUNDS: i64 = 12;
    let (disk, db) = little(6000);
    // Files with room, so that it is the log that ends first.
    let mut txn = db.begin();
    let mut ids = all_ids(&mut txn);
    let mut at = 0;
    ids.retain(|_| {
        at += 1;
        at % 6 != 0
    });
    txn.delete_many("t", &ids).expect("no fault");
    txn.commit().expect("no fault");
    db.vacuum(None).expect("no fault");
    db.checkpoint().expect("no fault");
    disk.capacity(disk.allocated());
    let work = |writer: i64, db: &Database| {
        let (mut done, mut full) = (0, 0);
        for round in 0..ROUNDS {
            let first = 10_000 * (writer + 1) + 500 * round;
            let mut txn = db.begin();
            let rows = usual_rows(first..first + 50 + 30 * round, 60);
            let inserted = txn.insert_many("t", &rows);
            let changed = inserted.and_then(|ids| {
                let keep = ids.len() / 8;
                txn.delete_many("t", &ids[keep..])
            });
            assert!(!all_ids(&mut txn).is_empty());
            match changed.and_then(|_| txn.commit()) {
                Ok(()) => done += 1,
                Err(Error::DiskFull(_)) => full += 1,
                Err(error) => panic!("writer {writer}, round {round}: {error}"),
            }
            match db.vacuum(None) {
                Ok(_) | Err(Error::DiskFull(_)) => {}
                Err(error) => panic!("a vacuum of writer {writer}, round {round}: {error}"),
            }
        }
        (done, full)
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let db = db.clone();
            thread::spawn(&format!("writer-{writer}"), move || work(writer, &db))
        })
        .collect();
    let counts: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("sound")).collect();
    println!("done and full, by writer: {counts:?}");
    assert!(counts.iter().all(|(done, full)| done + full == ROUNDS));
    let mut txn = db.begin();
    let ids = all_ids(&mut txn);
    txn.delete_many("t", &ids).expect("a delete needs no new space");
    txn.commit().expect("a commit needs no new space");
    db.vacuum(None).expect("vacuum makes space");
    disk.capacity(1 << 40);
    let mut txn = db.begin();
    txn.insert_many("t", &usual_rows(0..2000, 60)).expect("there is space");
    txn.commit().expect("there is space");
    assert_eq!(content(&db)["t"].rows.len(), 2000);
}

/// An instance that takes no more writes is read on, also pages that a read would prune: that is
/// logged, so such reads once failed.
#[test]
fn a_poisoned_instance_is_read() {
    let (disk, db) = little(1000);
    let mut txn = db.begin();
    let ids = all_ids(&mut txn);
    assert_eq!(txn.delete_many("t", &ids[..500]).expect("no fault"), 500);
    txn.commit().expect("no fault");
    disk.fail_nth(OpKind::Sync, 0, FaultKind::Io, Repeat::Forever);
    let mut txn = db.begin();
    let refused = txn.insert("t", &usual_row(5000, 10)).and_then(|_| txn.commit());
    assert!(matches!(refused, Err(Error::Poisoned(_))), "{refused:?}");
    for _ in 0..2 {
        assert_eq!(all_ids(&mut db.begin()).len(), 500);
    }
    let mut txn = db.begin();
    for id in 500..1000 {
        let row = txn.get("t", &[rightlink::Value::Int8(id)]).expect("reads go on");
        assert!(row.is_some());
    }
}

/// Files of one table cannot be written, so that no checkpoint ends: others are written, however
/// far behind checkpoints are, and that table is read.
#[test]
fn an_unwritable_table_stops_no_other() {
    let files = |disk: &SimDisk| -> Vec<String> {
        let names = disk.files().into_iter().map(|(name, _)| name);
        names.filter(|name| name.starts_with("data/")).collect()
    };
    let (disk, db) = little(300);
    let before = files(&disk);
    let mut txn = db.begin();
    txn.create_table(&crate::common::usual_table("bad")).expect("no fault");
    txn.insert_many("bad", &usual_rows(0..300, 60)).expect("no fault");
    txn.commit().expect("no fault");
    for file in files(&disk).iter().filter(|name| !before.contains(name)) {
        disk.fail_writes_of(file, FaultKind::Io);
    }
    assert!(matches!(db.checkpoint(), Err(Error::Io(_))));
    for id in (1000..9000).step_by(20) {
        let mut txn = db.begin();
        txn.insert_many("t", &usual_rows(id..id + 20, 60)).expect("another table's fault");
        txn.commit().expect("another table's fault");
        let row = db.begin().get("bad", &[rightlink::Value::Int8(id % 300)]).expect("a read");
        assert!(row.is_some());
    }
    disk.clear_faults();
    db.checkpoint().expect("the fault is over");
    let found = content(&db);
    assert_eq!((found["t"].rows.len(), found["bad"].rows.len()), (8300, 300));
}

/// Where the control file says that redo begins.
fn redo_position(script: &Script) -> u64 {
    let word = |copy: u64, at: u64| {
        let bytes = script.disk.peek("control", copy * 4096 + at, 8);
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let newer = u64::from(word(1, 16) > word(0, 16));
    word(newer, 32)
}

/// A sync fails, the process starts again, then the power goes. The pages of the failed sync look
/// well after the restart, but only in the page cache, and no later sync writes them: recovery once
/// found nothing to do for them, moved the redo position past them, and lost what was committed.
#[test]
fn a_failed_sync_followed_by_a_restart_and_a_power_cut_loses_nothing() {
    for kind in [FaultKind::Io, FaultKind::NoSpace] {
        let mut script = filled(60);
        script.disk.fail_nth(OpKind::Sync, 2, kind, Repeat::Once);
        let failed = script.db().checkpoint();
        // A full disk is no excuse: what the sync should have made durable is unknown either way.
        assert!(matches!(failed, Err(Error::Poisoned(_))), "{kind:?}: {failed:?}");
        script.kill(vec![]);
        let ops = script.disk.op_count();
        let last = script.states.len() - 1;
        assert_eq!(look(&script, &script.disk, ops), Ok(last), "{kind:?} after the restart");
        let disk = script.disk.crash_image(&CrashChoice::AllLost);
        assert_eq!(look(&script, &disk, ops), Ok(last), "{kind:?} after the power cut");
    }
}

/// Creation meets a failing sync, is tried again and succeeds, something is committed, the power
/// goes. Whatever the first try left must not be what the database rests on: no later sync makes
/// durable what a failed one gave up. The folders and the half-made control file once were.
#[test]
fn a_creation_tried_again_after_a_failed_sync_loses_nothing() {
    let mut failed = 0;
    for (op, nth) in
        [OpKind::Sync, OpKind::SyncDir].into_iter().flat_map(|op| (0..9).map(move |nth| (op, nth)))
    {
        let disk = SimDisk::new(7);
        disk.fail_nth(op, nth, FaultKind::Io, Repeat::Once);
        let first = Settings::ROOMY.open(&disk);
        failed += u32::from(first.is_err());
        disk.crash_at(disk.op_count());
        drop(first);
        disk.clear_faults();
        let db = Settings::ROOMY.open(&disk).expect("the fault is over");
        let mut txn = db.begin();
        txn.create_table(&crate::common::usual_table("t")).expect("no fault");
        txn.insert_many("t", &usual_rows(0..20, 30)).expect("no fault");
        txn.commit().expect("no fault");
        let cut = disk.crash_image(&CrashChoice::AllLost);
        let db = Settings::ROOMY.open(&cut).unwrap_or_else(|e| panic!("{op:?} {nth}: {e}"));
        assert_eq!(content(&db)["t"].rows.len(), 20, "{op:?} {nth}");
    }
    assert!(failed > 8, "most of these syncs are of the creation: {failed}");
}

/// The rows of an unlogged table are there after a clean close. Checkpoints leave its pages alone,
/// as redo does not need them, and the one of the clean close once did so too.
#[test]
fn unlogged_rows_survive_a_clean_close() {
    let mut script = filled(20);
    script
        .transact(|script, tx| {
            tx.create_table(script, &crate::common::usual_table("u").unlogged())?;
            tx.insert_many(script, "u", usual_rows(0..30, 100))
        })
        .expect("no fault");
    script.close().expect("no fault");
    script.open().expect("no fault");
    assert_eq!(content(script.db())["u"].rows.len(), 30);
    script.kill(vec![]);
    let db = script.settings.open(&script.disk).expect("no fault");
    assert_eq!(content(&db)["u"].rows.len(), 0);
}

/// The file of a dropped table cannot be removed: the drop is committed all the same, and must not
/// be reported as if it were not.
#[test]
fn a_commit_is_reported_as_such_when_a_file_cannot_be_removed() {
    let mut script = filled(20);
    script.disk.fail_nth(OpKind::Remove, 0, FaultKind::Io, Repeat::Forever);
    let mut txn = script.db().begin();
    txn.drop_table("t").expect("no fault yet");
    txn.commit().expect("the record is durable");
    script.disk.clear_faults();
    assert!(content(script.db()).is_empty());
    script.kill(vec![]);
    let db = script.settings.open(&script.disk).expect("no fault");
    assert!(content(&db).is_empty());
    let data = |disk: &SimDisk| disk.files().iter().filter(|(f, _)| f.starts_with("data/")).count();
    let before = data(&script.disk);
    assert!(before <= 8, "{before} files: those of the catalog and the status file");
}

/// A bit of a file.
struct Flip {
    file: String,
    at: u64,
    bit: u32,
}

impl Flip {
    /// Flips the bit of `disk` and opens what is there; `None` when that is refused as damage.
    fn open(&self, disk: &SimDisk, settings: Settings) -> Result<Option<Database>, String> {
        disk.flip_bit(&self.file, self.at, self.bit);
        match settings.open(disk) {
            Ok(db) => Ok(Some(db)),
            Err(Error::Corruption { .. }) => Ok(None),
            Err(error) => Err(format!("open: {error}")),
        }
    }
}

/// Bits of the files whose names begin with `prefix`: a sample, or all.
fn flips(disk: &SimDisk, prefix: &str) -> Vec<Flip> {
    let files: Vec<(String, u64)> = disk
        .files()
        .into_iter()
        .filter(|(name, len)| name.starts_with(prefix) && *len > 0)
        .collect();
    let bits: u64 = files.iter().map(|(_, len)| len * 8).sum();
    let wanted = (setting("RIGHTLINK_FLIPS", FEW_FLIPS) as u64).min(bits);
    let mut rng = Rng::from_seed(SEED);
    let flip = |number: u64| {
        let mut rest = if wanted == bits { number } else { rng.below(bits) };
        for (file, len) in &files {
            if rest < len * 8 {
                return Flip { file: file.clone(), at: rest / 8, bit: (rest % 8) as u32 };
            }
            rest -= len * 8;
        }
        unreachable!("the number is below the sum");
    };
    (0..wanted).map(flip).collect()
}

fn flip_name(flip: &Flip) -> String {
    format!("bit {} of byte {} of {}", flip.bit, flip.at, flip.file)
}

/// A flipped bit of the log: it opens to a prefix that holds all but the last commit, whose
/// successor would have said that it was durable, or refuses as damaged.
#[test]
fn a_flipped_bit_of_the_log_loses_nothing_silently() {
    for checkpointed in [false, true] {
        let mut script = filled(60);
        if checkpointed {
            script.checkpoint().expect("no fault");
        }
        script.kill(vec![]);
        let last = script.states.len() - 1;
        let floor = if checkpointed { last } else { last - 1 };
        let states: Vec<Content> = script.states.iter().map(|s| s.content.clone()).collect();
        let (disk, settings) = (script.disk.snapshot(), script.settings);
        let check = move |flip: &Flip| {
            let disk = disk.snapshot();
            let Some(db) = flip.open(&disk, settings)? else { return Ok(()) };
            let found = oracle::read(&db)?;
            disk.crash_at(disk.op_count());
            match states.iter().rposition(|state| *state == found) {
                Some(state) if state >= floor => Ok(()),
                state => Err(format!("state {state:?} found, at least {floor} was durable")),
            }
        };
        let mut flips = flips(&script.disk, "wal/");
        flips.extend(self::flips(&script.disk, "control"));
        each(flips, flip_name, check);
    }
}

/// A flipped bit of a data file or of the double-write area is reported, or changes nothing.
#[test]
fn a_flipped_bit_of_the_data_is_reported_or_harmless() {
    let mut script = filled(100);
    script.vacuum().expect("no fault");
    script.checkpoint().expect("no fault");
    script.transact(|script, tx| tx.delete(script, "t", 5)).expect("no fault");
    let expected = script.states.last().expect("a state").content.clone();
    script.close().expect("no fault");
    let (disk, settings) = (script.disk.snapshot(), script.settings);
    let check = move |flip: &Flip| {
        let disk = disk.snapshot();
        let Some(db) = flip.open(&disk, settings)? else { return Ok(()) };
        let found = oracle::read(&db);
        disk.crash_at(disk.op_count());
        match found {
            Ok(found) if found == expected => Ok(()),
            Ok(found) => Err(format!("not what was written: {}", oracle::summary(&found))),
            Err(what) if what.contains("corruption in") || what.starts_with("verify found") => {
                Ok(())
            }
            Err(what) => Err(what),
        }
    };
    let mut flips = flips(&script.disk, "data/");
    flips.extend(self::flips(&script.disk, "double"));
    each(flips, flip_name, check);
}
