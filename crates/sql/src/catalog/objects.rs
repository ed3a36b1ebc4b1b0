//! Tables and indexes under numbers, as catalogs have them.
//!
//! Does not do: numbers that outlast a definition.

use rightlink::{IndexInfo, IndexMethod, TableInfo, Transaction};

use crate::error::Result;
use crate::expr::deparse::identifier;

/// The first number that PostgreSQL gives to an object of a user.
const FIRST: u32 = 16_384;

/// A table, or an index of it.
#[derive(Clone, Copy)]
pub(super) struct Object<'o> {
    pub(super) oid: u32,
    pub(super) table: &'o TableInfo,
    pub(super) index: Option<&'o IndexInfo>,
}

/// All of them.
pub(super) struct Objects(Vec<TableInfo>);

impl Objects {
    pub(super) fn of(txn: &mut Transaction) -> Result<Objects> {
        let mut tables = txn.tables()?;
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Objects(tables))
    }

    /// In the order of their names.
    pub(super) fn all(&self) -> Vec<Object<'_>> {
        let mut all = Vec::new();
        for table in &self.0 {
            for index in std::iter::once(None).chain(table.indexes.iter().map(Some)) {
                let oid = FIRST + u32::try_from(all.len()).unwrap_or(u32::MAX - FIRST);
                all.push(Object { oid, table, index });
            }
        }
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }
}

impl<'o> Object<'o> {
    pub(super) fn name(&self) -> &'o str {
        self.index.map_or(&self.table.name, |index| &index.name)
    }

    pub(super) fn kind(&self) -> char {
        if self.index.is_some() { 'i' } else { 'r' }
    }

    pub(super) fn persistence(&self) -> char {
        if self.table.logged { 'p' } else { 'u' }
    }

    pub(super) fn method(&self) -> &'static str {
        match self.index.map(|index| index.method) {
            None => "heap",
            Some(IndexMethod::Hash) => "hash",
            Some(_) => "btree",
        }
    }

    pub(super) fn blocks(&self) -> u32 {
        self.index.map_or(self.table.heap_blocks, |index| index.blocks)
    }

    /// The statement that would make an index.
    pub(super) fn definition(&self) -> Option<String> {
        let index = self.index?;
        Some(format!(
            "CREATE {}INDEX {} ON public.{} USING {} ({})",
            if index.unique { "UNIQUE " } else { "" },
            identifier(&index.name),
            identifier(&self.table.name),
            self.method(),
            keys(index).join(", ")
        ))
    }
}

/// The key columns of an index, as they are declared.
pub(super) fn keys(index: &IndexInfo) -> Vec<String> {
    let key = |key: &rightlink::KeyColumnInfo| {
        let mut text = identifier(&key.name);
        text.push_str(if key.descending { " DESC" } else { "" });
        if key.nulls_first != key.descending {
            text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
        text
    };
    index.columns.iter().map(key).collect()
}
