//! HOT chains of a page, read: from the root that index entries name, version by version.
//!
//! A row that is updated often has as many versions as its page has room for. A reader passes over
//! versions whose own headers say that its snapshot cannot see them, and decodes the others.
//!
//! Invariants: a chain stays on its page, and each of its versions was created by the xid that
//! ended the one before. A chain in a ring is an error, never a loop.
//! Does not do: deciding which decoded version a snapshot sees (`visibility`).
//!
//! PostgreSQL: `heap_hot_search_buffer` in `access/heap/heapam.c`.

use crate::error::Result;
use crate::heap::page::tuple::{HEAP_ONLY, TupleHeader};
use crate::heap::page::{HeapPage, Slot, Tuple};
use crate::ids::Xid;

impl<'a> HeapPage<'a> {
    /// Where the HOT chain of `root` begins: the slot itself or what it redirects to.
    pub(in crate::heap) fn chain_start(&self, root: u16) -> Result<Option<u16>> {
        Ok(self.chain_head(root)?.map(|(slot, _)| slot))
    }

    /// The first version of the HOT chain of `root`, and its slot.
    fn chain_head(&self, root: u16) -> Result<Option<(u16, Tuple<'a>)>> {
        match self.slot(root)? {
            Slot::Normal { offset, len } => {
                let tuple = self.tuple_at(root, offset, len)?;
                let heap_only = tuple.header.has(HEAP_ONLY);
                Ok((!heap_only).then_some((root, tuple)))
            }
            Slot::Redirect(to) => match self.tuple(to)? {
                Some(tuple) if tuple.header.has(HEAP_ONLY) => Ok(Some((to, tuple))),
                _ => Err(self.error(root, "redirects to no heap-only version")),
            },
            Slot::Unused | Slot::Dead => Ok(None),
        }
    }

    /// The version after `tuple` in its HOT chain: on this page, heap-only, created by the xid that
    /// ended `tuple`. Any other version there means that the successor was pruned and its slot
    /// reused.
    pub(in crate::heap) fn chain_next(
        &self,
        tuple: &Tuple<'_>,
    ) -> Result<Option<(u16, Tuple<'a>)>> {
        let Some(slot) = tuple.header.hot_next() else { return Ok(None) };
        if tuple.header.next.is_some_and(|next| next.block != self.id.block) {
            return Err(self.error(slot, "a HOT chain that leaves its page"));
        }
        let next = self.tuple(slot)?.filter(|next| {
            next.header.has(HEAP_ONLY)
                && next.header.xmin == tuple.header.xmax
                && next.offset != tuple.offset
        });
        Ok(next.map(|next| (slot, next)))
    }

    /// The first version of the chain from `slot` on that was not replaced before `before`, as far
    /// as the headers alone say. A ring has none; what follows its slot finds that.
    #[inline]
    fn skip_replaced(&self, mut slot: u16, before: Xid) -> u16 {
        let Some((mut header, _)) = self.version(slot) else { return slot };
        for _ in 0..self.slots() {
            let next = TupleHeader::replaced_before(self.base(), header, before);
            let Some(next) = next.filter(|next| next.block == self.id().block) else { break };
            let Some((after, _)) = self.version(next.slot) else { break };
            if !TupleHeader::continues(after, header) {
                break;
            }
            (slot, header) = (next.slot, after);
        }
        slot
    }
}

/// Walks the HOT chain of `root`, calling `visit` for each version until it returns false.
pub(in crate::heap) fn walk_chain<'a>(
    page: &HeapPage<'a>,
    root: u16,
    visit: impl FnMut(u16, &Tuple<'a>) -> Result<bool>,
) -> Result<()> {
    match page.chain_head(root)? {
        Some((slot, tuple)) => walk_on(page, slot, tuple, visit),
        None => Ok(()),
    }
}

/// As [`walk_chain`], without the versions at its beginning of which the headers say that they were
/// committed, and replaced before `before`: no snapshot whose xmin that is sees them.
pub(in crate::heap) fn walk_chain_since<'a>(
    page: &HeapPage<'a>,
    root: u16,
    before: Xid,
    visit: impl FnMut(u16, &Tuple<'a>) -> Result<bool>,
) -> Result<()> {
    let Some((head, first)) = page.chain_head(root)? else { return Ok(()) };
    let slot = page.skip_replaced(head, before);
    if slot == head {
        return walk_on(page, head, first, visit);
    }
    let tuple = page.tuple(slot)?.expect("a version that was passed to");
    walk_on(page, slot, tuple, visit)
}

/// Goes on with a walk at this version.
fn walk_on<'a>(
    page: &HeapPage<'a>,
    mut slot: u16,
    mut tuple: Tuple<'a>,
    mut visit: impl FnMut(u16, &Tuple<'a>) -> Result<bool>,
) -> Result<()> {
    let first = slot;
    for _ in 0..=page.slots() {
        if !visit(slot, &tuple)? {
            return Ok(());
        }
        match page.chain_next(&tuple)? {
            Some(next) => (slot, tuple) = next,
            None => return Ok(()),
        }
    }
    Err(page.error(first, "a HOT chain in a ring"))
}
