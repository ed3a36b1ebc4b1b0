//! Insertion of a sorted batch, one leaf at a time and one log record a leaf.
//!
//! [`Tree::insert_group`] begins with the leaf that the caller named ([`Tree::groups`]), and finds
//! others by descents. A *run* then inserts as many entries as belong on it, under one latch.
//! Where the high key equals the separator that led to the leaf, no entry of the group is compared
//! with it.
//!
//! | file | content |
//! |---|---|
//! | `state` | what is kept between attempts |
//! | `sort` | the order of a batch |
//! | `unique` | whether a key may be inserted (R8) |
//! | `page_insert` | one entry into a latched page; deduplication |
//! | `bottom_up` | dead rows are removed from a full leaf |
//! | `redistribute` | a full leaf shares entries with its right siblings |
//! | `split` | else it is split |
//!
//! Invariants: an entry is stored only after everything that can fail was checked. A leaf that must
//! be split logs its run first, so that a split is a record of its own.
//! Does not do: wait for transactions; the outcome names the transaction.
//! PostgreSQL: `nbtinsert.c`.

mod bottom_up;
mod page_insert;
mod redistribute;
pub(crate) mod sort;
mod split;
pub(crate) mod state;
mod unique;

use rightlink_env::sync::Ordering;

use crate::buffer::{LatchedPage, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::am::{
    HeapOracle, IndexEntry, InsertOutcome, NamedPage, PageLink, check_entry_sizes,
};
use crate::index::btree::counters::count;
use crate::index::btree::insert::page_insert::PageInsert;
use crate::index::btree::insert::split::PageSplit;
use crate::index::btree::insert::split::split_point::keys_ascend_at;
use crate::index::btree::insert::state::{FullLeaf, InsertState, LeafVersion, Retry};
use crate::index::btree::insert::unique::UniqueKey;
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::edit::{self, EntryValue};
use crate::index::btree::page::node::{Checked, INCOMPLETE, Node, SLOT, SearchPosition};
use crate::index::btree::page::posting::EntryPosition;
use crate::index::btree::page::search::SearchBounds;
use crate::index::btree::page::tree_key::TreeKey;
use crate::index::btree::search::{LatchResult, OtherLatches, SearchTarget};
use crate::index::btree::tree::Tree;
use crate::wal::RecordKind;

/// The entries of a group, or the last ones of it, that are being inserted.
struct BatchInsert<'a, 'e> {
    tree: &'a Tree,
    xid: Xid,
    entries: &'a [IndexEntry<'e>],
    oracle: Option<&'a dyn HeapOracle>,
}

/// The result of one run.
enum InsertStep {
    /// Entries below this position are in.
    Inserted { upto: usize },
    /// The run must be repeated.
    Retry(Retry),
    /// The batch ends here.
    Finished(InsertOutcome),
}

/// The leaf that a run begins on, latched.
struct RunLeaf {
    held: LatchedPage,
    /// Where the search for the first entry's target ended.
    found: SearchPosition,
    /// The link that named the leaf for the group, until it is used.
    link: Option<PageLink>,
    /// The high key equals the separator of the link: the targets of the whole group are below it.
    bounds_group: bool,
}

/// The entry at hand.
struct RunEntry<'k> {
    /// Its position in the batch.
    at: usize,
    /// Does its run begin with it? Only then may it change more than the leaf of the run, or fail.
    is_first: bool,
    /// Its encoded key.
    key: &'k [u8],
    /// Its tree key.
    tree_key: &'k [u8],
    /// The oracle, if its key must be checked for uniqueness.
    oracle: Option<&'k dyn HeapOracle>,
}

impl RunEntry<'_> {
    /// Where the leaf is searched for: the whole tree key, or before all rows of a key that is
    /// checked.
    fn target(&self) -> &[u8] {
        if self.oracle.is_some() { self.key } else { self.tree_key }
    }
}

/// What is known about an entry's position on its leaf before it is searched for.
#[derive(Clone, Copy)]
enum KnownPosition {
    /// The search ended there.
    At(SearchPosition),
    /// The key is above all entries before this one; it may be that one itself.
    From(usize),
}

