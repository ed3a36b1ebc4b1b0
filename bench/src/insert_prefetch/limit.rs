//! What the bare device takes for a batch's reads.
//!
//! Invariants: as many blocks as asked for, distinct, at most 64 reads in flight, direct; ascending
//! and joined to 128 KiB where they are neighbours ([`time`]), or as they were named, each by
//! itself ([`time_each`]). Does not do: writes.

use std::collections::BTreeSet;
use std::path::Path;

use rightlink_aio::{AlignedBuf, File, Io, IoError, IoOptions, OpenMode};
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Env, Rng};

use crate::Failure;
use crate::knobs::Cell;
use crate::methods;

pub(crate) const BLOCK: u64 = 8192;
/// A file of a database and its length.
pub(crate) struct DataFile {
    pub(crate) file: File,
    pub(crate) blocks: u64,
}

const JOIN: usize = 16;
const DEPTH: usize = 64;

/// Milliseconds for `blocks` random blocks of the files of the database in `dir`.
pub(crate) fn measure(dir: &Path, blocks: u64, cell: &Cell, clock: &Clock) -> Result<f64, Failure> {
    let (method, device) = methods::io(cell)?;
    let options = IoOptions { direct: true, device, ..IoOptions::with_method(method) };
    let io = Io::open(&Env::system(64 << 20), dir, options)?;
    let mut files = Vec::new();
    for name in io.list("data")? {
        let file = io.open_file(&format!("data/{name}"), OpenMode::Existing)?;
        let blocks = file.len()? / BLOCK;
        files.push(DataFile { file, blocks });
    }
    let total: u64 = files.iter().map(|file| file.blocks).sum();
    let mut rng = Rng::from_seed(blocks);
    let mut chosen = BTreeSet::new();
    while (chosen.len() as u64) < blocks.min(total) {
        chosen.insert(rng.below(total));
    }
    time(&io, &files, chosen, clock)
}

/// Milliseconds for the `chosen` blocks of `files`, which count as one after the other.
pub(crate) fn time(
    io: &Io,
    files: &[DataFile],
    chosen: BTreeSet<u64>,
    clock: &Clock,
) -> Result<f64, Failure> {
    time_reads(io, files, &joined(files, chosen), clock)
}

/// Milliseconds for the distinct `blocks` of one file in this order, none of them joined.
pub(crate) fn time_each(
    io: &Io,
    file: DataFile,
    blocks: &[u64],
    clock: &Clock,
) -> Result<f64, Failure> {
    let reads: Vec<Read> = blocks.iter().map(|block| (0, *block, 1)).collect();
    time_reads(io, &[file], &reads, clock)
}

fn time_reads(io: &Io, files: &[DataFile], reads: &[Read], clock: &Clock) -> Result<f64, Failure> {
    let start = clock.now();
    Reader { io, arrivals: Arc::default() }.run(files, reads)?;
    Ok((clock.now() - start).as_secs_f64() * 1e3)
}

/// File, first block and number of blocks of a read.
type Read = (usize, u64, usize);

fn joined(files: &[DataFile], chosen: BTreeSet<u64>) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    let (mut file, mut first) = (0, 0);
    for block in chosen {
        while block >= first + files[file].blocks {
            first += files[file].blocks;
            file += 1;
        }
        let at = block - first;
        match reads.last_mut() {
            Some((same, from, count))
                if *same == file && *from + *count as u64 == at && *count < JOIN =>
            {
                *count += 1;
            }
            _ => reads.push((file, at, 1)),
        }
    }
    reads
}

#[derive(Default)]
struct Arrivals {
    in_flight: usize,
    free: Vec<AlignedBuf>,
    error: Option<IoError>,
}

struct Reader<'a> {
    io: &'a Io,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Reader<'_> {
    fn run(&self, files: &[DataFile], reads: &[Read]) -> Result<(), IoError> {
        for (file, first, count) in reads {
            self.io.wait_for(|| self.arrivals.lock().in_flight < DEPTH);
            self.start(&files[*file].file, first * BLOCK, count * BLOCK as usize);
        }
        self.io.wait_for(|| self.arrivals.lock().in_flight == 0);
        self.arrivals.lock().error.take().map_or(Ok(()), Err)
    }

    fn start(&self, file: &File, offset: u64, len: usize) {
        let buf = {
            let mut arrivals = self.arrivals.lock();
            arrivals.in_flight += 1;
            let fits = arrivals.free.iter().position(|buf| buf.len() == len);
            fits.map(|at| arrivals.free.swap_remove(at))
        };
        let buf = buf.unwrap_or_else(|| AlignedBuf::zeroed(len));
        let arrivals = Arc::clone(&self.arrivals);
        self.io.read_owned(file, offset, buf, move |buf, result| {
            let mut arrivals = arrivals.lock();
            arrivals.in_flight -= 1;
            arrivals.free.push(buf);
            arrivals.error = arrivals.error.take().or(result.err());
        });
    }
}
