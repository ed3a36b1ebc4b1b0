//! Everything at once against the real process, for a while: writers, readers, prepared statements,
//! cancels, vacuum, analyze, indexes built anew, tables that come and go, connections that come and
//! go, verification and backup.
//!
//! There is no finding and no wrong answer, private memory stays within what the budget says, and
//! when all have gone the server costs nothing. `RIGHTLINK_SOAK_SECONDS` (4) says for how long,
//! `RIGHTLINK_SEED` (random, printed) which.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{EXE, Served, connect, setting, socket};
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::thread::spawn;
use rightlink_env::{Clock, Rng};

/// What the server is given. With a third of it a verification beside the load finds no memory.
const BUDGET: u64 = 64 << 20;
/// Private memory that is allowed beside a tenth more than the budget: code's own data, the log's
/// buffers, threads of the engine, what the allocator keeps.
const FIXED: u64 = 16 << 20;
/// The same for each connection: its thread's stack as far as that is used, its buffers.
const PER_CONNECTION: u64 = 256 << 10;
/// Processor time of the idle server, of one processor: 0.5 %.
const IDLE_SHARE: f64 = 0.005;
/// What the idle server is measured in, and how many such windows it has to come to rest.
const IDLE_WINDOW: Duration = Duration::from_secs(2);
const IDLE_WINDOWS: u32 = 45;
/// Between two looks at the memory.
const SAMPLE: Duration = Duration::from_millis(20);

/// Rows whose values sum up to zero whatever happens.
const ACCOUNTS: u64 = 4_000;

/// Memory that belongs to the process alone and is no file's.
fn private_memory(process: u32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{process}/status")) else { return 0 };
    let line = text.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Processor time of all threads that there are, as the system counts it.
fn processor_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let one = |path: PathBuf| -> Option<u64> {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(|thread| one(thread.unwrap().path())).sum())
}

// The protocol, as far as it is needed.

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// An error of a statement, by its SQLSTATE.
#[derive(Clone, Debug)]
struct Refused {
    state: String,
    what: String,
}

type Rows = Vec<Vec<Option<String>>>;

struct Client {
    stream: UnixStream,
    path: PathBuf,
    /// By which its statements are cancelled.
    key: [u8; 8],
}

impl Client {
    fn open(folder: &Path) -> Client {
        let path = socket(folder);
        let mut stream = connect(&path);
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let options = [text("user"), text("ann"), text("database"), text("db"), vec![0]].concat();
        let body = [&196_608u32.to_be_bytes()[..], &options].concat();
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).unwrap();
        let mut client = Client { stream, path, key: [0; 8] };
        client.answers().expect("who comes by the socket is let in");
        client
    }

    fn answers(&mut self) -> Result<Rows, Refused> {
        let (mut rows, mut refused) = (Vec::new(), None);
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).expect("a client is answered");
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.stream.read_exact(&mut body).expect("a client is answered");
            match head[0] {
                b'Z' => return refused.map_or(Ok(rows), Err),
                b'K' => self.key.copy_from_slice(&body),
                b'D' => rows.push(row(&body)),
                b'E' => refused = refused.or(Some(error(&body))),
                _ => {}
            }
        }
    }

    fn ask(&mut self, sql: &str) -> Result<Rows, Refused> {
        self.stream.write_all(&message(b'Q', &text(sql))).unwrap();
        self.answers()
    }

    /// A statement that is prepared under `name`, if it is not yet, and run with `values`, at most
    /// `most` rows at a time.
    fn run(
        &mut self,
        (name, sql): (&str, Option<&str>),
        values: &[&str],
        most: u32,
    ) -> Result<Rows, Refused> {
        let mut sent = Vec::new();
        if let Some(sql) = sql {
            sent.extend(message(b'P', &[text(name), text(sql), vec![0, 0]].concat()));
        }
        let count = (values.len() as u16).to_be_bytes();
        let mut bind = [text("p"), text(name), vec![0, 0], count.to_vec()].concat();
        for value in values {
            bind.extend((value.len() as u32).to_be_bytes());
            bind.extend(value.as_bytes());
        }
        bind.extend([0, 0]);
        sent.extend(message(b'B', &bind));
        // What was run to its end is not run again.
        for _ in 0..if most > 0 { 2 } else { 1 } {
            sent.extend(message(b'E', &[text("p"), most.to_be_bytes().to_vec()].concat()));
        }
        sent.extend(message(b'C', &[vec![b'P'], text("p")].concat()));
        sent.extend(message(b'S', &[]));
        self.stream.write_all(&sent).unwrap();
        self.answers()
    }

    fn forget(&mut self, name: &str) {
        let close = message(b'C', &[vec![b'S'], text(name)].concat());
        self.stream.write_all(&[close, message(b'S', &[])].concat()).unwrap();
        self.answers().expect("any name can be closed");
    }

    /// What another connection sends to end the statement of this one.
    fn canceller(&self) -> impl Fn() + Send + 'static {
        let (path, key) = (self.path.clone(), self.key);
        move || {
            let request = [&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &key].concat();
            let mut stream = connect(&path);
            let _ = stream.write_all(&request);
            let _ = stream.read(&mut [0]);
        }
    }
}

