//! The double-write area: whole copies of pages that are about to be written home, so that a page
//! torn by a crash can be healed (decision 6).
//!
//! The file `doublewrite` has two halves, used in turn: a head page, then the copies. The head
//! says:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 8 | xxHash3 of the rest of the head |
//! | 16 | 8 | sequence number of the group |
//! | 24 | 4 | number of copies |
//! | 32 | 8 each | file and block of each copy |
//!
//! Invariants:
//! - The area is durable before the first home of its group is written; the homes of a group are
//!   durable before its half is used again. So a home that a crash tore has a valid copy.
//! - Recovery replaces a home only if its bytes are not a valid page, and never makes a file
//!   longer: what growth was lost, redo makes again.
//!
//! Does not do: choose pages; heal what was damaged other than by a crash of this instance.

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
const MAGIC: u64 = u64::from_le_bytes(*b"RLDWRT01");
/// Most pages of a group.
pub(super) const MAX_PAGES: usize = 512;
/// Bytes of a half, the same whatever the group size, so that recovery finds both.
const HALF: u64 = ((1 + MAX_PAGES) * PAGE_SIZE) as u64;
const ENTRIES: usize = 32;
const _: () = assert!(ENTRIES + 8 * MAX_PAGES <= PAGE_SIZE);

/// The area of an open database.
#[derive(Debug)]
pub struct DoubleWrite {
    file: File,
    sequence: u64,
    /// Files whose homes were written after each half, and perhaps not synced yet.
    homes: [Vec<Arc<DataFile>>; 2],
}

/// What a head says.
#[derive(Debug, Default)]
struct Head {
    sequence: u64,
    pages: Vec<PageId>,
}

impl DoubleWrite {
    /// Opens or makes the area for groups of `group` pages; removes an old one if it is not
    /// `wanted`, because its copies would soon be older than the homes. Recovery has run before.
    pub(super) fn open(io: &Io, group: usize, wanted: bool) -> Result<Option<DoubleWrite>> {
        assert!((1..=MAX_PAGES).contains(&group), "a group fits a half");
        let exists = io.exists(NAME).map_err(io_error)?;
        if !wanted {
            if exists {
                io.remove(NAME).map_err(io_error)?;
                io.sync_dir("").map_err(io_error)?;
            }
            return Ok(None);
        }
        let file = io.open_file(NAME, OpenMode::Create).map_err(io_error)?;
        if !exists {
            file.sync_all().map_err(io_error)?;
            io.sync_dir("").map_err(io_error)?;
        }
        let sequence = read_heads(&file)?.iter().map(|head| head.sequence).max().unwrap_or(0);
        Ok(Some(DoubleWrite { file, sequence, homes: Default::default() }))
    }

    /// Makes the copies of `pages` durable: `group` holds a page for the head, then the copies.
    /// After that their homes may be written. `sync_home` makes the homes of an earlier group
    /// durable.
    pub(super) fn write(
        &mut self,
        group: &mut AlignedBuf,
        pages: &[PageId],
        sync_home: impl Fn(&DataFile) -> Result<()>,
    ) -> Result<()> {
        assert!((1..=MAX_PAGES).contains(&pages.len()), "a group fits a half");
        let half = ((self.sequence + 1) % 2) as usize;
        for home in &self.homes[half] {
            sync_home(home)?;
        }
        self.homes[half].clear();
        self.sequence += 1;
        fill_head(&mut group[..PAGE_SIZE], self.sequence, pages);
        let bytes = &group[..(1 + pages.len()) * PAGE_SIZE];
        self.file.write_all_at(bytes, HALF * half as u64).map_err(io_error)?;
        points::hit("buffer.double-write.before-sync");
        self.file.sync_data().map_err(Error::Io)
    }

    /// The homes of the group just written lie in `files`.
    pub(super) fn remember_homes(&mut self, files: Vec<Arc<DataFile>>) {
        let half = (self.sequence % 2) as usize;
        assert!(self.homes[half].is_empty(), "the homes before were synced");
        self.homes[half] = files;
    }

