//! Waits of background threads that have no work: for a time, until a wake-up, or at rest.
//!
//! Wake-ups are counted, and a thread remembers the count from before it looked for work. A wake-up
//! that comes while the thread is busy ends its next wait at once, and only that one. The flush
//! thread has no wake-ups, so that relaxed commits are gathered for the whole interval.
//!
//! A thread that has long found nothing rests: it announces that, looks once more, and then waits
//! for longer, until somebody writes. On some machines a wake-up costs a tenth of a millisecond,
//! because nothing of the thread is in a cache any more, so that an idle database has to have few.
//!
//! Invariants: a wake-up ends at most one wait. A write after the announcement of a rest is seen by
//! the look behind it, or ends the rest. After the shutdown no thread waits.
//! Does not do: the work; decide when it is due.

use std::time::Duration;

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};

/// Where background threads wait.
#[derive(Default)]
pub(crate) struct IdleWait {
    state: Mutex<State>,
    /// The upkeep thread, which can be woken.
    upkeep: Condvar,
    /// All other threads.
    others: Condvar,
    /// All threads at rest.
    resting: Condvar,
    /// Was a rest announced since the last write?
    is_announced: AtomicBool,
}

#[derive(Default)]
struct State {
    wakeups: u64,
    shut_down: bool,
}

/// The number of wake-ups when a thread looked for work. See [`IdleWait::wakeups`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wakeups(u64);

impl IdleWait {
    /// The wake-ups so far. A thread reads them before it looks for work.
    pub(crate) fn wakeups(&self) -> Wakeups {
        Wakeups(self.state.lock().wakeups)
    }

    /// As [`IdleWait::wakeups`], before the look of a thread that rests if it finds nothing.
    pub(crate) fn announce_rest(&self) -> Wakeups {
        // In this order: a write between the two is seen by the look.
        let seen = self.wakeups();
        self.is_announced.swap(true, Ordering::AcqRel);
        seen
    }

    /// Wakes the upkeep thread: there may be work that it has not seen.
    pub(crate) fn wake_upkeep(&self) {
        self.state.lock().wakeups += 1;
        self.upkeep.notify_all();
        self.resting.notify_all();
    }

    /// Ends all rests: the caller is about to write. One load if no thread rests.
    pub(crate) fn end_rests_before_write(&self) {
        if self.is_announced.load(Ordering::Relaxed) {
            self.end_rests();
        }
    }

    /// Ends all rests: the caller has written what a thread at rest must see.
    pub(crate) fn end_rests(&self) {
        // A swap even where nothing is announced: an announcement behind it sees the write.
        if self.is_announced.swap(false, Ordering::AcqRel) && !broken(Broken::RestNotEnded) {
            self.state.lock().wakeups += 1;
            self.resting.notify_all();
        }
    }

    /// Ends all waits, now and from here on.
    pub(crate) fn shut_down(&self) {
        self.state.lock().shut_down = true;
        self.upkeep.notify_all();
        self.others.notify_all();
        self.resting.notify_all();
    }

    /// Waits until there is a wake-up beyond those `seen`, but not longer than `limit`.
    pub(crate) fn for_wakeup(&self, seen: Wakeups, limit: Duration) {
        self.unless_woken(&self.upkeep, seen, limit);
    }

    /// Waits until somebody writes or there is a wake-up beyond those `seen`, but not longer than
    /// `limit`. Did the wait end so?
    pub(crate) fn at_rest(&self, seen: Wakeups, limit: Duration) -> bool {
        self.unless_woken(&self.resting, seen, limit)
    }

    fn unless_woken(&self, until: &Condvar, seen: Wakeups, limit: Duration) -> bool {
        let mut state = self.state.lock();
        if state.wakeups == seen.0 {
            state = wait(until, state, limit);
        }
        state.wakeups != seen.0
    }

    /// Waits for `limit`.
    pub(crate) fn for_time(&self, limit: Duration) {
        drop(wait(&self.others, self.state.lock(), limit));
    }
}

fn wait<'s>(
    until: &Condvar,
    state: MutexGuard<'s, State>,
    limit: Duration,
) -> MutexGuard<'s, State> {
    if state.shut_down { state } else { until.wait_timeout(state, limit).0 }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use rightlink_env::sync::Arc;
    use rightlink_env::{Clock, thread};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(60);
    /// Ends no wait in a test that passes.
    const LONG: Duration = Duration::from_secs(600);

    fn took(work: impl FnOnce()) -> Duration {
        let clock = Clock::system();
        let begun = clock.now();
        work();
        clock.now() - begun
    }

    /// A flag that only a waiting thread clears, set while all are busy, would end all later waits.
    #[test]
    fn a_wakeup_of_a_busy_thread_ends_one_wait() {
        let idle = IdleWait::default();
        let seen = idle.wakeups();
        idle.wake_upkeep();
        idle.wake_upkeep();
        idle.for_wakeup(seen, LONG);
        let seen = idle.wakeups();
        assert!(took(|| idle.for_wakeup(seen, LIMIT)) >= LIMIT);
    }

    /// The other threads wait for their whole time, however many wake-ups there are.
    #[test]
    fn only_the_upkeep_thread_is_woken() {
        let (idle, stop) = (Arc::new(IdleWait::default()), Arc::new(AtomicBool::new(false)));
        let (wakes, until) = (Arc::clone(&idle), Arc::clone(&stop));
        let waking = thread::spawn("wakes", move || {
            while !until.load(Ordering::Relaxed) {
                wakes.wake_upkeep();
                thread::yield_now();
            }
        });
        assert!(took(|| idle.for_time(LIMIT)) >= LIMIT);
        stop.store(true, Ordering::Relaxed);
        waking.join().unwrap();
    }

    /// Whenever the writer comes, before the look, between look and rest, or during the rest: the
    /// rest ends, or the look has seen the write.
    #[test]
    fn a_write_ends_a_rest() {
        for _ in 0..1_000 {
            let idle = Arc::new(IdleWait::default());
            let written = Arc::new(AtomicBool::new(false));
            let (theirs, sees) = (Arc::clone(&idle), Arc::clone(&written));
            let resting = thread::spawn("rests", move || {
                let seen = theirs.announce_rest();
                if !sees.load(Ordering::Relaxed) {
                    theirs.at_rest(seen, LONG);
                }
            });
            written.store(true, Ordering::Relaxed);
            idle.end_rests();
            resting.join().unwrap();
        }
    }

    /// One write ends the rests of all threads, and a later one finds nothing to end.
    #[test]
    fn a_rest_ends_by_a_write_once() {
        let idle = IdleWait::default();
        let (one, other) = (idle.announce_rest(), idle.announce_rest());
        idle.end_rests_before_write();
        assert!(idle.at_rest(one, LONG) && idle.at_rest(other, LONG));
        let seen = idle.wakeups();
        idle.end_rests();
        assert!(took(|| assert!(!idle.at_rest(seen, LIMIT))) >= LIMIT);
    }

    #[test]
    fn no_thread_waits_after_the_shutdown() {
        let idle = Arc::new(IdleWait::default());
        let waits: [fn(&IdleWait); 3] = [
            |idle| idle.for_wakeup(idle.wakeups(), LONG),
            |idle| _ = idle.at_rest(idle.announce_rest(), LONG),
            |idle| idle.for_time(LONG),
        ];
        let waiting = waits.map(|wait| {
            let idle = Arc::clone(&idle);
            thread::spawn("waits", move || wait(&idle))
        });
        idle.shut_down();
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        waits.iter().for_each(|wait| wait(&idle));
    }
}
