//! Foreign keys: rows that refer have what they refer to, and what happens to them when it goes.
//!
//! While a statement runs it notes keys; when it is done they are looked at. A row that is referred
//! to is locked until the end of the transaction, together with others that refer to it, so that it
//! and its keys stay while its other columns may change. What refers is looked for as
//! everything is now, so that rows which the snapshot does not show are found too; whoever inserts
//! one holds its parent's lock, which the statement that takes the parent away has waited for.
//!
//! Invariants: a statement that leaves a row without its parent fails, and so does its transaction.
//! Does not do: deferred constraints, MATCH FULL.

use std::collections::BTreeSet;
use std::sync::Arc;

use rightlink::{Budget, Busy, RowLock, ScanOptions, Transaction, Value, Written};

use crate::bind::{Binder, Catalog};
use crate::error::{Result, SqlError, code};
use crate::exec::memory::{Memory, row_bytes};
use crate::exec::rows;
use crate::exec::tables::Tables;
use crate::exec::write::{carry, unless};
use crate::expr::aggregate::Ordered;
use crate::expr::{Context, Expr};
use crate::parse::Lines;
use crate::plan::notes::Action;
use crate::plan::{ParentKey, Rules, Table};
use crate::types::cast::cast;
use crate::types::{Datum, Row};

/// Deepest chain of rows that go with others.
const MAX_DEPTH: usize = 64;

/// Keys that a statement has to answer for.
pub(crate) struct Pending {
    /// For each foreign key of the table, keys that must be there.
    wanted: Vec<BTreeSet<Ordered>>,
    /// Rows that went, with what became of them.
    gone: Vec<(Row, Option<Row>)>,
    memory: Memory,
}

impl Pending {
    pub(crate) fn new(rules: &Rules, budget: &Budget) -> Pending {
        let wanted = rules.keys.iter().map(|_| BTreeSet::new()).collect();
        Pending { wanted, gone: Vec::new(), memory: Memory::new(budget) }
    }

    /// Notes a row that came, in the place of `old` if there was one.
    pub(crate) fn came(
        &mut self,
        rules: &Rules,
        old: Option<&[Value]>,
        new: &[Value],
    ) -> Result<()> {
        for (key, wanted) in rules.keys.iter().zip(&mut self.wanted) {
            let changed =
                old.is_none_or(|old| key.columns.iter().any(|(own, ..)| old[*own] != new[*own]));
            if !changed {
                continue;
            }
            let value =
                |(own, _, ty): &(usize, usize, _)| cast(Datum::from(new[*own].clone()), *ty);
            let values = key.columns.iter().map(value).collect::<Result<Row>>()?;
            if values.iter().any(Datum::is_null) {
                continue;
            }
            let bytes = row_bytes(&values);
            if wanted.insert(Ordered(values)) {
                self.memory.charge(bytes)?;
            }
        }
        Ok(())
    }

    /// Notes a row that went, and what stands in its place.
    pub(crate) fn went(
        &mut self,
        rules: &Rules,
        old: &[Value],
        new: Option<&[Value]>,
    ) -> Result<()> {
        if !rules.is_parent || new.is_some_and(|new| new == old) {
            return Ok(());
        }
        let row = |values: &[Value]| values.iter().cloned().map(Datum::from).collect::<Row>();
        let (old, new) = (row(old), new.map(row));
        self.memory.charge(row_bytes(&old) + new.as_ref().map_or(0, |new| row_bytes(new)))?;
        self.gone.push((old, new));
        Ok(())
    }
}

/// Looks at the keys that a statement on `table` left.
pub(crate) fn settle(
    pending: Pending,
    (table, rules): (&Table, &Rules),
    txn: &mut Transaction,
    (context, budget): (&Context, &Budget),
) -> Result<()> {
    settle_at(pending, (table, rules), txn, (context, budget), 0)
}

fn settle_at(
    pending: Pending,
    (table, rules): (&Table, &Rules),
    txn: &mut Transaction,
    (context, budget): (&Context, &Budget),
    depth: usize,
) -> Result<()> {
    for (key, wanted) in rules.keys.iter().zip(pending.wanted) {
        if !wanted.is_empty() {
            find_parents(key, wanted, table, txn, context)?;
        }
    }
    if pending.gone.is_empty() {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        let message = "foreign keys with actions are nested too deeply";
        return Err(SqlError::new(code::TOO_COMPLEX, message));
    }
    for child in &table.notes.children {
        let child = Child::open(child, table, txn, context)?;
        for key in child.rules.keys.iter().filter(|key| key.key.parent == table.info.name) {
            for (old, new) in &pending.gone {
                context.check_interrupt()?;
                let visit = Visit { child: &child, key, parent: table, depth };
                visit.look(old, new.as_deref(), txn, (context, budget))?;
            }
        }
    }
    Ok(())
}

