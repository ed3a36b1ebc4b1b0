//! A group of records in memory, which is written as one frame.
//!
//! There are two groups: appends copy into one while the other is written. The bytes of a group lie
//! as on disk, from the sector that its frame starts in. The leader copies the earlier bytes of
//! that sector (`tail`) over its start, since only the leader knows them.
//!
//! Invariants: `end - base` fits the memory. A sealed group repeats the bytes before its frame
//! (R16).
//! Does not do: I/O, locking.

use rightlink_aio::AlignedBuf;
use rightlink_env::Broken;
use rightlink_env::points::broken;

use super::block::{
    BLOCK, BlockHeader, FRAME_HEADER, HEADER, SECTOR, advance, block_of, content, frame_start,
    sector_of,
};
use super::frame::{FrameHeader, MAX_FRAME_BYTES, records_sum};

/// One frame in the making.
pub(super) struct RecordGroup {
    bytes: AlignedBuf,
    base: u64,
    /// Where it began: the end of the group before.
    start: u64,
    /// Start of the frame, once it has a record.
    frame: Option<u64>,
    /// End of the records so far.
    end: u64,
    /// Bytes of records, headers not counted.
    len: u64,
    records: u64,
}

impl RecordGroup {
    /// An empty group that goes on at `end`, with room for `capacity` bytes.
    pub(super) fn new(capacity: usize, end: u64) -> RecordGroup {
        assert!(capacity as u64 >= 4 * BLOCK, "a group has room for several blocks");
        let bytes = AlignedBuf::zeroed(capacity);
        Self { bytes, base: sector_of(end), start: end, frame: None, end, len: 0, records: 0 }
    }

    /// Empties the group, to go on at `end`.
    pub(super) fn reset(&mut self, end: u64) {
        (self.base, self.start, self.end, self.frame) = (sector_of(end), end, end, None);
        (self.len, self.records) = (0, 0);
    }

    /// End of the log without this group.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// End of the log with this group.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How many records wait here.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Where the log would end if a record of `len` bytes were put now.
    pub(super) fn end_with(&self, len: usize) -> u64 {
        let start = match self.frame {
            Some(_) => self.end,
            None => frame_start(self.end) + FRAME_HEADER,
        };
        advance(start, len as u64)
    }

    /// Is there room for a record of `len` bytes?
    pub(super) fn has_room(&self, len: usize) -> bool {
        let end = self.end_with(len).next_multiple_of(SECTOR);
        end - self.base <= self.bytes.len() as u64 && self.len + len as u64 <= MAX_FRAME_BYTES
    }

    /// Starts a record; its bytes follow by [`RecordGroup::put`].
    pub(super) fn begin_record(&mut self) {
        if self.frame.is_none() {
            let start = frame_start(self.end);
            // The skipped bytes may be left from an earlier group.
            self.zero(self.end, start + FRAME_HEADER);
            self.frame = Some(start);
            self.end = start + FRAME_HEADER;
        }
        self.records += 1;
    }

    /// Copies bytes of a record, stepping over block headers.
    pub(super) fn put(&mut self, mut bytes: &[u8]) {
        assert!(self.frame.is_some(), "bytes belong to a record");
        while !bytes.is_empty() {
            let at = content(self.end);
            let room = (BLOCK - at % BLOCK).min(bytes.len() as u64) as usize;
            let (head, tail) = bytes.split_at(room);
            let offset = self.offset(at);
            self.bytes[offset..offset + room].copy_from_slice(head);
            self.end = at + room as u64;
            self.len += room as u64;
            bytes = tail;
        }
    }

    fn offset(&self, lsn: u64) -> usize {
        assert!(lsn >= self.base, "the group starts at its base");
        (lsn - self.base) as usize
    }

    fn zero(&mut self, from: u64, to: u64) {
        let (from, to) = (self.offset(from), self.offset(to));
        self.bytes[from..to].fill(0);
    }

