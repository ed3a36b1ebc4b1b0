//! Bound expressions: names are places in a row, operators are functions, types are settled.
//!
//! | file | hides |
//! |---|---|
//! | `eval` | evaluating, with three-valued logic |
//! | `function`, `registry` | functions and operators, and which of them a call means |
//! | `operators`, `math`, `degrees`, `strings`, `format`, `bytes` | what they do |
//! | `moments`, `clock`, `spans`, `overlaps`, `system` | the same |
//! | `to_char` | values by patterns |
//! | `records`, `sessions` | rows as values; locks and notifications of sessions |
//! | `sets` | functions that give rows, whose rows `exec` makes |
//! | `probe` | what the nodes of a plan did, for EXPLAIN ANALYZE |
//! | `subquery`, `exec_state` | queries inside of expressions, and who runs them |
//! | `seed` | random numbers of a session with a seed |
//! | `sequences` | numbers of sequences, and which of them a session has got |
//! | `like`, `regex` | pattern matching |
//! | `catalog` | functions that read catalogs |
//! | `arrays`, `assign` | functions of arrays; columns with elements or members assigned |
//! | `aggregate`, `state`, `regression` | functions over many rows |
//! | `deferred` | foreign keys that are looked at when the transaction commits |
//! | `domain` | values of domains |
//! | `deparse`, `immutable` | expressions as EXPLAIN shows them; which are the same at all times |
//!
//! Invariants: a bound expression evaluates without looking anything up; an evaluation that cannot
//! give the exact answer of its type fails. Does not do: choosing types (`bind`).

pub(crate) mod aggregate;
pub(crate) mod arrays;
pub(crate) mod assign;
pub(crate) mod bits;
mod bytes;
mod catalog;
mod clock;
pub(crate) mod deferred;
mod degrees;
pub(crate) mod deparse;
pub(crate) mod domain;
pub(crate) mod eval;
mod exec_state;
mod format;
pub(crate) mod function;
pub(crate) mod held;
pub(crate) mod immutable;
pub(crate) mod json;
mod length;
pub(crate) mod like;
mod lsn;
mod math;
mod moments;
mod network;
pub(crate) mod operators;
mod overlaps;
mod privileges;
pub(crate) mod probe;
pub(crate) mod records;
pub(crate) mod regex;
pub(crate) mod registry;
pub(crate) mod regression;
pub(crate) mod routine;
pub(crate) mod seed;
pub(crate) mod sequences;
mod sessions;
mod sets;
mod spans;
mod state;
mod strings;
mod subquery;
pub(crate) mod system;
mod to_char;

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

use rightlink::Collation;

use crate::activity::Activity;
use crate::catalog::Listing;
use crate::catalog::SessionInfo;
use crate::error::Result;
use crate::interrupt::{CheckInterrupts, Interrupt};
use crate::parse::modes::TransactionModes;
use crate::settings::Settings;
use crate::types::collate::Collated;
use crate::types::declared::Modifier;
use crate::types::{Datum, SqlType, Times};
pub(crate) use exec_state::ExecState;
use held::Held;
use registry::Function;
use sequences::{Ask, Sequences};
pub(crate) use subquery::{
    Body, BoundQuery, ColumnId, PlannedSubquery, Subquery, SubqueryKind, columns_of, names_columns,
    nodes_of, rename_expr,
};

