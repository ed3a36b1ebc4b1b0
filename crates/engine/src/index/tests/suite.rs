//! Tests that any access method must pass, through its public interface.
//!
//! Does not do: look inside; what is particular to a method is tested beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rightlink_env::Rng;

use crate::buffer::BufferPool;
use crate::ids::{RowId, Xid};
use crate::index::am::{
    AccessMethod, Group, HeapOracle, IndexEntry, InsertOutcome, LeafBatch, Liveness, NamedPage,
    ScanOptions, Trace, VacuumStats,
};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::{IndexMethod, IndexOptions};

/// Entries of a model, in index order.
pub(crate) type Model = BTreeSet<(Vec<u8>, RowId)>;

/// Makes a random prefix-free key.
pub(crate) type MakeKey = fn(&mut Rng) -> Vec<u8>;

/// All entries of a model, in the method's order.
fn ordered(am: &dyn AccessMethod, model: &Model) -> Vec<(Vec<u8>, RowId)> {
    let mut entries: Vec<_> = model.iter().cloned().collect();
    entries.sort_by_cached_key(|(key, row)| (am.method().place(key), *row));
    entries
}

/// The directions that the method can scan in.
fn directions(am: &dyn AccessMethod) -> &'static [Direction] {
    match am.method().is_ordered() {
        true => &[Direction::Forward, Direction::Backward],
        false => &[Direction::Forward],
    }
}

/// What a scan of `range` hands over.
pub(crate) fn scan(
    am: &dyn AccessMethod,
    range: KeyRange,
    direction: Direction,
) -> Vec<(Vec<u8>, RowId)> {
    let mut scan = am.begin_scan(range, ScanOptions { direction, ..ScanOptions::default() });
    let mut batch = LeafBatch::default();
    let mut out = Vec::new();
    while scan.next_batch(&|| 7, &mut batch).unwrap() {
        assert!(!batch.is_empty() && batch.sample == 7);
        out.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
    }
    assert!(!scan.next_batch(&|| 7, &mut batch).unwrap(), "a scan that has ended stays ended");
    out
}

/// No finding, please.
pub(crate) fn verify_clean(am: &dyn AccessMethod) -> crate::index::am::VerifyStats {
    let mut findings = Vec::new();
    let stats = am.verify(None, &mut |finding| findings.push(finding)).unwrap();
    assert!(findings.is_empty(), "{findings:#?}");
    stats
}

