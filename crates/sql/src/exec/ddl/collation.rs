//! CREATE and DROP COLLATION.
//!
//! Does not do: changes of collations; columns keep the whole collation, so there is nothing to
//! change.

use rightlink::{Collation, Error};

use super::Definer;
use crate::bind::Catalog;
use crate::bind::ddl::NewCollation;
use crate::error::{Result, SqlError, code};
use crate::exec::tables::Tables;
use crate::types::collate::{built_in, no_collation};

impl Definer<'_> {
    pub(super) fn create_collation(
        &mut self,
        name: &str,
        from: &NewCollation,
        if_not_exists: bool,
    ) -> Result<()> {
        if built_in(name).is_ok() || self.txn.catalog().collation(name)?.is_some() {
            let message = format!("collation \"{name}\" for encoding \"UTF8\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
            }
            self.notices.push(format!("{message}, skipping"));
            return Ok(());
        }
        let collation = match from {
            NewCollation::Locale(locale, deterministic) => {
                let made = Collation::new(locale, *deterministic).map_err(|error| match error {
                    Error::Invalid(what) => SqlError::new(code::INVALID_PARAMETER, what),
                    other => other.into(),
                })?;
                made.named(name)
            }
            NewCollation::From(other) => match Tables(self.txn).collation(other)? {
                Some(known) => known.named(name),
                None => {
                    return Err(SqlError::unsupported(format!("a collation from \"{other}\"")));
                }
            },
        };
        Ok(self.txn.catalog().create_collation(&collation)?)
    }

    pub(super) fn drop_collation(&mut self, name: &str) -> Result<()> {
        self.txn.catalog().drop_collation(name).map_err(|error| match error {
            Error::NotFound(_) if built_in(name).is_ok() => {
                let message = format!(
                    "cannot drop collation {name} because it is required by the database system"
                );
                SqlError::new(code::DEPENDENT_OBJECTS, message)
            }
            Error::NotFound(_) => no_collation(name),
            Error::Invalid(what) => {
                let message =
                    format!("cannot drop collation {name} because other objects depend on it");
                SqlError::new(code::DEPENDENT_OBJECTS, message).detail(what)
            }
            other => other.into(),
        })
    }
}
