//! What the store takes from its surroundings: locks and atomics, threads, time, randomness,
//! memory, messages and named test points. Everything else in the workspace asks this crate, so a
//! simulation can replace all of it and one seed reproduces one run. Files are the business of
//! `rightlink-aio`.
//!
//! Invariants:
//! - `sync` is the only module that names the primitives of std or of the model checker.
//! - Nothing here performs I/O except the default logger, which writes to standard error, and
//!   [`stack`], which asks the system where a thread's stack ends.
//! - Durations and ordering come from the monotonic [`Clock`]; wall time is for display only.

mod broken;
pub mod budget;
pub mod clock;
mod locks;
pub mod log;
pub mod points;
pub mod rng;
pub mod stack;
pub mod sync;
pub mod thread;

pub use broken::Broken;
pub use budget::{Budget, Reservation};
pub use clock::{Clock, Nanos};
pub use locks::NoLocks;
pub use log::{Level, Logger};
pub use rng::Rng;

/// The surroundings of one instance. Cloning is cheap and shares clock, logger and budget.
#[derive(Clone, Debug)]
pub struct Env {
    /// Where time comes from.
    pub clock: Clock,
    /// Where one-line messages go.
    pub logger: Logger,
    /// The one memory budget of the instance.
    pub budget: Budget,
    /// What every random stream of the instance is derived from.
    pub seed: u64,
}

/// Memory that a simulated environment may use unless told otherwise.
const SIMULATED_BUDGET: usize = 256 << 20;

impl Env {
    /// Real time, messages to standard error, a seed from the system, `memory` bytes of budget.
    pub fn system(memory: usize) -> Env {
        Env {
            clock: Clock::system(),
            logger: Logger::stderr(Level::Info),
            budget: Budget::new(memory),
            seed: Rng::from_entropy().next_u64(),
        }
    }

    /// Simulated time and everything derived from `seed`; messages are dropped.
    pub fn simulated(seed: u64) -> Env {
        Env {
            clock: Clock::simulated(),
            logger: Logger::silent(),
            budget: Budget::new(SIMULATED_BUDGET),
            seed,
        }
    }

    /// The same surroundings with another logger.
    #[must_use]
    pub fn with_logger(mut self, logger: Logger) -> Env {
        self.logger = logger;
        self
    }

    /// The same surroundings with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Env {
        self.seed = seed;
        self
    }

    /// A random stream of its own for the user called `stream`. Two users with different names get
    /// independent streams, so that a draw more in one does not shift the other.
    pub fn rng(&self, stream: &str) -> Rng {
        let mut state = self.seed;
        for byte in stream.bytes() {
            state = Rng::from_seed(state ^ u64::from(byte)).next_u64();
        }
        Rng::from_seed(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_independent() {
        let env = Env::simulated(7);
        assert_eq!(env.rng("pool").next_u64(), env.rng("pool").next_u64());
        assert_ne!(env.rng("pool").next_u64(), env.rng("disk").next_u64());
        let other = Env::simulated(8);
        assert_ne!(env.rng("pool").next_u64(), other.rng("pool").next_u64());
    }
}
