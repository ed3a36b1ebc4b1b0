//! The picture: updates a second in slices, a line for each cell.
//!
//! Invariants: all cells share one scale that begins at zero. Does not do: anything without a name
//! for the JSON lines.

use std::fmt::Write;

use crate::Failure;
use crate::hot_update::title;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 6] = ["#284", "#c33", "#246", "#a60", "#639", "#555"];

/// Draws the cells.
pub(crate) fn draw(cells: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let mut lines: Vec<(String, Vec<f64>)> = Vec::new();
    for cell in cells {
        let speeds: String = cell.get("slice_speeds")?;
        lines.push((title(cell)?, serde_json::from_str(&speeds)?));
    }
    let most = lines.iter().flat_map(|(_, slices)| slices).copied().fold(1.0, f64::max);
    let mut body = String::new();
    for tick in 0..=4 {
        let value = most * f64::from(tick) / 4.0;
        let y = MARGIN + HEIGHT * (1.0 - f64::from(tick) / 4.0);
        write!(
            body,
            "<text x=\"4\" y=\"{y}\">{value:.0}/s</text><line x1=\"{MARGIN}\" x2=\"{}\" \
             y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>",
            MARGIN + WIDTH
        )?;
    }
    for (number, (title, slices)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let step = WIDTH / slices.len().saturating_sub(1).max(1) as f64;
        let mut points = String::new();
        for (at, value) in slices.iter().enumerate() {
            let (x, y) = (MARGIN + at as f64 * step, MARGIN + HEIGHT * (1.0 - value / most));
            write!(points, "{x:.1},{y:.1} ")?;
        }
        let y = MARGIN + HEIGHT + 20.0 + number as f64 * 13.0;
        write!(
            body,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\"/>\
             <text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\">{title}</text>"
        )?;
    }
    let height = MARGIN + HEIGHT + 40.0 + lines.len() as f64 * 13.0;
    let svg = svg::picture(WIDTH + 2.0 * MARGIN, height, &body);
    Ok(vec![Drawing { ending: "svg", svg }])
}
