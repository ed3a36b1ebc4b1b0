//! Checks of the structure, with writers running or not.
//!
//! | check | what |
//! |---|---|
//! | C0 | the walk along the list comes to its end |
//! | C1 | the meta page makes sense |
//! | C2 C3 | entries ascend by position, and lie between the fences of their page |
//! | C4 | each page begins where the one to its left ends |
//! | C5 | the code beside an entry is that of its key |
//! | C6 | header, slots and items are inside the page; items do not overlap; bytes add up |
//! | C7 | the directory names the page that a bucket begins on, or its left neighbour is flagged |
//! | C8 | every block in use is in the list, the directory or the list of free pages, once |
//! | C9 | flags mean something |
//! | B13 | no two live rows with one key (unique indexes, with an oracle) |
//!
//! Neighbours are compared under both latches. What seems wrong about the directory is looked at
//! again before it is reported. Blocks are counted only if the meta page did not change meanwhile.
//!
//! Invariants: damage that can be described is a finding, never a panic; an error is an I/O error.
//! Links are followed only to pages that begin where the last one ended, so the walk ends.
//! Does not do: compare with the heap (`crate::verify`).

use rightlink_env::thread;

use crate::buffer::Pin;
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::index::am::{HeapOracle, VerifyStats};
use crate::index::hash::page::{
    BUCKETS_PER_PAGE, Bucket, BucketEntry, FIRST, HAS_DEAD, INCOMPLETE, MAX_BUCKETS, Meta,
    PageMatch, bit_count, bucket_number, bucket_start, directory::block_of, hash_code, is_bucket,
    meta, meta::next_free,
};
use crate::index::hash::state::Index;
use crate::index::structure_check::StructureCheck;
use crate::page::header;
use crate::page::{Checked, PageFinding, PageKind};

type Page = Box<[u8; PAGE_SIZE]>;

/// What other threads may be changing is looked at so often at most.
const MAX_LOOKS: u32 = 16;

/// A page of the walk, copied.
struct BucketCopy {
    block: u32,
    page: Page,
}

/// A verification under way.
struct Verifier<'a> {
    index: &'a Index,
    check: StructureCheck<'a>,
    /// For each block how often it was met.
    met: Vec<u32>,
}

fn copy_page(pin: &Pin) -> Page {
    Box::new(*pin.shared().bytes())
}

/// The bucket that begins on a copied page.
fn begun_bucket(page: &Page) -> Option<u32> {
    Bucket::open(page).ok().and_then(|bucket| bucket.begun_bucket()).map(bucket_number)
}

impl Index {
    /// See [`crate::index::am::AccessMethod::verify`].
    pub(crate) fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(PageFinding),
    ) -> Result<VerifyStats> {
        let check = StructureCheck::new(oracle, report);
        let mut verifier = Verifier { index: self, check, met: Vec::new() };
        // Pinned until the end: a page in memory keeps its version while no thread changes it.
        let pin = self.pool.pin(self.page(0))?;
        let version = pin.version();
        let meta = match meta::parse(&copy_page(&pin)) {
            Ok(meta) => meta,
            Err(what) => {
                verifier.check.add(0, "C1", what);
                return Ok(verifier.check.stats);
            }
        };
        verifier.meta(&meta);
        verifier.list()?;
        verifier.directory(&meta)?;
        verifier.blocks(&meta, &|| pin.version() == version)?;
        Ok(verifier.check.finish(meta.depth + 1))
    }
}

