//! Stored versions as values: the wanted columns are decoded, and long values come from overflow
//! pages, as a whole or as a stream.
//!
//! Invariants: a value in memory is at most a sixteenth of the budget; longer ones are read as
//! streams only. A stream keeps the snapshot that sees its row, so its pages stay.
//! Does not do: overflow pages and their map (`heap::overflow`); decode rows (`row`).
//! PostgreSQL: `detoast_attr` in `access/common/detoast.c`.

use rightlink_env::sync::Arc;

use crate::config::MAX_VALUE_BYTES;
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::heap::overflow::{OverflowPointer, OverflowReader};
use crate::ids::RowId;
use crate::keycode::Malformed;
use crate::txn::{RowVersion, Snapshot, Transaction};

use crate::table::Table;
use crate::table::definition::row::{self, Projection, ReadError};
use crate::table::definition::row_visitor::RowVisitor;
use crate::table::definition::schema::{ColumnNo, IndexDef};

/// Part of the memory budget that one value may take.
const MEMORY_SHARE: usize = 16;

impl Table {
    /// Longest value that is read and written as a whole.
    pub(in crate::table) fn whole_limit(&self) -> usize {
        (self.pool.budget().limit() / MEMORY_SHARE).min(MAX_VALUE_BYTES as usize)
    }

    /// The columns of `projection` of the version at `at`.
    pub(in crate::table) fn read(
        &self,
        wanted: &Projection,
        at: RowId,
        bytes: &[u8],
    ) -> Result<Vec<Value>> {
        self.read_if(wanted, at, bytes, &mut |_, _| true)
    }

    /// All live columns of the version at `at`.
    pub(in crate::table) fn read_row(&self, at: RowId, bytes: &[u8]) -> Result<Vec<Value>> {
        self.read(&self.all, at, bytes)
    }

    /// All live columns, but of long values only those that the indexes use; nulls for the others.
    pub(in crate::table) fn read_for(
        &self,
        indexes: &[&IndexDef],
        at: RowId,
        bytes: &[u8],
    ) -> Result<Vec<Value>> {
        let used = |no| indexes.iter().any(|index| index.touches(no));
        self.read_if(&self.all, at, bytes, &mut |no, _| used(no))
    }

    /// The columns of `wanted`, of long values those that `loads` wants, nulls for the others.
    pub(in crate::table) fn read_if(
        &self,
        wanted: &Projection,
        at: RowId,
        bytes: &[u8],
        loads: &mut dyn FnMut(ColumnNo, OverflowPointer) -> bool,
    ) -> Result<Vec<Value>> {
        let read = wanted.read_with(&self.def, bytes, &mut |no, stored| match loads(no, stored) {
            true => self.load_long(no, stored),
            false => Ok(Value::Null),
        });
        read.map_err(|error| self.unreadable(at, error))
    }

    /// Hands the columns of `wanted` of the version at `at` to `visitor`.
    #[inline]
    pub(in crate::table) fn visit(
        &self,
        wanted: &Projection,
        at: RowId,
        bytes: &[u8],
        visitor: &mut impl RowVisitor,
    ) -> Result<()> {
        let mut load = |no, stored| self.load_long(no, stored);
        let read = wanted.visit(&self.def, bytes, &mut load, visitor);
        read.map_err(|error| self.unreadable(at, error))
    }

    #[cold]
    fn unreadable(&self, at: RowId, error: ReadError) -> Error {
        match error {
            ReadError::Malformed(what) => self.damaged_row(at, what),
            ReadError::Failed(error) => error,
        }
    }

    /// A long value as a whole.
    fn load_long(
        &self,
        no: ColumnNo,
        stored: OverflowPointer,
    ) -> std::result::Result<Value, ReadError> {
        let column = &self.def.columns[usize::from(no)];
        let limit = self.whole_limit();
        if stored.len as usize > limit {
            let (name, table, len) = (&column.name, &self.def.name, stored.len);
            let what = format!(
                "the value of {len} bytes in column {name} of table {table} is read as a stream; \
                 at most {limit} are read as a whole"
            );
            return Err(ReadError::Failed(Error::Limit(what)));
        }
        let store = self.overflow.as_ref().ok_or(Malformed("a long value without a file"))?;
        let bytes = store.load(stored).map_err(ReadError::Failed)?;
        Ok(row::value_of(column.ty, &bytes)?)
    }

