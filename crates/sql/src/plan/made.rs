//! Lowering of relations that are made up from what the store knows.
//!
//! A condition that says the values of a column becomes the key by which rows are found, of several
//! the one that leaves fewest; so does an OR of which every arm says values of one column, and a
//! pattern that only one text matches. How many rows there are is not asked: they are taken for
//! those of a database of some hundred tables, of which plans are good for smaller ones too.
//!
//! Invariants: the rows of a relation have one slot of the context, however they are read.
//! Does not do: the rows (`catalog::views`).

use std::collections::BTreeSet;

use crate::catalog::system_views::{self, Information, Kind, View};
use crate::catalog::views::is_of_objects;
use crate::error::{Result, SqlError};
use crate::expr;
use crate::expr::{ColumnId, Expr, like, regex};
use crate::plan::ViewUse;
use crate::plan::lower::{Lowered, Lowerer, Want, kept_places, plain};
use crate::plan::node::{Estimate, MadeRelation, Op, ViewKey};
use crate::plan::rel::Rel;
use crate::plan::rewrite::may_move;
use crate::plan::term::{Keys, parts_of};
use crate::types::{Datum, SqlType};

/// The largest part of the rows of a relation that several values are thought to find where they
/// are a key.
const MOST_OF_LIST: f64 = 0.25;

/// A relation that is made up, in whose rows keys can be looked up.
#[derive(Clone)]
pub(super) struct MadeSide {
    view: &'static View,
    columns: Vec<ColumnId>,
}

impl MadeSide {
    /// Of a relation whose rows are made when they are read.
    pub(super) fn of(rel: &Rel) -> Option<MadeSide> {
        let Rel::View { view, args, columns } = rel else { return None };
        let fits = args.is_empty() && is_of_objects(view.kind);
        fits.then(|| MadeSide { view, columns: columns.clone() })
    }

    /// The place of a column that is an expression by itself.
    pub(super) fn place(&self, expr: &Expr) -> Option<usize> {
        let Expr::Column(id) = expr else { return None };
        self.columns.iter().position(|known| known == id)
    }

    /// Different values that an expression is thought to have, if it is a column by itself.
    pub(super) fn values_of(&self, expr: &Expr) -> Option<f64> {
        self.place(expr).map(|at| values(self.view, at))
    }

    /// Rows that it is thought to have.
    pub(super) fn rows(&self) -> f64 {
        rows(self.view)
    }

    /// Values of a row.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }
}

/// Rows that a relation is thought to have.
fn rows(view: &View) -> f64 {
    match view.kind {
        Kind::Attribute => 15_000.0,
        Kind::Class | Kind::Index | Kind::Indexes => 5_000.0,
        Kind::IndexUse | Kind::IndexBlocks => 5_000.0,
        Kind::Function => 3_000.0,
        Kind::Depend | Kind::Information(Information::Columns) => 3_000.0,
        Kind::Type | Kind::Constraint | Kind::AttributeDefault | Kind::ColumnStatistics => 1_500.0,
        Kind::Information(
            Information::TableConstraints
            | Information::KeyColumns
            | Information::ReferentialConstraints
            | Information::CheckConstraints
            | Information::ColumnColumns
            | Information::ConstraintColumns
            | Information::ConstraintTables
            | Information::TablePrivileges { .. },
        ) => 1_500.0,
        Kind::Information(Information::ColumnPrivileges { .. }) => 10_000.0,
        Kind::Information(Information::Tables) | Kind::Tables => 500.0,
        Kind::TableUse | Kind::TableBlocks => 500.0,
        Kind::Description | Kind::Sequence | Kind::Sequences => 300.0,
        Kind::Namespace | Kind::Collation | Kind::Database => 5.0,
        Kind::Nothing => 1.0,
        _ => 100.0,
    }
}

/// Different values that a column of it is thought to have.
fn values(view: &View, at: usize) -> f64 {
    let (name, ty) = view.columns[at];
    let most = match ty {
        SqlType::Bool => 2.0,
        SqlType::Char => 4.0,
        SqlType::Int2 | SqlType::Int4 => 15.0,
        _ if name.ends_with("namespace") || name.ends_with("_schema") => 3.0,
        _ if name.ends_with("_catalog") || name == "schemaname" => 1.0,
        _ if name.ends_with("classid") || name == "classoid" || name.ends_with("owner") => 2.0,
        SqlType::Oid if at > 0 && name.ends_with("relid") => rows(view) / 5.0,
        // Of what there are few.
        _ if ["relam", "atttypid", "attcollation", "is_nullable", "data_type", "udt_name"]
            .contains(&name) =>
        {
            15.0
        }
        _ if name.ends_with("_type") => 4.0,
        _ if view.kind == Kind::Attribute => match name {
            "attrelid" => 5_000.0,
            _ => 2_000.0,
        },
        _ if name == "table_name" || name == "tablename" => 500.0,
        _ => f64::INFINITY,
    };
    most.min(rows(view)).max(1.0)
}

