//! The look-ahead distance of a read stream.
//!
//! The distance counts reads ahead of the consumer. A read may join several neighbours, with a
//! limit of its own. Both start at 1, or at the number of entries that the consumer expects. They
//! grow eightfold when the consumer really waited, and shrink late.
//!
//! Invariants:
//! - At distance 1 a stream looks at nothing ahead, so a `LIMIT 1` or a cached run costs nothing.
//! - The distance never exceeds twice what the device serves at once: more would only take frames.
//! - A page that left memory before its delivery bounds the distance for a long time: the pool is
//!   too small for a longer one.
//!
//! Does not do: read (`read_stream`).
//!
//! After PostgreSQL's `storage/aio/read_stream.c`, with faster growth and later decay.

use rightlink_env::sync::{AtomicU32, Ordering};

use crate::buffer::insertions::Insertions;
use crate::buffer::locality::Locality;
use crate::buffer::prefetch_policy::{Prefetch, PrefetchSetting};
use crate::buffer::stats::{Counter, StreamStats};

/// Most neighbours that one read joins (128 KiB).
pub(super) const MAX_JOIN: u32 = 16;
/// Reads are started when one in so many of the distance is free, and one in so many of the
/// operations that the device serves at once.
pub(super) const TOGETHER: usize = 4;
/// Factor by which the distance grows at each wait. A scan that ends soon limits itself (`want`),
/// so a long one need not wait many times at its start.
const GROWTH: u32 = 8;
/// Most reads ahead where the system reads ahead along the file. Of more, the first have left the
/// processor's caches before they are delivered.
const ALONG: u32 = 8;
/// Deliveries in a row that need no read before the distance shrinks.
const IDLE_LIMIT: u32 = 1024;
/// Deliveries after which a ceiling is lifted by one.
const LIFT: u32 = 256;

/// The state that all streams of a pool share.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) policy: PrefetchSetting,
    /// 0 until it is measured or set.
    depth: AtomicU32,
    pub(super) insertions: Insertions,
    reads: Counter,
    joined: Counter,
    wasted: Counter,
    waits: Counter,
    delivered: Counter,
    distance_sum: Counter,
    depth_sum: Counter,
}

/// Reads in flight that a device is assumed to serve until it is measured or set.
const USUAL_DEPTH: u32 = 64;

impl Streams {
    pub(super) fn depth(&self) -> u32 {
        match self.depth.load(Ordering::Relaxed) {
            0 => USUAL_DEPTH,
            depth => depth,
        }
    }

    pub(super) fn set_depth(&self, depth: u32) {
        assert!(depth > 0, "a device serves something");
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// A stream has ended.
    pub(super) fn add(&self, stats: &StreamStats) {
        self.reads.add(stats.reads);
        self.joined.add(stats.joined);
        self.wasted.add(stats.wasted);
        self.waits.add(stats.waits);
        self.delivered.add(stats.delivered);
        self.distance_sum.add(stats.distance_sum);
        self.depth_sum.add(stats.depth_sum);
    }

    /// Counters of the streams that have ended.
    pub(super) fn stats(&self) -> StreamStats {
        StreamStats {
            reads: self.reads.get(),
            joined: self.joined.get(),
            wasted: self.wasted.get(),
            waits: self.waits.get(),
            delivered: self.delivered.get(),
            distance_sum: self.distance_sum.get(),
            depth_sum: self.depth_sum.get(),
        }
    }
}

/// Bounds of a distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most reads ahead.
    pub(super) reads: u32,
    /// Most blocks of the window.
    pub(super) blocks: u32,
    /// Entries that the consumer expects to take, as far as it knows: the distance at the start.
    pub(super) expected: u32,
    /// Reads are done before `submit` returns, so that none is ever waited for.
    pub(super) inline: bool,
    /// Reads go through the page cache, and the system reads ahead, too.
    pub(super) buffered: bool,
}

/// The distance of one stream.
#[derive(Debug)]
pub(super) struct Distance {
    policy: Prefetch,
    bounds: Bounds,
    reads: u32,
    join: u32,
    ceiling: u32,
    /// Most reads ahead beside other insertions.
    share: u32,
    idle: u32,
    since_loss: u32,
    /// The system reads ahead along the file.
    along: bool,
}

