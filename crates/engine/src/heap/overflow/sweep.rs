//! Giving back chains that no row names, and check H11 of those that rows name.
//!
//! A sweep takes the horizon and a registered snapshot, marks what every version in the heap names,
//! and then gives back unmarked chains whose writers are below that horizon. A version that may
//! still be read, or its names copied, is kept by a snapshot or is later than this one. A later
//! version names chains of writers above the horizon, or copies names from a version that this
//! snapshot keeps.
//!
//! Invariants: a chain is given back from its last page to its first, in records of their own. What
//! a crash leaves can be walked and given back by the next sweep.
//! Does not do: the marking (`table`), which knows rows.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::{Budget, Reservation};

use crate::buffer::Mtr;
use crate::error::{Error, Result};
use crate::heap::overflow::chain::link_at;
use crate::heap::overflow::page::{self, GROUP, HEAD};
use crate::heap::overflow::{Overflow, OverflowPointer};
use crate::ids::Xid;
use crate::wal::RecordKind;

/// Further looks at a page and its state that do not fit together.
const LOOKS: u32 = 3;
/// Blocks given back in one record.
const BATCH: usize = 256;

/// The first blocks of a range of blocks that rows name.
pub struct SweepMarks {
    range: std::ops::Range<u32>,
    bits: Vec<u64>,
    _memory: Option<Reservation>,
}

/// What a sweep gave back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Values.
    pub chains: u64,
    /// Their pages.
    pub pages: u64,
}

impl SweepMarks {
    /// Marks for blocks from `from` on, up to `end` or as many as the budget has memory for.
    pub fn new(budget: &Budget, from: u32, end: u32) -> Self {
        let words = (end.saturating_sub(from)).div_ceil(64).max(1) as usize;
        let _memory = budget.try_reserve((words * 8).min(budget.available() / 4));
        // A few blocks at a time where nothing is left.
        let words = words.min(_memory.as_ref().map_or(0, Reservation::bytes) / 8).max(64);
        let blocks = u32::try_from(words as u64 * 64).unwrap_or(u32::MAX);
        let to = from.saturating_add(blocks).min(end);
        Self { range: from..to, bits: vec![0; words], _memory }
    }

    /// The blocks that can be marked.
    pub fn range(&self) -> std::ops::Range<u32> {
        self.range.clone()
    }

    /// A row names `value`.
    pub fn mark(&mut self, value: OverflowPointer) {
        if self.range.contains(&value.first) {
            let at = value.first - self.range.start;
            self.bits[at as usize / 64] |= 1 << (at % 64);
        }
    }

    fn has(&self, block: u32) -> bool {
        let at = block - self.range.start;
        self.bits[at as usize / 64] >> (at % 64) & 1 == 1
    }
}

impl Overflow {
    /// Gives back the chains that begin in the range of `marks`, are not marked, and were written
    /// below `horizon`. `go_on` is told of pages and may end it.
    pub fn sweep(
        &self,
        marks: &SweepMarks,
        horizon: Xid,
        go_on: &dyn Fn(u32) -> Result<()>,
    ) -> Result<Swept> {
        let (range, mut swept) = (marks.range(), Swept::default());
        let mut map = page::map_of(range.start);
        while map < range.end.min(self.blocks()) {
            let states = self.states_of(map)?;
            for (block, state) in (map + 1..).zip(states) {
                let is_lost = state == HEAD && range.contains(&block) && !marks.has(block);
                if is_lost && let Some(link) = link_at(self, block)? {
                    let ended = link.creator < horizon || broken(Broken::OverflowFreedEarly);
                    if ended && (link.first, link.number) == (block, 0) {
                        let pages = self.give_back(block, link.creator)?;
                        (swept.chains, swept.pages) = (swept.chains + 1, swept.pages + pages);
                        go_on(pages as u32)?;
                    }
                }
            }
            go_on(1)?;
            map += GROUP;
        }
        Ok(swept)
    }

