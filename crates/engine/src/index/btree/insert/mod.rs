//! Insertion of a batch: sorted once, a leaf held for all of its keys, one record per leaf. From
//! there the batch goes right when its next key is next door, else down again from the inner page
//! above the leaves, and only if that one has nothing for the key from the root.
//!
//! Whether a key may go in is judged under the latch that it goes in under (`unique`).
//!
//! Invariants: nothing is stored before everything that can fail has been checked; a leaf that must
//! be split gives up what it has done as one record first, so that a split is a record of its own.
//! Does not do: wait. Whom to wait for is an outcome.

mod bottom_up;
mod page_insert;
mod redistribute;
pub(crate) mod sort;
mod split;
mod unique;

use crate::buffer::{Held, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::index::MAX_ENTRY_BYTES;
use crate::index::Tries;
use crate::index::am::{HeapOracle, IndexEntry, InsertOutcome};
use crate::index::btree::insert::page_insert::Put;
use crate::index::btree::insert::redistribute::Full;
use crate::index::btree::insert::split::Splitting;
use crate::index::btree::insert::split::split_point::grows_there;
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::edit::{self, Value};
use crate::index::btree::page::node::{Checked, Found, INCOMPLETE, Node, RIGHT, SLOT};
use crate::index::btree::page::posting::Spot;
use crate::index::btree::page::search::Given;
use crate::index::btree::page::tree_key::TreeKey;
use crate::index::btree::search::{Aim, Lead, Place, Reached, Step, Target, takes};
use crate::index::btree::tree::ReservedBlock;
use crate::index::btree::tree::Tree;
use crate::page::header;
use crate::wal::RecordKind;
use rightlink_env::sync::Ordering;

/// What a writer carries from round to round: things that must be got without a latch.
#[derive(Default)]
pub(crate) struct Luggage<'t> {
    /// A block for a split.
    pub(crate) spare: Option<ReservedBlock<'t>>,
    /// Pages that were missing under a latch.
    pub(crate) keep: Vec<Pin>,
    tries: Tries,
    trail: Trail,
}

/// Where a batch has been. Each part is a guess: a page that is remembered is judged by its level
/// and fences like one that a descent led to (R6).
#[derive(Default)]
struct Trail {
    /// The leaf that the caller expects the first entry to belong on.
    leaf: Option<Pin>,
    /// Right sibling of the leaf that was filled last; 0: none.
    next: u32,
    /// The inner page above the leaves that led there.
    parent: Option<Pin>,
    /// Times in a row that the next key was not next door.
    misses: u32,
    /// A leaf that had no room for the next entry, and its version then.
    full: Option<(u32, u64)>,
}

/// A batch that was wrong so often stops looking next door.
const MAX_MISSES: u32 = 4;

impl<'t> Luggage<'t> {
    /// Fetches what a round said it lacked. No latch is held.
    pub(crate) fn fetch(&mut self, tree: &'t Tree, lack: Lack) -> Result<()> {
        match lack {
            Lack::Block if self.spare.is_none() => self.spare = Some(tree.spare()?),
            Lack::Page(block) => {
                if self.keep.len() >= 4 {
                    self.keep.clear();
                }
                self.keep.push(tree.pin_linked(block)?);
            }
            Lack::Finish(block, level) => tree.complete_split(block, level)?,
            Lack::Room(full) if tree.spread(full, self)? => {}
            Lack::Room(_) if self.spare.is_none() => self.spare = Some(tree.spare()?),
            Lack::Block | Lack::Room(_) | Lack::Luck => {}
        }
        self.tries.again(&tree.pool, tree.page(0), "a change of the tree makes no progress")
    }
}

/// A round's result, or what it lacked.
pub(crate) type Attempt<T> = std::result::Result<T, Lack>;

/// What a round lacked, so that it must be run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// A free block.
    Block,
    /// This page in memory.
    Page(u32),
    /// Room on this leaf, from its neighbours; else a free block.
    Room(Full),
    /// The completion of the split of this page, at this level.
    Finish(u32, u8),
    /// Only luck: somebody changed what was looked at.
    Luck,
}

/// Result of one round.
pub(super) enum Round {
    /// Entries below this position are in.
    Upto(usize),
    /// Run again.
    Lack(Lack),
    /// The batch stops.
    Stop(InsertOutcome),
}

