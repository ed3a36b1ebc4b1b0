//! Experiment `row-order`: what the data sets of `index-scan` look like, without a database.
//!
//! Rows lie in a heap by `fuzz`, as `index-scan` stores them. The heap is cut into slices of equal
//! length. A line has percentiles of the keys in each slice, as parts of all rows: at fuzz 0 they
//! follow the place, in random order each slice has all keys. The other direction is the places of
//! the rows in each slice of the keys. After the charts of data sets in the thread on index
//! prefetching.
//!
//! Invariants: percentiles ascend. Does not do: time anything.

pub(crate) mod picture;

use crate::Failure;
use crate::args::Args;
use crate::index_scan::table::order;
use crate::knobs::{self, Knob};
use crate::report::{Column, Field, Report};
use crate::scratch::Scratch;

pub(crate) const NAME: &str = "row-order";
pub(crate) const ABOUT: &str = "keys by place in the heap and places by key, of each data set";

const FUZZ: &[&str] = &["0", "64", "1024", "16384", "65536", "262144", "1000000", "-1"];

/// `rows` is the size of the table; neighbours of a `run` are moved together.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "rows", quick: &["20000"], default: &["1000000"], all: &["10000000"] },
    Knob { name: "duplicates", quick: &["1"], default: &["1"], all: &["1", "32"] },
    Knob { name: "run", quick: &["1"], default: &["1"], all: &["1", "64"] },
    Knob { name: "fuzz", quick: &["0", "1024", "-1"], default: FUZZ, all: FUZZ },
];

/// Slices of a data set.
const SLICES: usize = 50;
/// The percentiles of a slice, and their names in the lines.
const PERCENTILES: [(usize, &str); 5] =
    [(0, "p0"), (25, "p25"), (50, "p50"), (75, "p75"), (100, "p100")];

/// Runs the matrix: two lines for each data set.
pub(crate) fn run(args: &Args, _: &Scratch, report: &mut Report) -> Result<(), Failure> {
    for cell in knobs::matrix(KNOBS, args.size, &args.knobs) {
        let keys = order(&cell)?;
        let mut places: Vec<u64> = (0..keys.len() as u64).collect();
        places.sort_by_key(|place| keys[*place as usize]);
        let (rows, duplicates): (u64, u64) = (cell.get("rows")?, cell.get("duplicates")?);
        for (by, values, most) in
            [("place", keys, rows.div_ceil(duplicates)), ("key", places, rows)]
        {
            let mut line: Vec<Column> = vec![
                ("experiment", Field::Text(NAME.into())),
                ("rows", Field::Int(rows)),
                ("duplicates", Field::Int(duplicates)),
                ("run", Field::Int(cell.get("run")?)),
                ("fuzz", Field::Float(cell.get("fuzz")?)),
                ("by", Field::Text(by.into())),
            ];
            let mut shown = line[4..].to_vec();
            shown.push(("widest slice", Field::Float(widest(&values, most))));
            line.extend(percentiles(&values, most));
            report.cell(&line, &shown)?;
        }
    }
    Ok(())
}

/// Each percentile of all slices, as parts of `most`.
fn percentiles(values: &[u64], most: u64) -> Vec<Column> {
    let slices: Vec<Vec<u64>> = slices(values).collect();
    let at = |slice: &Vec<u64>, percent: usize| {
        slice[(slice.len() - 1) * percent / 100] as f64 / most.max(1) as f64
    };
    let list = |percent| slices.iter().map(|slice| at(slice, percent)).collect();
    PERCENTILES.iter().map(|(percent, name)| (*name, Field::List(list(*percent)))).collect()
}

/// The slices, each sorted.
fn slices(values: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let length = values.len().div_ceil(SLICES).max(1);
    values.chunks(length).map(|slice| {
        let mut slice = slice.to_vec();
        slice.sort_unstable();
        slice
    })
}

/// The part of `most` that the widest slice spans.
fn widest(values: &[u64], most: u64) -> f64 {
    let spans = slices(values).map(|slice| slice[slice.len() - 1] - slice[0]);
    spans.max().unwrap_or(0) as f64 / most.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_an_ordered_and_of_a_reversed_set() {
        let ascending: Vec<u64> = (0..1000).collect();
        let descending: Vec<u64> = (0..1000).rev().collect();
        assert_eq!(widest(&ascending, 1000), 0.019);
        for (values, first) in
            [(ascending, [0.0, 0.009, 0.019]), (descending, [0.98, 0.989, 0.999])]
        {
            let columns = percentiles(&values, 1000);
            let list = |at: usize| match &columns[at].1 {
                Field::List(list) => list.clone(),
                other => panic!("a list, not {other:?}"),
            };
            assert_eq!(columns.len(), PERCENTILES.len());
            assert!(columns.iter().zip(PERCENTILES).all(|(column, (_, name))| column.0 == name));
            assert_eq!([list(0)[0], list(2)[0], list(4)[0]], first);
            assert_eq!(list(0).len(), SLICES);
        }
    }
}