    /// Heals torn pages after a crash, before anything reads a data file: each valid copy whose
    /// home is not a valid page replaces it. Returns the pages that were replaced; they are
    /// durable.
    pub fn recover(io: &Io) -> Result<Vec<PageId>> {
        if !io.exists(NAME).map_err(io_error)? {
            return Ok(Vec::new());
        }
        let area = io.open_file(NAME, OpenMode::ReadOnly).map_err(io_error)?;
        let mut restored = Vec::new();
        let mut heads: Vec<_> = read_heads(&area)?.into_iter().zip([0, HALF]).collect();
        // The younger half first: what it restores, the older one leaves alone.
        heads.sort_by_key(|(head, _)| std::cmp::Reverse(head.sequence));
        for (head, start) in heads {
            for (place, page) in head.pages.iter().enumerate() {
                let at = start + ((1 + place) * PAGE_SIZE) as u64;
                if restore(io, &area, at, *page)? {
                    restored.push(*page);
                }
            }
        }
        Ok(restored)
    }
}

fn fill_head(head: &mut [u8], sequence: u64, pages: &[PageId]) {
    head.fill(0);
    head[..8].copy_from_slice(&MAGIC.to_le_bytes());
    head[16..24].copy_from_slice(&sequence.to_le_bytes());
    head[24..28].copy_from_slice(&(pages.len() as u32).to_le_bytes());
    for (entry, page) in head[ENTRIES..].chunks_exact_mut(8).zip(pages) {
        entry[..4].copy_from_slice(&page.file.0.to_le_bytes());
        entry[4..].copy_from_slice(&page.block.0.to_le_bytes());
    }
    let sum = xxh3_64(&head[16..]);
    head[8..16].copy_from_slice(&sum.to_le_bytes());
}

/// The heads of both halves; one that was never written, or torn, names no pages.
fn read_heads(file: &File) -> Result<[Head; 2]> {
    let mut bytes = AlignedBuf::zeroed(PAGE_SIZE);
    let mut read = |at: u64| -> Result<Head> {
        let got = file.read_at(&mut bytes, at).map_err(io_error)?;
        Ok(if got == PAGE_SIZE { parse_head(&bytes).unwrap_or_default() } else { Head::default() })
    };
    Ok([read(0)?, read(HALF)?])
}

fn parse_head(head: &[u8]) -> Option<Head> {
    let u64_at = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let u32_of = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
    if u64_at(0)? != MAGIC || u64_at(8)? != xxh3_64(head.get(16..)?) {
        return None;
    }
    let count = u32_of(head.get(24..28)?)? as usize;
    let entries = head.get(ENTRIES..ENTRIES + count.checked_mul(8)?)?.chunks_exact(8);
    let page = |entry: &[u8]| {
        Some(PageId::new(FileId(u32_of(entry.get(..4)?)?), u32_of(entry.get(4..)?)?))
    };
    Some(Head { sequence: u64_at(16)?, pages: entries.map(page).collect::<Option<_>>()? })
}

/// Puts the copy at `at` of the area home if it is valid and the home is not.
fn restore(io: &Io, area: &File, at: u64, page: PageId) -> Result<bool> {
    let mut copy = AlignedBuf::zeroed(PAGE_SIZE);
    let name = data_file::name(page.file);
    let got = area.read_at(&mut copy, at).map_err(io_error)?;
    if got != PAGE_SIZE || !is_valid(page, &copy) || !io.exists(&name).map_err(io_error)? {
        return Ok(false);
    }
    let file = io.open_file(&name, OpenMode::Existing).map_err(io_error)?;
    let offset = data_file::offset(page.block);
    let mut home = AlignedBuf::zeroed(PAGE_SIZE);
    let got = file.read_at(&mut home, offset).map_err(io_error)?;
    // A block wholly beyond the end was grown and lost again: redo's business.
    if got == 0 || (got == PAGE_SIZE && is_valid(page, &home)) {
        return Ok(false);
    }
    points::hit("buffer.double-write.restore");
    file.write_all_at(&copy, offset).map_err(io_error)?;
    file.sync_data().map_err(io_error)?;
    Ok(true)
}

fn is_valid(page: PageId, bytes: &[u8]) -> bool {
    let bytes: &[u8; PAGE_SIZE] = bytes.try_into().expect("the buffer is a page");
    checksum::verify(page, bytes).is_ok()
}
