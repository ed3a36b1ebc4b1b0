//! CREATE, ALTER and DROP FUNCTION.
//!
//! The entry of a function is a table without rows, whose columns are the parameters and then the
//! results that are none.
//!
//! Invariants: a body was read, and gave what the function promises, when the function was made,
//! unless `check_function_bodies` is off. It is text, so that what it names may be gone when it is
//! called, as in PostgreSQL. Entries of one name have numbers without gaps; whoever adds or takes
//! one changes the first.
//! Does not do: calls (`bind::functions`).

use rightlink::{AlterTable, Busy, Error, LockMode, Type};

use super::Definer;
use super::readers::Needed;
use crate::bind::ddl::{Called, FunctionDefinition, NewTable};
use crate::bind::routine::check;
use crate::error::{Result, SqlError, code};
use crate::exec::tables::{Along, Tables};
use crate::names::{
    CATALOGS, bare, beside, function_entry, function_of_entry, given_name, schema_of, stored,
};
use crate::notes::ColumnNotes;
use crate::notes::functions::{FunctionNotes, Gives};
use crate::notes::types::NO_FIELD;
use crate::parse;
use crate::schemas;
use crate::types::SqlType;
use crate::types::parameter_mode::ParameterMode;
use crate::user_types::functions::{
    Part, UserFunction, load, load_all, no_function_named, not_built,
};

