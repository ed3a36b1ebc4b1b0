//! Structs as rows: a [`Record`] knows its table's schema and turns into values and back.
//!
//! With the feature `derive` a struct becomes one by `#[derive(Record)]`. Columns are found by
//! name, so that a table may have its columns in another order, and more of them.
//!
//! Invariants: what a column holds that a field cannot is an error that names both, never another
//! value.
//! Does not do: change a table whose definition differs from the struct's.

use crate::datum::{Decimal, Interval, Type, Value};
use crate::db::Row;
use crate::db::define::{ColumnSchema, TableSchema};
use crate::db::rows::Rows;
use crate::db::scan::ScanOptions;
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::txn::LockMode;

/// A struct that is a row of a table.
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// use rightlink::{Database, Record, ScanOptions, Value};
///
/// #[derive(Record, PartialEq, Debug)]
/// #[rightlink(table = "flights", index(name = "by_tail", on(tail, delay desc)))]
/// struct Flight {
///     #[rightlink(primary_key)]
///     id: i64,
///     tail: String,
///     #[rightlink(column = "delay")]
///     minutes_late: Option<i32>,
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Database::open(dir.path())?;
/// let mut txn = db.begin();
/// txn.create_table(&Flight::schema())?;
/// txn.insert_records([
///     Flight { id: 1, tail: "N14228".into(), minutes_late: Some(11) },
///     Flight { id: 2, tail: "N24211".into(), minutes_late: None },
/// ])?;
/// let by_tail = ScanOptions::index("by_tail").equal(vec![Value::Text("N14228".into())]);
/// for flight in txn.records::<Flight>(&by_tail)? {
///     assert_eq!(flight?.1.minutes_late, Some(11));
/// }
/// txn.commit()
/// # }
/// ```
///
/// On the struct: `table = ".."` (else its name in snake case), `primary_key(a, b)`, `unlogged`,
/// `fillfactor = 90`, and any number of times `index(..)` with
/// - `name = ".."`, `on(a, b desc nulls_last)`; behind a column also `bytes` or `collate("de")`,
///   see [`KeyCollation`](crate::KeyCollation);
/// - `unique`, `unique_nulls` ([`IndexSchema::unique_nulls`](crate::IndexSchema::unique_nulls)),
///   `hash`;
/// - `include(a, b)`: columns that are stored beside the key;
/// - `where(a >= 5, b is not null)`: the rows it holds are those that meet all of these. There are
///   `=`, `!=`, `<`, `<=`, `>`, `>=` with a constant, `is null` and `is not null`.
///
/// On a field: `column = ".."` (else its name), `primary_key`, and
/// - `default = 5`, `default(now)` or `default(uuid)`: what inserts give the column that do not
///   name it, as those of SQL and of [`Insert::columns`]. A record always has a value of its own;
/// - `generated` or `generated(always)`: numbers of a sequence. Neither
///   [`Transaction::insert_records`] nor [`Transaction::update_record`] writes such a column,
///   whatever the record has there;
/// - `collate = "de"` or `collate("und-u-ks-level2", nondeterministic)`: how its text compares
///   (feature `icu`);
/// - `check(0..=150)`, `check(1..)`, `check(.."m")`: values out of this range are refused, null is
///   not. The check is called `TABLE_COLUMN_check`.
///
/// Field types are those that implement [`Field`], constants those that a field can have
/// ([`Constant`]).
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// use rightlink::{Database, Error, Record, ScanOptions};
///
/// #[derive(Record, PartialEq, Debug)]
/// #[rightlink(index(name = "open_tasks", on(due), include(title), where(state = "open")))]
/// struct Task {
///     #[rightlink(primary_key, generated)]
///     id: i64,
///     title: String,
///     #[rightlink(default = "open")]
///     state: String,
///     #[rightlink(check(0..=5))]
///     weight: i16,
///     due: Option<i32>,
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Database::open(dir.path())?;
/// let mut txn = db.begin();
/// txn.create_table(&Task::schema())?;
/// let task = |state: &str, weight| Task {
///     id: 0,
///     title: "tea".into(),
///     state: state.into(),
///     weight,
///     due: Some(7),
/// };
/// txn.insert_records([task("done", 1), task("open", 5)])?;
/// let open = txn.records::<Task>(&ScanOptions::index("open_tasks"))?;
/// let open: Vec<Task> = open.map(|found| Ok(found?.1)).collect::<rightlink::Result<_>>()?;
/// assert_eq!(open, [Task { id: 2, ..task("open", 5) }]);
/// let heavy = txn.insert_records([task("open", 6)]);
/// assert!(matches!(heavy, Err(Error::CheckViolation { .. })));
/// # txn.commit()
/// # }
/// ```
///
/// [`Insert::columns`]: crate::Insert::columns
///
/// What a field's type cannot have does not compile, and the message names the field:
///
/// ```compile_fail
/// #[derive(rightlink::Record)]
/// struct Task {
///     #[rightlink(generated)]
///     id: String,
/// }
/// ```
/// ```compile_fail
/// #[derive(rightlink::Record)]
/// struct Task {
///     #[rightlink(check(0..=5))]
///     title: String,
/// }
/// ```
/// ```compile_fail
/// #[derive(rightlink::Record)]
/// struct Task {
///     #[rightlink(collate = "de")]
///     id: i64,
/// }
/// ```
pub trait Record: Sized {
    /// Name of the table.
    const TABLE: &'static str;
    /// Names of the columns, in the order of the fields.
    const COLUMNS: &'static [&'static str];
    /// Those of them that the store numbers: inserts and updates leave them to it.
    const GENERATED: &'static [&'static str] = &[];

    /// The table to create for such rows.
    fn schema() -> TableSchema;

    /// Its values, in the order of [`Record::COLUMNS`].
    fn into_values(self) -> Vec<Value>;

    /// Reverse of [`Record::into_values`].
    ///
    /// # Errors
    /// `Invalid` when a value is none that its field can hold; names table and column.
    fn from_values(values: Vec<Value>) -> Result<Self>;
}

