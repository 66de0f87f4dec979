//! Changes of what all databases of a cluster share, roles above all, made in another database than the first.
//!
//! Such a statement runs on the datanodes of its own database. While a datanode joins or leaves, the first database may have one that this
//! database lacks: that server would be left without the change. So the statement is refused then; and a lock keeps the first database's
//! datanodes as they are until the transaction has ended, so that CREATE NODE there compares roles that nobody is changing.
//!
//! In the first database nothing of this is needed: it has all datanodes, and its schema changes and CREATE NODE come one by one.

use std::collections::BTreeSet;

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};

use crate::backend::pool::Link;
use crate::session::Session;
use crate::shared::catalog_load::number;

const LOCK: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '30s'; LOCK TABLE loxo.database IN ROW SHARE MODE; \
     SELECT id FROM loxo.node WHERE type OPERATOR(pg_catalog.=) 'D'";

impl Session {
    /// The datanodes of the first database are those that such a statement runs on, until the block ends.
    pub(super) async fn hold_shared_objects(&mut self, nodes: &[NodeId]) -> Result<()> {
        if self.shared_objects.is_none() {
            self.shared_objects = self.shared_objects_of(nodes).await?;
        }
        Ok(())
    }

    /// [`Session::hold_shared_objects`] until the result is dropped; `None` in the first database.
    pub(crate) async fn shared_objects_of(&mut self, nodes: &[NodeId]) -> Result<Option<Box<Link>>> {
        if self.context.is_first() {
            return Ok(None);
        }
        let context = self.context.clone();
        let lock = async {
            let mut link = context.first().service_link(context.home()).await?;
            let rows = link.connection.query_rows(LOCK).await?;
            Ok::<_, PgError>((link, rows))
        };
        // CREATE NODE in the first database may be waited for.
        let (link, rows) = self.links.cancel().interrupt().or(lock).await??;
        let of_first = rows.iter().map(|row| number(row, 0)).collect::<Result<BTreeSet<u16>>>()?;
        match nodes.iter().map(|node| node.0).collect::<BTreeSet<u16>>() == of_first {
            true => Ok(Some(link)),
            false => Err(PgError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "roles, databases and tablespaces cannot be changed in a database that lacks a datanode of the cluster",
            )
            .hint("Finish `loxo node add` or `loxo node remove`, or do it in the cluster's first database.")),
        }
    }
}
