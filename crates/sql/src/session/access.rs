//! Whether the role as which a session runs may do what a statement does.
//!
//! One place for each kind of statement: plans when they start, definitions before they are carried
//! out, the others where they are run.
//!
//! Invariants: a role that may do everything is asked nothing. What is not there is no matter of
//! privileges: the statement itself says so.
//! Does not do: privileges of what a plan reads, which the binder gathers (`bind::access`).

use rightlink::{Error, LockMode};

use super::Session;
use crate::bind::ddl::{
    Alteration, Called, Commented, Definition, FunctionDefinition, Kind, TypeDefinition,
};
use crate::catalog::DATABASE;
use crate::error::{Result, SqlError, code};
use crate::names::{
    MATERIALIZED_VIEW, VIEW, bare, function_of_entry, is_temporary, is_temporary_schema, schema_of,
    type_entry, type_of_entry,
};
use crate::notes::{TableNotes, owner_of};
use crate::oids::relation_oid;
use crate::plan::Plan;
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::actor::Actor;
use crate::roles::need::{Need, Object, Owned};
use crate::roles::rights::{self, not_owner};
use crate::roles::role::{CHECKPOINT, OWNER};

/// An object that was found.
pub(super) struct Found {
    pub(super) of: Owned,
    /// As messages call it.
    pub(super) noun: &'static str,
}

impl Session {
    /// Fails unless the session may run a plan.
    pub(super) fn check_plan(&mut self, plan: &Plan) -> Result<()> {
        let asks = plan.asks();
        self.check_needs(asks.needs.all())?;
        match &asks.unpopulated {
            None => Ok(()),
            Some(name) => {
                let message = format!("materialized view \"{name}\" has not been populated");
                Err(SqlError::new(code::NOT_IN_STATE, message)
                    .hint("Use the REFRESH MATERIALIZED VIEW command."))
            }
        }
    }

    /// Fails unless the session has these privileges.
    pub(super) fn check_needs(&mut self, needs: &[Need]) -> Result<()> {
        if needs.is_empty() {
            return Ok(());
        }
        let is_plain = self.login.role.is_none() && self.settings.often().as_login;
        let of_owner = |need: &Need| need.role.is_none_or(|role| role == OWNER);
        if is_plain && needs.iter().all(of_owner) {
            return Ok(());
        }
        let actor = self.actor()?;
        rights::check_all(&mut self.ensure()?.txn, &actor, needs)
    }

    /// The actor, if it may not do everything.
    fn bounded(&mut self) -> Result<Option<Actor>> {
        if self.login.role.is_none() && self.settings.often().as_login {
            return Ok(None);
        }
        Ok(Some(self.actor()?).filter(|actor| !actor.is_superuser))
    }

    /// Fails unless the session may make a definition.
    pub(super) fn check_definition(&mut self, definition: &Definition) -> Result<()> {
        let Some(actor) = self.bounded()? else { return Ok(()) };
        match definition {
            Definition::CreateTable { table, .. } => {
                self.check_create(&actor, &table.schema.name)?;
                table.keys.iter().try_for_each(|key| self.check_refers(&actor, &key.parent))
            }
            Definition::CreateView(view) => {
                if view.replaces && self.owned(&view.name)?.is_some() {
                    return self.check_owns(&actor, &view.name);
                }
                self.check_create(&actor, &view.name)
            }
            Definition::CreateSequence { name, .. } => self.check_create(&actor, name),
            Definition::CreateCollation { name, .. } => self.check_create(&actor, name),
            Definition::CreateIndex { table, .. } => {
                self.check_owns(&actor, table)?;
                match self.owned(table)? {
                    Some(one) if one.noun != VIEW => self.check_create(&actor, table),
                    _ => Ok(()),
                }
            }
            Definition::AlterSequence { name, .. } => self.check_owns(&actor, name),
            Definition::RenameSequence { name, .. } => {
                self.check_owns(&actor, name)?;
                self.check_create(&actor, name)
            }
            Definition::MoveSequence { name, schema, .. }
            | Definition::MoveTable { table: name, schema, .. } => {
                self.check_owns(&actor, name)?;
                self.check_schema(&actor, schema, Privileges::CREATE)
            }
            Definition::Type(definition) => self.check_type(&actor, definition),
            Definition::Function(definition) => self.check_function(&actor, definition),
            Definition::Drop { kind, names, .. } => {
                names.iter().try_for_each(|name| self.check_drops(&actor, *kind, name))
            }
            Definition::Alter { table, changes, .. } => {
                self.check_owns(&actor, table)?;
                changes.iter().try_for_each(|change| match change {
                    Alteration::RenameTable(_) => self.check_create(&actor, table),
                    Alteration::AddKey(key) => self.check_refers(&actor, &key.parent),
                    Alteration::AddColumn { column, .. } => column
                        .keys
                        .iter()
                        .try_for_each(|key| self.check_refers(&actor, &key.parent)),
                    _ => Ok(()),
                })
            }
            Definition::Refresh { view, .. } => self.check_owns(&actor, view),
            Definition::RenameIndex { name, .. } => self.check_owns_index(&actor, name),
            Definition::CreateSchema { .. } => self.check_database(&actor, Privileges::CREATE),
            Definition::DropSchema { names, .. } => {
                names.iter().try_for_each(|name| self.check_owns_schema(&actor, name))
            }
            Definition::RenameSchema { name, .. } => {
                self.check_owns_schema(&actor, name)?;
                self.check_database(&actor, Privileges::CREATE)
            }
            Definition::Truncate { tables, .. } => {
                tables.iter().try_for_each(|table| self.check_truncates(&actor, table))
            }
            Definition::Comment { on, .. } => self.check_comments(&actor, on),
        }
    }

