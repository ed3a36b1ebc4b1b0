//! What a heap page looks like, for people and for measurements.
//!
//! Invariants: a page is copied under its shared latch and read from the copy.
//! Does not do: judge (`verify`).

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::{HeapPage, Slot};
use crate::ids::BlockNo;

/// One page of row versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapPageInfo {
    /// Flags, as stored.
    pub flags: u16,
    /// Line pointers that lead to a version.
    pub live: u32,
    /// Dead line pointers.
    pub dead: u32,
    /// Bytes of all versions, headers included.
    pub bytes: u32,
    /// Free bytes.
    pub free: u32,
    /// A line for each line pointer, when asked for.
    pub items: Vec<String>,
}

impl Heap {
    /// Describes a block; `None`: it was never initialised, or is cut off.
    pub fn inspect(&self, block: u32, with_items: bool) -> Result<Option<HeapPageInfo>> {
        if !self.is_data_block(block) {
            return Ok(None);
        }
        let pin = self.pin(BlockNo(block))?;
        let copy: Box<[u8; PAGE_SIZE]> = Box::new(*pin.shared().bytes());
        drop(pin);
        if HeapPage::is_cut(&copy) {
            return Ok(None);
        }
        let page = HeapPage::open(self.page_id(block), &copy)?;
        let mut info = HeapPageInfo { flags: page.flags(), ..HeapPageInfo::default() };
        info.free = page.room() as u32;
        for slot in 1..=page.slots() {
            let state = page.slot(slot)?;
            match state {
                Slot::Normal { len, .. } => {
                    (info.live, info.bytes) = (info.live + 1, info.bytes + len as u32)
                }
                Slot::Dead => info.dead += 1,
                _ => {}
            }
            if with_items {
                let tuple = page.tuple(slot)?;
                let header = tuple.map(|tuple| format!("{:?}", tuple.header)).unwrap_or_default();
                info.items.push(format!("{slot}: {state:?} {header}"));
            }
        }
        Ok(Some(info))
    }
}
