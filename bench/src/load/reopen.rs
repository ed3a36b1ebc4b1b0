//! The process that opens after the kill.
//!
//! Invariants: a durable row that was acknowledged and is gone is an error, not a figure.
//! Does not do: the whole proof that recovery is right (the crash tests do).

use std::path::Path;

use rightlink_env::Clock;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::engine::{Role, Written};
use crate::load::open;
use crate::load::table;

/// Opens, times it, looks for the last acknowledged row, checkpoints and sends `reopened`.
pub(crate) fn run(cell: &Cell, dir: &Path) -> Result<(), Failure> {
    let clock = Clock::system();
    let start = clock.now();
    let mut engine = open::open(cell, dir, Role::Reopen)?;
    let time = clock.now() - start;
    let rows = engine.rows()?;
    let acknowledged: u64 = cell.get("acknowledged")?;
    if cell.get("durable")? && rows < acknowledged {
        return Err(format!("{acknowledged} rows were acknowledged, {rows} are there").into());
    }
    let pages = engine.pages()?;
    engine.settle()?;
    // Redo writes pages, too: everything since the opening counts.
    let mut figures = engine.written()?.since(&Written::default());
    let fits = match pages {
        Some(pages) => pages <= table::pool_pages(cell)?,
        None => cell.get("fits_memory")?,
    };
    figures.set("open_after_kill_ms", time.as_secs_f64() * 1e3);
    figures.set("recovered", rows);
    figures.set("fits_memory", fits);
    engine.close()?;
    figures.send("reopened")?;
    Ok(())
}