/// Names of columns and their values, as messages show a key.
fn shown(names: &[&str], values: &[Datum]) -> String {
    let values: Vec<String> = values.iter().map(|v| v.to_text().unwrap_or_default()).collect();
    format!("Key ({})=({})", names.join(", "), values.join(", "))
}

fn find_parents(
    key: &ParentKey,
    wanted: BTreeSet<Ordered>,
    table: &Table,
    txn: &mut Transaction,
    context: &Context,
) -> Result<()> {
    let parent = &key.parent;
    txn.write(&parent.info.name, |writer| {
        for Ordered(values) in wanted {
            context.check_interrupt()?;
            let bound = values.iter().cloned().map(rows::to_value).collect::<Result<Vec<_>>>()?;
            let options = ScanOptions::index(&key.index).equal(bound.clone()).limit(1);
            let found = writer.scan(&options)?.next().transpose()?;
            let same = |row: &[Value]| {
                let equal =
                    |((_, at, _), value): (&(usize, usize, _), &Value)| row[*at].cmp(value).is_eq();
                Ok(key.columns.iter().zip(&bound).all(equal))
            };
            let held = match found {
                Some(row) => {
                    let wanted = &mut |row: &[Value]| same(row);
                    writer.lock_row(row.id, wanted, RowLock::KeyShared, Busy::Wait)?
                }
                None => Written::Gone,
            };
            if !matches!(held, Written::Done(_)) {
                let message = format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    table.info.name, key.key.name
                );
                let names: Vec<&str> = key
                    .columns
                    .iter()
                    .map(|(own, ..)| table.info.columns[*own].name.as_str())
                    .collect();
                let detail = format!(
                    "{} is not present in table \"{}\".",
                    shown(&names, &values),
                    parent.info.name
                );
                return Err(SqlError::new(code::FOREIGN_KEY_VIOLATION, message).detail(detail));
            }
        }
        Ok(())
    })
}

/// A table with a foreign key to another.
struct Child {
    table: Arc<Table>,
    rules: Rules,
    /// What its columns get by default.
    defaults: Vec<Expr>,
}

impl Child {
    fn open(name: &str, parent: &Table, txn: &mut Transaction, context: &Context) -> Result<Child> {
        let mut tables = Tables(txn);
        let table = tables.table(name)?;
        let lines = Lines::default();
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        let rules = binder.rules(&table)?;
        let sets = |key: &ParentKey| {
            key.key.parent == parent.info.name
                && [key.key.on_delete, key.key.on_update].contains(&Action::SetDefault)
        };
        let mut defaults = Vec::new();
        if rules.keys.iter().any(sets) {
            for at in 0..table.types.len() {
                defaults.push(binder.default_of(&table, at)?);
            }
        }
        let sequences = std::mem::take(&mut binder.sequences);
        context.sequences.open(&sequences, txn)?;
        Ok(Child { table, rules, defaults })
    }
}

/// One foreign key of a child, seen from its parent.
struct Visit<'v> {
    child: &'v Child,
    key: &'v ParentKey,
    parent: &'v Table,
    depth: usize,
}

