//! Experiment `index-scan`: ranges of an index whose heap is ordered alike, a little or not at all.
//!
//! Table `t`: `a` int8, indexed, and `b`, 32 characters; row `i` has key `i / duplicates` and is
//! stored where `i + fuzz * (random - 1/2)` sorts it (fuzz -1: anywhere). Each turn runs one range
//! with each policy (`none`, `simple`, `adaptive`) in a changing order, in one process. `cold`:
//! everything is written home and dropped from memory before each scan; `warm`: the range was read
//! before.
//!
//! Two bare passes over the distinct heap blocks of a range, at depth 64, by bare `aio` with the
//! cell's method on the cell's device, in each turn: *joined* reads them ascending, neighbours
//! joined to 128 KiB; *single* reads them as the index first names them, each by itself.
//! - `limit_share` is the device's limit by the scan's time, the limit as for the figures of
//!   PostgreSQL that the target was set against: where rows are scattered (fuzz 65536 and more, or
//!   anywhere) the single pass, elsewhere the joined one.
//! - `joined_limit_share` is the joined pass by the scan's time, whatever the fuzz. It is the
//!   stricter one: no scan in the index's order knows all blocks before it reads the first, nor
//!   has memory for all. Below fuzz 65536 both are the same.
//!
//! Shares have no meaning for warm and for index-only scans. No scan that hands over its rows on
//! one thread can take less than its `floor`: the time to its first row, and then the device's
//! time or that of the same scan with everything in memory, whichever is longer.
//!
//! Invariants: every policy returns equally many rows of each range. Does not do: other engines.

pub(crate) mod picture;
pub(crate) mod table;
mod targets;

use rightlink::Prefetch;
use rightlink_env::Clock;

use crate::args::Args;
use crate::index_scan::table::{Bed, Opened, Turn};
use crate::index_scan::targets::Targets;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Column, Field, Report};
use crate::scratch::Scratch;
use crate::stats::Summary;
use crate::{Failure, device};

pub(crate) const NAME: &str = "index-scan";
pub(crate) const ABOUT: &str = "ranges of an index over heaps of every order, three policies";

const FUZZ: &[&str] =
    &["0", "1", "4", "16", "64", "256", "1024", "4096", "16384", "65536", "262144", "-1"];

/// `rows` is the size of the table, `turns` how often each policy is run. `run` neighbours are
/// moved together, `changed` percent of the blocks are not all-visible, and `margin` percent at
/// each end of the table are in no range. With a known `estimate` a scan is told its rows.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["60000"], default: &["300000"], all: &["1000000", "10000000"] },
    Knob { name: "turns", quick: &["3"], default: &["3"], all: &["5"] },
    Knob { name: "duplicates", quick: &["1"], default: &["1"], all: &["1", "32"] },
    Knob { name: "fillfactor", quick: &["20"], default: &["20"], all: &["20", "60", "100"] },
    Knob { name: "fuzz", quick: &["0", "64", "-1"], default: FUZZ, all: DOUBLING },
    Knob { name: "run", quick: &["1"], default: &["1"], all: &["1", "64"] },
    Knob { name: "changed", quick: &["0"], default: &["0"], all: &["0", "1", "10", "50"] },
    Knob { name: "method", quick: &["io_uring"], default: METHODS, all: METHODS },
    Knob { name: "device", quick: DEVICES, default: DEVICES, all: DEVICES },
    Knob { name: "io", quick: &["direct"], default: &["direct"], all: &["direct", "buffered"] },
    Knob { name: "cache", quick: CACHES, default: CACHES, all: CACHES },
    Knob { name: "selectivity", quick: &["1"], default: &["0.1", "1", "10"], all: SELECTIVITIES },
    Knob {
        name: "kind",
        quick: &["heap", "index-only"],
        default: &["heap"],
        all: &["heap", "index-only"],
    },
    Knob {
        name: "direction",
        quick: &["forward"],
        default: &["forward"],
        all: &["forward", "backward"],
    },
    Knob { name: "margin", quick: &["1"], default: &["1"], all: &["1"] },
    Knob { name: "estimate", quick: &["known"], default: &["known"], all: &["known", "none"] },
];
/// The thread's own values.
const DOUBLING: &[&str] = &[
    "0", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192",
    "16384", "32768", "65536", "131072", "262144", "524288", "1048576", "2097152", "4194304",
    "8388608", "-1",
];
const METHODS: &[&str] = &["io_uring", "worker", "sync"];
const DEVICES: &[&str] = &["native", "latency=500us,depth=64"];
const CACHES: &[&str] = &["cold", "warm"];
const SELECTIVITIES: &[&str] = &["0.01", "0.1", "1", "10", "100"];

