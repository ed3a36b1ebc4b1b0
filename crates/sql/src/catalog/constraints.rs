//! Checks and foreign keys, as `pg_constraint` tells of them.
//!
//! Does not do: primary keys and unique constraints, which are told as indexes.

use rightlink::TableInfo;

use super::objects::Objects;
use crate::plan::notes::TableNotes;
use crate::schemas::reference;

/// A constraint.
pub(super) struct Constraint {
    pub(super) name: String,
    /// `c` or `f`.
    pub(super) kind: char,
    /// The table that has it, its number and the store's name.
    pub(super) table: (u32, String),
    /// The table that it names.
    pub(super) parent: Option<u32>,
    pub(super) definition: String,
}

/// Names and texts of the checks of a table.
pub(super) fn checks(table: &TableInfo) -> Vec<(String, String)> {
    let mut all = TableNotes::decode(&table.note).checks;
    for check in &table.checks {
        if !all.iter().any(|(known, _)| *known == check.name) {
            all.push((check.name.clone(), check.predicate.to_string()));
        }
    }
    all.sort();
    all
}

/// The number of a check or foreign key, made of its name: not one of the store's.
pub(super) fn oid(table: u32, name: &str) -> u32 {
    let bytes = table.to_le_bytes().into_iter().chain(name.bytes());
    let code = bytes
        .fold(0x811c_9dc5_u32, |code, byte| (code ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    code | 1 << 31
}

/// Does the table have foreign keys, or do foreign keys name it?
pub(super) fn has_keys(table: &TableInfo) -> bool {
    let notes = TableNotes::decode(&table.note);
    !notes.keys.is_empty() || !notes.children.is_empty()
}

/// All of them, by name.
pub(super) fn all(objects: &Objects) -> Vec<Constraint> {
    let tables: Vec<_> =
        objects.all().into_iter().filter(|object| object.index.is_none()).collect();
    let mut found = Vec::new();
    for object in &tables {
        let table = (object.oid, object.table.name.clone());
        for (name, text) in checks(object.table) {
            let definition = format!("CHECK ({text})");
            let table = table.clone();
            found.push(Constraint { name, kind: 'c', table, parent: None, definition });
        }
        for key in TableNotes::decode(&object.table.note).keys {
            let parent = tables.iter().find(|other| other.table.name == key.parent);
            found.push(Constraint {
                name: key.name.clone(),
                kind: 'f',
                table: table.clone(),
                parent: parent.map(|parent| parent.oid),
                definition: key.definition(),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Constraint {
    /// The value of an item of a query of constraints: `None` if the item is not known.
    pub(super) fn value(&self, text: &str) -> Option<Option<String>> {
        let text = text.strip_prefix("r.").unwrap_or(text);
        Some(Some(match text {
            "pg_get_constraintdef(r.oid, true)" | "pg_get_constraintdef(oid, true)" => {
                self.definition.clone()
            }
            "conrelid::regclass" => reference(&self.table.1),
            "conname" => self.name.clone(),
            "contype" => self.kind.to_string(),
            "conrelid" => self.table.0.to_string(),
            "confrelid" => self.parent.unwrap_or(0).to_string(),
            "conparentid" => "0".to_owned(),
            _ => return None,
        }))
    }
}
