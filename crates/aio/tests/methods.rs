//! One suite over every I/O method: sync, worker, io_uring and the simulation, each direct and
//! buffered. A method that the kernel refuses is skipped with a line that says so.
//!
//! `unsafe` here keeps contract B1 of `rightlink_aio::IoBufs`: the suite owns every buffer in
//! [`Pool`] and takes none back before its operation has completed.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "says what was skipped")]

use rightlink_aio::{
    ALIGNMENT, AlignedBuf, Completion, Done, File, Io, IoBufs, IoError, IoErrorKind, IoOptions,
    Method, OpenMode, ReadRequest, Segment, SimDisk,
};
use rightlink_env::log::Lines;
use rightlink_env::sync::{Arc, AtomicU64, Mutex, Ordering};
use rightlink_env::{Env, Logger, Rng, thread};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Bytes per block of the suite.
const BLOCK: usize = 8192;
/// Operations that a submit lets into flight.
const DEPTH: u32 = 8;

/// One `Io` in a place of its own.
struct Setup {
    io: Io,
    lines: Lines,
    env: Env,
    options: IoOptions,
    place: Place,
}

enum Place {
    Dir(PathBuf),
    Disk(SimDisk),
}

impl Drop for Setup {
    fn drop(&mut self) {
        if let Place::Dir(dir) = &self.place {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

fn fresh_dir() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("rl-aio-{}-{number}", std::process::id()));
    Io::create_root(&dir).unwrap();
    dir
}

impl Setup {
    /// None if the kernel refuses the method.
    fn new(method: Method, direct: bool) -> Option<Setup> {
        let (logger, lines) = Logger::collecting();
        let options = IoOptions { method, direct, depth: DEPTH, workers: 3, device: None };
        let (env, place) = match method {
            Method::Sim => (Env::simulated(42), Place::Disk(SimDisk::new(42))),
            _ => (Env::system(1 << 20), Place::Dir(fresh_dir())),
        };
        let env = env.with_logger(logger);
        let io = open(&env, &place, &options).unwrap();
        let setup = Setup { io, lines, env, options, place };
        if setup.io.method() != method {
            println!("skipped: {method} is refused here");
            assert_eq!(setup.lines.containing("io_uring"), 1, "one line says so");
            return None;
        }
        Some(setup)
    }

    /// A second instance in the same place.
    fn again(&self) -> Io {
        open(&self.env, &self.place, &self.options).unwrap()
    }

    fn file(&self, name: &str) -> File {
        self.io.open_file(name, OpenMode::Create).unwrap()
    }

    fn write_all(&self, pool: &Arc<Pool>, file: &File, bufs: Vec<AlignedBuf>) {
        for (index, buf) in bufs.into_iter().enumerate() {
            let offset = (index * BLOCK) as u64;
            pool.lend(buf, |bufs, done| self.io.submit_write(file, offset, bufs, done));
        }
        pool.wait(&self.io);
    }
}

fn open(env: &Env, place: &Place, options: &IoOptions) -> Result<Io, IoError> {
    match place {
        Place::Dir(dir) => Io::open(env, dir, options.clone()),
        Place::Disk(disk) => Io::simulated(env, disk.clone(), options.clone()),
    }
}

/// Lends buffers to operations and gets them back with the results.
#[derive(Default)]
struct Pool {
    lent: Mutex<BTreeMap<u64, AlignedBuf>>,
    back: Mutex<Vec<Returned>>,
    next: AtomicU64,
}

/// The operation's number, its buffer, and how it went.
type Returned = (u64, AlignedBuf, Result<usize, IoError>);

impl Completion for Pool {
    fn complete(&self, tag: u64, result: Result<usize, IoError>) {
        // Who waits until nothing is lent must find everything back.
        let mut lent = self.lent.lock();
        let buf = lent.remove(&tag).expect("an operation completes once");
        self.back.lock().push((tag, buf, result));
    }

    fn panicked(&self, tag: u64, message: &str) {
        panic!("the completion of {tag} panicked: {message}");
    }
}

impl Pool {
    fn lend(self: &Arc<Pool>, buf: AlignedBuf, submit: impl FnOnce(IoBufs, Done)) -> u64 {
        self.lend_as(buf, |start, len| vec![Segment { start, len }], submit)
    }

