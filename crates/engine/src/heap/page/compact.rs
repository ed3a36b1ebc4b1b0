//! Compaction of a heap page after versions were removed.
//!
//! A [`Compaction`] is computed and checked before the first store. Where few versions are removed,
//! the runs between them move as one piece and nothing is sorted.
//!
//! Invariants: a page without its removed versions has no garbage; a rewrite only gives space back.
//! Does not do: decide which versions are removed (`prune`).
//!
//! PostgreSQL: `PageRepairFragmentation` and `compactify_tuples` in `storage/page/bufpage.c`.

use crate::error::Result;
use crate::heap::page::store::put_flags;
use crate::heap::page::{FREE_SLOTS, HeapPage, PRUNE_XID, SLOT_SIZE, Slot};
use crate::page::PageMut;
use crate::page::header::{self, HEADER_SIZE};

/// Most removed tuples for which the runs between them move as one piece each.
const MAX_SHIFTED: usize = 8;

/// A run of tuple bytes that moves up the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    from: usize,
    len: usize,
    to: usize,
}

/// The layout of a page after versions were removed, computed and checked before the first store.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::heap) struct Compaction {
    /// All line pointers of the page afterwards ([`Slot::word`]), new offsets included; no unused
    /// ones at the end.
    pointers: Vec<u32>,
    /// Runs of tuple bytes to move, in this order.
    moves: Vec<Move>,
    upper: usize,
}

impl Compaction {
    /// Plans the page of `keep` without the bytes `gone` (offset and length), which `keep` no
    /// longer names. If these are few, the runs between them move as one piece and nothing is
    /// sorted.
    pub(in crate::heap) fn removing(
        page: &HeapPage<'_>,
        keep: &[Slot],
        gone: &[(u16, u16)],
    ) -> Result<Compaction> {
        assert!(keep.len() == usize::from(page.slots()), "one entry per line pointer");
        match Self::by_shifting(page.upper(), keep, gone) {
            Some(compaction) => Ok(compaction),
            None => Self::by_sorting(page, keep.to_vec()),
        }
    }

    /// Plans the page of `keep` without `gone`, if these are few, and if both together are all
    /// tuples of the page.
    fn by_shifting(upper: usize, keep: &[Slot], gone: &[(u16, u16)]) -> Option<Compaction> {
        if gone.len() > MAX_SHIFTED {
            return None;
        }
        let wide = |(at, len): &(u16, u16)| (usize::from(*at), usize::from(*len));
        let mut holes: Vec<(usize, usize)> = gone.iter().map(wide).collect();
        holes.sort_unstable_by(|a, b| b.cmp(a));
        let (mut moves, mut end, mut shift) = (Vec::with_capacity(holes.len()), PRUNE_XID, 0);
        for (at, len) in holes.iter().chain(&[(upper, 0)]) {
            let from = at + len;
            let above = end.checked_sub(from)?;
            if shift > 0 && above > 0 {
                moves.push(Move { from, len: above, to: from + shift });
            }
            (end, shift) = (*at, shift + len);
        }
        let (mut left, mut inside) = (0, true);
        let moved = |slot: &Slot| {
            let Slot::Normal { offset, len } = *slot else { return slot.word() };
            let at = usize::from(offset);
            let higher = holes.iter().map(|(hole, len)| if *hole > at { *len } else { 0 });
            let to = at + higher.sum::<usize>();
            inside &= to + usize::from(len) <= PRUNE_XID;
            left += usize::from(len);
            Slot::Normal { offset: to as u16, len }.word()
        };
        let pointers: Vec<u32> = keep.iter().map(moved).collect();
        if !inside {
            return None;
        }
        // Otherwise the page is damaged, and sorting reports it.
        if upper + shift + left != PRUNE_XID {
            return None;
        }
        Some(Compaction { pointers: without_unused_end(pointers), moves, upper: upper + shift })
    }

