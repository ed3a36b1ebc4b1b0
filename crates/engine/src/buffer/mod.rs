//! The buffer pool: pages in memory, their latches and changes, their way from and to the files.
//!
//! | file | content |
//! |---|---|
//! | `pool`, `core` | operations of callers; the state that the parts share |
//! | `frame`, `latch`, `pin`, `latched` | frames and their memory; latches; what callers hold |
//! | `page_table`, `load`, `replacement`, `evict` | lookup; reading a page; choosing a victim |
//! | `mtr`, `redo` | logged changes; the same changes again after a crash |
//! | `write_back`, `write_plan`, `double_write`, `data_file` | writing pages; files |
//! | `read_stream`, `stream_window` | multi-block reads; the entries that were asked for |
//! | `prefetch`, `read_ahead` | how far a stream looks ahead; starting reads |
//! | `insertions` | how far streams of insertions look ahead that run at the same time |
//! | `reading`, `announce` | reading without pins; announcements of such readers |
//! | `cache_lines` | cache-line prefetch of pages in memory |
//! | `stats`, `own_changes` | counters; changes of a thread, for experiments |
//!
//! Invariants: the log comes before the data (R13); a page is in one frame (R20); no latch is held
//! across I/O (R7). No operation depends on a background thread: a thread that waits for I/O
//! completes it, and a thread that finds no clean frame writes pages.
//! Does not do: the log's format (`wal`); page contents beyond the header (the modules above).
//!
//! `README.md` states protocols, sources and the differences from them.

mod announce;
mod cache_lines;
mod core;
mod data_file;
mod double_write;
mod evict;
#[cfg(feature = "experiments")]
mod experiments;
mod frame;
mod insertions;
mod latch;
mod latched;
mod load;
mod locality;
mod mtr;
#[cfg(feature = "experiments")]
pub(crate) mod own_changes;
mod page_table;
mod pin;
mod planned_reads;
mod pool;
mod prefetch;
mod prefetch_policy;
mod read_ahead;
mod read_stream;
mod reading;
mod redo;
mod replacement;
mod stats;
mod stream_window;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod write_back;
mod write_plan;

pub use double_write::DoubleWrite;
pub(crate) use double_write::NAME as DOUBLE_WRITE_FILE;
pub use insertions::Insertion;
pub use mtr::{LatchedPage, Mtr};
pub use pin::{Pin, SharedPage};
pub use pool::{BufferPool, PoolOptions};
pub use prefetch_policy::Prefetch;
pub use read_stream::{Delivery, ReadStream, Sourced, StreamOptions};
pub use reading::{Peek, Reading};
pub use redo::RedoPage;
pub use stats::{PoolStats, StreamStats};
