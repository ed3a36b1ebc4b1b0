//! Scans that a transaction holds open while it returns to a savepoint: those that began after it
//! was set end with an error that says so, whatever was written; those that began before go on.
//!
//! Does not do: SQL's cursors (`crates/sql/tests/api/state.rs`).

use std::io::Read;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use rightlink::{
    Condition, Database, Error, IndexMethod, IndexSchema, Result, Rows, ScanOptions, TableSchema,
    Transaction, Type, Value,
};

/// Rows of the table; each page has a few of them.
const ROWS: i64 = 300;

fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let schema = TableSchema::new("t")
        .column("k", Type::Int8)
        .column("group", Type::Int8)
        .column("n", Type::Int8)
        .column("pad", Type::Text)
        .primary_key(["k"])
        .index(IndexSchema::new("t_group").on("group").on("n"))
        .index(IndexSchema::new("t_hash").on("group").method(IndexMethod::Hash));
    let mut txn = db.begin();
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
    db.vacuum(None).unwrap();
    (dir, db)
}

fn row(k: i64) -> Vec<Value> {
    let pad = Value::Text("x".repeat(700));
    vec![Value::Int8(k), Value::Int8(k % 4), Value::Int8(k / 4), pad]
}

/// Every kind of scan that gives several rows.
fn kinds() -> Vec<(&'static str, ScanOptions)> {
    let one = |group: i64| vec![Value::Int8(group)];
    let by = |name: &str| ScanOptions::index(name);
    let from_3 = Bound::Included(Value::Int8(3));
    vec![
        ("heap", ScanOptions::all()),
        ("sample", ScanOptions { sample: Some((20, 1)), ..ScanOptions::all() }),
        ("index", by("t_pkey")),
        ("backward", by("t_pkey").backward()),
        ("any order", by("t_pkey").any_order()),
        ("range", by("t_pkey").from(one(20)).to(one(200))),
        ("index-only", by("t_group").columns(["group", "n"])),
        ("prefix", by("t_group").equal(one(1))),
        ("skip", by("t_group").matching("n", Condition::Between(from_3, Bound::Unbounded))),
        ("list", ScanOptions { any_of: vec![one(1), one(3)], ..by("t_group") }),
        ("hash", by("t_hash").equal(one(2))),
        ("hash list", ScanOptions { any_of: vec![one(0), one(2)], ..by("t_hash") }),
    ]
}

fn ended(result: Option<Result<impl Sized>>) {
    match result {
        Some(Err(Error::Invalid(text))) => assert!(text.contains("savepoint"), "{text}"),
        Some(Err(error)) => panic!("{error}"),
        Some(Ok(_)) => panic!("a row of a scan that has ended"),
        None => panic!("an end that looks like that of all rows"),
    }
}

fn count(rows: Rows) -> usize {
    rows.collect::<Result<Vec<_>>>().unwrap().len()
}

/// Something that a snapshot taken later sees.
fn write(txn: &mut Transaction, k: i64) {
    txn.insert("t", &row(k)).unwrap();
}

#[test]
fn scans_that_began_after_the_savepoint_end_with_it() {
    let (_dir, db) = database();
    // Whether something was written before the scans began, after that, or not at all.
    for (before, after) in [(false, false), (true, false), (false, true), (true, true)] {
        for (kind, options) in kinds() {
            let mut txn = db.begin();
            let all = count(txn.scan("t", &options).unwrap());
            assert!(all > 10, "{kind}: {all} rows");
            let mut older = txn.scan("t", &options).unwrap();
            older.next().unwrap().unwrap();
            let savepoint = txn.savepoint();
            if before {
                write(&mut txn, ROWS);
            }
            let mut begun = txn.scan("t", &options).unwrap();
            let fresh = txn.scan("t", &options).unwrap();
            let at_end = {
                let mut rows = txn.scan("t", &options).unwrap();
                rows.by_ref().for_each(|row| drop(row.unwrap()));
                rows
            };
            begun.next().unwrap().unwrap();
            if after {
                write(&mut txn, ROWS + 1);
            }
            txn.rollback_to(savepoint).unwrap();
            for mut rows in [begun, fresh, at_end] {
                ended(rows.next());
                ended(rows.next());
                assert!(rows.mark().is_err() && rows.turn().is_err(), "{kind}");
            }
            assert_eq!(count(older), all - 1, "{kind}: it began before");
            // The savepoint stays; scans that begin from here on are none of those that ended.
            let later = txn.scan("t", &options).unwrap();
            let inner = txn.savepoint();
            write(&mut txn, ROWS);
            txn.rollback_to(inner).unwrap();
            assert_eq!(count(later), all, "{kind}");
            let mut last = txn.scan("t", &options).unwrap();
            txn.rollback_to(savepoint).unwrap();
            ended(last.next());
            txn.commit().unwrap();
        }
    }
    assert!(db.verify().unwrap().is_clean());
}

