//! Statements through sessions: one program, because each one links the whole engine.
//!
//! The tests of all files run beside each other in one process. `../histories.rs` is a program of
//! its own, because `.ci/run` builds it optimised and asks for many transactions.

mod arrays;
mod asked;
mod auto_analyze;
mod blocks;
mod changed_rows;
mod clients;
mod columns;
mod copy;
mod deep;
mod deep_statements;
mod deferred;
mod definitions;
mod documents;
mod explain;
mod expression_indexes;
mod faults;
mod full_disk;
mod functions;
mod gather;
mod generated_columns;
mod interrupts;
mod job_queue;
mod joined_changes;
mod kept_catalog;
mod key_twice;
mod meeting;
mod memory;
mod referred;
mod roles;
mod schemas;
mod session;
mod slt;
mod spill;
mod state;
mod statistics;
mod temporary;
mod two_phase;
mod types;
mod views;
