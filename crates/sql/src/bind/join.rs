//! Joins: ON, USING, NATURAL, and which columns are shown of what is joined.
//!
//! Invariants: a column of USING is shown once, in front of the others: that of the side whose rows
//! are all kept, or of a full join the one that is not null.
//! Does not do: the order in which relations are joined (`plan::order`).

use sqlparser::ast::{Join as AstJoin, JoinConstraint, JoinOperator, TableWithJoins};

use super::from::Sourced;
use super::scope::{Scope, ScopeColumn};
use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::Expr;
use crate::parse::identifiers;
use crate::plan::rel::{Join, JoinKind, Rel};
use crate::types::SqlType;

/// What USING or NATURAL makes of two sources.
struct Merged {
    on: Vec<Expr>,
    /// Columns in the order of `*`.
    shown: Vec<ScopeColumn>,
    /// Those that are neither side's.
    made: Vec<(usize, Expr)>,
}

impl Binder<'_> {
    /// A source with what is joined to it; those in front of it are `before`.
    pub(super) fn joined(
        &mut self,
        item: &TableWithJoins,
        before: Option<&Scope>,
    ) -> Result<Sourced> {
        let mut all = self.factor(&item.relation, before)?;
        for join in &item.joins {
            all = self.join(all, join, before)?;
        }
        Ok(all)
    }

    fn join(&mut self, left: Sourced, join: &AstJoin, before: Option<&Scope>) -> Result<Sourced> {
        let (kind, constraint) =
            kind_of(&join.join_operator).ok_or_else(|| SqlError::unsupported(format!("{join}")))?;
        let position = self.position(&join.relation);
        let crosses = matches!(join.join_operator, JoinOperator::CrossJoin(_));
        if !crosses && matches!(constraint, JoinConstraint::None) {
            return Err(SqlError::syntax("a join needs ON or USING").at(position));
        }
        let visible = match before {
            None => left.scope.clone(),
            Some(before) => before.clone().join(left.scope.clone())?,
        };
        let mut visible = visible;
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            // The rows of the right side are there whatever the left ones are.
            let own = left.scope.relations.iter().map(|relation| relation.alias.clone());
            let own: Vec<String> = own.collect();
            let of_left = visible.relations.iter_mut();
            of_left.filter(|one| own.contains(&one.alias)).for_each(|one| one.is_hidden = true);
            visible.shown.clear();
        }
        let mut right = self.factor(&join.relation, Some(&visible))?;
        let merged = match constraint {
            JoinConstraint::Using(columns) => {
                let mut wanted = Vec::with_capacity(columns.len());
                for name in columns {
                    match identifiers::parts(name)?.as_slice() {
                        [name] => wanted.push(name.clone()),
                        _ => return Err(SqlError::syntax("syntax error at or near \".\"")),
                    }
                }
                Some(self.merge(kind, &left.scope, &right.scope, &wanted)?)
            }
            JoinConstraint::Natural => {
                let shown = left.scope.shown.iter().filter(|column| !column.hidden);
                let has = |column: &&ScopeColumn| {
                    let same = |other: &ScopeColumn| other.name == column.name && !other.hidden;
                    right.scope.shown.iter().any(same)
                };
                let wanted: Vec<String> = shown.filter(has).map(|c| c.name.clone()).collect();
                Some(self.merge(kind, &left.scope, &right.scope, &wanted)?)
            }
            JoinConstraint::On(_) | JoinConstraint::None => None,
        };
        let mut left = left;
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            left.scope.relations.iter_mut().for_each(|relation| relation.may_miss = true);
        }
        if matches!(kind, JoinKind::Left | JoinKind::Full) {
            right.scope.relations.iter_mut().for_each(|relation| relation.may_miss = true);
        }
        let mut scope = left.scope.join(right.scope).map_err(|error| error.at(position))?;
        let (mut on, made) = match merged {
            Some(merged) => {
                scope.shown = merged.shown;
                (merged.on, merged.made)
            }
            None => (Vec::new(), Vec::new()),
        };
        if let JoinConstraint::On(node) = constraint {
            let own = std::mem::replace(&mut self.scope, scope);
            if let Some(before) = before {
                // ON sees what is joined, and not what stands in front of all of it.
                self.outer.push(hidden(before));
            }
            let value = self.at_place(Place::None("JOIN conditions"), |binder| binder.expr(node));
            if before.is_some() {
                self.outer.pop();
            }
            scope = std::mem::replace(&mut self.scope, own);
            on.push(self.condition(value?, "JOIN/ON")?);
        }
        let (left, right) = (left.rel, right.rel);
        self.check_outer_join(kind, &left, &right)?;
        let mut rel = Rel::Join(Box::new(Join { kind, left, right, on, is_list: false }));
        if !made.is_empty() {
            let kept = rel.columns().into_iter().map(|id| (id, Expr::Column(id)));
            let output = kept.chain(made).collect();
            rel = Rel::Project { input: Box::new(rel), output };
        }
        Ok(Sourced { rel, scope })
    }

    /// Columns that both sides have become one.
    fn merge(
        &mut self,
        kind: JoinKind,
        left: &Scope,
        right: &Scope,
        wanted: &[String],
    ) -> Result<Merged> {
        let mut merged = Merged { on: Vec::new(), shown: Vec::new(), made: Vec::new() };
        for (at, name) in wanted.iter().enumerate() {
            if wanted[..at].contains(name) {
                let message =
                    format!("column name \"{name}\" appears more than once in USING clause");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            let (a, b) = (only(left, name, "left")?, only(right, name, "right")?);
            let both = vec![a.value(), b.value()];
            let (values, ty) = self.unified(both, "JOIN/USING")?;
            merged.on.push(self.operator("=", vec![a.value(), b.value()])?.expr);
            merged.shown.push(self.merged_column(kind, [a, b], values, ty, &mut merged.made));
        }
        let rest = |column: &&ScopeColumn| column.hidden || !wanted.contains(&column.name);
        merged.shown.extend(left.shown.iter().filter(rest).cloned());
        merged.shown.extend(right.shown.iter().filter(rest).cloned());
        Ok(merged)
    }

    /// The one column of two that USING names.
    fn merged_column(
        &mut self,
        kind: JoinKind,
        sides: [&ScopeColumn; 2],
        values: Vec<Expr>,
        ty: SqlType,
        made: &mut Vec<(usize, Expr)>,
    ) -> ScopeColumn {
        let kept = match kind {
            JoinKind::Right => Some(1),
            JoinKind::Full => None,
            _ => Some(0),
        };
        if let Some(side) = kept.map(|at: usize| sides[at]).filter(|side| side.ty == ty) {
            return side.clone();
        }
        let id = self.new_columns(1);
        let [a, b]: [Expr; 2] = values.try_into().expect("one of each side");
        let expr = match kind {
            JoinKind::Right => b,
            JoinKind::Full => Expr::Coalesce(vec![a, b]),
            _ => a,
        };
        made.push((id, expr));
        let collation = sides[0].collation.clone();
        ScopeColumn { collation, ..ScopeColumn::new(id, sides[0].name.clone(), ty) }
    }
}

