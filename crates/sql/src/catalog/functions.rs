//! Functions that users made: their rows of `pg_proc`, and their definitions as text.
//!
//! Invariants: columns are those of PostgreSQL 15.
//! Does not do: functions that are there without being made (`builtin`).

use rightlink::TableInfo;

use super::numbers::{array, char, oid, relation_oid, short, text, texts, vector};
use crate::error::Result;
use crate::names::{bare, full_reference, function_of_entry, identifier, reference};
use crate::notes::MadeTypes;
use crate::notes::functions::{FunctionNotes, Gives};
use crate::roles::role::OWNER;
use crate::types::declared::Modifier;
use crate::types::volatility::Volatility;
use crate::types::{Datum, RegKind, Registered, Row, SqlType, VARCHAR};
use crate::user_types::functions::{Part, parts_of_entry};

/// The number of the language SQL.
const SQL: u32 = 14;

/// A function that a user made.
pub(crate) struct FunctionObject {
    pub(super) oid: u32,
    /// As the store would call a relation of its name.
    pub(super) stored: String,
    arguments: Vec<Part>,
    results: Vec<Part>,
    pub(super) notes: FunctionNotes,
}

/// The functions among the tables of the store, by name.
pub(super) fn objects(tables: &[TableInfo], made: &MadeTypes) -> Vec<FunctionObject> {
    let mut all: Vec<FunctionObject> =
        tables.iter().filter_map(|info| FunctionObject::of(info, made)).collect();
    all.sort_by(|a, b| a.stored.cmp(&b.stored));
    all
}

/// The number and the name of the type of a part, which may be `varchar`.
fn type_of(part: &Part) -> (u32, String) {
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
        let mut arguments = parts_of_entry(info, made);
        let mut results = arguments.split_off(notes.arguments.min(arguments.len()));
        if notes.gives == Gives::Void {
            results.clear();
        }
        Some(FunctionObject { oid: relation_oid(info.id), stored, arguments, results, notes })
    }

    pub(super) fn owner(&self) -> u32 {
        self.notes.owner.unwrap_or(OWNER)
    }

    /// The number of the type of what it gives.
    fn result_oid(&self) -> u32 {
        match (self.notes.gives, self.results.as_slice()) {
            (Gives::Void, _) => SqlType::Void.oid(),
            (_, [one]) => type_of(one).0,
            _ => SqlType::Record.oid(),
        }
    }

    /// Its arguments as they were declared, with names where they have some.
    pub(super) fn declared_arguments(&self) -> String {
        declared(&self.arguments)
    }

    /// What it gives as it was declared.
    pub(super) fn declared_result(&self) -> String {
        match (self.notes.gives, self.results.as_slice()) {
            (Gives::Void, _) => "void".to_owned(),
            (Gives::Value, [one]) => type_of(one).1,
            (Gives::Set, [one]) => format!("SETOF {}", type_of(one).1),
            (_, columns) => format!("TABLE({})", declared(columns)),
        }
    }

    /// Its name and the types of its arguments.
    pub(super) fn signature(&self) -> String {
        let types: Vec<String> = self.arguments.iter().map(|one| type_of(one).1).collect();
        format!("{}({})", reference(&self.stored), types.join(","))
    }

    /// Has it arguments of the types with these numbers?
    pub(super) fn takes(&self, types: &[u32]) -> bool {
        self.arguments.iter().map(|one| type_of(one).0).eq(types.iter().copied())
    }

    /// The statement that makes it.
    pub(super) fn definition(&self) -> String {
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
            self.declared_arguments(),
            self.declared_result(),
            self.notes.body
        )
    }

    /// Its row of `pg_proc`; `schema` is the number of its schema.
    pub(super) fn row(&self, schema: u32) -> Result<Row> {
        let parts = || self.arguments.iter().chain(&self.results);
        let is_table = self.notes.gives == Gives::Table;
        let named = self.arguments.iter().chain(self.results.iter().filter(|_| is_table));
        let names: Vec<String> = named.map(|one| one.name.clone().unwrap_or_default()).collect();
        let (mut all, mut modes, mut own_names) = (Datum::Null, Datum::Null, Datum::Null);
        if is_table {
            all = array(SqlType::Oid, parts().map(|one| oid(type_of(one).0)).collect())?;
            let mode = |at: usize| char(if at < self.arguments.len() { 'i' } else { 't' });
            modes = array(SqlType::Char, (0..parts().count()).map(mode).collect())?;
        }
        if names.iter().any(|name| !name.is_empty()) {
            own_names = texts(names);
        }
        let volatility = match self.notes.volatility {
            Volatility::Immutable => 'i',
            Volatility::Stable => 's',
            Volatility::Volatile => 'v',
        };
        let rows = if self.notes.gives.is_set() { 1000.0 } else { 0.0 };
        let mut row = vec![oid(self.oid), text(bare(&self.stored))];
        row.extend([oid(schema), oid(self.owner()), oid(SQL)]);
        row.extend([Datum::Float4(100.0), Datum::Float4(rows), oid(0)]);
        row.push(Registered::datum(RegKind::Proc, 0, Some("-".to_owned())));
        row.extend([char('f'), Datum::Bool(false), Datum::Bool(false)]);
        row.extend([Datum::Bool(self.notes.is_strict), Datum::Bool(self.notes.gives.is_set())]);
        row.extend([char(volatility), char('u'), short(self.arguments.len())]);
        row.extend([Datum::Int2(0), oid(self.result_oid())]);
        let types = self.arguments.iter().map(|one| oid(type_of(one).0)).collect();
        row.push(vector(SqlType::Oid, types)?);
        row.extend([all, modes, own_names, Datum::Null, Datum::Null]);
        row.extend([text(self.notes.body.as_str()), Datum::Null, Datum::Null]);
        row.extend([Datum::Null, Datum::Null]);
        Ok(row)
    }
}

/// Parts with their names and types.
fn declared(parts: &[Part]) -> String {
    let one = |part: &Part| match &part.name {
        Some(name) => format!("{} {}", identifier(name), type_of(part).1),
        None => type_of(part).1,
    };
    parts.iter().map(one).collect::<Vec<_>>().join(", ")
}
