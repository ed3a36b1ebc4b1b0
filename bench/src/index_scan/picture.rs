//! The pictures: time against fuzz for each method and policy, and the ratio to no prefetch.
//!
//! Invariants: one chart for each method, device, cache, kind, direction and selectivity; files lie
//! beside the JSON lines. Does not do: anything without a name for the JSON lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Failure;
use crate::knobs::Cell;
use crate::svg::{self, Drawing};

/// A figure of one policy in one cell.
struct Point<'c> {
    cell: &'c Cell,
    policy: String,
    ms: f64,
    ratio: f64,
    /// What the bare device takes, where that can be compared.
    limit_ms: Option<f64>,
}

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 200.0;
const MARGIN: f64 = 46.0;
const ACROSS: usize = 3;
const CELL: f64 = 34.0;
/// Knobs that tell one chart from another, and those that are mostly alike in all of them.
const OF_CHART: [&str; 6] = ["method", "device", "cache", "kind", "direction", "selectivity"];
const OF_TABLE: [&str; 7] =
    ["rows", "duplicates", "fillfactor", "run", "changed", "estimate", "io"];
const LINES: [(&str, &str, f64); 4] = [
    ("none", "#555", 0.0),
    ("simple", "#c33", 36.0),
    ("adaptive", "#284", 76.0),
    (LIMIT, "#36c", 124.0),
];
const LIMIT: &str = "device's limit";

/// Draws both pictures.
pub(crate) fn draw(lines: &[Cell]) -> Result<Vec<Drawing>, Failure> {
    let points = lines.iter().map(Point::of).collect::<Result<Vec<_>, _>>()?;
    Ok(vec![
        Drawing { ending: "svg".into(), svg: charts(&points)? },
        Drawing { ending: "ratio.svg".into(), svg: heat_map(&points)? },
    ])
}

impl Point<'_> {
    fn of(cell: &Cell) -> Result<Point<'_>, String> {
        let (ms, share): (f64, f64) = (cell.get("ms")?, cell.get("limit_share")?);
        let limit_ms = Some(share * ms).filter(|limit| limit.is_finite());
        Ok(Point {
            cell,
            policy: cell.get("prefetch")?,
            ms,
            ratio: cell.get("ratio_to_none")?,
            limit_ms,
        })
    }
}

/// What stands above a chart in two lines, and its points.
type Groups<'p> = BTreeMap<(String, String), Vec<&'p Point<'p>>>;