impl Visit<'_> {
    /// Does what the foreign key says about rows that refer to `old`, which became `new`.
    fn look(
        &self,
        old: &[Datum],
        new: Option<&[Datum]>,
        txn: &mut Transaction,
        (context, budget): (&Context, &Budget),
    ) -> Result<()> {
        let of = |row: &[Datum]| -> Row {
            self.key.columns.iter().map(|(_, at, _)| row[*at].clone()).collect()
        };
        let (old, new) = (of(old), new.map(of));
        if old.iter().any(Datum::is_null) || new.as_ref() == Some(&old) {
            return Ok(());
        }
        let action = match new {
            Some(_) => self.key.key.on_update,
            None => self.key.key.on_delete,
        };
        let acts = !matches!(action, Action::Nothing | Action::Restrict);
        if acts {
            self.act(action, &old, new.as_deref(), txn, (context, budget))?;
        }
        // Another row may have taken the key over meanwhile, also by the action itself.
        let replaced = action != Action::Restrict && self.has_parent(&old, txn)?;
        if replaced || !self.is_referred(&old, txn)? {
            return Ok(());
        }
        let names: Vec<&str> = self
            .key
            .columns
            .iter()
            .map(|(_, at, _)| self.parent.info.columns[*at].name.as_str())
            .collect();
        let child = &self.child.table.info.name;
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \
             \"{child}\"",
            self.parent.info.name, self.key.key.name
        );
        let detail = format!("{} is still referenced from table \"{child}\".", shown(&names, &old));
        Err(SqlError::new(code::FOREIGN_KEY_VIOLATION, message).detail(detail))
    }

    /// The scan of the child's rows with this key: by an index of all rows that begins with it,
    /// if there is one.
    fn scan(&self, key: &[Datum]) -> Result<ScanOptions> {
        let table = &self.child.table;
        let value = |name: &str| -> Option<Result<Value>> {
            let is_it = |(own, ..): &&(usize, usize, _)| table.info.columns[*own].name == name;
            let at = self.key.columns.iter().position(|part| is_it(&part))?;
            let own = self.key.columns[at].0;
            Some(cast(key[at].clone(), table.types[own]).and_then(rows::to_value))
        };
        let by_bytes = |part: &rightlink::KeyColumnInfo| {
            part.collation.as_ref().is_none_or(rightlink::Collation::is_deterministic)
        };
        for index in table.info.indexes.iter().filter(|index| index.is_whole()) {
            if !index.columns.iter().take(key.len()).all(by_bytes) {
                // It would find more than equals the key.
                continue;
            }
            let whole = index.columns.len() == key.len();
            let parts = index.columns.iter().take(key.len()).map(|part| value(&part.name));
            let Some(values) = parts.collect::<Option<Vec<_>>>() else { continue };
            if values.len() == key.len() && (whole || index.method.is_ordered()) {
                let values = values.into_iter().collect::<Result<Vec<_>>>()?;
                return Ok(ScanOptions::index(&index.name).equal(values));
            }
        }
        Ok(ScanOptions::all())
    }

    fn refers(&self, row: &[Value], key: &[Datum]) -> bool {
        self.key.columns.iter().zip(key).all(|((own, ..), value)| {
            let own = Datum::from(row[*own].clone());
            !own.is_null() && own.compare(value).is_eq()
        })
    }

    fn is_referred(&self, key: &[Datum], txn: &mut Transaction) -> Result<bool> {
        let options = self.scan(key)?;
        for row in txn.scan_latest(&self.child.table.info.name, &options)? {
            if self.refers(&row?.values, key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_parent(&self, key: &[Datum], txn: &mut Transaction) -> Result<bool> {
        let bound = key.iter().cloned().map(rows::to_value).collect::<Result<Vec<_>>>()?;
        let options = ScanOptions::index(&self.key.index).equal(bound).limit(1);
        let found = txn.scan_latest(&self.parent.info.name, &options)?.next().transpose()?;
        Ok(found.is_some())
    }

    /// Changes or deletes the rows that refer to `old`.
    fn act(
        &self,
        action: Action,
        old: &[Datum],
        new: Option<&[Datum]>,
        txn: &mut Transaction,
        (context, budget): (&Context, &Budget),
    ) -> Result<()> {
        let (table, rules) = (&self.child.table, &self.child.rules);
        let options = self.scan(old)?;
        let mut pending = Pending::new(rules, budget);
        txn.write(&table.info.name, |writer| -> Result<()> {
            for row in writer.scan(&options)? {
                let id = row?.id;
                let mut failed = None;
                let mut seen: Option<(Vec<Value>, Option<Vec<Value>>)> = None;
                let written = if action == Action::Cascade && new.is_none() {
                    writer.delete(id, &mut |row| {
                        let refers = self.refers(row, old);
                        seen = refers.then(|| (row.to_vec(), None));
                        Ok(refers)
                    })
                } else {
                    writer.update(id, &mut |row| {
                        let changed = self.changed(action, row, (old, new), context);
                        let changed = carry(&mut failed, changed)?;
                        seen = changed.as_ref().map(|new| (row.to_vec(), Some(new.clone())));
                        Ok(changed)
                    })
                };
                if let (Written::Done(_), Some((before, after))) = (unless(failed, written)?, seen)
                {
                    if let Some(after) = &after {
                        pending.came(rules, Some(&before), after)?;
                    }
                    pending.went(rules, &before, after.as_deref())?;
                }
            }
            Ok(())
        })?;
        settle_at(pending, (table, rules), txn, (context, budget), self.depth + 1)
    }

    /// A row that refers to `old` as the action makes it; `None` if it does not refer.
    fn changed(
        &self,
        action: Action,
        row: &[Value],
        (old, new): (&[Datum], Option<&[Datum]>),
        context: &Context,
    ) -> Result<Option<Vec<Value>>> {
        if !self.refers(row, old) {
            return Ok(None);
        }
        let (table, rules) = (&self.child.table, &self.child.rules);
        let mut values: Row = row.iter().cloned().map(Datum::from).collect();
        for (at, (own, ..)) in self.key.columns.iter().enumerate() {
            values[*own] = match (action, new) {
                (Action::Cascade, Some(new)) => cast(new[at].clone(), table.types[*own])?,
                (Action::SetDefault, _) => self.child.defaults[*own].eval(&[], context)?,
                _ => Datum::Null,
            };
        }
        rows::checked((table, rules), values, context).map(Some)
    }
}
