//! Every experiment on a tiny matrix, so that none rots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

const KEYS: [&str; 21] = [
    "experiment",
    "engine",
    "rows",
    "indexes",
    "batch",
    "durable",
    "fits_memory",
    "rows_per_s",
    "last_tenth_rows_per_s",
    "worst_batch_ms",
    "log_bytes_per_row",
    "double_write_bytes_per_row",
    "data_bytes_per_row",
    "size_bytes",
    "peak_rss_bytes",
    "cold_reads_per_s",
    "warm_reads_per_s",
    "open_after_kill_ms",
    "cold_batch_reads_per_s",
    "memory_bytes",
    "limit",
];

fn object(line: &str) -> Map<String, Value> {
    serde_json::from_str(line).expect("an object a line")
}

/// Has the object in `line` these keys and no others?
fn assert_keys(line: &str, keys: &[&str]) {
    let expected: BTreeSet<&str> = keys.iter().copied().collect();
    assert_eq!(object(line).keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
}

/// What stands under `key` of such an object.
fn value(line: &str, key: &str) -> String {
    match &object(line)[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An empty directory: what a killed run left in it is no finding of this run.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("what an earlier run left");
    }
    std::fs::create_dir_all(&dir).expect("a directory for the test");
    dir
}

#[test]
fn load_writes_every_key_and_leaves_nothing_behind() {
    let dir = scratch("load");
    let json = dir.join("cells.json");
    let words = "load --quick --rows 400 --seconds 1 --indexes 0,2 --batch 100 --durable true \
                 --engine rightlink";
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
    command.args(words.split_whitespace()).arg("--dir").arg(&dir).arg("--json").arg(&json);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(&json).expect("it wrote them");
    assert_eq!(lines.lines().count(), 4, "two numbers of indexes, in memory or not");
    for line in lines.lines() {
        assert_keys(line, &KEYS);
        assert!(!line.contains("null"), "{line}");
    }
    let roomy = lines.lines().filter(|line| line.contains(r#""fits_memory":true"#)).count();
    assert!(roomy >= 2, "ample memory is enough:\n{lines}");
    assert!(lines.contains(r#""indexes":2"#));
    std::fs::remove_file(json.with_extension("svg")).expect("it was drawn");
    std::fs::remove_file(&json).expect("it is there");
    assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), 0, "all data is gone");
}

const DESCENT_KEYS: [&str; 30] = [
    "experiment",
    "level",
    "shape",
    "keys",
    "optimisation",
    "levels",
    "head_compares_per_descent",
    "key_compares_per_descent",
    "high_key_compares_per_descent",
    "key_bytes_per_descent",
    "moves_right_per_descent",
    "lookup_ns",
    "lookup_ratio",
    "lookup_ratio_low",
    "lookup_ratio_high",
    "batch",
    "insert_head_compares_per_row",
    "insert_key_compares_per_row",
    "insert_high_key_compares_per_row",
    "insert_separators_per_row",
    "insert_key_bytes_per_row",
    "insert_ns",
    "insert_ratio",
    "insert_ratio_low",
    "insert_ratio_high",
    "writer",
    "writer_pages",
    "insert_rows_per_s",
    "leaf_fill",
    "bytes_per_entry",
];

#[test]
fn descent_writes_every_key() {
    let dir = scratch("descent");
    let json = dir.join("cells.json");
    let each = "descent --quick --level tree,table --keys 3000 \
                --optimisation all,none,separator-first";
    let mut lines = String::new();
    for cells in ["--shape int8,ten-empty --writer false,true", "--shape duplicates"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
        command.args(each.split_whitespace()).args(cells.split_whitespace());
        let output = command.arg("--dir").arg(&dir).arg("--json").arg(&json).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines.push_str(&std::fs::read_to_string(&json).expect("it wrote them"));
    }
    assert_eq!(
        lines.lines().count(),
        2 * 3 * 3 + 3 * 2,
        "shapes on a tree, two of them beside a writer, too, and in a table:\n{lines}"
    );
    for line in lines.lines() {
        assert_keys(line, &DESCENT_KEYS);
        assert!(!line.contains("null"), "{line}");
    }
    let picture = std::fs::read_to_string(json.with_extension("svg")).expect("it drew them");
    assert!(picture.contains("duplicates") && picture.contains("all parts off"), "{picture}");
    std::fs::remove_file(json.with_extension("svg")).expect("it is there");
    std::fs::remove_file(&json).expect("it is there");
    assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), 0, "all data is gone");
}

#[test]
fn an_unknown_knob_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
    let output = command.args(["load", "--wheels", "4"]).output().expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--wheels"));
}

