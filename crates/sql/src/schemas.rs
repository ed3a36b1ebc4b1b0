//! Schemas: what a name means along the search path.
//!
//! A schema is an empty table of the store, its mark (`names`). So it is made, dropped, locked and
//! rolled back as tables are, and older databases are as they were.
//!
//! Invariants: who puts something into a schema, under a new name too, holds the access lock of
//! its mark until the transaction ends. Who drops the schema holds the exclusive one. So nothing is
//! ever in a schema that is not there.
//! Does not do: privileges (`roles`); a user has no schema of its own name.

use rightlink::{Busy, Error, LockMode, Transaction};
use sqlparser::ast::ObjectName;

use crate::error::{Result, SqlError, code};
use crate::names::{
    CATALOGS, NOWHERE, PUBLIC, SearchPath, TEMPORARY, beside, is_own, is_temporary_schema, mark,
    one_name, said, schema_of, stored, type_entry,
};
use crate::notes::types::TypeNotes;
use crate::parse::identifiers;

/// The parts of a name in a string, as `regclass` reads it.
pub(crate) fn parts_of(text: &str) -> Result<Vec<String>> {
    let invalid = || SqlError::new(code::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (name, after) = one_name(rest).ok_or_else(invalid)?;
        parts.push(name);
        let after = after.trim_start();
        match after.strip_prefix('.') {
            // Blanks may stand on either side: ADBC writes them.
            Some(more) => rest = more.trim_start(),
            None if after.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

/// Does a name say that it is of a temporary table?
pub(crate) fn is_of_temporary(name: &ObjectName) -> bool {
    let parts = identifiers::parts(name);
    parts.is_ok_and(|parts| matches!(parts.as_slice(), [schema, _] if schema == TEMPORARY))
}

/// What a name means.
pub(crate) struct Found {
    /// As the store calls it; it need not be there.
    pub(crate) name: String,
    /// Does it mean that as long as the path is the same, whatever is made?
    pub(crate) settled: bool,
}

/// What a name of parts means along `path`. Nothing is locked.
pub(crate) fn find(txn: &mut Transaction, path: &SearchPath, parts: &[String]) -> Result<Found> {
    find_with(txn, path, parts, None)
}

/// The same where a relation called `pending` is about to be made.
fn find_with(
    txn: &mut Transaction,
    path: &SearchPath,
    parts: &[String],
    pending: Option<&str>,
) -> Result<Found> {
    refuse_own(parts)?;
    match parts {
        [name] if path.is_plain() => Ok(Found { name: name.clone(), settled: true }),
        [name] => {
            for (at, schema) in path.of_tables().enumerate() {
                let stored = stored(schema, name);
                if pending == Some(stored.as_str()) || txn.catalog().has_relation(&stored)? {
                    return Ok(Found { name: stored, settled: at <= path.own() });
                }
            }
            Ok(Found { name: format!("{NOWHERE}{name}"), settled: false })
        }
        [schema, name] if schema == TEMPORARY => {
            let stored = path.temporary().map(|schema| stored(schema, name));
            let nowhere = || format!("{NOWHERE}{name}");
            Ok(Found { settled: stored.is_some(), name: stored.unwrap_or_else(nowhere) })
        }
        [schema, _] if is_temporary_schema(schema) && path.temporary() != Some(schema) => {
            let message = "cannot access temporary tables of other sessions";
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        }
        [schema, name] if CATALOGS.contains(&schema.as_str()) => {
            Err(SqlError::unsupported(format!("catalog \"{schema}.{name}\"")))
        }
        [schema, name] => Ok(Found { name: stored(schema, name), settled: true }),
        _ => Err(SqlError::unsupported("a name with a database in front")),
    }
}

/// Refuses a name of what the layer itself keeps.
fn refuse_own(parts: &[String]) -> Result<()> {
    match parts {
        [name] => refuse(name),
        [schema, name] if schema == PUBLIC || CATALOGS.contains(&schema.as_str()) => refuse(name),
        _ => Ok(()),
    }
}

/// Refuses a name of a table that this layer keeps for itself.
pub(crate) fn refuse(name: &str) -> Result<()> {
    if !is_own(name) {
        return Ok(());
    }
    let message = format!("permission denied: \"{name}\" is a system catalog");
    Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
}

/// What the name of a type means along `path`. Nothing is locked.
pub(crate) fn find_type(
    txn: &mut Transaction,
    path: &SearchPath,
    parts: &[String],
) -> Result<Found> {
    let [name] = parts else { return find_kept(parts) };
    for (at, schema) in path.of_tables().enumerate() {
        let stored = stored(schema, name);
        if txn.catalog().has_relation(&type_entry(&stored))? {
            return Ok(Found { name: stored, settled: at <= path.own() });
        }
        // The rows of a table have a type of its name.
        if txn.catalog().has_relation(&stored)? {
            return Ok(Found { name: stored, settled: false });
        }
    }
    Ok(Found { name: format!("{NOWHERE}{name}"), settled: false })
}

/// What a name means that is kept with a definition.
pub(crate) fn find_kept(parts: &[String]) -> Result<Found> {
    match parts {
        [name] => Ok(Found { name: name.clone(), settled: true }),
        [schema, name] => Ok(Found { name: stored(schema, name), settled: true }),
        _ => Err(SqlError::unsupported("a name with a database in front")),
    }
}

/// Is there such a schema?
pub(crate) fn exists(txn: &mut Transaction, schema: &str) -> Result<bool> {
    Ok(schema == PUBLIC
        || CATALOGS.contains(&schema)
        || txn.catalog().has_relation(&mark(schema))?)
}

/// Locks a schema, so that it stays or so that nothing comes into it.
pub(crate) fn lock(txn: &mut Transaction, schema: &str, mode: LockMode) -> Result<()> {
    if schema == PUBLIC {
        return Ok(());
    }
    txn.lock_table(&mark(schema), mode, Busy::Wait).map_err(|error| match error {
        Error::NotFound(_) => no_schema(schema),
        other => other.into(),
    })
}

/// The error for a table that is not there.
pub(crate) fn no_table(name: &str) -> SqlError {
    SqlError::new(code::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", said(name)))
}

/// The error for a schema that is not there.
pub(crate) fn no_schema(schema: &str) -> SqlError {
    SqlError::new(code::INVALID_SCHEMA, format!("schema \"{schema}\" does not exist"))
}

/// Finds what the names of a definition mean.
pub(crate) struct Resolver<'r> {
    txn: &'r mut Transaction,
    path: &'r SearchPath,
    /// The table that the definition makes.
    pending: Option<String>,
}

impl<'r> Resolver<'r> {
    pub(crate) fn new(txn: &'r mut Transaction, path: &'r SearchPath) -> Self {
        Resolver { txn, path, pending: None }
    }

    /// Where it looks, and along which path.
    pub(crate) fn place(&mut self) -> (&mut Transaction, &SearchPath) {
        (self.txn, self.path)
    }

    /// Something that may be there or not.
    pub(crate) fn any(&mut self, name: &ObjectName) -> Result<String> {
        self.any_parts(&identifiers::parts(name)?)
    }

    pub(crate) fn any_parts(&mut self, parts: &[String]) -> Result<String> {
        Ok(find_with(self.txn, self.path, parts, self.pending.as_deref())?.name)
    }

    /// Something that should be there: its schema must be.
    pub(crate) fn existing(&mut self, name: &ObjectName) -> Result<String> {
        self.existing_parts(&identifiers::parts(name)?)
    }

    pub(crate) fn existing_parts(&mut self, parts: &[String]) -> Result<String> {
        let found = find_with(self.txn, self.path, parts, self.pending.as_deref())?;
        if let [schema, _] = parts
            && schema != TEMPORARY
            && !exists(self.txn, schema)?
        {
            return Err(no_schema(schema));
        }
        Ok(found.name)
    }

    /// The entry of the composite type that these parts name; `None` if they name a relation, or
    /// nothing.
    pub(crate) fn composite_entry(&mut self, parts: &[String]) -> Result<Option<String>> {
        let relation = find_with(self.txn, self.path, parts, self.pending.as_deref())?.name;
        let entry = type_entry(&self.any_type(parts)?);
        let mut catalog = self.txn.catalog();
        if catalog.has_relation(&relation)? || !catalog.has_relation(&entry)? {
            return Ok(None);
        }
        let is_composite = TypeNotes::decode(&catalog.definition(&entry)?.note).is_composite;
        Ok(is_composite.then_some(entry))
    }

    /// A type that may be there or not.
    pub(crate) fn any_type(&mut self, parts: &[String]) -> Result<String> {
        Ok(find_type(self.txn, self.path, parts)?.name)
    }

    /// A type that should be there: its schema must be.
    pub(crate) fn existing_type(&mut self, parts: &[String]) -> Result<String> {
        let name = self.any_type(parts)?;
        match parts {
            [schema, _] if !exists(self.txn, schema)? => Err(no_schema(schema)),
            _ => Ok(name),
        }
    }

    /// Something that is to be made: its schema stays until the transaction ends.
    pub(crate) fn new_name(&mut self, name: &ObjectName) -> Result<String> {
        self.new_name_parts(&identifiers::parts(name)?)
    }

    pub(crate) fn new_name_parts(&mut self, parts: &[String]) -> Result<String> {
        refuse_own(parts)?;
        match parts {
            [name] => {
                for schema in self.path.of_new_tables() {
                    match lock(self.txn, schema, LockMode::Access) {
                        Err(error) if error.sqlstate == code::INVALID_SCHEMA => {}
                        Err(error) => return Err(error),
                        Ok(()) => return Ok(stored(schema, name)),
                    }
                }
                let message = "no schema has been selected to create in";
                Err(SqlError::new(code::INVALID_SCHEMA, message))
            }
            [schema, name] if CATALOGS.contains(&schema.as_str()) => {
                Err(SqlError::unsupported(format!("catalog \"{schema}.{name}\"")))
            }
            [schema, _] if schema == TEMPORARY || is_temporary_schema(schema) => {
                let message = "cannot create relations in temporary schemas of other sessions";
                Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message))
            }
            [schema, name] => {
                lock(self.txn, schema, LockMode::Access)?;
                Ok(stored(schema, name))
            }
            _ => Err(SqlError::unsupported("a name with a database in front")),
        }
    }

    /// A table that is to be made, which the rest of the definition can name.
    pub(crate) fn new_table(&mut self, name: &ObjectName) -> Result<String> {
        let stored = self.new_name(name)?;
        self.pending = Some(stored.clone());
        Ok(stored)
    }

    /// The same for something that goes with the session.
    pub(crate) fn new_temporary(&mut self, name: &ObjectName) -> Result<String> {
        let schema = self.path.temporary().expect("it was made before").to_owned();
        let parts = identifiers::parts(name)?;
        let name = match parts.as_slice() {
            [name] => name,
            [given, name] if *given == TEMPORARY || *given == schema => name,
            _ => {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
            }
        };
        lock(self.txn, &schema, LockMode::Access)?;
        let stored = stored(&schema, name);
        self.pending = Some(stored.clone());
        Ok(stored)
    }

    /// What has its schema stays in it until the transaction ends, under whatever name.
    pub(crate) fn stays(&mut self, stored: &str) -> Result<()> {
        match schema_of(stored) {
            // It was found nowhere.
            "" => Ok(()),
            schema => lock(self.txn, schema, LockMode::Access),
        }
    }

    /// Another name for something in the schema of `other`.
    pub(crate) fn beside(&mut self, other: &str, name: &ObjectName) -> Result<String> {
        match identifiers::parts(name)?.as_slice() {
            [name] => self.beside_part(other, name),
            [schema, name] if schema == schema_of(other) => self.beside_part(other, name),
            _ => Err(SqlError::syntax("syntax error at or near \".\"")),
        }
    }

    /// The same for a name without a schema in front.
    pub(crate) fn beside_part(&mut self, other: &str, name: &str) -> Result<String> {
        refuse_own(&[schema_of(other).to_owned(), name.to_owned()])?;
        Ok(beside(other, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_strings_fall_apart_at_their_dots() {
        assert_eq!(parts_of("a.\"B.c\"").unwrap(), ["a", "B.c"]);
        assert!(parts_of("a.").is_err());
    }
}