    /// Do entries of an index depend on this column?
    pub(in crate::table) fn is_used(&self, no: ColumnNo) -> bool {
        self.indexes.iter().any(|index| index.def.touches(no))
    }

    /// Checks the long values of a version that a snapshot sees, and reads what its indexes need of
    /// it (for verification). What is wrong with its bytes is told as an `Err` inside.
    pub fn check_row_bytes(
        &self,
        bytes: &[u8],
    ) -> Result<std::result::Result<Vec<Value>, Malformed>> {
        if let Err(what) = row::strictly(&self.def, bytes) {
            return Ok(Err(what));
        }
        let mut long = Vec::new();
        if let Err(what) = row::long_values(&self.def, bytes, &mut |_, value| long.push(value)) {
            return Ok(Err(what));
        }
        for value in long {
            match &self.overflow {
                Some(store) => store.check(value)?,
                None => return Ok(Err(Malformed("a long value without a file"))),
            }
        }
        let all = Projection::all(&self.def);
        let read = all.read_with(&self.def, bytes, &mut |no, stored| match self.is_used(no) {
            true => self.load_long(no, stored),
            false => Ok(Value::Null),
        });
        match read {
            Ok(values) => Ok(Ok(values)),
            Err(ReadError::Malformed(what)) => Ok(Err(what)),
            Err(ReadError::Failed(error)) => Err(error),
        }
    }

    /// Begins to read the value of a column; `None` if the row is gone or the value is null. The
    /// row is looked for as for a write.
    pub fn read_long(
        &self,
        txn: &mut Transaction,
        row: RowId,
        no: ColumnNo,
    ) -> Result<Option<LongReader>> {
        self.streamed(no)?;
        let snapshot = txn.begin_statement()?;
        let row = txn.current_row_id(RowVersion { table: self.def.id, row });
        let seen = self.heap.fetch_version(&snapshot, row)?.map(|(_, bytes)| bytes);
        let bytes = match seen {
            Some(bytes) => Some(bytes),
            // Changed since: the newest version, as for a write.
            None if self.heap.fetch_handed_out(txn, row)?.is_some() => {
                let newest = self.heap.newest_version(row, None, &|by| txn.owns(by))?;
                newest.map(|(_, bytes)| bytes)
            }
            None => None,
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let mut found = None;
        let wanted = Projection::new(&self.def, &[no])?;
        let values = self.read_if(&wanted, row, &bytes, &mut |_, stored| {
            found = Some(stored);
            false
        })?;
        let from = match (found, &self.overflow) {
            (Some(stored), Some(store)) => Source::Pages(Box::new(store.read(stored))),
            _ => match row::long_bytes(&values[0]) {
                Some(bytes) => Source::Row(std::io::Cursor::new(bytes.to_vec())),
                None => return Ok(None),
            },
        };
        Ok(Some(LongReader { from, snapshot }))
    }

    /// Is this a column of text or bytes?
    pub(in crate::table) fn streamed(&self, no: ColumnNo) -> Result<Type> {
        let column = self.def.live_column(no)?;
        match column.ty {
            Type::Text | Type::Bytes => Ok(column.ty),
            ty => {
                let (name, table) = (&column.name, &self.def.name);
                let what = format!("column {name} of table {table} is {ty}: not read by streams");
                Err(Error::Invalid(what))
            }
        }
    }
}

/// A value that is streamed out.
pub struct LongReader {
    from: Source,
    /// Sees the row, and keeps its pages from being given back.
    snapshot: Arc<Snapshot>,
}

enum Source {
    Row(std::io::Cursor<Vec<u8>>),
    Pages(Box<OverflowReader>),
}

impl LongReader {
    /// Bytes of the value.
    pub fn total(&self) -> u64 {
        match &self.from {
            Source::Row(bytes) => bytes.get_ref().len() as u64,
            Source::Pages(reader) => u64::from(reader.total()),
        }
    }

    /// Fills `out` from the front as far as it goes; 0 at the end.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let read = match &mut self.from {
            Source::Row(bytes) => Ok(std::io::Read::read(bytes, out).expect("memory is read")),
            Source::Pages(reader) => reader.fill().map(|_| {
                let len = reader.rest().len().min(out.len());
                out[..len].copy_from_slice(&reader.rest()[..len]);
                reader.consume(len);
                len
            }),
        };
        // What was read by a snapshot that became too old may be anything.
        self.snapshot.check()?;
        read
    }
}