impl Lowerer<'_> {
    /// What the statement reads of what the store knows about itself.
    pub(super) fn uses(self) -> Vec<ViewUse> {
        let lookups = ViewUse { view: &system_views::LOOKUPS, args: Vec::new() };
        self.views.into_iter().chain(self.reads_catalog.then_some(lookups)).collect()
    }

    /// All rows of a relation, or those that a function gives.
    pub(super) fn view(
        &mut self,
        view: &'static View,
        mut args: Vec<Expr>,
        columns: &[ColumnId],
        want: &Want<'_>,
    ) -> Result<Lowered> {
        if args.iter().any(expr::names_columns) {
            let message = format!("{} of columns of another source", view.name);
            return Err(SqlError::unsupported(message));
        }
        args.iter_mut().try_for_each(|arg| self.place(arg, &[]))?;
        self.know_values(view, columns);
        let slot = self.views.len();
        self.views.push(ViewUse { view, args });
        let kept = kept_places(columns, want.needed);
        let layout: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
        let op = Op::View { view, columns: kept, slot, key: None, filter: None };
        let estimate = Estimate::fixed(rows(view), columns.len() * 16);
        Ok(plain(self.node(op, layout.len(), estimate), layout))
    }

    fn know_values(&mut self, view: &View, columns: &[ColumnId]) {
        self.made_values.extend(columns.iter().enumerate().map(|(at, id)| (*id, values(view, at))));
    }

    /// What is read of a relation of which these columns are wanted, and the columns of its rows.
    pub(super) fn made_relation(
        &mut self,
        side: &MadeSide,
        wanted: &BTreeSet<ColumnId>,
    ) -> (MadeRelation, Vec<ColumnId>) {
        let MadeSide { view, columns } = side;
        let slot = self.views.len();
        self.views.push(ViewUse { view, args: Vec::new() });
        let kept = kept_places(columns, wanted);
        let layout = kept.iter().map(|at| columns[*at]).collect();
        (MadeRelation { view, columns: kept, slot }, layout)
    }

    /// A relation that is made up, of which a condition may say a value of a column.
    pub(super) fn view_of_key(
        &mut self,
        view: &'static View,
        columns: Vec<ColumnId>,
        mut conditions: Vec<Expr>,
        want: &Want<'_>,
    ) -> Result<Lowered> {
        let of = Keyed { view, columns: &columns, own: columns.iter().copied().collect() };
        let mut needed = want.needed.clone();
        let key = match of.best_key(&conditions) {
            Some((at, found)) => {
                if found.is_whole {
                    conditions.remove(at);
                }
                let mut key = found.key;
                key.values.exprs_mut().iter_mut().try_for_each(|value| self.place(value, &[]))?;
                Some(key)
            }
            None => None,
        };
        conditions.iter().for_each(|one| expr::columns_of(one, &mut needed));
        self.know_values(view, &columns);
        let slot = self.views.len();
        self.views.push(ViewUse { view, args: Vec::new() });
        let kept = kept_places(&columns, &needed);
        let layout: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
        let share = key.as_ref().map_or(1.0, |key| share(view, key));
        let is_live = |id: &ColumnId| {
            let at = columns.iter().position(|known| known == id);
            at.is_some_and(|at| view.live_at(at).is_some())
        };
        let goes_first = |one: &Expr| {
            let mut named = BTreeSet::new();
            expr::columns_of(one, &mut named);
            !one.has_query() && !named.iter().any(is_live)
        };
        let (first, conditions) = match layout.iter().any(is_live) {
            true => conditions.into_iter().partition(goes_first),
            false => (Vec::new(), conditions),
        };
        let estimate = Estimate::fixed((rows(view) * share).max(1.0), columns.len() * 16);
        let estimate = estimate.meeting(first.len());
        let filter = self.all_of(first, &layout)?;
        let op = Op::View { view, columns: kept, slot, key, filter };
        let node = self.node(op, layout.len(), estimate);
        let node = self.filtered(node, conditions, &layout)?;
        Ok(plain(node, layout))
    }
}

/// The part of the rows of a relation that a key is thought to find.
fn share(view: &View, key: &ViewKey) -> f64 {
    (key.values.expected() as f64 / values(view, key.column)).min(1.0)
}

/// A relation whose rows values of a column may find.
struct Keyed<'a> {
    view: &'static View,
    columns: &'a [ColumnId],
    /// The same as a set.
    own: BTreeSet<ColumnId>,
}

