//! What the device under a database can take: how many reads it serves at once.
//!
//! It is measured once, by direct reads of a small file of its own, when the database is created or
//! first opened by a program that knows how, and kept in the control file. A depth that is set
//! counts more, a modelled device knows its own, and in a simulation nothing is measured, so that
//! one seed stays one run.
//!
//! Invariants: a failed or impossible measurement fails nothing; the usual depth is taken then.
//! Does not do: notice that a database was moved to another device.

use std::time::Duration;

use rightlink_aio::{Io, IoOptions, Method, device_depth};
use rightlink_env::{Env, Logger};

use crate::buffer::BufferPool;
use crate::upkeep::Options;

/// Most reads and writes in flight at once, unless it is said: what streams ask for, and room for
/// write-back beside it.
pub(crate) const MOST_IN_FLIGHT: u32 = 256;
/// Most reads in flight that any device is measured with.
const MOST_READS: u32 = 128;
/// Time for the measurement.
const WITHIN: Duration = Duration::from_millis(100);
/// Reads that a device is taken to serve at once where nothing was measured.
const USUAL: u32 = 64;
/// No less, whatever was measured: a busy neighbour may have made the device look small, and reads
/// that are handed over together keep a longer queue busy than those of the measurement.
const LEAST: u32 = 64;

/// Reads that the device serves at once: as `known` from before, else as measured now; 0 if that
/// cannot be told or is not asked for.
pub(crate) fn measure(options: &Options, known: u32) -> u32 {
    let said = options.depth.is_some() || options.device.is_some();
    if known > 0 || said || options.offline || options.simulation.is_some() {
        return known;
    }
    let env = Env::system(1 << 20).with_logger(Logger::silent());
    let settings = IoOptions {
        method: Method::IoUring,
        direct: true,
        depth: MOST_READS,
        workers: MOST_READS,
        device: None,
    };
    let io = Io::open(&env, &options.path, settings);
    let depth = io.and_then(|io| device_depth(&io, &env.clock, MOST_READS, WITHIN));
    depth.ok().flatten().unwrap_or(0)
}

/// Tells the pool how far its streams may look ahead.
pub(crate) fn set_streams(pool: &BufferPool, options: &Options, measured: u32) {
    let modelled = options.device.map(|model| model.depth);
    let measured = if measured == 0 { USUAL } else { measured.max(LEAST) };
    pool.set_device_depth(options.depth.or(modelled).unwrap_or(measured).max(1));
}
