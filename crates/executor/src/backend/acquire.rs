//! Getting a link ready for a statement: taken from the pool, with the session's settings, in its transaction, settled.

use catalog::NodeId;
use pgerror::{PgError, Result};

use crate::backend::leased::{BEGIN, LeasedConnection, Own};
use crate::session::{Mode, Session};
use crate::snapshot::Isolation;
use crate::snapshot::causality::Settling;
use crate::transaction::serializable::Reach;

impl Session {
    /// Makes the session hold a link to `node` that is ready for the statement; BEGIN may be queued on it, unsent.
    pub(crate) async fn acquire(&mut self, node: NodeId, mode: Mode) -> Result<()> {
        self.acquire_for(node, mode, false).await
    }

    /// [`Session::acquire`] for a statement that is queued next and, if `extended`, goes by the extended protocol.
    pub(crate) async fn acquire_for(&mut self, node: NodeId, mode: Mode, extended: bool) -> Result<()> {
        if mode == Mode::InBlock {
            self.enter_node(node).await?;
        }
        self.ready(node, mode, Settling::First, extended).await?;
        self.mark_left(node);
        Ok(())
    }

    /// [`Session::acquire_for`] for a statement that looks at nothing but the row it brings. With BEGIN settling costs next to nothing.
    pub(crate) async fn acquire_for_independent(&mut self, node: NodeId, extended: bool) -> Result<()> {
        match self.leased.get(&node).is_some_and(|leased| leased.begun) {
            true => self.acquire_for_independent_rows(node, extended).await,
            false => self.acquire_for(node, Mode::InBlock, extended).await,
        }
    }

    /// The same for many rows.
    pub(crate) async fn acquire_for_independent_rows(&mut self, node: NodeId, extended: bool) -> Result<()> {
        self.enter_node(node).await?;
        // A transaction that keeps its snapshot can settle before it only.
        let settling = match self.isolation() {
            Some(Isolation::ReadCommitted) => Settling::BeforeCommit,
            _ => Settling::First,
        };
        self.ready(node, Mode::InBlock, settling, extended).await?;
        self.mark_left(node);
        Ok(())
    }

    /// For what reads no rows of the user's: a SERIALIZABLE transaction may ask one node and run on another.
    pub(crate) async fn acquire_to_ask(&mut self, node: NodeId) -> Result<()> {
        match &self.block {
            Some(block) if matches!(block.reach, Reach::Narrow(_)) => self.acquire_as_is(node, Mode::InBlock).await,
            _ => self.acquire(node, self.mode()).await,
        }
    }

    /// [`Session::acquire`] for what takes no snapshot.
    pub(crate) async fn acquire_as_is(&mut self, node: NodeId, mode: Mode) -> Result<()> {
        let settling = if mode == Mode::InBlock { Settling::First } else { Settling::Never };
        self.ready(node, mode, settling, false).await
    }

