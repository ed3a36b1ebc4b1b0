//! Values as streams: those that are too long to be held in memory as a whole.
//!
//! Invariants: a value that is read is that of one snapshot, whatever happens meanwhile, and no
//! longer than its transaction; one that is written is there when [`ValueWriter::finish`] says so,
//! and else leaves nothing that anybody sees.
//! Does not do: parts of values, values of other types than text and bytes.

use std::io;

use rightlink_env::sync::Arc;

use crate::catalog::Entry;
use crate::db::rows::Alive;
use crate::db::transaction::Transaction;
use crate::error::Result;
use crate::ids::RowId;
use crate::table::{LongReader, LongWriter, Statement, Written};
use crate::txn::LockMode;

/// Bytes of a value, from its beginning. See [`Transaction::read_value`]. It ends as [`Rows`] do.
///
/// ```
/// use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # txn.create_table(&TableSchema::new("film").column("data", Type::Bytes))?;
/// let id = txn.insert("film", &[Value::Bytes(vec![7; 1000])])?;
/// let mut reader = txn.read_value("film", id, "data")?.expect("the row is there");
/// let mut piece = [0; 300];
/// assert_eq!((reader.len(), reader.read_some(&mut piece)?), (1000, 300));
/// # Ok(())
/// # }
/// ```
///
/// [`Rows`]: crate::Rows
pub struct ValueReader {
    alive: Alive,
    entry: Arc<Entry>,
    value: LongReader,
}

/// Takes the bytes of a value. See [`Transaction::write_value`].
///
/// ```
/// use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # txn.create_table(&TableSchema::new("film").nullable("data", Type::Bytes))?;
/// let id = txn.insert("film", &[Value::Null])?;
/// let mut writer = txn.write_value("film", id, "data")?;
/// writer.push(&[7; 500])?;
/// writer.push(&[8; 500])?;
/// assert!(writer.finish()?);
/// # Ok(())
/// # }
/// ```
pub struct ValueWriter<'t> {
    statement: Statement<'t>,
    entry: Arc<Entry>,
    row: RowId,
    value: LongWriter,
}

impl Transaction {
    /// The value of a column of the row at `id`, of type text or bytes, to be read as a stream;
    /// `None` if the row is gone or the value is null. Values beyond a sixteenth of the memory
    /// budget can be read in no other way.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use rightlink::{Database, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// let schema = TableSchema::new("film").column("id", Type::Int8).primary_key(["id"]);
    /// txn.create_table(&schema.nullable("film", Type::Bytes)).unwrap();
    /// let id = txn.insert("film", &[Value::Int8(1), Value::Null]).unwrap();
    /// let mut writer = txn.write_value("film", id, "film").unwrap();
    /// for frame in 0..100u8 {
    ///     writer.write_all(&[frame; 1000]).unwrap();
    /// }
    /// assert!(writer.finish().unwrap());
    /// let mut reader = txn.read_value("film", id, "film").unwrap().unwrap();
    /// assert_eq!(reader.len(), 100_000);
    /// let mut first = [0; 1001];
    /// reader.read_exact(&mut first).unwrap();
    /// assert_eq!(first[998..], [0, 0, 1]);
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a column of another type.
    pub fn read_value(
        &mut self,
        table: &str,
        id: RowId,
        column: &str,
    ) -> Result<Option<ValueReader>> {
        let entry = self.entry(table, LockMode::Access)?;
        let no = entry.table.def().column_no(column)?;
        let value = entry.table.read_long(self.running()?, id, no);
        let alive = self.alive();
        let value = entry.table.naming(value)?;
        Ok(value.map(|value| ValueReader { alive, entry, value }))
    }

    /// Takes a new value for a column of the row at `id`, of type text or bytes, as a stream: up to
    /// 1 GiB. It is one statement, which ends with [`ValueWriter::finish`]; dropped before that, it
    /// changes nothing.
    ///
    /// # Errors
    /// `Invalid` for a column of another type, or one that an index or a check uses.
    pub fn write_value(&mut self, table: &str, id: RowId, column: &str) -> Result<ValueWriter<'_>> {
        let entry = self.entry(table, LockMode::Write)?;
        let no = entry.table.def().column_no(column)?;
        let mut statement = self.statement()?;
        let value = entry.table.naming(entry.table.begin_long(&mut statement, no))?;
        Ok(ValueWriter { statement, entry, row: id, value })
    }
}

impl ValueReader {
    /// Length of the whole value in bytes.
    pub fn len(&self) -> u64 {
        self.value.total()
    }

    /// True if the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` from the front as far as it goes; 0 at the end of the value.
    pub fn read_some(&mut self, out: &mut [u8]) -> Result<usize> {
        let Self { alive, entry, value } = self;
        alive.reading("a value that is read", || entry.table.naming(value.read(out)))
    }
}

impl io::Read for ValueReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_some(out).map_err(io::Error::other)
    }
}

impl ValueWriter<'_> {
    /// Appends bytes to the value.
    ///
    /// # Errors
    /// `Limit` if it becomes longer than 1 GiB, `Invalid` if it is text and not UTF-8. The value
    /// cannot be finished then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let (entry, value) = (&self.entry, &mut self.value);
        let pushed = self.statement.write(|statement| value.push(statement, bytes));
        entry.table.naming(pushed)
    }

    /// Ends the value and gives it to its row. False if the row is gone. Conflicts are those of
    /// [`Transaction::update`].
    pub fn finish(self) -> Result<bool> {
        let Self { mut statement, entry, row, value } = self;
        let written = entry.table.finish_long(&mut statement, row, value);
        Ok(matches!(entry.table.naming(written)?, Written::Done(_)))
    }
}

impl io::Write for ValueWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map(|()| bytes.len()).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
