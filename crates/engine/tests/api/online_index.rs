//! Indexes built, and built anew, while writers go on: equal to a rebuild whatever happens
//! meanwhile, and nothing stays of a build that fails.
//!
//! Invariants: each test ends with `verify`, which compares heap and indexes.
//! Does not do: crashes (`crash.rs`, scenarios `online-index` and `reindex`), who is held up
//! (`held_up.rs`).

use rightlink::{
    AlterTable, Busy, ColumnSchema, Database, Error, IndexMethod, IndexSchema, Isolation, LockMode,
    OnConflict, Options, Predicate, ScanOptions, TableSchema, Transaction, TransactionOptions,
    Type, Upserted, Value,
};
use rightlink_aio::SimDisk;
use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicBool, AtomicI64, Mutex, Ordering};
use rightlink_env::{Env, Rng, points, thread};

fn options(disk: &SimDisk) -> Options {
    Database::options().memory(16 << 20).pool_pages(300).simulation(Env::simulated(1), disk.clone())
}

fn row(id: i64, tag: i64) -> Vec<Value> {
    vec![
        Value::Int8(id),
        Value::Int8(tag),
        Value::Text(format!("{:05}", id * 7919 % 10_000)),
        Value::Int8(0),
    ]
}

/// A table with a key; `tag` and `name` have no index, and updates of them are heap-only.
fn filled(disk: &SimDisk, rows: i64) -> Database {
    let db = options(disk).open("").unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("tag", Type::Int8)
        .column("name", Type::Text)
        .column("spare", Type::Int8)
        .primary_key(["id"])
        .fillfactor(80);
    txn.create_table(&schema).unwrap();
    txn.insert_many("t", &(0..rows).map(|id| row(id, id % 50)).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    db
}

fn by_tag() -> IndexSchema {
    IndexSchema::new("t_tag").on("tag").on("name")
}

fn check(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn rows(db: &Database, options: &ScanOptions) -> Vec<Vec<Value>> {
    let mut txn = db.begin();
    let mut rows: Vec<_> = txn.scan("t", options).unwrap().map(|row| row.unwrap().values).collect();
    rows.sort_by_key(|row| int(&row[0]));
    rows
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int8(value) => *value,
        other => panic!("{other:?} is no int8"),
    }
}

fn drop_index(db: &Database, name: &str) {
    let mut txn = db.begin();
    txn.drop_index(name).unwrap();
    txn.commit().unwrap();
}

#[test]
fn an_index_on_a_table_at_rest() {
    let db = filled(&SimDisk::new(3), 2000);
    db.create_index_online("t", &by_tag()).unwrap();
    assert_eq!(rows(&db, &ScanOptions::index("t_tag")), rows(&db, &ScanOptions::all()));
    let hash = IndexSchema::new("t_hash").on("name").method(IndexMethod::Hash);
    db.create_index_online("t", &hash).unwrap();
    let taken = db.create_index_online("t", &by_tag());
    assert!(matches!(taken, Err(Error::AlreadyExists(_))), "{taken:?}");
    assert_eq!(db.reindex("t", None).unwrap(), 3);
    assert_eq!(rows(&db, &ScanOptions::index("t_tag")), rows(&db, &ScanOptions::all()));
    let missing = db.reindex("t", Some("nothing"));
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    check(&db);
}

/// What is built is there after closing and opening, too, and what was replaced is not.
#[test]
fn built_indexes_survive_and_old_files_go() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, 2000);
    db.create_index_online("t", &by_tag()).unwrap();
    let files = || disk.files().iter().filter(|(name, _)| name.starts_with("data/")).count();
    let before = files();
    for _ in 0..3 {
        db.reindex("t", Some("t_tag")).unwrap();
    }
    assert_eq!(files(), before, "the files of replaced indexes go at once where nobody uses them");
    db.close().unwrap();
    let db = options(&disk).open("").unwrap();
    assert_eq!(rows(&db, &ScanOptions::index("t_tag")), rows(&db, &ScanOptions::all()));
    assert_eq!(files(), before);
    check(&db);
}

