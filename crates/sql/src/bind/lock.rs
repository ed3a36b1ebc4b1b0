//! FOR UPDATE and its kind: which rows a query locks, and how.
//!
//! A query over one table is one whose rows are locked as they are found. Of a query over several
//! sources the rows are found first, with their places in the tables; then they are locked, and
//! where another transaction has changed one, all conditions are asked again with its new values
//! beside the rows of the other sources as they were.
//!
//! Invariants: no lock is taken on a row that an outer join may lack.
//! Does not do: conditions of outer joins asked again.

use std::collections::BTreeSet;
use std::sync::Arc;

use rightlink::{Busy, RowLock};
use sqlparser::ast::{self, LockType, NonBlock, Query};

use super::Binder;
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr, SortKey, columns_of};
use crate::parse::cursor::KEY_LOCK;
use crate::parse::identifiers;
use crate::plan::bound::{Bound, LockedTable, Locks};
use crate::plan::rel::{self, BoundSubquery, Join, JoinKind, Rel};
use crate::plan::{Asks, LockedQuery, LockedRows};

/// How a row is locked, and what is done about one that somebody else has.
#[derive(Clone, Copy)]
struct Strength {
    lock: RowLock,
    busy: Busy,
}

/// What one clause says.
struct Clause {
    strength: Strength,
    /// As messages call it.
    name: &'static str,
    /// The source whose rows are locked; `None`: all.
    of: Option<String>,
}

impl Clause {
    fn of(clause: &ast::LockClause) -> Clause {
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
        let of = clause.of.iter().flat_map(|of| &of.0).nth(usize::from(of_key));
        let of = of.and_then(ast::ObjectNamePart::as_ident).map(identifiers::ident);
        Clause { strength: Strength { lock, busy }, name, of }
    }
}

/// The stronger of two locks, and the less patient way to wait.
fn both(a: Strength, b: Strength) -> Strength {
    let busy = match (a.busy, b.busy) {
        (Busy::Wait, busy) => busy,
        _ => Busy::Fail,
    };
    Strength { lock: a.lock.max(b.lock), busy }
}

