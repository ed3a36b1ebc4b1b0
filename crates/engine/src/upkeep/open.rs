//! Opening a database: create or recover, in an order in which every step may be cut short.
//!
//! Creation is marked by the file `creating`, made durably first and removed durably last: a
//! directory in which it is found holds nothing that was ever acknowledged, and is made anew.
//!
//! A directory that a backup or restore left unfinished is refused.
//!
//! Opening: lock, control file, end of the log found, torn pages healed from the double-write area,
//! log opened at its end, pages replayed, catalog read, files that no table owns removed, unlogged
//! tables emptied, checkpoint.
//!
//! Invariants: nothing is changed before the lock is held and the log was found whole.
//! Does not do: threads (`background`).

use std::path::Path;

use rightlink_aio::{Io, IoError, IoErrorKind, IoOptions, LockFile, OpenMode};
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Env, Level, Logger, Rng, points};

use crate::backup::UNFINISHED;
use crate::buffer::{BufferPool, DoubleWrite, PoolOptions};
use crate::catalog::Catalog;
use crate::config::{MIN_POOL_PAGES, PAGE_SIZE};
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, Xid};
use crate::recovery::checkpoint::Pace;
use crate::recovery::redo::{self, Replayed};
use crate::sort::TempFiles;
use crate::txn::{MAX_XID, STATUS_FILE, TxnManager, TxnOptions, outcomes_stamp, segments_of};
use crate::upkeep::device;
use crate::upkeep::engine::{Engine, Upkeep};
use crate::upkeep::options::{MAX_INSERT_THREADS, Options};
use crate::upkeep::tally::Cause;
use crate::upkeep::vacuum;
use crate::wal::{Control, RedoSpeed, UNFINISHED_CONTROL, Wal, WalOptions};

pub(crate) const CREATING: &str = "creating";
pub(crate) const CONTROL: &str = "control";
pub(crate) const LOCK: &str = "lock";
const FOLDERS: [&str; 3] = ["data", "wal", "tmp"];
const MIN_MEMORY: usize = 8 << 20;
/// Most memory: the pages of a pool are numbered in 32 bits.
const MAX_MEMORY: u64 = 16 << 40;
/// Most pages of a pool: those of [`MAX_MEMORY`].
const MAX_POOL_PAGES: usize = (MAX_MEMORY / PAGE_SIZE as u64) as usize;
/// Memory of an open database that does not depend on any size: stacks of threads, code that was
/// paged in, small tables, what the allocator keeps.
const FIXED_MEMORY: usize = 5 << 20;
/// Memory beside the pool: log buffer, group of write-back, and a sort or vacuum.
const MIN_SPARE: usize = 5 << 19;
/// Pages of a double-write group.
const GROUP_PAGES: usize = 256;

/// Opens or creates the database that `options` name.
pub(crate) fn open(options: &Options) -> Result<Arc<Engine>> {
    check(options)?;
    let env = environment(options);
    let io = open_io(&env, options)?;
    // Before the lock, whose file would stay in a directory that is refused.
    is_fresh(&io, options)?;
    points::hit("open.before-lock");
    let lock = io.lock(LOCK).map_err(|error| already_open(&options.path, error))?;
    // And again: whoever had the lock may have made a database, or removed one.
    match is_fresh(&io, options)? {
        true => create(env, io, lock, options),
        false => recover(env, io, lock, options),
    }
}

/// Is there no database yet, but a place for one?
fn is_fresh(io: &Io, options: &Options) -> Result<bool> {
    check_copied(io, options)?;
    if io.exists(CREATING).map_err(Error::Io)? {
        let path = options.path.display();
        let what = format!("no database in {path}: its creation is under way or was cut short");
        return if options.create { Ok(true) } else { Err(Error::NotFound(what)) };
    }
    if io.exists(CONTROL).map_err(Error::Io)? {
        return Ok(false);
    }
    check_empty(io, options).map(|()| true)
}

