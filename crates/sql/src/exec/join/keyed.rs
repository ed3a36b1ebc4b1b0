//! A join by an index of the right side, for the keys of many rows of the left side at once.
//!
//! Rows of the left side are taken in windows, of one row at first where few rows are wanted, of
//! [`MOST_ROWS`] otherwise. The keys of a window, each once, become one scan of the index, which
//! reads leaves and heap pages ahead and together.
//!
//! What it gives goes into a hash table by key, in which the rows of the window find partners. What
//! is beyond its share of the budget goes to files and meets the window block by block.
//!
//! When far more keys were looked up than the planner thought, the rows of the left side that are
//! left are joined by a hash table of the whole right side.
//!
//! Where the order of the left side is to be kept, a window whose partners are too many is halved
//! first.
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
use crate::exec::memory::KeptRows;
use crate::exec::query::filtered;
use crate::exec::sort::SHARE;
use crate::exec::source::{read_batch, types_of};
use crate::expr::Context;
use crate::plan::TableScan;
use crate::plan::node::{How, KeyPart, Node};
use crate::plan::term::{Fit, fit};

/// Rows of the left side in a window at most.
const MOST_ROWS: usize = 4_096;
/// So many times larger is a window than the one before.
const GROWTH: usize = 8;

/// A join by an index.
pub(super) struct Keyed {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    /// Rows of the left side whose partners were too many together, those that come next last.
    pending: Vec<Batch>,
    /// What was read for the window.
    right: KeptRows,
    table: Option<HashTable>,
    pairs: Pairs,
    /// The window whose partners memory does not hold.
    blocks: Option<(Blocks, OneBatch)>,
    /// Bytes that partners may have, once there were some.
    most: Option<usize>,
    /// Rows of the next window.
    window: usize,
    /// Keys that were looked up.
    looked_up: u64,
    /// What went on where these were too many.
    instead: Option<Box<Joined>>,
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
        let (right, pairs) = (KeptRows::new(&context.budget()), Pairs::new(node, 0));
        let (node, table) = (Arc::clone(node), None);
        let (looked_up, instead, blocks, most, window) = (0, None, None, None, 1);
        let pending = Vec::new();
        Keyed { node, left, pending, right, table, pairs, blocks, most, window, looked_up, instead }
    }

    /// The next rows of the left side, `None` at its end.
    fn take_window(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if let Some(rows) = self.pending.pop() {
            return Ok(Some(rows));
        }
        let wanted = if most >= ROWS { MOST_ROWS } else { self.window.max(most.min(ROWS)) };
        self.window = (wanted * GROWTH).min(MOST_ROWS);
        let Some(mut rows) = self.left.next(wanted.min(most), context)? else { return Ok(None) };
        while rows.len < wanted.min(most.saturating_mul(MOST_ROWS / ROWS)) {
            let Some(more) = self.left.next(wanted - rows.len, context)? else { break };
            rows.append(more);
        }
        Ok(Some(rows))
    }

    /// The join that goes on where far more keys were looked up than was thought.
    fn better(&self) -> Option<Arc<Node>> {
        let How::Keyed { instead, .. } = &of(&self.node).how else { return None };
        let instead = instead.as_ref().filter(|instead| self.looked_up > instead.after)?;
        Some(Arc::clone(&instead.join))
    }

    /// Reads the partners of a window and lets its rows meet them.
    fn look_up(&mut self, rows: Batch, context: &Context) -> Result<()> {
        let node = Arc::clone(&self.node);
        let How::Keyed { scan, index, keys, keeps_order, .. } = &of(&node).how else {
            unreachable!("opened for an index")
        };
        let own = left_keys(of(&node), &rows, context)?.expect("a keyed join has keys");
        let width = of(&node).right_width;
        self.table = None;
        self.right = KeptRows::with_table(&context.budget(), width);
        let wanted = wanted(&own, keys, rows.len);
        self.looked_up += wanted.len() as u64;
        if !wanted.is_empty() {
            let mut options = ScanOptions::index(index.name.clone());
            options.any_of = wanted;
            options.any_order = true;
            options.read_ahead = context.settings.read_ahead(true);
            let names = scan.columns.iter().map(|at| scan.table.info.columns[*at].name.as_str());
            let options = options.columns(names);
            let partners = self.read(scan, &options, context)?;
            if partners.is_some() && *keeps_order && rows.len > 1 {
                // Fewer rows, so that memory holds their partners.
                let half = rows.len / 2;
                self.pending.push(rows.clone().skip(half));
                return self.look_up(rows.truncate(half), context);
            }
            if let Some(partners) = partners {
                let most = self.most.unwrap_or_default();
                let blocks = Blocks::new(&node, partners.finish()?, most, context)?;
                self.blocks = Some((blocks, OneBatch(Some(rows))));
                return Ok(());
            }
        }
        self.table = right_table(of(&node), &mut self.right, context)?;
        self.pairs.begin(rows, Some(own));
        Ok(())
    }

    /// Reads rows; those that went to files, if memory does not hold them.
    fn read(
        &mut self,
        scan: &TableScan,
        options: &ScanOptions,
        context: &Context,
    ) -> Result<Option<Keeping>> {
        let mut rows = Execution::of(context).reader()?.scan(&scan.table.info.name, options)?;
        let types: Vec<_> = types_of(scan).collect();
        let mut removed = 0;
        let mut in_files: Option<Keeping> = None;
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
            if let Some(keeping) = &mut in_files {
                keeping.push_batch(kept, context)?;
                continue;
            }
            let share = || context.settings.work_memory(self.right.available() / SHARE);
            let most = *self.most.get_or_insert_with(share);
            if !self.right.try_append(kept) || self.right.used() > most {
                let first = self.right.give_up();
                let mut keeping = Keeping::in_files(&context.budget(), context)?;
                keeping.push_batch(first, context)?;
                in_files = Some(keeping);
            }
        }
        if let Some(probe) = &context.probe {
            let stats = rows.stats();
            probe.note(self.node.number, |figures| figures.read(stats, removed));
        }
        Ok(in_files)
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
