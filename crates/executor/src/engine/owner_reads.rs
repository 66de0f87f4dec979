//! Tables read with the rights of the owner of a view, for the time of one query: see [`planner::Lent`].
//!
//! Our views on them are made in each backend that takes part, within its transaction, once that has its snapshot or before it
//! takes one for a single statement. They are dropped when the query is over; where it fails, the transaction does too.
//!
//! A session beside the home node's own is in the same database: its views have other names.

use std::borrow::Cow;

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use planner::Gather;

use crate::backend::call::Call;
use crate::backend::own_calls::OwnCall;
use crate::backend::slot::Slot;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::session::lending::Lending;

impl Session {
    /// A gather that reads tables with others' rights.
    pub(crate) async fn gather_lent(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.lending = Some(Lending::of(&gather.lent));
        let gathered = Box::pin(self.gather_own(gather, call, output)).await;
        self.lending = None;
        gathered
    }

    /// Lends what the present query needs on these nodes.
    pub(crate) async fn lend_on(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<()> {
        let Some(lending) = self.lending.clone() else { return Ok(()) };
        if self.is_read_only() {
            return Err(PgError::unsupported(
                "a view over several nodes with its owner's rights, in this READ ONLY transaction",
            )
            .hint("Leave READ ONLY out, or read it as its owner."));
        }
        match nodes {
            [slot] if (*slot).into().is_beside() => {
                let call = OwnCall::new(lending.lend.function, lending.beside(&lending.lend.arguments));
                self.call_on_all(nodes, &call).await
            }
            _ => self.call_on_all(nodes, &lending.lend).await,
        }
    }

    /// A text as it is to be run there.
    pub(crate) fn lent_text<'s>(&self, slot: Slot, sql: &'s str) -> Cow<'s, str> {
        match &self.lending {
            Some(lending) if slot.is_beside() => Cow::Owned(lending.beside(sql)),
            _ => Cow::Borrowed(sql),
        }
    }

    /// Ends that; after an error there is nothing left to end.
    pub(crate) async fn take_back_on(&mut self, nodes: &[NodeId]) -> Result<()> {
        match self.lending.clone() {
            Some(lending) => self.call_on_all(nodes, &lending.take_back).await,
            None => Ok(()),
        }
    }

    /// PostgreSQL's word on whether the user may run this query or change of rows.
    pub(crate) async fn require_rights(&mut self, sql: &str, call: &Call) -> Result<()> {
        let checked = self.node_plan(self.home, self.mode(), &format!("EXPLAIN {sql}"), call).await;
        self.release();
        checked.map(drop)
    }

    /// PostgreSQL looks at rights, also on functions, when it is about to run a statement: before we have anything to say of it.
    pub(crate) async fn refuse_without_rights(&mut self, sql: &str, call: &Call) -> Result<()> {
        match self.require_rights(sql, call).await {
            Err(error) if error.code() == SqlState::INSUFFICIENT_PRIVILEGE => Err(error),
            _ => Ok(()),
        }
    }
}
