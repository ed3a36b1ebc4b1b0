//! Experiment `online-index`: whom an index build beside writers holds up, and how long it takes.
//!
//! Threads commit relaxed transactions of one row each, inserts and updates of random rows, first
//! alone, then while an index is built, then while it is built anew. The time of each transaction
//! is taken. The same index is built in a transaction, too, which keeps writers out. The target:
//! none takes more than 50 ms; on a machine with other work some take longer alone, so both are
//! counted.
//!
//! Invariants: the index is verified and compared with the heap's rows at the end.
//! Does not do: readers, durable commits (they wait for the device).

use std::time::Duration;

use rightlink::{
    Database, IndexSchema, Options, ScanOptions, TableSchema, TransactionOptions, Type, Value,
};
use rightlink_env::sync::{Arc, AtomicBool, AtomicI64, Ordering};
use rightlink_env::{Clock, Rng, thread};

use crate::Failure;
use crate::args::Args;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Field, Report, say};
use crate::scratch::Scratch;

pub(crate) const NAME: &str = "online-index";
pub(crate) const ABOUT: &str = "writers beside an index build";

/// `memory` is the budget in MiB, `writers` the threads that write, `seconds` how long they do so
/// alone.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["200000"], default: &["2000000"], all: &["10000000"] },
    Knob { name: "memory", quick: &["256"], default: &["1024"], all: &["1024"] },
    Knob { name: "writers", quick: &["1"], default: &["1", "2"], all: &["1", "2", "8"] },
    Knob { name: "seconds", quick: &["2"], default: &["10"], all: &["20"] },
];

/// The most that a writer may wait.
const TARGET_MS: f64 = 50.0;
const BATCH: usize = 2000;

/// What the writers did in a while.
#[derive(Default)]
struct Seen {
    /// Milliseconds of each transaction, ascending.
    times: Vec<f64>,
    seconds: f64,
}

impl Seen {
    fn per_s(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }

    fn longest(&self) -> f64 {
        self.times.last().copied().unwrap_or(0.0)
    }

    fn late(&self) -> u64 {
        self.times.iter().filter(|time| **time > TARGET_MS).count() as u64
    }

    fn share(&self, share: f64) -> f64 {
        let at = (self.times.len() as f64 * share) as usize;
        self.times.get(at.min(self.times.len().saturating_sub(1))).copied().unwrap_or(0.0)
    }
}

/// Runs the matrix.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    for (number, cell) in knobs::matrix(KNOBS, args.size, &args.knobs).iter().enumerate() {
        let path = scratch.path().join(format!("db{number}"));
        let options = options(cell)?;
        let db = make(options.open(path)?, cell)?;
        measure(&db, cell, report)?;
        db.close()?;
    }
    Ok(())
}

fn options(cell: &Cell) -> Result<Options, Failure> {
    Ok(Database::options().memory(cell.get::<usize>("memory")? << 20))
}

fn relaxed() -> TransactionOptions {
    TransactionOptions { relaxed: true, ..TransactionOptions::default() }
}

fn row(id: i64, rng: &mut Rng) -> Vec<Value> {
    let mut uuid = [0; 16];
    rng.fill(&mut uuid);
    vec![Value::Int8(id), Value::Uuid(uuid), Value::Text("x".repeat(60))]
}

fn make(db: Database, cell: &Cell) -> Result<Database, Failure> {
    let mut txn = db.begin();
    let schema = TableSchema::new("t").column("id", Type::Int8).column("u", Type::Uuid);
    txn.create_table(&schema.column("pad", Type::Text).primary_key(["id"]))?;
    txn.commit()?;
    let (rows, mut rng) = (cell.get::<i64>("rows")?, Rng::from_seed(1));
    let ids: Vec<i64> = (0..rows).collect();
    for ids in ids.chunks(BATCH) {
        let batch: Vec<_> = ids.iter().map(|id| row(*id, &mut rng)).collect();
        let mut txn = db.begin_with(relaxed());
        txn.insert_many("t", &batch)?;
        txn.commit()?;
    }
    db.checkpoint()?;
    say(&format!("made a table of {rows} rows"));
    Ok(db)
}

