//! Listening, taking connections in, and stopping.
//!
//! Invariants: one thread listens and looks after everybody; it never waits for a client. A server
//! that stops takes nobody in, lets statements finish within its grace, and ends after the last
//! connection has. A connection that is not served is told why. Only a socket is ever removed from
//! the file system, and only one that nobody listens on.
//! Does not do: signals (the command does).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rightlink::Database;
use rightlink_env::sync::{AtomicBool, Ordering};
use rightlink_env::{Clock, Nanos, thread};
use rightlink_sql::{Activity, AutoAnalyze, STACK, Session, SqlError, Who};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::auth::Users;
use crate::auth::failures::Failures;
use crate::auth::scram::{Verifier, random};
use crate::commands;
use crate::config::Config;
use crate::config_error::ConfigError;
use crate::connection::Connection;
use crate::descriptors;
use crate::origin::Origin;
use crate::owner::{self, SocketPath};
use crate::peers::{End, Limits, Peer, Peers, Phase, Registered, Rules, Stop};
use crate::protocol::backend::Out;
use crate::startup::{Refused, Roles, Starting, apply};
use crate::transport::{Input, Socket, Transport};

/// A name that every PostgreSQL server knows, which tools use that are about no database.
const MAINTENANCE: &str = "postgres";
/// Between two looks at the connections.
const STEP_NANOS: i64 = 100_000_000;
/// The same where connections wait in the system's queue.
const CROWDED_NANOS: i64 = 10_000_000;
/// After the grace, statements get this long to notice.
const LAST: std::time::Duration = std::time::Duration::from_secs(5);

enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a Unix socket that this process has made.
struct SocketFile {
    path: PathBuf,
    /// Device and inode: somebody else may have put a file of his own there since.
    made: (u64, u64),
}

impl SocketFile {
    fn identity(path: &Path) -> io::Result<(u64, u64)> {
        std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if SocketFile::identity(&self.path).is_ok_and(|now| now == self.made) {
            // It may be gone since.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Listener {
    fn is_owners(&self) -> bool {
        matches!(self, Listener::Unix { .. })
    }

    fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().map(|(socket, _)| Socket::Tcp(socket.into()))
            }
            Listener::Unix { listener, .. } => {
                listener.accept().map(|(socket, _)| Socket::Unix(socket.into()))
            }
        }
    }
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<StopAsked>);

#[derive(Debug)]
struct StopAsked {
    is_asked: AtomicBool,
    /// The server waits for the other end.
    wakes: UnixStream,
}

impl Stopper {
    /// The stopper, and the socket that wakes the server.
    fn new() -> io::Result<(Stopper, UnixStream)> {
        let (wakes, woken) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok((Stopper(Arc::new(StopAsked { is_asked: AtomicBool::new(false), wakes })), woken))
    }

    /// The server takes nobody in any more, lets statements finish, and returns from
    /// [`Server::run`].
    pub fn stop(&self) {
        self.0.is_asked.store(true, Ordering::Release);
        // Where no byte has room, enough of them wake the server.
        let _ = (&self.0.wakes).write(&[0]);
    }

    fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }
}

/// A server that listens.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    stopper: Stopper,
    /// Becomes readable when the stopper is used.
    woken: UnixStream,
    clock: Clock,
}

/// What every connection needs.
struct Shared {
    db: Database,
    name: String,
    config: Config,
    peers: Arc<Peers>,
    secret: [u8; 32],
    failures: Failures,
    activity: Activity,
}

