//! Experiment `vacuum`: a quarter of a table's rows dies; how long a vacuum takes, in which memory
//! and in how many passes over the indexes, and what a paced one costs those who work beside it.
//!
//! Table `t` has `indexes` indexes on random numbers. The rows whose number leaves 0 by four are
//! deleted and vacuumed as fast as can be, alone. Then those that leave 1 are, paced, beside
//! `threads` threads that read and update rows by primary key; their transactions per second are
//! taken before, meanwhile and after, in slices of a second. `paced` `false` leaves this second
//! part out, which takes several times as long as all the rest.
//!
//! Invariants: the threads touch only rows that stay. Does not do: cold tables.

use rightlink::{
    Database, IndexSchema, Isolation, ScanOptions, TableSchema, TransactionOptions, Type,
    VacuumOptions, VacuumReport, Value,
};
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use rightlink_env::{Clock, Rng, thread};
use std::time::Duration;

use crate::Failure;
use crate::args::{Args, Size};
use crate::knobs::{self, Cell, Knob};
use crate::report::{Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::Summary;

pub(crate) const NAME: &str = "vacuum";
pub(crate) const ABOUT: &str = "removing a quarter of a table's rows, at once and paced";

/// `memory_mib` is the budget of the database; a sixteenth of it may hold dead row ids.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["100000"], default: &["4000000"], all: &["40000000"] },
    Knob { name: "indexes", quick: &["5"], default: &["5"], all: &["5"] },
    Knob { name: "threads", quick: &["2"], default: &["1", "2"], all: &["1", "2", "8"] },
    Knob { name: "paced", quick: &["true"], default: &["true"], all: &["true"] },
    Knob { name: "memory_mib", quick: &["1024"], default: &["1024"], all: &["1024"] },
];

const TABLE: &str = "t";
const BATCH: u64 = 5000;
const SLICE: Duration = Duration::from_secs(1);
/// Of the transactions of the threads, those that update.
const UPDATES: u64 = 20;

/// Runs the matrix.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let clock = Clock::system();
    for (at, cell) in knobs::matrix(KNOBS, args.size, &args.knobs).iter().enumerate() {
        let path = scratch.path().join(format!("vacuum{at}"));
        let memory = cell.get::<usize>("memory_mib")? << 20;
        let db = Database::options().memory(memory).auto_vacuum(false).open(&path)?;
        let slices = if args.size == Size::Quick { 2 } else { 8 };
        measure(&db, cell, slices, &clock, report)?;
        db.close()?;
        std::fs::remove_dir_all(&path)?;
    }
    Ok(())
}

fn relaxed() -> TransactionOptions {
    let isolation = Isolation::ReadCommitted;
    TransactionOptions { relaxed: true, isolation, ..TransactionOptions::default() }
}

fn fill(db: &Database, rows: u64, indexes: usize) -> Result<(), Failure> {
    let mut schema = TableSchema::new(TABLE).column("id", Type::Int8).column("n", Type::Int8);
    for index in 1..indexes {
        schema = schema.column(format!("k{index}"), Type::Int8);
    }
    let mut txn = db.begin();
    txn.create_table(&schema)?;
    txn.commit()?;
    let mut rng = Rng::from_seed(1);
    for first in (0..rows).step_by(BATCH as usize) {
        let mut row = |id: u64| {
            let mut row = vec![Value::Int8(id as i64), Value::Int8(0)];
            row.extend((1..indexes).map(|_| Value::Int8(rng.below(1 << 62) as i64)));
            row
        };
        let batch: Vec<_> = (first..rows.min(first + BATCH)).map(&mut row).collect();
        let mut txn = db.begin_with(relaxed());
        txn.insert_many(TABLE, &batch)?;
        txn.commit()?;
    }
    let mut txn = db.begin();
    txn.create_index(TABLE, &IndexSchema::new("t_id").on("id").unique())?;
    for index in 1..indexes {
        let column = format!("k{index}");
        txn.create_index(TABLE, &IndexSchema::new(format!("t_{column}")).on(column))?;
    }
    txn.commit()?;
    db.checkpoint()?;
    Ok(())
}

