//! Reads of single rows by their whole keys, and scans that take over from them.

use super::*;
use crate::index::am::FEW;
use crate::table::{IndexBounds, Scan, Written};

/// Rows of which up to seven share a name, in several leaves.
fn store(seed: u64) -> Store {
    let store = Store::new(64, seed);
    let rows: Vec<_> = (0..900).map(|id| item(id, &format!("name {}", shared(id)))).collect();
    store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    store
}

/// Of the triangle numbers up to 28 the one that is not below `id % 28`.
fn shared(id: i64) -> i64 {
    let within = id % 28;
    let group = (1..8).find(|n| within < n * (n + 1) / 2).expect("a triangle number");
    id / 28 * 10 + group
}

fn key_of(id: i64) -> Vec<Value> {
    vec![Value::Text(format!("name {}", shared(id))), item(id, "")[2].clone()]
}

fn rows(scan: Scan) -> Vec<i64> {
    scan.map(|row| as_int(&row.unwrap().values[0])).collect()
}

/// By a key and by a range of that one key the same rows come, and in the same order, also where a
/// scan takes over: where it turns, goes back, or finds many rows.
#[test]
fn a_read_by_key_and_a_scan_agree() {
    let store = store(40);
    let mut txn = store.begin(Isolation::ReadCommitted);
    let snapshot = txn.begin_statement().unwrap();
    let (table, all) = (&store.table, store.table.all_columns());
    let index = &table.indexes()[1];
    let mut counts = std::collections::BTreeSet::new();
    for id in 0..900 {
        let key = key_of(id);
        let options = IndexScanOptions::new(IndexBounds::equal(key.clone()));
        let slow = || table.scan_index(&snapshot, index, Arc::clone(all), &options).unwrap();
        let quick = |limit| table.scan_key(&snapshot, index, all, &key, limit).unwrap();
        let wanted = rows(slow());
        assert!(wanted.contains(&id));
        counts.insert(wanted.len());
        assert_eq!(rows(quick(None)), wanted);
        assert_eq!(rows(quick(Some(2))), wanted[..wanted.len().min(2)]);
        for turn_at in 0..=wanted.len() + 1 {
            let (mut one, mut other) = (quick(None), slow());
            for scan in [&mut one, &mut other] {
                for _ in 0..turn_at {
                    scan.next().unwrap();
                }
                scan.turn().unwrap();
            }
            assert_eq!(rows(one), rows(other), "key of {id}, turned at {turn_at}");
            let mut scan = quick(None);
            (0..turn_at).for_each(|_| drop(scan.next().unwrap()));
            let mark = scan.mark().unwrap();
            scan.next().unwrap();
            scan.restore(&mark).unwrap();
            assert_eq!(rows(scan), wanted[turn_at.min(wanted.len())..]);
        }
    }
    assert!(counts.len() >= 7, "{counts:?}");
    assert_eq!(rows(table.scan_key(&snapshot, index, all, &key_of(9000), None).unwrap()), []);
}

