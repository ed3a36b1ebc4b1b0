//! Small random changes of an input.
//!
//! Invariants: depends on the random stream only; never grows an input beyond [`MAX_INPUT`].

use rightlink_env::Rng;

/// Longest input.
pub const MAX_INPUT: usize = 4096;
/// Bytes that sit at the edges of numbers, lengths and tags.
const EDGES: [u8; 10] = [0, 1, 2, 0x1f, 0x20, 0x7f, 0x80, 0x81, 0xfe, 0xff];

/// A mutant of one or two of `seeds`; once in a while bytes from nowhere.
pub fn mutant(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut out = match rng.pick(seeds) {
        Some(seed) if !rng.chance(1, 16) => seed.clone(),
        _ => random(rng),
    };
    if rng.chance(1, 8)
        && let Some(other) = rng.pick(seeds)
    {
        let (at, from) = (rng.index(out.len() + 1), rng.index(other.len() + 1));
        out.truncate(at);
        out.extend_from_slice(&other[from..]);
    }
    // Mostly few changes, which reach deep; sometimes many.
    let changes = 1 << rng.below(6);
    for _ in 0..changes {
        change(rng, &mut out);
    }
    out.truncate(MAX_INPUT);
    out
}

fn random(rng: &mut Rng) -> Vec<u8> {
    let mut out = vec![0; 1 + rng.index(256)];
    rng.fill(&mut out);
    out
}

fn change(rng: &mut Rng, out: &mut Vec<u8>) {
    if out.is_empty() {
        out.push(rng.next_u64() as u8);
        return;
    }
    let at = rng.index(out.len());
    match rng.below(9) {
        0 => out[at] ^= 1 << rng.below(8),
        1 => out[at] = rng.next_u64() as u8,
        2 => out[at] = EDGES[rng.index(EDGES.len())],
        3 => out[at] = out[at].wrapping_add(1),
        4 => out[at] = out[at].wrapping_sub(1),
        5 => out.insert(at, rng.next_u64() as u8),
        6 => drop(out.remove(at)),
        7 => out.truncate(at + 1),
        _ => repeat(rng, out, at),
    }
}

/// Copies a piece of the input to another place in it.
fn repeat(rng: &mut Rng, out: &mut Vec<u8>, at: usize) {
    let len = 1 + rng.index(out.len() - at).min(32);
    let piece = out[at..(at + len).min(out.len())].to_vec();
    let to = rng.index(out.len());
    out.splice(to..to, piece);
}
