//! How many operations are in flight, and waiting for that to change.
//!
//! An operation is in flight from `begin` to `ended`, being delivered from there until `delivered`.
//! The depth limits what is in flight and not what is being delivered, so a completion may submit
//! again.
//!
//! `progress` counts deliveries: a waiter that reads it before its own condition misses none of
//! them. An operation is counted before a reaper can find it. `brought` counts the operations that
//! a reaper can find, so that a reaper that found none knows when to look again.
//!
//! Where completions must be fetched, one thread at a time is the reaper. The role is part of this
//! state, so that a waiter wakes for a delivery and for a free role alike.

use rightlink_env::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering};

/// The count of operations in flight of one `Io`.
#[derive(Debug)]
pub(crate) struct Flight {
    depth: u32,
    state: Mutex<State>,
    /// Something was delivered, or the role of the reaper is free.
    changed: Waiters,
    /// The queue has room, or the role of the reaper is free.
    room: Waiters,
}

/// Threads that wait, counted, because waking nobody is a call of the system, too.
#[derive(Debug, Default)]
struct Waiters {
    /// Changes under the lock of the state only.
    count: AtomicU32,
    condition: Condvar,
}

impl Waiters {
    fn wait<'a>(&self, guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let guard = self.condition.wait(guard);
        self.count.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Wakes all of them; the caller holds the lock of the state.
    fn wake(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.condition.notify_all();
        }
    }
}

#[derive(Debug, Default)]
struct State {
    in_flight: u32,
    delivering: u32,
    reaping: bool,
    progress: u64,
    brought: u64,
    submits: u64,
    depth_sum: u64,
    depth_max: u32,
}

impl Flight {
    pub(crate) fn new(depth: u32) -> Flight {
        assert!(depth > 0, "at least one operation is in flight");
        Flight {
            depth,
            state: Mutex::default(),
            changed: Waiters::default(),
            room: Waiters::default(),
        }
    }

    /// The most operations in flight.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Counts an operation in, unless the queue is full.
    #[must_use]
    pub(crate) fn try_begin(&self) -> bool {
        let mut state = self.state.lock();
        if state.in_flight >= self.depth {
            return false;
        }
        state.count_in();
        true
    }

    /// Counts an operation in that is carried out at once by the thread that brings it.
    pub(crate) fn begin_inline(&self) {
        self.state.lock().count_in();
    }

    /// The device is done with an operation; its completion is about to be called.
    pub(crate) fn ended(&self) {
        let mut state = self.state.lock();
        assert!(state.in_flight > 0, "an operation ends once");
        state.in_flight -= 1;
        state.delivering += 1;
        self.room.wake();
    }

    /// The completion of an operation has returned.
    pub(crate) fn delivered(&self) {
        let mut state = self.state.lock();
        assert!(state.delivering > 0, "an operation is delivered once");
        state.delivering -= 1;
        state.progress += 1;
        self.changed.wake();
    }

    /// How many deliveries there were.
    pub(crate) fn progress(&self) -> u64 {
        self.state.lock().progress
    }

    /// Operations in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.state.lock().in_flight
    }

    /// An operation that was counted in can be found by reapers now.
    pub(crate) fn bring(&self) {
        let mut state = self.state.lock();
        state.brought += 1;
        self.changed.wake();
    }

    /// How many operations were brought to where reapers find them.
    pub(crate) fn brought(&self) -> u64 {
        self.state.lock().brought
    }

    /// As [`Flight::wait_past`], but not beyond the moment when an operation is brought while there
    /// were `brought`: then `None`.
    pub(crate) fn wait_past_or_brought(&self, seen: u64, brought: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while state.progress == seen && state.in_flight + state.delivering > 0 {
            if state.brought != brought {
                return None;
            }
            state = self.changed.wait(state);
        }
        Some(state.progress - seen)
    }

    /// Waits until there were more than `seen` deliveries, or there is nothing to wait for. Returns
    /// how many there were meanwhile.
    pub(crate) fn wait_past(&self, seen: u64) -> u64 {
        let mut state = self.state.lock();
        while state.progress == seen && state.in_flight + state.delivering > 0 {
            state = self.changed.wait(state);
        }
        state.progress - seen
    }

    /// Waits until the queue has room or a delivery happened after `seen`.
    pub(crate) fn wait_room(&self, seen: u64) {
        let mut state = self.state.lock();
        while state.progress == seen && state.in_flight >= self.depth {
            state = self.room.wait(state);
        }
    }

    /// Makes the caller the reaper: true. False if there were more than `seen` deliveries or
    /// nothing
    /// is in flight, or, without `wait`, if somebody else reaps. While others deliver, their
    /// deliveries are waited for, as they may be the very ones that the caller wants.
    #[must_use]
    pub(crate) fn become_reaper(&self, seen: u64, wait: bool) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.progress != seen || state.in_flight + state.delivering == 0 {
                return false;
            }
            if !state.reaping && (state.delivering == 0 || !wait) {
                state.reaping = true;
                return true;
            }
            if !wait {
                return false;
            }
            state = self.changed.wait(state);
        }
    }

    /// Makes the caller the reaper unless the queue has room: false then. Does not wait for
    /// deliveries, of which the caller may be one.
    #[must_use]
    pub(crate) fn become_reaper_for_room(&self) -> bool {
        let mut state = self.state.lock();
        while state.in_flight >= self.depth {
            if !state.reaping {
                state.reaping = true;
                return true;
            }
            state = self.room.wait(state);
        }
        false
    }

    /// The caller is the reaper no more, and is about to deliver `ended` operations.
    pub(crate) fn end_reaping(&self, ended: usize) {
        let ended = ended as u32;
        let mut state = self.state.lock();
        assert!(state.reaping && state.in_flight >= ended, "the reaper took what was in flight");
        state.reaping = false;
        state.in_flight -= ended;
        state.delivering += ended;
        self.changed.wake();
        self.room.wake();
    }

    /// Mean and greatest number of operations in flight, as each submit found it, itself included.
    pub(crate) fn depths(&self) -> (f64, u32) {
        let state = self.state.lock();
        (state.depth_sum as f64 / state.submits.max(1) as f64, state.depth_max)
    }
}

