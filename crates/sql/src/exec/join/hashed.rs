//! A hash join whose right side memory does not hold: both sides go to files in the order of the
//! hashes of their keys.
//!
//! Rows of the right side come back as many as memory holds, and make a hash table. Rows of the
//! left side whose hashes are no larger meet that table, then the next rows make the next one. Rows
//! that have one hash and are too many for memory are met block by block.
//!
//! A row that comes out only with a partner stays out of the files if a filter of the other side's
//! hashes says that it has none. For the right side's rows there is one if the left side is small:
//! then it is read first.
//!
//! Invariants: rows with one hash are all in one table, or met by blocks; every row is written and
//! read once, but for merges of the sort and for blocks.
//! Does not do: keeping the order of the left side.
//!
//! Graefe, Query Evaluation Techniques for Large Databases, 1993, on the duality of partitioning by
//! hash and sorting by it: a sort needs no recursion where partitions are uneven.

use std::sync::Arc;

use super::blocks::Blocks;
use super::pairs::Pairs;
use super::{left_keys, of, right_keys, right_table};
use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::exec::hash::{HashTable, Keys};
use crate::exec::hash_filter::HashFilter;
use crate::exec::kept::Keeping;
use crate::exec::memory::KeptRows;
use crate::exec::spill::{Spill, Spilled};
use crate::expr::Context;
use crate::plan::node::{JoinNode, Node};
use crate::plan::rel::JoinKind;
use crate::types::{Datum, Row};

/// A filter's part of the memory that a join may have, and the bits that a hash sets in it.
const FILTER: usize = 32;
const SET: u64 = 2;

/// A hash join by way of files.
pub(super) struct Hashed {
    chunks: Chunks,
    left: HashRows,
}

/// The first rows of the left side.
struct FirstRows {
    kept: KeptRows,
    are_all: bool,
    /// The hashes of their keys, if these rows are all.
    filter: Option<HashFilter>,
}

/// The right side, of which memory holds a part at a time.
struct Chunks {
    node: Arc<Node>,
    right: HashRows,
    /// Bytes that a part may have.
    most: usize,
    part: KeptRows,
    /// Rows of the next part that were read already, and their hash.
    carried: Option<Carried>,
    /// The hash from which on rows are not of the part; `None` if it is the last.
    end: Option<u64>,
    meeting: Meeting,
}

struct Carried {
    hash: u64,
    rows: Batch,
}

/// How rows of the left side meet the part at hand.
enum Meeting {
    Nothing,
    Table {
        table: Option<HashTable>,
        pairs: Box<Pairs>,
    },
    /// Rows of one hash that memory does not hold.
    Blocks(Box<Blocks>),
}

/// Rows in the order of the hashes of their keys.
struct HashRows {
    spilled: Spilled,
    ahead: Option<HashRow>,
    width: usize,
}

struct HashRow {
    hash: u64,
    row: Row,
}

/// Rows on their way to files, in the order of the hashes of their keys.
struct HashWriter {
    spill: Spill,
    /// Rows with a null among their keys, which are spread over all hashes.
    nulls: u64,
}

impl HashWriter {
    fn new(memory: usize, context: &Context) -> Result<HashWriter> {
        Ok(HashWriter { spill: Spill::new(memory, context)?, nulls: 0 })
    }

    /// Puts the rows whose hashes pass `filter`, or all.
    fn put(
        &mut self,
        mut batch: Batch,
        keys: &Keys,
        filter: Option<&HashFilter>,
        context: &Context,
    ) -> Result<()> {
        context.check()?;
        let passes =
            |filter: &HashFilter, hash: Option<u64>| hash.is_some_and(|hash| filter.passes(hash));
        for (at, hash) in keys.hashes.iter().enumerate() {
            if filter.is_some_and(|filter| !passes(filter, *hash)) {
                continue;
            }
            let hash = hash.unwrap_or_else(|| {
                self.nulls += 1;
                self.nulls.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            });
            self.spill.push(&hash.to_be_bytes(), &batch.take_row(at))?;
        }
        Ok(())
    }

    fn finish(self, width: usize) -> Result<HashRows> {
        Ok(HashRows { spilled: self.spill.finish()?, ahead: None, width })
    }
}

