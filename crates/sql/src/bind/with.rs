//! WITH: common table expressions and where names mean them.
//!
//! Invariants: a name means the innermost expression of that name; one that is not RECURSIVE does
//! not see itself. Does not do: statements that write inside of WITH.

use sqlparser::ast::{self, SetExpr, SetOperator, SetQuantifier};

use super::Binder;
use super::recursion::refused;
use super::scope::{Relation, ScopeColumn};
use super::select::Purpose;
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr};
use crate::parse::identifiers;
use crate::plan::rel::{Cte, CteBody, Rel};
use crate::types::cast::{self, CastContext};

/// A common table expression that names can mean.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) name: String,
    pub(super) number: usize,
    /// What its columns are called, and their types.
    columns: Vec<ScopeColumn>,
    /// Is it the one that is being bound, which its second part reads?
    pub(super) is_recursive: bool,
    /// Has its second part read it?
    is_read: bool,
    /// Is it being bound and has no second part, so that nothing in it may read it?
    is_forbidden: bool,
    /// Does it write without RETURNING, so that nobody can read it?
    pub(super) returns_nothing: bool,
}

/// The two parts of a recursive expression.
struct Parts<'q> {
    first: &'q SetExpr,
    step: &'q SetExpr,
    /// UNION ALL?
    all: bool,
}

/// A common table expression as a source.
pub(super) struct CommonSource {
    pub(super) rel: Rel,
    pub(super) relation: Relation,
}

