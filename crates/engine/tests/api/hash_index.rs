//! Hash indexes through the public crate: made with a table and over rows that exist, read, refused
//! where they have no answer, vacuumed, reopened.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use rightlink::{
    Database, Error, IndexMethod, IndexSchema, Result, ScanOptions, TableSchema, Transaction, Type,
    Value,
};

const ROWS: i64 = 4000;

fn table() -> TableSchema {
    let hash = |name: &str| IndexSchema::new(name).method(IndexMethod::Hash);
    TableSchema::new("people")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .nullable("city", Type::Text)
        .primary_key(["id"])
        .index(hash("by_name").on("name").unique())
        .index(hash("by_city").on("city").on("name"))
}

fn person(id: i64) -> Vec<Value> {
    let city = match id % 5 {
        0 => Value::Null,
        n => Value::Text(format!("city {n}")),
    };
    vec![Value::Int8(id), Value::Text(format!("name {id}")), city]
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn ids(txn: &mut Transaction, options: &ScanOptions) -> Result<Vec<i64>> {
    let rows = txn.scan("people", options)?.collect::<Result<Vec<_>>>()?;
    let id = |value: &Value| match value {
        Value::Int8(id) => *id,
        other => panic!("{other:?} is no id"),
    };
    let mut ids: Vec<i64> = rows.iter().map(|row| id(&row.values[0])).collect();
    ids.sort_unstable();
    Ok(ids)
}

fn equal(index: &str, key: Vec<Value>) -> ScanOptions {
    ScanOptions::index(index).equal(key)
}

fn check(db: &Database, lives: impl Fn(i64) -> bool) {
    let mut txn = db.begin();
    for id in (0..ROWS).step_by(37) {
        let person = person(id);
        let expected: Vec<i64> = Some(id).filter(|id| lives(*id)).into_iter().collect();
        let by_name = equal("by_name", vec![person[1].clone()]);
        assert_eq!(ids(&mut txn, &by_name).unwrap(), expected);
        assert_eq!(ids(&mut txn, &by_name.columns(["id"]).any_order()).unwrap(), expected);
        let by_city = equal("by_city", vec![person[2].clone(), person[1].clone()]);
        assert_eq!(ids(&mut txn, &by_city).unwrap(), expected);
    }
    let mut list = ScanOptions::index("by_name");
    list.any_of = (0..60).map(|n| vec![text(&format!("name {}", n * 100))]).collect();
    let expected: Vec<i64> =
        (0..60).map(|n| n * 100).filter(|id| *id < ROWS && lives(*id)).collect();
    assert_eq!(ids(&mut txn, &list).unwrap(), expected);
    drop(txn);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

fn refused(db: &Database, options: &ScanOptions) -> String {
    let mut txn = db.begin();
    match ids(&mut txn, options) {
        Err(Error::Invalid(what)) => what,
        other => panic!("{other:?} instead of a refusal"),
    }
}

fn filled(dir: &std::path::Path) -> Database {
    let db = Database::open(dir).unwrap();
    let mut txn = db.begin();
    txn.create_table(&table()).unwrap();
    let rows: Vec<_> = (0..ROWS).map(person).collect();
    rows.chunks(900).for_each(|rows| drop(txn.insert_many("people", rows).unwrap()));
    txn.commit().unwrap();
    db
}

#[test]
fn rows_are_found_by_whole_keys() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    check(&db, |_| true);
    let mut txn = db.begin();
    let again = txn.insert("people", &[Value::Int8(-1), text("name 7"), Value::Null]);
    assert!(matches!(again, Err(Error::UniqueViolation { .. })), "{again:?}");
    txn.rollback();
    let mut txn = db.begin();
    for id in (0..ROWS).filter(|id| id % 3 != 0) {
        let row = txn.get("people", &[Value::Int8(id)]).unwrap().unwrap();
        txn.delete("people", row.id).unwrap();
    }
    txn.commit().unwrap();
    check(&db, |id| id % 3 == 0);
    db.vacuum(None).unwrap();
    check(&db, |id| id % 3 == 0);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    check(&db, |id| id % 3 == 0);
    let tables = db.tables().unwrap();
    let methods: Vec<_> = tables[0].indexes.iter().map(|index| index.method).collect();
    assert_eq!(methods, [IndexMethod::BTree, IndexMethod::Hash, IndexMethod::Hash]);
}

#[test]
fn an_index_over_rows_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let mut txn = db.begin();
    txn.drop_index("by_name").unwrap();
    txn.drop_index("by_city").unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    let hash = |name: &str| IndexSchema::new(name).method(IndexMethod::Hash);
    txn.create_index("people", &hash("by_name").on("name").unique()).unwrap();
    txn.create_index("people", &hash("by_city").on("city").on("name")).unwrap();
    let twice = txn.create_index("people", &hash("by_c").on("city").unique());
    assert!(matches!(twice, Err(Error::UniqueViolation { .. })), "{twice:?}");
    txn.rollback();
    let mut txn = db.begin();
    txn.create_index("people", &hash("by_name").on("name").unique()).unwrap();
    txn.create_index("people", &hash("by_city").on("city").on("name")).unwrap();
    txn.commit().unwrap();
    check(&db, |_| true);
    let pages = db.inspect("by_name", None).unwrap();
    assert!(pages.iter().filter(|page| page.kind == 'b').count() > 10);
    let live: u32 = pages.iter().map(|page| page.live_items).sum();
    assert_eq!(i64::from(live), ROWS);
    let block = pages.iter().find(|page| page.kind == 'b').unwrap().block;
    assert!(!db.inspect("by_name", Some(block)).unwrap()[0].items.is_empty());
}

