//! Numbers that are handed out once: what generated columns take their values from.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 32 | 8 | the next number that is not reserved, i64 |
//! | 40 | 1 | 1: there is none left |
//! | 41 | 1 | 1: numbers were reserved since the start, and the last of them is the next field |
//! | 42 | 6 | zero |
//! | 48 | 8 | the last number that was reserved, i64 |
//!
//! A sequence is one page of its own file. Numbers are reserved in runs: the page says which is the
//! first that nobody may have got, and is changed in a log record of its own before any of the run
//! is handed out. That belongs to no transaction: a number is not given back when its user rolls
//! back, and nobody waits for another. After a crash the numbers of a run that nobody took are
//! skipped.
//!
//! Invariants: a number is handed out at most once among transactions that commit: the record of
//! its run precedes every commit that can use it in the log. The transaction that reserves has an
//! xid, so that its commit is durable although it may have written nothing else.
//! Does not do: other orders than steps of one size.

use rightlink_env::Broken;
use rightlink_env::points::{self, broken};
use rightlink_env::sync::{Arc, Mutex};

use crate::buffer::{BufferPool, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, Xid};
use crate::page::header::{self, HEADER_SIZE, PageKind};
use crate::txn::Transaction;
use crate::wal::RecordKind;

use super::schema::{SequenceDef, SequenceSchema};

/// Offset of the next number.
const NEXT: usize = HEADER_SIZE;
/// Offset of the mark that there is none.
const EXHAUSTED: usize = HEADER_SIZE + 8;
/// Offset of the mark that [`LAST`] is one that was reserved. Older versions left both 0.
const DRAWN: usize = HEADER_SIZE + 9;
/// Offset of the last number that was reserved.
const LAST: usize = HEADER_SIZE + 16;
/// Numbers reserved at once, if no more are wanted.
const RUN: u64 = 32;

/// A sequence's page, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// The next number that is not reserved, `None` if there is none left.
    pub next: Option<i64>,
    /// Where the sequence is when all reserved ones are drawn.
    pub at: SequencePosition,
}

/// Position of a sequence: see
/// [`Catalog::sequence_position`](crate::Catalog::sequence_position).
///
/// ```
/// use rightlink::{SequencePosition, SequenceSchema};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_sequence(&SequenceSchema::new("tickets"))?;
/// txn.next_value("tickets")?;
/// let at = txn.catalog().sequence_position("tickets")?;
/// assert_eq!(at, SequencePosition { value: 1, drawn: true });
/// txn.numbers("tickets")?.set(SequencePosition { value: 50, drawn: false })?;
/// assert_eq!(txn.next_value("tickets")?, 50);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencePosition {
    /// Number that was drawn last or, if `drawn` is false, the number that is drawn next.
    pub value: i64,
    /// True if `value` was drawn already.
    pub drawn: bool,
}

/// An open sequence. Exists once, so that a number is in one hand only.
pub struct Sequence {
    pool: Arc<BufferPool>,
    file: FileId,
    schema: SequenceSchema,
    state: Mutex<Option<State>>,
}

/// What is known since the page was read first.
#[derive(Clone, Copy)]
struct State {
    /// Where it is.
    at: SequencePosition,
    /// So many after that are reserved.
    left: u64,
}

impl Sequence {
    /// Creates the file of a new sequence.
    pub fn create(pool: &Arc<BufferPool>, def: &SequenceDef) -> Result<Arc<Self>> {
        def.schema.validate()?;
        pool.create_file(def.file, true)?;
        let block = pool.extend(def.file, 1)?;
        assert!(block.0 == 0, "the file is new");
        let mut image = header::format(PageKind::Sequence, 0);
        image[NEXT..NEXT + 8].copy_from_slice(&def.schema.start.to_le_bytes());
        let mut mtr = Mtr::new(pool);
        let held = mtr.latch(pool.pin_new(PageId::new(def.file, 0))?);
        mtr.page(held).replace(&image);
        mtr.commit(RecordKind::Sequence, Xid::NONE)?;
        Ok(Self::new(pool, def))
    }

