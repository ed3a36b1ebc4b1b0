//! CREATE SCHEMA, DROP SCHEMA, ALTER SCHEMA.
//!
//! Does not do: what is in a schema; ALTER SCHEMA OWNER TO.

use sqlparser::ast::{self, AlterSchemaOperation, ObjectName, SchemaName};

use super::Definition;
use crate::error::{Result, SqlError, code};
use crate::names::MAX_BYTES;
use crate::parse::identifiers;
use crate::parse::roles::RoleName;

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
    let (name, owner) = match schema_name {
        SchemaName::Simple(name) => (one(name)?, None),
        SchemaName::NamedAuthorization(name, owner) => (one(name)?, Some(owner)),
        SchemaName::UnnamedAuthorization(owner) => (identifiers::ident(owner), Some(owner)),
    };
    let role = |owner: &ast::Ident| match identifiers::ident(owner).as_str() {
        "current_user" | "current_role" if owner.quote_style.is_none() => RoleName::Current,
        "session_user" if owner.quote_style.is_none() => RoleName::Session,
        name => RoleName::Named(name.to_owned()),
    };
    let (name, if_not_exists) = (fit(name)?, *if_not_exists);
    Ok(Definition::CreateSchema { name, if_not_exists, owner: owner.map(role) })
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
