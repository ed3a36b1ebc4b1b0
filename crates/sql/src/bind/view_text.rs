//! The text that a view keeps of its query: the binder spells out what the text leaves open, and
//! notes the places of its names.
//!
//! The binder knows what each part of the text means, so it tells here where it meets a `*`, a
//! column with a schema in front, and the name of a relation, a type, a function or a sequence. The
//! places are
//! kept with the view, and `catalog::view_text` puts the names of now there.
//!
//! Invariants: only the query of the view itself is told of, and no text that is kept with another
//! definition, as the check of a domain is.
//! Does not do: showing the text (`catalog::view_text`).

use std::collections::BTreeMap;

use sqlparser::ast::{Ident, TableAlias};
use sqlparser::tokenizer::{Location, Span};

use super::Binder;
use super::scope::{Relation, Scope, ScopeColumn};
use crate::error::{Result, SqlError, code};
use crate::expr::ColumnId;
use crate::names::identifier;
use crate::notes::view::{NameForm, ViewName, ViewNotes};
use crate::parse;

/// The notes of the binder about the text of a view.
#[derive(Default)]
pub(crate) struct ViewText {
    /// Parts that are spelled otherwise, by where they begin.
    edits: BTreeMap<Location, Edit>,
    /// Names, by where they begin.
    names: BTreeMap<Location, FoundName>,
}

/// Another text for a part.
struct Edit {
    end: Location,
    text: String,
}

struct FoundName {
    end: Location,
    written: Vec<String>,
    form: FoundForm,
}

/// How a source is named, as [`NameForm`] with locations.
pub(super) enum FoundForm {
    Type,
    Sequence,
    Function,
    Relation,
    Aliased { end: Location, columns: usize },
}

/// A `*` of a view that is made.
pub(super) struct Star {
    ids: Vec<ColumnId>,
    text: String,
}

impl FoundForm {
    /// Of a relation in FROM.
    pub(super) fn of_alias(alias: Option<&TableAlias>) -> FoundForm {
        let Some(alias) = alias else { return FoundForm::Relation };
        let last = alias.columns.last().map_or(&alias.name, |column| &column.name);
        FoundForm::Aliased { end: last.span.end, columns: alias.columns.len() }
    }
}

impl Binder<'_> {
    /// The notes about the text of a new view, if the binder binds its query.
    fn view_text(&mut self) -> Option<&mut ViewText> {
        self.views.text.as_mut().filter(|_| !self.kept)
    }

    /// Remembers where the text of a new view names a source.
    pub(super) fn find_in_text(&mut self, span: Span, written: &[String], form: FoundForm) {
        if let Some(text) = self.view_text() {
            let found = FoundName { end: span.end, written: written.to_vec(), form };
            text.names.insert(span.start, found);
        }
    }

    /// Leaves the schema out in front of a column in the text of a new view where the name of the
    /// relation says enough: it may be in another schema later.
    pub(super) fn leave_out_schema(&mut self, path: &[Ident]) {
        let [schema, source, _] = path else { return };
        if self.view_text().is_none() {
            return;
        }
        let parts = [schema, source].map(parse::identifiers::ident);
        if self.needs_schema(&parts) {
            return;
        }
        if let Some(text) = self.view_text() {
            let edit = Edit { end: source.span.start, text: String::new() };
            text.edits.insert(schema.span.start, edit);
        }
    }

    /// Does the name of a relation mean another one, or several, without its schema?
    fn needs_schema(&self, parts: &[String; 2]) -> bool {
        let [schema, source] = parts;
        let scopes = std::iter::once(&self.scope).chain(self.outer.iter().rev());
        for scope in scopes {
            match scope.relation(None, source) {
                Ok(None) => {}
                Ok(Some(found)) => return found.schema.as_ref() != Some(schema),
                Err(_) => return true,
            }
        }
        true
    }

    /// The columns that a `*` stands for, behind the parts of a relation's name or alone. `None`:
    /// no new view is bound.
    pub(super) fn star_in_view(
        &self,
        parts: Option<&[String]>,
        columns: &[ScopeColumn],
    ) -> Option<Star> {
        if !self.views.is_new() || self.kept {
            return None;
        }
        let shown: Vec<&ScopeColumn> = columns.iter().filter(|column| !column.hidden).collect();
        let prefix = parts.map(|parts| match parts {
            [schema, source] if !self.needs_schema(&[schema.clone(), source.clone()]) => {
                qualifier(&[source])
            }
            parts => qualifier(&parts.iter().collect::<Vec<_>>()),
        });
        let name = |column: &&ScopeColumn| {
            let is_it = |other: &&&ScopeColumn| other.name == column.name;
            let prefix = match &prefix {
                Some(prefix) => prefix.clone(),
                None if shown.iter().filter(is_it).count() == 1 => String::new(),
                None => source_of(&self.scope, column),
            };
            format!("{prefix}{}", identifier(&column.name))
        };
        let names: Vec<String> = shown.iter().map(name).collect();
        let ids = shown.iter().map(|column| column.id).collect();
        Some(Star { ids, text: names.join(", ") })
    }

    /// Remembers what a `*` of a new view stands for, and spells it out if it has a span.
    pub(super) fn note_star(&mut self, span: Option<Span>, star: Option<Star>) {
        let Some(Star { ids, text: columns }) = star else { return };
        self.views.starred.extend(ids);
        if let Some(span) = span
            && let Some(text) = self.view_text().filter(|_| !columns.is_empty())
        {
            text.edits.insert(span.start, Edit { end: span.end, text: columns });
        }
    }
}

