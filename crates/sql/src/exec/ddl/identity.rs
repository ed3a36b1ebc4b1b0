//! ALTER TABLE: a column that is there becomes an identity column, or is none any more.
//!
//! Invariants: an identity column has no default and is not null; a column declared `serial` is no
//! identity column, although the store keeps its sequence in the same way.
//! Does not do: SET GENERATED and the options of the sequence, which ALTER SEQUENCE changes.

use rightlink::AlterTable;

use super::Definer;
use crate::bind::ddl::identity_from;
use crate::error::{Result, SqlError, code};
use crate::names::{bare, beside, schema_of};
use crate::parse::utility::sequence::{IdentityChange, SequenceOptions};
use crate::plan::Table;

impl Definer<'_> {
    pub(super) fn change_identity(
        &mut self,
        name: &str,
        column: &str,
        change: &IdentityChange,
    ) -> Result<()> {
        let table = self.table(name)?;
        let at = self.column_at(&table, column)?;
        let is_identity =
            table.info.columns[at].identity.is_some() && !table.column_notes[at].serial;
        match change {
            IdentityChange::Drop { if_exists } => {
                if is_identity {
                    return Ok(self.txn.alter_table(name, AlterTable::DropIdentity(column))?);
                }
                let message = of_relation(&table, column, "is not an identity column");
                if *if_exists {
                    self.notices.push(format!("{message}, skipping"));
                    return Ok(());
                }
                Err(SqlError::new(code::NOT_IN_STATE, message))
            }
            IdentityChange::Add { always, name: sequence, options } => {
                let known = &table.info.columns[at];
                let has_default = known.default.is_some()
                    || known.identity.is_some()
                    || table.column_notes[at].default.is_some()
                    || table.column_notes[at].generated.is_some();
                let why = match () {
                    () if known.nullable => {
                        Some("must be declared NOT NULL before identity can be added")
                    }
                    () if is_identity => Some("is already an identity column"),
                    () if has_default => Some("already has a default value"),
                    () => None,
                };
                if let Some(why) = why {
                    let message = of_relation(&table, column, why);
                    return Err(SqlError::new(code::NOT_IN_STATE, message));
                }
                self.add_identity(&table, at, *always, options)?;
                match sequence {
                    Some(parts) => self.name_identity(&table.info.name, column, parts),
                    None => Ok(()),
                }
            }
        }
    }

    fn add_identity(
        &mut self,
        table: &Table,
        at: usize,
        always: bool,
        options: &SequenceOptions,
    ) -> Result<()> {
        let column = &table.info.columns[at];
        let schema = identity_from(&column.name, column.kind, always, options)?;
        Ok(self.txn.alter_table(
            &table.info.name,
            AlterTable::AddIdentity { column: &column.name, identity: &schema },
        )?)
    }

    /// Gives the new sequence of a column the name that the statement says.
    pub(super) fn name_identity(
        &mut self,
        name: &str,
        column: &str,
        parts: &[String],
    ) -> Result<()> {
        let (last, schema) = parts.split_last().expect("a name has a part");
        if schema.last().is_some_and(|schema| schema != schema_of(name)) {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(code::NOT_IN_STATE, message));
        }
        let info = self.txn.catalog().describe(name)?;
        let found = info.columns.iter().find(|known| known.name == column);
        let identity = found.and_then(|found| found.identity.as_ref()).expect("it was added");
        let wanted = beside(name, last);
        if identity.sequence == wanted {
            return Ok(());
        }
        self.rename_sequence(&identity.sequence, &wanted)
    }
}

pub(super) fn of_relation(table: &Table, column: &str, what: &str) -> String {
    format!("column \"{column}\" of relation \"{}\" {what}", bare(&table.info.name))
}
