//! The newest committed version of a row, along all its updates, for read committed.
//!
//! The walk begins at the version that the caller's snapshot sees and follows links over pages. A
//! link that leads nowhere means that the version there was removed meanwhile: the walk begins
//! again.
//!
//! Invariants: a walk begins again at the version that its own snapshot sees, which is never
//! removed (R9). A link that leads to the same wrong place again and again is damage.
//! Does not do: wait for a transaction, or judge what the caller may do with the version.
//!
//! PostgreSQL: the `ctid` walk of `heapam_tuple_lock` in `access/heap/heapam_handler.c`.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::error::{ConflictKind, Error, Result};
use crate::heap::Heap;
use crate::heap::page::{HeapPage, Tuple};
use crate::heap::visibility::{HeapVisibility, XmaxStatus, XminStatus};
use crate::ids::{RowId, Xid};
use crate::txn::VersionLink;

/// Walks along the updates of a row that one link led astray, after which that is called damage.
const MAX_SAME: u32 = 10_000;
/// Walks that any link led astray, after which the row changes too fast to be followed.
const MAX_WALKS: u32 = 100_000;

/// Counts walks that a link led to a place without its version. Other threads remove versions and
/// relink in one step, so a walk that begins again meets another link; damage leads it to the same
/// place every time.
#[derive(Default)]
struct LinkRetries {
    walks: u32,
    link: Option<VersionLink>,
    same: u32,
}

/// What a walk does after a link led it astray.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RetryDecision {
    Retry,
    /// The link leads nowhere.
    Damaged,
    /// The row changes faster than the walk.
    TooManyChanges,
}

impl LinkRetries {
    /// Counts another walk that `link` led astray.
    fn again(&mut self, link: VersionLink) -> RetryDecision {
        self.walks += 1;
        self.same = if self.link.replace(link) == Some(link) { self.same + 1 } else { 1 };
        match (self.same >= MAX_SAME, self.walks >= MAX_WALKS) {
            (true, _) => RetryDecision::Damaged,
            (false, true) => RetryDecision::TooManyChanges,
            (false, false) => RetryDecision::Retry,
        }
    }
}

/// The version that a write is to end.
///
/// A version that the writer's own snapshot sees keeps its place and its row id (R9). A version
/// that [`Heap::newest_version`](super::super::Heap::newest_version) found is later: it may be
/// removed, and its row id given to another row, before the write has the latch. Its creator tells
/// them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetVersion {
    /// The version's row id.
    pub at: RowId,
    /// Its creator, unless the writer's snapshot keeps the version in its place.
    pub(in crate::heap) xmin: Option<Xid>,
}

impl From<RowId> for TargetVersion {
    fn from(at: RowId) -> TargetVersion {
        TargetVersion { at, xmin: None }
    }
}

impl TargetVersion {
    /// Is this the version that was meant?
    pub(in crate::heap) fn is(self, tuple: &Tuple<'_>) -> bool {
        self.xmin.is_none_or(|by| tuple.header.xmin == by) || broken(Broken::VersionNotIdentified)
    }
}

impl Heap {
    /// The newest committed version of the row whose version `start` the caller's snapshot sees,
    /// along all updates, other pages included; `None` once the row is deleted. Changes of xids
    /// that the caller `owns` count as committed. The version may be removed as soon as the latch
    /// is released; a [`TargetVersion`] recognises it.
    ///
    /// If a version on the way was removed, the walk begins again at `start`, which is never
    /// removed (R9).
    ///
    /// `ahead` is a later version of the row, as far as is known. The walk begins there if it is
    /// still there and its creator did not abort.
    pub fn newest_version(
        &self,
        start: RowId,
        ahead: Option<VersionLink>,
        owns: &dyn Fn(Xid) -> bool,
    ) -> Result<Option<(TargetVersion, Vec<u8>)>> {
        let mut visibility = HeapVisibility::new(self.txns());
        // At `start` the creator need not match, since it may be frozen by now.
        let ahead = ahead.filter(|(at, _)| *at != start);
        let (mut at, mut xmin) = match ahead {
            Some((at, by)) => (at, Some(by)),
            None => (start, None),
        };
        let mut unsure = ahead.is_some();
        let mut lost = LinkRetries::default();
        loop {
            if !self.is_data_block(at.block.0) {
                if std::mem::take(&mut unsure) {
                    (at, xmin) = (start, None);
                    continue;
                }
                return Ok(None);
            }
            let pin = self.pin(at.block)?;
            let latch = pin.shared();
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let found = page.tuple(at.slot)?;
            let Some(tuple) = found.filter(|t| xmin.is_none_or(|by| t.header.xmin == by)) else {
                if at == start {
                    return Ok(None);
                }
                match xmin.filter(|_| !unsure).map(|by| lost.again((at, by))) {
                    None | Some(RetryDecision::Retry) => {}
                    Some(RetryDecision::Damaged) => {
                        let what = format!("updates of {start} end at {at}");
                        return Err(Error::corrupt(pin.page(), what));
                    }
                    Some(RetryDecision::TooManyChanges) => {
                        let kind = ConflictKind::Serialization;
                        let what = format!("row {start} changes faster than it can be followed");
                        return Err(self.txns().count_conflict(Error::Conflict { kind, what }));
                    }
                }
                (at, xmin, unsure) = (start, None, false);
                continue;
            };
            let counts = if unsure {
                counts_as_committed(&tuple, &mut visibility, owns)
            } else {
                Some(true)
            };
            let Some((counts, end)) = counts.zip(visibility.xmax_status(&tuple.header)) else {
                drop(latch);
                visibility.resolve()?;
                continue;
            };
            unsure = false;
            if !counts && !broken(Broken::UncreatedVersionBelieved) {
                (at, xmin) = (start, None);
                continue;
            }
            let ended = match end {
                XmaxStatus::Committed(by) => Some(by),
                XmaxStatus::InProgress(by) if owns(by) => Some(by),
                _ => None,
            };
            match (ended, tuple.header.next) {
                (Some(by), Some(next)) => (at, xmin) = (next, Some(by)),
                (Some(_), None) => return Ok(None),
                (None, _) => return Ok(Some((TargetVersion { at, xmin }, tuple.row.to_vec()))),
            }
        }
    }
}

/// Is the creator of the version committed, or an xid that the caller `owns`? `None` when a status
/// must be read first.
fn counts_as_committed(
    tuple: &Tuple<'_>,
    visibility: &mut HeapVisibility<'_>,
    owns: &dyn Fn(Xid) -> bool,
) -> Option<bool> {
    Some(match visibility.xmin_status(&tuple.header)? {
        XminStatus::InProgress => owns(tuple.header.xmin),
        status => status != XminStatus::Aborted,
    })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// It used to be called damage, too, when a row that others change again and again was not to
    /// be followed.
    #[test]
    fn contention_is_not_damage() {
        let link = |n: u32| (RowId::new(1 + n % 7, 1), Xid(u64::from(n)));
        let mut lost = LinkRetries::default();
        let ways: Vec<_> = (0..MAX_WALKS).map(|n| lost.again(link(n / 3))).collect();
        assert_eq!(ways.last(), Some(&RetryDecision::TooManyChanges));
        assert!(ways[..ways.len() - 1].iter().all(|way| *way == RetryDecision::Retry));
        let mut lost = LinkRetries::default();
        let ways: Vec<_> = (0..MAX_SAME).map(|_| lost.again(link(5))).collect();
        assert_eq!(ways.last(), Some(&RetryDecision::Damaged));
    }
}
