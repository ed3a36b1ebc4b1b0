//! The process that reads rows by random secondary key (by primary key if there is no other).
//!
//! Invariants: every read row is compared with what was inserted. Cold reads are few beside the
//! table, so that most find their leaf and their row on the device.
//! Does not do: reading in batches.

use std::path::Path;
use std::time::Duration;

use rightlink::{ScanOptions, Transaction};
use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::knobs::Cell;
use crate::load::wire::Figures;
use crate::load::{per_second, table};

const MOST_COLD: u64 = 20_000;
const MOST_PASS: u64 = 300_000;
const MOST_WARM: u64 = 200_000;

struct Reader {
    txn: Transaction,
    clock: Clock,
    rng: Rng,
    rows: u64,
    indexed: bool,
}

/// Reads cold, makes a pass, reads warm and sends `read`.
pub(crate) fn run(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let db = table::open(table::options(cell)?.create(false).direct(true), dir)?;
    let (rows, indexes): (u64, u32) = (cell.get("recovered")?, cell.get("indexes")?);
    let most = Duration::from_secs(cell.get("seconds")?) / 10;
    let rng = Rng::from_seed(rows);
    let mut reader =
        Reader { txn: db.begin(), clock: Clock::system(), rng, rows, indexed: indexes > 0 };
    let mut figures = Figures::default();
    let cold = (rows / 20).clamp(20, MOST_COLD);
    figures.set("cold_reads_per_s", reader.read(cold, most)?);
    reader.read(MOST_PASS.min(rows * 2), most * 2)?;
    figures.set("warm_reads_per_s", reader.read(MOST_WARM, most)?);
    figures.send("read")?;
    Ok(())
}

impl Reader {
    /// Reads `count` rows, or fewer when time is up; how many a second.
    fn read(&mut self, count: u64, most: Duration) -> Result<f64, Failure> {
        if self.rows == 0 {
            return Ok(0.0);
        }
        let start = self.clock.now();
        let mut done = 0;
        while done < count && (done == 0 || self.clock.now() - start < most) {
            self.read_one()?;
            done += 1;
        }
        Ok(per_second(done, self.clock.now() - start))
    }

    fn read_one(&mut self) -> Result<(), Failure> {
        let id = self.rng.below(self.rows);
        let wanted = table::row(id);
        let found = if self.indexed {
            let options = ScanOptions::index("t_u0").equal(vec![wanted[1].clone()]);
            self.txn.scan(table::TABLE, &options)?.next().transpose()?
        } else {
            self.txn.get(table::TABLE, &[table::key(id)])?
        };
        match found {
            Some(row) if row.values == wanted => Ok(()),
            _ => Err(format!("row {id} is not what was inserted").into()),
        }
    }
}
