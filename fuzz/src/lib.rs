//! Fuzz targets: functions of bytes that must return whatever the bytes are.
//!
//! A target panics when it finds a bug. Each brings a few inputs to start from; `drive` mutates
//! them from a seed, so that a run can be repeated, on any toolchain and without instrumentation.
//! The same functions can be called from libFuzzer or AFL, which then add guidance by coverage.
//!
//! Invariants: a target keeps nothing between two calls; equal bytes give an equal run.
//! Does not do: minimise what it finds (the mutations stay close to the small seeds).

pub mod driver;
pub mod input;
pub mod mutate;
pub mod targets;

pub use targets::{TARGETS, Target};
