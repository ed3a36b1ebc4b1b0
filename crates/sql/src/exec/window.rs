//! Window functions: a partition at a time.
//!
//! The rows of a partition are gathered, every call is computed over them, and they go on. Rows,
//! what aggregates take of them and what calls give are lists, which go to files beyond their share
//! of the budget (`list`).
//!
//! Invariants: both bounds of a frame only move forward from one row to the next, so that files are
//! read forward; what is held is counted.
//! Does not do: windows that only number and rank their rows (`ranked`); the state of one
//! aggregate, or long values of a partition, beyond the memory budget, which fail with `53200`:
//! values that grow from row to row would fill the disk.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::list::{List, Listing};
use crate::exec::memory::Memory;
use crate::exec::query::compare;
use crate::exec::{Ready, RowsOf, Stream};
use crate::expr::aggregate::{Aggregate, Input};
use crate::expr::{Context, Expr};
use crate::plan::node::{Node, Op};
use crate::plan::window::{
    Bound, Distance, Exclusion, Frame, Offset, Units, Window, WindowCall, WindowFunction,
};
use crate::types::{Datum, Row};

/// Rows with what window functions give.
pub(super) struct Windowed {
    node: Arc<Node>,
    input: RowsOf,
    /// The first row of the next partition.
    ahead: Option<Row>,
    /// Rows of this one that are done.
    done: Done,
}

/// Rows of a partition with what its calls give.
enum Done {
    Memory(Ready, #[expect(dead_code, reason = "counts the rows")] Vec<Memory>),
    /// The rows, the values of each call, and the number of the next row.
    Lists(List<Row>, Vec<List<Datum>>, usize),
}

impl Windowed {
    pub(super) fn new(node: &Arc<Node>, input: RowsOf) -> Windowed {
        let done = Done::of_rows(Vec::new(), Vec::new());
        Windowed { node: Arc::clone(node), input, ahead: None, done }
    }

    /// The rows of the next partition; `None` at the end.
    fn gather(
        &mut self,
        window: &Window<WindowCall>,
        context: &Context,
    ) -> Result<Option<List<Row>>> {
        let first = match self.ahead.take() {
            Some(row) => Some(row),
            None => self.input.next(ROWS, context)?,
        };
        let Some(first) = first else { return Ok(None) };
        let mut rows = Listing::new(context);
        rows.push(first.clone(), context)?;
        while let Some(row) = self.input.next(ROWS, context)? {
            if compare(&first, &row, &window.partition).is_ne() {
                self.ahead = Some(row);
                break;
            }
            rows.push(row, context)?;
        }
        rows.finish(context).map(Some)
    }
}

impl Done {
    fn of_rows(rows: Vec<Row>, memory: Vec<Memory>) -> Done {
        Done::Memory(Ready::new(rows), memory)
    }

    /// Rows and values of their calls.
    fn of(rows: List<Row>, columns: Vec<List<Datum>>) -> Done {
        let is_small = |column: &List<Datum>| matches!(column, List::Memory(_));
        if !columns.iter().all(is_small) {
            return Done::Lists(rows, columns, 0);
        }
        let rows = match rows.into_items() {
            Ok(rows) => rows,
            Err(rows) => return Done::Lists(rows, columns, 0),
        };
        let (mut all, mut memory) = (rows.all, vec![rows.memory]);
        for column in columns {
            let values = column.into_items().unwrap_or_else(|_| unreachable!("nobody reads it"));
            all.iter_mut().zip(values.all).for_each(|(row, value)| row.push(value));
            memory.push(values.memory);
        }
        Done::of_rows(all, memory)
    }

    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        let (rows, columns, at) = match self {
            Done::Memory(rows, _) => return Ok(rows.take()),
            Done::Lists(rows, _, at) if *at == rows.len() => return Ok(None),
            Done::Lists(rows, columns, at) => (rows, columns, at),
        };
        let mut row = rows.get(*at, context)?;
        for column in columns {
            row.push(column.get(*at, context)?);
        }
        *at += 1;
        Ok(Some(row))
    }
}

