//! Creation of a database, which a power cut may interrupt at any step.
//!
//! Invariants: the file `creating` is durable before any other file, and is removed durably last. A
//! directory with this marker holds nothing that was acknowledged, and is created anew.
//! Does not do: decide whether to create (`open`).

use rightlink_aio::{DeviceFigures, Io, IoErrorKind, OpenMode};
use rightlink_env::sync::Arc;
use rightlink_env::{Env, Rng, points};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::recovery::redo::Replayed;
use crate::txn::TxnManager;
use crate::upkeep::open::directory::{CONTROL, CREATING, FOLDERS};
use crate::upkeep::open::{LockedDirectory, Parts, assemble, open_pool, settings};
use crate::upkeep::{CheckpointCause, Engine, Options, device};
use crate::wal::{Control, RedoSpeed, UNFINISHED_CONTROL, Wal};

/// Creates a database. The marker is durable before anything else, and is removed at the end.
pub(super) fn create(directory: LockedDirectory, options: &Options) -> Result<Arc<Engine>> {
    let LockedDirectory { env, io, .. } = &directory;
    if io.exists(CREATING).map_err(Error::Io)? {
        remove_unfinished(io)?;
    }
    let marker = io.open_file(CREATING, OpenMode::Create).map_err(Error::Io)?;
    marker.sync_all().map_err(Error::Io)?;
    io.sync_dir("").map_err(Error::Io)?;
    points::hit("create.marked");
    for folder in FOLDERS {
        io.create_dir(folder).map_err(Error::Io)?;
    }
    io.sync_dir("").map_err(Error::Io)?;
    let device = device::measure(options, DeviceFigures::default());
    let control = Control {
        database: identity(env, options),
        redo: Lsn(0),
        next_xid: options.first_xid,
        oldest_xid: options.first_xid,
        next_file: crate::catalog::FIRST_USER_FILE,
        durable: Lsn(0),
        clean: false,
        redo_speed: RedoSpeed::default(),
        device,
        outcomes: 0,
    };
    let wal = Wal::create(env, io, settings::wal_options(options), &control)?;
    let pool = open_pool(&directory, wal, device, options)?;
    TxnManager::create(&pool, options.first_xid)?;
    let txn_options = settings::txn_options(env, options);
    let txns = TxnManager::open_with(Arc::clone(&pool), options.first_xid, txn_options)?;
    let catalog = Catalog::create(&pool, &txns)?;
    let parts = Parts { pool, txns, catalog, device, replayed: Replayed::default() };
    let engine = assemble(directory, &control, parts, options)?;
    engine.checkpoint(CheckpointCause::Asked, false)?;
    points::hit("create.before-unmark");
    engine.io.remove(CREATING).map_err(Error::Io)?;
    engine.io.sync_dir("").map_err(Error::Io)?;
    Ok(Arc::new(engine))
}

/// Removes the files of a creation that was cut short, its folders and the marker included. If a
/// sync failed, no later sync makes the same entries and files durable.
fn remove_unfinished(io: &Io) -> Result<()> {
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
    // Last: until here the marker says that the directory holds no database.
    io.remove(CREATING).map_err(Error::Io)?;
    io.sync_dir("").map_err(Error::Io)
}

fn identity(env: &Env, options: &Options) -> u64 {
    match options.simulation {
        Some(_) => env.rng("database").next_u64(),
        None => Rng::from_entropy().next_u64(),
    }
}
