//! The primary datanode's role goes to another datanode, while no coordinator and no gtm runs.
//!
//! ```text
//!  check   everybody answers, nobody is connected, nothing is prepared or moving
//!  copy    positions of sequences, large objects,         old primary ──▶ new, in each database
//!          rows of materialized views
//!  swap    the two servers change their ids, in all databases on all datanodes, in one two-phase commit
//! ```
//!
//! The primary datanode is the one with the lowest id, everywhere. So it is not the id that gets another role, but the server that
//! gets another id: buckets, copies and groups are written down by the new ones, and no row moves. A coordinator or a gtm with an old
//! configuration finds servers that are not those it looks for, and does not work with them.
//!
//! Killed before the commit nothing has changed but what the new primary has in sequences and the like, which nobody reads there; killed
//! within it, [`finish`] brings it to its end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};

use super::{Member, find, label_in, members, read_members};
use crate::config::Config;
use crate::disk;
use crate::join::programs::{Programs, failed};
use crate::progress::Progress;
use crate::sql::{Endpoint, Session, literal};

/// What the prepared transactions of a swap are called: this, a number in other databases than the first, since a server has each name
/// once, `_`, and the name of the new primary.
const GID_PREFIX: &str = "loxo_primary";

/// Tables whose rows the primary datanode alone has.
const JOURNALS: [&str; 2] = ["loxo.rebalance", "loxo.database"];

/// A session of a program that has ended is gone so soon.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// Between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Only large objects.
const DUMP: [&str; 4] = ["--data-only", "--blobs", "--exclude-table=*.*", "--exclude-schema=loxo"];

const UNLINK: &str = "SELECT pg_catalog.count(pg_catalog.lo_unlink(oid)) FROM pg_catalog.pg_largeobject_metadata";

/// Sequences of users: name, quoted.
const SEQUENCES_SQL: &str = "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) \
     FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
     WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND n.nspname NOT IN ('loxo', 'information_schema') AND n.nspname !~ '^pg_'";

/// Materialized views, and whether they have rows.
const MATVIEWS_SQL: &str =
    "SELECT pg_catalog.format('%I.%I', schemaname, matviewname), ispopulated FROM pg_catalog.pg_matviews";

/// A table with rows that only the primary datanode knows: made on the server, not through a coordinator.
const LONELY_SQL: &str = "SELECT c.oid::regclass::text FROM pg_catalog.pg_class AS c \
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace LEFT JOIN loxo.class AS k ON k.relid = c.oid \
     WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND k.relid IS NULL AND pg_catalog.pg_relation_size(c.oid) > 0 \
     AND n.nspname NOT IN ('loxo', 'information_schema') AND n.nspname !~ '^pg_' \
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e') ORDER BY 1 LIMIT 1";

/// A datanode and a session with it.
struct Server {
    member: Member,
    session: Session,
}

/// A database of the cluster, and its datanodes by their ids: the primary one first.
struct Database {
    config: Config,
    servers: Vec<Server>,
}

/// Makes a datanode the primary one; gives the datanodes by their new ids. Nothing happens if it is that already.
pub async fn hand_over(config: &Config, name: &str, pg_bin: Option<&Path>, progress: &Progress) -> Result<Vec<Member>> {
    let mut databases = connect(config).await?;
    if end_interrupted(&databases).await? {
        databases = connect(config).await?;
    }
    let members: Vec<Member> = databases[0].servers.iter().map(|server| server.member.clone()).collect();
    let new = find(&members, name)?;
    if !new.is_primary {
        let at = members.iter().position(|member| member.id == new.id).unwrap_or_default();
        check(&databases).await?;
        for database in &databases {
            copy(database, at, pg_bin, &label_in(&database.config, databases.len() > 1), progress).await?;
        }
        check(&databases).await?;
        progress.step("writing the metadata", swap(&databases, at)).await?;
        for database in &databases {
            empty(&database.servers[0]).await?;
        }
    }
    read_members(config, &databases[0].servers[0].session).await
}

/// Ends a swap that was interrupted: it has happened if it has on any datanode. All must run for that, and need not if there is nothing
/// to be ended: one may be lost.
pub(crate) async fn finish(config: &Config) -> Result<()> {
    let any = format!("SELECT 1 FROM pg_catalog.pg_prepared_xacts WHERE pg_catalog.starts_with(gid, '{GID_PREFIX}')");
    for member in members(config).await? {
        let Ok(session) = Session::connect(&config.endpoint(&member.host, member.port)?).await else { continue };
        if session.value(&any).await?.is_some() {
            return end_interrupted(&connect(config).await?).await.map(drop);
        }
    }
    Ok(())
}

