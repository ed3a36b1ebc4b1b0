//! Experiment `hot-update`: few rows are updated again and again; do the indexes stay at their
//! size?
//!
//! Table `t`: `id`, `k` (eight rows share one), `a` and `b` (random) and `c`, int8 each, and a text
//! of 40 bytes. Rows are found by `id` through the primary key (`unique`), or by `k` through an
//! index; `a` and `b` have indexes that nothing reads, all built over the filled table.
//!
//! An update sets `a` (`column` `indexed`) or `c`. Rows are chosen by a Zipfian distribution with
//! theta 1.1, unscrambled: the hottest keys share leaves. A transaction is one read or one update,
//! relaxed, under read committed.
//!
//! `index_pages_*` are those of the index that grew most against one built anew from the final
//! rows; `hot_leaf_*` are means over the first hundred leaves of the key's index and over the
//! samples, one a slice; `hot_leaf_dead_after` is sampled when the load has been over for a while.
//!
//! `idle_scan`: a scan of the key's index that has handed out ten rows stays open; `old_snapshot`:
//! a snapshot from before the load does. The report shows the slowest slice, and how fast the
//! machine was in it, beside the median of all slices. Where `epoch` was slower than `page-lsn`,
//! both are run again in turns.
//!
//! Invariants: the load runs as long as it is told, whatever it reaches.
//! Does not do: other engines.

mod load;
pub(crate) mod picture;
mod slices;
mod turns;
mod yardstick;

use std::path::Path;
use std::time::Duration;

use rightlink::{
    Database, DeadHints, IndexSchema, ScanOptions, TableSchema, Transaction, TransactionOptions,
    Type, Value,
};
use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::args::{Args, Size};
use crate::hot_update::load::{Load, Setup};
use crate::hot_update::slices::{Slice, Watch};
use crate::hot_update::yardstick::Yardstick;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Column, Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::Summary;

pub(crate) const NAME: &str = "hot-update";
pub(crate) const ABOUT: &str = "skewed updates: speed in slices, pages and dead items of indexes";

const BOTH: &[&str] = &["true", "false"];
const NO: &[&str] = &["false"];

pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["20000"], default: &["1000000"], all: &["4000000"] },
    Knob { name: "seconds", quick: &["3"], default: &["60"], all: &["600"] },
    Knob {
        name: "column",
        quick: &["indexed", "unindexed"],
        default: &["indexed", "unindexed"],
        all: &["indexed", "unindexed"],
    },
    Knob { name: "unique", quick: &["true"], default: BOTH, all: BOTH },
    Knob {
        name: "mix",
        quick: &["updates"],
        default: &["updates", "50/50"],
        all: &["updates", "5/95", "50/50"],
    },
    Knob { name: "threads", quick: &["4"], default: &["4"], all: &["1", "4", "64", "256"] },
    Knob { name: "logged", quick: &["true"], default: &["true"], all: BOTH },
    Knob {
        name: "hints",
        quick: &["off", "page-lsn", "epoch"],
        default: &["off", "page-lsn", "epoch"],
        all: &["off", "page-lsn", "epoch"],
    },
    Knob { name: "idle_scan", quick: NO, default: NO, all: BOTH },
    Knob { name: "old_snapshot", quick: NO, default: NO, all: BOTH },
];

pub(crate) const TABLE: &str = "t";
/// Rows of a batch while the table is filled.
const BATCH: u64 = 5000;
/// Rows that share a `k`.
pub(crate) const SHARE: u64 = 8;
/// Leaves that count as the hottest.
const HOTTEST: usize = 100;
/// Longest slice.
const SLICE: Duration = Duration::from_secs(5);

/// What a cell came to.
struct Outcome {
    seconds: f64,
    updates: u64,
    slices: Vec<Slice>,
    /// Pages of the index that grew most: before, after, built anew.
    pages: [u32; 3],
    live: f64,
    dead: f64,
    dead_after: f64,
    /// Share in use of the emptiest of the hottest leaves, over all samples.
    emptiest: f64,
    /// The largest of the indexes whose keys no update changes, against its start.
    fixed: f64,
    /// Rows that were updated at least once.
    rows_updated: u64,
    heap_before: u32,
    heap_after: u32,
}

