//! The rows of a recursive UNION, each once: in memory, or in temporary files beyond a share of the
//! budget.
//!
//! Each file has a Bloom filter in memory: a row that no filter knows is new. A row that may be in
//! a file waits until its round is over; then all that wait are looked for in one pass over the
//! files. A file that is not much smaller than the one before it is merged with it, so that few are
//! gone through.
//!
//! Invariants: of equal rows one comes out; what is in memory is counted.
//! Does not do: the order of rows that waited.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rightlink::Budget;

use super::groups::Groups;
use super::hash_filter::HashFilter;
use super::spill::{Spill, Spilled, identify};
use crate::error::Result;
use crate::exec::memory::Memory;
use crate::exec::sort::SHARE;
use crate::expr::Context;
use crate::expr::aggregate::Ordered;
use crate::types::Row;

/// Bits of a filter for each row, and how many of them a row sets: of 1,500 other rows one passes.
const BITS: usize = 16;
const SET: u64 = 8;
/// A file so many times larger than the next is left apart.
const MUCH: usize = 4;
/// The part of the rows' share that each sort by way of files takes.
const SORTS: usize = 8;

/// Rows that came out.
pub(super) struct Seen {
    /// Those that are in no file.
    recent: BTreeSet<Ordered>,
    memory: Memory,
    /// Bytes that these may have, once there was a row.
    most: Option<usize>,
    /// Larger ones first.
    files: Vec<File>,
    /// Rows of this round that may be in a file.
    waiting: Option<Spill>,
    /// Those of the round that is over.
    checked: Option<Checked>,
}

/// A file of rows in the order of their identities.
struct File {
    spilled: Spilled,
    count: usize,
    filter: HashFilter,
    ahead: Option<Identified>,
}

struct Identified {
    identity: Vec<u8>,
    row: Row,
}

/// Rows that are being looked for.
struct Checked {
    waiting: Spilled,
    identity: Vec<u8>,
    /// Rows of files with this identity, and those that came out since: one, unless rows are long.
    same: Vec<Ordered>,
}

impl Seen {
    pub(super) fn new(budget: &Budget) -> Seen {
        Seen {
            recent: BTreeSet::new(),
            memory: Memory::new(budget),
            most: None,
            files: Vec::new(),
            waiting: None,
            checked: None,
        }
    }

    /// Does a row come out now? If not, it has come out before, or waits.
    pub(super) fn take(&mut self, row: &Row, context: &Context) -> Result<bool> {
        let key = Ordered(row.clone());
        if self.recent.contains(&key) {
            return Ok(false);
        }
        let hash = Groups::hash(row);
        if self.files.iter().any(|file| file.filter.passes(hash)) {
            let sorts = self.sorts(context);
            let waiting = match &mut self.waiting {
                Some(waiting) => waiting,
                slot => slot.insert(Spill::new(sorts, context)?),
            };
            put(waiting, row)?;
            return Ok(false);
        }
        self.add(key, context)?;
        Ok(true)
    }

    /// The round is over: those that wait are next.
    pub(super) fn turn(&mut self) -> Result<()> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        self.files.iter_mut().try_for_each(File::rewind)?;
        let waiting = waiting.finish()?;
        self.checked = Some(Checked { waiting, identity: Vec::new(), same: Vec::new() });
        Ok(())
    }

    /// The next row of those that waited which is new.
    pub(super) fn next_new(&mut self, context: &Context) -> Result<Option<Row>> {
        let Some(mut checked) = self.checked.take() else { return Ok(None) };
        while let Some((identity, row)) = checked.waiting.next(context)? {
            if identity != checked.identity {
                checked.same.clear();
                for file in &mut self.files {
                    file.find(&identity, &mut checked.same, context)?;
                }
                checked.identity = identity;
            }
            let key = Ordered(row.clone());
            if !checked.same.contains(&key) && !self.recent.contains(&key) {
                checked.same.push(key.clone());
                self.add(key, context)?;
                self.checked = Some(checked);
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Bytes that recent rows may have.
    fn most(&mut self, context: &Context) -> usize {
        let share = || context.settings.work_memory(self.memory.available() / SHARE / 4);
        *self.most.get_or_insert_with(share)
    }

    /// The same for each sort, so that all cut identities alike.
    fn sorts(&mut self, context: &Context) -> usize {
        self.most(context) / SORTS
    }

    fn add(&mut self, key: Ordered, context: &Context) -> Result<()> {
        let most = self.most(context);
        let full = self.memory.charge_row(&key.0).is_err();
        self.recent.insert(key);
        if full || self.memory.used() > most { self.spill(context) } else { Ok(()) }
    }

    /// Has a file take the recent rows.
    fn spill(&mut self, context: &Context) -> Result<()> {
        // What the rows have goes to the file that they go to.
        self.memory.release();
        let sorts = self.sorts(context);
        let rows = std::mem::take(&mut self.recent);
        let mut writer = Writer::new(rows.len(), sorts, context)?;
        for Ordered(row) in rows {
            put(&mut writer.spill, &row)?;
            writer.filter.add(Groups::hash(&row));
        }
        let mut file = writer.finish()?;
        while let Some(mut larger) = self.files.pop_if(|last| last.count < file.count * MUCH) {
            let mut both = Writer::new(larger.count + file.count, sorts, context)?;
            for one in [&mut larger, &mut file] {
                one.rewind()?;
                while let Some((identity, row)) = one.spilled.next(context)? {
                    both.spill.push(&identity, &row)?;
                    both.filter.add(Groups::hash(&row));
                }
            }
            file = both.finish()?;
        }
        self.files.push(file);
        Ok(())
    }
}

/// A file in the making.
struct Writer {
    spill: Spill,
    count: usize,
    filter: HashFilter,
}

impl Writer {
    /// For so many rows.
    fn new(count: usize, sorts: usize, context: &Context) -> Result<Writer> {
        let spill = Spill::new(sorts, context)?;
        Ok(Writer {
            spill,
            count,
            filter: HashFilter::new(count * BITS / 8, SET, &context.budget()),
        })
    }

    fn finish(self) -> Result<File> {
        let Writer { spill, count, filter } = self;
        Ok(File { spilled: spill.finish()?, count, filter, ahead: None })
    }
}

impl File {
    fn rewind(&mut self) -> Result<()> {
        self.ahead = None;
        self.spilled.rewind()
    }

    /// Adds the rows with an identity to `same`. Those in front of it are not wanted any more.
    fn find(&mut self, identity: &[u8], same: &mut Vec<Ordered>, context: &Context) -> Result<()> {
        loop {
            let ahead = match self.ahead.take() {
                Some(ahead) => ahead,
                None => match self.spilled.next(context)? {
                    Some((identity, row)) => Identified { identity, row },
                    None => return Ok(()),
                },
            };
            match ahead.identity.as_slice().cmp(identity) {
                Ordering::Less => {}
                Ordering::Equal => same.push(Ordered(ahead.row)),
                Ordering::Greater => {
                    self.ahead = Some(ahead);
                    return Ok(());
                }
            }
        }
    }
}

/// A row for a file.
fn put(spill: &mut Spill, row: &Row) -> Result<()> {
    let (mut identity, room) = (Vec::new(), spill.key_room());
    identify(&mut identity, row, room);
    spill.push(&identity, row)
}
