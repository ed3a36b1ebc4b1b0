//! Pages in memory: pool, latch, replacement, write-back, double-write area, read stream.
//!
//! | file | holds |
//! |---|---|
//! | `pool` | public operations and the shared state |
//! | `frame`, `latch`, `pin` | frames and their memory; latches; what callers hold |
//! | `page_table`, `replacement`, `load`, `evict` | finding, bringing in, letting go |
//! | `mtr`, `redo` | logged changes; the same again after a crash |
//! | `write_back`, `double_write`, `data_file` | the way home |
//! | `read_stream`, `window` | every multi-block read: looking ahead; what it has asked for |
//! | `prefetch`, `read_ahead` | how far; starting reads |
//! | `reading`, `advice` | reading without pins; what the processor should fetch ahead |
//!
//! Invariants: WAL before data; R2, R7 and R11 (see the files that cite them); nobody depends on a
//! background thread: whoever waits reaps completions or writes back itself.
//! Does not do: log format (`wal`), page contents beyond the header (`page` and the rooms above).

mod advice;
mod data_file;
mod double_write;
mod evict;
#[cfg(all(test, feature = "shuttle"))]
mod explore;
mod frame;
mod latch;
mod latched;
mod load;
mod mtr;
mod page_table;
mod pin;
mod pool;
mod prefetch;
mod read_ahead;
mod read_stream;
mod reading;
mod redo;
mod replacement;
mod stats;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod window;
mod write_back;

pub use double_write::DoubleWrite;
pub(crate) use double_write::NAME as DOUBLE_WRITE_FILE;
pub use mtr::{Held, Mtr};
pub use pin::{Pin, Shared};
pub use pool::{BufferPool, PoolOptions};
pub use prefetch::Prefetch;
pub use read_stream::{Delivery, ReadStream, Sourced, StreamOptions, StreamStats};
pub use reading::{Peek, Reading};
pub use redo::RedoPage;
pub use stats::PoolStats;
