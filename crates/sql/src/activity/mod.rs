//! Sessions as they see each other: who is there and what each does.
//!
//! | file | hides |
//! |---|---|
//! | `advisory` | locks of numbers |
//! | `notifications` | LISTEN, NOTIFY, UNLISTEN |
//!
//! Invariants: a session is listed as long as it lives; what is told of it may be a moment old.
//! Does not do: locks of tables and rows (the store knows them), the ends of statements
//! (`interrupt`).

pub(crate) mod advisory;
pub(crate) mod notifications;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use rightlink_env::sync::{Arc, AtomicBool, AtomicI64, AtomicU8, AtomicU64, Mutex, Ordering};

use self::advisory::AdvisoryLocks;
use self::notifications::{Channels, Mailbox, Outbox};
use crate::interrupt::{Interrupt, Reason};
use crate::settings::{Settings, USER};
use crate::types::calendar::EPOCH_SECONDS;

/// Bytes of a statement that others see.
const MAX_TEXT: usize = 1_024;

/// Sessions that see each other: in `pg_stat_activity` and `pg_locks`, by advisory locks and by
/// NOTIFY. Clones are the same list.
#[derive(Clone, Default)]
pub struct Activity(Arc<Shared>);

/// What the sessions have in common.
#[derive(Default)]
struct Shared {
    clients: Mutex<BTreeMap<u32, Arc<Client>>>,
    advisory: AdvisoryLocks,
    channels: Channels,
    /// Catalogs of the database that a statement has read, kept for all sessions.
    catalogs: Kept,
}

/// A place for what a layer above keeps.
pub(crate) type Kept = Mutex<Option<Arc<dyn Any + Send + Sync>>>;

/// A function that another session's thread calls: it must not block.
type Hook = Box<dyn Fn() + Send + Sync>;

impl Activity {
    /// The place for kept catalogs of the database.
    pub(crate) fn catalogs(&self) -> &Kept {
        &self.0.catalogs
    }
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Activity")
    }
}

/// Where a session stands, as clients are told after every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    /// Outside of a block.
    Idle,
    /// Inside of one.
    Block,
    /// Inside of one that has failed.
    Failed,
}

/// As whom a session is listed.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// Its number; each is there once.
    pub pid: u32,
    /// The user that it has logged in as, or says it is where nobody has to log in.
    pub user: String,
    /// Where the client is, unless it is on this machine.
    pub address: Option<String>,
    /// The client's port.
    pub port: Option<u16>,
}

impl Who {
    pub(crate) fn embedded() -> Who {
        let user = USER.to_owned();
        Who { pid: 1, user, address: None, port: None }
    }
}

/// What a session does, as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Doing {
    Idle,
    Active,
    IdleInTransaction,
    IdleInFailed,
}

const ALL: [Doing; 4] = [Doing::Idle, Doing::Active, Doing::IdleInTransaction, Doing::IdleInFailed];

impl Doing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Doing::Idle => "idle",
            Doing::Active => "active",
            Doing::IdleInTransaction => "idle in transaction",
            Doing::IdleInFailed => "idle in transaction (aborted)",
        }
    }
}

/// A session as others see it. Times are microseconds since 2000, 0 for none.
pub(crate) struct Client {
    pub(crate) who: Who,
    pub(crate) started: i64,
    doing: AtomicU8,
    changed: AtomicI64,
    query_started: AtomicI64,
    /// Number of its transaction in the store, 0 for none.
    transaction: AtomicU64,
    transaction_started: AtomicI64,
    query: Mutex<String>,
    application: Mutex<(u64, String)>,
    /// Ends the statement that runs.
    interrupt: Interrupt,
    /// Ends the connection, if there is one.
    hang_up: OnceLock<Hook>,
    /// Does its transaction hold locks that end with it?
    locks_end: AtomicBool,
    outbox: Outbox,
    mailbox: Mailbox,
}

fn since_2000(unix_micros: i64) -> i64 {
    unix_micros - EPOCH_SECONDS * 1_000_000
}

impl Activity {
    /// Lists a session whose statements `interrupt` ends.
    pub(crate) fn join(&self, who: Who, interrupt: Interrupt, unix_micros: i64) -> Seat {
        let now = since_2000(unix_micros);
        let client = Arc::new(Client {
            who,
            started: now,
            doing: AtomicU8::new(Doing::Idle as u8),
            changed: AtomicI64::new(now),
            query_started: AtomicI64::new(0),
            transaction: AtomicU64::new(0),
            transaction_started: AtomicI64::new(0),
            query: Mutex::new(String::new()),
            application: Mutex::new((0, String::new())),
            interrupt,
            hang_up: OnceLock::new(),
            locks_end: AtomicBool::new(false),
            outbox: Outbox::default(),
            mailbox: Mailbox::default(),
        });
        self.0.clients.lock().insert(client.who.pid, Arc::clone(&client));
        let user = client.who.user.as_str().into();
        Seat { activity: self.clone(), client, user }
    }

    /// Everybody, by number.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.0.clients.lock().values().cloned().collect()
    }

    /// The session of this number.
    pub(crate) fn client(&self, pid: u32) -> Option<Arc<Client>> {
        self.0.clients.lock().get(&pid).cloned()
    }
}

