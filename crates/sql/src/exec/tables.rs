//! Tables as a transaction sees them, for the binder.
//!
//! Does not do: keeping them; the store does.

use std::sync::Arc;

use rightlink::Transaction;

use crate::bind::{Catalog, collate};
use crate::error::Result;
use crate::exec::ddl;
use crate::plan::Table;
use crate::plan::notes::{ColumnNotes, TableNotes};
use crate::statistics::{Statistics, store};
use crate::types::SqlType;
use crate::types::declared::Modifier;

/// Tables as a transaction sees them.
pub(crate) struct Tables<'t>(pub(crate) &'t mut Transaction);

impl Catalog for Tables<'_> {
    fn table(&mut self, name: &str) -> Result<Arc<Table>> {
        let missing = |error: rightlink::Error| match error {
            rightlink::Error::NotFound(_) => ddl::no_table(name),
            other => other.into(),
        };
        let version = self.0.version(name).map_err(missing)?;
        let info = self.0.describe(name).map_err(missing)?;
        let notes = TableNotes::decode(&info.note);
        let column_notes: Vec<ColumnNotes> =
            info.columns.iter().map(|column| ColumnNotes::decode(&column.note)).collect();
        let of_column =
            |(column, notes): (&rightlink::ColumnInfo, &ColumnNotes)| match notes.modifier {
                Some(Modifier::Char(_)) => SqlType::Bpchar,
                _ => SqlType::of_column(column.kind),
            };
        let types = info.columns.iter().zip(&column_notes).map(of_column).collect();
        Ok(Arc::new(Table { info, version, types, notes, column_notes }))
    }

    fn collation(&mut self, name: &str) -> Result<Option<rightlink::Collation>> {
        if let Ok(known) = collate::built_in(name) {
            return Ok(known);
        }
        let found = self.0.collation(name)?;
        found.map(Some).ok_or_else(|| collate::no_collation(name))
    }

    fn statistics(&mut self, table: &Table) -> Result<Option<Arc<Statistics>>> {
        let known = store::load(self.0, table.info.id)?;
        // Of an empty table they say nothing about what will be in it.
        Ok(known.filter(|known| known.rows > 0.0).map(Arc::new))
    }
}