/// What became of one entry of a round.
pub(super) enum Placed {
    /// It is in, on the page that the round began with.
    In(Known),
    /// It is in, on another page: the round ends with it.
    Beside,
    /// Not in this round: what is stored gets its record first.
    Later,
    /// Entries that are dead to everyone were taken away; the round is run again.
    Swept,
    /// The round ends without it.
    Over(Round),
    /// The page must be split for it, which goes to this position.
    Full(Held, usize),
}

/// The leaf that a round begins on.
struct Arrived {
    held: Held,
    /// Tree key of the entry.
    key: TreeKey,
    /// Where its search ended, if it is that key which was searched for.
    found: Option<Found>,
}

/// What is known of an entry's place on its leaf before it is searched for.
#[derive(Clone, Copy)]
pub(super) enum Known {
    /// Nothing.
    Nothing,
    /// The search ended there.
    Place(Found),
    /// The key is above the low fence and all entries before this one; it may be that one itself.
    After(usize),
}

/// The batch and the leaf it is at.
pub(super) struct Batch<'a, 'e> {
    pub(super) tree: &'a Tree,
    xid: Xid,
    pub(super) entries: &'a [IndexEntry<'e>],
    oracle: Option<&'a dyn HeapOracle>,
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::insert_group`].
    pub(crate) fn insert_ordered(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        leaf: Option<Pin>,
    ) -> Result<InsertOutcome> {
        for entry in entries.iter() {
            if entry.key.len() + entry.payload.len() > MAX_ENTRY_BYTES {
                let bytes = entry.key.len() + entry.payload.len();
                let limit = MAX_ENTRY_BYTES;
                return Err(Error::Limit(format!("index entry of {bytes} bytes, at most {limit}")));
            }
        }
        debug_assert!(entries.is_sorted_by_key(|entry| (entry.key, entry.row)));
        let _registered = self.registrations.enter();
        let batch = Batch { tree: self, xid, entries, oracle: unique };
        let mut luggage = Luggage::default();
        luggage.trail.leaf = leaf;
        let mut at = 0;
        while at < entries.len() {
            match batch.round(at, &mut luggage)? {
                Round::Upto(next) => {
                    assert!(next > at, "a round makes progress or says what it lacks");
                    (at, luggage.tries) = (next, Tries::default());
                    luggage.keep.clear();
                }
                Round::Lack(lack) => luggage.fetch(self, lack)?,
                Round::Stop(outcome) => return Ok(outcome),
            }
        }
        Ok(InsertOutcome::Inserted)
    }
}

impl<'a> Batch<'a, '_> {
    /// The oracle, if entry `at` must be checked.
    fn oracle_for(&self, at: usize) -> Option<&'a dyn HeapOracle> {
        self.oracle.filter(|_| self.entries[at].is_checked())
    }

    /// One leaf: as many entries from `at` on as belong there.
    fn round(&self, at: usize, luggage: &mut Luggage<'a>) -> Result<Round> {
        let entry = &self.entries[at];
        let key = TreeKey::new(entry.key, entry.row);
        let checked = self.oracle_for(at).is_some();
        let aim = Aim::At(if checked { entry.key } else { &key });
        let pin = match self.next_door(aim, at, &mut luggage.trail) {
            Some(pin) => pin,
            None => self.down(aim, &mut luggage.trail)?,
        };
        let mut mtr = Mtr::new(&self.tree.pool);
        let target = Target { level: 0, alone: true };
        match self.tree.reach(&mut mtr, pin, aim, target)? {
            Reached::Here(held, found) => {
                let found = Some(found).filter(|_| !checked);
                self.fill(mtr, Arrived { held, key, found }, at, luggage)
            }
            Reached::Lost => Ok(Round::Lack(Lack::Luck)),
            Reached::Missing(block) => Ok(Round::Lack(Lack::Page(block))),
        }
    }

    /// The leaf to the right of the one before, or the rightmost one, if it takes the key.
    fn next_door(&self, aim: Aim<'_>, at: usize, trail: &mut Trail) -> Option<Pin> {
        if let Some(leaf) = trail.leaf.take() {
            let fits = leaf.optimistic(|view| takes(view, aim)).unwrap_or(false);
            return fits.then_some(leaf);
        }
        if at == 0 {
            let block = match self.tree.uses(Optimisations::RIGHTMOST_LEAF) {
                true => self.tree.rightmost.load(Ordering::Relaxed),
                false => 0,
            };
            let found = self.tree.guess(block, aim);
            if found.is_none() && block != 0 {
                self.tree.rightmost.store(0, Ordering::Relaxed);
            }
            return found;
        }
        let next = std::mem::take(&mut trail.next);
        if trail.misses >= MAX_MISSES || !self.tree.uses(Optimisations::BATCHES) {
            return None;
        }
        let found = self.tree.guess(next, aim);
        trail.misses = if found.is_some() { 0 } else { trail.misses + u32::from(next != 0) };
        found
    }

    /// Down to the leaf: from the inner page that led to the one before, else from the root.
    fn down(&self, aim: Aim<'_>, trail: &mut Trail) -> Result<Pin> {
        let tree = self.tree;
        if self.entries.len() > 1 && tree.uses(Optimisations::BATCHES) && tree.root().1 > 0 {
            let found = match trail.parent.take() {
                Some(parent) => self.child(parent, aim, trail)?,
                None => None,
            };
            let found = match found {
                Some(pin) => Some(pin),
                None => match tree.descend(aim, 1)? {
                    Some(parent) => self.child(parent, aim, trail)?,
                    None => None,
                },
            };
            if let Some(pin) = found {
                return Ok(pin);
            }
        }
        let found = tree.descend(aim, 0)?;
        found.ok_or_else(|| tree.corrupt(0, "a tree without leaves"))
    }

    /// The leaf under `parent`, which is remembered if it knows one.
    fn child(&self, parent: Pin, aim: Aim<'_>, trail: &mut Trail) -> Result<Option<Pin>> {
        let Step::Down(block) = self.tree.step(&parent, aim, 1)? else { return Ok(None) };
        let leaf = self.tree.pin_linked(block)?;
        trail.parent = Some(parent);
        Ok(Some(leaf))
    }

    /// What is wanted for entry `at`, which has this key and finds no room in front of the entry
    /// `pos` of a leaf: what the neighbours can spare if it takes a version's place and is not one
    /// of many, a block for a split if not.
    fn lack_of(
        &self,
        mtr: &Mtr<'_>,
        (held, pos): (Held, usize),
        (at, key): (usize, &[u8]),
    ) -> Result<Lack> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.tree.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        if !self.entries[at].replaces || grows_there(&node, pos, key).map_err(damage)? {
            return Ok(Lack::Block);
        }
        let need = SLOT + edit::item_size(key.len(), self.value(at).extra.len(), 0);
        Ok(Lack::Room(Full { block, need }))
    }

    /// Entries from `start` on, into the leaf arrived at or, for the first of them, right of it.
    fn fill(
        &self,
        mut mtr: Mtr<'a>,
        arrived: Arrived,
        start: usize,
        luggage: &mut Luggage<'a>,
    ) -> Result<Round> {
        let Arrived { held: mut first, mut key, found } = arrived;
        let mut known = found.map_or(Known::Nothing, Known::Place);
        let mut at = start;
        let end = match self.tree.uses(Optimisations::BATCHES) {
            true => self.entries.len(),
            false => start + 1,
        };
        while at < end {
            if at > start {
                let entry = &self.entries[at];
                key = TreeKey::new(entry.key, entry.row);
            }
            let full = luggage.trail.full.take();
            match self.place(&mut mtr, &mut first, (at, start), &key, (known, full))? {
                Placed::In(next) => (at, known) = (at + 1, next),
                Placed::Beside => {
                    at += 1;
                    break;
                }
                Placed::Later => break,
                Placed::Swept => {
                    mtr.commit(RecordKind::IndexDelete, self.xid)?;
                    return Ok(Round::Lack(Lack::Luck));
                }
                Placed::Over(round) => return Ok(round),
                Placed::Full(held, pos) => {
                    if luggage.spare.is_none() && held == first {
                        let lack = self.lack_of(&mtr, (held, pos), (at, &key))?;
                        luggage.trail.full = Some((mtr.id(held).block.0, mtr.version(held)));
                        luggage.trail.leaf = Some(mtr.release(held));
                        return Ok(Round::Lack(lack));
                    }
                    let value = self.value(at);
                    let splitting =
                        Splitting { held, pos, key: &key, value, child: None, xid: self.xid };
                    let split = self.tree.split(mtr, splitting, luggage)?;
                    return Ok(split.map_or_else(Round::Lack, |()| Round::Upto(at + 1)));
                }
            }
        }
        luggage.trail.next = header::u32_at(mtr.bytes(first), RIGHT);
        mtr.commit(RecordKind::IndexInsert, self.xid)?;
        Ok(Round::Upto(at))
    }

    fn value(&self, at: usize) -> Value<'a> {
        Value { extra: self.entries[at].payload, ..Value::default() }
    }

    /// Entry `at`, whose tree key is `key`, of a round that began with entry `start`. `full`: a
    /// leaf that had no room for it, and its version then.
    fn place(
        &self,
        mtr: &mut Mtr<'a>,
        first: &mut Held,
        (at, start): (usize, usize),
        key: &[u8],
        (known, full): (Known, Option<(u32, u64)>),
    ) -> Result<Placed> {
        let held = match self.oracle_for(at) {
            None if at == start && self.sweep(mtr, *first, at, known)? => {
                return Ok(Placed::Swept);
            }
            None => *first,
            Some(oracle) => match self.admit(mtr, first, (at, start), key, oracle)? {
                Ok(held) => held,
                Err(placed) => return Ok(placed),
            },
        };
        let block = mtr.id(held).block.0;
        let node = Node::open(mtr.bytes(held)).map_err(|what| self.tree.corrupt(block, what))?;
        let spot = match spot_of(&node, key, known, self.tree.switches.get()) {
            // What is stored gets its record; the next round meets the error on its own.
            Err(_) | Ok(None) if at > start => return Ok(Placed::Later),
            Err(what) => return Err(self.tree.corrupt(block, what)),
            Ok(None) => return Ok(Placed::Over(Round::Lack(Lack::Luck))),
            Ok(Some(Spot::Present(position))) => {
                return match self.tree.revive(mtr, held, position) {
                    Ok(()) => Ok(Placed::In(Known::After(position.entry))),
                    Err(_) if at > start => Ok(Placed::Later),
                    Err(error) => Err(error),
                };
            }
            Ok(Some(spot)) => spot,
        };
        let pos = spot.pos();
        if node.flags & INCOMPLETE != 0 {
            assert!(at == start, "the flag does not appear under the latch");
            return Ok(Placed::Over(Round::Lack(Lack::Finish(block, 0))));
        }
        if full == Some((block, mtr.version(held))) {
            return Ok(Placed::Full(held, pos));
        }
        let appended = pos == node.count && node.right == 0;
        match self.tree.put(mtr, held, spot, key, self.value(at)) {
            Ok(done @ (Put::At(_) | Put::Encoded)) => {
                if appended && self.tree.uses(Optimisations::RIGHTMOST_LEAF) {
                    self.tree.remember_rightmost(block);
                }
                let known = Known::After(if let Put::At(pos) = done { pos } else { 0 });
                Ok(if held == *first { Placed::In(known) } else { Placed::Beside })
            }
            _ if at > start => Ok(Placed::Later),
            Err(error) => Err(error),
            Ok(Put::Full) => Ok(Placed::Full(held, pos)),
        }
    }
}

/// Where on this leaf the key is; `None` if it belongs to another one.
fn spot_of(
    node: &Node<&[u8; PAGE_SIZE]>,
    key: &[u8],
    known: Known,
    set: Optimisations,
) -> Checked<Option<Spot>> {
    let found = match known {
        Known::Place(found) => found,
        // The next key of a batch is mostly on another leaf: the high key says so at once.
        Known::After(_) if node.cmp_high(key).is_ge() => return Ok(None),
        Known::After(from) => node.probe(key, Given { set, known: 0, from })?.found,
        Known::Nothing => match node.place_with(Aim::At(key), Lead::with(set), |_| false)?.0 {
            Place::Here(found) => found,
            Place::Right(_) | Place::Lost => return Ok(None),
        },
    };
    node.locate(found, key).map(Some)
}

impl Tree {
    /// Keys are being appended to the rightmost leaf, at `block`.
    fn remember_rightmost(&self, block: u32) {
        if self.rightmost.load(Ordering::Relaxed) != block {
            self.rightmost.store(block, Ordering::Relaxed);
        }
    }
}
