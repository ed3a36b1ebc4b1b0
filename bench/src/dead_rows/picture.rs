//! The picture: bytes a key, load and search of each structure, a row of bars for each set.
//!
//! Invariants: each group of bars has a scale of its own that begins at zero.
//! Does not do: anything without a name for the JSON lines.

use std::fmt::Write;

use crate::Failure;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

const PANELS: [(&str, &str); 4] = [
    ("bytes_per_key", "bytes a key"),
    ("load_ns", "load, ns a key"),
    ("lookup_ns", "search in order, ns"),
    ("lookup_shuffled_ns", "search shuffled, ns"),
];
const BAR: f64 = 12.0;
const TITLE: f64 = 26.0;
const LABELS: f64 = 60.0;
const FULL: f64 = 150.0;
const PANEL: f64 = FULL + 60.0;

/// Draws the cells.
pub(crate) fn draw(cells: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let mut sets: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let keys: String = cell.get("keys")?;
        match sets.last_mut().filter(|(last, _)| *last == keys) {
            Some((_, set)) => set.push(cell),
            None => sets.push((keys, vec![cell])),
        }
    }
    let (mut body, mut y) = (String::new(), TITLE);
    for (column, (_, title)) in PANELS.iter().enumerate() {
        let x = LABELS + column as f64 * PANEL;
        write!(body, "<text x=\"{x}\" y=\"14\" font-weight=\"bold\">{title}</text>")?;
    }
    for (keys, set) in &sets {
        let count: u64 = set[0].get("count")?;
        write!(body, "<text x=\"4\" y=\"{}\">{keys}: {count} keys</text>", y + BAR)?;
        y += BAR + 6.0;
        for (row, cell) in set.iter().enumerate() {
            let (x, y) = (LABELS - 4.0, y + row as f64 * BAR + 9.0);
            let name: String = cell.get("structure")?;
            write!(body, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>")?;
        }
        for (column, (figure, _)) in PANELS.iter().enumerate() {
            bars(&mut body, set, figure, LABELS + column as f64 * PANEL, y)?;
        }
        y += set.len() as f64 * BAR + 10.0;
    }
    let width = LABELS + PANELS.len() as f64 * PANEL;
    Ok(vec![Drawing { ending: "svg".into(), svg: svg::picture(width, y, &body) }])
}

/// One figure of all structures of a set.
fn bars(body: &mut String, set: &[&Cell], figure: &str, x: f64, y: f64) -> Result<(), Failure> {
    let values = set.iter().map(|cell| cell.get::<f64>(figure)).collect::<Result<Vec<_>, _>>()?;
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for (row, (cell, value)) in set.iter().zip(values).enumerate() {
        let colour = if cell.get::<String>("structure")? == "ours" { "#284" } else { "#b0b0b0" };
        let (y, width) = (y + row as f64 * BAR, FULL * value / most);
        write!(
            body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{value:.2}</text>",
            BAR - 1.0,
            x + width + 4.0,
            y + 9.0
        )?;
    }
    Ok(())
}
