//! Commit numbers on their way from memory to the status pages.
//!
//! A commit number needs this way if its slot among the recent outcomes was given up too early: a
//! snapshot still compares the number, or the transaction ran longer than the slots last.
//!
//! Invariants: a number leaves the list of spills only after it is on its page, or when no snapshot
//! can need it.
//! Does not do: decide when to spill (`manager::outcome`).

use rightlink_env::sync::Arc;

use crate::error::Result;
use crate::ids::Csn;
use crate::txn::status::recent::ABORTED;
use crate::txn::status::segment::split_by_page;
use crate::txn::xid::set::XidSet;

/// Commit numbers that are not on their pages yet.
pub(in crate::txn) enum CsnSpill {
    /// Consecutive slots that the recent outcomes gave up.
    Slots {
        /// Xid of the first value.
        first: u64,
        /// The slots; only commit numbers count.
        values: Vec<u64>,
    },
    /// A transaction that outlived its slots.
    Txn {
        /// Its xids.
        xids: Arc<XidSet>,
        /// Xids at or above this one were not used.
        used: u64,
        /// Its commit number.
        csn: u64,
    },
}

impl CsnSpill {
    /// Commit number of `xid`, if it is one of these.
    pub(in crate::txn) fn csn_of(&self, xid: u64) -> Option<Csn> {
        match self {
            CsnSpill::Slots { first, values } => {
                let value = *values.get(usize::try_from(xid.checked_sub(*first)?).ok()?)?;
                (value > ABORTED).then_some(Csn(value))
            }
            CsnSpill::Txn { xids, used, csn } => {
                let run = xids.find(xid).filter(|_| xid < *used)?;
                (!run.is_aborted(xid)).then_some(Csn(*csn))
            }
        }
    }

    /// The xid after the last.
    pub(in crate::txn) fn end(&self) -> u64 {
        match self {
            CsnSpill::Slots { first, values } => first + values.len() as u64,
            CsnSpill::Txn { used, .. } => *used,
        }
    }

    /// Calls `each` with a first xid and the numbers from there on that lie on one page, until all
    /// were passed.
    pub(in crate::txn) fn for_each_page(
        &self,
        mut each: impl FnMut(u64, &[u64]) -> Result<()>,
    ) -> Result<()> {
        match self {
            CsnSpill::Slots { first, values } => {
                split_by_page(*first..self.end()).try_for_each(|part| {
                    let at = (part.start - first) as usize..(part.end - first) as usize;
                    let numbers: Vec<u64> =
                        values[at].iter().map(|v| if *v > ABORTED { *v } else { 0 }).collect();
                    if numbers.iter().all(|number| *number == 0) {
                        return Ok(());
                    }
                    each(part.start, &numbers)
                })
            }
            CsnSpill::Txn { xids, used, csn } => xids.for_each_live(*used, |range| {
                split_by_page(range).try_for_each(|part| {
                    each(part.start, &vec![*csn; (part.end - part.start) as usize])
                })
            }),
        }
    }
}
