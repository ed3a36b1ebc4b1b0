//! Owners: OWNER TO, REASSIGN OWNED and DROP OWNED.
//!
//! Invariants: who gives an object away owns it and is a member of the role that gets it, which may
//! create in its schema; privileges of the old owner become those of the new one.
//! Does not do: granting and revoking (`grants`).

use std::sync::Arc;

use rightlink::{AlterTable, SequenceChange, SequenceDefinition, SequencePosition, SequenceSchema};

use super::grants::names_of_objects;
use super::{Session, Sink};
use crate::bind::ddl::{self, Called, Definition, FunctionDefinition, Kind};
use crate::catalog::DATABASE;
use crate::error::{Result, SqlError, code};
use crate::names::{
    MATERIALIZED_VIEW, VIEW, bare, function_of_entry, mark, marked, schema_of, type_entry,
    type_of_entry,
};
use crate::notes::functions::FunctionNotes;
use crate::notes::types::TypeNotes;
use crate::notes::{SequenceNotes, TableNotes, is_materialized_view, is_view, owner_of};
use crate::oids::{PUBLIC_OID, relation_oid};
use crate::parse::functions::Signature;
use crate::parse::roles::{OwnedKind, RoleName};
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::actor::Actor;
use crate::roles::need::Owned;
use crate::roles::rights::{self, denied, denied_to, must, not_owner};
use crate::roles::role::{OWNER, Role, Roles};
use crate::schemas::{self, no_schema, no_table};
use crate::user_types::no_type;

/// An object that belongs to a role.
enum Belonging {
    Table(String),
    View(String),
    MaterializedView(String),
    Sequence(String),
    Schema(String),
    Type(String),
    Function(String),
}

impl Belonging {
    fn shown(&self) -> String {
        match self {
            Belonging::Table(name) => format!("table {}", bare(name)),
            Belonging::View(name) => format!("view {}", bare(name)),
            Belonging::MaterializedView(name) => format!("materialized view {}", bare(name)),
            Belonging::Sequence(name) => format!("sequence {}", bare(name)),
            Belonging::Schema(name) => format!("schema {name}"),
            Belonging::Type(name) => format!("type {}", bare(name)),
            Belonging::Function(entry) => {
                let name = function_of_entry(entry).unwrap_or_default();
                format!("function {}", bare(&name))
            }
        }
    }
}

