//! Definitions of tables, columns and indexes, as the catalog hands them down.
//!
//! Invariants: a column's number is its position in [`TableDef::columns`] and never changes:
//! dropping one leaves its place marked, adding one appends, and neither rewrites a row. In rows
//! given by callers computed columns stand behind all others, whatever their numbers. A
//! definition that passed [`TableDef::validate`] keeps all limits of `config` and names only live
//! columns in its indexes.
//! Does not do: storing definitions, handing out ids and files.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::collation::Collation;
use crate::config::{MAX_COLUMNS, MAX_KEY_COLUMNS};
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId, Xid};
use crate::index::IndexOptions;
use crate::keycode::KeyColumn;

use super::predicate::{Predicate, Term, Test};

pub(crate) use super::limits::check_name;
use super::limits::{check_distinct, check_note};
pub use super::sequence_schema::{Identity, SequenceDef, SequenceSchema};
pub use super::settings::AutoVacuum;
pub use crate::ids::ColumnNo;
pub use crate::index::IndexMethod;

/// Default of a column: the value that it gets from inserts that do not name it.
///
/// ```
/// use rightlink::{ColumnDefault, ColumnSchema, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// let made = ColumnSchema::new("made", Type::TimestampTz).default(ColumnDefault::Now);
/// txn.create_table(&TableSchema::new("note").column("body", Type::Text).with_column(made))?;
/// let rows = [vec![Value::Text("to do".into())]];
/// let stored = txn.insert_into("note").columns(&["body"]).returning(&rows)?;
/// assert!(matches!(stored[0].values[1], Value::TimestampTz(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnDefault {
    /// This value.
    Value(Value),
    /// The time of the transaction in UTC, as [`Transaction::now`](crate::Transaction::now) returns
    /// it: for timestamps, dates and times of day.
    Now,
    /// A random uuid (version 4).
    RandomUuid,
}

/// Description of a check. Schemas name its columns, stored definitions number them.
///
/// ```
/// use rightlink::{AlterTable, CheckSchema, Error, Predicate, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_table(&TableSchema::new("part").column("weight", Type::Int4))?;
/// let predicate = Predicate::new().at_least("weight", Value::Int4(0));
/// let check = CheckSchema { name: "no_lift".into(), predicate };
/// txn.alter_table("part", AlterTable::AddCheck(&check))?;
/// let refused = txn.insert("part", &[Value::Int4(-1)]);
/// assert!(matches!(refused, Err(Error::CheckViolation { check, .. }) if check == "no_lift"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSchema<C = String> {
    /// Name of the check, unique in its table.
    pub name: String,
    /// Condition that every row must meet. A row that makes it unknown, by a null, is accepted.
    pub predicate: Predicate<C>,
}

/// A check as stored.
pub type Check = CheckSchema<ColumnNo>;

/// A column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Name, unique among the live columns.
    pub name: String,
    /// Type of its values.
    pub ty: Type,
    /// May it be null?
    pub nullable: bool,
    /// Is it gone? Its place in old rows is skipped, in new ones null.
    pub dropped: bool,
    /// What rows have that were written before the column was added.
    pub missing: Value,
    /// What inserts that do not name the column give it; `None`: null.
    pub default: Option<ColumnDefault>,
    /// Where its values come from instead.
    pub identity: Option<Identity>,
    /// What a layer above keeps with it.
    pub note: String,
    /// How its text compares where a key column or query says nothing else; `None`: by its bytes.
    pub collation: Option<Collation>,
    /// Does a layer above make its values from the other columns? Then it stands behind these.
    pub computed: bool,
}

/// A column of an index key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexColumn {
    /// Which column of the table.
    pub column: ColumnNo,
    /// Largest first?
    pub descending: bool,
    /// Nulls before all values, whatever the direction?
    pub nulls_first: bool,
    /// How its text compares here, whatever the column says; `None`: by its bytes.
    pub collation: Option<Collation>,
}

