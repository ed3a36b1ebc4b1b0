//! Experiment `dead-rows`: bytes and nanoseconds of the radix tree, and of vacuum's set of dead row
//! ids on it, beside a roaring treemap, a sorted array and a B-tree set.
//!
//! Key sets are maps with values of 8 bytes for ours, sets for the others; `lookup_ns` is whether a
//! key is there, asked one by one (ours through a cursor, which remembers the leaf of the last
//! key), `value_ns` its value where there is one. `leaf_probe_ns` asks for 400 ascending
//! neighbours at once, as a leaf of an index in heap order does; `leaf_shuffled_ns` for 400 from
//! anywhere, as a leaf of an index with random keys does.
//!
//! At the end the thread's table of fixed and variable nodes is printed beside ours (`thread`).
//!
//! Invariants: all structures of a set are built first, then measured in turn, a fraction of a
//! millisecond each; a figure is the median of these. What our trees say that they take is what the
//! allocator was asked for. Every target is printed with its figure, kept or not.
//! Does not do: deletion, concurrency.

pub(crate) mod picture;
mod sets;
mod structure;
mod thread;

use std::ops::Range;

use rightlink_radix::Shape;

use crate::Failure;
use crate::args::{Args, Size};
use crate::count;
use crate::cpu::Cpu;
use crate::dead_rows::sets::Keys;
use crate::dead_rows::structure::{Probes, Structure};
use crate::knobs::{self, Knob};
use crate::report::{Column, Field, Report, say};
use crate::scratch::Scratch;
use crate::stats::Summary;

pub(crate) const NAME: &str = "dead-rows";
pub(crate) const ABOUT: &str = "the radix tree and the store of dead rows beside other sets";

const SETS: &[&str] = &[
    sets::KEYS[0],
    sets::KEYS[1],
    sets::KEYS[2],
    sets::KEYS[3],
    sets::KEYS[4],
    sets::KEYS[5],
    sets::ROWS[0],
    sets::ROWS[1],
    sets::ROWS[2],
    sets::ROWS[3],
    sets::ROWS[4],
];

/// Two sets fewer, which are like two others.
const QUICK: &[&str] = SETS.split_at(2).1;

pub(crate) const KNOBS: &[Knob] = &[
    Knob { name: "keys", quick: QUICK, default: SETS, all: SETS },
    Knob {
        name: "structure",
        quick: structure::NAMES,
        default: structure::NAMES,
        all: structure::NAMES,
    },
];

/// One structure with one set.
struct Cell {
    keys: String,
    structure: String,
    built: Structure,
    count: usize,
    bytes: usize,
    floor: f64,
    load_ns: f64,
    samples: [Vec<f64>; KINDS],
}

/// Keys of one sample.
const SLICE: usize = 20_000;

/// How many of some probes are there.
type Lookup = fn(&Structure, &Probes, &Range<usize>) -> u64;

/// Of all that is measured the lookups, with ordered and shuffled
/// keys in turn.
const LOOKUPS: [Lookup; 6] = [
    Structure::hits,
    Structure::hits,
    Structure::leaf_hits,
    Structure::leaf_hits,
    Structure::values,
    Structure::values,
];
/// The lookups, and a walk over all keys.
const KINDS: usize = LOOKUPS.len() + 1;

impl Cell {
    fn median(&self, kind: usize) -> f64 {
        Summary::of(self.samples[kind].clone()).median
    }

    fn bytes_per_key(&self) -> f64 {
        self.bytes as f64 / self.count as f64
    }
}

/// Runs the matrix, set by set.
pub(crate) fn run(args: &Args, _: &Scratch, report: &mut Report) -> Result<(), Failure> {
    let cells = knobs::matrix(KNOBS, args.size, &args.knobs);
    let mut wanted: Vec<(String, Vec<String>)> = Vec::new();
    for cell in cells {
        let (keys, structure): (String, String) = (cell.get("keys")?, cell.get("structure")?);
        match wanted.last_mut().filter(|(last, _)| *last == keys) {
            Some((_, structures)) => structures.push(structure),
            None => wanted.push((keys, vec![structure])),
        }
    }
    let (mut verdicts, mut beside) = (Vec::new(), Vec::new());
    for (name, structures) in wanted {
        let cells = measure(&name, &structures, args.size)?;
        for cell in &cells {
            report.cell(&json(cell), &row(cell))?;
        }
        cells.iter().filter_map(notice).for_each(|line| say(&line));
        verdicts.extend(judge(&cells, args.size));
        beside.extend(thread::Beside::of(&cells));
    }
    verdicts.iter().for_each(|line| say(line));
    thread::say_table(&beside);
    Ok(())
}

