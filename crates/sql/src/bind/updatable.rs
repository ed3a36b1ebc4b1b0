//! Tables that statements change, also under the name of a view.
//!
//! Rows are written through a view if its query only leaves out rows and columns of one table or
//! of another such view, and names or computes columns. The columns of the view are then
//! expressions over a row of the table, and its condition is one more condition of the statement.
//! PostgreSQL: `rewriteTargetView` in `rewriteHandler.c`.
//!
//! Invariants: the columns of the table have their places for numbers; a column that is computed is
//! never written.
//! Does not do: views over catalogs, triggers and rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlparser::ast::{self, GroupByExpr, SetExpr, TableFactor};

use super::from::table_relation;
use super::scope::{Relation, Scope, ScopeColumn};
use super::target::Target;
use super::{Binder, Place, trimmed};
use crate::catalog::{relation_oid, system_views};
use crate::error::{Result, SqlError, code};
use crate::expr::{self, Expr, columns_of, rename_expr};
use crate::names::schema_of;
use crate::notes::view::{CheckOption, ViewNotes};
use crate::parse::view::kept_query;
use crate::parse::{identifiers, too_complex};
use crate::plan::rel::Rel;
use crate::plan::{Table, ViewCheck};
use crate::types::declared::Modifier;

/// Most nodes of an expression that is a column of a view through which rows are written.
const MAX_COMPUTED: usize = 10_000;

const NOT_SINGLE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";
const AGGREGATES: &str = "Views that return aggregate functions are not automatically updatable.";
const WINDOWS: &str = "Views that return window functions are not automatically updatable.";
const NO_COLUMNS: &str = "Views that have no updatable columns are not automatically updatable.";

/// What a statement does to rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Insert,
    Update,
    Delete,
}

impl Action {
    /// In front of the name of a view.
    fn verb(self) -> &'static str {
        match self {
            Action::Insert => "insert into",
            Action::Update => "update",
            Action::Delete => "delete from",
        }
    }

    /// The error for a view that does not take it.
    fn refused(self, view: &Table, why: &str) -> SqlError {
        let message = format!("cannot {} view \"{}\"", self.verb(), view.bare_name());
        let (doing, event) = match self {
            Action::Insert => ("inserting into", "INSERT"),
            Action::Update => ("updating", "UPDATE"),
            Action::Delete => ("deleting from", "DELETE"),
        };
        SqlError::new(code::NOT_IN_STATE, message).detail(why).hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an \
             unconditional ON {event} DO INSTEAD rule."
        ))
    }
}

/// What a column of a relation is in the table that is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// A column, by its place.
    Column(usize),
    System,
    Computed,
}

/// A view between the name in the statement and the table.
struct Level {
    view: Arc<Table>,
    condition: Option<Expr>,
    check: Option<CheckOption>,
}

/// The table that a statement changes, and how the name in the statement shows its rows.
pub(super) struct ChangedRelation {
    pub(super) table: Arc<Table>,
    pub(super) relation: Relation,
    /// Of each column that is shown.
    origins: Vec<Origin>,
    /// From the table up.
    levels: Vec<Level>,
}

impl ChangedRelation {
    fn of_table(table: Arc<Table>) -> ChangedRelation {
        let origins = (0..table.shown().len()).map(Origin::Column).collect();
        let of_table = Some(Arc::clone(&table));
        let relation = Relation { of_table, ..table_relation(&table, 0) };
        ChangedRelation { table, relation, origins, levels: Vec::new() }
    }

    /// The name of the table or view, without a schema.
    pub(super) fn name(&self) -> &str {
        self.levels.last().map_or(self.table.bare_name(), |level| level.view.bare_name())
    }

    /// How many columns are shown.
    pub(super) fn width(&self) -> usize {
        self.origins.len()
    }

    /// Which of the columns that are shown has this name.
    pub(super) fn column(&self, name: &str) -> Result<usize> {
        let found = self.relation.columns.iter().position(|one| one.name == name && !one.hidden);
        found.ok_or_else(|| {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", self.name());
            SqlError::new(code::UNDEFINED_COLUMN, message)
        })
    }

