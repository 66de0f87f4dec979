//! Transactions of ours that are prepared and not decided.

use pgerror::Result;
use serde::Serialize;

use crate::sql::Session;

/// A prepared transaction of ours that is not decided on this node.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct InDoubt {
    pub node: String,
    pub gid: String,
    /// Time of PREPARE, as the datanode prints it.
    pub prepared: String,
    /// Since then, by the datanode's clock.
    pub age_seconds: u64,
    pub owner: String,
    pub database: String,
}

impl InDoubt {
    /// All of it, for a list.
    pub fn line(&self) -> String {
        let Self { node, gid, prepared, owner, database, age_seconds } = self;
        format!("{gid} on {node}, prepared {prepared} ({age_seconds} s ago) by {owner} in {database}")
    }
}

/// The undecided transactions of a datanode.
pub(crate) async fn of_datanode(node: &str, session: &Session) -> Result<Vec<InDoubt>> {
    // Those that users prepared and keep (`loxo_user_…`) are in nobody's doubt.
    let sql = "SELECT gid, prepared, greatest(extract(epoch FROM clock_timestamp() - prepared), 0)::int8, owner, database \
        FROM pg_catalog.pg_prepared_xacts WHERE gid LIKE 'loxo%' \
        AND (NOT starts_with(gid, 'loxo_user_') OR gid IN (SELECT gid FROM loxo.finishing)) ORDER BY prepared";
    let in_doubt = |row: Vec<Option<String>>| {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || row.next().unwrap_or_default();
        let (gid, prepared, age_seconds) = (next(), next(), next().parse().unwrap_or(0));
        InDoubt { node: node.to_owned(), gid, prepared, age_seconds, owner: next(), database: next() }
    };
    Ok(session.rows(sql).await?.into_iter().map(in_doubt).collect())
}