/// A bound expression.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Const(Datum),
    /// Place in the input row; in the algebra the number of the column.
    Column(usize),
    /// A column of a row of a query around this one: its slot in the context.
    Outer(usize),
    /// Parameter, counted from 0.
    Param(usize),
    /// Aggregate of the query, counted from 0; replaced by a column before it is evaluated.
    Aggregate(usize),
    Call(&'static Function, Vec<Expr>),
    Cast(Box<Expr>, SqlType),
    /// To a declared length or precision; the flag says that a cast is written, not an assignment.
    Fit(Box<Expr>, Modifier, bool),
    /// The sort key of a text, as bytes.
    Weights(Box<Expr>, Collation),
    /// Filled up with blanks, as `char(n)` is shown.
    Pad(Box<Expr>, u32),
    /// A number of the sequence of this name.
    Sequence(Ask, String, Vec<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// `IS [NOT] NULL`
    IsNull(Box<Expr>, bool),
    /// `IS [NOT] TRUE`, `FALSE` or (`None`) `UNKNOWN`; the flag is the negation.
    Is(Box<Expr>, Option<bool>, bool),
    /// `IS DISTINCT FROM`, or its negation.
    Distinct(Box<Expr>, Box<Expr>, bool),
    /// Searched CASE: conditions with results, and the rest.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// CASE with an operand, which is evaluated once: the conditions find it as
    /// [`Expr::Operand`].
    Switch(Box<Expr>, Vec<(Expr, Expr)>, Box<Expr>),
    /// The operand of the switch whose condition this stands in.
    Operand,
    Coalesce(Vec<Expr>),
    /// `NULLIF`
    NullIf(Box<Expr>, Box<Expr>),
    /// Largest (or smallest) of several, nulls left out.
    Extreme(Vec<Expr>, Ordering),
    /// `IN` a list of values of the same type; the flag is the negation.
    In(Box<Expr>, Vec<Expr>, bool),
    /// `value op ANY (array)`, or ALL.
    AnyOf(Box<AnyOf>),
    /// A value of a domain.
    Checked(Box<domain::Checked>),
    Subquery(Box<Subquery>),
}

/// A comparison of a value with the elements of an array.
#[derive(Clone, Debug)]
pub(crate) struct AnyOf {
    pub(crate) needle: Expr,
    pub(crate) array: Expr,
    /// Over a row of the value and an element.
    pub(crate) test: Expr,
    pub(crate) all: bool,
}

impl AnyOf {
    /// The operator between the value and an element.
    pub(crate) fn operator(&self) -> &'static str {
        match &self.test {
            Expr::Call(function, _) => function.name,
            _ => "?",
        }
    }

    /// Is it true of a value that is equal to an element, both as they are?
    pub(crate) fn is_plain_equality(&self) -> bool {
        let Expr::Call(function, pair) = &self.test else { return false };
        let is_itself = |(at, side): (usize, &Expr)| matches!(side, Expr::Column(of) if *of == at);
        !self.all && function.name == "=" && pair.iter().enumerate().all(is_itself)
    }
}

/// An expression, its type, and where it stands in the statement's text.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: SqlType,
    pub(crate) position: Option<usize>,
    /// Declared length or precision, where it is known.
    pub(crate) modifier: Option<Modifier>,
    /// How it compares, if it is text.
    pub(crate) collated: Collated,
    /// Where it comes from, if it is a column by itself.
    pub(crate) origin: Option<ColumnOrigin>,
}

/// A column of a relation, by numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ColumnOrigin {
    pub(crate) relation: u32,
    /// From 1 on.
    pub(crate) column: i16,
}

impl ColumnOrigin {
    /// The column at `place`, counted from 0, of the relation that has this number.
    pub(crate) fn new(relation: u32, place: usize) -> ColumnOrigin {
        let column = i16::try_from(place + 1).expect("a relation has 1,664 columns at most");
        ColumnOrigin { relation, column }
    }
}

/// The collation of an expression made of several.
pub(crate) fn collation_of(parts: &[Typed]) -> Result<Collated> {
    let mut all = parts.iter().map(|part| part.collated.clone());
    all.try_fold(Collated::Default, Collated::join)
}

/// One key of a sort.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    /// Place in the row; in the algebra the number of the column.
    pub(crate) at: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    /// Is it `char(n)`, whose blanks at the end do not count?
    pub(crate) padded: bool,
    /// How texts compare; `None`: by their bytes.
    pub(crate) collation: Option<Collation>,
}

