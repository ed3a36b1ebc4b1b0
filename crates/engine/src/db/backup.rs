//! Backups of an open database, and their restoration.
//!
//! Invariants: a failed backup is no failure of the database. A restored database was recovered and
//! verified before it counts.
//! Does not do: the copy (`upkeep::backup`).

use std::path::Path;

use rightlink_aio::SimDisk;

pub use crate::backup::Progress as BackupProgress;
use crate::db::Database;
use crate::db::info::VerifyReport;
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::upkeep::{Options, backup};

/// Settings of a backup.
///
/// ```
/// use rightlink::BackupOptions;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path().join("db"))?;
/// # let to = dir.path().join("copy");
/// let slowly = BackupOptions::new().bytes_per_second(10 << 20);
/// let made = db.backup_with(&to, &slowly, |progress| progress.pages < 1_000_000)?;
/// assert!(made.pages > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    bytes_per_second: Option<u64>,
    disk: Option<SimDisk>,
}

/// Work of a restore: see [`Database::restore`].
///
/// ```
/// use rightlink::Database;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let (copy, again) = (dir.path().join("copy"), dir.path().join("again"));
/// # Database::open(dir.path().join("db"))?.backup(&copy)?;
/// let report = Database::restore(&copy, &again)?;
/// println!("{} KiB written, {} rows checked", report.bytes >> 10, report.verified.rows);
/// assert!(report.verified.is_clean());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RestoreReport {
    /// Bytes written; pages that are zero are left out.
    pub bytes: u64,
    /// The report of the verification. It is clean, or the restore would have failed.
    pub verified: VerifyReport,
}

impl BackupOptions {
    /// A backup at full speed, into a directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies at most so many bytes of pages and log in a second, on the average. Default: as fast
    /// as it goes.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> Self {
        self.bytes_per_second = Some(bytes.max(1));
        self
    }

    /// Copies to a simulated disk instead of a directory.
    #[must_use]
    pub fn simulation(mut self, disk: SimDisk) -> Self {
        self.disk = Some(disk);
        self
    }
}

impl Database {
    /// Copies the database into directory `to`, which it makes, while others go on reading and
    /// writing. The copy holds every transaction that was committed before the call, some or all of
    /// those that were committed meanwhile (in order), and no other; unlogged tables are empty in
    /// it. Open it as it is, or bring it back by [`Database::restore`].
    ///
    /// The log written meanwhile is copied as it grows, and let go.
    ///
    /// ```
    /// # use rightlink::Database;
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, copy, again) =
    /// #     (dir.path().join("db"), dir.path().join("copy"), dir.path().join("again"));
    /// let db = Database::open(&path)?;
    /// db.backup(&copy)?;
    /// let report = Database::restore(&copy, &again)?;
    /// assert!(report.verified.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` when there is such a directory, `Io` or `DiskFull` naming the directory when
    /// it cannot be written, `Corruption` when a page of the database cannot be read. The directory
    /// then holds an unfinished copy, which refuses to be opened, and can be removed.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupProgress> {
        self.backup_with(to, &BackupOptions::default(), |_| true)
    }

    /// As [`Database::backup`], paced and watched: `go_on` is asked after every 64 pages.
    ///
    /// # Errors
    /// As [`Database::backup`]; `Cancelled` when `go_on` said no.
    pub fn backup_with(
        &self,
        to: impl AsRef<Path>,
        options: &BackupOptions,
        mut go_on: impl FnMut(&BackupProgress) -> bool,
    ) -> Result<BackupProgress> {
        let engine = self.engine();
        engine.check_open()?;
        let target = backup::target(&engine.env, to.as_ref(), options.disk.as_ref())?;
        engine.backup(&target, options.bytes_per_second, &mut |progress| match go_on(progress) {
            true => Ok(()),
            false => Err(Error::Cancelled("the backup, by its caller".into())),
        })
    }

    /// Makes the database `to` from the backup `from`: copies it, recovers the copy and verifies
    /// it. See [`Options::restore`] for other settings than the default ones, and for the errors.
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<RestoreReport> {
        Options::default().restore(from, to)
    }
}

