//! What a caller says when it creates a table or an index.
//!
//! Invariants: plain data; names, types and limits are checked by the catalog when it is used.
//! Does not do: identifiers and files (the catalog resolves them).

use crate::collation::Collation;
use crate::datum::Type;
use crate::index::IndexMethod;
pub use crate::table::predicate::{Comparison, Predicate, Term, Test};
use crate::table::schema::SequenceDef;
pub use crate::table::schema::{AutoVacuum, ColumnDefault};

/// Description of a table to create.
///
/// ```
/// use rightlink::{IndexSchema, TableSchema, Type};
/// let schema = TableSchema::new("flight")
///     .column("id", Type::Int8)
///     .column("tail", Type::Text)
///     .nullable("departed", Type::Timestamp)
///     .primary_key(["id"])
///     .index(IndexSchema::new("flight_tail").on("tail").on_desc("departed"));
/// assert_eq!(schema.columns.len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// Name, at most 63 bytes, unique among tables and indexes.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<ColumnSchema>,
    /// Key columns of the primary key; empty for none.
    pub primary_key: Vec<String>,
    /// Further indexes.
    pub indexes: Vec<IndexSchema>,
    /// Are changes logged? An unlogged table is empty after a crash.
    pub logged: bool,
    /// Percent of a heap page that inserts fill, 10 to 100; the rest is for updates in place.
    pub fillfactor: u8,
    /// What every row must meet.
    pub checks: Vec<CheckSchema>,
    /// What a layer above keeps with it: text that is stored and never read here.
    pub note: String,
    /// When it is vacuumed without anybody asking.
    pub auto_vacuum: AutoVacuum,
}

/// Description of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSchema {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: Type,
    /// May it be null?
    pub nullable: bool,
    /// What inserts give it that do not name it; `None`: null.
    pub default: Option<ColumnDefault>,
    /// Are its values the numbers of a sequence of its own?
    pub identity: Option<IdentitySchema>,
    /// What a layer above keeps with it: text that is stored and never read here.
    pub note: String,
    /// How its text compares, in indexes and checks; `None`: by its bytes.
    pub collation: Option<Collation>,
}

/// Description of a column whose values are generated: the sequence is called `TABLE_COLUMN_seq`,
/// with a number after it where that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentitySchema {
    /// Refuse values of others by [`Insert::columns`]?
    ///
    /// [`Insert::columns`]: crate::Insert::columns
    pub always: bool,
    /// The first number; default 1.
    pub start: i64,
    /// From a number to the next; default 1.
    pub increment: i64,
    /// Smallest number; `None`: 1, or what the column can hold if numbers go down.
    pub min: Option<i64>,
    /// Largest number; `None`: what the column can hold.
    pub max: Option<i64>,
    /// Does it begin again behind the last one?
    pub cycle: bool,
}

impl Default for IdentitySchema {
    fn default() -> Self {
        Self { always: false, start: 1, increment: 1, min: None, max: None, cycle: false }
    }
}

/// Description of a sequence that belongs to no column.
///
/// ```
/// use rightlink::SequenceSchema;
/// let odd = SequenceSchema::new("odd").increment(2).max(99);
/// assert_eq!((odd.start, odd.min, odd.max), (1, 1, 99));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceSchema {
    /// Name, unique among tables, indexes and sequences.
    pub name: String,
    /// The first number.
    pub start: i64,
    /// From a number to the next, not 0.
    pub increment: i64,
    /// Smallest number.
    pub min: i64,
    /// Largest number.
    pub max: i64,
    /// Does it begin again behind the last one, with the smallest, or the largest if it goes down?
    pub cycle: bool,
    /// What a layer above keeps with it: text that is stored and never read here.
    pub note: String,
}

impl SequenceSchema {
    /// 1, 2, 3 and so on.
    pub fn new(name: impl Into<String>) -> Self {
        SequenceDef::new(name, i64::MAX).into()
    }

    /// The first number; what is smaller comes never.
    #[must_use]
    pub fn start(mut self, start: i64) -> Self {
        (self.start, self.min) = (start, self.min.min(start));
        self
    }

    /// From a number to the next. Negative: downwards.
    #[must_use]
    pub fn increment(mut self, increment: i64) -> Self {
        self.increment = increment;
        if increment < 0 {
            self.min = i64::MIN;
        }
        self
    }

    /// Largest number.
    #[must_use]
    pub fn max(mut self, max: i64) -> Self {
        self.max = max;
        self
    }

    /// Behind the last number it begins again.
    #[must_use]
    pub fn cycle(mut self) -> Self {
        self.cycle = true;
        self
    }
}

impl From<SequenceDef> for SequenceSchema {
    fn from(def: SequenceDef) -> Self {
        let SequenceDef { name, start, increment, min, max, cycle, note } = def;
        Self { name, start, increment, min, max, cycle, note }
    }
}

