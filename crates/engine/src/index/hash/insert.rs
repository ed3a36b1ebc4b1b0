//! Insertion of a batch: a page is held for all of its entries, one record per page.
//!
//! Uniqueness (R8): the exclusive latch on the first page that could hold the key without a row id
//! is held from the check to the insertion. Equal keys may go on right of it, on overflow pages;
//! the walk latches rightwards (R12) and keeps that first page.
//!
//! Invariants: nothing is stored before everything that can fail has been checked; what a page has
//! taken gets its record before anything else happens.
//! Does not do: wait. Whom to wait for is an outcome.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::index::MAX_ENTRY_BYTES;
use crate::index::Tries;
use crate::index::am::{HeapOracle, IndexEntry, InsertOutcome, ask};
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, HAS_DEAD, INCOMPLETE, Place, place_on};
use crate::index::hash::code::{CODE, code_of, split_code, whole};
use crate::index::hash::edit::{self, Entry, Frame};
use crate::index::hash::meta::Spare;
use crate::wal::RecordKind;

/// What a writer carries from round to round: things that must be got without a latch.
#[derive(Default)]
struct Kit {
    /// A block for a split.
    spare: Option<Spare>,
    /// Where the next entry probably belongs.
    guess: Option<Pin>,
    /// Pages that were missing under a latch.
    keep: Vec<Pin>,
    tries: Tries,
}

/// A round's result.
enum Round {
    /// Entries below this position are in.
    Upto(usize),
    /// Run again, once this has been fetched or done.
    Lack(Lack),
    /// The batch stops.
    Stop(InsertOutcome),
}

/// What a round lacked.
pub(crate) enum Lack {
    /// A block for a split.
    Spare,
    /// This page in memory.
    Page(u32),
    /// An entry in the directory for the bucket right of this page.
    Finish(u32),
    /// Only luck: somebody changed what was looked at.
    Luck,
}

/// Verdict on one key.
enum Verdict {
    /// It may go in.
    Free,
    /// Equal keys may go on in the page to the right.
    GoesOn,
    /// It may not, or not yet.
    Stop(InsertOutcome),
}

/// A batch under way.
struct Batch<'a, 'e> {
    index: &'a Index,
    xid: Xid,
    entries: &'a [IndexEntry<'e>],
    oracle: Option<&'a dyn HeapOracle>,
}

/// A page that has less than one part in so many free asks the heap for dead rows.
const WORTH: usize = 10;
/// Pages that were missing and are kept until the entry is in.
const MAX_KEPT: usize = 4;

impl Index {
    /// See [`crate::index::am::AccessMethod::insert_group`].
    pub(crate) fn insert_ordered(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        page: Option<Pin>,
    ) -> Result<InsertOutcome> {
        for entry in entries {
            let bytes = entry.key.len() + entry.payload.len();
            if bytes > MAX_ENTRY_BYTES {
                let what = format!("index entry of {bytes} bytes, at most {MAX_ENTRY_BYTES}");
                return Err(Error::RowTooLarge(what));
            }
        }
        debug_assert!(entries.is_sorted_by_key(|entry| whole(entry.key, entry.row)));
        let batch = Batch { index: self, xid, entries, oracle: unique };
        let mut kit = Kit { guess: page, ..Kit::default() };
        let mut at = 0;
        while at < entries.len() {
            match batch.round(at, &mut kit)? {
                Round::Upto(next) => {
                    assert!(next > at, "a round makes progress or says what it lacks");
                    (at, kit.tries) = (next, Tries::default());
                    kit.keep.clear();
                }
                Round::Lack(lack) => kit.fetch(self, lack)?,
                Round::Stop(outcome) => return Ok(outcome),
            }
        }
        Ok(InsertOutcome::Inserted)
    }
}

impl Kit {
    /// Fetches what a round said it lacked. No latch is held.
    fn fetch(&mut self, index: &Index, lack: Lack) -> Result<()> {
        match lack {
            Lack::Spare => self.spare = Some(index.spare()?),
            Lack::Page(block) => {
                if self.keep.len() >= MAX_KEPT {
                    self.keep.clear();
                }
                self.keep.push(index.pin_linked(block)?);
            }
            Lack::Finish(block) => index.finish(block)?,
            Lack::Luck => rightlink_env::thread::yield_now(),
        }
        self.tries.again(&index.pool, index.page(0), "a change of the index makes no progress")
    }
}

