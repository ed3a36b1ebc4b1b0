//! Window functions: what each computes, and over which rows of its partition.
//!
//! Invariants: the rows of a window come in the order of its partition and then of its own.
//! Does not do: binding (`bind::window`), running (`exec::window`).

use crate::expr::aggregate::Aggregate;
use crate::expr::{Expr, SortKey};

/// What a window function gives for a row.
#[derive(Clone, Debug)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Aggregate(Box<Aggregate>),
}

/// A call of a window function.
#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    pub(crate) function: WindowFunction,
    pub(crate) args: Vec<Expr>,
    pub(crate) frame: Frame,
}

/// What the bounds of a frame count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    Rows,
    /// Distances of the one value that the window is ordered by.
    Range,
    /// Rows that are equal in the order of the window, as one.
    Groups,
}

/// The rows around a row that a function looks at.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) units: Units,
    pub(crate) start: Bound,
    pub(crate) end: Bound,
    /// The value that distances are taken of, and whether it descends.
    pub(crate) distance: Option<Distance>,
    pub(crate) exclusion: Exclusion,
}

/// Which rows of a frame do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    Nothing,
    CurrentRow,
    /// The row and those that are equal to it in the order.
    Group,
    /// Those without the row itself.
    Ties,
}

/// The value that the rows of a window are ordered by, where a frame takes distances of it.
#[derive(Clone, Debug)]
pub(crate) struct Distance {
    pub(crate) value: Expr,
    pub(crate) descending: bool,
}

/// Where a frame begins or ends.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// The first row of the partition as a beginning, the last one as an end.
    Unbounded,
    CurrentRow,
    Preceding(Offset),
    Following(Offset),
}

/// How far a bound is from the row.
#[derive(Clone, Debug)]
pub(crate) struct Offset {
    pub(crate) count: Expr,
    /// The value at that distance, over the row.
    pub(crate) edge: Option<Expr>,
}

/// A window and what is computed over it.
#[derive(Clone, Debug)]
pub(crate) struct Window<C> {
    /// Rows that agree in these are a partition.
    pub(crate) partition: Vec<SortKey>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) calls: Vec<C>,
}

impl Frame {
    /// From the first row of the partition to the last one that is equal in the order.
    pub(crate) fn usual() -> Frame {
        let (start, end) = (Bound::Unbounded, Bound::CurrentRow);
        let exclusion = Exclusion::Nothing;
        Frame { units: Units::Range, start, end, distance: None, exclusion }
    }

    fn offsets(&self) -> impl Iterator<Item = &Offset> {
        [&self.start, &self.end].into_iter().filter_map(|bound| match bound {
            Bound::Preceding(offset) | Bound::Following(offset) => Some(offset),
            Bound::Unbounded | Bound::CurrentRow => None,
        })
    }

    fn exprs(&self) -> Vec<&Expr> {
        let of_offsets =
            self.offsets().flat_map(|offset| offset.edge.iter().chain([&offset.count]));
        of_offsets.chain(self.distance.iter().map(|distance| &distance.value)).collect()
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs = Vec::new();
        let Frame { start, end, distance, .. } = self;
        for bound in [start, end] {
            if let Bound::Preceding(offset) | Bound::Following(offset) = bound {
                exprs.push(&mut offset.count);
                exprs.extend(&mut offset.edge);
            }
        }
        exprs.extend(distance.iter_mut().map(|distance| &mut distance.value));
        exprs
    }

    /// Are the two the same rows, whatever the row?
    pub(crate) fn same(&self, other: &Frame) -> bool {
        let of = |frame: &Frame| {
            [&frame.start, &frame.end].map(|bound| match bound {
                Bound::Unbounded => 0,
                Bound::CurrentRow => 1,
                Bound::Preceding(_) => 2,
                Bound::Following(_) => 3,
            })
        };
        let (own, others) = (self.exprs(), other.exprs());
        (self.units, self.exclusion) == (other.units, other.exclusion)
            && of(self) == of(other)
            && own.len() == others.len()
            && own.iter().zip(others).all(|(a, b)| a.same(b))
    }
}

impl WindowCall {
    /// Its expressions over the rows of the window.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.args.iter().collect();
        if let WindowFunction::Aggregate(aggregate) = &self.function {
            exprs.extend(aggregate.exprs());
        }
        exprs.extend(self.frame.exprs());
        exprs
    }

    /// The same, to be changed.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let WindowCall { function, args, frame } = self;
        let mut exprs: Vec<&mut Expr> = args.iter_mut().collect();
        if let WindowFunction::Aggregate(aggregate) = function {
            exprs.extend(aggregate.exprs_mut());
        }
        exprs.extend(frame.exprs_mut());
        exprs
    }

    /// As EXPLAIN shows it.
    pub(crate) fn shown(&self, names: &[String]) -> String {
        let name = match &self.function {
            WindowFunction::RowNumber => "row_number",
            WindowFunction::Rank => "rank",
            WindowFunction::DenseRank => "dense_rank",
            WindowFunction::PercentRank => "percent_rank",
            WindowFunction::CumeDist => "cume_dist",
            WindowFunction::Ntile => "ntile",
            WindowFunction::Lag => "lag",
            WindowFunction::Lead => "lead",
            WindowFunction::FirstValue => "first_value",
            WindowFunction::LastValue => "last_value",
            WindowFunction::NthValue => "nth_value",
            WindowFunction::Aggregate(aggregate) => {
                return format!("{} OVER (?)", aggregate.shown(names));
            }
        };
        let args = self.args.iter().map(|arg| crate::expr::deparse::show(arg, names));
        format!("{name}({}) OVER (?)", args.collect::<Vec<_>>().join(", "))
    }
}
