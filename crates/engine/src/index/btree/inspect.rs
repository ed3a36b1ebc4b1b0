//! Describes pages and items, for people and for measurements.
//!
//! Invariants: a page is copied under its shared latch and read from the copy. Any block may be
//! asked for.
//! Does not do: judge (`verify`).
//! PostgreSQL: `pageinspect`.

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::meta;
use crate::index::btree::page::node::{
    Checked, HALF_DEAD, INCOMPLETE, Node, ROOT, SLOT, cycle_of, is_node,
};
use crate::index::btree::page::tree_key::split_key;
use crate::index::btree::tree::BTree;
use crate::page::PageKind;
use crate::page::header::kind;

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageInfo {
    /// Block.
    pub block: u32,
    /// `meta`, `leaf`, `inner`, `root`, `free` or `unused`.
    pub kind: &'static str,
    /// Height above the leaves.
    pub level: u8,
    /// Items.
    pub items: u32,
    /// Items not marked dead.
    pub live: u32,
    /// Items marked dead.
    pub dead: u32,
    /// Bytes of an average item, slot included.
    pub average_item: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes free, garbage included.
    pub free: u32,
    /// Bytes of the shared prefix.
    pub prefix: u32,
    /// Left sibling, 0: none.
    pub left: u32,
    /// Right sibling, 0: none.
    pub right: u32,
    /// Flags, as stored.
    pub flag_bits: u16,
    /// Names of the page's flags.
    pub flags: Vec<&'static str>,
    /// Vacuum cycle id.
    pub cycle: u32,
    /// Low fence.
    pub low: Vec<u8>,
    /// High key; `None` on the rightmost page of a level.
    pub high: Option<Vec<u8>>,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemInfo {
    /// Position on the page.
    pub position: u32,
    /// Offset of the item.
    pub offset: u32,
    /// Bytes, slot included.
    pub bytes: u32,
    /// Whole key without the row id (leaf), or separator (inner).
    pub key: Vec<u8>,
    /// The row (leaf), the first one of a posting list.
    pub row: Option<RowId>,
    /// The further rows of a posting list.
    pub further: Vec<RowId>,
    /// The child (inner).
    pub child: Option<u32>,
    /// Marked dead, all of its rows?
    pub dead: bool,
    /// Included columns.
    pub payload: Vec<u8>,
}

impl BTree {
    /// A copy of a block of the index.
    fn copy_block(&self, block: u32) -> Result<Box<[u8; PAGE_SIZE]>> {
        if block >= self.0.pool.blocks(self.0.file) {
            return Err(Error::Invalid(format!("the index has no block {block}")));
        }
        let pin = self.0.pool.pin(self.0.page(block))?;
        let page = pin.shared();
        Ok(Box::new(*page.bytes()))
    }

    /// Number of blocks of the index.
    pub fn blocks(&self) -> u32 {
        self.0.pool.blocks(self.0.file)
    }

    /// Block and level of the root, as the first page says.
    pub fn inspect_root(&self) -> Result<(u32, u8)> {
        let page = self.copy_block(0)?;
        let meta = meta::parse(&page).map_err(|what| self.0.corrupt(0, what))?;
        Ok((meta.root, meta.level))
    }

    /// Describes a page.
    pub fn inspect_page(&self, block: u32) -> Result<PageInfo> {
        let page = self.copy_block(block)?;
        if !is_node(&*page) {
            let name = match kind(&page) {
                Some(PageKind::BtreeMeta) => "meta",
                Some(PageKind::BtreeFree) => "free",
                _ => "unused",
            };
            let page_size = PAGE_SIZE as u32;
            return Ok(PageInfo { block, kind: name, page_size, ..PageInfo::default() });
        }
        let node = Node::open(&*page).map_err(|what| self.0.corrupt(block, what))?;
        Ok(describe(block, &node))
    }

    /// Describes the items of a leaf or inner page; other pages have none.
    pub fn inspect_items(&self, block: u32) -> Result<Vec<ItemInfo>> {
        let page = self.copy_block(block)?;
        if !is_node(&*page) {
            return Ok(Vec::new());
        }
        let damage = |what| self.0.corrupt(block, what);
        let node = Node::open(&*page).map_err(damage)?;
        let mut entries = Entries::default();
        entries.append_page(&node).map_err(damage)?;
        (0..node.count).map(|i| item(&node, &entries, i).map_err(damage)).collect()
    }
}

fn describe(block: u32, node: &Node<&[u8; PAGE_SIZE]>) -> PageInfo {
    let name = match (node.flags & ROOT != 0, node.is_leaf()) {
        (true, _) => "root",
        (false, true) => "leaf",
        (false, false) => "inner",
    };
    let dead = (0..node.count).filter(|i| node.is_dead(*i)).count();
    let used = (node.special - node.upper).saturating_sub(node.garbage) + node.count * SLOT;
    let names = [(INCOMPLETE, "incomplete-split"), (HALF_DEAD, "half-dead"), (ROOT, "root")];
    PageInfo {
        block,
        kind: name,
        page_size: PAGE_SIZE as u32,
        level: node.level,
        items: node.count as u32,
        live: (node.count - dead) as u32,
        dead: dead as u32,
        average_item: used.checked_div(node.count).unwrap_or(0) as u32,
        free: (node.free_bytes() + node.garbage) as u32,
        prefix: node.prefix as u32,
        left: node.left,
        right: node.right,
        flag_bits: node.flags,
        flags: names
            .iter()
            .filter(|(bit, _)| node.flags & bit != 0)
            .map(|(_, name)| *name)
            .collect(),
        cycle: cycle_of(node.page),
        low: node.low(),
        high: node.high(),
    }
}

fn item(node: &Node<&[u8; PAGE_SIZE]>, entries: &Entries, i: usize) -> Checked<ItemInfo> {
    let located = node.item(i)?;
    let (key, row) = match node.is_leaf() {
        true => split_key(entries.key(i)).map(|(key, row)| (key, Some(row)))?,
        false => (entries.key(i), None),
    };
    let mut members = Vec::new();
    if node.is_leaf() {
        node.members(i, &mut members)?;
    }
    let payload = if node.is_list(i) { Vec::new() } else { entries.value(i).extra.to_vec() };
    Ok(ItemInfo {
        position: i as u32,
        offset: located.start as u32,
        bytes: (located.end - located.start + SLOT) as u32,
        key: key.to_vec(),
        row,
        child: (!node.is_leaf()).then_some(located.child),
        further: members.iter().skip(1).map(|member| member.row).collect(),
        dead: match node.is_leaf() {
            true => members.iter().all(|member| member.dead),
            false => node.is_dead(i),
        },
        payload,
    })
}