fn row(body: &[u8]) -> Vec<Option<String>> {
    let (mut rest, mut values) = (&body[2..], Vec::new());
    while let Some((length, more)) = rest.split_first_chunk::<4>() {
        match usize::try_from(i32::from_be_bytes(*length)) {
            Err(_) => (rest, _) = (more, values.push(None)),
            Ok(length) => {
                values.push(Some(String::from_utf8_lossy(&more[..length]).into_owned()));
                rest = &more[length..];
            }
        }
    }
    values
}

fn error(body: &[u8]) -> Refused {
    let field = |kind: u8| {
        let fields = body.split(|byte| *byte == 0);
        let found = fields.filter(|field| field.first() == Some(&kind)).map(|field| &field[1..]);
        found.map(|field| String::from_utf8_lossy(field).into_owned()).next().unwrap_or_default()
    };
    Refused { state: field(b'C'), what: field(b'M') }
}

// The work.

/// What all who work share.
struct Soak {
    folder: PathBuf,
    stop: AtomicBool,
    connections: AtomicU64,
    /// Next number of a row of the table that rows come to and go from.
    next: AtomicU64,
}

impl Soak {
    fn client(&self) -> Connected<'_> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        Connected { soak: self, client: Client::open(&self.folder) }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }
}

/// A connection that is counted while it lives.
struct Connected<'s> {
    soak: &'s Soak,
    client: Client,
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.soak.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// May this happen to who works beside others? Conflicts, deadlocks, waits that were too long, a
/// cancel, names that another has taken or dropped, and a budget that others use.
fn is_lost_race(refused: &Refused) -> bool {
    let conflicts = ["40001", "40P01", "55P03", "57014", "25P02"];
    let names = ["42P01", "42P07", "42704", "55006"];
    let state = refused.state.as_str();
    // The second is what the engine says of some of its memory: sorts, dead rows.
    let memory = ["53200", "54000"];
    memory.iter().chain(&conflicts).chain(&names).any(|known| *known == state)
}

type Work = fn(&Soak, &mut Client, &mut Rng) -> Result<(), Refused>;

fn number(rows: &Rows, column: usize) -> i64 {
    let value = rows[0][column].as_deref().unwrap_or("0");
    value.parse().unwrap_or_else(|_| panic!("a number, not {value}"))
}