impl<'a> Batch<'a, '_> {
    /// The oracle, if entry `at` must be checked.
    fn oracle_for(&self, at: usize) -> Option<&'a dyn HeapOracle> {
        self.oracle.filter(|_| self.entries[at].is_checked())
    }

    fn entry(&self, at: usize) -> Entry<'_> {
        let IndexEntry { key, row, payload, .. } = self.entries[at];
        Entry { code: code_of(key), key, row, payload, dead: false }
    }

    /// Where entry `at` is, and how much of that leads to the page where work on it begins.
    fn aim(&self, at: usize) -> (Vec<u8>, usize) {
        let position = whole(self.entries[at].key, self.entries[at].row);
        let all = position.len();
        let asked = self.oracle_for(at).is_some();
        (position, if asked { CODE + self.entries[at].key.len() } else { all })
    }

    /// One page: as many entries from `at` on as belong there.
    fn round(&self, at: usize, kit: &mut Kit) -> Result<Round> {
        let (position, aim) = self.aim(at);
        let pin = match kit.guess.take() {
            Some(pin) => pin,
            None => self.index.find(&position[..aim])?,
        };
        let mut mtr = Mtr::new(&self.index.pool);
        let held = mtr.latch(pin);
        let here = place_on(mtr.bytes(held), &position[..aim]);
        match here.map_err(|what| self.index.corrupt(mtr.id(held).block.0, what))? {
            Place::Here => self.fill(mtr, held, at, kit),
            _ if broken(Broken::HashPageNotRechecked) => self.fill(mtr, held, at, kit),
            Place::Right(_) | Place::Lost => Ok(Round::Lack(Lack::Luck)),
        }
    }

    /// Entries from `start` on, into the latched page `first` or, for the first of them, right of
    /// it.
    fn fill(
        &self,
        mut mtr: Mtr<'a>,
        first: LatchedPage,
        start: usize,
        kit: &mut Kit,
    ) -> Result<Round> {
        let mut at = start;
        while at < self.entries.len() {
            match self.one(&mut mtr, first, at, at == start)? {
                One::In => at += 1,
                // What was stored gets its record; the next round deals with the rest.
                _ if at > start => break,
                One::Elsewhere => return Ok(Round::Lack(Lack::Luck)),
                One::Stop(outcome) => return Ok(Round::Stop(outcome)),
                One::Lack(lack) => return Ok(Round::Lack(lack)),
                One::InRight => {
                    at += 1;
                    break;
                }
                One::Full(held) => {
                    let split = self.index.split(mtr, held, &self.entry(at), kit.spare.take());
                    return Ok(Round::Lack(match split? {
                        Some(lack) => lack,
                        None => Lack::Luck,
                    }));
                }
            }
        }
        mtr.commit(RecordKind::IndexInsert, self.xid)?;
        Ok(Round::Upto(at))
    }

    /// One entry, into `first` or right of it. An error is one of the first entry: with others
    /// stored before, it only ends the page.
    fn one(&self, mtr: &mut Mtr<'a>, first: LatchedPage, at: usize, is_first: bool) -> Result<One> {
        match self.try_one(mtr, first, at, is_first) {
            Err(_) if !is_first => Ok(One::Elsewhere),
            done => done,
        }
    }

    fn try_one(
        &self,
        mtr: &mut Mtr<'a>,
        first: LatchedPage,
        at: usize,
        is_first: bool,
    ) -> Result<One> {
        let (position, aim) = self.aim(at);
        let damage = |mtr: &Mtr<'_>, held, what| self.index.corrupt(mtr.id(held).block.0, what);
        let place = place_on(mtr.bytes(first), &position[..aim]);
        if place.map_err(|what| damage(mtr, first, what))? != Place::Here
            && !broken(Broken::HashPageNotRechecked)
        {
            return Ok(One::Elsewhere);
        }
        let mut held = first;
        if let Some(oracle) = self.oracle_for(at) {
            let verdict = self.judge(mtr, first, at, &position, oracle);
            match verdict.map_err(|what| damage(mtr, first, what))? {
                Verdict::Free if is_first && broken(Broken::HashUniqueLatchReleased) => {
                    let pin = mtr.release(first);
                    held = mtr.latch(pin);
                }
                Verdict::Free => {}
                Verdict::Stop(outcome) => return Ok(One::Stop(outcome)),
                Verdict::GoesOn if !is_first => return Ok(One::Elsewhere),
                Verdict::GoesOn => match self.walk(mtr, first, at, &position, oracle)? {
                    Ok(target) => held = target,
                    Err(one) => return Ok(one),
                },
            }
        }
        let stored = self.put(mtr, held, at, &position, is_first);
        let stored = stored.map_err(|what| damage(mtr, held, what))?;
        Ok(if matches!(stored, One::In) && held != first { One::InRight } else { stored })
    }

    /// Stores entry `at` in the page that it belongs on.
    fn put(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        at: usize,
        position: &[u8],
        is_first: bool,
    ) -> Checked<One> {
        let bucket = Bucket::open(mtr.bytes(held))?;
        if bucket.flags & INCOMPLETE != 0 && is_first {
            return Ok(One::Lack(Lack::Finish(mtr.id(held).block.0)));
        }
        let (pos, there) = bucket.find(position)?;
        if there {
            self.index.revive(mtr, held, pos);
            return Ok(One::In);
        }
        let entry = self.entry(at);
        if edit::fits(&bucket, &entry, self.index.reserve()) {
            edit::insert_at(&mut mtr.page(held), pos, &entry);
            return Ok(One::In);
        }
        let Some(image) = self.index.squeeze_in(&bucket, pos, &entry)? else {
            return Ok(One::Full(held));
        };
        mtr.page(held).replace(&image);
        Ok(One::In)
    }

    /// Looks at the entries of the page whose key equals that of entry `at`.
    fn judge(
        &self,
        mtr: &Mtr<'_>,
        held: LatchedPage,
        at: usize,
        position: &[u8],
        oracle: &dyn HeapOracle,
    ) -> Checked<Verdict> {
        let key = self.entries[at].key;
        let (code, _) = split_code(position);
        let bucket = Bucket::open(mtr.bytes(held))?;
        let beginning = &position[..CODE + key.len()];
        let mut pos = bucket.search(beginning)?;
        let mut rows = Vec::new();
        while pos < bucket.count && bucket.has_key(pos, code, key)? {
            let item = bucket.item(pos)?;
            if !item.dead && item.row != self.entries[at].row {
                rows.push(item.row);
            }
            pos += 1;
        }
        // A live row decides wherever it is, so all are asked about before a wait is an outcome.
        if let Some(outcome) = ask(&rows, at, oracle) {
            return Ok(Verdict::Stop(outcome));
        }
        let goes_on = bucket.high().is_some_and(|high| high.starts_with(beginning));
        Ok(if goes_on { Verdict::GoesOn } else { Verdict::Free })
    }

    /// Walks right while equal keys may go on, latching, and returns the latched page that the
    /// entry belongs on; only that one and `first` stay latched.
    fn walk(
        &self,
        mtr: &mut Mtr<'a>,
        first: LatchedPage,
        at: usize,
        position: &[u8],
        oracle: &dyn HeapOracle,
    ) -> Result<std::result::Result<LatchedPage, One>> {
        let (mut target, mut current) = (None, first);
        loop {
            let block = mtr.id(current).block.0;
            let damage = |what| self.index.corrupt(block, what);
            let bucket = Bucket::open(mtr.bytes(current)).map_err(damage)?;
            let (next, end) = (bucket.right, bucket.high().map(<[u8]>::to_vec));
            if target.is_none() && bucket.place(position) == Place::Here {
                target = Some(current);
            }
            match self.judge(mtr, current, at, position, oracle).map_err(damage)? {
                Verdict::Stop(outcome) => return Ok(Err(One::Stop(outcome))),
                Verdict::GoesOn => {}
                Verdict::Free => {
                    let target = target.ok_or_else(|| damage("equal keys end before the key"))?;
                    if current != first && current != target {
                        mtr.release(current);
                    }
                    return Ok(Ok(target));
                }
            }
            let Some(pin) = self.index.pool.try_pin(self.index.page(next)) else {
                return Ok(Err(One::Lack(Lack::Page(next))));
            };
            // Vacuum must not come between the two pages, or it could empty the next one: it is
            // latched before this one is let go.
            let here = current;
            let early = broken(Broken::HashWalkWithoutCoupling);
            if early && here != first && Some(here) != target {
                mtr.release(here);
            }
            current = mtr.latch(pin);
            if !early && here != first && Some(here) != target {
                mtr.release(here);
            }
            let begins = Bucket::open(mtr.bytes(current)).map(|bucket| bucket.low().to_vec());
            if begins.map_err(damage)? != end.unwrap_or_default() {
                return Err(damage("the page to the right begins elsewhere"));
            }
        }
    }
}

