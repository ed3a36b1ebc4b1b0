//! Insertion of a sorted batch, one leaf at a time and one log record a leaf.
//!
//! [`Tree::insert_group`] finds the leaf of the next key: the leaf that the caller named, the right
//! sibling, the cached rightmost leaf, the remembered parent, else the root. A *run* then inserts
//! as many entries as belong on that leaf, under one latch.
//!
//! | file | content |
//! |---|---|
//! | `state` | what is kept between attempts: [`RetryState`], [`InsertHint`] |
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

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::am::{HeapOracle, IndexEntry, InsertOutcome, check_entry_sizes};
use crate::index::btree::insert::page_insert::PageInsert;
use crate::index::btree::insert::split::PageSplit;
use crate::index::btree::insert::split::split_point::keys_ascend_at;
use crate::index::btree::insert::state::{FullLeaf, InsertHint, InsertState, LeafVersion, Retry};
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::edit::{self, EntryValue};
use crate::index::btree::page::node::{Checked, INCOMPLETE, Node, RIGHT, SLOT, SearchPosition};
use crate::index::btree::page::posting::EntryPosition;
use crate::index::btree::page::search::SearchBounds;
use crate::index::btree::page::tree_key::TreeKey;
use crate::index::btree::search::{
    DescentStep, LatchResult, OtherLatches, PageMatch, ParentHint, SearchTarget, takes_target,
};
use crate::index::btree::tree::Tree;
use crate::page::header;
use crate::wal::RecordKind;

/// A batch that missed the right sibling so often stops trying it.
const MAX_MISSES: u32 = 4;

/// A batch that is being inserted.
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
    /// Tree key of the first entry.
    tree_key: TreeKey,
    /// Where the search for that key ended; `None` if the search was for the key without row id.
    found: Option<SearchPosition>,
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
}

