//! Names to places, literals to values, operators to functions: from syntax to plans.
//!
//! | file | hides |
//! |---|---|
//! | `names` | identifiers and names of types |
//! | `expr`, `infix`, `call` | expressions; operators; calls of functions |
//! | `aggregate`, `objects` | calls of aggregates; `regclass` and its kind |
//! | `collate` | how texts compare |
//! | `select`, `limit`, `target`, `group`, `grouping` | queries: their clauses and lists |
//! | `from`, `join`, `with`, `recursion` | their sources |
//! | `updatable` | tables that are changed, also through views |
//! | `view`, `view_text` | queries of views; the text that a new one keeps, and its names |
//! | `window` | window functions and their windows |
//! | `rows`, `records`, `document_rows`, `populate` | rows compared; as values; of documents |
//! | `sets`, `setop`, `subquery` | functions that give rows; UNION; queries in expressions |
//! | `lock` | FOR UPDATE and its kind |
//! | `scope` | what names of columns mean |
//! | `write`, `assign`, `elements` | INSERT, UPDATE, DELETE; SET; parts of columns in it |
//! | `writing_with`, `reading` | WITH that writes; literals of dates and times |
//! | `functions`, `overloads`, `promise`, `routine` | calls of functions that users made |
//! | `rules`, `domains` | defaults, checks, foreign keys; what domains ask |
//! | `access`, `ddl` | privileges that a statement needs; definitions of tables and indexes |
//!
//! Invariants: what is not built is refused by name, never skipped; a parameter has one type.
//! Does not do: reading rows.

mod access;
mod aggregate;
mod array;
mod assign;
pub(crate) mod call;
pub(crate) mod collate;
pub(crate) mod ddl;
mod document_rows;
mod domains;
mod elements;
pub(crate) mod expr;
pub(crate) mod from;
mod functions;
pub(crate) mod generated;
mod group;
mod grouping;
mod infix;
mod join;
mod limit;
mod lock;
mod objects;
mod overloads;
mod populate;
pub(crate) mod promise;
pub(crate) mod reading;
mod records;
mod recursion;
pub(crate) mod routine;
mod rows;
pub(crate) mod rules;
pub(crate) mod scope;
pub(crate) mod select;
mod setop;
mod sets;
mod subquery;
pub(crate) mod target;
mod unnest;
mod updatable;
pub(crate) mod view;
pub(crate) mod view_text;
mod window;
mod with;
pub(crate) mod write;
mod writing_with;

use std::collections::BTreeSet;
use std::sync::Arc;

use rightlink::Collation;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use crate::bind::reading::Reading;
use crate::bind::scope::Scope;
use crate::bind::writing_with::runs_in_parts;
use crate::error::{Result, SqlError, code};
use crate::expr::aggregate::Aggregate;
use crate::expr::{ColumnId, Expr, Typed, nodes_of};
use crate::parse::Lines;
use crate::parse::identifiers::TypeNames;
use crate::plan::bound::Bound;
use crate::plan::known::Known;
use crate::plan::{Asks, Plan, Table, lower};
use crate::roles::need::Needs;
use crate::schemas::{self, Found};
use crate::settings::planner::Switches;
use crate::statistics::Statistics;
use crate::types::cast::{self, CastContext};
use crate::types::declared::{Declared, Modifier};
use crate::types::{Datum, SqlType, Times};
use crate::user_types::functions::UserFunction;
use crate::user_types::{self, UsedType, UserType};

/// Most parameters of a statement: their number has 16 bits on the wire.
const MAX_PARAMETERS: usize = 65_535;

/// Bytes of a literal that becomes an array when it is bound.
const LONG_ARRAY: usize = 1 << 20;

/// Most nodes of expressions that are there a second time, because what is written once stands for
/// two.
const MAX_COPIES: usize = 1_000_000;

/// Where tables are looked up.
pub(crate) trait Catalog {
    /// The table that the store calls `name`, as the transaction sees it.
    fn table(&mut self, name: &str) -> Result<Arc<Table>>;

    /// What the store calls the relation that these parts name.
    fn find(&mut self, parts: &[String]) -> Result<Found>;

