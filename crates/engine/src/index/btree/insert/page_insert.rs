//! Insertion of an entry into a latched page, without a split.
//!
//! If there is space, the entry is stored in place; a row that falls among those of a posting list
//! splits the list. Else the page is encoded again. On leaves that removes, in this order and as
//! far as needed: rows marked dead, other rows that the heap calls dead, duplicate keys (posting
//! lists).
//!
//! Invariants: nothing is stored unless the entry is inserted. Everything that is read from the
//! page is checked before the first store.
//! Does not do: find the position; split.
//! PostgreSQL: `_bt_insertonpg`, `_bt_delete_or_dedup_one_page`.

use crate::buffer::{LatchedPage, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::btree::page::edit::{self, EntryValue, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Checked, DEAD, HAS_DEAD, HEAD, Item, Node, POSTING, SLOT};
use crate::index::btree::page::posting::{self, EntryPosition, PostingRow, RowPosition, row_id_of};
use crate::index::btree::tree::Tree;
use crate::page::header::HEADER_SIZE;

/// Dead rows are removed instead of a split if at least this part of the page becomes free.
const MIN_GAIN: usize = 10;
/// The same for deduplication. Less is enough: while an old snapshot is open, updates add one row
/// to each of many keys, which takes a few bytes in a list.
const MIN_GAIN_LISTS: usize = 32;

/// The result of an insertion into a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageInsert {
    /// It is in, as this entry.
    InPlace(usize),
    /// It is in; the page was encoded again.
    Reencoded,
    /// There is no space.
    Full,
}

impl Tree {
    /// Inserts an entry into a latched page, at a `position` that it does not occupy.
    pub(crate) fn insert_on_page(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        position: EntryPosition,
        key: &[u8],
        value: EntryValue<'_>,
    ) -> Result<PageInsert> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let pos = match position {
            EntryPosition::Gap(pos) => pos,
            EntryPosition::InsideList(position) => {
                let split = SplitList::of(&node, position, key).map_err(damage)?;
                let SplitList { kept, behind } = split;
                let (entry, pos) = (position.entry, position.entry + 1);
                if !edit::fits_in_place(&node, key, behind.len(), self.unused_bytes()) {
                    return self.insert_reencoded(mtr, held, pos, key, value);
                }
                let item = node.item(entry).map_err(damage)?;
                let value = EntryValue { extra: &behind, tags: POSTING, ..EntryValue::default() };
                edit::truncate_list(&mut mtr.page(held), entry, &item, kept);
                edit::insert_entry(&mut mtr.page(held), pos, key, value);
                rightlink_env::points::hit("btree.put.parted");
                return Ok(PageInsert::InPlace(pos));
            }
            EntryPosition::Present(_) => unreachable!("an entry that is there is not put in again"),
        };
        if !edit::fits_in_place(&node, key, value.extra.len(), self.unused_bytes()) {
            return self.insert_reencoded(mtr, held, pos, key, value);
        }
        edit::insert_entry(&mut mtr.page(held), pos, key, value);
        Ok(PageInsert::InPlace(pos))
    }

    /// [`Tree::insert_on_page`] in front of entry `pos` of a page that has too little space in one
    /// piece.
    #[cold]
    fn insert_reencoded(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        pos: usize,
        key: &[u8],
        value: EntryValue<'_>,
    ) -> Result<PageInsert> {
        let damage = |what| self.corrupt(mtr.id(held).block.0, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let Some(image) = self.reencode_with(&node, pos, key, value).map_err(damage)? else {
            return Ok(PageInsert::Full);
        };
        mtr.page(held).replace(&image);
        Ok(PageInsert::Reencoded)
    }

    /// The page with one more entry, encoded again; `None` if that makes too little space.
    fn reencode_with(
        &self,
        node: &Node<&[u8; PAGE_SIZE]>,
        pos: usize,
        key: &[u8],
        value: EntryValue<'_>,
    ) -> Checked<Option<Box<[u8; PAGE_SIZE]>>> {
        let dead = node.is_leaf() && node.flags & HAS_DEAD != 0;
        let has_duplicates = node.is_leaf() && self.deduplicates() && has_duplicates(node)?;
        let may_ask = node.is_leaf() && (dead || self.should_ask_heap());
        if node.cmp_prefix(key).is_eq() && node.garbage == 0 && !dead && !has_duplicates && !may_ask
        {
            return Ok(None);
        }
        let header = NodeHeader::of(node, self.unused_bytes());
        let mut entries = Entries::load(node)?;
        entries.insert_row(pos, key, value);
        let mut marked = Vec::new();
        if dead {
            // The new row is not dead: it stays.
            entries.keep_rows(|_, _, member| {
                marked.extend(member.dead.then_some(member.row.block));
                !member.dead
            });
        }
        let mut free = header.free_bytes(&entries);
        let min_free = self.options.capacity / MIN_GAIN + header.unused_bytes;
        let appends = node.right == 0 && pos == node.count;
        let full = node.is_leaf() && free.is_none_or(|free| free < min_free);
        // If some rows are marked dead, other rows of their blocks are mostly dead, too.
        let asks = full || !marked.is_empty();
        if asks && may_ask && !appends && self.remove_dead_from(&mut entries, marked) {
            free = header.free_bytes(&entries).filter(|new| free.is_some() || *new >= min_free);
        }
        if free.is_none() && has_duplicates && entries.deduplicate(self.list_bytes()) {
            let min_free = self.options.capacity / MIN_GAIN_LISTS + header.unused_bytes;
            free = header.free_bytes(&entries).filter(|free| *free >= min_free);
            if free.is_some() {
                rightlink_env::points::hit("btree.put.deduplicated");
            }
        }
        Ok(free.and_then(|_| header.image_of(&entries)))
    }

    /// An entry that is present already stays. If it was marked dead, the mark is cleared.
    pub(crate) fn clear_dead_mark(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        RowPosition { entry, member }: RowPosition,
    ) -> Result<()> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        if member == 0 {
            if node.is_dead(entry) {
                let word = node.word(entry) & !DEAD;
                mtr.page(held).put_u16(HEADER_SIZE + entry * SLOT, word);
            }
            return Ok(());
        }
        let mut members = Vec::new();
        node.members(entry, &mut members).map_err(damage)?;
        let at = node.item(entry).map_err(damage)?.extra + members[member].hint;
        if members[member].dead {
            let byte = mtr.bytes(held)[at] & !1;
            mtr.page(held).write(at, &[byte]);
        }
        Ok(())
    }
}

