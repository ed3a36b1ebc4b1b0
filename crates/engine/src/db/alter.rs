//! Statements that define: tables, columns, indexes, checks, sequences.
//!
//! Invariants: definitions are transactional like rows; whatever is refused leaves nothing behind.
//! The numbers of a sequence are not: they are handed out once, whoever rolls back.
//! Does not do: the changes themselves (`catalog`).

use rightlink_env::sync::Arc;

use crate::catalog::{ColumnChange, Convert, FoundSequence, OfRow, StoredSequence};
use crate::collation::Collation;
use crate::datum::{Type, Value};
use crate::db::Database;
use crate::db::define::{
    AutoVacuum, CheckSchema, ColumnDefault, ColumnSchema, IdentitySchema, IndexSchema, Predicate,
    SequenceSchema, TableSchema,
};
use crate::db::info::{SequenceDefinition, SequenceInfo};
use crate::db::numbers::SequenceChange;
use crate::db::transaction::Transaction;
use crate::db::{draft, fill};
use crate::error::{Error, Result};
use crate::table::BuildOptions;
use crate::table::schema::{Column, Identity, SequenceDef};
use crate::table::sequence::{Sequence, SequencePosition};
use crate::txn::{self, LockMode};
use crate::upkeep::Engine;

impl Transaction {
    /// Creates a table with its indexes.
    ///
    /// Waits for the end of another transaction that creates a table or index of the same name. One
    /// thread that does so in two transactions waits for itself, until the lock timeout if there is
    /// one.
    pub fn create_table(&mut self, schema: &TableSchema) -> Result<()> {
        let draft = draft::table(schema)?;
        self.define(|handle, statement, changes| {
            handle.engine.catalog.create_table(statement, changes, draft)
        })
    }

    /// Drops a table and its indexes. Their files go with the commit, on a full disk, too; those of
    /// a table that damage keeps from being opened when the database is opened again.
    pub fn drop_table(&mut self, table: &str) -> Result<()> {
        self.freeing(|txn| {
            txn.define(|handle, statement, changes| {
                handle.engine.catalog.drop_table(statement, changes, table)
            })
        })
    }

    /// Takes all rows of a table away with the files that they are in. What it is called, and its
    /// definition, stay; its sequences go on, or `restart`. A transaction whose snapshot is older
    /// gets a conflict when it comes to the table.
    ///
    /// ```
    /// use rightlink::{ColumnSchema, Database, ScanOptions, TableSchema, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// let id = ColumnSchema::new("id", Type::Int8).generated();
    /// txn.create_table(&TableSchema::new("t").with_column(id).primary_key(["id"])).unwrap();
    /// txn.insert_columns("t", &[], &[vec![]]).unwrap();
    /// txn.truncate("t", false).unwrap();
    /// assert_eq!(txn.scan("t", &ScanOptions::all()).unwrap().count(), 0);
    /// assert_eq!(txn.next_value("t_id_seq").unwrap(), 2);
    /// ```
    pub fn truncate(&mut self, table: &str, restart: bool) -> Result<()> {
        self.freeing(|txn| {
            txn.define(|handle, statement, changes| {
                let options = build_options(&handle.engine);
                let catalog = &handle.engine.catalog;
                catalog.truncate_table(statement, changes, (table, restart), &options)
            })
        })
    }