    /// As `regclass` shows the relation that the store calls `name`; `None` if it is not there.
    fn shown(&mut self, name: &str) -> Result<Option<String>>;

    /// The type that these parts name, if it is one that was made.
    fn type_named(&mut self, parts: &[String]) -> Result<Option<UserType>>;

    /// The functions that users made and that these parts may name.
    fn functions_named(&mut self, parts: &[String]) -> Result<Vec<UserFunction>>;

    /// The function that is kept as `entry`.
    fn function(&mut self, entry: &str) -> Result<Option<UserFunction>>;

    /// The type that is called so, as the store calls it.
    fn stored_type(&mut self, name: &str) -> Result<Option<UserType>>;

    /// The number of the sequence that the store calls `name`.
    fn sequence(&mut self, name: &str) -> Result<u32>;

    /// The schemas of the search path that are there.
    fn schemas(&mut self) -> Result<Vec<String>>;

    /// The collation called `name`; `None` for those by bytes.
    fn collation(&mut self, name: &str) -> Result<Option<Collation>>;

    /// What ANALYZE has found out about a table.
    fn statistics(&mut self, table: &Table) -> Result<Option<Arc<Statistics>>>;
}

/// A column that a value goes into.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) modifier: Option<Modifier>,
    /// What DEFAULT means; `None` where the value goes into a part of the column, which has none.
    pub(crate) default: Option<Expr>,
    /// The field of the column that the value goes into.
    pub(crate) field: Option<String>,
    /// Privileges that it needs.
    pub(crate) needs: Needs,
}

impl Slot {
    /// A column whose default nobody asks for.
    pub(crate) fn of_column(name: &str, ty: SqlType, modifier: Option<Modifier>) -> Slot {
        let (name, default) = (name.to_owned(), Some(Expr::null()));
        Slot { name, ty, modifier, default, field: None, needs: Needs::default() }
    }

    /// Column `at` of a table, without its default.
    pub(crate) fn of_table(table: &Table, at: usize) -> Slot {
        let name = &table.info.columns[at].name;
        Slot::of_column(name, table.types[at], table.column_notes[at].modifier)
    }
}

/// May aggregates stand here, and if not, what is it called?
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// Window functions, too.
    Windows,
    Aggregates,
    InsideAggregate,
    /// Aggregates may stand here, but no window functions.
    InsideWindow,
    None(&'static str),
}

