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
//! One registered snapshot is compared with each index: the entries that its rows ought to have are
//! sorted and merged with a scan of the index. What does not match is looked up again, in an order
//! that makes a finding proof: an entry is damage only if it was there before and after its row
//! was looked at, and the recycle clock (R3) stood still for the block meanwhile.
//!
//! Invariants: memory stays within the sorts' share of the budget; no latch and no pin is held
//! between rows; an index that the snapshot must not use (R10) is not asked for its rows.
//! Does not do: structure of pages (H and B checks).

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
use crate::verify::{Checked, Parts, Place, Report, caught};

/// Looks at an entry again until the recycle clock stands still, at most this often.
const MAX_LOOKS: u32 = 16;
/// Share of the budget's free memory that all sorts of a table may take.
const SORT_SHARE: usize = 4;

/// Checks one table against some of its indexes. What is wrong with an index goes into its own
/// report.
pub(super) fn check(
    parts: &Parts<'_>,
    table: &Table,
    checked: &mut [Checked<'_>],
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
    let mut sorters = usable.iter().map(sorter).collect::<Result<Vec<_>>>()?;
    let indexes: Vec<_> = usable.iter().map(|of| of.index).collect();
    rows(parts, (table, &indexes), &snapshot, &mut sorters, report)?;
    for (of, sorter) in usable.into_iter().zip(sorters) {
        hit("verify.index");
        let place = of.place();
        let merge = Merge { table, index: of.index, snapshot: &snapshot, place };
        let merged = merge.run(sorter.finish()?, &mut of.report);
        caught(place, "B0", merged, &mut of.report)?;
    }
    Ok(())
}

/// Collects the entries that the visible rows ought to have.
fn rows(
    parts: &Parts<'_>,
    (table, indexes): (&Table, &[&Arc<TableIndex>]),
    snapshot: &Snapshot,
    sorters: &mut [Sorter],
    report: &mut Report,
) -> Result<()> {
    let (heap, file) = (table.heap(), table.def().heap);
    let mut next = 1;
    let mut stream = ReadStream::new(parts.pool, StreamOptions::ORDERED, || {
        let block = next;
        next += 1;
        // What the meta page promises beyond the end of the file was found already (X6).
        let inside = block < heap.blocks().min(parts.pool.blocks(file));
        Ok(inside.then_some((PageId::new(file, block), block)))
    });
    while let Some((tried, block)) = stream.next_tried()? {
        parts.steps.page()?;
        // Damage of the page was found by the heap's own checks, which say more.
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
                        row((table, indexes), (root, at), &bytes, sorters, report)?;
                    }
                }
                Err(Error::Corruption { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn row(
    (table, indexes): (&Table, &[&Arc<TableIndex>]),
    (root, at): (RowId, RowId),
    bytes: &[u8],
    sorters: &mut [Sorter],
    report: &mut Report,
) -> Result<()> {
    let place = Place { relation: &table.def().name, file: table.def().heap };
    let values = match table.check_row_bytes(bytes) {
        Ok(Ok(values)) => values,
        Ok(Err(malformed)) => {
            let check = if malformed == MORE_COLUMNS { "H2" } else { "H12" };
            let what = malformed.0;
            report.add(place.finding(check, Some(at.block.0), format!("row {at}: {what}")));
            return Ok(());
        }
        Err(Error::Corruption { file, block, what, .. }) if file == table.def().overflow.path() => {
            let place = Place { file: table.def().overflow, ..place };
            report.add(place.finding("H11", block, format!("row {at}: {what}")));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for (index, sorter) in indexes.iter().zip(sorters) {
        let method = index.def().method;
        match index.with_entry(&values, root, |entry| push(sorter, method, entry)) {
            Ok(pushed) => pushed.transpose().map(drop)?,
            Err(Error::RowTooLarge(what)) => {
                report.add(place.finding("H12", Some(at.block.0), format!("row {at}: {what}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Adds an entry: sorted as the index has it, with its exemption and included columns.
fn push(sorter: &mut Sorter, method: IndexMethod, entry: &IndexEntry<'_>) -> Result<()> {
    let record = [&method.place(entry.key), &entry.row.to_bytes()[..]].concat();
    let payload = [&[u8::from(entry.exempt)], entry.payload].concat();
    sorter.push(&record, &payload)
}

/// One index being compared.
struct Merge<'a> {
    table: &'a Table,
    index: &'a TableIndex,
    snapshot: &'a Snapshot,
    place: Place<'a>,
}

/// What the index has for a key and a row.
#[derive(PartialEq, Eq)]
enum Entry {
    Live(Vec<u8>),
    Dead,
    None,
}

/// The sorted entries one by one, and the keys of a unique index against each other.
struct Wanted {
    sorted: Sorted,
    current: Option<(Vec<u8>, Vec<u8>)>,
    last_key: Option<Vec<u8>>,
    /// Rows that ought to have an entry, and those of them that have none.
    rows: (u64, u64),
}

impl Merge<'_> {
    fn run(&self, sorted: Sorted, report: &mut Report) -> Result<()> {
        let mut wanted = Wanted { sorted, current: None, last_key: None, rows: (0, 0) };
        self.advance(&mut wanted, report)?;
        let mut scan = self.index.method().begin_scan(KeyRange::all(), ScanOptions::default());
        let mut batch = LeafBatch::default();
        let clock = self.table.heap().clock();
        while scan.next_batch(&|| clock.now(), &mut batch)? {
            for at in 0..batch.len() {
                let row = batch.entries[at].row;
                let place = self.index.def().method.place(batch.key(at));
                let record = [&place, &row.to_bytes()[..]].concat();
                let order = loop {
                    let Some((want, _)) = &wanted.current else { break Ordering::Greater };
                    let order = want.as_slice().cmp(&record);
                    if order != Ordering::Less {
                        break order;
                    }
                    self.missing(&mut wanted, report)?;
                    self.advance(&mut wanted, report)?;
                };
                let expected = wanted.current.as_ref().map(|(_, payload)| &payload[1..]);
                if order == Ordering::Equal && expected == Some(batch.payload(at)) {
                    self.advance(&mut wanted, report)?;
                    continue;
                }
                self.unexpected(&batch, at, report)?;
                if order == Ordering::Equal {
                    self.advance(&mut wanted, report)?;
                }
            }
        }
        while wanted.current.is_some() {
            self.missing(&mut wanted, report)?;
            self.advance(&mut wanted, report)?;
        }
        if let (rows, missing @ 1..) = wanted.rows {
            let what =
                format!("{rows} visible rows belong into the index, it has {}", rows - missing);
            report.add(self.place.finding("X4", None, what));
        }
        Ok(())
    }

    /// Goes to the next entry that ought to be there (B13 on the way).
    fn advance(&self, wanted: &mut Wanted, report: &mut Report) -> Result<()> {
        let next = wanted.sorted.next()?;
        wanted.current = next.map(|(record, payload)| (record.to_vec(), payload.to_vec()));
        let Some((record, payload)) = &wanted.current else { return Ok(()) };
        wanted.rows.0 += 1;
        if !self.index.def().unique || payload[0] != 0 || !self.is_usable() {
            return Ok(());
        }
        let (place, row) = split(record);
        if wanted.last_key.as_deref() == Some(place) {
            let what = format!("row {row} has a key that another visible row has, too");
            report.add(self.place.finding("B13", None, what));
        }
        wanted.last_key = Some(place.to_vec());
        Ok(())
    }

    fn is_usable(&self) -> bool {
        self.index.is_usable(self.snapshot)
    }

    /// X2: the scan met no live entry for a visible row. Entries of visible rows never go, so one
    /// more look decides.
    fn missing(&self, wanted: &mut Wanted, report: &mut Report) -> Result<()> {
        let Some((record, _)) = &wanted.current else { return Ok(()) };
        if !self.is_usable() {
            return Ok(());
        }
        let (place, row) = split(record);
        let what = match self.look_up(place, row)? {
            Entry::Live(_) => return Ok(()),
            Entry::Dead => format!("the entry of row {row} is marked dead, but the row is visible"),
            Entry::None => format!("row {row} is visible and has no entry"),
        };
        wanted.rows.1 += 1;
        report.add(self.place.finding("X2", None, what));
        Ok(())
    }

    /// An entry that no visible row asks for: garbage, work in progress, or damage (X1, X3).
    fn unexpected(&self, batch: &LeafBatch, at: usize, report: &mut Report) -> Result<()> {
        let (key, row) = (batch.key(at), batch.entries[at].row);
        let place = self.index.def().method.place(key);
        let clock = self.table.heap().clock();
        for _ in 0..MAX_LOOKS {
            let sample = clock.now();
            let Entry::Live(included) = self.look_up(&place, row)? else { return Ok(()) };
            let Some((check, what)) = self.judge(key, &included, row)? else { return Ok(()) };
            if self.look_up(&place, row)? == Entry::None || clock.newer_than(row.block, sample) {
                continue;
            }
            report.add(self.place.finding(check, Some(batch.leaf.block.0), what));
            return Ok(());
        }
        Ok(())
    }

    /// What is wrong with an entry, as its row is now.
    fn judge(
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
            // A row that cannot be read is another check's business.
            let Ok(Ok(values)) = self.table.check_row_bytes(bytes) else { return Ok(None) };
            let same = |entry: &IndexEntry<'_>| (entry.key == key, entry.payload == included);
            match self.index.with_entry(&values, row, same) {
                Ok(Some((true, true))) | Err(_) => return Ok(None),
                Ok(Some((key, _))) => (held, same_key) = (true, same_key | key),
                Ok(None) => {}
            }
        }
        // It may be that of a version that the index was built from and that left between two
        // snapshots, before those that it had replaced (R9). Nothing but a pass finds it then.
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

    fn look_up(&self, place: &[u8], row: RowId) -> Result<Entry> {
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
            return Ok(Entry::Live(included));
        }
        Ok(if find(options)?.is_some() { Entry::Dead } else { Entry::None })
    }
}

fn split(record: &[u8]) -> (&[u8], RowId) {
    let (key, row) = record.split_last_chunk().expect("a record ends with a row id");
    (key, RowId::from_bytes(*row))
}
