//! Locks and atomics. This is the only file that names the primitives themselves; with the feature
//! `shuttle` the same names stand for the model checker's, so that every schedule of a latch or a
//! queue can be explored without a change to its code.
//!
//! Poison is ignored: a thread that panics while shared state is half-changed is the engine's
//! problem, and the engine poisons the whole instance, which one lock could not do.
//! Under the model `wait_timeout` never times out, and reference counts are std's own.
#![cfg_attr(
    not(feature = "shuttle"),
    expect(clippy::disallowed_types, reason = "the one place that names the primitives")
)]

#[cfg(not(feature = "shuttle"))]
use std::sync as imp;

#[cfg(feature = "shuttle")]
use shuttle::sync as imp;

use std::time::Duration;

use crate::locks;

pub use imp::atomic::fence;
pub use std::sync::atomic::Ordering;
pub use std::sync::{Arc, OnceLock, Weak};

/// A boolean that threads share.
pub type AtomicBool = imp::atomic::AtomicBool;
/// An 8-bit integer that threads share.
pub type AtomicU8 = imp::atomic::AtomicU8;
/// A 16-bit integer that threads share.
pub type AtomicU16 = imp::atomic::AtomicU16;
/// A 32-bit integer that threads share.
pub type AtomicU32 = imp::atomic::AtomicU32;
/// A 64-bit integer that threads share.
pub type AtomicU64 = imp::atomic::AtomicU64;
/// A signed 64-bit integer that threads share.
pub type AtomicI64 = imp::atomic::AtomicI64;
/// A pointer-sized integer that threads share.
pub type AtomicUsize = imp::atomic::AtomicUsize;
/// A pointer that threads share.
pub type AtomicPtr<T> = imp::atomic::AtomicPtr<T>;
/// Access to what a [`Mutex`] guards.
pub type MutexGuard<'a, T> = imp::MutexGuard<'a, T>;
/// Shared access to what a [`RwLock`] guards.
pub type RwLockReadGuard<'a, T> = imp::RwLockReadGuard<'a, T>;
/// Exclusive access to what a [`RwLock`] guards.
pub type RwLockWriteGuard<'a, T> = imp::RwLockWriteGuard<'a, T>;

/// Tells the processor (or the model) that this thread spins.
#[inline]
pub fn spin_hint() {
    #[cfg(not(feature = "shuttle"))]
    std::hint::spin_loop();
    #[cfg(feature = "shuttle")]
    shuttle::hint::spin_loop();
}

/// Mutual exclusion without poison.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(imp::Mutex::new(value))
    }

    /// The value, taken out.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(imp::PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        locks::assert_allowed();
        self.0.lock().unwrap_or_else(imp::PoisonError::into_inner)
    }

    /// The lock, if nobody holds it now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(imp::TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
            Err(imp::TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking: the exclusive reference proves that nobody else is here.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(imp::PoisonError::into_inner)
    }
}

/// Many readers or one writer, without poison.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(imp::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(imp::RwLock::new(value))
    }

    /// The value, taken out.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(imp::PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        locks::assert_allowed();
        self.0.read().unwrap_or_else(imp::PoisonError::into_inner)
    }

    /// Waits for exclusive access.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        locks::assert_allowed();
        self.0.write().unwrap_or_else(imp::PoisonError::into_inner)
    }

    /// Shared access, if it can be had now.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(guard) => Some(guard),
            Err(imp::TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
            Err(imp::TryLockError::WouldBlock) => None,
        }
    }

    /// Exclusive access, if it can be had now.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.0.try_write() {
            Ok(guard) => Some(guard),
            Err(imp::TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
            Err(imp::TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking: the exclusive reference proves that nobody else is here.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(imp::PoisonError::into_inner)
    }
}