impl Binder<'_> {
    /// Binds the expressions of WITH, which names mean from then on.
    pub(super) fn definitions(&mut self, with: Option<&ast::With>) -> Result<Vec<Cte>> {
        let Some(with) = with else { return Ok(Vec::new()) };
        let mut definitions: Vec<Cte> = Vec::new();
        for cte in self.sorted_definitions(with)? {
            self.definition(cte, with.recursive, &mut definitions)?;
        }
        Ok(definitions)
    }

    /// The expressions of WITH, those that others read in front of these. Where they are not
    /// RECURSIVE they are read by later ones only, as they stand.
    pub(super) fn sorted_definitions<'w>(&self, with: &'w ast::With) -> Result<Vec<&'w ast::Cte>> {
        let names: Vec<String> =
            with.cte_tables.iter().map(|cte| identifiers::ident(&cte.alias.name)).collect();
        let at = |of: usize| self.lines.position(with.cte_tables[of].alias.name.span);
        if let Some(twice) = (0..names.len()).find(|of| names[..*of].contains(&names[*of])) {
            let message = format!("WITH query name \"{}\" specified more than once", names[twice]);
            return Err(SqlError::new(code::DUPLICATE_ALIAS, message).at(at(twice)));
        }
        if !with.recursive {
            return Ok(with.cte_tables.iter().collect());
        }
        let mut waiting: Vec<usize> = (0..names.len()).collect();
        let mut sorted = Vec::with_capacity(names.len());
        while let Some(first) = waiting.first().copied() {
            let reads = |of: usize, other: usize| {
                of != other && names_table(&with.cte_tables[of].query.body, &names[other])
            };
            let is_free = |of: &usize| !waiting.iter().any(|other| reads(*of, *other));
            let Some(place) = waiting.iter().position(is_free) else {
                let message = "mutual recursion between WITH items is not implemented";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).at(at(first)));
            };
            sorted.push(&with.cte_tables[waiting.remove(place)]);
        }
        Ok(sorted)
    }

    /// Binds an expression of WITH, which its name means from then on.
    pub(super) fn definition(
        &mut self,
        cte: &ast::Cte,
        recursive: bool,
        definitions: &mut Vec<Cte>,
    ) -> Result<()> {
        let name = identifiers::ident(&cte.alias.name);
        let position = self.lines.position(cte.alias.name.span);
        if writes(&cte.query) {
            let message =
                "WITH clause containing a data-modifying statement must be at the top level";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).at(position));
        }
        let definition = match (&*cte.query.body, recursive) {
            (
                SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right },
                true,
            ) if names_table(right, &name) => {
                let all = *set_quantifier == SetQuantifier::All;
                let parts = Parts { first: left, step: right, all };
                self.recursive(cte, parts, definitions)?
            }
            (body, true) if names_table(body, &name) => {
                let message = format!(
                    "recursive query \"{name}\" does not have the form non-recursive-term UNION \
                     [ALL] recursive-term"
                );
                return Err(SqlError::new(code::INVALID_RECURSION, message).at(position));
            }
            (_, false) => self.common_query(cte)?,
            (_, true) => {
                let known = self.commons.len();
                self.new_common(&name, Vec::new(), false);
                self.commons[known].is_forbidden = true;
                let definition = self.common_query(cte);
                self.commons.remove(known);
                definition?
            }
        };
        definitions.push(definition);
        Ok(())
    }

    fn common_query(&mut self, cte: &ast::Cte) -> Result<Cte> {
        let bound = self.apart(|binder| binder.query_for(&cte.query, Purpose::Inner))?;
        super::lock::refuse_locks(&bound)?;
        let name = identifiers::ident(&cte.alias.name);
        let columns = named(bound.scope_columns(), &cte.alias)?;
        let number = self.new_common(&name, columns, false);
        let materialized = match cte.materialized {
            Some(ast::CteAsMaterialized::Materialized) => Some(true),
            Some(ast::CteAsMaterialized::NotMaterialized) => Some(false),
            None => None,
        };
        let body = CteBody::Query { rel: bound.rel, materialized };
        Ok(Cte { number, name, body, columns: bound.output })
    }

    /// A recursive expression. Those that are defined inside of it are put among the others.
    fn recursive(
        &mut self,
        cte: &ast::Cte,
        parts: Parts<'_>,
        others: &mut Vec<Cte>,
    ) -> Result<Cte> {
        let Parts { first, step, all } = parts;
        let query = &cte.query;
        if query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
            return Err(SqlError::unsupported("ORDER BY or LIMIT in a recursive query"));
        }
        if !query.locks.is_empty() {
            return Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in a recursive query"));
        }
        let known = self.commons.len();
        others.extend(self.definitions(query.with.as_ref())?);
        let name = identifiers::ident(&cte.alias.name);
        if names_table(first, &name) {
            return Err(refused(&name, "within its non-recursive term"));
        }
        let start = self.apart(|binder| binder.plain_body(first))?;
        let columns = named(start.scope_columns(), &cte.alias)?;
        let number = self.new_common(&name, columns.clone(), true);
        let next = self.apart(|binder| binder.plain_body(step));
        self.commons.truncate(known);
        let mut next = next?;
        if next.columns.len() != start.columns.len() {
            return Err(SqlError::syntax("each UNION query must have the same number of columns"));
        }
        let mut output: Vec<Expr> = Vec::with_capacity(columns.len());
        for (at, (first, next)) in start.columns.iter().zip(next.scope_columns()).enumerate() {
            let value = next.value();
            if cast::context(value.ty, first.ty).is_none_or(|needed| needed > CastContext::Implicit)
            {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but \
                     type {} overall",
                    at + 1,
                    first.ty.name(),
                    value.ty.name()
                );
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message)
                    .hint("Cast the output of the non-recursive term to the correct type."));
            }
            output.push(self.coerce(value, first.ty)?);
        }
        let step_columns = self.project(&mut next.rel, output);
        let first_columns = start.output;
        // From here on the name means all of its rows.
        let common = Common {
            name: name.clone(),
            number,
            columns,
            is_recursive: false,
            is_read: false,
            is_forbidden: false,
            returns_nothing: false,
        };
        self.commons.push(common);
        let ids: Vec<ColumnId> = first_columns.clone();
        let body = CteBody::Recursive {
            first: start.rel,
            first_columns,
            step: next.rel,
            step_columns,
            all,
        };
        Ok(Cte { number, name, body, columns: ids })
    }

    pub(super) fn new_common(
        &mut self,
        name: &str,
        columns: Vec<ScopeColumn>,
        is_recursive: bool,
    ) -> usize {
        let number = self.next_common;
        self.next_common += 1;
        self.commons.push(Common {
            name: name.to_owned(),
            number,
            columns,
            is_recursive,
            is_read: false,
            is_forbidden: false,
            returns_nothing: false,
        });
        number
    }

    /// The common table expression of this name.
    pub(super) fn common(&mut self, name: &str) -> Result<Option<CommonSource>> {
        let known = self.commons.iter_mut().rev().find(|common| common.name == name);
        let Some(known) = known else { return Ok(None) };
        if known.is_forbidden {
            return Err(refused(name, "within a subquery"));
        }
        if known.is_recursive && std::mem::replace(&mut known.is_read, true) {
            return Err(refused(name, "more than once"));
        }
        let found = known.clone();
        if found.returns_nothing {
            let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        self.used_commons.push(found.number);
        let first = self.new_columns(found.columns.len());
        let ids: Vec<ColumnId> = (first..first + found.columns.len()).collect();
        let columns = found.columns.into_iter().zip(&ids);
        let columns = columns.map(|(column, id)| ScopeColumn { id: *id, ..column }).collect();
        let relation = Relation { columns, ..Relation::default() };
        let (cte, name) = (found.number, found.name);
        let rel = Rel::CteScan { cte, columns: ids, name, is_step: found.is_recursive };
        Ok(Some(CommonSource { rel, relation }))
    }
}