impl Server {
    /// Listens; nobody is served before [`Server::run`]. The process's limit of open files is
    /// raised as far as it goes. `name` is the database's: a server has one, which clients may
    /// ask for as `postgres` too, and under the names of [`Config::databases`].
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
            let path = folder.join(socket_name(config.port));
            let failed = |error| ConfigError::Io(path.display().to_string(), error);
            listeners.push(open_socket(&path).map_err(failed)?);
        }
        if let Some(folder) = &config.owner_socket {
            match owner_socket(folder, &config) {
                Ok(listener) => listeners.extend(listener),
                // Not every file system has sockets. Clients are served all the same.
                Err(error) => config.logger.warn(&format!(
                    "no socket in {}: its owner cannot reach this server by the directory's name: \
                     {error}",
                    folder.display()
                )),
            }
        }
        let clock = Clock::system();
        let peers = Arc::new(Peers::new(clock.clone()));
        let secret = config.users.as_ref().map_or_else(random, Users::secret);
        if let Err(error) = Session::drop_orphaned_tables(db) {
            config.logger.warn(&format!("temporary tables of sessions before: {}", error.message));
        }
        let (db, name, activity) = (db.clone(), name.into(), Activity::default());
        let failures = Failures::new(config.logger.clone());
        let shared = Shared { db, name, config, peers, secret, failures, activity };
        let failed = |error| ConfigError::Io("socket of the stopper".to_owned(), error);
        let (stopper, woken) = Stopper::new().map_err(failed)?;
        Ok(Server { shared: Arc::new(shared), listeners, stopper, woken, clock })
    }

    /// The addresses of TCP that it listens on, with the ports that were found.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |listener: &Listener| match listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
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
    /// The system refuses to wait for connections, or has no thread left.
    pub fn run(mut self) -> io::Result<()> {
        let _analyzes = match self.shared.config.auto_analyze {
            true => Some(AutoAnalyze::start(&self.shared.db)?),
            false => None,
        };
        let mut stopped: Option<Nanos> = None;
        loop {
            let now = self.clock.now();
            if stopped.is_none() && self.stopper.is_asked() {
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

    /// Takes connections in until it is time to look after them again, or to stop.
    fn wait(&self, from: Nanos) -> io::Result<()> {
        loop {
            let spent = i64::try_from(self.clock.now().since(from).as_nanos()).unwrap_or(i64::MAX);
            // No connection needs a look: the next event is a new one or the stopper.
            let is_alone = self.shared.peers.count() == 0 && !self.stopper.is_asked();
            if spent >= STEP_NANOS && !is_alone {
                return Ok(());
            }
            // Connections of a kind that has no room stay in the system's queue for a moment.
            let limits = self.shared.config.limits();
            let has_room = |one: &&Listener| self.shared.peers.has_room(one.is_owners(), &limits);
            let open: Vec<&Listener> = self.listeners.iter().filter(has_room).collect();
            let most = if open.len() == self.listeners.len() { STEP_NANOS } else { CROWDED_NANOS };
            let left = Timespec { tv_sec: 0, tv_nsec: (STEP_NANOS - spent).clamp(0, most) };
            let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
            fds.extend(open.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)));
            match poll(&mut fds, (!is_alone).then_some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<bool>>();
            if ready.remove(0) {
                let _ = (&self.woken).read(&mut [0; 64]);
                return Ok(());
            }
            for (listener, _) in open.iter().zip(ready).filter(|(_, ready)| *ready) {
                match listener.accept() {
                    Ok(socket) => self.welcome(&socket, &limits),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // No descriptors are left, say: those who are in go on, and may leave some.
                    Err(_) => thread::sleep(std::time::Duration::from_millis(10)),
                }
            }
        }
    }

    fn welcome(&self, socket: &Socket, limits: &Limits) {
        let peers = &self.shared.peers;
        if !socket.is_ours() {
            let what = "the socket is for the user who started the server";
            return turn_away(socket, &SqlError::new("28000", what));
        }
        if socket.prepare(self.shared.config.tcp_user_timeout).is_err() {
            return;
        }
        let Some(registered) = peers.register(socket.clone(), limits) else {
            return turn_away(socket, &crowded());
        };
        let (shared, theirs) = (Arc::clone(&self.shared), socket.clone());
        let serve = move || shared.serve(theirs, &registered);
        if thread::try_spawn_with_stack("client", STACK, serve).is_err() {
            let what = "could not create a thread for the connection";
            turn_away(socket, &SqlError::new("53000", what));
        }
    }
}

/// The limit of connections that have not logged in is reached.
fn crowded() -> SqlError {
    SqlError::new("53300", "too many connections that have not logged in")
}

/// Tells a client why it is not served, without waiting for it.
fn turn_away(socket: &Socket, error: &SqlError) {
    let mut out = Out::default();
    out.error(error, "FATAL");
    socket.send_at_once(out.bytes());
    socket.discard_arrived();
}

/// Makes a Unix socket in place of one that nobody listens on any more.
fn open_socket(path: &Path) -> io::Result<Listener> {
    let socket = SocketPath::of_file(path)?;
    let listener = match UnixListener::bind(socket.path()) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(socket.path()) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(socket.path())?
        }
        other => other?,
    };
    let _file = SocketFile { path: path.to_owned(), made: SocketFile::identity(path)? };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix { listener, _file })
}

