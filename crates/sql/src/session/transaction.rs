//! Transactions of a session: blocks, savepoints, the failed state.
//!
//! Invariants: a message with several statements and no block is one transaction. After an error in
//! a block every statement but its end and ROLLBACK TO is refused.
//! Does not do: serializable; two-phase commit (`two_phase`).

use std::time::Duration;

use rightlink::{
    CancelHandle, Database, Isolation, Savepoint, Transaction, TransactionOptions, Watch,
};

use super::{Session, Sink};
use crate::activity::{self, Seat, TransactionStatus};
use crate::error::{Result, SqlError, code};
use crate::expr::deferred::{Deferred, Waiting};
use crate::interrupt::Interrupt;
use crate::parse::modes::{Level, Modes, TransactionModes};
use crate::settings::{self, Settings};
use crate::statistics;
use crate::types::calendar::EPOCH_SECONDS;

/// A transaction that runs.
pub(super) struct Active {
    pub(super) txn: Transaction,
    /// Was it begun by BEGIN?
    pub(super) block: bool,
    failed: bool,
    savepoints: Vec<Mark>,
    /// Start, in microseconds since 2000.
    pub(super) time: i64,
    modes: TransactionModes,
    /// Has a statement run in it?
    pub(super) used: bool,
    /// Has it changed statistics?
    pub(super) analyzed: Vec<u32>,
    /// Temporary tables before it to which something happens at commits.
    pub(super) temporary: usize,
}

/// A savepoint: where the session stood.
struct Mark {
    name: String,
    savepoint: Savepoint,
    settings: settings::Mark,
    /// Of advisory locks, and of what it will say.
    seat: activity::Mark,
    /// Temporary tables to which something happens at commits.
    temporary: usize,
    /// Which foreign keys wait.
    deferred: Waiting,
    read_only: bool,
    /// Cursors and portals that had begun.
    begun: u64,
}

impl Active {
    /// Undoes it, and what of the session ends with it.
    fn roll_back(self, seat: &Seat, deferred: &Deferred, settings: &Settings) {
        self.txn.rollback();
        deferred.clear();
        seat.end_transaction();
        settings.rollback();
    }
}

impl Session {
    /// Where the session stands.
    pub fn status(&self) -> TransactionStatus {
        match &self.active {
            Some(active) if active.block && active.failed => TransactionStatus::Failed,
            Some(active) if active.block => TransactionStatus::Block,
            _ => TransactionStatus::Idle,
        }
    }

    /// A handle by which other threads end the message that runs.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// A message begins: what interrupted the one before does not concern it.
    pub(super) fn begin_message(&mut self) {
        let active = &mut self.active;
        self.interrupt.begin(|| {
            if let Some(active) = active {
                active.txn.clear_cancel();
            }
        });
        self.several = false;
        self.cache.forget_old();
        self.set_deadline();
        self.follow_settings();
    }

    /// The transaction that runs waits as long and reads ahead as the settings say now.
    pub(super) fn follow_settings(&mut self) {
        if let Some(active) = &mut self.active {
            let often = self.settings.often();
            let lock_timeout = often.lock_timeout.map(Duration::from_millis);
            let settings = active.txn.settings().lock_timeout(lock_timeout);
            settings.serial_reads(!often.insert_prefetch);
        }
    }

    /// Fails what runs by an error that was found outside of the session, and gives it back.
    #[must_use]
    pub fn refuse(&mut self, error: SqlError) -> SqlError {
        self.fail();
        error
    }

    /// What a message failed with, after its transaction has; an interrupt gives its reason.
    pub(super) fn failed(&mut self, error: SqlError) -> SqlError {
        self.fail();
        match self.interrupt.reason() {
            Some(reason) if error.sqlstate == code::QUERY_CANCELED => reason.error(),
            _ => error.said(),
        }
    }

    /// Others see from now on that `text` runs. This is the time of what it does.
    pub(super) fn arrives(&mut self, text: &str) {
        self.arrived = self.now();
        self.seat.busy(text, self.arrived);
    }

