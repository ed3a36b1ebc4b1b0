//! The xids of one transaction: runs of neighbouring xids, and in each run which are aborted.
//!
//! Invariants: runs ascend and do not overlap; a run has at most [`MAX_RUN`] xids; an aborted xid
//! stays aborted. A set costs one bit per xid and a few words per run, so that a transaction of a
//! million statements stays small. Clones share the runs: an xid aborted later is aborted in every
//! clone, and a snapshot may keep a clone while the transaction goes on.
//! Does not do: say which xids of a run were used; callers keep the bound.

use std::ops::Range;

use rightlink_env::sync::{Arc, AtomicU64, Ordering};

use crate::error::Result;

/// Most xids of a run; under the model checker few, so that the ring wraps within a short schedule.
pub(in crate::txn) const MAX_RUN: u64 = if cfg!(feature = "shuttle") { 4 } else { 1024 };

/// Neighbouring xids that one transaction was given together.
#[derive(Debug)]
pub(in crate::txn) struct Run {
    start: u64,
    end: u64,
    /// A bit for each of the first xids, which are all of most runs.
    first: AtomicU64,
    /// The same for those behind them.
    more: Box<[AtomicU64]>,
}

impl Run {
    /// The run `range`, nothing aborted.
    pub(in crate::txn) fn new(range: Range<u64>) -> Run {
        let len = range.end - range.start;
        assert!((1..=MAX_RUN).contains(&len), "a run has 1 to {MAX_RUN} xids");
        let more = (1..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Run { start: range.start, end: range.end, first: AtomicU64::new(0), more }
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

    /// Was `xid`, one of the run, aborted?
    pub(in crate::txn) fn is_aborted(&self, xid: u64) -> bool {
        let (word, bit) = self.place(xid);
        self.word(word).load(Ordering::Acquire) & bit != 0
    }

    /// The last xid below `bound` that is not aborted. A word at a time: all may be aborted.
    fn last_live(&self, bound: u64) -> Option<u64> {
        let len = bound.min(self.end).saturating_sub(self.start);
        (0..len.div_ceil(64)).rev().find_map(|word| {
            let beyond = (64 * (word + 1)).saturating_sub(len);
            let live = !self.word(word as usize).load(Ordering::Acquire) & u64::MAX >> beyond;
            (live != 0).then(|| self.start + 64 * word + u64::from(live.ilog2()))
        })
    }

    fn abort(&self, xid: u64) {
        let (word, bit) = self.place(xid);
        self.word(word).fetch_or(bit, Ordering::AcqRel);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        at.checked_sub(1).map_or(&self.first, |at| &self.more[at])
    }

    fn place(&self, xid: u64) -> (usize, u64) {
        assert!(self.contains(xid), "the xid is one of the run");
        let at = xid - self.start;
        ((at / 64) as usize, 1 << (at % 64))
    }
}

/// All xids of a transaction.
#[derive(Clone, Debug, Default)]
pub(in crate::txn) struct OwnSet {
    runs: Vec<Arc<Run>>,
}

impl OwnSet {
    /// The runs, ascending.
    pub(in crate::txn) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Adds a run above all others.
    pub(in crate::txn) fn push(&mut self, run: Arc<Run>) {
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
    pub(in crate::txn) fn find(&self, xid: u64) -> Option<&Run> {
        if xid >= self.end() {
            return None;
        }
        let after = self.runs.partition_point(|run| run.start <= xid);
        let run = self.runs.get(after.checked_sub(1)?)?;
        run.contains(xid).then_some(&**run)
    }

    /// Marks every xid of `range` that is in the set as aborted, and calls `each` for the part of
    /// every run that was touched.
    pub(in crate::txn) fn abort(&self, range: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        for run in self.runs.iter().rev().take_while(|run| run.end > range.start) {
            let part = run.start.max(range.start)..run.end.min(range.end);
            if !part.is_empty() {
                part.clone().for_each(|xid| run.abort(xid));
                each(part);
            }
        }
    }

    /// Calls `each` for every longest range of xids below `used` that are not aborted, ascending.
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

    fn live(own: &OwnSet, used: u64) -> Vec<Range<u64>> {
        let mut out = Vec::new();
        own.for_each_live(used, |range| {
            out.push(range);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn ranges_join_over_runs_and_leave_the_aborted_out() {
        let mut own = OwnSet::default();
        assert!(own.find(5).is_none() && live(&own, 100).is_empty());
        for range in [5..6, 6..8, 20..24] {
            own.push(Arc::new(Run::new(range)));
        }
        assert_eq!(live(&own, 23), [5..8, 20..23]);
        let mut touched = Vec::new();
        own.abort(7..22, |part| touched.push(part));
        assert_eq!(touched, [20..22, 7..8]);
        assert_eq!(live(&own, 24), [5..7, 22..24]);
        let last = [24, 23, 22, 6, 5].map(|bound| own.last_live(bound));
        assert_eq!(last, [Some(23), Some(22), Some(6), Some(5), None]);
        own.push(Arc::new(Run::new(100..300)));
        for first in [299, 230, 164, 163, 101, 100] {
            own.abort(first..300, |_| {});
            for bound in [100, 101, 164, 165, 228, 229, 300, 999] {
                let live = (0..bound)
                    .rev()
                    .find(|xid| own.find(*xid).is_some_and(|run| !run.is_aborted(*xid)));
                assert_eq!(own.last_live(bound), live, "below {bound} of what {first} leaves");
            }
        }
        assert!(own.find(21).is_some_and(|run| run.is_aborted(21)));
        assert!(own.find(8).is_none() && own.find(24).is_none() && own.find(4).is_none());
    }

    #[test]
    fn a_clone_sees_later_aborts() {
        let mut own = OwnSet::default();
        own.push(Arc::new(Run::new(64..64 + MAX_RUN)));
        let copy = own.clone();
        own.abort(1000..1001, |_| ());
        assert_eq!(live(&copy, 2000), [64..1000, 1001..64 + MAX_RUN]);
    }
}