/// The run itself fails when a phase takes more than a twentieth above the budget.
#[test]
fn every_kind_of_work_stays_within_the_memory_budget() {
    let dir = scratch("memory");
    let json = dir.join("cells.json");
    let words = "memory --rows 40000 --budget_mib 32 --indexes 3 --open 20";
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
    command.args(words.split(' ')).arg("--dir").arg(&dir).arg("--json").arg(&json);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(&json).expect("it wrote them");
    assert_eq!(lines.lines().count(), 8, "seven phases and the opening after them");
    std::fs::remove_file(&json).expect("it is there");
    assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), 0, "all data is gone");
}

const HOT_UPDATE_KEYS: [&str; 52] = [
    "experiment",
    "column",
    "unique",
    "mix",
    "threads",
    "logged",
    "hints",
    "idle_scan",
    "old_snapshot",
    "seconds",
    "updates_per_s",
    "slice_min",
    "slice_max",
    "index_pages_before",
    "index_pages_after",
    "index_pages_rebuilt",
    "hot_leaf_live",
    "hot_leaf_dead",
    "heap_pages_after",
    "rows",
    "slice_median",
    "hot_leaf_dead_after",
    "heap_pages_before",
    "hot_leaf_emptiest",
    "fixed_index_growth",
    "rows_updated",
    "indexes",
    "fillfactor",
    "in_turns",
    "tps",
    "update_p50_us",
    "update_p99_us",
    "update_max_us",
    "select_p50_us",
    "select_p99_us",
    "select_max_us",
    "slices_at_s",
    "slices_tps",
    "slices_p99_us",
    "vacuum_from",
    "vacuum_to",
    "scan_from",
    "scan_to",
    "marks_made",
    "marks_evicted",
    "marks_changed",
    "marks_reused",
    "rows_updated_in_heap",
    "heap_only",
    "new_page",
    "partial",
    "unchanged_entries",
];

#[test]
fn hot_update_writes_every_key_and_a_picture() {
    let dir = scratch("hot-update");
    let json = dir.join("cells.json");
    let words = "hot-update --quick --rows 2000 --seconds 2 --unique true,false --mix 50/50 \
                 --hints epoch --idle_scan true --old_snapshot true --vacuum_at 1 --scan_at 1";
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
    command.args(words.split_whitespace()).arg("--dir").arg(&dir).arg("--json").arg(&json);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(&json).expect("it wrote them");
    assert_eq!(lines.lines().count(), 4, "two columns, unique or not");
    for line in lines.lines() {
        assert_keys(line, &HOT_UPDATE_KEYS);
        assert!(!line.contains("null"), "{line}");
    }
    let again = dir.join("again");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
    command.arg("--draw").arg(&json).arg("--to").arg(&again);
    assert!(command.status().expect("it starts").success());
    let [drawn, again_drawn] = [&dir, &again]
        .map(|dir| std::fs::read_to_string(dir.join("cells.epoch.svg")).expect("it was drawn"));
    assert_eq!(drawn.matches("fill-opacity").count(), 4 * 2, "a vacuum and a read of each cell");
    assert_eq!(drawn, again_drawn, "the same lines are the same picture");
    std::fs::remove_dir_all(&again).expect("it is there");
    std::fs::remove_file(&json).expect("it is there");
    std::fs::remove_file(json.with_extension("epoch.svg")).expect("it was drawn");
    assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), 0, "all data is gone");
}

