//! A scan of some keys of a range, for methods that have none of their own: range after range of a
//! list, or one range of which every key is asked.
//!
//! Invariants: hands over what the method's plain scan does, less what is not wanted.
//! Does not do: skip.

use rightlink_env::sync::Arc;

use crate::error::{Error, Result};
use crate::index::am::{Clock, IndexScan, LeafBatch};
use crate::index::search_key::{Direction, KeyRange, KeySet};

/// See the room's head.
pub(crate) struct Filtered {
    scan: Box<dyn IndexScan>,
    range: KeyRange,
    keys: Arc<KeySet>,
    direction: Direction,
    /// Ranges begun so far, in the order of the scan.
    begun: usize,
}

impl Filtered {
    /// Of `scan`, which is to scan nothing yet.
    pub(crate) fn new(
        scan: Box<dyn IndexScan>,
        range: KeyRange,
        keys: Arc<KeySet>,
        direction: Direction,
    ) -> Filtered {
        Filtered { scan, range, keys, direction, begun: 0 }
    }

    /// The range that is scanned next.
    fn next_range(&mut self) -> Option<KeyRange> {
        let nth = self.begun;
        self.begun += 1;
        let Some(ranges) = self.keys.ranges() else {
            return (nth == 0).then(|| self.range.clone());
        };
        let at = match self.direction {
            Direction::Forward => nth,
            Direction::Backward => ranges.len().checked_sub(nth + 1)?,
        };
        ranges.get(at).map(|range| range.within(&self.range))
    }

    /// Leaves out what is not wanted.
    fn sift(&self, batch: &mut LeafBatch) -> Result<()> {
        if self.keys.ranges().is_some() {
            return Ok(());
        }
        let wanted: std::result::Result<Vec<bool>, _> =
            (0..batch.len()).map(|at| self.keys.contains(batch.key(at))).collect();
        let wanted = wanted.map_err(|malformed| Error::corrupt(batch.leaf, malformed.0))?;
        let mut entries = wanted.iter();
        batch.entries.retain(|_| entries.next() == Some(&true));
        let mut orders = wanted.iter();
        batch.orders.retain(|_| orders.next() == Some(&true));
        Ok(())
    }
}

impl IndexScan for Filtered {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        loop {
            while self.scan.next_batch(clock, batch)? {
                self.sift(batch)?;
                if !batch.is_empty() {
                    return Ok(true);
                }
            }
            let Some(range) = self.next_range() else { return Ok(false) };
            self.scan.restart(range);
        }
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        self.scan.hand_back(batch, keep);
    }

    fn restart(&mut self, range: KeyRange) {
        self.scan.restart(KeyRange::none());
        (self.range, self.begun) = (range, 0);
    }
}
