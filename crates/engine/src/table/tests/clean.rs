//! Entries of dead rows leave without vacuum and without scans.

use std::ops::Bound;

use rightlink_env::points;
use rightlink_env::sync::Mutex;

use super::*;
use crate::heap::FreedByKey;
use crate::table::{IndexBounds, Written};

/// Sets the columns of the row `id` to those of `new`; the row is found in the heap, so that no
/// index is scanned. Returns its new place.
fn change(store: &Store, at: RowId, new: &[Value]) -> RowId {
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let written = store.table.update(&mut statement, at, &mut |_| Ok(Some(new.to_vec()))).unwrap();
    let Written::Done(at) = written else { panic!("{written:?}") };
    txn.commit(true).unwrap();
    at
}

fn pages_and_entries(store: &Store, index: usize) -> (u64, u64) {
    let method = store.table.indexes()[index].method();
    let stats = method.verify(None, &mut |finding| panic!("{finding:?}")).unwrap();
    (stats.leaves, stats.live + stats.dead)
}

/// One row is updated again and again, through an index that is not unique and whose key changes
/// every time, and through one whose key never does: a page of entries each at most, with no vacuum
/// and no scan of any index.
#[test]
fn repeated_updates_of_one_row_keep_a_page_of_entries() {
    let store = Store::new(64, 1);
    let mut at = store.insert(1, "name 0").unwrap();
    let mut most = [0; 3];
    for i in 1..20_000 {
        at = change(&store, at, &item(1, &format!("name {i}")));
        if i % 100 == 0 {
            for (index, most) in most.iter_mut().enumerate() {
                *most = pages_and_entries(&store, index).0.max(*most);
            }
        }
    }
    assert_eq!(most, [1, 1, 1], "leaves of each index");
    assert!(store.table.heap().blocks() <= 4, "{} heap blocks", store.table.heap().blocks());
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    for index in 0..3 {
        let options = IndexScanOptions::new(IndexBounds::all());
        assert_eq!(store.ids_by(&snapshot, index, &options), [1]);
    }
}

/// Random rows of a table get other values in an indexed column, hot rows more often. Nobody scans
/// an index and nobody vacuums: no index grows beyond what a third more entries would take.
#[test]
fn indexes_that_nobody_scans_stay_bounded() {
    let store = Store::new(512, 2);
    let rows: Vec<_> = (0..3000).map(|id| item(id, &format!("n{id}"))).collect();
    let mut ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let before: Vec<u64> = (0..3).map(|index| pages_and_entries(&store, index).0).collect();
    let mut rng = rightlink_env::Rng::from_seed(7);
    for _ in 0..30_000 {
        let id = rng.below(3000).min(rng.below(3000)).min(rng.below(3000)) as usize;
        let name = format!("n{}", rng.below(1 << 40));
        ids[id] = change(&store, ids[id], &item(id as i64, &name));
    }
    for (index, before) in before.iter().enumerate() {
        let (leaves, entries) = pages_and_entries(&store, index);
        assert!(entries <= 3000 * 2, "index {index}: {entries} entries for 3000 rows");
        assert!(leaves <= before * 2 + 2, "index {index}: {leaves} leaves, {before} before");
    }
    // What is still there is what nobody has pruned yet: one vacuum leaves nothing.
    store.vacuum();
    for index in 0..3 {
        assert_eq!(pages_and_entries(&store, index).1, 3000);
    }
}

/// A row, deleted; its root is pruned but its entries are still there.
fn pruned_row() -> (Store, RowId) {
    let store = Store::new(64, 3);
    let ids: Vec<RowId> = (0..10).map(|id| store.insert(id, "x").unwrap()).collect();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let _ = store.table.delete(&mut statement, ids[5], &mut |_| Ok(true)).unwrap();
    drop(statement);
    txn.commit(false).unwrap();
    let dead = store.table.heap().prune_and_queue(ids[5].block).unwrap();
    assert_eq!((dead, store.table.heap().dead_roots()), (1, 1));
    (store, ids[5])
}

