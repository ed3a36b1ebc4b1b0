//! Dead rows leave leaves: by key, when the heap has pruned them, and when a full leaf asks the
//! heap which of its rows are dead.
//!
//! Where rows only come in, asking is in vain: after some full leaves without a dead row only one
//! in so many asks, unless a row on it is marked dead.
//!
//! Invariants: a row that the heap calls dead under the leaf's latch is the row that the entry was
//! made for: its row id is not given free before this entry is gone (R3). By key, where the verdict
//! is older than the latch, the caller's check stands in for that. Removals are logged.
//! Does not do: look at the heap; choose whom to ask about (`promising`); marks (`scan`).

use rightlink_env::sync::Ordering;

use crate::buffer::{Held, Mtr, Pin};
use crate::error::Result;
use crate::ids::{BlockNo, RowId, Xid};
use crate::index::am::{Group, IndexEntry, Trace};
use crate::index::btree::entries::Entries;
use crate::index::btree::node::{Checked, Node};
use crate::index::btree::posting::Spot;
use crate::index::btree::read::PageRead;
use crate::index::btree::search::{Aim, Place, Reached, Target};
use crate::index::btree::{Tree, TreeKey};
use crate::index::promising::dead_among;
use crate::wal::RecordKind;

/// Full leaves without a dead row after which few ask, and one in how many does.
const PATIENCE: u32 = 8;
const ONE_IN: u32 = 16;

