//! INSERT, UPDATE and DELETE.
//!
//! The rows that an UPDATE with FROM or a DELETE with USING changes are those of a query, the join
//! of the table with the sources. Beside a row of the table it gives the columns of the others that
//! the expressions name.
//!
//! Invariants: a column is written at most once; a value is cast as an assignment; the columns of
//! the table that is changed have their places for numbers.
//! Does not do: WHERE CURRENT OF with FROM or USING.

use std::collections::BTreeSet;
use std::sync::Arc;

use rightlink::IndexInfo;
use sqlparser::ast::{
    self, ConflictTarget, FromTable, OnConflictAction, OnInsert, SetExpr, TableFactor, TableObject,
    TableWithJoins, UpdateTableFromKind,
};

use super::elements::{Assignments, InsertTarget};
use super::from::renamed;
use super::join::hidden;
use super::lock::refuse_locks;
use super::scope::Scope;
use super::select::{Purpose, is_default};
use super::updatable::{Action, ChangedRelation};
use super::{Binder, Place, Slot};
use crate::catalog::system_views;
use crate::error::{Result, SqlError, code};
use crate::expr;
use crate::expr::{ColumnId, Expr};
use crate::names::{bare, beside, is_computed};
use crate::parse::assigned::{Assigned, assigned};
use crate::parse::cursor::{CURRENT, Overriding};
use crate::parse::{ARBITER, identifiers};
use crate::plan::bound::Bound;
use crate::plan::path::Path;
use crate::plan::rel::{self, Join, JoinKind, Rel};
use crate::plan::rewrite::is_asked_once;
use crate::plan::term::{flatten, parts_of};
use crate::plan::{
    Asks, Change, Conflict, Given, Insert, Query, Reads, Returning, Table, TableScan, Target,
    computed, lower, path, predicate, shape,
};
use crate::privileges::Privileges;

/// What ON CONFLICT says beside names of columns.
struct ConflictKey<'k> {
    /// The rows that a partial index must hold to say what is in the way.
    only: Option<&'k ast::Expr>,
    /// Expressions, under the names that stand for them.
    expressions: &'k [ast::Setting],
}

/// The number of no column: of a view through which rows are written nothing is read.
const NO_COLUMN: ColumnId = usize::MAX / 2;

/// The rows that an UPDATE or DELETE looks at.
struct Candidates {
    scan: TableScan,
    changed: ChangedRelation,
    /// Those of the table beside those of FROM or USING.
    joined: Option<Rel>,
}

