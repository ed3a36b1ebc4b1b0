//! Insertion of a sorted batch, one page at a time and one log record a page.
//!
//! [`Index::insert_group`] finds the page of the next entry: the page that the caller named, else
//! by a search. A *run* then inserts as many entries as belong on that page, under one latch.
//!
//! | file | content |
//! |---|---|
//! | `unique` | whether a key may be inserted (R8) |
//! | `page_insert` | one entry into a latched page; dead rows are removed from a full one |
//! | `split` | a full page is split |
//! | `directory` | the directory gets an entry for a new bucket |
//!
//! Invariants: an entry is stored only after everything that can fail was checked. A page that must
//! be split logs its run first, so that a split is a record of its own.
//! Does not do: wait for transactions; the outcome names the transaction.
//! PostgreSQL: `hashinsert.c`.

pub(crate) mod directory;
mod page_insert;
mod split;
mod unique;

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::index::Tries;
use crate::index::am::{HeapOracle, IndexEntry, InsertOutcome, check_entry_sizes};
use crate::index::hash::page::{
    BucketEntry, CODE_BYTES, PageMatch, entry_position, hash_code, match_page,
};
use crate::index::hash::state::{FreeBlock, Index};
use crate::page::Damage;
use crate::wal::RecordKind;

/// Most pins that are kept for the next attempt.
const MAX_PINNED: usize = 4;

/// A batch that is being inserted.
struct BatchInsert<'a, 'e> {
    index: &'a Index,
    xid: Xid,
    entries: &'a [IndexEntry<'e>],
    oracle: Option<&'a dyn HeapOracle>,
}

/// What the insertion of a batch keeps from run to run.
#[derive(Default)]
struct InsertState {
    /// A block for a new page.
    block: Option<FreeBlock>,
    /// The page that the caller named for the next entry.
    hint: Option<Pin>,
    /// Pages that were not in memory, pinned so that they stay.
    pinned: Vec<Pin>,
    tries: Tries,
}

/// The result of one run.
enum InsertStep {
    /// Entries before this position are in.
    Inserted { upto: usize },
    /// The run must be repeated.
    Retry(Retry),
    /// The batch ends here.
    Finished(InsertOutcome),
}

/// Why a run must be repeated.
enum Retry {
    /// It needs a free block.
    NeedBlock,
    /// It needs this page in memory.
    NeedPage(u32),
    /// The directory needs an entry for the bucket right of this page first.
    FinishSplit(u32),
    /// Another thread changed a page between the search and the latch.
    Conflict,
}

/// The entry at hand.
struct RunEntry<'e> {
    /// Its position in the batch.
    at: usize,
    /// Does its run begin with it? Only then may it change more than the page of the run, or fail.
    is_first: bool,
    entry: BucketEntry<'e>,
    position: Vec<u8>,
    /// The oracle, if the entry is checked for uniqueness.
    oracle: Option<&'e dyn HeapOracle>,
}

impl RunEntry<'_> {
    /// The position without row id: where the entries of its key begin.
    fn key_position(&self) -> &[u8] {
        &self.position[..CODE_BYTES + self.entry.key.len()]
    }

    /// Where work on the entry begins.
    fn target(&self) -> &[u8] {
        if self.oracle.is_some() { self.key_position() } else { &self.position }
    }
}

/// The result of one entry of a run.
enum EntryOutcome {
    /// It is in, on the page that the run began with.
    Inserted,
    /// It is in, on a page to the right: the run ends with it.
    InsertedRight,
    /// It is left to the next run: this one logs what it has stored.
    NextRun,
    /// The run ends without it.
    EndRun(InsertStep),
    /// The page must be split.
    PageFull(LatchedPage),
}

impl EntryOutcome {
    fn retry(retry: Retry) -> EntryOutcome {
        EntryOutcome::EndRun(InsertStep::Retry(retry))
    }
}

impl Index {
    /// See [`crate::index::am::AccessMethod::insert_group`].
    pub(crate) fn insert_group(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        oracle: Option<&dyn HeapOracle>,
        hint: Option<Pin>,
    ) -> Result<InsertOutcome> {
        check_entry_sizes(entries)?;
        debug_assert!(entries.is_sorted_by_key(|entry| entry_position(entry.key, entry.row)));
        let batch = BatchInsert { index: self, xid, entries, oracle };
        let mut state = InsertState { hint, ..InsertState::default() };
        let mut at = 0;
        while at < entries.len() {
            match batch.insert_run(at, &mut state)? {
                InsertStep::Inserted { upto } => {
                    assert!(upto > at, "a run makes progress or says what it lacks");
                    at = upto;
                    state.note_progress();
                }
                InsertStep::Retry(retry) => state.prepare(self, retry)?,
                InsertStep::Finished(outcome) => return Ok(outcome),
            }
        }
        Ok(InsertOutcome::Inserted)
    }
}