impl Verifier<'_> {
    /// C1, beyond what opening asks.
    fn meta(&mut self, meta: &Meta) {
        if meta.used > self.index.pool.blocks(self.index.file) {
            self.check.add(0, "C1", format!("{} blocks in use, and the file has fewer", meta.used));
        }
        if meta.directory.first().is_none_or(|block| *block == 0) {
            self.check.add(0, "C1", "there is no directory");
        }
    }

    fn meet(&mut self, block: u32) {
        let at = block as usize;
        if self.met.len() <= at {
            self.met.resize(at + 1, 0);
        }
        self.met[at] += 1;
    }

    /// Walks along the list.
    fn list(&mut self) -> Result<()> {
        let first = self.index.pin_linked(FIRST);
        let Some(pin) = self.check.sound(first, "C0")? else { return Ok(()) };
        let mut here = BucketCopy { block: FIRST, page: copy_page(&pin) };
        let mut left = None;
        drop(pin);
        if Bucket::open(&here.page).is_ok_and(|bucket| !bucket.low().is_empty()) {
            self.check.add(FIRST, "C4", "the first page of the list has a low fence");
        }
        loop {
            self.meet(here.block);
            if !self.page(&here)? {
                return Ok(());
            }
            self.named(&here, left)?;
            left = Some(here.block);
            let next = self.next(&here);
            match self.check.sound(next, "C0")?.flatten() {
                Some(next) => here = next,
                None => return Ok(()),
            }
        }
    }

    /// The page to the right, compared with this one under both latches.
    fn next(&mut self, here: &BucketCopy) -> Result<Option<BucketCopy>> {
        let Ok(Some(end)) = Bucket::open(&here.page).map(|bucket| bucket.high()) else {
            return Ok(None);
        };
        for _ in 0..MAX_LOOKS {
            match self.right_neighbour(here.block, end)? {
                Some(Ok(next)) => return Ok(Some(next)),
                Some(Err(what)) => {
                    self.check.add(here.block, "C4", what);
                    return Ok(None);
                }
                None => {}
            }
            // The page was split or merged meanwhile: another page takes the position now.
            let pin = self.index.find_page(end)?;
            let page = copy_page(&pin);
            if Bucket::open(&page).is_ok_and(|bucket| bucket.match_position(end) == PageMatch::Here)
            {
                return Ok(Some(BucketCopy { block: pin.page().block.0, page }));
            }
        }
        Err(self.index.corrupt(here.block, "the page to the right is not found"))
    }

    /// The right neighbour of the page at `block`, or what is wrong between them. `None`: the page
    /// does not end at `end` any more.
    fn right_neighbour(&self, block: u32, end: &[u8]) -> Result<Option<Checked<BucketCopy>>> {
        let left = self.index.pin_linked(block)?;
        let ends = |page: &[u8; PAGE_SIZE]| {
            let bucket = Bucket::open(page).ok().filter(|bucket| bucket.high() == Some(end));
            bucket.map(|bucket| bucket.right)
        };
        let Some(right) = ends(left.shared().bytes()) else { return Ok(None) };
        if right == block {
            return Ok(Some(Err("a page leads to itself")));
        }
        let pin = self.index.pin_linked(right)?;
        let (left_page, right_page) = (left.shared(), pin.shared());
        if ends(left_page.bytes()) != Some(right) {
            return Ok(None);
        }
        let begins = match Bucket::open(right_page.bytes()) {
            Ok(bucket) => bucket.low() == end,
            Err(_) if is_bucket(right_page.bytes()) => true,
            Err(_) => return Ok(Some(Err("a link to a page without entries"))),
        };
        let page = Box::new(*right_page.bytes());
        let begun = begins.then_some(BucketCopy { block: right, page });
        Ok(Some(begun.ok_or("the page to the right begins elsewhere")))
    }

    /// Everything about one page; false if it cannot be read on.
    fn page(&mut self, here: &BucketCopy) -> Result<bool> {
        let bucket = match Bucket::open(&here.page) {
            Ok(bucket) => bucket,
            Err(what) => {
                self.check.add(here.block, "C6", what);
                return Ok(false);
            }
        };
        if bucket.flags & !(INCOMPLETE | HAS_DEAD) != 0
            || (bucket.flags & INCOMPLETE != 0 && bucket.next_bucket().is_none())
        {
            self.check.add(here.block, "C9", format!("flags {:#x} of a page", bucket.flags));
        }
        self.check.stats.leaves += 1;
        self.check.used_bytes += bucket.used_bytes() as u64;
        if let Some(what) = layout(&bucket) {
            self.check.add(here.block, "C6", what);
        }
        let entries = match BucketEntry::all(&bucket) {
            Ok(entries) => entries,
            Err(what) => {
                self.check.add(here.block, "C6", what);
                return Ok(true);
            }
        };
        self.entries(here.block, &bucket, &entries);
        for BucketEntry { key, row, .. } in &entries {
            self.check.check_unique(here.block, key, *row);
        }
        Ok(true)
    }

    fn entries(&mut self, block: u32, bucket: &Bucket<'_>, entries: &[BucketEntry<'_>]) {
        let dead = entries.iter().filter(|entry| entry.dead).count();
        self.check.count_entries(entries.len(), dead);
        let positions: Vec<Vec<u8>> = entries.iter().map(BucketEntry::position).collect();
        for (at, (entry, position)) in entries.iter().zip(&positions).enumerate() {
            if entry.code != hash_code(entry.key) {
                self.check.add(block, "C5", format!("entry {at} has the code of another key"));
            }
            if at > 0 && positions[at - 1] >= *position {
                self.check.add(block, "C2", format!("entry {at} does not follow the one before"));
            }
            if bucket.match_position(position) != PageMatch::Here {
                self.check.add(block, "C3", format!("entry {at} belongs on another page"));
            }
        }
    }

    /// C7: does the directory name the page, if a bucket begins on it?
    fn named(&mut self, here: &BucketCopy, left: Option<u32>) -> Result<()> {
        for _ in 0..MAX_LOOKS {
            let named = self.is_named(here.block, left);
            if self.check.sound(named, "C7")?.unwrap_or(true) {
                return Ok(());
            }
            thread::yield_now();
        }
        self.check.add(
            here.block,
            "C7",
            "the directory does not name the page where a bucket begins",
        );
        Ok(())
    }

    fn is_named(&self, block: u32, left: Option<u32>) -> Result<bool> {
        let begun = begun_bucket(&copy_page(&self.index.pin_linked(block)?));
        let Some(bucket) = begun.filter(|bucket| *bucket < MAX_BUCKETS) else { return Ok(true) };
        if self.index.directory_entry(bucket)? == block {
            return Ok(true);
        }
        let Some(left) = left else { return Ok(false) };
        let page = copy_page(&self.index.pin_linked(left)?);
        Ok(Bucket::open(&page).map_or(true, |left| {
            // If it is not the left neighbour any more, the next look meets the new one.
            left.right == block && left.flags & INCOMPLETE != 0
        }))
    }

    /// C7: does a bucket begin on each page that the directory names?
    fn directory(&mut self, meta: &Meta) -> Result<()> {
        for (at, block) in meta.directory.iter().enumerate().filter(|(_, block)| **block != 0) {
            self.meet(*block);
            self.check.stats.inner += 1;
            let pin = self.index.pin_linked(*block);
            let Some(pin) = self.check.sound(pin, "C7")? else { continue };
            let page = copy_page(&pin);
            drop(pin);
            if header::kind(&page) != Some(PageKind::HashDirectory) {
                self.check.add(*block, "C7", "not a page of the directory");
                continue;
            }
            let first = at as u32 * BUCKETS_PER_PAGE;
            for bucket in first..first + BUCKETS_PER_PAGE {
                if block_of(&page, bucket) != 0 {
                    self.directory_entry(*block, bucket)?;
                }
            }
        }
        Ok(())
    }

    fn directory_entry(&mut self, block: u32, bucket: u32) -> Result<()> {
        for _ in 0..MAX_LOOKS {
            let entry = self.index.directory_entry(bucket)?;
            if entry == 0 {
                return Ok(());
            }
            let known = self.index.depth();
            let pin = self.index.pin_linked(entry);
            let Some(pin) = self.check.sound(pin, "C7")? else { return Ok(()) };
            if begun_bucket(&copy_page(&pin)) == Some(bucket) && bit_count(bucket) <= known {
                return Ok(());
            }
        }
        let code = bucket_start(bucket);
        self.check.add(
            block,
            "C7",
            format!("no bucket begins at code {code:#010x} where it should"),
        );
        Ok(())
    }

    /// C8, if the meta page did not change meanwhile.
    fn blocks(&mut self, meta: &Meta, unchanged: &dyn Fn() -> bool) -> Result<()> {
        let (mut free, mut count) = (meta.free, 0);
        self.meet(0);
        while free != 0 && count <= meta.free_count && unchanged() {
            count += 1;
            self.meet(free);
            let pin = self.index.pin_linked(free);
            let Some(pin) = self.check.sound(pin, "C8")? else { return Ok(()) };
            let Some(next) = next_free(&copy_page(&pin)) else {
                if unchanged() {
                    self.check.add(
                        free,
                        "C8",
                        "the list of free pages leads to one that is not free",
                    );
                }
                return Ok(());
            };
            free = next;
        }
        self.check.stats.free = u64::from(meta.free_count);
        let met = std::mem::take(&mut self.met);
        if !unchanged() {
            return Ok(());
        }
        if count != meta.free_count {
            self.check.add(
                0,
                "C8",
                format!("{} free pages, and the list has others", meta.free_count),
            );
        }
        for block in 0..meta.used.max(met.len() as u32) {
            let times = met.get(block as usize).copied().unwrap_or(0);
            let expected = u32::from(block < meta.used);
            if times != expected {
                self.check.add(block, "C8", format!("a block that is used {times} times"));
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What is wrong with the offsets of the items.
fn layout(bucket: &Bucket<'_>) -> Option<&'static str> {
    let items = (0..bucket.count).map(|i| bucket.item(i)).collect::<Checked<Vec<_>>>();
    let mut items = items.ok()?;
    items.sort_unstable_by_key(|item| item.start);
    if items.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Some("items overlap");
    }
    let bytes: usize = items.iter().map(|item| item.end - item.start).sum();
    if bytes + bucket.garbage != bucket.special - bucket.upper {
        return Some("the bytes of the items do not add up");
    }
    None
}
