//! ALTER TABLE.
//!
//! Does not do: columns of another type (`retype`), identity (`identity`).

use rightlink::{AlterTable, Busy, ColumnDefault, ColumnSchema, Error, LockMode, Value};

use super::constraints::{depends, unnoted};
use super::identity::of_relation;
use super::{Definer, check_keys, expression, key_made, late_keys, named};
use crate::bind::Slot;
use crate::bind::ddl::{Alteration, NewIndex, NewPrimary, NewTable};
use crate::error::{Result, SqlError, code};
use crate::exec::rows::to_value;
use crate::expr::Expr;
use crate::names::{bare, beside};
use crate::notes::ColumnNotes;
use crate::notes::Deferral;
use crate::plan::Table;

impl Definer<'_> {
    pub(super) fn alter(
        &mut self,
        table: &str,
        if_exists: bool,
        changes: &[Alteration],
    ) -> Result<()> {
        // From the start, and not after a look that readers may share: what is looked at stays so,
        // and of two who alter the table one waits for the other.
        match self.txn.lock_table(table, LockMode::Exclusive, Busy::Wait) {
            Err(Error::NotFound(_)) if if_exists => {
                self.notices.push(format!("relation \"{table}\" does not exist, skipping"));
                return Ok(());
            }
            Err(Error::NotFound(_)) if self.txn.catalog().has_relation(table)? => {
                return changes.iter().try_for_each(|change| self.alter_other(table, change));
            }
            other => named(table, other)?,
        }
        self.refuse_changes_of_view(table, changes)?;
        let mut each = changes.iter().enumerate();
        each.try_for_each(|(at, change)| self.alter_one(table, change, &changes[..at]))
    }

    /// Makes a change of a sequence or an index, which ALTER TABLE can name, too.
    fn alter_other(&mut self, name: &str, change: &Alteration) -> Result<()> {
        let is_index = self.txn.catalog().table_of_index(name).is_ok();
        match change {
            Alteration::RenameTable(to) if is_index => self.rename_index(name, to),
            Alteration::RenameTable(to) => self.name_sequence(name, to, false),
            _ => {
                let (name, kind) = (bare(name), if is_index { "indexes" } else { "sequences" });
                let message = format!("\"{name}\" is not a table");
                let detail = format!("This operation is not supported for {kind}.");
                Err(SqlError::new(code::WRONG_OBJECT_TYPE, message).detail(detail))
            }
        }
    }

    /// Makes a change; the statement has made those `before` it.
    fn alter_one(&mut self, table: &str, change: &Alteration, before: &[Alteration]) -> Result<()> {
        match change {
            Alteration::AddColumn { column, if_not_exists } => {
                self.add_column(table, column, *if_not_exists)
            }
            Alteration::DropColumn { name, if_exists, cascade } => {
                self.drop_column(table, name, *if_exists, *cascade)
            }
            Alteration::AddUnique(index) => self.add_unique(table, index),
            Alteration::UseIndex(used) => self.use_index(table, used),
            Alteration::AddPrimary(key) => self.add_primary(table, key),
            Alteration::AddCheck(check) => self.add_check(table, check),
            Alteration::AddKey(key) => self.add_key(table, key),
            Alteration::DropConstraint { name, if_exists, cascade } => {
                self.drop_constraint(table, name, (*if_exists, *cascade))
            }
            Alteration::RenameTable(to) => self.rename_table(table, to),
            Alteration::RenameColumn(column, to) => self.rename_column(table, column, to),
            Alteration::RenameConstraint(old, to) => self.rename_constraint(table, old, to),
            Alteration::Default(column, default) => {
                self.set_default(table, column, default.as_ref())
            }
            Alteration::Type(column, kind, using) => {
                let retyped = before.iter().filter_map(|change| match change {
                    Alteration::Type(column, ..) => Some(column.as_str()),
                    _ => None,
                });
                let retyped: Vec<&str> = retyped.collect();
                self.change_type(table, (column, kind, using.as_ref()), &retyped)
            }
            Alteration::Deferral(name, deferral) => self.set_deferral(table, name, *deferral),
            Alteration::Identity(column, change) => self.change_identity(table, column, change),
            Alteration::DropExpression { column, if_exists } => {
                self.drop_expression(table, column, *if_exists)
            }
            Alteration::Nullable(column, nullable) => self.set_nullable(table, column, *nullable),
            Alteration::Storage(storage) => {
                let before = named(table, self.txn.catalog().describe(table))?.auto_vacuum;
                self.txn.alter_table(table, AlterTable::AutoVacuum(storage.apply(before)))?;
                self.note(table, |notes| notes.analyze = storage.analyze.over(notes.analyze))
            }
        }
    }

    pub(super) fn add_unique(&mut self, table: &str, index: &NewIndex) -> Result<()> {
        let taken = self.constraint_names(table)?;
        let mut index = index.clone();
        match index.named {
            true => refuse_taken(table, &index.schema.name, &taken)?,
            // A name that neither a relation nor a constraint has.
            false => {
                index.schema.name = self.txn.catalog().free_name(&index.schema.name, &taken)?
            }
        }
        index.named = true;
        self.create_index(table, &index, false)?;
        match index.late {
            Some(kind) => self.add_late(table, &index.schema.name, kind),
            None => Ok(()),
        }
    }

    /// Names of checks and foreign keys of the table called `name`, as an index would have them.
    pub(super) fn constraint_names(&mut self, name: &str) -> Result<Vec<String>> {
        let table = self.table(name)?;
        let checks = table.notes.checks.iter().map(|(known, _)| known);
        let own = table.info.checks.iter().map(|check| &check.name);
        let keys = table.notes.keys.iter().map(|key| &key.name);
        Ok(checks.chain(own).chain(keys).map(|known| beside(name, known)).collect())
    }

    fn add_primary(&mut self, table: &str, key: &NewPrimary) -> Result<()> {
        let info = named(table, self.txn.catalog().describe(table))?;
        if late_keys::has_primary(&info) {
            return Err(two_primary(table));
        }
        let (name, columns) = (key.name.as_deref(), &key.columns);
        for key in columns {
            if !info.columns.iter().any(|column| column.name == *key) {
                let message = format!("column \"{key}\" named in key does not exist");
                return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
            }
        }
        check_keys(&info.columns, columns)?;
        if let Some(index) = key.late_index() {
            return self.add_late_primary(table, key, index);
        }
        let taken = self.constraint_names(table)?;
        if let Some(name) = name {
            refuse_taken(table, name, &taken)?;
        }
        let own = self.txn.catalog().free_name(&format!("{table}_pkey"), &taken)?;
        let name = name.unwrap_or(&own);
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        match self
            .txn
            .alter_table(table, AlterTable::AddPrimaryKey { index: Some(name), columns: &columns })
        {
            Err(error @ (Error::UniqueViolation { .. } | Error::AlreadyExists(_))) => {
                Err(super::not_unique(name, error))
            }
            other => key_made(table, other),
        }
    }

    fn add_column(&mut self, table: &str, column: &NewTable, if_not_exists: bool) -> Result<()> {
        let mut schema = column.schema.columns[0].clone();
        let name = schema.name.clone();
        let info = named(table, self.txn.catalog().describe(table))?;
        if info.columns.iter().any(|known| known.name == name) {
            let table = bare(table);
            let message = format!("column \"{name}\" of relation \"{table}\" already exists");
            if if_not_exists {
                self.notices.push(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        let default = self.finish_column(column, 0, &mut schema)?;
        if let Some(domain) = &column.notes[0].domain
            && column.generated[0].is_none()
        {
            self.ask_default(table, domain, &default)?;
        }
        let keys = column.schema.indexes.iter().flat_map(|index| &index.columns);
        check_keys(std::slice::from_ref(&schema), keys.map(|key| &key.name))?;
        if schema.identity.is_some() {
            self.txn.alter_table(table, AlterTable::AddColumn(&schema))?;
        } else if let Some(node) = &column.generated[0] {
            self.add_generated_column(table, schema, node)?;
        } else {
            self.add_plain_column(table, schema, &default)?;
        }
        if !column.schema.primary_key.is_empty() {
            let (name, columns) = (column.primary_name.clone(), column.schema.primary_key.clone());
            let (included, deferral) = (Vec::new(), Deferral::Never);
            self.add_primary(table, &NewPrimary { name, columns, included, deferral })?;
        }
        if column.late.iter().any(|(_, kind)| kind.primary) {
            let info = named(table, self.txn.catalog().describe(table))?;
            if late_keys::has_primary(&info) {
                return Err(two_primary(table));
            }
        }
        for (at, index) in column.schema.indexes.iter().enumerate() {
            let mut index = index.clone();
            let taken = self.constraint_names(table)?;
            match column.unnamed.contains(&at) {
                true => index.name = self.txn.catalog().free_name(&index.name, &taken)?,
                false => refuse_taken(table, &index.name, &taken)?,
            }
            let made = self.txn.create_index(table, &index);
            made.map_err(|error| super::not_unique(&index.name, error))?;
            if let Some((_, kind)) = column.late.iter().find(|(place, _)| *place == at) {
                self.add_late(table, &index.name, *kind)?;
            }
        }
        column.checks.iter().try_for_each(|check| self.add_check(table, check))?;
        column.keys.iter().try_for_each(|key| self.add_key(table, key))
    }

    /// Adds a column with a default, or without.
    fn add_plain_column(
        &mut self,
        table: &str,
        mut schema: ColumnSchema,
        default: &Expr,
    ) -> Result<()> {
        let (name, nullable) = (schema.name.clone(), schema.nullable);
        schema.nullable = true;
        if schema.default.is_none() && default.is_stable() {
            // One value for all rows that are there; what comes later gets its own.
            let value = to_value(default.eval(&[], self.context)?)?;
            schema.default = Some(ColumnDefault::Value(value))
                .filter(|default| *default != ColumnDefault::Value(Value::Null));
        }
        self.txn.alter_table(table, AlterTable::AddColumn(&schema))?;
        let text = ColumnNotes::decode(&schema.note).default;
        let fixed = self.constant(default, text.as_deref())?;
        self.txn.alter_table(table, AlterTable::Default { column: &name, default: fixed })?;
        if !default.is_stable() {
            let context = self.context;
            let value_of = |_: &[Value]| default.eval(&[], context).and_then(to_value);
            self.fill(table, &schema, &value_of)?;
        }
        if nullable { Ok(()) } else { self.set_nullable(table, &name, false) }
    }

    /// Indexes, checks and foreign keys of the column go with it, as in PostgreSQL.
    pub(super) fn drop_column(
        &mut self,
        name: &str,
        column: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let table = self.table(name)?;
        if if_exists && !table.info.columns.iter().any(|known| known.name == column) {
            self.notices.push(format!(
                "column \"{column}\" of relation \"{}\" does not exist, skipping",
                bare(name)
            ));
            return Ok(());
        }
        self.column_at(&table, column)?;
        self.drop_generated_from(&table, column, cascade)?;
        // Columns that went with it may have stood in front of it.
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        self.drop_source_column(name, column, cascade)?;
        for child in &table.notes.children {
            let other = self.table(child)?;
            let uses = |key: &&crate::notes::ForeignKey| {
                key.parent == name && key.parent_columns.iter().any(|known| known == column)
            };
            for key in other.notes.keys.iter().filter(uses) {
                if !cascade && child != name {
                    let what = format!("column {column} of table {name}");
                    return Err(depends(
                        &what,
                        &format!("constraint {} on table {child} depends on {what}", key.name),
                    ));
                }
                self.drop_key(child, key)?;
            }
        }
        for key in table.notes.keys.iter().filter(|key| key.columns.iter().any(|c| c == column)) {
            self.drop_key(name, key)?;
        }
        self.drop_checks_of(&table, at)?;
        for index in &table.info.indexes {
            if !index.uses(column) && !expression::depends(index, &table, at) {
                continue;
            }
            match index.primary {
                true => self.txn.alter_table(name, AlterTable::DropPrimaryKey)?,
                false => self.txn.drop_index(&index.name)?,
            }
        }
        self.drop_unused_expressions(name)?;
        self.txn.alter_table(name, AlterTable::DropColumn(column))?;
        self.forget_column(&table, column)?;
        let what = format!("column {column} of table {name}");
        self.drop_owned(&table.column_notes[at].owned, (&what, &[]), cascade)
    }

    fn drop_checks_of(&mut self, table: &Table, at: usize) -> Result<()> {
        let rules = {
            let mut tables = crate::exec::tables::Tables(self.txn);
            let lines = crate::parse::Lines::default();
            crate::bind::Binder::new(&mut tables, &lines, &[]).rules(table)?
        };
        for (name, condition) in &rules.checks {
            let mut uses = false;
            condition.walk(&mut |expr| uses |= matches!(expr, Expr::Column(c) if *c == at));
            if uses {
                self.drop_check(table, name)?;
            }
        }
        let column = &table.info.columns[at].name;
        let names = |check: &&rightlink::CheckSchema| {
            check.predicate.terms.iter().any(|term| term.column == *column)
        };
        let own: Vec<String> =
            unnoted(table).filter(names).map(|check| check.name.clone()).collect();
        own.iter().try_for_each(|check| self.drop_check(table, check))
    }

    pub(super) fn set_default(
        &mut self,
        name: &str,
        column: &str,
        default: Option<&sqlparser::ast::Expr>,
    ) -> Result<()> {
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        if table.info.columns[at].identity.is_some() {
            let message =
                format!("column \"{column}\" of relation \"{}\" is an identity column", bare(name));
            return Err(SqlError::syntax(message));
        }
        if table.column_notes[at].generated.is_some() {
            let message = of_relation(&table, column, "is a generated column");
            let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.";
            let error = SqlError::syntax(message);
            return Err(if default.is_some() { error } else { error.hint(hint) });
        }
        let slot = Slot::of_table(&table, at);
        let default = default.map(|node| self.settled(node)).transpose()?;
        let (bound, text) = match &default {
            Some(node) => {
                let (bound, text) = self.bind_default(node, &slot)?;
                (bound, Some(text))
            }
            None => (Expr::null(), None),
        };
        let default = self.constant(&bound, text.as_deref())?;
        self.txn.alter_table(name, AlterTable::Default { column, default })?;
        self.note_column(name, column, |notes| notes.default = text)
    }

    pub(super) fn set_nullable(&mut self, name: &str, column: &str, nullable: bool) -> Result<()> {
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        let identity = table.info.columns[at].identity.is_some();
        if identity && nullable && !table.column_notes[at].serial {
            let message =
                format!("column \"{column}\" of relation \"{}\" is an identity column", bare(name));
            return Err(SqlError::syntax(message));
        }
        if identity && nullable {
            return Err(SqlError::unsupported("DROP NOT NULL of a serial column"));
        }
        if nullable {
            late_keys::refuse_primary(&table, column)?;
        }
        match self.txn.alter_table(name, AlterTable::Nullable { column, nullable }) {
            Err(Error::NotNullViolation { table, column }) => Err(has_nulls(&table, &column)),
            Err(Error::Invalid(_)) if nullable => {
                let message = format!("column \"{column}\" is in a primary key");
                Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message))
            }
            other => Ok(other?),
        }
    }
}

pub(super) fn two_primary(table: &str) -> SqlError {
    let message = format!("multiple primary keys for table \"{}\" are not allowed", bare(table));
    SqlError::new(code::INVALID_TABLE_DEFINITION, message)
}

/// Fails if a constraint of the table is called as an index is to be.
pub(super) fn refuse_taken(table: &str, index: &str, taken: &[String]) -> Result<()> {
    if !taken.iter().any(|known| known == index) {
        return Ok(());
    }
    let (name, table) = (bare(index), bare(table));
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    Err(SqlError::new(code::DUPLICATE_OBJECT, message))
}

pub(super) fn has_nulls(table: &str, column: &str) -> SqlError {
    let relation = bare(table);
    let message = format!("column \"{column}\" of relation \"{relation}\" contains null values");
    SqlError::new(code::NOT_NULL_VIOLATION, message).of_column(table, column)
}
