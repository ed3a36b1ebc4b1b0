//! Rows of tables, lists and series.
//!
//! Invariants: a row has the columns that the plan's scan names, in its order.
//! Does not do: filters that are not the scan's own.

use std::sync::Arc;

use rightlink::{Rows, ScanOptions, Transaction};

use crate::catalog::views;
use crate::error::{Result, SqlError, code};
use crate::exec::query::project;
use crate::exec::{Pace, Ready, Stream};
use crate::expr::probe::{Probe, Stage};
use crate::expr::{Context, Expr};
use crate::plan::path::{IndexPath, Path};
use crate::plan::{Select, Source, TableScan};
use crate::types::{Datum, Decimal, Row, SqlType, calendar, numeric};

/// What the engine is asked for; `None` if no row can match.
pub(crate) fn scan_options(scan: &TableScan, context: &Context) -> Result<Option<ScanOptions>> {
    let names = scan.columns.iter().map(|at| scan.table.info.columns[*at].name.as_str());
    Ok(place_options(scan, context)?.map(|options| options.columns(names)))
}

/// The same for rows of which only their places are asked.
pub(crate) fn place_options(scan: &TableScan, context: &Context) -> Result<Option<ScanOptions>> {
    let options = match &scan.path {
        Path::Sequential => Some(ScanOptions::all()),
        Path::Tid(place) => match place.eval(&[], context)? {
            Datum::Tid(id) => Some(ScanOptions::at(id)),
            _ => None,
        },
        Path::Index(path) => path.options(context)?,
    };
    Ok(options.map(|options| {
        let read_ahead = context.settings.read_ahead(options.index.is_some());
        ScanOptions { read_ahead, columns: Some(Vec::new()), ..options }
    }))
}

/// The row that there may be, or two where the transaction sees two under one unique key: nothing
/// goes on afterwards that would have to be set up.
fn rows_of_key(
    scan: &TableScan,
    path: &IndexPath,
    txn: &mut Transaction,
    context: &Context,
) -> Result<Vec<Row>> {
    let Some(key) = path.key(context)? else { return Ok(Vec::new()) };
    let (table, index) = (&scan.table.info.name, &path.index.name);
    let found = txn.rows_of_key(table, index, &key, &scan.columns)?;
    let mut rows = Vec::new();
    for row in found.into_iter().flatten() {
        let row = convert(row, scan.with_tid)?;
        match &scan.filter {
            Some(filter) if !filter.holds(&row, context)? => {}
            _ => rows.push(row),
        }
    }
    Ok(rows)
}

/// Rows of a table.
pub(crate) struct TableRows {
    rows: Rows,
    with_tid: bool,
    filter: Option<Expr>,
    pace: Pace,
    /// Who wants to know what was left out and what reading did.
    probe: Option<(Probe, usize)>,
    removed: u64,
}

impl TableRows {
    pub(crate) fn new(rows: Rows, scan: &TableScan, context: &Context) -> TableRows {
        let probe = context.probe.clone().map(|probe| {
            let depth = probe.depth();
            (probe, depth)
        });
        let (with_tid, filter) = (scan.with_tid, scan.filter.clone());
        TableRows { rows, with_tid, filter, pace: Pace::default(), probe, removed: 0 }
    }
}

impl Drop for TableRows {
    fn drop(&mut self) {
        if let Some((probe, depth)) = &self.probe {
            let (stats, removed) = (self.rows.stats(), self.removed);
            probe.note((*depth, Stage::Source), |figures| {
                figures.reads = Some(stats);
                figures.removed = removed;
            });
        }
    }
}

/// A row of the engine as a row here.
pub(crate) fn convert(row: rightlink::Row, with_tid: bool) -> Result<Row> {
    let strange = |value: &rightlink::Value| match value {
        rightlink::Value::Decimal(number) => !number.is_finite(),
        _ => false,
    };
    if row.values.iter().any(strange) {
        return Err(SqlError::unsupported("NaN or infinity as numeric"));
    }
    let mut values = Vec::with_capacity(row.values.len() + usize::from(with_tid));
    values.extend(row.values.into_iter().map(Datum::from));
    if with_tid {
        values.push(Datum::Tid(row.id));
    }
    Ok(values)
}

impl Stream for TableRows {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        for row in self.rows.by_ref() {
            self.pace.step(context)?;
            let row = convert(row?, self.with_tid)?;
            match &self.filter {
                Some(filter) if !filter.holds(&row, context)? => self.removed += 1,
                _ => return Ok(Some(row)),
            }
        }
        Ok(None)
    }
}

/// Rows of VALUES.
struct ValuesRows {
    select: Arc<Select>,
    at: usize,
}

impl Stream for ValuesRows {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        let Source::Values(rows) = &self.select.source else {
            unreachable!("opened for a list of values")
        };
        let Some(row) = rows.get(self.at) else { return Ok(None) };
        self.at += 1;
        project(row, &[], context).map(Some)
    }
}

/// `generate_series`.
struct Series {
    next: Option<Datum>,
    stop: Datum,
    step: Datum,
    backward: bool,
    pace: Pace,
}

