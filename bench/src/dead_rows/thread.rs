//! The figures of docs/threads/001-dead-row-store.md beside ours: fixed against variable nodes.
//!
//! Bytes are of the same keys with values of 8 bytes. Times are in the thread's unit, milliseconds
//! for all keys, but of another machine and another caller; their ratios compare.
//!
//! Invariants: figures of the thread are as in its message. Does not do: sets of other keys.

use crate::dead_rows::{Cell, sets};
use crate::report::say;

/// The thread's figures for one tree. It gives no load time for sets in random order.
#[derive(Clone, Copy)]
struct Figures {
    bytes: f64,
    load_ms: Option<f64>,
    search_ms: f64,
}

/// A set of the thread in nodes of fixed and of variable sizes.
struct Published {
    set: &'static str,
    keys: f64,
    fixed: Figures,
    variable: Figures,
}

const fn figures(bytes: f64, load_ms: Option<f64>, search_ms: f64) -> Figures {
    Figures { bytes, load_ms, search_ms }
}

const PUBLISHED: [Published; 4] = [
    Published {
        set: sets::SEQUENTIAL_BY_8,
        keys: 1_000_000.0,
        fixed: figures(9_871_216.0, Some(67.0), 212.0),
        variable: figures(9_871_280.0, Some(74.0), 212.0),
    },
    Published {
        set: sets::HALF_BY_8,
        keys: 999_654.0,
        fixed: figures(19_680_848.0, Some(74.0), 201.0),
        variable: figures(16_009_040.0, Some(85.0), 201.0),
    },
    Published {
        set: "0x7F07FF00FF",
        keys: 9_291_812.0,
        fixed: figures(343_001_456.0, None, 1151.0),
        variable: figures(230_504_328.0, None, 1077.0),
    },
    Published {
        set: "0xFFFF0000003F",
        keys: 3_807_650.0,
        fixed: figures(99_911_920.0, None, 632.0),
        variable: figures(64_045_688.0, None, 554.0),
    },
];

/// Bytes of the thread's variable nodes for a key of the set.
pub(super) fn bytes_per_key(set: &str) -> Option<f64> {
    let published = PUBLISHED.iter().find(|published| published.set == set)?;
    Some(published.variable.bytes / published.keys)
}

/// A set of the thread, and what our trees came to with it.
pub(super) struct Beside {
    published: &'static Published,
    keys: f64,
    fixed: Figures,
    variable: Figures,
    /// Bytes of a sorted array, if it was measured.
    array: Option<f64>,
}

impl Beside {
    /// The set of `cells`, if the thread has it and both trees were measured.
    pub(super) fn of(cells: &[Cell]) -> Option<Beside> {
        let named = |name: &str| cells.iter().find(|cell| cell.structure == name);
        let (fixed, variable) = (named("fixed")?, named("ours")?);
        let published = PUBLISHED.iter().find(|published| published.set == variable.keys)?;
        // Sets in key order are searched in key order, others in random order.
        let search = if published.fixed.load_ms.is_some() { 4 } else { 5 };
        let ours = |cell: &Cell| {
            let ms = |ns: f64| ns * cell.count as f64 / 1e6;
            figures(cell.bytes as f64, Some(ms(cell.load_ns)), ms(cell.median(search)))
        };
        Some(Beside {
            published,
            keys: variable.count as f64,
            fixed: ours(fixed),
            variable: ours(variable),
            array: named("array").map(|array| array.bytes as f64),
        })
    }
}

/// Prints each figure of fixed and variable nodes and their ratio, the thread's and ours.
pub(super) fn say_table(sets: &[Beside]) {
    if sets.is_empty() {
        return;
    }
    say("nodes of fixed and variable sizes, their ratio; the thread's figures and ours");
    for set in sets {
        let Beside { published, keys, fixed, variable, array } = set;
        let array = array.map_or(String::new(), |bytes| format!(", array {:.2}", bytes / keys));
        say(&format!("{}: {} keys, ours {keys}{array} bytes a key", published.set, published.keys));
        let lines = [
            ("thread", published.keys, published.fixed, published.variable),
            ("ours", *keys, *fixed, *variable),
        ];
        for (name, keys, fixed, variable) in lines {
            let bytes = compared(fixed.bytes / keys, variable.bytes / keys);
            let load = fixed.load_ms.zip(variable.load_ms);
            let load =
                load.map_or("not told".into(), |(fixed, variable)| compared(fixed, variable));
            let search = compared(fixed.search_ms, variable.search_ms);
            say(&format!("  {name:<6}  bytes a key {bytes}   load ms {load}   search ms {search}"));
        }
    }
}

/// Two figures and the ratio of the second to the first.
fn compared(fixed: f64, variable: f64) -> String {
    format!("{fixed:>8.2} {variable:>8.2} {:>5.2}", variable / fixed)
}
