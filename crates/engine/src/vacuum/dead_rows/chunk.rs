//! The dead slots of 256 neighbouring blocks as bytes, in the smallest of six forms.
//!
//! | form | bytes | chosen when |
//! |---|---|---|
//! | bits | blocks × s | many dead slots in most blocks |
//! | list | blocks × k | at most k, k up to 7, in most blocks |
//! | ranked bits, ranked list | 40 + blocks with dead slots × s or k | few blocks have any |
//! | pairs, wide pairs | 2 or 3 × dead slots | very few dead slots |
//!
//! `s` is the bytes of a bitmap up to the highest dead slot, `k` the most dead slots of a block.
//! All forms but pairs are tables of cells of one size, so that a probe loads a word or two.
//!
//! Invariants: slots count from 1, so zero is no slot and no pair.
//! Does not do: where the bytes lie.

use rightlink_radix::{BytesMap, Value};

use crate::heap::MAX_SLOTS;

/// Blocks of a chunk.
pub(super) const BLOCKS: usize = 256;
/// Words of an open chunk's bitmap for each block.
const WORDS: usize = (MAX_SLOTS as usize + 1).div_ceil(64);
/// Most slots that a list keeps: as many bytes as a probe compares at once, less one.
const MOST_LISTED: usize = 7;
/// Bytes before the cells of a ranked form: bitmap of blocks, and the bits before each word of it.
const RANKS: usize = 40;

/// Most words of pairs that are compared with faster than searched.
const MOST_WORDS: usize = 8;

const BITS: u16 = 0;
const LIST: u16 = 1;
const RANKED_BITS: u16 = 2;
const RANKED_LIST: u16 = 3;
const PAIRS: u16 = 4;
const WIDE_PAIRS: u16 = 5;

/// A row id within a chunk: the block counts from the chunk's first. Ordered as row ids are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ChunkRow {
    pub(super) block: u8,
    pub(super) slot: u16,
}

/// A chunk that is being filled: a bitmap of every slot.
#[derive(Debug)]
pub(super) struct OpenChunk {
    bits: Box<[[u64; WORDS]; BLOCKS]>,
    /// Blocks that have some: a sparse chunk is seen through in a few steps.
    blocks: [u64; BLOCKS / 64],
    rows: usize,
}

/// What decides the form.
#[derive(Default)]
struct ChunkShape {
    rows: usize,
    /// Blocks with dead slots, and the end of them.
    blocks: usize,
    end: usize,
    highest: usize,
    most: usize,
}

impl OpenChunk {
    /// Bytes that an open chunk, a copy of a sealed one and an encoding take.
    pub(super) const BYTES: usize = BLOCKS * WORDS * 8 * 3;

    pub(super) fn new() -> OpenChunk {
        OpenChunk { bits: Box::new([[0; WORDS]; BLOCKS]), blocks: [0; BLOCKS / 64], rows: 0 }
    }

    /// Adds a slot. Returns whether it is new.
    pub(super) fn insert(&mut self, block: u8, slot: u16) -> bool {
        assert!((1..=MAX_SLOTS).contains(&slot), "a line pointer of a heap page");
        let word = &mut self.bits[usize::from(block)][usize::from(slot / 64)];
        let new = *word >> (slot % 64) & 1 == 0;
        *word |= 1 << (slot % 64);
        self.blocks[usize::from(block / 64)] |= 1 << (block % 64);
        self.rows += usize::from(new);
        new
    }

