//! Tables and indexes under numbers, as catalogs have them: those of the store's catalog.
//!
//! Does not do: sequences (`sequences`).

use rightlink::{Comparison, IndexInfo, IndexMethod, TableInfo, Term, Test, Transaction, Value};

use crate::error::Result;
use crate::expr::deparse::{constant, identifier};
use crate::plan::notes::{TableNotes, is_view};
use crate::schemas::{bare, full_reference, is_shown, marked, schema_of};
use crate::statistics::store;
use crate::types::Datum;

/// The first number that PostgreSQL gives to an object of a user.
pub(super) const FIRST: u32 = 16_384;
/// The number of `public`, as PostgreSQL has it.
pub(super) const PUBLIC_OID: i64 = 2_200;

/// A table, or an index of it.
#[derive(Clone, Copy)]
pub(super) struct Object<'o> {
    pub(super) oid: u32,
    pub(super) table: &'o TableInfo,
    pub(super) index: Option<&'o IndexInfo>,
}

/// All of them, and the schemas that were made.
pub(super) struct Objects {
    tables: Vec<TableInfo>,
    schemas: Vec<(u32, String)>,
}

impl Objects {
    pub(super) fn of(txn: &mut Transaction) -> Result<Objects> {
        let mut tables = txn.catalog().tables()?;
        let schema = |table: &TableInfo| Some((FIRST + table.id, marked(&table.name)?.to_owned()));
        let schemas = tables.iter().filter_map(schema).collect();
        tables.retain(|table| is_shown(&table.name) && !store::is_own(&table.name));
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Objects { tables, schemas })
    }

    /// Numbers and names of the schemas that were made, by name.
    pub(super) fn schemas(&self) -> &[(u32, String)] {
        &self.schemas
    }

    /// The number of the schema of a name of the store.
    pub(super) fn schema_oid(&self, stored: &str) -> i64 {
        let schema = schema_of(stored);
        let made = self.schemas.iter().find(|(_, name)| name == schema);
        made.map_or(PUBLIC_OID, |(oid, _)| i64::from(*oid))
    }

    /// In the order of their names.
    pub(super) fn all(&self) -> Vec<Object<'_>> {
        let mut all = Vec::new();
        for table in &self.tables {
            all.push(Object { oid: FIRST + table.id, table, index: None });
            for index in &table.indexes {
                all.push(Object { oid: FIRST + index.id, table, index: Some(index) });
            }
        }
        all.sort_by(|a, b| (a.name(), a.schema()).cmp(&(b.name(), b.schema())));
        all
    }
}

impl<'o> Object<'o> {
    /// As the store calls it.
    pub(super) fn stored(&self) -> &'o str {
        self.index.map_or(&self.table.name, |index| &index.name)
    }

    /// Without its schema.
    pub(super) fn name(&self) -> &'o str {
        bare(self.stored())
    }

    /// Without its schema, the name of its table.
    pub(super) fn table_name(&self) -> &'o str {
        bare(&self.table.name)
    }

    /// An index is in the schema of its table.
    pub(super) fn schema(&self) -> &'o str {
        schema_of(&self.table.name)
    }

    /// The number of the table, also of an index.
    pub(super) fn table_oid(&self) -> u32 {
        FIRST + self.table.id
    }

    pub(super) fn kind(&self) -> char {
        match self.index {
            Some(_) => 'i',
            None if self.is_view() => 'v',
            None => 'r',
        }
    }

    /// Is it a view, and no table?
    pub(super) fn is_view(&self) -> bool {
        self.index.is_none() && is_view(&self.table.note)
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
        match self.index {
            Some(index) => index.blocks,
            None if self.is_view() => 0,
            None => self.table.heap_blocks,
        }
    }

    /// The comment on it.
    pub(super) fn comment(&self) -> Option<String> {
        let notes = TableNotes::decode(&self.table.note);
        let Some(index) = self.index else { return notes.comment };
        let found = notes.of_indexes.into_iter().find(|(id, _)| *id == index.id);
        found.map(|(_, text)| text)
    }

    /// The statement that would make an index; `pretty` leaves parentheses out.
    pub(super) fn definition(&self, pretty: bool) -> Option<String> {
        let index = self.index?;
        let names: Vec<String> = index.included.iter().map(|name| identifier(name)).collect();
        let included = match names.is_empty() {
            true => String::new(),
            false => format!(" INCLUDE ({})", names.join(", ")),
        };
        let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
        let condition = self.condition(pretty).map(|text| format!(" WHERE {text}"));
        Some(format!(
            "CREATE {}INDEX {} ON {} USING {} ({}){included}{nulls}{}",
            if index.unique { "UNIQUE " } else { "" },
            identifier(self.name()),
            full_reference(&self.table.name),
            self.method(),
            keys(index, self.table).join(", "),
            condition.unwrap_or_default()
        ))
    }

    /// Which rows an index holds, as SQL.
    pub(super) fn condition(&self, pretty: bool) -> Option<String> {
        let predicate = self.index?.predicate.as_ref()?;
        let term = |term: &Term| {
            let name = identifier(&term.column);
            let text = match &term.test {
                Test::Null => format!("{name} IS NULL"),
                Test::NotNull => format!("{name} IS NOT NULL"),
                Test::Compare(Comparison::Equal, Value::Bool(true)) => return name,
                Test::Compare(Comparison::Equal, Value::Bool(false)) => format!("NOT {name}"),
                Test::Compare(how, value) => {
                    let value = constant(&Datum::from(value.clone()));
                    format!("{name} {} {value}", how.sign())
                }
            };
            if pretty { text } else { format!("({text})") }
        };
        let terms: Vec<String> = predicate.terms.iter().map(term).collect();
        let text = terms.join(" AND ");
        Some(if terms.len() > 1 && !pretty { format!("({text})") } else { text })
    }
}

/// The key columns of an index, as they are declared.
pub(super) fn keys(index: &IndexInfo, table: &TableInfo) -> Vec<String> {
    let key = |key: &rightlink::KeyColumn| {
        let mut text = identifier(&key.name);
        let column = table.columns.iter().find(|column| column.name == key.name);
        if column.is_some_and(|column| column.collation.as_ref() != key.collation.given()) {
            let name = key.collation.given().map_or("C", rightlink::Collation::name);
            text.push_str(&format!(" COLLATE {}", identifier(name)));
        }
        text.push_str(if key.descending { " DESC" } else { "" });
        if key.nulls_first != key.descending {
            text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
        text
    };
    index.columns.iter().map(key).collect()
}
