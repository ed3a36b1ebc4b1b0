//! Why a command ended without doing its work, and the exit code that says so.
//!
//! Invariants: the codes are documented in `args::EXIT_CODES` and in README.md and never change
//! their meaning. Does not do: recovery from anything.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use rightlink::Error;
use rightlink_sql::shown_text;

use crate::json::Json;

/// Exit code of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Wrong usage.
    Usage = 1,
    /// Bad input data.
    BadData = 2,
    /// Something named does not exist.
    NotFound = 3,
    /// Locked by another process, or in each other's way.
    Conflict = 4,
    /// Bytes on disk are not what was written.
    Damage = 5,
    /// The operating system refused, or memory has run out.
    Io = 6,
}

impl Exit {
    /// The one with this number.
    pub(crate) fn of(code: u8) -> Option<Exit> {
        use Exit::{BadData, Conflict, Damage, Done, Io, NotFound, Usage};
        let all = [Done, Usage, BadData, NotFound, Conflict, Damage, Io];
        all.into_iter().find(|exit| *exit as u8 == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A failed command: exit code, one message, and details for programs.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// For people, one line. Empty: say nothing.
    pub(crate) message: String,
    /// More for programs.
    pub(crate) details: Vec<(String, Json)>,
}

impl Failure {
    /// A failure of this kind.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), details: Vec::new() }
    }

    /// The command makes no sense as typed.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// An operating-system call on `name` failed.
    pub(crate) fn file(name: &str, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            io::ErrorKind::AlreadyExists => Exit::Conflict,
            _ => Exit::Io,
        };
        Self::new(exit, format!("{name}: {error}"))
    }

    /// Adds a detail for programs.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.details.push((key.to_owned(), value.into()));
        self
    }

    /// Adds a sentence for people.
    pub(crate) fn and(mut self, more: impl fmt::Display) -> Self {
        self.message = format!("{}; {more}", self.message);
        self
    }

    /// Says first what it is about.
    pub(crate) fn about(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self
    }

    /// Tells it on standard error.
    pub(crate) fn print(&self, json: bool) {
        if let Some(text) = self.text(json) {
            // The exit code still tells when nobody reads this.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// What there is to tell, for people or for programs.
    pub(crate) fn text(&self, json: bool) -> Option<String> {
        if self.message.is_empty() {
            return None;
        }
        Some(if json {
            let mut fields = vec![
                ("error".to_owned(), Json::from(self.message.as_str())),
                ("exit_code".to_owned(), Json::from(self.exit as u8)),
            ];
            fields.extend(self.details.iter().cloned());
            Json::Object(fields).to_string()
        } else {
            format!("rightlink: {}", self.message)
        })
    }
}

/// The exit code of an error of the engine.
fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Corruption { .. } => Exit::Damage,
        Error::Invalid(_) => Exit::Usage,
        Error::UniqueViolation { .. }
        | Error::KeyTwice(_)
        | Error::NotNullViolation { .. }
        | Error::CheckViolation { .. }
        | Error::Limit(_)
        | Error::RowTooLarge(_) => Exit::BadData,
        Error::NotFound(_) => Exit::NotFound,
        Error::Conflict { .. }
        | Error::AlreadyExists(_)
        | Error::Cancelled(_)
        | Error::LockTimeout { .. }
        | Error::Locked(_)
        | Error::SnapshotTooOld { .. }
        | Error::TransactionAborted => Exit::Conflict,
        _ => Exit::Io,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Failure::new(exit_of(&error), shown_text(&error.to_string()));
        match error {
            Error::Corruption { relation, file, block, .. } => {
                failure.with("relation", relation).with("file", file).with("block", block)
            }
            _ => failure,
        }
    }
}

/// Only standard output is written with `io::Write`; a reader that has seen enough is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Exit::Done, ""),
            _ => Failure::new(Exit::Io, format!("standard output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_documented_codes() {
        let corrupt = Error::corrupt_file("control", "bad checksum");
        assert_eq!(Failure::from(corrupt).exit, Exit::Damage);
        assert_eq!(Failure::from(Error::Locked("x".into())).exit, Exit::Conflict);
        assert_eq!(Failure::from(Error::DiskFull("x".into())).exit, Exit::Io);
        assert_eq!(Failure::from(Error::NotFound("x".into())).exit, Exit::NotFound);
        assert_eq!(Failure::from(Error::Limit("x".into())).exit, Exit::BadData);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Done, ""));
    }

    #[test]
    fn every_code_is_documented() {
        for code in 0..=6 {
            assert_eq!(Exit::of(code).map(|exit| exit as u8), Some(code));
            assert!(crate::args::EXIT_CODES.contains(&format!("\n  {code}  ")), "code {code}");
        }
    }
}
