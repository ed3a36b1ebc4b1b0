//! Queries: clauses in the order in which they mean something.
//!
//! Invariants: every clause that syntax can express and this does not bind is refused. Duplicates,
//! groups, order and limits are of the values that a query gives, not of what they become in the
//! columns that they are stored into.
//! Does not do: set operations, windows, common table expressions.

use rightlink::{Busy, RowLock};
use sqlparser::ast::{
    self, Distinct as AstDistinct, GroupByExpr, LimitClause, LockType, NonBlock, OrderByExpr,
    OrderByKind, Query, SetExpr,
};

use super::collate::Collated;
use super::target::{Target, check_width};
use super::{Binder, Place, Scope, ScopeColumn, Slot, names, padded, trimmed};
use crate::error::{Result, SqlError, code};
use crate::expr::{Expr, Typed};
use crate::parse::cursor::KEY_LOCK;
use crate::plan::path;
use crate::plan::shape;
use crate::plan::{Column, Distinct, Group, Select, SortKey, Source};
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

impl Binder<'_> {
    /// Binds a query whose results go to a client or another query.
    pub(crate) fn query(&mut self, query: &Query) -> Result<Select> {
        self.query_for(query, None)
    }

    /// Binds a query; with `targets`, one whose rows go into these columns.
    pub(crate) fn query_for(&mut self, query: &Query, targets: Option<&[Slot]>) -> Result<Select> {
        refuse_query(query)?;
        self.aggregates = Vec::new();
        let order: &[OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[],
            Some(OrderByKind::Expressions(list)) => list,
            Some(OrderByKind::All(_)) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let cuts = !order.is_empty() || query.limit_clause.is_some() || query.fetch.is_some();
        let into = targets.map(|slots| Stored { slots, late: cuts || gathers(&query.body) });
        let mut select = match query.body.as_ref() {
            SetExpr::Select(select) => self.select(select, order, into)?,
            SetExpr::Values(values) => self.values(values, order, into)?,
            SetExpr::Query(inner) if !cuts => self.query_for(inner, targets)?,
            SetExpr::Table(table) => {
                return Err(SqlError::unsupported(format!("{table}")).hint("Use SELECT * FROM."));
            }
            SetExpr::SetOperation { op, .. } => return Err(SqlError::unsupported(op)),
            _ => return Err(SqlError::unsupported("such a query")),
        };
        self.limits(query, &mut select)?;
        let locks = self.locks(query, &select)?;
        select.locks = match (select.locks, locks) {
            (Some(_), Some(_)) => return Err(SqlError::unsupported("locking a query that locks")),
            (inner, own) => inner.or(own),
        };
        shape::narrow(&mut select);
        if let Source::Table(scan) = &mut select.source {
            scan.statistics = self.catalog.statistics(&scan.table)?;
        }
        path::choose_select(&mut select, &[]);
        match into.filter(|into| into.late) {
            Some(into) => self.stored(select, into),
            None => Ok(select),
        }
    }

    /// A query whose rows are those of `query` as they are stored.
    fn stored(&mut self, mut query: Select, into: Stored<'_>) -> Result<Select> {
        let mut output = Vec::with_capacity(query.columns.len());
        for (at, Column { ty, modifier, .. }) in query.columns.iter().enumerate() {
            let expr = padded(Expr::Column(at), *modifier);
            let value = Typed { modifier: *modifier, ..Typed::new(expr, *ty) };
            output.push(match into.slot(at) {
                Some(slot) => self.assign(value, slot)?,
                None => value.expr,
            });
        }
        let unpadded = unpad(&mut query);
        if !unpadded && output.iter().all(|expr| matches!(expr, Expr::Column(_))) {
            return Ok(query);
        }
        Ok(Select {
            output,
            columns: query.columns.clone(),
            ..Select::over(Source::Query(Box::new(query)))
        })
    }

    fn limits(&mut self, query: &Query, select: &mut Select) -> Result<()> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(_) => return Err(SqlError::unsupported("LIMIT of this form")),
        };
        let limit = match (limit, &query.fetch) {
            (limit, None) => limit,
            (None, Some(fetch)) if !fetch.with_ties && !fetch.percent => fetch.quantity.as_ref(),
            _ => return Err(SqlError::unsupported("FETCH WITH TIES or PERCENT")),
        };
        if query.fetch.as_ref().is_some_and(|fetch| fetch.quantity.is_none()) {
            select.limit = Some(Expr::Const(Datum::Int8(1)));
        }
        for (node, name, slot) in
            [(limit, "LIMIT", &mut select.limit), (offset, "OFFSET", &mut select.offset)]
        {
            if let Some(node) = node {
                *slot = Some(self.count(node, name)?);
            }
        }
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
        let mut columns = false;
        bound.walk(&mut |inner| columns |= matches!(inner, Expr::Column(_)));
        if columns {
            let message = format!("argument of {name} must not contain variables");
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message).at(position));
        }
        Ok(bound)
    }

    /// How the rows of a query are to be locked: as the strongest of its clauses says.
    fn locks(&mut self, query: &Query, select: &Select) -> Result<Option<(RowLock, Busy)>> {
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
            let grouped = select.group.is_some() || select.distinct != Distinct::None;
            if grouped {
                let message =
                    format!("{name} is not allowed with GROUP BY, DISTINCT or aggregate functions");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if let Some(of) = of.and_then(ast::ObjectNamePart::as_ident)
                && names::ident(of) != self.scope.alias
            {
                let of = names::ident(of);
                let message =
                    format!("relation \"{of}\" in {name} clause not found in FROM clause");
                let position = clause.of.as_ref().and_then(|of| self.position(of));
                return Err(SqlError::new(code::UNDEFINED_TABLE, message).at(position));
            }
            if !matches!(select.source, Source::Table(_)) {
                return Err(SqlError::unsupported(format!("{name} of anything but a table")));
            }
        }
        Ok(found)
    }

    fn values(
        &mut self,
        values: &ast::Values,
        order: &[OrderByExpr],
        into: Option<Stored<'_>>,
    ) -> Result<Select> {
        self.scope = Scope::default();
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
                    Some(slot) => Typed::new(slot.default.clone(), slot.ty),
                    None => self.at_place(Place::None("VALUES"), |binder| binder.expr(item))?,
                });
            }
            rows.push(bound);
        }
        if into.is_none() {
            check_width(rows.first().map_or(0, Vec::len))?;
        }
        let (rows, types) = self.rows(&rows, into)?;
        let column = |(at, ty): (usize, &SqlType)| ScopeColumn {
            name: format!("column{}", at + 1),
            ty: *ty,
            modifier: None,
            hidden: false,
            collation: None,
        };
        let columns: Vec<ScopeColumn> = types.iter().enumerate().map(column).collect();
        let alias = "*VALUES*".to_owned();
        self.scope = Scope { alias, columns: columns.clone(), ..Scope::default() };
        let target = |(at, column): (usize, ScopeColumn)| Target {
            value: Typed::new(Expr::Column(at), column.ty),
            name: column.name,
        };
        let list = columns.into_iter().enumerate().map(target).collect();
        self.assemble(Source::Values(rows), list, (order, None), None)
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order: &[OrderByExpr],
        into: Option<Stored<'_>>,
    ) -> Result<Select> {
        refuse_select(select)?;
        let mut source = self.from(&select.from)?;
        let mut filter = None;
        if let Some(node) = &select.selection {
            let value = self.at_place(Place::None("WHERE"), |binder| binder.expr(node))?;
            filter = Some(self.condition(value, "WHERE")?);
        }
        if let Source::Table(scan) = &mut source {
            scan.filter = filter.take();
        }
        let mut list =
            self.at_place(Place::Aggregates, |binder| binder.targets(&select.projection))?;
        for (at, target) in list.iter_mut().enumerate() {
            let value = std::mem::replace(&mut target.value, super::from::null());
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
        let mut bound =
            self.assemble(source, list, (order, select.distinct.as_ref()), Some((keys, having)))?;
        bound.filter = filter;
        Ok(bound)
    }

    fn group_keys(&mut self, group: &GroupByExpr, list: &[Target]) -> Result<Option<Vec<Expr>>> {
        let nodes = match group {
            GroupByExpr::Expressions(nodes, modifiers) if modifiers.is_empty() => nodes,
            _ => return Err(SqlError::unsupported("GROUP BY ALL or with modifiers")),
        };
        let mut keys: Vec<Expr> = Vec::new();
        for node in nodes {
            let key = match self.ordinal(node, list, "GROUP BY")? {
                Some(at) => list[at].value.clone(),
                None => self.group_key(node, list)?,
            };
            let mut aggregates = false;
            key.expr.walk(&mut |inner| aggregates |= matches!(inner, Expr::Aggregate(_)));
            if aggregates {
                let message = "aggregate functions are not allowed in GROUP BY";
                return Err(SqlError::new(code::GROUPING_ERROR, message).at(key.position));
            }
            let key = self.settle(key)?;
            key.collated.refuse_unequal("GROUP BY")?;
            refuse_blanks(&key, "GROUP BY")?;
            keys.push(key.expr);
        }
        Ok((!keys.is_empty()).then_some(keys))
    }

    /// A column of the source, else of the list, else an expression.
    fn group_key(&mut self, node: &ast::Expr, list: &[Target]) -> Result<Typed> {
        if let ast::Expr::Identifier(name) = node {
            let wanted = names::ident(name);
            let of_source = self.scope.columns.iter().any(|column| column.name == wanted);
            if let Some(target) = list.iter().find(|target| target.name == wanted && !of_source) {
                return Ok(target.value.clone());
            }
        }
        self.at_place(Place::None("GROUP BY"), |binder| binder.expr(node))
    }

    /// The place in the list that a number names.
    fn ordinal(&self, node: &ast::Expr, list: &[Target], clause: &str) -> Result<Option<usize>> {
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
        source: Source,
        list: Vec<Target>,
        (order, distinct): (&[OrderByExpr], Option<&AstDistinct>),
        grouping: Option<(Option<Vec<Expr>>, Option<Expr>)>,
    ) -> Result<Select> {
        let column = |target: &Target| Column {
            name: target.name.clone(),
            ty: target.value.ty,
            modifier: target.value.modifier,
            collation: target.value.collated.of_result(),
        };
        let columns: Vec<Column> = list.iter().map(column).collect();
        let mut output: Vec<Expr> = list.iter().map(|target| target.value.expr.clone()).collect();
        let on = self.distinct_on(distinct, &list, &mut output)?;
        let mut sort = self.order(order, &list, &mut output)?;
        let distinct = match (distinct, on) {
            (None | Some(AstDistinct::All), _) => Distinct::None,
            (Some(AstDistinct::Distinct), _) => {
                if output.len() > columns.len() {
                    let message =
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
                }
                let mut collated = list.iter().map(|target| &target.value.collated);
                collated.try_for_each(|collated| collated.refuse_unequal("DISTINCT"))?;
                list.iter().try_for_each(|target| refuse_blanks(&target.value, "DISTINCT"))?;
                Distinct::All
            }
            (Some(AstDistinct::On(_)), on) => {
                let mut places: Vec<usize> = on.iter().map(|(at, _)| *at).collect();
                places.sort_unstable();
                places.dedup();
                check_distinct_on(&places, &sort)?;
                // Rows that agree become neighbours.
                for (at, ty) in on {
                    if sort.iter().all(|key| key.at != at) {
                        sort.push(sort_key(&output, (at, ty), (false, false)));
                    }
                }
                Distinct::On(places)
            }
        };
        let (keys, having) = grouping.unwrap_or((None, None));
        let aggregates = std::mem::take(&mut self.aggregates);
        let group = if keys.is_some() || having.is_some() || !aggregates.is_empty() {
            let mut group = Group { keys: keys.unwrap_or_default(), aggregates, having };
            self.regroup(&mut group, &mut output)?;
            Some(group)
        } else {
            None
        };
        Ok(Select { group, output, columns, distinct, sort, ..Select::over(source) })
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
            let collation = collated.used()?.cloned();
            let descending = match &item.options.sort {
                None => false,
                Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                Some(_) => return Err(SqlError::unsupported("ORDER BY USING")),
            };
            let nulls_first = item.options.nulls_first.unwrap_or(descending);
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
            let wanted = names::ident(name);
            let mut found = list.iter().enumerate().filter(|(_, target)| target.name == wanted);
            if let Some((at, target)) = found.next() {
                if found.any(|(_, other)| !other.value.expr.same(&target.value.expr)) {
                    let message = format!("ORDER BY \"{wanted}\" is ambiguous");
                    return Err(SqlError::new(code::AMBIGUOUS_COLUMN, message));
                }
                return Ok((at, target.value.ty, target.value.collated.clone()));
            }
        }
        let value = self.at_place(Place::Aggregates, |binder| binder.expr(node))?;
        let value = self.settle(value)?;
        if let Some(at) = output.iter().position(|known| known.same(&value.expr)) {
            return Ok((at, value.ty, value.collated));
        }
        output.push(value.expr);
        Ok((output.len() - 1, value.ty, value.collated))
    }

    /// Turns what the clauses say over rows of the source into what they say over groups.
    fn regroup(&self, group: &mut Group, output: &mut [Expr]) -> Result<()> {
        let keys = group.keys.len();
        let mut stray = None;
        let texts: Vec<String> = group.keys.iter().map(|key| format!("{key:?}")).collect();
        for expr in output.iter_mut().chain(group.having.as_mut()) {
            expr.change(&mut |inner| {
                if let Expr::Aggregate(at) = inner {
                    *inner = Expr::Column(keys + *at);
                    return false;
                }
                if matches!(inner, Expr::Const(_)) {
                    return false;
                }
                let text = format!("{inner:?}");
                if let Some(at) = texts.iter().position(|key| *key == text) {
                    *inner = Expr::Column(at);
                    return false;
                }
                if let Expr::Column(at) = inner {
                    stray.get_or_insert(*at);
                }
                true
            });
        }
        let Some(at) = stray else { return Ok(()) };
        let name = &self.scope.columns[at].name;
        let message = format!(
            "column \"{}.{name}\" must appear in the GROUP BY clause or be used in an aggregate \
             function",
            self.scope.alias
        );
        Err(SqlError::new(code::GROUPING_ERROR, message))
    }
}

