//! The row ids that a vacuum pass is about to remove: a bounded, compressed set.
//!
//! A radix tree maps chunks of 256 blocks to their dead slots, each chunk in the smallest of
//! several forms (`chunk`). The chunk that is being filled is open: a plain bitmap beside the tree.
//! Before index leaves are probed, the places of all chunks are written into one list, if there is
//! room, so that no probe searches the tree.
//!
//! Invariants: the memory is reserved from the budget before it is used and never exceeds the
//! reservation. Probing takes `&self`, so several threads may clean indexes with one set.
//! Does not do: filling by several threads, removal of single row ids.
//!
//! PostgreSQL: `access/common/tidstore.c`.

mod chunk;
#[cfg(test)]
mod tests;

use rightlink_env::{Budget, Reservation};
use rightlink_radix::{BytesMap, GROUP, Place, Runs};

use crate::error::{Error, Result};
use crate::heap::MAX_SLOTS;
use crate::ids::RowId;
use chunk::{BLOCKS, ChunkRow, OpenChunk};

/// Row ids after which a piece ends with its block.
const PIECE: usize = 4096;
/// Bytes of an open chunk, and of what is handed out piece by piece.
const BESIDE: usize =
    OpenChunk::BYTES + (PIECE + MAX_SLOTS as usize).next_power_of_two() * size_of::<RowId>();
/// No chunk is open.
const NONE: u64 = u64::MAX;

/// Single probes of a set, best in order: neighbours share the search for their chunk.
#[derive(Clone, Copy, Debug)]
pub struct DeadRowCursor<'a> {
    set: &'a DeadRows,
    /// The chunk that was asked last, and its place.
    chunk: u64,
    place: Place,
}

impl DeadRowCursor<'_> {
    /// Is this row id in the set?
    // Inlined, so that what is found at the place stays in registers.
    #[inline(always)]
    pub fn contains(&mut self, row: RowId) -> bool {
        let (chunk, row) = (chunk_of(row), inside(row));
        if chunk != self.chunk {
            (self.chunk, self.place) = (chunk, self.set.find(chunk));
        }
        match self.set.chunks.at(self.place) {
            Some(value) => chunk::contains(value, row),
            None => chunk == self.set.open_chunk && self.set.open.contains(row.block, row.slot),
        }
    }
}

/// A bounded set of row ids.
#[derive(Debug)]
pub struct DeadRows {
    chunks: BytesMap,
    open: OpenChunk,
    /// The chunk that `open` stands for; the tree may hold an older form of it.
    open_chunk: u64,
    /// The place of each chunk, by number; empty while the set is being filled.
    places: Vec<Place>,
    len: usize,
    limit: usize,
    memory: Reservation,
}

fn chunk_of(row: RowId) -> u64 {
    u64::from(row.block.0) / BLOCKS as u64
}

fn inside(row: RowId) -> ChunkRow {
    ChunkRow { block: row.block.0 as u8, slot: row.slot }
}

impl DeadRows {
    /// A set of at most `bytes` bytes, less if the budget has not that much.
    pub fn new(budget: &Budget, bytes: usize) -> Result<Self> {
        let chunks = BytesMap::new();
        // The pages of one piece must always fit, or no pass could ever get on.
        let least = chunks.memory_after(4) + BESIDE;
        let mut limit = bytes.max(least);
        loop {
            if let Some(memory) = budget.try_reserve(limit) {
                let open = OpenChunk::new();
                let places = Vec::new();
                return Ok(Self { chunks, open, open_chunk: NONE, places, len: 0, limit, memory });
            }
            if limit <= least {
                return Err(Error::OutOfMemory("no memory left for a vacuum".into()));
            }
            limit = (limit / 2).max(least);
        }
    }

    /// Is there room for the row ids of one more run of at most 256 blocks, how many they may be?
    pub fn has_room(&self) -> bool {
        // They lie in two chunks at most; before the second one is sealed, others are asked again.
        self.chunks.memory_after(2) + BESIDE <= self.limit
    }

