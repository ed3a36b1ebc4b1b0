//! Sources: tables, lists of values, functions that give rows, queries in parentheses.
//!
//! Invariants: the scope of a source holds exactly the columns that expressions may name, with
//! their numbers in the algebra. A source that is LATERAL, as every function is, sees those in
//! front of it; no other does.
//! Does not do: joins (`join`), common table expressions (`with`).

use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, ObjectName, Query, Spanned, TableAlias, TableFactor,
    TableWithJoins,
};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

use super::overloads::Chosen;
use super::scope::{Relation, Scope, ScopeColumn};
use super::select::{Purpose, Stored};
use super::view_text::FoundForm;
use super::{Binder, Place};
use crate::catalog::{functions_named, relation_oid, system_parts, system_views};
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{self, JsonPart, SetFunction};
use crate::expr::{ColumnOrigin, Expr, Typed};
use crate::names::{self, CATALOGS, bare, schema_of};
use crate::notes::view::Rows;
use crate::parse::identifiers;
use crate::parse::plain_table::PlainTable;
use crate::plan::Table;
use crate::plan::rel::{self, Function, Join, JoinKind, Rel, Scan};
use crate::privileges::Privileges;
use crate::types::cast::CastContext;
use crate::types::collate::Rule;
use crate::types::{Datum, SqlType};

/// The hidden column that says where a row lies.
pub(crate) const TID: &str = "ctid";

/// Names that no column of a table can have.
const SYSTEM_COLUMNS: [&str; 6] = [TID, "cmax", "cmin", "tableoid", "xmax", "xmin"];

/// Fails if a column of a table cannot be called `name`.
pub(crate) fn check_column_name(name: &str) -> Result<()> {
    if !SYSTEM_COLUMNS.contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(SqlError::new(code::DUPLICATE_COLUMN, message))
}

/// A source and what its columns are called.
pub(super) struct Sourced {
    pub(super) rel: Rel,
    pub(super) scope: Scope,
}

/// A call of a function that gives rows, and the type of what it gives.
pub(super) struct Called {
    pub(super) call: SetFunction,
    pub(super) args: Vec<Expr>,
    pub(super) ty: SqlType,
}

impl Sourced {
    pub(super) fn of(rel: Rel, relation: Relation) -> Sourced {
        Sourced { rel, scope: Scope::of(relation) }
    }
}