/// An index of a table as stored.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexDef {
    /// Its number in the catalog.
    pub id: ObjectId,
    /// Name, unique in the table.
    pub name: String,
    /// Its file.
    pub file: FileId,
    /// The key, most significant column first.
    pub columns: Vec<IndexColumn>,
    /// Columns stored beside the key for index-only scans.
    pub included: Vec<ColumnNo>,
    /// Is it the primary key?
    pub primary: bool,
    /// May a key occur only once?
    pub unique: bool,
    /// Does `unique` take two nulls for the same?
    pub nulls_not_distinct: bool,
    /// What is true of the rows that it holds; `None`: it holds all.
    pub predicate: Option<Predicate<ColumnNo>>,
    /// How it finds entries.
    pub method: IndexMethod,
    /// Snapshots that may not see all xids below this do not use it (R10); `Xid::NONE`: all may.
    pub usable_from: Xid,
    /// Which Unicode data it was built with; empty if it holds no collated text.
    pub data_version: String,
}

/// A table as stored.
#[derive(Clone, PartialEq, Debug)]
pub struct TableDef {
    /// Its number in the catalog; also names its lock.
    pub id: ObjectId,
    /// Name.
    pub name: String,
    /// All columns that ever were, dropped ones included.
    pub columns: Vec<Column>,
    /// Indexes, in the order of [`TableDef::sort_indexes`].
    pub indexes: Vec<IndexDef>,
    /// The heap's file; the free-space map is the next one, the visibility map the one after.
    pub heap: FileId,
    /// The file of values that do not fit a row; file 0: there is none.
    pub overflow: FileId,
    /// Are changes logged?
    pub logged: bool,
    /// Share of a heap page, in percent, that inserts fill; the rest is for updates.
    pub fillfactor: u8,
    /// What every row must meet.
    pub checks: Vec<Check>,
    /// What a layer above keeps with it.
    pub note: String,
    /// When it is vacuumed without anybody asking.
    pub auto_vacuum: AutoVacuum,
}

impl Column {
    /// A live column whose missing value is null.
    pub fn new(name: impl Into<String>, ty: Type, nullable: bool) -> Self {
        Self {
            name: name.into(),
            ty,
            nullable,
            dropped: false,
            missing: Value::Null,
            default: None,
            identity: None,
            note: String::new(),
            collation: None,
            computed: false,
        }
    }

    /// Do its default and its sequence fit its type?
    fn validate(&self) -> Result<()> {
        check_name("column", &self.name)?;
        check_note(&self.name, &self.note)?;
        let (name, ty) = (&self.name, self.ty);
        if self.collation.is_some() && ty != Type::Text {
            let what = format!("column {name} of type {ty} has a collation, which only text has");
            return Err(Error::Invalid(what));
        }
        if !self.missing.fits(ty) {
            return Err(Error::Invalid(format!("missing value of column {name} is no {ty}")));
        }
        let fits = match &self.default {
            None => true,
            Some(ColumnDefault::Value(value)) => value.fits(ty) && value.is_sound(),
            Some(ColumnDefault::Now) => {
                matches!(ty, Type::Timestamp | Type::TimestampTz | Type::Date | Type::Time)
            }
            Some(ColumnDefault::RandomUuid) => ty == Type::Uuid,
        };
        if !fits {
            return Err(Error::Invalid(format!("the default of column {name} is no {ty}")));
        }
        let Some(identity) = &self.identity else { return Ok(()) };
        let (min, max) = match ty {
            Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Type::Int8 => (i64::MIN, i64::MAX),
            _ => {
                let what = format!("column {name} of type {ty} takes its values from a sequence");
                return Err(Error::Invalid(what));
            }
        };
        if self.nullable || self.default.is_some() {
            let what = format!("generated column {name} is nullable or has a default");
            return Err(Error::Invalid(what));
        }
        let sequence = &identity.sequence.schema;
        if sequence.min < min || sequence.max > max {
            let what =
                format!("column {name} of type {ty} cannot hold all numbers of its sequence");
            return Err(Error::Invalid(what));
        }
        sequence.validate()
    }
}

impl IndexColumn {
    /// Ascending, nulls last.
    pub const fn ascending(column: ColumnNo) -> Self {
        Self { column, descending: false, nulls_first: false, collation: None }
    }

