//! What the store counts, and what it tells: figures of `Database::stats`, lines to its logger.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rightlink::{
    Busy, Database, Error, IndexSchema, RowId, RowLock, ScanOptions, TableSchema, Transaction,
    TransactionOptions, Type, Value,
};
use rightlink_env::Logger;

fn table(db: &Database) {
    let mut txn = db.begin();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("n", Type::Int8)
        .primary_key(["id"])
        .index(IndexSchema::new("by_n").on("n"));
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> = (0..500).map(|id| vec![Value::Int8(id), Value::Int8(id)]).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
}

fn find(txn: &mut Transaction, id: i64) -> RowId {
    txn.get("t", &[Value::Int8(id)]).unwrap().expect("the row").id
}

fn figure(db: &Database, name: &str) -> u64 {
    db.stats().get(name).unwrap_or_else(|| panic!("no figure {name}"))
}

/// The figure for conflicts was never counted up, whatever happened.
#[test]
fn conflicts_are_counted_by_kind_and_waits_with_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    table(&db);
    let (mut first, mut second) = (db.begin(), db.begin());
    let (mine, theirs) = (find(&mut first, 7), find(&mut second, 7));
    let patient = Some(Duration::from_millis(20));
    let mut third =
        db.begin_with(TransactionOptions { lock_timeout: patient, ..Default::default() });
    let same = find(&mut third, 7);
    assert!(first.update("t", mine, &[("n", Value::Int8(-1))]).unwrap());
    assert!(matches!(
        second.lock_row("t", theirs, RowLock::Exclusive, Busy::Fail),
        Err(Error::Conflict { .. })
    ));
    assert_eq!(figure(&db, "conflicts_row_locked"), 1);
    assert_eq!((figure(&db, "lock_waits"), figure(&db, "lock_wait_us")), (0, 0));
    let late = third.update("t", same, &[("n", Value::Int8(-3))]);
    assert!(matches!(late, Err(Error::LockTimeout { .. })), "{late:?}");
    assert_eq!((figure(&db, "lock_waits"), figure(&db, "lock_waits_given_up")), (1, 1));
    assert!(figure(&db, "lock_wait_us") > 0);
    first.commit().unwrap();
    assert_eq!(figure(&db, "conflicts"), 0);
    let lost = second.update("t", theirs, &[("n", Value::Int8(-2))]);
    assert!(matches!(lost, Err(Error::Conflict { .. })), "{lost:?}");
    assert_eq!((figure(&db, "conflicts"), figure(&db, "deadlocks")), (1, 0));
    drop((second, third));
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn upkeep_is_counted_by_cause_and_by_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    table(&db);
    let asked = figure(&db, "checkpoints_asked");
    db.checkpoint().unwrap();
    assert_eq!(figure(&db, "checkpoints_asked"), asked + 1);
    let stats = db.stats();
    let causes: u64 = ["log_space", "redo_time", "asked", "disk_full"]
        .iter()
        .map(|cause| stats.get(&format!("checkpoints_{cause}")).unwrap())
        .sum();
    assert_eq!(Some(causes), stats.get("checkpoints"));
    assert!(stats.get("longest_checkpoint_us") <= stats.get("checkpoint_us"));
    let mut txn = db.begin();
    let ids: Vec<RowId> =
        txn.scan("t", &ScanOptions::all()).unwrap().map(|row| row.unwrap().id).collect();
    assert_eq!(txn.delete_many("t", &ids[..300]).unwrap(), 300);
    txn.commit().unwrap();
    let report = db.vacuum(Some("t")).unwrap();
    assert_eq!(figure(&db, "vacuums"), 1);
    assert_eq!(figure(&db, "vacuum_rows_removed"), report.rows_removed);
    assert_eq!(figure(&db, "vacuum_entries_removed"), report.entries_removed);
    assert_eq!(figure(&db, "vacuum_pages"), report.pages_scanned);
    assert!(figure(&db, "log_syncs") > 0 && figure(&db, "log_written_bytes") > 0);
    assert!(db.verify().unwrap().is_clean());
}

/// Names are what programs go by: none twice, and each with its unit where it has one.
#[test]
fn figures_have_names_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut names: Vec<_> = db.stats().figures.iter().map(|(name, _)| *name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(db.verify().unwrap().is_clean());
}

/// A database as a crash would leave it: that is what a copy is.
fn crashed(dir: &Path) -> PathBuf {
    let db = Database::open(dir.join("db")).unwrap();
    table(&db);
    let copy = dir.join("copy");
    db.backup(&copy).unwrap();
    copy
}

#[test]
fn recovery_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (logger, lines) = Logger::collecting();
    let copy = crashed(dir.path());
    let db = Database::options().logger(logger).open(&copy).unwrap();
    assert!(figure(&db, "recovered_records") > 0);
    assert_eq!(lines.containing("records of log"), 1, "{:?}", lines.all());
    assert!(db.verify().unwrap().is_clean());
}

