//! Writes by row id: who goes first, who waits, who looks again.
//!
//! A write starts at the version that the statement's snapshot sees, or at one that an earlier
//! statement of the transaction gave out. A running transaction in its
//! way is waited for. If it has committed, snapshot isolation gives up with a conflict (first
//! updater wins), read committed goes on with the newest version, which the caller's closure judges
//! again.
//!
//! Invariants: that statement's snapshot is registered for as long as this runs, so that the
//! version it sees stays, and its row id with it; a statement that reads nothing else lets it go
//! while it waits, and the queue in which it waits has one instead. Later ones may leave between
//! two snapshots and their row ids be another row's: a write knows them by who created them (R9).
//! Does not do: the writes themselves.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::error::{Error, Result};
use crate::heap::{TargetVersion, WriteOutcome};
use crate::ids::{RowId, Xid};
use crate::txn::{AnchoredVersion, Isolation, LockMode, RowVersion, RowWait, WrittenRow};

use super::Table;
use super::statement::{Busy, Statement};

/// What became of a row that was to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Written {
    /// Done; this version now stands for the row.
    Done(RowId),
    /// The closure did not want the newest version, this statement has written the row already, or
    /// another transaction has it and such rows were to be left out.
    Skipped,
    /// The row does not exist any more.
    Gone,
}

impl Table {
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
            Some(start) => self.write_from(statement, start, prepare, attempt),
            None => Ok(Written::Gone),
        }
    }

    /// The same, beginning at a version that a registered snapshot sees, and its bytes.
    pub(super) fn write_from<P>(
        &self,
        statement: &mut Statement<'_>,
        (start, bytes): (RowId, Vec<u8>),
        prepare: impl FnMut(&mut Statement<'_>, RowId, &[u8]) -> Result<Option<P>>,
        attempt: impl FnMut(&mut Statement<'_>, TargetVersion, &P) -> Result<WriteOutcome>,
    ) -> Result<Written> {
        let mut target = TargetVersion::from(start);
        let written = self.try_from(statement, &mut target, bytes, prepare, attempt);
        // Whoever waits for the row behind this statement learns what became of it.
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

    /// Fails if the caller, who is to be given the id `made`, knows another row by it: while that
    /// was waited for, the version with the id has left and its place was given to this one. Rare
    /// enough to try again.
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
            // R9: else from a version that a registered snapshot sees, which nobody removes.
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
