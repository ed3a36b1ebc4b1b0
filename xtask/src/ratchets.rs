//! The file of ratchets: for each figure of `measures` the number that it may have at most.
//!
//! A number only falls: `cargo xtask figures --update` lowers it to the figure of the day, but not
//! below the figure's goal, and enters figures that have none yet. To raise one, edit the file and
//! give the reason in the commit message.
//!
//! `tidy` complains about each figure above its number. It names the places only if the number is
//! 0: of several hundred places it cannot tell which one is new.

use crate::complaint::Complaints;
use crate::measures::{MEASURES, Measure, Measured};
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where the file lies.
pub(crate) const FILE: &str = "xtask/ratchets.toml";

const HEAD: &str = "\
# Figures that may only fall. `cargo xtask tidy` fails if one is above its number, and
# `cargo xtask figures --update` lowers the numbers to the figures of today; it raises none. Where a
# goal is given, the number falls no further. `cargo xtask figures --list NAME` names the places.
# After a merge conflict, keep the lower number of each line and run `--update`. To raise a number,
# edit it and say why in the commit message.
";

/// Numbers by the names of their figures.
type Numbers = BTreeMap<String, usize>;

/// A figure beside its number.
pub(crate) struct Row {
    pub(crate) measure: &'static Measure,
    pub(crate) measured: Measured,
    pub(crate) number: Option<usize>,
}

impl Row {
    /// Is the figure above its number, or without one?
    pub(crate) fn is_above(&self) -> bool {
        self.number.is_none_or(|number| self.measured.value > number)
    }
}

/// Takes every figure of the tree.
pub(crate) fn rows(tree: &Tree) -> Vec<Row> {
    let numbers = tree.texts.get(FILE).map(|text| read(text, &mut Complaints::default()));
    let numbers = numbers.unwrap_or_default();
    let row = |measure: &'static Measure| Row {
        measure,
        measured: (measure.take)(tree),
        number: numbers.get(measure.name).copied(),
    };
    MEASURES.iter().map(row).collect()
}

/// No figure is above its number, and the file knows each figure and no other.
pub(crate) fn check(tree: &Tree, complaints: &mut Complaints) {
    let Some(text) = tree.texts.get(FILE) else { return };
    read(text, complaints);
    for row in rows(tree).into_iter().filter(Row::is_above) {
        let Row { measure, measured, number } = row;
        let Some(number) = number else {
            complaints.add(FILE, 0, format!("`{}` has no number", measure.name));
            continue;
        };
        let text = format!("{} is {}, may be at most {number}", measure.name, measured.value);
        let mut more = measure.about.to_string();
        if number > 0 && !measured.places.0.is_empty() {
            more += &format!("; `cargo xtask figures --list {}` names the places", measure.name);
        }
        complaints.add(FILE, 0, format!("{text} ({more})"));
        if number == 0 {
            complaints.0.extend(measured.places.0);
        }
    }
}

/// The number that an update would write.
fn next_number(row: &Row) -> usize {
    let figure = row.measured.value.max(row.measure.goal);
    row.number.map_or(figure, |number| number.min(figure))
}

/// How many numbers an update would lower.
pub(crate) fn to_lower(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.number.is_some_and(|number| next_number(row) < number)).count()
}

/// The file with each number lowered to its figure, and with the figures that had none.
pub(crate) fn update(rows: &[Row]) -> String {
    let mut text = HEAD.to_string();
    for row in rows {
        let Measure { name, about, goal, .. } = row.measure;
        let goal = if *goal == 0 { String::new() } else { format!("; goal {goal}") };
        writeln!(text, "\n# {about}{goal}\n{name} = {}", next_number(row))
            .expect("a String takes everything");
    }
    text
}

/// The figures for people; one above its number carries a `!`.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let number = row.number.map_or("none".to_string(), |number| number.to_string());
        let mark = if row.is_above() { "!" } else { " " };
        let (value, about) = (row.measured.value, row.measure.about);
        writeln!(text, "{value:>6} {mark} of {number:>6}  {:36}  {about}", row.measure.name)
            .expect("a String takes everything");
    }
    text
}

