//! Who is connected, and what ends them: requests to cancel, timeouts, clients that are gone, the
//! end of the server.
//!
//! Invariants: a statement ends only by its session's interrupt, so it is rolled back and never cut
//! off; a connection that waits for its client ends by its socket, which wakes it. A connection
//! leaves the list after its session is gone. A phase counts as at most as long as it is, and at
//! worst a step shorter, because a change of phase reads no clock.
//!
//! Does not do: anything of its own accord; `step` is called ten times a second.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rightlink_env::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Nanos};
use rightlink_sql::{Interrupt, Reason};

use crate::auth::scram::random;
use crate::origin::Origin;
use crate::transport::Socket;

/// A statement that runs shorter than this is not looked after.
const BUSY: Duration = Duration::from_millis(100);

/// Connections that have not logged in and are over the limit for them: so many more, until those
/// that were ended are gone.
const ENDING: usize = 32;
/// A login is not hurried before this.
const HURRIED: Duration = Duration::from_secs(1);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Clients that have logged in.
    pub(crate) clients: usize,
    /// More of them, through the owner's socket alone.
    pub(crate) for_owner: usize,
    /// Connections beside them of one kind, TCP or the owner's socket, that have not logged in.
    pub(crate) waiting: usize,
    /// Of one address, after a second.
    pub(crate) waiting_per_address: usize,
}

impl Limits {
    fn clients_of(&self, origin: Origin) -> usize {
        match origin {
            Origin::Owner => self.clients + self.for_owner,
            Origin::Address(_) => self.clients,
        }
    }
}

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
    /// Others need the place of a client that has not logged in.
    Crowded,
}

