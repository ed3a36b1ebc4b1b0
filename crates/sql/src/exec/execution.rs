//! What a statement reads by: its snapshot of the tables, values of rows around its queries, what
//! is kept of queries that have run.
//!
//! Invariants: a slot is filled before what reads it runs. Does not do: reading.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use rightlink::{Budget, Reader, RowId};
use rightlink_env::sync::{Arc, Mutex};

use crate::catalog::Objects;
use crate::error::{Result, SqlError};
use crate::exec::kept::Kept;
use crate::exec::kept_catalog::KeptCatalog;
use crate::exec::made::MadeRows;
use crate::exec::memo::Memo;
use crate::exec::memory::Memory;
use crate::exec::references::Pending;
use crate::expr::Context;
use crate::plan::{Rules, Table};
use crate::types::{Datum, Row};

/// What a row that was changed takes of the memory.
const ROW_BYTES: usize = 64;

/// Rows that are made as far as somebody reads them.
pub(super) trait Common: Send {
    /// The row at this place; `None` behind the last. Of the rows that have to be made for it,
    /// `most` are wanted.
    fn row(&mut self, at: u64, most: usize, context: &Context) -> Result<Option<Cow<'_, Row>>>;
}

/// Such rows, for all that read them.
pub(super) type SharedRows = Arc<Mutex<dyn Common>>;

/// What one execution of a statement reads by.
#[derive(Clone, Default)]
pub(crate) struct Execution {
    /// `None` for a statement that reads no table.
    reader: RefCell<Option<Reader>>,
    /// What the parts of a statement share of which several write.
    together: Option<Arc<Together>>,
    /// Values of rows around queries, by their slots.
    outer: RefCell<Vec<Datum>>,
    /// What the transaction sees of the store's catalog, for a statement that reads catalogs.
    objects: RefCell<Option<Arc<Objects>>>,
    /// Where they are kept for others, too; it has rows that are made of them.
    kept_catalog: RefCell<Option<Arc<KeptCatalog>>>,
    /// Rows of what the store knows about itself, by slots.
    views: RefCell<Vec<ViewRows>>,
    /// Common table expressions by number.
    pub(super) commons: RefCell<ByNumber<SharedRows>>,
    /// Rows that the second part of a recursive one reads.
    pub(super) steps: RefCell<ByNumber<Arc<Mutex<Kept>>>>,
    /// What queries in expressions gave, by number.
    pub(super) memos: RefCell<ByNumber<Memo>>,
}

/// Parts of a statement's state by the numbers that the planner gave them, which are dense. Most
/// statements have none.
#[derive(Clone)]
pub(super) struct ByNumber<T>(Vec<Option<T>>);

impl<T> Default for ByNumber<T> {
    fn default() -> ByNumber<T> {
        ByNumber(Vec::new())
    }
}

impl<T> ByNumber<T> {
    pub(super) fn get(&self, number: usize) -> Option<&T> {
        self.0.get(number)?.as_ref()
    }

    pub(super) fn insert(&mut self, number: usize, part: T) {
        *self.slot(number) = Some(part);
    }

    pub(super) fn get_or_default(&mut self, number: usize) -> &mut T
    where
        T: Default,
    {
        self.slot(number).get_or_insert_default()
    }

    fn slot(&mut self, number: usize) -> &mut Option<T> {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        &mut self.0[number]
    }
}

/// Rows of a relation that is made up.
#[derive(Clone)]
enum ViewRows {
    /// Made of what is known of catalogs, when they are read.
    Later,
    Made(Arc<MadeRows>),
}

/// What the parts of a statement share of which several write.
pub(crate) struct Together {
    /// The one snapshot that all of them read by.
    reader: Reader,
    /// Rows that one of them has changed, as the snapshot shows them, by the numbers of tables.
    changed: Mutex<ChangedRows>,
    /// Keys that are looked at when all have run.
    pending: Mutex<Vec<PartPending>>,
}

struct ChangedRows {
    rows: BTreeSet<(u32, RowId)>,
    memory: Memory,
}

/// Keys that a part has to answer for.
pub(crate) struct PartPending {
    pub(crate) table: std::sync::Arc<Table>,
    pub(crate) rules: Rules,
    pub(crate) pending: Pending,
}

impl Together {
    pub(super) fn new(reader: Reader, budget: &Budget) -> Together {
        let changed = ChangedRows { rows: BTreeSet::new(), memory: Memory::new(budget) };
        Together { reader, changed: Mutex::new(changed), pending: Mutex::new(Vec::new()) }
    }

    /// The keys of all parts that have run.
    pub(super) fn take_pending(&self) -> Vec<PartPending> {
        std::mem::take(&mut *self.pending.lock())
    }
}

impl Execution {
    /// The execution of the statement whose operators have this context.
    pub(crate) fn of(context: &Context) -> &Execution {
        let state: &dyn Any = &*context.exec_state;
        state.downcast_ref().expect("operators run in a statement")
    }

