//! No false alarms: verify runs again and again beside writers and vacuum.

use std::time::Duration;

use rightlink::{Database, Error, IndexSchema, TableSchema, Type, Value};
use rightlink_env::sync::{AtomicBool, Ordering};
use rightlink_env::{Clock, Rng};

fn seconds() -> u64 {
    std::env::var("VERIFY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn row(rng: &mut Rng, id: i64) -> Vec<Value> {
    let name = format!("{:0width$}", rng.below(50), width = 1 + rng.below(60) as usize);
    vec![Value::Int8(id), Value::Text(name), Value::Int4(rng.below(1000) as i32)]
}

/// One random transaction, ended at random; lost races are part of the game.
fn work(db: &Database, rng: &mut Rng) -> Result<(), Error> {
    let mut txn = db.begin();
    for _ in 0..=rng.below(8) {
        let id = rng.below(2000) as i64;
        match (txn.get("t", &[Value::Int8(id)])?, rng.below(4)) {
            (None, _) => drop(txn.insert("t", &row(rng, id))?),
            (Some(found), 0) => drop(txn.delete("t", found.id)?),
            (Some(found), 1) => {
                let name = row(rng, id).swap_remove(1);
                txn.update("t", found.id, &[("name", name)])?;
            }
            (Some(found), _) => {
                txn.update("t", found.id, &[("n", Value::Int4(rng.below(9) as i32))])?;
            }
        }
    }
    if rng.chance(1, 4) {
        txn.rollback();
        return Ok(());
    }
    txn.commit()
}

#[test]
fn no_false_alarm_beside_writers_and_vacuum() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).pool_pages(300).open(dir.path()).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .column("n", Type::Int4)
        .primary_key(["id"])
        .index(IndexSchema::new("t_name").on("name"))
        .index(IndexSchema::new("t_name_id").on_desc("name").on("id"));
    txn.create_table(&schema).unwrap();
    txn.commit().unwrap();
    let stop = AtomicBool::new(false);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed);
                while !stop.load(Ordering::Relaxed) {
                    match work(db, &mut rng) {
                        Ok(()) | Err(Error::Conflict { .. } | Error::UniqueViolation { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.vacuum(None).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        scope.spawn(|| {
            // A table that comes and goes.
            while !stop.load(Ordering::Relaxed) {
                let other = TableSchema::new("u").column("id", Type::Int8).primary_key(["id"]);
                db.with_retry(|txn| txn.create_table(&other)).unwrap();
                db.with_retry(|txn| txn.insert("u", &[Value::Int8(1)])).unwrap();
                // Vacuum wants the same lock to cut the tail.
                db.with_retry(|txn| txn.drop_table("u")).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let clock = Clock::system();
        let started = clock.now();
        let mut findings = Vec::new();
        while clock.now().since(started) < Duration::from_secs(seconds()) && findings.is_empty() {
            findings = db.verify().unwrap().findings;
            rounds += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(findings, [], "in round {rounds}");
    });
    println!("{rounds} rounds");
    assert!(rounds > 0);
    assert_eq!(db.verify().unwrap().findings, []);
    db.close().unwrap();
    assert_eq!(Database::verify_offline(dir.path()).unwrap().findings, []);
}
