//! Pictures of experiments from their JSON lines: `rightlink-bench --draw FILE.. [--to DIR]`.
//!
//! An experiment with `--json FILE` draws beside that file, a later `--draw` into any directory;
//! both read the lines. `cargo xtask pictures` draws all results that are kept.
//!
//! Invariants: a picture shows nothing but what the JSON lines say, so it can be drawn again.
//! Does not do: charts (each experiment has its own); pictures over several files.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, value_parser};
use serde_json::{Map, Value};

use crate::Failure;
use crate::knobs::Cell;
use crate::report::say;
use crate::svg::Drawing;
use crate::{dead_rows, descent, hot_update, index_scan, insert_prefetch, load, row_order};

/// Draws the cells of one run.
type Draw = fn(&[Cell]) -> Result<Vec<Drawing>, Failure>;

/// The experiments that have pictures.
const PICTURES: &[(&str, Draw)] = &[
    (dead_rows::NAME, dead_rows::picture::draw),
    (descent::NAME, descent::picture::draw),
    (hot_update::NAME, hot_update::picture::draw),
    (index_scan::NAME, index_scan::picture::draw),
    (insert_prefetch::NAME, insert_prefetch::picture::draw),
    (load::NAME, load::picture::draw),
    (row_order::NAME, row_order::picture::draw),
];

/// The flags of the command without an experiment.
pub(crate) fn flags() -> [Arg; 2] {
    let path = || value_parser!(PathBuf);
    [
        Arg::new("draw")
            .long("draw")
            .value_name("FILE")
            .num_args(1..)
            .value_parser(path())
            .help("Draw the pictures of runs again, from the JSON lines that they wrote"),
        Arg::new("to")
            .long("to")
            .value_name("DIR")
            .requires("draw")
            .value_parser(path())
            .default_value("docs/threads")
            .help("Put pictures here, each under the name of its JSON lines"),
    ]
}

/// Draws the files that `matches` name. False: they name none.
pub(crate) fn run(matches: &ArgMatches) -> Result<bool, Failure> {
    let Some(files) = matches.get_many::<PathBuf>("draw") else { return Ok(false) };
    let to: &PathBuf = matches.get_one("to").expect("it has a default");
    std::fs::create_dir_all(to)?;
    for file in files {
        let drawn = draw(file, to).map_err(|error| format!("{}: {error}", file.display()))?;
        match drawn.is_empty() {
            true => say(&format!("{}: this experiment has no picture", file.display())),
            false => drawn.iter().for_each(|path| say(&path.display().to_string())),
        }
    }
    Ok(true)
}

