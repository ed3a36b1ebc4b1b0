//! Runs `testscripts/*.txt`: command lines and what they print, exit codes included.
//!
//! A script has files (`> file NAME` up to `> end`), commands (`$ ...`, run by `sh` in an empty
//! directory of the script's own, `$DATA` being the flights) and after each command what it
//! printed: standard output, then standard error with `! ` before each line, then `[exit N]`
//! unless N is 0. Times, rates and sizes are replaced by words. `RIGHTLINK_UPDATE=1` writes what
//! was printed into the scripts: read the difference before keeping it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{EXE, Scratch};
use rightlink::Database;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sh(dir: &Path, line: &str) -> Output {
    let bin = Path::new(EXE).parent().expect("the command lies in a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is a PATH"));
    Command::new("sh")
        .args(["-c", line])
        .current_dir(dir)
        .env("PATH", path)
        .env("DATA", here().join("../../data/flights.csv"))
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .output()
        .expect("sh can be run")
}

fn run(dir: &Path, line: &str) -> String {
    let output = sh(dir, line);
    let mut text = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        text.push_str(&format!("{}\n", scrub(line)));
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        // Whether the kernel offers a ring is not the command's doing.
        if !line.contains("io_uring is") {
            text.push_str(&format!("! {}\n", scrub(line)));
        }
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => text.push_str(&format!("[exit {code}]\n")),
        None => text.push_str("[killed]\n"),
    }
    text
}

/// Replaces what differs from run to run; where that changes widths, blanks are squeezed.
fn scrub(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut out: Vec<String> = Vec::new();
    let mut squeeze = false;
    let mut position = 0;
    while position < words.len() {
        let unit = words.get(position + 1).copied().unwrap_or("");
        let unit = unit.trim_end_matches([',', '.', ')', ';']);
        let word = words[position].trim_start_matches('(');
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        let name = match unit {
            "µs" | "ms" | "s" | "min" => "TIME",
            "rows/s" => "RATE",
            "B" | "KiB" | "MiB" | "GiB" => "SIZE",
            _ => "",
        };
        if number && !name.is_empty() {
            let bracket = if words[position].starts_with('(') { "(" } else { "" };
            let rest = &words[position + 1][unit.len()..];
            let unit = if name == "RATE" { " rows/s" } else { "" };
            out.push(format!("{bracket}{name}{unit}{rest}"));
            squeeze |= name == "SIZE";
            position += 2;
        } else {
            out.push(words[position].to_owned());
            position += 1;
        }
    }
    let line = out.join(" ");
    if squeeze { line.split_whitespace().collect::<Vec<_>>().join(" ") } else { line }
}

/// Runs a script: the script again, with what was printed this time.
fn replay(text: &str, dir: &Path) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("> file ") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "> end").collect();
            let body: String = body.iter().map(|line| format!("{line}\n")).collect();
            fs::write(dir.join(name), &body).expect("the directory is ours");
            out.push_str(&format!("{line}\n{body}> end\n"));
        } else if let Some(command) = line.strip_prefix("$ ") {
            out.push_str(&format!("{line}\n{}", run(dir, command)));
            // What it printed last time, up to the blank line before the next command or comment.
            let mut blanks = 0;
            while let Some(old) = lines.peek() {
                if ["$ ", "# ", "> "].iter().any(|start| old.starts_with(start)) {
                    break;
                }
                blanks = if old.is_empty() { blanks + 1 } else { 0 };
                lines.next();
            }
            out.push_str(&"\n".repeat(blanks.min(1)));
        } else {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(here().join("tests/testscripts")).expect("the scripts are there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are scripts");
    paths
}

#[test]
fn scripts_print_what_they_say() {
    let update = std::env::var_os("RIGHTLINK_UPDATE").is_some();
    let mut wrong = Vec::new();
    for path in scripts() {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let expected = fs::read_to_string(&path).expect("scripts are text");
        let scratch = Scratch::new(&name);
        let actual = replay(&expected, &scratch.0);
        if update {
            fs::write(&path, actual).expect("scripts can be written");
        } else if actual != expected {
            wrong.push(format!("{name}:\n{}", difference(&expected, &actual)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str], mark: &str| {
        let shown = lines.iter().skip(same).take(12);
        shown.map(|line| format!("{mark} {line}\n")).collect::<String>()
    };
    format!("from line {} on:\n{}{}", same + 1, part(&old, "-"), part(&new, "+"))
}

/// The lines of the blocks of `text` that are fenced and marked so.
fn fenced<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(rest) => inside = !inside && rest == mark,
            None if inside => lines.push(line),
            None => {}
        }
    }
    lines
}

fn readme() -> String {
    fs::read_to_string(here().join("../../README.md")).expect("there is a README")
}

#[test]
fn the_commands_in_the_readme_print_what_it_says() {
    let lines: Vec<String> = fenced(&readme(), "console")
        .iter()
        .map(|line| if line.starts_with("$ ") { (*line).to_owned() } else { scrub(line) })
        .collect();
    assert!(lines.len() > 10, "there are commands");
    let expected = lines.join("\n") + "\n";
    let scratch = Scratch::new("readme");
    let data = here().join("../../data").canonicalize().expect("the data is there");
    std::os::unix::fs::symlink(data, scratch.0.join("data")).expect("the directory is ours");
    let actual = replay(&expected, &scratch.0);
    assert!(actual == expected, "{}", difference(&expected, &actual));
}

