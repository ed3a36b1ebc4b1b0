//! Commit hints: outcomes of xmin and xmax noted in the version itself.
//!
//! Hints are collected while a page is read under the shared latch. They are set afterwards, if the
//! page is unchanged and its latch is free.
//!
//! Invariants: "committed" is noted only once the commit record is durable (R1). "Aborted" needs
//! nothing, since an xid without a commit record stays aborted.
//! Does not do: log; redo never reads a hint.
//!
//! PostgreSQL: `SetHintBits` in `access/heap/heapam_visibility.c`.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::Pin;
use crate::heap::page::tuple::{
    FLAGS, TupleHeader, XMAX_ABORTED, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED,
};
use crate::ids::Xid;
use crate::page::{PageMut, header};
use crate::txn::{Status, TxnManager};

/// Commit marks to set on a page, collected while it is read.
#[derive(Default)]
pub(in crate::heap) struct CommitHints {
    marks: Vec<(u16, u16)>,
    last: Option<(Xid, Option<Status>)>,
}

impl CommitHints {
    /// Notes the final outcomes of the xids of the version at `offset`.
    pub(in crate::heap) fn note(&mut self, txns: &TxnManager, offset: u16, tuple: &TupleHeader) {
        let mut bits = 0;
        if tuple.xmin != Xid::FROZEN && !tuple.has(XMIN_COMMITTED | XMIN_ABORTED) {
            bits |= self.mark(txns, tuple.xmin, XMIN_COMMITTED, XMIN_ABORTED);
        }
        if tuple.xmax != Xid::NONE && !tuple.has(XMAX_COMMITTED | XMAX_ABORTED) {
            bits |= self.mark(txns, tuple.xmax, XMAX_COMMITTED, XMAX_ABORTED);
        }
        if bits != 0 {
            self.marks.push((offset, bits));
        }
    }

    fn mark(&mut self, txns: &TxnManager, xid: Xid, committed: u16, aborted: u16) -> u16 {
        let status = match self.last {
            Some((last, status)) if last == xid => status,
            _ => final_status(txns, xid),
        };
        self.last = Some((xid, status));
        match status {
            Some(Status::Committed(_)) => committed,
            Some(Status::Aborted) => aborted,
            _ => 0,
        }
    }

    /// Sets the hints if the page still has `version` and its latch is free; else drops them.
    pub(in crate::heap) fn set(self, pin: &Pin, version: u64) {
        if self.marks.is_empty() {
            return;
        }
        pin.hint(Some(version), |page| self.store(page));
    }

    /// Sets the marks on a page that is latched and has not changed since they were noted.
    pub(in crate::heap) fn store(&self, page: &mut PageMut<'_>) {
        for (offset, bits) in &self.marks {
            let at = usize::from(*offset) + FLAGS;
            let flags = header::u16_at(page.bytes(), at) | bits;
            page.write_unlogged(at, &flags.to_le_bytes());
        }
    }
}

/// Status of `xid` if it will never change, whatever crashes (R1).
fn final_status(txns: &TxnManager, xid: Xid) -> Option<Status> {
    match txns.try_status(xid)? {
        Status::InProgress => None,
        Status::Committed(_) if !broken(Broken::CommitHintNotDurable) && !txns.is_durable(xid) => {
            None
        }
        status => Some(status),
    }
}
