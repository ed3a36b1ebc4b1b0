//! The double-write area: copies of pages that are about to be written home, so that recovery can
//! replace a page that a crash tore (R15).
//!
//! The file `doublewrite` has eight slots, used in turn: a head page, then the copies of a group.
//! `fill_head` lays out the head, as `docs/format.md` states it. Homes of several groups are synced
//! together: beside the groups that follow (`begin_sync`), else when every slot is used.
//!
//! Invariants:
//! - The copies of a group are durable before its first home is written.
//! - The homes of a group are durable before its slot is used again. So a torn home has a valid
//!   copy, and the youngest valid copy of a page is not older than its home.
//! - A home whose write failed may be torn. It is made whole from its copy before any slot is used
//!   again.
//! - A copy counts only if its checksum is the one in the head. A crash can keep the head and lose
//!   a copy, and an older group may have left a valid copy of the same page in that place.
//! - Recovery replaces a home only if it is not a valid page, and never makes a file longer. It
//!   writes valid homes again, because a failed sync may have left them in the page cache only.
//!
//! Does not do: choose pages; repair damage that a crash of this instance did not cause.
//!
//! After InnoDB's double-write buffer, whose homes are synced once for each batch.

use rightlink_env::Broken;
use std::collections::{BTreeMap, BTreeSet};

use rightlink_aio::{AlignedBuf, File, Io, OpenMode};
use rightlink_env::points;
use rightlink_env::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::data_file::{self, DataFile, io_error};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId};
use crate::page::checksum;

/// Name of the area's file.
pub(crate) const NAME: &str = "doublewrite";
const MAGIC: u64 = u64::from_le_bytes(*b"RLDWRT03");
/// Without the checksums of copies.
const OLD_MAGIC: u64 = u64::from_le_bytes(*b"RLDWRT02");
/// Most pages of a group.
pub(super) const MAX_PAGES: usize = 256;
/// Groups whose homes may be unsynced at once.
const SLOTS: u32 = 8;
/// Bytes of a slot, the same whatever the group size, so that recovery finds all.
const SLOT: u64 = ((1 + MAX_PAGES) * PAGE_SIZE) as u64;
const ENTRIES: usize = 32;
const ENTRY: usize = 12;
const _: () = assert!(ENTRIES + ENTRY * MAX_PAGES <= PAGE_SIZE);

/// The area of an open database.
#[derive(Debug)]
pub struct DoubleWrite {
    file: File,
    sequence: u64,
    group: usize,
    /// The slot of the next group.
    next: u32,
    /// Groups whose homes may not be durable; they have the slots in front of the next one.
    used: u32,
    /// Slots that there is room for.
    slots: u32,
    /// Files with homes that may not be durable.
    homes: Vec<Arc<DataFile>>,
    /// Those that a thread is syncing ([`DoubleWrite::begin_sync`]).
    syncing: Vec<Arc<DataFile>>,
    /// Homes that a failed write may have torn.
    torn: BTreeMap<PageId, TornHome>,
}

/// A page whose home may be torn.
#[derive(Debug)]
struct TornHome {
    home: Arc<DataFile>,
    /// Where its copy is.
    copy: u64,
}

/// A sync of homes beside the groups that are written meanwhile.
pub(super) struct HomeSync {
    /// Number of the last group whose homes lie in `files`.
    pub(super) through: u64,
    pub(super) files: Vec<Arc<DataFile>>,
}

/// The head of a slot.
#[derive(Debug, Default)]
struct Head {
    sequence: u64,
    /// Groups before this one whose homes may be unsynced.
    unsynced: u32,
    /// The copied pages, and the checksum of each copy.
    copies: Vec<(PageId, u32)>,
}

impl Head {
    /// The oldest group whose homes may be unsynced.
    fn oldest_unsynced(&self) -> u64 {
        self.sequence.saturating_sub(u64::from(self.unsynced))
    }
}