const POLICIES: [(&str, Prefetch); 3] =
    [("none", Prefetch::None), ("simple", Prefetch::Simple), ("adaptive", Prefetch::Adaptive)];

/// Runs the matrix: one table for all cells of an order, one opening for all of a device.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let clock = Clock::system();
    let mut beds: Option<(Bed, Option<Opened>)> = None;
    let mut targets = Targets::default();
    for cell in knobs::matrix(KNOBS, args.size, &args.knobs) {
        if beds.as_ref().is_none_or(|(bed, _)| !bed.serves(&cell)) {
            drop(beds.take());
            beds = Some((Bed::make(scratch, &cell, &clock)?, None));
        }
        let (bed, opened) = beds.as_mut().expect("made above");
        if opened.as_ref().is_none_or(|opened| !opened.serves(&cell)) {
            drop(opened.take());
            *opened = Some(bed.open(&cell)?);
        }
        let opened = opened.as_mut().expect("opened above");
        let outcome = measure(opened, &cell, &clock);
        let figures = outcome.map_err(|e| format!("{}: {e}", cell.words().join(" ")))?;
        let again = |pairs| compare(opened, &cell, pairs, &clock);
        let judged = targets.judge(&cell, &figures, again)?;
        tell(&cell, &figures, &judged, report)?;
    }
    targets.say()?;
    Ok(())
}

/// What each policy took, and the device's limit, in milliseconds.
struct Figures {
    turns: [Vec<Turn>; 3],
    /// The device's limit: one of the two passes.
    limit_ms: f64,
    /// The joined pass.
    joined_ms: f64,
    /// Until the first row, from a cold start.
    first_ms: f64,
    /// With everything in memory.
    warm_ms: f64,
}

impl Figures {
    /// The least that a scan on one thread can take, if the device takes `device_ms`.
    fn floor_ms(&self, device_ms: f64) -> f64 {
        self.first_ms + device_ms.max(self.warm_ms)
    }

    fn rows(&self) -> f64 {
        median(&self.turns[0], |turn| turn.rows as f64)
    }
}

/// From this fuzz on rows count as scattered.
const SCATTERED: i64 = 65_536;

/// Are rows that the index names together stored anywhere?
fn is_scattered(cell: &Cell) -> Result<bool, String> {
    let fuzz: i64 = cell.get("fuzz")?;
    Ok(!(0..SCATTERED).contains(&fuzz))
}

fn median(turns: &[Turn], of: fn(&Turn) -> f64) -> f64 {
    Summary::of(turns.iter().map(of).collect()).median
}

/// Ratios of reading ahead to none, of as many pairs as asked for, one scan after the other.
fn compare(
    opened: &mut Opened,
    cell: &Cell,
    pairs: usize,
    clock: &Clock,
) -> Result<Vec<f64>, Failure> {
    let mut ratios = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let range = opened.range(cell, pair)?;
        let mut ms = [0.0; 2];
        for step in 0..2 {
            let which = (pair + step) % 2;
            ms[which] = opened.scan(cell, range, [POLICIES[0].1, POLICIES[2].1][which], clock)?.ms;
        }
        ratios.push(ms[1] / ms[0]);
    }
    Ok(ratios)
}

