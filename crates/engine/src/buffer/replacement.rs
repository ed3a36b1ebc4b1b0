//! Replacement: chooses the page that leaves memory.
//!
//! A page that was read enters the small queue. If it is used again there, it moves to the main
//! queue, else it leaves first. So a scan passes through a tenth of the pool. A fingerprint of an
//! evicted page is kept for a while; a page that returns in time enters the main queue. The main
//! queue is a clock: a used page goes round again.
//!
//! Invariants:
//! - A frame is in the free list, in one queue, or owned by the thread that loads it.
//! - Only clean, unpinned frames are taken (R20). The caller writes dirty ones and asks again.
//! - The pool's frames bound every queue, so no memory grows.
//!
//! Does not do: write back, wait.
//!
//! After S3-FIFO (Yang et al., 2023), with bounded searches that pass over dirty pages.

use std::collections::{BTreeSet, VecDeque};

use crate::buffer::frame::{Arena, DIRTY, Frame, VALID, pins};
use crate::buffer::page_table::spread;
use crate::ids::PageId;

/// Frames that a search looks at in one queue before it asks for write-back.
const DEPTH: usize = 128;

/// Answer of the attempt to take one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// It is taken.
    Taken,
    /// It is pinned, or another thread took it.
    Busy,
    /// It must be written first.
    Dirty,
}

/// Result of a search for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Victim {
    /// A frame that held nothing.
    Free(u32),
    /// A frame whose page was taken out of memory.
    Evicted(u32),
    /// Some frames could be taken if they were written first.
    AllDirty,
    /// Every frame is pinned.
    AllPinned,
}

/// How much of the pool a search covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Depth {
    /// A few frames of each queue, unless all of those are pinned.
    Usual,
    /// Everything.
    Whole,
}

/// Which dirty frames are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaving {
    /// Those that leave next.
    Soon,
    /// Those that could leave at all, the next ones first.
    Ever,
}

/// Free list, queues and fingerprints.
#[derive(Debug)]
pub(super) struct Replacement {
    free: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: Box<[u32]>,
    small_target: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

impl Replacement {
    /// All of `frames` frames are free.
    pub(super) fn new(frames: usize) -> Replacement {
        assert!(frames > 0, "a pool has frames");
        Replacement {
            free: (0..frames as u32).rev().collect(),
            small: VecDeque::with_capacity(frames),
            main: VecDeque::with_capacity(frames),
            ghosts: vec![0; frames].into(),
            small_target: (frames / 10).max(1),
        }
    }

    /// Bytes that the queues need for each frame.
    pub(super) const BYTES_PER_FRAME: usize = 4 * 4;

    /// A page came into `frame`.
    pub(super) fn admit(&mut self, frame: u32, page: PageId) {
        if self.remembers(page) {
            self.main.push_back(frame)
        } else {
            self.small.push_back(frame)
        }
        assert!(self.small.len() + self.main.len() + self.free.len() <= self.ghosts.len());
    }

    /// `frame` holds no page any more.
    pub(super) fn release(&mut self, frame: u32) {
        self.free.push(frame);
        assert!(self.free.len() <= self.ghosts.len(), "a frame is free once");
    }

    /// Takes `frames` (in ascending order), which lost their pages, out of the queues.
    pub(super) fn forget(&mut self, frames: &[u32]) {
        assert!(frames.is_sorted(), "the frames are searched by bisection");
        self.small.retain(|frame| frames.binary_search(frame).is_err());
        self.main.retain(|frame| frames.binary_search(frame).is_err());
        frames.iter().for_each(|&frame| self.release(frame));
    }

    /// Finds a frame; `take` tries to take one out of the page table.
    pub(super) fn victim(
        &mut self,
        arena: &Arena,
        whole: Depth,
        take: impl Fn(&Frame, u32) -> Attempt,
    ) -> Victim {
        if let Some(frame) = self.free.pop() {
            return Victim::Free(frame);
        }
        let from_small = self.small.len() >= self.small_target || self.main.is_empty();
        let (first, second) =
            if from_small { (Queue::Small, Queue::Main) } else { (Queue::Main, Queue::Small) };
        let mut dirty = false;
        // Only when the usual depth finds nothing but pinned frames is everything searched.
        for depth in [DEPTH, usize::MAX] {
            for queue in [first, second] {
                match self.search(queue, arena, depth, &take) {
                    (Some(frame), _) => return Victim::Evicted(frame),
                    (None, saw_dirty) => dirty |= saw_dirty,
                }
            }
            if dirty && whole == Depth::Usual {
                return Victim::AllDirty;
            }
        }
        if dirty { Victim::AllDirty } else { Victim::AllPinned }
    }

