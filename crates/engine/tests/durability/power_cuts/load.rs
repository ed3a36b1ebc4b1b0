//! Writers, and those who maintain, of one database, until they are stopped; see `power_cuts` for
//! what holds meanwhile.
//!
//! Invariants: threads come from `rightlink_env`, so that a rule broken by the test is broken in
//! them.
//! Does not do: check what is found.

use std::time::Duration;

use rightlink::{
    Database, Error, IndexSchema, Isolation, Result, RowId, ScanOptions, TableSchema, Transaction,
    TransactionOptions, Type, Value, Written,
};
use rightlink_env::Rng;
use rightlink_env::sync::{Arc, AtomicBool, AtomicI64, Ordering};
use rightlink_env::thread::{self, JoinHandle};

/// Threads that write.
pub(crate) const WRITERS: usize = 4;
/// Rows that are there from the start, beside the counters.
const ROWS: i64 = 400;
/// Of these, so many are changed half of the time.
const HOT: u64 = 5;
/// Values of column `g` lie below.
const GROUPS: u64 = 10_000;

/// What the counters of the writers may be.
pub(crate) struct Bounds {
    /// At least the last commit that was acknowledged as durable.
    pub(crate) acknowledged: Vec<i64>,
    /// At most the last commit that has begun.
    pub(crate) begun: Vec<i64>,
}

/// Id of the row that counts the commits of `writer`.
pub(crate) fn counter_row(writer: usize) -> i64 {
    -1 - writer as i64
}

pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int8(value) => *value,
        other => panic!("{other:?} is no number"),
    }
}

/// A text of `len` letters that begins with this number.
fn text(len: u64) -> Value {
    Value::Text(format!("{len}:{}", "y".repeat(len as usize)))
}

/// Is it one that [`text`] makes?
pub(crate) fn tells_its_length(value: &Value) -> bool {
    let Value::Text(found) = value else { return false };
    let len = found.split(':').next().and_then(|len| len.parse().ok());
    len.is_some_and(|len| *value == text(len))
}

/// Odd and even rows have opposite values, so that pairs add up to 0.
fn row(id: i64, len: u64) -> Vec<Value> {
    let value = if id % 2 == 0 { 1 } else { -1 };
    vec![Value::Int8(id), Value::Int8(value), Value::Int8(id * 7919 % GROUPS as i64), text(len)]
}

fn create(db: &Database) -> Result<()> {
    let mut txn = db.begin();
    let table = TableSchema::new("t").column("id", Type::Int8).column("v", Type::Int8);
    let table = table.column("g", Type::Int8).column("pad", Type::Text).primary_key(["id"]);
    let index = |column: &str| IndexSchema::new(format!("t_{column}")).on(column);
    txn.create_table(&table.index(index("g")).index(index("v")))?;
    let journal = TableSchema::new("journal").column("writer", Type::Int8).column("n", Type::Int8);
    txn.create_table(&journal.primary_key(["writer", "n"]))?;
    let counter = |writer| {
        let id = counter_row(writer);
        vec![Value::Int8(id), Value::Int8(0), Value::Int8(0), text(0)]
    };
    txn.insert_many("t", &(0..WRITERS).map(counter).collect::<Vec<_>>())?;
    txn.insert_many("t", &(0..ROWS).map(|id| row(id, id as u64 % 60)).collect::<Vec<_>>())?;
    txn.commit()
}

/// How a row is changed.
#[derive(Default)]
struct Change {
    /// Added to its value.
    add: i64,
    /// Letters of its new text.
    letters: Option<u64>,
}

/// Changes the row with this id; false if somebody else has changed it meanwhile.
fn change(txn: &mut Transaction, id: i64, change: &Change) -> Result<bool> {
    let mut done = false;
    txn.write::<(), Error>("t", |writer| {
        let Some(at) = writer.find("t_pkey", &[Value::Int8(id)])? else { return Ok(()) };
        writer.read_no_more();
        let written = writer.update(at, &mut |_, old| {
            let mut new = old.to_vec();
            new[1] = Value::Int8(int(&old[1]) + change.add);
            if let Some(letters) = change.letters {
                new[3] = text(letters);
            }
            Ok(Some(new))
        })?;
        done = matches!(written, Written::Done(_));
        Ok(())
    })?;
    Ok(done)
}

