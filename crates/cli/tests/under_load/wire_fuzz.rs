//! Nonsense on the wire against the real process: it goes on serving, within bounded memory.
//!
//! Strangers come by TCP and are asked for a password; who comes through the socket is in. Both
//! send sound messages, messages with bytes changed, lengths that lie, and pieces at any place;
//! many at a time in one write; also rows of a COPY in pieces, long lists of columns, and many
//! questions with long answers. `RIGHTLINK_WIRE_SECONDS` (1) says for how long, `RIGHTLINK_SEED`
//! (random, printed) which.
//!
//! A thousand connections that say nothing are held at the end; a healthy client beside them is
//! answered as fast as before.
//!
//! Deep and wide statements are made by a generator: every production that holds itself, alone and
//! in one another, at its limit and past it, in every kind of statement, by both protocols.
#![cfg(target_os = "linux")]

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[path = "../../../sql/tests/api/deep.rs"]
mod deep;

use crate::common::{EXE, Served, connect, setting, socket};
use deep::{CLEAN, PRODUCTIONS, SETUP};
use rightlink_env::thread::spawn;
use rightlink_env::{Clock, Rng};

/// Memory that the server may have had at most, without the pages of its executable.
const MAX_RESIDENT: u64 = 256 << 20;
/// Connections that say nothing.
const SILENT: usize = 1_000;
/// Answers that take no longer are fast enough beside anything.
const NOTICEABLE: Duration = Duration::from_millis(2);

/// Fewer than `most` bytes.
fn noise(random: &mut Rng, most: u64) -> Vec<u8> {
    let mut made = vec![0; random.below(most) as usize];
    random.fill(&mut made);
    made
}

fn pick<'o, T>(random: &mut Rng, of: &'o [T]) -> &'o T {
    random.pick(of).expect("there is something to choose from")
}

/// A server that asks strangers for a password.
struct Server(Served);

impl Server {
    fn start(folder: &Path) -> Server {
        Server::start_under(folder, "true")
    }