    /// Descending, nulls first.
    pub const fn descending(column: ColumnNo) -> Self {
        Self { column, descending: true, nulls_first: true, collation: None }
    }
}

impl IndexDef {
    /// How it is kept: rows share an item only where no included columns tell them apart.
    pub(crate) fn options(&self) -> IndexOptions {
        IndexOptions { deduplicate: self.included.is_empty() }
    }

    /// A plain index over `columns`, usable by every snapshot.
    pub fn new(
        id: ObjectId,
        name: impl Into<String>,
        file: FileId,
        columns: Vec<IndexColumn>,
        unique: bool,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            file,
            columns,
            included: Vec::new(),
            unique,
            primary: false,
            nulls_not_distinct: false,
            predicate: None,
            method: IndexMethod::default(),
            usable_from: Xid::NONE,
            data_version: String::new(),
        }
    }

    /// The collations that its entries rest on: of the key, then of what its condition compares.
    fn collations<'a>(&'a self, table: &'a TableDef) -> impl Iterator<Item = &'a Collation> {
        let key = self.columns.iter().filter_map(|part| part.collation.as_ref());
        let terms = self.predicate.iter().flat_map(|predicate| &predicate.terms);
        let compared = terms.filter(|term| matches!(term.test, Test::Compare(..)));
        key.chain(
            compared.filter_map(|term| table.columns[usize::from(term.column)].collation.as_ref()),
        )
    }

    /// Which Unicode data this build would make its entries with.
    pub(crate) fn current_data(&self, table: &TableDef) -> String {
        let mut versions: Vec<&str> = self.collations(table).map(Collation::data_version).collect();
        versions.dedup();
        let Some((first, rest)) = versions.split_first() else { return String::new() };
        if rest.is_empty() {
            return (*first).to_owned();
        }
        let release = first.split('/').next().unwrap_or_default();
        format!("{release}/{:016x}", xxh3_64(versions.join(" ").as_bytes()))
    }

    /// Fails if this build would order its text otherwise than it is.
    pub(crate) fn check_collations(&self, table: &TableDef) -> Result<()> {
        if self.data_version.is_empty() && self.collations(table).next().is_none() {
            return Ok(());
        }
        let of = format!("index {} of table {}", self.name, table.name);
        self.collations(table).try_for_each(|collation| collation.check(&of))?;
        let (built, now) = (&self.data_version, self.current_data(table));
        if *built == now {
            return Ok(());
        }
        let what = format!(
            "built with collation data {built}, but this build has {now}: run reindex before it is \
             used"
        );
        Err(Error::Collation { of, what })
    }

    /// Does a change of `column` change entries of this index (R10)?
    pub fn touches(&self, column: ColumnNo) -> bool {
        let asked = self.predicate.as_ref().is_some_and(|predicate| predicate.names(column));
        asked || self.entry_columns().any(|used| used == column)
    }

    /// The columns of the key, then those included.
    fn entry_columns(&self) -> impl Iterator<Item = ColumnNo> {
        let key = self.columns.iter().map(|part| part.column);
        key.chain(self.included.iter().copied())
    }

    /// How the key is encoded.
    pub fn key_columns(&self, table: &TableDef) -> Vec<KeyColumn> {
        let key = |part: &IndexColumn| KeyColumn {
            ty: table.columns[usize::from(part.column)].ty,
            descending: part.descending,
            nulls_first: part.nulls_first,
            collation: part.collation.clone(),
        };
        self.columns.iter().map(key).collect()
    }

    /// Is an order of columns asked for that the method cannot give?
    fn validate_order(&self) -> Result<()> {
        let plain = |part: &IndexColumn| !part.descending && !part.nulls_first;
        if self.method.is_ordered() || self.columns.iter().all(plain) {
            return Ok(());
        }
        let (name, method) = (&self.name, self.method.name());
        let what = format!("index {name}: the columns of a {method} index have no order");
        Err(Error::Invalid(what))
    }

    fn validate(&self, table: &TableDef) -> Result<()> {
        check_name("index", &self.name)?;
        let name = &self.name;
        let count = self.columns.len();
        if count == 0 || count > MAX_KEY_COLUMNS {
            let what = format!(
                "index {name} has {count} key columns, 1 to {MAX_KEY_COLUMNS} are possible"
            );
            return Err(Error::Limit(what));
        }
        for part in &self.columns {
            let column = table.live_column(part.column)?;
            if !column.ty.is_ordered() {
                let what = format!(
                    "index {name} cannot have column {} as a key: values of type {} have no order",
                    column.name, column.ty
                );
                return Err(Error::Invalid(what));
            }
            if part.collation.is_some() && column.ty != Type::Text {
                let what = format!(
                    "index {name} has a collation for column {} of type {}",
                    column.name, column.ty
                );
                return Err(Error::Invalid(what));
            }
        }
        self.validate_order()?;
        let mut seen = HashSet::new();
        for column in self.entry_columns() {
            let known = &table.live_column(column)?.name;
            if !seen.insert(column) {
                return Err(Error::Invalid(format!("index {name} names column {known} twice")));
            }
        }
        if self.nulls_not_distinct && !self.unique {
            let what = format!("index {name} is not unique: equal nulls mean nothing to it");
            return Err(Error::Invalid(what));
        }
        self.predicate.iter().try_for_each(|predicate| table.check_predicate(predicate))
    }
}

