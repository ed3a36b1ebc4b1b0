//! A process that has as many files open as it may: what is open is read and written on, what needs
//! another file fails as such, and nothing ends for good.
//!
//! The limit is the process's, so no other test may run meanwhile.

use rightlink::{Database, Error, TableSchema, Transaction, Type, Value};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// `EMFILE`.
const TOO_MANY: i32 = 24;

/// Lets no file be opened while `work` runs.
fn without_descriptors<T>(work: impl FnOnce() -> T) -> T {
    let usual = getrlimit(Resource::Nofile);
    let maximum = usual.maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum }).expect("a lower limit");
    let done = work();
    setrlimit(Resource::Nofile, usual).expect("the limit that there was");
    done
}

fn insert(db: &Database, id: i64) -> Result<(), Error> {
    let mut txn = db.begin();
    txn.insert("t", &[Value::Int8(id), Value::Text("x".repeat(1000))])?;
    txn.commit()
}

fn count(txn: &mut Transaction) -> usize {
    let rows = txn.scan("t", &rightlink::ScanOptions::all()).expect("reads go on");
    rows.collect::<Result<Vec<_>, _>>().expect("reads go on").len()
}

/// The log comes to the end of the segments that are open. That once poisoned it in the middle of a
/// commit, although nothing was wrong with the disk.
#[test]
fn commits_go_on_as_far_as_the_open_log_reaches() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    let open = || Database::options().log_segment_bytes(64 << 10).open(dir.path());
    let db = open().unwrap();
    let schema = TableSchema::new("t").column("id", Type::Int8).column("x", Type::Text);
    let mut txn = db.begin();
    txn.create_table(&schema.primary_key(["id"])).unwrap();
    txn.commit().unwrap();
    insert(&db, -1).unwrap();
    let mut under_way = db.begin();
    under_way.insert("t", &[Value::Int8(-2), Value::Text("y".repeat(1000))]).unwrap();
    let (done, refused) = without_descriptors(|| {
        let mut done = 0;
        let refused = loop {
            match insert(&db, done) {
                Ok(()) => done += 1,
                Err(error) => break error,
            }
        };
        let again = insert(&db, done).expect_err("as before");
        assert_eq!(again.to_string(), refused.to_string());
        under_way.commit().expect("a commit needs no new file");
        assert_eq!(count(&mut db.begin()) as i64, done + 2);
        (done, refused)
    });
    println!("{done} rows, then: {refused}");
    assert!(matches!(&refused, Error::Io(error) if error.os == Some(TOO_MANY)), "{refused:?}");
    assert!(refused.to_string().contains("too many open files"), "{refused}");
    assert!(done < 1000, "{done} rows");
    for id in done..done + 500 {
        insert(&db, id).expect("files can be opened again");
    }
    db.checkpoint().unwrap();
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    let db = open().unwrap();
    assert_eq!(count(&mut db.begin()) as i64, done + 502);
    assert!(db.verify().unwrap().is_clean());
}