    pub(super) fn now(&self) -> i64 {
        self.db.unix_micros() - EPOCH_SECONDS * 1_000_000
    }

    fn begin_with(&mut self, modes: Modes, block: bool) -> Result<()> {
        let often = self.settings.often();
        let modes = often.modes.with(modes);
        let isolation = match modes.level {
            Level::ReadUncommitted | Level::ReadCommitted => Isolation::ReadCommitted,
            Level::RepeatableRead => Isolation::Snapshot,
            Level::Serializable => {
                return Err(SqlError::unsupported("the isolation level SERIALIZABLE")
                    .hint("REPEATABLE READ is snapshot isolation."));
            }
        };
        let options = TransactionOptions {
            isolation,
            relaxed: often.relaxed,
            serial_reads: !often.insert_prefetch,
            lock_timeout: often.lock_timeout.map(Duration::from_millis),
        };
        // One that takes the place of another goes on with its settings and its time.
        let time = match &self.active {
            Some(active) => active.time,
            None => {
                self.settings.begin();
                self.arrived
            }
        };
        let txn = self.db.begin_with(options);
        self.interrupt.watch(txn.cancel_handle());
        self.seat.begin_transaction(txn.number(), time);
        self.active = Some(Active {
            txn,
            block,
            failed: false,
            savepoints: Vec::new(),
            time,
            modes,
            used: false,
            analyzed: Vec::new(),
            temporary: self.temporary.len(),
        });
        Ok(())
    }

    /// The transaction of the statement that comes; begun if there is none.
    pub(super) fn ensure(&mut self) -> Result<&mut Active> {
        if self.active.is_none() {
            self.begin_with(Modes::default(), false)?;
        }
        Ok(self.active.as_mut().expect("begun above"))
    }

    /// Refuses a statement in a failed block.
    pub(super) fn check_usable(&self) -> Result<()> {
        match &self.active {
            Some(active) if active.failed => Err(SqlError::failed_transaction()),
            _ => Ok(()),
        }
    }

