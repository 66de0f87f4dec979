//! What CREATE, ALTER and DROP NODE of a datanode mean in a cluster of several databases.
//!
//! Each database notes its datanodes itself, in its own `loxo.node`. The first one is the ruler:
//!
//! ```text
//!  CREATE NODE   in the first database, then in each other one: the same id, name and address
//!  DROP NODE     in each other database, then in the first one
//! ```
//!
//! Invariant: the datanodes of the first database include those of every other one. So what looks at all servers of the cluster (the
//! watch for deadlocks, CREATE and DROP DATABASE, what a gtm drops of a dead session's) asks the first one alone.
//!
//! These commands hold a lock on `loxo.database` of the first database to their end: meanwhile nobody creates or drops a database, no
//! other such command runs, and no other database changes what all share (page `ddl::shared_objects`).

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::{Node, NodeId, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep};

use crate::backend::pool::{Address, Link};
use crate::session::Session;
use crate::shared::catalog_load::{Row, number, text};

const LOCK: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE loxo.database IN EXCLUSIVE MODE NOWAIT; \
     SELECT name, state FROM loxo.database ORDER BY name";

/// Longest wait for the lock, and between two tries. A session in PostgreSQL's queue for it would have CREATE DATABASE wait behind,
/// which holds a weaker lock itself and writes the table by another connection.
const LOCK_MAX: Duration = Duration::from_secs(10);
const LOCK_TRY: Duration = Duration::from_millis(10);

/// What a node that joins must have of roles, line by line. A password or a limit that the cluster does not set the server may have for
/// itself; and so it may have roles of its own.
const ROLES: &str = "
    WITH role AS (SELECT * FROM pg_catalog.pg_authid WHERE NOT pg_catalog.starts_with(rolname, 'pg_'))
    SELECT rolname, pg_catalog.concat_ws(' ', 'role', rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
        rolbypassrls) AS line FROM role
    UNION ALL SELECT rolname, pg_catalog.concat_ws(' ', 'limit', rolname, rolconnlimit) FROM role WHERE rolconnlimit OPERATOR(pg_catalog.<>) -1
    UNION ALL SELECT rolname, pg_catalog.concat_ws(' ', 'until', rolname, pg_catalog.date_part('epoch', rolvaliduntil)) FROM role
        WHERE rolvaliduntil IS NOT NULL
    UNION ALL SELECT rolname, pg_catalog.concat_ws(' ', 'password', rolname, rolpassword) FROM role WHERE rolpassword IS NOT NULL
    UNION ALL SELECT m.rolname, pg_catalog.concat_ws(' ', 'member', r.rolname, m.rolname, pg_catalog.bool_or(a.admin_option))
        FROM pg_catalog.pg_auth_members AS a JOIN pg_catalog.pg_authid AS r ON r.oid OPERATOR(pg_catalog.=) a.roleid
        JOIN role AS m ON m.oid OPERATOR(pg_catalog.=) a.member GROUP BY r.rolname, m.rolname
    UNION ALL SELECT coalesce(r.rolname, ''), pg_catalog.concat_ws(' ', 'settings', r.rolname, s.setconfig)
        FROM pg_catalog.pg_db_role_setting AS s LEFT JOIN role AS r ON r.oid OPERATOR(pg_catalog.=) s.setrole
        WHERE s.setdatabase OPERATOR(pg_catalog.=) 0";

/// How a datanode goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// It answers, and holds nothing any more.
    Emptied,
    /// With what it held.
    Lost,
}

/// The lock, and which databases there are beside the first.
pub(super) struct AllDatabases {
    guard: Box<Link>,
    /// Name and state.
    others: Vec<(String, String)>,
}

impl Session {
    /// Until the result is dropped there are these databases and no others.
    pub(super) async fn all_databases(&mut self) -> Result<AllDatabases> {
        let context = self.context.clone();
        let locked = async {
            let mut guard = context.first().service_link(context.home()).await?;
            let patience = Instant::now() + LOCK_MAX;
            loop {
                match guard.connection.query_rows(LOCK).await {
                    Ok(rows) => return Ok((guard, rows)),
                    Err(error) if error.code() != SqlState::LOCK_NOT_AVAILABLE => return Err(error),
                    Err(error) if Instant::now() > patience => {
                        return Err(
                            error.hint("Databases are being created or dropped, or a transaction changes roles.")
                        );
                    }
                    Err(_) => guard.connection.execute("ROLLBACK").await.map(drop)?,
                }
                sleep(LOCK_TRY).await;
            }
        };
        let (guard, rows) = self.links.cancel().interrupt().or(locked).await??;
        let other = |row: &Row| Ok((text(row, 0)?.to_owned(), text(row, 1)?.to_owned()));
        Ok(AllDatabases { others: rows.iter().map(other).collect::<Result<_>>()?, guard })
    }

