//! The command as its users meet it: scripts, terminals, servers, loads that end early.
//!
//! The tests of all files run beside each other in one process. Tests that keep the machine busy
//! are in `../under_load/`.

#[path = "../common/mod.rs"]
mod common;
mod load_ends;
mod scripts;
mod serve;
mod served_upkeep;
mod terminal;
