//! An operation in flight: a read or write from its submission to its completion.

use crate::buf::IoBufs;
use crate::completion::Done;
use crate::core::Core;
use crate::error::RawError;
use crate::file::File;
use crate::progress::{Direction, Progress};
use rightlink_env::{Nanos, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
        self.file.inner().run(self.direction, &self.bufs, self.offset)
    }

    /// As [`Op::run`], device time aside.
    pub(crate) fn attempt(&self) -> Result<usize, RawError> {
        self.file.inner().attempt(self.direction, &self.bufs, self.offset)
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
        let result = self.file.inner().name_transfer(self.direction, self.offset, result);
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
