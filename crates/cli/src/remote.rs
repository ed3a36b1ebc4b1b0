//! A command that another process runs, which has the database open: both sides of it.
//!
//! The client hands over its arguments as they were typed and prints what comes back. The server
//! reads them by the same definitions, so it must be of the same version, and runs the command on
//! its open database.
//!
//! Invariants: Ctrl-C ends the command in the server, not only its client; a second one ends the
//! client. A client that is gone ends its command.
//! Does not do: finding the server and trusting it (`rightlink_server`).

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::Parser;
use rightlink::{Database, Error};
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::thread::{JoinHandle, spawn};
use rightlink_server::{Call, Canceller, Channel, CommandError, Commands, Owner};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::args::{Args, Command};
use crate::failure::{Exit, Failure};
use crate::open;
use crate::output::Output;
use crate::progress;
use crate::upkeep_commands;
use crate::work::Work;

/// What a client asks for.
#[derive(Debug, PartialEq)]
struct Request {
    /// Where it is.
    folder: PathBuf,
    /// Does somebody look at its progress?
    watched: bool,
    arguments: Vec<OsString>,
}

impl Request {
    /// Fields that end with a zero byte, which no path or argument holds.
    fn encode(&self) -> Vec<u8> {
        let watched: &[u8] = if self.watched { b"watched" } else { b"" };
        let fields = [self.folder.as_os_str().as_bytes(), watched];
        let arguments = self.arguments.iter().map(|argument| argument.as_bytes());
        fields.into_iter().chain(arguments).flat_map(|field| [field, b"\0"].concat()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Request> {
        let mut fields = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let text = |field: &[u8]| OsString::from_vec(field.to_owned());
        let folder = PathBuf::from(text(fields.next()?));
        let watched = !fields.next()?.is_empty();
        Some(Request { folder, watched, arguments: fields.map(text).collect() })
    }
}

/// Runs the command of this process in the server that has the database at `path` open, `locked`
/// being why this process cannot.
pub(crate) fn run(path: &Path, locked: Error, output: &mut Output) -> Result<Exit, Failure> {
    let at = |error: CommandError| match error {
        CommandError::NotServed => open::at(path, locked.clone()),
        CommandError::Refused(_) => {
            Failure::new(Exit::Conflict, format!("{}: {error}", path.display()))
        }
        CommandError::Lost(_) => Failure::new(Exit::Io, format!("{}: {error}", path.display())),
    };
    let mut owner = Owner::connect(path).map_err(at)?;
    let request = Request {
        folder: std::env::current_dir().map_err(|error| Failure::file(".", &error))?,
        watched: !output.json() && io::stderr().is_terminal(),
        arguments: std::env::args_os().collect(),
    };
    let _signals = Interrupts::new(owner.canceller())?;
    let mut failed = None;
    let ended = owner.run(&request.encode(), &mut |channel, bytes| {
        let printed = match channel {
            Channel::Output => output.raw(bytes).and_then(|()| output.flush()),
            Channel::Errors => {
                // The exit code still tells when nobody reads this.
                let _ = output.flush().and_then(|()| Ok(io::stderr().write_all(bytes)?));
                Ok(())
            }
            Channel::Progress => {
                progress::draw(&String::from_utf8_lossy(bytes));
                Ok(())
            }
        };
        failed = printed.err();
        failed.is_none()
    });
    match (ended, failed) {
        (_, Some(failure)) => Err(failure),
        (Ok(code), None) => Ok(code.and_then(Exit::of).unwrap_or(Exit::Io)),
        (Err(error), None) => Err(at(error)),
    }
}

/// Hands Ctrl-C to the server as long as it lives.
struct Interrupts {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Interrupts {
    fn new(canceller: Canceller) -> Result<Interrupts, Failure> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::file("signals", &error))?;
        let handle = signals.handle();
        let asked = Arc::new(AtomicBool::new(false));
        let thread = spawn("interrupts", move || {
            for signal in signals.forever() {
                if asked.swap(true, Ordering::Relaxed) || canceller.cancel().is_err() {
                    // As a program ends that does nothing about the signal.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        });
        Ok(Interrupts { handle, thread: Some(thread) })
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It does nothing that could fail.
            let _ = thread.join();
        }
    }
}

/// Runs the commands of the owner of a served database.
pub(crate) struct Served(pub(crate) Database);

impl Commands for Served {
    fn run(&self, call: &Call) -> u8 {
        let json = self.json(call);
        match self.command(call) {
            Ok(exit) => exit as u8,
            Err(failure) => {
                if let Some(text) = failure.text(json) {
                    // The client is gone where this fails.
                    let _ = call.send(Channel::Errors, format!("{text}\n").as_bytes());
                }
                failure.exit as u8
            }
        }
    }
}

impl Served {
    fn json(&self, call: &Call) -> bool {
        let request = Request::decode(call.request());
        let arguments = request.map(|request| request.arguments).unwrap_or_default();
        arguments.iter().any(|argument| argument == "--json")
    }

    fn command(&self, call: &Call) -> Result<Exit, Failure> {
        let malformed = || Failure::usage("the server does not understand the command");
        let request = Request::decode(call.request()).ok_or_else(malformed)?;
        let args = Args::try_parse_from(&request.arguments).map_err(|_| malformed())?;
        let Command::Upkeep(command) = &args.command else {
            return Err(Failure::usage("the server does not run this command"));
        };
        let mut output = Output::of_call(args.common.json, call.clone(), request.watched);
        if command.outlives_reader() {
            output.outlive_reader();
        }
        let work = Work::called(&self.0, call, &request.folder);
        let exit = upkeep_commands::on(&work, command, &mut output)?;
        output.finish()?;
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let arguments = ["rightlink", "backup", "db", "with\nline", ""].map(OsString::from);
        let mut request =
            Request { folder: "/a b".into(), watched: true, arguments: arguments.to_vec() };
        request.arguments.push(OsString::from_vec(vec![0xff, b'x']));
        assert_eq!(Request::decode(&request.encode()), Some(request));
        for wrong in [&b""[..], b"x", b"\0"] {
            assert_eq!(Request::decode(wrong), None, "{wrong:?}");
        }
    }
}
