//! Schedules of scans, inserts, splits, squeezes and vacuum on an index of a few tiny pages (R5,
//! R6, R8).
//!
//! See `schedules` for how worlds are run. Rows at and above block [`DEAD`] are garbage that vacuum
//! takes out; rows of slot [`STABLE`] stay from first to last.

use rightlink_env::Broken;
use rightlink_env::thread::{self, JoinHandle};

use crate::buffer::testing::{self, TestPool};
use crate::ids::{FileId, RowId, Xid};
use crate::index::am::{AccessMethod, HeapOracle, IndexEntry, InsertOutcome, Liveness, NamedPage};
use crate::index::hash::{HashIndex, HashOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, InsertBatch, verify_clean};
use crate::schedules::{Case, catches, survives};

const FILE: FileId = FileId(70);
/// Blocks from here on hold dead rows.
const DEAD: u32 = 1_000_000;
/// Slot of the rows that stay.
const STABLE: u16 = 1;
/// Rows of one key that fill three pages, and those on the first two.
const CHAIN: u32 = 12;
const KEPT: u32 = 8;

type Entry = (Vec<u8>, RowId);

/// An empty index whose pages take a handful of entries.
fn index() -> (TestPool, HashIndex) {
    let test = testing::pool(64, 1);
    test.pool.create_file(FILE, true).expect("an empty disk");
    let options = HashOptions { capacity: 256, ..HashOptions::default() };
    let index = HashIndex::create(&test.pool, FILE, options).expect("space");
    (test, index)
}

/// A key of which four or five fill a page.
fn key(n: u64) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    key.extend([0x55; 20]);
    key
}

fn stable(n: u64) -> Entry {
    (key(n), RowId::new(n as u32, STABLE))
}

fn dead(n: u64) -> Entry {
    (key(n), RowId::new(DEAD + n as u32, 9))
}

fn fresh(n: u64) -> Entry {
    (key(n), RowId::new(n as u32, 2))
}

fn entries(range: std::ops::Range<u64>, make: fn(u64) -> Entry) -> Vec<Entry> {
    range.map(make).collect()
}

fn vacuum(index: &HashIndex) {
    suite::vacuum(index, &|row| row.block.0 >= DEAD);
}

