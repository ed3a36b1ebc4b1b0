//! Places in PostgreSQL's log: `pg_lsn`.
//!
//! Does not do: places in the log of the store, which are none.

use std::fmt;

/// A place in a log: the number of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lsn(
    /// The byte, from the beginning of the log.
    pub u64,
);

impl Lsn {
    /// The one that two hexadecimal numbers of eight digits at most are, with a slash between them.
    pub(crate) fn parse(text: &str) -> Option<Lsn> {
        let half = |digits: &str| {
            let fits = (1..=8).contains(&digits.len());
            let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            (fits && all).then(|| u64::from_str_radix(digits, 16).ok())?
        };
        let (high, low) = text.split_once('/')?;
        Some(Lsn(half(high)? << 32 | half(low)?))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }
}
