//! A gather of few rows, outside a block, in as few waits as a global snapshot allows: the fragments are read like
//! [a SELECT over several nodes](super::optimistic_read), and their rows are [parameters](crate::engine::inlined_rows) of the last step,
//! which is a statement by itself.
//!
//! ```text
//!  BEGIN, locks ─ all nodes ─┐
//!                            ├── generation, fragments, ROLLBACK ─ all nodes ──> barrier valid? ── last step ─ home ── rows ──> client
//!  barrier ─ gtm ────────────┘
//! ```
//!
//! Invariant: the last step reads nothing but its parameters ([`planner::reads_only`]), and leaves nothing behind, so it needs no part
//! in the transaction of the fragments. Only the case in which all goes well is here.

use std::sync::Arc;

use catalog::NodeId;
use pgerror::Result;
use planner::Gather;

use crate::backend::call::Call;
use crate::backend::own_statements::Own;
use crate::engine::gather::without_position;
use crate::engine::inlined_rows::{InlinedRows, last_step};
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::shared::few_rows::Fragment;

impl Session {
    /// `None`, and no row given, if it has to be done the long way.
    pub(crate) async fn gather_few_optimistically(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        let inputs = &gather.inputs;
        let nodes = self.gathered_nodes(inputs);
        if self.in_block()
            || nodes.len() < 2
            || !self.is_consistent()
            || !self.leaves.is_nothing()
            || !gather.lent.is_empty()
            || !self.may_be_inlined(inputs).await?
            || !self.reads_only_inputs(inputs, &gather.final_sql).await?
            // An operator, a cast or a type may call a function of the user's that reads tables, which the last step would see later.
            || !self.catalog().await?.catalog.unnamed_functions().is_empty()
        {
            return Ok(None);
        }
        let keeps = call.may_come_again();
        let Some(keys) = self.keys(inputs, call).await? else { return Ok(None) };
        let known = self.context.few_rows.known(&keys, self.schema_version).unwrap_or_default();
        let has_types = known.iter().all(|fragment| !fragment.types.is_empty());
        if known.is_empty() || !has_types || !self.are_few(inputs, &known) {
            return Ok(None);
        }
        self.refuse_serializable(&nodes)?;
        let locks = self.locks_to_read(inputs.iter().map(|input| input.sql.as_str()));
        self.begin_without_waiting(&nodes, &locks);
        let few = self.read_few_within_barrier(&nodes, gather, &known, call).await;
        // After the queued ROLLBACK there is nothing left to roll back.
        self.rollback().await;
        let Some(few) = few.map_err(without_position)? else { return Ok(None) };
        self.note_few(&keys, &known, few.as_deref());
        let Some(inlined) = few else { return Ok(None) };
        // Buckets that move from here on do not matter.
        self.plan_holds().await?;
        self.validity = self.validity.take().map(|validity| validity.under_snapshot());
        let (sql, call) = last_step(gather, inlined, &Call { one_off: !keeps, ..call.clone() });
        let part = vec![(self.home, sql)];
        let done = self.scatter(self.mode(), part, &call, output).await.map_err(without_position)?;
        // It has seen nothing but what the global snapshot shows.
        self.links.lost_read_barriers().into_iter().for_each(|node| self.causality.not_passed(node));
        self.causality.finished_in_snapshot();
        Ok(Some(done))
    }

    /// `None`: not under one snapshot; of the rows `None`: they are more than were expected.
    async fn read_few_within_barrier(
        &mut self,
        nodes: &[NodeId],
        gather: &Gather,
        fragments: &[Arc<Fragment>],
        call: &Call,
    ) -> Result<Option<Option<Vec<InlinedRows>>>> {
        let opened = self.open_within_barrier(nodes).await?;
        // A schema change may have come between what is known of the fragments and their locks.
        let Some(snapshot) = opened.filter(|_| self.plan_is_untouched()) else { return Ok(None) };
        let (keeps, version) = (call.may_come_again(), self.schema_version);
        for node in nodes {
            self.causality.touch(*node);
            let leased = self.links.link(*node)?;
            Own::Generation.queue(&mut leased.link.connection);
            leased.link.connection.sync();
            let own = gather.inputs.iter().filter(|input| input.nodes.contains(node));
            own.for_each(|input| leased.start_few(&input.sql, call, keeps, version));
            leased.link.connection.sync();
            leased.link.connection.query(b"ROLLBACK");
        }
        let generations = self.links.portal_answers(nodes).await?;
        if !self.complete(snapshot, &generations) {
            self.links.cancel_on(nodes).await;
            return Ok(None);
        }
        self.snapshot_taken();
        let few = self.read_all_few(&gather.inputs, fragments).await?;
        for node in nodes {
            // There is nothing to lose: a connection that is not idle after it is closed.
            let _ = self.links.link(*node)?.link.connection.read_rows().await;
        }
        Ok(Some(few))
    }
}
