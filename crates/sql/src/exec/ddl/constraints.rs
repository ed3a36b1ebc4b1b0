//! Checks and foreign keys: making them, and what goes with them when they go.
//!
//! Invariants: rows that are there meet a constraint before it is noted as there.
//! Does not do: enforcing them later (`exec::rows`, `exec::references`).

use std::collections::BTreeSet;

use rightlink::{AlterTable, CheckSchema, Predicate, ScanOptions};

use super::expression::has_expression;
use super::readers::Needed;
use super::schema::without_parentheses;
use super::{Definer, late_keys, named, no_column};
use crate::bind::Binder;
use crate::bind::ddl::NewCheck;
use crate::bind::reading::Reading;
use crate::catalog::{forget_plain_indexes, plain_indexes};
use crate::error::{Result, SqlError, code};
use crate::exec::memory::{Memory, row_bytes};
use crate::exec::references::{all_as_parent, not_present};
use crate::exec::rows::to_value;
use crate::exec::source::convert;
use crate::exec::tables::Tables;
use crate::expr::Expr;
use crate::expr::aggregate::Ordered;
use crate::names::bare;
use crate::notes::{Action, ColumnNotes, Deferral, ForeignKey, TableNotes};
use crate::parse::Lines;
use crate::plan::predicate::comparison;
use crate::plan::{GeneratedColumn, ParentKey, Table};
use crate::schemas::no_table;
use crate::statistics::store;
use crate::types::cast::is_implicit;
use crate::types::{Category, Datum, SqlType};

