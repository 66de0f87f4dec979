//! CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY: each node does it in transactions of its own.
//!
//! Where PostgreSQL cannot make or drop an index to the end, it leaves it not valid: to be dropped, or built again. Here an index that is
//! so on one node, or that one lacks, becomes so on all of them: whoever looks at it sees the primary datanode's, and an index that is
//! unique on some nodes is not unique.

use catalog::{NodeId, quote_identifier, quote_literal};
use futures_util::future::join_all;
use pgerror::Result;
use planner::{Concurrent, DdlPlan, Elsewhere};

use super::is_about_rows;
use crate::backend::call::Call;
use crate::block::Mode;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::shared::catalog_load::{Row, text};

/// Indexes of one table by name.
struct Indexes {
    schema: String,
    table: String,
    names: Vec<String>,
}

impl Session {
    pub(super) async fn index_concurrently(
        &mut self,
        concurrent: &Concurrent,
        ddl: &DdlPlan,
        primary: NodeId,
        others: &[NodeId],
    ) -> Result<Completion> {
        let (done, indexes) = match concurrent {
            Concurrent::IndexOn(table) => self.create_concurrently(table, ddl, primary, others).await?,
            Concurrent::Dropped(index) => self.drop_concurrently(index, ddl, primary, others).await?,
        };
        let changed = match (&done, &indexes) {
            (Err(_), Some(indexes)) => self.become_alike(indexes, &ddl.nodes).await,
            _ => false,
        };
        let noted = self
            .atomically(async |this| {
                this.schema_changed();
                Ok(())
            })
            .await;
        let completion = done.map_err(|error| match changed && !is_about_rows(&error) {
            true => error.hint("The index is not valid now: DROP INDEX IF EXISTS, then make it again."),
            false => error,
        })?;
        noted.map(|()| completion)
    }

    /// On the primary datanode first, which says what is wrong with the statement. What is wrong with rows each node finds out by itself.
    async fn create_concurrently(
        &mut self,
        table: &str,
        ddl: &DdlPlan,
        primary: NodeId,
        others: &[NodeId],
    ) -> Result<(Result<Completion>, Option<Indexes>)> {
        let Some(before) = self.indexes(&format!("t.oid = pg_catalog.to_regclass({})", quote_literal(table))).await?
        else {
            return Ok((self.run_only_on(primary, &ddl.node_sql).await, None));
        };
        let mut done = self.run_only_on(primary, &ddl.node_sql).await;
        if done.as_ref().err().is_none_or(is_about_rows) {
            let elsewhere = self.to_the_end(others, &ddl.node_sql).await;
            done = done.and_then(|completion| elsewhere.map(|()| completion));
        }
        let new = match &done {
            Ok(_) => None,
            Err(_) => {
                let now = self.context.query_as_service(primary, &indexes_sql(&before.is_of_table())).await?;
                let names = names_in(&now)?;
                let names = names.into_iter().filter(|name| !before.names.contains(name)).collect();
                Some(Indexes { names, ..before })
            }
        };
        Ok((done, new))
    }

    /// On the primary datanode last: as long as one has the index, it can be dropped.
    async fn drop_concurrently(
        &mut self,
        index: &str,
        ddl: &DdlPlan,
        primary: NodeId,
        others: &[NodeId],
    ) -> Result<(Result<Completion>, Option<Indexes>)> {
        let index = self.indexes(&format!("c.oid = pg_catalog.to_regclass({})", quote_literal(index))).await?;
        let elsewhere = match &ddl.elsewhere {
            Elsewhere::Without(sql) => sql,
            Elsewhere::Same | Elsewhere::Copied { .. } => &ddl.node_sql,
        };
        // Where one cannot even be reached, nothing has begun.
        self.connect_to(others).await?;
        if let Err(error) = self.to_the_end(others, elsewhere).await {
            return Ok((Err(error), index));
        }
        Ok((self.run_only_on(primary, &ddl.node_sql).await, index))
    }

    /// Those that the primary datanode has where this is true; `None` if there is no such table.
    async fn indexes(&mut self, condition: &str) -> Result<Option<Indexes>> {
        let rows = self.rows_on(self.home, &planner::own_text(&indexes_sql(condition))?).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let names = names_in(&rows)?;
        Ok(Some(Indexes { schema: text(first, 0)?.to_owned(), table: text(first, 1)?.to_owned(), names }))
    }

    /// Runs a text on these nodes, each for itself; none gives up because another one has failed. The first error is that of all.
    async fn to_the_end(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        self.connect_to(nodes).await?;
        let (version, call) = (self.schema_version, Call::default());
        for node in nodes {
            self.acquire_for(*node, Mode::Autocommit, false).await?;
            self.causality.touch(*node);
            self.links.link(*node)?.start(sql, &call, version);
        }
        let done = self.links.finish_all(nodes).await.map(drop);
        for (_, leased) in self.links.of(nodes) {
            // They are the primary's once more.
            leased.link.connection.take_notices();
        }
        done
    }

    /// Makes indexes not valid that are valid on some of these nodes only, and not to be kept up to date if they are not on one; gives
    /// whether there are any. A node that does not answer may have whatever it has.
    async fn become_alike(&self, indexes: &Indexes, nodes: &[NodeId]) -> bool {
        let of_table = indexes.is_of_table();
        let ask = async |node: &NodeId, sql: String| self.context.query_as_service(*node, &sql).await;
        let answers = join_all(nodes.iter().map(|node| ask(node, indexes_sql(&of_table)))).await;
        // By the number of the column that says so.
        let is_so_everywhere = |name: &str, state: usize| {
            let has = |row: &Row| text(row, 2).is_ok_and(|of| of == name) && text(row, state).is_ok_and(|is| is == "t");
            answers.iter().all(|rows| rows.as_ref().is_ok_and(|rows| rows.iter().any(has)))
        };
        let mut any = false;
        for name in indexes.names.iter().filter(|name| !is_so_everywhere(name, VALID)) {
            let sql = format!(
                "UPDATE pg_catalog.pg_index SET indisvalid = false, indisready = indisready AND {} WHERE indexrelid IN \
                 (SELECT i.indexrelid FROM {FROM} WHERE {of_table} AND c.relname = {})",
                is_so_everywhere(name, READY),
                quote_literal(name)
            );
            any |= join_all(nodes.iter().map(|node| ask(node, sql.clone()))).await.iter().any(Result::is_ok);
        }
        any
    }
}

const VALID: usize = 3;
const READY: usize = 4;

/// Of a table without indexes there is one row, without a name.
fn names_in(rows: &[Row]) -> Result<Vec<String>> {
    let named = rows.iter().filter(|row| row.get(2).is_some_and(Option::is_some));
    named.map(|row| Ok(text(row, 2)?.to_owned())).collect()
}

const FROM: &str = "pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace \
     LEFT JOIN (pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid) ON i.indrelid = t.oid";

fn indexes_sql(condition: &str) -> String {
    format!("SELECT n.nspname, t.relname, c.relname, i.indisvalid, i.indisready FROM {FROM} WHERE {condition}")
}

impl Indexes {
    fn is_of_table(&self) -> String {
        format!(
            "t.oid = pg_catalog.to_regclass({})",
            quote_literal(&format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.table)))
        )
    }
}
