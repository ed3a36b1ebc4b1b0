//! Operations on a database and on a sorted map; with crashes, after which both hold the commits.

use std::collections::BTreeMap;

use rightlink::{
    Database, Error, IndexSchema, Row, ScanOptions, TableSchema, Transaction, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::CrashChoice;
use rightlink_env::Env;

use crate::input::Input;

/// Most operations of one input.
const MOST: usize = 120;

type Map = BTreeMap<i64, String>;

/// Runs the bytes as operations and compares at each crash and at the end.
pub fn target(data: &[u8]) {
    let mut input = Input(data);
    let mut run = Run::new();
    let mut txn = run.db.begin();
    for _ in 0..MOST {
        if input.is_empty() {
            break;
        }
        match input.byte() % 16 {
            0..=9 => run.statement(&mut txn, &mut input),
            10 => run.savepoint(&mut txn, &mut input),
            11 => txn = run.end(txn, true),
            12 => txn = run.end(txn, false),
            13 => txn = run.upkeep(txn, input.byte()),
            14 => run.compare(&mut txn),
            _ => txn = run.crash(txn, &mut input),
        }
    }
    run.compare(&mut txn);
    let mut txn = run.end(txn, true);
    run.compare(&mut txn);
    drop(txn);
    let report = run.db.verify().expect("a sound disk");
    assert!(report.is_clean(), "{report:?}");
}

struct Run {
    disk: SimDisk,
    db: Database,
    committed: Map,
    /// What the running transaction sees.
    current: Map,
}

fn open(disk: &SimDisk) -> Database {
    let options = Database::options().log_segment_bytes(1 << 20).pool_pages(64);
    options.simulation(Env::simulated(1), disk.clone()).open("db").expect("a sound disk")
}

impl Run {
    fn new() -> Run {
        let disk = SimDisk::new(1);
        let db = open(&disk);
        let mut txn = db.begin();
        let schema = TableSchema::new("t").column("k", Type::Int8).column("v", Type::Text);
        let indexes = schema.primary_key(["k"]).index(IndexSchema::new("t_v").on("v"));
        txn.create_table(&indexes).and_then(|()| txn.commit()).expect("a table");
        Run { disk, db, committed: Map::new(), current: Map::new() }
    }

    fn statement(&mut self, txn: &mut Transaction, input: &mut Input<'_>) {
        let (kind, k) = (input.byte() % 4, i64::from(input.byte() % 48));
        // A long value now and then, so that pages fill and split.
        let v = format!("{:0>1$}", input.byte() % 8, usize::from(input.byte()) * 4);
        match kind {
            0 | 1 => self.insert(txn, k, v),
            2 => self.update(txn, k, v),
            _ => self.delete(txn, k),
        }
    }

    fn insert(&mut self, txn: &mut Transaction, k: i64, v: String) {
        let result = txn.insert("t", &[Value::Int8(k), Value::Text(v.clone())]);
        match result {
            Ok(_) => assert!(self.current.insert(k, v).is_none(), "{k} was there already"),
            Err(Error::UniqueViolation { .. }) => assert!(self.current.contains_key(&k)),
            Err(other) => panic!("insert {k}: {other}"),
        }
    }

    fn row(&self, txn: &mut Transaction, k: i64) -> Option<Row> {
        let row = txn.get("t", &[Value::Int8(k)]).expect("a sound disk");
        let expected = self.current.get(&k).map(|v| vec![Value::Int8(k), Value::Text(v.clone())]);
        assert_eq!(row.as_ref().map(|row| &row.values), expected.as_ref());
        row
    }

    fn update(&mut self, txn: &mut Transaction, k: i64, v: String) {
        let Some(row) = self.row(txn, k) else { return };
        let set = [("v", Value::Text(v.clone()))];
        assert!(txn.update("t", row.id, &set).expect("nobody else writes"));
        self.current.insert(k, v);
    }

    fn delete(&mut self, txn: &mut Transaction, k: i64) {
        let Some(row) = self.row(txn, k) else { return };
        assert!(txn.delete("t", row.id).expect("nobody else writes"));
        self.current.remove(&k);
    }

    /// Some statements and back again.
    fn savepoint(&mut self, txn: &mut Transaction, input: &mut Input<'_>) {
        let (savepoint, before) = (txn.savepoint(), self.current.clone());
        for _ in 0..input.below(6) {
            self.statement(txn, input);
        }
        txn.rollback_to(savepoint).expect("a savepoint of this transaction");
        self.current = before;
    }

    fn end(&mut self, txn: Transaction, commit: bool) -> Transaction {
        if commit {
            txn.commit().expect("nobody else writes");
            self.committed = self.current.clone();
        } else {
            txn.rollback();
            self.current = self.committed.clone();
        }
        self.db.begin()
    }

    /// Vacuum waits for whoever changed the table, so the transaction ends before it.
    fn upkeep(&mut self, txn: Transaction, choice: u8) -> Transaction {
        match choice % 3 {
            0 => drop(self.db.step().expect("a sound disk")),
            1 => self.db.checkpoint().expect("a sound disk"),
            _ => {
                let txn = self.end(txn, true);
                self.db.vacuum(None).expect("a sound disk");
                return txn;
            }
        }
        txn
    }

    /// Cuts the power, with some of what was not synced kept, and opens what is left.
    fn crash(&mut self, txn: Transaction, input: &mut Input<'_>) -> Transaction {
        let choice = match input.byte() % 4 {
            0 => CrashChoice::AllLost,
            1 => CrashChoice::AllKept,
            2 => CrashChoice::Prefix(input.below(64)),
            _ => CrashChoice::Subset(u64::from(input.u16())),
        };
        let after = self.disk.crash_image(&choice);
        drop(txn);
        self.db = open(&after);
        self.disk = after;
        self.current = self.committed.clone();
        let mut txn = self.db.begin();
        self.compare(&mut txn);
        txn
    }

    /// Heap and both indexes, both ways, hold what the map holds.
    fn compare(&self, txn: &mut Transaction) {
        let by_key: Vec<_> = self.current.iter().map(|(k, v)| (*k, v.clone())).collect();
        let mut heap = rows(txn, &ScanOptions::all());
        heap.sort();
        assert_eq!(heap, by_key, "the heap");
        assert_eq!(rows(txn, &ScanOptions::index("t_pkey")), by_key, "the primary key");
        let mut by_value = rows(txn, &ScanOptions::index("t_v"));
        assert!(by_value.is_sorted_by_key(|(_, v)| v.clone()), "in order of the index");
        let mut backward = rows(txn, &ScanOptions::index("t_v").backward());
        backward.reverse();
        assert_eq!(by_value, backward, "both ways the same");
        by_value.sort();
        assert_eq!(by_value, by_key, "the other index");
    }
}

fn rows(txn: &mut Transaction, options: &ScanOptions) -> Vec<(i64, String)> {
    let pair = |row: Row| match <[Value; 2]>::try_from(row.values) {
        Ok([Value::Int8(k), Value::Text(v)]) => (k, v),
        other => panic!("no row of this table: {other:?}"),
    };
    let rows = txn.scan("t", options).expect("a sound disk");
    rows.map(|row| pair(row.expect("a sound disk"))).collect()
}

/// Inserts that split pages, updates, deletes, savepoints, crashes.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut inserts = Vec::new();
    for k in 0..40 {
        inserts.extend([0, 0, k, k * 5, 200]);
    }
    let commit = vec![11];
    let mut changes = Vec::new();
    for k in 0..20 {
        changes.extend([1, 2 + k % 2, k * 2, k, 60]);
    }
    let crash = vec![15, 0, 14, 13, 2, 13, 1];
    let savepoint = vec![10, 3, 0, 45, 1, 1, 2, 3, 1, 1, 3, 5, 1, 1];
    vec![
        [&inserts[..], &commit, &changes, &commit, &crash, &changes].concat(),
        [&inserts[..], &commit, &savepoint, &changes, &crash, &savepoint, &commit].concat(),
        [&inserts[..100], &[12], &savepoint, &changes, &[15, 3, 7, 7], &commit].concat(),
        [&changes[..], &commit, &[13, 0, 13, 2], &inserts, &[15, 2, 9]].concat(),
    ]
}
