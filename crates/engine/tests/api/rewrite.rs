//! Tables that are written anew: columns of another type, columns that are different in each row.

use std::collections::BTreeSet;

use rightlink::{
    AlterTable, ColumnDefault, ColumnSchema, ConflictKind, Database, Error, IndexSchema, Isolation,
    Predicate, Result, Row, ScanOptions, SequenceChange, TableSchema, Transaction,
    TransactionOptions, Type, Value,
};

const ROWS: i32 = 3000;

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let few = Predicate::new().at_least("size", Value::Int4(900));
    let sound = Predicate::new().at_least("size", Value::Int4(0));
    let schema = TableSchema::new("part")
        .column("id", Type::Int4)
        .with_column(
            ColumnSchema::new("size", Type::Int4)
                .nullable()
                .default(ColumnDefault::Value(Value::Int4(7))),
        )
        .nullable("note", Type::Text)
        .primary_key(["id"])
        .check("sound", sound)
        .index(IndexSchema::new("part_size").on_desc("size"))
        .index(IndexSchema::new("part_few").on("size").include(["id"]).only(few));
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    txn.insert_many("part", &rows).unwrap();
    txn.alter_table("part", AlterTable::DropColumn("note")).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

fn row(id: i32) -> Vec<Value> {
    let size = if id % 10 == 0 { Value::Null } else { Value::Int4(id % 1000) };
    vec![Value::Int4(id), size, Value::Text(format!("{id}"))]
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn to_text(value: Value) -> Result<Value> {
    match value {
        Value::Int4(n) => Ok(Value::Text(format!("{n:09}"))),
        other => panic!("{other:?}"),
    }
}

fn all(txn: &mut Transaction, options: &ScanOptions) -> Vec<Row> {
    txn.scan("part", options).unwrap().collect::<Result<_>>().unwrap()
}

#[test]
fn a_column_gets_another_type_with_all_that_names_it() {
    let (dir, db) = open();
    let mut txn = db.begin();
    txn.delete("part", txn_row(&db, 5)).unwrap();
    txn.insert("part", &[Value::Int4(ROWS), Value::Int4(901)]).unwrap();
    txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "size",
            to: Type::Text,
            convert: &mut to_text,
            of_row: None,
        },
    )
    .unwrap();
    let rows = all(&mut txn, &ScanOptions::all());
    assert_eq!(rows.len(), ROWS as usize, "own changes are taken along");
    txn.commit().unwrap();
    clean(&db);
    let mut txn = db.begin();
    let info = txn.catalog().describe("part").unwrap();
    assert_eq!(info.columns[1].kind, Type::Text);
    let seven = Value::Text("000000007".into());
    assert_eq!(info.columns[1].default, Some(ColumnDefault::Value(seven.clone())));
    let few = all(&mut txn, &ScanOptions::index("part_few"));
    assert_eq!(few.len(), 271, "{:?}", few.first());
    assert!(few.iter().all(|row| row.values[1] >= Value::Text("000000900".into())));
    let by_size = all(&mut txn, &ScanOptions::index("part_size").equal(vec![seven.clone()]));
    assert_eq!(by_size.len(), 3);
    txn.insert_into("part").columns(&["id"]).rows(&[vec![Value::Int4(-1)]]).unwrap();
    let filled = txn.get("part", &[Value::Int4(-1)]).unwrap().unwrap();
    assert_eq!(filled.values[1], seven);
    let refused = txn.insert("part", &[Value::Int4(-2), Value::Text("-1".into())]);
    assert!(matches!(refused, Err(Error::CheckViolation { .. })), "{refused:?}");
    txn.commit().unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    clean(&db);
    let files = std::fs::read_dir(dir.path().join("data")).unwrap().count();
    // Of the system (one of them a segment of outcomes), of the table, of its indexes.
    assert!(files <= 8 + 4 + 3, "{files} files: the old ones are gone");
    assert_eq!(all(&mut db.begin(), &ScanOptions::all()).len(), ROWS as usize + 1);
}

fn txn_row(db: &Database, id: i32) -> rightlink::RowId {
    db.begin().get("part", &[Value::Int4(id)]).unwrap().unwrap().id
}

