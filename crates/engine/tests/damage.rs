//! Damage met by a statement names the table or index, its file and its block.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeSet;
use std::path::Path;

use rightlink::{
    Database, Error, IndexSchema, Result, ScanOptions, TableSchema, Transaction, Type, Value,
};

const PAGE: usize = 8192;

fn row(id: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Text(format!("{:0100}", id * 7919 % 3000))]
}

fn build(dir: &Path) {
    let db = Database::open(dir).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("t_name").on("name"));
    txn.create_table(&schema).unwrap();
    txn.insert_many("t", &(0..3000).map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
}

/// Changes a byte of block `block` of every file of a user's table that has one.
fn damage(dir: &Path, block: usize) {
    for entry in std::fs::read_dir(dir.join("data")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        if u32::from_str_radix(name, 16).unwrap() >= 64 && bytes.len() > block * PAGE {
            bytes[block * PAGE + 5000] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

/// What a statement that meets damage says: relation, file, block.
fn said<T>(result: Result<T>) -> (String, String, u32) {
    match result {
        Err(Error::Corruption { relation: Some(relation), file, block: Some(block), .. }) => {
            (relation, file, block)
        }
        Err(error) => panic!("damage that names its place, not {error:?}"),
        Ok(_) => panic!("the damage was not met"),
    }
}

fn all(txn: &mut Transaction, options: &ScanOptions) -> Result<usize> {
    let rows: Result<Vec<_>> = txn.scan("t", options)?.collect();
    rows.map(|rows| rows.len())
}

/// The message used to be "corruption in data/00000040, block 6": which table is that?
#[test]
fn every_statement_names_the_relation_that_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    damage(dir.path(), 3);
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let heap = said(all(&mut txn, &ScanOptions::all()));
    assert_eq!((heap.0.as_str(), heap.2), ("table t", 3));
    let index = said(all(&mut txn, &ScanOptions::index("t_name").columns(["name"])));
    assert_eq!(index.0, "index t_name of table t");
    let mut places = BTreeSet::new();
    for id in 0..3000 {
        let key = [Value::Int8(id)];
        if let Err(error) = txn.get("t", &key) {
            places.insert(said::<()>(Err(error)).0);
        }
    }
    assert!(places.remove("index t_pkey of table t"), "{places:?}");
    places.remove("table t");
    assert_eq!(places, BTreeSet::new(), "all are named");
    let twice: Vec<_> = (0..3000).map(row).collect();
    let written = said(txn.insert_many("t", &twice));
    assert!(written.0.ends_with("table t"), "{written:?}");
    assert!(said(db.vacuum(Some("t"))).0.ends_with("table t"));
    assert_eq!(said(db.inspect("t_name", None)).0, "index t_name of table t");
    assert_eq!(said(db.inspect("t", None)), heap);
    let text = all(&mut db.begin(), &ScanOptions::all()).unwrap_err().to_string();
    let start = format!("corruption in table t, {}, block 3: ", heap.1);
    assert!(heap.1.starts_with("data/") && text.starts_with(&start), "{text}");
}

/// A table whose first page is damaged cannot even be opened; the error still says which it is.
#[test]
fn a_table_that_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    damage(dir.path(), 0);
    let db = Database::open(dir.path()).unwrap();
    let (relation, file, block) = said(db.describe("t"));
    assert!(relation.ends_with("table t"), "{relation}");
    assert!(file.starts_with("data/"), "{file}");
    assert_eq!(block, 0);
}
