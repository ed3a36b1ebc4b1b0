//! Statements whose entries several threads put into the indexes: what they leave is what one
//! thread alone would leave, also where they fail in the middle.
//!
//! Whether helpers took part is told by the point that each of them passes.

use rightlink::{
    Database, Error, IndexMethod, IndexSchema, Method, ScanOptions, TableSchema, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_env::sync::{AtomicU64, Ordering};
use rightlink_env::thread::several;
use rightlink_env::{Env, points};

const BATCH: i64 = 1200;
const INDEXES: [&str; 5] = ["t_pkey", "t_a", "t_few", "t_hash", "t_wide"];

fn scattered(id: i64, salt: i64) -> Value {
    Value::Int8((id + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64))
}

fn row(id: i64) -> Vec<Value> {
    let few = Value::Int8(id % 7);
    vec![Value::Int8(id), scattered(id, 1), few, scattered(id, 2), Value::Text("x".repeat(90))]
}

fn schema() -> TableSchema {
    let schema = TableSchema::new("t").column("id", Type::Int8).column("a", Type::Int8);
    let schema = schema.column("few", Type::Int8).column("b", Type::Int8).column("pad", Type::Text);
    let schema = schema.primary_key(["id"]);
    let schema = schema.index(IndexSchema::new("t_a").on("a"));
    let schema = schema.index(IndexSchema::new("t_few").on("few"));
    let schema = schema.index(IndexSchema::new("t_hash").on("b").method(IndexMethod::Hash));
    schema.index(IndexSchema::new("t_wide").on("b").on("id").include(["pad"]))
}

fn insert(db: &Database, ids: impl Iterator<Item = i64>) -> Result<usize, Error> {
    let mut txn = db.begin();
    let count = txn.insert_many("t", &ids.map(row).collect::<Vec<_>>())?.len();
    txn.commit()?;
    Ok(count)
}

/// Rows `0..rows`, and no others, are in the table and in each of its indexes.
fn check(db: &Database, rows: i64) {
    let mut txn = db.begin();
    // Where keys are in no order they are asked for.
    let any_of = (0..rows).map(|id| vec![scattered(id, 2)]).collect::<Vec<_>>();
    let scans = INDEXES.map(|index| match index {
        "t_hash" => ScanOptions { any_of: any_of.clone(), ..ScanOptions::index(index) },
        _ => ScanOptions::index(index),
    });
    for scan in scans.iter().chain([&ScanOptions::all()]) {
        let found = txn.scan("t", scan).unwrap().map(|row| row.unwrap().values);
        let mut found: Vec<_> = found.collect();
        found.sort();
        assert_eq!(found.len() as i64, rows, "{:?}", scan.index);
        assert!(found.into_iter().eq((0..rows).map(row)), "{:?}", scan.index);
    }
    drop(txn);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// How many helpers took part in `work`.
fn helpers(work: impl FnOnce()) -> u64 {
    let so_far = || points::counts().get("insert.helper").copied().unwrap_or(0);
    let before = so_far();
    work();
    so_far() - before
}

/// One test, as the counts of points are the process's.
#[test]
fn helpers_change_nothing_about_the_outcome() {
    let _alone = crate::alone();
    let _counting = points::count();
    in_memory();
    from_a_cold_start();
    refused_in_the_middle();
    damaged_on_the_way();
    beside_each_other();
}

fn in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Database::options().memory(64 << 20);
    let db = options().insert_threads(4).open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    txn.commit().unwrap();
    let fill = |db: &Database, batch: i64| insert(db, batch * BATCH..(batch + 1) * BATCH).unwrap();
    let helped = helpers(|| {
        (0..4).for_each(|batch| assert_eq!(fill(&db, batch), BATCH as usize));
    });
    assert!(helped >= 4, "{helped} helpers");
    check(&db, 4 * BATCH);
    let small = helpers(|| {
        insert(&db, 4 * BATCH..4 * BATCH + 20).unwrap();
    });
    assert_eq!(small, 0, "a few rows need no help");
    drop(db);
    let db = options().insert_threads(1).open(dir.path()).unwrap();
    let alone = helpers(|| {
        insert(&db, 4 * BATCH + 20..5 * BATCH).unwrap();
    });
    assert_eq!(alone, 0, "one thread was asked for");
    check(&db, 5 * BATCH);
}

/// A database on a simulated disk, with `batches` of rows.
fn simulated(disk: &SimDisk, pool_pages: usize, batches: i64) -> Database {
    let options = Database::options().method(Method::Sim).memory(32 << 20).pool_pages(pool_pages);
    let options = options.simulation(Env::simulated(3), disk.clone());
    let db = options.insert_threads(3).open("db").unwrap();
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    txn.commit().unwrap();
    for batch in 0..batches {
        insert(&db, batch * BATCH..(batch + 1) * BATCH).unwrap();
    }
    db
}

/// All leaves must be read, by streams of several threads. A pool that is too small for several
/// streams has one.
fn from_a_cold_start() {
    for (pool_pages, helped) in [(1500, true), (600, true), (48, false)] {
        let db = simulated(&SimDisk::new(4), pool_pages, 4);
        for batch in 4..8 {
            db.evict().unwrap();
            let ids = batch * BATCH..(batch + 1) * BATCH;
            let count = helpers(|| assert_eq!(insert(&db, ids).unwrap() as i64, BATCH));
            assert_eq!(count > 0, helped, "{count} helpers in a pool of {pool_pages} pages");
        }
        check(&db, 8 * BATCH);
    }
}

/// A key that is taken refuses the whole statement, whatever helpers have inserted by then.
fn refused_in_the_middle() {
    let db = simulated(&SimDisk::new(5), 1500, 2);
    for taken in [2 * BATCH - 1, 5] {
        let ids = (2 * BATCH..3 * BATCH).chain([taken]);
        let mut refused = None;
        assert!(helpers(|| refused = insert(&db, ids).err()) > 0);
        let key = format!("({taken})");
        assert!(matches!(refused, Some(Error::UniqueViolation { key: of, .. }) if of == key));
        check(&db, 2 * BATCH);
    }
    assert_eq!(insert(&db, 2 * BATCH..3 * BATCH).unwrap() as i64, BATCH);
    check(&db, 3 * BATCH);
    db.vacuum(Some("t")).unwrap();
    check(&db, 3 * BATCH);
}

/// A leaf that cannot be read fails the statement, on whichever thread that is, and nothing of it
/// stays; when it can be read again the rows go in.
fn damaged_on_the_way() {
    let disk = SimDisk::new(6);
    let db = simulated(&disk, 1500, 3);
    let mut txn = db.begin();
    INDEXES[1..].iter().for_each(|name| txn.drop_index(name).unwrap());
    txn.commit().unwrap();
    let schema = schema();
    let made = schema.indexes.iter().map(|index| {
        let before = disk.files();
        let mut txn = db.begin();
        txn.create_index("t", index).unwrap();
        txn.commit().unwrap();
        let new = |(name, _): &(String, u64)| {
            name.starts_with("data/") && !before.iter().any(|(known, _)| known == name)
        };
        disk.files().into_iter().find(new).expect("an index has a file").0
    });
    for file in made.collect::<Vec<_>>() {
        db.evict().unwrap();
        disk.fail_reads_of(&file, 8192, 1 << 30);
        let error = insert(&db, 3 * BATCH..4 * BATCH).unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{file}: {error}");
        disk.clear_faults();
        check(&db, 3 * BATCH);
    }
    assert_eq!(insert(&db, 3 * BATCH..4 * BATCH).unwrap() as i64, BATCH);
    check(&db, 4 * BATCH);
}

/// Statements of several threads share the helpers, and whoever gets none goes on alone.
fn beside_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let options = Database::options().memory(64 << 20).insert_threads(3);
    let db = options.open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    txn.commit().unwrap();
    let next = AtomicU64::new(0);
    let batches = 12;
    several("inserts", 3, &|| {
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed) as i64;
            if batch >= batches {
                break;
            }
            insert(&db, batch * BATCH..(batch + 1) * BATCH).unwrap();
            if batch % 4 == 0 {
                db.vacuum(Some("t")).unwrap();
            }
        }
    });
    check(&db, batches * BATCH);
}
