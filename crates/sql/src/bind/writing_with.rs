//! WITH in a statement that writes, in WITH or behind it, or whose WITH locks rows.
//!
//! Each expression of WITH is planned by itself, and so is the statement behind it. What they read
//! of each other are the rows that the context keeps under the numbers of the expressions.
//!
//! Invariants: the columns of a part have numbers of their own, so that those of the table that it
//! changes can have their places.
//! Does not do: such a WITH anywhere but at the top (`0A000`); the order in which parts run
//! (`exec::parts`).

use std::sync::Arc;

use sqlparser::ast::{self, Query, SetExpr};

use super::Binder;
use super::scope::ScopeColumn;
use super::select::Purpose;
use super::with::{named, writes};
use crate::error::{Result, SqlError, code};
use crate::expr::ColumnId;
use crate::parse::identifiers;
use crate::parse::locking_queries::LOCKING;
use crate::plan::bound::Bound;
use crate::plan::rel::Rel;
use crate::plan::{Column, Plan, Table, WithPart, WithPlan};

/// Is it a statement with WITH that writes, in WITH or behind it?
pub(super) fn writes_in_with(query: &Query) -> bool {
    let Some(with) = &query.with else { return false };
    writes(query) || with.cte_tables.iter().any(|cte| writes(&cte.query))
}

/// Do its parts run one after the other, as it writes or its WITH locks rows?
pub(super) fn runs_in_parts(query: &Query) -> bool {
    let is_one = |query: &Query| !matches!(&*query.body, SetExpr::SetOperation { .. });
    let locks = |cte: &ast::Cte| !cte.query.locks.is_empty() && is_one(&cte.query);
    writes_in_with(query) || query.with.iter().flat_map(|with| &with.cte_tables).any(locks)
}

/// Parts in the order in which they run: first those that the statement behind WITH reads, which
/// `main` numbers, and what these read; how many they are. Each part reads those before it only.
fn in_order(
    parts: Vec<WithPart>,
    reads: &[Vec<usize>],
    main: Vec<usize>,
) -> (Vec<WithPart>, usize) {
    let mut wanted = main;
    for (part, reads) in parts.iter().zip(reads).rev() {
        if wanted.contains(&part.number) {
            wanted.extend(reads);
        }
    }
    let (mut first, rest): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| wanted.contains(&part.number));
    let before = first.len();
    // A part that only locks rows runs where somebody wants the rows.
    let writes = |part: &WithPart| !matches!(part.plan, Plan::Query(_) | Plan::Locked(_));
    first.extend(rest.into_iter().filter(writes));
    (first, before)
}

/// The tables that parts name, those of parts that write first.
fn tables_of(parts: &[WithPart], main: &Plan) -> Vec<Arc<Table>> {
    let mut tables: Vec<Arc<Table>> = Vec::new();
    for writes in [true, false] {
        let plans = parts.iter().map(|part| &part.plan).chain([main]);
        for table in plans.filter(|plan| plan.writes() == writes).flat_map(Plan::tables) {
            if !tables.iter().any(|known| known.info.id == table.info.id) {
                tables.push(Arc::clone(table));
            }
        }
    }
    tables
}

