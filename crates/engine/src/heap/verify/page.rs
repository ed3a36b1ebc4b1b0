//! The checks of one heap page, made on a copy of it.
//!
//! Invariants: a version that is in doubt because transactions go on meanwhile is never reported.
//! Does not do: read pages, or repeat a check whose outcomes were forgotten meanwhile (`mod`).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::page::chain::walk_chain;
use crate::heap::page::tuple::{
    ALL_FLAGS, HEAP_ONLY, HINTS, TUPLE_HEADER, TupleHeader, XMAX_ABORTED, XMAX_COMMITTED,
    XMIN_ABORTED, XMIN_COMMITTED,
};
use crate::heap::page::{HeapPage, PRUNE_XID, Slot, Tuple};
use crate::heap::space::visibility_map::VisibilityBits;
use crate::heap::verify::VerifyStats;
use crate::heap::visibility::{HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::{PageId, Xid};
use crate::page::PageFinding;
use crate::page::header::{self, HEADER_SIZE};
use crate::txn::Status;

/// A heap page and its bits in the visibility map, from one moment.
pub(in crate::heap) struct PageCopy {
    pub(in crate::heap) bytes: Box<[u8; PAGE_SIZE]>,
    pub(in crate::heap) bits: VisibilityBits,
}

/// One page and what it is checked against.
pub(in crate::heap) struct PageCheck<'c, 'r> {
    pub(in crate::heap) block: u32,
    pub(in crate::heap) visibility: HeapVisibility<'c>,
    /// Oldest xid that may be left, first one not handed out.
    pub(in crate::heap) xids: Range<Xid>,
    pub(in crate::heap) horizon: Xid,
    pub(in crate::heap) extent: u32,
    pub(in crate::heap) report: &'c mut (dyn FnMut(PageFinding) + 'r),
}

impl PageCheck<'_, '_> {
    /// Reports a finding about a line pointer; slot 0 stands for the page.
    fn add_finding(&mut self, slot: u16, check: &'static str, what: impl Into<String>) {
        let what = match slot {
            0 => what.into(),
            slot => format!("slot {slot}: {}", what.into()),
        };
        (self.report)(PageFinding::new(self.block, check, what));
    }

