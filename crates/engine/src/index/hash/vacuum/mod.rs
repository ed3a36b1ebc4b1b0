//! The vacuum pass along the list: dead entries are removed, and sparse pages are merged into
//! their left neighbour.
//!
//! The pass goes by position: each page is the one that takes the position where the last one
//! ended. Only the pass itself moves entries left, and only behind itself; a split moves them right
//! (R5). So the pass meets every entry. First pages of buckets are read ahead by the directory.
//!
//! | file | content |
//! |---|---|
//! | `delete` | removal of entries by key, or by place on a page |
//! | `merge` | a page is merged into its left neighbour |
//!
//! Invariants: a page without dead entries is latched shared only. Entries removed under the
//! exclusive latch were found dead on the same bytes. Row ids in the dead set are not reused before
//! the pass has ended (R3).
//! Does not do: decide which rows are dead; two passes at once.
//! PostgreSQL: `hashbulkdelete`, which needs a cleanup lock on each bucket.

mod delete;
mod merge;

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{Mutex, MutexGuard};

use crate::buffer::{Mtr, Pin, ReadStream, StreamOptions};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::Tries;
use crate::index::am::{Between, BulkDelete, IsDead, VacuumStats};
use crate::index::hash::page::{Bucket, FIRST, PageMatch, match_page};
use crate::index::hash::state::Index;
use crate::page::Checked;
use crate::wal::RecordKind;

/// A pass, which has one part.
pub(crate) struct HashBulkDelete<'a> {
    index: &'a Index,
    stats: Mutex<VacuumStats>,
    _turn: MutexGuard<'a, ()>,
}

/// The part under way.
struct VacuumPass<'a> {
    index: &'a Index,
    stats: VacuumStats,
    /// All entries before this position were visited; `None`: all entries.
    at: Option<Vec<u8>>,
    /// Where the next page probably is, 0: unknown.
    right_link: u32,
    /// The page visited last.
    left: Option<LeftPage>,
}

/// A page that another may be merged into.
#[derive(Clone, Copy)]
struct LeftPage {
    block: u32,
    used_bytes: usize,
}

/// A visited page, when its latch was released.
struct VisitedPage {
    end: Option<Vec<u8>>,
    right: u32,
    used_bytes: usize,
    live: usize,
}

impl Index {
    /// See [`crate::index::am::AccessMethod::begin_delete`].
    pub(crate) fn begin_delete(&self) -> HashBulkDelete<'_> {
        HashBulkDelete { index: self, stats: Mutex::default(), _turn: self.vacuum.lock() }
    }
}

impl BulkDelete for HashBulkDelete<'_> {
    fn parts(&self) -> usize {
        1
    }

    fn run(&self, part: usize, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()> {
        assert_eq!(part, 0, "there is one part");
        let (stats, at) = (VacuumStats::default(), Some(Vec::new()));
        let mut pass = VacuumPass { index: self.index, stats, at, right_link: FIRST, left: None };
        pass.run(is_dead, between)?;
        *self.stats.lock() = pass.stats;
        Ok(())
    }

    fn finish(&self, _between: Between<'_>) -> Result<VacuumStats> {
        let mut stats = *self.stats.lock();
        stats.pages_free = self.index.meta()?.free_count;
        stats.blocks = self.index.pool.blocks(self.index.file);
        Ok(stats)
    }
}

