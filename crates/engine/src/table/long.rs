//! Values that do not fit their rows: which ones go to overflow pages, how they come back, and when
//! nobody names them any more.
//!
//! A value of over a quarter of a page goes, and the longest of the others as long as the row does
//! not fit a page. Columns of indexes stay: keys are made from rows alone, also of dead ones. Long
//! values that an update leaves alone are named again, not copied.
//!
//! Invariants: a value is in its pages before its row names it; a value in memory is at most a
//! sixteenth of the budget, longer ones are read and written as streams only.
//! Does not do: pages and their map (`heap::overflow`).

use rightlink_env::Budget;
use rightlink_env::sync::Arc;

use crate::config::MAX_VALUE_BYTES;
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::heap::overflow::{
    Overflow, OverflowPointer, OverflowReader, OverflowWriter, SweepMarks, Swept,
};
use crate::ids::{RowId, Xid};
use crate::keycode::Malformed;
use crate::txn::{Isolation, LockMode, RowVersion, Snapshot, Transaction};

use super::Table;
use super::row::{self, Projection, ReadError};
use super::schema::{ColumnNo, IndexDef};
use super::statement::Statement;
use super::update::OldRow;
use super::write::Written;

/// Part of the memory budget that one value may take.
const MEMORY_SHARE: usize = 16;
/// A streamed value up to this length is kept in its row.
const SHORT: usize = 1024;

impl Table {
    /// Longest value that is read and written as a whole.
    fn whole_limit(&self) -> usize {
        (self.pool.budget().limit() / MEMORY_SHARE).min(MAX_VALUE_BYTES as usize)
    }

    /// The columns of `projection` of the version at `at`.
    pub(super) fn read(&self, wanted: &Projection, at: RowId, bytes: &[u8]) -> Result<Vec<Value>> {
        self.read_if(wanted, at, bytes, &mut |_, _| true)
    }

    /// All live columns of the version at `at`.
    pub(super) fn read_row(&self, at: RowId, bytes: &[u8]) -> Result<Vec<Value>> {
        self.read(&self.all, at, bytes)
    }

    /// All live columns, but of long values only those that the indexes use; nulls for the others.
    pub(super) fn read_for(
        &self,
        indexes: &[&IndexDef],
        at: RowId,
        bytes: &[u8],
    ) -> Result<Vec<Value>> {
        let used = |no| indexes.iter().any(|index| index.touches(no));
        self.read_if(&self.all, at, bytes, &mut |no, _| used(no))
    }

