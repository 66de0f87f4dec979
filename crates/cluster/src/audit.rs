//! `loxo check --data`: does every row lie where its key says, is none there twice, are all copies alike?
//!
//! ```text
//!  all nodes: one snapshot each, taken together ─ every table, no lock ─ whatever looks wrong: again, under SHARE locks
//! ```
//!
//! What the first look finds may be a change on its way from one node to another. The second look is exact: a SHARE lock on all
//! nodes waits for every transaction that has written to the table, prepared ones too. Only what it finds is told.
//!
//! Invariant: nothing is changed, and a table is locked only while it is looked at for the second time. What `--repair` does to the
//! tables is a statement of its own, by a coordinator ([`Repair`]).

mod repair;

use std::collections::BTreeMap;
use std::sync::Arc;

use pgerror::{PgError, Result};
use placement::KeyType;

use crate::check::{Finding, Level};
use crate::config::Config;
use crate::membership;
use crate::progress::Progress;
use crate::sql::{Session, literal};

pub use repair::Repair;

/// What a look at all tables gave.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Audit {
    pub tables: usize,
    pub findings: Vec<Finding>,
    /// Repairs of tables that could be read everywhere.
    pub repairs: Vec<Repair>,
}

/// Values are compared as text: it must not depend on a node's settings.
const SETTINGS: &str = "SET search_path = pg_catalog; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; \
     SET TimeZone = 'UTC'; SET extra_float_digits = 1; SET bytea_output = 'hex'; SET lc_monetary = 'C'; \
     SET row_security = off; SET statement_timeout = 0";

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A transaction that writes to a suspicious table may take so long before it is told that it cannot be checked.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '10s'";

/// Rows in the wrong place whose keys are looked for on the other nodes.
const KEYS_MAX: usize = 10_000;

/// The tables with rows of their own. (A materialized view has its rows on one node, where it can be refreshed.)
const TABLES_SQL: &str = "SELECT k.relid, quote_ident(n.nspname) || '.' || quote_ident(c.relname), k.locator, k.map_id, \
     array_to_string(k.nodes, ' ') FROM loxo.class k JOIN pg_class c ON c.oid = k.relid \
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' ORDER BY 2";

/// Names and types of distribution keys; of a domain the type under it.
const KEYS_SQL: &str = "SELECT k.relid, quote_ident(a.attname), base.oid FROM loxo.class k \
     CROSS JOIN unnest(k.key_columns) WITH ORDINALITY u (number, place) \
     JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = u.number \
     CROSS JOIN LATERAL (WITH RECURSIVE b (oid) AS (SELECT a.atttypid \
       UNION ALL SELECT t.typbasetype FROM b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype = 'd') \
       SELECT b.oid FROM b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype <> 'd') base ORDER BY k.relid, u.place";

/// Unique keys over plain columns.
const UNIQUE_SQL: &str = "SELECT i.indrelid, c.relname, (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY u.place) \
       FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY u (number, place) \
       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.number) \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN loxo.class k ON k.relid = i.indrelid \
     WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL";

#[derive(Clone, Debug)]
struct Table {
    name: String,
    place: Place,
    /// Name and columns of unique keys.
    unique: Vec<(String, String)>,
}

/// Where rows belong.
#[derive(Clone, Debug)]
enum Place {
    /// A condition that is true of rows on the wrong node.
    Keyed { misplaced: String },
    /// All rows on each of these nodes.
    Copies(Vec<u16>),
    /// Anywhere on these nodes.
    Anywhere(Vec<u16>),
}

/// What a node has of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    /// Number of rows that do not belong there.
    Misplaced(u64),
    /// The number of rows of a copy, and a sum that does not depend on their order.
    Copy(u64, String),
    Error(String),
}

struct Node {
    id: u16,
    name: String,
    session: Session,
}

