//! Sockets with and without TLS, and the bytes that have arrived.
//!
//! Invariants: a read appends what is there and never waits for more than one byte; a buffer grows
//! with what arrives, not with what is claimed.
//! Does not do: messages.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Uid;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::origin::Origin;

/// Bytes asked for at a time.
const CHUNK: usize = 16 << 10;
/// A connected socket. Clones are the same descriptor, which closes with the last of them.
#[derive(Clone)]
pub(crate) enum Socket {
    Tcp(Arc<TcpStream>),
    Unix(Arc<UnixStream>),
}

impl Socket {
    /// Ends one direction or both; whoever blocks there comes back.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // It fails where the peer has ended it already.
        let _ = match self {
            Socket::Tcp(socket) => socket.shutdown(how),
            Socket::Unix(socket) => socket.shutdown(how),
        };
    }

    /// How a blocking connection behaves: no delays, and a peer without power is noticed when it is
    /// idle; what was sent it must take within `limit`, unless that is zero.
    pub(crate) fn prepare(&self, limit: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(socket, true)?;
                rustix::net::sockopt::set_tcp_keepidle(socket, Duration::from_secs(60))?;
                rustix::net::sockopt::set_tcp_keepintvl(socket, Duration::from_secs(10))?;
                rustix::net::sockopt::set_tcp_keepcnt(socket, 3)?;
                if !limit.is_zero() {
                    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
                    rustix::net::sockopt::set_tcp_user_timeout(socket, millis)?;
                }
                Ok(())
            }
            Socket::Unix(socket) => socket.set_nonblocking(false),
        }
    }

    /// Where it comes from, as far as limits tell origins apart.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Socket::Tcp(socket) => Origin::of(socket.peer_addr().ok().map(|peer| peer.ip())),
            Socket::Unix(_) => Origin::Owner,
        }
    }

    /// Sends a message that fits into the system's buffers, or a part of it.
    pub(crate) fn send_at_once(&self, bytes: &[u8]) {
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        // The client may be gone.
        let _ = rustix::net::send(self, bytes, flags);
    }

    /// Reads and forgets what has arrived. A socket that is closed with unread bytes is reset, and
    /// the client may lose the last message to it.
    pub(crate) fn discard_arrived(&self) {
        const MOST: usize = 64;
        let mut bytes = [0; 1_024];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        for _ in 0..MOST {
            match rustix::net::recv(self, &mut bytes, flags) {
                Ok((count, _)) if count > 0 => {}
                _ => return,
            }
        }
    }

    /// The address of the other side, if it has one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// Is it a connection from another machine?
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Socket::Tcp(socket) => !socket.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()),
            Socket::Unix(_) => false,
        }
    }

    /// Was it made through a file that only its owner may open?
    pub(crate) fn is_local_file(&self) -> bool {
        matches!(self, Socket::Unix(_))
    }

    /// May its maker be here? A socket in the file system is for its owner and for root; between
    /// its making and the change of its mode others might have found it open.
    pub(crate) fn is_ours(&self) -> bool {
        match self {
            Socket::Tcp(_) => true,
            Socket::Unix(socket) => rustix::net::sockopt::socket_peercred(socket)
                .is_ok_and(|peer| may_enter(peer.uid, rustix::process::geteuid())),
        }
    }

    /// Has the other side gone away? Bytes that wait to be read do not hide it.
    pub(crate) fn is_gone(&self) -> bool {
        let wanted = PollFlags::RDHUP;
        let mut fds = [PollFd::new(self, wanted)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(gone))
    }
}

/// Is a user the server's own, or root?
fn may_enter(user: Uid, own: Uid) -> bool {
    user == own || user.is_root()
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&**socket).read(buf),
            Socket::Unix(socket) => (&**socket).read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&**socket).write(buf),
            Socket::Unix(socket) => (&**socket).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket, encrypted or not.
pub(crate) enum Transport {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Transport {
    /// Goes over to TLS; the handshake comes with the first bytes.
    pub(crate) fn encrypt(self, config: &Arc<ServerConfig>) -> io::Result<Transport> {
        match self {
            Transport::Plain(socket) => {
                let session =
                    ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                Ok(Transport::Tls(Box::new(StreamOwned::new(session, socket))))
            }
            tls @ Transport::Tls(_) => Ok(tls),
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }

    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => &stream.sock,
        }
    }

    /// Have bytes arrived that a look at the socket does not show?
    pub(crate) fn has_arrived(&mut self) -> bool {
        match self {
            Transport::Plain(_) => false,
            // A failure shows when it is read.
            Transport::Tls(stream) => match stream.conn.process_new_packets() {
                Ok(state) => state.plaintext_bytes_to_read() > 0,
                Err(_) => true,
            },
        }
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.write_all(bytes),
            Transport::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                Transport::Plain(socket) => socket.read(buf),
                Transport::Tls(stream) => stream.read(buf),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A peer that goes away without a word of TLS goes away all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
        }
    }
}

/// Bytes that have arrived and were not used yet.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Input {
    /// What waits.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// The first `count` bytes are used.
    pub(crate) fn take(&mut self, count: usize) {
        assert!(count <= self.to - self.from, "only what is there is taken");
        self.from += count;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Waits for more; false at the end. `claimed` is the length of the message under way.
    pub(crate) fn read(&mut self, transport: &mut Transport, claimed: usize) -> io::Result<bool> {
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        // Memory of a long message is given back after it.
        let large = CHUNK * 16;
        if self.to == 0 && self.bytes.len() > large {
            self.bytes = Vec::new();
        }
        // Room doubles with what has arrived, up to the message's end.
        let room = CHUNK.max(self.to.min(claimed.saturating_sub(self.to)));
        if self.bytes.len() < self.to + room {
            self.bytes.resize(self.to + room, 0);
        }
        let count = transport.read(&mut self.bytes[self.to..])?;
        self.to += count;
        Ok(count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_in_the_file_system_is_for_its_owner_and_for_root() {
        let (ours, _other) = UnixStream::pair().unwrap();
        assert!(Socket::Unix(Arc::new(ours)).is_ours());
        let user = |number| Uid::from_raw(number);
        assert!(may_enter(user(1_000), user(1_000)) && may_enter(user(0), user(1_000)));
        assert!(!may_enter(user(1_001), user(1_000)) && !may_enter(user(1_000), user(0)));
    }

    #[test]
    fn who_takes_nothing_is_given_up_only_where_that_is_asked_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for (limit, millis) in [(Duration::ZERO, 0), (Duration::from_secs(7), 7_000)] {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let socket = Socket::Tcp(Arc::new(stream));
            socket.prepare(limit).unwrap();
            assert_eq!(rustix::net::sockopt::tcp_user_timeout(&socket).unwrap(), millis);
        }
    }
}