impl DoubleWrite {
    /// Opens or creates the area for groups of up to `pages` pages. With `pages` 0 it removes an
    /// old area, because its copies would soon be older than the homes. Recovery has run before, so
    /// all homes are durable.
    ///
    /// The first slot gets its space here, so that pages can be written home on a full disk.
    pub(super) fn open(io: &Io, pages: usize) -> Result<Option<DoubleWrite>> {
        let exists = io.exists(NAME).map_err(io_error)?;
        if pages == 0 {
            if exists {
                io.remove(NAME).map_err(io_error)?;
                io.sync_dir("").map_err(io_error)?;
            }
            return Ok(None);
        }
        let file = io.open_file(NAME, OpenMode::Create).map_err(io_error)?;
        let group = take_space(&file, pages)?;
        if !exists {
            file.sync_all().map_err(io_error)?;
            io.sync_dir("").map_err(io_error)?;
        }
        let sequence = read_heads(&file)?.iter().map(|(head, _)| head.sequence).max().unwrap_or(0);
        Ok(Some(DoubleWrite {
            file,
            sequence,
            group,
            next: 0,
            used: 0,
            slots: SLOTS,
            homes: Vec::new(),
            syncing: Vec::new(),
            torn: BTreeMap::new(),
        }))
    }

    /// Pages of the largest group that there is room for.
    pub(super) fn group(&self) -> usize {
        self.group
    }

    /// Makes the copies of `pages` durable: `group` holds a page for the head, then the copies.
    /// After that their homes may be written. `sync_home` makes the homes of earlier groups
    /// durable.
    pub(super) fn write(
        &mut self,
        group: &mut AlignedBuf,
        pages: &[PageId],
        sync_home: impl Fn(&DataFile) -> Result<()>,
    ) -> Result<()> {
        assert!((1..=MAX_PAGES).contains(&pages.len()), "a group fits a slot");
        if self.used == self.slots {
            self.sync_homes(&sync_home)?;
        }
        match self.put(group, pages) {
            // The slots that exist can still be used on a full disk.
            Err(Error::DiskFull(_)) if self.next > 0 => {
                self.slots = self.next;
                self.sync_homes(&sync_home)?;
                self.put(group, pages)?;
            }
            result => result?,
        }
        points::hit("buffer.double-write.before-sync");
        self.file.sync_data().map_err(Error::Io)?;
        self.used += 1;
        self.next = (self.next + 1) % self.slots;
        Ok(())
    }

    /// Writes the next group into its slot.
    fn put(&mut self, group: &mut AlignedBuf, pages: &[PageId]) -> Result<()> {
        assert!(self.used < self.slots, "the homes of the group before in this slot are durable");
        let sequence = self.sequence + 1;
        let (head, copies) = group.split_at_mut(PAGE_SIZE);
        fill_head(head, sequence, self.used, pages, copies);
        let bytes = &group[..(1 + pages.len()) * PAGE_SIZE];
        self.file.write_all_at(bytes, SLOT * u64::from(self.next)).map_err(io_error)?;
        // After the write: a head counts back over earlier groups, so numbers have no gaps.
        self.sequence = sequence;
        Ok(())
    }

    /// Makes all homes durable, so that every slot can be used again (R15). If a full disk took
    /// slots away and has room now, one slot is added.
    fn sync_homes(&mut self, sync_home: impl Fn(&DataFile) -> Result<()>) -> Result<()> {
        points::hit("buffer.double-write.settle");
        if !points::broken(Broken::TornHomesNotRepaired) {
            self.repair_torn()?;
        }
        // A sync that is under way ends before `sync_home` returns.
        self.homes.iter().chain(&self.syncing).try_for_each(|home| sync_home(home))?;
        self.homes.clear();
        (self.used, self.next) = (0, 0);
        if self.slots < SLOTS {
            let bytes = ((1 + self.group) * PAGE_SIZE) as u64;
            let room = self.file.allocate(SLOT * u64::from(self.slots), bytes);
            self.slots += u32::from(room.is_ok());
        }
        Ok(())
    }

    /// The files to sync so that slots can be used again: once half of the slots are used, unless
    /// a sync is under way. Groups are written meanwhile. The caller syncs the files and then calls
    /// [`DoubleWrite::end_sync`].
    pub(super) fn begin_sync(&mut self) -> Result<Option<HomeSync>> {
        if self.used < self.slots.div_ceil(2) || !self.syncing.is_empty() {
            return Ok(None);
        }
        points::hit("buffer.double-write.begin-settling");
        self.repair_torn()?;
        self.syncing = std::mem::take(&mut self.homes);
        Ok(Some(HomeSync { through: self.sequence, files: self.syncing.clone() }))
    }

