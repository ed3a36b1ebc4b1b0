//! Definitions of tables and indexes.
//!
//! Invariants: every clause that the store cannot keep is refused by name.
//! Does not do: changing anything (`exec::ddl`).

use rightlink::{ColumnSchema, IndexMethod, IndexSchema, KeyColumn, TableSchema, Type};
use sqlparser::ast::{
    self, AlterTableOperation, ColumnOption, CreateTableOptions, Expr as Ast, IndexType,
    NullsDistinctOption, ObjectType, SqlOption, TableConstraint,
};

use super::names;
use crate::error::{Result, SqlError, code};
use crate::types::SqlType;

/// A definition to make, change or drop.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    CreateTable { schema: TableSchema, if_not_exists: bool },
    CreateIndex { table: String, index: IndexSchema, named: bool, if_not_exists: bool },
    Drop { kind: Kind, names: Vec<String>, if_exists: bool },
    Alter { table: String, if_exists: bool, changes: Vec<Alteration> },
    Truncate { tables: Vec<String> },
}

/// What is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Table,
    Index,
}

/// A change of a table.
#[derive(Clone, Debug)]
pub(crate) enum Alteration {
    AddColumn { name: String, kind: Type, if_not_exists: bool },
    DropColumn { name: String, if_exists: bool },
    AddUnique { index: IndexSchema, named: bool },
}

/// Reads a definition, if the statement is one.
pub(crate) fn definition(statement: &ast::Statement) -> Result<Option<Definition>> {
    Ok(Some(match statement {
        ast::Statement::CreateTable(create) => create_table(create)?,
        ast::Statement::CreateIndex(create) => create_index(create)?,
        ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            purge,
            temporary,
            table,
            ..
        } => {
            let kind = match object_type {
                ObjectType::Table => Kind::Table,
                ObjectType::Index => Kind::Index,
                other => return Err(SqlError::unsupported(format!("DROP {other}"))),
            };
            if *cascade || *purge || *temporary || table.is_some() {
                return Err(SqlError::unsupported("DROP with such a clause"));
            }
            let names = names.iter().map(names::relation_of).collect::<Result<_>>()?;
            Definition::Drop { kind, names, if_exists: *if_exists }
        }
        ast::Statement::AlterTable(alter) => alter_table(alter)?,
        ast::Statement::Truncate(truncate) => self::truncate(truncate)?,
        _ => return Ok(None),
    }))
}

/// The type of a column, as the store has it.
fn column_type(kind: &ast::DataType) -> Result<Type> {
    let declared = names::data_type(kind)?;
    if declared.numeric.is_some() {
        return Err(SqlError::unsupported("a column of type numeric with a precision")
            .hint("A column of type numeric keeps every digit."));
    }
    let unsupported = || {
        SqlError::unsupported(format!("a column of type {}", declared.ty.name()))
            .detail("The store has no such type.")
    };
    declared.ty.to_column().filter(|_| declared.ty != SqlType::Unknown).ok_or_else(unsupported)
}

fn create_table(create: &ast::CreateTable) -> Result<Definition> {
    refuse_table(create)?;
    let name = names::relation_of(&create.name)?;
    let mut schema = TableSchema::new(&name);
    schema.logged = !create.unlogged;
    schema.fillfactor = fillfactor(&create.table_options)?;
    for column in &create.columns {
        self::column(&mut schema, column)?;
    }
    for constraint in &create.constraints {
        self::constraint(&mut schema, constraint)?;
    }
    for key in schema.primary_key.clone() {
        let Some(column) = schema.columns.iter_mut().find(|column| column.name == key) else {
            let message = format!("column \"{key}\" named in key does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        column.nullable = false;
    }
    Ok(Definition::CreateTable { schema, if_not_exists: create.if_not_exists })
}

fn refuse_table(create: &ast::CreateTable) -> Result<()> {
    let refused = [
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.temporary, "a temporary table"),
        (create.external || create.dynamic || create.transient || create.volatile, "such a table"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some() || create.clone.is_some(), "CREATE TABLE LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_of.is_some() || create.partition_by.is_some(), "partitioning"),
        (create.on_commit.is_some(), "ON COMMIT"),
        (create.comment.is_some(), "COMMENT"),
        (create.without_rowid || create.strict, "WITHOUT ROWID or STRICT"),
        (create.location.is_some() || create.file_format.is_some(), "such a table"),
    ];
    match refused.iter().find(|(found, _)| *found) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}

fn fillfactor(options: &CreateTableOptions) -> Result<u8> {
    let list = match options {
        CreateTableOptions::None => return Ok(100),
        CreateTableOptions::With(list) => list,
        _ => return Err(SqlError::unsupported("such an option of a table")),
    };
    let mut fillfactor = 100;
    for option in list {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::unsupported(format!("the option {option}")));
        };
        match names::ident(key).as_str() {
            "fillfactor" => {
                let text = value.to_string();
                let percent = text.trim_matches('\'').parse::<u8>().ok();
                fillfactor = percent.filter(|p| (10..=100).contains(p)).ok_or_else(|| {
                    let message = format!("value {text} out of bounds for option \"fillfactor\"");
                    SqlError::new(code::INVALID_PARAMETER, message)
                        .detail("Valid values are between \"10\" and \"100\".")
                })?;
            }
            // Vacuum decides for itself when it is needed.
            "autovacuum_enabled" => {}
            other => {
                return Err(SqlError::unsupported(format!("the storage parameter \"{other}\"")));
            }
        }
    }
    Ok(fillfactor)
}