/// Draws the JSON lines of one run into the directory `to`. Returns the files written.
pub(crate) fn draw(json: &Path, to: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = std::fs::read_to_string(json)?;
    let cells = text.lines().map(cell).collect::<Result<Vec<Cell>, Failure>>()?;
    let Some(first) = cells.first() else { return Err("no JSON lines".into()) };
    let experiment: String = first.get("experiment")?;
    if cells.iter().any(|cell| cell.get("experiment") != Ok(experiment.clone())) {
        return Err("lines of several experiments".into());
    }
    let Some((_, draw)) = PICTURES.iter().find(|(name, _)| *name == experiment) else {
        return Ok(Vec::new());
    };
    let stem = to.join(json.file_stem().ok_or("a file has a name")?);
    let mut paths = Vec::new();
    for drawing in draw(&cells)? {
        let path = stem.with_extension(&drawing.ending);
        std::fs::write(&path, drawing.svg)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Knobs and figures of a JSON line.
fn cell(line: &str) -> Result<Cell, Failure> {
    let object: Map<String, Value> = serde_json::from_str(line)?;
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        // What was measured as 2.0 may be a whole number to the picture.
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN).to_string(),
        // JSON has no other word for it.
        Value::Null => f64::NAN.to_string(),
        other => other.to_string(),
    };
    Ok(object.iter().fold(Cell::default(), |cell, (name, value)| cell.with(name, text(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_cell() {
        let cell = cell(r#"{"a":"x","b":2.0,"c":null,"d":true,"e":[1.5,2]}"#).unwrap();
        assert_eq!((cell.get("a"), cell.get("b")), (Ok("x".to_string()), Ok(2i64)));
        assert!(cell.get::<f64>("c").unwrap().is_nan() && cell.get("d") == Ok(true));
        assert_eq!(cell.get("e"), Ok("[1.5,2]".to_string()));
    }

    /// Each picture needs nothing but what the lines of its experiment have.
    #[test]
    fn pictures_are_drawn_from_lines() {
        let knobs = r#""rows":1000,"method":"io_uring","device":"native","io":"direct""#;
        let batch = |prefetch, ms, share| {
            format!(
                r#"{{"experiment":"insert-prefetch","setting":"steady","indexes":5,"batch":100,
                {knobs},"writers":1,"prefetch":"{prefetch}","ms_per_batch":{ms},
                "device_limit_share":{share}}}"#
            )
        };
        let scan = |policy, ms, share| {
            format!(
                r#"{{"experiment":"index-scan",{knobs},"fuzz":-1.0,"duplicates":1,"run":1,
                "changed":0,"estimate":"known",
                "selectivity":10.0,"fillfactor":100,"cache":"cold","direction":"forward",
                "kind":"heap","prefetch":"{policy}","ms":{ms},"ratio_to_none":0.4,
                "limit_share":{share}}}"#
            )
        };
        let drawn = |lines: &[String]| {
            let cells: Vec<Cell> = lines.iter().map(|line| super::cell(line).unwrap()).collect();
            let experiment: String = cells[0].get("experiment").unwrap();
            let (_, draw) = PICTURES.iter().find(|(name, _)| *name == experiment).unwrap();
            draw(&cells).unwrap().into_iter().map(|drawing| drawing.svg).collect::<Vec<_>>()
        };
        let [bars] = &drawn(&[batch("off", "80.0", "0.1"), batch("on", "20.0", "0.4")])[..] else {
            panic!("one picture");
        };
        assert!(bars.contains("into 1000 rows") && bars.contains("80.0 ms"), "{bars}");
        let scans = drawn(&[scan("none", "50.0", "null"), scan("adaptive", "20.0", "0.5")]);
        assert!(scans[0].contains("device's limit") && scans[0].contains("random"), "{}", scans[0]);
        assert!(
            scans[1].contains("0.40") && scans[1].contains("heap forward 10 %"),
            "{}",
            scans[1]
        );
        let order = |by| {
            format!(
                r#"{{"experiment":"row-order","rows":100,"duplicates":1,"run":64,"fuzz":-1.0,
                "by":"{by}","p0":[0.0,0.1],"p25":[0.2,0.3],"p50":[0.5,0.5],"p75":[0.7,0.7],
                "p100":[0.9,1.0]}}"#
            )
        };
        let [orders] = &drawn(&[order("place"), order("key")])[..] else { panic!("one picture") };
        assert!(orders.contains("places in the heap by key"), "{orders}");
        assert_eq!(orders.matches("random, runs of 64").count(), 2, "{orders}");
        let descent = |part, ratio| {
            format!(
                r#"{{"experiment":"descent","shape":"uuid","writer":true,"optimisation":"{part}",
                "lookup_ratio":{ratio},"lookup_ratio_low":1.0,"lookup_ratio_high":1.5,
                "insert_ratio":{ratio},"insert_ratio_low":1.1,"insert_ratio_high":9.0}}"#
            )
        };
        let [ratios] = &drawn(&[descent("all", "1.0"), descent("none", "1.25")])[..] else {
            panic!("one picture");
        };
        let rows = ratios.matches("<circle").count();
        assert!(rows == 2 && ratios.contains("uuid, beside a writer"), "{ratios}");
        assert!(ratios.contains("all parts off") && ratios.contains("1.25"), "{ratios}");
    }

    #[test]
    fn pictures_lie_under_the_names_of_their_lines() {
        let dir = std::env::temp_dir().join(format!("rl-draw-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let json = dir.join("003-clients.jsonl");
        let line = |policy, vacuum| {
            let line = format!(
                r#"{{"experiment":"hot-update","column":"indexed","unique":true,"mix":"5/95",
                "threads":4,"hints":"{policy}","indexes":3,"fillfactor":100,"idle_scan":false,
                "old_snapshot":false,"slices_at_s":[2.5,7.5],"slices_tps":[100.0,50.0],
                {vacuum},"scan_from":null,"scan_to":null}}"#
            );
            line.replace('\n', "") + "\n"
        };
        let lines = line("off", r#""vacuum_from":null,"vacuum_to":null"#)
            + &line("epoch", r#""vacuum_from":1.0,"vacuum_to":10.0"#);
        std::fs::write(&json, lines).unwrap();
        let paths = ["epoch", "off"].map(|policy| dir.join(format!("003-clients.{policy}.svg")));
        assert_eq!(draw(&json, &dir).unwrap(), paths, "one for each policy");
        let [epoch, off] = paths.map(|path| std::fs::read_to_string(path).unwrap());
        assert!(epoch.contains("indexed true 5/95 4 epoch 3 100 false false"), "{epoch}");
        assert!(epoch.contains("10 s") && off.contains("10 s"), "one scale of time: {off}");
        assert!(epoch.contains("fill-opacity") && !off.contains("fill-opacity"), "{epoch}");
        std::fs::write(&json, "{\"experiment\":\"methods\"}\n").unwrap();
        assert!(draw(&json, &dir).unwrap().is_empty(), "it has no picture");
        std::fs::write(&json, "").unwrap();
        assert!(draw(&json, &dir).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
