//! Lists whose items are asked for by number: in memory, or in temporary files where a share of the
//! budget does not hold them.
//!
//! A file is read forward. The items that were read last stay in memory, so that a look a short way
//! back reads nothing; a look further back reads the file from its start. Who looks at several
//! places in turn has a copy for each ([`List::again`]).
//!
//! Invariants: what is in memory is counted; an item comes back as it was kept.
//! Does not do: changes of items.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::spill::{Spill, Spilled};
use crate::error::Result;
use crate::exec::memory::{Memory, row_bytes};
use crate::expr::Context;
use crate::expr::aggregate::Input;
use crate::types::{Datum, Row};

/// Of what the memory budget has left, what a list takes before it goes to files.
const SHARE: usize = 16;
/// Bytes of the items of a file that stay in memory behind the last one.
const RECENT: usize = 64 << 10;

/// What a list may be of.
pub(super) trait Item: Clone {
    /// Bytes in memory.
    fn bytes(&self) -> usize;
    fn into_row(self) -> Row;
    fn of_row(row: Row) -> Self;
}

impl Item for Row {
    fn bytes(&self) -> usize {
        row_bytes(self)
    }

    fn into_row(self) -> Row {
        self
    }

    fn of_row(row: Row) -> Row {
        row
    }
}

impl Item for Datum {
    fn bytes(&self) -> usize {
        size_of::<Datum>() + self.heap_bytes()
    }

    fn into_row(self) -> Row {
        vec![self]
    }

    fn of_row(mut row: Row) -> Datum {
        row.pop().unwrap_or_default()
    }
}

impl Item for Option<Input> {
    fn bytes(&self) -> usize {
        size_of::<Option<Input>>() + self.as_ref().map_or(0, Input::heap_bytes)
    }

    fn into_row(self) -> Row {
        self.map(Input::into_row).unwrap_or_default()
    }

    fn of_row(row: Row) -> Option<Input> {
        (!row.is_empty()).then(|| Input::of_row(row))
    }
}

impl Item for usize {
    fn bytes(&self) -> usize {
        size_of::<usize>()
    }

    fn into_row(self) -> Row {
        vec![Datum::Int8(self as i64)]
    }

    fn of_row(row: Row) -> usize {
        row.first().and_then(Datum::as_int).map_or(0, |value| value as usize)
    }
}

/// A list in the making.
pub(super) struct Listing<T> {
    items: Vec<T>,
    memory: Memory,
    /// Bytes from which on files are used.
    most: usize,
    spill: Option<Spill>,
    count: usize,
}

impl<T: Item> Listing<T> {
    pub(super) fn new(context: &Context) -> Listing<T> {
        let memory = Memory::new(&context.budget());
        let most = context.settings.work_memory(memory.available() / SHARE);
        Listing { items: Vec::new(), memory, most, spill: None, count: 0 }
    }

    /// Adds an item behind the others.
    pub(super) fn push(&mut self, item: T, context: &Context) -> Result<()> {
        self.count += 1;
        if let Some(spill) = &mut self.spill {
            return spill.push(&[], &item.into_row());
        }
        let full = self.memory.charge(item.bytes()).is_err();
        self.items.push(item);
        if !full && self.memory.used() <= self.most {
            return Ok(());
        }
        // What the items have goes to the files that they go to.
        self.memory.release();
        let mut spill = Spill::new(self.most, context)?;
        for item in std::mem::take(&mut self.items) {
            spill.push(&[], &item.into_row())?;
        }
        self.spill = Some(spill);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_in_files(&self) -> bool {
        self.spill.is_some()
    }

    pub(super) fn finish(self, context: &Context) -> Result<List<T>> {
        let Some(spill) = self.spill else {
            return Ok(List::Memory(Arc::new(Items { all: self.items, memory: self.memory })));
        };
        let files = InFiles::new(spill.finish()?, self.count, context)?;
        Ok(List::Files(Box::new(RefCell::new(files))))
    }
}

/// Items, each with a number from 0 on.
pub(super) enum List<T> {
    Memory(Arc<Items<T>>),
    Files(Box<RefCell<InFiles<T>>>),
}

/// Items in memory, and what counts them.
pub(super) struct Items<T> {
    pub(super) all: Vec<T>,
    pub(super) memory: Memory,
}

/// Items in a file.
pub(super) struct InFiles<T> {
    spilled: Spilled,
    count: usize,
    /// The items that were read last, and the number of the first of them.
    recent: VecDeque<T>,
    first: usize,
    bytes: usize,
    #[expect(dead_code, reason = "counts the items that were read last")]
    memory: Memory,
}

impl<T: Item> InFiles<T> {
    fn new(spilled: Spilled, count: usize, context: &Context) -> Result<InFiles<T>> {
        let mut memory = Memory::new(&context.budget());
        memory.charge(RECENT)?;
        Ok(InFiles { spilled, count, recent: VecDeque::new(), first: 0, bytes: 0, memory })
    }

