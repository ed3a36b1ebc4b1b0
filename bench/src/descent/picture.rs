//! The picture: time with a part of the search off, as a ratio to all parts on, with its interval.
//!
//! Invariants: one logarithmic scale for all cells; the line at 1 is all parts on.
//! Does not do: comparisons and key bytes, which the JSON lines have.

use std::fmt::Write;

use crate::Failure;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

const PANELS: [(&str, &str); 2] = [("lookup", "lookups"), ("insert", "insertions")];
const ROW: f64 = 11.0;
const TITLE: f64 = 34.0;
const LABELS: f64 = 120.0;
const FULL: f64 = 300.0;
const PANEL: f64 = FULL + 60.0;
/// Ratios at the ends of the scale; what lies beyond is drawn at the end.
const LEAST: f64 = 0.6;
const MOST: f64 = 6.0;
/// Ratios with a line.
const LINES: [f64; 4] = [0.75, 1.0, 2.0, 4.0];

/// Draws the cells.
pub(crate) fn draw(cells: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let writer: bool = cell.get("writer")?;
        let shape: String = cell.get("shape")?;
        let name = if writer { format!("{shape}, beside a writer") } else { shape };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    let (mut body, mut y) = (String::new(), TITLE);
    for (name, group) in &groups {
        write!(body, "<text x=\"4\" y=\"{}\" font-weight=\"bold\">{name}</text>", y + ROW)?;
        y += ROW + 4.0;
        for cell in group {
            let part: String = cell.get("optimisation")?;
            if part == "all" {
                continue;
            }
            let label = if part == "none" { "all parts off" } else { &part };
            let (x, middle) = (LABELS - 4.0, y + ROW / 2.0);
            let base = middle + 3.5;
            write!(body, "<text x=\"{x}\" y=\"{base}\" text-anchor=\"end\">{label}</text>")?;
            for (column, (figure, _)) in PANELS.iter().enumerate() {
                interval(&mut body, cell, figure, LABELS + column as f64 * PANEL, middle)?;
            }
            y += ROW;
        }
        y += 6.0;
    }
    for (column, (_, title)) in PANELS.iter().enumerate() {
        scale(&mut body, title, LABELS + column as f64 * PANEL, y)?;
    }
    let width = LABELS + PANELS.len() as f64 * PANEL;
    Ok(vec![Drawing { ending: "svg".into(), svg: svg::picture(width, y + 4.0, &body) }])
}

/// Where a ratio stands on the scale.
fn place(ratio: f64) -> f64 {
    FULL * (ratio.clamp(LEAST, MOST) / LEAST).ln() / (MOST / LEAST).ln()
}

/// A ratio as a dot, its interval as a line.
fn interval(body: &mut String, cell: &Cell, figure: &str, x: f64, y: f64) -> Result<(), Failure> {
    let value = |end: &str| cell.get::<f64>(&format!("{figure}_ratio{end}"));
    let (ratio, low, high) = (value("")?, value("_low")?, value("_high")?);
    // Grey where the interval says nothing.
    let colour = if low > 1.0 || high < 1.0 { "#284" } else { "#b0b0b0" };
    write!(
        body,
        "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\"/>\
         <circle cx=\"{:.1}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{}\">{ratio:.2}</text>",
        x + place(low),
        x + place(high),
        x + place(ratio),
        x + place(high) + 6.0,
        y + 3.5
    )?;
    Ok(())
}

/// The title of a panel and its lines, down to `bottom`.
fn scale(body: &mut String, title: &str, x: f64, bottom: f64) -> Result<(), Failure> {
    write!(
        body,
        "<text x=\"{x}\" y=\"14\" font-weight=\"bold\">{title}: time, all parts on = 1</text>"
    )?;
    for ratio in LINES {
        let at = x + place(ratio);
        let width = if ratio == 1.0 { 1.0 } else { 0.3 };
        write!(
            body,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TITLE}\" y2=\"{bottom}\" stroke=\"#444\" \
             stroke-width=\"{width}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{ratio}\
             </text>",
            TITLE - 6.0
        )?;
    }
    Ok(())
}
