//! Files and asynchronous I/O: the only place in the workspace that touches the operating system's
//! files. One set of names over four ways of doing it: by the calling thread (`sync`), by worker
//! threads (`worker`), by the kernel (`io_uring`), and on a simulated disk (`sim`) that can lose
//! power, tear writes and fail any call. A modelled device can slow any of them down.
//!
//! Invariants:
//! - Every submitted operation completes exactly once, and no lock of this crate is held then.
//! - Nobody depends on a dedicated thread: whoever waits calls [`Io::reap`] or [`Io::wait_for`].
//! - Short transfers and interruptions are retried here; a read that meets the end of the file
//!   completes with the bytes it got. Errors are returned once and never hidden.
//! - Dropping the last [`Io`] waits for everything in flight.
//!
//! It does not: cache, checksum, order writes, or make errors sticky. Those are the engine's.
//! `unsafe` is confined to `buf.rs` and `owned.rs` (memory lent to operations) and `uring.rs` (the
//! kernel's ring).
#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "names memory that others own while an operation is in flight")]
mod buf;
mod calibrate;
mod completion;
mod core;
mod device;
mod error;
mod file;
mod flight;
mod io;
mod options;
mod overlay;
#[expect(unsafe_code, reason = "lends memory that the operation owns")]
mod owned;
mod progress;
pub mod sim;
mod sys;
mod transfer;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "shares memory with the kernel")]
mod uring;
mod worker;

pub use buf::{ALIGNMENT, AlignedBuf, IoBufs, MAX_SEGMENTS, Segment, prefer_large_pages};
pub use calibrate::{Calibration, DeviceFigures, calibrate, device_figures};
pub use completion::{Completion, Done};
pub use core::IoStats;
pub use error::{IoError, IoErrorKind};
pub use file::File;
pub use io::{Io, LockFile, ReadRequest};
pub use options::{BadOption, DeviceModel, IoOptions, Method, OpenMode};
pub use sim::SimDisk;