impl HashRows {
    /// The hash of the next row.
    fn peek(&mut self, context: &Context) -> Result<Option<u64>> {
        if self.ahead.is_none()
            && let Some((key, row)) = self.spilled.next(context)?
        {
            let hash = u64::from_be_bytes(key.try_into().expect("a hash was written"));
            self.ahead = Some(HashRow { hash, row });
        }
        Ok(self.ahead.as_ref().map(|ahead| ahead.hash))
    }

    /// The next rows, at most so many, whose hashes are below `end`.
    fn next(&mut self, most: usize, end: Option<u64>, context: &Context) -> Result<Batch> {
        let mut batch = Batch::with_width(self.width, 0);
        let mut bytes = 0;
        while batch.len < most.min(ROWS)
            && bytes < BYTES
            && let Some(hash) = self.peek(context)?
            && end.is_none_or(|end| hash < end)
            && let Some(HashRow { row, .. }) = self.ahead.take()
        {
            bytes += row.iter().map(Datum::heap_bytes).sum::<usize>();
            batch.push(row);
        }
        Ok(batch)
    }
}

/// The rows below a hash.
struct Below<'r> {
    rows: &'r mut HashRows,
    end: Option<u64>,
}

impl Operator for Below<'_> {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let batch = self.rows.next(most, self.end, context)?;
        Ok((batch.len > 0).then_some(batch))
    }
}

/// The right side of a join that has grown beyond its memory: its first rows, and those to come.
pub(super) struct Overflow<'i> {
    pub(super) first: Batch,
    pub(super) rest: &'i mut dyn Operator,
    /// Bytes that the join may have.
    pub(super) most: usize,
}

impl FirstRows {
    /// Reads the left side, as far as a part of the memory holds it, where a row of the right side
    /// comes out only with a partner.
    fn read(
        join: &JoinNode,
        left: &mut dyn Operator,
        most: usize,
        context: &Context,
    ) -> Result<FirstRows> {
        let budget = context.budget();
        let mut kept = KeptRows::new(&budget);
        if matches!(join.kind, JoinKind::Right | JoinKind::Full) {
            return Ok(FirstRows { kept, are_all: false, filter: None });
        }
        let mut filter = HashFilter::new(most / FILTER, SET, &budget);
        while let Some(batch) = left.next(ROWS, context)? {
            context.check()?;
            let keys = left_keys(join, &batch, context)?.expect("a hash join has keys");
            keys.hashes.iter().flatten().for_each(|hash| filter.add(*hash));
            if !kept.try_append(batch) || kept.used() > most / 2 {
                return Ok(FirstRows { kept, are_all: false, filter: None });
            }
        }
        Ok(FirstRows { kept, are_all: true, filter: Some(filter) })
    }

    /// Has files take these rows and the others of the left side.
    fn written(
        mut self,
        left: &mut dyn Operator,
        chunks: &Chunks,
        filter: Option<&HashFilter>,
        context: &Context,
    ) -> Result<HashRows> {
        let join = of(&chunks.node);
        let mut writer = HashWriter::new(chunks.most / 2, context)?;
        let mut rest = || if self.are_all { Ok(None) } else { left.next(ROWS, context) };
        let mut next = match self.kept.rows.len {
            0 => rest()?,
            _ => Some(std::mem::take(&mut self.kept.rows)),
        };
        while let Some(batch) = next {
            let keys = left_keys(join, &batch, context)?.expect("a hash join has keys");
            writer.put(batch, &keys, filter, context)?;
            next = rest()?;
        }
        writer.finish(join.left.width)
    }
}