/// Deletes the rows whose number leaves `rest` by four; how many.
fn delete(db: &Database, rest: i64) -> Result<u64, Failure> {
    let mut ids = Vec::new();
    let mut txn = db.begin();
    let scan = ScanOptions::all().columns(["id"]);
    for row in txn.scan(TABLE, &scan)? {
        let row = row?;
        if matches!(row.values[0], Value::Int8(id) if id % 4 == rest) {
            ids.push(row.id);
        }
    }
    for ids in ids.chunks(BATCH as usize) {
        txn.delete_many(TABLE, ids)?;
    }
    txn.commit()?;
    db.checkpoint()?;
    Ok(ids.len() as u64)
}

/// Threads that read and update rows that stay.
struct Foreground {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<Result<(), rightlink::Error>>>,
}

impl Foreground {
    fn start(db: &Database, rows: u64, threads: u64) -> Foreground {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let spawn = |number| {
            let (db, stop, done) = (db.clone(), Arc::clone(&stop), Arc::clone(&done));
            thread::spawn("foreground", move || {
                let mut rng = Rng::from_seed(number);
                while !stop.load(Ordering::Relaxed) {
                    transaction(&db, &mut rng, rows)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let threads = (0..threads).map(spawn).collect();
        Foreground { stop, done, threads }
    }

    /// Transactions in each second of `count`, or until `until`.
    fn slices(&self, clock: &Clock, count: usize, until: &dyn Fn() -> bool) -> Vec<f64> {
        let mut slices = Vec::new();
        while slices.len() < count && !until() {
            let (before, began) = (self.done.load(Ordering::Relaxed), clock.now());
            clock.sleep(SLICE);
            let done = self.done.load(Ordering::Relaxed) - before;
            slices.push(done as f64 / (clock.now() - began).as_secs_f64());
        }
        slices
    }

    fn stop(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|panicked| panicked.to_string())??;
        }
        Ok(())
    }
}

fn transaction(db: &Database, rng: &mut Rng, rows: u64) -> Result<(), rightlink::Error> {
    let id = (rng.below(rows / 4) * 4 + 2 + rng.below(2)) as i64;
    let mut txn = db.begin_with(relaxed());
    let scan = ScanOptions::index("t_id").equal(vec![Value::Int8(id)]);
    let found = txn.scan(TABLE, &scan)?.next().transpose()?;
    if let Some(row) = found
        && rng.chance(UPDATES, 100)
    {
        txn.update(TABLE, row.id, &[("n", Value::Int8(id))])?;
    }
    txn.commit()
}

/// A vacuum in a thread of its own: its report and seconds.
type Run = thread::JoinHandle<(rightlink::Result<VacuumReport>, f64)>;

fn vacuum(db: &Database, gently: bool, clock: &Clock, done: &Arc<AtomicBool>) -> Run {
    let (db, clock, done) = (db.clone(), clock.clone(), Arc::clone(done));
    thread::spawn("vacuum", move || {
        let began = clock.now();
        let options = VacuumOptions { gently, ..Default::default() };
        let report = db.vacuum_with(Some(TABLE), options);
        done.store(true, Ordering::Relaxed);
        (report, (clock.now() - began).as_secs_f64())
    })
}

fn ended(run: Run) -> Result<(VacuumReport, f64), Failure> {
    let (report, seconds) = run.join().map_err(|panicked| panicked.to_string())?;
    Ok((report?, seconds))
}

/// What the vacuum that rests came to.
struct Paced {
    seconds: f64,
    index_passes: u64,
    /// Transactions per second before it, beside it and after it.
    before: Summary,
    beside: Summary,
    after: Summary,
}

impl Paced {
    /// Transactions beside it, of those without it: the mean of before and after, as they go up and
    /// down by themselves.
    fn share(&self) -> f64 {
        self.beside.median / (self.before.median + self.after.median) * 2.0
    }
}

fn measure(
    db: &Database,
    cell: &Cell,
    slices: usize,
    clock: &Clock,
    report: &mut Report,
) -> Result<(), Failure> {
    let rows = cell.get("rows")?;
    let began = clock.now();
    fill(db, rows, cell.get("indexes")?)?;
    let filled = clock.now();
    let dead = delete(db, 0)?;
    let (fill, delete) = ((filled - began).as_secs_f64(), (clock.now() - filled).as_secs_f64());
    say(&format!("filled in {fill:.0} s, {dead} rows deleted in {delete:.0} s"));
    let stat = |name: &str| db.stats().get(name).unwrap_or(0);
    let used = stat("memory_used_bytes");
    let done = Arc::new(AtomicBool::new(false));
    let run = vacuum(db, false, clock, &done);
    let mut most = used;
    while !done.load(Ordering::Relaxed) {
        most = most.max(stat("memory_used_bytes"));
        clock.sleep(Duration::from_millis(5));
    }
    let (first, fast) = ended(run)?;
    let memory = most.saturating_sub(used);
    let paced = match cell.get("paced")? {
        true => Some(pace(db, rows, cell.get("threads")?, slices, clock)?),
        false => None,
    };
    let mut figures = vec![
        ("experiment", Field::Text(NAME.into())),
        ("rows", Field::Int(rows)),
        ("dead", Field::Int(dead)),
        ("indexes", Field::Int(cell.get("indexes")?)),
        ("threads", Field::Int(cell.get("threads")?)),
        ("index_passes", Field::Int(first.index_passes)),
        ("memory_bytes", Field::Int(memory)),
        ("seconds", Field::Float(fast)),
    ];
    if let Some(paced) = &paced {
        figures.extend([
            ("seconds_paced", Field::Float(paced.seconds)),
            ("index_passes_paced", Field::Int(paced.index_passes)),
            ("tps_before", Field::Float(paced.before.median)),
            ("tps_beside", Field::Float(paced.beside.median)),
            ("tps_after", Field::Float(paced.after.median)),
            ("tps_share", Field::Float(paced.share())),
        ]);
    }
    report.cell(&figures, &figures[1..])?;
    judge(first.index_passes, memory, fast, paced.as_ref());
    Ok(())
}

/// A quarter more of the rows dies and is removed by a vacuum that rests, beside `threads`.
fn pace(
    db: &Database,
    rows: u64,
    threads: u64,
    slices: usize,
    clock: &Clock,
) -> Result<Paced, Failure> {
    delete(db, 1)?;
    let foreground = Foreground::start(db, rows, threads);
    let never = || false;
    foreground.slices(clock, slices / 2, &never);
    let before = foreground.slices(clock, slices, &never);
    let done = Arc::new(AtomicBool::new(false));
    let run = vacuum(db, true, clock, &done);
    let beside = foreground.slices(clock, usize::MAX, &|| done.load(Ordering::Relaxed));
    let (report, seconds) = ended(run)?;
    let after = foreground.slices(clock, slices, &never);
    foreground.stop()?;
    let [before, beside, after] = [before, beside, after].map(Summary::of);
    Ok(Paced { seconds, index_passes: report.index_passes, before, beside, after })
}

/// Tells every target with its figure.
fn judge(passes: u64, memory: u64, fast: f64, paced: Option<&Paced>) {
    let verdict = |what: &str, figure: String, kept: bool| {
        say(&format!("  {what}: {figure}: {}", if kept { "kept" } else { "MISSED" }));
    };
    verdict("one pass over the indexes", passes.to_string(), passes == 1);
    let mib = memory as f64 / f64::from(1 << 20);
    verdict("memory within 64 MiB, all told", format!("{mib:.3} MiB"), mib <= 64.0);
    let Some(paced) = paced else { return };
    let (share, longer) = (paced.share(), paced.seconds / fast);
    verdict("transactions beside it, at least 0.95", format!("{share:.3}"), share >= 0.95);
    verdict("paced within ten times as long", format!("{longer:.1}"), longer <= 10.0);
    let Paced { before, beside, after, .. } = paced;
    say(&format!("  transactions/s before {before}, beside {beside}, after {after}"));
}