    pub(super) fn contains(&self, block: u8, slot: u16) -> bool {
        let word = self.bits[usize::from(block)].get(usize::from(slot / 64));
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(super) fn clear(&mut self) {
        for block in bits_of(self.blocks) {
            self.bits[usize::from(block)] = [0; WORDS];
        }
        (self.blocks, self.rows) = ([0; BLOCKS / 64], 0);
    }

    /// Calls `each` with every block and slot, in order.
    pub(super) fn for_each(&self, mut each: impl FnMut(u8, u16)) {
        for block in bits_of(self.blocks) {
            bits_of(self.bits[usize::from(block)]).for_each(|slot| each(block as u8, slot));
        }
    }

    fn shape(&self) -> ChunkShape {
        let mut shape = ChunkShape { rows: self.rows, ..ChunkShape::default() };
        for block in bits_of(self.blocks) {
            let words = &self.bits[usize::from(block)];
            let count: u32 = words.iter().map(|word| word.count_ones()).sum();
            shape.blocks += 1;
            shape.end = usize::from(block) + 1;
            shape.most = shape.most.max(count as usize);
            shape.highest = shape.highest.max(highest(words));
        }
        shape
    }

    /// The form and the bytes of what is in the chunk.
    pub(super) fn encode(&self) -> (u16, Vec<u8>) {
        assert!(!self.is_empty(), "a chunk holds something");
        let shape = self.shape();
        let (form, cell) = shape.smallest();
        let mut bytes = Vec::with_capacity(shape.bytes(form, cell));
        if form == RANKED_BITS || form == RANKED_LIST {
            self.write_ranks(&mut bytes);
        }
        for block in bits_of(self.blocks) {
            let words = &self.bits[usize::from(block)];
            if form == BITS || form == LIST {
                // Blocks without dead slots have empty cells.
                bytes.resize(usize::from(block) * cell, 0);
            }
            match form {
                BITS | RANKED_BITS => write_bits(&mut bytes, words, cell),
                LIST | RANKED_LIST => write_list(&mut bytes, words, cell),
                _ => write_pairs(&mut bytes, block as u8, words, form == WIDE_PAIRS),
            }
        }
        assert_eq!(bytes.len(), shape.bytes(form, cell), "as long as was reckoned");
        (form | (cell as u16) << 3, bytes)
    }

    fn write_ranks(&self, bytes: &mut Vec<u8>) {
        let (mut before, mut ranks) = (0u64, 0u64);
        for (i, word) in self.blocks.iter().enumerate() {
            bytes.extend_from_slice(&word.to_le_bytes());
            ranks |= before << (i * 8);
            before += u64::from(word.count_ones());
        }
        bytes.extend_from_slice(&ranks.to_le_bytes());
    }

    /// Adds what `value` holds.
    pub(super) fn decode(&mut self, value: Value<'_>) {
        let (form, cell) = form_of(value);
        if form == PAIRS || form == WIDE_PAIRS {
            let size = pair_size(form);
            for at in (0..value.len()).step_by(size) {
                let ChunkRow { block, slot } = pair(value, at, size);
                self.insert(block, slot);
            }
            return;
        }
        for block in 0..=255 {
            let Some(start) = cell_start(value, form, cell, block) else { continue };
            for i in 0..cell {
                let byte = value.byte(start + i);
                if form == LIST || form == RANKED_LIST {
                    let _ = byte != 0 && self.insert(block, u16::from(byte));
                } else {
                    let slots = (0..8).filter(|bit| byte >> bit & 1 == 1);
                    slots.for_each(|bit| _ = self.insert(block, (i * 8 + bit + 1) as u16));
                }
            }
        }
    }
}

impl ChunkShape {
    fn bytes(&self, form: u16, cell: usize) -> usize {
        match form {
            BITS | LIST => self.end * cell,
            RANKED_BITS | RANKED_LIST => RANKS + self.blocks * cell,
            _ => self.rows * pair_size(form),
        }
    }

    /// The form of the fewest bytes, and its cells' bytes. Of two alike the faster one.
    fn smallest(&self) -> (u16, usize) {
        let bits = self.highest.div_ceil(8);
        let narrow = self.highest <= usize::from(u8::MAX);
        let listed = narrow && self.most <= MOST_LISTED;
        let pairs = if narrow { PAIRS } else { WIDE_PAIRS };
        let list = |form| listed.then_some((form, self.most));
        let forms = [
            Some((BITS, bits)),
            list(LIST),
            Some((RANKED_BITS, bits)),
            list(RANKED_LIST),
            Some((pairs, 0)),
        ];
        let taken = |&(form, cell): &(u16, usize)| BytesMap::bytes_for(self.bytes(form, cell));
        let fits = |&(form, cell): &(u16, usize)| self.bytes(form, cell) < BytesMap::MAX_LEN;
        let forms = forms.into_iter().flatten().filter(fits);
        forms.min_by_key(taken).expect("bits always do")
    }
}

/// The bits that are set, in order.
fn bits_of<const N: usize>(words: [u64; N]) -> impl Iterator<Item = u16> {
    words.into_iter().enumerate().flat_map(|(i, mut word)| {
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros();
            word &= word.wrapping_sub(1);
            (bit < 64).then_some(i as u16 * 64 + bit as u16)
        })
    })
}

fn highest(words: &[u64; WORDS]) -> usize {
    let last = words.iter().rposition(|word| *word != 0);
    last.map_or(0, |last| last * 64 + words[last].ilog2() as usize)
}

