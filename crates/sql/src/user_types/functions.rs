//! Functions that users made: what a name means along the search path.
//!
//! A function is an empty table of the store, its entry (`names::function_entry`,
//! `notes::functions`). Those of one name in a schema have entries with numbers from 1 on, without
//! gaps.
//!
//! Invariants: who has found a function holds the access lock of the first entry of its name until
//! the transaction ends, and who changes or drops one of the name, or makes another one, the
//! exclusive one. So a plan that rests on the version of the first entry rests on all of them.
//! Does not do: functions that are there without being made (`expr::registry`), which of several a
//! call means (`bind::functions`).

use rightlink::{ColumnSchema, Error, TableInfo, Transaction};

use super::{UsedType, types_of_columns};
use crate::error::{Result, SqlError, code};
use crate::names::{
    CATALOGS, SearchPath, bare, function_entry, function_of_entry, given_name, stored,
};
use crate::notes::functions::{FunctionNotes, Gives};
use crate::notes::{ColumnNotes, MadeTypes};
use crate::types::SqlType;
use crate::types::declared::Modifier;
use crate::types::parameter_mode::ParameterMode;

/// A parameter or a result of a function.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: Option<String>,
    pub(crate) ty: SqlType,
    /// Says whether text is `varchar`, and no more than that.
    pub(crate) modifier: Option<Modifier>,
    /// Its mode; `None`: it is a result and no parameter.
    pub(crate) mode: Option<ParameterMode>,
    /// The expression of its value where a call gives none.
    pub(crate) default: Option<String>,
}

impl Part {
    /// Does a call give it a value?
    pub(crate) fn is_input(&self) -> bool {
        self.mode.is_some_and(ParameterMode::is_input)
    }

    /// Is it a column of the result?
    pub(crate) fn is_output(&self) -> bool {
        self.mode.is_none_or(ParameterMode::is_output)
    }
}

/// A function that was found.
#[derive(Clone)]
pub(crate) struct UserFunction {
    /// As the store would call a relation of its name.
    pub(crate) name: String,
    /// The table that it is kept as.
    pub(crate) entry: String,
    /// All of its parameters, and a result that is none.
    pub(crate) parts: Vec<Part>,
    /// The parameters that take a value.
    pub(crate) arguments: Vec<Part>,
    /// The columns of what it gives.
    pub(crate) results: Vec<Part>,
    pub(crate) notes: FunctionNotes,
    /// Its entry, and the types that it names and that were made.
    pub(crate) used: Vec<UsedType>,
    /// Does its name with its arguments mean it as long as the path is the same, whatever is made?
    pub(crate) settled: bool,
    /// Is its schema the only one that its name is looked for in?
    pub(crate) is_only_schema: bool,
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

    /// Has it rows in FROM, or one row of several columns?
    pub(crate) fn gives_rows(&self) -> bool {
        let is_row = matches!(self.result(), SqlType::Record | SqlType::Composite(_));
        self.notes.gives.is_set() || is_row
    }

    /// The name of its one result, if that is a parameter with a name.
    pub(crate) fn result_name(&self) -> Option<String> {
        match self.results.as_slice() {
            [one] => one.name.clone(),
            _ => None,
        }
    }

    /// The types of its arguments.
    pub(crate) fn argument_types(&self) -> Vec<SqlType> {
        self.arguments.iter().map(|one| one.ty).collect()
    }

    /// Its name and the types of its arguments, as messages have them.
    pub(crate) fn signature(&self) -> String {
        let types: Vec<&str> = self.arguments.iter().map(|one| one.ty.name()).collect();
        format!("{}({})", self.bare(), types.join(","))
    }
}

/// The parameters and the results that an entry has columns for.
pub(crate) fn parts_of_entry(
    info: &TableInfo,
    notes: &FunctionNotes,
    made: &MadeTypes,
) -> Vec<Part> {
    let part = |(at, column): (usize, &ColumnSchema)| {
        let own = ColumnNotes::decode(&column.note);
        let (name, ty) = (given_name(&column.name), own.type_of(column.kind, made));
        let modifier = own.modifier.filter(|one| matches!(one, Modifier::Varchar(_)));
        let modifier = modifier.map(|_| Modifier::Varchar(0));
        let mode = match notes.gives {
            Gives::Table if at >= notes.modes.len() => Some(ParameterMode::Table),
            _ => notes.modes.get(at).copied(),
        };
        Part { name: name.map(str::to_owned), ty, modifier, mode, default: own.default }
    };
    let mut parts: Vec<Part> = info.columns.iter().enumerate().map(part).collect();
    if notes.gives == Gives::Void {
        // A table has a column, also where a function has none.
        parts.truncate(notes.modes.len());
    }
    parts
}

/// The function that is kept as this entry.
pub(crate) fn load(txn: &mut Transaction, entry: &str) -> Result<Option<UserFunction>> {
    let Some(name) = function_of_entry(entry) else { return Ok(None) };
    let version = match txn.catalog().version(entry) {
        Err(Error::NotFound(_)) => return Ok(None),
        version => version?,
    };
    let info = txn.catalog().describe(entry)?;
    let (made, of_columns) = types_of_columns(txn, &info.columns)?;
    let mut used = vec![UsedType { entry: entry.to_owned(), version }];
    used.extend(of_columns);
    let notes = FunctionNotes::decode(&info.note);
    let parts = parts_of_entry(&info, &notes, &made);
    let arguments = parts.iter().filter(|part| part.is_input()).cloned().collect();
    let results = parts.iter().filter(|part| part.is_output()).cloned().collect();
    Ok(Some(UserFunction {
        name,
        entry: entry.to_owned(),
        parts,
        arguments,
        results,
        notes,
        used,
        settled: true,
        is_only_schema: true,
    }))
}

/// The functions that are called so, named as a relation of the store.
pub(crate) fn load_all(txn: &mut Transaction, name: &str) -> Result<Vec<UserFunction>> {
    let mut all = Vec::new();
    while let Some(found) = load(txn, &function_entry(name, all.len() + 1))? {
        all.push(found);
    }
    Ok(all)
}

/// The functions that a name of parts means along `path`: all that it may, without those that are
/// hidden by one with the same arguments in front of them.
pub(crate) fn find(
    txn: &mut Transaction,
    path: &SearchPath,
    parts: &[String],
) -> Result<Vec<UserFunction>> {
    match parts {
        [name] => {
            let mut all: Vec<UserFunction> = Vec::new();
            let is_only_schema = path.of_new_tables().nth(1).is_none();
            for (at, schema) in path.of_new_tables().enumerate() {
                for found in load_all(txn, &stored(schema, name))? {
                    let types = found.argument_types();
                    if !all.iter().any(|known| known.argument_types() == types) {
                        let settled = at == 0;
                        all.push(UserFunction { settled, is_only_schema, ..found });
                    }
                }
            }
            Ok(all)
        }
        [schema, name] if !CATALOGS.contains(&schema.as_str()) => {
            load_all(txn, &stored(schema, name))
        }
        _ => Ok(Vec::new()),
    }
}

/// The error for a name that no function has.
pub(crate) fn no_function_named(name: &str) -> SqlError {
    let message = format!("could not find a function named \"{name}\"");
    SqlError::new(code::UNDEFINED_FUNCTION, message)
}

/// The error for a kind of function that is not built.
pub(crate) fn not_built(what: &str) -> SqlError {
    SqlError::unsupported(format!("a function {what}"))
}
