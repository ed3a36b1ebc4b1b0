//! Experiment `limit-sweep`: how much a small `LIMIT` reads, with reading ahead and without.
//!
//! Table `t`: `id` int8, indexed, in no order on disk, and `width` characters. Each turn takes a
//! first key at random and runs one scan of at most `limit` rows from there with each policy, from
//! a cold start, direct. What counts is that the policy that reads ahead takes not one page more
//! than the one that does not.
//!
//! Invariants: both policies return equally many rows; a scan with `limit` 1 that read a page more
//! ends the run as failed.
//! Does not do: limits beyond a few leaves (`index-scan` has the whole ranges).

use rightlink::{
    Database, IndexSchema, Prefetch, ScanOptions, TableSchema, TransactionOptions, Type, Value,
};
use rightlink_env::{Clock, Rng};

use crate::Failure;
use crate::args::Args;
use crate::knobs::{self, Cell, Knob};
use crate::methods::io;
use crate::report::{Column, Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::Summary;

pub(crate) const NAME: &str = "limit-sweep";
pub(crate) const ABOUT: &str = "scans with a limit over wide rows, cold, reads ahead on and off";

const LIMITS: &[&str] = &["1", "2", "4", "8", "16", "32", "64", "128", "256", "512"];
const DEVICES: &[&str] = &["native", "latency=500us,depth=64"];
const METHODS: &[&str] = &["io_uring", "worker"];

/// `rows` is the size of the table, `width` the characters of a row, `turns` how often each policy
/// is run.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["30000"], default: &["500000"], all: &["10000000"] },
    Knob { name: "width", quick: &["1000"], default: &["1000"], all: &["1000"] },
    Knob { name: "turns", quick: &["5"], default: &["15"], all: &["15"] },
    Knob { name: "method", quick: &["io_uring"], default: METHODS, all: METHODS },
    Knob { name: "device", quick: DEVICES, default: DEVICES, all: DEVICES },
    Knob { name: "limit", quick: &["1", "2", "8", "64", "512"], default: LIMITS, all: LIMITS },
];

const POLICIES: [(&str, Prefetch); 2] = [("off", Prefetch::None), ("on", Prefetch::Adaptive)];
const TABLE: &str = "t";
const INDEX: &str = "t_id";
const BATCH: usize = 2000;

/// The table of a cell, open.
struct Bed {
    made_for: Vec<String>,
    db: Database,
}

/// One scan.
#[derive(Clone, Copy)]
struct Turn {
    ms: f64,
    pages: u64,
    rows: u64,
}

/// Runs the matrix.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let clock = Clock::system();
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    make(scratch, &cells[0], &clock)?;
    let (mut bed, mut missed): (Option<Bed>, u32) = (None, 0);
    for cell in &cells {
        if bed.as_ref().is_none_or(|bed| bed.made_for != of_opening(cell)) {
            drop(bed.take());
            bed = Some(open(scratch, cell)?);
        }
        let bed = bed.as_ref().expect("opened above");
        missed += u32::from(!measure(&bed.db, cell, &clock, report)?);
    }
    match missed {
        0 => Ok(()),
        _ => Err(format!("{missed} cells with limit 1 read a page more than without").into()),
    }
}

fn of_opening(cell: &Cell) -> Vec<String> {
    ["method", "device"].iter().filter_map(|name| cell.get(name).ok()).collect()
}

/// Bytes of memory for a pool that holds the table.
fn memory(cell: &Cell) -> Result<usize, Failure> {
    let (rows, width): (usize, usize) = (cell.get("rows")?, cell.get("width")?);
    Ok((rows * (width + 100) * 8 / 5).max(64 << 20))
}

