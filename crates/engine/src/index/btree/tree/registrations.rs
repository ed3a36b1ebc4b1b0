//! Registered operations, which delay the reuse of pages that left the tree (R6).
//!
//! Each operation that follows links holds the number of the moment it began. A page freed under a
//! number below the oldest registration can be known to no operation under way.
//!
//! Invariants: registering never waits: an operation may register while it is registered, and an
//! operation that finds no slot goes on a list. A slot is claimed with a moment not later than the
//! first page read.
//! Does not do: hand out pages (`free_pages`).

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicU64, Mutex, Ordering};

/// How many operations register without contention.
const SLOTS: usize = if cfg!(feature = "shuttle") { 4 } else { 32 };

/// Operations under way (R6). Each holds the number of the moment it began.
///
/// An operation may register while it is registered, and reads pages meanwhile. So registering
/// never waits for a slot: an operation that finds none goes on a list.
pub(crate) struct Registrations {
    /// Moments so far; 0 in a slot means that it is unused.
    now: AtomicU64,
    slots: [Slot; SLOTS],
    /// Moments of operations that found no slot.
    overflow: Mutex<Vec<u64>>,
}

#[repr(align(64))]
struct Slot(AtomicU64);

impl Default for Registrations {
    fn default() -> Self {
        let slots = std::array::from_fn(|_| Slot(AtomicU64::new(0)));
        Self { now: AtomicU64::new(1), slots, overflow: Mutex::default() }
    }
}

/// A registered operation. It ends when this is dropped.
pub(crate) struct Registration<'a>(RegisteredIn<'a>);

/// Where an operation is registered.
enum RegisteredIn<'a> {
    Slot(&'a AtomicU64),
    /// In the overflow list, with this number.
    Overflow(&'a Mutex<Vec<u64>>, u64),
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        match self.0 {
            RegisteredIn::Slot(slot) => slot.store(0, Ordering::Release),
            RegisteredIn::Overflow(overflow, began) => leave_overflow(overflow, began),
        }
    }
}

#[cold]
fn leave_overflow(overflow: &Mutex<Vec<u64>>, began: u64) {
    let mut overflow = overflow.lock();
    // Equal numbers are interchangeable.
    let at = overflow.iter().position(|at| *at == began);
    overflow.swap_remove(at.expect("each is on the list until it ends"));
}

thread_local! {
    static HOME: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Registrations {
    /// Registers an operation, without waiting.
    pub(crate) fn register(&self) -> Registration<'_> {
        let home = HOME.get();
        for at in home..home + SLOTS {
            let slot = &self.slots[at % SLOTS].0;
            // Only a slot that looks unused is written to: another thread may use the cache line.
            if at != home && slot.load(Ordering::Relaxed) != 0 {
                continue;
            }
            // The slot is claimed with a moment not later than the first page read.
            let now = self.now.load(Ordering::SeqCst);
            if slot.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                HOME.set(at % SLOTS);
                return Registration(RegisteredIn::Slot(slot));
            }
        }
        self.register_overflow()
    }

    #[cold]
    fn register_overflow(&self) -> Registration<'_> {
        let mut overflow = self.overflow.lock();
        // Read under the lock. A thread that computes the oldest moment either finds this one in
        // the list, or had the lock before; its pages had left the tree by then.
        let now = self.now.load(Ordering::SeqCst);
        overflow.push(now);
        Registration(RegisteredIn::Overflow(&self.overflow, now))
    }

    /// Ends a moment and returns its number. Operations that begin from now on have a later one.
    pub(crate) fn advance(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    /// No operation can know a page that was freed under a number below this. This holds for pages
    /// that were freed before the call.
    pub(crate) fn oldest(&self) -> u64 {
        let now = self.now.load(Ordering::SeqCst);
        let slots = self.slots.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        let oldest = slots.filter(|at| *at != 0).fold(now, u64::min);
        match broken(Broken::LateRegistrationsIgnored) {
            true => oldest,
            false => self.overflow.lock().iter().copied().fold(oldest, u64::min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_waits_for_the_descents_that_could_know_it() {
        let registrations = Registrations::default();
        let early = registrations.register();
        let freed = registrations.advance();
        let overflow = registrations.register();
        assert!(freed >= registrations.oldest(), "the early descent may still arrive there");
        drop(early);
        assert!(
            freed < registrations.oldest(),
            "the late one began after the page had left the tree"
        );
        drop(overflow);
        assert!(freed < registrations.oldest());
    }

    /// More than there are slots, on one thread: operations register within each other.
    #[test]
    fn nobody_waits_for_a_slot() {
        let registrations = Registrations::default();
        let mut entered: Vec<_> = (0..SLOTS).map(|_| registrations.register()).collect();
        registrations.advance();
        let beyond = registrations.register();
        let freed = registrations.advance();
        entered.extend((0..7).map(|_| registrations.register()));
        assert!(registrations.oldest() < freed, "the first ones were there");
        entered.drain(..SLOTS);
        assert_eq!(registrations.oldest(), freed, "the one beyond the slots still is");
        drop(beyond);
        assert!(freed < registrations.oldest(), "those that are left came afterwards");
        drop(entered);
        assert!(freed < registrations.oldest());
    }
}