fn column(schema: &mut TableSchema, column: &ast::ColumnDef) -> Result<()> {
    let name = names::ident(&column.name);
    if schema.columns.iter().any(|known| known.name == name) {
        let message = format!("column \"{name}\" specified more than once");
        return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
    }
    if name == super::from::TID {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
    }
    let kind = column_type(&column.data_type)?;
    schema.columns.push(ColumnSchema::new(name.clone(), kind).nullable());
    for option in &column.options {
        let last = schema.columns.last_mut().expect("pushed above");
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => last.nullable = false,
            ColumnOption::PrimaryKey(key) if key.characteristics.is_none() => {
                last.nullable = false;
                set_primary(schema, vec![name.clone()], option.name.as_ref())?;
            }
            ColumnOption::Unique(key) if key.characteristics.is_none() => {
                let index = option.name.as_ref().map(names::ident);
                add_unique(schema, index, std::slice::from_ref(&name));
            }
            ColumnOption::Collation(collation) => {
                let collation = names::parts(collation)?.pop().unwrap_or_default();
                if !matches!(collation.as_str(), "C" | "POSIX" | "default" | "ucs_basic") {
                    return Err(SqlError::unsupported(format!("collation \"{collation}\"")));
                }
            }
            ColumnOption::Default(value) if is_null(value) => {}
            ColumnOption::Default(_) => return Err(SqlError::unsupported("a default of a column")),
            ColumnOption::Check(_) => return Err(SqlError::unsupported("a check constraint")),
            ColumnOption::ForeignKey(_) => return Err(SqlError::unsupported("a foreign key")),
            ColumnOption::Generated { .. } | ColumnOption::Identity(_) => {
                return Err(SqlError::unsupported("a generated or identity column"));
            }
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    Ok(())
}

fn is_null(value: &Ast) -> bool {
    matches!(value, Ast::Value(value) if matches!(value.value, ast::Value::Null))
}

fn set_primary(
    schema: &mut TableSchema,
    columns: Vec<String>,
    name: Option<&ast::Ident>,
) -> Result<()> {
    if !schema.primary_key.is_empty() {
        let message =
            format!("multiple primary keys for table \"{}\" are not allowed", schema.name);
        return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
    }
    let given = name.map(names::ident);
    if given.is_some_and(|given| given != format!("{}_pkey", schema.name)) {
        return Err(SqlError::unsupported("a name of a primary key other than TABLE_pkey"));
    }
    schema.primary_key = columns;
    Ok(())
}

/// A unique constraint is a unique index called after its columns.
fn add_unique(schema: &mut TableSchema, name: Option<String>, columns: &[String]) {
    let wanted = name.unwrap_or_else(|| format!("{}_{}_key", schema.name, columns.join("_")));
    let taken = |name: &str| schema.indexes.iter().any(|index| index.name == name);
    let mut free = wanted.clone();
    let mut number = 0;
    while taken(&free) {
        number += 1;
        free = format!("{wanted}{number}");
    }
    let index = columns.iter().fold(IndexSchema::new(free).unique(), |index, name| index.on(name));
    schema.indexes.push(index);
}

fn constraint(schema: &mut TableSchema, constraint: &TableConstraint) -> Result<()> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let plain = key.characteristics.is_none() && key.include.is_empty();
            if !plain || !key.index_options.is_empty() {
                return Err(SqlError::unsupported("such a primary key"));
            }
            set_primary(schema, plain_columns(&key.columns)?, key.name.as_ref())
        }
        TableConstraint::Unique(key) => {
            let (name, columns) = unique(key)?;
            add_unique(schema, name, &columns);
            Ok(())
        }
        TableConstraint::Check(_) => Err(SqlError::unsupported("a check constraint")),
        TableConstraint::ForeignKey(_) => Err(SqlError::unsupported("a foreign key")),
        other => Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
}

