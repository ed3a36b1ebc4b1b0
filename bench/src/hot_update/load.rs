//! The threads that read and update.
//!
//! Invariants: every thread counts what it committed; the first error of one ends the run with it.
//! Does not do: time.

use rightlink::{Database, Isolation, Row, ScanOptions, Transaction, TransactionOptions, Value};
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use rightlink_env::{Clock, Rng, thread};

use crate::Failure;
use crate::hot_update::latency::{Histogram, Latencies};
use crate::hot_update::{SHARE, TABLE};
use crate::knobs::Cell;

/// Skew of the choice of rows.
const THETA: f64 = 1.1;

/// A cell's knobs, as far as the load cares.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) rows: u64,
    /// Are rows found by a unique key?
    pub(crate) unique: bool,
    /// All indexes, that of the key included.
    pub(crate) indexes: u64,
    pub(crate) fillfactor: u8,
    pub(crate) logged: bool,
    /// Column that an update sets.
    column: &'static str,
    /// Updates of a hundred transactions.
    updates: u64,
    threads: u64,
}

impl Setup {
    /// Reads a cell.
    pub(crate) fn of(cell: &Cell) -> Result<Setup, Failure> {
        let column = match cell.get::<String>("column")?.as_str() {
            "indexed" => "a",
            "unindexed" => "c",
            other => return Err(format!("column cannot be `{other}`").into()),
        };
        let updates = match cell.get::<String>("mix")?.as_str() {
            "updates" => 100,
            "50/50" => 50,
            "5/95" => 95,
            other => return Err(format!("mix cannot be `{other}`").into()),
        };
        Ok(Setup {
            rows: cell.get("rows")?,
            unique: cell.get("unique")?,
            indexes: cell.get("indexes")?,
            fillfactor: cell.get("fillfactor")?,
            logged: cell.get("logged")?,
            column,
            updates,
            threads: cell.get("threads")?,
        })
    }

    /// Has no update ever changed a key of this index?
    pub(crate) fn is_fixed(&self, index: &str) -> bool {
        self.column != "a" || index != "t_a"
    }

    /// The index that rows are found by.
    pub(crate) fn key_index(&self) -> &'static str {
        if self.unique { "t_pkey" } else { "t_k" }
    }

    /// Name and column of the indexes that nothing reads: one on `a`, the others on `b`.
    pub(crate) fn others(&self) -> Vec<(String, &'static str)> {
        let other = |number: u64| match number {
            1 => ("t_a".to_string(), "a"),
            2 => ("t_b".to_string(), "b"),
            number => (format!("t_b{number}"), "b"),
        };
        (1..self.indexes).map(other).collect()
    }

    fn find(&self, txn: &mut Transaction, id: u64) -> Result<Option<Row>, rightlink::Error> {
        if self.unique {
            return txn.get(TABLE, &[Value::Int8(id as i64)]);
        }
        let key = vec![Value::Int8((id / SHARE) as i64)];
        let rows = txn.scan(TABLE, &ScanOptions::index("t_k").equal(key))?;
        let mut last = None;
        for (nth, row) in rows.enumerate() {
            last = Some(row?);
            if nth as u64 == id % SHARE {
                break;
            }
        }
        Ok(last)
    }
}

/// Numbers below a bound, small ones most often: by rejection, as for any theta above 1.
pub(crate) struct Zipf {
    rng: Rng,
    below: u64,
    b: f64,
}

impl Zipf {
    /// Numbers below `below`.
    pub(crate) fn new(seed: u64, below: u64) -> Zipf {
        assert!(below > 0, "a number below one");
        Zipf { rng: Rng::from_seed(seed), below, b: 2f64.powf(THETA - 1.0) }
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        loop {
            let u = self.rng.unit_f64().max(1e-300);
            let v = self.rng.unit_f64();
            let x = u.powf(-1.0 / (THETA - 1.0)).floor();
            let t = (1.0 + 1.0 / x).powf(THETA - 1.0);
            if x <= self.below as f64 && v * x * (t - 1.0) / (self.b - 1.0) <= t / self.b {
                return x as u64 - 1;
            }
        }
    }
}

/// What the threads did.
struct Counts {
    updates: AtomicU64,
    /// A bit for each row that was updated.
    rows: Vec<AtomicU64>,
}

