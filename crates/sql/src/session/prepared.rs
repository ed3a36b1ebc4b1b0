//! Prepared statements, with parameters.
//!
//! Invariants: a plan is used only while the tables it names have the versions it was bound to;
//! else it is bound anew, and may not change the columns of its results.
//! Does not do: the bytes of parameters on the wire.

use std::borrow::Cow;
use std::sync::Arc;

use rightlink::{Reservation, Transaction};
use rightlink_env::sync::{AtomicU64, Ordering};

use super::custom::Customs;
use super::declared_types::DeclaredTypes;
use super::{Session, Sink};
use crate::bind::reading::Reading;
use crate::bind::{Binder, ddl};
use crate::error::{Result, SqlError, code};
use crate::exec::tables::{Along, Tables};
use crate::parse::utility::Utility;
use crate::parse::{self, Parsed, Stmt};
use crate::plan::{Column, Plan};
use crate::settings::Planning;
use crate::statistics;
use crate::types::{Datum, SqlType, Times, cast};
use crate::user_types::{self, UsedType};

/// Weight from which on a statement without a name is counted, too.
const UNNAMED: usize = 256 << 10;

/// A plan and the types of its parameters.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    pub(super) params: Vec<SqlType>,
    /// Is it an answer about definitions, which is good once?
    pub(super) once: bool,
    /// Of the statistics that it was made by, or one after it that left its tables alone.
    edition: Edition,
    /// Where its names were looked for, and what the planner could choose.
    planning: Arc<Planning>,
    /// Types that were made and that it uses.
    types: Arc<[UsedType]>,
}

/// An edition of the statistics. A clone is another one.
struct Edition(AtomicU64);

