//! Outcomes of transactions: their files come and go with the transaction ids that are in use.
//!
//! A file holds those of 4,096 pages of 1,020. The tests begin just before one is full.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;

use rightlink::{Database, Error, Options, ScanOptions, TableSchema, Transaction, Type, Value};
use rightlink_aio::SimDisk;
use rightlink_env::{Env, Rng};

/// Transaction ids of a segment.
const SEGMENT: u64 = 4096 * 1020;

fn options(disk: &SimDisk, first_xid: u64) -> Options {
    let options = Database::options().memory(8 << 20).pool_pages(128).auto_vacuum(false);
    options.first_xid(first_xid).simulation(Env::simulated(1), disk.clone())
}

fn create_table(db: &Database) {
    let schema = TableSchema::new("t").column("id", Type::Int8).column("n", Type::Int8);
    let mut txn = db.begin();
    txn.create_table(&schema.primary_key(["id"])).unwrap();
    txn.commit().unwrap();
}

/// Uses at least so many transaction ids.
fn use_xids(db: &Database, count: u64) {
    let kept = || db.stats().get("xids_left").unwrap();
    let end = kept() - count;
    while kept() > end {
        let mut txn = db.begin();
        for id in 0..20 {
            txn.insert("t", &[Value::Int8(-1 - id), Value::Int8(0)]).unwrap();
        }
        txn.rollback();
    }
}

/// The files of outcomes, as numbers of segments.
fn segments(disk: &SimDisk) -> Vec<u32> {
    let names = disk.files().into_iter().filter_map(|(name, _)| {
        u32::from_str_radix(name.rsplit_once("data/")?.1, 16).ok()?.checked_sub(1 << 31)
    });
    names.collect()
}

/// The next file is made before its first transaction id is used. A clean close lowers the limit
/// of transaction ids again, and may leave the file behind: that is no damage, and the next
/// opening removes it.
#[test]
fn a_file_made_ahead_of_its_use_is_no_damage() {
    let disk = SimDisk::new(3);
    let db = options(&disk, SEGMENT - 1500).open("db").unwrap();
    create_table(&db);
    use_xids(&db, 1060);
    db.close().unwrap();
    assert_eq!(segments(&disk), [0, 1], "the case this is about");
    let report = options(&disk, SEGMENT).verify_offline("db").unwrap();
    assert_eq!(report.findings, []);
    let db = options(&disk, SEGMENT).open("db").unwrap();
    assert_eq!(segments(&disk), [0]);
    use_xids(&db, 1000);
    assert_eq!(segments(&disk), [0, 1]);
    assert!(db.verify().unwrap().is_clean());
}

/// Every outcome is forgotten before a clean close. The file that the next transaction id belongs
/// to was given up then, and the database was taken for damaged when it was opened.
#[test]
fn a_database_that_needs_no_outcome_opens_again() {
    let disk = SimDisk::new(5);
    let db = options(&disk, SEGMENT - 1500).open("db").unwrap();
    create_table(&db);
    let mut txn = db.begin();
    txn.insert("t", &[Value::Int8(1), Value::Int8(1)]).unwrap();
    txn.commit().unwrap();
    db.vacuum(None).unwrap();
    db.close().unwrap();
    for id in 2..4 {
        let db = options(&disk, SEGMENT - 1500).open("db").unwrap();
        assert_eq!(db.stats().get("xids_kept"), Some(1), "the case this is about");
        assert_eq!(segments(&disk), [0]);
        let mut txn = db.begin();
        txn.insert("t", &[Value::Int8(id), Value::Int8(1)]).unwrap();
        txn.commit().unwrap();
        db.vacuum(None).unwrap();
        assert!(db.verify().unwrap().is_clean());
        db.close().unwrap();
    }
}

/// Ids are used up for good: reads go on, writes are refused by an error that says why.
#[test]
fn a_database_without_transaction_ids_can_be_read() {
    const LAST: u64 = ((1 << 31) - 1) * SEGMENT;
    let disk = SimDisk::new(4);
    let db = options(&disk, LAST - 1500).open("db").unwrap();
    create_table(&db);
    let refused = (0..2000).find_map(|id| {
        let mut txn = db.begin();
        let written = txn.insert("t", &[Value::Int8(id), Value::Int8(0)]);
        written.and_then(|_| txn.commit()).err()
    });
    let refused = refused.expect("there are fewer than 1,500 left");
    assert!(matches!(&refused, Error::Limit(what) if what.contains("used up")), "{refused}");
    assert_eq!(db.stats().get("xids_left"), Some(0));
    let rows = db.begin().scan("t", &ScanOptions::all()).unwrap().count();
    assert!(rows > 1000, "{rows} rows are there");
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    let db = options(&disk, LAST - 1).open("db").unwrap();
    assert_eq!(db.begin().scan("t", &ScanOptions::all()).unwrap().count(), rows);
    let again = db.begin().insert("t", &[Value::Int8(-1), Value::Int8(0)]);
    assert!(matches!(again, Err(Error::Limit(_))), "{again:?}");
    let beyond = options(&SimDisk::new(4), LAST).open("db").map(drop);
    assert!(matches!(beyond, Err(Error::Invalid(_))), "{beyond:?}");
}

