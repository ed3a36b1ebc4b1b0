//! Which calls are made to fail, and how often each kind of fault has happened.

use rightlink_env::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// A call of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// Opening or creating a file.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Cutting or extending a file.
    SetLen,
    /// Allocating space.
    Allocate,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Making a directory.
    CreateDir,
    /// Listing a directory.
    List,
    /// Asking for a file's length, or whether there is one. These are numbered among their own kind
    /// only: nothing changes between one and the next call, so no power cut is of their own.
    Stat,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The device fails: EIO.
    Io,
    /// The device is full: ENOSPC.
    NoSpace,
    /// A signal came in between: EINTR.
    Interrupted,
    /// A read returns about half of what it was asked for.
    ShortRead,
    /// A write takes about half of what it was given.
    ShortWrite,
    /// A write fails (EIO), and about half of it is there.
    TornWrite,
    /// A write reports success and does nothing.
    LostWrite,
    /// A write goes to the neighbouring 8 KiB block and leaves its own as it was.
    MisdirectedWrite,
    /// A read returns one flipped bit; the disk itself is right.
    FlippedRead,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 9] = [
        FaultKind::Io,
        FaultKind::NoSpace,
        FaultKind::Interrupted,
        FaultKind::ShortRead,
        FaultKind::ShortWrite,
        FaultKind::TornWrite,
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::FlippedRead,
    ];

    /// Whether this can happen to a call of kind `op`.
    pub fn fits(self, op: OpKind) -> bool {
        match self {
            // Also that of a call that needs no space: some file systems copy on any change.
            FaultKind::Io | FaultKind::NoSpace | FaultKind::Interrupted => true,
            FaultKind::ShortRead | FaultKind::FlippedRead => op == OpKind::Read,
            FaultKind::ShortWrite
            | FaultKind::TornWrite
            | FaultKind::LostWrite
            | FaultKind::MisdirectedWrite => op == OpKind::Write,
        }
    }

    /// What it is called in the counts.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Io => "EIO",
            FaultKind::NoSpace => "ENOSPC",
            FaultKind::Interrupted => "EINTR",
            FaultKind::ShortRead => "short read",
            FaultKind::ShortWrite => "short write",
            FaultKind::TornWrite => "EIO after half a write",
            FaultKind::LostWrite => "lost write",
            FaultKind::MisdirectedWrite => "misdirected write",
            FaultKind::FlippedRead => "flipped bit in a read",
        }
    }
}

/// How often a planned fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// At the one call.
    Once,
    /// At that call and all later ones.
    Forever,
}

/// A planned fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Calls to let pass: of kind `on`, or of any kind from the first call of the disk.
    pub(crate) after: u64,
    pub(crate) on: Option<OpKind>,
    pub(crate) kind: FaultKind,
    pub(crate) repeat: Repeat,
}

/// The faults of one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    faults: Vec<Fault>,
    calls: BTreeMap<OpKind, u64>,
}

impl Plan {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(crate) fn calls(&self, op: OpKind) -> u64 {
        self.calls.get(&op).copied().unwrap_or(0)
    }

    /// What goes wrong with a call of kind `op`: number `number` of all, if it has one.
    pub(crate) fn next(&mut self, number: Option<u64>, op: OpKind) -> Option<FaultKind> {
        let calls = self.calls.entry(op).or_insert(0);
        let nth_of_kind = *calls;
        *calls += 1;
        let hit = self.faults.iter().position(|fault| {
            let position = match (fault.on, number) {
                (None, Some(number)) => number,
                (Some(on), _) if on == op => nth_of_kind,
                _ => return false,
            };
            let due = match fault.repeat {
                Repeat::Once => position == fault.after,
                Repeat::Forever => position >= fault.after,
            };
            due && fault.kind.fits(op)
        })?;
        Some(self.faults[hit].kind)
    }
}

/// How often each kind of fault has happened, over a disk and all disks made from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCounts {
    counts: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl FaultCounts {
    pub(crate) fn add(&self, name: &'static str) {
        *self.counts.lock().entry(name).or_insert(0) += 1;
    }

    pub(crate) fn all(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().clone()
    }
}
