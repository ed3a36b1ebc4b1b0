//! `rightlink serve` as an operator has it: limits of the system, a file in the socket's place,
//! floods of connections.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

use crate::common::{Served, run};
use rightlink::Database;
use rightlink_env::Clock;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::thread::spawn;

/// SIGXFSZ used to end the process without a word.
#[test]
fn a_limit_of_file_sizes_is_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Served::start(folder.path(), "true", &["--create", "--memory", "8M"]);
    let mut owner = server.owner();
    assert_eq!(owner.ask("create table t (a int primary key, b text)"), ["CREATE TABLE"]);
    let limited = Command::new("prlimit")
        .args(["--pid", &server.child.id().to_string(), "--fsize=4194304:4194304"])
        .status()
        .unwrap();
    assert!(limited.success());
    let mut acknowledged = 0;
    let refused = loop {
        let from = acknowledged;
        let sql = format!(
            "insert into t select g, repeat('x', 2000) from generate_series({}, {}) g",
            from + 1,
            from + 200
        );
        let told = owner.ask(&sql);
        if told != ["INSERT 0 200"] {
            break told;
        }
        acknowledged += 200;
        assert!(acknowledged < 100_000, "the limit is met");
    };
    assert_eq!(refused, ["53100"]);
    assert!(!server.has_ended());
    let count = |told: Vec<String>| told[0].parse::<u64>().unwrap();
    assert_eq!(count(owner.ask("select count(*) from t")), acknowledged);
    assert_eq!(owner.ask("select a from t where a = 1"), ["1", "SELECT 1"]);
    drop(owner);
    server.stop();
    let db = Database::open(folder.path().join("db")).unwrap();
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(report.rows >= acknowledged);
}

/// Whatever has the name of the socket and is none used to be deleted.
#[test]
fn only_a_stale_socket_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.5432");
    fs::write(&path, "precious").unwrap();
    let args = ["serve", "db", "--create", "--socket", ".", "--listen", "127.0.0.1:0"];
    let ran = run(folder.path(), &args);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{}", ran.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    // A server that was killed leaves its socket behind.
    drop(UnixListener::bind(&path).unwrap());
    let mut server = Served::start(folder.path(), "true", &[]);
    assert_eq!(server.owner().ask("select 1"), ["1", "SELECT 1"]);
    // What was put in its place since is not the server's.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(server.stop().success());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

/// 500 connections a second that say nothing used to keep four of ten clients out, also of those
/// who came through the socket, most of them by a reset.
#[test]
fn silence_keeps_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--create", "--max-connections", "150"];
    let server = Served::start(folder.path(), "true", &options);
    let stop: Arc<AtomicBool> = Arc::default();
    let flood = || {
        let (address, stop) = (server.address.clone(), Arc::clone(&stop));
        spawn("flood", move || {
            let mut held = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                held.extend(TcpStream::connect(&address));
                std::thread::sleep(Duration::from_millis(2));
                // The server ends the oldest; more than these would be our own limit.
                if held.len() > 600 {
                    held.drain(..300);
                }
            }
        })
    };
    let floods = [flood(), flood()];
    let (clock, mut turns) = (Clock::system(), 0);
    let start = clock.now();
    while clock.now().since(start) < Duration::from_secs(6) {
        assert_eq!(server.owner().ask("select 1"), ["1", "SELECT 1"]);
        let mut stranger = server.stranger().unwrap_or_else(|code| panic!("refused: {code}"));
        assert_eq!(stranger.ask("select 1"), ["1", "SELECT 1"]);
        turns += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
    println!("{turns} clients of each kind beside the flood");
    assert!(turns > 20, "{turns}");
}

/// Who is one too many hears so, and the owner still gets in.
#[test]
fn places_are_kept_for_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), "true", &["--create", "--max-connections", "3"]);
    let _all: Vec<_> = (0..3).map(|_| server.stranger().unwrap()).collect();
    for _ in 0..50 {
        assert_eq!(server.stranger().err().as_deref(), Some("53300"));
    }
    assert_eq!(server.owner().ask("select 1"), ["1", "SELECT 1"]);
}
