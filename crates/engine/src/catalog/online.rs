//! Building an index, or building it anew, while writers go on.
//!
//! 1. Each stage (`table`) replaces the one before under the table's name. Statements that begin
//!    from then on see it.
//! 2. After each of the first two stages, the build waits for the transactions that held the
//!    table's write lock, or a stronger one. No other can have written under an earlier stage.
//! 3. The finished index is written into the catalog. A crash before leaves a file of no table.
//!
//! Invariants:
//! - The build holds the access lock, so no definition changes under it. Only changes of the
//!   table's definition wait for a build, and it gives way to them: it ends with an error.
//! - After an error the table is as it was. A file that may still be read or written is removed
//!   when its last handle has gone ([`Catalog::drop_retired`]), or by the next opening.
//!
//! Does not do: two builds on one table at a time; unfinished builds after a crash.

use std::time::Duration;

use rightlink_env::points::hit;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Nanos};

use crate::catalog::Catalog;
use crate::catalog::changes::Changes;
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::ObjectId;
use crate::table::schema::IndexDef;
use crate::table::{
    BuildOptions, GoOn, MissedVersions, Statement, Table, TableIndex, forgets_to_wait,
};
use crate::txn::{Isolation, LockMode, Snapshot, Transaction, WaitsFor};

/// Pause between two looks at the transactions that are waited for.
const LOOK: Duration = Duration::from_millis(1);

/// What to build.
pub enum OnlineIndex<'a> {
    /// A new index, to be numbered.
    New(IndexDef),
    /// The index of this name anew.
    Again(&'a str),
}

/// How to build.
pub struct Online<'a> {
    /// What the build may use.
    pub options: BuildOptions<'a>,
    /// For pauses and the wait limit.
    pub clock: &'a Clock,
    /// Longest wait for others; `None`: without end.
    pub patience: Option<Duration>,
    /// Asked now and then; an error ends the build.
    pub go_on: GoOn<'a>,
    /// Told of the transaction that waits for the table.
    pub begun: &'a dyn Fn(&Transaction),
}

/// Indexes without a name whose files may still be in use.
#[derive(Default)]
pub(super) struct Retired(Mutex<Vec<Arc<TableIndex>>>);

/// A build on its way.
struct Build<'a> {
    catalog: &'a Catalog,
    /// Holds the access lock.
    txn: Transaction,
    /// The table as it was.
    before: Arc<Entry>,
    /// The table as statements see it.
    now: Arc<Entry>,
    index: IndexDef,
    /// Is the index in the catalog already?
    again: bool,
    built: Option<Arc<TableIndex>>,
    /// What is put in place when the index is in the catalog.
    finished: Option<Finished>,
    outcome: Outcome,
}

/// The end of a build.
struct Finished {
    table: Arc<Table>,
    /// The index that is replaced.
    old: Option<Arc<TableIndex>>,
}

/// What has become of a build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is not in the catalog.
    Unlisted,
    /// It may be in the catalog: opening the database again tells.
    InDoubt,
    /// It is in the catalog.
    Committed,
}

impl Catalog {
    /// Builds an index of `table` while writers go on. The caller runs no transaction that has
    /// written to it.
    pub fn build_online(
        &self,
        table: &str,
        what: OnlineIndex<'_>,
        mut online: Online<'_>,
    ) -> Result<()> {
        let mut build = self.begin_online(table, what, &online)?;
        let result = build.run(&mut online);
        if matches!(result, Err(Error::Poisoned(_))) {
            build.outcome = Outcome::InDoubt;
        }
        let result = build.before.table.naming(result);
        drop(build);
        // Files that are still in use go later.
        self.drop_retired();
        result
    }

