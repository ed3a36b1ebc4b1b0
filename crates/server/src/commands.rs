//! Commands of the database's owner, which the server's process runs: backup, verify and the like
//! on a database that is served, so that no other process could open it.
//!
//! 1. A client starts with the option [`OPTION`], whose value is the version of its program. Only
//!    the owner's Unix socket takes it (`server`), so the client's user is known from the socket's
//!    credentials.
//! 2. The server answers with the key for cancel requests and with ReadyForQuery.
//! 3. The client sends one Query message, whose text is the request in hexadecimal digits.
//! 4. The server sends CopyData messages, whose first byte names the [`Channel`], and at the end
//!    CommandComplete with `EXIT n`, or an error.
//!
//! PostgreSQL's replication protocol is the model: another mode of a connection, chosen when it
//! starts, which cannot be reached by SQL.
//!
//! Invariants: a command ends by its interrupt, like a statement, when its client asks for it or is
//! gone, or when the server stops. What is sent waits in no buffer.
//! Does not do: the commands themselves ([`Commands`]).

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rightlink::CancelHandle;
use rightlink_env::sync::Mutex;
use rightlink_env::thread;
use rightlink_sql::{Interrupt, Reason, SqlError, TransactionStatus};

use crate::peers::{End, Peer, Phase};
use crate::protocol::backend::Out;
use crate::protocol::frontend::{self, Message, Violation};
use crate::transport::{Input, Socket, Transport};

/// The option of a start that asks for commands instead of SQL.
pub(crate) const OPTION: &str = "rightlink_command";
/// Programs of other versions may print or mean something else.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest request.
const MAX_REQUEST: usize = 1 << 20;
/// Bytes of one message.
const PIECE: usize = 32 << 10;

/// Where the bytes that a command sends belong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
    /// How far the work is, as one line that the next one replaces. Empty: the line goes.
    Progress,
}

impl Channel {
    fn code(self) -> u8 {
        match self {
            Channel::Output => b'o',
            Channel::Errors => b'e',
            Channel::Progress => b'p',
        }
    }

    pub(crate) fn of(code: u8) -> Option<Channel> {
        [Channel::Output, Channel::Errors, Channel::Progress]
            .into_iter()
            .find(|channel| channel.code() == code)
    }
}

/// What runs the commands of a server's owner.
pub trait Commands: Send + Sync {
    /// Runs the command that `call` asks for, and gives its exit code.
    fn run(&self, call: &Call) -> u8;
}

/// A command that a client waits for. Clones are the same command.
#[derive(Clone)]
pub struct Call {
    request: Arc<[u8]>,
    socket: Arc<Mutex<Socket>>,
    peer: Arc<Peer>,
    interrupt: Interrupt,
}

/// Whether a command must end, for its other threads. Clones are about the same command.
#[derive(Clone, Debug)]
pub struct Ending(Interrupt);

impl Ending {
    /// Why the command must end, if it must.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason().map(|reason| match reason {
            Reason::Request | Reason::Timeout => "by request",
            Reason::Gone => "its client is gone",
            Reason::Shutdown => "the server stops",
        })
    }

    /// A transaction runs from now on, whose waits must end too.
    pub fn watch(&self, handle: CancelHandle) {
        self.0.watch(handle);
    }
}

impl Call {
    /// What the client has sent.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Must the command end?
    pub fn ending(&self) -> Ending {
        Ending(self.interrupt.clone())
    }

    /// Sends bytes to the client, which may be none.
    ///
    /// # Errors
    /// The client is gone.
    pub fn send(&self, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        let mut socket = self.socket.lock();
        let mut out = Out::default();
        let mut rest = bytes;
        loop {
            let (piece, later) = rest.split_at(rest.len().min(PIECE));
            out.copy_data(&[&[channel.code()], piece].concat());
            socket.write_all(out.bytes())?;
            out.clear();
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sleeps; false if the command must end. A server that stops does not wait for a command that
    /// sleeps.
    pub fn sleep(&self, time: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(50);
        let must_end = || {
            let peer = &self.peer;
            self.interrupt.reason().is_some() || peer.end() != End::None || peer.is_gone()
        };
        self.peer.enter(Phase::Idle);
        let mut left = time;
        while !left.is_zero() && !must_end() {
            let step = left.min(STEP);
            thread::sleep(step);
            left -= step;
        }
        self.peer.enter(Phase::Busy);
        !must_end()
    }
}

/// A connection that runs a command.
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) input: Input,
    pub(crate) out: Out,
    pub(crate) peer: Arc<Peer>,
}

impl Connection {
    /// Waits for the request and runs it.
    pub(crate) fn serve(mut self, commands: &dyn Commands) {
        if let Err(error) = self.run(commands) {
            self.out.error(&error, "FATAL");
        }
        // The client may be gone.
        let _ = self.transport.send(self.out.bytes());
    }

    /// Tells the client why it is not served.
    pub(crate) fn refuse(mut self, error: &SqlError) {
        self.out.error(error, "FATAL");
        // The client may be gone.
        let _ = self.transport.send(self.out.bytes());
        self.transport.socket().discard_arrived();
    }

    fn run(&mut self, commands: &dyn Commands) -> Result<(), SqlError> {
        self.out.key(self.peer.pid, self.peer.secret);
        self.out.ready(TransactionStatus::Idle);
        let sent = self.transport.send(self.out.bytes());
        sent.map_err(|error| crate::sink::lost(&error))?;
        self.out.clear();
        self.peer.enter(Phase::Idle);
        let Some(request) = self.request()? else { return Ok(()) };
        let interrupt = Interrupt::new();
        self.peer.obey(interrupt.clone());
        self.peer.enter(Phase::Busy);
        let socket = Arc::new(Mutex::new(self.transport.socket().clone()));
        let (request, peer) = (request.into(), Arc::clone(&self.peer));
        let code = commands.run(&Call { request, socket, peer, interrupt });
        self.out.complete(&format!("EXIT {code}"));
        Ok(())
    }

    /// The request; `None` if the client has gone.
    fn request(&mut self) -> Result<Option<Vec<u8>>, SqlError> {
        loop {
            let frame = frontend::frame(self.input.waiting(), MAX_REQUEST)?;
            if let Some((kind, body, taken)) = frame {
                let request = match frontend::message(kind, body)? {
                    Message::Query(text) => decode(text)?,
                    Message::Terminate => return Ok(None),
                    _ => return Err(Violation::new("expected a command").into()),
                };
                self.input.take(taken);
                return Ok(Some(request));
            }
            let read = self.input.read(&mut self.transport, 0);
            match read.map_err(|error| crate::sink::lost(&error))? {
                true => {}
                false => return Ok(None),
            }
        }
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(text: &str) -> Result<Vec<u8>, Violation> {
    let malformed = Violation::new("a command is not in hexadecimal digits");
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(malformed);
    }
    let byte = |pair: &[u8; 2]| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(pair[0])? << 4 | digit(pair[1])?;
        u8::try_from(value).ok()
    };
    pairs.iter().map(byte).collect::<Option<Vec<u8>>>().ok_or(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_any_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        for wrong in ["0", "0g", "éa", "+1"] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn channels_have_codes() {
        for channel in [Channel::Output, Channel::Errors, Channel::Progress] {
            assert_eq!(Channel::of(channel.code()), Some(channel));
        }
        assert_eq!(Channel::of(b'x'), None);
    }
}
