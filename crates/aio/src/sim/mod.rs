//! A disk in memory that behaves as badly as real ones are allowed to: what was not synced may be
//! lost, torn or kept in any combination when power fails, and every call can be made to fail.
//!
//! The model:
//! - A write, a cut and an extension of a file are pending until that file is synced. A new entry,
//!   a rename and a removal are pending until their directory is synced; syncing a file does not
//!   make its name durable. Pending changes are independent of each other, in one file too.
//! - A write past the end is two changes, the growth and the bytes: either may survive alone.
//! - After a failed sync the changes that it should have made durable stay visible, and no later
//!   sync makes them durable: a crash may still keep or lose them.
//! - Everything is a function of the seed and the calls: one run gives one log hash and one image.
//!
//! Images share their pages, so that a crash state costs what it changes and not what it holds.
//! It does not model: links, permissions, times, or two processes.

mod crash;
mod disk;
mod engine;
mod fault;
mod file;
mod image;
mod pending;
mod record;

pub use crash::{CrashChoice, Tear};
pub use disk::{CrashImage, SimDisk};
pub use fault::{FaultKind, OpKind, Repeat};
pub use pending::{PendingKind, PendingState};
pub use record::Recording;

pub(crate) use engine::SimEngine;
pub(crate) use file::{SimFile, SimLock};