/// The result of one entry of a run.
enum EntryOutcome {
    /// It is in, on the leaf that the run began with. The next entry has this position.
    Inserted(KnownPosition),
    /// It is in, on a leaf to the right: the run ends with it.
    InsertedRight,
    /// It is left to the next run: this one logs what it has stored.
    NextRun,
    /// Entries of dead rows were removed; the run is repeated.
    RemovedDead,
    /// The run ends without it.
    EndRun(InsertStep),
    /// The page must be split; the entry belongs in front of entry `pos`.
    PageFull { held: LatchedPage, pos: usize },
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::insert_group`].
    pub(crate) fn insert_group(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        leaf: Option<NamedPage>,
    ) -> Result<InsertOutcome> {
        check_entry_sizes(entries)?;
        debug_assert!(entries.is_sorted_by_key(|entry| (entry.key, entry.row)));
        let _registered = self.registrations.register();
        let batch = BatchInsert { tree: self, xid, entries, oracle: unique };
        let mut state = InsertState { leaf, ..InsertState::default() };
        let mut at = 0;
        while at < entries.len() {
            match batch.insert_run(at, &mut state)? {
                InsertStep::Inserted { upto } => {
                    assert!(upto > at, "a run makes progress or says what it lacks");
                    at = upto;
                    state.retry.note_progress();
                }
                InsertStep::Retry(retry) => state.retry.prepare(self, retry)?,
                InsertStep::Finished(outcome) => return Ok(outcome),
            }
        }
        Ok(InsertOutcome::Inserted)
    }
}

impl<'a> BatchInsert<'a, '_> {
    /// Inserts entries from `from` on, as many as belong on one leaf.
    fn insert_run(&self, from: usize, state: &mut InsertState<'a>) -> Result<InsertStep> {
        let tree_key = self.tree_key(from);
        let entry = self.run_entry(from, from, &tree_key);
        let target = SearchTarget::At(entry.target());
        let named = state.leaf.take();
        let link = named.as_ref().and_then(|named| named.link);
        let named = named.map_or_else(|| self.tree.find_leaf(target), Ok)?;
        let mut mtr = Mtr::new(&self.tree.pool);
        match self.tree.latch_page(&mut mtr, named, target, 0, OtherLatches::None)? {
            LatchResult::Here(held, found) => {
                let leaf = RunLeaf { held, found, link, bounds_group: false };
                self.fill_leaf(mtr, leaf, from, state)
            }
            LatchResult::Lost => Ok(InsertStep::Retry(Retry::Conflict)),
            LatchResult::NotInMemory(block) => Ok(InsertStep::Retry(Retry::NeedPage(block))),
        }
    }

    /// Inserts entries from `start` on into the latched leaf. Only the first of them may go to a
    /// leaf right of it.
    fn fill_leaf(
        &self,
        mut mtr: Mtr<'a>,
        mut leaf: RunLeaf,
        start: usize,
        state: &mut InsertState<'a>,
    ) -> Result<InsertStep> {
        let mut known = KnownPosition::At(leaf.found);
        let mut at = start;
        let end = match self.tree.uses(Optimisation::Batches) {
            true => self.entries.len(),
            false => start + 1,
        };
        while at < end {
            let tree_key = self.tree_key(at);
            let entry = self.run_entry(start, at, &tree_key);
            let full = state.full.take();
            match self.insert_entry(&mut mtr, &mut leaf, &entry, known, full)? {
                EntryOutcome::Inserted(next) => (at, known) = (at + 1, next),
                EntryOutcome::InsertedRight => {
                    at += 1;
                    break;
                }
                EntryOutcome::NextRun => break,
                EntryOutcome::RemovedDead => {
                    mtr.commit(RecordKind::IndexDelete, self.xid)?;
                    return Ok(InsertStep::Retry(Retry::Conflict));
                }
                EntryOutcome::EndRun(step) => return Ok(step),
                EntryOutcome::PageFull { held, pos } => {
                    if state.retry.reserved.is_none() && held == leaf.held {
                        let retry = self.space_for(&mtr, held, pos, &entry)?;
                        let (block, version) = (mtr.id(held).block.0, mtr.version(held));
                        state.full = Some(LeafVersion { block, version });
                        state.leaf = Some(mtr.release(held).into());
                        return Ok(InsertStep::Retry(retry));
                    }
                    let (key, value, xid) = (entry.tree_key, self.value(at), self.xid);
                    let job = PageSplit { held, pos, key, value, child: None, xid };
                    return Ok(match self.tree.split(mtr, job, &mut state.retry)? {
                        Ok(()) => InsertStep::Inserted { upto: at + 1 },
                        Err(retry) => InsertStep::Retry(retry),
                    });
                }
            }
        }
        mtr.commit(RecordKind::IndexInsert, self.xid)?;
        Ok(InsertStep::Inserted { upto: at })
    }

    /// Inserts one entry of a run that holds the latch of `leaf`. `full` is a leaf that had no
    /// space for it.
    fn insert_entry(
        &self,
        mtr: &mut Mtr<'a>,
        leaf: &mut RunLeaf,
        entry: &RunEntry<'_>,
        known: KnownPosition,
        full: Option<LeafVersion>,
    ) -> Result<EntryOutcome> {
        if !entry.is_first && !self.takes_next(mtr, leaf, entry) {
            return Ok(EntryOutcome::NextRun);
        }
        let (held, known) = match entry.oracle {
            None if entry.is_first
                && self.remove_dead_versions(mtr, leaf.held, entry, known)? =>
            {
                return Ok(EntryOutcome::RemovedDead);
            }
            None => (leaf.held, known),
            Some(oracle) => match self.check_unique(mtr, leaf, entry, oracle)? {
                Ok(UniqueKey { held, from }) => (held, KnownPosition::From(from)),
                Err(outcome) => return Ok(outcome),
            },
        };
        let block = mtr.id(held).block.0;
        let node = Node::open(mtr.bytes(held)).map_err(|what| self.tree.corrupt(block, what))?;
        let position = match position_on(&node, entry.tree_key, known, self.tree.switches.get()) {
            // The stored entries get their record; the next run meets the error on its own.
            Err(_) if !entry.is_first => return Ok(EntryOutcome::NextRun),
            Err(what) => return Err(self.tree.corrupt(block, what)),
            Ok(EntryPosition::Present(row)) => {
                return match self.tree.clear_dead_mark(mtr, held, row) {
                    Ok(()) => Ok(EntryOutcome::Inserted(KnownPosition::From(row.entry))),
                    Err(_) if !entry.is_first => Ok(EntryOutcome::NextRun),
                    Err(error) => Err(error),
                };
            }
            Ok(position) => position,
        };
        let pos = position.pos();
        if node.flags & INCOMPLETE != 0 {
            assert!(entry.is_first, "the flag does not appear under the latch");
            let retry = Retry::FinishSplit { block, level: 0 };
            return Ok(EntryOutcome::EndRun(InsertStep::Retry(retry)));
        }
        if full == Some(LeafVersion { block, version: mtr.version(held) }) {
            return Ok(EntryOutcome::PageFull { held, pos });
        }
        let appended = pos == node.count && node.right == 0;
        let value = self.value(entry.at);
        match self.tree.insert_on_page(mtr, held, position, entry.tree_key, value) {
            Ok(done @ (PageInsert::InPlace(_) | PageInsert::Reencoded)) => {
                if appended && self.tree.uses(Optimisation::RightmostLeaf) {
                    self.tree.remember_rightmost(block);
                }
                let from = if let PageInsert::InPlace(pos) = done { pos } else { 0 };
                Ok(match held == leaf.held {
                    true => EntryOutcome::Inserted(KnownPosition::From(from)),
                    false => EntryOutcome::InsertedRight,
                })
            }
            _ if !entry.is_first => Ok(EntryOutcome::NextRun),
            Err(error) => Err(error),
            Ok(PageInsert::Full) => Ok(EntryOutcome::PageFull { held, pos }),
        }
    }

    /// Does the leaf take the target of the next entry of a run, too? It is above those before.
    fn takes_next(&self, mtr: &Mtr<'_>, leaf: &mut RunLeaf, entry: &RunEntry<'_>) -> bool {
        let Ok(node) = Node::open(mtr.bytes(leaf.held)) else { return false };
        if let Some(link) = leaf.link.take() {
            leaf.bounds_group = self.tree.high_is_separator(link, &node);
            count(|c| c.separators += u64::from(leaf.bounds_group));
        }
        leaf.bounds_group || node.cmp_high(entry.target()).is_lt()
    }

    /// What makes space for an entry that does not fit in front of entry `pos` of a leaf. An entry
    /// that replaces a version may get space from the siblings; keys that ascend here need a split.
    fn space_for(
        &self,
        mtr: &Mtr<'_>,
        held: LatchedPage,
        pos: usize,
        entry: &RunEntry<'_>,
    ) -> Result<Retry> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.tree.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let key = entry.tree_key;
        if !self.entries[entry.at].replaces || keys_ascend_at(&node, pos, key).map_err(damage)? {
            return Ok(Retry::NeedBlock);
        }
        let extra = self.value(entry.at).extra.len();
        let needed_bytes = SLOT + edit::item_size(key.len(), extra, 0);
        Ok(Retry::NeedSpace(FullLeaf { block, needed_bytes }))
    }

    /// Entry `at` of a run that begins with entry `start`.
    fn run_entry<'k>(&'k self, start: usize, at: usize, tree_key: &'k [u8]) -> RunEntry<'k> {
        let IndexEntry { key, .. } = self.entries[at];
        let oracle = self.oracle.filter(|_| self.entries[at].is_checked());
        RunEntry { at, is_first: at == start, key, tree_key, oracle }
    }

    fn tree_key(&self, at: usize) -> TreeKey {
        TreeKey::new(self.entries[at].key, self.entries[at].row)
    }

    fn value(&self, at: usize) -> EntryValue<'a> {
        EntryValue { extra: self.entries[at].payload, ..EntryValue::default() }
    }
}

/// Where on its leaf the key is.
fn position_on(
    node: &Node<&[u8; PAGE_SIZE]>,
    key: &[u8],
    known: KnownPosition,
    set: Optimisations,
) -> Checked<EntryPosition> {
    let found = match known {
        KnownPosition::At(found) => found,
        KnownPosition::From(from) => {
            node.search_within(key, SearchBounds { set, shared_bytes: 0, from })?.found
        }
    };
    node.entry_position(found, key)
}

impl Tree {
    /// Keys are being appended to the rightmost leaf, at `block`.
    fn remember_rightmost(&self, block: u32) {
        if self.rightmost.load(Ordering::Relaxed) != block {
            self.rightmost.store(block, Ordering::Relaxed);
        }
    }
}
