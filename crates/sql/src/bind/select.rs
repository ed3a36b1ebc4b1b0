//! Queries: clauses in the order in which they mean something.
//!
//! Invariants: every clause that syntax can express and this does not bind is refused. Duplicates,
//! groups, order and limits are of the values that a query gives, not of what they become in the
//! columns that they are stored into.
//! Does not do: set operations (`setop`), common table expressions (`with`), windows (`window`),
//! locks (`lock`).

use std::collections::BTreeSet;

use sqlparser::ast::{
    self, Distinct as AstDistinct, GroupByExpr, OrderByExpr, OrderByKind, Query, SetExpr,
};

use super::grouping::Keys;
use super::scope::{Scope, ScopeColumn};
use super::sets::Sets;
use super::target::{Target, check_width};
use super::{Binder, Place, Slot, padded, trimmed};
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr, SortKey, Typed};
use crate::parse::identifiers;
use crate::plan::Column;
use crate::plan::bound::Bound;
use crate::plan::rel::{Grouping, Rel};
use crate::types::collate::Collated;
use crate::types::declared::Modifier;
use crate::types::{Datum, SqlType};

/// Columns that the rows of a query are stored into.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) slots: &'a [Slot],
    /// Are the values made those of the columns only when duplicates, groups, order and limit have
    /// had them? Then what has no type of its own gets that of its column and the rest is left.
    pub(super) late: bool,
}

impl<'a> Stored<'a> {
    /// The column that value `at` is stored into.
    pub(super) fn slot(self, at: usize) -> Option<&'a Slot> {
        self.slots.get(at)
    }
}

/// What becomes of the rows of a query.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// A client gets them.
    Client,
    /// Another query reads them. Values of `char(n)` are as tables keep them: whoever reads fills
    /// them up.
    Inner,
    /// They go into these columns.
    Into(&'a [Slot]),
}

impl Bound {
    /// Its columns, as a query around it names them.
    pub(super) fn scope_columns(&self) -> Vec<ScopeColumn> {
        let column = |(id, column): (&ColumnId, &Column)| ScopeColumn {
            id: *id,
            name: column.name.clone(),
            ty: column.ty,
            modifier: column.modifier,
            hidden: false,
            collation: column.collation.clone(),
            computed: None,
            origin: column.origin,
        };
        self.output.iter().zip(&self.columns).map(column).collect()
    }
}

/// Which way an item of ORDER BY goes.
pub(super) struct OrderWay {
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

impl OrderWay {
    pub(super) fn of(options: &ast::OrderByOptions) -> Result<OrderWay> {
        let descending = match &options.sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(_) => return Err(SqlError::unsupported("ORDER BY USING")),
        };
        Ok(OrderWay { descending, nulls_first: options.nulls_first.unwrap_or(descending) })
    }
}

/// Clauses of one SELECT behind its list.
struct Clauses<'q> {
    order: &'q [OrderByExpr],
    distinct: Option<&'q AstDistinct>,
    keys: Option<Keys>,
    having: Option<Expr>,
}

impl<'q> Clauses<'q> {
    fn of(order: &'q [OrderByExpr]) -> Clauses<'q> {
        Clauses { order, distinct: None, keys: None, having: None }
    }
}

impl Binder<'_> {
    /// Binds a query for a purpose.
    pub(crate) fn query_for(&mut self, query: &Query, purpose: Purpose<'_>) -> Result<Bound> {
        refuse_query(query)?;
        let known = self.commons.len();
        let definitions = self.definitions(query.with.as_ref())?;
        let bound = self.query_of(query, purpose);
        self.commons.truncate(known);
        let mut bound = bound?;
        if !definitions.is_empty() {
            bound.rel = Rel::With { definitions, input: Box::new(bound.rel) };
        }
        Ok(bound)
    }

