//! What a statement found out about catalogs, kept for the statements that come after it.
//!
//! `Objects` are kept under the version of all definitions that they were read by, and rows that
//! are made of them alone beside them, as far as memory is spare. Rows for which there is no room
//! take that of the rows that nobody has asked for the longest. Sizes are not kept: they are looked
//! up when somebody asks for them, and in rows of `pg_class` put in place of the old ones.
//!
//! Invariants: a statement whose transaction has changed definitions neither uses what is kept nor
//! keeps anything. What is kept takes at most an eighth of the memory budget.
//! Does not do: keeping rows that tell of the session.

use std::any::Any;
use std::collections::HashMap;

use rightlink::{Budget, Reservation, Transaction};
use rightlink_env::sync::{Arc, Mutex};

use crate::catalog::Objects;
use crate::catalog::system_views::View;
use crate::error::Result;
use crate::exec::made::MadeRows;
use crate::exec::memory::{reserve_spare, spare};
use crate::expr::Context;
use crate::parse::modes::Level;
use crate::types::Row;

/// The part of the memory budget that may be kept is one by this.
const SHARE: usize = 8;
/// Rows of all catalogs take about so many times the memory of the objects that they tell of.
const ROWS_BY_OBJECTS: usize = 2;

/// Catalogs under one version of all definitions.
pub(crate) struct KeptCatalog {
    version: u64,
    /// The name of the database, which rows of `information_schema` have.
    database: Arc<str>,
    pub(super) objects: Arc<Objects>,
    rows: Mutex<KeptRows>,
    /// What the objects take.
    _reservation: Reservation,
}

struct KeptRows {
    /// By name of the relation.
    by_view: HashMap<&'static str, RowsOf>,
    /// How often rows were asked for.
    asked: u64,
    /// What the rows may take together. It is held as long as the catalogs are kept: other caches
    /// would take what is given back between two relations.
    reservation: Reservation,
    used: usize,
    /// Bytes that may be kept.
    most: usize,
}

/// Rows of a relation.
enum RowsOf {
    Kept {
        rows: Arc<MadeRows>,
        /// The turn of the last one who asked for them.
        turn: u64,
    },
    /// There was no memory for them, of which they take so much.
    Bytes(usize),
}

/// The catalogs as the transaction sees them, if they are as all others see them. One of another
/// level than READ COMMITTED has an older snapshot of statistics: it keeps nothing.
pub(super) fn of(txn: &mut Transaction, context: &Context) -> Result<Option<Arc<KeptCatalog>>> {
    let (place, database) = (context.activity().catalogs(), &context.database);
    let Some(version) = txn.catalog().version_of_all()? else { return Ok(None) };
    let kept = place.lock().clone().and_then(|kept| kept.downcast::<KeptCatalog>().ok());
    if let Some(kept) = kept.filter(|kept| kept.version == version && kept.database == *database) {
        return Ok(Some(kept));
    }
    if context.session_info().modes.level != Level::ReadCommitted {
        return Ok(None);
    }
    // What the old ones take is free before new ones are made.
    *place.lock() = None;
    let mut objects = Objects::of(txn)?;
    if txn.catalog().version_of_all()? != Some(version) {
        // Definitions have changed meanwhile: these are of no one version.
        return Ok(None);
    }
    objects.share();
    let bytes = objects.bytes();
    let budget = context.budget();
    let most = budget.limit() / SHARE;
    let reserved = if bytes > most { None } else { reserve_spare(&budget, bytes) };
    let Some(reservation) = reserved else { return Ok(None) };
    let made = Arc::new(KeptCatalog {
        version,
        database: Arc::clone(database),
        objects: Arc::new(objects),
        rows: Mutex::new(KeptRows::new(&budget, bytes * ROWS_BY_OBJECTS, most - bytes)),
        _reservation: reservation,
    });
    let shared: Arc<dyn Any + Send + Sync> = made.clone();
    *place.lock() = Some(shared);
    Ok(Some(made))
}

