//! Putting an entry into a latched page without splitting it.
//!
//! In place if there is room: an entry whose row falls among those of a posting list parts the list
//! there. Else the page is encoded again, on leaves without the rows marked dead, and as far as
//! that does not suffice without those that the heap calls dead, then with the rows of each key in
//! posting lists: lazily, because most pages never need it.
//!
//! Invariants: nothing is stored unless the entry goes in; whatever is read from the page is judged
//! before the first store.
//! Does not do: find the place, split.

use crate::buffer::{Held, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::btree::edit::{self, Frame, Value};
use crate::index::btree::entries::Entries;
use crate::index::btree::node::{Checked, DEAD, Found, HAS_DEAD, HEAD, Node, POSTING, SLOT};
use crate::index::btree::posting::{self, Member, Spot, row_of, whose};
use crate::index::btree::{Optimisations, Tree};
use crate::page::header::{HEADER_SIZE, LOWER, UPPER, u16_at};

/// A page that has less than one part in so many free after deduplication is split instead.
const WORTH: usize = 10;

/// Into which list an entry goes, and what of the list comes after it.
struct Parting {
    /// Bytes of the list that stay.
    kept: usize,
    /// The list that follows the new row.
    behind: Vec<u8>,
}

impl Tree {
    /// Most bytes of a posting list in this tree: many lists to a page, small ones included.
    pub(crate) fn list_bytes(&self) -> usize {
        posting::MAX_BYTES.min(self.options.capacity / 6)
    }

    /// May rows of one key share an item?
    pub(crate) fn deduplicates(&self) -> bool {
        self.options.deduplicate && self.uses(Optimisations::DEDUPLICATION)
    }

    /// Puts an entry into a latched page, in front of entry `pos`. False: there is no room.
    pub(crate) fn put(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        pos: usize,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<bool> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let parting = parting(&node, pos, key).map_err(damage)?;
        let extra = parting.as_ref().map_or(value.extra.len(), |parting| parting.behind.len());
        if edit::fits(&node, key, extra, self.reserve()) {
            let Some(Parting { kept, behind }) = parting else {
                edit::insert_at(&mut mtr.page(held), pos, key, value);
                return Ok(true);
            };
            let item = node.item(pos - 1).map_err(damage)?;
            let value = Value { extra: &behind, tags: POSTING, ..Value::default() };
            edit::cut_list(&mut mtr.page(held), pos - 1, &item, kept);
            edit::insert_at(&mut mtr.page(held), pos, key, value);
            rightlink_env::points::hit("btree.put.parted");
            return Ok(true);
        }
        let image = self.encode_with(&node, pos, key, value).map_err(damage)?;
        if let Some(image) = &image {
            mtr.page(held).replace(image);
        }
        Ok(image.is_some())
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
        let may_be_dead = node.is_leaf() && self.heap.get().is_some();
        if node.cmp_prefix(key).is_eq() && node.garbage == 0 && !dead && !twins && !may_be_dead {
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
        let mut image = frame.image_of(&entries);
        let worth = self.options.capacity / WORTH + frame.reserve;
        let appends = node.right == 0 && pos == node.count;
        let full = node.is_leaf() && image.as_ref().is_none_or(|image| room(image) < worth);
        if full && !appends && self.drop_dead(&mut entries, &marked) {
            image = frame.image_of(&entries).filter(|new| image.is_some() || room(new) >= worth);
        }
        if image.is_none() && twins && entries.deduplicate(self.list_bytes()) {
            image = frame.image_of(&entries).filter(|image| room(image) >= worth);
            if image.is_some() {
                rightlink_env::points::hit("btree.put.deduplicated");
            }
        }
        Ok(image)
    }

    /// An entry that is there already stays; it may have been marked dead.
    pub(crate) fn revive(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        (entry, member): (usize, usize),
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

/// Bytes free in one piece.
fn room(image: &[u8; PAGE_SIZE]) -> usize {
    usize::from(u16_at(image, UPPER)) - usize::from(u16_at(image, LOWER))
}

/// How the list in front of `pos` is parted by `key`, if its row falls among those of the list.
fn parting(node: &Node<&[u8; PAGE_SIZE]>, pos: usize, key: &[u8]) -> Checked<Option<Parting>> {
    if !node.is_leaf() || pos == 0 || !node.is_list(pos - 1) {
        return Ok(None);
    }
    let Spot::Inside(entry, at) = node.locate(Found { pos, exact: false }, key)? else {
        return Ok(None);
    };
    let mut members = Vec::new();
    node.members(entry, &mut members)?;
    let kept = members[at].start;
    let mut behind = members.split_off(at);
    behind.insert(0, Member::first(row_of(key)?, false));
    Ok(Some(Parting { kept, behind: posting::encode(&behind) }))
}

/// Has the leaf two neighbours with one key? Decided on the heads where they hold the whole of it
/// or differ.
fn twins(node: &Node<&[u8; PAGE_SIZE]>) -> Checked<bool> {
    for i in 1..node.count {
        let (one, two) = (node.item(i - 1)?, node.item(i)?);
        if one.rem != two.rem {
            continue;
        }
        // Bytes of the encoded key behind the prefix.
        let own = one.rem.saturating_sub(RowId::SIZE);
        let shift = 8 * HEAD.saturating_sub(own) as u32;
        let head = |i: usize| node.head(i).checked_shr(shift).unwrap_or(0);
        if head(i - 1) != head(i) {
            continue;
        }
        if own <= HEAD || whose(&node.key(i - 1)?) == whose(&node.key(i)?) {
            return Ok(true);
        }
    }
    Ok(false)
}