    /// Opens a sequence that exists.
    pub fn open(pool: &Arc<BufferPool>, def: &SequenceDef) -> Result<Arc<Self>> {
        pool.open_file(def.file, true).map_err(|error| named(&def.schema, error))?;
        Ok(Self::new(pool, def))
    }

    fn new(pool: &Arc<BufferPool>, def: &SequenceDef) -> Arc<Self> {
        let (pool, schema) = (Arc::clone(pool), def.schema.clone());
        Arc::new(Self { pool, file: def.file, schema, state: Mutex::new(None) })
    }

    /// Its file.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Its definition.
    pub fn schema(&self) -> &SequenceSchema {
        &self.schema
    }

    /// What its page says (for verification).
    pub fn stored(&self) -> Result<Reserved> {
        self.read().map_err(|error| named(&self.schema, error))
    }

    fn read(&self) -> Result<Reserved> {
        let id = PageId::new(self.file, 0);
        let pin = self.pool.pin(id)?;
        let latch = pin.shared();
        let reserved = decode(id, latch.bytes(), &self.schema)?;
        let has = |number: i64| (self.schema.min..=self.schema.max).contains(&number);
        if !has(reserved.at.value) || reserved.next.is_some_and(|next| !has(next)) {
            return Err(Error::corrupt(id, "the next number is outside the sequence's bounds"));
        }
        Ok(reserved)
    }

    /// Where it is.
    pub fn position(&self) -> Result<SequencePosition> {
        match *self.state.lock() {
            Some(state) => Ok(state.at),
            None => Ok(self.stored()?.at),
        }
    }

    /// The number that would be handed out next.
    pub fn peek(&self) -> Result<Option<i64>> {
        Ok(self.next_of(self.position()?))
    }

    /// The number that comes next at `at`.
    fn next_of(&self, at: SequencePosition) -> Option<i64> {
        if at.drawn { self.after(at.value, 1) } else { Some(at.value) }
    }

    /// The next `count` numbers.
    ///
    /// # Errors
    /// `Limit` if there are not so many left; none is taken then.
    pub fn take(&self, txn: &mut Transaction, count: usize) -> Result<Vec<i64>> {
        self.take_for(&mut || txn.xid().map(drop), count)
    }

    /// As [`Sequence::take`], for a transaction that has an xid.
    pub fn take_with_xid(&self, count: usize) -> Result<Vec<i64>> {
        self.take_for(&mut || Ok(()), count)
    }

