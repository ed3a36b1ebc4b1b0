//! A root directory and a way to do I/O below it. Names are relative paths of plain components,
//! such as `data/00000012`; the empty name is the root itself.
//!
//! Whoever waits for an operation calls [`Io::wait_for`] with its condition, or [`Io::reap`] in a
//! loop of its own. A completion may submit again, and must not wait. One that panics stops neither
//! the thread that runs it, which often waits for something else, nor the completions after it: the
//! panic is logged and told to its target.

use crate::buf::IoBufs;
use crate::completion::Done;
use crate::core::{Core, IoStats};
use crate::error::{IoError, IoErrorKind, RawError};
use crate::file::{File, Target};
use crate::options::{IoOptions, Method, OpenMode};
use crate::overlay::Overlay;
use crate::progress::{Direction, retried};
use crate::sim::{SimDisk, SimEngine, SimFile, SimLock};
use crate::sys;
use crate::transfer::Op;
#[cfg(target_os = "linux")]
use crate::uring::{self, Ring};
use crate::worker::Workers;
use rightlink_env::sync::{Arc, AtomicBool, Mutex, Ordering};
use rightlink_env::{Budget, Env};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::path::Path;

/// More than this in flight helps no device.
const MAX_DEPTH: u32 = 4096;
#[cfg(target_os = "linux")]
const _: () = assert!(MAX_DEPTH <= uring::MAX_ENTRIES);

/// One read of [`Io::submit_reads`].
#[derive(Debug)]
pub struct ReadRequest {
    /// The file to read.
    pub file: File,
    /// Where in the file.
    pub offset: u64,
    /// The memory to fill.
    pub bufs: IoBufs,
    /// Who is told.
    pub done: Done,
}

/// A root directory and a way to do I/O below it. Clones share it; dropping the last one waits for
/// everything in flight.
#[derive(Clone, Debug)]
pub struct Io {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    place: Place,
    /// Directories of the system that were listed or synced before: whoever made, renamed or
    /// removed a file needs no descriptor more to make that durable.
    dirs: Mutex<BTreeMap<String, Arc<OwnedFd>>>,
    direct: bool,
    told_buffered: AtomicBool,
    core: Arc<Core>,
}

#[derive(Debug)]
enum Place {
    Os(OwnedFd),
    Sim(SimDisk),
    Overlay(Overlay),
}

#[derive(Debug)]
enum Engine {
    Sync,
    Worker(Workers),
    #[cfg(target_os = "linux")]
    Ring(Box<Ring>),
    Sim(SimEngine),
}

impl Io {
    /// Makes a root directory, with its parents, durably. Fine if it is there. An error of kind
    /// `NotDirectory` names the file that is in the way.
    pub fn create_root(root: &Path) -> Result<(), IoError> {
        sys::create_root(root).map_err(|raw| in_the_way(root, "create", raw))
    }

    /// Opens a root directory that exists; errors as [`Io::create_root`]. Where the kernel refuses
    /// io_uring, workers do the I/O, and one line says so.
    pub fn open(env: &Env, root: &Path, options: IoOptions) -> Result<Io, IoError> {
        let depth = options.depth.clamp(1, MAX_DEPTH);
        let options = IoOptions { depth, ..options };
        let text = root.to_string_lossy();
        let fd = sys::open_root(root).map_err(|raw| in_the_way(root, "open", raw))?;
        let core = Arc::new(Core::new(env, &options));
        let engine = Engine::start(&core, &options);
        let engine = engine.map_err(|raw| name("start I/O workers for", &text, raw))?;
        Ok(Io::new(engine, Place::Os(fd), options.direct, core))
    }

    /// Does I/O on a simulated disk. With the method `sync` operations complete within submit, with
    /// any other later and in an order that the seed decides.
    pub fn simulated(env: &Env, disk: SimDisk, options: IoOptions) -> Result<Io, IoError> {
        let core = Arc::new(Core::new(env, &options));
        let engine = match options.method {
            Method::Sync => Engine::Sync,
            _ => Engine::Sim(SimEngine::new(env.rng("aio.sim"))),
        };
        Ok(Io::new(engine, Place::Sim(disk), options.direct, core))
    }