    fn begin_online(
        &self,
        name: &str,
        what: OnlineIndex<'_>,
        online: &Online<'_>,
    ) -> Result<Build<'_>> {
        let mut txn = self.txns.begin(Isolation::ReadCommitted);
        txn.set_lock_timeout(online.patience);
        (online.begun)(&txn);
        let before = self.resolve(&mut txn, &Changes::default(), name, LockMode::Access)?;
        if before.table.is_being_indexed() {
            return Err(busy(name));
        }
        let snapshot = txn.latest_snapshot();
        let def = before.table.def();
        let (index, again) = match what {
            OnlineIndex::New(index) => {
                if self.has_relation(&snapshot, &index.name)? {
                    let what = format!("a table or index called {}", index.name);
                    return Err(Error::AlreadyExists(what));
                }
                let index = IndexDef { id: self.new_object(), file: self.new_files(1), ..index };
                def.with_index(&index).validate()?;
                (index, false)
            }
            OnlineIndex::Again(index) => {
                let index = def.index(index)?.clone();
                (IndexDef { file: self.new_files(1), ..index }, true)
            }
        };
        let now = Arc::clone(&before);
        Ok(Build {
            catalog: self,
            txn,
            before,
            now,
            index,
            again,
            built: None,
            finished: None,
            outcome: Outcome::Unlisted,
        })
    }

    /// Removes the files of indexes that have no name and are not in use any more. What cannot be
    /// removed belongs to no table, and the next opening removes it.
    pub fn drop_retired(&self) {
        let mut forgotten = Vec::new();
        self.retired.0.lock().retain(|index| {
            let gone = index.is_forgotten();
            forgotten.extend(gone.then(|| index.def().file));
            !gone
        });
        for file in forgotten {
            let _ = self.pool.drop_file(file);
        }
    }
}

