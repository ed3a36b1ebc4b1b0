//! Bulk build of a tree from sorted entries.
//!
//! Leaves are filled from left to right at their fill factor, inner pages above them likewise.
//! Then the meta page publishes the root.
//!
//! Invariants: entries arrive in ascending order of key and row id (asserted). A built tree holds
//! the same entries as an inserted one, and verifies.
//! Does not do: sort; check uniqueness (the caller compares neighbours).
//! PostgreSQL: `nbtsort.c`.

use rightlink_env::sync::Arc;

use crate::buffer::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::FileId;
use crate::index::am::{AccessMethod, IndexBuilder, IndexEntry, check_entry_sizes};
use crate::index::btree::page::edit::{EntryValue, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::meta;
use crate::index::btree::page::node::{ROOT, SLOT, common};
use crate::index::btree::page::posting::{self, PostingRow, key_of};
use crate::index::btree::page::tree_key::separator;
use crate::index::btree::page::tree_key::tree_key;
use crate::index::btree::tree::{BTree, TreeOptions};
use crate::index::build_file::BuildFile;
use crate::page::header::FLAGS;

/// Rows of one key that are collected before they become lists.
const ROWS: usize = 4096;

/// A bulk build.
pub struct Builder {
    build: BuildFile,
    options: TreeOptions,
    levels: Vec<BuildLevel>,
    last: Vec<u8>,
    /// Rows of the last key that are in no page yet.
    rows: Vec<PostingRow>,
}

/// The page of one level that is being filled.
struct BuildLevel {
    block: u32,
    header: NodeHeader,
    entries: Entries,
    /// Bytes of the entries if the page had no prefix.
    bytes: usize,
}

/// The rightmost page of a level.
struct LastPage {
    block: u32,
    low: Vec<u8>,
    image: Box<[u8; PAGE_SIZE]>,
}

/// A page that is full, with its first `kept` entries.
struct FinishedPage {
    kept: usize,
    image: Box<[u8; PAGE_SIZE]>,
    /// Its high key, and the low fence of the next page.
    separator: Vec<u8>,
}

impl IndexBuilder for Builder {
    fn push(&mut self, entry: &IndexEntry<'_>) -> Result<()> {
        Builder::push(self, entry)
    }

    fn finish(self: Box<Self>) -> Result<Arc<dyn AccessMethod>> {
        Ok(Arc::new(Builder::finish(*self)?))
    }
}

impl Builder {
    /// A build into `file`, which exists and is empty.
    pub fn new(pool: &Arc<BufferPool>, file: FileId, options: TreeOptions) -> Result<Builder> {
        let mut builder = Builder {
            build: BuildFile::new(pool, file)?,
            options,
            levels: Vec::new(),
            last: Vec::new(),
            rows: Vec::new(),
        };
        builder.start_level()?;
        Ok(builder)
    }

    /// The next entry, larger than the one before.
    ///
    /// # Panics
    /// If it is not.
    pub fn push(&mut self, entry: &IndexEntry<'_>) -> Result<()> {
        check_entry_sizes(std::slice::from_ref(entry))?;
        let key = tree_key(entry.key, entry.row);
        assert!(self.last < key, "a build takes entries in ascending order, each once");
        let alone = !self.options.deduplicate || !entry.payload.is_empty();
        if alone || key_of(&self.last) != entry.key {
            self.flush_rows()?;
        }
        match alone {
            true => {
                self.add(0, &key, EntryValue { extra: entry.payload, ..EntryValue::default() })?
            }
            false => self.rows.push(PostingRow::first(entry.row, false)),
        }
        // Memory stays bounded: a list never takes that many.
        if self.rows.len() == ROWS {
            self.flush_rows()?;
        }
        self.last = key;
        Ok(())
    }

    /// Adds the rows that were collected for the last key.
    fn flush_rows(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let mut lists = Entries::default();
        let most = posting::MAX_BYTES.min(self.options.capacity / 6);
        lists.push_lists(key_of(&self.last), &rows, most);
        (0..lists.len()).try_for_each(|i| self.add(0, lists.key(i), lists.value(i)))
    }

    /// Writes what is left, syncs, publishes, and opens the tree.
    pub fn finish(mut self) -> Result<BTree> {
        self.flush_rows()?;
        let (root, level) = self.close_level(0)?;
        self.build.publish(&meta::image(root, level))?;
        BTree::open(&self.build.pool, self.build.file, self.options)
    }

    /// The image of the last page of a level. Entries that were estimated to fit and do not go to a
    /// page of their own.
    fn last_page(&mut self, at: usize) -> Result<LastPage> {
        loop {
            let level = &mut self.levels[at];
            if let Some(image) = level.header.image_of(&level.entries) {
                let (block, low) = (level.block, level.header.low.clone());
                return Ok(LastPage { block, low, image });
            }
            let last = level.entries.len() - 1;
            let (key, value) = (level.entries.key(last).to_vec(), level.entries.value(last));
            let (extra, child, tags) = (value.extra.to_vec(), value.child, value.tags);
            level.entries.pop();
            self.finish_page(at, &key)?;
            self.levels[at].push(&key, EntryValue { extra: &extra, child, tags });
        }
    }

    /// Writes the last page of level `at` and of those above; the only page of its level is the
    /// root.
    fn close_level(&mut self, at: usize) -> Result<(u32, u8)> {
        let LastPage { block, low, mut image } = self.last_page(at)?;
        let is_root = at + 1 == self.levels.len();
        if is_root {
            image[FLAGS] |= ROOT as u8;
        }
        self.build.write(block, &image)?;
        if is_root {
            return Ok((block, at as u8));
        }
        self.add(at + 1, &low, EntryValue { child: block, ..EntryValue::default() })?;
        self.close_level(at + 1)
    }

    fn start_level(&mut self) -> Result<()> {
        let block = self.build.allocate()?;
        let unused_bytes = PAGE_SIZE - self.options.capacity;
        let level = self.levels.len() as u8;
        let header = NodeHeader { level, unused_bytes, ..NodeHeader::default() };
        self.levels.push(BuildLevel { block, header, entries: Entries::default(), bytes: 0 });
        Ok(())
    }

    /// Appends to the page of a level, finishing it first when it has reached its fill.
    fn add(&mut self, at: usize, key: &[u8], value: EntryValue<'_>) -> Result<()> {
        if at == self.levels.len() {
            self.start_level()?;
        }
        if self.levels[at].is_full(key, value, &self.options) {
            self.finish_page(at, key)?;
            // Entries that did not fit stayed behind and are small: a page holds at least one
            // entry.
            return self.add(at, key, value);
        }
        self.levels[at].push(key, value);
        Ok(())
    }

    /// Writes the page of level `at`, which `next` is to the right of, and begins another.
    fn finish_page(&mut self, at: usize, next: &[u8]) -> Result<()> {
        let right = self.build.allocate()?;
        let level = &mut self.levels[at];
        let count = level.entries.len();
        let FinishedPage { kept, image, separator: low } = (1..=count)
            .rev()
            .find_map(|kept| level.finished(kept, next, right))
            .expect("a page with one entry always fits");
        let rest: Vec<usize> = (kept..count).collect();
        let header =
            NodeHeader { left: level.block, low, right: 0, high: None, ..level.header.clone() };
        let fresh = BuildLevel { block: right, header, entries: Entries::default(), bytes: 0 };
        let done = std::mem::replace(level, fresh);
        for i in rest {
            self.levels[at].push(done.entries.key(i), done.entries.value(i));
        }
        self.build.write(done.block, &image)?;
        self.add(
            at + 1,
            &done.header.low,
            EntryValue { child: done.block, ..EntryValue::default() },
        )
    }
}

impl BuildLevel {
    fn push(&mut self, key: &[u8], value: EntryValue<'_>) {
        self.entries.push(key, value);
        self.bytes += self.entries.size(self.entries.len() - 1, self.header.level, 0);
    }

    /// Would one more entry exceed the fill factor? Sizes are estimated as if no key ended inside
    /// its head.
    fn is_full(&self, key: &[u8], value: EntryValue<'_>, options: &TreeOptions) -> bool {
        let count = self.entries.len();
        let (fill, least) = match self.header.level {
            0 => (options.leaf_fill, 1),
            _ => (options.inner_fill, 2),
        };
        if count < least {
            return false;
        }
        let prefix = common(self.header.base(&self.entries, 0, count), key);
        let more = key.len() + value.extra.len() + 12;
        let least = (count + 1) * (SLOT + 1);
        let used = (self.bytes + more).saturating_sub((count + 1) * prefix).max(least);
        used + self.header.fixed(prefix) + prefix > options.capacity * usize::from(fill) / 100
    }

    /// Image with the first `kept` entries, and the separator to the right of it; `next` follows
    /// the last.
    fn finished(&self, kept: usize, next: &[u8], right: u32) -> Option<FinishedPage> {
        let count = self.entries.len();
        let after = if kept == count { next } else { self.entries.key(kept) };
        let before = self.entries.last_key(kept - 1);
        let high = if self.header.level == 0 { separator(&before, after) } else { after };
        let header = NodeHeader { right, high: Some(high.to_vec()), ..self.header.clone() };
        let image = header.image(&self.entries, 0, kept)?;
        Some(FinishedPage { kept, image, separator: high.to_vec() })
    }
}
