//! Page descriptions for `inspect`: a relation's pages in the columns that pgsql-hackers uses.
//!
//! Invariants: reads pages through the pool and changes nothing.
//! Does not do: judging what it shows.

use std::ops::Range;

use rightlink_env::sync::Arc;

use crate::buffer::BufferPool;
use crate::catalog::Entry;
use crate::db::Database;
use crate::db::info::{EntryInfo, PageInfo};
use crate::db::transaction::{Transaction, TransactionOptions};
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::ids::{FileId, RowId};
use crate::index::IndexMethod;
use crate::index::btree::{self, BTree, TreeOptions};
use crate::index::hash::{HashIndex, HashOptions};
use crate::keycode::{KeyColumn, column_len};
use crate::txn::{Isolation, LockMode};

impl Database {
    /// Page descriptions of a table's heap or an index: all pages, or one block with its items.
    ///
    /// # Errors
    /// `NotFound` when there is no such relation or block.
    pub fn inspect(&self, relation: &str, block: Option<u32>) -> Result<Vec<PageInfo>> {
        let isolation = Isolation::ReadCommitted;
        let mut txn = self.begin_with(TransactionOptions { isolation, ..Default::default() });
        inspect(&mut txn, relation, block)
    }
}

/// As [`Database::inspect`], of a relation as `txn` sees it.
pub(super) fn inspect(
    txn: &mut Transaction,
    relation: &str,
    block: Option<u32>,
) -> Result<Vec<PageInfo>> {
    let handle = Arc::clone(&txn.handle);
    let inspection = Inspection { pool: &handle.engine.pool, relation, block };
    match txn.entry(relation, LockMode::Access) {
        Ok(entry) => inspection.heap(&entry),
        Err(Error::NotFound(_)) => {
            let table = txn.catalog().table_of_index(relation)?;
            let entry = txn.entry(&table, LockMode::Access)?;
            inspection.index(&entry)
        }
        Err(error) => Err(error),
    }
}

/// A request for descriptions of the pages of `relation`.
struct Inspection<'i> {
    pool: &'i Arc<BufferPool>,
    relation: &'i str,
    /// The only block to describe, with its items.
    block: Option<u32>,
}

impl Inspection<'_> {
    fn heap(&self, entry: &Entry) -> Result<Vec<PageInfo>> {
        entry.table.naming(self.heap_pages(entry.table.heap()))
    }

    fn index(&self, entry: &Entry) -> Result<Vec<PageInfo>> {
        let table = &entry.table;
        let def = table.index(self.relation)?.def();
        table.naming(match def.method {
            IndexMethod::Hash => self.hash_pages(def.file),
            IndexMethod::BTree => self.tree_pages(def.file, &def.key_columns(table.def())),
        })
    }

    /// The blocks to describe of a relation that has `blocks`.
    fn blocks(&self, blocks: u32) -> Result<Range<u32>> {
        match self.block {
            None => Ok(0..blocks),
            Some(block) if block < blocks => Ok(block..block + 1),
            Some(block) => {
                let relation = self.relation;
                Err(Error::NotFound(format!("block {block} of {relation}, which has {blocks}")))
            }
        }
    }

    fn heap_pages(&self, heap: &Heap) -> Result<Vec<PageInfo>> {
        let mut pages = Vec::new();
        for at in self.blocks(heap.blocks())? {
            let bare = PageInfo { block: at, item: at, page_size: 8192, ..PageInfo::default() };
            let kind = if at == 0 { 'm' } else { '-' };
            pages.push(match heap.inspect(at, self.block.is_some())? {
                None => PageInfo { kind, ..bare },
                Some(info) => PageInfo {
                    kind: 'h',
                    flags: info.flags,
                    live_items: info.live,
                    dead_items: info.dead,
                    avg_item_size: info.bytes.checked_div(info.live).unwrap_or(0),
                    free_size: info.free,
                    items: info.items,
                    ..bare
                },
            });
        }
        Ok(pages)
    }

    fn tree_pages(&self, file: FileId, columns: &[KeyColumn]) -> Result<Vec<PageInfo>> {
        let tree = BTree::open(self.pool, file, TreeOptions::default())?;
        let mut pages = Vec::new();
        for at in self.blocks(tree.blocks())? {
            let mut page = describe(&tree.inspect_page(at)?);
            if page.kind == 'm' {
                let (root, level) = tree.inspect_root()?;
                page.root = Some((root, u32::from(level)));
            }
            if self.block.is_some() {
                let items = tree.inspect_items(at)?;
                page.items = items.iter().map(item_line).collect();
                page.entries = items.iter().map(|item| entry_info(item, columns)).collect();
            }
            pages.push(page);
        }
        if self.block.is_none() {
            number_levels(&mut pages);
        }
        Ok(pages)
    }

    /// Pages of a hash index: entries in the order of their codes, then the others.
    fn hash_pages(&self, file: FileId) -> Result<Vec<PageInfo>> {
        let index = HashIndex::open(self.pool, file, HashOptions::default())?;
        let mut pages = Vec::new();
        for at in self.blocks(index.blocks())? {
            let (page, items) = index.inspect(at, self.block.is_some())?;
            let lines = items.iter().map(|item| {
                let dead = if item.dead { " dead" } else { "" };
                let (code, row, key) = (item.code, item.row, hex(&item.key));
                format!("code {code:08x}, {} bytes, row {row}, key {key}{dead}", item.bytes)
            });
            let described = PageInfo {
                block: at,
                right: Some(page.right).filter(|right| *right != 0),
                flags: page.flags,
                kind: page.kind,
                live_items: page.live,
                dead_items: page.dead,
                avg_item_size: page.average_item,
                page_size: 8192,
                free_size: page.free,
                high_key: page.high.as_deref().map(hex),
                items: lines.collect(),
                ..PageInfo::default()
            };
            pages.push((page.low, described));
        }
        // Pages without entries have no low fence, and come first with the first page.
        pages.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut item = 0;
        for (_, page) in pages.iter_mut().filter(|(_, page)| matches!(page.kind, 'b' | 'o')) {
            item += 1;
            page.item = item;
        }
        Ok(pages.into_iter().map(|(_, page)| page).collect())
    }
}

