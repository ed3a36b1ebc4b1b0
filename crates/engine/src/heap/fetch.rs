//! Reading one row: from the root an index entry names, along the HOT chain, to the version that a
//! snapshot sees; and the present state of a row for unique checks.
//!
//! Invariants: rows are copied out, no reference leaves the latch (R11); nothing is read from the
//! device while the heap page is latched (R7); a root that is gone, or whose slot now holds
//! something else, is no row, not an error: a recycled slot's new version is never visible to a
//! snapshot that was registered before (R3, R4).
//! Does not do: follow updates to other pages for a snapshot: those versions have index entries.

use rightlink_env::points::broken;

use crate::buffer::Pin;
use crate::error::{ConflictKind, Error, Result};
use crate::heap::page::{HeapPage, Slot, Tuple, walk_chain};
use crate::heap::visibility::{Birth, End, Hints, Judge, Seer};
use crate::heap::{Heap, Target};
use crate::ids::{RowId, Xid};
use crate::txn::{Snapshot, Transaction, VersionLink};

/// Walks along the updates of a row that one link led astray, after which that is called damage.
const MAX_SAME: u32 = 10_000;
/// Walks that any link led astray, after which the row changes too fast to be followed.
const MAX_WALKS: u32 = 100_000;

/// Result of a fetch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fetched {
    /// The version that the snapshot sees, and its row.
    pub row: Option<(RowId, Vec<u8>)>,
    /// No snapshot sees any version of the row, now or later, and no crash changes that (R1): an
    /// index entry that names the root may be marked dead, if R3's clock allows.
    pub all_dead: bool,
}

/// Present state of the row that an index entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// The entry stands for no row: deleted, replaced by a version with its own entry, or aborted.
    Dead,
    /// The row is there.
    Live,
    /// A running transaction decides.
    InProgress(Xid),
    /// It cannot be told without I/O: call [`Heap::prepare_liveness`] without latches, then ask
    /// again.
    NeedsRead,
}

/// Walks along the updates of a row that a link led to where its version is not. Others remove
/// versions and set the links to them in one step, so a walk that begins again meets another link;
/// damage leads it to the same place every time.
#[derive(Default)]
struct LostWalks {
    walks: u32,
    link: Option<VersionLink>,
    same: u32,
}

/// What a walk that lost its way is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LostWay {
    TryAgain,
    /// The link leads nowhere.
    Damaged,
    /// Others are too fast.
    Overtaken,
}

impl LostWalks {
    /// Another walk, which `link` led astray.
    fn again(&mut self, link: VersionLink) -> LostWay {
        self.walks += 1;
        self.same = if self.link.replace(link) == Some(link) { self.same + 1 } else { 1 };
        match (self.same >= MAX_SAME, self.walks >= MAX_WALKS) {
            (true, _) => LostWay::Damaged,
            (false, true) => LostWay::Overtaken,
            (false, false) => LostWay::TryAgain,
        }
    }
}

impl Heap {
    /// The version of the row `root` that `snapshot` sees. May read the page.
    pub fn fetch(&self, snapshot: &Snapshot, root: RowId) -> Result<Fetched> {
        if !self.is_data_block(root.block.0) {
            return Ok(Fetched::default());
        }
        let pin = self.pin(root.block)?;
        self.fetch_on(&pin, snapshot, root)
    }

    /// As [`Heap::fetch`], on the pinned page of `root`.
    pub fn fetch_on(&self, pin: &Pin, snapshot: &Snapshot, root: RowId) -> Result<Fetched> {
        let mut bytes = Vec::new();
        let (found, all_dead) = self.fetch_into(pin, snapshot, root, &mut bytes)?;
        Ok(Fetched { row: found.map(|at| (at, bytes)), all_dead })
    }