/// Binds one statement.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a mut dyn Catalog,
    pub(crate) lines: &'a Lines,
    /// Types of the parameters, unknown until something decides.
    pub(crate) params: Vec<SqlType>,
    pub(crate) scope: Scope,
    /// Those of the queries around it, the innermost last.
    outer: Vec<Scope>,
    /// The table that the statement changes, while its other sources are bound.
    changed: Option<Scope>,
    /// Common table expressions that names mean, the innermost last.
    commons: Vec<with::Common>,
    /// Tables that are read, by the number of their first column.
    scans: Vec<(ColumnId, Arc<Table>)>,
    /// Numbers of what comes next.
    next_column: ColumnId,
    next_common: usize,
    /// Numbers of those that were named.
    used_commons: Vec<usize>,
    /// Do several parts of the statement write, which share a snapshot?
    shares_snapshot: bool,
    /// How deep inside of set operations it is.
    set_depth: usize,
    pub(crate) aggregates: Vec<Aggregate>,
    windows: window::Windows,
    sets: sets::Sets,
    /// Calls of GROUPING of the query.
    groupings: Vec<grouping::GroupingCall>,
    pub(crate) place: Place,
    /// Sequences that were named.
    pub(crate) sequences: Vec<String>,
    /// Privileges that the statement needs.
    pub(crate) needs: Needs,
    /// A materialized view that it reads and that has no rows yet.
    unpopulated: Option<String>,
    /// The role that must have them, while the query of a view is bound: its owner.
    needed_by: Option<u32>,
    /// The owner of the table whose default is bound.
    owner_of_default: Option<u32>,
    /// Types that were named and made, besides those of columns.
    used_types: Vec<UsedType>,
    /// Where columns are named, and where (`None`) the table in front of one.
    pub(crate) mentions: Vec<(Span, Option<usize>)>,
    /// Where names of sources stand in front of columns, with the dots behind them.
    pub(crate) qualifiers: BTreeSet<Span>,
    /// Was something named that may be another thing the next time, whatever the tables are?
    pub(crate) once: bool,
    /// Is it text that is kept with a definition, whose names mean the same to everybody?
    kept: bool,
    views: view::Views,
    /// The arguments of the function whose body is bound, if one is.
    arguments: Option<functions::Arguments>,
    /// Where the call that is being bound names its function.
    callee: Span,
    /// Entries of the functions whose bodies are bound, the innermost last.
    bodies: Vec<String>,
    /// Are functions called whose statements run?
    calls: bool,
    /// Nodes of expressions that have been copied.
    copies: usize,
    /// What the planner may choose.
    pub(crate) switches: Switches,
    /// What literals of dates and times mean.
    pub(crate) reading: Reading,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(catalog: &'a mut dyn Catalog, lines: &'a Lines, params: &[SqlType]) -> Self {
        Binder {
            catalog,
            lines,
            params: params.to_vec(),
            scope: Scope::default(),
            outer: Vec::new(),
            changed: None,
            commons: Vec::new(),
            scans: Vec::new(),
            next_column: 0,
            next_common: 0,
            used_commons: Vec::new(),
            shares_snapshot: false,
            set_depth: 0,
            aggregates: Vec::new(),
            windows: window::Windows::default(),
            sets: sets::Sets::default(),
            groupings: Vec::new(),
            place: Place::None("here"),
            sequences: Vec::new(),
            needs: Needs::default(),
            unpopulated: None,
            needed_by: None,
            owner_of_default: None,
            used_types: Vec::new(),
            mentions: Vec::new(),
            qualifiers: BTreeSet::new(),
            once: false,
            kept: false,
            views: view::Views::default(),
            arguments: None,
            callee: Span::empty(),
            bodies: Vec::new(),
            calls: false,
            copies: 0,
            switches: Switches::ALL,
            reading: Reading::default(),
        }
    }

    /// The table that these parts name.
    pub(crate) fn table_named(&mut self, parts: &[String]) -> Result<Arc<Table>> {
        let name = self.find(parts)?;
        self.catalog.table(&name)
    }

    /// What the store calls the relation that these parts name.
    pub(crate) fn find(&mut self, parts: &[String]) -> Result<String> {
        let found = match (self.kept, self.found_in_view(parts)) {
            (true, _) => schemas::find_kept(parts)?,
            (false, Some(name)) => return Ok(name),
            (false, None) => self.catalog.find(parts)?,
        };
        self.once |= !found.settled;
        if !self.kept {
            self.need_schema(crate::names::schema_of(&found.name));
        }
        self.note_name(parts, &found.name);
        Ok(found.name)
    }

    /// Binds text that is kept with a definition.
    pub(crate) fn of_kept<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.kept, true);
        let reading = std::mem::take(&mut self.reading);
        let result = work(self);
        (self.kept, self.reading) = (before, reading);
        result
    }

    /// The types that were made and that it has met.
    pub(crate) fn take_used_types(&mut self) -> Vec<UsedType> {
        std::mem::take(&mut self.used_types)
    }

    /// Numbers for so many columns, one behind the other: the first.
    pub(crate) fn new_columns(&mut self, count: usize) -> ColumnId {
        let first = self.next_column;
        self.next_column += count;
        first
    }

    /// The plan of a statement that has one.
    pub(crate) fn plan(&mut self, statement: &ast::Statement) -> Result<Option<Plan>> {
        let mut plan = match statement {
            ast::Statement::Query(query) if runs_in_parts(query) => {
                return self.writing_with(query).map(Some);
            }
            ast::Statement::Query(query) => {
                let bound = self.query_for(query, select::Purpose::Client)?;
                if bound.locks.as_ref().is_some_and(|locks| !locks.tables.is_empty()) {
                    let mut locked = self.locked(bound)?;
                    locked.asks = self.take_asks();
                    return Ok(Some(Plan::Locked(Box::new(locked))));
                }
                Plan::Query(Arc::new(self.planned(bound)?))
            }
            ast::Statement::Insert(insert) => Plan::Insert(Box::new(self.insert(insert)?)),
            ast::Statement::Update(update) => Plan::Change(Box::new(self.update(update)?)),
            ast::Statement::Delete(delete) => Plan::Change(Box::new(self.delete(delete)?)),
            _ => return Ok(None),
        };
        let asks = self.take_asks();
        match &mut plan {
            Plan::Query(query) => Arc::get_mut(query).expect("nobody has it yet").asks = asks,
            Plan::Insert(insert) => insert.asks = asks,
            Plan::Change(change) => change.asks = asks,
            Plan::With(with) => with.asks = asks,
            Plan::Locked(query) => query.asks = asks,
        }
        Ok(Some(plan))
    }

    /// What the statement that was bound asks for.
    pub(crate) fn take_asks(&mut self) -> Asks {
        let sequences = std::mem::take(&mut self.sequences);
        let unpopulated = self.unpopulated.take();
        let calls = std::mem::take(&mut self.calls);
        Asks { sequences, needs: std::mem::take(&mut self.needs), unpopulated, calls }
    }

    /// Binds a query whose rows are stored as they come.
    pub(crate) fn kept_rows(&mut self, query: &ast::Query) -> Result<Bound> {
        let bound = self.query_for(query, select::Purpose::Inner)?;
        lock::refuse_locks(&bound)?;
        Ok(bound)
    }

    /// The executable form of a query.
    pub(crate) fn planned(&mut self, bound: Bound) -> Result<crate::plan::Query> {
        let known = self.known()?;
        lower::query(bound, &known, &[])
    }

    /// What is known about the tables that are read.
    fn known(&mut self) -> Result<Known> {
        let mut known = Known::with(self.switches);
        for (_, table) in &self.scans {
            if !known.has(table) {
                known.add(table, self.catalog.statistics(table)?);
            }
        }
        Ok(known)
    }

    /// Types of the parameters, after binding: those that nothing decided are an error.
    pub(crate) fn parameter_types(&self) -> Result<Vec<SqlType>> {
        if let Some(at) = self.params.iter().position(|ty| *ty == SqlType::Unknown) {
            let message = format!("could not determine data type of parameter ${}", at + 1);
            return Err(SqlError::new(code::INDETERMINATE_DATATYPE, message));
        }
        Ok(self.params.clone())
    }

    /// Runs `work` where aggregates are (not) allowed.
    pub(crate) fn at_place<T>(
        &mut self,
        place: Place,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = std::mem::replace(&mut self.place, place);
        let result = work(self);
        self.place = before;
        result
    }

    /// A copy of `value`. Copies of copies double, hence their number is bounded.
    pub(crate) fn copy(&mut self, value: &Typed) -> Result<Typed> {
        self.count_copies(nodes_of(&value.expr))?;
        Ok(value.clone())
    }

    /// Counts nodes that are there once more.
    fn count_copies(&mut self, nodes: usize) -> Result<()> {
        self.copies += nodes;
        match self.copies > MAX_COPIES {
            true => Err(crate::parse::too_complex()),
            false => Ok(()),
        }
    }

    /// Parameter `number`, counted from 1.
    pub(crate) fn parameter(&mut self, number: usize) -> Result<Typed> {
        if let Some(arguments) = &self.arguments {
            return arguments.value(number);
        }
        if number == 0 || number > MAX_PARAMETERS {
            let message = format!("there is no parameter ${number}");
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
        }
        if self.params.len() < number {
            self.params.resize(number, SqlType::Unknown);
        }
        Ok(Typed::new(Expr::Param(number - 1), self.params[number - 1]))
    }

    /// `value` as `to`, which needs no more than an implicit cast (the caller has checked).
    pub(crate) fn coerce(&mut self, value: Typed, to: SqlType) -> Result<Expr> {
        if value.ty == to || to == SqlType::Unknown {
            return Ok(value.expr);
        }
        match (value.ty, to) {
            (SqlType::Composite(_), SqlType::Record) => return Ok(value.expr),
            (SqlType::Record, SqlType::Composite(ty)) => {
                return self.row_as(value, ty, CastContext::Implicit);
            }
            _ => {}
        }
        if value.ty == SqlType::Bpchar && to == SqlType::Text {
            return Ok(trimmed(value.expr));
        }
        if let SqlType::Reg(kind) = to {
            return self.registered(value, kind);
        }
        if let Some(SqlType::Reg(kind)) = to.element() {
            return self.registered_array(value, kind);
        }
        if value.ty != SqlType::Unknown {
            return Ok(cast_now(value.expr, to));
        }
        match value.expr {
            // An array is counted, which takes many times as much, when the statement runs.
            Expr::Const(literal) if to.is_array() && literal.heap_bytes() > LONG_ARRAY => {
                Ok(Expr::Cast(Box::new(Expr::Const(literal)), to))
            }
            Expr::Const(Datum::Text(literal)) => {
                self.literal(to, &literal, value.position).map(Expr::Const)
            }
            Expr::Param(at) => {
                if self.params[at] == SqlType::Unknown {
                    self.params[at] = to;
                    return Ok(Expr::Param(at));
                }
                let ty = self.params[at];
                self.coerce_checked(Typed::new(Expr::Param(at), ty), to, CastContext::Explicit)
            }
            Expr::Const(Datum::Null) => Ok(Expr::null()),
            other => Ok(Expr::Cast(Box::new(other), to)),
        }
    }

    /// `value` as `to` if there is a cast for this context.
    pub(crate) fn coerce_checked(
        &mut self,
        value: Typed,
        to: SqlType,
        allowed: CastContext,
    ) -> Result<Expr> {
        if let (SqlType::Record, SqlType::Composite(ty)) = (value.ty, to) {
            return self.row_as(value, ty, allowed);
        }
        match cast::context(value.ty, to) {
            Some(needed) if needed <= allowed => self.coerce(value, to),
            _ => Err(cast::cannot(value.ty, to).at(value.position)),
        }
    }

    /// `value` as a condition of `clause`.
    pub(crate) fn condition(&mut self, value: Typed, clause: &str) -> Result<Expr> {
        if value.ty != SqlType::Bool && value.ty != SqlType::Unknown {
            let message =
                format!("argument of {clause} must be type boolean, not type {}", value.ty.name());
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).at(value.position));
        }
        self.coerce(value, SqlType::Bool)
    }

    /// `value` as it is stored into a column.
    pub(crate) fn assign(&mut self, value: Typed, slot: &Slot) -> Result<Expr> {
        assignable(&value, slot)?;
        if let (SqlType::Record, SqlType::Composite(ty)) = (value.ty, slot.ty) {
            return self.row_as(value, ty, CastContext::Assignment);
        }
        let (ty, position, before) = (value.ty, value.position, value.modifier);
        if let (Expr::Param(_), SqlType::Unknown, Some(Modifier::Interval(..))) =
            (&value.expr, ty, slot.modifier)
        {
            // A literal in its place would be read by the fields of the column.
            self.once = true;
        }
        let expr = match (&value.expr, slot.modifier) {
            // The column says what a number in the text counts.
            (Expr::Const(Datum::Text(literal)), Some(Modifier::Interval(fields, _)))
                if ty == SqlType::Unknown && slot.ty == SqlType::Interval =>
            {
                Expr::Const(self.interval_literal(literal, fields, position)?)
            }
            _ => self.coerce(value, slot.ty)?,
        };
        let same = ty == slot.ty && ty != SqlType::Bpchar;
        let limits = |wanted: &Modifier| *wanted != Modifier::Varchar(0);
        let wanted = slot.modifier.filter(limits);
        let wanted = wanted.filter(|wanted| !same || before != Some(*wanted));
        fitted(expr, wanted).map_err(|error| error.at(position))
    }
}