impl Counts {
    fn note(&self, id: u64) {
        self.updates.fetch_add(1, Ordering::Relaxed);
        let (word, bit) = (&self.rows[(id / 64) as usize], 1 << (id % 64));
        // Hot rows are noted soon, and then nobody stores there any more.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// How long the transactions of a thread took.
#[derive(Default)]
struct Timings {
    updates: Histogram,
    selects: Histogram,
}

/// How long those of all threads took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timed {
    pub(crate) updates: Latencies,
    pub(crate) selects: Latencies,
}

impl Timed {
    /// What was added since `earlier`.
    pub(crate) fn since(&self, earlier: &Timed) -> Timed {
        let updates = self.updates.since(&earlier.updates);
        Timed { updates, selects: self.selects.since(&earlier.selects) }
    }

    /// Adds other ones.
    pub(crate) fn join(&mut self, other: &Timed) {
        self.updates.join(&other.updates);
        self.selects.join(&other.selects);
    }

    /// Updates and selects together.
    pub(crate) fn all(&self) -> Latencies {
        let mut all = self.updates.clone();
        all.join(&self.selects);
        all
    }
}

/// Threads at work.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    timings: Vec<Arc<Timings>>,
    threads: Vec<thread::JoinHandle<Result<(), rightlink::Error>>>,
}

impl Load {
    /// Starts them.
    pub(crate) fn start(db: &Database, setup: &Setup) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let rows = (0..setup.rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let counts = Arc::new(Counts { updates: AtomicU64::new(0), rows });
        let timings: Vec<Arc<Timings>> = (0..setup.threads).map(|_| Arc::default()).collect();
        let spawn = |(number, timings): (usize, &Arc<Timings>)| {
            let (db, setup, timings) = (db.clone(), setup.clone(), Arc::clone(timings));
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            let worker = move || {
                let mut worker = Worker::new(&db, &setup, number as u64);
                while !stop.load(Ordering::Relaxed) {
                    worker.run(&counts, &timings)?;
                }
                Ok(())
            };
            thread::spawn("load", worker)
        };
        let threads = timings.iter().enumerate().map(spawn).collect();
        Load { stop, counts, timings, threads }
    }

    /// How long transactions took so far.
    pub(crate) fn timed(&self) -> Timed {
        let mut timed = Timed::default();
        for Timings { updates, selects } in self.timings.iter().map(|timings| &**timings) {
            timed.updates.add(updates);
            timed.selects.add(selects);
        }
        timed
    }

    /// Updates so far.
    pub(crate) fn updates(&self) -> u64 {
        self.counts.updates.load(Ordering::Relaxed)
    }

    /// Ends them; the updates of all, and the rows that they updated.
    pub(crate) fn stop(self) -> Result<(u64, u64), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|panicked| panicked.to_string())??;
        }
        let rows = self.counts.rows.iter().map(|word| word.load(Ordering::Relaxed).count_ones());
        Ok((self.counts.updates.load(Ordering::Relaxed), rows.map(u64::from).sum()))
    }
}

/// One thread of the load.
struct Worker<'a> {
    db: &'a Database,
    setup: &'a Setup,
    clock: Clock,
    zipf: Zipf,
    rng: Rng,
}

impl<'a> Worker<'a> {
    fn new(db: &'a Database, setup: &'a Setup, number: u64) -> Worker<'a> {
        let zipf = Zipf::new(number + 1, setup.rows);
        Worker { db, setup, clock: Clock::system(), zipf, rng: Rng::from_seed(number + 1000) }
    }

    /// One transaction.
    fn run(&mut self, counts: &Counts, timings: &Timings) -> Result<(), rightlink::Error> {
        let id = self.zipf.next();
        let is_update = self.rng.chance(self.setup.updates, 100);
        let value = Value::Int8(self.rng.below(1 << 62) as i64);
        let start = self.clock.now();
        let isolation = Isolation::ReadCommitted;
        let options = TransactionOptions { relaxed: true, isolation, ..Default::default() };
        let mut txn = self.db.begin_with(options);
        let found = self.setup.find(&mut txn, id)?;
        if let Some(row) = found.filter(|_| is_update)
            && txn.update(TABLE, row.id, &[(self.setup.column, value)])?
        {
            counts.note(id);
        }
        txn.commit()?;
        let timing = if is_update { &timings.updates } else { &timings.selects };
        timing.note(self.clock.now() - start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_come_most_often() {
        let mut zipf = Zipf::new(1, 1000);
        let mut counts = vec![0u32; 1000];
        (0..100_000).for_each(|_| counts[zipf.next() as usize] += 1);
        // The weight of n is n^-1.1: the sum of a thousand is 5.57.
        assert!((16_000..20_000).contains(&counts[0]), "{}", counts[0]);
        assert!((7_400..9_600).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[999] < 40, "{}", counts[999]);
    }
}
