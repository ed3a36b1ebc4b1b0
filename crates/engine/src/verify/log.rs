//! The log and the control file of a database that is not open.
//!
//! | check | what |
//! |---|---|
//! | W1 | every record from the redo position to the end is whole |
//! | W2 | after a clean close both copies of the control file are sound |
//! | W3 | the redo position lies in a segment that is there |
//! | W5 | segments are called and sized as segments, without a gap from redo to the durable end |
//!
//! Invariants: read-only.
//! Does not do: redo. When the log cannot be applied, at least the checksums of all pages are
//! checked (P2); a page that only lacks healing from the double-write area may be among those
//! found.

use rightlink_aio::{AlignedBuf, Io, IoErrorKind, OpenMode};
use rightlink_env::Env;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId};
use crate::page::checksum;
use crate::verify::{RelationFile, Report, recovery_damage, tables};
use crate::wal::{Control, Reader, Wal};

/// What the control file and the log say.
#[derive(Clone, Debug)]
pub(crate) struct LogState {
    /// The control file.
    pub control: Control,
}

/// Checks control file and log. `None`: they are damaged, recovery would refuse.
pub(crate) fn log(env: &Env, io: &Io, report: &mut Report) -> Result<Option<LogState>> {
    let place = RelationFile { relation: "control", file: FileId(0) };
    let (control, segment_bytes) = match Wal::inspect_control(io) {
        Ok(found) => found,
        Err(error) => {
            recovery_damage(error, "W2", report)?;
            return Ok(None);
        }
    };
    // After a crash the copy that does not count may be torn.
    let faults = if control.clean { Wal::control_faults(io)? } else { Vec::new() };
    for (copy, what) in faults {
        report.add(place.finding("W2", Some(copy), format!("copy {copy} is damaged: {what}")));
    }
    if control.clean {
        tables::whole_pages(io, report)?;
    }
    let names = io.list("wal");
    if matches!(&names, Err(error) if error.kind == IoErrorKind::NotFound) {
        add_finding(report, "W3", "wal", "the directory of the log is missing".into());
        return Ok(None);
    }
    let sound = segments(io, &control, segment_bytes, report)?;
    if let Err(error) = read(env, io, control.redo) {
        recovery_damage(error, "W1", report)?;
        return Ok(None);
    }
    Ok(sound.then_some(LogState { control }))
}

/// Reads every record.
fn read(env: &Env, io: &Io, redo: Lsn) -> Result<()> {
    let mut reader = Reader::open(env, io, redo)?;
    while reader.next()?.is_some() {}
    Ok(())
}

fn add_finding(report: &mut Report, check: &'static str, path: &str, what: String) {
    report.add(RelationFile { relation: path, file: FileId(0) }.finding(check, None, what));
}

/// Names and sizes; the numbers of the segments.
fn numbers(io: &Io, bytes: u64, report: &mut Report) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for name in io.list("wal").map_err(Error::Io)? {
        let path = format!("wal/{name}");
        let number = u64::from_str_radix(&name, 16).ok().filter(|n| format!("{n:08X}") == name);
        let Some(number) = number else {
            // One of this name was being made when the machine stopped.
            if name != "new" {
                add_finding(
                    report,
                    "W5",
                    &path,
                    "a file among the log's segments that is none".into(),
                );
            }
            continue;
        };
        let file = io.open_file(&path, OpenMode::ReadOnly).map_err(Error::Io)?;
        let len = file.len().map_err(Error::Io)?;
        if len != bytes {
            let what = format!("a log segment of {len} bytes instead of {bytes}");
            add_finding(report, "W5", &path, what);
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// Is every segment there from the redo position to the durable end?
fn segments(io: &Io, control: &Control, bytes: u64, report: &mut Report) -> Result<bool> {
    let numbers = numbers(io, bytes, report)?;
    let first = control.redo.0 / bytes;
    // At a boundary the next segment need not be there yet.
    let last = control.durable.0.saturating_sub(1) / bytes;
    if control.durable.0 > 0 && first <= last && !numbers.contains(&first) {
        let what = format!("redo begins at {}, in a segment that is missing", control.redo);
        add_finding(report, "W3", "wal", what);
        return Ok(false);
    }
    let missing = (first + 1..=last).find(|number| !numbers.contains(number));
    if let Some(number) = missing {
        let what = "a log segment that is needed is missing".to_string();
        add_finding(report, "W5", &format!("wal/{number:08X}"), what);
    }
    Ok(missing.is_none())
}

/// Checks what can be checked without recovery: the checksums of all pages as they lie on disk.
pub(crate) fn unrecovered(io: &Io, report: &mut Report) -> Result<()> {
    let mut page = AlignedBuf::zeroed(PAGE_SIZE);
    let names = match io.list("data") {
        Err(error) if error.kind == IoErrorKind::NotFound => return Ok(()),
        names => names.map_err(Error::Io)?,
    };
    for name in names {
        let Ok(number) = u32::from_str_radix(&name, 16) else { continue };
        let path = format!("data/{name}");
        let file = io.open_file(&path, OpenMode::ReadOnly).map_err(Error::Io)?;
        let blocks = file.len().map_err(Error::Io)? / PAGE_SIZE as u64;
        for block in 0..u32::try_from(blocks).unwrap_or(u32::MAX) {
            let place = RelationFile { relation: &path, file: FileId(number) };
            match file.read_exact_at(&mut page, u64::from(block) * PAGE_SIZE as u64) {
                Err(error) if error.kind == IoErrorKind::ShortRead => break,
                read => read.map_err(Error::Io)?,
            }
            report.pages += 1;
            let bytes: &[u8; PAGE_SIZE] = page[..].try_into().expect("the buffer is a page");
            if let Err(what) = checksum::verify(PageId::new(place.file, block), bytes) {
                report.add(place.finding("P2", Some(block), what));
            }
        }
    }
    Ok(())
}
