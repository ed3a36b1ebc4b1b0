//! Golden scripts: commands to a database on a simulated disk, each block followed by its output.
//!
//! `scripts/` holds them, `scripts/README.md` their commands. A block is some command lines, a line
//! `---`, and the output up to a blank line. `RIGHTLINK_UPDATE=1` writes the output into the files;
//! read the difference before you keep it.
//!
//! Invariants: time, seeds and the order of threads are fixed, so a script always prints the same.
//! A command of a session runs on a thread of its own; the next command begins when every session
//! has finished or waits for another.
//! Does not do: search for errors. Models, schedules and crash enumerations do that.
//!
//! The form follows `goldenscript`, as toyDB uses it.

mod commands;
mod display;
mod statements;

use std::fs;
use std::path::{Path, PathBuf};

use commands::Runner;

/// Runs the script and returns its text with the output that the commands gave.
fn run(text: &str) -> String {
    let mut runner = Runner::new();
    let (mut out, mut block) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "---" {
            assert!(!block.is_empty(), "output without a command");
            let printed: Vec<String> =
                block.drain(..).flat_map(|command| runner.run(command)).collect();
            let printed = if printed.is_empty() { "ok".to_owned() } else { printed.join("\n") };
            out += &format!("---\n{printed}\n");
            // The old output ends at a blank line.
            if lines.by_ref().any(str::is_empty) {
                out += "\n";
            }
            continue;
        }
        if !line.is_empty() && !line.starts_with('#') {
            block.push(line);
        }
        out += &format!("{line}\n");
    }
    assert!(block.is_empty(), "commands without output: {block:?}");
    out
}

/// Runs the script. What it prints, if that is not in the file.
fn check(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).expect("the script can be read");
    let name = path.display();
    let printed = run(&text);
    if std::env::var("RIGHTLINK_UPDATE").is_ok() && printed != text {
        fs::write(path, &printed).expect("the script can be written");
    }
    let last = printed.lines().rfind(|line| !line.is_empty());
    if !printed.starts_with("# ") || printed.lines().count() >= 60 || last != Some("clean") {
        return Some(format!(
            "{name}: begins with a comment, has under 60 lines, ends with verify"
        ));
    }
    if printed == text || std::env::var("RIGHTLINK_UPDATE").is_ok() {
        return None;
    }
    let both = text.lines().zip(printed.lines());
    let at = both.take_while(|(wanted, found)| wanted == found).count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("the end").to_owned();
    let (script, found) = (line(&text), line(&printed));
    Some(format!("{name}, line {}:\n  script {script}\n  found  {found}", at + 1))
}

/// Runs all scripts of a folder and returns how many there are.
fn check_folder(name: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name);
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    let faults: Vec<String> = paths.iter().filter_map(|path| check(path)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    paths.len()
}

#[test]
fn mvcc() {
    assert!(check_folder("mvcc") >= 4);
}

#[test]
fn btree() {
    assert!(check_folder("btree") >= 4);
}

#[test]
fn vacuum() {
    assert!(check_folder("vacuum") >= 2);
}

#[test]
fn recovery() {
    assert!(check_folder("recovery") >= 3);
}
