//! What a path is thought to cost: pages and rows.
//!
//! Of a table that was analyzed the shares of rows come from its statistics, its rows and pages are
//! as they are, and rows that lie in the order of an index count as fewer pages (after Mackert and
//! Lohman, Index Scans Using a Finite LRU Buffer, 1989, as in PostgreSQL). Of any other table they
//! are PostgreSQL's for one that was never analyzed, and it has ten pages at least.
//!
//! A page that the buffer pool has no room for costs what the device takes for it, which was
//! measured when the database was created: as little as a neighbour if most pages are wanted, and
//! more the fewer they are. Processing overlaps a scan of the whole, so that only the longer of
//! both counts.
//!
//! Invariants: there is at least one row. Does not do: choosing (`path`); several columns that
//! depend on each other.

use std::borrow::Cow;

use rightlink::{Comparison, Test};

use super::index_path::IndexPath;
use super::simplify::value_of;
use super::term::{ELEMENTS, Keys, Term, term};
use crate::expr::{Body, Expr};
use crate::plan::TableScan;
use crate::plan::node::{Estimate, Node};
use crate::statistics::{ColumnStatistics, Statistics};
use crate::types::{Datum, SqlType};

/// Selectivity of an equality.
const EQUAL: f64 = 0.005;
/// Selectivity of a range with both ends.
const BETWEEN: f64 = 0.005;
/// Selectivity of a range with one end.
const ONE_SIDED: f64 = 1.0 / 3.0;
/// The least that a range between two known values is thought to be.
const NARROW: f64 = 1e-6;
/// Cost of a page out of order, where one in order is 1.
const RANDOM_PAGE: f64 = 1.5;
const ROW: f64 = 0.01;
const ENTRY: f64 = 0.005;
/// A row that comes from an index alone takes five times as long as one of a scan of the table, in
/// memory (`bench/postgres/scans.py --vacuum`: 296 ns and 60).
const COVERED: f64 = 0.05;
pub(super) const OPERATOR: f64 = 0.0025;
/// The share of their cost that pages met together keep where the pool holds them.
const TOGETHER: f64 = 0.3;
/// Keys of a join that are looked up together, which meet each page once: so many as memory usually
/// has room for.
const WINDOW: f64 = 16_384.0;
/// Nanoseconds that cost 1: a page in memory with 60 rows costs 1.6, and takes 5.7 us
/// (`bench/postgres/join.py`).
const NANOSECONDS: f64 = 3_600.0;
/// Pages that a table has at least if it was not analyzed.
const FEW_PAGES: f64 = 10.0;

/// The cost of asking these conditions of a row, queries that depend on it included.
fn cost_of(quals: &[&Expr]) -> f64 {
    let mut cost = OPERATOR * quals.len() as f64;
    for qual in quals {
        qual.walk(&mut |inner| {
            if let Expr::Subquery(query) = inner
                && let Body::Planned { plan, binds } = &query.body
                && !binds.is_empty()
            {
                cost += Node::of(plan).estimate.total;
            }
        });
    }
    cost
}

/// The model of a scan.
pub(super) struct Model<'m> {
    scan: &'m TableScan,
    /// Values of parameters, as far as they are known.
    params: &'m [Datum],
    known: Option<&'m Statistics>,
    pages: f64,
    rows: f64,
}

/// A condition on a range of a column's values: which column, the share of rows that it is true of,
/// and whether it is a lower bound.
struct Side {
    column: usize,
    share: Option<f64>,
    is_low: bool,
}

