//! EXPLAIN as JSON.
//!
//! Invariants: keys come in PostgreSQL's order; costs have two digits behind the point and times
//! three, as there. Does not do: deciding what is told about a node (`tree`).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::tree::{Below, Entry, Told};
use super::{EachTime, Pages, Run};
use crate::error::{Result, SqlError, code};
use crate::plan::node::Estimate;

/// A plan as a document of one statement.
pub(super) fn document(entry: &Entry, run: &Run<'_>) -> Result<String> {
    serde_json::to_string_pretty(&[Statement { entry, run }])
        .map_err(|error| SqlError::new(code::INTERNAL, error.to_string()))
}

struct Statement<'s> {
    entry: &'s Entry,
    run: &'s Run<'s>,
}

impl Serialize for Statement<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("Plan", &Plan { entry: self.entry, of: None, run: self.run })?;
        if self.run.shows_summary() {
            let millis = |time: std::time::Duration| number(time.as_secs_f64() * 1_000.0, 3);
            map.serialize_entry("Planning Time", &millis(self.run.planning)?)?;
            if let Some(execution) = self.run.execution {
                map.serialize_entry::<_, [(); 0]>("Triggers", &[])?;
                map.serialize_entry("Execution Time", &millis(execution)?)?;
            }
        }
        map.end()
    }
}

/// A node and all below.
struct Plan<'p> {
    entry: &'p Entry,
    of: Option<&'p Below>,
    run: &'p Run<'p>,
}

impl Serialize for Plan<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (entry, run) = (self.entry, self.run);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("Node Type", entry.kind)?;
        if let Some(below) = self.of {
            map.serialize_entry("Parent Relationship", below.relationship)?;
            if let Some(title) = &below.title {
                map.serialize_entry("Subplan Name", title)?;
            }
        }
        map.serialize_entry("Parallel Aware", &false)?;
        map.serialize_entry("Async Capable", &false)?;
        for fact in &entry.facts {
            map.serialize_entry(fact.name, &fact.value)?;
        }
        if run.shows_costs() {
            let Estimate { startup, total, rows, width } = entry.estimate;
            map.serialize_entry("Startup Cost", &number::<S::Error>(startup, 2)?)?;
            map.serialize_entry("Total Cost", &number::<S::Error>(total, 2)?)?;
            map.serialize_entry("Plan Rows", &number::<S::Error>(rows, 0)?)?;
            map.serialize_entry("Plan Width", &width)?;
        }
        self.measured(&mut map)?;
        if !entry.below.is_empty() {
            let below = entry.below.iter();
            let below = below.map(|below| Plan { entry: &below.entry, of: Some(below), run });
            let below: Vec<Plan<'_>> = below.collect();
            map.serialize_entry("Plans", &below)?;
        }
        map.end()
    }
}

impl Plan<'_> {
    /// What the node did, with what is told about it between.
    fn measured<M: SerializeMap>(&self, map: &mut M) -> std::result::Result<(), M::Error> {
        let (entry, run) = (self.entry, self.run);
        let figures = run.figures(entry);
        if run.probe.is_some() {
            let figures = figures.clone().unwrap_or_default();
            let EachTime { first_ms, total_ms, rows } = EachTime::of(&figures);
            if run.shows_times() {
                map.serialize_entry("Actual Startup Time", &number::<M::Error>(first_ms, 3)?)?;
                map.serialize_entry("Actual Total Time", &number::<M::Error>(total_ms, 3)?)?;
            }
            map.serialize_entry("Actual Rows", &number::<M::Error>(rows, 0)?)?;
            map.serialize_entry("Actual Loops", &figures.loops)?;
        }
        for detail in &entry.details {
            map.serialize_entry(detail.name, &detail.value)?;
            if run.probe.is_some() && detail.name == "Filter" {
                let removed = figures.as_ref().map_or(0, |figures| figures.removed);
                map.serialize_entry("Rows Removed by Filter", &removed)?;
            }
        }
        if run.probe.is_some() && entry.kind != "Hash" {
            let spilled = figures.as_ref().is_some_and(|figures| figures.spilled);
            map.serialize_entry("Temporary Files", if spilled { "used" } else { "none" })?;
        }
        if !run.options.buffers || run.probe.is_none() {
            return Ok(());
        }
        let Pages { hit, read } = Pages::of(entry, run).unwrap_or(Pages { hit: 0, read: 0 });
        map.serialize_entry("Shared Hit Blocks", &hit)?;
        map.serialize_entry("Shared Read Blocks", &read)?;
        // What hashes rows has no figures of its own.
        let own = figures.filter(|_| entry.kind != "Hash");
        let Some(reads) = own.and_then(|figures| figures.reads) else { return Ok(()) };
        map.serialize_entry("Prefetch Distance", &number::<M::Error>(reads.mean_distance(), 3)?)?;
        map.serialize_entry("Prefetch Reads", &reads.reads)?;
        map.serialize_entry("Prefetch Joined", &reads.joined)?;
        map.serialize_entry("Prefetch Wasted", &reads.wasted)?;
        map.serialize_entry("Prefetch Waits", &reads.waits)
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Told::Text(text) => text.serialize(serializer),
            Told::List(values) => values.serialize(serializer),
            Told::Sets(sets) => sets.serialize(serializer),
        }
    }
}

/// A number with so many digits behind the point.
fn number<E: serde::ser::Error>(
    value: f64,
    digits: usize,
) -> std::result::Result<Box<RawValue>, E> {
    RawValue::from_string(format!("{value:.digits$}")).map_err(E::custom)
}
