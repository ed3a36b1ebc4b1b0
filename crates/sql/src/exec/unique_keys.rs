//! Primary keys and unique constraints that may be checked late.
//!
//! Their indexes hold a key several times. A statement notes the keys that its rows got, and when
//! it is done each of them must be that of one row, as everything is now: a running transaction
//! that decides about another is waited for.
//!
//! Where the constraint waits for the end of the transaction, nobody is waited for, and keys that
//! may be taken twice are kept and looked at then. So of two transactions with one key the second
//! one waits, as in PostgreSQL.
//!
//! Does not do: keys of indexes that are unique at all times, which the store sees to.

use std::collections::BTreeSet;

use rightlink::{Transaction, Value};

use crate::error::{Result, SqlError, code};
use crate::exec::references::shown;
use crate::exec::rows::to_value;
use crate::expr::Context;
use crate::expr::aggregate::Ordered;
use crate::expr::deferred::Deferrable;
use crate::names::bare;
use crate::plan::{Rules, Table, UniqueKey};
use crate::types::{Datum, Row};

impl UniqueKey {
    /// The key that a row got, in the place of `old` if there was one; `None` if it has it still,
    /// or if it is no key that must be unique.
    pub(super) fn came(
        &self,
        rules: &Rules,
        old: Option<&[Value]>,
        new: &[Value],
    ) -> Result<Option<Row>> {
        let mut columns = self.columns.iter();
        let is_same = old.is_some_and(|old| columns.clone().all(|at| old[*at] == new[*at]));
        if is_same || !self.kind.nulls_not_distinct && columns.any(|at| new[*at].is_null()) {
            return Ok(None);
        }
        let value = |at: &usize| Datum::stored(new[*at].clone(), rules.types[*at]);
        self.columns.iter().map(value).collect::<Result<Row>>().map(Some)
    }

    /// A key as the store has it.
    pub(super) fn stored(&self, key: &[Datum]) -> Result<Vec<Value>> {
        key.iter().cloned().map(to_value).collect()
    }

    fn already_there(&self, table: &Table, key: &[Datum]) -> SqlError {
        let constraint = bare(&self.index);
        let message = format!("duplicate key value violates unique constraint \"{constraint}\"");
        let names = self.columns.iter().map(|at| table.info.columns[*at].name.as_str());
        let names: Vec<&str> = names.collect();
        SqlError::new(code::UNIQUE_VIOLATION, message)
            .detail(format!("{} already exists.", shown(&names, key)))
            .of_constraint(&table.info.name, constraint)
    }

    /// Looks at keys that rows of `table` got, or keeps those of a constraint that waits.
    pub(super) fn check(
        &self,
        table: &Table,
        keys: BTreeSet<Ordered>,
        txn: &mut Transaction,
        context: &Context,
    ) -> Result<()> {
        let (name, deferral) = (bare(&self.index), self.kind.deferral);
        let deferrable = Deferrable { table: table.info.id, name, deferral };
        let deferred = context.deferred.as_deref();
        let Some(deferred) = deferred.filter(|deferred| deferred.waits(&deferrable)) else {
            return self.check_now(table, keys, txn, context);
        };
        let mut left = BTreeSet::new();
        for Ordered(key) in keys {
            context.check_interrupt()?;
            if txn.may_share_key(&table.info.name, &self.index, &self.stored(&key)?)? {
                left.insert(Ordered(key));
            }
        }
        deferred.want(&deferrable, left, &context.budget())
    }

    /// Fails if several rows of `table` have one of the keys.
    pub(super) fn check_now(
        &self,
        table: &Table,
        keys: BTreeSet<Ordered>,
        txn: &mut Transaction,
        context: &Context,
    ) -> Result<()> {
        for Ordered(key) in keys {
            context.check_interrupt()?;
            if txn.shares_key(&table.info.name, &self.index, &self.stored(&key)?)? {
                return Err(self.already_there(table, &key));
            }
        }
        Ok(())
    }
}