fn make(scratch: &Scratch, cell: &Cell, clock: &Clock) -> Result<(), Failure> {
    let (rows, width): (u64, usize) = (cell.get("rows")?, cell.get("width")?);
    let start = clock.now();
    let db = Database::options().memory(memory(cell)?).open(scratch.path().join("bed"))?;
    let mut txn = db.begin();
    let schema = TableSchema::new(TABLE).column("id", Type::Int8).column("pad", Type::Text);
    txn.create_table(&schema.unlogged())?;
    txn.commit()?;
    let mut ids: Vec<u64> = (0..rows).collect();
    Rng::from_seed(1).shuffle(&mut ids);
    for ids in ids.chunks(BATCH) {
        let row = |id: &u64| vec![Value::Int8(*id as i64), Value::Text("x".repeat(width))];
        let options = TransactionOptions { relaxed: true, ..TransactionOptions::default() };
        let mut txn = db.begin_with(options);
        txn.insert_many(TABLE, &ids.iter().map(row).collect::<Vec<_>>())?;
        txn.commit()?;
    }
    let mut txn = db.begin();
    txn.create_index(TABLE, &IndexSchema::new(INDEX).on("id"))?;
    txn.commit()?;
    db.vacuum(Some(TABLE))?;
    db.close()?;
    let seconds = (clock.now() - start).as_secs_f64();
    say(&format!("made {rows} rows of {width} characters in {seconds:.1} s"));
    Ok(())
}

fn open(scratch: &Scratch, cell: &Cell) -> Result<Bed, Failure> {
    let (method, device) = io(cell)?;
    let options = Database::options().memory(memory(cell)?).direct(true).threads(false);
    let db = options.method(method).device(device).open(scratch.path().join("bed"))?;
    Ok(Bed { made_for: of_opening(cell), db })
}

fn scan(
    db: &Database,
    first: i64,
    limit: u64,
    policy: Prefetch,
    clock: &Clock,
) -> Result<Turn, Failure> {
    db.set_prefetch(policy);
    db.evict()?;
    let pages = || db.stats().get("pool_reads").unwrap_or(0);
    let options = ScanOptions::index(INDEX).from(vec![Value::Int8(first)]).limit(limit);
    let (before, start) = (pages(), clock.now());
    let mut txn = db.begin();
    let mut rows = 0;
    for row in txn.scan(TABLE, &options)? {
        row?;
        rows += 1;
    }
    let ms = (clock.now() - start).as_secs_f64() * 1e3;
    Ok(Turn { ms, pages: pages() - before, rows })
}

/// Both policies, turn by turn; false if the limit is 1 and reading ahead took a page more.
fn measure(
    db: &Database,
    cell: &Cell,
    clock: &Clock,
    report: &mut Report,
) -> Result<bool, Failure> {
    let (rows, limit): (u64, u64) = (cell.get("rows")?, cell.get("limit")?);
    let mut turns: [Vec<Turn>; 2] = Default::default();
    for turn in 0..cell.get::<u64>("turns")? {
        let first = Rng::from_seed(turn).below(rows.saturating_sub(limit).max(1)) as i64;
        for step in 0..POLICIES.len() {
            let which = (turn as usize + step) % POLICIES.len();
            turns[which].push(scan(db, first, limit, POLICIES[which].1, clock)?);
        }
        let last = turns.each_ref().map(|turns| turns[turns.len() - 1].rows);
        if last[0] != last[1] {
            return Err(format!("the policies disagree: {last:?} rows").into());
        }
    }
    let more = turns[0].iter().zip(&turns[1]).map(|(off, on)| on.pages.saturating_sub(off.pages));
    let more = more.max().unwrap_or(0);
    for ((name, _), turns) in POLICIES.iter().zip(&turns) {
        let ms = Summary::of(turns.iter().map(|turn| turn.ms).collect());
        let pages = Summary::of(turns.iter().map(|turn| turn.pages as f64).collect());
        let mut json = vec![("experiment", Field::Text(NAME.into()))];
        json.extend(figures(cell, name, ms.median, pages.median)?);
        let mut shown = figures(cell, name, ms.median, pages.median)?;
        shown.push(("most more", Field::Int(more)));
        shown.push(("spread", Field::Text(ms.to_string())));
        report.cell(&json, &shown)?;
    }
    Ok(limit > 1 || more == 0)
}

fn figures(cell: &Cell, policy: &str, ms: f64, pages: f64) -> Result<Vec<Column>, Failure> {
    Ok(vec![
        ("rows", Field::Int(cell.get("rows")?)),
        ("width", Field::Int(cell.get("width")?)),
        ("method", Field::Text(cell.get("method")?)),
        ("device", Field::Text(cell.get("device")?)),
        ("limit", Field::Int(cell.get("limit")?)),
        ("prefetch", Field::Text(policy.into())),
        ("ms", Field::Float(ms)),
        ("pages_read", Field::Int(pages as u64)),
    ])
}