    /// A name that no table, index or sequence has, and is none of `own`: `wanted`, or that with a
    /// number after it.
    pub fn free_name(&mut self, wanted: &str, own: &[String]) -> Result<String> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.free_name(self.running()?, own, wanted)
    }

    /// Gives a table another name. Its indexes and sequences keep theirs.
    pub fn rename_table(&mut self, table: &str, to: &str) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.rename_table(statement, changes, (table, to))
        })
    }

    /// Creates an index over the rows that are there. Readers go on meanwhile, writers of the table
    /// wait, and others who build an index of it.
    pub fn create_index(&mut self, table: &str, index: &IndexSchema) -> Result<()> {
        let entry = self.entry(table, LockMode::ShareWrite)?;
        let draft = draft::index(index, entry.table.def())?;
        let made = self.define(|handle, statement, changes| {
            let options = build_options(&handle.engine);
            handle.engine.catalog.create_index(statement, changes, (table, draft), &options)
        });
        entry.table.naming(made)
    }

    /// Drops an index. The primary key goes by [`Transaction::drop_primary_key`].
    pub fn drop_index(&mut self, index: &str) -> Result<()> {
        self.freeing(|txn| {
            txn.define(|handle, statement, changes| {
                handle.engine.catalog.drop_index(statement, changes, index)
            })
        })
    }

    /// Gives an index another name.
    pub fn rename_index(&mut self, index: &str, to: &str) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.rename_index(statement, changes, (index, to))
        })
    }

    /// Makes `columns` the primary key of a table that has none, by an index called `NAME_pkey`;
    /// they are never null from now on.
    ///
    /// # Errors
    /// `NotNullViolation` and `UniqueViolation` for rows that are there.
    pub fn add_primary_key(&mut self, table: &str, columns: &[&str]) -> Result<()> {
        self.add_primary_key_as(table, &format!("{table}_pkey"), columns)
    }

    /// As [`Transaction::add_primary_key`], with the index's name.
    pub fn add_primary_key_as(&mut self, table: &str, index: &str, columns: &[&str]) -> Result<()> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let entry = self.entry(table, LockMode::Access)?;
        let made = self.define(|handle, statement, changes| {
            let options = build_options(&handle.engine);
            let key = (table, index, columns.as_slice());
            handle.engine.catalog.add_primary_key(statement, changes, key, &options)
        });
        entry.table.naming(made)
    }

    /// Drops the primary key. Its columns stay as they are.
    pub fn drop_primary_key(&mut self, table: &str) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.drop_primary_key(statement, changes, table)
        })
    }

    /// Adds a nullable column; rows that are there read as null.
    pub fn add_column(&mut self, table: &str, column: &str, kind: Type) -> Result<()> {
        self.add_column_as(table, &ColumnSchema::new(column, kind).nullable())
    }

    /// Adds a column; rows that are there read as having its default, of which the time is that of
    /// this transaction. No row is written, unless the column is generated or a random uuid: then
    /// each gets a value of its own, and what [`Transaction::alter_column_type`] says holds.
    ///
    /// # Errors
    /// `NotNullViolation` where it may not be null, has no such default, and there are rows.
    pub fn add_column_as(&mut self, table: &str, column: &ColumnSchema) -> Result<()> {
        let mut drafted = draft::column(column, table)?;
        drafted.missing = match &column.default {
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
            return self.add_filled_column(table, drafted);
        }
        self.define(|handle, statement, changes| {
            handle.engine.catalog.add_column(statement, changes, (table, drafted))
        })
    }

    /// Adds a column with numbers of its sequence, or random uuids, in all rows.
    fn add_filled_column(&mut self, table: &str, column: Column) -> Result<()> {
        let ty = column.ty;
        let entry = self.entry(table, LockMode::Access)?;
        let made = self.define(|handle, statement, changes| {
            let options = build_options(&handle.engine);
            let mut fill = |txn: &mut txn::Transaction, own: Option<&Sequence>, rows: usize| {
                let Some(sequence) = own else {
                    return Ok((0..rows).map(|_| fill::random_uuid(&handle.engine)).collect());
                };
                let numbers = sequence.take(txn, rows)?.into_iter();
                Ok(numbers.map(|number| fill::number(ty, number)).collect())
            };
            let (catalog, added) = (&handle.engine.catalog, (table, column));
            catalog.add_filled_column(statement, changes, added, &mut fill, &options)
        });
        entry.table.naming(made)
    }

    /// Changes the type of a column to `to`. `convert` makes of each value that is not null one of
    /// the new type, or a null; it is asked about rows, the default, and the constants that checks
    /// and indexes of some rows compare the column with. A generated column goes on with its
    /// numbers.
    ///
    /// All rows are written anew and all indexes built anew, while everybody else waits for the
    /// table. Row ids of the table that were given out before are void. A transaction whose
    /// snapshot is older gets a conflict when it comes to the table.
    ///
    /// ```
    /// use rightlink::{Database, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// let schema = TableSchema::new("n").column("a", Type::Int4).primary_key(["a"]);
    /// txn.create_table(&schema).unwrap();
    /// txn.insert("n", &[Value::Int4(7)]).unwrap();
    /// let mut widen = |value: Value| match value {
    ///     Value::Int4(n) => Ok(Value::Int8(n.into())),
    ///     other => Ok(other),
    /// };
    /// txn.alter_column_type("n", "a", Type::Int8, &mut widen).unwrap();
    /// assert!(txn.get("n", &[Value::Int8(7)]).unwrap().is_some());
    /// ```
    ///
    /// # Errors
    /// Those of `convert`; violations by what it makes of rows; `Invalid` for a type that the
    /// default, the sequence, a check or an index of the column does not go with.
    pub fn alter_column_type(
        &mut self,
        table: &str,
        column: &str,
        to: Type,
        convert: &mut dyn FnMut(Value) -> Result<Value>,
    ) -> Result<()> {
        self.retype((table, column), (to, convert, None))
    }

    /// As [`Transaction::alter_column_type`], but what a row has in the column is what `of_row`
    /// makes of the row as it was, nulls included: the new value may depend on other columns.
    /// `convert` is asked about the other values only.
    pub fn alter_column_using(
        &mut self,
        table: &str,
        column: &str,
        to: Type,
        of_row: &mut dyn FnMut(&[Value]) -> Result<Value>,
        convert: &mut dyn FnMut(Value) -> Result<Value>,
    ) -> Result<()> {
        self.retype((table, column), (to, convert, Some(of_row)))
    }

    fn retype(
        &mut self,
        (table, column): (&str, &str),
        to: (Type, Convert<'_>, Option<OfRow<'_>>),
    ) -> Result<()> {
        let entry = self.entry(table, LockMode::Access)?;
        let made = self.define(|handle, statement, changes| {
            let options = build_options(&handle.engine);
            let (catalog, place) = (&handle.engine.catalog, (table, column));
            catalog.alter_column_type(statement, changes, place, to, &options)
        });
        entry.table.naming(made)
    }

    /// Drops a column that no index and no check uses.
    pub fn drop_column(&mut self, table: &str, column: &str) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.drop_column(statement, changes, (table, column))
        })
    }

    /// Gives a column another name.
    pub fn rename_column(&mut self, table: &str, column: &str, to: &str) -> Result<()> {
        self.alter_column(table, column, ColumnChange::Rename(to.to_owned()))
    }

    /// May the column be null from now on?
    ///
    /// # Errors
    /// `NotNullViolation` if it may not be and is, in a row that is there.
    pub fn set_nullable(&mut self, table: &str, column: &str, nullable: bool) -> Result<()> {
        self.alter_column(table, column, ColumnChange::Nullable(nullable))
    }

    /// What inserts give the column from now on that do not name it; `None`: null.
    pub fn set_default(
        &mut self,
        table: &str,
        column: &str,
        default: Option<ColumnDefault>,
    ) -> Result<()> {
        self.alter_column(table, column, ColumnChange::Default(default))
    }

    /// Lets a column that is there take its numbers from a new sequence of its own. Rows that are
    /// there keep theirs, and the sequence begins where `identity` says.
    ///
    /// ```
    /// use rightlink::{Database, IdentitySchema, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int4);
    /// txn.create_table(&schema).unwrap();
    /// let from_ten = IdentitySchema { start: 10, ..IdentitySchema::default() };
    /// txn.add_identity("n", "a", &from_ten).unwrap();
    /// txn.insert_columns("n", &["b"], &[vec![Value::Int4(1)]]).unwrap();
    /// let mut rows = txn.scan("n", &rightlink::ScanOptions::all()).unwrap();
    /// assert_eq!(rows.next().unwrap().unwrap().values[0], Value::Int8(10));
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` for a column that has a sequence; `Invalid` for one that may be null, has a
    /// default, or is of a type without whole numbers.
    pub fn add_identity(
        &mut self,
        table: &str,
        column: &str,
        identity: &IdentitySchema,
    ) -> Result<()> {
        let entry = self.entry(table, LockMode::Access)?;
        let def = entry.table.def();
        let kind = def.columns[usize::from(def.column_no(column)?)].ty;
        self.set_identity(table, column, Some(draft::identity(identity, kind, table, column)))
    }

    /// Takes the sequence of a column away. Its values stay.
    ///
    /// # Errors
    /// `Invalid` for a column that is not generated.
    pub fn drop_identity(&mut self, table: &str, column: &str) -> Result<()> {
        self.set_identity(table, column, None)
    }

    fn set_identity(
        &mut self,
        table: &str,
        column: &str,
        identity: Option<Identity>,
    ) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.set_identity(statement, changes, table, column, identity)
        })
    }

    fn alter_column(&mut self, table: &str, column: &str, change: ColumnChange) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.alter_column(statement, changes, (table, column), change)
        })
    }

    /// Adds a check: rows that `predicate` is false of are refused.
    ///
    /// # Errors
    /// `CheckViolation` for a row that is there.
    pub fn add_check(&mut self, table: &str, name: &str, predicate: Predicate) -> Result<()> {
        let entry = self.entry(table, LockMode::Access)?;
        let schema = CheckSchema { name: name.to_owned(), predicate };
        let check = draft::check(&schema, entry.table.def())?;
        self.define(|handle, statement, changes| {
            handle.engine.catalog.add_check(statement, changes, (table, check))
        })
    }

    /// Drops a check.
    pub fn drop_check(&mut self, table: &str, name: &str) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.drop_check(statement, changes, (table, name))
        })
    }

    /// Replaces what a layer above keeps with a table: see [`TableSchema::note`].
    pub fn set_note(&mut self, table: &str, note: &str) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.set_note(statement, changes, (table, note))
        })
    }

    /// Replaces what a layer above keeps with a column.
    pub fn set_column_note(&mut self, table: &str, column: &str, note: &str) -> Result<()> {
        self.alter_column(table, column, ColumnChange::Note(note.to_owned()))
    }

    /// Sets when a table is vacuumed without anybody asking for it.
    pub fn set_auto_vacuum(&mut self, table: &str, when: AutoVacuum) -> Result<()> {
        self.define(|handle, statement, changes| {
            handle.engine.catalog.set_auto_vacuum(statement, changes, (table, when))
        })
    }

    /// Creates a sequence that belongs to no column.
    pub fn create_sequence(&mut self, schema: &SequenceSchema) -> Result<()> {
        let def = SequenceDef::from(schema.clone());
        self.define(|handle, statement, changes| {
            handle.engine.catalog.create_sequence(statement, changes, &def)
        })
    }

    /// Keeps a text under a name with the database, in place of the one that was there; `None`:
    /// none any more. It is stored for layers above and never read here.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// txn.keep("purpose", Some("tickets")).unwrap();
    /// assert_eq!(txn.kept("purpose").unwrap().as_deref(), Some("tickets"));
    /// ```
    ///
    /// # Errors
    /// `Limit` for a text of more than 4,096 bytes.
    pub fn keep(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.lock_kept(self.running()?)?;
        self.define(|handle, statement, _| handle.engine.catalog.keep_text(statement, name, text))
    }

    /// What [`Transaction::keep`] has kept under a name.
    pub fn kept(&mut self, name: &str) -> Result<Option<String>> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.kept(self.running()?, name)
    }

    /// Keeps a collation under its name, for layers above that look collations up. Columns and
    /// indexes need none that is kept.
    pub fn create_collation(&mut self, collation: &Collation) -> Result<()> {
        self.define(|handle, statement, _| {
            handle.engine.catalog.create_collation(statement, collation)
        })
    }

    /// Forgets a collation, which no column and no index must have.
    pub fn drop_collation(&mut self, name: &str) -> Result<()> {
        self.define(|handle, statement, _| handle.engine.catalog.drop_collation(statement, name))
    }

    /// The collation that was created under this name.
    pub fn collation(&mut self, name: &str) -> Result<Option<Collation>> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.collation(self.running()?, name)
    }

    /// All collations that were created, by name.
    pub fn collations(&mut self) -> Result<Vec<Collation>> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.collations(self.running()?)
    }

    /// Drops a sequence that belongs to no column.
    pub fn drop_sequence(&mut self, name: &str) -> Result<()> {
        self.freeing(|txn| {
            txn.define(|handle, statement, changes| {
                handle.engine.catalog.drop_sequence(statement, changes, name)
            })
        })
    }

    /// The next number of a sequence, also of a generated column's. It is not handed out again,
    /// even if this transaction rolls back; a crash may take numbers that only transactions without
    /// a commit have got.
    ///
    /// # Errors
    /// `Limit` when there is none left.
    pub fn next_value(&mut self, sequence: &str) -> Result<i64> {
        let handle = Arc::clone(&self.handle);
        self.admit()?;
        let txn = self.running()?;
        let numbers = handle.engine.catalog.sequence(txn, sequence)?.take(txn, 1)?;
        Ok(numbers[0])
    }

    /// Lets a sequence go on with `next`, or begin again: like other definitions, for others when
    /// this transaction commits, and not at all if it rolls back. Others who use the sequence, or
    /// the table that it belongs to, wait.
    pub fn redefine_sequence(&mut self, sequence: &str, next: Option<i64>) -> Result<()> {
        self.alter_sequence(sequence, &mut |known, _| {
            let value = next.unwrap_or(known.schema.start);
            Ok((known.schema.clone(), SequencePosition { value, drawn: false }))
        })
    }

    /// Changes what a sequence is and where it is, as [`Transaction::redefine_sequence`] does:
    /// `change` makes of the definition and the position that it has the ones that it gets. It
    /// keeps its name, and no other's numbers come between.
    ///
    /// ```
    /// # use rightlink::{Database, SequenceSchema};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// txn.create_sequence(&SequenceSchema::new("turns")).unwrap();
    /// assert_eq!(txn.next_value("turns").unwrap(), 1);
    /// let mut change = |known: &rightlink::SequenceDefinition, at| {
    ///     Ok((known.schema.clone().max(2).cycle(), at))
    /// };
    /// txn.alter_sequence("turns", &mut change).unwrap();
    /// assert_eq!(txn.next_value("turns").unwrap(), 2);
    /// assert_eq!(txn.next_value("turns").unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// Those of `change`; `Invalid` for a position that the new definition does not have, and for
    /// numbers that the column whose sequence it is cannot hold.
    pub fn alter_sequence(&mut self, sequence: &str, change: SequenceChange<'_>) -> Result<()> {
        // Before the statement begins: what others have changed while it waits it would not see.
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.lock_sequence(self.running()?, sequence)?;
        self.define(|handle, statement, changes| {
            let mut change =
                |found: &FoundSequence, at| -> Result<(SequenceDef, SequencePosition)> {
                    let (schema, at) = change(&definition(found), at)?;
                    Ok((SequenceDef { name: found.stored.def.name.clone(), ..schema.into() }, at))
                };
            handle.engine.catalog.alter_sequence(statement, changes, (sequence, &mut change))
        })
    }

    /// Gives a sequence another name, also one of a column. It goes on where it was.
    ///
    /// # Errors
    /// `AlreadyExists` if something has the name.
    pub fn rename_sequence(&mut self, sequence: &str, to: &str) -> Result<()> {
        // As where it is altered.
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.lock_sequence(self.running()?, sequence)?;
        self.define(|handle, statement, changes| {
            let mut change =
                |found: &FoundSequence, at| -> Result<(SequenceDef, SequencePosition)> {
                    Ok((SequenceDef { name: to.to_owned(), ..found.stored.def.clone() }, at))
                };
            handle.engine.catalog.alter_sequence(statement, changes, (sequence, &mut change))
        })
    }

    /// The sequences that this transaction sees, by name, those of columns included.
    pub fn sequences(&mut self) -> Result<Vec<SequenceDefinition>> {
        let handle = Arc::clone(&self.handle);
        let found = handle.engine.catalog.sequences(self.running()?)?;
        Ok(found.iter().map(definition).collect())
    }

    /// Where a sequence is. It stays until this transaction ends.
    pub fn sequence_position(&mut self, sequence: &str) -> Result<SequencePosition> {
        let handle = Arc::clone(&self.handle);
        let txn = self.running()?;
        handle.engine.catalog.sequence(txn, sequence)?.position()
    }

    /// Lets a sequence go on with `next`, at once and for everybody, also if this transaction rolls
    /// back: for rows that brought their own numbers.
    pub fn restart_sequence(&mut self, sequence: &str, next: i64) -> Result<()> {
        let handle = Arc::clone(&self.handle);
        self.admit()?;
        let txn = self.running()?;
        handle.engine.catalog.sequence(txn, sequence)?.restart(txn, next)
    }
}