#[test]
fn a_thinned_index_is_dense_when_it_is_built_anew() {
    let db = filled(&SimDisk::new(3), 0);
    db.create_index_online("t", &by_tag()).unwrap();
    for id in 0..4000 {
        let mut txn = db.begin();
        txn.insert("t", &row(id * 7919 % 4000, id * 31 % 997)).unwrap();
        txn.commit().unwrap();
    }
    let blocks = || {
        let info = db.describe("t").unwrap();
        info.indexes.iter().find(|index| index.name == "t_tag").unwrap().blocks
    };
    let before = blocks();
    db.reindex("t", Some("t_tag")).unwrap();
    assert!(blocks() < before, "{before} blocks before, {} after", blocks());
    check(&db);
}

/// Writers of all kinds go on beside builds of all kinds, vacuum and checkpoints.
#[test]
fn builds_beside_writers_equal_a_rebuild() {
    let db = filled(&SimDisk::new(3), 1500);
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicI64::new(10_000));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (db, stop, next) = (db.clone(), Arc::clone(&stop), Arc::clone(&next));
            thread::spawn(&format!("writer-{worker}"), move || {
                let mut rng = Rng::from_seed(worker);
                while !stop.load(Ordering::SeqCst) {
                    match worker {
                        0 => upkeep(&db, &mut rng),
                        _ => write(&db, &mut rng, &next),
                    }
                }
            })
        })
        .collect();
    for round in 0..6 {
        retried(|| db.create_index_online("t", &by_tag()));
        let unique = IndexSchema::new("t_unique").on("name").on("id").unique();
        retried(|| db.create_index_online("t", &unique));
        let hash = IndexSchema::new("t_hash").on("tag").method(IndexMethod::Hash);
        retried(|| db.create_index_online("t", &hash));
        check(&db);
        retried(|| db.reindex("t", Some("t_tag")).map(drop));
        retried(|| db.reindex("t", Some("t_pkey")).map(drop));
        check(&db);
        let mut txn = db.begin();
        let by_index = txn.scan("t", &ScanOptions::index("t_tag")).unwrap().count();
        let by_heap = txn.scan("t", &ScanOptions::all()).unwrap().count();
        assert_eq!(by_index, by_heap, "round {round}");
        drop(txn);
        for name in ["t_tag", "t_unique", "t_hash"] {
            drop_index(&db, name);
        }
    }
    stop.store(true, Ordering::SeqCst);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    check(&db);
}

fn retried(mut build: impl FnMut() -> rightlink::Result<()>) {
    loop {
        match build() {
            Err(error) if error.is_retryable() => {}
            built => return built.unwrap(),
        }
    }
}

fn upkeep(db: &Database, rng: &mut Rng) {
    match rng.below(3) {
        0 => drop(db.vacuum(Some("t")).unwrap()),
        1 => db.checkpoint().unwrap(),
        _ => while db.step().unwrap() {},
    }
    thread::sleep(std::time::Duration::from_millis(1));
}

/// A transaction of a few changes; some are undone.
fn write(db: &Database, rng: &mut Rng, next: &AtomicI64) {
    let undo = rng.chance(1, 8);
    let seed = rng.next_u64();
    let done = db.with_retry(|txn| {
        let mut rng = Rng::from_seed(seed);
        for _ in 0..1 + rng.below(4) {
            change(txn, &mut rng, next)?;
        }
        match undo {
            true => Err(Error::Invalid("undone".into())),
            false => Ok(()),
        }
    });
    match done {
        Err(Error::Invalid(_)) if undo => {}
        // Two inserted the row that was not there.
        Err(Error::UniqueViolation { .. }) => {}
        done => done.unwrap(),
    }
}

