//! A frame: all records of one group, written and made durable together.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic |
//! | 4 | 4 | bytes of records that follow (block headers not counted) |
//! | 8 | 8 | end of the log that was durable when this was written |
//! | 16 | 8 | checksum of the records |
//! | 24 | 8 | checksum of the fields above |
//!
//! Invariants: both checksums are seeded with the frame's start and the database id, so bytes of a
//! recycled segment or of another database never pass (R16). The header is checked without its
//! records, so the durable LSN of a frame with torn records still counts.
//! Does not do: find frames.

use rightlink_env::Broken;
use rightlink_env::points::broken;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use super::block::{FRAME_HEADER, u64_at};

/// First bytes of a frame: lets a search for frames skip everything else quickly.
pub(super) const MAGIC: [u8; 4] = *b"RLFr";
/// Most bytes of records in one frame.
pub(super) const MAX_FRAME_BYTES: u64 = 8 << 20;

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameHeader {
    /// Bytes of records, block headers not counted.
    pub(super) len: u32,
    /// End of the durable log when the frame was written.
    pub(super) durable: u64,
    /// Checksum of the records.
    pub(super) sum: u64,
}

impl FrameHeader {
    /// The header of a frame at `start`.
    pub(super) fn encode(self, database: u64, start: u64) -> [u8; FRAME_HEADER as usize] {
        assert!(self.len > 0 && u64::from(self.len) <= MAX_FRAME_BYTES, "a frame has records");
        let mut out = [0; FRAME_HEADER as usize];
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..16].copy_from_slice(&self.durable.to_le_bytes());
        out[16..24].copy_from_slice(&self.sum.to_le_bytes());
        let sum = xxh3_64_with_seed(&out[..24], seed(database, start));
        out[24..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the header of a frame at `start`, or nothing if these bytes are not one.
    pub(super) fn decode(bytes: &[u8], database: u64, start: u64) -> Option<FrameHeader> {
        let bytes: &[u8; FRAME_HEADER as usize] = bytes.first_chunk()?;
        let sum = xxh3_64_with_seed(&bytes[..24], seed(database, start));
        let len = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let sound = bytes[..4] == MAGIC
            && sum == u64_at(bytes, 24)
            && len > 0
            && u64::from(len) <= MAX_FRAME_BYTES;
        sound.then(|| FrameHeader { len, durable: u64_at(bytes, 8), sum: u64_at(bytes, 16) })
    }
}

fn seed(database: u64, start: u64) -> u64 {
    if broken(Broken::LogChecksumNotSeeded) { 0 } else { database ^ start }
}

/// The checksum of the records of the frame at `start`, fed piece by piece.
pub(super) fn records_sum(database: u64, start: u64) -> Xxh3 {
    Xxh3::with_seed(seed(database, start).rotate_left(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_belong_to_one_place_and_database() {
        let header = FrameHeader { len: 3, durable: 7, sum: 11 };
        let bytes = header.encode(1, 40);
        assert_eq!(FrameHeader::decode(&bytes, 1, 40), Some(header));
        assert_eq!(FrameHeader::decode(&bytes, 1, 41), None);
        assert_eq!(FrameHeader::decode(&bytes, 2, 40), None);
        for i in 0..bytes.len() {
            let mut bad = bytes;
            bad[i] ^= 0x10;
            assert_eq!(FrameHeader::decode(&bad, 1, 40), None, "byte {i}");
        }
    }
}