/// A posting list that a new row splits.
struct SplitList {
    /// How many bytes of the list stay.
    kept: usize,
    /// The list that follows the new row.
    behind: Vec<u8>,
}

impl SplitList {
    /// The list of `position`'s entry, split in front of its member by the row of `key`.
    fn of(node: &Node<&[u8; PAGE_SIZE]>, position: RowPosition, key: &[u8]) -> Checked<SplitList> {
        let mut members = Vec::new();
        node.members(position.entry, &mut members)?;
        let Some(first) = members.get(position.member) else {
            return Err("a posting list lost a row");
        };
        let kept = first.start;
        let mut behind = members.split_off(position.member);
        behind.insert(0, PostingRow::first(row_id_of(key)?, false));
        Ok(SplitList { kept, behind: posting::encode(&behind) })
    }
}

/// Has the leaf two neighbours with one key? The heads decide as far as they can.
fn has_duplicates(node: &Node<&[u8; PAGE_SIZE]>) -> Checked<bool> {
    let mut before = 0;
    for i in 0..node.count {
        let head = node.head(i);
        // Bytes that the heads have in common.
        let same = (head ^ before).leading_zeros() as usize / 8;
        before = head;
        // Bytes of the encoded key behind the prefix.
        let own = node.key_len(i)?.saturating_sub(RowId::SIZE);
        if i > 0 && same >= own.min(HEAD) && same_key_as_previous(node, i, own)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Has entry `i` the encoded key of the one before, of which `own` bytes follow the prefix?
fn same_key_as_previous(node: &Node<&[u8; PAGE_SIZE]>, i: usize, own: usize) -> Checked<bool> {
    let (one, two) = (node.item(i - 1)?, node.item(i)?);
    let len = own.saturating_sub(HEAD);
    let rest = |item: &Item| node.page.get(item.rest..item.rest + len);
    Ok(one.rem == two.rem && rest(&one) == rest(&two))
}
