//! A database that is served can be looked after by the same commands as one that is not: they
//! print the same and end with the same codes, run beside clients, and end when they must.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{EXE, Served, run};
use rightlink_env::Clock;

/// A server on a table of many rows and an index.
fn serving(folder: &Path) -> Served {
    let server = Served::start(folder, "true", &["--create", "--memory", "16M"]);
    let mut owner = server.owner();
    assert_eq!(owner.ask("create table t (a int primary key, b text)"), ["CREATE TABLE"]);
    assert_eq!(owner.ask("create index t_b on t (b)"), ["CREATE INDEX"]);
    let rows = "insert into t select g, repeat('x', 200) || g from generate_series(1, 20000) g";
    assert_eq!(owner.ask(rows), ["INSERT 0 20000"]);
    // Else the server does so by itself, some time later, and makes the table of statistics.
    assert_eq!(owner.ask("analyze"), ["ANALYZE"]);
    server
}

/// Numbers, times and sizes differ from run to run.
fn without_numbers(text: &str) -> String {
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let words = text.split_whitespace().map(|word| {
        let unit = matches!(word, "B" | "KiB" | "MiB" | "GiB" | "ms" | "s" | "µs");
        if unit {
            "UNIT"
        } else if word.starts_with(digits) {
            "N"
        } else {
            // One of something, or several.
            match word {
                "block" => "blocks",
                "page" => "pages",
                "pass" => "passes",
                "version" => "versions",
                "entry" => "entries",
                other => other,
            }
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What these commands print of a served database is what they print of one that nobody serves.
#[test]
fn commands_say_the_same_of_a_served_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serving(folder.path());
    let commands: [&[&str]; 13] = [
        &["checkpoint", "db"],
        &["vacuum", "db", "t"],
        &["vacuum", "db", "--json"],
        &["verify", "db"],
        &["verify", "db", "--json"],
        &["tables", "db"],
        &["describe", "db", "t"],
        &["inspect", "db", "t", "0"],
        &["stat", "db", "--bloat"],
        &["reindex", "db", "t", "t_b"],
        &["vacuum", "db", "nosuch"],
        &["reindex", "db", "t", "nosuch", "--json"],
        &["describe", "db", "nosuch"],
    ];
    let told = |args: &[&str]| {
        let ran = run(folder.path(), args);
        (ran.code, without_numbers(&ran.out), without_numbers(&ran.err))
    };
    let served: Vec<_> = commands.iter().map(|args| told(args)).collect();
    let watched = run(folder.path(), &["stat", "db", "--watch", "1", "--count", "2"]);
    assert_eq!(watched.code, Some(0), "{}", watched.err);
    let stat = run(folder.path(), &["stat", "db"]);
    assert!(stat.out.contains("since the server opened it"), "{}", stat.out);
    assert!(server.stop().success());
    for (args, served) in commands.iter().zip(served) {
        assert_eq!(served, told(args), "{args:?}");
    }
}

/// `backup` used to refuse a database that is served.
#[test]
fn a_backup_is_made_beside_clients() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serving(folder.path());
    let mut owner = server.owner();
    owner.ask("begin; insert into t values (0, 'uncommitted')");
    let ran = run(folder.path(), &["backup", "db", "copy"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains(" pages (") && ran.out.contains(" copied to copy in "), "{}", ran.out);
    let again = run(folder.path(), &["backup", "db", "copy", "--json"]);
    assert_eq!(again.code, Some(4), "{}", again.err);
    assert!(again.err.contains("\"exit_code\": 4"), "{}", again.err);
    assert_eq!(owner.ask("commit"), ["COMMIT"]);
    let restored = run(folder.path(), &["restore", "copy", "again"]);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    let count = |db: &str| run(folder.path(), &["sql", db, "-c", "select count(*) from t"]).out;
    assert!(count("again").contains("20000"), "{}", count("again"));
    assert!(server.stop().success());
    assert!(count("db").contains("20001"));
}

/// The largest file of pages.
fn pages(db: &Path) -> PathBuf {
    let files = fs::read_dir(db.join("data")).unwrap().map(|file| file.unwrap().path());
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn damage_of_a_served_database_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let server = serving(folder.path());
    assert_eq!(run(folder.path(), &["checkpoint", "db"]).code, Some(0));
    // A block in the middle, which the server's little memory does not hold any more.
    let file = pages(&folder.path().join("db"));
    let block = fs::metadata(&file).unwrap().len() / 8192 / 2;
    let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened.write_all_at(&[0xaa; 64], block * 8192 + 4_000).unwrap();
    let mut owner = server.owner();
    owner.ask("create table filler (a int primary key, b text)");
    owner.ask("insert into filler select g, repeat('y', 2000) from generate_series(1, 15000) g");
    let ran = run(folder.path(), &["verify", "db"]);
    assert_eq!(ran.code, Some(5), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(&format!("block {block}): ")), "{}", ran.out);
    assert!(ran.out.contains("DAMAGED: "), "{}", ran.out);
    let json = run(folder.path(), &["verify", "db", "--json"]);
    assert_eq!(json.code, Some(5));
    assert!(json.out.contains("\"clean\": false"), "{}", json.out);
    assert_eq!(owner.ask("select a from t where a = 1"), ["1", "SELECT 1"]);
}

/// A backup that takes long, once it is under way.
fn slow_backup(folder: &Path) -> Child {
    let mut child = Command::new(EXE)
        .args(["backup", "db", "copy", "--rate", "64K"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..1_000 {
        if folder.join("copy/data").exists() {
            return child;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the backup does not begin");
}

fn ended(mut child: Child) -> (Option<i32>, String) {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text)
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serving(folder.path());
    let backup = slow_backup(folder.path());
    signal(&backup, "INT");
    let (code, text) = ended(backup);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("cancelled: by request"), "{text}");
    assert!(text.contains("what is in copy is unfinished and can be removed"), "{text}");
    assert_eq!(run(folder.path(), &["tables", "copy"]).code, Some(1));
    // A client that is killed ends its command, too: the server stops without waiting for it.
    fs::remove_dir_all(folder.path().join("copy")).unwrap();
    let mut backup = slow_backup(folder.path());
    backup.kill().unwrap();
    backup.wait().unwrap();
    let clock = Clock::system();
    let from = clock.now();
    assert!(server.stop().success());
    assert!(clock.now().since(from) < Duration::from_secs(20));
}

/// The server gives a command as long as a statement, and then tells why it ends.
#[test]
fn a_server_that_stops_or_dies_ends_its_commands() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = serving(folder.path());
    // A watch does not keep it.
    let mut watch = Command::new(EXE)
        .args(["stat", "db", "--watch", "1"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("changed"));
    let clock = Clock::system();
    let from = clock.now();
    assert!(server.stop().success());
    assert!(clock.now().since(from) < Duration::from_secs(20));
    lines.for_each(drop);
    let (code, text) = ended(watch);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("cancelled: the server stops"), "{text}");
    // A server that dies leaves its command without an answer, and its socket behind.
    let mut server = Served::start(folder.path(), "true", &["--memory", "16M"]);
    let backup = slow_backup(folder.path());
    server.signal("KILL");
    let (code, text) = ended(backup);
    assert_eq!(code, Some(6), "{text}");
    assert!(text.contains("the server ended before the command did"), "{text}");
    assert!(server.child.wait().unwrap().code().is_none());
    assert_eq!(run(folder.path(), &["verify", "db"]).code, Some(0));
}

/// A process that has the database open and is no server is named as before.
#[test]
fn a_database_that_is_open_elsewhere_and_not_served_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let db = rightlink::Database::open(folder.path().join("db")).unwrap();
    let ran = run(folder.path(), &["verify", "db"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    let holder = format!("(process {})", std::process::id());
    assert!(ran.err.contains("db is open already") && ran.err.contains(&holder), "{}", ran.err);
    db.close().unwrap();
}

/// The socket is for the owner of the database, whatever the modes of files say.
#[test]
fn another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = serving(folder.path());
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let db = folder.path().join("db");
    assert_eq!(fs::metadata(db.join(".s.PGSQL.5432")).unwrap().permissions().mode() & 0o777, 0o600);
    open(folder.path(), 0o777);
    open(&db, 0o777);
    open(&db.join("lock"), 0o666);
    open(&db.join(".s.PGSQL.5432"), 0o777);
    let exe = folder.path().join("rightlink");
    fs::copy(EXE, &exe).unwrap();
    open(&exe, 0o755);
    let as_other = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&exe)
        .args(["verify", "db"])
        .current_dir(folder.path())
        .output();
    let Some(output) = as_other.ok().filter(|_| rustix::process::geteuid().is_root()) else {
        println!("only root can be somebody else");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("the socket is for the user who started the server"), "{text}");
    assert_eq!(server.owner().ask("select 1"), ["1", "SELECT 1"]);
}