/// Runs an experiment that writes a picture: its lines.
fn run_drawn(name: &str, words: &str) -> String {
    let dir = scratch(name);
    let json = dir.join("cells.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rightlink-bench"));
    command.args(words.split_whitespace()).arg("--dir").arg(&dir).arg("--json").arg(&json);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(&json).expect("it wrote them");
    std::fs::remove_file(&json).expect("it is there");
    for left in std::fs::read_dir(&dir).expect("it is there") {
        let path = left.expect("it is there").path();
        assert!(path.extension().is_some_and(|is| is == "svg"), "{} is left", path.display());
        std::fs::remove_file(path).expect("it was drawn");
    }
    lines
}

const INSERT_PREFETCH_KEYS: [&str; 20] = [
    "experiment",
    "setting",
    "indexes",
    "index",
    "batch",
    "writers",
    "io",
    "method",
    "device",
    "prefetch",
    "turns",
    "ms_per_batch",
    "rows_per_s",
    "reads",
    "bytes_read",
    "device_bytes_read",
    "bytes_written",
    "mean_queue_depth",
    "device_limit_share",
    "rows",
];

#[test]
fn insert_prefetch_writes_every_key() {
    let words = "insert-prefetch --quick --rows 3000 --pairs 1 --indexes 2 --index btree,hash \
                 --setting cold-leaves --batch 100 --writers 1,3 --io direct,buffered";
    let lines = run_drawn("insert-prefetch", words);
    let cells = 2 * 2 * 2;
    assert_eq!(lines.lines().count(), cells * 2, "each with reading ahead and without:\n{lines}");
    for line in lines.lines() {
        assert_keys(line, &INSERT_PREFETCH_KEYS);
        assert!(!line.contains("null"), "{line}");
    }
}

const INDEX_SCAN_KEYS: [&str; 25] = [
    "experiment",
    "rows",
    "fuzz",
    "run",
    "changed",
    "margin",
    "estimate",
    "duplicates",
    "selectivity",
    "fillfactor",
    "method",
    "device",
    "cache",
    "io",
    "direction",
    "kind",
    "prefetch",
    "ms",
    "ratio_to_none",
    "limit_share",
    "joined_limit_share",
    "reads",
    "wasted_reads",
    "device_bytes",
    "mean_distance",
];

#[test]
fn index_scan_writes_every_key() {
    let words = "index-scan --quick --rows 3000 --turns 1 --fuzz 16,-1 --method io_uring \
                 --device native --selectivity 10 --direction forward,backward";
    let lines = run_drawn("index-scan", words);
    assert_eq!(lines.lines().count(), 2 * 2 * 2 * 2 * 3, "three policies of each cell:\n{lines}");
    for line in lines.lines() {
        assert_keys(line, &INDEX_SCAN_KEYS);
        let compares = line.contains(r#""cache":"cold""#) && line.contains(r#""kind":"heap""#);
        assert_eq!(
            line.contains("null"),
            !compares,
            "a share of the limit where it means something"
        );
        let [share, joined] = ["limit_share", "joined_limit_share"].map(|key| value(line, key));
        // Single reads are the limit where rows are scattered, and may take as long as joined ones.
        let scattered = value(line, "fuzz").starts_with('-');
        assert!(scattered || share == joined, "{line}");
    }
}

const LIMIT_SWEEP_KEYS: [&str; 9] =
    ["experiment", "rows", "width", "method", "device", "limit", "prefetch", "ms", "pages_read"];

/// The run itself fails where a limit of one reads a page more.
#[test]
fn limit_sweep_reads_no_page_more() {
    let words = "limit-sweep --quick --rows 3000 --turns 2 --device native --limit 1,64";
    let lines = run_drawn("limit-sweep", words);
    assert_eq!(lines.lines().count(), 2 * 2, "two limits, with and without:\n{lines}");
    lines.lines().for_each(|line| assert_keys(line, &LIMIT_SWEEP_KEYS));
}
