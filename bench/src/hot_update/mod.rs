//! Experiment `hot-update`: few rows are updated again and again; do the indexes stay at their
//! size?
//!
//! Table `t`: `id`, `k` (eight rows share one), `a` and `b` (random) and `c`, int8 each, and a text
//! of 40 bytes. Rows are found by `id` through the primary key (`unique`), or by `k` through an
//! index; the other `indexes`, which nothing reads, are one on `a` and the rest on `b`.
//!
//! An update sets `a` (`column` `indexed`) or `c`. Rows are chosen by a Zipfian distribution with
//! theta 1.1, unscrambled: the hottest keys share leaves. A transaction is one read or one update,
//! relaxed, under read committed.
//!
//! `hints` `each` runs all policies in turns on one table. `idle_scan`: a scan that has handed out
//! ten rows stays open; `old_snapshot`: a snapshot does. `vacuum_at`, `scan_at`: a vacuum, a read
//! of the whole table begins after so many seconds. Where `epoch` was slower than another policy,
//! the two are run again in pairs.
//!
//! Invariants: the load runs as long as it is told, whatever it reaches.
//! Does not do: other engines; figures are explained where they are written (`outcome`).

mod events;
mod latency;
mod load;
mod outcome;
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
use crate::hot_update::events::Events;
use crate::hot_update::load::{Load, Setup};
use crate::hot_update::outcome::{Outcome, PolicyRun, Work, title, verdict};
use crate::hot_update::slices::Watch;
use crate::hot_update::yardstick::Yardstick;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Report, say};
use crate::scratch::Scratch;

pub(crate) const NAME: &str = "hot-update";
pub(crate) const ABOUT: &str = "skewed updates: speed in slices, pages and dead items of indexes";

const BOTH: &[&str] = &["true", "false"];
const NO: &[&str] = &["false"];
const NEVER: &[&str] = &["0"];
const POLICIES: &[&str] = &["off", "page-lsn", "saved-lsn", "pin-held", "epoch"];

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
    Knob { name: "hints", quick: &["off", "page-lsn", "epoch"], default: POLICIES, all: POLICIES },
    Knob { name: "indexes", quick: &["3"], default: &["3"], all: &["2", "3", "5", "10"] },
    Knob { name: "fillfactor", quick: &["100"], default: &["100"], all: &["100", "90"] },
    Knob { name: "vacuum_at", quick: NEVER, default: NEVER, all: NEVER },
    Knob { name: "scan_at", quick: NEVER, default: NEVER, all: NEVER },
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
/// Slices of a policy's turn on a table that all policies share, after a slice that does not count.
const TURN: usize = 3;

/// Runs the matrix.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    let mut speeds = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let dir = scratch.path().join(format!("cell-{number}"));
        let outcome = run_cell(cell, &dir, args.size)?;
        std::fs::remove_dir_all(&dir)?;
        for run in &outcome.runs {
            let cell = cell.clone().with("hints", run.policy);
            report.cell(&outcome.json(&cell, run)?, &outcome.row(&cell, run)?)?;
            outcome.verdicts(&cell, run)?.iter().for_each(|line| say(line));
            speeds.push((cell, run.updates as f64 / run.seconds));
        }
    }
    let again = |cell: &Cell, other: DeadHints| {
        let dir = scratch.path().join("turns");
        let bound = turns::other_by_epoch(cell, other, &dir, args.size)?;
        std::fs::remove_dir_all(&dir)?;
        Ok(bound)
    };
    compare(&speeds, again)?.iter().for_each(|line| say(line));
    Ok(())
}

/// The policy called `name`.
fn policy(name: &str) -> Result<DeadHints, Failure> {
    let known = DeadHints::EACH.iter().find(|(known, _)| *known == name);
    Ok(known.ok_or_else(|| format!("hints cannot be `{name}`"))?.1)
}

fn run_cell(cell: &Cell, dir: &Path, size: Size) -> Result<Outcome, Failure> {
    let setup = Setup::of(cell)?;
    let db = open(&setup, dir)?;
    let hints = cell.get::<String>("hints")?;
    let names: Vec<&'static str> = match hints.as_str() {
        "each" => POLICIES.to_vec(),
        one => POLICIES.iter().copied().filter(|name| *name == one).collect(),
    };
    db.set_dead_hints(policy(names.first().copied().unwrap_or(&hints))?);
    fill(&db, &setup)?;
    let (before, heap_before) = pages(&db)?;
    let parked = park(&db, &setup, cell.get("idle_scan")?, cell.get("old_snapshot")?)?;
    let clock = Clock::system();
    let time = Duration::from_secs(cell.get("seconds")?);
    let mut yardstick = Yardstick::new();
    let load = Load::start(&db, &setup);
    let events = Events::start(&db, cell, clock.now())?;
    let watch = Watch::new(&db, &clock, &load, &mut yardstick);
    let mut runner = PolicyRunner { db: &db, setup: &setup, clock: &clock, watch };
    let mut runs: Vec<PolicyRun> = names.into_iter().map(PolicyRun::new).collect();
    match &mut runs[..] {
        [only] => runner.run(only, time, None)?,
        all => runner.run_in_turns(all, time)?,
    }
    let (_, rows_updated) = load.stop()?;
    clock.sleep(Duration::from_secs(if size == Size::Quick { 1 } else { 10 }));
    let later = hot_leaves(&db, &setup)?;
    let (after, heap_after) = pages(&db)?;
    drop(parked);
    let events = events.end()?;
    let pages = rebuilt(&db, &setup, &before, &after)?;
    check(&db, &setup)?;
    for run in &mut runs {
        run.emptiest = run.emptiest.min(later.emptiest);
    }
    let fixed = growth_of_fixed(&setup, &before, &after);
    let dead_after = later.dead;
    Ok(Outcome { runs, events, pages, dead_after, fixed, rows_updated, heap_before, heap_after })
}

