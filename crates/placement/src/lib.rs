//! Key → bucket → datanode.
//!
//! ```text
//! key columns ──KeyHasher──▶ 64-bit hash ──& 4095──▶ bucket ──BucketMap──▶ datanode
//! ```
//!
//! The hash is PostgreSQL's own (`hash…extended` with seed 0, further columns chained through the seed), so a datanode
//! computes the same in plain SQL: [`sql_bucket`] gives the expression, for audits and row filters.
//!
//! Invariants: equal bits with a little-endian stock server of 15 to 18, for every [`KeyType`] (proved against a live
//! server in `tests/hash.rs`); a bucket is below [`BUCKETS`]; a spelling we are not sure of is never guessed
//! ([`hash_text`] says `None`). Absent on purpose: I/O, collations (nondeterministic ones are refused as keys), nodes.

mod hashfn;
mod key;
mod level;
pub mod parse;
mod rebalance;

pub use key::{BadKey, KeyHasher, KeyType, hash_binary, hash_int8, hash_text, sql_bucket};
pub use level::levelled;

/// Number of buckets in every map.
pub const BUCKETS: usize = 4096;

/// The bucket of a `MODULO` key: the two's complement value modulo [`BUCKETS`], the same as `value & 4095` in SQL.
#[inline]
pub fn modulo_bucket(value: i64) -> u16 {
    (value as u64 % BUCKETS as u64) as u16
}

/// Bucket → datanode (`NodeId` of the catalog).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketMap {
    nodes: Box<[u16; BUCKETS]>,
    /// The distinct nodes, ascending: every plan asks for them.
    distinct: Vec<u16>,
}

impl BucketMap {
    /// Deals the buckets to `nodes` in turn. Panics if there are none.
    pub fn round_robin(nodes: &[u16]) -> Self {
        assert!(!nodes.is_empty(), "a bucket map needs a node");
        let mut map = Box::new([0; BUCKETS]);
        for (bucket, slot) in map.iter_mut().enumerate() {
            *slot = nodes[bucket % nodes.len()];
        }
        Self::over(map)
    }

    fn over(nodes: Box<[u16; BUCKETS]>) -> Self {
        let mut distinct = nodes.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        Self { nodes, distinct }
    }

    /// From one node per bucket; `None` unless there are exactly [`BUCKETS`].
    pub fn from_slice(nodes: &[u16]) -> Option<Self> {
        let nodes: Box<[u16]> = nodes.into();
        Some(Self::over(nodes.try_into().ok()?))
    }

    /// The datanode of a bucket.
    #[inline]
    pub fn node(&self, bucket: u16) -> u16 {
        self.nodes[usize::from(bucket) & (BUCKETS - 1)]
    }

    /// One node per bucket.
    pub fn as_slice(&self) -> &[u16] {
        &self.nodes[..]
    }

    /// The distinct nodes, ascending.
    pub fn nodes(&self) -> &[u16] {
        &self.distinct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_deals_in_turn_and_survives_its_slice() {
        let map = BucketMap::round_robin(&[7, 3, 9]);
        assert_eq!((map.node(0), map.node(1), map.node(2), map.node(4095)), (7, 3, 9, 7));
        assert_eq!(map.nodes(), [3, 7, 9]);
        assert_eq!(BucketMap::from_slice(map.as_slice()), Some(map));
        assert_eq!(BucketMap::from_slice(&[0; 4095]), None);
    }

    #[test]
    fn modulo_of_negative_numbers_is_the_two_s_complement() {
        assert_eq!(modulo_bucket(-1), 4095);
        assert_eq!(modulo_bucket(4096 + 5), 5);
        assert_eq!(modulo_bucket(i64::MIN), 0);
    }

    #[test]
    fn a_null_leaves_the_seed() {
        let mut with_null = KeyHasher::new();
        with_null.binary(KeyType::Text, None).unwrap();
        assert_eq!(with_null.bucket(), 0);
        with_null.text(KeyType::Int8, Some(b"2")).unwrap();
        assert_eq!(with_null.hash(), hash_int8(2, 0));
    }

    #[test]
    fn doubtful_spellings_are_left_to_postgresql() {
        for (key_type, texts) in [
            (KeyType::Int4, &["", "-", "1_000", "0x1f", "2147483648", "1.0"][..]),
            (KeyType::Date, &["2024-02-30", "1900-02-29", "0000-01-01", "24-01-01", "2024-1-1", "today", "2024/01/01"]),
            (KeyType::Timestamp, &["2024-01-01 24:00", "2024-01-01 10:00:60", "2024-01-01 10:00:00.1234567"]),
            (KeyType::TimestampTz, &["2024-01-01 10:00:00", "2024-01-01", "2024-01-01 10:00 UTC", "2024-01-01-01"]),
            (KeyType::Float8, &["1e999", "1e-999", "0x1p3", "inf", ".", "1e"]),
            (KeyType::Float4, &["1e39", "1e-46"]),
            (KeyType::Numeric, &["1e3", "", ".", "-", "1.2.3", "0x10"]),
            (KeyType::Bytea, &["abc", "\\x1", "\\xgg"]),
            (
                KeyType::Interval,
                &["P", "PT", "P1DT", "1 day", "P1W", "P1.5D", "PT60S", "P1M1Y", "P1Y1Y", "PT1.1234567S", "infinity"],
            ),
            (KeyType::Uuid, &["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc99"]),
        ] {
            for text in texts {
                assert_eq!(hash_text(key_type, text.as_bytes(), 0), None, "{key_type:?} {text}");
            }
        }
    }
}
