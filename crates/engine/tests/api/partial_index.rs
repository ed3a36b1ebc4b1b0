//! What an index can be told beyond its key: which rows it holds, what it stores beside, and
//! whether nulls are equal; for indexes that are there from the start, and built over rows.
//!
//! Does not do: crashes (`crash.rs`), random runs (`model.rs`).

use rightlink::{
    AlterTable, Comparison, Database, Error, IndexMethod, IndexSchema, OnConflict, Predicate,
    Result, ScanOptions, TableSchema, Transaction, Type, Upserted, Value,
};

/// Runs `work` in a transaction of its own and commits.
fn run<T>(db: &Database, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut txn = db.begin();
    let done = work(&mut txn)?;
    txn.commit().map(|()| done)
}

fn row(id: i64, code: Option<i64>, state: &str) -> Vec<Value> {
    vec![Value::Int8(id), code.map_or(Value::Null, Value::Int8), Value::Text(state.into())]
}

fn open_only() -> Predicate {
    Predicate::new().compare("state", Comparison::NotEqual, Value::Text("done".into()))
}

/// A partial unique index on codes of tasks that are not done, and one by hash.
fn indexes() -> [IndexSchema; 3] {
    [
        IndexSchema::new("task_code").on("code").unique().include(["id"]).only(open_only()),
        IndexSchema::new("task_hash").on("code").method(IndexMethod::Hash).only(open_only()),
        IndexSchema::new("task_null").on("code").on("state").unique_nulls(),
    ]
}

fn tasks() -> TableSchema {
    TableSchema::new("task")
        .column("id", Type::Int8)
        .nullable("code", Type::Int8)
        .column("state", Type::Text)
        .primary_key(["id"])
}

/// The table with these rows, and its indexes made before, after, or beside writers.
fn database(way: usize) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let rows = [
        row(1, Some(1), "open"),
        row(2, Some(1), "done"),
        row(3, Some(2), "done"),
        row(4, None, "open"),
        row(5, None, "done"),
    ];
    let schema =
        if way == 0 { indexes().into_iter().fold(tasks(), TableSchema::index) } else { tasks() };
    run(&db, |txn| {
        txn.create_table(&schema)?;
        txn.insert_many("task", &rows)?;
        let later = indexes().into_iter().filter(|_| way == 1);
        later.into_iter().try_for_each(|index| txn.create_index("task", &index))
    })
    .unwrap();
    for index in indexes().iter().filter(|_| way == 2) {
        db.create_index_online("task", index).unwrap();
    }
    (dir, db)
}

fn ids(db: &Database, options: &ScanOptions) -> Vec<i64> {
    let mut txn = db.begin();
    let rows = txn.scan("task", options).unwrap();
    let id = |row: Result<rightlink::Row>| match row.unwrap().values[0] {
        Value::Int8(id) => id,
        ref other => panic!("{other:?}"),
    };
    let mut ids: Vec<i64> = rows.map(id).collect();
    ids.sort_unstable();
    ids
}

