//! PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
//!
//! The store keeps the transaction, and beside it a note that says who has prepared it.
//!
//! Invariants: a transaction that cannot be prepared is rolled back, and the session is outside of
//! a block then, as in PostgreSQL.
//! Does not do: transactions with definitions, with advisory locks that end with them, or with what
//! ANALYZE found: what a commit of them does to sessions is not kept.

use std::collections::BTreeSet;

use rightlink::{Error, LockInfo, Locked, MAX_PREPARED};

use super::{Session, Sink};
use crate::activity::TransactionStatus;
use crate::error::{Result, SqlError, code};
use crate::names::schema_of;
use crate::parse::utility::Decision;
use crate::roles::preparer::Preparer;

/// Longest name of a prepared transaction, in bytes.
const MAX_GID: usize = 199;

/// The tag of a decision.
fn tag(decision: Decision) -> &'static str {
    match decision {
        Decision::Commit => "COMMIT PREPARED",
        Decision::Rollback => "ROLLBACK PREPARED",
    }
}

fn cannot(what: &str) -> SqlError {
    let message = format!("cannot PREPARE a transaction that has {what}");
    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
}

impl Session {
    /// PREPARE TRANSACTION; gives the tag. Without a block, and of one that has failed, it is
    /// ROLLBACK.
    pub(super) fn prepare_transaction(
        &mut self,
        gid: &str,
        sink: &mut dyn Sink,
    ) -> Result<&'static str> {
        let in_block = self.active.as_ref().is_some_and(|active| active.block);
        if !in_block {
            self.tell(sink, "WARNING", "there is no transaction in progress");
            if self.active.is_none() || !self.is_block() {
                self.commit()?;
                return Ok("ROLLBACK");
            }
        }
        if self.status() == TransactionStatus::Failed {
            self.abort();
            return Ok("ROLLBACK");
        }
        let ready = self.check_preparable(gid);
        let note = ready.and_then(|()| self.actor()).map(|actor| Preparer::of(&actor).note());
        match note {
            Ok(note) => self.prepare_active(gid, &note).map(|()| "PREPARE TRANSACTION"),
            Err(error) => {
                self.abort();
                Err(error)
            }
        }
    }

    /// Fails if the transaction that runs cannot be prepared.
    fn check_preparable(&mut self, gid: &str) -> Result<()> {
        self.check_deferred(true)?;
        if self.has_new_held_cursor() {
            return Err(cannot("created a cursor WITH HOLD"));
        }
        if self.has_used_temporary()? {
            return Err(cannot("operated on temporary objects"));
        }
        if gid.len() > MAX_GID {
            let message = format!("transaction identifier \"{gid}\" is too long");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
        if self.db.prepared().iter().any(|one| one.gid == gid) {
            return Err(in_use(gid));
        }
        let held = self.seat.mark();
        if held.has_said() {
            return Err(cannot("executed LISTEN, UNLISTEN, or NOTIFY"));
        }
        let active = self.ensure()?;
        let refused = match () {
            () if active.txn.has_defined() => Some("PREPARE TRANSACTION with definitions"),
            () if !active.analyzed.is_empty() => Some("PREPARE TRANSACTION with ANALYZE"),
            () if held.has_locked() => {
                Some("PREPARE TRANSACTION with advisory locks that end with the transaction")
            }
            () => None,
        };
        refused.map_or(Ok(()), |what| Err(SqlError::unsupported(what)))
    }

    /// Has the transaction that runs locked a temporary table, as every use of one does?
    fn has_used_temporary(&mut self) -> Result<bool> {
        let Some(schema) = self.temporary.schema().map(str::to_owned) else { return Ok(false) };
        let number = self.ensure()?.txn.number();
        let table = |lock: LockInfo| match lock.what {
            Locked::Table(table) if lock.transaction == number => Some(table),
            _ => None,
        };
        let locked: BTreeSet<u32> = self.db.locks().into_iter().filter_map(table).collect();
        let txn = &mut self.ensure()?.txn;
        for name in txn.catalog().table_names()? {
            if schema_of(&name) == schema && locked.contains(&txn.catalog().describe(&name)?.id) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Prepares what runs. The session is outside of a transaction then.
    fn prepare_active(&mut self, gid: &str, note: &str) -> Result<()> {
        let Some(active) = self.active.take() else { return Ok(()) };
        self.interrupt.unwatch();
        self.end_cursors();
        let prepared = active.txn.prepare(gid, note);
        self.deferred.clear();
        self.seat.end_transaction();
        self.settle(active.temporary, prepared.is_ok());
        prepared.map_err(|error| match error {
            Error::AlreadyExists(_) => in_use(gid),
            Error::Limit(_) if self.db.prepared().len() >= MAX_PREPARED => too_many(),
            other => other.into(),
        })
    }

    /// COMMIT PREPARED and ROLLBACK PREPARED; gives the tag.
    pub(super) fn finish_prepared(
        &mut self,
        gid: &str,
        decision: Decision,
    ) -> Result<&'static str> {
        self.check_outside(tag(decision))?;
        let actor = self.actor()?;
        let unknown = || {
            let message = format!("prepared transaction with identifier \"{gid}\" does not exist");
            SqlError::new(code::UNDEFINED_OBJECT, message)
        };
        let busy = || {
            let message = format!("prepared transaction with identifier \"{gid}\" is busy");
            SqlError::new(code::NOT_IN_STATE, message)
        };
        let found = self.db.prepared().into_iter().find(|one| one.gid == gid);
        let found = found.ok_or_else(unknown)?;
        if found.is_busy {
            return Err(busy());
        }
        if !actor.is_superuser && Preparer::read(&found.note).oid != actor.oid {
            let message = "permission denied to finish prepared transaction";
            return Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message)
                .hint("Must be superuser or the user that prepared the transaction."));
        }
        let finished = match decision {
            Decision::Commit => self.db.commit_prepared(gid),
            Decision::Rollback => self.db.rollback_prepared(gid),
        };
        match finished {
            Ok(()) => Ok(tag(decision)),
            // Another session was faster.
            Err(Error::NotFound(_)) => Err(unknown()),
            Err(Error::Invalid(_)) if self.db.prepared().iter().any(|one| one.gid == gid) => {
                Err(busy())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn in_use(gid: &str) -> SqlError {
    let message = format!("transaction identifier \"{gid}\" is already in use");
    SqlError::new(code::DUPLICATE_OBJECT, message)
}

fn too_many() -> SqlError {
    SqlError::new(code::OUT_OF_MEMORY, "maximum number of prepared transactions reached")
        .hint(format!("Increase max_prepared_transactions (currently {MAX_PREPARED})."))
}
