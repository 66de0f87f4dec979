//! Numbers that look random and are the same in each run.

/// A sequence of its own for each beginning.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Evenly from 0 to `end` - 1 (splitmix64).
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % end.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_each_run_and_spread_evenly() {
        let numbers = |seed: u64| {
            let mut random = Random(seed);
            std::iter::repeat_with(|| random.below(10)).take(1000).collect::<Vec<usize>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        for wanted in 0..10 {
            let count = numbers(1).into_iter().filter(|number| *number == wanted).count();
            assert!((60..140).contains(&count), "{wanted}: {count}");
        }
    }
}