    /// Reads what `base` holds and keeps what is written in memory of `budget`, on top: `base` is
    /// not changed by a byte. When the budget is used up, writes fail as on a full device.
    pub fn overlay(env: &Env, base: &Io, budget: &Budget) -> Io {
        let options = IoOptions::with_method(Method::Sync);
        let core = Arc::new(Core::new(env, &options));
        Io::new(Engine::Sync, Place::Overlay(Overlay::new(base, budget)), false, core)
    }

    fn new(engine: Engine, place: Place, direct: bool, core: Arc<Core>) -> Io {
        let (dirs, told_buffered) = (Mutex::default(), AtomicBool::new(false));
        Io { inner: Arc::new(Inner { engine, place, dirs, direct, told_buffered, core }) }
    }

    /// How I/O is done; after a fallback, how it is done in truth.
    pub fn method(&self) -> Method {
        match (&self.inner.place, &self.inner.engine) {
            (Place::Sim(_), _) => Method::Sim,
            (Place::Overlay(over), _) => over.base().method(),
            (_, Engine::Worker(_)) => Method::Worker,
            #[cfg(target_os = "linux")]
            (_, Engine::Ring(_)) => Method::IoUring,
            (_, _) => Method::Sync,
        }
    }

    /// The most operations in flight; a submit beyond it waits.
    pub fn depth(&self) -> u32 {
        self.inner.core.flight.depth()
    }

    /// Do files go past the page cache? False where that was asked for and refused.
    pub fn is_direct(&self) -> bool {
        self.inner.direct && !self.inner.told_buffered.load(Ordering::Relaxed)
    }

    /// What has been done so far.
    pub fn stats(&self) -> IoStats {
        self.inner.core.stats.snapshot(&self.inner.core.flight)
    }

    /// Opens a file, direct if the options say so.
    pub fn open_file(&self, file: &str, mode: OpenMode) -> Result<File, IoError> {
        self.open_as(file, mode, self.inner.direct)
    }

    /// Opens a file through the page cache whatever the options say: for small files whose reads
    /// and writes are not aligned.
    pub fn open_buffered(&self, file: &str, mode: OpenMode) -> Result<File, IoError> {
        self.open_as(file, mode, false)
    }

    /// Opens `file` once more, to read through the page cache without the system's read-ahead: for
    /// reads that the caller has planned ahead. `None` where there is no such read-ahead, where the
    /// file has lost its name, and of a direct file, which is written past the page cache.
    pub fn open_planned(&self, file: &File) -> Result<Option<File>, IoError> {
        let (Place::Os(root), Some(first)) = (&self.inner.place, file.inner().os()) else {
            return Ok(None);
        };
        if file.is_direct() {
            return Ok(None);
        }
        let opened = sys::open(root, file.name(), OpenMode::ReadOnly, false).and_then(|second| {
            sys::read_nothing_ahead(&second)?;
            Ok(sys::is_same(first, &second)?.then_some(second))
        });
        match opened {
            Ok(second) => Ok(second.map(|second| file.planned(second))),
            Err(raw) if raw.kind == IoErrorKind::NotFound => Ok(None),
            Err(raw) => Err(name("open", file.name(), raw)),
        }
    }

    fn open_as(&self, file: &str, mode: OpenMode, direct: bool) -> Result<File, IoError> {
        assert_name(file);
        let target = retried(|| match &self.inner.place {
            Place::Os(root) => self.open_os(root, file, mode, direct).map(Target::Os),
            Place::Sim(disk) => SimFile::open(disk, file, mode).map(Target::Sim),
            Place::Overlay(over) => over.open(file, mode).map(Target::Overlay),
        });
        let target = target.map_err(|raw| name("open", file, raw))?;
        Ok(File::new(file, direct, target, Arc::clone(&self.inner.core)))
    }

