//! What `loxo check --data --repair` does to a table: said first, then done by a coordinator in one transaction, `ALTER CLUSTER REPAIR`.

use pgerror::Result;

use super::{Node, Place, Seen, Table};
use crate::config::Config;
use crate::membership;
use crate::sql::Session;

/// A table that can be repaired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repair {
    /// Quoted, with its schema.
    pub table: String,
    /// What will be done, for people.
    pub plan: Vec<String>,
}

impl Repair {
    /// Does it; gives what was done.
    pub async fn run(&self, config: &Config) -> Result<Vec<String>> {
        let session = membership::coordinator(config).await?;
        session.run_noting(&format!("ALTER CLUSTER REPAIR {}", self.table)).await
    }
}

/// `None` if nothing is wrong, or if it is not known everywhere what there is.
pub(super) async fn plan(
    table: &Table,
    nodes: &[Node],
    primary: &Session,
    seen: &[Option<Seen>],
) -> Result<Option<Repair>> {
    if seen.iter().any(|seen| matches!(seen, Some(Seen::Error(_)))) {
        return Ok(None);
    }
    let mut plan = Vec::new();
    for (node, seen) in nodes.iter().zip(seen) {
        if let Some(Seen::Misplaced(count @ 1..)) = seen {
            plan.push(format!("{} on {} {}", rows(*count), node.name, fate(table)));
        }
    }
    if let Place::Copies(list) = &table.place
        && let Some(first) = first_copy(primary, list).await?
    {
        plan.extend(copies(nodes, seen, &first));
    }
    Ok((!plan.is_empty()).then(|| Repair { table: table.name.clone(), plan }))
}

fn fate(table: &Table) -> &'static str {
    match &table.place {
        Place::Keyed { .. } => "will be moved to where the key says, or deleted where the same is there already",
        Place::Anywhere(_) => "will be moved to the first datanode of the table",
        Place::Copies(_) => "will be deleted where the copies have the same",
    }
}

/// The one that the others are made like, as the coordinator chooses it.
async fn first_copy(primary: &Session, list: &[u16]) -> Result<Option<String>> {
    let list: Vec<String> = list.iter().map(u16::to_string).collect();
    let sql = format!(
        "SELECT name FROM loxo.node WHERE type = 'D' AND id = ANY ('{{{}}}') ORDER BY is_primary DESC, is_preferred DESC, id LIMIT 1",
        list.join(",")
    );
    primary.value(&sql).await
}

fn copies(nodes: &[Node], seen: &[Option<Seen>], first: &str) -> Vec<String> {
    let copy = |(node, seen): (&Node, &Option<Seen>)| match seen {
        Some(Seen::Copy(count, sum)) => Some((node.name.clone(), *count, sum.clone())),
        _ => None,
    };
    let copies: Vec<(String, u64, String)> = nodes.iter().zip(seen).filter_map(copy).collect();
    let Some((_, wanted, sum)) = copies.iter().find(|(name, ..)| name == first) else { return Vec::new() };
    let others = copies.iter().filter(|(_, count, other)| (count, other) != (wanted, sum));
    others
        .map(|(name, count, _)| format!("{} on {name} will be replaced by {wanted} of {first}", rows(*count)))
        .collect()
}

fn rows(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}
