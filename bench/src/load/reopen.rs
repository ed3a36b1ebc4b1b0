//! The process that opens after the kill.
//!
//! Invariants: a durable row that was acknowledged and is gone is an error, not a figure.
//! Does not do: the whole proof that recovery is right (the crash tests do).

use std::path::Path;

use rightlink::{Database, ScanOptions, Value};
use rightlink_env::Clock;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::fill::Written;
use crate::load::table;

/// Opens, times it, looks for the last acknowledged row, checkpoints and sends `reopened`.
pub(crate) fn run(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let clock = Clock::system();
    let options = table::options(cell)?.create(false);
    let start = clock.now();
    let db = table::open(options, dir)?;
    let time = clock.now() - start;
    let rows = rows(&db)?;
    let acknowledged: u64 = cell.get("acknowledged")?;
    if cell.get("durable")? && rows < acknowledged {
        return Err(format!("{acknowledged} rows were acknowledged, {rows} are there").into());
    }
    db.checkpoint()?;
    // Redo writes pages, too: everything since the opening counts.
    let pages = table::pages(&db)?;
    let mut figures = Written::of(&db).since(&Written::nothing());
    figures.set("open_after_kill_ms", time.as_secs_f64() * 1e3);
    figures.set("recovered", rows);
    figures.set("fits_memory", pages <= table::pool_pages(cell)?);
    db.close()?;
    figures.send("reopened")?;
    Ok(())
}

/// One more than the largest `id`: ids are given out without gaps and committed in order.
fn rows(db: &Database) -> Result<u64, Failure> {
    let mut txn = db.begin();
    let last = ScanOptions::index("t_pkey").backward().limit(1).columns(["id"]);
    let Some(row) = txn.scan(table::TABLE, &last)?.next() else { return Ok(0) };
    match row?.values.as_slice() {
        [Value::Int8(id)] => Ok(u64::try_from(*id)? + 1),
        other => Err(format!("a primary key that was never inserted: {other:?}").into()),
    }
}
