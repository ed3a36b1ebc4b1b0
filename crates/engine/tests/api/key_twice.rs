//! Reads and writes by a whole unique key against the scan of the table, under random transactions
//! of both isolation levels, several at a time.
//!
//! A repeatable snapshot can see two rows under one unique key: one that another transaction
//! deleted since the snapshot was taken, and one with the same key that its own transaction wrote
//! after that. Lookups used to stop at the first row that they met.
//!
//! Does not do: threads (`model.rs`), crashes (`crash.rs`).

use rightlink_env::Broken;
use std::time::Duration;

use rightlink::{
    Busy, ConflictKind, Database, Error, IndexMethod, IndexSchema, Isolation, OnConflict, Result,
    Row, RowId, RowLock, ScanOptions, TableSchema, Transaction, TransactionOptions, Type, Upserted,
    Value, Writer, Written,
};
use rightlink_env::{Rng, points};

/// Places of the columns.
const K: usize = 0;
const U: usize = 1;
const H: usize = 2;
const OWNER: usize = 3;
const PAD: usize = 4;
/// Indexes by name, with the place of the key column of each.
const UNIQUE: [(&str, usize); 4] = [("t_pkey", K), ("t_u", U), ("t_h", H), ("t_some", U)];
/// Keys are below this.
const KEYS: i64 = 6;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("k", Type::Int8)
        .column("u", Type::Int8)
        .column("h", Type::Int8)
        .column("owner", Type::Int8)
        .column("pad", Type::Text)
        .primary_key(["k"])
        .index(IndexSchema::new("t_u").on("u").unique().include(["owner"]))
        .index(IndexSchema::new("t_h").on("h").unique().method(IndexMethod::Hash))
        .index(
            IndexSchema::new("t_some")
                .on("u")
                .unique()
                .only(rightlink::Predicate::new().at_least("owner", Value::Int8(0))),
        )
}

fn row(keys: [i64; 3], owner: i64, pad: usize) -> Vec<Value> {
    let [k, u, h] = keys.map(Value::Int8);
    vec![k, u, h, Value::Int8(owner), Value::Text("x".repeat(pad))]
}

fn int(row: &Row, at: usize) -> i64 {
    match row.values[at] {
        Value::Int8(value) => value,
        ref other => panic!("an int8, not {other:?}"),
    }
}

fn begin(db: &Database, isolation: Isolation) -> Transaction {
    let lock_timeout = Some(Duration::ZERO);
    db.begin_with(TransactionOptions { isolation, lock_timeout, ..Default::default() })
}

fn is_conflict<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Conflict { kind: ConflictKind::Serialization, .. }))
}

/// Another transaction has the row or key and has not ended.
fn is_busy(error: &Error) -> bool {
    let locked = matches!(error, Error::Conflict { kind: ConflictKind::RowLocked, .. });
    locked || matches!(error, Error::LockTimeout { .. })
}

/// What another transaction's delete and an own insert leave: the snapshot of the first sees both.
fn twice(db: &Database, own_in_front: bool) -> Transaction {
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    let front = txn.insert("t", &row([9, 9, 9], 0, 1)).unwrap();
    let old = txn.insert("t", &row([2, 2, 2], 0, 1)).unwrap();
    if own_in_front {
        txn.delete("t", front).unwrap();
    }
    txn.commit().unwrap();
    db.vacuum(Some("t")).unwrap();
    let mut repeatable = begin(db, Isolation::Snapshot);
    assert!(repeatable.get("t", &[Value::Int8(2)]).unwrap().is_some());
    let mut other = begin(db, Isolation::Snapshot);
    assert!(other.delete("t", old).unwrap());
    other.commit().unwrap();
    let own = repeatable.insert("t", &row([2, 2, 2], 1, 1)).unwrap();
    assert_eq!(own < old, own_in_front, "{own} {old}");
    repeatable
}

