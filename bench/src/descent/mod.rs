//! Experiment `descent`: what coming down the tree touches, by shape of key and optimisation.
//!
//! Level `tree`: keys go into a tree alone (no heap, no log, all in memory). Then lookups and
//! further insertions take turns with the same work on a tree with all optimisations, alone or
//! beside a writer. Level `table`: the same with rows of an unlogged table with one index of the
//! shape. `std::collections::BTreeMap` does the same lookups in the same run, and with the feature
//! `peers` LMDB and redb the same insertions, too.
//!
//! Invariants: a byte of a key counts as touched up to and with the first that differs, whatever
//! made the comparison. Every target is printed with its figure, kept or not.
//! Does not do: more than one measured thread.

mod peers;
pub(crate) mod picture;
mod shapes;
#[cfg(feature = "peers")]
mod stores;
mod table;
mod tree;
mod turns;
mod verdicts;

use std::path::Path;

use rightlink::internal::index::am::AccessMethod;
use rightlink::internal::index::btree::{Counters, Optimisation, Optimisations};

use crate::Failure;
use crate::args::{Args, Size};
use crate::descent::shapes::Shape;
use crate::descent::table::Plan;
use crate::descent::turns::Work;
use crate::device;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Column, Field, Report};
use crate::scratch::Scratch;
use crate::stats::Interval;

pub(crate) const NAME: &str = "descent";
pub(crate) const ABOUT: &str = "descents by shape of key, each optimisation off";

const ALL_SHAPES: &[&str] = &[
    "int8",
    "ascending",
    "uuid",
    "text",
    "collated",
    "collated-icu",
    "ten-empty",
    "ten-filled",
    "thirty-one",
    "ten-empty-icu",
    "thirty-one-icu",
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
    "cursors",
    "suffix-truncation",
    "short-separators",
    "split-strategies",
    "rightmost-leaf",
    "merging",
    "deduplication",
    "batches",
    "spreading",
];

/// `optimisation` is `all`, `none`, or the one that is switched off; `separator-first` is
/// `search-first` switched off. In `none` separators are cut short all the same. `cursors`,
/// `merging` and `spreading` are about lists of keys, deletions and updates, of which there are
/// none here, so a difference without them is noise. `batch` is how many keys are inserted at
/// once where insertions are measured; `writer` puts a thread beside that splits the leaves.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "keys", quick: &["1000000"], default: &["10000000"], all: &["10000000"] },
    Knob { name: "level", quick: LEVELS, default: LEVELS, all: LEVELS },
    Knob { name: "shape", quick: QUICK_SHAPES, default: ALL_SHAPES, all: ALL_SHAPES },
    Knob { name: "optimisation", quick: &["all", "none"], default: EACH, all: EACH },
    Knob { name: "batch", quick: &["1000"], default: &["1000"], all: &["1", "1000"] },
    Knob { name: "writer", quick: &["false"], default: &["false"], all: &["false", "true"] },
];
/// `peers` makes no cells: the other structures are compared with at the end.
const LEVELS: &[&str] = &["tree", "table", "peers"];

/// The default runs every optimisation for these shapes and for named ones. For the others it runs
/// `all`, `none` and `separator-first`.
const THOROUGH: &[&str] = &["int8", "collated", "ten-filled"];
const BROAD: &[&str] = &["all", "none", "separator-first"];
/// What the default runs at the table's level: the shapes that a target there is about.
const AT_TABLE: (&[&str], &[&str]) = (&["int8", "uuid", "ten-empty"], &["all", "none"]);
/// Most bytes that the keys of a cell may have in all; a cell of wider ones has fewer.
const MOST_BYTES: u64 = 4 << 30;

/// The figures of one cell.
struct Figures {
    levels: f64,
    /// What lookups cost.
    counted: Counters,
    lookup_ns: f64,
    /// Lookup time to that with all optimisations.
    lookup: Interval,
    /// The cost of the insertion of `inserted` rows.
    inserts: Counters,
    inserted: usize,
    insert_ns: f64,
    /// Time of insertions to that with all optimisations.
    insert: Interval,
    rows_per_s: f64,
    leaf_fill: f64,
    bytes_per_entry: f64,
    /// Pages that a writer's splits made beside the lookups.
    writer_pages: u32,
}

