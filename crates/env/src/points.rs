//! Named injection points. Code calls [`hit`] where a rare interleaving, fault or crash would be
//! interesting; a test installs a hook that counts, yields, waits or panics there. Without a hook a
//! point costs one relaxed load.
//!
//! The same module holds the switches that break one rule of the engine each: [`broken`] is asked
//! at the one line that implements the rule, and a test shows with `break_rule` that it catches
//! the variant. Without the feature `testing` the answer is a constant.
//!
//! A hook is global or belongs to its thread, so that simulations on several test threads
//! do not disturb each other. The registry is plain std on purpose: it outlives the runs of a model
//! checker, whose own primitives may not. No lock is held while a hook runs.
#![expect(clippy::disallowed_types, reason = "state that must outlive one run of the model")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a test does at a point; it gets the point's name.
pub type Hook = Arc<dyn Fn(&'static str) + Send + Sync>;

/// How many hooks and counters are installed anywhere; zero lets [`hit`] return at once.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { counts: BTreeMap::new(), counters: 0, hooks: Vec::new(), next: 0 });

thread_local! {
    static LOCAL: RefCell<Vec<Hook>> = const { RefCell::new(Vec::new()) };
    /// A hook that itself reaches a point must not be called again for it.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

struct Registry {
    counts: BTreeMap<&'static str, u64>,
    counters: usize,
    hooks: Vec<(u64, Hook)>,
    next: u64,
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes the point called `name`, such as `"wal.flush.before-sync"`.
#[inline]
pub fn hit(name: &'static str) {
    if ACTIVE.load(Ordering::Relaxed) != 0 {
        hit_slowly(name);
    }
}

#[cold]
fn hit_slowly(name: &'static str) {
    let mut hooks = note_and_collect(name);
    hooks.extend(LOCAL.with_borrow(|local| local.clone()));
    if hooks.is_empty() || RUNNING.replace(true) {
        return;
    }
    let _running = Running;
    hooks.iter().for_each(|hook| hook(name));
}

/// Counts the hit and returns the global hooks.
fn note_and_collect(name: &'static str) -> Vec<Hook> {
    let mut registry = registry();
    if registry.counters > 0 {
        *registry.counts.entry(name).or_insert(0) += 1;
    }
    registry.hooks.iter().map(|(_, hook)| Arc::clone(hook)).collect()
}

/// Clears the mark even when a hook panics to end a simulated run.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(false);
    }
}

/// Calls `hook` at every point on every thread until the answer is dropped.
#[must_use]
pub fn install(hook: impl Fn(&'static str) + Send + Sync + 'static) -> Installed {
    let mut registry = registry();
    let id = registry.next;
    registry.next += 1;
    registry.hooks.push((id, Arc::new(hook)));
    ACTIVE.fetch_add(1, Ordering::Relaxed);
    Installed { id }
}

/// A global hook; dropping removes it.
#[derive(Debug)]
pub struct Installed {
    id: u64,
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut registry = registry();
        let before = registry.hooks.len();
        registry.hooks.retain(|(id, _)| *id != self.id);
        assert_eq!(registry.hooks.len() + 1, before, "a hook is removed once");
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls `hook` at every point that this thread passes, until the answer is dropped. Nested hooks
/// are dropped in reverse order.
#[must_use]
pub fn install_local(hook: impl Fn(&'static str) + Send + Sync + 'static) -> InstalledLocal {
    LOCAL.with_borrow_mut(|local| local.push(Arc::new(hook)));
    ACTIVE.fetch_add(1, Ordering::Relaxed);
    InstalledLocal { not_send: PhantomData }
}

/// A hook of one thread; dropping removes it.
#[derive(Debug)]
pub struct InstalledLocal {
    not_send: PhantomData<*const ()>,
}

impl Drop for InstalledLocal {
    fn drop(&mut self) {
        let removed = LOCAL.with_borrow_mut(Vec::pop);
        assert!(removed.is_some(), "a hook is removed once");
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The hooks of this thread, for one that runs in its place while it waits.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn local_hooks() -> Vec<Hook> {
    LOCAL.with_borrow(|local| local.clone())
}

/// Takes over the hooks of the thread in whose place this one runs until it ends.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn run_in_place_of(hooks: Vec<Hook>) {
    LOCAL.with_borrow_mut(|local| *local = hooks);
}

/// Counts hits until the answer is dropped; the counts themselves stay.
#[must_use]
pub fn count() -> Counting {
    registry().counters += 1;
    ACTIVE.fetch_add(1, Ordering::Relaxed);
    Counting { private: () }
}

/// Hits are being counted; dropping stops it.
#[derive(Debug)]
pub struct Counting {
    private: (),
}

impl Drop for Counting {
    fn drop(&mut self) {
        let () = self.private;
        registry().counters -= 1;
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often each point was passed while hits were counted.
pub fn counts() -> BTreeMap<&'static str, u64> {
    registry().counts.clone()
}

/// Is this line to be broken here and now? Always false without the feature `testing`.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn broken(_line: crate::Broken) -> bool {
    false
}

#[cfg(feature = "testing")]
pub use switches::{BrokenRule, break_rule, broken, caught};

/// Which rule is broken on this thread; threads inherit it from the one that starts them.
#[cfg(feature = "testing")]
pub(crate) mod switches {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use crate::Broken;

    thread_local! {
        static RULE: Cell<Option<Broken>> = const { Cell::new(None) };
        static ASKED: Cell<u64> = const { Cell::new(0) };
    }

    /// Is this line to be broken here and now?
    #[inline]
    pub fn broken(line: Broken) -> bool {
        let is = RULE.get() == Some(line);
        ASKED.set(ASKED.get() + u64::from(is));
        is
    }

    /// Breaks a rule at one line on this thread, and on threads that it starts, until the
    /// answer is dropped.
    ///
    /// # Panics
    /// If a rule is broken already: what a test caught would have two possible reasons.
    #[must_use]
    pub fn break_rule(line: Broken) -> BrokenRule {
        assert!(RULE.get().is_none(), "one rule is broken at a time");
        RULE.set(Some(line));
        ASKED.set(0);
        BrokenRule { not_send: PhantomData }
    }

    /// Which of `checks`, run one after the other while `line` is broken, is the first to panic.
    pub fn caught(line: Broken, checks: &[(&'static str, fn())]) -> Option<&'static str> {
        let _broken = break_rule(line);
        let panics = |(_, check): &&(&str, fn())| std::panic::catch_unwind(check).is_err();
        checks.iter().find(panics).map(|(check, _)| *check)
    }

    /// The rule broken on this thread, for one that it starts.
    #[cfg_attr(feature = "shuttle", expect(dead_code, reason = "all threads are one there"))]
    pub(crate) fn current() -> Option<Broken> {
        RULE.get()
    }

    /// What a thread that starts takes over.
    #[cfg_attr(feature = "shuttle", expect(dead_code, reason = "all threads are one there"))]
    pub(crate) fn inherit(line: Option<Broken>) {
        RULE.set(line);
    }

    /// A rule is broken; dropping mends it.
    #[derive(Debug)]
    pub struct BrokenRule {
        not_send: PhantomData<*const ()>,
    }

    impl BrokenRule {
        /// How often this thread came to the line that implements the rule.
        pub fn asked(&self) -> u64 {
            ASKED.get()
        }
    }

    impl Drop for BrokenRule {
        fn drop(&mut self) {
            assert!(RULE.take().is_some(), "a rule is mended once");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(feature = "testing", not(feature = "shuttle")))]
    use crate::Broken;

    #[test]
    #[cfg(all(feature = "testing", not(feature = "shuttle")))]
    fn a_rule_is_broken_where_and_as_long_as_asked() {
        let [one, other] = [Broken::ALL[0], Broken::ALL[1]];
        assert!(!broken(one));
        let rule = break_rule(one);
        assert!(broken(one) && !broken(other) && rule.asked() == 1);
        let started = crate::thread::spawn("inherits", move || broken(one));
        assert_eq!(started.join(), Ok(true));
        drop(rule);
        assert!(!broken(one));
    }

    #[test]
    fn hooks_and_counts() {
        hit("test.before");
        let counting = count();
        let seen = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&seen);
        let local = install_local(move |name| {
            assert!(name.starts_with("test."));
            theirs.fetch_add(1, Ordering::Relaxed);
            hit("test.nested");
        });
        hit("test.point");
        hit("test.point");
        drop(local);
        hit("test.point");
        drop(counting);
        hit("test.after");
        assert_eq!(seen.load(Ordering::Relaxed), 2);
        let counts = counts();
        assert_eq!(counts.get("test.point"), Some(&3));
        assert_eq!(counts.get("test.nested"), Some(&2));
        assert!(!counts.contains_key("test.before") && !counts.contains_key("test.after"));
    }

    #[test]
    fn a_panicking_hook_can_be_removed() {
        let global = install(|name| assert_ne!(name, "test.crash", "on purpose"));
        assert!(std::panic::catch_unwind(|| hit("test.crash")).is_err());
        hit("test.other");
        drop(global);
        hit("test.crash");
    }
}
