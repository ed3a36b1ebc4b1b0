//! Tables as a transaction sees them, for the binder.
//!
//! Does not do: keeping them; the store does.

use std::sync::Arc;

use rightlink::Transaction;

use crate::bind::Catalog;
use crate::bind::{generated, rules};
use crate::error::{Result, SqlError};
use crate::expr::sequences::not_a_sequence;
use crate::names;
use crate::names::{SearchPath, identifier};
use crate::notes::{ColumnNotes, MadeTypes, TableNotes};
use crate::parse::identifiers::is_of_rows;
use crate::plan::Table;
use crate::schemas::{self, Found, no_table};
use crate::statistics::{Statistics, store};
use crate::types::collate;
use crate::user_types::functions::{self, UserFunction};
use crate::user_types::{self, UserType};

/// Tables as a transaction sees them; a name without a schema is one of `public`.
pub(crate) struct Tables<'t>(pub(crate) &'t mut Transaction);

/// The same, with names of clients looked for along a path.
pub(crate) struct Along<'t>(pub(crate) Tables<'t>, pub(crate) &'t SearchPath);

impl Catalog for Along<'_> {
    fn table(&mut self, name: &str) -> Result<Arc<Table>> {
        self.0.table(name)
    }

    fn find(&mut self, parts: &[String]) -> Result<Found> {
        schemas::find(self.0.0, self.1, parts)
    }

    fn shown(&mut self, name: &str) -> Result<Option<String>> {
        if !self.0.0.catalog().has_relation(name)? {
            return Ok(None);
        }
        let bare = names::bare(name);
        let found = schemas::find(self.0.0, self.1, &[bare.to_owned()])?;
        Ok(Some(match found.name == name {
            true => identifier(bare),
            false => names::full_reference(name),
        }))
    }

    fn type_named(&mut self, parts: &[String]) -> Result<Option<UserType>> {
        user_types::find(self.0.0, self.1, parts)
    }

    fn functions_named(&mut self, parts: &[String]) -> Result<Vec<UserFunction>> {
        functions::find(self.0.0, self.1, parts)
    }

    fn function(&mut self, entry: &str) -> Result<Option<UserFunction>> {
        self.0.function(entry)
    }

    fn stored_type(&mut self, name: &str) -> Result<Option<UserType>> {
        self.0.stored_type(name)
    }

    fn sequence(&mut self, name: &str) -> Result<u32> {
        self.0.sequence(name)
    }

    fn schemas(&mut self) -> Result<Vec<String>> {
        let mut there = Vec::new();
        for schema in self.1.all() {
            if schemas::exists(self.0.0, schema)? {
                there.push(schema.clone());
            }
        }
        Ok(there)
    }

    fn collation(&mut self, name: &str) -> Result<Option<rightlink::Collation>> {
        self.0.collation(name)
    }

    fn statistics(&mut self, table: &Table) -> Result<Option<Arc<Statistics>>> {
        self.0.statistics(table)
    }
}

impl Catalog for Tables<'_> {
    fn find(&mut self, parts: &[String]) -> Result<Found> {
        schemas::find_kept(parts)
    }

    fn shown(&mut self, name: &str) -> Result<Option<String>> {
        Along(Tables(self.0), &SearchPath::default()).shown(name)
    }

    fn type_named(&mut self, parts: &[String]) -> Result<Option<UserType>> {
        let Some(name) = user_types::kept_name(parts) else { return Ok(None) };
        let found = self.stored_type(&name)?;
        // Nothing notes that a text which is kept needs the table.
        if found.as_ref().is_some_and(|found| is_of_rows(found.declared.ty)) {
            let what = format!("the row type of \"{}\" in such a text", names::said(&name));
            return Err(SqlError::unsupported(what));
        }
        Ok(found)
    }

    fn functions_named(&mut self, parts: &[String]) -> Result<Vec<UserFunction>> {
        match user_types::kept_name(parts) {
            Some(name) => functions::load_all(self.0, &name),
            None => Ok(Vec::new()),
        }
    }

    fn function(&mut self, entry: &str) -> Result<Option<UserFunction>> {
        functions::load(self.0, entry)
    }

    fn stored_type(&mut self, name: &str) -> Result<Option<UserType>> {
        user_types::load(self.0, name)
    }

    fn sequence(&mut self, name: &str) -> Result<u32> {
        let mut all = self.0.catalog().sequences()?.into_iter();
        match all.find(|known| known.schema.name == name) {
            Some(known) => Ok(known.id),
            None if self.0.catalog().has_relation(name)? => Err(not_a_sequence(name)),
            None => Err(no_table(name)),
        }
    }

    fn schemas(&mut self) -> Result<Vec<String>> {
        Ok(vec![names::PUBLIC.to_owned()])
    }

    fn table(&mut self, name: &str) -> Result<Arc<Table>> {
        let missing = |error: rightlink::Error| match error {
            rightlink::Error::NotFound(_) => schemas::no_table(name),
            other => other.into(),
        };
        let version = self.0.catalog().version(name).map_err(missing)?;
        let info = self.0.catalog().describe(name).map_err(missing)?;
        let notes = TableNotes::decode(&info.note);
        let column_notes: Vec<ColumnNotes> =
            info.columns.iter().map(|column| ColumnNotes::decode(&column.note)).collect();
        let (mut made, mut used) = (MadeTypes::default(), Vec::new());
        for own in column_notes.iter().filter_map(|notes| notes.made.as_ref()) {
            if made.contains_key(&own.name) {
                continue;
            }
            let found = self.stored_type(&own.name)?;
            let found = found.ok_or_else(|| user_types::no_type(&own.name))?;
            made.insert(own.name.clone(), found.declared.ty);
            used.extend(found.used);
        }
        for domain in column_notes.iter().filter_map(|notes| notes.domain.as_ref()) {
            let found = self.stored_type(domain)?.ok_or_else(|| user_types::no_type(domain))?;
            used.extend(found.used);
        }
        let columns = info.columns.iter().zip(&column_notes);
        let types = columns.map(|(column, notes)| notes.type_of(column.kind, &made)).collect();
        let (computed, generated) = (Vec::new(), Vec::new());
        let mut table =
            Table { info, version, types, notes, column_notes, used, computed, generated };
        let (computed, by_computed) = rules::computed(self, &table)?;
        let (generated, by_generated) = generated::generated(self, &table)?;
        table.used.extend(by_computed.into_iter().chain(by_generated));
        (table.computed, table.generated) = (computed, generated);
        Ok(Arc::new(table))
    }

    fn collation(&mut self, name: &str) -> Result<Option<rightlink::Collation>> {
        if let Ok(known) = collate::built_in(name) {
            return Ok(known);
        }
        let found = self.0.catalog().collation(name)?;
        found.map(Some).ok_or_else(|| collate::no_collation(name))
    }

    fn statistics(&mut self, table: &Table) -> Result<Option<Arc<Statistics>>> {
        let known = store::load(self.0, table.info.id)?;
        // Of an empty table they say nothing about what will be in it.
        Ok(known.filter(|known| known.rows > 0.0))
    }
}
