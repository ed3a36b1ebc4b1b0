//! Who may connect.
//!
//! Invariants: no password is kept, only what can verify one (RFC 5803); a name that does not exist
//! takes as long and looks the same as a wrong password.
//! Does not do: rights; whoever is in may do everything.

pub(crate) mod scram;

use std::collections::HashMap;
use std::fmt;

pub use scram::verifier;

/// Names and what verifies their passwords.
#[derive(Clone, Default)]
pub struct Users(HashMap<String, scram::Verifier>);

/// A line of a file of users that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidUsers {
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for InvalidUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not NAME:SCRAM-SHA-256$...", self.line)
    }
}

impl std::error::Error for InvalidUsers {}

impl Users {
    /// Reads lines of `NAME:SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`, as PostgreSQL
    /// keeps passwords and [`verifier`] makes them. Empty lines and those that begin with `#` are
    /// skipped.
    ///
    /// # Errors
    /// The first line that is something else.
    pub fn parse(text: &str) -> Result<Users, InvalidUsers> {
        let mut users = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = line
                .split_once(':')
                .and_then(|(name, rest)| Some((name.to_owned(), scram::Verifier::parse(rest)?)));
            let (name, verifier) = parsed.ok_or(InvalidUsers { line: at + 1 })?;
            users.insert(name, verifier);
        }
        Ok(Users(users))
    }

    /// A secret that stays the same as long as the users do, so that what stands in for names that
    /// do not exist looks the same at every start.
    pub(crate) fn secret(&self) -> [u8; scram::KEY] {
        let mut lines: Vec<String> = self
            .0
            .iter()
            .map(|(name, verifier)| format!("{name}:{}\n", verifier.to_text()))
            .collect();
        lines.sort();
        scram::mac(b"rightlink stand-ins", lines.concat().as_bytes())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&scram::Verifier> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_follows_from_the_users() {
        let (ann, bob) = (verifier("one").unwrap(), verifier("two").unwrap());
        let users = |text: &str| Users::parse(text).unwrap().secret();
        let both = users(&format!("ann:{ann}\nbob:{bob}\n"));
        assert_eq!(both, users(&format!("# a comment\nbob:{bob}\nann:{ann}\n")));
        assert_ne!(both, users(&format!("ann:{bob}\nbob:{ann}\n")));
        assert_ne!(both, users(&format!("ann:{ann}\n")));
    }
}