fn groups<'p>(points: &'p [Point<'p>]) -> Result<Groups<'p>, String> {
    let mut groups = Groups::new();
    for point in points {
        let words = OF_CHART.iter().map(|name| point.cell.get::<String>(name));
        let title = words.collect::<Result<Vec<_>, _>>()?.join(" ") + " %";
        let words =
            OF_TABLE.iter().map(|name| Ok(format!("{name} {}", point.cell.get::<String>(name)?)));
        let table = words.collect::<Result<Vec<_>, String>>()?.join(", ");
        groups.entry((title, table)).or_default().push(point);
    }
    Ok(groups)
}

fn charts(points: &[Point<'_>]) -> Result<String, Failure> {
    let groups = groups(points)?;
    let mut body = String::new();
    for (number, ((title, table), points)) in groups.iter().enumerate() {
        let (x, y) = ((number % ACROSS) as f64, (number / ACROSS) as f64);
        let chart = chart(title, table, points)?;
        let (x, y) = (x * (WIDTH + MARGIN), y * (HEIGHT + 2.0 * MARGIN));
        write!(body, "<g transform=\"translate({x} {y})\">{chart}</g>")?;
    }
    let rows = groups.len().div_ceil(ACROSS) as f64;
    let width = ACROSS as f64 * (WIDTH + MARGIN) + MARGIN;
    Ok(svg::picture(width, rows * (HEIGHT + 2.0 * MARGIN), &body))
}

/// Fuzz from left to right, milliseconds on a logarithmic scale.
fn chart(title: &str, table: &str, points: &[&Point<'_>]) -> Result<String, Failure> {
    let fuzz = fuzz_values(points)?;
    let limits = points.iter().filter_map(|point| point.limit_ms);
    let all = || points.iter().map(|point| point.ms).chain(limits.clone());
    let logs = || all().map(|ms| ms.max(1e-3).log10());
    let low = logs().fold(f64::INFINITY, f64::min).floor();
    let high = logs().fold(low + 1.0, f64::max).ceil();
    let x = |at: usize| MARGIN + at as f64 * (WIDTH - MARGIN) / (fuzz.len().max(2) - 1) as f64;
    let y = |log: f64| MARGIN + (high - log) / (high - low) * HEIGHT;
    let mut out = format!(
        "<text x=\"{MARGIN}\" y=\"14\">{title}</text>\
         <text x=\"{MARGIN}\" y=\"25\" font-size=\"7\" fill=\"#777\">{table}</text>"
    );
    for tick in low as i32..=high as i32 {
        let (at, ms) = (y(f64::from(tick)), 10f64.powi(tick));
        write!(
            out,
            "<text x=\"2\" y=\"{at}\" font-size=\"8\">{ms} ms</text>\
             <line x1=\"{MARGIN}\" x2=\"{WIDTH}\" \
             y1=\"{at}\" y2=\"{at}\" stroke=\"#ddd\"/>"
        )?;
    }
    for (at, value) in fuzz.iter().enumerate() {
        let (x, y) = (x(at), MARGIN + HEIGHT + 12.0);
        let text = named(*value);
        write!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"7\">{text}</text>"
        )?;
    }
    for (line, colour, offset) in LINES {
        let mut spots = String::new();
        for (at, value) in fuzz.iter().enumerate() {
            let fits = |point: &&&Point<'_>| {
                let policy = if line == LIMIT { "adaptive" } else { line };
                point.policy == policy && point.cell.get::<i64>("fuzz") == Ok(*value)
            };
            let point = points.iter().find(fits);
            let ms = point.and_then(|p| if line == LIMIT { p.limit_ms } else { Some(p.ms) });
            if let Some(ms) = ms {
                write!(spots, "{},{} ", x(at), y(ms.max(1e-3).log10()))?;
            }
        }
        if spots.is_empty() {
            continue;
        }
        let dashes = if line == LIMIT { " stroke-dasharray=\"4 3\"" } else { "" };
        write!(
            out,
            "<polyline points=\"{spots}\" fill=\"none\" stroke=\"{colour}\"{dashes}/>\
             <text x=\"{}\" y=\"38\" font-size=\"8\" fill=\"{colour}\">{line}</text>",
            MARGIN + offset
        )?;
    }
    Ok(out)
}

fn named(fuzz: i64) -> String {
    if fuzz < 0 { "random".to_string() } else { fuzz.to_string() }
}

/// The fuzz values of some points, random last.
fn fuzz_values(points: &[&Point<'_>]) -> Result<Vec<i64>, String> {
    let mut fuzz: Vec<i64> =
        points.iter().map(|point| point.cell.get("fuzz")).collect::<Result<_, _>>()?;
    fuzz.sort_unstable_by_key(|fuzz| if *fuzz < 0 { i64::MAX } else { *fuzz });
    fuzz.dedup();
    Ok(fuzz)
}

/// One row for each setting and selectivity, one column for each fuzz: adaptive against none.
fn heat_map(points: &[Point<'_>]) -> Result<String, Failure> {
    let all: Vec<&Point<'_>> = points.iter().collect();
    let (groups, fuzz) = (groups(points)?, fuzz_values(&all)?);
    let left = 480.0;
    let mut body = String::new();
    for (column, value) in fuzz.iter().enumerate() {
        let x = left + column as f64 * CELL;
        write!(body, "<text x=\"{x}\" y=\"14\" font-size=\"8\">{}</text>", named(*value))?;
    }
    write!(body, "<text x=\"4\" y=\"14\" fill=\"#777\">adaptive to none, by fuzz</text>")?;
    for (row, ((title, table), points)) in groups.iter().enumerate() {
        let y = 20.0 + row as f64 * 18.0;
        write!(body, "<text x=\"4\" y=\"{}\" font-size=\"8\">{title}, {table}</text>", y + 12.0)?;
        for point in points.iter().filter(|point| point.policy == "adaptive") {
            let value: i64 = point.cell.get("fuzz")?;
            let column = fuzz.iter().position(|fuzz| *fuzz == value).unwrap_or(0);
            let (x, colour) = (left + column as f64 * CELL, colour(point.ratio));
            write!(
                body,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"18\" fill=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{}\" font-size=\"8\">{:.2}</text>",
                x + 4.0,
                y + 12.0,
                point.ratio
            )?;
        }
    }
    let height = 30.0 + groups.len() as f64 * 18.0;
    Ok(svg::picture(left + (fuzz.len() + 1) as f64 * CELL, height, &body))
}

/// Green where prefetching is faster, red where it is slower.
fn colour(ratio: f64) -> String {
    let strength = (ratio.max(1e-3).log2().abs() / 4.0).min(1.0);
    let other = (255.0 * (1.0 - strength)) as u8;
    if ratio <= 1.0 {
        format!("rgb({other},255,{other})")
    } else {
        format!("rgb(255,{other},{other})")
    }
}
