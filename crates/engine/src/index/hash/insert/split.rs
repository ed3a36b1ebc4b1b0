//! Split of a full page, as one log record.
//!
//! A split between two codes begins a bucket. It is made near the middle, at the code with the
//! smallest bucket number. A page of which most entries have one code is split at the edge of that
//! code, so that other codes are not found behind its overflow pages. A page with a single code is
//! split between two rows, and the new page is an overflow page.
//!
//! Invariants: the new entry takes part in the choice; the next run inserts it. Both pages have
//! space for their entries.
//! Does not do: insert the entry; add the bucket to the directory (`directory`).
//! PostgreSQL: `_hash_splitbucket`, which moves the entries of a whole bucket.

use rightlink_env::points::hit;

use crate::buffer::{LatchedPage, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::hash::insert::Retry;
use crate::index::hash::page::{
    Bucket, BucketEntry, BucketHeader, INCOMPLETE, MAX_BUCKETS, bucket_number, separator_code,
    separator_position,
};
use crate::index::hash::state::{FreeBlock, Index};
use crate::page::Checked;
use crate::wal::RecordKind;

/// Where to split: entries from `at` on go to the right page, which begins at `fence`.
struct SplitPoint {
    at: usize,
    fence: Vec<u8>,
}

/// The entries of the page and the new one, in order.
struct SplitEntries<'a> {
    entries: Vec<BucketEntry<'a>>,
    /// Place of the new one.
    new: usize,
    /// Bytes of the entries before each place.
    sums: Vec<usize>,
}

impl<'a> SplitEntries<'a> {
    fn new(mut entries: Vec<BucketEntry<'a>>, entry: &BucketEntry<'a>) -> Self {
        let position = entry.position();
        let new = entries.partition_point(|other| other.position() < position);
        entries.insert(new, *entry);
        let mut sums = vec![0];
        for entry in &entries {
            sums.push(sums[sums.len() - 1] + entry.size());
        }
        Self { entries, new, sums }
    }

    /// Is place `at` between the first and the last third of the bytes?
    fn is_middle(&self, at: usize) -> bool {
        let all = self.sums[self.entries.len()];
        (all / 3..=all - all / 3).contains(&self.sums[at])
    }

    /// Distance of place `at` from the middle.
    fn distance(&self, at: usize) -> usize {
        (2 * self.sums[at]).abs_diff(self.sums[self.entries.len()])
    }

    /// The code of the bucket that would begin at place `at`, if codes differ there.
    fn code(&self, at: usize) -> Option<u32> {
        let (before, after) = (self.entries[at - 1].code, self.entries[at].code);
        (before < after).then(|| separator_code(before, after))
    }

    /// The entries of both pages of a split at `at`, without the new one.
    fn sides(&self, at: usize) -> (Vec<BucketEntry<'a>>, Vec<BucketEntry<'a>>) {
        let (mut left, mut right) = (self.entries[..at].to_vec(), self.entries[at..].to_vec());
        if self.new < at {
            left.remove(self.new);
        } else {
            right.remove(self.new - at);
        }
        (left, right)
    }

    /// The shortest position between the entries on both sides of `at`.
    fn fence(&self, at: usize) -> Vec<u8> {
        separator_position(&self.entries[at - 1].position(), &self.entries[at].position())
    }

    /// The best place of which `fits` says that both pages have space.
    fn choose(&self, fits: impl Fn(usize, &[u8]) -> bool) -> Option<SplitPoint> {
        let places = || 1..self.entries.len();
        let zeroes = |at: &usize| self.code(*at).map_or(0, u32::trailing_zeros);
        let codes = || places().filter(|at| self.code(*at).is_some());
        let point = |at: usize| {
            let fence = self.fence(at);
            fits(at, &fence).then_some(SplitPoint { at, fence })
        };
        let best = |a: &usize, b: &usize| {
            zeroes(a).cmp(&zeroes(b)).then_with(|| self.distance(*b).cmp(&self.distance(*a)))
        };
        let middle = codes().filter(|at| self.is_middle(*at)).max_by(best);
        let chosen = middle.and_then(point).or_else(|| codes().max_by(best).and_then(point));
        chosen.or_else(|| {
            // Rows that come in order fill their pages.
            let last = self.entries.len() - 1;
            let appended = (self.new == last && self.code(last).is_none()).then_some(last);
            let mut rest: Vec<usize> = places().collect();
            rest.sort_by_key(|at| self.distance(*at));
            appended.into_iter().chain(rest).find_map(point)
        })
    }
}