impl Hashed {
    /// Has files take both sides.
    pub(super) fn new(
        node: &Arc<Node>,
        from: Overflow<'_>,
        left: &mut dyn Operator,
        context: &Context,
    ) -> Result<Hashed> {
        let join = of(node);
        let Overflow { first, rest, most } = from;
        let begun = FirstRows::read(join, left, most, context)?;
        let mut writer = HashWriter::new(most / 4, context)?;
        let needs_partner = matches!(join.kind, JoinKind::Inner | JoinKind::Right | JoinKind::Semi);
        let mut filter =
            needs_partner.then(|| HashFilter::new(most / FILTER, SET, &context.budget()));
        let mut next = Some(first);
        while let Some(batch) = next {
            let keys = right_keys(join, &batch, context)?.expect("a hash join has keys");
            if let Some(filter) = &mut filter {
                keys.hashes.iter().flatten().for_each(|hash| filter.add(*hash));
            }
            writer.put(batch, &keys, begun.filter.as_ref(), context)?;
            next = rest.next(ROWS, context)?;
        }
        let chunks = Chunks {
            node: Arc::clone(node),
            right: writer.finish(join.right_width)?,
            most: most / 2,
            part: KeptRows::new(&context.budget()),
            carried: None,
            end: Some(0),
            meeting: Meeting::Nothing,
        };
        let left = begun.written(left, &chunks, filter.as_ref(), context)?;
        Ok(Hashed { chunks, left })
    }

    /// The next rows that come out.
    pub(super) fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.chunks.meet(&mut self.left, most, context)? {
                return Ok(Some(batch));
            }
            if self.chunks.end.is_none() {
                self.chunks.meeting = Meeting::Nothing;
                return Ok(None);
            }
            self.chunks.load(context)?;
        }
    }
}

impl Chunks {
    /// The next rows that come out for the part at hand.
    fn meet(
        &mut self,
        left: &mut HashRows,
        most: usize,
        context: &Context,
    ) -> Result<Option<Batch>> {
        let mut below = Below { rows: left, end: self.end };
        match &mut self.meeting {
            Meeting::Nothing => Ok(None),
            Meeting::Blocks(blocks) => blocks.next(&mut below, most, context),
            Meeting::Table { table, pairs } => loop {
                let right = &self.part.rows;
                if let Some(batch) = pairs.next(most, right, table.as_ref(), context)? {
                    return Ok(Some(batch));
                }
                let Some(batch) = below.next(ROWS, context)? else {
                    return pairs.rest(most, right, 0);
                };
                let keys = left_keys(of(&self.node), &batch, context)?;
                pairs.begin(batch, keys);
            },
        }
    }

    /// Reads the next part.
    fn load(&mut self, context: &Context) -> Result<()> {
        let (budget, width) = (context.budget(), of(&self.node).right_width);
        self.meeting = Meeting::Nothing;
        self.part = KeptRows::with_table(&budget, width);
        self.end = None;
        // The hash of the last row, and where rows with it begin.
        let (mut last, mut from, mut fits) = (None, 0, true);
        if let Some(Carried { hash, rows }) = self.carried.take() {
            fits = self.part.try_append(rows);
            last = Some(hash);
        }
        while let Some(hash) = self.right.peek(context)? {
            let is_full = !fits || self.part.used() > self.most;
            if is_full && last == Some(hash) && from == 0 {
                return self.load_blocks(hash, context);
            }
            if is_full && last.is_some() {
                self.end = Some(hash);
                if last == Some(hash) {
                    let rows = std::mem::take(&mut self.part.rows);
                    let of_hash: Vec<u32> = (from as u32..rows.len as u32).collect();
                    self.carried = Some(Carried { hash, rows: rows.pick(&of_hash) });
                    self.part.rows = rows.truncate(from);
                }
                break;
            }
            if last != Some(hash) {
                (last, from) = (Some(hash), self.part.rows.len);
            }
            let HashRow { row, .. } = self.right.ahead.take().expect("it was looked at");
            fits = self.part.add(row);
        }
        let table = right_table(of(&self.node), &mut self.part, context)?;
        let pairs = Box::new(Pairs::new(&self.node, self.part.rows.len));
        self.meeting = Meeting::Table { table, pairs };
        Ok(())
    }

    /// Has files take the rows of the part, and all others that have the same hash.
    fn load_blocks(&mut self, hash: u64, context: &Context) -> Result<()> {
        let first = self.part.give_up();
        let mut keeping = Keeping::in_files(&context.budget(), context)?;
        keeping.push_batch(first, context)?;
        while self.right.peek(context)? == Some(hash)
            && let Some(HashRow { row, .. }) = self.right.ahead.take()
        {
            keeping.push(row, context)?;
        }
        self.end = hash.checked_add(1);
        let blocks = Blocks::new(&self.node, keeping.finish()?, self.most, context)?;
        self.meeting = Meeting::Blocks(Box::new(blocks));
        Ok(())
    }
}
