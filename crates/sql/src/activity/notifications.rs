//! LISTEN, NOTIFY, UNLISTEN: what sessions tell each other when their transactions commit.
//!
//! What a transaction says stays in its [`Outbox`] until it commits. A commit that says something
//! holds [`Channels::order`], so notifications arrive in the order of commits, as PostgreSQL has
//! it. They wait in each listener's [`Mailbox`] until its client is told.
//!
//! Invariants: what waits in all mailboxes is at most [`MOST_BYTES`], and in all outboxes little
//! more; a transaction that would exceed it fails before it commits. A transaction that is undone
//! has said nothing.
//! Does not do: tell the client (the server does), keep what nobody listens for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rightlink_env::sync::{Arc, AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};

use super::{Client, Hook, Seat};
use crate::error::{Result, SqlError, code};

/// Bytes of a name in PostgreSQL, with the zero at its end.
const NAME_BYTES: usize = 64;
/// Bytes of a text in PostgreSQL, with the zero at its end.
const PAYLOAD_BYTES: usize = 8_000;
/// What may wait.
const MOST_BYTES: usize = 16 << 20;
/// What a notification takes beside its texts.
const EACH: usize = 96;

/// What a session has said to those that listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The session that has said it: its number in `pg_stat_activity`.
    pub pid: u32,
    /// The channel that it was said on.
    pub channel: String,
    /// The text; empty for NOTIFY without one.
    pub payload: String,
}

impl Notification {
    fn bytes(&self) -> usize {
        EACH + self.channel.len() + self.payload.len()
    }
}

/// What a transaction does when it commits.
#[derive(Clone, Debug)]
enum Action {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
    Notify(Arc<Notification>),
}

/// What the transaction of a session will do when it commits.
#[derive(Default)]
pub(super) struct Outbox {
    /// Is there anything?
    any: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    actions: Vec<Action>,
    /// What is said twice is told once.
    said: BTreeSet<(String, String)>,
    bytes: usize,
}

/// What a session has not told its client yet.
#[derive(Default)]
pub(super) struct Mailbox {
    any: AtomicBool,
    listens: AtomicBool,
    waiting: Mutex<VecDeque<Arc<Notification>>>,
    /// Called when something comes.
    wake: Mutex<Option<Hook>>,
}

/// Who listens.
#[derive(Default)]
pub(super) struct Channels {
    /// Held by a commit that says something, until it has said it.
    order: Mutex<()>,
    listeners: Mutex<BTreeMap<String, BTreeMap<u32, Arc<Client>>>>,
    /// What waits in all mailboxes.
    bytes: AtomicUsize,
    /// What waits in all outboxes.
    unsaid: AtomicUsize,
}

/// What a transaction says when it has committed. Nobody else commits and says something until
/// then.
pub(crate) struct Post<'a> {
    seat: &'a Seat,
    actions: Vec<Action>,
    _order: MutexGuard<'a, ()>,
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().actions.len()
    }

    pub(super) fn clear(&self, channels: &Channels) {
        if self.any.load(Ordering::Relaxed) {
            self.truncate(0, channels);
        }
    }

    /// Forgets all but the first `keep` actions.
    pub(super) fn truncate(&self, keep: usize, channels: &Channels) {
        let mut waiting = self.waiting.lock();
        let old = std::mem::take(&mut *waiting);
        let bytes = old.bytes;
        old.actions.into_iter().take(keep).for_each(|action| waiting.push(action));
        channels.unsaid.fetch_sub(bytes - waiting.bytes, Ordering::Relaxed);
        self.any.store(!waiting.actions.is_empty(), Ordering::Relaxed);
    }

    /// Keeps what the transaction does when it commits. All outboxes together are bounded.
    fn push(&self, action: Action, channels: &Channels) -> Result<()> {
        let mut waiting = self.waiting.lock();
        let before = waiting.bytes;
        if channels.unsaid.load(Ordering::Relaxed) > MOST_BYTES {
            return Err(full());
        }
        waiting.push(action);
        channels.unsaid.fetch_add(waiting.bytes - before, Ordering::Relaxed);
        self.any.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Waiting {
    fn push(&mut self, action: Action) {
        if let Action::Notify(one) = &action {
            if !self.said.insert((one.channel.clone(), one.payload.clone())) {
                return;
            }
            self.bytes += 2 * one.bytes();
        }
        self.bytes += EACH;
        self.actions.push(action);
    }
}

fn full() -> SqlError {
    SqlError::new(code::PROGRAM_LIMIT, "too many notifications in the NOTIFY queue")
}

/// Refuses what PostgreSQL's clients do not expect.
fn check_texts(channel: &str, payload: &str) -> Result<()> {
    let what = match (channel.len(), payload.len()) {
        (0, _) => "channel name cannot be empty",
        (NAME_BYTES.., _) => "channel name too long",
        (_, PAYLOAD_BYTES..) => "payload string too long",
        _ => return Ok(()),
    };
    Err(SqlError::new(code::INVALID_PARAMETER, what))
}

impl Seat {
    /// NOTIFY
    pub(crate) fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        self.activity.notify(self.client.who.pid, channel, payload)
    }

    /// LISTEN, from the commit on.
    pub(crate) fn listen(&self, channel: &str) -> Result<()> {
        check_texts(channel, "")?;
        let listen = Action::Listen(channel.to_owned());
        self.client.outbox.push(listen, &self.activity.0.channels)
    }

    /// UNLISTEN, from the commit on; `None` is all channels.
    pub(crate) fn unlisten(&self, channel: Option<&str>) -> Result<()> {
        let unlisten = match channel {
            Some(channel) => Action::Unlisten(channel.to_owned()),
            None => Action::UnlistenAll,
        };
        self.client.outbox.push(unlisten, &self.activity.0.channels)
    }

    /// Takes what the transaction says, which is about to commit. `None`: nothing.
    ///
    /// # Errors
    /// `54000` if the mailboxes would hold too much.
    pub(crate) fn prepare_post(&self) -> Result<Option<Post<'_>>> {
        let outbox = &self.client.outbox;
        if !outbox.any.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        let channels = &self.activity.0.channels;
        let Waiting { actions, bytes, .. } = std::mem::take(&mut *outbox.waiting.lock());
        channels.unsaid.fetch_sub(bytes, Ordering::Relaxed);
        let post = Post { seat: self, actions, _order: channels.order.lock() };
        // Only who has the order adds to it.
        match channels.bytes.load(Ordering::Relaxed) + post.bytes() > MOST_BYTES {
            true => Err(full()),
            false => Ok(Some(post)),
        }
    }

    /// Ends all listening now.
    pub(crate) fn unlisten_all(&self) {
        if self.client.mailbox.listens.swap(false, Ordering::Relaxed) {
            let mut listeners = self.activity.0.channels.listeners.lock();
            listeners.retain(|_, all| {
                all.remove(&self.client.who.pid);
                !all.is_empty()
            });
        }
        self.take_notifications();
    }

    /// Does the session listen on any channel?
    pub(crate) fn is_listening(&self) -> bool {
        self.client.mailbox.listens.load(Ordering::Relaxed)
    }

    /// Takes what has come, in the order in which it was said.
    pub(crate) fn take_notifications(&self) -> Vec<Notification> {
        let mailbox = &self.client.mailbox;
        if !mailbox.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = mailbox.waiting.lock();
        mailbox.any.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *waiting);
        drop(waiting);
        let bytes = all.iter().map(|one| one.bytes()).sum();
        self.activity.0.channels.bytes.fetch_sub(bytes, Ordering::Relaxed);
        all.iter().map(|one| Notification::clone(one)).collect()
    }

    /// Calls `wake` whenever something comes.
    pub(crate) fn on_notification(&self, wake: Hook) {
        *self.client.mailbox.wake.lock() = Some(wake);
    }
}