/// Was there anything to be ended?
async fn end_interrupted(databases: &[Database]) -> Result<bool> {
    let in_this = format!(
        "SELECT gid FROM pg_catalog.pg_prepared_xacts \
         WHERE pg_catalog.starts_with(gid, '{GID_PREFIX}') AND database = pg_catalog.current_database()"
    );
    let servers = || databases.iter().flat_map(|database| &database.servers);
    let mut left = Vec::new();
    for server in servers() {
        let gids = server.session.rows(&in_this).await?.into_iter().flatten().flatten();
        left.extend(gids.map(|gid| (server, gid)));
    }
    for (server, gid) in &left {
        let new = gid.trim_start_matches(GID_PREFIX).trim_start_matches(|c: char| c.is_ascii_digit());
        let asked = format!(
            "SELECT 1 FROM loxo.node WHERE is_primary AND name = {}",
            literal(new.strip_prefix('_').unwrap_or(new))
        );
        let mut is_done = false;
        for other in servers() {
            is_done |= other.session.value(&asked).await?.is_some();
        }
        let end = if is_done { "COMMIT" } else { "ROLLBACK" };
        server.session.run(&format!("{end} PREPARED {}", literal(gid))).await?;
    }
    Ok(!left.is_empty())
}

/// With all datanodes of all databases, the first one first. Which others there are the primary datanode knows: who that is, a configuration
/// may not know any more, and of a swap that was interrupted nobody may; so all are asked.
async fn connect(config: &Config) -> Result<Vec<Database>> {
    let first = connect_to(config.clone()).await?;
    let mut others = BTreeSet::new();
    for Server { session, .. } in &first.servers {
        let ready = match session.rows("SELECT name FROM loxo.database WHERE state = 'ready'").await {
            // A cluster of a version that knew of no others.
            Err(error) if error.code() == SqlState::UNDEFINED_TABLE => Vec::new(),
            ready => ready?,
        };
        let parts = format!(
            "SELECT database FROM pg_catalog.pg_prepared_xacts \
             WHERE pg_catalog.starts_with(gid, '{GID_PREFIX}') AND database <> pg_catalog.current_database()"
        );
        others.extend(ready.into_iter().chain(session.rows(&parts).await?).flatten().flatten());
    }
    let mut databases = vec![first];
    for name in others {
        let mut config = config.clone();
        config.cluster.database = name;
        databases.push(connect_to(config).await?);
    }
    Ok(databases)
}

async fn connect_to(config: Config) -> Result<Database> {
    let mut servers = Vec::new();
    for member in members(&config).await? {
        let session = Session::connect(&config.endpoint(&member.host, member.port)?).await;
        let session = session.map_err(|error| {
            let text = format!("datanode {} does not answer: {}", member.name, error.message());
            PgError::new(error.code(), text).hint("All datanodes must run.")
        })?;
        servers.push(Server { member, session });
    }
    Ok(Database { config, servers })
}

fn refused(what: String) -> PgError {
    PgError::new(SqlState::OBJECT_IN_USE, what)
}

async fn check(databases: &[Database]) -> Result<()> {
    let first = &databases[0];
    let unsettled = "SELECT name FROM loxo.database WHERE state <> 'ready' LIMIT 1";
    if let Some(name) = first.servers[0].session.value(unsettled).await? {
        return Err(refused(format!("database {name} is being created, renamed or dropped"))
            .hint("Start the cluster: a gtm ends that within seconds."));
    }
    let nodes = |database: &Database| -> Vec<(u16, String)> {
        database.servers.iter().map(|Server { member, .. }| (member.id, member.name.clone())).collect()
    };
    for database in databases {
        if nodes(database) != nodes(first) {
            let text = format!("database {} has other datanodes than the first one", database.config.cluster.database);
            return Err(refused(text).hint(
                "\"loxo node list\" names what it lacks. Start the cluster; \"loxo node add\" or \"loxo node remove\" of that datanode goes on.",
            ));
        }
        check_one(database).await?;
    }
    Ok(())
}

async fn check_one(database: &Database) -> Result<()> {
    const CONNECTED: &str = "SELECT application_name FROM pg_catalog.pg_stat_activity \
         WHERE application_name LIKE 'loxo%' AND datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() \
         AND backend_type = 'client backend' LIMIT 1";
    for Server { member, session } in &database.servers {
        // Those that have just ended leave the table of sessions a moment later.
        let since = Instant::now();
        while let Some(who) = session.value(CONNECTED).await? {
            if since.elapsed() < LEAVE_MAX {
                tokio::time::sleep(POLL).await;
                continue;
            }
            return Err(refused(format!("\"{who}\" is connected to datanode {}", member.name))
                .hint("Stop all coordinators and gtms first, on all hosts."));
        }
        if let Some(gid) = session.value("SELECT gid FROM pg_catalog.pg_prepared_xacts LIMIT 1").await? {
            return Err(refused(format!("transaction \"{gid}\" is prepared on datanode {}", member.name))
                .hint("Start the cluster and end it there; what is in doubt the gtm ends within seconds."));
        }
    }
    let old = &database.servers[0];
    let moving = "SELECT state FROM loxo.rebalance WHERE state IN ('running', 'paused')";
    if old.session.value(moving).await?.is_some() {
        return Err(refused(format!("rows of database {} are being moved", database.config.cluster.database))
            .hint("Start the cluster and wait for the end, or run ALTER CLUSTER REBALANCE CANCEL there."));
    }
    match old.session.value(LONELY_SQL).await? {
        None => Ok(()),
        Some(table) => Err(refused(format!(
            "table {table} of database {} lies on {} alone, and no coordinator knows it",
            database.config.cluster.database, old.member.name
        ))
        .hint("It was made on the server itself: drop it, or make it through a coordinator.")),
    }
}

