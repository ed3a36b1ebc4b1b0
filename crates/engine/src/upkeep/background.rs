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

use crate::error::{Error, Result};
use crate::upkeep::engine::Engine;
use crate::upkeep::options::Options;

/// Longest time that a relaxed commit stays in memory only, if the device keeps up.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// Pause between two looks at the tables' garbage.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest pause between two looks at dirty pages and at the length of the log.
const IDLE: Duration = Duration::from_millis(20);
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// What a thread does that has found no work.
#[derive(Clone, Copy)]
enum Pause {
    /// Waits so long, or until it is woken.
    Wakeup(Duration),
    /// Waits so long.
    Time(Duration),
}

/// Starts the threads of `engine`.
pub(crate) fn start(engine: &Arc<Engine>, options: &Options) -> Result<()> {
    let upkeep = spawn("rightlink-upkeep", engine, Pause::Wakeup(IDLE), Engine::step_in_time)?;
    let flush = spawn("rightlink-flush", engine, Pause::Time(FLUSH_EVERY), |engine| {
        engine.wal.flush(engine.wal.end()).map(|()| false)
    })?;
    engine.upkeep.threads.lock().extend([upkeep, flush]);
    let vacuums = if options.auto_vacuum { options.auto_vacuum_threads } else { 0 };
    for _ in 0..vacuums {
        let vacuum = spawn("rightlink-vacuum", engine, Pause::Time(LOOK_EVERY), |engine| {
            engine.step_vacuum().map(|_| false)
        })?;
        engine.upkeep.threads.lock().push(vacuum);
    }
    if vacuums == 0 && options.max_snapshot_age.is_some() {
        let expire = spawn("rightlink-snapshots", engine, Pause::Time(LOOK_EVERY), |engine| {
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
    pause: Pause,
    step: impl Fn(&Engine) -> Result<bool> + Send + 'static,
) -> Result<thread::JoinHandle<()>> {
    let weak = Arc::downgrade(engine);
    let refused = |error| Error::OutOfMemory(format!("no thread for {name}: {error}"));
    thread::try_spawn(name, move || run(&weak, pause, step)).map_err(refused)
}

fn run(weak: &Weak<Engine>, pause: Pause, step: impl Fn(&Engine) -> Result<bool>) {
    let mut told = false;
    while let Some(engine) = weak.upgrade() {
        if engine.upkeep.is_closed() {
            return;
        }
        let idle = &engine.upkeep.idle;
        let seen = idle.wakeups();
        match (step(&engine), pause) {
            (Ok(true), _) => told = false,
            (Ok(false), Pause::Wakeup(limit)) => idle.for_wakeup(seen, limit),
            (Ok(false), Pause::Time(limit)) => idle.for_time(limit),
            (Err(error), _) => {
                if !told {
                    engine.env.logger.error(&format!("background work failed: {error}"));
                }
                if matches!(error, Error::Poisoned(_)) {
                    return;
                }
                told = true;
                idle.for_time(AFTER_ERROR);
            }
        }
    }
}
