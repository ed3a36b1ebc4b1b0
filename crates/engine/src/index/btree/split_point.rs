//! Where to split a page.
//!
//! Near the middle, at the shortest separator within a tolerance; but behind the last entries of a
//! page that grows at its end (ascending keys, rightmost or not), behind the new entry where a run
//! of keys ascends inside the page, between two keys rather than between two rows of one, and near
//! the end of a page that holds rows of one key alone.
//!
//! Invariants: every split point is in the answer, the best first: the caller takes the first for
//! which both halves fit. A strategy is a guess about what comes next; any answer is sound.
//! Does not do: build the halves (`split`).

use crate::index::btree::edit::{self, Frame};
use crate::index::btree::entries::Entries;
use crate::index::btree::node::{SLOT, common};
use crate::index::btree::posting::{row_of, whose};
use crate::index::btree::split::separator_at;
use crate::index::btree::{Optimisations, Tree};

/// Percent of a page that stays when it holds rows of one key, and they grow at the end.
const ONE_KEY_FILL: usize = 96;

/// What is expected of the insertions to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Strategy {
    /// Nothing.
    Middle,
    /// They follow the last entry: the left page keeps so many percent.
    Fill(usize),
    /// They follow this entry.
    Behind(usize),
}

impl Tree {
    /// Split points of `entries`, which overflow because of the one with `key`; best first.
    pub(crate) fn split_order(&self, entries: &Entries, frame: &Frame, key: &[u8]) -> Vec<usize> {
        let points = Points::measure(entries, frame);
        let new = entries.position(key);
        // Inside a list nothing follows it.
        let last = frame.level > 0 || *entries.last_key(new) == *key;
        let strategy = match self.uses(Optimisations::SPLIT_STRATEGIES) && last {
            true => self.strategy(entries, frame, new),
            false => Strategy::Middle,
        };
        let capacity = self.options.capacity;
        let tolerance = match self.uses(Optimisations::SHORT_SEPARATORS) {
            true => capacity / 16,
            false => 0,
        };
        let mut order = match strategy {
            Strategy::Fill(percent) => {
                let wanted = capacity * percent / 100;
                points.by_preference(|point| point.left.abs_diff(wanted), tolerance / 4)
            }
            _ => points.by_preference(Point::imbalance, tolerance),
        };
        if frame.level == 0 && strategy == Strategy::Middle && tolerance > 0 {
            keep_keys_whole(&mut order, entries, &points, capacity / 4);
        }
        if let Strategy::Behind(entry) = strategy {
            order.retain(|at| *at != entry + 1);
            order.insert(0, entry + 1);
        }
        debug_assert_eq!(order.len(), entries.len() - 1);
        order
    }

    fn strategy(&self, entries: &Entries, frame: &Frame, new: usize) -> Strategy {
        let at_end = new + 1 == entries.len();
        if at_end && frame.right == 0 {
            let (leaf, inner) = (self.options.leaf_fill, self.options.inner_fill);
            return Strategy::Fill(usize::from(if frame.level == 0 { leaf } else { inner }));
        }
        if frame.level > 0 || new == 0 {
            return Strategy::Middle;
        }
        if one_key(entries, 0, entries.len() - 1) {
            let last = whose(entries.key(new));
            let goes_on = frame.high.as_ref().is_some_and(|high| high.starts_with(last));
            return match at_end && !goes_on {
                true => Strategy::Fill(ONE_KEY_FILL),
                false => Strategy::Middle,
            };
        }
        if !at_end && new * 2 >= entries.len() && one_key(entries, 0, new) {
            // The last row of a key that has most of the page.
            return match one_key(entries, new, new + 1) {
                true => Strategy::Middle,
                false => Strategy::Behind(new),
            };
        }
        let (before, key) = (&*entries.last_key(new - 1), entries.key(new));
        match ascends(before, key) {
            true if at_end => Strategy::Fill(usize::from(self.options.leaf_fill)),
            true if common(before, key) > common(key, entries.key(new + 1)) => {
                Strategy::Behind(new)
            }
            _ => Strategy::Middle,
        }
    }
}

