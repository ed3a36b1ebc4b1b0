//! What a statement found out about catalogs, kept for the statements that come after it.
//!
//! `Objects` are kept under the version of all definitions that they were read by, and rows that
//! are made of them alone beside them, as far as memory is spare. Sizes are not kept: they are
//! looked up when somebody asks for them.
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
use crate::exec::memory::{reserve_spare, row_bytes};
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
    /// By name of the relation; `None`: they take more than may be kept.
    by_view: HashMap<&'static str, Option<Arc<MadeRows>>>,
    bytes: usize,
    reservations: Vec<Reservation>,
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
    /// The rows of a relation, whole; `None` if they take more than may be kept.
    pub(super) fn rows(
        &self,
        view: &View,
        context: &Context,
        make: impl FnOnce(&Objects) -> Result<Vec<Row>>,
    ) -> Result<Option<Arc<MadeRows>>> {
        if let Some(known) = self.rows.lock().by_view.get(view.name) {
            return Ok(known.clone());
        }
        let made = make(&self.objects)?;
        let budget = context.budget();
        // As much again for finding them by a value.
        let bytes = made.iter().map(|row| 2 * row_bytes(row)).sum();
        let mut kept = self.rows.lock();
        let reservation = spare(&budget, kept.bytes, bytes);
        let rows = match reservation {
            Some(reservation) => {
                kept.bytes += bytes;
                kept.reservations.push(reservation);
                Some(Arc::new(MadeRows::counted(made, context)?))
            }
            None => None,
        };
        kept.by_view.insert(view.name, rows.clone());
        Ok(rows)
    }
}
