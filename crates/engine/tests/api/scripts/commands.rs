//! Commands of a script: sessions, and what is done to the whole database.

use std::collections::BTreeMap;
use std::time::Duration;

use rightlink::{
    Database, Isolation, LockInfo, Options, Savepoint, Transaction, TransactionOptions,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{CrashChoice, PendingKind, Tear};
use rightlink_env::sync::{Arc, AtomicU64, Mutex, Ordering};
use rightlink_env::{Env, points, thread};

use super::{display, statements};

/// A transaction of a script.
pub(crate) struct Session {
    pub(crate) txn: Transaction,
    pub(crate) savepoints: BTreeMap<String, Savepoint>,
}

/// What a command left: its session, unless the transaction ended, and its output.
type Finished = (Option<Box<Session>>, Vec<String>);

enum State {
    Idle(Box<Session>),
    Running(Arc<Mutex<Option<Finished>>>),
}

struct Slot {
    number: u64,
    state: State,
}

/// A database on a simulated disk, and the sessions of a script.
pub(crate) struct Runner {
    disk: SimDisk,
    db: Option<Database>,
    sessions: BTreeMap<String, Slot>,
}

fn open(disk: &SimDisk) -> Database {
    Options::default()
        .memory(8 << 20)
        .log_segment_bytes(64 << 10)
        .simulation(Env::simulated(1), disk.clone())
        .open("")
        .expect("the database opens")
}

/// Keeps some sectors of the first write that no sync has made durable, and all other changes.
fn tear_page(kinds: &[PendingKind]) -> CrashChoice {
    let first = kinds.iter().position(|kind| *kind == PendingKind::Write);
    let index = first.expect("a write is pending");
    CrashChoice::Torn { index, sector: 512, tear: Tear::Random(1), others: true }
}

impl Runner {
    pub(crate) fn new() -> Runner {
        let disk = SimDisk::new(7);
        let db = Some(open(&disk));
        Runner { disk, db, sessions: BTreeMap::new() }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().expect("the database is open")
    }

    /// Runs a command line, with `name: ` before it one of a session, and returns its output.
    pub(crate) fn run(&mut self, line: &str) -> Vec<String> {
        let (session, command) = match line.split_once(": ") {
            Some((name, command)) => (Some(name), command),
            None => (None, line),
        };
        let words: Vec<String> = command.split_whitespace().map(statements::expand).collect();
        match session {
            Some(name) => self.run_in_session(name, words),
            None => self.run_alone(&words),
        }
    }

    fn run_in_session(&mut self, name: &str, words: Vec<String>) -> Vec<String> {
        if words[0] == "begin" {
            let isolation = match words.get(1).map(String::as_str) {
                None => Isolation::Snapshot,
                Some("read-committed") => Isolation::ReadCommitted,
                Some(other) => panic!("no isolation level {other}"),
            };
            let options = TransactionOptions { isolation, ..TransactionOptions::default() };
            let txn = self.db().begin_with(options);
            let number = txn.number();
            let state = State::Idle(Box::new(Session { txn, savepoints: BTreeMap::new() }));
            let before = self.sessions.insert(name.to_owned(), Slot { number, state });
            assert!(before.is_none(), "{name} runs a transaction");
            return Vec::new();
        }
        let Some(Slot { number, state: State::Idle(session) }) = self.sessions.remove(name) else {
            panic!("{name} has no transaction, or waits");
        };
        let done = Arc::new(Mutex::new(None));
        let state = State::Running(Arc::clone(&done));
        self.sessions.insert(name.to_owned(), Slot { number, state });
        drop(thread::spawn(name, move || {
            let finished = statements::run_in_session(session, &words);
            *done.lock() = Some(finished);
        }));
        self.settle(name)
    }

    /// Waits until each session has finished or waits for another; output of those that finished,
    /// and whom `current` waits for.
    fn settle(&mut self, current: &str) -> Vec<String> {
        let mut out = BTreeMap::new();
        for _ in 0..30_000 {
            let locks = self.db().locks();
            let waits = |slot: &Slot| {
                locks.iter().any(|lock| !lock.granted && lock.transaction == slot.number)
            };
            // What finished after this look at the locks may have let another go on.
            let at_rest = self.sessions.values().all(|slot| match &slot.state {
                State::Idle(_) => true,
                State::Running(_) => waits(slot),
            });
            if at_rest {
                let waiting = matches!(
                    self.sessions.get(current),
                    Some(Slot { state: State::Running(_), .. })
                );
                let mut printed: Vec<String> = Vec::new();
                // The current session first: it let the others go on.
                printed.extend(out.remove(current).into_iter().flatten());
                if waiting {
                    printed
                        .push(format!("{current}: waits for {}", self.blockers(current, &locks)));
                }
                printed.extend(out.into_values().flatten());
                return printed;
            }
            let names: Vec<String> = self.sessions.keys().cloned().collect();
            for name in names {
                if let Some(mut lines) = self.collect(&name) {
                    if lines.is_empty() && name != current {
                        lines.push(format!("{name}: goes on"));
                    }
                    out.insert(name, lines);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("a session neither ends nor waits");
    }

    /// The output of the session, if its command has finished.
    fn collect(&mut self, name: &str) -> Option<Vec<String>> {
        let slot = self.sessions.get_mut(name)?;
        let State::Running(done) = &slot.state else { return None };
        let alone = Arc::strong_count(done) == 1;
        let finished = done.lock().take();
        assert!(finished.is_some() || !alone, "the thread of {name} panicked");
        let (session, lines) = finished?;
        match session {
            Some(session) => slot.state = State::Idle(session),
            None => drop(self.sessions.remove(name)),
        }
        Some(lines.into_iter().map(|line| format!("{name}: {line}")).collect())
    }

    fn blockers(&self, name: &str, locks: &[LockInfo]) -> String {
        let waits =
            |lock: &&LockInfo| !lock.granted && lock.transaction == self.sessions[name].number;
        let blockers = locks.iter().filter(waits).flat_map(|lock| &lock.blocked_by);
        let named = |number: &u64| {
            let found = self.sessions.iter().find(|(_, slot)| slot.number == *number);
            found.map_or_else(|| number.to_string(), |(name, _)| name.clone())
        };
        blockers.map(named).collect::<Vec<_>>().join(", ")
    }

    fn run_alone(&mut self, words: &[String]) -> Vec<String> {
        let table = words.get(1).map(String::as_str);
        match words[0].as_str() {
            "vacuum" => vec![display::figures(&self.db().vacuum(table).expect("vacuum runs"))],
            "checkpoint" => {
                self.db().checkpoint().expect("a checkpoint ends");
                Vec::new()
            }
            "verify" => display::verification(&self.db().verify().expect("verify runs")),
            "inspect" => {
                let block = words.get(3).map(|block| block.parse().expect("a block number"));
                let pages = self.db().inspect(table.expect("a relation"), block);
                pages.map_or_else(|error| vec![format!("error: {error}")], |p| display::pages(&p))
            }
            "snapshots" => self.snapshots(),
            "entries" => {
                let before = self.entries(&words[1]);
                let mut out = statements::run_alone(self.db(), &words[2..]);
                out.push(format!("{} entries read", self.entries(&words[1]) - before));
                out
            }
            "stats" => {
                let stats = self.db().stats();
                let figure = |name: &String| {
                    format!("{name} {}", stats.get(name).expect("a figure of this name"))
                };
                words[1..].iter().map(figure).collect()
            }
            "crash" => {
                let image = match &words[1..] {
                    [] => self.disk.crash_image(&CrashChoice::AllLost),
                    [at, point] if at == "in-checkpoint-at" => self.crash_in_checkpoint(point),
                    other => panic!("no such crash: {other:?}"),
                };
                self.reopen(image)
            }
            "reopen" => {
                self.sessions.clear();
                let db = self.db.take().expect("the database is open");
                db.close().expect("the database closes");
                self.reopen(self.disk.clone())
            }
            _ => statements::run_alone(self.db(), words),
        }
    }

    /// Entries that scans by this index came to so far.
    fn entries(&self, index: &str) -> u64 {
        let tables = self.db().table_figures().expect("figures of tables");
        let mut indexes = tables.iter().flat_map(|table| &table.indexes);
        indexes.find(|figures| figures.name == index).expect("an index of this name").entries
    }

    /// Whom the snapshots belong to that hold versions back.
    fn snapshots(&self) -> Vec<String> {
        let held = self.db().snapshots().into_iter().map(|info| {
            let owner = self.sessions.iter().find(|(_, slot)| slot.number == info.transaction);
            let owner = owner.map_or("another", |(name, _)| name);
            format!("{owner}: {} commits since its snapshot", info.commits_since)
        });
        held.collect()
    }

    /// Cuts the power in a checkpoint: one write of pages is torn.
    fn crash_in_checkpoint(&self, point: &str) -> SimDisk {
        let image = Arc::new(Mutex::new(None));
        let (disk, to, wanted) = (self.disk.clone(), Arc::clone(&image), point.to_owned());
        let hook = points::install_local(move |passed| {
            let mut image = to.lock();
            if passed == wanted && image.is_none() {
                *image = Some(disk.crash_image_by(|pending| tear_page(&pending.kinds())).disk);
            }
        });
        self.db().checkpoint().expect("a checkpoint ends");
        drop(hook);
        image.lock().take().expect("the checkpoint passes the point")
    }

    /// Goes on with another disk: the transactions of all sessions are gone.
    fn reopen(&mut self, disk: SimDisk) -> Vec<String> {
        self.sessions.clear();
        self.db = None;
        let restored = Arc::new(AtomicU64::new(0));
        let hook = {
            let restored = Arc::clone(&restored);
            points::install_local(move |point| {
                if point == "buffer.double-write.restore" {
                    restored.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        self.db = Some(open(&disk));
        drop(hook);
        self.disk = disk;
        let records = self.db().stats().get("recovered_records").expect("a figure");
        let mut out = vec![format!("{records} records replayed")];
        let restored = restored.load(Ordering::Relaxed);
        if restored > 0 {
            out.push(format!("torn pages restored: {restored}"));
        }
        out
    }
}
