//! Text that a layer above keeps with the database itself, under names of its own.
//!
//! Invariants: a transaction that changes one text holds the lock of all, so no two change one.
//! Does not do: reading what is kept.

use crate::catalog::Catalog;
use crate::catalog::bootstrap::{KEPT, Kind};
use crate::catalog::codec;
use crate::catalog::ddl::DdlStatement;
use crate::catalog::rows::{Object, StoredObject, damage};
use crate::config::MAX_NOTE_BYTES;
use crate::error::{Error, Result};
use crate::table::schema::check_name;
use crate::txn::{LockMode, Transaction};

/// A text with the name that it is kept under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptText {
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
}

fn text_of(stored: &StoredObject) -> Result<String> {
    let object = &stored.object;
    codec::decode_kept(&object.definition).map_err(|what| damage(&object.name, what))
}

impl DdlStatement<'_> {
    /// Keeps `text` under a name, in place of what was there; `None`: nothing. The statement began
    /// under the lock.
    pub fn keep_text(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        check_name("note", name)?;
        if text.is_some_and(|text| text.len() > MAX_NOTE_BYTES) {
            let what = format!("what is kept as {name} is longer than {MAX_NOTE_BYTES} bytes");
            return Err(Error::Limit(what));
        }
        let (catalog, snapshot) = (self.catalog, self.snapshot());
        let found = catalog.store.named(&snapshot, KEPT, name)?;
        let object = |id, text| Object::named(id, Kind::Kept, name, codec::encode_kept(text));
        match (found, text) {
            (None, None) => Ok(()),
            (None, Some(text)) => self.insert(&[object(catalog.new_object(), text)]),
            (Some(old), None) => catalog.store.delete(&mut self.statement, &old),
            (Some(StoredObject { row, object: old }), Some(text)) => {
                catalog.store.update(&mut self.statement, row, &object(old.id, text))
            }
        }
    }
}

impl Catalog {
    /// Keeps other transactions from changing any text until this one ends.
    pub fn lock_kept(&self, txn: &mut Transaction) -> Result<()> {
        txn.lock_table(KEPT, LockMode::Exclusive)
    }

    /// The text that is kept under a name, as the transaction sees it.
    pub fn kept(&self, txn: &Transaction, name: &str) -> Result<Option<String>> {
        let found = self.store.named(&txn.latest_snapshot(), KEPT, name)?;
        found.map(|stored| text_of(&stored)).transpose()
    }

    /// Names and texts of all that is kept under names that begin with `prefix`, sorted by name, as
    /// the transaction sees them.
    pub fn kept_from(&self, txn: &Transaction, prefix: &str) -> Result<Vec<KeptText>> {
        let all = self.store.named_from(&txn.latest_snapshot(), KEPT, prefix)?;
        let one = |stored: StoredObject| {
            let text = text_of(&stored)?;
            Ok(KeptText { name: stored.object.name, text })
        };
        all.into_iter().map(one).collect()
    }
}
