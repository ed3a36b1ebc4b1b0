//! Window functions: a partition at a time.
//!
//! The rows of a partition are gathered, every call is computed over them, and they go on. Numbers
//! of rows and ranks ask for the row before only, so that such a window holds no rows.
//!
//! Invariants: both bounds of a frame only move forward from one row to the next; what is held is
//! counted. Does not do: a partition beyond the memory budget, which fails with `53200`.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use rightlink::Budget;

use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
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
    memory: Memory,
    /// The first row of the next partition.
    ahead: Option<Row>,
    /// Rows of this one that are done.
    ready: Ready,
    /// Where it is, if no rows are held.
    place: Option<RankedPlace>,
}

/// Where a window that holds no rows is.
struct RankedPlace {
    /// The row before, as it came.
    last: Row,
    number: i64,
    rank: i64,
    dense: i64,
}

impl Windowed {
    pub(super) fn new(node: &Arc<Node>, input: RowsOf, budget: &Budget) -> Windowed {
        Windowed {
            node: Arc::clone(node),
            input,
            memory: Memory::new(budget),
            ahead: None,
            ready: Ready::new(Vec::new()),
            place: None,
        }
    }

    /// The next row of a window of numbers and ranks.
    fn next_ranked(
        &mut self,
        window: &Window<WindowCall>,
        context: &Context,
    ) -> Result<Option<Row>> {
        let Some(row) = self.input.next(ROWS, context)? else { return Ok(None) };
        let place = match self.place.take() {
            Some(place) if compare(&place.last, &row, &window.partition).is_eq() => {
                let is_new = compare(&place.last, &row, &window.order).is_ne();
                let number = place.number + 1;
                let rank = if is_new { number } else { place.rank };
                RankedPlace { last: row, number, rank, dense: place.dense + i64::from(is_new) }
            }
            _ => RankedPlace { last: row, number: 1, rank: 1, dense: 1 },
        };
        let mut row = place.last.clone();
        row.extend(window.calls.iter().map(|call| {
            Datum::Int8(match call.function {
                WindowFunction::RowNumber => place.number,
                WindowFunction::Rank => place.rank,
                _ => place.dense,
            })
        }));
        self.place = Some(place);
        Ok(Some(row))
    }

    /// The rows of the next partition; empty at the end.
    fn gather(&mut self, window: &Window<WindowCall>, context: &Context) -> Result<Vec<Row>> {
        self.memory.release();
        let mut rows: Vec<Row> = Vec::new();
        if let Some(first) = self.ahead.take() {
            self.memory.charge_row(&first)?;
            rows.push(first);
        }
        while let Some(row) = self.input.next(ROWS, context)? {
            if let Some(first) = rows.first()
                && compare(first, &row, &window.partition).is_ne()
            {
                self.ahead = Some(row);
                break;
            }
            self.memory.charge_row(&row)?;
            rows.push(row);
        }
        Ok(rows)
    }
}

impl Stream for Windowed {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        let node = Arc::clone(&self.node);
        let Op::Window { window, .. } = &node.op else { unreachable!("opened for a window") };
        if window.calls.iter().all(|call| is_ranked(&call.function)) {
            return self.next_ranked(window, context);
        }
        if let Some(row) = self.ready.take() {
            return Ok(Some(row));
        }
        let mut rows = self.gather(window, context)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(window.calls.len());
        let partition = Partition::new(&rows, window, context)?;
        for call in &window.calls {
            let values = Vec::with_capacity(rows.len());
            let mut column = Column { values, memory: &mut self.memory, context };
            partition.fill(call, &mut column)?;
            assert_eq!(column.values.len(), rows.len(), "each row has a value");
            columns.push(column.values);
        }
        for column in columns {
            rows.iter_mut().zip(column).for_each(|(row, value)| row.push(value));
        }
        self.ready = Ready::new(rows);
        Ok(self.ready.take())
    }
}

/// Does it ask for the row before only?
fn is_ranked(function: &WindowFunction) -> bool {
    use WindowFunction::{DenseRank, Rank, RowNumber};
    matches!(function, RowNumber | Rank | DenseRank)
}

/// What a call gives for the rows of a partition, counted.
struct Column<'m> {
    values: Vec<Datum>,
    memory: &'m mut Memory,
    context: &'m Context,
}

impl Column<'_> {
    fn push(&mut self, value: Datum) -> Result<()> {
        let bytes = value.heap_bytes() + size_of::<Datum>();
        self.context.spend(bytes)?;
        self.memory.charge(bytes)?;
        self.values.push(value);
        Ok(())
    }
}

/// The rows of a partition in order.
struct Partition<'p> {
    rows: &'p [Row],
    /// Where rows begin that are equal in the order, and behind all the end.
    groups: Vec<usize>,
    /// Of each row the number of its group.
    group_of: Vec<usize>,
    context: &'p Context,
}

