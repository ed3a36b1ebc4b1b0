//! ADD PRIMARY KEY and UNIQUE USING INDEX: an index that is there becomes that of a constraint.
//!
//! Invariants: the index is a plain unique one over columns in their default order.
//! Does not do: constraints that may be checked late, whose indexes are not unique in the store.

use rightlink::{AlterTable, IndexInfo};

use super::alter::{refuse_taken, two_primary};
use super::expression::has_expression;
use super::{Definer, key_made, late_keys, named};
use crate::bind::ddl::UsedIndex;
use crate::catalog::{forget_plain_indexes, plain_indexes};
use crate::error::{Result, SqlError, code};
use crate::names::bare;
use crate::notes::TableNotes;

impl Definer<'_> {
    pub(super) fn use_index(&mut self, table: &str, used: &UsedIndex) -> Result<()> {
        let info = named(table, self.txn.catalog().describe(table))?;
        let found = info.indexes.iter().find(|index| index.name == used.index);
        let index = found.ok_or_else(|| self.no_index_of(table, &used.index))?;
        if !plain_indexes(self.txn)?.contains(&index.id) {
            check_is_unique(index)?;
            let message =
                format!("index \"{}\" is already associated with a constraint", bare(&index.name));
            return Err(SqlError::new(code::NOT_IN_STATE, message));
        }
        check_is_plain(index, &TableNotes::decode(&info.note))?;
        if used.primary && late_keys::has_primary(&info) {
            return Err(two_primary(table));
        }
        let name = used.name.as_ref().unwrap_or(&used.index);
        refuse_taken(table, name, &self.constraint_names(table)?)?;
        if *name != index.name {
            self.notices.push(format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{}\" to \"{}\"",
                bare(&index.name),
                bare(name)
            ));
            self.rename_index(&index.name, name)?;
        }
        if used.primary {
            key_made(table, self.txn.alter_table(table, AlterTable::PrimaryKeyIndex(name)))?;
        }
        forget_plain_indexes(self.txn, std::slice::from_ref(index))
    }

    fn no_index_of(&mut self, table: &str, index: &str) -> SqlError {
        let (index, is_others) = (bare(index), self.txn.catalog().table_of_index(index).is_ok());
        if is_others {
            let table = bare(table);
            let message = format!("index \"{index}\" does not belong to table \"{table}\"");
            return SqlError::new(code::NOT_IN_STATE, message);
        }
        SqlError::new(code::UNDEFINED_OBJECT, format!("index \"{index}\" does not exist"))
    }
}

fn check_is_unique(index: &IndexInfo) -> Result<()> {
    match index.unique {
        true => Ok(()),
        false => Err(unfit(format!("\"{}\" is not a unique index", bare(&index.name)))),
    }
}

/// Fails if no constraint can be said by the index.
fn check_is_plain(index: &IndexInfo, notes: &TableNotes) -> Result<()> {
    let name = bare(&index.name);
    check_is_unique(index)?;
    if has_expression(&index.columns) {
        return Err(unfit(format!("index \"{name}\" contains expressions")));
    }
    if index.predicate.is_some() {
        return Err(unfit(format!("\"{name}\" is a partial index")));
    }
    let is_other = |(at, key): (usize, &rightlink::KeyColumn)| {
        key.descending || key.nulls_first || notes.class(index.id, at).is_some()
    };
    if let Some(at) = index.columns.iter().enumerate().position(is_other) {
        return Err(unfit(format!(
            "index \"{name}\" column number {} does not have default sorting behavior",
            at + 1
        )));
    }
    Ok(())
}

fn unfit(message: String) -> SqlError {
    let detail = "Cannot create a primary key or unique constraint using such an index.";
    SqlError::new(code::WRONG_OBJECT_TYPE, message).detail(detail)
}