#[test]
fn what_is_undone_leaves_the_table_as_it_was() {
    let (_dir, db) = open();
    let mut txn = db.begin();
    let savepoint = txn.savepoint();
    txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "size",
            to: Type::Text,
            convert: &mut to_text,
            of_row: None,
        },
    )
    .unwrap();
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(txn.catalog().describe("part").unwrap().columns[1].kind, Type::Int4);
    let mut refuse = |value| match value {
        Value::Int4(501) => Err(Error::Invalid("not this one".into())),
        other => to_text(other),
    };
    let refused = txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "size",
            to: Type::Text,
            convert: &mut refuse,
            of_row: None,
        },
    );
    assert!(matches!(refused, Err(Error::Invalid(what)) if what == "not this one"));
    // Twice the same key.
    let mut same = |_| Ok(Value::Int8(1));
    let refused = txn.alter_table(
        "part",
        AlterTable::ColumnType { column: "id", to: Type::Int8, convert: &mut same, of_row: None },
    );
    assert!(matches!(refused, Err(Error::UniqueViolation { .. })), "{refused:?}");
    let mut negative = |_| Ok(Value::Int8(-1));
    let refused = txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "size",
            to: Type::Int8,
            convert: &mut negative,
            of_row: None,
        },
    );
    // The check compares with what the conversion makes of its constant, too.
    assert!(refused.is_ok(), "{refused:?}");
    txn.rollback();
    let mut txn = db.begin();
    assert_eq!(all(&mut txn, &ScanOptions::index("part_size")).len(), ROWS as usize);
    txn.update("part", txn_row(&db, 1), &[("size", Value::Int4(3))]).unwrap();
    txn.commit().unwrap();
    clean(&db);
}

#[test]
fn older_snapshots_get_a_conflict_and_no_empty_table() {
    let (_dir, db) = open();
    let mut other = db.begin();
    other.create_table(&TableSchema::new("other").column("n", Type::Int8)).unwrap();
    other.commit().unwrap();
    let mut old = db.begin();
    assert_eq!(old.scan("other", &ScanOptions::all()).unwrap().count(), 0);
    let mut txn = db.begin();
    txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "size",
            to: Type::Text,
            convert: &mut to_text,
            of_row: None,
        },
    )
    .unwrap();
    txn.commit().unwrap();
    match old.scan("part", &ScanOptions::all()) {
        Err(Error::Conflict { kind: ConflictKind::Serialization, what }) => {
            assert!(what.contains("part"), "{what}");
        }
        scanned => panic!("{:?}", scanned.map(Iterator::count)),
    }
    old.rollback();
    let options =
        TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() };
    let mut each = db.begin_with(options);
    assert_eq!(all(&mut each, &ScanOptions::all()).len(), ROWS as usize);
    each.rollback();
    let mut txn = db.begin();
    txn.alter_table("part", AlterTable::RenameColumn { column: "size", to: "width" }).unwrap();
    txn.commit().unwrap();
    clean(&db);
}

