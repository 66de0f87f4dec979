//! Keeps rows where they are while a long INSERT is planned anew.
//!
//! A step of a [rebalance](crate::growth) has its locks for a moment, over and over. A statement that takes seconds between its plan and
//! its own locks is overtaken each time, however often it is planned. What runs under a snapshot of its own locks what it writes first
//! and looks then whether its plan holds. An INSERT whose rows one node makes needs no snapshot, and comes to its table last: from its
//! second plan on it locks the table first, as a writer does, so that no step comes in between.
//!
//! Tables that the user may only read are not locked: LOCK TABLE asks for more.

use catalog::{NodeId, Relation, quote_literal};
use futures_util::future::BoxFuture;
use pgerror::Result;
use planner::Plan;

use crate::backend::call::Call;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;

impl Session {
    /// Must the rows of this plan's tables be kept where they are? Its statement was overtaken by a move of rows before.
    pub(crate) fn is_to_keep_rows(&mut self, plan: &Plan) -> bool {
        let is_late = matches!(plan, Plan::InsertStaged(insert) if insert.inputs.is_empty());
        std::mem::take(&mut self.was_overtaken) && is_late && self.leaves.asks.is_nothing()
    }

    /// Runs a plan behind locks of its tables.
    pub(crate) fn dispatch_with_rows_kept<'s>(
        &'s mut self,
        plan: &'s Plan,
        call: &'s Call,
        output: &'s mut Output<'_>,
    ) -> BoxFuture<'s, Result<Completion>> {
        Box::pin(self.atomically(async |this| {
            this.keep_rows_in_place().await?;
            this.plan_holds().await?;
            Box::pin(this.dispatch(plan, call, output)).await
        }))
    }

    async fn keep_rows_in_place(&mut self) -> Result<()> {
        let Some(validity) = self.validity.clone() else { return Ok(()) };
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut tables = Vec::new();
        for table in validity.partitioned_tables() {
            if self.may_lock(table).await? {
                nodes.extend(table.distribution.nodes());
                tables.push(table.qualified_name());
            }
        }
        if tables.is_empty() {
            return Ok(());
        }
        nodes.sort();
        nodes.dedup();
        self.lock_tables(&nodes, &format!("LOCK TABLE {} IN ROW EXCLUSIVE MODE", tables.join(", "))).await
    }

    async fn may_lock(&mut self, table: &Relation) -> Result<bool> {
        let sql = format!(
            "SELECT pg_catalog.has_table_privilege({}::pg_catalog.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') \
             AND pg_catalog.has_schema_privilege({}, 'USAGE')",
            table.oid,
            quote_literal(&table.schema)
        );
        let rows = self.rows_on(self.home, &sql).await?;
        Ok(rows.into_iter().flatten().flatten().next().as_deref() == Some(b"t"))
    }
}