impl Stream for Windowed {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        let node = Arc::clone(&self.node);
        let Op::Window { window, .. } = &node.op else { unreachable!("opened for a window") };
        if let Some(row) = self.done.next(context)? {
            return Ok(Some(row));
        }
        // What the partition before took is there for this one.
        self.done = Done::of_rows(Vec::new(), Vec::new());
        let Some(rows) = self.gather(window, context)? else { return Ok(None) };
        let mut columns = Vec::with_capacity(window.calls.len());
        let partition = Partition::new(&rows, window, context)?;
        for call in &window.calls {
            let long = Memory::new(&context.budget());
            let mut column = Column { values: Listing::new(context), long, context };
            partition.fill(call, &mut column)?;
            assert_eq!(column.values.len(), rows.len(), "each row has a value");
            columns.push(column.values.finish(context)?);
        }
        drop(partition);
        self.done = Done::of(rows, columns);
        self.done.next(context)
    }
}

/// Bytes of a value that is long.
const LONG: usize = 4 << 10;

/// What a call gives for the rows of a partition.
struct Column<'m> {
    values: Listing<Datum>,
    /// Counts those in files that are long.
    long: Memory,
    context: &'m Context,
}

impl Column<'_> {
    fn push(&mut self, value: Datum) -> Result<()> {
        let bytes = value.heap_bytes();
        self.context.spend(bytes + size_of::<Datum>())?;
        if bytes >= LONG && self.values.is_in_files() {
            self.long.charge(bytes)?;
        }
        self.values.push(value, self.context)
    }
}

/// The rows of a partition in order.
struct Partition<'p> {
    rows: &'p List<Row>,
    /// Where rows begin that are equal in the order, and behind all the end.
    groups: List<usize>,
    /// Of each row the number of its group.
    group_of: List<usize>,
    context: &'p Context,
}

impl<'p> Partition<'p> {
    fn new(rows: &'p List<Row>, window: &Window<WindowCall>, context: &'p Context) -> Result<Self> {
        let (mut groups, mut group_of) = (Listing::new(context), Listing::new(context));
        let mut last: Option<Row> = None;
        for at in 0..rows.len() {
            context.spend(1)?;
            let begins = |row: &Row| {
                let same =
                    last.as_ref().is_some_and(|last| compare(last, row, &window.order).is_eq());
                (!same).then(|| row.clone())
            };
            if let Some(row) = rows.with(at, context, begins)? {
                groups.push(at, context)?;
                last = Some(row);
            }
            group_of.push(groups.len() - 1, context)?;
        }
        groups.push(rows.len(), context)?;
        let (groups, group_of) = (groups.finish(context)?, group_of.finish(context)?);
        Ok(Partition { rows, groups, group_of, context })
    }

    /// The number of the group of a row.
    fn group_of(&self, at: usize) -> Result<usize> {
        self.group_of.get(at, self.context)
    }

    /// Where a group begins.
    fn begin(&self, group: usize) -> Result<usize> {
        self.groups.get(group, self.context)
    }

