//! Where one PostgreSQL would have put the rows it had into the table and its indexes: `CopyMultiInsertInfoFlush` of
//! `copyfrom.c`. A key that comes twice is found then, so an error in a line before that is reported instead.

use std::collections::VecDeque;

/// `MAX_BUFFERED_TUPLES`.
const ROWS_MAX: u32 = 1000;
/// `MAX_BUFFERED_BYTES`; of lines without their ends.
const BYTES_MAX: usize = 65535;
/// Ends remembered: more rows than are on their way to datanodes.
const ENDS_MAX: usize = 1 << 14;

/// The batches that one server would have made.
#[derive(Default)]
pub(crate) struct Batches {
    rows: u32,
    bytes: usize,
    /// The last lines of the latest batches, and how many batches there have been.
    ends: VecDeque<u64>,
    count: u64,
}

impl Batches {
    /// A row of so many bytes, at `line`.
    #[inline]
    pub(crate) fn add(&mut self, line: u64, bytes: usize) {
        self.rows += 1;
        self.bytes += bytes;
        if self.rows >= ROWS_MAX || self.bytes >= BYTES_MAX {
            self.end(line);
        }
    }

    /// Rows from `line` on. `contents`: for each the bytes of it and of all before it, of which `before` come before the first.
    pub(crate) fn add_all(&mut self, mut line: u64, mut before: u32, contents: &[u32]) {
        let mut rest = contents;
        while let Some(last) = rest.last() {
            let missing = BYTES_MAX - self.bytes;
            let too_short = rest.partition_point(|content| ((content - before) as usize) < missing);
            let wanted = (too_short + 1).min((ROWS_MAX - self.rows) as usize);
            if wanted > rest.len() {
                self.rows += rest.len() as u32;
                self.bytes += (last - before) as usize;
                return;
            }
            line += wanted as u64;
            before = rest[wanted - 1];
            rest = &rest[wanted..];
            self.end(line - 1);
        }
    }

    #[cold]
    fn end(&mut self, line: u64) {
        (self.rows, self.bytes) = (0, 0);
        self.count += 1;
        if self.ends.len() == ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back(line);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Has the row at `line` been stored before `later` was read?
    pub(crate) fn is_stored_before(&self, line: u64, later: u64) -> bool {
        let end = self.ends.partition_point(|end| *end < line);
        self.ends.get(end).is_some_and(|end| *end < later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_by_rows_or_by_bytes() {
        let mut batches = Batches::default();
        (1..=1500).for_each(|line| batches.add(line, 10));
        assert!(batches.is_stored_before(1, 1001) && batches.is_stored_before(1000, 1001));
        assert!(!batches.is_stored_before(1, 1000) && !batches.is_stored_before(1001, 1500));
        batches.add(1501, 70_000);
        assert!(batches.is_stored_before(1001, 1502) && batches.count() == 2);
        batches.add(1502, 1);
        assert!(!batches.is_stored_before(1502, 9999));
    }

    #[test]
    fn rows_together_count_as_one_by_one() {
        let lengths =
            |seed: usize| (0..5000).map(move |row| (row * seed) % if seed.is_multiple_of(2) { 300 } else { 50 });
        for (seed, together) in [(7, 1), (8, 3), (9, 999), (10, 1000), (11, 1001), (12, 5000)] {
            let (mut single, mut several) = (Batches::default(), Batches::default());
            (1..).zip(lengths(seed)).for_each(|(line, bytes)| single.add(line, bytes));
            let ends: Vec<u32> = lengths(seed)
                .scan(0, |sum, bytes| {
                    *sum += bytes as u32;
                    Some(*sum)
                })
                .collect();
            for (number, contents) in ends.chunks(together).enumerate() {
                let first = number * together;
                let before = if first == 0 { 0 } else { ends[first - 1] };
                several.add_all(first as u64 + 1, before, contents);
            }
            assert_eq!(
                (&single.ends, single.count, single.rows, single.bytes),
                (&several.ends, several.count, several.rows, several.bytes)
            );
        }
    }
}
