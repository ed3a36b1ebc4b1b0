//! Long random runs against a map: heap scan, every index in both directions and with bounds, and
//! old snapshots, while vacuum runs in between; scans that are left and reads that fail in the
//! middle of them.

use std::collections::BTreeMap;
use std::ops::Bound;

use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_env::Rng;

use super::*;
use crate::buffer::Prefetch;
use crate::error::Error;
use crate::index::am::BatchEntry;
use crate::index::{Direction, IndexMethod};
use crate::keycode::Condition;
use crate::table::{ColumnRange, IndexBounds, Scan, TableIndex, Written};

type Model = BTreeMap<i64, Vec<Value>>;

const IDS: u64 = 300;

fn random_row(rng: &mut Rng, id: i64) -> Vec<Value> {
    let mut maybe = |value: Value| if rng.chance(1, 8) { Value::Null } else { value };
    let name = maybe(Value::Text(["", "a", "ab", "b\0", "long name"][id as usize % 5].into()));
    let tag = maybe(Value::Int4((id % 7 - 3) as i32));
    let score = maybe(Value::Float8([0.0, -0.0, f64::NAN, 1.5, -2.0][id as usize % 5]));
    let len = if rng.chance(1, 20) { rng.index(20_000) } else { rng.index(200) };
    vec![Value::Int8(id), name, tag, score, Value::Bytes(vec![7; len])]
}

/// Changes some columns of a row; one time in four only one without an index.
fn change(rng: &mut Rng, old: &[Value]) -> Vec<Value> {
    let mut new = old.to_vec();
    // As often as not it stays as it is, long or not.
    if rng.chance(1, 2) {
        new[4] = Value::Bytes(vec![9; rng.index(150)]);
    }
    let other = random_row(rng, rng.clone().below(IDS) as i64);
    match rng.below(8) {
        0 => new[1] = other[1].clone(),
        1 => new[2] = other[2].clone(),
        2 => new[3] = other[3].clone(),
        3 => new[0] = other[0].clone(),
        _ => {}
    }
    new
}

struct Run {
    store: Store,
    rng: Rng,
    committed: Model,
    /// Old transactions and what they must still see.
    old: Vec<(Transaction, Model)>,
}

impl Run {
    fn new(frames: usize, seed: u64) -> Self {
        let mut def = items();
        def.indexes.push(partial::rated());
        let tags = vec![IndexColumn::ascending(2), IndexColumn::ascending(3)];
        let hash = IndexDef::new(ObjectId(105), "items_hash", FileId(71), tags, false);
        def.indexes.push(IndexDef { method: IndexMethod::Hash, ..hash });
        def.overflow = FileId(72);
        let store = Store::with(def, frames, seed);
        Self { store, rng: Rng::from_seed(seed), committed: Model::new(), old: Vec::new() }
    }

    /// Odd distances, for reads and writes alike, often on a cold pool.
    fn another_distance(&mut self) {
        let pool = &self.store.pool.pool;
        let fixed = Prefetch::Fixed(1 + 2 * self.rng.below(20) as u32);
        let policies = [Prefetch::None, Prefetch::Simple, Prefetch::Adaptive, fixed, fixed];
        pool.set_prefetch(*self.rng.pick(&policies).unwrap());
        if self.rng.chance(2, 3) {
            pool.evict_all().unwrap();
        }
    }

    fn transaction(&mut self) {
        if self.rng.chance(1, 3) {
            self.another_distance();
        }
        let isolation = *self.rng.pick(&[Isolation::Snapshot, Isolation::ReadCommitted]).unwrap();
        let mut txn = self.store.begin(isolation);
        let mut model = self.committed.clone();
        for _ in 0..1 + self.rng.below(4) {
            let savepoint = self.rng.chance(1, 4).then(|| (txn.savepoint(), model.clone()));
            for _ in 0..=self.rng.below(3) {
                self.statement(&mut txn, &mut model);
            }
            if let Some((savepoint, before)) = savepoint.filter(|_| self.rng.chance(1, 2)) {
                txn.rollback_to(savepoint).unwrap();
                model = before;
            }
        }
        if self.rng.chance(1, 10) {
            let snapshot = txn.begin_statement().unwrap();
            self.check(&snapshot, &model);
        }
        if self.rng.chance(4, 5) {
            txn.commit(true).unwrap();
            self.committed = model;
        } else {
            txn.rollback();
        }
    }