/// Moves an amount from one account to another, some by savepoints, some not kept.
fn transfer(_: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    let span = if random.chance(1, 2) { 8 } else { ACCOUNTS };
    let (from, to, amount) = (random.below(span), random.below(span), random.below(9));
    if from == to {
        return Ok(());
    }
    let levels = ["read committed", "repeatable read"];
    client.ask(&format!("begin isolation level {}", levels[random.index(2)]))?;
    if random.chance(1, 3) {
        client.ask("set local synchronous_commit = off")?;
    }
    let add = |id, amount: i64, pad| {
        format!("update account set v = v + ({amount}), pad = repeat('y', {pad}) where id = {id}")
    };
    let amount = amount as i64;
    client.ask(&add(from, -amount, random.below(200)))?;
    if random.chance(1, 4) {
        client.ask("savepoint s")?;
        client.ask(&add(to, amount, if random.chance(1, 40) { 9_000 } else { 3 }))?;
        client.ask("rollback to s")?;
    }
    client.ask(&add(to, amount, random.below(60)))?;
    client.ask(if random.chance(1, 5) { "rollback" } else { "commit" }).map(drop)
}

/// Many rows at a time come, change and go.
fn bulk(soak: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    let (count, top) = ([20, 400, 1500][random.index(3)], soak.next.load(Ordering::SeqCst));
    let low = top.saturating_sub(30_000);
    let at = low + random.below((top - low).max(1));
    let sql = match random.below(5) {
        0 | 1 => {
            let first = soak.next.fetch_add(count, Ordering::SeqCst);
            let last = first + count - 1;
            format!(
                "insert into event select g, g % 977, g % 7, repeat('z', (g % 90)::int) \
                 from generate_series({first}::bigint, {last}::bigint) g"
            )
        }
        2 => format!("delete from event where id >= {at} and id < {at} + 500"),
        3 => format!("delete from event where id < {low}"),
        _ => format!("update event set kind = kind + 1 where id >= {at} and id < {at} + 300"),
    };
    client.ask(&sql).map(drop)
}

/// One snapshot is one truth, whichever way it is read.
fn read(_: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    client.ask("begin isolation level repeatable read read only")?;
    let mut first = None;
    for sql in [
        "select sum(v), count(*) from account",
        "select sum(v), count(v) from (select v from account order by id) a",
        "select sum(v), count(v) from (select v from account order by v) a",
    ] {
        let rows = client.ask(sql)?;
        let seen = (number(&rows, 0), number(&rows, 1));
        assert_eq!(seen, (0, ACCOUNTS as i64), "{sql}");
        assert_eq!(*first.get_or_insert(seen), seen, "{sql}");
        std::thread::sleep(Duration::from_millis(random.below(20)));
    }
    for sql in [
        "select kind, count(*), min(id), max(pad) from event group by kind order by 2 desc",
        "select id, pad from event where day between 100 and 120 order by pad, id limit 50",
        "select distinct day from event order by day desc limit 100",
        "select count(*) from event where day in (1, 2, 3, 5, 8, 13, 21, 34)",
    ] {
        client.ask(sql)?;
    }
    client.ask("commit").map(drop)
}

/// Statements that are prepared, run with a few rows at a time, and forgotten or not.
fn prepared(_: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    for at in 0..20 {
        let name = format!("s{}", random.below(64));
        let id = random.below(ACCOUNTS).to_string();
        let queries = [
            "select id, v, pad from account where id = $1::bigint",
            "select id from account where id > $1::bigint order by id limit 100",
            "select count(*) from event where day = $1::bigint",
            "update account set g = g + 1 where id = $1::bigint returning g",
        ];
        client.forget(&name);
        let which = random.index(queries.len());
        let most = if which < 2 { 10 } else { 0 };
        client.run((&name, Some(queries[which])), &[&id], most)?;
        client.run((&name, None), &[&id], 0)?;
        if at % 3 == 0 {
            client.forget(&name);
        }
    }
    Ok(())
}