impl State {
    fn count_in(&mut self) {
        self.in_flight += 1;
        self.submits += 1;
        self.depth_sum += u64::from(self.in_flight);
        self.depth_max = self.depth_max.max(self.in_flight);
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod explored {
    //! The protocol of the reaper under a model checker: a kernel of this test's own finishes
    //! operations at any time, threads submit, wait and reap, and nobody may sleep for ever. The
    //! model reports a thread that is never woken as a deadlock.

    use super::*;
    use rightlink_env::sync::{Arc, AtomicU32, Ordering};
    use rightlink_env::thread;
    use std::collections::VecDeque;

    /// Finished operations, by the thread that waits for them.
    #[derive(Default)]
    struct Kernel {
        finished: Mutex<VecDeque<usize>>,
        changed: Condvar,
    }

    struct World {
        flight: Flight,
        kernel: Kernel,
        done: [AtomicU32; 3],
    }

    impl World {
        fn new(depth: u32) -> Arc<World> {
            let (flight, kernel) = (Flight::new(depth), Kernel::default());
            Arc::new(World { flight, kernel, done: Default::default() })
        }

        /// Starts an operation that a thread of its own finishes at some time.
        fn submit(self: &Arc<World>, whose: usize) {
            while !self.flight.try_begin() {
                while self.flight.become_reaper_for_room() {
                    self.reap_as_reaper();
                }
            }
            let world = Arc::clone(self);
            thread::spawn("kernel", move || {
                world.kernel.finished.lock().push_back(whose);
                world.kernel.changed.notify_all();
            });
        }

        /// As `Ring::collect`: sleeps in the kernel until it has finished something.
        fn reap_as_reaper(&self) -> usize {
            let mut finished = self.kernel.finished.lock();
            while finished.is_empty() && self.flight.in_flight() > 0 {
                finished = self.kernel.changed.wait(finished);
            }
            let batch: Vec<usize> = finished.drain(..).collect();
            drop(finished);
            self.flight.end_reaping(batch.len());
            for whose in &batch {
                self.done[*whose].fetch_add(1, Ordering::SeqCst);
                self.flight.delivered();
            }
            batch.len()
        }

        /// As `Io::wait_for`.
        fn wait_for(&self, whose: usize, count: u32) {
            loop {
                let seen = self.flight.progress();
                if self.done[whose].load(Ordering::SeqCst) == count {
                    return;
                }
                while self.flight.become_reaper(seen, true) {
                    if self.reap_as_reaper() > 0 {
                        break;
                    }
                }
            }
        }
    }

    fn three_threads(depth: u32) {
        let world = World::new(depth);
        let threads: Vec<_> = (0..3)
            .map(|whose| {
                let world = Arc::clone(&world);
                thread::spawn("waiter", move || {
                    for count in 1..=2 {
                        world.submit(whose);
                        world.wait_for(whose, count);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no waiter panics"));
        assert_eq!(world.flight.in_flight(), 0);
    }

    #[test]
    fn nobody_sleeps_for_ever() {
        shuttle::check_random(|| three_threads(8), 2_000);
        shuttle::check_pct(|| three_threads(8), 2_000, 3);
    }

    #[test]
    fn nobody_sleeps_for_ever_at_full_depth() {
        shuttle::check_random(|| three_threads(1), 2_000);
        shuttle::check_pct(|| three_threads(2), 2_000, 3);
    }
}
