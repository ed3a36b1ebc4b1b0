//! Views: their queries in the place of their names, and what is kept of a new one.
//!
//! The query of a view is bound apart from the statement that names the view: it sees neither its
//! sources nor its common table expressions, and its names mean what they meant when the view was
//! made ([`ViewNotes`]).
//!
//! Invariants: the columns of a view have numbers of their own, so that nobody takes them for those
//! of the tables below; views in views have a bounded number of levels together.
//! Does not do: changing rows through a view (`updatable`).

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlparser::ast::{self, Query, SetExpr, TableAlias};

use super::from::{Sourced, renamed};
use super::functions::Arguments;
use super::lock::refuse_locks;
use super::reading::Reading;
use super::scope::{Relation, Scope, ScopeColumn};
use super::select::Purpose;
use super::updatable::why_not_checked;
use super::view_text::{FoundForm, ViewText};
use super::writing_with::writes_in_with;
use super::{Binder, Place};
use crate::catalog::relation_oid;
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, ColumnOrigin, Expr, SubqueryKind};
use crate::names::{SEPARATOR, bare, schema_of, type_of_entry};
use crate::notes::view::{ViewColumn, ViewNotes, ViewSource};
use crate::parse::identifiers;
use crate::parse::view::{MAX_VIEW_DEPTH, kept_query, kept_text};
use crate::plan::bound::Bound;
use crate::plan::rel::{BoundSubquery, CteBody, Rel};
use crate::plan::{Column, Table};
use crate::roles::role::OWNER;

/// What a binder knows of views.
#[derive(Default)]
pub(super) struct Views {
    /// The one whose query is being bound.
    pub(super) inside: Option<Arc<ViewNotes>>,
    /// Levels of the queries of views around.
    levels: usize,
    /// What the query of a new view names, if it is one.
    named: Option<Vec<Named>>,
    /// First columns of the views that it reads.
    firsts: BTreeSet<ColumnId>,
    /// Columns that `*` stands for in it.
    pub(super) starred: Vec<ColumnId>,
    /// Is it what a new view keeps, or reads, that is bound?
    is_checked: bool,
    /// The notes about the text that a new view keeps, while the binder binds it.
    pub(super) text: Option<ViewText>,
}

impl Views {
    /// Is it the query of a new view that is bound, as it was sent or as it is kept?
    pub(super) fn is_new(&self) -> bool {
        self.named.is_some() || self.text.is_some()
    }

    /// Is something bound to make a view, and not to read it?
    pub(super) fn is_made(&self) -> bool {
        self.is_new() || self.is_checked
    }
}

/// A relation that the query of a new view names.
struct Named {
    written: Vec<String>,
    name: String,
    /// Its columns and their numbers; none of a sequence.
    columns: Vec<(String, ColumnId)>,
}

/// What a binder sets aside while it binds the query of a view.
struct Aside {
    scope: Scope,
    outer: Vec<Scope>,
    changed: Option<Scope>,
    commons: Vec<super::with::Common>,
    set_depth: usize,
    kept: bool,
    reading: Reading,
    views: Views,
}

/// The query of a new view.
pub(crate) struct NewQuery {
    pub(crate) columns: Vec<Column>,
    pub(crate) notes: ViewNotes,
}

