//! Functions that users made: their rows of `pg_proc`, and their definitions as text.
//!
//! Invariants: columns are those of PostgreSQL 15.
//! Does not do: functions that are there without being made (`builtin`).

use rightlink::TableInfo;

use super::builtin;
use super::numbers::{array, char, oid, relation_oid, short, text, texts, vector};
use super::relations::is_string;
use crate::error::Result;
use crate::names::{
    PUBLIC, SearchPath, bare, full_reference, function_of_entry, identifier, schema_of,
};
use crate::notes::functions::{FunctionNotes, Gives};
use crate::notes::{ColumnNotes, MadeTypes};
use crate::roles::role::OWNER;
use crate::types::declared::Modifier;
use crate::types::parameter_mode::ParameterMode;
use crate::types::volatility::Volatility;
use crate::types::{Datum, RegKind, Registered, Row, SqlType, VARCHAR};
use crate::user_types;
use crate::user_types::functions::{Part, parts_of_entry};
use crate::user_types::kept_name;

/// The number of the language SQL.
const SQL: u32 = 14;

/// Says how the type of a part is named where the text is read.
pub(super) type ShownType<'s> = &'s dyn Fn(&Part) -> String;

/// The name of the type of a part, with its schema unless that is `public`.
pub(super) fn named(part: &Part) -> String {
    type_of(part).1
}

/// The name of the function of a user that a text which is kept with a definition calls by these
/// parts, if there is one. Functions of the system come before those without a schema.
pub(crate) fn kept_call(parts: &[String]) -> Option<String> {
    kept_name(parts).filter(|_| !is_of_system(parts))
}

/// May the parts mean a function of the system?
pub(crate) fn is_of_system(parts: &[String]) -> bool {
    matches!(parts, [name] if builtin::functions_named(name).next().is_some())
}

/// A function that a user made.
pub(crate) struct FunctionObject {
    pub(super) oid: u32,
    /// The table that it is kept as.
    pub(super) entry: String,
    /// As the store would call a relation of its name.
    pub(super) stored: String,
    /// Its parameters, and a result that is none.
    parts: Vec<Part>,
    pub(super) notes: FunctionNotes,
}

/// The functions among the tables of the store, by name.
pub(super) fn objects(tables: &[TableInfo], made: &MadeTypes) -> Vec<FunctionObject> {
    let entries = || tables.iter().filter(|info| function_of_entry(&info.name).is_some());
    let mut made = made.clone();
    // Those of rows of tables.
    for own in entries().flat_map(|entry| &entry.columns) {
        let Some(own) = ColumnNotes::decode(&own.note).made else { continue };
        if !made.contains_key(&own.name)
            && let Some(info) = tables.iter().find(|info| info.name == own.name)
        {
            let ty = user_types::composite(info, &info.name, &info.columns, &made);
            made.insert(own.name, SqlType::Composite(ty));
        }
    }
    let mut all: Vec<FunctionObject> =
        entries().filter_map(|info| FunctionObject::of(info, &made)).collect();
    all.sort_by(|a, b| a.stored.cmp(&b.stored));
    all
}

/// The number and the name of the type of a part, which may be `varchar`.
pub(super) fn type_of(part: &Part) -> (u32, String) {
    let is_varchar = matches!(part.modifier, Some(Modifier::Varchar(_)));
    match (part.ty, SqlType::named(VARCHAR)) {
        (SqlType::Text, Some((number, _))) if is_varchar => (number, VARCHAR.to_owned()),
        (ty, _) => (ty.oid(), ty.name().to_owned()),
    }
}

