//! The catalog against the files: each file has one owner, and is there.
//!
//! | check | what |
//! |---|---|
//! | X5 | a file has one owner, and none of the system's |
//! | X6 | what the catalog names is there, at a size that fits; offline: no file without an owner |
//! | X7 | counters are above everything that was handed out |
//! | X8 | the next number of a sequence is one that it has |
//!
//! Invariants: a table that is dropped meanwhile is no finding, because a missing file counts only
//! if the catalog still names it afterwards. A table whose files have two owners is not opened. If
//! a table cannot be opened as a whole, each of its files is checked by itself.
//! Does not do: check contents.

use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::points::hit;
use rightlink_env::sync::Arc;

use crate::catalog::{Changes, Entry, FIRST_USER_FILE, files_of, row_files};
use crate::config::PAGE_SIZE;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{FileId, Xid};
use crate::table::schema::{SequenceDef, TableDef};
use crate::table::{Table, TableIndex};
use crate::txn::{Isolation, LockMode, Transaction, is_segment};
use crate::verify::pages::{self, Role};
use crate::verify::{Parts, RelationFile, Report, record_damage, replacements, table};

/// A table that has another name when it is checked is looked up again, so often at most.
const MAX_NAMES: u32 = 20;

/// Checks every table of the catalog.
pub(super) fn all(parts: &Parts<'_>, report: &mut Report) -> Result<()> {
    let mut defs = parts.catalog.definitions()?;
    let owners = owners(&defs, report);
    let shared =
        |file: &FileId| is_system(*file) || owners.get(file).is_some_and(|owners| *owners > 1);
    defs.retain(|def| !files_of(def).iter().any(shared));
    for _ in 0..MAX_NAMES {
        let mut moved = BTreeSet::new();
        for def in &defs {
            if !check_by_name(parts, def, report)? {
                moved.insert(def.id);
            }
        }
        if moved.is_empty() {
            return free_sequences(parts, report);
        }
        defs = parts.catalog.definitions()?;
        defs.retain(|def| moved.contains(&def.id));
    }
    if !report.findings.is_empty() {
        // The catalog is damaged, and does not find what it lists.
        return free_sequences(parts, report);
    }
    let what = "a table has another name each time that it is looked for".to_owned();
    Err(Error::Conflict { kind: ConflictKind::Serialization, what })
}

/// Checks a table and its sequences. False: the table does not have this name any more.
fn check_by_name(parts: &Parts<'_>, def: &TableDef, report: &mut Report) -> Result<bool> {
    let missing = missing_files(parts, def, report)?;
    hit("verify.next-table");
    let mut txn = parts.txns.begin(Isolation::ReadCommitted);
    let entry = match resolve(parts, &mut txn, &def.name) {
        Err(Error::NotFound(_)) => return Ok(false),
        Ok(entry) if entry.table.def().id != def.id => return Ok(false),
        Ok(entry) => Some(entry),
        // The check of the parts meets the damage again, and names its file.
        Err(error) if matches!(error, Error::Corruption { .. }) || !missing.is_empty() => None,
        Err(error) => return Err(error),
    };
    let now = match &entry {
        Some(entry) => {
            check_locked(parts, &mut txn, &entry.table, report)?;
            entry.table.def()
        }
        None => {
            // It may be dropped all the same.
            txn.lock_table(def.id, LockMode::Access)?;
            if !parts.catalog.files()?.contains(&def.heap) {
                return Ok(true);
            }
            check_parts(parts, def, &missing, report)?;
            def
        }
    };
    for own in now.sequences() {
        sequence(parts, own, report)?;
    }
    Ok(true)
}

/// Checks the sequences of no table.
fn free_sequences(parts: &Parts<'_>, report: &mut Report) -> Result<()> {
    for free in parts.catalog.free_sequences()? {
        hit("verify.next-sequence");
        let mut txn = parts.txns.begin(Isolation::ReadCommitted);
        txn.lock_table(free.id, LockMode::Access)?;
        // A change or a drop of it held the lock.
        if parts.catalog.files()?.contains(&free.file) {
            sequence(parts, &free, report)?;
        }
    }
    Ok(())
}

