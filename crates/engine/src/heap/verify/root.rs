//! What an index entry leads to, for the comparison of indexes with the heap.
//!
//! Invariants: rows are copied out under the latch (R11); outcomes are read after it is released
//! (R7).
//! Does not do: compare keys (`verify/` of the engine).

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::chain::walk_chain;
use crate::heap::page::tuple::STUB;
use crate::heap::page::{HeapPage, Slot};
use crate::heap::visibility::{HeapVisibility, XmaxStatus};
use crate::ids::{RowId, Xid};

/// What an index entry leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RootState {
    /// No block of the table.
    Outside,
    /// No row: the line pointer may be used again.
    Unused,
    /// A dead line pointer, kept until no index names it.
    Dead,
    /// A version that no entry should name.
    HeapOnly,
    /// The versions of the row, oldest first.
    Versions(Vec<RootVersion>),
}

/// A version that an index entry leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootVersion {
    /// The row's bytes.
    pub bytes: Vec<u8>,
    /// The xid that created it.
    pub xmin: Xid,
    /// Was it deleted or replaced by a transaction that committed?
    pub ended: bool,
}

impl Heap {
    /// What an index entry that names `root` leads to, visible or not.
    pub fn root_state(&self, root: RowId) -> Result<RootState> {
        let mut visibility = HeapVisibility::new(self.txns());
        loop {
            if let Some(state) = self.try_root_state(root, &mut visibility)? {
                return Ok(state);
            }
            visibility.resolve()?;
        }
    }

    /// `None`: outcomes must be read first, which the page's latch forbids (R7).
    fn try_root_state(
        &self,
        root: RowId,
        visibility: &mut HeapVisibility<'_>,
    ) -> Result<Option<RootState>> {
        if !self.is_data_block(root.block.0) {
            return Ok(Some(RootState::Outside));
        }
        let pin = self.pin(root.block)?;
        let latch = pin.shared();
        if !self.is_data_block(root.block.0) {
            return Ok(Some(RootState::Outside));
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        match page.slot(root.slot)? {
            Slot::Unused => return Ok(Some(RootState::Unused)),
            Slot::Dead => return Ok(Some(RootState::Dead)),
            Slot::Normal { .. } if page.chain_start(root.slot)?.is_none() => {
                return Ok(Some(RootState::HeapOnly));
            }
            Slot::Normal { .. } | Slot::Redirect(_) => {}
        }
        let mut versions = Vec::new();
        walk_chain(&page, root.slot, |_, tuple| {
            if tuple.header.has(STUB) {
                return Ok(true);
            }
            let Some(end) = visibility.xmax_status(&tuple.header) else { return Ok(false) };
            versions.push(RootVersion {
                bytes: tuple.row.to_vec(),
                xmin: tuple.header.xmin,
                ended: matches!(end, XmaxStatus::Committed(_)),
            });
            Ok(true)
        })?;
        Ok(match versions.is_empty() {
            _ if visibility.is_incomplete() => None,
            true => Some(RootState::Dead),
            false => Some(RootState::Versions(versions)),
        })
    }
}
