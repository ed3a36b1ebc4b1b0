//! Checks of one page, or of two siblings, from their bytes alone.
//!
//! Invariants: damage is a finding, never a panic.
//! Does not do: walk over the tree (`verify`).

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::btree::page::node::{Checked, Node, common};
use crate::page::PageKind;
use crate::page::header::KIND;

/// Findings about two neighbours: the page at `block`, which can be read, and the right one.
pub(super) fn compare_siblings(
    block: u32,
    left: &[u8; PAGE_SIZE],
    right: &[u8; PAGE_SIZE],
) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    if right[KIND] == PageKind::BtreeFree as u8 {
        return vec![("B15", "a free page in the chain of a level".into())];
    }
    let (Ok(left), Ok(right)) = (Node::open(left), Node::open(right)) else {
        return vec![("P3", "a right link to something else than a page".into())];
    };
    if right.left != block {
        out.push(("B5", format!("its left link is {}, not {block}", right.left)));
    }
    if left.high().is_some_and(|high| high != right.low()) {
        out.push(("B4", "its low fence is not its left sibling's high key".into()));
    }
    if left.level != right.level {
        out.push(("B6", "neighbours on different levels".into()));
    }
    out
}

/// Findings about a page alone.
pub(super) fn check_node(node: &Node<&[u8; PAGE_SIZE]>) -> Vec<(&'static str, String)> {
    let mut out: Vec<(&'static str, String)> = Vec::new();
    let (low, high) = (node.low(), node.high());
    if let Some(high) = &high {
        if low >= *high {
            out.push(("B3", "the fences are not in order".into()));
        }
        if node.left != 0 && node.prefix != common(&low, high) {
            out.push(("B11", "the prefix is not what the fences share".into()));
        }
    }
    if node.left != 0 && low.is_empty() {
        out.push(("B11", "only a leftmost page has an empty low fence".into()));
    }
    if let Err(what) = check_items(node, &mut out) {
        out.push(("P4", what.into()));
        return out;
    }
    let mut last: Option<Vec<u8>> = None;
    for i in 0..node.count {
        let Ok(key) = node.key(i) else { continue };
        let pivot = i == 0 && !node.is_leaf();
        if last.as_ref().is_some_and(|last| *last >= key) {
            out.push(("B2", format!("entry {i} is not above the one before")));
        }
        if !pivot && key < low {
            out.push(("B3", format!("entry {i} is below the low fence")));
        }
        if high.as_ref().is_some_and(|high| key >= *high) {
            out.push(("B3", format!("entry {i} is not below the high key")));
        }
        last = Some(last_key(node, i, key));
        if high.as_ref().is_some_and(|high| last.as_ref() >= Some(high)) {
            out.push(("B3", format!("rows of entry {i} are not below the high key")));
        }
    }
    out
}

/// The key of the last row of an entry, of which `key` is that of the first.
fn last_key(node: &Node<&[u8; PAGE_SIZE]>, i: usize, mut key: Vec<u8>) -> Vec<u8> {
    let mut members = Vec::new();
    if node.is_leaf() && node.is_list(i) && node.members(i, &mut members).is_ok() {
        let end = key.len() - RowId::SIZE;
        let last = members.last().expect("a list has rows").row;
        key[end..].copy_from_slice(&last.to_bytes());
    }
    key
}

/// The items of a page: tags, overlaps, sums.
fn check_items(
    node: &Node<&[u8; PAGE_SIZE]>,
    out: &mut Vec<(&'static str, String)>,
) -> Checked<()> {
    let mut spans = Vec::with_capacity(node.count);
    for i in 0..node.count {
        if node.is_list(i) && !node.is_leaf() {
            out.push(("B12", format!("entry {i} is a posting list above the leaves")));
        }
        let item = node.item(i)?;
        if node.is_leaf()
            && node.is_list(i)
            && let Err(what) = node.members(i, &mut Vec::new())
        {
            out.push(("B12", format!("entry {i}: {what}")));
        }
        if i == 0 && !node.is_leaf() && item.rem != 0 {
            out.push(("B11", "the first entry of an inner page has a key".into()));
        }
        if item.rem < 4 && node.head(i) << (8 * item.rem as u32) != 0 {
            out.push(("B11", format!("the head of entry {i} is not padded with zeroes")));
        }
        spans.push((item.start, item.end));
    }
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        out.push(("P4", "items overlap".into()));
    }
    let used: usize = spans.iter().map(|(start, end)| end - start).sum();
    if used + node.garbage != node.special - node.upper {
        let what =
            format!("{} items of {used} bytes, {} free in between", node.count, node.garbage);
        out.push(("B16", what));
    }
    Ok(())
}