fn set(db: &Database, id: i64, column: &str, value: Value) -> Result<bool> {
    run(db, |txn| {
        let found = txn.get("task", &[Value::Int8(id)])?.unwrap();
        txn.update("task", found.id, &[(column, value)])
    })
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn by(index: &str, code: i64) -> ScanOptions {
    ScanOptions::index(index).equal(vec![Value::Int8(code)])
}

#[test]
fn a_partial_index_holds_the_rows_it_is_for() {
    for way in 0..3 {
        let (dir, db) = database(way);
        assert_eq!(ids(&db, &ScanOptions::index("task_code")), [1, 4]);
        assert_eq!(ids(&db, &by("task_hash", 1)), [1]);
        let taken = run(&db, |txn| txn.insert("task", &row(6, Some(1), "open")));
        assert!(matches!(taken, Err(Error::UniqueViolation { index, .. }) if index == "task_code"));
        // Done and open again: the code is free in between.
        set(&db, 1, "state", text("done")).unwrap_err();
        set(&db, 2, "code", Value::Int8(7)).unwrap();
        set(&db, 1, "state", text("done")).unwrap();
        run(&db, |txn| txn.insert("task", &row(6, Some(1), "open"))).unwrap();
        let taken = set(&db, 1, "state", text("late"));
        assert!(matches!(taken, Err(Error::UniqueViolation { index, .. }) if index == "task_code"));
        set(&db, 3, "state", text("late")).unwrap();
        let wanted = vec![3, 4, 6];
        assert_eq!(ids(&db, &ScanOptions::index("task_code")), wanted);
        clean(&db);
        db.vacuum(None).unwrap();
        assert_eq!(db.reindex("task", Some("task_code")).unwrap(), 1);
        let narrow = ScanOptions::index("task_code").columns(["id"]);
        assert_eq!(ids(&db, &narrow), wanted, "from the index alone");
        clean(&db);
        db.close().unwrap();
        let db = Database::open(dir.path()).unwrap();
        assert_eq!(ids(&db, &ScanOptions::index("task_code")), wanted);
        assert_eq!([ids(&db, &by("task_hash", 1)), ids(&db, &by("task_hash", 2))], [[6], [3]]);
        let info = db.describe("task").unwrap();
        let clauses: Vec<String> = info.indexes.iter().map(|index| index.clauses()).collect();
        assert!(clauses.contains(&"include (id) where state <> 'done'".to_owned()), "{clauses:?}");
        assert!(clauses.contains(&"nulls not distinct".to_owned()), "{clauses:?}");
        clean(&db);
    }
}

#[test]
fn nulls_are_equal_where_that_is_wanted() {
    for way in 0..3 {
        let (_dir, db) = database(way);
        let insert = |id, code, state| run(&db, |txn| txn.insert("task", &row(id, code, state)));
        let taken = insert(6, None, "open");
        match taken {
            Err(Error::UniqueViolation { index, key, .. }) => {
                assert_eq!((&*index, &*key), ("task_null", "(NULL, open)"));
            }
            other => panic!("{other:?}"),
        }
        insert(6, None, "new").unwrap();
        set(&db, 6, "state", text("done")).unwrap_err();
        run(&db, |txn| {
            let found = txn.get("task", &[Value::Int8(5)])?.unwrap();
            txn.delete("task", found.id)
        })
        .unwrap();
        set(&db, 6, "state", text("done")).unwrap();
        // Another index with the same key finds nothing wrong, and one without the nulls does.
        run(&db, |txn| txn.insert("task", &row(7, Some(9), "done"))).unwrap();
        let two = IndexSchema::new("two").on("state").unique_nulls();
        let built = run(&db, |txn| txn.create_index("task", &two));
        assert!(matches!(built, Err(Error::UniqueViolation { .. })), "{built:?}");
        clean(&db);
    }
    let (_dir, db) = database(1);
    run(&db, |txn| txn.insert("task", &row(8, None, "a"))).unwrap();
    let nulls = IndexSchema::new("nulls").on("code").unique_nulls();
    let built = run(&db, |txn| txn.create_index("task", &nulls));
    assert!(matches!(built, Err(Error::UniqueViolation { .. })), "two nulls: {built:?}");
    let online = db.create_index_online("task", &nulls);
    assert!(matches!(online, Err(Error::UniqueViolation { .. })), "two nulls: {online:?}");
    clean(&db);
}

#[test]
fn rows_that_an_index_does_not_hold_are_in_nobodys_way() {
    let (_dir, db) = database(0);
    let skip = |row: Vec<Value>, on: OnConflict<'_>| {
        run(&db, |txn| txn.insert_into("task").or_skip(on, &[row])).map(|done| done[0])
    };
    use Upserted::{Inserted, Untouched};
    let on = OnConflict::Index("task_code");
    assert!(matches!(skip(row(6, Some(1), "open"), on), Ok(Untouched(_))));
    assert!(matches!(skip(row(6, Some(2), "open"), on), Ok(Inserted(_))));
    let taken = skip(row(7, Some(1), "done"), on);
    assert!(matches!(taken, Err(Error::UniqueViolation { index, .. }) if index == "task_null"));
    assert!(matches!(skip(row(7, Some(8), "done"), on), Ok(Inserted(_))));
    // Null meets null where nulls are equal.
    assert!(matches!(skip(row(8, None, "done"), OnConflict::Index("task_null")), Ok(Untouched(_))));
    let columns = skip(row(9, Some(1), "open"), OnConflict::Columns(&["code"]));
    assert!(matches!(columns, Err(Error::Invalid(_))), "no such index holds all rows");
    clean(&db);
}