    /// As [`Heap::fetch_on`] for many rows, one after the other: `row` is overwritten with the row.
    /// Returns its version, and what [`Fetched::all_dead`] would be.
    pub fn fetch_into(
        &self,
        pin: &Pin,
        snapshot: &Snapshot,
        root: RowId,
        row: &mut Vec<u8>,
    ) -> Result<(Option<RowId>, bool)> {
        assert!(pin.page() == self.page_id(root.block.0), "the root's page");
        let mut seer = Seer::new(snapshot);
        loop {
            let mut hints = Hints::default();
            let latch = pin.shared();
            if !self.is_data_block(root.block.0) {
                return Ok((None, false));
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            if let Some((xmin, plain)) = page.plain(root.slot)
                && seer.sees_before(xmin)
            {
                row.clear();
                row.extend_from_slice(plain);
                return Ok((Some(root), false));
            }
            let found = find_visible(&page, root, &mut seer, (&mut hints, row))?;
            if !seer.is_stuck() {
                let all_dead = found.is_none() && self.all_dead(&page, root)?;
                let version = latch.version();
                drop(latch);
                hints.set(pin, version);
                return Ok((found, all_dead));
            }
            drop(latch);
            seer.resolve()?;
        }
    }

    /// The version at `at` itself, heap-only or not, if `snapshot` sees it; else what
    /// [`Heap::fetch`] finds from there. For writes by a row id that a read of the same snapshot
    /// gave.
    pub fn fetch_version(
        &self,
        snapshot: &Snapshot,
        at: RowId,
    ) -> Result<Option<(RowId, Vec<u8>)>> {
        if !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        let pin = self.pin(at.block)?;
        match self.exactly(&pin, snapshot, at)? {
            Some(row) => Ok(Some((at, row))),
            None => Ok(self.fetch_on(&pin, snapshot, at)?.row),
        }
    }

    /// The version at `at` itself, heap-only or not, if `snapshot` sees it.
    pub fn fetch_at(&self, snapshot: &Snapshot, at: RowId) -> Result<Option<Vec<u8>>> {
        // No row lies at slot 0.
        if at.slot == 0 || !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        self.exactly(&self.pin(at.block)?, snapshot, at)
    }

    /// The version at `at` and no other, if `snapshot` sees it.
    fn exactly(&self, pin: &Pin, snapshot: &Snapshot, at: RowId) -> Result<Option<Vec<u8>>> {
        let mut seer = Seer::new(snapshot);
        loop {
            let latch = pin.shared();
            if !self.is_data_block(at.block.0) {
                return Ok(None);
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let Some(tuple) = page.tuple(at.slot)? else { return Ok(None) };
            match seer.visible(&tuple.header) {
                Some(seen) => return Ok(seen.then(|| tuple.row.to_vec())),
                None => drop(latch),
            }
            seer.resolve()?;
        }
    }

    /// The version at `at` as an earlier statement of `txn` that gave out this row id left it,
    /// though the row may have changed since. For writes by a row id that the own snapshot does not
    /// see.
    pub fn fetch_handed_out(&self, txn: &Transaction, at: RowId) -> Result<Option<Vec<u8>>> {
        let Some(born_by) = self.creator(at)? else { return Ok(None) };
        let Some(snapshot) = txn.snapshot_of(born_by) else { return Ok(None) };
        self.exactly(&self.pin(at.block)?, &snapshot, at)
    }

    /// Who created the version at `at`, if there is one.
    pub fn creator(&self, at: RowId) -> Result<Option<Xid>> {
        if !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        let pin = self.pin(at.block)?;
        let latch = pin.shared();
        if !self.is_data_block(at.block.0) {
            return Ok(None);
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        Ok(page.tuple(at.slot)?.map(|tuple| tuple.header.xmin))
    }

    /// Can `snapshot`, which sees the version at `at`, see another row that has a unique key of it?
    /// Of two such rows ([`Snapshot::may_see_key_twice`]) one is the own transaction's, and the
    /// other was ended by another transaction before that one was written.
    pub fn may_share_key(&self, snapshot: &Snapshot, at: RowId) -> Result<bool> {
        if !snapshot.may_see_key_twice() {
            return Ok(false);
        }
        let pin = self.pin(at.block)?;
        let mut judge = Judge::new(self.txns());
        loop {
            let latch = pin.shared();
            if !self.is_data_block(at.block.0) {
                return Ok(true);
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            // Only what a snapshot sees that has become too old is gone, which its reader is told.
            let Some(tuple) = page.tuple(at.slot)? else { return Ok(true) };
            let header = tuple.header;
            if snapshot.is_own(header.xmin) {
                return Ok(true);
            }
            if let Some(end) = judge.end(&header) {
                return Ok(matches!(end, End::Ended(by) if !snapshot.is_own(by)));
            }
            drop(latch);
            judge.resolve()?;
        }
    }

    /// Is every version of `root` dead to everyone, durably? Says no when it would have to read.
    pub(super) fn all_dead(&self, page: &HeapPage<'_>, root: RowId) -> Result<bool> {
        if page.slot(root.slot)? == Slot::Dead {
            return Ok(page.lsn() <= self.pool().wal().durable());
        }
        let (mut judge, horizon) = (Judge::new(self.txns()), self.txns().horizon());
        let (mut versions, mut dead) = (0, 0);
        walk_chain(page, root.slot, |_, tuple| {
            versions += 1;
            dead += u32::from(judge.durably_dead(&tuple.header, horizon) == Some(true));
            Ok(versions == dead)
        })?;
        Ok(versions > 0 && versions == dead)
    }

    /// The newest committed version of the row whose version `start` the caller's snapshot sees,
    /// along all updates, other pages included; `None` once it is deleted. Read committed goes on
    /// with it. It may leave as soon as the latch is gone: a [`Target`] is known again. Where a
    /// version on the way was removed meanwhile, the version before it leads on (R9): the walk
    /// begins again at `start`, which is never removed. Changes of xids that the caller `owns`
    /// count as committed.
    ///
    /// `ahead` is a later version of the row, as far as is known: the walk begins there if it is
    /// still there and did not end with whoever made it.
    pub fn newest(
        &self,
        start: RowId,
        ahead: Option<VersionLink>,
        owns: &dyn Fn(Xid) -> bool,
    ) -> Result<Option<(Target, Vec<u8>)>> {
        let mut judge = Judge::new(self.txns());
        // Where the walk begins, anyhow, it need not be told who made it: that may be frozen.
        let ahead = ahead.filter(|(at, _)| *at != start);
        let (mut at, mut born_by) = match ahead {
            Some((at, by)) => (at, Some(by)),
            None => (start, None),
        };
        let mut unsure = ahead.is_some();
        let mut lost = LostWalks::default();
        loop {
            if !self.is_data_block(at.block.0) {
                if std::mem::take(&mut unsure) {
                    (at, born_by) = (start, None);
                    continue;
                }
                return Ok(None);
            }
            let pin = self.pin(at.block)?;
            let latch = pin.shared();
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let found = page.tuple(at.slot)?;
            let Some(tuple) = found.filter(|t| born_by.is_none_or(|by| t.header.xmin == by)) else {
                if at == start {
                    return Ok(None);
                }
                match born_by.filter(|_| !unsure).map(|by| lost.again((at, by))) {
                    None | Some(LostWay::TryAgain) => {}
                    Some(LostWay::Damaged) => {
                        let what = format!("updates of {start} end at {at}");
                        return Err(Error::corrupt(pin.page(), what));
                    }
                    Some(LostWay::Overtaken) => {
                        let kind = ConflictKind::Serialization;
                        let what = format!("row {start} changes faster than it can be followed");
                        return Err(self.txns().count_conflict(Error::Conflict { kind, what }));
                    }
                }
                (at, born_by, unsure) = (start, None, false);
                continue;
            };
            let born = if unsure { is_born(&tuple, &mut judge, owns) } else { Some(true) };
            let Some((born, end)) = born.zip(judge.end(&tuple.header)) else {
                drop(latch);
                judge.resolve()?;
                continue;
            };
            unsure = false;
            if !born && !broken("r9-ahead") {
                (at, born_by) = (start, None);
                continue;
            }
            let ended = match end {
                End::Ended(by) => Some(by),
                End::Ending(by) if owns(by) => Some(by),
                _ => None,
            };
            match (ended, tuple.header.next) {
                (Some(by), Some(next)) => (at, born_by) = (next, Some(by)),
                (Some(_), None) => return Ok(None),
                (None, _) => return Ok(Some((Target { at, born_by }, tuple.row.to_vec()))),
            }
        }
    }

    /// Present state of the row `root`, without I/O: usable under an index latch. `owns` tells the
    /// xids of the asking transaction.
    pub fn liveness(&self, root: RowId, owns: &dyn Fn(Xid) -> bool) -> Result<Liveness> {
        if !self.is_data_block(root.block.0) {
            return Ok(Liveness::Dead);
        }
        let Some(pin) = self.pool().try_pin(self.page_id(root.block.0)) else {
            return Ok(Liveness::NeedsRead);
        };
        self.liveness_on(&pin, root, &mut Judge::new(self.txns()), owns)
    }

    /// What [`Heap::liveness`] would have had to read: call without latches, and keep the pin while
    /// asking again. Sets commit hints, so that statuses need no second read.
    pub fn prepare_liveness(&self, root: RowId) -> Result<Option<Pin>> {
        if !self.is_data_block(root.block.0) {
            return Ok(None);
        }
        let pin = self.pin(root.block)?;
        let mut judge = Judge::new(self.txns());
        while self.liveness_on(&pin, root, &mut judge, &|_| false)? == Liveness::NeedsRead {
            judge.resolve()?;
        }
        Ok(Some(pin))
    }

    fn liveness_on(
        &self,
        pin: &Pin,
        root: RowId,
        judge: &mut Judge<'_>,
        owns: &dyn Fn(Xid) -> bool,
    ) -> Result<Liveness> {
        let mut hints = Hints::default();
        let latch = pin.shared();
        if !self.is_data_block(root.block.0) {
            return Ok(Liveness::Dead);
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        let mut verdict = Liveness::Dead;
        walk_chain(&page, root.slot, |_, tuple| {
            hints.note(judge.txns(), tuple.offset, &tuple.header);
            let (version, go_on) = liveness_of(tuple, judge, owns);
            verdict = version;
            Ok(go_on)
        })?;
        let version = latch.version();
        drop(latch);
        hints.set(pin, version);
        Ok(verdict)
    }
}

/// Does the version count: is whoever made it committed, or one that the caller `owns`? `None` when
/// a status must be read first.
fn is_born(tuple: &Tuple<'_>, judge: &mut Judge<'_>, owns: &dyn Fn(Xid) -> bool) -> Option<bool> {
    Some(match judge.birth(&tuple.header)? {
        Birth::InProgress => owns(tuple.header.xmin),
        birth => birth != Birth::Aborted,
    })
}

/// State of one version, and whether its successor decides instead.
fn liveness_of(
    tuple: &Tuple<'_>,
    judge: &mut Judge<'_>,
    owns: &dyn Fn(Xid) -> bool,
) -> (Liveness, bool) {
    let head = &tuple.header;
    match judge.birth(head) {
        None => return (Liveness::NeedsRead, false),
        Some(Birth::Aborted) => return (Liveness::Dead, false),
        Some(Birth::InProgress) if !owns(head.xmin) => {
            return (Liveness::InProgress(head.xmin), false);
        }
        Some(_) => {}
    }
    match judge.end(head) {
        None => (Liveness::NeedsRead, false),
        Some(End::Open | End::Locked(_)) => (Liveness::Live, false),
        Some(End::Ending(by)) if !owns(by) => (Liveness::InProgress(by), false),
        Some(End::Ending(_) | End::Ended(_)) => (Liveness::Dead, true),
    }
}

/// The visible version of `root`'s chain, and its bytes in `row`. Incomplete when `seer` is stuck
/// afterwards.
pub(super) fn find_visible(
    page: &HeapPage<'_>,
    root: RowId,
    seer: &mut Seer<'_>,
    (hints, row): (&mut Hints, &mut Vec<u8>),
) -> Result<Option<RowId>> {
    let mut found = None;
    walk_chain(page, root.slot, |slot, tuple| {
        hints.note(seer.manager(), tuple.offset, &tuple.header);
        if seer.visible(&tuple.header) == Some(true) {
            row.clear();
            row.extend_from_slice(tuple.row);
            found = Some(RowId { block: root.block, slot });
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// It used to be called damage, too, when a row that others change again and again was not to
    /// be followed.
    #[test]
    fn contention_is_not_damage() {
        let link = |n: u32| (RowId::new(1 + n % 7, 1), Xid(u64::from(n)));
        let mut lost = LostWalks::default();
        let ways: Vec<_> = (0..MAX_WALKS).map(|n| lost.again(link(n / 3))).collect();
        assert_eq!(ways.last(), Some(&LostWay::Overtaken));
        assert!(ways[..ways.len() - 1].iter().all(|way| *way == LostWay::TryAgain));
        let mut lost = LostWalks::default();
        let ways: Vec<_> = (0..MAX_SAME).map(|_| lost.again(link(5))).collect();
        assert_eq!(ways.last(), Some(&LostWay::Damaged));
    }
}
