//! What a scan remembers of a leaf, and what may have become of it meanwhile (R3, R4).

use super::*;
use crate::index::Direction;
use crate::table::{IndexBounds, Scan, Written};
use crate::txn::DeadHints;

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

/// A read of one row by its key leaves marks to a scan, which it makes way for.
#[test]
fn a_read_by_key_marks_the_entry_of_a_dead_row() {
    let (store, _) = store_with_a_dead_row(9);
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    assert!(store.find(&snapshot, 4).is_some() && marked_dead(&store) == 0);
    assert_eq!((store.find(&snapshot, 5), marked_dead(&store)), (None, 1));
}

/// One dead entry among many is not worth a scan; where there are more, one comes and marks them.
#[test]
fn a_read_by_key_makes_way_for_marks_that_are_worth_it() {
    const ROWS: usize = 24;
    let store = Store::new(64, 12);
    let rows: Vec<_> = (0..ROWS as i64).map(|id| item(id, "x")).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let key = rows[0][1..3].to_vec();
    let index = &store.table.indexes()[1];
    let mut marked = Vec::new();
    for dead in 1..=4 {
        let mut txn = store.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut txn).unwrap();
        let at = ids[ROWS - dead];
        let _ = store.table.delete(&mut statement, at, &mut |_| Ok(true)).unwrap();
        drop(statement);
        txn.commit(false).unwrap();
        let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
        let all = store.table.all_columns();
        let scan = store.table.scan_key(&snapshot, index, all, &key, None).unwrap();
        assert_eq!(scan.count(), ROWS - dead);
        let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}")).unwrap();
        marked.push(stats.dead);
    }
    assert_eq!(marked, [0, 0, 0, 4], "more than three of 24 are worth it");
}

/// Versions of a row lie in a list of its key's index since a leaf was full. A read by key finds
/// the first of them dead and has it marked: the others are found all the same.
#[test]
fn a_read_by_key_finds_the_row_behind_a_marked_version() {
    let store = Store::new(256, 11);
    let insert = |ids: &mut dyn Iterator<Item = i64>| {
        let rows: Vec<_> = ids.map(|id| item(id, "same")).collect();
        store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    };
    insert(&mut (0..4000).step_by(2));
    let (wanted, versions) = (2000, 40);
    // Every version is still seen by somebody, so that a full leaf finds none of them dead.
    let mut held = Vec::new();
    for version in 0..versions {
        let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
        let (row, _) = store.find(&snapshot, wanted).unwrap();
        held.push(snapshot);
        let new = item(wanted, &format!("name {version}"));
        let mut rename = |_: &[Value]| Ok(Some(new.clone()));
        let update =
            |statement: &mut Statement<'_>| store.table.update(statement, row, &mut rename);
        assert!(matches!(store.run(update).unwrap(), Written::Done(_)));
    }
    // The leaf is full, and its entries are put together.
    insert(&mut (1..4000).step_by(2));
    drop(held);
    // Marks rest on commits that are durable.
    let mut txn = store.begin(Isolation::ReadCommitted);
    txn.xid().unwrap();
    txn.commit(false).unwrap();
    let last = item(wanted, &format!("name {}", versions - 1));
    for read in 0..4 {
        let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
        let found = store.find(&snapshot, wanted).map(|(_, row)| row);
        assert_eq!(found.as_ref(), Some(&last), "read {read}");
    }
    assert!(marked_dead(&store) > 0, "the reads leave marks");
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

/// Every way of going through an index.
fn kinds() -> [IndexScanOptions; 3] {
    let all = || IndexScanOptions::new(IndexBounds::all());
    [
        all(),
        IndexScanOptions { direction: Direction::Backward, ..all() },
        IndexScanOptions { any_order: true, ..all() },
    ]
}

/// Rows with few names, so that leaves of the second index hold posting lists; every third row is
/// deleted, durably. Returns how many that are.
fn fill_and_delete(store: &Store, rows: i64) -> u64 {
    let items: Vec<_> = (0..rows).map(|id| item(id, ["one", "two"][id as usize % 2])).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &items)).unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let dead: Vec<_> = ids.iter().step_by(3).collect();
    for id in &dead {
        let _ = store.table.delete(&mut statement, **id, &mut |_| Ok(true)).unwrap();
    }
    txn.commit(false).unwrap();
    dead.len() as u64
}

