//! Sources: tables, lists of values, generated series, queries in parentheses.
//!
//! Invariants: the scope holds exactly the columns that the source's rows have, in order.
//! Does not do: joins.

use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, ObjectName, Query, TableAlias, TableFactor, TableWithJoins,
};
use std::sync::Arc;

use super::collate::Rule;
use super::select::{self, Stored};
use super::{Binder, Place, Scope, ScopeColumn, names};
use crate::error::{Result, SqlError, code};
use crate::expr::Expr;
use crate::plan::path::Path;
use crate::plan::{Source, Table, TableScan, views};
use crate::schemas::{bare, schema_of};
use crate::types::cast::CastContext;
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

/// What is said where a query needs more than one source.
pub(crate) const NO_JOINS: &str = "a join";

impl Binder<'_> {
    /// Binds FROM and sets the scope.
    pub(crate) fn from(&mut self, from: &[TableWithJoins]) -> Result<Source> {
        let [only] = from else {
            if from.is_empty() {
                self.scope = Scope::default();
                return Ok(Source::Nothing);
            }
            return Err(no_joins(self.position(&from[1].relation)));
        };
        if let Some(join) = only.joins.first() {
            return Err(no_joins(self.position(&join.relation)));
        }
        self.factor(&only.relation)
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<Source> {
        let position = self.position(factor);
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                if let Ok(parts) = names::parts(name)
                    && let Some(view) = views::relation(&parts)
                {
                    return self.view(view, Vec::new(), alias.as_ref());
                }
                let parts = names::parts(name).map_err(|error| error.at(position))?;
                let table = match self.table_named(&parts) {
                    Err(error) if error.sqlstate == code::UNDEFINED_TABLE => {
                        let found = self.sequence_named(&parts, alias.as_ref())?;
                        return found.ok_or_else(|| error.at(position));
                    }
                    table => table.map_err(|error| error.at(position))?,
                };
                Ok(Source::Table(Box::new(self.table(&table, alias.as_ref())?)))
            }
            TableFactor::Table {
                name, alias, args: Some(args), with_ordinality: false, ..
            } => self.function_in_from(name, &args.args, alias.as_ref()),
            TableFactor::Function { name, args, with_ordinality: false, alias, .. } => {
                self.function_in_from(name, args, alias.as_ref())
            }
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                self.derived(subquery, alias.as_ref())
            }
            TableFactor::NestedJoin { .. } => Err(no_joins(position)),
            other => Err(SqlError::unsupported(format!("FROM {other}")).at(position)),
        }
    }

    /// A scan of all columns of a table, with `ctid` after them.
    pub(crate) fn table(
        &mut self,
        table: &Arc<Table>,
        alias: Option<&TableAlias>,
    ) -> Result<TableScan> {
        let mut scope = Scope {
            alias: bare(&table.info.name).to_owned(),
            schema: Some(schema_of(&table.info.name).to_owned()),
            columns: table_columns(table),
            ..Scope::default()
        };
        rename(&mut scope, alias)?;
        scope.columns.push(tid());
        self.scope = scope;
        Ok(TableScan {
            table: Arc::clone(table),
            alias: self.scope.alias.clone(),
            columns: (0..table.types.len()).collect(),
            with_tid: true,
            path: Path::Sequential,
            filter: None,
            statistics: None,
            asked: None,
            by_values: false,
        })
    }

    /// A function in FROM: one of those that give rows, or one that gives a value, which is a row.
    fn function_in_from(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<Source> {
        let called = names::function(name)?;
        if called == "unnest" {
            return Err(SqlError::unsupported("the function unnest in FROM"));
        }
        if called == "generate_series" || views::function(&called).is_some() {
            return self.series(&called, args, alias);
        }
        let call = ast::Function {
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
        };
        self.scope = Scope::default();
        let place = Place::None("functions in FROM");
        let value = self.at_place(place, |binder| binder.expr(&ast::Expr::Function(call)))?;
        let (values, ty) = self.unified(vec![value], "FROM")?;
        self.scope = one_column(called, ty, alias)?;
        Ok(Source::Values(vec![values]))
    }

    fn series(
        &mut self,
        name: &str,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<Source> {
        if let Some(view) = views::function(name).filter(|view| view.args.len() == args.len()) {
            self.scope = Scope::default();
            let mut bound = Vec::with_capacity(args.len());
            for (arg, ty) in args.iter().zip(view.args) {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                    return Err(SqlError::unsupported("such an argument of a function"));
                };
                let place = Place::None("functions in FROM");
                let value = self.at_place(place, |binder| binder.expr(arg))?;
                bound.push(self.coerce_checked(value, *ty, CastContext::Implicit)?);
            }
            return self.view(view, bound, alias);
        }
        if name != "generate_series" || !(2..=3).contains(&args.len()) {
            let message = format!("function {name} does not exist with {} arguments", args.len());
            return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
        }
        let mut values = Vec::with_capacity(args.len());
        self.scope = Scope::default();
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                return Err(SqlError::unsupported("such an argument of generate_series"));
            };
            values
                .push(self.at_place(Place::None("functions in FROM"), |binder| binder.expr(arg))?);
        }
        let ty = series_type(&values.iter().map(|value| value.ty).collect::<Vec<_>>())?;
        let mut bound = Vec::with_capacity(values.len());
        for value in values {
            let ty = if bound.len() == 2 && ty.category() != crate::types::Category::Number {
                SqlType::Interval
            } else {
                ty
            };
            bound.push(self.coerce_checked(value, ty, CastContext::Implicit)?);
        }
        self.scope = one_column(name.to_owned(), ty, alias)?;
        Ok(Source::Series(bound, ty))
    }

    fn view(
        &mut self,
        view: &'static views::View,
        args: Vec<Expr>,
        alias: Option<&TableAlias>,
    ) -> Result<Source> {
        let column = |(name, ty): &(&str, SqlType)| ScopeColumn {
            name: (*name).to_owned(),
            ty: *ty,
            modifier: None,
            hidden: false,
            collation: None,
        };
        let columns = view.columns.iter().map(column).collect();
        let mut scope = Scope { alias: view.name.to_owned(), columns, ..Scope::default() };
        rename(&mut scope, alias)?;
        self.scope = scope;
        Ok(Source::View(view, args))
    }

    /// The sequence that these parts name, if there is one: a row of where it is.
    fn sequence_named(
        &mut self,
        parts: &[String],
        alias: Option<&TableAlias>,
    ) -> Result<Option<Source>> {
        let stored = self.find(parts)?;
        if self.catalog.shown(&stored)?.is_none() || self.catalog.sequence(&stored).is_err() {
            return Ok(None);
        }
        self.once = true;
        let name = bare(&stored).to_owned();
        let args = vec![Expr::Const(Datum::Text(stored))];
        let source = self.view(&views::SEQUENCE, args, alias)?;
        if alias.is_none() {
            self.scope.alias = name;
        }
        Ok(Some(source))
    }

    fn derived(&mut self, query: &Query, alias: Option<&TableAlias>) -> Result<Source> {
        let outer = std::mem::take(&mut self.aggregates);
        let query = self.query(query);
        self.aggregates = outer;
        let mut query = query?;
        select::refuse_locks(&query)?;
        select::unpad(&mut query);
        let Some(alias) = alias else {
            return Err(SqlError::syntax("subquery in FROM must have an alias")
                .hint("For example, FROM (SELECT ...) [AS] foo."));
        };
        let column = |column: &crate::plan::Column| ScopeColumn {
            name: column.name.clone(),
            ty: column.ty,
            modifier: column.modifier,
            hidden: false,
            collation: column.collation.clone(),
        };
        let columns = query.columns.iter().map(column).collect();
        let mut scope = Scope { columns, ..Scope::default() };
        rename(&mut scope, Some(alias))?;
        self.scope = scope;
        Ok(Source::Query(Box::new(query)))
    }

    /// Rows of VALUES, and the types of their columns; unknown ones take those of the
    /// columns that they are stored into.
    pub(super) fn rows(
        &mut self,
        rows: &[Vec<crate::expr::Typed>],
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

/// What expressions see of a function in FROM that gives one column. An alias of the function is
/// one of the column, too.
fn one_column(name: String, ty: SqlType, alias: Option<&TableAlias>) -> Result<Scope> {
    let column =
        ScopeColumn { name: name.clone(), ty, modifier: None, hidden: false, collation: None };
    let mut scope = Scope { alias: name, columns: vec![column], ..Scope::default() };
    if let Some(alias) = alias.filter(|alias| alias.columns.is_empty()) {
        scope.columns[0].name = names::ident(&alias.name);
    }
    rename(&mut scope, alias)?;
    Ok(scope)
}

/// The columns of a table, as expressions name them.
pub(crate) fn table_columns(table: &Table) -> Vec<ScopeColumn> {
    let column = |(at, column): (usize, &rightlink::ColumnSchema)| ScopeColumn {
        name: column.name.clone(),
        ty: table.types[at],
        modifier: table.column_notes[at].modifier,
        hidden: false,
        collation: Rule::of(column.collation.as_ref(), table.column_notes[at].collation),
    };
    table.info.columns.iter().enumerate().map(column).collect()
}

/// The hidden column that stands after those of a table.
pub(crate) fn tid() -> ScopeColumn {
    ScopeColumn {
        name: TID.to_owned(),
        ty: SqlType::Tid,
        modifier: None,
        hidden: true,
        collation: None,
    }
}

fn no_joins(position: Option<usize>) -> SqlError {
    SqlError::unsupported(NO_JOINS).detail("A query reads one table.").at(position)
}

fn series_type(types: &[SqlType]) -> Result<SqlType> {
    use SqlType as T;
    let has = |ty: SqlType| types.contains(&ty);
    if has(T::Timestamptz) || has(T::Timestamp) || has(T::Date) {
        return Ok(if has(T::Timestamp) && !has(T::Timestamptz) {
            T::Timestamp
        } else {
            T::Timestamptz
        });
    }
    match crate::types::cast::common(types) {
        Some(T::Int2 | T::Int4) => Ok(T::Int4),
        Some(T::Int8) => Ok(T::Int8),
        Some(T::Numeric) => Ok(T::Numeric),
        _ => {
            let list: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
            let message = format!("function generate_series({}) does not exist", list.join(", "));
            Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
        }
    }
}

fn rename(scope: &mut Scope, alias: Option<&TableAlias>) -> Result<()> {
    let Some(alias) = alias else { return Ok(()) };
    names::check_alias(&alias.name)?;
    (scope.alias, scope.schema) = (names::ident(&alias.name), None);
    if alias.columns.len() > scope.columns.len() {
        let message = format!(
            "table \"{}\" has {} columns available but {} columns specified",
            scope.alias,
            scope.columns.len(),
            alias.columns.len()
        );
        return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, new) in scope.columns.iter_mut().zip(&alias.columns) {
        column.name = names::ident(&new.name);
    }
    Ok(())
}

/// A default in an INSERT's values.
pub(crate) fn null() -> crate::expr::Typed {
    crate::expr::Typed::new(Expr::Const(Datum::Null), SqlType::Unknown)
}
