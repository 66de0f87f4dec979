//! Which buckets move when datanodes come or go.

use std::collections::BTreeMap;

use crate::{BUCKETS, BucketMap};

impl BucketMap {
    /// The moves `(bucket, from, to)`, by bucket, after which each of `nodes` holds its share of the buckets, rounded up
    /// or down, and no other node holds any. No set of fewer moves does that. Panics if there are no nodes.
    ///
    /// A node gives buckets from all over its range, and they are dealt out in turn: the low buckets of a `MODULO` key
    /// with few values spread over the nodes as the others do.
    pub fn rebalanced(&self, nodes: &[u16]) -> Vec<(u16, u16, u16)> {
        let owned = self.owned_by_node();
        let quotas = quotas(&owned, nodes);
        let mut given: Vec<(u16, u16)> = Vec::new();
        for (&node, buckets) in &owned {
            let kept = quotas.get(&node).copied().unwrap_or(0);
            let surplus = buckets.len().saturating_sub(kept);
            given.extend(evenly(buckets, surplus).map(|bucket| (bucket, node)));
        }
        given.sort_unstable();
        let mut missing: BTreeMap<u16, usize> = quotas
            .iter()
            .map(|(&node, &quota)| (node, quota.saturating_sub(owned.get(&node).map_or(0, Vec::len))))
            .collect();
        debug_assert_eq!(given.len(), missing.values().sum::<usize>(), "what is given is what is missing");
        given.into_iter().map(|(bucket, from)| (bucket, from, take_turn(&mut missing))).collect()
    }

    fn owned_by_node(&self) -> BTreeMap<u16, Vec<u16>> {
        let mut owned: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
        for (bucket, &node) in self.as_slice().iter().enumerate() {
            owned.entry(node).or_default().push(bucket as u16);
        }
        owned
    }
}

/// How many buckets each node is to hold. Shares that are rounded up go to the nodes that hold most now, because they
/// would have to give one bucket more otherwise.
fn quotas(owned: &BTreeMap<u16, Vec<u16>>, nodes: &[u16]) -> BTreeMap<u16, usize> {
    let mut fullest_first = nodes.to_vec();
    fullest_first.sort_unstable();
    fullest_first.dedup();
    assert!(!fullest_first.is_empty(), "buckets need a node");
    fullest_first.sort_by_key(|node| std::cmp::Reverse(owned.get(node).map_or(0, Vec::len)));
    let (share, rest) = (BUCKETS / fullest_first.len(), BUCKETS % fullest_first.len());
    fullest_first.into_iter().enumerate().map(|(i, node)| (node, share + usize::from(i < rest))).collect()
}

/// `count` of the buckets, at even distances.
fn evenly(buckets: &[u16], count: usize) -> impl Iterator<Item = u16> {
    let length = buckets.len();
    let chosen = move |i: usize| (i + 1) * count / length > i * count / length;
    buckets.iter().enumerate().filter(move |(i, _)| chosen(*i)).map(|(_, &bucket)| bucket)
}