/// Counts one more commit of `writer`; its number.
fn count(txn: &mut Transaction, writer: usize) -> Result<i64> {
    let id = counter_row(writer);
    assert!(change(txn, id, &Change { add: 1, letters: None })?, "nobody else changes it");
    let found = txn.get("t", &[Value::Int8(id)])?.expect("a counter is never deleted");
    let number = int(&found.values[1]);
    txn.insert("journal", &[Value::Int8(writer as i64), Value::Int8(number)])?;
    Ok(number)
}

/// One transaction that counts for `writer` and moves 1 from one row to another.
pub(crate) fn transfer(db: &Database, writer: usize) -> Result<()> {
    let mut txn = db.begin();
    count(&mut txn, writer)?;
    let (from, to) = (Change { add: -1, letters: Some(3000) }, Change { add: 1, letters: None });
    assert!(change(&mut txn, 0, &from)? && change(&mut txn, 1, &to)?, "nobody else is there");
    txn.commit()
}

/// A running load.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    db: Database,
    stop: AtomicBool,
    failed: AtomicBool,
    /// Id of the next new row.
    next: AtomicI64,
    acknowledged: [AtomicI64; WRITERS],
    begun: [AtomicI64; WRITERS],
}

impl Load {
    /// Fills an empty database and starts the threads.
    pub(crate) fn start(db: Database, seed: u64) -> Load {
        create(&db).expect("an empty database");
        let counters = || std::array::from_fn(|_| AtomicI64::new(0));
        let (stop, failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (acknowledged, begun, next) = (counters(), counters(), AtomicI64::new(ROWS));
        let shared = Arc::new(Shared { db, stop, failed, next, acknowledged, begun });
        let mut threads = Vec::new();
        let mut start = |name: &str, work: Box<dyn FnOnce(&Shared) + Send>| {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(name, move || {
                let _watch = Watch(&shared);
                work(&shared);
            }));
        };
        for number in 0..WRITERS {
            let rng = Rng::from_seed(seed * 31 + number as u64);
            start("writes", Box::new(move |shared| Writer { shared, number, rng }.work()));
        }
        let rng = Rng::from_seed(seed * 31 + WRITERS as u64);
        start("maintains", Box::new(move |shared| maintain(shared, rng)));
        Load { shared, threads }
    }

    /// What each writer knows to be durable.
    pub(crate) fn acknowledged(&self) -> Vec<i64> {
        self.shared.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    /// The last commit that each writer has begun.
    pub(crate) fn begun(&self) -> Vec<i64> {
        self.shared.begun.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    /// Has a thread ended before its time?
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::SeqCst)
    }

    /// Stops all threads and closes the database; how many commits there were, or what a thread
    /// panicked with.
    pub(crate) fn stop(self) -> std::result::Result<i64, String> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let ends: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        for end in ends {
            end.map_err(|panic| panic.to_string())?;
        }
        Ok(self.shared.begun.iter().map(|count| count.load(Ordering::SeqCst)).sum())
    }
}

/// Tells that a thread has panicked.
struct Watch<'a>(&'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.failed.fetch_or(thread::panicking(), Ordering::SeqCst);
    }
}

/// Vacuums, checkpoints and empties the pool, beside what the database does by itself.
fn maintain(shared: &Shared, mut rng: Rng) {
    while !shared.stop.load(Ordering::Relaxed) {
        match rng.below(3) {
            0 => shared.db.vacuum(Some("t")).map(|_| ()).expect("a vacuum"),
            1 => shared.db.checkpoint().expect("a checkpoint"),
            _ => shared.db.evict().map(|_| ()).expect("pages leave"),
        }
        thread::sleep(Duration::from_millis(rng.below(30)));
    }
}

struct Writer<'a> {
    shared: &'a Shared,
    number: usize,
    rng: Rng,
}