    /// Reports a corruption that a checked accessor found.
    fn checked<T>(&mut self, slot: u16, check: &'static str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::Corruption { what, .. }) => {
                self.add_finding(slot, check, what);
                None
            }
            Err(other) => {
                self.add_finding(slot, check, other.to_string());
                None
            }
        }
    }

    pub(in crate::heap) fn check_page(
        &mut self,
        id: PageId,
        copy: &PageCopy,
        stats: &mut VerifyStats,
    ) -> Result<()> {
        let bytes = &copy.bytes;
        let Some(page) = self.checked(0, "H0", HeapPage::open(id, bytes)) else { return Ok(()) };
        if bytes[page.lower()..page.upper()].iter().any(|byte| *byte != 0) {
            self.add_finding(0, "H0", "free space that is not zero");
        }
        if header::u16_at(bytes, header::GARBAGE) != 0 {
            self.add_finding(0, "H0", "a count of garbage where nothing leaves any");
        }
        let tuples = self.read_tuples(&page, stats);
        self.check_overlaps(&page, &tuples);
        let mut known = Vec::with_capacity(tuples.len());
        for (slot, tuple) in tuples {
            if self.check_version(slot, &tuple.header)? {
                known.push((slot, tuple));
            }
        }
        let tuples = known;
        self.check_chains(&page, &tuples)?;
        self.check_marks(&page, copy.bits, &tuples)
    }

    /// The readable versions; the others are reported.
    fn read_tuples<'a>(
        &mut self,
        page: &HeapPage<'a>,
        stats: &mut VerifyStats,
    ) -> Vec<(u16, Tuple<'a>)> {
        let mut tuples = Vec::new();
        for slot in 1..=page.slots() {
            let Some(state) = self.checked(slot, "H1", page.slot(slot)) else { continue };
            stats.line_pointers += u64::from(state != Slot::Unused);
            if let Some(Some(tuple)) = self.checked(slot, "H1", page.tuple(slot)) {
                stats.versions += 1;
                tuples.push((slot, tuple));
            }
        }
        tuples
    }

    fn check_overlaps(&mut self, page: &HeapPage<'_>, tuples: &[(u16, Tuple<'_>)]) {
        let mut spans: Vec<(usize, usize, u16)> = tuples
            .iter()
            .map(|(slot, tuple)| {
                let from = usize::from(tuple.offset);
                (from, from + TUPLE_HEADER + tuple.row.len(), *slot)
            })
            .collect();
        spans.sort_unstable();
        let mut end = page.upper().max(HEADER_SIZE);
        for (from, to, slot) in spans {
            if from < end {
                self.add_finding(slot, "H1", "a tuple that overlaps another");
            }
            end = end.max(to);
        }
        assert!(end <= PRUNE_XID, "accessors checked the bounds");
    }

    /// Status of `xid`, read if need be: no latch is held.
    fn status(&mut self, xid: Xid) -> Result<Status> {
        loop {
            match self.visibility.status(xid) {
                Some(status) => return Ok(status),
                None => self.visibility.resolve()?,
            }
        }
    }

    fn xmin_status(&mut self, head: &TupleHeader) -> Result<XminStatus> {
        loop {
            match self.visibility.xmin_status(head) {
                Some(birth) => return Ok(birth),
                None => self.visibility.resolve()?,
            }
        }
    }

    fn xmax_status(&mut self, head: &TupleHeader) -> Result<XmaxStatus> {
        loop {
            match self.visibility.xmax_status(head) {
                Some(end) => return Ok(end),
                None => self.visibility.resolve()?,
            }
        }
    }

    /// Checks a version by itself; false if its xids mean nothing, so that nothing more can be
    /// asked.
    fn check_version(&mut self, slot: u16, head: &TupleHeader) -> Result<bool> {
        if head.flags & !ALL_FLAGS != 0 || !head.has_valid_lock_flags() {
            self.add_finding(slot, "H1", format!("flags {:04x} without a meaning", head.flags));
        }
        let mut known = true;
        for (name, xid) in [("xmin", head.xmin), ("xmax", head.xmax)] {
            if xid >= Xid::FIRST && !self.xids.contains(&xid) {
                let (from, to) = (self.xids.start, self.xids.end);
                self.add_finding(slot, "H3", format!("{name} {xid} outside {from}..{to}"));
                known = false;
            }
        }
        if known {
            self.check_hints(slot, head)?;
            self.check_order(slot, head)?;
        }
        Ok(known)
    }

    fn check_hints(&mut self, slot: u16, head: &TupleHeader) -> Result<()> {
        let pairs = [
            ("xmin", head.xmin, XMIN_COMMITTED, XMIN_ABORTED),
            ("xmax", head.xmax, XMAX_COMMITTED, XMAX_ABORTED),
        ];
        for (name, xid, committed, aborted) in pairs {
            if head.flags & (committed | aborted) == 0 || xid < Xid::FIRST {
                continue;
            }
            let status = self.status(xid)?;
            let is_committed = matches!(status, Status::Committed(_));
            if head.has(committed) && !is_committed
                || head.has(aborted) && status != Status::Aborted
            {
                self.add_finding(
                    slot,
                    "H8",
                    format!("{name} {xid} is {status:?}, its hint says otherwise"),
                );
            }
        }
        Ok(())
    }

    /// The end first: a transaction that commits between two questions must not look like damage.
    fn check_order(&mut self, slot: u16, head: &TupleHeader) -> Result<()> {
        let plain = TupleHeader { flags: head.flags & !HINTS, ..*head };
        if let XmaxStatus::Committed(by) = self.xmax_status(&plain)?
            && self.xmin_status(&plain)? != XminStatus::Committed
        {
            let xmin = head.xmin;
            self.add_finding(
                slot,
                "H5",
                format!("ended by {by}, which committed; created by {xmin}, not"),
            );
        }
        Ok(())
    }

    fn check_chains(&mut self, page: &HeapPage<'_>, tuples: &[(u16, Tuple<'_>)]) -> Result<()> {
        let by_slot: BTreeMap<u16, &Tuple<'_>> =
            tuples.iter().map(|(slot, tuple)| (*slot, tuple)).collect();
        let mut parents: BTreeMap<u16, u16> = BTreeMap::new();
        for (slot, tuple) in tuples {
            let goes_on = !matches!(
                self.xmax_status(&tuple.header)?,
                XmaxStatus::Invalid | XmaxStatus::Locked(_)
            );
            if let Some(child) = self.check_link(page, *slot, tuple, goes_on)? {
                self.add_parent(&mut parents, child, *slot);
            }
        }
        for slot in 1..=page.slots() {
            if let Ok(Slot::Redirect(to)) = page.slot(slot) {
                self.checked(slot, "H7", page.chain_start(slot));
                self.add_parent(&mut parents, to, slot);
            }
            self.checked(slot, "H6", walk_chain(page, slot, |_, _| Ok(true)));
        }
        for (slot, tuple) in by_slot {
            let lost = tuple.header.has(HEAP_ONLY) && !parents.contains_key(&slot);
            if lost && self.xmin_status(&tuple.header)? != XminStatus::Aborted {
                self.add_finding(slot, "H6", "a heap-only version that no chain leads to");
            }
        }
        Ok(())
    }

    fn add_parent(&mut self, parents: &mut BTreeMap<u16, u16>, child: u16, parent: u16) {
        if let Some(other) = parents.insert(child, parent) {
            self.add_finding(child, "H6", format!("follows both {other} and {parent}"));
        }
    }

    /// Checks the link of one version; gives its successor in the HOT chain.
    fn check_link(
        &mut self,
        page: &HeapPage<'_>,
        slot: u16,
        tuple: &Tuple<'_>,
        goes_on: bool,
    ) -> Result<Option<u16>> {
        let (head, goes_on) = (&tuple.header, goes_on && !tuple.header.only_locked());
        if let Some(next) = head.next
            && goes_on
            && (next.block.0 == 0 || next.block.0 >= self.extent || next.slot == 0)
        {
            self.add_finding(slot, "H6", format!("replaced by {next}, outside the table"));
        }
        let Some(child) = head.hot_next().filter(|_| goes_on) else { return Ok(None) };
        let next = self.checked(slot, "H6", page.chain_next(tuple)).flatten();
        let Some((_, next)) = next else {
            self.add_finding(slot, "H6", format!("its HOT successor {child} is missing"));
            return Ok(None);
        };
        let end = self.xmin_status(&next.header)?;
        if end == XminStatus::Committed && self.xmin_status(head)? == XminStatus::Aborted {
            self.add_finding(slot, "H4", "aborted, but its successor committed");
        }
        Ok(Some(child))
    }

    fn check_marks(
        &mut self,
        page: &HeapPage<'_>,
        map: VisibilityBits,
        tuples: &[(u16, Tuple<'_>)],
    ) -> Result<()> {
        let marked = VisibilityBits::of_flags(page.flags());
        if map != marked {
            self.add_finding(0, "H10", format!("the map says {map:?}, the page {marked:?}"));
        }
        if marked.all_frozen && !marked.all_visible {
            self.add_finding(0, "H10", "all-frozen but not all-visible");
        }
        let any = VisibilityBits {
            all_visible: marked.all_visible || map.all_visible,
            all_frozen: marked.all_frozen || map.all_frozen,
        };
        let dead = (1..=page.slots()).find(|slot| page.slot(*slot).ok() == Some(Slot::Dead));
        if let Some(slot) = dead.filter(|_| any.all_visible) {
            self.add_finding(slot, "H10", "a dead line pointer on an all-visible page");
        }
        for (slot, tuple) in tuples {
            self.check_marked_version(*slot, &tuple.header, any)?;
        }
        Ok(())
    }

    fn check_marked_version(
        &mut self,
        slot: u16,
        head: &TupleHeader,
        marks: VisibilityBits,
    ) -> Result<()> {
        if marks.all_visible {
            let begun =
                self.xmin_status(head)? == XminStatus::Committed && head.xmin < self.horizon;
            let ends =
                !matches!(self.xmax_status(head)?, XmaxStatus::Invalid | XmaxStatus::Locked(_));
            if !begun || ends {
                self.add_finding(slot, "H10", "not visible to everyone on an all-visible page");
            }
        }
        if marks.all_frozen && (head.xmin != Xid::FROZEN || head.xmax != Xid::NONE) {
            self.add_finding(slot, "H10", "not frozen on an all-frozen page");
        }
        Ok(())
    }
}
