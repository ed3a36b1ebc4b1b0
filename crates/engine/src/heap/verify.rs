//! Checks of a heap, online: pages are copied under the shared latch and looked at afterwards.
//!
//! | check | meaning |
//! |---|---|
//! | H0 | the page is a heap page with sane bounds, its free space is zero |
//! | H1 | line pointers and tuples lie in the page and do not overlap, flags have a meaning |
//! | H3 | xids lie between the table's oldest unfrozen one and the next one |
//! | H4 | no committed version follows an aborted one |
//! | H5 | nobody ended a version that was not there yet |
//! | H6 | HOT chains: the successor exists, has one parent, is reachable; links stay in the table |
//! | H7 | redirects lead to heap-only versions |
//! | H8 | hints agree with the commit status |
//! | H9 | the free-space map promises no more than there is (harmless: inserts correct it) |
//! | H10 | all-visible and all-frozen are true, on the page and in the map |
//!
//! Invariants: a finding is reported, never returned as an error, and the check goes on; a version
//! that is in doubt because transactions go on meanwhile is never reported.
//! Does not do: H2, H11, H12 (columns and overflow), comparing with indexes (all in `verify/`).

use std::collections::BTreeMap;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::page::{HeapPage, PRUNE_XID, Slot, Tuple, walk_chain};
use crate::heap::tuple::{
    ALL_FLAGS, HEAP_ONLY, STUB, TupleHeader, XMAX_ABORTED, XMAX_COMMITTED, XMIN_ABORTED,
    XMIN_COMMITTED,
};
use crate::heap::visibility::{Birth, End, Judge};
use crate::heap::visibility_map::{self, Bits};
use crate::heap::{Heap, free_space};
use crate::ids::{BlockNo, PageId, RowId, Xid};
use crate::page::header::{self, HEADER_SIZE};
use crate::txn::Status;

/// Something wrong, or at least odd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Heap block.
    pub block: BlockNo,
    /// Line pointer, when the finding is about one.
    pub slot: Option<u16>,
    /// Number of the check.
    pub check: &'static str,
    /// What was found, for a person.
    pub what: String,
    /// Nothing a reader could see wrongly.
    pub harmless: bool,
}

/// What was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VerifyStats {
    /// Pages.
    pub pages: u64,
    /// Row versions.
    pub versions: u64,
    /// Line pointers in use.
    pub line_pointers: u64,
}

/// Looks at a page again when outcomes were forgotten meanwhile, at most this often.
const MAX_LOOKS: u32 = 16;

/// What an index entry leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RootState {
    /// No block of the table.
    Outside,
    /// No row: the line pointer may be used again.
    Unused,
    /// A dead line pointer, kept until no index names it.
    Dead,
    /// A version that no entry should name.
    HeapOnly,
    /// The versions of the row, oldest first.
    Versions(Vec<RootVersion>),
}

/// A version that an index entry leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootVersion {
    /// The row's bytes.
    pub bytes: Vec<u8>,
    /// Who made it.
    pub born: Xid,
    /// Was it deleted or replaced by a transaction that committed?
    pub ended: bool,
}

/// One page and what it is checked against.
struct PageCheck<'c, 'r> {
    block: u32,
    judge: Judge<'c>,
    /// Oldest xid that may be left, first one not handed out.
    xids: (Xid, Xid),
    horizon: Xid,
    extent: u32,
    report: &'c mut (dyn FnMut(Finding) + 'r),
}

impl Heap {
    /// Checks all pages and reports what it finds. Errors are those of reading, not findings.
    pub fn verify(&self, report: &mut dyn FnMut(Finding)) -> Result<VerifyStats> {
        let mut stats = VerifyStats::default();
        let oldest = self.oldest_unfrozen()?;
        // What the meta page promises beyond the end of the file is the file's damage, not the
        // pages'.
        let end = self.blocks().min(self.pool().blocks(self.files().heap));
        let mut stream = self.stream(1..end.max(1), |_| Ok(true));
        while let Some((_ahead, block)) = stream.next_tried()? {
            // Vacuum may freeze a page after it was copied, and forget outcomes the copy names.
            for _ in 0..MAX_LOOKS {
                let kept = self.txns().oldest_xid();
                let (mut found, mut seen) = (Vec::new(), VerifyStats::default());
                let checked = self.verify_page(block, oldest, &mut seen, &mut |f| found.push(f));
                if self.txns().oldest_xid() != kept {
                    continue;
                }
                if let Err(error) = checked {
                    let Error::Corruption { what, .. } = error else { return Err(error) };
                    found.push(finding(block, None, "H0", what));
                }
                found.into_iter().for_each(&mut *report);
                stats.pages += seen.pages;
                stats.versions += seen.versions;
                stats.line_pointers += seen.line_pointers;
                break;
            }
        }
        Ok(stats)
    }