/// Insertion of a whole batch, as a table does it.
pub(crate) trait InsertBatch: AccessMethod {
    /// Orders `entries` and inserts them group by group.
    fn insert_batch(
        &self,
        xid: Xid,
        entries: &mut [IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
    ) -> crate::Result<InsertOutcome> {
        self.order(entries);
        for group in self.groups(entries, unique.is_some()) {
            let Group { page, link, entries: range } = group?;
            let page = NamedPage { pin: self.pool().pin(page)?, link };
            let before = range.start;
            match self.insert_group(xid, &entries[range], unique, Some(page))? {
                InsertOutcome::Inserted => {}
                InsertOutcome::Duplicate(at, row) => {
                    return Ok(InsertOutcome::Duplicate(before + at, row));
                }
                InsertOutcome::Wait(at, xid) => return Ok(InsertOutcome::Wait(before + at, xid)),
                InsertOutcome::NeedsRow(at, row) => {
                    return Ok(InsertOutcome::NeedsRow(before + at, row));
                }
            }
        }
        Ok(InsertOutcome::Inserted)
    }
}

impl<M: AccessMethod + ?Sized> InsertBatch for M {}

/// Inserts, in one batch, without uniqueness.
pub(crate) fn insert(am: &dyn AccessMethod, entries: &[(Vec<u8>, RowId)]) {
    let mut batch: Vec<IndexEntry<'_>> =
        entries.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
    let outcome = am.insert_batch(Xid(5), &mut batch, None).unwrap();
    assert_eq!(outcome, InsertOutcome::Inserted);
}

/// Inserts entries of rows that take the place of versions, as one batch.
pub(crate) fn insert_versions(am: &dyn AccessMethod, entries: &[(Vec<u8>, RowId)]) {
    let mut batch: Vec<IndexEntry<'_>> = entries
        .iter()
        .map(|(key, row)| IndexEntry { replaces: true, ..IndexEntry::new(key, *row) })
        .collect();
    let outcome = am.insert_batch(Xid(5), &mut batch, None).unwrap();
    assert_eq!(outcome, InsertOutcome::Inserted);
}

/// Removes the entries of all rows that are `dead`.
pub(crate) fn vacuum(am: &dyn AccessMethod, dead: &dyn Fn(&RowId) -> bool) -> VacuumStats {
    let mut judge = |rows: &[RowId], out: &mut [bool]| {
        rows.iter().zip(out).for_each(|(row, out)| *out = dead(row));
    };
    am.bulk_delete(&mut judge).unwrap()
}

/// The whole index, in each direction, is the model.
pub(crate) fn same(am: &dyn AccessMethod, model: &Model) {
    let expected = ordered(am, model);
    for direction in directions(am) {
        let mut found = scan(am, KeyRange::all(), *direction);
        if *direction == Direction::Backward {
            found.reverse();
        }
        assert!(found == expected, "{direction:?}: {} of {} entries", found.len(), expected.len());
    }
}

/// Marks the entries of all rows that are `dead`; how many were not marked yet.
pub(crate) fn mark(am: &dyn AccessMethod, dead: &dyn Fn(RowId) -> bool) -> usize {
    let mut scan = am.begin_scan(KeyRange::all(), ScanOptions::default());
    let (mut batch, mut marked) = (LeafBatch::default(), 0);
    while scan.next_batch(&|| 0, &mut batch).unwrap() {
        let all: Vec<usize> = (0..batch.len()).collect();
        marked += am.mark_dead(&batch, &all, false, &mut |row| dead(row)).made as usize;
    }
    marked
}

/// A lookup of each key alone, and its few rows where the method tells them, are the model.
pub(crate) fn each_key(am: &dyn AccessMethod, model: &Model) {
    let keys: BTreeSet<&[u8]> = model.iter().map(|(key, _)| key.as_slice()).collect();
    for key in keys {
        let equal = || model.iter().filter(|(k, _)| k == key).map(|(_, row)| *row);
        let mut found = BTreeSet::new();
        am.lookup(&[key], &mut |_, row, _| assert!(found.insert(row), "row {row} twice")).unwrap();
        assert!(found.iter().copied().eq(equal()), "{key:?}: {found:?}");
        if let Some(few) = am.few(key).unwrap() {
            assert!(few.rows().iter().copied().eq(equal()), "{key:?}: {:?}", few.rows());
        }
    }
}

fn random_bound(am: &dyn AccessMethod, rng: &mut Rng, make: MakeKey) -> Bound<Vec<u8>> {
    let mut place = am.method().place(&make(rng));
    if rng.chance(1, 3) {
        place.truncate(rng.index(place.len() + 1));
    }
    match rng.index(4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(place),
        _ => Bound::Included(place),
    }
}

fn random_ranges(am: &dyn AccessMethod, model: &Model, rng: &mut Rng, make: MakeKey) {
    let entries = ordered(am, model);
    for _ in 0..20 {
        let (low, high) = (random_bound(am, rng, make), random_bound(am, rng, make));
        let range =
            KeyRange::between(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        let inside = |(key, _): &&(Vec<u8>, RowId)| range.contains(&am.method().place(key));
        let mut expected: Vec<_> = entries.iter().filter(inside).cloned().collect();
        for direction in directions(am) {
            assert_eq!(scan(am, range.clone(), *direction), expected, "{low:?} {high:?}");
            expected.reverse();
        }
    }
}

/// A scan that goes back to the middle of each batch, or starts anew beyond it, misses nothing and
/// hands out nothing twice.
pub(crate) fn interrupted_scans(am: &dyn AccessMethod, make: MakeKey) {
    let mut rng = Rng::from_seed(21);
    let mut model = Model::new();
    while model.len() < 400 {
        model.insert((make(&mut rng), RowId::new(rng.below(1 << 20) as u32, 1)));
    }
    insert(am, &model.iter().cloned().collect::<Vec<_>>());
    for direction in directions(am) {
        let options = ScanOptions { direction: *direction, ..ScanOptions::default() };
        let mut scan = am.begin_scan(KeyRange::all(), options);
        let (mut batch, mut found) = (LeafBatch::default(), Vec::new());
        while scan.next_batch(&|| 0, &mut batch).unwrap() {
            if batch.len() > 1 && rng.chance(1, 2) {
                let keep = 1 + rng.index(batch.len() - 1);
                scan.hand_back(&mut batch, keep);
                assert_eq!(batch.len(), keep);
            }
            found.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
            match rng.index(3) {
                0 => scan.restart(batch.beyond(&KeyRange::all(), *direction)),
                1 => scan = am.begin_scan(batch.beyond(&KeyRange::all(), *direction), options),
                _ => {}
            }
        }
        if *direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found, ordered(am, &model));
    }
}

/// Lists of keys, some of them not there, and keys alone; then once more, beside marked entries.
pub(crate) fn lookups(am: &dyn AccessMethod, make: MakeKey) {
    let mut rng = Rng::from_seed(31);
    let mut model = Model::new();
    while model.len() < 500 {
        model.insert((make(&mut rng), RowId::new(rng.below(1 << 20) as u32, 1)));
    }
    insert(am, &model.iter().cloned().collect::<Vec<_>>());
    lists_of_keys(am, &model, &mut rng, make);
    let dead = |row: RowId| row.block.0.is_multiple_of(3);
    assert!(mark(am, &dead) > 100, "enough rows are marked");
    model.retain(|(_, row)| !dead(*row));
    lists_of_keys(am, &model, &mut rng, make);
}

fn lists_of_keys(am: &dyn AccessMethod, model: &Model, rng: &mut Rng, make: MakeKey) {
    for size in [1, 2, 30, 200] {
        let keys: BTreeSet<Vec<u8>> = (0..size).map(|_| make(rng)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found = Model::new();
        am.lookup(&keys, &mut |at, row, payload| {
            assert!(payload.is_empty() && found.insert((keys[at].to_vec(), row)), "each once");
        })
        .unwrap();
        let wanted = |(key, _): &&(Vec<u8>, RowId)| keys.contains(&key.as_slice());
        assert_eq!(found, model.iter().filter(wanted).cloned().collect());
        for key in keys {
            let equal: Vec<_> = model.iter().filter(|(k, _)| k == key).cloned().collect();
            let range = KeyRange::starting_with(&am.method().place(key));
            assert_eq!(scan(am, range, Direction::Forward), equal);
        }
    }
    each_key(am, model);
}

/// A random history against a model: batches, single deletions, vacuums, scans of every kind.
pub(crate) fn random_history(am: &dyn AccessMethod, seed: u64, make: MakeKey, rounds: usize) {
    let mut rng = Rng::from_seed(seed);
    let mut model = Model::new();
    for round in 0..rounds {
        match rng.index(10) {
            0..=5 => {
                let count = 1 + rng.index(60);
                let mut batch = Vec::new();
                for _ in 0..count {
                    let key = match model.iter().nth(rng.index(model.len().max(1))) {
                        Some((key, _)) if rng.chance(1, 4) => key.clone(),
                        _ => make(&mut rng),
                    };
                    batch.push((
                        key,
                        RowId::new(rng.below(1 << 20) as u32, 1 + rng.index(9) as u16),
                    ));
                }
                insert(am, &batch);
                model.extend(batch);
            }
            6 | 7 => {
                for _ in 0..rng.index(30) {
                    let Some(entry) = model.iter().nth(rng.index(model.len().max(1))).cloned()
                    else {
                        break;
                    };
                    let gone = IndexEntry::new(&entry.0, entry.1);
                    assert!(am.delete(Xid(5), &gone).unwrap());
                    assert!(!am.delete(Xid(5), &gone).unwrap());
                    model.remove(&entry);
                }
            }
            8 => {
                // Sometimes a few rows, sometimes whole ranges of the tree.
                let (mask, few) = (rng.below(8), rng.chance(1, 2));
                let dead = |row: &RowId| {
                    if few { u64::from(row.block.0) % 8 == mask } else { row.slot != 3 }
                };
                let before = model.len();
                model.retain(|(_, row)| !dead(row));
                let stats = vacuum(am, &dead);
                assert_eq!(stats.removed as usize, before - model.len());
            }
            _ => random_ranges(am, &model, &mut rng, make),
        }
        if round % 16 == 0 {
            same(am, &model);
            verify_clean(am);
        }
    }
    same(am, &model);
    verify_clean(am);
}

/// The groups of a batch name pages for all of its entries, in order; inserted group by group, with
/// the page that was named, with any other page or with none, the batch is in.
pub(crate) fn groups_of_a_batch(am: &dyn AccessMethod, pool: &BufferPool, make: MakeKey) {
    let mut rng = Rng::from_seed(11);
    let mut model = Model::new();
    for size in [1, 3, 40, 400, 900, 5] {
        let mut fresh = Model::new();
        while fresh.len() < size {
            fresh.insert((make(&mut rng), RowId::new(rng.below(1 << 20) as u32, 1)));
        }
        let fresh: Vec<_> = fresh.difference(&model).cloned().collect();
        let mut batch: Vec<_> = fresh.iter().map(|(k, row)| IndexEntry::new(k, *row)).collect();
        rng.shuffle(&mut batch);
        am.order(&mut batch);
        let mut upto = 0;
        let mut before = None;
        for group in am.groups(&batch, false) {
            let group = group.unwrap();
            assert_eq!(group.entries.start, upto, "no gaps");
            assert!(group.entries.end > upto && group.entries.end <= batch.len());
            upto = group.entries.end;
            let named = pool.pin(group.page).unwrap();
            let page = match rng.index(4) {
                0 => None,
                1 => before.take().map(|pin| NamedPage { pin, link: group.link }),
                _ => Some(NamedPage { pin: pool.pin(group.page).unwrap(), link: group.link }),
            };
            before = Some(named);
            let entries = &batch[group.entries];
            let outcome = am.insert_group(Xid(5), entries, None, page).unwrap();
            assert_eq!(outcome, InsertOutcome::Inserted);
        }
        assert_eq!(upto, batch.len(), "every entry is in a group");
        model.extend(fresh.iter().cloned());
        same(am, &model);
    }
    verify_clean(am);
}

/// Payload comes back with its entry, and nothing else does.
pub(crate) fn payload_round_trip(am: &dyn AccessMethod) {
    let keys: Vec<[u8; 4]> = (0..500u32).map(u32::to_be_bytes).collect();
    let payloads: Vec<Vec<u8>> = (0..500usize).map(|i| vec![i as u8; i % 200]).collect();
    let mut entries: Vec<_> = (0..500)
        .map(|i| IndexEntry {
            payload: &payloads[i],
            ..IndexEntry::new(&keys[i], RowId::new(i as u32, 1))
        })
        .collect();
    assert_eq!(am.insert_batch(Xid(5), &mut entries, None).unwrap(), InsertOutcome::Inserted);
    let mut scan = am.begin_scan(KeyRange::all(), ScanOptions::default());
    let (mut batch, mut seen) = (LeafBatch::default(), BTreeSet::new());
    while scan.next_batch(&|| 0, &mut batch).unwrap() {
        for i in 0..batch.len() {
            let at = batch.entries[i].row.block.0 as usize;
            assert_eq!(batch.payload(i), payloads[at]);
            assert_eq!(batch.key(i), keys[at]);
            assert!(seen.insert(at));
        }
    }
    assert_eq!(seen.len(), 500);
}

/// A heap of which a test says what lives.
#[derive(Default)]
pub(crate) struct Heap(pub(crate) BTreeMap<RowId, Liveness>);

impl HeapOracle for Heap {
    fn liveness(&self, rows: &[RowId], out: &mut [Liveness]) {
        assert_eq!(rows.len(), out.len());
        for (row, out) in rows.iter().zip(out) {
            *out = self.0.get(row).copied().unwrap_or(Liveness::Live);
        }
    }
}

fn try_unique(am: &dyn AccessMethod, heap: &Heap, keys: &[(&[u8], RowId)]) -> InsertOutcome {
    let mut batch: Vec<_> = keys.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
    am.insert_batch(Xid(5), &mut batch, Some(heap)).unwrap()
}

/// Every outcome of a unique insertion, with few and with many leaves of equal keys.
pub(crate) fn unique_outcomes(am: &dyn AccessMethod, dead_rows: u32) {
    let mut heap = Heap::default();
    let (key, row): (&[u8], RowId) = (b"key\0", RowId::new(70_000, 1));
    let dead: Vec<_> = (0..dead_rows).map(|n| (key.to_vec(), RowId::new(n * 3, 1))).collect();
    dead.iter().for_each(|(_, row)| {
        heap.0.insert(*row, Liveness::Dead);
    });
    insert(am, &dead);
    let neighbours = [(b"kex\0".to_vec(), row), (b"kez\0".to_vec(), row)];
    insert(am, &neighbours);
    // Dead rows do not count; the entry goes between them.
    let between = RowId::new(dead_rows / 2 * 3 + 1, 2);
    assert_eq!(try_unique(am, &heap, &[(key, between)]), InsertOutcome::Inserted);
    for (state, expected) in [
        (Liveness::Live, InsertOutcome::Duplicate(0, between)),
        (Liveness::InProgress(Xid(9)), InsertOutcome::Wait(0, Xid(9))),
        (Liveness::NeedsRead, InsertOutcome::NeedsRow(0, between)),
    ] {
        heap.0.insert(between, state);
        for other in [RowId::new(0, 9), row, RowId::new(u32::MAX, 9)] {
            assert_eq!(try_unique(am, &heap, &[(key, other)]), expected);
        }
    }
    // What comes before the offender in the method's order is in.
    let keys: [&[u8]; 3] = [b"aaa\0", key, b"zzz\0"];
    let mut batch = keys.map(|key| IndexEntry::new(key, row));
    am.order(&mut batch);
    let offender = batch.iter().position(|entry| entry.key == key).unwrap();
    let outcome = try_unique(am, &heap, &keys.map(|key| (key, row)));
    assert_eq!(outcome, InsertOutcome::NeedsRow(offender, between));
    assert_eq!(outcome.inserted(3), offender);
    let whole = |key: &[u8]| KeyRange::starting_with(&am.method().place(key));
    let inside = |key: &[u8]| scan(am, whole(key), Direction::Forward).len();
    for (at, entry) in batch.iter().enumerate().filter(|(at, _)| *at != offender) {
        assert_eq!(inside(entry.key), usize::from(at < offender));
    }
    // An exempt entry is not checked; nor is any entry of an index that is not unique.
    let mut exempt = [IndexEntry { exempt: true, ..IndexEntry::new(key, row) }];
    assert_eq!(am.insert_batch(Xid(5), &mut exempt, Some(&heap)).unwrap(), InsertOutcome::Inserted);
    // Two equal keys in one batch: the second meets the first.
    let pair = [(&b"two\0"[..], RowId::new(1, 1)), (b"two\0", RowId::new(2, 1))];
    assert_eq!(try_unique(am, &heap, &pair), InsertOutcome::Duplicate(1, RowId::new(1, 1)));
    verify_clean(am);
    // The same entry once more is no duplicate of itself.
    heap.0.insert(RowId::new(1, 1), Liveness::Live);
    assert_eq!(try_unique(am, &heap, &pair[..1]), InsertOutcome::Inserted);
}

/// Dead marks: set for what is there and passes the check, wherever it has moved; scans leave them
/// out.
pub(crate) fn dead_marks(am: &dyn AccessMethod, make: MakeKey) {
    let mut rng = Rng::from_seed(3);
    let mut model = Model::new();
    while model.len() < 300 {
        model.insert((make(&mut rng), RowId::new(model.len() as u32, 1)));
    }
    insert(am, &model.iter().cloned().collect::<Vec<_>>());
    let mut scan_all = am.begin_scan(KeyRange::all(), ScanOptions::default());
    let (mut batch, mut batches) = (LeafBatch::default(), Vec::new());
    while scan_all.next_batch(&|| 0, &mut batch).unwrap() {
        batches.push(batch.clone());
    }
    // The leaves fill up and split between the read and the marks.
    let more: Vec<_> = (0..600).map(|n| (make(&mut rng), RowId::new(10_000 + n, 1))).collect();
    insert(am, &more);
    model.extend(more);
    let mut marked = 0;
    for batch in &batches {
        let all: Vec<usize> = (0..batch.len()).collect();
        let marks = am.mark_dead(batch, &all, false, &mut |row| row.block.0 % 2 == 0);
        marked += marks.made as usize;
    }
    assert!(marked > 50, "{marked} marks were set");
    let left = scan(am, KeyRange::all(), Direction::Forward);
    assert_eq!(left.len(), model.len() - marked);
    assert!(left.iter().all(|entry| model.contains(entry)));
    verify_clean(am);
    // A marked entry that is inserted again is no longer dead.
    let back: Vec<_> = model.iter().filter(|entry| !left.contains(entry)).cloned().collect();
    assert!(back.iter().all(|(_, row)| row.block.0 % 2 == 0));
    insert(am, &back);
    same(am, &model);
}

/// A bulk build gives the index that insertion gives, and one that can be changed.
pub(crate) fn builds(method: IndexMethod, make: MakeKey, size: usize) {
    let test = crate::buffer::testing::pool(512, 9);
    let file = crate::ids::FileId(71);
    test.pool.create_file(file, true).unwrap();
    let mut rng = Rng::from_seed(size as u64);
    let mut model = Model::new();
    while model.len() < size {
        model.insert((make(&mut rng), RowId::new(rng.below(1 << 20) as u32, 1)));
    }
    let mut entries: Vec<_> = model.iter().cloned().collect();
    entries.sort_by_cached_key(|(key, row)| (method.place(key), *row));
    let options = IndexOptions { deduplicate: true };
    let mut builder = method.builder(&test.pool, file, options).unwrap();
    for (key, row) in &entries {
        builder.push(&IndexEntry::new(key, *row)).unwrap();
    }
    let am = builder.finish().unwrap();
    assert!(am.method() == method);
    same(&*am, &model);
    verify_clean(&*am);
    let more: Vec<_> = (0..300).map(|n| (make(&mut rng), RowId::new(1 << 21, 1 + n))).collect();
    insert(&*am, &more);
    model.extend(more);
    same(&*am, &model);
    verify_clean(&*am);
}

/// Entries leave by key and row id: those that the check admits, if they are there.
pub(crate) fn removals_by_key(am: &dyn AccessMethod, make: MakeKey) {
    let mut rng = Rng::from_seed(41);
    let mut model = Model::new();
    while model.len() < 600 {
        model.insert((make(&mut rng), RowId::new(rng.below(1 << 20) as u32, 1)));
    }
    insert(am, &model.iter().cloned().collect::<Vec<_>>());
    let mut wanted: Vec<_> =
        model.iter().filter(|(_, row)| row.block.0.is_multiple_of(2)).cloned().collect();
    wanted.extend((0..50).map(|n| (make(&mut rng), RowId::new(n, 7))));
    let mut entries: Vec<_> = wanted.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
    am.order(&mut entries);
    let admitted = |row: RowId| row.block.0.is_multiple_of(4);
    let mut traces = vec![Trace::Unknown; entries.len()];
    let removed = am.remove_dead(&entries, true, &mut |row| admitted(row), &mut traces).unwrap();
    let before = model.clone();
    model.retain(|(_, row)| !admitted(*row));
    assert_eq!(removed as usize, before.len() - model.len());
    for (entry, trace) in entries.iter().zip(&traces) {
        let pair = (entry.key.to_vec(), entry.row);
        let wanted = match (before.contains(&pair), model.contains(&pair)) {
            (true, true) => Trace::Unknown,
            (true, false) => Trace::Removed,
            (false, _) => Trace::Absent,
        };
        assert_eq!(*trace, wanted, "{entry:?}");
    }
    let again = am.remove_dead(&entries, true, &mut |row| admitted(row), &mut traces).unwrap();
    assert_eq!(again, 0);
    assert!(!traces.contains(&Trace::Removed), "nothing is removed twice");
    same(am, &model);
    verify_clean(am);
}

/// Keys as large as they may be, and one byte more.
pub(crate) fn largest_keys(am: &dyn AccessMethod, limit: usize) {
    let mut rng = Rng::from_seed(11);
    let mut model = Model::new();
    for n in 0..120u32 {
        // Long common beginnings of several groups, some keys short.
        let mut key = vec![b'a' + rng.index(4) as u8; limit];
        let at = limit - 1 - rng.index(3) * rng.index(limit / 3);
        key[at] = rng.next_u64() as u8;
        key[limit - 1] = n as u8;
        if rng.chance(1, 5) {
            key = vec![b'a' + rng.index(4) as u8, 0, n as u8, 0];
        }
        model.insert((key, RowId::new(n, 1)));
    }
    let mut order: Vec<_> = model.iter().cloned().collect();
    rng.shuffle(&mut order);
    for entry in &order {
        insert(am, std::slice::from_ref(entry));
        if rng.chance(1, 10) {
            verify_clean(am);
        }
    }
    same(am, &model);
    verify_clean(am);
}

/// One byte more than may be.
pub(crate) fn too_large_a_key(am: &dyn AccessMethod, limit: usize) {
    let long = vec![1; limit + 1];
    let refused = am.insert_batch(Xid(5), &mut [IndexEntry::new(&long, RowId::new(1, 1))], None);
    assert!(matches!(refused, Err(crate::error::Error::RowTooLarge(_))));
    same(am, &Model::new());
}
