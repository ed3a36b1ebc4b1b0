//! Waits of background threads that have no work: for a time, or until a wake-up.
//!
//! Wake-ups are counted, and a thread remembers the count from before it looked for work. A wake-up
//! that comes while the thread is busy ends its next wait at once, and only that one. The flush
//! thread has no wake-ups, so that relaxed commits are gathered for the whole interval.
//!
//! Invariants: a wake-up ends at most one wait. After the shutdown no thread waits.
//! Does not do: the work; decide when it is due.

use std::time::Duration;

use rightlink_env::sync::{Condvar, Mutex, MutexGuard};

/// Where background threads wait.
#[derive(Default)]
pub(crate) struct IdleWait {
    state: Mutex<State>,
    /// The upkeep thread, which can be woken.
    upkeep: Condvar,
    /// All other threads.
    others: Condvar,
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

    /// Wakes the upkeep thread: there may be work that it has not seen.
    pub(crate) fn wake_upkeep(&self) {
        self.state.lock().wakeups += 1;
        self.upkeep.notify_all();
    }

    /// Ends all waits, now and from here on.
    pub(crate) fn shut_down(&self) {
        self.state.lock().shut_down = true;
        self.upkeep.notify_all();
        self.others.notify_all();
    }

    /// Waits until there is a wake-up beyond those `seen`, but not longer than `limit`.
    pub(crate) fn for_wakeup(&self, seen: Wakeups, limit: Duration) {
        let state = self.state.lock();
        if state.wakeups == seen.0 {
            wait(&self.upkeep, state, limit);
        }
    }

    /// Waits for `limit`.
    pub(crate) fn for_time(&self, limit: Duration) {
        wait(&self.others, self.state.lock(), limit);
    }
}

fn wait(until: &Condvar, state: MutexGuard<'_, State>, limit: Duration) {
    if !state.shut_down {
        drop(until.wait_timeout(state, limit));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use rightlink_env::sync::{Arc, AtomicBool, Ordering};
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

    #[test]
    fn no_thread_waits_after_the_shutdown() {
        let idle = Arc::new(IdleWait::default());
        let (woken, timed) = (Arc::clone(&idle), Arc::clone(&idle));
        let woken = thread::spawn("woken", move || woken.for_wakeup(woken.wakeups(), LONG));
        let timed = thread::spawn("timed", move || timed.for_time(LONG));
        idle.shut_down();
        woken.join().unwrap();
        timed.join().unwrap();
        idle.for_wakeup(idle.wakeups(), LONG);
        idle.for_time(LONG);
    }
}
