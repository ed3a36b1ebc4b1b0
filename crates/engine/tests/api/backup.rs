//! Copies of a database that is being written to: each opens, verifies, and holds what it must,
//! whatever happens to the original or to the directory meanwhile.
//!
//! `RIGHTLINK_BACKUPS=N` makes N backups under load (default: a few).
//!
//! Invariants: one thread and a simulated disk, but for the load; a finding names moment and seed.
//! Does not do: crashes of the original at every call (`crash.rs`, scenario `backup`).

use rightlink_env::Broken;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rightlink::{
    BackupOptions, Database, Error, IndexSchema, Options, ScanOptions, TableSchema, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_env::sync::{Arc, AtomicBool, AtomicI64, Ordering};
use rightlink_env::{Env, Rng, points, thread};

/// Bytes of a log segment in these tests.
const SEGMENT: u64 = 64 << 10;

fn options(disk: &SimDisk) -> Options {
    Database::options()
        .memory(8 << 20)
        .pool_pages(96)
        .log_segment_bytes(SEGMENT)
        .max_log_bytes(2 * SEGMENT)
        .simulation(Env::simulated(1), disk.clone())
}

fn open(disk: &SimDisk) -> rightlink::Result<Database> {
    options(disk).open("")
}

fn schema(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new(format!("{name}_name")).on("name"))
}

fn row(id: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Text(format!("{:05}{}", id * 7919 % 10_000, "x".repeat(40)))]
}

fn create(db: &Database, schema: &TableSchema) {
    let mut txn = db.begin();
    txn.create_table(schema).unwrap();
    txn.commit().unwrap();
}

