//! Encodes stores into a page delta; `delta` states the format and applies it.
//!
//! Invariants: an image leaves out the longest run of zeros behind the LSN.
//! Does not do: choose between a delta and an image (`buffer::mtr` does).

use crate::config::PAGE_SIZE;

pub(super) const MOVE: u8 = 0x80;
pub(super) const FILL: u8 = 0x81;
pub(super) const IMAGE: u8 = 0x82;

/// Appends a write.
pub(super) fn push_write(delta: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    assert!(offset + bytes.len() <= PAGE_SIZE, "a write inside the page");
    delta.push((offset & 0x7f) as u8);
    delta.push((offset >> 7) as u8);
    let len = bytes.len();
    if len < 0x80 {
        delta.push(len as u8);
    } else {
        delta.extend([(len & 0x7f) as u8 | 0x80, (len >> 7) as u8]);
    }
    delta.extend_from_slice(bytes);
}

/// Appends a move.
pub(super) fn push_copy(delta: &mut Vec<u8>, from: usize, len: usize, to: usize) {
    delta.push(MOVE);
    for value in [from, len, to] {
        delta.extend((value as u16).to_le_bytes());
    }
}

/// Appends a fill.
pub(super) fn push_fill(delta: &mut Vec<u8>, offset: usize, len: usize, byte: u8) {
    delta.push(FILL);
    delta.extend((offset as u16).to_le_bytes());
    delta.extend((len as u16).to_le_bytes());
    delta.push(byte);
}

/// Appends a whole page without its longest run of zeroes.
pub fn push_image(delta: &mut Vec<u8>, image: &[u8; PAGE_SIZE]) {
    let (hole, len) = longest_zero_run(&image[16..]);
    delta.push(IMAGE);
    delta.extend(((hole + 16) as u16).to_le_bytes());
    delta.extend((len as u16).to_le_bytes());
    delta.extend_from_slice(&image[4..8]);
    delta.extend_from_slice(&image[16..16 + hole]);
    delta.extend_from_slice(&image[16 + hole + len..]);
}

/// Would [`push_image`] append fewer than `than` bytes for `image`? Then a delta of that many is
/// not worth keeping. Costs little where it is far from it, as it is for most.
pub fn has_image_below(image: &[u8; PAGE_SIZE], than: usize) -> bool {
    const WITHOUT_HOLE: usize = 1 + 4 + 4 + (PAGE_SIZE - 16);
    // The hole must be longer than this.
    let Some(short) = WITHOUT_HOLE.checked_sub(than) else { return true };
    zero_run_beyond(&image[16..], short).1 > short
}

/// Start and length of the first longest run of zeroes.
pub(super) fn longest_zero_run(bytes: &[u8]) -> (usize, usize) {
    zero_run_beyond(bytes, 0)
}

/// The same, if it is longer than `short`; else any place and `short`.
pub(super) fn zero_run_beyond(bytes: &[u8], short: usize) -> (usize, usize) {
    let (mut best, mut at) = ((0, short), 0);
    while at + best.1 < bytes.len() {
        // A run that is longer than the best one reaches at least so far.
        let last = at + best.1;
        if let Some(back) = bytes[at..=last].iter().rposition(|byte| *byte != 0) {
            at += back + 1;
            continue;
        }
        let (words, _) = bytes[last + 1..].as_chunks::<32>();
        let skipped = words.iter().take_while(|word| **word == [0; 32]).count() * 32;
        let beyond = &bytes[last + 1 + skipped..];
        let more = beyond.iter().take_while(|byte| **byte == 0).count();
        best = (at, last + 1 + skipped + more - at);
        at += best.1;
    }
    best
}