/// A copy that was cut short is no database, whatever else is there.
pub(crate) fn check_copied(io: &Io, options: &Options) -> Result<()> {
    if options.restoring || !io.exists(UNFINISHED).map_err(Error::Io)? {
        return Ok(());
    }
    let path = options.path.display();
    let what = "a backup or restore that is under way or was cut short";
    Err(Error::Invalid(format!("{path} holds {what}, not a whole database")))
}

/// A directory that holds neither a database nor an unfinished one must be empty to become one.
fn check_empty(io: &Io, options: &Options) -> Result<()> {
    let path = options.path.display();
    if !options.create {
        return Err(Error::NotFound(format!("no database in {path}")));
    }
    let names = io.list("").map_err(Error::Io)?;
    match names.iter().find(|name| *name != LOCK) {
        None => Ok(()),
        Some(name) => {
            let what = format!("{path} holds no database and is not empty: it has {name}");
            Err(Error::Invalid(what))
        }
    }
}

fn check(options: &Options) -> Result<()> {
    let memory = options.memory;
    if memory < MIN_MEMORY {
        let what = format!("option memory: {memory} bytes are less than {MIN_MEMORY}");
        return Err(Error::Invalid(what));
    }
    if memory as u64 > MAX_MEMORY {
        let what = format!("option memory: {memory} bytes are more than {MAX_MEMORY} (16 TiB)");
        return Err(Error::Invalid(what));
    }
    let pages = options.pool_pages.unwrap_or(MIN_POOL_PAGES);
    if !(MIN_POOL_PAGES..=MAX_POOL_PAGES).contains(&pages) {
        let bounds = format!("{MIN_POOL_PAGES} to {MAX_POOL_PAGES}");
        return Err(Error::Invalid(format!("option pool_pages: {pages} is not in {bounds}")));
    }
    let (first, bounds) = (options.first_xid, Xid::FIRST..Xid(MAX_XID));
    if !bounds.contains(&first) {
        let bounds = format!("{} to {}", Xid::FIRST, MAX_XID - 1);
        return Err(Error::Invalid(format!("option first_xid: {first} is not in {bounds}")));
    }
    Ok(())
}

pub(crate) fn environment(options: &Options) -> Env {
    let env = match &options.simulation {
        Some((env, _)) => env.clone(),
        None => Env::system(variable_memory(options)).with_logger(Logger::stderr(Level::Warn)),
    };
    let env = match &options.logger {
        Some(logger) => env.with_logger(logger.clone()),
        None => env,
    };
    #[cfg(feature = "tracing")]
    let env = {
        let logger = crate::upkeep::traced::logger(env.logger.clone());
        env.with_logger(logger)
    };
    env
}

pub(crate) fn open_io(env: &Env, options: &Options) -> Result<Io> {
    let settings = IoOptions {
        method: options.method,
        direct: options.direct,
        depth: options.depth.unwrap_or(device::MOST_IN_FLIGHT),
        workers: options.workers,
        device: options.device,
    };
    if let Some((_, disk)) = &options.simulation {
        return Io::simulated(env, disk.clone(), settings).map_err(Error::Io);
    }
    let path = &options.path;
    check_path(path)?;
    if options.create {
        Io::create_root(path).map_err(|error| no_directory(path, error))?;
    }
    Io::open(env, path, settings).map_err(|error| no_directory(path, error))
}

/// An empty path would be the working directory to some calls and nothing to others.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    match path.as_os_str().is_empty() {
        true => Err(Error::Invalid("the path of the database is empty".into())),
        false => Ok(()),
    }
}

/// Why `path` cannot be made or opened as the directory of a database.
pub(crate) fn no_directory(path: &Path, error: IoError) -> Error {
    let name = path.display();
    match error.kind {
        IoErrorKind::NotFound => Error::NotFound(format!("no database in {name}")),
        IoErrorKind::NotDirectory if Path::new(&error.file) == path => {
            Error::Invalid(format!("{name} is a file, and not the directory of a database"))
        }
        IoErrorKind::NotDirectory => {
            let file = error.file;
            Error::Invalid(format!("{file} is a file, so there is no directory {name}"))
        }
        _ => Error::Io(error),
    }
}

