//! Types that users made, as the store's catalog has them.
//!
//! Invariants: a type of rows has a number of its own, apart from that of its relation.
//! Does not do: rows of `pg_type` (`types`), domains as types of values.

use rightlink::{ColumnSchema, TableInfo};

use super::numbers::{made_oid, relation_oid};
use crate::names::{is_own, is_shown, type_of_entry};
use crate::notes::types::{DomainCheck, TypeNotes};
use crate::notes::{ColumnNotes, MadeTypes, owner_of};
use crate::oids::{array_type_oid, row_type_oid};
use crate::roles::role::OWNER;
use crate::types::{EnumType, SqlType};
use crate::user_types;

/// The kind of a type that was made.
#[derive(Clone, Copy)]
pub(super) enum MadeKind {
    Enum(EnumType),
    /// The type of the rows of a relation with this number, which may be that of a composite type.
    Rows {
        relation: u32,
    },
}

/// A type that was made, besides domains.
pub(super) struct MadeObject {
    pub(super) oid: u32,
    pub(super) array_oid: u32,
    /// As the store calls it.
    pub(super) stored: String,
    pub(super) kind: MadeKind,
    /// The number of its owner.
    pub(super) owner: u32,
    pub(super) comment: Option<String>,
}

/// A composite type, which PostgreSQL has among relations.
pub(super) struct CompositeObject {
    /// As the store calls it.
    pub(super) stored: String,
    pub(super) entry: TableInfo,
}

impl CompositeObject {
    /// The number that it has among relations.
    pub(super) fn oid(&self) -> u32 {
        relation_oid(self.entry.id)
    }
}

/// A domain that was made.
pub(super) struct DomainObject {
    pub(super) oid: u32,
    /// As the store calls it.
    pub(super) stored: String,
    /// Its type, and its default.
    pub(super) column: ColumnSchema,
    pub(super) notes: TypeNotes,
}

impl DomainObject {
    /// Its checks.
    pub(super) fn checks(&self) -> &[DomainCheck] {
        self.notes.domain.as_ref().map_or(&[], |domain| &domain.checks)
    }

    /// The number of a check.
    pub(super) fn check_oid(&self, check: &DomainCheck) -> u32 {
        made_oid(self.oid, &check.name)
    }
}

/// The domain that a table of the store is the entry of.
pub(super) fn domain_object(info: &TableInfo) -> Option<DomainObject> {
    let stored = type_of_entry(&info.name)?;
    let notes = TypeNotes::decode(&info.note);
    let (oid, column) = (relation_oid(info.id), info.columns.first()?.clone());
    notes.domain.is_some().then_some(DomainObject { oid, stored, column, notes })
}

/// The enum or composite type that a table of the store is the entry of, or the type of its rows.
pub(super) fn made_object(info: &TableInfo) -> Option<MadeObject> {
    let array_oid = array_type_oid(info.id);
    if is_shown(&info.name) && !is_own(&info.name) {
        let owner = owner_of(&info.note).unwrap_or(OWNER);
        let (stored, comment) = (info.name.clone(), None);
        let (oid, kind) =
            (row_type_oid(info.id), MadeKind::Rows { relation: relation_oid(info.id) });
        return Some(MadeObject { oid, array_oid, stored, kind, owner, comment });
    }
    let stored = type_of_entry(&info.name)?;
    let TypeNotes { comment, owner, is_composite, .. } = TypeNotes::decode(&info.note);
    let relation = relation_oid(info.id);
    let (oid, kind) = match is_composite {
        true => (row_type_oid(info.id), MadeKind::Rows { relation }),
        false => (relation, MadeKind::Enum(user_types::enum_of_entry(info)?)),
    };
    let owner = owner.unwrap_or(OWNER);
    Some(MadeObject { oid, array_oid, stored, kind, owner, comment })
}

/// Enums, and composite types by their entries. Types that a type is made of come before it.
pub(super) fn made_types(types: &[MadeObject], composites: &[CompositeObject]) -> MadeTypes {
    let mut made = MadeTypes::new();
    for one in types {
        if let MadeKind::Enum(ty) = one.kind {
            made.insert(one.stored.clone(), SqlType::Enum(ty));
        }
    }
    let mut waiting: Vec<&CompositeObject> = composites.iter().collect();
    loop {
        let before = waiting.len();
        waiting.retain(|CompositeObject { stored, entry }| {
            let fields = user_types::fields_of_entry(entry);
            let mut own = fields.iter().filter_map(|one| ColumnNotes::decode(&one.note).made);
            let is_known = own.all(|one| made.contains_key(&one.name));
            if is_known {
                let ty = user_types::composite(entry, stored, fields, &made);
                made.insert(stored.clone(), SqlType::Composite(ty));
            }
            !is_known
        });
        if waiting.len() == before {
            return made;
        }
    }
}