/// The node that misses most buckets, of several the lowest; it misses one less now.
fn take_turn(missing: &mut BTreeMap<u16, usize>) -> u16 {
    let next = missing.iter_mut().max_by_key(|(node, count)| (**count, std::cmp::Reverse(**node)));
    let (node, count) = next.expect("there is a node");
    *count -= 1;
    *node
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map after the moves; each is checked to begin where its bucket is.
    fn after(map: &BucketMap, moves: &[(u16, u16, u16)]) -> BucketMap {
        let mut slots = map.as_slice().to_vec();
        for &(bucket, from, to) in moves {
            assert_eq!(slots[usize::from(bucket)], from);
            assert_ne!(from, to);
            slots[usize::from(bucket)] = to;
        }
        BucketMap::from_slice(&slots).unwrap()
    }

    fn counts(map: &BucketMap) -> Vec<(u16, usize)> {
        map.owned_by_node().into_iter().map(|(node, buckets)| (node, buckets.len())).collect()
    }

    #[test]
    fn a_new_node_takes_its_share_and_nothing_else_moves() {
        let map = BucketMap::round_robin(&[0, 1, 2, 3]);
        let moves = map.rebalanced(&[0, 1, 2, 3, 4]);
        assert_eq!(moves.len(), 819);
        assert!(moves.iter().all(|&(_, _, to)| to == 4));
        assert_eq!(counts(&after(&map, &moves)), [(0, 820), (1, 819), (2, 819), (3, 819), (4, 819)]);
        assert_eq!(map.rebalanced(&[4, 3, 2, 1, 0]), moves, "the order of the nodes means nothing");
    }

    #[test]
    fn a_node_that_leaves_is_emptied() {
        let map = BucketMap::round_robin(&[0, 1, 2, 3]);
        let moves = map.rebalanced(&[0, 2, 3]);
        assert_eq!(moves.len(), 1024);
        assert!(moves.iter().all(|&(_, from, _)| from == 1));
        assert_eq!(counts(&after(&map, &moves)), [(0, 1366), (2, 1365), (3, 1365)]);
    }

    #[test]
    fn a_node_is_exchanged_for_another() {
        let map = BucketMap::round_robin(&[0, 1]);
        let moves = map.rebalanced(&[0, 2]);
        assert_eq!(moves.len(), 2048);
        assert!(moves.iter().all(|&(_, from, to)| (from, to) == (1, 2)));
    }

    #[test]
    fn a_balanced_map_stays() {
        for nodes in [&[0][..], &[0, 1, 2], &[5, 9, 11, 12, 40, 41, 42]] {
            assert_eq!(BucketMap::round_robin(nodes).rebalanced(nodes), []);
        }
    }

    /// Whatever the map, each node ends with its share, no node both gives and gets, and a second call finds nothing.
    #[test]
    fn any_map_ends_balanced_with_the_least_moves() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let (old, first, new) = (1 + random(12), random(6) as u16, 1 + random(12));
            let slots: Vec<u16> = (0..BUCKETS).map(|_| (random(old) * random(old) % old) as u16).collect();
            let map = BucketMap::from_slice(&slots).unwrap();
            let nodes: Vec<u16> = (first..first + new as u16).collect();
            let moves = map.rebalanced(&nodes);
            let balanced = after(&map, &moves);
            assert_eq!(balanced.nodes(), nodes);
            let share = BUCKETS / nodes.len();
            assert!(counts(&balanced).iter().all(|(_, count)| (share..=share + 1).contains(count)));
            assert_eq!(moves.len(), moves_min(&map, &nodes));
            assert_eq!(balanced.rebalanced(&nodes), []);
        }
    }

    /// By another road: of all ways to give the larger shares away, the one that keeps most buckets where they are.
    fn moves_min(map: &BucketMap, nodes: &[u16]) -> usize {
        let owned = map.owned_by_node();
        let (share, rest) = (BUCKETS / nodes.len(), BUCKETS % nodes.len());
        let mut kept: Vec<usize> = vec![0; rest + 1];
        for node in nodes {
            let count = owned.get(node).map_or(0, Vec::len);
            for larger in (0..=rest).rev() {
                let small = kept[larger] + count.min(share);
                let large = if larger > 0 { kept[larger - 1] + count.min(share + 1) } else { 0 };
                kept[larger] = small.max(large);
            }
        }
        BUCKETS - kept.into_iter().max().unwrap()
    }

    #[test]
    fn low_buckets_move_as_the_others_do() {
        let map = BucketMap::round_robin(&[0, 1]);
        let moved = map.rebalanced(&[0, 1, 2, 3]);
        let low = moved.iter().filter(|(bucket, ..)| *bucket < 100).count();
        assert!((45..=55).contains(&low), "{low}");
        let to_the_third = moved.iter().filter(|(bucket, _, to)| *bucket < 100 && *to == 2).count();
        assert!((20..=30).contains(&to_the_third), "{to_the_third}");
    }
}