impl Distance {
    pub(super) fn new(policy: Prefetch, bounds: Bounds) -> Distance {
        assert!(bounds.reads > 0 && bounds.blocks > 0, "a stream reads what it hands over");
        let most = bounds.reads.min(bounds.blocks);
        let fixed = policy.fixed_reads().unwrap_or(1);
        let start = if policy.is_adaptive() { bounds.expected } else { fixed };
        let waits = !bounds.inline || !policy.is_adaptive();
        let reads = start.clamp(1, if waits { most } else { most.min(2) });
        let mut new = Distance {
            policy,
            bounds,
            reads,
            join: 1,
            ceiling: most,
            share: u32::MAX,
            idle: 0,
            since_loss: 0,
            along: false,
        };
        new.join = start.clamp(1, new.longest());
        new
    }

    pub(super) fn policy(&self) -> Prefetch {
        self.policy
    }

    /// Reads that may be in flight, or done and not delivered.
    pub(super) fn reads(&self) -> usize {
        let reads = self.reads.min(self.share);
        (if self.along { reads.min(ALONG) } else { reads }) as usize
    }

    /// Blocks that one read may join.
    pub(super) fn join(&self) -> usize {
        self.join as usize
    }

    /// Distinct blocks that the window holds: so many that the next read finds all its neighbours,
    /// and no more than the pool can keep, since all of them may be read before one is delivered.
    pub(super) fn window(&self) -> usize {
        match self.reads() {
            1 => 1,
            reads if self.policy.is_simple() => reads,
            reads => (reads + 1).saturating_mul(self.join()).min(self.bounds.blocks as usize),
        }
    }

    /// Leaves reading ahead to the system where it serves the stream best, after the reads so far.
    /// Returns whether the next read takes the first opening of its file. Policies that stand for
    /// the ways of others always do.
    pub(super) fn follow(&mut self, locality: &Locality) -> bool {
        self.along = self.policy.is_adaptive() && self.bounds.buffered && locality.is_long();
        self.along || !self.policy.is_adaptive()
    }

    /// From now on the stream is at most `share` reads ahead.
    pub(super) fn set_share(&mut self, share: u32) {
        assert!(share > 0, "a stream reads what it hands over");
        self.share = share;
    }

    /// The consumer waited.
    pub(super) fn waited(&mut self) {
        self.idle = 0;
        if self.policy.is_adaptive() {
            let reads = if self.bounds.inline { 2 } else { self.reads.saturating_mul(GROWTH) };
            (self.reads, self.join) = (reads.min(self.ceiling), self.longer());
        } else if self.policy.is_simple() {
            self.reads = self.reads.saturating_mul(2).min(self.ceiling);
        }
    }

    fn longest(&self) -> u32 {
        MAX_JOIN.min(self.bounds.blocks / 4).max(1)
    }

    fn longer(&self) -> u32 {
        (self.join * GROWTH).min(self.longest())
    }

    /// A page that was read ahead is delivered.
    pub(super) fn used(&mut self) {
        self.idle = 0;
        self.since_loss += 1;
        let most = self.bounds.reads.min(self.bounds.blocks);
        if self.since_loss >= LIFT && self.ceiling < most {
            self.ceiling += 1;
            self.since_loss = 0;
        }
        if self.bounds.inline && self.policy.is_adaptive() {
            self.join = self.longer();
        }
    }

    /// A page that was read ahead left memory before its delivery.
    pub(super) fn lost(&mut self) {
        if self.policy.is_adaptive() || self.policy.is_simple() {
            self.reads = (self.reads / 2).max(1);
            self.ceiling = self.reads;
            self.join = self.join.min(self.reads);
            self.since_loss = 0;
        }
    }

    /// A page was in memory, or no page was needed.
    pub(super) fn idle(&mut self) {
        if self.policy.is_simple() {
            self.reads = (self.reads - 1).max(1);
        } else if self.policy.is_adaptive() && self.reads > 1 {
            self.idle += 1;
            if self.idle > IDLE_LIMIT {
                (self.reads, self.idle) = (self.reads / 2, 0);
                self.join = self.join.min(self.reads);
            }
        }
    }