impl Binder<'_> {
    /// A view as a source.
    pub(super) fn view_source(
        &mut self,
        view: &Arc<Table>,
        notes: &ViewNotes,
        written: &[String],
        alias: Option<&TableAlias>,
    ) -> Result<Sourced> {
        let kept = kept_query(&notes.query)?;
        let bound = self.inside_view(view, notes, kept.depth, |binder| {
            binder.query_for(&kept.query, Purpose::Inner)
        })?;
        refuse_locks(&bound)?;
        if bound.output.len() != view.types.len() {
            let message = format!("the query of view \"{}\" has other columns", view.bare_name());
            return Err(SqlError::new(code::INTERNAL, message));
        }
        let first = self.new_columns(bound.output.len());
        self.scans.push((first, Arc::clone(view)));
        self.views.firsts.insert(first);
        let values = bound.output.iter().map(|id| Expr::Column(*id));
        let output = (first..).zip(values).collect();
        let own = bound.scope_columns().into_iter().zip(&view.info.columns).enumerate();
        let columns = own.map(|(at, (column, known))| ScopeColumn {
            id: first + at,
            name: known.name.clone(),
            origin: Some(ColumnOrigin::new(relation_oid(view.info.id), at)),
            ..column
        });
        let relation = Relation {
            alias: view.bare_name().to_owned(),
            schema: Some(schema_of(&view.info.name).to_owned()),
            columns: columns.collect(),
            of_table: Some(Arc::clone(view)),
            ..Relation::default()
        };
        let rel = Rel::Project { input: Box::new(bound.rel), output };
        self.note_columns(written, &relation);
        Ok(Sourced::of(rel, self.aliased(written, relation, alias)?))
    }

    /// The rows that the query of a materialized view gives now.
    pub(crate) fn rows_of_view(&mut self, view: &Table, notes: &ViewNotes) -> Result<Bound> {
        let kept = kept_query(&notes.query)?;
        self.inside_view(view, notes, kept.depth, |binder| binder.kept_rows(&kept.query))
    }

    /// Binds a part of the query of a view, which counts for `depth` levels.
    pub(super) fn inside_view<T>(
        &mut self,
        view: &Table,
        notes: &ViewNotes,
        depth: usize,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let levels = self.levels_with(depth)?;
        let inside = Some(Arc::new(notes.clone()));
        let is_checked = self.views.is_made();
        let aside = self.set_aside(Views { inside, levels, is_checked, ..Views::default() });
        let owner = Some(view.notes.owner.unwrap_or(OWNER));
        let needed_by = std::mem::replace(&mut self.needed_by, owner);
        let done = self.alone(work);
        self.needed_by = needed_by;
        self.take_back(aside);
        // Positions are those of another text.
        done.map_err(|error| match error.sqlstate {
            code::UNDEFINED_TABLE | code::UNDEFINED_COLUMN => SqlError {
                position: None,
                detail: Some(format!("The view \"{}\" reads it.", view.bare_name())),
                ..error
            },
            _ => SqlError { position: None, ..error },
        })
    }

    /// The levels of views and bodies around, with so many more.
    fn levels_with(&self, depth: usize) -> Result<usize> {
        let levels = self.views.levels + depth;
        if levels > MAX_VIEW_DEPTH { Err(crate::parse::too_complex()) } else { Ok(levels) }
    }

    /// Binds the body of a function, which counts for `depth` levels and sees its arguments.
    pub(super) fn inside_function(
        &mut self,
        around: Scope,
        arguments: Arguments,
        depth: usize,
        work: impl FnOnce(&mut Self) -> Result<Bound>,
    ) -> Result<Bound> {
        let levels = self.levels_with(depth)?;
        let aside = self.set_aside(Views { levels, ..Views::default() });
        self.outer.push(around);
        self.reading.times = aside.reading.times.clone();
        let arguments = self.arguments.replace(arguments);
        // Places in the body are none of the text that calls.
        let (mentions, qualifiers) = (self.mentions.len(), std::mem::take(&mut self.qualifiers));
        let done = self.apart(work);
        self.mentions.truncate(mentions);
        (self.arguments, self.qualifiers) = (arguments, qualifiers);
        self.take_back(aside);
        // Positions are those of another text.
        done.map_err(|error| SqlError { position: None, ..error })
    }

    /// Binds a query as if nothing were around it.
    fn alone<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let aggregates = std::mem::take(&mut self.aggregates);
        let windows = std::mem::take(&mut self.windows);
        let place = std::mem::replace(&mut self.place, Place::None("here"));
        let done = work(self);
        (self.aggregates, self.place) = (aggregates, place);
        self.windows = windows;
        done
    }

    fn set_aside(&mut self, views: Views) -> Aside {
        Aside {
            scope: std::mem::take(&mut self.scope),
            outer: std::mem::take(&mut self.outer),
            changed: self.changed.take(),
            commons: std::mem::take(&mut self.commons),
            set_depth: std::mem::take(&mut self.set_depth),
            kept: std::mem::take(&mut self.kept),
            reading: std::mem::take(&mut self.reading),
            views: std::mem::replace(&mut self.views, views),
        }
    }

    fn take_back(&mut self, aside: Aside) {
        let Aside { scope, outer, changed, commons, set_depth, kept, reading, views } = aside;
        self.reading = reading;
        (self.scope, self.outer, self.changed) = (scope, outer, changed);
        (self.commons, self.set_depth, self.kept, self.views) = (commons, set_depth, kept, views);
    }

    /// A relation under its alias, which in the query of a view also names columns that are gone.
    pub(super) fn aliased(
        &self,
        written: &[String],
        relation: Relation,
        alias: Option<&TableAlias>,
    ) -> Result<Relation> {
        let relation = self.as_written(written, relation)?;
        let gone: Vec<usize> =
            self.written_source(written).map(|source| source.gone().collect()).unwrap_or_default();
        let (Some(alias), false) = (alias, gone.is_empty()) else {
            return renamed(relation, alias);
        };
        let mut alias = alias.clone();
        let mut at = 0..;
        alias.columns.retain(|_| at.next().is_some_and(|at| !gone.contains(&at)));
        renamed(relation, Some(&alias))
    }

    /// The note that the view which is being bound has of a relation, if that is not its own.
    fn written_source(&self, written: &[String]) -> Option<&ViewSource> {
        let notes = self.views.inside.as_ref().filter(|_| !self.kept)?;
        notes.source(written)
    }

    /// What a relation that is not the view's own has columns for in the query of a view that is
    /// being bound: those that were there when the view was made, under the names of then.
    fn as_written(&self, written: &[String], relation: Relation) -> Result<Relation> {
        let Some(source) = self.written_source(written) else { return Ok(relation) };
        let mut columns = Vec::with_capacity(source.columns.len());
        for column in source.columns.iter().filter(|column| !column.is_gone()) {
            let found = relation.columns.iter().find(|known| known.name == column.name);
            let found = found.ok_or_else(|| {
                let (name, table) = (&column.name, bare(&source.name));
                let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
                SqlError::new(code::UNDEFINED_COLUMN, message)
            })?;
            columns.push(ScopeColumn { name: column.written.clone(), ..found.clone() });
        }
        columns.extend(relation.columns.into_iter().filter(|column| column.hidden));
        Ok(Relation {
            alias: bare(&source.was).to_owned(),
            schema: Some(schema_of(&source.was).to_owned()),
            columns,
            of_table: relation.of_table,
            ..Relation::default()
        })
    }

    /// What the store calls the relation that these parts name in the query of a view that is being
    /// bound.
    pub(super) fn found_in_view(&self, parts: &[String]) -> Option<String> {
        let notes = self.views.inside.as_ref()?;
        notes.source(parts).map(|source| source.name.clone())
    }

    /// Remembers that the query of a new view names a relation.
    pub(super) fn note_name(&mut self, written: &[String], name: &str) {
        let Some(named) = &mut self.views.named else { return };
        let (written, name) = (written.to_vec(), name.to_owned());
        named.push(Named { written, name, columns: Vec::new() });
    }

    /// What the store calls the type that these parts name in the query of a view that is being
    /// bound.
    pub(super) fn type_in_view(&self, parts: &[String]) -> Option<String> {
        let notes = self.views.inside.as_ref()?;
        let source = notes.source(&written_type(parts))?;
        // Rows of a table have a type without an entry of its own.
        Some(type_of_entry(&source.name).unwrap_or_else(|| source.name.clone()))
    }

    /// Remembers that the query of a new view names a type that was made.
    pub(super) fn note_type(&mut self, parts: &[String], entry: &str) {
        self.note_name(&written_type(parts), entry);
    }

    /// The entries of the functions that these parts name in the query of a view that is being
    /// bound; `None` outside of one.
    pub(super) fn functions_in_view(&self, parts: &[String]) -> Option<Vec<String>> {
        let notes = self.views.inside.as_ref()?;
        let is_it = |source: &&ViewSource| source.written == written_function(parts, &source.was);
        Some(notes.sources.iter().filter(is_it).map(|source| source.name.clone()).collect())
    }

    /// Remembers that the query of a new view calls the function that is kept as `entry`.
    pub(super) fn note_function(&mut self, parts: &[String], entry: &str) {
        if !self.views.is_new() || self.kept {
            return;
        }
        let was = match &self.views.inside {
            Some(notes) => notes.sources.iter().find(|source| source.name == entry),
            None => None,
        };
        let written = written_function(parts, was.map_or(entry, |source| &source.was));
        self.note_name(&written, entry);
        self.find_in_text(self.callee, &written, FoundForm::Function);
    }

    /// Remembers which columns a relation has that the query of a new view names.
    pub(super) fn note_columns(&mut self, written: &[String], relation: &Relation) {
        let Some(named) = &mut self.views.named else { return };
        let shown = relation.columns.iter().filter(|column| !column.hidden);
        let columns = shown.map(|column| (column.name.clone(), column.id)).collect();
        let last = named.iter_mut().rev().find(|one| one.written == written);
        last.into_iter().for_each(|one| one.columns.clone_from(&columns));
    }

    /// Binds the query of a new view.
    pub(crate) fn new_view(&mut self, query: &Query, is_checked: bool) -> Result<NewQuery> {
        if matches!(query.body.as_ref(), SetExpr::Select(select) if select.into.is_some()) {
            let message = "views must not contain SELECT INTO";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        if writes_in_with(query) {
            let message = "views must not contain data-modifying statements in WITH";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        self.views.named = Some(Vec::new());
        let bound = self.query_for(query, Purpose::Inner)?;
        refuse_locks(&bound)?;
        if !self.params.is_empty() {
            let message = "there is no parameter $1";
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
        }
        if let Some(why) = why_not_checked(query, &bound.rel).filter(|_| is_checked) {
            let message = "WITH CHECK OPTION is supported only on automatically updatable views";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).hint(why));
        }
        let mut used: BTreeSet<ColumnId> = bound.output.iter().copied().collect();
        self.gather_used(&bound.rel, &mut used);
        used.extend(std::mem::take(&mut self.views.starred));
        let mut sources: Vec<ViewSource> = Vec::new();
        for one in self.views.named.take().unwrap_or_default() {
            let column = |(name, id): &(String, ColumnId)| ViewColumn {
                written: name.clone(),
                name: name.clone(),
                is_used: used.contains(id),
            };
            let columns: Vec<ViewColumn> = one.columns.iter().map(column).collect();
            match sources.iter_mut().find(|known| known.written == one.written) {
                None => {
                    let (written, was, name) = (one.written, one.name.clone(), one.name);
                    sources.push(ViewSource { written, was, name, columns });
                }
                Some(known) if known.columns.is_empty() => known.columns = columns,
                Some(known) => {
                    for (known, also) in known.columns.iter_mut().zip(columns) {
                        known.is_used |= also.is_used;
                    }
                }
            }
        }
        let notes = ViewNotes { query: kept_text(query)?, sources, ..ViewNotes::default() };
        Ok(NewQuery { columns: bound.columns, notes })
    }

    /// The notes about the text that a new view keeps. Fails unless the text gives these columns,
    /// as the query that was sent does.
    pub(crate) fn text_of_view(
        &mut self,
        notes: &ViewNotes,
        columns: &[Column],
    ) -> Result<ViewText> {
        self.views.text = Some(ViewText::default());
        self.check_kept(notes, columns)?;
        Ok(self.views.text.take().unwrap_or_default())
    }

    /// Fails unless the query that is kept of a new view gives these columns.
    pub(crate) fn check_kept(&mut self, notes: &ViewNotes, columns: &[Column]) -> Result<()> {
        let kept = kept_query(&notes.query)?;
        self.views.inside = Some(Arc::new(notes.clone()));
        self.views.levels = kept.depth;
        self.views.is_checked = true;
        let bound: Bound = self.query_for(&kept.query, Purpose::Inner)?;
        let same = |(a, b): (&Column, &Column)| a.name == b.name && a.ty == b.ty;
        if bound.columns.len() == columns.len() && bound.columns.iter().zip(columns).all(same) {
            return Ok(());
        }
        Err(SqlError::unsupported("a view whose query reads otherwise when it is kept"))
    }

    /// Columns that a relation names in whatever place, views that it reads left out.
    fn gather_used(&self, rel: &Rel, used: &mut BTreeSet<ColumnId>) {
        if let Rel::Project { output, .. } = rel
            && output.first().is_some_and(|(id, _)| self.views.firsts.contains(id))
        {
            return;
        }
        match rel {
            Rel::Distinct { columns, .. } => used.extend(columns),
            Rel::DistinctOn { columns, sort, .. } => {
                used.extend(columns);
                used.extend(sort.iter().map(|key| key.at));
            }
            Rel::Sort { keys, .. } => used.extend(keys.iter().map(|key| key.at)),
            Rel::Window { window, .. } => {
                used.extend(window.partition.iter().chain(&window.order).map(|key| key.at));
            }
            Rel::Limit(limit) => {
                used.extend(limit.ties.iter().flatten().map(|key| key.at));
            }
            Rel::SetOp(set) => used.extend(set.left_columns.iter().chain(&set.right_columns)),
            Rel::With { definitions, .. } => {
                for cte in definitions {
                    used.extend(&cte.columns);
                    if let CteBody::Recursive { first_columns, step_columns, .. } = &cte.body {
                        used.extend(first_columns.iter().chain(step_columns));
                    }
                }
            }
            _ => {}
        }
        rel.exprs().into_iter().for_each(|expr| self.gather_used_by(expr, used));
        rel.inputs().into_iter().for_each(|input| self.gather_used(input, used));
    }

    fn gather_used_by(&self, expr: &Expr, used: &mut BTreeSet<ColumnId>) {
        expr.walk(&mut |inner| match inner {
            Expr::Column(id) => drop(used.insert(*id)),
            Expr::Subquery(query) => {
                if let SubqueryKind::Compare { test, .. } = &query.kind {
                    self.gather_used_by(test, used);
                }
                if let Some(BoundSubquery { rel, output }) = BoundSubquery::of(query) {
                    used.extend(output);
                    self.gather_used(rel, used);
                }
            }
            _ => {}
        });
    }
}

/// The parts of the name of a type, as no relation can be named.
pub(super) fn written_type(parts: &[String]) -> Vec<String> {
    std::iter::once(SEPARATOR.to_string()).chain(parts.iter().cloned()).collect()
}

/// The parts of the name of a function, as no relation and no other function of the name can be
/// named.
fn written_function(parts: &[String], entry: &str) -> Vec<String> {
    let own = [SEPARATOR.to_string(), entry.to_owned()];
    own.into_iter().chain(parts.iter().cloned()).collect()
}

/// The columns that a view has: those of its query, under the names that are given.
pub(crate) fn columns_of_view(columns: &[Column], given: &[ast::Ident]) -> Result<Vec<Column>> {
    let mut all = columns.to_vec();
    for (column, name) in all.iter_mut().zip(given) {
        column.name = identifiers::ident(name);
    }
    for (at, column) in all.iter().enumerate() {
        if all[..at].iter().any(|known| known.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
    }
    Ok(all)
}