/// Looks at the rows of all tables of a cluster.
pub async fn audit(config: &Config, progress: &Progress) -> Result<Audit> {
    let nodes = Arc::new(connect(config).await?);
    // The primary datanode is the one with the lowest id.
    let primary = 0;
    for node in nodes.iter() {
        // The first query takes the snapshot.
        node.session.run(&format!("{BEGIN}; SELECT 1")).await?;
    }
    let tables = Arc::new(tables(&nodes[primary].session).await?);
    let label = format!("looking at the rows of {} tables", tables.len());
    let seen = progress.step(&label, look(&nodes, &tables)).await?;
    for node in nodes.iter() {
        node.session.run("ROLLBACK").await?;
    }
    let mut audit = Audit { tables: tables.len(), ..Audit::default() };
    for (table, seen) in tables.iter().zip(seen) {
        if judge(table, &nodes, &seen).is_empty() {
            continue;
        }
        let label = format!("looking at {} again", table.name);
        let (findings, repair) = progress.step(&label, look_locked(&nodes, primary, &table.name)).await?;
        audit.findings.extend(findings);
        audit.repairs.extend(repair);
    }
    Ok(audit)
}

async fn connect(config: &Config) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for node in membership::members(config).await? {
        let session = Session::connect(&config.endpoint(&node.host, node.port)?).await?;
        session.run(SETTINGS).await?;
        nodes.push(Node { id: node.id, name: node.name, session });
    }
    Ok(nodes)
}

async fn tables(primary: &Session) -> Result<Vec<Table>> {
    let mut keys: BTreeMap<String, Vec<(KeyType, String)>> = BTreeMap::new();
    for row in primary.rows(KEYS_SQL).await? {
        let [relid, name, oid] = fields(row)?;
        let key_type = oid.parse().ok().and_then(KeyType::from_oid);
        let key_type = key_type.ok_or_else(|| PgError::internal(format!("key column {name} of type {oid}")))?;
        keys.entry(relid).or_default().push((key_type, name));
    }
    let mut unique: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in primary.rows(UNIQUE_SQL).await? {
        let [relid, name, columns] = fields(row)?;
        unique.entry(relid).or_default().push((name, columns));
    }
    let mut tables = Vec::new();
    for row in primary.rows(TABLES_SQL).await? {
        let [relid, name, locator, map, nodes] = fields(row)?;
        let key = keys.remove(&relid).unwrap_or_default();
        let nodes = || nodes.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        let place = match locator.as_str() {
            "R" => Place::Copies(nodes()),
            "N" => Place::Anywhere(nodes()),
            _ => Place::Keyed { misplaced: misplaced(&locator, &map, &key)? },
        };
        tables.push(Table { name, place, unique: unique.remove(&relid).unwrap_or_default() });
    }
    Ok(tables)
}

fn fields<const N: usize>(row: Vec<Option<String>>) -> Result<[String; N]> {
    let values: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
    values.try_into().map_err(|_| PgError::internal("a row of other columns than asked for"))
}

fn misplaced(locator: &str, map: &str, key: &[(KeyType, String)]) -> Result<String> {
    let bucket = match (locator, key) {
        ("M", [(key_type, name)]) => key_type.sql_modulo_bucket(name).map(|bucket| format!("coalesce({bucket}, 0)")),
        ("H", [_, ..]) => {
            let key: Vec<(KeyType, &str)> = key.iter().map(|(key_type, name)| (*key_type, name.as_str())).collect();
            Some(placement::sql_bucket(&key))
        }
        _ => None,
    };
    let bucket =
        bucket.ok_or_else(|| PgError::internal(format!("a table distributed by {locator} has no such key")))?;
    Ok(format!(
        "(SELECT nodes FROM loxo.bucket_map WHERE id = {map})[1 + {bucket}] \
         IS DISTINCT FROM (SELECT node_id FROM loxo.identity)"
    ))
}

