//! Measures what an `Io` reaches, so that a modelled device reports its own calibration and an
//! experiment knows its device's limit.

use crate::buf::AlignedBuf;
use crate::error::IoError;
use crate::file::{File, OpenMode};
use crate::io::Io;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Rng};
use std::fmt;
use std::time::Duration;

/// The file that calibration reads; made and removed by it.
const PROBE: &str = "calibration.probe";
/// Blocks in that file.
const PROBE_BLOCKS: u64 = 1024;
/// Bytes per read.
const BLOCK: usize = 8192;

/// What was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Operations kept in flight.
    pub depth: u32,
    /// Reads made.
    pub reads: u32,
    /// Time for all of them.
    pub elapsed: Duration,
}

impl Calibration {
    /// Reads per second.
    pub fn reads_per_s(&self) -> f64 {
        f64::from(self.reads) / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Time per read as seen by one of `depth` waiters.
    pub fn latency(&self) -> Duration {
        self.elapsed * self.depth / self.reads.max(1)
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, latency) = (self.reads_per_s(), self.latency().as_micros());
        write!(f, "depth {}: {rate:.0} reads/s of 8 KiB, {latency} us each", self.depth)
    }
}

/// Reads `reads` random blocks of a file of its own, once for each depth in `depths`.
pub fn calibrate(
    io: &Io,
    clock: &Clock,
    depths: &[u32],
    reads: u32,
) -> Result<Vec<Calibration>, IoError> {
    assert!(reads > 0, "something is measured");
    let file = io.open_file(PROBE, OpenMode::Create)?;
    let block = AlignedBuf::zeroed(BLOCK * PROBE_BLOCKS as usize);
    file.write_all_at(&block, 0)?;
    file.sync_data()?;
    let runs = depths.iter().map(|&depth| Probe { io, file: &file, reads }.run(clock, depth));
    let result = runs.collect();
    drop(file);
    io.remove(PROBE)?;
    result
}

struct Probe<'a> {
    io: &'a Io,
    file: &'a File,
    reads: u32,
}

/// The buffers that are free, and the first error.
#[derive(Debug, Default)]
struct Arrivals {
    free: Vec<AlignedBuf>,
    error: Option<IoError>,
}

impl Probe<'_> {
    fn run(&self, clock: &Clock, depth: u32) -> Result<Calibration, IoError> {
        assert!(depth > 0, "something is in flight");
        let mut rng = Rng::from_seed(u64::from(depth));
        let free = (0..depth).map(|_| AlignedBuf::zeroed(BLOCK)).collect();
        let arrivals = Arc::new(Mutex::new(Arrivals { free, error: None }));
        let start = clock.now();
        for _ in 0..self.reads {
            self.io.wait_for(|| !arrivals.lock().free.is_empty());
            let buf = arrivals.lock().free.pop().expect("a buffer came back");
            self.submit(&arrivals, buf, rng.below(PROBE_BLOCKS));
        }
        self.io.wait_for(|| arrivals.lock().free.len() == depth as usize);
        let elapsed = clock.now() - start;
        let error = arrivals.lock().error.take();
        error.map_or(Ok(Calibration { depth, reads: self.reads, elapsed }), Err)
    }

    fn submit(&self, arrivals: &Arc<Mutex<Arrivals>>, buf: AlignedBuf, block: u64) {
        let arrivals = Arc::clone(arrivals);
        self.io.read_owned(self.file, block * BLOCK as u64, buf, move |buf, result| {
            let mut arrivals = arrivals.lock();
            arrivals.free.push(buf);
            arrivals.error = arrivals.error.take().or(result.err());
        });
    }
}
