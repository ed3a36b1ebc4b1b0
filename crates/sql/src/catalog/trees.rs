//! Rows of the functions about the pages of an index, named as in pageinspect and pgstattuple.
//!
//! Columns mean what PostgreSQL's do, with these differences:
//!
//! | column | here |
//! |---|---|
//! | `magic` | null: a page says what it is in its header |
//! | `version` | that of the store's format |
//! | `fastroot`, `fastlevel` | the root: descents begin there |
//! | `last_cleanup_num_...` | null: nothing is kept of cleanings |
//! | `allequalimage` | may the rows of a key share an item? Not beside included columns |
//! | `live_items`, `dead_items` | the high key is not counted |
//! | `avg_item_size`, `itemlen` | the slot is counted, what all keys of the page share is not |
//! | `btpo_flags` | those of PostgreSQL's bits that have a meaning here |
//! | `itemoffset` | from 1; that of a page with a right neighbour is its high key, kept apart |
//! | `ctid` | first row of a leaf's item, (block,0) of a child, null of the high key |
//! | `nulls`, `vars` | about the key's columns; null of separators, which may be cut short |
//! | `data` | the key as it is ordered, whole |
//! | `empty_pages` | 0: a page leaves its parent and its neighbours at once |
//!
//! Invariants: pages are read as the transaction sees the index, so its own locks do not stop it.
//! Does not do: pages of other methods, of tables.

use rightlink::{EntryInfo, IndexInfo, IndexMethod, PageInfo, RowId, Transaction};

use super::numbers::{count, number, text};
use crate::catalog::system_views::Kind;
use crate::error::{Result, SqlError, code};
use crate::names::{SearchPath, bare, said};
use crate::schemas;
use crate::types::{Datum, Row};

/// PostgreSQL's flags of a page.
const LEAF: i32 = 1;
const ROOT: i32 = 1 << 1;
const DELETED: i32 = 1 << 2;
const HAS_GARBAGE: i32 = 1 << 6;
const INCOMPLETE_SPLIT: i32 = 1 << 7;
/// The store's own flag for a page whose right neighbour has no entry above yet.
const OWN_INCOMPLETE: u16 = 1;
/// Bytes of a node that are neither free nor an item: header and trailer.
const FRAME: u64 = 32 + 16;

pub(super) fn rows(
    kind: Kind,
    args: &[Datum],
    txn: &mut Transaction,
    path: &SearchPath,
) -> Result<Vec<Row>> {
    let (Datum::Text(name), block) = (&args[0], args.get(1)) else { return Ok(Vec::new()) };
    if block.is_some_and(Datum::is_null) {
        return Ok(Vec::new());
    }
    let name = &schemas::find(txn, path, &schemas::parts_of(name)?)?.name;
    let index = tree(name, txn)?;
    match kind {
        Kind::TreeMeta => {
            let first = txn.catalog().inspect(name, Some(0))?;
            Ok(first.first().and_then(|page| meta(page, &index)).into_iter().collect())
        }
        Kind::TreeStatistics => Ok(vec![statistics(&txn.catalog().inspect(name, None)?)]),
        _ => {
            let page = page(name, block.and_then(Datum::as_int).unwrap_or(-1), txn)?;
            Ok(if kind == Kind::TreePage { vec![of_page(&page)] } else { items(&page) })
        }
    }
}

/// The tree of this name.
fn tree(name: &str, txn: &mut Transaction) -> Result<IndexInfo> {
    let table = match txn.catalog().table_of_index(name) {
        Err(rightlink::Error::NotFound(_)) => {
            return Err(match txn.catalog().describe(name) {
                Ok(_) => no_tree(name),
                Err(rightlink::Error::NotFound(_)) => missing(name),
                Err(other) => other.into(),
            });
        }
        found => found?,
    };
    let info = txn.catalog().describe(&table)?;
    let mut trees = info.indexes.into_iter().filter(|one| one.method == IndexMethod::BTree);
    trees.find(|one| one.name == name).ok_or_else(|| no_tree(name))
}

