//! What a crash must not take away, case by case. The enumeration of all crash points is in
//! `crash.rs`; here stand the stories of single bugs.

use rightlink::{Database, IndexSchema, ScanOptions, TableSchema, Type, Value};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::CrashChoice;
use rightlink_env::Env;

fn open(disk: &SimDisk) -> Database {
    Database::options()
        .simulation(Env::simulated(1), disk.clone())
        .open("db")
        .expect("the database opens")
}

/// Pages of a bulk build are in no log record. Entries that are added to them afterwards must find
/// them there when they are replayed.
#[test]
fn entries_added_to_a_fresh_index_survive() {
    let disk = SimDisk::new(7);
    let db = open(&disk);
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("t").column("k", Type::Int8)).unwrap();
    let rows: Vec<_> = (0..1000).map(|k| vec![Value::Int8(k * 2)]).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.create_index("t", &IndexSchema::new("t_k").on("k")).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.insert("t", &[Value::Int8(501)]).unwrap();
    txn.commit().unwrap();
    let after = disk.crash_image(&CrashChoice::AllLost);
    let db = open(&after);
    let mut txn = db.begin();
    assert_eq!(txn.scan("t", &ScanOptions::all()).unwrap().count(), 1001);
    assert_eq!(txn.scan("t", &ScanOptions::index("t_k")).unwrap().count(), 1001);
    drop(txn);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report:?}");
}
