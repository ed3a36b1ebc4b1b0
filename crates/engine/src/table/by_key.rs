//! Reading by a whole key without a scan: one descent, the few row ids copied out of the leaf, each
//! row from its heap page; row ids of one block that follow each other are looked at under one
//! latch.
//!
//! What is out of the common way is left to a scan, which begins behind the rows that were handed
//! over: entries that go on in other leaves or are many, rows whose pages had better be read
//! together, dead entries that are to be marked, marks and turns.
//!
//! A row that is written all the time has an entry for each version that a pruning has yet to come
//! to. Those that some snapshot may still see are met again and again, whoever meets them: a scan
//! would find as much, under latches and with more work. So it takes over only where there is
//! something to mark: where more than an eighth of the entries met are dead to everyone.
//!
//! Invariants: the row ids were copied under one version of the leaf and are followed under a
//! registered snapshot only, which does not see what a recycled one (R3) names later; entries alone
//! never stand for rows (R4), nor are they marked dead here. Under one snapshot a key's rows and
//! their order do not change, so a scan that takes over meets the same.
//! Does not do: index-only reads, ranges.

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::FetchResult;
use crate::ids::RowId;
use crate::index::am::Few;
use crate::index::{Direction, KeyRange};
use crate::keycode::{self, MAX_ENCODED};
use crate::txn::Snapshot;

use super::bounds::Search;
use super::index_scan::{IndexRows, Leaves, check_usable, checker};
use super::row::Projection;
use super::scan::{Reader, Row};
use super::statement::Statement;
use super::{Table, TableIndex};

/// A scan takes over where more than one in so many of the entries met are dead.
const DEAD_PART: usize = 8;

/// The rows of one key.
pub(super) struct KeyRows {
    reader: Reader,
    index: Arc<TableIndex>,
    key: Vec<u8>,
    /// The rows that the index names, once it was asked.
    few: Option<Few>,
    /// How many of those were looked at.
    at: usize,
    /// How many of these are dead to everyone.
    dead: usize,
    /// Rows handed over.
    handed: u64,
    ended: bool,
    bytes: Vec<u8>,
}

/// Which of two rows is meant that a statement sees under one unique key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Twice {
    /// Both, and the one that is gone cannot be written: a conflict.
    Conflict,
    /// The one that is there: the own transaction's.
    Own,
}

/// What became of the question for the next row.
pub(super) enum Next {
    /// It is this one; none at the end.
    Row(Option<Row>),
    /// A scan must answer.
    Scan,
}

impl KeyRows {
    /// The rows of `key`, which has a value for each key column; `None`: a scan must find them, as
    /// where the entries alone are to do.
    pub(super) fn new(
        (table, snapshot): (&Arc<Table>, &Arc<Snapshot>),
        index: &Arc<TableIndex>,
        projection: &Arc<Projection>,
        (key, entries_do): (&[Value], bool),
    ) -> Result<Option<Self>> {
        let checker = checker(table, index);
        if key.len() != checker.columns.len() || entries_do {
            return Ok(None);
        }
        checker.check(key)?;
        check_usable(index, snapshot)?;
        let key = keycode::encode_prefix(checker.columns, key);
        if key.len() > MAX_ENCODED {
            return Ok(None);
        }
        let reader = Reader::new(table, snapshot, Arc::clone(projection));
        let index = Arc::clone(index);
        let (few, bytes, ended) = (None, Vec::new(), false);
        Ok(Some(Self { reader, index, key, few, at: 0, dead: 0, handed: 0, ended, bytes }))
    }

    /// The table that is read.
    pub(super) fn table(&self) -> &Table {
        &self.reader.table
    }

    /// The index that is asked.
    pub(super) fn index(&self) -> &TableIndex {
        &self.index
    }

