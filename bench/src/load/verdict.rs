//! What the figures say beside the peers': a line for each target.
//!
//! Invariants: the time to open after a kill is judged of all cells; the rest only of those with 5
//! indexes, batches of 1,000 and relaxed commits. A target that needs a peer says nothing without
//! one. Reads are judged where everything fits: beyond memory engines reach tables of different
//! sizes in the same time.
//! Does not do: ending the run.

use crate::Failure;
use crate::load::engine::OURS;
use crate::load::wire::Figures;
use crate::report::say;

/// Peers that keep pages in a tree, as ours does.
const TREES: &[&str] = &["lmdb", "redb", "sqlite"];
const OPEN_MS: f64 = 5_000.0;

/// Says for each memory whether the targets are kept.
pub(super) fn say_all(cells: &[Figures]) -> Result<(), Failure> {
    openings(cells)?;
    for roomy in [true, false] {
        let mut judged = Vec::new();
        for cell in cells {
            let same = cell.get::<u32>("indexes")? == 5
                && cell.get::<u64>("batch")? == 1000
                && !cell.get::<bool>("durable")?
                && cell.get::<bool>("fits_memory")? == roomy;
            judged.extend(same.then_some(cell));
        }
        let engine = |cell: &Figures| cell.get::<String>("engine").unwrap_or_default();
        let Some(ours) = judged.iter().find(|cell| engine(cell) == OURS) else { continue };
        let peers: Vec<_> = judged.iter().filter(|cell| engine(cell) != OURS).copied().collect();
        let all = |_: &str| true;
        let trees = |name: &str| TREES.contains(&name);
        if roomy {
            Target { what: "rows/s in memory", figure: "rows_per_s", least: 2.0 }
                .judge(ours, &peers, all)?;
            Target { what: "warm reads", figure: "warm_reads_per_s", least: 1.2 }.judge(
                ours,
                &peers,
                |name| name == "redb",
            )?;
            Target { what: "cold reads of 1,000", figure: "cold_batch_reads_per_s", least: 2.0 }
                .judge(ours, &peers, all)?;
        } else {
            Target { what: "rows/s beyond memory", figure: "rows_per_s", least: 1.0 }
                .judge(ours, &peers, trees)?;
        }
        limits(ours)?;
    }
    Ok(())
}

/// A figure of ours to that of a peer.
struct Target {
    what: &'static str,
    figure: &'static str,
    /// The least that the ratio may be.
    least: f64,
}

impl Target {
    /// Ours to the best peer among those that `which` takes.
    fn judge(
        &self,
        ours: &Figures,
        peers: &[&Figures],
        which: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let Target { what, figure, least } = *self;
        let mut best: Option<(f64, String)> = None;
        for peer in peers {
            let (name, value) = (peer.get::<String>("engine")?, peer.get::<f64>(figure)?);
            if which(&name) && best.as_ref().is_none_or(|(most, _)| value > *most) {
                best = Some((value, name));
            }
        }
        if let Some((value, name)) = best {
            let mine: f64 = ours.get(figure)?;
            let ratio = mine / value;
            let word = if ratio >= least { "within" } else { "MISSES" };
            let found = format!("{mine:.0}, best of these peers {name} {value:.0}: {ratio:.2}");
            say(&format!("{what}: {found}: {word} {least}"));
        }
        Ok(())
    }
}

/// The longest time that one of ours took to open after a kill.
fn openings(cells: &[Figures]) -> Result<(), Failure> {
    let mut worst: Option<(f64, &Figures)> = None;
    for cell in cells {
        let open: f64 = cell.get("open_after_kill_ms")?;
        let slower = worst.is_none_or(|(most, _)| open > most);
        if cell.get::<String>("engine")? == OURS && slower {
            worst = Some((open, cell));
        }
    }
    if let Some((open, cell)) = worst {
        let (indexes, rows): (u32, u64) = (cell.get("indexes")?, cell.get("rows")?);
        let word = if open <= OPEN_MS { "within" } else { "MISSES" };
        let what =
            format!("open after a kill: at most {open:.0} ms, {rows} rows, {indexes} indexes");
        say(&format!("{what}: {word} {OPEN_MS:.0}"));
    }
    Ok(())
}

/// Our memory.
fn limits(ours: &Figures) -> Result<(), Failure> {
    let (rss, memory) = (ours.get::<f64>("peak_rss_bytes")?, ours.get::<f64>("memory_bytes")?);
    let word = if rss <= memory * 1.1 { "within" } else { "MISSES" };
    say(&format!("resident memory {:.2} of the budget: {word} 1.1", rss / memory));
    Ok(())
}
