//! Bytes of a page: memory, header, logged writes, checksum.
//!
//! A page is 8 KiB and opens with a 32-byte header:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | checksum over the rest, seeded with file and block (set on the copy that is written) |
//! | 4 | 1 | kind ([`PageKind`]) |
//! | 5 | 1 | format version |
//! | 6 | 2 | flags, owned by the module that owns the kind |
//! | 8 | 8 | LSN: end of the last log record that changed the page |
//! | 16 | 2 | lower: end of the slot array |
//! | 18 | 2 | upper: start of the item area |
//! | 20 | 2 | special: start of that module's trailer |
//! | 22 | 2 | garbage: bytes that compaction would give back |
//! | 24 | 8 | owner word (heap: xid base; index: level, vacuum cycle id, ...) |
//!
//! Invariants: every logged change of a page goes through [`PageMut`], which records it as it is
//! made. Replaying the record with [`delta::apply`] on the same page gives the same bytes, hints
//! aside (R1).
//! Does not do: I/O, locks, slot layouts of heap or index.

pub mod buf;
pub mod checksum;
pub mod delta;
mod delta_encode;
mod finding;
pub mod header;

pub use buf::{PageBuf, PageMut, PageView};
pub use finding::{Checked, Damage, PageFinding};
pub use header::{HEADER_SIZE, PageKind};
