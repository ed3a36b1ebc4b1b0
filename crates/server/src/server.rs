//! Listening, taking connections in, and stopping.
//!
//! Invariants: one thread listens and looks after everybody; it never waits for a client. A server
//! that stops takes nobody in, lets statements finish within its grace, and ends after the last
//! connection has.
//! Does not do: signals (the command does).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rightlink::Database;
use rightlink_env::sync::{AtomicBool, Ordering};
use rightlink_env::{Clock, Nanos, thread};
use rightlink_sql::{Activity, STACK, Session, SqlError, Who};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::auth::Users;
use crate::auth::scram::random;
use crate::config::{Config, ConfigError};
use crate::connection::Connection;
use crate::descriptors;
use crate::peers::{Peer, Peers, Phase, Registered, Rules, Stop};
use crate::protocol::backend::Out;
use crate::startup::{Refused, Starting, apply};
use crate::transport::{Input, Socket, Transport};

/// Between two looks at the connections.
const STEP_NANOS: i64 = 100_000_000;
/// Connections beyond the limit that are told so; more are cut off.
const SPARE: usize = 32;
/// After the grace, statements get this long to notice.
const LAST: std::time::Duration = std::time::Duration::from_secs(5);

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().map(|(socket, _)| Socket::Tcp(socket.into()))
            }
            Listener::Unix(listener, _) => {
                listener.accept().map(|(socket, _)| Socket::Unix(socket.into()))
            }
        }
    }
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// The server takes nobody in any more, lets statements finish, and returns from
    /// [`Server::run`].
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A server that listens.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    stopper: Stopper,
    clock: Clock,
}

/// What every connection needs.
struct Shared {
    db: Database,
    name: String,
    config: Config,
    peers: Arc<Peers>,
    secret: [u8; 32],
    activity: Activity,
}

impl Server {
    /// Listens; nobody is served before [`Server::run`]. The process's limit of open files is
    /// raised as far as it goes. `name` is what `current_database()` gives: a server has one
    /// database, whatever name a client asks for.
    ///
    /// # Errors
    /// A configuration that lets strangers in, an address or a file that cannot be had.
    pub fn bind(
        db: &Database,
        name: impl Into<String>,
        mut config: Config,
    ) -> Result<Server, ConfigError> {
        config.check()?;
        let files = descriptors::raise();
        config.max_connections = descriptors::room_for(config.max_connections, files);
        let mut listeners = Vec::new();
        for address in &config.listen {
            let failed = |error| ConfigError::Io(address.to_string(), error);
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            listeners.push(Listener::Tcp(listener));
        }
        if let Some(folder) = &config.socket {
            let path = folder.join(format!(".s.PGSQL.{}", config.port));
            let failed = |error| ConfigError::Io(path.display().to_string(), error);
            listeners.push(open_socket(&path).map_err(failed)?);
        }
        let clock = Clock::system();
        let peers = Arc::new(Peers::new(clock.clone()));
        let secret = config.users.as_ref().map_or_else(random, Users::secret);
        let (db, name, activity) = (db.clone(), name.into(), Activity::default());
        let shared = Shared { db, name, config, peers, secret, activity };
        let stopper = Stopper(Arc::new(AtomicBool::new(false)));
        Ok(Server { shared: Arc::new(shared), listeners, stopper, clock })
    }

