//! Names inside of what is noted with tables: texts that are kept, both ends of foreign keys.
//!
//! Invariants: after a rename every note says the new name, and every check asks for the columns
//! that it asked for before, or the rename is refused.
//! Does not do: names in texts of clients.

use std::collections::BTreeSet;

use rightlink::{AlterTable, CheckSchema, TableInfo};
use sqlparser::tokenizer::Span;

use super::{Definer, named, taken};
use crate::bind::from::check_column_name;
use crate::bind::{Binder, Slot};
use crate::catalog::plain_indexes;
use crate::error::{Result, SqlError, code};
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::names::{bare, beside, function_of_entry, identifier, type_of_entry};
use crate::notes::types::TypeNotes;
use crate::notes::{ColumnNotes, TableNotes};
use crate::parse::{self, Lines};
use crate::plan::Table;
use crate::statistics::store;

impl Definer<'_> {
    /// Changes the texts that a table, a domain or a function keeps: defaults, generated columns,
    /// expressions of indexes, checks.
    pub(super) fn change_texts(
        &mut self,
        info: &TableInfo,
        changed: &dyn Fn(&str) -> Result<String>,
    ) -> Result<()> {
        for column in &info.columns {
            let before = ColumnNotes::decode(&column.note);
            let mut notes = before.clone();
            let computed = notes.computed.as_mut().map(|one| &mut one.text);
            let texts = notes.default.iter_mut().chain(&mut notes.generated).chain(computed);
            for text in texts {
                *text = changed(text)?;
            }
            if notes != before {
                self.note_column(&info.name, &column.name, |kept| {
                    kept.default = notes.default;
                    kept.generated = notes.generated;
                    kept.computed = notes.computed;
                })?;
            }
        }
        if type_of_entry(&info.name).is_some() {
            let mut notes = TypeNotes::decode(&info.note);
            for check in notes.domain.iter_mut().flat_map(|domain| &mut domain.checks) {
                check.text = changed(&check.text)?;
            }
            return Ok(self.txn.alter_table(&info.name, AlterTable::Note(&notes.encode()))?);
        }
        if function_of_entry(&info.name).is_some() {
            return Ok(());
        }
        let mut checks = TableNotes::decode(&info.note).checks;
        for (_, text) in &mut checks {
            *text = changed(text)?;
        }
        self.note(&info.name, |notes| notes.checks = checks)
    }

    pub(super) fn rename_table(&mut self, name: &str, to: &str) -> Result<()> {
        self.refuse_type_name(to)?;
        let table = self.table(name)?;
        let checks = self.renamed_checks(&table, None, to)?;
        let expressions = self.renamed_expressions(&table, None, to)?;
        match self.txn.alter_table(name, AlterTable::Rename(to)) {
            Err(rightlink::Error::AlreadyExists(_)) => named(to, Err(taken()))?,
            result => named(name, result)?,
        }
        self.put_renamed(to, expressions)?;
        self.rename_source(name, to)?;
        self.rename_rows_in_functions(name, to)?;
        for child in &table.notes.children {
            let child = if child == name { to } else { child };
            self.note(child, |notes| {
                for key in notes.keys.iter_mut().filter(|key| key.parent == name) {
                    to.clone_into(&mut key.parent);
                }
            })?;
        }
        for key in &table.notes.keys {
            let parent = if key.parent == name { to } else { &key.parent };
            self.note(parent, |notes| {
                for child in notes.children.iter_mut().filter(|child| *child == name) {
                    to.clone_into(child);
                }
            })?;
        }
        self.put_checks(to, checks)
    }

    pub(super) fn rename_column(&mut self, name: &str, column: &str, to: &str) -> Result<()> {
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        check_column_name(to)?;
        let checks = self.renamed_checks(&table, Some(at), to)?;
        let expressions = self.renamed_expressions(&table, Some(at), to)?;
        match self.txn.alter_table(name, AlterTable::RenameColumn { column, to }) {
            Err(rightlink::Error::Invalid(_) | rightlink::Error::AlreadyExists(_)) => {
                let name = bare(name);
                let message = format!("column \"{to}\" of relation \"{name}\" already exists");
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            result => result?,
        }
        self.put_renamed(name, expressions)?;
        self.rename_source_column(name, column, to)?;
        let replace = |names: &mut Vec<String>| {
            for known in names.iter_mut().filter(|known| *known == column) {
                to.clone_into(known);
            }
        };
        self.note(name, |notes| {
            notes.keys.iter_mut().for_each(|key| replace(&mut key.columns));
        })?;
        for child in &table.notes.children {
            self.note(child, |notes| {
                for key in notes.keys.iter_mut().filter(|key| key.parent == name) {
                    replace(&mut key.parent_columns);
                }
            })?;
        }
        store::change(self.txn, table.info.id, |known| {
            for one in known.columns.iter_mut().filter(|one| one.name == column) {
                to.clone_into(&mut one.name);
            }
        })?;
        self.put_checks(name, checks)
    }

    /// The checks of a table with another name for a column, or for itself where that stands in
    /// front of a column: their texts, and the columns that they ask for.
    fn renamed_checks(
        &mut self,
        table: &Table,
        column: Option<usize>,
        to: &str,
    ) -> Result<Vec<(String, BTreeSet<usize>)>> {
        let mut renamed = Vec::new();
        for (name, text) in &table.notes.checks {
            let (mut tables, lines) = (Tables(self.txn), Lines::default());
            let mut binder = Binder::new(&mut tables, &lines, &[]);
            let condition = binder.check_from(&parse::expression(text)?, table)?;
            let mentions = binder.mentions.iter().filter(|(_, of)| *of == column);
            let places: BTreeSet<Span> = mentions.map(|(place, _)| *place).collect();
            let text =
                replaced(text, &places, &identifier(bare(to))).ok_or_else(|| refused(name, to))?;
            renamed.push((text, columns_of(&condition)));
        }
        Ok(renamed)
    }

    /// The same of the expressions of indexes and of generated columns.
    fn renamed_expressions(
        &mut self,
        table: &Table,
        column: Option<usize>,
        to: &str,
    ) -> Result<Vec<Renamed>> {
        let mut renamed = Vec::new();
        for (at, own) in table.info.columns.iter().enumerate() {
            let notes = &table.column_notes[at];
            let (mut tables, lines) = (Tables(self.txn), Lines::default());
            let mut binder = Binder::new(&mut tables, &lines, &[]);
            let text = match (&notes.computed, &notes.generated) {
                (Some(computed), _) => {
                    binder.index_expression(&parse::expression(&computed.text)?, table)?;
                    &computed.text
                }
                (None, Some(text)) => {
                    let slot = Slot::of_table(table, at);
                    binder.generation(&parse::expression(text)?, table, &slot, &[])?;
                    text
                }
                (None, None) => continue,
            };
            let mentions = binder.mentions.iter().filter(|(_, of)| *of == column);
            let places: BTreeSet<Span> = mentions.map(|(place, _)| *place).collect();
            let text = replaced(text, &places, &identifier(bare(to)));
            let text = text.ok_or_else(|| refused(&own.name, to))?;
            renamed.push(Renamed { column: own.name.clone(), text });
        }
        Ok(renamed)
    }

    /// Notes the expressions of indexes and of generated columns of a table that has its new names.
    fn put_renamed(&mut self, name: &str, expressions: Vec<Renamed>) -> Result<()> {
        for Renamed { column, text } in expressions {
            self.note_column(name, &column, |notes| {
                notes.computed.iter_mut().for_each(|one| one.text.clone_from(&text));
                notes.generated.iter_mut().for_each(|own| own.clone_from(&text));
            })?;
        }
        Ok(())
    }

    /// Notes the checks of a table that has its new names.
    fn put_checks(&mut self, name: &str, checks: Vec<(String, BTreeSet<usize>)>) -> Result<()> {
        let (texts, columns): (Vec<_>, Vec<_>) = checks.into_iter().unzip();
        self.note(name, |notes| {
            for ((_, text), new) in notes.checks.iter_mut().zip(texts) {
                *text = new;
            }
        })?;
        let table = self.table(name)?;
        for ((check, text), columns) in table.notes.checks.iter().zip(columns) {
            let (mut tables, lines) = (Tables(self.txn), Lines::default());
            let mut binder = Binder::new(&mut tables, &lines, &[]);
            let bound = parse::expression(text).and_then(|node| binder.check_from(&node, &table));
            if bound.map_or(true, |condition| columns_of(&condition) != columns) {
                return Err(refused(check, name));
            }
        }
        Ok(())
    }

    pub(super) fn rename_constraint(&mut self, name: &str, old: &str, to: &str) -> Result<()> {
        let table = self.table(name)?;
        self.free_name(&table, to.to_owned(), true)?;
        let plain = plain_indexes(self.txn)?;
        let is_key = |index: &&rightlink::IndexInfo| {
            table.notes.key_kind(index).is_some() && !plain.contains(&index.id)
        };
        let mut unique = table.info.indexes.iter().filter(is_key);
        if let Some(index) = unique.find(|index| bare(&index.name) == old) {
            return match self.txn.rename_index(&index.name, &beside(name, to)) {
                Err(rightlink::Error::AlreadyExists(_)) => named(to, Err(taken())),
                result => Ok(result?),
            };
        }
        if let Some(check) = table.info.checks.iter().find(|check| check.name == old) {
            self.txn.alter_table(name, AlterTable::DropCheck(old))?;
            let renamed = CheckSchema { name: to.to_owned(), predicate: check.predicate.clone() };
            self.txn.alter_table(name, AlterTable::AddCheck(&renamed))?;
        }
        let mut found = table.info.checks.iter().any(|check| check.name == old);
        self.note(name, |notes| {
            let checks = notes.checks.iter_mut().map(|(known, _)| known);
            for known in checks.chain(notes.keys.iter_mut().map(|key| &mut key.name)) {
                if known == old {
                    to.clone_into(known);
                    found = true;
                }
            }
            for (known, _) in notes.of_checks.iter_mut().filter(|(known, _)| known == old) {
                to.clone_into(known);
            }
        })?;
        if found {
            return Ok(());
        }
        let name = bare(name);
        let message = format!("constraint \"{old}\" for table \"{name}\" does not exist");
        Err(SqlError::new(code::UNDEFINED_OBJECT, message))
    }
}

