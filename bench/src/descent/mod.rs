//! Experiment `descent`: what coming down the tree touches, by shape of key and optimisation.
//!
//! Level `tree`: keys are inserted in batches into a tree alone (no heap, no log, all in memory),
//! then looked up one by one, interleaved with the same lookups under all optimisations. Level
//! `table`: rows go into an unlogged table with one index of the shape.
//! `std::collections::BTreeMap` does the same lookups in the same run, and with the feature `peers`
//! LMDB and redb the same insertions, too.
//!
//! Invariants: a byte of a key counts as touched up to and with the first that differs, whatever
//! made the comparison. Every target is printed with its figure, kept or not.
//! Does not do: concurrency.

mod peers;
mod shapes;
#[cfg(feature = "peers")]
mod stores;
mod table;
mod tree;

use std::path::Path;

use rightlink::index::am::AccessMethod;
use rightlink::index::btree::{Counters, Optimisations};

use crate::Failure;
use crate::args::Args;
use crate::descent::shapes::Shape;
use crate::descent::tree::{Keys, Measured};
use crate::device;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Column, Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::Summary;

pub(crate) const NAME: &str = "descent";
pub(crate) const ABOUT: &str = "descents by shape of key, each optimisation off";

const ALL_SHAPES: &[&str] = &[
    "int8",
    "ascending",
    "uuid",
    "text",
    "collated",
    "ten-empty",
    "ten-filled",
    "thirty-one",
    "long-prefix",
    "duplicates",
];
/// What a minute allows at a million keys.
const QUICK_SHAPES: &[&str] = &["int8", "uuid", "ten-empty", "long-prefix", "duplicates"];
const EACH: &[&str] = &[
    "all",
    "none",
    "separator-first",
    "heads",
    "samples",
    "truncation",
    "carried-bounds",
    "separators",
    "optimistic",
    "short-separators",
    "split-strategies",
    "rightmost-leaf",
    "deduplication",
    "batches",
];

/// `optimisation` is `all`, `none`, the one that is switched off, or `separator-first`.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "keys", quick: &["1000000"], default: &["10000000"], all: &["10000000"] },
    Knob { name: "level", quick: LEVELS, default: LEVELS, all: LEVELS },
    Knob { name: "shape", quick: QUICK_SHAPES, default: ALL_SHAPES, all: ALL_SHAPES },
    Knob { name: "optimisation", quick: &["all", "none"], default: EACH, all: EACH },
];
/// `peers` makes no cells: the other structures are compared with at the end.
const LEVELS: &[&str] = &["tree", "table", "peers"];

/// Most bytes that an entry may take, inner pages and free space included.
const SIZES: &[(&str, f64)] = &[("ascending", 14.0), ("int8", 24.0), ("duplicates", 5.0)];

/// Rounds of interleaved lookups.
const ROUNDS: usize = 5;

/// The figures of one cell.
struct Figures {
    levels: f64,
    counted: Counters,
    lookup_ns: f64,
    rows_per_s: f64,
    leaf_fill: f64,
    bytes_per_entry: f64,
    /// Lookup time against that of all optimisations, in pairs.
    ratio: Summary,
}

/// Runs the matrix: shape by shape, so that the tree with everything on serves as the other half of
/// each pair.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    let mut done: Vec<(Cell, Figures)> = Vec::new();
    let mut base: Option<(String, Keys, Keys, Measured)> = None;
    let mut peers = false;
    for (number, cell) in cells.into_iter().enumerate() {
        let dir = scratch.path().join(format!("cell-{number}"));
        let level: String = cell.get("level")?;
        if level == "peers" {
            peers = true;
            continue;
        }
        let figures = match level.as_str() {
            "table" => on_table(&cell, &dir)?,
            "tree" => Some(on_tree(&cell, &dir, &mut base)?),
            other => return Err(format!("no level `{other}`").into()),
        };
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        if let Some(figures) = figures {
            report.cell(&json(&cell, &figures)?, &row(&cell, &figures)?)?;
            done.push((cell, figures));
        }
    }
    drop(base);
    verdicts(&done)?;
    if peers {
        peers::run(scratch.path(), args.size)?;
    }
    Ok(())
}