impl<'m> Model<'m> {
    pub(super) fn new(scan: &'m TableScan, params: &'m [Datum]) -> Model<'m> {
        let known = scan.statistics.as_deref();
        let blocks = f64::from(scan.table.info.heap_blocks);
        let (pages, rows) = match known {
            Some(known) => {
                let pages = (blocks - 1.0).max(1.0);
                (pages, (known.rows / known.blocks.max(1.0) * pages).round().max(1.0))
            }
            None => {
                let pages = blocks.max(FEW_PAGES);
                let width: usize = scan.table.types.iter().map(|ty| type_width(*ty)).sum();
                let density = (8_192.0 - 24.0) / (width as f64 + 28.0);
                (pages, (pages * density).floor().max(1.0))
            }
        };
        Model { scan, params, known, pages, rows }
    }

    pub(super) fn sequential(&self, quals: &[&Expr]) -> Estimate {
        let processing = self.pages + self.rows * (ROW + cost_of(quals));
        let reading = (1.0 - self.held()) * self.pages * self.page_read(self.pages, self.pages);
        self.estimate((0.0, processing.max(reading)), self.rows * self.all_of(quals))
    }

    pub(super) fn of_place(&self) -> Estimate {
        self.estimate((0.0, RANDOM_PAGE), 1.0)
    }

    pub(super) fn of_index(&self, path: &IndexPath, quals: &[&Expr]) -> Estimate {
        let whole = path.index.unique && path.equal.len() == path.index.columns.len();
        let list = path.any_of.as_ref().map_or(0, Keys::expected);
        let unique_list =
            path.index.unique && list > 0 && path.equal.len() + 1 == path.index.columns.len();
        let all = (self.rows * self.share_held(path)).max(1.0);
        let rows = match (whole, unique_list) {
            (true, _) => 1.0,
            (_, true) => (list as f64).min(all),
            _ => self.rounded(all * self.share_of(path)),
        };
        let index_pages = (f64::from(path.index.blocks).max(2.0) * rows / all).ceil();
        let heap = self.heap_pages(path, rows);
        let heap = heap * self.share_read(path);
        let startup = 0.15 + OPERATOR * all.log2();
        let entry = if path.covers { COVERED } else { ENTRY };
        let of_rows = rows * (entry + ROW + cost_of(quals));
        let total = startup + index_pages + heap + of_rows;
        self.estimate((startup, total), rows * self.all_of(quals))
    }

    /// The share of the heap's pages that are read: where rows come from the index alone, those
    /// of which not all rows are known to be visible.
    fn share_read(&self, path: &IndexPath) -> f64 {
        if path.covers { 1.0 - f64::from(self.scan.table.info.visible_share) } else { 1.0 }
    }

    /// Rows of the range of an index, if there are statistics to tell.
    pub(super) fn expected(&self, path: &IndexPath) -> Option<u64> {
        self.known.map(|_| self.of_index(path, &[]).rows as u64)
    }

    /// Rows of the table.
    pub(super) fn rows_of_table(&self) -> f64 {
        self.rows
    }

    /// Lookups of so many keys, whose pages are read ahead and together.
    pub(super) fn of_keys(&self, path: &IndexPath, keys: f64) -> Estimate {
        let whole = path.index.unique && path.equal.len() == path.index.columns.len();
        let all = self.rows.max(1.0);
        let each = if whole { 1.0 } else { (all * self.share_of(path)).max(0.1) };
        let rows = (each * keys).max(1.0);
        let blocks = f64::from(path.index.blocks).max(2.0);
        let heap_of = |keys| self.pages_of_keys(path, keys, each) * self.share_read(path);
        let in_memory = TOGETHER * (keys.min(blocks) + RANDOM_PAGE * heap_of(keys));
        // What a window met is read again for the next one.
        let windows = (keys / WINDOW).ceil().max(1.0);
        let (leaves, heap) = ((keys / windows).min(blocks), heap_of(keys / windows));
        let read =
            leaves * self.page_read(leaves, blocks) + heap * self.page_read(heap, self.pages);
        let pages = self.held() * in_memory + (1.0 - self.held()) * windows * read;
        let startup = 0.15 + OPERATOR * all.log2();
        let of_keys = keys * OPERATOR * all.log2().max(1.0);
        let total = startup + pages + of_keys + rows * (ENTRY + ROW);
        self.estimate((startup, total), rows)
    }

    /// The share of the table's and the indexes' pages that the pool has room for.
    fn held(&self) -> f64 {
        f64::from(self.scan.table.info.pool_share)
    }

    /// The cost of reading one of so many wanted pages, of so many that there are. If these lie
    /// anywhere, the share of them that is wanted are neighbours of the one before.
    fn page_read(&self, wanted: f64, of: f64) -> f64 {
        let times = self.scan.table.info.read_times;
        let joined = (wanted / of.max(1.0)).min(1.0);
        let time =
            joined * f64::from(times.in_order_ns) + (1.0 - joined) * f64::from(times.scattered_ns);
        time / NANOSECONDS
    }

    fn estimate(&self, (startup, total): (f64, f64), rows: f64) -> Estimate {
        let rows = if self.known.is_some() { rows.round() } else { rows };
        Estimate { startup, total, rows: rows.max(1.0), width: self.width() }
    }

    fn rounded(&self, rows: f64) -> f64 {
        match self.known {
            Some(_) => rows.round().max(1.0),
            None => rows.max(1.0).floor(),
        }
    }

    /// Bytes of a row of the scan.
    fn width(&self) -> usize {
        let table = &self.scan.table;
        let of = |at: &usize| match self.column(*at) {
            Some(column) if table.types[*at].fixed_len() < 0 => column.width.round() as usize,
            _ => type_width(table.types[*at]),
        };
        self.scan.columns.iter().map(of).sum()
    }

    /// What is known about the column at this place in the table.
    fn column(&self, at: usize) -> Option<&'m ColumnStatistics> {
        let table = &self.scan.table;
        self.known?.column(&table.info.columns[at].name, table.types[at])
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.scan.table.info.columns.iter().position(|column| column.name == name)
    }

    /// The value of an expression, if it is known already.
    fn value<'e>(&'e self, expr: &'e Expr) -> Option<Cow<'e, Datum>> {
        value_of(expr, self.params)
    }

    fn equal(&self, column: usize, value: &Expr) -> f64 {
        match self.column(column) {
            Some(column) => column.equal(self.value(value).as_deref(), self.rows),
            None => EQUAL,
        }
    }

    /// The sum of the shares of several values.
    fn equal_any(&self, column: usize, keys: &Keys) -> f64 {
        let array = match keys {
            Keys::List(list) => return list.iter().map(|value| self.equal(column, value)).sum(),
            Keys::Elements(array) => self.value(array),
        };
        let Some(known) = self.column(column) else { return EQUAL * ELEMENTS as f64 };
        match array.as_deref() {
            Some(Datum::Array(array)) => {
                array.values().iter().map(|value| known.equal(Some(value), self.rows)).sum()
            }
            _ => ELEMENTS as f64 * known.equal(None, self.rows),
        }
    }

    fn nulls(&self, column: usize) -> f64 {
        self.column(column).map_or(EQUAL, |column| column.nulls)
    }

    /// Rows beyond a bound; `None` if nothing is known.
    fn beyond(&self, column: usize, (value, included): (&Expr, bool), low: bool) -> Option<f64> {
        if self.scan.table.info.columns[column].collation.is_some() {
            return None;
        }
        let (known, value) = (self.column(column)?, self.value(value));
        let value = value.as_deref();
        if low { known.above(value, included) } else { known.below(value, included) }
    }

    /// Rows between two bounds of a column, of which there is one at least.
    fn between(&self, column: usize, low: Option<Option<f64>>, high: Option<Option<f64>>) -> f64 {
        match (low, high) {
            (Some(Some(low)), Some(Some(high))) => {
                (low + high - (1.0 - self.nulls(column))).max(NARROW)
            }
            (Some(_), Some(_)) => BETWEEN,
            (low, high) => low.or(high).flatten().unwrap_or(ONE_SIDED),
        }
    }

    /// The share of the table's rows that an index holds. What its path asks for is not counted
    /// again.
    fn share_held(&self, path: &IndexPath) -> f64 {
        let Some(predicate) = &path.index.predicate else { return 1.0 };
        let share = |term: &rightlink::Term| {
            let Some(at) = self.place(&term.column) else { return 1.0 };
            let Some(column) = self.column(at) else { return share_of(&term.test) };
            let bounded = self.bounded(path).any(|name| *name == term.column);
            if bounded { 1.0 } else { of_test(column, &term.test, self.rows) }
        };
        predicate.terms.iter().map(share).product()
    }

    /// Names of the key columns that a path has conditions on.
    fn bounded<'p>(&self, path: &'p IndexPath) -> impl Iterator<Item = &'p String> {
        let ranged = path.low.is_some() || path.high.is_some() || path.any_of.is_some();
        let count = path.equal.len() + usize::from(ranged);
        path.index.columns.iter().take(count).map(|column| &column.name)
    }

    /// The share of the rows of an index that a path asks for.
    fn share_of(&self, path: &IndexPath) -> f64 {
        let list = path.any_of.as_ref().map_or(0, Keys::expected);
        if self.known.is_none() {
            let ranged = match (&path.low, &path.high, list) {
                (Some(_), Some(_), _) => BETWEEN,
                (None, None, 0) => 1.0,
                (None, None, n) => (EQUAL * n as f64).min(1.0),
                _ => ONE_SIDED,
            };
            return EQUAL.powi(path.equal.len() as i32) * ranged;
        }
        let place = |at: usize| self.place(&path.index.columns[at].name);
        let mut share = 1.0;
        for (at, value) in path.equal.iter().enumerate() {
            share *= match place(at) {
                Some(at) if matches!(value, Expr::IsNull(..)) => self.nulls(at),
                Some(at) => self.equal(at, value),
                None => EQUAL,
            };
        }
        let next = path.equal.len();
        if next == path.index.columns.len() {
            return share;
        }
        let Some(at) = place(next) else { return share };
        if let Some(keys) = &path.any_of {
            return share * self.equal_any(at, keys).min(1.0);
        }
        if path.low.is_none() && path.high.is_none() {
            return share;
        }
        let side = |end: &Option<(Expr, bool)>, low: bool| {
            end.as_ref().map(|(value, included)| self.beyond(at, (value, *included), low))
        };
        share * self.between(at, side(&path.low, true), side(&path.high, false))
    }

    /// The cost of the heap pages of so many rows of a range of an index.
    fn heap_pages(&self, path: &IndexPath, rows: f64) -> f64 {
        if self.known.is_none() {
            return RANDOM_PAGE * rows.min(self.pages);
        }
        let met = self.met_pages(rows);
        let mixed = |in_memory: f64, read: f64| {
            self.held() * in_memory + (1.0 - self.held()) * in_memory.max(read)
        };
        let scattered = mixed(RANDOM_PAGE, self.page_read(met, self.pages));
        let in_order = mixed(1.0, self.page_read(self.pages, self.pages));
        let most = met * scattered;
        let least = scattered + in_order * ((rows / self.rows * self.pages).ceil() - 1.0).max(0.0);
        most + self.correlation(path).powi(2) * (least.min(most) - most)
    }

    /// The heap pages of so many keys, each with `each` rows. The keys lie anywhere. The rows of a
    /// key lie together where the heap is in the order of the index.
    fn pages_of_keys(&self, path: &IndexPath, keys: f64, each: f64) -> f64 {
        let rows = (keys * each).min(self.rows);
        if self.known.is_none() {
            return rows.min(self.pages);
        }
        let most = self.met_pages(rows);
        let least = self.met_pages(keys * (each / self.rows * self.pages).max(1.0));
        most + self.correlation(path).powi(2) * (least.min(most) - most)
    }

    /// Pages that so many rows lie on, if they lie anywhere.
    fn met_pages(&self, rows: f64) -> f64 {
        (2.0 * self.pages * rows / (2.0 * self.pages + rows)).min(self.pages).ceil()
    }

    /// How much the heap is in the order of the path's index.
    fn correlation(&self, path: &IndexPath) -> f64 {
        let first = path.index.columns.first().and_then(|column| self.place(&column.name));
        let correlation = first.and_then(|at| self.column(at)?.correlation).unwrap_or(0.0);
        // Columns behind the first say less.
        if path.index.columns.len() > 1 { 0.75 * correlation } else { correlation }
    }

    /// The share of rows that all of these conditions are true of.
    fn all_of(&self, quals: &[&Expr]) -> f64 {
        if self.known.is_none() {
            return quals.iter().map(|qual| self.selectivity(qual)).product();
        }
        let mut share = 1.0;
        let mut sides: Vec<Side> = Vec::new();
        for qual in quals {
            match self.side(qual) {
                Some(side) => sides.push(side),
                None => share *= self.selectivity(qual),
            }
        }
        // The two ends of a range are one condition.
        while let Some(side) = sides.pop() {
            let other = sides
                .iter()
                .position(|other| other.column == side.column && other.is_low != side.is_low)
                .map(|at| sides.swap_remove(at));
            let (low, high) = match (side.is_low, other) {
                (true, other) => (Some(side.share), other.map(|other| other.share)),
                (false, other) => (other.map(|other| other.share), Some(side.share)),
            };
            share *= self.between(side.column, low, high);
        }
        share
    }

    /// A condition as one end of a range.
    fn side(&self, condition: &Expr) -> Option<Side> {
        let (column, term) = self.told(condition)?;
        let (value, included, is_low) = match &term {
            Term::Low(value, included) => (value, *included, true),
            Term::High(value, included) => (value, *included, false),
            _ => return None,
        };
        let share = self.beyond(column, (value, included), is_low);
        Some(Side { column, share, is_low })
    }

    /// The column of the table that a condition is about, and what it says of it.
    fn told(&self, condition: &Expr) -> Option<(usize, Term)> {
        let column = self.only_column(condition)?;
        let collation = self.scan.table.info.columns[column].collation.as_ref();
        term(self.scan, condition, column, collation).map(|term| (column, term))
    }

    /// The first column that a condition names.
    fn only_column(&self, condition: &Expr) -> Option<usize> {
        let mut found = None;
        condition.walk(&mut |expr| {
            if let Expr::Column(at) = expr {
                found.get_or_insert(*at);
            }
        });
        self.scan.columns.get(found?).copied()
    }

    /// The share of rows for which a condition holds.
    fn selectivity(&self, condition: &Expr) -> f64 {
        if self.known.is_some()
            && let Some(share) = self.share_known(condition)
        {
            return share.clamp(0.0, 1.0);
        }
        match condition {
            Expr::And(list) => list.iter().map(|one| self.selectivity(one)).product(),
            Expr::Or(list) => list.iter().map(|one| self.selectivity(one)).sum::<f64>().min(1.0),
            Expr::Call(function, _) if function.name == "=" => EQUAL,
            Expr::Call(function, _) if function.name == "<>" => 1.0 - EQUAL,
            Expr::Call(function, _) if function.name == "~~" => EQUAL,
            Expr::In(_, list, false) => (EQUAL * list.len() as f64).min(1.0),
            Expr::AnyOf(any) if !any.all && any.operator() == "=" => {
                (EQUAL * ELEMENTS as f64).min(1.0)
            }
            Expr::IsNull(_, negated) => {
                if *negated {
                    1.0 - EQUAL
                } else {
                    EQUAL
                }
            }
            _ => ONE_SIDED,
        }
    }

    /// The same by what is known; `None` if that says nothing.
    fn share_known(&self, condition: &Expr) -> Option<f64> {
        match condition {
            Expr::And(list) => return Some(self.all_of(&list.iter().collect::<Vec<_>>())),
            Expr::Or(list) => {
                let none: f64 = list.iter().map(|one| 1.0 - self.selectivity(one)).product();
                return Some(1.0 - none);
            }
            Expr::Not(inner) => return Some(1.0 - self.selectivity(inner)),
            _ => {}
        }
        let at = self.only_column(condition)?;
        let column = self.column(at)?;
        match condition {
            Expr::Column(_) => return Some(column.equal(Some(&Datum::Bool(true)), self.rows)),
            Expr::IsNull(inner, true) if matches!(**inner, Expr::Column(_)) => {
                return Some(1.0 - column.nulls);
            }
            Expr::Call(function, args) if function.name == "<>" => {
                let value = args.iter().find(|arg| arg.is_stable())?;
                return Some(1.0 - column.nulls - self.equal(at, value));
            }
            _ => {}
        }
        Some(match self.told(condition)?.1 {
            Term::Equal(value) => self.equal(at, &value),
            Term::Null => column.nulls,
            Term::AnyOf(keys) => self.equal_any(at, &keys),
            Term::Low(value, included) => {
                self.beyond(at, (&value, included), true).unwrap_or(ONE_SIDED)
            }
            Term::High(value, included) => {
                self.beyond(at, (&value, included), false).unwrap_or(ONE_SIDED)
            }
        })
    }
}

