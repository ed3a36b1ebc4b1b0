//! A join by an index of the right side, for the keys of many rows of the left side at once.
//!
//! Rows of the left side are taken in windows, of one row at first where few rows are wanted, of
//! [`MOST_ROWS`] otherwise, as far as there is memory. The keys of a window, each once, become one
//! scan of the index, which reads leaves and heap pages ahead and together.
//!
//! What it gives goes into a hash table by key, in which the rows of the window find partners. A
//! window whose partners are beyond their share of the budget is halved, and so are those that
//! follow. Of [`FEW_ROWS`] the partners go to files, which the window meets block by block, unless
//! the order of the left side is to be kept.
//!
//! When far more keys were looked up than the planner thought, the rows of the left side that are
//! left are joined by a hash table of the whole right side.
//!
//! Invariants: a row of the right side is read for no more rows of the left than are wanted.
//! Does not do: keeping what was read for the next window.

use std::sync::Arc;

use rightlink::{ScanOptions, Value};

use super::blocks::Blocks;
use super::pairs::Pairs;
use super::{Joined, left_keys, of, right_table};
use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::execution::Execution;
use crate::exec::hash::{HashTable, Keys};
use crate::exec::kept::Keeping;
use crate::exec::memory::{KeptRows, Memory};
use crate::exec::query::filtered;
use crate::exec::sort::SHARE;
use crate::exec::source::{read_batch, types_of};
use crate::expr::Context;
use crate::plan::TableScan;
use crate::plan::node::{How, KeyPart, Node};
use crate::plan::term::{Fit, fit};

/// Rows of the left side in a window at most: of so many keys the pages lie close to each other in
/// all but the largest tables, and one read joins them.
const MOST_ROWS: usize = 32_768;
/// Rows of a window whose partners may go to files.
const FEW_ROWS: usize = 4_096;
/// Batches of a window where the caller wants less than a whole one.
const FEW_BATCHES: usize = 4;
/// Bytes of a key that is looked up, as a value and as a range.
const KEY: usize = 160;
/// So many times larger is a window than the one before.
const GROWTH: usize = 8;

/// A join by an index.
pub(super) struct Keyed {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    /// Counts the rows of the left side, and their keys.
    windows: Memory,
    /// Rows of the left side whose partners were too many together, those that come next last.
    pending: Vec<Batch>,
    /// What was read for the window.
    right: KeptRows,
    table: Option<HashTable>,
    pairs: Pairs,
    /// The window whose partners memory does not hold.
    blocks: Option<(Blocks, OneBatch)>,
    /// Bytes that a window may have, and so many its partners, once there was one.
    most: Option<usize>,
    /// Rows of the next window where few are wanted, and of any.
    window: usize,
    most_rows: usize,
    /// Keys that were looked up.
    looked_up: u64,
    /// What went on where these were too many.
    instead: Option<Box<Joined>>,
}

/// Where the partners of a window are.
enum Partners {
    InMemory,
    InFiles(Box<Keeping>),
    /// Memory does not hold the partners, and they were let go.
    TooMany,
}

/// Rows of one window.
struct OneBatch(Option<Batch>);

impl Operator for OneBatch {
    fn next(&mut self, _: usize, _: &Context) -> Result<Option<Batch>> {
        Ok(self.0.take())
    }
}

impl Keyed {
    pub(super) fn new(node: &Arc<Node>, left: Box<dyn Operator>, context: &Context) -> Keyed {
        let after = match &of(node).how {
            How::Keyed { instead: Some(instead), .. } => instead.after,
            _ => u64::MAX,
        };
        let most_rows = usize::try_from(after).unwrap_or(usize::MAX).clamp(FEW_ROWS, MOST_ROWS);
        let budget = context.budget();
        Keyed {
            node: Arc::clone(node),
            left,
            windows: Memory::new(&budget),
            pending: Vec::new(),
            right: KeptRows::new(&budget),
            table: None,
            pairs: Pairs::new(node, 0),
            blocks: None,
            most: None,
            window: 1,
            most_rows,
            looked_up: 0,
            instead: None,
        }
    }

    /// The next rows of the left side, `None` at its end.
    fn take_window(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if let Some(rows) = self.pending.pop() {
            return Ok(Some(rows));
        }
        self.windows.release();
        let wanted = match most >= ROWS {
            true => self.most_rows,
            false => self.window.max(most).min(most * FEW_BATCHES),
        };
        self.window = (self.window.max(wanted) * GROWTH).min(self.most_rows);
        let Some(mut rows) = self.left.next(wanted.min(most), context)? else { return Ok(None) };
        let mut has_room = self.count_window(&rows, context);
        while rows.len < wanted && (has_room || rows.len < FEW_ROWS) {
            let Some(more) = self.left.next(wanted - rows.len, context)? else { break };
            has_room = self.count_window(&more, context);
            rows.append(more);
        }
        Ok(Some(rows))
    }

    /// Counts rows of the left side and their keys; false if the window has its share.
    fn count_window(&mut self, rows: &Batch, context: &Context) -> bool {
        let bytes = rows.bytes() + rows.len * KEY;
        self.windows.charge(bytes).is_ok() && self.windows.used() < self.most(context)
    }

    /// Bytes that a window may have, and so many its partners; what is below has taken its share.
    fn most(&mut self, context: &Context) -> usize {
        let share = || context.settings.work_memory(self.right.available() / SHARE);
        *self.most.get_or_insert_with(share)
    }

