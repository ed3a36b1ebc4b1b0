//! Who is connected, and what ends them: requests to cancel, timeouts, clients that are gone, the
//! end of the server.
//!
//! Invariants: a statement ends only by its session's interrupt, so it is rolled back and never cut
//! off; a connection that waits for its client ends by its socket, which wakes it. A connection
//! leaves the list after its session is gone. No phase is taken for longer than it is; it may be
//! taken for a step shorter, as a connection that goes from one to the next asks no clock.
//! Does not do: anything of its own accord; `step` is called ten times a second.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rightlink_env::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Nanos};
use rightlink_sql::{Interrupt, Reason};

use crate::auth::scram::random;
use crate::transport::Socket;

/// A statement that runs shorter than this is not looked after.
const BUSY: Duration = Duration::from_millis(100);

/// What a connection does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    Startup,
    Idle,
    IdleInTransaction,
    Busy,
}

/// Why a connection that waits for its client is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum End {
    None,
    Shutdown,
    IdleInTransaction,
    Startup,
}

/// A connection, as others see it.
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) secret: u32,
    socket: Socket,
    phase: AtomicU8,
    /// Phases begun, this one included.
    begun: AtomicU64,
    /// How many there were when the last one was met, and when that was: for `step` alone.
    met: AtomicU64,
    met_at: AtomicU64,
    /// `idle_in_transaction_session_timeout`, 0 for none.
    idle_millis: AtomicU64,
    end: AtomicU8,
    interrupt: OnceLock<Interrupt>,
}

impl Peer {
    /// The connection does something else from now on.
    pub(crate) fn enter(&self, phase: Phase) {
        // First: who sees the phase does not take it for as long as the one before.
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// A message has come. Those that are sent together are one stretch of work, from the first one
    /// on.
    pub(crate) fn busy(&self) {
        if !self.is_in(Phase::Busy) {
            self.enter(Phase::Busy);
        }
    }

    /// From now on `interrupt` ends what it does.
    pub(crate) fn obey(&self, interrupt: Interrupt) {
        let first = self.interrupt.set(interrupt).is_ok();
        assert!(first, "a connection has one session");
    }

    /// Where the client is, unless it came through a file.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.address()
    }

    /// How long it may idle in a transaction, 0 for ever.
    pub(crate) fn set_idle_millis(&self, millis: u64) {
        self.idle_millis.store(millis, Ordering::Relaxed);
    }

    /// Why it was ended, if it was.
    pub(crate) fn end(&self) -> End {
        match self.end.load(Ordering::Acquire) {
            1 => End::Shutdown,
            2 => End::IdleInTransaction,
            3 => End::Startup,
            _ => End::None,
        }
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    fn raise(&self, reason: Reason) {
        if let Some(interrupt) = self.interrupt.get() {
            interrupt.raise(reason);
        }
    }

    /// Wakes a connection that waits for its client; it finds out why.
    fn finish(&self, end: End) {
        let _ = self.end.compare_exchange(
            End::None as u8,
            end as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        self.socket.shutdown(Shutdown::Read);
    }

    /// How long it has been in the phase that was read just now.
    fn spent(&self, now: Nanos) -> Duration {
        let begun = self.begun.load(Ordering::Relaxed);
        if self.met.swap(begun, Ordering::Relaxed) != begun {
            self.met_at.store(now.0, Ordering::Relaxed);
        }
        now.since(Nanos(self.met_at.load(Ordering::Relaxed)))
    }

    fn step(&self, rules: &Rules) {
        let phase = self.phase.load(Ordering::Acquire);
        let (is_in, spent) = (|one: Phase| phase == one as u8, self.spent(rules.now));
        if is_in(Phase::Startup) {
            if spent > rules.startup_timeout || rules.stop != Stop::No {
                self.finish(End::Startup);
                // It may also wait for somebody who does not read.
                self.socket.shutdown(Shutdown::Both);
            }
        } else if is_in(Phase::Busy) {
            self.step_busy(rules, spent);
        } else if rules.stop != Stop::No {
            self.finish(End::Shutdown);
        } else if is_in(Phase::IdleInTransaction) {
            let limit = self.idle_millis.load(Ordering::Relaxed);
            if limit > 0 && spent > Duration::from_millis(limit) {
                self.finish(End::IdleInTransaction);
            }
        }
    }

    fn step_busy(&self, rules: &Rules, spent: Duration) {
        if rules.stop == Stop::Now {
            self.raise(Reason::Shutdown);
            self.socket.shutdown(Shutdown::Both);
        }
        if let Some(interrupt) = self.interrupt.get() {
            interrupt.expire(rules.unix_micros);
        }
        if spent > BUSY && self.end() == End::None && self.socket.is_gone() {
            self.raise(Reason::Gone);
            self.socket.shutdown(Shutdown::Both);
        }
    }
}

/// Does the server stop?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    No,
    /// Once the statements have finished.
    Soon,
    /// Nobody is waited for any more.
    Now,
}

/// What holds for all connections at a moment.
pub(crate) struct Rules {
    pub(crate) now: Nanos,
    pub(crate) unix_micros: i64,
    pub(crate) startup_timeout: Duration,
    pub(crate) stop: Stop,
}

/// All connections.
pub(crate) struct Peers {
    clock: Clock,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    next: u32,
    known: HashMap<u32, Arc<Peer>>,
}

/// Takes a connection off the list when it is dropped.
pub(crate) struct Registered {
    peers: Arc<Peers>,
    pub(crate) peer: Arc<Peer>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.peers.list.lock().known.remove(&self.peer.pid);
    }
}