impl VacuumPass<'_> {
    fn run(&mut self, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()> {
        let index = self.index;
        let mut starts = index.bucket_starts();
        let mut stream = ReadStream::new(&index.pool, StreamOptions::ORDERED, || {
            let start = starts()?;
            Ok(start.map(|start| (index.page(start.block), start.code)))
        });
        while let Some((pin, code)) = stream.next()? {
            drop(pin);
            let start = code.to_be_bytes();
            while self.at.as_ref().is_some_and(|at| at.as_slice() < &start[..]) {
                self.visit_next(is_dead)?;
                between(1)?;
            }
        }
        while self.at.is_some() {
            self.visit_next(is_dead)?;
            between(1)?;
        }
        Ok(())
    }

    /// Visits the page that takes the position of the pass.
    fn visit_next(&mut self, is_dead: IsDead<'_>) -> Result<()> {
        let at = self.at.clone().expect("called while a position is left");
        hit("hash.vacuum.visit");
        let mut tries = Tries::default();
        loop {
            let pin = match std::mem::take(&mut self.right_link) {
                0 => self.index.find_page(&at)?,
                link => self.index.pin_linked(link)?,
            };
            let block = pin.page().block.0;
            let Some(visited) = self.visit(pin, &at, is_dead)? else {
                let index = &self.index;
                tries.again(&index.pool, index.page(0), "a pass makes no progress")?;
                continue;
            };
            self.stats.live += visited.live as u64;
            (self.at, self.right_link) = (visited.end, visited.right);
            return self.merge_sparse(LeftPage { block, used_bytes: visited.used_bytes });
        }
    }

    /// Removes the dead entries of a page; `None` if the page does not take `at`.
    fn visit(&mut self, pin: Pin, at: &[u8], is_dead: IsDead<'_>) -> Result<Option<VisitedPage>> {
        let block = pin.page().block.0;
        let damage = |what| self.index.corrupt(block, what);
        let page = pin.shared();
        if !takes(page.bytes(), at).map_err(damage)? {
            return Ok(None);
        }
        let mut dead = dead_entries(page.bytes(), is_dead).map_err(damage)?;
        if dead.is_empty() {
            return VisitedPage::of(page.bytes()).map(Some).map_err(damage);
        }
        let version = page.version();
        drop(page);
        let mut mtr = Mtr::new(&self.index.pool);
        let held = mtr.latch(pin);
        if mtr.version(held) != version && !broken(Broken::HashVerdictNotRepeated) {
            if !takes(mtr.bytes(held), at).map_err(damage)? {
                return Ok(None);
            }
            dead = dead_entries(mtr.bytes(held), is_dead).map_err(damage)?;
        }
        if !dead.is_empty() {
            self.index.remove_entries(&mut mtr, held, &dead)?;
            self.stats.pages_changed += 1;
            self.stats.removed += dead.len() as u64;
        }
        let visited = VisitedPage::of(mtr.bytes(held));
        mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
        visited.map(Some).map_err(damage)
    }

    /// Merges the page visited now into the one visited before, if both are sparse.
    fn merge_sparse(&mut self, page: LeftPage) -> Result<()> {
        let before = self.left.replace(page);
        let Some(left) = before.filter(|left| left.block != page.block) else { return Ok(()) };
        if !self.index.may_merge(left.used_bytes + page.used_bytes) {
            return Ok(());
        }
        self.index.finish_split(left.block)?;
        self.index.finish_split(page.block)?;
        if let Some(used_bytes) = self.index.merge(left.block, page.block)? {
            self.stats.pages_deleted += 1;
            self.left = Some(LeftPage { used_bytes, ..left });
        }
        Ok(())
    }
}

fn takes(page: &[u8; PAGE_SIZE], position: &[u8]) -> Checked<bool> {
    Ok(match_page(page, position)? == PageMatch::Here)
}

impl VisitedPage {
    fn of(page: &[u8; PAGE_SIZE]) -> Checked<VisitedPage> {
        let bucket = Bucket::open(page)?;
        Ok(VisitedPage {
            end: bucket.high().map(<[u8]>::to_vec),
            right: bucket.right,
            used_bytes: bucket.used_bytes(),
            live: bucket.count,
        })
    }
}

/// Places of the dead entries of a page.
fn dead_entries(page: &[u8; PAGE_SIZE], is_dead: IsDead<'_>) -> Checked<Vec<usize>> {
    let bucket = Bucket::open(page)?;
    let rows = (0..bucket.count).map(|i| bucket.item(i).map(|item| item.row));
    let rows = rows.collect::<Checked<Vec<_>>>()?;
    let mut dead = vec![false; rows.len()];
    if !rows.is_empty() {
        is_dead(&rows, &mut dead);
    }
    Ok((0..rows.len()).filter(|at| dead[*at]).collect())
}