impl TableDef {
    /// A logged table without indexes, all of whose values fit their rows.
    pub fn new(id: ObjectId, name: impl Into<String>, heap: FileId, columns: Vec<Column>) -> Self {
        Self {
            id,
            name: name.into(),
            columns,
            indexes: Vec::new(),
            heap,
            overflow: FileId(0),
            logged: true,
            fillfactor: 100,
            checks: Vec::new(),
            note: String::new(),
            auto_vacuum: AutoVacuum::default(),
        }
    }

    /// Checks names, limits and references; what passes can be created.
    pub fn validate(&self) -> Result<()> {
        check_name("table", &self.name)?;
        check_note(&self.name, &self.note)?;
        let count = self.columns.len();
        if count > MAX_COLUMNS {
            let name = &self.name;
            let what = format!("table {name} has {count} columns, at most {MAX_COLUMNS} can be");
            return Err(Error::Limit(what));
        }
        if !(10..=100).contains(&self.fillfactor) {
            return Err(Error::Invalid(format!(
                "fillfactor {} is not in 10..=100",
                self.fillfactor
            )));
        }
        self.live().try_for_each(|(_, column)| column.validate())?;
        check_distinct("column", self.live().map(|(_, column)| column.name.as_str()))?;
        check_distinct("index", self.indexes.iter().map(|index| index.name.as_str()))?;
        check_distinct("check", self.checks.iter().map(|check| check.name.as_str()))?;
        for check in &self.checks {
            check_name("check", &check.name)?;
            self.check_predicate(&check.predicate)?;
        }
        self.indexes.iter().try_for_each(|index| index.validate(self))
    }

    /// Sorts the indexes: the primary key first, then unique ones, so that violations show before
    /// other indexes grow.
    pub(crate) fn sort_indexes(&mut self) {
        self.indexes.sort_by_key(|index| (!index.primary, !index.unique, index.id));
    }

    /// Sets the data version of each index to what this build would make its entries with.
    pub(crate) fn set_data_versions(&mut self) {
        for at in 0..self.indexes.len() {
            self.indexes[at].data_version = self.indexes[at].current_data(self);
        }
    }