/// The story of the defect: the own row is not seen where it lies behind, and a delete by key meets
/// it alone where it lies in front.
#[test]
fn a_snapshot_that_sees_a_key_twice_reads_both_rows() {
    for own_in_front in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = twice(&db, own_in_front);
        for (index, _) in UNIQUE {
            let key = [Value::Int8(2)];
            assert_eq!(int(&txn.get_by("t", index, &key).unwrap().unwrap(), OWNER), 1, "{index}");
            let rows = txn.rows_of_key("t", index, &key, &[OWNER]).unwrap();
            let mut owners: Vec<i64> = rows.iter().flatten().map(|row| int(row, 0)).collect();
            owners.sort_unstable();
            assert_eq!(owners, [0, 1], "{index}");
            let found = txn.write("t", |writer| writer.find(index, &key));
            assert!(is_conflict(&found), "{index}: {found:?}");
            let own = txn.write("t", |writer| writer.find_to_refer(index, &key)).unwrap();
            assert!(txn.lock_row("t", own.unwrap(), RowLock::KeyShared, Busy::Fail).unwrap());
        }
        assert_eq!(int(&txn.get("t", &[Value::Int8(2)]).unwrap().unwrap(), OWNER), 1);
        // The row that is there can be changed by its id, and by an upsert.
        let own = txn.get("t", &[Value::Int8(2)]).unwrap().unwrap().id;
        assert!(txn.update("t", own, &[("pad", Value::Text("y".into()))]).unwrap());
        let mut merge = |old: &[Value], _: &[Value]| {
            assert_eq!(old[PAD], Value::Text("y".into()));
            Ok(Some(row([2, 2, 2], 1, 3)))
        };
        let proposed = [row([2, 2, 2], 7, 7)];
        let done = txn
            .insert_into("t")
            .or_update(OnConflict::Columns(&["k"]), &proposed, &mut merge)
            .unwrap();
        assert!(matches!(done[..], [Upserted::Updated(_)]), "{done:?}");
        txn.commit().unwrap();
        let mut txn = db.begin();
        let last = txn.get("t", &[Value::Int8(2)]).unwrap().unwrap();
        assert_eq!((int(&last, OWNER), &last.values[PAD]), (1, &Value::Text("xxx".into())));
        drop(txn);
        assert!(db.verify().unwrap().is_clean());
    }
}

/// One transaction at work.
struct Slot {
    txn: Transaction,
    isolation: Isolation,
    /// What it writes as the owner of rows.
    number: i64,
}

/// How often each situation was met, so that the test knows that it shows something.
#[derive(Default, Debug)]
struct Met {
    twice: u64,
    own_first: u64,
    conflicts: u64,
    alone: u64,
    upserts: u64,
}

fn rows(txn: &mut Transaction, options: &ScanOptions) -> Vec<Row> {
    txn.scan("t", options).unwrap().collect::<Result<_>>().unwrap()
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| row.id);
    rows
}

impl Slot {
    /// Every way to the rows of a key gives what the scan of the table gives.
    fn compare(&mut self, rng: &mut Rng, met: &mut Met) {
        let all = rows(&mut self.txn, &ScanOptions::all());
        for (index, at) in UNIQUE {
            for key in 0..KEYS {
                let same = |row: &&Row| int(row, at) == key;
                let wanted: Vec<Row> = all.iter().filter(same).cloned().collect();
                self.compare_key(index, key, &sorted(wanted), rng, met);
            }
            let keys: Vec<_> = (0..KEYS).map(|key| vec![Value::Int8(key)]).collect();
            let found = self.txn.fetch_many("t", index, &keys).unwrap();
            for (key, found) in (0..).zip(found) {
                let same = |row: &&Row| int(row, at) == key;
                let wanted: Vec<Row> = all.iter().filter(same).cloned().collect();
                assert_eq!(sorted(found), sorted(wanted), "{index} {key} of many");
            }
        }
    }

    fn compare_key(&mut self, index: &str, key: i64, wanted: &[Row], rng: &mut Rng, met: &mut Met) {
        let of = format!("{index} {key} for {} {:?}", self.number, self.isolation);
        assert!(wanted.len() <= 2, "{of}: {wanted:?}");
        let own = |row: &&Row| int(row, OWNER) == self.number;
        let mut one = wanted.first();
        if wanted.len() == 2 {
            assert_eq!(self.isolation, Isolation::Snapshot, "{of}: {wanted:?}");
            assert_eq!(wanted.iter().filter(own).count(), 1, "{of}: {wanted:?}");
            one = wanted.iter().find(own);
            met.twice += 1;
            met.own_first += u64::from(one == wanted.first());
        }
        met.alone += u64::from(wanted.len() == 1);
        let (txn, value) = (&mut self.txn, [Value::Int8(key)]);
        assert_eq!(txn.get_by("t", index, &value).unwrap().as_ref(), one, "{of}");
        if index == "t_pkey" {
            assert_eq!(txn.get("t", &value).unwrap().as_ref(), one, "{of}");
        }
        for columns in [&[K, U, H, OWNER, PAD][..], &[U, OWNER], &[]] {
            let found = txn.rows_of_key("t", index, &value, columns).unwrap();
            let cut = |row: &Row| Row {
                id: row.id,
                values: columns.iter().map(|at| row.values[*at].clone()).collect(),
            };
            let wanted: Vec<Row> = wanted.iter().map(cut).collect();
            assert_eq!(sorted(found.into_iter().flatten().collect()), wanted, "{of}");
        }
        let equal = ScanOptions::index(index).equal(value.to_vec());
        let any_of = ScanOptions { any_of: vec![value.to_vec()], ..ScanOptions::index(index) };
        for options in [&equal, &equal.clone().any_order(), &any_of] {
            assert_eq!(sorted(rows(txn, options)), wanted, "{of} {options:?}");
        }
        if index != "t_h" {
            assert_eq!(sorted(rows(txn, &equal.clone().backward())), wanted, "{of} backward");
            let narrow = rows(txn, &equal.clone().columns(["u"]));
            assert_eq!(narrow.len(), wanted.len(), "{of} of the index");
        }
        let limited = rows(txn, &equal.clone().limit(1));
        assert_eq!(limited.len(), wanted.len().min(1), "{of} limited");
        self.compare_writes(index, &value, (wanted, one), rng, met);
    }

