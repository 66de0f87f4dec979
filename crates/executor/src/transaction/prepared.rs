//! PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED: [`txn::user_prepared`] for the session's nodes.
//!
//! The home node is the registry. Every node of the block is prepared, also one that has only read: its locks
//! must be kept, and PostgreSQL itself says what cannot be prepared.

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use txn::user_prepared::{self, End, Registration};
use txn::{CommitTools, Participant};

use crate::backend::pool::Link;
use crate::block::{Mode, Replay};
use crate::session::Session;
use crate::transaction::unresolved_warning;

impl Session {
    /// Prepares the block on all its nodes or on none and ends it. A failed block is rolled back, as PostgreSQL does; gives
    /// the command tag.
    pub async fn prepare_transaction(&mut self, name: &str) -> Result<&'static str> {
        if self.block.as_ref().is_none_or(|block| block.failed) {
            self.rollback().await;
            return Ok("ROLLBACK");
        }
        match self.prepare_participants(name).await {
            Ok(()) => {
                self.settings_committed();
                self.end_block();
                Ok("PREPARE TRANSACTION")
            }
            Err(error) => {
                self.fail();
                self.rollback().await;
                Err(error)
            }
        }
    }

    async fn prepare_participants(&mut self, name: &str) -> Result<()> {
        if self.is_torn() {
            return Err(PgError::connection("a datanode was lost in this transaction, which is rolled back"));
        }
        if self.block.as_ref().is_some_and(|block| block.schema_changed) {
            return Err(PgError::unsupported("PREPARE TRANSACTION of a schema change")
                .hint("Use COMMIT: it is atomic on all datanodes."));
        }
        let listens = |step: &Replay| matches!(step, Replay::Listen(_));
        if self.block.as_ref().is_some_and(|block| block.replay.iter().any(listens)) {
            let text = "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY";
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, text));
        }
        if self.links.iter().any(|(_, leased)| leased.begun && leased.gathered) {
            return Err(PgError::unsupported(
                "PREPARE TRANSACTION after a statement that collected rows of several datanodes",
            )
            .hint("Run such queries before BEGIN, or use COMMIT: it is atomic on all datanodes."));
        }
        self.close_cursor_holder().await;
        let (owner, _) = self.role(Mode::InBlock).await?;
        let nodes = self.links.begun();
        self.run_deferred_read_barriers().await?;
        for node in &nodes {
            let leased = self.links.link(*node)?;
            leased.flush().await?;
            leased.skip_preamble().await?;
        }
        let registration =
            Registration { name: name.to_owned(), owner, database: self.links.identity().database.clone() };
        let context = self.context.clone();
        let (inquiry, seal) = (context.own_options(), context.seal().await?);
        let cancel = self.links.cancel().clone();
        let interrupt = cancel.interrupt();
        let tools = CommitTools { ids: &context.gids, nodes: &inquiry, gtm: &context.gtm, seal: &seal, interrupt };
        let mut registry = interrupt.or(self.context.service_link(self.home)).await??;
        let mut participants: Vec<Participant<'_>> = self
            .links
            .iter_mut()
            .filter(|(_, leased)| leased.begun)
            .map(|(slot, leased)| Participant {
                node: slot.node().0,
                connection: &mut leased.link.connection,
                wrote: true,
                xid: None,
            })
            .collect();
        let result =
            user_prepared::prepare(&mut participants, &mut registry.connection, self.home.0, &registration, &tools)
                .await;
        context.pool.give_back(registry);
        result
    }

    /// COMMIT PREPARED or ROLLBACK PREPARED, outside a block; from any session.
    pub async fn finish_prepared(&mut self, name: &str, end: End) -> Result<()> {
        let (role, is_superuser) = self.role(Mode::Autocommit).await?;
        self.release();
        let context = self.context.clone();
        let (inquiry, seal) = (context.own_options(), context.seal().await?);
        let cancel = self.links.cancel().clone();
        let interrupt = cancel.interrupt();
        let tools = CommitTools { ids: &context.gids, nodes: &inquiry, gtm: &context.gtm, seal: &seal, interrupt };
        let mut registry = interrupt.or(self.context.service_link(self.home)).await??;
        let found = user_prepared::find(&mut registry.connection, name, &role, is_superuser).await;
        let outcome = match found {
            Ok(found) => {
                let mut links = self.links_to(&found.nodes).await?;
                let mut participants: Vec<Participant<'_>> = links
                    .iter_mut()
                    .map(|(node, link)| Participant {
                        node: *node,
                        connection: &mut link.connection,
                        wrote: true,
                        xid: None,
                    })
                    .collect();
                let registry = &mut registry.connection;
                let outcome = user_prepared::finish(&found, name, end, registry, &mut participants, &tools).await;
                links.into_iter().for_each(|(_, link)| context.pool.give_back(link));
                outcome
            }
            Err(error) => Err(error),
        };
        context.pool.give_back(registry);
        let unresolved = outcome?;
        if !unresolved.is_empty() {
            self.notices.extend(unresolved_warning(&unresolved));
        }
        Ok(())
    }

    /// The role that the session acts as at this moment, and whether that is a superuser.
    async fn role(&mut self, mode: Mode) -> Result<(String, bool)> {
        self.acquire(self.home, mode).await?;
        let leased = self.links.link(self.home)?;
        leased.flush().await?;
        leased.skip_preamble().await?;
        let sql = "SELECT rolname, rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) CURRENT_USER";
        let rows = leased.link.connection.query_rows(sql).await?;
        match rows.first().map(Vec::as_slice) {
            Some([Some(name), Some(is_superuser)]) => {
                Ok((String::from_utf8_lossy(name).into_owned(), is_superuser.as_ref() == b"t"))
            }
            _ => Err(PgError::new(SqlState::UNDEFINED_OBJECT, "the session's role does not exist any more")),
        }
    }

    async fn links_to(&self, nodes: &[u16]) -> Result<Vec<(u16, Box<Link>)>> {
        let mut links = Vec::new();
        for node in nodes {
            links.push((*node, self.context.service_link(NodeId(*node)).await?));
        }
        Ok(links)
    }
}
