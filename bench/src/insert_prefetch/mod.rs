//! Experiment `insert-prefetch`: batches into a table whose index leaves are cold, with reading
//! ahead and without.
//!
//! Table `t`: `id` int8 primary key and uuids, the first `indexes` of them indexed; built by
//! insertion, so leaves are as full as random keys leave them. Relaxed commits. Direct I/O, or
//! buffered: then the kernel's page cache is emptied where leaves are made cold, too.
//!
//! `cold-leaves`: the pool holds all pages, and before each batch all but the inner pages of the
//! indexes are written home and evicted. `steady`: the pool holds a tenth and nothing is evicted
//! by hand. `cached`: the pool holds all pages, and they stay there. Batches with and without
//! reading ahead take turns in the same database. One thread puts in the entries of a batch.
//!
//! With several writers, each inserts a batch of its own at the same moment, in its own
//! transaction. A table that has grown by half is made anew for the next cell.
//!
//! The device's limit for a batch: as many blocks as the batch read, chosen at random from the
//! files of the indexes, ascending, neighbours joined to 128 KiB, read at depth 64 by bare `aio`
//! on the same device.
//!
//! A cell that misses a limit of two percent is run again in 20 pairs, and misses it only if the
//! bound that 95 % of such measurements exceed does.
//!
//! Invariants: making the rows is not timed; both sides of a pair insert equally many rows.
//! Does not do: other engines.

pub(crate) mod limit;
pub(crate) mod picture;
pub(crate) mod table;

use std::time::Duration;

use rightlink::IndexMethod;
use rightlink_env::Clock;

use crate::args::{Args, Size};
use crate::insert_prefetch::table::{Bed, Opened, Turn};
use crate::knobs::{self, Cell, Knob};
use crate::report::{Column, Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::{self, Summary};
use crate::{Failure, device, methods};

pub(crate) const NAME: &str = "insert-prefetch";
pub(crate) const ABOUT: &str = "batches into uuid indexes with cold leaves, reads ahead on and off";

/// Batches of each kind whose times are thrown away before `steady` is measured.
const WARM_UP: u64 = 2;

/// A cell that has run for so long, and has so many pairs, has enough of them.
const ENOUGH: (Duration, u64) = (Duration::from_secs(10), 3);
/// Rows of a turn of `steady` and `cached`, if batches are smaller.
const ROWS_EACH: u64 = 2500;

/// Pairs of a cell that is run again.
const AGAIN: u64 = 20;
/// What reading ahead may cost where there is nothing to gain.
const SLOWER: f64 = 1.02;
const SETTINGS: &[&str] = &["cold-leaves", "steady", "cached"];

/// `rows` is the size of the table, `pairs` how often both kinds are run, `index` the method of the
/// uuid indexes; `writers` is how many threads insert a batch at the same moment.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["100000"], default: &["1000000"], all: &["4000000"] },
    Knob { name: "pairs", quick: &["3"], default: &["7"], all: &["20"] },
    Knob { name: "indexes", quick: &["5"], default: &["1", "5"], all: &["1", "2", "5", "8"] },
    Knob { name: "index", quick: &["btree"], default: &["btree", "hash"], all: &["btree", "hash"] },
    Knob { name: "writers", quick: &["1"], default: &["1"], all: &["1", "2", "4", "16", "64"] },
    Knob { name: "io", quick: &["direct"], default: &["direct"], all: &["direct", "buffered"] },
    Knob { name: "setting", quick: SETTINGS, default: SETTINGS, all: SETTINGS },
    Knob {
        name: "method",
        quick: &["io_uring"],
        default: &["io_uring", "worker"],
        all: &["io_uring", "worker", "sync"],
    },
    Knob {
        name: "device",
        quick: &["native"],
        default: &["native", "latency=500us,depth=64"],
        all: &["native", "latency=500us,depth=64"],
    },
    Knob {
        name: "batch",
        quick: &["100", "10000"],
        default: &["100", "1000", "10000"],
        all: &["1", "100", "1000", "10000"],
    },
];

