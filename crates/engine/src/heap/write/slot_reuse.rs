//! In-place reuse: an update on a full page takes the space of a dead version with as many bytes.
//!
//! Pruning would move some thousand bytes and rewrite every line pointer for one removed version.
//! Rows of fixed types often have equal lengths: then nothing moves, and the record of the update
//! tells both.
//!
//! Invariants: the removed version is the first of its HOT chain, dead to everyone by the horizon,
//! and its chain goes on, so no root dies. The space is taken whole, so the page has no garbage.
//! The prunable mark stays; it may be older than needed.
//! Does not do: pages with many dead versions, which are better pruned; versions between snapshots
//! (R9).
//!
//! PostgreSQL has no counterpart.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};

use crate::error::Result;
use crate::heap::page::store;
use crate::heap::page::tuple::{HEAP_ONLY, STUB, TUPLE_HEADER, TupleHeader};
use crate::heap::page::{HeapPage, SLOT_SIZE, Slot, Tuple};
use crate::heap::visibility::{CommitHints, HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::Xid;
use crate::page::PageMut;

/// With more dead versions of other sizes in front than this, pruning makes room for as many
/// updates.
const MAX_DEAD_IN_FRONT: u32 = 3;

/// A dead version, whose place another one may take.
pub(in crate::heap) struct ReusableSpace {
    /// The line pointer of the new version.
    pub(in crate::heap) slot: u16,
    offset: u16,
    len: u16,
    /// The chain's root.
    root: u16,
    /// The version that the chain begins with from now on.
    first: u16,
    /// Outcomes learned about the versions before it, so that later readers need not look them up.
    hints: CommitHints,
}

/// Result of the search for reusable space.
pub(in crate::heap) enum ReuseSearch {
    Space(ReusableSpace),
    /// There is none; might pruning make room?
    None {
        prunable: bool,
    },
}

/// Upper bound of what pruning would free.
#[derive(Default)]
struct PruneEstimate {
    bytes: usize,
    /// Line pointers, too?
    slots: bool,
}

impl PruneEstimate {
    /// Counts `tuple` unless it stays for sure.
    fn note(&mut self, tuple: &Tuple<'_>, visibility: &mut HeapVisibility<'_>) {
        let xmin = visibility.xmin_status(&tuple.header);
        let not_aborted = xmin.is_some_and(|status| status != XminStatus::Aborted);
        let end = visibility.xmax_status(&tuple.header);
        if !not_aborted || matches!(end, None | Some(XmaxStatus::Committed(_))) {
            self.bytes += TUPLE_HEADER + tuple.row.len();
            self.slots |= tuple.header.has(HEAP_ONLY);
        }
    }

    /// Could a version of `len` bytes go in afterwards?
    fn makes_room(&self, page: &HeapPage<'_>, len: usize) -> bool {
        let has_slot = store::choose_slot(page).is_none_or(|slot| slot <= page.slots());
        let pointer = if self.slots || has_slot { 0 } else { SLOT_SIZE };
        page.free_bytes() + self.bytes >= len + pointer
    }
}

/// The first version of a HOT chain, and the chain's root.
#[derive(Clone, Copy)]
struct ChainHead<'a> {
    root: u16,
    slot: u16,
    tuple: &'a Tuple<'a>,
}

impl ReusableSpace {
    /// The space of the first dead version of `len` bytes, header included. Versions behind it are
    /// not looked at: as a rule one version of a page is dead and the others are settled.
    pub(in crate::heap) fn find(
        page: &HeapPage<'_>,
        len: usize,
        visibility: &mut HeapVisibility<'_>,
        horizon: Xid,
    ) -> Result<ReuseSearch> {
        let (mut hints, mut dead, mut estimate) =
            (CommitHints::default(), 0, PruneEstimate::default());
        for (slot, word) in (1u16..).zip(page.slot_words()) {
            if !page.names_unsettled(*word) {
                continue;
            }
            let Slot::Normal { offset, len: bytes } = page.slot(slot)? else { continue };
            let tuple = page.tuple_at(slot, offset, bytes)?;
            hints.note(visibility.txns(), offset, &tuple.header);
            estimate.note(&tuple, visibility);
            let is_dead = visibility.is_dead_to_all(&tuple.header, horizon) == Some(true);
            if !is_dead && !broken(Broken::SeenVersionOverwritten) {
                continue;
            }
            dead += 1;
            if dead > MAX_DEAD_IN_FRONT {
                return Ok(ReuseSearch::None { prunable: true });
            }
            if usize::from(bytes) == len
                && let Some(root) = root_of(page, slot, &tuple)
                && let Some(space) = Self::of_chain(
                    page,
                    ChainHead { root, slot, tuple: &tuple },
                    visibility,
                    horizon,
                )?
            {
                return Ok(ReuseSearch::Space(ReusableSpace { hints, ..space }));
            }
        }
        Ok(ReuseSearch::None { prunable: estimate.makes_room(page, len) })
    }

    /// The space of the dead first version of a chain, if no other version of the chain is dead.
    fn of_chain(
        page: &HeapPage<'_>,
        head: ChainHead<'_>,
        visibility: &mut HeapVisibility<'_>,
        horizon: Xid,
    ) -> Result<Option<ReusableSpace>> {
        let ChainHead { root, slot: head, tuple } = head;
        let mut is_dead =
            |header: &TupleHeader| visibility.is_dead_to_all(header, horizon) == Some(true);
        let Some((next, after)) = page.chain_next(tuple)? else { return Ok(None) };
        let sound = !tuple.header.has(STUB) && !is_dead(&after.header);
        if !sound || visibility.xmin_status(&tuple.header) != Some(XminStatus::Committed) {
            return Ok(None);
        }
        let slot = match head == root {
            false => Some(head),
            true => store::choose_slot(page)
                .filter(|slot| *slot <= page.slots() || page.free_bytes() >= SLOT_SIZE),
        };
        let (offset, len) = (tuple.offset, (TUPLE_HEADER + tuple.row.len()) as u16);
        let space = |slot| ReusableSpace {
            slot,
            offset,
            len,
            root,
            first: next,
            hints: CommitHints::default(),
        };
        Ok(slot.map(space))
    }

    /// Puts a version there.
    pub(in crate::heap) fn fill(&self, page: &mut PageMut<'_>, header: &TupleHeader, row: &[u8]) {
        hit("heap.hole");
        assert_eq!(TUPLE_HEADER + row.len(), usize::from(self.len), "as many bytes as there were");
        self.hints.store(page);
        store::put_slot(page, self.root, Slot::Redirect(self.first));
        store::put_tuple(page, self.slot, self.offset, header, row);
    }
}

/// The root of the chain that begins with the version at `slot`; `None` for one further on.
fn root_of(page: &HeapPage<'_>, slot: u16, tuple: &Tuple<'_>) -> Option<u16> {
    if !tuple.header.has(HEAP_ONLY) {
        return Some(slot);
    }
    let redirect = Slot::Redirect(slot).encode();
    let at = page.slot_words().iter().position(|word| *word == redirect)?;
    Some(at as u16 + 1)
}