impl TypeNames for Binder<'_> {
    fn type_named(&mut self, parts: &[String], span: Span) -> Result<Option<Declared>> {
        let found = match (self.kept, self.type_in_view(parts)) {
            (true, _) => match user_types::kept_name(parts) {
                Some(name) => self.catalog.stored_type(&name)?,
                None => None,
            },
            (false, Some(name)) => self.catalog.stored_type(&name)?,
            (false, None) => self.catalog.type_named(parts)?,
        };
        let Some(found) = found else { return Ok(None) };
        self.once |= !found.settled;
        if let Some(own) = found.used.first() {
            self.note_type(parts, &own.entry);
            self.find_in_text(span, &view::written_type(parts), view_text::FoundForm::Type);
        }
        found.used.into_iter().for_each(|used| self.use_type(used));
        Ok(Some(found.declared))
    }
}

impl Binder<'_> {
    /// Remembers that the statement uses a type that was made.
    fn use_type(&mut self, used: UsedType) {
        if !self.used_types.iter().any(|known| known.entry == used.entry) {
            self.used_types.push(used);
        }
    }
}

/// Fails if a column does not take values of the type that `value` has.
pub(crate) fn assignable(value: &Typed, slot: &Slot) -> Result<()> {
    if cast::context(value.ty, slot.ty).is_some_and(|needed| needed <= CastContext::Assignment) {
        return Ok(());
    }
    let (name, ty, given) = (&slot.name, slot.ty.name(), value.ty.name());
    let message = match (&slot.field, &slot.default) {
        (Some(field), _) => {
            format!("subfield \"{field}\" is of type {ty} but expression is of type {given}")
        }
        (None, Some(_)) => {
            format!("column \"{name}\" is of type {ty} but expression is of type {given}")
        }
        (None, None) => format!(
            "subscripted assignment to \"{name}\" requires type {ty} but expression is of type \
             {given}"
        ),
    };
    Err(SqlError::new(code::DATATYPE_MISMATCH, message)
        .hint("You will need to rewrite or cast the expression.")
        .at(value.position))
}