    fn take_for(&self, xid: &mut dyn FnMut() -> Result<()>, count: usize) -> Result<Vec<i64>> {
        let mut guard = self.state.lock();
        let mut state = match *guard {
            Some(state) => state,
            None => State { at: self.stored()?.at, left: 0 },
        };
        if (count as u64) > state.left {
            state.left = self.reserve(xid, state.at, count as u64)?;
        }
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            let value = self.next_of(state.at).expect("reserved numbers are there");
            numbers.push(value);
            state.at = SequencePosition { value, drawn: true };
            state.left -= 1;
        }
        *guard = Some(state);
        Ok(numbers)
    }

    /// Reserves at least `wanted` numbers after `at`; how many are reserved then.
    fn reserve(
        &self,
        xid: &mut dyn FnMut() -> Result<()>,
        at: SequencePosition,
        wanted: u64,
    ) -> Result<u64> {
        let next = self.next_of(at);
        let there = match next {
            Some(_) if self.schema.cycle => u64::MAX,
            Some(next) => self.count_from(next),
            None => 0,
        };
        if there < wanted {
            let (name, min, max) = (&self.schema.name, self.schema.min, self.schema.max);
            let what = format!("sequence {name} has no more numbers between {min} and {max}");
            return Err(Error::Limit(what));
        }
        let run = wanted.max(RUN).min(there);
        let first = next.expect("there are some");
        xid()?;
        if !broken(Broken::SequenceNotLogged) {
            let value = self.after(first, run - 1).expect("so many are there");
            self.store(SequencePosition { value, drawn: true })?;
        }
        points::hit("sequence.reserved");
        Ok(run)
    }

    /// Numbers that the sequence has from `next` on, until it begins again if it does.
    fn count_from(&self, next: i64) -> u64 {
        let (next, step) = (i128::from(next), i128::from(self.schema.increment));
        let end = if step > 0 { self.schema.max } else { self.schema.min };
        let steps = (i128::from(end) - next) / step;
        u64::try_from(steps + 1).unwrap_or(u64::MAX)
    }

    /// The number `steps` after `number`, if the sequence has it.
    fn after(&self, number: i64, steps: u64) -> Option<i64> {
        let SequenceSchema { increment, min, max, cycle, .. } = self.schema;
        let at = |from: i64, steps: u64| {
            let at = i128::from(from) + i128::from(increment) * i128::from(steps);
            i64::try_from(at).ok().filter(|at| (min..=max).contains(at))
        };
        match at(number, steps) {
            None if cycle => {
                let first = if increment > 0 { min } else { max };
                // More than it has from `number` on, or that would be it.
                at(first, (steps - self.count_from(number)) % self.count_from(first))
            }
            found => found,
        }
    }

    /// Goes on with `next`. Not undone by a rollback either.
    pub fn restart(&self, txn: &mut Transaction, next: i64) -> Result<()> {
        self.set(txn, SequencePosition { value: next, drawn: false })
    }

    /// Goes on from `at`. Not undone by a rollback either.
    pub fn set(&self, txn: &mut Transaction, at: SequencePosition) -> Result<()> {
        txn.xid()?;
        self.set_with_xid(at)
    }

    /// As [`Sequence::set`], for a transaction that has an xid.
    pub fn set_with_xid(&self, at: SequencePosition) -> Result<()> {
        if !(self.schema.min..=self.schema.max).contains(&at.value) {
            let (name, min, max) = (&self.schema.name, self.schema.min, self.schema.max);
            let value = at.value;
            let what = format!("{value} for sequence {name}, whose numbers are {min} to {max}");
            return Err(Error::Invalid(what));
        }
        let mut guard = self.state.lock();
        self.store(at)?;
        *guard = Some(State { at, left: 0 });
        Ok(())
    }

    /// Gives reserved numbers back that nobody took, before a clean close.
    pub fn give_back(&self) -> Result<()> {
        let mut guard = self.state.lock();
        if let Some(state) = guard.as_mut().filter(|state| state.left > 0) {
            self.store(state.at)?;
            state.left = 0;
        }
        Ok(())
    }

    fn store(&self, at: SequencePosition) -> Result<()> {
        let next = self.next_of(at);
        let pin = self.pool.pin(PageId::new(self.file, 0));
        let pin = pin.map_err(|error| named(&self.schema, error))?;
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(pin);
        mtr.page(held).put_u64(NEXT, next.unwrap_or(0) as u64);
        mtr.page(held).write(EXHAUSTED, &[u8::from(next.is_none()), u8::from(at.drawn)]);
        mtr.page(held).put_u64(LAST, at.value as u64);
        mtr.commit(RecordKind::Sequence, Xid::NONE).map(drop)
    }
}

/// Says which sequence damage is in.
fn named(schema: &SequenceSchema, error: Error) -> Error {
    error.blamed(|_| Some(format!("sequence {}", schema.name)))
}

/// Reads a sequence's page.
fn decode(id: PageId, page: &[u8; PAGE_SIZE], schema: &SequenceSchema) -> Result<Reserved> {
    let is_one = header::kind(page) == Some(PageKind::Sequence);
    if !is_one || page[EXHAUSTED] > 1 || page[DRAWN] > 1 {
        return Err(Error::corrupt(id, "not the page of a sequence"));
    }
    let next = header::u64_at(page, NEXT) as i64;
    let next = (page[EXHAUSTED] == 0).then_some(next);
    let end = if schema.increment > 0 { schema.max } else { schema.min };
    let at = match next {
        _ if page[DRAWN] == 1 => {
            SequencePosition { value: header::u64_at(page, LAST) as i64, drawn: true }
        }
        Some(value) => SequencePosition { value, drawn: false },
        None => SequencePosition { value: end, drawn: true },
    };
    Ok(Reserved { next, at })
}