fn start<T: Send + 'static>(
    index: &HashIndex,
    work: impl FnOnce(&HashIndex) -> T + Send + 'static,
) -> JoinHandle<T> {
    let index = index.clone();
    thread::spawn("explores", move || work(&index))
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

/// All entries of a scan, which must come in order and once.
fn scan(index: &HashIndex) -> Vec<Entry> {
    let found = suite::scan(index, KeyRange::all(), Direction::Forward);
    let place = |(key, row): &Entry| (index.method().place(key), *row);
    assert!(found.is_sorted_by(|a, b| place(a) < place(b)), "in order, nothing twice");
    found
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort();
    entries
}

fn scans_for(index: &HashIndex, stay: &[Entry]) {
    let seen = scan(index).into_iter().filter(|(_, row)| row.slot == STABLE).collect();
    assert!(sorted(seen) == stay, "a scan sees every entry that stays");
}

/// Scans beside inserts that split pages.
fn scans_beside_splits() {
    let (_pool, index) = index();
    let stay = entries(0..12, stable);
    suite::insert(&index, &stay);
    let expected = stay.clone();
    let reader = start(&index, move |index| scans_for(index, &expected));
    let writer = start(&index, |index| suite::insert(index, &entries(100..114, fresh)));
    join([reader, writer]);
    assert_eq!(scan(&index).len(), 26);
    verify_clean(&index);
}

/// Scans and lookups beside vacuum, squeezes and the reuse of pages.
fn scans_beside_squeezes() {
    let (_pool, index) = index();
    let stay = entries(0..6, stable);
    suite::insert(&index, &stay);
    suite::insert(&index, &entries(10..26, dead));
    let expected = stay.clone();
    let reader = start(&index, move |index| scans_for(index, &expected));
    let looker = start(&index, |index| {
        for n in [1, 4] {
            let (key, row) = stable(n);
            let mut found = Vec::new();
            index.lookup(&[&key], &mut |_, row, _| found.push(row)).expect("a sound index");
            assert_eq!(found, [row]);
        }
    });
    let writer = start(&index, |index| {
        vacuum(index);
        suite::insert(index, &entries(100..112, fresh));
    });
    join([reader, looker, writer]);
    verify_clean(&index);
}

/// Inserts that split one another's pages; both find their page by a guess.
fn inserts_beside_splits() {
    let (_pool, index) = index();
    suite::insert(&index, &entries(0..8, stable));
    let writer = |from: u64| {
        start(&index, move |index| {
            let fresh = entries(from..from + 8, fresh);
            let mut batch: Vec<_> =
                fresh.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
            index.order(&mut batch);
            let groups: Vec<_> =
                index.groups(&batch, false).map(|group| group.expect("in memory")).collect();
            for group in groups {
                let page = index.0.pool.pin(group.page).expect("in memory");
                let entries = &batch[group.entries];
                let outcome = index.insert_group(
                    Xid(5),
                    entries,
                    None,
                    Some(NamedPage { pin: page, link: group.link }),
                );
                assert_eq!(outcome.expect("a sound index"), InsertOutcome::Inserted);
            }
        })
    };
    join([writer(100), writer(200)]);
    assert_eq!(scan(&index).len(), 24);
    verify_clean(&index);
}

/// Inserts that split pages while vacuum passes: what was dead before is gone after.
fn vacuum_beside_splits() {
    let (_pool, index) = index();
    suite::insert(&index, &entries(0..16, dead));
    suite::insert(&index, &entries(20..26, stable));
    let writer = start(&index, |index| suite::insert(index, &entries(100..112, fresh)));
    let vacuum = start(&index, vacuum);
    join([writer, vacuum]);
    let left = sorted(scan(&index));
    let kept: Vec<_> =
        entries(20..26, stable).into_iter().chain(entries(100..112, fresh)).collect();
    assert!(left == sorted(kept), "vacuum leaves {} entries", left.len());
    verify_clean(&index);
}

/// Rows of dead blocks are dead, all others live.
struct Oracle;

impl HeapOracle for Oracle {
    fn liveness(&self, rows: &[RowId], out: &mut [Liveness]) {
        for (row, out) in rows.iter().zip(out) {
            *out = if row.block.0 >= DEAD { Liveness::Dead } else { Liveness::Live };
        }
    }
}

/// Of two rows with one key one gets in, beside dead entries of the key.
fn one_wins(dead_entries: u32) {
    let (_pool, index) = index();
    suite::insert(&index, &[stable(6)]);
    let garbage: Vec<_> =
        (0..dead_entries).map(|i| (key(7), RowId::new(DEAD + i, STABLE))).collect();
    suite::insert(&index, &garbage);
    let inserter = |block| {
        start(&index, move |index| {
            let key = key(7);
            let mut batch = [IndexEntry::new(&key, RowId::new(block, 2))];
            index.insert_batch(Xid(5), &mut batch, Some(&Oracle)).expect("a sound index")
        })
    };
    let outcomes = join([inserter(3), inserter(DEAD - 1)]);
    let won = outcomes.iter().filter(|outcome| **outcome == InsertOutcome::Inserted).count();
    assert_eq!(won, 1, "{outcomes:?}");
    verify_clean(&index);
}

fn unique() {
    one_wins(0);
}

fn unique_over_pages() {
    one_wins(9);
}

/// A unique key's chain of pages is walked while vacuum squeezes its last page into the one before.
/// The rows of the other pages died too late for this vacuum, so that those stay as they are.
fn unique_beside_squeezes() {
    let (_pool, index) = index();
    let row = |i| (key(7), RowId::new(DEAD + i, STABLE));
    suite::insert(&index, &(0..CHAIN).map(row).collect::<Vec<_>>());
    let inserter = start(&index, |index| {
        for block in 1..=3 {
            let key = key(7);
            let entry = IndexEntry::new(&key, RowId::new(block, 2));
            let outcome = index.insert_batch(Xid(5), &mut [entry], Some(&Oracle));
            assert_eq!(outcome.expect("a sound index"), InsertOutcome::Inserted);
            assert!(index.delete(Xid(5), &entry).expect("a sound index"));
        }
    });
    let vacuum = start(&index, |index| {
        suite::vacuum(index, &|row| row.block.0 >= DEAD + KEPT);
    });
    join([inserter, vacuum]);
    assert_eq!(scan(&index).len(), KEPT as usize);
    verify_clean(&index);
}

#[test]
fn hash_scans_miss_nothing() {
    survives("hash scans beside splits", scans_beside_splits, 500);
    survives("hash scans beside squeezes", scans_beside_squeezes, 500);
}

#[test]
fn hash_inserts_find_their_page() {
    survives("hash inserts beside splits", inserts_beside_splits, 500);
}

#[test]
fn hash_vacuum_passes_nothing_by() {
    survives("hash vacuum beside splits", vacuum_beside_splits, 500);
}

#[test]
fn a_unique_hash_key_is_won_once() {
    survives("hash unique", unique, 500);
    survives("hash unique over pages", unique_over_pages, 500);
    survives("hash unique beside squeezes", unique_beside_squeezes, 500);
}

#[test]
fn broken_hash_indexes_are_caught() {
    catches(&[
        Case { rule: Broken::HashLinkNotChecked, world: scans_beside_squeezes, within: 4000 },
        Case { rule: Broken::HashPageNotRechecked, world: inserts_beside_splits, within: 2000 },
        Case { rule: Broken::HashVerdictNotRepeated, world: vacuum_beside_splits, within: 4000 },
        Case { rule: Broken::HashUniqueLatchReleased, world: unique, within: 2000 },
        Case { rule: Broken::HashWalkWithoutCoupling, world: unique_beside_squeezes, within: 4000 },
    ]);
}