/// What is known about an entry's position on its leaf before it is searched for.
#[derive(Clone, Copy)]
enum KnownPosition {
    /// Nothing.
    Unknown,
    /// The search ended there.
    At(SearchPosition),
    /// The key is above the low fence and all entries before this one; it may be that one itself.
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
        leaf: Option<Pin>,
    ) -> Result<InsertOutcome> {
        check_entry_sizes(entries)?;
        debug_assert!(entries.is_sorted_by_key(|entry| (entry.key, entry.row)));
        let _registered = self.registrations.register();
        let batch = BatchInsert { tree: self, xid, entries, oracle: unique };
        let mut state = InsertState::default();
        state.hint.leaf = leaf;
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
        let entry = &self.entries[from];
        let tree_key = TreeKey::new(entry.key, entry.row);
        let checked = self.oracle_for(from).is_some();
        let target = SearchTarget::At(if checked { entry.key } else { &tree_key });
        let pin = match self.hinted_leaf(target, from, &mut state.hint) {
            Some(pin) => pin,
            None => self.descend_to_leaf(target, &mut state.hint)?,
        };
        let mut mtr = Mtr::new(&self.tree.pool);
        match self.tree.latch_page(&mut mtr, pin, target, 0, OtherLatches::None)? {
            LatchResult::Here(held, found) => {
                let found = Some(found).filter(|_| !checked);
                self.fill_leaf(mtr, RunLeaf { held, tree_key, found }, from, state)
            }
            LatchResult::Lost => Ok(InsertStep::Retry(Retry::Conflict)),
            LatchResult::NotInMemory(block) => Ok(InsertStep::Retry(Retry::NeedPage(block))),
        }
    }

    /// The named leaf, the right sibling of the last leaf, or the cached rightmost leaf, if it
    /// takes the key.
    fn hinted_leaf(
        &self,
        target: SearchTarget<'_>,
        at: usize,
        hint: &mut InsertHint,
    ) -> Option<Pin> {
        if let Some(leaf) = hint.leaf.take() {
            let takes = leaf.optimistic(|view| takes_target(view, target)).unwrap_or(false);
            return takes.then_some(leaf);
        }
        if at == 0 {
            let block = match self.tree.uses(Optimisation::RightmostLeaf) {
                true => self.tree.rightmost.load(Ordering::Relaxed),
                false => 0,
            };
            let found = self.tree.try_hinted_leaf(block, target);
            if found.is_none() && block != 0 {
                self.tree.rightmost.store(0, Ordering::Relaxed);
            }
            return found;
        }
        let next = std::mem::take(&mut hint.right_sibling);
        if hint.misses >= MAX_MISSES || !self.tree.uses(Optimisation::Batches) {
            return None;
        }
        let found = self.tree.try_hinted_leaf(next, target);
        hint.misses = if found.is_some() { 0 } else { hint.misses + u32::from(next != 0) };
        found
    }

    /// Descends to the leaf: from the remembered parent, else from the root.
    fn descend_to_leaf(&self, target: SearchTarget<'_>, hint: &mut InsertHint) -> Result<Pin> {
        let tree = self.tree;
        if self.entries.len() > 1 && tree.uses(Optimisation::Batches) && tree.root().1 > 0 {
            let found = match hint.parent.take() {
                Some(parent) => self.leaf_below(parent, target, hint)?,
                None => None,
            };
            let found = match found {
                Some(pin) => Some(pin),
                None => match tree.descend(target, 1)? {
                    Some(parent) => self.leaf_below(parent, target, hint)?,
                    None => None,
                },
            };
            if let Some(pin) = found {
                return Ok(pin);
            }
        }
        let found = tree.descend(target, 0)?;
        found.ok_or_else(|| tree.corrupt(0, "a tree without leaves"))
    }

    /// The leaf below `parent`, which is remembered if it has one for the target.
    fn leaf_below(
        &self,
        parent: Pin,
        target: SearchTarget<'_>,
        hint: &mut InsertHint,
    ) -> Result<Option<Pin>> {
        let DescentStep::Down(link) = self.tree.step_from(&parent, target, 1)? else {
            return Ok(None);
        };
        let leaf = self.tree.pin_linked(link.block)?;
        hint.parent = Some(parent);
        Ok(Some(leaf))
    }

    /// Inserts entries from `start` on into the latched leaf. Only the first of them may go to a
    /// leaf right of it.
    fn fill_leaf(
        &self,
        mut mtr: Mtr<'a>,
        leaf: RunLeaf,
        start: usize,
        state: &mut InsertState<'a>,
    ) -> Result<InsertStep> {
        let RunLeaf { held: mut first, mut tree_key, found } = leaf;
        let mut known = found.map_or(KnownPosition::Unknown, KnownPosition::At);
        let mut at = start;
        let end = match self.tree.uses(Optimisation::Batches) {
            true => self.entries.len(),
            false => start + 1,
        };
        while at < end {
            let IndexEntry { key, row, .. } = self.entries[at];
            if at > start {
                tree_key = TreeKey::new(key, row);
            }
            let full = state.hint.full.take();
            let entry = RunEntry { at, is_first: at == start, key, tree_key: &tree_key };
            match self.insert_entry(&mut mtr, &mut first, &entry, known, full)? {
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
                    if state.retry.reserved.is_none() && held == first {
                        let retry = self.space_for(&mtr, held, pos, &entry)?;
                        let (block, version) = (mtr.id(held).block.0, mtr.version(held));
                        state.hint.full = Some(LeafVersion { block, version });
                        state.hint.leaf = Some(mtr.release(held));
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
        state.hint.right_sibling = header::u32_at(mtr.bytes(first), RIGHT);
        mtr.commit(RecordKind::IndexInsert, self.xid)?;
        Ok(InsertStep::Inserted { upto: at })
    }

    /// Inserts one entry of a run that holds the latch of the leaf `first`. `full` is a leaf that
    /// had no space for it.
    fn insert_entry(
        &self,
        mtr: &mut Mtr<'a>,
        first: &mut LatchedPage,
        entry: &RunEntry<'_>,
        known: KnownPosition,
        full: Option<LeafVersion>,
    ) -> Result<EntryOutcome> {
        let held = match self.oracle_for(entry.at) {
            None if entry.is_first && self.remove_dead_versions(mtr, *first, entry, known)? => {
                return Ok(EntryOutcome::RemovedDead);
            }
            None => *first,
            Some(oracle) => match self.check_unique(mtr, first, entry, oracle)? {
                Ok(held) => held,
                Err(outcome) => return Ok(outcome),
            },
        };
        let block = mtr.id(held).block.0;
        let node = Node::open(mtr.bytes(held)).map_err(|what| self.tree.corrupt(block, what))?;
        let set = self.tree.switches.get();
        let position = match position_on(&node, entry.tree_key, known, set) {
            // The stored entries get their record; the next run meets the error on its own.
            Err(_) | Ok(None) if !entry.is_first => return Ok(EntryOutcome::NextRun),
            Err(what) => return Err(self.tree.corrupt(block, what)),
            Ok(None) => return Ok(EntryOutcome::EndRun(InsertStep::Retry(Retry::Conflict))),
            Ok(Some(EntryPosition::Present(row))) => {
                return match self.tree.clear_dead_mark(mtr, held, row) {
                    Ok(()) => Ok(EntryOutcome::Inserted(KnownPosition::From(row.entry))),
                    Err(_) if !entry.is_first => Ok(EntryOutcome::NextRun),
                    Err(error) => Err(error),
                };
            }
            Ok(Some(position)) => position,
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
                Ok(match held == *first {
                    true => EntryOutcome::Inserted(KnownPosition::From(from)),
                    false => EntryOutcome::InsertedRight,
                })
            }
            _ if !entry.is_first => Ok(EntryOutcome::NextRun),
            Err(error) => Err(error),
            Ok(PageInsert::Full) => Ok(EntryOutcome::PageFull { held, pos }),
        }
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

    /// The oracle, if entry `at` must be checked for uniqueness.
    fn oracle_for(&self, at: usize) -> Option<&'a dyn HeapOracle> {
        self.oracle.filter(|_| self.entries[at].is_checked())
    }

    fn value(&self, at: usize) -> EntryValue<'a> {
        EntryValue { extra: self.entries[at].payload, ..EntryValue::default() }
    }
}

/// Where on this leaf the key is; `None` if it belongs to another one.
fn position_on(
    node: &Node<&[u8; PAGE_SIZE]>,
    key: &[u8],
    known: KnownPosition,
    set: Optimisations,
) -> Checked<Option<EntryPosition>> {
    let found = match known {
        KnownPosition::At(found) => found,
        // The next key of a batch is mostly on another leaf: the high key says so at once.
        KnownPosition::From(_) if node.cmp_high(key).is_ge() => return Ok(None),
        KnownPosition::From(from) => {
            node.search_within(key, SearchBounds { set, shared_bytes: 0, from })?.found
        }
        KnownPosition::Unknown => {
            match node.match_with(SearchTarget::At(key), ParentHint::with(set), |_| false)?.0 {
                PageMatch::Here(found) => found,
                PageMatch::MoveRight(_) | PageMatch::Lost => return Ok(None),
            }
        }
    };
    node.entry_position(found, key).map(Some)
}

impl Tree {
    /// Keys are being appended to the rightmost leaf, at `block`.
    fn remember_rightmost(&self, block: u32) {
        if self.rightmost.load(Ordering::Relaxed) != block {
            self.rightmost.store(block, Ordering::Relaxed);
        }
    }
}
