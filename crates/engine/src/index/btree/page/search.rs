//! Search for a key on one page: heads first, key bytes only where heads are equal.
//!
//! A search knows how many bytes of its key both of its bounds share; keys between the bounds
//! share them too, so they are not compared again. An unchanged parent contributes its bounds. On
//! leaves, whose slots are rarely cached, the first guess is interpolated between the first and
//! the last head.
//!
//! Invariants: every set of optimisations finds the same entry. Damaged or changing bytes give an
//! answer or a damage, never a panic or an endless loop.
//! Does not do: compare fences (`btree/search`).
//! PostgreSQL: `_bt_binsrch`; Graefe and Larson for heads.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use crate::index::btree::counters::{self, count};
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::node::{Checked, HEAD, Node, SearchPosition, head_of};
use crate::index::btree::page::read::PageRead;

/// Fewer slots than this are searched without a guess.
const MIN_INTERPOLATED: usize = 16;

/// What is known before a page is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchBounds {
    /// The optimisations to use.
    pub(crate) set: Optimisations,
    /// Leading bytes of the key that are known to be equal to all keys between the page's fences,
    /// as far as those share any.
    pub(crate) shared_bytes: usize,
    /// Entries before this one are known to be below the key.
    pub(crate) from: usize,
}

impl SearchBounds {
    /// Nothing is known.
    pub(crate) const NOTHING: SearchBounds =
        SearchBounds { set: Optimisations::ALL, shared_bytes: 0, from: 0 };
}

/// Where a search ended, and what its comparisons found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchResult {
    /// The place.
    pub(crate) found: SearchPosition,
    /// Leading bytes shared with the entry before the position, if a whole comparison told.
    below: Option<usize>,
    /// Likewise with the entry at the place.
    above: Option<usize>,
}

impl SearchResult {
    #[inline(always)]
    fn at(pos: usize) -> SearchResult {
        SearchResult { found: SearchPosition { pos, exact: false }, below: None, above: None }
    }

    /// Leading bytes that the entry at the place is known to share with the key.
    pub(crate) fn shared_above(&self) -> usize {
        self.above.unwrap_or(0)
    }
}

/// Bytes touched by a comparison that found `same` equal bytes among `both`.
fn touched(same: usize, both: usize) -> u64 {
    (same + 1).min(both) as u64
}

/// Leading bytes that two heads share.
#[inline]
fn same_head(a: u32, b: u32) -> usize {
    (a ^ b).leading_zeros() as usize / 8
}

impl<R: PageRead> Node<R> {
    /// First entry not below `key`.
    pub(crate) fn search(&self, key: &[u8]) -> Checked<SearchPosition> {
        self.search_within(key, SearchBounds::NOTHING).map(|result| result.found)
    }

    /// First entry not below `key`.
    #[inline(always)]
    pub(crate) fn search_within(&self, key: &[u8], bounds: SearchBounds) -> Checked<SearchResult> {
        if counters::is_on() || !bounds.set.has(Optimisation::Heads) {
            return self.search_counted_or_plain(key, bounds);
        }
        self.search_heads::<false>(key, bounds)
    }

    /// Searches that are counted, or that use no heads. They are apart so that the usual path stays
    /// short.
    #[cold]
    #[inline(never)]
    fn search_counted_or_plain(&self, key: &[u8], bounds: SearchBounds) -> Checked<SearchResult> {
        count(|c| c.pages += 1);
        if bounds.set.has(Optimisation::Heads) {
            self.search_heads::<true>(key, bounds)
        } else {
            self.search_keys(key, bounds)
        }
    }

    /// Order of `key` against the prefix, of which `known` bytes are equal.
    #[inline(always)]
    fn compare_prefix_rest(&self, key: &[u8], known: usize) -> Ordering {
        if known >= self.prefix && key.len() >= self.prefix {
            return Ordering::Equal;
        }
        let from = known.min(self.prefix).min(key.len());
        let both = self.prefix.min(key.len()) - from;
        let same = self.page.common(self.special + from, both, &key[from..]);
        count(|c| {
            c.prefixes += 1;
            c.bytes += touched(same, both);
        });
        if same == both {
            return if key.len() < self.prefix { Ordering::Less } else { Ordering::Equal };
        }
        key[from + same].cmp(&self.page.u8(self.special + from + same))
    }

    #[inline(always)]
    fn search_heads<const COUNT: bool>(
        &self,
        key: &[u8],
        bounds: SearchBounds,
    ) -> Checked<SearchResult> {
        match self.compare_prefix_rest(key, bounds.shared_bytes) {
            Ordering::Less => return Ok(SearchResult::at(0)),
            Ordering::Greater => return Ok(SearchResult::at(self.count)),
            Ordering::Equal => {}
        }
        let rem = &key[self.prefix..];
        let search = HeadSearch::<R, COUNT> { node: self, head: head_of(rem) };
        let from = bounds.from.min(self.count);
        let guesses = self.is_leaf() && bounds.set.has(Optimisation::Samples);
        let first = match guesses {
            true => search.interpolate(from),
            false => search.first(from, self.count),
        };
        match first {
            HeadRange::Above(pos) => Ok(SearchResult::at(pos)),
            HeadRange::Among(range) => {
                let truncate = bounds.set.has(Optimisation::Truncation);
                search.search_equal_heads(rem, range, truncate)
            }
        }
    }