    /// Transactions, vacuum and old snapshots; then all must be as the model says.
    fn rounds(&mut self, rounds: u32) {
        for round in 0..rounds {
            self.transaction();
            if self.rng.chance(1, 25) && self.old.len() < 3 {
                let mut txn = self.store.begin(Isolation::Snapshot);
                txn.begin_statement().unwrap();
                self.old.push((txn, self.committed.clone()));
            }
            if self.rng.chance(1, 30) {
                self.store.vacuum();
            }
            if round % 40 == 39 {
                let mut txn = self.store.begin(Isolation::ReadCommitted);
                let (snapshot, model) = (txn.begin_statement().unwrap(), self.committed.clone());
                self.check(&snapshot, &model);
                if let Some((mut txn, model)) = self.old.pop() {
                    let snapshot = txn.begin_statement().unwrap();
                    self.check(&snapshot, &model);
                }
            }
        }
        drop(std::mem::take(&mut self.old));
        let mut txn = self.store.begin(Isolation::ReadCommitted);
        let (snapshot, model) = (txn.begin_statement().unwrap(), self.committed.clone());
        assert!(!model.is_empty());
        self.check(&snapshot, &model);
        self.store.vacuum();
        self.check(&snapshot, &model);
    }

    fn statement(&mut self, txn: &mut Transaction, model: &mut Model) {
        let mut statement = Statement::begin(txn).unwrap();
        match self.rng.below(5) {
            0 | 1 => self.insert(&mut statement, model),
            2 | 3 => self.update(&mut statement, model),
            _ => self.delete(&mut statement, model),
        }
    }

    fn insert(&mut self, statement: &mut Statement<'_>, model: &mut Model) {
        let count = 1 + self.rng.below(6);
        let ids: Vec<i64> = (0..count).map(|_| self.rng.below(IDS) as i64).collect();
        let rows: Vec<_> = ids.iter().map(|id| random_row(&mut self.rng, *id)).collect();
        let mut after = model.clone();
        let fits = rows.iter().all(|row| after.insert(as_int(&row[0]), row.clone()).is_none());
        match self.store.table.insert_many(statement, &rows) {
            Ok(_) => {
                assert!(fits, "a duplicate went in: {ids:?}");
                *model = after;
            }
            Err(Error::UniqueViolation { .. }) => assert!(!fits, "no duplicate: {ids:?}"),
            Err(error) => panic!("{error}"),
        }
    }

    fn update(&mut self, statement: &mut Statement<'_>, model: &mut Model) {
        let id = self.rng.below(IDS) as i64;
        let found = self.store.find(statement.snapshot(), id);
        assert_eq!(found.as_ref().map(|(_, values)| values), model.get(&id));
        let Some((row, old)) = found else { return };
        let new = change(&mut self.rng, &old);
        let to = as_int(&new[0]);
        let free = to == id || !model.contains_key(&to);
        let written = self.store.table.update(statement, row, &mut |now| {
            assert_eq!(now, old);
            Ok(Some(new.clone()))
        });
        match written {
            Ok(Written::Done(_)) => {
                assert!(free);
                model.remove(&id);
                model.insert(to, new);
            }
            Err(Error::UniqueViolation { .. }) => assert!(!free),
            other => panic!("{other:?}"),
        }
    }

    fn delete(&mut self, statement: &mut Statement<'_>, model: &mut Model) {
        let id = self.rng.below(IDS) as i64;
        let Some((row, _)) = self.store.find(statement.snapshot(), id) else {
            assert!(!model.contains_key(&id));
            return;
        };
        let written = self.store.table.delete(statement, row, &mut |_| Ok(true)).unwrap();
        assert!(matches!(written, Written::Done(_)));
        assert!(model.remove(&id).is_some());
    }