    /// Puts the value of a call for each row into `out`.
    fn fill(&self, call: &WindowCall, out: &mut Column<'_>) -> Result<()> {
        let count = self.rows.len();
        let first = |at: usize| self.begin(self.group_of(at)?);
        let behind = |at: usize| self.begin(self.group_of(at)? + 1);
        let mut all = |value: &dyn Fn(usize) -> Result<Datum>| {
            (0..count).try_for_each(|at| out.push(value(at)?))
        };
        match &call.function {
            WindowFunction::RowNumber => all(&|at| Ok(int8(at + 1))),
            WindowFunction::Rank => all(&|at| Ok(int8(first(at)? + 1))),
            WindowFunction::DenseRank => all(&|at| Ok(int8(self.group_of(at)? + 1))),
            WindowFunction::PercentRank => all(&|at| {
                let others = count.saturating_sub(1).max(1);
                Ok(Datum::Float8(first(at)? as f64 / others as f64))
            }),
            WindowFunction::CumeDist => {
                all(&|at| Ok(Datum::Float8(behind(at)? as f64 / count as f64)))
            }
            WindowFunction::Ntile => self.buckets(&call.args[0], out),
            WindowFunction::Lag | WindowFunction::Lead => self.neighbours(call, out),
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                self.picked(call, out)
            }
            WindowFunction::Aggregate(aggregate) => self.aggregated(aggregate, &call.frame, out),
        }
    }

    fn eval(&self, expr: &Expr, at: usize) -> Result<Datum> {
        eval_at(self.rows, expr, at, self.context)
    }

    /// `ntile`: numbers of parts that differ by one row at most.
    fn buckets(&self, parts: &Expr, out: &mut Column<'_>) -> Result<()> {
        let count = self.rows.len();
        let Some(parts) = self.eval(parts, 0)?.as_int() else {
            return (0..count).try_for_each(|_| out.push(Datum::Null));
        };
        let parts = usize::try_from(parts).ok().filter(|parts| *parts > 0).ok_or_else(|| {
            SqlError::new(code::INVALID_NTILE, "argument of ntile must be greater than zero")
        })?;
        let (size, longer) = (count / parts, count % parts);
        let bucket = |at: usize| match at < longer * (size + 1) {
            true => at / (size + 1),
            // Only reached if parts have rows beyond the longer ones.
            false => longer + (at - longer * (size + 1)) / size.max(1),
        };
        (0..count).try_for_each(|at| out.push(Datum::Int4(bucket(at) as i32 + 1)))
    }

    /// `lag` and `lead`.
    fn neighbours(&self, call: &WindowCall, out: &mut Column<'_>) -> Result<()> {
        let back = matches!(call.function, WindowFunction::Lag);
        let others = self.rows.again(self.context)?;
        for at in 0..self.rows.len() {
            let offset = match call.args.get(1) {
                None => Some(1),
                Some(offset) => self.eval(offset, at)?.as_int(),
            };
            let Some(offset) = offset else {
                out.push(Datum::Null)?;
                continue;
            };
            let place = at as i64 + if back { -offset } else { offset };
            let found = usize::try_from(place).ok().filter(|place| *place < self.rows.len());
            out.push(match (found, call.args.get(2)) {
                (Some(place), _) => eval_at(&others, &call.args[0], place, self.context)?,
                (None, Some(rest)) => self.eval(rest, at)?,
                (None, None) => Datum::Null,
            })?;
        }
        Ok(())
    }

    /// A row of the frame, which `first_value` and its kind show.
    fn picked(&self, call: &WindowCall, out: &mut Column<'_>) -> Result<()> {
        let frames = Frames::new(self, &call.frame)?;
        let others = self.rows.again(self.context)?;
        for at in 0..self.rows.len() {
            let pieces = frames.pieces(at)?;
            let place = match call.function {
                WindowFunction::FirstValue => pieces.iter().find_map(|piece| piece.clone().next()),
                WindowFunction::LastValue => {
                    pieces.iter().rev().find_map(|piece| piece.clone().next_back())
                }
                _ => match self.eval(&call.args[1], at)?.as_int() {
                    None => None,
                    Some(number) if number > 0 => nth(&pieces, number as usize - 1),
                    Some(_) => {
                        let message = "argument of nth_value must be greater than zero";
                        return Err(SqlError::new(code::INVALID_NTH_VALUE, message));
                    }
                },
            };
            out.push(match place {
                Some(place) => eval_at(&others, &call.args[0], place, self.context)?,
                None => Datum::Null,
            })?;
        }
        Ok(())
    }

    /// An aggregate over the frame of each row. Rows that come into the frame are taken in. Rows
    /// that leave it are taken out where that is exact; otherwise it begins again.
    fn aggregated(&self, aggregate: &Aggregate, frame: &Frame, out: &mut Column<'_>) -> Result<()> {
        let frames = Frames::new(self, frame)?;
        let context = self.context;
        let mut inputs: Listing<Option<Input>> = Listing::new(context);
        for at in 0..self.rows.len() {
            context.spend(1)?;
            let input = self.rows.with(at, context, |row| aggregate.input(row, context))??;
            inputs.push(input, context)?;
        }
        let coming = inputs.finish(context)?;
        if frame.exclusion != Exclusion::Nothing {
            return self.aggregated_pieces(aggregate, &frames, &coming, out);
        }
        let leaving = match frame.start {
            Bound::Unbounded => None,
            _ if !aggregate.can_give_back() => None,
            _ => Some(coming.again(context)?),
        };
        let (mut state, mut taken) = (aggregate.start(), 0..0);
        let mut last: Option<(Range<usize>, Datum)> = None;
        for at in 0..self.rows.len() {
            let frame = frames.of(at)?;
            if let Some((last, value)) = &last
                && *last == frame
            {
                out.push(value.clone())?;
                continue;
            }
            let moves = taken.start <= frame.start && taken.end <= frame.end;
            let leaves = frame.start > taken.start && !frame.is_empty();
            if !moves || frame.start >= taken.end || (leaves && leaving.is_none()) {
                (state, taken) = (aggregate.start(), frame.start..frame.start);
            }
            while taken.start < frame.start {
                context.spend(1)?;
                if let Some(leaving) = &leaving
                    && let Some(input) = leaving.get(taken.start, context)?
                {
                    aggregate.give_back(&mut state, &input);
                }
                taken.start += 1;
            }
            while taken.end < frame.end {
                context.spend(1)?;
                if let Some(input) = coming.get(taken.end, context)? {
                    aggregate.take(&mut state, input)?;
                }
                taken.end += 1;
            }
            let value = aggregate.finish(state.clone())?;
            out.push(value.clone())?;
            last = Some((frame, value));
        }
        Ok(())
    }
}

