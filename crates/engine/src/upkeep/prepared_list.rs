//! The names of prepared transactions, and the transactions behind them.
//!
//! Invariants: a name is listed before its row of the catalog is written, until after the row was
//! removed. A transaction is taken out by one thread at a time.
//! Does not do: prepare or decide (`prepared`).

use std::collections::BTreeMap;

use rightlink_env::sync::Mutex;

use crate::catalog::bootstrap::PREPARED_OBJECTS;
use crate::catalog::codec::Prepared;
use crate::error::{Error, Result};
use crate::ids::{ObjectId, Xid};
use crate::txn::Transaction;

/// The prepared transactions, by name.
#[derive(Default)]
pub(crate) struct PreparedTransactions(Mutex<BTreeMap<String, Entry>>);

/// One of them.
pub(super) struct Entry {
    /// Number of its row.
    pub(super) object: ObjectId,
    pub(super) info: PreparedInfo,
    /// `None` while somebody prepares or finishes it.
    pub(super) txn: Option<Transaction>,
}

/// A prepared transaction, for people.
#[derive(Clone)]
pub(crate) struct PreparedInfo {
    pub(crate) gid: String,
    pub(crate) first_xid: Xid,
    pub(crate) number: u64,
    pub(crate) time: i64,
    pub(crate) note: String,
    pub(crate) is_busy: bool,
}

impl PreparedInfo {
    /// Of `txn`, whose state is kept as `prepared`.
    pub(super) fn new(gid: &str, prepared: &Prepared, txn: &Transaction) -> PreparedInfo {
        let first_xid = prepared.state.xids.first().map_or(Xid::NONE, |range| Xid(range.start));
        let (gid, note) = (gid.to_owned(), prepared.note.clone());
        PreparedInfo { gid, first_xid, number: txn.id(), time: prepared.time, note, is_busy: false }
    }
}

impl PreparedTransactions {
    /// Lists a transaction that is being prepared; gives the number of its row.
    pub(super) fn reserve(&self, info: PreparedInfo) -> Result<ObjectId> {
        let mut known = self.0.lock();
        if known.contains_key(&info.gid) {
            let what = format!("a prepared transaction called {}", info.gid);
            return Err(Error::AlreadyExists(what));
        }
        let is_free = |number: &u32| known.values().all(|one| one.object.0 != *number);
        let Some(object) = PREPARED_OBJECTS.into_iter().find(is_free).map(ObjectId) else {
            let most = PREPARED_OBJECTS.len();
            return Err(Error::Limit(format!("{most} transactions are prepared already")));
        };
        known.insert(info.gid.clone(), Entry { object, info, txn: None });
        Ok(object)
    }

    /// Lists a transaction that was restored.
    pub(super) fn add(&self, entry: Entry) {
        self.0.lock().insert(entry.info.gid.clone(), entry);
    }

    /// Takes a transaction out, to finish it.
    pub(super) fn take(&self, gid: &str) -> Result<Transaction> {
        let mut known = self.0.lock();
        let Some(entry) = known.get_mut(gid) else {
            return Err(Error::NotFound(format!("prepared transaction {gid}")));
        };
        let busy = || Error::Invalid(format!("prepared transaction {gid} is busy"));
        entry.txn.take().ok_or_else(busy)
    }

    pub(super) fn put(&self, gid: &str, txn: Transaction) {
        let mut known = self.0.lock();
        known.get_mut(gid).expect("a name stays until its row is gone").txn = Some(txn);
    }

    pub(super) fn remove(&self, gid: &str) {
        self.0.lock().remove(gid);
    }

    /// All of them, sorted by name.
    pub(crate) fn all(&self) -> Vec<PreparedInfo> {
        let known = self.0.lock();
        let info =
            |entry: &Entry| PreparedInfo { is_busy: entry.txn.is_none(), ..entry.info.clone() };
        known.values().map(info).collect()
    }
}
