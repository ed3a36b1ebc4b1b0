//! Scans in the order of positions, one page at a time.
//!
//! A scan keeps what is left of its range, and the right link of its last page. All entries up to
//! that page's high fence were handed over, so the rest begins there. A step over the link counts
//! only if the next page begins at that fence; otherwise the scan searches for the position (R5).
//!
//! | file | content |
//! |---|---|
//! | `list` | scans of a list of keys, with read-ahead |
//! | `lookup` | lookups of whole keys |
//! | `mark_dead` | dead marks on entries of dead rows |
//!
//! Invariants: no entry is handed over twice. None is missed that is there from the first call to
//! the last. No pin or latch is kept between two batches.
//! Does not do: the order of keys; backward scans; visibility.

pub(crate) mod list;
pub(crate) mod lookup;
pub(crate) mod mark_dead;

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::Pin;
use crate::error::Result;
use crate::ids::PageId;
use crate::index::Tries;
use crate::index::am::{Clock, IndexScan, LeafBatch, ScanOptions};
use crate::index::hash::page::{Bucket, PageMatch, entry_position, is_bucket};
use crate::index::hash::state::HashIndex;
use crate::index::search_key::{Direction, KeyRange};
use crate::page::Checked;
use crate::page::header::lsn;

/// A scan of one range.
pub(crate) struct HashScan {
    index: HashIndex,
    /// What has not been handed over yet.
    rest: KeyRange,
    options: ScanOptions,
    /// Right link of the last page; 0: search for the position.
    right_link: u32,
    done: bool,
}

impl HashScan {
    /// A scan of `range`, which is in the order of positions.
    pub(crate) fn new(index: HashIndex, range: KeyRange, options: ScanOptions) -> HashScan {
        assert!(options.direction == Direction::Forward, "a hash index has one direction");
        let done = range.is_empty();
        HashScan { index, rest: range, options, right_link: 0, done }
    }

    /// Reads the next page, if it still follows the last one.
    fn read_right(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        if self.right_link == 0 {
            return Ok(false);
        }
        let pin = self.index.0.pin_linked(std::mem::take(&mut self.right_link))?;
        self.read(&pin, clock, batch, |bucket, rest| {
            bucket.low() == rest.low.as_slice() || broken(Broken::HashLinkNotChecked)
        })
    }

    /// Searches for the page where the rest begins, and reads it.
    fn read_found(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        let pin = self.index.0.find_page(&self.rest.low)?;
        self.read(&pin, clock, batch, |bucket, rest| {
            bucket.match_position(&rest.low) == PageMatch::Here
        })
    }

    /// Reads a page under its latch, if it `continues` the scan.
    fn read(
        &mut self,
        pin: &Pin,
        clock: Clock<'_>,
        batch: &mut LeafBatch,
        continues: impl FnOnce(&Bucket<'_>, &KeyRange) -> bool,
    ) -> Result<bool> {
        // R3: the clock is read before the page.
        let sample = clock();
        let page = pin.shared();
        if !is_bucket(page.bytes()) {
            return Ok(false);
        }
        let copied = Bucket::open(page.bytes()).and_then(|bucket| {
            let continues = continues(&bucket, &self.rest);
            if continues {
                batch.reset(pin.page(), sample);
                self.copy(&bucket, batch)?;
            }
            Ok(continues)
        });
        copied.map_err(|what| self.index.0.corrupt(pin.page().block.0, what))
    }

    /// Copies the matches of a page, and moves on to its end.
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
        self.rest.low = bucket.high().unwrap_or_default().to_vec();
        self.right_link = bucket.right;
        self.done = bucket.high().is_none() || self.rest.is_empty();
        Ok(())
    }
}

impl IndexScan for HashScan {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        batch.reset(PageId::default(), 0);
        let mut tries = Tries::default();
        while !self.done && batch.is_empty() {
            if self.read_right(clock, batch)? || self.read_found(clock, batch)? {
                tries = Tries::default();
                continue;
            }
            let index = &self.index.0;
            tries.again(&index.pool, index.page(0), "a page that is never where it is found")?;
        }
        Ok(!batch.is_empty())
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        let end = entry_position(batch.key(keep), batch.entries[keep].row);
        self.rest.low.clone_from(&end);
        batch.cut(keep, end, Direction::Forward);
        (self.right_link, self.done) = (0, false);
    }

    fn restart(&mut self, range: KeyRange) {
        self.done = range.is_empty();
        (self.rest, self.right_link) = (range, 0);
    }
}
