//! Prepared transactions as rows of the catalog.
//!
//! Such a row is made by a transaction of its own and is removed by the prepared transaction
//! itself, so that one commit record decides both. So log, checkpoints, recovery, backups and
//! verification know nothing of prepared transactions.
//!
//! Invariants: a row is there from before a preparation is acknowledged until its transaction has
//! ended.
//! Does not do: running transactions (`txn`), which names are taken (`upkeep`).

use crate::catalog::Catalog;
use crate::catalog::bootstrap::{Kind, PREPARED};
use crate::catalog::codec::{self, Prepared};
use crate::catalog::rows::{Object, damage};
use crate::config::MAX_NOTE_BYTES;
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::Statement;
use crate::txn::{Isolation, Transaction};

/// A prepared transaction as it is kept.
pub struct KeptPrepared {
    /// Its number: one of [`PREPARED_OBJECTS`](super::bootstrap::PREPARED_OBJECTS).
    pub object: ObjectId,
    /// The name that its client gave it.
    pub gid: String,
    /// The rest.
    pub prepared: Prepared,
}

impl Catalog {
    /// Keeps a prepared transaction: its row is durable when this returns.
    pub fn keep_prepared(&self, kept: &KeptPrepared) -> Result<()> {
        let definition = codec::encode_prepared(&kept.prepared);
        if definition.len() > MAX_NOTE_BYTES {
            let what = format!(
                "a prepared transaction is described in at most {MAX_NOTE_BYTES} bytes, not {}: \
                 it locks too many tables, or too many of its statements were undone",
                definition.len()
            );
            return Err(Error::Limit(what));
        }
        let object = Object::named(kept.object, Kind::Prepared, &kept.gid, definition);
        let mut txn = self.txns.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut txn)?;
        self.store.insert(&mut statement, &[object])?;
        statement.check()?;
        drop(statement);
        txn.commit(false).map(drop)
    }

    /// Removes the row of a prepared transaction, in a statement of `txn`.
    pub fn forget_prepared(&self, txn: &mut Transaction, gid: &str) -> Result<()> {
        let found = self.store.named(&txn.latest_snapshot(), PREPARED, gid)?;
        let stored = found.ok_or_else(|| damage(gid, "a prepared transaction has no row"))?;
        let mut statement = Statement::begin(txn)?;
        self.store.delete(&mut statement, &stored)?;
        statement.check()
    }

    /// All prepared transactions that are kept, sorted by name.
    pub fn all_prepared(&self) -> Result<Vec<KeptPrepared>> {
        let snapshot = self.txns.begin(Isolation::ReadCommitted).latest_snapshot();
        let all = self.store.named_from(&snapshot, PREPARED, "")?.into_iter();
        let kept = all.map(|stored| {
            let Object { id, name, definition, .. } = stored.object;
            let prepared = codec::decode_prepared(&definition).map_err(|what| damage(&name, what));
            Ok(KeptPrepared { object: id, gid: name, prepared: prepared? })
        });
        kept.collect()
    }
}