/// What an evaluation may ask of its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// Values of the parameters.
    pub(crate) params: Vec<Datum>,
    /// Start of the transaction, microseconds since 2000.
    pub(crate) transaction_time: i64,
    /// Start of the statement.
    pub(crate) statement_time: i64,
    /// What texts of dates and times mean.
    pub(crate) times: Times,
    /// State of `random()`.
    pub(crate) random: Cell<u64>,
    /// What `setseed` has begun.
    pub(crate) seed: seed::Seed,
    /// Operands of the switches whose conditions are being evaluated, the innermost last.
    pub(crate) operands: RefCell<Vec<Datum>>,
    /// Name of the database.
    pub(crate) database: Arc<str>,
    /// What `current_user` gives.
    pub(crate) user: Arc<str>,
    /// What `session_user` gives, if it is another.
    pub(crate) session_user: Option<Arc<str>>,
    /// The number of the role that owns what a definition makes, if it is not the owner of the
    /// database.
    pub(crate) owner: Option<u32>,
    /// Wall clock.
    pub(crate) db: Option<Db>,
    /// Where nodes note what they do, if anybody wants to know.
    pub(crate) probe: Option<probe::Probe>,
    /// Sequences of the session.
    pub(crate) sequences: Sequences,
    /// Whether somebody wants the statement to end.
    pub(crate) interrupt: Interrupt,
    /// Settings of the session.
    pub(crate) settings: Settings,
    /// Those of the transaction.
    pub(crate) modes: TransactionModes,
    /// Who else is there, and as whom the session is listed.
    pub(crate) activity: Activity,
    /// `None` unless the statement asks for it.
    pub(crate) listing: Option<Arc<Listing>>,
    pub(crate) pid: u32,
    /// Work until the next look at whether the statement is still wanted.
    pub(crate) work: Cell<usize>,
    /// Memory of long values.
    pub(crate) held: Held,
    /// Regular expressions that were compiled.
    pub(crate) patterns: regex::Patterns,
    /// The execution that it is a part of.
    pub(crate) exec_state: Box<dyn ExecState>,
    /// Who runs functions that have statements of their own, if the statement calls any.
    pub(crate) routines: Option<Arc<dyn routine::Routines>>,
    /// Where foreign keys wait for the end of the transaction, for a statement that writes.
    pub(crate) deferred: Option<Arc<deferred::Deferred>>,
    /// Rows that operators hand on at a time at most, if a test wants fewer than they do.
    pub(crate) batch_rows: Option<usize>,
}

/// Work between two looks at whether the statement is still wanted: some milliseconds, where a unit
/// is a byte that is read or a value that is compared.
const WORK: usize = 1 << 20;

/// The database, as functions see it.
#[derive(Clone)]
pub(crate) struct Db(pub(crate) rightlink::Database);

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Db")
    }
}

impl Context {
    /// Fails when the statement has taken too long or is not wanted any more. Asked now and then.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_interrupt()?;
        match &self.db {
            Some(db) if self.interrupt.has_deadline() && self.interrupt.is_late(db.now()) => {
                Err(crate::interrupt::Reason::Timeout.error())
            }
            _ => Ok(()),
        }
    }

    /// Counts work that grows with the length of a value or a list, a unit for each byte or
    /// element, and now and then fails as [`Context::check`] does. A loop that a statement's
    /// values make long calls it at least once for every [`WORK`] units.
    pub(crate) fn spend(&self, units: usize) -> Result<()> {
        match self.work.get().checked_sub(units) {
            Some(left) => {
                self.work.set(left);
                Ok(())
            }
            None => {
                self.work.set(WORK);
                self.check()
            }
        }
    }

    /// The session, as catalogs see it.
    pub(crate) fn session_info(&self) -> SessionInfo<'_> {
        SessionInfo {
            db: self.db.as_ref().map(|db| &db.0),
            database: &self.database,
            user: &self.user,
            activity: &self.activity,
            listing: self.listing.as_deref(),
            settings: &self.settings,
            modes: self.modes,
            interrupts: self,
        }
    }

    /// The sessions that this one sees.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The memory budget of the database; outside of any, one without bounds.
    pub(crate) fn budget(&self) -> rightlink::Budget {
        match &self.db {
            Some(Db(db)) => db.budget().clone(),
            None => rightlink::Budget::new(usize::MAX),
        }
    }

    /// Fails when the statement is not wanted any more; cheap enough for every row.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        self.interrupt.reason().map_or(Ok(()), |reason| Err(reason.error()))
    }

    /// A context outside of any session.
    pub(crate) fn outside() -> Context {
        Context {
            params: Vec::new(),
            transaction_time: 0,
            statement_time: 0,
            times: Times::utc(),
            random: Cell::new(0),
            seed: seed::Seed::default(),
            operands: RefCell::default(),
            database: "".into(),
            user: "".into(),
            session_user: None,
            owner: None,
            db: None,
            probe: None,
            sequences: Sequences::default(),
            interrupt: Interrupt::new(),
            settings: Settings::default(),
            modes: TransactionModes::DEFAULT,
            activity: Activity::default(),
            listing: None,
            pid: 0,
            work: Cell::new(0),
            held: Held::default(),
            patterns: regex::Patterns::default(),
            exec_state: Box::new(exec_state::NoExecution),
            routines: None,
            deferred: None,
            batch_rows: None,
        }
    }

    /// The next of a stream of random numbers (splitmix64).
    pub(crate) fn next_random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Rows between two looks at the clock.