/// The text of the expression of a column with a new name in it.
struct Renamed {
    column: String,
    text: String,
}

/// The error for a check that cannot be said with a new name.
fn refused(check: &str, name: &str) -> SqlError {
    SqlError::unsupported(format!(
        "a name that check \"{check}\" of \"{}\" cannot be said with",
        bare(name)
    ))
}

/// `text` with `new` in these places.
pub(super) fn replaced(text: &str, places: &BTreeSet<Span>, new: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for place in places {
        let (start, end) = (parse::offset(text, place.start)?, parse::offset(text, place.end)?);
        out.push_str(text.get(from..start)?);
        out.push_str(new);
        from = end;
    }
    out.push_str(text.get(from..)?);
    Some(out)
}

/// The columns that a condition names.
fn columns_of(condition: &Expr) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    condition.walk(&mut |expr| {
        if let Expr::Column(at) = expr {
            columns.insert(*at);
        }
    });
    columns
}

#[cfg(test)]
mod tests {
    use sqlparser::tokenizer::Location;

    use super::*;

    #[test]
    fn names_are_replaced_where_they_stand() {
        let place = |line, from, to| Span::new(Location::new(line, from), Location::new(line, to));
        let places = BTreeSet::from([place(1, 1, 2), place(2, 3, 6), place(2, 9, 12)]);
        let text = "a > 'ä\nb'\"ä\" = \"a\"";
        assert_eq!(replaced(text, &places, "x").unwrap(), "x > 'ä\nb'x = x");
        assert_eq!(replaced("a", &BTreeSet::from([place(7, 1, 2)]), "x"), None);
    }
}