    /// Order of entry `i` against a key whose prefix and head are equal to its own, and so are
    /// `skip` bytes after those; and how many bytes after the head are. A key that ends inside its
    /// head is padded with zeroes there, so its length decides.
    fn cmp_rest_from(&self, i: usize, rem: &[u8], skip: usize) -> Checked<(Ordering, usize)> {
        let item = self.item(i)?;
        if item.rem < HEAD || rem.len() < HEAD {
            count(|c| c.keys += 1);
            return Ok((item.rem.cmp(&rem.len()), 0));
        }
        let (len, rest) = (item.rest_len(), &rem[HEAD..]);
        let both = len.min(rest.len());
        let skip = skip.min(both);
        let same = self.page.common(item.rest + skip, both - skip, &rest[skip..]);
        count(|c| {
            c.keys += 1;
            c.bytes += touched(same, both - skip);
        });
        let same = skip + same;
        let order = if same == both {
            len.cmp(&rest.len())
        } else {
            self.page.u8(item.rest + same).cmp(&rest[same])
        };
        Ok((order, same))
    }

    /// The plain way: whole keys, prefix and head like any other bytes.
    #[inline(never)]
    fn search_keys(&self, key: &[u8], bounds: SearchBounds) -> Checked<SearchResult> {
        let truncate = bounds.set.has(Optimisation::Truncation);
        let (mut low, mut high) = (bounds.from.min(self.count), self.count);
        let (mut below, mut above) = (bounds.shared_bytes, bounds.shared_bytes);
        let mut result = SearchResult::at(0);
        while low < high {
            let middle = low.midpoint(high);
            let skip = if truncate { below.min(above) } else { 0 };
            let (order, same) = self.cmp_key_from(middle, key, skip)?;
            match order {
                Ordering::Less => (low, below, result.below) = (middle + 1, same, Some(same)),
                Ordering::Greater => (high, above, result.above) = (middle, same, Some(same)),
                Ordering::Equal => {
                    result.found = SearchPosition { pos: middle, exact: true };
                    return Ok(result);
                }
            }
        }
        result.found.pos = low;
        Ok(result)
    }

    /// Order of entry `i` against `key`, and how many leading bytes are equal; `skip` are.
    fn cmp_key_from(&self, i: usize, key: &[u8], skip: usize) -> Checked<(Ordering, usize)> {
        let item = self.item(i)?;
        let len = self.prefix + item.rem;
        let both = len.min(key.len());
        let mut same = skip.min(both);
        let start = same;
        if same < self.prefix.min(both) {
            let upto = self.prefix.min(both);
            same += self.page.common(self.special + same, upto - same, &key[same..]);
        }
        let head = self.head(i).to_be_bytes();
        while same >= self.prefix && same < both && same < self.prefix + HEAD {
            if head[same - self.prefix] != key[same] {
                break;
            }
            same += 1;
        }
        if same >= self.prefix + HEAD && same < both {
            let rest = item.rest + same - self.prefix - HEAD;
            same += self.page.common(rest, both - same, &key[same..]);
        }
        count(|c| {
            c.keys += 1;
            c.bytes += touched(same - start, both - start);
        });
        let order = match same == both {
            true => len.cmp(&key.len()),
            false if same < self.prefix => self.page.u8(self.special + same).cmp(&key[same]),
            false if same < self.prefix + HEAD => head[same - self.prefix].cmp(&key[same]),
            false => {
                let at = item.rest + same - self.prefix - HEAD;
                self.page.u8(at).cmp(&key[same])
            }
        };
        Ok((order, same))
    }

    /// Leading bytes of `key` that both bounds of child `child` share, if the search ended at
    /// `result`. The end of a level is no bound.
    #[inline(always)]
    pub(crate) fn shared(&self, key: &[u8], result: &SearchResult, child: usize) -> usize {
        if self.left == 0 && child == 0 || self.right == 0 && child + 1 == self.count {
            return 0;
        }
        let head = head_of(key.get(self.prefix..).unwrap_or(&[]));
        let by_head = |i: usize| self.prefix + same_head(self.head(i), head);
        // The bounds of the page's first and last child are its fences, which share the prefix.
        // A key that is a separator itself leads to the child right of it, or, where the end of a
        // range is looked for, to the one left of it.
        let exact = result.found.exact.then_some(result.found.pos);
        let low = match () {
            () if exact == Some(child) => key.len(),
            () if child == 0 => self.prefix,
            () => result.below.unwrap_or_else(|| by_head(child)),
        };
        let high = match () {
            () if child + 1 == self.count => self.prefix,
            () if exact == Some(child + 1) => key.len(),
            () => result.above.unwrap_or_else(|| by_head(child + 1)),
        };
        low.min(high).min(key.len())
    }
}