const CHECK_EVERY: u32 = 256;

/// Asks now and then whether a statement that goes through rows is still wanted.
#[derive(Default)]
pub(crate) struct Pace(u32);

impl Pace {
    /// Counts a row.
    pub(crate) fn step(&mut self, context: &Context) -> Result<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(CHECK_EVERY) { context.check() } else { Ok(()) }
    }
}

impl CheckInterrupts for Context {
    fn check(&self) -> Result<()> {
        Context::check(self)
    }
}

impl Expr {
    pub(crate) fn null() -> Expr {
        Expr::Const(Datum::Null)
    }

    /// Calls `visit` for this expression and everything inside it.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(self);
        match self {
            Expr::Const(_)
            | Expr::Column(_)
            | Expr::Outer(_)
            | Expr::Param(_)
            | Expr::Aggregate(_)
            | Expr::Operand => {}
            Expr::Cast(inner, _)
            | Expr::Fit(inner, ..)
            | Expr::Pad(inner, _)
            | Expr::Weights(inner, _)
            | Expr::Not(inner)
            | Expr::IsNull(inner, _)
            | Expr::Is(inner, ..) => inner.walk(visit),
            Expr::Call(_, list)
            | Expr::Sequence(_, _, list)
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Extreme(list, _) => list.iter().for_each(|inner| inner.walk(visit)),
            Expr::Distinct(a, b, _) | Expr::NullIf(a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            Expr::Case(arms, rest) => {
                for (condition, result) in arms {
                    condition.walk(visit);
                    result.walk(visit);
                }
                rest.walk(visit);
            }
            Expr::Switch(operand, arms, rest) => {
                operand.walk(visit);
                for (condition, result) in arms {
                    condition.walk(visit);
                    result.walk(visit);
                }
                rest.walk(visit);
            }
            Expr::In(needle, list, _) => {
                needle.walk(visit);
                list.iter().for_each(|inner| inner.walk(visit));
            }
            // The test names no columns of the row.
            Expr::AnyOf(any) => {
                any.needle.walk(visit);
                any.array.walk(visit);
            }
            Expr::Checked(checked) => checked.value.walk(visit),
            Expr::Subquery(query) => {
                query.parts().for_each(|part| part.walk(visit));
            }
        }
    }

