//! How far a read or write has come. A transfer that moved part of its bytes, or was interrupted,
//! goes on; the same rules serve the blocking calls and the ring.

use crate::buf::ALIGNMENT;
use crate::error::{IoErrorKind, RawError};

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