/// What became of one entry.
enum One {
    /// In the first page.
    In,
    /// In a page right of it.
    InRight,
    /// It belongs elsewhere.
    Elsewhere,
    /// No room in this page.
    Full(LatchedPage),
    /// Something must be got first.
    Lack(Lack),
    /// The batch stops.
    Stop(InsertOutcome),
}

impl Index {
    /// An entry that is there already stays; it may have been marked dead.
    fn revive(&self, mtr: &mut Mtr<'_>, held: LatchedPage, pos: usize) {
        let bucket = Bucket::open(mtr.bytes(held)).expect("opened under this latch");
        let word = bucket.word(pos);
        if word & super::bucket::DEAD != 0 {
            let at = crate::page::header::HEADER_SIZE + pos * super::bucket::SLOT;
            // Logged: redo may meet a page on which the mark reached the disk.
            mtr.page(held).put_u16(at, word & !super::bucket::DEAD);
        }
    }

    /// The page encoded again with one more entry, without garbage, and if need be without what is
    /// marked dead or the heap calls dead; `None` if that does not make room.
    fn squeeze_in(
        &self,
        bucket: &Bucket<'_>,
        pos: usize,
        entry: &Entry<'_>,
    ) -> Checked<Option<Box<[u8; PAGE_SIZE]>>> {
        let frame = Frame::of(bucket, self.reserve());
        let mut entries = Entry::all(bucket)?;
        entries.insert(pos, *entry);
        let worth = self.options.capacity / WORTH;
        let spare = |image: &[u8; PAGE_SIZE]| {
            Bucket::open(image).is_ok_and(|bucket| bucket.room() >= worth + self.reserve())
        };
        let mut image = frame.image(&entries);
        if image.is_none() && bucket.flags & HAS_DEAD != 0 {
            entries.retain(|entry| !entry.dead);
            image = frame.image(&entries);
        }
        if !image.as_deref().is_some_and(spare) && self.drop_dead(&mut entries, entry.row) {
            image = frame.image(&entries);
        }
        Ok(image)
    }
}
