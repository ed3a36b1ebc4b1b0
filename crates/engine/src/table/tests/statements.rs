//! One statement after the other: violations, atomicity, columns that come and go.

use super::*;
use crate::error::Error;
use crate::table::{IndexBounds, Written};

fn violation(result: Result<impl std::fmt::Debug>) -> String {
    match result {
        Err(error @ Error::UniqueViolation { .. }) => error.to_string(),
        other => panic!("no violation: {other:?}"),
    }
}

#[test]
fn a_unique_violation_names_table_index_and_key() {
    let store = Store::new(64, 1);
    store.insert(7, "a").unwrap();
    let told = violation(store.insert(7, "b"));
    assert_eq!(told, "key (7) exists already in unique index items_id of table items");
}

#[test]
fn a_statement_that_fails_at_its_last_row_leaves_nothing() {
    let store = Store::new(64, 2);
    store.insert(5, "old").unwrap();
    let mut txn = store.begin(Isolation::Snapshot);
    let mut statement = Statement::begin(&mut txn).unwrap();
    store.table.insert(&mut statement, item(1, "kept")).unwrap();
    let mut statement = Statement::begin(&mut txn).unwrap();
    let rows: Vec<_> = (2..=5).map(|id| item(id, "gone")).collect();
    violation(store.table.insert_many(&mut statement, &rows));
    // The failed statement takes no more writes, the transaction's next one does.
    let again = store.table.insert(&mut statement, item(9, "no"));
    assert!(matches!(again, Err(Error::TransactionAborted)));
    let mut statement = Statement::begin(&mut txn).unwrap();
    store.table.insert(&mut statement, item(3, "new")).unwrap();
    txn.commit(true).unwrap();
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let wanted = [item(1, "kept"), item(3, "new"), item(5, "old")];
    assert_eq!(store.all(&snapshot), wanted);
    for at in 0..3 {
        let mut ids = store.ids_by(&snapshot, at, &IndexScanOptions::new(IndexBounds::all()));
        ids.sort_unstable();
        assert_eq!(ids, [1, 3, 5]);
    }
}

#[test]
fn two_rows_of_one_statement_may_not_share_a_unique_key() {
    let store = Store::new(64, 3);
    let rows = [item(1, "a"), item(2, "b"), item(1, "c")];
    violation(store.run(|statement| store.table.insert_many(statement, &rows)));
    store.insert(1, "free again").unwrap();
}

#[test]
fn a_deleted_key_is_free_for_the_same_transaction_and_after_it() {
    let store = Store::new(64, 4);
    let row = store.insert(1, "a").unwrap();
    let mut txn = store.begin(Isolation::Snapshot);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let deleted = store.table.delete(&mut statement, row, &mut |_| Ok(true)).unwrap();
    assert_eq!(deleted, Written::Done(row));
    let mut statement = Statement::begin(&mut txn).unwrap();
    store.table.insert(&mut statement, item(1, "b")).unwrap();
    txn.commit(true).unwrap();
    violation(store.insert(1, "c"));
}

/// Update of a whole table while it is scanned: no row is met twice (no Halloween).
#[test]
fn a_statement_does_not_see_its_own_updates() {
    let store = Store::new(64, 5);
    let rows: Vec<_> = (0..200).map(|id| item(id, "x")).collect();
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let updated = store.run(|statement| {
        let index = &store.table.indexes()[2];
        let all = Projection::all(store.table.def());
        let options = IndexScanOptions::new(IndexBounds::all());
        let scan = store.table.scan_index(statement.snapshot(), index, all, &options)?;
        let mut updated = 0;
        for row in scan {
            // The key moves to the end of the index that is being scanned.
            let mut change = |old: &[Value]| {
                let mut new = old.to_vec();
                new[3] = Value::Float8(1e6);
                Ok(Some(new))
            };
            let written = store.table.update(statement, row?.row_id, &mut change)?;
            assert!(matches!(written, Written::Done(_)));
            updated += 1;
        }
        Ok(updated)
    });
    assert_eq!(updated.unwrap(), 200);
}

#[test]
fn a_row_written_twice_by_one_statement_is_written_once() {
    let store = Store::new(64, 6);
    let row = store.insert(1, "a").unwrap();
    store
        .run(|statement| {
            let mut rename = |old: &[Value]| {
                let mut new = old.to_vec();
                new[1] = Value::Text("b".into());
                Ok(Some(new))
            };
            let first = store.table.update(statement, row, &mut rename)?;
            assert!(matches!(first, Written::Done(_)));
            assert_eq!(store.table.update(statement, row, &mut rename)?, Written::Skipped);
            assert_eq!(store.table.delete(statement, row, &mut |_| Ok(true))?, Written::Skipped);
            Ok(())
        })
        .unwrap();
}

#[test]
fn updates_of_columns_without_an_index_are_heap_only() {
    let store = Store::new(64, 7);
    let mut at = store.insert(1, "a").unwrap();
    let blocks = store.table.heap().blocks();
    for round in 0..500u32 {
        let note = Value::Bytes(round.to_le_bytes().to_vec());
        let note = std::slice::from_ref(&note);
        let mut change = |old: &[Value]| Ok(Some([&old[..4], note].concat()));
        let written = store.run(|statement| store.table.update(statement, at, &mut change));
        let Written::Done(now) = written.unwrap() else { panic!("round {round}") };
        at = now;
    }
    assert_eq!(store.table.heap().blocks(), blocks, "pruning makes room for heap-only updates");
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let (found, values) = store.find(&snapshot, 1).unwrap();
    assert_eq!((found, &values[4]), (at, &Value::Bytes(499u32.to_le_bytes().to_vec())));
}

