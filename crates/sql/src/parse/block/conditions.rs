//! Conditions of handlers: errors by PostgreSQL's names of them, or by their codes.
//!
//! `conditions.txt` has the codes of PostgreSQL's appendix A with their names, a pair a line. Some
//! names stand for two codes.
//!
//! Invariants: a handler never takes the cancel of a statement for an error to go on from.
//! Does not do: names that users make.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::error::{Result, SqlError, code};
use crate::parse::cursor::Cursor;

/// An error that a handler is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Others,
    /// One of these codes. One that ends in 000 stands for its class.
    Codes(Vec<&'static str>),
}

impl Condition {
    /// Reads a name, OTHERS or SQLSTATE with a code.
    pub(super) fn read(cursor: &mut Cursor) -> Result<Condition> {
        if cursor.take("others") {
            return Ok(Condition::Others);
        }
        let condition = match cursor.take("sqlstate") {
            true => {
                let text = cursor.string().ok_or_else(|| cursor.unexpected())?;
                Condition::Codes(vec![code_of(&text)?])
            }
            false => Condition::Codes(codes_of(&cursor.name()?)?.to_vec()),
        };
        match &condition {
            Condition::Codes(codes) if codes.contains(&code::QUERY_CANCELED) => {
                Err(SqlError::unsupported("a handler of query_canceled"))
            }
            _ => Ok(condition),
        }
    }

    /// Is it for errors of this code?
    pub(crate) fn is_of(&self, sqlstate: &str) -> bool {
        let fits = |wanted: &&str| match wanted.strip_suffix("000") {
            Some(class) => sqlstate.starts_with(class),
            None => **wanted == *sqlstate,
        };
        match self {
            _ if sqlstate == code::QUERY_CANCELED => false,
            Condition::Others => true,
            Condition::Codes(codes) => codes.iter().any(fits),
        }
    }
}

/// The codes that a name stands for.
pub(super) fn codes_of(name: &str) -> Result<&'static [&'static str]> {
    static NAMES: OnceLock<HashMap<&str, Vec<&str>>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut names: HashMap<&str, Vec<&str>> = HashMap::new();
        for (code, name) in listed() {
            names.entry(name).or_default().push(code);
        }
        names
    });
    names.get(name).map(Vec::as_slice).ok_or_else(|| {
        let message = format!("unrecognized exception condition \"{name}\"");
        SqlError::new(code::UNDEFINED_OBJECT, message)
    })
}

/// The code that is written so, or of which this is the name.
pub(crate) fn code_or_name(text: &str) -> Result<&'static str> {
    if is_code(text) { code_of(text) } else { Ok(codes_of(text)?[0]) }
}

fn is_code(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    text.len() == 5 && text.bytes().all(fits)
}

/// The code that is written so.
///
/// # Errors
/// It is none that PostgreSQL names.
pub(super) fn code_of(text: &str) -> Result<&'static str> {
    if !is_code(text) {
        return Err(SqlError::syntax("invalid SQLSTATE code"));
    }
    let known = listed().find(|(code, _)| *code == text);
    let what = || SqlError::unsupported(format!("the error code {text}, which has no name,"));
    known.map(|(code, _)| code).ok_or_else(what)
}

fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("conditions.txt").lines().filter_map(|line| line.split_once(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_has_a_code_and_a_name() {
        for (code, name) in listed() {
            assert_eq!(code_of(code).unwrap(), code);
            assert!(codes_of(name).unwrap().contains(&code), "{name}");
        }
        assert_eq!(codes_of("string_data_right_truncation").unwrap(), ["01004", "22001"]);
    }

    #[test]
    fn a_class_takes_its_codes_and_nobody_takes_a_cancel() {
        let class = Condition::Codes(codes_of("integrity_constraint_violation").unwrap().to_vec());
        assert!(class.is_of(code::UNIQUE_VIOLATION) && !class.is_of(code::DIVISION_BY_ZERO));
        assert!(Condition::Others.is_of(code::UNIQUE_VIOLATION));
        assert!(!Condition::Others.is_of(code::QUERY_CANCELED));
    }
}
