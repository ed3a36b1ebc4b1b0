//! Freezing: xids below the horizon become the frozen mark, and the page may be marked all-visible.
//!
//! Invariants: an xid is frozen only below the horizon, together with the pruning of every dead
//! version, so that no HOT chain loses a link. A version whose state is unknown stays as it is, and
//! its page unmarked.
//! Does not do: store or log (`vacuum`).
//!
//! PostgreSQL: `heap_prepare_freeze_tuple` in `access/heap/heapam.c`.

use crate::error::Result;
use crate::heap::page::tuple::{LOCK_ONLY, TupleHeader};
use crate::heap::page::{HeapPage, Slot};
use crate::heap::space::visibility_map::VisibilityBits;
use crate::heap::visibility::{HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::Xid;

/// Which xids may be frozen.
#[derive(Clone, Copy)]
pub(in crate::heap) struct FreezeLimits {
    /// Committed xids below this are frozen; at most the horizon.
    pub(in crate::heap) freeze_below: Xid,
    /// Every snapshot sees what was committed below this.
    pub(in crate::heap) horizon: Xid,
}

/// A header to be replaced.
pub(in crate::heap) struct HeaderEdit {
    pub(in crate::heap) offset: u16,
    pub(in crate::heap) old: TupleHeader,
    pub(in crate::heap) new: TupleHeader,
}

/// Headers to store and what the page is like with them.
pub(in crate::heap) struct FreezePlan {
    pub(in crate::heap) edits: Vec<HeaderEdit>,
    pub(in crate::heap) bits: VisibilityBits,
    pub(in crate::heap) versions: u32,
    pub(in crate::heap) oldest: Option<Xid>,
}

/// The older of two xids that may be missing.
pub(in crate::heap) fn oldest(a: Option<Xid>, b: Option<Xid>) -> Option<Xid> {
    [a, b].into_iter().flatten().min()
}

/// Plans the freezing of the versions that `slots` keeps, within `limits`.
/// A version whose state is not known stays as it is, and the page unmarked.
pub(in crate::heap) fn plan_freeze(
    page: &HeapPage<'_>,
    slots: &[Slot],
    visibility: &mut HeapVisibility<'_>,
    limits: FreezeLimits,
) -> Result<FreezePlan> {
    let no_dead = !slots.contains(&Slot::Dead);
    let mut plan = FreezePlan {
        edits: Vec::new(),
        bits: VisibilityBits { all_visible: no_dead, all_frozen: no_dead },
        versions: 0,
        oldest: None,
    };
    for (slot, state) in (1u16..).zip(slots) {
        let Slot::Normal { offset, .. } = *state else { continue };
        plan.versions += 1;
        // Most are, and nothing below would change that.
        if page.is_frozen(offset) {
            continue;
        }
        let tuple = page.tuple(slot)?.expect("a kept version");
        let new = freeze_header(&tuple.header, visibility, limits.freeze_below);
        if new != tuple.header {
            plan.edits.push(HeaderEdit { offset: tuple.offset, old: tuple.header, new });
        }
        plan.bits.all_visible &= visible_to_all(&tuple.header, visibility, limits.horizon);
        plan.bits.all_frozen &= new.xmin == Xid::FROZEN && new.xmax == Xid::NONE;
        for used in [new.xmin, new.xmax].into_iter().filter(|used| *used >= Xid::FIRST) {
            plan.oldest = oldest(plan.oldest, Some(used));
        }
    }
    plan.bits.all_frozen &= plan.bits.all_visible;
    Ok(plan)
}

/// `head` with committed xmin below `limit` frozen, and ended locks below it removed.
fn freeze_header(
    head: &TupleHeader,
    visibility: &mut HeapVisibility<'_>,
    limit: Xid,
) -> TupleHeader {
    let mut new = *head;
    if head.xmax != Xid::NONE
        && head.xmax < limit
        && visibility.xmax_status(head) == Some(XmaxStatus::Invalid)
    {
        new = new.unlocked();
    }
    if head.xmin != Xid::FROZEN
        && head.xmin < limit
        && visibility.xmin_status(head) == Some(XminStatus::Committed)
    {
        new.xmin = Xid::FROZEN;
    }
    new
}

/// Is the version visible to every snapshot, present and future?
fn visible_to_all(head: &TupleHeader, visibility: &mut HeapVisibility<'_>, horizon: Xid) -> bool {
    let begun = head.xmin < horizon && visibility.xmin_status(head) == Some(XminStatus::Committed);
    begun
        && (head.flags & LOCK_ONLY != 0
            || visibility.xmax_status(head) == Some(XmaxStatus::Invalid))
}
