//! Where fields end: looks for a few bytes in many at once.
//!
//! The ends of a row's fields are known before any of them is read: so the processor can read several at a time, and no
//! branch depends on how long they are.

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 32;
/// As many as a word has bits. A narrow row fits.
pub(crate) const WINDOW: usize = 64;

/// The places of two bytes, and of newlines, one after the other.
pub(crate) struct Ends<'a> {
    input: &'a [u8],
    stops: [u8; 2],
    /// Where the window is, and what is ahead in it.
    start: usize,
    marks: u64,
}

impl<'a> Ends<'a> {
    /// From `start` on. `None` if a window does not fit.
    #[inline(always)]
    pub(crate) fn new(input: &'a [u8], start: usize, stops: [u8; 2]) -> Option<Self> {
        Some(Self { input, stops, start, marks: window(input, start, stops)? })
    }

    /// The next one. `None` if there is none as far as windows fit.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<usize> {
        while self.marks == 0 {
            self.start += WINDOW;
            self.marks = window(self.input, self.start, self.stops)?;
        }
        Some(self.start + self.marks.trailing_zeros() as usize)
    }

    /// Goes behind what [`Ends::next`] gave.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        self.marks &= self.marks.wrapping_sub(1);
    }

    /// Goes on from `at`, which is further on.
    #[inline]
    pub(crate) fn go_to(&mut self, at: usize) -> Option<()> {
        if at - self.start < WINDOW {
            self.marks &= u64::MAX << (at - self.start);
        } else {
            (self.start, self.marks) = (at, window(self.input, at, self.stops)?);
        }
        Some(())
    }
}

#[inline(always)]
fn window(input: &[u8], start: usize, stops: [u8; 2]) -> Option<u64> {
    let window: &[u8; WINDOW] = input.get(start..)?.first_chunk()?;
    let (low, high) = (window.first_chunk()?, window.last_chunk()?);
    Some(u64::from(marks(low, stops)) | u64::from(marks(high, stops)) << BLOCK)
}

/// The first of these bytes, or the first newline, from `at` on.
#[inline(always)]
pub(crate) fn find(input: &[u8], mut at: usize, stops: [u8; 2]) -> Option<usize> {
    loop {
        let marks = marks(input.get(at..)?.first_chunk()?, stops);
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize);
        }
        at += BLOCK;
    }
}

/// A bit for each byte of the block that is one of the stops or ends a line, the first byte's lowest.
#[inline(always)]
fn marks(block: &[u8; BLOCK], stops: [u8; 2]) -> u32 {
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
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};

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
