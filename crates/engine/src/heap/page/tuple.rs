//! The 16-byte header of a row version; the row follows it, opaque to the heap.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | xmin: creator of the version, as an offset from the page's xid base |
//! | 4 | 4 | xmax: xid that deleted, replaced or locked it, likewise; 0 is none |
//! | 8 | 6 | next: the version that replaced it (block u32, slot u16), all zero for none |
//! | 14 | 2 | flags |
//!
//! Invariants: on every page an offset of 0 is no xid and 1 is the frozen mark, so a real xid lies
//! at least 2 above the base of its page. The four hint bits rest on durable commits or on aborts
//! (R1), and redo never reads them. `xmax`, `next` and `flags` are stored together, so that
//! replacing xmax also drops the hints about the old one.
//! Does not do: decide visibility, or find the header on its page.
//!
//! PostgreSQL: `access/htup_details.h`; the xids are 64-bit here, and there is no command id.

use crate::ids::{RowId, Xid};
use crate::txn::RowLock;

/// Bytes of the header.
pub(crate) const TUPLE_HEADER: usize = 16;
/// Offset of xmax in the header; xmax, next and flags are rewritten as one run of bytes from here.
pub(in crate::heap) const XMAX: usize = 4;
/// Offset of the flags in the header.
pub(in crate::heap) const FLAGS: usize = 14;
const _: () = assert!(XMAX + 4 + RowId::SIZE == FLAGS && FLAGS + 2 == TUPLE_HEADER);

/// Hint: xmin is committed, durably.
pub(in crate::heap) const XMIN_COMMITTED: u16 = 0x0001;
/// Hint: xmin is aborted.
pub(in crate::heap) const XMIN_ABORTED: u16 = 0x0002;
/// Hint: xmax is committed, durably.
pub(in crate::heap) const XMAX_COMMITTED: u16 = 0x0004;
/// Hint: xmax is aborted.
pub(in crate::heap) const XMAX_ABORTED: u16 = 0x0008;
/// xmax only locks the row.
pub(in crate::heap) const LOCK_ONLY: u16 = 0x0010;
/// The version replaced another one.
pub(in crate::heap) const UPDATED: u16 = 0x0020;
/// The next version is heap-only and lies on this page.
pub(in crate::heap) const HOT_UPDATED: u16 = 0x0040;
/// No index entry names this version: it is reached through its HOT chain.
pub(in crate::heap) const HEAP_ONLY: u16 = 0x0080;
/// A forwarding stub (R9): only this header is left of the version, for links that lead to it.
pub(in crate::heap) const STUB: u16 = 0x0100;
/// xmax only locks the row, in shared mode.
pub(in crate::heap) const SHARED: u16 = 0x0200;
/// With `SHARED`, the lock protects the unique keys only; without, it admits shared key locks.
pub(in crate::heap) const WEAK: u16 = 0x0800;
/// The group that is known in memory under xmax locks the row, too, and still does if xmax aborted.
pub(in crate::heap) const GROUP: u16 = 0x0400;
/// The bits that redo may lose (R1).
pub(in crate::heap) const HINTS: u16 =
    XMIN_COMMITTED | XMIN_ABORTED | XMAX_COMMITTED | XMAX_ABORTED;
/// Every bit that has a meaning.
pub(in crate::heap) const ALL_FLAGS: u16 =
    HINTS | LOCK_ONLY | UPDATED | HOT_UPDATED | HEAP_ONLY | STUB | SHARED | GROUP | WEAK;
/// The flags about xmax, which are cleared when xmax is replaced.
const XMAX_FLAGS: u16 =
    XMAX_COMMITTED | XMAX_ABORTED | LOCK_ONLY | HOT_UPDATED | SHARED | GROUP | WEAK;

/// Offset of the frozen mark.
const FROZEN_OFFSET: u32 = 1;
/// Smallest offset of a real xid.
const FIRST_OFFSET: u32 = 2;

/// A decoded header, xids absolute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TupleHeader {
    /// The xid that created the version.
    pub xmin: Xid,
    /// The xid that ended or locked it; `Xid::NONE` if none did.
    pub xmax: Xid,
    /// The version that replaced it.
    pub next: Option<RowId>,
    /// See the constants of this file.
    pub flags: u16,
}

/// Can a page of base `base` hold `xid`?
pub(in crate::heap) fn fits(base: u64, xid: Xid) -> bool {
    xid <= Xid::FROZEN
        || xid
            .0
            .checked_sub(base)
            .is_some_and(|off| off >= u64::from(FIRST_OFFSET) && off <= u64::from(u32::MAX))
}

