//! Threads, std's or the model's. Only `db/` of the engine, its large statements for as long as
//! they run, and the workers of aio start one; everything else offers `step()` functions. Under the
//! model `sleep` is a yield.

#[cfg(not(feature = "shuttle"))]
use std::thread as imp;

#[cfg(feature = "shuttle")]
use shuttle::thread as imp;

use std::any::Any;
use std::fmt;
use std::time::Duration;

/// Names one thread for as long as it lives.
pub type ThreadId = imp::ThreadId;

/// A thread that panicked: the message it panicked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(pub String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

/// A started thread. Dropping the handle lets the thread run on.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: imp::JoinHandle<T>,
}

impl<T> JoinHandle<T> {
    /// Waits for the thread to end.
    pub fn join(self) -> Result<T, Panicked> {
        self.inner.join().map_err(|payload| Panicked(panic_message(payload.as_ref())))
    }

    /// Which thread this is.
    pub fn id(&self) -> ThreadId {
        self.inner.thread().id()
    }
}

/// The text of a panic that was caught, if it has one.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

/// Starts a thread called `name`.
///
/// # Panics
/// If the system refuses a thread; a caller that can live without one uses [`try_spawn`].
pub fn spawn<F, T>(name: &str, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    try_spawn(name, f).expect("the system starts a thread")
}

/// Starts a thread called `name`, or says why the system refused.
pub fn try_spawn<F, T>(name: &str, f: F) -> Result<JoinHandle<T>, std::io::Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    assert!(!name.is_empty() && !name.contains('\0'), "a thread has a name");
    let inner = imp::Builder::new().name(name.to_string()).spawn(inheriting(f))?;
    Ok(JoinHandle { inner })
}

/// As [`try_spawn`], with a stack of `bytes`.
#[cfg(not(feature = "shuttle"))]
pub fn try_spawn_with_stack<F, T>(
    name: &str,
    bytes: usize,
    f: F,
) -> Result<JoinHandle<T>, std::io::Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    assert!(!name.is_empty() && !name.contains('\0'), "a thread has a name");
    let thread = imp::Builder::new().name(name.to_string()).stack_size(bytes);
    Ok(JoinHandle { inner: thread.spawn(inheriting(f))? })
}

