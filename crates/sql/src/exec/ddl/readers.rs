//! Which views read a relation: they go with it or keep it, and follow its names.
//!
//! The names of the views that read a relation are kept with the database under the number of the
//! relation. They are no notes of the relation: these are changed under its exclusive lock, and
//! CREATE VIEW would wait for all who read the table.
//!
//! Invariants: who looks for the views that read a relation has its exclusive lock, and who makes
//! one has a lock of the relation, so that none comes after the look.
//! Does not do: making views (`view`).

use rightlink::{Busy, Error, LockMode};

use super::Definer;
use crate::error::{Result, SqlError, code};
use crate::notes::view::{ViewNotes, ViewSource};
use crate::notes::{TableNotes, line, lines};
use crate::schemas::no_table;
use crate::statistics::store;

/// A view that reads something.
struct Reader {
    view: String,
    notes: ViewNotes,
}

/// What a view may depend on.
#[derive(Clone, Copy)]
pub(super) enum Needed<'n> {
    Table(&'n str),
    View(&'n str),
    MaterializedView(&'n str),
    Sequence(&'n str),
    /// Its entry, and the type.
    Type(&'n str, &'n str),
    /// Its entry, and its name with its arguments.
    Function(&'n str, &'n str),
    Column(&'n str, &'n str),
}

impl<'n> Needed<'n> {
    /// A view, or a materialized view, which has rows of its own.
    fn view(name: &'n str, is_stored: bool) -> Needed<'n> {
        if is_stored { Needed::MaterializedView(name) } else { Needed::View(name) }
    }

    /// As messages call it.
    fn shown(self, shown: &dyn Fn(&str) -> String) -> String {
        match self {
            Needed::Table(name) => format!("table {}", shown(name)),
            Needed::View(name) => format!("view {}", shown(name)),
            Needed::MaterializedView(name) => format!("materialized view {}", shown(name)),
            Needed::Sequence(name) => format!("sequence {}", shown(name)),
            Needed::Type(_, name) => format!("type {}", shown(name)),
            Needed::Function(_, signature) => format!("function {}", shown(signature)),
            Needed::Column(table, column) => format!("column {column} of table {}", shown(table)),
        }
    }

    /// Its name in the store.
    fn name(self) -> &'n str {
        match self {
            Needed::Table(name) | Needed::Sequence(name) => name,
            Needed::View(name) | Needed::MaterializedView(name) => name,
            Needed::Type(name, _) | Needed::Function(name, _) | Needed::Column(name, _) => name,
        }
    }

    fn is_read(self, notes: &ViewNotes) -> bool {
        match self {
            Needed::Table(name)
            | Needed::View(name)
            | Needed::MaterializedView(name)
            | Needed::Sequence(name)
            | Needed::Type(name, _)
            | Needed::Function(name, _) => notes.reads(name),
            Needed::Column(table, column) => {
                notes.sources.iter().any(|source| source.name == table && source.uses(column))
            }
        }
    }
}

/// Under which name the views that read a relation are kept.
fn key(relation: u32) -> String {
    format!("views that read {relation}")
}

impl Definer<'_> {
    /// The number of a table, a view or a sequence.
    fn number_of(&mut self, name: &str) -> Result<Option<u32>> {
        match self.txn.catalog().definition(name) {
            Ok(info) => return Ok(Some(info.id)),
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let mut sequences = self.txn.catalog().sequences()?.into_iter();
        Ok(sequences.find(|known| known.schema.name == name).map(|known| known.id))
    }

    /// Names of the views that read the relation of this number.
    fn reader_names(&mut self, relation: u32) -> Result<Vec<String>> {
        let kept = self.txn.catalog().kept(&key(relation))?.unwrap_or_default();
        Ok(lines(&kept).filter_map(|fields| fields.into_iter().next()).collect())
    }

    fn keep_readers(&mut self, relation: u32, names: &[String]) -> Result<()> {
        let mut text = String::new();
        names.iter().for_each(|name| line(&mut text, &[name]));
        let text = Some(text.as_str()).filter(|text| !text.is_empty());
        Ok(self.txn.catalog().keep(&key(relation), text)?)
    }

    /// The views that read a relation.
    fn readers(&mut self, name: &str) -> Result<Vec<Reader>> {
        let Some(number) = self.number_of(name)? else { return Ok(Vec::new()) };
        let mut readers = Vec::new();
        for view in self.reader_names(number)? {
            if let Some(notes) = self.view_notes(&view)? {
                readers.push(Reader { view, notes });
            }
        }
        Ok(readers)
    }

    /// What is kept of a view; `None` if it is none.
    pub(super) fn view_notes(&mut self, name: &str) -> Result<Option<ViewNotes>> {
        match self.txn.catalog().definition(name) {
            Ok(info) => Ok(TableNotes::decode(&info.note).view.map(|view| *view)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A view reads these from now on.
    pub(super) fn add_reader(&mut self, view: &str, sources: &[ViewSource]) -> Result<()> {
        self.change_readers(sources, &|names| {
            if !names.iter().any(|known| known == view) {
                names.push(view.to_owned());
            }
        })
    }

    /// A view does not read these any more.
    pub(super) fn remove_reader(&mut self, view: &str, sources: &[ViewSource]) -> Result<()> {
        self.change_readers(sources, &|names| names.retain(|known| known != view))
    }

    fn change_readers(
        &mut self,
        sources: &[ViewSource],
        change: &dyn Fn(&mut Vec<String>),
    ) -> Result<()> {
        for source in sources {
            let Some(number) = self.number_of(&source.name)? else { continue };
            let before = self.reader_names(number)?;
            let mut names = before.clone();
            change(&mut names);
            if names != before {
                self.keep_readers(number, &names)?;
            }
        }
        Ok(())
    }

    /// Does a query read the relation called `name`, by itself or through views?
    pub(super) fn reads_at_last(&mut self, notes: &ViewNotes, name: &str) -> Result<bool> {
        let mut names: Vec<String> = notes.sources.iter().map(|one| one.name.clone()).collect();
        let mut at = 0;
        while let Some(next) = names.get(at).cloned() {
            if next == name {
                return Ok(true);
            }
            let below = self.view_notes(&next)?.map(|notes| notes.sources).unwrap_or_default();
            for source in below {
                if !names.contains(&source.name) {
                    names.push(source.name);
                }
            }
            at += 1;
        }
        Ok(false)
    }

    /// Views that read what is to go, and those that read these, go with it, or keep it from going.
    /// Those that are `also` dropped are no obstacle.
    pub(super) fn drop_dependents(
        &mut self,
        needed: Needed<'_>,
        also: &[String],
        cascade: bool,
    ) -> Result<()> {
        let path = self.context.settings.path();
        let shown = |name: &str| path.shown(name);
        let mut found: Vec<(Reader, String)> = Vec::new();
        let gather = |readers: Vec<Reader>, needed: Needed<'_>, found: &mut Vec<_>| {
            for one in readers.into_iter().filter(|one| needed.is_read(&one.notes)) {
                let is_known = |(known, _): &(Reader, String)| known.view == one.view;
                if !found.iter().any(is_known) {
                    let why = needed.shown(&shown);
                    let noun = one.notes.noun();
                    let line = format!("{noun} {} depends on {why}", shown(&one.view));
                    found.push((one, line));
                }
            }
        };
        gather(self.readers(needed.name())?, needed, &mut found);
        let mut at = 0;
        while let Some((one, _)) = found.get(at) {
            let (view, is_stored) = (one.view.clone(), one.notes.stored.is_some());
            gather(self.readers(&view)?, Needed::view(&view, is_stored), &mut found);
            at += 1;
        }
        found.retain(|(one, _)| !also.contains(&one.view));
        if found.is_empty() {
            return Ok(());
        }
        if !cascade {
            let lines: Vec<&str> = found.iter().map(|(_, line)| line.as_str()).collect();
            let what = needed.shown(&shown);
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        match found.as_slice() {
            [(one, _)] => {
                let noun = one.notes.noun();
                self.notices.push(format!("drop cascades to {noun} {}", shown(&one.view)));
            }
            more => self.notices.push(format!("drop cascades to {} other objects", more.len())),
        }
        for (one, _) in found {
            self.remove_view(&one.view, &one.notes)?;
        }
        Ok(())
    }

    /// Drops a view that nothing reads any more.
    fn remove_view(&mut self, name: &str, notes: &ViewNotes) -> Result<()> {
        self.remove_reader(name, &notes.sources)?;
        let number = self.number_of(name)?;
        number.map_or(Ok(()), |number| store::forget(self.txn, number))?;
        self.txn.drop_table(name)?;
        number.map_or(Ok(()), |number| self.forget_readers(number))
    }

    /// A relation is gone: nobody reads it.
    pub(super) fn forget_readers(&mut self, relation: u32) -> Result<()> {
        match self.txn.catalog().kept(&key(relation))? {
            Some(_) => self.keep_readers(relation, &[]),
            None => Ok(()),
        }
    }

    /// Drops a view or a materialized view, whichever messages call `noun`.
    pub(super) fn drop_view(
        &mut self,
        name: &str,
        noun: &str,
        also: &[String],
        cascade: bool,
    ) -> Result<()> {
        let Some(notes) = self.view_notes(name)?.filter(|notes| notes.noun() == noun) else {
            return Err(no_table(name));
        };
        self.lock_to_drop(name)?;
        self.drop_dependents(Needed::view(name, notes.stored.is_some()), also, cascade)?;
        self.drop_functions_of_rows(name, noun, cascade)?;
        self.remove_view(name, &notes)
    }

    /// Locks what is dropped before anybody looks what depends on it. One that damage keeps from
    /// being opened is dropped, too.
    pub(super) fn lock_to_drop(&mut self, name: &str) -> Result<()> {
        match self.txn.lock_table(name, LockMode::Exclusive, Busy::Wait).map_err(SqlError::from) {
            Err(error) if error.ends_statement() => Err(error),
            _ => Ok(()),
        }
    }

    /// Changes what views note of the relation that they know as `name`, which is called `now`.
    fn note_sources(
        &mut self,
        name: &str,
        now: &str,
        change: &dyn Fn(&mut ViewSource),
    ) -> Result<()> {
        for one in self.readers(now)?.into_iter().filter(|one| one.notes.reads(name)) {
            self.note(&one.view, |notes| {
                let sources = notes.view.iter_mut().flat_map(|view| &mut view.sources);
                sources.filter(|source| source.name == name).for_each(change);
            })?;
        }
        Ok(())
    }

    /// A relation that views may read, and that may be one, has got another name.
    pub(super) fn rename_source(&mut self, name: &str, to: &str) -> Result<()> {
        self.note_sources(name, to, &|source| to.clone_into(&mut source.name))?;
        let Some(notes) = self.view_notes(to)? else { return Ok(()) };
        self.change_readers(&notes.sources, &|names| {
            names.iter_mut().filter(|known| *known == name).for_each(|known| to.clone_into(known));
        })
    }

    /// A column of a relation that views may read has another name.
    pub(super) fn rename_source_column(
        &mut self,
        name: &str,
        column: &str,
        to: &str,
    ) -> Result<()> {
        self.note_sources(name, name, &|source| {
            let columns = source.columns.iter_mut().filter(|known| known.name == column);
            columns.for_each(|known| to.clone_into(&mut known.name));
        })
    }

    /// A column goes: views that name it go with it, or keep it; others forget it.
    pub(super) fn drop_source_column(
        &mut self,
        name: &str,
        column: &str,
        cascade: bool,
    ) -> Result<()> {
        self.drop_dependents(Needed::Column(name, column), &[], cascade)?;
        self.note_sources(name, name, &|source| {
            let columns = source.columns.iter_mut().filter(|known| known.name == column);
            columns.for_each(|known| known.name.clear());
        })
    }

    /// Fails if the query of a view names the column, whose type is to be changed.
    pub(super) fn refuse_used_column(&mut self, name: &str, column: &str) -> Result<()> {
        let needed = Needed::Column(name, column);
        let views = self.readers(name)?;
        let Some(found) = views.iter().find(|one| needed.is_read(&one.notes)) else {
            return Ok(());
        };
        let path = self.context.settings.path();
        let message = "cannot alter type of a column used by a view or rule";
        let detail = format!(
            "rule _RETURN on {} {} depends on column \"{column}\"",
            found.notes.noun(),
            path.shown(&found.view)
        );
        Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}
