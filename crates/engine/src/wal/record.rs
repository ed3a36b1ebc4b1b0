//! A log record: a transaction's changes of a few pages, as page deltas.
//!
//! On disk: varint length of what follows, kind byte, varint xid, varint number of parts, and for
//! each part varint file, varint block, varint delta length, delta bytes. Integrity is the frame's
//! business.
//!
//! Invariants: decoding trusts no length; a record is at most [`MAX_RECORD_BYTES`] long and has at
//! most [`MAX_PARTS`] parts, asserted when it is appended.
//! Does not do: interpret deltas.

use crate::ids::{FileId, Lsn, PageId, Xid};

/// Most bytes of an encoded record: 31 whole page images and some.
pub const MAX_RECORD_BYTES: usize = 256 << 10;
/// Most pages that one record changes.
pub const MAX_PARTS: usize = 1024;

/// The kind of a record, for people and for statistics: redo treats all page changes alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A row version was inserted.
    HeapInsert = 1,
    /// A row version was replaced.
    HeapUpdate = 2,
    /// A row version was deleted.
    HeapDelete = 3,
    /// A row was locked.
    HeapLock = 4,
    /// Dead versions were pruned.
    HeapPrune = 5,
    /// Dead line pointers were freed, or visibility bits set, or xids frozen, by vacuum.
    HeapVacuum = 6,
    /// Heap, map or status pages were formatted or the extent moved.
    Extend = 7,
    /// Entries were inserted into an index leaf.
    IndexInsert = 8,
    /// An index page was split.
    IndexSplit = 9,
    /// An incomplete split was finished: the downlink went into the parent.
    IndexFinishSplit = 10,
    /// Entries were removed from an index leaf.
    IndexDelete = 11,
    /// An index page was emptied, unlinked or merged.
    IndexUnlink = 12,
    /// A new root, or another change of the meta page.
    IndexMeta = 13,
    /// A page written by a bulk build.
    Build = 14,
    /// A transaction committed; its pages are those of the commit status.
    Commit = 15,
    /// A checkpoint began; carries no pages.
    Checkpoint = 16,
    /// A sequence was made, or numbers of it reserved.
    Sequence = 17,
    /// Overflow pages were written or given back.
    Overflow = 18,
    /// Index leaves shared their entries.
    IndexSpread = 19,
}

/// Change of one page inside a record.
#[derive(Clone, Copy, Debug)]
pub struct PagePart<'a> {
    /// The page.
    pub page: PageId,
    /// Its stores, as `page::delta` encodes them.
    pub delta: &'a [u8],
}

/// A record read back.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it starts.
    pub start: Lsn,
    /// Where it ends: the LSN of the pages it changed.
    pub end: Lsn,
    /// Its kind.
    pub kind: RecordKind,
    /// The transaction, or `Xid::NONE`.
    pub xid: Xid,
    /// Page and delta of each change.
    pub parts: Vec<(PageId, Vec<u8>)>,
}

impl RecordKind {
    /// All kinds, in order of their number.
    pub const ALL: [RecordKind; 19] = [
        RecordKind::HeapInsert,
        RecordKind::HeapUpdate,
        RecordKind::HeapDelete,
        RecordKind::HeapLock,
        RecordKind::HeapPrune,
        RecordKind::HeapVacuum,
        RecordKind::Extend,
        RecordKind::IndexInsert,
        RecordKind::IndexSplit,
        RecordKind::IndexFinishSplit,
        RecordKind::IndexDelete,
        RecordKind::IndexUnlink,
        RecordKind::IndexMeta,
        RecordKind::Build,
        RecordKind::Commit,
        RecordKind::Checkpoint,
        RecordKind::Sequence,
        RecordKind::Overflow,
        RecordKind::IndexSpread,
    ];