impl FunctionObject {
    fn of(info: &TableInfo, made: &MadeTypes) -> Option<FunctionObject> {
        let stored = function_of_entry(&info.name)?;
        let notes = FunctionNotes::decode(&info.note);
        let parts = parts_of_entry(info, &notes, made);
        let (oid, entry) = (relation_oid(info.id), info.name.clone());
        Some(FunctionObject { oid, entry, stored, parts, notes })
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.is_input())
    }

    fn outputs(&self) -> Vec<&Part> {
        self.parts.iter().filter(|part| part.is_output()).collect()
    }

    pub(super) fn owner(&self) -> u32 {
        self.notes.owner.unwrap_or(OWNER)
    }

    /// All of its parameters, and a result that is none.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The type of what it gives.
    pub(super) fn result_type(&self) -> SqlType {
        match (self.notes.gives, self.outputs().as_slice()) {
            (Gives::Void, _) => SqlType::Void,
            (_, [one]) => one.ty,
            _ => SqlType::Record,
        }
    }

    /// The number and the name of the type of what it gives.
    pub(super) fn result(&self) -> (u32, String) {
        match (self.result_type(), self.outputs().as_slice()) {
            (ty, [one]) if ty != SqlType::Void => type_of(one),
            (ty, _) => (ty.oid(), ty.name().to_owned()),
        }
    }

    /// Its parameters as they were declared, with names where they have some.
    pub(super) fn declared_arguments(&self, shown: ShownType<'_>) -> String {
        self.declared(&|part| is_argument(part), true, shown)
    }

    /// The same without defaults.
    pub(super) fn identity_arguments(&self, shown: ShownType<'_>) -> String {
        self.declared(&|part| is_argument(part), false, shown)
    }

    /// What it gives as it was declared.
    pub(super) fn declared_result(&self, shown: ShownType<'_>) -> String {
        let is_column = |part: &Part| part.mode == Some(ParameterMode::Table);
        if self.parts.iter().any(is_column) {
            return format!("TABLE({})", self.declared(&is_column, false, shown));
        }
        let set = if self.notes.gives.is_set() { "SETOF " } else { "" };
        let ty = match self.outputs().as_slice() {
            [one] => shown(one),
            _ => self.result().1,
        };
        format!("{set}{ty}")
    }

    /// Parameters with their names and types.
    fn declared(
        &self,
        is_shown: &dyn Fn(&Part) -> bool,
        with_defaults: bool,
        shown: ShownType<'_>,
    ) -> String {
        let one = |part: &Part| {
            let mut out = part.mode.map_or("", ParameterMode::prefix).to_owned();
            if let Some(name) = &part.name {
                out.push_str(&identifier(name));
                out.push(' ');
            }
            out.push_str(&shown(part));
            if let Some(default) = default_of(part, shown).filter(|_| with_defaults) {
                out.push_str(" DEFAULT ");
                out.push_str(&default);
            }
            out
        };
        let parts = self.parts.iter().filter(|part| is_shown(part));
        parts.map(one).collect::<Vec<_>>().join(", ")
    }

    /// Its name, with the schema where the path does not have that.
    pub(super) fn spelled(&self, path: &SearchPath) -> String {
        match path.has(schema_of(&self.stored)) {
            true => identifier(bare(&self.stored)),
            false => full_reference(&self.stored),
        }
    }

    /// Its name and the types of its arguments.
    pub(super) fn signature(&self, path: &SearchPath, shown: ShownType<'_>) -> String {
        let types: Vec<String> = self.inputs().map(shown).collect();
        format!("{}({})", self.spelled(path), types.join(","))
    }

    /// Has it arguments of the types with these numbers?
    pub(super) fn takes(&self, types: &[u32]) -> bool {
        self.inputs().map(|one| type_of(one).0).eq(types.iter().copied())
    }

    /// The statement that makes it.
    pub(super) fn definition(&self, shown: ShownType<'_>) -> String {
        let mut options = String::new();
        if self.notes.volatility != Volatility::Volatile {
            options = format!(" {}", self.notes.volatility.name());
        }
        if self.notes.is_strict {
            options.push_str(" STRICT");
        }
        if !options.is_empty() {
            options.push('\n');
        }
        let mut quote = "$function$".to_owned();
        while self.notes.body.contains(&quote) {
            quote.insert(quote.len() - 1, 'x');
        }
        format!(
            "CREATE OR REPLACE FUNCTION {}({})\n RETURNS {}\n LANGUAGE sql\n{options}AS \
             {quote}{}{quote}\n",
            full_reference(&self.stored),
            self.declared_arguments(shown),
            self.declared_result(shown),
            self.notes.body
        )
    }

    /// Its row of `pg_proc`; `schema` is the number of its schema.
    pub(super) fn row(&self, schema: u32) -> Result<Row> {
        let parameters: Vec<&Part> = self.parts.iter().filter(|part| part.mode.is_some()).collect();
        let names: Vec<String> =
            parameters.iter().map(|one| one.name.clone().unwrap_or_default()).collect();
        let (mut all, mut modes, mut own_names) = (Datum::Null, Datum::Null, Datum::Null);
        if parameters.iter().any(|one| one.mode != Some(ParameterMode::In)) {
            let types = parameters.iter().map(|one| oid(type_of(one).0)).collect();
            all = array(SqlType::Oid, types)?;
            let letter = |one: &&Part| char(one.mode.unwrap_or_default().letter());
            modes = array(SqlType::Char, parameters.iter().map(letter).collect())?;
        }
        if names.iter().any(|name| !name.is_empty()) {
            own_names = texts(names);
        }
        let defaults: Vec<String> =
            self.inputs().filter_map(|one| default_of(one, &named)).collect();
        let default_count = short(defaults.len());
        let own_defaults = match defaults.is_empty() {
            true => Datum::Null,
            false => text(defaults.join(", ")),
        };
        let variadic = self.parts.iter().find(|one| one.mode == Some(ParameterMode::Variadic));
        let variadic = variadic.and_then(|one| one.ty.element()).map_or(0, SqlType::oid);
        let volatility = match self.notes.volatility {
            Volatility::Immutable => 'i',
            Volatility::Stable => 's',
            Volatility::Volatile => 'v',
        };
        let rows = if self.notes.gives.is_set() { 1000.0 } else { 0.0 };
        let mut row = vec![oid(self.oid), text(bare(&self.stored))];
        row.extend([oid(schema), oid(self.owner()), oid(SQL)]);
        row.extend([Datum::Float4(100.0), Datum::Float4(rows), oid(variadic)]);
        row.push(Registered::datum(RegKind::Proc, 0, Some("-".to_owned())));
        row.extend([char('f'), Datum::Bool(false), Datum::Bool(false)]);
        row.extend([Datum::Bool(self.notes.is_strict), Datum::Bool(self.notes.gives.is_set())]);
        row.extend([char(volatility), char('u'), short(self.inputs().count())]);
        row.extend([default_count, oid(self.result().0)]);
        let types = self.inputs().map(|one| oid(type_of(one).0)).collect();
        row.push(vector(SqlType::Oid, types)?);
        row.extend([all, modes, own_names, own_defaults, Datum::Null]);
        row.extend([text(self.notes.body.as_str()), Datum::Null, Datum::Null]);
        row.extend([Datum::Null, Datum::Null]);
        Ok(row)
    }
}

/// The default of a parameter as PostgreSQL shows it: a string by itself has its type behind.
pub(super) fn default_of(part: &Part, shown: ShownType<'_>) -> Option<String> {
    let default = part.default.as_ref()?;
    Some(match literal_of(default, part) {
        Some(literal) => format!("{literal}::{}", shown(part)),
        None => default.clone(),
    })
}

/// The string that a default is, perhaps with a cast to the type of its parameter behind it.
fn literal_of<'t>(default: &'t str, part: &Part) -> Option<&'t str> {
    if is_string(default) {
        return Some(default);
    }
    let (literal, cast) = default.rsplit_once("::").filter(|(literal, _)| is_string(literal))?;
    let own = named(part);
    let is_own = cast.eq_ignore_ascii_case(&own) || cast == format!("{PUBLIC}.{own}");
    is_own.then_some(literal)
}

/// Does a parameter stand among the arguments?
fn is_argument(part: &Part) -> bool {
    part.mode.is_some_and(|mode| mode != ParameterMode::Table)
}
