//! Time. Order and durations come from [`Clock::now`], which is monotonic; [`Clock::unix_micros`]
//! is for display only. A simulated clock stands still until somebody advances it or sleeps on it,
//! so a run in simulated time takes no real time and always takes the same simulated time.
#![expect(clippy::disallowed_methods, reason = "the one place that reads the system's clocks")]

use crate::sync::{Arc, AtomicU64, Ordering};
use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds since the clock was made. Only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The time from `earlier` to here; zero if it is not earlier.
    pub fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Nanos {
    type Output = Nanos;
    fn add(self, duration: Duration) -> Nanos {
        Nanos(self.0.saturating_add(nanos_of(duration)))
    }
}

impl Sub<Nanos> for Nanos {
    type Output = Duration;
    fn sub(self, earlier: Nanos) -> Duration {
        self.since(earlier)
    }
}

/// A duration in nanoseconds, 584 years at most.
fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Where a simulated run's wall clock starts: 2001-09-09T01:46:40Z.
const SIMULATED_EPOCH_MICROS: i64 = 1_000_000_000_000_000;

/// By how much a sleep may end late; more on a busy machine.
const OVERSLEEP: Duration = Duration::from_micros(80);

/// A source of time. Clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System { origin: Instant },
    Simulated { now: Arc<AtomicU64> },
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Clock {
        Clock { source: Source::System { origin: Instant::now() } }
    }

    /// A clock that starts at zero and moves only by [`Clock::advance`] and [`Clock::sleep`].
    pub fn simulated() -> Clock {
        Clock { source: Source::Simulated { now: Arc::new(AtomicU64::new(0)) } }
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.source, Source::Simulated { .. })
    }

    /// The time now; never less than an earlier answer.
    pub fn now(&self) -> Nanos {
        match &self.source {
            Source::System { origin } => Nanos(nanos_of(origin.elapsed())),
            Source::Simulated { now } => Nanos(now.load(Ordering::SeqCst)),
        }
    }

    /// Waits, or moves simulated time forward by `duration`.
    pub fn sleep(&self, duration: Duration) {
        match &self.source {
            Source::System { .. } => crate::thread::sleep(duration),
            Source::Simulated { .. } => self.advance(duration),
        }
    }

    /// Waits until `then`; at once if that is past. Two sleepers on a simulated clock overlap, as
    /// they would in real time.
    pub fn sleep_until(&self, then: Nanos) {
        match &self.source {
            Source::System { .. } => self.sleep_rest(then),
            Source::Simulated { now } => {
                now.fetch_max(then.0, Ordering::SeqCst);
            }
        }
    }

    /// Sleeps for most of the time and looks at the clock for the last of it, because a sleep ends
    /// late by what the kernel pleases, and modelled devices are waited for with this.
    fn sleep_rest(&self, then: Nanos) {
        let rest = then.since(self.now());
        if rest > OVERSLEEP {
            crate::thread::sleep(rest - OVERSLEEP);
        }
        while self.now() < then {
            crate::thread::yield_now();
        }
    }

    /// Moves simulated time forward.
    ///
    /// # Panics
    /// On the system's clock, which nobody moves.
    pub fn advance(&self, duration: Duration) {
        match &self.source {
            Source::System { .. } => panic!("the system's clock cannot be advanced"),
            Source::Simulated { now } => {
                let before = now.fetch_add(nanos_of(duration), Ordering::SeqCst);
                assert!(before.checked_add(nanos_of(duration)).is_some(), "simulated time ends");
            }
        }
    }

    /// Microseconds since 1970, for people to read; it may jump, so nothing is ordered by it.
    pub fn unix_micros(&self) -> i64 {
        match &self.source {
            Source::System { .. } => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Simulated { now } => {
                let micros = now.load(Ordering::SeqCst) / 1_000;
                SIMULATED_EPOCH_MICROS.saturating_add(i64::try_from(micros).unwrap_or(i64::MAX))
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_moves_only_when_told() {
        let clock = Clock::simulated();
        let shared = clock.clone();
        assert_eq!(clock.now(), Nanos(0));
        shared.sleep(Duration::from_micros(3));
        shared.advance(Duration::from_nanos(5));
        assert_eq!(clock.now(), Nanos(3_005));
        clock.sleep_until(Nanos(2_000));
        assert_eq!(clock.now(), Nanos(3_005));
        clock.sleep_until(Nanos(4_000));
        assert_eq!(clock.now() - Nanos(1_000), Duration::from_micros(3));
        assert_eq!(clock.unix_micros(), SIMULATED_EPOCH_MICROS + 4);
    }

    #[test]
    fn system_time_is_monotonic() {
        let clock = Clock::system();
        let before = clock.now();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.now() - before >= Duration::from_millis(2));
        assert!(clock.unix_micros() > SIMULATED_EPOCH_MICROS);
        assert_eq!(before.since(clock.now()), Duration::ZERO);
    }
}