impl Binder<'_> {
    /// Binds an INSERT.
    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<Insert> {
        refuse_insert(insert)?;
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into this"));
        };
        let position = self.position(name);
        let named = self.table_named(&identifiers::parts(name)?).map_err(|e| e.at(position))?;
        let changed = self.changed_relation(named, Action::Insert)?;
        let (table, asked) = (Arc::clone(&changed.table), self.scans.len());
        let named = self.insert_columns(&changed, &insert.columns)?;
        let (targets, parts) = self.insert_slots(&changed, &named)?;
        let overriding = Overriding::of(insert);
        let source = match &insert.source {
            Some(query) => self.apart(|b| b.query_for(query, Purpose::Into(&targets)))?,
            // The one row of DEFAULT VALUES, without columns.
            None => Bound::new(Rel::Single, Vec::new(), Vec::new()),
        };
        refuse_locks(&source)?;
        let width = source.columns.len();
        if width > targets.len() {
            let message = "INSERT has more expressions than target columns";
            return Err(SqlError::syntax(message));
        }
        if width < targets.len() && !insert.columns.is_empty() {
            return Err(SqlError::syntax("INSERT has more target columns than expressions"));
        }
        let columns = written_places(&changed, &named[..width])?;
        refuse_generated(&table, &columns, insert.source.as_deref(), overriding.is_none())?;
        let (source, columns) = self.of_parts(source, &table, columns, parts);
        let mut given = Vec::with_capacity(table.types.len());
        for at in 0..table.types.len() {
            let passed_over = overriding == Some(Overriding::User) && is_identity(&table, at);
            given.push(match columns.iter().position(|column| *column == at) {
                Some(place) if !passed_over => Given::Place(place),
                _ => Given::Default(self.default_of(&table, at)?),
            });
        }
        let mut rules = self.rules(&table)?;
        rules.view_checks = changed.checks()?;
        let source = self.planned(source)?;
        // What the views ask is asked of rows that are written; the source is planned.
        self.scans.truncate(asked);
        self.keep_views(&changed);
        let mut relation = changed.relation.clone();
        if let Some(alias) = &insert.table_alias {
            (relation.alias, relation.schema) = (identifiers::ident(&alias.alias), None);
        }
        let own = Scope::of(relation);
        self.scope = own.clone();
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(on)) => {
                let mut settings = insert.settings.iter().flatten();
                let only = settings.find(|one| one.key.value == ARBITER).map(|one| &one.value);
                let all = insert.settings.iter().flatten();
                let expressions: Vec<_> =
                    all.filter(|one| is_computed(&one.key.value)).cloned().collect();
                let target = ConflictKey { only, expressions: &expressions };
                Some(self.conflict(on, &target, &changed)?)
            }
            Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY")),
        };
        self.scope = own;
        let mut returning =
            self.at_place(Place::None("RETURNING"), |b| b.returning(insert.returning.as_deref()))?;
        let mut conflict = conflict;
        let of_returning: Vec<&Expr> = returning.iter().flat_map(|one| &one.output).collect();
        self.need_to_read(&changed, &of_returning);
        if let Some(conflict) = &conflict {
            // What tells rows apart is read.
            if !matches!(conflict.target, Target::Any) {
                self.need_all(&changed, Privileges::SELECT);
            }
            if conflict.assignments.is_some() {
                self.need_all(&changed, Privileges::UPDATE);
            }
        }
        let mut exprs = returning_exprs(&mut returning);
        if let Some(conflict) = &mut conflict {
            let assigned = conflict.assignments.iter_mut().flatten().map(|(_, value)| value);
            exprs.extend(assigned.chain(&mut conflict.condition));
        }
        exprs.extend(rules.view_checks.iter_mut().map(|check| &mut check.condition));
        let layout: Vec<ColumnId> = (0..2 * table.types.len() + 1).collect();
        let reads = self.reads(exprs, &layout)?;
        let (source, asks) = (Arc::new(source), Asks::default());
        Ok(Insert { table, given, source, conflict, rules, returning, asks, reads })
    }

    fn conflict(
        &mut self,
        on: &ast::OnConflict,
        key: &ConflictKey<'_>,
        changed: &ChangedRelation,
    ) -> Result<Conflict> {
        let table = &changed.table;
        let target = match &on.conflict_target {
            None => Target::Any,
            Some(ConflictTarget::Columns(columns)) => {
                let mut names = Vec::with_capacity(columns.len());
                for name in columns {
                    if is_computed(&name.value) {
                        names.push(self.computed_in_key(&name.value, key, changed)?);
                        continue;
                    }
                    let at = changed.column(&identifiers::ident(name))?;
                    let place = changed.place(at, Action::Insert).map_err(|_| no_target())?;
                    names.push(table.info.columns[place].name.clone());
                }
                match key.only {
                    Some(_) if !changed.is_table() => {
                        return Err(SqlError::unsupported("ON CONFLICT WHERE through a view"));
                    }
                    Some(only) => self.partial_target(names, only, table)?,
                    None => Target::Columns(names),
                }
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                match identifiers::parts(name)?.as_slice() {
                    [name] if !changed.is_table() => {
                        return Err(no_constraint(name, changed.name()));
                    }
                    [name] => Target::Index(beside(&table.info.name, name)),
                    _ => return Err(SqlError::syntax("syntax error at or near \".\"")),
                }
            }
        };
        check_target(&target, table)?;
        let OnConflictAction::DoUpdate(update) = &on.action else {
            return Ok(Conflict { target, assignments: None, condition: None });
        };
        if matches!(target, Target::Any) {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint \
                           name";
            return Err(SqlError::syntax(message).hint("For example, ON CONFLICT (column_name)."));
        }
        let excluded = self.excluded_of(changed);
        // A name without a source may be either row's, and is ambiguous.
        self.scope.shown.extend(excluded.columns.iter().cloned());
        self.scope.relations.push(excluded);
        let mut assignments = Assignments::default();
        for assignment in &update.assignments {
            self.assignment(assignment, changed, &mut assignments)?;
        }
        let assignments = assignments.values;
        let condition = match &update.selection {
            Some(node) => {
                let value = self.at_place(Place::None("WHERE"), |binder| binder.expr(node))?;
                Some(self.condition(value, "WHERE")?)
            }
            None => None,
        };
        Ok(Conflict { target, assignments: Some(assignments), condition })
    }

    /// The column that has the values of the expression that ON CONFLICT has by this number.
    fn computed_in_key(
        &mut self,
        name: &str,
        key: &ConflictKey<'_>,
        changed: &ChangedRelation,
    ) -> Result<String> {
        let mut all = key.expressions.iter();
        let node =
            all.find(|one| one.key.value == name).map(|one| &one.value).ok_or_else(no_target)?;
        if !changed.is_table() {
            return Err(SqlError::unsupported("an expression of ON CONFLICT through a view"));
        }
        if matches!(node, ast::Expr::Collate { .. }) {
            return Err(SqlError::unsupported("COLLATE in ON CONFLICT"));
        }
        let table = &changed.table;
        let mut expr = self.index_expression(node, table)?.expr;
        computed::in_whole(&mut expr, &computed::of_table(table, &places(table)));
        match expr {
            Expr::Column(at) if at < table.types.len() => Ok(table.info.columns[at].name.clone()),
            _ => Err(no_target()),
        }
    }

    /// The unique index on these columns that holds every row of which `only` is true.
    fn partial_target(
        &mut self,
        names: Vec<String>,
        only: &ast::Expr,
        table: &Table,
    ) -> Result<Target> {
        let condition = self.index_condition(only, table)?;
        let conditions = match condition {
            Expr::And(list) => flatten(list),
            one => vec![one],
        };
        let holds_all = |index: &IndexInfo| {
            index.predicate.iter().flat_map(|predicate| &predicate.terms).all(|term| {
                let at = table.info.columns.iter().position(|column| column.name == term.column);
                at.is_some_and(|at| predicate::follows(&term.test, at, &conditions, &table.types))
            })
        };
        let fit = table.info.indexes.iter();
        let fit = fit.filter(|index| index.unique && has_key(index, &names) && holds_all(index));
        let fit: Vec<&IndexInfo> = fit.collect();
        match fit.as_slice() {
            // One of all rows is met by whatever another one is met by.
            fit if fit.iter().any(|index| index.is_whole()) => Ok(Target::Columns(names)),
            [] => Err(no_target()),
            [one] => Ok(Target::Index(one.name.clone())),
            _ => Err(SqlError::unsupported("ON CONFLICT with several partial indexes")),
        }
    }

    /// The views are what they are as long as the plan is kept.
    fn keep_views(&mut self, changed: &ChangedRelation) {
        self.scans.extend(changed.views().map(|view| (NO_COLUMN, Arc::clone(view))));
    }

    /// Where values of a column go that is shown.
    pub(super) fn slot_of(&mut self, changed: &ChangedRelation, at: usize) -> Result<Slot> {
        let shown = changed.shown(at).clone();
        match changed.place(at, Action::Insert) {
            Ok(place) => Ok(Slot { name: shown.name, ..self.slot(&changed.table, place)? }),
            // It may be that no value is given.
            Err(_) => Ok(Slot::of_column(&shown.name, shown.ty, shown.modifier)),
        }
    }

    fn insert_columns<'n>(
        &self,
        changed: &ChangedRelation,
        named: &'n [ast::ObjectName],
    ) -> Result<Vec<InsertTarget<'n>>> {
        if named.is_empty() {
            let all = 0..changed.width();
            return Ok(all.map(InsertTarget::whole).collect());
        }
        let mut columns: Vec<InsertTarget<'_>> = Vec::with_capacity(named.len());
        for name in named {
            let position = self.position(name);
            let Assigned { parts, subscripts } = assigned(name)?;
            let (name, fields) = parts.split_first().expect("a name has a part");
            let shown = changed.column(name).map_err(|error| error.at(position))?;
            let target = InsertTarget { shown, fields: fields.to_vec(), subscripts };
            let mut same = columns.iter().filter(|known| known.shown == shown);
            if same.any(|known| !(known.is_part() && target.is_part())) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message).at(position));
            }
            columns.push(target);
        }
        Ok(columns)
    }

    /// Binds an UPDATE.
    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<Change> {
        let sources = match &update.from {
            None => None,
            Some(UpdateTableFromKind::AfterSet(sources)) => Some(sources.as_slice()),
            Some(UpdateTableFromKind::BeforeSet(_)) => {
                return Err(SqlError::syntax("syntax error at or near \"FROM\""));
            }
        };
        if update.or.is_some()
            || !update.order_by.is_empty()
            || update.limit.is_some()
            || update.output.is_some()
        {
            return Err(SqlError::unsupported("UPDATE with such a clause"));
        }
        let rows = self.candidates(&update.table, sources, Action::Update)?;
        let mut assignments = Assignments::default();
        for assignment in &update.assignments {
            self.assignment(assignment, &rows.changed, &mut assignments)?;
        }
        let values = Some(assignments.values);
        self.change(rows, update.selection.as_ref(), values, update.returning.as_deref())
    }

    /// Binds a DELETE.
    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<Change> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else {
            return Err(SqlError::unsupported("DELETE from several tables"));
        };
        if !delete.tables.is_empty()
            || !delete.order_by.is_empty()
            || delete.limit.is_some()
            || delete.output.is_some()
        {
            return Err(SqlError::unsupported("DELETE with such a clause"));
        }
        let rows = self.candidates(from, delete.using.as_deref(), Action::Delete)?;
        self.change(rows, delete.selection.as_ref(), None, delete.returning.as_deref())
    }

    /// Binds the table that is changed, and FROM or USING.
    fn candidates(
        &mut self,
        table: &TableWithJoins,
        sources: Option<&[TableWithJoins]>,
        action: Action,
    ) -> Result<Candidates> {
        let changed = self.target(table, action)?;
        let scan = TableScan {
            alias: self.scope.relations.first().map(|one| one.alias.clone()).unwrap_or_default(),
            columns: (0..changed.table.types.len()).collect(),
            table: Arc::clone(&changed.table),
            with_tid: true,
            path: Path::Sequential,
            filter: None,
            statistics: None,
            asked: None,
            by_values: false,
            any_order: true,
        };
        let joined = match sources {
            Some(sources) => Some(self.beside_target(&scan, sources)?),
            // The rows are those of a snapshot that others read by, too.
            None if self.shares_snapshot => Some(self.scanned(&scan)),
            None => None,
        };
        Ok(Candidates { scan, changed, joined })
    }

    /// Binds sources beside the table that is changed, which they do not see: the join of both.
    fn beside_target(&mut self, scan: &TableScan, sources: &[TableWithJoins]) -> Result<Rel> {
        let own = std::mem::take(&mut self.scope);
        self.outer.push(hidden(&own));
        let tid = scan.table.types.len();
        self.changed = Some(Scope { changed: Some(tid + 1), ..own.clone() });
        let right = self.from(sources);
        self.changed = None;
        self.outer.pop();
        let right = right?;
        self.scope = own.join(std::mem::take(&mut self.scope))?;
        let left = self.scanned(scan);
        let (kind, on) = (JoinKind::Inner, Vec::new());
        Ok(Rel::Join(Box::new(Join { kind, left, right, on, is_list: true })))
    }

    /// The rows of the table that is changed, as a query reads them.
    fn scanned(&mut self, scan: &TableScan) -> Rel {
        let tid = scan.table.types.len();
        self.scans.push((0, Arc::clone(&scan.table)));
        Rel::Scan(Box::new(rel::Scan {
            table: Arc::clone(&scan.table),
            alias: scan.alias.clone(),
            columns: (0..tid).collect(),
            tid,
        }))
    }

    /// The table that is changed, whose columns are the scope.
    fn target(&mut self, table: &TableWithJoins, action: Action) -> Result<ChangedRelation> {
        let (name, alias) = match &table.relation {
            TableFactor::Table { name, alias, args: None, .. } if table.joins.is_empty() => {
                (name, alias.as_ref())
            }
            _ => return Err(SqlError::unsupported("changing anything but a table")),
        };
        let (parts, position) = (identifiers::parts(name)?, self.position(&table.relation));
        if system_views::relation(&parts).is_some() {
            return Err(SqlError::unsupported("changing anything but a table"));
        }
        let named = match self.table_named(&parts) {
            Err(error) if error.sqlstate == code::UNDEFINED_TABLE => {
                let stored = self.find(&parts)?;
                let is_sequence = self.catalog.sequence(&stored).is_ok();
                let name = bare(&stored);
                return Err(match is_sequence {
                    true => {
                        let message = format!("cannot change sequence \"{name}\"");
                        SqlError::new(code::WRONG_OBJECT_TYPE, message)
                    }
                    false => error.at(position),
                });
            }
            found => found.map_err(|error| error.at(position))?,
        };
        let changed = self.changed_relation(named, action)?;
        let relation = renamed(changed.relation.clone(), alias)?;
        self.scope = Scope::of(relation);
        self.keep_views(&changed);
        Ok(changed)
    }

    fn change(
        &mut self,
        rows: Candidates,
        selection: Option<&ast::Expr>,
        assignments: Option<Vec<(usize, Expr)>>,
        returning: Option<&[ast::SelectItem]>,
    ) -> Result<Change> {
        let mut condition = None;
        let current = selection.and_then(cursor_of);
        if let Some(node) = selection.filter(|_| current.is_none()) {
            let value = self.at_place(Place::None("WHERE"), |binder| binder.expr(node))?;
            condition = Some(self.condition(value, "WHERE")?);
        }
        if current.is_some() && !rows.changed.is_table() {
            let message = "WHERE CURRENT OF on a view is not implemented";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        let own = condition.clone();
        let of_views: Vec<Expr> = rows.changed.conditions().cloned().collect();
        if !of_views.is_empty() {
            condition = Some(Expr::And(of_views.into_iter().chain(condition).collect()));
        }
        let mut returning = self.at_place(Place::None("RETURNING"), |b| b.returning(returning))?;
        let mut assignments = assignments;
        let updates = assignments.is_some();
        let Candidates { mut scan, changed, joined } = rows;
        let mut read: Vec<&Expr> = own.iter().collect();
        read.extend(returning.iter().flat_map(|one| &one.output));
        read.extend(assignments.iter().flatten().map(|(_, value)| value));
        self.need_to_read(&changed, &read);
        if joined.is_some() && current.is_some() {
            return Err(SqlError::unsupported("WHERE CURRENT OF with FROM or USING"));
        }
        let mut layout: Vec<ColumnId> = (0..=scan.table.types.len()).collect();
        let mut exprs = returning_exprs(&mut returning);
        exprs.extend(assignments.iter_mut().flatten().map(|(_, value)| value));
        let source = match joined {
            None => None,
            Some(joined) => {
                let mut named = BTreeSet::new();
                exprs.iter().for_each(|expr| expr::columns_of(expr, &mut named));
                Some(Arc::new(self.source(joined, condition.as_ref(), named, &mut layout)?))
            }
        };
        let parts = condition.as_ref().map_or_else(Vec::new, parts_of);
        let once = parts.into_iter().filter(|one| is_asked_once(one)).cloned().collect();
        exprs.extend(&mut condition);
        let mut rules = self.rules(&changed.table)?;
        if updates {
            rules.view_checks = changed.checks()?;
        }
        exprs.extend(rules.view_checks.iter_mut().map(|check| &mut check.condition));
        let reads = self.reads(exprs, &layout)?;
        if source.is_none() {
            scan.filter = condition.clone();
            if let Some(filter) = &mut scan.filter {
                computed::in_condition(filter, &computed::of_table(&scan.table, &scan.columns));
            }
            shape::narrow_scan(&mut scan, &mut []);
            scan.statistics = self.catalog.statistics(&scan.table)?;
            match current {
                Some(_) => scan.path = Path::Tid(Expr::null()),
                None => path::choose_change(&mut scan, &[], self.switches),
            }
        }
        Ok(Change {
            switches: self.switches,
            scan,
            source,
            condition,
            once,
            current,
            assignments,
            rules,
            returning,
            asks: Asks::default(),
            reads,
        })
    }

    /// Plans the query that gives the rows to change: `ctid` and the columns of the others that the
    /// condition or `named` has, which come to the end of the layout.
    fn source(
        &mut self,
        joined: Rel,
        condition: Option<&Expr>,
        mut named: BTreeSet<ColumnId>,
        layout: &mut Vec<ColumnId>,
    ) -> Result<Query> {
        condition.into_iter().for_each(|expr| expr::columns_of(expr, &mut named));
        let mut output: Vec<ColumnId> = layout.last().copied().into_iter().collect();
        let others = joined.columns().into_iter();
        output.extend(others.filter(|id| named.contains(id) && !layout.contains(id)));
        layout.extend(&output[1..]);
        let rel = joined.filtered(condition.into_iter().cloned().collect());
        self.planned(Bound::new(rel, output, Vec::new()))
    }

    /// Plans the queries in expressions over a row of these columns: what they read.
    pub(super) fn reads(&mut self, exprs: Vec<&mut Expr>, layout: &[ColumnId]) -> Result<Reads> {
        let known = self.known()?;
        lower::over_row(exprs, layout, &known)
    }
}

