//! Checking a closed or crashed database without touching it.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use rightlink::{Database, Error, IndexSchema, TableSchema, Type, Value};

fn people() -> TableSchema {
    TableSchema::new("people")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("people_name").on("name"))
}

fn fill(db: &Database, from: i64, to: i64) {
    let row = |id: i64| vec![Value::Int8(id), Value::Text(format!("name {}", id % 97))];
    let rows: Vec<_> = (from..to).map(row).collect();
    let mut txn = db.begin();
    txn.insert_many("people", &rows).unwrap();
    txn.commit().unwrap();
}

/// Every file below `root`, with its bytes and its time of change; directories with theirs.
fn image(root: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(at) = rest.pop() {
        let changed = std::fs::metadata(&at).unwrap().modified().unwrap();
        let name = at.to_string_lossy().into_owned();
        if at.is_dir() {
            rest.extend(std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
            found.insert(name, (Vec::new(), changed));
        } else {
            found.insert(name, (std::fs::read(&at).unwrap(), changed));
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            std::fs::copy(entry, target).unwrap();
        }
    }
}

/// It used to open the database, which wrote to the control file, the log and the lock file.
#[test]
fn no_byte_and_no_time_changes() {
    let dir = tempfile::tempdir().unwrap();
    let (live, crashed) = (dir.path().join("live"), dir.path().join("crashed"));
    let db = Database::open(&live).unwrap();
    let mut txn = db.begin();
    txn.create_table(&people()).unwrap();
    txn.commit().unwrap();
    fill(&db, 0, 500);
    db.checkpoint().unwrap();
    fill(&db, 500, 3000);
    assert!(matches!(Database::verify_offline(&live), Err(Error::Locked(_))), "it is open");
    copy(&live, &crashed);
    db.close().unwrap();
    for path in [&live, &crashed] {
        let before = image(path);
        let report = Database::verify_offline(path).unwrap();
        assert_eq!(report.findings, []);
        assert!(report.rows >= 3000 && report.entries >= 6000, "{report:?}");
        let after = image(path);
        let changed: Vec<_> = before.keys().filter(|name| before[*name] != after[*name]).collect();
        assert!(changed.is_empty() && before.len() == after.len(), "changed: {changed:?}");
    }
    // And it opens afterwards as if nothing had been.
    let db = Database::open(&crashed).unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// A missing directory of the log was an input/output error instead of damage.
#[test]
fn a_missing_log_is_a_finding() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.create_table(&people()).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
    std::fs::remove_dir_all(dir.path().join("wal")).unwrap();
    let report = Database::verify_offline(dir.path()).unwrap();
    let found: Vec<_> = report.findings.iter().map(|f| (f.check, f.relation.as_str())).collect();
    assert_eq!(found, [("W3", "wal")]);
    let opened = Database::open(dir.path()).err();
    assert!(matches!(&opened, Some(Error::Corruption { file, .. }) if file == "wal"), "{opened:?}");
}