impl Client {
    pub(crate) fn doing(&self) -> Doing {
        ALL[usize::from(self.doing.load(Ordering::Relaxed))]
    }

    pub(crate) fn transaction(&self) -> u64 {
        self.transaction.load(Ordering::Relaxed)
    }

    pub(crate) fn transaction_started(&self) -> i64 {
        self.transaction_started.load(Ordering::Relaxed)
    }

    pub(crate) fn query_started(&self) -> i64 {
        self.query_started.load(Ordering::Relaxed)
    }

    pub(crate) fn changed(&self) -> i64 {
        self.changed.load(Ordering::Relaxed)
    }

    pub(crate) fn query(&self) -> String {
        self.query.lock().clone()
    }

    pub(crate) fn application(&self) -> String {
        self.application.lock().1.clone()
    }

    /// Ends the statement that it runs, if it runs one.
    pub(crate) fn cancel(&self) {
        self.interrupt.raise(Reason::Request);
    }

    /// Ends what it runs and its connection.
    pub(crate) fn terminate(&self) {
        if let Some(hang_up) = self.hang_up.get() {
            hang_up();
        }
        self.interrupt.raise(Reason::Shutdown);
    }

    fn enter(&self, doing: Doing, now: i64) {
        self.doing.store(doing as u8, Ordering::Relaxed);
        self.changed.store(now, Ordering::Relaxed);
    }
}

/// What the transaction of a session had got when a savepoint was set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Advisory locks.
    advisory: usize,
    /// What it will say.
    outbox: usize,
}

impl Mark {
    /// Has the transaction advisory locks that end with it?
    pub(crate) fn has_locked(&self) -> bool {
        self.advisory > 0
    }

    /// Has it executed LISTEN, UNLISTEN or NOTIFY?
    pub(crate) fn has_said(&self) -> bool {
        self.outbox > 0
    }
}

/// A session's place on the list; it leaves when this is dropped.
pub(crate) struct Seat {
    activity: Activity,
    client: Arc<Client>,
    user: std::sync::Arc<str>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let pid = self.client.who.pid;
        self.end_transaction();
        self.unlock_all();
        self.unlisten_all();
        let mut list = self.activity.0.clients.lock();
        let own = list.get(&pid);
        if own.is_some_and(|client| Arc::ptr_eq(client, &self.client)) {
            list.remove(&pid);
        }
    }
}

impl Seat {
    pub(crate) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.client.who.pid
    }

    pub(crate) fn name(&self) -> &str {
        &self.user
    }

    pub(crate) fn user(&self) -> std::sync::Arc<str> {
        std::sync::Arc::clone(&self.user)
    }

    /// A statement begins `now`, in microseconds since 2000.
    pub(crate) fn busy(&self, text: &str, now: i64) {
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut query = self.client.query.lock();
        query.clear();
        query.push_str(&text[..end]);
        drop(query);
        self.client.query_started.store(now, Ordering::Relaxed);
        self.client.enter(Doing::Active, now);
    }

    /// The session waits for its client, since `now`.
    pub(crate) fn rest(&self, status: TransactionStatus, settings: &Settings, now: i64) {
        let doing = match status {
            TransactionStatus::Idle => Doing::Idle,
            TransactionStatus::Block => Doing::IdleInTransaction,
            TransactionStatus::Failed => Doing::IdleInFailed,
        };
        self.client.enter(doing, now);
        let changes = settings.changes();
        let mut application = self.client.application.lock();
        if application.0 != changes {
            *application = (changes, settings.get("application_name"));
        }
    }

    pub(crate) fn begin_transaction(&self, number: u64, started: i64) {
        self.client.transaction_started.store(started, Ordering::Relaxed);
        self.client.transaction.store(number, Ordering::Relaxed);
    }

    pub(crate) fn end_transaction(&self) {
        self.client.transaction.store(0, Ordering::Relaxed);
        self.client.transaction_started.store(0, Ordering::Relaxed);
        if self.client.locks_end.swap(false, Ordering::Relaxed) {
            self.activity.return_to_advisory_mark(self.pid(), 0);
        }
        self.client.outbox.clear(&self.activity.0.channels);
    }

    /// Calls `hang_up` when somebody wants the session to end; the first one stays.
    pub(crate) fn on_termination(&self, hang_up: Hook) {
        let _ = self.client.hang_up.set(hang_up);
    }

    /// Gives up all advisory locks that it holds until its end.
    pub(crate) fn unlock_all(&self) {
        self.activity.unlock_all_advisory(self.pid());
    }

    /// What a savepoint has to remember.
    pub(crate) fn mark(&self) -> Mark {
        let advisory = self.activity.advisory_mark(self.pid());
        Mark { advisory, outbox: self.client.outbox.len() }
    }

    /// Back to a savepoint.
    pub(crate) fn return_to(&self, mark: Mark) {
        self.activity.return_to_advisory_mark(self.pid(), mark.advisory);
        self.client.outbox.truncate(mark.outbox, &self.activity.0.channels);
    }
}
