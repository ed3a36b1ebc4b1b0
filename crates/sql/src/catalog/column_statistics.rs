//! Rows of `pg_stats` and `pg_statistic`: what ANALYZE has found out about columns.
//!
//! Invariants: values of a table are shown to those alone who may read it; `pg_statistic`, which
//! has those of all tables, is for superusers (`bind::from`).
//! Does not do: counting elements of arrays, finding statistics out (`statistics`).

use rightlink::{ColumnSchema, Value};

use super::builtin;
use super::numbers::{oid, short, text};
use super::objects::{Object, Objects};
use super::relations::{base_oid, is_collatable};
use super::rules;
use super::shared::collation_of;
use crate::notes::ColumnNotes;
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::need::Owned;
use crate::statistics::ColumnStatistics;
use crate::types::{Array, Datum, ElementType, Row, SqlType};

/// A column with what is known of it.
struct Known<'k> {
    place: usize,
    schema: &'k ColumnSchema,
    notes: ColumnNotes,
    found: &'k ColumnStatistics,
}

/// The columns of a table about which something is known.
fn known<'k>(
    object: &Object<'k>,
    objects: &'k Objects,
) -> impl Iterator<Item = Known<'k>> + use<'k> {
    let statistics = objects.statistics(object.table);
    let columns = rules::columns(object.table).enumerate();
    columns.filter_map(move |(place, schema)| {
        let found = statistics?.columns.iter().find(|one| one.name == schema.name)?;
        Some(Known { place, schema, notes: ColumnNotes::decode(&schema.note), found })
    })
}

/// Rows of `pg_stats` for the role that is called so.
pub(super) fn shown(objects: &Objects, user: &str) -> Vec<Row> {
    let actor = objects.actor_named(user);
    let may_read = |object: &Object<'_>| {
        let of = Owned { kind: ObjectKind::Table, oid: object.oid, owner: object.owner() };
        objects.allowed(&actor, of).privileges.has_all(Privileges::SELECT)
    };
    let tables = objects.tables().filter(may_read);
    tables
        .flat_map(|object| {
            known(&object, objects).map(move |one| {
                let Known { schema, found, .. } = &one;
                let mut row = vec![text(object.schema()), text(object.name()), text(&schema.name)];
                row.extend([Datum::Bool(false), float(found.nulls)]);
                row.extend([Datum::Int4(found.width.round() as i32), float(found.distinct)]);
                row.extend([one.common(objects), one.shares(), one.bounds(objects)]);
                row.push(found.correlation.map_or(Datum::Null, float));
                // Elements of arrays are not counted.
                row.extend([Datum::Null, Datum::Null, Datum::Null]);
                row
            })
        })
        .collect()
}

/// Rows of `pg_statistic`.
pub(super) fn kept(objects: &Objects) -> Vec<Row> {
    let mut rows = Vec::new();
    for object in objects.tables() {
        rows.extend(known(&object, objects).map(|one| one.row(object.oid, objects)));
    }
    rows
}

/// One of the five kinds of knowledge that a row of `pg_statistic` has room for.
struct Slot {
    kind: i16,
    operator: u32,
    numbers: Datum,
    values: Datum,
}

impl Known<'_> {
    fn row(&self, table: u32, objects: &Objects) -> Row {
        let found = self.found;
        let mut row = vec![oid(table), short(self.place + 1), Datum::Bool(false)];
        row.extend([float(found.nulls), Datum::Int4(found.width.round() as i32)]);
        row.push(float(found.distinct));
        let slots = self.slots(objects);
        let rest = 5 - slots.len();
        let none = || std::iter::repeat_n(Datum::Null, rest);
        row.extend(slots.iter().map(|slot| Datum::Int2(slot.kind)));
        row.extend(std::iter::repeat_n(Datum::Int2(0), rest));
        row.extend(slots.iter().map(|slot| oid(slot.operator)));
        row.extend(std::iter::repeat_n(oid(0), rest));
        let has_collation = is_collatable(base_oid(self.schema, &self.notes, objects));
        let collation = match has_collation {
            true => collation_of(self.schema, &self.notes, objects),
            false => 0,
        };
        row.extend(slots.iter().map(|_| oid(collation)));
        row.extend(std::iter::repeat_n(oid(0), rest));
        row.extend(slots.iter().map(|slot| slot.numbers.clone()).chain(none()));
        row.extend(slots.iter().map(|slot| slot.values.clone()).chain(none()));
        row
    }

    /// Common values, bounds and correlation, as far as they are known.
    fn slots(&self, objects: &Objects) -> Vec<Slot> {
        let ty = base_oid(self.schema, &self.notes, objects);
        let operator = |name: &str| {
            let mut all = builtin::operators_named(name).iter();
            all.find(|one| one.operands == [ty, ty]).map_or(0, |one| one.oid)
        };
        let mut slots = Vec::new();
        if !self.found.common.is_empty() {
            let (numbers, values) = (self.shares(), self.common(objects));
            slots.push(Slot { kind: 1, operator: operator("="), numbers, values });
        }
        if !self.found.bounds.is_empty() {
            let values = self.bounds(objects);
            slots.push(Slot { kind: 2, operator: operator("<"), numbers: Datum::Null, values });
        }
        if let Some(correlation) = self.found.correlation {
            let numbers = floats(&[correlation]);
            slots.push(Slot { kind: 3, operator: operator("<"), numbers, values: Datum::Null });
        }
        slots
    }

    fn common(&self, objects: &Objects) -> Datum {
        self.list(self.found.common.iter().map(|(value, _)| value), objects)
    }

    fn bounds(&self, objects: &Objects) -> Datum {
        self.list(self.found.bounds.iter(), objects)
    }

    fn shares(&self) -> Datum {
        let shares: Vec<f64> = self.found.common.iter().map(|(_, share)| *share).collect();
        floats(&shares)
    }

    /// Values as PostgreSQL writes an array, null for none.
    fn list<'v>(&self, values: impl Iterator<Item = &'v Datum>, objects: &Objects) -> Datum {
        let ty = self.notes.type_of(self.schema.kind, &objects.made);
        // Of some types what the store keeps for a value is known.
        let shown = |value: &Datum| match value {
            Datum::Bytes(kept) => Datum::stored(Value::Bytes(kept.clone()), ty),
            other => Ok(other.clone()),
        };
        let values: Vec<Datum> =
            values.map(|value| shown(value).unwrap_or_else(|_| value.clone())).collect();
        if values.is_empty() { Datum::Null } else { list_text(&values) }
    }
}

fn float(number: f64) -> Datum {
    Datum::Float4(number as f32)
}

/// Numbers as an array, null for none.
fn floats(numbers: &[f64]) -> Datum {
    let element = ElementType::of(SqlType::Float4).expect("it is an element");
    let array = Array::of(element, numbers.iter().map(|number| float(*number)).collect());
    array.ok().filter(|_| !numbers.is_empty()).map_or(Datum::Null, Datum::from)
}

/// Values as PostgreSQL writes an array.
fn list_text(values: &[Datum]) -> Datum {
    let element = |value: &Datum| {
        let text = value.to_text().unwrap_or_default();
        let plain = |c: char| !c.is_whitespace() && !"{},\"\\".contains(c);
        if !text.is_empty() && !text.eq_ignore_ascii_case("null") && text.chars().all(plain) {
            return text;
        }
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    text(format!("{{{}}}", values.iter().map(element).collect::<Vec<_>>().join(",")))
}
