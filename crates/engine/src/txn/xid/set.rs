//! The xids of one transaction: runs of neighbouring xids, and which xids of a run are aborted.
//!
//! A set costs one bit per xid and a few words per run, so a transaction of a million statements
//! stays small. Clones share the runs: a snapshot keeps a clone while the transaction goes on.
//!
//! Invariants: runs ascend and do not overlap; a run has at most [`MAX_RUN`] xids; an aborted xid
//! stays aborted, and every clone sees that it is.
//! Does not do: tell which xids of a run were used; callers keep that bound.

use std::ops::Range;

use rightlink_env::sync::{Arc, AtomicU64, Ordering};

use crate::error::Result;

/// Most xids of a run. Few under the model checker, so that the recent outcomes wrap around within
/// a short schedule.
pub(in crate::txn) const MAX_RUN: u64 = if cfg!(feature = "shuttle") { 4 } else { 1024 };

/// Neighbouring xids that one transaction was assigned together.
#[derive(Debug)]
pub(in crate::txn) struct XidRun {
    start: u64,
    end: u64,
    /// One bit for each of the first 64 xids; set: aborted. Most runs are no longer.
    first_word: AtomicU64,
    /// The same for the xids after those.
    more_words: Box<[AtomicU64]>,
}

impl XidRun {
    /// The run of the xids in `range`; none of them is aborted.
    pub(in crate::txn) fn new(range: Range<u64>) -> XidRun {
        let len = range.end - range.start;
        assert!((1..=MAX_RUN).contains(&len), "a run has 1 to {MAX_RUN} xids");
        let more_words = (1..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        XidRun { start: range.start, end: range.end, first_word: AtomicU64::new(0), more_words }
    }

    /// Its first xid.
    pub(in crate::txn) fn start(&self) -> u64 {
        self.start
    }

    /// The xid after its last.
    pub(in crate::txn) fn end(&self) -> u64 {
        self.end
    }

    /// Is `xid` in the run?
    pub(in crate::txn) fn contains(&self, xid: u64) -> bool {
        (self.start..self.end).contains(&xid)
    }

    /// Is `xid`, which must be in the run, aborted?
    pub(in crate::txn) fn is_aborted(&self, xid: u64) -> bool {
        let (word, bit) = self.bit_of(xid);
        self.word(word).load(Ordering::Acquire) & bit != 0
    }

    /// The last xid below `bound` that is not aborted. Looks at a word at a time, because all of
    /// them may be aborted.
    fn last_live(&self, bound: u64) -> Option<u64> {
        let len = bound.min(self.end).saturating_sub(self.start);
        (0..len.div_ceil(64)).rev().find_map(|word| {
            let beyond = (64 * (word + 1)).saturating_sub(len);
            let live = !self.word(word as usize).load(Ordering::Acquire) & u64::MAX >> beyond;
            (live != 0).then(|| self.start + 64 * word + u64::from(live.ilog2()))
        })
    }

    fn abort(&self, xid: u64) {
        let (word, bit) = self.bit_of(xid);
        self.word(word).fetch_or(bit, Ordering::AcqRel);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        at.checked_sub(1).map_or(&self.first_word, |at| &self.more_words[at])
    }

    fn bit_of(&self, xid: u64) -> (usize, u64) {
        assert!(self.contains(xid), "the xid is in the run");
        let at = xid - self.start;
        ((at / 64) as usize, 1 << (at % 64))
    }
}

/// All xids of a transaction.
#[derive(Clone, Debug, Default)]
pub(in crate::txn) struct XidSet {
    runs: Vec<Arc<XidRun>>,
}

impl XidSet {
    /// The runs, ascending.
    pub(in crate::txn) fn runs(&self) -> &[Arc<XidRun>] {
        &self.runs
    }

    /// Adds a run above all others.
    pub(in crate::txn) fn push(&mut self, run: Arc<XidRun>) {
        assert!(self.end() <= run.start, "runs ascend");
        self.runs.push(run);
    }