impl Options {
    /// Makes the database `to` from the backup in directory `from`, which is not open and is not
    /// changed: copies it, recovers the copy and verifies it. Uses the memory of
    /// [`Options::memory`].
    ///
    /// # Errors
    /// `Invalid` when the backup was never finished, `NotFound` when there is none, `AlreadyExists`
    /// when there is a directory `to`, `Corruption` naming the first finding when the copy does not
    /// verify. Until all is well `to` holds an unfinished copy, which refuses to be opened.
    pub fn restore(
        mut self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<RestoreReport> {
        let source = Options { path: from.as_ref().to_path_buf(), create: false, ..self.clone() };
        let copied = backup::copy_back(&source, to.as_ref())?;
        self.path = to.as_ref().to_path_buf();
        (self.create, self.restoring) = (false, true);
        let db = Database::open_with(&self)?;
        let verified = db.verify()?;
        db.close()?;
        if let Some(finding) = verified.findings.first() {
            let (relation, what) = (Some(finding.relation.clone()), finding.what.clone());
            let file = FileId(finding.file).path();
            return Err(Error::Corruption { relation, file, block: finding.block, what });
        }
        copied.restored.finish()?;
        Ok(RestoreReport { bytes: copied.bytes, verified })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use rightlink_env::sync::Arc;

    use crate::Database;
    use crate::config::PAGE_SIZE;
    use crate::txn::{Isolation, SEGMENT_PAGES, SEGMENT_XIDS};
    use crate::{TableSchema, Type, Value};

    /// Bytes of a segment of the log.
    const SEGMENT: u64 = 1 << 20;

    /// Uses so many transaction ids, a thousand in each transaction.
    fn use_xids(db: &Database, count: u64) {
        let txns = &db.engine().txns;
        let end = txns.next_xid().0 + count;
        while txns.next_xid().0 < end {
            let mut txn = Arc::clone(txns).begin(Isolation::ReadCommitted);
            for _ in 0..1000 {
                txn.begin_statement().unwrap();
                txn.xid().unwrap();
            }
            txn.commit(true).unwrap();
        }
    }

    fn insert(db: &Database, id: i64) {
        let mut txn = db.begin();
        txn.insert("t", &[Value::Int8(id)]).unwrap();
        txn.commit().unwrap();
    }

    /// Pages that a backup and a verification read.
    fn pages_read(db: &Database, to: &std::path::Path) -> (u64, u64) {
        (db.backup(to).unwrap().pages, db.verify().unwrap().pages)
    }

    /// The story: the file with the outcomes of transactions grew with every xid, though most of it
    /// had long been holes. Backup and verify read all of it, and a restore wrote it.
    #[test]
    fn outcomes_that_nobody_needs_are_neither_copied_nor_checked() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let options = Database::options().memory(16 << 20).auto_vacuum(false);
        let db = options.log_segment_bytes(SEGMENT).open(at("db")).unwrap();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("id", Type::Int8)).unwrap();
        txn.commit().unwrap();
        insert(&db, 1);
        let (copied, checked) = pages_read(&db, &at("first"));
        use_xids(&db, 3 * SEGMENT_XIDS);
        let used = 3 * u64::from(SEGMENT_PAGES);
        let (all_copied, all_checked) = pages_read(&db, &at("all"));
        assert!(all_copied > copied + used && all_checked > checked + used, "all are needed");

        for id in 2..4 {
            db.vacuum(None).unwrap();
            insert(&db, id);
        }
        db.checkpoint().unwrap();
        let txns = &db.engine().txns;
        assert_eq!(txns.segments().len(), 1, "the others went");
        // Those that were made ahead of their use count, too.
        let live = (txns.next_xid().0 - txns.oldest_xid().0) / 1000 + 64;
        let (few_copied, few_checked) = pages_read(&db, &at("few"));
        println!("pages of outcomes that are needed: {live}");
        println!("pages of a backup: {copied}, then {all_copied}, then {few_copied}");
        println!("pages of a verification: {checked}, then {all_checked}, then {few_checked}");
        assert!(few_copied <= copied + live + 20, "{few_copied} after {copied}, {live} needed");
        assert!(few_checked <= checked + live + 20, "{few_checked} after {checked}, {live} needed");
        let first = Database::restore(at("first"), at("restored_first")).unwrap().bytes;
        let few = Database::restore(at("few"), at("restored_few")).unwrap();
        // A copy has a segment or two of the log.
        let most = first + (live + 20) * PAGE_SIZE as u64 + 2 * SEGMENT;
        assert!(few.bytes <= most, "{} bytes restored, {first} at first", few.bytes);
        let db = Database::open(at("restored_few")).unwrap();
        assert_eq!(db.begin().scan("t", &crate::ScanOptions::all()).unwrap().count(), 3);
    }
}