fn change(txn: &mut Transaction, rng: &mut Rng, next: &AtomicI64) -> rightlink::Result<()> {
    let id = rng.below(1500) as i64;
    let found = txn.get("t", &[Value::Int8(id)])?;
    match (rng.below(6), found) {
        (0, Some(row)) => drop(txn.delete("t", row.id)?),
        (1..=3, Some(row)) => {
            let tag = Value::Int8(rng.below(50) as i64);
            txn.update("t", row.id, &[("tag", tag)])?;
        }
        (4, Some(row)) => {
            txn.update("t", row.id, &[("spare", Value::Int8(rng.below(9) as i64))])?;
        }
        (_, None) => drop(txn.insert("t", &row(id, 7))?),
        _ => {
            let first = next.fetch_add(5, Ordering::SeqCst);
            let many: Vec<_> = (first..first + 5).map(|id| row(id, id % 50)).collect();
            let ids = txn.insert_many("t", &many)?;
            txn.delete_many("t", &ids[..4])?;
        }
    }
    Ok(())
}

/// A transaction that used a table before an index was built uses that index afterwards, and never
/// one that was replaced meanwhile, though it keeps what it found under the name.
#[test]
fn a_running_transaction_meets_what_is_built_meanwhile() {
    for rule in [None, Some(Broken::KnownDefinitionNotRechecked)] {
        let broken = rule.map(points::break_rule);
        let db = filled(&SimDisk::new(3), 200);
        let read_committed = TransactionOptions {
            isolation: Isolation::ReadCommitted,
            ..TransactionOptions::default()
        };
        let mut txn = db.begin_with(read_committed);
        assert!(txn.get("t", &[Value::Int8(1)]).unwrap().is_some());
        db.create_index_online("t", &by_tag()).unwrap();
        let found = txn.scan("t", &ScanOptions::index("t_tag")).map(Iterator::count);
        drop(broken);
        if rule.is_some() {
            assert!(matches!(found, Err(Error::NotFound(_))), "nothing depends on the edition");
            continue;
        }
        assert_eq!(found.unwrap(), 200);
        db.reindex("t", Some("t_tag")).unwrap();
        let mut other = db.begin();
        other.insert("t", &row(9000, 7)).unwrap();
        other.commit().unwrap();
        assert_eq!(txn.scan("t", &ScanOptions::index("t_tag")).unwrap().count(), 201);
        assert!(txn.get("t", &[Value::Int8(9000)]).unwrap().is_some());
        drop(txn);
        check(&db);
    }
}

/// A statement found its table, an index was built anew, a row was committed that the old one does
/// not have, and only then did the statement take its snapshot: it saw the row everywhere but
/// there.
#[test]
fn a_statement_does_not_read_an_index_that_was_replaced_before_its_snapshot() {
    for rule in [None, Some(Broken::DefinitionOlderThanSnapshot)] {
        let db = filled(&SimDisk::new(3), 200);
        db.create_index_online("t", &by_tag()).unwrap();
        let read_committed = TransactionOptions {
            isolation: Isolation::ReadCommitted,
            ..TransactionOptions::default()
        };
        let mut txn = db.begin_with(read_committed);
        let (other, once) = (db.clone(), AtomicBool::new(true));
        let broken = rule.map(points::break_rule);
        let hook = points::install_local(move |name: &'static str| {
            if name == "read.resolved" && once.swap(false, Ordering::Relaxed) {
                other.reindex("t", Some("t_tag")).unwrap();
                let mut writer = other.begin();
                writer.insert("t", &row(9000, 7)).unwrap();
                writer.commit().unwrap();
            }
        });
        let found = txn.scan("t", &ScanOptions::index("t_tag")).map(Iterator::count);
        drop((hook, broken));
        assert_eq!(found.is_ok_and(|rows| rows == 201), rule.is_none(), "rule {rule:?}");
        drop(txn);
        check(&db);
    }
}