/// A type that a field of a [`Record`] may have.
///
/// ```
/// use rightlink::{Field, Type, Value};
///
/// #[derive(PartialEq, Debug)]
/// struct Cents(i64);
///
/// impl Field for Cents {
///     const TYPE: Type = Type::Int8;
///
///     fn into_value(self) -> Value {
///         Value::Int8(self.0)
///     }
///
///     fn from_value(value: Value) -> Result<Self, Value> {
///         i64::from_value(value).map(Cents)
///     }
/// }
///
/// assert_eq!(Cents::from_value(Value::Int8(250)), Ok(Cents(250)));
/// assert_eq!(Option::<Cents>::from_value(Value::Null), Ok(None));
/// ```
pub trait Field: Sized {
    /// Type of the column that holds such a field.
    const TYPE: Type;
    /// True if the column may be null.
    const NULLABLE: bool = false;

    /// Turns the field into a value for its column.
    fn into_value(self) -> Value;

    /// Turns a value of the column into a field.
    ///
    /// # Errors
    /// The value itself, if the field cannot hold it.
    fn from_value(value: Value) -> std::result::Result<Self, Value>;
}

/// A constant in an attribute of the derived [`Record`], for a field of type `F`. It is a value of
/// that type. An option also takes a value of its inner type, and text takes a string literal.
///
/// ```
/// use rightlink::{ColumnDefault, Record, Value};
///
/// #[derive(Record)]
/// struct Task {
///     #[rightlink(default = "open")]
///     state: String,
///     #[rightlink(default = 3)]
///     weight: Option<i16>,
/// }
///
/// let weight = &Task::schema().columns[1];
/// assert_eq!(weight.default, Some(ColumnDefault::Value(Value::Int2(3))));
/// ```
#[diagnostic::on_unimplemented(
    message = "a field of type `{F}` cannot have this constant",
    label = "no constant of type `{F}`"
)]
pub trait Constant<F> {
    /// Turns the constant into a value for the column of the field.
    fn into_constant(self) -> Value;
}

impl<F: Field> Constant<F> for F {
    fn into_constant(self) -> Value {
        self.into_value()
    }
}

impl<F: Field> Constant<Option<F>> for F {
    fn into_constant(self) -> Value {
        self.into_value()
    }
}

