//! Heap and indexes against each other.
//!
//! | check | what |
//! |---|---|
//! | H2 | a row has no more columns than its table |
//! | H11 | the pages of a long value are there, in order, and marked as used |
//! | H12 | a row decodes into the table's columns, to its last byte |
//! | B13 | a unique key has one visible row |
//! | X1 | every index entry names a line pointer that is in use and begins a row |
//! | X2 | every visible row has its entry in every index that holds it, and it is not marked dead |
//! | X3 | an entry has the key and the included columns of a version of its row that belongs here |
//! | X4 | an index has as many entries of visible rows as there are such rows (the sum of X2) |
//! | X9 | an index has the Unicode data that this build orders text by |
//!
//! One registered snapshot is compared with each index. The entries that its rows ought to have are
//! sorted and merged with a scan of the index. An entry that does not match is looked up again. It
//! is damage only if it was there before and after its row was read, and the recycle clock (R3) did
//! not advance for the block meanwhile.
//!
//! Invariants: memory stays within the sorts' share of the budget. No latch and no pin is held
//! between rows. An index that the snapshot must not use (R10) is not checked for missing entries.
//! Does not do: check the structure of pages (H and B checks).

use std::cmp::Ordering;

use rightlink_env::points::hit;
use rightlink_env::sync::Arc;

use crate::buffer::{ReadStream, StreamOptions};
use crate::error::{Error, Result};
use crate::heap::{MAX_SLOTS, RootState, RootVersion};
use crate::ids::{PageId, RowId};
use crate::index::am::{LeafBatch, ScanOptions};
use crate::index::{IndexEntry, IndexMethod, KeyRange};
use crate::page::header;
use crate::sort::{MIN_MEMORY, Sorted, Sorter};
use crate::table::row::MORE_COLUMNS;
use crate::table::{Table, TableIndex};
use crate::txn::{Isolation, Snapshot};
use crate::verify::{IndexCheck, Parts, RelationFile, Report, record_damage};

/// An entry is looked up again while the recycle clock advances, so often at most.
const MAX_LOOKS: u32 = 16;
/// Share of the budget's free memory that all sorts of a table may take.
const SORT_SHARE: usize = 4;

/// Compares a table with some of its indexes. Findings about an index go into its own report.
pub(super) fn check(
    parts: &Parts<'_>,
    table: &Table,
    checked: &mut [IndexCheck<'_>],
    report: &mut Report,
) -> Result<()> {
    let txn = parts.txns.begin(Isolation::ReadCommitted);
    let snapshot = txn.latest_snapshot();
    let mut usable = Vec::new();
    for of in checked {
        match of.index.check_usable() {
            Ok(()) => usable.push(of),
            Err(error) => {
                let finding = of.place().finding("X9", None, error.to_string());
                of.report.add(finding);
            }
        }
    }
    let memory = parts.env.budget.available() / SORT_SHARE / usable.len().max(1);
    let sorter = |_: &_| Sorter::new(&parts.env.budget, parts.temp, memory.max(MIN_MEMORY));
    let sorters = usable.iter().map(sorter).collect::<Result<Vec<_>>>()?;
    let indexes = usable.iter().map(|of| of.index).collect();
    let mut expected = ExpectedEntries { table, indexes, sorters };
    expected.collect(parts, &snapshot, report)?;
    for (of, sorter) in usable.into_iter().zip(expected.sorters) {
        hit("verify.index");
        let place = of.place();
        let comparison = IndexComparison { table, index: of.index, snapshot: &snapshot, place };
        let compared = comparison.run(sorter.finish()?, &mut of.report);
        record_damage(place, "B0", compared, &mut of.report)?;
    }
    Ok(())
}

/// The entries that visible rows ought to have, one sorter for each index.
struct ExpectedEntries<'a> {
    table: &'a Table,
    indexes: Vec<&'a Arc<TableIndex>>,
    sorters: Vec<Sorter>,
}