impl Clone for Edition {
    fn clone(&self) -> Edition {
        Edition(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// A prepared statement.
pub(super) struct Prepared {
    /// As the client wrote it.
    pub(super) text: Arc<str>,
    pub(super) parsed: Option<Arc<Parsed>>,
    /// `None` for a statement without a plan.
    pub(super) planned: Option<Planned>,
    /// When it was prepared, in microseconds since 2000.
    pub(super) at: i64,
    pub(super) declared: DeclaredTypes,
    /// Its plans for values of parameters.
    pub(super) customs: Arc<Customs>,
    pub(super) description: Description,
    /// What it takes of the database's memory; `None` for one without a name that is short or does
    /// not fit: a session has one of these, whose length is bounded when it is read.
    memory: Option<Arc<Reservation>>,
}

/// What a client may know about a prepared statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Types of its parameters.
    pub parameters: Vec<SqlType>,
    /// The numbers of these types, as the client declared them: `varchar` has another than `text`.
    pub parameter_oids: Vec<u32>,
    /// Columns of its results, if it has any.
    pub columns: Option<Vec<Column>>,
}

/// Binds a statement that has a plan.
pub(super) fn bind(
    parsed: &Arc<Parsed>,
    types: &[SqlType],
    txn: &mut Transaction,
    planning: &Arc<Planning>,
    now: i64,
) -> Result<Planned> {
    let path = &planning.path;
    let Stmt::Sql(statement) = &parsed.stmt else {
        return Err(SqlError::unsupported("a utility statement here"));
    };
    // Before anything is read: what changes from here on makes the plan old.
    let edition = Edition(AtomicU64::new(statistics::edition()));
    let bind = |txn: &mut Transaction| -> Result<Option<Planned>> {
        let mut tables = Along(Tables(txn), path);
        let mut binder = Binder::new(&mut tables, &parsed.lines, types);
        binder.switches = planning.switches;
        binder.reading = Reading::of(planning.styles.at(now));
        let Some(plan) = binder.plan(statement)? else { return Ok(None) };
        let (params, once) = (binder.parameter_types()?, binder.once);
        let (plan, planning) = (Arc::new(plan), Arc::clone(planning));
        let edition = edition.clone();
        let mut types = binder.take_used_types();
        types.extend(plan.tables().flat_map(|table| &table.used).cloned());
        types.sort_by(|a, b| a.entry.cmp(&b.entry));
        types.dedup_by(|a, b| a.entry == b.entry);
        let types = types.into();
        Ok(Some(Planned { plan, params, once, edition, planning, types }))
    };
    match bind(txn)? {
        Some(planned) => Ok(planned),
        None => {
            let text = statement.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(SqlError::unsupported(words.join(" ").to_uppercase()))
        }
    }
}

impl Planned {
    /// Have statistics of its tables changed since it was made?
    pub(super) fn is_old(&self) -> bool {
        let (own, now) = (self.edition.0.load(Ordering::Relaxed), statistics::edition());
        if own == now {
            return false;
        }
        let is_old = statistics::changed_since(own, self.plan.tables().map(|table| table.info.id));
        if !is_old {
            self.edition.0.store(now, Ordering::Relaxed);
        }
        is_old
    }

    /// Are the tables still what they were, and what the names mean, and may the planner choose
    /// what it could?
    ///
    /// # Errors
    /// One that ends the statement, as when a lock was waited for too long.
    pub(super) fn is_current(
        &self,
        txn: &mut Transaction,
        planning: &Arc<Planning>,
    ) -> Result<bool> {
        let is_same = Arc::ptr_eq(&self.planning, planning) || self.planning == *planning;
        if self.once || !is_same || self.is_old() {
            return Ok(false);
        }
        // The first table is locked as it will be when its rows are changed.
        let mut writes = !matches!(&*self.plan, Plan::Query(_) | Plan::Locked(_));
        for table in self.plan.tables() {
            let name = &table.info.name;
            let version = match std::mem::take(&mut writes) {
                true => txn.catalog().version_to_write(name),
                false => txn.catalog().version(name),
            };
            match version.map_err(SqlError::from) {
                Ok(version) if version == table.version => {}
                Err(error) if error.ends_statement() => return Err(error),
                Ok(_) | Err(_) => return Ok(false),
            }
        }
        for used in self.types.iter() {
            match txn.catalog().version(&used.entry).map_err(SqlError::from) {
                Ok(version) if version == used.version => {}
                Err(error) if error.ends_statement() => return Err(error),
                Ok(_) | Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl Prepared {
    /// The statement, as it was understood.
    pub(super) fn written(&self) -> Option<String> {
        self.parsed.as_ref()?.written()
    }

    /// The types of its parameters and their numbers.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (SqlType, u32)> {
        let Description { parameters, parameter_oids, .. } = &self.description;
        parameters.iter().copied().zip(parameter_oids.iter().copied())
    }
}

impl Session {
    /// Prepares a statement under a name, the empty one included. Types that are unknown are
    /// inferred.
    ///
    /// # Errors
    /// What is wrong with the statement; more than one statement.
    pub fn prepare(&mut self, name: &str, sql: &str, types: &[SqlType]) -> Result<Description> {
        let declared = types.iter().map(|ty| (*ty, ty.oid())).collect();
        self.prepare_declared(name, sql, declared)
    }

    /// As [`Session::prepare`], with the numbers by which clients know the types; 0 is unknown.
    ///
    /// # Errors
    /// As [`Session::prepare`]; a number that no type has.
    pub fn prepare_numbered(&mut self, name: &str, sql: &str, oids: &[u32]) -> Result<Description> {
        let numbered = |oid: &u32| match self.type_numbered(*oid)? {
            Some(ty) => Ok((ty, *oid)),
            None => {
                let what = format!("a parameter of the type with OID {oid}");
                Err(SqlError::unsupported(what))
            }
        };
        let declared = oids.iter().map(numbered).collect::<Result<DeclaredTypes>>();
        let declared = declared.map_err(|error| self.failed(error))?;
        self.prepare_declared(name, sql, declared)
    }

    fn prepare_declared(
        &mut self,
        name: &str,
        sql: &str,
        declared: DeclaredTypes,
    ) -> Result<Description> {
        self.stays(sql.len());
        self.on_stack(sql.len(), |session| {
            session.begin_message();
            session.arrives(sql);
            let prepared = session.prepare_text(name, sql, declared);
            let prepared = prepared.map_err(|error| session.failed(error));
            session.stop_deadline();
            prepared
        })
    }

    /// The type that clients know by this number, also one that was made.
    ///
    /// # Errors
    /// What keeps the session from looking.
    pub fn type_numbered(&mut self, oid: u32) -> Result<Option<SqlType>> {
        match SqlType::from_oid(oid) {
            Some(ty) => Ok(Some(ty)),
            None => {
                self.check_usable()?;
                user_types::with_number(&mut self.ensure()?.txn, oid)
            }
        }
    }

    fn prepare_text(
        &mut self,
        name: &str,
        sql: &str,
        declared: DeclaredTypes,
    ) -> Result<Description> {
        if let Some(prepared) = self.prepared_before(name, sql, &declared)? {
            let description = prepared.description.clone();
            self.prepared.insert(name.to_owned(), prepared);
            return Ok(description);
        }
        let mut statements = self.parse(sql)?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::syntax(message));
        }
        let parsed = statements.pop().map(Arc::new);
        if !name.is_empty() && self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_STATEMENT, message));
        }
        self.prepare_parsed(name, (parsed, sql), declared)
    }

