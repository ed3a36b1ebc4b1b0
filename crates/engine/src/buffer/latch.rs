//! The latch of a page: shared, exclusive, and an optimistic version (R11).
//!
//! One 32-bit word counts the holders of the latch. A 64-bit version beside it is a sequence lock:
//! odd while an exclusive holder stores, even otherwise, and larger after every change.
//!
//! Invariants:
//! - Taking or releasing a free latch is one atomic read-modify-write. A release touches the
//!   parking lot only if a thread waits.
//! - Every wait ends (R21). A late thread may overtake a woken waiter, but only twice: then the
//!   waiter reserves the latch (`HANDOFF`). A writer that waits for readers reserves at once,
//!   because overlapping readers might never leave a gap.
//! - A panic between the stores of an exclusive holder breaks the latch for ever, so no thread
//!   reads a page that is half changed (R19).
//!
//! Does not do: deadlock detection (R12 orders latches), recursion, time limits.

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{
    AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence, spin_hint,
};

const EXCLUSIVE: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
const HANDOFF: u32 = 1 << 29;
const BROKEN: u32 = 1 << 28;
const COUNT: u32 = BROKEN - 1;
/// Looks at a busy latch before its waiter parks.
const SPINS: u32 = if cfg!(feature = "shuttle") { 0 } else { 60 };
/// Wake-ups after which a waiter no longer lets others overtake it.
const MAX_OVERTAKEN: u32 = 2;

/// How a latch is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Together with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// Where waiters sleep; many latches share one.
#[derive(Debug, Default)]
pub(super) struct Parking {
    lock: Mutex<()>,
    woken: Condvar,
    /// Waits of threads that slept here for a latch.
    waits: AtomicU64,
}

impl Parking {
    /// How often a thread slept here for a latch.
    pub(super) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Sleeps while `held`. `announce` is called first, so that the thread that ends the wait sees
    /// the announcement and calls [`Parking::wake`] (R21).
    pub(super) fn sleep_while(&self, announce: impl FnOnce(), held: impl Fn() -> bool) {
        let mut guard = self.lock.lock();
        announce();
        while held() {
            guard = self.woken.wait(guard);
        }
    }

    /// Wakes all sleepers, so that each checks its condition again (R21).
    pub(super) fn wake(&self) {
        // A thread that checked its condition before this lock sleeps by now. The lock is free
        // again before the sleepers wake, since each of them needs it.
        drop(self.lock.lock());
        self.woken.notify_all();
    }
}

/// The latch of one frame.
#[derive(Debug, Default)]
pub(super) struct Latch {
    word: AtomicU32,
    version: AtomicU64,
}

impl Latch {
    /// Takes the latch if that needs no waiting.
    #[inline]
    pub(super) fn try_take(&self, mode: Mode) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(taken) = taken(word, mode, false) {
            let swap = Ordering::Acquire;
            match self.word.compare_exchange_weak(word, taken, swap, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the latch.
    #[inline]
    pub(super) fn take(&self, mode: Mode, parking: &Parking) {
        if !self.try_take(mode) {
            self.take_slowly(mode, parking);
        }
    }

    #[cold]
    fn take_slowly(&self, mode: Mode, parking: &Parking) {
        for _ in 0..SPINS {
            spin_hint();
            if self.try_take(mode) {
                return;
            }
        }
        let mut waiter = Waiter { mode, failures: 0, owns_handoff: false };
        let mut guard = parking.lock.lock();
        while !self.take_or_announce(&mut waiter, parking) {
            if waiter.failures == 0 {
                parking.waits.fetch_add(1, Ordering::Relaxed);
            }
            guard = self.park(guard, parking);
            waiter.failures += 1;
        }
    }

    fn park<'a>(&self, guard: MutexGuard<'a, ()>, parking: &'a Parking) -> MutexGuard<'a, ()> {
        parking.woken.wait(guard)
    }

    /// Under the parking lock: takes the latch, or sets `WAITING`, so that its release wakes
    /// waiters.
    fn take_or_announce(&self, waiter: &mut Waiter, parking: &Parking) -> bool {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            assert!(word & BROKEN == 0, "a page that a panic left half changed is never read");
            let (next, done) = match taken(word, waiter.mode, waiter.owns_handoff) {
                Some(next) => (next, true),
                None => (word | WAITING | waiter.claim(word), false),
            };
            let swapped =
                self.word.compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed);
            if swapped.is_err() {
                continue;
            }
            waiter.owns_handoff |= !done && word & HANDOFF == 0 && next & HANDOFF != 0;
            if done && waiter.owns_handoff && next & WAITING != 0 {
                // Readers may join the one that had reserved the latch.
                self.word.fetch_and(!WAITING, Ordering::Relaxed);
                parking.woken.notify_all();
            }
            return done;
        }
    }

