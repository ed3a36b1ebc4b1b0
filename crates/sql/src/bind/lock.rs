//! FOR UPDATE and its kind: which rows a query locks, and how.
//!
//! Invariants: a query that locks gives one row for each row that it locks.
//! Does not do: locks of rows of several tables.

use rightlink::{Busy, RowLock};
use sqlparser::ast::{self, LockType, NonBlock, Query};

use super::select::{Bound, Locks};
use super::{Binder, names};
use crate::error::{Result, SqlError, code};
use crate::parse::cursor::KEY_LOCK;
use crate::plan::rel::{self, Rel};

impl Binder<'_> {
    /// How the rows of a query are to be locked: as the strongest of its clauses says.
    pub(super) fn locks(&mut self, query: &Query, bound: &Bound) -> Result<Option<Locks>> {
        let mut found: Option<(RowLock, Busy)> = None;
        for clause in &query.locks {
            let busy = match clause.nonblock {
                None => Busy::Wait,
                Some(NonBlock::Nowait) => Busy::Fail,
                Some(NonBlock::SkipLocked) => Busy::Skip,
            };
            let first = clause.of.as_ref().and_then(|of| of.0.first()?.as_ident());
            let of_key = first.is_some_and(|first| first.value == KEY_LOCK);
            let (lock, name) = match (&clause.lock_type, of_key) {
                (LockType::Share, true) => (RowLock::KeyShared, "FOR KEY SHARE"),
                (LockType::Share, false) => (RowLock::Shared, "FOR SHARE"),
                (LockType::Update, true) => (RowLock::Update, "FOR NO KEY UPDATE"),
                (LockType::Update, false) => (RowLock::Exclusive, "FOR UPDATE"),
            };
            found = Some(match found {
                None => (lock, busy),
                Some((other, Busy::Wait)) => (other.max(lock), busy),
                Some((other, _)) => (other.max(lock), Busy::Fail),
            });
            let of = clause.of.iter().flat_map(|of| &of.0).nth(usize::from(of_key));
            if has_windows(&bound.rel) {
                let message = format!("{name} is not allowed with window functions");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if has_sets(&bound.rel) {
                let message = format!(
                    "{name} is not allowed with set-returning functions in the target list"
                );
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if gathers_rows(&bound.rel) {
                let message =
                    format!("{name} is not allowed with GROUP BY, DISTINCT or aggregate functions");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if let Some(of) = of.and_then(ast::ObjectNamePart::as_ident)
                && self.scope.relation(None, &names::ident(of))?.is_none()
            {
                let of = names::ident(of);
                let message =
                    format!("relation \"{of}\" in {name} clause not found in FROM clause");
                let position = clause.of.as_ref().and_then(|of| self.position(of));
                return Err(SqlError::new(code::UNDEFINED_TABLE, message).at(position));
            }
            if source_of(&bound.rel).is_none() {
                return Err(SqlError::unsupported(format!("{name} of anything but a table")));
            }
        }
        Ok(found.map(|(lock, busy)| Locks { lock, busy }))
    }
}

/// Does it take rows together, so that none of them is a row of a table?
fn gathers_rows(rel: &Rel) -> bool {
    match rel {
        Rel::Aggregate(_) | Rel::Distinct { .. } | Rel::DistinctOn { .. } => true,
        Rel::SetOp(_) => true,
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            gathers_rows(input)
        }
        _ => false,
    }
}

/// Does it call window functions itself?
fn has_windows(rel: &Rel) -> bool {
    match rel {
        Rel::Window { .. } => true,
        Rel::Filter { input, .. }
        | Rel::Project { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Distinct { input, .. }
        | Rel::DistinctOn { input, .. } => has_windows(input),
        _ => false,
    }
}

/// Does it call functions that give rows?
fn has_sets(rel: &Rel) -> bool {
    match rel {
        Rel::ProjectSet { .. } => true,
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            has_sets(input)
        }
        _ => false,
    }
}

/// The scan that each row of it is one row of.
fn source_of(rel: &Rel) -> Option<&rel::Scan> {
    match rel {
        Rel::Scan(scan) => Some(scan),
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            source_of(input)
        }
        Rel::Limit(limit) => source_of(&limit.input),
        _ => None,
    }
}

/// Only a query whose rows go to the client locks them.
pub(super) fn refuse_locks(query: &Bound) -> Result<()> {
    match &query.locks {
        None => Ok(()),
        Some(_) => Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in a part of a statement")),
    }
}
