//! The threads that read and update.
//!
//! Invariants: every thread counts what it committed; the first error of one ends the run with it.
//! Does not do: time.

use rightlink::{Database, Isolation, Row, ScanOptions, Transaction, TransactionOptions, Value};
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use rightlink_env::{Rng, thread};

use crate::Failure;
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
        let (rows, unique) = (cell.get("rows")?, cell.get("unique")?);
        Ok(Setup { rows, unique, column, updates, threads: cell.get("threads")? })
    }

    /// Has no update ever changed a key of this index?
    pub(crate) fn is_fixed(&self, index: &str) -> bool {
        self.column != "a" || index != "t_a"
    }

    /// The index that rows are found by.
    pub(crate) fn key_index(&self) -> &'static str {
        if self.unique { "t_pkey" } else { "t_k" }
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

/// Threads at work.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    threads: Vec<thread::JoinHandle<Result<(), rightlink::Error>>>,
}

impl Load {
    /// Starts them.
    pub(crate) fn start(db: &Database, setup: &Setup) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let rows = (0..setup.rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let counts = Arc::new(Counts { updates: AtomicU64::new(0), rows });
        let spawn = |number: u64| {
            let (db, setup) = (db.clone(), setup.clone());
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            thread::spawn("load", move || work(&db, &setup, number, &stop, &counts))
        };
        let threads = (0..setup.threads).map(spawn).collect();
        Load { stop, counts, threads }
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

fn work(
    db: &Database,
    setup: &Setup,
    number: u64,
    stop: &AtomicBool,
    counts: &Counts,
) -> Result<(), rightlink::Error> {
    let mut zipf = Zipf::new(number + 1, setup.rows);
    let mut rng = Rng::from_seed(number + 1000);
    while !stop.load(Ordering::Relaxed) {
        let id = zipf.next();
        let isolation = Isolation::ReadCommitted;
        let mut txn =
            db.begin_with(TransactionOptions { relaxed: true, isolation, ..Default::default() });
        let found = setup.find(&mut txn, id)?;
        if rng.chance(setup.updates, 100)
            && let Some(row) = found
        {
            let value = Value::Int8(rng.below(1 << 62) as i64);
            if txn.update(TABLE, row.id, &[(setup.column, value)])? {
                counts.note(id);
            }
        }
        txn.commit()?;
    }
    Ok(())
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
