//! The picture: rows and reads a second, a bar for each engine.
//!
//! Invariants: each figure has a scale of its own that begins at zero; only the cells with the most
//! indexes and the largest batch of the run are drawn.
//! Does not do: anything without a name for the JSON lines.

use std::fmt::Write;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::engine::OURS;
use crate::svg::{self, Drawing};

const BAR: f64 = 15.0;
const LABEL: f64 = 80.0;
const WIDTH: f64 = 300.0;
const COLUMN: f64 = LABEL + WIDTH + 80.0;

const PANELS: [(&str, &str); 4] = [
    ("rows_per_s", "rows inserted a second"),
    ("cold_batch_reads_per_s", "cold reads a second, 1,000 at once"),
    ("cold_reads_per_s", "cold reads a second, one by one"),
    ("warm_reads_per_s", "warm reads a second, one by one"),
];

/// Draws the cells.
pub(crate) fn draw(cells: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let most = |name: &str| {
        let values = cells.iter().filter_map(|cell| cell.get::<u64>(name).ok());
        values.max().unwrap_or(0)
    };
    let (indexes, batch) = (most("indexes"), most("batch"));
    let mut drawn = Vec::new();
    for cell in cells {
        let same = cell.get::<u64>("indexes")? == indexes && cell.get::<u64>("batch")? == batch;
        drawn.extend(same.then_some(cell));
    }
    let mut body = String::new();
    let mut y = 20.0;
    write!(body, "<text x=\"4\" y=\"{y}\" font-size=\"12\">")?;
    write!(body, "{indexes} uuid indexes, batches of {batch}</text>")?;
    for (durable, roomy) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut group = Vec::new();
        for cell in &drawn {
            let same = cell.get::<bool>("durable")? == durable
                && cell.get::<bool>("fits_memory")? == roomy;
            group.extend(same.then_some(*cell));
        }
        if group.is_empty() {
            continue;
        }
        let commits = if durable { "durable" } else { "relaxed" };
        let memory = if roomy { "in memory" } else { "memory for a tenth" };
        y += 24.0;
        write!(body, "<text x=\"4\" y=\"{y}\" font-size=\"12\">{commits}, {memory}</text>")?;
        y += 18.0;
        // Beyond memory engines reach tables of different sizes, whose reads do not compare.
        let panels = if roomy { &PANELS[..] } else { &PANELS[..1] };
        for row in panels.chunks(2) {
            for (column, (figure, title)) in row.iter().enumerate() {
                let panel = Panel { x: column as f64 * COLUMN, y, figure, title };
                panel.draw(&group, &mut body)?;
            }
            y += BAR * (group.len() as f64 + 2.0);
        }
    }
    Ok(vec![Drawing { ending: "svg".into(), svg: svg::picture(COLUMN * 2.0, y, &body) }])
}

/// A figure of all engines, below its title.
struct Panel<'a> {
    x: f64,
    y: f64,
    figure: &'a str,
    title: &'a str,
}

impl Panel<'_> {
    fn draw(&self, group: &[&Cell], body: &mut String) -> Result<(), Failure> {
        let Panel { x, y, figure, title } = *self;
        write!(body, "<text x=\"{:.0}\" y=\"{y}\" font-weight=\"bold\">{title}</text>", x + LABEL)?;
        let mut most: f64 = 1.0;
        for cell in group {
            most = most.max(cell.get(figure)?);
        }
        for (number, cell) in group.iter().enumerate() {
            let (engine, value): (String, f64) = (cell.get("engine")?, cell.get(figure)?);
            let colour = if engine == OURS { "#246" } else { "#999" };
            let (top, width) = (y + 5.0 + number as f64 * BAR, value / most * WIDTH);
            let (left, text) = (x + LABEL, top + BAR - 5.0);
            write!(
                body,
                "<text x=\"{:.0}\" y=\"{text}\" text-anchor=\"end\">{engine}</text>\
             <rect x=\"{left:.0}\" y=\"{top}\" width=\"{width:.1}\" height=\"{:.0}\" \
             fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{text}\">{value:.0}</text>",
                left - 6.0,
                BAR - 3.0,
                left + width + 4.0
            )?;
        }
        Ok(())
    }
}
