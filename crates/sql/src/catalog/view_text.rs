//! The query of a view, as a statement names things now.
//!
//! The text that is kept of a view says what things were called when the view was made. The places
//! of its names are kept with it (`notes::view`). Here each gets the name of now, with its schema
//! where the search path does not lead to it.
//!
//! PostgreSQL's `ruleutils.c` makes the whole text anew from a tree, and so does `deparse`; the
//! rest of a text that it does not know stays as it was written.
//!
//! A relation that is called otherwise now keeps the old name as its alias, and one with renamed
//! columns lists the old names behind it, so that all other parts of the text still mean the same.
//!
//! Invariants: a view that is made of the shown text shows the same text.
//! Does not do: finding the places (`bind::view_text`).

use std::collections::BTreeSet;
use std::ops::Range;

use super::deparse::View;
use super::objects::{How, Object, Objects};
use crate::error::Result;
use crate::names::{SearchPath, bare, identifier, type_of_entry};
use crate::notes::TableNotes;
use crate::notes::view::{NameForm, ViewName, ViewNotes, ViewSource};
use crate::parse;
use crate::parse::view::with_names;
use crate::types::literal::literal;

impl Objects {
    /// The query of a view in PostgreSQL's layout, or as it was written where that is not known.
    /// `None`: it is no view.
    pub(crate) fn view_definition(&self, oid: u32, how: How<'_>) -> Result<Option<String>> {
        let Some(object) = self.of_oid(oid) else { return Ok(None) };
        let view = TableNotes::decode(&object.table.note).view;
        let Some(notes) = view.filter(|_| object.index.is_none()) else { return Ok(None) };
        let is_other = |name: &&ViewName| {
            matches!(name.form, NameForm::Type | NameForm::Sequence | NameForm::Function)
        };
        let (mut text, words) = (notes.query.clone(), BTreeSet::new());
        // Names of types and functions are read once more; those of sequences are shown as is.
        let default = SearchPath::default();
        for name in notes.names.iter().rev().filter(is_other) {
            let path = if name.form == NameForm::Sequence { how.path } else { &default };
            self.name_now(&mut text, name, &notes, &words, path);
        }
        let columns = shown_names(&object);
        let view = View { columns: &columns, sources: &notes.sources };
        match self.deparsed_view(&text, view, how) {
            Some(text) => Ok(Some(text)),
            None => Ok(self.written_query(oid, how.path)?.map(|text| format!("{text};"))),
        }
    }

    /// The query of a view, by the path of those who set none.
    pub(super) fn view_query(&self, oid: u32) -> Result<Option<String>> {
        let path = SearchPath::default();
        self.view_definition(oid, How { is_pretty: false, path: &path })
    }

    /// The query of a view as it was written, as a statement names things that runs by `path`.
    pub(super) fn written_query(&self, oid: u32, path: &SearchPath) -> Result<Option<String>> {
        let Some(object) = self.of_oid(oid) else { return Ok(None) };
        let view = TableNotes::decode(&object.table.note).view;
        let Some(notes) = view.filter(|_| object.index.is_none()) else { return Ok(None) };
        let words = parse::words(&notes.query)?;
        let mut text = notes.query.clone();
        for name in notes.names.iter().rev() {
            self.name_now(&mut text, name, &notes, &words, path);
        }
        with_names(&text, &notes.columns, &shown_names(&object)).map(Some)
    }

