//! Parts of the engine for this project's own benchmarks, fuzz targets and tests.
//!
//! Invariants: nothing here is a promise to users; any release may change it. The product's own
//! crates use of it only what they cannot say through [`Database`](crate::Database): the codec of
//! dates, numbers and intervals.
//!
//! Does not do: hold code. Every item lives in the module that it is taken from.

/// Numbers of files, blocks, pages and rows.
pub mod ids {
    pub use crate::ids::*;
}
/// The codec of values.
pub mod datum {
    pub use crate::datum::*;
}
/// The order-preserving encoding of keys.
pub mod keycode {
    pub use crate::keycode::*;
}
/// Page bytes and their checksum.
pub mod page {
    pub use crate::page::*;
}
/// The write-ahead log.
pub mod wal {
    pub use crate::wal::*;
}
/// The buffer pool.
pub mod buffer {
    pub use crate::buffer::*;
}
/// Access methods.
pub mod index {
    pub use crate::index::*;
}
/// Row encoding and definitions of tables.
pub mod table {
    pub use crate::table::*;
}
/// The codec of stored definitions.
pub mod catalog {
    pub use crate::catalog::*;
}
/// The store of dead row ids.
pub mod vacuum {
    pub use crate::vacuum::DeadRows;
}
