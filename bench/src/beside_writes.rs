//! Experiment `beside-writes`: what a checkpoint costs a scan that reads ahead.
//!
//! Table `t` is scanned by an index that its heap has no order in common with; table `w` has two
//! uuid indexes. Before each scan `dirty` rows go into `w`, and `t` is cold. Half of the scans run
//! alone, the other half while another thread writes all of `w` back; both kinds take turns. The
//! target: the scan takes at most a third longer.
//!
//! Invariants: `share` tells for how much of the scan the checkpoint ran; well below 1 a ratio says
//! little. Does not do: commits beside the scan.

use rightlink::{Database, IndexSchema, ScanOptions, TableSchema, TransactionOptions, Type, Value};
use rightlink_env::{Clock, Nanos, Rng, thread};

use crate::Failure;
use crate::args::Args;
use crate::knobs::{self, Cell, Knob};
use crate::methods::io;
use crate::report::{Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::Summary;

pub(crate) const NAME: &str = "beside-writes";
pub(crate) const ABOUT: &str = "cold scans alone and beside a checkpoint";

const DEVICES: &[&str] = &["native", "latency=500us,depth=64"];
const METHODS: &[&str] = &["io_uring", "worker"];

/// `rows` is the size of the scanned table, `dirty` the rows inserted into the other one before a
/// scan, `pairs` how often both kinds are run.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["100000"], default: &["300000"], all: &["1000000"] },
    Knob { name: "dirty", quick: &["6000"], default: &["12000"], all: &["12000"] },
    Knob { name: "pairs", quick: &["3"], default: &["7"], all: &["20"] },
    Knob { name: "method", quick: &["io_uring"], default: METHODS, all: METHODS },
    Knob { name: "device", quick: DEVICES, default: DEVICES, all: DEVICES },
];

/// The most that a scan may take longer.
const TARGET: f64 = 4.0 / 3.0;
const BATCH: usize = 2000;
/// Rows of the other table, as many as give its indexes enough leaves.
const OTHER_ROWS: i64 = 600_000;

/// A scan and the checkpoint beside it.
#[derive(Clone, Copy)]
struct Turn {
    ms: f64,
    /// For how much of the scan the checkpoint ran.
    share: f64,
    written: u64,
}

/// Runs the matrix.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let clock = Clock::system();
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    let mut next = make(scratch, &cells[0], &clock)?;
    for cell in &cells {
        let bed = Bed { db: open(scratch, cell)?, cell, clock: &clock };
        bed.measure(&mut next, report)?;
        bed.db.close()?;
    }
    Ok(())
}

fn open(scratch: &Scratch, cell: &Cell) -> Result<Database, Failure> {
    let (method, device) = io(cell)?;
    let options = Database::options().memory(1 << 30).direct(true).threads(false);
    Ok(options.method(method).device(device).open(scratch.path().join("bed"))?)
}

fn relaxed() -> TransactionOptions {
    TransactionOptions { relaxed: true, ..TransactionOptions::default() }
}

/// Inserts `count` rows into the table that is written.
fn dirty(db: &Database, next: &mut i64, count: i64) -> Result<(), Failure> {
    let uuid = |rng: &mut Rng| {
        let mut bytes = [0; 16];
        rng.fill(&mut bytes);
        Value::Uuid(bytes)
    };
    let row = |id: i64| {
        let mut rng = Rng::from_seed(id as u64);
        vec![uuid(&mut rng), uuid(&mut rng)]
    };
    let rows: Vec<_> = (*next..*next + count).map(row).collect();
    *next += count;
    for rows in rows.chunks(BATCH) {
        let mut txn = db.begin_with(relaxed());
        txn.insert_many("w", rows)?;
        txn.commit()?;
    }
    Ok(())
}