/// Images of both pages of a split.
struct SplitPages {
    left: Box<[u8; PAGE_SIZE]>,
    right: Box<[u8; PAGE_SIZE]>,
    /// Does a bucket begin on the right page that the directory can name?
    begins_bucket: bool,
}

impl Index {
    /// Splits the page `held`, which has no space for `entry`. Returns why the run is repeated.
    pub(super) fn split(
        &self,
        mut mtr: Mtr<'_>,
        held: LatchedPage,
        entry: &BucketEntry<'_>,
        chosen: Option<FreeBlock>,
    ) -> Result<Retry> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let Some(chosen) = chosen else { return Ok(Retry::NeedBlock) };
        let Some(taken) = self.take_block(&mut mtr, chosen)? else { return Ok(Retry::Conflict) };
        let bucket = Bucket::open(mtr.bytes(held)).map_err(damage)?;
        assert!(bucket.flags & INCOMPLETE == 0, "an incomplete split is finished first");
        let pages = self.split_pages(&bucket, entry, taken.block).map_err(damage)?;
        mtr.page(taken.page).replace(&pages.right);
        mtr.page(held).replace(&pages.left);
        taken.mark_used(&mut mtr);
        mtr.commit(RecordKind::IndexSplit, Xid::NONE)?;
        if pages.begins_bucket {
            hit("hash.split.incomplete");
            return Ok(Retry::FinishSplit(block));
        }
        hit("hash.split.overflow");
        Ok(Retry::Conflict)
    }

    fn split_pages(
        &self,
        bucket: &Bucket<'_>,
        entry: &BucketEntry<'_>,
        new: u32,
    ) -> Checked<SplitPages> {
        let all = SplitEntries::new(BucketEntry::all(bucket)?, entry);
        let old = BucketHeader::of(bucket, self.unused_bytes());
        let headers = |fence: &[u8]| {
            let left = BucketHeader { right: new, high: Some(fence.to_vec()), ..old.clone() };
            let right = BucketHeader { low: fence.to_vec(), ..old.clone() };
            (left, right)
        };
        let inside = |fence: &[u8]| bucket.low() < fence && bucket.high().is_none_or(|h| fence < h);
        let fits = |at: usize, fence: &[u8]| {
            let ((left, right), sides) = (headers(fence), all.sides(at));
            inside(fence) && left.fits(&sides.0) && right.fits(&sides.1)
        };
        let point = all.choose(fits).ok_or("a page without space that cannot be split")?;
        let ((mut left, right), sides) = (headers(&point.fence), all.sides(point.at));
        let begins_bucket =
            all.code(point.at).is_some_and(|code| bucket_number(code) < MAX_BUCKETS);
        if begins_bucket {
            left.flags |= INCOMPLETE;
        }
        const FITS: &str = "the split point was chosen so";
        let left = left.image(&sides.0).expect(FITS);
        Ok(SplitPages { left, right: right.image(&sides.1).expect(FITS), begins_bucket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RowId;

    fn entry(code: u32, row: u32) -> BucketEntry<'static> {
        BucketEntry { code, key: b"key", row: RowId::new(row, 1), payload: &[], dead: false }
    }

    fn chosen(codes: &[u32], new: BucketEntry<'static>) -> (usize, Vec<u8>) {
        let old = codes.iter().enumerate().map(|(n, code)| entry(*code, n as u32)).collect();
        let point = SplitEntries::new(old, &new).choose(|_, _| true).unwrap();
        (point.at, point.fence)
    }

    #[test]
    fn a_split_is_between_codes_with_the_smallest_bucket_number() {
        let codes: Vec<u32> = (0..30).map(|n| n * 0x0800_0000).collect();
        let (at, fence) = chosen(&codes, entry(5, 99));
        assert_eq!((at, fence), (17, vec![0x80, 0, 0, 0]));
    }

    #[test]
    fn other_codes_do_not_stay_behind_a_chain() {
        let mut codes = vec![0x1000_0001; 30];
        codes.push(0x3000_0000);
        let (at, fence) = chosen(&codes, entry(0x1000_0001, 99));
        assert_eq!((at, fence), (31, vec![0x20, 0, 0, 0]));
    }

    #[test]
    fn one_code_is_split_among_its_rows() {
        let (at, fence) = chosen(&[7; 20], entry(7, 99));
        assert_eq!((at, fence.len() > 4), (20, true), "appended rows fill their pages");
        let (at, _) = chosen(&[7; 20], entry(7, 5));
        assert!((10..12).contains(&at));
    }
}