/// A vacuum is counted at its table, by who wanted it, when it has come to its end.
#[test]
fn vacuums_of_a_table_are_counted_and_dated() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    table(&db);
    let rows = || db.table_figures().unwrap().remove(0).rows;
    let before = rows();
    assert_eq!((before.vacuums, before.last_vacuum, before.inserted_since_vacuum), (0, None, 500));
    let began = db.unix_micros();
    db.vacuum(Some("t")).unwrap();
    let after = rows();
    assert_eq!((after.vacuums, after.auto_vacuums, after.inserted_since_vacuum), (1, 0, 0));
    assert!(after.last_vacuum.is_some_and(|time| time >= began), "{after:?}");
    assert_eq!(after.last_auto_vacuum, None);
    let mut txn = db.begin();
    txn.insert("t", &[Value::Int8(500), Value::Int8(500)]).unwrap();
    txn.commit().unwrap();
    assert_eq!(rows().inserted_since_vacuum, 1);
    assert!(db.verify().unwrap().is_clean());
}

/// Updates are told apart: those that could have left an index alone, those whose indexes all
/// change, those that need no entry, and those that leave their page.
#[test]
fn entries_that_updates_could_have_spared_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let schema = TableSchema::new("t").column("id", Type::Int8).column("n", Type::Int8);
    let schema = schema.column("free", Type::Int8);
    let indexes = [IndexSchema::new("by_n").on("n"), IndexSchema::new("by_both").on("n").on("id")];
    let [by_n, by_both] = indexes;
    let mut txn = db.begin();
    txn.create_table(&schema.primary_key(["id"]).index(by_n).index(by_both)).unwrap();
    let mut row = txn.insert("t", &[1, 2, 3].map(Value::Int8)).unwrap();
    txn.commit().unwrap();
    let mut update = |changes: &[(&str, Value)]| {
        let mut txn = db.begin();
        assert!(txn.update("t", row, changes).unwrap());
        row = txn.scan("t", &ScanOptions::all()).unwrap().next().unwrap().unwrap().id;
        txn.commit().unwrap();
        let rows = db.table_figures().unwrap().remove(0).rows;
        [rows.updated, rows.heap_only, rows.new_page, rows.partial, rows.unchanged_entries]
    };
    assert_eq!(update(&[("free", Value::Int8(4))]), [1, 1, 0, 0, 0], "heap-only");
    assert_eq!(update(&[("n", Value::Int8(5))]), [2, 1, 0, 1, 1], "the primary key stays");
    let all = [("n", Value::Int8(6)), ("id", Value::Int8(7))];
    assert_eq!(update(&all), [3, 1, 0, 1, 1], "all keys change");
    assert_eq!(update(&[("id", Value::Int8(8))]), [4, 1, 0, 2, 2], "by_n stays");
    let mut txn = db.begin();
    let others = (100..600).map(|id| [id, id, id].map(Value::Int8).to_vec()).collect::<Vec<_>>();
    let ids = txn.insert_many("t", &others).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    assert!(txn.update("t", ids[200], &[("n", Value::Int8(9))]).unwrap());
    txn.commit().unwrap();
    let rows = db.table_figures().unwrap().remove(0).rows;
    assert_eq!([rows.updated, rows.new_page, rows.partial], [5, 1, 2], "the page was full");
    assert!(db.verify().unwrap().is_clean());
}

/// A scan comes to entries of rows that are not there any more.
#[test]
fn entries_of_dead_rows_are_counted_apart_from_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    table(&db);
    let reader = db.begin();
    let mut txn = db.begin();
    let row = find(&mut txn, 7);
    assert!(txn.delete("t", row).unwrap());
    txn.commit().unwrap();
    let mut later = db.begin();
    let below_ten = ScanOptions::index("by_n").to(vec![Value::Int8(9)]);
    assert_eq!(later.scan("t", &below_ten).unwrap().count(), 9);
    let figures = db.table_figures().unwrap().remove(0);
    let by_n = figures.indexes.iter().find(|index| index.name == "by_n").unwrap();
    assert_eq!((by_n.scans, by_n.entries, by_n.rows), (1, 10, 9));
    drop((reader, later));
    assert!(db.verify().unwrap().is_clean());
}

/// It used to wait for the transaction that asked, for ever.
#[test]
fn who_has_a_table_for_himself_sees_its_pages() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("own").column("a", Type::Int4).nullable("b", Type::Text);
    let index = IndexSchema::new("own_key").on("b").on("a");
    txn.create_table(&schema.index(index)).unwrap();
    let texts = [Value::Null, Value::Text(String::new()), Value::Text("x".into())];
    for (a, b) in texts.into_iter().enumerate() {
        txn.insert("own", &[Value::Int4(a as i32), b]).unwrap();
    }
    assert!(matches!(db.inspect("own_key", Some(0)), Err(Error::NotFound(_))), "others see none");
    let meta = txn.catalog().inspect("own_key", Some(0)).unwrap();
    assert_eq!((meta[0].kind, meta[0].root), ('m', Some((1, 0))));
    let leaf = txn.catalog().inspect("own_key", Some(1)).unwrap().remove(0);
    assert_eq!((leaf.kind, leaf.entries.len(), leaf.items.len()), ('r', 3, 3));
    let shapes: Vec<_> = leaf.entries.iter().map(|entry| (entry.nulls, entry.varying)).collect();
    assert_eq!(
        shapes,
        [(Some(false), Some(true)), (Some(false), Some(true)), (Some(true), Some(false))]
    );
    assert!(leaf.entries.iter().all(|entry| entry.rows.len() == 1 && entry.child.is_none()));
    assert!(!txn.catalog().inspect("own", None).unwrap().is_empty());
    assert!(matches!(txn.catalog().inspect("own_key", Some(9)), Err(Error::NotFound(_))));
    txn.commit().unwrap();
    assert!(db.verify().unwrap().is_clean());
}
