//! A join by an index of the right side, for the keys of many rows of the left side at once.
//!
//! Rows of the left side are taken in windows, of one row at first where few rows are wanted, of
//! [`MOST_ROWS`] otherwise. The keys of a window, each once, become one scan of the index, which
//! reads leaves and heap pages ahead and together. What it gives goes into a hash table by key, in
//! which the rows of the window find their partners.
//!
//! Invariants: a row of the right side is read for no more rows of the left than are wanted.
//! Does not do: keeping what was read for the next window.

use std::sync::Arc;

use rightlink::{ScanOptions, Value};

use super::of;
use super::pairs::Pairs;
use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::hash::{self, HashTable, Keys};
use crate::exec::memory::KeptRows;
use crate::exec::query::filtered;
use crate::exec::source::{read_batch, types_of};
use crate::expr::Context;
use crate::plan::TableScan;
use crate::plan::node::{How, KeyPart, Node};
use crate::plan::path::{Fit, fit};

/// Rows of the left side in a window at most.
const MOST_ROWS: usize = 4_096;
/// So many times larger is a window than the one before.
const GROWTH: usize = 8;

/// A join by an index.
pub(super) struct Keyed {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    /// What was read for the window.
    right: KeptRows,
    table: Option<HashTable>,
    pairs: Pairs,
    /// Rows of the next window.
    window: usize,
}

impl Keyed {
    pub(super) fn new(node: &Arc<Node>, left: Box<dyn Operator>, context: &Context) -> Keyed {
        let (right, pairs) = (KeptRows::new(&context.budget()), Pairs::new(node, 0));
        Keyed { node: Arc::clone(node), left, right, table: None, pairs, window: 1 }
    }

    /// The next rows of the left side, `None` at its end.
    fn take_window(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let wanted = if most >= ROWS { MOST_ROWS } else { self.window.max(most.min(ROWS)) };
        self.window = (wanted * GROWTH).min(MOST_ROWS);
        let Some(mut rows) = self.left.next(wanted.min(most), context)? else { return Ok(None) };
        while rows.len < wanted.min(most.saturating_mul(MOST_ROWS / ROWS)) {
            let Some(more) = self.left.next(wanted - rows.len, context)? else { break };
            rows.append(more);
        }
        Ok(Some(rows))
    }

    /// Reads the partners of a window.
    fn look_up(&mut self, rows: &Batch, context: &Context) -> Result<Keys> {
        let node = Arc::clone(&self.node);
        let How::Keyed { scan, index, keys } = &of(&node).how else {
            unreachable!("opened for an index")
        };
        let own = hash::values(keys.iter().map(|key| &key.value), rows, context)?;
        self.right = KeptRows::new(&context.budget());
        let wanted = wanted(&own, keys, rows.len);
        if !wanted.is_empty() {
            let mut options = ScanOptions::index(index.name.clone());
            options.any_of = wanted;
            options.any_order = true;
            options.read_ahead = context.settings.read_ahead(true);
            let names = scan.columns.iter().map(|at| scan.table.info.columns[*at].name.as_str());
            let options = options.columns(names);
            self.read(scan, &options, context)?;
        }
        if self.right.rows.len == 0 {
            self.right.rows = Batch::with_width(of(&self.node).right_width, 0);
        }
        let columns = keys.iter().map(|key| self.right.rows.columns[key.at].clone());
        let Keys { values, hashes } = hash::hashed(columns.collect(), self.right.rows.len);
        let table = HashTable::of(values, &hashes);
        self.right.charge(table.bytes())?;
        self.table = Some(table);
        Ok(own)
    }

    fn read(&mut self, scan: &TableScan, options: &ScanOptions, context: &Context) -> Result<()> {
        let mut rows = context.reads.reader()?.scan(&scan.table.info.name, options)?;
        let types = types_of(scan);
        let mut removed = 0;
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
            if kept.len > 0 {
                self.right.append(kept)?;
            }
        }
        if let Some(probe) = &context.probe {
            let stats = rows.stats();
            probe.note(self.node.number, |figures| figures.read(stats, removed));
        }
        Ok(())
    }
}

/// The keys to look up, in order and each once.
fn wanted(own: &Keys, parts: &[KeyPart], rows: usize) -> Vec<Vec<Value>> {
    let mut keys = Vec::with_capacity(rows);
    for at in (0..rows).filter(|at| own.hashes[*at].is_some()) {
        let value = |(column, part): (&crate::exec::batch::Vector, &KeyPart)| {
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
            let (right, table) = (&self.right.rows, self.table.as_ref());
            if let Some(batch) = self.pairs.next(most, right, table, context)? {
                return Ok(Some(batch));
            }
            let Some(rows) = self.take_window(most, context)? else { return Ok(None) };
            let keys = self.look_up(&rows, context)?;
            self.pairs.begin(rows, Some(keys));
        }
    }
}