/// Builds the structures of one set and measures them in turn.
fn measure(name: &str, structures: &[String], size: Size) -> Result<Vec<Cell>, Failure> {
    let keys = Keys::named(name, size)?;
    let cpu = Cpu::new();
    let mut cells = Vec::new();
    for structure in structures {
        let build = || count::bytes_of(|| Structure::build(structure, &keys));
        let (time, (built, bytes)) = cpu.time(build);
        let built = built?;
        assert!(built.says().is_none_or(|says| says == bytes), "memory is known to the byte");
        cells.push(Cell {
            keys: name.to_string(),
            structure: structure.clone(),
            built,
            count: keys.sorted.len(),
            bytes,
            floor: keys.floor / keys.sorted.len() as f64,
            load_ns: time.as_nanos() as f64 / keys.drawn.len().max(keys.sorted.len()) as f64,
            samples: Default::default(),
        });
    }
    let rounds = if size == Size::Quick { 1 } else { 3 };
    for _ in 0..rounds {
        round(&mut cells, &keys, &cpu);
    }
    Ok(cells)
}

/// One round: slice by slice of the probes, every structure in turn. All must find the same. A
/// slice is over before a neighbour of this process is likely to interrupt it.
fn round(cells: &mut [Cell], keys: &Keys, cpu: &Cpu) {
    for (kind, measure) in LOOKUPS.iter().enumerate() {
        let probes = if kind % 2 == 0 { &keys.probes } else { &keys.shuffled };
        let asked: Vec<Probes> = cells.iter().map(|cell| cell.built.probes(keys, probes)).collect();
        for start in (0..probes.len()).step_by(SLICE) {
            let slice = start..probes.len().min(start + SLICE);
            let mut found = None;
            for (cell, asked) in cells.iter_mut().zip(&asked) {
                let (time, hits) = cpu.time(|| measure(&cell.built, asked, &slice));
                assert_eq!(*found.get_or_insert(hits), hits, "{} finds others", cell.structure);
                cell.samples[kind].push(time.as_nanos() as f64 / slice.len() as f64);
            }
        }
    }
    for cell in cells {
        let (time, (n, _)) = cpu.time(|| cell.built.iterate());
        assert_eq!(n as usize, cell.count, "all are visited");
        cell.samples[KINDS - 1].push(time.as_nanos() as f64 / n as f64);
    }
}

/// The nodes of a tree, in the words of the thread's benchmark.
fn notice(cell: &Cell) -> Option<String> {
    let Shape { height, small, ranked, full, leaves } = cell.built.shape()?;
    let (keys, structure, count) = (&cell.keys, &cell.structure, cell.count);
    Some(format!(
        "{keys}, {structure}: num_keys = {count}, height = {height}, small = {small}, \
         ranked = {ranked}, full = {full}; {leaves} are leaves"
    ))
}

fn json(cell: &Cell) -> Vec<Column> {
    // Null where there is no tree.
    let nodes = |of: fn(&Shape) -> usize| {
        cell.built.shape().map_or(Field::Float(f64::NAN), |shape| Field::Int(of(&shape) as u64))
    };
    vec![
        ("experiment", Field::Text(NAME.into())),
        ("keys", Field::Text(cell.keys.clone())),
        ("structure", Field::Text(cell.structure.clone())),
        ("count", Field::Int(cell.count as u64)),
        ("bytes", Field::Int(cell.bytes as u64)),
        ("bytes_per_key", Field::Float(cell.bytes_per_key())),
        ("floor_bytes_per_key", Field::Float(cell.floor)),
        ("load_ns", Field::Float(cell.load_ns)),
        ("lookup_ns", Field::Float(cell.median(0))),
        ("lookup_shuffled_ns", Field::Float(cell.median(1))),
        ("leaf_probe_ns", Field::Float(cell.median(2))),
        ("leaf_shuffled_ns", Field::Float(cell.median(3))),
        ("value_ns", Field::Float(cell.median(4))),
        ("value_shuffled_ns", Field::Float(cell.median(5))),
        ("iterate_ns", Field::Float(cell.median(6))),
        ("height", nodes(|shape| shape.height)),
        ("nodes_small", nodes(|shape| shape.small)),
        ("nodes_ranked", nodes(|shape| shape.ranked)),
        ("nodes_full", nodes(|shape| shape.full)),
        ("leaves", nodes(|shape| shape.leaves)),
    ]
}