/// Scans of savepoints that were released end with the one around them.
#[test]
fn a_released_savepoint_gives_its_scans_to_the_one_around_it() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let outer = txn.savepoint();
    let mut scans = Vec::new();
    for _ in 0..3 {
        let middle = txn.savepoint();
        let _inner = txn.savepoint();
        scans.push(txn.scan("t", &ScanOptions::all()).unwrap());
        txn.release(middle).unwrap();
        assert!(txn.rollback_to(middle).is_err(), "it is not there any more");
        scans.iter_mut().for_each(|rows| drop(rows.next().unwrap().unwrap()));
    }
    txn.rollback_to(outer).unwrap();
    scans.iter_mut().for_each(|rows| ended(rows.next()));
    // Without a savepoint around, nothing undoes what a released one began.
    let top = txn.scan("t", &ScanOptions::all()).unwrap();
    txn.release(outer).unwrap();
    let kept = txn.savepoint();
    let kept_scan = txn.scan("t", &ScanOptions::all()).unwrap();
    txn.release(kept).unwrap();
    let unrelated = txn.savepoint();
    txn.rollback_to(unrelated).unwrap();
    assert_eq!([count(top), count(kept_scan)], [ROWS as usize; 2]);
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// A scan for one whole key, of one place, of everything as it is now, and of a value.
#[test]
fn reads_of_one_thing_end_with_the_savepoint() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let savepoint = txn.savepoint();
    let key = ScanOptions::index("t_pkey").equal(vec![Value::Int8(7)]);
    let id = txn.get("t", &[Value::Int8(7)]).unwrap().unwrap().id;
    let mut scans = [
        txn.scan("t", &key).unwrap(),
        txn.scan("t", &ScanOptions::at(id)).unwrap(),
        txn.scan("t", &ScanOptions::all().latest()).unwrap(),
    ];
    let mut value = txn.read_value("t", id, "pad").unwrap().unwrap();
    let mut some = [0; 10];
    assert_eq!(value.read(&mut some).unwrap(), 10);
    txn.rollback_to(savepoint).unwrap();
    scans.iter_mut().for_each(|rows| ended(rows.next()));
    let error = value.read(&mut some).unwrap_err();
    assert!(error.to_string().contains("savepoint"), "{error}");
    assert_eq!(count(txn.scan("t", &key).unwrap()), 1);
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// Wakes the thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// What a polled cursor has read ahead is not handed over either.
#[test]
fn a_polled_cursor_ends_with_its_savepoint() {
    let (_dir, db) = database();
    let mut txn = db.begin();
    let mut older = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
    let savepoint = txn.savepoint();
    let mut cursor = txn.scan("t", &ScanOptions::all()).unwrap().into_cursor().unwrap();
    for _ in 0..3 {
        assert!(block_on(cursor.next()).unwrap().is_ok());
    }
    txn.rollback_to(savepoint).unwrap();
    ended(block_on(cursor.next()));
    assert!(block_on(cursor.next()).is_none(), "nothing comes after an error");
    for _ in 0..ROWS {
        assert!(block_on(older.next()).unwrap().is_ok(), "it began before");
    }
    assert!(block_on(older.next()).is_none());
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}
