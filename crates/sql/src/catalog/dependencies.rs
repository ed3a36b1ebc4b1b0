//! Rows of `pg_depend`: sequences and defaults on their columns, indexes on their constraints or
//! columns, constraints on columns, views on what they read, functions on types, types on relations
//! and elements, and everything on its schema.
//!
//! Invariants: kinds and columns are those that PostgreSQL 15 tells; dependencies that it takes for
//! granted, such as those on types of the system, are not told.
//! Does not do: dropping what depends.

use rightlink::{IndexInfo, TableInfo};

use super::functions::kept_call;
use super::numbers::{
    PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_PROC, PG_REWRITE, PG_TYPE, char, oid,
    relation_oid,
};
use super::objects::{Object, Objects};
use super::relations::{default_oid, default_text, rewrite_oid, type_oid};
use super::rules::{self, Key, Rule, place};
use super::type_objects::MadeKind;
use crate::error::Result;
use crate::notes::{ColumnNotes, TableNotes};
use crate::oids::key_oid;
use crate::parse;
use crate::schemas;
use crate::types::{Datum, Row, SqlType};

/// An object as the number of its catalog and its own.
type Address = [u32; 2];

/// Rows that are being made.
#[derive(Default)]
struct Dependencies(Vec<Row>);

impl Dependencies {
    /// `from` depends on `to`, or on the column of it at `part`, from 1.
    fn add(&mut self, from: Address, to: Address, part: usize, kind: char) {
        let part = Datum::Int4(i32::try_from(part).unwrap_or(0));
        let mut row = from.map(oid).to_vec();
        row.push(Datum::Int4(0));
        row.extend(to.map(oid));
        row.extend([part, char(kind)]);
        self.0.push(row);
    }

    /// An object is in the schema of its name.
    fn in_schema(&mut self, of: Address, stored: &str, objects: &Objects) {
        self.add(of, [PG_NAMESPACE, objects.schema_oid(stored)], 0, 'n');
    }

    /// Types that users made.
    fn types(&mut self, objects: &Objects) {
        for one in objects.types() {
            self.add([PG_TYPE, one.array_oid], [PG_TYPE, one.oid], 0, 'i');
            match one.kind {
                MadeKind::Rows { relation } if objects.of_oid(relation).is_some() => {
                    self.add([PG_TYPE, one.oid], [PG_CLASS, relation], 0, 'i');
                }
                MadeKind::Rows { relation } => {
                    self.add([PG_CLASS, relation], [PG_TYPE, one.oid], 0, 'i');
                    self.in_schema([PG_TYPE, one.oid], &one.stored, objects);
                }
                MadeKind::Enum(_) => self.in_schema([PG_TYPE, one.oid], &one.stored, objects),
            }
        }
        for one in objects.domains() {
            self.in_schema([PG_TYPE, one.oid], &one.stored, objects);
            for check in one.checks() {
                self.add([PG_CONSTRAINT, one.check_oid(check)], [PG_TYPE, one.oid], 0, 'a');
            }
        }
    }

    /// An index that stands for no constraint goes with its columns.
    fn index(&mut self, table: &TableInfo, index: &IndexInfo, objects: &Objects) -> Result<()> {
        let own = [PG_CLASS, relation_oid(index.id)];
        let relation = [PG_CLASS, relation_oid(table.id)];
        let keys = index.columns.iter().map(|key| &key.name).chain(&index.included);
        let plain: Vec<usize> = keys.filter_map(|name| place(table, name)).collect();
        let mut computed = Vec::new();
        for key in &index.columns {
            if let Some(text) = rules::expression(table, &key.name) {
                computed.extend(rules::named_columns(table, &text));
                self.called_functions(own, &text, objects)?;
            }
        }
        computed.sort_unstable();
        computed.dedup();
        // One that has expressions alone goes with the whole table.
        if plain.is_empty() {
            self.add(own, relation, 0, 'a');
        }
        let mut tested: Vec<usize> = Vec::new();
        for term in index.predicate.iter().flat_map(|predicate| &predicate.terms) {
            tested.extend(place(table, &term.column).filter(|part| !tested.contains(part)));
        }
        for part in plain.into_iter().chain(computed).chain(tested) {
            self.add(own, relation, part, 'a');
        }
        Ok(())
    }

    /// The rule of a view reads relations, of each the columns that it uses, or the whole of one of
    /// which it uses none.
    fn view(&mut self, object: &Object<'_>, objects: &Objects) {
        let Some(notes) = TableNotes::decode(&object.table.note).view else { return };
        let own = [PG_REWRITE, rewrite_oid(object.oid)];
        self.add(own, [PG_CLASS, object.oid], 0, 'i');
        self.add(own, [PG_CLASS, object.oid], 0, 'n');
        for source in &notes.sources {
            if let Some(one) = objects.functions().iter().find(|one| one.entry == source.name) {
                self.add(own, [PG_PROC, one.oid], 0, 'n');
            }
            let Some(read) = objects.relation_named(&source.name) else { continue };
            let table = objects.table(&source.name).map(|object| object.table);
            let used = source.columns.iter().filter(|column| column.is_used);
            let mut parts: Vec<usize> =
                used.filter_map(|column| place(table?, &column.name)).collect();
            if parts.is_empty() {
                parts.push(0);
            }
            for part in parts {
                self.add(own, [PG_CLASS, read], part, 'n');
            }
        }
    }

