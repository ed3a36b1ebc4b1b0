//! Functions that users made: what a name means along the search path.
//!
//! A function is an empty table of the store, its entry (`names::function_entry`,
//! `notes::functions`). A schema has one function of a name.
//!
//! Invariants: who has found a function holds the access lock of its entry until the transaction
//! ends, and who changes or drops it the exclusive one.
//! Does not do: functions that are there without being made (`expr::registry`).

use rightlink::{ColumnSchema, Error, TableInfo, Transaction};

use super::{UsedType, types_of_columns};
use crate::error::{Result, SqlError, code};
use crate::names::{CATALOGS, SearchPath, bare, function_entry, given_name, stored};
use crate::notes::functions::{FunctionNotes, Gives};
use crate::notes::{ColumnNotes, MadeTypes};
use crate::types::SqlType;
use crate::types::declared::Modifier;

/// An argument or a result of a function.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: Option<String>,
    pub(crate) ty: SqlType,
    /// Says whether text is `varchar`, and no more than that.
    pub(crate) modifier: Option<Modifier>,
}

/// A function that was found.
#[derive(Clone)]
pub(crate) struct UserFunction {
    /// As the store would call a relation of its name.
    pub(crate) name: String,
    pub(crate) arguments: Vec<Part>,
    pub(crate) results: Vec<Part>,
    pub(crate) notes: FunctionNotes,
    /// Its entry, and the types that it names and that were made.
    pub(crate) used: Vec<UsedType>,
    /// Does its name mean it as long as the path is the same, whatever is made?
    pub(crate) settled: bool,
}

impl UserFunction {
    /// The name without a schema.
    pub(crate) fn bare(&self) -> &str {
        bare(&self.name)
    }

    /// The type of what it gives; that of its rows is a record, if they have several columns.
    pub(crate) fn result(&self) -> SqlType {
        match (self.notes.gives, self.results.as_slice()) {
            (Gives::Void, _) => SqlType::Void,
            (_, [one]) => one.ty,
            _ => SqlType::Record,
        }
    }

    /// Its name and the types of its arguments, as messages have them.
    pub(crate) fn signature(&self) -> String {
        let types: Vec<&str> = self.arguments.iter().map(|one| one.ty.name()).collect();
        format!("{}({})", self.bare(), types.join(","))
    }
}

/// The arguments and the results that an entry has columns for.
pub(crate) fn parts_of_entry(info: &TableInfo, made: &MadeTypes) -> Vec<Part> {
    let part = |column: &ColumnSchema| {
        let notes = ColumnNotes::decode(&column.note);
        let (name, ty) = (given_name(&column.name), notes.type_of(column.kind, made));
        let modifier = notes.modifier.filter(|one| matches!(one, Modifier::Varchar(_)));
        let modifier = modifier.map(|_| Modifier::Varchar(0));
        Part { name: name.map(str::to_owned), ty, modifier }
    };
    info.columns.iter().map(part).collect()
}

/// The function that is called so, named as a relation of the store.
pub(crate) fn load(txn: &mut Transaction, name: &str) -> Result<Option<UserFunction>> {
    let entry = function_entry(name);
    let version = match txn.catalog().version(&entry) {
        Err(Error::NotFound(_)) => return Ok(None),
        version => version?,
    };
    let info = txn.catalog().describe(&entry)?;
    let (made, of_columns) = types_of_columns(txn, &info.columns)?;
    let mut used = vec![UsedType { entry, version }];
    used.extend(of_columns);
    let notes = FunctionNotes::decode(&info.note);
    let mut arguments = parts_of_entry(&info, &made);
    let mut results = arguments.split_off(notes.arguments.min(arguments.len()));
    if notes.gives == Gives::Void {
        results.clear();
    }
    let name = name.to_owned();
    Ok(Some(UserFunction { name, arguments, results, notes, used, settled: true }))
}

/// What a name of parts means along `path`.
pub(crate) fn find(
    txn: &mut Transaction,
    path: &SearchPath,
    parts: &[String],
) -> Result<Option<UserFunction>> {
    match parts {
        [name] => {
            for (at, schema) in path.of_tables().enumerate() {
                if let Some(found) = load(txn, &stored(schema, name))? {
                    return Ok(Some(UserFunction { settled: at == 0, ..found }));
                }
            }
            Ok(None)
        }
        [schema, name] if !CATALOGS.contains(&schema.as_str()) => load(txn, &stored(schema, name)),
        _ => Ok(None),
    }
}

/// The error for a name that no function has.
pub(crate) fn no_function_named(name: &str) -> SqlError {
    let message = format!("could not find a function named \"{name}\"");
    SqlError::new(code::UNDEFINED_FUNCTION, message)
}

/// The error for a function in a text that is kept with a definition.
pub(crate) fn in_definition(function: &UserFunction) -> SqlError {
    not_built(&format!("that a user made in a definition: \"{}\"", function.bare()))
}

/// The error for a kind of function that is not built.
pub(crate) fn not_built(what: &str) -> SqlError {
    SqlError::unsupported(format!("a function {what}"))
}
