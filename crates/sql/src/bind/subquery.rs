//! Queries inside of expressions.
//!
//! Invariants: the sources of the query around it are looked up behind its own. Does not do:
//! choosing whether it becomes a join (`plan::unnest`).

use sqlparser::ast::{self, BinaryOperator, Query};

use super::generated::GENERATION;
use super::lock::refuse_locks;
use super::scope::ScopeColumn;
use super::select::Purpose;
use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::{Body, Expr, Subquery, SubqueryKind, Typed};
use crate::plan::bound::Bound;
use crate::plan::rel::BoundSubquery;
use crate::plan::rewrite::is_stable;
use crate::types::array::no_array_of;
use crate::types::declared::Modifier;
use crate::types::{ElementType, SqlType};

/// Where expressions stand that are kept with a definition, or evaluated without a plan.
const KEPT: [&str; 8] = [
    GENERATION,
    "transform expressions",
    "DEFAULT expressions",
    "check constraints",
    "index predicates",
    "index expressions",
    "EXECUTE parameters",
    "COPY FROM WHERE conditions",
];

/// The name of an operator in front of ANY or ALL.
pub(super) fn operator_name(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGCustomBinaryOperator(path) => path.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

impl Binder<'_> {
    /// Binds a query of FROM, or a part of one: what is bound around it stays as it is.
    pub(super) fn apart(&mut self, work: impl FnOnce(&mut Self) -> Result<Bound>) -> Result<Bound> {
        let (scope, aggregates) =
            (std::mem::take(&mut self.scope), std::mem::take(&mut self.aggregates));
        let windows = std::mem::take(&mut self.windows);
        let sets = std::mem::take(&mut self.sets);
        let groupings = std::mem::take(&mut self.groupings);
        let place = std::mem::replace(&mut self.place, Place::None("here"));
        let bound = work(self);
        (self.scope, self.aggregates, self.place) = (scope, aggregates, place);
        (self.windows, self.sets, self.groupings) = (windows, sets, groupings);
        bound
    }

    /// The place, if it is one where no query may stand.
    pub(super) fn place_without_queries(&self) -> Option<&'static str> {
        match self.place {
            Place::None(place) if KEPT.contains(&place) => Some(place),
            _ => None,
        }
    }

    /// Binds a query inside of an expression, which sees the sources around it.
    fn nested(&mut self, query: &Query) -> Result<Bound> {
        if let Some(place) = self.place_without_queries() {
            let message = format!("cannot use subquery in {}", place.trim_end_matches('s'));
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        self.outer.push(std::mem::take(&mut self.scope));
        let bound = self.apart(|binder| binder.query_for(query, Purpose::Inner));
        self.scope = self.outer.pop().expect("it was put there");
        let bound = bound?;
        refuse_locks(&bound)?;
        self.refuse_recursion(&bound.rel, "within a subquery")?;
        Ok(bound)
    }

    pub(super) fn subquery(kind: SubqueryKind, bound: Bound) -> Expr {
        // It gets its number when it is planned.
        let number = usize::MAX;
        let inner = BoundSubquery { rel: bound.rel, output: bound.output };
        let body = Body::Bound(Box::new(inner));
        Expr::Subquery(Box::new(Subquery { kind, body, number }))
    }

    /// `(SELECT ..)` as a value.
    pub(super) fn scalar_subquery(&mut self, query: &Query) -> Result<Typed> {
        let bound = self.nested(query)?;
        let columns = bound.scope_columns();
        let [column] = columns.as_slice() else {
            return Err(SqlError::syntax("subquery must return only one column"));
        };
        let value = column.value();
        let expr = Self::subquery(SubqueryKind::Scalar, bound);
        Ok(Typed { expr: super::padded(expr, value.modifier), ..value })
    }

    /// `(SELECT ..)` as the values of a row: each asks a copy of the query.
    pub(super) fn row_subquery(&mut self, query: &Query) -> Result<Vec<Typed>> {
        let bound = self.nested(query)?;
        let columns = bound.scope_columns();
        if columns.len() > 1 && !is_stable(&bound.rel) {
            return Err(SqlError::unsupported(
                "a query with volatile functions for several columns at once",
            ));
        }
        self.count_copies(bound.rel.nodes() * columns.len())?;
        let value = |column: &ScopeColumn| {
            let one = Bound::new(bound.rel.clone(), vec![column.id], Vec::new());
            let expr = Self::subquery(SubqueryKind::Scalar, one);
            let value = column.value();
            Typed { expr: super::padded(expr, value.modifier), ..value }
        };
        Ok(columns.iter().map(value).collect())
    }

    /// `ARRAY(SELECT ..)`
    pub(super) fn array_subquery(&mut self, query: &Query) -> Result<Typed> {
        let bound = self.nested(query)?;
        let columns = bound.scope_columns();
        let [column] = columns.as_slice() else {
            return Err(SqlError::syntax("subquery must return only one column"));
        };
        let ty = column.ty.element().unwrap_or(column.ty);
        let element = ElementType::of(ty).ok_or_else(|| no_array_of(ty.name()))?;
        let of_arrays = column.ty.is_array();
        let modifier = column.modifier.filter(|one| matches!(one, Modifier::Varchar(_)));
        let expr = Self::subquery(SubqueryKind::Array { element, of_arrays }, bound);
        Ok(Typed { modifier, ..Typed::new(expr, SqlType::Array(element)) })
    }

    /// `EXISTS (SELECT ..)`
    pub(super) fn exists(&mut self, query: &Query, negated: bool) -> Result<Typed> {
        let bound = self.nested(query)?;
        let exists = Self::subquery(SubqueryKind::Exists, bound);
        let expr = if negated { Expr::Not(Box::new(exists)) } else { exists };
        Ok(Typed::new(expr, SqlType::Bool))
    }

    /// `value [NOT] IN (SELECT ..)`, of rows of values too.
    pub(super) fn in_subquery(
        &mut self,
        values: Vec<Typed>,
        query: &Query,
        negated: bool,
    ) -> Result<Typed> {
        let found = self.compared("=", values, query, false)?;
        let expr = if negated { Expr::Not(Box::new(found)) } else { found };
        Ok(Typed::new(expr, SqlType::Bool))
    }

    /// `value op ANY (SELECT ..)` or ALL.
    pub(super) fn quantified(
        &mut self,
        values: Vec<Typed>,
        op: &BinaryOperator,
        query: &Query,
        all: bool,
    ) -> Result<Typed> {
        let name = operator_name(op);
        let expr = self.compared(&name, values, query, all)?;
        Ok(Typed::new(expr, SqlType::Bool))
    }

    fn compared(&mut self, op: &str, values: Vec<Typed>, query: &Query, all: bool) -> Result<Expr> {
        let bound = self.nested(query)?;
        let columns = bound.scope_columns();
        if columns.len() != values.len() {
            let message = match columns.len() > values.len() {
                true => "subquery has too many columns",
                false => "subquery has too few columns",
            };
            return Err(SqlError::syntax(message));
        }
        if values.len() > 1 && !matches!(op, "=" | "<>" | "!=") {
            return Err(SqlError::unsupported("an order of rows of values"));
        }
        let first = self.new_columns(values.len());
        let (mut needles, mut tests) = (Vec::new(), Vec::new());
        for ((at, value), column) in values.into_iter().enumerate().zip(&columns) {
            let id = first + at;
            // The comparison decides what the value is cast to, and does so for each row.
            let stand_in = Typed { expr: Expr::Column(id), ..value.clone() };
            let (needle, stand_in) = match (value.ty, &value.expr) {
                // A literal takes its type from the column, once.
                (SqlType::Unknown, _) => {
                    let expr = self.coerce(value, column.ty)?;
                    (expr, Typed::new(Expr::Column(id), column.ty))
                }
                (_, Expr::Pad(inner, length)) => {
                    let expr = Expr::Pad(Box::new(Expr::Column(id)), *length);
                    ((**inner).clone(), Typed { expr, ..stand_in })
                }
                _ => (value.expr, stand_in),
            };
            tests.push(self.equal_by(op, stand_in, column.value())?);
            needles.push((id, needle));
        }
        let test = match tests.len() {
            1 => tests.remove(0),
            _ if op == "=" => Expr::And(tests),
            _ => Expr::Or(tests),
        };
        let kind = SubqueryKind::Compare { needles, test, all };
        Ok(Self::subquery(kind, bound))
    }

    fn equal_by(&mut self, op: &str, a: Typed, b: Typed) -> Result<Expr> {
        let value = self.operator(op, vec![a, b])?;
        if value.ty != SqlType::Bool {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        Ok(value.expr)
    }

    /// The values of `(a, b)`, or the one value of anything else.
    pub(super) fn row_values(&mut self, node: &ast::Expr) -> Result<Vec<Typed>> {
        match self.row(node)? {
            Some(row) => Ok(row),
            None => Ok(vec![self.expr(node)?]),
        }
    }
}
