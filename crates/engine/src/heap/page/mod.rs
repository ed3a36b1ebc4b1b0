//! The slotted heap page, read side: layout, line pointers, validation of untrusted bytes.
//!
//! After the common header come 4-byte line pointers (slots count from 1). Tuples grow down from
//! the trailer. The header's owner word is the xid base of all tuple headers; the 8-byte trailer is
//! the prunable mark. The bits of a line pointer: `docs/format.md` and `heap/README.md`.
//!
//! | file | concern |
//! |---|---|
//! | `tuple` | the header of a version |
//! | `chain` | HOT chains, read |
//! | `store` | recorded stores |
//! | `compact` | compaction after versions were removed |
//!
//! Invariants: every accessor checks what it reads against the page's bounds and reports
//! [`Error::Corruption`], so no bytes make it index out of bounds. The space between `lower` and
//! `upper` is zero. `garbage` is always 0, since every removal compacts.
//! Does not do: the meaning of xids (`visibility`).
//!
//! PostgreSQL: `storage/page/bufpage.c`.

pub(in crate::heap) mod chain;
pub(in crate::heap) mod compact;
pub(in crate::heap) mod store;
#[cfg(test)]
mod tests;
pub(in crate::heap) mod tuple;

use crate::config::{FORMAT_VERSION, PAGE_SIZE};
use crate::error::{Error, Result};
use crate::heap::page::tuple::{TUPLE_HEADER, TupleHeader};
use crate::ids::{Lsn, PageId, Xid};
use crate::page::header::{self, HEADER_SIZE, PageKind};

/// Bytes of a line pointer.
pub(in crate::heap) const SLOT_SIZE: usize = 4;
/// Bytes of the trailer: oldest xid whose end may have left something to prune (0: nothing known).
pub(in crate::heap) const TRAILER: usize = 8;
/// Offset of the trailer.
pub(in crate::heap) const PRUNE_XID: usize = PAGE_SIZE - TRAILER;
/// Most line pointers of a page: more would only hold rows without a byte.
pub(crate) const MAX_SLOTS: u16 = ((PRUNE_XID - HEADER_SIZE) / (SLOT_SIZE + TUPLE_HEADER)) as u16;
/// Bytes that an empty page has for a row, its header included.
pub(in crate::heap) const MAX_TUPLE: usize = PRUNE_XID - HEADER_SIZE - SLOT_SIZE;
const _: () = assert!(PAGE_SIZE <= 1 << 13 && crate::config::MAX_ROW_BYTES <= MAX_TUPLE);

/// Page flag: every version is visible to everyone; the visibility map says the same.
pub(in crate::heap) const ALL_VISIBLE: u16 = 0x0001;
/// Page flag: every version is frozen and unlocked; the visibility map says the same.
pub(in crate::heap) const ALL_FROZEN: u16 = 0x0002;
/// Page flag: there may be unused line pointers below the last one.
pub(in crate::heap) const FREE_SLOTS: u16 = 0x0004;

/// A line pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// Free to be taken.
    Unused,
    /// A version at `offset`, `len` bytes with its header.
    Normal {
        /// Offset in the page.
        offset: u16,
        /// Bytes, header included.
        len: u16,
    },
    /// Root of a HOT chain whose first versions were pruned: the chain goes on at this slot.
    Redirect(u16),
    /// No version is left, index entries may still name it.
    Dead,
}

impl Slot {
    /// The line pointer as a number.
    #[inline]
    pub(in crate::heap) fn word(self) -> u32 {
        match self {
            Slot::Unused => 0,
            Slot::Normal { offset, len } => u32::from(offset) | 1 << 13 | u32::from(len) << 15,
            Slot::Redirect(to) => u32::from(to) | 2 << 13,
            Slot::Dead => 3 << 13,
        }
    }

    /// The line pointer's bytes.
    pub(in crate::heap) fn encode(self) -> [u8; SLOT_SIZE] {
        self.word().to_le_bytes()
    }

