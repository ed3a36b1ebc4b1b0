//! Increments of a few rows by several threads under read committed, where every statement finds
//! its row changed since its snapshot was taken.
//!
//! Each increment is told the row it is about to change and checks that it is its own. At the end
//! every counter is the number of its committed increments: none was lost, none reached another
//! row. Meanwhile snapshots of several ages are held and looked at again, so that versions between
//! them leave while writers stand before them (R9), and vacuum runs all the time.

use std::collections::VecDeque;

use rightlink::{
    Busy, Database, IndexSchema, Isolation, Result, RowLock, ScanOptions, TableSchema, Transaction,
    TransactionOptions, Type, Value, Written,
};
use rightlink_env::Rng;
use rightlink_env::rng::rounds;
use rightlink_env::sync::{AtomicBool, Ordering};

const KEYS: u64 = 8;
const WRITERS: u64 = 4;
/// Snapshots held at once.
const HELD: usize = 3;

fn read_committed(db: &Database) -> Transaction {
    db.begin_with(TransactionOptions {
        isolation: Isolation::ReadCommitted,
        relaxed: true,
        ..Default::default()
    })
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int8(value) => *value,
        other => panic!("an int8, not {other:?}"),
    }
}

/// `n` counts; `copy` does too, in an index, for keys below half: the others' updates are
/// heap-only.
fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().pool_pages(256).open(dir.path()).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("counters")
        .column("k", Type::Int8)
        .column("n", Type::Int8)
        .column("copy", Type::Int8)
        .primary_key(["k"])
        .index(IndexSchema::new("by_copy").on("copy"));
    txn.create_table(&schema).unwrap();
    let row = |k| vec![Value::Int8(k), Value::Int8(0), Value::Int8(0)];
    let rows: Vec<_> = (0..KEYS as i64).map(row).collect();
    txn.insert_many("counters", &rows).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

/// The row of counter `k` after one more, if it is the row of counter `k`.
fn incremented(k: i64, old: &[Value]) -> Vec<Value> {
    assert_eq!(int(&old[0]), k, "a write for counter {k} is told another row");
    let n = Value::Int8(int(&old[1]) + 1);
    let copy = if k < KEYS as i64 / 2 { n.clone() } else { old[2].clone() };
    vec![old[0].clone(), n, copy]
}

/// One statement that finds the row and changes it, whoever changed it first.
fn by_statement(txn: &mut Transaction, k: i64) -> Result<()> {
    let written = txn.write("counters", |writer| {
        let options = ScanOptions::index("counters_pkey").equal(vec![Value::Int8(k)]);
        let found = writer.scan(&options)?.next().expect("a counter is never deleted")?;
        // Rivals go first.
        std::thread::yield_now();
        writer.update(found.id, &mut |_, old| Ok(Some(incremented(k, old))))
    })?;
    assert!(matches!(written, Written::Done(_)), "{written:?}");
    Ok(())
}

/// Finds the row, locks it by what was found, reads it again and changes it.
fn by_row_id(txn: &mut Transaction, k: i64) -> Result<()> {
    let find = |txn: &mut Transaction| txn.get("counters", &[Value::Int8(k)]);
    let found = find(txn)?.expect("a counter is never deleted");
    std::thread::yield_now();
    assert!(
        txn.lock_row("counters", found.id, RowLock::Exclusive, Busy::Wait)?,
        "counter {k} is there"
    );
    let locked = find(txn)?.expect("a counter is never deleted");
    let new = incremented(k, &locked.values);
    let set = [("n", new[1].clone()), ("copy", new[2].clone())];
    assert!(txn.update("counters", locked.id, &set)?, "counter {k} is there");
    Ok(())
}

fn increments(db: &Database, rng: &mut Rng, rounds: u64) -> Vec<i64> {
    let mut committed = vec![0; KEYS as usize];
    for _ in 0..rounds {
        let k = rng.below(KEYS).min(rng.below(KEYS)) as i64;
        let mut txn = read_committed(db);
        let work = if rng.chance(1, 2) { by_statement } else { by_row_id };
        work(&mut txn, k).expect("one row at a time meets no deadlock");
        if rng.chance(1, 8) {
            txn.rollback();
        } else {
            txn.commit().unwrap();
            committed[k as usize] += 1;
        }
    }
    committed
}

fn all(txn: &mut Transaction) -> Vec<Vec<Value>> {
    let rows = txn.scan("counters", &ScanOptions::index("counters_pkey")).unwrap();
    rows.map(|row| row.unwrap().values).collect()
}

/// Takes snapshots and looks at each again before it lets it go; how often.
fn look(db: &Database, stop: &AtomicBool) -> u64 {
    let mut held: VecDeque<(Transaction, Vec<Vec<Value>>)> = VecDeque::new();
    let mut looks = 0;
    while !stop.load(Ordering::Relaxed) || looks == 0 {
        let mut txn = db.begin();
        let seen = all(&mut txn);
        held.push_back((txn, seen));
        if held.len() > HELD {
            let (mut oldest, seen) = held.pop_front().expect("some are held");
            assert_eq!(all(&mut oldest), seen, "a snapshot sees what it saw");
            looks += 1;
        }
    }
    looks
}

fn run(seed: u64, rounds: u64) {
    println!("counters seed {seed}");
    let (_dir, db) = database();
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let writer = |thread| {
            let db = &db;
            scope.spawn(move || increments(db, &mut Rng::from_seed(seed << 8 | thread), rounds))
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let looker = scope.spawn(|| look(&db, &stop));
        let vacuum = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.vacuum(Some("counters")).unwrap();
            }
        });
        let counted: Vec<_> =
            writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        vacuum.join().unwrap();
        assert!(looker.join().unwrap() > 0, "old snapshots were looked at again");
        counted
    });
    let mut total = vec![0; KEYS as usize];
    for counted in counted {
        let counted = counted.expect("a writer ends well");
        total.iter_mut().zip(counted).for_each(|(total, more)| *total += more);
    }
    let now: Vec<i64> = all(&mut db.begin()).iter().map(|row| int(&row[1])).collect();
    assert_eq!(now, total, "every committed increment, and no other");
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn no_increment_is_lost_or_reaches_another_row() {
    (0..rounds()).for_each(|round| run(round + 1, 500));
}
