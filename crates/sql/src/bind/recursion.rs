//! Where a recursive query may read itself: once, in its second part, and where each row of the
//! last round gives rows by itself.
//!
//! Invariants: as in PostgreSQL, it is read neither within a subquery of an expression, nor on the
//! side of an outer join whose rows may be missing, nor where EXCEPT takes rows away, nor under an
//! aggregate. Does not do: the order of expressions (`with`).

use super::Binder;
use crate::error::{Result, SqlError, code};
use crate::plan::rel::{JoinKind, Rel, SetKind, SetOp};

/// The error for a query that reads itself where it may not.
pub(super) fn refused(name: &str, what: &str) -> SqlError {
    let message = format!("recursive reference to query \"{name}\" must not appear {what}");
    SqlError::new(code::INVALID_RECURSION, message)
}

impl Binder<'_> {
    /// Fails if a part of a recursive query reads the query itself.
    pub(super) fn refuse_recursion(&self, rel: &Rel, what: &str) -> Result<()> {
        match self.recursion_in(rel) {
            Some(name) => Err(refused(&name, what)),
            None => Ok(()),
        }
    }

    /// The recursive query that is being bound and that a part of it reads.
    fn recursion_in(&self, rel: &Rel) -> Option<String> {
        if !self.commons.iter().any(|common| common.is_recursive) {
            return None;
        }
        let mut found = None;
        rel.visit(&mut |one| {
            if let Rel::CteScan { cte, name, is_step: true, .. } = one
                && self.commons.iter().any(|open| open.is_recursive && open.number == *cte)
            {
                found = Some(name.clone());
            }
        });
        found
    }

    /// Fails for a side of an outer join whose rows may be missing.
    pub(super) fn check_outer_join(&self, kind: JoinKind, left: &Rel, right: &Rel) -> Result<()> {
        const WITHIN: &str = "within an outer join";
        if matches!(kind, JoinKind::Left | JoinKind::Full) {
            self.refuse_recursion(right, WITHIN)?;
        }
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            self.refuse_recursion(left, WITHIN)?;
        }
        Ok(())
    }

    /// Fails for a side of a set operation that takes rows away, or that counts them.
    pub(super) fn check_set_operation(&self, set: &SetOp) -> Result<()> {
        match (set.kind, set.all) {
            (SetKind::Union, _) | (SetKind::Intersect, false) => Ok(()),
            (SetKind::Intersect, true) => {
                self.refuse_recursion(&set.left, "within INTERSECT")?;
                self.refuse_recursion(&set.right, "within INTERSECT")
            }
            (SetKind::Except, all) => {
                if all {
                    self.refuse_recursion(&set.left, "within EXCEPT")?;
                }
                self.refuse_recursion(&set.right, "within EXCEPT")
            }
        }
    }

    /// Fails for aggregates over sources of which the recursive query itself is one.
    pub(super) fn check_aggregated(&self, source: &Rel) -> Result<()> {
        let mut sources = vec![source];
        while let Some(source) = sources.pop() {
            match source {
                Rel::Join(_) | Rel::Filter { .. } => sources.extend(source.inputs()),
                Rel::CteScan { is_step: true, .. } if self.recursion_in(source).is_some() => {
                    let message = "aggregate functions are not allowed in a recursive query's \
                                   recursive term";
                    return Err(SqlError::new(code::INVALID_RECURSION, message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