impl From<SequenceSchema> for SequenceDef {
    fn from(schema: SequenceSchema) -> Self {
        let SequenceSchema { name, start, increment, min, max, cycle, note } = schema;
        Self { name, start, increment, min, max, cycle, note }
    }
}

/// Description of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSchema {
    /// Name, unique in the table.
    pub name: String,
    /// What every row must meet; a null in a comparison is not refused.
    pub predicate: Predicate,
}

/// Description of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSchema {
    /// Name, unique among tables and indexes.
    pub name: String,
    /// Key columns in order, at least one.
    pub columns: Vec<KeyColumn>,
    /// Refuse a second row with the same key?
    pub unique: bool,
    /// Does `unique` take two nulls for the same? Else keys with a null never collide.
    pub nulls_not_distinct: bool,
    /// Columns that are stored beside the key, for scans that need not read the table.
    pub included: Vec<String>,
    /// Which rows it holds; `None`: all.
    pub predicate: Option<Predicate>,
    /// How it finds entries.
    pub method: IndexMethod,
}

/// A key column and its order.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyColumn {
    /// Column name.
    pub name: String,
    /// Largest first?
    pub descending: bool,
    /// Nulls before all other values? Default: nulls last ascending, first descending.
    pub nulls_first: bool,
    /// How its text compares.
    pub collation: KeyCollation,
}

/// How the text of a key column compares.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KeyCollation {
    /// As the column says.
    #[default]
    OfColumn,
    /// By its bytes.
    Bytes,
    /// So.
    Given(Collation),
}

impl KeyColumn {
    /// Ascending, nulls last, as the column compares.
    pub fn ascending(name: impl Into<String>) -> Self {
        let (name, collation) = (name.into(), KeyCollation::OfColumn);
        Self { name, descending: false, nulls_first: false, collation }
    }

    /// Descending, nulls first, as the column compares.
    pub fn descending(name: impl Into<String>) -> Self {
        Self { descending: true, nulls_first: true, ..Self::ascending(name) }
    }

    /// Its text compares so, whatever the column says.
    #[must_use]
    pub fn collate(mut self, collation: &Collation) -> Self {
        self.collation = KeyCollation::Given(collation.clone());
        self
    }
}

impl TableSchema {
    /// A table without columns yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
            logged: true,
            fillfactor: 100,
            checks: Vec::new(),
            note: String::new(),
            auto_vacuum: AutoVacuum::default(),
        }
    }

    /// Adds a column that is never null.
    #[must_use]
    pub fn column(self, name: impl Into<String>, kind: Type) -> Self {
        self.with_column(ColumnSchema::new(name, kind))
    }

    /// Adds a column that may be null.
    #[must_use]
    pub fn nullable(self, name: impl Into<String>, kind: Type) -> Self {
        self.with_column(ColumnSchema::new(name, kind).nullable())
    }

    /// Adds a column with everything that can be said about one.
    #[must_use]
    pub fn with_column(mut self, column: ColumnSchema) -> Self {
        self.columns.push(column);
        self
    }

    /// Adds a check: rows that `predicate` is false of are refused.
    #[must_use]
    pub fn check(mut self, name: impl Into<String>, predicate: Predicate) -> Self {
        self.checks.push(CheckSchema { name: name.into(), predicate });
        self
    }

    /// Sets the primary key: a unique index named `NAME_pkey`, with a number after it where that is
    /// taken.
    #[must_use]
    pub fn primary_key<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.primary_key = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an index.
    #[must_use]
    pub fn index(mut self, index: IndexSchema) -> Self {
        self.indexes.push(index);
        self
    }

    /// Changes are not logged; the table is empty after a crash.
    #[must_use]
    pub fn unlogged(mut self) -> Self {
        self.logged = false;
        self
    }

    /// When it is vacuumed without anybody asking.
    #[must_use]
    pub fn auto_vacuum(mut self, when: AutoVacuum) -> Self {
        self.auto_vacuum = when;
        self
    }

    /// Percent of a heap page that inserts fill.
    #[must_use]
    pub fn fillfactor(mut self, percent: u8) -> Self {
        self.fillfactor = percent;
        self
    }
}

impl ColumnSchema {
    /// A column that is never null and has no default.
    pub fn new(name: impl Into<String>, kind: Type) -> Self {
        Self {
            name: name.into(),
            kind,
            nullable: false,
            default: None,
            identity: None,
            note: String::new(),
            collation: None,
        }
    }

    /// It may be null.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Its text compares so. Needs the feature `icu` (see [`Collation`]).
    ///
    /// ```
    /// # #[cfg(feature = "icu")] {
    /// use rightlink::{Collation, ColumnSchema, TableSchema, Type};
    /// let name = ColumnSchema::new("name", Type::Text).collate(&Collation::new("sv", true)?);
    /// let schema = TableSchema::new("person").with_column(name).primary_key(["name"]);
    /// assert_eq!(schema.columns[0].collation.as_ref().unwrap().locale(), "sv");
    /// # }
    /// # Ok::<(), rightlink::Error>(())
    /// ```
    #[must_use]
    pub fn collate(mut self, collation: &Collation) -> Self {
        self.collation = Some(collation.clone());
        self
    }