    /// The place in the table of a column that is shown and is to be written.
    pub(super) fn place(&self, at: usize, action: Action) -> Result<usize> {
        let why = match self.origins[at] {
            Origin::Column(place) => return Ok(place),
            Origin::System => "View columns that refer to system columns are not updatable.",
            Origin::Computed => {
                "View columns that are not columns of their base relation are not updatable."
            }
        };
        let (column, verb) = (&self.relation.columns[at].name, action.verb());
        let message = format!("cannot {verb} column \"{column}\" of view \"{}\"", self.name());
        Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(why))
    }

    /// A column that is shown.
    pub(super) fn shown(&self, at: usize) -> &ScopeColumn {
        &self.relation.columns[at]
    }

    /// Is it the table itself?
    pub(super) fn is_table(&self) -> bool {
        self.levels.is_empty()
    }

    /// The views.
    pub(super) fn views(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.levels.iter().map(|level| &level.view)
    }

    /// What the views ask of rows that are changed.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Expr> {
        self.levels.iter().filter_map(|level| level.condition.as_ref())
    }

    /// What the views ask of rows that are written.
    pub(super) fn checks(&self) -> Result<Vec<ViewCheck>> {
        let (mut checks, mut cascades) = (Vec::new(), false);
        for level in self.levels.iter().rev() {
            cascades |= level.check == Some(CheckOption::Cascaded);
            let Some(condition) =
                level.condition.as_ref().filter(|_| cascades || level.check.is_some())
            else {
                continue;
            };
            let mut named = BTreeSet::new();
            columns_of(condition, &mut named);
            if named.contains(&self.table.types.len()) {
                return Err(SqlError::unsupported("WITH CHECK OPTION of a condition with ctid"));
            }
            let (view, condition) = (level.view.bare_name().to_owned(), condition.clone());
            checks.push(ViewCheck { view, condition });
        }
        checks.reverse();
        Ok(checks)
    }
}

/// What the query of a view is over what it reads.
struct Parts {
    below: ChangedRelation,
    list: Vec<Target>,
    condition: Option<Expr>,
}

impl Binder<'_> {
    /// The table that is changed under the name of `table`, which may be a view.
    pub(super) fn changed_relation(
        &mut self,
        table: Arc<Table>,
        action: Action,
    ) -> Result<ChangedRelation> {
        self.need_to_change(&table, action);
        if table.notes.stored_rows().is_some() {
            let message = format!("cannot change materialized view \"{}\"", table.bare_name());
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        let Some(notes) = table.notes.view.clone() else {
            // The old row, its `ctid`, and the new one behind them.
            let columns = table.types.len();
            let rows = if action == Action::Insert { 2 } else { 1 };
            self.new_columns(rows * columns + 1);
            return Ok(ChangedRelation::of_table(table));
        };
        let Parts { below, list, condition } = self.parts_of_view(&table, &notes, action)?;
        let system = below.table.types.len();
        let (mut columns, mut origins) = (Vec::new(), Vec::new());
        for (target, known) in list.into_iter().zip(&table.info.columns) {
            let value = self.settle(target.value)?;
            let expr = match value.modifier {
                Some(Modifier::Char(_)) => trimmed(value.expr),
                _ => value.expr,
            };
            let mut nodes = 0;
            expr.walk(&mut |_| nodes += 1);
            if nodes > MAX_COMPUTED {
                return Err(too_complex());
            }
            let origin = match &expr {
                Expr::Column(at) if *at < system => Origin::Column(*at),
                Expr::Column(at) if *at == system => Origin::System,
                _ => Origin::Computed,
            };
            let id = if let Origin::Column(at) = origin { at } else { system };
            let computed = (origin == Origin::Computed).then(|| Box::new(expr));
            let collation = value.collated.of_result();
            let plain = ScopeColumn::new(id, known.name.clone(), value.ty);
            let modifier = value.modifier;
            let shown = Some(expr::ColumnOrigin::new(relation_oid(table.info.id), columns.len()));
            let plain = ScopeColumn { modifier, collation, computed, ..plain };
            columns.push(ScopeColumn { origin: shown, ..plain });
            origins.push(origin);
        }
        if action != Action::Delete && !origins.iter().any(|one| matches!(one, Origin::Column(_))) {
            return Err(action.refused(&table, NO_COLUMNS));
        }
        let relation = Relation {
            alias: table.bare_name().to_owned(),
            schema: Some(schema_of(&table.info.name).to_owned()),
            columns,
            of_table: Some(Arc::clone(&table)),
            ..Relation::default()
        };
        let ChangedRelation { table: changed, mut levels, .. } = below;
        levels.push(Level { view: table, condition, check: notes.check });
        Ok(ChangedRelation { table: changed, relation, origins, levels })
    }

    fn parts_of_view(
        &mut self,
        view: &Arc<Table>,
        notes: &ViewNotes,
        action: Action,
    ) -> Result<Parts> {
        let kept = kept_query(&notes.query)?;
        if let Some(why) = why_not_updatable(&kept.query) {
            return Err(action.refused(view, why));
        }
        let SetExpr::Select(select) = kept.query.body.as_ref() else {
            unreachable!("refused before")
        };
        self.inside_view(view, notes, kept.depth, |binder| {
            let TableFactor::Table { name, alias, .. } = &select.from[0].relation else {
                unreachable!("refused before")
            };
            let parts = identifiers::parts(name)?;
            if system_views::relation(&parts).is_some() {
                return Err(action.refused(view, NOT_SINGLE));
            }
            let stored = binder.find(&parts)?;
            if binder.catalog.sequence(&stored).is_ok() {
                return Err(action.refused(view, NOT_SINGLE));
            }
            let table = binder.catalog.table(&stored)?;
            if table.notes.stored_rows().is_some() {
                return Err(action.refused(view, NOT_SINGLE));
            }
            let below = binder.changed_relation(table, action)?;
            let relation = binder.aliased(&parts, below.relation.clone(), alias.as_ref())?;
            binder.scope = Scope::of(relation);
            let list = binder.at_place(Place::Windows, |b| b.targets(&select.projection))?;
            if !binder.aggregates.is_empty() {
                return Err(action.refused(view, AGGREGATES));
            }
            if list.iter().any(|target| binder.windows.is_in(&target.value.expr)) {
                return Err(action.refused(view, WINDOWS));
            }
            let condition = match &select.selection {
                Some(node) => {
                    let value = binder.at_place(Place::None("WHERE"), |b| b.expr(node))?;
                    Some(binder.condition(value, "WHERE")?)
                }
                None => None,
            };
            Ok(Parts { below, list, condition })
        })
    }

    /// The columns of a row that is proposed, as the name in the statement shows them.
    pub(super) fn excluded_of(&mut self, changed: &ChangedRelation) -> Relation {
        let by = changed.table.types.len() + 1;
        let shown = changed.relation.columns.iter().filter(|column| !column.hidden);
        let columns = shown.map(|column| {
            let computed = column.computed.clone().map(|mut expr| {
                let mut shift = |id| if id < by { id + by } else { id };
                rename_expr(&mut expr, &mut shift, true);
                expr
            });
            ScopeColumn { id: column.id + by, computed, ..column.clone() }
        });
        let columns = columns.collect();
        let of_table = changed.relation.of_table.clone();
        Relation { alias: "excluded".to_owned(), columns, of_table, ..Relation::default() }
    }
}

