//! Descriptions of heap pages, for people and for measurements.
//!
//! Invariants: a page is copied under its shared latch and read from the copy.
//! Does not do: check it (`verify`).
//!
//! PostgreSQL: `contrib/pageinspect`.

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::tuple::{
    GROUP, HEAP_ONLY, HOT_UPDATED, LOCK_ONLY, SHARED, STUB, TupleHeader, UPDATED, WEAK,
    XMAX_ABORTED, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED,
};
use crate::heap::page::{HeapPage, Slot};
use crate::ids::{BlockNo, Xid};

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
                let header = page.tuple(slot)?.map(|tuple| tuple.header);
                info.items.push(format!("{slot}: {}", item_line(state, header.as_ref())));
            }
        }
        Ok(Some(info))
    }
}

/// A line pointer and the version it leads to.
fn item_line(state: Slot, header: Option<&TupleHeader>) -> String {
    let mut line = match state {
        Slot::Unused => "unused".to_owned(),
        Slot::Dead => "dead".to_owned(),
        Slot::Redirect(to) => format!("redirect to {to}"),
        Slot::Normal { offset, len } => format!("offset {offset}, {len} bytes"),
    };
    let Some(head) = header else { return line };
    line += &format!(", xmin {}", xid(head.xmin));
    line += outcome(head, XMIN_COMMITTED, XMIN_ABORTED);
    if head.xmax != Xid::NONE {
        line += &format!(", xmax {}", xid(head.xmax));
        line += outcome(head, XMAX_COMMITTED, XMAX_ABORTED);
    }
    if let Some(next) = head.next {
        line += &format!(", next {next}");
    }
    let marks = [
        (LOCK_ONLY, ", only locked"),
        (SHARED, ", shared"),
        (WEAK, ", keys alone or aside"),
        (GROUP, ", others in memory"),
        (UPDATED, ", an update"),
        (HOT_UPDATED, ", next is heap-only"),
        (HEAP_ONLY, ", heap-only"),
        (STUB, ", forwarding stub"),
    ];
    marks.iter().filter(|(flag, _)| head.has(*flag)).for_each(|(_, words)| line += words);
    line
}

fn xid(xid: Xid) -> String {
    if xid == Xid::FROZEN { "frozen".to_owned() } else { xid.0.to_string() }
}

/// What the hints say; without one it is not noted here.
fn outcome(head: &TupleHeader, committed: u16, aborted: u16) -> &'static str {
    match (head.has(committed), head.has(aborted)) {
        _ if committed == XMIN_COMMITTED && head.xmin == Xid::FROZEN => "",
        (true, _) => " committed",
        (_, true) => " aborted",
        _ => "",
    }
}