/// The error for DEFAULT in place of a part of a column.
pub(crate) fn no_default(of_field: bool) -> SqlError {
    let part = if of_field { "a subfield" } else { "an array element" };
    let message = format!("cannot set {part} to DEFAULT");
    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
}

/// `expr` as an assignment to a column that declares `modifier`. A constant is fitted at once.
fn fitted(expr: Expr, modifier: Option<Modifier>) -> Result<Expr> {
    match (expr, modifier) {
        (expr, None) => Ok(expr),
        (Expr::Const(value), Some(modifier)) => modifier.fit(value, false).map(Expr::Const),
        (expr, Some(modifier)) => Ok(Expr::Fit(Box::new(expr), modifier, false)),
    }
}

/// A value of `char(n)` as it is read: filled up with blanks.
pub(crate) fn padded(expr: Expr, modifier: Option<Modifier>) -> Expr {
    match modifier {
        Some(Modifier::Char(length)) => Expr::Pad(Box::new(expr), length),
        _ => expr,
    }
}

/// A value of `char(n)` as it is compared and as text: without the blanks it ends in.
pub(crate) fn trimmed(expr: Expr) -> Expr {
    match expr {
        Expr::Pad(inner, _) => *inner,
        Expr::Const(Datum::Text(text)) => {
            Expr::Const(Datum::Text(text.trim_end_matches(' ').to_owned()))
        }
        Expr::Const(value) => Expr::Const(value),
        other => Expr::Cast(Box::new(other), SqlType::Bpchar),
    }
}

/// A cast of a constant is made once, unless it depends on the session, or fails: then it fails
/// when it is evaluated.
fn cast_now(expr: Expr, to: SqlType) -> Expr {
    match expr {
        Expr::Const(value) if !cast::depends_on_session(&value, to) => {
            match cast::cast(value.clone(), to, &Times::utc()) {
                Ok(cast) => Expr::Const(cast),
                Err(_) => Expr::Cast(Box::new(Expr::Const(value)), to),
            }
        }
        other => Expr::Cast(Box::new(other), to),
    }
}