fn missing(name: &str) -> SqlError {
    SqlError::new(code::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", said(name)))
}

fn no_tree(name: &str) -> SqlError {
    let message = format!("relation \"{}\" is not a btree index", bare(name));
    SqlError::new(code::WRONG_OBJECT_TYPE, message)
}

/// A page that has items.
fn page(name: &str, block: i64, txn: &mut Transaction) -> Result<PageInfo> {
    let refused = |message: String| SqlError::new(code::INVALID_PARAMETER, message);
    let block = match u32::try_from(block) {
        Err(_) => return Err(refused(format!("invalid block number {block}"))),
        Ok(0) => return Err(refused("block 0 is a meta page".into())),
        Ok(block) => block,
    };
    let out_of_range = || refused("block number out of range".into());
    match txn.catalog().inspect(name, Some(block)) {
        Err(rightlink::Error::NotFound(_)) => Err(out_of_range()),
        pages => pages?.pop().ok_or_else(out_of_range),
    }
}

fn meta(page: &PageInfo, index: &IndexInfo) -> Option<Row> {
    let (root, level) = page.root?;
    Some(vec![
        Datum::Null,
        version(),
        number(root),
        number(level),
        number(root),
        number(level),
        Datum::Null,
        Datum::Null,
        Datum::Bool(index.included.is_empty()),
    ])
}

fn version() -> Datum {
    Datum::Int4(i32::from(rightlink::FORMAT_VERSION))
}

fn of_page(page: &PageInfo) -> Row {
    let kind = if is_leaf(page) { 'l' } else { page.kind };
    vec![
        number(page.block),
        text(kind),
        count(page.live_items),
        count(page.dead_items),
        count(page.avg_item_size),
        count(page.page_size),
        count(page.free_size),
        number(page.left.unwrap_or(0)),
        number(page.right.unwrap_or(0)),
        number(page.level),
        Datum::Int4(flags(page)),
    ]
}

fn is_node(page: &PageInfo) -> bool {
    matches!(page.kind, 'l' | 'i' | 'r')
}

fn is_leaf(page: &PageInfo) -> bool {
    is_node(page) && page.level == 0
}

fn flags(page: &PageInfo) -> i32 {
    let split = is_node(page) && page.flags & OWN_INCOMPLETE != 0;
    let all = [
        (is_leaf(page), LEAF),
        (page.kind == 'r', ROOT),
        (page.kind == 'd', DELETED),
        (page.dead_items > 0, HAS_GARBAGE),
        (split, INCOMPLETE_SPLIT),
    ];
    all.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

/// The high key, then the entries.
fn items(page: &PageInfo) -> Vec<Row> {
    let high = page.high_key.as_deref().map(|key| {
        let bytes = key.split_whitespace().count();
        let [offset, len] = [1, bytes].map(short);
        let mut row = vec![offset, Datum::Null, len, Datum::Null, Datum::Null, text(key)];
        row.extend([Datum::Null, Datum::Null, Datum::Null]);
        row
    });
    let first = 1 + usize::from(high.is_some());
    let entries = page.entries.iter().enumerate();
    let entries = entries.map(|(at, entry)| item(first + at, entry));
    high.into_iter().chain(entries).collect()
}

fn item(offset: usize, entry: &EntryInfo) -> Row {
    let tid = |row: Option<RowId>| row.map_or(Datum::Null, Datum::Tid);
    let flag = |value: Option<bool>| value.map_or(Datum::Null, Datum::Bool);
    let first = entry.rows.first().copied();
    let child = entry.child.map(|block| RowId::new(block, 0));
    vec![
        short(offset),
        tid(first.or(child)),
        short(entry.bytes as usize),
        flag(entry.nulls),
        flag(entry.varying),
        text(entry.key.as_str()),
        flag(first.map(|_| entry.dead)),
        tid(first),
        tids(&entry.rows),
    ]
}

/// Rows of a list, as PostgreSQL writes an array.
fn tids(rows: &[RowId]) -> Datum {
    let quoted: Vec<String> = rows.iter().map(|row| format!("\"{row}\"")).collect();
    if rows.len() > 1 { text(format!("{{{}}}", quoted.join(","))) } else { Datum::Null }
}

fn short(number: usize) -> Datum {
    Datum::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

fn statistics(pages: &[PageInfo]) -> Row {
    let nodes = || pages.iter().filter(|page| is_node(page));
    let root = pages.iter().find_map(|page| page.root);
    let leaves: Vec<&PageInfo> = nodes().filter(|page| is_leaf(page)).collect();
    let room: u64 = leaves.iter().map(|page| u64::from(page.page_size) - FRAME).sum();
    let free: u64 = leaves.iter().map(|page| u64::from(page.free_size)).sum();
    let jumps = leaves.iter().filter(|page| page.right.is_some_and(|r| r < page.block)).count();
    let share = |part: f64, whole: f64| {
        let percent = if whole > 0.0 { part / whole * 100.0 } else { f64::NAN };
        Datum::Float8((percent * 100.0).round() / 100.0)
    };
    vec![
        version(),
        count(root.map_or(0, |(_, level)| level)),
        number(pages.iter().map(|page| u64::from(page.page_size)).sum::<u64>()),
        number(root.map_or(0, |(block, _)| block)),
        number(nodes().filter(|page| page.level > 0).count()),
        number(leaves.len()),
        number(0),
        number(pages.iter().filter(|page| page.kind == 'd').count()),
        share(room as f64 - free as f64, room as f64),
        share(jumps as f64, leaves.len() as f64),
    ]
}