impl Definer<'_> {
    /// Makes or changes a function, and gives the tag.
    pub(super) fn define_function(
        &mut self,
        definition: &FunctionDefinition,
    ) -> Result<&'static str> {
        match definition {
            FunctionDefinition::Create { name, or_replace, parts, notes, .. } => {
                self.create_function(name, *or_replace, parts, notes)?;
                return Ok("CREATE FUNCTION");
            }
            FunctionDefinition::Drop { functions, if_exists, cascade } => {
                self.drop_functions(functions, *if_exists, *cascade)?;
                return Ok("DROP FUNCTION");
            }
            FunctionDefinition::Rename { function, to } => {
                let found = self.lock_function(function)?;
                let to = beside(&found.name, to);
                if to != found.name {
                    self.refuse_taken(&found, &to)?;
                    self.rename_function(&found.entry, &to)?;
                }
            }
            FunctionDefinition::SetSchema { function, schema } => {
                let found = self.lock_function(function)?;
                if CATALOGS.contains(&schema.as_str()) {
                    return Err(not_built(&format!("in the schema \"{schema}\"")));
                }
                schemas::lock(self.txn, schema, LockMode::Access)?;
                if schema_of(&found.name) != schema {
                    let to = stored(schema, bare(&found.name));
                    self.refuse_taken(&found, &to)?;
                    self.rename_function(&found.entry, &to)?;
                }
            }
            FunctionDefinition::Comment { function, text } => {
                let found = self.lock_function(function)?;
                let notes = FunctionNotes { comment: text.clone(), ..found.notes };
                self.note_function(&found.entry, &notes)?;
                return Ok("COMMENT");
            }
        }
        Ok("ALTER FUNCTION")
    }

    fn drop_functions(
        &mut self,
        functions: &[Called],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut entries = Vec::with_capacity(functions.len());
        for function in functions {
            match self.lock_function(function) {
                Err(error) if error.sqlstate == code::UNDEFINED_FUNCTION && if_exists => {
                    self.notices.push(skipped(&error));
                }
                found => entries.push(found?.entry),
            }
        }
        entries.dedup();
        last_first(&mut entries);
        entries.iter().try_for_each(|entry| self.drop_function(entry, cascade))
    }

    fn create_function(
        &mut self,
        name: &str,
        or_replace: bool,
        parts: &NewTable,
        notes: &FunctionNotes,
    ) -> Result<()> {
        let mut notes = FunctionNotes { owner: self.context.owner, ..notes.clone() };
        let known = load_all(self.txn, name)?;
        if !known.is_empty() {
            self.lock_entry(name)?;
        }
        let types = input_types(parts, &notes);
        let before = known.iter().find(|one| one.argument_types() == types);
        if let Some(before) = before {
            self.refuse_another(before, or_replace, parts, &notes)?;
            notes.owner = before.notes.owner;
            notes.comment.clone_from(&before.notes.comment);
        }
        let mut schema = parts.schema.clone();
        for (at, column) in schema.columns.iter_mut().enumerate() {
            self.finish_parameter(parts, at, column)?;
        }
        if schema.columns.is_empty() {
            schema = schema.nullable(NO_FIELD, Type::Bool);
        }
        schema.note = notes.encode();
        let entry = match before {
            Some(before) => {
                self.replace_function(before, &schema, &notes)?;
                self.refill_indexes(name)?;
                before.entry.clone()
            }
            None => {
                if known.len() == 1 {
                    self.refuse_beside_called(name)?;
                }
                schema.name = function_entry(name, known.len() + 1);
                self.txn.create_table(&schema)?;
                schema.name.clone()
            }
        };
        self.touch_first(name)?;
        let path = self.context.settings.path();
        if self.context.settings.get("check_function_bodies") == "off" {
            return Ok(());
        }
        let function = load(self.txn, &entry)?.expect("it was made");
        let memory = parse::memory_to_read(&self.context.budget());
        check(&mut Along(Tables(self.txn), &path), &function, memory)
    }

    /// Puts default and notes into the column of a parameter.
    fn finish_parameter(
        &mut self,
        parts: &NewTable,
        at: usize,
        column: &mut rightlink::ColumnSchema,
    ) -> Result<()> {
        let ty = parts.notes[at].type_of(column.kind, &parts.made);
        let done = self.finish_column(parts, at, column);
        done.map_err(|error| match error.sqlstate {
            code::DATATYPE_MISMATCH => {
                let message = format!("argument of DEFAULT must be type {}", ty.name());
                SqlError::new(code::DATATYPE_MISMATCH, message)
            }
            _ => error,
        })?;
        // The store has no rows to give it to.
        column.default = None;
        Ok(())
    }

    /// Gives an entry that is there what another function keeps.
    fn replace_function(
        &mut self,
        before: &UserFunction,
        schema: &rightlink::TableSchema,
        notes: &FunctionNotes,
    ) -> Result<()> {
        let entry = &before.entry;
        let columns = self.txn.catalog().definition(entry)?.columns.clone();
        for (known, new) in columns.iter().zip(&schema.columns) {
            if known.name != new.name {
                let change = AlterTable::RenameColumn { column: &known.name, to: &new.name };
                self.txn.alter_table(entry, change)?;
            }
            let default = ColumnNotes::decode(&new.note).default;
            self.note_column(entry, &new.name, |notes| notes.default = default)?;
        }
        self.note_function(entry, notes)
    }

    /// Fails unless a function may stand in the place of one that is there.
    fn refuse_another(
        &mut self,
        before: &UserFunction,
        or_replace: bool,
        parts: &NewTable,
        notes: &FunctionNotes,
    ) -> Result<()> {
        if !or_replace {
            let message =
                format!("function \"{}\" already exists with same argument types", before.bare());
            return Err(SqlError::new(code::DUPLICATE_FUNCTION, message));
        }
        let hint = format!("Use DROP FUNCTION {} first.", before.signature());
        let refused =
            |message: String| SqlError::new(code::INVALID_FUNCTION, message).hint(hint.clone());
        let new = new_parts(parts, notes);
        let (is_input, is_output) = (Part::is_input, Part::is_output);
        let of = |all: &[Part], is_it: fn(&Part) -> bool| -> Vec<Part> {
            all.iter().filter(|part| is_it(part)).cloned().collect()
        };
        let (inputs, outputs) = (of(&new, is_input), of(&new, is_output));
        let types = |all: &[Part]| all.iter().map(|part| part.ty).collect::<Vec<_>>();
        let is_row = |gives: Gives| matches!(gives, Gives::Row | Gives::Table);
        let same_gives = notes.gives == before.notes.gives
            || is_row(notes.gives) == is_row(before.notes.gives)
                && notes.gives.is_set() == before.notes.gives.is_set()
                && notes.gives != Gives::Void
                && before.notes.gives != Gives::Void;
        if types(&outputs) != types(&before.results) || !same_gives {
            let message = "cannot change return type of existing function";
            let error = refused(message.to_owned());
            let is_record = outputs.len() > 1 || before.results.len() > 1;
            return Err(match is_record {
                true => error.detail("Row type defined by OUT parameters is different."),
                false => error,
            });
        }
        let names = |all: &[Part]| all.iter().map(|part| part.name.clone()).collect::<Vec<_>>();
        if outputs.len() > 1 && names(&outputs) != names(&before.results) {
            let message = "cannot change return type of existing function";
            let detail = "Row type defined by OUT parameters is different.";
            return Err(refused(message.to_owned()).detail(detail));
        }
        for (known, new) in before.arguments.iter().zip(&inputs) {
            if known.name.is_some() && known.name != new.name {
                let name = known.name.as_deref().unwrap_or_default();
                let message = format!("cannot change name of input parameter \"{name}\"");
                return Err(refused(message));
            }
            if known.default.is_some() && new.default.is_none() {
                let message = "cannot remove parameter defaults from existing function";
                return Err(refused(message.to_owned()));
            }
        }
        let modes = |all: &[Part]| all.iter().map(|part| part.mode).collect::<Vec<_>>();
        if modes(&new) != modes(&before.parts) {
            return Err(not_built("in the place of one whose parameters go other ways"));
        }
        Ok(())
    }

    /// Locks all functions of a name.
    fn lock_entry(&mut self, name: &str) -> rightlink::Result<()> {
        self.txn.lock_table(&function_entry(name, 1), LockMode::Exclusive, Busy::Wait)
    }

    /// Locks a function that is changed or dropped.
    fn lock_function(&mut self, called: &Called) -> Result<UserFunction> {
        let entry = match called {
            Called::Entry(entry) => entry,
            Called::Missing(error) => return Err(error.clone()),
        };
        let gone = || {
            let name = function_of_entry(entry).unwrap_or_default();
            no_function_named(bare(&name))
        };
        let found = load(self.txn, entry)?.ok_or_else(gone)?;
        self.lock_entry(&found.name)?;
        Ok(found)
    }

    fn note_function(&mut self, entry: &str, notes: &FunctionNotes) -> Result<()> {
        let change = notes.encode();
        Ok(self.txn.alter_table(entry, AlterTable::Note(&change))?)
    }

    /// Gives the first entry of a name another version, on which plans rest that call one of them.
    fn touch_first(&mut self, name: &str) -> Result<()> {
        let first = function_entry(name, 1);
        let note = match self.txn.catalog().definition(&first) {
            Err(Error::NotFound(_)) => return Ok(()),
            found => found?.note.clone(),
        };
        Ok(self.txn.alter_table(&first, AlterTable::Note(&note))?)
    }

    /// Drops the function that is kept as an entry; the last one of its name takes its number.
    /// Views that call it go with it, or keep it from going.
    pub(super) fn drop_function(&mut self, entry: &str, cascade: bool) -> Result<()> {
        let name = function_of_entry(entry).expect("it is the entry of a function");
        self.lock_entry(&name)?;
        let function = load(self.txn, entry)?.ok_or_else(|| no_function_named(bare(&name)))?;
        let signature = stored(schema_of(&name), &function.signature());
        self.drop_dependents(Needed::Function(entry, &signature), &[], cascade)?;
        if !self.txn.catalog().has_relation(&function_entry(&name, 2))? {
            let what = format!("function {}", self.context.settings.path().shown(&signature));
            self.drop_callers(&name, &what, cascade)?;
        }
        let number = self.txn.catalog().definition(entry)?.id;
        self.txn.drop_table(entry)?;
        self.forget_readers(number)?;
        self.close_gap(&name, entry)
    }

    /// The entry of a name is gone: the last of the name takes its place.
    fn close_gap(&mut self, name: &str, entry: &str) -> Result<()> {
        let (mut number, mut last) = (1, None);
        loop {
            let other = function_entry(name, number);
            match self.txn.catalog().has_relation(&other)? {
                true => last = Some(other),
                false if other == entry => last = None,
                false => break,
            }
            number += 1;
        }
        if let Some(last) = last {
            self.txn.alter_table(&last, AlterTable::Rename(entry))?;
            self.rename_source(&last, entry)?;
        }
        self.touch_first(name)
    }

    /// The functions that have arguments or results of the type called `name`.
    fn functions_of_type(&mut self, name: &str) -> Result<Vec<UserFunction>> {
        let mut entries = self.txn.catalog().table_names()?;
        entries.retain(|entry| function_of_entry(entry).is_some());
        let mut found = Vec::new();
        for entry in entries {
            self.context.check_interrupt()?;
            let info = self.txn.catalog().describe(&entry)?;
            let uses = |notes: &str| ColumnNotes::decode(notes).uses_type(name);
            if info.columns.iter().any(|column| uses(&column.note)) {
                found.extend(load(self.txn, &entry)?);
            }
        }
        Ok(found)
    }

    /// Functions that need the rows of a relation, which messages call `noun`, go with it, or keep
    /// it from going.
    pub(super) fn drop_functions_of_rows(
        &mut self,
        name: &str,
        noun: &str,
        cascade: bool,
    ) -> Result<()> {
        let found = self.functions_of_type(name)?;
        if found.is_empty() {
            return Ok(());
        }
        let path = self.context.settings.path();
        if !cascade {
            let own = path.shown(name);
            let line =
                |one: &UserFunction| format!("function {} depends on type {own}", one.signature());
            let lines: Vec<String> = found.iter().map(line).collect();
            let message = format!("cannot drop {noun} {own} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match found.as_slice() {
            [one] => self.notices.push(format!("drop cascades to function {}", one.signature())),
            more => self.notices.push(format!("drop cascades to {} other objects", more.len())),
        }
        let mut entries: Vec<String> = found.into_iter().map(|one| one.entry).collect();
        last_first(&mut entries);
        entries.iter().try_for_each(|entry| self.drop_function(entry, cascade))
    }

    /// A relation has another name: functions that have its rows name it so.
    pub(super) fn rename_rows_in_functions(&mut self, name: &str, to: &str) -> Result<()> {
        let mut entries = self.txn.catalog().table_names()?;
        entries.retain(|entry| function_of_entry(entry).is_some());
        for entry in entries {
            let info = self.txn.catalog().describe(&entry)?;
            for column in &info.columns {
                if ColumnNotes::decode(&column.note).uses_type(name) {
                    let rename = |notes: &mut ColumnNotes| notes.rename_type(name, to);
                    self.note_column(&entry, &column.name, rename)?;
                }
            }
        }
        Ok(())
    }

    /// Fails if a function of a name has the arguments of one that is to have that name.
    fn refuse_taken(&mut self, function: &UserFunction, to: &str) -> Result<()> {
        let types = function.argument_types();
        let all = load_all(self.txn, to)?;
        if !all.iter().any(|other| other.argument_types() == types) {
            return Ok(());
        }
        let types: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
        let message = format!(
            "function {}({}) already exists in schema \"{}\"",
            bare(to),
            types.join(", "),
            schema_of(to)
        );
        Err(SqlError::new(code::DUPLICATE_FUNCTION, message))
    }

    /// Gives the function that is kept as an entry another name.
    pub(super) fn rename_function(&mut self, entry: &str, to: &str) -> Result<()> {
        let name = function_of_entry(entry).expect("it is the entry of a function");
        self.lock_entry(&name)?;
        let mut number = 1;
        while self.txn.catalog().has_relation(&function_entry(to, number))? {
            number += 1;
        }
        if number > 1 {
            self.lock_entry(to)?;
            self.refuse_beside_called(&name)?;
        }
        if number == 2 {
            self.refuse_beside_called(to)?;
        }
        if !self.txn.catalog().has_relation(&function_entry(&name, 2))? {
            self.rename_called(&name, to)?;
        }
        let new = function_entry(to, number);
        self.txn.alter_table(entry, AlterTable::Rename(&new))?;
        self.rename_source(entry, &new)?;
        self.touch_first(to)?;
        self.close_gap(&name, entry)
    }

    /// The entries of the functions in some schemas, the last of a name first.
    pub(super) fn functions_within(&mut self, schemas: &[&String]) -> Result<Vec<String>> {
        let mut names = self.txn.catalog().table_names()?;
        let within = |entry: &String| {
            let name = function_of_entry(entry);
            name.is_some_and(|name| schemas.iter().any(|schema| *schema == schema_of(&name)))
        };
        names.retain(within);
        last_first(&mut names);
        Ok(names)
    }
}

