//! Wakes a connection that waits for its client, when it has something to tell.
//!
//! Invariants: whoever rings never waits. A ring that comes before the wait is not lost.
//! Does not do: say what there is to tell.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

use crate::transport::Socket;

/// A pair of sockets, of which one wakes who waits for the other.
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

    /// What others ring it by.
    pub(crate) fn ringer(&self) -> impl Fn() + Send + Sync + 'static {
        let rope = Arc::clone(&self.rope);
        move || {
            // Where it is full it has been rung, and nobody has come yet.
            let _ = (&*rope).write(&[1]);
        }
    }

    /// Waits until it is rung or the client has sent something. True: the client has.
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