    fn open_os(
        &self,
        root: &OwnedFd,
        file: &str,
        mode: OpenMode,
        direct: bool,
    ) -> Result<OwnedFd, RawError> {
        match sys::open(root, file, mode, direct) {
            Err(error) if direct && sys::refuses_direct(error) => {
                self.tell_buffered(file);
                // The refused call may have made the file already.
                let again = if mode == OpenMode::CreateNew { OpenMode::Create } else { mode };
                sys::open(root, file, again, false)
            }
            result => result,
        }
    }

    /// The directory, opened when it is first asked for.
    fn dir_os(&self, root: &OwnedFd, dir: &str) -> Result<Arc<OwnedFd>, RawError> {
        let known = self.inner.dirs.lock().get(dir).cloned();
        if let Some(open) = known {
            return Ok(open);
        }
        let opened = Arc::new(sys::dir(root, dir)?);
        self.inner.dirs.lock().insert(dir.to_string(), Arc::clone(&opened));
        Ok(opened)
    }

    fn tell_buffered(&self, file: &str) {
        if !self.inner.told_buffered.swap(true, Ordering::Relaxed) {
            let line = format!("no direct I/O for {file:?} here, going through the page cache");
            self.inner.core.logger.warn(&line);
        }
    }

    /// Whether there is a file or directory of this name.
    pub fn exists(&self, file: &str) -> Result<bool, IoError> {
        assert_name(file);
        let result = retried(|| match &self.inner.place {
            Place::Os(root) => sys::exists(root, file),
            Place::Sim(disk) => disk.exists(file),
            Place::Overlay(over) => over.exists(file),
        });
        result.map_err(|raw| name("stat", file, raw))
    }

    /// Removes a file or an empty directory. Durable once the directory that held it is synced.
    pub fn remove(&self, file: &str) -> Result<(), IoError> {
        assert_name(file);
        let result = retried(|| match &self.inner.place {
            Place::Os(root) => sys::remove(root, file),
            Place::Sim(disk) => disk.remove(file),
            Place::Overlay(over) => over.remove(file),
        });
        result.map_err(|raw| name("remove", file, raw))?;
        // It may have been a directory, and another of its name may be made.
        self.inner.dirs.lock().remove(file);
        Ok(())
    }