/// Runs the matrix: one table for all cells with equally many rows and indexes.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let clock = Clock::system();
    let mut bed: Option<Bed> = None;
    let mut ahead = Vec::new();
    for cell in knobs::matrix(KNOBS, args.size, &args.knobs) {
        let index = match cell.get::<String>("index")?.as_str() {
            "btree" => IndexMethod::BTree,
            "hash" => IndexMethod::Hash,
            other => return Err(format!("index cannot be `{other}`").into()),
        };
        let wanted = (cell.get("rows")?, cell.get("indexes")?, index);
        if bed.as_ref().is_none_or(|bed| !bed.serves(wanted)) {
            drop(bed.take());
            bed = Some(Bed::make(scratch, wanted, &clock)?);
        }
        let bed = bed.as_mut().expect("made above");
        let outcome = measure(bed, &cell, &clock);
        let pairs = outcome.map_err(|e| format!("{}: {e}", cell.words().join(" ")))?;
        pairs.report(&cell, report)?;
        let ms = median(&pairs.on, |turn| turn.ms);
        ahead.push((cell, ms));
    }
    methods::say_ratios(&ahead)?;
    if args.size != Size::Quick {
        say(&format!("load average {}", device::load_average()));
    }
    Ok(())
}

/// What both kinds of a cell reached.
struct Pairs {
    off: Vec<Turn>,
    on: Vec<Turn>,
    /// Milliseconds that the device takes for a batch's reads at best.
    limit_ms: f64,
    /// Mean and lower bound of the ratio, if the cell was run again.
    again: Option<(f64, f64)>,
}

fn measure(bed: &mut Bed, cell: &Cell, clock: &Clock) -> Result<Pairs, Failure> {
    let pairs: u64 = cell.get("pairs")?;
    let setting: String = cell.get("setting")?;
    if !SETTINGS.contains(&setting.as_str()) {
        return Err(format!("setting cannot be `{setting}`").into());
    }
    let mut opened = bed.open(cell, setting == "steady")?;
    let (off, on) = turns(&mut opened, cell, pairs, ENOUGH.0, clock)?;
    let mut again = None;
    let ratio = median(&on, |turn| turn.ms) / median(&off, |turn| turn.ms);
    if may_only_match(cell)? && ratio > SLOWER {
        let (off, on) = turns(&mut opened, cell, AGAIN, Duration::MAX, clock)?;
        let each = batches_of_round(cell)?;
        let sum = |turns: &[Turn]| turns.iter().map(|turn| turn.ms).sum::<f64>();
        let ratio = |(off, on)| sum(on) / sum(off);
        let ratios: Vec<f64> = off.chunks(each).zip(on.chunks(each)).map(ratio).collect();
        // A table that doubles ends the turns early; one pair has no interval.
        again = (ratios.len() > 1).then(|| stats::pairs(&ratios));
    }
    let blocks = median(&on, |turn| turn.read_bytes as f64) as u64 / limit::BLOCK;
    let limit_ms = limit::measure(&opened.close()?, blocks, cell, clock)?;
    Ok(Pairs { off, on, limit_ms, again })
}

/// Is nothing to be gained in the cell, so that nothing may be lost?
fn may_only_match(cell: &Cell) -> Result<bool, Failure> {
    Ok(cell.get::<u64>("indexes")? == 1 || cell.get::<String>("setting")? == "cached")
}

/// Batches of each kind in a round.
fn batches_of_round(cell: &Cell) -> Result<usize, Failure> {
    let (batch, setting): (u64, String) = (cell.get("batch")?, cell.get("setting")?);
    // Small batches are over before anything has to be written: more of them.
    let each = if setting == "cold-leaves" { 1 } else { (ROWS_EACH / batch).clamp(1, 50) };
    Ok(usize::try_from(each)?)
}

/// Up to so many pairs of batches without and with reading ahead, in about so much time.
fn turns(
    opened: &mut Opened<'_>,
    cell: &Cell,
    pairs: u64,
    time: Duration,
    clock: &Clock,
) -> Result<(Vec<Turn>, Vec<Turn>), Failure> {
    let batch: u64 = cell.get("batch")?;
    let cold = cell.get::<String>("setting")? == "cold-leaves";
    let (mut off, mut on) = (Vec::new(), Vec::new());
    let each = batches_of_round(cell)?;
    let warm_up = if cold { 0 } else { WARM_UP };
    let start = clock.now();
    for round in 0..pairs + warm_up {
        let enough = round >= warm_up + ENOUGH.1 && clock.now() - start > time;
        if enough || round > warm_up && opened.has_doubled() {
            break;
        }
        // Who goes first changes, so that whatever the first leaves behind meets both.
        for kind in [round % 2 == 0, round % 2 == 1] {
            for _ in 0..each {
                if cold {
                    opened.chill()?;
                }
                let turn = opened.insert(batch, kind)?;
                if round >= warm_up {
                    if kind { on.push(turn) } else { off.push(turn) }
                }
            }
        }
    }
    Ok((off, on))
}

