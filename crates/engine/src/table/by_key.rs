//! Reading by a whole key without a scan: one descent, the few row ids copied out of the leaf, each
//! row from its heap page.
//!
//! What is out of the common way is left to a scan, which begins behind the rows that were handed
//! over: entries that go on in other leaves or lie in lists, rows whose pages had better be read
//! together, dead entries that are to be marked, marks and turns.
//!
//! Invariants: the row ids were copied under one version of the leaf and are followed under a
//! registered snapshot only, which does not see what a recycled one (R3) names later; entries alone
//! never stand for rows (R4), nor are they marked dead here. Under one snapshot a key's rows and
//! their order do not change, so a scan that takes over meets the same.
//! Does not do: index-only reads, ranges.

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::am::Few;
use crate::index::{Direction, KeyRange};
use crate::keycode::{self, MAX_ENCODED};
use crate::txn::{DeadHints, Snapshot};

use super::bounds::Search;
use super::index_scan::{IndexRows, Leaves, check_usable, checker};
use super::row::Projection;
use super::scan::{Reader, Row};
use super::statement::Statement;
use super::{Table, TableIndex};

/// The rows of one key.
pub(super) struct KeyRows {
    reader: Reader,
    index: Arc<TableIndex>,
    key: Vec<u8>,
    /// The rows that the index names, once it was asked.
    few: Option<Few>,
    /// How many of those were looked at.
    at: usize,
    /// Rows handed over.
    handed: u64,
    ended: bool,
    bytes: Vec<u8>,
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
        let (few, bytes) = (None, Vec::new());
        Ok(Some(Self { reader, index, key, few, at: 0, handed: 0, ended: false, bytes }))
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
        let few = match self.few {
            Some(few) => few,
            None => match self.index.method.few(&self.key)? {
                Some(few) => *self.few.insert(few),
                None => return Ok(Next::Scan),
            },
        };
        while let Some(row) = few.rows().get(self.at) {
            match self.read(*row, few.rows().len() == 1)? {
                Next::Row(None) => self.at += 1,
                Next::Row(row) => {
                    (self.at, self.handed) = (self.at + 1, self.handed + 1);
                    return Ok(Next::Row(row));
                }
                Next::Scan => return Ok(Next::Scan),
            }
        }
        self.ended = true;
        Ok(Next::Row(None))
    }

    /// The version of one row that the snapshot sees; of an only one the page may be read.
    fn read(&mut self, row: RowId, only: bool) -> Result<Next> {
        let table = &self.reader.table;
        let heap = &table.heap;
        if !heap.is_data_block(row.block.0) {
            return Ok(Next::Row(None));
        }
        let pin = match heap.pool().try_pin(heap.page_id(row.block.0)) {
            Some(pin) => pin,
            None if only => heap.pin(row.block)?,
            None => return Ok(Next::Scan),
        };
        let (found, all_dead) =
            heap.fetch_into(&pin, &self.reader.snapshot, row, &mut self.bytes)?;
        if all_dead && table.txns.dead_hints() != DeadHints::Off {
            return Ok(Next::Scan);
        }
        let row = found.map(|at| self.reader.row(at, &self.bytes)).transpose()?;
        Ok(Next::Row(row))
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
    pub fn find(
        self: &Arc<Self>,
        statement: &mut Statement<'_>,
        index: &Arc<TableIndex>,
        key: &[Value],
    ) -> Result<Option<RowId>> {
        let (snapshot, none) = (statement.snapshot(), self.no_columns());
        let mut rows = KeyRows::new((self, snapshot), index, none, (key, false))?;
        let found = match rows.as_mut().map(KeyRows::next).transpose()? {
            Some(Next::Row(row)) => row,
            Some(Next::Scan) | None => {
                let mut scan = self.scan_key_to_write(snapshot, index, none, (key, Some(1)))?;
                return Ok(scan.next()?.map(|row| row.row_id));
            }
        };
        let (Some(rows), found) = (rows, found.map(|row| row.row_id)) else { return Ok(None) };
        index.count_scan(rows.entries(), u64::from(found.is_some()));
        statement.found(found.map(|at| (at, rows.bytes)));
        Ok(found)
    }
}
