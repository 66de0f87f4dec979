//! Bob Jenkins' lookup3 as PostgreSQL uses it: `hash_bytes_extended` and `hash_bytes_uint32_extended` of
//! `src/common/hashfn.c`, for little-endian servers.

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    #[inline(always)]
    fn new(length: u32, seed: u64) -> Self {
        let start = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
        let mut state = State { a: start, b: start, c: start };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    #[inline(always)]
    fn mix(&mut self) {
        let State { mut a, mut b, mut c } = *self;
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        *self = State { a, b, c };
    }

    #[inline(always)]
    fn finish(self) -> u64 {
        let State { mut a, mut b, mut c } = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        u64::from(b) << 32 | u64::from(c)
    }
}

/// `hash_bytes_uint32_extended`.
#[inline(always)]
pub(crate) fn hash_u32(value: u32, seed: u64) -> u64 {
    let mut state = State::new(4, seed);
    state.a = state.a.wrapping_add(value);
    state.finish()
}

/// `hash_bytes_extended`.
pub(crate) fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len() as u32, seed);
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        state.a = state.a.wrapping_add(word(&block[..4]));
        state.b = state.b.wrapping_add(word(&block[4..8]));
        state.c = state.c.wrapping_add(word(&block[8..]));
        state.mix();
    }
    let tail = blocks.remainder();
    let part = |from: usize, to: usize| word(&tail[from.min(tail.len())..to.min(tail.len())]);
    state.a = state.a.wrapping_add(part(0, 4));
    state.b = state.b.wrapping_add(part(4, 8));
    // The lowest byte of c is reserved for the length.
    state.c = state.c.wrapping_add(part(8, 11) << 8);
    state.finish()
}

/// Up to four bytes, the first one lowest.
#[inline(always)]
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