pub(crate) fn already_open(path: &Path, error: IoError) -> Error {
    match error.kind {
        IoErrorKind::Locked => {
            Error::Locked(format!("{} is open already: {error}", path.display()))
        }
        // Before anything else says which database it is about.
        _ => Error::Io(IoError { file: path.join(&error.file).display().to_string(), ..error }),
    }
}

fn create(env: Env, io: Io, lock: LockFile, options: &Options) -> Result<Arc<Engine>> {
    if io.exists(CREATING).map_err(Error::Io)? {
        clear(&io)?;
    }
    let marker = io.open_file(CREATING, OpenMode::Create).map_err(Error::Io)?;
    marker.sync_all().map_err(Error::Io)?;
    io.sync_dir("").map_err(Error::Io)?;
    points::hit("create.marked");
    for folder in FOLDERS {
        io.create_dir(folder).map_err(Error::Io)?;
    }
    io.sync_dir("").map_err(Error::Io)?;
    let database = identity(&env, options);
    let device_depth = device::measure(options, 0);
    let control = Control {
        database,
        redo: Lsn(0),
        next_xid: options.first_xid,
        oldest_xid: options.first_xid,
        next_file: crate::catalog::FIRST_USER_FILE,
        durable: Lsn(0),
        clean: false,
        redo_speed: RedoSpeed::default(),
        device_depth,
        outcomes: 0,
    };
    let wal = Arc::new(Wal::create(&env, &io, wal_options(options), &control)?);
    let pool = BufferPool::new(&env, &io, Arc::clone(&wal), pool_options(options))?;
    device::set_streams(&pool, options, device_depth);
    TxnManager::create(&pool, options.first_xid)?;
    let txns =
        TxnManager::open_with(Arc::clone(&pool), options.first_xid, txn_options(&env, options))?;
    let catalog = Catalog::create(&pool, &txns)?;
    let pace = Pace::new(options.max_log_bytes, pool.frames(), control.redo_speed);
    let upkeep = Upkeep::new(pace, wal.end(), control.redo_speed, vacuum_settings(options));
    let engine = Engine {
        temp: TempFiles::open(&io, &env.logger)?,
        random: Mutex::new(env.rng("defaults")),
        env,
        io,
        pool,
        wal,
        txns,
        catalog,
        database,
        device_depth,
        replayed: Replayed::default(),
        upkeep,
        _lock: lock,
    };
    engine.checkpoint(Cause::Asked, false)?;
    points::hit("create.before-unmark");
    engine.io.remove(CREATING).map_err(Error::Io)?;
    engine.io.sync_dir("").map_err(Error::Io)?;
    Ok(Arc::new(engine))
}

/// Removes what a creation that was cut short left behind, folders and the marker included: if it
/// was a sync that failed, no later one makes these very entries and files durable.
fn clear(io: &Io) -> Result<()> {
    for folder in FOLDERS {
        let names = match io.list(folder) {
            Err(error) if error.kind == IoErrorKind::NotFound => continue,
            names => names.map_err(Error::Io)?,
        };
        for name in names {
            io.remove(&format!("{folder}/{name}")).map_err(Error::Io)?;
        }
        io.remove(folder).map_err(Error::Io)?;
    }
    for name in [CONTROL, UNFINISHED_CONTROL, crate::buffer::DOUBLE_WRITE_FILE] {
        if io.exists(name).map_err(Error::Io)? {
            io.remove(name).map_err(Error::Io)?;
        }
    }
    io.sync_dir("").map_err(Error::Io)?;
    points::hit("create.cleared");
    // Last: until here the directory says that it holds nothing of worth.
    io.remove(CREATING).map_err(Error::Io)?;
    io.sync_dir("").map_err(Error::Io)
}

