//! INSERT … VALUES whose rows go to several nodes, in one transaction.
//!
//! ```text
//!  BEGIN, INSERT of its rows, read barrier, who wrote? ─ all nodes ──> COMMIT       outside a block: one message
//!  INSERT of its rows ─ all nodes                                             inside
//! ```
//!
//! A node passes its read barrier behind the rows, not before them, if they look at nothing but themselves: two sessions that write the same
//! nodes then store rows while the other one commits, and do not wait for that first.

use planner::InsertSplit;

use pgerror::Result;

use crate::backend::call::Call;
use crate::block::Mode;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;

impl Session {
    /// Runs the parts, in the order of the nodes where that matters.
    pub(crate) async fn insert_split(
        &mut self,
        insert: &InsertSplit,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let parts = &insert.parts;
        if insert.clauses.returning {
            return self.atomically(async |this| this.insert_returning(insert, call, output).await).await;
        }
        if !insert.clauses.only_inserts() {
            return self.atomically(async |this| this.write_in_order(parts.clone(), false, call, output).await).await;
        }
        let is_all = !self.in_block();
        self.atomically(async |this| this.insert_parts(insert, is_all, call, output).await).await
    }

    /// All at once. If that is all of the transaction, what COMMIT asks the nodes goes with it.
    async fn insert_parts(
        &mut self,
        insert: &InsertSplit,
        is_all: bool,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let (version, extended) = (self.schema_version, call.parameters.is_some());
        self.connect_to(&insert.parts.iter().map(|(node, _)| *node).collect::<Vec<_>>()).await?;
        for (node, sql) in &insert.parts {
            match insert.is_snapshot_independent {
                true => self.acquire_for_independent_rows(*node, extended).await?,
                false => self.acquire_for(*node, Mode::InBlock, extended).await?,
            }
            self.causality.touch(*node);
            let leased = self.links.link(*node)?;
            leased.start(sql, call, version);
            if is_all {
                leased.ask_whether_wrote();
            }
        }
        self.answers_of(&insert.parts, call, output).await
    }
}