#[test]
fn a_cleaning_removes_entries_from_every_index_and_frees_the_row_id() {
    let (store, dead) = pruned_row();
    let cleaned = store.table.clean().unwrap();
    assert_eq!((cleaned.rows, cleaned.entries, cleaned.freed), (1, 3, 1));
    for index in 0..3 {
        assert_eq!(pages_and_entries(&store, index).1, 9);
    }
    assert_eq!(store.insert(5, "again").unwrap(), dead, "the row id is used again");
    assert_eq!(store.table.clean().unwrap().rows, 0);
}

/// Keys are made of columns of indexes: a long value of another column, whose pages are on the disk
/// only, or gone, is not read for them.
#[test]
fn a_cleaning_reads_no_long_values() {
    let mut def = items();
    def.overflow = FileId(72);
    let store = Store::with(def, 64, 3);
    let row = |id| {
        let mut row = item(id, "x");
        row[4] = Value::Bytes(vec![7; 20_000]);
        row
    };
    let rows: Vec<_> = (0..10).map(row).collect();
    let ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let delete = |s: &mut Statement<'_>| {
        store.table.delete_many(s, &ids[..4], None, &mut || Ok(()), &mut |_| ())
    };
    assert_eq!(store.run(delete).unwrap(), 4);
    store.pool.pool.evict_all().unwrap();
    let files = store.pool.disk.files();
    let file = FileId(72).path();
    let (name, len) = files.iter().find(|(name, _)| name.ends_with(&file)).unwrap();
    store.pool.disk.fail_reads_of(name, 0, *len);
    // The leaves are in memory.
    (0..3).for_each(|index| assert_eq!(pages_and_entries(&store, index).1, 10));
    let heap = store.table.heap();
    assert_eq!(heap.prune_and_queue(ids[0].block).unwrap(), 4);
    let cleaned = store.table.clean().unwrap();
    assert_eq!((cleaned.rows, cleaned.entries, cleaned.freed), (4, 12, 4));
    store.pool.disk.clear_faults();
    (0..3).for_each(|index| assert_eq!(pages_and_entries(&store, index).1, 6));
}

/// While a vacuum holds dead row ids, nobody else frees one: it would remove the entries of the
/// next owner.
#[test]
fn beside_a_vacuum_no_row_id_is_freed_by_key() {
    let (store, _) = pruned_row();
    let turn = store.table.heap().freeing();
    let cleaned = store.table.clean().unwrap();
    assert_eq!((cleaned.entries, cleaned.freed), (3, 0));
    drop(turn);
    assert_eq!(store.vacuum(), 1);
}

/// Between pruning and cleaning, vacuum freed the row id and a new row, with the same keys, got it.
fn a_cleaning_does_not_hit_the_next_owner_of_a_row_id() {
    let (store, dead) = pruned_row();
    assert_eq!(store.vacuum(), 1);
    let at = store.insert(5, "x").unwrap();
    assert_eq!(at, dead, "the test is about a row id that is used again");
    assert_eq!(store.table.clean().unwrap().entries, 0);
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    assert_eq!(store.find(&snapshot, 5).unwrap().0, dead);
}

/// A unique key whose row is deleted and inserted again and again: the check of the next insertion
/// takes the entries of dead rows away.
#[test]
fn unique_checks_take_dead_entries_away() {
    let store = Store::new(64, 4);
    for _ in 0..300 {
        let at = store.insert(1, "x").unwrap();
        let gone = store.run(|s| store.table.delete(s, at, &mut |_| Ok(true))).unwrap();
        assert!(matches!(gone, Written::Done(_)));
        assert!(pages_and_entries(&store, 0).1 <= 3);
    }
}