impl Series {
    fn open(args: &[Expr], ty: SqlType, context: &Context) -> Result<Box<dyn Stream>> {
        let mut values =
            args.iter().map(|arg| arg.eval(&[], context)).collect::<Result<Vec<_>>>()?;
        if values.iter().any(Datum::is_null) {
            return Ok(Box::new(Ready::new(Vec::new())));
        }
        if values.len() == 2 {
            values.push(match ty {
                SqlType::Int4 => Datum::Int4(1),
                SqlType::Int8 => Datum::Int8(1),
                SqlType::Numeric => Datum::Numeric(Decimal::from(1)),
                _ => return Err(SqlError::syntax("generate_series of times needs a step")),
            });
        }
        let [start, stop, step]: [Datum; 3] = values.try_into().expect("two or three arguments");
        let (zero, backward) = match &step {
            Datum::Numeric(step) => (step.is_zero(), step.is_negative()),
            Datum::Interval(step) => (step.total_micros() == 0, step.total_micros() < 0),
            other => (other.as_int() == Some(0), other.as_int().is_some_and(|step| step < 0)),
        };
        if zero {
            return Err(SqlError::new(code::INVALID_PARAMETER, "step size cannot equal zero"));
        }
        Ok(Box::new(Series { next: Some(start), stop, step, backward, pace: Pace::default() }))
    }

    /// The number after `value`; none past the end of its type.
    fn after(&self, value: &Datum) -> Result<Option<Datum>> {
        Ok(match (value, &self.step) {
            (Datum::Int4(a), Datum::Int4(b)) => a.checked_add(*b).map(Datum::Int4),
            (Datum::Int8(a), Datum::Int8(b)) => a.checked_add(*b).map(Datum::Int8),
            (Datum::Numeric(a), Datum::Numeric(b)) => Some(Datum::Numeric(numeric::add(a, b)?)),
            (Datum::Timestamp(a), Datum::Interval(b)) => {
                Some(Datum::Timestamp(calendar::add(*a, *b)?))
            }
            (Datum::Timestamptz(a), Datum::Interval(b)) => {
                Some(Datum::Timestamptz(calendar::add(*a, *b)?))
            }
            _ => unreachable!("the binder casts the arguments"),
        })
    }
}

impl Stream for Series {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        self.pace.step(context)?;
        let Some(value) = self.next.take() else { return Ok(None) };
        let order = value.compare(&self.stop);
        if if self.backward { order.is_lt() } else { order.is_gt() } {
            return Ok(None);
        }
        self.next = self.after(&value)?;
        Ok(Some(vec![value]))
    }
}

/// Opens the source of a query. `limit` is the most rows that will be asked for, if the source can
/// know.
pub(crate) fn open(
    select: &Arc<Select>,
    txn: &mut Transaction,
    context: &Context,
    (budget, limit): (&rightlink::Budget, Option<u64>),
) -> Result<Box<dyn Stream>> {
    match &select.source {
        Source::Nothing => Ok(Box::new(Ready::new(vec![Vec::new()]))),
        Source::Values(_) => Ok(Box::new(ValuesRows { select: Arc::clone(select), at: 0 })),
        Source::Series(args, ty) => Series::open(args, *ty, context),
        Source::View(view, args) => {
            let args = args.iter().map(|arg| arg.eval(&[], context)).collect::<Result<Vec<_>>>()?;
            let rows = views::rows(view, &args, txn, context)?;
            Ok(Box::new(Ready::new(rows)))
        }
        Source::Query(query) => {
            let mut query = (**query).clone();
            if !takes_all(select) {
                expect_nothing(&mut query);
            }
            let query = Arc::new(query);
            match &context.probe {
                Some(probe) => probe.inside(|| super::query::open(&query, txn, context, budget)),
                None => super::query::open(&query, txn, context, budget),
            }
        }
        Source::Table(scan) => {
            if let Some(path) = scan.one_key().filter(|_| context.probe.is_none()) {
                let rows = rows_of_key(scan, path, txn, context)?;
                return Ok(Box::new(Ready::new(rows)));
            }
            let Some(mut options) = scan_options(scan, context)? else {
                return Ok(Box::new(Ready::new(Vec::new())));
            };
            options.limit = limit;
            options.any_order = options.index.is_some() && limit.is_none() && gathers(select);
            if !takes_all(select) {
                options.expected_rows = None;
            }
            let rows = txn.scan(&scan.table.info.name, &options)?;
            Ok(Box::new(TableRows::new(rows, scan, context)))
        }
    }
}

/// Does the query take all rows of its source before it gives one?
fn gathers(select: &Select) -> bool {
    select.group.is_some() || (!select.sort.is_empty() && !select.ordered)
}

/// Does the query take all rows of its source, if it is read to its end?
pub(crate) fn takes_all(select: &Select) -> bool {
    select.limit.is_none() || gathers(select)
}

/// The rows of a subquery may not all be taken: its scan is not told how many to expect.
fn expect_nothing(select: &mut Select) {
    match &mut select.source {
        Source::Query(query) => expect_nothing(query),
        Source::Table(scan) => {
            if let Path::Index(path) = &mut scan.path {
                path.expected = None;
            }
        }
        _ => {}
    }
}
