//! The delta of a page: the stores of one log record, in the order in which they were made.
//!
//! | first byte | then | meaning |
//! |---|---|---|
//! | `0b0ooo_oooo` low 7 bits of offset, next byte high 6 bits | varint len, bytes | write |
//! | 0x80 | from u16, len u16, to u16 | move, ranges may overlap |
//! | 0x81 | offset u16, len u16, byte | fill |
//! | 0x82 | hole offset u16, hole len u16, bytes 4..8 and 16.. without the hole | image |
//!
//! Invariants: applying a delta to the page it was recorded on gives equal bytes; unknown or
//! out-of-range bytes are an error, never a panic.
//! Does not do: decide whether a delta is needed (the LSN does), or mask hints.

use crate::config::PAGE_SIZE;
use crate::page::buf::PageMut;

const MOVE: u8 = 0x80;
const FILL: u8 = 0x81;
const IMAGE: u8 = 0x82;

/// Appends a write.
pub fn push_write(delta: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
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
pub fn push_copy(delta: &mut Vec<u8>, from: usize, len: usize, to: usize) {
    delta.push(MOVE);
    for value in [from, len, to] {
        delta.extend((value as u16).to_le_bytes());
    }
}

/// Appends a fill.
pub fn push_fill(delta: &mut Vec<u8>, offset: usize, len: usize, byte: u8) {
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
fn longest_zero_run(bytes: &[u8]) -> (usize, usize) {
    zero_run_beyond(bytes, 0)
}

/// The same, if it is longer than `short`; else any place and `short`.
fn zero_run_beyond(bytes: &[u8], short: usize) -> (usize, usize) {
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

/// Does `delta` open with an image, so that the page's old bytes do not matter?
pub fn is_image(delta: &[u8]) -> bool {
    delta.first() == Some(&IMAGE)
}

/// Replays `delta` on `page`. An error leaves the page partly changed; the caller gives it up.
pub fn apply(page: &mut PageMut<'_>, mut delta: &[u8]) -> Result<(), &'static str> {
    while let Some((&first, rest)) = delta.split_first() {
        delta = match first {
            MOVE => apply_move(page, rest)?,
            FILL => apply_fill(page, rest)?,
            IMAGE => apply_image(page, rest)?,
            low if low < 0x80 => apply_write(page, low, rest)?,
            _ => return Err("unknown store in a page delta"),
        };
    }
    Ok(())
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Result<&'a [u8; N], &'static str> {
    let (head, tail) = bytes.split_first_chunk().ok_or("page delta is cut short")?;
    *bytes = tail;
    Ok(head)
}

fn take_u16(bytes: &mut &[u8]) -> Result<usize, &'static str> {
    take::<2>(bytes).map(|pair| usize::from(u16::from_le_bytes(*pair)))
}

fn take_slice<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], &'static str> {
    let (head, tail) = bytes.split_at_checked(len).ok_or("page delta is cut short")?;
    *bytes = tail;
    Ok(head)
}

fn inside(offset: usize, len: usize) -> Result<(), &'static str> {
    if offset + len <= PAGE_SIZE { Ok(()) } else { Err("a store outside the page in a page delta") }
}

fn apply_write<'a>(
    page: &mut PageMut<'_>,
    low: u8,
    mut rest: &'a [u8],
) -> Result<&'a [u8], &'static str> {
    let offset = usize::from(low) | usize::from(take::<1>(&mut rest)?[0]) << 7;
    let mut len = usize::from(take::<1>(&mut rest)?[0]);
    if len & 0x80 != 0 {
        len = len & 0x7f | usize::from(take::<1>(&mut rest)?[0]) << 7;
    }
    let bytes = take_slice(&mut rest, len)?;
    inside(offset, len)?;
    page.write_unlogged(offset, bytes);
    Ok(rest)
}

fn apply_move<'a>(page: &mut PageMut<'_>, mut rest: &'a [u8]) -> Result<&'a [u8], &'static str> {
    let (from, len, to) = (take_u16(&mut rest)?, take_u16(&mut rest)?, take_u16(&mut rest)?);
    inside(from, len)?;
    inside(to, len)?;
    let copy = page.bytes()[from..from + len].to_vec();
    page.write_unlogged(to, &copy);
    Ok(rest)
}

fn apply_fill<'a>(page: &mut PageMut<'_>, mut rest: &'a [u8]) -> Result<&'a [u8], &'static str> {
    let (offset, len) = (take_u16(&mut rest)?, take_u16(&mut rest)?);
    let byte = take::<1>(&mut rest)?[0];
    inside(offset, len)?;
    page.write_unlogged(offset, &[byte; PAGE_SIZE][..len]);
    Ok(rest)
}