/// Base for a page whose first xid is `xid`: room on both sides, as older transactions may come
/// later.
pub(in crate::heap) fn base_for(xid: Xid) -> u64 {
    assert!(xid >= Xid::FIRST, "a page begins with a real xid");
    xid.0.saturating_sub(1 << 31)
}

/// `xid` as an offset from `base`.
pub(in crate::heap) fn to_offset(base: u64, xid: Xid) -> u32 {
    assert!(fits(base, xid), "the page was rebased for this xid");
    if xid <= Xid::FROZEN { xid.0 as u32 } else { (xid.0 - base) as u32 }
}

/// Reverse of [`to_offset`].
pub(in crate::heap) fn from_offset(base: u64, offset: u32) -> Xid {
    if offset <= FROZEN_OFFSET {
        Xid(u64::from(offset))
    } else {
        Xid(base.saturating_add(u64::from(offset)))
    }
}

impl TupleHeader {
    /// Header of a version that `xmin` creates.
    pub(crate) fn new(xmin: Xid, flags: u16) -> Self {
        assert!(xmin >= Xid::FIRST && flags & HINTS == 0);
        Self { xmin, xmax: Xid::NONE, next: None, flags }
    }

    /// Reads a header of a page of base `base`. Any bytes decode; what they mean is checked
    /// elsewhere.
    pub(in crate::heap) fn decode(base: u64, bytes: &[u8; TUPLE_HEADER]) -> Self {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let next = RowId::new(u32_at(8), u16::from_le_bytes([bytes[12], bytes[13]]));
        Self {
            xmin: from_offset(base, u32_at(0)),
            xmax: from_offset(base, u32_at(XMAX)),
            next: (next != RowId::default()).then_some(next),
            flags: u16::from_le_bytes([bytes[FLAGS], bytes[FLAGS + 1]]),
        }
    }

    /// Is the version settled: committed, as a hint or the frozen mark says, and neither ended nor
    /// locked? Works on any base; bytes that are no header are not settled.
    #[inline]
    pub(in crate::heap) fn is_settled(bytes: &[u8; TUPLE_HEADER]) -> bool {
        let word = u64::from_le_bytes(*bytes.first_chunk().expect("a header is longer"));
        let flags = u16::from_le_bytes([bytes[FLAGS], bytes[FLAGS + 1]]);
        let (xmin, xmax) = (word as u32, word >> 32);
        let is_committed = xmin == FROZEN_OFFSET || xmin != 0 && flags & XMIN_COMMITTED != 0;
        is_committed && xmax == 0 && flags & (XMAX_FLAGS | XMIN_ABORTED) == 0
    }

    /// Is the version frozen, and neither ended nor locked?
    #[inline]
    pub(in crate::heap) fn is_frozen(bytes: &[u8; TUPLE_HEADER]) -> bool {
        let xmin = u32::from_le_bytes(*bytes.first_chunk().expect("a header is longer"));
        xmin == FROZEN_OFFSET && Self::is_settled(bytes)
    }

    /// The creator of a settled version ([`TupleHeader::is_settled`]) that index entries name, on a
    /// page of base `base`.
    #[inline]
    pub(in crate::heap) fn settled_root(base: u64, bytes: &[u8; TUPLE_HEADER]) -> Option<Xid> {
        let heap_only = bytes[FLAGS] & HEAP_ONLY as u8 != 0;
        let offset = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (Self::is_settled(bytes) && !heap_only).then(|| from_offset(base, offset))
    }