/// Long statements that another connection ends.
fn cancelled(_: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    // Nothing of it is to stay.
    client.ask("begin")?;
    let (cancel, answered) = (client.canceller(), Arc::new(AtomicBool::new(false)));
    let (delay, ended) = (Duration::from_millis(random.below(40)), Arc::clone(&answered));
    // The first may come before the statement does.
    let cancelling = spawn("cancels", move || {
        while !ended.load(Ordering::SeqCst) {
            std::thread::sleep(delay + Duration::from_millis(1));
            cancel();
        }
    });
    let sql = [
        "select count(*) from generate_series(1, 100000000) g where g % 7 = 3",
        "select sum(g) from generate_series(1, 100000000) g",
        "update event set pad = pad || 'x' where id % 3 = 0",
        "delete from event",
        "select pg_sleep(5)",
        "create index event_gone on event (pad, id)",
    ][random.index(6)];
    let result = client.ask(sql);
    answered.store(true, Ordering::SeqCst);
    cancelling.join().unwrap();
    // A cancel that comes late may meet this one.
    let _ = client.ask("select 1");
    client.ask("rollback").and(result).map(drop)
}

fn maintain(_: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    let sql = [
        "vacuum",
        "vacuum event",
        "vacuum account",
        "analyze",
        "analyze event",
        "checkpoint",
        "reindex index account_v",
        "reindex index event_day",
        "reindex table account",
        "reindex table event",
    ][random.index(10)];
    std::thread::sleep(Duration::from_millis(random.below(100)));
    client.ask(sql).map(drop)
}

/// Definitions come and go.
fn define(_: &Soak, client: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    std::thread::sleep(Duration::from_millis(50));
    match random.below(4) {
        0 => {
            client.ask("create index concurrently event_kind on event (kind, day)")?;
            client.ask("drop index event_kind").map(drop)
        }
        1 => {
            client.ask("create table other (id serial primary key, x text unique)")?;
            client.ask("insert into other (x) select g::text from generate_series(1, 500) g")?;
            client.ask("alter table other add column y int default 7")?;
            client.ask("alter table other alter column y type bigint")?;
            client.ask("truncate other")?;
            client.ask("drop table other").map(drop)
        }
        2 => client.ask("begin; alter table account add column more text; rollback").map(drop),
        _ => {
            client.ask("begin; create table scratch (a int); drop table scratch; commit").map(drop)
        }
    }
}

/// Connections that come, ask and go.
fn visit(soak: &Soak, _: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    let mut visitors: Vec<_> = (0..1 + random.below(8)).map(|_| soak.client()).collect();
    for visitor in &mut visitors {
        let rows = visitor.client.ask("select count(*) from account")?;
        assert_eq!(number(&rows, 0), ACCOUNTS as i64);
    }
    Ok(())
}

fn rightlink(arguments: &[&std::ffi::OsStr]) -> Output {
    let mut command = Command::new(EXE);
    command.args(arguments).args(["--memory", &BUDGET.to_string()]).output().unwrap()
}

const WORKS: [(&str, Work, usize); 9] = [
    ("transfer", transfer, 4),
    ("bulk", bulk, 2),
    ("read", read, 2),
    ("prepared", prepared, 2),
    ("cancelled", cancelled, 1),
    ("maintain", maintain, 1),
    ("define", define, 1),
    ("visit", visit, 1),
    ("look_after", look_after, 1),
];