impl Session {
    /// ALTER FUNCTION .. OWNER TO
    pub(super) fn own_function(&mut self, function: &Signature, role: &RoleName) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let to = self.role(role, &roles)?;
        let path = self.settings.path();
        let txn = &mut self.ensure()?.txn;
        let belonging = match ddl::called(function, &mut schemas::Resolver::new(txn, &path))? {
            Called::Entry(entry) => Belonging::Function(entry),
            Called::Missing(error) => return Err(error),
        };
        self.check_gives(&actor, &belonging, &to, &roles)?;
        self.give(&belonging, to.oid)
    }

    /// ALTER .. OWNER TO
    pub(super) fn own(
        &mut self,
        kind: OwnedKind,
        name: &[String],
        if_exists: bool,
        role: &RoleName,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let to = self.role(role, &roles)?;
        let (tag, belonging) = match kind {
            OwnedKind::Table => ("ALTER TABLE", None),
            OwnedKind::View => ("ALTER VIEW", None),
            OwnedKind::MaterializedView => ("ALTER MATERIALIZED VIEW", None),
            OwnedKind::Sequence => ("ALTER SEQUENCE", None),
            OwnedKind::Schema => {
                let [name] = name else { return Err(SqlError::syntax("improper schema name")) };
                ("ALTER SCHEMA", Some(Belonging::Schema(name.clone())))
            }
            OwnedKind::Database => {
                return Err(SqlError::unsupported("another owner of the database"));
            }
            OwnedKind::Type | OwnedKind::Domain => {
                let path = self.settings.path();
                let txn = &mut self.ensure()?.txn;
                let stored = schemas::Resolver::new(txn, &path).existing_type(name)?;
                let tag = if kind == OwnedKind::Type { "ALTER TYPE" } else { "ALTER DOMAIN" };
                (tag, Some(Belonging::Type(stored)))
            }
        };
        let belonging = match belonging {
            Some(known) => known,
            None => match self.relation_to_own(kind, name, if_exists, sink)? {
                Some(known) => known,
                None => return Ok(tag.to_owned()),
            },
        };
        self.check_gives(&actor, &belonging, &to, &roles)?;
        self.give(&belonging, to.oid)?;
        Ok(tag.to_owned())
    }

    fn relation_to_own(
        &mut self,
        kind: OwnedKind,
        name: &[String],
        if_exists: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<Belonging>> {
        let path = self.settings.path();
        let stored = match if_exists {
            true => schemas::find(&mut self.ensure()?.txn, &path, name)?.name,
            false => self.relation(name)?,
        };
        let Some(found) = self.owned(&stored)? else {
            if self.ensure()?.txn.catalog().table_of_index(&stored).is_ok() {
                let message = format!("cannot change owner of index \"{}\"", bare(&stored));
                self.tell(sink, "WARNING", &message);
                return Ok(None);
            }
            if !if_exists {
                return Err(no_table(&stored));
            }
            let name = bare(&crate::names::said(&stored)).to_owned();
            self.tell(sink, "NOTICE", &format!("relation \"{name}\" does not exist, skipping"));
            return Ok(None);
        };
        let wanted = match kind {
            OwnedKind::View => Some(VIEW),
            OwnedKind::MaterializedView => Some(MATERIALIZED_VIEW),
            OwnedKind::Sequence => Some("sequence"),
            _ => None,
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found.noun) {
            let message = format!("\"{}\" is not a {wanted}", bare(&stored));
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        Ok(Some(match found.noun {
            VIEW => Belonging::View(stored),
            MATERIALIZED_VIEW => Belonging::MaterializedView(stored),
            "sequence" => Belonging::Sequence(stored),
            _ => Belonging::Table(stored),
        }))
    }

    /// Fails unless an actor may give an object to a role.
    fn check_gives(
        &mut self,
        actor: &Actor,
        object: &Belonging,
        to: &Role,
        roles: &Roles,
    ) -> Result<()> {
        let owner = self.owner_of(object)?;
        if actor.is_superuser {
            return Ok(());
        }
        let function;
        let (noun, name, schema) = match object {
            Belonging::Table(name) => ("table", bare(name), Some(schema_of(name))),
            Belonging::View(name) => (VIEW, bare(name), Some(schema_of(name))),
            Belonging::MaterializedView(name) => {
                (MATERIALIZED_VIEW, bare(name), Some(schema_of(name)))
            }
            Belonging::Sequence(name) => ("sequence", bare(name), Some(schema_of(name))),
            Belonging::Schema(name) => ("schema", name.as_str(), None),
            Belonging::Type(name) => ("type", bare(name), Some(schema_of(name))),
            Belonging::Function(entry) => {
                function = function_of_entry(entry).unwrap_or_default();
                ("function", bare(&function), Some(schema_of(&function)))
            }
        };
        // Whoever owns a schema, type or function already may be said to by anybody: dumps count on
        // it.
        let is_relation =
            matches!(object, Belonging::Table(_) | Belonging::View(_) | Belonging::Sequence(_));
        if !actor.has_privileges_of(owner) && (is_relation || owner != to.oid) {
            return Err(not_owner(noun, name));
        }
        if owner == to.oid {
            return Ok(());
        }
        if !actor.is_member_of(to.oid) {
            return Err(must(&format!("be member of role \"{}\"", to.name)));
        }
        // The new owner could have made it.
        let other = Actor::of(to, roles);
        let txn = &mut self.ensure()?.txn;
        let (of, name) = match schema {
            Some(schema) => (rights::schema(txn, schema)?, schema.to_owned()),
            None => {
                let kind = ObjectKind::Database;
                let of = Owned { kind, oid: DATABASE, owner: OWNER };
                (Some(of), self.database.to_string())
            }
        };
        let Some(of) = of else { return Ok(()) };
        let txn = &mut self.ensure()?.txn;
        match rights::allowed(txn, &other, of)?.has_all(Privileges::CREATE) {
            true => Ok(()),
            false => Err(denied(of.kind.noun(), &name)),
        }
    }

    fn owner_of(&mut self, object: &Belonging) -> Result<u32> {
        let txn = &mut self.ensure()?.txn;
        let note = match object {
            Belonging::Table(name) | Belonging::View(name) | Belonging::MaterializedView(name) => {
                txn.catalog().definition(name)?.note.clone()
            }
            Belonging::Sequence(name) => txn.numbers(name)?.schema().note.clone(),
            Belonging::Schema(name) => {
                let found = rights::schema(txn, name)?;
                return Ok(found.ok_or_else(|| no_schema(name))?.owner);
            }
            Belonging::Type(name) => {
                let found = txn.catalog().definition(&type_entry(name));
                found.map_err(|_| no_type(name))?.note.clone()
            }
            Belonging::Function(entry) => txn.catalog().definition(entry)?.note.clone(),
        };
        Ok(owner_of(&note).unwrap_or(OWNER))
    }

    /// Gives an object to a role, and what it had and gave with it.
    fn give(&mut self, object: &Belonging, to: u32) -> Result<()> {
        let before = self.owner_of(object)?;
        if before == to {
            return Ok(());
        }
        let owner = Some(to).filter(|to| *to != OWNER);
        let txn = &mut self.ensure()?.txn;
        let note_table = |txn: &mut rightlink::Transaction, table: &str| -> Result<u32> {
            let info = txn.catalog().describe(table)?;
            let notes = TableNotes { owner, ..TableNotes::decode(&info.note) };
            txn.alter_table(table, AlterTable::Note(&notes.encode()))?;
            Ok(relation_oid(info.id))
        };
        let mut oids = Vec::new();
        match object {
            Belonging::Table(name) | Belonging::View(name) | Belonging::MaterializedView(name) => {
                oids.push(note_table(txn, name)?);
                let info = txn.catalog().describe(name)?;
                let own = info.columns.iter().filter_map(|column| column.identity.as_ref());
                let mut sequences: Vec<String> = own.map(|one| one.sequence.clone()).collect();
                let notes = info.columns.iter();
                sequences.extend(
                    notes.flat_map(|column| crate::notes::ColumnNotes::decode(&column.note).owned),
                );
                for sequence in sequences {
                    oids.push(note_sequence(txn, &sequence, owner)?);
                }
            }
            Belonging::Sequence(name) => oids.push(note_sequence(txn, name, owner)?),
            Belonging::Schema(name) => {
                if rights::schema(txn, name)?.is_some_and(|one| one.oid == PUBLIC_OID) {
                    return Err(SqlError::unsupported("another owner of the schema \"public\""));
                }
                oids.push(note_table(txn, &mark(name))?);
            }
            Belonging::Type(name) => {
                let entry = type_entry(name);
                let info = txn.catalog().describe(&entry)?;
                let notes = TypeNotes { owner, ..TypeNotes::decode(&info.note) };
                txn.alter_table(&entry, AlterTable::Note(&notes.encode()))?;
            }
            Belonging::Function(entry) => {
                let info = txn.catalog().describe(entry)?;
                let notes = FunctionNotes { owner, ..FunctionNotes::decode(&info.note) };
                txn.alter_table(entry, AlterTable::Note(&notes.encode()))?;
            }
        }
        for oid in oids {
            if let Some(mut acl) = rights::kept(txn, oid)? {
                acl.change_owner(before, to);
                rights::keep(txn, oid, Some(&acl))?;
            }
        }
        Ok(())
    }

    /// All that belongs to a role.
    fn belongings(&mut self, role: u32) -> Result<Vec<Belonging>> {
        let txn = &mut self.ensure()?.txn;
        let mut all = Vec::new();
        for info in txn.catalog().tables()? {
            if owner_of(&info.note) != Some(role) {
                continue;
            }
            if function_of_entry(&info.name).is_some() {
                all.push(Belonging::Function(info.name.clone()));
                continue;
            }
            all.push(match (marked(&info.name), type_of_entry(&info.name)) {
                (Some(schema), _) => Belonging::Schema(schema.to_owned()),
                (None, Some(name)) => Belonging::Type(name),
                (None, None) if is_view(&info.note) => Belonging::View(info.name.clone()),
                (None, None) if is_materialized_view(&info.note) => {
                    Belonging::MaterializedView(info.name.clone())
                }
                (None, None) => Belonging::Table(info.name.clone()),
            });
        }
        for one in txn.catalog().sequences()? {
            if one.owner.is_none() && owner_of(&one.schema.note) == Some(role) {
                all.push(Belonging::Sequence(one.schema.name));
            }
        }
        Ok(all)
    }

    /// What keeps a role from being dropped, as messages say it.
    pub(super) fn uses_of_role(&mut self, role: u32) -> Result<Vec<String>> {
        let own = self.belongings(role)?;
        let mut all: Vec<String> =
            own.iter().map(|object| format!("owner of {}", object.shown())).collect();
        let database = Arc::clone(&self.database);
        let txn = &mut self.ensure()?.txn;
        let names = names_of_objects(txn, &database)?;
        for (oid, acl) in rights::all_kept(txn)? {
            let name = names.iter().find(|(known, _)| *known == oid).map(|(_, name)| name);
            if let Some(name) = name.filter(|_| acl.names(role)) {
                let line = format!("privileges for {name}");
                // What it owns is said already.
                if !all.contains(&format!("owner of {name}")) {
                    all.push(line);
                }
            }
        }
        for default in rights::all_defaults(txn)? {
            if default.of.role == role || default.acl.names(role) {
                all.push(format!("default privileges on new {}s", default.of.kind.noun()));
            }
        }
        Ok(all)
    }

    pub(super) fn reassign(&mut self, from: &[RoleName], to: &RoleName) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        let to = self.role(to, &roles)?;
        let mut all = Vec::new();
        for name in from {
            let role = self.role(name, &roles)?;
            if !actor.is_member_of(role.oid) {
                return Err(denied_to("reassign objects"));
            }
            all.push(role);
        }
        if !actor.is_member_of(to.oid) {
            return Err(denied_to("reassign objects"));
        }
        for role in all {
            if role.is_fixed() {
                let name = &role.name;
                let message = format!(
                    "cannot reassign ownership of objects owned by role {name} because they are \
                     required by the database system"
                );
                return Err(SqlError::new(code::DEPENDENT_OBJECTS, message));
            }
            for object in self.belongings(role.oid)? {
                self.give(&object, to.oid)?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_owned(
        &mut self,
        names: &[RoleName],
        cascade: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let actor = self.actor()?;
        let roles = Roles::load(&mut self.ensure()?.txn)?;
        for name in names {
            let role = self.role(name, &roles)?;
            if !actor.is_member_of(role.oid) {
                return Err(denied_to("drop objects"));
            }
            if role.is_fixed() {
                let name = &role.name;
                let message = format!(
                    "cannot drop objects owned by role {name} because they are required by the \
                     database system"
                );
                return Err(SqlError::new(code::DEPENDENT_OBJECTS, message));
            }
            self.drop_belongings(role.oid, cascade, sink)?;
            let txn = &mut self.ensure()?.txn;
            for (oid, mut acl) in rights::all_kept(txn)? {
                if acl.forget(role.oid) {
                    rights::keep(txn, oid, Some(&acl))?;
                }
            }
            for mut default in rights::all_defaults(txn)? {
                if default.of.role == role.oid {
                    rights::keep_default(txn, default.of, None)?;
                } else if default.acl.forget(role.oid) {
                    rights::keep_default(txn, default.of, Some(&default.acl))?;
                }
            }
        }
        Ok(())
    }

    fn drop_belongings(&mut self, role: u32, cascade: bool, sink: &mut dyn Sink) -> Result<()> {
        let (mut views, mut tables, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
        let mut materialized = Vec::new();
        let (mut types, mut schemas, mut functions) = (Vec::new(), Vec::new(), Vec::new());
        for object in self.belongings(role)? {
            match object {
                Belonging::View(name) => views.push(name),
                Belonging::MaterializedView(name) => materialized.push(name),
                Belonging::Table(name) => tables.push(name),
                Belonging::Sequence(name) => sequences.push(name),
                Belonging::Type(name) => types.push(name),
                Belonging::Function(entry) => functions.push(Called::Entry(entry)),
                Belonging::Schema(name) => schemas.push(name),
            }
        }
        if !functions.is_empty() {
            let dropped = FunctionDefinition::Drop { functions, if_exists: true, cascade };
            self.define_unchecked(&Definition::Function(dropped), sink)?;
        }
        let kinds = [
            (Kind::View, views),
            (Kind::MaterializedView, materialized),
            (Kind::Table, tables),
            (Kind::Sequence, sequences),
            (Kind::Type, types),
        ];
        for (kind, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            self.define_unchecked(
                &Definition::Drop { kind, names, if_exists: true, cascade },
                sink,
            )?;
        }
        if !schemas.is_empty() {
            let names = schemas;
            let dropped = Definition::DropSchema { names, if_exists: true, cascade };
            self.define_unchecked(&dropped, sink)?;
        }
        Ok(())
    }
}

/// Notes the owner of a sequence; gives its number.
fn note_sequence(txn: &mut rightlink::Transaction, name: &str, owner: Option<u32>) -> Result<u32> {
    let mut change = |known: &SequenceDefinition, at: SequencePosition| {
        let notes = SequenceNotes { owner, ..SequenceNotes::decode(&known.schema.note) };
        Ok((SequenceSchema { note: notes.encode(), ..known.schema.clone() }, at))
    };
    txn.alter_sequence(name, SequenceChange::Redefine(&mut change))?;
    Ok(relation_oid(txn.numbers(name)?.id()))
}