    async fn ready(&mut self, node: NodeId, mode: Mode, settling: Settling, extended: bool) -> Result<()> {
        // A cancel may have come between two steps of a statement. With answers on their way the links would be lost.
        if self.leased.values().all(|leased| leased.link.connection.is_settled()) {
            self.cancel.interrupt().check()?;
        }
        self.take_link(node).await?;
        if self.block.is_none() {
            self.cancel.begins();
        }
        self.link(node)?.withholds_temp = self.withholds_temp;
        let joins = mode == Mode::InBlock && !self.link(node)?.begun;
        let must_settle = settling != Settling::Never && self.must_settle(node)?;
        let settles = must_settle && settling == Settling::First;
        self.link(node)?.unsettled |= must_settle && !settles;
        if settles {
            let place = self.place(node);
            let doubt = self.context.doubt(place);
            let leased = self.link(node)?;
            leased.unsettled = false;
            leased.link.settled_at = doubt;
            self.sight.settled(place);
        }
        let commands = if joins { Some(self.join(node)?) } else { None };
        let in_read_committed = mode == Mode::InBlock && self.isolation() == Some(Isolation::ReadCommitted);
        let leased = self.link(node)?;
        match commands {
            // Every statement of such a transaction has a snapshot of its own, so settling may be one of them.
            None if in_read_committed && settles => leased.queue_ahead(&[Own::Settle], extended),
            Some(begin) if begin == BEGIN && settles && extended => {
                leased.queue_ahead(&[Own::Begin, Own::Settle], true)
            }
            commands => {
                // What follows may be SET TRANSACTION, which must be the first in its transaction.
                leased.queue_ahead(if settles { &[Own::Settle] } else { &[] }, false);
                match commands {
                    Some(begin) if begin == BEGIN => leased.queue_ahead(&[Own::Begin], extended),
                    Some(commands) => leased.query_ahead(&commands),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// A link to `node` that has the session's settings.
    async fn take_link(&mut self, node: NodeId) -> Result<()> {
        if !self.leased.contains_key(&node) {
            self.be_admitted(node).await?;
            let login = self.login().await?;
            let checkout = self.context.link_for(self.place(node), &self.identity, &login, self.drawn_on(node));
            let link = self.cancel.interrupt().or(checkout).await??;
            self.cancel.add(node, link.connection.cancel_key());
            self.leased.insert(node, LeasedConnection::new(link));
            self.check_drawn(node)?;
        }
        // Inside a block SETs were sent to every link as they came; a link that joins gets the older ones first.
        let settings = self.block.as_ref().map_or(&self.settings, |block| &block.settings_at_begin);
        let fingerprint = settings.fingerprint();
        let Some(leased) = self.leased.get_mut(&node) else { return Err(PgError::internal("a held link is missing")) };
        if leased.begun {
            return Ok(());
        }
        let opened_under = leased.link.login.clone();
        let login = self.login.clone().unwrap_or_else(|| opened_under.clone());
        let wanted = login.applied(fingerprint, &opened_under);
        let is_foreign = leased.link.left_by.is_some_and(|session| session != self.number);
        if leased.link.applied_settings != wanted || is_foreign {
            let settings = settings.replay_after(&login.commands_on(&opened_under));
            let replay = if is_foreign { format!("DISCARD SEQUENCES; {settings}") } else { settings };
            leased.link.connection.execute(&replay).await?;
            leased.link.applied_settings = wanted;
            leased.link.left_by = leased.link.left_by.filter(|_| !is_foreign);
        }
        Ok(())
    }

    /// Notes that the backend of a held link has the session's settings.
    pub(crate) fn has_settings(&mut self, node: NodeId) {
        let fingerprint = self.settings.fingerprint();
        let Some(leased) = self.leased.get_mut(&node) else { return };
        let login = self.login.as_ref().unwrap_or(&leased.link.login);
        leased.link.applied_settings = login.applied(fingerprint, &leased.link.login);
    }

    /// Might the node show less than the session has seen? An open transaction that keeps its snapshot cannot be helped.
    fn must_settle(&mut self, node: NodeId) -> Result<bool> {
        let (place, settles) = (self.place(node), self.settles());
        let is_stale = self.sight.is_stale(place);
        let epoch = self.context.doubt(place);
        let keeps_snapshot = self.isolation().is_some_and(Isolation::keeps_snapshot);
        let leased = self.link(node)?;
        Ok(settles && (is_stale || leased.link.settled_at < epoch) && !(leased.begun && keeps_snapshot))
    }

    /// Counts the node to the block; gives what it must be sent for that.
    fn join(&mut self, node: NodeId) -> Result<String> {
        let block = self.block.as_mut().ok_or_else(|| PgError::internal("no transaction block is open"))?;
        block.clock.get_or_insert(node);
        let commands = block.joining_commands();
        self.link(node)?.begun = true;
        self.cancel.set_in_transaction(node, true);
        Ok(commands)
    }
}
