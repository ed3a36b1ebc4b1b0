//! The life of a small database through the public crate: create, use, close, reopen.

use rightlink::{Database, Error, IndexSchema, ScanOptions, TableSchema, Type, Value};

fn people() -> TableSchema {
    TableSchema::new("people")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .nullable("city", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("people_city").on("city").on_desc("id"))
}

fn person(id: i64) -> Vec<Value> {
    let city = ["Delft", "Gent", "Lund"][id as usize % 3];
    vec![Value::Int8(id), Value::Text(format!("name {id}")), Value::Text(city.into())]
}

#[test]
fn rows_are_found_through_every_index_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.create_table(&people()).unwrap();
    let rows: Vec<_> = (0..3000).map(person).collect();
    txn.insert_many("people", &rows).unwrap();
    txn.commit().unwrap();
    check(&db);
    let mut txn = db.begin();
    let row = txn.get("people", &[Value::Int8(7)]).unwrap().unwrap();
    assert!(txn.update("people", row.id, &[("city", Value::Null)]).unwrap());
    let row = txn.get("people", &[Value::Int8(8)]).unwrap().unwrap();
    assert!(txn.delete("people", row.id).unwrap());
    let again = txn.insert("people", &person(9));
    assert!(matches!(again, Err(Error::UniqueViolation { .. })), "{again:?}");
    txn.rollback();
    check(&db);
    db.vacuum(None).unwrap();
    check(&db);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    check(&db);
    assert_eq!(db.tables().unwrap().len(), 1);
}

fn check(db: &Database) {
    let mut txn = db.begin();
    assert_eq!(txn.scan("people", &ScanOptions::all()).unwrap().count(), 3000);
    let row = txn.get("people", &[Value::Int8(77)]).unwrap().unwrap();
    assert_eq!(row.values, person(77));
    let by_city = |txn: &mut rightlink::Transaction, key: &[Value]| {
        txn.get_by("people", "people_city", key).map(|row| row.map(|row| row.values))
    };
    let key = [Value::Text("Lund".into()), Value::Int8(77)];
    assert_eq!(by_city(&mut txn, &key).unwrap(), Some(person(77)));
    assert_eq!(by_city(&mut txn, &[key[0].clone(), Value::Int8(78)]).unwrap(), None);
    assert!(matches!(by_city(&mut txn, &key[..1]), Err(Error::Invalid(_))));
    assert!(matches!(txn.get_by("people", "none", &key), Err(Error::NotFound(_))));
    let gent = ScanOptions::index("people_city").equal(vec![Value::Text("Gent".into())]);
    let ids = |options: &ScanOptions, txn: &mut rightlink::Transaction| -> Vec<i64> {
        let rows = txn.scan("people", options).unwrap().map(|row| row.unwrap());
        rows.map(|row| match row.values[0] {
            Value::Int8(id) => id,
            ref other => panic!("{other:?}"),
        })
        .collect()
    };
    let forward = ids(&gent.clone().columns(["id"]), &mut txn);
    assert_eq!(forward, (0..3000).rev().filter(|id| id % 3 == 1).collect::<Vec<_>>());
    let mut backward = ids(&gent.clone().backward().limit(5), &mut txn);
    backward.reverse();
    assert_eq!(backward, [13, 10, 7, 4, 1]);
    let range =
        ScanOptions::index("people_pkey").from(vec![Value::Int8(10)]).to(vec![Value::Int8(12)]);
    assert_eq!(ids(&range, &mut txn), [10, 11, 12]);
    let some = ScanOptions {
        any_of: vec![vec![Value::Int8(5)], vec![Value::Int8(2)], vec![Value::Int8(5)]],
        ..ScanOptions::index("people_pkey")
    };
    assert_eq!(ids(&some, &mut txn), [2, 5]);
}
