//! Writes the metadata on every datanode: all of them or none.
//!
//! One two-phase commit with gid `loxo_init_<cluster id>`. The decision is the first datanode's commit: a later call
//! finds a prepared leftover, looks for its cluster id among the identities, and commits or rolls it back accordingly.

use std::fmt::Write;

use futures_util::future::{join_all, try_join_all};
use pgerror::{PgError, Result, SqlState};
use txn::decision::{LAYOUT, SCHEMA_SQL};

use crate::config::{COORDINATOR_ID_FIRST, Config, Datanode, GTM_ID, Gtm, gtm_name, invalid};
use crate::sql::{Session, literal};

/// The schema `loxo` and the views `pgxc_…`, without rows.
pub const METADATA_SQL: &str = concat!(
    include_str!("../sql/metadata.sql"),
    include_str!("../sql/sessions.sql"),
    include_str!("../sql/statistics.sql")
);

/// Two random keys in hexadecimal, one behind the other.
const KEYS_SQL: &str = "SELECT string_agg(encode(uuid_send(gen_random_uuid()), 'hex'), '') FROM generate_series(1, 8)";

const GID_PREFIX: &str = "loxo_init_";

/// Objects of users: an initialised or an empty server has none of its own.
const USER_OBJECTS_SQL: &str = "
    SELECT kind || ' ' || name FROM (
        SELECT 'schema' AS kind, nspname::text AS name FROM pg_catalog.pg_namespace
        WHERE oid >= 16384 AND nspname !~ '^pg_(toast_)?temp_'
        UNION ALL
        SELECT 'relation', c.oid::regclass::text FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid >= 16384 AND c.relkind NOT IN ('i', 't') AND n.nspname !~ '^pg_(toast_)?temp_'
        UNION ALL
        SELECT 'function', p.oid::regprocedure::text FROM pg_catalog.pg_proc p WHERE p.oid >= 16384
        UNION ALL
        SELECT 'type', t.oid::regtype::text FROM pg_catalog.pg_type t
        WHERE t.oid >= 16384 AND t.typrelid = 0 AND t.typelem = 0
        UNION ALL
        SELECT 'extension', e.extname FROM pg_catalog.pg_extension e WHERE e.oid >= 16384
    ) AS found ORDER BY kind <> 'schema', 1 LIMIT 5";

/// Roles and what is stored of their passwords; for superusers.
const VERIFIERS_SQL: &str = "
    SELECT rolname, rolpassword FROM pg_catalog.pg_authid
    WHERE (oid >= 16384 OR oid = 10) AND rolpassword LIKE 'SCRAM-SHA-256$%' ORDER BY 1";

/// A datanode with an open connection.
struct Node<'a> {
    id: usize,
    config: &'a Datanode,
    session: Session,
}

impl<'a> Node<'a> {
    async fn connect(config: &Config, id: usize, node: &'a Datanode) -> Result<Self> {
        let session = Session::connect(&config.endpoint(&node.host, node.port)?).await;
        Ok(Self { id, config: node, session: session.map_err(|e| at(node, e))? })
    }
}