/// Does an expression of WITH write?
pub(super) fn writes(query: &ast::Query) -> bool {
    matches!(&*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
}

/// The columns under the names that are given behind the expression's.
pub(super) fn named(
    mut columns: Vec<ScopeColumn>,
    alias: &ast::TableAlias,
) -> Result<Vec<ScopeColumn>> {
    if alias.columns.len() > columns.len() {
        let message = format!(
            "WITH query \"{}\" has {} columns available but {} columns specified",
            identifiers::ident(&alias.name),
            columns.len(),
            alias.columns.len()
        );
        return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, new) in columns.iter_mut().zip(&alias.columns) {
        column.name = identifiers::ident(&new.name);
    }
    Ok(columns)
}

/// Does a part of a query read a table of this name?
fn names_table(body: &SetExpr, name: &str) -> bool {
    let is_it = |factor: &ast::TableFactor| match factor {
        ast::TableFactor::Table { name: of, .. } => identifiers::parts(of)
            .is_ok_and(|parts| matches!(parts.as_slice(), [one] if one == name)),
        ast::TableFactor::Derived { subquery, .. } => names_table(&subquery.body, name),
        ast::TableFactor::NestedJoin { table_with_joins, .. } => reads(table_with_joins, name),
        _ => false,
    };
    match body {
        SetExpr::Select(select) => select.from.iter().any(|item| {
            is_it(&item.relation) || item.joins.iter().any(|join| is_it(&join.relation))
        }),
        SetExpr::Query(query) => names_table(&query.body, name),
        SetExpr::SetOperation { left, right, .. } => {
            names_table(left, name) || names_table(right, name)
        }
        _ => false,
    }
}

fn reads(item: &ast::TableWithJoins, name: &str) -> bool {
    let select = |factor: &ast::TableFactor| match factor {
        ast::TableFactor::Table { name: of, .. } => identifiers::parts(of)
            .is_ok_and(|parts| matches!(parts.as_slice(), [one] if one == name)),
        ast::TableFactor::Derived { subquery, .. } => names_table(&subquery.body, name),
        ast::TableFactor::NestedJoin { table_with_joins, .. } => reads(table_with_joins, name),
        _ => false,
    };
    select(&item.relation) || item.joins.iter().any(|join| select(&join.relation))
}
