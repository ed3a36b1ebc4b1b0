//! Collations with names of their own.
//!
//! Invariants: columns and indexes keep the whole collation, not its name: dropping one changes
//! nothing that is stored. It is refused all the same while a column or an index has it.
//! Does not do: comparing.

use crate::catalog::Catalog;
use crate::catalog::bootstrap::{COLLATIONS, Kind};
use crate::catalog::codec;
use crate::catalog::ddl::DdlStatement;
use crate::catalog::rows::{Object, StoredObject, damage};
use crate::collation::Collation;
use crate::error::{Error, Result};
use crate::table::schema::check_name;
use crate::txn::Transaction;

impl DdlStatement<'_> {
    /// Keeps a collation under its name.
    pub fn create_collation(&mut self, collation: &Collation) -> Result<()> {
        check_name("collation", collation.name())?;
        collation.check(&format!("collation {}", collation.name()))?;
        let definition = codec::encode_collation(collation);
        let (id, name) = (self.catalog.new_object(), collation.name());
        self.insert(&[Object::named(id, Kind::Collation, name, definition)])
    }

    /// Forgets a collation.
    pub fn drop_collation(&mut self, name: &str) -> Result<()> {
        let found = self.catalog.find_collation(self.statement.txn(), name)?;
        let missing = || Error::NotFound(format!("collation {name}"));
        let stored = found.ok_or_else(missing)?;
        for other in self.catalog.store.all(&self.snapshot())? {
            let user = match other.kind {
                Kind::Column => codec::decode_column(&other.name, &other.definition)
                    .is_ok_and(|column| !column.dropped && is_called(&column.collation, name))
                    .then_some("column"),
                Kind::Index => codec::decode_index(other.id, &other.name, &other.definition)
                    .is_ok_and(|index| {
                        index.columns.iter().any(|part| is_called(&part.collation, name))
                    })
                    .then_some("index"),
                _ => None,
            };
            if let Some(user) = user {
                let what = format!("collation {name}: {user} {} has it", other.name);
                return Err(Error::Invalid(what));
            }
        }
        self.catalog.store.delete(&mut self.statement, &stored)
    }
}

impl Catalog {
    /// The collation called `name`, as the transaction sees it.
    pub fn collation(&self, txn: &Transaction, name: &str) -> Result<Option<Collation>> {
        let found = self.find_collation(txn, name)?;
        found.map(|found| to_collation(&found.object)).transpose()
    }

    /// All collations that have names, as the transaction sees them.
    pub fn collations(&self, txn: &Transaction) -> Result<Vec<Collation>> {
        let named = self.store.of_kind(&txn.latest_snapshot(), Kind::Collation)?;
        named.iter().map(to_collation).collect()
    }

    fn find_collation(&self, txn: &Transaction, name: &str) -> Result<Option<StoredObject>> {
        self.store.named(&txn.latest_snapshot(), COLLATIONS, name)
    }
}

fn is_called(collation: &Option<Collation>, name: &str) -> bool {
    collation.as_ref().is_some_and(|collation| collation.name() == name)
}

fn to_collation(object: &Object) -> Result<Collation> {
    codec::decode_collation(&object.definition).map_err(|what| damage(&object.name, what))
}
