//! What a definition says of columns holds for every row, whatever way the row came: not null,
//! defaults, generated numbers, checks, the primary key; and names can change.
//!
//! Does not do: crashes (`crash.rs`).

use rightlink::{
    AlterTable, CheckSchema, ColumnDefault, ColumnSchema, Database, Error, IdentitySchema,
    IndexSchema, Predicate, Result, Row, ScanOptions, SequenceChange, SequenceDefinition,
    SequencePosition, SequenceSchema, TableSchema, Transaction, Type, Value,
};
use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::{points, thread};

use crate::fresh::{empty, run};

fn rows(db: &Database, table: &str) -> Vec<Vec<Value>> {
    let mut txn = db.begin();
    let rows = txn.scan(table, &ScanOptions::all()).unwrap();
    let mut rows: Vec<_> = rows.map(|row| row.unwrap().values).collect();
    rows.sort();
    rows
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn orders() -> TableSchema {
    TableSchema::new("orders")
        .with_column(ColumnSchema::new("id", Type::Int4).generated())
        .with_column(
            ColumnSchema::new("state", Type::Text).default(ColumnDefault::Value(text("new"))),
        )
        .with_column(ColumnSchema::new("at", Type::TimestampTz).default(ColumnDefault::Now))
        .with_column(ColumnSchema::new("key", Type::Uuid).default(ColumnDefault::RandomUuid))
        .nullable("amount", Type::Int8)
        .primary_key(["id"])
        .check("amounts", Predicate::new().between("amount", Value::Int8(0), Value::Int8(999)))
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn columns_that_are_not_named_get_their_defaults() {
    let (dir, db) = empty();
    run(&db, |txn| txn.create_table(&orders())).unwrap();
    let named = |txn: &mut Transaction| {
        txn.insert_into("orders")
            .columns(&["amount"])
            .rows(&[vec![Value::Int8(5)], vec![Value::Null]])
    };
    run(&db, named).unwrap();
    let found = rows(&db, "orders");
    assert_eq!(found.len(), 2);
    for (at, row) in found.iter().enumerate() {
        assert_eq!(row[..2], [Value::Int4(at as i32 + 1), text("new")]);
    }
    assert_eq!(found[0][2], found[1][2], "one time for the transaction");
    assert_ne!(found[0][3], found[1][3], "a uuid for each row");
    // A rolled back transaction takes its numbers with it.
    drop(named(&mut db.begin()));
    run(&db, |txn| {
        txn.insert_into("orders")
            .columns(&["id", "state"])
            .rows(&[vec![Value::Int4(50), text("old")]])?;
        txn.insert_into("orders").columns(&["state"]).rows(&[vec![text("old")]])
    })
    .unwrap();
    let ids: Vec<_> = rows(&db, "orders").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(ids, [1, 2, 5, 50].map(Value::Int4));
    clean(&db);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    run(&db, |txn| txn.insert_into("orders").columns(&[]).rows(&[vec![]])).unwrap();
    assert_eq!(rows(&db, "orders")[3][0], Value::Int4(6), "a clean close gives numbers back");
    clean(&db);
}

/// What a statement that inserts gives back is what a scan finds, at the same places.
#[test]
fn inserted_rows_are_given_back_with_what_filled_them() {
    let (_dir, db) = empty();
    run(&db, |txn| txn.create_table(&orders())).unwrap();
    let amounts: Vec<_> = (0..50).map(|n| vec![Value::Int8(n)]).collect();
    let mut txn = db.begin();
    let given = txn.insert_into("orders").columns(&["amount"]).returning(&amounts).unwrap();
    for (at, row) in given.iter().enumerate() {
        assert_eq!(row.values[0], Value::Int4(at as i32 + 1));
        assert_eq!(row.values[4], amounts[at][0]);
        let found = txn.scan("orders", &ScanOptions::at(row.id)).unwrap().next().unwrap().unwrap();
        assert_eq!(found, *row);
    }
    let none = txn
        .insert_into("orders")
        .columns(&["amount"])
        .returning(&[vec![Value::Int8(1)], vec![Value::Int8(1000)]]);
    assert!(matches!(none, Err(Error::CheckViolation { .. })), "{none:?}");
    txn.commit().unwrap();
    assert_eq!(rows(&db, "orders").len(), 50);
    clean(&db);
}

#[test]
fn what_cannot_be_filled_is_refused_by_name() {
    let (_dir, db) = empty();
    let always = IdentitySchema { always: true, ..IdentitySchema::default() };
    let mut schema = TableSchema::new("t").column("a", Type::Int4);
    schema
        .columns
        .push(ColumnSchema { identity: Some(always), ..ColumnSchema::new("n", Type::Int8) });
    run(&db, |txn| txn.create_table(&schema)).unwrap();
    let insert = |columns: &[&str], row: Vec<Value>| {
        run(&db, |txn| txn.insert_into("t").columns(columns).rows(&[row]))
    };
    let null = insert(&[], vec![]);
    match null {
        Err(Error::NotNullViolation { table, column }) => {
            assert_eq!([&*table, &*column], ["t", "a"])
        }
        other => panic!("{other:?}"),
    }
    let given = insert(&["a", "n"], vec![Value::Int4(1), Value::Int8(7)]);
    assert!(matches!(given, Err(Error::Invalid(what)) if what.contains("column n")));
    assert!(matches!(
        insert(&["a", "a"], vec![Value::Int4(1), Value::Int4(1)]),
        Err(Error::Invalid(_))
    ));
    assert!(matches!(insert(&["b"], vec![Value::Int4(1)]), Err(Error::NotFound(_))));
    insert(&["a"], vec![Value::Int4(1)]).unwrap();
    // The first attempt took number 1 with it.
    assert_eq!(rows(&db, "t"), [[Value::Int4(1), Value::Int8(2)]]);
    for (name, column) in [
        (
            "a default of another type",
            ColumnSchema::new("x", Type::Int4).default(ColumnDefault::Now),
        ),
        ("numbers as text", ColumnSchema::new("x", Type::Text).generated()),
        ("generated and nullable", ColumnSchema::new("x", Type::Int4).generated().nullable()),
    ] {
        let created = run(&db, |txn| txn.create_table(&TableSchema::new("u").with_column(column)));
        assert!(matches!(created, Err(Error::Invalid(_))), "{name}: {created:?}");
    }
    clean(&db);
}

#[test]
fn checks_refuse_rows_whatever_way_they_come() {
    let (_dir, db) = empty();
    run(&db, |txn| txn.create_table(&orders())).unwrap();
    let add = |amount: Value| {
        run(&db, |txn| txn.insert_into("orders").columns(&["amount"]).rows(&[vec![amount]]))
    };
    for (amount, fits) in [(-1, false), (0, true), (999, true), (1000, false)] {
        match add(Value::Int8(amount)) {
            Ok(_) => assert!(fits, "{amount} was taken"),
            Err(Error::CheckViolation { table, check, column, value }) => {
                assert!(!fits, "{amount} was refused");
                assert_eq!([&*table, &*check, &*column], ["orders", "amounts", "amount"]);
                assert_eq!(value, amount.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    add(Value::Null).unwrap();
    let mut txn = db.begin();
    let id = txn.scan("orders", &ScanOptions::all()).unwrap().next().unwrap().unwrap().id;
    let set = [("amount", Value::Int8(1000))];
    assert!(matches!(txn.update("orders", id, &set), Err(Error::CheckViolation { .. })));
    assert!(matches!(txn.update_many("orders", &[id], &set), Err(Error::CheckViolation { .. })));
    // A check that rows do not meet is not added.
    let small = || Predicate::new().at_most("amount", Value::Int8(10));
    let added = txn.alter_table(
        "orders",
        AlterTable::AddCheck(&CheckSchema { name: "small".into(), predicate: small() }),
    );
    assert!(matches!(added, Err(Error::CheckViolation { .. })), "{added:?}");
    txn.alter_table("orders", AlterTable::DropCheck("amounts")).unwrap();
    assert!(txn.update("orders", id, &set).unwrap());
    assert!(matches!(
        txn.alter_table("orders", AlterTable::DropCheck("amounts")),
        Err(Error::NotFound(_))
    ));
    assert!(
        txn.alter_table("orders", AlterTable::DropColumn("amount")).is_ok(),
        "no check uses it any more"
    );
    drop(txn);
    assert!(add(Value::Int8(1000)).is_err(), "the check is back");
    let dropped = run(&db, |txn| txn.alter_table("orders", AlterTable::DropColumn("amount")));
    assert!(matches!(dropped, Err(Error::Invalid(what)) if what.contains("check amounts")));
    clean(&db);
}

#[test]
fn a_primary_key_comes_and_goes() {
    let (_dir, db) = empty();
    let schema = TableSchema::new("t").nullable("a", Type::Int4).nullable("b", Type::Text);
    run(&db, |txn| {
        txn.create_table(&schema)?;
        txn.insert_many("t", &[vec![Value::Int4(1), text("x")], vec![Value::Int4(2), Value::Null]])
    })
    .unwrap();
    let null = run(&db, |txn| {
        txn.alter_table("t", AlterTable::AddPrimaryKey { index: None, columns: &["b"] })
    });
    assert!(matches!(null, Err(Error::NotNullViolation { column, .. }) if column == "b"));
    run(&db, |txn| {
        txn.alter_table("t", AlterTable::AddPrimaryKey { index: None, columns: &["a"] })
    })
    .unwrap();
    assert!(db.begin().get("t", &[Value::Int4(2)]).unwrap().is_some());
    assert!(matches!(
        run(&db, |txn| txn
            .alter_table("t", AlterTable::AddPrimaryKey { index: None, columns: &["a"] })),
        Err(Error::AlreadyExists(_))
    ));
    let twice = run(&db, |txn| txn.insert("t", &[Value::Int4(2), Value::Null]));
    assert!(matches!(twice, Err(Error::UniqueViolation { index, .. }) if index == "t_pkey"));
    let null = run(&db, |txn| txn.insert("t", &[Value::Null, Value::Null]));
    assert!(matches!(null, Err(Error::NotNullViolation { .. })));
    assert!(
        run(&db, |txn| txn.alter_table("t", AlterTable::Nullable { column: "a", nullable: true }))
            .is_err(),
        "it is in the key"
    );
    run(&db, |txn| txn.alter_table("t", AlterTable::DropPrimaryKey)).unwrap();
    assert!(matches!(db.begin().get("t", &[Value::Int4(2)]), Err(Error::Invalid(_))));
    run(&db, |txn| txn.insert("t", &[Value::Int4(2), Value::Null])).unwrap();
    let twice = run(&db, |txn| {
        txn.alter_table("t", AlterTable::AddPrimaryKey { index: None, columns: &["a"] })
    });
    assert!(matches!(twice, Err(Error::UniqueViolation { .. })));
    run(&db, |txn| txn.alter_table("t", AlterTable::Nullable { column: "a", nullable: true }))
        .unwrap();
    run(&db, |txn| txn.insert("t", &[Value::Null, Value::Null])).unwrap();
    let null =
        run(&db, |txn| txn.alter_table("t", AlterTable::Nullable { column: "a", nullable: false }));
    assert!(matches!(null, Err(Error::NotNullViolation { .. })));
    assert_eq!(rows(&db, "t").len(), 4);
    clean(&db);
}

#[test]
fn names_change_and_everything_goes_on_under_them() {
    let (dir, db) = empty();
    let schema = orders().index(IndexSchema::new("by_state").on("state"));
    run(&db, |txn| txn.create_table(&schema)).unwrap();
    run(&db, |txn| txn.insert_into("orders").columns(&[]).rows(&[vec![]])).unwrap();
    let mut undone = db.begin();
    undone.alter_table("orders", AlterTable::Rename("never")).unwrap();
    undone.alter_table("never", AlterTable::RenameColumn { column: "state", to: "never" }).unwrap();
    assert!(matches!(undone.get("orders", &[Value::Int4(1)]), Err(Error::NotFound(_))));
    drop(undone);
    run(&db, |txn| {
        txn.alter_table("orders", AlterTable::Rename("order"))?;
        txn.alter_table("order", AlterTable::RenameColumn { column: "state", to: "status" })?;
        txn.rename_index("by_state", "by_status")?;
        txn.alter_table("order", AlterTable::RenameColumn { column: "amount", to: "sum" })
    })
    .unwrap();
    let same = run(&db, |txn| {
        txn.alter_table("order", AlterTable::RenameColumn { column: "status", to: "sum" })
    });
    assert!(matches!(same, Err(Error::AlreadyExists(_))), "{same:?}");
    let same = run(&db, |txn| txn.rename_index("by_status", "order_id_seq"));
    assert!(matches!(same, Err(Error::NotFound(_)) | Ok(())), "{same:?}");
    let check = |db: &Database| {
        run(db, |txn| txn.insert_into("order").columns(&["status"]).rows(&[vec![text("x")]]))
            .unwrap();
        let info = db.describe("order").unwrap();
        assert_eq!(info.checks[0].predicate.to_string(), "sum >= 0 and sum <= 999");
        assert!(matches!(db.describe("orders"), Err(Error::NotFound(_))));
    };
    check(&db);
    // The old name is free.
    run(&db, |txn| txn.create_table(&TableSchema::new("orders").column("a", Type::Int4))).unwrap();
    let taken = run(&db, |txn| txn.alter_table("order", AlterTable::Rename("orders")));
    assert!(matches!(taken, Err(Error::AlreadyExists(_))));
    run(&db, |txn| txn.drop_table("orders")).unwrap();
    clean(&db);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    check(&db);
    assert_eq!(rows(&db, "order").len(), 3);
    clean(&db);
}

#[test]
fn added_columns_have_their_default_in_old_rows() {
    let (dir, db) = empty();
    run(&db, |txn| {
        txn.create_table(&TableSchema::new("t").column("a", Type::Int4))?;
        txn.insert("t", &[Value::Int4(1)])
    })
    .unwrap();
    let seven = ColumnSchema::new("b", Type::Int8).default(ColumnDefault::Value(Value::Int8(7)));
    run(&db, |txn| txn.alter_table("t", AlterTable::AddColumn(&seven))).unwrap();
    let bare = run(&db, |txn| {
        txn.alter_table("t", AlterTable::AddColumn(&ColumnSchema::new("c", Type::Int8)))
    });
    assert!(matches!(bare, Err(Error::NotNullViolation { column, .. }) if column == "c"));
    run(&db, |txn| {
        txn.alter_table(
            "t",
            AlterTable::Default {
                column: "b",
                default: Some(ColumnDefault::Value(Value::Int8(8))),
            },
        )?;
        txn.insert_into("t").columns(&["a"]).rows(&[vec![Value::Int4(2)]])
    })
    .unwrap();
    let wanted = [[Value::Int4(1), Value::Int8(7)], [Value::Int4(2), Value::Int8(8)]];
    assert_eq!(rows(&db, "t"), wanted);
    run(&db, |txn| txn.alter_table("t", AlterTable::Default { column: "b", default: None }))
        .unwrap();
    let null = run(&db, |txn| txn.insert_into("t").columns(&["a"]).rows(&[vec![Value::Int4(3)]]));
    assert!(matches!(null, Err(Error::NotNullViolation { .. })));
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(rows(&db, "t"), wanted);
    clean(&db);
}

#[test]
fn sequences_hand_out_each_number_once() {
    let (dir, db) = empty();
    run(&db, |txn| txn.create_sequence(&SequenceSchema::new("s").increment(2).max(7))).unwrap();
    let next = |db: &Database| run(db, |txn| txn.next_value("s"));
    assert_eq!(next(&db).unwrap(), 1);
    db.begin().next_value("s").unwrap();
    assert_eq!(next(&db).unwrap(), 5, "a rollback gives nothing back");
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(next(&db).unwrap(), 7);
    assert!(matches!(next(&db), Err(Error::Limit(_))));
    clean(&db);
    run(&db, |txn| txn.numbers("s").and_then(|numbers| numbers.restart(3))).unwrap();
    assert_eq!(next(&db).unwrap(), 3);
    assert!(matches!(
        run(&db, |txn| txn.numbers("s").and_then(|numbers| numbers.restart(8))),
        Err(Error::Invalid(_))
    ));
    let taken = run(&db, |txn| txn.create_sequence(&SequenceSchema::new("s")));
    assert!(matches!(taken, Err(Error::AlreadyExists(_))), "{taken:?}");
    let mut txn = db.begin();
    txn.drop_sequence("s").unwrap();
    assert!(matches!(txn.next_value("s"), Err(Error::NotFound(_))));
    drop(txn);
    assert_eq!(next(&db).unwrap(), 5, "the drop was rolled back");
    run(&db, |txn| txn.drop_sequence("s")).unwrap();
    assert!(db.sequences().unwrap().is_empty());
    let down = SequenceSchema::new("down").start(i64::MIN + 1).increment(-1);
    run(&db, |txn| txn.create_sequence(&down)).unwrap();
    let take = || run(&db, |txn| txn.next_value("down"));
    assert_eq!([take().unwrap(), take().unwrap()], [i64::MIN + 1, i64::MIN]);
    assert!(matches!(take(), Err(Error::Limit(_))));
    clean(&db);
}

/// Behind its last number a sequence that cycles begins again, also where a run of numbers that is
/// reserved at once is longer than it.
#[test]
fn a_sequence_may_begin_again_at_its_end() {
    let (dir, db) = empty();
    let up = SequenceSchema::new("up").increment(3).start(4).max(9).cycle();
    let down = SequenceSchema { min: -2, max: 1, ..SequenceSchema::new("down").start(0) };
    let down = SequenceSchema { increment: -1, ..down }.cycle();
    run(&db, |txn| txn.create_sequence(&up)).unwrap();
    run(&db, |txn| txn.create_sequence(&down)).unwrap();
    let take = |db: &Database, name: &str, count: usize| -> Vec<i64> {
        run(db, |txn| (0..count).map(|_| txn.next_value(name)).collect()).unwrap()
    };
    assert_eq!(take(&db, "up", 6), [4, 7, 1, 4, 7, 1]);
    assert_eq!(take(&db, "down", 6), [0, -1, -2, 1, 0, -1]);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(take(&db, "up", 100)[98..], [1, 4]);
    assert_eq!(take(&db, "down", 2), [-2, 1]);
    let id = IdentitySchema { min: Some(5), max: Some(6), start: 6, ..IdentitySchema::default() };
    let id = IdentitySchema { cycle: true, ..id };
    let id = ColumnSchema { identity: Some(id), ..ColumnSchema::new("id", Type::Int2) };
    run(&db, |txn| txn.create_table(&TableSchema::new("t").with_column(id))).unwrap();
    run(&db, |txn| txn.insert_into("t").columns(&[]).rows(&vec![vec![]; 3])).unwrap();
    assert_eq!(rows(&db, "t"), [[Value::Int2(5)], [Value::Int2(6)], [Value::Int2(6)]]);
    clean(&db);
}

/// What a sequence is changes with the transaction, and where it is stays, also through a close.
#[test]
fn a_sequence_is_altered_where_it_is() {
    let (dir, db) = empty();
    let generated = ColumnSchema::new("id", Type::Int2).generated();
    run(&db, |txn| txn.create_sequence(&SequenceSchema::new("s"))).unwrap();
    run(&db, |txn| txn.create_table(&TableSchema::new("t").with_column(generated))).unwrap();
    let place = |db: &Database| run(db, |txn| txn.catalog().sequence_position("s")).unwrap();
    assert_eq!(place(&db), SequencePosition { value: 1, drawn: false });
    run(&db, |txn| txn.next_value("s")).unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(place(&db), SequencePosition { value: 1, drawn: true });
    let mut tens = |known: &SequenceDefinition, at: SequencePosition| {
        assert_eq!(at, SequencePosition { value: 1, drawn: true });
        Ok((SequenceSchema { increment: 10, note: "tens".into(), ..known.schema.clone() }, at))
    };
    let mut txn = db.begin();
    txn.alter_sequence("s", SequenceChange::Redefine(&mut tens)).unwrap();
    assert_eq!(txn.next_value("s").unwrap(), 11);
    txn.rollback();
    assert_eq!(run(&db, |txn| txn.next_value("s")).unwrap(), 2);
    let mut larger = |known: &SequenceDefinition, at| {
        let owner = known.owner.as_ref().unwrap();
        assert_eq!((&*owner.table, &*owner.column, owner.kind), ("t", "id", Type::Int2));
        Ok((known.schema.clone().max(1 << 20), at))
    };
    let refused =
        run(&db, |txn| txn.alter_sequence("t_id_seq", SequenceChange::Redefine(&mut larger)));
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let mut noted = |known: &SequenceDefinition, at| {
        Ok((SequenceSchema { note: "kept".into(), ..known.schema.clone() }, at))
    };
    run(&db, |txn| txn.alter_sequence("t_id_seq", SequenceChange::Redefine(&mut noted))).unwrap();
    run(&db, |txn| txn.alter_sequence("s", SequenceChange::Redefine(&mut noted))).unwrap();
    assert_eq!(run(&db, |txn| txn.next_value("s")).unwrap(), 3);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let known = run(&db, |txn| txn.catalog().sequences()).unwrap();
    let notes: Vec<_> = known.iter().map(|one| (&*one.schema.name, &*one.schema.note)).collect();
    assert_eq!(notes, [("s", "kept"), ("t_id_seq", "kept")]);
    assert_eq!(run(&db, |txn| txn.next_value("s")).unwrap(), 4);
    clean(&db);
}

/// Under its new name a sequence goes on where it was, also one of a column.
#[test]
fn a_sequence_goes_on_under_another_name() {
    let (dir, db) = empty();
    run(&db, |txn| {
        txn.create_sequence(&SequenceSchema::new("s"))?;
        txn.create_table(&orders())?;
        txn.insert_into("orders").columns(&[]).rows(&[vec![]])?;
        txn.next_value("s")
    })
    .unwrap();
    let taken = run(&db, |txn| txn.alter_sequence("s", SequenceChange::Rename("orders")));
    assert!(matches!(taken, Err(Error::AlreadyExists(_))), "{taken:?}");
    let mut txn = db.begin();
    txn.alter_sequence("s", SequenceChange::Rename("never")).unwrap();
    assert_eq!(txn.next_value("never").unwrap(), 2);
    txn.rollback();
    assert_eq!(run(&db, |txn| txn.next_value("s")).unwrap(), 2);
    run(&db, |txn| txn.alter_sequence("s", SequenceChange::Rename("r"))).unwrap();
    run(&db, |txn| txn.alter_sequence("orders_id_seq", SequenceChange::Rename("ids"))).unwrap();
    assert!(matches!(run(&db, |txn| txn.next_value("s")), Err(Error::NotFound(_))));
    assert_eq!(run(&db, |txn| txn.next_value("r")).unwrap(), 3);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let info = run(&db, |txn| txn.catalog().describe("orders")).unwrap();
    assert_eq!(info.columns[0].identity.as_ref().unwrap().sequence, "ids");
    run(&db, |txn| txn.insert_into("orders").columns(&[]).rows(&[vec![]])).unwrap();
    assert_eq!(run(&db, |txn| txn.next_value("r")).unwrap(), 4);
    assert_eq!(
        rows(&db, "orders").iter().map(|row| &row[0]).collect::<Vec<_>>(),
        [&Value::Int4(1), &Value::Int4(2)]
    );
    clean(&db);
}

/// Threads that insert and roll back: no number twice.
#[test]
fn generated_numbers_are_different_in_all_threads() {
    let (_dir, db) = empty();
    run(&db, |txn| txn.create_table(&orders())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..100 {
                    let mut txn = db.begin();
                    let count = 1 + (thread + round) % 40;
                    txn.insert_into("orders").columns(&[]).rows(&vec![vec![]; count]).unwrap();
                    if round % 3 > 0 {
                        txn.commit().unwrap();
                    }
                }
            });
        }
    });
    // The primary key would have refused a number twice.
    assert!(rows(&db, "orders").len() > 2000);
    clean(&db);
}

/// Sequences of tables, of unlogged ones too, and by themselves, none of them used since the
/// database was opened.
#[test]
fn sequences_are_in_a_backup() {
    let (dir, db) = empty();
    let unlogged =
        TableSchema::new("u").with_column(ColumnSchema::new("n", Type::Int8).generated());
    run(&db, |txn| {
        txn.create_table(&orders())?;
        txn.create_table(&unlogged.unlogged())?;
        txn.create_sequence(&SequenceSchema::new("s"))?;
        txn.insert_into("u").columns(&[]).rows(&vec![vec![]; 3])?;
        txn.next_value("s")
    })
    .unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let copy = dir.path().join("copy");
    db.backup(&copy).unwrap();
    let db = Database::open(&copy).unwrap();
    clean(&db);
    run(&db, |txn| {
        assert_eq!(txn.next_value("s")?, 2);
        assert_eq!(txn.next_value("orders_id_seq")?, 1);
        txn.insert_into("u").columns(&[]).rows(&[vec![]])
    })
    .unwrap();
    assert_eq!(rows(&db, "u"), [[Value::Int8(4)]], "the rows are gone, the numbers are not");
}

/// What a layer above keeps with a table and its columns stays through every change and a reopen.
#[test]
fn notes_are_kept_with_definitions() {
    let (dir, db) = empty();
    let mut schema = orders();
    schema.note = "of the table".into();
    schema.columns[4].note = "of amount".into();
    run(&db, |txn| txn.create_table(&schema)).unwrap();
    run(&db, |txn| {
        txn.alter_table("orders", AlterTable::RenameColumn { column: "amount", to: "cents" })?;
        txn.alter_table("orders", AlterTable::ColumnNote { column: "state", note: "of state" })?;
        txn.create_index("orders", &IndexSchema::new("by_state").on("state"))?;
        txn.alter_table("orders", AlterTable::Rename("sales"))
    })
    .unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let notes = |db: &Database| {
        let info = db.begin().catalog().describe("sales").unwrap();
        let columns: Vec<String> = info.columns.iter().map(|column| column.note.clone()).collect();
        (info.schema.note, columns)
    };
    let kept = ["", "of state", "", "", "of amount"].map(String::from).to_vec();
    assert_eq!(notes(&db), ("of the table".into(), kept.clone()));
    run(&db, |txn| txn.alter_table("sales", AlterTable::Note("another"))).unwrap();
    let long = "x".repeat((7 << 10) + 1);
    assert!(matches!(
        run(&db, |txn| txn.alter_table("sales", AlterTable::Note(&long))),
        Err(Error::Limit(_))
    ));
    assert_eq!(notes(&db), ("another".into(), kept));
    clean(&db);
}

/// The schema that is read back creates an equal table elsewhere.
#[test]
fn a_schema_that_is_read_back_creates_the_same_table() {
    let sequence = "numbers".to_owned();
    let identity =
        IdentitySchema { sequence, always: true, min: Some(-5), ..IdentitySchema::default() };
    let number = ColumnSchema::new("number", Type::Int4);
    let index = IndexSchema::new("by_state").on("state").on_desc("number").include(["at"]);
    let open = Predicate::new().equal("state", Value::Text("open".into()));
    let schema = TableSchema::new("orders")
        .with_column(ColumnSchema { identity: Some(identity), ..number })
        .nullable("state", Type::Text)
        .with_column(ColumnSchema::new("at", Type::Timestamp).default(ColumnDefault::Now))
        .column("gone", Type::Int8)
        .primary_key(["number"])
        .index(index.only(open.clone()))
        .index(IndexSchema::new("once").on("at").unique_nulls())
        .check("open", open)
        .fillfactor(70)
        .unlogged();
    let (_first, db) = empty();
    run(&db, |txn| txn.create_table(&schema)).unwrap();
    run(&db, |txn| txn.alter_table("orders", AlterTable::DropColumn("gone"))).unwrap();
    let described = db.describe("orders").unwrap();
    assert_eq!(described.columns[0].identity.as_ref().unwrap().sequence, "numbers");
    let (_second, db) = empty();
    run(&db, |txn| txn.create_table(&described.schema)).unwrap();
    assert_eq!(db.describe("orders").unwrap().schema, described.schema);
    clean(&db);
}

/// How far the two threads of `looked_up_beside_a_creation` are.
#[derive(Clone, Default)]
struct Stage(Arc<AtomicU64>);

impl Stage {
    fn reach(&self, stage: u64) {
        self.0.fetch_max(stage, Ordering::SeqCst);
    }

    fn wait(&self, stage: u64) {
        while self.0.load(Ordering::SeqCst) < stage {
            thread::yield_now();
        }
    }
}

/// What becomes of a table while another thread, which found its name unknown, reads its
/// definition.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// Its creation has committed and its name is still marked.
    Marked,
    /// It is open.
    Open,
    /// It is open, and then dropped.
    Dropped,
}

/// The creator has found the name free, the reader that nobody knows it; then the table is made,
/// and only then the reader reads the catalog. Answers what the reader got.
fn looked_up_beside_a_creation(fate: Fate) -> Result<Option<Row>> {
    let (_dir, db) = empty();
    let stage = Stage::default();
    let (creator, theirs) = (db.clone(), stage.clone());
    let creator = thread::spawn("creates", move || {
        let stage = theirs.clone();
        let _hook = points::install_local(move |name| match name {
            "catalog.create-table.free" => {
                stage.reach(1);
                stage.wait(2);
            }
            "catalog.before-settle" if fate == Fate::Marked => {
                stage.reach(3);
                stage.wait(4);
            }
            _ => {}
        });
        let schema = TableSchema::new("t").column("id", Type::Int8).primary_key(["id"]);
        run(&creator, |txn| txn.create_table(&schema)).unwrap();
        theirs.reach(3);
        if fate == Fate::Dropped {
            theirs.wait(4);
            run(&creator, |txn| txn.drop_table("t")).unwrap();
        }
        theirs.reach(5);
    });
    stage.wait(1);
    let mine = stage.clone();
    let hook = points::install_local(move |name| match name {
        "catalog.lookup" => {
            mine.reach(2);
            mine.wait(3);
        }
        "catalog.looked-up" => {
            mine.reach(4);
            if fate == Fate::Dropped {
                mine.wait(5);
            }
        }
        _ => {}
    });
    let got = db.begin().get("t", &[Value::Int8(1)]);
    drop(hook);
    creator.join().expect("the name is still the creator's to settle");
    if fate != Fate::Dropped {
        run(&db, |txn| txn.insert("t", &[Value::Int8(1)])).unwrap();
        assert_eq!(rows(&db, "t").len(), 1);
    }
    clean(&db);
    got
}

/// A reader put its own opening of the table into the place of the creator's mark, or of the
/// creator's opening, and the one or the other thread panicked; or he opened what was dropped.
#[test]
fn a_table_is_created_while_another_looks_for_it() {
    for fate in [Fate::Marked, Fate::Open] {
        assert_eq!(looked_up_beside_a_creation(fate).unwrap(), None);
    }
    let gone = looked_up_beside_a_creation(Fate::Dropped);
    assert!(matches!(gone, Err(Error::NotFound(_))), "{gone:?}");
}

/// Numbers can be drawn while a statement holds the transaction, and never come twice.
#[test]
fn numbers_are_drawn_inside_of_a_statement() {
    let (dir, db) = empty();
    run(&db, |txn| {
        txn.create_table(&TableSchema::new("t").column("n", Type::Int8).primary_key(["n"]))?;
        txn.create_sequence(&SequenceSchema::new("s").start(10))
    })
    .unwrap();
    let fill = |db: &Database| {
        run(db, |txn| {
            let numbers = txn.numbers("s")?;
            txn.write("t", |writer| {
                let rows = (0..40).map(|_| Ok(vec![Value::Int8(numbers.draw()?)]));
                writer.insert_many(&rows.collect::<Result<Vec<_>>>()?)
            })
        })
    };
    fill(&db).unwrap();
    let drawn = run(&db, |txn| txn.numbers("s")?.draw()).unwrap();
    assert_eq!(drawn, 50, "40 numbers from 10 on are gone");
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    fill(&db).unwrap();
    assert_eq!(rows(&db, "t").len(), 80);
    run(&db, |txn| txn.numbers("s")?.restart(1_000)).unwrap();
    assert_eq!(run(&db, |txn| txn.next_value("s")).unwrap(), 1_000);
    clean(&db);
}

/// Values of a computed column come with whole rows, and stand behind columns that come later.
#[test]
fn computed_columns_stand_behind_others_and_only_whole_rows_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let low = ColumnSchema { computed: true, ..ColumnSchema::new("low", Type::Text).nullable() };
    let schema = TableSchema::new("t").column("id", Type::Int8).nullable("name", Type::Text);
    let schema =
        schema.with_column(low).primary_key(["id"]).index(IndexSchema::new("t_low").on("low"));
    txn.create_table(&schema).unwrap();
    txn.insert("t", &[Value::Int8(1), text("Ada"), text("ada")]).unwrap();
    let age = ColumnSchema::new("age", Type::Int4).nullable();
    txn.alter_table("t", AlterTable::AddColumn(&age)).unwrap();
    let random = ColumnSchema::new("random", Type::Uuid).default(ColumnDefault::RandomUuid);
    txn.alter_table("t", AlterTable::AddColumn(&random.nullable())).unwrap();
    let id = Value::Uuid([7; 16]);
    txn.insert("t", &[Value::Int8(2), text("Bob"), Value::Int4(7), id.clone(), text("bob")])
        .unwrap();
    let names: Vec<String> =
        txn.catalog().describe("t").unwrap().columns.iter().map(|one| one.name.clone()).collect();
    assert_eq!(names, ["id", "name", "age", "random", "low"]);
    let rows = [vec![Value::Int8(3)]];
    for refused in [
        txn.insert_into("t").columns(&["id"]).rows(&rows).map(drop),
        txn.update("t", rightlink::RowId::new(0, 1), &[("name", text("Eve"))]).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    txn.commit().unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let found = txn.scan("t", &ScanOptions::index("t_low").equal(vec![text("bob")])).unwrap();
    let found: Vec<_> = found.map(|row| row.unwrap().values).collect();
    assert_eq!(found, [[Value::Int8(2), text("Bob"), Value::Int4(7), id, text("bob")]]);
    let old = txn.get("t", &[Value::Int8(1)]).unwrap().unwrap().values;
    assert_eq!((&old[2], &old[4]), (&Value::Null, &text("ada")));
    assert!(!old[3].is_null());
    drop(txn);
    assert!(db.verify().unwrap().is_clean());
}
