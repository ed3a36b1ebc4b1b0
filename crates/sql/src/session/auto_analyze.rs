//! Automatic ANALYZE: a thread that looks for tables of which enough rows have changed.
//!
//! A table is due by PostgreSQL's rule: 50 changes, and a tenth of its rows. It is looked for every
//! second, and a table is analyzed once a minute at most.
//!
//! Invariants: no lock is waited for, and a table that somebody wants to change the definition of
//! is left to the next look; half of the time it rests.
//! Does not do: counting changes (`statistics`).

use std::collections::HashMap;
use std::time::Duration;

use rightlink::{Database, Locked};
use rightlink_env::sync::{Arc, Condvar, Mutex};
use rightlink_env::{Clock, Nanos, thread};

use super::analyze::{NONE, Wish};
use super::{STACK, Session, Sink};
use crate::bind::Catalog;
use crate::error::{Result, SqlError, code};
use crate::exec::tables::Tables;
use crate::interrupt::{Interrupt, Reason};
use crate::names::{is_own, is_shown};
use crate::plan::Column;
use crate::statistics::record::{By, Record, changes};
use crate::statistics::store;
use crate::types::Row;

/// Between two looks. Each look that finds no change doubles it, up to the longest.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(8);
/// Between two times that a table is analyzed, in microseconds.
const REST_OF_TABLE: i64 = 60_000_000;
/// Work between two rests, which take as long.
const WORK: Duration = Duration::from_millis(10);

/// Analyzes tables of a database in the background when enough of their rows have changed. Dropping
/// it ends that.
///
/// It holds the database open. `autovacuum_enabled`, `autovacuum_analyze_threshold` and
/// `autovacuum_analyze_scale_factor` of a table change when it is analyzed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let db = rightlink::Database::open(dir.path())?;
/// let upkeep = rightlink_sql::AutoAnalyze::start(&db)?;
/// // Sessions work.
/// drop(upkeep);
/// db.close()?;
/// # Ok(())
/// # }
/// ```
pub struct AutoAnalyze {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    has_ended: Mutex<bool>,
    ends: Condvar,
    interrupt: Interrupt,
}

impl AutoAnalyze {
    /// Begins.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(db: &Database) -> std::io::Result<AutoAnalyze> {
        let session = Session::new(db);
        let interrupt = session.interrupt();
        let shared =
            Arc::new(Shared { has_ended: Mutex::default(), ends: Condvar::new(), interrupt });
        let theirs = Arc::clone(&shared);
        let work = move || Watch { session, shared: theirs, seen: HashMap::new() }.run();
        let thread = thread::try_spawn_with_stack("rightlink-analyze", STACK, work)?;
        Ok(AutoAnalyze { shared, thread: Some(thread) })
    }
}