/// The set that a value of the knob stands for.
fn set_of(name: &str) -> Result<Optimisations, String> {
    match name {
        "all" => Ok(Optimisations::ALL),
        "none" => Ok(Optimisations::NONE),
        "separator-first" => Ok(Optimisations::ALL.without(Optimisations::SEARCH_FIRST)),
        one => {
            let one =
                Optimisations::named(one).ok_or_else(|| format!("no optimisation `{one}`"))?;
            Ok(Optimisations::ALL.without(one))
        }
    }
}

/// Lookups of one round.
fn lookups(keys: usize) -> usize {
    (keys / 10).clamp(1, 200_000)
}

fn on_tree(
    cell: &Cell,
    dir: &Path,
    base: &mut Option<(String, Keys, Keys, Measured)>,
) -> Result<Figures, Failure> {
    let (name, rows): (String, u64) = (cell.get("shape")?, cell.get("keys")?);
    let shape: Shape = name.parse()?;
    let optimisation: String = cell.get("optimisation")?;
    let set = set_of(&optimisation)?;
    if base.as_ref().is_none_or(|(known, ..)| *known != format!("{name} {rows}")) {
        *base = None;
        let keys = Keys::of(shape, rows);
        let picked = keys.sample(lookups(keys.len()) * ROUNDS, 3);
        let all = tree::fill(&keys, Optimisations::ALL, &dir.with_extension("all"))?;
        *base = Some((format!("{name} {rows}"), keys, picked, all));
    }
    let (_, keys, picked, all) = base.as_ref().expect("made above");
    let other = match optimisation.as_str() {
        "all" => None,
        _ => Some(tree::fill(keys, set, dir)?),
    };
    let measured = other.as_ref().unwrap_or(all);
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    let each = picked.len() / ROUNDS;
    for round in 0..ROUNDS {
        let range = round * each..(round + 1) * each;
        let reference = tree::lookup(&all.tree, picked, range.clone());
        let time = tree::lookup(&measured.tree, picked, range);
        times.push(time);
        ratios.push(time / reference);
    }
    let mut findings = 0;
    let stats = measured.tree.verify(None, &mut |_| findings += 1)?;
    if findings != 0 {
        return Err(format!("{name}, {optimisation}: the tree has {findings} faults").into());
    }
    Ok(Figures {
        levels: f64::from(stats.levels),
        counted: tree::counted(&measured.tree, picked),
        lookup_ns: Summary::of(times).median,
        rows_per_s: rows as f64 / measured.seconds,
        leaf_fill: stats.leaf_fill,
        bytes_per_entry: stats.bytes_per_entry,
        ratio: Summary::of(ratios),
    })
}

/// A table always uses all optimisations: other cells are left out.
fn on_table(cell: &Cell, dir: &Path) -> Result<Option<Figures>, Failure> {
    if cell.get::<String>("optimisation")? != "all" {
        return Ok(None);
    }
    let reached = table::run(cell.get("shape")?, cell.get("keys")?, dir)?;
    let descents = reached.counted.descents.max(1) as f64;
    Ok(Some(Figures {
        levels: (reached.counted.pages as f64 / descents).round(),
        counted: reached.counted,
        lookup_ns: reached.lookup_ns,
        rows_per_s: reached.rows_per_s,
        leaf_fill: reached.leaf_fill,
        bytes_per_entry: reached.bytes_per_entry,
        ratio: Summary::of(vec![1.0]),
    }))
}

impl Figures {
    fn per_descent(&self, count: u64) -> f64 {
        count as f64 / self.counted.descents.max(1) as f64
    }
}

/// The keys are a promise to whoever reads the lines.
fn json(cell: &Cell, figures: &Figures) -> Result<Vec<Column>, String> {
    let text = |key: &'static str| Ok::<_, String>((key, Field::Text(cell.get(key)?)));
    let counted = &figures.counted;
    let each = |count| Field::Float(figures.per_descent(count));
    Ok(vec![
        ("experiment", Field::Text(NAME.into())),
        text("level")?,
        text("shape")?,
        ("keys", Field::Int(cell.get("keys")?)),
        text("optimisation")?,
        ("levels", Field::Int(figures.levels as u64)),
        ("head_compares_per_descent", each(counted.heads)),
        ("key_compares_per_descent", each(counted.keys)),
        ("high_key_compares_per_descent", each(counted.high_keys)),
        ("key_bytes_per_descent", each(counted.bytes)),
        ("lookup_ns", Field::Float(figures.lookup_ns)),
        ("insert_rows_per_s", Field::Float(figures.rows_per_s)),
        ("leaf_fill", Field::Float(figures.leaf_fill)),
        ("bytes_per_entry", Field::Float(figures.bytes_per_entry)),
    ])
}