impl Writer<'_> {
    fn work(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.one_transaction() {
                Ok(()) | Err(Error::Conflict { .. } | Error::LockTimeout { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn one_transaction(&mut self) -> Result<()> {
        let relaxed = self.rng.chance(1, 3);
        let isolation =
            if self.rng.chance(1, 2) { Isolation::ReadCommitted } else { Isolation::Snapshot };
        let lock_timeout = Some(Duration::from_secs(2));
        let options = TransactionOptions {
            isolation,
            relaxed,
            lock_timeout,
            ..TransactionOptions::default()
        };
        let mut txn = self.shared.db.begin_with(options);
        let number = count(&mut txn, self.number)?;
        let whole = match self.rng.below(8) {
            0 => self.insert(&mut txn).map(|()| true)?,
            1 => self.delete(&mut txn)?,
            2 => self.regroup(&mut txn).map(|()| true)?,
            _ => self.transfers(&mut txn).map(|()| true)?,
        };
        if !whole || self.rng.chance(1, 10) {
            txn.rollback();
            return Ok(());
        }
        self.shared.begun[self.number].store(number, Ordering::SeqCst);
        txn.commit()?;
        if !relaxed {
            self.shared.acknowledged[self.number].store(number, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Inserts pairs of rows.
    fn insert(&mut self, txn: &mut Transaction) -> Result<()> {
        let count = [4, 40, 300][self.rng.index(3)];
        let first = self.shared.next.fetch_add(count, Ordering::Relaxed);
        assert!(first % 2 == 0, "only pairs are inserted");
        let rows: Vec<_> = (first..first + count).map(|id| row(id, id as u64 % 300)).collect();
        txn.insert_many("t", &rows).map(|_| ())
    }

    /// Deletes up to sixty inserted rows that add up to 0. False if somebody has changed them
    /// meanwhile, so that it may be half done.
    fn delete(&mut self, txn: &mut Transaction) -> Result<bool> {
        let inserted = self.shared.next.load(Ordering::Relaxed) - ROWS;
        let low = ROWS + self.rng.below(inserted.max(1) as u64) as i64 / 2 * 2;
        let range = ScanOptions::index("t_pkey").from(vec![Value::Int8(low)]);
        let range = range.to(vec![Value::Int8(low + 59)]);
        let rows = txn.scan("t", &range)?.collect::<Result<Vec<_>>>()?;
        if rows.iter().map(|row| int(&row.values[1])).sum::<i64>() != 0 {
            return Ok(true);
        }
        let ids: Vec<RowId> = rows.iter().map(|row| row.id).collect();
        Ok(txn.delete_many("t", &ids)? as usize == ids.len())
    }

    /// Gives up to forty rows of one region of an index another place there.
    fn regroup(&mut self, txn: &mut Transaction) -> Result<()> {
        let group = |rng: &mut Rng| Value::Int8(rng.below(GROUPS) as i64);
        let some = ScanOptions::index("t_g").from(vec![group(&mut self.rng)]).limit(40);
        let rows = txn.scan("t", &some)?.collect::<Result<Vec<_>>>()?;
        let accounts = rows.iter().filter(|row| int(&row.values[0]) >= 0);
        let ids: Vec<RowId> = accounts.map(|row| row.id).collect();
        txn.update_many("t", &ids, &[("g", group(&mut self.rng))]).map(|_| ())
    }

    /// Moves amounts between rows, some of them taken back by a savepoint; now and then the row
    /// gets a text, which may be long.
    fn transfers(&mut self, txn: &mut Transaction) -> Result<()> {
        for _ in 0..=self.rng.below(3) {
            let rows = if self.rng.chance(1, 2) { HOT } else { ROWS as u64 };
            let (from, to) = (self.rng.below(rows) as i64, self.rng.below(rows) as i64);
            if from == to {
                continue;
            }
            let (amount, long) = (1 + self.rng.below(9) as i64, self.rng.chance(1, 9));
            let most = if long { 20_000 } else { 200 };
            let letters = self.rng.chance(1, 4).then(|| self.rng.below(most));
            let savepoint = txn.savepoint();
            let taken = change(txn, from, &Change { add: -amount, letters })?;
            let given = taken && change(txn, to, &Change { add: amount, letters: None })?;
            if !given || self.rng.chance(1, 6) {
                txn.rollback_to(savepoint)?;
            }
        }
        Ok(())
    }
}
