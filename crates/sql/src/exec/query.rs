//! Filters, projections, limits.
//!
//! Invariants: a projection that calls a volatile function, or makes values that may be long, goes
//! row by row, and hands on what it has when that is long.
//! Does not do: opening what they get rows from (`open`).

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::{Result, SqlError, code};
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::exec::columns::{evaluate, is_steady, passing};
use crate::exec::vector::Vector;
use crate::exec::{Operator, RowsOf};
use crate::expr::{Context, Expr, SortKey, held};
use crate::plan::node::{Node, Op};
use crate::types::{Datum, Row};

/// LIMIT and OFFSET of one execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) skip: u64,
    pub(crate) take: Option<u64>,
}

impl Limits {
    pub(crate) fn of(
        limit: &Option<Expr>,
        offset: &Option<Expr>,
        context: &Context,
    ) -> Result<Limits> {
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
        let take = count(limit, "LIMIT", code::INVALID_ROW_COUNT)?;
        let skip = count(offset, "OFFSET", code::INVALID_OFFSET)?.unwrap_or(0);
        Ok(Limits { skip, take })
    }

    /// Rows that are needed at most before the skipped ones are gone.
    pub(crate) fn most(self) -> Option<u64> {
        self.take.map(|take| take.saturating_add(self.skip))
    }
}

pub(super) struct Filter {
    node: Arc<Node>,
    input: Box<dyn Operator>,
}

impl Filter {
    pub(super) fn new(node: &Arc<Node>, input: Box<dyn Operator>) -> Filter {
        Filter { node: Arc::clone(node), input }
    }
}

impl Operator for Filter {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let Op::Filter { condition, .. } = &self.node.op else {
            unreachable!("opened for a filter")
        };
        while let Some(batch) = self.input.next(most, context)? {
            let kept = filtered(condition, batch, context)?;
            if kept.len > 0 {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }
}

/// The rows of a batch for which a condition is true.
pub(crate) fn filtered(condition: &Expr, batch: Batch, context: &Context) -> Result<Batch> {
    context.check()?;
    let rows = passing(condition, &batch, context)?;
    Ok(batch.keep(&rows))
}

pub(super) struct Project {
    node: Arc<Node>,
    input: Box<dyn Operator>,
    /// May it go column by column?
    steady: bool,
    /// Rows of the input that are not projected yet, from `at` on.
    pending: Batch,
    at: usize,
    /// Bytes that are counted for the rows that were handed on last.
    counted: usize,
}

impl Project {
    /// Of these values.
    pub(super) fn new(node: &Arc<Node>, output: &[Expr], input: Box<dyn Operator>) -> Project {
        let steady = output.iter().all(is_steady);
        let (node, pending) = (Arc::clone(node), Batch::default());
        Project { node, input, steady, pending, at: 0, counted: 0 }
    }

    /// Projects pending rows, one by one.
    fn some(&mut self, most: usize, context: &Context) -> Result<Batch> {
        let Op::Project { output, .. } = &self.node.op else {
            unreachable!("opened for a projection")
        };
        let left = self.pending.len - self.at;
        let mut made = Batch::with_width(output.len(), left.min(most));
        let (mut row, mut bytes) = (Row::new(), 0);
        while self.at < self.pending.len && made.len < most && bytes < BYTES {
            self.pending.read_row(self.at, &mut row);
            self.at += 1;
            let values = project(output, &row, context)?;
            let long = 2 * held::long_bytes(&values);
            if long > 0 {
                // The rows are there until the next ones are wanted, and so is what they become.
                context.held.add_bytes(long)?;
                self.counted += long;
            }
            bytes += values.iter().map(Datum::heap_bytes).sum::<usize>();
            made.push(values);
        }
        Ok(made)
    }
}

impl Operator for Project {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        context.held.give(std::mem::take(&mut self.counted));
        if self.at == self.pending.len {
            (self.pending, self.at) = (Batch::default(), 0);
            let Some(batch) = self.input.next(most, context)? else { return Ok(None) };
            if self.steady {
                return columns(&self.node, batch, context).map(Some);
            }
            (self.pending, self.at) = (batch, 0);
        }
        self.some(most.min(ROWS), context).map(Some)
    }
}