    /// The homes of all groups up to number `through` are durable.
    pub(super) fn end_sync(&mut self, through: u64) {
        assert!(through <= self.sequence, "there was such a group");
        self.syncing.clear();
        let since = u32::try_from(self.sequence - through).unwrap_or(u32::MAX);
        self.used = self.used.min(since);
    }

    /// The homes of the group just written lie in `files`.
    pub(super) fn remember_homes(&mut self, files: Vec<Arc<DataFile>>) {
        assert!(self.used > 0, "homes follow their copies");
        self.homes.extend(files);
        self.homes.sort_unstable_by_key(|file| file.id);
        // A file that was made anew under its old number has another handle.
        self.homes.dedup_by(|a, b| Arc::ptr_eq(a, b));
    }

    /// Writing page `number` of the last group to its home has failed, and may have torn the home.
    pub(super) fn note_torn(&mut self, page: PageId, number: usize, home: &Arc<DataFile>) {
        assert!(self.used > 0, "homes follow their copies");
        let slot = (self.next + self.slots - 1) % self.slots;
        let copy = SLOT * u64::from(slot) + ((1 + number) * PAGE_SIZE) as u64;
        self.torn.insert(page, TornHome { home: Arc::clone(home), copy });
    }

    /// The page was written to its home without error.
    pub(super) fn note_whole(&mut self, page: PageId) {
        self.torn.remove(&page);
    }

    /// The pages of `file` at and above `blocks` no longer exist.
    pub(super) fn forget(&mut self, file: FileId, blocks: u32) {
        self.torn.retain(|page, _| page.file != file || page.block.0 < blocks);
    }

    /// Makes homes whole that failed writes may have torn. These homes were not written since,
    /// because their pages are still dirty. Changes that the copies lack are in the log.
    fn repair_torn(&mut self) -> Result<()> {
        let mut bytes = AlignedBuf::zeroed(PAGE_SIZE);
        while let Some((page, torn)) = self.torn.first_key_value() {
            let (home, offset) = (&torn.home, data_file::offset(page.block));
            let read = home.file.read_at(&mut bytes, offset);
            if !matches!(read, Ok(got) if got == PAGE_SIZE && is_valid(*page, &bytes)) {
                points::hit("buffer.double-write.mend");
                self.file.read_exact_at(&mut bytes, torn.copy).map_err(io_error)?;
                home.written();
                match home.file.write_all_at(&bytes, offset) {
                    // Recovery could not repair it either: a block that can be neither read nor
                    // written is no reason to stop the others.
                    Err(_) if read.is_err() => {}
                    written => written.map_err(io_error)?,
                }
            }
            self.torn.pop_first();
        }
        Ok(())
    }

    /// Empties the heads at a clean close, when all homes are durable and writing has stopped. The
    /// next opening then has nothing to recover.
    pub(super) fn retire(&mut self) -> Result<()> {
        let nothing = AlignedBuf::zeroed(PAGE_SIZE);
        let heads = read_heads(&self.file)?;
        for (_, slot) in heads.iter().filter(|(head, _)| head.sequence > 0) {
            self.file.write_all_at(&nothing, SLOT * u64::from(*slot)).map_err(io_error)?;
        }
        self.file.sync_data().map_err(Error::Io)
    }

    /// Heals torn pages after a crash, before anything reads a data file: each valid copy whose
    /// home is not a valid page replaces it (R15). With `rewrite`, valid homes are written again:
    /// a failed sync may have left them in the page cache only. Everything is durable afterwards.
    /// Returns the pages that were replaced.
    pub fn recover(io: &Io, rewrite: bool) -> Result<Vec<PageId>> {
        if !io.exists(NAME).map_err(io_error)? {
            return Ok(Vec::new());
        }
        let area = io.open_file(NAME, OpenMode::ReadOnly).map_err(io_error)?;
        let (seen, files, restored) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        let mut recovery = Recovery { io, rewrite, seen, files, restored };
        let mut heads = read_heads(&area)?;
        let newest = heads.iter().max_by_key(|(head, _)| head.sequence);
        let oldest = newest.map_or(0, |(head, _)| head.oldest_unsynced());
        heads.retain(|(head, _)| head.sequence > 0 && head.sequence >= oldest);
        // The youngest group first: only the youngest copy of a page counts.
        heads.sort_by_key(|(head, _)| std::cmp::Reverse(head.sequence));
        let mut copies = AlignedBuf::zeroed(SLOT as usize);
        for (head, slot) in heads {
            let got = area.read_at(&mut copies, SLOT * u64::from(slot)).map_err(io_error)?;
            recovery.recover_group(&head, &copies[..got])?;
        }
        for (file, _) in recovery.files.values().flatten().filter(|(_, written)| *written) {
            file.sync_data().map_err(io_error)?;
        }
        Ok(recovery.restored)
    }
}