    pub(super) fn prepare_parsed(
        &mut self,
        name: &str,
        (parsed, text): (Option<Arc<Parsed>>, &str),
        declared: DeclaredTypes,
    ) -> Result<Description> {
        let mut planned = None;
        let mut description = Description::default();
        match parsed.as_ref().map(|parsed| &parsed.stmt) {
            Some(Stmt::Sql(statement)) => {
                self.check_usable()?;
                if !ddl::is_definition(statement) {
                    let parsed = parsed.as_ref().expect("looked at above");
                    let plan = self.plan(parsed, declared.types())?;
                    description = Description::of(&plan, &declared);
                    planned = Some(plan);
                }
            }
            // The query of each may have parameters.
            Some(Stmt::Utility(
                utility @ (Utility::Declare { query, .. }
                | Utility::Explain { statement: query, .. }),
            )) if matches!(query.stmt, Stmt::Sql(_)) => {
                self.check_usable()?;
                let plan = self.plan(&Arc::new(Parsed::clone(query)), declared.types())?;
                let columns = self.utility_columns(utility);
                description = Description { columns, ..Description::of(&plan, &declared) };
                planned = Some(plan);
            }
            Some(Stmt::Utility(utility)) => description.columns = self.utility_columns(utility),
            None => {}
        }
        let memory = self.reserve_statement(name, parsed.as_deref(), text)?.map(Arc::new);
        let (customs, text) = (Arc::default(), text.into());
        let at = self.arrived;
        let prepared =
            Prepared { text, parsed, planned, at, declared, customs, description, memory };
        let description = prepared.description.clone();
        let prepared = Arc::new(prepared);
        self.cache.prepared(&prepared, self.db.budget());
        self.prepared.insert(name.to_owned(), prepared);
        Ok(description)
    }

    /// Reserves what a prepared statement takes: its tree, and its plan, which is no larger.
    /// PREPARE has no text of its own.
    fn reserve_statement(
        &mut self,
        name: &str,
        parsed: Option<&Parsed>,
        text: &str,
    ) -> Result<Option<Reservation>> {
        let weight = match parsed.map(|parsed| &parsed.stmt) {
            Some(Stmt::Sql(statement)) if text.is_empty() => parse::weight(&statement.to_string()),
            _ => parse::weight(text) + text.len(),
        };
        if name.is_empty() {
            // Reading it was let pass as it stands, and the next one takes its place.
            let counted = weight >= UNNAMED;
            return Ok(counted.then(|| self.db.budget().try_reserve(weight)).flatten());
        }
        let hint = "DEALLOCATE frees what is not needed.";
        self.reserve(weight, "a prepared statement", hint).map(Some)
    }

    /// Reserves memory for what a client keeps in the session. Plans that are kept only to be fast
    /// make way.
    pub(super) fn reserve(&mut self, bytes: usize, what: &str, hint: &str) -> Result<Reservation> {
        if let Some(reservation) = self.db.budget().try_reserve(bytes) {
            return Ok(reservation);
        }
        self.cache.clear();
        let budget = self.db.budget();
        budget.try_reserve(bytes).ok_or_else(|| {
            let detail = format!(
                "{what} of about {bytes} bytes does not fit the memory budget of {} bytes.",
                budget.limit()
            );
            SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(detail).hint(hint)
        })
    }