    /// Starts again.
    pub(super) fn restart(&mut self) {
        *self = Distance::new(self.policy, self.bounds);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::ids::{BlockNo, PageId};

    const BOUNDS: Bounds =
        Bounds { reads: 128, blocks: 1000, expected: 1, inline: false, buffered: false };

    #[test]
    fn it_grows_by_waits_and_shrinks_late() {
        let mut distance = Distance::new(Prefetch::Adaptive, BOUNDS);
        assert_eq!((distance.reads(), distance.window()), (1, 1));
        (0..20).for_each(|_| distance.waited());
        assert_eq!((distance.reads(), distance.join(), distance.window()), (128, 16, 1000));
        (0..IDLE_LIMIT).for_each(|_| distance.idle());
        assert_eq!(distance.reads(), 128, "a warm stretch is often a short one");
        (0..8 * IDLE_LIMIT + 8).for_each(|_| distance.idle());
        assert_eq!((distance.reads(), distance.window()), (1, 1));
    }

    #[test]
    fn it_starts_at_what_is_expected() {
        for (expected, reads) in [(0, 1), (5, 5), (300, 128), (u32::MAX, 128)] {
            let bounds = Bounds { expected, ..BOUNDS };
            assert_eq!(Distance::new(Prefetch::Adaptive, bounds).reads(), reads);
            let inline = Distance::new(Prefetch::Adaptive, Bounds { inline: true, ..bounds });
            assert_eq!(
                inline.reads(),
                reads.min(2),
                "more would be read before they are asked for"
            );
            assert_eq!(Distance::new(Prefetch::Fixed(7), bounds).reads(), 7);
        }
    }

    #[test]
    fn a_lost_page_is_a_ceiling() {
        let mut distance = Distance::new(Prefetch::Adaptive, BOUNDS);
        (0..3).for_each(|_| distance.waited());
        distance.lost();
        distance.waited();
        assert_eq!(distance.reads(), 64, "no swinging up to where pages are lost");
        (0..LIFT).for_each(|_| distance.used());
        distance.waited();
        assert_eq!(distance.reads(), 65);
    }

    #[test]
    fn long_order_is_left_to_the_system() {
        let mut order = Locality::default();
        let bounds = Bounds { expected: u32::MAX, ..BOUNDS };
        let mut direct = Distance::new(Prefetch::Adaptive, bounds);
        let mut buffered = Distance::new(Prefetch::Adaptive, Bounds { buffered: true, ..bounds });
        assert!(!direct.follow(&order) && !buffered.follow(&order), "reads are planned");
        let start = |block| PageId { block: BlockNo(block), ..PageId::default() };
        (0..100).for_each(|step| order.note(start(step * 16), 16));
        assert!(!direct.follow(&order) && buffered.follow(&order));
        assert_eq!((direct.reads(), direct.window()), (128, 1000));
        assert_eq!((buffered.reads(), buffered.window()), (8, 144));
        order.note(start(1_000_000), 1);
        assert!(!buffered.follow(&order), "a jump ends it");
        assert_eq!((buffered.reads(), buffered.window()), (128, 1000));
    }

    #[test]
    fn a_share_bounds_it_for_as_long_as_it_is_small() {
        let expected = u32::MAX;
        let mut distance = Distance::new(Prefetch::Adaptive, Bounds { expected, ..BOUNDS });
        distance.set_share(4);
        assert_eq!((distance.reads(), distance.window()), (4, 80));
        distance.set_share(1);
        assert_eq!((distance.reads(), distance.window()), (1, 1));
        distance.set_share(u32::MAX);
        assert_eq!((distance.reads(), distance.window()), (128, 1000));
    }

    #[test]
    fn a_fixed_distance_stays() {
        let mut fixed = Distance::new(Prefetch::Fixed(7), BOUNDS);
        fixed.waited();
        fixed.idle();
        fixed.lost();
        assert_eq!((fixed.reads(), fixed.window()), (7, 56));
    }
}
