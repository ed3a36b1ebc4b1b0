//! The picture: a chart for each data set and direction, percentiles as bands.
//!
//! Invariants: both axes go from the first to the last row. Does not do: anything without a name
//! for the JSON lines.

use std::fmt::Write;

use crate::Failure;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

const SIDE: f64 = 130.0;
const GAP: f64 = 14.0;
const TITLE: f64 = 32.0;

/// Draws the cells: keys by place above, places by key below.
pub(crate) fn draw(cells: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let (mut body, mut across) = (String::new(), 0);
    for (row, (by, title)) in
        [("place", "keys by place in the heap"), ("key", "places in the heap by key")]
            .into_iter()
            .enumerate()
    {
        let y = row as f64 * (SIDE + TITLE);
        write!(body, "<text x=\"{GAP}\" y=\"{}\" font-weight=\"bold\">{title}</text>", y + 12.0)?;
        let is_of = |cell: &&Cell| cell.get("by") == Ok(by.to_string());
        for (column, cell) in cells.iter().filter(is_of).enumerate() {
            let x = GAP + column as f64 * (SIDE + GAP);
            let chart = chart(cell)?;
            write!(body, "<g transform=\"translate({x} {})\">{chart}</g>", y + TITLE)?;
            across = across.max(column + 1);
        }
    }
    let width = GAP + across as f64 * (SIDE + GAP);
    let svg = svg::picture(width, 2.0 * (SIDE + TITLE) + GAP, &body);
    Ok(vec![Drawing { ending: "svg".into(), svg }])
}

/// All values, the middle half of them, and the median, from left to right.
fn chart(cell: &Cell) -> Result<String, Failure> {
    let (fuzz, run): (i64, u64) = (cell.get("fuzz")?, cell.get("run")?);
    let fuzz = if fuzz < 0 { "random".to_string() } else { format!("fuzz {fuzz}") };
    let runs = if run > 1 { format!(", runs of {run}") } else { String::new() };
    let mut out = format!(
        "<text x=\"0\" y=\"-4\" font-size=\"9\">{fuzz}{runs}</text>\
         <rect width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"#ccc\"/>"
    );
    for (low, high, colour) in [("p0", "p100", "#cde7d5"), ("p25", "p75", "#7fbf95")] {
        let (low, high) = (spots(cell, low)?, spots(cell, high)?);
        let around: Vec<String> = low.into_iter().chain(high.into_iter().rev()).collect();
        write!(out, "<polygon points=\"{}\" fill=\"{colour}\"/>", around.join(" "))?;
    }
    let median = spots(cell, "p50")?.join(" ");
    write!(out, "<polyline points=\"{median}\" fill=\"none\" stroke=\"#175c2e\"/>")?;
    Ok(out)
}

/// A percentile of each slice, as points of the chart.
fn spots(cell: &Cell, name: &str) -> Result<Vec<String>, Failure> {
    let text: String = cell.get(name)?;
    let parts: Vec<f64> = serde_json::from_str(&text)?;
    let step = SIDE / parts.len().max(1) as f64;
    let spot = |(at, part): (usize, &f64)| {
        format!("{:.1},{:.1}", (at as f64 + 0.5) * step, (1.0 - part) * SIDE)
    };
    Ok(parts.iter().enumerate().map(spot).collect())
}
