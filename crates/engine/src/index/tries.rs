//! Tells damage from contention if a search or a change fails again and again.
//!
//! An attempt fails under contention because another thread changed something, which moves the end
//! of the log. An attempt that fails while the log stands still was misled by the pages, or waits
//! for a thread that holds them and does not run; after a second of such attempts the index is
//! damaged. After very many attempts under contention the caller gives up with a conflict, and the
//! same work may succeed later.
//!
//! Invariants: contention is reported as damage only if other threads change the index for a second
//! without a log record, which is possible in unlogged tables.
//! Does not do: wait between the first attempts.

use std::time::Duration;

use rightlink_env::thread;

use crate::buffer::BufferPool;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{Lsn, PageId};

/// Attempts in a row without a log record, after which there is a pause before each.
const FIRST_STILL: u32 = 1_000;
/// Pause before each of those.
const PAUSE: Duration = Duration::from_millis(1);
/// Attempts in a row without a log record, after which the index is damaged.
const MOST_STILL: u32 = 2_000;
/// Attempts after which contention is reported.
const MOST: u32 = 100_000;

/// Attempts of one search or change.
#[derive(Default)]
pub(crate) struct Tries {
    all: u32,
    still: u32,
    log: Lsn,
}

impl Tries {
    /// Counts one more failed attempt, in the index whose meta page is `meta`.
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
