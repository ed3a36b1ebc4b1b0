//! CREATE, ALTER and DROP SEQUENCE, and what sequences belong to.
//!
//! A sequence that is OWNED BY a column is noted with the column, so that it follows the column's
//! and the table's names; those of serial and identity columns are the store's.
//!
//! Invariants: a sequence belongs to one column at most, and goes with it.
//! Does not do: numbers (`expr::sequences`); what options mean together (`bind::ddl::sequence`).

use rightlink::{Error, LockMode, SequenceChange, SequenceDefinition, SequencePosition, TableInfo};

use super::constraints::depends;
use super::readers::Needed;

use super::{Definer, named};
use crate::bind::Binder;
use crate::bind::ddl::sequence::{altered, check, made};
use crate::error::{Result, SqlError, code};
use crate::exec::failure::{carry, unless};
use crate::exec::tables::Tables;
use crate::expr::sequences::not_a_sequence;
use crate::names;
use crate::names::{CATALOGS, PUBLIC, bare, reference, said, schema_of};
use crate::notes::{ColumnNotes, SequenceNotes, TableNotes};
use crate::parse::utility::sequence::SequenceOptions;
use crate::parse::{self, Lines};
use crate::schemas;
use crate::schemas::no_table;
use crate::types::SqlType;

/// A text that is kept, asking the sequence `to` where it asks `name`.
fn asking(text: &str, name: &str, to: &str) -> Result<String> {
    parse::with_sequences(text, |asked| {
        let found = schemas::find_kept(&schemas::parts_of(asked)?)?.name;
        Ok((found == name).then(|| reference(to)))
    })
}

