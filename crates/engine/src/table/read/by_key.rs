//! Lookup by a whole key without a scan: one descent, the few row ids copied out of the leaf, each
//! row from its heap block ([`FetchedRows`]).
//!
//! A scan takes over in uncommon cases, and begins behind the rows that were delivered: entries on
//! several leaves, many entries, several rows whose blocks are not in memory, marks and turns.
//!
//! A row that is updated often has an entry for each version that no pruning has reached. A scan
//! would meet the same entries with more work. It takes over only where it can mark some of them:
//! where over an eighth of the entries are dead to everyone.
//!
//! Invariants: the row ids are copied under one version of the leaf, and followed under a
//! registered snapshot only, which does not see the row that a recycled row id (R3) names later.
//! Entries alone never stand for rows (R4), and none is marked dead here. Under one snapshot the
//! rows of a key and their order stay, so a scan that takes over meets the same.
//! Does not do: index-only reads, ranges.

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::am::Few;
use crate::index::{Direction, KeyRange};
use crate::keycode::{self, MAX_ENCODED};

use crate::table::read::bounds::Search;
use crate::table::read::index_cursor::{IndexSearch, check_usable, checker};
use crate::table::read::index_scan::IndexRows;
use crate::table::read::row_fetcher::{FetchLimit, FetchedRows, RowState, WantedRows};
use crate::table::read::{Reader, Row};
use crate::table::{Table, TableIndex};

/// A scan takes over where more than one in so many of the entries met are dead.
const DEAD_PART: usize = 8;

/// The rows of one key.
pub(in crate::table) struct KeyRows {
    reader: Reader,
    index: Arc<TableIndex>,
    key: Vec<u8>,
    /// How many row ids the index names, once it was asked.
    len: Option<usize>,
    rows: FetchedRows<Few>,
    /// How many of them are dead to everyone.
    dead: usize,
    /// Rows delivered.
    delivered: u64,
    ended: bool,
}

/// The answer to the question for the next row.
pub(in crate::table) enum Next {
    /// It is this one; none at the end.
    Row(Option<Row>),
    /// A scan must answer.
    Scan,
}

impl WantedRows for Few {
    fn row_id(&self, at: usize) -> RowId {
        self.rows()[at]
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl KeyRows {
    /// The bytes of `key`. `None` where a scan must find its rows: the key lacks columns, or is
    /// longer than any entry.
    pub(in crate::table) fn encode_key(
        reader: &Reader,
        index: &TableIndex,
        key: &[Value],
    ) -> Result<Option<Vec<u8>>> {
        let checker = checker(&reader.table, index);
        if key.len() != checker.columns.len() {
            return Ok(None);
        }
        checker.check(key)?;
        check_usable(index, &reader.snapshot)?;
        let key = keycode::encode_prefix(checker.columns, key);
        Ok(Some(key).filter(|key| key.len() <= MAX_ENCODED))
    }

    /// The rows of a key, given by its bytes.
    pub(in crate::table) fn new(reader: Reader, index: &Arc<TableIndex>, key: Vec<u8>) -> Self {
        let (index, rows) = (Arc::clone(index), FetchedRows::default());
        Self { reader, index, key, len: None, rows, dead: 0, delivered: 0, ended: false }
    }

    /// The bytes of the row that was delivered last.
    pub(in crate::table) fn into_row(self) -> Vec<u8> {
        self.rows.into_row()
    }

    /// The table that is read.
    pub(in crate::table) fn table(&self) -> &Table {
        &self.reader.table
    }

    /// The index that is asked.
    pub(in crate::table) fn index(&self) -> &TableIndex {
        &self.index
    }

    /// Entries whose rows were looked for.
    pub(in crate::table) fn entries(&self) -> u64 {
        let found = usize::from(self.rows.state() == RowState::Fetched);
        self.len.map_or(0, |_| (self.rows.position() + found) as u64)
    }

    /// The next row.
    pub(in crate::table) fn next(&mut self) -> Result<Next> {
        let len = match self.len {
            Some(len) => len,
            None => {
                let Some(few) = self.index.method.few(&self.key)? else { return Ok(Next::Scan) };
                let len = few.rows().len();
                self.rows.begin(few, len);
                *self.len.insert(len)
            }
        };
        let state = self.fetch(len)?;
        let has_hints = || self.reader.table.txns.dead_hints().marks_entries();
        let many_dead = (self.dead * DEAD_PART) as u64 > self.entries() && has_hints();
        if state == RowState::NotFetched || many_dead {
            return Ok(Next::Scan);
        }
        self.ended = state == RowState::NotArrived;
        if self.ended {
            return Ok(Next::Row(None));
        }
        let (at, bytes) = self.rows.row();
        let row = self.reader.row(at, bytes)?;
        self.delivered += 1;
        Ok(Next::Row(Some(row)))
    }

    /// Goes on to the next visible row and fetches it. Stops at the end, where no row has arrived,
    /// and at a row that was not fetched because its block is not in memory.
    fn fetch(&mut self, len: usize) -> Result<RowState> {
        let Self { reader, rows, dead, .. } = self;
        let heap = &reader.table.heap;
        if rows.state() == RowState::Fetched {
            // It was delivered.
            rows.advance();
        }
        loop {
            match rows.state() {
                RowState::NotArrived if rows.next_window(len) => {}
                state @ (RowState::Fetched | RowState::NotArrived) => return Ok(state),
                RowState::NotFetched if heap.is_data_block(rows.row_id().block.0) => {
                    let block = rows.row_id().block;
                    let pin = match heap.pool().try_pin(heap.page_id(block.0)) {
                        Some(pin) => pin,
                        None if len == 1 => heap.pin(block)?,
                        // Several blocks are better read by a scan, which reads ahead.
                        None => return Ok(RowState::NotFetched),
                    };
                    let limit = FetchLimit::FirstVisible;
                    rows.fetch(heap, &reader.snapshot, &pin, limit, |_, _| *dead += 1)?;
                }
                RowState::NotFetched | RowState::NeedsNoBlock | RowState::Invisible => {
                    rows.advance();
                }
            }
        }
    }

    /// The scan that goes on from here.
    pub(super) fn scan(&self) -> Result<IndexRows> {
        let range = KeyRange::starting_with(&self.index.def.method.place(&self.key));
        let Reader { table, snapshot, .. } = &self.reader;
        let (search, direction) = (Search::whole(range), Direction::Forward);
        let search = IndexSearch::new(table, snapshot, &self.index, search, direction)?;
        let mut rows = IndexRows::new(self.reader.clone(), search, None, false);
        for _ in 0..self.delivered + u64::from(self.ended) {
            rows.next(u64::MAX)?;
        }
        Ok(rows)
    }
}