impl<'p> Partition<'p> {
    fn new(rows: &'p [Row], window: &Window<WindowCall>, context: &'p Context) -> Result<Self> {
        let mut groups = vec![0];
        let mut group_of = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            context.spend(1)?;
            if at > 0 && compare(&rows[at - 1], row, &window.order).is_ne() {
                groups.push(at);
            }
            group_of.push(groups.len() - 1);
        }
        groups.push(rows.len());
        Ok(Partition { rows, groups, group_of, context })
    }

    /// Puts the value of a call for each row into `out`.
    fn fill(&self, call: &WindowCall, out: &mut Column<'_>) -> Result<()> {
        let count = self.rows.len();
        let first = |at: usize| self.groups[self.group_of[at]];
        let behind = |at: usize| self.groups[self.group_of[at] + 1];
        let mut all =
            |value: &dyn Fn(usize) -> Datum| (0..count).try_for_each(|at| out.push(value(at)));
        match &call.function {
            WindowFunction::RowNumber => all(&|at| int8(at + 1)),
            WindowFunction::Rank => all(&|at| int8(first(at) + 1)),
            WindowFunction::DenseRank => all(&|at| int8(self.group_of[at] + 1)),
            WindowFunction::PercentRank => all(&|at| {
                let others = count.saturating_sub(1).max(1);
                Datum::Float8(first(at) as f64 / others as f64)
            }),
            WindowFunction::CumeDist => all(&|at| Datum::Float8(behind(at) as f64 / count as f64)),
            WindowFunction::Ntile => self.buckets(&call.args[0], out),
            WindowFunction::Lag | WindowFunction::Lead => self.neighbours(call, out),
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                self.picked(call, out)
            }
            WindowFunction::Aggregate(aggregate) => self.aggregated(aggregate, &call.frame, out),
        }
    }

    fn eval(&self, expr: &Expr, at: usize) -> Result<Datum> {
        expr.eval(&self.rows[at], self.context)
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
                (Some(place), _) => self.eval(&call.args[0], place)?,
                (None, Some(rest)) => self.eval(rest, at)?,
                (None, None) => Datum::Null,
            })?;
        }
        Ok(())
    }

    /// A row of the frame, which `first_value` and its kind show.
    fn picked(&self, call: &WindowCall, out: &mut Column<'_>) -> Result<()> {
        let frames = Frames::new(self, &call.frame, out.memory)?;
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
                Some(place) => self.eval(&call.args[0], place)?,
                None => Datum::Null,
            })?;
        }
        Ok(())
    }

    /// An aggregate over the frame of each row. Rows that come into the frame are taken in. Rows
    /// that leave it are taken out where that is exact; otherwise it begins again.
    fn aggregated(&self, aggregate: &Aggregate, frame: &Frame, out: &mut Column<'_>) -> Result<()> {
        let frames = Frames::new(self, frame, out.memory)?;
        let mut inputs: Vec<Option<Input>> = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            self.context.spend(1)?;
            let input = aggregate.input(row, self.context)?;
            let bytes = input.as_ref().map_or(0, Input::heap_bytes);
            out.memory.charge(bytes + size_of::<Option<Input>>())?;
            inputs.push(input);
        }
        if frame.exclusion != Exclusion::Nothing {
            return self.aggregated_pieces(aggregate, &frames, &inputs, out);
        }
        let (mut state, mut taken) = (aggregate.start(), 0..0);
        let mut last: Option<Range<usize>> = None;
        for at in 0..self.rows.len() {
            let frame = frames.of(at)?;
            if let (Some(last), Some(value)) = (&last, out.values.last())
                && *last == frame
            {
                out.push(value.clone())?;
                continue;
            }
            let moves = taken.start <= frame.start && taken.end <= frame.end;
            let leaves = frame.start > taken.start && !frame.is_empty();
            if !moves || frame.start >= taken.end || (leaves && !aggregate.can_give_back()) {
                (state, taken) = (aggregate.start(), frame.start..frame.start);
            }
            while taken.start < frame.start {
                self.context.spend(1)?;
                if let Some(input) = &inputs[taken.start] {
                    aggregate.give_back(&mut state, input);
                }
                taken.start += 1;
            }
            while taken.end < frame.end {
                self.context.spend(1)?;
                if let Some(input) = &inputs[taken.end] {
                    aggregate.take(&mut state, input.clone())?;
                }
                taken.end += 1;
            }
            out.push(aggregate.finish(state.clone())?)?;
            last = Some(frame);
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
        inputs: &[Option<Input>],
        out: &mut Column<'_>,
    ) -> Result<()> {
        for at in 0..self.rows.len() {
            let mut state = aggregate.start();
            for place in frames.pieces(at)?.into_iter().flatten() {
                self.context.spend(1)?;
                if let Some(input) = &inputs[place] {
                    aggregate.take(&mut state, input.clone())?;
                }
            }
            out.push(aggregate.finish(state)?)?;
        }
        Ok(())
    }
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
    /// Of each row the value that distances are taken of.
    distances: Vec<Datum>,
    /// Rows whose value is not null.
    known: Range<usize>,
}

