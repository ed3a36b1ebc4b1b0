//! Plans of what clients ask again: messages by their text or by their shape, and statements that
//! were prepared.
//!
//! Invariants:
//! - A plan is used only while the tables it names have the versions it was bound to.
//! - When statistics of a table change, the plans that name it go at once, and with them what they
//!   hold, such as the statistics they were made by. Plans of other tables stay.
//! - What is kept counts against the database's memory.
//!
//! Does not do: sharing between sessions.

use std::collections::HashMap;
use std::sync::Arc;

use rightlink::{Budget, Reservation};
use sqlparser::ast;

use super::declared_types::DeclaredTypes;
use super::literals::{self, Cut, Shapes, Sharing};
use super::prepared::{Planned, Prepared};
use super::{Session, Sink};
use crate::error::Result;
use crate::exec::memory::reserve_spare;
use crate::parse::{self, Parsed, Stmt};
use crate::statistics;
use crate::types::Datum;

/// Most messages whose plans are kept.
const MAX_CACHED: usize = 256;
/// Longest message that is kept.
const MAX_TEXT: usize = 8 << 10;

/// Plans of messages by their text.
#[derive(Default)]
pub(super) struct Cache {
    plans: HashMap<String, Kept>,
    /// Those of messages that are equal but for their literals.
    shapes: Shapes,
    /// Statements that were prepared, by their text.
    statements: HashMap<String, KeptStatement>,
    /// The shape of the message that runs, if no parameters could be made of its literals.
    apart: Option<Cut>,
    /// The plan of the statement that ran last.
    pub(super) last: Option<Planned>,
    /// Edition of the statistics that the plans were last looked at for.
    edition: u64,
}

/// A plan and what it takes of the database's memory.
struct Kept {
    planned: Planned,
    _memory: Reservation,
}

/// A statement that was prepared, and what it takes of the database's memory.
struct KeptStatement {
    prepared: Arc<Prepared>,
    _memory: Reservation,
}

impl Cache {
    /// Forgets all plans that are kept only to be fast.
    pub(super) fn clear(&mut self) {
        self.plans.clear();
        self.shapes = Shapes::default();
        self.statements.clear();
    }

    /// Forgets the plans that were made before statistics changed.
    pub(super) fn forget_old(&mut self) {
        let edition = statistics::edition();
        if self.edition != edition {
            self.edition = edition;
            self.plans.retain(|_, kept| !kept.planned.is_old());
            self.shapes.forget_old();
            let is_old =
                |prepared: &Prepared| prepared.planned.as_ref().is_some_and(Planned::is_old);
            self.statements.retain(|_, kept| !is_old(&kept.prepared));
            self.last.take_if(|planned| planned.is_old());
        }
    }

    /// Keeps a statement that was prepared, for the next time.
    pub(super) fn prepared(&mut self, prepared: &Arc<Prepared>, budget: &Budget) {
        if prepared.planned.is_none() || !(1..=MAX_TEXT).contains(&prepared.text.len()) {
            return;
        }
        if self.statements.len() >= MAX_CACHED {
            self.statements.clear();
        }
        if let Some(memory) = reserve_spare(budget, parse::weight(&prepared.text)) {
            let kept = KeptStatement { prepared: Arc::clone(prepared), _memory: memory };
            self.statements.insert(prepared.text.to_string(), kept);
        }
    }
}

impl Session {
    /// The statement of this text as it was prepared before, if it still means the same.
    pub(super) fn prepared_before(
        &mut self,
        name: &str,
        sql: &str,
        declared: &DeclaredTypes,
    ) -> Result<Option<Arc<Prepared>>> {
        let known = self.cache.statements.get(sql).map(|kept| Arc::clone(&kept.prepared));
        let known = known.filter(|known| known.declared == *declared);
        let Some(known) = known else { return Ok(None) };
        if self.check_usable().is_err() || !name.is_empty() && self.prepared.contains_key(name) {
            return Ok(None);
        }
        let current = match &known.planned {
            Some(planned) => {
                let planning = self.settings.planning();
                planned.is_current(&mut self.ensure()?.txn, &planning)?
            }
            None => false,
        };
        if !current {
            self.cache.statements.remove(sql);
            return Ok(None);
        }
        Ok(Some(known))
    }