impl Binder<'_> {
    /// Binds FROM and sets the scope.
    pub(crate) fn from(&mut self, from: &[TableWithJoins]) -> Result<Rel> {
        let mut all: Option<Sourced> = None;
        for item in from {
            let before = all.as_ref().map(|all| &all.scope);
            let next = self.joined(item, before)?;
            all = Some(match all {
                None => next,
                Some(left) => {
                    let position = self.position(&item.relation);
                    let scope = left.scope.join(next.scope).map_err(|e| e.at(position))?;
                    let (left, right) = (left.rel, next.rel);
                    let (kind, on) = (JoinKind::Inner, Vec::new());
                    let join = Join { kind, left, right, on, is_list: true };
                    Sourced { rel: Rel::Join(Box::new(join)), scope }
                }
            });
        }
        let Some(all) = all else {
            self.scope = Scope::default();
            return Ok(Rel::Single);
        };
        self.scope = all.scope;
        Ok(all.rel)
    }

    /// A source; those in front of it are `before`.
    pub(super) fn factor(
        &mut self,
        factor: &TableFactor,
        before: Option<&Scope>,
    ) -> Result<Sourced> {
        let position = self.position(factor);
        if let Some(plain) = PlainTable::of(factor) {
            let source = self.named_source(plain.name, plain.alias);
            return source.map_err(|error| error.at(position));
        }
        match factor {
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => self
                .beside(before, true, |binder| {
                    binder.function_source(name, &args.args, alias.as_ref(), *with_ordinality)
                }),
            TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.beside(before, true, |binder| {
                    binder.function_source(name, args, alias.as_ref(), *with_ordinality)
                })
            }
            TableFactor::UNNEST {
                alias, array_exprs, with_offset: false, with_ordinality, ..
            } => self.beside(before, true, |binder| {
                let arrays = binder.arrays_of(array_exprs)?;
                binder.unnest(arrays, alias.as_ref(), *with_ordinality)
            }),
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                self.beside(before, *lateral, |binder| binder.derived(subquery, alias.as_ref()))
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let mut all = self.joined(table_with_joins, before)?;
                if let Some(alias) = alias {
                    let relation = Relation { columns: all.scope.shown, ..Relation::default() };
                    all.scope = Scope::of(renamed(relation, Some(alias))?);
                }
                Ok(all)
            }
            other => Err(SqlError::unsupported(format!("FROM {other}")).at(position)),
        }
    }

    /// Binds a source. If it is lateral, it sees those in front of it as it sees the queries around
    /// it.
    fn beside<T>(
        &mut self,
        before: Option<&Scope>,
        is_lateral: bool,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let own = std::mem::take(&mut self.scope);
        let changed = self.changed.take();
        let known = self.outer.len();
        let seen = match (changed.clone(), before.cloned()) {
            (Some(changed), Some(before)) => Some(changed.join(before)?),
            (changed, before) => changed.or(before),
        };
        self.outer.extend(seen.filter(|_| is_lateral));
        let done = work(self);
        self.outer.truncate(known);
        (self.scope, self.changed) = (own, changed);
        done
    }

    /// A common table expression, a table, a view of the store, or a sequence, by its name.
    fn named_source(&mut self, name: &ObjectName, alias: Option<&TableAlias>) -> Result<Sourced> {
        let parts = identifiers::parts(name)?;
        if let [name] = parts.as_slice()
            && let Some(found) = self.common(name)?
        {
            let relation = Relation { alias: name.clone(), ..found.relation };
            return Ok(Sourced::of(found.rel, renamed(relation, alias)?));
        }
        if let Some(view) = system_views::relation(&parts) {
            return self.view(view, Vec::new(), alias);
        }
        self.find_in_text(name.span(), &parts, FoundForm::of_alias(alias));
        let table = match self.table_named(&parts) {
            Err(error) if error.sqlstate == code::UNDEFINED_TABLE => {
                return self.sequence_named(&parts, alias)?.ok_or(error);
            }
            table => table?,
        };
        self.table(&table, &parts, alias)
    }

    /// The rows of a table, with `ctid` after its columns, or those of a view.
    fn table(
        &mut self,
        table: &Arc<Table>,
        written: &[String],
        alias: Option<&TableAlias>,
    ) -> Result<Sourced> {
        self.need(table, Privileges::SELECT);
        if let Some(notes) = &table.notes.view {
            match notes.stored {
                None => return self.view_source(table, notes, written, alias),
                Some(Rows::Missing) => self.unpopulated = Some(table.bare_name().to_owned()),
                Some(Rows::Populated) => {}
            }
        }
        let first = self.new_columns(table.types.len() + 1);
        self.scans.push((first, Arc::clone(table)));
        let of_table = Some(Arc::clone(table));
        let relation = Relation { of_table, ..table_relation(table, first) };
        self.note_columns(written, &relation);
        let relation = self.aliased(written, relation, alias)?;
        let scan = Scan {
            table: Arc::clone(table),
            alias: relation.alias.clone(),
            columns: (first..first + table.types.len()).collect(),
            tid: first + table.types.len(),
        };
        Ok(Sourced::of(Rel::Scan(Box::new(scan)), relation))
    }

    /// A function in FROM: one of those that give rows, or one that gives a value, which is a row.
    fn function_source(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
        ordinality: bool,
    ) -> Result<Sourced> {
        let parts = identifiers::parts(name)?;
        let is_users =
            matches!(parts.as_slice(), [schema, _] if !CATALOGS.contains(&schema.as_str()));
        let called = match parts.last() {
            Some(name) if is_users => name.clone(),
            _ => identifiers::function(name)?,
        };
        let of_system = match is_users {
            true => None,
            false => self.source_of_system(&called, args, alias, ordinality)?,
        };
        if let Some(found) = of_system {
            return Ok(found);
        }
        let rows = registry::rows_of(&called).filter(|_| !is_users);
        let users =
            if rows.is_none() { self.user_call_in_from(&parts, name.span(), args)? } else { None };
        let users = match users {
            Some(chosen) if chosen.function.gives_rows() => {
                return self.user_rows(chosen, alias, ordinality);
            }
            other => other,
        };
        let result = users.as_ref().and_then(|chosen| chosen.function.result_name());
        let Called { call, args, ty } = match rows {
            None if users.is_some() => {
                let chosen = users.expect("it was just found");
                let place = Place::None("functions in FROM");
                let value = self.at_place(place, |binder| binder.user_call(chosen))?;
                Called { call: SetFunction::Value, ty: value.ty, args: vec![value.expr] }
            }
            Some(_) => self.called_set(&called, args)?,
            None if called == names::EXPANDED => {
                let args = self.arguments_in_from(args, &called)?;
                self.numbered_of(&called, args)?
            }
            None if called == "generate_subscripts" && !is_users => {
                let args = self.arguments_in_from(args, &called)?;
                self.subscripts_of(&called, args)?
            }
            None => {
                let call = plain_call(name, args);
                let place = Place::None("functions in FROM");
                let value = self.at_place(place, |binder| binder.expr(&call))?;
                let (values, ty) = self.unified(vec![value], "FROM")?;
                Called { call: SetFunction::Value, args: values, ty }
            }
        };
        let part = if let SetFunction::Json(rows) = call { Some(rows.part) } else { None };
        let mut named: Vec<(&str, SqlType)> = call.fields(ty);
        if named.is_empty() {
            let own = result.as_deref().unwrap_or(&called);
            named.push((if part == Some(JsonPart::Items) { "value" } else { own }, ty));
        }
        let first = self.new_columns(named.len());
        let columns = first..first + named.len();
        let shown = named.into_iter().zip(columns.clone());
        let shown = shown.map(|((name, ty), id)| ScopeColumn::new(id, name, ty)).collect();
        let ordinality = ordinality.then(|| self.new_columns(1));
        let source = parts.into_iter().next_back().expect("a name has parts");
        let mut relation = function_relation(source, shown, ordinality);
        relation.is_value = part == Some(JsonPart::Items);
        let has_plain_alias = alias.is_some_and(|alias| alias.columns.is_empty());
        let mut relation = renamed(relation, alias)?;
        let is_one = columns.len() == 1;
        if has_plain_alias
            && is_one
            && result.is_none()
            && !matches!(part, Some(JsonPart::Items | JsonPart::Fields))
        {
            // An alias of the function is one of its column, too.
            relation.columns[0].name.clone_from(&relation.alias);
        }
        let alias = relation.alias.clone();
        let function = Function { call, args, columns: columns.collect(), ordinality, alias };
        Ok(Sourced::of(Rel::Function(Box::new(function)), relation))
    }

    /// A function of the system that has rows of its own kind: arrays, what the store knows about
    /// itself, documents.
    fn source_of_system(
        &mut self,
        called: &str,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
        ordinality: bool,
    ) -> Result<Option<Sourced>> {
        if called == "unnest" {
            let arrays = self.arguments_in_from(args, "unnest")?;
            return self.unnest(arrays, alias, ordinality).map(Some);
        }
        if let Some(view) =
            system_views::function(called).filter(|view| view.args.len() == args.len())
        {
            if ordinality {
                return Err(SqlError::unsupported(format!("{called} WITH ORDINALITY")));
            }
            let mut bound = Vec::with_capacity(args.len());
            for (arg, ty) in args.iter().zip(view.args) {
                let value = self.argument_in_from(arg, "a function")?;
                // A relation may be given as the `regclass` of its name.
                bound.push(self.coerce_checked(value, *ty, CastContext::Assignment)?);
            }
            return self.view(view, bound, alias).map(Some);
        }
        let rows = match self.populated_rows(called, args, alias)? {
            Some(rows) => Some(rows),
            None => self.document_rows(called, args, alias)?,
        };
        match rows {
            Some(_) if ordinality => {
                Err(SqlError::unsupported(format!("{called} WITH ORDINALITY")))
            }
            rows => Ok(rows),
        }
    }

    /// A call of a function that a user made, if these parts name one and the system has none of
    /// its name.
    fn user_call_in_from(
        &mut self,
        parts: &[String],
        span: Span,
        args: &[FunctionArg],
    ) -> Result<Option<Chosen>> {
        let is_known = match parts {
            [name] => functions_named(name).next().is_some(),
            [schema, _] => CATALOGS.contains(&schema.as_str()),
            _ => true,
        };
        if is_known {
            return Ok(None);
        }
        let functions = self.users_functions(parts)?;
        if functions.is_empty() {
            return Ok(None);
        }
        let place = Place::None("functions in FROM");
        let given = self.at_place(place, |binder| binder.given(args))?;
        self.callee = span;
        self.chosen(&functions, parts, given).map(Some)
    }

    fn arguments_in_from(&mut self, args: &[FunctionArg], of: &str) -> Result<Vec<Typed>> {
        args.iter().map(|arg| self.argument_in_from(arg, of)).collect()
    }

    pub(super) fn argument_in_from(&mut self, arg: &FunctionArg, of: &str) -> Result<Typed> {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
            return Err(SqlError::unsupported(format!("such an argument of {of}")));
        };
        self.at_place(Place::None("functions in FROM"), |binder| binder.expr(arg))
    }

    /// A call of a function that gives rows.
    fn called_set(&mut self, name: &str, args: &[FunctionArg]) -> Result<Called> {
        let values = self.arguments_in_from(args, name)?;
        let rel::SetCall { function, args, ty, .. } = self.set_in_from(name, values)?;
        Ok(Called { call: function, args, ty })
    }

    fn view(
        &mut self,
        view: &'static system_views::View,
        args: Vec<Expr>,
        alias: Option<&TableAlias>,
    ) -> Result<Sourced> {
        if !system_parts::is_public(view) {
            self.need_catalog(view.oid, view.name);
        }
        let first = self.new_columns(view.columns.len());
        let column = |(at, (name, ty)): (usize, &(&str, SqlType))| ScopeColumn {
            origin: (view.oid != 0).then(|| ColumnOrigin::new(view.oid, at)),
            ..ScopeColumn::new(first + at, *name, *ty)
        };
        let mut shown: Vec<ScopeColumn> = view.columns.iter().enumerate().map(column).collect();
        if view.has_table_number() {
            shown.push(tableoid(view.oid, first));
        }
        let schema = system_views::of_oid(view.oid).map_or("pg_catalog", |placed| placed.schema);
        let relation = Relation {
            alias: view.name.to_owned(),
            schema: Some(schema.to_owned()),
            columns: shown,
            ..Relation::default()
        };
        let columns = (first..first + view.columns.len()).collect();
        Ok(Sourced::of(Rel::View { view, args, columns }, renamed(relation, alias)?))
    }

    /// The sequence that these parts name, if there is one: a row of where it is.
    fn sequence_named(
        &mut self,
        parts: &[String],
        alias: Option<&TableAlias>,
    ) -> Result<Option<Sourced>> {
        let stored = self.find(parts)?;
        if self.catalog.shown(&stored)?.is_none() || self.catalog.sequence(&stored).is_err() {
            return Ok(None);
        }
        self.once = true;
        self.need_of_sequence(&stored, Privileges::SELECT);
        let (schema, name) = (schema_of(&stored).to_owned(), bare(&stored).to_owned());
        let args = vec![Expr::Const(Datum::Text(stored))];
        let mut source = self.view(&system_views::SEQUENCE, args, alias)?;
        if alias.is_none() {
            source.scope.relations[0].alias = name;
            source.scope.relations[0].schema = Some(schema);
        }
        Ok(Some(source))
    }

    fn derived(&mut self, query: &Query, alias: Option<&TableAlias>) -> Result<Sourced> {
        let mut bound = self.apart(|binder| binder.query_for(query, Purpose::Inner))?;
        super::lock::refuse_locks(&bound)?;
        let Some(alias) = alias else {
            return Err(SqlError::syntax("subquery in FROM must have an alias")
                .hint("For example, FROM (SELECT ...) [AS] foo."));
        };
        let mut columns = bound.scope_columns();
        self.name_fields(&mut bound.rel, &mut columns);
        let relation = renamed(Relation { columns, ..Relation::default() }, Some(alias))?;
        Ok(Sourced::of(bound.rel, relation))
    }

    /// Rows of VALUES, and the types of their columns; unknown ones take those of the
    /// columns that they are stored into.
    pub(super) fn rows(
        &mut self,
        rows: &[Vec<Typed>],
        into: Option<Stored<'_>>,
    ) -> Result<(Vec<Vec<Expr>>, Vec<SqlType>)> {
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            return Err(SqlError::syntax("VALUES lists must all be the same length"));
        }
        let mut columns = vec![Vec::with_capacity(width); rows.len()];
        let mut types = Vec::with_capacity(width);
        for at in 0..width {
            let column: Vec<_> = rows.iter().map(|row| row[at].clone()).collect();
            let typed = column.iter().any(|value| value.ty != SqlType::Unknown);
            match into.filter(|into| !into.late || !typed).and_then(|into| into.slot(at)) {
                Some(slot) => {
                    for (row, value) in columns.iter_mut().zip(column) {
                        row.push(self.assign(value, slot)?);
                    }
                    types.push(slot.ty);
                }
                None => {
                    let (values, ty) = self.unified(column, "VALUES")?;
                    columns.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
                    types.push(ty);
                }
            }
        }
        Ok((columns, types))
    }
}