    fn check(&mut self, snapshot: &Arc<Snapshot>, model: &Model) {
        let rows: Vec<Vec<Value>> = model.values().cloned().collect();
        self.another_distance();
        assert!(self.store.all(snapshot) == rows, "the heap differs from the model");
        let table = Arc::clone(&self.store.table);
        for index in table.indexes() {
            if !index.def().method.is_ordered() {
                check_keys(&mut self.rng, &self.store, (snapshot, index), &rows);
                continue;
            }
            let one = self.rng.pick(&rows).map_or_else(Vec::new, |row| key_of(index, row));
            let random = random_bounds(&mut self.rng, index, &rows);
            for bounds in [IndexBounds::all(), random, IndexBounds::equal(one)] {
                for direction in [Direction::Forward, Direction::Backward] {
                    let limit = self.rng.chance(1, 3).then(|| self.rng.below(20));
                    let any_order = false;
                    let bounds = bounds.clone();
                    let options = {
                        let plain = IndexScanOptions::new(bounds);
                        IndexScanOptions { direction, limit, any_order, ..plain }
                    };
                    check_index(&self.store, snapshot, index, &options, &rows);
                    check_walk(&mut self.rng, &self.store, (snapshot, index), &options);
                    check_cut_short(&mut self.rng, &self.store, (snapshot, index), &options);
                }
            }
        }
    }
}

/// The places of an index's key columns.
fn key_of(index: &TableIndex, row: &[Value]) -> Vec<Value> {
    index.def().columns.iter().map(|part| row[usize::from(part.column)].clone()).collect()
}

fn random_bounds(rng: &mut Rng, index: &TableIndex, rows: &[Vec<Value>]) -> IndexBounds {
    let (Some(a), Some(b)) = (rng.pick(rows), rng.pick(rows)) else { return IndexBounds::all() };
    let (a, b) = (key_of(index, a), key_of(index, b));
    let bound = |rng: &mut Rng, value: &Value| match rng.below(3) {
        _ if value.is_null() => Bound::Unbounded,
        0 => Bound::Unbounded,
        1 => Bound::Included(value.clone()),
        _ => Bound::Excluded(value.clone()),
    };
    match rng.below(5) {
        3 => {
            let mut prefix = || {
                let key = key_of(index, rng.pick(rows).expect("there are rows"));
                key[..1 + rng.index(key.len())].to_vec()
            };
            IndexBounds::AnyOf((0..6).map(|_| prefix()).collect())
        }
        4 => random_conditions(rng, index, rows),
        0 => IndexBounds::equal(a[..rng.index(a.len() + 1)].to_vec()),
        1 => IndexBounds::Prefixes { from: Bound::Excluded(a), to: Bound::Included(b) },
        _ => {
            let at = rng.index(a.len());
            let (low, high) = (bound(rng, &a[at]), bound(rng, &b[at]));
            IndexBounds::between(a[..at].to_vec(), low, high)
        }
    }
}

/// Conditions on any of the key columns, the first one left out as often as not.
fn random_conditions(rng: &mut Rng, index: &TableIndex, rows: &[Vec<Value>]) -> IndexBounds {
    let key = |rng: &mut Rng| key_of(index, rng.pick(rows).expect("there are rows"));
    let mut conditions = Vec::new();
    for at in 0..index.def().columns.len() {
        let (a, b) = (key(rng)[at].clone(), key(rng)[at].clone());
        conditions.extend(match rng.below(4) {
            0 => Some((at, Condition::Equal(a))),
            1 => Some((at, Condition::AnyOf(vec![a, b]))),
            2 if !a.is_null() && !b.is_null() => {
                Some((at, Condition::Between(Bound::Included(a), Bound::Excluded(b))))
            }
            _ => None,
        });
    }
    let from = match rng.chance(1, 3) {
        true => Bound::Excluded(key(rng)),
        false => Bound::Unbounded,
    };
    IndexBounds::Matching { from, to: Bound::Unbounded, conditions }
}

fn meets(value: &Value, condition: &Condition) -> bool {
    match condition {
        Condition::Equal(wanted) => value == wanted,
        Condition::AnyOf(wanted) => wanted.contains(value),
        Condition::Between(low, high) => {
            let inside = (low.as_ref(), high.as_ref());
            !value.is_null() && std::ops::RangeBounds::contains(&inside, value)
        }
        Condition::StartsWith(_) => panic!("not made here"),
    }
}