    fn query_of(&mut self, query: &Query, purpose: Purpose<'_>) -> Result<Bound> {
        self.aggregates = Vec::new();
        self.windows = Default::default();
        let early = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
        self.sets = Sets::default();
        self.groupings = Vec::new();
        self.sets.early = early;
        let order: &[OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[],
            Some(OrderByKind::Expressions(list)) => list,
            Some(OrderByKind::All(_)) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let cuts = !order.is_empty() || query.limit_clause.is_some() || query.fetch.is_some();
        let into = match purpose {
            Purpose::Into(slots) => Some(Stored { slots, late: cuts || gathers(&query.body) }),
            Purpose::Client | Purpose::Inner => None,
        };
        let mut bound = match query.body.as_ref() {
            SetExpr::Select(select) => self.select(select, order, purpose, into)?,
            SetExpr::Values(values) => self.values(values, order, into)?,
            SetExpr::Query(inner) if !cuts => self.query_for(inner, purpose)?,
            SetExpr::Query(inner) => {
                let inner = self.query_for(inner, Purpose::Inner)?;
                self.ordered(inner, order, purpose)?
            }
            SetExpr::SetOperation { .. } => {
                let whole = self.set_operation(&query.body)?;
                self.ordered(whole, order, purpose)?
            }
            SetExpr::Table(table) => {
                return Err(SqlError::unsupported(format!("{table}")).hint("Use SELECT * FROM."));
            }
            _ => return Err(SqlError::unsupported("such a query")),
        };
        let locks = self.locks(query, &bound)?;
        self.limits(query, &mut bound)?;
        bound.locks = match (bound.locks, locks) {
            (Some(_), Some(_)) => return Err(SqlError::unsupported("locking a query that locks")),
            (inner, own) => inner.or(own),
        };
        match into.filter(|into| into.late) {
            Some(into) => self.stored(bound, into),
            None => Ok(bound),
        }
    }

    /// The rows of a query that has an order or a limit of its own in another one's order.
    fn ordered(
        &mut self,
        inner: Bound,
        order: &[OrderByExpr],
        purpose: Purpose<'_>,
    ) -> Result<Bound> {
        let columns = inner.scope_columns();
        let list = columns
            .iter()
            .map(|column| Target { value: column.value(), name: column.name.clone() });
        let list: Vec<Target> = list.collect();
        self.scope = Scope::unnamed(columns);
        let locks = inner.locks.clone();
        let bound = self.assemble(inner.rel, list, Clauses::of(order), purpose)?;
        Ok(Bound { locks, ..bound })
    }

    /// A query without clauses behind its body, as a part of another one.
    pub(super) fn plain_body(&mut self, body: &SetExpr) -> Result<Bound> {
        self.aggregates = Vec::new();
        self.windows = Default::default();
        self.sets = Sets::default();
        self.groupings = Vec::new();
        match body {
            SetExpr::Select(select) => self.select(select, &[], Purpose::Inner, None),
            SetExpr::Values(values) => self.values(values, &[], None),
            SetExpr::Query(query) => self.query_for(query, Purpose::Inner),
            SetExpr::SetOperation { .. } => self.set_operation(body),
            _ => Err(SqlError::unsupported("such a query")),
        }
    }

    /// A query whose rows are those of `query` as they are stored.
    fn stored(&mut self, query: Bound, into: Stored<'_>) -> Result<Bound> {
        let mut output = Vec::with_capacity(query.columns.len());
        for (at, (id, column)) in query.output.iter().zip(&query.columns).enumerate() {
            let kept = Expr::Column(*id);
            // What is filled up is stored without the blanks.
            let expr = match column.modifier {
                Some(Modifier::Char(_)) => padded(trimmed(kept), column.modifier),
                _ => kept,
            };
            let modifier = column.modifier;
            let value = Typed { modifier, ..Typed::new(expr, column.ty) };
            output.push(match into.slot(at) {
                Some(slot) => self.assign(value, slot)?,
                None => value.expr,
            });
        }
        let mut bound = query;
        bound.output = self.project(&mut bound.rel, output);
        Ok(bound)
    }

    /// Numbers of these values as columns of `rel`, to which those that it has not are added.
    pub(super) fn project(&mut self, rel: &mut Rel, output: Vec<Expr>) -> Vec<ColumnId> {
        let own: BTreeSet<ColumnId> = rel.columns().into_iter().collect();
        let mut all: Vec<(ColumnId, Expr)> = Vec::new();
        let mut ids = Vec::with_capacity(output.len());
        let mut made = false;
        for expr in output {
            let id = match expr {
                Expr::Column(id) if own.contains(&id) => id,
                _ => self.new_columns(1),
            };
            made |= !own.contains(&id);
            ids.push(id);
            if all.iter().all(|(known, _)| *known != id) {
                all.push((id, expr));
            }
        }
        if made {
            let input = Box::new(std::mem::replace(rel, Rel::Single));
            *rel = Rel::Project { input, output: all };
        }
        ids
    }

    fn values(
        &mut self,
        values: &ast::Values,
        order: &[OrderByExpr],
        into: Option<Stored<'_>>,
    ) -> Result<Bound> {
        self.scope = Scope::default();
        self.sets.in_row = into.is_some() && values.rows.len() == 1;
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            let mut bound = Vec::new();
            for (at, item) in row.iter().enumerate() {
                let slot = into.and_then(|into| into.slot(at));
                bound.push(match slot.filter(|_| is_default(item)) {
                    Some(_) if into.is_some_and(|into| into.late) => {
                        let message = "DEFAULT is not allowed in this context";
                        return Err(SqlError::syntax(message).at(self.position(item)));
                    }
                    Some(slot) => match &slot.default {
                        Some(default) => {
                            slot.needs.all().iter().for_each(|need| self.needs.add(need.clone()));
                            Typed::new(default.clone(), slot.ty)
                        }
                        None => {
                            return Err(
                                super::no_default(slot.field.is_some()).at(self.position(item))
                            );
                        }
                    },
                    None => self.at_place(Place::None("VALUES"), |binder| binder.expr(item))?,
                });
            }
            rows.push(bound);
        }
        if into.is_none() {
            check_width(rows.first().map_or(0, Vec::len))?;
        }
        let (mut rows, types) = self.rows(&rows, into)?;
        let first = self.new_columns(types.len());
        let column = |(at, ty): (usize, &SqlType)| {
            ScopeColumn::new(first + at, format!("column{}", at + 1), *ty)
        };
        let columns: Vec<ScopeColumn> = types.iter().enumerate().map(column).collect();
        let target = |column: &ScopeColumn| Target {
            value: Typed::new(Expr::Column(column.id), column.ty),
            name: column.name.clone(),
        };
        let list = columns.iter().map(target).collect();
        let ids: Vec<ColumnId> = columns.iter().map(|column| column.id).collect();
        self.scope = Scope::unnamed(columns);
        let sets = std::mem::take(&mut self.sets);
        let rel = match sets.is_empty() {
            true => Rel::Values { columns: ids, rows },
            false => {
                let output = ids.into_iter().zip(rows.remove(0)).collect();
                Rel::Project { input: Box::new(sets.over(Rel::Single)), output }
            }
        };
        self.assemble(rel, list, Clauses::of(order), Purpose::Client)
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order: &[OrderByExpr],
        purpose: Purpose<'_>,
        into: Option<Stored<'_>>,
    ) -> Result<Bound> {
        refuse_select(select)?;
        let mut rel = self.from(&select.from)?;
        if let Some(node) = &select.selection {
            let value = self.at_place(Place::None("WHERE"), |binder| binder.expr(node))?;
            let condition = self.condition(value, "WHERE")?;
            rel = rel.filtered(vec![condition]);
        }
        self.named_windows(&select.named_window)?;
        let mut list =
            self.at_place(Place::Windows, |binder| binder.targets(&select.projection))?;
        let untyped = list.iter().map(|target| target.value.ty == SqlType::Unknown).collect();
        for (at, target) in list.iter_mut().enumerate() {
            let value = std::mem::replace(&mut target.value, Typed::null());
            target.value = match into.and_then(|into| Some((into.slot(at)?, into.late))) {
                Some((slot, true)) if value.ty != SqlType::Unknown => {
                    super::assignable(&value, slot)?;
                    value
                }
                Some((slot, late)) => {
                    let modifier = slot.modifier.filter(|_| late);
                    Typed { modifier, ..Typed::new(self.assign(value, slot)?, slot.ty) }
                }
                None => self.settle(value)?,
            };
        }
        let keys = self.group_keys(&select.group_by, &list)?;
        let having = match &select.having {
            Some(node) => {
                let value = self.at_place(Place::Aggregates, |binder| binder.expr(node))?;
                Some(self.condition(value, "HAVING")?)
            }
            None => None,
        };
        let distinct = select.distinct.as_ref();
        let clauses = Clauses { order, distinct, keys, having };
        Ok(Bound { untyped, ..self.assemble(rel, list, clauses, purpose)? })
    }

