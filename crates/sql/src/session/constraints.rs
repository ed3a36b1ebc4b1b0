//! SET CONSTRAINTS, and constraints that are looked at when the transaction commits.
//!
//! Does not do: checks, which are never deferred.

use rightlink::TableInfo;

use super::{Session, Sink};
use crate::bind::ddl::{Definition, Kind};
use crate::error::{Result, SqlError, code};
use crate::exec::references;
use crate::names::{bare, schema_of};
use crate::notes::{Deferral, TableNotes};
use crate::schemas;

impl Session {
    /// Looks at deferred constraints: at all of them when the transaction commits.
    pub(super) fn check_deferred(&mut self, at_commit: bool) -> Result<()> {
        let due = self.deferred.take_due(at_commit);
        if due.is_empty() || self.active.is_none() {
            return Ok(());
        }
        let context = self.context(Vec::new());
        let txn = &mut self.ensure()?.txn;
        references::settle_deferred(due, txn, &context)
    }

    /// Refuses a definition of a table whose keys wait.
    pub(super) fn check_nothing_waits(&mut self, definition: &Definition) -> Result<()> {
        let (verb, names) = match definition {
            Definition::Drop { kind: Kind::Table, names, .. } => ("DROP TABLE", names.as_slice()),
            Definition::Alter { table, .. } => ("ALTER TABLE", std::slice::from_ref(table)),
            Definition::Truncate { tables, .. } => ("TRUNCATE", tables.as_slice()),
            _ => return Ok(()),
        };
        for name in names {
            let Some(active) = &mut self.active else { return Ok(()) };
            let Ok(info) = active.txn.catalog().definition(name) else { continue };
            if self.deferred.has_some_of(info.id) {
                let name = bare(name);
                let message =
                    format!("cannot {verb} \"{name}\" because it has pending trigger events");
                return Err(SqlError::new(code::OBJECT_IN_USE, message));
            }
        }
        Ok(())
    }

    /// SET CONSTRAINTS of all constraints, or of those of these names.
    pub(super) fn set_constraints(
        &mut self,
        names: Option<&[Vec<String>]>,
        waits: bool,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if !self.is_block() {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.tell(sink, "WARNING", message);
        }
        self.ensure()?.used = true;
        match names {
            None => self.deferred.set_all(waits),
            Some(names) => {
                for name in names {
                    self.set_constraint(name, waits)?;
                }
            }
        }
        if waits { Ok(()) } else { self.check_deferred(false) }
    }

    fn set_constraint(&mut self, parts: &[String], waits: bool) -> Result<()> {
        let path = self.settings.path();
        let txn = &mut self.ensure()?.txn;
        let (schemas, name): (Vec<String>, &String) = match parts {
            [name] => (path.of_tables().cloned().collect(), name),
            [schema, _] if !schemas::exists(txn, schema)? => {
                return Err(schemas::no_schema(schema));
            }
            [schema, name] => (vec![schema.clone()], name),
            _ => return Err(SqlError::unsupported("a name with a database in front")),
        };
        let tables = txn.catalog().tables()?;
        for schema in &schemas {
            let mut found = false;
            for table in tables.iter().filter(|table| schema_of(&table.name) == schema) {
                for deferral in deferrals(table, name) {
                    if deferral == Deferral::Never {
                        let message = format!("constraint \"{name}\" is not deferrable");
                        return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
                    }
                    found = true;
                    self.deferred.set((table.id, name.clone()), waits);
                }
            }
            if found {
                return Ok(());
            }
        }
        let message = format!("constraint \"{name}\" does not exist");
        Err(SqlError::new(code::UNDEFINED_OBJECT, message))
    }
}

/// When the constraints of a table that are called `name` are looked at.
fn deferrals(table: &TableInfo, name: &str) -> Vec<Deferral> {
    let notes = TableNotes::decode(&table.note);
    let keys = notes.keys.iter().filter(|key| bare(&key.name) == name).map(|key| key.deferral);
    let indexes = table.indexes.iter().filter(|index| bare(&index.name) == name);
    let kinds = indexes.filter_map(|index| notes.key_kind(index)).map(|kind| kind.deferral);
    let checks = notes.checks.iter().map(|(check, _)| check);
    let checks = checks.filter(|check| *check == name).map(|_| Deferral::Never);
    keys.chain(kinds).chain(checks).collect()
}