    /// The addresses of TCP that it listens on, with the ports that were found.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |listener: &Listener| match listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        };
        self.listeners.iter().filter_map(address).collect()
    }

    /// Connections at a time: as many as it was told, or fewer where the limit of open files has no
    /// room for them. The database's own files come first.
    pub fn max_connections(&self) -> usize {
        self.shared.config.max_connections
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until somebody stops it and the last connection has ended.
    ///
    /// # Errors
    /// The system refuses to wait for connections.
    pub fn run(self) -> io::Result<()> {
        self.run_until(|| false)
    }

    /// As [`Server::run`], and stops too once `stop` says so, which is asked ten times a second.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub fn run_until(mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        let mut stopped: Option<Nanos> = None;
        loop {
            let now = self.clock.now();
            if stopped.is_none() && (stop() || self.stopper.0.load(Ordering::Acquire)) {
                stopped = Some(now);
                self.listeners.clear();
            }
            let stage = match stopped {
                None => Stop::No,
                Some(_) if self.shared.peers.count() == 0 => return Ok(()),
                Some(at) if now.since(at) > self.shared.config.grace + LAST => return Ok(()),
                Some(at) if now.since(at) > self.shared.config.grace => Stop::Now,
                Some(_) => Stop::Soon,
            };
            self.shared.peers.step(&Rules {
                now,
                unix_micros: self.shared.db.unix_micros(),
                startup_timeout: self.shared.config.startup_timeout,
                stop: stage,
            });
            self.wait(now)?;
        }
    }

    /// Takes connections in until it is time to look after them again.
    fn wait(&self, from: Nanos) -> io::Result<()> {
        loop {
            let spent = i64::try_from(self.clock.now().since(from).as_nanos()).unwrap_or(i64::MAX);
            if spent >= STEP_NANOS {
                return Ok(());
            }
            let left = Timespec { tv_sec: 0, tv_nsec: STEP_NANOS - spent };
            let mut fds: Vec<PollFd<'_>> =
                self.listeners.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<bool>>();
            for (listener, _) in self.listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
                match listener.accept() {
                    Ok(socket) => self.welcome(socket),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // No descriptors are left, say: those who are in go on, and may leave some.
                    Err(_) => thread::sleep(std::time::Duration::from_millis(10)),
                }
            }
        }
    }

    fn welcome(&self, socket: Socket) {
        let peers = &self.shared.peers;
        if peers.count() >= self.shared.config.max_connections + SPARE {
            return;
        }
        let limit = self.shared.config.tcp_user_timeout;
        if !socket.is_ours() || socket.prepare(limit).is_err() {
            return;
        }
        let registered = peers.register(socket.clone());
        let shared = Arc::clone(&self.shared);
        // Without a thread the socket is dropped, which the client sees.
        let serve = move || shared.serve(socket, &registered);
        let _ = thread::try_spawn_with_stack("client", STACK, serve);
    }
}

/// Makes a Unix socket in place of one that nobody listens on any more.
fn open_socket(path: &Path) -> io::Result<Listener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match UnixStream::connect(path) {
            Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            _ => return Err(error),
        },
        other => other?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(listener, path.to_owned()))
}

impl Shared {
    /// One connection from its first byte to its last.
    fn serve(&self, socket: Socket, registered: &Registered) {
        let peer = &*registered.peer;
        let starting = Starting {
            transport: Transport::Plain(socket),
            input: Input::default(),
            out: Out::default(),
            config: &self.config,
            peers: &self.peers,
            secret: &self.secret,
        };
        let (starting, result) = starting.run();
        let Starting { mut transport, input, mut out, .. } = starting;
        let started = result.and_then(|options| self.open(&options, peer));
        let session = match started {
            Ok((session, warnings)) => {
                warnings.iter().for_each(|warning| out.notice("WARNING", warning));
                session
            }
            Err(Refused::Silently) => return,
            Err(Refused::With(error)) => {
                out.error(&error, "FATAL");
                // The client may be gone.
                let _ = transport.send(out.bytes());
                return;
            }
        };
        peer.obey(session.interrupt());
        peer.enter(Phase::Busy);
        Connection::new(session, (transport, input, out), peer).serve(&self.config);
    }

    /// The client's session, and what it must be warned of.
    fn open(
        &self,
        options: &[(String, String)],
        peer: &Peer,
    ) -> Result<(Session, Vec<String>), Refused> {
        if self.peers.count() > self.config.max_connections {
            let error = SqlError::new("53300", "sorry, too many clients already");
            return Err(Refused::With(error));
        }
        let mut session = Session::new(&self.db).named(self.name.clone());
        session = session.join(&self.activity, who(options, peer));
        let warnings = apply(&mut session, options)?;
        Ok((session, warnings))
    }
}

/// As whom a client is listed for the others.
fn who(options: &[(String, String)], peer: &Peer) -> Who {
    let user = options.iter().find(|(name, _)| name == "user");
    let user = user.map(|(_, user)| user.clone()).unwrap_or_default();
    let address = peer.address();
    Who {
        pid: peer.pid,
        user,
        address: address.map(|address| address.ip().to_string()),
        port: address.map(|address| address.port()),
    }
}
