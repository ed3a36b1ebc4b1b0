//! What a transaction sees of the store's catalog, under the numbers that the store has given.
//!
//! Invariants: an object has one number from its creation until it is dropped, in every session.
//! Does not do: rows of catalogs (`views`), looking names up for functions (`lookups`).

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use rightlink::{
    Collation, ColumnSchema, Comparison, Database, IndexInfo, IndexMethod, TableInfo, Term, Test,
    Transaction, Value,
};

use super::functions::{self, FunctionObject};
use super::numbers::{PUBLIC_OID, STANDARD_SCHEMAS, relation_oid};
use super::rules::{self, Constraint, Key, has_form_of_key};
use super::sequences::{self, Sequence};
use super::system_indexes;
use super::type_objects::{
    CompositeObject, DomainObject, MadeObject, domain_object, made_object, made_types,
};
use crate::catalog::{builtin, system_views};
use crate::error::Result;
use crate::names;
use crate::names::{
    PUBLIC, SearchPath, bare, full_reference, identifier, is_shown, marked, schema_of,
    type_of_entry,
};
use crate::notes::types::TypeNotes;
use crate::notes::{ColumnNotes, MadeTypes, TableNotes, is_materialized_view, is_view, owner_of};
use crate::privileges::ObjectKind;
use crate::roles::acl::Acl;
use crate::roles::need::Owned;
use crate::roles::rights;
use crate::roles::role::{DATABASE_OWNER, OWNER, Roles};
use crate::statistics::{Statistics, store};
use crate::types::literal::literal;
use crate::types::{Category, Datum, SqlType};

/// About what a column or an index takes in memory.
const PART_BYTES: usize = 256;

/// A table, or an index of it.
#[derive(Clone, Copy)]
pub(super) struct Object<'o> {
    pub(super) oid: u32,
    pub(super) table: &'o TableInfo,
    pub(super) index: Option<&'o IndexInfo>,
}

/// How the statement that makes an index names it.
struct DefinedOn {
    /// Its name and a blank, or nothing.
    name: String,
    /// The table, as SQL names it.
    table: String,
    keys: Vec<String>,
    condition: Option<String>,
}

/// For whom a definition is told.
#[derive(Clone, Copy)]
pub(crate) struct How<'p> {
    /// For people, who need fewer parentheses?
    pub(crate) is_pretty: bool,
    pub(crate) path: &'p SearchPath,
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

/// The rule of a view, or the default of a column.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) table: u32,
    /// Its place, 0 for the rule.
    pub(super) column: i32,
}

/// Where an object stands among those that a transaction sees.
#[derive(Clone, Copy)]
enum Place {
    Table(usize),
    Index(usize, usize),
    Sequence(usize),
    Composite(usize),
}

