//! Tells damage from contention where a search or a change comes to nothing again and again.
//!
//! A try that others overtake fails because of a change that they have made. So a try that fails
//! while the log stands still was led astray by what is on the pages, or waits for somebody who
//! holds them and does not run; after a second of such tries the index is damaged. Tries that fail
//! while others change something are contention, however many there are: the caller gives up with
//! a conflict, after which the same work may succeed.
//!
//! Invariants: contention is reported as damage only if others change the index for a second
//! without a record, as they can where a table is unlogged.
//! Does not do: waiting between the first tries.

use std::time::Duration;

use rightlink_env::thread;

use crate::buffer::BufferPool;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{Lsn, PageId};

/// Tries in a row without a change of anything, after which there is a pause before each.
const FIRST_STILL: u32 = 1_000;
/// Pause before each of those.
const PAUSE: Duration = Duration::from_millis(1);
/// Tries in a row without a change of anything, after which the index is damaged.
const MOST_STILL: u32 = 2_000;
/// Tries after which others are too fast.
const MOST: u32 = 100_000;

/// Tries of one search or change.
#[derive(Default)]
pub(crate) struct Tries {
    all: u32,
    still: u32,
    log: Lsn,
}

impl Tries {
    /// Notes one more that came to nothing, in the index whose meta page is `meta`.
    ///
    /// # Errors
    /// `Corruption`, or a retryable conflict; `what` says of what.
    pub(crate) fn again(&mut self, pool: &BufferPool, meta: PageId, what: &str) -> Result<()> {
        match self.note(pool.wal().end()) {
            Verdict::TryAgain => {
                if self.still > FIRST_STILL {
                    thread::sleep(PAUSE);
                }
                Ok(())
            }
            Verdict::Damaged => Err(Error::corrupt(meta, what)),
            Verdict::Overtaken => {
                let what = format!("{what}, as others change {} too fast", meta.file.path());
                Err(Error::Conflict { kind: ConflictKind::Serialization, what })
            }
        }
    }

    fn note(&mut self, log: Lsn) -> Verdict {
        let moved = std::mem::replace(&mut self.log, log) != log;
        self.still = if moved { 0 } else { self.still + 1 };
        self.all += 1;
        match (self.still >= MOST_STILL, self.all >= MOST) {
            (true, _) => Verdict::Damaged,
            (false, true) => Verdict::Overtaken,
            (false, false) => Verdict::TryAgain,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    TryAgain,
    Damaged,
    Overtaken,
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// A thousand descents that others overtook used to be called damage.
    #[test]
    fn contention_is_not_damage() {
        let mut tries = Tries::default();
        let verdicts: Vec<_> =
            (0..MOST).map(|n| tries.note(Lsn(100 + u64::from(n / 900)))).collect();
        assert_eq!(verdicts.last(), Some(&Verdict::Overtaken));
        assert!(verdicts[..verdicts.len() - 1].iter().all(|of| *of == Verdict::TryAgain));
        let mut tries = Tries::default();
        let verdicts: Vec<_> = (0..=MOST_STILL).map(|_| tries.note(Lsn(100))).collect();
        assert_eq!(verdicts.iter().position(|of| *of == Verdict::Damaged), Some(2_000));
    }
}