type Rows = BTreeMap<i64, i64>;

fn rows(txn: &mut Transaction) -> Rows {
    let pair = |row: Vec<Value>| match row[..] {
        [Value::Int8(id), Value::Int8(n)] => (id, n),
        _ => panic!("two integers, not {row:?}"),
    };
    let scan = txn.scan("t", &ScanOptions::all()).unwrap();
    scan.map(|row| pair(row.unwrap().values)).collect()
}

/// One statement on a random row, and the same on `model`.
fn change(txn: &mut Transaction, rng: &mut Rng, model: &mut Rows) {
    let (id, n) = (rng.below(60) as i64, rng.below(1_000_000) as i64);
    let found = txn.get("t", &[Value::Int8(id)]).unwrap();
    assert_eq!(
        found.as_ref().map(|row| row.values[1].clone()),
        model.get(&id).map(|n| Value::Int8(*n))
    );
    match found {
        None => drop(txn.insert("t", &[Value::Int8(id), Value::Int8(n)]).unwrap()),
        Some(row) if rng.chance(1, 4) => {
            assert!(txn.delete("t", row.id).unwrap());
            model.remove(&id);
            return;
        }
        Some(row) => assert!(txn.update("t", row.id, &[("n", Value::Int8(n))]).unwrap()),
    }
    model.insert(id, n);
}

/// A transaction with savepoints, most of which are rolled back, on `model`.
fn transact(db: &Database, rng: &mut Rng, model: &mut Rows) {
    let mut txn = db.begin();
    let mut now = model.clone();
    for _ in 0..1 + rng.below(12) {
        let (savepoint, before) = (txn.savepoint(), now.clone());
        for _ in 0..1 + rng.below(6) {
            change(&mut txn, rng, &mut now);
        }
        if rng.chance(2, 3) {
            txn.rollback_to(savepoint).unwrap();
            now = before;
        }
    }
    if rng.chance(1, 4) {
        return txn.rollback();
    }
    txn.commit().unwrap();
    *model = now;
}

/// Snapshots that live long, savepoints that are rolled back, outcomes that are forgotten, files
/// that come and go, clean and unclean ends: each snapshot sees the same to its end, and what was
/// committed is there. `OUTCOMES_ROUNDS` sets the number of runs, `OUTCOMES_FIRST` the first seed.
#[test]
fn snapshots_and_rollbacks_outlive_the_files_of_outcomes() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("OUTCOMES_FIRST").unwrap_or(0);
    let (mut dropped, mut reopened) = (0, 0);
    for seed in first..first + number("OUTCOMES_ROUNDS").unwrap_or(6) {
        println!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        let disk = SimDisk::new(seed);
        let first_xid = SEGMENT - 500 - rng.below(4000);
        let open = || options(&disk, first_xid).open("db").unwrap();
        let mut db = open();
        create_table(&db);
        let mut model = Rows::new();
        let mut held: Vec<(Transaction, Rows)> = Vec::new();
        for _ in 0..400 {
            match rng.below(40) {
                0..=25 => transact(&db, &mut rng, &mut model),
                26 | 27 if held.len() < 4 => {
                    let mut txn = db.begin();
                    let seen = rows(&mut txn);
                    assert_eq!(seen, model, "seed {seed}");
                    held.push((txn, seen));
                }
                28 | 29 if !held.is_empty() => {
                    let at = rng.index(held.len());
                    assert_eq!(rows(&mut held[at].0), held[at].1, "seed {seed}: a snapshot");
                }
                30 | 31 if !held.is_empty() => {
                    let (mut txn, seen) = held.swap_remove(rng.index(held.len()));
                    assert_eq!(rows(&mut txn), seen, "seed {seed}: a snapshot at its end");
                }
                32..=34 => drop(db.vacuum(None).unwrap()),
                35 => db.checkpoint().unwrap(),
                36 => drop(db.evict().unwrap()),
                37 => use_xids(&db, 200),
                38 if rng.chance(1, 2) => {
                    for (mut txn, seen) in held.drain(..) {
                        assert_eq!(rows(&mut txn), seen, "seed {seed}: a snapshot at its end");
                    }
                    reopened += 1;
                    match rng.chance(1, 2) {
                        true => db.close().unwrap(),
                        false => {
                            disk.crash_at(disk.op_count());
                            drop(db);
                            disk.clear_faults();
                        }
                    }
                    db = open();
                    assert_eq!(rows(&mut db.begin()), model, "seed {seed}: opened again");
                    assert!(db.verify().unwrap().is_clean(), "seed {seed}: opened again");
                }
                _ => {
                    let report = db.verify().unwrap();
                    assert!(report.is_clean(), "seed {seed}: {:?}", report.findings);
                }
            }
        }
        drop(held);
        assert_eq!(rows(&mut db.begin()), model, "seed {seed}");
        db.close().unwrap();
        let report = options(&disk, first_xid).verify_offline("db").unwrap();
        assert_eq!(report.findings, [], "seed {seed}");
        dropped += usize::from(!segments(&disk).contains(&0));
    }
    println!("{reopened} times opened again, {dropped} times the first file went");
    assert!(first > 0 || dropped > 0 && reopened > 10, "{dropped} went, {reopened} reopened");
}
