//! Sessions that meet: advisory locks, notifications, and the ends of others.

use std::collections::{BTreeMap, BTreeSet};

use rightlink::Database;
use rightlink_env::{Rng, thread};
use rightlink_sql::{Activity, Session, Who};

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    (dir, db)
}

/// Sessions of one server, with the numbers from 1 on.
fn sessions(db: &Database, count: u32) -> Vec<Session> {
    let activity = Activity::default();
    let join = |pid| Session::new(db).join(&activity, Who { pid, ..Who::default() });
    (1..=count).map(join).collect()
}

/// The last row of what a message gives, or the code of its error.
pub(crate) fn told(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Ok(outcomes) => {
            let rows = outcomes.into_iter().flat_map(|outcome| outcome.rows);
            let shown = |value: &rightlink_sql::Datum| value.to_text().unwrap_or("NULL".into());
            let line = |row: Vec<_>| row.iter().map(shown).collect::<Vec<String>>().join("|");
            rows.last().map(line).unwrap_or_default()
        }
        Err(error) => error.sqlstate.to_string(),
    }
}

/// Waits until a session waits for somebody.
pub(crate) fn until_blocked(observer: &mut Session, pid: u32) {
    let blocked = format!("select pg_blocking_pids({pid}) <> '{{}}'");
    for turn in 0.. {
        if told(observer, &blocked) == "t" {
            return;
        }
        assert!(turn < 6_000, "session {pid} does not wait");
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_lock_is_waited_for_until_it_is_given_up() {
    let (_dir, db) = open();
    let mut all = sessions(&db, 3);
    let (mut observer, mut waiter, mut holder) =
        (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
    told(&mut holder, "select pg_advisory_lock(5), pg_advisory_lock(5)");
    assert_eq!(told(&mut waiter, "select pg_try_advisory_lock(5)"), "f");
    // Two numbers are another lock.
    assert_eq!(told(&mut waiter, "select pg_try_advisory_lock(0, 5)"), "t");
    let waits = thread::spawn("waiter", move || {
        let got = told(&mut waiter, "select pg_advisory_lock(5)");
        (waiter, got)
    });
    until_blocked(&mut observer, 2);
    assert_eq!(told(&mut observer, "select pg_blocking_pids(2)"), "{1}");
    let locks = "select string_agg(format('%s %s %s %s %s', pid, objid, objsubid, mode, granted), \
                 ', ' order by objsubid, pid) from pg_locks where locktype = 'advisory'";
    let found = "1 5 1 ExclusiveLock t, 2 5 1 ExclusiveLock f, 2 5 2 ExclusiveLock t";
    assert_eq!(told(&mut observer, locks), found);
    let waiting = "select wait_event_type, wait_event from pg_stat_activity where pid = 2";
    assert_eq!(told(&mut observer, waiting), "Lock|advisory");
    // It was asked for twice.
    assert_eq!(told(&mut holder, "select pg_advisory_unlock(5)"), "t");
    assert_eq!(told(&mut observer, "select pg_blocking_pids(2)"), "{1}");
    drop(holder);
    let (mut waiter, got) = waits.join().unwrap();
    assert_eq!(got, "");
    assert_eq!(told(&mut observer, "select pg_try_advisory_lock_shared(5)"), "f");
    told(&mut waiter, "discard all");
    assert_eq!(told(&mut observer, "select pg_try_advisory_lock_shared(5)"), "t");
    assert!(db.verify().unwrap().is_clean());
}

/// `pg_locks` once had the lock of session 1 twice, as that of session 2 came between.
#[test]
fn a_lock_that_is_held_until_two_ends_is_listed_once() {
    let (_dir, db) = open();
    let mut all = sessions(&db, 2);
    told(&mut all[0], "begin; select pg_advisory_lock_shared(5)");
    told(&mut all[1], "select pg_advisory_lock_shared(5)");
    told(&mut all[0], "select pg_advisory_xact_lock_shared(5)");
    let locks = "select string_agg(format('%s %s', pid, mode), ', ' order by pid) \
                 from pg_locks where locktype = 'advisory'";
    assert_eq!(told(&mut all[1], locks), "1 ShareLock, 2 ShareLock");
    told(&mut all[0], "commit");
    assert_eq!(told(&mut all[1], locks), "1 ShareLock, 2 ShareLock");
    told(&mut all[0], "select pg_advisory_unlock_all()");
    assert_eq!(told(&mut all[1], locks), "2 ShareLock");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_wait_for_an_advisory_lock_ends_by_timeouts_and_requests() {
    let (_dir, db) = open();
    let mut all = sessions(&db, 3);
    let mut waiter = all.pop().unwrap();
    told(&mut all[0], "select pg_advisory_lock(7)");
    told(&mut waiter, "set lock_timeout = '5ms'");
    assert_eq!(told(&mut waiter, "select pg_advisory_xact_lock(7)"), "55P03");
    told(&mut waiter, "set lock_timeout = 0; set statement_timeout = '5ms'");
    assert_eq!(told(&mut waiter, "select pg_advisory_lock_shared(7)"), "57014");
    told(&mut waiter, "set statement_timeout = 0");
    for (end, code) in [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")] {
        let waits = thread::spawn("waiter", move || {
            let code = told(&mut waiter, "select pg_advisory_lock(7)");
            (waiter, code)
        });
        until_blocked(&mut all[1], 3);
        assert_eq!(told(&mut all[1], &format!("select {end}(3)")), "t");
        let ended = waits.join().unwrap();
        waiter = ended.0;
        assert_eq!(ended.1, code);
    }
    assert_eq!(told(&mut all[1], "select pg_cancel_backend(99)"), "f");
    // Nothing waits any more.
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    assert_eq!(told(&mut all[1], waiting), "0");
}

/// A client may send several messages at once. The order to end came between two of them, the next
/// one cleared it as it clears a request to cancel the message before, and the session went on.
#[test]
fn an_end_between_two_messages_is_not_forgotten() {
    let (_dir, db) = open();
    let mut all = sessions(&db, 2);
    for (end, code) in [("pg_cancel_backend", ""), ("pg_terminate_backend", "57P01")] {
        all[1].prepare("", "select pg_sleep(0.001)", &[]).unwrap();
        assert_eq!(told(&mut all[0], &format!("select {end}(2)")), "t");
        all[1].bind("", "", Vec::new()).unwrap();
        let done = all[1].execute_portal("", 0, &mut crate::gather::Gather::default());
        assert_eq!(done.err().map(|error| error.sqlstate).unwrap_or_default(), code);
    }
    // A request to cancel does not take its place.
    assert_eq!(told(&mut all[0], "select pg_cancel_backend(2)"), "t");
    assert_eq!(told(&mut all[1], "select 1"), "57P01");
}

/// One waits for a number, the other for a row that the first has changed.
#[test]
fn a_circle_of_an_advisory_lock_and_a_row_is_found() {
    let (_dir, db) = open();
    let mut all = sessions(&db, 3);
    told(&mut all[0], "create table t (a int primary key, b int); insert into t values (1, 1)");
    let (mut observer, mut numbers, mut rows) =
        (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
    told(&mut rows, "begin; select pg_advisory_xact_lock(3)");
    told(&mut numbers, "begin; update t set b = 2");
    let waits = thread::spawn("rows", move || {
        let got = told(&mut rows, "update t set b = 3 returning b");
        (rows, got)
    });
    until_blocked(&mut observer, 1);
    assert_eq!(told(&mut numbers, "select pg_advisory_lock(3)"), "40P01");
    told(&mut numbers, "rollback");
    let (mut rows, got) = waits.join().unwrap();
    assert_eq!(got, "3");
    told(&mut rows, "commit");
    assert_eq!(told(&mut observer, "select pg_try_advisory_lock(3)"), "t");
    assert!(db.verify().unwrap().is_clean());
}

/// A lock in the model: session, key, exclusive, until the end of the transaction.
type Held = (usize, i64, bool, bool);

/// A session in the model, with what it had at each savepoint.
#[derive(Default)]
struct Block {
    open: bool,
    savepoints: Vec<Vec<Held>>,
}

/// Locks as a list, each as often as it was asked for.
#[derive(Default)]
struct Locks(Vec<Held>);

impl Locks {
    fn take(&mut self, wanted: Held) -> bool {
        let (session, key, exclusive, _) = wanted;
        let against = |held: &Held| held.0 != session && held.1 == key && (held.2 || exclusive);
        let free = !self.0.iter().any(against);
        if free {
            self.0.push(wanted);
        }
        free
    }

    fn give_up(&mut self, session: usize, key: i64, exclusive: bool) -> bool {
        let at = self.0.iter().rposition(|held| *held == (session, key, exclusive, false));
        at.is_some_and(|at| {
            self.0.remove(at);
            true
        })
    }

    fn end(&mut self, session: usize) {
        self.0.retain(|held| held.0 != session || !held.3);
    }

    fn of_transaction(&self, session: usize) -> Vec<Held> {
        self.0.iter().filter(|held| held.0 == session && held.3).copied().collect()
    }

    /// Session, key, mode, each once, as `pg_locks` has it.
    fn shown(&self) -> BTreeSet<(usize, i64, bool)> {
        self.0.iter().map(|held| (held.0, held.1, held.2)).collect()
    }
}

fn shown(session: &mut Session) -> BTreeSet<(usize, i64, bool)> {
    let sql = "select pid, objid, mode from pg_locks where locktype = 'advisory'";
    let outcomes = session.execute(sql).unwrap();
    let one = |row: &Vec<rightlink_sql::Datum>| {
        let text = |at: usize| row[at].to_text().unwrap();
        (
            text(0).parse::<usize>().unwrap() - 1,
            text(1).parse().unwrap(),
            text(2) == "ExclusiveLock",
        )
    };
    outcomes[0].rows.iter().map(one).collect()
}

#[test]
fn advisory_locks_are_as_a_list_of_them() {
    const SESSIONS: usize = 4;
    let (_dir, db) = open();
    for seed in 0..6 {
        let mut random = Rng::from_seed(seed);
        let mut all = sessions(&db, SESSIONS as u32);
        let (mut locks, mut blocks) = (Locks::default(), BTreeMap::<usize, Block>::new());
        let mut given = 0;
        for step in 0..400 {
            let who = random.below(SESSIONS as u64) as usize;
            let (key, exclusive) = (random.below(4) as i64, random.below(2) == 0);
            let (session, block) = (&mut all[who], blocks.entry(who).or_default());
            let mode = if exclusive { "" } else { "_shared" };
            match random.below(10) {
                0..4 => {
                    let xact = random.below(2) == 0;
                    let kind = if xact { "_xact" } else { "" };
                    let sql = format!("select pg_try_advisory{kind}_lock{mode}({key})");
                    let got = told(session, &sql);
                    assert_eq!(
                        got == "t",
                        locks.take((who, key, exclusive, xact)),
                        "{seed} {step}"
                    );
                    given += usize::from(got == "t");
                    if !block.open {
                        locks.end(who);
                    }
                }
                4..6 => {
                    let sql = format!("select pg_advisory_unlock{mode}({key})");
                    let got = told(session, &sql) == "t";
                    assert_eq!(got, locks.give_up(who, key, exclusive), "{seed} {step}");
                }
                6 if !block.open => {
                    told(session, "begin");
                    *block = Block { open: true, savepoints: Vec::new() };
                }
                6 | 7 if block.open => {
                    let end = if random.below(2) == 0 { "commit" } else { "rollback" };
                    told(session, end);
                    *block = Block::default();
                    locks.end(who);
                }
                8 if block.open => {
                    let name = block.savepoints.len();
                    told(session, &format!("savepoint s{name}"));
                    block.savepoints.push(locks.of_transaction(who));
                }
                9 if !block.savepoints.is_empty() => {
                    let at = random.below(block.savepoints.len() as u64) as usize;
                    told(session, &format!("rollback to s{at}"));
                    block.savepoints.truncate(at + 1);
                    let before = block.savepoints[at].clone();
                    locks.end(who);
                    locks.0.extend(before);
                }
                _ => {}
            }
            assert_eq!(shown(&mut all[(who + 1) % SESSIONS]), locks.shown(), "{seed} {step}");
        }
        assert!(given > 20, "seed {seed} got {given} locks");
        all.truncate(1);
        locks.0.retain(|held| held.0 == 0);
        assert_eq!(shown(&mut all[0]), locks.shown(), "{seed}: those of who is gone");
    }
    assert!(db.verify().unwrap().is_clean());
}

/// What a session in the model does at its commit.
#[derive(Clone, PartialEq)]
enum Said {
    Listen(u64),
    Unlisten(Option<u64>),
    Notify(u64, u64),
}

#[test]
fn notifications_come_when_their_transactions_commit_and_in_that_order() {
    const SESSIONS: usize = 3;
    let (_dir, db) = open();
    for seed in 0..6 {
        let mut random = Rng::from_seed(seed);
        let mut all = sessions(&db, SESSIONS as u32);
        let mut listens: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); SESSIONS];
        let mut mail: Vec<Vec<String>> = vec![Vec::new(); SESSIONS];
        // What each will say, and how much of it a savepoint keeps; `None` outside of a block.
        let mut blocks: Vec<Option<(Vec<Said>, Vec<usize>)>> = vec![None; SESSIONS];
        let mut came = 0;
        for step in 0..500 {
            let who = random.below(SESSIONS as u64) as usize;
            let (channel, text) = (random.below(3), random.below(3));
            let said = match random.below(12) {
                0..2 => Some((format!("listen c{channel}"), Said::Listen(channel))),
                2 => Some((format!("unlisten c{channel}"), Said::Unlisten(Some(channel)))),
                3 if random.below(4) == 0 => Some(("unlisten *".into(), Said::Unlisten(None))),
                4..6 => {
                    let sql = format!("notify c{channel}, 't{text}'");
                    Some((sql, Said::Notify(channel, text)))
                }
                6 => {
                    let sql = format!("select pg_notify('c{channel}', 't{text}')");
                    Some((sql, Said::Notify(channel, text)))
                }
                _ => None,
            };
            let mut commits: Option<Vec<Said>> = None;
            match (said, &mut blocks[who]) {
                (Some((sql, said)), block) => {
                    told(&mut all[who], &sql);
                    match block {
                        Some((actions, _)) => actions.push(said),
                        None => commits = Some(vec![said]),
                    }
                }
                (None, None) => {
                    told(&mut all[who], "begin");
                    blocks[who] = Some((Vec::new(), Vec::new()));
                }
                (None, Some((actions, savepoints))) => match random.below(5) {
                    0 => {
                        told(&mut all[who], &format!("savepoint s{}", savepoints.len()));
                        savepoints.push(actions.len());
                    }
                    1 if !savepoints.is_empty() => {
                        let at = random.below(savepoints.len() as u64) as usize;
                        told(&mut all[who], &format!("rollback to s{at}"));
                        savepoints.truncate(at + 1);
                        actions.truncate(savepoints[at]);
                    }
                    2 => {
                        told(&mut all[who], "rollback");
                        blocks[who] = None;
                    }
                    _ => {
                        told(&mut all[who], "commit");
                        commits = blocks[who].take().map(|(actions, _)| actions);
                    }
                },
            }
            let actions = commits.unwrap_or_default();
            for action in &actions {
                match action {
                    Said::Listen(channel) => drop(listens[who].insert(*channel)),
                    Said::Unlisten(Some(channel)) => drop(listens[who].remove(channel)),
                    Said::Unlisten(None) => listens[who].clear(),
                    Said::Notify(..) => {}
                }
            }
            for (at, action) in actions.iter().enumerate() {
                // What is said twice comes once.
                let Said::Notify(channel, text) = action else { continue };
                if actions[..at].contains(action) {
                    continue;
                }
                for (listener, channels) in listens.iter().enumerate() {
                    if channels.contains(channel) {
                        mail[listener].push(format!("{} c{channel} t{text}", who + 1));
                    }
                }
            }
            let reader = random.below(SESSIONS as u64) as usize;
            let got = all[reader].take_notifications().into_iter();
            let got: Vec<String> =
                got.map(|one| format!("{} {} {}", one.pid, one.channel, one.payload)).collect();
            came += got.len();
            match blocks[reader] {
                Some(_) => assert!(got.is_empty(), "{seed} {step}: a transaction runs"),
                None => assert_eq!(got, std::mem::take(&mut mail[reader]), "{seed} {step}"),
            }
        }
        assert!(came > 20, "seed {seed}: {came} came");
    }
}

#[test]
fn what_cannot_be_said_is_refused_before_the_commit() {
    let (_dir, db) = open();
    let mut all = sessions(&db, 2);
    told(&mut all[0], "create table t (a int)");
    for (sql, code) in [
        ("select pg_notify('', 'x')", "22023"),
        ("select pg_notify(null, 'x')", "22023"),
        ("select pg_notify(repeat('c', 64), 'x')", "22023"),
        ("select pg_notify('c', repeat('x', 8000))", "22023"),
        ("select pg_notify('c', repeat('x', 7999))", ""),
        ("notify c, 5", "42601"),
        ("listen", "42601"),
    ] {
        assert_eq!(told(&mut all[0], sql), code, "{sql}");
    }
    // Who listens and takes nothing does not fill the memory.
    told(&mut all[1], "listen c");
    let much = "insert into t values (1); \
                select count(pg_notify('c', g || repeat('x', 7900))) \
                from generate_series(1, 900) g";
    let failed = (0..9).find(|_| told(&mut all[0], much) == "54000");
    assert!(failed.is_some());
    let rows = told(&mut all[0], "select count(*) from t");
    assert_eq!(rows, failed.unwrap().to_string(), "the one that failed has inserted nothing");
    // What was defined or dropped is undone with it: a plan for its name finds the table of before.
    let count = "select count(*) from t";
    let full =
        "select count(pg_notify('c', g || repeat('y', 7900))) from generate_series(1, 900) g";
    let temporary = "create temporary table t (b text)";
    for (definition, meanwhile, after) in
        [(temporary, "0", rows.as_str()), ("drop table pg_temp.t", rows.as_str(), "0")]
    {
        told(&mut all[0], &format!("begin; {definition}"));
        assert_eq!(told(&mut all[0], count), meanwhile);
        told(&mut all[0], full);
        assert_eq!(told(&mut all[0], "commit"), "54000");
        assert_eq!(told(&mut all[0], count), after);
        told(&mut all[0], temporary);
    }
    assert_eq!(told(&mut all[0], "select pg_notification_queue_usage() > 0.5"), "t");
    assert_eq!(all[1].take_notifications().len(), 900 * failed.unwrap());
    assert_eq!(told(&mut all[0], "select pg_notification_queue_usage()"), "0");
    let many =
        "select count(pg_notify('c', g || repeat('x', 7900))) from generate_series(1, 9999) g";
    assert_eq!(told(&mut all[0], many), "54000");
    assert_eq!(told(&mut all[1], "select pg_listening_channels()"), "c");
    assert_eq!(told(&mut all[1], "select * from pg_listening_channels()"), "c");
    assert!(db.verify().unwrap().is_clean());
}