fn row(cell: &Cell, figures: &Figures) -> Result<Vec<Column>, String> {
    let counted = &figures.counted;
    let each = |count| Field::Float(figures.per_descent(count));
    Ok(vec![
        ("level", Field::Text(cell.get("level")?)),
        ("shape      ", Field::Text(cell.get("shape")?)),
        ("optimisation   ", Field::Text(cell.get("optimisation")?)),
        ("levels", Field::Int(figures.levels as u64)),
        ("heads", each(counted.heads)),
        ("keys", each(counted.keys)),
        ("prefixes", each(counted.prefixes)),
        ("high", each(counted.high_keys)),
        ("low", each(counted.low_fences)),
        ("bytes", each(counted.bytes)),
        ("ns/get", Field::Float(figures.lookup_ns)),
        ("x all", Field::Float(figures.ratio.median)),
        ("rows/s", Field::Float(figures.rows_per_s)),
        ("fill", Field::Float(figures.leaf_fill)),
        ("B/entry", Field::Float(figures.bytes_per_entry)),
        ("load avg", Field::Text(device::load_average())),
    ])
}

/// One target: what it is about, the figure, the limit, and whether it is kept.
fn verdict(what: &str, figure: f64, kept: bool, limit: &str) {
    let word = if kept { "within" } else { "MISSES" };
    say(&format!("{what}: {figure:.3}: {word} {limit}"));
}

fn find<'f>(done: &'f [(Cell, Figures)], wanted: [&str; 3]) -> Option<&'f Figures> {
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
fn verdicts(done: &[(Cell, Figures)]) -> Result<(), Failure> {
    for (cell, figures) in done {
        let (level, shape): (String, String) = (cell.get("level")?, cell.get("shape")?);
        if level != "tree" || cell.get::<String>("optimisation")? != "all" {
            continue;
        }
        let levels = figures.counted.pages as f64 / figures.counted.descents as f64;
        let high = figures.per_descent(figures.counted.high_keys) / levels * 100.0;
        verdict(&format!("{shape}: high keys compared, % of levels"), high, high <= 0.1, "0.1");
        if ["int8", "ascending", "uuid"].contains(&shape.as_str()) {
            let keys = figures.per_descent(figures.counted.keys) / levels;
            verdict(&format!("{shape}: whole keys compared per level"), keys, keys <= 1.0, "1");
        }
        if let Some((_, limit)) = SIZES.iter().find(|(known, _)| *known == shape) {
            let bytes = figures.bytes_per_entry;
            verdict(
                &format!("{shape}: bytes an entry"),
                bytes,
                bytes <= *limit,
                &limit.to_string(),
            );
        }
        let Some(none) = find(done, ["tree", &shape, "none"]) else { continue };
        let bytes =
            figures.per_descent(figures.counted.bytes) / none.per_descent(none.counted.bytes);
        let wide = ["collated", "ten-empty", "ten-filled", "thirty-one", "long-prefix"];
        if wide.contains(&shape.as_str()) {
            verdict(&format!("{shape}: key bytes to none's"), bytes, bytes <= 0.2, "0.2");
        }
        let slower = none.ratio.max;
        verdict(&format!("{shape}: lookups of none to all"), slower, slower >= 1.0, "1 at least");
        let inserts = figures.rows_per_s / none.rows_per_s;
        verdict(
            &format!("{shape}: insertions, all to none"),
            inserts,
            inserts >= 0.97,
            "1 at least",
        );
    }
    for level in LEVELS {
        let (ten, uuid) =
            (find(done, [level, "ten-empty", "all"]), find(done, [level, "uuid", "all"]));
        if let (Some(ten), Some(uuid)) = (ten, uuid) {
            let ratio = ten.rows_per_s / uuid.rows_per_s;
            verdict(&format!("{level}: insertions, ten-empty to uuid"), ratio, ratio >= 0.5, "0.5");
            let seconds = 1e6 / ten.rows_per_s;
            verdict(
                &format!("{level}: ten-empty, seconds per million"),
                seconds,
                seconds <= 10.6 / 5.0,
                "2.12, a fifth of PostgreSQL's",
            );
        }
    }
    Ok(())
}