/// What the primary datanode alone has of a database; `label` is for people.
async fn copy(database: &Database, at: usize, pg_bin: Option<&Path>, label: &str, progress: &Progress) -> Result<()> {
    let (old, new) = (&database.servers[0], &database.servers[at]);
    progress.step(&format!("{label}copying positions of sequences"), copy_sequences(old, new)).await?;
    let tools = Tools::find(&database.config, pg_bin, old).await?;
    progress.step(&format!("{label}copying large objects"), tools.copy_large_objects(old, new)).await?;
    progress.step(&format!("{label}copying materialized views"), tools.copy_matviews(old, new)).await
}

async fn copy_sequences(old: &Server, new: &Server) -> Result<()> {
    let names: Vec<String> = old.session.rows(SEQUENCES_SQL).await?.into_iter().flatten().flatten().collect();
    // Not all at once: a statement over thousands of relations locks them all.
    for some in names.chunks(100) {
        let position = |name: &String| {
            let set = format!("SELECT pg_catalog.setval({}, %s, %L);", literal(name)).replace('\'', "''");
            format!("SELECT pg_catalog.format('{set}', last_value, is_called) FROM {name}")
        };
        let asked: Vec<String> = some.iter().map(position).collect();
        let set: Vec<String> =
            old.session.rows(&asked.join(" UNION ALL ")).await?.into_iter().flatten().flatten().collect();
        new.session.run(&set.join(" ")).await?;
    }
    Ok(())
}

struct Tools<'c> {
    programs: Programs,
    config: &'c Config,
}

impl<'c> Tools<'c> {
    async fn find(config: &'c Config, pg_bin: Option<&Path>, server: &Server) -> Result<Self> {
        let major =
            server.session.value("SELECT pg_catalog.current_setting('server_version_num')::int / 10000").await?;
        let programs = Programs::find(pg_bin, major.and_then(|major| major.parse().ok()).unwrap_or_default())?;
        Ok(Self { programs, config })
    }

    fn way_to(&self, server: &Server) -> Result<Endpoint> {
        self.config.endpoint(&server.member.host, server.member.port)
    }

    async fn copy_large_objects(&self, old: &Server, new: &Server) -> Result<()> {
        // What an interrupted call has left.
        new.session.run(UNLINK).await?;
        if old.session.value("SELECT 1 FROM pg_catalog.pg_largeobject_metadata LIMIT 1").await?.is_none() {
            return Ok(());
        }
        let dump = self.programs.dump("pg_dump", &self.way_to(old)?, &DUMP).await?;
        self.load(new, dump, "the large objects could not be copied").await
    }

    /// Only the primary datanode has their rows.
    async fn copy_matviews(&self, old: &Server, new: &Server) -> Result<()> {
        for row in old.session.rows(MATVIEWS_SQL).await? {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let (view, populated) = (row.next().unwrap_or_default(), row.next().as_deref() == Some("t"));
            if !populated {
                new.session.run(&format!("REFRESH MATERIALIZED VIEW {view} WITH NO DATA")).await?;
                continue;
            }
            let copy = format!("COPY (TABLE {view}) TO STDOUT");
            let mut rows = self.programs.dump("psql", &self.way_to(old)?, &["-X", "-q", "-c", &copy]).await?;
            // PostgreSQL takes rows for a table only.
            let is = |kind: &str| {
                format!(
                    "UPDATE pg_catalog.pg_class SET relkind = '{kind}', relispopulated = true WHERE oid = {}::regclass;\n",
                    literal(&view)
                )
            };
            let mut script = disk::unnamed()?;
            write!(script, "{}TRUNCATE {view};\nCOPY {view} FROM STDIN;\n", is("r"))?;
            std::io::copy(&mut rows, &mut script)?;
            write!(script, "\\.\n{}", is("m"))?;
            script.rewind()?;
            self.load(new, script, &format!("the rows of materialized view {view} could not be copied")).await?;
        }
        Ok(())
    }