    fn lend_as(
        self: &Arc<Pool>,
        mut buf: AlignedBuf,
        cut: impl FnOnce(*mut u8, usize) -> Vec<Segment>,
        submit: impl FnOnce(IoBufs, Done),
    ) -> u64 {
        let tag = self.next.fetch_add(1, Ordering::Relaxed);
        let segments = cut(buf.as_mut_ptr(), buf.len());
        self.lent.lock().insert(tag, buf);
        // SAFETY: B1: the buffer lies in `lent`, where nobody touches it, until `complete`.
        let bufs = unsafe { IoBufs::vectored(segments) };
        submit(bufs, Done { target: self.clone(), tag });
        tag
    }

    fn wait(&self, io: &Io) {
        assert!(io.wait_for(|| self.lent.lock().is_empty()), "all operations complete");
    }

    fn take(&self) -> Vec<Returned> {
        let mut back = std::mem::take(&mut *self.back.lock());
        back.sort_by_key(|(tag, ..)| *tag);
        back
    }
}

fn block(number: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(BLOCK);
    Rng::from_seed(number).fill(&mut buf);
    buf
}

// ---- The checks.

fn round_trip(s: &Setup) {
    let file = s.file("one");
    assert_eq!(file.is_direct(), s.options.direct);
    file.write_all_at(&block(1), 0).unwrap();
    file.write_all_at(&block(2), BLOCK as u64).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    s.io.sync_dir("").unwrap();
    let mut buf = AlignedBuf::zeroed(BLOCK);
    file.read_exact_at(&mut buf, BLOCK as u64).unwrap();
    assert_eq!(*buf, *block(2));
    assert_eq!(file.len().unwrap(), 2 * BLOCK as u64);
    let stats = s.io.stats();
    assert_eq!((stats.reads, stats.writes, stats.syncs), (1, 2, 3));
    assert_eq!((stats.read_bytes, stats.write_bytes), (BLOCK as u64, 2 * BLOCK as u64));
}

fn lengths_and_space(s: &Setup) {
    let file = s.file("lengths");
    file.set_len(3 * BLOCK as u64).unwrap();
    let mut buf = AlignedBuf::from_slice(&[7; BLOCK]);
    file.read_exact_at(&mut buf, BLOCK as u64).unwrap();
    assert!(buf.iter().all(|&b| b == 0));
    file.write_all_at(&block(3), 0).unwrap();
    file.allocate(0, 4 * BLOCK as u64).unwrap();
    assert_eq!(file.len().unwrap(), 4 * BLOCK as u64);
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(*buf, *block(3));
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
}

/// A hole reads as zeros, takes nothing of its neighbours, and may reach beyond the end. (A file
/// system without holes may keep the bytes; those that tests run on have them.)
fn holes(s: &Setup) {
    let file = s.file("holes");
    for at in 0..4 {
        file.write_all_at(&block(at), at * BLOCK as u64).unwrap();
    }
    file.punch_hole(BLOCK as u64, 2 * BLOCK as u64).unwrap();
    file.punch_hole(4 * BLOCK as u64, BLOCK as u64).unwrap();
    assert_eq!(file.len().unwrap(), 4 * BLOCK as u64);
    let mut buf = AlignedBuf::from_slice(&[7; BLOCK]);
    for at in 0..4 {
        file.read_exact_at(&mut buf, at * BLOCK as u64).unwrap();
        let hole = at == 1 || at == 2;
        assert!(if hole { buf.iter().all(|b| *b == 0) } else { *buf == *block(at) }, "block {at}");
    }
    file.write_all_at(&block(9), BLOCK as u64).unwrap();
    file.read_exact_at(&mut buf, BLOCK as u64).unwrap();
    assert_eq!(*buf, *block(9));
}

fn vectored(s: &Setup) {
    let file = s.file("vectored");
    let pieces = [block(1), block(2), block(3)];
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &**piece).collect();
    file.write_vectored_at(&pieces, 0).unwrap();
    let pool = Arc::new(Pool::default());
    let halves = |start: *mut u8, len: usize| {
        // The second half of the buffer takes the first half of the file's bytes.
        let (half, second) = (len / 2, start.wrapping_add(len / 2));
        vec![Segment { start: second, len: half }, Segment { start, len: half }]
    };
    let read = |bufs: IoBufs, done| s.io.submit_read(&file, BLOCK as u64, bufs, done);
    pool.lend_as(AlignedBuf::zeroed(2 * BLOCK), halves, read);
    pool.wait(&s.io);
    let [(_, buf, result)] = <[Returned; 1]>::try_from(pool.take()).unwrap();
    assert_eq!(result, Ok(2 * BLOCK));
    assert_eq!(buf[..BLOCK], *block(3));
    assert_eq!(buf[BLOCK..], *block(2));
}

