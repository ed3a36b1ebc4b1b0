//! COMMENT ON.
//!
//! Comments on indexes and constraints are noted with their table, those on indexes by number, so
//! that they follow renames; those of what is gone go when the table's notes are next written.
//!
//! Does not do: showing them (`catalog`).

use rightlink::{
    Error, IndexInfo, LockMode, SequenceChange, SequenceDefinition, SequencePosition,
    SequenceSchema,
};

use super::{Definer, named};
use crate::bind::ddl::Commented;
use crate::catalog::{plain_indexes, schema_comment_key};
use crate::error::{Result, SqlError, code};
use crate::names::MATERIALIZED_VIEW;
use crate::names::{CATALOGS, PUBLIC, bare};
use crate::notes::SequenceNotes;
use crate::schemas;
use crate::schemas::no_table;

impl Definer<'_> {
    pub(super) fn comment(&mut self, on: &Commented, text: Option<String>) -> Result<()> {
        match on {
            Commented::Table(table) => {
                self.check_kind(table, "table")?;
                self.note(table, |notes| notes.comment = text)
            }
            Commented::View(view) => {
                self.check_kind(view, "view")?;
                self.note(view, |notes| notes.comment = text)
            }
            Commented::MaterializedView(view) => {
                self.check_kind(view, MATERIALIZED_VIEW)?;
                self.note(view, |notes| notes.comment = text)
            }
            Commented::Column(table, column) => {
                self.note_column(table, column, |notes| notes.comment = text)
            }
            Commented::Index(index) => self.comment_index(index, text),
            Commented::Sequence(sequence) => self.comment_sequence(sequence, text),
            Commented::Type(name) => self.comment_type(name, text),
            Commented::Constraint(table, name) => self.comment_constraint(table, name, text),
            Commented::Database(name) => {
                if **name != *self.context.database {
                    let message = format!("database \"{name}\" does not exist");
                    return Err(SqlError::new(code::INVALID_DATABASE, message));
                }
                Ok(self.txn.catalog().keep("comment on database", text.as_deref())?)
            }
            Commented::Schema(name) if CATALOGS.contains(&name.as_str()) => {
                Err(SqlError::unsupported(format!("a comment on schema \"{name}\"")))
            }
            Commented::Schema(name) => {
                schemas::lock(self.txn, name, LockMode::Access)?;
                // What public has to begin with stays away when it is taken away.
                let text = text.or_else(|| (name == PUBLIC).then(String::new));
                Ok(self.txn.catalog().keep(&schema_comment_key(name), text.as_deref())?)
            }
        }
    }

    /// Gives the comment on a schema to another, or takes it away.
    pub(super) fn move_schema_comment(&mut self, schema: &str, to: Option<&str>) -> Result<()> {
        let key = schema_comment_key(schema);
        let Some(text) = self.txn.catalog().kept(&key)? else { return Ok(()) };
        self.txn.catalog().keep(&key, None)?;
        match to {
            Some(to) => Ok(self.txn.catalog().keep(&schema_comment_key(to), Some(&text))?),
            None => Ok(()),
        }
    }

    /// Fails if `name` is a relation of another kind than `wanted`.
    fn check_kind(&mut self, name: &str, wanted: &str) -> Result<()> {
        if !self.txn.catalog().has_relation(name)? {
            return Err(no_table(name));
        }
        let kind = self.kind_of(name)?;
        if kind == wanted {
            return Ok(());
        }
        let article = if wanted == "index" { "an" } else { "a" };
        let message = format!("\"{}\" is not {article} {wanted}", bare(name));
        Err(SqlError::new(code::WRONG_OBJECT_TYPE, message))
    }

    fn comment_index(&mut self, index: &str, text: Option<String>) -> Result<()> {
        self.check_kind(index, "index")?;
        let table = self.txn.catalog().table_of_index(index)?;
        let info = named(&table, self.txn.catalog().describe(&table))?;
        let found = info.indexes.iter().find(|known| known.name == index);
        let id = found.ok_or_else(|| no_table(index))?.id;
        self.note(&table, |notes| put(&mut notes.of_indexes, id, text))
    }

    fn comment_constraint(&mut self, table: &str, name: &str, text: Option<String>) -> Result<()> {
        let known = self.table(table)?;
        let plain = plain_indexes(self.txn)?;
        let is_key =
            |index: &IndexInfo| known.notes.key_kind(index).is_some() && !plain.contains(&index.id);
        let is_it = |index: &&IndexInfo| bare(&index.name) == name && is_key(index);
        let index = known.info.indexes.iter().find(is_it);
        if let Some(index) = index {
            return self.note(table, |notes| put(&mut notes.of_keys, index.id, text));
        }
        let there = known.notes.checks.iter().any(|(check, _)| check == name)
            || known.info.checks.iter().any(|check| check.name == name)
            || known.notes.keys.iter().any(|key| key.name == name);
        if !there {
            let table = bare(table);
            let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        self.note(table, |notes| put(&mut notes.of_checks, name.to_owned(), text))
    }

    fn comment_sequence(&mut self, name: &str, text: Option<String>) -> Result<()> {
        let mut change = |known: &SequenceDefinition, at: SequencePosition| {
            let mut notes = SequenceNotes::decode(&known.schema.note);
            notes.comment.clone_from(&text);
            Ok((SequenceSchema { note: notes.encode(), ..known.schema.clone() }, at))
        };
        match self.txn.alter_sequence(name, SequenceChange::Redefine(&mut change)) {
            Err(Error::NotFound(_)) => {
                self.check_kind(name, "sequence")?;
                Err(no_table(name))
            }
            other => named(name, other),
        }
    }
}

/// Puts a comment into a list, or takes it out.
fn put<K: PartialEq>(list: &mut Vec<(K, String)>, key: K, text: Option<String>) {
    list.retain(|(known, _)| *known != key);
    list.extend(text.map(|text| (key, text)));
}