#[test]
fn rows_that_are_there_get_numbers_and_uuids() {
    let (dir, db) = open();
    let mut txn = db.begin();
    txn.alter_table(
        "part",
        AlterTable::AddColumn(&ColumnSchema::new("number", Type::Int2).generated()),
    )
    .unwrap();
    let uuid = ColumnSchema::new("key", Type::Uuid).default(ColumnDefault::RandomUuid);
    txn.alter_table("part", AlterTable::AddColumn(&uuid)).unwrap();
    txn.create_index("part", &IndexSchema::new("part_number").on("number").unique()).unwrap();
    txn.create_index("part", &IndexSchema::new("part_key").on("key").unique()).unwrap();
    txn.commit().unwrap();
    clean(&db);
    let mut txn = db.begin();
    let rows = all(&mut txn, &ScanOptions::all());
    let numbers: BTreeSet<Value> = rows.iter().map(|row| row.values[2].clone()).collect();
    let wanted: BTreeSet<Value> = (1..=ROWS as i16).map(Value::Int2).collect();
    assert!(numbers == wanted, "each row has a number");
    let columns = ["id", "size"];
    txn.insert_into("part").columns(&columns).rows(&[vec![Value::Int4(-1), Value::Null]]).unwrap();
    let row = txn.get("part", &[Value::Int4(-1)]).unwrap().unwrap();
    assert_eq!(row.values[2], Value::Int2(ROWS as i16 + 1));
    // There are more numbers in a larger type, and they go on where they were.
    let mut widen = |value| match value {
        Value::Int2(n) => Ok(Value::Int8(i64::from(n))),
        other => panic!("{other:?}"),
    };
    txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "number",
            to: Type::Int8,
            convert: &mut widen,
            of_row: None,
        },
    )
    .unwrap();
    txn.insert_into("part").columns(&columns).rows(&[vec![Value::Int4(-2), Value::Null]]).unwrap();
    let row = txn.get("part", &[Value::Int4(-2)]).unwrap().unwrap();
    assert_eq!(row.values[2], Value::Int8(i64::from(ROWS) + 2));
    txn.numbers("part_number_seq").and_then(|numbers| numbers.restart(1 << 40)).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.insert_into("part").columns(&columns).rows(&[vec![Value::Int4(-3), Value::Null]]).unwrap();
    let row = txn.get("part", &[Value::Int4(-3)]).unwrap().unwrap();
    assert_eq!(row.values[2], Value::Int8(1 << 40));
    let again = ColumnSchema::new("number", Type::Int4).generated();
    assert!(matches!(
        txn.alter_table("part", AlterTable::AddColumn(&again)),
        Err(Error::AlreadyExists(_))
    ));
    let text = txn.alter_table(
        "part",
        AlterTable::ColumnType {
            column: "number",
            to: Type::Text,
            convert: &mut |_| Ok(Value::Null),
            of_row: None,
        },
    );
    assert!(matches!(text, Err(Error::Invalid(_))), "{text:?}");
    txn.commit().unwrap();
    clean(&db);
}

#[test]
fn a_truncated_table_is_empty_and_what_it_was() {
    let (dir, db) = open();
    let mut txn = db.begin();
    txn.alter_table(
        "part",
        AlterTable::AddColumn(&ColumnSchema::new("number", Type::Int4).generated()),
    )
    .unwrap();
    txn.commit().unwrap();
    let add = |txn: &mut Transaction, id| {
        let row = vec![Value::Int4(id), Value::Int4(950)];
        txn.insert_into("part").columns(&["id", "size"]).rows(&[row]).unwrap();
        txn.get("part", &[Value::Int4(id)]).unwrap().unwrap().values[2].clone()
    };
    let mut txn = db.begin();
    txn.truncate("part", true).unwrap();
    assert_eq!(add(&mut txn, 1), Value::Int4(1));
    txn.alter_sequence("part_number_seq", SequenceChange::Restart(Some(5))).unwrap();
    assert_eq!(add(&mut txn, 2), Value::Int4(5));
    txn.rollback();
    let mut txn = db.begin();
    assert_eq!(all(&mut txn, &ScanOptions::all()).len(), ROWS as usize);
    assert_eq!(add(&mut txn, -1), Value::Int4(ROWS + 1));
    let savepoint = txn.savepoint();
    txn.truncate("part", false).unwrap();
    txn.alter_sequence("part_number_seq", SequenceChange::Restart(None)).unwrap();
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(all(&mut txn, &ScanOptions::all()).len(), ROWS as usize + 1);
    txn.truncate("part", false).unwrap();
    assert_eq!(add(&mut txn, 1), Value::Int4(ROWS + 2));
    txn.alter_sequence("part_number_seq", SequenceChange::Restart(Some(9))).unwrap();
    assert_eq!(add(&mut txn, 2), Value::Int4(9));
    txn.commit().unwrap();
    clean(&db);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    for index in ["part_pkey", "part_size", "part_few"] {
        assert_eq!(all(&mut txn, &ScanOptions::index(index)).len(), 2, "{index}");
    }
    assert_eq!(add(&mut txn, 3), Value::Int4(10));
    txn.alter_table("part", AlterTable::Rename("old")).unwrap();
    let number = ColumnSchema::new("number", Type::Int4).generated();
    let schema = TableSchema::new("part").with_column(number).primary_key(["number"]);
    txn.create_table(&schema).unwrap();
    let info = txn.catalog().describe("part").unwrap();
    let sequence = &info.columns[0].identity.as_ref().unwrap().sequence;
    assert_eq!(
        (info.indexes[0].name.as_str(), sequence.as_str()),
        ("part_pkey1", "part_number_seq1")
    );
    txn.commit().unwrap();
    clean(&db);
}
