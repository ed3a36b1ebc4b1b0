//! Scans of lists of keys: key after key, the pages of further ones read ahead.
//!
//! The directory names the page of each key, so as many as the device takes can be on their way at
//! once: more at a time as long as some of them are not in memory.
//!
//! Invariants: hands over what plain scans of the ranges would.
//! Does not do: conditions on parts of keys, which no method without order can use.

use rightlink_env::sync::Arc;

use crate::error::Result;
use crate::index::am::{Clock, IndexScan, LeafBatch, ScanOptions};
use crate::index::hash::HashIndex;
use crate::index::hash::scan::HashScan;
use crate::index::search_key::{KeyRange, KeySet};

/// Most keys whose pages are read ahead at a time.
const MAX_AHEAD: usize = 64;

/// A scan of the ranges of a list.
pub(crate) struct ListScan {
    index: HashIndex,
    scan: HashScan,
    range: KeyRange,
    keys: Arc<KeySet>,
    /// Ranges begun so far.
    begun: usize,
    /// Ranges whose pages were asked for ahead, and how many to ask for at a time.
    asked: (usize, usize),
}

impl ListScan {
    /// Of the parts of `keys`, which is a list of ranges, that lie in `range`.
    pub(crate) fn new(
        index: HashIndex,
        range: KeyRange,
        keys: Arc<KeySet>,
        options: ScanOptions,
    ) -> ListScan {
        assert!(keys.ranges().is_some(), "a method without order gets lists of whole keys");
        let scan = HashScan::new(index.clone(), KeyRange::none(), options);
        ListScan { index, scan, range, keys, begun: 0, asked: (0, 2) }
    }

    fn ranges(&self) -> &[KeyRange] {
        self.keys.ranges().unwrap_or(&[])
    }

    /// Has the pages read where the next ranges begin, unless the first is all that is wanted.
    fn ask_ahead(&mut self) {
        let (asked, many) = self.asked;
        let names_pages = self.index.0.pool.prefetch().names_pages();
        if self.begun == 0 || self.begun < asked || !names_pages {
            return;
        }
        let to = self.ranges().len().min(self.begun + many);
        let places: Vec<&[u8]> =
            self.ranges()[self.begun..to].iter().map(|range| range.low.as_slice()).collect();
        let reads = if places.len() > 1 { self.index.0.read_ahead(&places) } else { 0 };
        // Where all is in memory, the next look is far away.
        self.asked = match reads {
            0 => (to + MAX_AHEAD, 2),
            _ => (to, (many * 2).min(MAX_AHEAD)),
        };
    }
}

impl IndexScan for ListScan {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        while !self.scan.advance(clock, batch)? {
            if self.begun >= self.ranges().len() {
                return Ok(false);
            }
            self.ask_ahead();
            let range = self.ranges()[self.begun].within(&self.range);
            self.begun += 1;
            self.scan.begin_again(range);
        }
        Ok(true)
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        self.scan.hand_back(batch, keep);
    }

    fn restart(&mut self, range: KeyRange) {
        self.scan.begin_again(KeyRange::none());
        (self.range, self.begun, self.asked) = (range, 0, (0, 2));
    }
}
