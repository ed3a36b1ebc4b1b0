//! Definitions made, changed and dropped, in the transaction of the statement.
//!
//! | file | hides |
//! |---|---|
//! | `table` | CREATE TABLE, TRUNCATE, defaults |
//! | `alter` | ALTER TABLE |
//! | `expression` | columns with the values of expressions for indexes |
//! | `generated` | generated columns |
//! | `collation`, `operator_class` | CREATE and DROP COLLATION; operator classes of keys |
//! | `constraints` | checks, foreign keys: making and dropping |
//! | `view`, `readers` | views; what reads a relation |
//! | `schema` | schemas; names of sequences in what is kept |
//! | `rename` | names inside of what is noted with tables |
//! | `sequence` | sequences and what they belong to |
//! | `types`, `domains` | types |
//! | `functions`, `function_users` | functions; the definitions that call them |
//! | `comment` | COMMENT ON |
//!
//! Invariants: what fails half-way is undone by the engine or by the transaction's failure. Both
//! ends of a foreign key note each other.
//! Does not do: reading syntax (`bind::ddl`).

mod alter;
mod collation;
mod comment;
mod composites;
mod constraints;
mod domains;
mod expression;
mod function_users;
mod functions;
mod generated;
mod identity;
mod late_keys;
mod operator_class;
mod readers;
mod rename;
mod retype;
mod schema;
pub(crate) mod sequence;
mod table;
mod types;
mod used_index;
mod view;

use rightlink::{
    AlterTable, Busy, Error, IndexInfo, IndexSchema, KeyCollation, KeyColumn, LockMode, Predicate,
    TableInfo, Transaction,
};

use crate::bind::ddl::{Alteration, Definition, IndexPart, Kind, NewIndex};
use crate::bind::reading::Reading;
use crate::bind::{Binder, Catalog};
use crate::catalog::{forget_plain_indexes, note_plain_index};
use crate::error::{Result, SqlError, code, shown_key};
use crate::exec::tables::Tables;
use crate::expr::{Context, Expr};
use crate::names::bare;
use crate::names::{MATERIALIZED_VIEW, VIEW};
use crate::notes::{ColumnNotes, Deferral, MadeTypes, TableNotes, column_type};
use crate::parse::Lines;
use crate::schemas::no_table;
use crate::statistics::store;
use crate::types::cast;

/// What was done: a tag, and notices for the client.
pub(crate) struct Defined {
    pub(crate) tag: &'static str,
    pub(crate) notices: Vec<String>,
}

/// A definition in the making.
struct Definer<'d> {
    txn: &'d mut Transaction,
    context: &'d Context,
    notices: Vec<String>,
}

/// Carries a definition out.
pub(crate) fn run(
    definition: &Definition,
    txn: &mut Transaction,
    context: &Context,
) -> Result<Defined> {
    let run = |txn: &mut Transaction| {
        let mut definer = Definer { txn, context, notices: Vec::new() };
        let tag = definer.run(definition)?;
        Ok(Defined { tag, notices: definer.notices })
    };
    match definition {
        Definition::Drop { .. }
        | Definition::DropSchema { .. }
        | Definition::Refresh { .. }
        | Definition::Truncate { .. } => txn.freeing(run),
        _ => run(txn),
    }
}

/// The index that CREATE INDEX CONCURRENTLY makes, `None` if it is there; and notices.
pub(crate) fn index_to_make(
    txn: &mut Transaction,
    context: &Context,
    (table, index, if_not_exists): (&str, &NewIndex, bool),
) -> Result<(Option<IndexSchema>, Vec<String>)> {
    if index.parts.iter().any(|part| part.expression.is_some()) {
        return Err(SqlError::unsupported("CREATE INDEX CONCURRENTLY on an expression"));
    }
    let mut definer = Definer { txn, context, notices: Vec::new() };
    let made = definer.index_to_make(table, index, if_not_exists)?;
    Ok((made, definer.notices))
}

/// Notes of an index that CREATE INDEX CONCURRENTLY has made whatever else it was given.
pub(crate) fn note_made(
    txn: &mut Transaction,
    context: &Context,
    table: &str,
    made: &IndexSchema,
    index: &NewIndex,
) -> Result<()> {
    let mut definer = Definer { txn, context, notices: Vec::new() };
    definer.note_plain(table, made)?;
    definer.note_classes(table, &made.name, &index.parts)
}