impl Table {
    /// What a node is asked; `None` if whatever it has is right.
    fn sql(&self, node: u16) -> Option<String> {
        let name = &self.name;
        match &self.place {
            Place::Keyed { misplaced } => Some(format!("SELECT count(*) FROM ONLY {name} WHERE {misplaced}")),
            Place::Copies(nodes) if nodes.contains(&node) => Some(format!(
                "SELECT count(*), coalesce(sum(hashtextextended((loxo_t.*)::text COLLATE \"C\", 0)), 0) \
                 FROM ONLY {name} AS loxo_t"
            )),
            Place::Anywhere(nodes) if nodes.contains(&node) => None,
            Place::Copies(_) | Place::Anywhere(_) => Some(format!("SELECT count(*) FROM ONLY {name}")),
        }
    }

    /// A query that shows the rows which do not belong where they are.
    fn sql_to_see(&self) -> String {
        match &self.place {
            Place::Keyed { misplaced } => format!("SELECT * FROM ONLY {} WHERE {misplaced}", self.name),
            Place::Copies(_) | Place::Anywhere(_) => format!("SELECT * FROM ONLY {}", self.name),
        }
    }
}

/// What each node has of each table; all nodes at once.
async fn look(nodes: &Arc<Vec<Node>>, tables: &Arc<Vec<Table>>) -> Result<Vec<Vec<Option<Seen>>>> {
    let mut tasks = Vec::new();
    for place in 0..nodes.len() {
        let (nodes, tables) = (nodes.clone(), tables.clone());
        tasks.push(tokio::spawn(async move {
            let mut seen = Vec::with_capacity(tables.len());
            for table in tables.iter() {
                let one = see(&nodes[place], table).await;
                if let Some(Seen::Error(_)) = one {
                    nodes[place].session.run(&format!("ROLLBACK; {BEGIN}")).await?;
                }
                seen.push(one);
            }
            Ok::<_, PgError>(seen)
        }));
    }
    let mut by_table = vec![Vec::new(); tables.len()];
    for task in tasks {
        let seen = task.await.map_err(|error| PgError::internal(error.to_string()))??;
        by_table.iter_mut().zip(seen).for_each(|(all, one)| all.push(one));
    }
    Ok(by_table)
}

async fn see(node: &Node, table: &Table) -> Option<Seen> {
    let rows = match node.session.rows(&table.sql(node.id)?).await {
        Ok(rows) => rows,
        Err(error) => return Some(Seen::Error(error.to_string())),
    };
    let mut values = rows.into_iter().next().unwrap_or_default().into_iter().flatten();
    let count = values.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    Some(values.next().map_or(Seen::Misplaced(count), |sum| Seen::Copy(count, sum)))
}