fn insert(db: &Database, table: &str, ids: std::ops::Range<i64>) {
    let mut txn = db.begin();
    txn.insert_many(table, &ids.map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
}

fn delete(db: &Database, table: &str, ids: std::ops::Range<i64>) {
    let mut txn = db.begin();
    for id in ids {
        let found = txn.get(table, &[Value::Int8(id)]).unwrap().unwrap();
        assert!(txn.delete(table, found.id).unwrap());
    }
    txn.commit().unwrap();
}

/// A database of a few hundred rows.
fn filled() -> (SimDisk, Database) {
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    create(&db, &schema("t"));
    insert(&db, "t", 0..600);
    (disk, db)
}

fn ids(db: &Database, table: &str) -> Vec<i64> {
    let mut txn = db.begin();
    let id = |row: rightlink::Result<rightlink::Row>| match row.unwrap().values[0] {
        Value::Int8(id) => id,
        ref other => panic!("{other:?} is no id"),
    };
    let mut ids: Vec<i64> = txn.scan(table, &ScanOptions::all()).unwrap().map(id).collect();
    ids.sort_unstable();
    ids
}

fn check(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn a_copy_holds_what_was_committed_and_nothing_of_what_was_not() {
    let (_disk, db) = filled();
    create(&db, &schema("fleeting").unlogged());
    insert(&db, "fleeting", 0..50);
    let mut running = db.begin();
    running.insert("t", &row(5000)).unwrap();
    let copy = SimDisk::new(4);
    let report = db.backup_with("copy", &to(&copy), |_| true).unwrap();
    assert!(report.pages > 10 && report.pages <= report.pages_in_all);
    running.commit().unwrap();
    let copied = open(&copy).unwrap();
    assert_eq!(ids(&copied, "t"), (0..600).collect::<Vec<_>>());
    assert_eq!(ids(&copied, "fleeting"), [], "unlogged tables are empty in a copy");
    insert(&copied, "t", 600..700);
    insert(&copied, "fleeting", 0..10);
    check(&copied);
    check(&db);
}

fn to(disk: &SimDisk) -> BackupOptions {
    BackupOptions::new().simulation(disk.clone())
}

/// Runs `work` on the original when `go_on` is asked for the `moment`th time; the copy must open,
/// verify, and hold the rows that were there before. Returns how often it was asked.
fn interrupted(
    prepare: impl Fn(&Database),
    moment: usize,
    work: impl Fn(&Database),
) -> (usize, Database) {
    let (_disk, db) = filled();
    prepare(&db);
    let before = ids(&db, "t");
    let (copy, mut asked) = (SimDisk::new(4), 0);
    let made = db.backup_with("copy", &to(&copy), |_| {
        if asked == moment {
            work(&db);
        }
        asked += 1;
        true
    });
    made.unwrap();
    let copied = open(&copy).unwrap();
    let found = ids(&copied, "t");
    assert!(before.iter().all(|id| found.binary_search(id).is_ok()), "rows are missing: {found:?}");
    check(&copied);
    check(&db);
    (asked, copied)
}

/// As [`interrupted`], at every moment there is.
fn at_every_moment(prepare: impl Fn(&Database) + Copy, work: impl Fn(&Database) + Copy) -> usize {
    let mut moment = 0;
    loop {
        let (asked, _copied) = interrupted(prepare, moment, work);
        moment += 1;
        if moment > asked {
            return moment;
        }
    }
}

fn nothing(_: &Database) {}

/// Checkpoints that would recycle the log that the copy needs.
fn recycle(db: &Database) {
    for round in 0..8 {
        insert(db, "t", 1000 + round * 200..1200 + round * 200);
        db.checkpoint().unwrap();
    }
}

#[test]
fn checkpoints_and_recycled_log_beside_a_backup() {
    assert!(at_every_moment(nothing, recycle) > 10);
}

#[test]
fn tables_that_grow_beside_a_backup() {
    at_every_moment(nothing, |db| insert(db, "t", 10_000..12_000));
}

#[test]
fn tables_that_are_dropped_beside_a_backup() {
    let prepare = |db: &Database| {
        create(db, &schema("doomed"));
        insert(db, "doomed", 0..400);
    };
    at_every_moment(prepare, |db| {
        let mut txn = db.begin();
        txn.drop_table("doomed").unwrap();
        txn.commit().unwrap();
    });
}

#[test]
fn tables_that_are_made_beside_a_backup() {
    at_every_moment(nothing, |db| {
        create(db, &schema("late"));
        insert(db, "late", 0..100);
    });
}

#[test]
fn indexes_that_are_built_beside_a_backup() {
    at_every_moment(nothing, build);
}

fn build(db: &Database) {
    let mut txn = db.begin();
    txn.create_index("t", &IndexSchema::new("late").on("name").on("id")).unwrap();
    txn.commit().unwrap();
}

/// Tails that vacuum cuts off, and that grow again.
#[test]
fn tables_that_shrink_beside_a_backup() {
    let prepare = |db: &Database| insert(db, "t", 600..1200);
    at_every_moment(
        |db| {
            prepare(db);
            delete(db, "t", 100..1200);
        },
        |db| {
            db.vacuum(None).unwrap();
            insert(db, "t", 2000..2500);
        },
    );
}

/// A build that begins before its file is copied and ends later; `finish` is called when `go_on` is
/// asked for the `moment`th time.
#[test]
fn what_a_backup_rests_on_is_needed() {
    for rule in [Broken::BackupLogNotHeld, Broken::BackupFilesNotRechecked] {
        let _broken = points::break_rule(rule);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            at_every_moment(nothing, recycle);
            at_every_moment(nothing, build);
        }));
        assert!(ran.is_err(), "{rule} was broken, and no copy showed it");
    }
}

/// Beyond what a checkpoint leaves, the log of one chunk and of one segment is kept.
#[test]
fn the_log_of_a_long_backup_is_let_go() {
    let (disk, db) = filled();
    let (copy, mut next) = (SimDisk::new(4), 10_000);
    let log = || disk.files().iter().filter(|(name, _)| name.starts_with("wal/")).count();
    let mut most = 0;
    let report = db.backup_with("copy", &to(&copy), |_| {
        insert(&db, "t", next..next + 100);
        next += 100;
        db.checkpoint().unwrap();
        most = most.max(log());
        next < 20_000
    });
    let progress = report.err();
    assert!(matches!(progress, None | Some(Error::Cancelled(_))), "{progress:?}");
    // What the options allow, those made ahead, and what the backup adds.
    assert!(most as u64 <= 2 + 3 + 3, "{most} segments");
}

