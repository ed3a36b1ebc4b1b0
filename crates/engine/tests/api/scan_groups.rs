//! Index scans whose entries alternate between heap blocks: blocks are looked at once for several
//! rows, and nothing of that shows but that less is read.

use std::collections::BTreeMap;

use rightlink::{
    Database, Error, IndexSchema, Prefetch, RowId, Rows, ScanOptions, TableSchema, Transaction,
    Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_env::{Env, Rng};

const ROWS: i64 = 900;
const POLICIES: [Prefetch; 4] =
    [Prefetch::None, Prefetch::Simple, Prefetch::Adaptive, Prefetch::Fixed(9)];

/// What a table holds: rows by key, and how long their text is.
type Model = BTreeMap<i64, usize>;

fn open(disk: &SimDisk, pool_pages: usize) -> Database {
    let options = Database::options().pool_pages(pool_pages);
    options.simulation(Env::simulated(31), disk.clone()).open("db").unwrap()
}

/// Short rows, and some of which four fill a page.
fn length(rng: &mut Rng) -> usize {
    if rng.chance(1, 12) { 1800 } else { rng.below(60) as usize }
}

fn text(key: i64, len: usize) -> Value {
    Value::Text(char::from(b'a' + (key % 26) as u8).to_string().repeat(len))
}

/// Rows in an order that is off that of their keys by up to `fuzz` rows.
fn fill(db: &Database, rng: &mut Rng, fuzz: u64) -> Model {
    let schema = TableSchema::new("t").column("k", Type::Int8).column("pad", Type::Text);
    let schema = schema.column("n", Type::Int8).index(IndexSchema::new("t_k").on("k"));
    let mut keys: Vec<i64> = (0..ROWS).collect();
    keys.sort_by_cached_key(|key| *key as u64 + rng.below(fuzz));
    let rows: Vec<(i64, usize)> = keys.into_iter().map(|key| (key, length(rng))).collect();
    let mut txn = db.begin();
    txn.create_table(&schema.fillfactor(70)).unwrap();
    let row = |(key, len): &(i64, usize)| vec![Value::Int8(*key), text(*key, *len), Value::Int8(0)];
    txn.insert_many("t", &rows.iter().map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    rows.into_iter().collect()
}

fn of_row(row: &rightlink::Row) -> (i64, usize) {
    match &row.values[..] {
        [Value::Int8(key), Value::Text(pad), Value::Int8(_)] => {
            assert_eq!(Value::Text(pad.clone()), text(*key, pad.len()), "the text of its key");
            (*key, pad.len())
        }
        other => panic!("a row of the table, not {other:?}"),
    }
}

fn by_key() -> ScanOptions {
    ScanOptions::index("t_k")
}

fn found(txn: &mut Transaction, options: &ScanOptions) -> Vec<(i64, usize)> {
    txn.scan("t", options).unwrap().map(|row| of_row(&row.unwrap())).collect()
}

/// Every kind of scan finds what the model has.
fn agree(txn: &mut Transaction, model: &Model, rng: &mut Rng) {
    let wanted: Vec<_> = model.iter().map(|(key, len)| (*key, *len)).collect();
    assert_eq!(found(txn, &by_key()), wanted);
    let back: Vec<_> = wanted.iter().rev().copied().collect();
    assert_eq!(found(txn, &by_key().backward()), back);
    let mut any = found(txn, &by_key().any_order());
    any.sort_unstable();
    assert_eq!(any, wanted);
    let limit = 1 + rng.below(100) as usize;
    let cut = &wanted[..limit.min(wanted.len())];
    assert_eq!(found(txn, &by_key().limit(limit as u64)), cut);
    let keys = txn.scan("t", &by_key().columns(["k"])).unwrap();
    let keys: Vec<_> = keys.map(|row| row.unwrap().values[0].clone()).collect();
    let all: Vec<_> = wanted.iter().map(|(key, _)| Value::Int8(*key)).collect();
    assert_eq!(keys, all, "of the index alone");
    wander(txn, &wanted, rng);
}

/// Turns and goes back to marks in the middle of what is held.
fn wander(txn: &mut Transaction, wanted: &[(i64, usize)], rng: &mut Rng) {
    let mut rows: Rows = txn.scan("t", &by_key()).unwrap();
    // The row that comes next forwards, and the way.
    let (mut at, mut forwards) = (0, true);
    let mut mark = (rows.mark().unwrap(), at);
    for _ in 0..400 {
        match rng.below(12) {
            0 if at > 0 && at < wanted.len() => {
                rows.turn().unwrap();
                // The row that was handed over last is between the two ways.
                at = if forwards { at - 1 } else { at + 1 };
                forwards = !forwards;
            }
            1 if forwards => mark = (rows.mark().unwrap(), at),
            2 if forwards => {
                rows.restore(&mark.0).unwrap();
                at = mark.1;
            }
            _ => {
                let next =
                    if forwards { wanted.get(at) } else { at.checked_sub(1).map(|i| &wanted[i]) };
                let row = rows.next().map(|row| of_row(&row.unwrap()));
                assert_eq!(row.as_ref(), next, "{forwards} at {at}");
                if row.is_none() {
                    return;
                }
                at = if forwards { at + 1 } else { at - 1 };
            }
        }
    }
}

/// Rows change, leave and come, one way and another: by HOT chains, with new entries, undone.
fn change(txn: &mut Transaction, model: &mut Model, rng: &mut Rng) {
    let rows: Vec<(RowId, i64)> = txn
        .scan("t", &by_key())
        .unwrap()
        .map(|row| row.unwrap())
        .map(|row| (row.id, of_row(&row).0))
        .collect();
    for (id, key) in rows {
        match rng.below(20) {
            0 => {
                assert!(txn.delete("t", id).unwrap());
                model.remove(&key);
            }
            1 | 2 => assert!(txn.update("t", id, &[("n", Value::Int8(0))]).unwrap()),
            3 => {
                let len = length(rng);
                assert!(txn.update("t", id, &[("pad", text(key, len))]).unwrap());
                model.insert(key, len);
            }
            4 if !model.contains_key(&(key + 10_000)) => {
                let (new, len) = (key + 10_000, length(rng));
                let set = [("k", Value::Int8(new)), ("pad", text(new, len))];
                assert!(txn.update("t", id, &set).unwrap());
                model.remove(&key);
                model.insert(new, len);
            }
            _ => {}
        }
    }
}

/// Whatever the order of the heap, the policy and the changes: scans see what their snapshot does.
#[test]
fn scans_over_mixed_blocks_see_what_the_model_has() {
    for (seed, fuzz) in [(1, 1), (2, 40), (3, 300), (4, 10_000)] {
        let mut rng = Rng::from_seed(seed);
        let db = open(&SimDisk::new(seed), 64);
        let mut model = fill(&db, &mut rng, fuzz);
        for (round, policy) in POLICIES.iter().cycle().take(8).enumerate() {
            db.set_prefetch(*policy);
            db.evict().unwrap();
            agree(&mut db.begin(), &model, &mut rng);
            let (before, mut old) = (model.clone(), db.begin());
            assert_eq!(found(&mut old, &by_key().limit(1)).len(), 1);
            let mut txn = db.begin();
            change(&mut txn, &mut model, &mut rng);
            agree(&mut txn, &model, &mut rng);
            if round % 3 == 2 {
                txn.rollback();
                model.clone_from(&before);
            } else {
                txn.commit().unwrap();
            }
            agree(&mut db.begin(), &model, &mut rng);
            drop(old);
            if round == 5 {
                db.vacuum(Some("t")).unwrap();
            }
        }
        agree(&mut db.begin(), &model, &mut rng);
        assert!(db.verify().unwrap().is_clean());
    }
}

/// Pages that a cold scan reads with a policy.
fn pages_read(db: &Database, policy: Prefetch, options: &ScanOptions) -> u64 {
    db.set_prefetch(policy);
    db.evict().unwrap();
    let reads = || db.stats().get("pool_reads").unwrap();
    let before = reads();
    found(&mut db.begin(), options);
    reads() - before
}

/// A limit reads no page that its rows do not need, though a block is looked at for many at once,
/// and whatever is expected.
#[test]
fn a_limit_reads_no_page_more() {
    for fuzz in [1, 40, 300, 10_000] {
        let db = open(&SimDisk::new(7), 400);
        fill(&db, &mut Rng::from_seed(fuzz), fuzz);
        for limit in (1..20).chain([31, 63, 64, 65, 66, 100, 129, 200]) {
            let options = by_key().from(vec![Value::Int8(100)]).limit(limit);
            assert_eq!(found(&mut db.begin(), &options).len() as u64, limit);
            let none = pages_read(&db, Prefetch::None, &options);
            for expected_rows in [None, Some(limit), Some(u64::MAX)] {
                let options = ScanOptions { expected_rows, ..options.clone() };
                let adaptive = pages_read(&db, Prefetch::Adaptive, &options);
                assert_eq!(adaptive, none, "limit {limit}, fuzz {fuzz}, {expected_rows:?}");
            }
        }
        assert!(db.verify().unwrap().is_clean());
    }
}

/// A range reads the pages of its rows and no others, however many rows were expected.
#[test]
fn an_estimate_reads_no_page_more() {
    let value = |key| vec![Value::Int8(key)];
    for fuzz in [1, 300, 10_000] {
        let db = open(&SimDisk::new(8), 400);
        fill(&db, &mut Rng::from_seed(fuzz), fuzz);
        for options in [by_key(), by_key().backward(), by_key().any_order()] {
            for last in [101, 150, 700] {
                let options = options.clone().from(value(100)).to(value(last));
                let none = pages_read(&db, Prefetch::None, &options);
                for expected_rows in [None, Some(2), Some(600), Some(u64::MAX)] {
                    let options = ScanOptions { expected_rows, ..options.clone() };
                    let adaptive = pages_read(&db, Prefetch::Adaptive, &options);
                    assert_eq!(adaptive, none, "to {last}, fuzz {fuzz}, {expected_rows:?}");
                }
            }
        }
        assert!(db.verify().unwrap().is_clean());
    }
}

/// A page that cannot be read again, where a row of it did not fit what is held, stops the scan at
/// that row and not before.
#[test]
fn what_did_not_fit_is_read_again_in_its_turn() {
    let disk = SimDisk::new(8);
    let db = open(&disk, 16);
    let model = fill(&db, &mut Rng::from_seed(5), 300);
    let wanted: Vec<_> = model.into_iter().collect();
    let mut stopped = 0;
    for policy in POLICIES {
        db.set_prefetch(policy);
        for nth in (1..60).step_by(7) {
            db.evict().unwrap();
            disk.fail_nth(OpKind::Read, nth, FaultKind::Io, Repeat::Once);
            let mut txn = db.begin();
            let rows = txn.scan("t", &by_key()).unwrap();
            let rows: Vec<_> = rows.map_while(Result::ok).map(|row| of_row(&row)).collect();
            stopped += u32::from(rows.len() < wanted.len());
            assert_eq!(rows, wanted[..rows.len()], "{policy:?}, read {nth}");
            drop(txn);
            disk.clear_faults();
            assert_eq!(found(&mut db.begin(), &by_key()), wanted);
        }
    }
    assert!(stopped > 10, "{stopped} scans were stopped");
    assert!(db.verify().unwrap().is_clean());
}

/// A scan that saw what is undone ends with an error, through an index and without one: rows that
/// it went past would be back, others would have come twice. One that began before goes on.
#[test]
fn a_scan_ends_when_what_it_saw_is_undone() {
    for policy in POLICIES {
        let db = open(&SimDisk::new(9), 400);
        let model = fill(&db, &mut Rng::from_seed(9), 1);
        db.set_prefetch(policy);
        let mut txn = db.begin();
        txn.insert("t", &[Value::Int8(-50), text(7, 5), Value::Int8(0)]).unwrap();
        let mut before: Vec<_> =
            [by_key(), ScanOptions::all()].map(|scan| txn.scan("t", &scan).unwrap()).into();
        before.iter_mut().for_each(|rows| _ = rows.next().unwrap().unwrap());
        let savepoint = txn.savepoint();
        let doomed = by_key().from(vec![Value::Int8(3)]).limit(30);
        let ids: Vec<_> = txn.scan("t", &doomed).unwrap().map(|row| row.unwrap().id).collect();
        for id in ids {
            assert!(txn.delete("t", id).unwrap());
        }
        for key in -40..0 {
            txn.insert("t", &[Value::Int8(key), text(7, 5), Value::Int8(0)]).unwrap();
        }
        for scan in [by_key(), ScanOptions::all()] {
            let mut rows = txn.scan("t", &scan).unwrap();
            rows.next().unwrap().unwrap();
            before.push(rows);
        }
        txn.rollback_to(savepoint).unwrap();
        for mut rows in before.split_off(2) {
            for _ in 0..2 {
                let error = rows.next().unwrap().unwrap_err();
                assert!(matches!(&error, Error::Invalid(text) if text.contains("savepoint")));
            }
        }
        for rows in before {
            let rows = rows.collect::<Result<Vec<_>, _>>().unwrap();
            assert_eq!(rows.len(), model.len(), "{policy:?}");
        }
        let rest = txn.scan("t", &by_key()).unwrap().skip(1);
        let rest: Vec<_> = rest.map(|row| of_row(&row.unwrap())).collect();
        assert_eq!(rest, model.into_iter().collect::<Vec<_>>(), "{policy:?}");
        drop(txn);
        assert!(db.verify().unwrap().is_clean());
    }
}