/// A scan that takes its rows from an index alone goes on while that index is replaced. Vacuum then
/// removes the entries of dead rows from the new one only, and finds their pages all-visible: what
/// the old one still says would have brought the rows back.
#[test]
fn a_scan_of_a_replaced_index_brings_no_dead_rows_back() {
    for rule in [None, Some(Broken::ReplacedIndexTrusted)] {
        let db = filled(&SimDisk::new(3), 4000);
        let mut txn = db.begin();
        for id in (0..4000).filter(|id| id % 10 == 9) {
            let found = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
            assert!(txn.delete("t", found.id).unwrap());
        }
        txn.commit().unwrap();
        let begun = Arc::new(Mutex::new(None));
        let (other, slot) = (db.clone(), Arc::clone(&begun));
        let hook = points::install_local(move |name: &'static str| {
            if name == "online.caught-up" {
                let mut txn = other.begin();
                let options = ScanOptions::index("t_pkey").columns(["id"]);
                let mut rows = txn.scan("t", &options).unwrap();
                let first = rows.next().unwrap().unwrap();
                assert_eq!(first.values, [Value::Int8(0)]);
                *slot.lock() = Some((txn, rows));
            }
        });
        db.reindex("t", Some("t_pkey")).unwrap();
        drop(hook);
        db.vacuum(Some("t")).unwrap();
        let broken = rule.map(points::break_rule);
        let (txn, rows) = begun.lock().take().expect("the scan was begun");
        let found: Vec<_> = rows.map(|row| int(&row.unwrap().values[0])).collect();
        let wanted: Vec<_> = (1..4000).filter(|id| id % 10 != 9).collect();
        assert_eq!(found == wanted, rule.is_none(), "rule {rule:?}: {} rows", found.len());
        drop((broken, txn));
        check(&db);
    }
}

/// Proposes the row `id` in a statement that found the table while its key was being built anew, so
/// that it writes to both indexes; once the old one has said that nobody has the key, `meanwhile`
/// happens, which calls what ends the build. How often the row was proposed, and what became of it.
fn upsert_beside_reindex(
    db: &Database,
    id: i64,
    meanwhile: impl Fn(&Database, &dyn Fn()) + Send + Sync + 'static,
) -> (u32, Vec<Upserted>) {
    let (reached, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (builder, said, told) = (db.clone(), Arc::clone(&reached), Arc::clone(&go_on));
    let build = thread::spawn("build", move || {
        let _hook = points::install_local(move |name: &'static str| {
            if name == "online.caught-up" {
                said.store(true, Ordering::SeqCst);
                wait_until(&told);
            }
        });
        builder.reindex("t", Some("t_pkey")).unwrap();
    });
    wait_until(&reached);
    let (other, build) = (db.clone(), Mutex::new(Some(build)));
    let _hook = points::install_local(move |name: &'static str| {
        if name != "table.upsert.nobody-has-the-key" {
            return;
        }
        if !go_on.load(Ordering::SeqCst) {
            meanwhile(&other, &|| {
                go_on.store(true, Ordering::SeqCst);
                build.lock().take().expect("it ends once").join().unwrap();
            });
        }
    });
    let mut set = |_: &[Value], new: &[Value]| Ok(Some(new.to_vec()));
    for tries in 1.. {
        let isolation = Isolation::ReadCommitted;
        let mut txn = db.begin_with(TransactionOptions { isolation, ..Default::default() });
        match txn.insert_into("t").or_update(OnConflict::Columns(&["id"]), &[row(id, 1)], &mut set)
        {
            Err(error) if error.is_retryable() => {}
            done => {
                let done = done.unwrap();
                txn.commit().unwrap();
                return (tries, done);
            }
        }
    }
    unreachable!("it goes on until it is done")
}

fn wait_until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The key came with a row that only the new index has: a conflict, not a violation.
#[test]
fn an_upsert_that_began_before_an_index_was_replaced_is_tried_again() {
    let db = filled(&SimDisk::new(3), 200);
    let (tries, done) = upsert_beside_reindex(&db, 9000, |db, end_build| {
        end_build();
        let mut txn = db.begin();
        txn.insert("t", &row(9000, 7)).unwrap();
        txn.commit().unwrap();
    });
    assert!(matches!(done[..], [Upserted::Updated(_)]) && tries == 2, "{tries} {done:?}");
    assert_eq!(rows(&db, &ScanOptions::index("t_pkey")).len(), 201);
    check(&db);
}

