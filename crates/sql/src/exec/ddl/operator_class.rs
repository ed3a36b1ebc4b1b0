//! Operator classes that keys of indexes are given.
//!
//! Text is in the order of its bytes here unless it has a collation, and the classes `_pattern_ops`
//! ask for just that order: a key of such a class is one by bytes. Every other class that accepts a
//! type has the one order of that type. So a class decides nothing of how keys are stored, but for
//! the collation; its name is kept for definitions.
//!
//! Invariants: notes name classes that are not those of their columns' types, and no others.
//! Does not do: classes that users make.

use rightlink::{Collation, IndexMethod, IndexSchema, KeyCollation};

use super::Definer;
use crate::bind::ddl::IndexPart;
use crate::bind::rules::place_in;
use crate::catalog::{OperatorClass, class_named, is_class_by_bytes, is_class_of};
use crate::error::{Result, SqlError, code};
use crate::notes::{IndexClasses, column_type};
use crate::plan::Table;
use crate::types::declared::Declared;

impl Definer<'_> {
    /// Fails if a key of an index to make is given a class that is none for it; lets keys of
    /// classes by bytes be so.
    pub(super) fn take_classes(
        &mut self,
        table: &str,
        index: &mut IndexSchema,
        parts: &[IndexPart],
    ) -> Result<()> {
        if parts.iter().all(|part| part.class.is_none()) {
            return Ok(());
        }
        let table = self.table(table)?;
        for (key, part) in index.columns.iter_mut().zip(parts) {
            let Some(name) = &part.class else { continue };
            let at = place_in(&table, &key.name)?;
            class_for(index.method, name, &table, at)?;
            if is_class_by_bytes(name) {
                let column = &table.info.columns[at];
                let collation = match &key.collation {
                    KeyCollation::OfColumn => column.collation.as_ref(),
                    own => own.given(),
                };
                refuse_folding(collation, name)?;
                key.collation = KeyCollation::Bytes;
            }
        }
        Ok(())
    }

    /// Keeps the classes that an index was made with.
    pub(super) fn note_classes(
        &mut self,
        table: &str,
        index: &str,
        parts: &[IndexPart],
    ) -> Result<()> {
        if parts.iter().all(|part| part.class.is_none()) {
            return Ok(());
        }
        let known = self.table(table)?;
        let Some(made) = known.info.indexes.iter().find(|known| known.name == index) else {
            return Ok(());
        };
        let mut names = Vec::with_capacity(parts.len());
        for (key, part) in made.columns.iter().zip(parts) {
            let at = place_in(&known, &key.name)?;
            names.push(match &part.class {
                Some(name) if !class_for(made.method, name, &known, at)?.is_default => name.clone(),
                _ => String::new(),
            });
        }
        if names.iter().all(String::is_empty) {
            return Ok(());
        }
        let index = made.id;
        self.note(table, |notes| notes.classes.push(IndexClasses { index, names }))
    }
}

/// The class for a key that is the column at `at`.
fn class_for(method: IndexMethod, name: &str, table: &Table, at: usize) -> Result<OperatorClass> {
    let class = class_named(method, name).ok_or_else(|| {
        let method = if method == IndexMethod::Hash { "hash" } else { "btree" };
        let message =
            format!("operator class \"{name}\" does not exist for access method \"{method}\"");
        SqlError::new(code::UNDEFINED_OBJECT, message)
    })?;
    match is_class_of(&class, table.types[at]) {
        true => Ok(class),
        false => Err(unfit(name, &column_type(&table.info.columns[at]))),
    }
}

/// The error for a key whose type is none of its class.
fn unfit(class: &str, ty: &str) -> SqlError {
    let message = format!("operator class \"{class}\" does not accept data type {ty}");
    SqlError::new(code::DATATYPE_MISMATCH, message)
}

/// Fails if values that are equal under the collation may differ in their bytes.
fn refuse_folding(collation: Option<&Collation>, class: &str) -> Result<()> {
    match collation.is_none_or(Collation::is_deterministic) {
        true => Ok(()),
        false => Err(SqlError::new(
            code::FEATURE_NOT_SUPPORTED,
            format!("nondeterministic collations are not supported for operator class \"{class}\""),
        )),
    }
}

/// Fails if the column at `at` is in a key whose class is none of the type that it gets.
pub(super) fn refuse_type(table: &Table, at: usize, to: Declared) -> Result<()> {
    let name = &table.info.columns[at].name;
    for index in &table.info.indexes {
        for (place, _) in index.columns.iter().enumerate().filter(|(_, key)| key.name == *name) {
            let Some(class) = table.notes.class(index.id, place) else { continue };
            let known = class_named(index.method, class);
            if !known.is_some_and(|known| is_class_of(&known, to.ty)) {
                return Err(unfit(class, to.ty.name()));
            }
        }
    }
    Ok(())
}