    /// As [`Expr::walk`], changing. `change` says whether to go on inside.
    pub(crate) fn change(&mut self, change: &mut dyn FnMut(&mut Expr) -> bool) {
        if !change(self) {
            return;
        }
        match self {
            Expr::Const(_)
            | Expr::Column(_)
            | Expr::Outer(_)
            | Expr::Param(_)
            | Expr::Aggregate(_)
            | Expr::Operand => {}
            Expr::Cast(inner, _)
            | Expr::Fit(inner, ..)
            | Expr::Pad(inner, _)
            | Expr::Weights(inner, _)
            | Expr::Not(inner)
            | Expr::IsNull(inner, _)
            | Expr::Is(inner, ..) => inner.change(change),
            Expr::Call(_, list)
            | Expr::Sequence(_, _, list)
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Extreme(list, _) => list.iter_mut().for_each(|inner| inner.change(change)),
            Expr::Distinct(a, b, _) | Expr::NullIf(a, b) => {
                a.change(change);
                b.change(change);
            }
            Expr::Case(arms, rest) => {
                for (condition, result) in arms {
                    condition.change(change);
                    result.change(change);
                }
                rest.change(change);
            }
            Expr::Switch(operand, arms, rest) => {
                operand.change(change);
                for (condition, result) in arms {
                    condition.change(change);
                    result.change(change);
                }
                rest.change(change);
            }
            Expr::In(needle, list, _) => {
                needle.change(change);
                list.iter_mut().for_each(|inner| inner.change(change));
            }
            Expr::AnyOf(any) => {
                any.needle.change(change);
                any.array.change(change);
            }
            Expr::Checked(checked) => checked.value.change(change),
            Expr::Subquery(query) => {
                query.parts_mut().for_each(|part| part.change(change));
            }
        }
    }

    /// Is it the same for every row and every call, given the parameters?
    pub(crate) fn is_stable(&self) -> bool {
        let mut stable = true;
        self.walk(&mut |expr| {
            stable &= match expr {
                Expr::Column(_) | Expr::Aggregate(_) | Expr::Sequence(..) => false,
                Expr::Call(function, _) => !function.volatile,
                Expr::Subquery(query) => match &query.body {
                    Body::Bound(_) => false,
                    Body::Planned { plan, binds } => plan.is_stable && binds.is_empty(),
                },
                _ => true,
            };
        });
        stable
    }

    /// Does it look into catalogs by itself, whatever its operands do?
    pub(crate) fn reads_catalog(&self) -> bool {
        match self {
            Expr::Call(function, _) => function.reads_catalog,
            Expr::Sequence(_, name, _) => name == sequences::BY_NUMBER,
            _ => false,
        }
    }

    /// Does it have to be evaluated whether or not its value is needed?
    pub(crate) fn is_volatile(&self) -> bool {
        let mut found = false;
        self.walk(&mut |inner| {
            found |= matches!(inner, Expr::Sequence(..))
                || matches!(inner, Expr::Call(function, _) if function.volatile);
        });
        found
    }

    /// Does it run a query?
    pub(crate) fn has_query(&self) -> bool {
        let mut found = false;
        self.walk(&mut |inner| found |= matches!(inner, Expr::Subquery(_)));
        found
    }