    /// Offset and bytes of the tuple, if `word` names one.
    #[inline]
    fn of_tuple(word: u32) -> Option<(u16, u16)> {
        let is_normal = word & (0xf << 28 | 3 << 13) == 1 << 13;
        is_normal.then_some(((word & 0x1fff) as u16, (word >> 15 & 0x1fff) as u16))
    }

    /// Reverse of [`Slot::word`]; `None` for bits that it never has.
    pub(in crate::heap) fn decode(word: u32) -> Option<Slot> {
        if let Some((offset, len)) = Slot::of_tuple(word) {
            return Some(Slot::Normal { offset, len });
        }
        let (offset, len) = ((word & 0x1fff) as u16, (word >> 15 & 0x1fff) as u16);
        match (word >> 13 & 3, word >> 28) {
            (0, 0) if word == 0 => Some(Slot::Unused),
            (2, 0) if len == 0 => Some(Slot::Redirect(offset)),
            (3, 0) if offset == 0 && len == 0 => Some(Slot::Dead),
            _ => None,
        }
    }
}

/// A version found on a page.
#[derive(Clone, Copy, Debug)]
pub(in crate::heap) struct Tuple<'a> {
    /// Offset of its header.
    pub(in crate::heap) offset: u16,
    /// The decoded header.
    pub(in crate::heap) header: TupleHeader,
    /// The row.
    pub(in crate::heap) row: &'a [u8],
}

/// A heap page whose frame of fields was checked; its slots are checked as they are read.
#[derive(Clone, Copy)]
pub(in crate::heap) struct HeapPage<'a> {
    id: PageId,
    bytes: &'a [u8; PAGE_SIZE],
    slots: u16,
}

impl<'a> HeapPage<'a> {
    /// Checks kind, version and bounds of `bytes`.
    pub(in crate::heap) fn open(id: PageId, bytes: &'a [u8; PAGE_SIZE]) -> Result<Self> {
        if header::kind(bytes) != Some(PageKind::Heap) || bytes[header::VERSION] != FORMAT_VERSION {
            return Err(Error::corrupt(id, "not a heap page of this format"));
        }
        let at = |offset| usize::from(header::u16_at(bytes, offset));
        let (lower, upper, special) = (at(header::LOWER), at(header::UPPER), at(header::SPECIAL));
        if special != PRUNE_XID || upper > special || lower > upper || lower < HEADER_SIZE {
            let what = format!("bounds lower {lower}, upper {upper}, special {special}");
            return Err(Error::corrupt(id, what));
        }
        let slots = (lower - HEADER_SIZE) / SLOT_SIZE;
        if !(lower - HEADER_SIZE).is_multiple_of(SLOT_SIZE) || slots > usize::from(MAX_SLOTS) {
            return Err(Error::corrupt(id, format!("lower {lower} ends no line pointer array")));
        }
        if header::u64_at(bytes, header::OWNER) > u64::MAX - u64::from(u32::MAX) {
            return Err(Error::corrupt(id, "an xid base beyond all xids"));
        }
        Ok(Self { id, bytes, slots: slots as u16 })
    }

    /// Is the page unformatted, or cut off the table?
    pub(in crate::heap) fn is_cut(bytes: &[u8; PAGE_SIZE]) -> bool {
        bytes[header::KIND] == 0
    }

    pub(in crate::heap) fn id(&self) -> PageId {
        self.id
    }

