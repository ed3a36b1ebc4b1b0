//! What keeps an open database going: opening, background threads, checkpoints, vacuum, closing.
//!
//! | file | what it has |
//! |---|---|
//! | `options`, `device` | settings; how many reads the device serves at once |
//! | `open` | creating and recovering a database |
//! | `engine` | the parts of an open database; steps of checkpoints; closing |
//! | `background`, `idle` | the only threads; how they wait |
//! | `vacuum`, `auto_vacuum` | vacuum that is asked for, and that is not |
//! | `vacuum_report`, `watch` | what vacuum tells, and what ends it |
//! | `offline` | verification of a database that is not open |
//! | `tally`, `traced` | figures; messages as events of `tracing` |
//!
//! Invariants: nothing outside this module starts a thread.
//! Does not do: statements (`db`).

pub(crate) mod background;
pub(crate) mod engine;
pub(crate) mod offline;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod tally;
pub(crate) mod vacuum;
pub(crate) mod vacuum_report;
pub(crate) mod watch;

mod auto_vacuum;
mod device;
mod idle;
#[cfg(feature = "tracing")]
mod traced;
