//! Primary keys and unique constraints that may be checked late: their indexes are not unique in
//! the store, and the notes of the table tell what they are. Primary keys that include columns,
//! whose indexes are made first, too.
//!
//! Invariants: no two rows have a key when the constraint is made. Does not do: checking rows that
//! come (`exec::unique_keys`).

use rightlink::{AlterTable, IndexSchema};

use super::{Definer, key_made, named, not_unique};
use crate::bind::ddl::{IndexPart, LateIndex, NewIndex, NewPrimary};
use crate::error::{Result, SqlError, code};
use crate::names::bare;
use crate::notes::{DeferrableKey, Deferral, KeyKind, TableNotes};
use crate::plan::Table;
use crate::schemas::no_table;

impl Definer<'_> {
    /// Notes that an index of `table` is that of such a key, and looks at the rows.
    pub(super) fn add_late(&mut self, table: &str, index: &str, kind: KeyKind) -> Result<()> {
        if kind.deferral == Deferral::Never {
            let made = self.txn.alter_table(table, AlterTable::PrimaryKeyIndex(index));
            return key_made(table, made);
        }
        let info = named(table, self.txn.catalog().describe(table))?;
        let made = info.indexes.iter().find(|known| known.name == index);
        let made = made.ok_or_else(|| no_table(index))?;
        self.check_unique(table, &made.schema, kind)?;
        let key = DeferrableKey { index: made.id, kind };
        self.note(table, |notes| notes.deferrable.push(key))
    }

    /// Fails if two rows of `table` have one key of the index. An index that is unique finds them;
    /// it is dropped then.
    fn check_unique(&mut self, table: &str, index: &IndexSchema, kind: KeyKind) -> Result<()> {
        let name = self.txn.catalog().free_name(&index.name, &[])?;
        let (unique, nulls_not_distinct) = (true, kind.nulls_not_distinct);
        let probe = IndexSchema { name, unique, nulls_not_distinct, ..index.clone() };
        let made = self.txn.create_index(table, &probe);
        made.map_err(|error| not_unique(&index.name, error))?;
        Ok(self.txn.drop_index(&probe.name)?)
    }

    /// Looks again at keys of the column, whose values are others now.
    pub(super) fn recheck_late(&mut self, name: &str, column: &str) -> Result<()> {
        let table = self.table(name)?;
        for index in table.info.indexes.iter().filter(|index| index.uses(column)) {
            if let Some(kind) = late_kind(&table, index) {
                self.check_unique(name, &index.schema, kind)?;
            }
        }
        Ok(())
    }

    /// Adds a primary key that may be checked late or includes columns.
    pub(super) fn add_late_primary(
        &mut self,
        table: &str,
        key: &NewPrimary,
        index: LateIndex,
    ) -> Result<()> {
        let LateIndex { schema, kind } = index;
        let name = key.name.clone().unwrap_or_else(|| format!("{table}_pkey"));
        let index = NewIndex {
            parts: vec![IndexPart::default(); schema.columns.len()],
            schema: IndexSchema { name, ..schema },
            named: key.name.is_some(),
            condition: None,
            late: Some(kind),
        };
        self.add_unique(table, &index)?;
        key.columns.iter().try_for_each(|column| self.set_nullable(table, column, false))
    }
}

/// What an index asks of its table if it is that of such a key.
pub(super) fn late_kind(table: &Table, index: &rightlink::IndexInfo) -> Option<KeyKind> {
    table.notes.key_kind(index).filter(|kind| kind.deferral != Deferral::Never)
}

/// Has the table a primary key of either sort?
pub(super) fn has_primary(info: &rightlink::TableInfo) -> bool {
    let notes = TableNotes::decode(&info.note);
    let mut kinds = info.indexes.iter().filter_map(|index| notes.key_kind(index));
    kinds.any(|kind| kind.primary)
}

/// Fails if the column is in a primary key that may be checked late.
pub(super) fn refuse_primary(table: &Table, column: &str) -> Result<()> {
    let is_primary = |index: &&rightlink::IndexInfo| {
        late_kind(table, index).is_some_and(|kind| kind.primary) && index.uses(column)
    };
    if table.info.indexes.iter().any(|index| is_primary(&index)) {
        let message = format!("column \"{column}\" is in a primary key");
        return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
    }
    Ok(())
}

/// The error for an index that its constraint needs.
pub(super) fn required(index: &str, table: &str) -> SqlError {
    let own = bare(index);
    let message =
        format!("cannot drop index {index} because constraint {own} on table {table} requires it");
    let hint = format!("You can drop constraint {own} on table {table} instead.");
    SqlError::new(code::DEPENDENT_OBJECTS, message).hint(hint)
}
