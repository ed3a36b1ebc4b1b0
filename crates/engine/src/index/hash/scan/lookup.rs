//! Lookups of whole keys, in the order of their codes, so that neighbours share a page in memory.
//!
//! Invariants: the callback runs under a shared latch. A key whose entries continue on the next
//! page is followed there. One page is latched at a time.
//! Does not do: visibility.

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::hash::page::{
    Bucket, CODE_BYTES, PageMatch, key_position, match_page, split_code,
};
use crate::index::hash::state::Index;
use crate::page::Checked;

/// The callback of a lookup: position of the key, row, payload.
pub(crate) type FoundFn<'f> = &'f mut dyn FnMut(usize, RowId, &[u8]);

/// Whether a key has entries elsewhere.
enum Rest {
    Done,
    /// They continue at this position.
    From(Vec<u8>),
    /// The page changed between the search and the latch.
    Retry,
}

impl Index {
    /// See [`crate::index::am::AccessMethod::lookup`].
    pub(crate) fn lookup(&self, keys: &[&[u8]], found: FoundFn<'_>) -> Result<()> {
        let mut wanted: Vec<(Vec<u8>, usize)> =
            keys.iter().enumerate().map(|(at, key)| (key_position(key), at)).collect();
        wanted.sort_unstable();
        for (mut from, at) in wanted {
            loop {
                let pin = self.find_page(&from)?;
                let page = pin.shared();
                let rest = lookup_on_page(page.bytes(), &from, keys[at], &mut |row, payload| {
                    found(at, row, payload);
                });
                match rest.map_err(|what| self.corrupt(pin.page().block.0, what))? {
                    Rest::Done => break,
                    Rest::From(next) => from = next,
                    Rest::Retry => {}
                }
            }
        }
        Ok(())
    }
}

/// Hands out the entries of `key` on a page, from the position `from` on.
fn lookup_on_page(
    page: &[u8; PAGE_SIZE],
    from: &[u8],
    key: &[u8],
    found: &mut dyn FnMut(RowId, &[u8]),
) -> Checked<Rest> {
    if match_page(page, from)? != PageMatch::Here {
        return Ok(Rest::Retry);
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
    let begins_with_key = |high: &&[u8]| high.starts_with(&from[..CODE_BYTES + key.len()]);
    let high = bucket.high().filter(|_| at == bucket.count).filter(begins_with_key);
    Ok(high.map_or(Rest::Done, |high| Rest::From(high.to_vec())))
}