    /// A write by key comes to what the same write of each row of a scan comes to.
    fn compare_writes(
        &mut self,
        index: &str,
        key: &[Value],
        (wanted, own): (&[Row], Option<&Row>),
        rng: &mut Rng,
        met: &mut Met,
    ) {
        let (txn, what) = (&mut self.txn, rng.below(3));
        let write = |writer: &mut Writer<'_>, id: RowId| match what {
            0 => writer.delete(id, &mut |_, _| Ok(true)),
            1 => writer.update(id, &mut |_, old| Ok(Some(old.to_vec()))),
            _ => writer.lock_row(id, &mut |_, _| Ok(true), RowLock::Exclusive, Busy::Fail),
        };
        let count = |written: Written| u64::from(matches!(written, Written::Done(_)));
        let mut undone = |run: &mut dyn FnMut(&mut Transaction) -> Result<u64>| {
            let savepoint = txn.savepoint();
            let done = run(txn);
            txn.rollback_to(savepoint).unwrap();
            done
        };
        let by_key = undone(&mut |txn| {
            txn.write("t", |writer| match writer.find(index, key)? {
                Some(id) => write(writer, id).map(count),
                None => Ok(0),
            })
        });
        let by_scan = undone(&mut |txn| {
            txn.write("t", |writer| {
                let rows = writer.scan(&ScanOptions::all())?.collect::<Result<Vec<_>>>()?;
                let ids: Vec<RowId> = wanted.iter().map(|row| row.id).collect();
                let rows = rows.iter().filter(|row| ids.contains(&row.id));
                rows.map(|row| write(writer, row.id).map(count)).sum()
            })
        });
        met.conflicts += u64::from(is_conflict(&by_key));
        let same = match (&by_key, &by_scan) {
            (Ok(a), Ok(b)) => a == b,
            (Err(a), Err(b)) => {
                is_conflict(&by_key) == is_conflict(&by_scan) && is_busy(a) == is_busy(b)
            }
            _ => false,
        };
        assert!(same, "{index} {key:?} {what}: {by_key:?} by key, {by_scan:?} by a scan");
        let mut refers = None;
        let found = undone(&mut |txn| {
            refers = txn.write("t", |writer| writer.find_to_refer(index, key))?;
            Ok(0)
        });
        assert_eq!((found.unwrap(), refers), (0, own.map(|row| row.id)), "{index} {key:?}");
        if index == "t_pkey" {
            self.compare_upsert(key, wanted, met);
        }
    }

    /// An upsert changes the row that is there, if the transaction may, whoever else it sees.
    fn compare_upsert(&mut self, key: &[Value], seen: &[Row], met: &mut Met) {
        let txn = &mut self.txn;
        let there = ScanOptions::index("t_pkey").equal(key.to_vec()).latest();
        let there = txn.scan("t", &there).unwrap().collect::<Result<Vec<_>>>().unwrap();
        assert!(there.len() <= 1, "a key is there once: {there:?}");
        let Value::Int8(k) = key[0] else { panic!("an int8") };
        let proposed = [row([k, 100 + k, 100 + k], self.number, 2)];
        let savepoint = txn.savepoint();
        let on = OnConflict::Columns(&["k"]);
        let done =
            txn.insert_into("t").or_update(on, &proposed, &mut |old, _| Ok(Some(old.to_vec())));
        txn.rollback_to(savepoint).unwrap();
        let is_seen = there.first().is_some_and(|there| seen.iter().any(|row| row.id == there.id));
        match (&done, there.is_empty()) {
            (Err(error), _) if is_busy(error) => return,
            (Ok(done), true) => assert!(matches!(done[..], [Upserted::Inserted(_)]), "{done:?}"),
            (Ok(done), false) => {
                assert!(matches!(done[..], [Upserted::Updated(_)]), "{done:?}");
                assert!(is_seen, "{there:?} is not among {seen:?}");
            }
            (Err(_), _) => assert!(is_conflict(&done) && !is_seen, "{done:?}"),
        }
        met.upserts += 1;
    }

    /// A random write, which may fail.
    fn write(&mut self, rng: &mut Rng) {
        let mut keys = [0; 3].map(|_: i64| rng.below(KEYS as u64) as i64);
        let pad = rng.below(40) as usize;
        let txn = &mut self.txn;
        let seen = rows(txn, &ScanOptions::all());
        let one = (!seen.is_empty()).then(|| &seen[rng.below(seen.len() as u64) as usize]);
        if let Some(one) = one
            && rng.chance(2, 3)
        {
            // Its keys may be free, though it is seen.
            keys = [K, U, H].map(|at| int(one, at));
        }
        let changed = one.filter(|_| !rng.chance(1, 2));
        let result = if let Some(changed) = changed {
            let id = changed.id;
            let owner = ("owner", Value::Int8(self.number));
            let at = rng.below(3) as usize;
            let key = (["k", "u", "h"][at], Value::Int8(keys[at]));
            match rng.below(4) {
                0 | 1 => txn.delete("t", id).map(drop),
                2 => txn.update("t", id, &[owner, ("pad", Value::Text("y".repeat(pad)))]).map(drop),
                _ => txn.update("t", id, &[owner, key]).map(drop),
            }
        } else {
            txn.insert("t", &row(keys, self.number, pad)).map(drop)
        };
        match result {
            Ok(()) | Err(Error::UniqueViolation { .. }) => {}
            Err(error) if is_busy(&error) => {}
            Err(error) => assert!(is_conflict(&Err::<(), _>(error.clone())), "{error}"),
        }
    }
}

