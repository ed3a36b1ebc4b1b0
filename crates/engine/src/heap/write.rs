//! What update, delete and lock have in common: may this writer end this version now?
//!
//! First updater wins. The version must be there, its creation committed or our own, and nobody
//! else may be ending it: a running one is waited for by the caller (without latches, R12), a
//! committed one has won, an aborted one is overwritten.
//!
//! Invariants: the answer holds only under the exclusive latch under which it was found.
//! Does not do: wait, choose what a lost race means (that depends on the isolation level).

use rightlink_env::points::broken;

use crate::error::Result;
use crate::heap::page::{HeapPage, Tuple};
use crate::heap::tuple::TupleHeader;
use crate::heap::visibility::{Birth, End, Judge};
use crate::ids::{Lsn, RowId, Xid};
use crate::txn::{Locker, RowLock, Transaction};

/// The version that a write is to end.
///
/// A version that the writer's own snapshot sees stays where it is, and so does its row id (R9).
/// One that [`Heap::newest`](super::Heap::newest) found is later than that: it may leave, and its
/// row id be given to another row, before the write has the latch. What tells them apart is who
/// created it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Where the version is.
    pub at: RowId,
    /// Who created it, unless the writer's snapshot keeps it there.
    pub(super) born_by: Option<Xid>,
}

impl From<RowId> for Target {
    fn from(at: RowId) -> Target {
        Target { at, born_by: None }
    }
}

impl Target {
    /// Is this the version that was meant?
    fn is(self, tuple: &Tuple<'_>) -> bool {
        self.born_by.is_none_or(|by| tuple.header.xmin == by) || broken("r9-walk")
    }
}

/// How an update, delete or lock ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum WriteOutcome {
    /// Done. `row_id` is the new version (update), else the version itself.
    Done {
        /// The version that now stands for the row.
        row_id: RowId,
        /// The new version is heap-only: the indexes need no entry for it.
        heap_only: bool,
        /// End of the log record; `Lsn(0)` when nothing was to be logged.
        lsn: Lsn,
    },
    /// A running transaction ends the version, which was committed: wait for it, then try again.
    Wait(Xid),
    /// A running transaction has made the version: the same.
    Unborn(Xid),
    /// A running transaction locks the version against what is wanted: the same.
    Locked {
        /// One of those that do.
        by: Xid,
        /// What the writer wants.
        wants: RowLock,
    },
    /// A committed transaction, or an earlier or the same statement of this one, ended the version.
    Changed {
        /// The xid that did.
        by: Xid,
        /// The version that replaced it; `None`: the row was deleted.
        newest: Option<RowId>,
    },
    /// There is no such version any more.
    Gone,
}

/// The writer of a change: its statement's xid and its transaction.
#[derive(Clone, Copy)]
pub(super) struct Writer<'t> {
    pub(super) xid: Xid,
    pub(super) txn: &'t Transaction,
    /// What it wants of the version.
    pub(super) wants: RowLock,
}

/// May `writer` end the version `target`? `Ok(Ok(..))` gives its slot's contents; `Ok(Err(..))` the
/// outcome that stops it; `None` when a status must be read first.
pub(super) fn may_end<'a>(
    page: &HeapPage<'a>,
    target: Target,
    writer: Writer<'_>,
    judge: &mut Judge<'_>,
) -> Result<Option<std::result::Result<Tuple<'a>, WriteOutcome>>> {
    assert!(target.at.block == page.id().block, "the version's page");
    let found = page.tuple(target.at.slot)?.filter(|tuple| target.is(tuple));
    let Some(tuple) = found else { return Ok(Some(Err(WriteOutcome::Gone))) };
    Ok(judge_end(&tuple, writer, judge).map(|stop| stop.map_or(Ok(tuple), Err)))
}

/// `None`: a status is missing; `Some(None)`: go on.
fn judge_end(
    tuple: &Tuple<'_>,
    writer: Writer<'_>,
    judge: &mut Judge<'_>,
) -> Option<Option<WriteOutcome>> {
    let head = &tuple.header;
    match judge.birth(head)? {
        Birth::Aborted => return Some(Some(WriteOutcome::Gone)),
        Birth::InProgress if !writer.txn.owns(head.xmin) => {
            return Some(Some(WriteOutcome::Unborn(head.xmin)));
        }
        _ => {}
    }
    let changed = |by| Some(WriteOutcome::Changed { by, newest: head.next });
    Some(match judge.end(head)? {
        End::Open => None,
        End::Locked(_) => in_the_way(&judge.lockers(head)?, writer)
            .map(|by| WriteOutcome::Locked { by, wants: writer.wants }),
        End::Ending(by) if writer.txn.owns(by) => changed(by),
        End::Ending(by) => Some(WriteOutcome::Wait(by)),
        End::Ended(by) => changed(by),
    })
}

/// One of the others among `lockers` whose lock the writer must wait for.
fn in_the_way(lockers: &[Locker], writer: Writer<'_>) -> Option<Xid> {
    let others = lockers.iter().filter(|locker| !writer.txn.owns(locker.xid));
    let mut others = others.filter(|locker| !locker.lock.is_compatible(writer.wants));
    others.next().map(|locker| locker.xid)
}

/// Earlier locks on a version that the writer may end now: its own hold again if the statement is
/// undone, those of others go over to what replaces the version. `None` when a status must be read
/// first.
pub(super) fn locks_to_keep(
    head: &TupleHeader,
    writer: Writer<'_>,
    judge: &mut Judge<'_>,
) -> Option<Vec<Locker>> {
    let lockers = judge.lockers(head)?.into_iter();
    Some(lockers.filter(|it| it.xid != writer.xid).collect())
}