/// Prepares the empty servers of a configuration to be the datanodes of one new cluster; returns its id. Refuses servers
/// that hold anything (55000), naming what was found. Also ends an earlier call that was interrupted; if that call had
/// decided to commit, its cluster's id is returned.
pub async fn init(config: &Config) -> Result<String> {
    if config.datanodes_by_id().enumerate().any(|(place, (id, _))| place != usize::from(id)) {
        return Err(invalid("a new cluster has no datanodes but those from id 0 on, without a hole".to_owned())
            .hint("Remove \"id\" from the datanodes in the configuration."));
    }
    let nodes =
        try_join_all(config.datanodes.iter().enumerate().map(|(id, node)| Node::connect(config, id, node))).await?;
    if let Some(cluster_id) = finish_interrupted(&nodes).await? {
        return Ok(cluster_id);
    }
    try_join_all(nodes.iter().map(async |node| check_empty(&node.session).await.map_err(|e| at(node.config, e))))
        .await?;
    let cluster_id = nodes[0].session.value("SELECT gen_random_uuid()").await?.unwrap_or_default();
    let token = nodes[0].session.value("SELECT gen_random_uuid()").await?.unwrap_or_default();
    let keys = nodes[0].session.value(KEYS_SQL).await?.unwrap_or_default();
    let primary = nodes.iter().find(|node| node.config.primary).unwrap_or(&nodes[0]);
    let secrets = Secrets { token, keys, passwords: passwords_sql(&primary.session.rows(VERIFIERS_SQL).await?) };
    let outcome = prepare_all(&nodes, config, &cluster_id, &secrets).await;
    let decision = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let end = async |node: &Node<'_>| {
        let ended = node.session.run(&format!("{decision} PREPARED '{GID_PREFIX}{cluster_id}'")).await;
        ended.map_err(|e| at(node.config, e))
    };
    // The first one's commit is the decision, so the others come after it. In an error's wake a node may have nothing prepared;
    // finish_interrupted sees to what stays behind.
    let (first, others) = nodes.split_at(1);
    let decided = join_all(first.iter().map(&end)).await;
    if outcome.is_ok() {
        decided.into_iter().collect::<Result<()>>()?;
    }
    let ended = join_all(others.iter().map(&end)).await;
    outcome?;
    ended.into_iter().collect::<Result<()>>()?;
    Ok(cluster_id)
}

/// What coordinators prove themselves by, and what is proven to them; the same on every datanode.
struct Secrets {
    token: String,
    keys: String,
    /// See [`passwords_sql`].
    passwords: String,
}

/// Gives roles that were made on each datanode by itself, with one password, the verifier of the primary datanode: each server
/// salts its own, and what a client proves to a coordinator is about one of them.
fn passwords_sql(verifiers: &[Vec<Option<String>>]) -> String {
    let of_role = |row: &Vec<Option<String>>| {
        let [Some(role), Some(verifier)] = row.as_slice() else { return String::new() };
        format!(
            "DO {};\n",
            literal(&format!(
                "BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_authid WHERE rolname = {name} AND rolpassword <> {verifier}) \
                 THEN EXECUTE pg_catalog.format('ALTER ROLE %I PASSWORD %L', {name}, {verifier}); END IF; END",
                name = literal(role),
                verifier = literal(verifier),
            ))
        )
    };
    verifiers.iter().map(of_role).collect()
}

impl Secrets {
    fn sql(&self) -> String {
        let (inner, outer) = self.keys.split_at(self.keys.len() / 2);
        format!(
            "INSERT INTO loxo.capture_token (token) VALUES ({}); \
             INSERT INTO loxo.seal (inner_key, outer_key) VALUES (decode({}, 'hex'), decode({}, 'hex')); {}",
            literal(&self.token),
            literal(inner),
            literal(outer),
            self.passwords
        )
    }
}

async fn prepare_all(nodes: &[Node<'_>], config: &Config, cluster_id: &str, secrets: &Secrets) -> Result<()> {
    let rows = rows_sql(config);
    let prepare = async |node: &Node<'_>| {
        let script = format!(
            "BEGIN;\nSET LOCAL client_min_messages = warning;\n{METADATA_SQL}\n{SCHEMA_SQL}\n{rows}\n\
             INSERT INTO loxo.identity (node_id, cluster_id, layout, system_identifier)\n\
             SELECT {}, {}, {LAYOUT}, system_identifier FROM pg_catalog.pg_control_system();\n{}\n\
             PREPARE TRANSACTION '{GID_PREFIX}{cluster_id}';",
            node.id,
            literal(cluster_id),
            secrets.sql()
        );
        if let Err(error) = node.session.run(&script).await {
            // The connection may still be inside the failed transaction.
            let _ = node.session.run("ROLLBACK").await;
            return Err(at(node.config, error));
        }
        Ok(())
    };
    join_all(nodes.iter().map(prepare)).await.into_iter().collect()
}