    fn verify_page(
        &self,
        block: u32,
        oldest: Xid,
        stats: &mut VerifyStats,
        report: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        let Some(copy) = self.copy_page(block)? else { return Ok(()) };
        stats.pages += 1;
        let mut check = PageCheck {
            block,
            judge: Judge::new(self.txns()),
            xids: (oldest, self.txns().next_xid()),
            horizon: self.txns().horizon(),
            extent: self.blocks(),
            report: &mut *report,
        };
        check.page(self.page_id(block), &copy, stats)?;
        self.verify_free_space(block, &copy.0, report)
    }

    /// The page and its map bits, from one moment. `None`: it was cut off.
    fn copy_page(&self, block: u32) -> Result<Option<(Box<[u8; PAGE_SIZE]>, Bits)>> {
        let (pool, map) = (self.pool(), self.files().visibility);
        let map_page = visibility_map::page_of(map, block);
        let exists = map_page.block.0 < pool.blocks(map);
        let map_pin = exists.then(|| pool.pin(map_page)).transpose()?;
        let pin = self.pin(BlockNo(block))?;
        let latch = pin.shared();
        if !self.is_data_block(block) {
            return Ok(None);
        }
        let bits = match &map_pin {
            Some(map_pin) => visibility_map::get(map_page, map_pin.shared().bytes(), block)?,
            None => Bits::default(),
        };
        Ok(Some((Box::new(*latch.bytes()), bits)))
    }

    /// What an index entry that names `root` leads to, whoever sees it.
    pub fn root_state(&self, root: RowId) -> Result<RootState> {
        let mut judge = Judge::new(self.txns());
        loop {
            if let Some(state) = self.try_root_state(root, &mut judge)? {
                return Ok(state);
            }
            judge.resolve()?;
        }
    }

    /// `None`: the judge has to look outcomes up, which the page's latch forbids (R7).
    fn try_root_state(&self, root: RowId, judge: &mut Judge<'_>) -> Result<Option<RootState>> {
        if !self.is_data_block(root.block.0) {
            return Ok(Some(RootState::Outside));
        }
        let pin = self.pin(root.block)?;
        let latch = pin.shared();
        if !self.is_data_block(root.block.0) {
            return Ok(Some(RootState::Outside));
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        match page.slot(root.slot)? {
            Slot::Unused => return Ok(Some(RootState::Unused)),
            Slot::Dead => return Ok(Some(RootState::Dead)),
            Slot::Normal { .. } if page.chain_start(root.slot)?.is_none() => {
                return Ok(Some(RootState::HeapOnly));
            }
            Slot::Normal { .. } | Slot::Redirect(_) => {}
        }
        let mut versions = Vec::new();
        walk_chain(&page, root.slot, |_, tuple| {
            if tuple.header.has(STUB) {
                return Ok(true);
            }
            let Some(end) = judge.end(&tuple.header) else { return Ok(false) };
            versions.push(RootVersion {
                bytes: tuple.row.to_vec(),
                born: tuple.header.xmin,
                ended: matches!(end, End::Ended(_)),
            });
            Ok(true)
        })?;
        Ok(match versions.is_empty() {
            _ if judge.is_stuck() => None,
            true => Some(RootState::Dead),
            false => Some(RootState::Versions(versions)),
        })
    }

    fn verify_free_space(
        &self,
        block: u32,
        bytes: &[u8; PAGE_SIZE],
        report: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        let Ok(page) = HeapPage::open(self.page_id(block), bytes) else { return Ok(()) };
        let promised = free_space::promised(self.free_space().get(block)?);
        let room = page.room();
        if promised > room {
            let what = format!("the free-space map promises {promised} bytes, there are {room}");
            report(Finding { harmless: true, ..finding(block, None, "H9", what) });
        }
        Ok(())
    }
}

fn finding(block: u32, slot: Option<u16>, check: &'static str, what: String) -> Finding {
    Finding { block: BlockNo(block), slot, check, what, harmless: false }
}

impl PageCheck<'_, '_> {
    fn say(&mut self, slot: u16, check: &'static str, what: impl Into<String>) {
        let slot = (slot > 0).then_some(slot);
        (self.report)(finding(self.block, slot, check, what.into()));
    }