fn many_in_flight(s: &Setup) {
    let (file, pool) = (s.file("many"), Arc::new(Pool::default()));
    s.write_all(&pool, &file, (0..100).map(block).collect());
    assert!(pool.take().iter().all(|(_, _, result)| *result == Ok(BLOCK)));
    for number in (0..100).rev() {
        let offset = number * BLOCK as u64;
        let read = |bufs: IoBufs, done| s.io.submit_read(&file, offset, bufs, done);
        pool.lend(AlignedBuf::zeroed(BLOCK), read);
        assert!(s.io.in_flight() <= DEPTH as usize);
    }
    pool.wait(&s.io);
    for (index, (_, buf, result)) in pool.take().into_iter().enumerate() {
        assert_eq!(result, Ok(BLOCK));
        assert_eq!(*buf, *block(99 - index as u64));
    }
    let stats = s.io.stats();
    assert!(stats.max_depth <= DEPTH, "{stats:?}");
    assert!(stats.mean_depth >= 1.0, "{stats:?}");
}

/// A batch larger than the queue, as one call.
fn batch_of_reads(s: &Setup) {
    let (file, pool) = (s.file("batch"), Arc::new(Pool::default()));
    s.write_all(&pool, &file, (0..30).map(block).collect());
    pool.take();
    let mut reads = Vec::new();
    for number in 0..30 {
        pool.lend(AlignedBuf::zeroed(BLOCK), |bufs, done| {
            let offset = number * BLOCK as u64;
            reads.push(ReadRequest { file: file.clone(), offset, bufs, done });
        });
    }
    s.io.submit_reads(reads);
    pool.wait(&s.io);
    for (number, (_, buf, result)) in pool.take().into_iter().enumerate() {
        assert_eq!((result, &*buf), (Ok(BLOCK), &*block(number as u64)));
    }
}