/// A row keeps its unique key and is updated again and again beside an old snapshot, with no
/// vacuum, no scan, and a page of the heap that is pruned now and then: versions that came and went
/// since keep no entries.
#[test]
fn a_key_that_stays_has_few_entries_beside_an_old_snapshot() {
    let store = Store::new(64, 9);
    let mut at = store.insert(1, "name 0").unwrap();
    let held = [0, 300, 1000];
    let (mut old, mut most) = (Vec::new(), 0);
    for i in 1..2000 {
        if held.contains(&(i - 1)) {
            old.push((i - 1, store.begin(Isolation::Snapshot).begin_statement().unwrap()));
        }
        at = change(&store, at, &item(1, &format!("name {i}")));
        most = most.max(pages_and_entries(&store, 0).1);
    }
    // One for each snapshot, the newest, and those since the last time.
    assert!(most <= 3 + 1 + 8, "{most} entries of one key");
    for (i, snapshot) in &old {
        let found = store.find(snapshot, 1).map(|(_, row)| row);
        assert_eq!(found, Some(item(1, &format!("name {i}"))));
    }
}

/// An old snapshot keeps its versions: nothing that it sees is removed, whoever makes room.
#[test]
fn what_an_old_snapshot_sees_stays_in_the_indexes() {
    stays_in_the_indexes();
}

fn stays_in_the_indexes() {
    let store = Store::new(256, 5);
    let rows: Vec<_> = (0..200).map(|id| item(id, &format!("n{id}"))).collect();
    let mut ids = store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let old = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let names = IndexScanOptions::new(IndexBounds::all());
    let expected = store.ids_by(&old, 1, &names);
    let mut rng = rightlink_env::Rng::from_seed(8);
    for _ in 0..5000 {
        let id = rng.index(200);
        let name = format!("n{}", rng.below(1 << 40));
        ids[id] = change(&store, ids[id], &item(id as i64, &name));
    }
    assert_eq!(store.ids_by(&old, 1, &names), expected);
    assert_eq!(store.ids_by(&old, 0, &names), (0..200).collect::<Vec<_>>());
    assert_eq!(store.all(&old), rows);
    drop(old);
    store.vacuum();
    assert_eq!(pages_and_entries(&store, 1).1, 200);
}

/// What died first was freed and used again, and its next owner died, too: the first death does not
/// vouch for the entries of the second.
fn the_first_death_of_a_row_id_frees_no_second_one() {
    let (store, dead) = pruned_row();
    let first = store.table.heap().take_dead_roots();
    assert_eq!(store.vacuum(), 1);
    assert_eq!(store.insert(5, "x").unwrap(), dead);
    let gone = store.run(|s| store.table.delete(s, dead, &mut |_| Ok(true))).unwrap();
    assert!(matches!(gone, Written::Done(_)));
    assert_eq!(store.table.heap().prune_and_queue(dead.block).unwrap(), 1);
    let freed = store.table.heap().free_by_key(&first).unwrap();
    assert_eq!(freed, Some(FreedByKey { freed: 0, recycled: 1 }), "its entries are still there");
}

#[test]
fn deaths_are_told_apart() {
    the_first_death_of_a_row_id_frees_no_second_one();
    a_cleaning_does_not_hit_the_next_owner_of_a_row_id();
}

#[test]
#[cfg(not(feature = "shuttle"))]
fn broken_cleaning_is_caught() {
    use rightlink_env::Broken;
    use rightlink_env::points::caught;
    let first: fn() = the_first_death_of_a_row_id_frees_no_second_one;
    assert_eq!(caught(Broken::FreedWithoutClock, &[("first", first)]), Some("first"));
    let next: fn() = a_cleaning_does_not_hit_the_next_owner_of_a_row_id;
    assert_eq!(caught(Broken::CleanedByKeyWithoutClock, &[("next", next)]), Some("next"));
    let stays: fn() = stays_in_the_indexes;
    assert_eq!(caught(Broken::EveryEndedVersionDead, &[("stays", stays)]), Some("stays"));
}