/// Nulls that are equal are met by upserts, in a key of several columns, whichever way the index
/// came to be there; the row that is changed may leave the index or stay.
#[test]
fn upserts_meet_equal_nulls_and_rows_of_a_partial_index() {
    for way in 0..3 {
        let (_dir, db) = database(way);
        let put = |on: OnConflict<'_>, row: Vec<Value>, state: &str| {
            let mut merge = |old: &[Value], new: &[Value]| {
                Ok(Some(vec![old[0].clone(), new[1].clone(), text(state)]))
            };
            run(&db, |txn| txn.insert_into("task").or_update(on, &[row], &mut merge))
                .map(|done| done[0])
        };
        let nulls = OnConflict::Columns(&["state", "code"]);
        use Upserted::{Inserted, Updated};
        assert!(matches!(put(nulls, row(90, None, "open"), "open"), Ok(Updated(_))));
        assert!(matches!(put(nulls, row(6, None, "new"), "?"), Ok(Inserted(_))));
        let taken = put(nulls, row(91, None, "open"), "done");
        assert!(matches!(taken, Err(Error::UniqueViolation { index, .. }) if index == "task_null"));
        let open = OnConflict::Index("task_code");
        assert!(matches!(put(open, row(92, Some(1), "open"), "late"), Ok(Updated(_))));
        // Nulls are not equal there, and done rows are not in it.
        assert!(matches!(put(open, row(7, None, "other"), "?"), Ok(Inserted(_))));
        assert!(matches!(put(open, row(8, Some(3), "done"), "?"), Ok(Inserted(_))));
        assert!(matches!(put(open, row(9, Some(3), "late"), "?"), Ok(Inserted(_))));
        // Row 3 is done; its code is free for those that are not.
        assert!(matches!(put(open, row(10, Some(2), "open"), "?"), Ok(Inserted(_))));
        assert_eq!(ids(&db, &ScanOptions::index("task_code")), [1, 4, 6, 7, 9, 10]);
        assert_eq!(ids(&db, &by("task_hash", 3)), [9]);
        clean(&db);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (_dir, db) = database(0);
    let create = |index: IndexSchema| run(&db, |txn| txn.create_index("task", &index));
    let index = || IndexSchema::new("i").on("code");
    let unknown = Predicate::new().null("nothing");
    assert!(matches!(create(index().only(unknown)), Err(Error::NotFound(_))));
    assert!(matches!(create(index().include(["nothing"])), Err(Error::NotFound(_))));
    assert!(matches!(create(index().include(["code"])), Err(Error::Invalid(_))));
    assert!(matches!(create(index().only(Predicate::new())), Err(Error::Invalid(_))));
    let typed = Predicate::new().equal("code", text("x"));
    assert!(matches!(create(index().only(typed)), Err(Error::Invalid(_))));
    let nulls = IndexSchema { nulls_not_distinct: true, ..index() };
    assert!(matches!(create(nulls), Err(Error::Invalid(_))));
    let dropped = run(&db, |txn| txn.alter_table("task", AlterTable::DropColumn("state")));
    assert!(matches!(dropped, Err(Error::Invalid(what)) if what.contains("index task_")));
    run(&db, |txn| {
        txn.drop_index("task_null")?;
        let dropped = txn.alter_table("task", AlterTable::DropColumn("state"));
        assert!(matches!(dropped, Err(Error::Invalid(what)) if what.contains("index task_code")));
        txn.alter_table("task", AlterTable::RenameColumn { column: "state", to: "status" })
    })
    .unwrap();
    let info = db.describe("task").unwrap();
    let code = info.indexes.iter().find(|index| index.name == "task_code").unwrap();
    assert!(code.uses("status") && code.uses("id") && code.uses("code") && !code.uses("state"));
    clean(&db);
}