    /// The join that goes on where far more keys were looked up than was thought. It takes rows of
    /// the left side that were not taken yet, so that there are no others.
    fn better(&self) -> Option<Arc<Node>> {
        if !self.pending.is_empty() {
            return None;
        }
        let How::Keyed { instead, .. } = &of(&self.node).how else { return None };
        let instead = instead.as_ref().filter(|instead| self.looked_up > instead.after)?;
        Some(Arc::clone(&instead.join))
    }

    /// Reads the partners of a window and lets its rows meet them.
    fn look_up(&mut self, mut rows: Batch, context: &Context) -> Result<()> {
        let node = Arc::clone(&self.node);
        let How::Keyed { scan, index, keys, keeps_order, .. } = &of(&node).how else {
            unreachable!("opened for an index")
        };
        let own = left_keys(of(&node), &rows, context)?.expect("a keyed join has keys");
        let width = of(&node).right_width;
        self.table = None;
        self.right = KeptRows::with_table(&context.budget(), width);
        let wanted = wanted(&own, keys, rows.len);
        let count = wanted.len() as u64;
        if count > 0 {
            let mut options = ScanOptions::index(index.name.clone());
            options.expected_rows = Some(count);
            options.any_of = wanted;
            options.any_order = true;
            options.read_ahead = context.settings.read_ahead(true);
            let names = scan.columns.iter().map(|at| scan.table.info.columns[*at].name.as_str());
            let options = options.columns(names);
            let may_halve = rows.len > if *keeps_order { 1 } else { FEW_ROWS };
            match self.read(scan, &options, may_halve, context)? {
                Partners::InMemory => {}
                Partners::InFiles(partners) => {
                    let most = self.most(context);
                    let blocks = Blocks::new(&node, partners.finish()?, most, context)?;
                    self.blocks = Some((blocks, OneBatch(Some(rows))));
                    self.looked_up += count;
                    return Ok(());
                }
                Partners::TooMany => {
                    let half = rows.len / 2;
                    self.most_rows = self.most_rows.min(half.max(FEW_ROWS));
                    let first = rows.split_front(half);
                    self.pending.push(rows);
                    return self.look_up(first, context);
                }
            }
        }
        self.looked_up += count;
        self.table = right_table(of(&node), &mut self.right, context)?;
        self.pairs.begin(rows, Some(own));
        Ok(())
    }

    /// Reads the partners of a window. Where these are too many for memory, reading ends if the
    /// window may be halved.
    fn read(
        &mut self,
        scan: &TableScan,
        options: &ScanOptions,
        may_halve: bool,
        context: &Context,
    ) -> Result<Partners> {
        let mut rows = Execution::of(context).reader()?.scan(&scan.table.info.name, options)?;
        let types: Vec<_> = types_of(scan).collect();
        let mut removed = 0;
        let mut partners = Partners::InMemory;
        loop {
            let batch = read_batch(&mut rows, &types, scan.with_tid, ROWS, context)?;
            if batch.len == 0 {
                break;
            }
            let read = batch.len;
            let kept = match &scan.filter {
                Some(filter) => filtered(filter, batch, context)?,
                None => batch,
            };
            removed += (read - kept.len) as u64;
            if kept.len == 0 {
                continue;
            }
            if let Partners::InFiles(keeping) = &mut partners {
                keeping.push_batch(kept, context)?;
                continue;
            }
            let most = self.most(context);
            if self.right.try_append(kept) && self.right.used() <= most {
                continue;
            }
            let first = self.right.give_up();
            if may_halve {
                partners = Partners::TooMany;
                break;
            }
            let mut keeping = Box::new(Keeping::in_files(&context.budget(), context)?);
            keeping.push_batch(first, context)?;
            partners = Partners::InFiles(keeping);
        }
        if let Some(probe) = &context.probe {
            let stats = rows.stats();
            probe.note(self.node.number, |figures| figures.read(stats, removed));
        }
        Ok(partners)
    }
}

/// The keys to look up, in order and each once.
fn wanted(own: &Keys, parts: &[KeyPart], rows: usize) -> Vec<Vec<Value>> {
    let mut keys = Vec::with_capacity(rows);
    for at in (0..rows).filter(|at| own.hashes[*at].is_some()) {
        let value = |(column, part): (&crate::exec::vector::Vector, &KeyPart)| {
            match fit(column.get(at), part.ty) {
                Fit::Is(value) => Some(value),
                // No row can have it.
                Fit::Below | Fit::Above | Fit::Null => None,
            }
        };
        let key: Option<Vec<Value>> = own.values.iter().zip(parts).map(value).collect();
        keys.extend(key);
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl Operator for Keyed {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        loop {
            if let Some(joined) = &mut self.instead {
                return joined.next(most, context);
            }
            if let Some((blocks, window)) = &mut self.blocks {
                match blocks.next(window, most, context)? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.blocks = None,
                }
            }
            let (right, table) = (&self.right.rows, self.table.as_ref());
            if let Some(batch) = self.pairs.next(most, right, table, context)? {
                return Ok(Some(batch));
            }
            if let Some(join) = self.better() {
                let left = std::mem::replace(&mut self.left, Box::new(OneBatch(None)));
                self.instead = Some(Box::new(Joined::new(&join, left)));
                continue;
            }
            let Some(rows) = self.take_window(most, context)? else { return Ok(None) };
            self.look_up(rows, context)?;
        }
    }
}
