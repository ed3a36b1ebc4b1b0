//! Long values on their way into overflow pages: which values go there, how they are streamed in,
//! and when no version names them any more.
//!
//! A value of over a quarter of a page goes, and the longest of the others as long as the row does
//! not fit a page. Columns of indexes stay: keys are made from rows alone, also of dead ones. An
//! update names the long values again that it leaves alone, and copies none.
//!
//! Invariants: a value is in its pages before its row names it. A value that is written as a whole
//! is at most a sixteenth of the budget; longer ones are written as streams only.
//! Does not do: overflow pages and their map (`heap::overflow`).
//! PostgreSQL: `heap_toast_insert_or_update` in `access/heap/heaptoast.c`.

use rightlink_env::Budget;
use rightlink_env::points::hit;

use crate::config::MAX_VALUE_BYTES;
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::heap::overflow::{Overflow, OverflowPointer, OverflowWriter, SweepMarks, Swept};
use crate::ids::{RowId, Xid};
use crate::keycode::Malformed;
use crate::txn::{Isolation, LockMode};

use crate::table::Table;
use crate::table::definition::row;
use crate::table::definition::schema::ColumnNo;
use crate::table::write::Written;
use crate::table::write::statement::Statement;
use crate::table::write::update::OldRow;

/// A streamed value up to this length is kept in its row.
const SHORT: usize = 1024;

/// A value that is streamed in: the first bytes, then an overflow chain.
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
            hit("table.long.marked");
            let more = store.sweep(&marks, horizon, go_on)?;
            (swept.chains, swept.pages) = (swept.chains + more.chains, swept.pages + more.pages);
            from = marks.range().end;
        }
        Ok(swept)
    }

    /// Begins to write a value of a column.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column is neither text nor bytes, or an index or a check asks for its
    /// value.
    pub fn begin_long(&self, statement: &mut Statement<'_>, no: ColumnNo) -> Result<LongWriter> {
        self.def.refuse_computed()?;
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
        self.update_with(statement, row, Some(&[place]), &mut change, long)
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
