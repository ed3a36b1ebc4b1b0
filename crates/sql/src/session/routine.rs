//! Running the statements of functions that users made.
//!
//! A call happens while the statement that makes it gives its rows. Meanwhile a session inside of
//! this one has its transaction, and runs the statements of the function as any others: those
//! behind them see what they write, the statement that calls does not. Plans of a body are kept
//! until that has given its rows.
//!
//! Invariants: the transaction is where its statement runs, and back when the rows were given,
//! whatever came of it. Functions inside of one another have at most [`MAX_CALLS`] levels.
//! Does not do: binding bodies (`bind::routine`).

use std::collections::HashMap;
use std::sync::Arc;

use rightlink_env::sync::Mutex;

use super::transaction::Active;
use super::{Named, Session, cache, temporary};
use crate::bind::Binder;
use crate::bind::promise::{Elements, Promise};
use crate::bind::reading::Reading;
use crate::bind::routine::BodyStatement;
use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::memory::Memory;
use crate::exec::source;
use crate::exec::tables::{Along, Tables};
use crate::exec::{RowsOf, Stream};
use crate::expr::routine::{self, not_here};
use crate::expr::{Context, Expr};
use crate::names::{bare, function_of_entry};
use crate::parse;
use crate::plan::node::{Node, Op};
use crate::plan::{Insert, Plan, Query};
use crate::types::volatility::Volatility;
use crate::types::{Array, Datum};
use crate::user_types::functions::{self, UserFunction, no_function_named};

/// Most functions inside of one another.
const MAX_CALLS: usize = 100;

/// Runs functions for one statement.
pub(super) struct Routines(Mutex<Option<Box<Inner>>>);

/// The session that runs them, with the transaction while it is lent.
struct Inner {
    session: Session,
    bodies: HashMap<String, Arc<Body>>,
}

/// A body, planned.
struct Body {
    function: UserFunction,
    statements: Vec<PlannedStatement>,
}

struct PlannedStatement {
    plan: Arc<Plan>,
    /// The columns that the function has promised, for the last statement.
    promise: Option<Promise>,
}

/// Rows that a function gives.
struct Rows {
    elements: Elements,
    array: Array,
}

impl Rows {
    fn of(function: &UserFunction) -> Rows {
        let elements = Elements::of_results(function);
        Rows { array: elements.array(), elements }
    }

    /// Adds one; how many bytes more that is.
    fn push(&mut self, value: Datum) -> Result<usize> {
        self.array.gather(self.elements.boxed(value))
    }
}

impl Routines {
    /// Does `work` while the functions that it calls have the transaction.
    pub(super) fn lending<T>(&self, active: &mut Option<Active>, work: impl FnOnce() -> T) -> T {
        self.exchange(active);
        let done = work();
        self.exchange(active);
        done
    }

    fn exchange(&self, active: &mut Option<Active>) {
        let mut inner = self.0.lock();
        let inner = inner.as_mut().expect("no function runs where the statement goes on");
        std::mem::swap(&mut inner.session.active, active);
    }
}

impl routine::Routines for Routines {
    fn call(&self, entry: &str, values: &[Datum]) -> Result<Datum> {
        let inner = self.0.lock().take();
        let mut inner = inner.expect("a function runs in the session that its own statements have");
        let done = match inner.session.active {
            Some(_) => inner.call(entry, values),
            None => Err(not_here(entry)),
        };
        *self.0.lock() = Some(inner);
        done
    }
}

impl Inner {
    fn call(&mut self, entry: &str, values: &[Datum]) -> Result<Datum> {
        if self.session.blocks > MAX_CALLS {
            return Err(SqlError::new(code::TOO_COMPLEX, "stack depth limit exceeded")
                .detail(format!("There are {MAX_CALLS} functions in one another.")));
        }
        let bodies = &mut self.bodies;
        let done = self.session.on_stack(0, |session| {
            let body = match bodies.get(entry) {
                Some(body) => Arc::clone(body),
                None => {
                    let body = Arc::new(session.body(entry)?);
                    bodies.insert(entry.to_owned(), Arc::clone(&body));
                    body
                }
            };
            session.run_body(&body, values)
        });
        // Positions are those of another text.
        done.map_err(|error| SqlError { position: None, ..error })
    }
}

impl Session {
    /// What runs the functions that a statement calls.
    pub(super) fn routines(&self) -> Arc<Routines> {
        let inner = Inner { session: self.inside(), bodies: HashMap::new() };
        Arc::new(Routines(Mutex::new(Some(Box::new(inner)))))
    }