/// Does the index hold `row`?
fn holds(index: &TableIndex, row: &[Value]) -> bool {
    let value = |column: &u16| &row[usize::from(*column)];
    index.def().predicate.as_ref().is_none_or(|predicate| predicate.judge(value) == Some(true))
}

/// Is `row` within `bounds`, by comparing values (not key bytes)?
fn within(index: &TableIndex, bounds: &IndexBounds, row: &[Value]) -> bool {
    let key = key_of(index, row);
    match bounds {
        IndexBounds::Columns { equal, range } => {
            let equal_fit = key.iter().zip(equal).all(|(a, b)| a == b);
            let next = key.get(equal.len());
            let range_fits = match range {
                ColumnRange::Between(low, high) => {
                    let next = next.expect("a range has a column");
                    let inside = (low.as_ref(), high.as_ref());
                    !next.is_null() && std::ops::RangeBounds::contains(&inside, next)
                }
                _ => true,
            };
            equal_fit && range_fits
        }
        IndexBounds::Prefixes { from: Bound::Excluded(from), to: Bound::Included(to) } => {
            order(index, &key, from).is_gt() && order(index, &key, to).is_le()
        }
        IndexBounds::AnyOf(prefixes) => prefixes.iter().any(|prefix| key.starts_with(prefix)),
        IndexBounds::Matching { from, conditions, .. } => {
            let begun = match from {
                Bound::Excluded(from) => order(index, &key, from).is_gt(),
                _ => true,
            };
            begun && conditions.iter().all(|(at, one)| meets(&key[*at], one))
        }
        other @ IndexBounds::Prefixes { .. } => panic!("{other:?} is not made here"),
    }
}

/// Order of two keys by the definition of the index.
fn order(index: &TableIndex, a: &[Value], b: &[Value]) -> std::cmp::Ordering {
    let parts = index.def().columns.iter().zip(a.iter().zip(b));
    parts.fold(std::cmp::Ordering::Equal, |order, (part, (a, b))| {
        order.then_with(|| match (a.is_null(), b.is_null()) {
            (true, true) => std::cmp::Ordering::Equal,
            (false, false) if part.descending => b.cmp(a),
            (false, false) => a.cmp(b),
            (a_null, _) if a_null == part.nulls_first => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        })
    })
}

/// The scan that `options` ask for; of a whole key the way that reads of single rows take.
fn open(
    store: &Store,
    (snapshot, index): (&Arc<Snapshot>, &Arc<TableIndex>),
    all: &Arc<Projection>,
    options: &IndexScanOptions,
) -> Scan {
    let plain = options.direction == Direction::Forward && !options.any_order;
    match &options.bounds {
        IndexBounds::Columns { equal, range: ColumnRange::All }
            if plain && equal.len() == index.def().columns.len() =>
        {
            store.table.scan_key(snapshot, index, all, equal, options.limit).unwrap()
        }
        _ => store.table.scan_index(snapshot, index, Arc::clone(all), options).unwrap(),
    }
}

fn check_index(
    store: &Store,
    snapshot: &Arc<Snapshot>,
    index: &Arc<TableIndex>,
    options: &IndexScanOptions,
    rows: &[Vec<Value>],
) {
    let wanted = rows.iter().filter(|row| holds(index, row) && within(index, &options.bounds, row));
    let mut wanted: Vec<_> = wanted.cloned().collect();
    wanted.sort_by(|a, b| order(index, &key_of(index, a), &key_of(index, b)));
    if options.direction == Direction::Backward {
        wanted.reverse();
    }
    let limit = options.limit.map_or(usize::MAX, |limit| limit as usize);
    let def = store.table.def();
    let scan = open(store, (snapshot, index), store.table.all_columns(), options);
    let found: Vec<_> = scan.map(|row| row.unwrap().values).collect();
    let keys = |rows: &[Vec<Value>]| rows.iter().map(|row| key_of(index, row)).collect::<Vec<_>>();
    let cut = &wanted[..wanted.len().min(limit)];
    assert_eq!(keys(&found), keys(cut), "{} {options:?}", index.def().name);
    // Rows with equal keys come in any order: compare as sets when nothing was cut off.
    if found.len() == wanted.len() {
        let sorted = |mut rows: Vec<Vec<Value>>| {
            rows.sort();
            rows
        };
        assert!(sorted(found) == sorted(wanted.clone()), "{} {options:?}", index.def().name);
    }
    // The key columns alone, which an index-only scan may answer.
    let columns: Vec<_> = index.def().columns.iter().map(|part| part.column).collect();
    let narrow = Projection::new(def, &columns).unwrap();
    let scan = store.table.scan_index(snapshot, index, narrow, options).unwrap();
    let found: Vec<_> = scan.map(|row| row.unwrap().values).collect();
    assert_eq!(found, keys(cut), "keys of {}", index.def().name);
}

