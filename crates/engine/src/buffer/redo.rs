//! Redo of page changes: applies log records to pages that are older.
//!
//! Invariants:
//! - A change whose end is not above the page's LSN is skipped, because the page has it. So
//!   applying the same log twice gives the same pages.
//! - Changes of one page are applied in log order. Pages may be taken in any order: a change names
//!   one page only, and whether a page is skipped depends on its own changes.
//! - A change of a page that was never formatted is skipped: the page was cut off later.
//! - A missing file is made, empty. Opening removes it later if the catalog does not name it.
//!
//! Does not do: read the log, choose the order (`recovery::redo`).

use rightlink_env::sync::Ordering;

use crate::buffer::pin::Pin;
use crate::buffer::pool::BufferPool;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId};
use crate::page::{delta, header};

/// How redo gets a page before it applies changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedoPage {
    /// Its file has it: read it, then apply.
    Read,
    /// The first change is an image: the bytes of the file do not matter.
    Make,
    /// It lies beyond the end of its file and nothing makes it: leave its changes out.
    Skip,
}

impl BufferPool {
    /// How redo gets `page`, where `image` says whether its first change is an image. Opens the
    /// file.
    pub fn redo_plan(&self, page: PageId, image: bool) -> Result<RedoPage> {
        let file = self.core.files.open_or_create(page.file)?;
        Ok(match image {
            true => RedoPage::Make,
            false if page.block.0 < file.blocks() => RedoPage::Read,
            false => RedoPage::Skip,
        })
    }

    /// Makes `file` at least `blocks` long.
    pub fn redo_extend(&self, file: FileId, blocks: u32) -> Result<()> {
        self.core.files.open_or_create(file)?.extend_to(blocks)
    }

    /// Applies `changes` (end of the record and delta, in log order) to the pinned page; redo of
    /// the page would need the log from `from`.
    pub fn redo_page<'a>(
        &self,
        pin: Pin,
        from: Lsn,
        changes: impl Iterator<Item = (Lsn, &'a [u8])>,
    ) -> Result<()> {
        let page = pin.page();
        let mut latched = pin.exclusive();
        let mut redone = 0;
        for (end, delta) in changes {
            let lsn = header::lsn(latched.bytes());
            if lsn == Lsn(0) && !delta::is_image(delta) {
                continue;
            }
            // A page that has the change is written again, too. After a failed sync it may be in
            // the page cache only, and no later sync would make it durable (R13).
            self.core.mark_dirty(latched.pin().frame(), from.0);
            if lsn >= end {
                continue;
            }
            let mut target = latched.page_mut(None);
            if let Err(what) = delta::apply(&mut target, delta) {
                // The page is half changed (R19).
                self.core.poisoned.store(true, Ordering::SeqCst);
                return Err(Error::corrupt(page, what));
            }
            header::set_lsn(&mut target, end);
            redone += 1;
        }
        self.core.counters.redone.add(redone);
        Ok(())
    }
}
