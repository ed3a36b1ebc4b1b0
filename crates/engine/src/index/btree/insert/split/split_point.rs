//! Chooses where to split a page.
//!
//! The default is near the middle, at the shortest separator within a tolerance. Strategies: at
//! the fill factor for a page that grows at its end; after the new entry where keys ascend inside
//! the page; between two keys rather than between two rows of one; near the end of a page of a
//! single key.
//!
//! Invariants: the answer holds every split point, best first; the caller takes the first for
//! which both halves fit. A strategy guesses the next insertions; any answer is correct.
//! Does not do: build the halves (`split`).
//! PostgreSQL: `nbtsplitloc.c`.

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::edit::{self, NodeHeader};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Checked, Node, SLOT, common};
use crate::index::btree::page::posting::{key_of, row_id_of};
use crate::index::btree::tree::Tree;

/// Percent of a page that stays left if it holds a single key whose rows grow at the end.
const ONE_KEY_FILL: usize = 96;

/// Where the next insertions are expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SplitStrategy {
    /// Anywhere.
    Middle,
    /// After the last entry: the left page keeps so many percent.
    Fill(usize),
    /// After this entry.
    After(usize),
}

impl Tree {
    /// Split points of `entries`, which overflow because of the one with `key`; best first.
    pub(crate) fn split_order(
        &self,
        entries: &Entries,
        header: &NodeHeader,
        key: &[u8],
    ) -> Vec<usize> {
        let points = SplitPoints::measure(entries, header, self.cuts_separators(header.level));
        let new = entries.position(key);
        // A row inside a list has no entry after it.
        let last = header.level > 0 || *entries.last_key(new) == *key;
        let strategy = match self.uses(Optimisation::SplitStrategies) && last {
            true => self.strategy(entries, header, new),
            false => SplitStrategy::Middle,
        };
        let capacity = self.options.capacity;
        let tolerance = match self.uses(Optimisation::ShortSeparators) {
            true => capacity / 16,
            false => 0,
        };
        let mut order = match strategy {
            SplitStrategy::Fill(percent) => {
                let wanted = capacity * percent / 100;
                points.by_preference(|point| (point.left, wanted), |far| far, tolerance / 4)
            }
            _ => points.by_preference(|point| (point.left, point.right), |far| far / 2, tolerance),
        };
        if header.level == 0 && strategy == SplitStrategy::Middle && tolerance > 0 {
            prefer_key_boundary(&mut order, entries, &points, capacity / 4);
        }
        if let SplitStrategy::After(entry) = strategy {
            order.retain(|at| *at != entry + 1);
            order.insert(0, entry + 1);
        }
        debug_assert_eq!(order.len(), entries.len() - 1);
        order
    }

    fn strategy(&self, entries: &Entries, header: &NodeHeader, new: usize) -> SplitStrategy {
        let at_end = new + 1 == entries.len();
        if at_end && header.right == 0 {
            let (leaf, inner) = (self.options.leaf_fill, self.options.inner_fill);
            return SplitStrategy::Fill(usize::from(if header.level == 0 { leaf } else { inner }));
        }
        if header.level > 0 || new == 0 {
            return SplitStrategy::Middle;
        }
        if same_key(entries, 0, entries.len() - 1) {
            let last = key_of(entries.key(new));
            let goes_on = header.high.as_ref().is_some_and(|high| high.starts_with(last));
            return match at_end && !goes_on {
                true => SplitStrategy::Fill(ONE_KEY_FILL),
                false => SplitStrategy::Middle,
            };
        }
        if !at_end && new * 2 >= entries.len() && same_key(entries, 0, new) {
            // The new entry is the last row of a key that has most of the page.
            return match same_key(entries, new, new + 1) {
                true => SplitStrategy::Middle,
                false => SplitStrategy::After(new),
            };
        }
        let (before, key) = (&*entries.last_key(new - 1), entries.key(new));
        match rows_ascend(before, key) {
            true if at_end => SplitStrategy::Fill(usize::from(self.options.leaf_fill)),
            true if common(before, key) > common(key, entries.key(new + 1)) => {
                SplitStrategy::After(new)
            }
            _ => SplitStrategy::Middle,
        }
    }
}

/// Do these leaf entries have one key?
fn same_key(entries: &Entries, first: usize, last: usize) -> bool {
    key_of(entries.key(first)) == key_of(entries.key(last))
}

/// Were the rows of two neighbours probably inserted one after the other? Keys in random order
/// hardly ever look so, because rows that are inserted together are stored together.
fn rows_ascend(before: &[u8], key: &[u8]) -> bool {
    let (Ok(before), Ok(after)) = (row_id_of(before), row_id_of(key)) else { return false };
    is_next_row(before, after)
}

/// Is `after` close behind `before` in the heap?
pub(crate) fn is_next_row(before: RowId, after: RowId) -> bool {
    match after.block.0.checked_sub(before.block.0) {
        Some(0) => after.slot > before.slot && after.slot - before.slot <= 8,
        Some(1) => after.slot <= 8,
        _ => false,
    }
}

/// Are more entries expected behind the new one, which belongs in front of entry `pos`? The rules
/// are those of a split, without decoding the leaf.
pub(crate) fn keys_ascend_at(
    node: &Node<&[u8; PAGE_SIZE]>,
    pos: usize,
    key: &[u8],
) -> Checked<bool> {
    if node.right == 0 || pos == node.count {
        return Ok(true);
    }
    if pos == 0 {
        return Ok(false);
    }
    let most_is_its_key = pos * 2 >= node.count && key_of(&node.key(0)?) == key_of(key);
    Ok(most_is_its_key || is_next_row(node.row(pos - 1)?, row_id_of(key)?))
}

