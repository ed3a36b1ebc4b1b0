//! The meaning of a view's query: its sources under the names that they are printed by, and the
//! expressions of its clauses.
//!
//! Invariants: a source has a name that none around it has, as PostgreSQL numbers them.
//! Does not do: functions in FROM, NATURAL and FULL JOIN USING, column lists behind aliases,
//! LATERAL, GROUPING SETS, windows, queries that write: such a view keeps its text.

use std::cell::{Cell, RefCell};

use sqlparser::ast;

use super::analyse::{Analyzer, Columns};
use super::calls::order_of;
use super::choose::Types;
use super::tree::{
    Body, Column, ColumnName, Cte, From, Join, Kind, Node, Operation, Query, Select, SortBy,
    SortKey, Target, TypeRef,
};
use super::{Names, Scope};
use crate::catalog::objects::Objects;
use crate::catalog::rules;
use crate::names::{SearchPath, bare, full_reference, identifier};
use crate::notes::view::ViewSource;
use crate::parse::column_names::name_of;
use crate::parse::identifiers::{ident, parts};
use crate::parse::plain_table::PlainTable;
use crate::types::SqlType;

/// The greatest depth of queries in queries.
const MAX_QUERIES: usize = 12;
/// The most joins and UNIONs of a query.
const MAX_PARTS: usize = 64;

/// A source of rows in FROM.
struct Source {
    /// As the text names it.
    written: String,
    /// As it is printed.
    shown: String,
    columns: Vec<SourceColumn>,
}

/// A column of a source.
#[derive(Clone)]
struct SourceColumn {
    /// As the text names it.
    written: String,
    /// As it is called now.
    name: String,
    ty: TypeRef,
}

impl SourceColumn {
    fn of(column: &Column) -> SourceColumn {
        let name = column.name.clone();
        SourceColumn { written: name.clone(), name, ty: column.ty }
    }
}

/// A query around others, with what it sees.
pub(super) struct Level<'l> {
    objects: &'l Objects,
    path: &'l SearchPath,
    /// The names that the view has for relations and their columns.
    known: &'l [ViewSource],
    outer: Option<&'l Level<'l>>,
    /// The query around it whose columns it can name.
    sees: Option<&'l Level<'l>>,
    /// The names of the queries of WITH.
    names_of_with: Vec<String>,
    depth: usize,
    /// Names that sources are printed by, for queries inside.
    taken: Vec<String>,
    /// The number of UNIONs so far.
    operations: Cell<usize>,
    sources: RefCell<Vec<Source>>,
    /// Columns that USING has merged: unqualified they are those of the left side.
    merged: RefCell<Vec<String>>,
    /// Queries of WITH, by name.
    with: RefCell<Vec<(String, Vec<Column>)>>,
}

impl Columns for Level<'_> {
    fn column(&self, parts: &[String]) -> Option<Node> {
        match self.own_column(parts)? {
            Some(found) => Some(found),
            None => self.sees?.column(parts),
        }
    }

    fn query(&self, query: &ast::Query) -> Option<Query> {
        self.inner(query)
    }
}

