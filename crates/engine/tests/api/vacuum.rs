//! Vacuum through the public names: progress, cancelling, snapshots that hold rows back.

use rightlink_env::Broken;
use std::time::Duration;

use rightlink::{
    Database, Error, IndexSchema, Isolation, Options, ScanOptions, TableSchema, TransactionOptions,
    Type, VacuumPhase, VacuumReport, Value,
};
use rightlink_aio::SimDisk;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Env, points, thread};

const ROWS: i64 = 20_000;

/// `t(id, n)`, with an index each, on a simulated disk and clock.
fn database(env: &Env, set: impl FnOnce(Options) -> Options) -> Database {
    let options = Database::options().simulation(env.clone(), SimDisk::new(5));
    let db = set(options).open("db").unwrap();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("n", Type::Int8)
        .primary_key(["id"])
        .index(IndexSchema::new("t_n").on("n"));
    let mut txn = db.begin();
    txn.create_table(&schema).unwrap();
    let row = |id: i64| vec![Value::Int8(id), Value::Int8(id * 7919 % ROWS)];
    txn.insert_many("t", &(0..ROWS).map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    db
}

fn delete_below(db: &Database, id: i64) {
    let mut txn = db.begin();
    let scan = ScanOptions::index("t_pkey").to(vec![Value::Int8(id - 1)]);
    let rows: Vec<_> = txn.scan("t", &scan).unwrap().map(|row| row.unwrap().id).collect();
    assert_eq!(txn.delete_many("t", &rows).unwrap(), rows.len() as u64);
    txn.commit().unwrap();
}

#[test]
fn a_cancelled_vacuum_tells_how_far_it_was_and_the_next_goes_on() {
    let db = database(&Env::simulated(5), |options| options);
    delete_below(&db, 9000);
    assert_eq!((db.vacuum_progress(), db.cancel_vacuum(None)), (Vec::new(), 0));
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let hook = {
        let (db, seen) = (db.clone(), Arc::clone(&seen));
        points::install_local(move |point| {
            let mut seen = seen.lock();
            if point == "btree.vacuum.visit" && !db.vacuum_progress().is_empty() {
                seen.extend(db.vacuum_progress());
                if seen.len() == 40 {
                    assert_eq!(db.cancel_vacuum(Some("u")), 0);
                    assert_eq!(db.cancel_vacuum(Some("t")), 1);
                }
            }
        })
    };
    let cancelled = db.vacuum(Some("t"));
    drop(hook);
    assert!(matches!(cancelled, Err(Error::Cancelled(_))), "{cancelled:?}");
    let seen = std::mem::take(&mut *seen.lock());
    let (first, last) = (&seen[0], &seen[39]);
    assert_eq!((first.table.as_str(), first.automatic), ("t", false));
    assert_eq!((first.phase, first.dead_rows), (VacuumPhase::Indexes, 9000));
    assert_eq!(first.heap_blocks_done, first.heap_blocks);
    let most = db.stats().get("memory_limit_bytes").unwrap() / 16;
    assert!((1..=most).contains(&first.dead_row_bytes), "{} of {most}", first.dead_row_bytes);
    assert!(last.index_blocks_done > first.index_blocks_done && last.index_blocks > 50);
    assert_eq!(db.vacuum_progress(), []);
    let report = db.vacuum(Some("t")).unwrap();
    assert_eq!(report.rows_removed, 9000);
    assert!(db.verify().unwrap().is_clean());
}

/// An index that was passed over before the interruption is not passed over again.
#[test]
fn what_a_cancelled_vacuum_did_stays_done() {
    let db = database(&Env::simulated(5), |options| options);
    delete_below(&db, 9000);
    let blocks = |name: &str| db.inspect(name, None).unwrap().len();
    let first = blocks("t_pkey").min(blocks("t_n"));
    let visits: Arc<Mutex<usize>> = Arc::default();
    let watch = |stop_at: Option<usize>| {
        let (db, visits) = (db.clone(), Arc::clone(&visits));
        *visits.lock() = 0;
        points::install_local(move |point| {
            if point == "btree.vacuum.visit" {
                *visits.lock() += 1;
                if Some(*visits.lock()) == stop_at {
                    db.cancel_vacuum(None);
                }
            }
        })
    };
    let whole = blocks("t_pkey") + blocks("t_n") - 2;
    let hook = watch(Some(whole - 5));
    assert!(db.vacuum(Some("t")).is_err());
    drop(hook);
    let hook = watch(None);
    assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 9000);
    drop(hook);
    let again = *visits.lock();
    assert!(again <= whole - first + 1, "{again} of {whole} index pages were visited again");
    assert!(db.verify().unwrap().is_clean());
}