/// A bound, of which is known how far it is.
enum Edge<'f> {
    Unbounded,
    CurrentRow,
    /// So many rows or groups away.
    Before(usize),
    Behind(usize),
    /// At this value.
    At(&'f Expr),
}

impl<'f> Frames<'f> {
    fn new(
        partition: &'f Partition<'f>,
        frame: &'f Frame,
        memory: &mut Memory,
    ) -> Result<Frames<'f>> {
        let mut distances = Vec::new();
        let mut known = 0..0;
        if let Some(Distance { value, .. }) = &frame.distance {
            for at in 0..partition.rows.len() {
                partition.context.spend(1)?;
                let value = partition.eval(value, at)?;
                memory.charge(value.heap_bytes() + size_of::<Datum>())?;
                distances.push(value);
            }
            let is_known = |value: &Datum| !value.is_null();
            let first = distances.iter().position(is_known).unwrap_or(0);
            let count = distances.iter().filter(|value| is_known(value)).count();
            known = first..first + count;
        }
        let edge = |bound: &'f Bound, name: &str| -> Result<Edge<'f>> {
            Ok(match bound {
                Bound::Unbounded => Edge::Unbounded,
                Bound::CurrentRow => Edge::CurrentRow,
                Bound::Preceding(offset) | Bound::Following(offset) => {
                    let count = size(offset, frame.units, name, partition)?;
                    match (bound, &offset.edge) {
                        (_, Some(edge)) => Edge::At(edge),
                        (Bound::Preceding(_), None) => Edge::Before(count),
                        (_, None) => Edge::Behind(count),
                    }
                }
            })
        };
        let (start, end) = (edge(&frame.start, "starting")?, edge(&frame.end, "ending")?);
        Ok(Frames { partition, frame, start, end, distances, known })
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
        let Partition { groups, group_of, .. } = self.partition;
        let group = groups[group_of[at]]..groups[group_of[at] + 1];
        let holes = match self.frame.exclusion {
            Exclusion::Nothing => return Ok(vec![frame]),
            Exclusion::CurrentRow => [at..at + 1, at + 1..at + 1],
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
        let Partition { groups, group_of, rows, .. } = self.partition;
        let group = group_of[at];
        Ok(match (&self.start, self.frame.units) {
            (Edge::Unbounded, _) => 0,
            (Edge::CurrentRow, Units::Rows) => at,
            (Edge::CurrentRow, _) => groups[group],
            (Edge::Before(count), Units::Rows) => at.saturating_sub(*count),
            (Edge::Behind(count), Units::Rows) => at.saturating_add(*count).min(rows.len()),
            (Edge::Before(count), _) => groups[group.saturating_sub(*count)],
            (Edge::Behind(count), _) => groups[group.saturating_add(*count).min(groups.len() - 1)],
            (Edge::At(edge), _) => match self.place_of(edge, at, |order| order.is_lt())? {
                Some(place) => place,
                None => groups[group],
            },
        })
    }

    /// The row behind the last one.
    fn end_of(&self, at: usize) -> Result<usize> {
        let Partition { groups, group_of, rows, .. } = self.partition;
        let group = group_of[at];
        Ok(match (&self.end, self.frame.units) {
            (Edge::Unbounded, _) => rows.len(),
            (Edge::CurrentRow, Units::Rows) => at + 1,
            (Edge::CurrentRow, _) => groups[group + 1],
            (Edge::Before(count), Units::Rows) => (at + 1).saturating_sub(*count),
            (Edge::Behind(count), Units::Rows) => (at + 1).saturating_add(*count).min(rows.len()),
            (Edge::Before(count), _) => match group.checked_sub(*count) {
                Some(group) => groups[group + 1],
                None => 0,
            },
            (Edge::Behind(count), _) => {
                groups[(group + 1).saturating_add(*count).min(groups.len() - 1)]
            }
            (Edge::At(edge), _) => match self.place_of(edge, at, |order| order.is_le())? {
                Some(place) => place,
                None => groups[group + 1],
            },
        })
    }

    /// The first row whose value does not stand to the edge of row `at` as `before` says; `None`
    /// for a row without a value, whose bounds are those of its kind.
    fn place_of(
        &self,
        edge: &Expr,
        at: usize,
        before: impl Fn(Ordering) -> bool,
    ) -> Result<Option<usize>> {
        if !self.known.contains(&at) {
            return Ok(None);
        }
        let edge = self.partition.eval(edge, at)?;
        let descending = self.frame.distance.as_ref().is_some_and(|one| one.descending);
        let values = &self.distances[self.known.clone()];
        let place = values.partition_point(|value| {
            let order = value.compare(&edge);
            before(if descending { order.reverse() } else { order })
        });
        Ok(Some(self.known.start + place))
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
