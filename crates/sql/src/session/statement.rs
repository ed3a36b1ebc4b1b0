//! One statement after the other.
//!
//! Invariants: the tag of a statement outside of a block is told after its commit.
//! Does not do: parsing.

use std::cell::Cell;
use std::sync::Arc;

use sqlparser::ast;

use super::listing;
use super::portal::Portal;
use super::prepared::Planned;
use super::temporary;
use super::{Session, Sink};
use crate::bind::ddl;
use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::{self, Stream};
use crate::expr::held::Held;
use crate::expr::routine;
use crate::expr::sequences::is_changed;
use crate::expr::{Context, Db};
use crate::names::said;
use crate::parse::utility::Utility;
use crate::parse::{Lines, Parsed, Stmt};
use crate::plan::{Column, Plan, custom};
use crate::schemas::Resolver;
use crate::types::{Datum, SqlType, Times};

impl Session {
    /// Runs the statements of a message and hands what they give to `sink` as it comes.
    ///
    /// # Errors
    /// The first error ends the message.
    pub fn run(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        self.on_stack(sql.len(), |session| {
            session.begin_message();
            session.arrives(sql);
            let result = session.message(sql, sink).map_err(|error| session.failed(error));
            session.rest();
            result
        })
    }

    /// Tells others that the session waits for its client.
    pub(super) fn rest(&mut self) {
        if self.is_copying() {
            return;
        }
        self.stop_deadline();
        self.seat.rest(self.status(), &self.settings, self.now());
    }

    fn message(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        self.copy = None;
        if let Some(result) = self.run_cached(sql, sink) {
            return result;
        }
        let statements = self.parse(sql)?;
        let stays = |parsed: &Parsed| {
            matches!(parsed.stmt, Stmt::Utility(Utility::Prepare { .. } | Utility::Declare { .. }))
        };
        if statements.iter().any(stays) {
            self.stays(sql.len());
        }
        let count = statements.len();
        self.several = count > 1;
        self.cache.last = None;
        let copies_in = |parsed: &Parsed| match &parsed.stmt {
            Stmt::Utility(Utility::Copy(copy)) => copy.from,
            _ => false,
        };
        if count > 1 && statements.iter().any(copies_in) {
            return Err(SqlError::unsupported("COPY FROM in a message with other statements"));
        }
        if let [only] = statements.as_slice()
            && let Some(result) = self.run_shared(sql, only, sink)
        {
            return result;
        }
        for (at, parsed) in statements.into_iter().enumerate() {
            self.one(Arc::new(parsed), at + 1 == count, sink)?;
        }
        if count == 1 {
            self.keep(sql);
        }
        Ok(())
    }

    /// Runs a statement of a message; after the last one what was begun for the message ends.
    fn one(&mut self, parsed: Arc<Parsed>, last: bool, sink: &mut dyn Sink) -> Result<()> {
        if self.several {
            self.set_deadline();
        }
        let tag = match &parsed.stmt {
            Stmt::Utility(utility) => match self.control(utility, sink)? {
                Some(tag) => tag.to_owned(),
                None => {
                    self.check_usable()?;
                    if self.several {
                        self.ensure()?;
                    }
                    match utility {
                        Utility::Copy(copy) => match self.copy(copy, sink)? {
                            Some(tag) => tag,
                            None => return Ok(()),
                        },
                        _ => self.utility(utility, sink)?,
                    }
                }
            },
            Stmt::Sql(_) => {
                self.check_usable()?;
                self.statement(&parsed, sink)?
            }
        };
        if last {
            self.end_message()?;
        } else {
            self.follow_settings();
        }
        sink.complete(&tag)
    }

    /// Ends what was begun for a message.
    pub(super) fn end_message(&mut self) -> Result<()> {
        match &self.active {
            Some(active) if !active.block => self.commit(),
            _ => Ok(()),
        }
    }