    /// Reads up to an item, which is then among the recent ones.
    fn item(&mut self, at: usize, context: &Context) -> Result<&T> {
        assert!(at < self.count, "an item of the list");
        if at < self.first {
            self.spilled.rewind()?;
            self.recent.clear();
            (self.first, self.bytes) = (0, 0);
        }
        while at >= self.first + self.recent.len() {
            let next = self.spilled.next(context)?;
            let item = T::of_row(next.expect("its number is one of the items'").1);
            self.bytes += item.bytes();
            self.recent.push_back(item);
            while self.bytes > RECENT
                && self.recent.len() > 1
                && let Some(oldest) = self.recent.pop_front()
            {
                self.bytes -= oldest.bytes();
                self.first += 1;
            }
        }
        Ok(&self.recent[at - self.first])
    }
}

impl<T: Item> List<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::Memory(items) => items.all.len(),
            List::Files(files) => files.borrow().count,
        }
    }

    /// Looks at an item.
    pub(super) fn with<R>(
        &self,
        at: usize,
        context: &Context,
        look: impl FnOnce(&T) -> R,
    ) -> Result<R> {
        match self {
            List::Memory(items) => Ok(look(&items.all[at])),
            List::Files(files) => files.borrow_mut().item(at, context).map(look),
        }
    }

    /// A copy of an item.
    pub(super) fn get(&self, at: usize, context: &Context) -> Result<T> {
        self.with(at, context, T::clone)
    }

    /// The same items for another reader.
    pub(super) fn again(&self, context: &Context) -> Result<List<T>> {
        if let List::Memory(items) = self {
            return Ok(List::Memory(Arc::clone(items)));
        }
        let mut copy = Listing::new(context);
        for at in 0..self.len() {
            copy.push(self.get(at, context)?, context)?;
        }
        copy.finish(context)
    }

    /// The items, if they are in memory and nobody else reads them.
    pub(super) fn into_items(self) -> std::result::Result<Items<T>, List<T>> {
        match self {
            List::Memory(items) => Arc::try_unwrap(items).map_err(List::Memory),
            files => Err(files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Db;

    #[test]
    fn items_come_back_from_memory_and_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let db = rightlink::Database::options().memory(16 << 20).open(dir.path()).unwrap();
        let context = Context { db: Some(Db(db)), ..Context::outside() };
        for count in [0usize, 1, 100, 60_000] {
            let mut listing = Listing::new(&context);
            for at in 0..count {
                let text = "x".repeat(at % 50);
                listing.push(vec![Datum::Int8(at as i64), Datum::Text(text)], &context).unwrap();
            }
            let list: List<Row> = listing.finish(&context).unwrap();
            assert_eq!(matches!(list, List::Files(_)), count == 60_000);
            let copy = list.again(&context).unwrap();
            let number = |list: &List<Row>, at| list.get(at, &context).unwrap()[0].as_int();
            for at in (0..count).step_by(7) {
                assert_eq!(number(&list, at), Some(at as i64));
                let back = at.saturating_sub(20);
                assert_eq!(number(&list, back), Some(back as i64));
            }
            // A reader of its own place.
            assert_eq!((0..count).find(|at| number(&copy, *at) != Some(*at as i64)), None);
            assert_eq!(copy.len(), count);
        }
    }
}
