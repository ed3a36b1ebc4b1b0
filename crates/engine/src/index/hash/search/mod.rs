//! The search for a page: a guess from the directory, then along the right links.
//!
//! | file | content |
//! |---|---|
//! | `directory` | from a code to the page that the directory names |
//! | `bucket_groups` | the pages of a batch, named by the directory alone |
//!
//! Invariants: a page is used only if its fences hold the position (R6). A search that arrives at a
//! page that was split moves right; at a page that was merged or reused it starts again. Moving
//! right leads only to pages that begin later, so damaged links cannot form a ring.
//! Does not do: keep a latch; the caller checks the fences again under its own.
//! PostgreSQL: `_hash_getbucketbuf_from_hashkey`.

mod bucket_groups;
pub(crate) mod directory;

use crate::buffer::Pin;
use crate::error::Result;
use crate::index::Tries;
use crate::index::hash::page::{Bucket, FIRST, PageMatch, is_bucket, split_code};
use crate::index::hash::state::Index;
use crate::page::Checked;

impl Index {
    /// The page whose fences held `position` a moment ago, pinned.
    pub(crate) fn find_page(&self, position: &[u8]) -> Result<Pin> {
        let mut tries = Tries::default();
        let mut is_first = true;
        loop {
            if let Some(pin) = self.try_find_page(position, is_first)? {
                return Ok(pin);
            }
            tries.again(&self.pool, self.page(0), "links that lead nowhere")?;
            is_first = false;
            rightlink_env::thread::yield_now();
        }
    }

    /// As [`Index::find_page`], once and without reading: `None` if a page is not in memory.
    pub(crate) fn find_page_in_memory(&self, position: &[u8]) -> Result<Option<Pin>> {
        let (code, _) = split_code(position);
        let block = self.first_page_in_memory(code);
        block.map_or(Ok(None), |block| {
            self.move_right(block, position, Vec::new(), |block| {
                Ok(self.pool.try_pin(self.page(block)))
            })
        })
    }

    /// One search; `None` if pages changed meanwhile.
    fn try_find_page(&self, position: &[u8], is_first: bool) -> Result<Option<Pin>> {
        let (code, _) = split_code(position);
        let pin_linked = |block| self.pin_linked(block).map(Some);
        for bucket in self.buckets_of(code) {
            let block = if bucket == 0 { FIRST } else { self.directory_entry(bucket)? };
            if block == 0 {
                continue;
            }
            let pin = self.pin_linked(block)?;
            let mut low = Vec::new();
            match self.match_next(&pin, position, &mut low)? {
                PageMatch::Here => return Ok(Some(pin)),
                PageMatch::MoveRight(right) => {
                    return self.move_right(right, position, low, pin_linked);
                }
                PageMatch::Lost if bucket == 0 && !is_first => {
                    return Err(self.corrupt(FIRST, "the first page holds no entries"));
                }
                // The bucket was merged into its parent, which comes next.
                PageMatch::Lost => {}
            }
        }
        Ok(None)
    }

    /// Moves right from `block`, which follows a page that ends at `low`. `None`: pages changed
    /// meanwhile, or `pin` returned none.
    fn move_right(
        &self,
        mut block: u32,
        position: &[u8],
        mut low: Vec<u8>,
        pin: impl Fn(u32) -> Result<Option<Pin>>,
    ) -> Result<Option<Pin>> {
        loop {
            let Some(pin) = pin(block)? else { return Ok(None) };
            match self.match_next(&pin, position, &mut low)? {
                PageMatch::Here => return Ok(Some(pin)),
                PageMatch::MoveRight(right) => block = right,
                PageMatch::Lost => return Ok(None),
            }
        }
    }

    /// Where `position` is, by the next page on the way, which must not begin before `low`. `low`
    /// becomes its high fence.
    fn match_next(&self, pin: &Pin, position: &[u8], low: &mut Vec<u8>) -> Result<PageMatch> {
        let page = pin.shared();
        if !is_bucket(page.bytes()) {
            return Ok(PageMatch::Lost);
        }
        let mut matched = || -> Checked<PageMatch> {
            let bucket = Bucket::open(page.bytes())?;
            if bucket.low() < low.as_slice() {
                return Ok(PageMatch::Lost);
            }
            low.clear();
            low.extend_from_slice(bucket.high().unwrap_or_default());
            Ok(bucket.match_position(position))
        };
        matched().map_err(|what| self.corrupt(pin.page().block.0, what))
    }
}