    /// Plans the page of `keep` (one entry per line pointer, offsets as they are now), compacted.
    pub(in crate::heap) fn by_sorting(
        page: &HeapPage<'_>,
        mut keep: Vec<Slot>,
    ) -> Result<Compaction> {
        assert!(keep.len() == usize::from(page.slots()), "one entry per line pointer");
        // Offset, bytes and index in one number: updates mix a page, and this is its only sort.
        let mut kept: Vec<u64> = Vec::with_capacity(keep.len());
        for (i, slot) in keep.iter().enumerate() {
            if let Slot::Normal { offset, len } = *slot {
                kept.push(u64::from(offset) << 32 | u64::from(len) << 16 | i as u64);
            }
        }
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let (mut upper, mut above) = (PRUNE_XID, PRUNE_XID);
        let mut moves: Vec<Move> = Vec::new();
        for word in kept {
            let field = |at: u32| usize::from((word >> at) as u16);
            let (offset, len, i) = (field(32), field(16), field(0));
            if offset + len > above {
                return Err(page.error(i as u16 + 1, "a tuple that overlaps another"));
            }
            above = offset;
            upper -= len;
            keep[i] = Slot::Normal { offset: upper as u16, len: len as u16 };
            push_move(&mut moves, Move { from: offset, len, to: upper });
        }
        let pointers = without_unused_end(keep.into_iter().map(Slot::word).collect());
        Ok(Compaction { pointers, moves, upper })
    }

    /// Carries the plan out.
    pub(in crate::heap) fn apply(&self, page: &mut PageMut<'_>) {
        let bytes = page.bytes();
        let lower = usize::from(header::u16_at(bytes, header::LOWER));
        let upper = usize::from(header::u16_at(bytes, header::UPPER));
        let new_lower = HEADER_SIZE + self.pointers.len() * SLOT_SIZE;
        assert!(self.upper >= upper && new_lower <= lower, "a rewrite only gives space back");
        for run in &self.moves {
            page.copy_within(run.from, run.len, run.to);
        }
        if self.upper > upper {
            page.fill(upper, self.upper - upper, 0);
        }
        if lower > new_lower {
            page.fill(new_lower, lower - new_lower, 0);
        }
        self.store_pointers(page);
        header::set_bounds(page, new_lower, self.upper);
        if self.pointers.contains(&UNUSED) {
            put_flags(page, FREE_SLOTS, 0);
        }
    }

    /// Stores only the line pointers that differ, neighbours in one store.
    fn store_pointers(&self, page: &mut PageMut<'_>) {
        let mut run = Vec::with_capacity(self.pointers.len() * SLOT_SIZE);
        let mut at = 0;
        while at < self.pointers.len() {
            let (old, _) = page.bytes()[HEADER_SIZE..PRUNE_XID].as_chunks::<SLOT_SIZE>();
            let pairs =
                || self.pointers.iter().zip(old).map(|(new, old)| (new.to_le_bytes(), *old));
            let Some(same) = pairs().skip(at).position(|(new, old)| new != old) else { return };
            let from = at + same;
            run.clear();
            for (new, _) in pairs().skip(from).take_while(|(new, old)| new != old) {
                run.extend_from_slice(&new);
            }
            at = from + run.len() / SLOT_SIZE;
            page.write(HEADER_SIZE + from * SLOT_SIZE, &run);
        }
    }
}

/// The line pointer of an unused slot.
const UNUSED: u32 = 0;

/// Line pointers without the unused ones at the end.
fn without_unused_end(mut pointers: Vec<u32>) -> Vec<u32> {
    while pointers.last() == Some(&UNUSED) {
        pointers.pop();
    }
    pointers
}

/// Appends a move, joined to the one before when both move neighbours by the same distance.
fn push_move(moves: &mut Vec<Move>, new: Move) {
    if new.from == new.to {
        return;
    }
    match moves.last_mut() {
        Some(last) if new.from + new.len == last.from && new.to + new.len == last.to => {
            *last = Move { len: new.len + last.len, ..new };
        }
        _ => moves.push(new),
    }
}