    /// 55006 if another database has this datanode of the first one.
    pub(super) async fn no_other_database_has(&mut self, all: &AllDatabases, node: &Node, gone: Gone) -> Result<()> {
        let has_it = format!("SELECT FROM loxo.node WHERE id OPERATOR(pg_catalog.=) {}", node.id.0);
        for (name, state) in &all.others {
            match state.as_str() {
                "ready" => {}
                // Nobody is at work on it, as the lock shows: it will be ready again.
                "leaving" if gone == Gone::Lost => {}
                // That may come to no end before the datanode has left: a gtm ends it on the datanodes of the first database.
                "creating" | "dropping" | "renaming" | "reserved" if gone == Gone::Lost => continue,
                _ => {
                    let text = format!("database {} is being created, renamed or dropped", quote_identifier(name));
                    return Err(PgError::new(SqlState::OBJECT_IN_USE, text).hint("Run it again in a few seconds."));
                }
            }
            if !self.ask_in(name, &has_it).await?.is_empty() {
                let text = format!("datanode {} belongs to database {} too", node.name, quote_identifier(name));
                let command = if gone == Gone::Lost { "`loxo node remove --lost`" } else { "`loxo node remove`" };
                return Err(PgError::new(SqlState::OBJECT_IN_USE, text)
                    .hint(format!("The same statement there first; {command} does it in all databases.")));
            }
        }
        Ok(())
    }

    /// Asks the home node in another database of the cluster.
    async fn ask_in(&mut self, database: &str, sql: &str) -> Result<Vec<Row>> {
        let there = self.context.first().own_options().in_database(database);
        let home = there.get(self.home.0).ok_or_else(|| PgError::internal("no way to the home node"))?;
        // That this server is the home node was shown for the lock.
        Connection::connect(&ConnectOptions { proof: None, ..home.clone() }).await?.query_rows(sql).await
    }

    /// Has the new node the roles of the home node? Other databases could change them since they were copied, but not while this runs.
    pub(super) async fn check_roles(&mut self, id: NodeId, name: &str) -> Result<()> {
        let (wanted, found) = (self.rows_on(self.home, ROLES).await?, self.rows_on(id, ROLES).await?);
        let lines = |rows: &[Row]| -> Result<BTreeSet<(String, String)>> {
            rows.iter().map(|row| Ok((text(row, 0)?.to_owned(), text(row, 1)?.to_owned()))).collect()
        };
        let (wanted, found) = (lines(&wanted)?, lines(&found)?);
        let roles: BTreeSet<&String> = wanted.iter().map(|(role, _)| role).collect();
        let has_more = found.difference(&wanted).any(|(role, line)| roles.contains(role) && is_exact(line));
        match wanted.is_subset(&found) && !has_more {
            true => Ok(()),
            false => Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                format!("the roles of the cluster have changed since datanode {name} was prepared"),
            )
            .hint("`loxo node add` prepares the server again.")),
        }
    }
}

/// Is it a membership or a setting? The node may have no more of these than the cluster.
fn is_exact(line: &str) -> bool {
    ["member ", "settings "].iter().any(|kind| line.starts_with(kind))
}

impl AllDatabases {
    /// The id of a datanode of the first database, which is to become one of another database.
    pub(super) async fn id_in_first(&mut self, name: &str, address: &Address) -> Result<NodeId> {
        let sql = format!(
            "SELECT id, host, port FROM loxo.node WHERE type OPERATOR(pg_catalog.=) 'D' AND name OPERATOR(pg_catalog.=) {}",
            quote_literal(name)
        );
        let rows = self.guard.connection.query_rows(&sql).await?;
        let Some(row) = rows.first() else {
            let text = format!("{name} is no datanode of the cluster's first database");
            return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .hint("CREATE NODE there first; `loxo node add` does it in all databases."));
        };
        let noted = Address { host: text(row, 1)?.to_owned(), port: number(row, 2)? };
        match noted == *address {
            true => Ok(NodeId(number(row, 0)?)),
            false => {
                let text =
                    format!("datanode {name} has the address {}:{} in the first database", noted.host, noted.port);
                Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                    .hint("It has the same one in all databases; ALTER NODE changes it, in the first database first."))
            }
        }
    }
}