#[test]
fn what_it_cannot_do_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let city = || text("city 1");
    let mut prefix = ScanOptions::index("by_city");
    prefix.any_of = vec![vec![city()]];
    for options in [
        ScanOptions::index("by_city"),
        ScanOptions::index("by_city").from(vec![city()]),
        ScanOptions::index("by_city").from(vec![city(), city()]).to(vec![city(), text("x")]),
        equal("by_city", vec![city()]),
        equal("by_city", vec![city(), text("name 1")]).backward(),
        prefix,
    ] {
        let what = refused(&db, &options);
        assert!(what.contains("by_city") && what.contains("hash index"), "{what}");
    }
    let mut txn = db.begin();
    let ordered = IndexSchema::new("x").on_desc("name").method(IndexMethod::Hash);
    let refused = txn.create_index("people", &ordered);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

/// A key of many rows is a chain of overflow pages; other keys do not lie behind it.
#[test]
fn one_key_of_many_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let by_tag = IndexSchema::new("by_tag").on("tag").method(IndexMethod::Hash);
    let schema = TableSchema::new("people").column("id", Type::Int8).column("tag", Type::Int8);
    txn.create_table(&schema.primary_key(["id"]).index(by_tag)).unwrap();
    let tag = |id: i64| if id % 4 == 0 { id } else { 0 };
    let rows: Vec<_> = (0..20_000).map(|id| vec![Value::Int8(id), Value::Int8(tag(id))]).collect();
    rows.chunks(500).for_each(|rows| drop(txn.insert_many("people", rows).unwrap()));
    txn.commit().unwrap();
    let mut txn = db.begin();
    let zero = equal("by_tag", vec![Value::Int8(0)]);
    let expected: Vec<i64> = (0..20_000).filter(|id| tag(*id) == 0).collect();
    assert_eq!(ids(&mut txn, &zero).unwrap(), expected);
    for id in (4..20_000).step_by(400) {
        assert_eq!(ids(&mut txn, &equal("by_tag", vec![Value::Int8(id)])).unwrap(), [id]);
    }
    drop(txn);
    let pages = db.inspect("by_tag", None).unwrap();
    let overflow = pages.iter().filter(|page| page.kind == 'o').count();
    assert!(overflow > 30, "{overflow} overflow pages");
    let mut txn = db.begin();
    for row in txn.scan("people", &zero).unwrap().collect::<Result<Vec<_>>>().unwrap() {
        txn.delete("people", row.id).unwrap();
    }
    txn.commit().unwrap();
    db.vacuum(None).unwrap();
    let pages = db.inspect("by_tag", None).unwrap();
    let left = pages.iter().filter(|page| page.kind == 'o').count();
    assert!(left * 10 < overflow, "{left} of {overflow} overflow pages are left");
    assert!(db.verify().unwrap().is_clean());
}