    /// Puts the name of now into its place.
    fn name_now(
        &self,
        text: &mut String,
        name: &ViewName,
        notes: &ViewNotes,
        words: &BTreeSet<String>,
        path: &SearchPath,
    ) {
        let Some(source) = notes.sources.get(name.source) else { return };
        let now = match name.form {
            NameForm::Type => self.type_now(source, path),
            NameForm::Sequence => literal(&self.spelled(&source.name, path)),
            NameForm::Function => {
                let function = self.functions().iter().find(|one| one.entry == source.name);
                function.map_or(String::new(), |one| one.spelled(path))
            }
            NameForm::Relation => {
                let columns = self.columns_now(source, 0, words);
                let is_renamed = bare(&source.name) != bare(&source.was);
                let alias = match (columns, is_renamed) {
                    (None, false) => String::new(),
                    (columns, _) => {
                        let columns = columns.map(|list| format!(" ({list})")).unwrap_or_default();
                        format!(" AS {}{columns}", identifier(bare(&source.was)))
                    }
                };
                format!("{}{alias}", self.spelled(&source.name, path))
            }
            NameForm::Aliased { end, columns: given } => {
                let gone: Vec<usize> = source.gone().filter(|at| *at < given).collect();
                let more = self.columns_now(source, given - gone.len(), words);
                if !gone.is_empty() {
                    replace_names(text, name.end..end, &gone, more);
                } else if let Some(list) = more {
                    let list = if given == 0 { format!(" ({list})") } else { format!(", {list}") };
                    text.insert_str(end, &list);
                }
                self.spelled(&source.name, path)
            }
        };
        text.replace_range(name.start..name.end, &now);
    }

    fn type_now(&self, source: &ViewSource, path: &SearchPath) -> String {
        let stored = type_of_entry(&source.name).unwrap_or_else(|| source.name.clone());
        self.spelled_type(&stored, path)
    }

    /// The columns of a relation behind the first `skipped`, as the query of a view calls them;
    /// `None` if it may call them as they are called now. A column that the query does not name,
    /// because it came later, gets a name that the query does not have.
    fn columns_now(
        &self,
        source: &ViewSource,
        skipped: usize,
        words: &BTreeSet<String>,
    ) -> Option<String> {
        let object = self.relation_named(&source.name).and_then(|oid| self.of_oid(oid))?;
        let mut taken: BTreeSet<String> = words.clone();
        let mut is_other = false;
        let name = |column: &rightlink::ColumnSchema| {
            let name = &column.name;
            let known = source.columns.iter().find(|known| known.name == *name);
            let shown = match known.filter(|known| words.contains(&known.written)) {
                Some(known) => known.written.clone(),
                None if taken.contains(name) || taken.contains("natural") => {
                    let mut free = (1..).map(|number| format!("{name}_{number}"));
                    free.find(|other| !taken.contains(other)).unwrap_or_default()
                }
                None => name.clone(),
            };
            taken.insert(shown.clone());
            is_other |= shown != *name;
            identifier(&shown)
        };
        let columns = object.table.columns.iter().skip(skipped);
        let names: Vec<String> = columns.map(name).collect();
        is_other.then(|| names.join(", "))
    }
}

/// The names of the columns of a view that clients can name.
fn shown_names(object: &Object<'_>) -> Vec<String> {
    let shown = object.table.columns.iter().filter(|one| !one.computed);
    shown.map(|one| one.name.clone()).collect()
}

/// Leaves out the names at these places of the list that `part` of the text ends with, and adds
/// more. The closing parenthesis of the list comes behind `part`. The text is as the parser prints
/// it, without comments.
fn replace_names(text: &mut String, part: Range<usize>, gone: &[usize], more: Option<String>) {
    let (mut is_quoted, mut open, mut begin) = (false, None, part.start);
    let mut names = Vec::new();
    for (at, byte) in text.bytes().enumerate().take(part.end).skip(part.start) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'(' if !is_quoted && open.is_none() => (open, begin) = (Some(at), at + 1),
            b',' if !is_quoted && open.is_some() => {
                names.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    let Some(open) = open else { return };
    names.push(text[begin..part.end].trim());
    let kept = names.iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let kept: Vec<&str> = kept.map(|(_, name)| *name).chain(more.as_deref()).collect();
    let close = text[part.end..].find(')').map_or(text.len(), |after| part.end + after + 1);
    let list = if kept.is_empty() { String::new() } else { format!("({})", kept.join(", ")) };
    text.replace_range(open..close, &list);
}
