//! One cell, seen from outside: starts its processes, kills the first one, gathers their figures.
//!
//! Invariants: no process outlives its cell, whatever fails, and no control group its processes.
//! Does not do: looking into the database.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rightlink_env::Rng;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::group::Group;
use crate::load::wire::Figures;
use crate::load::{CHILD, GROUP, LIMIT, table};
use crate::report::say;
use crate::scratch;

/// The kill comes after one to so many batches beyond the measured ones.
const MOST_TAIL: u64 = 8;

/// Runs the cell in `dir`, which is made, under the limit that it asks for.
pub(crate) fn run(cell: &Cell, dir: &Path) -> Result<Figures, Failure> {
    std::fs::create_dir_all(dir)?;
    let Some(group) = make_group(cell)? else {
        return measure(&cell.clone().with(LIMIT, "page-cache"), dir);
    };
    let limited = cell.clone().with(LIMIT, "cgroup").with(GROUP, group.path().display());
    measure(&limited, dir).map_err(|failure| match group.verdict() {
        Some(verdict) => format!("{verdict}: {failure}").into(),
        None => failure,
    })
}

/// The control group of a cell; `None` where it wants none, or takes it as it comes and none can be
/// made.
fn make_group(cell: &Cell) -> Result<Option<Group>, Failure> {
    let wish: String = cell.get(LIMIT)?;
    if wish == "page-cache" {
        return Ok(None);
    }
    if wish != "auto" && wish != "cgroup" {
        return Err(format!("{LIMIT} is auto, cgroup or page-cache, not {wish}").into());
    }
    match Group::make(table::memory(cell)?) {
        Ok(group) => Ok(Some(group)),
        Err(error) if wish == "cgroup" => Err(format!("no control group: {error}").into()),
        Err(error) => {
            say(&format!("no control group ({error}): memory is limited by the page cache"));
            Ok(None)
        }
    }
}

fn measure(cell: &Cell, dir: &Path) -> Result<Figures, Failure> {
    let (mut figures, tail) = fill_and_kill(cell, dir)?;
    let acknowledged: u64 = tail.get("acknowledged")?;
    let cell = cell.clone().with("acknowledged", acknowledged);
    let reopened = only_line("reopen", &cell, dir)?;
    let cell = cell.with("recovered", reopened.get::<u64>("recovered")?);
    figures.set("size_bytes", scratch::size_of(dir)?);
    figures.extend(&only_line("read", &cell, dir)?);
    figures.extend(&only_line("batches", &cell, dir)?);
    figures.set("engine", cell.get::<String>("engine")?);
    figures.set(LIMIT, cell.get::<String>(LIMIT)?);
    figures.set("memory_bytes", table::memory(&cell)?);
    for name in ["indexes", "batch"] {
        figures.set(name, cell.get::<u64>(name)?);
    }
    figures.set("durable", cell.get::<bool>("durable")?);
    for name in ["open_after_kill_ms", "fits_memory", "recovered"] {
        figures.set(name, reopened.get::<String>(name)?);
    }
    per_row(&mut figures, &tail, &reopened)?;
    Ok(figures)
}

/// Log bytes are those of the load; pages are written later, so theirs count until the checkpoint
/// after the kill.
fn per_row(figures: &mut Figures, tail: &Figures, reopened: &Figures) -> Result<(), String> {
    let rows: f64 = tail.get("acknowledged")?;
    assert!(rows > 0.0, "a cell loads at least one batch");
    figures.set("log_bytes_per_row", tail.get::<f64>("log_bytes")? / rows);
    for (name, source) in
        [("double_write_bytes_per_row", "double_write_bytes"), ("data_bytes_per_row", "data_bytes")]
    {
        let bytes = tail.get::<f64>(source)? + reopened.get::<f64>(source)?;
        figures.set(name, bytes / rows);
    }
    Ok(())
}

/// What the load reached, and the last line before the kill.
fn fill_and_kill(cell: &Cell, dir: &Path) -> Result<(Figures, Figures), Failure> {
    let mut process = Process::start("fill", cell, dir)?;
    let loaded = process.expect("loaded")?;
    let mut tail = process.expect("tail")?;
    for _ in 0..Rng::from_entropy().below(MOST_TAIL) {
        tail = process.expect("tail")?;
    }
    process.child.kill()?;
    // What was acknowledged before the kill may still be in the pipe.
    while let Some((_, figures)) = process.line()? {
        tail = figures;
    }
    Ok((loaded, tail))
}

fn only_line(role: &str, cell: &Cell, dir: &Path) -> Result<Figures, Failure> {
    let mut process = Process::start(role, cell, dir)?;
    let figures = process.expect(if role == "reopen" { "reopened" } else { role })?;
    let status = process.child.wait()?;
    if !status.success() {
        return Err(format!("the process for {role} ended with {status}").into());
    }
    Ok(figures)
}

/// A process of the cell; killed and waited for by its drop.
struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(role: &str, cell: &Cell, dir: &Path) -> Result<Process, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(CHILD).arg(role).arg(dir).args(cell.words());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        Ok(Process { child, lines })
    }

    /// The next whole line; `None` at the end.
    fn line(&mut self) -> Result<Option<(String, Figures)>, Failure> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        Ok(Figures::parse(&line).map(|(tag, figures)| (tag.to_string(), figures)))
    }

    fn expect(&mut self, tag: &str) -> Result<Figures, Failure> {
        match self.line()? {
            Some((found, figures)) if found == tag => Ok(figures),
            other => Err(format!("`{tag}` was expected and {other:?} came").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