    /// Statements about the transaction itself; they run in a failed block too. Gives the tag.
    pub(super) fn control(
        &mut self,
        utility: &Utility,
        sink: &mut dyn Sink,
    ) -> Result<Option<&'static str>> {
        Ok(Some(match utility {
            Utility::Commit { chain } => self.commit_block(*chain, sink)?,
            Utility::PrepareTransaction(gid) => self.prepare_transaction(gid, sink)?,
            Utility::Rollback { chain } => {
                self.rollback_block(*chain, sink)?;
                "ROLLBACK"
            }
            Utility::RollbackTo(name) => {
                self.rollback_to(name)?;
                "ROLLBACK"
            }
            Utility::Begin { modes, start } => {
                self.check_usable()?;
                self.begin(*modes, sink)?;
                if *start { "START TRANSACTION" } else { "BEGIN" }
            }
            Utility::Savepoint(name) => {
                self.check_usable()?;
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            Utility::Release(name) => {
                self.check_usable()?;
                self.release(name)?;
                "RELEASE"
            }
            _ => return Ok(None),
        }))
    }

    /// Runs a query or definition and gives its tag.
    fn statement(&mut self, parsed: &Arc<Parsed>, sink: &mut dyn Sink) -> Result<String> {
        let Stmt::Sql(statement) = &parsed.stmt else { unreachable!("the caller has looked") };
        if ddl::is_definition(statement) {
            return self.definition(statement, &parsed.lines, sink);
        }
        let planned = self.plan_alone(parsed)?;
        let tag = self.run_plan(&planned.plan, Vec::new(), sink)?;
        self.cache.last = Some(planned);
        Ok(tag)
    }

    /// Binds a statement without parameters.
    pub(super) fn plan_alone(&mut self, parsed: &Arc<Parsed>) -> Result<Planned> {
        let planned = self.plan(parsed, &[])?;
        match planned.params.is_empty() {
            true => Ok(planned),
            false => Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1")),
        }
    }

    /// Binds a statement that has a plan.
    pub(super) fn plan(&mut self, parsed: &Arc<Parsed>, types: &[SqlType]) -> Result<Planned> {
        let planning = self.settings.planning();
        let active = self.ensure()?;
        active.used = true;
        let now = active.time;
        super::prepared::bind(parsed, types, &mut active.txn, &planning, now)
    }