/// What a transaction sees of the store's catalog: tables, indexes, sequences, schemas, comments.
pub(crate) struct Objects {
    /// Do several statements use them?
    is_shared: bool,
    tables: Vec<TableInfo>,
    schemas: Vec<(u32, String)>,
    sequences: Vec<Sequence>,
    /// Tables and indexes in the order of their names.
    order: Vec<Place>,
    by_oid: HashMap<u32, Place>,
    /// Numbers of relations by the names that the store has for them.
    by_name: HashMap<String, u32>,
    statistics: HashMap<u32, Statistics>,
    /// By name.
    types: Vec<MadeObject>,
    domains: Vec<DomainObject>,
    /// Composite types, by name.
    composites: Vec<CompositeObject>,
    /// Functions that users made, by name.
    functions: Vec<FunctionObject>,
    /// Enums and composite types, for columns.
    pub(super) made: MadeTypes,
    /// Collations that were made.
    pub(super) collations: Vec<Collation>,
    /// Numbers of unique indexes that stand for no constraint.
    plain_indexes: HashSet<u32>,
    /// Comments on schemas and on the database.
    schema_comments: HashMap<String, String>,
    pub(super) database_comment: Option<String>,
    constraints: Vec<Constraint>,
    /// Places of constraints, and of types that were made, by their numbers.
    constraint_places: HashMap<u32, usize>,
    type_places: HashMap<u32, usize>,
    pub(super) roles: Roles,
    /// Privileges that were changed, by number of the object.
    pub(super) acls: HashMap<u32, Acl>,
    /// What roles have said about new objects.
    pub(super) default_acls: Vec<rights::DefaultAcl>,
    /// Numbers of the owners of schemas that were made.
    schema_owners: HashMap<u32, u32>,
    /// Parts of relations by number, once somebody has asked.
    pub(super) parts: OnceLock<HashMap<u32, Part>>,
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
        let marks = tables.iter().filter(|table| marked(&table.name).is_some());
        let owner = |mark: &TableInfo| Some((relation_oid(mark.id), owner_of(&mark.note)?));
        let schema_owners = marks.filter_map(owner).collect();
        let mut types: Vec<MadeObject> = tables.iter().filter_map(made_object).collect();
        types.sort_by(|a, b| a.stored.cmp(&b.stored));
        let mut domains: Vec<DomainObject> = tables.iter().filter_map(domain_object).collect();
        domains.sort_by(|a, b| a.stored.cmp(&b.stored));
        let composite = |info: &TableInfo| {
            let stored = type_of_entry(&info.name)?;
            TypeNotes::decode(&info.note)
                .is_composite
                .then(|| CompositeObject { stored, entry: info.clone() })
        };
        let mut composites: Vec<CompositeObject> = tables.iter().filter_map(composite).collect();
        composites.sort_by(|a, b| a.stored.cmp(&b.stored));
        let made = made_types(&types, &composites);
        let functions = functions::objects(&tables, &made);
        let sequences = sequences::all(&tables, txn)?;
        tables.retain(|table| is_shown(&table.name) && !names::is_own(&table.name));
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let mut schema_comments = HashMap::new();
        for name in schemas.iter().map(|(_, name)| name.as_str()).chain([PUBLIC]) {
            let comment = super::schema_comment(txn, name)?;
            schema_comments.extend(comment.map(|comment| (name.to_owned(), comment)));
        }
        let constraints = rules::all(&tables);
        let (roles, acls) = (Roles::load(txn)?, rights::all_kept(txn)?.into_iter().collect());
        let default_acls = rights::all_defaults(txn)?;
        let mut objects = Objects {
            is_shared: false,
            schemas,
            sequences,
            order: Vec::new(),
            by_oid: HashMap::new(),
            by_name: HashMap::new(),
            statistics: store::load_all(txn)?,
            types,
            domains,
            composites,
            functions,
            made,
            collations: txn.catalog().collations()?,
            plain_indexes: super::plain_indexes(txn)?,
            schema_comments,
            database_comment: txn.catalog().kept("comment on database")?,
            constraints,
            constraint_places: HashMap::new(),
            type_places: HashMap::new(),
            roles,
            acls,
            default_acls,
            schema_owners,
            parts: OnceLock::new(),
            comments: OnceLock::new(),
            tables,
        };
        objects.arrange();
        Ok(objects)
    }

    /// Other statements use them, too: sizes in them are no more those of now.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }

    /// A table with the sizes that it has now, if those here may be old.
    pub(super) fn sized(&self, table: &TableInfo, db: Option<&Database>) -> Option<TableInfo> {
        db.filter(|_| self.is_shared)?.sized(table)
    }

    /// The blocks that an index has now, if those here may be old.
    pub(super) fn index_blocks(
        &self,
        table: &TableInfo,
        index: u32,
        db: Option<&Database>,
    ) -> Option<u32> {
        let now = db.filter(|_| self.is_shared)?.blocks_of(table, Some(index));
        now.map(|now| now.blocks)
    }

    /// About the bytes that they take in memory.
    pub(crate) fn bytes(&self) -> usize {
        let parts = |table: &TableInfo| {
            let columns = table.columns.iter().map(|one| PART_BYTES + one.note.len());
            let indexes = table.indexes.iter().map(|one| PART_BYTES * (1 + one.columns.len()));
            PART_BYTES + table.note.len() + columns.chain(indexes).sum::<usize>()
        };
        self.tables.iter().map(parts).sum::<usize>() + PART_BYTES * self.by_oid.len()
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
        for (at, one) in self.composites.iter().enumerate() {
            self.by_oid.insert(one.oid(), Place::Composite(at));
            self.by_name.insert(one.stored.clone(), one.oid());
        }
        self.order = places;
        for (at, one) in self.constraints.iter().enumerate() {
            self.constraint_places.entry(one.oid).or_insert(at);
        }
        for (at, one) in self.types.iter().enumerate() {
            self.type_places.entry(one.oid).or_insert(at);
            self.type_places.entry(one.array_oid).or_insert(at);
        }
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
            Place::Sequence(_) | Place::Composite(_) => None,
        }
    }

    /// Numbers and names of the schemas that were made, by name.
    pub(super) fn schemas(&self) -> &[(u32, String)] {
        &self.schemas
    }

    /// The number of the owner of the schema that has a number.
    pub(super) fn owner_of_schema(&self, oid: u32) -> u32 {
        let made = || self.schema_owners.get(&oid).copied().unwrap_or(OWNER);
        if oid == PUBLIC_OID { DATABASE_OWNER } else { made() }
    }

    /// Functions that users made, by name.
    pub(super) fn functions(&self) -> &[FunctionObject] {
        &self.functions
    }

    /// The relation that has a number, with its owner.
    pub(crate) fn owned(&self, oid: u32) -> Option<Owned> {
        let (kind, owner) = match self.sequence_of(oid) {
            Some(one) => (ObjectKind::Sequence, self.owner_of_sequence(one)),
            None => (ObjectKind::Table, self.of_oid(oid)?.owner()),
        };
        Some(Owned { kind, oid, owner })
    }

    /// The number of the owner of a sequence: that of its table, where it goes with a column.
    pub(super) fn owner_of_sequence(&self, one: &Sequence) -> u32 {
        let table = one.owner.and_then(|owner| self.of_oid(owner.table));
        table.map_or_else(|| one.notes.owner.unwrap_or(OWNER), |table| table.owner())
    }

    /// The name of the owner that has a number.
    pub(super) fn owner_name(&self, oid: u32) -> String {
        self.roles.name_of(oid)
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

    /// Domains, by name.
    pub(super) fn domains(&self) -> &[DomainObject] {
        &self.domains
    }

    /// The domain that the store calls so.
    pub(super) fn domain(&self, stored: &str) -> Option<&DomainObject> {
        self.domains.iter().find(|one| one.stored == stored)
    }

    /// Types that were made besides domains, by name.
    pub(super) fn types(&self) -> &[MadeObject] {
        &self.types
    }

    /// Composite types, by name.
    pub(super) fn composites(&self) -> &[CompositeObject] {
        &self.composites
    }

    /// What the store calls the type that was made and has this number, and whether that is the
    /// number of the type of its arrays.
    pub(super) fn made_numbered(&self, oid: u32) -> Option<(&str, bool)> {
        let domain = || {
            let found = self.domains.iter().find(|one| one.oid == oid)?;
            Some((found.stored.as_str(), false))
        };
        let made = self.type_places.get(&oid).map(|at| &self.types[*at]);
        made.map(|one| (one.stored.as_str(), one.array_oid == oid)).or_else(domain)
    }

    /// The number of the type that was made and that the store calls so.
    pub(super) fn number_of_type(&self, stored: &str) -> Option<u32> {
        let made = self.types.binary_search_by(|one| one.stored.as_str().cmp(stored));
        let made = made.ok().map(|at| self.types[at].oid);
        made.or_else(|| self.domain(stored).map(|domain| domain.oid))
    }

    /// The number of the type that was made and that these parts name, by this path.
    pub(super) fn type_named(&self, parts: &[String], path: &SearchPath) -> Option<u32> {
        let known = |stored: String| self.number_of_type(&stored);
        match parts {
            [name] => path.of_tables().find_map(|schema| known(names::stored(schema, name))),
            [schema, name] => known(names::stored(schema, name)),
            _ => None,
        }
    }

    /// Is the type of this number meant by its name alone, by this path?
    pub(crate) fn type_is_visible(&self, oid: u32, path: &SearchPath) -> bool {
        if let Some(schema) = system_views::schema_of_type(oid) {
            return schema == names::CATALOGS[0];
        }
        let is_there = |name: &str| self.number_of_type(name).is_some();
        self.made_numbered(oid).is_none_or(|(stored, _)| path.shows(stored, is_there))
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

    /// The check or foreign key that has a number.
    pub(super) fn constraint(&self, oid: u32) -> Option<&Constraint> {
        self.constraint_places.get(&oid).map(|at| &self.constraints[*at])
    }

    /// Does an index stand for a constraint?
    pub(super) fn is_key(&self, table: &TableInfo, index: &IndexInfo) -> bool {
        !self.plain_indexes.contains(&index.id) && has_form_of_key(table, index)
    }

    /// Indexes that stand for primary keys and unique constraints, which materialized views do not
    /// have.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.all().filter_map(|object| {
            let index = object.index.filter(|index| self.is_key(object.table, index))?;
            if is_materialized_view(&object.table.note) {
                return None;
            }
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
            Place::Composite(at) => Some(&self.composites[*at].stored),
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
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] => (Some(schema), name),
            _ => return None,
        };
        if schema.is_none_or(|schema| *schema == names::CATALOGS[0])
            && let Some(index) = system_indexes::index_named(name)
        {
            return Some(index);
        }
        match parts {
            [name] => path
                .of_tables()
                .find_map(|schema| self.relation_named(&names::stored(schema, name))),
            [schema, name] if schema == names::TEMPORARY => {
                self.relation_named(&names::stored(path.temporary()?, name))
            }
            [schema, name] => self.relation_named(&names::stored(schema, name)),
            _ => None,
        }
    }
}

