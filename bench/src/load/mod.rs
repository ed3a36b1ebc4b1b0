//! Experiment `load`: rows into a table with random-key indexes, then a kill, then reads.
//!
//! Table `t`: `id` int8 primary key and 80 bytes in five uuids, the first `indexes` of them
//! indexed. A cell has four processes:
//! 1. The first loads, reports its figures and goes on inserting until it is killed.
//! 2. The second opens what is left, times that, and checks that every acknowledged durable row is
//!    there.
//! 3. The third reads rows by random secondary key.
//! 4. The fourth reads 1,000 at once. Ours reads with direct I/O; peers' files leave the page cache
//!    first.
//!
//! With the feature `peers` the same rows go into other stores (`peers`). A control group for the
//! processes of a cell limits the memory of each engine alike (`group`). Where none can be made,
//! ours has its budget, and a thread bounds the page cache of a peer (`peers::limit`).
//!
//! `fits_memory` is measured at the end: whether the pool held all pages. A pool meant to be too
//! small that never filled counts as large enough. `rows` is what was loaded; the table also shows
//! the rows that opening found (`kept`): with those inserted on until the kill, without relaxed
//! ones that it took. Reads are of kept rows. A peer's `data_bytes_per_row` is all that its process
//! wrote; log and double-write area are null.
//!
//! Invariants: every process of a cell is gone before the next cell begins. A cell whose time was
//! up says how many rows it reached.
//! Does not do: several transactions at a time.

pub(crate) mod child;
mod engine;
mod fill;
mod group;
mod open;
mod ours;
mod parent;
#[cfg(feature = "peers")]
mod peers;
pub(crate) mod picture;
mod read;
mod reopen;
pub(crate) mod table;
mod verdict;
pub(crate) mod wire;

use std::time::Duration;

use crate::args::{Args, Size};
use crate::device;
use crate::knobs::{self, Cell, Knob};
use crate::report::{Column, Field, Report, say};
use crate::scratch::Scratch;
use crate::{Failure, load::wire::Figures};

pub(crate) const NAME: &str = "load";
pub(crate) const ABOUT: &str = "insert rows into a table with 0, 1 and 5 uuid indexes, kill, read";
/// First word of a process that this experiment starts.
pub(crate) const CHILD: &str = "load-child";

/// Log bytes per row may be this many times the row and its keys.
const LOG_RATIO_LIMIT: f64 = 4.0;

/// `rows` is the most that a cell loads, `seconds` the longest that it takes for that. Of `threads`
/// a batch of ours may use so many; 0 is as many as it takes unasked. `limit` is how memory is
/// limited: `auto` is a control group where one can be made, `cgroup` fails where none can; quick
/// runs ask nobody for rights.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["20000"], default: &["1000000"], all: &["1000000"] },
    Knob { name: "seconds", quick: &["1"], default: &["30"], all: &["100000"] },
    Knob {
        name: "indexes",
        quick: &["0", "1", "5"],
        default: &["0", "1", "5"],
        all: &["0", "1", "5"],
    },
    Knob {
        name: "batch",
        quick: &["1", "1000"],
        default: &["1", "100", "1000"],
        all: &["1", "100", "1000"],
    },
    Knob {
        name: "durable",
        quick: &["true", "false"],
        default: &["true", "false"],
        all: &["true", "false"],
    },
    Knob {
        name: "fits_memory",
        quick: &["true", "false"],
        default: &["true", "false"],
        all: &["true", "false"],
    },
    Knob { name: "engine", quick: &[ALL], default: &[ALL], all: &[ALL] },
    Knob { name: "threads", quick: &["0"], default: &["0"], all: &["0"] },
    Knob { name: LIMIT, quick: &["page-cache"], default: &["auto"], all: &["auto"] },
];

/// How memory is limited, as a knob and in a cell.
const LIMIT: &str = "limit";
/// In a cell: where its control group is.
const GROUP: &str = "group";

/// Stands for every engine that is built in.
const ALL: &str = "all";

/// Runs the matrix and, unless it is narrowed, the two large tables that opening is timed on.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let mut cells = spread(knobs::matrix(KNOBS, args.size, &args.knobs))?;
    if args.size != Size::Quick && args.knobs.is_empty() {
        cells.extend(large_tables(args.size));
    }
    let mut worst_ratio: f64 = 0.0;
    let mut all = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let dir = scratch.path().join(format!("cell-{number}"));
        let outcome = parent::run(cell, &dir);
        std::fs::remove_dir_all(&dir)?;
        let figures =
            outcome.map_err(|failure| format!("{}: {failure}", cell.words().join(" ")))?;
        let ratio = log_ratio(&figures)?;
        worst_ratio = worst_ratio.max(ratio);
        report.cell(&json(&figures)?, &table(&figures, ratio)?)?;
        all.push(figures);
    }
    // Peers do not tell.
    if worst_ratio > 0.0 {
        let verdict = if worst_ratio <= LOG_RATIO_LIMIT { "within" } else { "MISSES" };
        say(&format!("log at most {worst_ratio:.2} x row and keys: {verdict} {LOG_RATIO_LIMIT}"));
    }
    verdict::say_all(&all)?;
    Ok(())
}

