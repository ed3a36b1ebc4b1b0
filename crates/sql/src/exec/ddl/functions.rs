//! CREATE, ALTER and DROP FUNCTION.
//!
//! The entry of a function is a table without rows, whose columns are the arguments and then the
//! results.
//!
//! Invariants: a body was read, and gave what the function promises, when the function was made. It
//! is text, so that what it names may be gone when it is called, as in PostgreSQL.
//! Does not do: calls (`bind::functions`).

use rightlink::{AlterTable, Busy, Error, LockMode, Type};

use super::Definer;
use crate::bind::Binder;
use crate::bind::ddl::{Called, FunctionDefinition, NewTable};
use crate::error::{Result, SqlError, code};
use crate::exec::tables::{Along, Tables};
use crate::names::{
    CATALOGS, bare, beside, function_entry, function_of_entry, given_name, schema_of, stored,
};
use crate::notes::functions::FunctionNotes;
use crate::notes::types::NO_FIELD;
use crate::parse::Lines;
use crate::schemas;
use crate::types::SqlType;
use crate::user_types::functions::{UserFunction, load, no_function_named, not_built};

impl Definer<'_> {
    /// Makes or changes a function, and gives the tag.
    pub(super) fn define_function(
        &mut self,
        definition: &FunctionDefinition,
    ) -> Result<&'static str> {
        match definition {
            FunctionDefinition::Create { name, or_replace, parts, notes } => {
                self.create_function(name, *or_replace, parts, notes)?;
                return Ok("CREATE FUNCTION");
            }
            FunctionDefinition::Drop { functions, if_exists } => {
                for function in functions {
                    match self.lock_function(function) {
                        Err(error) if error.sqlstate == code::UNDEFINED_FUNCTION && *if_exists => {
                            let skipped = format!("{}, skipping", error.message);
                            self.notices.push(skipped);
                        }
                        found => {
                            let name = found?.name;
                            self.drop_function(&name)?;
                        }
                    }
                }
                return Ok("DROP FUNCTION");
            }
            FunctionDefinition::Rename { function, to } => {
                let name = self.lock_function(function)?.name;
                self.rename_function(&name, &beside(&name, to))?;
            }
            FunctionDefinition::SetSchema { function, schema } => {
                let name = self.lock_function(function)?.name;
                if CATALOGS.contains(&schema.as_str()) {
                    return Err(not_built(&format!("in the schema \"{schema}\"")));
                }
                schemas::lock(self.txn, schema, LockMode::Access)?;
                if schema_of(&name) != schema {
                    self.rename_function(&name, &stored(schema, bare(&name)))?;
                }
            }
            FunctionDefinition::Comment { function, text } => {
                let found = self.lock_function(function)?;
                let notes = FunctionNotes { comment: text.clone(), ..found.notes };
                self.note_function(&found.name, &notes)?;
                return Ok("COMMENT");
            }
        }
        Ok("ALTER FUNCTION")
    }

    fn create_function(
        &mut self,
        name: &str,
        or_replace: bool,
        parts: &NewTable,
        notes: &FunctionNotes,
    ) -> Result<()> {
        let mut notes = FunctionNotes { owner: self.context.owner, ..notes.clone() };
        let before = load(self.txn, name)?;
        if let Some(before) = &before {
            self.refuse_another(before, or_replace, parts, &notes)?;
            self.lock_entry(name)?;
            notes.owner = before.notes.owner;
            notes.comment.clone_from(&before.notes.comment);
        }
        let mut schema = parts.schema.clone();
        for (at, column) in schema.columns.iter_mut().enumerate() {
            self.finish_column(parts, at, column)?;
        }
        if schema.columns.is_empty() {
            schema = schema.nullable(NO_FIELD, Type::Bool);
        }
        schema.note = notes.encode();
        match before {
            Some(before) => self.replace_function(&before, &schema, &notes)?,
            None => self.txn.create_table(&schema)?,
        };
        let function = load(self.txn, name)?.expect("it was made");
        let path = self.context.settings.path();
        let (mut along, lines) = (Along(Tables(self.txn), &path), Lines::default());
        Binder::new(&mut along, &lines, &[]).check_function(&function)
    }

    /// Gives an entry that is there what another function keeps.
    fn replace_function(
        &mut self,
        before: &UserFunction,
        schema: &rightlink::TableSchema,
        notes: &FunctionNotes,
    ) -> Result<()> {
        let entry = function_entry(&before.name);
        let columns = self.txn.catalog().definition(&entry)?.columns.clone();
        for (known, new) in columns.iter().zip(&schema.columns) {
            if known.name != new.name {
                let change = AlterTable::RenameColumn { column: &known.name, to: &new.name };
                self.txn.alter_table(&entry, change)?;
            }
        }
        self.note_function(&before.name, notes)
    }

    /// Fails unless a function may stand in the place of one that is there.
    fn refuse_another(
        &mut self,
        before: &UserFunction,
        or_replace: bool,
        parts: &NewTable,
        notes: &FunctionNotes,
    ) -> Result<()> {
        let columns = parts.schema.columns.iter().zip(&parts.notes);
        let mut types: Vec<SqlType> =
            columns.map(|(column, notes)| notes.type_of(column.kind, &parts.made)).collect();
        let results = types.split_off(notes.arguments);
        if types != types_of(&before.arguments) {
            return Err(not_built("that has the name of another one of its schema"));
        }
        if !or_replace {
            let message =
                format!("function \"{}\" already exists with same argument types", before.bare());
            return Err(SqlError::new(code::DUPLICATE_FUNCTION, message));
        }
        let is_same = results == types_of(&before.results) && notes.gives == before.notes.gives;
        let named = |at: usize, name: &Option<String>| {
            let now = given_name(&parts.schema.columns[at].name);
            name.is_none() || name.as_deref() == now
        };
        let hint = format!("Use DROP FUNCTION {} first.", before.signature());
        if !is_same {
            let message = "cannot change return type of existing function";
            return Err(SqlError::new(code::INVALID_FUNCTION, message).hint(hint));
        }
        for (at, argument) in before.arguments.iter().chain(&before.results).enumerate() {
            if !named(at, &argument.name) {
                let name = argument.name.as_deref().unwrap_or_default();
                let message = match at < before.arguments.len() {
                    true => format!("cannot change name of input parameter \"{name}\""),
                    false => "cannot change return type of existing function".to_owned(),
                };
                return Err(SqlError::new(code::INVALID_FUNCTION, message).hint(hint));
            }
        }
        Ok(())
    }

    fn lock_entry(&mut self, name: &str) -> rightlink::Result<()> {
        self.txn.lock_table(&function_entry(name), LockMode::Exclusive, Busy::Wait)
    }

    /// Locks a function that is changed or dropped.
    fn lock_function(&mut self, called: &Called) -> Result<UserFunction> {
        let missing = || match &called.arguments {
            None => no_function_named(bare(&called.name)),
            Some(types) => {
                let types: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
                let call = format!("{}({})", bare(&called.name), types.join(", "));
                let message = format!("function {call} does not exist");
                SqlError::new(code::UNDEFINED_FUNCTION, message)
            }
        };
        match self.lock_entry(&called.name) {
            Err(Error::NotFound(_)) => return Err(missing()),
            locked => locked?,
        }
        let found = load(self.txn, &called.name)?.ok_or_else(missing)?;
        match &called.arguments {
            Some(types) if *types != types_of(&found.arguments) => Err(missing()),
            _ => Ok(found),
        }
    }

    fn note_function(&mut self, name: &str, notes: &FunctionNotes) -> Result<()> {
        let change = notes.encode();
        Ok(self.txn.alter_table(&function_entry(name), AlterTable::Note(&change))?)
    }

    pub(super) fn drop_function(&mut self, name: &str) -> Result<()> {
        Ok(self.txn.drop_table(&function_entry(name))?)
    }

    /// Gives a function another name.
    pub(super) fn rename_function(&mut self, name: &str, to: &str) -> Result<()> {
        let (entry, new) = (function_entry(name), function_entry(to));
        match self.txn.alter_table(&entry, AlterTable::Rename(&new)) {
            Err(Error::AlreadyExists(_)) => {
                Err(not_built("that has the name of another one of its schema"))
            }
            other => Ok(other?),
        }
    }

    /// The names of the functions in some schemas.
    pub(super) fn functions_within(&mut self, schemas: &[&String]) -> Result<Vec<String>> {
        let names = self.txn.catalog().table_names()?;
        let functions = names.iter().filter_map(|entry| function_of_entry(entry));
        let within = |name: &String| schemas.iter().any(|schema| *schema == schema_of(name));
        Ok(functions.filter(within).collect())
    }
}

fn types_of(parts: &[crate::user_types::functions::Part]) -> Vec<SqlType> {
    parts.iter().map(|part| part.ty).collect()
}