fn apply_image<'a>(page: &mut PageMut<'_>, mut rest: &'a [u8]) -> Result<&'a [u8], &'static str> {
    let (hole, len) = (take_u16(&mut rest)?, take_u16(&mut rest)?);
    inside(hole, len)?;
    if hole < 16 {
        return Err("an image whose hole covers the LSN");
    }
    let fixed = *take::<4>(&mut rest)?;
    let before = take_slice(&mut rest, hole - 16)?;
    let after = take_slice(&mut rest, PAGE_SIZE - hole - len)?;
    page.write_unlogged(4, &fixed);
    page.write_unlogged(16, before);
    page.write_unlogged(hole, &[0; PAGE_SIZE][..len]);
    page.write_unlogged(hole + len, after);
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::buf::PageBuf;

    fn pseudo_random(seed: &mut u64) -> usize {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 33) as usize
    }

    /// Every store of a random sequence is replayed to equal bytes, whatever came before.
    #[test]
    fn replay_gives_equal_bytes() {
        for mut seed in 0..200u64 {
            let (page, mut copy) = (PageBuf::zeroed(), PageBuf::zeroed());
            let mut delta = Vec::new();
            // SAFETY: the test owns the page.
            let mut target = unsafe { PageMut::new(&page, Some(&mut delta)) };
            for _ in 0..30 {
                let (a, b) =
                    (16 + pseudo_random(&mut seed) % 8000, 16 + pseudo_random(&mut seed) % 8000);
                let len = pseudo_random(&mut seed) % (PAGE_SIZE - a.max(b));
                match pseudo_random(&mut seed) % 4 {
                    0 => target.write(a, &vec![seed as u8; len]),
                    1 => target.copy_within(a, len, b),
                    2 => target.fill(a, len, seed as u8),
                    _ => target.put_u32(a.min(8000), seed as u32),
                }
                if pseudo_random(&mut seed).is_multiple_of(40) {
                    let mut image = [0u8; PAGE_SIZE];
                    image[a] = 1;
                    target.replace(&image);
                }
            }
            let expected = *target.bytes();
            let mut replay = PageMut::owned(&mut copy);
            apply(&mut replay, &delta).expect("a recorded delta applies");
            assert!(replay.bytes() == &expected, "seed {seed}");
        }
    }

    #[test]
    fn the_longest_hole_is_found() {
        let mut seed = 7;
        for _ in 0..3000 {
            let len = pseudo_random(&mut seed) % 200;
            let rare = 1 + pseudo_random(&mut seed) % 60;
            let bytes: Vec<u8> =
                (0..len).map(|_| u8::from(pseudo_random(&mut seed).is_multiple_of(rare))).collect();
            let runs = bytes.split(|byte| *byte != 0);
            let longest = runs.map(<[u8]>::len).max().unwrap_or(0);
            let (at, found) = longest_zero_run(&bytes);
            assert_eq!(found, longest, "{bytes:?}");
            assert!(bytes[at..at + found].iter().all(|byte| *byte == 0));
            for short in 0..longest + 2 {
                let (_, found) = zero_run_beyond(&bytes, short);
                assert_eq!(found, longest.max(short), "{bytes:?} beyond {short}");
            }
        }
    }

    #[test]
    fn an_image_is_found_shorter_exactly_where_it_is() {
        let mut seed = 11;
        for _ in 0..500 {
            let (at, len) = (pseudo_random(&mut seed) % PAGE_SIZE, pseudo_random(&mut seed));
            let mut image = [1u8; PAGE_SIZE];
            image[at..].iter_mut().take(len % PAGE_SIZE).for_each(|byte| *byte = 0);
            let mut delta = Vec::new();
            push_image(&mut delta, &image);
            for than in [0, 1, delta.len() - 1, delta.len(), delta.len() + 1, 2 * PAGE_SIZE] {
                assert_eq!(has_image_below(&image, than), delta.len() < than, "{than}");
            }
        }
    }

    #[test]
    fn damaged_deltas_are_errors() {
        let mut page = PageBuf::zeroed();
        for bad in [&[0x83u8][..], &[0x80, 1], &[0x7f, 0x3f, 0x10, 1], &[0x7f, 0x3f, 2, 1, 1]] {
            assert!(apply(&mut PageMut::owned(&mut page), bad).is_err(), "{bad:?}");
        }
    }
}