/// Is this cell run? What is named on the command line always is.
fn wanted(cell: &Cell, args: &Args) -> Result<bool, Failure> {
    let named = |knob: &str| args.knobs.iter().any(|(known, _)| known == knob);
    let (level, shape): (String, String) = (cell.get("level")?, cell.get("shape")?);
    let optimisation: String = cell.get("optimisation")?;
    let optimisation = optimisation.as_str();
    // A lookup of duplicates reads all rows of a key, those of the writer included.
    if (level == "table" || shape == "duplicates") && cell.get("writer")? {
        return Ok(false);
    }
    if args.size == Size::All || named("optimisation") {
        return Ok(true);
    }
    Ok(match (level.as_str(), args.size) {
        ("table", Size::Quick) => optimisation == "all",
        ("table", _) => {
            let shape = named("shape") || AT_TABLE.0.contains(&shape.as_str());
            shape && AT_TABLE.1.contains(&optimisation)
        }
        _ => {
            let thorough = named("shape") || THOROUGH.contains(&shape.as_str());
            thorough || BROAD.contains(&optimisation)
        }
    })
}

/// The cell with as many keys as there is room for.
fn bounded(cell: Cell) -> Result<Cell, Failure> {
    let (shape, rows): (Shape, u64) = (cell.get("shape")?, cell.get("keys")?);
    let most = MOST_BYTES / shape.key(0, rows).len() as u64;
    Ok(if rows > most { cell.with("keys", most) } else { cell })
}

/// Runs the matrix: shape by shape, so that the keys of a shape are made once.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    let mut done: Vec<(Cell, Figures)> = Vec::new();
    let mut work: Option<Work> = None;
    let mut peers = false;
    for (number, cell) in cells.into_iter().enumerate() {
        let dir = scratch.path().join(format!("cell-{number}"));
        let level: String = cell.get("level")?;
        if level == "peers" {
            peers = true;
            continue;
        }
        if !wanted(&cell, args)? {
            continue;
        }
        let cell = bounded(cell)?;
        let figures = match level.as_str() {
            "table" => on_table(&cell, &dir)?,
            "tree" => on_tree(&cell, &dir, &mut work)?,
            other => return Err(format!("no level `{other}`").into()),
        };
        for left in [dir.with_extension("all"), dir] {
            if left.exists() {
                std::fs::remove_dir_all(&left)?;
            }
        }
        report.cell(&json(&cell, &figures)?, &row(&cell, &figures)?)?;
        done.push((cell, figures));
    }
    drop(work);
    verdicts::print(&done)?;
    if peers {
        peers::run(scratch.path(), args.size)?;
    }
    Ok(())
}

/// The set that a value of the knob stands for.
fn set_of(name: &str) -> Result<Optimisations, String> {
    match name {
        "all" => Ok(Optimisations::ALL),
        "none" => Ok(Optimisations::NONE.with(Optimisation::SuffixTruncation)),
        "separator-first" => Ok(Optimisations::ALL.without(Optimisation::SearchFirst)),
        one => {
            let one = Optimisation::named(one).ok_or_else(|| format!("no optimisation `{one}`"))?;
            Ok(Optimisations::ALL.without(one))
        }
    }
}

fn on_tree(cell: &Cell, dir: &Path, known: &mut Option<Work>) -> Result<Figures, Failure> {
    let (shape, rows, writer) = (cell.get("shape")?, cell.get("keys")?, cell.get("writer")?);
    let optimisation: String = cell.get("optimisation")?;
    if known.as_ref().is_none_or(|work| work.made_for != (shape, rows, writer)) {
        *known = None;
        *known = Some(Work::new(shape, rows, writer));
    }
    let work = known.as_ref().expect("made above");
    let reached = turns::run(work, set_of(&optimisation)?, cell.get("batch")?, dir)?;
    let mut findings = 0;
    let stats = reached.tree.tree.verify(None, &mut |_| findings += 1)?;
    if findings != 0 {
        return Err(format!("{shape:?}, {optimisation}: the tree has {findings} faults").into());
    }
    Ok(Figures {
        levels: f64::from(stats.levels),
        counted: reached.lookups,
        lookup_ns: reached.lookup_ns,
        lookup: reached.lookup,
        inserts: reached.inserts,
        inserted: reached.counted_rows,
        insert_ns: reached.insert_ns,
        insert: reached.insert,
        rows_per_s: reached.rows_per_s,
        leaf_fill: stats.leaf_fill,
        bytes_per_entry: stats.bytes_per_entry,
        writer_pages: reached.writer_pages,
    })
}

fn on_table(cell: &Cell, dir: &Path) -> Result<Figures, Failure> {
    let set = set_of(&cell.get::<String>("optimisation")?)?;
    let plan =
        Plan { shape: cell.get("shape")?, rows: cell.get("keys")?, batch: cell.get("batch")? };
    let reached = table::run(&plan, set, dir)?;
    let descents = reached.counted.descents.max(1) as f64;
    Ok(Figures {
        levels: (reached.counted.pages as f64 / descents).round(),
        counted: reached.counted,
        lookup_ns: reached.lookup.ns,
        lookup: reached.lookup.ratio,
        inserts: reached.inserts,
        inserted: reached.inserted,
        insert_ns: reached.insert.ns,
        insert: reached.insert.ratio,
        rows_per_s: reached.rows_per_s,
        leaf_fill: reached.leaf_fill,
        bytes_per_entry: reached.bytes_per_entry,
        writer_pages: 0,
    })
}