impl<'o> Object<'o> {
    /// The same by another description of its table.
    pub(super) fn of_description(self, table: Option<&'o TableInfo>) -> Object<'o> {
        let Some(table) = table else { return self };
        let same = |own: &IndexInfo| table.indexes.iter().find(|index| index.id == own.id);
        match (self.index, self.index.and_then(same)) {
            (Some(_), None) => self,
            (_, index) => Object { table, index, ..self },
        }
    }

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

    /// The number of its owner.
    pub(super) fn owner(&self) -> u32 {
        owner_of(&self.table.note).unwrap_or(OWNER)
    }

    /// The number of the table, also of an index.
    pub(super) fn table_oid(&self) -> u32 {
        relation_oid(self.table.id)
    }

    pub(super) fn kind(&self) -> char {
        match self.index {
            Some(_) => 'i',
            None if self.is_view() => 'v',
            None if self.is_materialized_view() => 'm',
            None => 'r',
        }
    }

    /// Is it a view, and no table?
    pub(super) fn is_view(&self) -> bool {
        self.index.is_none() && is_view(&self.table.note)
    }

    pub(super) fn is_materialized_view(&self) -> bool {
        self.index.is_none() && is_materialized_view(&self.table.note)
    }

    pub(super) fn persistence(&self) -> char {
        match (names::is_temporary(&self.table.name), self.table.logged) {
            (true, _) => 't',
            (false, true) => 'p',
            (false, false) => 'u',
        }
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

    /// The statement that would make an index.
    pub(super) fn definition(&self, objects: &Objects, how: How<'_>) -> Result<Option<String>> {
        let Some(index) = self.index else { return Ok(None) };
        let table = match how.is_pretty {
            true => objects.spelled(&self.table.name, how.path),
            false => full_reference(&self.table.name),
        };
        let condition = objects.condition(self, how)?;
        let keys = keys(index, self.table, &mut |text| objects.key_expression(text, self, how));
        let name = identifier(self.name()) + " ";
        Ok(self.definition_of(DefinedOn { name, table, keys, condition }))
    }

    /// The statement that would make such an index of another table, under a name of its own.
    pub(super) fn definition_on(&self, table: &str, made: &MadeTypes) -> Option<String> {
        let table = full_reference(table);
        let as_kept = &mut |text| rules::Shown::of(text).in_key(false);
        let keys = keys(self.index?, self.table, as_kept);
        let condition = self.condition(made);
        self.definition_of(DefinedOn { name: String::new(), table, keys, condition })
    }

    fn definition_of(&self, on: DefinedOn) -> Option<String> {
        let DefinedOn { name, table, keys, condition } = on;
        let index = self.index?;
        let names: Vec<String> = index.included.iter().map(|name| identifier(name)).collect();
        let included = match names.is_empty() {
            true => String::new(),
            false => format!(" INCLUDE ({})", names.join(", ")),
        };
        let kind = rules::key_kind(self.table, index);
        let is_nulls = kind.is_some_and(|kind| kind.nulls_not_distinct);
        let nulls = if is_nulls { " NULLS NOT DISTINCT" } else { "" };
        let condition = condition.map(|text| format!(" WHERE {text}"));
        Some(format!(
            "CREATE {}INDEX {name}ON {} USING {} ({}){included}{nulls}{}",
            if kind.is_some() { "UNIQUE " } else { "" },
            table,
            self.method(),
            keys.join(", "),
            condition.unwrap_or_default()
        ))
    }

    /// The expressions among the key columns of an index, as SQL.
    pub(super) fn expressions(&self) -> Option<String> {
        let keys = self.index?.columns.iter();
        let texts = keys.filter_map(|key| rules::expression(self.table, &key.name));
        let texts: Vec<String> = texts.map(|text| rules::Shown::of(text).alone(false)).collect();
        Some(texts.join(", ")).filter(|text| !text.is_empty())
    }

    /// A value of a column that the condition of an index compares it with, as a literal.
    fn literal_of(&self, column: &str, value: &Value, made: &MadeTypes) -> String {
        let column = self.table.columns.iter().find(|known| known.name == column);
        let ty = column.map(|one| ColumnNotes::decode(&one.note).type_of(one.kind, made));
        let stored = ty.and_then(|ty| Datum::stored(value.clone(), ty).ok());
        let value = stored.unwrap_or_else(|| Datum::from(value.clone()));
        let text = value.to_text().unwrap_or_default();
        let ty = value.type_of().unwrap_or(SqlType::Unknown);
        let is_number =
            ty.category() == Category::Number && !matches!(ty, SqlType::Oid | SqlType::Reg(_));
        let is_finite = text.ends_with(|last: char| last.is_ascii_digit());
        if is_number && is_finite { text } else { literal(&text) }
    }

    /// Which rows an index holds, as SQL.
    pub(super) fn condition(&self, made: &MadeTypes) -> Option<String> {
        let predicate = self.index?.predicate.as_ref()?;
        let term = |term: &Term| {
            let name = identifier(&term.column);
            match &term.test {
                Test::Null => format!("{name} IS NULL"),
                Test::NotNull => format!("{name} IS NOT NULL"),
                Test::Compare(Comparison::Equal, Value::Bool(true)) => name,
                Test::Compare(Comparison::Equal, Value::Bool(false)) => format!("NOT {name}"),
                Test::Compare(how, value) => {
                    let value = self.literal_of(&term.column, value, made);
                    format!("{name} {} {value}", how.sign())
                }
            }
        };
        let terms: Vec<String> = predicate.terms.iter().map(term).collect();
        Some(terms.join(" AND "))
    }
}

/// The key columns of an index, as they are declared; `expression` writes those that are none.
fn keys(
    index: &IndexInfo,
    table: &TableInfo,
    expression: &mut dyn FnMut(String) -> String,
) -> Vec<String> {
    let notes = TableNotes::decode(&table.note);
    let key = |(at, key): (usize, &rightlink::KeyColumn)| {
        let class = notes.class(index.id, at);
        let mut text = match rules::expression(table, &key.name) {
            Some(text) => expression(text),
            None => identifier(&key.name),
        };
        let column = table.columns.iter().find(|column| column.name == key.name);
        let is_other = |column: &ColumnSchema| column.collation.as_ref() != key.collation.given();
        // A class by bytes says already that the collation does not count.
        if !class.is_some_and(builtin::is_class_by_bytes) && column.is_some_and(is_other) {
            let name = key.collation.given().map_or("C", rightlink::Collation::name);
            text.push_str(&format!(" COLLATE {}", identifier(name)));
        }
        if let Some(class) = class {
            text.push_str(&format!(" {class}"));
        }
        text.push_str(if key.descending { " DESC" } else { "" });
        if key.nulls_first != key.descending {
            text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
        text
    };
    index.columns.iter().enumerate().map(key).collect()
}
