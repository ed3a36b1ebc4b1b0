//! Asynchronous operations on the simulated disk. An operation reaches the disk either when it is
//! submitted or when it completes, and operations complete in any order, both as the seed decides;
//! with a modelled device in the order in which that would finish them.

use crate::core::Core;
use crate::error::RawError;
use crate::transfer::Op;
use rightlink_env::sync::Mutex;
use rightlink_env::{Nanos, Rng};

/// Operations that wait for somebody to reap them.
#[derive(Debug)]
pub(crate) struct SimEngine {
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    ops: Vec<Queued>,
    rng: Rng,
}

#[derive(Debug)]
struct Queued {
    op: Op,
    /// What the disk said, if it was asked already.
    result: Option<Result<usize, RawError>>,
}

impl SimEngine {
    pub(crate) fn new(rng: Rng) -> SimEngine {
        SimEngine { queue: Mutex::new(Queue { ops: Vec::new(), rng }) }
    }

    /// Takes an operation that the caller has counted in.
    pub(crate) fn submit(&self, core: &Core, mut op: Op) {
        op.due = core.due(op.bufs.total());
        let at_once = self.queue.lock().rng.chance(1, 2);
        let result = at_once.then(|| op.attempt());
        self.queue.lock().ops.push(Queued { op, result });
        core.flight.bring();
    }

    /// Completes some operations; see `Io::reap`.
    pub(crate) fn reap_past(&self, core: &Core, seen: u64, wait: bool) -> usize {
        let batch = loop {
            let brought = core.flight.brought();
            let batch = self.queue.lock().take(core, wait);
            if !batch.is_empty() || !wait {
                break batch;
            }
            // What is in flight is with another reaper, or not in the queue yet: then whoever
            // brings it may never reap.
            if let Some(delivered) = core.flight.wait_past_or_brought(seen, brought) {
                return delivered as usize;
            }
        };
        let count = batch.len();
        for Queued { op, result } in batch {
            let result = result.unwrap_or_else(|| op.attempt());
            op.finish(core, result);
        }
        count
    }
}

impl Queue {
    fn take(&mut self, core: &Core, wait: bool) -> Vec<Queued> {
        if self.ops.is_empty() {
            return Vec::new();
        }
        if core.device.is_some() {
            return self.take_due(core, wait);
        }
        let most = self.ops.len() as u64;
        let count = if wait { 1 + self.rng.below(most) } else { self.rng.below(most + 1) };
        (0..count).map(|_| self.take_any()).collect()
    }

    fn take_any(&mut self) -> Queued {
        let index = self.rng.index(self.ops.len());
        self.ops.swap_remove(index)
    }

    fn take_due(&mut self, core: &Core, wait: bool) -> Vec<Queued> {
        let earliest = self.ops.iter().filter_map(|queued| queued.op.due).min();
        if wait {
            core.wait_due(earliest);
        }
        let now = core.clock.now();
        let due = |queued: &mut Queued| queued.op.due.is_none_or(|due| due <= now);
        let mut batch: Vec<Queued> = self.ops.extract_if(.., due).collect();
        batch.sort_by_key(|queued| queued.op.due.map_or(Nanos(0), |due| due));
        batch
    }
}