    fn search(
        &mut self,
        which: Queue,
        arena: &Arena,
        depth: usize,
        take: impl Fn(&Frame, u32) -> Attempt,
    ) -> (Option<u32>, bool) {
        let (mut at, mut dirty) = (0, false);
        let mut steps = self.queue(which).len().saturating_mul(4).min(depth.saturating_mul(4));
        while at < self.queue(which).len().min(depth) && steps > 0 {
            steps -= 1;
            let index = self.queue(which)[at];
            let frame = arena.frame(index);
            if self.goes_round(which, at, frame) {
                continue;
            }
            match take(frame, index) {
                Attempt::Taken => {
                    self.queue(which).remove(at);
                    self.remember(frame.tag());
                    return (Some(index), dirty);
                }
                outcome => dirty |= outcome == Attempt::Dirty,
            }
            at += 1;
        }
        (None, dirty)
    }

    /// Moves the frame at `at` to the end of the main queue if it was used since it was last seen.
    fn goes_round(&mut self, which: Queue, at: usize, frame: &Frame) -> bool {
        let usage = frame.usage();
        let again = if which == Queue::Small { usage > 1 } else { usage > 0 };
        if again {
            frame.set_usage(if which == Queue::Small { 0 } else { usage - 1 });
            let moved = self.queue(which).remove(at).expect("the caller looked at this place");
            self.main.push_back(moved);
        }
        again
    }

    /// Moves those of `pages` (in ascending order) that are still dirty to the end: they could not
    /// be written, and others might.
    pub(super) fn postpone(&mut self, arena: &Arena, pages: &[PageId]) {
        assert!(pages.is_sorted(), "the pages are searched by bisection");
        let goes = |frame: &u32| {
            let frame = arena.frame(*frame);
            frame.state() & DIRTY != 0 && pages.binary_search(&frame.tag()).is_ok()
        };
        let mut last: Vec<u32> = Vec::with_capacity(pages.len());
        for queue in [&mut self.small, &mut self.main] {
            last.extend(queue.iter().copied().filter(goes));
        }
        let goes: BTreeSet<u32> = last.iter().copied().collect();
        self.small.retain(|frame| !goes.contains(frame));
        self.main.retain(|frame| !goes.contains(frame));
        self.main.extend(last);
    }

    fn queue(&mut self, which: Queue) -> &mut VecDeque<u32> {
        match which {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// Up to `limit` dirty, unpinned frames among the `window` that leave next, in that order. With
    /// [`Leaving::Soon`] none while `window` frames are free.
    pub(super) fn dirty_candidates(
        &self,
        arena: &Arena,
        window: usize,
        limit: usize,
        when: Leaving,
    ) -> Vec<u32> {
        if when == Leaving::Soon && self.free.len() >= window {
            return Vec::new();
        }
        let wanted = |frame: &u32| {
            let state = arena.frame(*frame).state();
            state & VALID != 0 && state & DIRTY != 0 && pins(state) == 0
        };
        let usage = |frame: &u32| arena.frame(*frame).usage();
        let (small, main) = (self.small.iter().copied(), self.main.iter().copied());
        if when == Leaving::Ever {
            return small.chain(main).filter(wanted).take(limit).collect();
        }
        // Frames that go round again do not leave.
        let small = small.filter(|frame| usage(frame) <= 1).take(window);
        if self.small.len() >= self.small_target || self.main.is_empty() {
            return small.filter(wanted).take(limit).collect();
        }
        let main = main.filter(|frame| usage(frame) == 0).take(window);
        main.filter(wanted).take(limit).collect()
    }

    fn remember(&mut self, page: PageId) {
        let hash = spread(page);
        let place = (hash >> 32) as usize % self.ghosts.len();
        self.ghosts[place] = hash as u32 | 1;
    }

    fn remembers(&mut self, page: PageId) -> bool {
        let hash = spread(page);
        let place = (hash >> 32) as usize % self.ghosts.len();
        let known = self.ghosts[place] == hash as u32 | 1;
        if known {
            self.ghosts[place] = 0;
        }
        known
    }
}