/// Gives `char(n)` as tables keep it: whoever reads from the query fills it up.
/// Was there any?
pub(super) fn unpad(query: &mut Select) -> bool {
    let mut found = false;
    for (output, column) in query.output.iter_mut().zip(&query.columns) {
        if let Some(Modifier::Char(_)) = column.modifier {
            *output = trimmed(std::mem::replace(output, Expr::null()));
            found = true;
        }
    }
    found
}

/// Fails for `what`, which takes values together by their bytes, if equal values of `char` may end
/// in different numbers of blanks.
fn refuse_blanks(value: &Typed, what: &str) -> Result<()> {
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

/// Only a query whose rows go to the client locks them.
pub(super) fn refuse_locks(query: &Select) -> Result<()> {
    match query.locks {
        None => Ok(()),
        Some(_) => Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in a part of a statement")),
    }
}

/// Does it take rows together?
fn gathers(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let GroupByExpr::Expressions(keys, _) = &select.group_by else { return true };
            select.distinct.is_some() || !keys.is_empty()
        }
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
    let padded = matches!(output[at], Expr::Pad(..)) || ty == SqlType::Bpchar;
    SortKey { at, descending, nulls_first, padded, collation: None }
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
        (query.with.is_some(), "WITH"),
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
    refuse_first(&[
        (select.select_modifiers.is_some(), "a modifier of SELECT"),
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (!select.named_window.is_empty(), "a window"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "AS STRUCT or VALUE"),
    ])
}
