//! Uniqueness (R8).
//!
//! The exclusive latch on the first page that could hold the key without a row id is the lock on
//! the unique value. It is held from the check to the insertion. Equal keys may continue right of
//! that page: the check latches rightwards (R12) and keeps the first page.
//!
//! Does not do: wait. The outcome names the transaction to wait for.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{LatchedPage, Mtr};
use crate::error::Result;
use crate::index::am::{HeapOracle, InsertOutcome, ask};
use crate::index::hash::insert::{BatchInsert, EntryOutcome, InsertStep, Retry, RunEntry};
use crate::index::hash::page::{Bucket, PageMatch};
use crate::page::Checked;

/// Result of the check of one key on one page.
enum KeyCheck {
    /// It may be inserted.
    Free,
    /// Equal keys may continue in the page to the right.
    ContinuesRight,
    /// It may not be inserted, or not yet.
    Stop(InsertOutcome),
}

impl<'a> BatchInsert<'a, '_> {
    /// Checks that the key of an entry may be inserted. Returns the latched page that the entry
    /// belongs to, or why it is not inserted now.
    pub(super) fn check_unique(
        &self,
        mtr: &mut Mtr<'a>,
        first: LatchedPage,
        entry: &RunEntry<'_>,
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<LatchedPage, EntryOutcome>> {
        let check = check_equal_keys(mtr, first, entry, oracle);
        match check.map_err(self.damage(mtr, first))? {
            KeyCheck::Free if entry.is_first && broken(Broken::HashUniqueLatchReleased) => {
                let pin = mtr.release(first);
                Ok(Ok(mtr.latch(pin)))
            }
            KeyCheck::Free => Ok(Ok(first)),
            KeyCheck::Stop(outcome) => Ok(Err(EntryOutcome::EndRun(InsertStep::Finished(outcome)))),
            KeyCheck::ContinuesRight if !entry.is_first => Ok(Err(EntryOutcome::NextRun)),
            KeyCheck::ContinuesRight => self.check_right_pages(mtr, first, entry, oracle),
        }
    }

    /// Moves right while equal keys may continue, latching. Returns the latched page that the entry
    /// belongs to; only that one and `first` stay latched.
    fn check_right_pages(
        &self,
        mtr: &mut Mtr<'a>,
        first: LatchedPage,
        entry: &RunEntry<'_>,
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<LatchedPage, EntryOutcome>> {
        let (mut home, mut current) = (None, first);
        loop {
            let damage = self.damage(mtr, current);
            let bucket = Bucket::open(mtr.bytes(current)).map_err(&damage)?;
            let (right, end) = (bucket.right, bucket.high().map(<[u8]>::to_vec));
            if home.is_none() && bucket.match_position(&entry.position) == PageMatch::Here {
                home = Some(current);
            }
            match check_equal_keys(mtr, current, entry, oracle).map_err(&damage)? {
                KeyCheck::Stop(outcome) => {
                    return Ok(Err(EntryOutcome::EndRun(InsertStep::Finished(outcome))));
                }
                KeyCheck::ContinuesRight => {}
                KeyCheck::Free => {
                    let home = home.ok_or_else(|| damage("equal keys end before the key"))?;
                    if current != first && current != home {
                        mtr.release(current);
                    }
                    return Ok(Ok(home));
                }
            }
            let Some(pin) = self.index.pool.try_pin(self.index.page(right)) else {
                return Ok(Err(EntryOutcome::retry(Retry::NeedPage(right))));
            };
            // The next page is latched before this one is released. Otherwise vacuum could merge
            // the next page into this one between the two latches.
            let releases = current != first && Some(current) != home;
            let early = broken(Broken::HashWalkWithoutCoupling);
            let left = current;
            if early && releases {
                mtr.release(left);
            }
            current = mtr.latch(pin);
            if !early && releases {
                mtr.release(left);
            }
            let begins = Bucket::open(mtr.bytes(current)).map(|bucket| bucket.low().to_vec());
            if begins.map_err(&damage)? != end.unwrap_or_default() {
                return Err(damage("the page to the right begins elsewhere"));
            }
        }
    }
}

/// Asks the heap about the rows of a latched page that have the entry's key.
fn check_equal_keys(
    mtr: &Mtr<'_>,
    held: LatchedPage,
    entry: &RunEntry<'_>,
    oracle: &dyn HeapOracle,
) -> Checked<KeyCheck> {
    let bucket = Bucket::open(mtr.bytes(held))?;
    let mut pos = bucket.search(entry.key_position())?;
    let mut rows = Vec::new();
    while pos < bucket.count && bucket.has_key(pos, entry.entry.code, entry.entry.key)? {
        let item = bucket.item(pos)?;
        if !item.dead && item.row != entry.entry.row {
            rows.push(item.row);
        }
        pos += 1;
    }
    // A live row decides wherever it is, so all are asked about before a wait is an outcome.
    if let Some(outcome) = ask(&rows, entry.at, oracle) {
        return Ok(KeyCheck::Stop(outcome));
    }
    let continues = bucket.high().is_some_and(|high| high.starts_with(entry.key_position()));
    Ok(if continues { KeyCheck::ContinuesRight } else { KeyCheck::Free })
}