fn measure(opened: &mut Opened, cell: &Cell, clock: &Clock) -> Result<Figures, Failure> {
    let turns: usize = cell.get("turns")?;
    let mut turns_of: [Vec<Turn>; 3] = Default::default();
    let (mut joined, mut single) = (Vec::new(), Vec::new());
    let (mut first, mut warm) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        let range = opened.range(cell, turn)?;
        for step in 0..POLICIES.len() {
            let which = (turn + step) % POLICIES.len();
            let done = opened.scan(cell, range, POLICIES[which].1, clock)?;
            turns_of[which].push(done);
        }
        let rows: Vec<u64> = turns_of.iter().map(|turns| turns[turn].rows).collect();
        if rows.iter().any(|count| *count != rows[0]) {
            return Err(format!("the policies disagree: {rows:?} rows").into());
        }
        let passes = opened.limit(cell, range, turn, clock)?;
        joined.push(passes.joined_ms);
        single.push(passes.single_ms);
        let warm_cell = cell.clone().with("cache", "warm");
        warm.push(opened.scan(&warm_cell, range, Prefetch::None, clock)?.ms);
        first.push(opened.first(cell, range, clock)?);
    }
    let median = |samples| Summary::of(samples).median;
    let (joined_ms, single_ms) = (median(joined), median(single));
    let limit_ms = if is_scattered(cell)? { single_ms } else { joined_ms };
    let (first_ms, warm_ms) = (median(first), median(warm));
    Ok(Figures { turns: turns_of, limit_ms, joined_ms, first_ms, warm_ms })
}

/// One line for each policy.
fn tell(cell: &Cell, figures: &Figures, judged: &str, report: &mut Report) -> Result<(), Failure> {
    let none = median(&figures.turns[0], |turn| turn.ms);
    let compares = cell.get::<String>("cache")? == "cold" && cell.get::<String>("kind")? == "heap";
    for ((name, _), turns) in POLICIES.iter().zip(&figures.turns) {
        let ms = median(turns, |turn| turn.ms);
        let ratio = ms / none;
        let of_scan = |device_ms: f64| if compares { device_ms / ms } else { f64::NAN };
        let share = of_scan(figures.limit_ms);
        let joined_share = of_scan(figures.joined_ms);
        let reads = median(turns, |turn| turn.reads as f64);
        let wasted = median(turns, |turn| turn.stats.wasted as f64);
        let device_bytes = median(turns, |turn| turn.device_bytes as f64);
        let distance = median(turns, |turn| turn.stats.mean_distance());
        let depth = median(turns, |turn| turn.stats.queue_depth());
        let mut json = vec![("experiment", Field::Text(NAME.into()))];
        json.extend(knob_fields(cell)?);
        json.extend([
            ("prefetch", Field::Text((*name).into())),
            ("ms", Field::Float(ms)),
            ("ratio_to_none", Field::Float(ratio)),
            ("limit_share", Field::Float(share)),
            ("joined_limit_share", Field::Float(joined_share)),
            ("reads", Field::Int(reads as u64)),
            ("wasted_reads", Field::Int(wasted as u64)),
            ("device_bytes", Field::Int(device_bytes as u64)),
            ("mean_distance", Field::Float(distance)),
        ]);
        let mut shown = knob_fields(cell)?;
        shown.retain(|(name, _)| !matches!(*name, "rows" | "duplicates" | "margin"));
        shown.extend([
            ("prefetch", Field::Text((*name).into())),
            ("ms", Field::Float(ms)),
            ("ratio", Field::Float(ratio)),
            ("of limit", Field::Float(share)),
            ("of joined", Field::Float(joined_share)),
            ("of floor", Field::Float(of_scan(figures.floor_ms(figures.limit_ms)))),
            ("row ns", Field::Int((figures.warm_ms * 1e6 / figures.rows().max(1.0)) as u64)),
            ("reads", Field::Int(reads as u64)),
            ("wasted", Field::Int(wasted as u64)),
            ("device KiB", Field::Int(device_bytes as u64 / 1024)),
            ("distance", Field::Float(distance)),
            ("depth", Field::Float(depth)),
            ("load avg", Field::Text(device::load_average())),
            ("targets", Field::Text(if *name == "adaptive" { judged.into() } else { "".into() })),
        ]);
        report.cell(&json, &shown)?;
    }
    Ok(())
}

fn knob_fields(cell: &Cell) -> Result<Vec<Column>, String> {
    let text = |name: &'static str| Ok::<_, String>((name, Field::Text(cell.get(name)?)));
    let number = |name: &'static str| Ok::<_, String>((name, Field::Int(cell.get(name)?)));
    Ok(vec![
        number("rows")?,
        ("fuzz", Field::Float(cell.get("fuzz")?)),
        number("run")?,
        number("changed")?,
        number("margin")?,
        number("duplicates")?,
        ("selectivity", Field::Float(cell.get("selectivity")?)),
        number("fillfactor")?,
        text("method")?,
        text("device")?,
        text("cache")?,
        text("io")?,
        text("estimate")?,
        text("direction")?,
        text("kind")?,
    ])
}