/// Verification and backup beside all of this, by whoever owns the files. While commands are
/// refused a database that is served, that is what is counted.
fn look_after(soak: &Soak, _: &mut Client, random: &mut Rng) -> Result<(), Refused> {
    std::thread::sleep(Duration::from_millis(random.below(500)));
    let db = soak.folder.join("db");
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy");
    let arguments = match random.chance(1, 2) {
        true => vec!["verify".as_ref(), db.as_os_str()],
        false => vec!["backup".as_ref(), db.as_os_str(), copy.as_os_str()],
    };
    let answered = rightlink(&arguments);
    let said = [answered.stdout, answered.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    match answered.status.code() {
        Some(0) => Ok(()),
        // It is open elsewhere.
        Some(4) => Err(Refused { state: "55006".into(), what: said }),
        // The load beside it has the memory.
        Some(6) if said.contains("out of memory") => {
            Err(Refused { state: "53200".into(), what: said })
        }
        other => panic!("{arguments:?} ended with {other:?}: {said}"),
    }
}

fn fill(client: &mut Client) {
    let table = "(id bigint primary key, v bigint not null, g bigint not null, pad text)";
    let event = "(id bigint primary key, day bigint not null, kind bigint not null, pad text)";
    for sql in [
        &format!("create table account {table}"),
        "create index account_v on account (v)",
        "create index account_g on account (g)",
        &format!("create table event {event}"),
        "create index event_day on event (day)",
        "create index event_kind_id on event (kind, id)",
        &format!(
            "insert into account select g, 0, g % 17, repeat('p', (g % 60)::int) \
             from generate_series(0::bigint, {}::bigint) g",
            ACCOUNTS - 1
        ),
    ] {
        client.ask(sql).unwrap_or_else(|refused| panic!("{sql}: {refused:?}"));
    }
}

/// The highest figures of a run.
#[derive(Default)]
struct Peak {
    memory: u64,
    /// Most connections in the time in which a sample was taken.
    connections: u64,
    /// By how much the memory was more than it may be.
    beyond: i64,
}

fn allowed(connections: u64) -> u64 {
    BUDGET + BUDGET / 10 + FIXED + connections * PER_CONNECTION
}

fn watch(soak: &Soak, process: u32) -> Peak {
    let mut peak = Peak { beyond: i64::MIN, ..Peak::default() };
    let mut before = 0;
    while soak.goes_on() {
        std::thread::sleep(SAMPLE);
        let memory = private_memory(process);
        // Those that have gone since the last look may still be in it.
        let now = soak.connections.load(Ordering::SeqCst);
        let connections = now.max(std::mem::replace(&mut before, now));
        let beyond = memory as i64 - allowed(connections) as i64;
        peak.connections = peak.connections.max(connections);
        peak.memory = peak.memory.max(memory);
        peak.beyond = peak.beyond.max(beyond);
    }
    peak
}

/// Refusals of one sort.
#[derive(Default)]
struct Lost {
    count: u64,
    /// What the last of them said.
    what: String,
}

/// Does the work `WORKS` at once for so long; the highest figures, and what was done and refused.
fn work(soak: &Soak, server: &mut Served, seconds: u64, seed: u64) -> Peak {
    let process = server.child.id();
    let done: Vec<AtomicU64> = WORKS.iter().map(|_| AtomicU64::new(0)).collect();
    let lost: Mutex<BTreeMap<(&str, String), Lost>> = Mutex::default();
    let peak = std::thread::scope(|scope| {
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let watching = scope.spawn(|| watch(soak, process));
        for (at, (name, work, copies)) in WORKS.iter().enumerate() {
            for copy in 0..*copies {
                let (done, lost) = (&done[at], &lost);
                let seed = seed ^ (at * 100 + copy) as u64;
                scope.spawn(move || {
                    // If one of them finds something, all end.
                    let _stop = Stop(&soak.stop);
                    let mut random = Rng::from_seed(seed);
                    let mut connected = soak.client();
                    while soak.goes_on() {
                        match work(soak, &mut connected.client, &mut random) {
                            Ok(()) => drop(done.fetch_add(1, Ordering::SeqCst)),
                            Err(refused) if is_lost_race(&refused) => {
                                let mut all = lost.lock();
                                let lost = all.entry((*name, refused.state)).or_default();
                                lost.count += 1;
                                lost.what = refused.what;
                                drop(all);
                                // Whatever state that left.
                                let _ = connected.client.ask("rollback");
                            }
                            Err(Refused { state, what }) => panic!("{name}: {state}: {what}"),
                        }
                    }
                });
            }
        }
        let clock = Clock::system();
        let start = clock.now();
        while soak.goes_on() && clock.now().since(start) < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(50));
            server.check();
        }
        drop(Stop(&soak.stop));
        watching.join().unwrap()
    });
    let lost = lost.lock();
    for ((name, ..), done) in WORKS.iter().zip(&done) {
        let states = lost.iter().filter(|((of, _), _)| of == name);
        let say = |((_, state), lost): (&(_, String), &Lost)| {
            format!("{} x {state} ({})", lost.count, lost.what)
        };
        let (done, states) = (done.load(Ordering::SeqCst), states.map(say).collect::<Vec<_>>());
        println!("{name}: {done} done, refused {states:?}");
        assert!(done > 0 || !["transfer", "bulk", "visit"].contains(name), "{name} got nowhere");
    }
    peak
}