    /// Releases the latch, and wakes waiters (R21).
    #[inline]
    pub(super) fn release(&self, mode: Mode, parking: &Parking) {
        let before = match mode {
            Mode::Shared => self.word.fetch_sub(1, Ordering::Release),
            Mode::Exclusive => self.word.fetch_and(!EXCLUSIVE, Ordering::Release),
        };
        let held = if mode == Mode::Shared { before & COUNT == 1 } else { before & EXCLUSIVE != 0 };
        debug_assert!(before & (COUNT | EXCLUSIVE) != 0, "only a held latch is released");
        if before & WAITING != 0 && held && !broken(Broken::LatchWakeupLost) {
            self.wake(parking);
        }
    }

    #[cold]
    fn wake(&self, parking: &Parking) {
        let guard = parking.lock.lock();
        self.word.fetch_and(!WAITING, Ordering::Relaxed);
        // The woken threads need the lock.
        drop(guard);
        parking.woken.notify_all();
    }

    /// The exclusive holder panicked between its stores: no thread takes this latch again (R19).
    pub(super) fn break_for_ever(&self, parking: &Parking) {
        let before = self.word.fetch_or(BROKEN, Ordering::Release);
        assert!(before & EXCLUSIVE != 0, "only the exclusive holder breaks a latch");
        self.wake(parking);
    }

    /// Has a panic broken this latch?
    pub(super) fn is_broken(&self) -> bool {
        self.word.load(Ordering::Relaxed) & BROKEN != 0
    }

    /// The version: even and stable under a latch, odd while a holder stores.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The exclusive holder is about to store for the first time.
    pub(super) fn begin_change(&self) {
        let version = self.version.load(Ordering::Relaxed);
        assert!(version.is_multiple_of(2), "a change begins once");
        self.version.store(version + 1, Ordering::Relaxed);
        // Readers that see one of the stores see the odd version at their validation.
        fence(Ordering::Release);
    }

    /// The exclusive holder has made its last store.
    pub(super) fn end_change(&self) {
        let version = self.version.load(Ordering::Relaxed);
        assert!(!version.is_multiple_of(2), "a change ends once");
        self.version.store(version + 1, Ordering::Release);
    }

    /// Gives a frame that no thread can see yet a version of its own.
    pub(super) fn set_version(&self, version: u64) {
        debug_assert!(version.is_multiple_of(2), "a fresh page is not being changed");
        self.version.store(version, Ordering::Release);
    }

    /// Is everything loaded since `version` was read from one state of the page (R11)?
    #[inline]
    pub(super) fn validate(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }
}

struct Waiter {
    mode: Mode,
    failures: u32,
    owns_handoff: bool,
}

impl Waiter {
    /// The reservation, if it is due and no waiter has it.
    fn claim(&self, word: u32) -> u32 {
        let readers_in_the_way = self.mode == Mode::Exclusive && word & COUNT != 0;
        let due = self.failures >= MAX_OVERTAKEN || readers_in_the_way;
        if due && word & HANDOFF == 0 { HANDOFF } else { 0 }
    }
}

/// The word after `mode` has been taken, if `word` lets it be.
#[inline]
fn taken(word: u32, mode: Mode, owns_handoff: bool) -> Option<u32> {
    if word & (EXCLUSIVE | BROKEN) != 0 || (word & HANDOFF != 0 && !owns_handoff) {
        return None;
    }
    match mode {
        Mode::Shared => Some((word & !HANDOFF) + 1),
        Mode::Exclusive if word & COUNT == 0 || broken(Broken::ExclusiveLatchBesideReaders) => {
            Some((word & !HANDOFF) | EXCLUSIVE)
        }
        Mode::Exclusive => None,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rightlink_env::sync::{Arc, AtomicBool};
    use rightlink_env::thread;

    #[test]
    fn modes_exclude_each_other() {
        let latch = Latch::default();
        let parking = Parking::default();
        assert!(latch.try_take(Mode::Shared) && latch.try_take(Mode::Shared));
        assert!(!latch.try_take(Mode::Exclusive));
        latch.release(Mode::Shared, &parking);
        latch.release(Mode::Shared, &parking);
        assert!(latch.try_take(Mode::Exclusive));
        assert!(!latch.try_take(Mode::Shared) && !latch.try_take(Mode::Exclusive));
        latch.begin_change();
        assert_eq!(latch.version(), 1);
        latch.end_change();
        latch.release(Mode::Exclusive, &parking);
        assert!(latch.validate(2) && !latch.validate(0));
    }

    /// Readers that overlap without a gap cannot keep a writer out.
    #[test]
    fn a_writer_gets_in_between_overlapping_readers() {
        let shared = Arc::new((Latch::default(), Parking::default(), AtomicBool::new(false)));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn("reader", move || {
                    while !shared.2.load(Ordering::Relaxed) {
                        shared.0.take(Mode::Shared, &shared.1);
                        thread::yield_now();
                        shared.0.release(Mode::Shared, &shared.1);
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            shared.0.take(Mode::Exclusive, &shared.1);
            shared.0.begin_change();
            shared.0.end_change();
            shared.0.release(Mode::Exclusive, &shared.1);
        }
        shared.2.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(shared.0.version(), 400);
        assert_eq!(shared.0.word.load(Ordering::Relaxed) & (COUNT | EXCLUSIVE | HANDOFF), 0);
    }
}
