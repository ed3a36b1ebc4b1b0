//! What a transaction has changed of the names, and the end of these changes.
//!
//! A transaction sees its own changes in its [`Changes`]. No other transaction sees them before it
//! ends, because the names are marked as changing and the tables are locked.
//!
//! Invariants: files are removed only after the commit that drops them is durable.
//! Does not do: the changes (`ddl`), the transaction's end itself (`db`).

use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::points;
use rightlink_env::sync::Arc;

use crate::catalog::names::Entry;
use crate::catalog::{Catalog, files_of};
use crate::error::Result;
use crate::ids::FileId;

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Durably.
    Committed,
    /// By request, or by an error before its commit record.
    RolledBack,
    /// The commit record was written and its sync failed.
    Unknown,
}

/// Names as a transaction sees them.
type View = BTreeMap<String, Option<Arc<Entry>>>;

/// What a transaction changed so far. Most change nothing, which costs them nothing.
#[derive(Default)]
pub struct Changes(Option<Box<Changed>>);

#[derive(Default)]
struct Changed {
    now: View,
    before: View,
    created: Vec<FileId>,
    /// Sequences of no table, by file.
    sequences: BTreeMap<FileId, Existence>,
}

/// The state of a sequence of no table.
#[derive(Clone, Copy)]
struct Existence {
    /// Was it there before the transaction?
    before: bool,
    /// Is it there now?
    now: bool,
}

/// Where a savepoint stands in the changes.
#[derive(Clone, Default)]
pub struct ChangesMark {
    now: View,
    sequences: BTreeMap<FileId, Existence>,
}

impl Changes {
    /// Has anything been changed?
    pub fn is_empty(&self) -> bool {
        let unnamed = |made: &Changed| made.before.is_empty() && made.sequences.is_empty();
        self.0.as_deref().is_none_or(unnamed)
    }

    /// Is there nothing to do when the transaction ends? A statement that failed before it changed
    /// anything may have left files.
    pub fn leaves_nothing(&self) -> bool {
        self.is_empty() && self.0.as_deref().is_none_or(|made| made.created.is_empty())
    }

    /// The place to go back to.
    pub fn mark(&self) -> ChangesMark {
        let Some(made) = &self.0 else { return ChangesMark::default() };
        ChangesMark { now: made.now.clone(), sequences: made.sequences.clone() }
    }

    /// Goes back. Names stay marked until the end; those first changed since are as before.
    pub fn rollback_to(&mut self, mark: &ChangesMark) {
        let Some(made) = &mut self.0 else { return };
        made.now = made.before.clone();
        made.now.extend(mark.now.clone());
        for (file, sequence) in &mut made.sequences {
            sequence.now = mark.sequences.get(file).map_or(sequence.before, |then| then.now);
        }
    }

    /// Notes that a sequence of no table is there now, or is not.
    pub(super) fn set_sequence(&mut self, file: FileId, there: bool) {
        let first = Existence { before: !there, now: there };
        self.made().sequences.entry(file).or_insert(first).now = there;
    }

    /// Notes files that go again unless the transaction commits and still has them.
    pub(super) fn note_created(&mut self, files: &[FileId]) {
        self.made().created.extend_from_slice(files);
    }

    /// What the transaction has made of a name: a table, or none. `None`: it has not changed it.
    pub(super) fn get(&self, name: &str) -> Option<&Option<Arc<Entry>>> {
        self.0.as_ref()?.now.get(name)
    }

    /// Has the transaction marked this name?
    pub(super) fn has_marked(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|made| made.before.contains_key(name))
    }

    /// Notes that the transaction has marked a name, and what it was before.
    pub(super) fn note_marked(&mut self, name: &str, before: Option<Arc<Entry>>) {
        let made = self.made();
        made.now.insert(name.to_owned(), before.clone());
        made.before.insert(name.to_owned(), before);
    }

    /// Sets what a marked name stands for.
    pub(super) fn set(&mut self, name: &str, entry: Option<Arc<Entry>>) {
        assert!(self.has_marked(name), "a name is marked before it changes");
        self.made().now.insert(name.to_owned(), entry);
    }

    fn made(&mut self) -> &mut Changed {
        self.0.get_or_insert_default()
    }
}

impl Catalog {
    /// Ends the changes of names after the transaction has ended, and removes the files that no
    /// table needs any more. When it is not known whether the commit is durable, all files stay:
    /// opening the database again tells.
    pub fn end_changes(&self, changes: Changes, ending: Ending) -> Result<()> {
        let changes = changes.0.unwrap_or_default();
        let outcome = match ending {
            Ending::Committed => &changes.now,
            Ending::RolledBack | Ending::Unknown => &changes.before,
        };
        let mut kept = files_in(outcome);
        let mut doomed: BTreeSet<FileId> = changes.created.iter().copied().collect();
        doomed.extend(files_in(&changes.before));
        for (file, sequence) in &changes.sequences {
            doomed.insert(*file);
            if if ending == Ending::Committed { sequence.now } else { sequence.before } {
                kept.insert(*file);
            }
        }
        points::hit("catalog.before-settle");
        for name in changes.before.keys() {
            self.names.unmark(name, outcome.get(name).cloned().flatten());
        }
        points::hit("catalog.settled");
        if ending == Ending::Unknown {
            return Ok(());
        }
        for file in doomed.difference(&kept) {
            self.forget_sequence(*file);
            self.pool.drop_file(*file)?;
        }
        Ok(())
    }
}

fn files_in(view: &View) -> BTreeSet<FileId> {
    view.values().flatten().flat_map(|entry| files_of(entry.table.def())).collect()
}