impl Definer<'_> {
    pub(super) fn create_sequence(
        &mut self,
        name: &str,
        options: &SequenceOptions,
        if_not_exists: bool,
    ) -> Result<()> {
        let mut schema = made(name, SqlType::Int8, options)?;
        let notes =
            SequenceNotes { owner: self.context.owner, ..SequenceNotes::decode(&schema.note) };
        schema.note = notes.encode();
        match self.txn.create_sequence(&schema) {
            Err(Error::AlreadyExists(_)) if if_not_exists => {
                self.notices.push(format!("relation \"{}\" already exists, skipping", bare(name)));
                return Ok(());
            }
            result => named(name, result)?,
        }
        match &options.owner {
            Some(Some(column)) => self.give(name, column),
            _ => Ok(()),
        }
    }

    pub(super) fn alter_sequence(
        &mut self,
        name: &str,
        options: &SequenceOptions,
        if_exists: bool,
    ) -> Result<()> {
        let mut failed = None;
        let mut change = |known: &SequenceDefinition, at: SequencePosition| {
            let schema = altered(known.schema.clone(), SequenceNotes::type_of(known), options);
            let changed = schema.and_then(|schema| {
                let at = match options.restart {
                    Some(to) => {
                        let value = to.unwrap_or(schema.start);
                        SequencePosition { value, drawn: false }
                    }
                    None => at,
                };
                check("RESTART", at.value, &schema)?;
                Ok((schema, at))
            });
            carry(&mut failed, changed)
        };
        let done = self.txn.alter_sequence(name, SequenceChange::Redefine(&mut change));
        match (failed, done) {
            (None, Err(Error::NotFound(_))) if self.txn.catalog().has_relation(name)? => {
                return Err(not_a_sequence(name));
            }
            (None, Err(Error::NotFound(_))) if if_exists => {
                self.notices.push(format!("relation \"{}\" does not exist, skipping", said(name)));
                return Ok(());
            }
            (None, Err(Error::NotFound(_))) => return Err(no_table(name)),
            (None, Err(Error::Invalid(what))) => {
                return Err(SqlError::new(code::INVALID_PARAMETER, what));
            }
            (failed, done) => unless(failed, done)?,
        }
        let Some(owner) = &options.owner else { return Ok(()) };
        let known =
            self.txn.catalog().sequences()?.into_iter().find(|known| known.schema.name == name);
        if let Some(column) = known.and_then(|known| known.owner) {
            return self.keep_owner(name, (&column.table, &column.column), owner.as_deref());
        }
        self.disown(name)?;
        match owner {
            Some(column) => self.give(name, column),
            None => Ok(()),
        }
    }

    /// The sequence of a serial or identity column stays what it is.
    fn keep_owner(
        &mut self,
        name: &str,
        (table, column): (&str, &str),
        wanted: Option<&[String]>,
    ) -> Result<()> {
        if let Some((last, first)) = wanted.and_then(<[String]>::split_last)
            && last == column
            && first == [table]
        {
            return Ok(());
        }
        let info = named(table, self.txn.catalog().describe(table))?;
        let found = info.columns.iter().find(|known| known.name == column);
        if found.is_some_and(|found| ColumnNotes::decode(&found.note).serial) {
            return Err(SqlError::unsupported("another owner for the sequence of a serial column"));
        }
        let message = "cannot change ownership of identity sequence";
        Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(format!(
            "Sequence \"{}\" is linked to table \"{}\".",
            bare(name),
            bare(table)
        )))
    }

    /// Notes with a column that it owns a sequence, which nobody does.
    fn give(&mut self, name: &str, owner: &[String]) -> Result<()> {
        let [table, column] = owner else { unreachable!("an owner is a table and a column") };
        let is_other = |known: &SequenceDefinition| known.schema.name == *table;
        match self.txn.catalog().describe(table) {
            Err(Error::NotFound(_))
                if self.txn.catalog().table_of_index(table).is_ok()
                    || self.txn.catalog().sequences()?.iter().any(is_other) =>
            {
                let message = format!("sequence cannot be owned by relation \"{}\"", bare(table));
                return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
            }
            found => named(table, found)?,
        };
        self.refuse_view(table, "sequence cannot be owned by relation")?;
        if schema_of(table) != schema_of(name) {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(code::NOT_IN_STATE, message));
        }
        self.note_column(table, column, |notes| notes.owned.push(name.to_owned()))
    }

    /// All tables. No other transaction changes one until this one ends.
    fn locked_tables(&mut self) -> Result<Vec<TableInfo>> {
        let mut infos = Vec::new();
        for name in self.txn.catalog().table_names()? {
            match self.txn.catalog().definition(&name) {
                Err(Error::NotFound(_)) => {}
                info => infos.push(info?),
            }
        }
        Ok(infos)
    }

    /// Takes a sequence from the column that owns it, if any does.
    pub(super) fn disown(&mut self, name: &str) -> Result<()> {
        for info in self.locked_tables()? {
            for column in &info.columns {
                if ColumnNotes::decode(&column.note).owned.iter().any(|owned| owned == name) {
                    self.note_column(&info.name, &column.name, |notes| {
                        notes.owned.retain(|owned| owned != name);
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Drops sequences whose owner is gone, which `what` says. Defaults of tables that are not
    /// `also` dropped go with them, or keep them.
    pub(super) fn drop_owned(
        &mut self,
        sequences: &[String],
        (what, also): (&str, &[String]),
        cascade: bool,
    ) -> Result<()> {
        for name in sequences {
            self.drop_dependents(Needed::Sequence(name), also, cascade)?;
            // From here on nobody can make a default of it.
            self.txn.drop_sequence(name)?;
            for (table, column) in self.defaults_by(name)? {
                if also.contains(&table) {
                    continue;
                }
                let default = format!("default value for column {column} of table {table}");
                if !cascade {
                    return Err(depends(what, &format!("{default} depends on sequence {name}")));
                }
                self.notices.push(format!("drop cascades to {default}"));
                self.set_default(&table, &column, None)?;
            }
        }
        Ok(())
    }

    /// Drops a sequence of no column. Defaults that ask it go with it, or keep it.
    pub(super) fn drop_sequence(&mut self, name: &str, cascade: bool) -> Result<()> {
        if self.kind_of(name)? == "sequence" {
            self.drop_dependents(Needed::Sequence(name), &[], cascade)?;
        }
        match self.txn.drop_sequence(name) {
            Err(Error::Invalid(_)) => {
                let message =
                    format!("cannot drop sequence {name} because a column of a table requires it");
                return Err(SqlError::new(code::DEPENDENT_OBJECTS, message));
            }
            other => other?,
        }
        // From here on nobody can make a default of it.
        for (table, column) in self.defaults_by(name)? {
            let default = format!("default value for column {column} of table {table}");
            if !cascade {
                let why = format!("{default} depends on sequence {name}");
                return Err(depends(&format!("sequence {name}"), &why));
            }
            self.notices.push(format!("drop cascades to {default}"));
            self.set_default(&table, &column, None)?;
        }
        self.disown(name)
    }

    /// The sequence called `name`; `None` if it is not there and need not be.
    fn known_sequence(
        &mut self,
        name: &str,
        if_exists: bool,
    ) -> Result<Option<SequenceDefinition>> {
        let found =
            self.txn.catalog().sequences()?.into_iter().find(|known| known.schema.name == name);
        if found.is_some() {
            return Ok(found);
        }
        if self.txn.catalog().has_relation(name)? {
            return Err(not_a_sequence(name));
        }
        if if_exists {
            self.notices.push(format!("relation \"{}\" does not exist, skipping", said(name)));
            return Ok(None);
        }
        Err(no_table(name))
    }

    /// ALTER SEQUENCE RENAME
    pub(super) fn name_sequence(&mut self, name: &str, to: &str, if_exists: bool) -> Result<()> {
        if self.known_sequence(name, if_exists)?.is_none() {
            return Ok(());
        }
        self.rename_sequence(name, to)
    }

    /// ALTER SEQUENCE SET SCHEMA
    pub(super) fn move_sequence(&mut self, name: &str, to: &str, if_exists: bool) -> Result<()> {
        let Some(known) = self.known_sequence(name, if_exists)? else { return Ok(()) };
        if CATALOGS.contains(&to) {
            return Err(SqlError::unsupported(format!("a sequence in the schema \"{to}\"")));
        }
        schemas::lock(self.txn, to, LockMode::Access)?;
        schemas::lock(self.txn, schema_of(name), LockMode::Access)?;
        let noted = self.locked_tables()?.into_iter().find(|info| {
            let notes = info.columns.iter().map(|column| ColumnNotes::decode(&column.note));
            notes.flat_map(|notes| notes.owned).any(|owned| owned == name)
        });
        let owner = known.owner.map(|owner| owner.table).or(noted.map(|info| info.schema.name));
        if let Some(table) = owner {
            let message = "cannot move an owned sequence into another schema";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(format!(
                "Sequence \"{}\" is linked to table \"{}\".",
                bare(name),
                bare(&table)
            )));
        }
        if schema_of(name) == to {
            return Ok(());
        }
        let moved = names::stored(to, bare(name));
        if to == PUBLIC {
            schemas::refuse(&moved)?;
        }
        self.rename_sequence(name, &moved)
    }

    /// Gives a sequence another name, also where it is kept: with the column that owns it and in
    /// defaults and checks that ask it.
    pub(super) fn rename_sequence(&mut self, name: &str, to: &str) -> Result<()> {
        match self.txn.alter_sequence(name, SequenceChange::Rename(to)) {
            Err(error @ Error::AlreadyExists(_)) => named(to, Err(error))?,
            other => named(name, other)?,
        }
        self.rename_source(name, to)?;
        for info in self.locked_tables()? {
            for column in &info.columns {
                let notes = ColumnNotes::decode(&column.note);
                let default = notes.default.map(|text| asking(&text, name, to)).transpose()?;
                self.note_column(&info.name, &column.name, |notes| {
                    notes.default = default;
                    for owned in notes.owned.iter_mut().filter(|owned| *owned == name) {
                        to.clone_into(owned);
                    }
                })?;
            }
            let mut checks = TableNotes::decode(&info.note).checks;
            for (_, text) in &mut checks {
                *text = asking(text, name, to)?;
            }
            self.note(&info.name, |notes| notes.checks = checks)?;
        }
        Ok(())
    }

    /// Tables and columns whose defaults ask the sequence called `name`.
    fn defaults_by(&mut self, name: &str) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        for info in self.locked_tables()? {
            for (at, column) in info.columns.iter().enumerate() {
                let text = ColumnNotes::decode(&column.note).default.unwrap_or_default();
                if !text.to_lowercase().contains("val") {
                    continue;
                }
                let table = self.table(&info.name)?;
                let (mut tables, lines) = (Tables(self.txn), Lines::default());
                let mut binder = Binder::new(&mut tables, &lines, &[]);
                let bound = binder.default_of(&table, at);
                if bound.is_ok() && binder.sequences.iter().any(|asked| asked == name) {
                    found.push((info.name.clone(), column.name.clone()));
                }
            }
        }
        Ok(found)
    }

    /// Lets the sequences that a table's columns own begin again.
    pub(super) fn restart_owned(&mut self, table: &str) -> Result<()> {
        let info = named(table, self.txn.catalog().describe(table))?;
        for column in &info.columns {
            for name in ColumnNotes::decode(&column.note).owned {
                self.txn.alter_sequence(&name, SequenceChange::Restart(None))?;
            }
        }
        Ok(())
    }
}