/// The figures as one JSON object.
pub(crate) fn json(rows: &[Row]) -> String {
    let member = |row: &Row| format!("\"{}\":{}", row.measure.name, row.measured.value);
    let members: Vec<String> = rows.iter().map(member).collect();
    format!("{{\"name\":\"ratchets\",{}}}\n", members.join(","))
}

/// Reads lines `name = number`; complains about others, comments aside.
fn read(text: &str, complaints: &mut Complaints) -> Numbers {
    let mut numbers = Numbers::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let known = |name: &str| MEASURES.iter().any(|measure| measure.name == name);
        let pair = line.split_once('=').map(|(name, number)| (name.trim(), number.trim().parse()));
        match pair {
            Some((name, Ok(number))) if known(name) => {
                if numbers.insert(name.to_string(), number).is_some() {
                    complaints.add(FILE, i + 1, format!("`{name}` stands twice"));
                }
            }
            _ => complaints.add(FILE, i + 1, format!("`{line}` is no figure with a number")),
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::{FILE, check, json, render, rows, to_lower, update};
    use crate::complaint::Complaints;
    use crate::measures::MEASURES;
    use crate::tree::Tree;

    const LIB: (&str, &str) = ("crates/engine/src/lib.rs", "pub mod a;\npub mod b;\n");

    /// A file of ratchets that allows this many of everything, but of public modules these.
    fn file(all: usize, public_modules: usize) -> String {
        let number = |name| if name == "public_modules_engine" { public_modules } else { all };
        MEASURES.iter().map(|it| format!("{} = {}\n", it.name, number(it.name))).collect()
    }

    fn complaints(text: &str) -> Vec<String> {
        let mut complaints = Complaints::default();
        check(&Tree::of(&[LIB, (FILE, text)]), &mut complaints);
        complaints.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_figure_above_its_number_is_named_with_its_places() {
        assert!(complaints(&file(99, 2)).is_empty());
        let found = complaints(&file(99, 1));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("public_modules_engine is 2, may be at most 1"));
        let found = complaints(&file(99, 0));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[2].starts_with("crates/engine/src/lib.rs:2:"));
        assert!(complaints("").iter().all(|text| text.contains("has no number")));
        assert_eq!(complaints(&(file(99, 2) + "attic = 3\n")).len(), 1);
        assert_eq!(complaints(&(file(99, 2) + "public_modules_engine = 3\n")).len(), 1);
    }

    #[test]
    fn an_update_lowers_and_enters_but_never_raises() {
        let updated = |text: &str| update(&rows(&Tree::of(&[LIB, (FILE, text)])));
        let has = |text: &str, line: &str| text.lines().any(|other| other == line);
        assert!(has(&updated(&file(99, 5)), "public_modules_engine = 2"));
        assert!(has(&updated(&file(99, 1)), "public_modules_engine = 1"));
        assert_eq!(to_lower(&rows(&Tree::of(&[LIB, (FILE, "public_modules_engine = 3")]))), 1);
        assert!(has(&updated(""), "public_modules_engine = 2"));
        assert!(complaints(&updated("")).is_empty());
        assert!(has(&updated("engine_code_lines = 50000"), "engine_code_lines = 40000"));
        assert!(has(&updated("engine_code_lines = 30000"), "engine_code_lines = 30000"));
    }

    #[test]
    fn figures_are_printed_beside_their_numbers() {
        let rows = rows(&Tree::of(&[LIB, (FILE, &file(99, 1))]));
        let text = render(&rows);
        assert_eq!(text.lines().count(), MEASURES.len());
        assert!(text.contains("     2 ! of      1  public_modules_engine"));
        assert!(json(&rows).contains("\"public_modules_engine\":2,"));
    }
}
