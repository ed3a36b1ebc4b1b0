//! Which cells an experiment runs: the product of its knobs' values.
//!
//! Invariants: a value given on the command line replaces the knob's own. Does not do: the meaning
//! of a value.

use std::str::FromStr;

use clap::{Arg, ArgMatches};

use crate::args::Size;

/// A knob and the values it takes when the command line names none.
#[derive(Debug)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    pub(crate) quick: &'static [&'static str],
    pub(crate) default: &'static [&'static str],
    pub(crate) all: &'static [&'static str],
}

/// One combination of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    values: Vec<(String, String)>,
}

impl Cell {
    /// A cell from `name=value` words.
    pub(crate) fn parse(words: &[String]) -> Result<Cell, String> {
        let pair = |word: &String| {
            let pair = word.split_once('=').ok_or_else(|| format!("not name=value: `{word}`"))?;
            Ok((pair.0.to_string(), pair.1.to_string()))
        };
        Ok(Cell { values: words.iter().map(pair).collect::<Result<_, String>>()? })
    }

    /// The words that [`Cell::parse`] reads.
    pub(crate) fn words(&self) -> Vec<String> {
        self.values.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// The same cell with one more value, or with another one.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Cell {
        self.values.retain(|(known, _)| known != name);
        self.values.push((name.to_string(), value.to_string()));
        self
    }

    /// The value of a knob.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let value = self.values.iter().find(|(known, _)| known == name);
        let (_, value) = value.ok_or_else(|| format!("no value for {name}"))?;
        value.parse().map_err(|_| format!("{name} cannot be `{value}`"))
    }
}

impl Knob {
    /// The knob as a flag of the command line.
    pub(crate) fn flag(&self) -> Arg {
        let [quick, default, all] = [self.quick, self.default, self.all].map(|own| own.join(","));
        let help = format!("{default} (with --quick {quick}, with --all {all})");
        // A value may be a negative number.
        Arg::new(self.name)
            .long(self.name)
            .value_name("V,V...")
            .help(help)
            .allow_hyphen_values(true)
    }
}

/// The knobs that the command line gives, and their values.
pub(crate) fn given(knobs: &[Knob], matches: &ArgMatches) -> Vec<(String, Vec<String>)> {
    let list = |knob: &Knob| {
        let list = matches.get_one::<String>(knob.name)?;
        Some((knob.name.to_string(), split(list)))
    };
    knobs.iter().filter_map(list).collect()
}

/// The values of a list. One that is made of `key=value` parts itself, such as a device, begins
/// with its first key.
fn split(list: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for part in list.split(',') {
        match values.last_mut() {
            Some(last) if last.contains('=') && !part.starts_with("latency=") => {
                last.push(',');
                last.push_str(part);
            }
            _ => values.push(part.to_string()),
        }
    }
    values
}

/// The cells to run, the last knob changing fastest.
pub(crate) fn matrix(knobs: &[Knob], size: Size, given: &[(String, Vec<String>)]) -> Vec<Cell> {
    let mut cells = vec![Cell::default()];
    for knob in knobs {
        let values = values(knob, size, given);
        let spread = |cell: Cell| {
            values.iter().map(move |value| cell.clone().with(knob.name, value)).collect::<Vec<_>>()
        };
        cells = cells.into_iter().flat_map(spread).collect();
    }
    assert!(!cells.is_empty(), "every knob has a value");
    cells
}

fn values(knob: &Knob, size: Size, given: &[(String, Vec<String>)]) -> Vec<String> {
    if let Some((_, values)) = given.iter().find(|(name, _)| name == knob.name) {
        return values.clone();
    }
    let own = match size {
        Size::Quick => knob.quick,
        Size::Default => knob.default,
        Size::All => knob.all,
    };
    own.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOBS: &[Knob] = &[
        Knob { name: "a", quick: &["1"], default: &["1", "2"], all: &["1", "2", "3"] },
        Knob { name: "b", quick: &["x"], default: &["x", "y"], all: &["x", "y"] },
    ];

    #[test]
    fn given_values_narrow_the_matrix() {
        assert_eq!(matrix(KNOBS, Size::Default, &[]).len(), 4);
        assert_eq!(matrix(KNOBS, Size::All, &[]).len(), 6);
        let given = [("a".to_string(), vec!["7".to_string()])];
        let cells = matrix(KNOBS, Size::Default, &given);
        assert_eq!(cells.len(), 2);
        assert!(cells.iter().all(|cell| cell.get("a") == Ok(7)));
    }

    #[test]
    fn a_cell_survives_the_command_line() {
        let cell = Cell::default().with("a", 1).with("b", true);
        assert_eq!(Cell::parse(&cell.words()), Ok(cell));
    }

    #[test]
    fn knobs_are_flags() {
        let command = clap::Command::new("bench").args(KNOBS.iter().map(Knob::flag));
        let read = |words: &[&str]| command.clone().try_get_matches_from(words);
        let matches = read(&["bench", "--a", "-1,5"]).unwrap();
        let values = ["-1", "5"].map(str::to_string).to_vec();
        assert_eq!(given(KNOBS, &matches), [("a".to_string(), values)]);
        assert!(read(&["bench", "--c", "1"]).is_err(), "there is no such knob");
        assert!(read(&["bench", "--a"]).is_err(), "it needs a value");
        assert!(read(&["bench", "a"]).is_err(), "it is no flag");
    }

    #[test]
    fn a_device_is_one_value() {
        let device = "latency=500us,depth=64";
        let list = format!("native,{device},latency=1ms,depth=2");
        assert_eq!(split(&list), ["native", device, "latency=1ms,depth=2"]);
        assert_eq!(split("1,5"), ["1", "5"]);
    }
}