/// If the best point is between two rows of one key, prefers the nearest one between two keys,
/// unless it is further than `most` from the middle. Its separator needs no row id, and the rows of
/// a key stay together.
fn prefer_key_boundary(
    order: &mut Vec<usize>,
    entries: &Entries,
    points: &SplitPoints,
    most: usize,
) {
    let cuts = |at: usize| same_key(entries, at - 1, at);
    if !order.first().is_some_and(|at| cuts(*at)) {
        return;
    }
    let whole = order
        .iter()
        .copied()
        .filter(|at| !cuts(*at))
        .map(|at| (points.at(at).imbalance(), at))
        .filter(|(imbalance, _)| *imbalance <= most)
        .min();
    if let Some((_, best)) = whole {
        order.retain(|at| *at != best);
        order.insert(0, best);
    }
}

/// The result of a split point, estimated: exact but for keys that end inside their head.
struct SplitPoint {
    /// Bytes of the left page.
    left: usize,
    /// Bytes of the right page.
    right: usize,
    /// Bytes of the separator.
    separator: usize,
}

impl SplitPoint {
    /// Half the difference of the two pages.
    fn imbalance(&self) -> usize {
        self.left.abs_diff(self.right) / 2
    }
}

/// All split points; the first is in front of entry 1. Each is measured on demand, because only
/// those near the best one matter.
struct SplitPoints<'e> {
    entries: &'e Entries,
    level: u8,
    /// Are separators truncated?
    cut: bool,
    /// Bytes of the entries before each entry, with whole keys; then of all.
    before: Vec<u32>,
    base: &'e [u8],
    bound: &'e [u8],
    low_len: usize,
    high_len: usize,
}

impl<'e> SplitPoints<'e> {
    fn measure(entries: &'e Entries, header: &'e NodeHeader, cut: bool) -> SplitPoints<'e> {
        let total = entries.len();
        assert!(total >= 2, "a page that overflows has two entries");
        let mut before = Vec::with_capacity(total + 1);
        let mut bytes = 0;
        before.push(0);
        before.extend((0..total).map(|i| {
            bytes += entries.size(i, header.level, 0) as u32;
            bytes
        }));
        SplitPoints {
            entries,
            level: header.level,
            cut,
            before,
            base: header.base(entries, 0, total),
            bound: header.high.as_deref().unwrap_or(entries.key(total - 1)),
            low_len: header.low.len(),
            high_len: header.high.as_ref().map_or(0, Vec::len),
        }
    }

    fn len(&self) -> usize {
        self.entries.len() - 1
    }

    /// The result of a split in front of entry `at`.
    fn at(&self, at: usize) -> SplitPoint {
        let total = self.entries.len();
        let separator = self.entries.separator_at(at, self.cut);
        let (below, above) = (common(self.base, separator), common(separator, self.bound));
        let fixed = NodeHeader::default().fixed(0) + separator.len();
        let least = SLOT + edit::item_size(0, 0, self.level);
        let left = self.before[at] as usize;
        let right = self.before[total] as usize - left;
        let left = left.saturating_sub(at * below).max(at * least);
        let right = right.saturating_sub((total - at) * above).max((total - at) * least);
        SplitPoint {
            left: left + fixed + self.low_len.max(below),
            right: right + fixed + self.high_len,
            separator: separator.len(),
        }
    }

    /// All points in order of preference. Among those at most `tolerance` worse than the best,
    /// shorter separators come first; the others follow by distance. `sides` gives two sizes, the
    /// first of which grows with the point; `distance` rates their difference.
    fn by_preference(
        &self,
        sides: impl Fn(&SplitPoint) -> (usize, usize),
        distance: impl Fn(usize) -> usize,
        tolerance: usize,
    ) -> Vec<usize> {
        // The first point whose first size is not the smaller one.
        let (mut low, mut high) = (1, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (first, second) = sides(&self.at(middle));
            (low, high) = if first < second { (middle + 1, high) } else { (low, middle) };
        }
        let far = |at: usize| {
            let point = self.at(at);
            let (first, second) = sides(&point);
            (distance(first.abs_diff(second)), point.separator)
        };
        let mut best = far(low).0;
        let mut near: Vec<(usize, usize, usize)> = Vec::new();
        let mut note = |at: usize| {
            let (distance, separator) = far(at);
            best = best.min(distance);
            let close = distance <= best + tolerance;
            near.push((separator, distance, at));
            close
        };
        let start = (1..=low).rev().find(|at| !note(*at)).unwrap_or(1);
        let end = (low + 1..=self.len()).find(|at| !note(*at)).unwrap_or(self.len());
        near.sort_unstable_by_key(|(separator, distance, _)| {
            let far = *distance > best + tolerance;
            (far, if far || tolerance == 0 { 0 } else { *separator }, *distance)
        });
        let mut order: Vec<usize> = near.into_iter().map(|(.., at)| at).collect();
        append_outwards(start, end, self.len(), &mut order);
        order
    }
}

/// Appends the points before `start` and those after `end`, up to `last`, in turn.
fn append_outwards(start: usize, end: usize, last: usize, order: &mut Vec<usize>) {
    let (mut below, mut above) = ((1..start).rev(), end + 1..=last);
    loop {
        let pair = (below.next(), above.next());
        order.extend(pair.0.into_iter().chain(pair.1));
        if pair == (None, None) {
            return;
        }
    }
}
