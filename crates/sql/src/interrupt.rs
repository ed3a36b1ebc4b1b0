//! Ending what a session does, from another thread.
//!
//! Invariants: an interrupt ends the message that runs and none after it, unless its reason ends
//! the session; what waits in the engine is woken, what computes notices within a few hundred rows.
//! Does not do: ending a commit, which is too late to be undone.

use std::sync::Arc;

use rightlink::CancelHandle;
use rightlink_env::sync::{AtomicI64, AtomicU8, Mutex, Ordering};

use crate::error::{Result, SqlError, code};

/// What a long task asks of the statement that it works for.
pub(crate) trait CheckInterrupts {
    /// Fails when the statement has taken too long or is not wanted any more.
    fn check(&self) -> Result<()>;
}

/// Why a statement is ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Somebody asked for it.
    Request,
    /// `statement_timeout` is over.
    Timeout,
    /// Nobody is left to hear of its results.
    Gone,
    /// The server stops.
    Shutdown,
}

const REASONS: [Reason; 4] = [Reason::Request, Reason::Timeout, Reason::Gone, Reason::Shutdown];
/// No deadline.
const NEVER: i64 = i64::MAX;

#[derive(Default)]
struct State {
    /// 0, or one more than the place in `REASONS`.
    reason: AtomicU8,
    /// When the statement has taken too long, in microseconds since 2000.
    deadline: AtomicI64,
    running: Mutex<Option<CancelHandle>>,
}

/// A handle by which other threads end what a session does. Clones end the same session's.
#[derive(Clone)]
pub struct Interrupt(Arc<State>);

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interrupt({:?})", self.reason())
    }
}

impl Default for Interrupt {
    fn default() -> Interrupt {
        Interrupt::new()
    }
}

impl Interrupt {
    /// One that nobody has raised. A session has its own; this is for other work that clients wait
    /// for.
    pub fn new() -> Interrupt {
        let state = State::default();
        state.deadline.store(NEVER, Ordering::Relaxed);
        Interrupt(Arc::new(state))
    }

    /// Ends the message that runs. The first reason counts, but one that ends the session replaces
    /// one that does not, and stays.
    pub fn raise(&self, reason: Reason) {
        let place = REASONS.iter().position(|known| *known == reason).expect("a known reason");
        // No message begins before the handle is told.
        let running = self.0.running.lock();
        let replaces = self.reason().is_none_or(|first| reason.is_final() && !first.is_final());
        if replaces {
            self.0.reason.store(place as u8 + 1, Ordering::Release);
        }
        if let Some(handle) = &*running {
            handle.cancel();
        }
    }

    /// Ends the message if its `statement_timeout` is over; `now` in microseconds since 1970.
    pub fn expire(&self, now: i64) {
        let now = now - crate::types::calendar::EPOCH_SECONDS * 1_000_000;
        if self.is_late(now) {
            self.raise(Reason::Timeout);
        }
    }

    /// May the statement last only so long?
    pub(crate) fn has_deadline(&self) -> bool {
        self.0.deadline.load(Ordering::Relaxed) != NEVER
    }

    /// Has it taken too long at `now`, in microseconds since 2000?
    pub(crate) fn is_late(&self, now: i64) -> bool {
        now > self.0.deadline.load(Ordering::Relaxed)
    }

    /// Why the message must end, if it must.
    pub fn reason(&self) -> Option<Reason> {
        let place = self.0.reason.load(Ordering::Acquire).checked_sub(1)?;
        REASONS.get(usize::from(place)).copied()
    }

    /// A message begins; if the one before was interrupted, `forget` lets its transaction go on.
    pub(crate) fn begin(&self, forget: impl FnOnce()) {
        let _running = self.0.running.lock();
        self.0.deadline.store(NEVER, Ordering::Relaxed);
        if self.reason().is_some_and(|reason| !reason.is_final()) {
            self.0.reason.store(0, Ordering::Release);
            forget();
        }
    }

    pub(crate) fn set_deadline(&self, deadline: Option<i64>) {
        self.0.deadline.store(deadline.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// A transaction runs from now on, whose waits end too.
    pub fn watch(&self, handle: CancelHandle) {
        let mut running = self.0.running.lock();
        if self.reason().is_some() {
            handle.cancel();
        }
        *running = Some(handle);
    }

    /// No transaction runs any more.
    pub(crate) fn unwatch(&self) {
        *self.0.running.lock() = None;
    }
}

impl Reason {
    /// Does it end the session, and not one message alone? A client may send several messages at
    /// once: the reason must not be lost between two of them.
    fn is_final(self) -> bool {
        match self {
            Reason::Request | Reason::Timeout => false,
            Reason::Gone | Reason::Shutdown => true,
        }
    }

    /// What the statement fails with.
    pub(crate) fn error(self) -> SqlError {
        let (sqlstate, message) = match self {
            Reason::Request => (code::QUERY_CANCELED, "canceling statement due to user request"),
            Reason::Timeout => {
                (code::QUERY_CANCELED, "canceling statement due to statement timeout")
            }
            Reason::Gone => ("08006", "connection to client lost"),
            Reason::Shutdown => ("57P01", "terminating connection due to administrator command"),
        };
        SqlError::new(sqlstate, message)
    }
}