/// Takes the space of a group of `pages` in the first slot, or of a smaller one on a full disk: the
/// space of an earlier opening is there already. Returns the pages.
fn take_space(file: &File, pages: usize) -> Result<usize> {
    let mut group = pages;
    loop {
        let bytes = ((1 + group) * PAGE_SIZE) as u64;
        match file.allocate(0, bytes).map_err(io_error) {
            Err(Error::DiskFull(_)) if group > 1 => group /= 2,
            allocated => return allocated.map(|()| group),
        }
    }
}

/// Recovery of torn homes.
struct Recovery<'a> {
    io: &'a Io,
    /// Write valid homes again.
    rewrite: bool,
    /// Pages of which a younger copy was found.
    seen: BTreeSet<PageId>,
    /// Files, none for one that is not there, and whether they were written.
    files: BTreeMap<FileId, Option<(File, bool)>>,
    restored: Vec<PageId>,
}

impl Recovery<'_> {
    fn recover_group(&mut self, head: &Head, slot: &[u8]) -> Result<()> {
        for (copy, (page, sum)) in slot.chunks_exact(PAGE_SIZE).skip(1).zip(&head.copies) {
            let meant = sum_of(copy) == *sum || points::broken(Broken::AnyValidCopyCounts);
            let youngest = meant && is_valid(*page, copy) && self.seen.insert(*page);
            if youngest && self.restore(*page, copy)? {
                self.restored.push(*page);
            }
        }
        Ok(())
    }

    /// Writes the valid `copy` home if the home is torn; true if the home was torn.
    fn restore(&mut self, page: PageId, copy: &[u8]) -> Result<bool> {
        let rewrite = self.rewrite && !points::broken(Broken::RecoveredHomesNotSynced);
        let Some((file, written)) = self.file(page.file)? else {
            return Ok(false);
        };
        let offset = data_file::offset(page.block);
        let mut home = AlignedBuf::zeroed(PAGE_SIZE);
        let got = file.read_at(&mut home, offset).map_err(io_error)?;
        // Growth of a block wholly beyond the end was lost: redo makes it again.
        let torn = got > 0 && !(got == PAGE_SIZE && is_valid(page, &home));
        if torn {
            points::hit("buffer.double-write.restore");
            home.copy_from_slice(copy);
        }
        if torn || rewrite && got > 0 {
            file.write_all_at(&home, offset).map_err(io_error)?;
            *written = true;
        }
        Ok(torn)
    }

    fn file(&mut self, id: FileId) -> Result<Option<&mut (File, bool)>> {
        if !self.files.contains_key(&id) {
            let name = data_file::name(id);
            let file = match self.io.exists(&name).map_err(io_error)? {
                true => Some(self.io.open_file(&name, OpenMode::Existing).map_err(io_error)?),
                false => None,
            };
            self.files.insert(id, file.map(|file| (file, false)));
        }
        Ok(self.files.get_mut(&id).and_then(Option::as_mut))
    }
}

/// Encodes the head of group `sequence`; `unsynced` groups before it may lack durable homes.
fn fill_head(head: &mut [u8], sequence: u64, unsynced: u32, pages: &[PageId], copies: &[u8]) {
    head.fill(0);
    head[..8].copy_from_slice(&MAGIC.to_le_bytes());
    head[16..24].copy_from_slice(&sequence.to_le_bytes());
    head[24..28].copy_from_slice(&(pages.len() as u32).to_le_bytes());
    head[28..32].copy_from_slice(&unsynced.to_le_bytes());
    let copies = pages.iter().zip(copies.chunks_exact(PAGE_SIZE));
    for (entry, (page, copy)) in head[ENTRIES..].chunks_exact_mut(ENTRY).zip(copies) {
        entry[..4].copy_from_slice(&page.file.0.to_le_bytes());
        entry[4..8].copy_from_slice(&page.block.0.to_le_bytes());
        entry[8..].copy_from_slice(&sum_of(copy).to_le_bytes());
    }
    let sum = xxh3_64(&head[16..]);
    head[8..16].copy_from_slice(&sum.to_le_bytes());
}