    /// The xid after the last of the last run; 0 when there is none.
    pub(in crate::txn) fn end(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// The first xid, if there is one.
    pub(in crate::txn) fn first(&self) -> Option<u64> {
        self.runs.first().map(|run| run.start)
    }

    /// The last xid below `bound` that is not aborted, if there is one.
    pub(in crate::txn) fn last_live(&self, bound: u64) -> Option<u64> {
        self.runs.iter().rev().find_map(|run| run.last_live(bound))
    }

    /// The run that holds `xid`.
    pub(in crate::txn) fn find(&self, xid: u64) -> Option<&XidRun> {
        if xid >= self.end() {
            return None;
        }
        let after = self.runs.partition_point(|run| run.start <= xid);
        let run = self.runs.get(after.checked_sub(1)?)?;
        run.contains(xid).then_some(&**run)
    }

    /// Marks every xid of `range` that is in the set as aborted. Calls `each` with the touched part
    /// of each run.
    pub(in crate::txn) fn abort(&self, range: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        for run in self.runs.iter().rev().take_while(|run| run.end > range.start) {
            let part = run.start.max(range.start)..run.end.min(range.end);
            if !part.is_empty() {
                part.clone().for_each(|xid| run.abort(xid));
                each(part);
            }
        }
    }

    /// Calls `each` with the ranges of xids below `used` that are not aborted, ascending and as
    /// long as possible.
    pub(in crate::txn) fn for_each_live(
        &self,
        used: u64,
        mut each: impl FnMut(Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut open: Option<Range<u64>> = None;
        for run in &self.runs {
            for xid in run.start..run.end.min(used) {
                if run.is_aborted(xid) {
                    continue;
                }
                match &mut open {
                    Some(range) if range.end == xid => range.end += 1,
                    _ => {
                        if let Some(range) = open.replace(xid..xid + 1) {
                            each(range)?;
                        }
                    }
                }
            }
        }
        open.map_or(Ok(()), each)
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    fn live(xids: &XidSet, used: u64) -> Vec<Range<u64>> {
        let mut out = Vec::new();
        xids.for_each_live(used, |range| {
            out.push(range);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn ranges_join_over_runs_and_leave_the_aborted_out() {
        let mut xids = XidSet::default();
        assert!(xids.find(5).is_none() && live(&xids, 100).is_empty());
        for range in [5..6, 6..8, 20..24] {
            xids.push(Arc::new(XidRun::new(range)));
        }
        assert_eq!(live(&xids, 23), [5..8, 20..23]);
        let mut touched = Vec::new();
        xids.abort(7..22, |part| touched.push(part));
        assert_eq!(touched, [20..22, 7..8]);
        assert_eq!(live(&xids, 24), [5..7, 22..24]);
        let last = [24, 23, 22, 6, 5].map(|bound| xids.last_live(bound));
        assert_eq!(last, [Some(23), Some(22), Some(6), Some(5), None]);
        xids.push(Arc::new(XidRun::new(100..300)));
        for first in [299, 230, 164, 163, 101, 100] {
            xids.abort(first..300, |_| {});
            for bound in [100, 101, 164, 165, 228, 229, 300, 999] {
                let live = (0..bound)
                    .rev()
                    .find(|xid| xids.find(*xid).is_some_and(|run| !run.is_aborted(*xid)));
                assert_eq!(xids.last_live(bound), live, "below {bound} of what {first} leaves");
            }
        }
        assert!(xids.find(21).is_some_and(|run| run.is_aborted(21)));
        assert!(xids.find(8).is_none() && xids.find(24).is_none() && xids.find(4).is_none());
    }

    #[test]
    fn a_clone_sees_later_aborts() {
        let mut xids = XidSet::default();
        xids.push(Arc::new(XidRun::new(64..64 + MAX_RUN)));
        let copy = xids.clone();
        xids.abort(1000..1001, |_| ());
        assert_eq!(live(&copy, 2000), [64..1000, 1001..64 + MAX_RUN]);
    }
}