    /// Runs a definition.
    pub(super) fn definition(
        &mut self,
        statement: &ast::Statement,
        lines: &Lines,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let temporary = temporary::is_temporary(statement);
        let read = |resolver: &mut Resolver<'_>| ddl::definition(statement, lines, resolver);
        let Some(on_commit) = temporary else { return self.define_as(read, sink) };
        self.make_temporary_schema()?;
        let mut made = None;
        let read = |resolver: &mut Resolver<'_>| {
            let definition = read(resolver)?;
            if let ddl::Definition::CreateTable { table, .. } = &definition {
                let name = &table.schema.name;
                let is_there = resolver.place().0.catalog().has_relation(name)?;
                made = (!is_there).then(|| name.clone());
            }
            Ok(definition)
        };
        let tag = self.define_as(read, sink)?;
        made.into_iter().for_each(|table| self.on_commit(table, on_commit));
        Ok(tag)
    }

    /// Runs the definition that `read` makes of the statement.
    pub(super) fn define_as(
        &mut self,
        read: impl FnOnce(&mut Resolver<'_>) -> Result<ddl::Definition>,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.ensure()?;
        self.check_writable("a definition")?;
        let path = self.settings.path();
        let active = self.ensure()?;
        active.used = true;
        let mut resolver = Resolver::new(&mut active.txn, &path);
        let definition = read(&mut resolver)?;
        self.define(&definition, sink)
    }

    /// Makes a definition, if the session may.
    pub(super) fn define(
        &mut self,
        definition: &ddl::Definition,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.check_definition(definition)?;
        match definition {
            ddl::Definition::CreateView(view) if view.materialized.is_some() => {
                self.create_materialized(definition, view, sink)
            }
            _ => self.define_unchecked(definition, sink),
        }
    }

    /// Makes a definition that nobody has to be allowed.
    pub(super) fn define_unchecked(
        &mut self,
        definition: &ddl::Definition,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        self.check_nothing_waits(definition)?;
        let mut context = self.context(Vec::new());
        context.owner = self.owner_of_new(definition)?;
        if let ddl::Definition::CreateIndex { table, index, concurrently: true, if_not_exists } =
            definition
        {
            self.check_outside("CREATE INDEX CONCURRENTLY")?;
            let wanted = (table.as_str(), &**index, *if_not_exists);
            let txn = &mut self.ensure()?.txn;
            let (schema, notices) = exec::ddl::index_to_make(txn, &context, wanted)?;
            notices.iter().for_each(|notice| self.tell(sink, "NOTICE", &said(notice)));
            // The build waits for all transactions, this one too.
            self.commit()?;
            if let Some(schema) = schema {
                let built =
                    self.watched(|db, watch| db.create_index_online_with(table, &schema, watch));
                built.map_err(|error| exec::ddl::not_unique(&schema.name, error))?;
                let txn = &mut self.ensure()?.txn;
                exec::ddl::note_made(txn, &context, table, &schema, index)?;
            }
            return Ok("CREATE INDEX".to_owned());
        }
        let active = self.ensure()?;
        active.used = true;
        let defined = exec::ddl::run(definition, &mut active.txn, &context)?;
        for notice in defined.notices {
            self.tell(sink, "NOTICE", &said(&notice));
        }
        self.temporary_changed();
        match definition {
            ddl::Definition::Drop { .. } | ddl::Definition::DropSchema { .. } => {
                self.forget_privileges()?;
            }
            _ => self.give_defaults(definition)?,
        }
        Ok(defined.tag.to_owned())
    }

    /// The statement that begins now, its planning and waiting included, has as long as the
    /// settings say.
    pub(super) fn set_deadline(&mut self) {
        let timeout = self.settings.often().statement_timeout;
        let deadline = timeout.map(|millis| self.now().saturating_add(millis as i64 * 1_000));
        self.interrupt.set_deadline(deadline);
    }

    /// A message is done: what the client takes until the next one does not count.
    pub(super) fn stop_deadline(&mut self) {
        if !self.is_copying() {
            self.interrupt.set_deadline(None);
        }
    }

    /// What texts of dates and times mean now: the session's zone and styles, and the time that the
    /// transaction began at.
    #[must_use]
    pub fn times(&self) -> Times {
        let now = self.active.as_ref().map_or(self.arrived, |active| active.time);
        self.settings.styles().at(now)
    }

    /// What evaluations of a statement may ask.
    pub(super) fn context(&mut self, params: Vec<Datum>) -> Context {
        let statement_time = self.arrived;
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let times = self.times();
        let (user, session_user) = self.users();
        Context {
            operands: std::cell::RefCell::default(),
            params,
            transaction_time: times.now,
            statement_time,
            times,
            random: Cell::new(self.random),
            seed: self.seed.clone(),
            database: Arc::clone(&self.database),
            user,
            session_user,
            owner: None,
            probe: self.probe.clone(),
            sequences: self.sequences.of_statement(),
            db: Some(Db(self.db.clone())),
            interrupt: self.interrupt.clone(),
            settings: self.settings.clone(),
            modes: self.modes(),
            activity: self.seat.activity(),
            listing: None,
            pid: self.seat.pid(),
            work: Cell::new(0),
            held: Held::of(self.db.budget()),
            patterns: crate::expr::regex::Patterns::default(),
            exec_state: Box::new(exec::Execution::default()),
            deferred: None,
            routines: None,
            batch_rows: self.settings.often().batch_rows,
        }
    }

    /// Runs a plan to its end and gives its tag.
    pub(super) fn run_plan(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Datum>,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        let portal = self.open(Arc::clone(plan), params)?;
        self.hand_out(plan, portal, sink)
    }

    /// Hands out all rows of a plan that was started and gives its tag.
    pub(super) fn hand_out(
        &mut self,
        plan: &Plan,
        mut portal: Portal,
        sink: &mut dyn Sink,
    ) -> Result<String> {
        // What fails whatever the tables hold fails before a client hears of columns.
        let mut early = Vec::new();
        while plan.is_constant()
            && let Some(row) = self.next_row(&mut portal, ROWS)?
        {
            early.push(row);
        }
        if let Some(columns) = plan.columns() {
            sink.columns(columns)?;
            sink.times(&self.times());
        }
        early.into_iter().try_for_each(|row| sink.row(row))?;
        while let Some(row) = self.next_row(&mut portal, ROWS)? {
            sink.row(row)?;
        }
        Ok(portal.tag().into_owned())
    }

    /// Starts a plan, or the one that is better for these values.
    pub(super) fn open(&mut self, plan: Arc<Plan>, params: Vec<Datum>) -> Result<Portal> {
        let plan = match custom::settle(&plan, &params) {
            Some(settled) => Arc::new(settled),
            None => plan,
        };
        self.start(plan, params)
    }

    /// Starts a plan: one that writes has run when this returns.
    pub(super) fn start(&mut self, plan: Arc<Plan>, params: Vec<Datum>) -> Result<Portal> {
        self.ensure()?;
        self.check_plan(&plan)?;
        if plan.writes() {
            self.check_writable(plan.verb())?;
        }
        if plan.sequences().iter().any(|name| is_changed(name)) {
            self.check_writable("nextval() or setval()")?;
        }
        let place = match &*plan {
            Plan::Change(change) => self.current_row(change)?,
            _ => None,
        };
        let mut context = Box::new(self.context(params));
        context.deferred = plan.writes().then(|| Arc::clone(&self.deferred));
        if listing::is_asked_by(&plan) {
            context.listing = Some(Arc::new(self.listing()));
        }
        let routines = plan.asks().calls.then(|| self.routines());
        context.routines = routines.clone().map(|all| all as Arc<dyn routine::Routines>);
        let budget = self.db.budget().clone();
        let active = self.ensure()?;
        active.used = true;
        if !plan.sequences().is_empty() {
            context.sequences.open(plan.sequences(), &mut active.txn)?;
        }
        let (plan, _memory) = match (&*plan, &routines) {
            (Plan::Insert(insert), Some(routines)) => {
                let (plan, memory) = self.insert_of_rows(insert, &context, routines)?;
                (Arc::new(plan), Some(memory))
            }
            _ => (plan, None),
        };
        let txn = &mut self.ensure()?.txn;
        let (stream, done): (Box<dyn Stream>, _) = match &*plan {
            Plan::Query(query) if query.locks.is_some() => {
                let rows = exec::write::select_locked(query, txn, &context, &budget)?;
                (Box::new(exec::Ready::new(rows)), None)
            }
            Plan::Query(query) => match &routines {
                None => (exec::source::open_query(query, txn, &context)?, None),
                Some(routines) => (self.open_calling(query, &context, routines)?, None),
            },
            Plan::Insert(insert) => {
                let mut done = exec::insert::insert(insert, txn, &context, &budget)?;
                (Box::new(exec::Ready::new(std::mem::take(&mut done.rows))), Some(done))
            }
            Plan::Locked(query) => {
                let rows = exec::locked::select(query, txn, &context, &budget)?;
                (Box::new(exec::Ready::new(rows)), None)
            }
            Plan::With(with) => {
                let main = exec::parts::run(with, txn, &mut context, &budget)?;
                (main.stream, main.done)
            }
            Plan::Change(change) => {
                let mut done = exec::write::change((change, place), txn, &context, &budget)?;
                (Box::new(exec::Ready::new(std::mem::take(&mut done.rows))), Some(done))
            }
        };
        Ok(Portal::new(self.begins(), plan, stream, context, done).calling(routines))
    }

    /// Tells the client a message, unless it wants to hear of graver ones only.
    pub(super) fn tell(&self, sink: &mut dyn Sink, severity: &str, message: &str) {
        if self.settings.is_told(severity) {
            sink.notice(severity, message);
        }
    }

    /// Tells `sink` rows that are there already.
    pub(super) fn show(
        &mut self,
        columns: &[&str],
        rows: Vec<Vec<String>>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let column = |name: &&str| Column::new(*name, SqlType::Text);
        sink.columns(&columns.iter().map(column).collect::<Vec<_>>())?;
        rows.into_iter().try_for_each(|row| sink.row(row.into_iter().map(Datum::Text).collect()))
    }
}
