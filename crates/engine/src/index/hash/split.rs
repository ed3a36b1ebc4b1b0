//! Splitting a page of entries: one record; then, if a bucket begins on the new page, another one
//! that has the directory name it.
//!
//! Where: between two codes, as near the middle as makes a round number, because a bucket's number
//! is as large as its code has bits. A page whose middle is all one code is split at its edge if
//! other codes are there, so that the keys of others do not lie behind a long chain; one that has a
//! single code is split among its rows, and the new page is an overflow page.
//!
//! Invariants: the entry that found no room takes part in the choice and is inserted afterwards, by
//! another round. Both pages are smaller than the one was, or the new entry's side is.
//! Does not do: insert.

use rightlink_env::points::hit;

use crate::buffer::{LatchedPage, Mtr};
use crate::error::Result;
use crate::ids::Xid;
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, INCOMPLETE};
use crate::index::hash::code::{number_of, roundest};
use crate::index::hash::directory::MAX_NUMBERS;
use crate::index::hash::edit::{Entry, Frame};
use crate::index::hash::insert::Lack;
use crate::index::hash::meta::Spare;
use crate::wal::RecordKind;

/// A way to split: entries from `at` on go right, where the page begins at `fence`.
struct Choice {
    at: usize,
    fence: Vec<u8>,
}

/// The entries of the page and the one that is to come, in order.
struct Crowd<'a> {
    entries: Vec<Entry<'a>>,
    /// Place of the one that is to come.
    new: usize,
    /// Bytes of the entries before each place.
    sums: Vec<usize>,
}

impl<'a> Crowd<'a> {
    fn new(mut entries: Vec<Entry<'a>>, entry: &Entry<'a>) -> Self {
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
    fn off(&self, at: usize) -> usize {
        (2 * self.sums[at]).abs_diff(self.sums[self.entries.len()])
    }

    /// The code of the bucket that would begin at place `at`, if codes differ there.
    fn code(&self, at: usize) -> Option<u32> {
        let (before, after) = (self.entries[at - 1].code, self.entries[at].code);
        (before < after).then(|| roundest(before, after))
    }

    /// Both sides of a split at `at`, without the entry that is to come.
    fn sides(&self, at: usize) -> (Vec<Entry<'a>>, Vec<Entry<'a>>) {
        let (mut left, mut right) = (self.entries[..at].to_vec(), self.entries[at..].to_vec());
        if self.new < at {
            left.remove(self.new);
        } else {
            right.remove(self.new - at);
        }
        (left, right)
    }

    /// The shortest position that tells the entries on both sides of `at` apart.
    fn fence(&self, at: usize) -> Vec<u8> {
        if let Some(code) = self.code(at) {
            return code.to_be_bytes().to_vec();
        }
        let (before, after) = (self.entries[at - 1].position(), self.entries[at].position());
        let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        // Longer than a bucket's code, so that it is told from one.
        after[..=same.max(super::code::CODE)].to_vec()
    }

    fn choose(&self, fits: impl Fn(usize, &[u8]) -> bool) -> Option<Choice> {
        let places = || 1..self.entries.len();
        let round = |at: &usize| self.code(*at).map_or(0, u32::trailing_zeros);
        let codes = || places().filter(|at| self.code(*at).is_some());
        let choice = |at: usize| {
            let fence = self.fence(at);
            fits(at, &fence).then_some(Choice { at, fence })
        };
        let best = |a: &usize, b: &usize| {
            round(a).cmp(&round(b)).then_with(|| self.off(*b).cmp(&self.off(*a)))
        };
        let middle = codes().filter(|at| self.is_middle(*at)).max_by(best);
        let chosen = middle.and_then(choice).or_else(|| codes().max_by(best).and_then(choice));
        chosen.or_else(|| {
            // Rows that come in order fill their pages.
            let last = self.entries.len() - 1;
            let appended = (self.new == last && self.code(last).is_none()).then_some(last);
            let mut rest: Vec<usize> = places().collect();
            rest.sort_by_key(|at| self.off(*at));
            appended.into_iter().chain(rest).find_map(choice)
        })
    }
}

impl Index {
    /// Splits the page `held`, which has no room for `entry`. Says what it lacks, if it cannot, or
    /// what is left to do.
    pub(crate) fn split(
        &self,
        mut mtr: Mtr<'_>,
        held: LatchedPage,
        entry: &Entry<'_>,
        spare: Option<Spare>,
    ) -> Result<Option<Lack>> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let Some(spare) = spare else { return Ok(Some(Lack::Spare)) };
        let new = spare.block;
        let Some(taken) = self.take(&mut mtr, spare)? else { return Ok(Some(Lack::Luck)) };
        let bucket = Bucket::open(mtr.bytes(held)).map_err(damage)?;
        assert!(bucket.flags & INCOMPLETE == 0, "whoever splits has finished what was there");
        let made = self.halves(&bucket, entry, new).map_err(damage)?;
        let Halves { left, right, begins } = made;
        mtr.page(taken.page).replace(&right);
        mtr.page(held).replace(&left);
        taken.note(&mut mtr);
        mtr.commit(RecordKind::IndexSplit, Xid::NONE)?;
        match begins {
            true => {
                hit("hash.split.incomplete");
                Ok(Some(Lack::Finish(block)))
            }
            false => {
                hit("hash.split.overflow");
                Ok(None)
            }
        }
    }

    fn halves(&self, bucket: &Bucket<'_>, entry: &Entry<'_>, new: u32) -> Checked<Halves> {
        let crowd = Crowd::new(Entry::all(bucket)?, entry);
        let old = Frame::of(bucket, self.reserve());
        let frames = |fence: &[u8]| {
            let left = Frame { right: new, high: Some(fence.to_vec()), ..old.clone() };
            let right = Frame { low: fence.to_vec(), ..old.clone() };
            (left, right)
        };
        let inside = |fence: &[u8]| bucket.low() < fence && bucket.high().is_none_or(|h| fence < h);
        let fits = |at: usize, fence: &[u8]| {
            let ((left, right), sides) = (frames(fence), crowd.sides(at));
            inside(fence) && left.fits(&sides.0) && right.fits(&sides.1)
        };
        let choice = crowd.choose(fits).ok_or("a page without room that cannot be split")?;
        let ((mut left, right), sides) = (frames(&choice.fence), crowd.sides(choice.at));
        let begins = crowd.code(choice.at).is_some_and(|code| number_of(code) < MAX_NUMBERS);
        if begins {
            left.flags |= INCOMPLETE;
        }
        const FITS: &str = "the choice fits";
        let left = left.image(&sides.0).expect(FITS);
        Ok(Halves { left, right: right.image(&sides.1).expect(FITS), begins })
    }
}

/// Images of both pages of a split.
struct Halves {
    left: Box<[u8; crate::config::PAGE_SIZE]>,
    right: Box<[u8; crate::config::PAGE_SIZE]>,
    /// Does a bucket begin on the right one that the directory can name?
    begins: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RowId;

    fn entry(code: u32, row: u32) -> Entry<'static> {
        Entry { code, key: b"key", row: RowId::new(row, 1), payload: &[], dead: false }
    }

    fn chosen(codes: &[u32], new: Entry<'static>) -> (usize, Vec<u8>) {
        let old = codes.iter().enumerate().map(|(n, code)| entry(*code, n as u32)).collect();
        let choice = Crowd::new(old, &new).choose(|_, _| true).unwrap();
        (choice.at, choice.fence)
    }

    #[test]
    fn a_split_is_between_codes_and_round() {
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