/// Names of rows.
type Name = fn(i64) -> String;

/// Rows with even ids, as many as a leaf of the first index holds; those that are `dead` are
/// deleted.
fn full_leaf(name: Name, dead: fn(i64) -> bool) -> (Store, u64) {
    let fill = |rows: i64| {
        let store = Store::new(256, 8);
        let items: Vec<_> = (0..rows).map(|id| item(2 * id, &name(id))).collect();
        let ids = store.run(|statement| store.table.insert_many(statement, &items)).unwrap();
        (store, ids)
    };
    let mut rows = 100;
    while pages_and_entries(&fill(rows + 10).0, 0).0 == 1 {
        rows += 10;
    }
    let (store, ids) = fill(rows);
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    for (_, at) in (0..rows).zip(ids).filter(|(id, _)| dead(*id)) {
        let _ = store.table.delete(&mut statement, at, &mut |_| Ok(true)).unwrap();
    }
    drop(statement);
    txn.commit(false).unwrap();
    (store, rows as u64)
}

/// Inserts into the middle of a full leaf; its leaves and entries then, and how often rows were
/// found dead and duplicates put together.
fn press(store: &Store, index: usize, (name, first): (Name, i64)) -> (u64, u64, [usize; 2]) {
    let hits: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let hook = {
        let hits = Arc::clone(&hits);
        points::install_local(move |point| hits.lock().push(point))
    };
    for id in 0..12 {
        store.insert(first + 2 * id, &name(id)).unwrap();
    }
    drop(hook);
    let (leaves, entries) = pages_and_entries(store, index);
    let hits = hits.lock();
    let count = |name| hits.iter().filter(|point| **point == name).count();
    (leaves, entries, ["btree.put.bottom-up", "btree.put.deduplicated"].map(count))
}

/// What a full leaf does before it splits, in this order: rows marked dead leave, and with them
/// their dead neighbours on the same heap pages; then dead rows of the heap pages that most of its
/// rows lie on; then the rows of each key share an item.
#[test]
fn a_full_leaf_makes_room_before_it_splits() {
    let (unique, same): (Name, Name) = (|id| format!("n{id}"), |_| "same".into());
    // Two of the dead rows are marked by a scan.
    let (store, rows) = full_leaf(unique, |id| (20..90).contains(&id));
    let snapshot = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
    let ends = [40, 42].map(|id| Bound::Included(Value::Int8(id)));
    let [first, last] = ends;
    let few = IndexScanOptions::new(IndexBounds::between(Vec::new(), first, last));
    assert!(store.ids_by(&snapshot, 0, &few).is_empty());
    drop(snapshot);
    let method = store.table.indexes()[0].method();
    assert_eq!(method.verify(None, &mut |finding| panic!("{finding:?}")).unwrap().dead, 2);
    let (leaves, entries, hits) = press(&store, 0, (unique, 101));
    assert_eq!((leaves, hits), (1, [1, 0]));
    assert!(entries < rows - 50, "{entries} of {rows}: the neighbours went, too");
    // None is marked.
    let (store, rows) = full_leaf(unique, |id| id % 4 > 0);
    let (leaves, entries, hits) = press(&store, 0, (unique, 101));
    assert_eq!((leaves, hits), (1, [1, 0]));
    assert!(entries < rows - 50, "{entries} of {rows}");
    // None is dead, and all have one key.
    let store = Store::new(64, 8);
    let mut inserted = 0;
    let hits = loop {
        let (leaves, entries, hits) = press(&store, 1, (same, 2 * inserted as i64));
        inserted += 12;
        assert_eq!((leaves, entries), (1, inserted));
        if hits != [0, 0] {
            break hits;
        }
    };
    assert_eq!(hits, [0, 1]);
    // Nothing helps.
    let (store, rows) = full_leaf(unique, |_| false);
    assert_eq!(press(&store, 0, (unique, 101)), (2, rows + 12, [0, 0]));
}
