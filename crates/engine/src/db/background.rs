//! The threads of an open database: the only place where the engine starts any.
//!
//! - `rightlink-upkeep`: write-back ahead of eviction and checkpoints, step by step, spread over
//!   time.
//! - `rightlink-vacuum` (several): removes dead rows and their index entries where many have
//!   gathered.
//! - `rightlink-flush`: makes relaxed commits durable within [`FLUSH_EVERY`].
//!
//! Invariants: a thread holds only a weak handle, so that the last `Database` closes it; an error
//! is logged once per kind of trouble and tried again, a poisoned log ends the thread.
//! Does not do: anything that a caller of `Database::step` could not do instead.

use std::time::Duration;

use rightlink_env::sync::{Arc, Weak};
use rightlink_env::thread;

use crate::db::engine::Engine;
use crate::db::options::Options;
use crate::error::{Error, Result};

/// Longest time that a relaxed commit stays in memory only, if the device keeps up.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// Pause between two looks at the tables' garbage.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_millis(20);
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// Starts the threads of `engine`.
pub(crate) fn start(engine: &Arc<Engine>, options: &Options) -> Result<()> {
    let upkeep = spawn("rightlink-upkeep", engine, IDLE, Engine::step_in_time)?;
    let flush = spawn("rightlink-flush", engine, FLUSH_EVERY, |engine| {
        engine.wal.flush(engine.wal.end()).map(|()| false)
    })?;
    engine.upkeep.threads.lock().extend([upkeep, flush]);
    let vacuums = if options.auto_vacuum { options.auto_vacuum_threads } else { 0 };
    for _ in 0..vacuums {
        let vacuum = spawn("rightlink-vacuum", engine, LOOK_EVERY, |engine| {
            engine.step_vacuum().map(|_| false)
        })?;
        engine.upkeep.threads.lock().push(vacuum);
    }
    if vacuums == 0 && options.max_snapshot_age.is_some() {
        let expire = spawn("rightlink-snapshots", engine, LOOK_EVERY, |engine| {
            engine.txns.expire_snapshots();
            Ok(false)
        })?;
        engine.upkeep.threads.lock().push(expire);
    }
    Ok(())
}

fn spawn(
    name: &str,
    engine: &Arc<Engine>,
    idle: Duration,
    step: impl Fn(&Engine) -> Result<bool> + Send + 'static,
) -> Result<thread::JoinHandle<()>> {
    let weak = Arc::downgrade(engine);
    let refused = |error| Error::Limit(format!("no thread for {name}: {error}"));
    thread::try_spawn(name, move || run(&weak, idle, step)).map_err(refused)
}

fn run(weak: &Weak<Engine>, idle: Duration, step: impl Fn(&Engine) -> Result<bool>) {
    let mut told = false;
    while let Some(engine) = weak.upgrade() {
        if engine.upkeep.is_closed() {
            return;
        }
        match step(&engine) {
            Ok(true) => told = false,
            Ok(false) => engine.nap(idle),
            Err(error) => {
                if !told {
                    engine.env.logger.error(&format!("background work failed: {error}"));
                }
                if matches!(error, Error::Poisoned(_)) {
                    return;
                }
                told = true;
                engine.nap(AFTER_ERROR);
            }
        }
    }
}