/// The heads of all slots; one that was never written, or torn, names no pages.
fn read_heads(file: &File) -> Result<Vec<(Head, u32)>> {
    let mut bytes = AlignedBuf::zeroed(PAGE_SIZE);
    let mut read = |slot: u32| -> Result<(Head, u32)> {
        let got = file.read_at(&mut bytes, SLOT * u64::from(slot)).map_err(io_error)?;
        if got == PAGE_SIZE && sequence_of(&bytes, OLD_MAGIC).is_some_and(|number| number > 0) {
            return Err(older());
        }
        let head = (got == PAGE_SIZE).then(|| parse_head(&bytes)).flatten();
        Ok((head.unwrap_or_default(), slot))
    };
    (0..SLOTS).map(&mut read).collect()
}

/// A clean close leaves no group behind, so one of an older version is needed to open the database.
fn older() -> Error {
    let what = "the double-write area is of an older version, and the database was not closed \
                cleanly: it must be opened and closed with the program that wrote it";
    Error::Invalid(what.into())
}

fn parse_head(head: &[u8]) -> Option<Head> {
    let u32_of = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
    let sequence = sequence_of(head, MAGIC)?;
    let count = u32_of(head.get(24..28)?)? as usize;
    let entries = head.get(ENTRIES..ENTRIES + count.checked_mul(ENTRY)?)?.chunks_exact(ENTRY);
    let copy = |entry: &[u8]| {
        let page = PageId::new(FileId(u32_of(entry.get(..4)?)?), u32_of(entry.get(4..8)?)?);
        Some((page, u32_of(entry.get(8..)?)?))
    };
    let unsynced = u32_of(head.get(28..32)?)?;
    Some(Head { sequence, unsynced, copies: entries.map(copy).collect::<Option<_>>()? })
}

/// The sequence number in a sound head of this kind.
fn sequence_of(head: &[u8], magic: u64) -> Option<u64> {
    let u64_at = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let sound = u64_at(0)? == magic && u64_at(8)? == xxh3_64(head.get(16..)?);
    if sound { u64_at(16) } else { None }
}

/// The checksum that a copy bears.
fn sum_of(copy: &[u8]) -> u32 {
    let sum = copy.first_chunk().expect("the copy is a page");
    u32::from_le_bytes(*sum)
}

fn is_valid(page: PageId, bytes: &[u8]) -> bool {
    let bytes: &[u8; PAGE_SIZE] = bytes.try_into().expect("the buffer is a page");
    checksum::verify(page, bytes).is_ok()
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use rightlink_aio::{IoOptions, Method, SimDisk};
    use rightlink_env::Env;

    use super::*;

    /// A full disk takes slots away; where it has room again they come back, without reopening.
    #[test]
    fn slots_come_back_when_there_is_space() {
        let (env, disk) = (Env::simulated(3), SimDisk::new(3));
        let options = IoOptions::with_method(Method::Sync);
        let io = Io::simulated(&env, disk.clone(), options).unwrap();
        let mut area = DoubleWrite::open(&io, 4).unwrap().expect("an area is wanted");
        let mut group = AlignedBuf::zeroed(5 * PAGE_SIZE);
        let pages: Vec<_> = (0..4).map(|block| PageId::new(FileId(70), block)).collect();
        let mut write = |area: &mut DoubleWrite| area.write(&mut group, &pages, |_| Ok(()));
        write(&mut area).unwrap();
        disk.capacity(disk.allocated());
        for _ in 0..10 {
            write(&mut area).expect("a full disk still has the first slot");
            assert_eq!(area.slots, 1);
        }
        disk.capacity(1 << 30);
        (0..40).for_each(|_| write(&mut area).unwrap());
        assert_eq!(area.slots, SLOTS);
    }
}
