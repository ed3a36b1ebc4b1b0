//! GROUP BY, and what clauses behind it say of groups.
//!
//! Invariants: a column that is no key is named inside of an aggregate only, unless the primary key
//! of its table is among the keys.
//! Does not do: sets of keys (`grouping`), aggregates (`aggregate`), HAVING.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{self, GroupByExpr};

use super::grouping::Keys;
use super::select::check_grouped;
use super::target::Target;
use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr, Typed};
use crate::parse::identifiers;
use crate::plan::rel::Grouping;

impl Binder<'_> {
    pub(super) fn group_keys(
        &mut self,
        group: &GroupByExpr,
        list: &[Target],
    ) -> Result<Option<Keys>> {
        let nodes = match group {
            GroupByExpr::Expressions(nodes, modifiers) if modifiers.is_empty() => nodes,
            _ => return Err(SqlError::unsupported("GROUP BY ALL or with modifiers")),
        };
        if nodes.is_empty() {
            return Ok(None);
        }
        self.keys(nodes, list).map(Some)
    }

    /// A key: an expression, or a place in the list.
    pub(super) fn key(&mut self, node: &ast::Expr, list: &[Target]) -> Result<Typed> {
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
        if self.windows.is_in(&key.expr) {
            let message = "window functions are not allowed in GROUP BY";
            return Err(SqlError::new(code::WINDOWING_ERROR, message).at(key.position));
        }
        let key = self.settle(key)?;
        key.collated.refuse_unequal("GROUP BY")?;
        check_grouped(&key, "GROUP BY")?;
        Ok(key)
    }

    /// A column of the source, else of the list, else an expression.
    fn group_key(&mut self, node: &ast::Expr, list: &[Target]) -> Result<Typed> {
        if let ast::Expr::Identifier(name) = node {
            let wanted = identifiers::ident(name);
            let of_source = self.scope.shown.iter().any(|column| column.name == wanted);
            if let Some(target) = list.iter().find(|target| target.name == wanted && !of_source) {
                return Ok(target.value.clone());
            }
        }
        self.at_place(Place::None("GROUP BY"), |binder| binder.expr(node))
    }

    /// Turns what the clauses say over rows of the source into what they say over groups.
    pub(super) fn regroup(
        &mut self,
        group: &mut Grouping,
        keys: Vec<Expr>,
        exprs: Vec<&mut Expr>,
    ) -> Result<()> {
        let own: BTreeSet<ColumnId> = group.input.columns().into_iter().collect();
        let mut known: Vec<(String, ColumnId)> = Vec::new();
        let mut plain: BTreeMap<ColumnId, ColumnId> = BTreeMap::new();
        // Keys that every set has.
        let mut always: BTreeSet<ColumnId> = BTreeSet::new();
        for (at, key) in keys.into_iter().enumerate() {
            let id = self.new_columns(1);
            known.push((format!("{key:?}"), id));
            if let Expr::Column(of) = bare(&key) {
                plain.entry(*of).or_insert(id);
                if group.sets.iter().all(|set| set.contains(&at)) {
                    always.insert(*of);
                }
            }
            group.keys.push((id, key));
        }
        let mut missing = None;
        let of_sets = group.aggregates.iter().flat_map(|(_, one)| one.direct.iter().cloned());
        let mut of_sets: Vec<Expr> = of_sets.collect();
        for expr in exprs.into_iter().chain(&mut of_sets) {
            expr.change(&mut |inner| {
                if let Expr::Aggregate(at) = inner {
                    *inner = Expr::Column(group.aggregates[*at].0);
                    return false;
                }
                if matches!(inner, Expr::Const(_)) {
                    return false;
                }
                let text = format!("{inner:?}");
                if let Some((_, id)) = known.iter().find(|(key, _)| *key == text) {
                    *inner = Expr::Column(*id);
                    return false;
                }
                let mut stray = |id: ColumnId, of_query: bool| -> Option<ColumnId> {
                    if !own.contains(&id) {
                        return Some(id);
                    }
                    let found = plain.get(&id).copied();
                    if found.is_none() {
                        let keyed = |part: ColumnId| always.contains(&part);
                        if self.depends_on(id, &keyed) {
                            // The key of its table is among the keys: one value a group.
                            let new = self.new_columns(1);
                            group.sets.iter_mut().for_each(|set| set.push(group.keys.len()));
                            group.keys.push((new, Expr::Column(id)));
                            plain.insert(id, new);
                            return Some(new);
                        }
                        missing.get_or_insert((id, of_query));
                    }
                    found
                };
                match inner {
                    Expr::Column(id) => {
                        if let Some(new) = stray(*id, false) {
                            *id = new;
                        }
                        false
                    }
                    Expr::Subquery(query) => {
                        query.rename(&mut |id| stray(id, true).unwrap_or(id));
                        query.name_aggregates(&|at| group.aggregates[at].0);
                        true
                    }
                    _ => true,
                }
            });
        }
        let Some((id, of_query)) = missing else { return Ok(()) };
        let name = self.scope.described(id).unwrap_or_default();
        let message = match of_query {
            true => format!("subquery uses ungrouped column \"{name}\" from outer query"),
            false => format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate \
                 function"
            ),
        };
        Err(SqlError::new(code::GROUPING_ERROR, message))
    }

    /// Is a column of a table whose primary key is among the keys of groups?
    fn depends_on(&self, id: ColumnId, keyed: &dyn Fn(ColumnId) -> bool) -> bool {
        let of = |(first, table): &&(ColumnId, std::sync::Arc<crate::plan::Table>)| {
            (*first..*first + table.types.len()).contains(&id)
        };
        let Some((first, table)) = self.scans.iter().find(of) else { return false };
        let Some(primary) = table.info.indexes.iter().find(|index| index.primary) else {
            return false;
        };
        primary.columns.iter().all(|part| {
            let place = table.info.columns.iter().position(|column| column.name == part.name);
            place.is_some_and(|place| keyed(first + place))
        })
    }
}

/// A key without what fills it up.
fn bare(key: &Expr) -> &Expr {
    match key {
        Expr::Pad(inner, _) => inner,
        other => other,
    }
}
