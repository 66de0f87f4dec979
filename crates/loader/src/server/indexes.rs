//! `--drop-indexes`: a load without indexes to keep up, and they are made again behind it.
//!
//! Only indexes that check nothing are dropped, and whose definition says all about them: a load must not let in what a unique
//! index keeps out. Their definitions go into `loxo_load_indexes`, in the table's schema, in the transaction that drops
//! them; each leaves it in the transaction that makes the index again. So whatever is killed, an index is there or its definition
//! is, and the next load of the table makes it.

use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use tokio::task::JoinSet;

use crate::files::readers;
use crate::options::literal;
use crate::server::session;
use crate::server::sql::{identifier, text};

const TABLE: &str = "loxo_load_indexes";
/// Indexes made at a time.
const SESSIONS_MAX: usize = 4;

/// The indexes of one table.
#[derive(Clone, Debug)]
pub(crate) struct Indexes {
    schema: String,
    relation: String,
}

impl Indexes {
    pub(crate) fn of(schema: &str, relation: &str) -> Self {
        Self { schema: schema.to_owned(), relation: relation.to_owned() }
    }

    fn journal(&self) -> String {
        format!("{}.{TABLE}", identifier(&self.schema))
    }

    fn target(&self) -> String {
        literal(&format!("{}.{}", identifier(&self.schema), identifier(&self.relation)))
    }

    /// Drops what can be dropped. Gives the number of indexes.
    pub(crate) async fn drop_all(&self, connection: &mut Connection) -> Result<usize> {
        let found = connection.query_rows(&self.droppable()).await?;
        if found.is_empty() {
            return Ok(0);
        }
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {} (relation pg_catalog.text, name pg_catalog.text, definition pg_catalog.text NOT NULL, \
             PRIMARY KEY (relation, name))",
            self.journal()
        );
        connection.execute(&create).await?;
        connection.execute("BEGIN").await?;
        for row in &found {
            let name = text(row, 0)?;
            let values = [&self.relation, &name, &text(row, 1)?].map(|value| literal(value)).join(", ");
            connection.execute(&format!("INSERT INTO {} VALUES ({values})", self.journal())).await?;
            let index = format!("{}.{}", identifier(&self.schema), identifier(&name));
            connection.execute(&format!("DROP INDEX {index}")).await?;
        }
        session::must(connection, "COMMIT", "COMMIT").await?;
        Ok(found.len())
    }

    /// Not of constraints, partitions or other objects, and without what a definition does not say.
    fn droppable(&self) -> String {
        format!(
            "SELECT c.relname, pg_catalog.pg_get_indexdef(c.oid) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid \
             JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) i.indrelid \
             WHERE t.oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND t.relkind OPERATOR(pg_catalog.=) 'r' AND c.relkind OPERATOR(pg_catalog.=) 'i' AND NOT i.indisunique \
             AND NOT i.indisexclusion AND NOT i.indisclustered AND NOT i.indisreplident AND i.indisvalid \
             AND c.reltablespace OPERATOR(pg_catalog.=) 0 AND pg_catalog.obj_description(c.oid, 'pg_class') IS NULL \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_class'::pg_catalog.regclass AND d.refobjid OPERATOR(pg_catalog.=) c.oid) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid OPERATOR(pg_catalog.=) c.oid) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND coalesce(a.attstattarget, -1) OPERATOR(pg_catalog.>=) 0) \
             ORDER BY 1",
            self.target()
        )
    }

    /// Names and definitions of those that are dropped now.
    pub(crate) async fn dropped(&self, connection: &mut Connection) -> Result<Vec<(String, String)>> {
        let exists = format!("SELECT pg_catalog.to_regclass({}) IS NOT NULL", literal(&self.journal()));
        if session::value(connection, &exists).await? != "t" {
            return Ok(Vec::new());
        }
        let relation = literal(&self.relation);
        let sql = format!(
            "SELECT name, definition FROM {} WHERE relation OPERATOR(pg_catalog.=) {relation} ORDER BY name",
            self.journal()
        );
        connection.query_rows(&sql).await?.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?))).collect()
    }

    /// Makes what is dropped again, several at a time, each on all nodes. Gives how many this run made.
    pub(crate) async fn restore(&self, to: &[String]) -> Result<usize> {
        let uri = to.first().ok_or_else(|| PgError::connection("no coordinator is named"))?;
        let mut dropped = self.dropped(&mut session::connect(uri).await?).await?;
        let sessions = dropped.len().min(SESSIONS_MAX);
        let mut tasks = JoinSet::new();
        for number in 0..sessions {
            let share: Vec<_> = dropped.split_off(dropped.len() - dropped.len().div_ceil(sessions - number));
            let (this, uri) = (self.clone(), to[number % to.len()].clone());
            tasks.spawn(async move { this.make(&uri, share).await });
        }
        Ok(readers::all(tasks).await.map_err(|error| self.explain(error))?.into_iter().sum())
    }

    async fn make(&self, uri: &str, share: Vec<(String, String)>) -> Result<usize> {
        let mut connection = session::connect(uri).await?;
        let mut made = 0;
        for (name, definition) in share {
            connection.execute("BEGIN").await?;
            let (relation, name) = (literal(&self.relation), literal(&name));
            let take = format!(
                "DELETE FROM {} WHERE relation OPERATOR(pg_catalog.=) {relation} AND name OPERATOR(pg_catalog.=) {name}",
                self.journal()
            );
            if connection.execute(&take).await? == "DELETE 0" {
                // Another load was faster.
                connection.execute("ROLLBACK").await?;
                continue;
            }
            connection.execute(&definition).await?;
            session::must(&mut connection, "COMMIT", "COMMIT").await?;
            made += 1;
        }
        Ok(made)
    }

    fn explain(&self, error: PgError) -> PgError {
        let relation = &self.relation;
        PgError::new(error.code(), format!("an index of \"{relation}\" could not be made again: {}", error.message()))
            .detail(format!("Definitions of indexes that are not there are in {}.", self.journal()))
            .hint(format!("When the cause is gone: loxo load {relation} --restore-indexes"))
    }

    /// What is left to be told of a load that failed and whose indexes cannot be made yet.
    pub(crate) fn are_missing(&self, error: PgError) -> PgError {
        let more = format!("Its indexes are dropped. Then: loxo load {} --restore-indexes", self.relation);
        let hint = error.text(pgerror::field::HINT).into_owned();
        error.hint(format!("{hint} {more}").trim().to_owned())
    }
}

/// `loxo load TABLE --restore-indexes`: makes the indexes again that a killed load had dropped. Gives their number.
///
/// # Errors
/// The server's; those made until then are there.
pub async fn restore_indexes(table: &str, to: &[String]) -> Result<usize> {
    let uri = to.first().ok_or_else(|| PgError::connection("no coordinator is named"))?;
    let (schema, relation) = crate::load::resolve(&mut session::connect(uri).await?, table).await?;
    Indexes::of(&schema, &relation).restore(to).await
}

/// May transactions of the load still hold the table?
pub(crate) fn must_wait(error: &PgError) -> bool {
    error.code() == SqlState::STATEMENT_COMPLETION_UNKNOWN
}
