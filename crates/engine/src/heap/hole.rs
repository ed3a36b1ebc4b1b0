//! A new version in the place of a dead one.
//!
//! An update in a page without room prunes it, and what is left is moved together: some thousand
//! bytes, and every line pointer that names them, for one version that leaves. Where that has just
//! as many bytes as the new one, as rows of fixed types have, the new one takes its place instead:
//! nothing moves, and the record of the update tells of both.
//!
//! Invariants: only the first version of a HOT chain leaves so, dead to everyone by the horizon as
//! in a prune, and another one of the chain stays: no root dies, nothing is to be told upward. The
//! bytes are taken whole, so that the page has no garbage. The prunable mark stays: it may be older
//! than what it stands for.
//! Does not do: pages with many dead versions, as those of rows that are written all the time:
//! they are better pruned, which makes room for as many updates; versions between snapshots (R9).

use rightlink_env::points::{broken, hit};

use crate::error::Result;
use crate::heap::page::{HeapPage, SLOT_SIZE, Slot, Tuple};
use crate::heap::page_edit;
use crate::heap::tuple::{HEAP_ONLY, STUB, TUPLE_HEADER, TupleHeader};
use crate::heap::visibility::{Birth, End, Hints, Judge};
use crate::ids::Xid;
use crate::page::PageMut;

/// Where more dead versions than this are met first, a prune makes room for as many updates.
const FEW: u32 = 3;

/// A dead version, whose place another one may take.
pub(super) struct Hole {
    /// The line pointer of the new version.
    pub(super) slot: u16,
    offset: u16,
    len: u16,
    /// The chain's root, and the version that it begins with from now on.
    root: (u16, u16),
    /// What was learnt of those met before it, so that nobody has to ask again.
    hints: Hints,
}

/// What looking for a place came to.
pub(super) enum Found {
    Hole(Hole),
    /// There is none; might pruning make room?
    None {
        prunable: bool,
    },
}

/// What a prune might take off the page.
#[derive(Default)]
struct Leaving {
    bytes: usize,
    /// Line pointers, too?
    slots: bool,
}

impl Leaving {
    /// Counts `tuple` unless it stays for sure.
    fn note(&mut self, tuple: &Tuple<'_>, judge: &mut Judge<'_>) {
        let born = judge.birth(&tuple.header).is_some_and(|birth| birth != Birth::Aborted);
        let end = judge.end(&tuple.header);
        if !born || matches!(end, None | Some(End::Ended(_))) {
            self.bytes += TUPLE_HEADER + tuple.row.len();
            self.slots |= tuple.header.has(HEAP_ONLY);
        }
    }

    /// Could a version of `len` bytes go in afterwards?
    fn makes_room(&self, page: &HeapPage<'_>, len: usize) -> bool {
        let has_slot = page_edit::choose_slot(page).is_none_or(|slot| slot <= page.slots());
        let pointer = if self.slots || has_slot { 0 } else { SLOT_SIZE };
        page.gap() + self.bytes >= len + pointer
    }
}

impl Hole {
    /// The place of the first dead version of `len` bytes, header included. What lies behind it is
    /// not looked at: as a rule most versions of a page are settled, and one is dead.
    pub(super) fn find(
        page: &HeapPage<'_>,
        len: usize,
        judge: &mut Judge<'_>,
        horizon: Xid,
    ) -> Result<Found> {
        let (mut hints, mut dead, mut leaving) = (Hints::default(), 0, Leaving::default());
        for (slot, word) in (1u16..).zip(page.slot_words()) {
            if !page.names_unsettled(*word) {
                continue;
            }
            let Slot::Normal { offset, len: bytes } = page.slot(slot)? else { continue };
            let tuple = page.tuple_at(slot, (offset, bytes))?;
            hints.note(judge.txns(), offset, &tuple.header);
            leaving.note(&tuple, judge);
            let is_dead = judge.dead_to_all(&tuple.header, horizon) == Some(true);
            if !is_dead && !broken("r9-hole") {
                continue;
            }
            dead += 1;
            if dead > FEW {
                return Ok(Found::None { prunable: true });
            }
            if usize::from(bytes) == len
                && let Some(root) = root_of(page, slot, &tuple)
                && let Some(hole) = Self::of_chain(page, root, (slot, &tuple), judge, horizon)?
            {
                return Ok(Found::Hole(Hole { hints, ..hole }));
            }
        }
        Ok(Found::None { prunable: leaving.makes_room(page, len) })
    }

    /// The place of the dead first version of a chain, if no other one of it is dead.
    fn of_chain(
        page: &HeapPage<'_>,
        root: u16,
        (head, tuple): (u16, &Tuple<'_>),
        judge: &mut Judge<'_>,
        horizon: Xid,
    ) -> Result<Option<Hole>> {
        let mut is_dead = |header: &TupleHeader| judge.dead_to_all(header, horizon) == Some(true);
        let Some((next, after)) = page.chain_next(tuple)? else { return Ok(None) };
        let sound = !tuple.header.has(STUB) && !is_dead(&after.header);
        if !sound || judge.birth(&tuple.header) != Some(Birth::Committed) {
            return Ok(None);
        }
        let slot = match head == root {
            false => Some(head),
            true => page_edit::choose_slot(page)
                .filter(|slot| *slot <= page.slots() || page.gap() >= SLOT_SIZE),
        };
        let (offset, len) = (tuple.offset, (TUPLE_HEADER + tuple.row.len()) as u16);
        let hole = |slot| Hole { slot, offset, len, root: (root, next), hints: Hints::default() };
        Ok(slot.map(hole))
    }

    /// Puts a version there.
    pub(super) fn fill(&self, page: &mut PageMut<'_>, header: &TupleHeader, row: &[u8]) {
        hit("heap.hole");
        assert_eq!(TUPLE_HEADER + row.len(), usize::from(self.len), "as many bytes as there were");
        self.hints.store(page);
        let (root, first) = self.root;
        page_edit::put_slot(page, root, Slot::Redirect(first));
        page_edit::put_tuple(page, (self.slot, self.offset), header, row);
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
