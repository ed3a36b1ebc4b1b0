//! Online checks of a heap: pages are copied under the shared latch and checked afterwards.
//!
//! | check | meaning |
//! |---|---|
//! | H0 | the page is a heap page with sane bounds, its free space is zero |
//! | H1 | line pointers and tuples lie in the page and do not overlap, flags have a meaning |
//! | H3 | xids lie between the table's oldest unfrozen one and the next one |
//! | H4 | no committed version follows an aborted one |
//! | H5 | no version was ended before it existed |
//! | H6 | HOT chains: the successor exists, has one parent, is reachable; links stay in the table |
//! | H7 | redirects lead to heap-only versions |
//! | H8 | hints agree with the commit status |
//! | H9 | the free-space map promises no more than there is (harmless: inserts correct it) |
//! | H10 | all-visible and all-frozen are true, on the page and in the map |
//!
//! Invariants: a finding is reported, never returned as an error, and the check goes on. A version
//! in doubt because of running transactions is never reported.
//! Does not do: H2, H11, H12 (columns and overflow), comparison with indexes (all in `verify/`).
//!
//! PostgreSQL: `contrib/amcheck/verify_heapam.c`.

pub(in crate::heap) mod inspect;
mod page;
pub(in crate::heap) mod root;

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::page::HeapPage;
use crate::heap::space::free_space;
use crate::heap::space::visibility_map::{self, VisibilityBits};
use crate::heap::verify::page::{PageCheck, PageCopy};
use crate::heap::visibility::HeapVisibility;
use crate::ids::{BlockNo, Xid};
use crate::page::PageFinding;

/// The check of which findings are harmless: no reader sees anything wrong.
pub(crate) const HARMLESS_CHECK: &str = "H9";

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VerifyStats {
    /// Pages.
    pub pages: u64,
    /// Row versions.
    pub versions: u64,
    /// Line pointers in use.
    pub line_pointers: u64,
}

/// Looks at a page again when outcomes were forgotten meanwhile, at most this often.
const MAX_LOOKS: u32 = 16;

impl Heap {
    /// Checks all pages and reports findings. An error is one of reading, not a finding.
    pub fn verify(&self, report: &mut dyn FnMut(PageFinding)) -> Result<VerifyStats> {
        let mut stats = VerifyStats::default();
        let oldest = self.oldest_unfrozen()?;
        // Blocks that the meta page promises beyond the end of the file are damage of the file,
        // not of pages.
        let end = self.blocks().min(self.pool().blocks(self.files().heap));
        let mut stream = self.stream(1..end.max(1), |_| Ok(true));
        while let Some((_ahead, block)) = stream.next_tried()? {
            // Vacuum may freeze a page after it was copied, and forget outcomes the copy names.
            for _ in 0..MAX_LOOKS {
                let kept = self.txns().oldest_xid();
                let (mut found, mut seen) = (Vec::new(), VerifyStats::default());
                let checked = self.verify_page(block, oldest, &mut seen, &mut |f| found.push(f));
                if self.txns().oldest_xid() != kept {
                    continue;
                }
                if let Err(error) = checked {
                    let Error::Corruption { what, .. } = error else { return Err(error) };
                    found.push(PageFinding::new(block, "H0", what));
                }
                found.into_iter().for_each(&mut *report);
                stats.pages += seen.pages;
                stats.versions += seen.versions;
                stats.line_pointers += seen.line_pointers;
                break;
            }
        }
        Ok(stats)
    }

    fn verify_page(
        &self,
        block: u32,
        oldest: Xid,
        stats: &mut VerifyStats,
        report: &mut dyn FnMut(PageFinding),
    ) -> Result<()> {
        let Some(copy) = self.copy_page(block)? else { return Ok(()) };
        stats.pages += 1;
        let mut check = PageCheck {
            block,
            visibility: HeapVisibility::new(self.txns()),
            xids: oldest..self.txns().next_xid(),
            horizon: self.txns().horizon(),
            extent: self.blocks(),
            report: &mut *report,
        };
        check.check_page(self.page_id(block), &copy, stats)?;
        self.verify_free_space(block, &copy.bytes, report)
    }

    /// The page and its map bits, from one moment. `None`: it was cut off.
    fn copy_page(&self, block: u32) -> Result<Option<PageCopy>> {
        let (pool, map) = (self.pool(), self.files().visibility);
        let map_page = visibility_map::page_of(map, block);
        let exists = map_page.block.0 < pool.blocks(map);
        let map_pin = exists.then(|| pool.pin(map_page)).transpose()?;
        let pin = self.pin(BlockNo(block))?;
        let latch = pin.shared();
        if !self.is_data_block(block) {
            return Ok(None);
        }
        let bits = match &map_pin {
            Some(map_pin) => visibility_map::get(map_page, map_pin.shared().bytes(), block)?,
            None => VisibilityBits::default(),
        };
        Ok(Some(PageCopy { bytes: Box::new(*latch.bytes()), bits }))
    }

    fn verify_free_space(
        &self,
        block: u32,
        bytes: &[u8; PAGE_SIZE],
        report: &mut dyn FnMut(PageFinding),
    ) -> Result<()> {
        let Ok(page) = HeapPage::open(self.page_id(block), bytes) else { return Ok(()) };
        let promised = free_space::promised(self.free_space().get(block)?);
        let room = page.room();
        if promised > room {
            let what = format!("the free-space map promises {promised} bytes, there are {room}");
            report(PageFinding::new(block, HARMLESS_CHECK, what));
        }
        Ok(())
    }
}