fn write_bits(bytes: &mut Vec<u8>, words: &[u64; WORDS], cell: usize) {
    // Slot 1 is the first bit of a cell.
    let end = bytes.len() + cell;
    for (i, word) in words.iter().enumerate() {
        let next = words.get(i + 1).map_or(0, |next| next << 63);
        let part = (word >> 1 | next).to_le_bytes();
        bytes.extend_from_slice(&part[..8.min(end - bytes.len())]);
    }
    assert_eq!(bytes.len(), end, "the words reach as far as the cell");
}

fn write_list(bytes: &mut Vec<u8>, words: &[u64; WORDS], cell: usize) {
    let end = bytes.len() + cell;
    bytes.extend(bits_of(*words).map(|slot| slot as u8));
    assert!(bytes.len() <= end, "no block has more");
    bytes.resize(end, 0);
}

fn write_pairs(bytes: &mut Vec<u8>, block: u8, words: &[u64; WORDS], wide: bool) {
    for slot in bits_of(*words) {
        let [low, high] = slot.to_le_bytes();
        if wide {
            bytes.extend_from_slice(&[block, low, high]);
        } else {
            bytes.extend_from_slice(&[low, block]);
        }
    }
}

fn pair_size(form: u16) -> usize {
    if form == PAIRS { 2 } else { 3 }
}

fn pair(value: Value<'_>, at: usize, size: usize) -> ChunkRow {
    if size == 2 {
        ChunkRow { block: value.byte(at + 1), slot: u16::from(value.byte(at)) }
    } else {
        let slot = u16::from_le_bytes([value.byte(at + 1), value.byte(at + 2)]);
        ChunkRow { block: value.byte(at), slot }
    }
}

#[inline(always)]
fn form_of(value: Value<'_>) -> (u16, usize) {
    (value.tag() & 7, usize::from(value.tag() >> 3))
}

/// Where the cell of a block begins, if it has one.
#[inline(always)]
fn cell_start(value: Value<'_>, form: u16, cell: usize, block: u8) -> Option<usize> {
    let block = usize::from(block);
    let start = if form == BITS || form == LIST {
        block * cell
    } else {
        let word = value.word(block / 64);
        if word >> (block % 64) & 1 == 0 {
            return None;
        }
        let inside = (word & ((1 << (block % 64)) - 1)).count_ones() as usize;
        RANKS + ((value.word(4) >> (block / 64 * 8) & 0xFF) as usize + inside) * cell
    };
    (start < value.len()).then_some(start)
}

/// Is a row id in a chunk?
#[inline(always)]
pub(super) fn contains(value: Value<'_>, row: ChunkRow) -> bool {
    let (form, cell) = form_of(value);
    // The densest sets first: their probes wait least for memory.
    if form == BITS {
        return in_bits(value, cell, row);
    }
    let mut found = false;
    contains_each(value, std::iter::once(row), |_, dead| found = dead);
    found
}

/// Which of the row ids, are in a chunk: `out` is told index and answer.
#[inline(always)]
pub(super) fn contains_each(
    value: Value<'_>,
    rows: impl Iterator<Item = ChunkRow>,
    mut out: impl FnMut(usize, bool),
) {
    let (form, cell) = form_of(value);
    let rows = rows.enumerate();
    // The form is the same for all rows, so the choice is made once.
    match form {
        BITS => rows.for_each(|(i, row)| out(i, in_bits(value, cell, row))),
        LIST if cell == 1 => rows.for_each(|(i, row)| out(i, in_single(value, LIST, row))),
        LIST => rows.for_each(|(i, row)| out(i, in_list(value, LIST, cell, row))),
        RANKED_BITS => rows.for_each(|(i, row)| out(i, in_ranked_bits(value, cell, row))),
        RANKED_LIST if cell == 1 => {
            rows.for_each(|(i, row)| out(i, in_single(value, RANKED_LIST, row)));
        }
        RANKED_LIST => rows.for_each(|(i, row)| out(i, in_list(value, RANKED_LIST, cell, row))),
        PAIRS => match value.len().div_ceil(8) {
            0..=2 => in_few_pairs::<2>(value, rows, out),
            3..=4 => in_few_pairs::<4>(value, rows, out),
            5..=MOST_WORDS => in_few_pairs::<MOST_WORDS>(value, rows, out),
            _ => rows.for_each(|(i, row)| out(i, in_pairs(value, row))),
        },
        _ => rows.for_each(|(i, row)| out(i, in_wide_pairs(value, row))),
    }
}

/// The bit of a slot in its cell; that of slot 0 is beyond every cell.
#[inline(always)]
fn bit_of(slot: u16) -> usize {
    usize::from(slot.wrapping_sub(1))
}

