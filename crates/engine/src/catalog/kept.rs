//! Text that a layer above keeps with the database itself, under names of its own.
//!
//! Invariants: whoever changes one of them holds the lock of all, so none is changed twice at once.
//! Does not do: reading what is kept.

use crate::catalog::Catalog;
use crate::catalog::bootstrap::{KEPT, Kind};
use crate::catalog::codec;
use crate::catalog::rows::{Object, damage};
use crate::config::MAX_NOTE_BYTES;
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::Statement;
use crate::table::schema::check_name;
use crate::txn::{LockMode, Transaction};

impl Catalog {
    /// Keeps others from changing any text until the transaction ends.
    pub fn lock_kept(&self, txn: &mut Transaction) -> Result<()> {
        txn.lock_table(KEPT, LockMode::Exclusive)
    }

    /// Keeps `text` under a name, in place of what was there; `None`: nothing. The statement began
    /// under the lock.
    pub fn keep_text(
        &self,
        statement: &mut Statement<'_>,
        name: &str,
        text: Option<&str>,
    ) -> Result<()> {
        check_name("note", name)?;
        if text.is_some_and(|text| text.len() > MAX_NOTE_BYTES) {
            let what = format!("what is kept as {name} is longer than {MAX_NOTE_BYTES} bytes");
            return Err(Error::Limit(what));
        }
        let snapshot = statement.txn().latest_snapshot();
        let found = self.store.named(&snapshot, KEPT, name)?;
        let object = |id, text| Object {
            id,
            kind: Kind::Kept,
            parent: ObjectId(0),
            namespace: KEPT,
            position: 0,
            name: name.to_owned(),
            definition: codec::encode_kept(text),
        };
        match (found, text) {
            (None, None) => Ok(()),
            (None, Some(text)) => self.store.insert(statement, &[object(self.new_object(), text)]),
            (Some(old), None) => self.store.delete(statement, &old),
            (Some((row, old)), Some(text)) => {
                self.store.update(statement, row, &object(old.id, text))
            }
        }
    }

    /// What is kept under a name, as the transaction sees it.
    pub fn kept(&self, txn: &Transaction, name: &str) -> Result<Option<String>> {
        let found = self.store.named(&txn.latest_snapshot(), KEPT, name)?;
        let text = |object: Object| {
            codec::decode_kept(&object.definition).map_err(|what| damage(&object.name, what))
        };
        found.map(|(_, object)| text(object)).transpose()
    }
}
