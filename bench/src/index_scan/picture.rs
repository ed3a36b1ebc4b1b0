//! The pictures: time against fuzz for each method and policy, and the ratio to no prefetch.
//!
//! Invariants: one chart for each method, device, cache, kind, direction and selectivity; files lie
//! beside the JSON lines. Does not do: anything without a name for the JSON lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::Failure;
use crate::knobs::Cell;
use crate::svg;

/// A figure of one policy in one cell.
pub(crate) struct Point {
    pub(crate) cell: Cell,
    pub(crate) policy: &'static str,
    pub(crate) ms: f64,
    pub(crate) ratio: f64,
}

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 200.0;
const MARGIN: f64 = 46.0;
const ACROSS: usize = 3;
const CELL: f64 = 34.0;
const BEFORE_FUZZ: [&str; 9] =
    ["rows", "duplicates", "fillfactor", "method", "device", "io", "cache", "kind", "direction"];

/// Draws both pictures beside `json`.
pub(crate) fn draw(json: &Path, points: &[Point]) -> Result<(), Failure> {
    std::fs::write(json.with_extension("svg"), charts(points)?)?;
    std::fs::write(json.with_extension("ratio.svg"), heat_map(points)?)?;
    Ok(())
}

/// What stands above a chart, and its points.
type Groups<'p> = BTreeMap<String, Vec<&'p Point>>;

fn groups<'p>(points: &'p [Point], names: &[&str]) -> Result<Groups<'p>, String> {
    let mut groups = Groups::new();
    for point in points {
        let words = names.iter().map(|name| point.cell.get::<String>(name));
        let title = words.collect::<Result<Vec<_>, _>>()?.join(" ");
        groups.entry(title).or_default().push(point);
    }
    Ok(groups)
}

fn charts(points: &[Point]) -> Result<String, Failure> {
    let mut names = BEFORE_FUZZ.to_vec();
    names.push("selectivity");
    let groups = groups(points, &names)?;
    let mut body = String::new();
    for (number, (title, points)) in groups.iter().enumerate() {
        let (x, y) = ((number % ACROSS) as f64, (number / ACROSS) as f64);
        let chart = chart(title, points)?;
        let (x, y) = (x * (WIDTH + MARGIN), y * (HEIGHT + 2.0 * MARGIN));
        write!(body, "<g transform=\"translate({x} {y})\">{chart}</g>")?;
    }
    let rows = groups.len().div_ceil(ACROSS) as f64;
    let width = ACROSS as f64 * (WIDTH + MARGIN) + MARGIN;
    Ok(svg::picture(width, rows * (HEIGHT + 2.0 * MARGIN), &body))
}

/// Fuzz from left to right, milliseconds on a logarithmic scale.
fn chart(title: &str, points: &[&Point]) -> Result<String, Failure> {
    let fuzz = fuzz_values(points)?;
    let logs = || points.iter().map(|point| point.ms.max(1e-3).log10());
    let low = logs().fold(f64::INFINITY, f64::min).floor();
    let high = logs().fold(low + 1.0, f64::max).ceil();
    let x = |at: usize| MARGIN + at as f64 * (WIDTH - MARGIN) / (fuzz.len().max(2) - 1) as f64;
    let y = |log: f64| MARGIN + (high - log) / (high - low) * HEIGHT;
    let mut out = format!("<text x=\"{MARGIN}\" y=\"30\">{title} %</text>");
    for tick in low as i32..=high as i32 {
        let (at, ms) = (y(f64::from(tick)), 10f64.powi(tick));
        write!(
            out,
            "<text x=\"2\" y=\"{at}\">{ms} ms</text><line x1=\"{MARGIN}\" x2=\"{WIDTH}\" \
             y1=\"{at}\" y2=\"{at}\" stroke=\"#ddd\"/>"
        )?;
    }
    for (at, value) in fuzz.iter().enumerate() {
        let (x, y) = (x(at), MARGIN + HEIGHT + 12.0);
        let text = if *value < 0 { "random".to_string() } else { value.to_string() };
        write!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"7\">{text}</text>"
        )?;
    }
    for (policy, colour) in [("none", "#555"), ("simple", "#c33"), ("adaptive", "#284")] {
        let mut line = String::new();
        for (at, value) in fuzz.iter().enumerate() {
            let fits = |point: &&&Point| {
                point.policy == policy && point.cell.get::<i64>("fuzz") == Ok(*value)
            };
            if let Some(point) = points.iter().find(fits) {
                write!(line, "{},{} ", x(at), y(point.ms.max(1e-3).log10()))?;
            }
        }
        write!(out, "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\"/>")?;
        let offset = match policy {
            "none" => 0.0,
            "simple" => 40.0,
            _ => 90.0,
        };
        let at = MARGIN + offset;
        write!(out, "<text x=\"{at}\" y=\"42\" fill=\"{colour}\">{policy}</text>")?;
    }
    Ok(out)
}

/// The fuzz values of some points, random last.
fn fuzz_values(points: &[&Point]) -> Result<Vec<i64>, String> {
    let mut fuzz: Vec<i64> =
        points.iter().map(|point| point.cell.get("fuzz")).collect::<Result<_, _>>()?;
    fuzz.sort_unstable_by_key(|fuzz| if *fuzz < 0 { i64::MAX } else { *fuzz });
    fuzz.dedup();
    Ok(fuzz)
}

/// One row for each setting and selectivity, one column for each fuzz: adaptive against none.
fn heat_map(points: &[Point]) -> Result<String, Failure> {
    let mut names = BEFORE_FUZZ.to_vec();
    names.push("selectivity");
    let all: Vec<&Point> = points.iter().collect();
    let (groups, fuzz) = (groups(points, &names)?, fuzz_values(&all)?);
    let left = 420.0;
    let mut body = String::new();
    for (column, value) in fuzz.iter().enumerate() {
        let x = left + column as f64 * CELL;
        write!(body, "<text x=\"{x}\" y=\"14\" font-size=\"8\">{value}</text>")?;
    }
    for (row, (title, points)) in groups.iter().enumerate() {
        let y = 20.0 + row as f64 * 18.0;
        write!(body, "<text x=\"4\" y=\"{}\">{title} %</text>", y + 12.0)?;
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