    /// The place in the list that a number names.
    pub(super) fn ordinal(
        &self,
        node: &ast::Expr,
        list: &[Target],
        clause: &str,
    ) -> Result<Option<usize>> {
        // Parentheses and signs change nothing: -2 is a number, too.
        let (mut inner, mut sign) = (node, 1);
        let value = loop {
            match inner {
                ast::Expr::Nested(nested) => inner = nested,
                ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
                    (inner, sign) = (expr, -sign);
                }
                ast::Expr::Value(value) => break value,
                _ => return Ok(None),
            }
        };
        let position = self.lines.position(value.span);
        let number = match &value.value {
            ast::Value::Number(digits, _) => digits.parse::<i32>().ok(),
            ast::Value::Placeholder(_) => return Ok(None),
            _ if sign < 0 => return Ok(None),
            _ => None,
        };
        let Some(number) = number.map(|number| number * sign) else {
            let message = format!("non-integer constant in {clause}");
            return Err(SqlError::syntax(message).at(position));
        };
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        match at.filter(|at| *at < list.len()) {
            Some(at) => Ok(Some(at)),
            None => {
                let message = format!("{clause} position {number} is not in select list");
                Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message).at(position))
            }
        }
    }

    /// Puts the bound clauses together.
    fn assemble(
        &mut self,
        mut rel: Rel,
        list: Vec<Target>,
        clauses: Clauses<'_>,
        purpose: Purpose<'_>,
    ) -> Result<Bound> {
        let columns: Vec<Column> = list.iter().map(Target::column).collect();
        let mut output: Vec<Expr> = list.iter().map(|target| target.value.expr.clone()).collect();
        let on = self.distinct_on(clauses.distinct, &list, &mut output)?;
        let mut sort = self.order(clauses.order, &list, &mut output)?;
        let mut on_places: Vec<usize> = on.iter().map(|(at, _)| *at).collect();
        match clauses.distinct {
            None | Some(AstDistinct::All) => {}
            Some(AstDistinct::Distinct) => {
                if output.len() > columns.len() {
                    let message =
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
                }
                let mut collated = list.iter().map(|target| &target.value.collated);
                collated.try_for_each(|collated| collated.refuse_unequal("DISTINCT"))?;
                list.iter().try_for_each(|target| check_grouped(&target.value, "DISTINCT"))?;
            }
            Some(AstDistinct::On(_)) => {
                on_places.sort_unstable();
                on_places.dedup();
                check_distinct_on(&on_places, &sort)?;
                // Rows that agree become neighbours.
                for (at, ty) in on {
                    if sort.iter().all(|key| key.at != at) {
                        sort.push(sort_key(&output, (at, ty), (false, false)));
                    }
                }
            }
        }
        let aggregates = std::mem::take(&mut self.aggregates);
        let mut windows = std::mem::take(&mut self.windows);
        let mut sets = std::mem::take(&mut self.sets);
        let is_grouped = clauses.keys.is_some() || clauses.having.is_some();
        if !aggregates.is_empty() {
            self.check_aggregated(&rel)?;
        }
        if is_grouped || !aggregates.is_empty() || !self.groupings.is_empty() {
            let mut having = clauses.having;
            let Keys { all, sets: key_sets } = clauses.keys.unwrap_or_default();
            let keys: Vec<Expr> = all.into_iter().map(|key| key.expr).collect();
            let key_sets = key_sets.unwrap_or_default();
            let marks = self.marks(&keys, &key_sets)?;
            rel = sets.needed_by(keys.iter()).over(rel);
            let first = self.new_columns(aggregates.len());
            let aggregates = (first..).zip(aggregates).collect();
            let mut group =
                Grouping { input: rel, keys: Vec::new(), sets: key_sets, aggregates, marks };
            let clauses = output.iter_mut().chain(having.as_mut()).chain(windows.exprs_mut());
            let clauses = clauses.chain(sets.exprs_mut());
            self.regroup(&mut group, keys, clauses.collect())?;
            rel = Rel::Aggregate(Box::new(group)).filtered(having.into_iter().collect());
        }
        rel = sets.needed_by(windows.exprs_mut().into_iter().map(|expr| &*expr)).over(rel);
        rel = self.windowed(rel, windows);
        if let Purpose::Inner = purpose {
            for (output, column) in output.iter_mut().zip(&columns) {
                if let Some(Modifier::Char(_)) = column.modifier {
                    *output = trimmed(std::mem::replace(output, Expr::null()));
                }
            }
        }
        let late = clauses.distinct.is_none()
            && !sets.is_empty()
            && !sets.early
            && !sort.iter().any(|key| sets.is_in(&output[key.at]));
        if late && !sort.is_empty() {
            // What order does not ask for is made behind it, and only as far as it is wanted.
            rel = self.sorted(rel, &mut output, std::mem::take(&mut sort));
        }
        rel = sets.over(rel);
        let mut ids = self.project(&mut rel, output);
        sort.iter_mut().for_each(|key| key.at = ids[key.at]);
        if let Some(AstDistinct::Distinct) = clauses.distinct {
            let mut all = ids.clone();
            all.sort_unstable();
            all.dedup();
            rel = Rel::Distinct { input: Box::new(rel), columns: all };
        }
        if !sort.is_empty() {
            rel = Rel::Sort { input: Box::new(rel), keys: sort.clone() };
        }
        if !on_places.is_empty() {
            let on = on_places.iter().map(|at| ids[*at]).collect();
            rel = Rel::DistinctOn { input: Box::new(rel), columns: on, sort };
        }
        ids.truncate(columns.len());
        Ok(Bound::new(rel, ids, columns))
    }

    /// The rows in an order, with values of the output that it asks for as columns.
    fn sorted(&mut self, rel: Rel, output: &mut [Expr], mut sort: Vec<SortKey>) -> Rel {
        let known = rel.columns();
        let mut all: Vec<(ColumnId, Expr)> =
            known.iter().map(|id| (*id, Expr::Column(*id))).collect();
        for key in &mut sort {
            let value = &mut output[key.at];
            key.at = match value {
                Expr::Column(id) if all.iter().any(|(known, _)| known == id) => *id,
                _ => {
                    let id = self.new_columns(1);
                    all.push((id, std::mem::replace(value, Expr::Column(id))));
                    id
                }
            };
        }
        let input = match all.len() == known.len() {
            true => rel,
            false => Rel::Project { input: Box::new(rel), output: all },
        };
        Rel::Sort { input: Box::new(input), keys: sort }
    }

    fn distinct_on(
        &mut self,
        distinct: Option<&AstDistinct>,
        list: &[Target],
        output: &mut Vec<Expr>,
    ) -> Result<Vec<(usize, SqlType)>> {
        let Some(AstDistinct::On(nodes)) = distinct else { return Ok(Vec::new()) };
        let place = |node| {
            let (at, ty, collated) = self.order_place(node, list, output)?;
            collated.refuse_unequal("DISTINCT ON")?;
            check_equal(ty)?;
            Ok((at, ty))
        };
        nodes.iter().map(place).collect()
    }

    fn order(
        &mut self,
        order: &[OrderByExpr],
        list: &[Target],
        output: &mut Vec<Expr>,
    ) -> Result<Vec<SortKey>> {
        let mut sort: Vec<SortKey> = Vec::with_capacity(order.len());
        for item in order {
            if item.with_fill.is_some() {
                return Err(SqlError::unsupported("ORDER BY WITH FILL"));
            }
            let (at, ty, collated) = self.order_place(&item.expr, list, output)?;
            check_ordered(ty)?;
            let collation = collated.used()?.cloned();
            let OrderWay { descending, nulls_first } = OrderWay::of(&item.options)?;
            if sort.iter().all(|key| key.at != at || key.collation != collation) {
                let key = sort_key(output, (at, ty), (descending, nulls_first));
                sort.push(SortKey { collation, ..key });
            }
        }
        Ok(sort)
    }

    /// Where in the output the value of an ORDER BY item stands, its type, and how it compares; it
    /// is added if it is not there.
    fn order_place(
        &mut self,
        node: &ast::Expr,
        list: &[Target],
        output: &mut Vec<Expr>,
    ) -> Result<(usize, SqlType, Collated)> {
        if let Some(at) = self.ordinal(node, list, "ORDER BY")? {
            return Ok((at, list[at].value.ty, list[at].value.collated.clone()));
        }
        if let ast::Expr::Identifier(name) = node {
            let wanted = identifiers::ident(name);
            let mut found = list.iter().enumerate().filter(|(_, target)| target.name == wanted);
            if let Some((at, target)) = found.next() {
                if found.any(|(_, other)| !other.value.expr.same(&target.value.expr)) {
                    let message = format!("ORDER BY \"{wanted}\" is ambiguous");
                    return Err(SqlError::new(code::AMBIGUOUS_COLUMN, message));
                }
                return Ok((at, target.value.ty, target.value.collated.clone()));
            }
        }
        let value = self.at_place(Place::Windows, |binder| binder.expr(node))?;
        let value = self.settle(value)?;
        if let Some(at) = output.iter().position(|known| known.same(&value.expr)) {
            return Ok((at, value.ty, value.collated));
        }
        output.push(value.expr);
        Ok((output.len() - 1, value.ty, value.collated))
    }
}