/// A condition that threads wait for, together with a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A condition nobody waits for.
    pub const fn new() -> Condvar {
        Condvar(imp::Condvar::new())
    }

    /// Lets the lock go, waits for a notification, takes the lock again. May wake for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(imp::PoisonError::into_inner)
    }

    /// Like [`Condvar::wait`], but not longer than `limit`; the flag says that the limit passed.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard, limit);
        let (guard, result) = waited.unwrap_or_else(imp::PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Mutual exclusion in the order of arrival: for locks that are held as long as a device takes,
/// over and over by one thread. A [`Mutex`] that is let go is usually taken again by whoever runs,
/// and a thread that waits for it may come last a hundred times in a row.
#[derive(Debug, Default)]
pub struct FairMutex<T> {
    turns: Mutex<Turns>,
    over: Condvar,
    value: Mutex<T>,
}

/// Numbers of those who came and of those who are through.
#[derive(Debug, Default)]
struct Turns {
    came: u64,
    left: u64,
}

/// Access to what a [`FairMutex`] guards.
#[derive(Debug)]
pub struct FairGuard<'a, T> {
    /// `None` only while it is dropped.
    value: Option<MutexGuard<'a, T>>,
    lock: &'a FairMutex<T>,
}

impl<T> FairMutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> FairMutex<T> {
        let turns = Mutex::new(Turns { came: 0, left: 0 });
        FairMutex { turns, over: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for the lock behind those who wait already.
    pub fn lock(&self) -> FairGuard<'_, T> {
        let mut turns = self.turns.lock();
        let number = turns.came;
        turns.came += 1;
        while turns.left != number {
            turns = self.over.wait(turns);
        }
        drop(turns);
        FairGuard { value: Some(self.value.lock()), lock: self }
    }

    /// The lock, if nobody holds it or waits for it now.
    pub fn try_lock(&self) -> Option<FairGuard<'_, T>> {
        let mut turns = self.turns.lock();
        if turns.came != turns.left {
            return None;
        }
        turns.came += 1;
        drop(turns);
        Some(FairGuard { value: Some(self.value.lock()), lock: self })
    }
}

impl<T> std::ops::Deref for FairGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the guard is dropped")
    }
}

impl<T> std::ops::DerefMut for FairGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the guard is dropped")
    }
}

impl<T> Drop for FairGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.value.take());
        self.lock.turns.lock().left += 1;
        self.lock.over.notify_all();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn a_panicking_holder_does_not_poison() {
        let shared = Arc::new(Mutex::new(1));
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn("panics", move || {
            let mut guard = theirs.lock();
            *guard = 2;
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(*shared.lock(), 2);
    }

    #[test]
    fn try_variants_refuse_while_held() {
        let mutex = Mutex::new(());
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
        assert!(mutex.try_lock().is_some());
        let lock = RwLock::new(());
        let reader = lock.read();
        assert!(lock.try_read().is_some());
        assert!(lock.try_write().is_none());
        drop(reader);
        let writer = lock.write();
        assert!(lock.try_read().is_none());
        drop(writer);
    }

    #[test]
    fn a_fair_mutex_is_taken_in_turn() {
        const THREADS: u64 = 4;
        let lock = Arc::new(FairMutex::new(Vec::new()));
        let mut held = lock.lock();
        assert!(lock.try_lock().is_none());
        // One after the other gets in line; each comes back at once, behind the others.
        let threads: Vec<_> = (0..THREADS)
            .map(|at| {
                let theirs = Arc::clone(&lock);
                let thread = thread::spawn("waits", move || {
                    for _ in 0..3 {
                        theirs.lock().push(at);
                    }
                });
                while lock.turns.lock().came < at + 2 {
                    thread::yield_now();
                }
                thread
            })
            .collect();
        held.push(THREADS);
        drop(held);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let order = lock.lock().clone();
        assert_eq!(order[..=THREADS as usize], [4, 0, 1, 2, 3]);
        assert_eq!(order.len(), 13);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_panic_ends_the_turn() {
        let lock = Arc::new(FairMutex::new(1));
        let theirs = Arc::clone(&lock);
        let thread = thread::spawn("panics", move || {
            *theirs.lock() = 2;
            let _held = theirs.lock();
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn condvar_wakes_and_times_out() {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn("sets", move || {
            *theirs.0.lock() = true;
            theirs.1.notify_all();
        });
        let mut ready = shared.0.lock();
        while !*ready {
            ready = shared.1.wait(ready);
        }
        let (_ready, timed_out) = shared.1.wait_timeout(ready, Duration::from_millis(1));
        assert!(timed_out);
        thread.join().unwrap();
    }
}