    /// The index of the primary key.
    pub fn primary_key(&self) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.primary)
    }

    /// The sequences of generated columns.
    pub fn sequences(&self) -> impl Iterator<Item = &SequenceDef> {
        let identities = self.columns.iter().filter_map(|column| column.identity.as_ref());
        identities.map(|identity| &identity.sequence)
    }

    /// The same, to be changed.
    pub(crate) fn sequences_mut(&mut self) -> impl Iterator<Item = &mut SequenceDef> {
        let identities = self.columns.iter_mut().filter_map(|column| column.identity.as_mut());
        identities.map(|identity| &mut identity.sequence)
    }

    /// The live columns with their numbers, in order: what a row given by a caller consists of.
    /// Computed ones come last.
    pub fn live(&self) -> impl Iterator<Item = (ColumnNo, &Column)> {
        self.live_of(false).chain(self.live_of(true))
    }

    /// Finds the live columns that are computed, or all others, with their numbers.
    fn live_of(&self, computed: bool) -> impl Iterator<Item = (ColumnNo, &Column)> {
        let numbered = |(no, column)| (no as ColumnNo, column);
        let all = self.columns.iter().enumerate().map(numbered);
        all.filter(move |(_, column)| !column.dropped && column.computed == computed)
    }

    /// How many live columns are not computed: the place of the first that is.
    pub(crate) fn given(&self) -> usize {
        self.live_of(false).count()
    }

    /// Fails if only a layer above can make whole rows from some of their values.
    pub(crate) fn refuse_computed(&self) -> Result<()> {
        match self.live_of(true).next() {
            None => Ok(()),
            Some(_) => Err(Error::Invalid(format!(
                "table {} has computed columns: it is written to by whole rows, as SQL does",
                self.name
            ))),
        }
    }

    /// The table with one more index.
    pub(crate) fn with_index(&self, index: &IndexDef) -> Self {
        let mut def = self.clone();
        def.indexes.push(index.clone());
        def
    }

    /// Fails if there is a live column called `name`.
    pub(crate) fn check_new_column(&self, name: &str) -> Result<()> {
        if self.column_no(name).is_ok() {
            return Err(Error::AlreadyExists(format!("column {name} of table {}", self.name)));
        }
        Ok(())
    }

    /// Number of the live column called `name`.
    pub fn column_no(&self, name: &str) -> Result<ColumnNo> {
        let found = self.live().find(|(_, column)| column.name == name);
        found
            .map(|(no, _)| no)
            .ok_or_else(|| Error::NotFound(format!("column {name} of table {}", self.name)))
    }

    /// The index called `name`.
    pub fn index(&self, name: &str) -> Result<&IndexDef> {
        let found = self.indexes.iter().find(|index| index.name == name);
        found.ok_or_else(|| Error::NotFound(format!("index {name} of table {}", self.name)))
    }

    /// The live column of a number.
    pub fn live_column(&self, no: ColumnNo) -> Result<&Column> {
        let found = self.columns.get(usize::from(no)).filter(|column| !column.dropped);
        found.ok_or_else(|| Error::NotFound(format!("column {no} of table {}", self.name)))
    }

    /// Does `predicate` ask for live columns, and for what their types allow?
    pub fn check_predicate(&self, predicate: &Predicate<ColumnNo>) -> Result<()> {
        predicate.check(|no| self.live_column(no).map(|column| (column.name.as_str(), column.ty)))
    }

    /// Name of a column.
    pub(crate) fn name_of(&self, no: ColumnNo) -> &str {
        &self.columns[usize::from(no)].name
    }

    /// `predicate` with the names of its columns.
    pub fn named_predicate(&self, predicate: &Predicate<ColumnNo>) -> Predicate {
        let name = |no: &ColumnNo| Ok::<_, Error>(self.name_of(*no).to_owned());
        predicate.try_map(name).expect("a name is always found")
    }

    /// Place of a live column among the live columns.
    pub fn place(&self, column: ColumnNo) -> usize {
        let (before, rest) = self.columns.split_at(usize::from(column));
        let computed = rest.first().is_some_and(|column| column.computed);
        let alike = |known: &&Column| !known.dropped && known.computed == computed;
        let first = if computed { self.given() } else { 0 };
        first + before.iter().filter(alike).count()
    }

    /// The free-space map's file.
    pub fn free_space_map(&self) -> FileId {
        FileId(self.heap.0 + 1)
    }

    /// The visibility map's file.
    pub fn visibility_map(&self) -> FileId {
        FileId(self.heap.0 + 2)
    }

    /// The files of the heap, its maps and its overflow pages.
    pub fn heap_files(&self) -> Vec<FileId> {
        let mut files = vec![self.heap, self.free_space_map(), self.visibility_map()];
        files.extend(Some(self.overflow).filter(|file| *file != FileId(0)));
        files
    }

    /// Names the relation in an error of damage in a file of this table.
    pub fn named(&self, error: Error) -> Error {
        error.blamed(|file| self.relation_of(file))
    }

    /// Whose file `path` is, if it is one of this table's.
    fn relation_of(&self, path: &str) -> Option<String> {
        let own = self.heap_files();
        if own.iter().any(|file| file.path() == path) {
            return Some(format!("table {}", self.name));
        }
        let index = self.indexes.iter().find(|index| index.file.path() == path)?;
        Some(format!("index {} of table {}", index.name, self.name))
    }

    /// Checks a row given by a caller: one value of the right type for each live column, null where
    /// allowed.
    pub fn check_row(&self, values: &[Value]) -> Result<()> {
        self.check_row_but(values, &[])
    }

    /// As [`TableDef::check_row`], for a row of which the values at the places `kept` stay what
    /// they are, whatever stands there. They are in no term that would be false now and was not
    /// before.
    pub fn check_row_but(&self, values: &[Value], kept: &[usize]) -> Result<()> {
        let wanted = self.live().count();
        if values.len() != wanted {
            let (name, count) = (&self.name, values.len());
            let what = format!("row of {count} values for table {name} with {wanted} columns");
            return Err(Error::Invalid(what));
        }
        for (place, ((_, column), value)) in self.live().zip(values).enumerate() {
            if !kept.contains(&place) {
                self.check_value(column, value)?;
            }
        }
        self.checks.iter().try_for_each(|check| self.check_one(check, values))
    }

    /// Refuses a row (one value per live column) that `check` is false of.
    pub fn check_one(&self, check: &Check, values: &[Value]) -> Result<()> {
        let value = |column: &ColumnNo| {
            (&values[self.place(*column)], self.columns[usize::from(*column)].collation.as_ref())
        };
        for term in &check.predicate.terms {
            if let Some(collation) = value(&term.column).1.filter(|known| !known.is_usable()) {
                let column = &self.columns[usize::from(term.column)].name;
                collation.check(&format!("column {column} of table {}", self.name))?;
            }
        }
        if check.predicate.judge_by(value) != Some(false) {
            return Ok(());
        }
        let failed = |term: &&Term<ColumnNo>| {
            let (value, collation) = value(&term.column);
            term.test.judge_by(value, collation) == Some(false)
        };
        let term = check.predicate.terms.iter().find(failed).expect("one term is false");
        let (column, value) = (term.column, value(&term.column).0);
        Err(Error::CheckViolation {
            table: self.name.clone(),
            check: check.name.clone(),
            column: self.columns[usize::from(column)].name.clone(),
            value: value.to_string(),
        })
    }

    fn check_value(&self, column: &Column, value: &Value) -> Result<()> {
        let (table, name) = (&self.name, &column.name);
        if value.is_null() && !column.nullable {
            let (table, column) = (table.clone(), name.clone());
            return Err(Error::NotNullViolation { table, column });
        }
        if !value.fits(column.ty) {
            let given = value.type_of().map_or("null", Type::name);
            let what =
                format!("{given} value in column {name} of table {table}, which is {}", column.ty);
            return Err(Error::Invalid(what));
        }
        if !value.is_sound() {
            let what = format!("value in column {name} of table {table} is no {}", column.ty);
            return Err(Error::Invalid(what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::predicate::{Comparison, Test};

    fn people() -> TableDef {
        let columns = vec![
            Column::new("id", Type::Int8, false),
            Column { dropped: true, ..Column::new("gone", Type::Text, true) },
            Column::new("name", Type::Text, true),
        ];
        let mut def = TableDef::new(ObjectId(1), "people", FileId(64), columns);
        let key = vec![IndexColumn::ascending(0)];
        def.indexes.push(IndexDef::new(ObjectId(2), "people_id", FileId(67), key, true));
        def
    }

    #[test]
    fn a_sound_definition_passes_and_is_found_by_name() {
        let def = people();
        def.validate().unwrap();
        assert_eq!(def.column_no("name").unwrap(), 2);
        assert!(matches!(def.column_no("gone"), Err(Error::NotFound(_))));
        assert_eq!(def.index("people_id").unwrap().id, ObjectId(2));
        assert_eq!(def.visibility_map(), FileId(66));
        assert!(def.indexes[0].touches(0) && !def.indexes[0].touches(2));
    }

    #[test]
    fn computed_columns_stand_behind_all_others() {
        let mut def = people();
        def.columns.push(Column { computed: true, ..Column::new("low", Type::Text, true) });
        def.columns.push(Column::new("age", Type::Int4, true));
        def.columns.push(Column { computed: true, ..Column::new("next", Type::Int4, true) });
        let live: Vec<ColumnNo> = def.live().map(|(no, _)| no).collect();
        assert_eq!(live, [0, 2, 4, 3, 5]);
        for (place, no) in live.into_iter().enumerate() {
            assert_eq!(def.place(no), place, "column {no}");
        }
        assert_eq!(def.given(), 3);
        assert!(def.refuse_computed().is_err() && people().refuse_computed().is_ok());
        let text = |text: &str| Value::Text(text.into());
        let row = [Value::Int8(7), text("Ada"), Value::Int4(36), text("ada"), Value::Int4(37)];
        def.check_row(&row).unwrap();
        let bytes = crate::table::definition::row::encode(&def, &row).unwrap();
        assert_eq!(crate::table::definition::row::read_strictly(&def, &bytes).unwrap(), row);
    }

    #[test]
    fn unsound_definitions_are_refused() {
        let broken: [fn(&mut TableDef); 12] = [
            |def| def.name = String::new(),
            |def| def.name = "x".repeat(64),
            |def| def.columns[2].name = "id".into(),
            |def| def.columns.iter_mut().for_each(|column| column.dropped = true),
            |def| def.columns = vec![Column::new("x", Type::Int2, true); MAX_COLUMNS + 1],
            |def| def.columns[2].missing = Value::Int2(1),
            |def| def.indexes[0].columns = vec![IndexColumn::ascending(1)],
            |def| def.indexes[0].included = vec![0],
            |def| def.indexes[0].predicate = Some(Predicate { terms: Vec::new() }),
            |def| {
                let terms = vec![Term { column: 1, test: Test::Null }];
                def.indexes[0].predicate = Some(Predicate { terms });
            },
            |def| (def.indexes[0].unique, def.indexes[0].nulls_not_distinct) = (false, true),
            |def| def.indexes.push(def.indexes[0].clone()),
        ];
        for (case, breaks) in broken.into_iter().enumerate() {
            let mut def = people();
            breaks(&mut def);
            assert!(def.validate().is_err(), "case {case}");
        }
    }

    #[test]
    fn rows_are_checked_against_the_live_columns() {
        let def = people();
        def.check_row(&[Value::Int8(1), Value::Null]).unwrap();
        for row in [vec![Value::Int8(1)], vec![Value::Int4(1), Value::Null]] {
            assert!(matches!(def.check_row(&row), Err(Error::Invalid(_))), "{row:?}");
        }
        let null = def.check_row(&[Value::Null, Value::Null]);
        assert!(matches!(null, Err(Error::NotNullViolation { column, .. }) if column == "id"));
    }

    #[test]
    fn a_check_refuses_what_is_false_and_names_it() {
        let mut def = people();
        let test = Test::Compare(Comparison::AtLeast, Value::Int8(1));
        let predicate = Predicate { terms: vec![Term { column: 0, test }] };
        def.checks.push(Check { name: "positive".into(), predicate });
        def.validate().unwrap();
        def.check_row(&[Value::Int8(1), Value::Null]).unwrap();
        match def.check_row(&[Value::Int8(0), Value::Null]) {
            Err(Error::CheckViolation { check, column, value, .. }) => {
                assert_eq!(
                    (check.as_str(), column.as_str(), value.as_str()),
                    ("positive", "id", "0")
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
