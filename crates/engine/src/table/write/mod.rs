//! Writes: heap first, then every index.
//!
//! | file | concern |
//! |---|---|
//! | `statement` | the transaction and snapshot of a running statement |
//! | `insert`, `update`, `delete`, `lock`, `upsert` | one file a kind of write |
//! | `bulk` | updates and deletions of many rows as one statement |
//! | `entries` | index entries into all indexes; unique checks |
//! | `shared_key` | how many rows have one key now |
//! | `clean` | entries of pruned rows leave by key |
//! | `long_value` | long values into overflow pages |
//! | this one | the version that a write begins with, waiting, new attempts |
//!
//! A write by row id starts at the version that the statement's snapshot sees, or at one that an
//! earlier statement of the transaction returned. It waits for a running transaction in its way.
//! Once that has committed, snapshot isolation reports a conflict (first updater wins). Read
//! committed goes on with the newest version, which the caller's closure sees again.
//!
//! Invariants: the statement's snapshot stays registered, so the version that it sees stays, and
//! its row id with it. A statement that reads nothing else releases the snapshot while it waits;
//! the wait queue has one instead. Later versions may be pruned between two snapshots and their row
//! ids reused, so a write recognises a version by its creator (R9).
//! Does not do: reads by a key that is not unique; choice of an index.

pub(super) mod bulk;
pub(super) mod clean;
pub(super) mod delete;
pub(super) mod entries;
pub(super) mod insert;
pub(super) mod lock;
pub(super) mod long_value;
pub(super) mod shared_key;
pub(super) mod statement;
pub(super) mod update;
pub(super) mod upsert;

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::{TargetVersion, WriteOutcome};
use crate::ids::{RowId, Xid};
use crate::txn::{AnchoredVersion, Isolation, LockMode, RowVersion, RowWait, WrittenRow};

use crate::table::read::Reader;
use crate::table::read::by_key::{KeyRows, Next};
use crate::table::write::statement::{Busy, Statement};
use crate::table::{Table, TableIndex};

/// Outcome of the write of one row.
///
/// ```
/// use rightlink::Written;
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// let deleted = txn.write("n", |writer| writer.delete(id, &mut |_, _| Ok(true)))?;
/// match deleted {
///     Written::Done(_) => println!("deleted"),
///     Written::Skipped => println!("not wanted, or another transaction has it"),
///     Written::Gone => println!("somebody else deleted it"),
/// }
/// assert!(matches!(deleted, Written::Done(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Written {
    /// The row was written, and its present version has this row id.
    Done(RowId),
    /// The row was left alone: the closure did not want its newest version, this statement has
    /// written it already, or another transaction has it and the caller skips such rows.
    Skipped,
    /// The row does not exist any more.
    Gone,
}

/// Which of two rows is meant that a statement sees under one unique key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Twice {
    /// Both, and the one that is gone cannot be written: a conflict.
    Conflict,
    /// The one that is there: the own transaction's.
    Own,
}

impl Table {
    /// The place of the row whose key in `index`, a unique one, is `key`, without nulls, as the
    /// statement sees it. Its bytes stay with the statement, for a write of it that comes next.
    ///
    /// Where the statement sees two rows under the key ([`Snapshot::may_see_key_twice`]), it is for
    /// `twice` to say which one is meant.
    pub fn find(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        index: &Arc<TableIndex>,
        key: &[Value],
        twice: Twice,
    ) -> Result<Option<RowId>> {
        let snapshot = statement.snapshot();
        let reader = Reader::new(self, snapshot, Arc::clone(self.no_columns()));
        let Some(bytes) = KeyRows::encode_key(&reader, index, key)? else {
            return self.find_by_scan(statement, index, key, twice);
        };
        let mut rows = KeyRows::new(reader, index, bytes);
        let Next::Row(row) = rows.next()? else {
            return self.find_by_scan(statement, index, key, twice);
        };
        let found = row.map(|row| row.row_id);
        index.count_scan(rows.entries(), u64::from(found.is_some()));
        if let Some(at) = found
            && self.heap.may_share_key(snapshot, at)?
        {
            return self.find_by_scan(statement, index, key, twice);
        }
        statement.found(found.map(|at| (at, rows.into_row())));
        Ok(found)
    }