/// Runs `steps` random steps of four transactions.
fn run(seed: u64, steps: usize) -> Met {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.create_table(&schema()).unwrap();
    txn.commit().unwrap();
    let (mut rng, mut met, mut number) = (Rng::from_seed(seed), Met::default(), 0);
    let mut slots: Vec<Option<Slot>> = (0..4).map(|_| None).collect();
    for _ in 0..steps {
        let at = rng.below(slots.len() as u64) as usize;
        let slot = slots[at].get_or_insert_with(|| {
            number += 1;
            let repeatable = rng.chance(2, 3);
            let isolation = if repeatable { Isolation::Snapshot } else { Isolation::ReadCommitted };
            let mut txn = begin(&db, isolation);
            // Its snapshot is of now.
            assert!(txn.get("t", &[Value::Int8(-1)]).unwrap().is_none());
            Slot { txn, isolation, number }
        });
        match rng.below(12) {
            0 | 1 => slots[at].take().unwrap().txn.commit().unwrap(),
            2 => drop(slots[at].take()),
            3 => {
                let savepoint = slot.txn.savepoint();
                (0..3).for_each(|_| slot.write(&mut rng));
                slot.compare(&mut rng, &mut met);
                slot.txn.rollback_to(savepoint).unwrap();
                slot.compare(&mut rng, &mut met);
            }
            4 => {
                db.vacuum(Some("t")).unwrap();
                // Somebody else's row goes, whoever sees it.
                number += 1;
                let isolation = Isolation::ReadCommitted;
                let mut other = Slot { txn: begin(&db, isolation), isolation, number };
                (0..4).for_each(|_| other.write(&mut rng));
                other.txn.commit().unwrap();
            }
            5 | 6 => slot.compare(&mut rng, &mut met),
            _ => slot.write(&mut rng),
        }
    }
    for slot in slots.iter_mut().flatten() {
        slot.compare(&mut rng, &mut met);
    }
    drop(slots);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    met
}

#[test]
fn every_way_to_a_key_gives_what_the_scan_gives() {
    let (mut twice, mut own_first) = (0, 0);
    for seed in 0..6 {
        let met = run(seed, 500);
        println!("seed {seed}: {met:?}");
        assert!(met.alone > 300 && met.conflicts > 10 && met.upserts > 300, "{met:?}");
        twice += met.twice;
        own_first += met.own_first;
    }
    assert!(twice > 100 && own_first > 10, "{twice} keys were seen twice, {own_first} own first");
    assert!(own_first < twice - 10, "{twice} keys were seen twice, {own_first} own first");
}

/// The lookups that stop at the first row are caught.
#[test]
fn a_lookup_that_takes_the_first_row_for_the_only_one_is_caught() {
    let caught = points::caught(
        Broken::SecondRowOfKeyMissed,
        &[("model", || {
            run(0, 500);
        })],
    );
    assert_eq!(caught, Some("model"));
}