/// Orders entries so that a drop of one moves none that comes after it.
pub(super) fn last_first(entries: &mut [String]) {
    entries.sort_by(|a, b| (b.len(), b).cmp(&(a.len(), a)));
}

/// The notice for a function that is not there.
fn skipped(error: &SqlError) -> String {
    match error.message.strip_prefix("could not find a function named ") {
        Some(name) => format!("function {} does not exist, skipping", name.replace('"', "") + "()"),
        None => format!("{}, skipping", error.message),
    }
}

/// The parts of a function that is to be made.
fn new_parts(parts: &NewTable, notes: &FunctionNotes) -> Vec<Part> {
    let columns = parts.schema.columns.iter().zip(&parts.notes).enumerate();
    let part = |(at, (column, own)): (usize, (&rightlink::ColumnSchema, &ColumnNotes))| Part {
        name: given_name(&column.name).map(str::to_owned),
        ty: own.type_of(column.kind, &parts.made),
        modifier: None,
        mode: match notes.gives {
            Gives::Table if at >= notes.modes.len() => Some(ParameterMode::Table),
            _ => notes.modes.get(at).copied(),
        },
        default: parts.defaults[at].as_ref().map(ToString::to_string),
    };
    columns.map(part).collect()
}

/// The types of the arguments of a function that is to be made.
fn input_types(parts: &NewTable, notes: &FunctionNotes) -> Vec<SqlType> {
    new_parts(parts, notes).iter().filter(|part| part.is_input()).map(|part| part.ty).collect()
}