/// Entries on their way out.
struct Removal<'a, 'e> {
    entries: &'a [IndexEntry<'e>],
    check: &'a mut dyn FnMut(RowId) -> bool,
    traces: &'a mut [Trace],
    removed: u64,
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::remove_dead`].
    pub(crate) fn remove_dead(
        &self,
        entries: &[IndexEntry<'_>],
        reads: bool,
        check: &mut dyn FnMut(RowId) -> bool,
        traces: &mut [Trace],
    ) -> Result<u64> {
        assert_eq!(entries.len(), traces.len(), "one answer per entry");
        debug_assert!(entries.is_sorted_by_key(|entry| (entry.key, entry.row)));
        let _registered = self.registrations.enter();
        let mut removal = Removal { entries, check, traces, removed: 0 };
        for group in self.groups(entries, false) {
            let Group { page, entries } = group?;
            let (mut at, mut block) = (entries.start, page.block.0);
            while at < entries.end {
                let Some(pin) = self.leaf_of(&removal.entries[at], block, reads)? else { break };
                let Some((next, right)) = self.remove_on(pin, at..entries.end, &mut removal)?
                else {
                    break;
                };
                assert!(next > at, "a leaf that takes a key is done with it");
                (at, block) = (next, right);
            }
        }
        Ok(removal.removed)
    }

    /// The leaf that takes the entry: the one at `block`, if the guess is right.
    fn leaf_of(&self, entry: &IndexEntry<'_>, block: u32, reads: bool) -> Result<Option<Pin>> {
        let key = TreeKey::new(entry.key, entry.row);
        match self.guess(block, Aim::At(&key)) {
            None if reads => self.descend(Aim::At(&key), 0),
            found => Ok(found),
        }
    }

    /// Removes those of the entries in `range` that belong on the leaf. Returns the first one that
    /// does not and the leaf's right link; nothing if the leaf does not take the first.
    fn remove_on(
        &self,
        pin: Pin,
        range: std::ops::Range<usize>,
        removal: &mut Removal<'_, '_>,
    ) -> Result<Option<(usize, u32)>> {
        let first = &removal.entries[range.start];
        let key = TreeKey::new(first.key, first.row);
        let mut mtr = Mtr::new(&self.pool);
        let target = Target { level: 0, alone: true };
        let Reached::Here(held, _) = self.reach(&mut mtr, pin, Aim::At(&key), target)? else {
            return Ok(None);
        };
        let block = mtr.id(held).block.0;
        let node = Node::open(mtr.bytes(held)).map_err(|what| self.corrupt(block, what))?;
        let right = node.right;
        let found = removal.find(&node, range).map_err(|what| self.corrupt(block, what))?;
        if !found.places.is_empty() {
            let before = self.is_sparse(&mtr, held);
            self.remove(&mut mtr, held, &found.places)?;
            let after = self.is_sparse(&mtr, held);
            mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
            removal.removed += found.places.len() as u64;
            if after && !before {
                self.merge_underfull(block)?;
            }
        }
        found.traces.into_iter().for_each(|(at, trace)| removal.traces[at] = trace);
        Ok(Some((found.next, right)))
    }

    /// Removes the dead ones among the rows that a unique check met under `key` on a latched leaf.
    /// False: there are none, and nothing was changed.
    pub(crate) fn sweep_equals(&self, mtr: &mut Mtr<'_>, held: Held, key: &[u8]) -> Result<bool> {
        let Some(heap) = self.heap.get() else { return Ok(false) };
        let block = mtr.id(held).block.0;
        let node = Node::open(mtr.bytes(held)).map_err(|what| self.corrupt(block, what))?;
        let equals = rows_under(&node, key).map_err(|what| self.corrupt(block, what))?;
        let rows: Vec<RowId> = equals.iter().map(|(_, row)| *row).collect();
        let mut dead = vec![false; rows.len()];
        heap.dead_to_all(&rows, &mut dead);
        let places = equals.iter().zip(&dead).filter(|(_, dead)| **dead);
        let places: Vec<_> = places.map(|((place, _), _)| *place).collect();
        if !places.is_empty() {
            self.remove(mtr, held, &places)?;
        }
        Ok(!places.is_empty())
    }

    /// Is a full leaf worth asking the heap about, though none of its rows is marked dead?
    pub(crate) fn asking_pays(&self) -> bool {
        let vain = self.vain.load(Ordering::Relaxed);
        let asks = vain < PATIENCE || vain.is_multiple_of(ONE_IN);
        if !asks {
            self.vain.fetch_add(1, Ordering::Relaxed);
        }
        asks && self.heap.get().is_some()
    }

    /// Drops rows that the heap calls dead from the entries of a full leaf. `marked`: blocks to ask
    /// about before all others. False: none was found.
    pub(crate) fn drop_dead(&self, entries: &mut Entries, marked: Vec<BlockNo>) -> bool {
        let Some(heap) = self.heap.get() else { return false };
        let gone = dead_among(entries.rows_of_all(), marked, heap.as_ref());
        if gone.is_empty() {
            self.vain.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.vain.store(0, Ordering::Relaxed);
        entries.keep_rows(|_, _, member| gone.binary_search(&member.row).is_err());
        rightlink_env::points::hit("btree.put.bottom-up");
        true
    }
}

/// What a leaf has of the entries to remove.
struct FoundOn {
    /// The first entry that belongs elsewhere.
    next: usize,
    /// Rows to take out, by entry and place in it.
    places: Vec<(usize, usize)>,
    /// What becomes of entries that the index will not have afterwards.
    traces: Vec<(usize, Trace)>,
}

impl Removal<'_, '_> {
    fn find<R: PageRead>(
        &mut self,
        node: &Node<R>,
        range: std::ops::Range<usize>,
    ) -> Checked<FoundOn> {
        let mut out = FoundOn { next: range.start, places: Vec::new(), traces: Vec::new() };
        for at in range {
            let entry = &self.entries[at];
            let key = TreeKey::new(entry.key, entry.row);
            let Place::Here(found) = node.place(Aim::At(&key))? else { break };
            out.next = at + 1;
            match node.locate(found, &key)? {
                Spot::There(place, member) if (self.check)(entry.row) => {
                    out.places.push((place, member));
                    out.traces.push((at, Trace::Removed));
                }
                Spot::There(..) => {}
                Spot::Gap(_) | Spot::Inside(..) => out.traces.push((at, Trace::Absent)),
            }
        }
        Ok(out)
    }
}

/// Places and rows of the entries of a leaf that begin with `key`.
fn rows_under<R: PageRead>(node: &Node<R>, key: &[u8]) -> Checked<Vec<((usize, usize), RowId)>> {
    let (mut out, mut members) = (Vec::new(), Vec::new());
    for entry in node.search(key)?.pos..node.count {
        if !node.has_key(entry, &node.item(entry)?, key) {
            break;
        }
        node.members(entry, &mut members)?;
        out.extend(members.iter().enumerate().map(|(at, member)| ((entry, at), member.row)));
    }
    Ok(out)
}