fn dead_in(store: &Store, index: usize) -> u64 {
    let method = store.table.indexes()[index].method();
    method.verify(None, &mut |finding| panic!("{finding:?}")).unwrap().dead
}

/// Marks are left by scans in both directions and in the heap's order, of whole rows and of keys
/// alone, on single entries and on members of posting lists, of logged tables and unlogged ones.
#[test]
fn scans_of_every_kind_mark_every_dead_row() {
    for logged in [true, false] {
        for (kind, options) in kinds().iter().enumerate() {
            for index in 0..3 {
                let def = TableDef { logged, ..items() };
                let store = Store::with(def, 128, 4 + kind as u64);
                let dead = fill_and_delete(&store, 1500);
                let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
                let rows = store.ids_by(&snapshot, index, options);
                assert_eq!((rows.len() as u64, dead_in(&store, index)), (1500 - dead, dead));
                let again = store.ids_by(&snapshot, index, options);
                assert_eq!(again, rows, "marks hide dead rows only");
            }
        }
    }
}

/// Under each policy, by each kind of scan, of whole rows and of keys alone, on plain entries,
/// posting lists and entries with included columns, of logged tables and unlogged ones: `Off`
/// leaves every entry of a dead row as it is, the others none. Where the leaf changes meanwhile,
/// they differ (`the_scans_own_inserts_do_not_cost_the_marks`).
#[test]
fn every_policy_in_every_kind_of_scan() {
    for (_, hints) in DeadHints::EACH {
        for (options, columns) in kinds().iter().flat_map(|kind| [(kind, 1), (kind, 5)]) {
            for (index, logged) in [(0, true), (1, true), (2, true), (0, false), (1, false)] {
                let store = Store::with(TableDef { logged, ..items() }, 128, 11);
                store.txns.set_dead_hints(hints);
                let dead = fill_and_delete(&store, 1500);
                let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
                let wanted: Vec<_> = (0..columns).collect();
                let columns = Projection::new(store.table.def(), &wanted).unwrap();
                let on = &store.table.indexes()[index];
                let scan = store.table.scan_index(&snapshot, on, columns, options).unwrap();
                assert_eq!(scan.count() as u64, 1500 - dead);
                let marked = if hints == DeadHints::Off { 0 } else { dead };
                assert_eq!(dead_in(&store, index), marked, "{hints:?}, {options:?}, index {index}");
            }
        }
    }
}

/// A unique check takes the dead entries away that it meets, whatever the policy for marks.
#[test]
fn unique_checks_need_no_policy() {
    for (_, hints) in DeadHints::EACH {
        for logged in [true, false] {
            let store = Store::with(TableDef { logged, ..items() }, 64, 12);
            store.txns.set_dead_hints(hints);
            for _ in 0..50 {
                let at = store.insert(1, "x").unwrap();
                let _ = store.run(|s| store.table.delete(s, at, &mut |_| Ok(true))).unwrap();
            }
            let method = store.table.indexes()[0].method();
            let stats = method.verify(None, &mut |finding| panic!("{finding:?}")).unwrap();
            assert!(stats.live + stats.dead <= 3, "{hints:?}: {stats:?}");
        }
    }
}