/// Projects a batch column by column.
fn columns(node: &Node, batch: Batch, context: &Context) -> Result<Batch> {
    let Op::Project { output, .. } = &node.op else { unreachable!("opened for a projection") };
    context.check()?;
    let mut made = Vec::with_capacity(output.len());
    for expr in output {
        made.push(match expr {
            Expr::Column(_) => None,
            expr => Some(evaluate(expr, &batch, context)?.into_owned()),
        });
    }
    let Batch { len, columns } = batch;
    // A column that is named once goes on as it is.
    let mut left: Vec<Option<Vector>> = columns.into_iter().map(Some).collect();
    let mut uses = vec![0usize; left.len()];
    for expr in output {
        if let Expr::Column(at) = expr {
            uses[*at] += 1;
        }
    }
    let columns = output.iter().zip(made).map(|(expr, made)| match (expr, made) {
        (Expr::Column(at), _) => {
            uses[*at] -= 1;
            let column = if uses[*at] == 0 { left[*at].take() } else { left[*at].clone() };
            column.expect("it is let go with its last use")
        }
        (_, made) => made.expect("it was evaluated"),
    });
    Ok(Batch { len, columns: columns.collect() })
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
    let mut orders = keys.iter().map(|key| compare_by(&a[key.at], &b[key.at], key));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Order of two values of the column of a key.
pub(super) fn compare_by(x: &Datum, y: &Datum, key: &SortKey) -> Ordering {
    match (x, y) {
        (Datum::Text(x), Datum::Text(y)) => {
            compare_known(Some(&**x), Some(&**y), key, |x, y| compare_texts(x, y, key))
        }
        _ => {
            let known = |value| Some(value).filter(|value: &&Datum| !value.is_null());
            compare_known(known(x), known(y), key, Datum::compare)
        }
    }
}

/// The order of two values of the column of a key, where a null is `None` and `compare` knows the
/// order of two others.
pub(super) fn compare_known<T>(
    x: Option<T>,
    y: Option<T>,
    key: &SortKey,
    compare: impl FnOnce(T, T) -> Ordering,
) -> Ordering {
    let nulls_last = |order: Ordering| if key.nulls_first { order.reverse() } else { order };
    match (x, y) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => nulls_last(Ordering::Greater),
        (Some(_), None) => nulls_last(Ordering::Less),
        (Some(x), Some(y)) if key.descending => compare(x, y).reverse(),
        (Some(x), Some(y)) => compare(x, y),
    }
}

/// Order of two texts of the column of a key, but for its direction.
pub(super) fn compare_texts(x: &str, y: &str, key: &SortKey) -> Ordering {
    let end: &[char] = if key.padded { &[' '] } else { &[] };
    let (x, y) = (x.trim_end_matches(end), y.trim_end_matches(end));
    match &key.collation {
        Some(collation) => collation.compare(x, y),
        None => x.cmp(y),
    }
}

pub(super) struct Cut {
    input: Box<dyn Operator>,
    limits: Limits,
}

impl Cut {
    pub(super) fn new(input: Box<dyn Operator>, limits: Limits) -> Cut {
        Cut { input, limits }
    }
}

impl Operator for Cut {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        loop {
            let left = self.limits.most().unwrap_or(u64::MAX);
            if self.limits.take == Some(0) {
                return Ok(None);
            }
            let wanted = self.limits.skip.saturating_add(most as u64).min(left);
            let wanted = usize::try_from(wanted).unwrap_or(ROWS).min(ROWS);
            let Some(mut batch) = self.input.next(wanted, context)? else { return Ok(None) };
            let skipped = self.limits.skip.min(batch.len as u64);
            self.limits.skip -= skipped;
            batch = batch.skip(skipped as usize);
            if let Some(take) = &mut self.limits.take {
                batch = batch.truncate(usize::try_from(*take).unwrap_or(usize::MAX));
                *take -= batch.len as u64;
            }
            if batch.len > 0 {
                return Ok(Some(batch));
            }
        }
    }
}

/// FETCH .. WITH TIES: also the rows that come out like the last one.
pub(super) struct WithTies {
    input: RowsOf,
    keys: Vec<SortKey>,
    limits: Limits,
    last: Option<Row>,
}

impl WithTies {
    /// Rows come in the order of these keys.
    pub(super) fn new(input: Box<dyn Operator>, keys: &[SortKey], limits: Limits) -> WithTies {
        WithTies { input: RowsOf::new(input), keys: keys.to_vec(), limits, last: None }
    }
}

impl super::Stream for WithTies {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        while self.limits.skip > 0 {
            self.limits.skip -= 1;
            if self.input.next(ROWS, context)?.is_none() {
                self.limits.skip = 0;
                return Ok(None);
            }
        }
        match &mut self.limits.take {
            Some(0) => {
                let Some(last) = &self.last else { return Ok(None) };
                let row = self.input.next(most, context)?;
                let ties = |row: &Row| compare(last, row, &self.keys).is_eq();
                return Ok(row.filter(ties).or_else(|| {
                    self.last = None;
                    None
                }));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let row = self.input.next(most, context)?;
        if self.limits.take == Some(0) {
            self.last.clone_from(&row);
        }
        Ok(row)
    }
}
