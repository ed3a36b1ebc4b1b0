//! CREATE SCHEMA, DROP SCHEMA, ALTER SCHEMA.
//!
//! Does not do: what is in a schema; owners, as there is one user.

use sqlparser::ast::{self, AlterSchemaOperation, ObjectName, SchemaName};

use super::Definition;
use crate::error::{Result, SqlError, code};
use crate::names::MAX_BYTES;
use crate::parse::identifiers;

pub(super) fn create(statement: &ast::Statement) -> Result<Definition> {
    let ast::Statement::CreateSchema {
        schema_name,
        or_replace: false,
        if_not_exists,
        with: None,
        options: None,
        default_collate_spec: None,
        clone: None,
    } = statement
    else {
        return Err(SqlError::unsupported("CREATE SCHEMA with such a clause"));
    };
    let name = match schema_name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => one(name)?,
        SchemaName::UnnamedAuthorization(owner) => identifiers::ident(owner),
    };
    Ok(Definition::CreateSchema { name: fit(name)?, if_not_exists: *if_not_exists })
}

pub(super) fn drop(list: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Definition> {
    let mut names: Vec<String> = Vec::with_capacity(list.len());
    for name in list {
        let name = one(name)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(Definition::DropSchema { names, if_exists, cascade })
}

pub(super) fn alter(alter: &ast::AlterSchema) -> Result<Definition> {
    let name = one(&alter.name)?;
    match alter.operations.as_slice() {
        [AlterSchemaOperation::Rename { name: to }] if !alter.if_exists => {
            Ok(Definition::RenameSchema { name, to: fit(one(to)?)? })
        }
        [AlterSchemaOperation::OwnerTo { .. }] if !alter.if_exists => {
            Ok(Definition::OwnSchema(name))
        }
        _ => Err(SqlError::unsupported("such an ALTER SCHEMA")),
    }
}

fn one(name: &ObjectName) -> Result<String> {
    match identifiers::parts(name)?.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(SqlError::syntax("syntax error at or near \".\"")),
    }
}

/// Refuses what is no name of a new schema.
fn fit(name: String) -> Result<String> {
    if name.starts_with("pg_") {
        let message = format!("unacceptable schema name \"{name}\"");
        return Err(SqlError::new(code::RESERVED_NAME, message)
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if name.is_empty() {
        return Err(SqlError::syntax("zero-length delimited identifier"));
    }
    if name.len() > MAX_BYTES {
        let message = format!("schema name \"{name}\" is longer than {MAX_BYTES} bytes");
        return Err(SqlError::new(code::PROGRAM_LIMIT, message));
    }
    Ok(name)
}
