//! Indexes that hold some rows: which updates are heap-only (R10), and what cleaning finds.

use rightlink_env::Broken;
use rightlink_env::points;

use super::*;
use crate::table::IndexBounds;
use crate::table::predicate::{Comparison, Predicate, Term, Test};

/// Index over the tags of items with a score of at least 0, with the names beside.
pub(super) fn rated() -> IndexDef {
    let test = Test::Compare(Comparison::AtLeast, Value::Float8(0.0));
    let predicate = Some(Predicate { terms: vec![Term { column: 3, test }] });
    let key = vec![IndexColumn::ascending(2)];
    let base = IndexDef::new(ObjectId(104), "items_rated", FileId(70), key, false);
    IndexDef { included: vec![1], predicate, ..base }
}

/// A table with that index alone, so that the score is in no other.
fn store(seed: u64) -> Store {
    let mut def = items();
    def.indexes = vec![rated()];
    Store::with(def, 64, seed)
}

fn scored(id: i64, score: Option<f64>) -> Vec<Value> {
    let mut row = item(id, "x");
    row[3] = score.map_or(Value::Null, Value::Float8);
    row
}

fn update(store: &Store, at: RowId, score: Option<f64>) -> RowId {
    let mut change = |old: &[Value]| Ok(Some(scored(as_int(&old[0]), score)));
    match store.run(|statement| store.table.update(statement, at, &mut change)).unwrap() {
        crate::table::Written::Done(at) => at,
        other => panic!("{other:?}"),
    }
}

/// Ids by the index, and how many entries it has.
fn held(store: &Store) -> (Vec<i64>, u64) {
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let mut ids = store.ids_by(&snapshot, 0, &IndexScanOptions::new(IndexBounds::all()));
    ids.sort_unstable();
    let index = &store.table.indexes()[0];
    let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}")).unwrap();
    (ids, stats.live)
}

/// A change that the condition looks at but does not notice leaves the index alone; one that it
/// notices takes the row in or out, and a heap-only version would be in or out with the root.
#[test]
fn an_update_is_heap_only_unless_it_moves_the_row_in_or_out() {
    for rule in [None, Some(Broken::PredicateChangeHeapOnly)] {
        let store = store(7);
        let rows = [scored(1, Some(1.0)), scored(2, Some(-1.0)), scored(3, None)];
        let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
        assert_eq!(held(&store), (vec![1], 1));
        let again = update(&store, ids[0], Some(2.0));
        let below = update(&store, ids[1], Some(-2.0));
        assert_eq!(held(&store), (vec![1], 1), "two heap-only updates");
        let broken = rule.map(points::break_rule);
        update(&store, again, None);
        update(&store, below, Some(0.0));
        update(&store, ids[2], Some(3.0));
        drop(broken);
        assert_eq!(held(&store).0 == [2, 3], rule.is_none(), "{rule:?}");
    }
}

#[test]
fn entries_leave_by_key_where_there_are_any() {
    let store = store(8);
    let rows: Vec<_> = (0..60).map(|id| scored(id, Some((id % 3) as f64 - 1.0))).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    assert_eq!(held(&store).1, 40);
    for at in &ids {
        let _ = store.run(|statement| store.table.delete(statement, *at, &mut |_| Ok(true)));
    }
    store.table.heap().prune_and_queue(crate::ids::BlockNo(1)).unwrap();
    let cleaned = store.table.clean().unwrap();
    assert_eq!((cleaned.rows, cleaned.entries, cleaned.freed), (60, 40, 60));
    assert_eq!(held(&store), (vec![], 0));
}