    /// Sequences, in their schemas and with the columns that they belong to.
    fn sequences(&mut self, objects: &Objects) {
        for one in objects.sequences() {
            self.in_schema([PG_CLASS, one.oid], &one.schema.name, objects);
            if let Some(owner) = one.owner {
                let kind = if owner.identity { 'i' } else { 'a' };
                self.add([PG_CLASS, one.oid], [PG_CLASS, owner.table], owner.column, kind);
            }
        }
    }

    /// A table or view: its schema, its defaults and its columns' types; the query of a view.
    fn table(&mut self, object: &Object<'_>, objects: &Objects) -> Result<()> {
        let relation = [PG_CLASS, object.oid];
        self.in_schema(relation, &object.table.name, objects);
        for (at, column) in object.table.columns.iter().enumerate() {
            let notes = ColumnNotes::decode(&column.note);
            if let Some(shown) = default_text(column, &notes) {
                let own = [PG_ATTRDEF, default_oid(object.oid, at + 1)];
                self.add(own, relation, at + 1, 'a');
                self.asked_sequences(own, &shown, objects)?;
                self.called_functions(own, &shown, objects)?;
            }
            if let Some(text) = &notes.generated {
                let own = [PG_ATTRDEF, default_oid(object.oid, at + 1)];
                self.called_functions(own, text, objects)?;
            }
            if notes.made.is_some() || notes.domain.is_some() {
                let ty = type_oid(column, &notes, objects);
                self.add(relation, [PG_TYPE, ty], at + 1, 'n');
            }
        }
        for one in objects.generated(object) {
            let own = [PG_ATTRDEF, default_oid(object.oid, one.place)];
            self.add(own, relation, one.place, 'i');
            one.from.into_iter().for_each(|part| self.add(own, relation, part, 'n'));
        }
        self.view(object, objects);
        Ok(())
    }

    /// The sequences that the text of a default asks.
    fn asked_sequences(&mut self, own: Address, text: &str, objects: &Objects) -> Result<()> {
        parse::with_sequences(text, |name| {
            let stored = schemas::find_kept(&schemas::parts_of(name)?)?.name;
            if let Some(asked) = objects.relation_named(&stored) {
                self.add(own, [PG_CLASS, asked], 0, 'n');
            }
            Ok(None)
        })?;
        Ok(())
    }

    /// The functions of users that a text calls.
    fn called_functions(&mut self, own: Address, text: &str, objects: &Objects) -> Result<()> {
        for (_, parts) in parse::types::called_names(text)? {
            let Some(stored) = kept_call(&parts) else { continue };
            if let Some(one) = objects.functions().iter().find(|one| one.stored == stored) {
                self.add(own, [PG_PROC, one.oid], 0, 'n');
            }
        }
        Ok(())
    }

    /// Functions, in their schemas and with types that users made.
    fn functions(&mut self, objects: &Objects) {
        for function in objects.functions() {
            let own = [PG_PROC, function.oid];
            self.in_schema(own, &function.stored, objects);
            for ty in function.parts().iter().map(|part| part.ty) {
                let element = ty.element().unwrap_or(ty);
                if matches!(element, SqlType::Enum(_) | SqlType::Composite(_)) {
                    self.add(own, [PG_TYPE, ty.oid()], 0, 'n');
                }
            }
        }
    }

    /// Primary keys and unique constraints, with their indexes.
    fn keys(&mut self, objects: &Objects) {
        for Key { table, index } in objects.keys() {
            let own = [PG_CONSTRAINT, key_oid(index.id)];
            self.add([PG_CLASS, relation_oid(index.id)], own, 0, 'i');
            for part in index.columns.iter().filter_map(|key| place(table, &key.name)) {
                self.add(own, [PG_CLASS, relation_oid(table.id)], part, 'a');
            }
        }
    }

    /// Checks and foreign keys.
    fn constraints(&mut self, objects: &Objects) -> Result<()> {
        for one in objects.constraints() {
            let own = [PG_CONSTRAINT, one.oid];
            for part in &one.columns {
                self.add(own, [PG_CLASS, one.table], *part, 'a');
                // The condition of a check reads them, too.
                if matches!(one.rule, Rule::Check(_)) {
                    self.add(own, [PG_CLASS, one.table], *part, 'n');
                }
            }
            if let Rule::Check(condition) = &one.rule {
                self.called_functions(own, condition, objects)?;
            }
            if let Rule::Reference(reference) = &one.rule {
                self.add(own, [PG_CLASS, reference.index], 0, 'n');
                for part in &reference.columns {
                    self.add(own, [PG_CLASS, reference.parent], *part, 'n');
                }
            }
        }
        Ok(())
    }
}

/// Rows of `pg_depend`.
pub(super) fn rows(objects: &Objects) -> Result<Vec<Row>> {
    let mut all = Dependencies::default();
    all.types(objects);
    all.sequences(objects);
    objects.tables().try_for_each(|object| all.table(&object, objects))?;
    for object in objects.all() {
        if let Some(index) = object.index.filter(|index| !objects.is_key(object.table, index)) {
            all.index(object.table, index, objects)?;
        }
    }
    all.functions(objects);
    all.keys(objects);
    all.constraints(objects)?;
    Ok(all.0)
}
