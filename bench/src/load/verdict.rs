//! What the figures say beside the peers': a line for each target.
//!
//! Invariants: only cells with 5 indexes, batches of 1,000 and relaxed commits are judged; a target
//! that needs a peer says nothing without one. Reads are judged where everything fits: beyond
//! memory engines reach tables of different sizes in the same time.
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
            beside("rows/s in memory", "rows_per_s", 2.0, ours, &peers, all)?;
            beside("warm reads", "warm_reads_per_s", 1.2, ours, &peers, |name| name == "redb")?;
            beside("cold reads of 1,000", "cold_batch_reads_per_s", 2.0, ours, &peers, all)?;
        } else {
            beside("rows/s beyond memory", "rows_per_s", 1.0, ours, &peers, trees)?;
        }
        limits(ours)?;
    }
    Ok(())
}

/// Ours to the best peer among those that `which` takes.
fn beside(
    what: &str,
    figure: &str,
    target: f64,
    ours: &Figures,
    peers: &[&Figures],
    which: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
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
        let word = if ratio >= target { "within" } else { "MISSES" };
        say(&format!(
            "{what}: {mine:.0}, best of these peers {name} {value:.0}: {ratio:.2}: {word} {target}"
        ));
    }
    Ok(())
}

/// Our memory and the time to open.
fn limits(ours: &Figures) -> Result<(), Failure> {
    let (rss, memory) = (ours.get::<f64>("peak_rss_bytes")?, ours.get::<f64>("memory_bytes")?);
    let word = if rss <= memory * 1.1 { "within" } else { "MISSES" };
    say(&format!("resident memory {:.2} of the budget: {word} 1.1", rss / memory));
    let open: f64 = ours.get("open_after_kill_ms")?;
    let word = if open <= OPEN_MS { "within" } else { "MISSES" };
    say(&format!("open after a kill: {open:.0} ms: {word} {OPEN_MS:.0}"));
    Ok(())
}