/// The old index says of a row id that was used again that it is a row with the key, for ever.
#[test]
fn an_upsert_does_not_believe_a_replaced_index_for_ever() {
    let db = filled(&SimDisk::new(3), 40);
    // Nobody marks the entry of a row that somebody sees.
    let mut seer = db.begin();
    let gone = seer.get("t", &[Value::Int8(5)]).unwrap().unwrap().id;
    let seer = Mutex::new(Some(seer));
    let mut txn = db.begin();
    assert!(txn.get("t", &[Value::Int8(5)]).unwrap().is_some_and(|row| row.id == gone));
    assert!(txn.delete("t", gone).unwrap());
    txn.commit().unwrap();
    let (tries, done) = upsert_beside_reindex(&db, 5, move |db, end_build| {
        drop(seer.lock().take());
        end_build();
        db.vacuum(Some("t")).unwrap();
        let again = (0..100).any(|n| {
            let mut txn = db.begin();
            let used = txn.insert("t", &row(20_000 + n, 7)).unwrap() == gone;
            if used {
                txn.commit().unwrap()
            } else {
                txn.rollback()
            }
            used
        });
        assert!(again, "the row id {gone} is not used again");
    });
    assert!(matches!(done[..], [Upserted::Inserted(_)]) && tries == 2, "{tries} {done:?}");
    assert_eq!(rows(&db, &ScanOptions::index("t_pkey")).len(), 41);
    check(&db);
}

/// Pages that were read to know whether a row counts are let go before another transaction is
/// waited for.
#[test]
fn a_build_waits_for_a_row_without_a_pin() {
    let db = filled(&SimDisk::new(3), 500);
    let cold_reads = |db: &Database| {
        db.evict().unwrap();
        let reads = || db.stats().get("pool_reads").unwrap();
        let before = reads();
        assert!(db.begin().scan("t", &ScanOptions::all()).unwrap().count() > 0);
        reads() - before
    };
    let named = |id: i64| {
        let mut row = row(id, 1);
        row[2] = Value::Text("the same".into());
        row
    };
    let (other, rival) = (db.clone(), Mutex::new(None));
    let waited = Arc::new(AtomicI64::new(-1));
    let seen = Arc::clone(&waited);
    let hook = points::install_local(move |name: &'static str| match name {
        // The build knows nothing of it.
        "online.sorted" => {
            let mut txn = other.begin();
            txn.insert("t", &named(9001)).unwrap();
            txn.commit().unwrap();
        }
        "online.missing" => {
            let mut txn = other.begin();
            txn.insert("t", &named(9002)).unwrap();
            *rival.lock() = Some(txn);
            other.evict().unwrap();
        }
        "txn.wait" => {
            let rival: Option<Transaction> = rival.lock().take();
            let Some(rival) = rival else { return };
            seen.store(cold_reads(&other) as i64, Ordering::SeqCst);
            rival.rollback();
        }
        _ => {}
    });
    db.create_index_online("t", &IndexSchema::new("t_unique").on("name").unique()).unwrap();
    drop(hook);
    let waited = waited.load(Ordering::SeqCst);
    assert_eq!(waited, cold_reads(&db) as i64, "pages read while the build waits, and afterwards");
    check(&db);
}

/// Two rows with one key end the build, whenever the second one comes; the name is free again, and
/// so is the space.
#[test]
fn a_violation_leaves_nothing_behind() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, 500);
    let unique = IndexSchema::new("t_unique").on("tag").unique();
    let files = || disk.files().iter().filter(|(name, _)| name.starts_with("data/")).count();
    let before = files();
    let refused = db.create_index_online("t", &unique);
    assert!(matches!(refused, Err(Error::UniqueViolation { .. })), "{refused:?}");
    // One that comes after the first snapshot, before writers look.
    let sound = IndexSchema::new("t_sound").on("id").on("tag").unique();
    let by_name = IndexSchema::new("t_unique").on("name").unique();
    for point in ["online.counted", "online.sorted", "online.built"] {
        let other = db.clone();
        let hook = points::install_local(move |name: &'static str| {
            if name == point {
                let mut txn = other.begin();
                let mut twin = row(9000, 1);
                twin[2] = Value::Text("00000".into());
                txn.insert("t", &twin).unwrap();
                txn.commit().unwrap();
            }
        });
        let refused = db.create_index_online("t", &by_name);
        drop(hook);
        assert!(matches!(refused, Err(Error::UniqueViolation { .. })), "{point}: {refused:?}");
        let mut txn = db.begin();
        let twin = txn.get("t", &[Value::Int8(9000)]).unwrap().unwrap();
        assert!(txn.delete("t", twin.id).unwrap());
        txn.commit().unwrap();
        assert_eq!(db.describe("t").unwrap().indexes.len(), 1);
        assert_eq!(files(), before, "{point}");
        check(&db);
    }
    db.create_index_online("t", &by_name).unwrap();
    db.create_index_online("t", &sound).unwrap();
    check(&db);
}

