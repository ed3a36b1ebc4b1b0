//! Building an index, or building it anew, while writers go on: who sees which stage when.
//!
//! The stages are `table`'s. Each is put in the place of the one before under the table's name;
//! statements that begin from then on see it. After the first two, those transactions are waited
//! for that held the table's write lock, or one that covers it, at that moment: no other can have
//! written under an earlier stage. The build holds the access lock, so that no definition changes
//! under it; nothing is in the catalog before it is finished, so that a crash leaves a file that
//! belongs to nobody.
//!
//! Invariants: nobody waits for a build but changes of the table's definition, and as writers would
//! queue up behind those, it gives way to them: it ends with an error. After an error the table is
//! as it was. A file that somebody may still read or write is removed when its last handle has gone
//! ([`Catalog::drop_retired`]), or by the next opening.
//! Does not do: two builds on one table at a time; unfinished builds after a crash.

use std::time::Duration;

use rightlink_env::points::hit;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Nanos};

use crate::catalog::Catalog;
use crate::catalog::change::{Changes, IndexDraft};
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{Lsn, ObjectId};
use crate::table::schema::{IndexDef, TableDef};
use crate::table::{BuildOptions, GoOn, Statement, Table, TableIndex, forgets_to_wait};
use crate::txn::{Isolation, LockMode, Snapshot, Transaction, WaitsFor};

/// Pause between two looks at those who are waited for.
const LOOK: Duration = Duration::from_millis(1);

/// What to build.
pub enum OnlineIndex<'a> {
    /// A new index.
    New(IndexDraft),
    /// The index of this name anew.
    Again(&'a str),
}

/// How to build.
pub struct Online<'a> {
    /// What the build may use.
    pub options: BuildOptions<'a>,
    /// For pauses and patience.
    pub clock: &'a Clock,
    /// Longest wait for others; `None`: without end.
    pub patience: Option<Duration>,
    /// Asked now and then; an error ends the build.
    pub go_on: GoOn<'a>,
    /// Told of the transaction that waits for the table.
    pub begun: &'a dyn Fn(&Transaction),
}

/// Indexes without a name whose files somebody may still use.
#[derive(Default)]
pub(super) struct Retired(Mutex<Vec<Arc<TableIndex>>>);

/// A build on its way.
struct Build<'a> {
    catalog: &'a Catalog,
    /// Holds the access lock.
    txn: Transaction,
    name: String,
    table: ObjectId,
    /// The table as it was.
    before: Arc<Entry>,
    /// The table as everybody sees it.
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
        // What somebody still uses goes later.
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
            OnlineIndex::New(draft) => {
                if self.store.relation(&snapshot, &draft.name)?.is_some() {
                    let what = format!("a table or index called {}", draft.name);
                    return Err(Error::AlreadyExists(what));
                }
                let index = draft.define(self.new_object(), self.new_files(1));
                with_index(def, &index).validate()?;
                (index, false)
            }
            OnlineIndex::Again(index) => {
                let index = def.index(index)?.clone();
                (IndexDef { file: self.new_files(1), ..index }, true)
            }
        };
        let (name, table) = (name.to_owned(), def.id);
        let now = Arc::clone(&before);
        Ok(Build {
            catalog: self,
            txn,
            name,
            table,
            before,
            now,
            index,
            again,
            built: None,
            finished: None,
            outcome: Outcome::Unlisted,
        })
    }

    /// Removes the files of indexes that nobody can name and nobody uses any more. What cannot be
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
        let mut ask = || give_way(self.catalog, self.table).and_then(|()| go_on());
        let built = table.table.build_beside(&self.index, &before, &online.options, &mut ask)?;
        self.built = Some(Arc::clone(&built));
        hit("online.built");
        self.stage(self.before.table.keeping(&built))?;
        hit("online.kept");
        if !forgets_to_wait(2) {
            self.wait_for_writers(online)?;
        }
        let now = self.txn.latest_snapshot();
        self.catch_up(&built, (since, &before, &now), online)?;
        drop(before);
        hit("online.caught-up");
        if self.again {
            self.wait_for_snapshots(&now, online)?;
        }
        self.finish(&built, &now)
    }

    fn catch_up(
        &mut self,
        built: &TableIndex,
        snapshots: (Lsn, &Snapshot, &Snapshot),
        online: &mut Online<'_>,
    ) -> Result<u64> {
        let (catalog, id, table) = (self.catalog, self.table, Arc::clone(&self.now));
        let go_on = &mut *online.go_on;
        let mut ask = || give_way(catalog, id).and_then(|()| go_on());
        table.table.catch_up(&mut self.txn, built, snapshots, &mut ask)
    }

    /// Makes `table` what statements see from now on.
    fn stage(&mut self, table: Arc<Table>) -> Result<()> {
        let next = Arc::new(Entry { table, primary: self.before.primary });
        if !self.catalog.names.swap(&self.name, &self.now, &next) {
            // Another build was faster; nobody else may change a table whose lock is held.
            return Err(busy(&self.name));
        }
        self.now = next;
        Ok(())
    }

    /// Waits for those who may have begun to write under an earlier stage.
    fn wait_for_writers(&self, online: &mut Online<'_>) -> Result<()> {
        let txns = &self.catalog.txns;
        let mut writers = txns.holders(self.table, LockMode::Write);
        let until = until(online);
        loop {
            txns.still_running(&mut writers);
            if writers.is_empty() {
                return Ok(());
            }
            self.pause(online, until, "transactions that write to the table")?;
        }
    }

    /// Waits until nobody has a snapshot that is older than `now`.
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
        give_way(self.catalog, self.table)?;
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

    /// Writes the index down and lets everybody read by it.
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
        // Whoever still reads by it knows, before a vacuum leaves it out.
        if let Some(old) = &old {
            old.replace();
        }
        self.stage(table).expect("nobody changes a table whose lock is held");
        self.catalog.retired.0.lock().extend(old);
    }

    /// Writes the index into the catalog, in the place of its row if it has one.
    fn write_row(&self, statement: &mut Statement<'_>, object: Object) -> Result<()> {
        let store = &self.catalog.store;
        if !self.again {
            return store.insert(statement, &[object]);
        }
        let snapshot = statement.txn().latest_snapshot();
        let (row, known) = store.object(&snapshot, object.id)?;
        store.update(statement, row, &Object { position: known.position, ..object })
    }

    /// Puts the table back as it was.
    fn undo(&mut self) {
        let staged = !Arc::ptr_eq(&self.now, &self.before);
        if staged {
            // Whoever keeps it still, or looks at it, knows before the first writer leaves it out.
            self.built.iter().for_each(|built| built.replace());
            let back = self.catalog.names.swap(&self.name, &self.now, &self.before);
            assert!(back, "nobody changes a table whose lock is held");
            self.now = Arc::clone(&self.before);
        }
        if self.outcome == Outcome::InDoubt {
            return;
        }
        if let Some(built) = self.built.take() {
            self.catalog.retired.0.lock().push(built);
        } else if staged {
            // A build that failed half way: nobody but it ever knew the file.
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

/// Fails if somebody waits to change the table's definition: writers would queue up behind.
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

fn with_index(def: &TableDef, index: &IndexDef) -> TableDef {
    let mut def = def.clone();
    def.indexes.push(index.clone());
    def
}

fn busy(table: &str) -> Error {
    let what = format!("another index of table {table} is being built");
    Error::Conflict { kind: ConflictKind::Serialization, what }
}
