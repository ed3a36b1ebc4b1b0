//! LIMIT, OFFSET and FETCH.
//!
//! Does not do: the order that WITH TIES needs (`select`).

use std::collections::BTreeSet;

use sqlparser::ast::{self, LimitClause, OrderByKind, Query};

use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr;
use crate::expr::Expr;
use crate::plan::bound::Bound;
use crate::plan::rel::{Limit, Rel};
use crate::types::{Datum, SqlType};

impl Binder<'_> {
    /// The rows of a query that its LIMIT, OFFSET and FETCH leave.
    pub(super) fn limits(&mut self, query: &Query, bound: &mut Bound) -> Result<()> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(_) => return Err(SqlError::unsupported("LIMIT of this form")),
        };
        let (limit, with_ties) = match (limit, &query.fetch) {
            (limit, None) => (limit, false),
            (None, Some(fetch)) if !fetch.percent => (fetch.quantity.as_ref(), fetch.with_ties),
            _ => return Err(SqlError::unsupported("FETCH PERCENT")),
        };
        let one = query.fetch.as_ref().is_some_and(|fetch| fetch.quantity.is_none());
        let limit = match limit {
            Some(node) => Some(self.count(node, "LIMIT")?),
            None => one.then(|| Expr::Const(Datum::Int8(1))),
        };
        let offset = offset.map(|node| self.count(node, "OFFSET")).transpose()?;
        if limit.is_none() && offset.is_none() {
            return Ok(());
        }
        let items = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(items)) => items.len(),
            _ => 0,
        };
        let ties = match (&bound.rel, with_ties) {
            (_, false) => None,
            (Rel::Sort { keys, .. }, true) => Some(keys.clone()),
            (Rel::DistinctOn { sort, .. }, true) if items > 0 => {
                // What makes rows neighbours beyond the order that is written does not count.
                Some(sort[..items.min(sort.len())].to_vec())
            }
            _ => {
                let message = "WITH TIES cannot be specified without ORDER BY clause";
                return Err(SqlError::syntax(message));
            }
        };
        let input = std::mem::replace(&mut bound.rel, Rel::Single);
        bound.rel = Rel::Limit(Box::new(Limit { input, limit, offset, ties }));
        Ok(())
    }

    fn count(&mut self, node: &ast::Expr, name: &'static str) -> Result<Expr> {
        if matches!(node, ast::Expr::Identifier(name) if name.value.eq_ignore_ascii_case("all")) {
            return Ok(Expr::null());
        }
        let value = self.at_place(Place::None(name), |binder| binder.expr(node))?;
        if !matches!(
            value.ty,
            SqlType::Int2
                | SqlType::Int4
                | SqlType::Int8
                | SqlType::Numeric
                | SqlType::Float8
                | SqlType::Float4
                | SqlType::Unknown
        ) {
            let message =
                format!("argument of {name} must be type bigint, not type {}", value.ty.name());
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        }
        let position = value.position;
        let bound = self.coerce(value, SqlType::Int8)?;
        self.refuse_variables(&bound, name).map_err(|error| error.at(position))?;
        Ok(bound)
    }

    /// Fails for a clause whose argument names columns of the query that it belongs to.
    pub(super) fn refuse_variables(&self, argument: &Expr, clause: &str) -> Result<()> {
        let (mut named, mut own) = (BTreeSet::new(), false);
        expr::columns_of(argument, &mut named);
        self.scope.each(&mut |column| own |= named.contains(&column.id));
        if own {
            let message = format!("argument of {clause} must not contain variables");
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(())
    }
}
