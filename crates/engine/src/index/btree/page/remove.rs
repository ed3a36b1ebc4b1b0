//! Removal of rows from a leaf, with their entries or from posting lists.
//!
//! Invariants: a removal is checked completely when it is planned, so applying it cannot fail. The
//! bytes that entries leave behind are counted as the page's garbage.
//! Does not do: decide which rows are dead; latch; log.

use crate::config::PAGE_SIZE;
use crate::index::btree::page::edit::{self, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Checked, Item, Node};
use crate::index::btree::page::posting::{PostingRow, RowPosition};
use crate::page::PageMut;

/// With more changed entries than this, a page is logged as a fresh image: one by one they take
/// longer to store.
const MAX_SINGLE: usize = 24;

/// A removal of rows from a leaf, planned from the bytes that it will be applied to.
pub(crate) enum LeafRemoval {
    /// The page is replaced by this image.
    Image(Box<[u8; PAGE_SIZE]>),
    /// Entry after entry; the bytes of an entry at the end of the item area become free space.
    Entries(Vec<EntryRemoval>),
    /// All entries at once; their bytes become garbage, and the log record is short.
    Holes(Vec<EntryRemoval>),
}

impl LeafRemoval {
    /// Plans to remove `rows`, ascending, for a caller that needs their space: many changes make
    /// a new image.
    pub(crate) fn plan(
        node: &Node<&[u8; PAGE_SIZE]>,
        rows: &[RowPosition],
    ) -> Checked<LeafRemoval> {
        let removals = removals(node, rows)?;
        match removals.len() > MAX_SINGLE {
            true => image_without(node, rows),
            false => Ok(LeafRemoval::Entries(removals)),
        }
    }

    /// As [`LeafRemoval::plan`], for a vacuum pass: the bytes of removed entries stay as garbage
    /// until an insertion needs their space. So the record is a small part of the page, and
    /// entries that stay are not read.
    pub(crate) fn plan_with_holes(
        node: &Node<&[u8; PAGE_SIZE]>,
        rows: &[RowPosition],
    ) -> Checked<LeafRemoval> {
        let removals = removals(node, rows)?;
        let shorter = removals.iter().filter(|removal| !removal.left.is_empty()).count();
        match shorter > MAX_SINGLE {
            true => image_without(node, rows),
            false => Ok(LeafRemoval::Holes(removals)),
        }
    }

    /// Makes the change on the page that it was planned for.
    pub(crate) fn apply(&self, page: &mut PageMut<'_>) {
        match self {
            LeafRemoval::Image(image) => page.replace(image),
            LeafRemoval::Entries(removals) => {
                for EntryRemoval { entry, item, left } in removals.iter().rev() {
                    match left.is_empty() {
                        true => edit::remove_entry(page, *entry, item),
                        false => shorten(page, *entry, item, left),
                    }
                }
            }
            LeafRemoval::Holes(removals) => {
                let whole = removals.iter().filter(|removal| removal.left.is_empty());
                let whole: Vec<_> = whole.map(|removal| (removal.entry, removal.item)).collect();
                for EntryRemoval { entry, item, left } in
                    removals.iter().filter(|removal| !removal.left.is_empty())
                {
                    shorten(page, *entry, item, left);
                }
                edit::remove_entries(page, &whole);
            }
        }
    }
}

/// The leaf encoded again, without `rows`.
fn image_without(node: &Node<&[u8; PAGE_SIZE]>, rows: &[RowPosition]) -> Checked<LeafRemoval> {
    let header = NodeHeader::of(node, 0);
    let mut entries = Entries::load(node)?;
    // Both ascend.
    let mut rows = rows.iter().copied().peekable();
    entries.keep_rows(|entry, member, _| rows.next_if_eq(&RowPosition { entry, member }).is_none());
    // Fewer rows than before under the same fences: the prefix can only grow.
    header.image_of(&entries).map(LeafRemoval::Image).ok_or("a page overflows")
}

/// Reduces an entry to the rows of its list that stay.
fn shorten(page: &mut PageMut<'_>, entry: usize, item: &Item, left: &[PostingRow]) {
    rightlink_env::points::hit("btree.delete.shortened");
    edit::shrink_list(page, entry, item, left);
}

/// The change of an entry.
pub(crate) struct EntryRemoval {
    entry: usize,
    item: Item,
    /// The rows that stay.
    left: Vec<PostingRow>,
}

/// The entries that lose `rows`.
fn removals(node: &Node<&[u8; PAGE_SIZE]>, mut rows: &[RowPosition]) -> Checked<Vec<EntryRemoval>> {
    assert!(node.is_leaf(), "entries leave leaves only");
    let mut out = Vec::with_capacity(rows.len());
    while let Some(RowPosition { entry, .. }) = rows.first().copied() {
        let (item, mut left) = (node.item(entry)?, Vec::new());
        let (mine, rest) = rows.split_at(rows.iter().take_while(|row| row.entry == entry).count());
        // An entry with one row is removed.
        if node.is_list(entry) {
            node.members(entry, &mut left)?;
            let (mut at, mut mine) = (0.., mine.iter().map(|row| row.member).peekable());
            left.retain(|_| mine.next_if_eq(&at.next().expect("no end")).is_none());
        }
        out.push(EntryRemoval { entry, item, left });
        rows = rest;
    }
    Ok(out)
}
