//! Copies of an open database, and bringing them back.
//!
//! Invariants: a backup changes nothing of the database it copies, and its failure is no failure
//! of the database; a restored database was recovered and verified before it counts.
//! Does not do: the copy itself (`backup`).

use std::path::Path;
use std::time::Duration;

use rightlink_aio::{Io, IoErrorKind, IoOptions, Method, SimDisk};
use rightlink_env::Env;

pub use crate::backup::Progress as BackupProgress;
use crate::backup::{self, Parts, Target};
use crate::config::PAGE_SIZE;
use crate::db::Database;
use crate::db::engine::Engine;
use crate::db::info::VerifyReport;
use crate::db::open;
use crate::db::options::Options;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn};
use crate::wal::Control;

/// How a backup is made.
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    bytes_per_second: Option<u64>,
    disk: Option<SimDisk>,
}

/// What a restore did.
#[derive(Clone, Debug)]
pub struct RestoreReport {
    /// Bytes copied.
    pub bytes: u64,
    /// What was found when the restored database was checked; it is clean, or there would have
    /// been an error.
    pub verified: VerifyReport,
}

impl BackupOptions {
    /// At full speed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies at most so many bytes of pages and log in a second, on the average. Default: as fast
    /// as it goes.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> Self {
        self.bytes_per_second = Some(bytes.max(1));
        self
    }

    /// Copies to a simulated disk instead of a directory.
    #[must_use]
    pub fn simulation(mut self, disk: SimDisk) -> Self {
        self.disk = Some(disk);
        self
    }
}

impl Database {
    /// Copies the database into directory `to`, which it makes, while others go on reading and
    /// writing. The copy holds every transaction that was committed before the call, some or all of
    /// those that were committed meanwhile (in order), and no other; unlogged tables are empty in
    /// it. Open it as it is, or bring it back by [`Database::restore`].
    ///
    /// The log written meanwhile is copied as it grows, and let go.
    ///
    /// ```
    /// # use rightlink::Database;
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, copy, again) =
    /// #     (dir.path().join("db"), dir.path().join("copy"), dir.path().join("again"));
    /// let db = Database::open(&path)?;
    /// db.backup(&copy)?;
    /// let report = Database::restore(&copy, &again)?;
    /// assert!(report.verified.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` when there is such a directory, `Io` or `DiskFull` naming the directory when
    /// it cannot be written, `Corruption` when a page of the database cannot be read. The directory
    /// then holds an unfinished copy, which refuses to be opened, and can be removed.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupProgress> {
        self.backup_with(to, &BackupOptions::default(), |_| true)
    }

    /// As [`Database::backup`], paced and watched: `go_on` is asked after every 64 pages.
    ///
    /// # Errors
    /// As [`Database::backup`]; `Cancelled` when `go_on` said no.
    pub fn backup_with(
        &self,
        to: impl AsRef<Path>,
        options: &BackupOptions,
        mut go_on: impl FnMut(&BackupProgress) -> bool,
    ) -> Result<BackupProgress> {
        let engine = self.engine();
        engine.check_open()?;
        let target = target(&engine.env, to.as_ref(), options.disk.as_ref())?;
        let control = |redo, durable| engine.control_of_copy(redo, durable);
        let (io, pool, wal) = (&engine.io, &*engine.pool, &engine.wal);
        let parts = Parts { io, pool, wal, catalog: &engine.catalog, control: &control };
        let clock = &engine.env.clock;
        let began = clock.now();
        backup::run(&parts, &target, &mut |progress| {
            engine.check_open()?;
            if !go_on(progress) {
                return Err(Error::Cancelled("the backup, by its caller".into()));
            }
            if let Some(rate) = options.bytes_per_second {
                let bytes = progress.pages * PAGE_SIZE as u64 + progress.log_bytes;
                let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
                let passed = Duration::from_nanos(clock.now().0.saturating_sub(began.0));
                clock.sleep(due.saturating_sub(passed));
            }
            Ok(())
        })
    }

    /// Makes the database `to` from the backup `from`: copies it, recovers the copy and verifies
    /// it. See [`Options::restore`] for other settings than the default ones.
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<RestoreReport> {
        Options::default().restore(from, to)
    }
}

impl Options {
    /// Makes the database `to` from the backup in directory `from`, which nobody has open and which
    /// is not changed: copies it, recovers the copy and verifies it. Uses the memory of
    /// [`Options::memory`].
    ///
    /// # Errors
    /// `Invalid` when the backup was never finished, `NotFound` when there is none, `AlreadyExists`
    /// when there is a directory `to`, `Corruption` naming the first finding when the copy does not
    /// verify. Until all is well `to` holds an unfinished copy, which refuses to be opened.
    pub fn restore(
        mut self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<RestoreReport> {
        let source = Options { path: from.as_ref().to_path_buf(), create: false, ..self.clone() };
        let env = open::environment(&self);
        let io = open::open_io(&env, &source)?;
        open::check_copied(&io, &source)?;
        if !io.exists(open::CONTROL).map_err(Error::Io)? {
            return Err(Error::NotFound(format!("no database in {}", source.path.display())));
        }
        let mut bytes = 0;
        let target = target(&env, to.as_ref(), None)?;
        let name = source.path.display().to_string();
        let restored = backup::restore(&io, &name, target, &mut |more| {
            bytes += more;
            Ok(())
        })?;
        self.path = to.as_ref().to_path_buf();
        (self.create, self.restoring) = (false, true);
        let db = Database::open_with(&self)?;
        let verified = db.verify()?;
        db.close()?;
        if let Some(finding) = verified.findings.first() {
            let (relation, what) = (Some(finding.relation.clone()), finding.what.clone());
            let file = FileId(finding.file).path();
            return Err(Error::Corruption { relation, file, block: finding.block, what });
        }
        restored.finish()?;
        Ok(RestoreReport { bytes, verified })
    }
}

/// The directory to copy to, made now.
fn target(env: &Env, path: &Path, disk: Option<&SimDisk>) -> Result<Target> {
    let name = path.display().to_string();
    let options = IoOptions::with_method(Method::Sync);
    if let Some(disk) = disk {
        let io = Io::simulated(env, disk.clone(), options).map_err(Error::Io)?;
        return Target::new(io, name);
    }
    open::check_path(path)?;
    let refused = |error| open::no_directory(path, error);
    match Io::open(env, path, options.clone()) {
        Err(error) if error.kind == IoErrorKind::NotFound => {}
        Err(error) => return Err(refused(error)),
        Ok(_) => return Err(Error::AlreadyExists(format!("directory {name}"))),
    }
    Io::create_root(path).map_err(refused)?;
    Target::new(Io::open(env, path, options).map_err(refused)?, name)
}

impl Engine {
    /// The control file of a copy whose log reaches from `redo` to `durable`.
    fn control_of_copy(&self, redo: Lsn, durable: Lsn) -> Control {
        let counters = self.counters(false, Lsn(0));
        Control {
            database: counters.database,
            redo,
            next_xid: counters.next_xid,
            next_file: counters.next_file,
            durable,
            clean: false,
            redo_speed: counters.redo_speed,
            device_depth: counters.device_depth,
            outcomes: 0,
        }
    }
}
