//! Datanodes that are gone for good: what is gone with them, and how they are given up, in one database after the other, the first one
//! last.

use std::collections::BTreeMap;

use pgerror::{PgError, Result, SqlState, field};

use super::{Member, UNSETTLED, coordinator_for, databases, find, label_in, members, primary, wait_for_databases};
use crate::config::Config;
use crate::progress::Progress;
use crate::sql::{Session, identifier};

/// What lost datanodes alone held of a database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Loss {
    #[allow(missing_docs)]
    pub database: String,
    /// With rows there that nobody else has.
    pub tables: Vec<LostRows>,
    /// Number of each bucket map that has buckets there, and how many.
    pub maps: Vec<(u32, usize)>,
    /// Transactions that nobody else knows the outcome of, and where they are prepared. They will be committed.
    pub in_doubt: Vec<(String, String)>,
}

/// Rows of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRows {
    /// Quoted, with its schema.
    pub table: String,
    /// Which of them, for people.
    pub which: String,
    /// Estimated from what the other datanodes have; `None` where they have nothing.
    pub rows: Option<u64>,
}

/// Per table: name, letter, how many buckets of its map lie there, on how many datanodes it lies, and on how many of the lost ones.
const TABLES_SQL: &str = "SELECT k.relid::regclass::text, k.locator, (SELECT count(*) FROM unnest(m.nodes) AS n WHERE n = ANY ($1)), \
       count(DISTINCT o.n), count(DISTINCT o.n) FILTER (WHERE o.n = ANY ($1)) \
     FROM loxo.class AS k JOIN pg_class AS c ON c.oid = k.relid LEFT JOIN loxo.bucket_map AS m ON m.id = k.map_id \
     CROSS JOIN LATERAL unnest(coalesce(k.nodes, m.nodes)) AS o (n) WHERE c.relkind IN ('r', 'm') \
     GROUP BY k.relid, k.locator, m.nodes HAVING bool_or(o.n = ANY ($1)) ORDER BY 1";

const MAPS_SQL: &str = "SELECT m.id, count(*) FROM loxo.bucket_map AS m CROSS JOIN unnest(m.nodes) AS n \
     WHERE n = ANY ($1) GROUP BY m.id ORDER BY m.id";

const ROWS_SQL: &str = "SELECT k.relid::regclass::text, c.reltuples::int8 FROM loxo.class AS k \
     JOIN pg_class AS c ON c.oid = k.relid WHERE c.relkind IN ('r', 'm') AND c.reltuples >= 0";

const BUCKETS: u64 = placement::BUCKETS as u64;

/// What would be gone, database by database. Refused are the primary datanode and one that answers.
pub async fn loss(config: &Config, names: &[String]) -> Result<Vec<Loss>> {
    let mut all = Vec::new();
    for (config, lost, others) in known_holders(config, names).await? {
        for member in &lost {
            can_be_given_up(&config, member).await?;
        }
        all.push(loss_in(&config, &lost, &others).await?);
    }
    Ok(all)
}

/// A database, its lost datanodes, and the others.
type Holder = (Config, Vec<Member>, Vec<Member>);

/// The databases that have some of these datanodes, the first one last.
async fn holders(config: &Config, names: &[String]) -> Result<Vec<Holder>> {
    let mut holders: Vec<Holder> = Vec::new();
    for config in databases(config).await? {
        let (lost, others) = members(&config).await?.into_iter().partition(|member| names.contains(&member.name));
        holders.push((config, lost, others));
    }
    holders.rotate_left(1);
    holders.retain(|(_, lost, _)| !lost.is_empty());
    Ok(holders)
}

/// Each of the datanodes has one.
async fn known_holders(config: &Config, names: &[String]) -> Result<Vec<Holder>> {
    let mut all = holders(config, names).await?;
    if unheld(names, &all).is_some() {
        all = later_holders(config, names).await?;
    }
    match unheld(names, &all) {
        None => Ok(all),
        Some(unknown) => find(&members(config).await?, unknown).map(|_| all),
    }
}

fn unheld<'n>(names: &'n [String], holders: &[Holder]) -> Option<&'n String> {
    names.iter().find(|name| !holders.iter().any(|(_, lost, _)| lost.iter().any(|member| member.name == **name)))
}

async fn loss_in(config: &Config, lost: &[Member], others: &[Member]) -> Result<Loss> {
    let (mut rows, mut in_doubt) = (BTreeMap::new(), Vec::new());
    for other in others {
        let session = Session::connect(&config.endpoint(&other.host, other.port)?).await.map_err(|error| {
            let message = format!("{}: {}", other.name, error.message());
            error.with(field::MESSAGE, message).hint("If it is lost too, name it in the same command.")
        })?;
        add_rows(&session, &mut rows).await?;
        for Member { id, .. } in lost {
            let gids = format!(
                "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, 'loxo_1_{id}_') AND database = current_database() \
                 ORDER BY prepared"
            );
            let gids = session.rows(&gids).await?.into_iter().flatten().flatten();
            in_doubt.extend(gids.map(|gid| (gid, other.name.clone())));
        }
    }
    let primary = primary(config).await?;
    let ids: Vec<String> = lost.iter().map(|member| member.id.to_string()).collect();
    let about = |sql: &str| sql.replace("$1", &format!("'{{{}}}'::int2[]", ids.join(",")));
    let mut tables = Vec::new();
    for row in primary.rows(&about(TABLES_SQL)).await? {
        tables.extend(lost_rows(row, &rows));
    }
    let number = |value: Option<String>| value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let map = |row: Vec<Option<String>>| {
        let mut row = row.into_iter().map(number);
        (row.next().unwrap_or(0) as u32, row.next().unwrap_or(0) as usize)
    };
    let maps = primary.rows(&about(MAPS_SQL)).await?.into_iter().map(map).collect();
    Ok(Loss { database: config.cluster.database.clone(), tables, maps, in_doubt })
}

