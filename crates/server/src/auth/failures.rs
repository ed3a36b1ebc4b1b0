//! Logins that have failed: each is slower than the one before it, and told to the operator.
//!
//! A login that fails is answered after a delay, which doubles with every failure of the same
//! origin up to [`LONGEST`] and is forgotten after [`FORGOTTEN`] without one. A login that succeeds
//! never waits. PostgreSQL's `auth_delay` is the model; its delay is fixed.
//!
//! Invariants: memory is bounded by [`ORIGINS`], whatever addresses exist; at most
//! [`LINES_PER_SECOND`] lines are logged in a second, and those left out are counted in the next.
//! Does not do: refusing an origin, which would let an attacker lock others out.

use std::collections::HashMap;
use std::time::Duration;

use rightlink_env::sync::Mutex;
use rightlink_env::{Logger, Nanos};

use crate::origin::Origin;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_millis(3_200);
const FORGOTTEN: Duration = Duration::from_secs(60);
const ORIGINS: usize = 4_096;
const LINES_PER_SECOND: u32 = 10;
/// Characters of a user's name that are logged.
const NAME: usize = 63;

/// Failures of one origin in a row.
struct Record {
    count: u32,
    last: Nanos,
}

#[derive(Default)]
struct State {
    records: HashMap<Origin, Record>,
    lines: Lines,
}

/// How much was logged lately.
#[derive(Default)]
struct Lines {
    second: u64,
    count: u32,
    left_out: u64,
}

/// Failed logins of all origins.
pub(crate) struct Failures {
    logger: Logger,
    state: Mutex<State>,
}

impl Failures {
    pub(crate) fn new(logger: Logger) -> Failures {
        Failures { logger, state: Mutex::default() }
    }

    /// A login as `user` has failed; gives how long its answer must wait. `client` is the address
    /// with its port.
    pub(crate) fn failed(&self, origin: Origin, client: &str, login: &Login<'_>) -> Duration {
        let mut state = self.state.lock();
        let count = state.count(origin, login.now);
        if let Some(left_out) = state.lines.admit(login.now) {
            let more = match left_out {
                0 => String::new(),
                1 => " (1 more failed login is not listed)".to_owned(),
                count => format!(" ({count} more failed logins are not listed)"),
            };
            let user: String = login.user.chars().take(NAME).collect();
            let user = user.escape_debug();
            self.logger.warn(&format!("login as \"{user}\" from {client} failed{more}"));
        }
        let doublings = count.saturating_sub(1).min(16);
        SHORTEST.saturating_mul(1 << doublings).min(LONGEST)
    }
}

/// An attempt to log in.
pub(crate) struct Login<'a> {
    pub(crate) user: &'a str,
    pub(crate) now: Nanos,
}

impl State {
    /// Counts a failure and gives how many there were in a row.
    fn count(&mut self, origin: Origin, now: Nanos) -> u32 {
        if self.records.len() >= ORIGINS && !self.records.contains_key(&origin) {
            self.records.retain(|_, record| now.since(record.last) < FORGOTTEN);
            let oldest = self.records.iter().min_by_key(|(_, record)| record.last.0);
            let oldest = oldest.map(|(origin, _)| *origin);
            if let Some(oldest) = oldest.filter(|_| self.records.len() >= ORIGINS) {
                self.records.remove(&oldest);
            }
        }
        let record = self.records.entry(origin).or_insert(Record { count: 0, last: now });
        if now.since(record.last) >= FORGOTTEN {
            record.count = 0;
        }
        record.count = record.count.saturating_add(1);
        record.last = now;
        record.count
    }
}

impl Lines {
    /// May a line be logged now? Gives how many were left out before it.
    fn admit(&mut self, now: Nanos) -> Option<u64> {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        if self.count >= LINES_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    fn from(last: u8) -> Origin {
        Origin::Address([10, 0, 0, last].into())
    }

    #[test]
    fn each_failure_of_an_address_waits_longer_until_it_is_forgotten() {
        let failures = Failures::new(Logger::silent());
        let fails = |origin, millis| {
            let login = Login { user: "ann", now: at(millis) };
            failures.failed(origin, "x", &login).as_millis()
        };
        let delays: Vec<u128> = (0..8).map(|turn| fails(from(1), turn)).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 3_200, 3_200]);
        assert_eq!(fails(from(2), 10), 100, "another address");
        assert_eq!(fails(from(1), 59_000), 3_200);
        assert_eq!(fails(from(1), 119_100), 100);
    }

    #[test]
    fn many_addresses_and_many_lines_are_bounded() {
        let (logger, lines) = Logger::collecting();
        let failures = Failures::new(logger);
        for number in 0..10_000u32 {
            let origin = Origin::Address(number.to_be_bytes().into());
            let login = Login { user: "a\nb", now: at(u64::from(number / 1_000)) };
            failures.failed(origin, "1.2.3.4:5", &login);
        }
        assert!(failures.state.lock().records.len() <= ORIGINS);
        assert_eq!(lines.all().len(), LINES_PER_SECOND as usize);
        let login = Login { user: &"é".repeat(200), now: at(1_000) };
        failures.failed(from(1), "1.2.3.4:5", &login);
        assert_eq!(lines.containing("(9990 more failed logins are not listed)"), 1);
        assert_eq!(lines.containing(&"é".repeat(64)), 0);
        assert_eq!(lines.containing("login as \"a\\nb\" from 1.2.3.4:5 failed"), 10);
    }
}
