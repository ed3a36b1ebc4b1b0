//! What an `Io` and its files share: clock, modelled device, counters. It does not know the engine
//! that carries operations out, so that an operation in flight, which holds its file, never keeps
//! the engine alive.

use crate::device::Device;
use crate::error::IoError;
use crate::flight::Flight;
use crate::options::IoOptions;
use crate::progress::Direction;
use rightlink_env::sync::{AtomicU64, Ordering};
use rightlink_env::{Clock, Env, Logger, Nanos};

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) logger: Logger,
    pub(crate) device: Option<Device>,
    pub(crate) flight: Flight,
    pub(crate) stats: Stats,
}

impl Core {
    pub(crate) fn new(env: &Env, options: &IoOptions) -> Core {
        Core {
            clock: env.clock.clone(),
            logger: env.logger.clone(),
            device: options.device.map(Device::new),
            flight: Flight::new(options.depth),
            stats: Stats::default(),
        }
    }

    /// When the modelled device would be done with an operation that arrives now.
    pub(crate) fn due(&self, bytes: usize) -> Option<Nanos> {
        self.device.as_ref().map(|device| device.schedule(self.clock.now(), bytes))
    }

    /// As [`Core::wait_due`], but gives the processor up until then and ends a little late: for
    /// threads of which there are many.
    pub(crate) fn sleep_due(&self, due: Option<Nanos>) {
        match due {
            Some(due) if !self.clock.is_simulated() => {
                let rest = due - self.clock.now();
                if !rest.is_zero() {
                    self.clock.sleep(rest);
                }
            }
            due => self.wait_due(due),
        }
    }

    /// Waits until the modelled device is done.
    pub(crate) fn wait_due(&self, due: Option<Nanos>) {
        if let Some(due) = due {
            self.clock.sleep_until(due);
        }
    }
}

/// Counters, each for itself exact.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
    errors: AtomicU64,
}

impl Stats {
    pub(crate) fn count(&self, direction: Direction, result: &Result<usize, IoError>) {
        let Ok(bytes) = result else {
            self.errors.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let (calls, sum) = match direction {
            Direction::Read => (&self.reads, &self.read_bytes),
            Direction::Write => (&self.writes, &self.write_bytes),
        };
        calls.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(*bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, flight: &Flight) -> IoStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mean_depth, max_depth) = flight.depths();
        IoStats {
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            writes: load(&self.writes),
            write_bytes: load(&self.write_bytes),
            syncs: load(&self.syncs),
            errors: load(&self.errors),
            mean_depth,
            max_depth,
        }
    }
}

/// What an `Io` has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoStats {
    /// Reads that succeeded, blocking and asynchronous.
    pub reads: u64,
    /// Bytes they read.
    pub read_bytes: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes they wrote.
    pub write_bytes: u64,
    /// Syncs of files and directories that succeeded.
    pub syncs: u64,
    /// Reads and writes that failed.
    pub errors: u64,
    /// Mean number of asynchronous operations in flight, as each submit found it.
    pub mean_depth: f64,
    /// The most asynchronous operations in flight.
    pub max_depth: u32,
}