async fn can_be_given_up(config: &Config, member: &Member) -> Result<()> {
    let name = &member.name;
    if member.is_primary {
        let text = format!("{name} is the primary datanode, which the cluster cannot do without");
        return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, text)
            .hint("Restore it from a backup, or promote a standby of it at its address."));
    }
    match answers(config, member).await {
        Ok(()) => Err(PgError::new(SqlState::OBJECT_IN_USE, format!("{name} answers, and is not lost"))
            .hint("Without --lost its rows are moved to the other datanodes first.")),
        Err(_) => Ok(()),
    }
}

pub(super) async fn answers(config: &Config, member: &Member) -> Result<()> {
    Session::connect(&config.endpoint(&member.host, member.port)?).await.map(drop)
}

async fn add_rows(session: &Session, rows: &mut BTreeMap<String, u64>) -> Result<()> {
    for row in session.rows(ROWS_SQL).await? {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let (table, count) = (row.next().unwrap_or_default(), row.next().unwrap_or_default());
        *rows.entry(table).or_default() += count.parse().unwrap_or(0);
    }
    Ok(())
}

/// `None` if others have the same rows.
fn lost_rows(row: Vec<Option<String>>, elsewhere: &BTreeMap<String, u64>) -> Option<LostRows> {
    let mut row = row.into_iter().map(Option::unwrap_or_default);
    let (table, locator) = (row.next()?, row.next()?);
    let mut number = || row.next()?.parse::<u64>().ok();
    let (buckets, nodes, lost) = (number()?, number()?, number()?);
    let rows = elsewhere.get(&table).copied();
    let share =
        |part: u64, of: u64| rows.map(|rows| (u128::from(rows) * u128::from(part) / u128::from(of.max(1))) as u64);
    let (which, rows) = match locator.as_str() {
        _ if nodes == lost => ("all: they lie nowhere else".to_owned(), None),
        "R" => return None,
        "N" => (format!("those of {lost} of {nodes} datanodes"), share(lost, nodes - lost)),
        _ => (format!("those in {buckets} of {BUCKETS} buckets"), share(buckets, BUCKETS - buckets)),
    };
    Some(LostRows { table, which, rows })
}

/// Takes datanodes out of the cluster with all that they alone held. Their servers, if there are any, are not asked. After an
/// interruption another call goes on with the databases that still have them.
pub async fn give_up(config: &Config, names: &[String], progress: &Progress) -> Result<()> {
    wait_for_databases(config, "state = 'leaving'").await?;
    let mut all = known_holders(config, names).await?;
    while !all.is_empty() {
        for (config, lost, _) in &all {
            let label = label_in(config, all.len() > 1);
            drop_in(config, lost, &label, progress).await?;
        }
        all = holders(config, names).await?;
        if all.is_empty() {
            all = later_holders(config, names).await?;
        }
    }
    Ok(())
}

async fn drop_in(config: &Config, lost: &[Member], label: &str, progress: &Progress) -> Result<()> {
    // On the other datanodes transactions may be in doubt that a session would wait for which sees all of them as of one moment.
    let session = coordinator_for(config, "-c loxo.snapshot=local").await?;
    let names: Vec<String> = lost.iter().map(|member| identifier(&member.name)).collect();
    let drop = format!("DROP NODE {} LOST", names.join(", "));
    progress.step(&format!("{label}waiting for {drop}"), session.run(&drop)).await?;
    txn::control_point!("lost-leaves-the-next-database");
    Ok(())
}

/// Has no database this datanode any more?
pub(crate) async fn is_given_up(config: &Config, name: &str) -> Result<bool> {
    let names = [name.to_owned()];
    Ok(holders(config, &names).await?.is_empty() && later_holders(config, &names).await?.is_empty())
}

/// [`holders`] when all databases are ready: one that was being renamed is so when the datanode has left the first one, and may have it still.
async fn later_holders(config: &Config, names: &[String]) -> Result<Vec<Holder>> {
    match wait_for_databases(config, UNSETTLED).await? {
        None => holders(config, names).await,
        Some(name) => {
            let text = format!("database {name} is being created, renamed or dropped");
            Err(PgError::new(SqlState::OBJECT_IN_USE, text).hint("Run the same command again when that has ended."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_estimated_from_those_of_the_others() {
        let elsewhere = BTreeMap::from([("t".to_owned(), 300), ("empty".to_owned(), 0)]);
        let of = |table: &str, locator: &str, numbers: [u64; 3]| {
            let row =
                [table.to_owned(), locator.to_owned()].into_iter().chain(numbers.map(|number| number.to_string()));
            lost_rows(row.map(Some).collect(), &elsewhere).map(|lost| (lost.which, lost.rows))
        };
        assert_eq!(of("t", "H", [1024, 4, 1]), Some(("those in 1024 of 4096 buckets".to_owned(), Some(100))));
        assert_eq!(of("t", "N", [0, 3, 2]), Some(("those of 2 of 3 datanodes".to_owned(), Some(600))));
        assert_eq!(of("t", "R", [0, 3, 1]), None);
        assert_eq!(of("t", "R", [0, 2, 2]), Some(("all: they lie nowhere else".to_owned(), None)));
        assert_eq!(of("unknown", "H", [1, 2, 1]).unwrap().1, None);
    }
}
