//! Copies an open database to a directory, and a copy back to a new one.
//!
//! Invariants: a backup changes nothing of the database that it copies. A restore changes nothing
//! of the backup.
//! Does not do: choose pages and log (`crate::backup`); recover and verify the restored database.

use std::path::Path;
use std::time::Duration;

use rightlink_aio::{Io, IoErrorKind, IoOptions, Method, SimDisk};
use rightlink_env::Env;

use crate::backup::{self, End, Parts, Progress, Restored, Target};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};
use crate::upkeep::open::{self, directory};
use crate::upkeep::{Engine, Options};
use crate::wal::{Control, Wal};

/// A database that was copied back, and does not count before it is recovered and verified.
pub(crate) struct CopiedBack {
    pub(crate) restored: Restored,
    /// Bytes written.
    pub(crate) bytes: u64,
}

impl Engine {
    /// Copies the database to `target`, at most `bytes_per_second` on the average. `go_on` is
    /// called after every 64 pages; its error ends the backup.
    pub(crate) fn backup(
        &self,
        target: &Target,
        bytes_per_second: Option<u64>,
        go_on: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Progress> {
        // Before the copy: segments for these xids exist, and will be in the copy.
        let next_xid = self.txns.next_xid();
        let control = |end: &End| self.control_of_copy(next_xid, end);
        let (io, pool, wal) = (&self.io, &*self.pool, &self.wal);
        let (catalog, txns) = (&self.catalog, &*self.txns);
        let parts = Parts { io, pool, wal, catalog, txns, control: &control };
        let clock = &self.env.clock;
        let began = clock.now();
        backup::run(&parts, target, &mut |progress| {
            self.check_open()?;
            go_on(progress)?;
            if let Some(rate) = bytes_per_second {
                let bytes = progress.pages * PAGE_SIZE as u64 + progress.log_bytes;
                let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
                let passed = Duration::from_nanos(clock.now().0.saturating_sub(began.0));
                clock.sleep(due.saturating_sub(passed));
            }
            Ok(())
        })
    }

    /// The control file of a copy that was begun when `next_xid` was to be handed out next.
    fn control_of_copy(&self, next_xid: Xid, end: &End) -> Control {
        let counters = self.control_counters(false, Lsn(0), end.oldest_xid);
        Control { next_xid, ..counters.control(end.redo, end.durable) }
    }
}

/// Copies the backup that `source` names to the new directory `to`.
pub(crate) fn copy_back(source: &Options, to: &Path) -> Result<CopiedBack> {
    let env = open::environment(source);
    let io = directory::open_io(&env, source)?;
    open::check_copied(&io, source)?;
    if !io.exists(open::CONTROL).map_err(Error::Io)? {
        return Err(Error::NotFound(format!("no database in {}", source.path.display())));
    }
    // A backup of another version is refused before anything is copied.
    if let Err(error @ Error::Invalid(_)) = Wal::read_control(&io) {
        return Err(error);
    }
    let mut bytes = 0;
    let target = target(&env, to, None)?;
    let name = source.path.display().to_string();
    let restored = backup::restore(&io, &name, target, &mut |more| {
        bytes += more;
        Ok(())
    })?;
    Ok(CopiedBack { restored, bytes })
}

/// Makes the directory to copy to.
pub(crate) fn target(env: &Env, path: &Path, disk: Option<&SimDisk>) -> Result<Target> {
    let name = path.display().to_string();
    let options = IoOptions::with_method(Method::Sync);
    if let Some(disk) = disk {
        let io = Io::simulated(env, disk.clone(), options).map_err(Error::Io)?;
        return Target::new(io, name);
    }
    directory::check_path(path)?;
    let refused = |error| directory::no_directory(path, error);
    match Io::open(env, path, options.clone()) {
        Err(error) if error.kind == IoErrorKind::NotFound => {}
        Err(error) => return Err(refused(error)),
        Ok(_) => return Err(Error::AlreadyExists(format!("directory {name}"))),
    }
    Io::create_root(path).map_err(refused)?;
    Target::new(Io::open(env, path, options).map_err(refused)?, name)
}