/// Rows of one key up to the most that are read so, one more, and as many as fill a leaf: alike by
/// key and by a scan, under every snapshot of a time when they changed.
#[test]
fn many_rows_of_a_key_are_read_like_few() {
    let store = Store::new(256, 43);
    let name = |count: i64| format!("name {count}");
    let counts = [5, 60, FEW as i64, FEW as i64 + 1, 900];
    for (at, count) in (0..).zip(counts) {
        let rows: Vec<_> = (0..count).map(|n| item(1000 * at + n, &name(count))).collect();
        store.run(|statement| store.table.insert_many(statement, &rows)).unwrap();
    }
    let mut rng = rightlink_env::Rng::from_seed(44);
    let mut held = Vec::new();
    let (table, all) = (&store.table, store.table.all_columns());
    let index = &table.indexes()[1];
    for round in 0..12 {
        let mut txn = store.begin(Isolation::Snapshot);
        let snapshot = txn.begin_statement().unwrap();
        held.push(snapshot);
        for _ in 0..200 {
            let of = rng.index(counts.len());
            let id = 1000 * of as i64 + rng.below(counts[of] as u64) as i64;
            let now = store.begin(Isolation::ReadCommitted).begin_statement().unwrap();
            let Some((row, mut values)) = store.find(&now, id) else { continue };
            drop(now);
            // Some leave the key, some come back to it, some go for good.
            values[3] = Value::Float8(rng.unit_f64());
            values[1] = Value::Text(if rng.chance(1, 3) { name(1) } else { name(counts[of]) });
            let gone = rng.chance(1, 20);
            let written = store.run(|statement| match gone {
                true => table.delete(statement, row, &mut |_| Ok(true)),
                false => table.update(statement, row, &mut |_| Ok(Some(values.clone()))),
            });
            assert!(matches!(written.unwrap(), Written::Done(_)));
        }
        if round % 4 == 3 {
            held.remove(round / 4);
        }
        for (count, snapshot) in counts.iter().flat_map(|n| held.iter().map(move |s| (n, s))) {
            let key = vec![Value::Text(name(*count)), item(0, "")[2].clone()];
            let options = IndexScanOptions::new(IndexBounds::equal(key.clone()));
            let slow = table.scan_index(snapshot, index, Arc::clone(all), &options).unwrap();
            let quick = |limit| table.scan_key(snapshot, index, all, &key, limit).unwrap();
            let wanted = rows(slow);
            assert_eq!(rows(quick(None)), wanted);
            assert_eq!(rows(quick(Some(7))), wanted[..wanted.len().min(7)]);
        }
    }
    store.vacuum();
}

/// A version of before is found by its key, and not by the one that replaced it.
#[test]
fn old_and_new_keys_lead_to_their_own_versions() {
    let store = store(41);
    let mut old = store.begin(Isolation::Snapshot);
    let before = old.begin_statement().unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).unwrap();
    let (row, _) = store.find(&before, 7).unwrap();
    let mut rename = |_: &[Value]| Ok(Some(item(7, "other")));
    let _ = store.table.update(&mut statement, row, &mut rename).unwrap();
    txn.commit(true).unwrap();
    let mut late = store.begin(Isolation::Snapshot);
    let after = late.begin_statement().unwrap();
    let index = &store.table.indexes()[1];
    let new = vec![Value::Text("other".into()), item(7, "")[2].clone()];
    let found = |snapshot: &Arc<Snapshot>, key: &[Value]| {
        let all = store.table.all_columns();
        rows(store.table.scan_key(snapshot, index, all, key, None).unwrap()).contains(&7)
    };
    assert!(found(&before, &key_of(7)) && !found(&before, &new));
    assert!(found(&after, &new) && !found(&after, &key_of(7)));
    let bad = store.table.scan_key(&after, index, store.table.all_columns(), &new[1..], None);
    assert!(bad.is_err(), "a part of the key, of another type");
}

/// Rows that are to be written are looked up on their pages, also where the index holds all that is
/// asked of them, and also if that is nothing.
#[test]
fn rows_to_be_written_are_found_by_their_keys() {
    let store = store(42);
    let mut txn = store.begin(Isolation::ReadCommitted);
    let snapshot = txn.begin_statement().unwrap();
    let (table, index) = (&store.table, &store.table.indexes()[0]);
    let ids = |scan: Scan| scan.map(|row| row.unwrap().row_id).collect::<Vec<_>>();
    for columns in [&[][..], &[0], &[0, 4]] {
        let some = Arc::new(Projection::new(table.def(), columns).unwrap());
        for id in [0, 7, 899, 900] {
            let key = [Value::Int8(id)];
            let scan = |write: bool, limit| match write {
                true => table.scan_key_to_write(&snapshot, index, &some, &key, limit).unwrap(),
                false => table.scan_key(&snapshot, index, &some, &key, limit).unwrap(),
            };
            let wanted: Vec<_> = store.find(&snapshot, id).into_iter().map(|(at, _)| at).collect();
            assert_eq!(wanted.is_empty(), id == 900);
            for write in [false, true] {
                assert_eq!(ids(scan(write, None)), wanted, "{columns:?} of {id}");
                assert_eq!(ids(scan(write, Some(0))), []);
                let values = scan(write, None).next().unwrap().map(|row| row.values.len());
                assert_eq!(values, (id < 900).then_some(columns.len()));
            }
        }
    }
}