impl Binder<'_> {
    /// How the rows of a query are to be locked: as the strongest of its clauses says.
    pub(super) fn locks(&mut self, query: &Query, bound: &Bound) -> Result<Option<Locks>> {
        let mut found: Option<Strength> = None;
        let mut tables: Vec<LockedTable> = Vec::new();
        let is_single = source_of(&bound.rel).is_some();
        for node in &query.locks {
            let clause = Clause::of(node);
            let name = clause.name;
            if has_windows(&bound.rel) {
                let message = format!("{name} is not allowed with window functions");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if has_sets(&bound.rel) {
                let message = format!(
                    "{name} is not allowed with set-returning functions in the target list"
                );
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            if gathers_rows(&bound.rel) {
                let message =
                    format!("{name} is not allowed with GROUP BY, DISTINCT or aggregate functions");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            let own = clause.strength;
            found = Some(found.map_or(own, |other| both(other, own)));
            let position = node.of.as_ref().and_then(|of| self.position(of));
            let columns = match &clause.of {
                None => None,
                Some(of) => Some(self.columns_of_source(of, name).map_err(|e| e.at(position))?),
            };
            if let Some(scan) = source_of(&bound.rel) {
                self.need_to_lock(&scan.table)?;
                continue;
            }
            for table in locked_tables(&bound.rel, &clause, columns.as_ref())? {
                self.need_to_lock(&table.table)?;
                match tables.iter_mut().find(|known| known.tid == table.tid) {
                    Some(known) => {
                        let before = Strength { lock: known.lock, busy: known.busy };
                        let now = both(before, own);
                        (known.lock, known.busy) = (now.lock, now.busy);
                    }
                    None => tables.push(table),
                }
            }
        }
        let Some(Strength { lock, busy }) = found else { return Ok(None) };
        // Locks of what is no table say nothing.
        Ok((is_single || !tables.is_empty()).then_some(Locks { lock, busy, tables }))
    }

    /// Numbers of the columns of the source that OF names.
    fn columns_of_source(&self, of: &str, name: &str) -> Result<BTreeSet<ColumnId>> {
        let Some(relation) = self.scope.relation(None, of)? else {
            let message = format!("relation \"{of}\" in {name} clause not found in FROM clause");
            return Err(SqlError::new(code::UNDEFINED_TABLE, message));
        };
        Ok(relation.columns.iter().map(|column| column.id).collect())
    }

    /// A query whose rows are locked in several tables: what finds them, and what is asked of them
    /// again where another transaction has changed one.
    pub(super) fn locked(&mut self, bound: Bound) -> Result<LockedQuery> {
        let Bound { rel, output, columns, locks, .. } = bound;
        let tables = locks.map(|locks| locks.tables).unwrap_or_default();
        let (definitions, rel) = match rel {
            Rel::With { definitions, input } => (definitions, *input),
            rel => (Vec::new(), rel),
        };
        let (rel, mut limit, mut offset) = match rel {
            Rel::Limit(cut) if cut.ties.is_some() => {
                return Err(SqlError::unsupported("locks of rows WITH TIES"));
            }
            Rel::Limit(cut) => (cut.input, cut.limit, cut.offset),
            rel => (rel, None, None),
        };
        let mut parts = Parts::default();
        let rel = parts.take(rel);
        let mut output: Vec<Expr> = output.into_iter().map(Expr::Column).collect();
        output.iter_mut().for_each(|expr| parts.settle(expr));
        parts.conditions = std::mem::take(&mut parts.conditions)
            .into_iter()
            .map(|mut one| {
                parts.settle(&mut one);
                one
            })
            .collect();
        let mut layout: Vec<ColumnId> = Vec::new();
        for table in &tables {
            layout.push(table.tid);
            layout.extend(&table.columns);
        }
        let mut named = BTreeSet::new();
        output.iter().chain(&parts.conditions).for_each(|expr| columns_of(expr, &mut named));
        let own: BTreeSet<ColumnId> = rel.columns().into_iter().collect();
        let is_apart = tables.iter().any(|table| !own.contains(&table.tid));
        if is_apart || !rel.free().is_empty() {
            return Err(SqlError::unsupported("locks of rows of such a query"));
        }
        named.retain(|id| own.contains(id) && !layout.contains(id));
        layout.extend(named);
        let mut rel = rel.filtered(parts.conditions.clone());
        if !parts.sort.is_empty() {
            let mut values: Vec<Expr> = layout.iter().map(|id| Expr::Column(*id)).collect();
            for key in &parts.sort {
                let mut value = Expr::Column(key.at);
                parts.settle(&mut value);
                values.push(value);
            }
            let ids = self.project(&mut rel, values);
            let mut keys = parts.sort.clone();
            keys.iter_mut().zip(&ids[layout.len()..]).for_each(|(key, id)| key.at = *id);
            rel = Rel::Sort { input: Box::new(rel), keys };
        }
        if !definitions.is_empty() {
            if output.iter().chain(&parts.conditions).any(reads_common) {
                let what = "locks of rows of a query that asks an expression of WITH for each row";
                return Err(SqlError::unsupported(what));
            }
            rel = Rel::With { definitions, input: Box::new(rel) };
        }
        let source = Arc::new(self.planned(Bound::new(rel, layout.clone(), Vec::new()))?);
        let mut conditions = parts.conditions;
        let mut exprs: Vec<&mut Expr> = output.iter_mut().chain(&mut conditions).collect();
        exprs.extend(limit.iter_mut().chain(&mut offset));
        let reads = self.reads(exprs, &layout)?;
        let mut at = 0;
        let place = |table: LockedTable| {
            let LockedTable { table, lock, busy, .. } = table;
            let tid = at;
            at += 1 + table.types.len();
            LockedRows { table, tid, lock, busy }
        };
        let tables = tables.into_iter().map(place).collect();
        Ok(LockedQuery {
            source,
            tables,
            conditions,
            output,
            limit,
            offset,
            columns,
            reads,
            asks: Asks::default(),
        })
    }
}

/// Does a query in an expression read an expression of WITH?
fn reads_common(expr: &Expr) -> bool {
    fn reads(rel: &Rel) -> bool {
        let mut found = false;
        rel.visit(&mut |one| {
            found |= matches!(one, Rel::CteScan { is_step: false, .. })
                || one.exprs().into_iter().any(reads_common);
        });
        found
    }
    let mut found = false;
    expr.walk(&mut |inner| {
        if let Expr::Subquery(query) = inner
            && let Some(BoundSubquery { rel, .. }) = BoundSubquery::of(query)
        {
            found |= reads(rel);
        }
    });
    found
}

/// What stands over the sources of a query whose rows are locked.
#[derive(Default)]
struct Parts {
    conditions: Vec<Expr>,
    sort: Vec<SortKey>,
    /// What projections make.
    made: Vec<(ColumnId, Expr)>,
}

impl Parts {
    /// Takes what stands over the sources, and what inner joins, views and queries among them ask
    /// and make.
    fn take(&mut self, rel: Rel) -> Rel {
        match rel {
            Rel::Filter { input, conditions } => {
                self.conditions.extend(conditions);
                self.take(*input)
            }
            Rel::Project { input, output } => {
                // Made of columns below, which are settled first.
                let input = self.take(*input);
                for (id, mut expr) in output {
                    if !matches!(expr, Expr::Column(of) if of == id) {
                        self.settle(&mut expr);
                        self.made.push((id, expr));
                    }
                }
                input
            }
            Rel::Sort { input, keys } => {
                // That of the query itself comes first; one below it decides nothing.
                if self.sort.is_empty() {
                    self.sort = keys;
                }
                self.take(*input)
            }
            Rel::Join(join) if join.kind == JoinKind::Inner => {
                let Join { kind, left, right, on, is_list } = *join;
                self.conditions.extend(on);
                let (left, right) = (self.take(left), self.take(right));
                Rel::Join(Box::new(Join { kind, left, right, on: Vec::new(), is_list }))
            }
            Rel::Join(join) if matches!(join.kind, JoinKind::Left | JoinKind::Right) => {
                // The side whose rows are all there; a condition of it says the same above.
                let Join { kind, mut left, mut right, mut on, is_list } = *join;
                let kept = if kind == JoinKind::Left { &mut left } else { &mut right };
                *kept = self.take(std::mem::replace(kept, Rel::Single));
                on.iter_mut().for_each(|one| self.settle(one));
                Rel::Join(Box::new(Join { kind, left, right, on, is_list }))
            }
            other => other,
        }
    }

    /// An expression over the columns of the sources.
    fn settle(&self, expr: &mut Expr) {
        let made = |id: ColumnId| self.made.iter().find(|(known, _)| *known == id);
        let mut put = |inner: &mut Expr| match inner {
            Expr::Column(id) => {
                if let Some((_, expr)) = made(*id) {
                    *inner = expr.clone();
                    return false;
                }
                true
            }
            _ => true,
        };
        expr.change(&mut |inner| {
            if let Expr::Subquery(query) = inner {
                query.substitute(&mut |expr| expr.change(&mut put));
            }
            put(inner)
        });
    }
}

/// The tables whose rows a clause locks.
fn locked_tables(
    rel: &Rel,
    clause: &Clause,
    of: Option<&BTreeSet<ColumnId>>,
) -> Result<Vec<LockedTable>> {
    let mut found = Vec::new();
    gather_tables(rel, clause, of, false, &mut found)?;
    Ok(found)
}

fn gather_tables(
    rel: &Rel,
    clause: &Clause,
    of: Option<&BTreeSet<ColumnId>>,
    is_nullable: bool,
    found: &mut Vec<LockedTable>,
) -> Result<()> {
    // All tables below what the source is are meant.
    let of = of.filter(|of| !is_source(rel, of));
    match rel {
        Rel::Scan(scan) if of.is_none() => {
            if is_nullable {
                let name = clause.name;
                let message =
                    format!("{name} cannot be applied to the nullable side of an outer join");
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            let table = Arc::clone(&scan.table);
            let (columns, tid) = (scan.columns.clone(), scan.tid);
            let Strength { lock, busy } = clause.strength;
            found.push(LockedTable { table, columns, tid, lock, busy });
            Ok(())
        }
        Rel::Join(join) => {
            let left = is_nullable || matches!(join.kind, JoinKind::Right | JoinKind::Full);
            let right = is_nullable || matches!(join.kind, JoinKind::Left | JoinKind::Full);
            gather_tables(&join.left, clause, of, left, found)?;
            gather_tables(&join.right, clause, of, right, found)
        }
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            gather_tables(input, clause, of, is_nullable, found)
        }
        Rel::Limit(limit) if has_tables(&limit.input) && of.is_none() => {
            gather_tables(&limit.input, clause, of, is_nullable, found)
        }
        other if of.is_none() && (gathers_rows(other) || has_windows(other)) => {
            let name = clause.name;
            let message = match has_windows(other) {
                true => format!("{name} is not allowed with window functions"),
                false => {
                    format!("{name} is not allowed with GROUP BY, DISTINCT or aggregate functions")
                }
            };
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        }
        // Functions, lists of values and expressions of WITH have no rows that could be locked.
        _ => Ok(()),
    }
}

fn has_tables(rel: &Rel) -> bool {
    let mut found = false;
    rel.visit(&mut |one| found |= matches!(one, Rel::Scan(_)));
    found
}

/// Is it the source of these columns?
fn is_source(rel: &Rel, of: &BTreeSet<ColumnId>) -> bool {
    let own: BTreeSet<ColumnId> = rel.columns().into_iter().collect();
    let below = rel.inputs().into_iter().any(|input| {
        let columns: BTreeSet<ColumnId> = input.columns().into_iter().collect();
        of.is_subset(&columns)
    });
    of.is_subset(&own) && !below
}

/// Does it take rows together, so that none of them is a row of a table?
fn gathers_rows(rel: &Rel) -> bool {
    match rel {
        Rel::Aggregate(_) | Rel::Distinct { .. } | Rel::DistinctOn { .. } => true,
        Rel::SetOp(_) => true,
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            gathers_rows(input)
        }
        _ => false,
    }
}

/// Does it call window functions itself?
fn has_windows(rel: &Rel) -> bool {
    match rel {
        Rel::Window { .. } => true,
        Rel::Filter { input, .. }
        | Rel::Project { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Distinct { input, .. }
        | Rel::DistinctOn { input, .. } => has_windows(input),
        _ => false,
    }
}

/// Does it call functions that give rows?
fn has_sets(rel: &Rel) -> bool {
    match rel {
        Rel::ProjectSet { .. } => true,
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            has_sets(input)
        }
        _ => false,
    }
}

/// The scan that each row of it is one row of.
fn source_of(rel: &Rel) -> Option<&rel::Scan> {
    match rel {
        Rel::Scan(scan) => Some(scan),
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            source_of(input)
        }
        Rel::Limit(limit) => source_of(&limit.input),
        _ => None,
    }
}

/// Only a query whose rows go to the client locks them.
pub(super) fn refuse_locks(query: &Bound) -> Result<()> {
    match &query.locks {
        None => Ok(()),
        Some(_) => Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in a part of a statement")),
    }
}
