//! What the bare device and the machine reach, so that figures can be judged.
//!
//! The disk has phases: a sync may take 0.05 ms in one minute and 5 ms in the next. So each run is
//! probed before and after.
//!
//! Invariants: the probe removes its files. Does not do: correcting any figure.

use std::path::Path;

use rightlink_aio::{AlignedBuf, File, Io, IoError, IoOptions, Method, OpenMode, calibrate};
use rightlink_env::{Clock, Env};

use crate::stats::Summary;

const FILE: &str = "device.probe";
const READS: u32 = 2000;
const SYNCS: u64 = 20;
const BLOCK: usize = 8192;
const CHUNK: usize = 1 << 20;
const CHUNKS: u64 = 32;

/// One line on the device below `dir`, and the load average.
pub(crate) fn probe(dir: &Path, when: &str) -> Result<String, IoError> {
    let env = Env::system(64 << 20);
    let options = IoOptions { direct: true, ..IoOptions::with_method(Method::IoUring) };
    let io = Io::open(&env, dir, options)?;
    let random = calibrate(&io, &env.clock, &[1, 32], READS)?;
    let file = io.open_file(FILE, OpenMode::Create)?;
    let syncs = syncs(&file, &env.clock)?;
    let sequential = sequential(&file, &env.clock)?;
    drop(file);
    io.remove(FILE)?;
    Ok(format!(
        "device {when}: 8 KiB random reads/s {:.0} at depth 1, {:.0} at depth 32; sequential {:.0} \
         MB/s; write and sync {syncs} ms; load average {}",
        random[0].reads_per_s(),
        random[1].reads_per_s(),
        sequential,
        load_average(),
    ))
}

fn syncs(file: &File, clock: &Clock) -> Result<Summary, IoError> {
    let block = AlignedBuf::zeroed(BLOCK);
    let mut samples = Vec::new();
    for at in 0..SYNCS {
        let start = clock.now();
        file.write_all_at(&block, at * BLOCK as u64)?;
        file.sync_data()?;
        samples.push((clock.now() - start).as_secs_f64() * 1e3);
    }
    Ok(Summary::of(samples))
}

/// Megabytes per second, one megabyte a read.
fn sequential(file: &File, clock: &Clock) -> Result<f64, IoError> {
    let mut chunk = AlignedBuf::zeroed(CHUNK);
    for at in 0..CHUNKS {
        file.write_all_at(&chunk, at * CHUNK as u64)?;
    }
    file.sync_data()?;
    let start = clock.now();
    for at in 0..CHUNKS {
        file.read_exact_at(&mut chunk, at * CHUNK as u64)?;
    }
    let bytes = (CHUNKS * CHUNK as u64) as f64;
    Ok(bytes / 1e6 / (clock.now() - start).as_secs_f64().max(1e-9))
}

/// How many wanted a core in the last minute.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_string()
}