    /// Refuses a statement that writes in a transaction that does not.
    pub(super) fn check_writable(&self, what: &str) -> Result<()> {
        match &self.active {
            Some(active) if active.modes.read_only => {
                let message = format!("cannot execute {what} in a read-only transaction");
                Err(SqlError::new(code::READ_ONLY_TRANSACTION, message))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a statement that cannot be undone inside of a block, also where the statements of a
    /// message are one.
    pub(super) fn check_outside(&self, what: &str) -> Result<()> {
        if self.is_block() {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
        }
        Ok(())
    }

    /// Will more statements share the transaction: of a block, or of a message with several?
    pub(super) fn is_block(&self) -> bool {
        self.several || matches!(&self.active, Some(active) if active.block)
    }

    /// BEGIN
    pub(super) fn begin(&mut self, modes: Modes, sink: &mut dyn Sink) -> Result<()> {
        match &mut self.active {
            Some(active) if active.block => {
                self.tell(sink, "WARNING", "there is already a transaction in progress");
                self.set_modes(modes)
            }
            // The statements of the message before BEGIN belong to the block.
            Some(active) => {
                active.block = true;
                self.set_modes(modes)
            }
            None => self.begin_with(modes, true),
        }
    }

    /// SET TRANSACTION, and modes of a BEGIN that finds a transaction.
    pub(super) fn set_modes(&mut self, modes: Modes) -> Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        if let Some(read_only) = modes.read_only {
            if active.modes.read_only && !read_only && active.used {
                let message =
                    "cannot set transaction read-write mode inside a read-only transaction";
                return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
            }
            active.modes.read_only = read_only;
        }
        active.modes.deferrable = modes.deferrable.unwrap_or(active.modes.deferrable);
        let Some(level) = modes.isolation.filter(|level| *level != active.modes.level) else {
            return Ok(());
        };
        if active.used || !active.savepoints.is_empty() {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
        }
        let (block, modes) = (active.block, TransactionModes { level, ..active.modes });
        self.begin_with(modes.asked(), block)
    }

    /// Modes of the transaction that runs, or else of the next one.
    pub(super) fn modes(&self) -> TransactionModes {
        match &self.active {
            Some(active) => active.modes,
            None => self.settings.often().modes,
        }
    }

    /// COMMIT; gives the tag.
    pub(super) fn commit_block(
        &mut self,
        chain: bool,
        sink: &mut dyn Sink,
    ) -> Result<&'static str> {
        let Some(active) = self.active.as_ref().filter(|active| active.block) else {
            if chain {
                let message = "COMMIT AND CHAIN can only be used in transaction blocks";
                return Err(SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
            }
            self.tell(sink, "WARNING", "there is no transaction in progress");
            self.commit()?;
            return Ok("COMMIT");
        };
        let (failed, modes) = (active.failed, active.modes.asked());
        if failed {
            self.abort();
        } else {
            self.commit()?;
        }
        if chain {
            self.begin_with(modes, true)?;
        }
        Ok(if failed { "ROLLBACK" } else { "COMMIT" })
    }

    /// ROLLBACK
    pub(super) fn rollback_block(&mut self, chain: bool, sink: &mut dyn Sink) -> Result<()> {
        let modes = match self.active.as_ref().filter(|active| active.block) {
            Some(active) => active.modes.asked(),
            None if chain => {
                let message = "ROLLBACK AND CHAIN can only be used in transaction blocks";
                return Err(SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
            }
            None => {
                self.tell(sink, "WARNING", "there is no transaction in progress");
                Modes::default()
            }
        };
        self.abort();
        if chain { self.begin_with(modes, true) } else { Ok(()) }
    }

    /// Commits what runs.
    pub(super) fn commit(&mut self) -> Result<()> {
        if let Err(error) = self.before_commit() {
            self.abort();
            return Err(error);
        }
        let Some(mut active) = self.active.take() else { return Ok(()) };
        self.interrupt.unwatch();
        self.end_cursors();
        let post = match self.seat.prepare_post() {
            Ok(post) => post,
            Err(error) => {
                self.temporary.truncate(active.temporary);
                active.roll_back(&self.seat, &self.deferred, &self.settings);
                self.temporary_changed();
                return Err(error);
            }
        };
        active.txn.settings().relaxed(self.settings.often().relaxed);
        let committed = active.txn.commit();
        self.deferred.clear();
        if let Some(post) = post.filter(|_| committed.is_ok()) {
            post.send();
        }
        self.seat.end_transaction();
        self.settle(active.temporary, committed.is_ok());
        committed?;
        active.analyzed.iter().for_each(|table| statistics::changed(*table));
        Ok(())
    }

    /// Keeps the settings and temporary tables of a transaction that has ended well, and else goes
    /// back to those before it, of which there were `temporary` tables.
    pub(super) fn settle(&mut self, temporary: usize, has_succeeded: bool) {
        if has_succeeded {
            return self.settings.commit();
        }
        self.temporary.truncate(temporary);
        self.settings.rollback();
        self.temporary_changed();
    }

    /// What a commit may still fail by.
    fn before_commit(&mut self) -> Result<()> {
        self.check_deferred(true)?;
        self.hold_cursors()?;
        self.commit_temporary()
    }

    /// Rolls back what runs.
    pub(super) fn abort(&mut self) {
        if let Some(active) = self.active.take() {
            self.interrupt.unwatch();
            self.end_cursors();
            self.temporary.truncate(active.temporary);
            active.roll_back(&self.seat, &self.deferred, &self.settings);
            self.temporary_changed();
        }
    }

    /// Does work of the database that is in no transaction of the session, and ends it as what is
    /// in one is ended.
    pub(super) fn watched<T>(
        &mut self,
        work: impl FnOnce(&Database, Watch<'_>) -> rightlink::Result<T>,
    ) -> rightlink::Result<T> {
        let (db, interrupt, seat) = (&self.db, &self.interrupt, &self.seat);
        let go_on = || {
            interrupt.expire(db.unix_micros());
            match interrupt.reason() {
                Some(_) => Err(rightlink::Error::Cancelled("by request".into())),
                None => Ok(()),
            }
        };
        let started = self.now();
        let begun = |handle: CancelHandle| {
            seat.begin_transaction(handle.transaction(), started);
            interrupt.watch(handle);
        };
        let lock_timeout = self.settings.often().lock_timeout.map(Duration::from_millis);
        let done = work(db, Watch { lock_timeout, go_on: &go_on, begun: &begun });
        interrupt.unwatch();
        seat.end_transaction();
        done
    }

    /// After an error: the block has failed, or what was begun for the message is undone.
    pub(super) fn fail(&mut self) {
        match &mut self.active {
            Some(active) if active.block => active.failed = true,
            _ => self.abort(),
        }
    }

    /// The transaction of a block, or of a message with several statements.
    pub(super) fn shared(&mut self, what: &str) -> Result<&mut Active> {
        if self.several { self.ensure() } else { self.block(what) }
    }

    pub(super) fn block(&mut self, what: &str) -> Result<&mut Active> {
        match &mut self.active {
            Some(active) if active.block => Ok(active),
            _ => {
                let message = format!("{what} can only be used in transaction blocks");
                Err(SqlError::new(code::NO_ACTIVE_TRANSACTION, message))
            }
        }
    }

    /// SAVEPOINT
    pub(super) fn savepoint(&mut self, name: &str) -> Result<()> {
        self.block("SAVEPOINT")?;
        self.mark(name).map(drop)
    }

    /// Makes a savepoint; gives its place.
    pub(super) fn mark(&mut self, name: &str) -> Result<usize> {
        let (settings, seat, begun) = (self.settings.mark(), self.seat.mark(), self.begun);
        let (temporary, deferred) = (self.temporary.len(), self.deferred.modes());
        let active = self.ensure()?;
        let (name, savepoint) = (name.to_owned(), active.txn.savepoint());
        let read_only = active.modes.read_only;
        active.savepoints.push(Mark {
            name,
            savepoint,
            settings,
            seat,
            temporary,
            deferred,
            read_only,
            begun,
        });
        Ok(active.savepoints.len() - 1)
    }

    /// The place of the newest savepoint of this name.
    fn find_savepoint(&mut self, name: &str, what: &str) -> Result<usize> {
        let active = self.block(what)?;
        active.savepoints.iter().rposition(|mark| mark.name == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(code::INVALID_SAVEPOINT, message)
        })
    }

    /// RELEASE
    pub(super) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name, "RELEASE SAVEPOINT")?;
        self.release_mark(at)
    }

    /// Forgets the savepoint at `at`, and all that came after it.
    pub(super) fn release_mark(&mut self, at: usize) -> Result<()> {
        let active = self.ensure()?;
        active.txn.release(active.savepoints[at].savepoint)?;
        // As PostgreSQL does, though other settings stay.
        active.modes.read_only = active.savepoints[at].read_only;
        active.savepoints.truncate(at);
        Ok(())
    }

    /// ROLLBACK TO: locks of tables stay, all else is as it was.
    pub(super) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name, "ROLLBACK TO SAVEPOINT")?;
        self.return_to_mark(at)
    }

    /// Goes back to the savepoint at `at`, which stays.
    pub(super) fn return_to_mark(&mut self, at: usize) -> Result<()> {
        let begun = self.ensure()?.savepoints[at].begun;
        self.end_cursors_after(begun);
        let settings = self.settings.clone();
        let active = self.ensure()?;
        active.txn.clear_cancel();
        active.txn.rollback_to(active.savepoints[at].savepoint)?;
        active.savepoints.truncate(at + 1);
        active.failed = false;
        let mark = &active.savepoints[at];
        active.modes.read_only = mark.read_only;
        settings.return_to(&mark.settings);
        let (seat, temporary, deferred) = (mark.seat, mark.temporary, mark.deferred.clone());
        self.deferred.return_to(deferred);
        self.seat.return_to(seat);
        self.temporary.truncate(temporary);
        self.temporary_changed();
        self.follow_settings();
        Ok(())
    }
}