impl Database {
    /// All committed sequences, by name, those of columns included.
    pub fn sequences(&self) -> Result<Vec<SequenceInfo>> {
        let engine = self.engine();
        engine.check_open()?;
        let mut found = Vec::new();
        for free in engine.catalog.free_sequences()? {
            found.push((free.file, free.def, None));
        }
        for def in engine.catalog.definitions()? {
            for column in &def.columns {
                let Some(identity) = &column.identity else { continue };
                let owner = Some((def.name.clone(), column.name.clone()));
                found.push((identity.file, identity.def.clone(), owner));
            }
        }
        let mut infos = Vec::with_capacity(found.len());
        for (file, def, owner) in found {
            let stored = engine.catalog.open_sequence(file, &def)?.stored()?;
            infos.push(SequenceInfo { schema: def.into(), owner, reserved_to: stored.next });
        }
        infos.sort_by(|a, b| a.schema.name.cmp(&b.schema.name));
        Ok(infos)
    }
}

fn definition(found: &FoundSequence) -> SequenceDefinition {
    let StoredSequence { id, def, .. } = &found.stored;
    let owner = found.owner.clone();
    SequenceDefinition { id: id.0, schema: def.clone().into(), owner }
}

fn build_options(engine: &Engine) -> BuildOptions<'_> {
    let memory = engine.env.budget.limit() / 8;
    BuildOptions { budget: &engine.env.budget, temp: &engine.temp, memory }
}