/// A call of a function as an expression.
fn plain_call(name: &ObjectName, args: &[FunctionArg]) -> ast::Expr {
    ast::Expr::Function(ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: args.to_vec(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// What expressions see of a function in FROM that gives these columns.
pub(super) fn function_relation(
    name: String,
    mut columns: Vec<ScopeColumn>,
    ordinality: Option<usize>,
) -> Relation {
    let number = |id| ScopeColumn::new(id, "ordinality", SqlType::Int8);
    columns.extend(ordinality.map(number));
    Relation { alias: name, columns, ..Relation::default() }
}

/// A table as a source whose columns have numbers from `first` on, `ctid` after them.
pub(crate) fn table_relation(table: &Table, first: usize) -> Relation {
    let mut columns = table_columns(table, first);
    let tid_id = first + table.types.len();
    columns.push(tid(tid_id));
    columns.push(tableoid(relation_oid(table.info.id), tid_id));
    Relation {
        alias: bare(&table.info.name).to_owned(),
        schema: Some(schema_of(&table.info.name).to_owned()),
        columns,
        ..Relation::default()
    }
}

/// The columns of a table, as expressions name them, with numbers from `first` on.
pub(crate) fn table_columns(table: &Table, first: usize) -> Vec<ScopeColumn> {
    let column = |(at, column): (usize, &rightlink::ColumnSchema)| ScopeColumn {
        id: first + at,
        name: column.name.clone(),
        ty: table.types[at],
        modifier: table.column_notes[at].modifier,
        hidden: false,
        collation: Rule::of(column.collation.as_ref(), table.column_notes[at].collation),
        computed: None,
        origin: Some(ColumnOrigin::new(relation_oid(table.info.id), at)),
    };
    table.shown().iter().enumerate().map(column).collect()
}

/// The hidden column that stands after those of a table.
pub(crate) fn tid(id: usize) -> ScopeColumn {
    ScopeColumn { hidden: true, ..ScopeColumn::new(id, TID, SqlType::Tid) }
}

/// The hidden column that has the number of its relation; null where `row` is, a column that no row
/// lacks: there an outer join has none.
fn tableoid(oid: u32, row: usize) -> ScopeColumn {
    let none = (Expr::IsNull(Box::new(Expr::Column(row)), false), Expr::null());
    let number = Expr::Case(vec![none], Box::new(Expr::Const(Datum::Oid(oid))));
    let plain = ScopeColumn::new(row, "tableoid", SqlType::Oid);
    ScopeColumn { hidden: true, computed: Some(Box::new(number)), ..plain }
}

/// A source under its alias.
pub(super) fn renamed(mut relation: Relation, alias: Option<&TableAlias>) -> Result<Relation> {
    let Some(alias) = alias else { return Ok(relation) };
    identifiers::check_alias(&alias.name)?;
    if alias.columns.iter().any(|column| column.data_type.is_some()) {
        let message = "a column definition list is only allowed for functions returning \"record\"";
        return Err(SqlError::syntax(message));
    }
    (relation.alias, relation.schema) = (identifiers::ident(&alias.name), None);
    let shown = relation.columns.iter().filter(|column| !column.hidden).count();
    if alias.columns.len() > shown {
        let message = format!(
            "table \"{}\" has {shown} columns available but {} columns specified",
            relation.alias,
            alias.columns.len()
        );
        return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
    }
    let columns = relation.columns.iter_mut().filter(|column| !column.hidden);
    for (column, new) in columns.zip(&alias.columns) {
        column.name = identifiers::ident(&new.name);
    }
    Ok(relation)
}