/// Brings a database that exists up to the end of its log.
pub(crate) fn recover(env: Env, io: Io, lock: LockFile, options: &Options) -> Result<Arc<Engine>> {
    let control = Wal::read_control(&io)?;
    check_system_files(&io, &control)?;
    let log = redo::find_end(&env, &io, control.redo)?;
    let healed = DoubleWrite::recover(&io, !options.offline)?.len();
    if healed > 0 || log.dropped > 0 {
        let (dropped, end) = (log.dropped, log.end);
        let what =
            format!("{healed} torn pages healed, {dropped} bytes after log end {end} dropped");
        env.logger.info(&what);
    }
    let wal = Arc::new(Wal::open(&env, &io, wal_options(options), log.end)?);
    let pool = BufferPool::new(&env, &io, Arc::clone(&wal), pool_options(options))?;
    let device_depth = device::measure(options, control.device_depth);
    device::set_streams(&pool, options, device_depth);
    if options.offline {
        // They would make every page read one that is kept in memory.
        pool.refuse_hints();
    }
    // An overlay needs memory for what redo changes.
    let memory = env.budget.available() / if options.offline { 8 } else { 2 };
    let replayed = redo::replay(&env, &io, &pool, control.redo..log.end, memory)?;
    if replayed.records > 0 {
        let (records, bytes, ms) = (replayed.records, replayed.bytes, replayed.nanos / 1_000_000);
        env.logger.info(&format!("{records} records of log ({bytes} bytes) applied in {ms} ms"));
    }
    if control.clean && log.records == 0 {
        check_outcomes(&pool, &control)?;
    }
    let txns =
        TxnManager::open_with(Arc::clone(&pool), control.next_xid, txn_options(&env, options))?;
    if txns.oldest_xid() < control.oldest_xid {
        let what = "the first page is an older copy of itself: outcomes of transactions are kept \
                    from an earlier xid on than at the last checkpoint";
        return Err(Error::corrupt_file(STATUS_FILE.path(), what));
    }
    let used = control.next_file.max(replayed.last_file + 1);
    let catalog = Catalog::open(&pool, &txns, used)?;
    if !options.offline {
        let mut needed = txns.segments();
        // Up to the next checkpoint the control file says that these are there.
        needed.extend(segments_of(control.oldest_xid..control.next_xid));
        drop_orphans(&env, &pool, &catalog, &needed)?;
    }
    if !control.clean || log.records > 0 {
        catalog.empty_unlogged()?;
    }
    let redo_speed = newer(replayed.speed(), control.redo_speed);
    let pace = Pace::new(options.max_log_bytes, pool.frames(), redo_speed);
    let upkeep = Upkeep::new(pace, control.redo, redo_speed, vacuum_settings(options));
    let engine = Engine {
        temp: TempFiles::open(&io, &env.logger)?,
        random: Mutex::new(env.rng("defaults")),
        env,
        io,
        pool,
        wal,
        txns,
        catalog,
        database: control.database,
        device_depth,
        replayed,
        upkeep,
        _lock: lock,
    };
    if options.offline {
        return Ok(Arc::new(engine));
    }
    // The mark of a clean close goes before anything changes. A long redo need not be paid twice
    // by whoever waits for the database to open.
    if control.clean || (log.records > 0 && !options.threads) {
        engine.checkpoint(Cause::Asked, false)?;
    } else if log.records > 0 {
        engine.upkeep.want_checkpoint();
    }
    Ok(Arc::new(engine))
}

/// A page of outcomes that is an older copy of itself looks sound, and its transactions as if they
/// had been rolled back. Nothing was written since the clean close that has left a stamp.
fn check_outcomes(pool: &Arc<BufferPool>, control: &Control) -> Result<()> {
    match outcomes_stamp(pool, control.next_xid, control.redo) {
        Ok(stamp) if control.outcomes != 0 && stamp != control.outcomes => {
            let what = "outcomes of transactions are not those of the clean close: a page is an \
                        older copy of itself, and what was committed would look rolled back";
            Err(Error::corrupt_file(STATUS_FILE.path(), what))
        }
        // A page that cannot be read is met by who needs it.
        _ => Ok(()),
    }
}

/// Without these nothing can be read, and redo would make empty ones.
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

/// What was measured now, where it was, else what was known before.
fn newer(now: RedoSpeed, before: RedoSpeed) -> RedoSpeed {
    let newer = |now: u64, before: u64| if now > 0 { now } else { before };
    RedoSpeed {
        bytes_per_s: newer(now.bytes_per_s, before.bytes_per_s),
        pages_per_s: newer(now.pages_per_s, before.pages_per_s),
    }
}