    /// Are the two written the same way?
    pub(crate) fn same(&self, other: &Expr) -> bool {
        let lists =
            |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
        let arms = |a: &[(Expr, Expr)], b: &[(Expr, Expr)]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0.same(&b.0) && a.1.same(&b.1))
        };
        match (self, other) {
            (Expr::Const(a), Expr::Const(b)) => same_value(a, b),
            (Expr::Column(a), Expr::Column(b))
            | (Expr::Param(a), Expr::Param(b))
            | (Expr::Outer(a), Expr::Outer(b))
            | (Expr::Aggregate(a), Expr::Aggregate(b)) => a == b,
            (Expr::Call(f, a), Expr::Call(g, b)) => std::ptr::eq(*f, *g) && lists(a, b),
            (Expr::Cast(a, to), Expr::Cast(b, other)) => to == other && a.same(b),
            (Expr::Fit(a, to, written), Expr::Fit(b, other, too)) => {
                to == other && written == too && a.same(b)
            }
            (Expr::Weights(a, by), Expr::Weights(b, other)) => by == other && a.same(b),
            (Expr::Pad(a, length), Expr::Pad(b, other)) => length == other && a.same(b),
            (Expr::Sequence(ask, name, a), Expr::Sequence(other, named, b)) => {
                ask == other && name == named && lists(a, b)
            }
            (Expr::And(a), Expr::And(b))
            | (Expr::Or(a), Expr::Or(b))
            | (Expr::Coalesce(a), Expr::Coalesce(b)) => lists(a, b),
            (Expr::Not(a), Expr::Not(b)) => a.same(b),
            (Expr::IsNull(a, negated), Expr::IsNull(b, other)) => negated == other && a.same(b),
            (Expr::Is(a, wanted, negated), Expr::Is(b, other, too)) => {
                wanted == other && negated == too && a.same(b)
            }
            (Expr::Distinct(a, b, negated), Expr::Distinct(c, d, other)) => {
                negated == other && a.same(c) && b.same(d)
            }
            (Expr::NullIf(a, b), Expr::NullIf(c, d)) => a.same(c) && b.same(d),
            (Expr::Case(a, rest), Expr::Case(b, other)) => arms(a, b) && rest.same(other),
            (Expr::Switch(on, a, rest), Expr::Switch(by, b, other)) => {
                on.same(by) && arms(a, b) && rest.same(other)
            }
            (Expr::Operand, Expr::Operand) => true,
            (Expr::Extreme(a, wanted), Expr::Extreme(b, other)) => wanted == other && lists(a, b),
            (Expr::In(a, list, negated), Expr::In(b, other, too)) => {
                negated == too && a.same(b) && lists(list, other)
            }
            (Expr::Checked(a), Expr::Checked(b)) => {
                Arc::ptr_eq(&a.tests, &b.tests) && a.value.same(&b.value)
            }
            (Expr::AnyOf(a), Expr::AnyOf(b)) => {
                a.all == b.all
                    && a.needle.same(&b.needle)
                    && a.array.same(&b.array)
                    && a.test.same(&b.test)
            }
            _ => false,
        }
    }
}

/// Are the two values written the same way? 1.0 and 1.00 are not.
fn same_value(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => a == b,
        (Datum::Bytes(a), Datum::Bytes(b)) => a == b,
        _ => match (a.as_int(), b.as_int()) {
            (Some(a_int), Some(b_int)) if a_int != b_int => false,
            _ => {
                std::mem::discriminant(a) == std::mem::discriminant(b)
                    && format!("{a:?}") == format!("{b:?}")
            }
        },
    }
}

impl Typed {
    /// A value that nobody gave.
    pub(crate) fn null() -> Typed {
        Typed::new(Expr::null(), SqlType::Unknown)
    }

    /// As the operand of a CASE: what the conditions compare, and what is to be evaluated once for
    /// them, unless it is so simple that they have it themselves.
    pub(crate) fn operand(self) -> (Option<Typed>, Option<Expr>) {
        let simple = match &self.expr {
            Expr::Pad(inner, _) => inner,
            other => other,
        };
        if matches!(simple, Expr::Const(_) | Expr::Param(_) | Expr::Column(_)) {
            return (Some(self), None);
        }
        let once = Typed { expr: Expr::Operand, ..self.clone() };
        (Some(once), Some(self.expr))
    }

    pub(crate) fn new(expr: Expr, ty: SqlType) -> Typed {
        Typed {
            expr,
            ty,
            position: None,
            modifier: None,
            collated: Collated::Default,
            origin: None,
        }
    }

    /// Is it `varchar`, as far as that is known here? Kept as text, it compares otherwise.
    pub(crate) fn is_varchar(&self) -> bool {
        self.ty == SqlType::Text && matches!(self.modifier, Some(Modifier::Varchar(_)))
    }

    /// Where it comes from, if it is still a column by itself.
    pub(crate) fn source(&self) -> Option<ColumnOrigin> {
        let inner = match &self.expr {
            Expr::Pad(inner, _) => inner,
            other => other,
        };
        self.origin.filter(|_| matches!(inner, Expr::Column(_)))
    }

    #[must_use]
    pub(crate) fn at(mut self, position: Option<usize>) -> Typed {
        self.position = self.position.or(position);
        self
    }
}
