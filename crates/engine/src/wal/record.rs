//! A log record: who changed which pages, as page deltas.
//!
//! SKELETON: signatures that other rooms build on; the owner of `wal/` completes it.

use crate::ids::{Lsn, PageId, Xid};

/// What a record is about, for people and for statistics: redo treats all page changes alike.
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
    /// What it is about.
    pub kind: RecordKind,
    /// The transaction, or `Xid::NONE`.
    pub xid: Xid,
    /// Page and delta of each change.
    pub parts: Vec<(PageId, Vec<u8>)>,
}