    /// Renames a file, replacing one of the new name. Durable once both directories are synced.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        assert_name(from);
        assert_name(to);
        let result = retried(|| match &self.inner.place {
            Place::Os(root) => sys::rename(root, from, to),
            Place::Sim(disk) => disk.rename(from, to),
            Place::Overlay(over) => over.rename(from, to),
        });
        result.map_err(|raw| name("rename", from, raw))
    }

    /// The names in a directory, in order, without the directory's own.
    pub fn list(&self, dir: &str) -> Result<Vec<String>, IoError> {
        assert_dir(dir);
        let result = retried(|| match &self.inner.place {
            Place::Os(root) => self.dir_os(root, dir).and_then(|dir| sys::list(&dir)),
            Place::Sim(disk) => disk.list(dir),
            Place::Overlay(over) => over.list(dir),
        });
        result.map_err(|raw| name("list", dir, raw))
    }

    /// Makes a directory whose parent exists; fine if it is there. Durable once the parent is
    /// synced.
    pub fn create_dir(&self, dir: &str) -> Result<(), IoError> {
        assert_name(dir);
        let result = retried(|| match &self.inner.place {
            Place::Os(root) => sys::create_dir(root, dir),
            Place::Sim(disk) => disk.create_dir(dir),
            Place::Overlay(over) => over.create_dir(dir),
        });
        result.map_err(|raw| name("create", dir, raw))
    }

    /// Makes the entries of a directory durable: what was created, renamed and removed in it. That
    /// it could not be opened is an error of "open", after which a later call can make up for this
    /// one; after an error of "sync" none can.
    pub fn sync_dir(&self, dir: &str) -> Result<(), IoError> {
        assert_dir(dir);
        let os = match &self.inner.place {
            Place::Os(root) => retried(|| self.dir_os(root, dir)).map(Some),
            Place::Sim(_) | Place::Overlay(_) => Ok(None),
        };
        let os = os.map_err(|raw| name("open", dir, raw))?;
        let due = self.inner.core.due(0);
        let result = retried(|| match (&self.inner.place, &os) {
            (Place::Sim(disk), _) => disk.sync_dir(dir),
            (_, Some(fd)) => sys::sync(fd),
            (_, None) => Ok(()),
        });
        self.inner.core.wait_due(due);
        result.map_err(|raw| name("sync", dir, raw))?;
        self.inner.core.stats.count_sync();
        Ok(())
    }

    /// Takes the exclusive lock that the file `file` stands for, or fails with kind `Locked` and
    /// the holder's process number if it left one.
    pub fn lock(&self, file: &str) -> Result<LockFile, IoError> {
        assert_name(file);
        match &self.inner.place {
            Place::Os(root) => lock_os(root, file),
            Place::Sim(disk) => match retried(|| SimLock::take(disk, file)) {
                Ok(lock) => Ok(LockFile { held: Held::Sim(lock) }),
                Err(raw) => Err(name("lock", file, raw)),
            },
            Place::Overlay(over) => over.lock(file),
        }
    }

    /// As [`Io::lock`], but changes nothing: where there is no such file, nobody is kept away.
    pub(crate) fn lock_existing(&self, file: &str) -> Result<LockFile, IoError> {
        match &self.inner.place {
            _ if !self.exists(file)? => Ok(LockFile { held: Held::Nothing }),
            Place::Os(root) => {
                let named = |raw| name("lock", file, raw);
                let fd = sys::open(root, file, OpenMode::ReadOnly, false).map_err(named)?;
                match sys::lock(fd.as_fd()) {
                    Ok(()) => Ok(LockFile { held: Held::Os(fd) }),
                    Err(raw) => Err(named(raw).held_by(sys::read_holder(&fd))),
                }
            }
            _ => self.lock(file),
        }
    }

    /// Starts to read from `offset` of `file`; `done` is told how it went. Waits for room first if
    /// as many operations as the options allow are in flight.
    pub fn submit_read(&self, file: &File, offset: u64, bufs: IoBufs, done: Done) {
        self.submit(Op::new(file, Direction::Read, offset, bufs, done));
    }

    /// Starts to write at `offset` of `file`; otherwise as [`Io::submit_read`].
    pub fn submit_write(&self, file: &File, offset: u64, bufs: IoBufs, done: Done) {
        self.submit(Op::new(file, Direction::Write, offset, bufs, done));
    }

    /// Starts several reads at once, with fewer system calls than one by one; otherwise as
    /// [`Io::submit_read`].
    pub fn submit_reads(&self, reads: impl IntoIterator<Item = ReadRequest>) {
        let op = |read: ReadRequest| {
            let ReadRequest { file, offset, bufs, done } = read;
            Op::new(&file, Direction::Read, offset, bufs, done)
        };
        let ops = reads.into_iter().map(op);
        match &self.inner.engine {
            #[cfg(target_os = "linux")]
            Engine::Ring(ring) => ring.submit(&self.inner.core, ops),
            Engine::Worker(workers) => hand_to(workers, &self.inner.core, ops),
            _ => ops.for_each(|op| self.submit(op)),
        }
    }

    fn submit(&self, op: Op) {
        let core = &self.inner.core;
        match &self.inner.engine {
            Engine::Sync => run_inline(core, op),
            Engine::Worker(workers) => hand_to(workers, core, [op]),
            #[cfg(target_os = "linux")]
            Engine::Ring(ring) => {
                ring.submit(core, [op]);
            }
            Engine::Sim(sim) => {
                while !core.flight.try_begin() {
                    self.reap(true);
                }
                sim.submit(core, op);
            }
        }
    }

    /// Runs completions that are ready. With `wait`, and if anything is in flight, does not return
    /// before at least one more completion has run, here or on another thread. Returns how many
    /// this call has run or seen. Not to be called from a completion.
    pub fn reap(&self, wait: bool) -> usize {
        let seen = self.inner.core.flight.progress();
        self.reap_past(seen, wait)
    }

    /// Waits until `ready` says so or nothing is in flight that could change it; returns its last
    /// answer. Completions that run between a look and the wait are not missed. Not to be called
    /// from a completion.
    pub fn wait_for(&self, ready: impl Fn() -> bool) -> bool {
        loop {
            let seen = self.inner.core.flight.progress();
            if ready() {
                return true;
            }
            if self.reap_past(seen, true) == 0 {
                return ready();
            }
        }
    }

    /// Operations in flight, those whose completion is running not counted.
    pub fn in_flight(&self) -> usize {
        self.inner.core.flight.in_flight() as usize
    }

    fn reap_past(&self, seen: u64, wait: bool) -> usize {
        self.inner.reap_past(seen, wait)
    }
}