    /// The kind that is stored as `byte`.
    pub fn from_byte(byte: u8) -> Option<RecordKind> {
        RecordKind::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// Bytes of `value` as a varint.
fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// A few varints and bytes, put together without allocation.
struct Head {
    bytes: [u8; 32],
    len: usize,
}

impl Head {
    fn new() -> Head {
        Head { bytes: [0; 32], len: 0 }
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn part_len(part: &PagePart<'_>) -> usize {
    let (file, block) = (u64::from(part.page.file.0), u64::from(part.page.block.0));
    let len = part.delta.len();
    varint_len(file) + varint_len(block) + varint_len(len as u64) + len
}

/// Bytes of the record after its length.
fn body_len(xid: Xid, parts: &[PagePart<'_>]) -> usize {
    let head = 1 + varint_len(xid.0) + varint_len(parts.len() as u64);
    head + parts.iter().map(part_len).sum::<usize>()
}

/// Bytes of the encoded record.
///
/// # Panics
/// If the record passes [`MAX_RECORD_BYTES`] or [`MAX_PARTS`].
pub fn encoded_len(xid: Xid, parts: &[PagePart<'_>]) -> usize {
    assert!(parts.len() <= MAX_PARTS, "a record changes at most {MAX_PARTS} pages");
    let body = body_len(xid, parts);
    let len = varint_len(body as u64) + body;
    assert!(len <= MAX_RECORD_BYTES, "a record has at most {MAX_RECORD_BYTES} bytes, not {len}");
    len
}

/// Hands the bytes of the record to `put`, piece by piece.
pub fn encode(kind: RecordKind, xid: Xid, parts: &[PagePart<'_>], mut put: impl FnMut(&[u8])) {
    let mut head = Head::new();
    head.varint(body_len(xid, parts) as u64);
    head.byte(kind as u8);
    head.varint(xid.0);
    head.varint(parts.len() as u64);
    put(head.filled());
    for part in parts {
        let mut head = Head::new();
        head.varint(u64::from(part.page.file.0));
        head.varint(u64::from(part.page.block.0));
        head.varint(part.delta.len() as u64);
        put(head.filled());
        put(part.delta);
    }
}

const SHORT: &str = "log record is cut short";

fn take_varint(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(SHORT)?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if low << shift >> shift != low {
            return Err("a number in a log record is too large");
        }
        value |= low << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number in a log record is too long")
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, &'static str> {
    u32::try_from(take_varint(bytes)?).map_err(|_| "a number in a log record is too large")
}

fn take_slice<'a>(bytes: &mut &'a [u8], len: u64) -> Result<&'a [u8], &'static str> {
    let len = usize::try_from(len).map_err(|_| SHORT)?;
    let (head, tail) = bytes.split_at_checked(len).ok_or(SHORT)?;
    *bytes = tail;
    Ok(head)
}

fn take_part(bytes: &mut &[u8]) -> Result<(PageId, Vec<u8>), &'static str> {
    let (file, block) = (take_u32(bytes)?, take_u32(bytes)?);
    let len = take_varint(bytes)?;
    let delta = take_slice(bytes, len)?.to_vec();
    Ok((PageId::new(FileId(file), block), delta))
}

/// Reads one record from the front of `bytes`; its LSNs are left 0. Returns how long it was.
pub fn decode(bytes: &[u8]) -> Result<(Record, usize), &'static str> {
    let mut rest = bytes;
    let len = take_varint(&mut rest)?;
    let mut body = take_slice(&mut rest, len)?;
    let kind = take_slice(&mut body, 1)?[0];
    let kind = RecordKind::from_byte(kind).ok_or("unknown kind of log record")?;
    let xid = Xid(take_varint(&mut body)?);
    let count = take_varint(&mut body)?;
    if count > MAX_PARTS as u64 {
        return Err("a log record names too many pages");
    }
    let parts = (0..count).map(|_| take_part(&mut body)).collect::<Result<_, _>>()?;
    if !body.is_empty() {
        return Err("a log record is longer than its parts");
    }
    Ok((Record { start: Lsn(0), end: Lsn(0), kind, xid, parts }, bytes.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(kind: RecordKind, xid: u64, parts: &[PagePart<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(kind, Xid(xid), parts, |bytes| out.extend_from_slice(bytes));
        assert_eq!(out.len(), encoded_len(Xid(xid), parts));
        out
    }

    #[test]
    fn round_trip_of_extremes() {
        let long = vec![7; 9000];
        for xid in [0, 1, 127, 128, u64::MAX] {
            for kind in RecordKind::ALL {
                let parts = [
                    PagePart { page: PageId::new(FileId(u32::MAX), u32::MAX), delta: &long },
                    PagePart { page: PageId::new(FileId(0), 0), delta: &[] },
                ];
                let bytes = encoded(kind, xid, &parts);
                let (record, len) = decode(&bytes).unwrap();
                assert_eq!((len, record.kind, record.xid), (bytes.len(), kind, Xid(xid)));
                assert_eq!(record.parts.len(), 2);
                assert!(
                    record.parts.iter().zip(&parts).all(|(a, b)| a.0 == b.page && a.1 == b.delta)
                );
            }
        }
    }

    /// Whatever the bytes, decoding answers; cut bytes are an error.
    #[test]
    fn damaged_bytes_never_panic() {
        let delta = [1, 2, 3];
        let parts = [PagePart { page: PageId::new(FileId(70), 300), delta: &delta }; 3];
        let good = encoded(RecordKind::IndexSplit, 999, &parts);
        for cut in 0..good.len() {
            assert!(decode(&good[..cut]).is_err());
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = decode(&bad);
            }
        }
        assert!(decode(&[0xff; 40]).is_err());
        assert!(decode(&[0]).is_err());
    }

    #[test]
    #[should_panic(expected = "a record has at most")]
    fn oversize_records_are_refused() {
        let delta = vec![0; MAX_RECORD_BYTES];
        encoded_len(Xid(1), &[PagePart { page: PageId::new(FileId(1), 1), delta: &delta }]);
    }
}
