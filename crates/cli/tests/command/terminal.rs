//! The command at a terminal: the shell's completion, Ctrl-C, data that was refused and history;
//! the bar of a load; a password.
//!
//! The terminal is nobody's controlling one, so Ctrl-C while a statement runs is sent as a signal.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use rightlink_env::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A busy machine may take its time; nothing here waits so long by itself.
const PATIENCE: Duration = Duration::from_secs(120);
const PROMPT: &str = "rightlink=> ";
/// Opened so, a terminal is not made the controlling one.
const NOCTTY: i32 = 0o400;

/// Somebody who types.
struct Typist {
    shell: Child,
    terminal: OwnedFd,
    /// What was shown and not looked at yet.
    shown: String,
}

impl Typist {
    fn open(folder: &Path) -> Typist {
        Typist::run(folder, &["sql".as_ref(), folder.join("db").as_os_str(), "--create".as_ref()])
    }

    /// Somebody who has typed this command.
    fn run(folder: &Path, words: &[&OsStr]) -> Typist {
        Typist::run_with(folder, words, &[])
    }

    fn run_with(folder: &Path, words: &[&OsStr], variables: &[(&str, &str)]) -> Typist {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = || OpenOptions::new().read(true).write(true).custom_flags(NOCTTY).open(&name);
        let shell = Command::new(env!("CARGO_BIN_EXE_rightlink"))
            .args(words)
            .env("HOME", folder)
            .env("TERM", "xterm")
            .env_remove("XDG_STATE_HOME")
            .env_remove("PAGER")
            .envs(variables.iter().copied())
            .stdin(side().unwrap())
            .stdout(side().unwrap())
            .stderr(side().unwrap())
            .spawn()
            .unwrap();
        Typist { shell, terminal, shown: String::new() }
    }

    fn types(&self, text: &str) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&self.terminal, rest).unwrap()..];
        }
    }

    /// Takes in what is shown within a moment; false if that is nothing.
    fn look(&mut self) -> bool {
        let moment = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        if poll(&mut fds, Some(&moment)).unwrap_or(0) == 0 {
            return false;
        }
        let mut bytes = [0; 4_096];
        // The shell has ended where this fails.
        let count = rustix::io::read(&self.terminal, &mut bytes).unwrap_or(0);
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    /// Waits until `text` is shown, and forgets what was before; `meanwhile` is done now and then.
    fn sees_while(&mut self, text: &str, meanwhile: impl Fn(&Typist)) {
        let clock = Clock::system();
        let start = clock.now();
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return;
            }
            assert!(clock.now().since(start) < PATIENCE, "no {text:?} in {:?}", self.shown);
            if !self.look() {
                meanwhile(self);
            }
        }
    }

    fn sees(&mut self, text: &str) {
        self.sees_while(text, |_| {});
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn lines_are_completed_interrupted_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let mut typist = Typist::open(folder.path());
    typist.sees(PROMPT);
    typist.types("create table zebras (stripes int primary key);\r");
    typist.sees("CREATE TABLE");
    typist.sees(PROMPT);
    typist.types("INSERT INTO zeb\t values (1), (2);\r");
    typist.sees("INSERT 0 2");
    typist.sees(PROMPT);
    // What was begun is forgotten, the shell is not.
    typist.types("no statement (\x03");
    typist.sees(PROMPT);
    typist.types("select max(stripes) + 40 as most from zebras;\r");
    typist.sees("42");
    typist.sees(PROMPT);
    typist.types("select count(*) from generate_series(1, 1000000000000);\r");
    typist.sees_while("57014", |typist| {
        let pid = typist.shell.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    });
    typist.sees(PROMPT);
    // What was pasted after a row that is refused is no statement.
    let pasted = "copy zebras from stdin;\nnone\ndelete from zebras;\n\\.";
    typist.types(&format!("\x1b[200~{pasted}\x1b[201~\r"));
    typist.sees("22P02");
    typist.sees(PROMPT);
    typist.types("select count(*) + 50 as still from zebras;\r");
    typist.sees("52");
    typist.sees(PROMPT);
    // The line before once more.
    typist.types("\x1b[A\r");
    typist.sees("52");
    typist.sees(PROMPT);
    typist.types("\x04");
    assert!(typist.shell.wait().unwrap().success());
    let path = folder.path().join(".rightlink_history");
    let history = fs::read_to_string(&path).unwrap();
    assert!(history.contains("INSERT INTO zebras"), "{history}");
    assert!(history.contains("generate_series"), "{history}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
}

/// A result that is longer than the terminal goes through the pager, and a pager that was left ends
/// nothing.
#[test]
fn long_results_are_paged() {
    let folder = tempfile::tempdir().unwrap();
    let paged = folder.path().join("paged");
    let pager = format!("head -3 > {}; echo left the pager", paged.display());
    let db = folder.path().join("db");
    let words = ["sql".as_ref(), db.as_os_str(), "--create".as_ref()];
    let mut typist = Typist::run_with(folder.path(), &words, &[("PAGER", &pager)]);
    typist.sees(PROMPT);
    typist.types("select g from generate_series(1, 3) g;\r");
    typist.sees("(3 rows)");
    typist.sees(PROMPT);
    typist.types("begin; select g + 0 as many from generate_series(1, 300000) g;\r");
    typist.sees("left the pager");
    // The block goes on.
    typist.sees("rightlink=*> ");
    typist.types("\\pager off\r");
    typist.sees("Pager is off.");
    typist.types("select g + 0 as many from generate_series(1, 40) g;\r");
    typist.sees("(40 rows)");
    typist.types("\\q\r");
    assert!(typist.shell.wait().unwrap().success());
    let lines = fs::read_to_string(&paged).unwrap();
    assert!(lines.contains("BEGIN") || lines.contains("many"), "{lines}");
}

/// How far, how many rows, how fast, how long yet; and when the load has ended the bar is gone.
#[test]
fn a_load_shows_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights.csv");
    let db = folder.path().join("db");
    let words = ["load".as_ref(), db.as_os_str(), "flights".as_ref(), data.as_os_str()];
    let mut typist = Typist::run(folder.path(), &words);
    typist.sees("table flights, inferred columns: ");
    for part in ["\r\x1b[K", "░", " %  ", " rows, ", " rows/s, ", " left"] {
        typist.sees(part);
    }
    typist.sees("\r\x1b[K27,004 rows loaded into flights in ");
    assert!(typist.shell.wait().unwrap().success());
    while typist.look() {}
    assert!(!typist.shown.contains('%'), "{}", typist.shown);
}

#[test]
fn a_password_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut typist = Typist::open(folder.path());
    typist.sees(PROMPT);
    let name = ptsname(&typist.terminal, Vec::new()).unwrap().into_string().unwrap();
    typist.types("\\q\r");
    assert!(typist.shell.wait().unwrap().success());
    let side = || OpenOptions::new().read(true).write(true).custom_flags(NOCTTY).open(&name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink"));
    command.args(["password", "ann"]).stdin(side().unwrap());
    typist.shell = command.stdout(side().unwrap()).stderr(side().unwrap()).spawn().unwrap();
    typist.sees("Password: ");
    typist.types("hunter2\r");
    assert!(typist.shell.wait().unwrap().success());
    while typist.look() {}
    assert!(!typist.shown.contains("hunter2"), "{}", typist.shown);
    typist.sees("ann:SCRAM-SHA-256$");
}