impl KeptRows {
    /// No rows yet, with memory for `expected` bytes as far as that is spare, and for `most` later.
    fn new(budget: &Budget, expected: usize, most: usize) -> KeptRows {
        let bytes = expected.min(most).min(spare(budget));
        let nothing = || budget.try_reserve(0).expect("nothing fits always");
        let reservation = budget.try_reserve(bytes).unwrap_or_else(nothing);
        KeptRows { by_view: HashMap::new(), asked: 0, reservation, used: 0, most }
    }

    /// Rows that are kept, which somebody asks for.
    fn of(&mut self, view: &View) -> Option<Arc<MadeRows>> {
        self.asked += 1;
        match self.by_view.get_mut(view.name)? {
            RowsOf::Kept { rows, turn } => {
                *turn = self.asked;
                Some(Arc::clone(rows))
            }
            RowsOf::Bytes(_) => None,
        }
    }

    /// Counts `bytes` more, for which rows are let go if need be; false, and nothing was counted,
    /// if there is no memory for them.
    fn take(&mut self, budget: &Budget, bytes: usize) -> bool {
        let lacking = self.lacking(bytes);
        let grows = self.may_grow(budget, lacking) && self.reservation.grow(lacking);
        if !grows {
            let Some(unread) = self.unread(lacking) else { return false };
            for name in unread {
                if let Some(RowsOf::Kept { rows, .. }) = self.by_view.remove(name) {
                    self.used -= rows.bytes();
                }
            }
        }
        self.used += bytes;
        true
    }

    fn has_room(&self, budget: &Budget, bytes: usize) -> bool {
        let lacking = self.lacking(bytes);
        self.may_grow(budget, lacking) || self.unread(lacking).is_some()
    }

    /// What is not reserved of `bytes` more.
    fn lacking(&self, bytes: usize) -> usize {
        (self.used + bytes).saturating_sub(self.reservation.bytes())
    }

    fn may_grow(&self, budget: &Budget, more: usize) -> bool {
        more == 0 || self.reservation.bytes() + more <= self.most && more <= spare(budget)
    }

    /// Relations whose rows take `bytes` together and which no statement reads, those first that
    /// were not asked for the longest; `None` if there are not so many.
    fn unread(&self, bytes: usize) -> Option<Vec<&'static str>> {
        let rows = self.by_view.iter().filter_map(|(name, rows)| match rows {
            RowsOf::Kept { rows, turn } if Arc::strong_count(rows) == 1 => {
                Some((*turn, *name, rows.bytes()))
            }
            _ => None,
        });
        let mut unread: Vec<_> = rows.collect();
        unread.sort_unstable();
        let mut found = 0;
        let enough = unread.iter().position(|(.., bytes_of_one)| {
            found += bytes_of_one;
            found >= bytes
        })?;
        unread.truncate(enough + 1);
        Some(unread.into_iter().map(|(_, name, _)| name).collect())
    }
}

impl KeptCatalog {
    /// The rows of a relation, whole; `None` if there is no memory for them.
    pub(super) fn rows(
        &self,
        view: &View,
        context: &Context,
        make: impl FnOnce(&Objects) -> Result<Vec<Row>>,
    ) -> Result<Option<Arc<MadeRows>>> {
        let budget = context.budget();
        let mut kept = self.rows.lock();
        if let Some(rows) = kept.of(view) {
            return Ok(Some(rows));
        }
        if let Some(RowsOf::Bytes(bytes)) = kept.by_view.get(view.name)
            && !kept.has_room(&budget, *bytes)
        {
            return Ok(None);
        }
        drop(kept);
        let made = make(&self.objects)?;
        let made = MadeRows::counted(made, view.columns.len(), context)?;
        let bytes = made.bytes();
        kept = self.rows.lock();
        if let Some(rows) = kept.of(view) {
            // Another session was first.
            return Ok(Some(rows));
        }
        if !kept.take(&budget, bytes) {
            kept.by_view.insert(view.name, RowsOf::Bytes(bytes));
            return Ok(None);
        }
        let (rows, turn) = (Arc::new(made), kept.asked);
        let own = RowsOf::Kept { rows: Arc::clone(&rows), turn };
        kept.by_view.insert(view.name, own);
        Ok(Some(rows))
    }
}