    pub(in crate::heap) fn bytes(&self) -> &'a [u8; PAGE_SIZE] {
        self.bytes
    }

    /// Line pointers, unused ones included.
    pub(in crate::heap) fn slots(&self) -> u16 {
        self.slots
    }

    pub(in crate::heap) fn lower(&self) -> usize {
        usize::from(header::u16_at(self.bytes, header::LOWER))
    }

    pub(in crate::heap) fn upper(&self) -> usize {
        usize::from(header::u16_at(self.bytes, header::UPPER))
    }

    pub(in crate::heap) fn flags(&self) -> u16 {
        header::u16_at(self.bytes, header::FLAGS)
    }

    pub(in crate::heap) fn lsn(&self) -> Lsn {
        header::lsn(self.bytes)
    }

    pub(in crate::heap) fn base(&self) -> u64 {
        header::u64_at(self.bytes, header::OWNER)
    }

    /// The prunable mark: no version can be pruned before this xid is below the horizon.
    pub(in crate::heap) fn prune_xid(&self) -> Option<Xid> {
        Some(Xid(header::u64_at(self.bytes, PRUNE_XID))).filter(|xid| *xid != Xid::NONE)
    }

    /// Bytes between the line pointers and the tuples.
    pub(in crate::heap) fn free_bytes(&self) -> usize {
        self.upper() - self.lower()
    }

    /// Bytes that one more tuple may have if it needs a new line pointer.
    pub(in crate::heap) fn room(&self) -> usize {
        self.free_bytes().saturating_sub(SLOT_SIZE)
    }

    /// Is no tuple on the page (there may be line pointers)?
    pub(in crate::heap) fn is_empty(&self) -> bool {
        self.upper() == PRUNE_XID
    }

    pub(in crate::heap) fn error(&self, slot: u16, what: &str) -> Error {
        Error::corrupt(self.id, format!("line pointer {slot}: {what}"))
    }

    /// The line pointer `slot`; one beyond the array is unused.
    pub(in crate::heap) fn slot(&self, slot: u16) -> Result<Slot> {
        if slot == 0 || slot > self.slots {
            return Ok(Slot::Unused);
        }
        let at = HEADER_SIZE + SLOT_SIZE * usize::from(slot - 1);
        let found = Slot::decode(header::u32_at(self.bytes, at))
            .ok_or_else(|| self.error(slot, "bits that no line pointer has"))?;
        match found {
            Slot::Normal { offset, len } => self.check_tuple(slot, offset, len)?,
            Slot::Redirect(to) if to == 0 || to > self.slots || to == slot => {
                return Err(self.error(slot, "redirects to no line pointer"));
            }
            _ => {}
        }
        Ok(found)
    }

    /// All line pointers, each as [`HeapPage::slot`] gives it.
    pub(in crate::heap) fn all_slots(&self) -> Result<Vec<Slot>> {
        let (upper, words) = (self.upper(), self.slot_words());
        // Nearly all are of a tuple. The others are looked at again, and this loop has no way out.
        let mut others = false;
        let read = |word: &[u8; SLOT_SIZE]| match Slot::of_tuple(u32::from_le_bytes(*word)) {
            Some((offset, len)) if is_tuple(upper, offset, len) => Slot::Normal { offset, len },
            _ => {
                others = true;
                Slot::Unused
            }
        };
        let mut slots: Vec<Slot> = words.iter().map(read).collect();
        if others {
            for (slot, found) in (1u16..).zip(&mut slots) {
                if *found == Slot::Unused {
                    *found = self.slot(slot)?;
                }
            }
        }
        Ok(slots)
    }

    /// The line pointers' bytes.
    pub(in crate::heap) fn slot_words(&self) -> &'a [[u8; SLOT_SIZE]] {
        let end = HEADER_SIZE + SLOT_SIZE * usize::from(self.slots);
        self.bytes[HEADER_SIZE..end].as_chunks().0
    }

    fn check_tuple(&self, slot: u16, offset: u16, len: u16) -> Result<()> {
        if !is_tuple(self.upper(), offset, len) {
            return Err(self.error(slot, &format!("a tuple of {len} bytes at {offset}")));
        }
        Ok(())
    }

    /// The version at `slot`, `None` unless the line pointer is normal.
    pub(in crate::heap) fn tuple(&self, slot: u16) -> Result<Option<Tuple<'a>>> {
        let Slot::Normal { offset, len } = self.slot(slot)? else { return Ok(None) };
        self.tuple_at(slot, offset, len).map(Some)
    }

    /// Is the version at `offset`, which a normal line pointer names, settled
    /// ([`TupleHeader::is_settled`])?
    #[inline]
    pub(in crate::heap) fn is_settled(&self, offset: u16) -> bool {
        let head = self.bytes[usize::from(offset)..].first_chunk();
        head.is_some_and(TupleHeader::is_settled)
    }

    /// Is that version frozen, and neither ended nor locked?
    #[inline]
    pub(in crate::heap) fn is_frozen(&self, offset: u16) -> bool {
        let head = self.bytes[usize::from(offset)..].first_chunk();
        head.is_some_and(TupleHeader::is_frozen)
    }

    /// Does a line pointer of these bytes name a version that is not settled? A quick test: the
    /// caller checks the line pointer as [`HeapPage::slot`] does before it uses it.
    #[inline]
    pub(in crate::heap) fn names_unsettled(&self, word: [u8; SLOT_SIZE]) -> bool {
        let tuple = Slot::of_tuple(u32::from_le_bytes(word));
        tuple.is_some_and(|(offset, _)| !self.is_settled(offset))
    }

    /// The version at `slot` with its creator, if its own header decides alone: it is the root of a
    /// chain of one, committed, neither ended nor locked. `None` where more must be checked.
    #[inline]
    pub(in crate::heap) fn simple_row(&self, slot: u16) -> Option<(Xid, &'a [u8])> {
        let (head, row) = self.version(slot)?;
        let xmin = TupleHeader::settled_root(self.base(), head)?;
        Some((xmin, row))
    }

    /// The undecoded header of the version at `slot`, and its row. `None` unless the line pointer
    /// is normal and names bytes of the page.
    #[inline]
    fn version(&self, slot: u16) -> Option<(&'a [u8; TUPLE_HEADER], &'a [u8])> {
        if slot == 0 || slot > self.slots {
            return None;
        }
        let at = HEADER_SIZE + SLOT_SIZE * usize::from(slot - 1);
        let (offset, len) = Slot::of_tuple(header::u32_at(self.bytes, at))?;
        if !is_tuple(self.upper(), offset, len) {
            return None;
        }
        let all = &self.bytes[usize::from(offset)..usize::from(offset + len)];
        all.split_first_chunk()
    }

    /// Is that version heap-only and settled? Then the chain of a line pointer that redirects to it
    /// loses no version.
    pub(in crate::heap) fn is_settled_chain(&self, offset: u16) -> bool {
        let heap_only = crate::heap::page::tuple::HEAP_ONLY;
        let flags =
            header::u16_at(self.bytes, usize::from(offset) + crate::heap::page::tuple::FLAGS);
        flags & heap_only != 0 && self.is_settled(offset)
    }

    /// The version that the normal line pointer `slot` names: offset and bytes.
    pub(in crate::heap) fn tuple_at(&self, slot: u16, offset: u16, len: u16) -> Result<Tuple<'a>> {
        let all = &self.bytes[usize::from(offset)..usize::from(offset + len)];
        let (head, row) = all.split_first_chunk().expect("check_tuple wants a whole header");
        let header = TupleHeader::decode(self.base(), head);
        if header.xmin == Xid::NONE {
            return Err(self.error(slot, "a version without a creator"));
        }
        Ok(Tuple { offset, header, row })
    }
}

/// Does a tuple of `len` bytes at `offset` lie among those of a page, which begin at `upper`?
#[inline]
fn is_tuple(upper: usize, offset: u16, len: u16) -> bool {
    let (offset, len) = (usize::from(offset), usize::from(len));
    offset >= upper && offset + len <= PRUNE_XID && len >= TUPLE_HEADER
}
