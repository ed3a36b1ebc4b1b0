//! The pictures: transactions a second over the time of the load, one picture for each policy, a
//! line for each cell. Bands show when a vacuum and a read of the whole table ran.
//!
//! Invariants: all pictures of a run share one scale of speed and one of time; both begin at zero.
//! Does not do: anything without a name for the JSON lines.

use std::fmt::Write;

use crate::Failure;
use crate::hot_update::events::Ran;
use crate::hot_update::outcome::title;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 6] = ["#284", "#c33", "#246", "#a60", "#639", "#555"];

/// A cell under one policy.
struct Line {
    policy: String,
    title: String,
    slices: Vec<Point>,
    /// A vacuum, and a read of the whole table.
    events: [Ran; 2],
}

/// A slice of time.
struct Point {
    /// Its middle, in seconds of the load.
    at_s: f64,
    /// Transactions a second.
    tps: f64,
}

impl Line {
    fn of(cell: &Cell) -> Result<Line, Failure> {
        let list = |name: &str| -> Result<Vec<f64>, Failure> {
            Ok(serde_json::from_str(&cell.get::<String>(name)?)?)
        };
        let slices = list("slices_at_s")?.into_iter().zip(list("slices_tps")?);
        let slices = slices.map(|(at_s, tps)| Point { at_s, tps }).collect();
        let ran = |from: &str, to: &str| -> Result<Ran, String> {
            Ok(Ran { from: cell.get(from)?, to: cell.get(to)? })
        };
        let events = [ran("vacuum_from", "vacuum_to")?, ran("scan_from", "scan_to")?];
        Ok(Line { policy: cell.get("hints")?, title: title(cell)?, slices, events })
    }
}

/// Values at the upper and at the right edge.
struct Scale {
    tps: f64,
    seconds: f64,
}

impl Scale {
    fn of(lines: &[Line]) -> Scale {
        let slices = || lines.iter().flat_map(|line| &line.slices);
        let ends = lines.iter().flat_map(|line| &line.events).map(|event| event.to);
        let seconds = slices().map(|slice| slice.at_s).chain(ends).fold(1e-3, f64::max);
        Scale { tps: slices().map(|slice| slice.tps).fold(1.0, f64::max), seconds }
    }

    fn x(&self, seconds: f64) -> f64 {
        MARGIN + WIDTH * seconds / self.seconds
    }

    fn y(&self, tps: f64) -> f64 {
        MARGIN + HEIGHT * (1.0 - tps / self.tps)
    }
}

/// Draws the cells: `POLICY.svg` for each policy.
pub(crate) fn draw(cells: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let lines = cells.iter().map(Line::of).collect::<Result<Vec<_>, _>>()?;
    let scale = Scale::of(&lines);
    let mut policies: Vec<&str> = lines.iter().map(|line| line.policy.as_str()).collect();
    policies.sort_unstable();
    policies.dedup();
    let mut drawings = Vec::new();
    for policy in policies {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.policy == policy).collect();
        let svg = picture(&lines, &scale)?;
        drawings.push(Drawing { ending: format!("{policy}.svg"), svg });
    }
    Ok(drawings)
}

fn picture(lines: &[&Line], scale: &Scale) -> Result<String, Failure> {
    let mut body = String::new();
    let (right, bottom) = (MARGIN + WIDTH, MARGIN + HEIGHT);
    for tick in 0..=4 {
        let value = scale.tps * f64::from(tick) / 4.0;
        let y = scale.y(value);
        write!(
            body,
            "<text x=\"4\" y=\"{y}\">{value:.0}/s</text><line x1=\"{MARGIN}\" x2=\"{right}\" \
             y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>"
        )?;
    }
    write!(body, "<text x=\"{}\" y=\"{bottom}\">{:.0} s</text>", right + 4.0, scale.seconds)?;
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        for event in line.events.iter().filter(|event| !event.from.is_nan()) {
            let (from, to) = (scale.x(event.from), scale.x(event.to));
            write!(
                body,
                "<rect x=\"{from:.1}\" y=\"{MARGIN}\" width=\"{:.1}\" height=\"{HEIGHT}\" \
                 fill=\"{colour}\" fill-opacity=\"0.12\"/>",
                (to - from).max(1.0)
            )?;
        }
        let mut points = String::new();
        for slice in &line.slices {
            write!(points, "{:.1},{:.1} ", scale.x(slice.at_s), scale.y(slice.tps))?;
        }
        let (y, title) = (bottom + 20.0 + number as f64 * 13.0, &line.title);
        write!(
            body,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\"/>\
             <text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\">{title}</text>"
        )?;
    }
    let height = bottom + 40.0 + lines.len() as f64 * 13.0;
    Ok(svg::picture(WIDTH + 2.0 * MARGIN, height, &body))
}
