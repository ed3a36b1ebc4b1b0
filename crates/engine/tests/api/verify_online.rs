//! No false alarms: verify runs again and again beside everything that can be done meanwhile.
//!
//! Some tests do one thing at one point of a run, so that they fail every time; the others do
//! all of it at random, for `RIGHTLINK_VERIFY_SECONDS` (1).

use std::time::Duration;

use rightlink::{
    AlterTable, Busy, CheckSchema, ColumnSchema, Comparison, Database, Error, IndexMethod,
    IndexSchema, Isolation, LockMode, Options, Predicate, ScanOptions, SequenceChange,
    SequenceSchema, TableSchema, Transaction, TransactionOptions, Type, Value, Watch,
};
use rightlink_aio::SimDisk;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Env, Rng, points, thread};

fn seconds() -> u64 {
    std::env::var("RIGHTLINK_VERIFY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .column("n", Type::Int4)
        .primary_key(["id"])
        .index(IndexSchema::new("t_name").on("name"))
        .index(IndexSchema::new("t_name_id").on_desc("name").on("id"))
        .index(IndexSchema::new("t_hash").on("name").method(IndexMethod::Hash))
}

fn row(rng: &mut Rng, id: i64) -> Vec<Value> {
    let name = format!("{:0width$}", rng.below(50), width = 1 + rng.below(60) as usize);
    vec![Value::Int8(id), Value::Text(name), Value::Int4(rng.below(1000) as i32)]
}

/// One random transaction, ended at random; lost races are part of the game.
fn work(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    let mut txn = db.begin();
    for _ in 0..=rng.below(8) {
        let savepoint = rng.chance(1, 4).then(|| txn.savepoint());
        let id = rng.below(2000) as i64;
        match (txn.get("t", &[Value::Int8(id)])?, rng.below(4)) {
            (None, _) => drop(txn.insert("t", &row(rng, id))?),
            (Some(found), 0) => drop(txn.delete("t", found.id)?),
            (Some(found), 1) => {
                let name = row(rng, id).swap_remove(1);
                txn.update("t", found.id, &[("name", name)])?;
            }
            (Some(found), _) => {
                txn.update("t", found.id, &[("n", Value::Int4(rng.below(9) as i32))])?;
            }
        }
        if let Some(savepoint) = savepoint.filter(|_| rng.chance(1, 2)) {
            txn.rollback_to(savepoint)?;
        }
    }
    if rng.chance(1, 4) {
        txn.rollback();
        return Ok(());
    }
    txn.commit()
}

/// Rows of a range come or go as one statement.
fn bulk(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    let mut txn = db.begin();
    let first = 10_000 + rng.below(4) as i64 * 300;
    let keys = ScanOptions::index("t_pkey").from(vec![Value::Int8(first)]);
    let keys = keys.to(vec![Value::Int8(first + 299)]);
    let ids =
        txn.scan("t", &keys)?.map(|row| row.map(|row| row.id)).collect::<Result<Vec<_>, _>>()?;
    match ids.is_empty() {
        true => drop(
            txn.insert_many("t", &(first..first + 300).map(|id| row(rng, id)).collect::<Vec<_>>())?,
        ),
        false if rng.chance(1, 2) => drop(txn.delete_many("t", &ids)?),
        false => drop(txn.update_many("t", &ids, &[("name", Value::Text("one".into()))])?),
    }
    if rng.chance(1, 5) { Ok(()) } else { txn.commit() }
}

/// What a query planner reads: all rows of a snapshot, and some by key.
fn read(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    let mut txn = db.begin();
    let options = match rng.below(3) {
        0 => ScanOptions::all(),
        1 => ScanOptions::index("t_name").columns(["name"]).backward(),
        _ => ScanOptions::index("t_name_id").any_order(),
    };
    txn.scan("t", &options)?.try_for_each(|row| row.map(drop))?;
    let keys: Vec<_> = (0..20).map(|_| vec![Value::Int8(rng.below(2000) as i64)]).collect();
    txn.fetch_many("t", "t_pkey", &keys).map(drop)
}

/// Builds beside writers: those that succeed, that fail, and that are ended half way.
fn build(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    let extra = IndexSchema::new("t_x").on("n").on("name");
    match rng.below(4) {
        0 => {
            db.create_index_online("t", &extra)?;
            db.with_retry(|txn| txn.drop_index("t_x"))
        }
        1 => {
            let unique = IndexSchema::new("t_y").on("n").unique();
            match db.create_index_online("t", &unique) {
                Ok(()) => db.with_retry(|txn| txn.drop_index("t_y")),
                Err(Error::UniqueViolation { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
        2 => {
            let (asked, most) = (AtomicU64::new(0), rng.below(12));
            let go_on = || match asked.fetch_add(1, Ordering::Relaxed) < most {
                true => Ok(()),
                false => Err(Error::Cancelled("as asked".into())),
            };
            let watch = Watch { go_on: &go_on, ..Watch::default() };
            let ended = db.reindex_with("t", Some("t_name"), watch);
            ended.map(drop)
        }
        _ => {
            let names = ["t_pkey", "t_name", "t_name_id", "t_hash"];
            db.reindex("t", Some(names[rng.below(4) as usize])).map(drop)
        }
    }
}

/// Changes of what table `d` is, and of what else there is, each of which may be rolled back.
fn define(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    let mut txn = db.begin();
    txn.insert("d", &[Value::Int8(rng.below(1 << 40) as i64), Value::Int4(5)])?;
    let change = rng.below(12);
    defined(&mut txn, change)?;
    if rng.chance(1, 4) {
        return Ok(());
    }
    txn.commit()?;
    // Back to what it was.
    db.with_retry(|txn| match change {
        0 => txn.alter_table("d", AlterTable::DropColumn("more")),
        1 => txn.alter_table("d", AlterTable::RenameColumn { column: "b", to: "n" }),
        2 => txn.alter_table("e", AlterTable::Rename("d")),
        3 => txn.alter_table(
            "d",
            AlterTable::ColumnType {
                column: "n",
                to: Type::Int4,
                convert: &mut |value| match value {
                    Value::Int8(number) => Ok(Value::Int4(number as i32)),
                    other => Ok(other),
                },
                of_row: None,
            },
        ),
        4 => txn.drop_table("u"),
        5 => txn.drop_index("d_n"),
        6 => txn.drop_sequence("s"),
        7 => txn.alter_table("d", AlterTable::DropCheck("d_small")),
        _ => Ok(()),
    })
}

fn defined(txn: &mut Transaction, change: u64) -> Result<(), Error> {
    match change {
        0 => txn.alter_table(
            "d",
            AlterTable::AddColumn(&ColumnSchema::new("more", Type::Text).nullable()),
        ),
        1 => txn.alter_table("d", AlterTable::RenameColumn { column: "n", to: "b" }),
        2 => txn.alter_table("d", AlterTable::Rename("e")),
        3 => txn.alter_table(
            "d",
            AlterTable::ColumnType {
                column: "n",
                to: Type::Int8,
                convert: &mut |value| match value {
                    Value::Int4(number) => Ok(Value::Int8(number.into())),
                    other => Ok(other),
                },
                of_row: None,
            },
        ),
        4 => {
            let id = ColumnSchema::new("id", Type::Int8).generated();
            let other = TableSchema::new("u").with_column(id).nullable("x", Type::Text);
            txn.create_table(&other.primary_key(["id"]))?;
            txn.insert_into("u").columns(&["x"]).rows(&[vec![Value::Null]]).map(drop)
        }
        5 => txn.create_index("d", &IndexSchema::new("d_n").on("n")),
        6 => {
            txn.create_sequence(&SequenceSchema::new("s"))?;
            txn.next_value("s").map(drop)
        }
        7 => {
            let small = Predicate::new().compare("n", Comparison::Less, Value::Int4(9));
            txn.alter_table(
                "d",
                AlterTable::AddCheck(&CheckSchema { name: "d_small".into(), predicate: small }),
            )
        }
        8 => txn.truncate("d", true),
        9 => txn.alter_table("d", AlterTable::Nullable { column: "n", nullable: true }),
        10 => txn.alter_sequence(
            "forever",
            SequenceChange::Redefine(&mut |found, mut at| {
                at.value += 10;
                Ok((found.schema.clone(), at))
            }),
        ),
        _ => txn.next_value("forever").map(drop),
    }
}

/// May two who work at the same time have this happen to one of them?
fn is_lost_race(error: &Error) -> bool {
    matches!(
        error,
        Error::Conflict { .. }
            | Error::UniqueViolation { .. }
            | Error::Cancelled(_)
            | Error::LockTimeout { .. }
            | Error::NotFound(_)
            | Error::AlreadyExists(_)
    )
}

fn fill(db: &Database) {
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    let id = ColumnSchema::new("id", Type::Int8).generated();
    let other = TableSchema::new("d").with_column(id).column("n", Type::Int4);
    txn.create_table(&other.primary_key(["id"])).unwrap();
    txn.create_sequence(&SequenceSchema::new("forever")).unwrap();
    let mut rng = Rng::from_seed(7);
    let rows: Vec<_> = (0..1000).map(|id| row(&mut rng, id)).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.insert_into("d").columns(&["n"]).rows(&vec![vec![Value::Int4(5)]; 50]).unwrap();
    txn.commit().unwrap();
}

type Task = fn(&Database, &mut Rng) -> Result<(), Error>;

fn maintain(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    std::thread::sleep(Duration::from_millis(5));
    match rng.below(6) {
        0 => db.checkpoint(),
        1 => db.evict().map(drop),
        _ => db.vacuum(None).map(drop),
    }
}

fn copy(db: &Database, _: &mut Rng) -> Result<(), Error> {
    let dir = tempfile::tempdir().unwrap();
    db.backup(dir.path().join("copy")).map(drop)
}

/// Everything else at once, for a while, with a pool that is too small for it.
fn beside(tasks: &[Task]) {
    let dir = tempfile::tempdir().unwrap();
    let options = Database::options().memory(16 << 20).pool_pages(300);
    let options = options.max_log_bytes(4 << 20).log_segment_bytes(1 << 18);
    let db = options.open(dir.path().join("db")).unwrap();
    fill(&db);
    let stop = AtomicBool::new(false);
    let done: Vec<AtomicU64> = tasks.iter().map(|_| AtomicU64::new(0)).collect();
    let mut rounds = 0;
    std::thread::scope(|scope| {
        for (seed, (task, done)) in tasks.iter().zip(&done).enumerate() {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed as u64);
                while !stop.load(Ordering::Relaxed) {
                    match task(db, &mut rng) {
                        Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                        Err(error) if is_lost_race(&error) => {}
                        Err(error) => {
                            stop.store(true, Ordering::Relaxed);
                            panic!("task {seed}: {error}");
                        }
                    }
                }
            });
        }
        let clock = Clock::system();
        let started = clock.now();
        let mut findings = Vec::new();
        while clock.now().since(started) < Duration::from_secs(seconds())
            && findings.is_empty()
            && !stop.load(Ordering::Relaxed)
        {
            match db.verify() {
                Ok(report) => findings = report.findings,
                Err(Error::Conflict { .. }) => {}
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    panic!("in round {rounds}: {error}");
                }
            }
            rounds += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(findings, [], "in round {rounds}");
    });
    println!("{rounds} rounds beside {done:?}");
    assert!(rounds > 0);
    assert_eq!(db.verify().unwrap().findings, []);
    db.close().unwrap();
    let offline = Database::verify_offline(dir.path().join("db")).unwrap();
    assert_eq!(offline.findings, []);
}

#[test]
fn no_false_alarm_beside_writers_and_vacuum() {
    beside(&[work, work, maintain]);
}

#[test]
fn no_false_alarm_beside_builds_of_indexes() {
    beside(&[work, bulk, build, maintain]);
}

#[test]
fn no_false_alarm_beside_definitions() {
    beside(&[work, define, read, maintain]);
}

#[test]
fn no_false_alarm_beside_all_at_once() {
    beside(&[work, work, bulk, read, build, define, maintain, copy]);
}

// One thing at one point.

fn simulated(disk: &SimDisk) -> Options {
    Database::options().memory(16 << 20).pool_pages(300).simulation(Env::simulated(1), disk.clone())
}

/// Rows go, their row ids are used again, and only what is in place is cleaned.
fn churn(db: &Database) {
    let mut rng = Rng::from_seed(9);
    for _ in 0..2 {
        db.with_retry(|txn| {
            let rows = txn.scan("t", &ScanOptions::all())?.collect::<Result<Vec<_>, _>>()?;
            let gone: Vec<_> = rows.iter().step_by(3).map(|row| row.id).collect();
            txn.delete_many("t", &gone)?;
            let ids = rows.iter().map(|row| match row.values[0] {
                Value::Int8(id) => id,
                _ => unreachable!("an int8"),
            });
            let first = 1 + ids.max().expect("there are rows");
            let rows: Vec<_> = (first..first + 200).map(|id| row(&mut rng, id)).collect();
            txn.insert_many("t", &rows).map(drop)
        })
        .unwrap();
        db.vacuum(Some("t")).unwrap();
    }
}

/// Runs `work` once, when a verification comes to `point` for the `nth` time. False if it never
/// does.
fn verify_with(db: &Database, (point, nth): (&'static str, u64), work: fn(&Database)) -> bool {
    let (passed, inner) = (AtomicU64::new(0), db.clone());
    let met = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&met);
    let hook = points::install_local(move |name| {
        if name == point && passed.fetch_add(1, Ordering::Relaxed) == nth {
            note.store(true, Ordering::Relaxed);
            work(&inner);
        }
    });
    let findings = db.verify().unwrap().findings;
    drop(hook);
    assert_eq!(findings, [], "at {point}, {nth}");
    assert_eq!(db.verify().unwrap().findings, [], "afterwards");
    met.load(Ordering::Relaxed)
}

/// Each used to be a thousand findings: entries of rows that vacuum had removed from the new index
/// alone, and rows that nobody had entered into the old one.
#[test]
fn an_index_that_is_replaced_is_not_judged() {
    let works: [fn(&Database); 3] = [
        |db| {
            db.reindex("t", None).unwrap();
            churn(db);
        },
        |db| {
            db.reindex("t", Some("t_name")).unwrap();
            db.reindex("t", Some("t_hash")).unwrap();
            churn(db);
            db.reindex("t", Some("t_name")).unwrap();
            churn(db);
        },
        |db| {
            db.create_index_online("t", &IndexSchema::new("t_x").on("n")).unwrap();
            churn(db);
            db.reindex("t", Some("t_x")).unwrap();
            churn(db);
        },
    ];
    for work in works {
        for point in ["verify.locked", "verify.structure-checked", "verify.checked"] {
            for nth in 0.. {
                let db = simulated(&SimDisk::new(3)).open("").unwrap();
                fill(&db);
                if !verify_with(&db, (point, nth), work) {
                    assert!(nth > 1, "{point} is passed");
                    break;
                }
            }
        }
    }
}

/// An index that takes another's place while a verification runs is checked by it.
#[test]
fn what_took_the_place_is_judged() {
    let disk = SimDisk::new(3);
    let db = simulated(&disk).open("").unwrap();
    fill(&db);
    let before = db.verify().unwrap();
    let (inner, tables) = (db.clone(), AtomicU64::new(0));
    let hook = points::install_local(move |name| {
        // The second table is `t`.
        if name == "verify.locked" && tables.fetch_add(1, Ordering::Relaxed) == 1 {
            inner.reindex("t", None).unwrap();
        }
    });
    let beside = db.verify().unwrap();
    drop(hook);
    assert_eq!(beside.findings, []);
    assert_eq!((beside.rows, beside.entries), (before.rows, before.entries));
}

/// A build that is given up leaves an index that nobody keeps: whoever looks at it is told.
#[test]
fn an_index_that_is_given_up_is_not_judged() {
    for again in [false, true] {
        let db = simulated(&SimDisk::new(3)).open("").unwrap();
        fill(&db);
        // 1: the index is kept; 2: the verification has it; 3: it is given up.
        let stage = Arc::new(AtomicU64::new(0));
        let wait_for = |stage: &AtomicU64, wanted| {
            while stage.load(Ordering::SeqCst) < wanted {
                thread::yield_now();
            }
        };
        let (builder, at) = (db.clone(), Arc::clone(&stage));
        let building = thread::spawn("builds", move || {
            let (reached, ended) = (Arc::clone(&at), Arc::clone(&at));
            // Somebody who is waited for then, so that the build asks whether it is to go on.
            let other = Arc::new(Mutex::new(None));
            let (db, kept) = (builder.clone(), Arc::clone(&other));
            let _hook = points::install_local(move |name| {
                if name == "online.kept" {
                    let mut txn = db.begin();
                    txn.lock_table("t", LockMode::Write, Busy::Wait).unwrap();
                    *kept.lock() = Some(txn);
                    reached.store(1, Ordering::SeqCst);
                    wait_for(&reached, 2);
                }
            });
            let go_on = || match ended.load(Ordering::SeqCst) {
                0 => Ok(()),
                _ => Err(Error::Cancelled("as asked".into())),
            };
            let watch = Watch { go_on: &go_on, ..Watch::default() };
            let built = match again {
                true => builder.reindex_with("t", Some("t_name"), watch).map(drop),
                false => {
                    let index = IndexSchema::new("t_x").on("n");
                    builder.create_index_online_with("t", &index, watch)
                }
            };
            assert!(matches!(built, Err(Error::Cancelled(_))), "{built:?}");
            drop(other.lock().take());
            at.store(3, Ordering::SeqCst);
        });
        wait_for(&stage, 1);
        let (inner, at) = (db.clone(), Arc::clone(&stage));
        let seen = AtomicU64::new(0);
        let hook = points::install_local(move |name| {
            // The second table is `t`.
            if name == "verify.locked" && seen.fetch_add(1, Ordering::Relaxed) == 1 {
                at.store(2, Ordering::SeqCst);
                wait_for(&at, 3);
                churn(&inner);
            }
        });
        let findings = db.verify().unwrap().findings;
        drop(hook);
        building.join().unwrap();
        assert_eq!(findings, [], "again: {again}");
        assert_eq!(db.verify().unwrap().findings, []);
    }
}

/// Tables change their names, their files and their columns before it is their turn, and sequences
/// come and go.
#[test]
fn what_has_changed_meanwhile_is_checked_as_it_is() {
    for change in 0..12 {
        for point in ["verify.next-table", "verify.next-sequence"] {
            for nth in 0.. {
                let db = simulated(&SimDisk::new(3)).open("").unwrap();
                fill(&db);
                let inner = db.clone();
                let (met, passed) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
                let note = Arc::clone(&met);
                let hook = points::install_local(move |name| {
                    if name == point && passed.fetch_add(1, Ordering::Relaxed) == nth {
                        note.store(true, Ordering::Relaxed);
                        inner.with_retry(|txn| defined(txn, change)).unwrap();
                    }
                });
                let findings = db.verify().unwrap().findings;
                drop(hook);
                assert_eq!(findings, [], "{change} at {point}, {nth}");
                let report = db.verify().unwrap();
                assert_eq!(report.findings, [], "after {change}");
                if !met.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    }
}

/// Sequences, tables and the columns of one are dropped in the moment before they are looked at.
#[test]
fn what_is_dropped_meanwhile_is_not_missed() {
    let works: [fn(&Database); 4] = [
        |db| db.with_retry(|txn| txn.drop_sequence("forever")).unwrap(),
        |db| db.with_retry(|txn| txn.drop_table("d")).unwrap(),
        |db| db.with_retry(|txn| txn.drop_table("t")).unwrap(),
        |db| {
            db.with_retry(|txn| {
                txn.drop_table("d")?;
                let other = TableSchema::new("d").column("x", Type::Text);
                txn.create_table(&other.index(IndexSchema::new("d_x").on("x")))?;
                txn.insert("d", &[Value::Text("x".into())]).map(drop)
            })
            .unwrap();
        },
    ];
    for work in works {
        for point in ["verify.next-table", "verify.next-sequence"] {
            for nth in 0.. {
                let db = simulated(&SimDisk::new(3)).open("").unwrap();
                fill(&db);
                if !verify_with(&db, (point, nth), work) {
                    break;
                }
            }
        }
    }
}

/// A table that has another name when its turn comes is found by that.
#[test]
fn a_table_that_is_renamed_is_checked_all_the_same() {
    let db = simulated(&SimDisk::new(3)).open("").unwrap();
    fill(&db);
    let before = db.verify().unwrap();
    let (inner, times) = (db.clone(), AtomicU64::new(0));
    let hook = points::install_local(move |name| {
        let names = ["t", "x", "y", "z"];
        if name != "verify.next-table" {
            return;
        }
        let at = times.fetch_add(1, Ordering::Relaxed) as usize;
        if at + 1 < names.len() {
            inner
                .with_retry(|txn| txn.alter_table(names[at], AlterTable::Rename(names[at + 1])))
                .unwrap();
        }
    });
    let beside = db.verify().unwrap();
    drop(hook);
    assert_eq!(beside.findings, []);
    assert_eq!(beside.entries, before.entries);
}

/// Readers of an old snapshot keep what a verification must not miss.
#[test]
fn an_old_snapshot_is_no_finding() {
    let db = simulated(&SimDisk::new(3)).open("").unwrap();
    fill(&db);
    let options = TransactionOptions { isolation: Isolation::Snapshot, ..Default::default() };
    let mut old = db.begin_with(options);
    assert!(old.get("t", &[Value::Int8(5)]).unwrap().is_some());
    for point in ["verify.locked", "verify.structure-checked", "verify.index", "verify.checked"] {
        for nth in 0..4 {
            verify_with(&db, (point, nth), |db| {
                let mut rng = Rng::from_seed(3);
                for _ in 0..20 {
                    work(db, &mut rng).unwrap();
                }
                db.vacuum(Some("t")).unwrap();
            });
        }
    }
    assert!(old.get("t", &[Value::Int8(5)]).unwrap().is_some());
}