impl Build<'_> {
    /// The number of the table.
    fn table(&self) -> ObjectId {
        self.before.table.def().id
    }

    /// Lets `next` stand for the table's name. False if another entry than `self.now` does.
    fn swap(&self, next: &Arc<Entry>) -> bool {
        self.catalog.names.swap(&self.before.table.def().name, &self.now, next)
    }

    fn run(&mut self, online: &mut Online<'_>) -> Result<()> {
        let since = self.catalog.pool.wal().end();
        let counting = self.before.table.counting(&self.index);
        self.stage(counting)?;
        hit("online.counted");
        if !forgets_to_wait(1) {
            self.wait_for_writers(online)?;
        }
        let before = self.txn.latest_snapshot();
        let table = Arc::clone(&self.now);
        let go_on = &mut *online.go_on;
        let mut ask = || give_way(self.catalog, self.table()).and_then(|()| go_on());
        let built = table.table.build_beside(&self.index, &before, &online.options, &mut ask)?;
        self.built = Some(Arc::clone(&built));
        hit("online.built");
        self.stage(self.before.table.keeping(&built))?;
        hit("online.kept");
        if !forgets_to_wait(2) {
            self.wait_for_writers(online)?;
        }
        let now = self.txn.latest_snapshot();
        let missed = MissedVersions { since, before: &before, now: &now };
        let table = Arc::clone(&self.now);
        let (catalog, id, go_on) = (self.catalog, self.table(), &mut *online.go_on);
        let mut ask = || give_way(catalog, id).and_then(|()| go_on());
        table.table.catch_up(&mut self.txn, &built, &missed, &mut ask)?;
        drop(before);
        hit("online.caught-up");
        if self.again {
            self.wait_for_snapshots(&now, online)?;
        }
        self.finish(&built, &now)
    }

    /// Makes `table` what statements see from now on.
    fn stage(&mut self, table: Arc<Table>) -> Result<()> {
        let next = Arc::new(Entry { table });
        if !self.swap(&next) {
            // Another build was faster; only builds change a table whose lock is held.
            return Err(busy(&self.before.table.def().name));
        }
        self.now = next;
        Ok(())
    }

    /// Waits for transactions that may have begun to write under an earlier stage.
    fn wait_for_writers(&self, online: &mut Online<'_>) -> Result<()> {
        let txns = &self.catalog.txns;
        let mut writers = txns.holders(self.table(), LockMode::Write);
        let until = until(online);
        loop {
            txns.still_running(&mut writers);
            if writers.is_empty() {
                return Ok(());
            }
            self.pause(online, until, "transactions that write to the table")?;
        }
    }

    /// Waits until no snapshot is older than `now`.
    fn wait_for_snapshots(&self, now: &Snapshot, online: &mut Online<'_>) -> Result<()> {
        let until = until(online);
        loop {
            let oldest = self.catalog.txns.live_snapshots().csns.first().copied();
            if oldest.is_none_or(|oldest| oldest >= now.csn()) {
                return Ok(());
            }
            self.pause(online, until, "transactions that read what the index may lack")?;
        }
    }

    fn pause(&self, online: &mut Online<'_>, until: Option<Nanos>, whom: &str) -> Result<()> {
        give_way(self.catalog, self.table())?;
        (online.go_on)()?;
        if until.is_some_and(|until| online.clock.now() >= until) {
            let waited = online.patience.unwrap_or_default();
            return Err(Error::LockTimeout { waited, what: whom.to_owned() });
        }
        online.clock.sleep(LOOK);
        if online.clock.is_simulated() {
            rightlink_env::thread::yield_now();
        }
        Ok(())
    }

    /// Writes the index into the catalog and lets statements read by it.
    fn finish(&mut self, built: &Arc<TableIndex>, now: &Snapshot) -> Result<()> {
        let since = self.catalog.txns.next_xid();
        let (index, finished) = built.finished(&self.now.table, now, since);
        let mut def = self.before.table.def().clone();
        let position = def.indexes.len() as u16;
        match def.indexes.iter_mut().find(|known| known.id == index.id) {
            Some(known) => *known = index.clone(),
            None => def.indexes.push(index.clone()),
        }
        let mut txn = self.catalog.txns.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut txn)?;
        let object = Object::index(def.id, position, &index);
        self.write_row(&mut statement, object)?;
        drop(statement);
        let table = self.before.table.with_def(def, &[finished])?;
        let old = self.before.table.index_by_id(index.id).cloned();
        self.finished = Some(Finished { table, old });
        hit("online.before-commit");
        self.outcome = Outcome::InDoubt;
        if let Err(error) = txn.commit(false) {
            if !matches!(error, Error::Poisoned(_)) {
                self.outcome = Outcome::Unlisted;
            }
            return Err(error);
        }
        self.outcome = Outcome::Committed;
        hit("online.committed");
        self.publish();
        Ok(())
    }

    /// Puts the finished index in place.
    fn publish(&mut self) {
        let Some(Finished { table, old }) = self.finished.take() else { return };
        // Statements that still read by it see this before a vacuum leaves it out.
        if let Some(old) = &old {
            old.replace();
        }
        self.stage(table).expect("the table's lock is held");
        self.catalog.retired.0.lock().extend(old);
    }

    /// Writes the index into the catalog, in the place of its row if it has one.
    fn write_row(&self, statement: &mut Statement<'_>, object: Object) -> Result<()> {
        match self.again {
            true => self.catalog.store.replace(statement, object),
            false => self.catalog.store.insert(statement, &[object]),
        }
    }

    /// Puts the table back as it was.
    fn undo(&mut self) {
        let staged = !Arc::ptr_eq(&self.now, &self.before);
        if staged {
            // Writers that still keep it, and readers, see this before a writer leaves it out.
            self.built.iter().for_each(|built| built.replace());
            let back = self.swap(&self.before);
            assert!(back, "the table's lock is held");
            self.now = Arc::clone(&self.before);
        }
        if self.outcome == Outcome::InDoubt {
            return;
        }
        if let Some(built) = self.built.take() {
            self.catalog.retired.0.lock().push(built);
        } else if staged {
            // A build that failed half way: only it knew the file.
            let _ = self.catalog.pool.drop_file(self.index.file);
        }
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        match self.outcome {
            Outcome::Committed => self.publish(),
            Outcome::Unlisted | Outcome::InDoubt => self.undo(),
        }
    }
}

/// Fails if a transaction waits to change the table's definition: writers would queue up behind.
fn give_way(catalog: &Catalog, table: ObjectId) -> Result<()> {
    let changes =
        |mode| matches!(mode, LockMode::Exclusive | LockMode::Share | LockMode::ShareWrite);
    let wants = |waits| match waits {
        Some(WaitsFor::Table { table: of, mode }) => of == table && changes(mode),
        _ => false,
    };
    if catalog.txns.running().into_iter().any(|txn| wants(txn.waits_for)) {
        let what = "an index build gave way to a change of the table's definition".to_owned();
        return Err(Error::Conflict { kind: ConflictKind::Serialization, what });
    }
    Ok(())
}

fn until(online: &Online<'_>) -> Option<Nanos> {
    online.patience.map(|patience| online.clock.now() + patience)
}

fn busy(table: &str) -> Error {
    let what = format!("another index of table {table} is being built");
    Error::Conflict { kind: ConflictKind::Serialization, what }
}