#[test]
fn the_example_in_the_readme_is_the_one_that_is_tested() {
    let lib = fs::read_to_string(here().join("../engine/src/lib.rs")).expect("it is there");
    let head: Vec<&str> = lib
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let tested = head.join("\n");
    let tested: Vec<&str> =
        fenced(&tested, "").into_iter().filter(|line| !line.starts_with("# ")).collect();
    assert!(tested.len() > 10, "the crate has an example");
    assert_eq!(fenced(&readme(), "rust"), tested);
}

#[test]
fn the_documented_exit_codes_are_those_of_the_help() {
    let help = sh(here(), "rightlink --help");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let page = here().join("../../docs/operations.md");
    let page = fs::read_to_string(page).expect("it is there").replace('`', "");
    for code in 0..=6 {
        let line = help.lines().find(|line| line.starts_with(&format!("  {code}  ")));
        let meaning = line.expect("it is documented")[5..].to_owned();
        assert!(page.contains(&format!("| {code} | {meaning} |")), "{code}: {meaning}");
    }
}

#[test]
fn every_command_has_a_script() {
    let all: String =
        scripts().iter().map(|path| fs::read_to_string(path).expect("text")).collect();
    let scratch = Scratch::new("commands");
    let help = String::from_utf8(sh(&scratch.0, "rightlink --help").stdout).expect("text");
    let list =
        help.split_once("Commands:\n").expect("a list").1.split_once("\n\n").expect("ends").0;
    let commands: Vec<&str> = list.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    // `serve` does not end by itself; it has tests of its own.
    for command in commands.into_iter().filter(|command| *command != "serve") {
        let typed = format!("rightlink {command} ");
        let mut lines =
            all.lines().filter(|l| l.starts_with("$ ") && l.contains(&typed)).peekable();
        assert!(lines.peek().is_some(), "{command} has no script");
        assert!(lines.any(|line| line.contains("--json")), "{command} is not asked for JSON");
    }
}

/// A table of three rows.
fn small(dir: &Path) {
    fs::write(dir.join("a.csv"), "id,name\n1,x\n2,y\n3,\n").expect("the directory is ours");
    let output = sh(dir, "rightlink load db t a.csv --primary-key id --index t_name=name");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_database_in_use_is_a_conflict() {
    let scratch = Scratch::new("in-use");
    small(&scratch.0);
    let db = Database::open(scratch.0.join("db")).expect("nobody else has it open");
    let output = sh(&scratch.0, "rightlink scan db t");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    drop(db);
    let output = sh(&scratch.0, "rightlink scan db t");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The largest file of pages: a heap or an index.
fn a_file_of_pages(db: &Path) -> PathBuf {
    let entries = fs::read_dir(db.join("data")).expect("pages lie in data/");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths.max_by_key(|path| fs::metadata(path).expect("it is there").len()).expect("files")
}

#[test]
fn damage_is_found_and_has_its_exit_code() {
    let scratch = Scratch::new("damage");
    small(&scratch.0);
    let load = sh(&scratch.0, "rightlink load db big $DATA --primary-key id --json");
    assert!(load.status.success(), "{load:?}");
    let file = a_file_of_pages(&scratch.0.join("db"));
    let mut bytes = fs::read(&file).expect("readable");
    // Below the end of a page in the middle: rows lie there.
    bytes[8192 * 100 - 100] ^= 0x55;
    fs::write(&file, bytes).expect("writable");
    let offline = sh(&scratch.0, "rightlink verify db --offline");
    assert_eq!(offline.status.code(), Some(5), "{file:?}: {offline:?}");
    let online = sh(&scratch.0, "rightlink verify db --json");
    assert_eq!(online.status.code(), Some(5), "{file:?}: {online:?}");
    assert!(String::from_utf8_lossy(&online.stdout).contains("\"block\": 99"), "{online:?}");
    let scan = sh(&scratch.0, "rightlink scan db big --format csv");
    assert_eq!(scan.status.code(), Some(5), "a scan meets it too: {scan:?}");
    let text = String::from_utf8_lossy(&scan.stderr).into_owned();
    assert!(text.starts_with("rightlink: corruption in table big, data/"), "{text}");
    let scan = sh(&scratch.0, "rightlink scan db big --json");
    let text = String::from_utf8_lossy(&scan.stderr).into_owned();
    assert!(text.contains("\"relation\": \"table big\", \"file\": \"data/"), "{text}");
    assert!(text.contains("\"block\": 99"), "{text}");
}

#[test]
fn nothing_is_coloured_where_nobody_looks() {
    let scratch = Scratch::new("colour");
    let output = sh(&scratch.0, "rightlink tour tour.db --data $DATA --seed 3");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("every acknowledged row is there, and no other"), "{text}");
}