/// A vacuum that waits for another one of its table ends when it is asked to, and when it has
/// waited as long as for a lock: it could not be reached until it had its turn. The other goes on
/// here only when it has ended.
#[test]
fn a_vacuum_that_waits_for_another_can_be_cancelled() {
    for cancel in [true, false] {
        let patience = (!cancel).then_some(Duration::from_secs(5));
        let db = database(&Env::simulated(5), |options| options.lock_timeout(patience));
        delete_below(&db, 9000);
        let waited: Arc<Mutex<Option<_>>> = Arc::default();
        let hook = {
            let (db, waited) = (db.clone(), Arc::clone(&waited));
            points::install_local(move |point| {
                if point == "vacuum.before-indexes" && waited.lock().is_none() {
                    *waited.lock() = Some(waiting_vacuum(&db, cancel));
                }
            })
        };
        let first = db.vacuum(Some("t"));
        drop(hook);
        let second = waited.lock().take().expect("it has ended");
        let as_asked = match second {
            Err(Error::Cancelled(_)) => cancel,
            Err(Error::LockTimeout { .. }) => !cancel,
            _ => false,
        };
        assert!(as_asked, "cancelled: {cancel}, ended by {second:?}");
        assert_eq!(first.is_err(), cancel, "both were asked to end");
        db.vacuum(Some("t")).unwrap();
        assert!(db.verify().unwrap().is_clean());
    }
}

/// Begins a vacuum of the table that is being vacuumed, and cancels it, if wanted, when it waits.
fn waiting_vacuum(db: &Database, cancel: bool) -> rightlink::Result<VacuumReport> {
    let theirs = db.clone();
    let vacuum = thread::spawn("waits", move || {
        let cancelled = theirs.clone();
        let _hook = points::install_local(move |point| {
            if cancel && point == "vacuum.waits" {
                assert_eq!(cancelled.cancel_vacuum(Some("t")), 2);
            }
        });
        theirs.vacuum(Some("t"))
    });
    vacuum.join().expect("no panic")
}

#[test]
fn snapshots_say_what_they_hold_back() {
    let env = Env::simulated(5);
    let db = database(&env, |options| options);
    assert_eq!(db.snapshots(), []);
    let mut reader = db.begin();
    assert!(reader.get("t", &[Value::Int8(1)]).unwrap().is_some());
    env.clock.sleep(Duration::from_secs(3));
    delete_below(&db, 10);
    delete_below(&db, 20);
    let held = db.snapshots();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].transaction, held[0].snapshots), (reader.number(), 1));
    assert_eq!(held[0].commits_since, 2);
    assert!(held[0].age >= Duration::from_secs(3) && held[0].xids_since >= 2, "{held:?}");
    drop(reader);
    assert_eq!(db.snapshots(), []);
}

/// Rows that a snapshot of eleven seconds sees are removed where ten are allowed. It says so
/// instead of leaving them out.
fn an_old_snapshot_is_let_go() {
    let env = Env::simulated(5);
    let limit = Duration::from_secs(10);
    let db = database(&env, |options| options.max_snapshot_age(Some(limit)));
    let mut old = db.begin();
    let mut rows = old.scan("t", &ScanOptions::index("t_pkey")).unwrap();
    assert!(rows.next().unwrap().is_ok());
    env.clock.sleep(Duration::from_secs(6));
    let mut young = db.begin();
    let mut seen = young.scan("t", &ScanOptions::index("t_n")).unwrap();
    assert!(seen.next().unwrap().is_ok());
    delete_below(&db, 9000);
    assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 0, "nobody is too old");
    env.clock.sleep(Duration::from_secs(5));
    drop(seen);
    drop(young);
    assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 9000);
    let rest: Result<Vec<_>, Error> = rows.collect();
    assert!(matches!(rest, Err(Error::SnapshotTooOld { limit: told }) if told == limit));
    let later = old.get("t", &[Value::Int8(9500)]);
    assert!(matches!(later, Err(Error::SnapshotTooOld { .. })), "{later:?}");
    let written = old.insert("t", &[Value::Int8(-1), Value::Int8(0)]);
    assert!(matches!(written, Err(Error::SnapshotTooOld { .. })), "{written:?}");
    drop(old);
    let mut new = db.begin();
    assert_eq!(new.scan("t", &ScanOptions::all()).unwrap().count() as i64, ROWS - 9000);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_snapshot_that_is_too_old_fails_its_next_read() {
    an_old_snapshot_is_let_go();
    let caught =
        points::caught(Broken::ExpiredSnapshotNotTold, &[("too old", an_old_snapshot_is_let_go)]);
    assert_eq!(caught, Some("too old"));
}

/// A statement that writes is not cut short, and under read committed the next one has a snapshot
/// of its own.
#[test]
fn writes_are_never_cut_short() {
    let env = Env::simulated(5);
    let db = database(&env, |options| options.max_snapshot_age(Some(Duration::from_secs(10))));
    let isolation = Isolation::ReadCommitted;
    let mut txn = db.begin_with(TransactionOptions { isolation, ..Default::default() });
    let moved = txn.write("t", |writer| {
        let mut moved = 0;
        for row in writer.scan(&ScanOptions::index("t_pkey").to(vec![Value::Int8(99)]))? {
            let row = row?;
            env.clock.sleep(Duration::from_secs(1));
            db.vacuum(Some("t"))?;
            let written = writer
                .update(row.id, &mut |_, old| Ok(Some(vec![old[0].clone(), Value::Int8(-1)])))?;
            moved += i32::from(matches!(written, rightlink::Written::Done(_)));
        }
        Ok::<_, Error>(moved)
    });
    assert_eq!(moved.unwrap(), 100);
    env.clock.sleep(Duration::from_secs(20));
    assert!(txn.get("t", &[Value::Int8(5000)]).unwrap().is_some());
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}