/// What is wrong with a table, after what its nodes have of it.
fn judge(table: &Table, nodes: &[Node], seen: &[Option<Seen>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |text: String, hint: String| {
        findings.push(Finding { level: Level::Error, subject: table.name.clone(), text, hint });
    };
    for (node, seen) in nodes.iter().zip(seen) {
        match seen {
            Some(Seen::Misplaced(count @ 1..)) => {
                let rows = if *count == 1 { "1 row does".to_owned() } else { format!("{count} rows do") };
                add(
                    format!("{rows} not belong on {}", node.name),
                    format!("On {}: {};", node.name, table.sql_to_see()),
                );
            }
            Some(Seen::Error(error)) => {
                add(format!("cannot be read on {}: {error}", node.name), "Look at the table on that node.".to_owned());
            }
            _ => {}
        }
    }
    let copies: Vec<(&str, u64, &str)> = (nodes.iter().zip(seen))
        .filter_map(|(node, seen)| match seen {
            Some(Seen::Copy(count, sum)) => Some((node.name.as_str(), *count, sum.as_str())),
            _ => None,
        })
        .collect();
    if copies.windows(2).any(|pair| (pair[0].1, pair[0].2) != (pair[1].1, pair[1].2)) {
        let counts: Vec<String> = copies.iter().map(|(name, count, _)| format!("{count} rows on {name}")).collect();
        let first = nodes.iter().find(|node| node.name == copies[0].0).map_or(0, |node| node.id);
        let text = format!("the copies differ ({})", counts.join(", "));
        add(text, format!("On each node: {};", table.sql(first).unwrap_or_default()));
    }
    findings
}

/// A second look, while nobody writes to the table on any node.
async fn look_locked(nodes: &[Node], primary: usize, name: &str) -> Result<(Vec<Finding>, Option<Repair>)> {
    let (mut found, mut repair) = (lock_all(nodes, name).await, None);
    if found.is_empty() {
        let tables = tables(&nodes[primary].session).await?;
        // It may have been dropped meanwhile.
        if let Some(table) = tables.iter().find(|table| table.name == name) {
            let mut seen = Vec::new();
            for node in nodes {
                seen.push(see(node, table).await);
            }
            found = judge(table, nodes, &seen);
            found.extend(twice(table, nodes, &seen).await?);
            repair = repair::plan(table, nodes, &nodes[primary].session, &seen).await?;
        }
    }
    for node in nodes {
        node.session.run("ROLLBACK").await?;
    }
    Ok((found, repair))
}

/// Locks a table on all nodes; says where that is not possible.
async fn lock_all(nodes: &[Node], name: &str) -> Vec<Finding> {
    let lock = format!("BEGIN; {LOCK_TIMEOUT}; LOCK TABLE ONLY {name} IN SHARE MODE");
    let mut findings = Vec::new();
    for node in nodes {
        let Err(error) = node.session.run(&lock).await else { continue };
        let text = format!("looks wrong, but cannot be locked on {} to make sure: {error}", node.name);
        let hint = "Run the check again when nobody writes to it.".to_owned();
        findings.push(Finding { level: Level::Error, subject: name.to_owned(), text, hint });
        break;
    }
    findings
}

/// Rows whose unique key is on another node too. Only one that lies in a wrong place can be.
async fn twice(table: &Table, nodes: &[Node], seen: &[Option<Seen>]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let Place::Keyed { misplaced } = &table.place else { return Ok(findings) };
    let wrong = seen.iter().enumerate().filter(|(_, seen)| matches!(seen, Some(Seen::Misplaced(1..))));
    for (id, _) in wrong {
        for (index, columns) in &table.unique {
            let hash = key_hash(&nodes[id].session, table, columns).await?;
            let keys = format!("SELECT {hash} FROM ONLY {} WHERE {misplaced} LIMIT {KEYS_MAX}", table.name);
            let keys =
                nodes[id].session.rows(&keys).await?.into_iter().flatten().flatten().collect::<Vec<_>>().join(",");
            let same =
                format!("FROM ONLY {} WHERE {hash} = ANY ({}::int8[])", table.name, literal(&format!("{{{keys}}}")));
            for (_, other) in nodes.iter().enumerate().filter(|(other, _)| *other != id) {
                let count = other.session.value(&format!("SELECT count(*) {same}")).await?;
                if count.as_deref().is_some_and(|count| count != "0") {
                    findings.push(Finding {
                        level: Level::Error,
                        subject: table.name.clone(),
                        text: format!(
                            "{} keys of unique index {index} are on {} and on {}",
                            count.unwrap_or_default(),
                            nodes[id].name,
                            other.name
                        ),
                        hint: format!("On both nodes: SELECT {columns} FROM ONLY {} ORDER BY {columns};", table.name),
                    });
                }
            }
        }
    }
    Ok(findings)
}

/// The hash of a unique key, NULL if a part of it is. Types without a hash function are told apart by their text.
async fn key_hash(session: &Session, table: &Table, columns: &str) -> Result<String> {
    let row = format!("ROW({columns})");
    let by_value = format!("CASE WHEN {row} IS NOT NULL THEN hash_record_extended({row}, 0) END");
    session.run("SAVEPOINT loxo_hash").await?;
    let tried = session.run(&format!("SELECT {by_value} FROM ONLY {} LIMIT 1", table.name)).await;
    session.run("ROLLBACK TO loxo_hash").await?;
    Ok(match tried {
        Ok(()) => by_value,
        Err(_) => format!("CASE WHEN {row} IS NOT NULL THEN hashtextextended({row}::text COLLATE \"C\", 0) END"),
    })
}