/// A key that a condition names.
struct FoundKey {
    key: ViewKey,
    /// Does the condition say no more than the key?
    is_whole: bool,
}

impl Keyed<'_> {
    /// The key that leaves fewest rows, and the place of the condition that names it. Several
    /// values that leave most of the rows are no key: asking the condition of each row is cheaper.
    fn best_key(&self, conditions: &[Expr]) -> Option<(usize, FoundKey)> {
        let all = conditions.iter().enumerate();
        let all = all.flat_map(|(at, one)| self.keys_of(one).into_iter().map(move |key| (at, key)));
        let of = |found: &FoundKey| share(self.view, &found.key);
        let all = all.filter(|(_, one)| one.key.values.expected() == 1 || of(one) <= MOST_OF_LIST);
        // The first of those that leave as many rows.
        all.reduce(|best, one| if of(&one.1) < of(&best.1) { one } else { best })
    }

    /// The keys that a condition names.
    fn keys_of(&self, condition: &Expr) -> Vec<FoundKey> {
        if let Expr::Or(arms) = condition {
            return self.keys_of_arms(arms);
        }
        let whole = self.key_of(condition).map(|key| FoundKey { key, is_whole: true });
        let part = || self.key_of_pattern(condition).map(|key| FoundKey { key, is_whole: false });
        whole.or_else(part).into_iter().collect()
    }

    /// Of each column that every arm gives values to, the values of all arms.
    fn keys_of_arms(&self, arms: &[Expr]) -> Vec<FoundKey> {
        let keys = |arm: &Expr| -> Vec<ViewKey> {
            parts_of(arm).into_iter().filter_map(|part| self.key_of(part)).collect()
        };
        let Some((first, others)) = arms.split_first() else { return Vec::new() };
        let others: Vec<Vec<ViewKey>> = others.iter().map(keys).collect();
        let of_all = |key: ViewKey| {
            let ViewKey { column, values: Keys::List(mut list) } = key else { return None };
            for other in &others {
                let same = other.iter().find(|one| one.column == column)?;
                let Keys::List(values) = &same.values else { return None };
                list.extend(values.iter().cloned());
            }
            Some(FoundKey { key: ViewKey { column, values: Keys::List(list) }, is_whole: false })
        };
        keys(first).into_iter().filter_map(of_all).collect()
    }

    /// The column that a condition compares with values of something else.
    fn key_of(&self, condition: &Expr) -> Option<ViewKey> {
        let (column, values) = match condition {
            Expr::Call(function, pair) if function.name == "=" => {
                let [a, b] = pair.as_slice() else { return None };
                let either = [(a, b), (b, a)];
                either.into_iter().find_map(|(column, value)| {
                    let found = self.place(column).filter(|_| self.is_of_others(value))?;
                    Some((found, Keys::List(vec![value.clone()])))
                })?
            }
            Expr::In(needle, list, false) if list.iter().all(|one| self.is_of_others(one)) => {
                (self.place(needle)?, Keys::List(list.clone()))
            }
            Expr::AnyOf(any) if any.is_plain_equality() && self.is_of_others(&any.array) => {
                (self.place(&any.needle)?, Keys::Elements(any.array.clone()))
            }
            _ => return None,
        };
        Some(ViewKey { column, values })
    }

    /// The column that a condition matches with a pattern, if only one text does match it: tools
    /// ask so for what a person names.
    fn key_of_pattern(&self, condition: &Expr) -> Option<ViewKey> {
        let Expr::Call(function, args) = condition else { return None };
        let [value, Expr::Const(Datum::Text(pattern))] = args.as_slice() else { return None };
        let only = match function.name {
            "~" => regex::only_match(pattern)?,
            "~~" => like::only_match(pattern)?,
            _ => return None,
        };
        let text = Expr::Const(Datum::Text(only.to_owned()));
        Some(ViewKey { column: self.place(value)?, values: Keys::List(vec![text]) })
    }

    /// The place of the column that an expression is. A name is equal to a text that has the same
    /// bytes.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let place = |id: &ColumnId| self.columns.iter().position(|known| known == id);
        match expr {
            Expr::Column(id) => place(id),
            Expr::Cast(inner, SqlType::Text) => match &**inner {
                Expr::Column(id) => {
                    place(id).filter(|at| self.view.columns[*at].1 == SqlType::Name)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Is the value of an expression the same for all rows of the relation?
    fn is_of_others(&self, value: &Expr) -> bool {
        let mut named = BTreeSet::new();
        expr::columns_of(value, &mut named);
        named.is_disjoint(&self.own) && may_move(value)
    }
}