#[test]
fn a_cancelled_backup_is_told_from_a_whole_one() {
    let (_disk, db) = filled();
    for moment in 0..12 {
        let (copy, mut asked) = (SimDisk::new(4), 0);
        let made = db.backup_with("copy", &to(&copy), |_| {
            asked += 1;
            asked <= moment
        });
        assert!(matches!(made, Err(Error::Cancelled(_))), "{made:?}");
        refuses(&copy);
    }
    check(&db);
}

/// A directory that holds a copy that was cut short is refused by name of the reason.
fn refuses(copy: &SimDisk) {
    match open(copy) {
        Err(Error::Invalid(what)) => assert!(what.contains("backup"), "{what}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("half a copy was opened"),
    }
    let offline = options(copy).verify_offline("");
    assert!(matches!(offline, Err(Error::Invalid(_))), "{offline:?}");
}

/// Every call on the directory fails, once and for ever: the error names it, the original goes on,
/// the directory is refused or whole, and the next backup is made.
#[test]
fn every_failing_call_of_the_directory() {
    let ops = [
        OpKind::Open,
        OpKind::Write,
        OpKind::Sync,
        OpKind::SyncDir,
        OpKind::SetLen,
        OpKind::Rename,
        OpKind::Remove,
        OpKind::CreateDir,
        OpKind::List,
        OpKind::Stat,
    ];
    let (_disk, db) = filled();
    let whole = SimDisk::new(4);
    db.backup_with("copy", &to(&whole), |_| true).unwrap();
    let mut next = 20_000;
    let mut runs = 0;
    for op in ops {
        for nth in 0..whole.calls(op) {
            for kind in [FaultKind::Io, FaultKind::NoSpace].into_iter().filter(|k| k.fits(op)) {
                for repeat in [Repeat::Once, Repeat::Forever] {
                    let copy = SimDisk::new(4);
                    copy.fail_nth(op, nth, kind, repeat);
                    let made = db.backup_with("copy", &to(&copy), |_| true);
                    copy.clear_faults();
                    let what = format!("{op:?} {nth} {kind:?} {repeat:?}");
                    failed(&copy, made.map(|_| ()), &what);
                    insert(&db, "t", next..next + 1);
                    (next, runs) = (next + 1, runs + 1);
                }
            }
        }
    }
    assert!(runs > 100, "{runs} runs");
    let copy = SimDisk::new(4);
    db.backup_with("copy", &to(&copy), |_| true).unwrap();
    assert_eq!(ids(&open(&copy).unwrap(), "t"), ids(&db, "t"));
    check(&db);
}

fn failed(copy: &SimDisk, made: rightlink::Result<()>, what: &str) {
    match &made {
        // The mark was gone already, or the call was made again.
        Ok(()) => {}
        Err(error @ (Error::Io(_) | Error::DiskFull(_))) => {
            assert!(error.to_string().contains("copy"), "{what}: {error}");
        }
        Err(other) => panic!("{what}: {other}"),
    }
    match open(copy) {
        Ok(db) => {
            // An empty directory, or a mark that went although the call failed.
            let tables = db.tables().unwrap();
            assert!(made.is_err() || !tables.is_empty(), "{what}: nothing was copied");
            check(&db);
        }
        Err(Error::Invalid(why)) => {
            assert!(made.is_err() && why.contains("backup"), "{what}: {why}");
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

/// The power fails at every call of a backup and of its directory: the copy is refused, or empty,
/// or whole.
#[test]
fn a_power_cut_at_every_call_of_the_directory() {
    let (_disk, db) = filled();
    let copy = SimDisk::recorded(4);
    db.backup_with("copy", &to(&copy), |_| true).unwrap();
    let recording = copy.recording();
    let (mut refused, mut whole, mut empty) = (0, 0, 0);
    recording.for_each_moment(|moment, state| {
        let mut rng = Rng::from_seed(moment);
        for choice in state.choices(moment) {
            if state.len() > 3 && !rng.chance(1, 8) {
                continue;
            }
            let disk = recording.crash(state, &choice);
            match open(&disk) {
                Err(Error::Invalid(what)) if what.contains("backup") => refused += 1,
                Err(error) => panic!("power cut after {moment} calls, {choice:?}: {error}"),
                Ok(found) if found.tables().unwrap().is_empty() => empty += 1,
                Ok(found) => {
                    assert_eq!(ids(&found, "t"), (0..600).collect::<Vec<_>>(), "after {moment}");
                    check(&found);
                    whole += 1;
                }
            }
        }
    });
    println!("{refused} refused, {whole} whole, {empty} empty");
    assert!(refused > 20 && whole > 0);
}

/// Sums that every transaction keeps, in accounts that several threads change all the time, and
/// long values that tell which write they are of, beside vacuum, checkpoints, definitions, indexes
/// built online, and a table without a log.
#[test]
fn backups_under_load_each_verify() {
    let wanted = std::env::var("RIGHTLINK_BACKUPS").ok();
    let wanted = wanted.map_or(3, |wanted| wanted.parse().expect("a number of backups"));
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    create(&db, &accounts());
    create(&db, &letters());
    create(&db, &schema("fleeting").unlogged());
    let mut txn = db.begin();
    let rows: Vec<_> = (0..ACCOUNTS).map(|id| account(id, 100)).collect();
    txn.insert_many("account", &rows).unwrap();
    txn.insert_many("letter", &(0..LETTERS).map(|id| letter(id, id)).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    let load = Arc::new(Load::default());
    let workers: Vec<_> = (0..6)
        .map(|worker| {
            let (db, load) = (db.clone(), Arc::clone(&load));
            thread::spawn(&format!("load-{worker}"), move || match worker {
                0 => upkeep(&db, &load),
                1 => definitions(&db, &load),
                2 => write_letters(&db, &load),
                3 => online_builds(&db, &load),
                _ => transfers(&db, &load, worker),
            })
        })
        .collect();
    for number in 0..wanted {
        let floor = load.acknowledged.load(Ordering::SeqCst);
        let copy = SimDisk::new(4);
        db.backup_with("copy", &to(&copy), |_| true).unwrap();
        let ceiling = load.begun.load(Ordering::SeqCst);
        let copied = open(&copy).unwrap();
        check(&copied);
        let (sum, count) = totals(&copied);
        assert_eq!(sum, ACCOUNTS * 100, "backup {number}");
        let mut txn = copied.begin();
        for id in 0..ACCOUNTS {
            let row = txn.get("account", &[Value::Int8(id)]).unwrap();
            assert!(row.is_some(), "backup {number}: account {id} by its key");
        }
        drop(txn);
        assert!((floor..=ceiling).contains(&count), "backup {number}: {floor} {count} {ceiling}");
        letters_are_whole(&copied, number);
        assert_eq!(ids(&copied, "fleeting"), [], "backup {number}: an unlogged table is empty");
        insert(&copied, "fleeting", 0..50);
        copied.vacuum(None).unwrap();
        check(&copied);
    }
    load.stop.store(true, Ordering::SeqCst);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    check(&db);
    letters_are_whole(&db, wanted);
    let count = |counter: &AtomicI64| counter.load(Ordering::SeqCst);
    println!(
        "{wanted} backups, {} transfers, {} letters, {} online builds",
        count(&load.begun),
        count(&load.letters),
        count(&load.built)
    );
    assert!(count(&load.letters) > 0 && count(&load.built) > 0, "the test is about these");
}

const ACCOUNTS: i64 = 300;
const LETTERS: i64 = 12;

#[derive(Default)]
struct Load {
    stop: AtomicBool,
    begun: AtomicI64,
    acknowledged: AtomicI64,
    /// Long values written.
    letters: AtomicI64,
    /// Indexes built beside the writers.
    built: AtomicI64,
}

fn letters() -> TableSchema {
    TableSchema::new("letter")
        .column("id", Type::Int8)
        .column("seed", Type::Int8)
        .nullable("body", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("letter_seed").on("seed"))
}

/// From a few bytes to some ten pages, all of one seed.
fn body(seed: i64) -> Value {
    Value::Text(format!("{seed:08};").repeat(1 + (seed * 7919 % 9000) as usize))
}

fn letter(id: i64, seed: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(seed), body(seed)]
}

fn letters_are_whole(db: &Database, number: u64) {
    let mut txn = db.begin();
    for options in [ScanOptions::all(), ScanOptions::index("letter_seed")] {
        let rows: Vec<_> = txn.scan("letter", &options).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len() as i64, LETTERS, "backup {number}");
        for row in rows {
            let seed = int(&row.values[1]);
            assert!(row.values[2] == body(seed), "backup {number}: the value of write {seed}");
        }
    }
}

/// Replaces long values, as wholes and as streams; some of it is undone. Whatever is committed,
/// value and seed are of one write.
fn write_letters(db: &Database, load: &Load) {
    let mut rng = Rng::from_seed(77);
    let mut seed = LETTERS;
    while !load.stop.load(Ordering::SeqCst) {
        seed += 1;
        let id = rng.below(LETTERS as u64) as i64;
        let (undo, way) = (rng.chance(1, 5), rng.below(3));
        let done = db.with_retry(|txn| {
            let key = [Value::Int8(id)];
            let old = txn.get("letter", &key)?.expect("a letter");
            let set = [("seed", Value::Int8(seed)), ("body", body(seed))];
            match way {
                // Deleted and inserted again.
                0 => {
                    assert!(txn.delete("letter", old.id)?);
                    txn.insert("letter", &letter(id, seed))?;
                }
                1 => drop(txn.update("letter", old.id, &set)?),
                _ => {
                    assert!(txn.update("letter", old.id, &set[..1])?);
                    let at = txn.get("letter", &key)?.expect("a letter").id;
                    let mut writer = txn.write_value("letter", at, "body")?;
                    let Value::Text(text) = body(seed) else { unreachable!("it is text") };
                    for piece in text.as_bytes().chunks(1013) {
                        writer.push(piece)?;
                    }
                    assert!(writer.finish()?);
                }
            }
            match undo {
                true => Err(Error::Invalid("undone".into())),
                false => Ok(()),
            }
        });
        match done {
            Err(Error::Invalid(_)) if undo => {}
            done => done.unwrap(),
        }
        load.letters.fetch_add(1, Ordering::SeqCst);
        let rows: Vec<_> = (0..5).map(|more| row(seed * 10 + more)).collect();
        db.with_retry(|txn| txn.insert_many("fleeting", &rows)).unwrap();
    }
}

/// Indexes are built, and built anew, beside the others.
fn online_builds(db: &Database, load: &Load) {
    let late = IndexSchema::new("letter_late").on("seed").on_desc("id").unique();
    while !load.stop.load(Ordering::SeqCst) {
        for build in [
            &(|| db.reindex("account", Some("account_balance")).map(drop)) as &dyn Fn() -> _,
            &|| db.create_index_online("letter", &late),
            &|| db.reindex("letter", Some("letter_pkey")).map(drop),
        ] {
            retried(build);
            load.built.fetch_add(1, Ordering::SeqCst);
        }
        retried(&|| {
            let mut txn = db.begin();
            txn.drop_index("letter_late")?;
            txn.commit()
        });
    }
}

fn retried(work: &dyn Fn() -> rightlink::Result<()>) {
    loop {
        match work() {
            Err(error) if error.is_retryable() => {}
            done => return done.unwrap(),
        }
    }
}

fn accounts() -> TableSchema {
    TableSchema::new("account")
        .column("id", Type::Int8)
        .column("balance", Type::Int8)
        .column("changes", Type::Int8)
        .primary_key(["id"])
        .index(IndexSchema::new("account_balance").on("balance"))
}

fn account(id: i64, balance: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(balance), Value::Int8(0)]
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int8(value) => *value,
        other => panic!("{other:?} is no int8"),
    }
}

/// Sum of the balances, and of the transfers made.
fn totals(db: &Database) -> (i64, i64) {
    let mut txn = db.begin();
    let rows = txn.scan("account", &ScanOptions::all()).unwrap();
    rows.map(Result::unwrap).fold((0, 0), |(sum, changes), row| {
        (sum + int(&row.values[1]), changes + int(&row.values[2]))
    })
}

/// Each moves an amount between two accounts and counts itself in the first.
fn transfers(db: &Database, load: &Load, seed: u64) {
    let mut rng = Rng::from_seed(seed);
    while !load.stop.load(Ordering::SeqCst) {
        let (from, to) = (rng.below(ACCOUNTS as u64) as i64, rng.below(ACCOUNTS as u64) as i64);
        if from == to {
            continue;
        }
        load.begun.fetch_add(1, Ordering::SeqCst);
        let amount = rng.below(20) as i64;
        db.with_retry(|txn| {
            for (id, amount, counted) in [(from, -amount, 1), (to, amount, 0)] {
                let row = txn.get("account", &[Value::Int8(id)])?.expect("an account");
                let (balance, changes) = (int(&row.values[1]), int(&row.values[2]));
                let balance = ("balance", Value::Int8(balance + amount));
                let changes = ("changes", Value::Int8(changes + counted));
                txn.update("account", row.id, &[balance, changes])?;
            }
            Ok(())
        })
        .unwrap();
        load.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

fn upkeep(db: &Database, load: &Load) {
    let mut round = 0;
    while !load.stop.load(Ordering::SeqCst) {
        match round % 3 {
            0 => db.checkpoint().unwrap(),
            1 => drop(db.vacuum(None).unwrap()),
            _ => while db.step().unwrap() {},
        }
        round += 1;
        thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Tables and indexes come and go.
fn definitions(db: &Database, load: &Load) {
    let mut round: i64 = 0;
    while !load.stop.load(Ordering::SeqCst) {
        let name = format!("t{round}");
        create(db, &schema(&name));
        insert(db, &name, 0..50 + round % 7 * 40);
        let mut txn = db.begin();
        txn.create_index(&name, &IndexSchema::new(format!("{name}_late")).on("name")).unwrap();
        txn.commit().unwrap();
        if round >= 3 {
            let mut txn = db.begin();
            txn.drop_table(&format!("t{}", round - 3)).unwrap();
            txn.commit().unwrap();
        }
        round += 1;
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// On a real file system: the copy comes back, and existing directories are left alone.
#[test]
fn a_backup_is_restored_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let db = Database::open(at("db")).unwrap();
    create(&db, &schema("t"));
    insert(&db, "t", 0..3000);
    db.backup(at("copy")).unwrap();
    insert(&db, "t", 3000..3100);
    let again = db.backup(at("copy"));
    assert!(matches!(again, Err(Error::AlreadyExists(_))), "{again:?}");
    let report = Database::restore(at("copy"), at("new")).unwrap();
    assert!(report.verified.is_clean() && report.verified.rows >= 3000 && report.bytes > 100_000);
    let over = Database::restore(at("copy"), at("db"));
    assert!(matches!(over, Err(Error::AlreadyExists(_))), "{over:?}");
    let restored = Database::open(at("new")).unwrap();
    assert_eq!(ids(&restored, "t"), (0..3000).collect::<Vec<_>>());
    check(&restored);
    // A copy that was cut short is neither opened nor restored.
    let cancelled = db.backup_with(at("half"), &BackupOptions::new(), |_| false);
    assert!(matches!(cancelled, Err(Error::Cancelled(_))));
    for refused in
        [Database::open(at("half")).err(), Database::restore(at("half"), at("other")).err()]
    {
        assert!(matches!(&refused, Some(Error::Invalid(what)) if what.contains("half")));
    }
}

/// The pace is kept on the simulated clock.
#[test]
fn a_paced_backup_takes_its_time() {
    let disk = SimDisk::new(3);
    let env = Env::simulated(1);
    let clock = env.clock.clone();
    let db = Database::options().memory(8 << 20).simulation(env, disk).open("").unwrap();
    create(&db, &schema("t"));
    insert(&db, "t", 0..3000);
    let (before, copy) = (clock.now(), SimDisk::new(4));
    let report = db.backup_with("copy", &to(&copy).bytes_per_second(1 << 20), |_| true).unwrap();
    let took = clock.now().since(before).as_secs_f64();
    let due = (report.pages * 8192) as f64 / f64::from(1 << 20);
    assert!(took >= due * 0.9 && took < due * 1.5 + 1.0, "{took} s for {due} s");
    check(&open(&copy).unwrap());
}