    async fn load(&self, server: &Server, script: File, failure: &str) -> Result<()> {
        let arguments = ["--single-transaction", "--set", "ON_ERROR_STOP=1"];
        let (went_on, said) = self.programs.restore(&self.way_to(server)?, &arguments, script).await?;
        if went_on { Ok(()) } else { Err(failed(failure, &said)) }
    }
}

/// A datanode that is not the primary has none of what was copied.
async fn empty(server: &Server) -> Result<()> {
    server.session.run(UNLINK).await?;
    for view in server.session.rows(MATVIEWS_SQL).await?.into_iter().filter_map(|row| row.into_iter().next().flatten())
    {
        server.session.run(&format!("REFRESH MATERIALIZED VIEW {view} WITH NO DATA")).await?;
    }
    Ok(())
}

/// Servers 0 and `at` change their ids.
async fn swap(databases: &[Database], at: usize) -> Result<()> {
    let mut parts = Vec::new();
    for (place, database) in databases.iter().enumerate() {
        let place = if place == 0 { String::new() } else { place.to_string() };
        let gid = literal(&format!("{GID_PREFIX}{place}_{}", database.servers[at].member.name));
        let (old, new) = (&database.servers[0], &database.servers[at]);
        let swap = swap_sql(old.member.id, new.member.id);
        for server in &database.servers {
            let rows = if server.member.id == new.member.id { journals(old, new).await? } else { String::new() };
            let empty = JOURNALS.map(|table| format!("DELETE FROM {table};")).concat();
            parts.push((server, gid.clone(), format!("{swap} {empty} {rows}")));
        }
    }
    for (place, (Server { session, member }, gid, script)) in parts.iter().enumerate() {
        if let Err(error) = session.run(&format!("{script} PREPARE TRANSACTION {gid};")).await {
            for (Server { session, .. }, gid, _) in &parts[..place] {
                session.run(&format!("ROLLBACK PREPARED {gid}")).await?;
            }
            return Err(PgError::new(error.code(), format!("datanode {}: {}", member.name, error.message())));
        }
    }
    for (Server { session, .. }, gid, _) in &parts {
        session.run(&format!("COMMIT PREPARED {gid}")).await?;
        txn::control_point!("primary-swapped-on-one");
    }
    Ok(())
}

/// SQL that stores the rows of the primary datanode's journals.
async fn journals(old: &Server, new: &Server) -> Result<String> {
    let mut script = String::new();
    for table in JOURNALS {
        for row in old.session.rows(&format!("SELECT r::text FROM {table} AS r")).await?.into_iter().flatten().flatten()
        {
            script += &format!("INSERT INTO {table} SELECT ({}::{table}).*;", literal(&row));
        }
    }
    let without = swapped_list("without", "place", old.member.id, new.member.id);
    Ok(script + &format!("UPDATE loxo.rebalance SET without = {without} WHERE cardinality(without) > 0;"))
}

/// Nothing is prepared anywhere, so nobody needs decisions any more, nor who was given up; they name nodes by their old ids.
fn swap_sql(a: u16, b: u16) -> String {
    /// An id that no node has.
    const BETWEEN: u16 = 32_767;
    let swapped = |id: &str| swapped(id, a, b);
    let list = |list: &str, order: &str| swapped_list(list, order, a, b);
    format!(
        "BEGIN; SET LOCAL search_path = pg_catalog, pg_temp;
         UPDATE loxo.node SET id = {BETWEEN}, is_primary = false WHERE id = {a};
         UPDATE loxo.node SET id = {a}, is_primary = true WHERE id = {b};
         UPDATE loxo.node SET id = {b} WHERE id = {BETWEEN};
         UPDATE loxo.node_group SET members = {members};
         UPDATE loxo.bucket_map SET nodes = {slots};
         UPDATE loxo.class SET nodes = {copies} WHERE nodes IS NOT NULL;
         UPDATE loxo.identity SET node_id = {own};
         UPDATE loxo.catalog_version SET version = version + 1;
         DELETE FROM loxo.decision; DELETE FROM loxo.finishing; DELETE FROM loxo.prepared_transaction; DELETE FROM loxo.lost_datanode;",
        members = list("members", &swapped("n")),
        slots = list("nodes", "place"),
        copies = list("nodes", &swapped("n")),
        own = swapped("node_id"),
    )
}

fn swapped(id: &str, a: u16, b: u16) -> String {
    format!("CASE {id} WHEN {a} THEN {b}::int2 WHEN {b} THEN {a}::int2 ELSE {id} END")
}

fn swapped_list(list: &str, order: &str, a: u16, b: u16) -> String {
    format!(
        "(SELECT array_agg({} ORDER BY {order}) FROM unnest({list}) WITH ORDINALITY AS u (n, place))",
        swapped("n", a, b)
    )
}