impl<'l> Level<'l> {
    pub(super) fn new(
        objects: &'l Objects,
        path: &'l SearchPath,
        known: &'l [ViewSource],
    ) -> Level<'l> {
        Level {
            objects,
            path,
            known,
            outer: None,
            sees: None,
            names_of_with: Vec::new(),
            depth: 0,
            taken: Vec::new(),
            operations: Cell::new(0),
            sources: RefCell::default(),
            merged: RefCell::default(),
            with: RefCell::default(),
        }
    }

    /// The column among those of this query; `None` outside if it is not clear which one it is.
    fn own_column(&self, parts: &[String]) -> Option<Option<Node>> {
        let sources = self.sources.borrow();
        let (source, name) = match parts {
            [name] => (None, name),
            [source, name] => (Some(source), name),
            _ => return None,
        };
        let mut found = Vec::new();
        for one in sources.iter().filter(|one| source.is_none_or(|name| one.written == *name)) {
            let column = one.columns.iter().filter(|column| column.written == *name);
            found.extend(column.map(|column| (one, column)));
        }
        let is_merged = source.is_none() && self.merged.borrow().contains(name);
        match found.as_slice() {
            [] => Some(None),
            [(one, column), rest @ ..] if rest.is_empty() || is_merged => {
                let text = format!("{}.{}", identifier(&one.shown), identifier(&column.name));
                let shown = ColumnName { text, name: column.name.clone() };
                Node::new(Kind::Column(shown), column.ty).map(Some)
            }
            _ => None,
        }
    }

    /// A query inside of this one.
    fn inner(&self, query: &ast::Query) -> Option<Query> {
        if self.depth >= MAX_QUERIES {
            return None;
        }
        let level = Level {
            outer: Some(self),
            sees: Some(self),
            depth: self.depth + 1,
            ..Level::new(self.objects, self.path, self.known)
        };
        level.query_of(query)
    }

    /// A query in FROM, which sees nothing of what stands beside it.
    fn beside(&self, query: &ast::Query) -> Option<Query> {
        if self.depth >= MAX_QUERIES {
            return None;
        }
        let level = Level {
            outer: Some(self),
            sees: self.sees,
            depth: self.depth + 1,
            ..Level::new(self.objects, self.path, self.known)
        };
        level.query_of(query)
    }

    fn analyzer(&self) -> Analyzer<'_> {
        Analyzer::new(Types(self.objects, self.path), self, self.depth * 4)
    }

    /// All that is printed of a query.
    pub(super) fn query_of(mut self, query: &ast::Query) -> Option<Query> {
        let is_plain = query.fetch.is_none()
            && query.locks.is_empty()
            && query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        if !is_plain {
            return None;
        }
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.names_of_with = with.map(|cte| ident(&cte.alias.name)).collect();
        self.taken = self.names_of(&query.body);
        let (mut with, mut is_recursive) = (Vec::new(), false);
        if let Some(clause) = &query.with {
            is_recursive = clause.recursive;
            for cte in &clause.cte_tables {
                with.push(self.cte(cte, is_recursive)?);
            }
        }
        let (body, columns) = self.body(&query.body)?;
        let order = self.order(query.order_by.as_ref(), &body, &columns)?;
        let (limit, offset) = self.limit(query.limit_clause.as_ref())?;
        let is_whole = with.is_empty() && order.is_empty() && limit.is_none() && offset.is_none();
        Some(match body {
            Body::Query(inner) if is_whole => *inner,
            // Clauses around parentheses.
            Body::Query(_) => return None,
            body => Query { is_recursive, with, body, order, offset, limit, columns },
        })
    }

    /// The names that the sources of a SELECT are printed by.
    fn names_of(&self, body: &ast::SetExpr) -> Vec<String> {
        let ast::SetExpr::Select(select) = body else { return Vec::new() };
        let mut written = Vec::new();
        for table in &select.from {
            self.names_in(table, &mut written);
        }
        let mut taken: Vec<String> = Vec::new();
        for name in written {
            let is_taken = |wanted: &str| {
                let mut levels = std::iter::successors(self.outer, |level| level.outer);
                taken.iter().any(|other| other == wanted)
                    || levels.any(|level| level.taken.iter().any(|other| other == wanted))
            };
            let free = match is_taken(&name) {
                false => name,
                true => (1..)
                    .map(|number| format!("{name}_{number}"))
                    .find(|wanted| !is_taken(wanted))
                    .unwrap_or_default(),
            };
            taken.push(free);
        }
        taken
    }

    /// The names that the sources in a part of FROM would have, from left to right.
    fn names_in(&self, table: &ast::TableWithJoins, names: &mut Vec<String>) {
        let joined = table.joins.iter().map(|join| &join.relation);
        for factor in [&table.relation].into_iter().chain(joined) {
            match factor {
                ast::TableFactor::NestedJoin { table_with_joins, .. } => {
                    self.names_in(table_with_joins, names);
                }
                ast::TableFactor::Table { alias: Some(alias), .. }
                | ast::TableFactor::Derived { alias: Some(alias), .. } => {
                    names.push(ident(&alias.name));
                }
                ast::TableFactor::Table { name, .. } => {
                    let parts = parts(name).unwrap_or_default();
                    let known = self.known_as(&parts).map(|known| bare(&known.name).to_owned());
                    names.push(known.or_else(|| parts.last().cloned()).unwrap_or_default());
                }
                _ => names.push(String::new()),
            }
        }
    }

    /// The relation that the view has noted under this name, unless a query of WITH has it.
    fn known_as(&self, parts: &[String]) -> Option<&'l ViewSource> {
        if let [name] = parts {
            let around = || self.outer.is_some_and(|outer| outer.with_columns(name).is_some());
            if self.names_of_with.contains(name) || around() {
                return None;
            }
        }
        self.noted_as(parts)
    }

    /// Is a query of WITH called so, here or around?
    fn is_with(&self, name: &str) -> bool {
        let mut levels = std::iter::successors(Some(self), |level| level.outer);
        levels.any(|level| level.names_of_with.iter().any(|known| known == name))
    }

    fn noted_as(&self, parts: &[String]) -> Option<&'l ViewSource> {
        self.known.iter().find(|known| known.written == parts)
    }

    fn cte(&self, cte: &ast::Cte, is_recursive: bool) -> Option<Cte> {
        if is_recursive || !cte.alias.columns.is_empty() || cte.from.is_some() {
            return None;
        }
        let name = ident(&cte.alias.name);
        let query = self.inner(&cte.query)?;
        self.with.borrow_mut().push((name.clone(), query.columns.clone()));
        let how = match cte.materialized {
            None => "",
            Some(ast::CteAsMaterialized::Materialized) => "MATERIALIZED ",
            Some(ast::CteAsMaterialized::NotMaterialized) => "NOT MATERIALIZED ",
        };
        Some(Cte { name, how, query })
    }

    fn body(&self, body: &ast::SetExpr) -> Option<(Body, Vec<Column>)> {
        match body {
            ast::SetExpr::Select(select) => {
                let select = self.select(select)?;
                let columns = select.targets.iter();
                let columns = columns
                    .map(|one| Column { name: one.name.clone(), ty: one.value.ty })
                    .collect();
                Some((Body::Select(Box::new(select)), columns))
            }
            ast::SetExpr::Query(query) => {
                let query = self.inner(query)?;
                let columns = query.columns.clone();
                Some((Body::Query(Box::new(query)), columns))
            }
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                self.operations.set(self.operations.get() + 1);
                if self.operations.get() > MAX_PARTS {
                    return None;
                }
                let word = match op {
                    ast::SetOperator::Union => "UNION ",
                    ast::SetOperator::Intersect => "INTERSECT ",
                    ast::SetOperator::Except => "EXCEPT ",
                    ast::SetOperator::Minus => return None,
                };
                let all = match set_quantifier {
                    ast::SetQuantifier::All => true,
                    ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
                    _ => return None,
                };
                let (left, columns) = self.side(left)?;
                let (right, others) = self.side(right)?;
                let columns = self.unified(columns, &others)?;
                let operation = Operation { word, all, left, right };
                Some((Body::Operation(Box::new(operation)), columns))
            }
            _ => None,
        }
    }

    /// A side of UNION, which is a query of its own. A literal whose type the other side tells is
    /// not known here.
    fn side(&self, body: &ast::SetExpr) -> Option<(Body, Vec<Column>)> {
        let is_open = |body: &Body| match body {
            Body::Select(select) => select.targets.iter().any(|target| target.is_open),
            Body::Query(_) | Body::Operation(_) => false,
        };
        self.open_side(body).filter(|(body, _)| !is_open(body))
    }

    fn open_side(&self, body: &ast::SetExpr) -> Option<(Body, Vec<Column>)> {
        match body {
            ast::SetExpr::SetOperation { .. } => self.body(body),
            ast::SetExpr::Query(query) => {
                let query = self.inner(query)?;
                let columns = query.columns.clone();
                let has_clauses = !query.with.is_empty()
                    || !query.order.is_empty()
                    || query.limit.is_some()
                    || query.offset.is_some();
                Some(match has_clauses {
                    true => (Body::Query(Box::new(query)), columns),
                    false => (query.body, columns),
                })
            }
            ast::SetExpr::Select(_) if self.depth < MAX_QUERIES => {
                let mut level = Level {
                    outer: Some(self),
                    sees: Some(self),
                    depth: self.depth + 1,
                    ..Level::new(self.objects, self.path, self.known)
                };
                level.taken = level.names_of(body);
                level.body(body)
            }
            _ => None,
        }
    }

    /// The columns of UNION.
    fn unified(&self, columns: Vec<Column>, others: &[Column]) -> Option<Vec<Column>> {
        if columns.len() != others.len() {
            return None;
        }
        let one = |(column, other): (Column, &Column)| {
            let types = [column.ty.oid, other.ty.oid];
            let ty = Types(self.objects, self.path).common(&types)?;
            Some(Column { ty: TypeRef::plain(ty), ..column })
        };
        columns.into_iter().zip(others).map(one).collect()
    }

    fn select(&self, select: &ast::Select) -> Option<Select> {
        let is_plain = select.optimizer_hints.is_empty()
            && select.select_modifiers.is_none()
            && select.top.is_none()
            && select.exclude.is_none()
            && select.into.is_none()
            && select.lateral_views.is_empty()
            && select.prewhere.is_none()
            && select.named_window.is_empty()
            && select.qualify.is_none();
        if !is_plain {
            return None;
        }
        let mut from = Vec::with_capacity(select.from.len());
        for table in &select.from {
            from.push(self.joined(table)?);
        }
        let analyzer = self.analyzer();
        let mut targets = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            let (expr, name) = match item {
                ast::SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr, ident(alias)),
                _ => return None,
            };
            let value = analyzer.expr(expr)?;
            let is_open = value.is_unknown();
            let value = analyzer.decided(value)?;
            let own = match &value.kind {
                Kind::Column(column) => Some(column.name.clone()),
                _ => None,
            };
            targets.push(Target { value, name, is_open, own });
        }
        let condition = match &select.selection {
            Some(condition) => Some(analyzer.condition(condition)?),
            None => None,
        };
        let having = match &select.having {
            Some(condition) => Some(analyzer.condition(condition)?),
            None => None,
        };
        let ast::GroupByExpr::Expressions(group, modifiers) = &select.group_by else { return None };
        if !modifiers.is_empty() {
            return None;
        }
        let group = group.iter().map(|expr| self.key(expr, &targets, KeyNames::Sources));
        let group = group.collect::<Option<Vec<_>>>()?;
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => None,
            Some(ast::Distinct::Distinct) => Some(Vec::new()),
            Some(ast::Distinct::On(keys)) => {
                let keys = keys.iter().map(|expr| self.key(expr, &targets, KeyNames::Targets));
                Some(keys.collect::<Option<Vec<_>>>()?)
            }
        };
        Some(Select { distinct, targets, from, condition, group, having })
    }

    /// A key of GROUP BY, DISTINCT ON or ORDER BY: a target by its number or name, or a value.
    fn key(&self, expr: &ast::Expr, targets: &[Target], names: KeyNames) -> Option<Node> {
        if let ast::Expr::Value(value) = expr {
            let ast::Value::Number(digits, _) = &value.value else { return None };
            let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
            return targets.get(at).map(|target| target.value.clone());
        }
        let analyzer = self.analyzer();
        let ast::Expr::Identifier(name) = expr else {
            return analyzer.decided(analyzer.expr(expr)?);
        };
        let name = ident(name);
        let target = || targets.iter().find(|target| target.name == name);
        let column = || self.own_column(std::slice::from_ref(&name));
        match names {
            KeyNames::Targets => match target() {
                Some(target) => Some(target.value.clone()),
                None => analyzer.expr(expr),
            },
            KeyNames::Sources => match column()? {
                Some(column) => Some(column),
                None => match target() {
                    Some(target) => Some(target.value.clone()),
                    None => analyzer.expr(expr),
                },
            },
        }
    }

    fn order(
        &self,
        order: Option<&ast::OrderBy>,
        body: &Body,
        columns: &[Column],
    ) -> Option<Vec<SortKey>> {
        let Some(order) = order else { return Some(Vec::new()) };
        let ast::OrderByKind::Expressions(keys) = &order.kind else { return None };
        let mut all = Vec::with_capacity(keys.len());
        for key in keys {
            let by = match body {
                Body::Select(select) => {
                    SortBy::Value(self.key(&key.expr, &select.targets, KeyNames::Targets)?)
                }
                _ => SortBy::Column(place_of(&key.expr, columns)?),
            };
            let order = order_of(&key.options)?;
            all.push(SortKey { by, order });
        }
        Some(all)
    }

    fn limit(&self, clause: Option<&ast::LimitClause>) -> Option<(Option<Node>, Option<Node>)> {
        let (limit, offset) = match clause {
            None => return Some((None, None)),
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if !limit_by.is_empty() {
                    return None;
                }
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => return None,
        };
        let analyzer = self.analyzer();
        let count = |expr: Option<&ast::Expr>| match expr {
            Some(expr) => {
                Some(Some(analyzer.coerce(analyzer.expr(expr)?, SqlType::Int8.oid(), true)?))
            }
            None => Some(None),
        };
        Some((count(limit)?, count(offset)?))
    }

    fn joined(&self, table: &ast::TableWithJoins) -> Option<From> {
        if table.joins.len() > MAX_PARTS {
            return None;
        }
        let mut left = self.factor(&table.relation)?;
        for join in &table.joins {
            if join.global {
                return None;
            }
            let first = self.sources.borrow().len();
            let right = self.factor(&join.relation)?;
            use ast::JoinOperator as J;
            let (word, constraint) = match &join.join_operator {
                J::Join(constraint) | J::Inner(constraint) => (" JOIN ", constraint),
                J::CrossJoin(constraint) => (" CROSS JOIN ", constraint),
                J::Left(constraint) | J::LeftOuter(constraint) => (" LEFT JOIN ", constraint),
                J::Right(constraint) | J::RightOuter(constraint) => (" RIGHT JOIN ", constraint),
                J::FullOuter(constraint) => (" FULL JOIN ", constraint),
                _ => return None,
            };
            let (mut on, mut using) = (None, Vec::new());
            match constraint {
                ast::JoinConstraint::None => {}
                ast::JoinConstraint::On(condition) => {
                    on = Some(self.analyzer().condition(condition)?)
                }
                ast::JoinConstraint::Using(names) if matches!(word, " JOIN " | " LEFT JOIN ") => {
                    for name in names {
                        let [name] = <[String; 1]>::try_from(parts(name).ok()?).ok()?;
                        self.merge(&name, first)?;
                        using.push(name);
                    }
                }
                _ => return None,
            }
            let join = Join { word, left, right, on, using };
            left = From::Join(Box::new(join));
        }
        Some(left)
    }

    /// Notes that USING merges a column of the sources from `first` on with one before them.
    fn merge(&self, name: &str, first: usize) -> Option<()> {
        let types = |sources: &[Source]| {
            let columns = sources.iter().flat_map(|one| &one.columns);
            let same = columns.filter(|one| one.written == name || one.name == name);
            // USING cannot name a column that is called otherwise now.
            same.map(|one| (one.name == one.written).then_some(one.ty.oid)).collect::<Vec<_>>()
        };
        let sources = self.sources.borrow();
        let (left, right) = (types(&sources[..first]), types(&sources[first..]));
        let mut merged = self.merged.borrow_mut();
        let is_clear = left.len() == 1 || merged.iter().any(|known| known == name);
        let ty = right.first().copied().flatten();
        let are_same = ty.is_some() && left.iter().chain(&right).all(|other| *other == ty);
        if !is_clear || right.len() != 1 || left.is_empty() || !are_same {
            return None;
        }
        merged.push(name.to_owned());
        Some(())
    }

    fn table(&self, table: &PlainTable<'_>) -> Option<From> {
        let parts = parts(table.name).ok()?;
        let with = match parts.as_slice() {
            [name] => self.with_columns(name),
            _ => None,
        };
        let Relation { text, name, columns } = match with {
            Some(columns) => {
                let name = parts.last()?.clone();
                let columns = columns.iter().map(SourceColumn::of).collect();
                Relation { text: identifier(&name), name, columns }
            }
            None => self.relation(&parts)?,
        };
        let shown = self.add(table.alias, parts.last()?, columns)?;
        let alias = match table.alias.is_some() || shown != name {
            true => format!(" {}", identifier(&shown)),
            false => String::new(),
        };
        Some(From::Relation(format!("{text}{alias}")))
    }

    fn factor(&self, factor: &ast::TableFactor) -> Option<From> {
        if let Some(table) = PlainTable::of(factor) {
            return self.table(&table);
        }
        match factor {
            ast::TableFactor::Derived {
                lateral: false,
                subquery,
                alias: Some(alias),
                sample: None,
            } => {
                let query = self.beside(subquery)?;
                let columns = query.columns.iter().map(SourceColumn::of).collect();
                let shown = self.add(Some(alias), "", columns)?;
                Some(From::Query(Box::new(query), shown))
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins)
            }
            _ => None,
        }
    }

    /// Adds a source to those that are seen; the name that it is printed by.
    fn add(
        &self,
        alias: Option<&ast::TableAlias>,
        name: &str,
        columns: Vec<SourceColumn>,
    ) -> Option<String> {
        if alias.is_some_and(|alias| !alias.columns.is_empty() || alias.at.is_some()) {
            return None;
        }
        let written = alias.map_or_else(|| name.to_owned(), |alias| ident(&alias.name));
        let mut sources = self.sources.borrow_mut();
        let shown = self.taken.get(sources.len())?.clone();
        if sources.iter().any(|one| one.written == written) {
            return None;
        }
        sources.push(Source { written, shown: shown.clone(), columns });
        Some(shown)
    }

    /// The columns of a query of WITH.
    fn with_columns(&self, name: &str) -> Option<Vec<Column>> {
        let with = self.with.borrow();
        let own = with.iter().rev().find(|(known, _)| known == name);
        match own {
            Some((_, columns)) => Some(columns.clone()),
            None => self.outer?.with_columns(name),
        }
    }

    /// A table or a view as a text names it.
    fn relation(&self, parts: &[String]) -> Option<Relation> {
        let known = self.noted_as(parts)?;
        let table = self.objects.table(&known.name)?.table;
        let scope = Scope { objects: self.objects, names: Names::Table(table) };
        // The text does not know columns that came later.
        let noted = |name: &str| known.columns.iter().find(|one| one.name == name);
        let columns = rules::columns(table).filter(|column| noted(&column.name).is_some());
        let columns = columns.map(|column| {
            let name = column.name.clone();
            let written = noted(&name)?.written.clone();
            let ty = scope.column(std::slice::from_ref(&name))?.ty;
            Some(SourceColumn { written, name, ty })
        });
        Some(Relation {
            text: match self.is_with(bare(&table.name)) {
                true => full_reference(&table.name),
                false => self.objects.spelled(&table.name, self.path),
            },
            name: bare(&table.name).to_owned(),
            columns: columns.collect::<Option<Vec<_>>>()?,
        })
    }
}

/// A relation in FROM.
struct Relation {
    text: String,
    name: String,
    columns: Vec<SourceColumn>,
}

/// What a name alone means first.
#[derive(Clone, Copy)]
enum KeyNames {
    Targets,
    Sources,
}

/// The number of the column of UNION that a key of ORDER BY names.
fn place_of(expr: &ast::Expr, columns: &[Column]) -> Option<usize> {
    match expr {
        ast::Expr::Identifier(name) => {
            let name = ident(name);
            columns.iter().position(|column| column.name == name).map(|at| at + 1)
        }
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
