//! Leaves that a batch comes to soon, on their way into the processor's caches.
//!
//! A batch of random keys meets a leaf for nearly each of them, and leaves that nobody looked at
//! lately lie in memory: header and trailer say where the slots are, and those where the entry
//! goes, each of which would be waited for. So first what a pin touches, header and trailer are
//! asked for, and a few leaves later the slots that the key should lie among and the end of the
//! items.
//!
//! Invariants: advice only; what is read of a leaf says where to look next and nothing else, so it
//! is not validated.
//! Does not do: choose leaves (`groups`).

use crate::buffer::Reading;
use crate::config::PAGE_SIZE;
use crate::index::btree::Tree;
use crate::index::btree::node::{Node, SLOT, head_of};
use crate::index::btree::read::PageRead;
use crate::page::PageView;
use crate::page::header::HEADER_SIZE;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Where a leaf is looked at first: its header with the first slots, its trailer with the fences.
const ENDS: [usize; 2] = [0, PAGE_SIZE - LINE];

impl Tree {
    /// Asks for the ends of the leaf at `block`.
    #[inline]
    pub(crate) fn expect_leaf(&self, block: u32) {
        self.pool.expect(self.page(block), &ENDS);
    }

    /// Asks for what an insertion of `key` touches inside the leaf at `block`, whose ends are here.
    #[inline]
    pub(crate) fn expect_place(&self, reading: &Reading<'_>, block: u32, key: &[u8]) {
        if let Some(peek) = reading.peek(self.page(block)) {
            ask_around(reading.view(peek), key);
        }
    }
}

fn ask_around(page: PageView<'_>, key: &[u8]) {
    let Ok(node) = Node::open(page) else { return };
    if !node.is_leaf() || node.count == 0 {
        return;
    }
    let (slot, end) = (HEADER_SIZE + node.guess(key) * SLOT, HEADER_SIZE + node.count * SLOT);
    // The guess is right within some slots; those behind the place move up, from the last one on.
    [slot.saturating_sub(LINE), slot, slot + LINE, end, node.upper - 1]
        .iter()
        .for_each(|at| page.prefetch(*at));
}

impl<R: PageRead> Node<R> {
    /// About where `key` is among the entries of this leaf, which has some, if their heads grow
    /// evenly.
    fn guess(&self, key: &[u8]) -> usize {
        let head = head_of(key.get(self.prefix..).unwrap_or(&[]));
        let first = self.head(0);
        let last = self.high_head().unwrap_or(u32::MAX).max(head);
        let (above, span) = (u64::from(head.saturating_sub(first)), last.saturating_sub(first));
        (above * self.count as u64 / u64::from(span.max(1))).min(self.count as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::btree::edit::{Frame, Value};
    use crate::index::btree::entries::Entries;
    use rightlink_env::Rng;

    /// Of even keys the guess is near the place, and never outside the leaf whatever the key.
    #[test]
    fn a_guess_is_near_and_never_outside() {
        let mut rng = Rng::from_seed(9);
        let key = |n: u32| [&b"k"[..], &n.to_be_bytes(), b"\0\0\0\x01\0\x01"].concat();
        let mut entries = Entries::default();
        (0..200).for_each(|n| entries.push(&key(n << 20), Value::default()));
        let (low, high) = (b"k".to_vec(), Some(key(200 << 20)));
        let frame = Frame { left: 1, right: 2, low, high, ..Frame::default() };
        let image = frame.image_of(&entries).unwrap();
        let node = Node::open(&*image).unwrap();
        for n in 0..200 {
            assert!(node.guess(&key(n << 20)).abs_diff(n as usize) <= 1, "{n}");
        }
        for _ in 0..1000 {
            let mut bytes = vec![0; rng.index(9)];
            rng.fill(&mut bytes);
            assert!(node.guess(&bytes) <= node.count);
        }
    }
}