#[test]
fn columns_come_and_go_without_a_rewrite() {
    let store = Store::new(64, 8);
    store.insert(1, "a").unwrap();
    let mut def = store.table.def().clone();
    def.columns[4].dropped = true;
    let missing = Value::Int2(7);
    def.columns.push(Column { missing, ..Column::new("extra", Type::Int2, true) });
    let table = store.table.with_def(def, &[]).unwrap();
    let mut new = item(2, "b");
    new[4] = Value::Int2(8);
    store.run(|statement| table.insert(statement, new.clone())).unwrap();
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let rows = table.scan(&snapshot, Projection::all(table.def()), None);
    let mut old = item(1, "a");
    old[4] = Value::Int2(7);
    assert_eq!(rows.map(|row| row.unwrap().values).collect::<Vec<_>>(), [old, new]);
    assert!(Projection::new(table.def(), &[4]).is_err());
}

#[test]
fn what_cannot_be_stored_is_refused_before_anything_changes() {
    let store = Store::new(64, 9);
    let blocks = store.table.heap().blocks();
    let mut long = item(1, "a");
    long[1] = Value::Text("x".repeat(3000));
    let mut big = item(1, "a");
    big[4] = Value::Bytes(vec![1; 9000]);
    let mut wrong = item(1, "a");
    wrong[0] = Value::Int4(1);
    for row in [long, big, wrong, vec![Value::Int8(1)]] {
        let refused = store.run(|statement| store.table.insert(statement, row));
        assert!(matches!(refused, Err(Error::RowTooLarge(_) | Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(store.table.heap().blocks(), blocks);
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let bad = IndexBounds::equal(vec![Value::Text("1".into())]);
    let index = &store.table.indexes()[0];
    let all = Projection::all(store.table.def());
    let scan = store.table.scan_index(&snapshot, index, all, &IndexScanOptions::new(bad));
    assert!(matches!(scan, Err(Error::Invalid(_))));
}

#[test]
fn a_table_is_there_after_it_is_opened_again() {
    let store = Store::new(64, 10);
    store.insert(1, "a").unwrap();
    let def = store.table.def().clone();
    assert_eq!(store.table.heap().files(), files(&def));
    let table = Table::open(&store.pool.pool, &store.txns, def).unwrap();
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let all = table.all_columns();
    let index = table.index("items_id").unwrap();
    let rows = table.get(&snapshot, index, &[Value::Int8(1)], all).unwrap();
    assert_eq!(rows.unwrap().values, item(1, "a"));
}

#[test]
fn many_keys_are_fetched_at_once_each_in_its_place() {
    let store = Store::new(64, 11);
    let rows: Vec<_> =
        (0..500).map(|id| item(id, if id % 2 == 0 { "even" } else { "odd" })).collect();
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let all = store.table.all_columns();
    let ids = [77, 499, 3, 1000, 3];
    let keys: Vec<_> = ids.iter().map(|id| vec![Value::Int8(*id)]).collect();
    let index = &store.table.indexes()[0];
    let found = store.table.fetch_many(&snapshot, index, &keys, all).unwrap();
    let found: Vec<Vec<_>> =
        found.into_iter().map(|rows| rows.into_iter().map(|row| row.values).collect()).collect();
    let one = |id: i64| vec![rows[id as usize].clone()];
    assert_eq!(found, [one(77), one(499), one(3), vec![], one(3)]);
    let prefixes = [vec![Value::Text("odd".into())], vec![Value::Text("none".into())]];
    let index = &store.table.indexes()[1];
    let found = store.table.fetch_many(&snapshot, index, &prefixes, all).unwrap();
    assert_eq!((found[0].len(), found[1].len()), (250, 0));
}

/// An `IN` list: each row once, in index order, however the list is ordered or overlaps.
#[test]
fn any_of_several_prefixes_is_scanned_in_index_order() {
    let store = Store::new(64, 12);
    let rows: Vec<_> = (0..40).map(|id| item(id, ["a", "b", "c", "d"][id as usize % 4])).collect();
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let text = |name: &str| Value::Text(name.into());
    let prefixes = vec![
        vec![text("a"), Value::Int4(1)],
        vec![text("c")],
        vec![text("c"), Value::Int4(1)],
        vec![text("x")],
        vec![text("a")],
    ];
    let names = |direction| {
        let bounds = IndexBounds::AnyOf(prefixes.clone());
        let options = IndexScanOptions { direction, ..IndexScanOptions::new(bounds) };
        let name = Projection::new(store.table.def(), &[1]).unwrap();
        let index = &store.table.indexes()[1];
        let scan = store.table.scan_index(&snapshot, index, name, &options).unwrap();
        scan.map(|row| row.unwrap().values[0].to_string()).collect::<String>()
    };
    // The index is descending by name.
    assert_eq!(names(crate::index::Direction::Forward), "cccccccccc".to_owned() + "aaaaaaaaaa");
    assert_eq!(names(crate::index::Direction::Backward), "aaaaaaaaaa".to_owned() + "cccccccccc");
}

/// A scan is owned: it goes to another thread and outlives what made it.
#[test]
fn scans_are_send_and_owned() {
    fn is_send<T: Send + 'static>() {}
    is_send::<crate::table::Scan>();
    is_send::<Table>();
}