    /// The columns of `wanted`, of long values those that `loads` wants, nulls for the others.
    fn read_if(
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
        read.map_err(|error| match error {
            ReadError::Malformed(what) => self.damaged_row(at, what),
            ReadError::Failed(error) => error,
        })
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

    /// A row to be replaced. As [`Table::update_only`] if `only` is given.
    pub(super) fn read_old<'r>(
        &self,
        at: RowId,
        bytes: &'r [u8],
        only: Option<&[usize]>,
    ) -> Result<OldRow<'r>> {
        let (mut unread, mut is_countable) = (Vec::new(), true);
        let Some(only) = only else {
            return Ok(OldRow { bytes, values: self.read_row(at, bytes)?, unread, is_countable });
        };
        let limit = self.whole_limit();
        let values = self.read_if(&self.all, at, bytes, &mut |no, stored| {
            // An index that is only counted in is not among those of the definition.
            let counted = self.is_counted(no);
            let used = self.is_used(no) || counted && stored.len as usize <= limit;
            is_countable &= used || !counted;
            if !used && !only.contains(&self.def.place(no)) {
                unread.push(self.def.place(no));
            }
            used
        })?;
        Ok(OldRow { bytes, values, unread, is_countable })
    }

    /// Do entries of an index depend on this column?
    fn is_used(&self, no: ColumnNo) -> bool {
        self.indexes.iter().any(|index| index.def.touches(no))
    }

    /// The long values of `old` that `new` leaves as they are.
    pub(super) fn unchanged(
        &self,
        old: &OldRow<'_>,
        new: &[Value],
    ) -> Result<Vec<(usize, OverflowPointer)>> {
        let mut same = Vec::new();
        let read = row::long_values(&self.def, old.bytes, &mut |no, stored| {
            let place = self.def.place(no);
            let bytes = (row::long_bytes(&old.values[place]), row::long_bytes(&new[place]));
            let equal = bytes.0.is_some() && bytes.0 == bytes.1;
            if equal || old.unread.contains(&place) {
                same.push((place, stored));
            }
        });
        // Its bytes were read before.
        read.map_err(|what| self.damaged_row(RowId::default(), what)).map(|()| same)
    }

    /// Places of the values of a row that must go to overflow pages, those in `stored` being there,
    /// and the bytes of the row, in which they have no names yet.
    pub(super) fn plan_row(
        &self,
        values: &[Value],
        stored: &[(usize, OverflowPointer)],
    ) -> Result<(Vec<usize>, Vec<u8>)> {
        let none = self.overflow.is_none();
        let stays = |no| none || self.is_used(no);
        let out = row::outside(&self.def, values, stored, &stays);
        let limit = self.whole_limit();
        for place in &out {
            let len = row::long_bytes(&values[*place]).map_or(0, <[u8]>::len);
            if len > limit {
                let (_, column) = self.def.live().nth(*place).expect("a live place");
                let what = format!(
                    "a value of {len} bytes for column {} of table {}",
                    column.name, self.def.name
                );
                let why = match len > MAX_VALUE_BYTES as usize {
                    true => format!("values have at most {MAX_VALUE_BYTES}"),
                    false => {
                        format!("it is written as a stream; at most {limit} are written as a whole")
                    }
                };
                return Err(Error::Limit(format!("{what}: {why}")));
            }
        }
        let name = OverflowPointer { first: 0, len: 0, creator: Xid::NONE };
        let all: Vec<_> = stored.iter().copied().chain(out.iter().map(|at| (*at, name))).collect();
        row::encode_with(&self.def, values, &all).map(|bytes| (out, bytes))
    }

    /// The bytes of a row, whose long values are stored first.
    pub(super) fn encode_row(
        &self,
        xid: Xid,
        values: &[Value],
        stored: &[(usize, OverflowPointer)],
    ) -> Result<Vec<u8>> {
        let (out, bytes) = self.plan_row(values, stored)?;
        if out.is_empty() {
            return Ok(bytes);
        }
        let mut stored = stored.to_vec();
        for place in out {
            let store = self.overflow.as_ref().expect("only then values go out");
            let bytes = row::long_bytes(&values[place]).expect("a value without a fixed length");
            stored.push((place, store.store(xid, bytes)?));
        }
        row::encode_with(&self.def, values, &stored)
    }

    /// Gives back long values that no version of any row names. No definition changes meanwhile.
    /// `go_on` is told of pages and may end it.
    pub fn sweep_values(
        &self,
        budget: &Budget,
        go_on: &dyn Fn(u32) -> Result<()>,
    ) -> Result<Swept> {
        let mut swept = Swept::default();
        let Some(store) = self.overflow.as_ref().filter(|store| store.blocks() > 1) else {
            return Ok(swept);
        };
        // From here on nothing leaves the heap that this snapshot sees.
        let txn = self.txns.begin(Isolation::ReadCommitted);
        let _snapshot = txn.latest_snapshot();
        let horizon = self.txns.horizon();
        let mut from = 0;
        while from < store.blocks() {
            let mut marks = SweepMarks::new(budget, from, store.blocks());
            let mut mark = |at: RowId, bytes: &[u8]| {
                let marked = row::long_values(&self.def, bytes, &mut |_, value| marks.mark(value));
                marked.map_err(|what| self.damaged_row(at, what))
            };
            self.heap.visit_versions(&mut mark, go_on)?;
            rightlink_env::points::hit("table.long.marked");
            let more = store.sweep(&marks, horizon, go_on)?;
            (swept.chains, swept.pages) = (swept.chains + more.chains, swept.pages + more.pages);
            from = marks.range().end;
        }
        Ok(swept)
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
}

