//! Compares the heads of sixteen neighbouring slots at once, with AVX2 where the processor has it.
//!
//! An interpolated guess is right within a few slots. All heads around it are compared without
//! unpredictable branches, and their cache lines are requested together.
//!
//! Invariants: both implementations give the same counts, of any bytes. Words are loaded one by
//! one, so an optimistic reader may do it as well (R11).
//! Does not do: choose the slots (`search`).

use crate::index::btree::page::node::SLOT;
use crate::index::btree::page::read::PageRead;
use crate::page::header::HEADER_SIZE;

/// Slots of a window.
pub(crate) const WINDOW: usize = 16;
/// A window begins at a multiple of so many slots, where a slot begins with a word.
pub(crate) const STEP: usize = 4;

const _: () = assert!(HEADER_SIZE.is_multiple_of(8) && (STEP * SLOT).is_multiple_of(8));

/// Heads of a window, by their order against another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ranks {
    /// How many are below it.
    pub(crate) below: usize,
    /// How many are equal to it.
    pub(crate) equal: usize,
}

/// Ranks the heads of the window that begins with slot `first`, all of whose slots are on the page.
#[inline]
pub(crate) fn rank_heads<R: PageRead>(page: R, first: usize, head: u32) -> Ranks {
    let word = word_of(first);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { rank_heads_avx2(page, word, head) };
    }
    rank_heads_plain(page, word, head)
}

/// The word that slot `first` begins with.
fn word_of(first: usize) -> usize {
    assert!(first.is_multiple_of(STEP), "a window begins with a word");
    (HEADER_SIZE + first * SLOT) / 8
}

/// One head after the other, of four in three words.
fn rank_heads_plain<R: PageRead>(page: R, word: usize, head: u32) -> Ranks {
    let mut rank_heads = Ranks { below: 0, equal: 0 };
    for word in (word..).step_by(STEP * SLOT / 8).take(WINDOW / STEP) {
        let [a, b, c] = [page.word(word), page.word(word + 1), page.word(word + 2)];
        for found in [a >> 16, b, b >> 48 | c << 16, c >> 32] {
            let found = (found as u32).swap_bytes();
            rank_heads.below += usize::from(found < head);
            rank_heads.equal += usize::from(found == head);
        }
    }
    rank_heads
}

/// Eight heads at a time. Their order inside a register does not change the counts.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn rank_heads_avx2<R: PageRead>(page: R, word: usize, head: u32) -> Ranks {
    use std::arch::x86_64::{
        __m256i, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_max_epu32, _mm256_movemask_ps,
        _mm256_set_epi64x, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8,
        _mm256_unpacklo_epi64,
    };
    // Both halves hold the word in the middle, so that two slots lie in each. Heads are big-endian.
    let pick = _mm256_setr_epi8(
        5, 4, 3, 2, 11, 10, 9, 8, -1, -1, -1, -1, -1, -1, -1, -1, //
        9, 8, 7, 6, 15, 14, 13, 12, -1, -1, -1, -1, -1, -1, -1, -1,
    );
    let four = |at: usize| -> __m256i {
        let [a, b, c] = [at, at + 1, at + 2].map(|at| page.word(at).cast_signed());
        _mm256_shuffle_epi8(_mm256_set_epi64x(c, b, b, a), pick)
    };
    let bits = |lanes| _mm256_movemask_ps(_mm256_castsi256_ps(lanes)).count_ones() as usize;
    let wanted = _mm256_set1_epi32(head.cast_signed());
    let (mut not_below, mut equal) = (0, 0);
    for at in [word, word + 6] {
        let heads = _mm256_unpacklo_epi64(four(at), four(at + 3));
        not_below += bits(_mm256_cmpeq_epi32(_mm256_max_epu32(heads, wanted), heads));
        equal += bits(_mm256_cmpeq_epi32(heads, wanted));
    }
    Ranks { below: WINDOW - not_below, equal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PAGE_SIZE;
    use crate::page::{PageBuf, PageMut};
    use rightlink_env::Rng;

    /// Counted from single heads, of latched and of optimistically read pages.
    #[test]
    fn all_ways_of_ranking_agree() {
        let mut rng = Rng::from_seed(5);
        let mut page = PageBuf::zeroed();
        let mut image = [0; PAGE_SIZE];
        for round in 0..200 {
            rng.fill(&mut image);
            // Few different bytes, so that equal heads and equal first bytes are frequent.
            let most = [2, 4, 255][round % 3];
            image.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3) % most * (255 / most));
            PageMut::owned(&mut page).write_unlogged(0, &image);
            let head = |slot: usize| {
                let at = HEADER_SIZE + slot * SLOT + 2;
                u32::from_be_bytes(image[at..at + 4].try_into().unwrap())
            };
            let last = (PAGE_SIZE - HEADER_SIZE) / SLOT - WINDOW;
            for first in [0, 4, 8, 64, 1000, last / STEP * STEP] {
                let wanted = match rng.chance(1, 2) {
                    true => head(first + rng.index(WINDOW)),
                    false => rng.next_u64() as u32,
                };
                let heads = || (first..first + WINDOW).map(head);
                let expected = Ranks {
                    below: heads().filter(|head| *head < wanted).count(),
                    equal: heads().filter(|head| *head == wanted).count(),
                };
                assert_eq!(rank_heads(&image, first, wanted), expected);
                assert_eq!(rank_heads(page.view(), first, wanted), expected);
                assert_eq!(rank_heads_plain(&image, word_of(first), wanted), expected);
                assert_eq!(rank_heads_plain(page.view(), word_of(first), wanted), expected);
            }
        }
    }
}
