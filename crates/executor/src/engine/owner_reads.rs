//! Tables read with the rights of the owner of a view, for the time of one query: see [`planner::Lent`].
//!
//! Our views on them are made in each backend that takes part, within its transaction, once that has its snapshot or before it
//! takes one for a single statement. They are dropped when the query is over; where it fails, the transaction does too.
//!
//! A session beside the home node's own is in the same database: its views have other names.

use std::borrow::Cow;

use catalog::{NodeId, quote_literal};
use pgerror::{PgError, Result};
use planner::{Gather, Lent};

use crate::backend::own_calls::OwnCall;
use crate::backend::request::Call;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::{BESIDE, Session};

/// The calls that make and drop our views.
#[derive(Clone, Debug)]
pub(crate) struct Lending {
    lend: OwnCall,
    take_back: OwnCall,
    /// With which the views' names begin, and nothing else in a text: it is drawn by lot.
    prefix: String,
}

impl Lending {
    fn of(lent: &[Lent]) -> Self {
        let list = |value: &dyn Fn(&Lent) -> String| lent.iter().map(value).collect::<Vec<_>>().join(", ");
        let views = format!("ARRAY[{}]::pg_catalog.name[]", list(&|one| quote_literal(&one.view)));
        let lend = format!(
            "{views}, ARRAY[{}]::pg_catalog.name[], ARRAY[{}]::pg_catalog.text[], ARRAY[{}]::pg_catalog.bool[]",
            list(&|one| quote_literal(&one.owner)),
            list(&|one| quote_literal(&one.table)),
            list(&|one| one.alone.to_string()),
        );
        Self {
            lend: OwnCall::new("lend", lend),
            take_back: OwnCall::new("take_back", views),
            prefix: lent.first().map(|one| one.prefix.clone()).unwrap_or_default(),
        }
    }

    /// A text with the names that our views have beside the home node.
    fn beside(&self, sql: &str) -> String {
        sql.replace(&self.prefix, &format!("beside_{}", self.prefix))
    }
}

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
    pub(crate) async fn lend_on(&mut self, nodes: &[NodeId]) -> Result<()> {
        let Some(lending) = self.lending.clone() else { return Ok(()) };
        if self.is_read_only() {
            return Err(PgError::unsupported(
                "a view over several nodes with its owner's rights, in this READ ONLY transaction",
            )
            .hint("Leave READ ONLY out, or read it as its owner."));
        }
        match nodes {
            [BESIDE] => {
                let call = OwnCall::new(lending.lend.function, lending.beside(&lending.lend.arguments));
                self.call_on_all(nodes, &call).await
            }
            _ => self.call_on_all(nodes, &lending.lend).await,
        }
    }

    /// A text as it is to be run there.
    pub(crate) fn lent_text<'s>(&self, node: NodeId, sql: &'s str) -> Cow<'s, str> {
        match &self.lending {
            Some(lending) if node == BESIDE => Cow::Owned(lending.beside(sql)),
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
}
