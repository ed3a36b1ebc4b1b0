//! The privileges that a statement needs, as its names are bound.
//!
//! Invariants: the owner of a view needs what its query names, whoever runs a statement what the
//! statement itself names.
//! Does not do: checking (`roles::rights`); privileges on columns.

use std::collections::BTreeSet;

use super::Binder;
use super::updatable::{Action, ChangedRelation};
use crate::error::{Result, SqlError, code};
use crate::expr::sequences::Ask;
use crate::expr::{ColumnId, Expr, columns_of};
use crate::names::{TEMPORARY, bare, is_temporary_schema};
use crate::oids::relation_oid;
use crate::plan::Table;
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::need::{Need, Object, Owned};
use crate::roles::role::OWNER;

impl Action {
    /// What it takes.
    fn privilege(self) -> Privileges {
        match self {
            Action::Insert => Privileges::INSERT,
            Action::Update => Privileges::UPDATE,
            Action::Delete => Privileges::DELETE,
        }
    }
}

impl Binder<'_> {
    /// Privileges on a table or view are needed.
    pub(crate) fn need(&mut self, table: &Table, privileges: Privileges) {
        let role = self.needed_by;
        self.need_as(table, privileges, role);
    }

    fn need_as(&mut self, table: &Table, privileges: Privileges, role: Option<u32>) {
        let (kind, oid) = (ObjectKind::Table, relation_oid(table.info.id));
        let owner = table.notes.owner.unwrap_or(OWNER);
        let noun = table.notes.noun();
        let name = table.bare_name().to_owned();
        let of = Object::Known(Owned { kind, oid, owner });
        self.needs.add(Need { of, noun, name, privileges, any: false, role });
    }

    /// A catalog is read that not everybody may read.
    pub(super) fn need_catalog(&mut self, oid: u32, name: &str) {
        let of = Object::Known(Owned { kind: ObjectKind::Table, oid, owner: OWNER });
        let (name, privileges, role) = (name.to_owned(), Privileges::SELECT, self.needed_by);
        self.needs.add(Need { of, noun: "table", name, privileges, any: false, role });
    }

    /// A name with this schema in front is looked for.
    pub(super) fn need_schema(&mut self, schema: &str) {
        if schema == TEMPORARY || is_temporary_schema(schema) {
            return;
        }
        let of = Object::Schema(schema.to_owned());
        let (privileges, role) = (Privileges::USAGE, self.needed_by);
        let name = schema.to_owned();
        self.needs.add(Need { of, noun: "schema", name, privileges, any: false, role });
    }

    /// A sequence is asked for a number.
    pub(super) fn need_sequence(&mut self, stored: &str, ask: Ask) {
        self.need_of_sequence(stored, ask.privileges());
    }

    /// One of these privileges on a sequence is needed.
    pub(super) fn need_of_sequence(&mut self, stored: &str, privileges: Privileges) {
        let (stored, owner) = (stored.to_owned(), self.owner_of_default);
        let (noun, name) = ("sequence", bare(&stored).to_owned());
        let role = self.needed_by;
        let of = Object::Sequence { stored, owner };
        self.needs.add(Need { of, noun, name, privileges, any: true, role });
    }

    /// Rows of the relation are changed.
    pub(super) fn need_to_change(&mut self, table: &Table, action: Action) {
        self.need(table, action.privilege());
    }

    /// Rows of the relation that is changed are read, if one of `exprs` names a column of it.
    pub(super) fn need_to_read(&mut self, changed: &ChangedRelation, exprs: &[&Expr]) {
        let mut named = BTreeSet::new();
        exprs.iter().for_each(|expr| columns_of(expr, &mut named));
        let own: std::ops::RangeInclusive<ColumnId> = 0..=changed.table.types.len();
        if named.iter().any(|id| own.contains(id)) {
            self.need_all(changed, Privileges::SELECT);
        }
    }

    /// Privileges are needed on the relation that is changed, as the statement calls it, and by the
    /// owners of views on what these show.
    pub(super) fn need_all(&mut self, changed: &ChangedRelation, privileges: Privileges) {
        let mut below = &changed.table;
        for view in changed.views() {
            let owner = view.notes.owner.unwrap_or(OWNER);
            self.need_as(below, privileges, Some(owner));
            below = view;
        }
        self.need(below, privileges);
    }

    /// Rows of a table are locked, by whoever reads it; also those of views that show it.
    pub(super) fn need_to_lock(&mut self, table: &Table) -> Result<()> {
        if table.notes.stored_rows().is_some() {
            let name = table.bare_name();
            let message = format!("cannot lock rows in materialized view \"{name}\"");
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        let role = self.needs.role_of(relation_oid(table.info.id)).unwrap_or(self.needed_by);
        self.need_as(table, Privileges::UPDATE, role);
        if role != self.needed_by {
            self.needs.update_views();
        }
        Ok(())
    }
}
