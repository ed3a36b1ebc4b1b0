//! Scans of a list of keys, one key after the other; the pages of later keys are read ahead.
//!
//! The directory names the page of each key, so their reads need not wait for one another. The
//! number of keys read ahead doubles as long as some of their pages are not in memory.
//!
//! Invariants: it hands over what plain scans of the ranges would.
//! Does not do: conditions on parts of keys, which no method without order can use.

use rightlink_env::sync::Arc;

use crate::error::Result;
use crate::index::am::{Clock, IndexScan, LeafBatch, ScanOptions};
use crate::index::hash::scan::HashScan;
use crate::index::hash::state::HashIndex;
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
    read_ahead: ReadAhead,
}

/// How far the pages of a list are read ahead.
struct ReadAhead {
    /// Ranges before this one were asked for.
    upto: usize,
    /// Ranges that are asked for next, at a time.
    distance: usize,
}

impl Default for ReadAhead {
    fn default() -> Self {
        ReadAhead { upto: 0, distance: 2 }
    }
}

impl ListScan {
    /// A scan of the parts of `keys`, which is a list of ranges, that lie in `range`.
    pub(crate) fn new(
        index: HashIndex,
        range: KeyRange,
        keys: Arc<KeySet>,
        options: ScanOptions,
    ) -> ListScan {
        assert!(keys.ranges().is_some(), "a method without order gets lists of whole keys");
        let scan = HashScan::new(index.clone(), KeyRange::none(), options);
        ListScan { index, scan, range, keys, begun: 0, read_ahead: ReadAhead::default() }
    }

    fn ranges(&self) -> &[KeyRange] {
        self.keys.ranges().unwrap_or(&[])
    }

    /// Reads the pages ahead where the next ranges begin, unless the list has only one range.
    fn read_ahead(&mut self) {
        let ReadAhead { upto, distance } = self.read_ahead;
        let adaptive = self.index.0.pool.prefetch().names_pages();
        if self.begun == 0 || self.begun < upto || !adaptive {
            return;
        }
        let upto = self.ranges().len().min(self.begun + distance);
        let next = &self.ranges()[self.begun..upto];
        let positions: Vec<&[u8]> = next.iter().map(|range| range.low.as_slice()).collect();
        let reads = if positions.len() > 1 { self.index.0.read_ahead(&positions) } else { 0 };
        self.read_ahead = match reads {
            // Where all pages are in memory, the next attempt is far away.
            0 => ReadAhead { upto: upto + MAX_AHEAD, ..ReadAhead::default() },
            _ => ReadAhead { upto, distance: (distance * 2).min(MAX_AHEAD) },
        };
    }
}

impl IndexScan for ListScan {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        while !self.scan.next_batch(clock, batch)? {
            if self.begun >= self.ranges().len() {
                return Ok(false);
            }
            self.read_ahead();
            let range = self.ranges()[self.begun].within(&self.range);
            self.begun += 1;
            self.scan.restart(range);
        }
        Ok(true)
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        self.scan.hand_back(batch, keep);
    }

    fn restart(&mut self, range: KeyRange) {
        self.scan.restart(KeyRange::none());
        (self.range, self.begun, self.read_ahead) = (range, 0, ReadAhead::default());
    }
}
