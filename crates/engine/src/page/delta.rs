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
use crate::page::delta_encode::{FILL, IMAGE, MOVE};

pub use crate::page::delta_encode::{has_image_below, push_image};

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
    use crate::page::delta_encode::{longest_zero_run, zero_run_beyond};

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