impl Partition<'_> {
    /// An aggregate over frames with holes: it begins again for each row.
    fn aggregated_pieces(
        &self,
        aggregate: &Aggregate,
        frames: &Frames<'_>,
        inputs: &List<Option<Input>>,
        out: &mut Column<'_>,
    ) -> Result<()> {
        for at in 0..self.rows.len() {
            let mut state = aggregate.start();
            for place in frames.pieces(at)?.into_iter().flatten() {
                self.context.spend(1)?;
                if let Some(input) = inputs.get(place, self.context)? {
                    aggregate.take(&mut state, input)?;
                }
            }
            out.push(aggregate.finish(state)?)?;
        }
        Ok(())
    }
}

/// The value of an expression over a row.
fn eval_at(rows: &List<Row>, expr: &Expr, at: usize, context: &Context) -> Result<Datum> {
    rows.with(at, context, |row| expr.eval(row, context))?
}

/// The row of this number in pieces of a frame.
fn nth(pieces: &[Range<usize>], number: usize) -> Option<usize> {
    let mut left = number;
    for piece in pieces {
        if left < piece.len() {
            return Some(piece.start + left);
        }
        left -= piece.len();
    }
    None
}

/// The frames of the rows of a partition.
struct Frames<'f> {
    partition: &'f Partition<'f>,
    frame: &'f Frame,
    start: Edge<'f>,
    end: Edge<'f>,
    /// Rows whose value that distances are taken of is not null.
    known: Range<usize>,
}

/// A bound, of which is known how far it is.
enum Edge<'f> {
    Unbounded,
    CurrentRow,
    /// So many rows away.
    RowsBefore(usize),
    RowsBehind(usize),
    /// So many groups away, where these begin.
    GroupsBefore(usize, List<usize>),
    GroupsBehind(usize, List<usize>),
    At(Value<'f>),
}

