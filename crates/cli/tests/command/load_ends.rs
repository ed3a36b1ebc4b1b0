//! How a load ends when something beside the rows goes wrong: nobody reads its reports, the
//! database cannot be closed, or the rows are larger than the memory. The rows must be there, and
//! the exit code and message must say so.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{EXE, Scratch};
use rightlink::{Database, ScanOptions};

/// A load from standard input into `table` of the database `db` in `dir`, by `sh` so that the
/// signal of a file that grows too large can be ignored.
fn start(dir: &Path, options: &str) -> Child {
    let exe = EXE;
    let line = format!(
        "trap '' XFSZ; exec {exe} load db t - --schema 'id int4, name text' --batch 100 \
         --io-method sync --json {options}"
    );
    Command::new("sh")
        .args(["-c", &line])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh can be run")
}

fn rows(ids: std::ops::Range<u32>) -> String {
    ids.map(|id| format!("{id},name {id}\n")).collect()
}

fn count(dir: &Path) -> usize {
    let db = Database::open(dir.join("db")).expect("it opens");
    let mut work = db.begin();
    work.scan("t", &ScanOptions::all()).expect("the table is there").count()
}

/// `load ... --json | head -1` used to end with code 0 after the batch whose report nobody read.
#[test]
fn a_load_goes_on_when_nobody_reads_its_reports() {
    let scratch = Scratch::new("unheard");
    let mut child = start(&scratch.0, "");
    let mut input = child.stdin.take().expect("it has a pipe");
    let mut reports = BufReader::new(child.stdout.take().expect("it has a pipe"));
    input.write_all(b"id,name\n").expect("it reads");
    input.write_all(rows(0..100).as_bytes()).expect("it reads");
    let mut first = String::new();
    reports.read_line(&mut first).expect("a report");
    assert_eq!(first, "{\"committed_rows\": 100}\n");
    drop(reports);
    input.write_all(rows(100..1050).as_bytes()).expect("it goes on reading");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
    assert_eq!(count(&scratch.0), 1050);
}

/// What goes wrong after the reader has gone still has its own exit code.
#[test]
fn a_load_that_nobody_reads_still_fails_for_bad_data() {
    let scratch = Scratch::new("unheard-bad");
    let mut child = start(&scratch.0, "");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("it has a pipe");
    let text = format!("id,name\n{}x,y\n", rows(0..350));
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(text.contains("\"committed_rows\": 300"), "{text}");
    assert_eq!(count(&scratch.0), 300);
}

/// From now on every write of the process to a file fails.
fn forbid_writes(child: &Child) {
    let done = Command::new("prlimit")
        .args(["--pid", &child.id().to_string(), "--fsize=0:0"])
        .status()
        .expect("prlimit can be run");
    assert!(done.success(), "the limit is set");
}