impl Inner {
    fn reap_past(&self, seen: u64, wait: bool) -> usize {
        match &self.engine {
            Engine::Sim(sim) => sim.reap_past(&self.core, seen, wait),
            #[cfg(target_os = "linux")]
            Engine::Ring(ring) => ring.reap_past(&self.core, seen, wait),
            Engine::Sync | Engine::Worker(_) if wait => self.core.flight.wait_past(seen) as usize,
            Engine::Sync | Engine::Worker(_) => (self.core.flight.progress() - seen) as usize,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Workers empty their queue when they are dropped; the others need somebody to reap.
        if !matches!(self.engine, Engine::Sync | Engine::Worker(_)) {
            while self.core.flight.in_flight() > 0 {
                self.reap_past(self.core.flight.progress(), true);
            }
        }
    }
}

impl Engine {
    fn start(core: &Arc<Core>, options: &IoOptions) -> Result<Engine, RawError> {
        match options.method {
            Method::Sync => Ok(Engine::Sync),
            Method::Worker => Engine::workers(core, options),
            Method::IoUring => Engine::ring(core, options),
            Method::Sim => panic!("the simulation is opened with Io::simulated"),
        }
    }

    fn workers(core: &Arc<Core>, options: &IoOptions) -> Result<Engine, RawError> {
        let started = Workers::start(core, options.workers.max(1));
        let raw = |e: std::io::Error| RawError { kind: IoErrorKind::Other, os: e.raw_os_error() };
        started.map(Engine::Worker).map_err(raw)
    }

    #[cfg(target_os = "linux")]
    fn ring(core: &Arc<Core>, options: &IoOptions) -> Result<Engine, RawError> {
        Engine::ring_or_workers(core, options, Ring::new(options.depth))
    }

