//! The figures of the device under a database: how many reads it serves at once, and how many
//! blocks it reads in a second.
//!
//! They are measured once, by direct reads of a small file, when the database is created or first
//! opened, and stored in the control file. A depth in the options takes precedence. A modelled
//! device knows its depth, and a simulation measures nothing, so that one seed stays one run.
//!
//! Invariants: a failed measurement is no error; the usual depth is used then.
//! Does not do: notice that a database was moved to another device.

use std::time::Duration;

use rightlink_aio::{DeviceFigures, Io, IoOptions, Method, device_figures};
use rightlink_env::{Env, Logger};

use crate::buffer::BufferPool;
use crate::upkeep::Options;

/// Most reads and writes in flight at once by default: the reads of streams, and write-back beside
/// them.
pub(crate) const MOST_IN_FLIGHT: u32 = 256;
/// Most reads in flight that any device is measured with.
const MOST_READS: u32 = 128;
/// Time for the measurement.
const WITHIN: Duration = Duration::from_millis(100);
/// Depth of a device that was not measured.
const USUAL: u32 = 64;
/// Least depth, even if less was measured. Other load may have made the measured depth too small,
/// and reads that are submitted together keep a longer queue busy than those of the measurement.
const LEAST: u32 = 64;

/// The figures of the device: the `known` ones, else measured now. Zeroes if the device cannot be
/// measured, or need not be.
pub(crate) fn measure(options: &Options, known: DeviceFigures) -> DeviceFigures {
    let said = options.depth.is_some() || options.device.is_some();
    let is_known = known.depth > 0 && known.scattered_per_s > 0 && known.in_order_per_s > 0;
    if is_known || said || options.offline || options.simulation.is_some() {
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
    let figures = io.and_then(|io| device_figures(&io, &env.clock, MOST_READS, WITHIN));
    figures.ok().flatten().unwrap_or(known)
}

/// Sets how far the streams of the pool may read ahead.
pub(crate) fn set_streams(pool: &BufferPool, options: &Options, measured: u32) {
    let modelled = options.device.map(|model| model.depth);
    let measured = if measured == 0 { USUAL } else { measured.max(LEAST) };
    pool.set_device_depth(options.depth.or(modelled).unwrap_or(measured).max(1));
}