impl Definer<'_> {
    /// Adds a check.
    pub(super) fn add_check(&mut self, name: &str, check: &NewCheck) -> Result<()> {
        let table = self.table(name)?;
        let plain = bare(name);
        let node = self.settled(without_parentheses(&check.condition))?;
        let text = node.to_string();
        let lines = Lines::of(&text);
        let mut tables = Tables(self.txn);
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::to_keep(self.context.times.clone());
        let condition = binder.check_from(&node, &table)?;
        let sequences = std::mem::take(&mut binder.sequences);
        let text = binder.reading.pinned(&text)?;
        self.context.sequences.open(&sequences, self.txn)?;
        let mut columns = BTreeSet::new();
        condition.walk(&mut |expr| {
            if let Expr::Column(at) = expr {
                columns.insert(*at);
            }
        });
        let wanted = check.name.clone().unwrap_or_else(|| match columns.first() {
            Some(at) if columns.len() == 1 => {
                format!("{plain}_{}_check", table.info.columns[*at].name)
            }
            _ => format!("{plain}_check"),
        });
        let own = self.free_name(&table, wanted, check.name.is_some())?;
        // The table is locked, by ALTER TABLE or as a new one: nobody adds rows after the look.
        for row in self.txn.scan(name, &ScanOptions::all().latest())? {
            self.context.check_interrupt()?;
            if condition.eval(&convert(row?, table.types.iter().copied(), false)?, self.context)?
                == Datum::Bool(false)
            {
                let message = format!(
                    "check constraint \"{own}\" of relation \"{plain}\" is violated by some row"
                );
                return Err(SqlError::new(code::CHECK_VIOLATION, message).of_constraint(name, &own));
            }
        }
        // What the store can say itself it sees to itself too, whoever writes. What a function says
        // it does not: that may be replaced.
        if let Some(predicate) = predicate(&condition, &table)
            && !self.calls_functions(&text)?
        {
            let simple = CheckSchema { name: own.clone(), predicate };
            self.txn.alter_table(name, AlterTable::AddCheck(&simple))?;
        }
        self.note(name, |notes| notes.checks.push((own, text)))
    }

    /// A name for a constraint that no other one of the table has.
    pub(super) fn free_name(&self, table: &Table, wanted: String, given: bool) -> Result<String> {
        let taken = |name: &str| {
            let notes = &table.notes;
            notes.checks.iter().any(|(known, _)| known == name)
                || notes.keys.iter().any(|key| key.name == name)
                || table.info.checks.iter().any(|check| check.name == name)
                || table.info.indexes.iter().any(|index| bare(&index.name) == name)
        };
        if given && taken(&wanted) {
            let table = table.bare_name();
            let message =
                format!("constraint \"{wanted}\" for relation \"{table}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
        }
        let mut free = wanted.clone();
        let mut number = 0;
        while taken(&free) {
            number += 1;
            free = format!("{wanted}{number}");
        }
        Ok(free)
    }

    /// Adds a foreign key. Rows that are there have their parents, or it fails.
    pub(super) fn add_key(&mut self, name: &str, key: &ForeignKey) -> Result<()> {
        let table = self.table(name)?;
        let parent = self.table(&key.parent)?;
        if parent.notes.view.is_some() {
            let message = format!("referenced relation \"{}\" is not a table", parent.bare_name());
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        let mut key = key.clone();
        if key.parent_columns.is_empty() {
            let primary = parent.info.indexes.iter().find(|index| index.primary);
            let primary = primary.ok_or_else(|| {
                if late_keys::has_primary(&parent.info) {
                    let message = format!(
                        "cannot use a deferrable primary key for referenced table \"{}\"",
                        bare(&key.parent)
                    );
                    return SqlError::new(code::NOT_IN_STATE, message);
                }
                let message = format!(
                    "there is no primary key for referenced table \"{}\"",
                    bare(&key.parent)
                );
                SqlError::new(code::UNDEFINED_OBJECT, message)
            })?;
            key.parent_columns = primary.columns.iter().map(|part| part.name.clone()).collect();
        }
        refuse_actions(&table, &key)?;
        if key.columns.len() != key.parent_columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(code::INVALID_FOREIGN_KEY, message));
        }
        if let Some(missing) = key.columns.iter().find(|name| !has_column(&table, name)) {
            let message =
                format!("column \"{missing}\" referenced in foreign key constraint does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        }
        let given = !key.name.is_empty();
        let wanted = match given {
            true => key.name.clone(),
            false => format!("{}_{}_fkey", bare(name), key.columns.join("_")),
        };
        key.name = self.free_name(&table, wanted, given)?;
        let resolved = {
            let (mut tables, lines) = (Tables(self.txn), Lines::default());
            Binder::new(&mut tables, &lines, &[]).parent_key(&key, &table)?
        };
        check_types(&resolved, &table)?;
        let vague = |table: &Table, at: usize| {
            let collation = table.info.columns[at].collation.as_ref();
            collation.is_some_and(|collation| !collation.is_deterministic())
        };
        let mut pairs = resolved.columns.iter();
        if pairs.any(|(own, theirs, _)| vague(&table, *own) || vague(&parent, *theirs)) {
            let what = "a foreign key of columns with a nondeterministic collation";
            return Err(SqlError::unsupported(what));
        }
        // From here on both tables are locked, so nothing comes between the look and the note.
        self.note(&key.parent, |notes| notes.add_child(name))?;
        let noted = key.clone();
        self.note(name, |notes| notes.keys.push(noted))?;
        self.check_parents(&table, &resolved)
    }

    fn check_parents(&mut self, table: &Table, key: &ParentKey) -> Result<()> {
        let mut seen = BTreeSet::new();
        let mut memory = Memory::new(
            self.context
                .db
                .as_ref()
                .map_or_else(|| unreachable!("a definition has a database"), |db| db.0.budget()),
        );
        let names = key.columns.iter().map(|(own, ..)| table.info.columns[*own].name.as_str());
        let options = ScanOptions::all().columns(names).latest();
        for row in self.txn.scan(&table.info.name, &options)? {
            self.context.check_interrupt()?;
            let types = key.columns.iter().map(|(own, ..)| table.types[*own]);
            let values = convert(row?, types, false)?;
            if values.iter().any(Datum::is_null) || seen.contains(&Ordered(values.clone())) {
                continue;
            }
            memory.charge(row_bytes(&values))?;
            seen.insert(Ordered(values));
        }
        for Ordered(values) in seen {
            let mut found = false;
            if let Some(theirs) = all_as_parent(key, &values, &self.context.times)? {
                let bound = theirs.into_iter().map(to_value).collect::<Result<Vec<_>>>()?;
                let options = ScanOptions::index(&key.index).equal(bound).limit(1).latest();
                let mut parents = self.txn.scan(&key.parent.info.name, &options)?;
                found = parents.next().transpose()?.is_some();
            }
            if !found {
                return Err(not_present(table, key, &values));
            }
        }
        Ok(())
    }

    /// Sets when a foreign key is looked at.
    pub(super) fn set_deferral(
        &mut self,
        name: &str,
        constraint: &str,
        deferral: Deferral,
    ) -> Result<()> {
        let table = self.table(name)?;
        if table.notes.keys.iter().any(|key| key.name == constraint) {
            return self.note(name, |notes| {
                let mut keys = notes.keys.iter_mut();
                if let Some(key) = keys.find(|key| key.name == constraint) {
                    key.deferral = deferral;
                }
            });
        }
        let (relation, constraints) = (table.bare_name(), self.constraint_names(name)?);
        let mut indexes = table.info.indexes.iter();
        let is_index = indexes
            .any(|index| bare(&index.name) == constraint && table.notes.key_kind(index).is_some());
        if is_index || constraints.iter().any(|known| bare(known) == constraint) {
            let message = format!(
                "constraint \"{constraint}\" of relation \"{relation}\" is not a foreign key \
                 constraint"
            );
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        let message =
            format!("constraint \"{constraint}\" of relation \"{relation}\" does not exist");
        Err(SqlError::new(code::UNDEFINED_OBJECT, message))
    }

    /// Drops the constraint called `constraint`.
    pub(super) fn drop_constraint(
        &mut self,
        name: &str,
        constraint: &str,
        (if_exists, cascade): (bool, bool),
    ) -> Result<()> {
        let table = self.table(name)?;
        if table.notes.checks.iter().any(|(known, _)| known == constraint)
            || table.info.checks.iter().any(|check| check.name == constraint)
        {
            return self.drop_check(&table, constraint);
        }
        if let Some(key) = table.notes.keys.iter().find(|key| key.name == constraint) {
            return self.drop_key(name, &key.clone());
        }
        let index = table.info.indexes.iter().find(|index| bare(&index.name) == constraint);
        let plain = plain_indexes(self.txn)?;
        let is_key = |index: &&rightlink::IndexInfo| {
            table.notes.key_kind(index).is_some()
                && !plain.contains(&index.id)
                && !has_expression(&index.columns)
        };
        if let Some(index) = index.filter(is_key) {
            self.free_index(name, &index.name, cascade)?;
            return match index.primary {
                true => Ok(self.txn.alter_table(name, AlterTable::DropPrimaryKey)?),
                false => Ok(self.txn.drop_index(&index.name)?),
            };
        }
        let name = bare(name);
        let message = format!("constraint \"{constraint}\" of relation \"{name}\" does not exist");
        if if_exists {
            self.notices.push(format!("{message}, skipping"));
            return Ok(());
        }
        Err(SqlError::new(code::UNDEFINED_OBJECT, message))
    }

    pub(super) fn drop_check(&mut self, table: &Table, check: &str) -> Result<()> {
        let name = &table.info.name;
        if table.info.checks.iter().any(|known| known.name == check) {
            self.txn.alter_table(name, AlterTable::DropCheck(check))?;
        }
        self.note(name, |notes| notes.checks.retain(|(known, _)| known != check))
    }

    /// Drops a foreign key of the table called `name`.
    pub(super) fn drop_key(&mut self, name: &str, key: &ForeignKey) -> Result<()> {
        let mut left = false;
        self.note(name, |notes| {
            notes.keys.retain(|known| known.name != key.name);
            left = notes.keys.iter().any(|known| known.parent == key.parent);
        })?;
        match left {
            true => Ok(()),
            false => self.note(&key.parent, |notes| notes.children.retain(|known| known != name)),
        }
    }

    /// Foreign keys that are looked up in the index go with it, or keep it from going.
    pub(super) fn free_index(&mut self, name: &str, index: &str, cascade: bool) -> Result<()> {
        let table = self.table(name)?;
        for child in &table.notes.children {
            let child = self.table(child)?;
            let rules = {
                let (mut tables, lines) = (Tables(self.txn), Lines::default());
                Binder::new(&mut tables, &lines, &[]).rules(&child)?
            };
            for key in rules.keys {
                if key.key.parent != name || key.index != index {
                    continue;
                }
                if !cascade {
                    let on = &child.info.name;
                    return Err(depends(
                        &format!("constraint {} on table {name}", bare(index)),
                        &format!(
                            "constraint {} on table {on} depends on index {index}",
                            key.key.name
                        ),
                    ));
                }
                self.drop_key(&child.info.name, &key.key)?;
            }
        }
        Ok(())
    }

    /// Drops a table. Foreign keys of tables that are not `also` dropped go with it, or keep it.
    pub(super) fn drop_table(&mut self, name: &str, also: &[String], cascade: bool) -> Result<()> {
        // Not the table itself: it may be one that damage keeps from being opened.
        let info = named(name, self.txn.catalog().definition(name))?;
        let notes = TableNotes::decode(&info.note);
        if notes.view.is_some() {
            return Err(no_table(name));
        }
        self.lock_to_drop(name)?;
        self.drop_dependents(Needed::Table(name), also, cascade)?;
        self.drop_functions_of_rows(name, "table", cascade)?;
        for child in notes.children.iter().filter(|child| *child != name) {
            let other = self.table(child)?;
            for key in other.notes.keys.iter().filter(|key| key.parent == name) {
                if !cascade && !also.contains(child) {
                    return Err(depends(
                        &format!("table {name}"),
                        &format!(
                            "constraint {} on table {child} depends on table {name}",
                            key.name
                        ),
                    ));
                }
                if cascade && !also.contains(child) {
                    self.notices
                        .push(format!("drop cascades to constraint {} on table {child}", key.name));
                }
                self.drop_key(child, key)?;
            }
        }
        for key in notes.keys.iter().filter(|key| key.parent != name) {
            self.note(&key.parent, |notes| notes.children.retain(|known| known != name))?;
        }
        store::forget(self.txn, info.id)?;
        forget_plain_indexes(self.txn, &info.indexes)?;
        self.txn.drop_table(name)?;
        self.forget_readers(info.id)?;
        let of_column = |column: &rightlink::ColumnSchema| ColumnNotes::decode(&column.note).owned;
        let owned: Vec<String> = info.columns.iter().flat_map(of_column).collect();
        self.drop_owned(&owned, (&format!("table {name}"), also), cascade)
    }
}

fn has_column(table: &Table, name: &str) -> bool {
    table.info.columns.iter().any(|column| column.name == name)
}

/// The error for something that other things need.
pub(super) fn depends(what: &str, why: &str) -> SqlError {
    let message = format!("cannot drop {what} because other objects depend on it");
    SqlError::new(code::DEPENDENT_OBJECTS, message)
        .detail(format!("{why}."))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Fails for a foreign key with an action that would give a generated column another value.
fn refuse_actions(table: &Table, key: &ForeignKey) -> Result<()> {
    let is_generated =
        |one: &GeneratedColumn| key.columns.contains(&table.info.columns[one.at].name);
    if !table.generated.iter().any(is_generated) {
        return Ok(());
    }
    let sets = |action| matches!(action, Action::SetNull | Action::SetDefault);
    let what = match (key.on_update, key.on_delete) {
        (action, _) if sets(action) || action == Action::Cascade => "ON UPDATE",
        (_, action) if sets(action) => "ON DELETE",
        _ => return Ok(()),
    };
    let message =
        format!("invalid {what} action for foreign key constraint containing generated column");
    Err(SqlError::syntax(message))
}

fn check_types(key: &ParentKey, table: &Table) -> Result<()> {
    for (own, theirs, ty) in &key.columns {
        let mine = table.types[*own];
        // A number that is rounded is not what it refers to.
        let whole = [SqlType::Int2, SqlType::Int4, SqlType::Int8];
        let numbers = mine.category() == Category::Number && is_implicit(mine, *ty);
        if mine == *ty
            || numbers
            || whole.contains(&mine) && whole.contains(ty)
            || mine.category() == Category::String && ty.category() == mine.category()
        {
            continue;
        }
        let message = format!("foreign key constraint \"{}\" cannot be implemented", key.key.name);
        let detail = format!(
            "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
            table.info.columns[*own].name,
            key.parent.info.columns[*theirs].name,
            mine.name(),
            ty.name()
        );
        return Err(SqlError::new(code::DATATYPE_MISMATCH, message).detail(detail));
    }
    Ok(())
}

/// The condition as the store understands it: comparisons of columns with constants, all of which
/// must hold.
fn predicate(condition: &Expr, table: &Table) -> Option<Predicate> {
    let parts = match condition {
        Expr::And(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut all = Predicate::new();
    for part in parts {
        all = match part {
            Expr::Call(function, args) => {
                let [Expr::Column(at), Expr::Const(value)] = args.as_slice() else { return None };
                let comparison = comparison(function.name)?;
                if value.type_of() != Some(table.types[*at]) {
                    return None;
                }
                let name = &table.info.columns[*at].name;
                all.compare(name, comparison, value.clone().into_value()?)
            }
            _ => return None,
        };
    }
    Some(all)
}

/// The schema of a check that the store has but nobody noted here.
pub(super) fn unnoted(table: &Table) -> impl Iterator<Item = &CheckSchema> {
    let noted = |name: &str| table.notes.checks.iter().any(|(known, _)| known == name);
    table.info.checks.iter().filter(move |check| !noted(&check.name))
}

impl Definer<'_> {
    /// A column of the table, or the error that it is not there.
    pub(super) fn column_at(&self, table: &Table, column: &str) -> Result<usize> {
        let found = table.shown().iter().position(|known| known.name == column);
        found.ok_or_else(|| no_column(&table.info.name, column))
    }
}
