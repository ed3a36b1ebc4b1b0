//! Indexes made over rows that exist.

use super::*;
use crate::error::Error;
use crate::sort::TempFiles;
use crate::table::{BuildOptions, IndexBounds, TableIndex};

fn build(store: &Store, txn: &mut Transaction, unique: bool) -> Result<Arc<TableIndex>> {
    let temp = TempFiles::open(&store.pool.io, &store.pool.env.logger).unwrap();
    let options = BuildOptions { budget: &store.pool.env.budget, temp: &temp, memory: 0 };
    let key = vec![IndexColumn::descending(4), IndexColumn::ascending(0)];
    let key = if unique { vec![key[0].clone()] } else { key };
    let index = IndexDef::new(ObjectId(200), "items_note", FileId(80), key, unique);
    store.table.build_index(txn, &index, &options)
}

/// The store's table with an index that was built.
fn under(store: &Store, built: Arc<TableIndex>) -> Arc<Table> {
    let mut def = store.table.def().clone();
    def.indexes.push(built.def().clone());
    store.table.with_def(def, &[built]).unwrap()
}

/// The same, built in a transaction of its own.
fn with_index(store: &Store) -> Arc<Table> {
    let mut txn = store.begin(Isolation::Snapshot);
    let built = build(store, &mut txn, false).unwrap();
    txn.commit(true).unwrap();
    under(store, built)
}

fn noted(id: i64, note: u32) -> Vec<Value> {
    let mut row = item(id, "x");
    row[4] = Value::Bytes(note.to_be_bytes().to_vec());
    row
}

#[test]
fn a_built_index_finds_every_row_with_its_newest_key() {
    let store = Store::new(256, 1);
    let rows: Vec<_> = (0..3000).map(|id| noted(id, id as u32 % 100)).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    // Heap-only updates: the index must name the roots, with the key of the newest version.
    for (id, row) in ids.iter().enumerate().filter(|(id, _)| id % 3 == 0) {
        let mut change = |_: &[Value]| Ok(Some(noted(id as i64, 1000)));
        let _ = store.run(|statement| store.table.update(statement, *row, &mut change)).unwrap();
    }
    let mut old = store.begin(Isolation::Snapshot);
    let before = old.begin_statement().unwrap();
    for row in ids.iter().skip(1).step_by(3) {
        let _ = store.run(|statement| store.table.delete(statement, *row, &mut |_| Ok(true)));
    }
    let table = with_index(&store);
    let index = table.index("items_note").unwrap();
    let all = Projection::all(table.def());
    let options = IndexScanOptions::new(IndexBounds::all());

    let after = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let scan = table.scan_index(&after, index, all.clone(), &options).unwrap();
    let found: Vec<_> = scan.map(|row| row.unwrap().values).collect();
    let mut wanted = store.all(&after);
    wanted.sort_by(|a, b| b[4].cmp(&a[4]).then(a[0].cmp(&b[0])));
    assert_eq!(found.len(), 2000);
    assert!(found == wanted);
    // R10: the index lacks what the older snapshot sees, so that one may not use it.
    let refused = table.scan_index(&before, index, all, &options);
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    // New rows go into the new index as well.
    store.run(|statement| table.insert(statement, noted(9000, 5000))).unwrap();
    let now = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let id = Projection::new(table.def(), &[0]).unwrap();
    let first = table.scan_index(&now, index, id, &options).unwrap().next().unwrap().unwrap();
    // Descending with nulls first, and there are none.
    assert_eq!(first.values, [Value::Int8(9000)]);
}

#[test]
fn a_unique_index_is_not_built_over_duplicates() {
    let store = Store::new(64, 2);
    let rows = vec![noted(1, 5), noted(2, 6), item(3, "null"), item(4, "null"), noted(5, 5)];
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let error = build(&store, &mut txn, true).err().unwrap();
    assert!(matches!(&error, Error::UniqueViolation { key, .. } if key == "(\\x00000005)"));
}

#[test]
fn a_build_in_a_transaction_sees_its_own_rows() {
    let store = Store::new(64, 3);
    let mut txn = store.begin(Isolation::Snapshot);
    let mut statement = Statement::begin(&mut txn).unwrap();
    store.table.insert_many(&mut statement, &[noted(1, 1), noted(2, 2)]).unwrap();
    let built = build(&store, &mut txn, true).unwrap();
    let table = under(&store, built);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let duplicate = table.insert(&mut statement, noted(3, 2));
    assert!(matches!(duplicate, Err(Error::UniqueViolation { .. })));
}

/// An index that is made over a chain whose versions have different keys names its root by the last
/// one's. When the row dies its entry is found by that key: by the first one's it was not, the row
/// id was given free, and the entry stayed for whatever row came there next.
#[test]
fn entries_of_rows_with_older_keys_leave_with_them() {
    let store = Store::new(64, 5);
    let rows: Vec<_> = (0..30).map(|id| noted(id, 1)).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    // The old versions stay, for somebody who sees them.
    let reader = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let set = |table: &Table, at: RowId, note: u32, keep: bool| {
        let mut txn = store.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut txn).unwrap();
        let mut change = |old: &[Value]| {
            let Value::Int8(id) = old[0] else { panic!("{old:?}") };
            Ok(Some(noted(id, note)))
        };
        let _ = table.update(&mut statement, at, &mut change).unwrap();
        drop(statement);
        if keep {
            txn.commit(true).unwrap();
        }
    };
    ids.iter().for_each(|at| set(&store.table, *at, 2, true));
    ids.iter().for_each(|at| set(&store.table, *at, 3, false));
    let table = with_index(&store);
    for at in &ids {
        let _ = store.run(|statement| table.delete(statement, *at, &mut |_| Ok(true))).unwrap();
    }
    drop(reader);
    table.heap().prune_and_queue(crate::ids::BlockNo(1)).unwrap();
    assert_eq!(table.clean().unwrap().rows, 30);
    for index in table.indexes() {
        let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}")).unwrap();
        assert_eq!(stats.live, 0, "entries of {} for rows that are gone", index.def().name);
    }
}