/// Makes both tables; the first number for a row of the second that is not used.
fn make(scratch: &Scratch, cell: &Cell, clock: &Clock) -> Result<i64, Failure> {
    let start = clock.now();
    let db = Database::options().memory(1 << 30).open(scratch.path().join("bed"))?;
    let mut txn = db.begin();
    let scanned = TableSchema::new("t").column("a", Type::Int8).column("b", Type::Text);
    txn.create_table(&scanned.fillfactor(20).unlogged())?;
    let written = TableSchema::new("w").column("u", Type::Uuid).column("v", Type::Uuid);
    txn.create_table(
        &written.index(IndexSchema::new("w_u").on("u")).index(IndexSchema::new("w_v").on("v")),
    )?;
    txn.commit()?;
    let mut keys: Vec<i64> = (0..cell.get("rows")?).collect();
    Rng::from_seed(1).shuffle(&mut keys);
    for keys in keys.chunks(BATCH) {
        let row = |key: &i64| vec![Value::Int8(*key), Value::Text("x".repeat(32))];
        let mut txn = db.begin_with(relaxed());
        txn.insert_many("t", &keys.iter().map(row).collect::<Vec<_>>())?;
        txn.commit()?;
    }
    let mut txn = db.begin();
    txn.create_index("t", &IndexSchema::new("t_a").on("a"))?;
    txn.commit()?;
    db.vacuum(Some("t"))?;
    let mut next = 0;
    dirty(&db, &mut next, OTHER_ROWS)?;
    db.close()?;
    say(&format!("made both tables in {:.1} s", (clock.now() - start).as_secs_f64()));
    Ok(next)
}

/// Both tables, open for a cell.
struct Bed<'c> {
    db: Database,
    cell: &'c Cell,
    clock: &'c Clock,
}

impl Bed<'_> {
    /// Scans a tenth of the rows; when that began and ended.
    fn scan(&self, turn: u64) -> Result<(Nanos, Nanos), Failure> {
        let rows: i64 = self.cell.get("rows")?;
        let count = rows / 10;
        let first = Rng::from_seed(turn).below((rows - count) as u64) as i64;
        let options = ScanOptions::index("t_a").from(vec![Value::Int8(first)]);
        let start = self.clock.now();
        let mut txn = self.db.begin();
        for row in txn.scan("t", &options.limit(count as u64))? {
            row?;
        }
        Ok((start, self.clock.now()))
    }

    /// One scan, alone or `beside` a checkpoint; `next` is the next row of the other table.
    fn turn(&self, number: u64, next: &mut i64, beside: bool) -> Result<Turn, Failure> {
        self.db.evict()?;
        dirty(&self.db, next, self.cell.get("dirty")?)?;
        let written = || self.db.stats().get("pool_written_pages").unwrap_or(0);
        let before = written();
        let writer = beside.then(|| {
            let (db, clock) = (self.db.clone(), self.clock.clone());
            thread::spawn("checkpoint", move || db.checkpoint().map(|()| clock.now()))
        });
        let scanned = self.scan(number);
        let ended = writer.map(|writer| writer.join().expect("a checkpoint does not panic"));
        let (start, end) = scanned?;
        let ended = ended.transpose()?.map_or(start, |ended| ended.min(end));
        let ms = |from: Nanos, to: Nanos| to.since(from).as_secs_f64() * 1e3;
        let (taken, beside) = (ms(start, end), ms(start, ended.max(start)));
        Ok(Turn { ms: taken, share: beside / taken, written: written() - before })
    }

    fn measure(&self, next: &mut i64, report: &mut Report) -> Result<(), Failure> {
        let cell = self.cell;
        let mut turns: [Vec<Turn>; 2] = Default::default();
        for number in 0..cell.get::<u64>("pairs")? {
            for step in 0..2 {
                let beside = (number + step) % 2 == 1;
                let done = self.turn(number, next, beside)?;
                turns[usize::from(beside)].push(done);
            }
        }
        let median =
            |of: fn(&Turn) -> f64, kind: usize| Summary::of(turns[kind].iter().map(of).collect());
        let [alone, beside] = [0, 1].map(|kind| median(|turn| turn.ms, kind));
        let ratio = beside.median / alone.median;
        let figures = vec![
            ("experiment", Field::Text(NAME.into())),
            ("rows", Field::Int(cell.get("rows")?)),
            ("method", Field::Text(cell.get("method")?)),
            ("device", Field::Text(cell.get("device")?)),
            ("ms_alone", Field::Float(alone.median)),
            ("ms_beside", Field::Float(beside.median)),
            ("ratio", Field::Float(ratio)),
            ("share", Field::Float(median(|turn| turn.share, 1).median)),
            ("pages_written", Field::Int(median(|turn| turn.written as f64, 1).median as u64)),
        ];
        let mut shown: Vec<_> = figures.iter().skip(1).cloned().collect();
        let kept = if ratio <= TARGET { "kept" } else { "MISSED" };
        shown.push(("at most a third longer", Field::Text(kept.into())));
        shown.push(("spread alone", Field::Text(alone.to_string())));
        shown.push(("spread beside", Field::Text(beside.to_string())));
        Ok(report.cell(&figures, &shown)?)
    }
}