    /// What inserts that do not name it give it.
    #[must_use]
    pub fn default(mut self, default: ColumnDefault) -> Self {
        self.default = Some(default);
        self
    }

    /// Its values are numbers of a sequence of its own, unless an insert says another.
    #[must_use]
    pub fn generated(mut self) -> Self {
        self.identity = Some(IdentitySchema::default());
        self
    }

    /// Its values are numbers of a sequence of its own, and inserts that name it are refused.
    #[must_use]
    pub fn generated_always(mut self) -> Self {
        self.identity = Some(IdentitySchema { always: true, ..IdentitySchema::default() });
        self
    }
}

impl IndexSchema {
    /// An index without columns yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            columns: Vec::new(),
            unique: false,
            nulls_not_distinct: false,
            included: Vec::new(),
            predicate: None,
            method: IndexMethod::BTree,
        }
    }

    /// Adds an ascending key column, nulls last.
    #[must_use]
    pub fn on(self, column: impl Into<String>) -> Self {
        self.key(KeyColumn::ascending(column))
    }

    /// Adds a descending key column, nulls first.
    #[must_use]
    pub fn on_desc(self, column: impl Into<String>) -> Self {
        self.key(KeyColumn::descending(column))
    }

    /// Adds a key column with its order spelled out.
    #[must_use]
    pub fn key(mut self, column: KeyColumn) -> Self {
        self.columns.push(column);
        self
    }

    /// Finds entries by another method than a B-link tree. A hash index finds whole keys only, by
    /// `equal` and lists of keys, in no order; it is as large as a tree and needs one page for a
    /// lookup where a tree needs its height.
    #[must_use]
    pub fn method(mut self, method: IndexMethod) -> Self {
        self.method = method;
        self
    }

    /// Refuses a second row with the same key. Keys with a null are not the same.
    #[must_use]
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// Refuses a second row with the same key, nulls included.
    ///
    /// ```
    /// use rightlink::{Database, Error, IndexSchema, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let one_of_each = IndexSchema::new("part_code").on("code").unique_nulls();
    /// let schema = TableSchema::new("part").nullable("code", Type::Text).index(one_of_each);
    /// let mut txn = db.begin();
    /// txn.create_table(&schema).unwrap();
    /// txn.insert("part", &[Value::Null]).unwrap();
    /// assert!(matches!(txn.insert("part", &[Value::Null]), Err(Error::UniqueViolation { .. })));
    /// ```
    #[must_use]
    pub fn unique_nulls(mut self) -> Self {
        (self.unique, self.nulls_not_distinct) = (true, true);
        self
    }

    /// Stores these columns beside the key: scans that want no others need not read the table,
    /// where the visibility map allows it. They are no part of the key, and keep the index from
    /// putting rows with the same key together.
    ///
    /// ```
    /// use rightlink::{IndexSchema, ScanOptions, Value};
    /// let index = IndexSchema::new("flight_tail").on("tail").include(["distance", "delay"]);
    /// assert_eq!(index.included.len(), 2);
    /// let by_tail = ScanOptions::index("flight_tail").equal(vec![Value::Text("N14228".into())]);
    /// let from_the_index_alone = by_tail.columns(["distance"]);
    /// ```
    #[must_use]
    pub fn include<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.included.extend(columns.into_iter().map(Into::into));
        self
    }

    /// Holds only the rows that `predicate` is true of, and refuses a second row with the same key
    /// only among those. A scan by such an index gives those rows and no others.
    ///
    /// ```
    /// use rightlink::{Database, IndexSchema, Predicate, ScanOptions, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let open = Predicate::new().equal("state", Value::Text("open".into()));
    /// let schema = TableSchema::new("task")
    ///     .column("id", Type::Int8)
    ///     .column("state", Type::Text)
    ///     .primary_key(["id"])
    ///     .index(IndexSchema::new("task_open").on("id").only(open));
    /// let mut txn = db.begin();
    /// txn.create_table(&schema).unwrap();
    /// for (id, state) in [(1, "done"), (2, "open"), (3, "done")] {
    ///     txn.insert("task", &[Value::Int8(id), Value::Text(state.into())]).unwrap();
    /// }
    /// let open = txn.scan("task", &ScanOptions::index("task_open")).unwrap();
    /// let ids: Vec<Value> = open.map(|row| row.unwrap().values[0].clone()).collect();
    /// assert_eq!(ids, [Value::Int8(2)]);
    /// ```
    #[must_use]
    pub fn only(mut self, predicate: Predicate) -> Self {
        self.predicate = Some(predicate);
        self
    }
}
