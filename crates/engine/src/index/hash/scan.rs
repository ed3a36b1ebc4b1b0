//! Scans, a page at a time, and the dead marks that scans leave behind.
//!
//! A scan keeps what is left of its range, in the order of code, key and row id, and the link to
//! the next page. After a page everything up to its high fence has been handed over, so that fence
//! is where the range begins now. A step over the link counts only if the page there begins at that
//! very fence; else (a split, a squeeze, a reused page) the scan looks for the position again (R5).
//! So neither pin nor latch is needed between two batches, and a split in between moves nothing to
//! where the scan would not see it, or would see it twice.
//!
//! Invariants: no entry is handed over twice, none that is there from the first call to the last is
//! missed. Marks are set only under the exclusive latch, for entries found again by key and row id
//! and after the caller's check ran under it (R3); they are hints and not logged.
//! Does not do: order by key, the other direction; visibility.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::Pin;
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::{PageId, RowId};
use crate::index::Tries;
use crate::index::am::{Clock, LeafBatch, ScanOptions};
use crate::index::hash::bucket::{
    Bucket, Checked, DEAD, HAS_DEAD, Place, SLOT, is_bucket, place_on,
};
use crate::index::hash::code::{split_code, whole};
use crate::index::hash::{HashIndex, Index};
use crate::index::search_key::{Direction, KeyRange};
use crate::page::PageMut;
use crate::page::header::{FLAGS, HEADER_SIZE, lsn};

/// A scan of one range.
pub(crate) struct HashScan {
    index: HashIndex,
    /// What has not been handed over yet.
    rest: KeyRange,
    options: ScanOptions,
    /// Right neighbour of the last page, 0: look for the position.
    link: u32,
    done: bool,
}

impl HashScan {
    pub(crate) fn new(index: HashIndex, range: KeyRange, options: ScanOptions) -> HashScan {
        assert!(options.direction == Direction::Forward, "a hash index has one direction");
        let done = range.is_empty();
        HashScan { index, rest: range, options, link: 0, done }
    }

    /// See [`crate::index::am::IndexScan::next_batch`].
    pub(crate) fn advance(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        batch.reset(PageId::default(), 0);
        let mut tries = Tries::default();
        while !self.done && batch.is_empty() {
            if self.step_over_link(clock, batch)? || self.look(clock, batch)? {
                tries = Tries::default();
                continue;
            }
            let index = &self.index.0;
            tries.again(&index.pool, index.page(0), "a page that is never where it is found")?;
        }
        Ok(!batch.is_empty())
    }

    /// See [`crate::index::am::IndexScan::restart`].
    pub(crate) fn begin_again(&mut self, range: KeyRange) {
        self.done = range.is_empty();
        (self.rest, self.link) = (range, 0);
    }

    /// See [`crate::index::am::IndexScan::hand_back`].
    pub(crate) fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        let end = whole(batch.key(keep), batch.entries[keep].row);
        self.rest.low.clone_from(&end);
        batch.cut(keep, end, Direction::Forward);
        (self.link, self.done) = (0, false);
    }

    /// Reads the neighbour, if it still is one.
    fn step_over_link(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        if self.link == 0 {
            return Ok(false);
        }
        let pin = self.index.0.pin_linked(self.link)?;
        self.link = 0;
        self.read(&pin, clock, batch, |bucket, rest| {
            bucket.low() == rest.low.as_slice() || broken(Broken::HashLinkNotChecked)
        })
    }

    /// Looks for the page where the range begins now, and reads it.
    fn look(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        let pin = self.index.0.find(&self.rest.low)?;
        self.read(&pin, clock, batch, |bucket, rest| bucket.place(&rest.low) == Place::Here)
    }

    /// Reads a page that `counts`, under its latch.
    fn read(
        &mut self,
        pin: &Pin,
        clock: Clock<'_>,
        batch: &mut LeafBatch,
        counts: impl FnOnce(&Bucket<'_>, &KeyRange) -> bool,
    ) -> Result<bool> {
        // R3: the clock is read before the page.
        let sample = clock();
        let page = pin.shared();
        if !is_bucket(page.bytes()) {
            return Ok(false);
        }
        let copied = Bucket::open(page.bytes()).and_then(|bucket| {
            let counts = counts(&bucket, &self.rest);
            if counts {
                batch.reset(pin.page(), sample);
                self.copy(&bucket, batch)?;
            }
            Ok(counts)
        });
        copied.map_err(|what| self.index.0.corrupt(pin.page().block.0, what))
    }

    /// Copies the matches of a page and moves on.
    fn copy(&mut self, bucket: &Bucket<'_>, batch: &mut LeafBatch) -> Checked<()> {
        batch.lsn = lsn(bucket.page);
        let from = bucket.search(&self.rest.low)?;
        let to = match (&self.rest.high, bucket.high()) {
            (Some(end), high) if high.is_none_or(|high| end.as_slice() < high) => {
                bucket.search(end)?
            }
            _ => bucket.count,
        };
        for at in from..to {
            let item = bucket.item(at)?;
            if !item.dead || self.options.with_dead {
                batch.push(item.key, item.row, item.payload);
            }
        }
        batch.set_fences(&self.rest, bucket.low(), bucket.high());
        self.done = bucket.high().is_none();
        self.rest.low = bucket.high().unwrap_or_default().to_vec();
        self.link = bucket.right;
        self.done |= self.rest.is_empty();
        Ok(())
    }
}

