//! What a transaction sees of the store's catalog, under the numbers that the store has given.
//!
//! Invariants: an object has one number from its creation until it is dropped, in every session.
//! Does not do: rows of catalogs (`views`), looking names up for functions (`lookups`).

use std::collections::HashMap;
use std::sync::OnceLock;

use rightlink::{
    Collation, Comparison, IndexInfo, IndexMethod, TableInfo, Term, Test, Transaction, Value,
};

use super::numbers::{PUBLIC_OID, STANDARD_SCHEMAS, relation_oid};
use super::rules::{self, Constraint, Key, is_key};
use super::sequences::{self, Sequence};
use crate::catalog::system_views;
use crate::error::Result;
use crate::names;
use crate::names::{
    PUBLIC, SearchPath, bare, full_reference, identifier, is_shown, marked, schema_of,
};
use crate::notes::{TableNotes, is_view};
use crate::statistics::{Statistics, store};
use crate::types::Datum;
use crate::types::literal::constant;

/// A table, or an index of it.
#[derive(Clone, Copy)]
pub(super) struct Object<'o> {
    pub(super) oid: u32,
    pub(super) table: &'o TableInfo,
    pub(super) index: Option<&'o IndexInfo>,
}

/// A comment on an object, or on a column of it.
pub(super) struct Comment {
    pub(super) oid: u32,
    /// The number of the catalog that the object is in.
    pub(super) catalog: u32,
    /// Number of the column, or 0.
    pub(super) part: usize,
    pub(super) text: String,
}

/// Where an object stands among those that a transaction sees.
#[derive(Clone, Copy)]
enum Place {
    Table(usize),
    Index(usize, usize),
    Sequence(usize),
}

/// What a transaction sees of the store's catalog: tables, indexes, sequences, schemas, comments.
pub(crate) struct Objects {
    tables: Vec<TableInfo>,
    schemas: Vec<(u32, String)>,
    sequences: Vec<Sequence>,
    /// Tables and indexes in the order of their names.
    order: Vec<Place>,
    by_oid: HashMap<u32, Place>,
    /// Numbers of relations by the names that the store has for them.
    by_name: HashMap<String, u32>,
    statistics: HashMap<u32, Statistics>,
    /// Collations that were made.
    pub(super) collations: Vec<Collation>,
    /// Comments on schemas and on the database.
    schema_comments: HashMap<String, String>,
    pub(super) database_comment: Option<String>,
    constraints: Vec<Constraint>,
    /// Comments by number and column, once somebody has asked.
    pub(super) comments: OnceLock<HashMap<(u32, usize), Vec<Comment>>>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Objects")
    }
}

impl Objects {
    pub(crate) fn of(txn: &mut Transaction) -> Result<Objects> {
        let mut tables = txn.catalog().tables()?;
        let schema =
            |table: &TableInfo| Some((relation_oid(table.id), marked(&table.name)?.to_owned()));
        let schemas: Vec<_> = tables.iter().filter_map(schema).collect();
        let sequences = sequences::all(&tables, txn)?;
        tables.retain(|table| is_shown(&table.name) && !names::is_own(&table.name));
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let mut schema_comments = HashMap::new();
        for name in schemas.iter().map(|(_, name)| name.as_str()).chain([PUBLIC]) {
            let comment = super::schema_comment(txn, name)?;
            schema_comments.extend(comment.map(|comment| (name.to_owned(), comment)));
        }
        let constraints = rules::all(&tables);
        let mut objects = Objects {
            schemas,
            sequences,
            order: Vec::new(),
            by_oid: HashMap::new(),
            by_name: HashMap::new(),
            statistics: store::load_all(txn)?,
            collations: txn.catalog().collations()?,
            schema_comments,
            database_comment: txn.catalog().kept("comment on database")?,
            constraints,
            comments: OnceLock::new(),
            tables,
        };
        objects.arrange();
        Ok(objects)
    }