fn type_width(ty: SqlType) -> usize {
    usize::try_from(ty.fixed_len()).unwrap_or(32)
}

/// The share of rows that a term of a predicate is true of, if nothing is known.
fn share_of(test: &Test) -> f64 {
    match test {
        Test::Null | Test::Compare(Comparison::Equal, _) => EQUAL,
        Test::NotNull | Test::Compare(Comparison::NotEqual, _) => 1.0 - EQUAL,
        Test::Compare(..) => ONE_SIDED,
    }
}

/// The same by what is known about the column.
fn of_test(column: &ColumnStatistics, test: &Test, rows: f64) -> f64 {
    let value = |value: &rightlink::Value| Datum::from(value.clone());
    match test {
        Test::Null => column.nulls,
        Test::NotNull => 1.0 - column.nulls,
        Test::Compare(how, with) => {
            let with = value(with);
            let share = match how {
                Comparison::Equal => Some(column.equal(Some(&with), rows)),
                Comparison::NotEqual => Some(1.0 - column.nulls - column.equal(Some(&with), rows)),
                Comparison::Less => column.below(Some(&with), false),
                Comparison::AtMost => column.below(Some(&with), true),
                Comparison::Greater => column.above(Some(&with), false),
                Comparison::AtLeast => column.above(Some(&with), true),
            };
            share.unwrap_or(ONE_SIDED).max(0.0)
        }
    }
}
