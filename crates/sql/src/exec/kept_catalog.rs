//! What a statement found out about catalogs, kept for the statements that come after it.
//!
//! `Objects` are kept under the version of all definitions that they were read by, and rows that
//! are made of them alone beside them, as far as memory is spare. Sizes are not kept: they are
//! looked up when somebody asks for them, and in rows of `pg_class` put in place of the old ones.
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
use crate::exec::memory::reserve_spare;
use crate::expr::Context;
use crate::parse::modes::Level;
use crate::types::Row;

/// The part of the memory budget that may be kept is one by this.
const SHARE: usize = 8;

/// Catalogs under one version of all definitions.
pub(crate) struct KeptCatalog {
    version: u64,
    /// The name of the database, which rows of `information_schema` have.
    database: Arc<str>,
    pub(super) objects: Arc<Objects>,
    rows: Mutex<KeptRows>,
}

struct KeptRows {
    /// By name of the relation.
    by_view: HashMap<&'static str, RowsOf>,
    bytes: usize,
    reservations: Vec<Reservation>,
}

/// Rows of a relation.
enum RowsOf {
    Kept(Arc<MadeRows>),
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
    let Some(reservation) = spare(&context.budget(), 0, bytes) else { return Ok(None) };
    let rows = KeptRows { by_view: HashMap::new(), bytes, reservations: vec![reservation] };
    let (database, objects) = (Arc::clone(database), Arc::new(objects));
    let made = KeptCatalog { version, database, objects, rows: Mutex::new(rows) };
    let made = Arc::new(made);
    let shared: Arc<dyn Any + Send + Sync> = made.clone();
    *place.lock() = Some(shared);
    Ok(Some(made))
}

/// Memory for `bytes` beside those that are kept.
fn spare(budget: &Budget, kept: usize, bytes: usize) -> Option<Reservation> {
    let most = budget.limit() / SHARE;
    if kept.saturating_add(bytes) > most { None } else { reserve_spare(budget, bytes) }
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
        let mut reservation = None;
        match kept.by_view.get(view.name) {
            Some(RowsOf::Kept(rows)) => return Ok(Some(Arc::clone(rows))),
            Some(RowsOf::Bytes(bytes)) => {
                reservation = spare(&budget, kept.bytes, *bytes);
                if reservation.is_none() {
                    return Ok(None);
                }
            }
            None => {}
        }
        drop(kept);
        let made = make(&self.objects)?;
        let made = MadeRows::counted(made, view.columns.len(), context)?;
        let bytes = made.bytes();
        kept = self.rows.lock();
        if let Some(RowsOf::Kept(rows)) = kept.by_view.get(view.name) {
            // Another session was first.
            return Ok(Some(Arc::clone(rows)));
        }
        let Some(reservation) = reservation.or_else(|| spare(&budget, kept.bytes, bytes)) else {
            kept.by_view.insert(view.name, RowsOf::Bytes(bytes));
            return Ok(None);
        };
        let rows = Arc::new(made);
        kept.bytes += bytes;
        kept.reservations.push(reservation);
        kept.by_view.insert(view.name, RowsOf::Kept(Arc::clone(&rows)));
        Ok(Some(rows))
    }
}
