//! The log of a run, from which the state at every moment of it can be built again. A workload runs
//! once; every crash point of it is then a prefix of its log.

use super::fault::FaultCounts;
use super::pending::{PendingState, Step};
use rightlink_env::sync::Arc;

/// The log of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) start: PendingState,
    /// How many calls the disk had seen when the recording began.
    pub(crate) first_op: u64,
    /// How many it had seen when the recording was taken.
    pub(crate) end_op: u64,
    /// The steps, each with the number of the call that made it.
    pub(crate) steps: Arc<Vec<(u64, Step)>>,
    pub(crate) counts: FaultCounts,
}

impl Recording {
    /// The moments worth a crash: before everything, and after each call that changed something.
    /// A moment is given as the number of calls that have happened.
    pub fn moments(&self) -> Vec<u64> {
        let mut moments: Vec<u64> = vec![self.first_op];
        moments.extend(self.steps.iter().map(|(op, _)| op + 1));
        moments.dedup();
        moments
    }

    /// How many calls had happened at the end.
    pub fn end(&self) -> u64 {
        self.end_op
    }

    /// The state after `ops` calls. For all of them, [`Recording::for_each_moment`] is cheaper.
    pub fn state_at(&self, ops: u64) -> PendingState {
        let mut state = self.start.clone();
        for (_, step) in self.steps.iter().take_while(|(op, _)| *op < ops) {
            state.apply(step);
        }
        state
    }

    /// Passes every moment of the run and its state to `visit`, in order.
    pub fn for_each_moment(&self, mut visit: impl FnMut(u64, &PendingState)) {
        let mut state = self.start.clone();
        let mut steps = self.steps.iter().peekable();
        visit(self.first_op, &state);
        while let Some((op, step)) = steps.next() {
            state.apply(step);
            if steps.peek().is_none_or(|(next, _)| next != op) {
                visit(op + 1, &state);
            }
        }
    }
}