/// Why rows cannot be written through a view of this query; `None` if its form is no reason.
pub(crate) fn why_not_updatable(query: &ast::Query) -> Option<&'static str> {
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::Query(inner) if query.with.is_none() && query.limit_clause.is_none() => {
            // Parentheses around the whole query: PostgreSQL takes them away.
            return Some(why_not_updatable(inner).unwrap_or(NOT_SINGLE));
        }
        SetExpr::SetOperation { .. } => {
            return Some(
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
            );
        }
        _ => return Some(NOT_SINGLE),
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_single = match select.from.as_slice() {
        [only] => {
            only.joins.is_empty()
                && matches!(&only.relation, TableFactor::Table { args: None, sample: None, .. })
        }
        _ => false,
    };
    let refused = [
        (select.distinct.is_some(), "Views containing DISTINCT are not automatically updatable."),
        (is_grouped, "Views containing GROUP BY are not automatically updatable."),
        (select.having.is_some(), "Views containing HAVING are not automatically updatable."),
        (query.with.is_some(), "Views containing WITH are not automatically updatable."),
        (
            query.limit_clause.is_some() || query.fetch.is_some(),
            "Views containing LIMIT or OFFSET are not automatically updatable.",
        ),
        (!is_single, NOT_SINGLE),
    ];
    refused.iter().find(|(found, _)| *found).map(|(_, why)| *why)
}

/// The same of a query that is bound as `rel`.
pub(super) fn why_not_checked(query: &ast::Query, rel: &Rel) -> Option<&'static str> {
    fn gathers(rel: &Rel) -> Option<&'static str> {
        match rel {
            Rel::Aggregate(_) => Some(AGGREGATES),
            Rel::Window { .. } => Some(WINDOWS),
            Rel::Project { input, output } => {
                let is_column = |(_, expr): &(_, Expr)| matches!(expr, Expr::Column(_));
                let has_columns = output.iter().any(is_column);
                gathers(input).or((!has_columns).then_some(NO_COLUMNS))
            }
            Rel::Filter { input, .. } | Rel::Sort { input, .. } => gathers(input),
            _ => None,
        }
    }
    why_not_updatable(query).or_else(|| gathers(rel))
}