    /// For a part of a statement of which several write.
    pub(super) fn of_part(together: &Arc<Together>) -> Execution {
        let reader = RefCell::new(Some(together.reader.clone()));
        Execution { reader, together: Some(Arc::clone(together)), ..Execution::default() }
    }

    /// For a query of the same statement whose slots and numbers are its own.
    pub(super) fn apart(&self) -> Execution {
        Execution {
            reader: self.reader.clone(),
            together: self.together.clone(),
            objects: self.objects.clone(),
            kept_catalog: self.kept_catalog.clone(),
            commons: self.commons.clone(),
            ..Execution::default()
        }
    }

    /// Does it share its snapshot with other parts of its statement?
    pub(super) fn is_part(&self) -> bool {
        self.together.is_some()
    }

    /// Has another part of the statement changed this row?
    pub(super) fn was_changed(&self, table: u32, row: RowId) -> bool {
        let together = self.together.as_ref();
        together.is_some_and(|together| together.changed.lock().rows.contains(&(table, row)))
    }

    /// Notes that a row is changed, as the snapshot shows it.
    pub(super) fn note_changed(&self, table: u32, row: RowId) -> Result<()> {
        let Some(together) = &self.together else { return Ok(()) };
        let mut changed = together.changed.lock();
        changed.memory.charge(ROW_BYTES)?;
        changed.rows.insert((table, row));
        Ok(())
    }

    /// Leaves keys to the end of the statement, if other parts of it write, too; gives them back if
    /// not.
    pub(super) fn postpone(
        &self,
        pending: Pending,
        table: &std::sync::Arc<Table>,
        rules: &Rules,
    ) -> Option<Pending> {
        let Some(together) = &self.together else { return Some(pending) };
        let (table, rules) = (std::sync::Arc::clone(table), rules.clone());
        together.pending.lock().push(PartPending { table, rules, pending });
        None
    }

    /// The value of a slot.
    pub(super) fn filled(&self, slot: usize) -> Datum {
        self.outer.borrow()[slot].clone()
    }

    /// The catalogs as the transaction of the statement saw them.
    pub(super) fn known_objects(&self) -> Result<Arc<Objects>> {
        let objects = self.objects.borrow().clone();
        objects.ok_or_else(|| SqlError::unsupported("reading catalogs here"))
    }

    /// Fills a slot.
    pub(crate) fn fill(&self, slot: usize, value: Datum) {
        let mut outer = self.outer.borrow_mut();
        if outer.len() <= slot {
            outer.resize(slot + 1, Datum::Null);
        }
        outer[slot] = value;
    }

    /// What tables are read by.
    pub(crate) fn reader(&self) -> Result<Reader> {
        let reader = self.reader.borrow().clone();
        reader.ok_or_else(|| SqlError::unsupported("reading a table here"))
    }

    /// Execution tables by this from now on.
    pub(crate) fn read_by(&self, reader: Reader) {
        *self.reader.borrow_mut() = Some(reader);
    }

    /// Has it been looked at what the store's catalog holds?
    pub(super) fn knows_objects(&self) -> bool {
        self.objects.borrow().is_some()
    }

    pub(super) fn know_objects(&self, objects: Objects) {
        *self.objects.borrow_mut() = Some(Arc::new(objects));
    }

    /// Takes what is kept of catalogs.
    pub(super) fn know_catalog(&self, kept: Arc<KeptCatalog>) {
        *self.objects.borrow_mut() = Some(Arc::clone(&kept.objects));
        *self.kept_catalog.borrow_mut() = Some(kept);
    }

    pub(super) fn kept_catalog(&self) -> Option<Arc<KeptCatalog>> {
        self.kept_catalog.borrow().clone()
    }

    /// Rows of a relation that is made up, by its slot; `make` makes them of what is known of
    /// catalogs.
    pub(super) fn view(
        &self,
        slot: usize,
        width: usize,
        context: &Context,
        make: impl FnOnce(&Objects) -> Result<Vec<Row>>,
    ) -> Result<Arc<MadeRows>> {
        if let ViewRows::Made(made) = &self.views.borrow()[slot] {
            return Ok(Arc::clone(made));
        }
        let rows = make(&*self.known_objects()?)?;
        let made = Arc::new(MadeRows::new(rows, width, context)?);
        self.views.borrow_mut()[slot] = ViewRows::Made(Arc::clone(&made));
        Ok(made)
    }

    /// Adds rows of a relation that is made up, in the order of slots; none: they are made when
    /// they are read.
    pub(super) fn add_view(
        &self,
        rows: Option<Vec<Row>>,
        width: usize,
        context: &Context,
    ) -> Result<()> {
        let rows = match rows {
            Some(rows) => ViewRows::Made(Arc::new(MadeRows::new(rows, width, context)?)),
            None => ViewRows::Later,
        };
        self.views.borrow_mut().push(rows);
        Ok(())
    }
}