/// Runs policies beside the load.
struct PolicyRunner<'a> {
    db: &'a Database,
    setup: &'a Setup,
    clock: &'a Clock,
    watch: Watch<'a>,
}

impl PolicyRunner<'_> {
    /// Each policy runs for `time` in all, in short turns, in another order in each round: the
    /// machine is not the same from minute to minute, and a turn leaves its dead entries to the
    /// next.
    fn run_in_turns(&mut self, runs: &mut [PolicyRun], time: Duration) -> Result<(), Failure> {
        let slice = SLICE.min(time / TURN as u32).max(Duration::from_millis(250));
        let rounds = (time.as_secs_f64() / (slice * TURN as u32).as_secs_f64()).round().max(1.0);
        let (mut order, mut rng) = ((0..runs.len()).collect::<Vec<_>>(), Rng::from_seed(7));
        for _ in 0..rounds as u64 {
            rng.shuffle(&mut order);
            for at in &order {
                self.run(&mut runs[*at], slice * TURN as u32, Some(slice / 5))?;
            }
        }
        Ok(())
    }

    /// One policy for `time`, after a while that does not count.
    fn run(
        &mut self,
        run: &mut PolicyRun,
        time: Duration,
        settle: Option<Duration>,
    ) -> Result<(), Failure> {
        self.db.set_dead_hints(policy(run.policy)?);
        if let Some(settle) = settle {
            self.watch.slice(settle);
        }
        let parts = if settle.is_some() { TURN as u32 } else { 4 };
        let slice = SLICE.min(time / parts).max(Duration::from_millis(250));
        let (start, before) = (self.clock.now(), Work::of(self.db)?);
        while self.clock.now() - start + slice / 10 < time {
            let slice = self.watch.slice(slice);
            run.updates += (slice.updates_per_s * slice.seconds).round() as u64;
            run.timed.join(&slice.timed);
            run.slices.push(slice);
            let sample = hot_leaves(self.db, self.setup)?;
            run.live.push(sample.live);
            run.dead.push(sample.dead);
            run.emptiest = run.emptiest.min(sample.emptiest);
        }
        run.seconds = run.slices.iter().map(|slice| slice.seconds).sum();
        run.work = run.work.plus(Work::of(self.db)?.minus(before));
        Ok(())
    }
}

/// A database whose memory holds all of it.
fn open(setup: &Setup, dir: &Path) -> Result<Database, Failure> {
    let memory = (setup.rows as usize * 600).max(64 << 20);
    Ok(Database::options().memory(memory).open(dir)?)
}

/// Creates and fills the table.
fn fill(db: &Database, setup: &Setup) -> Result<(), Failure> {
    let mut schema = TableSchema::new(TABLE).fillfactor(setup.fillfactor);
    for column in ["id", "k", "a", "b", "c"] {
        schema = schema.column(column, Type::Int8);
    }
    schema = schema.column("note", Type::Text);
    if setup.unique {
        schema = schema.primary_key(["id"]);
    }
    if !setup.logged {
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
    for (name, column) in setup.others() {
        txn.create_index(TABLE, &IndexSchema::new(&name).on(column))?;
    }
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
            "t_pkey" => "id",
            _ => "b",
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
    let others = setup.others();
    let others = others.iter().map(|(name, _)| name.as_str());
    for index in [setup.key_index()].into_iter().chain(others) {
        let scan = ScanOptions::index(index).any_order().columns(["id"]);
        let found = txn.scan(TABLE, &scan)?.count() as u64;
        if found != setup.rows {
            return Err(format!("{found} of {} rows by {index}", setup.rows).into());
        }
    }
    Ok(())
}

/// The targets that compare cells: `epoch` with the fastest other policy, numbers of threads with
/// the best one.
fn compare(
    speeds: &[(Cell, f64)],
    mut again: impl FnMut(&Cell, DeadHints) -> Result<(f64, f64), Failure>,
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    let others = |cell: &Cell, left_out: &str| -> Result<Vec<String>, String> {
        let knobs = KNOBS.iter().filter(|knob| knob.name != left_out);
        knobs.map(|knob| cell.get(knob.name)).collect()
    };
    for (cell, speed) in speeds {
        let (hints, threads): (String, u64) = (cell.get("hints")?, cell.get("threads")?);
        let (mut fastest, mut best) = (None::<(String, f64)>, *speed);
        for (other, its) in speeds {
            let its_hints = other.get::<String>("hints")?;
            if others(other, "hints")? == others(cell, "hints")?
                && its_hints != hints
                && fastest.as_ref().is_none_or(|(_, speed)| its > speed)
            {
                fastest = Some((its_hints, *its));
            }
            if others(other, "threads")? == others(cell, "threads")? {
                best = best.max(*its);
            }
        }
        if let Some((other, its)) = fastest.filter(|_| hints == "epoch") {
            let ratio = speed / its;
            let what = format!("epoch against {other}, {}", title(cell)?);
            let bound = if ratio < 1.0 { Some(again(cell, policy(&other)?)?) } else { None };
            let kept = bound.is_none_or(|(_, slower)| slower <= 1.0);
            lines.push(verdict(&what, ratio, kept, 1.0));
            lines.extend(bound.map(|(mean, slower)| {
                format!("    in pairs: {other} {mean:.3} times as fast, at least {slower:.3}")
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
