//! Time for people: how long something took. The engine has a clock of its own.
//!
//! Invariants: never decides anything but how often a progress bar is drawn.
//! Does not do: dates.

use std::time::{Duration, Instant};

/// A running stopwatch.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[expect(clippy::disallowed_methods, reason = "shown to people only; nothing depends on it")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
