//! Statements that define tables, their columns and checks, and indexes.
//!
//! Invariants: definitions are transactional like rows; a refused change leaves nothing behind.
//! Does not do: the changes themselves (`catalog`); sequences (`numbers`).

use rightlink_env::sync::Arc;

use crate::catalog::{ColumnChange, Convert, OfRow, Retype};
use crate::datum::{Type, Value};
use crate::db::define::{
    AutoVacuum, CheckSchema, ColumnDefault, ColumnSchema, IdentitySchema, IndexSchema, TableSchema,
};
use crate::db::transaction::Transaction;
use crate::db::{definition, fill};
use crate::error::{Error, Result};
use crate::table::schema::{Column, Identity};
use crate::table::sequence::Sequence;
use crate::txn::{self, LockMode};

/// One change of a table's definition: see [`Transaction::alter_table`].
///
/// ```
/// use rightlink::{AlterTable, ColumnSchema, IdentitySchema, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// let schema = TableSchema::new("note").column("id", Type::Int4).column("body", Type::Text);
/// txn.create_table(&schema)?;
/// txn.insert("note", &[Value::Int4(7), Value::Text("to do".into())])?;
///
/// txn.alter_table("note", AlterTable::AddPrimaryKey { index: None, columns: &["id"] })?;
/// let due = ColumnSchema::new("due", Type::Date).nullable();
/// txn.alter_table("note", AlterTable::AddColumn(&due))?;
/// let mut widen = |value: Value| match value {
///     Value::Int4(n) => Ok(Value::Int8(n.into())),
///     other => Ok(other),
/// };
/// let to = Type::Int8;
/// let wider = AlterTable::ColumnType { column: "id", to, convert: &mut widen, of_row: None };
/// txn.alter_table("note", wider)?;
/// let identity = &IdentitySchema { start: 10, ..IdentitySchema::default() };
/// txn.alter_table("note", AlterTable::AddIdentity { column: "id", identity })?;
/// txn.alter_table("note", AlterTable::Rename("notes"))?;
///
/// assert!(txn.get("notes", &[Value::Int8(7)])?.is_some());
/// let rows = [vec![Value::Text("done".into())]];
/// let new = txn.insert_into("notes").columns(&["body"]).returning(&rows)?;
/// assert_eq!(new[0].values[0], Value::Int8(10));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub enum AlterTable<'a> {
    /// Gives the table this name. Its indexes and sequences keep theirs.
    Rename(&'a str),
    /// Adds a column. Rows that are there read as having its default; a default of the time is
    /// this transaction's time. No row is written, unless the column is generated or a random
    /// uuid. Then each row gets a value of its own, as with [`AlterTable::ColumnType`].
    ///
    /// Fails with `NotNullViolation` if the column is never null, has no such default, and there
    /// are rows.
    AddColumn(&'a ColumnSchema),
    /// Drops a column that no index and no check uses.
    DropColumn(&'a str),
    /// Gives a column another name.
    RenameColumn {
        /// The present name.
        column: &'a str,
        /// The new name.
        to: &'a str,
    },
    /// Changes the type of a column. A generated column goes on with its numbers.
    ///
    /// All rows are written anew and all indexes built anew, while other transactions wait for the
    /// table. Row ids of the table that were given out before are void. A transaction whose
    /// snapshot is older gets a conflict when it comes to the table.
    ///
    /// Fails with the errors of the closures, with violations by the new values, and with `Invalid`
    /// for a type that the default, the sequence, a check or an index of the column does not allow.
    ColumnType {
        /// The column.
        column: &'a str,
        /// Its new type.
        to: Type,
        /// Makes a value of the new type, or null, from one that is not null. It converts values
        /// of rows, the default, and the constants that checks and partial indexes compare the
        /// column with.
        convert: Convert<'a>,
        /// Makes the column's new value from a whole row as it was, nulls included. `convert` then
        /// takes the other values only.
        of_row: Option<OfRow<'a>>,
    },
    /// Lets a column be null, or not. Fails with `NotNullViolation` for a row that is there.
    Nullable {
        /// The column.
        column: &'a str,
        /// May it be null from now on?
        nullable: bool,
    },
    /// Sets the value that later inserts give the column when they do not name it.
    Default {
        /// The column.
        column: &'a str,
        /// Its default; `None` for null.
        default: Option<ColumnDefault>,
    },
    /// Lets a column take its numbers from a new sequence of its own. Rows that are there keep
    /// their numbers, and the sequence begins where `identity` says.
    ///
    /// Fails with `AlreadyExists` for a column that has a sequence, with `Invalid` for one that may
    /// be null, has a default, or is of a type without whole numbers.
    AddIdentity {
        /// The column.
        column: &'a str,
        /// The sequence to make.
        identity: &'a IdentitySchema,
    },
    /// Drops the sequence of a generated column. Its values stay.
    DropIdentity(&'a str),
    /// Makes columns the primary key of a table that has none; they are never null from now on.
    /// Fails with `NotNullViolation` and `UniqueViolation` for rows that are there.
    AddPrimaryKey {
        /// Name of the index; `None` for `TABLE_pkey`.
        index: Option<&'a str>,
        /// The key columns in their order.
        columns: &'a [&'a str],
    },
    /// Makes the unique index of this name the primary key of a table that has none, without
    /// building it anew; its columns are never null from now on. Fails with `NotNullViolation` for
    /// rows that are there, and with `Invalid` for an index that is not unique or holds some rows
    /// only.
    PrimaryKeyIndex(&'a str),
    /// Drops the primary key. Its columns stay as they are.
    DropPrimaryKey,
    /// Adds a check: the table refuses rows that its predicate is false of. Fails with
    /// `CheckViolation` for a row that is there.
    AddCheck(&'a CheckSchema),
    /// Drops the check of this name.
    DropCheck(&'a str),
    /// Replaces the text that a layer above keeps with the table: see [`TableSchema::note`].
    Note(&'a str),
    /// Replaces the text that a layer above keeps with a column.
    ColumnNote {
        /// The column.
        column: &'a str,
        /// The text.
        note: &'a str,
    },
    /// Sets when the table is vacuumed automatically.
    AutoVacuum(AutoVacuum),
}

impl Transaction {
    /// Creates a table with its indexes.
    ///
    /// Waits for the end of another transaction that creates a table or index of the same name. One
    /// thread that does so in two transactions waits for itself, until the lock timeout if there is
    /// one.
    ///
    /// # Errors
    /// `AlreadyExists` for a name that a table, index or sequence has. `Invalid` and `Limit` for a
    /// definition that cannot be, such as a key column that does not exist or too long a name.
    pub fn create_table(&mut self, schema: &TableSchema) -> Result<()> {
        let def = definition::table(schema)?;
        self.define(|ddl| ddl.create_table(def))
    }

    /// Changes the definition of a table: see [`AlterTable`] for the changes and their errors.
    ///
    /// ```
    /// use rightlink::{AlterTable, ScanOptions, TableSchema, Type};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// txn.create_table(&TableSchema::new("sale").column("day", Type::Date))?;
    /// txn.alter_table("sale", AlterTable::Rename("sales"))?;
    /// assert_eq!(txn.scan("sales", &ScanOptions::all())?.count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such table, column or check, and the errors of the change.
    pub fn alter_table(&mut self, table: &str, change: AlterTable<'_>) -> Result<()> {
        match change {
            AlterTable::Rename(to) => self.define(|ddl| ddl.rename_table(table, to)),
            AlterTable::AddColumn(column) => self.add_column(table, column),
            AlterTable::DropColumn(column) => self.define(|ddl| ddl.drop_column(table, column)),
            AlterTable::RenameColumn { column, to } => {
                self.alter_column(table, column, ColumnChange::Rename(to.to_owned()))
            }
            AlterTable::ColumnType { column, to, convert, of_row } => {
                self.retype(table, Retype { column, to, convert, of_row })
            }
            AlterTable::Nullable { column, nullable } => {
                self.alter_column(table, column, ColumnChange::Nullable(nullable))
            }
            AlterTable::Default { column, default } => {
                self.alter_column(table, column, ColumnChange::Default(default))
            }
            AlterTable::AddIdentity { column, identity } => {
                self.add_identity(table, column, identity)
            }
            AlterTable::DropIdentity(column) => self.set_identity(table, column, None),
            AlterTable::AddPrimaryKey { index, columns } => {
                self.add_primary_key(table, index, columns)
            }
            AlterTable::PrimaryKeyIndex(index) => {
                let entry = self.entry(table, LockMode::Access)?;
                let made = self.define(|ddl| ddl.make_primary(table, index));
                entry.table.naming(made)
            }
            AlterTable::DropPrimaryKey => self.define(|ddl| ddl.drop_primary_key(table)),
            AlterTable::AddCheck(check) => self.add_check(table, check),
            AlterTable::DropCheck(name) => self.define(|ddl| ddl.drop_check(table, name)),
            AlterTable::Note(note) => self.define(|ddl| ddl.set_note(table, note)),
            AlterTable::ColumnNote { column, note } => {
                self.alter_column(table, column, ColumnChange::Note(note.to_owned()))
            }
            AlterTable::AutoVacuum(when) => self.define(|ddl| ddl.set_auto_vacuum(table, when)),
        }
    }

    /// Drops a table and its indexes. Their files go with the commit, on a full disk, too; those of
    /// a table that damage keeps from being opened when the database is opened again.
    ///
    /// # Errors
    /// `NotFound` if there is no such table.
    pub fn drop_table(&mut self, table: &str) -> Result<()> {
        self.define_freeing(|ddl| ddl.drop_table(table))
    }

    /// Removes all rows of a table together with the files that hold them. Its name and definition
    /// stay; its sequences go on, or begin again if `restart` says so. A transaction whose snapshot
    /// is older gets a conflict when it comes to the table.
    ///
    /// ```
    /// use rightlink::{ColumnSchema, ScanOptions, TableSchema, Type};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// let id = ColumnSchema::new("id", Type::Int8).generated();
    /// txn.create_table(&TableSchema::new("t").with_column(id).primary_key(["id"]))?;
    /// txn.insert_into("t").columns(&[]).rows(&[vec![]])?;
    /// txn.truncate("t", false)?;
    /// assert_eq!(txn.scan("t", &ScanOptions::all())?.count(), 0);
    /// assert_eq!(txn.next_value("t_id_seq")?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such table.
    pub fn truncate(&mut self, table: &str, restart: bool) -> Result<()> {
        self.define_freeing(|ddl| ddl.truncate_table(table, restart))
    }

    /// Creates an index over the rows that are there. Readers go on meanwhile; writers of the table
    /// wait, and so do other index builds on it. [`Database::create_index_online`] holds up none of
    /// them.
    ///
    /// [`Database::create_index_online`]: crate::Database::create_index_online
    ///
    /// # Errors
    /// `NotFound` if there is no such table or column, `AlreadyExists` for a name that is taken,
    /// `Invalid` for a definition that cannot be. `UniqueViolation` if two rows have one key of a
    /// unique index, and `RowTooLarge` if a key is too long.
    pub fn create_index(&mut self, table: &str, index: &IndexSchema) -> Result<()> {
        let entry = self.entry(table, LockMode::ShareWrite)?;
        let index = definition::index(index, entry.table.def())?;
        let made = self.define(|ddl| ddl.create_index(table, index));
        entry.table.naming(made)
    }

    /// Gives an index another name.
    ///
    /// # Errors
    /// `NotFound` if there is no such index, `AlreadyExists` for a name that is taken.
    pub fn rename_index(&mut self, index: &str, to: &str) -> Result<()> {
        self.define(|ddl| ddl.rename_index(index, to))
    }

    /// Drops an index. [`AlterTable::DropPrimaryKey`] drops that of the primary key.
    ///
    /// # Errors
    /// `NotFound` if there is no such index, `Invalid` for that of a primary key.
    pub fn drop_index(&mut self, index: &str) -> Result<()> {
        self.define_freeing(|ddl| ddl.drop_index(index))
    }

    fn add_primary_key(
        &mut self,
        table: &str,
        index: Option<&str>,
        columns: &[&str],
    ) -> Result<()> {
        let index = index.map_or_else(|| format!("{table}_pkey"), str::to_owned);
        let entry = self.entry(table, LockMode::Access)?;
        let made = self.define(|ddl| ddl.add_primary_key(table, &index, columns));
        entry.table.naming(made)
    }

    fn add_column(&mut self, table: &str, column: &ColumnSchema) -> Result<()> {
        let mut new = definition::column(column, table)?;
        new.missing = match &column.default {
            None => Value::Null,
            Some(ColumnDefault::Value(value)) => value.clone(),
            Some(ColumnDefault::Now) => {
                let fits = [Type::Timestamp, Type::TimestampTz, Type::Date, Type::Time];
                if !fits.contains(&column.kind) {
                    let what =
                        format!("the default of column {} is no {}", column.name, column.kind);
                    return Err(Error::Invalid(what));
                }
                fill::now(column.kind, self.now())
            }
            Some(ColumnDefault::RandomUuid) => Value::Null,
        };
        if column.identity.is_some() || column.default == Some(ColumnDefault::RandomUuid) {
            return self.add_filled_column(table, new);
        }
        self.define(|ddl| ddl.add_column(table, new))
    }

    /// Adds a column with numbers of its sequence, or random uuids, in all rows.
    fn add_filled_column(&mut self, table: &str, column: Column) -> Result<()> {
        let ty = column.ty;
        let entry = self.entry(table, LockMode::Access)?;
        let handle = Arc::clone(&self.handle);
        let made = self.define(|ddl| {
            let mut fill = |txn: &mut txn::Transaction, own: Option<&Sequence>, rows: usize| {
                let Some(sequence) = own else {
                    return Ok((0..rows).map(|_| fill::random_uuid(&handle.engine)).collect());
                };
                let numbers = sequence.take(txn, rows)?.into_iter();
                Ok(numbers.map(|number| fill::number(ty, number)).collect())
            };
            ddl.add_filled_column(table, column, &mut fill)
        });
        entry.table.naming(made)
    }

    fn retype(&mut self, table: &str, to: Retype<'_>) -> Result<()> {
        let entry = self.entry(table, LockMode::Access)?;
        let made = self.define(|ddl| ddl.alter_column_type(table, to));
        entry.table.naming(made)
    }

    fn add_identity(&mut self, table: &str, column: &str, identity: &IdentitySchema) -> Result<()> {
        let entry = self.entry(table, LockMode::Access)?;
        let def = entry.table.def();
        let kind = def.columns[usize::from(def.column_no(column)?)].ty;
        self.set_identity(table, column, Some(definition::identity(identity, kind, table, column)))
    }

    fn set_identity(
        &mut self,
        table: &str,
        column: &str,
        identity: Option<Identity>,
    ) -> Result<()> {
        self.define(|ddl| ddl.set_identity(table, column, identity))
    }

    fn alter_column(&mut self, table: &str, column: &str, change: ColumnChange) -> Result<()> {
        self.define(|ddl| ddl.alter_column(table, column, change))
    }

    fn add_check(&mut self, table: &str, schema: &CheckSchema) -> Result<()> {
        let entry = self.entry(table, LockMode::Access)?;
        let check = definition::check(schema, entry.table.def())?;
        self.define(|ddl| ddl.add_check(table, check))
    }
}
