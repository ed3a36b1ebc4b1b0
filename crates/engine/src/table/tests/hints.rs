//! What a scan remembers of a leaf, and what may have become of it meanwhile (R3, R4).

use super::*;
use crate::table::{IndexBounds, Scan};

/// Ten rows; the fifth is deleted, durably, and nobody has cleaned up.
fn store_with_a_dead_row(seed: u64) -> (Store, RowId) {
    let store = Store::new(64, seed);
    let rows: Vec<_> = (0..10).map(|id| item(id, "x")).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let _ = store.table.delete(&mut statement, ids[5], &mut |_| Ok(true)).unwrap();
    txn.commit(false).unwrap();
    (store, ids[5])
}

fn scan_by_id(store: &Store, projection: Projection) -> Scan {
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    let options = IndexScanOptions::new(IndexBounds::all());
    let index = &store.table.indexes()[0];
    store.table.scan_index(&snapshot, index, projection, &options).unwrap()
}

fn marked_dead(store: &Store) -> u64 {
    let index = &store.table.indexes()[0];
    index.method().verify(None, &mut |finding| panic!("{finding:?}")).unwrap().dead
}

#[test]
fn a_scan_marks_the_entries_of_rows_that_nobody_sees() {
    let (store, _) = store_with_a_dead_row(1);
    let rows = scan_by_id(&store, Projection::all(store.table.def())).count();
    assert_eq!((rows, marked_dead(&store)), (9, 1));
    store.insert(5, "again").unwrap();
    assert_eq!(scan_by_id(&store, Projection::all(store.table.def())).count(), 10);
}

/// Inserts `row`, again and again until it gets the row id `at`.
fn insert_at(store: &Store, at: RowId, row: Vec<Value>) {
    for _ in 0..100 {
        let mut txn = store.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut txn).unwrap();
        if store.table.insert(&mut statement, row.clone()).unwrap() == at {
            txn.commit(true).unwrap();
            return;
        }
        txn.rollback();
    }
    panic!("the row id {at} is not used again");
}

/// A scan had found a row dead. Before it told the index, vacuum freed the row id and a new row
/// with the same key got it: the mark would have hidden the new row.
#[test]
fn a_dead_mark_does_not_hit_the_next_owner_of_a_row_id() {
    let (store, dead) = store_with_a_dead_row(2);
    let mut scan = scan_by_id(&store, Projection::all(store.table.def()));
    assert_eq!(scan.by_ref().count(), 9);
    assert_eq!(store.vacuum(), 1);
    insert_at(&store, dead, item(5, "new"));
    drop(scan);
    assert_eq!(marked_dead(&store), 0);
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    assert_eq!(store.find(&snapshot, 5).unwrap().1, item(5, "new"));
}

/// An index-only scan had copied a leaf with the entry of a dead row. Vacuum then removed the row
/// and found its page all-visible: the entry, taken alone, would have brought the row back.
#[test]
fn an_all_visible_page_does_not_vouch_for_an_entry_read_before() {
    let (store, _) = store_with_a_dead_row(3);
    let mut scan = scan_by_id(&store, Projection::new(store.table.def(), &[0]).unwrap());
    let mut ids = vec![as_int(&scan.next().unwrap().unwrap().values[0])];
    assert_eq!(store.vacuum(), 1);
    let heap = store.table.heap();
    assert!(heap.all_visible(crate::ids::BlockNo(1)).unwrap().all_visible);
    ids.extend(scan.map(|row| as_int(&row.unwrap().values[0])));
    assert_eq!(ids, [0, 1, 2, 3, 4, 6, 7, 8, 9]);
}