/// The rows that are the same on every datanode.
fn rows_sql(config: &Config) -> String {
    let mut sql = String::from("INSERT INTO loxo.node (id, name, type, host, port, is_primary, is_preferred) VALUES\n");
    for (id, node) in config.datanodes.iter().enumerate() {
        let (name, host) = (literal(&node.name), literal(&node.host));
        let (port, primary, preferred) = (node.port, node.primary, node.preferred);
        writeln!(sql, "({id}, {name}, 'D', {host}, {port}, {primary}, {preferred}),").expect("a String takes all");
    }
    for (i, node) in config.coordinators.iter().enumerate() {
        // The configuration was validated, so every address has its two parts.
        let (host, port) = node.address().unwrap_or_default();
        let (id, name, host) = (COORDINATOR_ID_FIRST + i, literal(&node.name), literal(&host));
        writeln!(sql, "({id}, {name}, 'C', {host}, {port}, false, false),").expect("a String takes all");
    }
    let gtms: Vec<String> = config.gtms.iter().enumerate().map(gtm_row).collect();
    let nodes = config.datanodes.len();
    write!(
        sql,
        "{};
         INSERT INTO loxo.bucket_map
             SELECT 1, array_agg((b % {nodes})::int2 ORDER BY b) FROM generate_series(0, 4095) AS b;
         INSERT INTO loxo.next_datanode (id) VALUES ({nodes});
         INSERT INTO loxo.catalog_version (version) VALUES (1);",
        gtms.join(",\n")
    )
    .expect("a String takes all");
    sql
}

/// Fails if the server holds anything.
pub(crate) async fn check_empty(session: &Session) -> Result<()> {
    let found = session.rows(USER_OBJECTS_SQL).await?;
    if found.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = found.into_iter().flatten().flatten().collect();
    let known = names.iter().any(|name| name == "schema loxo");
    let error = PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the server is not empty")
        .detail(format!("It holds, among others: {}.", names.join(", ")));
    Err(error.hint(match known {
        true => "It is a datanode of a loxo cluster already; \"loxo check\" says more.",
        false => "Use a new server, or another database, and load the data through a coordinator afterwards.",
    }))
}

/// Decides what an interrupted call left prepared. Returns the id of the cluster it turns out to have made.
async fn finish_interrupted(nodes: &[Node<'_>]) -> Result<Option<String>> {
    let leftovers = format!("SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE gid LIKE '{GID_PREFIX}%'");
    let mut made = None;
    let mut prepared = Vec::new();
    for node in nodes {
        if node.session.value("SELECT to_regclass('loxo.identity')").await?.is_some() {
            made = made.or(node.session.value("SELECT cluster_id FROM loxo.identity").await?);
        }
        let gids = node.session.rows(&leftovers).await?;
        prepared.extend(gids.into_iter().flatten().flatten().map(|gid| (node, gid)));
    }
    if prepared.is_empty() {
        return Ok(None);
    }
    let mut finished = None;
    for (node, gid) in prepared {
        let committed = made.as_deref() == gid.strip_prefix(GID_PREFIX);
        let decision = if committed { "COMMIT" } else { "ROLLBACK" };
        node.session.run(&format!("{decision} PREPARED {}", literal(&gid))).await.map_err(|e| at(node.config, e))?;
        finished = finished.or(if committed { made.clone() } else { None });
    }
    Ok(finished)
}

/// Says on which datanode an error happened.
pub(crate) fn at(node: &Datanode, error: PgError) -> PgError {
    let message = format!("datanode {} ({}:{}): {}", node.name, node.host, node.port, error.message());
    error.with(pgerror::field::MESSAGE, message)
}
fn gtm_row((index, gtm): (usize, &Gtm)) -> String {
    let (id, name, host) = (GTM_ID + index, literal(&gtm_name(index)), literal(&gtm.host));
    format!("({id}, {name}, 'G', {host}, {}, false, false)", gtm.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database may have any encoding.
    #[test]
    fn the_metadata_are_ascii() {
        assert!(METADATA_SQL.is_ascii() && SCHEMA_SQL.is_ascii());
    }

    /// Coordinators tell clusters that they cannot work with by the number alone.
    #[test]
    fn other_metadata_have_another_number() {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let text = METADATA_SQL.bytes().chain(SCHEMA_SQL.bytes()).fold(0xcbf2_9ce4_8422_2325, fnv);
        assert_eq!(
            (LAYOUT, text),
            (12, 7_887_894_854_113_136_681),
            "the metadata have changed: raise LAYOUT, and put both numbers here"
        );
    }
}