fn resolve(parts: &Parts<'_>, txn: &mut Transaction, name: &str) -> Result<Arc<Entry>> {
    parts.catalog.resolve(txn, &Changes::default(), name, LockMode::Access)
}

/// Checks a table that `txn` has locked, so that its name stays, and all of its indexes, including
/// those that replace others meanwhile.
fn check_locked(
    parts: &Parts<'_>,
    txn: &mut Transaction,
    checked: &Table,
    report: &mut Report,
) -> Result<()> {
    hit("verify.locked");
    let mut replaced = table(parts, checked, report)?;
    hit("verify.checked");
    // A build that begins from here on waits for this snapshot before it replaces an index, so a
    // few rounds are enough.
    let watch = parts.txns.begin(Isolation::ReadCommitted);
    let _snapshot = watch.latest_snapshot();
    while !replaced.is_empty() {
        let entry = resolve(parts, txn, &checked.def().name)?;
        replaced = replacements(parts, &entry.table, &replaced, report)?;
    }
    Ok(())
}

/// Checks the page of a sequence (X8). The caller has locked the sequence or its table.
fn sequence(parts: &Parts<'_>, def: &SequenceDef, report: &mut Report) -> Result<()> {
    let file = def.file;
    let place = RelationFile { relation: &def.schema.name, file };
    let there = |parts: &Parts<'_>| Ok::<_, Error>(parts.catalog.files()?.contains(&file));
    if !parts.pool.files_on_disk()?.contains(&file) {
        if there(parts)? {
            report.add(place.finding("X6", None, "the file is missing"));
        }
        return Ok(());
    }
    parts.pool.open_file(file, true)?;
    pages::file(parts, place, Role::Sequence, &|| 1, report)?;
    match parts.catalog.open_sequence(def)?.stored() {
        Err(Error::Corruption { .. }) if !there(parts)? => Ok(()),
        stored => record_damage(place, "X8", stored.map(drop), report),
    }
}

/// Is it a file of the system, and of no table, index or sequence?
fn is_system(file: FileId) -> bool {
    file.0 < FIRST_USER_FILE || is_segment(file)
}

/// How many tables and indexes own each file.
fn owners(defs: &[TableDef], report: &mut Report) -> BTreeMap<FileId, u32> {
    let mut owners = BTreeMap::new();
    for def in defs {
        let place = |file| RelationFile { relation: &def.name, file };
        for file in files_of(def) {
            let count = owners.entry(file).or_insert(0);
            *count += 1;
            if *count == 2 {
                let what = "the file belongs to two tables or indexes".to_string();
                report.add(place(file).finding("X5", None, what));
            }
            if is_system(file) {
                let what = "the file belongs to the system itself".to_string();
                report.add(place(file).finding("X5", None, what));
            }
        }
    }
    owners
}

/// The files of the table and its indexes that are missing, though the catalog still names them.
fn missing_files(parts: &Parts<'_>, def: &TableDef, report: &mut Report) -> Result<Vec<FileId>> {
    let on_disk = parts.pool.files_on_disk()?;
    let mut missing = row_files(def);
    missing.retain(|file| !on_disk.contains(file));
    if missing.is_empty() {
        return Ok(missing);
    }
    let named = parts.catalog.files()?;
    let on_disk = parts.pool.files_on_disk()?;
    missing.retain(|file| named.contains(file) && !on_disk.contains(file));
    for file in &missing {
        let what = "the catalog names this file, which is missing";
        report.add(place_of(def, *file).finding("X6", None, what));
    }
    Ok(missing)
}

/// The table or the index that the file belongs to.
fn place_of(def: &TableDef, file: FileId) -> RelationFile<'_> {
    let index = def.indexes.iter().find(|index| index.file == file);
    RelationFile { relation: index.map_or(&def.name, |index| &index.name), file }
}

