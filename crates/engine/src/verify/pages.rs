//! What every page must be, in any file.
//!
//! | check | what |
//! |---|---|
//! | P1 | a kind that belongs into the file, in this format's version |
//! | P2 | the bytes match the checksum, which knows file and block |
//! | P3 | lower, upper and special are in order and inside the page |
//! | P5 | no page is zero where one was initialised |
//! | P6 | no page is newer than the log |
//! | P7 | reserved bytes are zero |
//!
//! Invariants: a page is copied under its latch and checked afterwards. A block that was cut off
//! meanwhile is skipped.
//! Does not do: check slots and contents (H0, H1, P4 and the B checks).

use crate::buffer::{ReadStream, StreamOptions};
use crate::config::{FORMAT_VERSION, PAGE_SIZE};
use crate::error::{Error, Result};
use crate::heap::overflow::GROUP as OVERFLOW_GROUP;
use crate::ids::PageId;
use crate::index::IndexMethod;
use crate::page::header::{self, HEADER_SIZE, PageKind};
use crate::table::Table;
use crate::txn::SEGMENT_PAGES;
use crate::verify::{Parts, RelationFile, Report};

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Heap,
    FreeSpace,
    Visibility,
    Overflow,
    Index(IndexMethod),
    Sequence,
    /// The meta page of the outcomes of transactions.
    Status,
    /// A segment of outcomes.
    Outcomes,
}

impl Role {
    /// May a page of this kind be block `block` of such a file?
    fn allows(self, kind: PageKind, block: u32) -> bool {
        use PageKind::*;
        match (self, block) {
            (Role::Heap, 0) => kind == HeapMeta,
            (Role::Heap, _) => kind == Heap,
            (Role::FreeSpace, _) => kind == FreeSpace,
            (Role::Visibility, _) => kind == Visibility,
            (Role::Overflow, block) if block.is_multiple_of(OVERFLOW_GROUP) => kind == OverflowMap,
            (Role::Overflow, _) => kind == Overflow,
            (Role::Sequence, block) => kind == Sequence && block == 0,
            (Role::Status, block) => kind == Status && block == 0,
            (Role::Outcomes, block) => kind == Status && block < SEGMENT_PAGES,
            (Role::Index(method), 0) => kind == method.meta_kind(),
            (Role::Index(method), _) => method.page_kinds().contains(&kind),
        }
    }
}

/// Are bytes set that no code of this format gives a meaning?
fn reserved_is_set(page: &[u8; PAGE_SIZE], kind: PageKind) -> bool {
    let set = |mut range: std::ops::Range<usize>| range.any(|at| page[at] != 0);
    match kind {
        PageKind::BtreeMeta => set(37..40),
        PageKind::Sequence => set(42..48),
        PageKind::Overflow => set(44..48),
        PageKind::OverflowMap => set(header::OWNER..header::HEADER_SIZE),
        PageKind::HashMeta => set(48..64),
        PageKind::HashBucket => {
            set(header::OWNER..header::HEADER_SIZE) || set(PAGE_SIZE - 8..PAGE_SIZE)
        }
        PageKind::BtreeLeaf | PageKind::BtreeInner => set(25..28) || set(PAGE_SIZE - 2..PAGE_SIZE),
        _ => false,
    }
}

/// Checks the pages of the files that a table's rows are in.
pub(super) fn table(parts: &Parts<'_>, table: &Table, report: &mut Report) -> Result<()> {
    let def = table.def();
    let place = |file| RelationFile { relation: &def.name, file };
    let heap = table.heap();
    file(parts, place(def.heap), Role::Heap, &|| heap.blocks(), report)?;
    file(parts, place(def.free_space_map()), Role::FreeSpace, &|| 0, report)?;
    file(parts, place(def.visibility_map()), Role::Visibility, &|| 0, report)?;
    if let Some(overflow) = table.overflow() {
        file(parts, place(overflow.file()), Role::Overflow, &|| 1, report)?;
    }
    Ok(())
}

/// Checks the pages of one file; those below `extent` were all initialised.
pub(super) fn file(
    parts: &Parts<'_>,
    place: RelationFile<'_>,
    role: Role,
    extent: &dyn Fn() -> u32,
    report: &mut Report,
) -> Result<()> {
    let file = FilePages { place, role, first: 0, extent };
    check_pages(parts, &file, report, &mut |_, _, _| Ok(()))
}

/// Pages of a file that are to be checked.
pub(super) struct FilePages<'a> {
    pub(super) place: RelationFile<'a>,
    pub(super) role: Role,
    /// The first block; those before it are left out.
    pub(super) first: u32,
    /// Blocks that were all initialised.
    pub(super) extent: &'a dyn Fn() -> u32,
}

