//! Upkeep of an open database: opening, background threads, checkpoints, vacuum, closing.
//!
//! | file | what it has |
//! |---|---|
//! | `options` | settings of a database |
//! | `engine` | the parts of an open database (`Engine`), and the state of upkeep |
//! | `open` | creates or recovers a database |
//! | `close` | closes it |
//! | `threads`, `idle` | the background threads, and their waits |
//! | `schedule`, `checkpoint` | when checkpoints are due; their steps |
//! | `admission` | log space for writers, and their help with late checkpoints |
//! | `vacuum`, `vacuum_runs` | vacuum on request and automatic vacuum; runs and their reports |
//! | `backup`, `verify_offline` | copies of an open database; checks of one that is not open |
//! | `device` | the depth of the device |
//! | `prepared`, `prepared_list` | preparing and deciding transactions; their names |
//! | `watch` | the end of work that belongs to no transaction of the caller |
//! | `counters` | counters of checkpoints and vacuums |
//! | `tracing_events` | log messages as events of `tracing` |
//!
//! The methods of `Engine` are in the file of their concern. Work in the background is done in
//! steps, by threads or by callers of `Database::step`.
//!
//! Invariants: no other module of the engine starts a thread that outlives a call.
//! Does not do: statements (`db`).

mod admission;
pub(crate) mod backup;
mod checkpoint;
mod close;
mod counters;
mod device;
mod engine;
mod idle;
pub(crate) mod open;
mod options;
mod prepared;
mod prepared_list;
mod schedule;
pub(crate) mod threads;
#[cfg(feature = "tracing")]
mod tracing_events;
mod vacuum;
mod vacuum_runs;
pub(crate) mod verify_offline;
mod watch;
#[cfg(all(test, feature = "shuttle"))]
mod tests {
    mod schedules;
}

pub(crate) use engine::Engine;
use engine::Upkeep;
pub use options::Options;
pub(crate) use prepared::Decision;
use prepared_list::PreparedTransactions;
pub(crate) use schedule::CheckpointCause;
pub(crate) use vacuum::VacuumRequest;
pub(crate) use vacuum_runs::VacuumMode;
pub use vacuum_runs::{VacuumProgress, VacuumReport};
pub use watch::Watch;