impl InsertState {
    /// Acquires what a run lacked. The caller holds no latch.
    fn prepare(&mut self, index: &Index, retry: Retry) -> Result<()> {
        match retry {
            Retry::NeedBlock => self.block = Some(index.choose_free_block()?),
            Retry::NeedPage(block) => {
                if self.pinned.len() >= MAX_PINNED {
                    self.pinned.clear();
                }
                self.pinned.push(index.pin_linked(block)?);
            }
            Retry::FinishSplit(block) => index.finish_split(block)?,
            Retry::Conflict => rightlink_env::thread::yield_now(),
        }
        self.tries.again(&index.pool, index.page(0), "a change of the index makes no progress")
    }

    /// A run succeeded: the next attempts are counted from zero.
    fn note_progress(&mut self) {
        self.tries = Tries::default();
        self.pinned.clear();
    }
}

impl<'a> BatchInsert<'a, '_> {
    fn run_entry(&self, at: usize, is_first: bool) -> RunEntry<'a> {
        let IndexEntry { key, row, payload, .. } = self.entries[at];
        let entry = BucketEntry { code: hash_code(key), key, row, payload, dead: false };
        let oracle = self.oracle.filter(|_| self.entries[at].is_checked());
        RunEntry { at, is_first, position: entry.position(), entry, oracle }
    }

    fn damage(&self, mtr: &Mtr<'_>, held: LatchedPage) -> impl Fn(Damage) -> Error + use<'a> {
        let (index, block) = (self.index, mtr.id(held).block.0);
        move |what| index.corrupt(block, what)
    }

    /// Does the latched page take the target of the entry?
    fn takes(&self, mtr: &Mtr<'_>, held: LatchedPage, entry: &RunEntry<'_>) -> Result<bool> {
        let matched = match_page(mtr.bytes(held), entry.target());
        let here = matched.map_err(self.damage(mtr, held))? == PageMatch::Here;
        Ok(here || broken(Broken::HashPageNotRechecked))
    }

    /// Inserts entries from `from` on, as many as belong on one page.
    fn insert_run(&self, from: usize, state: &mut InsertState) -> Result<InsertStep> {
        let entry = self.run_entry(from, true);
        let pin = match state.hint.take() {
            Some(pin) => pin,
            None => self.index.find_page(entry.target())?,
        };
        let mut mtr = Mtr::new(&self.index.pool);
        let held = mtr.latch(pin);
        match self.takes(&mtr, held, &entry)? {
            true => self.fill_page(mtr, held, entry, state),
            false => Ok(InsertStep::Retry(Retry::Conflict)),
        }
    }

    /// Inserts `entry` and those after it into the latched page `first`. Only that entry may go to
    /// a page right of it.
    fn fill_page(
        &self,
        mut mtr: Mtr<'a>,
        first: LatchedPage,
        mut entry: RunEntry<'a>,
        state: &mut InsertState,
    ) -> Result<InsertStep> {
        let mut upto = entry.at;
        loop {
            let outcome = match self.insert_entry(&mut mtr, first, &entry) {
                // Stored entries get their record; the next run meets the error or the full page.
                Err(_) | Ok(EntryOutcome::EndRun(_) | EntryOutcome::PageFull(_))
                    if !entry.is_first =>
                {
                    break;
                }
                outcome => outcome?,
            };
            match outcome {
                EntryOutcome::Inserted => upto += 1,
                EntryOutcome::InsertedRight => {
                    upto += 1;
                    break;
                }
                EntryOutcome::NextRun => break,
                EntryOutcome::EndRun(step) => return Ok(step),
                EntryOutcome::PageFull(held) => {
                    let retry = self.index.split(mtr, held, &entry.entry, state.block.take())?;
                    return Ok(InsertStep::Retry(retry));
                }
            }
            if upto == self.entries.len() {
                break;
            }
            entry = self.run_entry(upto, false);
        }
        mtr.commit(RecordKind::IndexInsert, self.xid)?;
        Ok(InsertStep::Inserted { upto })
    }

    /// Inserts one entry of a run that holds the latch of the page `first`.
    fn insert_entry(
        &self,
        mtr: &mut Mtr<'a>,
        first: LatchedPage,
        entry: &RunEntry<'a>,
    ) -> Result<EntryOutcome> {
        if !self.takes(mtr, first, entry)? {
            return Ok(match entry.is_first {
                true => EntryOutcome::retry(Retry::Conflict),
                false => EntryOutcome::NextRun,
            });
        }
        let held = match entry.oracle {
            None => first,
            Some(oracle) => match self.check_unique(mtr, first, entry, oracle)? {
                Ok(held) => held,
                Err(outcome) => return Ok(outcome),
            },
        };
        let stored = self.insert_on_page(mtr, held, entry);
        Ok(match stored.map_err(self.damage(mtr, held))? {
            EntryOutcome::Inserted if held != first => EntryOutcome::InsertedRight,
            stored => stored,
        })
    }
}
