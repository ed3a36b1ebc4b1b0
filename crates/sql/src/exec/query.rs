//! Streams on streams: filter, projection, limits, and the others in their order.
//!
//! Invariants: rows come out with the visible columns only. Does not do: groups (`group`),
//! duplicates (`unique`), order (`sort`).

use std::cmp::Ordering;
use std::sync::Arc;

use rightlink::{Budget, Transaction};

use crate::error::{Result, SqlError, code};
use crate::exec::group::Grouped;
use crate::exec::sort::Sort;
use crate::exec::unique::{Unique, UniqueOn};
use crate::exec::{Stream, source, watched};
use crate::expr::probe::Stage;
use crate::expr::{Context, Expr, held};
use crate::plan::{Distinct, Select, SortKey};
use crate::types::{Datum, Row};

/// Opens a query.
pub(crate) fn open(
    select: &Arc<Select>,
    txn: &mut Transaction,
    context: &Context,
    budget: &Budget,
) -> Result<Box<dyn Stream>> {
    let limits = Limits::of(select, context)?;
    let needs_sort = !select.sort.is_empty() && !select.ordered;
    let direct = !needs_sort && select.group.is_none() && select.distinct == Distinct::None;
    let pushed = match &select.source {
        crate::plan::Source::Table(scan) if direct && scan.filter.is_none() => limits.most(),
        _ => None,
    };
    let mut stream = source::open(select, txn, context, (budget, pushed))?;
    if select.filter.is_some() {
        stream = Box::new(Filter { select: Arc::clone(select), input: stream });
    }
    stream = watched(stream, Stage::Source, context);
    if select.group.is_some() {
        stream = Box::new(Grouped::new(select, stream, budget));
        stream = watched(stream, Stage::Group, context);
    }
    stream = Box::new(Project { select: Arc::clone(select), input: stream, counted: 0 });
    if select.distinct == Distinct::All {
        assert!(!select.ordered, "a plan without duplicates asks no index for its order");
        stream = Box::new(Unique::new(stream, budget));
        stream = watched(stream, Stage::Distinct, context);
    }
    if needs_sort {
        let top = limits.most().filter(|_| !matches!(select.distinct, Distinct::On(_)));
        let sort = Sort::new(&select.sort, stream, budget, top);
        stream = watched(Box::new(sort), Stage::Sort, context);
    }
    if let Distinct::On(places) = &select.distinct {
        stream = Box::new(UniqueOn::new(stream, &select.sort, places));
        stream = watched(stream, Stage::Unique, context);
    }
    let cut = Box::new(Cut { input: stream, limits, width: select.columns.len() });
    Ok(watched(cut, Stage::Limit, context))
}

/// LIMIT and OFFSET of one execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) skip: u64,
    pub(crate) take: Option<u64>,
}

impl Limits {
    pub(crate) fn of(select: &Select, context: &Context) -> Result<Limits> {
        let count = |expr: &Option<Expr>, name: &str, sqlstate| -> Result<Option<u64>> {
            let Some(expr) = expr else { return Ok(None) };
            match expr.eval(&[], context)? {
                Datum::Null => Ok(None),
                other => match u64::try_from(other.as_int().unwrap_or(-1)) {
                    Ok(count) => Ok(Some(count)),
                    Err(_) => Err(SqlError::new(sqlstate, format!("{name} must not be negative"))),
                },
            }
        };
        let take = count(&select.limit, "LIMIT", code::INVALID_ROW_COUNT)?;
        let skip = count(&select.offset, "OFFSET", code::INVALID_OFFSET)?.unwrap_or(0);
        Ok(Limits { skip, take })
    }

    /// Rows that are needed at most before the skipped ones are gone.
    pub(crate) fn most(self) -> Option<u64> {
        self.take.map(|take| take.saturating_add(self.skip))
    }
}

struct Filter {
    select: Arc<Select>,
    input: Box<dyn Stream>,
}

impl Stream for Filter {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        let filter = self.select.filter.as_ref().expect("opened for a filter");
        while let Some(row) = self.input.next(context)? {
            if filter.holds(&row, context)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

struct Project {
    select: Arc<Select>,
    input: Box<dyn Stream>,
    /// Bytes that are counted for the row that was handed on last.
    counted: usize,
}

impl Stream for Project {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        context.held.give(std::mem::take(&mut self.counted));
        let Some(row) = self.input.next(context)? else { return Ok(None) };
        let output = project(&self.select.output, &row, context)?;
        // The row is there until the next one is wanted, and so is the message that it becomes.
        let counted = 2 * held::long_bytes(&output);
        if counted > 0 {
            context.held.add_bytes(counted)?;
            self.counted = counted;
        }
        Ok(Some(output))
    }
}

/// The values of `output` over `row`.
pub(crate) fn project(output: &[Expr], row: &[Datum], context: &Context) -> Result<Row> {
    values(output.iter(), row, context)
}

/// The values of several expressions over `row`, which are held at once.
pub(crate) fn values<'e>(
    exprs: impl ExactSizeIterator<Item = &'e Expr>,
    row: &[Datum],
    context: &Context,
) -> Result<Row> {
    let mark = context.held.mark();
    let mut values = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let value = expr.eval(row, context)?;
        context.held.add(&value)?;
        values.push(value);
    }
    context.held.back_to(mark);
    Ok(values)
}

/// Order of two output rows.
pub(crate) fn compare(a: &[Datum], b: &[Datum], keys: &[SortKey]) -> Ordering {
    for key in keys {
        let (x, y) = (&a[key.at], &b[key.at]);
        let order = match (x.is_null(), y.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let order = match (x, y) {
                    (Datum::Text(x), Datum::Text(y)) if key.collation.is_some() => {
                        let end: &[char] = if key.padded { &[' '] } else { &[] };
                        let (x, y) = (x.trim_end_matches(end), y.trim_end_matches(end));
                        key.collation.as_ref().map_or(Ordering::Equal, |known| known.compare(x, y))
                    }
                    (Datum::Text(x), Datum::Text(y)) if key.padded => {
                        x.trim_end_matches(' ').cmp(y.trim_end_matches(' '))
                    }
                    _ => x.compare(y),
                };
                if key.descending { order.reverse() } else { order }
            }
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

struct Cut {
    input: Box<dyn Stream>,
    limits: Limits,
    width: usize,
}

impl Stream for Cut {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        while self.limits.skip > 0 {
            self.limits.skip -= 1;
            if self.input.next(context)?.is_none() {
                self.limits.skip = 0;
                return Ok(None);
            }
        }
        match &mut self.limits.take {
            Some(0) => return Ok(None),
            Some(left) => *left -= 1,
            None => {}
        }
        let row = self.input.next(context)?;
        Ok(row.map(|mut row| {
            row.truncate(self.width);
            row
        }))
    }
}