#[inline(always)]
fn in_bits(value: Value<'_>, cell: usize, row: ChunkRow) -> bool {
    let ChunkRow { block, slot } = row;
    // No branch depends on the bits: bits outside are read and do not count.
    let (start, bit) = (usize::from(block) * cell, bit_of(slot));
    let inside = (start < value.len()) & (bit < cell * 8);
    let at = start * 8 + bit;
    inside & (value.word(at / 64) >> (at % 64) & 1 == 1)
}

#[inline(always)]
fn in_ranked_bits(value: Value<'_>, cell: usize, row: ChunkRow) -> bool {
    let ChunkRow { block, slot } = row;
    let bit = bit_of(slot);
    let Some(start) = cell_start(value, RANKED_BITS, cell, block) else { return false };
    let at = start * 8 + bit;
    (bit < cell * 8) & (value.word(at / 64) >> (at % 64) & 1 == 1)
}

#[inline(always)]
fn in_list(value: Value<'_>, form: u16, cell: usize, row: ChunkRow) -> bool {
    let ChunkRow { block, slot } = row;
    let Some(start) = cell_start(value, form, cell, block) else { return false };
    let (at, shift) = (start / 8, start % 8 * 8);
    // Both words, whether the list reaches into the second or not: that is hard to foretell.
    let bytes = value.word(at) >> shift | value.word(at + 1) << 1 << (63 - shift);
    let lanes = u64::MAX >> (64 - cell * 8);
    let differing = bytes ^ (LANES * u64::from(slot as u8));
    has_zero_byte(differing | !lanes) & (1..256).contains(&slot)
}

/// [`in_list`] for lists of one.
#[inline(always)]
fn in_single(value: Value<'_>, form: u16, row: ChunkRow) -> bool {
    let ChunkRow { block, slot } = row;
    let start = cell_start(value, form, 1, block);
    slot != 0 && start.is_some_and(|start| u16::from(value.byte(start)) == slot)
}

/// The byte of each of 8 lanes.
const LANES: u64 = 0x0101_0101_0101_0101;

#[inline(always)]
fn has_zero_byte(word: u64) -> bool {
    word.wrapping_sub(LANES) & !word & (LANES << 7) != 0
}

/// All pairs of a few words, compared with at once.
#[inline(always)]
fn in_few_pairs<const WORDS: usize>(
    value: Value<'_>,
    rows: impl Iterator<Item = (usize, ChunkRow)>,
    mut out: impl FnMut(usize, bool),
) {
    let words = value.len().div_ceil(8);
    // Pairs past the end are zero, which no row id is.
    let word = |i| if i < words { value.word(i) } else { 0 };
    let lanes: [[u16; 4]; WORDS] = std::array::from_fn(|i| {
        let word = word(i);
        [word as u16, (word >> 16) as u16, (word >> 32) as u16, (word >> 48) as u16]
    });
    rows.for_each(|(i, ChunkRow { block, slot })| {
        let wanted = u16::from(block) << 8 | (slot & 0xFF);
        let found =
            lanes.as_flattened().iter().fold(false, |found, pair| found | (*pair == wanted));
        out(i, found & (1..256).contains(&slot));
    });
}

#[inline(always)]
fn in_pairs(value: Value<'_>, row: ChunkRow) -> bool {
    let ChunkRow { block, slot } = row;
    let wanted = u64::from(block) << 8 | u64::from(slot);
    // The last word whose first pair is not beyond the wanted one.
    let (mut low, mut high) = (0, value.len().div_ceil(8));
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        let beyond = value.word(middle) & 0xFFFF > wanted;
        (low, high) = if beyond { (low, middle) } else { (middle, high) };
    }
    zero_pairs(value.word(low), wanted) != 0 && (1..256).contains(&slot)
}

/// Not zero if one of the four pairs in `word` is the wanted one.
#[inline(always)]
fn zero_pairs(word: u64, wanted: u64) -> u64 {
    let differing = word ^ (0x0001_0001_0001_0001 * (wanted & 0xFFFF));
    differing.wrapping_sub(0x0001_0001_0001_0001) & !differing & 0x8000_8000_8000_8000
}

fn in_wide_pairs(value: Value<'_>, row: ChunkRow) -> bool {
    let (mut low, mut high) = (0, value.len() / 3);
    while low < high {
        let middle = usize::midpoint(low, high);
        let found = pair(value, middle * 3, 3);
        if found == row {
            return true;
        }
        (low, high) = if found < row { (middle + 1, high) } else { (low, middle) };
    }
    false
}