/// The end of a load of 100 rows whose files cannot be written from the last report on.
fn end_without_disk(dir: &Path, options: &str, reports: bool) -> (Option<i32>, String) {
    let mut child = start(dir, options);
    let mut input = child.stdin.take().expect("it has a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("it has a pipe"));
    input.write_all(format!("id,name\n{}", rows(0..100)).as_bytes()).expect("it reads");
    if reports {
        output.read_line(&mut String::new()).expect("a report");
    } else {
        // A relaxed load tells nothing before its end: wait for the table.
        std::thread::sleep(std::time::Duration::from_millis(1500));
    }
    forbid_writes(&child);
    drop(input);
    output.read_to_string(&mut String::new()).expect("it ends");
    let ended = child.wait_with_output().expect("it ends");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

/// The close after the last batch used to fail without a word about the rows, which are all there:
/// who loads again loads them twice.
#[test]
fn a_close_that_fails_tells_that_everything_is_committed() {
    let scratch = Scratch::new("close");
    let (code, text) = end_without_disk(&scratch.0, "", true);
    assert_eq!(code, Some(6), "{text}");
    let error = text.lines().find(|line| line.starts_with("{\"error\"")).unwrap_or_default();
    let said = "the load is complete: 100 rows are committed and durable";
    assert!(error.contains(said), "{text}");
    assert!(error.ends_with("\"committed_rows\": 100}"), "{text}");
    assert_eq!(count(&scratch.0), 100);
}

/// A relaxed load rests on the checkpoint at its end. If that fails, nothing is promised.
#[test]
fn a_relaxed_load_whose_checkpoint_fails_tells_what_may_be_lost() {
    let scratch = Scratch::new("close-relaxed");
    let (code, text) = end_without_disk(&scratch.0, "--relaxed", false);
    assert_eq!(code, Some(6), "{text}");
    let error = text.lines().find(|line| line.starts_with("{\"error\"")).unwrap_or_default();
    assert!(error.contains("100 rows are committed"), "{text}");
    assert!(error.contains("a crash may lose the newest batches"), "{text}");
}

/// The most memory a process ever had beside its mapped files, in bytes. Pages of the executable
/// come into memory as far as the machine has room for them: they tell nothing of the budget.
fn peak(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("the kernel tells");
        let kib = line.split_whitespace().nth(1).expect("a number").parse::<usize>();
        kib.expect("a number") << 10
    };
    figure("VmHWM:") - figure("RssFile:")
}

/// The committed rows that a report tells.
fn reported(line: &str) -> u32 {
    let number = line.trim().strip_prefix("{\"committed_rows\": ").expect("a report");
    number.trim_end_matches('}').parse().expect("a number")
}

/// Rows of 7 KB through a budget of 8 MiB: the peak and the reports up to the end.
#[expect(clippy::disallowed_methods, reason = "a test of the command has no room of threads")]
fn load_wide(dir: &Path, options: &str) -> (usize, Vec<u32>) {
    const ROWS: u32 = 5000;
    let exe = EXE;
    let line = format!("exec {exe} load db t - --memory 8M --io-method sync --json {options}");
    let mut child = Command::new("sh")
        .args(["-c", &line])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh can be run");
    let mut input = child.stdin.take().expect("it has a pipe");
    let mut reports = BufReader::new(child.stdout.take().expect("it has a pipe")).lines();
    let writer = std::thread::spawn(move || {
        let wide = "w".repeat(7000);
        input.write_all(b"id,name\n").expect("it reads");
        for id in 0..ROWS {
            input.write_all(format!("{id},{wide}\n").as_bytes()).expect("it reads");
        }
        input
    });
    let mut told = Vec::new();
    while told.last().is_none_or(|rows| *rows < ROWS - 200) {
        let line = reports.next().expect("a report").expect("readable");
        told.push(reported(&line));
    }
    let most = peak(&child);
    drop(writer.join().expect("all rows are written"));
    told.extend(reports.map(|line| reported(&line.expect("readable"))));
    assert!(child.wait().expect("it ends").success());
    assert_eq!(told.last(), Some(&ROWS));
    assert_eq!(count(dir), ROWS as usize);
    (most, told)
}

/// The sample of 10,000 rows, and batches of any number of rows, were kept whatever they weighed:
/// these 35 MB took 92 MB and more, with a budget of 8.
#[test]
fn rows_stay_within_the_memory_budget() {
    for options in ["", "--batch 1000000"] {
        let scratch = Scratch::new("wide");
        let (most, told) = load_wide(&scratch.0, options);
        println!("peak {} KiB in {} batches, options {options:?}", most >> 10, told.len());
        assert!(most < 12 << 20, "{most} bytes with a budget of 8 MiB, options {options:?}");
        assert!(told.is_sorted_by(|a, b| a < b), "every report is of one more batch: {told:?}");
        assert!(told.len() > 10, "batches are cut by their bytes: {told:?}");
    }
}

/// A field that is too long was read whole, with all others of the sample.
#[test]
fn a_field_that_is_too_long_is_refused_by_its_place() {
    let scratch = Scratch::new("field");
    let mut child = start(&scratch.0, "");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("it has a pipe");
    // It may stop reading at any byte.
    let _ = input.write_all(format!("id,name\n1,x\n2,{}\n", "y".repeat(10 << 20)).as_bytes());
    drop(input);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    let said = "standard input: line 3, column name: the field is longer than 8192 KiB";
    assert!(text.contains(said), "{text}");
    assert!(text.contains("\"line\": 3, \"column\": \"name\""), "{text}");
}

/// Files are named by bytes; such a name was refused as an argument once.
#[test]
fn a_file_whose_name_is_not_unicode_is_loaded_and_named_in_errors() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("name");
    let file = scratch.0.join(std::ffi::OsStr::from_bytes(b"rows-\xff.csv"));
    let load = || {
        let mut command = Command::new(EXE);
        command.arg("load").arg(scratch.0.join("db")).arg("t").arg(&file);
        command.output().expect("the command can be run")
    };
    fs::write(&file, "id,name\n1,one\n2,two\n").expect("a file can be written");
    let output = load();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(count(&scratch.0), 2);
    fs::write(&file, "id,name\nthree,three\n").expect("a file can be written");
    let output = load();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(message.contains("rows-\u{fffd}.csv: line 2, column id"), "{message}");
    assert_eq!(count(&scratch.0), 2);
}