fn unique(key: &ast::UniqueConstraint) -> Result<(Option<String>, Vec<String>)> {
    let plain = key.characteristics.is_none()
        && key.include.is_empty()
        && key.index_options.is_empty()
        && !matches!(key.nulls_distinct, NullsDistinctOption::NotDistinct);
    if !plain {
        return Err(SqlError::unsupported("such a unique constraint"));
    }
    Ok((key.name.as_ref().map(names::ident), plain_columns(&key.columns)?))
}

fn plain_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    columns.iter().map(|column| key_column(column).map(|key| key.name)).collect()
}

fn key_column(column: &ast::IndexColumn) -> Result<KeyColumn> {
    let name = match &column.column.expr {
        Ast::Identifier(name) => names::ident(name),
        _ => return Err(SqlError::unsupported("an index on an expression")),
    };
    if let Some(class) = &column.operator_class {
        return Err(SqlError::unsupported(format!("the operator class {class}")));
    }
    let options = &column.column.options;
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return Err(SqlError::unsupported("ORDER BY USING")),
    };
    let nulls_first = options.nulls_first.unwrap_or(descending);
    Ok(KeyColumn { name, descending, nulls_first })
}

fn create_index(create: &ast::CreateIndex) -> Result<Definition> {
    let method = match &create.using {
        None | Some(IndexType::BTree) => Some(IndexMethod::BTree),
        Some(IndexType::Hash) => Some(IndexMethod::Hash),
        Some(_) => None,
    };
    let refused = [
        (method.is_none(), "an index method other than btree and hash"),
        (method == Some(IndexMethod::Hash) && create.unique, "a unique hash index"),
        (create.concurrently, "CREATE INDEX CONCURRENTLY"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
        (!create.with.is_empty(), "a storage parameter of an index"),
        (create.predicate.is_some(), "a partial index"),
        (!create.index_options.is_empty() || !create.alter_options.is_empty(), "such an index"),
    ];
    if let Some((_, what)) = refused.iter().find(|(found, _)| *found) {
        return Err(SqlError::unsupported(what));
    }
    let table = names::relation_of(&create.table_name)?;
    let columns = create.columns.iter().map(key_column).collect::<Result<Vec<_>>>()?;
    let named = create.name.is_some();
    let name = match &create.name {
        Some(name) => names::relation_of(name)?,
        None => {
            let list: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            format!("{table}_{}_idx", list.join("_"))
        }
    };
    let method = method.unwrap_or(IndexMethod::BTree);
    let index = IndexSchema { columns, unique: create.unique, method, ..IndexSchema::new(name) };
    Ok(Definition::CreateIndex { table, index, named, if_not_exists: create.if_not_exists })
}

fn alter_table(alter: &ast::AlterTable) -> Result<Definition> {
    let table = names::relation_of(&alter.name)?;
    let mut changes = Vec::new();
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => {
                let mut schema = TableSchema::new(&table);
                column(&mut schema, column_def)?;
                let column = schema.columns.pop().expect("one column was added");
                if !column.nullable || !schema.indexes.is_empty() {
                    return Err(SqlError::unsupported("adding a column with constraints"));
                }
                let (name, kind) = (column.name, column.kind);
                changes.push(Alteration::AddColumn { name, kind, if_not_exists: *if_not_exists });
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                for name in column_names {
                    let name = names::ident(name);
                    changes.push(Alteration::DropColumn { name, if_exists: *if_exists });
                }
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::Unique(key),
                not_valid: false,
            } => {
                let (name, columns) = unique(key)?;
                let named = name.is_some();
                let name = name.unwrap_or_else(|| format!("{table}_{}_key", columns.join("_")));
                let index = columns.iter().fold(IndexSchema::new(name).unique(), |i, c| i.on(c));
                changes.push(Alteration::AddUnique { index, named });
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::PrimaryKey(_),
                ..
            } => {
                return Err(SqlError::unsupported("adding a primary key to a table that is there"));
            }
            AlterTableOperation::AddConstraint { .. } => {
                return Err(SqlError::unsupported("adding such a constraint"));
            }
            AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. } => {
                return Err(SqlError::unsupported("RENAME"));
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
    }
    Ok(Definition::Alter { table, if_exists: alter.if_exists, changes })
}

fn truncate(truncate: &ast::Truncate) -> Result<Definition> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() || truncate.if_exists {
        return Err(SqlError::unsupported("TRUNCATE with such a clause"));
    }
    if matches!(truncate.cascade, Some(ast::CascadeOption::Cascade)) {
        return Err(SqlError::unsupported("TRUNCATE CASCADE"));
    }
    let tables = truncate.table_names.iter().map(|target| names::relation_of(&target.name));
    Ok(Definition::Truncate { tables: tables.collect::<Result<_>>()? })
}