impl Binder<'_> {
    /// The plan of such a statement.
    pub(super) fn writing_with(&mut self, query: &Query) -> Result<Plan> {
        self.shares_snapshot = true;
        let Some(with) = &query.with else { unreachable!("the caller has looked") };
        let mut parts: Vec<WithPart> = Vec::with_capacity(with.cte_tables.len());
        // Of each part the numbers of those that it reads.
        let mut reads: Vec<Vec<usize>> = Vec::new();
        for cte in self.sorted_definitions(with)? {
            let name = identifiers::ident(&cte.alias.name);
            self.next_part();
            parts.push(match () {
                () if writes(&cte.query) => self.writing_part(cte, name)?,
                () if !cte.query.locks.is_empty() => self.locking_part(cte, name)?,
                () => self.reading_part(cte, with.recursive, name)?,
            });
            reads.push(std::mem::take(&mut self.used_commons));
        }
        self.next_part();
        let main = self.main_part(query)?;
        let (parts, before) = in_order(parts, &reads, std::mem::take(&mut self.used_commons));
        let tables = tables_of(&parts, &main);
        let asks = self.take_asks();
        Ok(Plan::With(Box::new(WithPlan { parts, before, main, tables, asks })))
    }

    /// The numbers of columns begin again, and nothing is read yet.
    fn next_part(&mut self) {
        self.next_column = 0;
        self.scans.clear();
        self.scope = Default::default();
    }

    /// An expression of WITH that writes.
    fn writing_part(&mut self, cte: &ast::Cte, name: String) -> Result<WithPart> {
        let query = &cte.query;
        if query.with.is_some() {
            return Err(SqlError::unsupported("WITH inside of a statement in WITH"));
        }
        let plan = self.changing(query)?;
        self.part_of(plan, cte, name)
    }

    /// An expression of WITH that locks the rows which it gives.
    fn locking_part(&mut self, cte: &ast::Cte, name: String) -> Result<WithPart> {
        let bound = self.query_for(&cte.query, Purpose::Client).map_err(|error| {
            let is_unknown =
                matches!(error.sqlstate, code::UNDEFINED_COLUMN | code::UNDEFINED_TABLE);
            match is_unknown && name.starts_with(LOCKING) {
                true => error.hint(
                    "A query with FOR UPDATE or FOR SHARE cannot name columns of the statement \
                     around it.",
                ),
                false => error,
            }
        })?;
        let plan = match &bound.locks {
            Some(locks) if !locks.tables.is_empty() => Plan::Locked(Box::new(self.locked(bound)?)),
            _ => Plan::Query(Arc::new(self.planned(bound)?)),
        };
        self.part_of(plan, cte, name)
    }

    /// The part that a plan is, whose rows have the columns that it returns.
    fn part_of(&mut self, plan: Plan, cte: &ast::Cte, name: String) -> Result<WithPart> {
        let returned = plan.columns().map(<[Column]>::to_vec);
        let returns_nothing = returned.is_none();
        let column = |(at, column): (usize, Column)| ScopeColumn {
            modifier: column.modifier,
            collation: column.collation,
            origin: column.origin,
            ..ScopeColumn::new(at, column.name, column.ty)
        };
        let columns = returned.into_iter().flatten().enumerate().map(column).collect();
        let columns = if returns_nothing { columns } else { named(columns, &cte.alias)? };
        let number = self.new_common(&name, columns, false);
        if let Some(last) = self.commons.last_mut() {
            last.returns_nothing = returns_nothing;
        }
        Ok(WithPart { number, name, plan })
    }

    /// An expression of WITH that reads: its rows are those of a query.
    fn reading_part(&mut self, cte: &ast::Cte, recursive: bool, name: String) -> Result<WithPart> {
        let mut definitions = Vec::new();
        self.definition(cte, recursive, &mut definitions)?;
        let definition = definitions.last().expect("it has been bound");
        let number = definition.number;
        let width = definition.columns.len();
        let first = self.new_columns(width);
        let columns: Vec<ColumnId> = (first..first + width).collect();
        let (cte, is_step) = (number, false);
        let scan = Rel::CteScan { cte, columns: columns.clone(), name: name.clone(), is_step };
        let rel = Rel::With { definitions, input: Box::new(scan) };
        let query = self.planned(Bound::new(rel, columns, Vec::new()))?;
        Ok(WithPart { number, name, plan: Plan::Query(Arc::new(query)) })
    }

    /// The statement behind WITH.
    fn main_part(&mut self, query: &Query) -> Result<Plan> {
        if writes(query) {
            return self.changing(query);
        }
        let plain = Query { with: None, ..query.clone() };
        let bound = self.query_for(&plain, Purpose::Client)?;
        super::lock::refuse_locks(&bound)?;
        Ok(Plan::Query(Arc::new(self.planned(bound)?)))
    }

    /// A statement that writes, where a query may stand.
    fn changing(&mut self, query: &Query) -> Result<Plan> {
        let behind = query.order_by.is_some()
            || query.limit_clause.is_some()
            || query.fetch.is_some()
            || !query.locks.is_empty();
        if behind {
            return Err(SqlError::syntax("a clause of a query behind a statement that writes"));
        }
        let plan = match query.body.as_ref() {
            SetExpr::Insert(ast::Statement::Insert(insert)) => {
                Plan::Insert(Box::new(self.insert(insert)?))
            }
            SetExpr::Update(ast::Statement::Update(update)) => {
                Plan::Change(Box::new(self.update(update)?))
            }
            SetExpr::Delete(ast::Statement::Delete(delete)) => {
                Plan::Change(Box::new(self.delete(delete)?))
            }
            _ => return Err(SqlError::unsupported("such a statement in WITH")),
        };
        match &plan {
            Plan::Change(change) if change.current.is_some() => {
                Err(SqlError::unsupported("WHERE CURRENT OF with WITH"))
            }
            _ => Ok(plan),
        }
    }
}
