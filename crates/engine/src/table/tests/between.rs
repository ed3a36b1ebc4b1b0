//! Versions between snapshots (R9): an old reader keeps what it sees, not everything since.

use super::*;
use crate::table::{IndexBounds, Written};

fn set_row(store: &Store, id: i64, row: &[Value]) {
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let snapshot = Arc::clone(statement.snapshot());
    let (at, _) = store.find(&snapshot, id).unwrap();
    drop(snapshot);
    let written = store.table.update(&mut statement, at, &mut |_| Ok(Some(row.to_vec()))).unwrap();
    assert!(matches!(written, Written::Done(_)));
    drop(statement);
    txn.commit(true).unwrap();
}

/// The item with another tag or note: `note` is in no index, `name` is in one.
fn version(id: i64, n: i64, indexed: bool) -> Vec<Value> {
    let mut row = item(id, &if indexed { format!("name {n}") } else { "same".to_string() });
    row[4] = Value::Bytes(n.to_le_bytes().repeat(8));
    row
}

fn check(store: &Store, snapshot: &Arc<Snapshot>, rows: &[Vec<Value>]) {
    assert_eq!(store.all(snapshot), rows);
    for (id, row) in rows.iter().enumerate() {
        assert_eq!(&store.find(snapshot, id as i64).unwrap().1, row);
    }
    let mut names = store.ids_by(snapshot, 1, &IndexScanOptions::new(IndexBounds::all()));
    names.sort_unstable();
    assert_eq!(names, (0..rows.len() as i64).collect::<Vec<_>>());
}

/// Rows are updated for ever beside snapshots of several ages. Every snapshot goes on seeing what
/// it saw, by heap and by index, and the heap grows by the rows, not by the updates.
fn hold_old_snapshots(indexed: bool) {
    let store = Store::new(256, 1 + u64::from(indexed));
    let mut rows: Vec<_> = (0..40).map(|id| version(id, 0, indexed)).collect();
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    let mut rng = rightlink_env::Rng::from_seed(3);
    let mut held = Vec::new();
    let mut blocks = Vec::new();
    for n in 1..6000 {
        if [1, 50, 51, 900].contains(&n) {
            let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
            held.push((snapshot, rows.clone()));
        }
        let id = rng.below(40).min(rng.below(40));
        rows[id as usize] = version(id as i64, n, indexed);
        set_row(&store, id as i64, &rows[id as usize]);
        if n % 1000 == 0 {
            held.iter().for_each(|(snapshot, rows)| check(&store, snapshot, rows));
            blocks.push(store.table.heap().blocks());
        }
    }
    println!("heap blocks after every thousand updates: {blocks:?}");
    assert!(blocks[4] <= blocks[1] + 1, "the heap stays as it is: {blocks:?} blocks");
    let mut found = Vec::new();
    store.table.heap().verify(&mut |finding| found.push(finding)).unwrap();
    found.retain(|finding| finding.check != crate::heap::HARMLESS_CHECK);
    assert!(found.is_empty(), "{found:?}");
    // The middle ones go first: what only they saw is between the others then.
    for drop_at in [1, 1, 0] {
        held.remove(drop_at);
        store.vacuum();
        held.iter().for_each(|(snapshot, rows)| check(&store, snapshot, rows));
    }
    drop(held);
    store.vacuum();
    let now = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    check(&store, &now, &rows);
}

#[test]
fn an_old_snapshot_keeps_what_it_sees_and_no_more() {
    hold_old_snapshots(false);
}

#[test]
fn so_it_does_where_an_index_key_changes() {
    hold_old_snapshots(true);
}