/// Names a missing or doubled relation as PostgreSQL does.
fn named<T>(name: &str, result: rightlink::Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        Error::AlreadyExists(_) => {
            let message = format!("relation \"{}\" already exists", bare(name));
            SqlError::new(code::DUPLICATE_TABLE, message)
        }
        Error::NotFound(_) => no_table(name),
        Error::Invalid(what) => SqlError::new(code::INVALID_TABLE_DEFINITION, what),
        other => other.into(),
    })
}

/// The error for a key that stands twice in a table whose index is to be unique.
fn duplicated(table: &str, index: &str, columns: &[String], key: &str) -> SqlError {
    let index = bare(index);
    let message = format!("could not create unique index \"{index}\"");
    SqlError::new(code::UNIQUE_VIOLATION, message)
        .detail(format!("{} is duplicated.", shown_key(columns, key)))
        .of_constraint(table, index)
}

/// The error for an index that cannot be unique.
pub(crate) fn not_unique(index: &str, error: Error) -> SqlError {
    let index = bare(index);
    match error {
        Error::UniqueViolation { table, columns, key, .. } => {
            duplicated(&table, index, &columns, &key)
        }
        Error::AlreadyExists(_) => {
            let message = format!("relation \"{index}\" already exists");
            SqlError::new(code::DUPLICATE_TABLE, message)
        }
        other => other.into(),
    }
}