impl Drop for AutoAnalyze {
    fn drop(&mut self) {
        *self.shared.has_ended.lock() = true;
        self.shared.ends.notify_all();
        self.shared.interrupt.raise(Reason::Shutdown);
        if let Some(thread) = self.thread.take() {
            // It panicked then, which was said.
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Watch {
    session: Session,
    shared: Arc<Shared>,
    /// The tables that need no look, by their numbers.
    seen: HashMap<u32, Seen>,
}

/// Until when a table needs no look.
#[derive(Clone, Copy)]
enum Seen {
    /// Until the count of its changes is another one.
    Changed(u64),
    /// Until this time, in microseconds: it is due, and was analyzed a short time ago.
    Resting(i64),
}

impl Watch {
    fn run(mut self) {
        if self.session.set_option("lock_timeout", "1").is_err() {
            unreachable!("a value that the setting takes");
        }
        let mut pause = LOOK_EVERY;
        loop {
            let has_ended = self.shared.has_ended.lock();
            if *has_ended || *self.shared.ends.wait_timeout(has_ended, pause).0 {
                return;
            }
            // What fails is tried again when more has changed.
            let has_found = self.look().unwrap_or(false);
            pause = if has_found { LOOK_EVERY } else { LONGEST.min(pause * 2) };
        }
    }

    /// Looks at every table once that has changed or had to rest; false if there is none.
    fn look(&mut self) -> Result<bool> {
        let now = self.session.db.unix_micros();
        let tables = self.session.db.used_table_figures(|_| true)?;
        // Tables that are gone are not kept.
        let mut seen = std::mem::take(&mut self.seen);
        let mut has_found = false;
        for table in tables {
            let changed = changes(&table.rows);
            if !is_shown(&table.name) || is_own(&table.name) || changed == 0 {
                continue;
            }
            let before = seen.remove(&table.table).filter(|before| match before {
                Seen::Changed(before) => *before == changed,
                Seen::Resting(until) => now < *until,
            });
            if let Some(before) = before {
                self.seen.insert(table.table, before);
                continue;
            }
            if *self.shared.has_ended.lock() {
                break;
            }
            has_found = true;
            match self.session.analyze_if_due(&table, &self.shared) {
                Ok(Due::Later(time)) => _ = self.seen.insert(table.table, Seen::Resting(time)),
                Ok(Due::Not) => _ = self.seen.insert(table.table, Seen::Changed(changed)),
                Ok(Due::Done) => {}
                Err(error) => {
                    // A lock will be free again; what else fails does so until something changes.
                    if error.sqlstate != code::LOCK_NOT_AVAILABLE {
                        self.seen.insert(table.table, Seen::Changed(changed));
                    }
                    let _ = self.session.refuse(error);
                    self.session.abort();
                }
            }
        }
        Ok(has_found)
    }
}

/// What there was to do for a table.
enum Due {
    Not,
    /// It was analyzed a short time ago, and has its turn at this time, in microseconds.
    Later(i64),
    Done,
}

impl Session {
    /// Analyzes a table if enough of its rows have changed.
    fn analyze_if_due(
        &mut self,
        figures: &rightlink::TableFigures,
        shared: &Shared,
    ) -> Result<Due> {
        self.begin_message();
        let db = self.db.clone();
        let active = self.ensure()?;
        let known = store::load(&mut active.txn, figures.table)?;
        let table = Tables(&mut active.txn).table(&figures.name)?;
        let none = Record::default();
        let (rows, record) =
            known.as_ref().map_or((0.0, &none), |known| (known.rows, &known.record));
        let changes = record.changes_since(&db, &figures.rows);
        let is_due = table.info.auto_vacuum.enabled
            && !table.notes.is_view()
            && table.notes.analyze.is_due(rows, changes);
        let last = record.last.into_iter().max().unwrap_or(0);
        let turn = last.saturating_add(REST_OF_TABLE);
        if !is_due || db.unix_micros() < turn {
            self.abort();
            return Ok(if is_due { Due::Later(turn) } else { Due::Not });
        }
        let (clock, table) = (Clock::system(), table.info.id);
        let mut gently = Gently { clock, begun: None, db, table, shared };
        let mut pause = || gently.pause();
        let mut wish = Wish { by: By::Itself, verbose: false, pause: &mut pause };
        self.analyze_one(&figures.name, NONE, &mut wish, &mut Silent)?;
        self.commit()?;
        Ok(Due::Done)
    }
}

/// Rests as long as it works, and ends where somebody waits for the table.
struct Gently<'s> {
    clock: Clock,
    /// When work began after the last rest.
    begun: Option<Nanos>,
    db: Database,
    table: u32,
    shared: &'s Shared,
}

impl Gently<'_> {
    fn pause(&mut self) -> Result<()> {
        let now = self.clock.now();
        let worked = now.since(*self.begun.get_or_insert(now));
        if worked < WORK {
            return Ok(());
        }
        if *self.shared.has_ended.lock() {
            return Err(Reason::Shutdown.error());
        }
        let is_it = |lock: &rightlink::LockInfo| lock.what == Locked::Table(self.table);
        if self.db.locks().iter().any(|lock| !lock.granted && is_it(lock)) {
            let message = "another transaction waits for the table";
            return Err(SqlError::new(code::LOCK_NOT_AVAILABLE, message));
        }
        thread::sleep(worked.min(WORK * 10));
        self.begun = Some(self.clock.now());
        Ok(())
    }
}

/// Nobody is told.
pub(super) struct Silent;

impl Sink for Silent {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: Row) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}
}