    /// Entries that it came to.
    pub(super) fn entries(&self) -> u64 {
        self.at as u64
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Result<Next> {
        if self.few.is_none() {
            self.few = self.index.method.few(&self.key)?;
        }
        let Some(few) = self.few.take() else { return Ok(Next::Scan) };
        let next = self.next_of(few.rows());
        self.few = Some(few);
        next
    }

    /// The next row of those that `rows` name.
    fn next_of(&mut self, rows: &[RowId]) -> Result<Next> {
        let mut found = None;
        while found.is_none() && self.at < rows.len() {
            let block = rows[self.at].block;
            let end = rows[self.at..].iter().position(|row| row.block != block);
            let run = &rows[self.at..end.map_or(rows.len(), |end| self.at + end)];
            let Some(look) = self.look(run, rows.len() == 1)? else { return Ok(Next::Scan) };
            found = look;
        }
        if self.dead * DEAD_PART > self.at && self.reader.table.txns.dead_hints().marks_entries() {
            return Ok(Next::Scan);
        }
        let row = found.map(|at| self.reader.row(at, &self.bytes)).transpose()?;
        self.handed += u64::from(row.is_some());
        self.ended = row.is_none();
        Ok(Next::Row(row))
    }

    /// Looks at the rows of one block up to the first that the snapshot sees: its version there.
    /// None: the page is not in memory; only that of an `only` row is read.
    fn look(&mut self, run: &[RowId], only: bool) -> Result<Option<Option<RowId>>> {
        let heap = &self.reader.table.heap;
        let block = run[0].block;
        if !heap.is_data_block(block.0) {
            self.at += run.len();
            return Ok(Some(None));
        }
        let pin = match heap.pool().try_pin(heap.page_id(block.0)) {
            Some(pin) => pin,
            None if only => heap.pin(block)?,
            None => return Ok(None),
        };
        if let [row] = run {
            let snapshot = &self.reader.snapshot;
            let found = heap.fetch_into(&pin, snapshot, *row, &mut self.bytes)?;
            (self.at, self.dead) = (self.at + 1, self.dead + usize::from(found.all_dead));
            return Ok(Some(found.at));
        }
        let (mut found, mut met, mut dead) = (None, 0, 0);
        let roots = (0..).zip(run.iter().map(|row| row.slot));
        let bytes = &mut self.bytes;
        heap.fetch_batch(&pin, &self.reader.snapshot, roots, |_, look| {
            met += 1;
            match look {
                FetchResult::Visible(at, row) => {
                    bytes.clear();
                    bytes.extend_from_slice(row);
                    found = Some(at);
                }
                FetchResult::Invisible { all_dead } => dead += usize::from(all_dead),
            }
            found.is_none()
        })?;
        (self.at, self.dead) = (self.at + met, self.dead + dead);
        Ok(Some(found))
    }

    /// The scan that goes on from here.
    pub(super) fn scan(&self) -> Result<IndexRows> {
        let range = KeyRange::starting_with(&self.index.def.method.place(&self.key));
        let search = (Search::whole(range), Direction::Forward);
        let reader = self.reader.clone();
        let leaves = Leaves::new(&reader, &self.index, search)?;
        let mut rows = IndexRows::new(reader, leaves, None, false);
        for _ in 0..self.handed + u64::from(self.ended) {
            rows.next(u64::MAX)?;
        }
        Ok(rows)
    }
}

impl Table {
    /// The place of the row whose key in `index`, a unique one, is `key`, without nulls, as the
    /// statement sees it. Its bytes stay with the statement, for a write of it that comes next.
    ///
    /// Where the statement sees two rows under the key ([`Snapshot::may_see_key_twice`]), it is for
    /// `twice` to say which one is meant.
    pub fn find(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        index: &Arc<TableIndex>,
        key: &[Value],
        twice: Twice,
    ) -> Result<Option<RowId>> {
        let (snapshot, none) = (statement.snapshot(), self.no_columns());
        let mut rows = KeyRows::new((self, snapshot), index, none, (key, false))?;
        let row = match rows.as_mut().map(KeyRows::next).transpose()? {
            Some(Next::Row(row)) => row,
            Some(Next::Scan) | None => return self.find_by_scan(statement, index, key, twice),
        };
        let (Some(rows), found) = (rows, row.map(|row| row.row_id)) else { return Ok(None) };
        index.count_scan(rows.entries(), u64::from(found.is_some()));
        if let Some(at) = found
            && self.heap.may_share_key(snapshot, at)?
        {
            return self.find_by_scan(statement, index, key, twice);
        }
        statement.found(found.map(|at| (at, rows.bytes)));
        Ok(found)
    }

    /// As [`Table::find`]; what is found is read again when it is written.
    fn find_by_scan(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        index: &Arc<TableIndex>,
        key: &[Value],
        twice: Twice,
    ) -> Result<Option<RowId>> {
        let snapshot = statement.snapshot();
        let [first, second] = self.rows_of_key(snapshot, index, key, self.no_columns())?;
        match (first, second, twice) {
            (Some(first), Some(second), Twice::Own) => {
                Ok(Some(self.own_of([first, second], snapshot)?.row_id))
            }
            (Some(first), Some(_), Twice::Conflict) => {
                let error = Error::conflict(&self.def.name, first.row_id);
                Err(statement.txn().manager().count_conflict(error))
            }
            (first, ..) => Ok(first.map(|row| row.row_id)),
        }
    }
}
