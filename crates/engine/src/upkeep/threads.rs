//! The threads of an open database. No other module of the engine starts any that stay.
//!
//! - `rightlink-upkeep`: write-back ahead of eviction and checkpoints, step by step, spread over
//!   time.
//! - `rightlink-vacuum` (several): automatic vacuum.
//! - `rightlink-flush`: makes relaxed commits durable within 50 ms.
//! - `rightlink-snapshots`: expires old snapshots, if no thread vacuums.
//!
//! A thread that has found no work for a while rests until somebody writes (`idle`): an idle
//! database has a few wake-ups a second.
//!
//! Invariants: a thread holds only a weak handle, so that the last `Database` closes the engine. An
//! error is logged once until a step succeeds, and the step is retried. A poisoned log ends the
//! thread.
//! Does not do: work that a caller of `Database::step` could not do instead.

use std::time::Duration;

use rightlink_env::sync::{Arc, Weak};
use rightlink_env::thread;

use crate::error::{Error, Result};
use crate::upkeep::{Engine, Options};

/// Longest time that a relaxed commit stays in memory only, if the device keeps up.
const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// Pause between two looks at the tables' garbage.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest pause between two looks at dirty pages and at the length of the log, while there is
/// work.
const IDLE: Duration = Duration::from_millis(20);
/// A thread rests that has found no work for so long.
const REST_AFTER: Duration = Duration::from_secs(2);
/// The longest rest. Where work is paced so slowly that looks find none for `REST_AFTER`, it is
/// small against that, and what depends on time alone, the age of snapshots say, is late by this.
const REST: Duration = Duration::from_secs(1);
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// The wait of a thread that has found no work.
#[derive(Clone, Copy)]
enum Pause {
    /// At most this long, until a wake-up.
    Wakeup(Duration),
    /// This long.
    Time(Duration),
}

/// Starts the threads of `engine`.
pub(crate) fn start(engine: &Arc<Engine>, options: &Options) -> Result<()> {
    spawn("rightlink-upkeep", engine, Pause::Wakeup(IDLE), Engine::step_paced)?;
    spawn("rightlink-flush", engine, Pause::Time(FLUSH_EVERY), |engine| {
        engine.wal.flush(engine.wal.end()).map(|()| false)
    })?;
    let vacuums = if options.auto_vacuum { options.auto_vacuum_threads } else { 0 };
    let look = Pause::Time(LOOK_EVERY);
    for _ in 0..vacuums {
        spawn("rightlink-vacuum", engine, look, |engine| engine.step_vacuum().map(|_| false))?;
    }
    if vacuums == 0 && options.max_snapshot_age.is_some() {
        spawn("rightlink-snapshots", engine, look, |engine| {
            engine.txns.expire_snapshots();
            Ok(false)
        })?;
    }
    Ok(())
}

fn spawn(
    name: &str,
    engine: &Arc<Engine>,
    pause: Pause,
    step: impl Fn(&Engine) -> Result<bool> + Send + 'static,
) -> Result<()> {
    let weak = Arc::downgrade(engine);
    let refused = |error| Error::OutOfMemory(format!("no thread for {name}: {error}"));
    let thread = thread::try_spawn(name, move || run(&weak, pause, step)).map_err(refused)?;
    engine.upkeep.threads.lock().push(thread);
    Ok(())
}

fn run(weak: &Weak<Engine>, pause: Pause, step: impl Fn(&Engine) -> Result<bool>) {
    let (mut logged, mut in_vain) = (false, Duration::ZERO);
    while let Some(engine) = weak.upgrade() {
        if engine.upkeep.is_closed() {
            return;
        }
        let idle = &engine.upkeep.idle;
        let rests = in_vain >= REST_AFTER;
        let seen = if rests { idle.announce_rest() } else { idle.wakeups() };
        match (step(&engine), pause) {
            (Ok(true), _) => (logged, in_vain) = (false, Duration::ZERO),
            (Ok(false), _) if rests => {
                if idle.at_rest(seen, REST) {
                    in_vain = Duration::ZERO;
                }
            }
            (Ok(false), Pause::Wakeup(limit)) => {
                in_vain += limit;
                idle.for_wakeup(seen, limit);
            }
            (Ok(false), Pause::Time(limit)) => {
                in_vain += limit;
                idle.for_time(limit);
            }
            (Err(error), _) => {
                if !logged {
                    engine.env.logger.error(&format!("background work failed: {error}"));
                }
                if matches!(error, Error::Poisoned(_)) {
                    return;
                }
                logged = true;
                idle.for_time(AFTER_ERROR);
            }
        }
    }
}
