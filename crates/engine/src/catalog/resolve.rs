//! Finding the table of a name.
//!
//! Invariants: a table is returned only while its lock is held and its name stands for it. A table
//! that a transaction knows is reused only under the same edition of the names (R24).
//! Does not do: changes of names (`changes`).

use rightlink_env::Broken;
use rightlink_env::sync::Arc;
use rightlink_env::{points, thread};

use crate::catalog::bootstrap::Kind;
use crate::catalog::changes::Changes;
use crate::catalog::names::{Entry, Known, Slot};
use crate::catalog::{Catalog, no_table};
use crate::config::MAX_NAME_BYTES;
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::Table;
use crate::table::schema::TableDef;
use crate::txn::{LockMode, Transaction};

/// Most tables that a transaction keeps at hand.
const MAX_KNOWN: usize = 4;

impl Catalog {
    /// The table called `name`, locked in `mode` until the end of the transaction.
    pub fn resolve(
        &self,
        txn: &mut Transaction,
        changes: &Changes,
        name: &str,
        mode: LockMode,
    ) -> Result<Arc<Entry>> {
        loop {
            if let Some(own) = changes.get(name) {
                return own.clone().ok_or_else(|| no_table(name));
            }
            let edition = self.names.edition();
            let found = self.lookup(name).map_err(|error| self.table().def().named(error));
            match found? {
                // In the mode that is wanted: two who got less than that, and ask for more, would
                // wait for each other.
                Slot::Changing(id, _) => {
                    txn.lock_table(id, mode).map(|()| self.yield_to_change(name, id))?;
                }
                Slot::Open(entry) => {
                    txn.lock_table(entry.table.def().id, mode)?;
                    if self.names.edition() == edition || self.names.is_current(name, &entry) {
                        return Ok(entry);
                    }
                }
            }
        }
    }

    /// Which edition of the names this is: it changes with what any of them stands for.
    pub fn edition(&self) -> u64 {
        self.names.edition()
    }

    /// As [`Catalog::resolve`], for a transaction that asks for a few tables again and again:
    /// `known` is what it found last.
    pub fn resolve_again(
        &self,
        txn: &mut Transaction,
        changes: &Changes,
        name: &str,
        mode: LockMode,
        known: &mut Vec<Known>,
    ) -> Result<Arc<Entry>> {
        let is_same = |edition| {
            edition == self.names.edition() || points::broken(Broken::KnownDefinitionNotRechecked)
        };
        let at = known.iter().position(|last| last.name == name);
        if let Some(last) = at.map(|at| &known[at])
            && changes.is_empty()
            && is_same(last.edition)
        {
            let id = last.entry.table.def().id;
            // A transaction that has the table in any mode need not wait for its name.
            if txn.has_locked(id, LockMode::Access) {
                txn.lock_table(id, mode)?;
            }
            if txn.has_locked(id, mode) && is_same(last.edition) {
                return Ok(Arc::clone(&last.entry));
            }
        }
        let edition = self.names.edition();
        let entry = self.resolve(txn, changes, name, mode)?;
        if let Some(at) = at {
            known.swap_remove(at);
        }
        if !changes.is_empty() {
            known.clear();
        } else {
            if known.len() == MAX_KNOWN {
                known.remove(0);
            }
            known.push(Known { name: name.to_owned(), entry: Arc::clone(&entry), edition });
        }
        Ok(entry)
    }

    /// The table of a definition that the transaction sees, to be looked at without its lock. A
    /// change of another transaction has it as it was before; `None` if it cannot be opened, or if
    /// its name stands for another table by now.
    pub fn look_at(&self, changes: &Changes, def: &TableDef) -> Option<Arc<Entry>> {
        let found = match changes.get(&def.name) {
            Some(own) => own.clone(),
            None => match self.lookup(&def.name).ok()? {
                Slot::Open(entry) => Some(entry),
                Slot::Changing(_, before) => before.upgrade(),
            },
        };
        found.filter(|entry| entry.table.def().id == def.id)
    }

    /// The table of this name; one that is being changed is as it was before. `None`: there is
    /// none, or damage keeps it from being opened.
    pub fn committed(&self, name: &str) -> Option<Arc<Entry>> {
        match self.lookup(name).ok()? {
            Slot::Open(entry) => Some(entry),
            Slot::Changing(_, before) => before.upgrade(),
        }
    }

    /// The name of the table that the index called `index` belongs to, as `txn` sees it.
    pub fn table_of_index(&self, txn: &Transaction, index: &str) -> Result<String> {
        let missing = || Error::NotFound(format!("index {index}"));
        let snapshot = txn.latest_snapshot();
        let object = self.store.relation(&snapshot, index)?.ok_or_else(missing)?.object;
        if object.kind != Kind::Index {
            return Err(missing());
        }
        Ok(self.store.object(&snapshot, object.parent)?.object.name)
    }

    /// The lock of a table is free a moment before its name is unmarked.
    fn yield_to_change(&self, name: &str, id: ObjectId) {
        if matches!(self.names.get(name), Some(Slot::Changing(now, _)) if now == id) {
            thread::yield_now();
        }
    }

    fn lookup(&self, name: &str) -> Result<Slot> {
        if let Some(slot) = self.names.get(name) {
            return Ok(slot);
        }
        let _turn = self.names.loading();
        loop {
            let edition = self.names.edition();
            if let Some(slot) = self.names.get(name) {
                return Ok(slot);
            }
            points::hit("catalog.lookup");
            let entry = self.open_entry(name);
            points::hit("catalog.looked-up");
            match entry {
                Ok(entry) if self.names.open(name, &entry, edition) => {
                    return Ok(Slot::Open(entry));
                }
                // Files of a table that was dropped meanwhile are missing without any damage.
                Err(error) if self.names.edition() == edition => return Err(error),
                _ => {}
            }
        }
    }

    /// Opens the committed table called `name`, for [`Catalog::lookup`] alone.
    fn open_entry(&self, name: &str) -> Result<Arc<Entry>> {
        let def = self.definition(name)?;
        let table = Table::open(&self.pool, &self.txns, def.clone());
        let table = table.map_err(|error| def.named(error))?;
        Ok(Arc::new(Entry { table }))
    }

    /// The first of `wanted` and `wanted` with a number that is the name of no table, index or
    /// sequence, nor one of `own`.
    pub fn free_name(&self, txn: &Transaction, own: &[String], wanted: &str) -> Result<String> {
        let snapshot = txn.latest_snapshot();
        let with = |digits: &str| {
            let mut end = wanted.len().min(MAX_NAME_BYTES - digits.len());
            while !wanted.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}{digits}", &wanted[..end])
        };
        let mut free = with("");
        let mut number = 0;
        while own.contains(&free) || self.store.relation(&snapshot, &free)?.is_some() {
            number += 1;
            free = with(&number.to_string());
        }
        Ok(free)
    }
}