/// A row whose key moved on while the index was built does not stand in its own way.
#[test]
fn a_row_that_changes_hands_is_no_violation() {
    let db = filled(&SimDisk::new(3), 500);
    let other = db.clone();
    let hook = points::install_local(move |name: &'static str| {
        // Under each stage the row is replaced, and its key kept.
        if matches!(name, "online.sorted" | "online.kept" | "online.caught-up") {
            let mut txn = other.begin();
            let found = txn.get("t", &[Value::Int8(7)]).unwrap().unwrap();
            assert!(txn.delete("t", found.id).unwrap());
            txn.commit().unwrap();
            let mut txn = other.begin();
            txn.insert("t", &found.values).unwrap();
            txn.commit().unwrap();
        }
    });
    db.create_index_online("t", &IndexSchema::new("t_unique").on("name").unique()).unwrap();
    drop(hook);
    assert_eq!(rows(&db, &ScanOptions::index("t_unique")).len(), 500);
    check(&db);
}

/// An update that changes the new key alone is heap-only before the build, and not during it.
#[test]
fn updates_count_an_index_that_is_being_built() {
    for rule in [None, Some(Broken::UpdateAlwaysHeapOnly)] {
        let db = filled(&SimDisk::new(3), 500);
        let broken = rule.map(points::break_rule);
        let other = db.clone();
        let hook = points::install_local(move |name: &'static str| {
            if name == "online.sorted" {
                let mut txn = other.begin();
                let found = txn.get("t", &[Value::Int8(7)]).unwrap().unwrap();
                assert!(txn.update("t", found.id, &[("tag", Value::Int8(99))]).unwrap());
                txn.commit().unwrap();
            }
        });
        db.create_index_online("t", &by_tag()).unwrap();
        drop((hook, broken));
        let found = rows(&db, &ScanOptions::index("t_tag").equal(vec![Value::Int8(7)]));
        let clean =
            db.verify().unwrap().is_clean() && found.iter().all(|row| row[1] == Value::Int8(7));
        assert_eq!(clean, rule.is_none(), "{rule:?}");
    }
}

/// A transaction that began to write under an earlier stage is waited for: without that its rows
/// are missing.
#[test]
fn both_waits_are_needed() {
    for (rule, begins, ends) in [
        (Broken::OnlineBuildSkipsFirstWait, None, "online.sorted"),
        (Broken::OnlineBuildSkipsSecondWait, Some("online.built"), "online.caught-up"),
    ] {
        let db = filled(&SimDisk::new(3), 500);
        let writer: Arc<Mutex<Option<Transaction>>> = Arc::default();
        let begin = |db: &Database| {
            let mut txn = db.begin();
            txn.insert("t", &row(9000, 1)).unwrap();
            Some(txn)
        };
        if begins.is_none() {
            *writer.lock() = begin(&db);
        }
        let broken = points::break_rule(rule);
        let (other, theirs) = (db.clone(), Arc::clone(&writer));
        let hook = points::install_local(move |name: &'static str| {
            if Some(name) == begins {
                *theirs.lock() = begin(&other);
            }
            if name == ends {
                theirs.lock().take().unwrap().commit().unwrap();
            }
        });
        db.create_index_online("t", &by_tag()).unwrap();
        drop((hook, broken));
        assert!(!db.verify().unwrap().is_clean(), "{rule} was broken, and nothing was missing");
    }
}