/// Runs `work` beside the writers.
fn beside(
    db: &Database,
    cell: &Cell,
    next: &Arc<AtomicI64>,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<Seen, Failure> {
    let (stop, clock) = (Arc::new(AtomicBool::new(false)), Clock::system());
    let rows: i64 = cell.get("rows")?;
    let start = clock.now();
    let writers: Vec<_> = (0..cell.get::<u64>("writers")?)
        .map(|writer| {
            let (db, stop, next) = (db.clone(), Arc::clone(&stop), Arc::clone(next));
            let clock = clock.clone();
            thread::spawn(&format!("writer-{writer}"), move || {
                let mut rng = Rng::from_seed(writer ^ next.load(Ordering::SeqCst) as u64);
                let mut times = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let before = clock.now();
                    write(&db, &mut rng, rows, &next)?;
                    times.push(clock.now().since(before).as_secs_f64() * 1e3);
                }
                rightlink::Result::Ok(times)
            })
        })
        .collect();
    let worked = work();
    stop.store(true, Ordering::SeqCst);
    let seconds = clock.now().since(start).as_secs_f64();
    let mut seen = Seen { times: Vec::new(), seconds };
    for writer in writers {
        seen.times.extend(writer.join().expect("a writer does not panic")?);
    }
    worked?;
    seen.times.sort_by(f64::total_cmp);
    Ok(seen)
}

/// One transaction: half of them insert, half update the column that is going to be indexed.
fn write(db: &Database, rng: &mut Rng, rows: i64, next: &AtomicI64) -> rightlink::Result<()> {
    loop {
        let mut txn = db.begin_with(relaxed());
        if rng.chance(1, 2) {
            txn.insert("t", &row(next.fetch_add(1, Ordering::SeqCst), rng))?;
        } else {
            let id = Value::Int8(rng.below(rows as u64) as i64);
            let found = txn.get("t", &[id])?.expect("rows are not deleted");
            match txn.update("t", found.id, &[("u", row(0, rng)[1].clone())]) {
                Err(error) if error.is_retryable() => continue,
                updated => updated?,
            };
        }
        return txn.commit();
    }
}

fn measure(db: &Database, cell: &Cell, report: &mut Report) -> Result<(), Failure> {
    let next = Arc::new(AtomicI64::new(cell.get("rows")?));
    let alone_for = Duration::from_secs(cell.get("seconds")?);
    let index = IndexSchema::new("t_u").on("u");
    let clock = Clock::system();
    let start = clock.now();
    let mut txn = db.begin();
    txn.create_index("t", &index)?;
    txn.drop_index("t_u")?;
    txn.commit()?;
    let locked = clock.now().since(start).as_secs_f64();
    let alone = beside(db, cell, &next, || {
        clock.sleep(alone_for);
        Ok(())
    })?;
    let built = beside(db, cell, &next, || Ok(db.create_index_online("t", &index)?))?;
    let again = beside(db, cell, &next, || Ok(db.reindex("t", Some("t_u")).map(drop)?))?;
    let clean = db.verify()?.is_clean();
    let mut txn = db.begin();
    let by_index = txn.scan("t", &ScanOptions::index("t_u").columns(["u"]))?.count();
    let same = clean && by_index as i64 == next.load(Ordering::SeqCst);
    drop(txn);
    let figures = vec![
        ("experiment", Field::Text(NAME.into())),
        ("rows", Field::Int(cell.get("rows")?)),
        ("memory", Field::Int(cell.get("memory")?)),
        ("writers", Field::Int(cell.get("writers")?)),
        ("locked_build_s", Field::Float(locked)),
        ("build_s", Field::Float(built.seconds)),
        ("reindex_s", Field::Float(again.seconds)),
        ("alone_per_s", Field::Float(alone.per_s())),
        ("beside_per_s", Field::Float(built.per_s())),
        ("alone_longest_ms", Field::Float(alone.longest())),
        ("beside_longest_ms", Field::Float(built.longest())),
        ("reindex_longest_ms", Field::Float(again.longest())),
        ("beside_p999_ms", Field::Float(built.share(0.999))),
        ("alone_over_50_ms", Field::Int(alone.late())),
        ("beside_over_50_ms", Field::Int(built.late() + again.late())),
    ];
    let mut shown: Vec<_> = figures.iter().skip(1).cloned().collect();
    let kept = if built.late() + again.late() == 0 { "kept" } else { "MISSED" };
    shown.push(("no writer held up for 50 ms", Field::Text(kept.into())));
    shown.push(("equal to the heap", Field::Text(if same { "yes" } else { "NO" }.into())));
    Ok(report.cell(&figures, &shown)?)
}
