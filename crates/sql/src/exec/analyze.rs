//! What a sample says about the columns of a table.
//!
//! Counts of different values are estimated as Haas and Stokes do (Estimating the Number of Classes
//! in a Finite Population, 1998: the estimator Duj1), the list of most common values ends where
//! what was counted could be chance: both as PostgreSQL's ANALYZE.
//!
//! Invariants: the same rows in the same places give the same statistics.
//! Does not do: keeping what it finds (`store`).

use rightlink::{ScanOptions, Transaction};
use rightlink_env::points;

use crate::error::Result;
use crate::expr::{Context, Pace};
use crate::names::bare;
use crate::plan::Table;
use crate::statistics::sample::{Kept, MOST, Sample};
use crate::statistics::{ColumnStatistics, Statistics, kept_type};
use crate::types::{Datum, SqlType};

/// Most common values that are kept, and parts of a histogram.
const TARGET: usize = 100;

/// Reads a sample of the table for the columns at these places, and calls `pause` in between. Also
/// says in a sentence what was read.
pub(crate) fn analyze(
    txn: &mut Transaction,
    (table, columns): (&Table, &[usize]),
    pause: &mut dyn FnMut() -> Result<()>,
    context: &Context,
) -> Result<(Statistics, String)> {
    let info = &table.info;
    let names = columns.iter().map(|at| info.columns[*at].name.as_str());
    let types: Vec<SqlType> = columns.iter().map(|at| table.types[*at]).collect();
    let read_ahead = context.settings.read_ahead(false);
    let seed = u64::from(info.id);
    let mut sample = Sample::new(&context.budget(), seed)?;
    let options =
        ScanOptions { sample: Some((MOST, seed)), read_ahead, ..ScanOptions::all().columns(names) };
    let mut pace = Pace::default();
    for row in txn.scan(&info.name, &options)? {
        points::hit("analyze.rows");
        pace.step(context)?;
        pause()?;
        let row = row?;
        sample.offer(row.id, row.values, &types);
    }
    let sample = sample.in_order();
    let blocks = info.heap_blocks.saturating_sub(1);
    let read = blocks.min(MOST);
    let rows = match read {
        0 => sample.seen as f64,
        read if read == blocks => sample.seen as f64,
        read => (sample.seen as f64 / f64::from(read) * f64::from(blocks)).round(),
    };
    let report = format!(
        "\"{}\": scanned {read} of {blocks} pages, containing {} live rows; {} rows in sample, {} \
         estimated total rows",
        bare(&info.name),
        sample.seen,
        sample.rows.len(),
        rows
    );
    let mut found = Vec::with_capacity(columns.len());
    for (place, at) in columns.iter().enumerate().filter(|_| !sample.rows.is_empty()) {
        context.check()?;
        let column = &info.columns[*at];
        let values = Values::of(&sample, place);
        found.push(ColumnStatistics {
            name: column.name.clone(),
            ty: kept_type(table.types[*at]),
            ..values.statistics(rows, column.collation.is_none())
        });
    }
    let blocks = f64::from(blocks);
    Ok((Statistics { rows, blocks, columns: found, ..Statistics::default() }, report))
}

/// The values of a column in a sample.
struct Values<'s> {
    /// In order, with their places in the table.
    sorted: Vec<(&'s Datum, usize)>,
    rows: f64,
    nulls: f64,
    wide: f64,
    bytes: f64,
}

/// Equal values: where they begin among the sorted ones, and how many there are.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    count: usize,
}