    /// Orders them by name and notes their numbers.
    fn arrange(&mut self) {
        let mut places = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            places.push(Place::Table(at));
            places.extend((0..table.indexes.len()).map(|index| Place::Index(at, index)));
        }
        places.sort_by_key(|place| {
            let object = self.object(*place).expect("it is a table or an index");
            (object.name(), object.schema())
        });
        for place in &places {
            let object = self.object(*place).expect("it is a table or an index");
            let (oid, name) = (object.oid, object.stored().to_owned());
            self.by_oid.insert(oid, *place);
            self.by_name.insert(name, oid);
        }
        for (at, one) in self.sequences.iter().enumerate() {
            self.by_oid.insert(one.oid, Place::Sequence(at));
            self.by_name.insert(one.schema.name.clone(), one.oid);
        }
        self.order = places;
    }

    fn object(&self, place: Place) -> Option<Object<'_>> {
        match place {
            Place::Table(at) => {
                let table = &self.tables[at];
                Some(Object { oid: relation_oid(table.id), table, index: None })
            }
            Place::Index(at, index) => {
                let table = &self.tables[at];
                let index = &table.indexes[index];
                Some(Object { oid: relation_oid(index.id), table, index: Some(index) })
            }
            Place::Sequence(_) => None,
        }
    }

    /// Numbers and names of the schemas that were made, by name.
    pub(super) fn schemas(&self) -> &[(u32, String)] {
        &self.schemas
    }

    /// The number of the schema of a name of the store.
    pub(super) fn schema_oid(&self, stored: &str) -> u32 {
        self.schema_named(schema_of(stored)).unwrap_or(PUBLIC_OID)
    }

    /// The number of a schema.
    pub(crate) fn schema_named(&self, schema: &str) -> Option<u32> {
        let made = self.schemas.iter().find(|(_, name)| name == schema).map(|(oid, _)| *oid);
        let standard =
            || STANDARD_SCHEMAS.iter().find(|(_, name)| *name == schema).map(|one| one.0);
        made.or_else(standard)
    }

    /// The name of the schema that has a number.
    pub(crate) fn schema_name(&self, oid: u32) -> Option<&str> {
        let standard = STANDARD_SCHEMAS.iter().find(|(known, _)| *known == oid).map(|one| one.1);
        let made =
            || self.schemas.iter().find(|(known, _)| *known == oid).map(|one| one.1.as_str());
        standard.or_else(made)
    }

    /// Tables and indexes, in the order of their names.
    pub(super) fn all(&self) -> impl Iterator<Item = Object<'_>> {
        self.order.iter().filter_map(|place| self.object(*place))
    }

    /// Tables and views, in the order of their names.
    pub(super) fn tables(&self) -> impl Iterator<Item = Object<'_>> {
        self.all().filter(|object| object.index.is_none())
    }

    /// The table or index that has a number.
    pub(super) fn of_oid(&self, oid: u32) -> Option<Object<'_>> {
        self.by_oid.get(&oid).and_then(|place| self.object(*place))
    }

    /// The sequence that has a number.
    pub(super) fn sequence_of(&self, oid: u32) -> Option<&Sequence> {
        match self.by_oid.get(&oid)? {
            Place::Sequence(at) => Some(&self.sequences[*at]),
            _ => None,
        }
    }

    pub(super) fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// The table of this name in the store.
    pub(super) fn table(&self, stored: &str) -> Option<Object<'_>> {
        self.by_name.get(stored).and_then(|oid| self.of_oid(*oid))
    }

    /// What ANALYZE has found out about a table.
    pub(super) fn statistics(&self, table: &TableInfo) -> Option<&Statistics> {
        self.statistics.get(&table.id)
    }

    /// Checks and foreign keys, by name.
    pub(super) fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Indexes that stand for primary keys and unique constraints.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.all().filter_map(|object| {
            let index = object.index.filter(|index| is_key(index))?;
            Some(Key { table: object.table, index })
        })
    }

    pub(super) fn schema_comment(&self, schema: &str) -> Option<&String> {
        self.schema_comments.get(schema)
    }

    /// The number of the relation that the store calls so.
    pub(crate) fn relation_named(&self, stored: &str) -> Option<u32> {
        self.by_name.get(stored).copied()
    }

    /// What the store calls the relation that has a number.
    pub(crate) fn stored_name(&self, oid: u32) -> Option<&str> {
        match self.by_oid.get(&oid)? {
            Place::Sequence(at) => Some(&self.sequences[*at].schema.name),
            place => self.object(*place).map(|object| object.stored()),
        }
    }

    /// Is the relation meant by its name alone, by this path?
    pub(crate) fn is_visible(&self, stored: &str, path: &SearchPath) -> bool {
        path.shows(stored, |name| self.by_name.contains_key(name))
    }

    /// The number of the relation that these parts name, by this path.
    pub(crate) fn find(&self, parts: &[String], path: &SearchPath) -> Option<u32> {
        if let Some(view) = system_views::relation(parts).filter(|view| view.oid != 0) {
            return Some(view.oid);
        }
        match parts {
            [name] => path
                .all()
                .iter()
                .find_map(|schema| self.relation_named(&names::stored(schema, name))),
            [schema, name] => self.relation_named(&names::stored(schema, name)),
            _ => None,
        }
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
        relation_oid(self.table.id)
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

    /// The query of a view, as it is kept.
    pub(super) fn query(&self) -> Option<String> {
        let notes = TableNotes::decode(&self.table.note).view.filter(|_| self.index.is_none())?;
        Some(format!("{};", notes.query))
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