fn row(cell: &Cell) -> Vec<Column> {
    let name = |text: &str, width: usize| Field::Text(format!("{text:<width$}"));
    vec![
        ("keys           ", name(&cell.keys, 15)),
        ("structure", name(&cell.structure, 9)),
        ("MB", Field::Float(cell.bytes as f64 / 1e6)),
        ("B/key", Field::Float(cell.bytes_per_key())),
        ("floor", Field::Float(cell.floor)),
        ("load ns", Field::Float(cell.load_ns)),
        ("in order", Field::Float(cell.median(0))),
        ("shuffled", Field::Float(cell.median(1))),
        ("by leaf", Field::Float(cell.median(2))),
        ("leaf shuffled", Field::Float(cell.median(3))),
        ("value", Field::Float(cell.median(4))),
        ("value shuffled", Field::Float(cell.median(5))),
        ("iterate", Field::Float(cell.median(6))),
    ]
}

/// A target, its figure, and whether it is kept.
fn verdict(keys: &str, what: &str, figure: f64, most: f64) -> String {
    let kept = if figure <= most { "kept" } else { "MISSED" };
    format!("{keys}: {what}: {figure:.3}, at most {most}: {kept}")
}

/// What the set promised, with what it gave. The sets of a quick run are smaller, and bytes were
/// promised for the others.
fn judge(cells: &[Cell], size: Size) -> Vec<String> {
    let named = |name: &str| cells.iter().find(|cell| cell.structure == name);
    let Some(ours) = named("ours") else { return Vec::new() };
    let keys = ours.keys.as_str();
    let mut lines = Vec::new();
    let (bytes_per_key, most) = (ours.bytes_per_key(), most_bytes(keys));
    let most = most.filter(|_| size != Size::Quick);
    lines.extend(most.map(|most| verdict(keys, "bytes a key", bytes_per_key, most)));
    if sets::ROWS.contains(&keys) {
        lines.push(verdict(keys, "probe in order, ns", ours.median(0), 8.0));
        lines.push(verdict(keys, "probe by leaf, ns", ours.median(2), 3.0));
    }
    let random = keys.starts_with("0x");
    for (other, times) in [("roaring", 2.5), ("array", 3.0)] {
        let Some(other) = named(other) else { continue };
        let most = if random { 1.0 / times } else { 1.0 };
        for (kind, what) in [(0, "lookup"), (1, "shuffled lookup")] {
            let ratio = ours.median(kind) / other.median(kind);
            lines.push(verdict(keys, &format!("{what} / {}", other.structure), ratio, most));
        }
    }
    if let Some((set, roaring)) = named("set").zip(named("roaring")).filter(|_| !random) {
        // Sets of plain keys both, of which neither reads a value.
        for (kind, what) in [(0, "set's lookup"), (1, "set's shuffled lookup")] {
            let ratio = set.median(kind) / roaring.median(kind);
            lines.push(verdict(keys, &format!("{what} / roaring"), ratio, 1.0));
        }
    }
    if let Some(array) = named("array").filter(|_| random) {
        lines.push(verdict(keys, "batch / array", ours.median(2) / array.median(0), 0.25));
        let shuffled = ours.median(3) / array.median(1);
        lines.push(verdict(keys, "shuffled batch / array", shuffled, 0.25));
    }
    lines
}

/// The most bytes a key that were promised for a set.
fn most_bytes(keys: &str) -> Option<f64> {
    Some(match keys {
        "sequential" => 9.9,
        "half" => 15.3e6 / 999_654.0,
        sets::SEQUENTIAL_BY_8 | sets::HALF_BY_8 => thread::bytes_per_key(keys)?,
        "0x7F07FF00FF" => 230.5e6 / 9_291_812.0,
        "0xFFFF0000003F" => 64.05e6 / 3_807_650.0,
        "1-per-block" => 4.0,
        "30-per-block" => 0.3,
        "1-per-20-blocks" => 6.0,
        _ => return None,
    })
}
