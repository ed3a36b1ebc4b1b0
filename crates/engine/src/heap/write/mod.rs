//! Writes: insert, update, delete, lock; and their common question, may this writer end this
//! version?
//!
//! First updater wins. The version must exist, and its creator be committed or the writer itself. A
//! running transaction that ends it is waited for by the caller, without latches (R12). A committed
//! one has won; an aborted one is overwritten.
//!
//! | file | concern |
//! |---|---|
//! | `insert` | new rows, page by page |
//! | `update`, `slot_reuse` | a new version of a row; the space of a dead version reused for it |
//! | `delete`, `lock` | the end of a row; row locks |
//!
//! Invariants: an answer holds only under the exclusive latch under which it was given.
//! Does not do: wait, or choose what a lost race means (that depends on the isolation level).
//!
//! PostgreSQL: `HeapTupleSatisfiesUpdate` and `access/heap/README.tuplock`.

mod delete;
mod insert;
mod lock;
mod slot_reuse;
mod update;

use crate::error::Result;
use crate::heap::page::tuple::TupleHeader;
use crate::heap::page::{HeapPage, Tuple};
use crate::heap::read::newest::TargetVersion;
use crate::heap::visibility::{HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::{Lsn, RowId, Xid};
use crate::txn::{Locker, RowLock, Transaction};

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
    /// A running transaction is ending the version, which was committed: wait for it, then try
    /// again.
    Wait(Xid),
    /// A running transaction created the version: wait for it, then try again.
    NotYetCommitted(Xid),
    /// A running transaction holds a conflicting lock: wait for it, then try again.
    Locked {
        /// One of the conflicting lockers.
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
pub(in crate::heap) struct WriteContext<'t> {
    pub(in crate::heap) xid: Xid,
    pub(in crate::heap) txn: &'t Transaction,
    /// What it wants of the version.
    pub(in crate::heap) wants: RowLock,
}

/// May a writer end a version now?
pub(in crate::heap) enum EndCheck<'a> {
    /// It may: the version.
    Allowed(Tuple<'a>),
    /// It may not.
    Refused(WriteOutcome),
    /// The status of an xid must be read first.
    Unknown,
}

/// May `writer` end the version `target`? As `HeapTupleSatisfiesUpdate` of PostgreSQL.
pub(in crate::heap) fn check_end<'a>(
    page: &HeapPage<'a>,
    target: TargetVersion,
    writer: WriteContext<'_>,
    visibility: &mut HeapVisibility<'_>,
) -> Result<EndCheck<'a>> {
    assert!(target.at.block == page.id().block, "the version's page");
    let found = page.tuple(target.at.slot)?.filter(|tuple| target.is(tuple));
    let Some(tuple) = found else { return Ok(EndCheck::Refused(WriteOutcome::Gone)) };
    Ok(check_header(tuple, writer, visibility).unwrap_or(EndCheck::Unknown))
}

/// `None`: a status is missing.
fn check_header<'a>(
    tuple: Tuple<'a>,
    writer: WriteContext<'_>,
    visibility: &mut HeapVisibility<'_>,
) -> Option<EndCheck<'a>> {
    let head = &tuple.header;
    match visibility.xmin_status(head)? {
        XminStatus::Aborted => return Some(EndCheck::Refused(WriteOutcome::Gone)),
        XminStatus::InProgress if !writer.txn.owns(head.xmin) => {
            return Some(EndCheck::Refused(WriteOutcome::NotYetCommitted(head.xmin)));
        }
        _ => {}
    }
    let changed = |by| Some(WriteOutcome::Changed { by, newest: head.next });
    let refused = match visibility.xmax_status(head)? {
        XmaxStatus::Invalid => None,
        XmaxStatus::Locked(_) => conflicting_locker(&visibility.lockers(head)?, writer)
            .map(|by| WriteOutcome::Locked { by, wants: writer.wants }),
        XmaxStatus::InProgress(by) if writer.txn.owns(by) => changed(by),
        XmaxStatus::InProgress(by) => Some(WriteOutcome::Wait(by)),
        XmaxStatus::Committed(by) => changed(by),
    };
    Some(refused.map_or(EndCheck::Allowed(tuple), EndCheck::Refused))
}

/// One of the other lockers whose lock the writer must wait for.
fn conflicting_locker(lockers: &[Locker], writer: WriteContext<'_>) -> Option<Xid> {
    let others = lockers.iter().filter(|locker| !writer.txn.owns(locker.xid));
    let mut others = others.filter(|locker| !locker.lock.is_compatible(writer.wants));
    others.next().map(|locker| locker.xid)
}

/// Earlier locks on a version that the writer may end now. Its own come back if the statement is
/// undone; those of others pass to the new version. `None` when a status must be read first.
pub(in crate::heap) fn locks_to_keep(
    head: &TupleHeader,
    writer: WriteContext<'_>,
    visibility: &mut HeapVisibility<'_>,
) -> Option<Vec<Locker>> {
    let lockers = visibility.lockers(head)?.into_iter();
    Some(lockers.filter(|it| it.xid != writer.xid).collect())
}