/// Threads that submit to one `Io` and each wait for their own operations, reaping others' too.
fn several_threads(s: &Setup) {
    let writers = (0..4u64).map(|number| {
        let (io, file) = (s.io.clone(), s.file(&format!("threads-{number}")));
        thread::spawn("submits", move || {
            let pool = Arc::new(Pool::default());
            for round in 0..50u64 {
                let offset = (round % 10) * BLOCK as u64;
                let seed = number * 1000 + round;
                pool.lend(block(seed), |bufs, done| io.submit_write(&file, offset, bufs, done));
                pool.wait(&io);
                let read = |bufs: IoBufs, done| io.submit_read(&file, offset, bufs, done);
                pool.lend(AlignedBuf::zeroed(BLOCK), read);
                pool.wait(&io);
                let back = pool.take();
                assert!(back.iter().all(|(_, _, result)| *result == Ok(BLOCK)));
                assert_eq!(*back[1].1, *block(seed));
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(s.io.in_flight(), 0);
    assert_eq!(s.io.reap(true), 0, "nothing to wait for");
}

fn end_of_file(s: &Setup) {
    // A file whose length is no multiple of the block, made through the cache.
    let tail = s.io.open_buffered("tail", OpenMode::CreateNew).unwrap();
    tail.write_all_at(&[9; BLOCK + 100], 0).unwrap();
    tail.sync_all().unwrap();
    let file = s.file("tail");
    let mut buf = AlignedBuf::zeroed(BLOCK);
    assert_eq!(file.read_at(&mut buf, BLOCK as u64), Ok(100));
    assert_eq!(file.read_at(&mut buf, 4 * BLOCK as u64), Ok(0));
    let error = file.read_exact_at(&mut buf, BLOCK as u64).unwrap_err();
    assert_eq!((error.kind, error.offset), (IoErrorKind::ShortRead, BLOCK as u64 + 100));
    let pool = Arc::new(Pool::default());
    for offset in [0, BLOCK as u64, 2 * BLOCK as u64] {
        let read = |bufs: IoBufs, done| s.io.submit_read(&file, offset, bufs, done);
        pool.lend(AlignedBuf::zeroed(2 * BLOCK), read);
    }
    pool.wait(&s.io);
    let moved: Vec<_> = pool.take().into_iter().map(|(_, _, result)| result).collect();
    assert_eq!(moved, [Ok(BLOCK + 100), Ok(100), Ok(0)]);
}

fn errors(s: &Setup) {
    let error = s.io.open_file("no/such", OpenMode::Existing).unwrap_err();
    assert_eq!((error.op, error.kind), ("open", IoErrorKind::NotFound));
    assert_eq!((error.file.as_str(), error.os), ("no/such", Some(2)));
    assert_eq!(s.io.remove("none").unwrap_err().kind, IoErrorKind::NotFound);
    assert_eq!(s.io.rename("none", "other").unwrap_err().kind, IoErrorKind::NotFound);
    assert_eq!(s.io.list("none").unwrap_err().kind, IoErrorKind::NotFound);
    assert_eq!(s.io.create_dir("no/dir").unwrap_err().kind, IoErrorKind::NotFound);
    s.file("here").write_all_at(&block(1), 0).unwrap();
    let error = s.io.open_file("here", OpenMode::CreateNew).unwrap_err();
    assert_eq!(error.kind, IoErrorKind::AlreadyExists);
    let file = s.io.open_file("here", OpenMode::ReadOnly).unwrap();
    let error = file.write_all_at(&block(2), BLOCK as u64).unwrap_err();
    assert_eq!((error.op, error.kind), ("write", IoErrorKind::Permission));
    assert_eq!(error.offset, BLOCK as u64);
    let pool = Arc::new(Pool::default());
    pool.lend(block(2), |bufs, done| s.io.submit_write(&file, 0, bufs, done));
    pool.wait(&s.io);
    let back = pool.take();
    let error = back[0].2.as_ref().unwrap_err();
    assert_eq!((error.file.as_str(), error.kind), ("here", IoErrorKind::Permission));
    assert_eq!(s.io.stats().errors, 2);
}

fn names(s: &Setup) {
    s.io.create_dir("data").unwrap();
    s.io.create_dir("data").unwrap();
    s.file("data/b").write_all_at(&block(1), 0).unwrap();
    s.file("data/a");
    s.io.rename("data/b", "data/c").unwrap();
    assert_eq!(s.io.list("data").unwrap(), ["a", "c"]);
    s.io.rename("data/c", "data/a").unwrap();
    s.io.sync_dir("data").unwrap();
    assert_eq!(s.io.list("data").unwrap(), ["a"]);
    assert_eq!(s.file("data/a").len().unwrap(), BLOCK as u64);
    assert!(s.io.remove("data").is_err(), "the directory is not empty");
    s.io.remove("data/a").unwrap();
    assert!(!s.io.exists("data/a").unwrap() && s.io.exists("data").unwrap());
    s.io.remove("data").unwrap();
    assert!(s.io.list("").unwrap().is_empty());
    assert_eq!(s.io.list("data").unwrap_err().kind, IoErrorKind::NotFound);
    assert!(s.io.sync_dir("data").is_err(), "the directory is gone");
    s.io.create_dir("data").unwrap();
    s.file("data/d");
    s.io.sync_dir("data").unwrap();
    assert_eq!(s.io.list("data").unwrap(), ["d"], "the new directory");
    s.io.remove("data/d").unwrap();
    s.io.remove("data").unwrap();
}

fn removed_files_stay_open(s: &Setup) {
    let file = s.file("gone");
    file.write_all_at(&block(1), 0).unwrap();
    s.io.remove("gone").unwrap();
    let other = s.file("gone");
    assert!(other.is_empty().unwrap());
    let mut buf = AlignedBuf::zeroed(BLOCK);
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(*buf, *block(1));
}

/// The opening for planned reads reads the same file, what others write into it meanwhile, and no
/// other file of its name. There is none without a page cache.
fn planned_reads(s: &Setup) {
    let (file, pool) = (s.file("planned"), Arc::new(Pool::default()));
    (0..12).for_each(|at| file.write_all_at(&block(at), at * BLOCK as u64).unwrap());
    let planned = s.io.open_planned(&file).unwrap();
    assert_eq!(planned.is_some(), !s.options.direct && s.options.method != Method::Sim);
    let Some(planned) = planned else { return };
    file.write_all_at(&block(77), 3 * BLOCK as u64).unwrap();
    // One block at a time, and several, which other threads may read.
    let read = |at: u64, blocks: usize| {
        pool.lend(AlignedBuf::zeroed(blocks * BLOCK), |bufs, done| {
            let offset = at * BLOCK as u64;
            s.io.submit_reads([ReadRequest { file: planned.clone(), offset, bufs, done }]);
        });
    };
    (0..4).for_each(|at| read(at, 1));
    read(0, 8);
    read(8, 8);
    pool.wait(&s.io);
    let read = pool.take().into_iter().map(|(_, buf, moved)| buf[..moved.unwrap()].to_vec());
    let blocks = read.flat_map(|bytes| bytes.chunks(BLOCK).map(<[u8]>::to_vec).collect::<Vec<_>>());
    let wanted = (0..4).chain(0..12).map(|at| if at == 3 { 77 } else { at });
    assert!(blocks.eq(wanted.map(|at| block(at).to_vec())), "all that is there, in order");
    s.io.remove("planned").unwrap();
    assert!(s.io.open_planned(&file).unwrap().is_none(), "without its name");
    s.file("planned");
    assert!(s.io.open_planned(&file).unwrap().is_none(), "another file has its name");
}

fn dropped_in_flight(s: &Setup) {
    let (io, pool) = (s.again(), Arc::new(Pool::default()));
    let file = io.open_file("dropped", OpenMode::Create).unwrap();
    for number in 0..u64::from(DEPTH) {
        let offset = number * BLOCK as u64;
        pool.lend(block(number), |bufs, done| io.submit_write(&file, offset, bufs, done));
    }
    drop(io);
    assert!(pool.lent.lock().is_empty(), "dropping waits for what is in flight");
    assert_eq!(file.len().unwrap(), u64::from(DEPTH) * BLOCK as u64);
}

fn locked_twice(s: &Setup) {
    let lock = s.io.lock("LOCK").unwrap();
    let error = s.io.lock("LOCK").unwrap_err();
    assert_eq!((error.op, error.kind), ("lock", IoErrorKind::Locked));
    if matches!(s.place, Place::Dir(_)) {
        assert_eq!(error.holder, Some(std::process::id()));
    }
    assert_eq!(s.again().lock("LOCK").unwrap_err().kind, IoErrorKind::Locked);
    drop(lock);
    drop(s.again().lock("LOCK").unwrap());
}

/// A completion that submits the next operation, from wherever it runs, at full depth.
struct Chain {
    io: Io,
    file: File,
    left: Mutex<u32>,
    pool: Arc<Pool>,
    me: Mutex<Option<std::sync::Weak<Chain>>>,
}

impl Completion for Chain {
    fn complete(&self, tag: u64, result: Result<usize, IoError>) {
        self.pool.complete(tag, result);
        let mut left = self.left.lock();
        if *left == 0 {
            return;
        }
        *left -= 1;
        drop(left);
        let me = self.me.lock().as_ref().unwrap().upgrade().unwrap();
        let read = |bufs, done: Done| {
            let done = Done { target: me, tag: done.tag };
            self.io.submit_read(&self.file, 0, bufs, done);
        };
        self.pool.lend(AlignedBuf::zeroed(BLOCK), read);
    }

    fn panicked(&self, tag: u64, message: &str) {
        panic!("the completion of {tag} panicked: {message}");
    }
}

fn completions_submit(s: &Setup) {
    let file = s.file("chain");
    file.write_all_at(&block(1), 0).unwrap();
    let (io, pool) = (s.io.clone(), Arc::new(Pool::default()));
    let left = Mutex::new(60);
    let chain = Arc::new(Chain { io, file, left, pool: pool.clone(), me: Mutex::new(None) });
    *chain.me.lock() = Some(Arc::downgrade(&chain));
    for _ in 0..2 * DEPTH {
        let read = |bufs, done: Done| {
            let done = Done { target: chain.clone(), tag: done.tag };
            s.io.submit_read(&chain.file, 0, bufs, done);
        };
        pool.lend(AlignedBuf::zeroed(BLOCK), read);
    }
    // Between a completion and what it submits nothing may be lent, so the count tells.
    let all = 60 + 2 * DEPTH as usize;
    assert!(s.io.wait_for(|| pool.back.lock().len() == all), "all operations complete");
    let back = pool.take();
    assert!(pool.lent.lock().is_empty(), "nothing else is under way");
    assert!(back.iter().all(|(_, buf, result)| *result == Ok(BLOCK) && **buf == *block(1)));
}

/// Every second completion panics.
#[derive(Default)]
struct Fragile {
    pool: Pool,
    told: Mutex<Vec<u64>>,
}

impl Completion for Fragile {
    fn complete(&self, tag: u64, result: Result<usize, IoError>) {
        assert!(tag.is_multiple_of(2), "on purpose: {tag}");
        self.pool.complete(tag, result);
    }

    fn panicked(&self, tag: u64, message: &str) {
        assert_eq!(message, format!("on purpose: {tag}"));
        self.told.lock().push(tag);
        drop(self.pool.lent.lock().remove(&tag));
    }
}

/// More completions panic than there are workers, or operations that one call reaps: all of them
/// are told so, all others are completed, and I/O goes on.
fn completions_panic(s: &Setup) {
    let file = s.file("fragile");
    file.write_all_at(&block(1), 0).unwrap();
    let fragile = Arc::new(Fragile::default());
    for tag in 0..4 * u64::from(DEPTH) {
        let mut buf = AlignedBuf::zeroed(BLOCK);
        let (start, len) = (buf.as_mut_ptr(), buf.len());
        fragile.pool.lent.lock().insert(tag, buf);
        // SAFETY: B1: the buffer lies in `lent`, where nobody touches it, until it is completed.
        let bufs = unsafe { IoBufs::new(start, len) };
        s.io.submit_read(&file, 0, bufs, Done { target: fragile.clone(), tag });
    }
    fragile.pool.wait(&s.io);
    let mut told = fragile.told.lock().clone();
    told.sort_unstable();
    let odd: Vec<u64> = (0..4 * u64::from(DEPTH)).filter(|tag| tag % 2 == 1).collect();
    assert_eq!(told, odd);
    let back = fragile.pool.take();
    assert_eq!(back.len(), odd.len());
    assert!(back.iter().all(|(_, buf, result)| *result == Ok(BLOCK) && **buf == *block(1)));
    completions_submit(s);
}

/// Direct I/O with unaligned arguments is a bug of the caller, and is caught on any file system.
fn alignment_is_asserted(s: &Setup) {
    let file = s.file("aligned");
    let unaligned = || file.write_all_at(&block(1)[..BLOCK - 1], 0);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(unaligned));
    assert_eq!(caught.is_err(), s.options.direct);
    let unaligned = || file.write_all_at(&block(1), ALIGNMENT as u64 / 2);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(unaligned));
    assert_eq!(caught.is_err(), s.options.direct);
}

macro_rules! suite {
    ($($method:ident $variant:ident $mode:ident $direct:literal;)*) => {$(
        mod $mode {
            use super::*;
            suite!(@ $variant $direct;
                round_trip lengths_and_space holes vectored many_in_flight batch_of_reads
                several_threads end_of_file
                errors names removed_files_stay_open planned_reads dropped_in_flight locked_twice
                completions_submit completions_panic alignment_is_asserted);
        }
    )*};
    (@ $variant:ident $direct:literal; $($check:ident)*) => {$(
        #[test]
        fn $check() {
            if let Some(setup) = Setup::new(Method::$variant, $direct) {
                super::$check(&setup);
            }
        }
    )*};
}

suite! {
    sync Sync sync_buffered false;
    sync Sync sync_direct true;
    worker Worker worker_buffered false;
    worker Worker worker_direct true;
    io_uring IoUring io_uring_buffered false;
    io_uring IoUring io_uring_direct true;
    sim Sim sim_buffered false;
    sim Sim sim_direct true;
}
