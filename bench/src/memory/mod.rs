//! Experiment `memory`: does the process stay within its one budget, whatever it does?
//!
//! A process of its own for each budget: opens a database that is to use so many bytes, and works
//! in phases, each of which could grow with its input: load, one large batch, many transactions and
//! scans open at once, index build, deletion and vacuum, a scan of everything. Then it dies, and a
//! second one opens what is left.
//!
//! The peak of resident memory of each phase, less what the process had before it opened anything,
//! the pages of its own program and what the caller itself holds, is compared with the budget.
//!
//! Invariants: the run fails when a phase takes more than a twentieth above the budget.
//! Does not do: time. What the budget does not know are the objects of an open transaction and its
//! scan themselves, about 5 KB together (`--open` is their number).

pub(crate) mod child;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::args::Args;
use crate::device;
use crate::knobs::{self, Cell, Knob};
use crate::load::wire::Figures;
use crate::report::{Field, Report, say};
use crate::scratch::Scratch;

pub(crate) const NAME: &str = "memory";
pub(crate) const ABOUT: &str = "peak resident memory of each kind of work against the budget";
/// First word of a process that this experiment starts.
pub(crate) const CHILD: &str = "memory-child";

/// Peaks may be so many times the budget.
const LIMIT: f64 = 1.05;

pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["60000"], default: &["1000000"], all: &["10000000"] },
    Knob {
        name: "budget_mib",
        quick: &["24"],
        default: &["32", "128", "512"],
        all: &["16", "32", "128", "512", "2048"],
    },
    Knob { name: "indexes", quick: &["5"], default: &["5"], all: &["0", "5"] },
    Knob { name: "open", quick: &["400"], default: &["400"], all: &["50", "400"] },
    Knob { name: "direct", quick: &["false"], default: &["false"], all: &["false", "true"] },
];

/// Runs every cell; fails at the end if a phase took too much.
pub(crate) fn run(args: &Args, scratch: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let mut worst = (0.0, String::new());
    for (number, cell) in knobs::matrix(KNOBS, args.size, &args.knobs).iter().enumerate() {
        let dir = scratch.path().join(format!("cell-{number}"));
        for role in ["work", "reopen"] {
            for (phase, figures) in phases(role, cell, &dir)? {
                let ratio = add(report, cell, &phase, &figures)?;
                if ratio > worst.0 {
                    worst = (ratio, format!("{phase} with {}", cell.words().join(" ")));
                }
            }
        }
        std::fs::remove_dir_all(&dir)?;
    }
    let (ratio, at) = worst;
    let text = format!("at most {ratio:.2} x the budget: {at}");
    if ratio > LIMIT {
        return Err(format!("{text}; {LIMIT} are allowed").into());
    }
    say(&text);
    Ok(())
}

/// One line of the table; returns how many times the budget it is.
fn add(report: &mut Report, cell: &Cell, phase: &str, figures: &Figures) -> Result<f64, Failure> {
    let budget = cell.get::<u64>("budget_mib")? << 20;
    let (base, peak): (u64, u64) = (figures.get("base_rss_bytes")?, figures.get("peak_rss_bytes")?);
    let ratio = peak.saturating_sub(base) as f64 / budget as f64;
    let json = [
        ("experiment", Field::Text(NAME.into())),
        ("engine", Field::Text("rightlink".into())),
        ("phase", Field::Text(phase.into())),
        ("rows", Field::Int(cell.get("rows")?)),
        ("indexes", Field::Int(cell.get("indexes")?)),
        ("direct", Field::Flag(cell.get("direct")?)),
        ("budget_bytes", Field::Int(budget)),
        ("base_rss_bytes", Field::Int(base)),
        ("peak_rss_bytes", Field::Int(peak)),
        ("reserved_peak_bytes", Field::Int(figures.get("reserved_peak_bytes")?)),
        ("budget_ratio", Field::Float(ratio)),
    ];
    let mib = |bytes: u64| Field::Float(bytes as f64 / f64::from(1 << 20));
    let table = [
        ("budget MiB", Field::Int(budget >> 20)),
        ("phase", Field::Text(phase.into())),
        ("base MiB", mib(base)),
        ("peak MiB", mib(peak)),
        ("reserved MiB", mib(figures.get("reserved_peak_bytes")?)),
        ("x budget", Field::Float(ratio)),
        ("load avg", Field::Text(device::load_average())),
    ];
    report.cell(&json, &table)?;
    Ok(ratio)
}

/// What the process said about each of its phases.
fn phases(role: &str, cell: &Cell, dir: &Path) -> Result<Vec<(String, Figures)>, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).arg(role).arg(dir).args(cell.words());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().expect("it was asked for");
    let mut phases = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line? + "\n";
        let (tag, figures) = Figures::parse(&line).ok_or("a process said half a line")?;
        phases.push((tag.to_string(), figures));
    }
    match child.wait()? {
        status if status.success() => Ok(phases),
        status => Err(format!("the process for {role} ended with {status}").into()),
    }
}
