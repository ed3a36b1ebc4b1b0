//! Lowering of relations that are made up from what the store knows.
//!
//! A condition that says the value of a column becomes the key by which rows are found.
//!
//! Invariants: the rows of a relation have one slot of the context, however they are read.
//! Does not do: the rows (`catalog::views`).

use std::collections::BTreeSet;

use crate::catalog::system_views;
use crate::error::{Result, SqlError};
use crate::expr;
use crate::expr::{ColumnId, Expr};
use crate::plan::ViewUse;
use crate::plan::lower::{Lowered, Lowerer, Want, fixed, kept_places, plain};
use crate::plan::node::{Op, ViewKey};

/// Rows that a relation is thought to have.
const ROWS: f64 = 100.0;

impl Lowerer<'_> {
    /// What the statement reads of what the store knows about itself.
    pub(super) fn uses(self) -> Vec<ViewUse> {
        let lookups = ViewUse { view: &system_views::LOOKUPS, args: Vec::new() };
        self.views.into_iter().chain(self.reads_catalog.then_some(lookups)).collect()
    }

    /// All rows of a relation, or those that a function gives.
    pub(super) fn view(
        &mut self,
        view: &'static system_views::View,
        mut args: Vec<Expr>,
        columns: &[ColumnId],
        want: &Want<'_>,
    ) -> Result<Lowered> {
        if args.iter().any(expr::names_columns) {
            let message = format!("{} of columns of another source", view.name);
            return Err(SqlError::unsupported(message));
        }
        args.iter_mut().try_for_each(|arg| self.place(arg, &[]))?;
        let slot = self.views.len();
        self.views.push(ViewUse { view, args });
        let kept = kept_places(columns, want.needed);
        let layout: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
        let op = Op::View { view, columns: kept, slot, key: None };
        Ok(plain(self.node(op, layout.len(), fixed(ROWS, columns.len() * 16)), layout))
    }

    /// A relation that is made up, of which a condition may say a value of a column.
    pub(super) fn view_of_key(
        &mut self,
        view: &'static system_views::View,
        columns: Vec<ColumnId>,
        mut conditions: Vec<Expr>,
        want: &Want<'_>,
    ) -> Result<Lowered> {
        let own: BTreeSet<ColumnId> = columns.iter().copied().collect();
        let found = conditions
            .iter()
            .enumerate()
            .find_map(|(at, condition)| key_of(condition, &columns, &own).map(|key| (at, key)));
        let mut needed = want.needed.clone();
        let key = match found {
            Some((at, mut key)) => {
                conditions.remove(at);
                self.place(&mut key.value, &[])?;
                Some(key)
            }
            None => None,
        };
        conditions.iter().for_each(|one| expr::columns_of(one, &mut needed));
        let slot = self.views.len();
        self.views.push(ViewUse { view, args: Vec::new() });
        let kept = kept_places(&columns, &needed);
        let layout: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
        let rows = if key.is_some() { 1.0 } else { ROWS };
        let op = Op::View { view, columns: kept, slot, key };
        let node = self.node(op, layout.len(), fixed(rows, columns.len() * 16));
        let node = self.filtered(node, conditions, &layout)?;
        Ok(plain(node, layout))
    }
}

/// The column of a relation that a condition compares with a value of something else.
fn key_of(condition: &Expr, columns: &[ColumnId], own: &BTreeSet<ColumnId>) -> Option<ViewKey> {
    let Expr::Call(function, pair) = condition else { return None };
    let ([a, b], "=") = (pair.as_slice(), function.name) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(column, value)| {
        let Expr::Column(id) = column else { return None };
        let column = columns.iter().position(|known| known == id)?;
        let mut named = BTreeSet::new();
        expr::columns_of(value, &mut named);
        let fits = named.is_disjoint(own) && !value.is_volatile() && !value.has_query();
        fits.then(|| ViewKey { column, value: value.clone() })
    })
}