    /// Runs a message whose plan is kept.
    pub(super) fn run_cached(&mut self, sql: &str, sink: &mut dyn Sink) -> Option<Result<()>> {
        let own = self.cache.plans.get(sql).map(|kept| kept.planned.clone());
        let cut = if own.is_none() { literals::cut(sql) } else { None };
        let (planned, params) = match own {
            Some(planned) => (planned, Vec::new()),
            None => self.cache.shapes.find(cut.as_ref()?, &self.times())?,
        };
        if let Err(error) = self.check_usable() {
            return Some(Err(error));
        }
        let planning = self.settings.planning();
        let current =
            self.ensure().and_then(|active| planned.is_current(&mut active.txn, &planning));
        let current = match current {
            Ok(current) => current,
            Err(error) => return Some(Err(error)),
        };
        if !current {
            match &cut {
                Some(cut) => self.cache.shapes.forget(cut),
                None => drop(self.cache.plans.remove(sql)),
            }
            return None;
        }
        Some(self.run_only(&planned, params, sink))
    }

    /// Runs a plan that is all of a message.
    fn run_only(
        &mut self,
        planned: &Planned,
        params: Vec<Datum>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let tag = self.run_plan(&planned.plan, params, sink)?;
        self.end_message()?;
        sink.complete(&tag)
    }

    /// Runs a message by a plan that others of the same shape can use; `None` if it needs its own.
    pub(super) fn run_shared(
        &mut self,
        sql: &str,
        parsed: &Parsed,
        sink: &mut dyn Sink,
    ) -> Option<Result<()>> {
        self.cache.apart = None;
        let cut = literals::cut(sql).filter(|cut| self.cache.shapes.may_share(cut))?;
        self.check_usable().ok()?;
        let Stmt::Sql(statement) = &parsed.stmt else { return None };
        let (sharing, planned) = match self.shared_plan(statement, parsed, (sql, &cut)) {
            Ok(Some(made)) => made,
            Ok(None) => {
                self.cache.shapes.set_apart(&cut, self.db.budget());
                return None;
            }
            Err(error) if error.ends_statement() => return Some(Err(error)),
            Err(_) => {
                // If the message as it stands can be planned, the parameters are to blame.
                self.cache.apart = Some(cut);
                return None;
            }
        };
        let times = self.times();
        let budget = self.db.budget();
        let params = self.cache.shapes.keep(&cut, sharing, &planned, &times, budget)?;
        Some(self.run_only(&planned, params, sink))
    }

    fn shared_plan(
        &mut self,
        statement: &ast::Statement,
        parsed: &Parsed,
        (sql, cut): (&str, &Cut),
    ) -> Result<Option<(Sharing, Planned)>> {
        let Some(sharing) = literals::share(statement, sql, cut) else { return Ok(None) };
        let stmt = Stmt::Sql(Box::new(sharing.statement.clone()));
        let again = Arc::new(Parsed { stmt, lines: parsed.lines.clone() });
        let planned = self.plan(&again, &sharing.types)?;
        // Which rows a partial index has is a matter of values.
        let whole = |table: &Arc<crate::plan::Table>| {
            table.info.indexes.iter().all(|index| index.is_whole())
        };
        let shares = !planned.once && planned.plan.tables().all(whole);
        Ok(shares.then_some((sharing, planned)))
    }