/// Fails for a type whose values are never equal.
pub(super) fn check_equal(ty: SqlType) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    let message = format!("could not identify an equality operator for type {}", ty.name());
    Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
}

/// Fails for a type whose values have no order.
pub(super) fn check_ordered(ty: SqlType) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    let message = format!("could not identify an ordering operator for type {}", ty.name());
    let hint = "Use an explicit ordering operator or modify the query.";
    Err(SqlError::new(code::UNDEFINED_FUNCTION, message).hint(hint))
}

/// Fails for `what`, which takes equal values together by their bytes, if there are none, or if
/// those of `char` may end in different numbers of blanks.
pub(super) fn check_grouped(value: &Typed, what: &str) -> Result<()> {
    check_equal(value.ty).map_err(|error| error.at(value.position))?;
    let mut lengths = Vec::new();
    if value.ty == SqlType::Bpchar {
        filled_to(&value.expr, &mut lengths);
    }
    match lengths.windows(2).all(|pair| pair[0] == pair[1]) && !lengths.contains(&None) {
        true => Ok(()),
        false => {
            let message = format!("{what} of character values of different lengths");
            let hint = "Cast the value to text or char(n).";
            Err(SqlError::unsupported(message).hint(hint).at(value.position))
        }
    }
}

/// The lengths that the values of an expression are filled up to; `None`: to no certain one.
fn filled_to(expr: &Expr, lengths: &mut Vec<Option<u32>>) {
    match expr {
        Expr::Const(Datum::Null) => {}
        Expr::Pad(_, length) => lengths.push(Some(*length)),
        // These have no blanks at the end.
        Expr::Fit(_, Modifier::Char(_), _) => lengths.push(Some(0)),
        Expr::Const(Datum::Text(text)) if !text.ends_with(' ') => lengths.push(Some(0)),
        Expr::Coalesce(list) => list.iter().for_each(|one| filled_to(one, lengths)),
        Expr::Case(arms, rest) | Expr::Switch(_, arms, rest) => {
            arms.iter().for_each(|(_, result)| filled_to(result, lengths));
            filled_to(rest, lengths);
        }
        _ => lengths.push(None),
    }
}

