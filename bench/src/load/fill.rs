//! The process that loads and is killed.
//!
//! Invariants: what it sends as acknowledged is committed; making the rows is not timed. It ends by
//! itself when nobody reads its lines.
//! Does not do: ending cleanly.

use std::path::Path;
use std::time::Duration;

use rightlink::{Database, TransactionOptions, Value};
use rightlink_env::Clock;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::wire::Figures;
use crate::load::{per_second, table};

/// Batches after the measured ones, should the kill not come.
const TAIL_BATCHES: u32 = 100_000;

struct Fill {
    db: Database,
    clock: Clock,
    batch: u64,
    durable: bool,
    rows: u64,
    /// Seconds of each batch, the commit included.
    times: Vec<f64>,
}

/// Loads, sends `loaded`, then inserts on and sends `tail` after each batch.
pub(crate) fn run(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let db = table::open(table::options(cell)?, dir)?;
    let mut txn = db.begin();
    txn.create_table(&table::schema(cell.get("indexes")?))?;
    txn.commit()?;
    let (batch, durable) = (cell.get("batch")?, cell.get("durable")?);
    let mut fill = Fill { db, clock: Clock::system(), batch, durable, rows: 0, times: Vec::new() };
    let before = Written::of(&fill.db);
    fill.load(cell.get("rows")?, Duration::from_secs(cell.get("seconds")?))?;
    fill.figures(&before)?.send("loaded")?;
    for _ in 0..TAIL_BATCHES {
        fill.insert()?;
        let mut figures = Written::of(&fill.db).since(&before);
        figures.set("acknowledged", fill.rows);
        figures.send("tail")?;
    }
    Ok(())
}

impl Fill {
    fn load(&mut self, rows: u64, most: Duration) -> Result<(), Failure> {
        let start = self.clock.now();
        while self.rows < rows && (self.rows == 0 || self.clock.now() - start < most) {
            self.insert()?;
        }
        Ok(())
    }

    fn insert(&mut self) -> Result<(), Failure> {
        let rows: Vec<Vec<Value>> = (self.rows..self.rows + self.batch).map(table::row).collect();
        let start = self.clock.now();
        let relaxed = !self.durable;
        let mut txn = self.db.begin_with(TransactionOptions { relaxed, ..Default::default() });
        txn.insert_many(table::TABLE, &rows)?;
        txn.commit()?;
        self.times.push((self.clock.now() - start).as_secs_f64());
        self.rows += self.batch;
        Ok(())
    }

    fn figures(&self, before: &Written) -> Result<Figures, Failure> {
        let mut figures = Written::of(&self.db).since(before);
        let last = &self.times[self.times.len() - self.times.len().div_ceil(10)..];
        let worst = self.times.iter().copied().fold(0.0, f64::max);
        figures.set("rows", self.rows);
        figures.set("rows_per_s", self.rate(&self.times));
        figures.set("last_tenth_rows_per_s", self.rate(last));
        figures.set("worst_batch_ms", worst * 1e3);
        figures.set("peak_rss_bytes", peak_rss_bytes()?);
        Ok(figures)
    }

    fn rate(&self, times: &[f64]) -> f64 {
        let time = Duration::from_secs_f64(times.iter().sum());
        per_second(times.len() as u64 * self.batch, time)
    }
}

/// Bytes that went to log, double-write area and data files.
pub(crate) struct Written([(&'static str, u64); 3]);

impl Written {
    /// Before anything was written.
    pub(crate) fn nothing() -> Written {
        Written([("log_bytes", 0), ("double_write_bytes", 0), ("data_bytes", 0)])
    }

    /// Since `db` was opened.
    pub(crate) fn of(db: &Database) -> Written {
        let stats = db.stats();
        let get = |name| stats.get(name).expect("the engine counts this");
        Written([
            ("log_bytes", get("log_bytes")),
            ("double_write_bytes", get("double_write_bytes")),
            ("data_bytes", get("pool_written_pages") * 8192),
        ])
    }

    /// The difference, as figures.
    pub(crate) fn since(&self, before: &Written) -> Figures {
        let mut figures = Figures::default();
        for ((name, now), (_, then)) in self.0.iter().zip(before.0) {
            assert!(*now >= then, "counters only grow");
            figures.set(name, now - then);
        }
        figures
    }
}

/// The most memory that this process ever had resident.
fn peak_rss_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kilobytes.ok_or("the kernel does not tell the peak")?.parse::<u64>()? * 1024)
}
