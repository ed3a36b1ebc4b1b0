//! What is kept of a view: its query as text, and what the names in the text mean.
//!
//! A view is a table of the store without rows, which has the view's columns, so that it shares the
//! names of tables, is locked and rolled back as they are, and has a version. Its note says that it
//! is one. A materialized view is such a table with the rows that its query gave.
//!
//! A relation that the query reads, and each of its columns, is noted under the name that the text
//! has for it, with the name that it goes by now; so are types and functions, by their entries. The
//! text stays as it is when things are renamed, and columns that a table gets later mean nothing in
//! it. Where it names these is noted too, so that the query can be shown under the names of now
//! (`catalog::view_text`).
//!
//! Invariants: what is encoded decodes to equal notes.
//! Does not do: reading the query (`bind::view`).

use super::{line, lines};
use crate::names::{MATERIALIZED_VIEW, VIEW};

/// Which rows that are written through a view must be in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CheckOption {
    /// By the condition of the view itself.
    Local,
    /// By those of the views below it, too.
    Cascaded,
}

/// The rows of a materialized view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rows {
    /// Those that its query gave.
    Populated,
    /// None yet, or none any more: it cannot be read.
    Missing,
}

impl Rows {
    /// Of a statement that puts rows in, or does not.
    pub(crate) fn of(with_data: bool) -> Rows {
        if with_data { Rows::Populated } else { Rows::Missing }
    }
}

/// What is kept of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ViewNotes {
    /// Its query.
    pub(crate) query: String,
    /// What the query calls its columns: the view's names for them when it was made.
    pub(crate) columns: Vec<String>,
    pub(crate) check: Option<CheckOption>,
    /// Has it rows of its own, and are they there?
    pub(crate) stored: Option<Rows>,
    /// Relations that the query names.
    pub(crate) sources: Vec<ViewSource>,
    /// Where it names them, in the order of the text.
    pub(crate) names: Vec<ViewName>,
}

/// A place in the query of a view where a source is named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewName {
    /// The source's place among the sources.
    pub(crate) source: usize,
    /// The first byte of the name.
    pub(crate) start: usize,
    /// The byte behind it.
    pub(crate) end: usize,
    pub(crate) form: NameForm,
}

/// How the query of a view names a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NameForm {
    /// A type, by its name.
    Type,
    /// A sequence, in a string.
    Sequence,
    /// A function that a user made, by its name.
    Function,
    /// A relation in FROM.
    Relation,
    /// A relation in FROM with an alias and names for its first `columns`; the last of these names
    /// ends in front of byte `end`.
    Aliased { end: usize, columns: usize },
}

/// A table, a view, a sequence, a type or a function that the query of a view names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewSource {
    /// The parts of the name in the query.
    pub(crate) written: Vec<String>,
    /// As the store called it then.
    pub(crate) was: String,
    /// As the store calls it.
    pub(crate) name: String,
    /// Its columns, those that came later left out. Those that are gone keep their places, since
    /// the query may name columns by these.
    pub(crate) columns: Vec<ViewColumn>,
}

/// A column of a relation that the query of a view reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewColumn {
    /// As it was called when the view was made.
    pub(crate) written: String,
    /// As it is called; empty if it is gone.
    pub(crate) name: String,
    /// Does the query name it?
    pub(crate) is_used: bool,
}

impl CheckOption {
    /// As it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            CheckOption::Local => "local",
            CheckOption::Cascaded => "cascaded",
        }
    }

    /// The option of this name.
    pub(crate) fn named(name: &str) -> Option<CheckOption> {
        [CheckOption::Local, CheckOption::Cascaded].into_iter().find(|one| one.name() == name)
    }
}

impl ViewName {
    /// From the fields of a line.
    fn of_fields(fields: &[&str]) -> Option<ViewName> {
        let number = |at: usize| fields.get(at)?.parse().ok();
        let form = match *fields.get(3)? {
            "type" => NameForm::Type,
            "sequence" => NameForm::Sequence,
            "function" => NameForm::Function,
            "relation" => NameForm::Relation,
            "aliased" => NameForm::Aliased { end: number(4)?, columns: number(5)? },
            _ => return None,
        };
        Some(ViewName { source: number(0)?, start: number(1)?, end: number(2)?, form })
    }

    fn fields(&self) -> Vec<String> {
        let (word, more) = match self.form {
            NameForm::Type => ("type", Vec::new()),
            NameForm::Sequence => ("sequence", Vec::new()),
            NameForm::Function => ("function", Vec::new()),
            NameForm::Relation => ("relation", Vec::new()),
            NameForm::Aliased { end, columns } => ("aliased", vec![end, columns]),
        };
        let mut fields: Vec<String> =
            [self.source, self.start, self.end].map(|number| number.to_string()).into();
        fields.push(word.to_owned());
        fields.extend(more.iter().map(ToString::to_string));
        fields
    }
}