impl Constant<String> for &str {
    fn into_constant(self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl Constant<Option<String>> for &str {
    fn into_constant(self) -> Value {
        Value::Text(self.to_owned())
    }
}

macro_rules! fields {
    ($($rust:ty: $kind:ident),* $(,)?) => {$(
        impl Field for $rust {
            const TYPE: Type = Type::$kind;

            fn into_value(self) -> Value {
                Value::$kind(self)
            }

            fn from_value(value: Value) -> std::result::Result<Self, Value> {
                match value {
                    Value::$kind(inner) => Ok(inner),
                    other => Err(other),
                }
            }
        }
    )*};
}

fields! {
    bool: Bool,
    i16: Int2,
    i32: Int4,
    i64: Int8,
    f32: Float4,
    f64: Float8,
    String: Text,
    Vec<u8>: Bytes,
    [u8; 16]: Uuid,
    Decimal: Decimal,
    Interval: Interval,
}

macro_rules! wrapped {
    ($($(#[$about:meta])* $name:ident($inner:ty)),* $(,)?) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl Field for $name {
            const TYPE: Type = Type::$name;

            fn into_value(self) -> Value {
                Value::$name(self.0)
            }

            fn from_value(value: Value) -> std::result::Result<Self, Value> {
                match value {
                    Value::$name(inner) => Ok($name(inner)),
                    other => Err(other),
                }
            }
        }
    )*};
}

wrapped! {
    /// A [`Type::Date`] of a [`Record`]: days since 2000-01-01.
    ///
    /// ```
    /// use rightlink::{Date, Record, Type, Value};
    ///
    /// #[derive(Record)]
    /// struct Holiday {
    ///     #[rightlink(primary_key)]
    ///     day: Date,
    ///     name: String,
    /// }
    ///
    /// let new_year = Holiday { day: Date(9_497), name: "New Year".into() };
    /// assert_eq!(Holiday::schema().columns[0].kind, Type::Date);
    /// assert_eq!(new_year.into_values()[0].to_string(), "2026-01-01");
    /// ```
    Date(i32),
    /// A [`Type::Time`] of a [`Record`]: microseconds since midnight.
    ///
    /// ```
    /// use rightlink::{Field, Time};
    /// let half_past_nine = Time((9 * 60 + 30) * 60_000_000);
    /// assert_eq!(half_past_nine.into_value().to_string(), "09:30:00");
    /// ```
    Time(i64),
    /// A [`Type::Timestamp`] of a [`Record`]: microseconds since 2000-01-01 00:00.
    ///
    /// ```
    /// use rightlink::{Field, Timestamp, Type, Value};
    /// # fn main() -> rightlink::Result<()> {
    /// let value = Value::parse(Type::Timestamp, "2000-01-02 00:00:01")?;
    /// assert_eq!(Timestamp::from_value(value), Ok(Timestamp(86_401_000_000)));
    /// # Ok(())
    /// # }
    /// ```
    Timestamp(i64),
    /// A [`Type::TimestampTz`] of a [`Record`]: microseconds since 2000-01-01 00:00 UTC.
    ///
    /// ```
    /// use rightlink::{Field, TimestampTz};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// const UNIX_2000: i64 = 946_684_800_000_000; // microseconds from 1970 to 2000
    /// let now = TimestampTz(db.unix_micros() - UNIX_2000);
    /// println!("it is {}", now.clone().into_value());
    /// assert!(now > TimestampTz(0));
    /// # Ok(())
    /// # }
    /// ```
    TimestampTz(i64),
    /// A [`Type::Json`] of a [`Record`]: the document.
    ///
    /// ```
    /// use rightlink::{Field, Json, Value};
    /// let value = Json(r#"{"due": 7}"#.into()).into_value();
    /// assert!(value.is_sound());
    /// assert!(!Json("{due".into()).into_value().is_sound(), "an insert would refuse it");
    /// ```
    Json(String),
}

impl<T: Field> Field for Option<T> {
    const TYPE: Type = T::TYPE;
    const NULLABLE: bool = true;

    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }

    fn from_value(value: Value) -> std::result::Result<Self, Value> {
        if value.is_null() { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

/// Values of a row, which an implementation of [`Record::from_values`] takes one by one.
///
/// ```
/// use rightlink::{Date, Fields, Value};
/// # fn main() -> rightlink::Result<()> {
/// let mut fields = Fields::new("task", vec![Value::Int8(7), Value::Null]);
/// let (id, due): (i64, Option<Date>) = (fields.take("id")?, fields.take("due")?);
/// assert_eq!((id, due), (7, None));
/// assert!(fields.take::<i64>("weight").is_err(), "there is no third value");
/// # Ok(())
/// # }
/// ```
pub struct Fields {
    table: &'static str,
    values: std::vec::IntoIter<Value>,
}

impl Fields {
    /// Holds the values of a row of `table`, in the order of the fields.
    pub fn new(table: &'static str, values: Vec<Value>) -> Self {
        Self { table, values: values.into_iter() }
    }

    /// The next value, for column `column`.
    ///
    /// # Errors
    /// `Invalid` when the field cannot hold it, or there is none.
    pub fn take<T: Field>(&mut self, column: &str) -> Result<T> {
        let wrong = |what: String| {
            let wanted = T::TYPE.name();
            let place = format!("column {column} of table {}", self.table);
            Err(Error::Invalid(format!("{place}: {what} where the record has {wanted}")))
        };
        match self.values.next().map(T::from_value) {
            Some(Ok(field)) => Ok(field),
            Some(Err(other)) => wrong(other.type_of().map_or("a null", Type::name).to_owned()),
            None => wrong("nothing".to_owned()),
        }
    }
}

impl TableSchema {
    /// Adds a column for a field of type `T`.
    #[must_use]
    pub fn field<T: Field>(self, name: impl Into<String>) -> Self {
        self.with_column(ColumnSchema::of::<T>(name))
    }
}

impl ColumnSchema {
    /// A column for a field of type `T`.
    pub fn of<T: Field>(name: impl Into<String>) -> Self {
        Self { nullable: T::NULLABLE, ..Self::new(name, T::TYPE) }
    }
}

/// The columns of a record that are written, with their values.
fn written<R: Record>(record: R) -> impl Iterator<Item = (&'static str, Value)> {
    let columns = R::COLUMNS.iter().copied().zip(record.into_values());
    columns.filter(|(name, _)| !R::GENERATED.contains(name))
}

/// Records of a scan, each with its row id. See [`Transaction::records`].
///
/// ```
/// use rightlink::{Record, Records, ScanOptions};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
///
/// #[derive(Record)]
/// struct Task {
///     #[rightlink(primary_key)]
///     id: i64,
///     done: bool,
/// }
///
/// # let mut txn = db.begin();
/// # txn.create_table(&Task::schema())?;
/// txn.insert_records([Task { id: 1, done: false }, Task { id: 2, done: true }])?;
/// let tasks: Records<Task> = txn.records(&ScanOptions::index("task_pkey"))?;
/// for found in tasks {
///     let (row, task) = found?;
///     txn.update_record(row, Task { done: true, ..task })?;
/// }
/// assert!(txn.records::<Task>(&ScanOptions::all())?.all(|found| found.unwrap().1.done));
/// # Ok(())
/// # }
/// ```
pub struct Records<R> {
    rows: Rows,
    kind: std::marker::PhantomData<fn() -> R>,
}

impl<R: Record> Iterator for Records<R> {
    type Item = Result<(RowId, R)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some(row.and_then(|row| Ok((row.id, R::from_values(row.values)?))))
    }
}

impl Transaction {
    /// Inserts records as one statement: all or none. Columns of the table that the record does not
    /// have, and those that are generated, get what [`Insert::columns`] gives to columns that are
    /// not named.
    ///
    /// [`Insert::columns`]: crate::Insert::columns
    pub fn insert_records<R: Record>(
        &mut self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RowId>> {
        let values = |record| written::<R>(record).map(|(_, value)| value).collect();
        let rows: Vec<Vec<Value>> = records.into_iter().map(values).collect();
        let named = R::COLUMNS.iter().copied().filter(|name| !R::GENERATED.contains(name));
        self.insert_into(R::TABLE).columns(&named.collect::<Vec<_>>()).rows(&rows)
    }

    /// The record with this primary key, and its row id. `None`: there is no such row.
    ///
    /// # Errors
    /// `Invalid` if a field cannot hold its value, or the table has no primary key. `NotFound` if
    /// the table does not have all columns of the record.
    pub fn get_record<R: Record>(&mut self, key: &[Value]) -> Result<Option<(RowId, R)>> {
        let places = self.places::<R>()?;
        let Some(Row { id, mut values }) = self.get(R::TABLE, key)? else { return Ok(None) };
        let chosen = places.iter().map(|at| std::mem::take(&mut values[*at])).collect();
        Ok(Some((id, R::from_values(chosen)?)))
    }

    /// Records of the table that `options` choose, of one snapshot. The columns of `options` do not
    /// count: the scan reads those of the record. A record whose field cannot hold its value is an
    /// `Invalid`.
    pub fn records<R: Record>(&mut self, options: &ScanOptions) -> Result<Records<R>> {
        let options = options.clone().columns(R::COLUMNS.iter().copied());
        let rows = self.scan(R::TABLE, &options)?;
        Ok(Records { rows, kind: std::marker::PhantomData })
    }

    /// Replaces the columns of the row at `id` that the record has, but those that are generated.
    /// False if the row is gone; see [`Transaction::update`].
    pub fn update_record<R: Record>(&mut self, id: RowId, record: R) -> Result<bool> {
        let set: Vec<(&str, Value)> = written(record).collect();
        self.update(R::TABLE, id, &set)
    }

    /// Where the record's columns are among the table's.
    fn places<R: Record>(&mut self) -> Result<Vec<usize>> {
        let entry = self.entry(R::TABLE, LockMode::Access)?;
        let def = entry.table.def();
        let place = |name: &&str| {
            let found = def.live().position(|(_, column)| column.name == **name);
            let none = || Error::NotFound(format!("column {name} of table {}", R::TABLE));
            found.ok_or_else(none)
        };
        R::COLUMNS.iter().map(place).collect()
    }
}