/// Checks the content of a page, of which the kind is right.
pub(super) type Contents<'a> = &'a mut dyn FnMut(u32, &[u8; PAGE_SIZE], &mut Report) -> Result<()>;

/// Checks pages of one file, which may be removed meanwhile, and calls `contents` for each.
pub(super) fn check_pages(
    parts: &Parts<'_>,
    file: &FilePages<'_>,
    report: &mut Report,
    contents: Contents<'_>,
) -> Result<()> {
    let (place, role, mut next) = (file.place, file.role, file.first);
    let mut stream = ReadStream::new(parts.pool, StreamOptions::ORDERED, || {
        let there = parts.pool.open_blocks(place.file).is_some_and(|blocks| next < blocks);
        let block = next;
        next += u32::from(there);
        Ok(there.then(|| (PageId::new(place.file, block), block)))
    });
    let mut step = || -> Result<Option<(u32, PageRead)>> {
        let Some((tried, block)) = stream.next_tried()? else { return Ok(None) };
        parts.steps.page()?;
        let read = match tried {
            Ok(pin) => PageRead::Page(Box::new(*pin.shared().bytes())),
            Err(_) => read_again(parts, PageId::new(place.file, block))?,
        };
        Ok(Some((block, read)))
    };
    while let Some(stepped) = parts.pool.while_whole(place.file, &mut step) {
        let Some((block, read)) = stepped? else { break };
        match read {
            PageRead::Page(page) => {
                report.pages += 1;
                for (check, what) in check_page(&page, role, block, file.extent) {
                    report.add(place.finding(check, Some(block), what));
                }
                if header::kind(&page).is_some_and(|kind| role.allows(kind, block)) {
                    contents(block, &page, report)?;
                }
            }
            PageRead::Damaged(what) => {
                let check = if what.starts_with(header::BEYOND_LOG) { "P6" } else { "P2" };
                report.add(place.finding(check, Some(block), what));
            }
            PageRead::CutOff => {}
        }
    }
    Ok(())
}

/// The result of reading a page.
enum PageRead {
    Page(Box<[u8; PAGE_SIZE]>),
    Damaged(String),
    /// Cut off meanwhile.
    CutOff,
}

/// A page that could not be read at first. Its file is neither cut nor removed meanwhile, but may
/// have been before.
fn read_again(parts: &Parts<'_>, id: PageId) -> Result<PageRead> {
    if parts.pool.open_blocks(id.file).is_none_or(|blocks| id.block.0 >= blocks) {
        return Ok(PageRead::CutOff);
    }
    match parts.pool.pin(id) {
        Err(Error::Corruption { what, .. }) => Ok(PageRead::Damaged(what)),
        Err(error) => Err(error),
        Ok(pin) => Ok(PageRead::Page(Box::new(*pin.shared().bytes()))),
    }
}

/// A check and what it found.
type CheckResult = (&'static str, String);

fn check_page(
    page: &[u8; PAGE_SIZE],
    role: Role,
    block: u32,
    extent: &dyn Fn() -> u32,
) -> Vec<CheckResult> {
    let mut out = Vec::new();
    let Some(kind) = header::kind(page).filter(|kind| role.allows(*kind, block)) else {
        out.extend(unformatted(page, block, extent));
        return out;
    };
    if page[header::VERSION] != FORMAT_VERSION {
        out.push(("P1", format!("format version {}", page[header::VERSION])));
    }
    let at = |offset| usize::from(header::u16_at(page, offset));
    let (lower, upper, special) = (at(header::LOWER), at(header::UPPER), at(header::SPECIAL));
    let ordered = HEADER_SIZE <= lower && lower <= upper && upper <= special;
    let free = matches!(kind, PageKind::BtreeFree | PageKind::HashFree);
    let inside = ordered && special <= PAGE_SIZE;
    if !free && !inside {
        out.push(("P3", format!("bounds lower {lower}, upper {upper}, special {special}")));
    }
    if reserved_is_set(page, kind) {
        out.push(("P7", "reserved bytes that are not zero".into()));
    }
    out
}

/// A page without a kind that belongs here: never initialised, cut off, or damaged.
fn unformatted(
    page: &[u8; PAGE_SIZE],
    block: u32,
    extent: &dyn Fn() -> u32,
) -> Option<CheckResult> {
    if page[header::KIND] != 0 {
        let kind = page[header::KIND];
        return Some(("P1", format!("a page of kind {kind}, which does not belong here")));
    }
    // A page that was cut off keeps its checksum and its LSN.
    let rest = page[header::KIND..header::LSN].iter().chain(&page[header::LSN + 8..]);
    if rest.into_iter().any(|byte| *byte != 0) {
        return Some(("P1", "a page without a kind that is not empty".into()));
    }
    (block < extent()).then(|| ("P5", "an empty page where one was initialised".into()))
}