/// A list whose rows are all dead loses them all as soon as its leaf needs the room.
#[test]
fn a_posting_list_of_dead_rows_goes_as_a_whole() {
    let store = Store::new(128, 9);
    let rows: Vec<_> = (0..1000).map(|id| item(id, "x")).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    for id in ids {
        let _ = store.table.delete(&mut statement, id, &mut |_| Ok(true)).unwrap();
    }
    drop(statement);
    txn.commit(false).unwrap();
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    assert!(store.ids_by(&snapshot, 1, &kinds()[0]).is_empty());
    assert_eq!(dead_in(&store, 1), 1000);
    drop(snapshot);
    let rows: Vec<_> = (0..1000).map(|id| item(id, "x")).collect();
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    assert!(dead_in(&store, 1) < 1000, "the first full leaf let go of dead rows");
}

/// What a statement itself inserted on the leaf that it is reading: under the rule of the page's
/// LSN the marks were lost, which is how a hot leaf fills with dead entries for good.
#[test]
fn the_scans_own_inserts_do_not_cost_the_marks() {
    for (name, hints) in DeadHints::EACH {
        let expected = u64::from(!matches!(hints, DeadHints::PageLsn | DeadHints::Off));
        let (store, _) = store_with_a_dead_row(5);
        store.txns.set_dead_hints(hints);
        let mut txn = store.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut txn).unwrap();
        let index = &store.table.indexes()[0];
        let all = Projection::all(store.table.def());
        let options = IndexScanOptions::new(IndexBounds::all());
        let snapshot = Arc::clone(statement.snapshot());
        let scan = store.table.scan_index(&snapshot, index, all, &options).unwrap();
        let mut rows = 0;
        for row in scan {
            let id = as_int(&row.unwrap().values[0]);
            store.table.insert(&mut statement, item(100 + id, "new")).unwrap();
            rows += 1;
        }
        assert_eq!((rows, marked_dead(&store)), (9, expected), "{name}");
        txn.commit(true).unwrap();
    }
}

/// What another thread inserted there costs the marks of both policies that ask the LSN, also
/// where the scan's own thread inserts before and after it.
#[test]
fn inserts_of_another_thread_cost_the_marks_of_a_saved_lsn() {
    for (name, hints) in DeadHints::EACH {
        let expected = u64::from(matches!(hints, DeadHints::Epoch | DeadHints::PinHeld));
        let (store, _) = store_with_a_dead_row(5);
        store.txns.set_dead_hints(hints);
        let mut scan = scan_by_id(&store, Projection::all(store.table.def()));
        assert!(scan.next().unwrap().is_some());
        store.insert(100, "own").unwrap();
        std::thread::scope(|s| s.spawn(|| store.insert(101, "other").unwrap()).join()).unwrap();
        store.insert(102, "own").unwrap();
        assert_eq!((scan.count(), marked_dead(&store)), (8, expected), "{name}");
    }
}

/// The leaf of an open scan stays in memory under one policy alone, so that its marks are not lost.
#[test]
fn a_held_leaf_is_not_evicted() {
    for (name, hints) in DeadHints::EACH {
        let (store, _) = store_with_a_dead_row(5);
        store.txns.set_dead_hints(hints);
        let mut scan = scan_by_id(&store, Projection::all(store.table.def()));
        assert!(scan.next().unwrap().is_some());
        store.pool.pool.evict_all().unwrap();
        assert_eq!(scan.count(), 8, "{name}");
        assert_eq!(marked_dead(&store), u64::from(hints == DeadHints::PinHeld), "{name}");
    }
}

/// Without changes of the leaf the LSN rule marks too, and `Off` never does.
#[test]
fn the_policy_for_marks_can_be_set() {
    for (_, hints) in DeadHints::EACH {
        let expected = u64::from(hints != DeadHints::Off);
        let (store, _) = store_with_a_dead_row(6);
        store.txns.set_dead_hints(hints);
        assert_eq!(scan_by_id(&store, Projection::all(store.table.def())).count(), 9);
        assert_eq!(marked_dead(&store), expected, "{hints:?}");
    }
}
