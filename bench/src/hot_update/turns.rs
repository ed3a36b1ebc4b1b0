//! Two policies of hints in turns on one table, under one load: what cells one after the other
//! cannot tell, because the machine is not the same for both.
//!
//! Invariants: who goes first changes from pair to pair. Does not do: pages, leaves.

use std::path::Path;
use std::time::Duration;

use rightlink::DeadHints;
use rightlink_env::Clock;

use crate::Failure;
use crate::args::Size;
use crate::hot_update::load::{Load, Setup};
use crate::hot_update::slices::Watch;
use crate::hot_update::yardstick::Yardstick;
use crate::hot_update::{fill, open, park};
use crate::knobs::Cell;
use crate::stats::pairs;

/// Pairs of turns.
const PAIRS: usize = 20;

/// Updates with `other` per update with `epoch`: the mean, and a bound that it is above with 95
/// % of certainty.
pub(crate) fn other_by_epoch(
    cell: &Cell,
    other: DeadHints,
    dir: &Path,
    size: Size,
) -> Result<(f64, f64), Failure> {
    let (setup, clock) = (Setup::of(cell)?, Clock::system());
    let turn = Duration::from_millis(if size == Size::Quick { 50 } else { 1000 });
    let db = open(&setup, dir)?;
    fill(&db, &setup)?;
    let parked = park(&db, &setup, cell.get("idle_scan")?, cell.get("old_snapshot")?)?;
    let mut yardstick = Yardstick::new();
    let load = Load::start(&db, &setup);
    let mut watch = Watch::new(&db, &clock, &load, &mut yardstick);
    // What caches and the log's segments need at first.
    watch.slice(turn * 4);
    let mut speed = |hints| {
        db.set_dead_hints(hints);
        watch.slice(turn).updates_per_s.max(1.0)
    };
    let ratio = |pair: usize| match pair % 2 {
        0 => speed(other) / speed(DeadHints::Epoch),
        _ => 1.0 / (speed(DeadHints::Epoch) / speed(other)),
    };
    let ratios: Vec<f64> = (0..PAIRS).map(ratio).collect();
    load.stop()?;
    drop(parked);
    db.close()?;
    Ok(pairs(&ratios))
}
