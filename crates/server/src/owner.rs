//! The other side of `commands`: finds the server of a database and has it run a command.
//!
//! A server for whose database [`Config::owner_socket`] names the directory listens there on
//! [`SOCKET`]. A client believes the socket if the process behind it belongs to the directory's
//! owner or to root, and is the one that holds the database's lock: credentials of the socket's
//! peer, which neither side can forge. The server asks the same of the client.
//!
//! Invariants: nothing is sent to a process that does not hold the database.
//! Does not do: what a command means.
//!
//! [`Config::owner_socket`]: crate::Config::owner_socket

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::commands::{Channel, OPTION, VERSION, encode};
use crate::protocol::VERSION as PROTOCOL;

/// Name of the socket in the directory of a database: `psql -h DIRECTORY` finds it too.
pub(crate) const SOCKET: &str = ".s.PGSQL.5432";
/// Longest path of a socket, its end included.
const MAX_PATH: usize = 107;
/// The lock file of a database, which has the number of the process that holds it.
const LOCK: &str = "lock";
/// Longest message that a server sends.
const MAX_MESSAGE: usize = 1 << 20;
const CANCEL: u32 = 80_877_102;

/// Why a command was not run to its end by a server.
#[derive(Debug)]
pub enum CommandError {
    /// The process that has the database open listens on no socket there.
    NotServed,
    /// The process behind the socket is not to be trusted, or did not want the command.
    Refused(String),
    /// The server ended first, or could not be reached any more.
    Lost(io::Error),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::NotServed => f.write_str("the process that has it open is no server"),
            CommandError::Refused(what) => f.write_str(what),
            CommandError::Lost(error) => {
                write!(f, "the server ended before the command did: {error}")
            }
        }
    }
}

impl std::error::Error for CommandError {}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        CommandError::Lost(error)
    }
}

/// The path of a socket that may be too long to be one: then by way of its open directory.
pub(crate) struct SocketPath {
    path: PathBuf,
    /// Keeps the path valid.
    _directory: Option<OwnedFd>,
}

impl SocketPath {
    pub(crate) fn of(directory: &Path, name: &str) -> io::Result<SocketPath> {
        let path = directory.join(name);
        if path.as_os_str().len() <= MAX_PATH {
            return Ok(SocketPath { path, _directory: None });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(name);
        Ok(SocketPath { path, _directory: Some(opened) })
    }

    pub(crate) fn of_file(path: &Path) -> io::Result<SocketPath> {
        match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
            (Some(directory), Some(name)) => SocketPath::of(directory, name),
            _ => Ok(SocketPath { path: path.to_owned(), _directory: None }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A connection to the server of a database, as its owner.
pub struct Owner {
    socket: UnixStream,
    directory: PathBuf,
    key: [u8; 8],
}

/// Ends the command that a server runs for an [`Owner`], from another thread.
#[derive(Clone, Debug)]
pub struct Canceller {
    directory: PathBuf,
    key: [u8; 8],
}

impl Canceller {
    /// Asks the server to end the command; it still tells its end.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn cancel(&self) -> io::Result<()> {
        let mut socket = connect(&self.directory)?;
        let length = 16u32.to_be_bytes();
        socket.write_all(&[&length[..], &CANCEL.to_be_bytes(), &self.key].concat())
    }
}

fn connect(directory: &Path) -> io::Result<UnixStream> {
    let socket = SocketPath::of(directory, SOCKET)?;
    UnixStream::connect(socket.path())
}

impl Owner {
    /// Connects to the server that has the database in `directory` open.
    ///
    /// # Errors
    /// There is none, or it refuses.
    pub fn connect(directory: &Path) -> Result<Owner, CommandError> {
        let socket = match connect(directory) {
            Ok(socket) => socket,
            Err(error) => {
                let refused = error.kind() == io::ErrorKind::ConnectionRefused;
                let missing = error.kind() == io::ErrorKind::NotFound;
                return Err(match refused || missing {
                    true => CommandError::NotServed,
                    false => CommandError::Refused(format!("the server's socket: {error}")),
                });
            }
        };
        believe(directory, &socket)?;
        let mut owner = Owner { socket, directory: directory.to_owned(), key: [0; 8] };
        owner.start()?;
        Ok(owner)
    }

    /// What ends the command.
    pub fn canceller(&self) -> Canceller {
        Canceller { directory: self.directory.clone(), key: self.key }
    }

    fn start(&mut self) -> Result<(), CommandError> {
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        for text in ["user", "owner", OPTION, VERSION, ""] {
            body.extend(text.as_bytes());
            body.push(0);
        }
        let length = u32::try_from(body.len() + 4).expect("a start is short");
        // A server that refuses may have closed the socket already; its message tells why.
        let sent = self.socket.write_all(&[&length.to_be_bytes()[..], &body].concat());
        loop {
            let (kind, body) = self.message().map_err(|error| match sent.as_ref().err() {
                Some(sent) => CommandError::Lost(sent.kind().into()),
                None => error,
            })?;
            match (kind, <[u8; 8]>::try_from(body.as_slice())) {
                (b'Z', _) => return Ok(()),
                (b'E', _) => return Err(refusal(&body)),
                (b'K', Ok(key)) => self.key = key,
                _ => {}
            }
        }
    }

    /// Has the server run the command of `request`, and gives its exit code. What it sends goes to
    /// `sink`, which ends the command by saying no.
    ///
    /// # Errors
    /// As [`CommandError`].
    pub fn run(
        &mut self,
        request: &[u8],
        sink: &mut dyn FnMut(Channel, &[u8]) -> bool,
    ) -> Result<Option<u8>, CommandError> {
        let text = encode(request);
        let length = u32::try_from(text.len() + 5)
            .map_err(|_| CommandError::Refused("the command is too long".into()))?;
        let message = [b"Q", &length.to_be_bytes()[..], text.as_bytes(), b"\0"].concat();
        self.socket.write_all(&message)?;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'd' => {
                    let Some((code, bytes)) = body.split_first() else { continue };
                    let Some(channel) = Channel::of(*code) else { continue };
                    if !sink(channel, bytes) {
                        return Ok(None);
                    }
                }
                b'C' => {
                    let text = String::from_utf8_lossy(&body);
                    let code = text.trim_end_matches('\0').strip_prefix("EXIT ");
                    let code = code.and_then(|code| code.parse().ok());
                    return code.map(Some).ok_or_else(|| {
                        CommandError::Refused("the server's answer has no exit code".into())
                    });
                }
                b'E' => return Err(refusal(&body)),
                _ => {}
            }
        }
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), CommandError> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some(length) = length.checked_sub(4).filter(|length| *length <= MAX_MESSAGE) else {
            return Err(CommandError::Refused("the server's answer is malformed".into()));
        };
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body)?;
        Ok((head[0], body))
    }
}

