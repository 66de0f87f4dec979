//! Which rows move so that a table without a distribution key has as many on each of its nodes.

/// A node may have so many percent more or less than its share: new rows are dealt in turn, but deleted where they are.
const SLACK_PERCENT: u64 = 1;

/// The moves `(from, to, rows)`, by `from`, after which each node has its share of the rows, rounded up or down; none if each
/// has nearly that. `owned` says how many rows each node has. No moves of fewer rows do that.
pub fn levelled(owned: &[(u16, u64)]) -> Vec<(u16, u16, u64)> {
    let whole: u64 = owned.iter().map(|(_, rows)| rows).sum();
    let nodes = (owned.len() as u64).max(1);
    let (share, rest) = (whole / nodes, (whole % nodes) as usize);
    let slack = share * SLACK_PERCENT / 100;
    // Shares that are rounded up are those of the fullest nodes: these would have to give one row more otherwise.
    let mut fullest_first = owned.to_vec();
    fullest_first.sort_by_key(|(node, rows)| (std::cmp::Reverse(*rows), *node));
    let quotas =
        fullest_first.iter().enumerate().map(|(place, (node, rows))| (*node, *rows, share + u64::from(place < rest)));
    let quotas: Vec<(u16, u64, u64)> = quotas.collect();
    if quotas.iter().all(|(_, rows, quota)| rows.abs_diff(*quota) <= slack) {
        return Vec::new();
    }
    let mut missing: Vec<(u16, u64)> =
        quotas.iter().map(|(node, rows, quota)| (*node, quota.saturating_sub(*rows))).collect();
    let mut moves = Vec::new();
    for (from, rows, quota) in &quotas {
        let mut surplus = rows.saturating_sub(*quota);
        for (to, wanted) in &mut missing {
            let given = surplus.min(*wanted);
            if given > 0 {
                moves.push((*from, *to, given));
            }
            (surplus, *wanted) = (surplus - given, *wanted - given);
        }
        debug_assert_eq!(surplus, 0, "what is given is what is missing");
    }
    moves.sort_unstable();
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(owned: &[(u16, u64)]) -> Vec<u64> {
        let mut rows: std::collections::BTreeMap<u16, u64> = owned.iter().copied().collect();
        for (from, to, moved) in levelled(owned) {
            *rows.get_mut(&from).unwrap() -= moved;
            *rows.get_mut(&to).unwrap() += moved;
        }
        rows.into_values().collect()
    }

    #[test]
    fn a_new_node_gets_its_share_and_nothing_else_moves() {
        assert_eq!(levelled(&[(1, 300), (2, 300), (5, 0)]), [(1, 5, 100), (2, 5, 100)]);
        assert_eq!(levelled(&[(1, 0), (2, 7)]), [(2, 1, 3)]);
        assert_eq!(levelled(&[(1, 100), (2, 0), (3, 0), (4, 0)]), [(1, 2, 25), (1, 3, 25), (1, 4, 25)]);
    }

    #[test]
    fn shares_are_even() {
        assert_eq!(after(&[(1, 5), (2, 5), (3, 0)]), [4, 3, 3]);
        assert_eq!(after(&[(1, 1), (2, 0), (3, 0)]), [1, 0, 0]);
        assert_eq!(after(&[(1, 90), (2, 10), (3, 70), (4, 31)]), [51, 50, 50, 50]);
    }

    #[test]
    fn what_is_nearly_even_stays() {
        assert_eq!(levelled(&[(1, 10_050), (2, 9_950)]), []);
        assert_eq!(levelled(&[(1, 10_150), (2, 9_850)]), [(1, 2, 150)]);
        assert_eq!(levelled(&[(1, 1), (2, 1)]), []);
        assert_eq!(levelled(&[(1, 1), (2, 0)]), []);
        assert_eq!(levelled(&[(3, 12)]), []);
        assert_eq!(levelled(&[]), []);
    }
}