/// The share of one processor that the idle server uses, once it has come to rest.
fn idle_share(process: u32) -> Vec<f64> {
    let (clock, mut shares) = (Clock::system(), Vec::new());
    for _ in 0..IDLE_WINDOWS {
        let (since, before) = (clock.now(), processor_time(process));
        std::thread::sleep(IDLE_WINDOW);
        let used = processor_time(process).saturating_sub(before);
        shares.push(used.as_secs_f64() / (clock.now() - since).as_secs_f64());
        if shares.iter().rev().take(2).filter(|share| **share < IDLE_SHARE).count() == 2 {
            break;
        }
    }
    shares
}

#[test]
fn everything_at_once_leaves_nothing_behind() {
    let _alone = crate::alone();
    let seconds = setting("RIGHTLINK_SOAK_SECONDS").unwrap_or(4);
    let seed = setting("RIGHTLINK_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) % 1_000_000);
    println!("RIGHTLINK_SEED={seed} RIGHTLINK_SOAK_SECONDS={seconds}");
    let folder = tempfile::tempdir().unwrap();
    let memory = BUDGET.to_string();
    let mut server = Served::start(folder.path(), "true", &["--create", "--memory", &memory]);
    let at_start = private_memory(server.child.id());
    fill(&mut Client::open(folder.path()));
    let soak = Soak {
        folder: folder.path().to_owned(),
        stop: AtomicBool::new(false),
        connections: AtomicU64::new(0),
        next: AtomicU64::new(0),
    };
    let peak = work(&soak, &mut server, seconds, seed);
    server.check();
    let shares = idle_share(server.child.id());
    let at_end = private_memory(server.child.id());
    println!(
        "private memory {} KiB at the start, {} at most with {} connections, {} when all had gone; \
         at most {} KiB beyond what is allowed; idle: {shares:.4?} of a processor",
        at_start >> 10,
        peak.memory >> 10,
        peak.connections,
        at_end >> 10,
        peak.beyond >> 10,
    );
    server.check();
    assert!(server.stop().success(), "{}", server.log.lock());
    let (db, copy) = (folder.path().join("db"), folder.path().join("copy"));
    let again = folder.path().join("again");
    for arguments in [
        &["verify".as_ref(), db.as_os_str(), "--offline".as_ref()][..],
        &["verify".as_ref(), db.as_os_str()],
        &["backup".as_ref(), db.as_os_str(), copy.as_os_str()],
        &["restore".as_ref(), copy.as_os_str(), again.as_os_str()],
    ] {
        let answered = rightlink(arguments);
        let said = [answered.stdout, answered.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(answered.status.success(), "{arguments:?}: {said}");
    }
    assert!(
        shares.last().is_some_and(|share| *share < IDLE_SHARE),
        "the idle server uses {shares:?} of a processor"
    );
    assert!(
        peak.beyond <= 0,
        "{} bytes of private memory are {} more than 1.1 times the budget of {BUDGET}, {FIXED}, \
         and {PER_CONNECTION} for each connection",
        peak.memory,
        peak.beyond
    );
}
