//! The picture: what a batch takes without reading ahead, with it, and what the device needs.
//!
//! Invariants: bars of one batch are to one scale, on which the bar without reading ahead is full.
//! Does not do: anything without a name for the JSON lines.

use std::fmt::Write;

use crate::Failure;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

/// What one cell reached, in milliseconds a batch.
struct Bars<'c> {
    cell: &'c Cell,
    off: f64,
    on: f64,
    /// The reads of the batch alone, at the device's best.
    limit: f64,
}

const LABELS: f64 = 110.0;
const FULL: f64 = 420.0;
const WIDTH: f64 = LABELS + FULL + 110.0;
const BAR: f64 = 12.0;
const BATCH: f64 = 2.0 * BAR + 10.0;
const TITLE: f64 = 30.0;
const OFF: &str = "#b0b0b0";
const ON: &str = "#228844";

impl Bars<'_> {
    /// The bars of a batch from its lines: without reading ahead, then with it.
    fn of(lines: &[Cell]) -> Result<Bars<'_>, Failure> {
        let [off, on] = lines else { return Err("a batch has two lines".into()) };
        for (line, prefetch) in [(off, "off"), (on, "on")] {
            if line.get::<String>("prefetch")? != prefetch {
                return Err("a batch has a line without reading ahead, then one with it".into());
            }
        }
        let ms = |line: &Cell| line.get::<f64>("ms_per_batch");
        let limit = on.get::<f64>("device_limit_share")? * ms(on)?;
        Ok(Bars { cell: on, off: ms(off)?, on: ms(on)?, limit })
    }
}

/// Draws the cells.
pub(crate) fn draw(lines: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let mut panels: Vec<(String, Vec<Bars<'_>>)> = Vec::new();
    for batch in lines.chunks(2) {
        let bars = Bars::of(batch)?;
        let title = title(bars.cell)?;
        match panels.iter_mut().find(|(of, _)| *of == title) {
            Some((_, panel)) => panel.push(bars),
            None => panels.push((title, vec![bars])),
        }
    }
    let (mut body, mut y) = (legend(), TITLE);
    for (title, panel) in &panels {
        write!(body, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{title}</text>", y + 18.0)?;
        y += TITLE;
        for bars in panel {
            batch(&mut body, y, bars)?;
            y += BATCH;
        }
    }
    Ok(vec![Drawing { ending: "svg".into(), svg: svg::picture(WIDTH, y + 10.0, &body) }])
}

fn title(cell: &Cell) -> Result<String, String> {
    let word = |name| cell.get::<String>(name);
    let (indexes, rows) = (word("indexes")?, word("rows")?);
    let (setting, method, device) = (word("setting")?, word("method")?, word("device")?);
    let (writers, io) = (word("writers")?, word("io")?);
    let batch =
        if writers == "1" { "a batch".into() } else { format!("{writers} batches at once") };
    Ok(format!(
        "{setting}: {batch} into {rows} rows with {indexes} random-key indexes, {method}, {io}, \
         {device}"
    ))
}

fn legend() -> String {
    let mut out = String::new();
    let marks = [(OFF, "no reading ahead"), (ON, "reading ahead"), ("black", "the device's limit")];
    for (at, (colour, text)) in marks.into_iter().enumerate() {
        let x = LABELS + at as f64 * 130.0;
        let width = if colour == "black" { 2.0 } else { 10.0 };
        out += &format!(
            "<rect x=\"{x}\" y=\"10\" width=\"{width}\" height=\"10\" fill=\"{colour}\"/>"
        );
        out += &format!("<text x=\"{}\" y=\"19\">{text}</text>", x + 14.0);
    }
    out
}

/// The two bars of a batch, one above the other, and a mark where the device's limit is.
fn batch(out: &mut String, y: f64, bars: &Bars<'_>) -> Result<(), Failure> {
    let batch: u64 = bars.cell.get("batch")?;
    let slowest = bars.off.max(bars.on);
    let limit = LABELS + FULL * (bars.limit / slowest).min(1.0);
    let end = LABELS - 8.0;
    write!(out, "<text x=\"{end}\" y=\"{}\" text-anchor=\"end\">{batch} rows</text>", y + 16.0)?;
    for (row, (ms, colour)) in [(bars.off, OFF), (bars.on, ON)].into_iter().enumerate() {
        let (y, width) = (y + row as f64 * BAR, FULL * ms / slowest);
        // Beside the bar, and not on the mark.
        let x = (LABELS + width).max(limit) + 5.0;
        write!(
            out,
            "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>\
             <text x=\"{x:.1}\" y=\"{}\">{ms:.1} ms</text>",
            BAR - 1.0,
            y + 9.0
        )?;
    }
    let height = 2.0 * BAR;
    write!(
        out,
        "<rect x=\"{limit:.1}\" y=\"{y}\" width=\"2\" height=\"{height}\" fill=\"black\"/>"
    )?;
    Ok(())
}