    fn check_type(&mut self, actor: &Actor, definition: &TypeDefinition) -> Result<()> {
        match definition {
            TypeDefinition::Enum { name, .. }
            | TypeDefinition::Composite { name, .. }
            | TypeDefinition::Domain { name, .. } => self.check_create(actor, name),
            TypeDefinition::Alter { name, .. }
            | TypeDefinition::AlterComposite { name, .. }
            | TypeDefinition::AlterDomain { name, .. } => self.check_owns_type(actor, name),
        }
    }

    fn check_function(&mut self, actor: &Actor, definition: &FunctionDefinition) -> Result<()> {
        match definition {
            FunctionDefinition::Create { name, replaces, .. } => {
                self.check_create(actor, name)?;
                match replaces {
                    Some(entry) => self.check_owns_entry(actor, entry),
                    None => Ok(()),
                }
            }
            FunctionDefinition::Rename { function, .. } => {
                self.check_owns_function(actor, function)?;
                match function {
                    Called::Entry(entry) => {
                        let name = function_of_entry(entry).unwrap_or_default();
                        self.check_create(actor, &name)
                    }
                    Called::Missing(_) => Ok(()),
                }
            }
            FunctionDefinition::SetSchema { function, schema } => {
                self.check_owns_function(actor, function)?;
                self.check_schema(actor, schema, Privileges::CREATE)
            }
            FunctionDefinition::Drop { functions, .. } => {
                functions.iter().try_for_each(|one| self.check_owns_function(actor, one))
            }
            FunctionDefinition::Comment { function, .. } => {
                self.check_owns_function(actor, function)
            }
        }
    }

    fn check_comments(&mut self, actor: &Actor, on: &Commented) -> Result<()> {
        match on {
            // Another kind is no matter of privileges.
            Commented::Table(name) => self.check_owns_kind(actor, name, "table"),
            Commented::View(name) => self.check_owns_kind(actor, name, VIEW),
            Commented::MaterializedView(name) => {
                self.check_owns_kind(actor, name, MATERIALIZED_VIEW)
            }
            Commented::Sequence(name) => self.check_owns_kind(actor, name, "sequence"),
            Commented::Column(name, _) | Commented::Constraint(name, _) => {
                match type_of_entry(name) {
                    Some(ty) => self.check_owns_type(actor, &ty),
                    None => self.check_owns(actor, name),
                }
            }
            Commented::Index(name) => self.check_owns_index(actor, name),
            Commented::Type(name) => self.check_owns_type(actor, name),
            Commented::Schema(name) => self.check_owns_schema(actor, name),
            Commented::Database(name) => match actor.has_privileges_of(OWNER) {
                true => Ok(()),
                false => Err(not_owner("database", name)),
            },
        }
    }

    fn check_drops(&mut self, actor: &Actor, kind: Kind, name: &str) -> Result<()> {
        self.check_schema(actor, schema_of(name), Privileges::USAGE)?;
        if self.owns_schema(actor, schema_of(name))? {
            return Ok(());
        }
        match kind {
            Kind::Table => self.check_owns_kind(actor, name, "table"),
            Kind::View => self.check_owns_kind(actor, name, VIEW),
            Kind::MaterializedView => self.check_owns_kind(actor, name, MATERIALIZED_VIEW),
            Kind::Sequence => self.check_owns_kind(actor, name, "sequence"),
            Kind::Index => self.check_owns_index(actor, name),
            Kind::Type | Kind::Domain => self.check_owns_type(actor, name),
            // Nobody else owns one.
            Kind::Collation => Err(not_owner("collation", bare(name))),
        }
    }