impl Definer<'_> {
    fn run(&mut self, definition: &Definition) -> Result<&'static str> {
        Ok(match definition {
            Definition::CreateTable { table, if_not_exists } => {
                self.create_table(table, *if_not_exists)?;
                "CREATE TABLE"
            }
            Definition::CreateIndex { table, index, if_not_exists, .. } => {
                if let Some(made) = self.create_index(table, index, *if_not_exists)? {
                    self.note_plain(table, &made)?;
                }
                "CREATE INDEX"
            }
            Definition::CreateView(view) => {
                self.create_view(view)?;
                match view.materialized {
                    Some(_) => "CREATE MATERIALIZED VIEW",
                    None => "CREATE VIEW",
                }
            }
            Definition::Refresh { view, with_data } => {
                self.clear_rows(view, *with_data)?;
                "REFRESH MATERIALIZED VIEW"
            }
            Definition::CreateSequence { name, options, if_not_exists } => {
                self.create_sequence(name, options, *if_not_exists)?;
                "CREATE SEQUENCE"
            }
            Definition::AlterSequence { name, options, if_exists } => {
                self.alter_sequence(name, options, *if_exists)?;
                "ALTER SEQUENCE"
            }
            Definition::RenameSequence { name, to, if_exists } => {
                self.name_sequence(name, to, *if_exists)?;
                "ALTER SEQUENCE"
            }
            Definition::MoveSequence { name, schema, if_exists } => {
                self.move_sequence(name, schema, *if_exists)?;
                "ALTER SEQUENCE"
            }
            Definition::CreateCollation { name, from, if_not_exists } => {
                self.create_collation(name, from, *if_not_exists)?;
                "CREATE COLLATION"
            }
            Definition::Type(definition) => self.define_type(definition)?,
            Definition::Function(definition) => self.define_function(definition)?,
            Definition::Drop { kind, names, if_exists, cascade } => {
                self.drop(*kind, names, *if_exists, *cascade)?
            }
            Definition::Alter { table, said, if_exists, changes } => {
                // As in PostgreSQL, which renames columns of any relation.
                if !changes.iter().all(|one| matches!(one, Alteration::RenameColumn(..))) {
                    self.check_said(table, *said, *if_exists)?;
                }
                self.alter(table, *if_exists, changes)?;
                said.altered()
            }
            Definition::MoveTable { table, said, if_exists, schema } => {
                self.check_said(table, *said, *if_exists)?;
                self.move_table(table, *if_exists, schema)?;
                said.altered()
            }
            Definition::RenameIndex { name, to } => {
                self.rename_index(name, to)?;
                "ALTER INDEX"
            }
            Definition::CreateSchema { name, if_not_exists, .. } => {
                self.create_schema(name, *if_not_exists)?;
                "CREATE SCHEMA"
            }
            Definition::DropSchema { names, if_exists, cascade } => {
                self.drop_schemas(names, *if_exists, *cascade)?;
                "DROP SCHEMA"
            }
            Definition::RenameSchema { name, to } => {
                self.rename_schema(name, to)?;
                "ALTER SCHEMA"
            }
            Definition::Truncate { tables, restart, cascade } => {
                self.truncate(tables, *restart, *cascade)?;
                "TRUNCATE TABLE"
            }
            Definition::Comment { on, text } => {
                self.comment(on, text.clone())?;
                "COMMENT"
            }
        })
    }

    fn rename_index(&mut self, name: &str, to: &str) -> Result<()> {
        self.refuse_constraint_name(name, to)?;
        match self.txn.rename_index(name, to) {
            Err(Error::AlreadyExists(_)) => named(to, Err(taken())),
            result => named(name, result),
        }
    }

    /// Fails if a unique index, which is a constraint too, is to be called as another constraint
    /// of its table.
    fn refuse_constraint_name(&mut self, index: &str, to: &str) -> Result<()> {
        let Ok(table) = self.txn.catalog().table_of_index(index) else { return Ok(()) };
        let info = named(&table, self.txn.catalog().describe(&table))?;
        let notes = TableNotes::decode(&info.note);
        let is_key = |one: &IndexInfo| one.name == index && notes.key_kind(one).is_some();
        match info.indexes.iter().any(is_key) {
            true => alter::refuse_taken(&table, to, &self.constraint_names(&table)?),
            false => Ok(()),
        }
    }

    /// The table called `name`, as the binder knows it.
    fn table(&mut self, name: &str) -> Result<std::sync::Arc<crate::plan::Table>> {
        Tables(self.txn).table(name)
    }

    /// Changes what is noted with a table.
    fn note(&mut self, table: &str, change: impl FnOnce(&mut TableNotes)) -> Result<()> {
        let info = named(table, self.txn.catalog().describe(table))?;
        let mut notes = TableNotes::decode(&info.note);
        let before = notes.clone();
        change(&mut notes);
        if notes != before {
            forget_comments(&mut notes, &info);
            self.txn.alter_table(table, AlterTable::Note(&notes.encode()))?;
        }
        Ok(())
    }

    /// Changes what is noted with a column.
    fn note_column(
        &mut self,
        table: &str,
        column: &str,
        change: impl FnOnce(&mut ColumnNotes),
    ) -> Result<()> {
        let info = named(table, self.txn.catalog().describe(table))?;
        let found = info.columns.iter().find(|known| known.name == column);
        let found = found.ok_or_else(|| no_column(table, column))?;
        let mut notes = ColumnNotes::decode(&found.note);
        let before = notes.clone();
        change(&mut notes);
        if notes != before {
            self.txn
                .alter_table(table, AlterTable::ColumnNote { column, note: &notes.encode() })?;
        }
        Ok(())
    }

    /// What was known about the values of a column is not true any more.
    fn forget_column(&mut self, table: &crate::plan::Table, column: &str) -> Result<()> {
        store::change(self.txn, table.info.id, |known| {
            known.columns.retain(|known| known.name != column);
        })
    }

    /// Makes an index; `None` if it is there.
    fn create_index(
        &mut self,
        table: &str,
        index: &NewIndex,
        if_not_exists: bool,
    ) -> Result<Option<IndexSchema>> {
        // Before the first look: of two who have looked, none could be the last to leave.
        let adds_columns = index.parts.iter().any(|part| part.expression.is_some());
        let lock = if adds_columns { LockMode::Exclusive } else { LockMode::ShareWrite };
        named(table, self.txn.lock_table(table, lock, Busy::Wait))?;
        let Some(schema) = self.index_to_make(table, index, if_not_exists)? else {
            return Ok(None);
        };
        let result = self.txn.create_index(table, &schema);
        match result {
            Err(error @ (Error::UniqueViolation { .. } | Error::AlreadyExists(_))) => {
                return Err(not_unique(&schema.name, error));
            }
            result => named(&schema.name, result)?,
        }
        self.note_classes(table, &schema.name, &index.parts)?;
        Ok(Some(schema))
    }

    /// Notes of a new index that it stands for no constraint, if it could.
    fn note_plain(&mut self, table: &str, index: &IndexSchema) -> Result<()> {
        if !index.unique {
            return Ok(());
        }
        let info = self.txn.catalog().definition(table)?;
        match info.indexes.iter().find(|known| known.name == index.name) {
            Some(made) => note_plain_index(self.txn, made.id),
            None => Ok(()),
        }
    }

    /// The index with its name settled; `None` if it is there.
    fn index_to_make(
        &mut self,
        table: &str,
        index: &NewIndex,
        if_not_exists: bool,
    ) -> Result<Option<IndexSchema>> {
        if self.is_view(table)? {
            self.refuse_view(table, "cannot create index on relation")?;
        }
        let info = named(table, self.txn.catalog().describe(table))?;
        let keys = index.schema.columns.iter().zip(&index.parts);
        let key = keys.filter(|(_, part)| part.expression.is_none()).map(|(key, _)| &key.name);
        for name in key.clone().chain(&index.schema.included) {
            if !info.columns.iter().any(|column| column.name == *name) {
                let message = format!("column \"{name}\" does not exist");
                return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
            }
        }
        check_keys(&info.columns, key)?;
        let mut schema = index.schema.clone();
        if let Some(condition) = &index.condition {
            schema.predicate = Some(self.predicate(table, condition)?);
        }
        if if_not_exists && index.named && self.txn.catalog().table_of_index(&schema.name).is_ok() {
            let name = bare(&schema.name);
            self.notices.push(format!("relation \"{name}\" already exists, skipping"));
            return Ok(None);
        }
        if !index.named {
            schema.name = self.txn.catalog().free_name(&schema.name, &[])?;
        }
        for (key, part) in schema.columns.iter_mut().zip(&index.parts) {
            if let Some(node) = &part.expression {
                key.name = self.computed_column(table, node)?;
            }
        }
        self.collate_keys(table, &mut schema.columns, &index.parts)?;
        self.take_classes(table, &mut schema, &index.parts)?;
        Ok(Some(schema))
    }

    /// Gives the key columns of an index of `table` the collations that are called so.
    fn collate_keys(
        &mut self,
        table: &str,
        keys: &mut [KeyColumn],
        parts: &[IndexPart],
    ) -> Result<()> {
        if parts.iter().all(|part| part.collation.is_none()) {
            return Ok(());
        }
        let info = named(table, self.txn.catalog().describe(table))?;
        for (key, part) in keys.iter_mut().zip(parts) {
            let Some(name) = &part.collation else { continue };
            let column = info.columns.iter().find(|column| column.name == key.name);
            if let Some(column) = column.filter(|column| column.kind != rightlink::Type::Text) {
                let ty = column_type(column);
                let message = format!("collations are not supported by type {ty}");
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
            key.collation = match Tables(self.txn).collation(name)? {
                Some(collation) => KeyCollation::Given(collation),
                None => KeyCollation::Bytes,
            };
        }
        Ok(())
    }

    /// The condition of a partial index as the store keeps it.
    fn predicate(&mut self, table: &str, condition: &sqlparser::ast::Expr) -> Result<Predicate> {
        let table = self.table(table)?;
        let (mut tables, lines) = (Tables(self.txn), Lines::default());
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::of(self.context.times.clone());
        let bound = binder.index_condition(condition, &table)?;
        refuse_unsteady(&bound)?;
        crate::plan::predicate::of_condition(&bound, &table).ok_or_else(|| {
            let what = format!("a partial index of the rows with {condition}");
            SqlError::unsupported(what)
                .detail("Columns can be compared with constants of their type, or be null or not.")
        })
    }

    fn drop(
        &mut self,
        kind: Kind,
        names: &[String],
        if_exists: bool,
        cascade: bool,
    ) -> Result<&'static str> {
        let (what, tag) = match kind {
            Kind::Table => ("table", "DROP TABLE"),
            Kind::View => (VIEW, "DROP VIEW"),
            Kind::MaterializedView => (MATERIALIZED_VIEW, "DROP MATERIALIZED VIEW"),
            Kind::Index => ("index", "DROP INDEX"),
            Kind::Sequence => ("sequence", "DROP SEQUENCE"),
            Kind::Collation => ("collation", "DROP COLLATION"),
            Kind::Type => ("type", "DROP TYPE"),
            Kind::Domain => ("type", "DROP DOMAIN"),
        };
        for name in names {
            let result = match kind {
                Kind::Table => self.drop_table(name, names, cascade),
                Kind::View | Kind::MaterializedView => self.drop_view(name, what, names, cascade),
                Kind::Index => self.drop_index(name, cascade),
                Kind::Collation => self.drop_collation(name),
                Kind::Type => self.drop_type(name, names, cascade),
                Kind::Domain => self.drop_domain(name, names, cascade),
                Kind::Sequence => self.drop_sequence(name, cascade),
            };
            let missing = format!("{what} \"{name}\" does not exist");
            let absent = |error: &SqlError| {
                matches!(error.sqlstate, code::UNDEFINED_TABLE | code::UNDEFINED_OBJECT)
            };
            match result {
                Err(error)
                    if absent(&error)
                        && !matches!(kind, Kind::Collation | Kind::Type | Kind::Domain)
                        && self.txn.catalog().has_relation(name)? =>
                {
                    let found = self.kind_of(name)?;
                    return Err(view::wrong_kind(name, what, found));
                }
                Err(error) if absent(&error) && if_exists => {
                    self.notices.push(format!("{missing}, skipping"));
                }
                Err(error)
                    if absent(&error)
                        && matches!(
                            kind,
                            Kind::Index | Kind::Collation | Kind::Type | Kind::Domain
                        ) =>
                {
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, missing));
                }
                Err(error) if absent(&error) => {
                    return Err(SqlError::new(code::UNDEFINED_TABLE, missing));
                }
                other => other?,
            }
        }
        Ok(tag)
    }

    fn drop_index(&mut self, name: &str, cascade: bool) -> Result<()> {
        let table = self.txn.catalog().table_of_index(name)?;
        let info = self.txn.catalog().describe(&table)?;
        let notes = TableNotes::decode(&info.note);
        let is_required = |index: &IndexInfo| {
            let kind = notes.key_kind(index);
            kind.is_some_and(|kind| kind.primary || kind.deferral != Deferral::Never)
        };
        if info.indexes.iter().any(|index| index.name == name && is_required(index)) {
            return Err(late_keys::required(name, &table));
        }
        self.free_index(&table, name, cascade)?;
        self.txn.drop_index(name)?;
        let gone: Vec<IndexInfo> =
            info.indexes.iter().filter(|index| index.name == name).cloned().collect();
        forget_plain_indexes(self.txn, &gone)?;
        self.drop_unused_expressions(&table)
    }
}