/// Runs `work` on a thread of its own whose stack has `bytes`, and waits for it. Test points that
/// this thread has hooks on call them there, too.
///
/// # Errors
/// If the system refuses the thread; then `work` has not begun.
///
/// # Panics
/// As `work` does.
#[cfg(not(feature = "shuttle"))]
pub fn on_stack<T: Send>(
    name: &str,
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, std::io::Error> {
    assert!(!name.is_empty() && !name.contains('\0'), "a thread has a name");
    let hooks = crate::points::local_hooks();
    let work = move || {
        crate::points::run_in_place_of(hooks);
        work()
    };
    imp::scope(|scope| {
        let thread = imp::Builder::new().name(name.to_string()).stack_size(bytes);
        let started = thread.spawn_scoped(scope, inheriting(work))?;
        Ok(started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// What a thread takes over from the one that starts it: the rule that a test breaks.
#[cfg(all(feature = "testing", not(feature = "shuttle")))]
fn inheriting<T>(f: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let rule = crate::points::switches::current();
    move || {
        crate::points::switches::inherit(rule);
        f()
    }
}

/// Nothing is taken over.
#[cfg(any(not(feature = "testing"), feature = "shuttle"))]
fn inheriting<T>(f: impl FnOnce() -> T) -> impl FnOnce() -> T {
    f
}

/// Runs `work` on up to `count` threads at once, this one included, and waits for all of them.
/// Fewer run it where the system refuses a thread: `work` takes its share from a common place.
///
/// # Panics
/// If `work` panics on any of them.
#[cfg(not(feature = "shuttle"))]
pub fn several(name: &str, count: usize, work: &(dyn Fn() + Sync)) {
    assert!(!name.is_empty() && !name.contains('\0'), "a thread has a name");
    imp::scope(|scope| {
        for _ in 1..count {
            let thread = imp::Builder::new().name(name.to_string());
            if thread.spawn_scoped(scope, inheriting(work)).is_err() {
                break;
            }
        }
        work();
    });
}

/// As without the model; the caller only waits, as a scope of the model's wakes it at the end
/// whatever else it may be waiting for.
#[cfg(feature = "shuttle")]
pub fn several(_name: &str, count: usize, work: &(dyn Fn() + Sync)) {
    imp::scope(|scope| {
        for _ in 0..count.max(1) {
            scope.spawn(inheriting(work));
        }
    });
}

/// Runs `work` here and `beside` on up to `count` other threads, and waits for all of them. Fewer
/// run `beside` where the system refuses a thread, perhaps none.
///
/// # Panics
/// If either panics on any of them.
#[cfg(not(feature = "shuttle"))]
pub fn with_helpers<T: Send>(
    name: &str,
    count: usize,
    beside: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T + Send,
) -> T {
    assert!(!name.is_empty() && !name.contains('\0'), "a thread has a name");
    imp::scope(|scope| {
        for _ in 0..count {
            let thread = imp::Builder::new().name(name.to_string());
            if thread.spawn_scoped(scope, inheriting(beside)).is_err() {
                break;
            }
        }
        work()
    })
}

/// As without the model; the caller only waits, as in [`several`].
#[cfg(feature = "shuttle")]
pub fn with_helpers<T: Send>(
    _name: &str,
    count: usize,
    beside: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T + Send,
) -> T {
    let mut done = None;
    imp::scope(|scope| {
        for _ in 0..count {
            scope.spawn(inheriting(beside));
        }
        scope.spawn(inheriting(|| done = Some(work())));
    });
    done.expect("all of the scope has ended")
}

/// Which thread runs this.
pub fn current_id() -> ThreadId {
    imp::current().id()
}

/// Lets another thread run.
pub fn yield_now() {
    imp::yield_now();
}

/// Waits in real time; code that must run in a simulation uses [`crate::Clock::sleep`].
pub fn sleep(duration: Duration) {
    imp::sleep(duration);
}

/// Whether this thread is unwinding from a panic.
pub fn panicking() -> bool {
    std::thread::panicking()
}

/// How many threads the machine runs at once; 1 where it does not say.
pub fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn join_returns_the_value_or_the_message() {
        assert_eq!(spawn("adds", || 1 + 1).join(), Ok(2));
        let failed = spawn("fails", || panic!("block {}", 7)).join();
        assert_eq!(failed, Err::<(), _>(Panicked("block 7".to_string())));
    }

    #[test]
    fn several_threads_share_the_work() {
        use crate::sync::{AtomicUsize, Ordering};
        let next = AtomicUsize::new(0);
        let done: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        several("shares", 4, &|| {
            while let Some(task) = done.get(next.fetch_add(1, Ordering::Relaxed)) {
                task.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn helpers_run_beside_the_work_and_end_before_it_counts_as_done() {
        use crate::sync::{AtomicUsize, Ordering};
        let helped = AtomicUsize::new(0);
        let beside = || {
            helped.fetch_add(1, Ordering::Relaxed);
        };
        let here = current_id();
        let ran = with_helpers("helps", 3, &beside, current_id);
        assert_eq!(ran, here);
        assert_eq!(helped.load(Ordering::Relaxed), 3);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_helper_is_one_of_the_work() {
        with_helpers("fails", 1, &|| panic!("helper"), || ());
    }

    #[test]
    fn work_on_a_stack_of_its_own_gives_its_result_and_meets_the_hooks_of_the_caller() {
        use crate::sync::{Arc, AtomicUsize, Ordering};
        let met = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&met);
        let _hook = crate::points::install_local(move |name| {
            counted.fetch_add(usize::from(name == "test.stack"), Ordering::Relaxed);
        });
        let here = current_id();
        let there = on_stack("deep", 1 << 20, || {
            crate::points::hit("test.stack");
            current_id()
        });
        assert_ne!(there.unwrap(), here);
        assert_eq!(met.load(Ordering::Relaxed), 1);
    }

    #[test]
    #[should_panic(expected = "as it was")]
    fn a_panic_on_a_stack_of_its_own_is_the_callers() {
        on_stack("fails", 1 << 20, || panic!("as it was")).unwrap();
    }

    #[test]
    fn ids_differ() {
        let other = spawn("id", current_id);
        let id = other.id();
        assert_eq!(other.join().unwrap(), id);
        assert_ne!(current_id(), id);
    }
}