/// What the heads tell about the position.
enum HeadRange {
    /// It is this one: the entry before it has a lesser head, the entry there a greater one.
    Above(usize),
    /// It is in this range, or right of it.
    Among(EqualHeads),
}

/// Entries among which one has the head that is searched for.
struct EqualHeads {
    /// The first of them.
    low: usize,
    /// The one that has the head.
    met: usize,
    /// The one behind the last of them.
    high: usize,
}

/// A search among the heads of a page.
struct HeadSearch<'n, R, const COUNT: bool> {
    node: &'n Node<R>,
    head: u32,
}

impl<R: PageRead, const COUNT: bool> HeadSearch<'_, R, COUNT> {
    #[inline]
    fn at(&self, i: usize) -> u32 {
        self.after(i, 0)
    }

    /// As [`HeadSearch::at`]; the first `skip` bytes are known to be equal.
    #[inline(always)]
    fn after(&self, i: usize, skip: usize) -> u32 {
        let found = self.node.head(i);
        if COUNT {
            count(|c| {
                c.heads += 1;
                c.bytes += touched(same_head(found, self.head) - skip, HEAD - skip);
            });
        }
        found
    }

    /// The first of `low..high` that is not below the head, if none is met that is equal to it.
    #[inline(always)]
    fn first(&self, low: usize, high: usize) -> HeadRange {
        let (mut base, mut count) = (low, high - low);
        while count > 0 {
            let half = count.div_ceil(2);
            let entry = self.at(base + half - 1);
            if entry == self.head {
                return HeadRange::Among(EqualHeads {
                    low: base,
                    met: base + half - 1,
                    high: base + count,
                });
            }
            // A conditional move: the outcome cannot be predicted.
            base = select_unpredictable(entry < self.head, base + half, base);
            count = select_unpredictable(entry < self.head, count - half, half - 1);
        }
        HeadRange::Above(base)
    }

    /// The position of the key that ends with `rem`, if entry `met` has its head: in `low..=high`,
    /// or beyond if all of those are smaller with that head. Bytes that both bounds share with the
    /// key are not compared again; if they share the head, no head is read.
    #[inline(never)]
    fn search_equal_heads(
        &self,
        rem: &[u8],
        range: EqualHeads,
        truncate: bool,
    ) -> Checked<SearchResult> {
        let node = self.node;
        let EqualHeads { mut low, met, mut high } = range;
        let (mut end, mut step) = (high, 4);
        let (mut result, mut met) = (SearchResult::at(low), Some(met));
        // Bytes after the prefix that the entries at the bounds share with the key.
        let (mut below, mut above) = (0, 0);
        loop {
            while low < high {
                let (middle, skip) = match met.take() {
                    Some(met) => (met, HEAD),
                    None if truncate => (low.midpoint(high), below.min(above)),
                    None => (low.midpoint(high), 0),
                };
                let head = if skip < HEAD { self.after(middle, skip) } else { self.head };
                let (order, same) = if head == self.head {
                    let (order, rest) = node.cmp_rest_from(middle, rem, skip.max(HEAD) - HEAD)?;
                    (order, HEAD + rest)
                } else {
                    (head.cmp(&self.head), same_head(head, self.head))
                };
                let shared = Some(node.prefix + same);
                match order {
                    Ordering::Less => (low, below, result.below) = (middle + 1, same, shared),
                    Ordering::Greater => (high, above, result.above) = (middle, same, shared),
                    Ordering::Equal => {
                        result.found = SearchPosition { pos: middle, exact: true };
                        return Ok(result);
                    }
                }
            }
            if low < end || end == node.count {
                result.found.pos = low;
                return Ok(result);
            }
            (end, step) = ((end + step).min(node.count), step * 4);
            high = end;
        }
    }

    /// As [`HeadSearch::first`], of `from..`. The search begins where the head would be if heads
    /// grew evenly.
    #[inline(always)]
    fn interpolate(&self, from: usize) -> HeadRange {
        let end = self.node.count;
        if end - from < MIN_INTERPOLATED {
            return self.first(from, end);
        }
        let first = self.at(from);
        if self.head <= first {
            return self.first(from, from + 1);
        }
        // The high key is beside the prefix, which was read; the last slot is in another cache
        // line.
        let last = self.node.high_head().unwrap_or_else(|| self.at(end - 1));
        let span = (end - 1 - from) as u64;
        let share = u64::from(self.head - first) * span / u64::from(last.max(self.head) - first);
        self.gallop(from, (from + share as usize).min(end - 1))
    }

    /// Continues from the guessed slot, in growing steps.
    fn gallop(&self, from: usize, guess: usize) -> HeadRange {
        let (end, mut step) = (self.node.count, 4);
        if self.at(guess) < self.head {
            let mut low = guess;
            while low + step < end && self.at(low + step) < self.head {
                (low, step) = (low + step, step * 4);
            }
            return self.first(low + 1, (low + step + 1).min(end));
        }
        let mut high = guess;
        while high >= from + step && self.at(high - step) >= self.head {
            (high, step) = (high - step, step * 4);
        }
        self.first(high.saturating_sub(step).max(from), high + 1)
    }
}