/// Names in front of a column, each with a dot behind it.
fn qualifier(parts: &[&String]) -> String {
    parts.iter().map(|part| format!("{}.", identifier(part))).collect()
}

/// What stands in front of a column whose name alone is ambiguous.
fn source_of(scope: &Scope, column: &ScopeColumn) -> String {
    let has = |relation: &&Relation| {
        relation.columns.iter().any(|one| one.id == column.id && one.name == column.name)
    };
    let Some(relation) = scope.relations.iter().find(has) else { return String::new() };
    let same = scope.relations.iter().filter(|other| other.alias == relation.alias);
    match relation.schema.as_ref().filter(|_| same.count() > 1) {
        Some(schema) => qualifier(&[schema, &relation.alias]),
        None => qualifier(&[&relation.alias]),
    }
}

impl ViewText {
    /// The text, in which the edits spell out what it left open.
    pub(crate) fn spelled_out(&self, text: &str) -> Result<String> {
        let mut out = text.to_owned();
        for (start, edit) in self.edits.iter().rev() {
            out.replace_range(byte(text, *start)?..byte(text, edit.end)?, &edit.text);
        }
        Ok(out)
    }

    /// Where the query of a view names its sources.
    pub(crate) fn names(&self, notes: &ViewNotes) -> Result<Vec<ViewName>> {
        let mut names = Vec::with_capacity(self.names.len());
        for (start, found) in &self.names {
            let is_it = |source: &crate::notes::view::ViewSource| source.written == found.written;
            let source = notes.sources.iter().position(is_it).ok_or_else(misplaced)?;
            let form = match found.form {
                FoundForm::Type => NameForm::Type,
                FoundForm::Sequence => NameForm::Sequence,
                FoundForm::Function => NameForm::Function,
                FoundForm::Relation => NameForm::Relation,
                FoundForm::Aliased { end, columns } => {
                    NameForm::Aliased { end: byte(&notes.query, end)?, columns }
                }
            };
            let (start, end) = (byte(&notes.query, *start)?, byte(&notes.query, found.end)?);
            names.push(ViewName { source, start, end, form });
        }
        Ok(names)
    }
}

fn byte(text: &str, at: Location) -> Result<usize> {
    parse::offset(text, at).ok_or_else(misplaced)
}

fn misplaced() -> SqlError {
    SqlError::new(code::INTERNAL, "a name has no place in the query of a view")
}
