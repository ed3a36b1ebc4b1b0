//! Opening a database: decides between creation and recovery, under the lock of the directory.
//!
//! | file | what it has |
//! |---|---|
//! | `directory` | the directory, its lock, and errors that name them |
//! | `settings` | bounds of options, and settings of modules from options |
//! | `create` | makes a new database |
//! | `recover` | brings an existing database up to the end of its log |
//!
//! Invariants: nothing is changed before the lock is held. A directory that a backup or a restore
//! left unfinished is refused.
//! Does not do: threads (`threads`).

use rightlink_aio::{DeviceFigures, Io};
use rightlink_env::points;
use rightlink_env::sync::{Arc, Mutex};

use crate::backup::UNFINISHED;
use crate::buffer::BufferPool;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::recovery::redo::Replayed;
use crate::sort::TempFiles;
use crate::txn::TxnManager;
use crate::upkeep::schedule::CheckpointSchedule;
use crate::upkeep::{Engine, Options, PreparedTransactions, Upkeep, device};
use crate::wal::{Control, RedoSpeed, Wal};

mod create;
pub(super) mod directory;
mod recover;
mod settings;

pub(super) use directory::{CONTROL, CREATING, LockedDirectory};
pub(super) use recover::recover;
pub(super) use settings::environment;

/// Opens or creates the database that `options` name.
pub(crate) fn open(options: &Options) -> Result<Arc<Engine>> {
    settings::check(options)?;
    let env = environment(options);
    let io = directory::open_io(&env, options)?;
    // Before the lock, whose file would stay in a directory that is refused.
    is_fresh(&io, options)?;
    points::hit("open.before-lock");
    let directory = LockedDirectory::lock(&env, &io, options)?;
    // Again: the former holder of the lock may have created or removed a database.
    match is_fresh(&io, options)? {
        true => create::create(directory, options),
        false => recover(directory, options),
    }
}

/// Is there no database yet, but a place for one? Else there is a database.
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

/// Refuses a copy that was cut short, whatever else the directory holds.
pub(super) fn check_copied(io: &Io, options: &Options) -> Result<()> {
    if options.restoring || !io.exists(UNFINISHED).map_err(Error::Io)? {
        return Ok(());
    }
    let path = options.path.display();
    let what = "a backup or restore that is under way or was cut short";
    Err(Error::Invalid(format!("{path} holds {what}, not a whole database")))
}

/// Refuses a directory without a database that is not empty.
fn check_empty(io: &Io, options: &Options) -> Result<()> {
    let path = options.path.display();
    if !options.create {
        return Err(Error::NotFound(format!("no database in {path}")));
    }
    let names = io.list("").map_err(Error::Io)?;
    match names.iter().find(|name| *name != directory::LOCK) {
        None => Ok(()),
        Some(name) => {
            let what = format!("{path} holds no database and is not empty: it has {name}");
            Err(Error::Invalid(what))
        }
    }
}

/// The parts of an engine that creation and recovery make in different ways.
struct Parts {
    pool: Arc<BufferPool>,
    txns: Arc<TxnManager>,
    catalog: Catalog,
    device: DeviceFigures,
    replayed: Replayed,
}

/// Opens the buffer pool over `wal`, for a device that was measured as `device`. The pool
/// knows the depth before the first read.
fn open_pool(
    directory: &LockedDirectory,
    wal: Wal,
    device: DeviceFigures,
    options: &Options,
) -> Result<Arc<BufferPool>> {
    let LockedDirectory { env, io, .. } = directory;
    let pool = BufferPool::new(env, io, Arc::new(wal), settings::pool_options(options))?;
    device::set_streams(&pool, options, device.depth);
    Ok(pool)
}

/// The engine of a database whose control file was `control` before.
fn assemble(
    directory: LockedDirectory,
    control: &Control,
    parts: Parts,
    options: &Options,
) -> Result<Engine> {
    let LockedDirectory { env, io, lock } = directory;
    let Parts { pool, txns, catalog, device, replayed } = parts;
    let redo_speed = newest(replayed.speed(), control.redo_speed);
    let schedule = CheckpointSchedule::new(&pool, options.max_log_bytes, control.redo, redo_speed);
    Ok(Engine {
        temp: TempFiles::open(&io, &env.logger)?,
        random: Mutex::new(env.rng("defaults")),
        wal: Arc::clone(pool.wal()),
        env,
        io,
        pool,
        txns,
        catalog,
        database: control.database,
        device,
        replayed,
        schedule,
        vacuum_settings: settings::vacuum_settings(options),
        upkeep: Upkeep::default(),
        prepared: PreparedTransactions::default(),
        _lock: lock,
    })
}

/// The speeds that were measured `now`, and the `known` ones in place of those that were not.
fn newest(now: RedoSpeed, known: RedoSpeed) -> RedoSpeed {
    let newest = |now: u64, known: u64| if now > 0 { now } else { known };
    RedoSpeed {
        bytes_per_s: newest(now.bytes_per_s, known.bytes_per_s),
        pages_per_s: newest(now.pages_per_s, known.pages_per_s),
    }
}