/// The socket in the directory of the database, unless it is made already.
fn owner_socket(folder: &Path, config: &Config) -> io::Result<Option<Listener>> {
    let folder = folder.canonicalize()?;
    if let Some(other) = &config.socket
        && other.canonicalize()? == folder
        && owner::SOCKET == socket_name(config.port)
    {
        return Ok(None);
    }
    open_socket(&folder.join(owner::SOCKET)).map(Some)
}

/// Named as PostgreSQL's clients look for it.
fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Is it the socket of a server that has ended? Connecting to a file of any other kind is refused
/// in the same way, so the kind is asked for.
fn is_stale(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
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
            peer,
            failures: &self.failures,
            roles: Roles {
                password: &|name| self.password_of_role(name),
                is_member: &|user, role| {
                    rightlink_sql::is_member(&self.db, user, role).unwrap_or(false)
                },
            },
        };
        let (starting, result) = starting.run();
        let Starting { mut transport, input, mut out, .. } = starting;
        if let Ok(options) = &result
            && let Some((_, version)) = options.iter().find(|(name, _)| name == commands::OPTION)
        {
            let peer = Arc::clone(&registered.peer);
            let connection = commands::Connection { transport, input, out, peer };
            return self.command(connection, version);
        }
        let started = result.and_then(|options| self.open(&options, peer));
        let session = match started {
            Ok(session) => session,
            Err(refused) => {
                let error = match refused {
                    Refused::With(error) => error,
                    Refused::Silently if peer.end() == End::Crowded => crowded(),
                    Refused::Silently => return,
                };
                out.error(&error, "FATAL");
                // The client may be gone.
                let _ = transport.send(out.bytes());
                transport.socket().discard_arrived();
                return;
            }
        };
        peer.obey(session.interrupt());
        let hangs_up = Arc::clone(&registered.peer);
        session.on_termination(move || hangs_up.hang_up());
        peer.enter(Phase::Busy);
        Connection::new(session, transport, input, out, peer).serve(&self.config);
    }

    /// The client's session.
    fn open(&self, options: &[(String, String)], peer: &Peer) -> Result<Session, Refused> {
        if !self.peers.admit(peer, &self.config.limits()) {
            let error = SqlError::new("53300", "sorry, too many clients already");
            return Err(Refused::With(error));
        }
        let name = self.database(options)?;
        let mut session = Session::new(&self.db).named(name);
        session = session.join(&self.activity, who(options, peer));
        session.log_in()?;
        apply(&mut session, options)?;
        Ok(session)
    }

    /// What verifies the password of a role. What cannot be read lets nobody in.
    fn password_of_role(&self, name: &str) -> Option<Verifier> {
        let text = rightlink_sql::role_password(&self.db, name).ok()??;
        Verifier::parse(&text)
    }
}

impl Shared {
    /// A connection for a command of the owner's.
    fn command(&self, connection: commands::Connection, version: &str) {
        let peer = Arc::clone(&connection.peer);
        let refusal = if peer.origin != Origin::Owner {
            SqlError::new("28000", "commands are for the owner, who comes by the Unix socket")
        } else if version != commands::VERSION {
            let own = commands::VERSION;
            let what = format!("it is of version {own}, and the command of version {version}");
            SqlError::new("0A000", what)
        } else if !self.peers.admit(&peer, &self.config.limits()) {
            SqlError::new("53300", "sorry, too many clients already")
        } else if let Some(commands) = &self.config.commands {
            return connection.serve(&**commands);
        } else {
            SqlError::new("0A000", "it runs no commands")
        };
        connection.refuse(&refusal);
    }

    /// The name under which a client has asked for the database: its own where it did not say.
    fn database(&self, options: &[(String, String)]) -> Result<String, SqlError> {
        let asked = options.iter().find(|(name, _)| name == "database").map(|(_, name)| name);
        let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
            return Ok(self.name.clone());
        };
        let known = [self.name.as_str(), MAINTENANCE];
        let more = self.config.databases.iter().map(String::as_str);
        if known.into_iter().chain(more).any(|name| name == asked) {
            return Ok(asked.clone());
        }
        let mut error = SqlError::new("3D000", format!("database \"{asked}\" does not exist"));
        error.hint = Some(format!("This server has the database \"{}\".", self.name));
        Err(error)
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