    /// Keeps the plan of a message of one statement that has run.
    pub(super) fn keep(&mut self, sql: &str) {
        if let Some(cut) = self.cache.apart.take() {
            self.cache.shapes.set_apart(&cut, self.db.budget());
        }
        let Some(planned) = self.cache.last.take() else { return };
        if sql.len() > MAX_TEXT {
            return;
        }
        if self.cache.plans.len() >= MAX_CACHED {
            self.cache.plans.clear();
        }
        // What the budget has no memory for is not kept.
        if let Some(memory) = reserve_spare(self.db.budget(), parse::weight(sql) + sql.len()) {
            self.cache.plans.insert(sql.to_owned(), Kept { planned, _memory: memory });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans of statements that are asked no more do not stay, with all that they hold, until as
    /// many others have come.
    #[test]
    fn plans_go_when_statistics_change() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::open(dir.path()).unwrap();
        let (mut session, mut other) = (Session::new(&db), Session::new(&db));
        other.execute("create table t (a int, b text)").unwrap();
        other.execute("insert into t select g, 'x' || g from generate_series(1, 500) g").unwrap();
        other.execute("analyze t").unwrap();
        session.execute("select a from t where a = 1").unwrap();
        session.execute("select b from t").unwrap();
        session.execute("select a as c from t where b = 'x7'").unwrap();
        let kept = |session: &Session| session.cache.plans.len() + session.cache.shapes.count();
        assert_eq!(kept(&session), 3);
        let mut txn = db.begin();
        let table = txn.catalog().describe("t").unwrap().id;
        let statistics = statistics::store::load(&mut txn, table).unwrap().unwrap();
        assert!(Arc::strong_count(&statistics) > 3, "all plans share them");
        let old = Arc::downgrade(&statistics);
        drop((statistics, txn));
        other.execute("insert into t values (1000, 'y'); analyze t").unwrap();
        assert!(old.upgrade().is_some(), "the plans are there until the session does something");
        session.execute("select 1").unwrap();
        assert!(kept(&session) <= 1, "{} plans", kept(&session));
        assert!(old.upgrade().is_none(), "nobody uses what was replaced");
        assert!(session.execute("select a as c from t where b = 'x7'").is_ok());
    }

    /// Definitions and statistics of other tables leave plans as they are.
    #[test]
    fn plans_outlive_changes_of_other_tables() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::open(dir.path()).unwrap();
        let (mut session, mut other) = (Session::new(&db), Session::new(&db));
        // Editions are of the process: tables of other tests must not have the same numbers.
        let passed = "create table passed (a int); drop table passed;".repeat(500);
        other.execute(&format!("begin; {passed} commit")).unwrap();
        other.execute("create table t (a int, b text); create table u (a int)").unwrap();
        session.execute("select a from t where a = 1").unwrap();
        session.execute("select b from t").unwrap();
        session.prepare("p", "select a from t where a = $1", &[]).unwrap();
        let kept = |session: &Session| {
            let cache = &session.cache;
            (cache.plans.len(), cache.shapes.count(), cache.statements.len())
        };
        let before = kept(&session);
        let plan = |session: &Session| {
            let planned = session.prepared["p"].planned.as_ref();
            Arc::as_ptr(&planned.expect("a plan").plan)
        };
        let of_statement = plan(&session);
        for sql in [
            "create table v (a int)",
            "alter table u add column b int",
            "create index u_a on u (a)",
            "analyze u",
            "drop table u",
        ] {
            other.execute(sql).unwrap();
            session.execute("select a from t where a = 2").unwrap();
            session.execute("select b from t").unwrap();
            session.execute("execute p (1)").unwrap();
            assert_eq!(kept(&session), before, "{sql}");
            assert_eq!(plan(&session), of_statement, "{sql}");
        }
        other.execute("analyze t").unwrap();
        session.execute("execute p (1)").unwrap();
        assert_ne!(plan(&session), of_statement, "its own table was analyzed");
    }

    /// Only what cannot be shared is set apart, not what failed for another reason.
    #[test]
    fn an_error_that_passes_does_not_set_a_shape_apart() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::open(dir.path()).unwrap();
        let (mut session, mut other) = (Session::new(&db), Session::new(&db));
        let sql = "select a from t where a = 1";
        let cut = literals::cut(sql).unwrap();
        let code = |session: &mut Session| session.execute(sql).map_err(|error| error.sqlstate);
        session.execute("set lock_timeout = 20").unwrap();
        assert_eq!(code(&mut session), Err("42P01"));
        other.execute("create table t (a int)").unwrap();
        other.execute("begin; lock table t").unwrap();
        assert_eq!(code(&mut session), Err("55P03"));
        assert!(session.cache.shapes.find(&cut, &session.times()).is_none());
        other.execute("rollback").unwrap();
        code(&mut session).unwrap();
        assert!(session.cache.shapes.find(&cut, &session.times()).is_some(), "the shape is shared");
        other.execute("create index t_a on t (a) where a > 0").unwrap();
        code(&mut session).unwrap();
        assert!(!session.cache.shapes.may_share(&cut), "which index depends on the value");
    }
}