    /// Gives the pages of a chain back; how many.
    fn give_back(&self, first: u32, creator: Xid) -> Result<u64> {
        let (mut blocks, mut at) = (Vec::new(), first);
        while let Some(link) = link_at(self, at)? {
            let own = (first, blocks.len() as u32, creator);
            // This page was freed already, or never written: the chain ends before it.
            if (link.first, link.number, link.creator) != own || !self.is_used(at)? {
                break;
            }
            blocks.push(at);
            if link.next == 0 {
                break;
            }
            at = link.next;
        }
        let pages = blocks.len() as u64;
        blocks.reverse();
        for batch in blocks.chunk_by(|a, b| page::map_of(*a) == page::map_of(*b)) {
            batch.chunks(BATCH).try_for_each(|batch| self.free(batch))?;
        }
        Ok(pages)
    }

    fn is_used(&self, block: u32) -> Result<bool> {
        let map = page::map_of(block);
        let pin = self.pool().pin(self.id(map))?;
        let latch = pin.shared();
        page::states(pin.page(), latch.bytes())?;
        Ok(latch.bytes()[page::place_of(block)] != page::FREE)
    }

    /// Clears the marks of blocks of one group.
    fn free(&self, blocks: &[u32]) -> Result<()> {
        let map = self.pool().pin(self.id(page::map_of(blocks[0])))?;
        let mut mtr = Mtr::new(self.pool());
        let held = mtr.latch(map);
        page::states(mtr.id(held), mtr.bytes(held))?;
        for block in blocks {
            mtr.page(held).write(page::place_of(*block), &[page::FREE]);
        }
        mtr.commit(RecordKind::Overflow, Xid::NONE)?;
        hit("heap.overflow.freed");
        blocks.iter().for_each(|block| self.freed(*block));
        Ok(())
    }

    /// H11: is the chain of a value that a visible row names whole, in use, and marked as one?
    pub fn check(&self, value: OverflowPointer) -> Result<()> {
        let mut reader = self.read(value);
        let state_of = |block: u32| -> Result<u8> {
            Ok(self.states_of(page::map_of(block))?[(block % GROUP) as usize - 1])
        };
        let mut at = value.first;
        while reader.fill()? {
            let (state, first) = (state_of(at)?, at == value.first);
            if state != if first { HEAD } else { page::USED } {
                let what = format!("a page of a value, which the map has in state {state}");
                return Err(Error::corrupt(self.id(at), what));
            }
            reader.consume(reader.rest().len());
            at = link_at(self, at)?.map_or(0, |link| link.next);
        }
        Ok(())
    }

    /// H11: pages in use that are of no value, or not at the place in it that the map says.
    pub fn orphans(&self, found: &mut dyn FnMut(u32, String)) -> Result<()> {
        let mut map = 0;
        while map < self.blocks() {
            let states = self.states_of(map)?;
            for (block, state) in (map + 1..self.blocks()).zip(states) {
                if state == page::FREE {
                    continue;
                }
                let mut wrong = self.disagrees(block)?;
                // Map and page are not looked at together: others may change them in between.
                for _ in 0..LOOKS {
                    if wrong.is_some() {
                        wrong = self.disagrees(block)?;
                    }
                }
                if let Some(what) = wrong {
                    found(block, what);
                }
            }
            map += GROUP;
        }
        Ok(())
    }

    fn disagrees(&self, block: u32) -> Result<Option<String>> {
        let state = self.states_of(page::map_of(block))?[(block % GROUP) as usize - 1];
        if state == page::FREE {
            return Ok(None);
        }
        let link = match link_at(self, block) {
            Ok(link) => link,
            // The checks of pages have found it.
            Err(Error::Corruption { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(link) = link else {
            return Ok(Some("a page in use that is of no value".into()));
        };
        let first = link.number == 0 && link.first == block;
        let what =
            || format!("page {} of a value, which the map has in state {state}", link.number);
        Ok((first != (state == HEAD)).then(what))
    }
}
