//! A session: what a connection is in PostgreSQL, without the connection.
//!
//! | file | hides |
//! |---|---|
//! | `transaction` | blocks, savepoints, the failed state, implicit transactions |
//! | `statement` | one statement after the other, and its tag |
//! | `like` | CREATE TABLE LIKE |
//! | `prepared`, `declared_types`, `portal` | typed parameters, row limits |
//! | `custom` | plans for the values of parameters, or for any values |
//! | `cache`, `literals` | plans that are kept; messages that are equal but for their literals |
//! | `cursor`, `listing` | DECLARE, FETCH, MOVE, CLOSE; catalogs of cursors and statements |
//! | `utility` | everything that is neither query nor definition |
//! | `schema`, `block`, `routine` | CREATE SCHEMA with all in it; DO; statements of functions |
//! | `analyze`, `auto_analyze` | ANALYZE, on request and unasked |
//! | `roles`, `grants`, `owners`, `access` | roles; privileges; owners; what the role may do |
//! | `constraints` | foreign keys that are looked at when the transaction commits |
//! | `copy` | rows in bulk |
//! | `explain` | plans as text and as JSON |
//! | `temporary` | temporary tables, and what happens to them at commits |
//! | `two_phase` | transactions that are prepared, and decided later |
//! | `stack` | the stack that a message takes |
//!
//! Invariants: after an error the session is usable: outside of a block nothing of the message
//! stays, inside of one everything but its end is refused until then.
//! Does not do: the wire, more than one thread at a time.

mod access;
mod analyze;
mod auto_analyze;
mod block;
mod cache;
mod constraints;
mod copy;
mod create_as;
mod cursor;
mod custom;
mod declared_types;
mod explain;
mod grants;
mod like;
mod listing;
mod literals;
mod materialized;
mod owners;
mod portal;
mod prepared;
mod roles;
mod routine;
mod schema;
mod stack;
mod statement;
mod temporary;
mod transaction;
mod two_phase;
mod utility;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use rightlink::Database;

pub use auto_analyze::AutoAnalyze;
pub use copy::CopyHeader;
pub use portal::Execution;
pub use prepared::Description;
pub use stack::STACK;

use crate::activity::notifications::Notification;
use crate::activity::{Activity, Seat, Who};
use crate::encoding::Encoding;
use crate::error::{Result, SqlError};
use crate::expr::deferred::Deferred;
use crate::expr::probe::Probe;
use crate::expr::seed::Seed;
use crate::expr::sequences::Sequences;
use crate::interrupt::Interrupt;
use crate::names::{is_own, is_shown};
use crate::parse::{self, Parsed};
use crate::plan::Column;
use crate::settings::Settings;
use crate::types::{Datum, Row, Times};
use portal::Portal;
use prepared::Prepared;
use transaction::Active;

/// Where the results of a message go, as they come. A message that needs more stack than its
/// caller's thread has left runs on a thread of its own, and so does what the sink does then.
pub trait Sink: Send {
    /// The columns of the rows that follow.
    fn columns(&mut self, columns: &[Column]) -> Result<()>;
    /// The zone and the styles that texts of dates and times in the rows that follow have.
    fn times(&mut self, times: &Times) {
        let _ = times;
    }
    /// The columns and rows that follow, up to the end of the statement, are those of a binary
    /// cursor: they are sent in binary form if the client has asked for no form.
    fn binary(&mut self) {}
    /// A row.
    fn row(&mut self, row: Row) -> Result<()>;
    /// A statement is done; this is its tag.
    fn complete(&mut self, tag: &str) -> Result<()>;
    /// Something that a person may want to know: its severity and text.
    fn notice(&mut self, severity: &str, message: &str);

    /// A COPY FROM begins: data follows through [`Session::copy_data`].
    fn copy_in(&mut self, header: CopyHeader) -> Result<()> {
        let _ = header;
        Err(SqlError::unsupported("COPY FROM STDIN in this interface"))
    }

    /// A COPY TO begins.
    fn copy_out(&mut self, header: CopyHeader) -> Result<()> {
        let _ = header;
        Err(SqlError::unsupported("COPY TO STDOUT in this interface"))
    }

    /// Data of a COPY TO.
    fn copy_data(&mut self, bytes: &[u8]) -> Result<()> {
        let _ = bytes;
        Err(SqlError::unsupported("COPY TO STDOUT in this interface"))
    }
}