impl<'s> Values<'s> {
    fn of(sample: &'s Sample, place: usize) -> Values<'s> {
        let rows = sample.rows.len() as f64;
        let mut all = Values { sorted: Vec::new(), rows, nulls: 0.0, wide: 0.0, bytes: 0.0 };
        for (_, row) in &sample.rows {
            match &row[place] {
                Kept::Null => all.nulls += 1.0,
                Kept::Wide(bytes) => {
                    all.wide += 1.0;
                    all.bytes += *bytes as f64;
                }
                Kept::Value(value) => {
                    all.bytes += width(value);
                    all.sorted.push((value, all.sorted.len()));
                }
            }
        }
        all.sorted.sort_by(|a, b| a.0.compare(b.0).then(a.1.cmp(&b.1)));
        all
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (start, (value, _)) in self.sorted.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if self.sorted[run.start].0.compare(value).is_eq() => run.count += 1,
                _ => runs.push(Run { start, count: 1 }),
            }
        }
        runs
    }

    /// Statistics of a column without name. `total` is the rows of the table; where values are not
    /// `ordered` as indexes are, nothing is said about their order.
    fn statistics(&self, total: f64, ordered: bool) -> ColumnStatistics {
        let runs = self.runs();
        let nulls = self.nulls / self.rows;
        let present = self.rows - self.nulls;
        let distinct = self.distinct(&runs, total);
        let common = self.common(&runs, distinct, total);
        let kept = |run: &Run| (self.sorted[run.start].0.clone(), run.count as f64 / self.rows);
        let mut bounds = Vec::new();
        let mut correlation = None;
        if ordered {
            bounds = self.bounds(&runs, &common);
            correlation = self.correlation();
        }
        ColumnStatistics {
            name: String::new(),
            ty: SqlType::Unknown,
            nulls,
            width: if present > 0.0 { self.bytes / present } else { 0.0 },
            distinct,
            common: common.iter().map(kept).collect(),
            bounds,
            correlation,
        }
    }

    /// How many different values the whole table has: a share of its rows, negative, if there are
    /// so many that their number will grow with it.
    fn distinct(&self, runs: &[Run], total: f64) -> f64 {
        let nulls = self.nulls / self.rows;
        let present = self.rows - self.nulls;
        let repeated = runs.iter().filter(|run| run.count > 1).count() as f64;
        if present <= 0.0 {
            return 0.0;
        }
        if repeated == 0.0 {
            return nulls - 1.0;
        }
        let mut found = runs.len() as f64;
        if self.wide > 0.0 || repeated < found {
            let once = found - repeated + self.wide;
            let seen = once + repeated;
            let all = total * (1.0 - nulls);
            found = present * seen / ((present - once) + once * present / all.max(1.0));
            found = found.min(all).max(seen).round();
        }
        if found > 0.1 * total { -(found / total) } else { found }
    }

    /// The runs of the most common values, the most common first.
    fn common(&self, runs: &[Run], distinct: f64, total: f64) -> Vec<Run> {
        let mut common: Vec<Run> = runs.iter().copied().filter(|run| run.count > 1).collect();
        common.sort_by_key(|run| std::cmp::Reverse(run.count));
        let all = common.len() == runs.len() && self.wide == 0.0 && distinct > 0.0;
        if all && common.len() <= TARGET {
            return common;
        }
        common.truncate(TARGET);
        if self.rows >= total || total <= 1.0 {
            return common;
        }
        let values = if distinct < 0.0 { -distinct * total } else { distinct };
        let nulls = self.nulls / self.rows;
        let mut sum: f64 = common.iter().map(|run| run.count as f64).sum();
        while let Some(last) = common.last() {
            let count = last.count as f64;
            sum -= count;
            // The share that it would be given if it were not in the list.
            let mut share = (1.0 - sum / self.rows - nulls).clamp(0.0, 1.0);
            let others = values - (common.len() - 1) as f64;
            if others > 1.0 {
                share /= others;
            }
            // How far a count can be off by chance: the distribution is hypergeometric.
            let (rows, theirs) = (self.rows, total * count / self.rows);
            let variance =
                rows * theirs * (total - theirs) * (total - rows) / (total * total * (total - 1.0));
            if count > share * rows + 2.0 * variance.max(0.0).sqrt() + 0.5 {
                break;
            }
            common.pop();
        }
        common
    }

    /// The bounds of parts with equally many of the values that are not among the most common.
    fn bounds(&self, runs: &[Run], common: &[Run]) -> Vec<Datum> {
        let count = (runs.len() - common.len()).min(TARGET + 1);
        if count < 2 {
            return Vec::new();
        }
        let mut starts: Vec<usize> = common.iter().map(|run| run.start).collect();
        starts.sort_unstable();
        let rest = runs.iter().filter(|run| starts.binary_search(&run.start).is_err());
        let rest: Vec<&Datum> = rest
            .flat_map(|run| &self.sorted[run.start..run.start + run.count])
            .map(|(value, _)| *value)
            .collect();
        let last = rest.len() - 1;
        (0..count).map(|at| rest[at * last / (count - 1)].clone()).collect()
    }

    /// Of the order of the values with that of their places.
    fn correlation(&self) -> Option<f64> {
        if self.sorted.len() < 2 {
            return None;
        }
        let n = self.sorted.len() as f64;
        let places = self.sorted.iter().enumerate();
        let products: f64 = places.map(|(at, (_, place))| at as f64 * *place as f64).sum();
        let sum = (n - 1.0) * n / 2.0;
        let squares = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
        Some((n * products - sum * sum) / (n * squares - sum * sum))
    }
}