    /// A session that shares all with this one but for what statements of functions cannot name.
    fn inside(&self) -> Session {
        Session {
            db: self.db.clone(),
            database: Arc::clone(&self.database),
            active: None,
            settings: self.settings.clone(),
            prepared: Named::default(),
            portals: Named::default(),
            cursors: HashMap::new(),
            begun: 0,
            arrived: self.arrived,
            several: true,
            blocks: self.blocks + 1,
            cache: cache::Cache::default(),
            copy: None,
            random: self.random.rotate_left(11),
            seed: self.seed.clone(),
            sequences: self.sequences.of_statement(),
            probe: None,
            interrupt: self.interrupt.clone(),
            seat: Arc::clone(&self.seat),
            login: self.login,
            longest: self.longest,
            temporary: temporary::Temporary::default(),
            deferred: Arc::clone(&self.deferred),
        }
    }

    /// Plans the statements of a function.
    fn body(&mut self, entry: &str) -> Result<Body> {
        let memory = self.memory_to_read();
        let planning = self.settings.planning();
        let active = self.ensure()?;
        let (txn, now) = (&mut active.txn, active.time);
        let Some(function) = functions::load(txn, entry)? else {
            let name = function_of_entry(entry).unwrap_or_default();
            return Err(no_function_named(bare(&name)));
        };
        let types = function.argument_types();
        let parsed = parse::parse(&function.notes.body, memory)?;
        let mut statements = Vec::with_capacity(parsed.len());
        for (at, one) in parsed.iter().enumerate() {
            let mut tables = Along(Tables(txn), &planning.path);
            let mut binder = Binder::new(&mut tables, &one.lines, &types);
            binder.switches = planning.switches;
            binder.reading = Reading::of(planning.styles.at(now));
            let is_last = at + 1 == parsed.len();
            let BodyStatement { plan, promise } =
                binder.statement_of_body(&function, one, is_last)?;
            if function.notes.volatility != Volatility::Volatile && plan.writes() {
                let message = format!("{} is not allowed in a non-volatile function", plan.verb());
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            statements.push(PlannedStatement { plan: Arc::new(plan), promise });
        }
        Ok(Body { function, statements })
    }

    /// Runs the statements of a function and gives its value.
    fn run_body(&mut self, body: &Body, values: &[Datum]) -> Result<Datum> {
        let notes = &body.function.notes;
        let mut rows = notes.gives.is_set().then(|| Rows::of(&body.function));
        let is_given = !notes.is_strict || !values.iter().any(Datum::is_null);
        let mut memory = Memory::new(self.db.budget());
        let mut value = None;
        for PlannedStatement { plan, promise } in body.statements.iter().filter(|_| is_given) {
            let mut portal = self.open(Arc::clone(plan), values.to_vec())?;
            let times = self.times();
            while let Some(row) = self.next_row(&mut portal, ROWS)? {
                let Some(promise) = promise else { continue };
                // One row counts where rows are not promised, and the others are not asked for.
                match &mut rows {
                    Some(rows) => memory.charge(rows.push(promise.value(row, &times)?)?)?,
                    None if value.is_some() => break,
                    None => value = Some(promise.value(row, &times)?),
                }
            }
        }
        Ok(rows.map_or(value.unwrap_or(Datum::Null), |rows| rows.array.into()))
    }

    /// Opens a query whose functions may run meanwhile.
    pub(super) fn open_calling(
        &mut self,
        query: &Query,
        context: &Context,
        routines: &Routines,
    ) -> Result<Box<dyn Stream>> {
        let txn = &mut self.ensure()?.txn;
        source::prepare(&query.tables, &query.views, txn, context)?;
        let open = || query.root.open(None, context);
        Ok(Box::new(RowsOf::new(routines.lending(&mut self.active, open)?)))
    }

    /// An INSERT of the rows that its query gives now: functions that it calls have the
    /// transaction, and so run before anything is written.
    pub(super) fn insert_of_rows(
        &mut self,
        insert: &Insert,
        context: &Context,
        routines: &Routines,
    ) -> Result<(Plan, Memory)> {
        let source = &insert.source;
        let mut stream = self.open_calling(source, context, routines)?;
        let (mut memory, mut rows) = (Memory::new(self.db.budget()), Vec::new());
        while let Some(row) = routines.lending(&mut self.active, || stream.next(ROWS, context))? {
            memory.charge_row(&row)?;
            rows.push(row.into_iter().map(Expr::Const).collect());
        }
        let root = Node { op: Op::Values(rows), ..Node::clone(&source.root) };
        let source = Query {
            root: Arc::new(root),
            tables: Vec::new(),
            views: Vec::new(),
            ..Query::clone(source)
        };
        let insert = Insert { source: Arc::new(source), ..insert.clone() };
        Ok((Plan::Insert(Box::new(insert)), memory))
    }
}