/// Runs the matrix.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    let mut speeds = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let dir = scratch.path().join(format!("cell-{number}"));
        let outcome = run_cell(cell, &dir, args.size)?;
        std::fs::remove_dir_all(&dir)?;
        report.cell(&json(cell, &outcome)?, &row(cell, &outcome)?)?;
        verdicts(cell, &outcome)?.iter().for_each(|line| say(line));
        speeds.push((cell, outcome.updates as f64 / outcome.seconds));
    }
    let again = |cell: &Cell| {
        let dir = scratch.path().join("turns");
        let bound = turns::page_lsn_by_epoch(cell, &dir, args.size)?;
        std::fs::remove_dir_all(&dir)?;
        Ok(bound)
    };
    compare(&speeds, again)?.iter().for_each(|line| say(line));
    Ok(())
}

fn run_cell(cell: &Cell, dir: &Path, size: Size) -> Result<Outcome, Failure> {
    let setup = Setup::of(cell)?;
    let db = open(&setup, dir)?;
    db.set_dead_hints(match cell.get::<String>("hints")?.as_str() {
        "off" => DeadHints::Off,
        "page-lsn" => DeadHints::PageLsn,
        "epoch" => DeadHints::Epoch,
        other => return Err(format!("hints cannot be `{other}`").into()),
    });
    fill(&db, &setup, cell.get("logged")?)?;
    let (before, heap_before) = pages(&db)?;
    let parked = park(&db, &setup, cell.get("idle_scan")?, cell.get("old_snapshot")?)?;
    let (mut live, mut dead, mut emptiest) = (Vec::new(), Vec::new(), 1f64);
    let clock = Clock::system();
    let time = Duration::from_secs(cell.get("seconds")?);
    let slice = SLICE.min(time / 4).max(Duration::from_millis(250));
    let mut yardstick = Yardstick::new();
    let load = Load::start(&db, &setup);
    let (start, mut slices) = (clock.now(), Vec::new());
    let mut watch = Watch::new(&db, &clock, &load, &mut yardstick);
    while clock.now() - start < time {
        slices.push(watch.slice(slice));
        let sample = hot_leaves(&db, &setup)?;
        live.push(sample.live);
        dead.push(sample.dead);
        emptiest = emptiest.min(sample.emptiest);
    }
    let seconds = (clock.now() - start).as_secs_f64();
    let (updates, rows_updated) = load.stop()?;
    clock.sleep(Duration::from_secs(if size == Size::Quick { 1 } else { 10 }));
    let later = hot_leaves(&db, &setup)?;
    let (after, heap_after) = pages(&db)?;
    drop(parked);
    let pages = rebuilt(&db, &setup, &before, &after)?;
    check(&db, &setup)?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    Ok(Outcome {
        seconds,
        updates,
        slices,
        pages,
        live: mean(&live),
        dead: mean(&dead),
        dead_after: later.dead,
        emptiest: emptiest.min(later.emptiest),
        fixed: growth_of_fixed(&setup, &before, &after),
        rows_updated,
        heap_before,
        heap_after,
    })
}

/// A database whose memory holds all of it.
fn open(setup: &Setup, dir: &Path) -> Result<Database, Failure> {
    let memory = (setup.rows as usize * 600).max(64 << 20);
    Ok(Database::options().memory(memory).open(dir)?)
}

/// Creates and fills the table.
fn fill(db: &Database, setup: &Setup, logged: bool) -> Result<(), Failure> {
    let mut schema = TableSchema::new(TABLE);
    for column in ["id", "k", "a", "b", "c"] {
        schema = schema.column(column, Type::Int8);
    }
    schema = schema.column("note", Type::Text);
    if setup.unique {
        schema = schema.primary_key(["id"]);
    }
    if !logged {
        schema = schema.unlogged();
    }
    let mut txn = db.begin();
    txn.create_table(&schema)?;
    txn.commit()?;
    let mut rng = Rng::from_seed(1);
    for first in (0..setup.rows).step_by(BATCH as usize) {
        let row = |id: u64| {
            let random = |rng: &mut Rng| Value::Int8(rng.below(1 << 62) as i64);
            let (id, k) = (Value::Int8(id as i64), Value::Int8((id / SHARE) as i64));
            vec![id, k, random(&mut rng), random(&mut rng), Value::Int8(0), note()]
        };
        let rows: Vec<_> = (first..setup.rows.min(first + BATCH)).map(row).collect();
        let options = TransactionOptions { relaxed: true, ..TransactionOptions::default() };
        let mut txn = db.begin_with(options);
        txn.insert_many(TABLE, &rows)?;
        txn.commit()?;
    }
    let mut txn = db.begin();
    if !setup.unique {
        txn.create_index(TABLE, &IndexSchema::new("t_k").on("k"))?;
    }
    txn.create_index(TABLE, &IndexSchema::new("t_a").on("a"))?;
    txn.create_index(TABLE, &IndexSchema::new("t_b").on("b"))?;
    txn.commit()?;
    db.checkpoint()?;
    Ok(())
}