    pub(super) fn find_prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new(code::INVALID_STATEMENT_NAME, message)
        })
    }

    /// As [`Session::describe_statement`], for a while only.
    pub fn with_description<T>(
        &mut self,
        name: &str,
        look: impl FnOnce(&Description) -> T,
    ) -> Result<T> {
        self.renewed(name).map(|prepared| look(&prepared.description))
    }

    /// A prepared statement. If it uses types that were made, these are as they are now, so that
    /// values of its parameters can be read.
    fn renewed(&mut self, name: &str) -> Result<Arc<Prepared>> {
        let prepared = self.find_prepared(name)?;
        let uses = prepared.planned.as_ref().is_some_and(|planned| !planned.types.is_empty());
        if !uses || self.check_usable().is_err() {
            return Ok(prepared);
        }
        self.current_plan(&prepared)?;
        self.find_prepared(name)
    }

    /// What is known about a prepared statement.
    pub fn describe_statement(&self, name: &str) -> Result<Description> {
        self.find_prepared(name).map(|prepared| prepared.description.clone())
    }

    /// Runs a statement without a plan.
    pub(super) fn unplanned(
        &mut self,
        parsed: &Arc<Parsed>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Cow<'static, str>>> {
        match &parsed.stmt {
            Stmt::Utility(utility) => {
                if let Some(tag) = self.control(utility, sink)? {
                    return Ok(Some(tag.into()));
                }
                self.check_usable()?;
                match utility {
                    Utility::Copy(_) => Err(SqlError::unsupported("COPY as a prepared statement")),
                    _ => self.utility(utility, sink).map(|tag| Some(tag.into())),
                }
            }
            Stmt::Sql(statement) if ddl::is_definition(statement) => {
                self.check_usable()?;
                self.definition(statement, &parsed.lines, sink).map(|tag| Some(tag.into()))
            }
            Stmt::Sql(_) => Ok(None),
        }
    }

    /// The plan of a prepared statement, bound anew if a table has changed.
    pub(super) fn current_plan(&mut self, prepared: &Prepared) -> Result<Arc<Plan>> {
        let planned = prepared.planned.as_ref().expect("a statement with a plan");
        let planning = self.settings.planning();
        if planned.is_current(&mut self.ensure()?.txn, &planning)? {
            return Ok(Arc::clone(&planned.plan));
        }
        let parsed = prepared.parsed.as_ref().expect("a plan has a statement");
        let params = user_types::renewed(&mut self.ensure()?.txn, &planned.params)?;
        let again = self.plan(parsed, &params)?;
        if again.plan.columns() != planned.plan.columns() {
            let message = "cached plan must not change result type";
            // Drivers prepare such a statement anew, and know it by this name.
            let error = SqlError::new(code::FEATURE_NOT_SUPPORTED, message);
            return Err(error.of_routine("RevalidateCachedQuery"));
        }
        let fresh = Prepared {
            text: Arc::clone(&prepared.text),
            parsed: prepared.parsed.clone(),
            planned: Some(again.clone()),
            at: prepared.at,
            declared: prepared.declared.clone(),
            customs: Arc::clone(&prepared.customs),
            description: Description::of(&again, &prepared.declared),
            memory: prepared.memory.clone(),
        };
        let known = |other: &Arc<Prepared>| std::ptr::eq(Arc::as_ptr(other), prepared);
        if let Some(slot) = self.prepared.values_mut().find(|other| known(other)) {
            *slot = Arc::new(fresh);
        }
        Ok(again.plan)
    }

    /// Forgets a prepared statement; nothing happens if there is none.
    pub fn close_statement(&mut self, name: &str) {
        self.prepared.remove(name);
    }

    /// DEALLOCATE
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.prepared.clear(),
            Some(name) => {
                self.find_prepared(name)?;
                self.prepared.remove(name);
            }
        }
        Ok(())
    }

    /// EXECUTE; gives the tag.
    pub(super) fn execute_prepared(
        &mut self,
        name: &str,
        args: Vec<Datum>,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let prepared = self.renewed(name)?;
        let Some(parsed) = &prepared.parsed else { return Ok(String::new()) };
        let types = parameters_of(&prepared, name, args.len())?;
        if let Some(tag) = self.unplanned(parsed, sink)? {
            return Ok(tag.into_owned());
        }
        let (plan, params) =
            (self.current_plan(&prepared)?, convert(args, &types, || self.times())?);
        let plan = prepared.customs.choose(plan, &params, &self.settings);
        let portal = self.start(Arc::clone(&plan), params)?;
        self.hand_out(&plan, portal, sink)
    }
}

impl Session {
    /// The statement that was prepared under a name, and the types of its parameters, of which so
    /// many values are given.
    pub(super) fn prepared_for(
        &mut self,
        name: &str,
        given: usize,
    ) -> Result<(Arc<Parsed>, Vec<SqlType>)> {
        let prepared = self.find_prepared(name)?;
        let types = parameters_of(&prepared, name, given)?;
        let parsed = prepared.parsed.clone();
        Ok((parsed.ok_or_else(|| SqlError::syntax("an empty statement"))?, types))
    }
}

/// Types of the parameters of a statement, of which so many values are given.
fn parameters_of(prepared: &Prepared, name: &str, given: usize) -> Result<Vec<SqlType>> {
    let types = prepared.planned.as_ref().map(|planned| planned.params.clone()).unwrap_or_default();
    if given == types.len() {
        return Ok(types);
    }
    let message = format!("wrong number of parameters for prepared statement \"{name}\"");
    let detail = format!("Expected {} parameters but got {given}.", types.len());
    Err(SqlError::syntax(message).detail(detail))
}

impl Description {
    fn of(planned: &Planned, declared: &DeclaredTypes) -> Description {
        Description {
            parameters: planned.params.clone(),
            parameter_oids: declared.oids_of(&planned.params),
            columns: planned.plan.columns().map(<[Column]>::to_vec),
        }
    }
}

/// Values as the types that the parameters have. Most have them already.
pub(super) fn convert(
    params: Vec<Datum>,
    types: &[SqlType],
    times: impl FnOnce() -> Times,
) -> Result<Vec<Datum>> {
    let is_it = |(value, ty): (&Datum, &SqlType)| value.type_of().is_none_or(|own| own == *ty);
    if params.iter().zip(types).all(is_it) {
        return Ok(params);
    }
    let (pairs, times) = (params.into_iter().zip(types), times());
    pairs.map(|(value, ty)| cast::cast(value, *ty, &times)).collect()
}