/// A bound at the value of an expression.
struct Value<'f> {
    edge: &'f Expr,
    /// Of each row the value that distances are taken of.
    distances: List<Datum>,
    /// Where the bound was for the row before.
    last: Cell<usize>,
}

impl<'f> Frames<'f> {
    fn new(partition: &'f Partition<'f>, frame: &'f Frame) -> Result<Frames<'f>> {
        let context = partition.context;
        let mut distances = Listing::new(context);
        let mut known = 0..0;
        if let Some(Distance { value, .. }) = &frame.distance {
            for at in 0..partition.rows.len() {
                context.spend(1)?;
                let value = partition.eval(value, at)?;
                if !value.is_null() {
                    known = if known.is_empty() { at..at + 1 } else { known.start..known.end + 1 };
                }
                distances.push(value, context)?;
            }
        }
        let distances = distances.finish(context)?;
        let edge = |bound: &'f Bound, name: &str| -> Result<Edge<'f>> {
            let (Bound::Preceding(offset) | Bound::Following(offset)) = bound else {
                let is_unbounded = matches!(bound, Bound::Unbounded);
                return Ok(if is_unbounded { Edge::Unbounded } else { Edge::CurrentRow });
            };
            let count = size(offset, frame.units, name, partition)?;
            if let Some(edge) = &offset.edge {
                let last = Cell::new(known.start);
                let distances = distances.again(context)?;
                return Ok(Edge::At(Value { edge, distances, last }));
            }
            let is_before = matches!(bound, Bound::Preceding(_));
            Ok(match (frame.units, is_before) {
                (Units::Rows, true) => Edge::RowsBefore(count),
                (Units::Rows, false) => Edge::RowsBehind(count),
                (_, true) => Edge::GroupsBefore(count, partition.groups.again(context)?),
                (_, false) => Edge::GroupsBehind(count, partition.groups.again(context)?),
            })
        };
        let (start, end) = (edge(&frame.start, "starting")?, edge(&frame.end, "ending")?);
        Ok(Frames { partition, frame, start, end, known })
    }

    /// The frame of a row.
    fn of(&self, at: usize) -> Result<Range<usize>> {
        let start = self.start_of(at)?;
        let end = self.end_of(at)?;
        Ok(start..end.max(start))
    }

    /// The frame of a row without what it excludes, in order.
    fn pieces(&self, at: usize) -> Result<Vec<Range<usize>>> {
        let frame = self.of(at)?;
        if self.frame.exclusion == Exclusion::Nothing {
            return Ok(vec![frame]);
        }
        let group = self.partition.group_of(at)?;
        let group = self.partition.begin(group)?..self.partition.begin(group + 1)?;
        let holes = match self.frame.exclusion {
            Exclusion::Nothing | Exclusion::CurrentRow => [at..at + 1, at + 1..at + 1],
            Exclusion::Ties => [group.start..at, at + 1..group.end],
            Exclusion::Group => [group.clone(), group.end..group.end],
        };
        let mut pieces = Vec::with_capacity(holes.len() + 1);
        let mut start = frame.start;
        for hole in holes {
            pieces.push(start..hole.start.clamp(start, frame.end.max(start)));
            start = start.max(hole.end);
        }
        pieces.push(start..frame.end.max(start));
        Ok(pieces)
    }

    fn start_of(&self, at: usize) -> Result<usize> {
        let (partition, context) = (self.partition, self.partition.context);
        let rows = partition.rows.len();
        Ok(match &self.start {
            Edge::Unbounded => 0,
            Edge::CurrentRow if self.frame.units == Units::Rows => at,
            Edge::CurrentRow => partition.begin(partition.group_of(at)?)?,
            Edge::RowsBefore(count) => at.saturating_sub(*count),
            Edge::RowsBehind(count) => at.saturating_add(*count).min(rows),
            Edge::GroupsBefore(count, groups) => {
                groups.get(partition.group_of(at)?.saturating_sub(*count), context)?
            }
            Edge::GroupsBehind(count, groups) => {
                let group = partition.group_of(at)?.saturating_add(*count);
                groups.get(group.min(groups.len() - 1), context)?
            }
            Edge::At(value) => match self.place_of(value, at, |order| order.is_lt())? {
                Some(place) => place,
                None => partition.begin(partition.group_of(at)?)?,
            },
        })
    }

    /// The row behind the last one.
    fn end_of(&self, at: usize) -> Result<usize> {
        let (partition, context) = (self.partition, self.partition.context);
        let rows = partition.rows.len();
        Ok(match &self.end {
            Edge::Unbounded => rows,
            Edge::CurrentRow if self.frame.units == Units::Rows => at + 1,
            Edge::CurrentRow => partition.begin(partition.group_of(at)? + 1)?,
            Edge::RowsBefore(count) => (at + 1).saturating_sub(*count),
            Edge::RowsBehind(count) => (at + 1).saturating_add(*count).min(rows),
            Edge::GroupsBefore(count, groups) => {
                match partition.group_of(at)?.checked_sub(*count) {
                    Some(group) => groups.get(group + 1, context)?,
                    None => 0,
                }
            }
            Edge::GroupsBehind(count, groups) => {
                let group = (partition.group_of(at)? + 1).saturating_add(*count);
                groups.get(group.min(groups.len() - 1), context)?
            }
            Edge::At(value) => match self.place_of(value, at, |order| order.is_le())? {
                Some(place) => place,
                None => partition.begin(partition.group_of(at)? + 1)?,
            },
        })
    }

    /// The first row whose value does not stand to the edge of row `at` as `before` says; `None`
    /// for a row without a value, whose bounds are those of its kind.
    fn place_of(
        &self,
        value: &Value<'_>,
        at: usize,
        before: impl Fn(Ordering) -> bool,
    ) -> Result<Option<usize>> {
        if !self.known.contains(&at) {
            return Ok(None);
        }
        let context = self.partition.context;
        let edge = self.partition.eval(value.edge, at)?;
        let descending = self.frame.distance.as_ref().is_some_and(|one| one.descending);
        let is_before = |place: usize| {
            value.distances.with(place, context, |value| {
                let order = value.compare(&edge);
                before(if descending { order.reverse() } else { order })
            })
        };
        let mut place = value.last.get();
        while place > self.known.start && !is_before(place - 1)? {
            context.spend(1)?;
            place -= 1;
        }
        while place < self.known.end && is_before(place)? {
            context.spend(1)?;
            place += 1;
        }
        value.last.set(place);
        Ok(Some(place))
    }
}

/// How far a bound is: so many rows or groups; 0 for a distance, which is only checked.
fn size(offset: &Offset, units: Units, name: &str, partition: &Partition<'_>) -> Result<usize> {
    let value = offset.count.eval(&[], partition.context)?;
    if value.is_null() {
        let message = format!("frame {name} offset must not be null");
        return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
    }
    let negative = match &value {
        Datum::Interval(_) => value.compare(&Datum::Interval(Default::default())).is_lt(),
        Datum::Float8(size) => *size < 0.0 || size.is_nan(),
        Datum::Numeric(size) => size.is_negative(),
        other => other.as_int().is_none_or(|size| size < 0),
    };
    match (negative, units) {
        (true, Units::Range) => {
            let message = "invalid preceding or following size in window function";
            Err(SqlError::new(code::INVALID_FRAME_SIZE, message))
        }
        (true, _) => {
            let message = format!("frame {name} offset must not be negative");
            Err(SqlError::new(code::INVALID_FRAME_SIZE, message))
        }
        (false, Units::Range) => Ok(0),
        (false, _) => Ok(value.as_int().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)),
    }
}

fn int8(value: usize) -> Datum {
    Datum::Int8(value as i64)
}