/// Checks a table that cannot be opened as a whole: its heap with the indexes that can be opened.
/// If the heap cannot be opened, each file is checked by itself.
fn check_parts(
    parts: &Parts<'_>,
    def: &TableDef,
    missing: &[FileId],
    report: &mut Report,
) -> Result<()> {
    let mut rest = def.clone();
    rest.indexes.retain(|index| !missing.contains(&index.file));
    let mut opened = Vec::new();
    for index in std::mem::take(&mut rest.indexes) {
        match TableIndex::open(parts.pool, def, &index) {
            Ok(index) => opened.push(index),
            Err(error) => record_damage(place_of(def, index.file), "X6", Err(error), report)?,
        }
    }
    rest.indexes = opened.iter().map(|index| index.def().clone()).collect();
    let own = rest.heap_files();
    if !own.iter().any(|file| missing.contains(file)) {
        match Table::open(parts.pool, parts.txns, rest) {
            Ok(whole) => return table(parts, &whole, report).map(drop),
            Err(error) => record_damage(place_of(def, def.heap), "X6", Err(error), report)?,
        }
    }
    let roles = [Role::Heap, Role::FreeSpace, Role::Visibility, Role::Overflow];
    for (file, role) in own.into_iter().zip(roles).filter(|(file, _)| !missing.contains(file)) {
        parts.pool.open_file(file, def.logged)?;
        pages::file(parts, place_of(def, file), role, &|| 0, report)?;
    }
    for index in opened {
        let role = Role::Index(index.def().method);
        pages::file(parts, place_of(def, index.def().file), role, &|| 1, report)?;
        super::index(&index, report)?;
    }
    Ok(())
}

/// Does a file end before what its meta page says?
pub(super) fn sizes(parts: &Parts<'_>, table: &Table, report: &mut Report) -> Result<()> {
    let place = RelationFile { relation: &table.def().name, file: table.def().heap };
    // In this order: the file is longer before the table is.
    let extent = table.heap().blocks();
    let blocks = parts.pool.blocks(place.file);
    if extent > blocks && table.heap().blocks() > parts.pool.blocks(place.file) {
        let what = format!("the table has {extent} blocks, its file {blocks}");
        report.add(place.finding("X6", None, what));
    }
    Ok(())
}

/// Files without an owner, and files that are not whole pages. Only after a clean close: a crash
/// may leave either, and opening the database puts it right.
pub(crate) fn orphans(parts: &Parts<'_>, report: &mut Report) -> Result<()> {
    let mut owned = parts.catalog.files()?;
    owned.extend(files_of(parts.catalog.table().def()));
    owned.push(crate::txn::STATUS_FILE);
    for file in parts.pool.files_on_disk()? {
        let place = RelationFile { relation: "", file };
        let known = match is_segment(file) {
            true => parts.txns.may_have_segment(file),
            false => owned.contains(&file),
        };
        if !known {
            let what = "the file belongs to no table, index or sequence";
            report.add(place.finding("X6", None, what));
        }
    }
    Ok(())
}

/// Files of the directory that do not consist of whole pages.
pub(super) fn whole_pages(io: &rightlink_aio::Io, report: &mut Report) -> Result<()> {
    for name in io.list("data").map_err(Error::Io)? {
        let path = format!("data/{name}");
        let file = io.open_file(&path, rightlink_aio::OpenMode::ReadOnly).map_err(Error::Io)?;
        let len = file.len().map_err(Error::Io)?;
        if !len.is_multiple_of(PAGE_SIZE as u64) {
            let file = FileId(u32::from_str_radix(&name, 16).unwrap_or_default());
            let what = format!("{len} bytes are no whole number of pages");
            report.add(RelationFile { relation: &path, file }.finding("X6", None, what));
        }
    }
    Ok(())
}

/// The next numbers, by the control file of a clean close.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextNumbers {
    /// First file number not handed out.
    pub next_file: u32,
    /// First xid not handed out.
    pub next_xid: Xid,
}

/// X7. Not after a crash: the control file is older then, and the log does not name every file.
pub(crate) fn counters(parts: &Parts<'_>, known: NextNumbers, report: &mut Report) -> Result<()> {
    let place = RelationFile { relation: "control", file: FileId(0) };
    let last = parts.catalog.files()?.iter().map(|file| file.0).max().unwrap_or(0);
    if last >= known.next_file {
        let what = format!("file {last} is in use, but {} is to be handed out", known.next_file);
        report.add(place.finding("X7", None, what));
    }
    let next = parts.txns.next_xid();
    let stored = known.next_xid;
    if stored < next {
        let what = format!("xid {stored} is to be handed out next, but {next} is the first unused");
        report.add(place.finding("X7", None, what));
    }
    Ok(())
}
