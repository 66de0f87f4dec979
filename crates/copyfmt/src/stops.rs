//! Where a field ends: looks for a few bytes in a block of 32 at once.
//!
//! A field of text is one block or less, as a rule, so that no branch depends on its length.

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 32;

/// A bit for each byte of the block that is one of the stops or ends a line, the first byte's lowest.
#[inline(always)]
pub(crate) fn marks(block: &[u8; BLOCK], stops: [u8; 2]) -> u32 {
    let wanted = [stops[0], stops[1], b'\n', b'\r'];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 belongs to every x86-64 processor, and is all that the function needs.
    let marks = unsafe { sse2::marks(block, wanted) };
    #[cfg(not(target_arch = "x86_64"))]
    let marks = one_by_one(block, wanted);
    marks
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn one_by_one(block: &[u8; BLOCK], wanted: [u8; 4]) -> u32 {
    block.iter().rev().fold(0, |marks, byte| marks << 1 | u32::from(wanted.contains(byte)))
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };

    use super::BLOCK;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn marks(block: &[u8; BLOCK], wanted: [u8; 4]) -> u32 {
        let [first, second, third, fourth] = wanted.map(|byte| _mm_set1_epi8(byte.cast_signed()));
        let of_half = |half: __m128i| {
            let stops = _mm_or_si128(_mm_cmpeq_epi8(half, first), _mm_cmpeq_epi8(half, second));
            let newlines = _mm_or_si128(_mm_cmpeq_epi8(half, third), _mm_cmpeq_epi8(half, fourth));
            _mm_movemask_epi8(_mm_or_si128(stops, newlines)).cast_unsigned()
        };
        let word = |at: usize| i64::from_le_bytes(std::array::from_fn(|byte| block[at + byte]));
        of_half(_mm_set_epi64x(word(8), word(0))) | of_half(_mm_set_epi64x(word(24), word(16))) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_those_of_looking_at_each_byte() {
        for stops in [[b',', b'"'], [b'\t', b'\\'], [0x80, 0xFF]] {
            for place in 0..BLOCK {
                for byte in 0..=255 {
                    let mut block: [u8; BLOCK] = std::array::from_fn(|at| b'A' + at as u8);
                    (block[place], block[(place + 7) % BLOCK]) = (byte, stops[1]);
                    assert_eq!(marks(&block, stops), one_by_one(&block, [stops[0], stops[1], b'\n', b'\r']));
                }
            }
        }
    }
}
