//! Messages as events of `tracing`, with the feature of that name.
//!
//! What is told: recovery, torn pages healed, checkpoints, vacuums and waits that took long, an I/O
//! method that the system refuses, work in the background that failed. The target is `rightlink`.
//!
//! Invariants: every message goes to the logger as well, and to `tracing` on the thread it is
//! about.
//! Does not do: spans; an event for each statement or page, which `Stats` counts.

use rightlink_env::{Level, Logger};

/// Sends messages to `inner` and to `tracing`.
pub(crate) fn logger(inner: Logger) -> Logger {
    Logger::new(move |level, line| {
        match level {
            Level::Error => tracing::error!(target: "rightlink", "{line}"),
            Level::Warn => tracing::warn!(target: "rightlink", "{line}"),
            Level::Info => tracing::info!(target: "rightlink", "{line}"),
            Level::Debug => tracing::debug!(target: "rightlink", "{line}"),
        }
        inner.log(level, line);
    })
}