/// A read-committed statement whose snapshot is old writes a row that was moved from page to page
/// since: it goes on with the newest version, though those on the way are gone.
fn walks_over_removed_versions() {
    let store = Store::new(256, 5);
    let wide = |n: i64| {
        let mut row = version(0, n, true);
        row[4] = Value::Bytes(vec![n as u8; 3000]);
        row
    };
    store.run(|statement| store.table.insert(statement, wide(0))).unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let snapshot = Arc::clone(statement.snapshot());
    let (at, _) = store.find(&snapshot, 0).unwrap();
    for n in 1..60 {
        set_row(&store, 0, &wide(n));
    }
    for block in 1..store.table.heap().blocks() {
        store.table.heap().prune_and_queue(crate::ids::BlockNo(block)).unwrap();
    }
    store.table.clean().unwrap();
    assert!(store.table.heap().blocks() <= 4, "{} blocks", store.table.heap().blocks());
    let mut seen = Vec::new();
    let written = store.table.update(&mut statement, at, &mut |old| {
        seen.push(old.to_vec());
        Ok(Some(wide(100)))
    });
    assert!(matches!(written, Ok(Written::Done(_))), "{written:?}");
    assert_eq!(seen, [wide(0), wide(59)]);
    drop((statement, snapshot));
    txn.commit(true).unwrap();
    let now = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    assert_eq!(store.all(&now), [wide(100)]);
}

#[test]
fn a_walk_goes_over_removed_versions() {
    walks_over_removed_versions();
}

/// A read-committed statement waits its turn for a row. The version that it found to be the newest
/// leaves before it has the page, and its row id becomes another row's: the statement writes its
/// own row, and that other one stays.
fn meets_another_row_in_the_place() {
    let store = Store::new(64, 7);
    let table = &store.table;
    let [a, b] = [0, 1];
    store.insert(a, "same").unwrap();
    store.insert(b, "same").unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let snapshot = Arc::clone(statement.snapshot());
    let (start, _) = store.find(&snapshot, a).unwrap();
    set_row(&store, a, &version(a, 1, false));
    let mut seen = Vec::new();
    let written = table.update(&mut statement, start, &mut |old| {
        seen.push(old.to_vec());
        if seen.len() == 2 {
            // What was just handed over is replaced, leaves, and its slot is the next that is used.
            set_row(&store, a, &version(a, 2, false));
            table.heap().prune(crate::ids::BlockNo(1)).unwrap();
            set_row(&store, b, &version(b, 3, false));
        }
        Ok(Some(version(a, 4, false)))
    });
    assert!(matches!(written, Ok(Written::Done(_))), "{written:?}");
    assert_eq!(seen, [item(a, "same"), version(a, 1, false), version(a, 2, false)]);
    drop((statement, snapshot));
    txn.commit(true).unwrap();
    let now = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    check(&store, &now, &[version(a, 4, false), version(b, 3, false)]);
}

#[test]
fn a_write_knows_its_version_from_another_in_its_place() {
    meets_another_row_in_the_place();
}

/// What a running transaction wrote, and what a savepoint took back, is between no snapshots.
#[test]
fn versions_of_running_transactions_stay() {
    let store = Store::new(64, 6);
    store.insert(0, "a").unwrap();
    let old = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    for n in 1..5 {
        let savepoint = txn.savepoint();
        let mut statement = Statement::begin(&mut txn).unwrap();
        let snapshot = Arc::clone(statement.snapshot());
        let (at, _) = store.find(&snapshot, 0).unwrap();
        let new = version(0, n, false);
        let _ = store.table.update(&mut statement, at, &mut |_| Ok(Some(new.clone()))).unwrap();
        drop((statement, snapshot));
        if n % 2 == 0 {
            txn.rollback_to(savepoint).unwrap();
        }
        store.table.heap().prune_and_queue(crate::ids::BlockNo(1)).unwrap();
        let own = txn.begin_statement().unwrap();
        let expected = version(0, if n % 2 == 0 { n - 1 } else { n }, false);
        assert_eq!(store.all(&own), [expected]);
        assert_eq!(store.all(&old), [item(0, "a")]);
    }
    txn.rollback();
    assert_eq!(store.find(&old, 0).unwrap().1, item(0, "a"));
}

#[test]
#[cfg(not(feature = "shuttle"))]
fn broken_links_are_caught() {
    use rightlink_env::Broken;
    use rightlink_env::points::caught;
    let plain: fn() = || hold_old_snapshots(false);
    let walk: fn() = walks_over_removed_versions;
    assert_eq!(
        caught(Broken::OldVersionKeepsItsEnd, &[("old snapshots", plain)]),
        Some("old snapshots")
    );
    assert_eq!(caught(Broken::NoForwardingStub, &[("walk", walk)]), Some("walk"));
    let place: fn() = meets_another_row_in_the_place;
    assert_eq!(
        caught(Broken::VersionNotIdentified, &[("another row", place)]),
        Some("another row")
    );
}