impl Figures {
    fn per_descent(&self, count: u64) -> f64 {
        count as f64 / self.counted.descents.max(1) as f64
    }

    fn per_row(&self, count: u64) -> f64 {
        count as f64 / self.inserted as f64
    }
}

/// The keys are a promise to whoever reads the lines.
fn json(cell: &Cell, figures: &Figures) -> Result<Vec<Column>, String> {
    let text = |key: &'static str| Ok::<_, String>((key, Field::Text(cell.get(key)?)));
    let counted = &figures.counted;
    let each = |count| Field::Float(figures.per_descent(count));
    let inserts = &figures.inserts;
    let row = |count| Field::Float(figures.per_row(count));
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
        ("moves_right_per_descent", each(counted.moves_right)),
        ("lookup_ns", Field::Float(figures.lookup_ns)),
        ("lookup_ratio", Field::Float(figures.lookup.mean)),
        ("lookup_ratio_low", Field::Float(figures.lookup.low)),
        ("lookup_ratio_high", Field::Float(figures.lookup.high)),
        ("batch", Field::Int(cell.get("batch")?)),
        ("insert_head_compares_per_row", row(inserts.heads)),
        ("insert_key_compares_per_row", row(inserts.keys)),
        ("insert_high_key_compares_per_row", row(inserts.high_keys)),
        ("insert_separators_per_row", row(inserts.separators)),
        ("insert_key_bytes_per_row", row(inserts.bytes)),
        ("insert_ns", Field::Float(figures.insert_ns)),
        ("insert_ratio", Field::Float(figures.insert.mean)),
        ("insert_ratio_low", Field::Float(figures.insert.low)),
        ("insert_ratio_high", Field::Float(figures.insert.high)),
        ("writer", Field::Flag(cell.get("writer")?)),
        ("writer_pages", Field::Int(figures.writer_pages.into())),
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
        ("x all              ", Field::Text(figures.lookup.to_string())),
        ("bytes/row", Field::Float(figures.per_row(figures.inserts.bytes))),
        ("high/row", Field::Float(figures.per_row(figures.inserts.high_keys))),
        ("ns/insert", Field::Float(figures.insert_ns)),
        ("x all insertions   ", Field::Text(figures.insert.to_string())),
        ("splits", Field::Int(figures.writer_pages.into())),
        ("rows/s", Field::Float(figures.rows_per_s)),
        ("fill", Field::Float(figures.leaf_fill)),
        ("B/entry", Field::Float(figures.bytes_per_entry)),
        ("load avg", Field::Text(device::load_average())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_optimisation_is_switched_off_once() {
        for (name, one) in Optimisation::EACH {
            let off = Optimisations::ALL.without(one);
            let cells = EACH.iter().filter(|cell| set_of(cell) == Ok(off)).count();
            assert_eq!(cells, 1, "{name}");
        }
    }

    /// Whoever reads the lines was promised these keys, in this order, and no others.
    #[test]
    fn lines_have_the_keys_that_were_promised() {
        let cell = Cell::default()
            .with("keys", 7)
            .with("level", "tree")
            .with("shape", "int8")
            .with("optimisation", "separator-first")
            .with("batch", 1000)
            .with("writer", false);
        let figures = Figures {
            levels: 3.0,
            counted: Counters::default(),
            lookup_ns: 1.0,
            lookup: Interval::SAME,
            inserts: Counters::default(),
            inserted: 1,
            insert_ns: 1.0,
            insert: Interval::SAME,
            rows_per_s: 1.0,
            leaf_fill: 0.5,
            bytes_per_entry: 12.0,
            writer_pages: 0,
        };
        let keys: Vec<&str> = json(&cell, &figures).unwrap().into_iter().map(|(k, _)| k).collect();
        let promised = "experiment level shape keys optimisation levels head_compares_per_descent \
            key_compares_per_descent high_key_compares_per_descent key_bytes_per_descent \
            moves_right_per_descent lookup_ns lookup_ratio lookup_ratio_low lookup_ratio_high \
            batch insert_head_compares_per_row insert_key_compares_per_row \
            insert_high_key_compares_per_row insert_separators_per_row insert_key_bytes_per_row \
            insert_ns insert_ratio insert_ratio_low insert_ratio_high writer writer_pages \
            insert_rows_per_s leaf_fill bytes_per_entry";
        assert_eq!(keys, promised.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn every_shape_is_run() {
        assert_eq!(ALL_SHAPES, shapes::SHAPES.map(|(name, _)| name));
    }
}