fn entry_info(item: &btree::inspect::ItemInfo, columns: &[KeyColumn]) -> EntryInfo {
    let shape = item.row.and_then(|_| shape(&item.key, columns));
    EntryInfo {
        position: item.position,
        bytes: item.bytes,
        key: hex(&item.key),
        rows: item.row.iter().chain(&item.further).copied().collect(),
        child: item.child,
        dead: item.dead,
        nulls: shape.map(|(nulls, _)| nulls),
        varying: shape.map(|(_, varying)| varying),
    }
}

/// Has a whole key nulls, and values of types whose values differ in length? `None` if these bytes
/// are no key.
fn shape(key: &[u8], columns: &[KeyColumn]) -> Option<(bool, bool)> {
    let (mut rest, mut nulls, mut varying) = (key, false, false);
    for column in columns {
        let len = column_len(column, rest).ok()?;
        // The byte that says null stands alone.
        let is_null = len == 1;
        nulls |= is_null;
        varying |= !is_null && column.ty.fixed_len().is_none();
        rest = &rest[len..];
    }
    rest.is_empty().then_some((nulls, varying))
}

fn describe(page: &btree::inspect::PageInfo) -> PageInfo {
    let kind = match page.kind {
        "unused" => '-',
        "free" => 'd',
        named => named.chars().next().expect("a kind has a name"),
    };
    let link = |block: u32| Some(block).filter(|block| *block != 0);
    PageInfo {
        level: u32::from(page.level),
        block: page.block,
        left: link(page.left),
        right: link(page.right),
        flags: page.flag_bits,
        kind,
        live_items: page.live,
        dead_items: page.dead,
        avg_item_size: page.average_item,
        page_size: page.page_size,
        free_size: page.free,
        high_key: page.high.as_deref().map(hex),
        ..PageInfo::default()
    }
}

/// Orders pages by level, highest first, and from left to right within a level.
fn number_levels(pages: &mut Vec<PageInfo>) {
    let by_block: std::collections::HashMap<u32, PageInfo> =
        pages.drain(..).map(|page| (page.block, page)).collect();
    let is_node = |page: &&PageInfo| matches!(page.kind, 'l' | 'i' | 'r');
    let mut starts: Vec<_> =
        by_block.values().filter(is_node).filter(|page| page.left.is_none()).collect();
    starts.sort_by_key(|page| (std::cmp::Reverse(page.level), page.block));
    let mut rest: Vec<_> = by_block.values().filter(|page| !is_node(page)).cloned().collect();
    rest.sort_by_key(|page| page.block);
    pages.extend(rest);
    for start in starts {
        let (mut at, mut item) = (Some(start.block), 0);
        while let Some(page) = at.and_then(|block| by_block.get(&block)) {
            item += 1;
            pages.push(PageInfo { item, ..page.clone() });
            at = page.right.filter(|_| item < by_block.len() as u32);
        }
    }
}

fn item_line(item: &btree::inspect::ItemInfo) -> String {
    let target = match (item.row, item.child) {
        (Some(row), _) if item.further.is_empty() => format!("row {row}"),
        (Some(row), _) => {
            let further: Vec<String> = item.further.iter().map(RowId::to_string).collect();
            format!("rows {row}, {}", further.join(", "))
        }
        (None, Some(child)) => format!("child {child}"),
        (None, None) => String::new(),
    };
    let dead = if item.dead { " dead" } else { "" };
    let (position, offset, bytes) = (item.position, item.offset, item.bytes);
    format!("{position}: offset {offset}, {bytes} bytes, {target}, key {}{dead}", hex(&item.key))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
