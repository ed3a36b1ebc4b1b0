//! Wakes a connection that waits for its client, when a notification has come.
//!
//! Invariants: a ring never blocks. A ring that comes before the wait is not lost.
//! Does not do: hand over the notification (the session's mailbox does).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

use crate::transport::Socket;

/// A pair of sockets: a byte written to one wakes the thread that polls the other.
pub(crate) struct Bell {
    rings: UnixStream,
    rope: Arc<UnixStream>,
}

impl Bell {
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn new() -> io::Result<Bell> {
        let (rings, rope) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        Ok(Bell { rings, rope: Arc::new(rope) })
    }

    /// The function by which other threads ring the bell.
    pub(crate) fn ringer(&self) -> impl Fn() + Send + Sync + 'static {
        let rope = Arc::clone(&self.rope);
        move || {
            // A full socket holds rings enough: the connection has not taken them yet.
            let _ = (&*rope).write(&[1]);
        }
    }

    /// Waits until the bell is rung or the client has sent bytes. True: bytes have come.
    pub(crate) fn wait(&self, socket: &Socket) -> io::Result<bool> {
        let mut fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(&self.rings, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [client, rung] = [0, 1].map(|at: usize| !fds[at].revents().is_empty());
        if rung {
            let mut rings = [0; 64];
            while (&self.rings).read(&mut rings).is_ok_and(|count| count == rings.len()) {}
        }
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_for_a_ring_and_for_a_client() {
        let (ours, mut client) = UnixStream::pair().unwrap();
        let socket = Socket::Unix(Arc::new(ours));
        let bell = Bell::new().unwrap();
        let ring = bell.ringer();
        (0..1_000_000).for_each(|_| ring());
        assert!(!bell.wait(&socket).unwrap(), "it was rung before");
        client.write_all(b"Q").unwrap();
        assert!(bell.wait(&socket).unwrap());
    }
}