    /// Adds the row ids, in ascending order, of a run of at most 256 blocks.
    pub fn extend(&mut self, rows: &[RowId]) {
        assert!(rows.is_sorted_by(|a, b| a < b), "ascending");
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        assert!((last.block.0 - first.block.0) < BLOCKS as u32, "as many as has_room promised");
        assert!(self.has_room(), "asked before");
        self.places = Vec::new();
        for &row in rows {
            if chunk_of(row) != self.open_chunk {
                self.open(chunk_of(row));
            }
            let ChunkRow { block, slot } = inside(row);
            self.len += usize::from(self.open.insert(block, slot));
        }
        assert!(self.memory() <= self.limit, "the reservation is kept");
    }

    /// Seals the open chunk; none is open then.
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let (form, bytes) = self.open.encode();
            self.chunks.insert(self.open_chunk, form, &bytes);
            self.open.clear();
        }
        self.open_chunk = NONE;
    }

    /// Seals the open chunk and opens another.
    fn open(&mut self, chunk: u64) {
        self.seal();
        self.open_chunk = chunk;
        if let Some(value) = self.chunks.get(chunk) {
            self.open.decode(value);
        }
    }

    /// Writes the places of all chunks into one list, if there is room, before many probes. Nothing
    /// is added until the set is cleared.
    pub fn list_places(&mut self) {
        self.places = Vec::new();
        if self.chunks.memory_after(1) + BESIDE > self.limit {
            return;
        }
        self.seal();
        let Some((last, _)) = self.chunks.range(..).last() else { return };
        let count = last as usize + 1;
        if self.memory() + count * size_of::<Place>() > self.limit {
            return;
        }
        self.places = vec![Place::NOWHERE; count];
        for (chunk, _) in self.chunks.range(..) {
            self.places[chunk as usize] = self.chunks.place(chunk);
        }
    }

    /// Number of row ids.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No row ids?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes in use, with those needed to hand out pieces.
    pub fn memory(&self) -> usize {
        self.chunks.memory() + self.places.capacity() * size_of::<Place>() + BESIDE
    }

    /// Bytes reserved from the budget.
    pub fn reserved(&self) -> usize {
        self.limit
    }

    /// Is this row id in the set?
    pub fn contains(&self, row: RowId) -> bool {
        self.cursor().contains(row)
    }

    /// A cursor for single probes, best in order.
    pub fn cursor(&self) -> DeadRowCursor<'_> {
        DeadRowCursor { set: self, chunk: NONE, place: Place::NOWHERE }
    }

    /// The place of a chunk, if it is sealed and not open again.
    #[inline(always)]
    fn find(&self, chunk: u64) -> Place {
        if self.places.is_empty() { self.search(chunk) } else { self.place(chunk) }
    }

    /// [`DeadRows::find`] by the list of places.
    #[inline(always)]
    fn place(&self, chunk: u64) -> Place {
        self.places.get(chunk as usize).copied().unwrap_or_default()
    }

    /// [`DeadRows::find`] without the list of places.
    #[inline(never)]
    fn search(&self, chunk: u64) -> Place {
        if chunk == self.open_chunk { Place::NOWHERE } else { self.chunks.place(chunk) }
    }

    /// Answers for a whole leaf which of `rows` are in the set. Any order will do; neighbours in
    /// one chunk share their way to it.
    pub fn probe(&self, rows: &[RowId], dead: &mut [bool]) {
        assert_eq!(rows.len(), dead.len(), "an answer for each row");
        if !self.places.is_empty() {
            return self.probe_places(rows, dead);
        }
        let mut done = 0;
        while done < rows.len() {
            let runs = Runs::of(&rows[done..], |a, b| chunk_of(*a) == chunk_of(*b));
            self.probe_runs(&rows[done..], &mut dead[done..], &runs);
            done += runs.end();
        }
    }

    /// Answers by the list of places.
    fn probe_places(&self, rows: &[RowId], dead: &mut [bool]) {
        let mut done = 0;
        while let Some(first) = rows.get(done) {
            let alike = |row: &&RowId| chunk_of(**row) == chunk_of(*first);
            let run = done..done + rows[done..].iter().take_while(alike).count();
            let (rows, dead) = (&rows[run.clone()], &mut dead[run.clone()]);
            match self.chunks.at(self.place(chunk_of(*first))) {
                Some(value) => {
                    let inside = rows.iter().map(|row| inside(*row));
                    chunk::contains_each(value, inside, |i, found| dead[i] = found);
                }
                None => dead.fill(false),
            }
            done = run.end;
        }
    }

    /// Answers for runs of rows in one chunk each.
    fn probe_runs(&self, rows: &[RowId], dead: &mut [bool], runs: &Runs) {
        let mut chunks = [0; GROUP];
        for (run, chunk) in chunks.iter_mut().enumerate().take(runs.len()) {
            *chunk = chunk_of(rows[runs.range(run).start]);
        }
        // First all chunks, then all answers: the waits for memory of each step are one.
        let mut values = [None; GROUP];
        self.chunks.get_each(&chunks[..runs.len()], |run, value| values[run] = value);
        for (run, value) in values.into_iter().enumerate().take(runs.len()) {
            let (rows, dead) = (&rows[runs.range(run)], &mut dead[runs.range(run)]);
            if chunks[run] == self.open_chunk {
                self.probe_open(rows, dead);
            } else if let Some(value) = value {
                let inside = rows.iter().map(|row| inside(*row));
                chunk::contains_each(value, inside, |i, found| dead[i] = found);
            } else {
                dead.fill(false);
            }
        }
    }

    #[cold]
    fn probe_open(&self, rows: &[RowId], dead: &mut [bool]) {
        for (row, dead) in rows.iter().zip(dead) {
            let ChunkRow { block, slot } = inside(*row);
            *dead = self.open.contains(block, slot);
        }
    }

    /// Calls `each` with the row ids of a chunk, in order.
    fn for_each_of(&self, chunk: u64, each: &mut dyn FnMut(RowId)) {
        let base = chunk.wrapping_mul(BLOCKS as u64) as u32;
        let row = |block: u8, slot| RowId::new(base + u32::from(block), slot);
        if chunk == self.open_chunk {
            self.open.for_each(|block, slot| each(row(block, slot)));
        } else if let Some(value) = self.chunks.get(chunk) {
            let mut copy = OpenChunk::new();
            copy.decode(value);
            copy.for_each(|block, slot| each(row(block, slot)));
        }
    }

    /// Calls `each` with the row ids in order, in pieces of whole blocks.
    pub fn for_each_piece(&self, mut each: impl FnMut(&[RowId]) -> Result<()>) -> Result<()> {
        let mut piece: Vec<RowId> = Vec::new();
        let mut next = Some(0);
        while let Some(chunk) = next.and_then(|next| self.next_chunk(next)) {
            let mut result = Ok(());
            self.for_each_of(chunk, &mut |row| {
                let new_block = piece.last().is_some_and(|last| last.block != row.block);
                if new_block && piece.len() >= PIECE && result.is_ok() {
                    result = each(&piece);
                    piece.clear();
                }
                piece.push(row);
            });
            result?;
            next = chunk.checked_add(1);
        }
        if piece.is_empty() { Ok(()) } else { each(&piece) }
    }

    /// The first chunk from `from` on that holds something.
    fn next_chunk(&self, from: u64) -> Option<u64> {
        let sealed = self.chunks.range(from..).next().map(|(chunk, _)| chunk);
        let open = Some(self.open_chunk).filter(|open| *open != NONE && *open >= from);
        sealed.into_iter().chain(open).min()
    }

    /// Returns the memory that the set does not need; nothing more can be added to it.
    pub fn shrink(&mut self) {
        let spare = self.limit - self.memory().min(self.limit);
        self.memory.shrink(spare);
        self.limit -= spare;
    }

    /// Empties the set for the next pass.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.places = Vec::new();
        self.open.clear();
        (self.open_chunk, self.len) = (NONE, 0);
    }
}