/// Pages to the right of the remembered one that are searched for entries that moved.
const MAX_HOPS: usize = 16;

impl Index {
    /// See [`crate::index::am::AccessMethod::mark_dead`].
    pub(crate) fn mark_dead(
        &self,
        batch: &LeafBatch,
        positions: &[usize],
        only_unchanged: bool,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> usize {
        let mut wanted: Vec<Vec<u8>> =
            positions.iter().map(|at| whole(batch.key(*at), batch.entries[*at].row)).collect();
        wanted.sort_unstable();
        let (mut marked, mut page) = (0, batch.leaf);
        for _ in 0..MAX_HOPS {
            let Some(pin) = self.pool.try_pin(page).filter(|_| !wanted.is_empty()) else { break };
            let mut right = None;
            let ran = pin.hint(None, |page| {
                if only_unchanged && lsn(page.bytes()) != batch.lsn {
                    return;
                }
                let (more, next) = mark_on(page, &mut wanted, check).unwrap_or((0, 0));
                (marked, right) = (marked + more, Some(next).filter(|next| *next != 0));
            });
            match right {
                Some(block) if ran => page = self.page(block),
                _ => break,
            }
        }
        marked
    }
}

/// Marks those of the sorted positions that belong to this page, and drops them from the list.
/// Returns how many and, if larger ones are left, the right link to follow (0: none). The page is
/// judged afresh: it may be another one (R6).
fn mark_on(
    page: &mut PageMut<'_>,
    wanted: &mut Vec<Vec<u8>>,
    check: &mut dyn FnMut(RowId) -> bool,
) -> Checked<(usize, u32)> {
    let Some(first) = wanted.first() else { return Ok((0, 0)) };
    match place_on(page.bytes(), first)? {
        Place::Lost => return Ok((0, 0)),
        Place::Right(right) => return Ok((0, right)),
        Place::Here => {}
    }
    let bucket = Bucket::open(page.bytes())?;
    let mine = wanted.iter().take_while(|at| bucket.place(at) == Place::Here).count();
    let mut words = Vec::new();
    for position in wanted.drain(..mine) {
        debug_assert!(split_code(&position).1.len() >= RowId::SIZE);
        let (at, there) = bucket.find(&position)?;
        if there && bucket.word(at) & DEAD == 0 && check(bucket.item(at)?.row) {
            words.push((at, bucket.word(at) | DEAD));
        }
    }
    let (flags, right) = (bucket.flags, bucket.right);
    for (at, word) in &words {
        page.write_unlogged(HEADER_SIZE + at * SLOT, &word.to_le_bytes());
    }
    if !words.is_empty() && flags & HAS_DEAD == 0 {
        page.write_unlogged(FLAGS, &(flags | HAS_DEAD).to_le_bytes());
    }
    debug_assert!(page.bytes().len() == PAGE_SIZE);
    Ok((words.len(), if wanted.is_empty() { 0 } else { right }))
}