    /// Reports a corruption that a checked accessor found.
    fn caught<T>(&mut self, slot: u16, check: &'static str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::Corruption { what, .. }) => {
                self.say(slot, check, what);
                None
            }
            Err(other) => {
                self.say(slot, check, other.to_string());
                None
            }
        }
    }

    fn page(
        &mut self,
        id: PageId,
        (bytes, map): &(Box<[u8; PAGE_SIZE]>, Bits),
        stats: &mut VerifyStats,
    ) -> Result<()> {
        let Some(page) = self.caught(0, "H0", HeapPage::open(id, bytes)) else { return Ok(()) };
        if bytes[page.lower()..page.upper()].iter().any(|byte| *byte != 0) {
            self.say(0, "H0", "free space that is not zero");
        }
        if header::u16_at(bytes, header::GARBAGE) != 0 {
            self.say(0, "H0", "a count of garbage where nothing leaves any");
        }
        let tuples = self.tuples(&page, stats);
        self.overlaps(&page, &tuples);
        let mut known = Vec::with_capacity(tuples.len());
        for (slot, tuple) in tuples {
            if self.version(slot, &tuple.header)? {
                known.push((slot, tuple));
            }
        }
        let tuples = known;
        self.chains(&page, &tuples)?;
        self.marks(&page, *map, &tuples)
    }

    /// The readable versions; the others are reported.
    fn tuples<'a>(
        &mut self,
        page: &HeapPage<'a>,
        stats: &mut VerifyStats,
    ) -> Vec<(u16, Tuple<'a>)> {
        let mut tuples = Vec::new();
        for slot in 1..=page.slots() {
            let Some(state) = self.caught(slot, "H1", page.slot(slot)) else { continue };
            stats.line_pointers += u64::from(state != Slot::Unused);
            if let Some(Some(tuple)) = self.caught(slot, "H1", page.tuple(slot)) {
                stats.versions += 1;
                tuples.push((slot, tuple));
            }
        }
        tuples
    }

    fn overlaps(&mut self, page: &HeapPage<'_>, tuples: &[(u16, Tuple<'_>)]) {
        let mut spans: Vec<(usize, usize, u16)> = tuples
            .iter()
            .map(|(slot, tuple)| {
                let from = usize::from(tuple.offset);
                (from, from + crate::heap::TUPLE_HEADER + tuple.row.len(), *slot)
            })
            .collect();
        spans.sort_unstable();
        let mut end = page.upper().max(HEADER_SIZE);
        for (from, to, slot) in spans {
            if from < end {
                self.say(slot, "H1", "a tuple that overlaps another");
            }
            end = end.max(to);
        }
        assert!(end <= PRUNE_XID, "accessors checked the bounds");
    }

    /// Status of `xid`, read if need be: no latch is held.
    fn status(&mut self, xid: Xid) -> Result<Status> {
        loop {
            match self.judge.status(xid) {
                Some(status) => return Ok(status),
                None => self.judge.resolve()?,
            }
        }
    }

    fn birth(&mut self, head: &TupleHeader) -> Result<Birth> {
        loop {
            match self.judge.birth(head) {
                Some(birth) => return Ok(birth),
                None => self.judge.resolve()?,
            }
        }
    }

    fn end(&mut self, head: &TupleHeader) -> Result<End> {
        loop {
            match self.judge.end(head) {
                Some(end) => return Ok(end),
                None => self.judge.resolve()?,
            }
        }
    }

    /// Checks a version by itself; false if its xids mean nothing, so that nothing more can be
    /// asked.
    fn version(&mut self, slot: u16, head: &TupleHeader) -> Result<bool> {
        if head.flags & !ALL_FLAGS != 0 || !head.locks_fit() {
            self.say(slot, "H1", format!("flags {:04x} without a meaning", head.flags));
        }
        let mut known = true;
        for (name, xid) in [("xmin", head.xmin), ("xmax", head.xmax)] {
            if xid >= Xid::FIRST && !(self.xids.0..self.xids.1).contains(&xid) {
                let (from, to) = self.xids;
                self.say(slot, "H3", format!("{name} {xid} outside {from}..{to}"));
                known = false;
            }
        }
        if known {
            self.hints(slot, head)?;
            self.order(slot, head)?;
        }
        Ok(known)
    }

    fn hints(&mut self, slot: u16, head: &TupleHeader) -> Result<()> {
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
                self.say(
                    slot,
                    "H8",
                    format!("{name} {xid} is {status:?}, its hint says otherwise"),
                );
            }
        }
        Ok(())
    }

    /// The end first: a transaction that commits between two questions must not look like damage.
    fn order(&mut self, slot: u16, head: &TupleHeader) -> Result<()> {
        let plain = TupleHeader { flags: head.flags & !crate::heap::tuple::HINTS, ..*head };
        if let End::Ended(by) = self.end(&plain)?
            && self.birth(&plain)? != Birth::Committed
        {
            let xmin = head.xmin;
            self.say(slot, "H5", format!("ended by {by}, which committed; created by {xmin}, not"));
        }
        Ok(())
    }

    fn chains(&mut self, page: &HeapPage<'_>, tuples: &[(u16, Tuple<'_>)]) -> Result<()> {
        let by_slot: BTreeMap<u16, &Tuple<'_>> =
            tuples.iter().map(|(slot, tuple)| (*slot, tuple)).collect();
        let mut parents: BTreeMap<u16, u16> = BTreeMap::new();
        for (slot, tuple) in tuples {
            let goes_on = !matches!(self.end(&tuple.header)?, End::Open | End::Locked(_));
            if let Some(child) = self.link(page, *slot, tuple, goes_on)? {
                self.adopt(&mut parents, child, *slot);
            }
        }
        for slot in 1..=page.slots() {
            if let Ok(Slot::Redirect(to)) = page.slot(slot) {
                self.caught(slot, "H7", page.chain_start(slot));
                self.adopt(&mut parents, to, slot);
            }
            self.caught(slot, "H6", walk_chain(page, slot, |_, _| Ok(true)));
        }
        for (slot, tuple) in by_slot {
            let lost = tuple.header.has(HEAP_ONLY) && !parents.contains_key(&slot);
            if lost && self.birth(&tuple.header)? != Birth::Aborted {
                self.say(slot, "H6", "a heap-only version that no chain leads to");
            }
        }
        Ok(())
    }

    fn adopt(&mut self, parents: &mut BTreeMap<u16, u16>, child: u16, parent: u16) {
        if let Some(other) = parents.insert(child, parent) {
            self.say(child, "H6", format!("follows both {other} and {parent}"));
        }
    }

    /// Checks the link of one version; gives its successor in the HOT chain.
    fn link(
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
            self.say(slot, "H6", format!("replaced by {next}, outside the table"));
        }
        let Some(child) = head.hot_next().filter(|_| goes_on) else { return Ok(None) };
        let next = self.caught(slot, "H6", page.chain_next(tuple)).flatten();
        let Some((_, next)) = next else {
            self.say(slot, "H6", format!("its HOT successor {child} is missing"));
            return Ok(None);
        };
        let end = self.birth(&next.header)?;
        if end == Birth::Committed && self.birth(head)? == Birth::Aborted {
            self.say(slot, "H4", "aborted, but its successor committed");
        }
        Ok(Some(child))
    }

    fn marks(&mut self, page: &HeapPage<'_>, map: Bits, tuples: &[(u16, Tuple<'_>)]) -> Result<()> {
        let marked = Bits::of_flags(page.flags());
        if map != marked {
            self.say(0, "H10", format!("the map says {map:?}, the page {marked:?}"));
        }
        if marked.all_frozen && !marked.all_visible {
            self.say(0, "H10", "all-frozen but not all-visible");
        }
        let any = Bits {
            all_visible: marked.all_visible || map.all_visible,
            all_frozen: marked.all_frozen || map.all_frozen,
        };
        let dead = (1..=page.slots()).find(|slot| page.slot(*slot).ok() == Some(Slot::Dead));
        if let Some(slot) = dead.filter(|_| any.all_visible) {
            self.say(slot, "H10", "a dead line pointer on an all-visible page");
        }
        for (slot, tuple) in tuples {
            self.marked_version(*slot, &tuple.header, any)?;
        }
        Ok(())
    }

    fn marked_version(&mut self, slot: u16, head: &TupleHeader, marks: Bits) -> Result<()> {
        if marks.all_visible {
            let begun = self.birth(head)? == Birth::Committed && head.xmin < self.horizon;
            let ends = !matches!(self.end(head)?, End::Open | End::Locked(_));
            if !begun || ends {
                self.say(slot, "H10", "not visible to everyone on an all-visible page");
            }
        }
        if marks.all_frozen && (head.xmin != Xid::FROZEN || head.xmax != Xid::NONE) {
            self.say(slot, "H10", "not frozen on an all-frozen page");
        }
        Ok(())
    }
}
