//! Schemas made, dropped and renamed.
//!
//! Invariants: a schema that is dropped or renamed is locked before anybody looks what is in it, so
//! that nothing comes into it after the look. Does not do: names of schemas in texts of clients.

use rightlink::{AlterTable, Busy, Error, LockMode, TableSchema, Type};
use sqlparser::ast::Expr;

use super::{Definer, named};
use crate::error::{Result, SqlError, code};
use crate::names;
use crate::names::{
    CATALOGS, PUBLIC, bare, beside, function_of_entry, mark, reference, schema_of, stored,
};
use crate::names::{MATERIALIZED_VIEW, VIEW};
use crate::notes::{ColumnNotes, TableNotes};
use crate::parse;
use crate::schemas;
use crate::user_types::functions::load;

/// The only column of a table that stands for a schema: a table has one.
const COLUMN: &str = "schema";

impl Definer<'_> {
    pub(super) fn create_schema(&mut self, name: &str, if_not_exists: bool) -> Result<()> {
        let message = format!("schema \"{name}\" already exists");
        let taken = match [PUBLIC].iter().chain(&CATALOGS).any(|known| *known == name) {
            true => true,
            false => {
                let mut mark = TableSchema::new(mark(name)).nullable(COLUMN, Type::Bool);
                mark.note = TableNotes { owner: self.context.owner, ..Default::default() }.encode();
                if if_not_exists && schemas::exists(self.txn, name)? {
                    true
                } else {
                    match self.txn.create_table(&mark) {
                        Err(Error::AlreadyExists(_)) => true,
                        made => made.map(|()| false)?,
                    }
                }
            }
        };
        match (taken, if_not_exists) {
            (false, _) => Ok(()),
            (true, true) => {
                self.notices.push(format!("{message}, skipping"));
                Ok(())
            }
            (true, false) => Err(SqlError::new(code::DUPLICATE_SCHEMA, message)),
        }
    }

    pub(super) fn drop_schemas(
        &mut self,
        names: &[String],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut there = Vec::with_capacity(names.len());
        for name in names {
            refuse_own(name, "drop")?;
            match schemas::lock(self.txn, name, LockMode::Exclusive) {
                Err(error) if error.sqlstate == code::INVALID_SCHEMA && if_exists => {
                    self.notices.push(format!("{}, skipping", error.message));
                }
                other => {
                    other?;
                    there.push(name);
                }
            }
        }
        let within = |stored: &String| {
            names::is_shown(stored) && there.iter().any(|name| *name == schema_of(stored))
        };
        let mut tables = self.txn.catalog().table_names()?;
        tables.retain(within);
        let mut sequences = self.txn.catalog().sequence_names()?;
        sequences.retain(within);
        // Those that columns own go with their tables.
        let mut owned = Vec::new();
        for table in &tables {
            owned.extend(self.owned_by(table)?);
        }
        sequences.retain(|sequence| !owned.contains(sequence));
        let path = self.context.settings.path();
        let mut kinds = Vec::with_capacity(tables.len());
        for table in &tables {
            kinds.push(self.kind_of(table)?);
        }
        let types = self.types_within(&there)?;
        let functions = self.functions_within(&there)?;
        let mut signatures = Vec::with_capacity(functions.len());
        for entry in &functions {
            let found = load(self.txn, entry)?.expect("it is there");
            let signature = found.signature();
            signatures.push(stored(schema_of(&found.name), &signature));
        }
        let of_tables = kinds.iter().copied().zip(&tables);
        let all: Vec<(&str, &String)> = of_tables
            .chain(sequences.iter().map(|name| ("sequence", name)))
            .chain(types.iter().map(|name| ("type", name)))
            .chain(signatures.iter().map(|name| ("function", name)))
            .collect();
        if !cascade && !all.is_empty() {
            let shown = |(kind, name): &(&str, &String)| {
                let schema = schema_of(name);
                format!("{kind} {} depends on schema {schema}", path.shown(name))
            };
            let what = match there.as_slice() {
                [only] => format!("schema {only}"),
                _ => "desired object(s)".to_owned(),
            };
            let depend = if there.len() == 1 { "it" } else { "them" };
            let message = format!("cannot drop {what} because other objects depend on {depend}");
            let detail: Vec<String> = all.iter().map(shown).collect();
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(detail.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match all.as_slice() {
            [] => {}
            [(kind, name)] => {
                self.notices.push(format!("drop cascades to {kind} {}", path.shown(name)));
            }
            more => self.notices.push(format!("drop cascades to {} other objects", more.len())),
        }
        for (kind, table) in kinds.into_iter().zip(&tables) {
            match kind {
                VIEW | MATERIALIZED_VIEW => self.drop_view(table, kind, &tables, true)?,
                _ => self.drop_table(table, &tables, true)?,
            }
        }
        for sequence in &sequences {
            self.drop_sequence(sequence, true)?;
        }
        for entry in &functions {
            // Those that need the rows of a table are gone with it.
            if self.txn.catalog().has_relation(entry)? {
                self.drop_function(entry, true)?;
            }
        }
        for name in &types {
            self.drop_type(name, &types, true)?;
        }
        for name in there {
            self.move_schema_comment(name, None)?;
            self.txn.drop_table(&mark(name))?;
        }
        Ok(())
    }

    /// Gives a schema another name, and everything in it.
    pub(super) fn rename_schema(&mut self, name: &str, to: &str) -> Result<()> {
        refuse_own(name, "rename")?;
        schemas::lock(self.txn, name, LockMode::Exclusive)?;
        let taken = || {
            let message = format!("schema \"{to}\" already exists");
            SqlError::new(code::DUPLICATE_SCHEMA, message)
        };
        if to == PUBLIC || CATALOGS.contains(&to) {
            return Err(taken());
        }
        let within = |stored: &String| names::is_shown(stored) && schema_of(stored) == name;
        let mut tables = self.txn.catalog().table_names()?;
        tables.retain(within);
        match self.txn.alter_table(&mark(name), AlterTable::Rename(&mark(to))) {
            Err(Error::AlreadyExists(_)) => return Err(taken()),
            other => other?,
        }
        for table in &tables {
            self.put_into(table, to)?;
        }
        let mut sequences = self.txn.catalog().sequence_names()?;
        sequences.retain(within);
        for sequence in &sequences {
            self.rename_sequence(sequence, &stored(to, bare(sequence)))?;
        }
        for known in self.types_within(&[&name.to_owned()])? {
            self.rename_type(&known, &stored(to, bare(&known)))?;
        }
        for entry in self.functions_within(&[&name.to_owned()])? {
            let known = function_of_entry(&entry).unwrap_or_default();
            self.rename_function(&entry, &stored(to, bare(&known)))?;
        }
        self.move_schema_comment(name, Some(to))
    }

    /// ALTER TABLE SET SCHEMA
    pub(super) fn move_table(&mut self, name: &str, if_exists: bool, to: &str) -> Result<()> {
        if if_exists && !self.txn.catalog().has_relation(name)? {
            self.notices.push(format!("relation \"{name}\" does not exist, skipping"));
            return Ok(());
        }
        if self.txn.catalog().sequences()?.iter().any(|known| known.schema.name == name) {
            return self.move_sequence(name, to, if_exists);
        }
        if CATALOGS.contains(&to) {
            return Err(SqlError::unsupported(format!("a table in the schema \"{to}\"")));
        }
        schemas::lock(self.txn, to, LockMode::Access)?;
        if schema_of(name).is_empty() {
            return Err(schemas::no_table(name));
        }
        schemas::lock(self.txn, schema_of(name), LockMode::Access)?;
        named(name, self.txn.lock_table(name, LockMode::Exclusive, Busy::Wait))?;
        if schema_of(name) == to {
            return Ok(());
        }
        self.put_into(name, to)
    }

    /// The sequences that are noted with a table's columns.
    fn owned_by(&mut self, table: &str) -> Result<Vec<String>> {
        let info = named(table, self.txn.catalog().definition(table))?;
        let notes = info.columns.iter().map(|column| ColumnNotes::decode(&column.note));
        Ok(notes.flat_map(|notes| notes.owned).collect())
    }

    /// Gives a table, its indexes and its columns' sequences the names that they have in another
    /// schema.
    fn put_into(&mut self, table: &str, schema: &str) -> Result<()> {
        let info = named(table, self.txn.catalog().definition(table))?;
        let own = info.columns.iter().filter_map(|column| column.identity.as_ref());
        let mut sequences: Vec<String> = own.map(|identity| identity.sequence.clone()).collect();
        sequences.extend(self.owned_by(table)?);
        let moved = stored(schema, bare(table));
        if schema == PUBLIC {
            schemas::refuse(&moved)?;
        }
        self.rename_table(table, &moved)?;
        for index in &info.indexes {
            let own = beside(&moved, bare(&index.name));
            match self.txn.rename_index(&index.name, &own) {
                Err(Error::AlreadyExists(_)) => named(&own, Err(super::taken()))?,
                other => other?,
            }
        }
        for sequence in &sequences {
            self.rename_sequence(sequence, &beside(&moved, bare(sequence)))?;
        }
        Ok(())
    }

    /// An expression as it is kept: it names sequences and types with their schemas.
    pub(super) fn settled(&mut self, node: &Expr) -> Result<Expr> {
        let path = self.context.settings.path();
        let mut text = node.to_string();
        self.settle_types(&mut text)?;
        self.settle_functions(&mut text)?;
        if *path == names::SearchPath::default() {
            return parse::expression(&text);
        }
        let text = parse::with_sequences(&text, |name| {
            let found = schemas::find(self.txn, &path, &schemas::parts_of(name)?)?.name;
            if !self.txn.catalog().has_relation(&found)? {
                return Err(schemas::no_table(&found));
            }
            Ok((schema_of(&found) != PUBLIC).then(|| reference(&found)))
        })?;
        parse::expression(&text)
    }
}

/// A condition without parentheses around all of it: the text of a check has its own.
pub(super) fn without_parentheses(node: &Expr) -> &Expr {
    let mut node = node;
    while let Expr::Nested(inner) = node {
        node = inner;
    }
    node
}

/// Refuses to change the schemas that are always there.
fn refuse_own(name: &str, verb: &str) -> Result<()> {
    if CATALOGS.contains(&name) {
        let message =
            format!("cannot {verb} schema {name} because it is required by the database system");
        return Err(SqlError::new(code::DEPENDENT_OBJECTS, message));
    }
    if name == PUBLIC {
        return Err(SqlError::unsupported("a database without the schema \"public\""));
    }
    Ok(())
}