    /// The version that replaced this one in its HOT chain, if both are committed, as hints or the
    /// frozen mark say, and it was replaced before `before`. Works on any bytes.
    #[inline]
    pub(in crate::heap) fn replaced_before(
        base: u64,
        bytes: &[u8; TUPLE_HEADER],
        before: Xid,
    ) -> Option<RowId> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (xmin, xmax) = Self::offsets(bytes);
        let flags = u16_at(FLAGS);
        let is_created = xmin == FROZEN_OFFSET || flags & XMIN_COMMITTED != 0;
        let ended = flags & (XMAX_COMMITTED | HOT_UPDATED | LOCK_ONLY | XMAX_ABORTED);
        let is_replaced = ended == XMAX_COMMITTED | HOT_UPDATED && xmax >= FIRST_OFFSET;
        let is_old = from_offset(base, xmax) < before;
        let block = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        (is_created && is_replaced && is_old).then(|| RowId::new(block, u16_at(12)))
    }

    /// Is this the version that continues the HOT chain after `before`, which lies on its page?
    #[inline]
    pub(in crate::heap) fn continues(
        bytes: &[u8; TUPLE_HEADER],
        before: &[u8; TUPLE_HEADER],
    ) -> bool {
        let ((xmin, _), (_, xmax)) = (Self::offsets(bytes), Self::offsets(before));
        bytes[FLAGS] & HEAP_ONLY as u8 != 0 && xmin == xmax
    }

    /// The stored xmin and xmax.
    #[inline]
    fn offsets(bytes: &[u8; TUPLE_HEADER]) -> (u32, u32) {
        let word = u64::from_le_bytes(*bytes.first_chunk().expect("a header is longer"));
        (word as u32, (word >> 32) as u32)
    }

    /// The bytes on a page of base `base`.
    pub(in crate::heap) fn encode(&self, base: u64) -> [u8; TUPLE_HEADER] {
        assert!(self.xmin != Xid::NONE, "every version has a creator");
        let next = self.next.unwrap_or_default();
        let mut out = [0; TUPLE_HEADER];
        out[..4].copy_from_slice(&to_offset(base, self.xmin).to_le_bytes());
        out[XMAX..8].copy_from_slice(&to_offset(base, self.xmax).to_le_bytes());
        out[8..12].copy_from_slice(&next.block.0.to_le_bytes());
        out[12..14].copy_from_slice(&next.slot.to_le_bytes());
        out[FLAGS..].copy_from_slice(&self.flags.to_le_bytes());
        out
    }

    /// Is `bit` set?
    pub(crate) fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    /// Is xmax only a lock, or none?
    pub(crate) fn only_locked(&self) -> bool {
        self.xmax == Xid::NONE || self.has(LOCK_ONLY)
    }

    /// Slot of the next version of the HOT chain, if the chain goes on.
    pub(crate) fn hot_next(&self) -> Option<u16> {
        self.next.filter(|_| self.has(HOT_UPDATED)).map(|next| next.slot)
    }

    /// The header after `xid` deleted the version.
    pub(in crate::heap) fn deleted(&self, xid: Xid) -> Self {
        assert!(xid >= Xid::FIRST);
        Self { xmax: xid, next: None, flags: self.flags & !XMAX_FLAGS, ..*self }
    }

    /// The header after `xid` replaced the version by `next`.
    pub(in crate::heap) fn replaced(&self, xid: Xid, next: RowId, hot: bool) -> Self {
        assert!(next.slot > 0, "the new version has a slot");
        let hot = if hot { HOT_UPDATED } else { 0 };
        let gone = self.deleted(xid);
        Self { next: Some(next), flags: gone.flags | hot, ..gone }
    }

    /// The header after `xid` locked the row.
    pub(in crate::heap) fn locked(&self, xid: Xid, lock: RowLock) -> Self {
        let gone = self.deleted(xid);
        let how = match lock {
            RowLock::KeyShared => SHARED | WEAK,
            RowLock::Shared => SHARED,
            RowLock::Update => WEAK,
            RowLock::Exclusive => 0,
        };
        Self { flags: gone.flags | LOCK_ONLY | how, ..gone }
    }

    /// How xmax locks the row, if it is a lock and no group's.
    pub(in crate::heap) fn lock(&self) -> RowLock {
        match (self.has(SHARED), self.has(WEAK)) {
            (true, true) => RowLock::KeyShared,
            (true, false) => RowLock::Shared,
            (false, true) => RowLock::Update,
            (false, false) => RowLock::Exclusive,
        }
    }

    /// The header after the lock group `group` locked the row.
    pub(in crate::heap) fn locked_by_group(&self, group: Xid) -> Self {
        self.locked(group, RowLock::Exclusive).in_group()
    }

    /// The same header; the lockers of the row are the group known under its xmax.
    pub(in crate::heap) fn in_group(self) -> Self {
        assert!(self.xmax >= Xid::FIRST, "a group has a number");
        Self { flags: self.flags | GROUP, ..self }
    }

    /// The group that locks the row, if that is one.
    pub(in crate::heap) fn group(&self) -> Option<Xid> {
        (self.has(GROUP) && self.only_locked()).then_some(self.xmax)
    }

    /// Do the flags about locks agree with each other?
    pub(in crate::heap) fn has_valid_lock_flags(&self) -> bool {
        let one = self.has(SHARED | WEAK);
        let nobody = self.xmax == Xid::NONE && self.has(GROUP);
        !nobody && (!one || self.has(LOCK_ONLY) && !self.has(GROUP))
    }

    /// The header after its successor, which had `gone`, was removed (R9): the version is now
    /// replaced directly by the version that replaced the successor. A HOT chain goes on only if
    /// both steps stay in it.
    pub(in crate::heap) fn relinked_past(&self, gone: &Self) -> Self {
        assert!(!gone.only_locked(), "a version that leaves has ended");
        let mut about = gone.flags & XMAX_FLAGS;
        if !self.has(HOT_UPDATED) {
            about &= !HOT_UPDATED;
        }
        let flags = self.flags & !XMAX_FLAGS | about;
        Self { xmin: self.xmin, xmax: gone.xmax, next: gone.next, flags }
    }

    /// The header without xmax.
    pub(in crate::heap) fn unlocked(&self) -> Self {
        Self { xmax: Xid::NONE, next: None, flags: self.flags & !XMAX_FLAGS, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_at_every_base() {
        for base in [0u64, 7, 1 << 31, u64::from(u32::MAX) + 9, 1 << 60] {
            for xid in [base + 2, base + 3, base + u64::from(u32::MAX)].map(Xid) {
                let header =
                    TupleHeader::new(xid, UPDATED).replaced(Xid(base + 2), RowId::new(9, 3), true);
                assert_eq!(TupleHeader::decode(base, &header.encode(base)), header);
            }
            let frozen = TupleHeader {
                xmin: Xid::FROZEN,
                xmax: Xid::NONE,
                next: None,
                flags: XMIN_COMMITTED,
            };
            assert_eq!(TupleHeader::decode(base, &frozen.encode(base)), frozen);
            assert!(!fits(base, Xid(base + 1)) || base == 0);
            assert!(!fits(base, Xid(base + u64::from(u32::MAX) + 1)));
        }
    }

    #[test]
    fn a_new_xmax_drops_the_hints_about_the_old_one() {
        let mut header =
            TupleHeader::new(Xid(5), HEAP_ONLY).replaced(Xid(6), RowId::new(1, 2), true);
        header.flags |= XMAX_ABORTED | XMIN_COMMITTED;
        let deleted = header.deleted(Xid(8));
        assert_eq!(deleted.flags, HEAP_ONLY | XMIN_COMMITTED);
        assert_eq!((deleted.xmax, deleted.next), (Xid(8), None));
        for lock in [RowLock::KeyShared, RowLock::Shared, RowLock::Update, RowLock::Exclusive] {
            let locked = header.locked(Xid(8), lock);
            assert!(locked.only_locked() && locked.has_valid_lock_flags());
            assert_eq!(locked.lock(), lock);
            assert!(locked.locked_by_group(Xid(9)).has_valid_lock_flags());
        }
        assert!(!TupleHeader { flags: header.flags | SHARED, ..header }.has_valid_lock_flags());
        assert_eq!(header.hot_next(), Some(2));
        assert_eq!(deleted.hot_next(), None);
    }

    #[test]
    fn settled_is_who_is_committed_and_neither_ended_nor_locked() {
        let base = 1 << 33;
        let new = TupleHeader::new(Xid(base + 5), HEAP_ONLY | UPDATED);
        let settled = |header: &TupleHeader| TupleHeader::is_settled(&header.encode(base));
        let known = TupleHeader { flags: new.flags | XMIN_COMMITTED, ..new };
        let frozen = TupleHeader { xmin: Xid::FROZEN, ..new };
        assert!(settled(&known) && settled(&frozen) && !settled(&new));
        for sure in [known, frozen] {
            let ended = sure.replaced(Xid(base + 9), RowId::new(1, 2), true);
            let locked = sure.locked(Xid(base + 9), RowLock::Shared);
            assert!(!settled(&ended) && !settled(&locked) && settled(&locked.unlocked()));
            for flag in [XMIN_ABORTED, XMAX_ABORTED, XMAX_COMMITTED, HOT_UPDATED, GROUP] {
                assert!(!settled(&TupleHeader { flags: sure.flags | flag, ..sure }), "{flag:x}");
            }
        }
        assert!(!TupleHeader::is_settled(&[0; TUPLE_HEADER]));
    }

    #[test]
    fn a_fresh_base_leaves_room_for_older_xids() {
        let base = base_for(Xid(1 << 40));
        assert!(fits(base, Xid((1 << 40) - (1 << 30))) && fits(base, Xid((1 << 40) + (1 << 30))));
        assert!(fits(base_for(Xid::FIRST), Xid::FIRST));
    }
}
