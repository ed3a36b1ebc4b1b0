//! The tour's kill: a second load in a child process, SIGKILL at a random moment, and the proof
//! that what was acknowledged is there and nothing else.
//!
//! Invariants: a row counts as acknowledged when the child's line about it reached the pipe, read
//! before the kill or after it; rows found are compared value by value with the file.
//! Does not do: power loss (the engine's crash tests do, on a simulated disk).

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rightlink::{ColumnSchema, Database, ScanOptions, Value};

use super::questions::of_carrier;
use super::{AGAIN, Tour, index_args};
use crate::clock::Stopwatch;
use crate::csv::Limits;
use crate::csv_file::CsvFile;
use crate::failure::{Exit, Failure};
use crate::figures::{bytes, count, duration, plural};
use crate::open;
use crate::rows::Mapping;

/// Rows of a transaction of the child: small, so that the kill has many places to hit.
const BATCH: u32 = 200;
/// The kill comes after one of these acknowledged batches, of 136.
const AFTER: std::ops::Range<u64> = 10..120;
/// And up to this much later, so that it hits any phase of a commit.
const JITTER_US: u64 = 4000;

/// What was known when the child died.
pub(super) struct Killed {
    /// Rows whose commit the child had reported.
    acknowledged: u64,
}

impl Tour<'_> {
    /// Starts a load in a child process and kills it.
    pub(super) fn kill(&mut self) -> Result<Killed, Failure> {
        self.begin("Kill a process in the middle of a load")?;
        let after = AFTER.start + self.random.below(AFTER.end - AFTER.start);
        let jitter = Duration::from_micros(self.random.below(JITTER_US));
        self.say(&format!("A child process loads the file again, as {AGAIN}, in transactions of"))?;
        self.say(&format!("{BATCH} rows, and reports each one that is durable."))?;
        let mut child = self.start_child()?;
        let stdout = child.stdout.take().expect("its output was asked for");
        let mut reports = BufReader::new(stdout);
        let mut acknowledged = read_reports(&mut reports, after)?;
        std::thread::sleep(jitter);
        child.kill().map_err(|error| Failure::file("the child process", &error))?;
        // What it reported between the last look and its death counts too.
        acknowledged = acknowledged.max(read_reports(&mut reports, u64::MAX)?);
        let status = child.wait().map_err(|error| Failure::file("the child process", &error))?;
        if acknowledged == 0 {
            let what = format!("the child process ended before its first batch ({status})");
            return Err(Failure::new(Exit::Io, what));
        }
        self.note("kill", [("acknowledged_rows", acknowledged.into())])?;
        let verdict = self.output.red("killed (SIGKILL)");
        self.say(&format!(
            "{} after {} acknowledged rows, {} after the report of batch {after}.",
            verdict,
            count(acknowledged),
            duration(jitter)
        ))?;
        Ok(Killed { acknowledged })
    }

    /// This very command, loading.
    fn start_child(&self) -> Result<Child, Failure> {
        let exe = std::env::current_exe().map_err(|error| Failure::file("this command", &error))?;
        let mut command = Command::new(exe);
        command.arg("load").arg(&self.dir).arg(AGAIN).arg(&self.data);
        command.args(["--json", "--primary-key", "id", "--batch", &BATCH.to_string()]);
        command.args(["--sample", "30000", "--memory", &self.common.memory.to_string()]);
        for index in index_args(AGAIN) {
            command.args(["--index", &index]);
        }
        if let Some(method) = self.common.io_method {
            command.args(["--io-method", &method.to_string()]);
        }
        if self.common.direct {
            command.arg("--direct");
        }
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        started.map_err(|error| Failure::file("the child process", &error))
    }

    /// Opens the database, and compares what is there with the file.
    pub(super) fn recover(&mut self, killed: &Killed, southwest: u64) -> Result<Database, Failure> {
        self.begin("Recover")?;
        let clock = Stopwatch::start();
        let db = open::existing(self.common, &self.dir)?;
        let opened = clock.elapsed();
        let found = compare(&db, &self.data)?;
        check(found, killed.acknowledged)?;
        let kept = of_carrier(&db, "WN")?.len() as u64;
        if kept != southwest {
            return Err(Failure::new(Exit::Damage, "the update of step 4 is not there any more"));
        }
        let ms = opened.as_millis() as u64;
        self.note("recover", [("open_ms", ms.into()), ("rows", found.into())])?;
        let replayed = db.stats().get("recovered_bytes").unwrap_or(0);
        self.say(&format!("Opened in {}; {} of log replayed.", duration(opened), bytes(replayed)))?;
        self.tell_found(found, killed.acknowledged)?;
        self.carry_on(&db, found)?;
        Ok(db)
    }

    fn tell_found(&mut self, found: u64, acknowledged: u64) -> Result<(), Failure> {
        let good = self.output.green("every acknowledged row is there, and no other");
        self.say(&format!("{} in {AGAIN}: {good}.", plural(found, "row")))?;
        if found > acknowledged {
            self.say(&format!(
                "({} of them were durable, but the child died before it could say so.)",
                count(found - acknowledged)
            ))?;
        }
        self.say("They equal the file value by value, no batch is there in part, and the update")?;
        self.say("of step 4 has stayed.")
    }

    fn carry_on(&mut self, db: &Database, found: u64) -> Result<(), Failure> {
        let (loader, time) = self.load_into(db, AGAIN, super::BATCH, found)?;
        self.note("carry-on", [("rows", loader.committed.into())])?;
        self.say(&format!(
            "The load then went on where it had stopped: {} more in {}.",
            plural(loader.committed, "row"),
            duration(time)
        ))
    }
}

/// Reads reports until `batches` of them have come or the pipe has ended: the last number.
fn read_reports(reports: &mut BufReader<ChildStdout>, batches: u64) -> Result<u64, Failure> {
    let mut rows = 0;
    for line in reports.by_ref().lines().take(usize::try_from(batches).unwrap_or(usize::MAX)) {
        let line = line.map_err(|error| Failure::file("the child process", &error))?;
        // A line cut short by the kill was never a report.
        let Ok(report) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        rows = report["committed_rows"].as_u64().unwrap_or(rows);
    }
    Ok(rows)
}

/// Rows of the second table, which must be the first rows of the file, value by value.
fn compare(db: &Database, data: &std::path::Path) -> Result<u64, Failure> {
    let columns: Vec<ColumnSchema> = db.describe(AGAIN)?.schema.columns;
    let mut file = CsvFile::open(data, Limits::LEAST)?;
    let mapping = Mapping::new(&file.header, &columns, &file.header_place())?;
    let mut found = 0;
    let options = ScanOptions::index(format!("{AGAIN}_pkey"));
    for row in db.begin().scan(AGAIN, &options)? {
        let expected: Option<Vec<Value>> = match file.next()? {
            Some((record, place)) => Some(mapping.values(&record, &place)?),
            None => None,
        };
        let values = row?.values;
        if expected.as_ref() != Some(&values) {
            let what = format!("row {} of {AGAIN} differs from the file", found + 1);
            return Err(Failure::new(Exit::Damage, what));
        }
        found += 1;
    }
    Ok(found)
}

fn check(found: u64, acknowledged: u64) -> Result<(), Failure> {
    let lost = found < acknowledged;
    let whole = found.is_multiple_of(u64::from(BATCH)) || found == acknowledged;
    if lost || !whole {
        let what = format!("{acknowledged} rows were acknowledged, {found} are there");
        return Err(Failure::new(Exit::Damage, what));
    }
    Ok(())
}