/// Bytes of a value, without what a row has besides.
fn width(value: &Datum) -> f64 {
    let fixed = value.type_of().map_or(0, SqlType::fixed_len);
    match value {
        Datum::Text(text) => text.len() as f64,
        Datum::Bytes(bytes) => bytes.len() as f64,
        Datum::Numeric(number) => number.as_bytes().len() as f64,
        _ => f64::from(fixed.max(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink::{RowId, Value};

    /// Statistics of a column whose values lie one in a block, in a table of `total` rows.
    fn of(values: &[Option<i32>], total: f64) -> ColumnStatistics {
        let mut sample = Sample::new(&rightlink::Budget::new(64 << 20), 1).unwrap();
        for (at, value) in values.iter().enumerate() {
            let value = value.map_or(Value::Null, Value::Int4);
            sample.offer(RowId::new(1 + at as u32, 1), vec![value], &[SqlType::Int4]);
        }
        let sample = sample.in_order();
        Values::of(&sample, 0).statistics(total, true)
    }

    #[test]
    fn a_key_has_a_histogram_and_nothing_common() {
        let found = of(&(0..1_000).map(Some).collect::<Vec<_>>(), 1_000.0);
        assert_eq!((found.distinct, found.nulls, found.width), (-1.0, 0.0, 4.0));
        assert!(found.common.is_empty());
        assert_eq!(found.bounds.len(), 101);
        assert_eq!(found.bounds[0], Datum::Int4(0));
        assert_eq!(found.bounds[100], Datum::Int4(999));
        assert!((found.correlation.unwrap() - 1.0).abs() < 1e-9);
        let down = of(&(0..1_000).rev().map(Some).collect::<Vec<_>>(), 1_000.0);
        assert!((down.correlation.unwrap() + 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_few_values_are_all_common() {
        let value = |n: i32| (n % 5 != 4).then_some(i32::from(n % 10 == 0));
        let found = of(&(0..1_000).map(value).collect::<Vec<_>>(), 1_000.0);
        assert_eq!(found.distinct, 2.0);
        assert!((found.nulls - 0.2).abs() < 1e-9);
        assert_eq!(found.common, vec![(Datum::Int4(0), 0.7), (Datum::Int4(1), 0.1)]);
        assert!(found.bounds.is_empty());
        let none = of(&[None, None], 2.0);
        assert_eq!((none.nulls, none.distinct, none.correlation), (1.0, 0.0, None));
    }

    /// In a sample of a large table, values that were met twice by chance are not common.
    #[test]
    fn what_could_be_chance_is_not_common() {
        let value = |n: i32| Some(if n % 2 == 0 { -1 } else { n % 1_201 });
        let found = of(&(0..3_000).map(value).collect::<Vec<_>>(), 1e6);
        assert_eq!(found.common.len(), 1, "{:?}", found.common);
        assert_eq!(found.common[0], (Datum::Int4(-1), 0.5));
        assert_eq!(found.bounds.len(), 101);
    }

    /// Duj1 with 3 values met once, 2 met twice, of 70 rows: 7 * 5 / (4 + 3 * 7 / 70) = 8.14.
    #[test]
    fn different_values_are_estimated_as_published() {
        let found = of(&[1, 2, 3, 4, 4, 5, 5].map(Some), 700.0);
        assert_eq!(found.distinct, 9.0, "7 * 5 / (4 + 3 * 7 / 700) = 8.68");
        let found = of(&[1, 2, 3, 4, 4, 5, 5].map(Some), 70.0);
        assert_eq!(found.distinct, -8.0 / 70.0);
    }
}
