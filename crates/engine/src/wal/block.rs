//! Blocks of the log: where bytes of the stream lie, and the header that every block opens with.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic |
//! | 4 | 2 | format version |
//! | 6 | 2 | offset of the first frame that starts in this block, 0 if none can |
//! | 8 | 8 | database id |
//! | 16 | 8 | LSN of the block itself |
//! | 24 | 8 | start of the frame that covers the first byte after the header, 0 if none does |
//! | 32 | 8 | checksum of the fields above |
//!
//! Invariants: a header depends only on bytes before the first byte that was durable with it, so
//! writing the last block again repeats it byte for byte (R16). An LSN counts headers too, so it
//! alone gives the place of a byte in its file. A frame header never straddles two blocks.
//! Does not do: I/O.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::FORMAT_VERSION;

/// Bytes of a log block.
pub(super) const BLOCK: u64 = 8192;
/// Bytes of a block's header.
pub(super) const HEADER: u64 = 40;
/// Unit of writing: the sector of the strictest device, and what direct I/O asks for.
pub(super) const SECTOR: u64 = 4096;
/// Bytes of a frame's header (see `frame.rs`); needed here because it decides where a frame may
/// start.
pub(super) const FRAME_HEADER: u64 = 32;

const MAGIC: u32 = 0x4c57_4c52; // "RLWL"
const _: () = assert!(BLOCK.is_multiple_of(SECTOR) && HEADER + FRAME_HEADER < SECTOR);

/// The fields of a block's header that do not follow from its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockHeader {
    /// Offset in the block of the first frame that starts in it, 0 if none can.
    pub(super) first_frame: u16,
    /// Start of the frame that covers the first byte after the header, 0 if none does.
    pub(super) cover: u64,
}

impl BlockHeader {
    /// The header of the block at `lsn`.
    pub(super) fn encode(self, database: u64, lsn: u64) -> [u8; HEADER as usize] {
        assert!(lsn.is_multiple_of(BLOCK), "a block starts at a multiple of its size");
        assert!(self.first_frame != 0 || self.cover != 0, "a block is written for a frame");
        let mut out = [0; HEADER as usize];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..6].copy_from_slice(&u16::from(FORMAT_VERSION).to_le_bytes());
        out[6..8].copy_from_slice(&self.first_frame.to_le_bytes());
        out[8..16].copy_from_slice(&database.to_le_bytes());
        out[16..24].copy_from_slice(&lsn.to_le_bytes());
        out[24..32].copy_from_slice(&self.cover.to_le_bytes());
        let sum = xxh3_64_with_seed(&out[..32], database ^ lsn);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the header of the block at `lsn`, or nothing if these bytes are not one.
    pub(super) fn decode(block: &[u8], database: u64, lsn: u64) -> Option<BlockHeader> {
        let bytes: &[u8; HEADER as usize] = block.first_chunk()?;
        let first_frame = u16::from_le_bytes([bytes[6], bytes[7]]);
        let header = BlockHeader { first_frame, cover: u64_at(bytes, 24) };
        let plausible = header.cover < lsn
            && (header.first_frame != 0 || header.cover != 0)
            && (header.first_frame == 0 || u64::from(first_frame) >= HEADER)
            && u64::from(first_frame) + FRAME_HEADER <= BLOCK;
        let plausible =
            plausible || (lsn == 0 && header.cover == 0 && first_frame == HEADER as u16);
        (plausible && header.encode(database, lsn) == *bytes).then_some(header)
    }
}

/// The eight bytes at `offset`, little-endian. The caller's array is longer than that.
pub(super) fn u64_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// Start of the block that `lsn` lies in.
pub(super) fn block_of(lsn: u64) -> u64 {
    lsn - lsn % BLOCK
}

/// Where the next byte of the stream goes when `lsn` bytes are used up: past a block's header.
pub(super) fn content(lsn: u64) -> u64 {
    let offset = lsn % BLOCK;
    assert!(offset == 0 || offset >= HEADER, "an LSN never points into a block's header");
    if offset == 0 { lsn + HEADER } else { lsn }
}

/// Where a frame that follows `lsn` starts: its header must fit into the rest of the block.
pub(super) fn frame_start(lsn: u64) -> u64 {
    let at = content(lsn);
    if BLOCK - at % BLOCK < FRAME_HEADER { block_of(at) + BLOCK + HEADER } else { at }
}

/// The end of `len` bytes of the stream that start at or after `lsn`.
pub(super) fn advance(lsn: u64, len: u64) -> u64 {
    if len == 0 {
        return lsn;
    }
    let per_block = BLOCK - HEADER;
    let done = content(lsn) % BLOCK - HEADER + len;
    // A run that fills its last block ends at the boundary, not after the next header.
    let (blocks, rest) = ((done - 1) / per_block, (done - 1) % per_block + 1);
    block_of(lsn) + blocks * BLOCK + HEADER + rest
}

/// `lsn` rounded down to the unit of writing.
pub(super) fn sector_of(lsn: u64) -> u64 {
    lsn - lsn % SECTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_step_over_headers() {
        assert_eq!((content(0), content(41), content(BLOCK)), (40, 41, BLOCK + 40));
        assert_eq!(advance(0, 1), 41);
        assert_eq!(advance(0, BLOCK - HEADER), BLOCK);
        assert_eq!(advance(0, BLOCK - HEADER + 1), BLOCK + HEADER + 1);
        assert_eq!(advance(BLOCK, 5), BLOCK + HEADER + 5);
        assert_eq!(frame_start(BLOCK - 32), BLOCK - 32);
        assert_eq!(frame_start(BLOCK - 31), BLOCK + HEADER);
    }

    /// Advancing byte by byte and at once must agree, whatever the start.
    #[test]
    fn advance_is_additive() {
        for start in [0, 40, 100, BLOCK - 1, BLOCK, BLOCK + 50] {
            let mut at = start;
            for len in 1..20_000 {
                at = content(at) + 1;
                assert_eq!(advance(start, len), at, "start {start} len {len}");
            }
        }
    }

    #[test]
    fn headers_belong_to_one_place_and_database() {
        let header = BlockHeader { first_frame: 77, cover: 40 };
        let bytes = header.encode(9, BLOCK);
        assert_eq!(BlockHeader::decode(&bytes, 9, BLOCK), Some(header));
        assert_eq!(BlockHeader::decode(&bytes, 8, BLOCK), None);
        assert_eq!(BlockHeader::decode(&bytes, 9, 2 * BLOCK), None);
        assert_eq!(BlockHeader::decode(&bytes[..39], 9, BLOCK), None);
        for i in 0..bytes.len() {
            let mut bad = bytes;
            bad[i] ^= 1;
            assert_eq!(BlockHeader::decode(&bad, 9, BLOCK), None, "byte {i}");
        }
    }
}
