//! Putting an entry into a latched page without splitting it.
//!
//! In place if there is room: an entry whose row falls among those of a posting list parts the list
//! there. Else the page is encoded again, on leaves without the rows marked dead and their dead
//! neighbours on the same heap pages, as far as that does not suffice without others that the heap
//! calls dead, then with the rows of each key in posting lists: lazily, because most pages never
//! need it.
//!
//! Invariants: nothing is stored unless the entry goes in; whatever is read from the page is judged
//! before the first store.
//! Does not do: find the place, split.

use crate::buffer::{Held, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::btree::page::edit::{self, Frame, Value};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Checked, DEAD, HAS_DEAD, HEAD, Item, Node, POSTING, SLOT};
use crate::index::btree::page::posting::{self, Member, RowPosition, Spot, row_of};
use crate::index::btree::tree::Tree;
use crate::page::header::HEADER_SIZE;

/// Dead rows leave a page for room that would else be made by a split if one part in so many is
/// free then.
const WORTH: usize = 10;
/// The same for rows of one key that are put together. Less is enough: who updates rows that an old
/// snapshot sees adds one row to many keys, once, and the second version is a few bytes in a list.
/// A tenth is what leaves are built with; a list does not give back all that its rows took.
const WORTH_LISTS: usize = 32;

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// It is this entry now.
    At(usize),
    /// It is in the page, which was encoded again.
    Encoded,
    /// There is no room.
    Full,
}

impl Tree {
    /// Puts an entry into a latched page, at a `spot` where it is not.
    pub(crate) fn put(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        spot: Spot,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<Put> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let pos = match spot {
            Spot::Gap(pos) => pos,
            Spot::InsideList(position) => {
                let parted = PartedList::of(&node, position, key).map_err(damage)?;
                let PartedList { kept, behind } = parted;
                let (entry, pos) = (position.entry, position.entry + 1);
                if !edit::fits(&node, key, behind.len(), self.reserve()) {
                    return self.put_encoded(mtr, held, pos, key, value);
                }
                let item = node.item(entry).map_err(damage)?;
                let value = Value { extra: &behind, tags: POSTING, ..Value::default() };
                edit::cut_list(&mut mtr.page(held), entry, &item, kept);
                edit::insert_at(&mut mtr.page(held), pos, key, value);
                rightlink_env::points::hit("btree.put.parted");
                return Ok(Put::At(pos));
            }
            Spot::Present(_) => unreachable!("an entry that is there is not put in again"),
        };
        if !edit::fits(&node, key, value.extra.len(), self.reserve()) {
            return self.put_encoded(mtr, held, pos, key, value);
        }
        edit::insert_at(&mut mtr.page(held), pos, key, value);
        Ok(Put::At(pos))
    }

    /// [`Tree::put`] in front of entry `pos` of a page that has no room as it is.
    #[cold]
    fn put_encoded(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        pos: usize,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<Put> {
        let damage = |what| self.corrupt(mtr.id(held).block.0, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let Some(image) = self.encode_with(&node, pos, key, value).map_err(damage)? else {
            return Ok(Put::Full);
        };
        mtr.page(held).replace(&image);
        Ok(Put::Encoded)
    }

    /// The page with one more entry, encoded again; `None` if that does not help.
    fn encode_with(
        &self,
        node: &Node<&[u8; PAGE_SIZE]>,
        pos: usize,
        key: &[u8],
        value: Value<'_>,
    ) -> Checked<Option<Box<[u8; PAGE_SIZE]>>> {
        let dead = node.is_leaf() && node.flags & HAS_DEAD != 0;
        let twins = node.is_leaf() && self.deduplicates() && twins(node)?;
        let may_ask = node.is_leaf() && (dead || self.asking_pays());
        if node.cmp_prefix(key).is_eq() && node.garbage == 0 && !dead && !twins && !may_ask {
            return Ok(None);
        }
        let frame = Frame::of(node, self.reserve());
        let mut entries = Entries::load(node)?;
        entries.add(pos, key, value);
        let mut marked = Vec::new();
        if dead {
            // The new row is not dead: it stays.
            entries.keep_rows(|_, _, member| {
                marked.extend(member.dead.then_some(member.row.block));
                !member.dead
            });
        }
        let mut room = frame.room(&entries);
        let worth = self.options.capacity / WORTH + frame.reserve;
        let appends = node.right == 0 && pos == node.count;
        let full = node.is_leaf() && room.is_none_or(|room| room < worth);
        // Where some are marked, their neighbours have died, too, more often than not.
        let asks = full || !marked.is_empty();
        if asks && may_ask && !appends && self.drop_dead(&mut entries, marked) {
            room = frame.room(&entries).filter(|new| room.is_some() || *new >= worth);
        }
        if room.is_none() && twins && entries.deduplicate(self.list_bytes()) {
            let worth = self.options.capacity / WORTH_LISTS + frame.reserve;
            room = frame.room(&entries).filter(|room| *room >= worth);
            if room.is_some() {
                rightlink_env::points::hit("btree.put.deduplicated");
            }
        }
        Ok(room.and_then(|_| frame.image_of(&entries)))
    }

    /// An entry that is there already stays; it may have been marked dead.
    pub(crate) fn revive(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
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

/// A posting list parted by a new row in front of one of its members.
struct PartedList {
    /// How many bytes of the list stay.
    kept: usize,
    /// The list that follows the new row.
    behind: Vec<u8>,
}

impl PartedList {
    /// The list of `position`'s entry, parted by the row of `key` in front of its member.
    fn of(node: &Node<&[u8; PAGE_SIZE]>, position: RowPosition, key: &[u8]) -> Checked<PartedList> {
        let mut members = Vec::new();
        node.members(position.entry, &mut members)?;
        let Some(first) = members.get(position.member) else {
            return Err("a posting list lost a row");
        };
        let kept = first.start;
        let mut behind = members.split_off(position.member);
        behind.insert(0, Member::first(row_of(key)?, false));
        Ok(PartedList { kept, behind: posting::encode(&behind) })
    }
}

/// Has the leaf two neighbours with one key? Decided on the heads as far as they tell.
fn twins(node: &Node<&[u8; PAGE_SIZE]>) -> Checked<bool> {
    let mut before = 0;
    for i in 0..node.count {
        let head = node.head(i);
        // Bytes that the heads have in common.
        let same = (head ^ before).leading_zeros() as usize / 8;
        before = head;
        // Bytes of the encoded key behind the prefix.
        let own = node.key_len(i)?.saturating_sub(RowId::SIZE);
        if i > 0 && same >= own.min(HEAD) && same_key(node, i, own)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Has entry `i` the encoded key of the one before, of which `own` bytes follow the prefix?
fn same_key(node: &Node<&[u8; PAGE_SIZE]>, i: usize, own: usize) -> Checked<bool> {
    let (one, two) = (node.item(i - 1)?, node.item(i)?);
    let len = own.saturating_sub(HEAD);
    let rest = |item: &Item| node.page.get(item.rest..item.rest + len);
    Ok(one.rem == two.rem && rest(&one) == rest(&two))
}
