//! How a process of a cell tells its parent what it reached: lines of a tag and `name=value` words.
//!
//! Invariants: a line is written whole and at once. Does not do: values with spaces.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::str::FromStr;

/// Figures by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    values: Vec<(String, String)>,
}

impl Figures {
    /// Sets a figure.
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        assert!(!value.contains(' '), "words end at spaces");
        self.values.retain(|(known, _)| known != name);
        self.values.push((name.to_string(), value));
    }

    /// The figure called `name`.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let value = self.values.iter().find(|(known, _)| known == name);
        let (_, value) = value.ok_or_else(|| format!("nobody said {name}"))?;
        value.parse().map_err(|_| format!("{name} cannot be `{value}`"))
    }

    /// Takes over all figures of `other`.
    pub(crate) fn extend(&mut self, other: &Figures) {
        for (name, value) in &other.values {
            self.set(name, value);
        }
    }

    /// Writes them as one line. Fails when nobody reads any more.
    pub(crate) fn send(&self, tag: &str) -> io::Result<()> {
        let mut line = tag.to_string();
        for (name, value) in &self.values {
            write!(line, " {name}={value}").expect("a string takes everything");
        }
        line.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Reads such a line; `None` for one that was cut off.
    pub(crate) fn parse(line: &str) -> Option<(&str, Figures)> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let tag = words.next()?;
        let mut figures = Figures::default();
        for word in words {
            let (name, value) = word.split_once('=')?;
            figures.set(name, value);
        }
        Some((tag, figures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_no_line() {
        let (tag, figures) = Figures::parse("tail rows=12 x=1.5\n").expect("whole");
        assert_eq!((tag, figures.get("rows"), figures.get("x")), ("tail", Ok(12), Ok(1.5)));
        assert_eq!(Figures::parse("tail rows=1"), None);
        assert!(figures.get::<u64>("y").is_err());
    }
}
