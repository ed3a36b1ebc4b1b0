//! A client of a few lines for tests: it speaks raw messages, so that it can also speak nonsense.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rightlink::Database;
use rightlink_env::thread::{JoinHandle, spawn};
use rightlink_server::{Config, Server, Stopper};

/// A server on a database of its own; dropped, it stops and the database is verified.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) db: Database,
    pub(crate) stopper: Stopper,
    thread: Option<JoinHandle<io::Result<()>>>,
    _dir: Arc<tempfile::TempDir>,
}

pub(crate) fn start() -> Running {
    start_with(Config::default())
}

pub(crate) fn start_with(config: Config) -> Running {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let db = Database::open(dir.path().join("db")).unwrap();
    let config = Config { listen: vec!["127.0.0.1:0".parse().unwrap()], ..config };
    let server = Server::bind(&db, "test", config).unwrap();
    let (address, stopper) = (server.addresses()[0], server.stopper());
    let thread = Some(spawn("server", move || server.run()));
    Running { address, db, stopper, thread, _dir: dir }
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        let mut client = Client::open(self.address);
        client.start(&[("user", "ann"), ("database", "test")]);
        let answers = client.answers();
        assert_eq!(answers.last().unwrap().kind, 'Z', "{answers:?}");
        let key = answers.iter().find(|answer| answer.kind == 'K').unwrap();
        client.key.copy_from_slice(&key.body);
        client
    }

    /// Waits for the end of a server that was stopped.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.join();
        if !std::thread::panicking() {
            let report = self.db.verify().unwrap();
            assert!(report.findings.is_empty(), "{report:?}");
        }
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) kind: char,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, String::from_utf8_lossy(&self.body))
    }
}

impl Answer {
    /// A field of an error.
    pub(crate) fn field(&self, code: u8) -> String {
        let parts = self.body.split(|byte| *byte == 0);
        let found = parts.into_iter().find(|part| part.first() == Some(&code));
        found.map(|part| String::from_utf8_lossy(&part[1..]).into_owned()).unwrap_or_default()
    }

    /// Fields of a row as text, `NULL` for null.
    pub(crate) fn fields(&self) -> Vec<String> {
        let mut rest = &self.body[2..];
        let mut fields = Vec::new();
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            if length < 0 {
                fields.push("NULL".to_owned());
                rest = tail;
            } else {
                let (field, tail) = tail.split_at(length as usize);
                fields.push(String::from_utf8_lossy(field).into_owned());
                rest = tail;
            }
        }
        fields
    }
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    pub(crate) key: [u8; 8],
    address: SocketAddr,
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { socket, key: [0; 8], address }
    }

    pub(crate) fn start(&mut self, options: &[(&str, &str)]) {
        self.start_as(196_608, options);
    }

    /// As [`Client::start`], of another version.
    pub(crate) fn start_as(&mut self, version: u32, options: &[(&str, &str)]) {
        let mut body = version.to_be_bytes().to_vec();
        for (name, value) in options {
            body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        body.push(0);
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.raw(&[&length[..], &body].concat());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        self.raw(&message(kind, body));
    }

    /// The next answer; `None` at the end.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.socket.read_exact(&mut body).ok()?;
        Some(Answer { kind: head[0] as char, body })
    }

    /// Answers until the client may ask again, the server waits for rows, or the end.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.answer() {
            let last = matches!(answer.kind, 'Z' | 'G');
            answers.push(answer);
            if last {
                break;
            }
        }
        answers
    }

    pub(crate) fn query(&mut self, sql: &str) -> Vec<Answer> {
        self.send(b'Q', &text(sql));
        self.answers()
    }

    /// Rows as lines, tags, and errors as codes, one after the other.
    pub(crate) fn told(&mut self, sql: &str) -> Vec<String> {
        told(&self.query(sql))
    }

    pub(crate) fn cancel(&self) {
        let mut other = TcpStream::connect(self.address).unwrap();
        let request = [&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &self.key].concat();
        other.write_all(&request).unwrap();
        let _ = other.read(&mut [0]);
    }
}

pub(crate) fn told(answers: &[Answer]) -> Vec<String> {
    let one = |answer: &Answer| match answer.kind {
        'D' => Some(answer.fields().join("|")),
        'C' => Some(String::from_utf8_lossy(&answer.body).trim_end_matches('\0').to_owned()),
        'E' => Some(answer.field(b'C')),
        's' => Some("suspended".to_owned()),
        'I' => Some("empty".to_owned()),
        _ => None,
    };
    answers.iter().filter_map(one).collect()
}

pub(crate) fn kinds(answers: &[Answer]) -> String {
    answers.iter().map(|answer| answer.kind).collect()
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

pub(crate) fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[text(name), text(sql), vec![0, 0]].concat())
}

/// Values as text.
pub(crate) fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    let mut body = [text(portal), text(statement), vec![0, 0]].concat();
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

pub(crate) fn execute(portal: &str, limit: u32) -> Vec<u8> {
    message(b'E', &[text(portal), limit.to_be_bytes().to_vec()].concat())
}

pub(crate) fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', &[vec![kind], text(name)].concat())
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', b"")
}