/// The scope with all sources out of reach.
pub(super) fn hidden(scope: &Scope) -> Scope {
    let mut scope = scope.clone();
    scope.relations.iter_mut().for_each(|relation| relation.is_hidden = true);
    scope.shown.clear();
    scope
}

/// The column of this name that one side has.
fn only<'s>(scope: &'s Scope, name: &str, side: &str) -> Result<&'s ScopeColumn> {
    let mut found = scope.shown.iter().filter(|column| column.name == name && !column.hidden);
    let Some(first) = found.next() else {
        let message =
            format!("column \"{name}\" specified in USING clause does not exist in {side} table");
        return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
    };
    if found.next().is_some() {
        let message =
            format!("common column name \"{name}\" appears more than once in {side} table");
        return Err(SqlError::new(code::AMBIGUOUS_COLUMN, message));
    }
    Ok(first)
}

fn kind_of(operator: &JoinOperator) -> Option<(JoinKind, &JoinConstraint)> {
    use JoinOperator as J;
    Some(match operator {
        J::Join(constraint) | J::Inner(constraint) => (JoinKind::Inner, constraint),
        J::Left(constraint) | J::LeftOuter(constraint) => (JoinKind::Left, constraint),
        J::Right(constraint) | J::RightOuter(constraint) => (JoinKind::Right, constraint),
        J::FullOuter(constraint) => (JoinKind::Full, constraint),
        J::CrossJoin(constraint @ JoinConstraint::None) => (JoinKind::Inner, constraint),
        _ => return None,
    })
}
