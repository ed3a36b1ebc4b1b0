//! The state of write-back: the group size, the plan of a checkpoint, and the double-write
//! area.
//!
//! A plan lists the dirty pages that a checkpoint wants, in file order, and is used up group by
//! group. A checkpoint with another position makes a new plan.
//!
//! Invariants: the state is locked while a group is written, so that one group is written at a
//! time.
//! Does not do: write (`write_back`).

use rightlink_aio::AlignedBuf;

use crate::buffer::core::Core;
use crate::buffer::double_write::{self, DoubleWrite};
use crate::buffer::frame::{DIRTY, Frame, VALID};
use crate::ids::{FileId, Lsn, PageId};

/// Group size where the device writes pages atomically.
const DEFAULT_GROUP: usize = 64;

/// State of the write-back, behind a lock that is held for a group.
#[derive(Debug)]
pub(super) struct WriteBack {
    /// Pages of the largest group.
    pub(super) group: usize,
    pub(super) area: Option<DoubleWrite>,
    /// Memory of an earlier group, for the next one.
    pub(super) spare: Option<AlignedBuf>,
    /// Pages still to be written for `plan_below`, the last one next.
    plan: Vec<PageId>,
    plan_below: Lsn,
}

impl WriteBack {
    /// Bytes that a plan needs for each frame.
    pub(super) const BYTES_PER_FRAME: usize = size_of::<PageId>();

    /// Pages of a group: an eighth of a small pool, a quarter of a tiny one.
    pub(super) fn group_pages(frames: usize, double_write_pages: usize) -> usize {
        let wanted = if double_write_pages == 0 { DEFAULT_GROUP } else { double_write_pages };
        wanted.min((frames / 8).max(4)).min(frames / 4).clamp(1, double_write::MAX_PAGES)
    }

    pub(super) fn new(group: usize, area: Option<DoubleWrite>) -> WriteBack {
        WriteBack { group, area, spare: None, plan: Vec::new(), plan_below: Lsn(0) }
    }

    /// The pages of `file` at and above `blocks` are gone.
    pub(super) fn forget(&mut self, file: FileId, blocks: u32) {
        self.plan.clear();
        if let Some(area) = &mut self.area {
            area.forget(file, blocks);
        }
    }

    /// The next pages that were first dirtied before `below`, in file order.
    pub(super) fn next_group(&mut self, core: &Core, below: Lsn) -> Vec<PageId> {
        if self.plan.is_empty() || self.plan_below != below {
            self.plan = dirty_pages(core, |frame| below == LATEST || frame.rec_lsn() < below.0);
            self.plan.reverse();
            self.plan_below = below;
        }
        let keep = self.plan.len().saturating_sub(self.group);
        let mut pages = self.plan.split_off(keep);
        pages.reverse();
        pages
    }
}

/// Every dirty page, whatever redo needs.
const LATEST: Lsn = Lsn(u64::MAX);

/// The dirty pages that `wanted` lets through, in file order.
pub(super) fn dirty_pages(core: &Core, wanted: impl Fn(&Frame) -> bool) -> Vec<PageId> {
    let dirty = |frame: &&Frame| {
        let state = frame.state();
        state & VALID != 0 && state & DIRTY != 0 && wanted(frame)
    };
    let mut pages: Vec<_> = core.arena.frames().iter().filter(dirty).map(Frame::tag).collect();
    pages.sort_unstable();
    pages
}
