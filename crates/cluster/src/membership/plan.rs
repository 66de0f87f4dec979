//! What `ALTER CLUSTER REBALANCE`, and its LEVEL, would move.

use std::collections::BTreeMap;

use pgerror::{PgError, Result};
use placement::{BUCKETS, BucketMap};

use super::{Member, primary, read_members};
use crate::config::Config;
use crate::sql::Session;

/// Buckets on their way from one datanode to another, and what is estimated to be in them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Move {
    pub from: String,
    pub to: String,
    pub buckets: Vec<u16>,
    pub rows: u64,
    pub bytes: u64,
}

const MAP_SQL: &str = "SELECT array_to_string(nodes, ' ') FROM loxo.bucket_map WHERE id = 1";

/// Rows and bytes, with indexes, of the tables that the map is for.
const IN_BUCKETS_SQL: &str = "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::int8, \
     coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 \
     FROM pg_class AS c JOIN loxo.class AS k ON k.relid = c.oid WHERE c.relkind = 'r' AND k.map_id = 1";

/// The moves that give every datanode its share of the buckets, by `from` and `to`. Nothing is moved.
pub async fn plan(config: &Config) -> Result<Vec<Move>> {
    let session = primary(config).await?;
    let (map, members) = (read_map(&session).await?, read_members(config, &session).await?);
    let mut holds = BTreeMap::new();
    for member in &members {
        holds.insert(member.id, in_buckets(config, member).await?);
    }
    Ok(moves(&map, &members, &holds))
}

/// The map of tables that are distributed over all datanodes.
pub(super) async fn read_map(primary: &Session) -> Result<BucketMap> {
    let text = primary.value(MAP_SQL).await?.unwrap_or_default();
    let nodes: Vec<u16> = text.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    BucketMap::from_slice(&nodes).ok_or_else(|| PgError::internal(format!("a bucket map of {} buckets", nodes.len())))
}

/// Rows and bytes.
async fn in_buckets(config: &Config, member: &Member) -> Result<(u64, u64)> {
    let session = Session::connect(&config.endpoint(&member.host, member.port)?).await?;
    let row = session.rows(IN_BUCKETS_SQL).await?.into_iter().next().unwrap_or_default();
    let mut values = row.into_iter().map(|value| value.and_then(|value| value.parse().ok()).unwrap_or(0));
    Ok((values.next().unwrap_or(0), values.next().unwrap_or(0)))
}

fn moves(map: &BucketMap, members: &[Member], holds: &BTreeMap<u16, (u64, u64)>) -> Vec<Move> {
    let ids: Vec<u16> = members.iter().map(|member| member.id).collect();
    let mut by_way: BTreeMap<(u16, u16), Vec<u16>> = BTreeMap::new();
    for (bucket, from, to) in map.rebalanced(&ids) {
        by_way.entry((from, to)).or_default().push(bucket);
    }
    let one = |((from, to), buckets): ((u16, u16), Vec<u16>)| {
        let owned = map.as_slice().iter().filter(|node| **node == from).count();
        let (rows, bytes) = holds.get(&from).copied().unwrap_or_default();
        let share = |whole: u64| share(whole, buckets.len(), owned);
        Move { from: name_of(members, from), to: name_of(members, to), rows: share(rows), bytes: share(bytes), buckets }
    };
    by_way.into_iter().map(one).collect()
}

/// What is in `part` of `of` buckets.
fn share(whole: u64, part: usize, of: usize) -> u64 {
    debug_assert!(part <= of && of <= BUCKETS);
    (u128::from(whole) * part as u128 / of.max(1) as u128) as u64
}

/// Rows of a table without a key on their way from one datanode to another.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Levelling {
    /// `schema.table`, quoted.
    pub table: String,
    pub from: String,
    pub to: String,
    pub rows: u64,
}

/// Tables without a key that hold rows themselves, and their nodes.
const SCATTERED_SQL: &str = "SELECT format('%I.%I', n.nspname, c.relname), array_to_string(k.nodes, ' ') \
     FROM loxo.class AS k JOIN pg_class AS c ON c.oid = k.relid JOIN pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE k.locator = 'N' AND c.relkind = 'r' AND cardinality(k.nodes) > 1 ORDER BY 1";

/// The moves that give each datanode of a table without a key as many of its rows, which are counted. Nothing is moved.
pub async fn level_plan(config: &Config) -> Result<Vec<Levelling>> {
    let session = primary(config).await?;
    let members = read_members(config, &session).await?;
    let mut sessions = BTreeMap::new();
    for member in &members {
        sessions.insert(member.id, Session::connect(&config.endpoint(&member.host, member.port)?).await?);
    }
    let mut plan = Vec::new();
    for row in session.rows(SCATTERED_SQL).await? {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let (table, nodes) = (row.next().unwrap_or_default(), row.next().unwrap_or_default());
        let mut owned = Vec::new();
        for id in nodes.split_whitespace().filter_map(|id| id.parse::<u16>().ok()) {
            let Some(session) = sessions.get(&id) else { continue };
            let rows = session.value(&format!("SELECT count(*) FROM ONLY {table}")).await?;
            owned.push((id, rows.and_then(|rows| rows.parse().ok()).unwrap_or(0)));
        }
        let moves = placement::levelled(&owned).into_iter();
        plan.extend(moves.map(|(from, to, rows)| Levelling {
            table: table.clone(),
            from: name_of(&members, from),
            to: name_of(&members, to),
            rows,
        }));
    }
    Ok(plan)
}

fn name_of(members: &[Member], id: u16) -> String {
    let member = members.iter().find(|member| member.id == id);
    member.map_or_else(|| format!("node {id}"), |member| member.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u16) -> Member {
        Member { id, name: format!("dn{}", id + 1), host: "h".into(), port: 1, is_primary: id == 0 }
    }

    #[test]
    fn moves_are_summed_up_by_their_way_with_the_share_of_the_rows() {
        let map = BucketMap::round_robin(&[0, 1]);
        let members = [member(0), member(1), member(2)];
        let holds = BTreeMap::from([(0, (2_048_000, 2048)), (1, (0, 0))]);
        let moves = moves(&map, &members, &holds);
        let ways: Vec<(&str, &str, usize, u64)> =
            moves.iter().map(|m| (m.from.as_str(), m.to.as_str(), m.buckets.len(), m.rows)).collect();
        assert_eq!(ways, [("dn1", "dn3", 682, 682_000), ("dn2", "dn3", 683, 0)]);
        assert_eq!(moves[0].bytes, 682);
    }
}