    /// As [`Table::find`]; what is found is read again when it is written.
    fn find_by_scan(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        index: &Arc<TableIndex>,
        key: &[Value],
        twice: Twice,
    ) -> Result<Option<RowId>> {
        let snapshot = statement.snapshot();
        let [first, second] = self.rows_of_key(snapshot, index, key, self.no_columns())?;
        match (first, second, twice) {
            (Some(first), Some(second), Twice::Own) => {
                Ok(Some(self.own_of([first, second], snapshot)?.row_id))
            }
            (Some(first), Some(_), Twice::Conflict) => {
                let error = Error::conflict(&self.def.name, first.row_id);
                Err(statement.txn().manager().count_conflict(error))
            }
            (first, ..) => Ok(first.map(|row| row.row_id)),
        }
    }

    /// Decides by `prepare` what to write instead of a version (`None`: nothing) and repeats
    /// `attempt` with that until it is done. `prepare` is called once for each version that is
    /// tried.
    pub(super) fn write_row<P>(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        prepare: impl FnMut(&mut Statement<'_>, RowId, &[u8]) -> Result<Option<P>>,
        attempt: impl FnMut(&mut Statement<'_>, TargetVersion, &P) -> Result<WriteOutcome>,
    ) -> Result<Written> {
        statement.txn().lock_table(self.def.id, LockMode::Write)?;
        statement.names(row);
        match self.start_of(statement, row)? {
            Some((start, bytes)) => self.write_from(statement, start, bytes, prepare, attempt),
            None => Ok(Written::Gone),
        }
    }

    /// The same, beginning at a version that a registered snapshot sees, and its bytes.
    pub(super) fn write_from<P>(
        &self,
        statement: &mut Statement<'_>,
        start: RowId,
        bytes: Vec<u8>,
        prepare: impl FnMut(&mut Statement<'_>, RowId, &[u8]) -> Result<Option<P>>,
        attempt: impl FnMut(&mut Statement<'_>, TargetVersion, &P) -> Result<WriteOutcome>,
    ) -> Result<Written> {
        let mut target = TargetVersion::from(start);
        let written = self.try_from(statement, &mut target, bytes, prepare, attempt);
        // Transactions that wait for the row behind this statement learn the outcome.
        let written_row = match &written {
            Ok(Written::Done(made)) => Some(WrittenRow {
                version: RowVersion { table: self.def.id, row: target.at },
                successor: Some(*made).filter(|made| *made != target.at),
            }),
            _ => None,
        };
        statement.txn().finish_row_wait(written_row);
        written
    }

    /// Fails if the caller, which gets the id `made`, knows another row by that id: during a wait
    /// the version with the id was pruned, and this one has taken its place. This is rare, so the
    /// caller repeats the transaction.
    pub(super) fn check_name(&self, statement: &mut Statement<'_>, made: RowId) -> Result<()> {
        let txn = statement.txn();
        match txn.names_moved_row(RowVersion { table: self.def.id, row: made }) {
            true => Err(txn.manager().count_conflict(Error::conflict(&self.def.name, made))),
            false => Ok(()),
        }
    }

    fn try_from<P>(
        &self,
        statement: &mut Statement<'_>,
        target: &mut TargetVersion,
        mut bytes: Vec<u8>,
        mut prepare: impl FnMut(&mut Statement<'_>, RowId, &[u8]) -> Result<Option<P>>,
        mut attempt: impl FnMut(&mut Statement<'_>, TargetVersion, &P) -> Result<WriteOutcome>,
    ) -> Result<Written> {
        let mut start = target.at;
        // What was seen before is let go when it is replaced: the start stays where it is.
        let mut anchor: Option<AnchoredVersion> = None;
        loop {
            let Some(prepared) = prepare(statement, target.at, &bytes)? else {
                return Ok(Written::Skipped);
            };
            let outcome = loop {
                let outcome = attempt(statement, *target, &prepared)?;
                let (xid, locked_against) = match outcome {
                    WriteOutcome::Wait(xid) | WriteOutcome::NotYetCommitted(xid) => (xid, None),
                    WriteOutcome::Locked { by, wants } => (by, Some(wants)),
                    outcome => break outcome,
                };
                match statement.busy() {
                    Busy::Wait => {}
                    Busy::Skip => return Ok(Written::Skipped),
                    Busy::Fail => {
                        let error = Error::row_locked(&self.def.name, target.at);
                        return Err(statement.txn().manager().count_conflict(error));
                    }
                }
                let version = RowVersion { table: self.def.id, row: target.at };
                if let Some(wants) = locked_against {
                    statement.txn().claim_row(version, wants);
                }
                if statement.only_locks() {
                    statement.txn().wait_for(xid)?;
                    continue;
                }
                let ends_version = matches!(outcome, WriteOutcome::Wait(_));
                let waited = statement.wait_to_write(RowWait { xid, version, ends_version })?;
                if let Some(found) = waited.anchor {
                    start = found.at;
                    anchor = Some(found);
                    if target.at == start && !broken(Broken::FrozenVersionNotRecognised) {
                        // What the anchor sees is still there. Its creator may be frozen by now:
                        // what kept that away may be the snapshot that was let go.
                        *target = TargetVersion::from(start);
                    }
                }
                if let Some((at, by)) = waited.newest {
                    break WriteOutcome::Changed { by, newest: Some(at) };
                }
                if anchor.is_some() && target.at != start {
                    break WriteOutcome::Gone;
                }
            };
            let (by, ahead) = match outcome {
                WriteOutcome::Done { row_id, .. } => return Ok(Written::Done(row_id)),
                WriteOutcome::Gone if target.at == start => return Ok(Written::Gone),
                // The version that was waited for left between two snapshots.
                WriteOutcome::Gone => (None, None),
                WriteOutcome::Changed { by, newest } => (Some(by), newest.map(|at| (at, by))),
                WriteOutcome::Wait(_)
                | WriteOutcome::NotYetCommitted(_)
                | WriteOutcome::Locked { .. } => {
                    unreachable!("the inner loop waits")
                }
            };
            if let Some(by) = by
                && !self.may_go_on(statement, target.at, by)?
            {
                return Ok(Written::Skipped);
            }
            // R9: else from a version that a registered snapshot sees, which is never removed.
            let xid = statement.txn().xid()?;
            let txn = statement.txn();
            match self.heap.newest_version(start, ahead, &|by| by != xid && txn.owns(by))? {
                Some(newest) => (*target, bytes) = newest,
                None => return Ok(Written::Gone),
            }
        }
    }

    /// Where a write of the row that `row` names begins: at the version that the statement sees
    /// there, else at the one that the statement saw which gave out the row id.
    fn start_of(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
    ) -> Result<Option<(RowId, Vec<u8>)>> {
        let row = statement.txn().current_row_id(RowVersion { table: self.def.id, row });
        if let Some(found) = statement.take_found(row) {
            return Ok(Some(found));
        }
        let seen = self.heap.fetch_version(statement.snapshot(), row)?;
        if seen.is_some() {
            return Ok(seen);
        }
        let before = self.heap.fetch_handed_out(statement.txn(), row)?;
        Ok(before.map(|bytes| (row, bytes)))
    }

    /// `by` has changed the version at `at` first: does the statement go on with the newest one?
    fn may_go_on(&self, statement: &mut Statement<'_>, at: RowId, by: Xid) -> Result<bool> {
        let xid = statement.txn().xid()?;
        let txn = statement.txn();
        if txn.owns(by) {
            // Nothing is written twice by one statement; an earlier one's changes are gone on with.
            return Ok(by != xid);
        }
        match txn.isolation() {
            Isolation::Snapshot => {
                Err(txn.manager().count_conflict(Error::conflict(&self.def.name, at)))
            }
            Isolation::ReadCommitted => Ok(true),
        }
    }
}
