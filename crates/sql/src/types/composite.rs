//! Composite types: rows whose fields have names and types, as `CREATE TYPE .. AS (..)` declares
//! them, and the rows of tables.
//!
//! A definition that was read is shared by all who read the same one, and stays until the process
//! ends, as that of an enum does: a type is a reference to it.
//!
//! Invariants: a type is no field of itself; of two definitions of one number the later one is that
//! of the type as it is now.
//! Does not do: keeping definitions (`notes::types`), finding them (`user_types`), values
//! (`record`, `row_input`).

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use rightlink_env::sync::Mutex;

use super::declared::{Modifier, pad};
use super::made::MadeName;
use super::{Datum, SqlType, Times};
use crate::error::Result;

/// The names and numbers of a composite type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompositeName<'n> {
    pub(crate) oid: u32,
    pub(crate) array_oid: u32,
    /// As the store calls it.
    pub(crate) stored: &'n str,
    /// Is it the type of the rows of a table or a view?
    pub(crate) is_of_rows: bool,
}

/// What there is to know of a composite type.
#[derive(Debug)]
struct Definition {
    /// Its place among all that the process has read.
    place: u32,
    name: MadeName,
    is_of_rows: bool,
    fields: Arc<[Field]>,
}

/// A type of rows that has a name.
#[derive(Clone, Copy)]
pub struct CompositeType(&'static Definition);

/// What tells two definitions of one number apart.
#[derive(PartialEq, Eq, Hash)]
struct Content {
    oid: u32,
    stored: String,
    /// Names of fields, and their types as text, with numbers of definitions.
    fields: Vec<(String, String)>,
}

/// Definitions that were read.
#[derive(Default)]
struct Known {
    by_content: HashMap<Content, CompositeType>,
    all: Vec<CompositeType>,
}

fn known() -> &'static Mutex<Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

/// A field as definitions are told apart by it.
fn content_of(field: &Field) -> (String, String) {
    let inner = match field.ty.element().unwrap_or(field.ty) {
        SqlType::Enum(ty) => ty.place(),
        SqlType::Composite(ty) => ty.place(),
        _ => 0,
    };
    let Field { ty, modifier, .. } = field;
    (field.name.clone(), format!("{} {inner} {modifier:?}", ty.oid()))
}

impl CompositeType {
    /// The type of this name and these fields.
    pub(crate) fn of(name: CompositeName<'_>, fields: Vec<Field>) -> CompositeType {
        let CompositeName { oid, array_oid, stored, is_of_rows } = name;
        let contents = fields.iter().map(content_of).collect();
        let content = Content { oid, stored: stored.to_owned(), fields: contents };
        let mut known = known().lock();
        if let Some(found) = known.by_content.get(&content) {
            return *found;
        }
        let definition = Definition {
            place: u32::try_from(known.all.len()).expect("fewer definitions than numbers"),
            name: MadeName::of(oid, array_oid, stored),
            is_of_rows,
            fields: fields.into(),
        };
        let made = CompositeType(Box::leak(Box::new(definition)));
        known.by_content.insert(content, made);
        known.all.push(made);
        made
    }

    /// The definition that has this place among all.
    pub(crate) fn at_place(place: u32) -> Option<CompositeType> {
        known().lock().all.get(place as usize).copied()
    }

    /// Its place among all definitions that the process has read.
    pub(crate) fn place(self) -> u32 {
        self.0.place
    }

    /// The number by which clients know it.
    pub const fn oid(self) -> u32 {
        self.0.name.oid
    }

    /// The number of the type of its arrays.
    pub const fn array_oid(self) -> u32 {
        self.0.name.array_oid
    }

    /// Is it the type of the rows of a table or a view?
    pub(crate) const fn is_of_rows(self) -> bool {
        self.0.is_of_rows
    }

    /// As the store calls it.
    pub(crate) const fn stored(self) -> &'static str {
        self.0.name.stored
    }

    /// Its name in messages: with its schema, unless that is `public`.
    pub const fn shown(self) -> &'static str {
        self.0.name.shown
    }

    pub(crate) const fn shown_array(self) -> &'static str {
        self.0.name.shown_array
    }

    /// Its name without a schema.
    pub(crate) const fn short(self) -> &'static str {
        self.0.name.short
    }

    pub(crate) const fn short_array(self) -> &'static str {
        self.0.name.short_array
    }

    /// Its fields, in their order.
    pub fn fields(self) -> &'static [Field] {
        &self.0.fields
    }

    /// The fields, for values of it.
    pub(super) fn shape(self) -> &'static Arc<[Field]> {
        &self.0.fields
    }

    /// The place of the field that is called so.
    pub(crate) fn field(self, name: &str) -> Option<usize> {
        self.0.fields.iter().position(|field| field.name == name)
    }

    /// Can a column of the store have it?
    pub(crate) fn is_storable(self) -> bool {
        self.0.fields.iter().all(|field| field.ty.to_column().is_some())
    }
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name; `f1`, `f2` and so on where nobody gave one.
    pub name: String,
    /// The type of its values.
    pub ty: SqlType,
    /// Declared length or precision.
    pub(crate) modifier: Option<Modifier>,
}

impl Field {
    /// The number of its type as it is declared.
    pub(crate) fn oid(&self) -> u32 {
        super::declared::Declared::modified(self.ty, self.modifier).oid()
    }

    /// The value that a text says.
    pub(crate) fn read(&self, text: &str, times: &Times) -> Result<Datum> {
        let ty = if self.ty == SqlType::Bpchar { SqlType::Text } else { self.ty };
        self.fitted(Datum::from_text_in(ty, text, times)?)
    }

    /// A value as the field declares it.
    pub(crate) fn fitted(&self, value: Datum) -> Result<Datum> {
        match self.modifier {
            Some(modifier) => Ok(self.padded(modifier.fit(value, false)?)),
            None => Ok(value),
        }
    }

    /// A value of `char(n)` with its blanks, which those in rows have.
    pub(super) fn padded(&self, value: Datum) -> Datum {
        match self.modifier {
            Some(Modifier::Char(length)) => pad(value, length),
            _ => value,
        }
    }
}

impl PartialEq for CompositeType {
    fn eq(&self, other: &CompositeType) -> bool {
        self.0.name.oid == other.0.name.oid
    }
}

impl Eq for CompositeType {}

impl Hash for CompositeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.oid.hash(state);
    }
}

impl std::fmt::Debug for CompositeType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CompositeType({})", self.0.name.shown)
    }
}
