//! INSERT, UPDATE and DELETE.
//!
//! Invariants: a column is written at most once; a value is cast as an assignment.
//! Does not do: ON CONFLICT, FROM and USING with other tables.

use std::sync::Arc;

use sqlparser::ast::{self, AssignmentTarget, FromTable, TableFactor, TableObject, TableWithJoins};

use super::{Binder, Place, names};
use crate::error::{Result, SqlError, code};
use crate::expr::Expr;
use crate::plan::{Change, Insert, Select, Source, Table, TableScan, path, shape};
use crate::types::SqlType;

impl Binder<'_> {
    /// Binds an INSERT.
    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<Insert> {
        refuse_insert(insert)?;
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into this"));
        };
        let position = self.position(name);
        let table = self.catalog.table(&names::relation_of(name)?).map_err(|e| e.at(position))?;
        let columns = self.insert_columns(&table, &insert.columns)?;
        let targets: Vec<(String, SqlType)> = columns
            .iter()
            .map(|at| (table.info.columns[*at].name.clone(), table.types[*at]))
            .collect();
        let source = match &insert.source {
            Some(query) => self.query_for(query, Some(&targets))?,
            None => default_row(),
        };
        let width = source.columns.len();
        if width > targets.len() {
            let message = "INSERT has more expressions than target columns";
            return Err(SqlError::syntax(message));
        }
        if width < targets.len() && !insert.columns.is_empty() {
            return Err(SqlError::syntax("INSERT has more target columns than expressions"));
        }
        let mut places = vec![None; table.types.len()];
        for (place, at) in columns.iter().take(width).enumerate() {
            places[*at] = Some(place);
        }
        self.table(&table, None)?;
        if let Some(alias) = &insert.table_alias {
            self.scope.alias = names::ident(&alias.alias);
        }
        let returning =
            self.at_place(Place::None("RETURNING"), |b| b.returning(insert.returning.as_deref()))?;
        Ok(Insert { table, places, source, returning })
    }

    fn insert_columns(&self, table: &Table, named: &[ast::ObjectName]) -> Result<Vec<usize>> {
        if named.is_empty() {
            return Ok((0..table.types.len()).collect());
        }
        let mut columns = Vec::with_capacity(named.len());
        for name in named {
            let position = self.position(name);
            let [name] = names::parts(name)?
                .try_into()
                .map_err(|_| SqlError::unsupported("a field of a column").at(position))?;
            let at = column_of(table, &name).map_err(|error| error.at(position))?;
            if columns.contains(&at) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message).at(position));
            }
            columns.push(at);
        }
        Ok(columns)
    }

    /// Binds an UPDATE.
    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<Change> {
        if update.from.is_some() {
            return Err(SqlError::unsupported("UPDATE with FROM (a join)"));
        }
        if update.or.is_some()
            || !update.order_by.is_empty()
            || update.limit.is_some()
            || update.output.is_some()
        {
            return Err(SqlError::unsupported("UPDATE with such a clause"));
        }
        let scan = self.target(&update.table)?;
        let mut assignments = Vec::new();
        for assignment in &update.assignments {
            self.assignment(assignment, &scan.table, &mut assignments)?;
        }
        self.change(scan, update.selection.as_ref(), Some(assignments), update.returning.as_deref())
    }

    /// Binds a DELETE.
    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<Change> {
        if delete.using.is_some() {
            return Err(SqlError::unsupported("DELETE with USING (a join)"));
        }
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
        let scan = self.target(from)?;
        self.change(scan, delete.selection.as_ref(), None, delete.returning.as_deref())
    }

    fn target(&mut self, table: &TableWithJoins) -> Result<TableScan> {
        let TableFactor::Table { args: None, .. } = &table.relation else {
            return Err(SqlError::unsupported("changing anything but a table"));
        };
        match self.from(std::slice::from_ref(table))? {
            Source::Table(scan) => Ok(*scan),
            _ => Err(SqlError::unsupported("changing anything but a table")),
        }
    }

    fn assignment(
        &mut self,
        assignment: &ast::Assignment,
        table: &Arc<Table>,
        assignments: &mut Vec<(usize, Expr)>,
    ) -> Result<()> {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(SqlError::unsupported("an assignment to several columns at once"));
        };
        let position = self.position(name);
        let parts = names::parts(name)?;
        let [column] = parts.as_slice() else {
            return Err(SqlError::unsupported("a field of a column").at(position));
        };
        let at = column_of(table, column).map_err(|error| error.at(position))?;
        if assignments.iter().any(|(known, _)| *known == at) {
            let message = format!("multiple assignments to same column \"{column}\"");
            return Err(SqlError::syntax(message).at(position));
        }
        let is_default = matches!(&assignment.value, ast::Expr::Identifier(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"));
        let value = match is_default {
            true => super::from::null(),
            false => self.at_place(Place::None("UPDATE"), |b| b.expr(&assignment.value))?,
        };
        assignments.push((at, self.assign(value, column, table.types[at])?));
        Ok(())
    }

    fn change(
        &mut self,
        mut scan: TableScan,
        selection: Option<&ast::Expr>,
        assignments: Option<Vec<(usize, Expr)>>,
        returning: Option<&[ast::SelectItem]>,
    ) -> Result<Change> {
        let mut condition = None;
        if let Some(node) = selection {
            let value = self.at_place(Place::None("WHERE"), |binder| binder.expr(node))?;
            condition = Some(self.condition(value, "WHERE")?);
        }
        let returning = self.at_place(Place::None("RETURNING"), |b| b.returning(returning))?;
        scan.filter = condition.clone();
        shape::narrow_scan(&mut scan, &mut []);
        path::choose_change(&mut scan);
        Ok(Change { scan, condition, assignments, returning })
    }
}

fn column_of(table: &Table, name: &str) -> Result<usize> {
    let found = table.info.columns.iter().position(|column| column.name == name);
    found.ok_or_else(|| {
        let message =
            format!("column \"{name}\" of relation \"{}\" does not exist", table.info.name);
        SqlError::new(code::UNDEFINED_COLUMN, message)
    })
}

/// The one row of DEFAULT VALUES, without columns: all become null.
fn default_row() -> Select {
    Select {
        source: Source::Nothing,
        filter: None,
        group: None,
        output: Vec::new(),
        columns: Vec::new(),
        distinct: crate::plan::Distinct::None,
        sort: Vec::new(),
        ordered: false,
        limit: None,
        offset: None,
        locks: false,
    }
}

fn refuse_insert(insert: &ast::Insert) -> Result<()> {
    if insert.on.is_some() {
        return Err(SqlError::unsupported("ON CONFLICT"));
    }
    let odd = insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || insert.replace_into
        || !insert.assignments.is_empty()
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || insert.output.is_some()
        || insert.insert_alias.is_some()
        || insert.settings.is_some()
        || insert.format_clause.is_some()
        || insert.multi_table_insert_type.is_some();
    if odd { Err(SqlError::unsupported("INSERT with such a clause")) } else { Ok(()) }
}
