//! Measures what an `Io` reaches, so that a modelled device reports its own calibration and an
//! experiment knows its device's limit.

use crate::buf::AlignedBuf;
use crate::error::IoError;
use crate::file::File;
use crate::io::Io;
use crate::options::OpenMode;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Rng};
use std::fmt;
use std::time::Duration;

/// The file that calibration reads; made and removed by it.
const PROBE: &str = "calibration.probe";
/// Blocks in that file.
const PROBE_BLOCKS: u64 = 1024;
/// As many where time is short.
const FEW_BLOCKS: u64 = 256;
/// The share of the best rate that counts as reached.
const NEARLY: f64 = 0.95;
/// The most reads at one depth when the device's depth is looked for.
const SLICE_READS: u32 = 4096;
/// Bytes of a block.
const BLOCK: usize = 8192;
/// Blocks of a read of neighbours.
const NEIGHBOURS: u64 = 16;

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

/// Figures of a device, as they were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFigures {
    /// Reads that it serves at once; 0 where nothing was measured.
    pub depth: u32,
    /// Blocks of 8 KiB a second, each read for itself and anywhere, with as many reads in flight.
    pub scattered_per_s: u32,
    /// Blocks a second in reads of 16 neighbours.
    pub in_order_per_s: u32,
}

/// Reads `reads` random blocks of a file of its own, once for each depth in `depths`.
pub fn calibrate(
    io: &Io,
    clock: &Clock,
    depths: &[u32],
    reads: u32,
) -> Result<Vec<Calibration>, IoError> {
    assert!(reads > 0, "something is measured");
    with_probe(io, PROBE_BLOCKS, |file| {
        depths
            .iter()
            .map(|&depth| {
                Probe { io, file, blocks: PROBE_BLOCKS, together: 1, reads }.run(clock, depth, None)
            })
            .collect()
    })
}

/// Makes the file that is read, has `measure` do so, and removes it.
fn with_probe<T>(
    io: &Io,
    blocks: u64,
    measure: impl FnOnce(&File) -> Result<T, IoError>,
) -> Result<T, IoError> {
    let file = io.open_file(PROBE, OpenMode::Create)?;
    let block = AlignedBuf::zeroed(BLOCK * blocks as usize);
    let written = file.write_all_at(&block, 0).and_then(|()| file.sync_data());
    let result = written.and_then(|()| measure(&file));
    drop(file);
    io.remove(PROBE)?;
    result
}

/// Measures the device below `io` for a time of `within`. Its depth is at most `most`: twice the
/// least depth at which the device comes near its best rate, since more reads in flight cost little
/// and fewer leave it idle. None where reads do not get past the page cache, and so tell nothing.
pub fn device_figures(
    io: &Io,
    clock: &Clock,
    most: u32,
    within: Duration,
) -> Result<Option<DeviceFigures>, IoError> {
    assert!(most > 0, "something is in flight");
    let steps: Vec<u32> = (0..=most.ilog2()).map(|step| 1 << step).collect();
    let slice = within / (steps.len() as u32 + 1);
    let figures = with_probe(io, FEW_BLOCKS, |file| {
        let probe = Probe { io, file, blocks: FEW_BLOCKS, together: 1, reads: SLICE_READS };
        let mut made: Vec<Calibration> = Vec::new();
        for &depth in &steps {
            made.push(probe.run(clock, depth, Some(slice))?);
            // Two doublings that brought nothing: no more will come.
            if made.len() > 2 && made[made.len() - 3].reads_per_s() >= NEARLY * best_of(&made) {
                break;
            }
        }
        let best = best_of(&made);
        let enough = made.iter().find(|run| run.reads_per_s() >= NEARLY * best);
        let depth = enough.map_or(1, |run| run.depth);
        let probe = Probe { together: NEIGHBOURS, ..probe };
        // Four times as many bytes in flight as of single blocks are enough, and soon there.
        let in_order =
            probe.run(clock, depth.div_ceil(4), Some(slice))?.reads_per_s() * NEIGHBOURS as f64;
        Ok(DeviceFigures {
            depth: (depth * 2).min(most),
            scattered_per_s: best as u32,
            in_order_per_s: in_order as u32,
        })
    })?;
    Ok(io.is_direct().then_some(figures))
}

/// Reads per second of the run that made most.
fn best_of(runs: &[Calibration]) -> f64 {
    runs.iter().map(Calibration::reads_per_s).fold(0.0, f64::max)
}

struct Probe<'a> {
    io: &'a Io,
    file: &'a File,
    blocks: u64,
    /// Blocks of one read.
    together: u64,
    reads: u32,
}

/// The buffers that are free, and the first error.
#[derive(Debug, Default)]
struct Arrivals {
    free: Vec<AlignedBuf>,
    error: Option<IoError>,
}

impl Probe<'_> {
    /// Reads until all are made, or until `within` is over.
    fn run(
        &self,
        clock: &Clock,
        depth: u32,
        within: Option<Duration>,
    ) -> Result<Calibration, IoError> {
        assert!(depth > 0, "something is in flight");
        let mut rng = Rng::from_seed(u64::from(depth));
        let bytes = BLOCK * self.together as usize;
        let free = (0..depth).map(|_| AlignedBuf::zeroed(bytes)).collect();
        let arrivals = Arc::new(Mutex::new(Arrivals { free, error: None }));
        let (start, mut reads) = (clock.now(), 0);
        while reads < self.reads && within.is_none_or(|within| clock.now() - start < within) {
            self.io.wait_for(|| !arrivals.lock().free.is_empty());
            let buf = arrivals.lock().free.pop().expect("a buffer came back");
            self.submit(&arrivals, buf, rng.below(self.blocks / self.together));
            reads += 1;
        }
        self.io.wait_for(|| arrivals.lock().free.len() == depth as usize);
        let elapsed = clock.now() - start;
        let error = arrivals.lock().error.take();
        error.map_or(Ok(Calibration { depth, reads, elapsed }), Err)
    }

    fn submit(&self, arrivals: &Arc<Mutex<Arrivals>>, buf: AlignedBuf, read: u64) {
        let arrivals = Arc::clone(arrivals);
        self.io.read_owned(
            self.file,
            read * self.together * BLOCK as u64,
            buf,
            move |buf, result| {
                let mut arrivals = arrivals.lock();
                arrivals.free.push(buf);
                arrivals.error = arrivals.error.take().or(result.err());
            },
        );
    }
}