impl ExpectedEntries<'_> {
    /// Collects the entries of all rows that the snapshot sees.
    fn collect(
        &mut self,
        parts: &Parts<'_>,
        snapshot: &Snapshot,
        report: &mut Report,
    ) -> Result<()> {
        let (heap, file) = (self.table.heap(), self.table.def().heap);
        let mut next = 1;
        let mut stream = ReadStream::new(parts.pool, StreamOptions::ORDERED, || {
            let block = next;
            next += 1;
            // Blocks that the meta page promises beyond the end of the file were reported (X6).
            let inside = block < heap.blocks().min(parts.pool.blocks(file));
            Ok(inside.then_some((PageId::new(file, block), block)))
        });
        while let Some((tried, block)) = stream.next_tried()? {
            parts.steps.page()?;
            // The heap's own checks have reported damage of the page.
            let pin = match tried {
                Err(Error::Corruption { .. }) => continue,
                pin => pin?,
            };
            let lower = usize::from(header::u16_at(pin.shared().bytes(), header::LOWER));
            let slots = (lower.saturating_sub(header::HEADER_SIZE) / 4).min(usize::from(MAX_SLOTS));
            for slot in 1..=slots as u16 {
                let root = RowId::new(block, slot);
                match heap.fetch_on(&pin, snapshot, root) {
                    Ok(found) => {
                        if let Some((at, bytes)) = found.row {
                            self.add_row(root, at, &bytes, report)?;
                        }
                    }
                    Err(Error::Corruption { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Adds the entries of the row at `root`, of which the visible version is at `at`.
    fn add_row(&mut self, root: RowId, at: RowId, bytes: &[u8], report: &mut Report) -> Result<()> {
        let def = self.table.def();
        let place = RelationFile { relation: &def.name, file: def.heap };
        let of_row = |what| format!("row {at}: {what}");
        let values = match self.table.check_row_bytes(bytes) {
            Ok(Ok(values)) => values,
            Ok(Err(malformed)) => {
                let check = if malformed == MORE_COLUMNS { "H2" } else { "H12" };
                let what = of_row(malformed.0.to_string());
                report.add(place.finding(check, Some(at.block.0), what));
                return Ok(());
            }
            Err(Error::Corruption { file, block, what, .. }) if file == def.overflow.path() => {
                let place = RelationFile { file: def.overflow, ..place };
                report.add(place.finding("H11", block, of_row(what)));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (index, sorter) in self.indexes.iter().zip(&mut self.sorters) {
            let method = index.def().method;
            match index.with_entry(&values, root, |entry| push(sorter, method, entry)) {
                Ok(pushed) => pushed.transpose().map(drop)?,
                Err(Error::RowTooLarge(what)) => {
                    report.add(place.finding("H12", Some(at.block.0), of_row(what)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Adds an entry in the order of the index, with its exemption and included columns.
fn push(sorter: &mut Sorter, method: IndexMethod, entry: &IndexEntry<'_>) -> Result<()> {
    let record = [&method.place(entry.key), &entry.row.to_bytes()[..]].concat();
    let payload = [&[u8::from(entry.exempt)], entry.payload].concat();
    sorter.push(&record, &payload)
}

/// One index that is compared with the rows.
struct IndexComparison<'a> {
    table: &'a Table,
    index: &'a TableIndex,
    snapshot: &'a Snapshot,
    place: RelationFile<'a>,
}

/// The entry of a key and a row.
#[derive(PartialEq, Eq)]
enum FoundEntry {
    /// Not marked dead; its included columns.
    Live(Vec<u8>),
    Dead,
    None,
}

/// The expected entries of an index, one by one.
struct ExpectedCursor {
    sorted: Sorted,
    /// Key and row id in the index's order; exemption and included columns.
    current: Option<(Vec<u8>, Vec<u8>)>,
    last_key: Option<Vec<u8>>,
    /// Rows that ought to have an entry.
    rows: u64,
    /// Rows of these without an entry.
    missing: u64,
}

impl IndexComparison<'_> {
    fn run(&self, sorted: Sorted, report: &mut Report) -> Result<()> {
        let (current, last_key, rows, missing) = (None, None, 0, 0);
        let mut expected = ExpectedCursor { sorted, current, last_key, rows, missing };
        self.advance(&mut expected, report)?;
        let mut scan = self.index.method().begin_scan(KeyRange::all(), ScanOptions::default());
        let mut batch = LeafBatch::default();
        let clock = self.table.heap().clock();
        while scan.next_batch(&|| clock.now(), &mut batch)? {
            for at in 0..batch.len() {
                let row = batch.entries[at].row;
                let place = self.index.def().method.place(batch.key(at));
                let record = [&place, &row.to_bytes()[..]].concat();
                let order = loop {
                    let Some((want, _)) = &expected.current else { break Ordering::Greater };
                    let order = want.as_slice().cmp(&record);
                    if order != Ordering::Less {
                        break order;
                    }
                    self.missing(&mut expected, report)?;
                    self.advance(&mut expected, report)?;
                };
                let included = expected.current.as_ref().map(|(_, payload)| &payload[1..]);
                if order == Ordering::Equal && included == Some(batch.payload(at)) {
                    self.advance(&mut expected, report)?;
                    continue;
                }
                self.unexpected(&batch, at, report)?;
                if order == Ordering::Equal {
                    self.advance(&mut expected, report)?;
                }
            }
        }
        while expected.current.is_some() {
            self.missing(&mut expected, report)?;
            self.advance(&mut expected, report)?;
        }
        let ExpectedCursor { rows, missing, .. } = expected;
        if missing > 0 {
            let what =
                format!("{rows} visible rows belong into the index, it has {}", rows - missing);
            report.add(self.place.finding("X4", None, what));
        }
        Ok(())
    }

    /// Moves to the next expected entry, and checks that its key is unique (B13).
    fn advance(&self, expected: &mut ExpectedCursor, report: &mut Report) -> Result<()> {
        let next = expected.sorted.next()?;
        expected.current = next.map(|(record, payload)| (record.to_vec(), payload.to_vec()));
        let Some((record, payload)) = &expected.current else { return Ok(()) };
        expected.rows += 1;
        if !self.index.def().unique || payload[0] != 0 || !self.is_usable() {
            return Ok(());
        }
        let (place, row) = split(record);
        if expected.last_key.as_deref() == Some(place) {
            let what = format!("row {row} has a key that another visible row has, too");
            report.add(self.place.finding("B13", None, what));
        }
        expected.last_key = Some(place.to_vec());
        Ok(())
    }

    fn is_usable(&self) -> bool {
        self.index.is_usable(self.snapshot)
    }

    /// X2: the scan met no live entry for a visible row. Entries of visible rows are never removed,
    /// so one lookup decides.
    fn missing(&self, expected: &mut ExpectedCursor, report: &mut Report) -> Result<()> {
        let Some((record, _)) = &expected.current else { return Ok(()) };
        if !self.is_usable() {
            return Ok(());
        }
        let (place, row) = split(record);
        let what = match self.look_up(place, row)? {
            FoundEntry::Live(_) => return Ok(()),
            FoundEntry::Dead => {
                format!("the entry of row {row} is marked dead, but the row is visible")
            }
            FoundEntry::None => format!("row {row} is visible and has no entry"),
        };
        expected.missing += 1;
        report.add(self.place.finding("X2", None, what));
        Ok(())
    }

    /// An entry of no visible row: garbage, work in progress, or damage (X1, X3).
    fn unexpected(&self, batch: &LeafBatch, at: usize, report: &mut Report) -> Result<()> {
        let (key, row) = (batch.key(at), batch.entries[at].row);
        let place = self.index.def().method.place(key);
        let clock = self.table.heap().clock();
        for _ in 0..MAX_LOOKS {
            let sample = clock.now();
            let FoundEntry::Live(included) = self.look_up(&place, row)? else { return Ok(()) };
            let Some((check, what)) = self.check_entry(key, &included, row)? else {
                return Ok(());
            };
            if self.look_up(&place, row)? == FoundEntry::None || clock.newer_than(row.block, sample)
            {
                continue;
            }
            report.add(self.place.finding(check, Some(batch.leaf.block.0), what));
            return Ok(());
        }
        Ok(())
    }

    /// What is wrong with an entry, by the present state of its row.
    fn check_entry(
        &self,
        key: &[u8],
        included: &[u8],
        row: RowId,
    ) -> Result<Option<(&'static str, String)>> {
        let versions = match self.table.heap().root_state(row) {
            Err(Error::Corruption { .. }) | Ok(RootState::Dead) => return Ok(None),
            Ok(RootState::Outside) => {
                return Ok(Some(("X1", format!("an entry names row {row} outside the table"))));
            }
            Ok(RootState::Unused) => {
                return Ok(Some(("X1", format!("an entry names row {row}, which is unused"))));
            }
            Ok(RootState::HeapOnly) => {
                let what = format!("an entry names row {row}, which is in the middle of a chain");
                return Ok(Some(("X1", what)));
            }
            Ok(RootState::Versions(versions)) => versions,
            Err(error) => return Err(error),
        };
        let (mut same_key, mut held) = (false, false);
        for RootVersion { bytes, .. } in &versions {
            // Other checks report a row that cannot be read.
            let Ok(Ok(values)) = self.table.check_row_bytes(bytes) else { return Ok(None) };
            let same = |entry: &IndexEntry<'_>| (entry.key == key, entry.payload == included);
            match self.index.with_entry(&values, row, same) {
                Ok(Some((true, true))) | Err(_) => return Ok(None),
                Ok(Some((key, _))) => (held, same_key) = (true, same_key | key),
                Ok(None) => {}
            }
        }
        // It may be the entry of a version that was pruned between two snapshots (R9), after the
        // index was built from it. Only a vacuum pass finds such an entry.
        if versions.iter().all(|version| version.ended && !self.index.knew(version.xmin)) {
            return Ok(None);
        }
        if !held {
            let what =
                format!("an entry names row {row}, of which the index's condition is not true");
            return Ok(Some(("X3", what)));
        }
        let part = if same_key { "included columns" } else { "key" };
        Ok(Some(("X3", format!("the {part} of an entry are not those of row {row}"))))
    }

    fn look_up(&self, place: &[u8], row: RowId) -> Result<FoundEntry> {
        let low = [place, &row.to_bytes()].concat();
        let high = Some([&low[..], &[0]].concat());
        let options = ScanOptions { with_dead: true, ..ScanOptions::default() };
        let find = |options| -> Result<Option<Vec<u8>>> {
            let range = KeyRange { low: low.clone(), high: high.clone() };
            let mut scan = self.index.method().begin_scan(range, options);
            let mut batch = LeafBatch::default();
            let clock = self.table.heap().clock();
            let found = scan.next_batch(&|| clock.now(), &mut batch)?;
            Ok((found && !batch.is_empty()).then(|| batch.payload(0).to_vec()))
        };
        if let Some(included) = find(ScanOptions::default())? {
            return Ok(FoundEntry::Live(included));
        }
        Ok(if find(options)?.is_some() { FoundEntry::Dead } else { FoundEntry::None })
    }
}

fn split(record: &[u8]) -> (&[u8], RowId) {
    let (key, row) = record.split_last_chunk().expect("a record ends with a row id");
    (key, RowId::from_bytes(*row))
}
