//! The targets, and where each starts from.

pub mod damage;
pub mod definition;
pub mod key;
pub mod operations;
pub mod record;
pub mod row;
pub mod text;

/// A function of bytes that panics when it finds a bug.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target. Expensive and cheap ones alternate, because neighbours run at the same time.
pub const TARGETS: [Target; 8] = [
    Target { name: "record", run: record::target, seeds: record::seeds },
    Target { name: "operations", run: operations::target, seeds: operations::seeds },
    Target { name: "key", run: key::target, seeds: key::seeds },
    Target { name: "page", run: damage::pages, seeds: damage::page_seeds },
    Target { name: "row", run: row::target, seeds: row::seeds },
    Target { name: "log", run: damage::logs, seeds: damage::log_seeds },
    Target { name: "text", run: text::target, seeds: text::seeds },
    Target { name: "definition", run: definition::target, seeds: definition::seeds },
];
