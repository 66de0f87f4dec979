//! ALTER DATABASE … RENAME TO: on all datanodes or on none.
//!
//! ```text
//!  row 'leaving' ─ every coordinator leaves the database ─ row 'renaming', and one 'reserved' for the new name ─ RENAME on each node ─
//!  one row 'ready' of the new name, with the id that it had
//! ```
//!
//! The last change of the journal decides. If it was not made, the database gets its earlier name again on all nodes: from the
//! session that renames it, or from a gtm, if it is dead. Both names are taken meanwhile, so nobody else's database comes to have
//! one of them.

use catalog::{quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};

use super::databases::{
    IN_WORK, Job, MAY_CREATE, exists, in_use, missing, not_owner, on_each, refuse_known, while_kept_out,
};
use crate::backend::pool::cluster::Cluster;
use crate::session::Session;

impl Session {
    pub(super) async fn rename_database(&mut self, name: &str, new_name: &str) -> Result<()> {
        if self.in_block() {
            return Err(PgError::unsupported("ALTER DATABASE … RENAME TO in a transaction block")
                .hint("Run it as a statement of its own."));
        }
        let context = self.context.clone();
        let first = context.first();
        self.refuse_read_only("ALTER DATABASE").await?;
        let mut job = Job::begin(first, name).await?;
        self.check_rename(name, new_name, &mut job).await?;
        refuse_known(first, new_name).await?;
        if !job.becomes("leaving", "ready").await? {
            return Err(in_use(name, IN_WORK));
        }
        let noted = match self.leave_to_nobody(name).await {
            Ok(()) => {
                txn::control_point!("rename-left");
                job.notes_rename(name, new_name).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = noted {
            job.becomes("ready", "leaving").await?;
            return Err(error);
        }
        // Sessions of an earlier database of that name, whose end this coordinator may not have been told.
        first.sessions().forget(new_name);
        txn::control_point!("rename-noted");
        if let Err(error) = rename_on_all(first, name, new_name, &mut job).await {
            let is_back = match on_each(first, &first.nodes(), &txn::take_name_back_sql(name, new_name)).await {
                Ok(()) => job.journal.connection.query_rows(&txn::name_is_back_sql(name)).await.map(drop),
                Err(error) => Err(error),
            };
            return Err(match is_back {
                Ok(()) => error,
                Err(_) => error.hint(format!("A gtm gives the database the name \"{name}\" again.")),
            });
        }
        if let Err(error) = job.is_renamed(name, new_name).await {
            return settle(first, name, new_name, error).await;
        }
        txn::control_point!("rename-done");
        job.end(first);
        Ok(())
    }

    /// As PostgreSQL does it, and in its order.
    async fn check_rename(&mut self, name: &str, new_name: &str, job: &mut Job) -> Result<()> {
        let sql = format!(
            "SELECT pg_catalog.pg_has_role(d.datdba, 'USAGE'), ({MAY_CREATE}), \
               EXISTS (SELECT FROM pg_catalog.pg_database AS o WHERE o.datname OPERATOR(pg_catalog.=) {}) \
             FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) {}",
            quote_literal(new_name),
            quote_literal(name)
        );
        let (found, state) = (self.rows_on(self.home, &sql).await?, job.state().await?);
        let is = |column: usize| found.first().and_then(|row| row.get(column)?.as_deref()) == Some(b"t");
        match state.as_deref() {
            None if found.is_empty() => Err(missing(name)),
            _ if !found.is_empty() && !is(0) => Err(not_owner(name)),
            _ if !found.is_empty() && !is(1) => {
                Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to rename database"))
            }
            _ if is(2) => Err(exists(new_name)),
            _ if *name == self.links.identity().database => {
                Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "current database cannot be renamed"))
            }
            Some("ready") => Ok(()),
            Some(_) => Err(in_use(name, IN_WORK)),
            None => Err(PgError::unsupported(
                "RENAME of the cluster's first database, or of one that is not the cluster's",
            )
            .hint("The configurations of all coordinators and gtms name the first one: dump it and restore it into another.")),
        }
    }
}

impl Job {
    /// From here on it has one of both names on each node, and a gtm sees to it that it has its own everywhere again.
    async fn notes_rename(&mut self, name: &str, new_name: &str) -> Result<()> {
        let sql = format!(
            "WITH noted AS (UPDATE loxo.database SET state = 'renaming', new_name = {} \
               WHERE name OPERATOR(pg_catalog.=) {} AND state OPERATOR(pg_catalog.=) 'leaving' RETURNING new_name) \
             INSERT INTO loxo.database (name, state) SELECT new_name, 'reserved' FROM noted RETURNING 1",
            quote_literal(new_name),
            quote_literal(name)
        );
        match self.journal.connection.query_rows(&sql).await {
            Ok(noted) if noted.is_empty() => Err(in_use(name, IN_WORK)),
            Err(error) if error.code() == SqlState::UNIQUE_VIOLATION => Err(exists(new_name)),
            noted => noted.map(drop),
        }
    }

    /// From here on it has the new name.
    async fn is_renamed(&mut self, name: &str, new_name: &str) -> Result<()> {
        let new = quote_literal(new_name);
        let sql = format!(
            "WITH gone AS (DELETE FROM loxo.database WHERE name OPERATOR(pg_catalog.=) {} \
               AND state OPERATOR(pg_catalog.=) 'renaming' AND new_name OPERATOR(pg_catalog.=) {new} RETURNING id) \
             UPDATE loxo.database AS d SET state = 'ready', id = gone.id FROM gone \
             WHERE d.name OPERATOR(pg_catalog.=) {new} AND d.state OPERATOR(pg_catalog.=) 'reserved' RETURNING 1",
            quote_literal(name)
        );
        match self.journal.connection.query_rows(&sql).await?.is_empty() {
            false => Ok(()),
            true => Err(PgError::internal(format!("the note of database \"{name}\" is lost"))),
        }
    }
}

/// The last word about it was not heard, or somebody else has had it: what does the journal say?
async fn settle(first: &Cluster, name: &str, new_name: &str, error: PgError) -> Result<()> {
    let mut job = Job::begin(first, name).await?;
    match job.state().await?.as_deref() {
        // A gtm has given it the name back while nodes were still being told the new one.
        Some("ready") => on_each(first, &first.nodes(), &txn::take_name_back_sql(name, new_name)).await?,
        Some(_) => return Err(error.hint(format!("A gtm gives the database the name \"{name}\" again."))),
        None => {
            let new = format!("name OPERATOR(pg_catalog.=) {}", quote_literal(new_name));
            let sql = format!("SELECT FROM loxo.database WHERE {new} AND state OPERATOR(pg_catalog.=) 'ready'");
            if !first.query_as_service(first.home(), &sql).await?.is_empty() {
                return Ok(());
            }
        }
    }
    Err(error)
}

/// As the service user, on the first node first: most errors show there.
async fn rename_on_all(first: &Cluster, name: &str, new_name: &str, job: &mut Job) -> Result<()> {
    let sql = format!("ALTER DATABASE {} RENAME TO {}", quote_identifier(name), quote_identifier(new_name));
    let home = first.home();
    let others = first.nodes().into_iter().filter(|node| *node != home);
    for node in std::iter::once(home).chain(others) {
        job.has_lock().await?;
        while_kept_out(first, node, name, first.query_as_service(node, &sql)).await?;
        txn::control_point!("renamed-on-one");
    }
    Ok(())
}
