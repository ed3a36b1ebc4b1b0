//! The process that loads and is killed.
//!
//! Invariants: what it sends as acknowledged is committed; making the rows is not timed. It ends by
//! itself when nobody reads its lines.
//! Does not do: ending cleanly.

use std::path::Path;
use std::time::Duration;

use rightlink_env::Clock;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::engine::{Engine, Role, Written};
use crate::load::open;
use crate::load::per_second;
use crate::load::wire::Figures;

/// Batches after the measured ones, should the kill not come.
const TAIL_BATCHES: u32 = 100_000;

struct Fill {
    engine: Box<dyn Engine>,
    clock: Clock,
    batch: u64,
    rows: u64,
    /// Seconds of each batch, the commit included.
    times: Vec<f64>,
}

/// Loads, sends `loaded`, then inserts on and sends `tail` after each batch.
pub(crate) fn run(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let engine = open::open(cell, dir, Role::Fill)?;
    let (clock, batch) = (Clock::system(), cell.get("batch")?);
    let mut fill = Fill { engine, clock, batch, rows: 0, times: Vec::new() };
    let before = fill.engine.written()?;
    fill.load(cell.get("rows")?, Duration::from_secs(cell.get("seconds")?))?;
    let figures = fill.figures(&before)?;
    fill.engine.settle()?;
    figures.send("loaded")?;
    for _ in 0..TAIL_BATCHES {
        fill.insert()?;
        let mut figures = fill.engine.written()?.since(&before);
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
        self.engine.prepare(self.rows..self.rows + self.batch);
        let start = self.clock.now();
        self.engine.insert()?;
        self.times.push((self.clock.now() - start).as_secs_f64());
        self.rows += self.batch;
        Ok(())
    }

    fn figures(&self, before: &Written) -> Result<Figures, Failure> {
        let mut figures = self.engine.written()?.since(before);
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

/// The most memory that this process ever had resident.
fn peak_rss_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kilobytes.ok_or("the kernel does not tell the peak")?.parse::<u64>()? * 1024)
}