    /// Completes the frame: `tail` is what the sector at the base held before, `durable` the
    /// durable end of the log.
    pub(super) fn seal(&mut self, database: u64, durable: u64, tail: &[u8; SECTOR as usize]) {
        let start = self.frame.expect("only a group with records is sealed");
        assert!(durable <= start, "what is durable lies before the frame");
        self.lay_tail(start, tail);
        self.zero(self.end, self.end.next_multiple_of(SECTOR));
        self.put_block_headers(database, start);
        let sum = self.records_sum(database, start);
        let header = FrameHeader { len: self.len as u32, durable, sum };
        let at = self.offset(start);
        let header = header.encode(database, start);
        self.bytes[at..at + header.len()].copy_from_slice(&header);
    }

    /// The bytes between the base and the frame: durable ones, then the padding before the frame.
    fn lay_tail(&mut self, start: u64, tail: &[u8; SECTOR as usize]) {
        let len = self.offset(start).min(SECTOR as usize);
        self.bytes[..len].copy_from_slice(&tail[..len]);
    }

    fn put_block_headers(&mut self, database: u64, start: u64) {
        let mut block = self.base.next_multiple_of(BLOCK);
        while block < self.end {
            // Only a block that begins with this group; one that began earlier has its header.
            if start <= block + HEADER {
                let first = self.first_frame(block, start);
                let cover = if start < block { start } else { 0 };
                let header = BlockHeader { first_frame: first, cover }.encode(database, block);
                let at = self.offset(block);
                self.bytes[at..at + header.len()].copy_from_slice(&header);
            }
            block += BLOCK;
        }
    }

    fn first_frame(&self, block: u64, start: u64) -> u16 {
        if start == block + HEADER {
            return HEADER as u16;
        }
        let next = frame_start(self.end);
        if block_of(next) == block { (next - block) as u16 } else { 0 }
    }

    fn records_sum(&self, database: u64, start: u64) -> u64 {
        let mut sum = records_sum(database, start);
        let mut at = start + FRAME_HEADER;
        while at < self.end {
            at = content(at);
            let stop = (block_of(at) + BLOCK).min(self.end);
            sum.update(&self.bytes[self.offset(at)..self.offset(stop)]);
            at = stop;
        }
        sum.digest()
    }

    /// The sealed bytes, whole sectors, and where they go.
    pub(super) fn image(&self) -> (u64, &[u8]) {
        let len = self.offset(self.end.next_multiple_of(SECTOR));
        (self.base, &self.bytes[..len])
    }

    /// Keeps the last, unfilled sector, which the next flush repeats (R16).
    pub(super) fn save_tail(&self, tail: &mut [u8; SECTOR as usize]) {
        tail.fill(0);
        if broken(Broken::LogTailOverwritten) {
            return;
        }
        let from = self.offset(sector_of(self.end));
        let len = (self.end % SECTOR) as usize;
        tail[..len].copy_from_slice(&self.bytes[from..from + len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group that starts in the middle of a sector repeats what was there, and headers are found
    /// at every block.
    #[test]
    fn sealed_bytes_repeat_the_tail() {
        let mut tail = [0; SECTOR as usize];
        let mut group = RecordGroup::new(64 << 10, 0);
        group.begin_record();
        group.put(&[1; 5000]);
        group.seal(7, 0, &tail);
        let (base, first) = group.image();
        assert_eq!((base, first.len()), (0, 8192));
        let first = first.to_vec();
        group.save_tail(&mut tail);
        let mut next = RecordGroup::new(64 << 10, group.end());
        next.begin_record();
        next.put(&[2; 9000]);
        next.seal(7, group.end(), &tail);
        let (base, second) = next.image();
        assert_eq!(base, SECTOR);
        let shared = (group.end() - SECTOR) as usize;
        assert_eq!(second[..shared], first[SECTOR as usize..][..shared]);
        let header = BlockHeader::decode(&second[SECTOR as usize..], 7, BLOCK).unwrap();
        assert_eq!(header.cover, group.end());
        let found = FrameHeader::decode(&second[shared..], 7, group.end()).unwrap();
        assert_eq!((u64::from(found.len), found.durable), (9000, group.end()));
    }
}
