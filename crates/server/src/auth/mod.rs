//! Who may connect.
//!
//! | file | hides |
//! |---|---|
//! | `scram` | SCRAM-SHA-256, the server's side |
//! | `rules` | who may connect from where |
//! | `failures` | failed logins: the delay of their answers, the lines about them |
//!
//! Invariants: no password is kept, only what can verify one (RFC 5803); a name that does not exist
//! takes as long and looks the same as a wrong password.
//! Does not do: privileges of those who are in (SQL knows their roles).

pub(crate) mod failures;
pub(crate) mod rules;
pub(crate) mod scram;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::config_error::{ConfigError, check_secret};

pub use rules::{InvalidRules, Rules};
pub use scram::verifier;

/// Names and what verifies their passwords.
#[derive(Clone, Default)]
pub struct Users(BTreeMap<String, scram::Verifier>);

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
        let mut users = BTreeMap::new();
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
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(name, verifier)| format!("{name}:{}\n", verifier.to_text()))
            .collect();
        scram::mac(b"rightlink stand-ins", lines.concat().as_bytes())
    }

    /// Reads a file of users, as [`Users::parse`] does. It must be its owner's alone: whoever reads
    /// a verifier can try passwords against it, and whoever writes one is in.
    ///
    /// # Errors
    /// A file that cannot be read, that others may read or write, or that holds another line.
    pub fn read(path: &Path) -> Result<Users, ConfigError> {
        let name = path.display().to_string();
        let failed = |error| ConfigError::Io(name.clone(), error);
        check_secret(path, "the file of users")?;
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Users::parse(&text).map_err(|error| ConfigError::Data(format!("{name}: {error}")))
    }

    /// Is there a user of this name?
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&scram::Verifier> {
        self.0.get(name)
    }

    /// A verifier whose iterations and length of salt a name that does not exist is answered with.
    /// The choice depends on the name alone, so unknown names show the same counts as known ones,
    /// as often.
    pub(crate) fn model(&self, name: &str, secret: &[u8; scram::KEY]) -> Option<&scram::Verifier> {
        let digest = scram::mac(secret, &[b"model ", name.as_bytes()].concat());
        let number = u64::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"));
        let at = usize::try_from(number % self.0.len().max(1) as u64).expect("below a length");
        self.0.values().nth(at)
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

    /// With users of 20,000 iterations, an unknown name used to be answered with 4,096.
    #[test]
    fn a_name_that_does_not_exist_looks_like_one_that_does() {
        let many = |iterations: u32, salt: &str| {
            let keys = scram::Verifier::parse(&verifier("x").unwrap()).unwrap().to_text();
            let keys = keys.split('$').nth(2).unwrap().to_owned();
            format!("SCRAM-SHA-256${iterations}:{salt}${keys}")
        };
        let long = many(20_000, "c2FsdHNhbHRzYWx0c2FsdHNhbHQ=");
        let users = Users::parse(&format!("ann:{long}\nbob:{long}\n")).unwrap();
        for name in ["carl", "dora", "", "ann "] {
            let shown = users.model(name, &[7; scram::KEY]).unwrap().shape();
            assert_eq!(shown, users.find("ann").unwrap().shape(), "{name}");
        }
        // Where known names differ, unknown ones do too, each always in the same way.
        let short = many(4_096, "c2FsdA==");
        let users = Users::parse(&format!("ann:{long}\nbob:{short}\n")).unwrap();
        let shape = |name: &str| users.model(name, &[7; scram::KEY]).unwrap().shape();
        let names: Vec<String> = (0..100).map(|number| format!("user{number}")).collect();
        let like_ann = names.iter().filter(|name| shape(name).iterations == 20_000).count();
        assert!((20..80).contains(&like_ann), "{like_ann}");
        assert!(names.iter().all(|name| shape(name) == shape(name)));
    }
}