fn note() -> Value {
    Value::Text("forty bytes that nobody reads, only moves".into())
}

/// What stays open during the load.
fn park(
    db: &Database,
    setup: &Setup,
    scan: bool,
    snapshot: bool,
) -> Result<Vec<(Transaction, Option<rightlink::Rows>)>, Failure> {
    let mut parked = Vec::new();
    if scan {
        let mut txn = db.begin();
        let mut rows = txn.scan(TABLE, &ScanOptions::index(setup.key_index()))?;
        for row in rows.by_ref().take(10) {
            row?;
        }
        parked.push((txn, Some(rows)));
    }
    if snapshot {
        let mut txn = db.begin();
        for row in txn.scan(TABLE, &ScanOptions::all().limit(1))? {
            row?;
        }
        parked.push((txn, None));
    }
    Ok(parked)
}

/// Name and pages of every index, and pages of the heap.
fn pages(db: &Database) -> Result<(Vec<(String, u32)>, u32), Failure> {
    let info = db.describe(TABLE)?;
    let indexes = info.indexes.into_iter().map(|index| (index.schema.name, index.blocks)).collect();
    Ok((indexes, info.heap_blocks))
}

/// The largest of the indexes whose keys no update changes, against its start.
fn growth_of_fixed(setup: &Setup, before: &[(String, u32)], after: &[(String, u32)]) -> f64 {
    let fixed = before.iter().zip(after).filter(|((name, _), _)| setup.is_fixed(name));
    fixed.map(|(before, after)| f64::from(after.1) / f64::from(before.1)).fold(0.0, f64::max)
}

/// A look at the hottest leaves.
struct Sample {
    /// Mean live and dead items.
    live: f64,
    dead: f64,
    /// Share in use of the emptiest.
    emptiest: f64,
}

fn hot_leaves(db: &Database, setup: &Setup) -> Result<Sample, Failure> {
    let mut leaves = db.inspect(setup.key_index(), None)?;
    leaves.retain(|page| page.level == 0 && matches!(page.kind, 'l' | 'r'));
    leaves.sort_by_key(|page| page.item);
    leaves.truncate(HOTTEST);
    let count = leaves.len().max(1) as f64;
    let sum = |items: fn(&rightlink::PageInfo) -> u32| leaves.iter().map(items).sum::<u32>();
    let (live, dead) = (sum(|page| page.live_items), sum(|page| page.dead_items));
    let used = |page: &rightlink::PageInfo| {
        1.0 - f64::from(page.free_size) / f64::from(page.page_size.max(1))
    };
    let emptiest = leaves.iter().map(used).fold(1.0, f64::min);
    Ok(Sample { live: f64::from(live) / count, dead: f64::from(dead) / count, emptiest })
}

/// Builds every index anew; pages of the one that grew most.
fn rebuilt(
    db: &Database,
    setup: &Setup,
    before: &[(String, u32)],
    after: &[(String, u32)],
) -> Result<[u32; 3], Failure> {
    let mut most = [1, 0, u32::MAX];
    for ((name, before), (_, after)) in before.iter().zip(after) {
        let column = match name.as_str() {
            "t_k" => "k",
            "t_a" => "a",
            "t_b" => "b",
            _ => "id",
        };
        let mut txn = db.begin();
        txn.create_index(TABLE, &IndexSchema::new("t_anew").on(column))?;
        txn.commit()?;
        let (indexes, _) = pages(db)?;
        let anew = indexes.iter().find(|(name, _)| name == "t_anew").ok_or("it was just made")?.1;
        let mut txn = db.begin();
        txn.drop_index("t_anew")?;
        txn.commit()?;
        let ratio = |pages: [u32; 3]| f64::from(pages[1]) / f64::from(pages[2]);
        if ratio([*before, *after, anew]) > ratio(most) {
            most = [*before, *after, anew];
        }
    }
    assert!(setup.rows > 0 && most[1] > 0, "every table has an index with pages");
    Ok(most)
}