/// Removes files that a transaction without a commit made, or one with a commit dropped. One that
/// cannot be removed is in nobody's way, and the next opening tries again. Files that are `needed`
/// stay, though no table has them.
fn drop_orphans(env: &Env, pool: &BufferPool, catalog: &Catalog, needed: &[FileId]) -> Result<()> {
    let mut owned = catalog.files()?;
    owned.extend(needed);
    for file in pool.files_on_disk()? {
        if file.0 >= crate::catalog::FIRST_USER_FILE && !owned.contains(&file) {
            env.logger.debug(&format!("file {} belongs to no table and is removed", file.0));
            points::hit("open.orphan");
            let failed = match pool.drop_file(file) {
                // After a failed sync nobody knows what else the directory has lost.
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

fn identity(env: &Env, options: &Options) -> u64 {
    match options.simulation {
        Some(_) => env.rng("database").next_u64(),
        None => Rng::from_entropy().next_u64(),
    }
}

fn wal_options(options: &Options) -> WalOptions {
    WalOptions {
        segment_bytes: options.log_segment_bytes,
        buffer_bytes: options.memory / 16,
        max_bytes: options.max_log_bytes,
    }
}

fn vacuum_settings(options: &Options) -> vacuum::Settings {
    let (threads, processors) = match options.threads {
        true => {
            let processors = rightlink_env::thread::parallelism();
            (options.vacuum_threads.unwrap_or(processors), processors)
        }
        false => (1, 1),
    };
    vacuum::Settings { rate: options.vacuum_rate, threads, processors }
}

fn txn_options(env: &Env, options: &Options) -> TxnOptions {
    TxnOptions {
        clock: env.clock.clone(),
        logger: env.logger.clone(),
        lock_timeout: options.lock_timeout,
        max_snapshot_age: options.max_snapshot_age,
        helper_threads: insert_threads(options) - 1,
        ..TxnOptions::default()
    }
}

/// A simulation has one thread, unless a test asks for more.
fn insert_threads(options: &Options) -> usize {
    let processors = if options.threads { rightlink_env::thread::parallelism() } else { 1 };
    options.insert_threads.unwrap_or(processors.min(MAX_INSERT_THREADS))
}

/// What is left of the memory for everything whose size depends on data.
fn variable_memory(options: &Options) -> usize {
    options.memory - FIXED_MEMORY.min(options.memory / 4)
}

fn pool_options(options: &Options) -> PoolOptions {
    // Beside an overlay, which keeps what redo changes, half of the memory must do.
    let memory = variable_memory(options);
    let spare = (memory / if options.offline { 2 } else { 4 }).max(MIN_SPARE);
    let frames = (memory - spare) / PAGE_SIZE;
    PoolOptions {
        frames: options.pool_pages.unwrap_or(frames).max(MIN_POOL_PAGES),
        double_write_pages: if options.double_write { GROUP_PAGES } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &Options) -> String {
        match check(options) {
            Err(Error::Invalid(what)) => what,
            other => panic!("refused, not {other:?}"),
        }
    }

    /// More memory than frames have numbers for was an assertion in the pool, after files had been
    /// made.
    #[test]
    fn options_beyond_their_bounds_are_refused_by_name() {
        let most = Options::default().memory(MAX_MEMORY as usize);
        assert!(check(&most).is_ok());
        let beyond = refused(&Options::default().memory(MAX_MEMORY as usize + 1));
        assert!(beyond.starts_with("option memory: ") && beyond.ends_with("(16 TiB)"), "{beyond}");
        let huge = refused(&Options::default().memory(9_999_999 << 30));
        assert!(huge.starts_with("option memory: "), "{huge}");
        let small = refused(&Options::default().memory(MIN_MEMORY - 1));
        assert!(small.starts_with("option memory: "), "{small}");
        for pages in [0, MIN_POOL_PAGES - 1, MAX_POOL_PAGES + 1, usize::MAX] {
            let said = refused(&Options::default().pool_pages(pages));
            assert!(said.starts_with("option pool_pages: "), "{said}");
        }
    }
}
