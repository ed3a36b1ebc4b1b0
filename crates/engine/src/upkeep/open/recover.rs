//! Recovery: brings an existing database up to the end of its log.
//!
//! Invariants: nothing is changed before the log was found whole. Torn pages are healed before the
//! log is opened (R15). A database that fails to open is as it was, or recovers the same way again.
//! Does not do: redo itself (`recovery::redo`); undo, which does not exist.

use rightlink_aio::{Io, IoErrorKind};
use rightlink_env::sync::Arc;
use rightlink_env::{Env, points};

use crate::buffer::{BufferPool, DoubleWrite};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::recovery::redo;
use crate::txn::{STATUS_FILE, TxnManager, outcomes_stamp, segments_of};
use crate::upkeep::open::{LockedDirectory, Parts, assemble, open_pool, settings};
use crate::upkeep::{CheckpointCause, Engine, Options, device};
use crate::wal::{Control, Wal};

/// Brings a database that exists up to the end of its log.
pub(in crate::upkeep) fn recover(
    directory: LockedDirectory,
    options: &Options,
) -> Result<Arc<Engine>> {
    let LockedDirectory { env, io, .. } = &directory;
    let control = Wal::read_control(io)?;
    check_system_files(io, &control)?;
    let log = redo::find_end(env, io, control.redo)?;
    let healed = DoubleWrite::recover(io, !options.offline)?.len();
    if healed > 0 || log.dropped > 0 {
        let (dropped, end) = (log.dropped, log.end);
        let what =
            format!("{healed} torn pages healed, {dropped} bytes after log end {end} dropped");
        env.logger.info(&what);
    }
    let wal = Wal::open(env, io, settings::wal_options(options), log.end)?;
    let device = device::measure(options, control.device);
    let pool = open_pool(&directory, wal, device, options)?;
    if options.offline {
        // Each hint would make a page that was read one that the overlay keeps in memory.
        pool.refuse_hints();
    }
    // An overlay needs memory for the changes of redo.
    let memory = env.budget.available() / if options.offline { 8 } else { 2 };
    let replayed = redo::replay(env, io, &pool, control.redo..log.end, memory)?;
    if replayed.records > 0 {
        let (records, bytes, ms) = (replayed.records, replayed.bytes, replayed.nanos / 1_000_000);
        env.logger.info(&format!("{records} records of log ({bytes} bytes) applied in {ms} ms"));
    }
    if control.clean && log.records == 0 {
        check_outcomes(&pool, &control)?;
    }
    let txn_options = settings::txn_options(env, options);
    let txns = TxnManager::open_with(Arc::clone(&pool), control.next_xid, txn_options)?;
    if txns.oldest_xid() < control.oldest_xid {
        let what = "the first page is an older copy of itself: outcomes of transactions are kept \
                    from an earlier xid on than at the last checkpoint";
        return Err(Error::corrupt_file(STATUS_FILE.path(), what));
    }
    let used = control.next_file.max(replayed.last_file + 1);
    let catalog = Catalog::open(&pool, &txns, used)?;
    if !options.offline {
        let mut needed = txns.segments();
        // Until the next checkpoint the control file says that these exist.
        needed.extend(segments_of(control.oldest_xid..control.next_xid));
        drop_orphans(env, &pool, &catalog, &needed)?;
    }
    if !control.clean || log.records > 0 {
        catalog.empty_unlogged()?;
    }
    let parts = Parts { pool, txns, catalog, device, replayed };
    let engine = assemble(directory, &control, parts, options)?;
    engine.restore_prepared()?;
    if options.offline {
        return Ok(Arc::new(engine));
    }
    // The mark of a clean close goes before anything changes. A long redo is not left to the next
    // opening either, but a thread makes that checkpoint if there is one.
    if control.clean || (log.records > 0 && !options.threads) {
        engine.checkpoint(CheckpointCause::Asked, false)?;
    } else if log.records > 0 {
        engine.schedule.request();
    }
    Ok(Arc::new(engine))
}

/// Compares the pages of outcomes with the stamp of a clean close, after which nothing was written.
/// A page that is an older copy of itself looks sound, but shows its transactions as rolled back.
fn check_outcomes(pool: &Arc<BufferPool>, control: &Control) -> Result<()> {
    match outcomes_stamp(pool, control.next_xid, control.redo) {
        Ok(stamp) if control.outcomes != 0 && stamp != control.outcomes => {
            let what = "outcomes of transactions are not those of the clean close: a page is an \
                        older copy of itself, and what was committed would look rolled back";
            Err(Error::corrupt_file(STATUS_FILE.path(), what))
        }
        // A page that cannot be read is an error for its next reader.
        _ => Ok(()),
    }
}

/// Refuses a database without its system files, which redo would create empty.
fn check_system_files(io: &Io, control: &Control) -> Result<()> {
    match io.list("wal") {
        Err(error) if error.kind == IoErrorKind::NotFound => {
            return Err(Error::corrupt_file("wal", "the directory of the log is missing"));
        }
        names => names.map_err(Error::Io)?,
    };
    for file in crate::catalog::system_files() {
        if !io.exists(&file.path()).map_err(Error::Io)? {
            let what = "a file of the system's own tables is missing";
            return Err(Error::corrupt_file(file.path(), what));
        }
    }
    for segment in segments_of(control.oldest_xid..control.next_xid) {
        if !io.exists(&segment.path()).map_err(Error::Io)? {
            let what = "a file with outcomes of transactions is missing";
            return Err(Error::corrupt_file(segment.path(), what));
        }
    }
    Ok(())
}

/// Removes files of tables that were created without a commit, or dropped with one. A file that
/// cannot be removed does no harm, and the next opening retries. Files that are `needed` stay,
/// although no table has them.
fn drop_orphans(env: &Env, pool: &BufferPool, catalog: &Catalog, needed: &[FileId]) -> Result<()> {
    let mut owned = catalog.files()?;
    owned.extend(needed);
    for file in pool.files_on_disk()? {
        if file.0 >= crate::catalog::FIRST_USER_FILE && !owned.contains(&file) {
            env.logger.debug(&format!("file {} belongs to no table and is removed", file.0));
            points::hit("open.orphan");
            let failed = match pool.drop_file(file) {
                // A failed sync may have lost other entries of the directory too.
                Err(Error::Io(error)) if !error.op.starts_with("sync") => error.to_string(),
                // Some file systems need space to remove a file.
                Err(error @ Error::DiskFull(_)) => error.to_string(),
                dropped => {
                    dropped?;
                    continue;
                }
            };
            let what = format!("file {} belongs to no table and stays: {failed}", file.0);
            env.logger.warn(&what);
        }
    }
    Ok(())
}
