//! Single rows by key, and the rows of many keys at once.
//!
//! Invariants: where a snapshot sees two rows under a unique key, the row that its own transaction
//! wrote is returned, because the other one is deleted.
//! Does not do: wait; a reader never does.

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::index::{Direction, KeyRange};
use crate::keycode::ColumnRange;
use crate::txn::Snapshot;

use crate::table::definition::row::Projection;
use crate::table::read::bounds::{Search, disjoint};
use crate::table::read::index_cursor::{IndexSearch, checker};
use crate::table::read::index_scan::IndexRows;
use crate::table::read::{Reader, Row};
use crate::table::{Table, TableIndex};

impl Table {
    /// The first row whose key in `index` is `key`: of a unique index the only one, nulls excepted.
    /// Where the snapshot sees two rows under a unique key, it is the own transaction's, since the
    /// other one is gone.
    pub fn get(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        key: &[Value],
        projection: &Arc<Projection>,
    ) -> Result<Option<Row>> {
        if key.len() != index.def.columns.len() {
            let (given, name) = (key.len(), &index.def.name);
            return Err(Error::Invalid(format!("{given} values for the key of index {name}")));
        }
        if index.is_whole_unique(key) {
            let [first, second] = self.rows_of_key(snapshot, index, key, projection)?;
            return match (first, second) {
                (Some(first), Some(second)) => self.own_of([first, second], snapshot).map(Some),
                (first, _) => Ok(first),
            };
        }
        self.scan_key(snapshot, index, projection, key, Some(1))?.next()
    }

    /// The rows that the snapshot sees under `key`, a whole key of the unique index `index`: one at
    /// most, or two ([`Snapshot::may_see_key_twice`]). What comes behind the first row is looked at
    /// only where there can be a second one.
    pub fn rows_of_key(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        key: &[Value],
        projection: &Arc<Projection>,
    ) -> Result<[Option<Row>; 2]> {
        assert!(index.is_whole_unique(key), "others may have any number of rows");
        if !snapshot.may_see_key_twice() {
            let mut rows = self.scan_key(snapshot, index, projection, key, Some(1))?;
            return Ok([rows.next()?, None]);
        }
        // Entries alone do not tell whose a row is, nor whether it was ended since.
        let mut rows = self.scan_key_to_write(snapshot, index, projection, key, Some(2))?;
        let Some(first) = rows.next()? else { return Ok([None, None]) };
        let shares = self.heap.may_share_key(snapshot, first.row_id)?;
        // Tests look behind every row.
        let second = if shares || cfg!(debug_assertions) { rows.next()? } else { None };
        // By a snapshot that became too old anything may have been read.
        snapshot.check()?;
        assert!(shares || second.is_none(), "row {} is not alone under its key", first.row_id);
        Ok([Some(first), second])
    }

    /// Which of two rows with one unique key, both seen by `snapshot`, its own transaction wrote.
    pub(in crate::table) fn own_of(&self, rows: [Row; 2], snapshot: &Snapshot) -> Result<Row> {
        let [first, second] = rows;
        let creators = [self.heap.creator(first.row_id)?, self.heap.creator(second.row_id)?];
        let is_own = creators.map(|xid| xid.is_some_and(|xid| snapshot.is_own(xid)));
        snapshot.check()?;
        assert!(is_own[0] != is_own[1], "of two rows with one key one is the own transaction's");
        Ok(if is_own[0] { first } else { second })
    }

    /// The rows of several keys (or prefixes of keys), each key's rows in the place of the key. The
    /// heap pages of all of them are read through one stream.
    pub fn fetch_many(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        keys: &[Vec<Value>],
        projection: &Arc<Projection>,
    ) -> Result<Vec<Vec<Row>>> {
        let checker = checker(self, index);
        checker.check_collations()?;
        let range = |key: &Vec<Value>| checker.columns(key, &ColumnRange::All);
        let ranges = keys.iter().map(range).collect::<Result<Vec<_>>>()?;
        let search = Search::list(disjoint(ranges.clone()));
        let asked = Asked::new(ranges);
        let reader = Reader::new(self, snapshot, Arc::clone(projection));
        let search = IndexSearch::new(self, snapshot, index, search, Direction::Forward)?;
        let mut rows = IndexRows::new(reader, search, None, false);
        let mut found = vec![Vec::new(); keys.len()];
        while let Some(row) = rows.next(u64::MAX)? {
            // What was asked for is in the order of the index's method.
            let place = index.def.method.place(rows.last_key().expect("a row was found"));
            asked.by(&place).for_each(|number| found[number].push(row.clone()));
        }
        let handed_out = found.iter().map(|rows| rows.len() as u64).sum();
        index.count_scan(rows.entries(), handed_out);
        Ok(found)
    }
}

/// Keys and prefixes of keys as they were asked for, perhaps more than once or one inside another,
/// as places in the order of the index's method.
struct Asked {
    /// In key order, what contains others before them; each with its place in the list.
    ranges: Vec<(usize, KeyRange)>,
    /// Per range the last one before it that contains it.
    around: Vec<Option<usize>>,
}

impl Asked {
    fn new(ranges: Vec<KeyRange>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().enumerate().collect();
        let end = |range: &KeyRange| (range.high.is_none(), range.high.clone());
        ranges.sort_by(|(_, a), (_, b)| a.low.cmp(&b.low).then_with(|| end(b).cmp(&end(a))));
        let mut around = Vec::with_capacity(ranges.len());
        for (at, (_, range)) in ranges.iter().enumerate() {
            let mut outer = at.checked_sub(1);
            while let Some(other) = outer
                && !ranges[other].1.contains(&range.low)
            {
                outer = around[other];
            }
            around.push(outer);
        }
        Self { ranges, around }
    }

    /// The places in the list of all that the key at `place` is wanted for.
    fn by(&self, place: &[u8]) -> impl Iterator<Item = usize> {
        let begun = self.ranges.partition_point(|(_, range)| range.low.as_slice() <= place);
        let chain = std::iter::successors(begun.checked_sub(1), |at| self.around[*at]);
        // Ranges of prefixes are nested or disjoint: whatever contains the key is in this chain.
        let wanted = chain.filter(move |at| self.ranges[*at].1.contains(place));
        wanted.map(|at| self.ranges[at].0)
    }
}
