//! Dead marks that scans leave on entries of dead rows.
//!
//! Does not do: what all methods share (`index/dead_marks`).

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::dead_marks::{LeafMarks, MarkBit};
use crate::index::hash::page::{Bucket, DEAD, PageMatch, SLOT, match_page};
use crate::page::Checked;
use crate::page::header::HEADER_SIZE;

/// See [`crate::index::am::AccessMethod::plan_marks`].
pub(crate) fn plan_marks(
    page: &[u8; PAGE_SIZE],
    places: &mut Vec<Vec<u8>>,
    check: &mut dyn FnMut(RowId) -> bool,
) -> Checked<LeafMarks> {
    match match_page(page, &places[0])? {
        PageMatch::Lost => return Ok(LeafMarks::default()),
        PageMatch::MoveRight(right) => return Ok(LeafMarks { bits: Vec::new(), right }),
        PageMatch::Here => {}
    }
    let bucket = Bucket::open(page)?;
    let here = |position: &&Vec<u8>| bucket.match_position(position) == PageMatch::Here;
    let mine = places.iter().take_while(here).count();
    let mut bits = Vec::new();
    for position in places.drain(..mine) {
        let found = bucket.find(&position)?;
        let is_live = found.exact && bucket.word(found.at) & DEAD == 0;
        if is_live && check(bucket.item(found.at)?.row) {
            bits.push(MarkBit::of_slot(HEADER_SIZE + found.at * SLOT));
        }
    }
    Ok(LeafMarks { bits, right: bucket.right })
}
