//! Definitions made, changed and dropped, in the transaction of the statement.
//!
//! Invariants: what fails half-way is undone by the engine or by the transaction's failure.
//! Does not do: reading syntax (`bind::ddl`).

use rightlink::{
    ColumnSchema, Error, IdentitySchema, IndexSchema, KeyColumn, TableInfo, TableSchema,
    Transaction,
};

use crate::bind::ddl::{Alteration, Definition, Kind};
use crate::error::{Result, SqlError, code};

/// What was done: a tag, and notices for the client.
pub(crate) struct Defined {
    pub(crate) tag: &'static str,
    pub(crate) notices: Vec<String>,
}

/// The error for a table that is not there.
pub(crate) fn no_table(name: &str) -> SqlError {
    SqlError::new(code::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

fn exists(name: &str) -> SqlError {
    SqlError::new(code::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// Carries a definition out.
pub(crate) fn run(definition: &Definition, txn: &mut Transaction) -> Result<Defined> {
    let mut notices = Vec::new();
    let tag = match definition {
        Definition::CreateTable { schema, if_not_exists } => {
            create_table(schema, *if_not_exists, txn, &mut notices)?;
            "CREATE TABLE"
        }
        Definition::CreateIndex { table, index, named, if_not_exists } => {
            create_index(txn, table, (index, *named), *if_not_exists, &mut notices)?;
            "CREATE INDEX"
        }
        Definition::Drop { kind, names, if_exists } => {
            for name in names {
                drop_one(*kind, name, *if_exists, txn, &mut notices)?;
            }
            if *kind == Kind::Table { "DROP TABLE" } else { "DROP INDEX" }
        }
        Definition::Alter { table, if_exists, changes } => {
            alter(txn, table, *if_exists, changes, &mut notices)?;
            "ALTER TABLE"
        }
        Definition::Truncate { tables } => {
            for table in tables {
                truncate(txn, table)?;
            }
            "TRUNCATE TABLE"
        }
    };
    Ok(Defined { tag, notices })
}

/// Names a missing or doubled relation as PostgreSQL does.
fn named<T>(name: &str, result: rightlink::Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        Error::AlreadyExists(_) => exists(name),
        Error::NotFound(_) => no_table(name),
        Error::Invalid(what) => SqlError::new(code::INVALID_TABLE_DEFINITION, what),
        other => other.into(),
    })
}

fn create_table(
    schema: &TableSchema,
    if_not_exists: bool,
    txn: &mut Transaction,
    notices: &mut Vec<String>,
) -> Result<()> {
    if if_not_exists && txn.describe(&schema.name).is_ok() {
        notices.push(format!("relation \"{}\" already exists, skipping", schema.name));
        return Ok(());
    }
    for index in &schema.indexes {
        for key in &index.columns {
            if !schema.columns.iter().any(|column| column.name == key.name) {
                let message = format!("column \"{}\" named in key does not exist", key.name);
                return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
            }
        }
    }
    named(&schema.name, txn.create_table(schema))
}

fn create_index(
    txn: &mut Transaction,
    table: &str,
    (index, is_named): (&IndexSchema, bool),
    if_not_exists: bool,
    notices: &mut Vec<String>,
) -> Result<()> {
    let info = named(table, txn.describe(table))?;
    for key in &index.columns {
        if !info.columns.iter().any(|column| column.name == key.name) {
            let message = format!("column \"{}\" does not exist", key.name);
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        }
    }
    if if_not_exists && is_named && txn.table_of_index(&index.name).is_ok() {
        notices.push(format!("relation \"{}\" already exists, skipping", index.name));
        return Ok(());
    }
    let mut index = index.clone();
    if !is_named {
        let wanted = index.name.clone();
        let mut number = 0;
        while txn.table_of_index(&index.name).is_ok() {
            number += 1;
            index.name = format!("{wanted}{number}");
        }
    }
    let result = txn.create_index(table, &index);
    if let Err(Error::UniqueViolation { key, .. }) = &result {
        let message = format!("could not create unique index \"{}\"", index.name);
        return Err(SqlError::new(code::UNIQUE_VIOLATION, message)
            .detail(format!("Key {key} is duplicated.")));
    }
    named(&index.name, result)
}

fn drop_one(
    kind: Kind,
    name: &str,
    if_exists: bool,
    txn: &mut Transaction,
    notices: &mut Vec<String>,
) -> Result<()> {
    let what = if kind == Kind::Table { "table" } else { "index" };
    let missing = format!("{what} \"{name}\" does not exist");
    let result = match kind {
        Kind::Table => txn.drop_table(name),
        Kind::Index => txn.drop_index(name),
    };
    match result {
        Err(Error::NotFound(_)) if if_exists => {
            notices.push(format!("{missing}, skipping"));
            Ok(())
        }
        Err(Error::NotFound(_)) if kind == Kind::Table => {
            Err(SqlError::new(code::UNDEFINED_TABLE, missing))
        }
        Err(Error::NotFound(_)) => Err(SqlError::new(code::UNDEFINED_OBJECT, missing)),
        other => Ok(other?),
    }
}

fn alter(
    txn: &mut Transaction,
    table: &str,
    if_exists: bool,
    changes: &[Alteration],
    notices: &mut Vec<String>,
) -> Result<()> {
    let info = match txn.describe(table) {
        Err(Error::NotFound(_)) if if_exists => {
            notices.push(format!("relation \"{table}\" does not exist, skipping"));
            return Ok(());
        }
        other => named(table, other)?,
    };
    for change in changes {
        let has = |name: &str| info.columns.iter().any(|column| column.name == name);
        match change {
            Alteration::AddColumn { name, if_not_exists: true, .. } if has(name) => {
                notices.push(format!(
                    "column \"{name}\" of relation \"{table}\" already exists, skipping"
                ));
            }
            Alteration::AddColumn { name, kind, .. } => match txn.add_column(table, name, *kind) {
                Err(Error::AlreadyExists(_)) => {
                    let message =
                        format!("column \"{name}\" of relation \"{table}\" already exists");
                    return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
                }
                other => other?,
            },
            Alteration::DropColumn { name, if_exists: true } if !has(name) => {
                notices.push(format!(
                    "column \"{name}\" of relation \"{table}\" does not exist, skipping"
                ));
            }
            Alteration::DropColumn { name, .. } => drop_column(txn, &info, name)?,
            Alteration::AddUnique { index, named } => {
                create_index(txn, table, (index, *named), false, notices)?;
            }
        }
    }
    Ok(())
}

/// Indexes of the column go with it, as in PostgreSQL.
fn drop_column(txn: &mut Transaction, info: &TableInfo, name: &str) -> Result<()> {
    if !info.columns.iter().any(|column| column.name == name) {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", info.name);
        return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
    }
    let of_column = |index: &&rightlink::IndexInfo| index.columns.iter().any(|c| c.name == name);
    for index in info.indexes.iter().filter(of_column) {
        if index.primary {
            return Err(SqlError::unsupported("dropping a column of the primary key"));
        }
        txn.drop_index(&index.name)?;
    }
    Ok(txn.drop_column(&info.name, name)?)
}

/// A table of the same definition takes the place of the old one.
fn truncate(txn: &mut Transaction, table: &str) -> Result<()> {
    let info = named(table, txn.describe(table))?;
    let schema = schema_of(&info);
    named(table, txn.drop_table(table))?;
    named(table, txn.create_table(&schema))
}

fn schema_of(info: &TableInfo) -> TableSchema {
    let mut schema = TableSchema::new(&info.name);
    schema.logged = info.logged;
    schema.fillfactor = info.fillfactor;
    schema.checks = info.checks.clone();
    for column in &info.columns {
        let (name, kind, nullable) = (column.name.clone(), column.kind, column.nullable);
        let default = column.default.clone();
        let identity = column.identity.as_ref().map(|identity| IdentitySchema {
            always: identity.always,
            start: identity.start,
            increment: identity.increment,
        });
        schema.columns.push(ColumnSchema { name, kind, nullable, default, identity });
    }
    for index in &info.indexes {
        if index.primary {
            schema.primary_key = index.columns.iter().map(|column| column.name.clone()).collect();
            continue;
        }
        let key = |column: &rightlink::KeyColumnInfo| KeyColumn {
            name: column.name.clone(),
            descending: column.descending,
            nulls_first: column.nulls_first,
        };
        let columns = index.columns.iter().map(key).collect();
        let (unique, method) = (index.unique, index.method);
        schema.indexes.push(IndexSchema {
            columns,
            unique,
            method,
            ..IndexSchema::new(&index.name)
        });
    }
    schema
}