/// The same cells for each engine, one after the other.
fn spread(cells: Vec<Cell>) -> Result<Vec<Cell>, Failure> {
    let mut spread = Vec::new();
    for cell in cells {
        match cell.get::<String>("engine")?.as_str() {
            ALL => {
                spread.extend(open::names().iter().map(|name| cell.clone().with("engine", name)))
            }
            name if open::names().contains(&name) => spread.push(cell),
            name => {
                let built = open::names().join(", ");
                return Err(format!("no engine {name}: built in are {built}").into());
            }
        }
    }
    Ok(spread)
}

fn large_tables(size: Size) -> Vec<Cell> {
    let seconds = if size == Size::All { 100_000 } else { 400 };
    let cell = |rows: u64| {
        let cell = Cell::default().with("rows", rows).with("seconds", seconds);
        let cell = cell.with("indexes", 1).with("batch", 1000).with("engine", engine::OURS);
        let cell = cell.with(LIMIT, "page-cache");
        cell.with("durable", false).with("fits_memory", true).with("threads", 0)
    };
    vec![cell(1_000_000), cell(10_000_000)]
}

/// How many times the bytes of a row and its keys went to the log for it.
fn log_ratio(figures: &Figures) -> Result<f64, String> {
    let indexes: u32 = figures.get("indexes")?;
    Ok(figures.get::<f64>("log_bytes_per_row")? / f64::from(table::row_and_key_bytes(indexes)))
}

/// The keys are a promise to whoever reads the lines.
fn json(figures: &Figures) -> Result<Vec<Column>, String> {
    let int = |key: &'static str| Ok::<_, String>((key, Field::Int(figures.get(key)?)));
    let float = |key: &'static str| Ok::<_, String>((key, Field::Float(figures.get(key)?)));
    let flag = |key: &'static str| Ok::<_, String>((key, Field::Flag(figures.get(key)?)));
    Ok(vec![
        ("experiment", Field::Text(NAME.into())),
        ("engine", Field::Text(figures.get("engine")?)),
        int("rows")?,
        int("indexes")?,
        int("batch")?,
        flag("durable")?,
        flag("fits_memory")?,
        float("rows_per_s")?,
        float("last_tenth_rows_per_s")?,
        float("worst_batch_ms")?,
        float("log_bytes_per_row")?,
        float("double_write_bytes_per_row")?,
        float("data_bytes_per_row")?,
        int("size_bytes")?,
        int("peak_rss_bytes")?,
        float("cold_reads_per_s")?,
        float("warm_reads_per_s")?,
        float("open_after_kill_ms")?,
        float("cold_batch_reads_per_s")?,
        int("memory_bytes")?,
        (LIMIT, Field::Text(figures.get(LIMIT)?)),
    ])
}

fn table(figures: &Figures, ratio: f64) -> Result<Vec<Column>, String> {
    let float = |key: &str| figures.get(key).map(Field::Float);
    let megabytes = |key: &str| figures.get::<u64>(key).map(|bytes| Field::Int(bytes >> 20));
    Ok(vec![
        ("   engine", Field::Text(figures.get("engine")?)),
        ("indexes", Field::Int(figures.get("indexes")?)),
        ("batch", Field::Int(figures.get("batch")?)),
        ("durable", Field::Flag(figures.get("durable")?)),
        ("in mem", Field::Flag(figures.get("fits_memory")?)),
        ("rows", Field::Int(figures.get("rows")?)),
        ("kept", Field::Int(figures.get("recovered")?)),
        ("rows/s", float("rows_per_s")?),
        ("last tenth", float("last_tenth_rows_per_s")?),
        ("worst ms", float("worst_batch_ms")?),
        ("log B/row", float("log_bytes_per_row")?),
        ("x row", Field::Float(ratio)),
        ("dw B/row", float("double_write_bytes_per_row")?),
        ("data B/row", float("data_bytes_per_row")?),
        ("size MiB", megabytes("size_bytes")?),
        ("rss MiB", megabytes("peak_rss_bytes")?),
        ("cold/s", float("cold_reads_per_s")?),
        ("warm/s", float("warm_reads_per_s")?),
        ("cold many/s", float("cold_batch_reads_per_s")?),
        ("limit", Field::Text(figures.get(LIMIT)?)),
        ("open ms", float("open_after_kill_ms")?),
        ("load avg", Field::Text(device::load_average())),
    ])
}

/// Things per second; zero things are zero per second.
fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