/// What one statement gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Tag, as `INSERT 0 3`.
    pub tag: String,
    /// Columns, if it has results.
    pub columns: Option<Vec<Column>>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Notices and warnings, each with its severity in front.
    pub notices: Vec<String>,
}

/// What a client gives names to: for nobody but itself, so the hash need not withstand anybody.
type Named<V> = HashMap<String, V, BuildHasherDefault<ShortHash>>;

/// The hash FNV-1a: cheap for names of a few bytes.
struct ShortHash(u64);

impl Default for ShortHash {
    fn default() -> Self {
        ShortHash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for ShortHash {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A session on a database. See the crate's documentation for an example.
pub struct Session {
    db: Database,
    database: Arc<str>,
    active: Option<Active>,
    settings: Settings,
    prepared: Named<Arc<Prepared>>,
    portals: Named<Portal>,
    cursors: HashMap<String, cursor::Cursor>,
    /// Cursors and portals so far.
    begun: u64,
    /// When the message that runs arrived, in microseconds since 2000.
    arrived: i64,
    /// Is the message one of several statements, which makes it a block of its own?
    several: bool,
    /// DO blocks that run, or functions, inside of one another.
    blocks: usize,
    cache: cache::Cache,
    copy: Option<copy::CopyIn>,
    random: u64,
    /// What `setseed` has begun.
    seed: Seed,
    sequences: Sequences,
    /// Where the statement that runs notes what it does, if EXPLAIN ANALYZE runs it.
    probe: Option<Probe>,
    interrupt: Interrupt,
    /// What others see of it.
    seat: Arc<Seat>,
    login: roles::Login,
    /// Length of the longest statement that was prepared or has a cursor.
    longest: usize,
    temporary: temporary::Temporary,
    /// Foreign keys that wait for the end of the transaction.
    deferred: Arc<Deferred>,
}

impl Session {
    /// The statements of a message, which may take as much memory to read as the database has.
    fn parse(&self, text: &str) -> Result<Vec<Parsed>> {
        parse::parse(text, self.memory_to_read())
    }

    fn memory_to_read(&self) -> usize {
        parse::memory_to_read(self.db.budget())
    }

    /// A session with default settings.
    pub fn new(db: &Database) -> Session {
        let settings = Settings::default();
        settings.opened(&db.method().to_string(), db.device_depth());
        let interrupt = Interrupt::new();
        let now = db.unix_micros();
        let seat = Arc::new(Activity::default().join(Who::embedded(), interrupt.clone(), now));
        Session {
            db: db.clone(),
            database: "rightlink".into(),
            active: None,
            settings,
            prepared: Named::default(),
            portals: Named::default(),
            cursors: HashMap::new(),
            begun: 0,
            arrived: 0,
            several: false,
            blocks: 0,
            cache: cache::Cache::default(),
            copy: None,
            sequences: Sequences::default(),
            probe: None,
            random: db.unix_micros() as u64,
            seed: Seed::default(),
            interrupt,
            seat,
            login: roles::Login::default(),
            longest: 0,
            temporary: temporary::Temporary::default(),
            deferred: Arc::default(),
        }
    }

    /// Lists it among the sessions that see each other, as `who`, which is its user from now on.
    #[must_use]
    pub fn join(mut self, activity: &Activity, who: Who) -> Session {
        self.settings.logged_in(&who.user);
        let now = self.db.unix_micros();
        self.seat = Arc::new(activity.join(who, self.interrupt.clone(), now));
        self
    }

    /// The name that `current_database()` gives.
    #[must_use]
    pub fn named(mut self, database: impl Into<String>) -> Session {
        let name: String = database.into();
        self.database = name.into();
        self
    }

    /// Runs the statements of a message and gathers what they give.
    ///
    /// # Errors
    /// The first error ends the message; what came before it is not told. Use [`Session::run`] for
    /// that.
    pub fn execute(&mut self, sql: &str) -> Result<Vec<Outcome>> {
        let mut gather = Gather::default();
        self.run(sql, &mut gather)?;
        Ok(gather.done)
    }

    /// Runs one statement with values for its parameters `$1`, `$2` .. and gathers what it gives.
    /// The parameters' types are inferred; the plan of a statement that is run again is kept.
    ///
    /// # Errors
    /// What is wrong with the statement or its values; more than one statement; too many or too
    /// few values.
    pub fn execute_with(&mut self, sql: &str, parameters: Vec<Datum>) -> Result<Outcome> {
        let result = self.run_unnamed(sql, parameters);
        let ended = self.sync();
        let outcome = result?;
        ended.map(|()| outcome)
    }

    fn run_unnamed(&mut self, sql: &str, parameters: Vec<Datum>) -> Result<Outcome> {
        let described = self.prepare("", sql, &[])?;
        self.bind("", "", parameters)?;
        let mut gather = Gather::default();
        let execution = self.execute_portal("", 0, &mut gather)?;
        let mut outcome = gather.now;
        outcome.columns = described.columns;
        if let Execution::Complete(tag) = execution {
            outcome.tag = tag.into_owned();
        }
        Ok(outcome)
    }

    /// Sets a setting outside of any transaction, as a client does when it connects; RESET returns
    /// to it.
    ///
    /// # Errors
    /// `42704` for a setting that there is not, `22023` and `0A000` for a value.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        if matches!(lower.as_str(), "role" | "session_authorization") {
            let checked = self.check_identity(&lower, value);
            self.abort();
            checked?;
        }
        self.settings.set_at_start(name, value)?;
        self.rest();
        Ok(())
    }

    /// The settings that a client is told of when it connects and when they change.
    pub fn reported_settings(&self) -> Vec<(&'static str, String)> {
        self.settings.reported()
    }

    /// A number that differs after every change of a setting.
    pub fn setting_changes(&self) -> u64 {
        self.settings.changes()
    }

    /// The encoding of what the client sends and gets.
    pub fn client_encoding(&self) -> Encoding {
        self.settings.client_encoding()
    }

    /// A setting in milliseconds; `None` where it is 0, which means never.
    pub fn millis_setting(&self, name: &str) -> Option<u64> {
        self.settings.millis(name)
    }

    /// All tables and views, as the session's transaction sees them, under the store's names.
    pub fn tables(&mut self) -> Result<Vec<rightlink::TableInfo>> {
        let mut all = match &mut self.active {
            Some(active) => active.txn.catalog().tables()?,
            None => self.db.tables()?,
        };
        all.retain(|table| is_shown(&table.name) && !is_own(&table.name));
        Ok(all)
    }

    /// The user who has logged in.
    pub fn user(&self) -> &str {
        self.seat.name()
    }

    /// As whom statements run, and as whom where no role was set, if that is another.
    fn users(&self) -> (Arc<str>, Option<Arc<str>>) {
        if self.settings.often().as_login {
            return (self.seat.user(), None);
        }
        let identity = self.settings.identity();
        let session = identity.session.as_ref().map_or_else(|| self.seat.user(), Arc::clone);
        match &identity.role {
            Some(role) => (Arc::clone(role), Some(session)),
            None => (session, None),
        }
    }

    /// What other sessions, and this one, have said by NOTIFY on channels that this one listens on,
    /// since it was asked last. None while a transaction runs.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path()).unwrap();
    /// let mut session = rightlink_sql::Session::new(&db);
    /// session.execute("listen orders; notify orders, 'shipped'")?;
    /// let all = session.take_notifications();
    /// assert_eq!((&*all[0].channel, &*all[0].payload), ("orders", "shipped"));
    /// # Ok::<(), rightlink_sql::SqlError>(())
    /// ```
    pub fn take_notifications(&self) -> Vec<Notification> {
        match self.active {
            Some(_) => Vec::new(),
            None => self.seat.take_notifications(),
        }
    }

    /// Does the session listen on any channel?
    pub fn is_listening(&self) -> bool {
        self.seat.is_listening()
    }

    /// Calls `wake` whenever a notification has come, from the thread that has sent it, which must
    /// not wait. A later call takes the place of an earlier one.
    pub fn on_notification(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.seat.on_notification(Box::new(wake));
    }

    /// Calls `hang_up` when another session ends this one by `pg_terminate_backend`. Only the first
    /// call counts.
    pub fn on_termination(&self, hang_up: impl Fn() + Send + Sync + 'static) {
        self.seat.on_termination(Box::new(hang_up));
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }
}

/// Gathers everything.
#[derive(Default)]
struct Gather {
    done: Vec<Outcome>,
    now: Outcome,
}

impl Sink for Gather {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.now.columns = Some(columns.to_vec());
        Ok(())
    }

    fn row(&mut self, row: Row) -> Result<()> {
        self.now.rows.push(row);
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.now.tag = tag.to_owned();
        self.done.push(std::mem::take(&mut self.now));
        Ok(())
    }

    fn notice(&mut self, severity: &str, message: &str) {
        self.now.notices.push(format!("{severity}:  {message}"));
    }
}
