//! Roots that died on access, queued until their index entries are removed by key.
//!
//! Invariants: the queue holds at most [`MAX_DEAD_BYTES`]; vacuum finds the roots that did not fit.
//! A row id in the queue may name another row once the recycle clock moved past `pruned_at` (R3).
//! Does not do: remove index entries (`table`), or free line pointers (`free`).

use rightlink_env::sync::Ordering;

use crate::heap::{Heap, HeapState};
use crate::ids::{RowId, Xid};

/// Most bytes of roots kept for [`Heap::take_dead_roots`]; vacuum finds the others.
const MAX_DEAD_BYTES: usize = 256 << 10;
/// A root that has no version left, or only a forwarding stub: index entries may still name it and
/// can go. Its line pointer is dead, unless there is a stub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadRoot {
    /// The root.
    pub row_id: RowId,
    /// Bytes of a version of its HOT chain: all of them have the same index keys.
    pub row: Vec<u8>,
    /// The creator of that version. A younger index may have been built from a later version with
    /// other keys (R10), which was removed before this one (R9).
    pub xmin: Xid,
    /// The recycle clock while the root died (R3): until row ids of its block are given free after
    /// that, its row id names nothing else.
    pub pruned_at: u64,
}

impl DeadRoot {
    fn memory(&self) -> usize {
        std::mem::size_of::<Self>() + self.row.capacity()
    }
}

/// Roots that died on access.
#[derive(Default)]
pub(in crate::heap) struct DeadRootQueue {
    roots: Vec<DeadRoot>,
    /// Roots that a cleaning could not free; kept for vacuum while other roots need no room.
    left: Vec<DeadRoot>,
    bytes: usize,
}

impl DeadRootQueue {
    fn has_room(&self, root: &DeadRoot) -> bool {
        self.bytes + root.memory() <= MAX_DEAD_BYTES
    }

    /// False if there is no room.
    fn try_push(&mut self, root: DeadRoot) -> bool {
        while !self.has_room(&root)
            && let Some(left) = self.left.pop()
        {
            self.bytes -= left.memory();
        }
        let room = self.has_room(&root);
        if room {
            self.bytes += root.memory();
            self.roots.push(root);
        }
        room
    }

    /// Keeps what a cleaning left, as far as there is room.
    pub(in crate::heap) fn keep_for_vacuum(&mut self, roots: Vec<DeadRoot>) {
        for root in roots {
            if self.has_room(&root) {
                self.bytes += root.memory();
                self.left.push(root);
            }
        }
    }

    pub(in crate::heap) fn take(&mut self) -> Vec<DeadRoot> {
        let roots = std::mem::take(&mut self.roots);
        self.bytes -= roots.iter().map(DeadRoot::memory).sum::<usize>();
        roots
    }

    pub(in crate::heap) fn take_kept(&mut self) -> Vec<DeadRoot> {
        let left = std::mem::take(&mut self.left);
        self.bytes -= left.iter().map(DeadRoot::memory).sum::<usize>();
        left
    }
}

impl Heap {
    /// Takes the roots that died on access since the last call. The caller removes their index
    /// entries by key, then frees their line pointers by [`Heap::free_by_key`].
    pub fn take_dead_roots(&self) -> Vec<DeadRoot> {
        let mut queue = self.shared.dead_roots.lock();
        self.shared.dead_count.store(0, Ordering::Relaxed);
        queue.take()
    }

    /// As [`Heap::take_dead_roots`], with the roots that cleanings could not free. Vacuum finds
    /// their line pointers anyway, but only here their keys.
    pub fn take_all_dead_roots(&self) -> Vec<DeadRoot> {
        let mut roots = self.take_dead_roots();
        roots.extend(self.shared.dead_roots.lock().take_kept());
        roots
    }

    /// How many [`Heap::take_dead_roots`] would give.
    pub fn dead_roots(&self) -> usize {
        self.shared.dead_count.load(Ordering::Relaxed)
    }

    /// Keeps the keys of dead roots for the next vacuum, as far as there is room.
    pub fn keep_dead_roots(&self, mut roots: Vec<DeadRoot>) {
        // A row id that was given free since may name another row.
        roots.retain(|root| !self.clock().newer_than(root.row_id.block, root.pruned_at));
        self.shared.dead_roots.lock().keep_for_vacuum(roots);
    }
}

impl HeapState {
    pub(in crate::heap) fn queue_dead_roots(&self, dead: Vec<DeadRoot>) {
        if dead.is_empty() {
            return;
        }
        let mut queue = self.dead_roots.lock();
        let mut left = 0;
        for root in dead {
            left += u64::from(!queue.try_push(root));
        }
        self.dead_count.store(queue.roots.len(), Ordering::Relaxed);
        self.garbage.fetch_add(left, Ordering::Relaxed);
    }
}