impl Peers {
    pub(crate) fn new(clock: Clock) -> Peers {
        Peers { clock, list: Mutex::new(List { next: 1, known: HashMap::new() }) }
    }

    /// Adds a connection.
    pub(crate) fn register(self: &Arc<Self>, socket: Socket) -> Registered {
        let mut list = self.list.lock();
        while list.known.contains_key(&list.next) || list.next == 0 {
            list.next = list.next.wrapping_add(1) & 0x7fff_ffff;
        }
        let pid = list.next;
        list.next = list.next.wrapping_add(1) & 0x7fff_ffff;
        let peer = Arc::new(Peer {
            pid,
            secret: u32::from_be_bytes(random()),
            socket,
            phase: AtomicU8::new(Phase::Startup as u8),
            begun: AtomicU64::new(0),
            met: AtomicU64::new(0),
            met_at: AtomicU64::new(self.clock.now().0),
            idle_millis: AtomicU64::new(0),
            end: AtomicU8::new(End::None as u8),
            interrupt: OnceLock::new(),
        });
        list.known.insert(pid, Arc::clone(&peer));
        Registered { peers: Arc::clone(self), peer }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.list.lock().known.len()
    }

    /// Ends the statement of the connection with this key, if one runs.
    pub(crate) fn cancel(&self, pid: u32, secret: u32) {
        let peer = self.list.lock().known.get(&pid).cloned();
        if let Some(peer) = peer.filter(|peer| peer.secret == secret && peer.is_in(Phase::Busy)) {
            peer.raise(Reason::Request);
        }
    }

    /// Looks after everybody once.
    pub(crate) fn step(&self, rules: &Rules) {
        let peers: Vec<Arc<Peer>> = self.list.lock().known.values().cloned().collect();
        peers.iter().for_each(|peer| peer.step(rules));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_idle_connection_ends_by_its_own_time_and_not_by_that_of_its_work() {
        let peers = Arc::new(Peers::new(Clock::simulated()));
        let (ours, _other) = UnixStream::pair().unwrap();
        let registered = peers.register(Socket::Unix(Arc::new(ours)));
        let peer = &registered.peer;
        peer.set_idle_millis(1_000);
        let ends_at = |millis: u64| {
            let now = Nanos(millis * 1_000_000);
            let startup_timeout = Duration::from_secs(60);
            peers.step(&Rules { now, unix_micros: 0, startup_timeout, stop: Stop::No });
            peer.end()
        };
        peer.enter(Phase::Busy);
        assert_eq!([100, 5_000, 20_000].map(ends_at), [End::None; 3]);
        peer.enter(Phase::IdleInTransaction);
        assert_eq!([20_100, 20_900].map(ends_at), [End::None; 2]);
        // A statement in between, which no step has met.
        peer.busy();
        peer.enter(Phase::IdleInTransaction);
        assert_eq!([21_200, 22_100].map(ends_at), [End::None; 2]);
        assert_eq!(ends_at(22_300), End::IdleInTransaction);
    }
}
