//! Settings with which a database is opened: one builder, every default stated.
//!
//! Invariants: an option is checked when the database is opened, before any file is touched.
//! Does not do: settings of single transactions ([`crate::TransactionOptions`]).

use std::path::PathBuf;
use std::time::Duration;

use rightlink_aio::{DeviceModel, Method, SimDisk};
use rightlink_env::{Env, Logger};

use crate::ids::Xid;

/// Most threads that one statement uses.
pub(crate) const MAX_INSERT_THREADS: usize = 64;

/// Builder of an open [`Database`]: made by [`Database::options`].
///
/// ```
/// use rightlink::Database;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Database::options().memory(32 << 20).insert_threads(1).open(dir.path())?;
/// # db.close()
/// # }
/// ```
///
/// [`Database`]: crate::Database
/// [`Database::options`]: crate::Database::options
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) memory: usize,
    pub(crate) method: Method,
    pub(crate) direct: bool,
    pub(crate) depth: Option<u32>,
    pub(crate) workers: u32,
    pub(crate) device: Option<DeviceModel>,
    pub(crate) create: bool,
    pub(crate) threads: bool,
    pub(crate) auto_vacuum: bool,
    pub(crate) insert_threads: Option<usize>,
    pub(crate) vacuum_threads: Option<usize>,
    pub(crate) vacuum_rate: Option<u64>,
    pub(crate) auto_vacuum_threads: usize,
    pub(crate) max_snapshot_age: Option<Duration>,
    pub(crate) max_log_bytes: u64,
    pub(crate) log_segment_bytes: u64,
    pub(crate) double_write: bool,
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) logger: Option<Logger>,
    pub(crate) pool_pages: Option<usize>,
    pub(crate) first_xid: Xid,
    pub(crate) simulation: Option<(Env, SimDisk)>,
    /// Opened only to be checked: nothing is kept.
    pub(crate) offline: bool,
    /// Opened to be checked before it counts as restored.
    pub(crate) restoring: bool,
    pub(crate) path: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 128 << 20,
            method: Method::IoUring,
            direct: false,
            depth: None,
            workers: 64,
            device: None,
            create: true,
            threads: true,
            auto_vacuum: true,
            insert_threads: None,
            vacuum_threads: None,
            vacuum_rate: None,
            auto_vacuum_threads: 2,
            max_snapshot_age: None,
            max_log_bytes: 1 << 30,
            log_segment_bytes: 16 << 20,
            double_write: true,
            lock_timeout: None,
            logger: None,
            pool_pages: None,
            first_xid: Xid::FIRST,
            simulation: None,
            offline: false,
            restoring: false,
            path: PathBuf::new(),
        }
    }
}

impl Options {
    /// Memory for everything whose size depends on data: pool, log buffer, sorts, batches. At least
    /// 8 MiB; default 128 MiB. About three quarters become buffer pool.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// How reads and writes reach the device. Default `io_uring`, falling back to `worker` with one
    /// logged line where the kernel refuses it.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Bypasses the operating system's page cache for data files. Default off.
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// Most reads and writes in flight at once. Default: as many reads as the device serves at
    /// once, which is measured when the database is created, in a tenth of a second, and
    /// remembered; where reads do not get past the page cache, 64.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth.max(1));
        self
    }

    /// Most threads of the `worker` method; they are started as they are needed. Default 64.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// Delays every read and write as a modelled device would (experiments).
    pub fn device(mut self, device: Option<DeviceModel>) -> Self {
        self.device = device;
        self
    }

    /// Creates the database when the directory holds none. Default on.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Most log kept between checkpoints, in bytes. Default 1 GiB; the distance between checkpoints
    /// adapts below this to the measured speed of redo.
    pub fn max_log_bytes(mut self, bytes: u64) -> Self {
        self.max_log_bytes = bytes;
        self
    }

    /// Bytes of one log segment file. Default 16 MiB.
    pub fn log_segment_bytes(mut self, bytes: u64) -> Self {
        self.log_segment_bytes = bytes;
        self
    }

    /// Heals torn pages from a double-write area. Default on; off only where the device promises
    /// that 8 KiB writes are atomic.
    pub fn double_write(mut self, on: bool) -> Self {
        self.double_write = on;
        self
    }

    /// Longest wait for another transaction's lock. Default none: waits end by commit, rollback,
    /// deadlock detection or cancel.
    pub fn lock_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Where one-line messages go. Default: warnings and errors to standard error. With the feature
    /// `tracing` they are events of the target `rightlink`, too.
    pub fn logger(mut self, logger: Logger) -> Self {
        self.logger = Some(logger);
        self
    }

    /// The first transaction id of a database that is created (tests): those before it count as
    /// used up.
    pub fn first_xid(mut self, xid: u64) -> Self {
        self.first_xid = Xid(xid);
        self
    }

    /// Pages of the buffer pool, instead of what the memory budget allows (tests and experiments).
    pub fn pool_pages(mut self, pages: usize) -> Self {
        self.pool_pages = Some(pages);
        self
    }

    /// Opens on a simulated disk, without background threads: one seed reproduces one run.
    /// Write-back, checkpoints and vacuum happen when [`Database::step`](crate::Database::step) is
    /// called.
    pub fn simulation(mut self, env: Env, disk: SimDisk) -> Self {
        self.simulation = Some((env, disk));
        self.threads = false;
        self
    }

    /// Starts background threads (write-back, checkpoint, log flush). Default on.
    pub fn threads(mut self, on: bool) -> Self {
        self.threads = on;
        self
    }

    /// Removes dead rows in the background, in tables that have gathered many. Default on; needs
    /// [`Options::threads`].
    pub fn auto_vacuum(mut self, on: bool) -> Self {
        self.auto_vacuum = on;
        self
    }

    /// Most threads that put the entries of one large statement into the indexes of its table, the
    /// statement's own included; the others help one statement at a time, and none where all are
    /// busy. From 1 (no helpers) to 64. Default: as many as the machine runs at once, and one in a
    /// simulation.
    pub fn insert_threads(mut self, threads: usize) -> Self {
        self.insert_threads = Some(threads.clamp(1, MAX_INSERT_THREADS));
        self
    }

    /// Most threads that clean the indexes of a table at once in a vacuum on request.
    /// Default: as many as the machine runs at once, and one in a simulation.
    pub fn vacuum_threads(mut self, threads: usize) -> Self {
        self.vacuum_threads = Some(threads.max(1));
        self
    }

    /// Most tables that are vacuumed at once without being asked for. Default 2.
    pub fn auto_vacuum_threads(mut self, threads: usize) -> Self {
        self.auto_vacuum_threads = threads.clamp(1, 64);
        self
    }

    /// How long a snapshot may keep rows from being removed. The next read by an older one fails
    /// with [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld); a statement that writes is
    /// never cut short. Looked at twice a second and at each vacuum. Default none: for ever.
    pub fn max_snapshot_age(mut self, age: Option<Duration>) -> Self {
        self.max_snapshot_age = age;
        self
    }

    /// Most bytes per second that an automatic vacuum reads, from the disk or from memory. Default
    /// none: it adapts to the load.
    pub fn vacuum_rate(mut self, bytes: Option<u64>) -> Self {
        self.vacuum_rate = bytes;
        self
    }
}
