//! Identifiers that all modules share: where a page is, where a row is, when a change happened.
//!
//! Invariants: all are plain integers with a fixed width on disk; `Lsn` and `Xid` are 64-bit and
//! never wrap; a heap slot number is at least 1, so that a `RowId` fits PostgreSQL's `tid`.
//! Does not do: allocation of any of them.

use std::fmt;

/// Number of a relation file (heap, map or index). File 0 is no file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileId(pub u32);

/// Number of a column in its table: its position, dropped ones counted.
pub type ColumnNo = u16;

/// Number of an 8 KiB block inside a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockNo(pub u32);

/// A block of a file: the name of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PageId {
    /// The file.
    pub file: FileId,
    /// The block inside it.
    pub block: BlockNo,
}

/// Address of a row version: heap block and line pointer (slots count from 1).
///
/// ```
/// use rightlink::{RowId, ScanOptions, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let id: RowId = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// assert_eq!(txn.scan("n", &ScanOptions::at(id))?.next().unwrap()?.id, id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RowId {
    /// Heap block.
    pub block: BlockNo,
    /// Line pointer, at least 1.
    pub slot: u16,
}

/// Position in the log, in bytes since the database was created. 0 means "never logged".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

/// Transaction id. 0 is none, 1 is "frozen: committed before anyone can ask", 2 is the first real
/// one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Xid(pub u64);

/// Commit number: the order in which commits became visible. A snapshot is one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Csn(pub u64);

/// Number of a table or index in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ObjectId(pub u32);

impl FileId {
    /// Name of the file in the directory of the database.
    pub fn path(self) -> String {
        format!("data/{:08x}", self.0)
    }
}

impl PageId {
    /// The page at `block` of `file`.
    pub const fn new(file: FileId, block: u32) -> Self {
        Self { file, block: BlockNo(block) }
    }
}

impl Xid {
    /// No transaction.
    pub const NONE: Xid = Xid(0);
    /// Committed before every snapshot that can exist.
    pub const FROZEN: Xid = Xid(1);
    /// The first id handed out.
    pub const FIRST: Xid = Xid(2);
}

impl RowId {
    /// Bytes of an encoded row id.
    pub const SIZE: usize = 6;

    /// The row id of `slot` in `block`.
    pub const fn new(block: u32, slot: u16) -> Self {
        Self { block: BlockNo(block), slot }
    }

    /// Order-preserving bytes: block then slot, big-endian.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..4].copy_from_slice(&self.block.0.to_be_bytes());
        out[4..].copy_from_slice(&self.slot.to_be_bytes());
        out
    }

    /// Reverse of [`RowId::to_bytes`].
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let [a, b, c, d, e, f] = bytes;
        Self::new(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
    }

    /// One integer in row id order.
    pub const fn to_u64(self) -> u64 {
        (self.block.0 as u64) << 16 | self.slot as u64
    }

    /// Reverse of [`RowId::to_u64`].
    pub const fn from_u64(value: u64) -> Self {
        assert!(value >> 48 == 0, "a row id has 48 bits");
        Self::new((value >> 16) as u32, value as u16)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} block {}", self.file.0, self.block.0)
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block.0, self.slot)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:08X}", self.0 >> 32, self.0 as u32)
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_id_bytes_keep_order_and_round_trip() {
        let ids = [RowId::new(0, 1), RowId::new(0, 2), RowId::new(1, 1), RowId::new(u32::MAX, 9)];
        for pair in ids.windows(2) {
            assert!(pair[0].to_bytes() < pair[1].to_bytes());
            assert!(pair[0].to_u64() < pair[1].to_u64());
        }
        for id in ids {
            assert_eq!(RowId::from_bytes(id.to_bytes()), id);
            assert_eq!(RowId::from_u64(id.to_u64()), id);
        }
    }
}
