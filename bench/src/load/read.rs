//! The processes that read rows by random secondary key (by primary key if there is no other): one
//! by one, or many at once.
//!
//! Invariants: every read row is compared with what was inserted. Cold reads are few beside the
//! table, so that most find their leaf and their row on the device; opening for reads leaves
//! nothing of the files in the page cache.
//! Does not do: ranges.

use std::path::Path;
use std::time::Duration;

use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::knobs::Cell;
use crate::load::engine::{Engine, Role};
use crate::load::open;
use crate::load::per_second;
use crate::load::wire::Figures;

const MOST_COLD: u64 = 20_000;
const MOST_PASS: u64 = 300_000;
const MOST_WARM: u64 = 200_000;
/// Rows that are read at once.
const MANY: u64 = 1_000;

struct Reader {
    engine: Box<dyn Engine>,
    clock: Clock,
    rng: Rng,
    rows: u64,
}

impl Reader {
    fn open(cell: &Cell, dir: &Path) -> Result<Reader, Failure> {
        let rows: u64 = cell.get("recovered")?;
        let engine = open::open(cell, dir, Role::Read)?;
        Ok(Reader { engine, clock: Clock::system(), rng: Rng::from_seed(rows), rows })
    }

    /// Reads `count` rows, `at_once` of them at once, or fewer when time is up; how many a second.
    fn read(&mut self, count: u64, at_once: u64, most: Duration) -> Result<f64, Failure> {
        if self.rows == 0 {
            return Ok(0.0);
        }
        let start = self.clock.now();
        let mut done = 0;
        while done < count && (done == 0 || self.clock.now() - start < most) {
            if at_once == 1 {
                let id = self.rng.below(self.rows);
                self.engine.read(id)?;
            } else {
                let ids: Vec<u64> = (0..at_once).map(|_| self.rng.below(self.rows)).collect();
                self.engine.read_many(&ids)?;
            }
            done += at_once;
        }
        Ok(per_second(done, self.clock.now() - start))
    }
}

fn most(cell: &Cell) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(cell.get("seconds")?) / 10)
}

/// As many reads as leave most of the table untouched.
fn cold(rows: u64) -> u64 {
    (rows / 20).clamp(20, MOST_COLD)
}

/// Reads cold, makes a pass, reads warm and sends `read`.
pub(crate) fn single(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let (mut reader, most) = (Reader::open(cell, dir)?, most(cell)?);
    let mut figures = Figures::default();
    figures.set("cold_reads_per_s", reader.read(cold(reader.rows), 1, most)?);
    reader.read(MOST_PASS.min(reader.rows * 2), 1, most * 2)?;
    figures.set("warm_reads_per_s", reader.read(MOST_WARM, 1, most)?);
    figures.send("read")?;
    Ok(())
}

/// Reads cold in batches and sends `batches`.
pub(crate) fn batches(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let (mut reader, most) = (Reader::open(cell, dir)?, most(cell)?);
    let count = cold(reader.rows);
    let mut figures = Figures::default();
    figures.set("cold_batch_reads_per_s", reader.read(count, MANY.min(count), most)?);
    figures.send("batches")?;
    Ok(())
}