/// A writer that does not end: the build gives up when its patience does, and nothing stays.
#[test]
fn a_build_that_waits_too_long_gives_up() {
    let disk = SimDisk::new(3);
    filled(&disk, 100).close().unwrap();
    let timeout = Some(std::time::Duration::from_millis(50));
    let db = options(&disk).lock_timeout(timeout).open("").unwrap();
    let mut writer = db.begin();
    writer.insert("t", &row(9000, 1)).unwrap();
    let built = db.create_index_online("t", &by_tag());
    assert!(matches!(built, Err(Error::LockTimeout { .. })), "{built:?}");
    writer.insert("t", &row(9001, 1)).unwrap();
    writer.commit().unwrap();
    assert_eq!(db.describe("t").unwrap().indexes.len(), 1);
    db.create_index_online("t", &by_tag()).unwrap();
    check(&db);
}

/// Whoever may write is waited for, whatever lock lets it: one that covers the write lock is held
/// instead of that. The build gives up, as the writer does not end; had it not waited, the index
/// would be there, without the row.
#[test]
fn writers_are_waited_for_under_every_lock_that_lets_them_write() {
    let modes = [None, Some(LockMode::Write), Some(LockMode::Share), Some(LockMode::ShareWrite)];
    for mode in modes {
        for (again, begins) in
            [(false, "before"), (true, "before"), (false, "online.built"), (true, "online.built")]
        {
            let disk = SimDisk::new(3);
            filled(&disk, 500).close().unwrap();
            let timeout = Some(std::time::Duration::from_millis(50));
            let db = options(&disk).lock_timeout(timeout).open("").unwrap();
            if again {
                db.create_index_online("t", &by_tag()).unwrap();
            }
            let writer: Arc<Mutex<Option<Transaction>>> = Arc::default();
            let (other, theirs) = (db.clone(), Arc::clone(&writer));
            let begin = move |point: &str| {
                if point != begins || theirs.lock().is_some() {
                    return;
                }
                let mut txn = other.begin();
                if let Some(mode) = mode {
                    txn.lock_table("t", mode, Busy::Fail).unwrap();
                }
                txn.insert("t", &row(9000, 1)).unwrap();
                *theirs.lock() = Some(txn);
            };
            begin("before");
            let hook = points::install_local(move |name: &'static str| begin(name));
            let build = || match again {
                true => db.reindex("t", Some("t_tag")).map(drop),
                false => db.create_index_online("t", &by_tag()),
            };
            let built = build();
            drop(hook);
            writer.lock().take().expect("it began").commit().unwrap();
            let case = format!("{mode:?}, again: {again}, from {begins}");
            assert!(matches!(built, Err(Error::LockTimeout { .. })), "{case}: {built:?}");
            check(&db);
            build().unwrap();
            assert_eq!(db.begin().scan("t", &ScanOptions::index("t_tag")).unwrap().count(), 501);
            check(&db);
        }
    }
}

/// A snapshot from before the end of the build gets a retryable conflict, not fewer rows.
#[test]
fn older_snapshots_do_not_use_it() {
    let db = filled(&SimDisk::new(3), 500);
    let mut reader = db.begin();
    let all = reader.scan("t", &ScanOptions::all()).unwrap().count();
    let mut txn = db.begin();
    for id in 0..100 {
        let found = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
        assert!(txn.update("t", found.id, &[("tag", Value::Int8(77))]).unwrap());
    }
    txn.commit().unwrap();
    db.create_index_online("t", &by_tag()).unwrap();
    match reader.scan("t", &ScanOptions::index("t_tag")) {
        Err(error) => assert!(error.is_retryable(), "{error}"),
        Ok(_) => panic!("the index lacks versions that this snapshot sees"),
    }
    assert_eq!(reader.scan("t", &ScanOptions::all()).unwrap().count(), all);
    drop(reader);
    assert_eq!(db.begin().scan("t", &ScanOptions::index("t_tag")).unwrap().count(), 500);
    check(&db);
}

/// An index that is younger than a HOT chain has an entry with the key of the version that was
/// newest then. When that version leaves between two snapshots, before the older one does, nobody
/// but the index knows the key. The row id used to be given free all the same, as the key of the
/// version that died last was not in the index; its next owner was found under the old row's key.
fn keys_that_only_the_index_knew_are_looked_for(index: &IndexSchema, online: bool) {
    let db = filled(&SimDisk::new(3), 4_000);
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("other").column("id", Type::Int8)).unwrap();
    txn.commit().unwrap();
    // It has a snapshot, and no lock that would keep a build waiting.
    let mut reader = db.begin();
    assert_eq!(reader.scan("other", &ScanOptions::all()).unwrap().count(), 0);
    let mut txn = db.begin();
    for id in 0..2 {
        let found = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
        assert!(txn.update("t", found.id, &[("tag", Value::Int8(77))]).unwrap());
    }
    txn.commit().unwrap();
    match online {
        true => db.create_index_online("t", index).unwrap(),
        false => {
            let mut txn = db.begin();
            txn.create_index("t", index).unwrap();
            txn.commit().unwrap();
        }
    }
    let mut txn = db.begin();
    for id in 0..2 {
        let found = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
        assert!(txn.delete("t", found.id).unwrap());
    }
    txn.commit().unwrap();
    db.vacuum(Some("t")).unwrap();
    // The versions with the keys that the index knows are gone, those before them are there for the
    // reader: entries that fit none of their row's versions are no damage here.
    check(&db);
    drop(reader);
    db.vacuum(Some("t")).unwrap();
    check(&db);
    let mut txn = db.begin();
    let others: Vec<_> = (20_000..21_000).map(|id| row(id, 5)).collect();
    txn.insert_many("t", &others).unwrap();
    txn.commit().unwrap();
    let few = ScanOptions::index("t_tag").equal(vec![Value::Int8(77)]);
    assert_eq!(rows(&db, &few), [[Value::Null; 0]; 0]);
    check(&db);
}

