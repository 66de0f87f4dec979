//! Calls of functions of schema `loxo` in the session's own backends, which want a proof that a coordinator makes them.

use bytes::Bytes;
use catalog::NodeId;
use futures_util::future::join_all;
use pgerror::Result;
use pgproto::Connection;
use txn::seal::Seal;

use crate::backend::leased::LeasedConnection;
use crate::session::{Mode, Session};

/// A call of `loxo.<function>(proof, <arguments>)`; the proof is another one in each backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnCall {
    pub(crate) function: &'static str,
    /// In SQL, separated by commas.
    pub(crate) arguments: String,
}

impl OwnCall {
    pub(crate) fn new(function: &'static str, arguments: impl Into<String>) -> Self {
        Self { function, arguments: arguments.into() }
    }

    /// About a table, by its name in SQL; `more` arguments follow, with their comma.
    pub(crate) fn about(function: &'static str, table: &str, more: &str) -> Self {
        Self::new(function, format!("{}::pg_catalog.regclass{more}", catalog::quote_literal(table)))
    }

    fn sql(&self) -> String {
        let separator = if self.arguments.is_empty() { "" } else { ", " };
        format!("SELECT loxo.{}($1{separator}{})", self.function, self.arguments)
    }

    /// The answer is read by [`answers`].
    pub(crate) fn queue(&self, seal: &Seal, connection: &mut Connection) {
        seal.queue(connection, self.function, &self.sql());
    }
}

impl Session {
    /// Makes calls on a node of the block, one after the other, in one message. Gives what the last one returns.
    pub(crate) async fn call_on(&mut self, node: NodeId, calls: &[OwnCall]) -> Result<Option<Bytes>> {
        let nodes = [node];
        Ok(self.call(&nodes, calls).await?.pop().flatten())
    }

    /// A call on several nodes of the block at once.
    pub(crate) async fn call_on_all(&mut self, nodes: &[NodeId], call: &OwnCall) -> Result<()> {
        self.call(nodes, std::slice::from_ref(call)).await.map(drop)
    }

    /// Gives the user rights on a table, until [`Session::take_rights_back`], which wants what this gives: what all had on the
    /// nodes where the user lacked them.
    pub(crate) async fn lend_rights(
        &mut self,
        nodes: &[NodeId],
        table: &str,
        rights: &[&str],
    ) -> Result<Vec<(NodeId, String)>> {
        let wanted = format!(", '{{{}}}'::pg_catalog.text[]", rights.join(","));
        let mut lent = Vec::new();
        for node in nodes {
            let before = self.call_on(*node, &[OwnCall::about("lend_rights", table, &wanted)]).await?;
            lent.extend(before.map(|before| (*node, String::from_utf8_lossy(&before).into_owned())));
        }
        Ok(lent)
    }

    pub(crate) async fn take_rights_back(&mut self, table: &str, lent: Vec<(NodeId, String)>) -> Result<()> {
        for (node, before) in lent {
            let before = format!(", {}", catalog::quote_literal(&before));
            self.call_on(node, &[OwnCall::about("take_rights_back", table, &before)]).await?;
        }
        Ok(())
    }

    async fn call(&mut self, nodes: &[NodeId], calls: &[OwnCall]) -> Result<Vec<Option<Bytes>>> {
        let seal = self.context.seal().await?;
        for node in nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.sight.touch(self.place(*node));
            let connection = &mut self.link(*node)?.link.connection;
            calls.iter().for_each(|call| call.queue(&seal, connection));
        }
        let called = self.leased.iter_mut().filter(|(node, _)| nodes.contains(node));
        let answers = join_all(called.map(|(_, leased)| answers(leased, calls.len()))).await;
        answers.into_iter().collect()
    }
}

/// Reads the answers to calls, and returns the last one's value.
pub(crate) async fn answers(leased: &mut LeasedConnection, calls: usize) -> Result<Option<Bytes>> {
    leased.link.connection.flush().await?;
    leased.skip_preamble().await?;
    let mut outcome = Ok(None);
    for _ in 0..calls {
        let rows = match txn::seal::answer(&mut leased.link.connection).await {
            Ok(rows) => rows,
            // Later calls fail because this one has.
            Err(error) => {
                outcome = outcome.and(Err(error));
                continue;
            }
        };
        outcome = outcome.map(|_| rows.into_iter().flatten().next().flatten());
    }
    outcome
}