/// The result of making a primary key of rows that are there.
fn key_made(table: &str, made: rightlink::Result<()>) -> Result<()> {
    match made {
        Err(Error::NotNullViolation { table, column }) => Err(alter::has_nulls(&table, &column)),
        other => named(table, other),
    }
}

/// Fails if a key would hold values without an order, or in another than their bytes in the store.
fn check_keys<'n>(
    columns: &[rightlink::ColumnSchema],
    keys: impl IntoIterator<Item = &'n String>,
) -> Result<()> {
    for key in keys {
        let found = columns.iter().find(|column| column.name == *key);
        let notes = found.map(|column| (column, ColumnNotes::decode(&column.note)));
        if let Some((column, _)) =
            notes.as_ref().filter(|(_, notes)| notes.made.as_ref().is_some_and(|it| it.is_array))
        {
            return Err(SqlError::unsupported(format!(
                "a key column of type {}",
                column_type(column)
            )));
        }
        let ty = notes.map(|(column, notes)| notes.type_of(column.kind, &MadeTypes::new()));
        if let Some(ty) = ty.filter(|ty| !ty.is_ordered() && !ty.is_array()) {
            let message = format!(
                "data type {} has no default operator class for access method \"btree\"",
                ty.name()
            );
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        if let Some(ty) = ty.filter(|ty| ty.is_encoded()) {
            return Err(SqlError::unsupported(format!("a key column of type {}", ty.name())));
        }
    }
    Ok(())
}

/// Takes comments out of the notes of a table on what it does not have any more.
fn forget_comments(notes: &mut TableNotes, info: &TableInfo) {
    let is_index = |id: u32| info.indexes.iter().any(|index| index.id == id);
    notes.of_indexes.retain(|(id, _)| is_index(*id));
    notes.of_keys.retain(|(id, _)| is_index(*id));
    notes.deferrable.retain(|key| is_index(key.index));
    notes.classes.retain(|known| is_index(known.index));
    let (checks, keys) = (&notes.checks, &notes.keys);
    let there = |name: &str| {
        checks.iter().any(|(known, _)| known == name)
            || keys.iter().any(|key| key.name == name)
            || info.checks.iter().any(|check| check.name == name)
    };
    notes.of_checks.retain(|(name, _)| there(name));
}

fn taken() -> Error {
    Error::AlreadyExists(String::new())
}

fn no_column(table: &str, column: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{}\" does not exist", bare(table));
    SqlError::new(code::UNDEFINED_COLUMN, message)
}

/// Fails for a condition of an index that is another in other sessions or at other times.
fn refuse_unsteady(condition: &Expr) -> Result<()> {
    let mut is_steady = !condition.is_volatile();
    condition.walk(&mut |expr| {
        is_steady &= match expr {
            Expr::Cast(inner, to) => match &**inner {
                Expr::Const(value) => !cast::depends_on_session(value, *to),
                _ => true,
            },
            Expr::Call(function, _) => !function.is_stable,
            _ => true,
        };
    });
    match is_steady {
        true => Ok(()),
        false => {
            let message = "functions in index predicate must be marked IMMUTABLE";
            Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message))
        }
    }
}
