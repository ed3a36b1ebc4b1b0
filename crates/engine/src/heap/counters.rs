//! Counts of what was done to a heap since it was opened, for statistics.
//!
//! Invariants: figures only grow, and nothing depends on them.
//! Does not do: transactions; the work of a rolled-back one is counted, too.

use rightlink_env::sync::{AtomicI64, AtomicU64, Ordering};

/// Counters beside the data that they count.
#[derive(Default)]
pub(crate) struct Counters {
    scans: AtomicU64,
    rows_scanned: AtomicU64,
    inserted: AtomicU64,
    updated: AtomicU64,
    heap_only: AtomicU64,
    new_page: AtomicU64,
    partial: AtomicU64,
    unchanged_entries: AtomicU64,
    deleted: AtomicU64,
    /// Manual vacuums, automatic ones.
    vacuums: [AtomicU64; 2],
    /// When the last one of each kind ended, in microseconds since 1970; 0 for never.
    vacuumed: [AtomicI64; 2],
    /// Rows inserted when the last one of either kind ended.
    inserted_before: AtomicU64,
}

/// Work on the heap of a table since the table was opened: see
/// [`TableFigures::rows`](crate::TableFigures::rows).
///
/// ```
/// use rightlink::HeapFigures;
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// txn.update("n", id, &[("b", Value::Int8(11))])?;
/// txn.commit()?;
/// let HeapFigures { updated, heap_only, .. } = db.table_figures()?[0].rows;
/// println!("{} % of updates wrote no index", 100 * heap_only / updated.max(1));
/// assert_eq!(updated, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HeapFigures {
    /// Scans of the whole heap.
    pub scans: u64,
    /// Rows that these scans returned.
    pub rows_scanned: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Updates, of those, that needed no new index entry (heap-only updates).
    pub heap_only: u64,
    /// Updates whose new version went to another page.
    pub new_page: u64,
    /// Updates with index entries, on the same page, that left at least one entry's key unchanged:
    /// one that touched only the indexes whose keys changed could have spared it.
    pub partial: u64,
    /// Index entries of such updates whose keys were unchanged.
    pub unchanged_entries: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Vacuums on request that were finished.
    pub vacuums: u64,
    /// Automatic vacuums that were finished.
    pub auto_vacuums: u64,
    /// End of the last vacuum on request, in microseconds since 1970-01-01 00:00 UTC. `None`: there
    /// was none.
    pub last_vacuum: Option<i64>,
    /// End of the last automatic vacuum, in microseconds since 1970-01-01 00:00 UTC. `None`: there
    /// was none.
    pub last_auto_vacuum: Option<i64>,
    /// Rows inserted since the last vacuum of either kind ended. Without one: since the table was
    /// opened.
    pub inserted_since_vacuum: u64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn scan(&self) {
        add(&self.scans, 1);
    }

    pub(crate) fn scanned(&self, rows: u64) {
        add(&self.rows_scanned, rows);
    }

    pub(super) fn insert(&self, rows: usize) {
        add(&self.inserted, rows as u64);
    }

    pub(super) fn update(&self, heap_only: bool, new_page: bool) {
        add(&self.updated, 1);
        if heap_only {
            add(&self.heap_only, 1);
        } else if new_page {
            add(&self.new_page, 1);
        }
    }

    /// An update on the same page made so many index entries whose keys were unchanged.
    pub(crate) fn partial_update(&self, unchanged_entries: usize) {
        add(&self.partial, 1);
        add(&self.unchanged_entries, unchanged_entries as u64);
    }

    pub(super) fn delete(&self) {
        add(&self.deleted, 1);
    }

    pub(crate) fn vacuum(&self, automatic: bool, unix_micros: i64) {
        let kind = usize::from(automatic);
        add(&self.vacuums[kind], 1);
        self.vacuumed[kind].store(unix_micros, Ordering::Relaxed);
        self.inserted_before.store(self.inserted.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> HeapFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let when = |time: &AtomicI64| Some(time.load(Ordering::Relaxed)).filter(|time| *time != 0);
        let ([asked, unasked], [last, last_unasked]) = (&self.vacuums, &self.vacuumed);
        HeapFigures {
            scans: read(&self.scans),
            rows_scanned: read(&self.rows_scanned),
            inserted: read(&self.inserted),
            updated: read(&self.updated),
            heap_only: read(&self.heap_only),
            new_page: read(&self.new_page),
            partial: read(&self.partial),
            unchanged_entries: read(&self.unchanged_entries),
            deleted: read(&self.deleted),
            vacuums: read(asked),
            auto_vacuums: read(unasked),
            last_vacuum: when(last),
            last_auto_vacuum: when(last_unasked),
            inserted_since_vacuum: read(&self.inserted).saturating_sub(read(&self.inserted_before)),
        }
    }
}
