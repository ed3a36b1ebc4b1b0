//! Insertion when pages are not in memory: what is read ahead changes nothing about the outcome.

use rightlink::{
    ConflictKind, Database, Error, IndexMethod, IndexSchema, Method, ScanOptions, TableSchema,
    TransactionOptions, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_env::Env;
use rightlink_env::sync::{AtomicBool, AtomicU64, Ordering};
use rightlink_env::thread::several;

const ROWS: i64 = 3000;

fn open(disk: &SimDisk, pool_pages: usize) -> Database {
    let options = Database::options().method(Method::Sim).pool_pages(pool_pages);
    options.simulation(Env::simulated(3), disk.clone()).open("db").expect("the database opens")
}

fn row(id: i64) -> Vec<Value> {
    let tag = Value::Text(format!("{:0>30}", id * 7919 % ROWS));
    vec![Value::Int8(id), tag, Value::Text("x".repeat(120))]
}

fn schema() -> TableSchema {
    let schema = TableSchema::new("t").column("id", Type::Int8);
    let schema = schema.column("tag", Type::Text).column("pad", Type::Text);
    let hash = IndexSchema::new("t_hash").on("tag").on("id").method(IndexMethod::Hash).unique();
    schema.primary_key(["id"]).index(IndexSchema::new("t_tag").on("tag")).index(hash)
}

fn filled(db: &Database) {
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    txn.insert_many("t", &(0..ROWS).map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
}

fn delete(db: &Database, wanted: impl Fn(i64) -> bool) {
    let mut txn = db.begin();
    for id in (0..ROWS).filter(|id| wanted(*id)) {
        let found = txn.get("t", &[Value::Int8(id)]).unwrap().expect("it is there");
        txn.delete("t", found.id).unwrap();
    }
    txn.commit().unwrap();
}

/// Keys whose deleted rows lie in pages that are not in memory: each must be looked at before the
/// key may be used again, and one that lives refuses the whole batch.
#[test]
fn keys_of_deleted_rows_are_used_again_from_a_cold_start() {
    for (pool_pages, serial_reads) in [(600, false), (600, true), (40, false)] {
        let db = open(&SimDisk::new(5), pool_pages);
        filled(&db);
        delete(&db, |id| id % 3 == 0);
        db.evict().unwrap();
        let options = || TransactionOptions { serial_reads, ..Default::default() };
        let again: Vec<_> = (0..ROWS).filter(|id| id % 3 == 0).map(row).collect();
        let mut refused = again.clone();
        refused.push(row(1501));
        let mut txn = db.begin_with(options());
        let error = txn.insert_many("t", &refused).unwrap_err();
        assert!(matches!(&error, Error::UniqueViolation { key, .. } if key == "(1501)"), "{error}");
        drop(txn);
        db.evict().unwrap();
        let mut txn = db.begin_with(options());
        assert_eq!(txn.insert_many("t", &again).unwrap().len(), again.len());
        txn.commit().unwrap();
        let mut txn = db.begin();
        for scan in [ScanOptions::all(), ScanOptions::index("t_tag"), ScanOptions::index("t_pkey")]
        {
            assert_eq!(txn.scan("t", &scan).unwrap().count() as i64, ROWS);
        }
        let key = |id: i64| row(id)[..2].iter().rev().cloned().collect::<Vec<_>>();
        let any_of = (0..ROWS).step_by(7).map(key).collect::<Vec<_>>();
        let (wanted, list) = (any_of.len(), ScanOptions { any_of, ..ScanOptions::index("t_hash") });
        assert_eq!(txn.scan("t", &list).unwrap().count(), wanted);
        drop(txn);
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

/// With everything in memory nothing is read, whatever is allowed to run ahead.
#[test]
fn in_memory_nothing_is_issued() {
    let db = open(&SimDisk::new(6), 600);
    filled(&db);
    let before = db.stats().get("device_reads").unwrap();
    let mut txn = db.begin();
    txn.insert_many("t", &(ROWS..ROWS + 500).map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    assert_eq!(db.stats().get("device_reads").unwrap(), before);
}

/// One statement changes many rows or none: a key that is taken refuses all of it, and keys that
/// the same statement gives up may be taken.
#[test]
fn many_rows_change_together_or_not_at_all() {
    for pool_pages in [600, 40] {
        let db = open(&SimDisk::new(7), pool_pages);
        filled(&db);
        let mut txn = db.begin();
        let rows = txn.scan("t", &ScanOptions::index("t_pkey").limit(400)).unwrap();
        let mut ids: Vec<_> = rows.map(|row| row.unwrap().id).collect();
        ids.push(ids[0]);
        txn.commit().unwrap();
        db.evict().unwrap();
        let mut txn = db.begin();
        let error = txn.update_many("t", &ids, &[("id", Value::Int8(-1))]).unwrap_err();
        assert!(matches!(&error, Error::UniqueViolation { .. }), "{error}");
        let done = txn.update_many("t", &ids[400..], &[("id", Value::Int8(ROWS))]).unwrap();
        assert_eq!(done, 1);
        assert_eq!(txn.update_many("t", &ids[1..400], &[("tag", row(1)[1].clone())]).unwrap(), 399);
        txn.commit().unwrap();
        let mut txn = db.begin();
        assert!(txn.get("t", &[Value::Int8(0)]).unwrap().is_none());
        assert!(txn.get("t", &[Value::Int8(ROWS)]).unwrap().is_some());
        let tagged = ScanOptions::index("t_tag").equal(vec![row(1)[1].clone()]);
        assert_eq!(txn.scan("t", &tagged).unwrap().count(), 399);
        drop(txn);
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

/// Two threads insert rows with the same unique keys, several times. In how many rounds one of them
/// was told of a deadlock.
fn meet_on_unique_keys(rounds: i64) -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let device = "latency=200us,depth=8".parse().unwrap();
    let options = Database::options().pool_pages(2000).device(Some(device));
    let db = options.open(dir.path()).unwrap();
    filled(&db);
    let mut txn = db.begin();
    let tags = |name: &str| IndexSchema::new(name).on("tag").unique();
    txn.create_index("t", &tags("t_once")).unwrap();
    txn.create_index("t", &tags("t_once_more").method(IndexMethod::Hash)).unwrap();
    txn.commit().unwrap();
    let mut deadlocks = 0;
    for round in 0..rounds {
        db.evict().unwrap();
        let (thread, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let deadlocked = AtomicBool::new(false);
        several("inserts", 2, &|| {
            let thread = thread.fetch_add(1, Ordering::Relaxed) as i64;
            let id = |n: i64| ROWS + (round * 600 + n) * 2 + thread;
            let tag = |n: i64| Value::Text(format!("{:0>30}-{round}", n * 5));
            let row = |n: i64| vec![Value::Int8(id(n)), tag(n), tag(0)];
            let mut txn = db.begin();
            let inserted = txn.insert_many("t", &(0..600).map(row).collect::<Vec<_>>());
            match inserted.and_then(|_| txn.commit()) {
                Ok(()) => {}
                Err(Error::UniqueViolation { .. }) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                Err(Error::Conflict { kind: ConflictKind::Deadlock, .. }) => {
                    deadlocked.store(true, Ordering::Relaxed);
                }
                Err(error) => panic!("{error}"),
            }
        });
        let deadlocked = u64::from(deadlocked.load(Ordering::Relaxed));
        deadlocks += deadlocked as u32;
        let refused = refused.load(Ordering::Relaxed);
        assert_eq!(refused + deadlocked, 1, "one goes in in round {round}");
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report:?}");
    deadlocks
}

/// Statements that insert the same keys, in whatever order their leaves arrive, hardly ever wait
/// for each other: one of them goes in, the other is told that the key is there. Rows whose leaves
/// come late are put aside, and two statements that did so with different rows may meet later; then
/// one is told of the deadlock. A schedule shows the order itself.
#[test]
fn statements_that_meet_on_unique_keys_hardly_wait_for_each_other() {
    let deadlocks = meet_on_unique_keys(8);
    assert!(deadlocks <= 1, "{deadlocks} of 8 rounds ended in a deadlock");
}