/// Places of all columns.
fn places(table: &Table) -> Vec<ColumnId> {
    (0..table.types.len()).collect()
}

/// What RETURNING makes.
fn returning_exprs(returning: &mut Option<Returning>) -> Vec<&mut Expr> {
    returning.iter_mut().flat_map(|returning| &mut returning.output).collect()
}

/// The cursor of WHERE CURRENT OF.
fn cursor_of(selection: &ast::Expr) -> Option<String> {
    match selection {
        ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [mark, name] if mark.value == CURRENT => Some(name.value.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The places in the table of columns that are shown and are written.
fn written_places(changed: &ChangedRelation, named: &[InsertTarget<'_>]) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(named.len());
    for (at, target) in named.iter().enumerate() {
        let place = changed.place(target.shown, Action::Insert)?;
        let is_same = |(known, other): (&usize, &InsertTarget<'_>)| {
            *known == place && !(other.is_part() && target.is_part())
        };
        if places.iter().zip(&named[..at]).any(is_same) {
            let name = &changed.table.info.columns[place].name;
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(SqlError::syntax(message));
        }
        places.push(place);
    }
    Ok(places)
}

/// Was the column declared to be generated, and not only `serial`?
fn is_identity(table: &Table, at: usize) -> bool {
    table.info.columns[at].identity.is_some() && !table.column_notes[at].serial
}

/// The property of column `at` that keeps statements from giving it another value than DEFAULT.
pub(super) enum Always {
    Identity,
    Expression,
}

impl Always {
    pub(super) fn of(table: &Table, at: usize) -> Option<Always> {
        let identity = table.info.columns[at].identity.as_ref();
        match table.column_notes[at].generated {
            Some(_) => Some(Always::Expression),
            None => identity.filter(|identity| identity.always).map(|_| Always::Identity),
        }
    }

    /// The error for another value, and why.
    pub(super) fn refused(self, message: String, column: &str) -> SqlError {
        let detail = match self {
            Always::Expression => format!("Column \"{column}\" is a generated column."),
            Always::Identity => {
                format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS.")
            }
        };
        SqlError::new(code::GENERATED_ALWAYS, message).detail(detail)
    }
}

/// A column that is always generated takes nothing but DEFAULT. OVERRIDING is about identity.
fn refuse_generated(
    table: &Table,
    columns: &[usize],
    source: Option<&ast::Query>,
    also_identity: bool,
) -> Result<()> {
    for (place, at) in columns.iter().enumerate() {
        let always = match Always::of(table, *at) {
            Some(Always::Identity) if !also_identity => continue,
            Some(always) => always,
            None => continue,
        };
        let name = &table.info.columns[*at].name;
        let defaults = match source.map(|query| without_parentheses(&query.body)) {
            None => true,
            Some(SetExpr::Values(values)) => {
                values.rows.iter().all(|row| row.get(place).is_none_or(is_default))
            }
            Some(_) => false,
        };
        if !defaults {
            let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            let hint = "Use OVERRIDING SYSTEM VALUE to override.";
            let is_identity = matches!(always, Always::Identity);
            let error = always.refused(message, name);
            return Err(if is_identity { error.hint(hint) } else { error });
        }
    }
    Ok(())
}

/// A query without parentheses around all of it.
fn without_parentheses(mut body: &SetExpr) -> &SetExpr {
    while let SetExpr::Query(inner) = body {
        body = &inner.body;
    }
    body
}

/// Are these the key columns of the index, in whatever order?
fn has_key(index: &IndexInfo, names: &[String]) -> bool {
    index.columns.iter().all(|key| names.contains(&key.name))
        && names.iter().all(|name| index.columns.iter().any(|key| key.name == *name))
}

fn no_target() -> SqlError {
    let message =
        "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    SqlError::new(code::INVALID_COLUMN_REFERENCE, message)
}

fn no_constraint(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
    SqlError::new(code::UNDEFINED_OBJECT, message)
}

/// Fails if a constraint that may be checked late is to tell whether a row is there.
fn refuse_deferrable(target: &Target, table: &Table) -> Result<()> {
    let meant = |index: &&IndexInfo| match target {
        Target::Any => true,
        Target::Columns(names) => has_key(index, names),
        Target::Index(name) => index.name == *name,
    };
    let is_late = |index: &&IndexInfo| !index.unique && table.notes.key_kind(index).is_some();
    let Some(index) = table.info.indexes.iter().filter(is_late).find(meant) else {
        return Ok(());
    };
    let message = "ON CONFLICT does not support deferrable unique constraints/exclusion \
                   constraints as arbiters";
    let error = SqlError::new(code::NOT_IN_STATE, message);
    Err(error.of_constraint(&table.info.name, bare(&index.name)))
}

fn check_target(target: &Target, table: &Table) -> Result<()> {
    refuse_deferrable(target, table)?;
    let mut unique = table.info.indexes.iter().filter(|index| index.unique);
    match target {
        Target::Any => Ok(()),
        Target::Columns(names) => {
            let same = |index: &IndexInfo| index.is_whole() && has_key(index, names);
            unique.any(same).then_some(()).ok_or_else(no_target)
        }
        Target::Index(name) => unique
            .any(|index| index.name == *name)
            .then_some(())
            .ok_or_else(|| no_constraint(bare(name), table.bare_name())),
    }
}

fn refuse_insert(insert: &ast::Insert) -> Result<()> {
    let odd = insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || insert.replace_into
        || !insert.assignments.is_empty()
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || insert.output.is_some()
        || insert.insert_alias.is_some()
        || insert.format_clause.is_some()
        || insert.multi_table_insert_type.is_some();
    if odd { Err(SqlError::unsupported("INSERT with such a clause")) } else { Ok(()) }
}
