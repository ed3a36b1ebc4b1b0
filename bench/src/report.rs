//! What a run tells: a table for people as it goes, JSON lines for machines.
//!
//! Invariants: one JSON object a cell, keys in the order given; the file is whole after each cell.
//! Does not do: pictures.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// A figure or a knob's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Text(String),
    Int(u64),
    Float(f64),
    Flag(bool),
    /// Figures of a series, such as slices of time; for machines.
    List(Vec<f64>),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Text(text) => f.write_str(text),
            Field::Int(number) => write!(f, "{number}"),
            Field::Float(number) if number.abs() >= 100.0 => write!(f, "{number:.0}"),
            Field::Float(number) => write!(f, "{number:.2}"),
            Field::Flag(flag) => write!(f, "{flag}"),
            Field::List(numbers) => write!(f, "{numbers:.0?}"),
        }
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Text(text) => to.serialize_str(text),
            Field::Int(number) => to.serialize_u64(*number),
            Field::Float(number) => to.serialize_f64(rounded(*number)),
            Field::Flag(flag) => to.serialize_bool(*flag),
            Field::List(numbers) => to.collect_seq(numbers.iter().map(|number| rounded(*number))),
        }
    }
}

/// Three digits behind the point.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// A column of the table: its head and what stands below it.
pub(crate) type Column = (&'static str, Field);

/// Where the cells go.
#[derive(Debug)]
pub(crate) struct Report {
    file: Option<PathBuf>,
    lines: String,
    cells: u32,
}

impl Report {
    /// A report that also writes JSON lines to `file`.
    pub(crate) fn new(file: Option<PathBuf>) -> Report {
        Report { file, lines: String::new(), cells: 0 }
    }

    /// One cell: what machines get and what people see.
    pub(crate) fn cell(&mut self, json: &[Column], table: &[Column]) -> io::Result<()> {
        assert!(!json.is_empty() && !table.is_empty(), "a cell has figures");
        if self.cells == 0 {
            say(&row(table, |column| column.0.to_string()));
        }
        say(&row(table, |column| column.1.to_string()));
        self.cells += 1;
        self.lines.push_str(&object(json)?);
        self.lines.push('\n');
        self.file.as_ref().map_or(Ok(()), |file| std::fs::write(file, &self.lines))
    }
}

fn object(columns: &[Column]) -> io::Result<String> {
    let mut line = Vec::new();
    let mut to = serde_json::Serializer::new(&mut line);
    to.collect_map(columns.iter().map(|(key, field)| (key, field)))?;
    String::from_utf8(line).map_err(io::Error::other)
}

fn row(columns: &[Column], text: impl Fn(&Column) -> String) -> String {
    let cell = |column: &Column| format!("{:>width$}", text(column), width = column.0.len().max(7));
    columns.iter().map(cell).collect::<Vec<_>>().join(" ")
}

/// A line for people. Nobody listening is no reason to stop.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_json() {
        let columns = [
            ("a", Field::Text("x\"\n".into())),
            ("b", Field::Int(7)),
            ("c", Field::Float(f64::NAN)),
            ("d", Field::Flag(true)),
            ("e", Field::Float(2.0 / 3.0)),
            ("f", Field::List(vec![1.0, 0.5])),
        ];
        let object = object(&columns).unwrap();
        assert_eq!(object, r#"{"a":"x\"\n","b":7,"c":null,"d":true,"e":0.667,"f":[1.0,0.5]}"#);
    }
}