    #[cfg(target_os = "linux")]
    fn ring_or_workers(
        core: &Arc<Core>,
        options: &IoOptions,
        ring: Result<Ring, std::io::Error>,
    ) -> Result<Engine, RawError> {
        match ring {
            Ok(ring) => Ok(Engine::Ring(Box::new(ring))),
            Err(error) => {
                let line = format!("no io_uring here ({error}), worker threads do the I/O");
                core.logger.warn(&line);
                Engine::workers(core, options)
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn ring(core: &Arc<Core>, options: &IoOptions) -> Result<Engine, RawError> {
        core.logger.warn("no io_uring on this system, worker threads do the I/O");
        Engine::workers(core, options)
    }
}

/// Hands operations to worker threads, together as far as there is room.
fn hand_to(workers: &Workers, core: &Core, ops: impl IntoIterator<Item = Op>) {
    let mut counted = Vec::new();
    for op in ops {
        if !core.flight.try_begin() {
            workers.submit(counted.drain(..));
            if workers.is_worker() {
                run_inline(core, op);
                continue;
            }
            while !core.flight.try_begin() {
                core.flight.wait_room(core.flight.progress());
            }
        }
        counted.push(op);
    }
    workers.submit(counted);
}

fn run_inline(core: &Core, op: Op) {
    core.flight.begin_inline();
    let result = op.run();
    op.finish(core, result);
}

/// The error of a root directory: of the file that takes the place of it or of a parent, if so.
fn in_the_way(root: &Path, op: &'static str, raw: RawError) -> IoError {
    let file = match raw.kind {
        IoErrorKind::NotDirectory => root.ancestors().find(|path| sys::is_file(path)),
        _ => None,
    };
    name(op, &file.unwrap_or(root).to_string_lossy(), raw)
}

fn lock_os(root: &OwnedFd, file: &str) -> Result<LockFile, IoError> {
    let named = |raw| name("lock", file, raw);
    let fd = sys::open(root, file, OpenMode::Create, false).map_err(named)?;
    match sys::lock(fd.as_fd()) {
        Ok(()) => {
            sys::write_holder(&fd).map_err(named)?;
            Ok(LockFile { held: Held::Os(fd) })
        }
        Err(raw) if raw.kind == IoErrorKind::Locked => {
            Err(named(raw).held_by(sys::read_holder(&fd)))
        }
        Err(raw) => Err(named(raw)),
    }
}

/// An exclusive lock; dropping it, or the end of the process, lets it go.
#[derive(Debug)]
pub struct LockFile {
    #[expect(dead_code, reason = "held for what dropping it does")]
    held: Held,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
enum Held {
    Os(OwnedFd),
    Sim(SimLock),
    Nothing,
}

/// Names are relative, made of plain components, and not the root.
fn assert_name(name: &str) {
    assert!(!name.is_empty(), "a file has a name");
    assert_dir(name);
}

fn assert_dir(name: &str) {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    assert!(name.is_empty() || name.split('/').all(plain), "{name:?} is not a plain relative name");
}

fn name(op: &'static str, file: &str, raw: RawError) -> IoError {
    IoError::from_raw(op, file, 0, raw)
}

#[cfg(all(test, target_os = "linux", not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rightlink_env::Logger;

    /// A sandbox may forbid io_uring: the store works there all the same, and says so once.
    #[test]
    fn workers_stand_in_for_a_refused_ring() {
        let (logger, lines) = Logger::collecting();
        let env = Env::system(0).with_logger(logger);
        let options = IoOptions::with_method(Method::IoUring);
        let core = Arc::new(Core::new(&env, &options));
        let refused = Err(std::io::Error::from_raw_os_error(1));
        let engine = Engine::ring_or_workers(&core, &options, refused);
        assert!(matches!(engine, Ok(Engine::Worker(_))));
        assert_eq!((lines.all().len(), lines.containing("no io_uring here")), (1, 1));
    }

    /// Files of /proc cannot be opened for direct I/O.
    #[test]
    fn the_page_cache_stands_in_for_refused_direct_io() {
        let (logger, lines) = Logger::collecting();
        let env = Env::system(0).with_logger(logger);
        let options = IoOptions { direct: true, ..IoOptions::with_method(Method::Sync) };
        let io = Io::open(&env, Path::new("/proc/self"), options).expect("proc is mounted");
        for _ in 0..2 {
            let file = io.open_file("stat", OpenMode::ReadOnly).expect("opened buffered");
            assert!(file.is_direct(), "alignment is asserted all the same");
            let mut buf = crate::AlignedBuf::zeroed(4096);
            assert!(file.read_at(&mut buf, 0).expect("read") > 0);
        }
        assert_eq!((lines.all().len(), lines.containing("no direct I/O")), (1, 1));
    }
}