impl super::Activity {
    /// Says `payload` on `channel` when the transaction of session `pid` commits.
    ///
    /// # Errors
    /// Texts that are too long; too much to say.
    pub(crate) fn notify(&self, pid: u32, channel: &str, payload: &str) -> Result<()> {
        check_texts(channel, payload)?;
        let Some(client) = self.client(pid) else { return Ok(()) };
        let (channel, payload) = (channel.to_owned(), payload.to_owned());
        let notification = Arc::new(Notification { pid, channel, payload });
        client.outbox.push(Action::Notify(notification), &self.0.channels)
    }

    /// The channels that a session listens on.
    pub(crate) fn channels_of(&self, pid: u32) -> Vec<String> {
        let listeners = self.0.channels.listeners.lock();
        let own = listeners.iter().filter(|(_, all)| all.contains_key(&pid));
        own.map(|(channel, _)| channel.clone()).collect()
    }

    /// Which part of what may wait does.
    pub(crate) fn notification_usage(&self) -> f64 {
        self.0.channels.bytes.load(Ordering::Relaxed) as f64 / MOST_BYTES as f64
    }
}

impl Post<'_> {
    fn channels(&self) -> &Channels {
        &self.seat.activity.0.channels
    }

    /// What the mailboxes will hold more, at most.
    fn bytes(&self) -> usize {
        let listeners = self.channels().listeners.lock();
        // The session may listen from now on.
        let own = usize::from(self.actions.iter().any(|one| matches!(one, Action::Listen(_))));
        let of = |action: &Action| match action {
            Action::Notify(one) => {
                one.bytes() * (listeners.get(&one.channel).map_or(0, BTreeMap::len) + own)
            }
            _ => 0,
        };
        self.actions.iter().map(of).sum()
    }

    /// The transaction has committed: listens, ends listening, and tells all that listen.
    pub(crate) fn send(self) {
        let mut listeners = self.channels().listeners.lock();
        let client = &self.seat.client;
        let pid = client.who.pid;
        for action in &self.actions {
            match action {
                Action::Listen(channel) => {
                    let all = listeners.entry(channel.clone()).or_default();
                    all.insert(pid, Arc::clone(client));
                }
                Action::Unlisten(channel) => {
                    if let Some(all) = listeners.get_mut(channel) {
                        all.remove(&pid);
                    }
                }
                Action::UnlistenAll => listeners.values_mut().for_each(|all| {
                    all.remove(&pid);
                }),
                Action::Notify(_) => {}
            }
        }
        listeners.retain(|_, all| !all.is_empty());
        let listens = listeners.values().any(|all| all.contains_key(&pid));
        client.mailbox.listens.store(listens, Ordering::Relaxed);
        for action in &self.actions {
            let Action::Notify(one) = action else { continue };
            for listener in listeners.get(&one.channel).into_iter().flat_map(BTreeMap::values) {
                self.channels().bytes.fetch_add(one.bytes(), Ordering::Relaxed);
                listener.mailbox.put(Arc::clone(one));
            }
        }
    }
}

impl Mailbox {
    fn put(&self, one: Arc<Notification>) {
        self.waiting.lock().push_back(one);
        self.any.store(true, Ordering::Release);
        if let Some(wake) = &*self.wake.lock() {
            wake();
        }
    }
}
