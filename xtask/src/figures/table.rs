//! Prints figures for people, beside reference rows and our limits, or as JSON lines.
//!
//! A cell over our limit carries a `!`. The limits are a thermometer, not a gate: `tidy` fails,
//! this never does. The reference rows were measured once with the same definitions, on toyDB
//! 0f42c9f, jiff ab6e8c8 and tokio ea91b33.

use super::{Figures, ratio};
use std::fmt::Write;

/// One column: its two head lines, the stored rows, and how to fill and judge ours.
struct Column {
    heads: [&'static str; 2],
    /// toyDB, jiff, tokio, our limit.
    stored: [&'static str; 4],
    cell: fn(&Figures) -> String,
    over: fn(&Figures) -> bool,
}

const STORED_ROWS: [&str; 4] = ["toyDB", "jiff", "tokio", "our limit"];

const COLUMNS: [Column; 13] = [
    Column {
        heads: ["code", "lines"],
        stored: ["8500", "27900", "42200", ""],
        cell: |f| f.code_lines().to_string(),
        over: |_| false,
    },
    Column {
        heads: ["file lines", "med/p90/max"],
        stored: ["171/429/704", "110/868/2375", "71/294/968", "200/450/800"],
        cell: |f| format!("{}/{}/{}", at(&f.files, 50), at(&f.files, 90), at(&f.files, 100)),
        over: |f| at(&f.files, 50) > 200 || at(&f.files, 90) > 450 || at(&f.files, 100) > 800,
    },
    Column {
        heads: ["function", "med/p90/p99"],
        stored: ["6/31/109", "6/21/79", "5/21/62", "7/30/80"],
        cell: |f| format!("{}/{}/{}", at(&f.lengths, 50), at(&f.lengths, 90), at(&f.lengths, 99)),
        over: |f| at(&f.lengths, 50) > 7 || at(&f.lengths, 90) > 30 || at(&f.lengths, 99) > 80,
    },
    Column {
        heads: ["over 70,", "longest"],
        stored: ["2.4%, 176", "1.2%, 203", "0.7%, 223", "1%, 120"],
        cell: |f| format!("{}, {}", percent(share(&f.lengths, 70)), at(&f.lengths, 100)),
        over: |f| share(&f.lengths, 70) > 0.01 || at(&f.lengths, 100) > 120,
    },
    Column {
        heads: ["arguments", "mean, >5"],
        stored: ["1.04, 0.7%", "0.88, 0.1%", "0.77, 0.1%", "1.3, 0.3%"],
        cell: |f| format!("{:.2}, {}", mean(&f.arguments), percent(share(&f.arguments, 5))),
        over: |f| mean(&f.arguments) > 1.3 || share(&f.arguments, 5) > 0.003,
    },
    Column {
        heads: ["files", "with //!"],
        stored: ["17/44", "20/96", "85/342", "all"],
        cell: |f| format!("{}/{}", f.heads, f.files.len()),
        over: |f| f.heads < f.files.len(),
    },
    Column {
        heads: ["public", "with ///"],
        stored: ["98%", "100%", "97%", "100%"],
        cell: |f| if f.publics == 0 { "-".into() } else { percent(ratio(f.documented, f.publics)) },
        over: |f| f.documented < f.publics,
    },
    Column {
        heads: ["unsafe", "kloc, reason"],
        stored: ["0", "2.2, 100%", "18.5, 42%", "3, 100%"],
        cell: |f| match f.unsafe_sites {
            0 => "0".into(),
            sites => format!("{:.1}, {}", f.per_kloc(sites), percent(ratio(f.reasoned, sites))),
        },
        over: |f| f.per_kloc(f.unsafe_sites) > 3.0 || f.reasoned < f.unsafe_sites,
    },
    Column {
        heads: ["asserts", "kloc, fn"],
        stored: ["6.7, 0.10", "2.3, 0.03", "5.2, 0.06", "20, 0.30"],
        cell: |f| format!("{:.1}, {:.2}", f.per_kloc(f.asserts), ratio(f.asserts, f.lengths.len())),
        over: |f| f.per_kloc(f.asserts) < 20.0 || ratio(f.asserts, f.lengths.len()) < 0.3,
    },
    Column {
        heads: ["unwrap, expect", "kloc"],
        stored: ["0.9, 6.9", "3.5, 2.9", "2.5, 1.7", "0, 4"],
        cell: |f| format!("{:.1}, {:.1}", f.per_kloc(f.unwraps), f.per_kloc(f.expects)),
        over: |f| f.unwraps > 0 || f.per_kloc(f.expects) > 4.0,
    },
    Column {
        heads: ["comment", "per code"],
        stored: ["0.35", "1.48", "1.08", "0.3-0.6"],
        cell: |f| format!("{:.2}", ratio(f.comment_lines, f.code_lines())),
        over: |f| ratio(f.comment_lines, f.code_lines()) < 0.2,
    },
    Column {
        heads: ["test", "per code"],
        stored: ["0.27", "0.51", "0.18", "0.5"],
        cell: |f| format!("{:.2}", ratio(f.test_lines, f.code_lines())),
        over: |f| ratio(f.test_lines, f.code_lines()) < 0.5,
    },
    Column {
        heads: ["import", "knot"],
        stored: ["4 of 9", "9 of 13", "12 of 16", "none"],
        cell: |f| match f.knot {
            (0, _) => "none".into(),
            (ring, modules) => format!("{ring} of {modules}"),
        },
        over: |f| f.knot.0 > 0,
    },
];

/// The table for people.
pub(crate) fn render(rows: &[Figures]) -> String {
    let names = |i: usize| COLUMNS.iter().map(move |column| column.heads[i].to_string());
    let mut lines = vec![line("", names(0)), line("", names(1))];
    lines.extend(rows.iter().map(|row| line(&row.name, COLUMNS.iter().map(|c| judged(c, row)))));
    for (i, name) in STORED_ROWS.iter().enumerate() {
        lines.push(line(name, COLUMNS.iter().map(|column| column.stored[i].to_string())));
    }
    align(&lines)
}

/// One JSON object per row.
pub(crate) fn json(rows: &[Figures]) -> String {
    let mut out = String::new();
    for row in rows {
        let name = row.name.replace(['"', '\\'], "_");
        write!(out, "{{\"name\":\"{name}\"").expect("a String takes everything");
        for (key, value) in numbers(row) {
            let places = if value.fract() == 0.0 { 0 } else { 4 };
            write!(out, ",\"{key}\":{value:.places$}").expect("a String takes everything");
        }
        out.push_str("}\n");
    }
    out
}

fn numbers(f: &Figures) -> Vec<(&'static str, f64)> {
    vec![
        ("code_lines", f.code_lines() as f64),
        ("files", f.files.len() as f64),
        ("file_lines_median", at(&f.files, 50) as f64),
        ("file_lines_p90", at(&f.files, 90) as f64),
        ("file_lines_max", at(&f.files, 100) as f64),
        ("functions", f.lengths.len() as f64),
        ("function_lines_median", at(&f.lengths, 50) as f64),
        ("function_lines_p90", at(&f.lengths, 90) as f64),
        ("function_lines_p99", at(&f.lengths, 99) as f64),
        ("function_lines_max", at(&f.lengths, 100) as f64),
        ("functions_over_70_share", share(&f.lengths, 70)),
        ("arguments_mean", mean(&f.arguments)),
        ("arguments_over_5_share", share(&f.arguments, 5)),
        ("files_with_head", f.heads as f64),
        ("public_items", f.publics as f64),
        ("public_items_documented", f.documented as f64),
        ("unsafe_sites", f.unsafe_sites as f64),
        ("unsafe_sites_reasoned", f.reasoned as f64),
        ("asserts_per_kloc", f.per_kloc(f.asserts)),
        ("asserts_per_function", ratio(f.asserts, f.lengths.len())),
        ("unwraps_per_kloc", f.per_kloc(f.unwraps)),
        ("expects_per_kloc", f.per_kloc(f.expects)),
        ("comment_lines_per_code_line", ratio(f.comment_lines, f.code_lines())),
        ("test_lines_per_code_line", ratio(f.test_lines, f.code_lines())),
        ("knot", f.knot.0 as f64),
        ("top_modules", f.knot.1 as f64),
    ]
}

fn judged(column: &Column, row: &Figures) -> String {
    let mark = if (column.over)(row) { " !" } else { "" };
    format!("{}{mark}", (column.cell)(row))
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_string()).chain(cells).collect()
}

/// Pads every column to its widest cell; two blanks between.
fn align(lines: &[Vec<String>]) -> String {
    let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=COLUMNS.len()).map(width).collect();
    let mut out = String::new();
    for line in lines {
        assert_eq!(line.len(), widths.len(), "a cell for each column");
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let text = cells.collect::<Vec<_>>().join("  ");
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// The value that this percentage of the values does not exceed; 100 is the largest.
fn at(values: &[usize], percent: usize) -> usize {
    assert!(percent <= 100);
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = sorted.len() * percent / 100;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn share(values: &[usize], limit: usize) -> f64 {
    ratio(values.iter().filter(|value| **value > limit).count(), values.len())
}

fn mean(values: &[usize]) -> f64 {
    ratio(values.iter().sum(), values.len())
}

/// Rounded to a tenth, but 100 % means all.
fn percent(share: f64) -> String {
    assert!((0.0..=1.0).contains(&share), "{share} is no share");
    let tenths = (share * 1000.0).round();
    let tenths = if share < 1.0 { tenths.min(999.0) } else { tenths };
    format!("{:.1}%", tenths / 10.0).replace(".0%", "%")
}

#[cfg(test)]
mod tests {
    use super::{at, json, percent, render};
    use crate::figures::Figures;

    #[test]
    fn quantiles_and_shares() {
        let values: Vec<usize> = (1..=10).rev().collect();
        assert_eq!((at(&values, 50), at(&values, 90), at(&values, 100)), (6, 10, 10));
        assert_eq!(at(&[], 50), 0);
        assert_eq!(
            (percent(0.9999), percent(1.0), percent(0.0)),
            ("99.9%".into(), "100%".into(), "0%".into())
        );
    }

    #[test]
    fn a_cell_over_the_limit_is_marked() {
        let good = Figures { name: "a".into(), files: vec![100], heads: 1, ..Figures::default() };
        let bad = Figures { name: "b".into(), files: vec![801], heads: 1, ..Figures::default() };
        let text = render(&[good, bad]);
        let cell = |name: &str| {
            let row = text.lines().find(|line| line.starts_with(name)).unwrap().to_string();
            row.split_whitespace().take(4).last().unwrap().to_string()
        };
        assert_eq!((cell("a ").as_str(), cell("b ").as_str()), ("0/0/0", "!"));
        assert!(text.contains("toyDB") && text.contains("our limit"));
    }

    #[test]
    fn json_has_one_object_per_row() {
        let row = || Figures { name: "a\"".into(), files: vec![3], ..Figures::default() };
        let text = json(&[row(), row()]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.starts_with("{\"name\":\"a_\",\"code_lines\":3,") && text.ends_with("}\n"));
    }
}
