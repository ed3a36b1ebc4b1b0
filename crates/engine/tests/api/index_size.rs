//! How large indexes are, measured on their pages through the public names: bytes of leaves an
//! entry, free space included.

use rightlink::{Database, IndexSchema, PageInfo, TableSchema, Type, Value};

const ROWS: i64 = 150_000;
/// Rows of each value of `tag`.
const EACH: i64 = 100;

/// Leaves of an index: how many, and the part of them that is used.
fn leaves(db: &Database, index: &str) -> (f64, f64) {
    let pages = db.inspect(index, None).unwrap();
    let leaves: Vec<&PageInfo> = pages.iter().filter(|page| page.kind == 'l').collect();
    let free: u32 = leaves.iter().map(|page| page.free_size).sum();
    let bytes = leaves.iter().map(|page| f64::from(page.page_size)).sum::<f64>();
    (bytes, 1.0 - f64::from(free) / bytes)
}

/// The size is at most `most` bytes an entry; returns the fill.
fn check(db: &Database, index: &str, most: f64) -> f64 {
    let (bytes, fill) = leaves(db, index);
    let size = bytes / ROWS as f64;
    println!("{index}: {size:.2} bytes an entry, {:.1} % filled", fill * 100.0);
    assert!(size <= most, "{index}: {size} bytes an entry, at most {most}");
    assert!(size > 1.0, "{index} holds all rows");
    fill
}

/// Every number once, in no order.
fn scattered(id: i64) -> i64 {
    // The multiplier has no factor in common with the number of rows.
    id * 73_471 % ROWS
}

/// A number between the scattered ones, of one row only.
fn another(id: i64) -> i64 {
    scattered(id) * 1009 + 500
}

/// A table with ascending and scattered numbers and with values of many rows.
fn database(with: &[IndexSchema]) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("number", Type::Int8)
        .column("tag", Type::Int8)
        .unlogged()
        .primary_key(["id"]);
    for index in with {
        schema = schema.index(index.clone());
    }
    let mut txn = db.begin();
    txn.create_table(&schema).unwrap();
    let rows: Vec<Vec<Value>> = (0..ROWS)
        .map(|id| {
            let number = scattered(id);
            vec![Value::Int8(id), Value::Int8(number * 1009), Value::Int8(number % (ROWS / EACH))]
        })
        .collect();
    for chunk in rows.chunks(500) {
        txn.insert_many("t", chunk).unwrap();
    }
    txn.commit().unwrap();
    (dir, db)
}

#[test]
fn inserted_indexes_are_small() {
    let number = IndexSchema::new("number").on("number");
    let (_dir, db) = database(&[number, IndexSchema::new("tag").on("tag")]);
    // In ascending order pages are left 90 % full, in no order as full as splits make them.
    let fill = check(&db, "t_pkey", 14.0);
    assert!((0.88..=0.91).contains(&fill), "ascending keys fill {fill}");
    check(&db, "number", 24.0);
    // Lists are made when a page is full, so what has come since then is not in one yet: at this
    // number of rows many pages are about to be.
    check(&db, "tag", 5.1);
}

#[test]
fn built_indexes_are_small() {
    let (_dir, db) = database(&[]);
    let mut txn = db.begin();
    txn.create_index("t", &IndexSchema::new("number").on("number")).unwrap();
    txn.create_index("t", &IndexSchema::new("tag").on("tag")).unwrap();
    txn.commit().unwrap();
    let fill = check(&db, "number", 14.0);
    assert!((0.88..=0.91).contains(&fill), "a bulk build fills {fill}");
    check(&db, "tag", 5.0);
}

/// An old snapshot sees every row as it was, so each update leaves both versions an entry in every
/// index. Leaves that were built nearly full used to be split, all of them: twice the size.
#[test]
fn updates_beside_an_old_snapshot_do_not_double_indexes() {
    let (_dir, db) = database(&[]);
    let mut txn = db.begin();
    txn.create_index("t", &IndexSchema::new("number").on("number")).unwrap();
    txn.commit().unwrap();
    let before = ["t_pkey", "number"].map(|index| leaves(&db, index).0);
    let mut old = db.begin();
    assert!(old.get("t", &[Value::Int8(1)]).unwrap().is_some(), "it has its snapshot");
    for first in 0..100 {
        let mut txn = db.begin();
        // Every fourth row, far from each other in both indexes.
        for id in (first * 4..ROWS).step_by(400) {
            let row = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
            assert!(txn.update("t", row.id, &[("number", Value::Int8(another(id)))]).unwrap());
        }
        txn.commit().unwrap();
    }
    let after = ["t_pkey", "number"].map(|index| leaves(&db, index).0);
    for (index, (before, after)) in ["t_pkey", "number"].iter().zip(before.iter().zip(after)) {
        let grown = after / before;
        println!("{index}: {grown:.2} times its size");
        assert!((1.02..=1.4).contains(&grown), "{index}: {grown} times its size");
    }
    let row = old.get("t", &[Value::Int8(4)]).unwrap().unwrap();
    assert_eq!(
        row.values[1],
        Value::Int8(scattered(4) * 1009),
        "the old snapshot sees what it saw"
    );
    drop(old);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