/// All rows are still there, by every index.
fn check(db: &Database, setup: &Setup) -> Result<(), Failure> {
    let mut txn = db.begin();
    for index in [setup.key_index(), "t_a", "t_b"] {
        let scan = ScanOptions::index(index).any_order().columns(["id"]);
        let found = txn.scan(TABLE, &scan)?.count() as u64;
        if found != setup.rows {
            return Err(format!("{found} of {} rows by {index}", setup.rows).into());
        }
    }
    Ok(())
}

fn title(cell: &Cell) -> Result<String, String> {
    let names = ["column", "unique", "mix", "threads", "hints", "idle_scan", "old_snapshot"];
    let words: Result<Vec<String>, String> = names.iter().map(|name| cell.get(name)).collect();
    Ok(words?.join(" "))
}

fn json(cell: &Cell, outcome: &Outcome) -> Result<Vec<Column>, Failure> {
    let slices = Summary::of(slices::speeds(&outcome.slices));
    let [before, after, rebuilt] = outcome.pages.map(|pages| Field::Int(pages.into()));
    Ok(vec![
        ("experiment", Field::Text(NAME.into())),
        ("column", Field::Text(cell.get("column")?)),
        ("unique", Field::Flag(cell.get("unique")?)),
        ("mix", Field::Text(cell.get("mix")?)),
        ("threads", Field::Int(cell.get("threads")?)),
        ("logged", Field::Flag(cell.get("logged")?)),
        ("hints", Field::Text(cell.get("hints")?)),
        ("idle_scan", Field::Flag(cell.get("idle_scan")?)),
        ("old_snapshot", Field::Flag(cell.get("old_snapshot")?)),
        ("seconds", Field::Float(outcome.seconds)),
        ("updates_per_s", Field::Float(outcome.updates as f64 / outcome.seconds)),
        ("slice_min", Field::Float(slices.min)),
        ("slice_max", Field::Float(slices.max)),
        ("index_pages_before", before),
        ("index_pages_after", after),
        ("index_pages_rebuilt", rebuilt),
        ("hot_leaf_live", Field::Float(outcome.live)),
        ("hot_leaf_dead", Field::Float(outcome.dead)),
        ("heap_pages_after", Field::Int(outcome.heap_after.into())),
        ("rows", Field::Int(cell.get("rows")?)),
        ("slice_median", Field::Float(slices.median)),
        ("hot_leaf_dead_after", Field::Float(outcome.dead_after)),
        ("heap_pages_before", Field::Int(outcome.heap_before.into())),
        ("hot_leaf_emptiest", Field::Float(outcome.emptiest)),
        ("fixed_index_growth", Field::Float(outcome.fixed)),
        ("rows_updated", Field::Int(outcome.rows_updated)),
        ("slice_speeds", Field::List(slices::speeds(&outcome.slices))),
    ])
}

fn row(cell: &Cell, outcome: &Outcome) -> Result<Vec<Column>, Failure> {
    let slices = Summary::of(slices::speeds(&outcome.slices));
    let name = |text: String, width: usize| Field::Text(format!("{text:<width$}"));
    let [before, after, rebuilt] = outcome.pages.map(|pages| Field::Int(pages.into()));
    Ok(vec![
        ("column   ", name(cell.get("column")?, 9)),
        ("unique", Field::Flag(cell.get("unique")?)),
        ("mix    ", name(cell.get("mix")?, 7)),
        ("threads", Field::Int(cell.get("threads")?)),
        ("hints   ", name(cell.get("hints")?, 8)),
        ("idle", Field::Flag(cell.get("idle_scan")?)),
        ("old", Field::Flag(cell.get("old_snapshot")?)),
        ("updates/s", Field::Float(outcome.updates as f64 / outcome.seconds)),
        ("slowest", Field::Float(slices.min)),
        ("before", before),
        ("after", after),
        ("anew", rebuilt),
        ("live/leaf", Field::Float(outcome.live)),
        ("dead/leaf", Field::Float(outcome.dead)),
        ("dead later", Field::Float(outcome.dead_after)),
        ("heap before", Field::Int(outcome.heap_before.into())),
        ("heap after", Field::Int(outcome.heap_after.into())),
    ])
}