    /// As [`Server::start`] by a shell that has run `first`.
    fn start_under(folder: &Path, first: &str) -> Server {
        let mut made = Command::new(EXE)
            .args(["password", "ann"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        made.stdin.take().unwrap().write_all(b"secret\n").unwrap();
        fs::write(folder.join("users"), made.wait_with_output().unwrap().stdout).unwrap();
        // A clone of the repository has the key for all to read, which the server refuses.
        let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/tls");
        for name in ["cert.pem", "key.pem"] {
            fs::copy(tls.join(name), folder.join(name)).unwrap();
        }
        for secret in ["users", "key.pem"] {
            fs::set_permissions(folder.join(secret), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let options =
            ["--create", "--users", "users", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
        Server(Served::start(folder, first, &options))
    }

    fn inside(&self) -> UnixStream {
        connect(&socket(&self.0.folder))
    }

    fn outside(&self) -> TcpStream {
        TcpStream::connect(&self.0.address).unwrap()
    }

    /// A figure of `/proc/PID/status`, in bytes.
    fn memory(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0.child.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Fails if it has ended, logged an error of its own or taken too much memory.
    fn check(&mut self) {
        self.0.check();
        let (now, most) = (self.memory("RssAnon:"), self.peak());
        assert!(most < MAX_RESIDENT, "{most} bytes were resident, {now} are");
    }

    fn peak(&self) -> u64 {
        self.memory("VmHWM:") - self.memory("RssFile:")
    }
}

/// More connections than the limit of open files has room for: the database still gets its own.
#[test]
fn strangers_do_not_use_up_descriptors() {
    const LIMIT: usize = 500;
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start_under(folder.path(), &format!("ulimit -n {LIMIT}"));
    let mut healthy = Healthy::open(&server);
    let silent: Vec<TcpStream> = (0..LIMIT).map(|_| server.outside()).collect();
    // Tables need files of their own.
    for turn in 0..20 {
        let open = fs::read_dir(format!("/proc/{}/fd", server.0.child.id())).unwrap().count();
        assert!(open < LIMIT - 200, "{open} descriptors are open");
        assert_eq!(healthy.ask(&format!("create table t{turn} (a int primary key)")), "CZ");
        assert_eq!(healthy.ask(&format!("insert into t{turn} values (1)")), "CZ");
    }
    let log = server.0.log.lock().clone();
    assert!(log.contains("at most 122 connections at a time"), "{log}");
    drop(silent);
    server.check();
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn startup() -> Vec<u8> {
    let options = text("user").into_iter().chain(text("ann")).chain(text("database"));
    let body: Vec<u8> =
        196_608u32.to_be_bytes().into_iter().chain(options).chain(text("db")).chain([0]).collect();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

const STATEMENTS: [&str; 14] = [
    "select * from t where a = $1",
    "insert into t values ($1, $2) on conflict (a) do update set b = excluded.b returning a",
    "copy t from stdin",
    "copy t to stdout",
    "copy t from stdin (format binary)",
    "begin",
    "rollback",
    "select 1; select 2; selec",
    "select * from generate_series(1, 1000) g order by g desc",
    "update t set b = b || 'x' where a < 3",
    "declare c cursor for select 1; fetch all from c",
    "set statement_timeout = '1s'",
    "select repeat('x', 100000)",
    "",
];

/// One message, mostly sound.
fn one(random: &mut Rng) -> Vec<u8> {
    let sql = *pick(random, &STATEMENTS);
    let name = *pick(random, &["", "s", "p"]);
    let mut made = match random.below(14) {
        0 | 1 => message(b'Q', &text(sql)),
        2 | 3 => message(b'P', &[text(name), text(sql), vec![0, 0]].concat()),
        4 => {
            let values = [0, 2, 0, 0, 0, 1, b'7', 0xFF, 0xFF, 0xFF, 0xFF, 0, 0];
            message(b'B', &[text(name), text(name), vec![0, 0], values.to_vec()].concat())
        }
        5 => message(b'B', &[text(name), text(name), noise(random, 40)].concat()),
        6 => message(b'E', &[text(name), vec![0, 0, 0, random.below(9) as u8]].concat()),
        7 => message(b'D', &[vec![*pick(random, b"SPX")], text(name)].concat()),
        8 => message(b'S', b""),
        9 => message(b'H', b""),
        10 => message(b'd', &noise(random, 200)),
        11 => message(*pick(random, b"cf"), &text("x")),
        12 => message(b'p', &noise(random, 100)),
        _ => message(*pick(random, b"CFXz\0\xFF"), &noise(random, 30)),
    };
    match random.below(12) {
        // Lengths that lie: far too long, negative, too short.
        0 => made[1..5].copy_from_slice(&(random.below(1 << 33) as u32).to_be_bytes()),
        1 => made.truncate(random.below(made.len() as u64 + 1) as usize),
        2 => {
            let at = random.below(made.len() as u64) as usize;
            made[at] = random.below(256) as u8;
        }
        _ => {}
    }
    made
}

/// Messages that belong together, each of them sound.
fn sequence(random: &mut Rng) -> Vec<u8> {
    let describe = |kind| message(b'D', &[kind, 0]);
    match random.below(3) {
        // A COPY whose rows come in pieces.
        0 => {
            let mut made = message(b'Q', &text("copy t from stdin"));
            let rows: String = (0..random.below(200)).map(|at| format!("{at}\tx{at}\n")).collect();
            let mut rest = rows.as_bytes();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
                made.extend(message(b'd', piece));
                rest = after;
            }
            let end = message(*pick(random, b"cccf"), b"");
            [made, end].concat()
        }
        // Questions whose answers are long.
        1 => {
            let wide = format!("select 1{}", ",1".repeat(random.below(1_000) as usize));
            let parse = message(b'P', &[text(""), text(&wide), vec![0, 0]].concat());
            let asked = describe(b'S').repeat(random.below(500) as usize);
            [parse, asked, message(b'S', b"")].concat()
        }
        // More columns than the protocol can count, sometimes.
        _ => {
            let wide = format!("select 1{}", ",1".repeat(random.below(80_000) as usize));
            let parse = message(b'P', &[text(""), text(&wide), vec![0, 0]].concat());
            [parse, describe(b'S'), message(b'S', b""), message(b'Q', &text(&wide))].concat()
        }
    }
}

/// Sends a session's worth of messages in pieces, and reads what comes.
fn bother(random: &mut Rng, stream: &mut (impl Read + Write), begin: bool) {
    let mut bytes = if begin { startup() } else { Vec::new() };
    match random.below(10) {
        0 if begin => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        1 => bytes = noise(random, 64),
        // TLS, a cancel, another protocol.
        2 => bytes = [&8u32.to_be_bytes()[..], &80_877_103u32.to_be_bytes()].concat(),
        3 => bytes = [&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &[7; 8]].concat(),
        _ => {}
    }
    for _ in 0..random.below(30) {
        bytes.extend(one(random));
    }
    if random.below(10) == 0 {
        bytes.extend(sequence(random));
    }
    if random.below(40) == 0 {
        let long = vec![b'x'; random.below(4 << 20) as usize];
        bytes.extend(message(b'Q', &long));
    }
    let mut rest = bytes.as_slice();
    let mut answer = vec![0; 64 << 10];
    while !rest.is_empty() {
        let piece = (1 + random.below(rest.len() as u64)) as usize;
        let piece = if random.below(2) == 0 { rest.len() } else { piece };
        if stream.write_all(&rest[..piece]).is_err() {
            return;
        }
        rest = &rest[piece..];
        if random.below(4) == 0 && matches!(stream.read(&mut answer), Ok(0)) {
            return;
        }
    }
    while matches!(stream.read(&mut answer), Ok(n) if n > 0) {}
}

/// A client that keeps to the protocol.
struct Healthy {
    stream: UnixStream,
    /// Codes of the errors of the last question.
    codes: Vec<String>,
}

impl Healthy {
    fn open(server: &Server) -> Healthy {
        let mut stream = server.inside();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(&startup()).unwrap();
        let mut healthy = Healthy { stream, codes: Vec::new() };
        healthy.answers();
        healthy
    }

    /// Kinds of the answers until the server is ready.
    fn answers(&mut self) -> String {
        let mut kinds = String::new();
        self.codes.clear();
        while !kinds.ends_with('Z') {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).expect("a healthy client is answered");
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.stream.read_exact(&mut body).expect("a healthy client is answered");
            kinds.push(head[0] as char);
            if head[0] == b'E' {
                let fields = body.split(|byte| *byte == 0);
                let code = fields.filter_map(|field| field.strip_prefix(b"C")).next();
                self.codes.push(String::from_utf8_lossy(code.unwrap_or_default()).into_owned());
            }
        }
        kinds
    }

    fn ask(&mut self, sql: &str) -> String {
        self.stream.write_all(&message(b'Q', &text(sql))).unwrap();
        self.answers()
    }

    /// The same by the messages that take parameters; `values` are these, as texts.
    fn ask_extended(&mut self, sql: &str, values: &[String]) -> String {
        let parse = message(b'P', &[text(""), text(sql), vec![0, 0]].concat());
        let mut body = [text(""), text(""), vec![0, 0]].concat();
        body.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
        for value in values {
            body.extend((value.len() as u32).to_be_bytes());
            body.extend(value.as_bytes());
        }
        body.extend([0, 0]);
        let rest = [
            message(b'D', b"S\0"),
            message(b'B', &body),
            message(b'D', b"P\0"),
            message(b'E', &[0, 0, 0, 0, 0]),
            message(b'S', b""),
        ];
        // The answer to a long message may come before the rest of it was sent.
        let (mut stream, bytes) =
            (self.stream.try_clone().unwrap(), [parse, rest.concat()].concat().clone());
        let writer = spawn("writer", move || stream.write_all(&bytes).unwrap());
        let kinds = self.answers();
        writer.join().unwrap();
        kinds
    }

    /// How long 99 of 100 questions take at most.
    fn slowest(&mut self) -> Duration {
        let clock = Clock::system();
        let mut times: Vec<Duration> = (0..2_000)
            .map(|_| {
                let start = clock.now();
                assert_eq!(self.ask("select b from t where a = 1"), "TDCZ");
                clock.now().since(start)
            })
            .collect();
        times.sort();
        times[times.len() * 99 / 100]
    }
}

#[test]
fn nonsense_and_silence_harm_nobody() {
    let seconds = setting("RIGHTLINK_WIRE_SECONDS").unwrap_or(1);
    let seed = setting("RIGHTLINK_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("RIGHTLINK_SEED={seed} RIGHTLINK_WIRE_SECONDS={seconds}");
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let mut healthy = Healthy::open(&server);
    assert_eq!(healthy.ask("create table t (a int primary key, b text)"), "CZ");
    assert_eq!(healthy.ask("insert into t values (1, 'one')"), "CZ");
    assert_eq!(healthy.ask("create table kept (a int primary key)"), "CZ");
    assert_eq!(healthy.ask("insert into kept select g from generate_series(1, 100) g"), "CZ");
    let clock = Clock::system();
    let (mut random, start, mut sessions) = (Rng::from_seed(seed), clock.now(), 0u64);
    while clock.now().since(start) < Duration::from_secs(seconds) {
        let patience = Some(Duration::from_millis(5));
        if random.below(3) == 0 {
            let mut stranger = server.outside();
            stranger.set_read_timeout(patience).unwrap();
            stranger.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            let begin = random.below(4) != 0;
            bother(&mut random, &mut stranger, begin);
        } else {
            let mut insider = server.inside();
            insider.set_read_timeout(patience).unwrap();
            insider.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            bother(&mut random, &mut insider, true);
        }
        sessions += 1;
        if sessions.is_multiple_of(100) {
            assert_eq!(healthy.ask("select count(*) from kept"), "TDCZ");
            server.check();
        }
    }
    let before = (0..3).map(|_| healthy_p99(&server)).min().expect("three rounds");
    let (mut insiders, mut strangers) = (Vec::new(), Vec::new());
    for at in 0..SILENT / 2 {
        let mut stream = server.inside();
        // One half has not even said who it is.
        if at % 2 == 0 {
            stream.write_all(&startup()).unwrap();
        }
        insiders.push(stream);
        strangers.push(server.outside());
    }
    // The best of several rounds: a busy machine may slow any one of them.
    let enough = NOTICEABLE.max(before * 2);
    let mut beside = healthy_p99(&server);
    for _ in 0..5 {
        if beside <= enough {
            break;
        }
        beside = beside.min(healthy_p99(&server));
    }
    server.check();
    assert!(beside <= enough, "{beside:?} beside silent connections, {before:?} without");
    println!(
        "{sessions} sessions of nonsense, {} MiB resident at most; p99 of a healthy client {} us, \
         beside {SILENT} silent connections {} us",
        server.peak() >> 20,
        before.as_micros(),
        beside.as_micros()
    );
}

/// An expression of one production or of two in one another, near to a limit or past it, and the
/// name of the outer one.
fn deep_expression(random: &mut Rng) -> (String, &'static str) {
    let outer = pick(random, PRODUCTIONS);
    let limit = if outer.nests { 50 } else { 5_000 };
    let levels = match random.below(4) {
        0 => random.below(limit),
        1 => limit - random.below(20),
        2 => limit + random.below(20),
        _ => limit * 2 + random.below(limit * 20),
    };
    if random.below(3) > 0 {
        return (outer.expression(levels as usize), outer.name);
    }
    let inner = pick(random, PRODUCTIONS);
    let limit = if inner.nests { 25 } else { 2_500 };
    let inner = inner.expression(random.below(limit) as usize);
    (outer.around(&inner, levels as usize / 2), outer.name)
}

/// However deep a statement is, it ends with a result or an error, and the next one works.
#[test]
fn deep_statements_harm_nobody() {
    let seconds = setting("RIGHTLINK_WIRE_SECONDS").unwrap_or(1);
    let seed = setting("RIGHTLINK_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("RIGHTLINK_SEED={seed} RIGHTLINK_WIRE_SECONDS={seconds}");
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let mut client = Healthy::open(&server);
    assert_eq!(client.ask(SETUP), "CCZ");
    let clock = Clock::system();
    let (mut random, start) = (Rng::from_seed(seed), clock.now());
    let (mut asked, mut answered, mut refused) = (0u64, 0u64, 0u64);
    // A slow machine asks little in a second: it goes on until both ends were seen.
    while clock.now().since(start) < Duration::from_secs(seconds)
        || (asked < 200 && (answered == 0 || refused == 0))
    {
        let (expression, name) = deep_expression(&mut random);
        let sql = pick(&mut random, deep::STATEMENTS).replace('@', &expression);
        let answers = match random.below(2) {
            0 => client.ask(&sql),
            _ => client.ask_extended(&sql, &[]),
        };
        let shown = format!("{name}: {}", &sql[..sql.len().min(300)]);
        assert!(client.codes.iter().all(|code| !code.starts_with("XX")), "{shown}");
        asked += 1;
        answered += u64::from(!answers.contains('E'));
        refused += u64::from(client.codes.iter().any(|code| code == "54001"));
        CLEAN.iter().for_each(|sql| drop(client.ask(sql)));
        assert_eq!(client.ask("select 1"), "TDCZ", "{shown}");
        server.check();
    }
    println!("{asked} deep statements, {answered} with results, {refused} too deep");
    assert!(answered > 0 && refused > 0);
}

/// NOT IN asks its value once for each item, so a chain of it doubles the query that it begins
/// with. Copies once counted a query as one node: 600 MB were taken before there were too many.
#[test]
fn copies_of_queries_are_counted() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let mut client = Healthy::open(&server);
    assert_eq!(client.ask("create table t (v boolean, b boolean)"), "CZ");
    let query = (0..12).fold("v".to_owned(), |inner, _| format!("exists (select {inner})"));
    let chain = query + &" not in (true, b)".repeat(100);
    assert_eq!(client.ask(&format!("select {chain} from t")), "EZ");
    assert_eq!(client.codes, ["54001"]);
    server.check();
}

/// What is wide and not deep is no more than a list.
#[test]
fn wide_statements_are_answered() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let mut client = Healthy::open(&server);
    let made = "create table wide (a int primary key, b int, c text)";
    assert_eq!(client.ask(made), "CZ");
    // As many parameters as a message can have.
    let row = |at: usize| format!("(${}, ${}, ${})", at + 1, at + 2, at + 3);
    let rows: Vec<String> = (0..21_845).map(|at| row(at * 3)).collect();
    let values: Vec<String> = (0..65_535).map(|at| at.to_string()).collect();
    let insert = format!("insert into wide values {}", rows.join(", "));
    assert_eq!(client.ask_extended(&insert, &values), "1tn2nCZ", "{:?}", client.codes);
    let list: Vec<String> = (1..=65_535).map(|at| format!("${at}")).collect();
    let select = format!("select count(*) from wide where a in ({})", list.join(", "));
    assert_eq!(client.ask_extended(&select, &values), "1tT2TDCZ", "{:?}", client.codes);
    // Rows of literals.
    assert_eq!(client.ask("truncate wide"), "CZ");
    let rows: Vec<String> = (0..20_000).map(|at| format!("({at}, {at}, 'row {at}')")).collect();
    let insert = format!("insert into wide values {}", rows.join(", "));
    assert_eq!(client.ask(&insert), "CZ", "{:?}", client.codes);
    let list: Vec<String> = (0..50_000).map(|at| at.to_string()).collect();
    let select = format!("select count(*) from wide where a in ({})", list.join(", "));
    assert_eq!(client.ask(&select), "TDCZ", "{:?}", client.codes);
    server.check();
}

fn healthy_p99(server: &Server) -> Duration {
    let mut healthy = Healthy::open(server);
    // What nonsense did to the row does not matter.
    let there = "insert into t values (1, 'one') on conflict do nothing";
    assert_eq!(healthy.ask(there), "CZ");
    healthy.slowest()
}