/// What a method without an order is asked for: a key, or several of them, some of no row.
fn check_keys(
    rng: &mut Rng,
    store: &Store,
    (snapshot, index): (&Arc<Snapshot>, &Arc<TableIndex>),
    rows: &[Vec<Value>],
) {
    let mut key = || match rng.pick(rows) {
        Some(row) if rng.chance(4, 5) => key_of(index, row),
        _ => vec![Value::Int4(rng.below(9) as i32 - 4), Value::Float8(1.5)],
    };
    for bounds in [IndexBounds::equal(key()), IndexBounds::AnyOf((0..9).map(|_| key()).collect())] {
        let mut wanted: Vec<_> =
            rows.iter().filter(|row| within(index, &bounds, row)).cloned().collect();
        wanted.sort();
        for any_order in [false, true] {
            let bounds = bounds.clone();
            let options = IndexScanOptions { any_order, ..IndexScanOptions::new(bounds) };
            let all = store.table.all_columns();
            let scan = open(store, (snapshot, index), all, &options);
            let mut found: Vec<_> = scan.map(|row| row.unwrap().values).collect();
            found.sort();
            assert!(found == wanted, "{options:?}");
        }
        // Back to a mark, and on from there.
        let options = IndexScanOptions::new(bounds);
        let mut scan = open(store, (snapshot, index), store.table.all_columns(), &options);
        let rest =
            |scan: &mut Scan| -> Vec<RowId> { scan.map(|row| row.unwrap().row_id).collect() };
        let before = rng.index(wanted.len() + 1);
        (0..before).for_each(|_| assert!(scan.next().unwrap().is_some()));
        let mark = scan.mark().unwrap();
        let first = rest(&mut scan);
        assert_eq!(before + first.len(), wanted.len(), "{options:?}");
        scan.restore(&mark).unwrap();
        assert_eq!(rest(&mut scan), first, "{options:?}");
        assert!(scan.turn().is_err(), "it has no order");
    }
}

/// A scan that turns round and goes back to marks, against the list of its rows; and the same rows
/// in any order.
fn check_walk(
    rng: &mut Rng,
    store: &Store,
    (snapshot, index): (&Arc<Snapshot>, &Arc<TableIndex>),
    options: &IndexScanOptions,
) {
    let all = store.table.all_columns();
    let options = IndexScanOptions { limit: None, ..options.clone() };
    let scan = |options: &IndexScanOptions| {
        store.table.scan_index(snapshot, index, Arc::clone(all), options).unwrap()
    };
    let rows: Vec<RowId> = scan(&options).map(|row| row.unwrap().row_id).collect();
    let unordered = IndexScanOptions { any_order: true, ..options.clone() };
    let mut any: Vec<RowId> = scan(&unordered).map(|row| row.unwrap().row_id).collect();
    let mut sorted = rows.clone();
    any.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(any, sorted, "{options:?}");
    assert!(scan(&unordered).turn().is_err());

    let mut walk = open(store, (snapshot, index), all, &options);
    let (mut last, mut mark): (Option<usize>, _) = (None, (walk.mark().unwrap(), None));
    let (mut onward, mut ended, mut inclusive) = (true, false, false);
    for _ in 0..rng.below(80) {
        match rng.below(12) {
            0 => {
                walk.turn().unwrap();
                (onward, inclusive, ended) = (!onward, ended, false);
            }
            1 if !ended => mark = (walk.mark().unwrap(), last),
            2 => {
                walk.restore(&mark.0).unwrap();
                (last, inclusive, ended) = (mark.1, false, false);
            }
            _ => {
                let next = match (last, onward) {
                    (Some(at), _) if inclusive => Some(at),
                    (None, true) => Some(0),
                    (None, false) => rows.len().checked_sub(1),
                    (Some(at), true) => Some(at + 1),
                    (Some(at), false) => at.checked_sub(1),
                };
                let next = next.filter(|at| *at < rows.len() && !ended);
                let found = walk.next().unwrap().map(|row| row.row_id);
                assert_eq!(found, next.map(|at| rows[at]), "{options:?} {last:?} {onward}");
                (last, inclusive, ended) = (next.or(last), false, next.is_none());
            }
        }
    }
}