/// Does it take rows together?
fn gathers(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let GroupByExpr::Expressions(keys, _) = &select.group_by else { return true };
            select.distinct.is_some() || !keys.is_empty()
        }
        SetExpr::SetOperation { .. } => true,
        _ => false,
    }
}

pub(super) fn is_default(node: &ast::Expr) -> bool {
    matches!(node, ast::Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

fn sort_key(
    output: &[Expr],
    (at, ty): (usize, SqlType),
    (descending, nulls_first): (bool, bool),
) -> SortKey {
    SortKey { at, descending, nulls_first, ..sort_key_of(&output[at], ty) }
}

/// A key, ascending, of a value whose place is still to be said.
pub(super) fn sort_key_of(value: &Expr, ty: SqlType) -> SortKey {
    let padded = matches!(value, Expr::Pad(..)) || ty == SqlType::Bpchar;
    SortKey { at: 0, descending: false, nulls_first: false, padded, collation: None }
}

/// The rows that agree in the places `on` must be neighbours: no other key may stand before all of
/// those, and none may take texts for equal that are not.
fn check_distinct_on(on: &[usize], sort: &[SortKey]) -> Result<()> {
    let mut missing: Vec<usize> = on.to_vec();
    for key in sort {
        if missing.is_empty() {
            break;
        }
        if !on.contains(&key.at) {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        missing.retain(|at| *at != key.at);
    }
    let equal = |key: &&SortKey| key.collation.as_ref().is_some_and(|one| !one.is_deterministic());
    match sort.iter().filter(|key| on.contains(&key.at)).find(equal) {
        Some(_) => Err(SqlError::unsupported("DISTINCT ON under a nondeterministic collation")),
        None => Ok(()),
    }
}

fn refuse_query(query: &Query) -> Result<()> {
    let refused = [
        (query.for_clause.is_some(), "FOR XML or JSON"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
        (!query.pipe_operators.is_empty(), "a pipe operator"),
    ];
    refuse_first(&refused)
}

fn refuse_first(refused: &[(bool, &str)]) -> Result<()> {
    match refused.iter().find(|(found, _)| *found) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}

fn refuse_select(select: &ast::Select) -> Result<()> {
    if select.into.is_some() {
        return Err(SqlError::syntax("SELECT ... INTO is not allowed here"));
    }
    refuse_first(&[
        (select.select_modifiers.is_some(), "a modifier of SELECT"),
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "AS STRUCT or VALUE"),
    ])
}
