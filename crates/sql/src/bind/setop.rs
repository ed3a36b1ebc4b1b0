//! UNION, INTERSECT and EXCEPT.
//!
//! Invariants: both sides have as many columns, of common types; names are those of the first.
//! Does not do: the order of the whole (`select`).

use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};

use super::Binder;
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr, Typed, collation_of};
use crate::plan::Column;
use crate::plan::bound::Bound;
use crate::plan::rel::{Rel, SetKind, SetOp};
use crate::types::SqlType;

/// Deepest nest of set operations that are not a chain.
const MAX_DEPTH: usize = 200;

impl Binder<'_> {
    /// A set operation, or a query that is a side of one.
    pub(super) fn set_operation(&mut self, body: &SetExpr) -> Result<Bound> {
        // A chain leans to the left and may be long: its links are bound in a loop.
        let mut links = Vec::new();
        let mut first = body;
        while let SetExpr::SetOperation { left, op, set_quantifier, right } = first {
            links.push((*op, *set_quantifier, right.as_ref()));
            first = left;
        }
        let mut whole = self.side(first)?;
        while let Some((op, quantifier, right)) = links.pop() {
            let right = self.side(right)?;
            whole = self.combined(whole, right, kind_of(op)?, is_all(quantifier)?)?;
        }
        Ok(whole)
    }

    /// A side of a set operation. Literals keep no type until the other side is known.
    fn side(&mut self, body: &SetExpr) -> Result<Bound> {
        self.set_depth += 1;
        if self.set_depth > MAX_DEPTH {
            return Err(crate::parse::too_complex());
        }
        let side = match body {
            SetExpr::SetOperation { .. } => self.set_operation(body),
            other => self.apart(|binder| binder.plain_body(other)),
        };
        self.set_depth -= 1;
        let side = side?;
        super::lock::refuse_locks(&side)?;
        Ok(side)
    }

    fn combined(
        &mut self,
        mut left: Bound,
        mut right: Bound,
        kind: SetKind,
        all: bool,
    ) -> Result<Bound> {
        let name = match kind {
            SetKind::Union => "UNION",
            SetKind::Intersect => "INTERSECT",
            SetKind::Except => "EXCEPT",
        };
        if left.columns.len() != right.columns.len() {
            let message = format!("each {name} query must have the same number of columns");
            return Err(SqlError::syntax(message));
        }
        let mut sides: [Vec<Expr>; 2] = [Vec::new(), Vec::new()];
        let mut columns = Vec::with_capacity(left.columns.len());
        let pairs = left.scope_columns().into_iter().zip(right.scope_columns());
        let literal = [literals(&left), literals(&right)];
        for (at, (a, b)) in pairs.enumerate() {
            let (modifier, name) =
                (if a.modifier == b.modifier { a.modifier } else { None }, a.name.clone());
            let value = |side: &[Option<Expr>], column: &super::scope::ScopeColumn| match &side[at]
            {
                // A literal takes the type of the other side.
                Some(expr) => Typed::new(expr.clone(), SqlType::Unknown),
                None => column.value(),
            };
            let both = vec![value(&literal[0], &a), value(&literal[1], &b)];
            let collated = collation_of(&[a.value(), b.value()])?;
            if !(all && kind == SetKind::Union) {
                collated.refuse_unequal(name_of(kind))?;
            }
            let (values, ty) = self.unified(both, name_of(kind))?;
            if !(all && kind == SetKind::Union) {
                super::select::check_equal(ty)?;
            }
            let (values, ty) = match ty {
                SqlType::Unknown => (self.as_text(values)?, SqlType::Text),
                ty => (values, ty),
            };
            let [x, y]: [Expr; 2] = values.try_into().expect("one of each side");
            sides[0].push(x);
            sides[1].push(y);
            let collation = collated.of_result();
            columns.push(Column { modifier, collation, ..Column::new(name, ty) });
        }
        let [x, y] = sides;
        let left_columns = self.project(&mut left.rel, x);
        let right_columns = self.project(&mut right.rel, y);
        let first = self.new_columns(columns.len());
        let ids: Vec<ColumnId> = (first..first + columns.len()).collect();
        let (left, right) = (left.rel, right.rel);
        let set =
            SetOp { kind, all, left, right, left_columns, right_columns, columns: ids.clone() };
        self.check_set_operation(&set)?;
        Ok(Bound::new(Rel::SetOp(Box::new(set)), ids, columns))
    }

    fn as_text(&mut self, values: Vec<Expr>) -> Result<Vec<Expr>> {
        let text = |value| self.coerce(Typed::new(value, SqlType::Unknown), SqlType::Text);
        values.into_iter().map(text).collect()
    }
}

/// What each column is, if it is a literal without a type.
fn literals(bound: &Bound) -> Vec<Option<Expr>> {
    let of = |at: usize, id: &ColumnId| {
        let Rel::Project { output, .. } = &bound.rel else { return None };
        let (_, expr) = output.iter().find(|(known, _)| known == id)?;
        bound.untyped.get(at)?.then(|| expr.clone())
    };
    bound.output.iter().enumerate().map(|(at, id)| of(at, id)).collect()
}

fn name_of(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Union => "UNION",
        SetKind::Intersect => "INTERSECT",
        SetKind::Except => "EXCEPT",
    }
}

fn kind_of(op: SetOperator) -> Result<SetKind> {
    match op {
        SetOperator::Union => Ok(SetKind::Union),
        SetOperator::Intersect => Ok(SetKind::Intersect),
        SetOperator::Except => Ok(SetKind::Except),
        SetOperator::Minus => Err(SqlError::syntax("syntax error at or near \"MINUS\"")),
    }
}

fn is_all(quantifier: SetQuantifier) -> Result<bool> {
    match quantifier {
        SetQuantifier::All => Ok(true),
        SetQuantifier::None | SetQuantifier::Distinct => Ok(false),
        other => {
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, format!("{other} is not supported")))
        }
    }
}