/// Do these leaf entries have one key?
fn one_key(entries: &Entries, first: usize, last: usize) -> bool {
    whose(entries.key(first)) == whose(entries.key(last))
}

/// Do the rows of two neighbours look as if they were inserted one after the other? Keys in random
/// order hardly ever do, and rows that are inserted together lie together.
fn ascends(before: &[u8], key: &[u8]) -> bool {
    let (Ok(before), Ok(after)) = (row_of(before), row_of(key)) else { return false };
    match after.block.0.checked_sub(before.block.0) {
        Some(0) => after.slot > before.slot && after.slot - before.slot <= 8,
        Some(1) => after.slot <= 8,
        _ => false,
    }
}

/// If the best point is between two rows of one key, the nearest one between two keys is better,
/// unless it is further than `most` from the middle: its separator needs no row id, and one key's
/// rows stay together.
fn keep_keys_whole(order: &mut Vec<usize>, entries: &Entries, points: &Points, most: usize) {
    let cuts = |at: usize| one_key(entries, at - 1, at);
    if !order.first().is_some_and(|at| cuts(*at)) {
        return;
    }
    let whole = order
        .iter()
        .copied()
        .filter(|at| !cuts(*at) && points.0[at - 1].imbalance() <= most)
        .min_by_key(|at| points.0[at - 1].imbalance());
    if let Some(best) = whole {
        order.retain(|at| *at != best);
        order.insert(0, best);
    }
}

/// What a split point would give, estimated: exact but for keys that end inside their head.
struct Point {
    /// Bytes of the left page.
    left: usize,
    /// Bytes of the right page.
    right: usize,
    /// Bytes of the separator.
    separator: usize,
}

impl Point {
    /// Half the difference of the two pages.
    fn imbalance(&self) -> usize {
        self.left.abs_diff(self.right) / 2
    }
}

/// All split points: the first one is in front of entry 1.
struct Points(Vec<Point>);

impl Points {
    fn measure(entries: &Entries, frame: &Frame) -> Points {
        let total = entries.len();
        assert!(total >= 2, "a page that overflows has two entries");
        let mut points = Vec::with_capacity(total - 1);
        let whole: usize = (0..total).map(|i| entries.size(i, frame.level, 0)).sum();
        let last = entries.key(total - 1);
        let bound = frame.high.as_deref().unwrap_or(last);
        let base = frame.base(entries, 0, total);
        let high_len = frame.high.as_ref().map_or(0, Vec::len);
        let least = SLOT + edit::item_size(0, 0, frame.level);
        let mut left = 0;
        for at in 1..total {
            left += entries.size(at - 1, frame.level, 0);
            let separator = separator_at(entries, at, frame.level);
            let (below, above) = (common(base, separator), common(separator, bound));
            let fixed = Frame::default().fixed(0) + separator.len();
            let left_size = left.saturating_sub(at * below).max(at * least);
            let right = (whole - left).saturating_sub((total - at) * above);
            let right_size = right.max((total - at) * least);
            points.push(Point {
                left: left_size + fixed + frame.low.len().max(below),
                right: right_size + fixed + high_len,
                separator: separator.len(),
            });
        }
        Points(points)
    }

    /// All points: among those that are at most `tolerance` worse than the best by `distance`, the
    /// one with the shortest separator first; then the others.
    fn by_preference(&self, distance: impl Fn(&Point) -> usize, tolerance: usize) -> Vec<usize> {
        let best = self.0.iter().map(&distance).min().unwrap_or(0);
        let mut order: Vec<usize> = (1..=self.0.len()).collect();
        order.sort_by_key(|at| {
            let point = &self.0[at - 1];
            let far = distance(point) > best + tolerance;
            let short = if far || tolerance == 0 { 0 } else { point.separator };
            (far, short, distance(point))
        });
        order
    }
}