/// A connection, as others see it.
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) secret: u32,
    socket: Socket,
    pub(crate) origin: Origin,
    arrived: Nanos,
    /// Has it logged in?
    is_client: AtomicBool,
    /// Has it failed to log in, and waits to hear so?
    failed: AtomicBool,
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

    /// Has its client gone away?
    pub(crate) fn is_gone(&self) -> bool {
        self.socket.is_gone()
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
            4 => End::Crowded,
            _ => End::None,
        }
    }

    /// It has failed to log in; its answer waits, and so does its place.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Can it be ended so that somebody else gets its place?
    fn can_make_room(&self) -> bool {
        !self.is_client.load(Ordering::Relaxed) && self.end() == End::None
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

    /// Ends it, whatever it does. The caller raises the interrupt of its session.
    pub(crate) fn hang_up(&self) {
        self.finish(End::Shutdown);
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

/// Is there a place for one more connection?
enum Room {
    Free,
    /// Once this one is ended.
    After(Arc<Peer>),
    None,
}

impl List {
    /// Connections by TCP, or those through the owner's socket.
    fn of_kind(&self, origin: Origin) -> impl Iterator<Item = &Arc<Peer>> {
        let is_owner = origin == Origin::Owner;
        self.known.values().filter(move |peer| (peer.origin == Origin::Owner) == is_owner)
    }

    fn room_for(&self, origin: Origin, now: Nanos, limits: &Limits) -> Room {
        let oldest = |peers: Vec<&Arc<Peer>>| {
            let oldest = peers.into_iter().min_by_key(|peer| (peer.arrived, peer.pid));
            oldest.map_or(Room::None, |peer| Room::After(Arc::clone(peer)))
        };
        let waiting = |peer: &&Arc<Peer>| peer.can_make_room();
        let has_failed = |peer: &&Arc<Peer>| peer.failed.load(Ordering::Relaxed);
        let is_late = |peer: &&Arc<Peer>| {
            peer.origin == origin && (now.since(peer.arrived) > HURRIED || has_failed(peer))
        };
        let late: Vec<&Arc<Peer>> = self.of_kind(origin).filter(waiting).filter(is_late).collect();
        if origin != Origin::Owner && late.len() >= limits.waiting_per_address {
            // A login that has failed keeps its place until it is told so: else whoever tries
            // passwords would only have to open more connections.
            return oldest(late.into_iter().filter(|peer| !has_failed(peer)).collect());
        }
        let all = self.of_kind(origin).filter(|peer| peer.end() == End::None).count();
        if all < limits.clients_of(origin) + limits.waiting {
            return Room::Free;
        }
        oldest(self.of_kind(origin).filter(waiting).collect())
    }
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

    /// May another connection of this kind be accepted now, or must those that were ended go first?
    pub(crate) fn has_room(&self, is_owner: bool, limits: &Limits) -> bool {
        let list = self.list.lock();
        let origin = if is_owner { Origin::Owner } else { Origin::of(None) };
        let count = list.of_kind(origin).count();
        count < limits.clients_of(origin) + limits.waiting + ENDING
    }

    /// Adds a connection; `None` if it is over a limit and nobody makes room. Room is made by the
    /// oldest connection that has not logged in, at first of the same address.
    pub(crate) fn register(
        self: &Arc<Self>,
        socket: Socket,
        limits: &Limits,
    ) -> Option<Registered> {
        let (origin, now) = (socket.origin(), self.clock.now());
        let mut list = self.list.lock();
        match list.room_for(origin, now, limits) {
            Room::Free => {}
            Room::After(peer) => peer.finish(End::Crowded),
            Room::None => return None,
        }
        while list.known.contains_key(&list.next) || list.next == 0 {
            list.next = list.next.wrapping_add(1) & 0x7fff_ffff;
        }
        let pid = list.next;
        list.next = list.next.wrapping_add(1) & 0x7fff_ffff;
        let peer = Arc::new(Peer {
            pid,
            secret: u32::from_be_bytes(random()),
            socket,
            origin,
            arrived: now,
            is_client: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Startup as u8),
            begun: AtomicU64::new(0),
            met: AtomicU64::new(0),
            met_at: AtomicU64::new(now.0),
            idle_millis: AtomicU64::new(0),
            end: AtomicU8::new(End::None as u8),
            interrupt: OnceLock::new(),
        });
        list.known.insert(pid, Arc::clone(&peer));
        Some(Registered { peers: Arc::clone(self), peer })
    }

    /// Takes a connection that has logged in among the clients; false if there is no place.
    pub(crate) fn admit(&self, peer: &Peer, limits: &Limits) -> bool {
        let list = self.list.lock();
        let is_client = |peer: &&Arc<Peer>| peer.is_client.load(Ordering::Relaxed);
        let clients = list.known.values().filter(is_client).count();
        let has_place = clients < limits.clients_of(peer.origin) && peer.end() == End::None;
        if has_place {
            peer.is_client.store(true, Ordering::Relaxed);
        }
        has_place
    }

    /// The time.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.now()
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
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Connections of TCP to one listener, and the other ends of them.
    struct Clients {
        clock: Clock,
        peers: Arc<Peers>,
        listener: TcpListener,
        others: Vec<TcpStream>,
    }

    impl Clients {
        fn new() -> Clients {
            let clock = Clock::simulated();
            let peers = Arc::new(Peers::new(clock.clone()));
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Clients { clock, peers, listener, others: Vec::new() }
        }

        fn come(&mut self, limits: &Limits) -> Option<Registered> {
            self.others.push(TcpStream::connect(self.listener.local_addr().unwrap()).unwrap());
            let (socket, _) = self.listener.accept().unwrap();
            self.peers.register(Socket::Tcp(Arc::new(socket)), limits)
        }

        fn through_socket(&self, limits: &Limits) -> Option<Registered> {
            let (ours, _other) = UnixStream::pair().unwrap();
            self.peers.register(Socket::Unix(Arc::new(ours)), limits)
        }
    }

    /// 500 silent connections in a second used to take every place, also those of the socket.
    #[test]
    fn connections_that_say_nothing_make_room_and_never_take_the_owners_places() {
        let limits = Limits { clients: 4, for_owner: 2, waiting: 3, waiting_per_address: 2 };
        let mut clients = Clients::new();
        let mut silent: Vec<Registered> = (0..5).map(|_| clients.come(&limits).unwrap()).collect();
        let ended = |silent: &[Registered]| -> Vec<bool> {
            silent.iter().map(|one| one.peer.end() == End::Crowded).collect()
        };
        // All of them may still be about to log in.
        assert_eq!(ended(&silent), [false; 5]);
        clients.clock.advance(Duration::from_secs(2));
        silent.push(clients.come(&limits).unwrap());
        silent.push(clients.come(&limits).unwrap());
        assert_eq!(ended(&silent), [true, true, false, false, false, false, false]);
        // Those who log in are none of them.
        assert!(clients.peers.admit(&silent[2].peer, &limits));
        assert!(!clients.peers.admit(&silent[0].peer, &limits), "its place was given away");
        let room = |clients: &Clients| {
            [false, true].map(|is_owner| clients.peers.has_room(is_owner, &limits))
        };
        assert_eq!(room(&clients), [true, true]);
        for _ in 0..60 {
            silent.extend(clients.come(&limits));
        }
        assert_eq!(room(&clients), [false, true]);
        let left = ended(&silent).into_iter().filter(|ended| !ended).count();
        assert_eq!(left, limits.clients + limits.waiting);
        let owners: Vec<_> = (0..3).map(|_| clients.through_socket(&limits).unwrap()).collect();
        assert!(owners.iter().all(|owner| clients.peers.admit(&owner.peer, &limits)));
    }

    /// Clients by TCP leave places that only the socket gets.
    #[test]
    fn the_last_places_are_for_the_owner() {
        let limits = Limits { clients: 2, for_owner: 1, waiting: 2, waiting_per_address: 9 };
        let mut clients = Clients::new();
        let by_tcp: Vec<_> = (0..3).map(|_| clients.come(&limits).unwrap()).collect();
        let admit = |one: &Registered| clients.peers.admit(&one.peer, &limits);
        assert_eq!(by_tcp.iter().map(admit).collect::<Vec<_>>(), [true, true, false]);
        let owners: Vec<_> = (0..2).map(|_| clients.through_socket(&limits).unwrap()).collect();
        assert_eq!(owners.iter().map(admit).collect::<Vec<_>>(), [true, false]);
    }

    /// Who tries passwords cannot hurry by opening more connections.
    #[test]
    fn a_failed_login_keeps_its_place() {
        let limits = Limits { clients: 9, for_owner: 1, waiting: 9, waiting_per_address: 2 };
        let mut clients = Clients::new();
        let first = clients.come(&limits).unwrap();
        first.peer.fail();
        let second = clients.come(&limits).unwrap();
        clients.clock.advance(Duration::from_secs(2));
        let third = clients.come(&limits).unwrap();
        assert_eq!([&first, &second].map(|one| one.peer.end()), [End::None, End::Crowded]);
        third.peer.fail();
        assert!(clients.come(&limits).is_none());
        drop(first);
        assert!(clients.come(&limits).is_some());
    }

    #[test]
    fn an_address_of_ipv6_is_its_network() {
        let of = |text: &str| Origin::of(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8::1:2:3:4"), of("2001:db8::9"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn an_idle_connection_ends_by_its_own_time_and_not_by_that_of_its_work() {
        let peers = Arc::new(Peers::new(Clock::simulated()));
        let (ours, _other) = UnixStream::pair().unwrap();
        let limits = Limits { clients: 1, for_owner: 0, waiting: 1, waiting_per_address: 1 };
        let registered = peers.register(Socket::Unix(Arc::new(ours)), &limits).unwrap();
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
