//! What begins at a known moment of the load: a vacuum, and a read of the whole table.
//!
//! Invariants: each begins once, after that many seconds of the load, and is waited for.
//! Does not do: automatic vacuums, which come as they do.

use std::time::Duration;

use rightlink::{Database, ScanOptions};
use rightlink_env::{Clock, Nanos, thread};

use crate::Failure;
use crate::hot_update::TABLE;
use crate::knobs::Cell;

/// When one ran, in seconds of the load; not a number if it did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// One to come.
type Event = thread::JoinHandle<Result<Ran, rightlink::Error>>;

/// Those of a cell.
pub(crate) struct Events {
    vacuum: Option<Event>,
    scan: Option<Event>,
}

/// When those of a cell ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RanEvents {
    pub(crate) vacuum: Ran,
    pub(crate) scan: Ran,
}

impl Events {
    /// Those that the cell asks for, of a load that began at `start`.
    pub(crate) fn start(db: &Database, cell: &Cell, start: Nanos) -> Result<Events, Failure> {
        let spawn = |at: u64, work: fn(&Database) -> Result<(), rightlink::Error>| {
            let (db, clock) = (db.clone(), Clock::system());
            let run = move || {
                clock.sleep_until(start + Duration::from_secs(at));
                let from = (clock.now() - start).as_secs_f64();
                work(&db)?;
                Ok(Ran { from, to: (clock.now() - start).as_secs_f64() })
            };
            (at > 0).then(|| thread::spawn("event", run))
        };
        Ok(Events {
            vacuum: spawn(cell.get("vacuum_at")?, |db| db.vacuum(Some(TABLE)).map(drop)),
            scan: spawn(cell.get("scan_at")?, read_all),
        })
    }

    /// Waits for them.
    pub(crate) fn end(self) -> Result<RanEvents, Failure> {
        let wait = |event: Option<Event>| -> Result<Ran, Failure> {
            let Some(event) = event else { return Ok(Ran { from: f64::NAN, to: f64::NAN }) };
            Ok(event.join().map_err(|panicked| panicked.to_string())??)
        };
        Ok(RanEvents { vacuum: wait(self.vacuum)?, scan: wait(self.scan)? })
    }
}

fn read_all(db: &Database) -> Result<(), rightlink::Error> {
    for row in db.begin().scan(TABLE, &ScanOptions::all())? {
        row?;
    }
    Ok(())
}