    /// The relation that the store calls so, and its owner; `None`: it is not there.
    pub(super) fn owned(&mut self, stored: &str) -> Result<Option<Found>> {
        let txn = &mut self.ensure()?.txn;
        match txn.catalog().definition(stored) {
            Ok(info) => {
                let notes = TableNotes::decode(&info.note);
                let (noun, owner) = (notes.noun(), notes.owner.unwrap_or(OWNER));
                let (kind, oid) = (ObjectKind::Table, relation_oid(info.id));
                return Ok(Some(Found { of: Owned { kind, oid, owner }, noun }));
            }
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let sequence = rights::sequence(txn, stored)?;
        Ok(sequence.map(|of| Found { of, noun: "sequence" }))
    }

    /// Fails unless the session may look for what the store calls so.
    pub(super) fn check_finds(&mut self, stored: &str) -> Result<()> {
        self.check_looks(schema_of(stored))
    }

    /// Fails unless the actor owns a table, view or sequence that is there.
    fn check_owns(&mut self, actor: &Actor, stored: &str) -> Result<()> {
        self.check_schema(actor, schema_of(stored), Privileges::USAGE)?;
        match self.owned(stored)? {
            Some(one) if !actor.has_privileges_of(one.of.owner) => {
                Err(not_owner(one.noun, bare(stored)))
            }
            _ => Ok(()),
        }
    }

    /// The same for a relation of one kind; another kind is no matter of privileges.
    fn check_owns_kind(&mut self, actor: &Actor, stored: &str, noun: &str) -> Result<()> {
        self.check_schema(actor, schema_of(stored), Privileges::USAGE)?;
        match self.owned(stored)? {
            Some(one) if one.noun == noun => self.check_owns(actor, stored),
            _ => Ok(()),
        }
    }

    fn check_owns_index(&mut self, actor: &Actor, index: &str) -> Result<()> {
        self.check_schema(actor, schema_of(index), Privileges::USAGE)?;
        let Ok(table) = self.ensure()?.txn.catalog().table_of_index(index) else { return Ok(()) };
        match self.owned(&table)? {
            Some(one) if !actor.has_privileges_of(one.of.owner) => {
                Err(not_owner("index", bare(index)))
            }
            _ => Ok(()),
        }
    }

    fn check_owns_type(&mut self, actor: &Actor, stored: &str) -> Result<()> {
        self.check_owns_entry(actor, &type_entry(stored))
    }

    fn check_owns_function(&mut self, actor: &Actor, function: &Called) -> Result<()> {
        match function {
            Called::Entry(entry) => self.check_owns_entry(actor, entry),
            Called::Missing(_) => Ok(()),
        }
    }

    /// Fails unless the actor owns the type or the function that is kept as this entry, if that is
    /// there.
    fn check_owns_entry(&mut self, actor: &Actor, entry: &str) -> Result<()> {
        let (noun, stored) = match (type_of_entry(entry), function_of_entry(entry)) {
            (Some(name), _) => ("type", name),
            (None, name) => ("function", name.expect("it is the entry of a function")),
        };
        self.check_schema(actor, schema_of(&stored), Privileges::USAGE)?;
        match self.ensure()?.txn.catalog().definition(entry) {
            Ok(info) => match actor.has_privileges_of(owner_of(&info.note).unwrap_or(OWNER)) {
                true => Ok(()),
                false => Err(not_owner(noun, bare(&stored))),
            },
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn owns_schema(&mut self, actor: &Actor, schema: &str) -> Result<bool> {
        let found = rights::schema(&mut self.ensure()?.txn, schema)?;
        Ok(found.is_some_and(|one| actor.has_privileges_of(one.owner)))
    }

    fn check_owns_schema(&mut self, actor: &Actor, schema: &str) -> Result<()> {
        let found = rights::schema(&mut self.ensure()?.txn, schema)?;
        match found {
            Some(one) if !actor.has_privileges_of(one.owner) => Err(not_owner("schema", schema)),
            _ => Ok(()),
        }
    }

    /// Fails unless the actor may make something of this name.
    fn check_create(&mut self, actor: &Actor, stored: &str) -> Result<()> {
        match is_temporary(stored) {
            true => Ok(()),
            false => self.check_schema(actor, schema_of(stored), Privileges::CREATE),
        }
    }

    fn check_schema(&mut self, actor: &Actor, schema: &str, wanted: Privileges) -> Result<()> {
        if is_temporary_schema(schema) {
            return Ok(());
        }
        let of = Object::Schema(schema.to_owned());
        let (name, privileges) = (schema.to_owned(), wanted);
        let need = Need { of, noun: "schema", name, privileges, any: false, role: None };
        rights::check(&mut self.ensure()?.txn, actor, &need)
    }

    /// Fails unless the actor has privileges on the database.
    fn check_database(&mut self, actor: &Actor, privileges: Privileges) -> Result<()> {
        let need = of_database(&self.database, privileges);
        rights::check(&mut self.ensure()?.txn, actor, &need)
    }

    /// Fails unless the session may make temporary tables.
    pub(super) fn check_temporary(&mut self) -> Result<()> {
        let Some(actor) = self.bounded()? else { return Ok(()) };
        let need = of_database(&self.database, Privileges::TEMPORARY);
        let result = rights::check(&mut self.ensure()?.txn, &actor, &need);
        result.map_err(|error| {
            let what = "permission denied to create temporary tables in database";
            SqlError { message: format!("{what} \"{}\"", self.database), ..error }
        })
    }

    /// Fails unless the actor may empty a table; what is no table is no matter of privileges.
    fn check_truncates(&mut self, actor: &Actor, stored: &str) -> Result<()> {
        self.check_schema(actor, schema_of(stored), Privileges::USAGE)?;
        match self.owned(stored)? {
            Some(one) if one.noun == "table" => {
                self.check_table(actor, stored, Privileges::TRUNCATE)
            }
            _ => Ok(()),
        }
    }

    /// Fails unless the session may read a table or view.
    pub(super) fn check_reads(&mut self, stored: &str) -> Result<()> {
        match self.bounded()? {
            Some(actor) => self.check_table(&actor, stored, Privileges::SELECT),
            None => Ok(()),
        }
    }

    /// Fails unless the session may look for things in a schema.
    pub(super) fn check_looks(&mut self, schema: &str) -> Result<()> {
        match self.bounded()? {
            Some(actor) => self.check_schema(&actor, schema, Privileges::USAGE),
            None => Ok(()),
        }
    }

    fn check_refers(&mut self, actor: &Actor, parent: &str) -> Result<()> {
        self.check_table(actor, parent, Privileges::REFERENCES)
    }

    fn check_table(&mut self, actor: &Actor, stored: &str, wanted: Privileges) -> Result<()> {
        self.check_any(actor, stored, wanted, false)
    }

    fn check_any(
        &mut self,
        actor: &Actor,
        stored: &str,
        privileges: Privileges,
        any: bool,
    ) -> Result<()> {
        self.check_schema(actor, schema_of(stored), Privileges::USAGE)?;
        let Some(Found { of, noun }) = self.owned(stored)? else { return Ok(()) };
        let (of, name) = (Object::Known(of), bare(stored).to_owned());
        let need = Need { of, noun, name, privileges, any, role: None };
        rights::check(&mut self.ensure()?.txn, actor, &need)
    }

    /// Fails unless the session may copy rows into a table.
    pub(super) fn check_inserts(&mut self, stored: &str) -> Result<()> {
        match self.bounded()? {
            Some(actor) => self.check_table(&actor, stored, Privileges::INSERT),
            None => Ok(()),
        }
    }

    /// Fails unless the session may lock a table in a mode.
    pub(super) fn check_locks(&mut self, stored: &str, mode: LockMode) -> Result<()> {
        let Some(actor) = self.bounded()? else { return Ok(()) };
        let writes = Privileges::UPDATE.and(Privileges::DELETE).and(Privileges::TRUNCATE);
        let privileges = match mode {
            LockMode::Access => Privileges::SELECT,
            LockMode::Write => writes.and(Privileges::INSERT),
            _ => writes,
        };
        self.check_any(&actor, stored, privileges, true)
    }

    /// May the session look after a table by VACUUM, ANALYZE or REINDEX?
    pub(super) fn may_tend(&mut self, stored: &str) -> Result<bool> {
        let Some(actor) = self.bounded()? else { return Ok(true) };
        let owner = self.owned(stored)?.map_or(OWNER, |one| one.of.owner);
        Ok(actor.has_privileges_of(owner) || actor.has_privileges_of(OWNER))
    }

    /// Fails unless the session may build the indexes of a table anew, or one of them.
    pub(super) fn check_rebuilds(&mut self, stored: &str, is_index: bool) -> Result<()> {
        let Some(actor) = self.bounded()? else { return Ok(()) };
        match is_index {
            true => self.check_owns_index(&actor, stored),
            false => self.check_owns(&actor, stored),
        }
    }

    /// Fails unless the session may run CHECKPOINT.
    pub(super) fn check_checkpoints(&mut self) -> Result<()> {
        match self.bounded()? {
            Some(actor) if !actor.has_privileges_of(CHECKPOINT) => Err(rights::must(
                "be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
            )),
            _ => Ok(()),
        }
    }
}

/// Privileges on the database.
pub(super) fn of_database(name: &str, privileges: Privileges) -> Need {
    let of = Object::Known(Owned { kind: ObjectKind::Database, oid: DATABASE, owner: OWNER });
    let name = name.to_owned();
    Need { of, noun: "database", name, privileges, any: false, role: None }
}