impl ViewColumn {
    /// Has the relation the column no more?
    pub(crate) fn is_gone(&self) -> bool {
        self.name.is_empty()
    }
}

impl ViewSource {
    /// Places of columns that are gone.
    pub(crate) fn gone(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| column.is_gone()).map(|(at, _)| at)
    }

    /// Does the query name this column?
    pub(crate) fn uses(&self, column: &str) -> bool {
        self.columns.iter().any(|one| one.is_used && one.name == column)
    }
}

impl ViewNotes {
    pub(super) fn decode(note: &str) -> ViewNotes {
        let mut notes = ViewNotes::default();
        for fields in lines(note) {
            match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["query", text] => notes.query = (*text).to_owned(),
                ["columns", names @ ..] => {
                    notes.columns = names.iter().map(|name| (*name).to_owned()).collect();
                }
                ["populated"] => notes.stored = Some(Rows::Populated),
                ["check", which] => notes.check = CheckOption::named(which),
                ["source", was, name, written @ ..] => notes.sources.push(ViewSource {
                    written: written.iter().map(|part| (*part).to_owned()).collect(),
                    was: (*was).to_owned(),
                    name: (*name).to_owned(),
                    columns: Vec::new(),
                }),
                ["name", fields @ ..] => notes.names.extend(ViewName::of_fields(fields)),
                [word @ ("used" | "unused" | "gone"), written, name @ ..] => {
                    let name = name.first().copied().unwrap_or_default().to_owned();
                    let column = ViewColumn {
                        written: (*written).to_owned(),
                        name,
                        is_used: *word == "used",
                    };
                    notes.sources.last_mut().into_iter().for_each(|source| {
                        source.columns.push(column.clone());
                    });
                }
                _ => {}
            }
        }
        notes
    }

    pub(super) fn encode(&self) -> String {
        let mut out = String::new();
        line(&mut out, &["query", &self.query]);
        let columns = self.columns.iter().map(String::as_str);
        line(&mut out, &std::iter::once("columns").chain(columns).collect::<Vec<_>>());
        if self.stored == Some(Rows::Populated) {
            line(&mut out, &["populated"]);
        }
        if let Some(check) = self.check {
            line(&mut out, &["check", check.name()]);
        }
        for source in &self.sources {
            let mut fields = vec!["source", source.was.as_str(), source.name.as_str()];
            fields.extend(source.written.iter().map(String::as_str));
            line(&mut out, &fields);
            for column in &source.columns {
                match column.is_gone() {
                    true => line(&mut out, &["gone", &column.written]),
                    false => {
                        let word = if column.is_used { "used" } else { "unused" };
                        line(&mut out, &[word, &column.written, &column.name]);
                    }
                }
            }
        }
        for name in &self.names {
            let fields = name.fields();
            let fields = std::iter::once("name").chain(fields.iter().map(String::as_str));
            line(&mut out, &fields.collect::<Vec<_>>());
        }
        out
    }

    /// As messages call the relation.
    pub(crate) fn noun(&self) -> &'static str {
        if self.stored.is_some() { MATERIALIZED_VIEW } else { VIEW }
    }

    /// The relation that these parts name in the query.
    pub(crate) fn source(&self, written: &[String]) -> Option<&ViewSource> {
        self.sources.iter().find(|source| source.written == written)
    }

    /// Does the query name this relation?
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_views_round_trip() {
        let column = |written: &str, name: &str, is_used| ViewColumn {
            written: written.into(),
            name: name.into(),
            is_used,
        };
        let name = |source, form| ViewName { source, start: 3, end: 14, form };
        let notes = ViewNotes {
            query: "SELECT a,\n\t'\\' FROM s.t, u".into(),
            columns: vec!["a".into(), "?column?".into()],
            check: Some(CheckOption::Local),
            stored: Some(Rows::Populated),
            sources: vec![
                ViewSource {
                    written: vec!["s".into(), "t".into()],
                    was: "s␟t".into(),
                    name: "s␟x".into(),
                    columns: vec![
                        column("a", "z", true),
                        column("c", "", false),
                        column("b\t", "b\t", false),
                    ],
                },
                ViewSource {
                    written: vec!["u".into()],
                    was: "u".into(),
                    name: "u".into(),
                    columns: Vec::new(),
                },
            ],
            names: vec![
                name(0, NameForm::Aliased { end: 40, columns: 2 }),
                name(1, NameForm::Relation),
                name(1, NameForm::Type),
                name(0, NameForm::Sequence),
            ],
        };
        assert_eq!(ViewNotes::decode(&notes.encode()), notes);
        assert!(notes.sources[0].uses("z") && !notes.sources[0].uses("a"));
    }
}