/// A value on its way out.
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

/// A value on its way in: the first bytes, then a chain.
pub struct LongWriter {
    store: Option<Overflow>,
    place: usize,
    ty: Type,
    start: Vec<u8>,
    chain: Option<OverflowWriter>,
    /// Of text, the bytes at the end that are not a whole character yet.
    partial: Vec<u8>,
    limit: usize,
}

impl Table {
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
    fn streamed(&self, no: ColumnNo) -> Result<Type> {
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

    /// Begins to write a value of a column.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column is neither text nor bytes, or an index or a check asks for its
    /// value.
    pub fn begin_long(&self, statement: &mut Statement<'_>, no: ColumnNo) -> Result<LongWriter> {
        let ty = self.streamed(no)?;
        let asked = self.def.checks.iter().any(|check| check.predicate.names(no));
        if asked || self.is_used(no) || self.is_counted(no) {
            let (name, table) = (&self.def.live_column(no)?.name, &self.def.name);
            let what = format!(
                "column {name} of table {table} is used by an index or a check: its values are \
                 written as a whole"
            );
            return Err(Error::Invalid(what));
        }
        statement.txn().lock_table(self.def.id, LockMode::Write)?;
        let (place, limit) = (self.def.place(no), self.whole_limit());
        let (store, start) = (self.overflow.clone(), Vec::new());
        Ok(LongWriter { store, place, ty, start, chain: None, partial: Vec::new(), limit })
    }

    /// Makes what was written the value of the row at `row`.
    pub fn finish_long(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        writer: LongWriter,
    ) -> Result<Written> {
        let LongWriter { place, ty, start, chain, partial, .. } = writer;
        if !partial.is_empty() {
            return Err(Error::Invalid("a text that ends inside a character".into()));
        }
        let long = chain.map(OverflowWriter::finish).transpose()?.map(|stored| (place, stored));
        let value = match long {
            Some(_) => Value::Null,
            None => row::value_of(ty, &start)
                .map_err(|Malformed(what)| Error::Invalid(what.to_owned()))?,
        };
        let mut change = |_, old: &[Value]| {
            let mut new = old.to_vec();
            new[place] = value.clone();
            Ok(Some(new))
        };
        self.update_with(statement, row, (Some(&[place]), &mut change), long)
    }
}

impl LongWriter {
    /// Appends to the value.
    ///
    /// # Errors
    /// `Limit` if it becomes longer than 1 GiB, `Invalid` if it is text and no UTF-8.
    pub fn push(&mut self, statement: &mut Statement<'_>, bytes: &[u8]) -> Result<()> {
        if self.ty == Type::Text {
            self.check_text(bytes)?;
        }
        if let Some(chain) = &mut self.chain {
            return chain.push(bytes);
        }
        let len = self.start.len() + bytes.len();
        match &self.store {
            Some(store) if len > SHORT => {
                let mut chain = store.write(statement.txn().xid()?, len)?;
                chain.push(&self.start)?;
                self.start = Vec::new();
                chain.push(bytes)?;
                self.chain = Some(chain);
            }
            None if len > self.limit => {
                return Err(Error::Limit(format!("a value of more than {} bytes", self.limit)));
            }
            _ => self.start.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Is what came so far the beginning of a text?
    fn check_text(&mut self, bytes: &[u8]) -> Result<()> {
        let invalid = || Error::Invalid("a text that is not UTF-8".into());
        let mut rest = bytes;
        // A character that began before: byte by byte until it is whole.
        while !self.partial.is_empty()
            && let Some((next, left)) = rest.split_first()
        {
            self.partial.push(*next);
            rest = left;
            match std::str::from_utf8(&self.partial) {
                Ok(_) => self.partial.clear(),
                Err(error) if error.error_len().is_some() => return Err(invalid()),
                Err(_) => {}
            }
        }
        match std::str::from_utf8(rest) {
            Err(error) if error.error_len().is_some() => return Err(invalid()),
            Err(error) => self.partial = rest[error.valid_up_to()..].to_vec(),
            Ok(_) => {}
        }
        Ok(())
    }
}