/// The text of an error message.
fn refusal(body: &[u8]) -> CommandError {
    let mut fields = body.split(|byte| *byte == 0);
    let text = fields.find_map(|field| field.strip_prefix(b"M"));
    let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    CommandError::Refused(format!("the server refuses: {text}"))
}

/// Is the process behind the socket the one that has the database open, and its owner's?
fn believe(directory: &Path, socket: &UnixStream) -> Result<(), CommandError> {
    let peer = rustix::net::sockopt::socket_peercred(socket).map_err(io::Error::from)?;
    let owner = std::fs::metadata(directory)?.uid();
    let uid = peer.uid.as_raw();
    if uid != owner && uid != 0 {
        let what = format!("its socket belongs to user {uid}, and the database to user {owner}");
        return Err(CommandError::Refused(what));
    }
    let holder = std::fs::read_to_string(directory.join(LOCK)).ok();
    let holder = holder.and_then(|text| text.trim().parse::<i32>().ok());
    let process = peer.pid.as_raw_nonzero().get();
    match holder {
        Some(holder) if !numbers_of(process).contains(&holder) => {
            Err(CommandError::Refused(format!(
                "its socket is of process {process}, and the database is open in process {holder}"
            )))
        }
        _ => Ok(()),
    }
}

/// The numbers of a process: its own here, and those inside of the containers that it runs in.
fn numbers_of(process: i32) -> Vec<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    let inside = inside.split_whitespace().filter_map(|number| number.parse().ok());
    std::iter::once(process).chain(inside).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A directory that says this process holds a database, and listens there.
    fn directory(holder: u32) -> (tempfile::TempDir, UnixListener) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LOCK), format!("{holder}\n")).unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        (folder, listener)
    }

    #[test]
    fn only_the_process_that_holds_the_database_is_believed() {
        let (folder, _listener) = directory(std::process::id());
        assert!(believe(folder.path(), &connect(folder.path()).unwrap()).is_ok());
        let (folder, _listener) = directory(1);
        let refused = believe(folder.path(), &connect(folder.path()).unwrap());
        assert!(matches!(refused, Err(CommandError::Refused(_))), "{refused:?}");
    }

    #[test]
    fn a_socket_that_nobody_listens_on_is_no_server() {
        let (folder, listener) = directory(std::process::id());
        drop(listener);
        assert!(matches!(Owner::connect(folder.path()), Err(CommandError::NotServed)));
        std::fs::remove_file(folder.path().join(SOCKET)).unwrap();
        assert!(matches!(Owner::connect(folder.path()), Err(CommandError::NotServed)));
    }

    #[test]
    fn a_long_path_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let path = SocketPath::of(&long, SOCKET).unwrap();
        let _listener = UnixListener::bind(path.path()).unwrap();
        assert!(connect(&long).is_ok());
    }
}
