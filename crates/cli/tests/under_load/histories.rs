//! Histories over kills of the real server: what was acknowledged is there afterwards, what was not
//! is there whole or not at all, and the isolation of what goes on after the restart is that of one
//! history.
//!
//! `RIGHTLINK_HISTORY_KILLS` is how often the server is killed (2), `RIGHTLINK_SEED` the seed.
//!
//! Does not do: many histories (`crates/sql/tests/histories.rs`), power cuts.
#![cfg(unix)]

#[path = "../../../sql/tests/histories/check.rs"]
mod check;
#[path = "../../../sql/tests/histories/graph.rs"]
mod graph;
#[path = "../../../sql/tests/histories/record.rs"]
mod record;
#[path = "../../../sql/tests/histories/work.rs"]
mod work;

use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::common::{Served, setting, socket};
use record::{History, Outcome};
use rightlink::Database;
use rightlink_env::Rng;
use rightlink_env::sync::Arc;
use rightlink_env::thread::{sleep, spawn};
use work::{COUNT_OF_REGISTERS, Client, GONE, Habits, Refused, Rows, Shared, TABLES, Worker};

const CLIENTS: u64 = 6;

/// A server on the database in `folder`, killed when it goes out of scope.
fn serve(folder: &Path) -> Served {
    Served::start(folder, "true", &["--memory", "128M"])
}

fn gone() -> Refused {
    Refused { sqlstate: GONE.to_owned(), message: "the server is gone".to_owned() }
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// A connection through the socket.
struct Connection(UnixStream);

impl Connection {
    fn open(folder: &Path) -> Result<Connection, Refused> {
        let path = socket(folder);
        for _ in 0..500 {
            let Ok(mut stream) = UnixStream::connect(&path) else {
                sleep(Duration::from_millis(10));
                continue;
            };
            let mut body = 196_608_u32.to_be_bytes().to_vec();
            body.extend(b"user\0postgres\0database\0postgres\0\0");
            let length = (body.len() as u32 + 4).to_be_bytes();
            stream.write_all(&[&length[..], &body].concat()).map_err(|_| gone())?;
            let mut connection = Connection(stream);
            connection.answers()?;
            return Ok(connection);
        }
        Err(gone())
    }

    /// Rows until the server is ready, or the error that came between.
    fn answers(&mut self) -> Result<Rows, Refused> {
        let (mut rows, mut refused) = (Rows::new(), None);
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).map_err(|_| gone())?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.0.read_exact(&mut body).map_err(|_| gone())?;
            match head[0] {
                b'Z' => return refused.map_or(Ok(rows), Err),
                b'T' => rows.clear(),
                b'D' => rows.push(fields(&body[2..])),
                b'E' => {
                    let field = |code: u8| {
                        let mut parts = body.split(|byte| *byte == 0);
                        let found = parts.find(|part| part.first() == Some(&code));
                        found.map(|part| text(&part[1..])).unwrap_or_default()
                    };
                    refused = Some(Refused { sqlstate: field(b'C'), message: field(b'M') });
                }
                _ => {}
            }
        }
    }
}

fn fields(mut rest: &[u8]) -> Vec<Option<String>> {
    let mut fields = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        let (field, tail) = tail.split_at(length.max(0) as usize);
        fields.push((length >= 0).then(|| text(field)));
        rest = tail;
    }
    fields
}

impl Client for Connection {
    fn run(&mut self, sql: &str) -> Result<Rows, Refused> {
        let length = (sql.len() as u32 + 5).to_be_bytes();
        let message = [b"Q", &length[..], sql.as_bytes(), b"\0"].concat();
        self.0.write_all(&message).map_err(|_| gone())?;
        match self.answers() {
            // A server that ends tells so before it goes.
            Err(refused) if refused.sqlstate == "57P01" => Err(gone()),
            answer => answer,
        }
    }
}

#[test]
fn histories_go_on_over_kills() {
    let _alone = crate::alone();
    let kills = setting("RIGHTLINK_HISTORY_KILLS").unwrap_or(2);
    let seed = setting("RIGHTLINK_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) % 1_000_000);
    println!("{kills} kills, RIGHTLINK_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::from_seed(seed);
    Database::open(folder.path().join("db")).unwrap().close().unwrap();
    let mut server = serve(folder.path());
    let mut first = Connection::open(folder.path()).unwrap();
    first.run(TABLES).unwrap();
    let registers = COUNT_OF_REGISTERS - 1;
    let fill = format!("insert into r select k, 0, null from generate_series(0, {registers}) k");
    first.run(&fill).unwrap();
    let (shared, mut history) = (Shared::new(), History::default());
    let habits = Habits { repeatable: 4, lies: false, durable: true };
    for kill in 0..kills {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (shared, folder) = (Arc::clone(&shared), folder.path().to_owned());
                let seed = (seed + kill) * CLIENTS + client;
                spawn("client", move || match Connection::open(&folder) {
                    Ok(mut connection) => {
                        Worker::new(&mut connection, &shared, seed, habits).work(u64::MAX)
                    }
                    Err(_) => Vec::new(),
                })
            })
            .collect();
        sleep(Duration::from_millis(100 + rng.below(900)));
        drop(server);
        for client in clients {
            history.transactions.extend(client.join().expect("a client does not panic"));
        }
        server = serve(folder.path());
    }
    work::read_last(&mut Connection::open(folder.path()).unwrap(), &mut history).unwrap();
    drop(server);
    let found = check::check(&history);
    assert!(found.is_empty(), "{:#?}", found.iter().take(10).collect::<Vec<_>>());
    let count = |outcome| history.transactions.iter().filter(|it| it.outcome == outcome).count();
    let [committed, unknown] = [Outcome::Committed, Outcome::Unknown].map(count);
    println!(
        "{} transactions, {committed} committed, {unknown} unknown",
        history.transactions.len()
    );
    assert!(committed > 20 * kills as usize, "{committed} transactions committed");
    let db = Database::open(folder.path().join("db")).unwrap();
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}
