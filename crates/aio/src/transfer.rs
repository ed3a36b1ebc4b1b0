//! One read or write from its first attempt to its completion. A transfer that moved part of its
//! bytes, or was interrupted, goes on; the same rules serve the blocking calls and the ring.

use crate::Done;
use crate::buf::{ALIGNMENT, IoBufs};
use crate::core::Core;
use crate::error::{IoError, IoErrorKind, RawError};
use crate::file::{File, FileInner};
use rightlink_env::{Nanos, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often an interrupted call is made again before the interruption is an error.
const MAX_INTERRUPTIONS: u32 = 1000;

/// Makes a call again for as long as it is merely interrupted.
pub(crate) fn retried<T>(mut call: impl FnMut() -> Result<T, RawError>) -> Result<T, RawError> {
    let mut interruptions = 0;
    loop {
        match call() {
            Err(error)
                if error.kind == IoErrorKind::Interrupted && interruptions < MAX_INTERRUPTIONS =>
            {
                interruptions += 1;
            }
            result => return result,
        }
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

/// How far a transfer has come.
#[derive(Debug)]
pub(crate) struct Progress {
    direction: Direction,
    direct: bool,
    total: usize,
    moved: usize,
    interruptions: u32,
}

impl Progress {
    pub(crate) fn new(direction: Direction, direct: bool, total: usize) -> Progress {
        Progress { direction, direct, total, moved: 0, interruptions: 0 }
    }

    /// Bytes moved so far.
    pub(crate) fn moved(&self) -> usize {
        self.moved
    }

    /// Takes the result of one attempt: the end of the transfer, or none if it has to go on.
    #[must_use]
    pub(crate) fn step(
        &mut self,
        result: Result<usize, RawError>,
    ) -> Option<Result<usize, RawError>> {
        match result {
            Ok(0) if self.direction == Direction::Write => {
                Some(Err(RawError::of(IoErrorKind::NoSpace)))
            }
            Ok(0) => Some(Ok(self.moved)),
            Ok(bytes) => self.advance(bytes),
            Err(error) if error.kind == IoErrorKind::Interrupted => self.interrupted(error),
            Err(error) => Some(Err(error)),
        }
    }

    fn advance(&mut self, bytes: usize) -> Option<Result<usize, RawError>> {
        self.moved += bytes;
        assert!(self.moved <= self.total, "no more is moved than was asked for");
        // Direct I/O moves whole blocks except before the end of the file, where going on would be
        // an unaligned read.
        let at_end = self.direct && !bytes.is_multiple_of(ALIGNMENT);
        let at_end = at_end && self.direction == Direction::Read;
        (self.moved == self.total || at_end).then_some(Ok(self.moved))
    }

    fn interrupted(&mut self, error: RawError) -> Option<Result<usize, RawError>> {
        self.interruptions += 1;
        (self.interruptions > MAX_INTERRUPTIONS).then_some(Err(error))
    }
}

/// Carries a transfer out on this thread, in the time that the device takes.
pub(crate) fn run(
    file: &FileInner,
    direction: Direction,
    bufs: &IoBufs,
    offset: u64,
) -> Result<usize, RawError> {
    let due = file.core().due(bufs.total());
    let result = attempt(file, direction, bufs, offset);
    file.core().wait_due(due);
    result
}

/// Carries a transfer out on this thread, device time aside.
pub(crate) fn attempt(
    file: &FileInner,
    direction: Direction,
    bufs: &IoBufs,
    offset: u64,
) -> Result<usize, RawError> {
    let mut progress = Progress::new(direction, file.is_direct(), bufs.total());
    loop {
        let (skip, at) = (progress.moved(), offset + progress.moved() as u64);
        let result = match direction {
            Direction::Read => file.read_once(bufs, skip, at),
            Direction::Write => file.write_once(bufs, skip, at),
        };
        if let Some(end) = progress.step(result) {
            return end;
        }
    }
}

/// An operation in flight.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) file: File,
    pub(crate) direction: Direction,
    pub(crate) offset: u64,
    pub(crate) bufs: IoBufs,
    pub(crate) progress: Progress,
    /// When the modelled device is done with it.
    pub(crate) due: Option<Nanos>,
    done: Done,
}

impl Op {
    pub(crate) fn new(
        file: &File,
        direction: Direction,
        offset: u64,
        bufs: IoBufs,
        done: Done,
    ) -> Op {
        let inner = file.inner();
        inner.assert_aligned(offset, bufs.is_aligned());
        assert!(offset.checked_add(bufs.total() as u64).is_some(), "offsets fit 64 bits");
        let progress = Progress::new(direction, inner.is_direct(), bufs.total());
        Op { file: file.clone(), direction, offset, bufs, progress, due: None, done }
    }

    /// Carries the operation out on this thread.
    pub(crate) fn run(&self) -> Result<usize, RawError> {
        run(self.file.inner(), self.direction, &self.bufs, self.offset)
    }

    /// As [`Op::run`], device time aside.
    pub(crate) fn attempt(&self) -> Result<usize, RawError> {
        attempt(self.file.inner(), self.direction, &self.bufs, self.offset)
    }

    /// Ends the operation: counts it and calls its completion, without any lock held.
    pub(crate) fn finish(self, core: &Core, result: Result<usize, RawError>) {
        core.flight.ended();
        self.deliver(core, result);
    }

    /// As [`Op::finish`], for an operation that was counted as ended already.
    pub(crate) fn deliver(self, core: &Core, result: Result<usize, RawError>) {
        // Counted as delivered even if the target panics twice, else a drop would wait for ever.
        let _delivered = Delivered(core);
        let result = named(self.file.inner(), self.direction, self.offset, result);
        core.stats.count(self.direction, &result);
        let Op { file, bufs, done, .. } = self;
        // B1 of `buf` ends when the completion begins.
        drop(bufs);
        drop(file);
        let Done { target, tag } = done;
        // The target sees to its own state (`Completion::panicked`); nothing else is shared.
        let completed = catch_unwind(AssertUnwindSafe(|| target.complete(tag, result)));
        if let Err(payload) = completed {
            let message = thread::panic_message(payload.as_ref());
            core.logger.error(&format!("the completion of an I/O operation panicked: {message}"));
            target.panicked(tag, &message);
        }
    }
}

struct Delivered<'a>(&'a Core);

impl Drop for Delivered<'_> {
    fn drop(&mut self) {
        self.0.flight.delivered();
    }
}

/// The result with call and file named.
pub(crate) fn named(
    file: &FileInner,
    direction: Direction,
    offset: u64,
    result: Result<usize, RawError>,
) -> Result<usize, IoError> {
    result.map_err(|raw| IoError::from_raw(direction.name(), file.name(), offset, raw))
}