/// A target, its figure, and whether it is kept.
fn verdict(what: &str, figure: f64, kept: bool, limit: f64) -> String {
    let kept = if kept { "kept" } else { "MISSED" };
    format!("  {what}: {figure:.2} (limit {limit}): {kept}")
}

/// The targets of one cell.
fn verdicts(cell: &Cell, outcome: &Outcome) -> Result<Vec<String>, Failure> {
    let at_most = |what: &str, figure, limit| verdict(what, figure, figure <= limit, limit);
    let at_least = |what: &str, figure, limit| verdict(what, figure, figure >= limit, limit);
    let [_, after, anew] = outcome.pages.map(f64::from);
    let slices = Summary::of(slices::speeds(&outcome.slices));
    let share = |dead: f64| dead / (outcome.live + dead).max(1e-9);
    let mut lines = vec![
        at_most("largest index against one built anew", after / anew, 1.35),
        at_most("indexes with fixed keys against their start", outcome.fixed, 1.2),
        at_least("slowest slice of the median", slices.min / slices.median.max(1e-9), 0.8),
        at_most("dead items on the hottest leaves", share(outcome.dead), 0.5),
        at_most("the same after the load", share(outcome.dead_after), 0.1),
        at_least("share in use of the emptiest hot leaf", outcome.emptiest, 0.25),
    ];
    lines.extend(slices::slowest(&outcome.slices));
    if cell.get("old_snapshot")? {
        let row = f64::from(outcome.heap_before) / cell.get::<u64>("rows")? as f64;
        let grown = f64::from(outcome.heap_after.saturating_sub(outcome.heap_before));
        let updated = outcome.rows_updated as f64 * row;
        let what = "growth of the heap against the rows that were updated";
        lines.push(at_most(what, grown / updated.max(1.0), 1.5));
    }
    Ok(lines)
}

/// The targets that compare cells: hints with each other, numbers of threads with the best one.
fn compare(
    speeds: &[(&Cell, f64)],
    mut again: impl FnMut(&Cell) -> Result<(f64, f64), Failure>,
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    let others = |cell: &Cell, left_out: &str| -> Result<Vec<String>, String> {
        let knobs = KNOBS.iter().filter(|knob| knob.name != left_out);
        knobs.map(|knob| cell.get(knob.name)).collect()
    };
    for (cell, speed) in speeds {
        let (hints, threads): (String, u64) = (cell.get("hints")?, cell.get("threads")?);
        let (mut page_lsn, mut best) = (None, *speed);
        for (other, its) in speeds {
            if others(other, "hints")? == others(cell, "hints")?
                && other.get::<String>("hints")? == "page-lsn"
            {
                page_lsn = Some(*its);
            }
            if others(other, "threads")? == others(cell, "threads")? {
                best = best.max(*its);
            }
        }
        if let Some(page_lsn) = page_lsn.filter(|_| hints == "epoch") {
            let ratio = speed / page_lsn;
            let what = format!("epoch against page-lsn, {}", title(cell)?);
            let bound = if ratio < 1.0 { Some(again(cell)?) } else { None };
            let kept = bound.is_none_or(|(_, slower)| slower <= 1.0);
            lines.push(verdict(&what, ratio, kept, 1.0));
            lines.extend(bound.map(|(mean, slower)| {
                format!("    in turns: page-lsn {mean:.3} times as fast, at least {slower:.3}")
            }));
        }
        let limit = match threads {
            64 => 0.9,
            256 => 0.8,
            _ => continue,
        };
        let what = format!("{threads} threads against the best number, {}", title(cell)?);
        lines.push(verdict(&what, speed / best, speed / best >= limit, limit));
    }
    Ok(lines)
}
