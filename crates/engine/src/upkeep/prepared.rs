//! The prepared transactions of an open database, by the names that their clients gave them.
//!
//! 1. [`Engine::prepare`] takes the name, writes the row of the catalog, and commits that durably.
//!    From here on the transaction outlives its session and the process.
//! 2. [`Engine::finish_prepared`] takes it out. To commit, the transaction removes its own row and
//!    commits: one record decides both. To roll back, another transaction removes the row; after
//!    that is durable the prepared one is rolled back.
//! 3. [`Engine::restore_prepared`] makes transactions of the rows when a database is opened.
//!
//! Invariants: a decision that fails leaves the transaction prepared. If it is not known whether
//! the row is there, the transaction stays in progress, and the database is poisoned.
//! Does not do: the list (`prepared_list`), who may finish a transaction (SQL).

use rightlink_env::points;

use crate::catalog::codec::Prepared;
use crate::catalog::prepared::KeptPrepared;
use crate::error::{Error, Result};
use crate::txn::{Isolation, Transaction};
use crate::upkeep::Engine;
use crate::upkeep::prepared_list::{Entry, PreparedInfo};

/// What becomes of a prepared transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    Commit,
    RollBack,
}

impl Engine {
    /// Prepares `txn` under the name `gid`. After an error it is rolled back, unless the outcome is
    /// unknown.
    pub(crate) fn prepare(&self, mut txn: Transaction, gid: &str, note: &str) -> Result<()> {
        self.check_open()?;
        self.admit()?;
        let (time, note) = (self.env.clock.unix_micros(), note.to_owned());
        let prepared = Prepared { time, note, state: txn.prepared_state()? };
        let object = self.prepared.reserve(PreparedInfo::new(gid, &prepared, &txn))?;
        points::hit("prepare.reserved");
        let kept = KeptPrepared { object, gid: gid.to_owned(), prepared };
        match self.catalog.keep_prepared(&kept) {
            Ok(()) => {
                points::hit("prepare.durable");
                txn.become_prepared();
                self.prepared.put(gid, txn);
                Ok(())
            }
            Err(error @ Error::Poisoned(_)) => {
                txn.leave_in_doubt();
                Err(error)
            }
            Err(error) => {
                self.prepared.remove(gid);
                Err(error)
            }
        }
    }

    /// Commits the prepared transaction `gid` or rolls it back. After an error it is still
    /// prepared, unless the outcome is unknown.
    pub(crate) fn finish_prepared(&self, gid: &str, decision: Decision) -> Result<()> {
        self.check_open()?;
        self.admit_freeing()?;
        let mut txn = self.prepared.take(gid)?;
        txn.set_prepared(false);
        let before = txn.savepoint();
        points::hit("prepare.finish");
        let finished = match decision {
            Decision::Commit => {
                let forgotten = self.catalog.forget_prepared(&mut txn, gid);
                forgotten.and_then(|()| txn.commit_prepared()).map(drop)
            }
            Decision::RollBack => self.erase_prepared(gid),
        };
        points::hit("prepare.finished");
        match finished {
            Ok(()) => {
                drop(txn);
                self.prepared.remove(gid);
                Ok(())
            }
            Err(error @ Error::Poisoned(_)) => {
                txn.leave_in_doubt();
                Err(error)
            }
            Err(error) => {
                txn.rollback_to(before).expect("it was set above");
                txn.become_prepared();
                self.prepared.put(gid, txn);
                Err(error)
            }
        }
    }

    /// Removes the row of a prepared transaction durably.
    fn erase_prepared(&self, gid: &str) -> Result<()> {
        let mut eraser = self.txns.begin(Isolation::ReadCommitted);
        self.catalog.forget_prepared(&mut eraser, gid)?;
        eraser.commit(false).map(drop)
    }

    /// Makes the prepared transactions that the catalog keeps run again. Nothing else runs yet.
    pub(super) fn restore_prepared(&self) -> Result<()> {
        for KeptPrepared { object, gid, prepared } in self.catalog.all_prepared()? {
            let txn = self.txns.restore(&prepared.state)?;
            let info = PreparedInfo::new(&gid, &prepared, &txn);
            self.prepared.add(Entry { object, info, txn: Some(txn) });
        }
        Ok(())
    }
}