fn keys_of_a_whole_index() {
    for online in [false, true] {
        keys_that_only_the_index_knew_are_looked_for(&by_tag(), online);
    }
}

/// The row died without an entry, as far as its last bytes tell.
fn keys_of_a_partial_index() {
    let above = Predicate::new().at_least("tag", Value::Int8(5));
    for online in [false, true] {
        keys_that_only_the_index_knew_are_looked_for(&by_tag().only(above.clone()), online);
    }
}

#[test]
fn keys_that_only_the_index_knew_go_with_their_rows() {
    keys_of_a_whole_index();
    keys_of_a_partial_index();
}

#[test]
fn an_index_that_trusts_the_last_version_is_caught() {
    let (whole, partial): (fn(), fn()) = (keys_of_a_whole_index, keys_of_a_partial_index);
    assert_eq!(
        points::caught(Broken::AbsentEntryCountsAsRemoved, &[("whole", whole)]),
        Some("whole")
    );
    assert_eq!(
        points::caught(Broken::AbsentEntryCountsAsRemoved, &[("partial", partial)]),
        Some("partial")
    );
}

/// A change of the definition is not kept waiting, nor the writers behind it.
#[test]
fn a_build_gives_way_to_a_change_of_the_definition() {
    let db = filled(&SimDisk::new(3), 500);
    let mut writer = db.begin();
    writer.insert("t", &row(9000, 1)).unwrap();
    let (building, begun) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let tells = Arc::clone(&begun);
    let build = thread::spawn("build", move || {
        let _hook = points::install_local(move |name| {
            tells.fetch_or(name == "online.counted", Ordering::SeqCst);
        });
        building.create_index_online("t", &by_tag())
    });
    let changing = db.clone();
    let change = thread::spawn("change", move || {
        // Not before the build has begun, or it would wait for this.
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let mut txn = changing.begin();
        txn.alter_table(
            "t",
            AlterTable::AddColumn(&ColumnSchema::new("more", Type::Int8).nullable()),
        )
        .unwrap();
        txn.commit().unwrap();
    });
    let built = build.join().unwrap();
    assert!(matches!(&built, Err(error) if error.is_retryable()), "{built:?}");
    writer.commit().unwrap();
    change.join().unwrap();
    db.create_index_online("t", &by_tag()).unwrap();
    check(&db);
}
