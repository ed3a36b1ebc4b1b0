//! A panic in the completion of a write, on whatever thread runs it: the instance is poisoned, and
//! neither the checkpoint that waits for the write nor anybody after it waits for ever. What was
//! acknowledged is there when the database is opened again.
//!
//! Does not do: panics in the middle of a change, and of reads (`buffer/tests/panics.rs`).

use rightlink::{
    Database, Error, Method, Result, ScanOptions, TableSchema, Transaction, Type, Value,
};
use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicUsize, Ordering};

const ROWS: i64 = 5_000;

fn run<T>(db: &Database, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut txn = db.begin();
    let done = work(&mut txn)?;
    txn.commit().map(|()| done)
}

fn insert(db: &Database, from: i64, count: i64) -> Result<()> {
    let row = |id| vec![Value::Int8(id), Value::Text("x".repeat(100))];
    run(db, |txn| txn.insert_many("t", &(from..from + count).map(row).collect::<Vec<_>>()))?;
    Ok(())
}

fn count(db: &Database) -> usize {
    let mut txn = db.begin();
    txn.scan("t", &ScanOptions::index("t_pkey"))
        .unwrap()
        .inspect(|row| assert!(row.is_ok()))
        .count()
}

/// More completions panic than there are threads that run them.
#[test]
fn a_panic_in_the_completion_of_a_write_hangs_nobody() {
    let _alone = crate::alone();
    for method in [Method::Worker, Method::IoUring, Method::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Database::options().method(method).open(dir.path()).unwrap();
        let db = open();
        let schema = TableSchema::new("t").column("id", Type::Int8).column("x", Type::Text);
        run(&db, |txn| txn.create_table(&schema.clone().primary_key(["id"]))).unwrap();
        insert(&db, 0, ROWS).unwrap();
        let panics = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&panics);
        let hook = points::install(move |name| {
            if name == "buffer.writeback.complete" {
                counted.fetch_add(1, Ordering::SeqCst);
                panic!("on purpose");
            }
        });
        let checkpoint = db.checkpoint();
        assert!(matches!(checkpoint, Err(Error::Poisoned(_))), "{method:?}: {checkpoint:?}");
        drop(hook);
        assert!(panics.load(Ordering::SeqCst) > 0, "{method:?}");
        let refused = insert(&db, ROWS, 1);
        assert!(matches!(refused, Err(Error::Poisoned(_))), "{method:?}: {refused:?}");
        assert_eq!(count(&db), ROWS as usize, "{method:?}: reads go on");
        drop(db);
        let db = open();
        assert_eq!(count(&db), ROWS as usize, "{method:?}");
        insert(&db, ROWS, 1).unwrap();
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "{method:?}: {:?}", report.findings);
    }
}
