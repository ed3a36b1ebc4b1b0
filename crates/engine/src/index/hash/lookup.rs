//! Lookups of many keys: entries whose key equals one of a list, handed out under a shared latch.
//!
//! Invariants: keys are looked for in the order of their codes, so that neighbours are met while
//! their page is in memory; a key whose entries go on to the right is followed there. One page is
//! latched at a time.
//! Does not do: visibility.

use crate::error::Result;
use crate::ids::{PageId, RowId};
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, Place, place_on};
use crate::index::hash::code::{beginning, split_code};

/// What a lookup calls for each entry: position of the key, row, payload.
pub(crate) type FoundFn<'f> = &'f mut dyn FnMut(usize, RowId, &[u8]);

/// Where the entries of a key go on, if they do.
enum Left {
    Nothing,
    From(Vec<u8>),
    /// The page was changed between two looks: once more.
    Again,
}

impl Index {
    /// See [`crate::index::am::AccessMethod::lookup`].
    pub(crate) fn lookup(&self, keys: &[&[u8]], found: FoundFn<'_>) -> Result<()> {
        let mut wanted: Vec<(Vec<u8>, usize)> =
            keys.iter().enumerate().map(|(at, key)| (beginning(key), at)).collect();
        wanted.sort_unstable();
        for (position, at) in wanted {
            let key = keys[at];
            let mut from = position;
            loop {
                let pin = self.find(&from)?;
                let page = pin.shared();
                let left = on_page(page.bytes(), &from, key, &mut |row, payload| {
                    found(at, row, payload);
                });
                match left.map_err(|what| self.corrupt(pin.page().block.0, what))? {
                    Left::Nothing => break,
                    Left::From(next) => from = next,
                    Left::Again => {}
                }
            }
        }
        Ok(())
    }

    /// Starts to read the pages that the directory names for `positions`, as far as they are not
    /// in memory. Returns the number of reads.
    pub(crate) fn read_ahead(&self, positions: &[&[u8]]) -> u64 {
        let page = |position: &&[u8]| {
            let block = self.named(split_code(position).0).ok()?;
            Some(self.page(block))
        };
        let mut pages: Vec<PageId> = positions.iter().filter_map(page).collect();
        self.pool.read_ahead(&mut pages).reads
    }
}

/// Hands out the entries of `key` on a page, from the position `from` on.
fn on_page(
    page: &[u8; crate::config::PAGE_SIZE],
    from: &[u8],
    key: &[u8],
    found: &mut dyn FnMut(RowId, &[u8]),
) -> Checked<Left> {
    if place_on(page, from)? != Place::Here {
        return Ok(Left::Again);
    }
    let bucket = Bucket::open(page)?;
    let (code, _) = split_code(from);
    let mut at = bucket.search(from)?;
    while at < bucket.count && bucket.has_key(at, code, key)? {
        let item = bucket.item(at)?;
        if !item.dead {
            found(item.row, item.payload);
        }
        at += 1;
    }
    let beginning = [&code.to_be_bytes(), key].concat();
    let high = bucket.high().filter(|high| at == bucket.count && high.starts_with(&beginning));
    Ok(high.map_or(Left::Nothing, |high| Left::From(high.to_vec())))
}