/// A scan that is left in the middle, and one of whose reads fails somewhere in its window, both
/// from a cold start: the rows before are right, and whoever asks again finds all.
fn check_cut_short(
    rng: &mut Rng,
    store: &Store,
    (snapshot, index): (&Arc<Snapshot>, &Arc<TableIndex>),
    options: &IndexScanOptions,
) {
    let all = Projection::all(store.table.def());
    let scan = || {
        store.pool.pool.evict_all().unwrap();
        store.table.scan_index(snapshot, index, all.clone(), options).unwrap()
    };
    let rows: Vec<RowId> = scan().map(|row| row.unwrap().row_id).collect();
    let left = rng.index(rows.len() + 1);
    let found: Vec<RowId> = scan().take(left).map(|row| row.unwrap().row_id).collect();
    assert_eq!(found, rows[..left], "{options:?}");
    let failing = scan();
    store.pool.disk.fail_nth(OpKind::Read, 1 + rng.below(16), FaultKind::Io, Repeat::Once);
    let (mut found, mut failed) = (Vec::new(), false);
    for row in failing {
        match row {
            Ok(row) => found.push(row.row_id),
            Err(Error::Io(_)) => {
                failed = true;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    store.pool.disk.clear_faults();
    assert_eq!(found, rows[..found.len()], "{options:?}");
    assert!(failed || found.len() == rows.len(), "{options:?}: rows are missing");
    assert_eq!(scan().count(), rows.len(), "{options:?}");
}

fn run(frames: usize, seed: u64, rounds: u32) {
    Run::new(frames, seed).rounds(rounds);
}

#[test]
fn random_statements_agree_with_a_map() {
    for seed in 1..=4 {
        run(256, seed, 400);
    }
}

#[test]
fn random_statements_agree_with_a_map_in_a_tiny_pool() {
    run(16, 11, 400);
}

/// Leaves and heap pages are handed over in pieces, each of which is found again.
#[test]
fn random_statements_agree_with_a_map_where_scans_get_no_memory() {
    let mut run = Run::new(256, 31);
    let budget = run.store.pool.pool.scan_budget().clone();
    let _all = budget.try_reserve(budget.available()).unwrap();
    run.rounds(400);
}

/// However many scans are open, what they hold stays within their share of the budget, and all of
/// them go on to the end.
#[test]
fn open_scans_stay_within_their_share() {
    let store = Store::new(64, 32);
    store
        .run(|statement| {
            let rows: Vec<_> = (0..2000).map(|id| item(id, "name")).collect();
            store.table.insert_many(statement, &rows).map(drop)
        })
        .unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let snapshot = txn.begin_statement().unwrap();
    let budget = store.pool.pool.scan_budget();
    let room = 64 << 10;
    let _rest = budget.try_reserve(budget.available() - room).unwrap();
    let id = Projection::new(store.table.def(), &[0]).unwrap();
    let open = |at: u64| {
        let index = &store.table.indexes()[0];
        let mut options = IndexScanOptions::new(IndexBounds::all());
        options.any_order = at % 4 == 1;
        options.direction = if at % 4 == 2 { Direction::Backward } else { Direction::Forward };
        match at % 4 {
            3 => store.table.scan(&snapshot, id.clone(), None),
            _ => store.table.scan_index(&snapshot, index, id.clone(), &options).unwrap(),
        }
    };
    let mut scans: Vec<_> = (0..40).map(|at| (open(at), Vec::new())).collect();
    let mut short = 0;
    while scans.iter().any(|(_, ids)| ids.len() < 2000) {
        for (scan, ids) in &mut scans {
            ids.push(as_int(&scan.next().unwrap().expect("2,000 rows").values[0]));
        }
        short += u32::from(budget.available() < 8 << 10);
        assert!(budget.available() <= room);
    }
    assert!(short > 500, "40 leaves do not fit: {short}");
    for (scan, mut ids) in scans {
        assert_eq!((&mut { scan }).count(), 0);
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..2000));
    }
    assert_eq!(budget.available(), room);
}

/// The entries of several leaves that are sorted by row id are reserved, too: the leaves' batches
/// and a list of the entries.
#[test]
fn entries_sorted_by_row_id_are_part_of_the_budget() {
    let store = Store::new(256, 33);
    let rows: Vec<_> = (0..4000).map(|n| item(n * 37 % 4000, "name")).collect();
    store.run(|statement| store.table.insert_many(statement, &rows).map(drop)).unwrap();
    let mut txn = store.begin(Isolation::ReadCommitted);
    let snapshot = txn.begin_statement().unwrap();
    let budget = store.pool.pool.scan_budget();
    let mut options = IndexScanOptions::new(IndexBounds::all());
    options.any_order = true;
    let ids = |most: &mut usize| {
        let id = Projection::new(store.table.def(), &[0]).unwrap();
        let index = &store.table.indexes()[0];
        let scan = store.table.scan_index(&snapshot, index, id, &options).unwrap();
        let mut rows = Vec::new();
        for row in scan {
            rows.push(row.unwrap());
            *most = budget.used().max(*most);
        }
        assert_eq!(rows.len(), 4000);
        rows
    };
    let mut most = 0;
    let rows = ids(&mut most);
    let sorted = rows.chunk_by(|a, b| a.row_id < b.row_id).map(<[_]>::len).max().unwrap();
    assert!(sorted > 1000, "{sorted} entries were sorted together");
    let batches = sorted * (size_of::<BatchEntry>() + 8);
    let list = sorted * (size_of::<RowId>() + size_of::<usize>());
    assert!(most >= batches + list, "{sorted} entries: {most} of {batches} and {list} bytes");
    // With less memory fewer leaves are sorted together, and all rows come.
    let _rest = budget.try_reserve(budget.available() - (16 << 10)).unwrap();
    ids(&mut most);
    assert_eq!(budget.available(), 16 << 10);
}

/// What a limit asks for is known: looking ahead reads not one page more.
#[test]
fn a_limited_scan_reads_no_page_more_than_without_looking_ahead() {
    let store = Store::new(256, 21);
    let mut ids: Vec<i64> = (0..600).collect();
    Rng::from_seed(22).shuffle(&mut ids);
    for id in ids {
        store.insert(id, "name").unwrap();
    }
    let mut txn = store.begin(Isolation::ReadCommitted);
    let snapshot = txn.begin_statement().unwrap();
    let pool = &store.pool.pool;
    for limit in [1, 2, 7, 30] {
        let reads = [Prefetch::None, Prefetch::Adaptive, Prefetch::Fixed(9)].map(|policy| {
            pool.set_prefetch(policy);
            pool.evict_all().unwrap();
            let before = pool.stats().reads;
            let bounds = IndexBounds::all();
            let options = IndexScanOptions { limit: Some(limit), ..IndexScanOptions::new(bounds) };
            let all = Projection::all(store.table.def());
            let index = &store.table.indexes()[0];
            let mut scan = store.table.scan_index(&snapshot, index, all, &options).unwrap();
            let found = std::iter::from_fn(|| scan.next().unwrap()).count();
            assert_eq!(found as u64, limit);
            pool.stats().reads - before
        });
        assert!(reads.iter().all(|count| *count == reads[0]), "limit {limit}: {reads:?}");
    }
    // Of the whole table, as far as the pages before tell how many will do.
    let blocks = u64::from(store.table.heap().blocks() - 1);
    for limit in [1, 2, 600 / blocks + 1, 200] {
        let reads = [Prefetch::None, Prefetch::Adaptive].map(|policy| {
            pool.set_prefetch(policy);
            pool.evict_all().unwrap();
            let before = pool.stats().reads;
            let all = Projection::all(store.table.def());
            assert_eq!(store.table.scan(&snapshot, all, Some(limit)).count() as u64, limit);
            pool.stats().reads - before
        });
        assert!(blocks > 2 && reads[0] == reads[1], "limit {limit} of {blocks} pages: {reads:?}");
    }
}
