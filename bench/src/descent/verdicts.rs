//! The targets of the experiment, each with the figure that was reached.
//!
//! Invariants: a target is printed whether it is kept or not, if its cells were run.
//! Does not do: fail.

use crate::Failure;
use crate::descent::Figures;
use crate::knobs::Cell;
use crate::report::say;

/// Most bytes of leaves that an entry may take, their free space included; inner pages come on top.
const SIZES: &[(&str, f64)] = &[("ascending", 14.0), ("int8", 24.0), ("duplicates", 5.0)];
/// Shapes with long keys.
const WIDE: &[&str] =
    &["collated", "collated-icu", "ten-empty", "ten-filled", "thirty-one", "long-prefix"];
/// Shapes with keys of up to 16 bytes.
const NARROW: &[&str] = &["int8", "ascending", "uuid"];

type Cells = [(Cell, Figures)];

/// One target: what it is about, the figure, whether it is kept, the limit.
fn verdict(what: &str, figure: f64, kept: bool, limit: &str) {
    let word = if kept { "within" } else { "MISSES" };
    say(&format!("{what}: {figure:.3}: {word} {limit}"));
}

fn find<'f>(done: &'f Cells, wanted: [&str; 3]) -> Option<&'f Figures> {
    let [level, shape, optimisation] = wanted;
    let is =
        |cell: &Cell, knob: &str, value: &str| cell.get::<String>(knob).is_ok_and(|v| v == value);
    let found = done.iter().find(|(cell, _)| {
        is(cell, "level", level)
            && is(cell, "shape", shape)
            && is(cell, "optimisation", optimisation)
    });
    found.map(|(_, figures)| figures)
}

/// Compares what was reached with what is wanted.
pub(super) fn print(done: &Cells) -> Result<(), Failure> {
    for (cell, figures) in done {
        let (level, shape): (String, String) = (cell.get("level")?, cell.get("shape")?);
        if cell.get::<String>("optimisation")? != "all" {
            continue;
        }
        if level == "tree" {
            of_descents(done, &shape, figures);
        }
        if let Some(none) = find(done, [&level, &shape, "none"]) {
            let inserts = figures.rows_per_s / none.rows_per_s;
            let what = format!("{shape}: insertions ({level}), all to none");
            verdict(&what, inserts, inserts >= 1.0, "1 at least");
        }
    }
    for level in ["tree", "table"] {
        of_ten_columns(done, level);
    }
    Ok(())
}

fn of_descents(done: &Cells, shape: &str, figures: &Figures) {
    let levels = figures.counted.pages as f64 / figures.counted.descents as f64;
    let high = figures.per_descent(figures.counted.high_keys) / levels * 100.0;
    verdict(&format!("{shape}: high keys compared, % of levels"), high, high <= 0.1, "0.1");
    if NARROW.contains(&shape) {
        let keys = figures.per_descent(figures.counted.keys) / levels;
        verdict(&format!("{shape}: whole keys compared per level"), keys, keys <= 1.0, "1");
    }
    if let Some((_, limit)) = SIZES.iter().find(|(known, _)| *known == shape) {
        let bytes = figures.bytes_per_entry;
        verdict(
            &format!("{shape}: bytes of leaves an entry"),
            bytes,
            bytes <= *limit,
            &limit.to_string(),
        );
    }
    let Some(none) = find(done, ["tree", shape, "none"]) else { return };
    let bytes = figures.per_descent(figures.counted.bytes) / none.per_descent(none.counted.bytes);
    if WIDE.contains(&shape) {
        verdict(&format!("{shape}: key bytes to none's"), bytes, bytes <= 0.2, "0.2");
    }
    for (work, ratio) in [("lookups", none.lookup), ("insertions", none.insert)] {
        let what = format!("{shape}: {work} of none to all, {ratio}");
        verdict(&what, ratio.mean, ratio.mean >= 1.0, "1 at least");
    }
}

fn of_ten_columns(done: &Cells, level: &str) {
    let ten = find(done, [level, "ten-empty", "all"]);
    let Some((ten, uuid)) = ten.zip(find(done, [level, "uuid", "all"])) else { return };
    let ratio = ten.rows_per_s / uuid.rows_per_s;
    verdict(&format!("{level}: insertions, ten-empty to uuid"), ratio, ratio >= 0.5, "0.5");
    let seconds = 1e6 / ten.rows_per_s;
    let what = format!("{level}: ten-empty, seconds per million");
    verdict(&what, seconds, seconds <= 10.6 / 5.0, "2.12, a fifth of PostgreSQL's");
}