fn median(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> f64 {
    Summary::of(turns.iter().map(of).collect()).median
}

/// What a cell is to show, and whether it does.
fn targets(cell: &Cell, pairs: &Pairs, ratio: f64, share: f64) -> Result<String, Failure> {
    let (indexes, batch): (u64, u64) = (cell.get("indexes")?, cell.get("batch")?);
    let setting: String = cell.get("setting")?;
    let verdict = |kept: bool| if kept { "kept" } else { "MISSED" };
    if may_only_match(cell)? {
        let (told, bound) = match pairs.again {
            Some((mean, bound)) => (format!(", again {mean:.3} (at least {bound:.3})"), bound),
            None => (String::new(), ratio),
        };
        return Ok(format!("at most {SLOWER} of off{told}: {}", verdict(bound <= SLOWER)));
    }
    let cold = setting == "cold-leaves";
    if cell.get::<u64>("writers")? > 1 {
        // Several writers keep the device busy by themselves: how much is left is the question.
        return Ok(String::new());
    }
    let most = match (indexes, batch, cold) {
        (5, 10_000, true) => Some(0.10),
        (5, 100, true) => Some(0.5),
        (5, 10_000, false) => Some(0.65),
        _ => None,
    };
    let mut told = Vec::new();
    if let Some(most) = most {
        told.push(format!("at most {most} of off: {}", verdict(ratio <= most)));
    }
    if indexes == 5 && batch == 10_000 && cold {
        told.push(format!("0.8 of the limit: {}", verdict(share >= 0.8)));
    }
    Ok(told.join(", "))
}

impl Pairs {
    fn report(&self, cell: &Cell, report: &mut Report) -> Result<(), Failure> {
        let base = median(&self.off, |turn| turn.ms);
        for (name, turns) in [("off", &self.off), ("on", &self.on)] {
            let summary = Summary::of(turns.iter().map(|turn| turn.ms).collect());
            let figures = self.figures(cell, name, turns, summary.median)?;
            let mut table: Vec<Column> = figures.iter().skip(1).cloned().collect();
            table.push(("to off", Field::Float(summary.median / base)));
            table.push(("spread", Field::Text(summary.to_string())));
            if name == "on" {
                let share = self.limit_ms / summary.median;
                table.push((
                    "targets",
                    Field::Text(targets(cell, self, summary.median / base, share)?),
                ));
            }
            report.cell(&figures, &table)?;
        }
        Ok(())
    }

    fn figures(
        &self,
        cell: &Cell,
        name: &str,
        turns: &[Turn],
        ms: f64,
    ) -> Result<Vec<Column>, Failure> {
        let text = |knob: &str| cell.get::<String>(knob).map(Field::Text);
        let (batch, writers): (u64, u64) = (cell.get("batch")?, cell.get("writers")?);
        let bytes = |of: fn(&Turn) -> u64| Field::Int(median(turns, |turn| of(turn) as f64) as u64);
        Ok(vec![
            ("experiment", Field::Text(NAME.into())),
            ("setting", text("setting")?),
            ("indexes", Field::Int(cell.get("indexes")?)),
            ("index", text("index")?),
            ("batch", Field::Int(batch)),
            ("writers", Field::Int(writers)),
            ("io", text("io")?),
            ("method", text("method")?),
            ("device", text("device")?),
            ("prefetch", Field::Text(name.into())),
            ("turns", Field::Int(turns.len() as u64)),
            ("ms_per_batch", Field::Float(ms)),
            ("rows_per_s", Field::Float((batch * writers) as f64 * 1e3 / ms)),
            ("reads", bytes(|turn| turn.reads)),
            ("bytes_read", bytes(|turn| turn.read_bytes)),
            ("device_bytes_read", bytes(|turn| turn.device_bytes)),
            ("bytes_written", bytes(|turn| turn.written_bytes)),
            ("mean_queue_depth", Field::Float(median(turns, |turn| turn.queue_depth))),
            ("device_limit_share", Field::Float(self.limit_ms / ms)),
            ("rows", Field::Int(cell.get("rows")?)),
        ])
    }
}
