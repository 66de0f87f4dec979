//! Getting a link ready for a statement: taken from the pool, with the session's settings, in its transaction, past its read barrier.

use catalog::NodeId;
use pgerror::{PgError, Result};

use crate::backend::isolation::Isolation;
use crate::backend::own_statements::BEGIN;
use crate::backend::own_statements::Own;
use crate::backend::pool::login::DEFAULTS;
use crate::backend::slot::{Slot, slots};
use crate::block::causality::ReadBarrier;
use crate::block::node_span::NodeSpan;
use crate::block::{Block, Mode};
use crate::session::Session;

impl Session {
    /// Makes the session hold a link to `node` that is ready for the statement; BEGIN may be queued on it, unsent.
    pub(crate) async fn acquire(&mut self, slot: impl Into<Slot>, mode: Mode) -> Result<()> {
        let slot = slot.into();
        self.acquire_for(slot, mode, false).await
    }

    /// [`Session::acquire`] for a statement that is queued next and, if `extended`, goes by the extended protocol.
    pub(crate) async fn acquire_for(&mut self, slot: impl Into<Slot>, mode: Mode, extended: bool) -> Result<()> {
        let slot = slot.into();
        if mode == Mode::InBlock {
            self.enter_node(slot).await?;
        }
        self.ready(slot, mode, ReadBarrier::First, extended).await?;
        self.mark_left(slot);
        Ok(())
    }

    /// [`Session::acquire_for`] for a statement that looks at nothing but the row it brings. With BEGIN a read barrier costs next to nothing.
    pub(crate) async fn acquire_for_independent(&mut self, node: NodeId, extended: bool) -> Result<()> {
        match self.links.get(node).is_some_and(|leased| leased.begun) {
            true => self.acquire_for_independent_rows(node, extended).await,
            false => self.acquire_for(node, Mode::InBlock, extended).await,
        }
    }

    /// [`Session::acquire_for_independent`] for many rows.
    pub(crate) async fn acquire_for_independent_rows(&mut self, node: NodeId, extended: bool) -> Result<()> {
        self.enter_node(node.into()).await?;
        // A transaction that keeps its snapshot can pass a read barrier before it only.
        let barrier = match self.isolation() {
            Some(isolation) if isolation.renews_snapshot() => ReadBarrier::BeforeCommit,
            _ => ReadBarrier::First,
        };
        self.ready(node.into(), Mode::InBlock, barrier, extended).await?;
        self.mark_left(node);
        Ok(())
    }

    /// For what reads no rows of the user's: a SERIALIZABLE transaction may ask one node and run on another.
    pub(crate) async fn acquire_to_ask(&mut self, slot: impl Into<Slot>) -> Result<()> {
        let slot = slot.into();
        match &self.block {
            Some(block) if matches!(block.node_span, NodeSpan::SingleNode(_)) => {
                self.acquire_as_is(slot, Mode::InBlock).await
            }
            _ => self.acquire(slot, self.mode()).await,
        }
    }

    /// [`Session::acquire`] for what takes no snapshot.
    pub(crate) async fn acquire_as_is(&mut self, slot: impl Into<Slot>, mode: Mode) -> Result<()> {
        let slot = slot.into();
        let barrier = if mode == Mode::InBlock { ReadBarrier::First } else { ReadBarrier::Never };
        self.ready(slot, mode, barrier, false).await
    }

    /// Makes the session hold links to all of these, without anything sent on them yet. Work on several nodes calls this first:
    /// what opening them takes is waited for once then, and not for each.
    pub(crate) async fn connect_to(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<()> {
        let before = self.block.as_ref().map(Block::settings_at_begin);
        self.links.acquire_together(&slots(nodes), before, &self.leaves).await
    }

    async fn ready(&mut self, slot: Slot, mode: Mode, barrier: ReadBarrier, extended: bool) -> Result<()> {
        // A cancel may have come between two steps of a statement. With answers on their way the links would be lost.
        if self.links.iter().all(|(_, leased)| leased.link.connection.is_drained()) {
            self.links.cancel().interrupt().check()?;
        }
        let before = self.block.as_ref().map(Block::settings_at_begin);
        self.links.acquire(slot, before, &self.leaves).await?;
        if self.block.is_none() {
            self.links.cancel().begins();
        }
        let has_settings_of_block = self.block.as_ref().is_some_and(Block::has_settings_of_session);
        let leased = self.links.link(slot)?;
        leased.withholds_temp = self.withholds_temp;
        leased.has_settings_of_block = has_settings_of_block;
        let joins = mode == Mode::InBlock && !leased.begun;
        let needs_read_barrier = barrier != ReadBarrier::Never && self.needs_read_barrier(slot)?;
        let at_once = needs_read_barrier && barrier == ReadBarrier::First;
        self.links.link(slot)?.owes_read_barrier |= needs_read_barrier && !at_once;
        if at_once {
            let place = slot.node();
            let doubt = self.context.doubt(place);
            self.links.link(slot)?.passes_read_barrier(doubt);
            self.causality.pass_read_barrier(place);
        }
        let commands = if joins { Some(self.join(slot)?) } else { None };
        let in_read_committed = mode == Mode::InBlock && self.isolation().is_some_and(Isolation::renews_snapshot);
        let leased = self.links.link(slot)?;
        match commands {
            // Every statement of such a transaction has a snapshot of its own, so the barrier may be one of them.
            None if in_read_committed && at_once && extended => leased.queue_merged(&[Own::ReadBarrier]),
            Some(begin) if begin == BEGIN && extended && at_once => {
                leased.queue_merged(&[Own::Begin, Own::ReadBarrier])
            }
            Some(begin) if begin == BEGIN && extended => leased.queue_merged(&[Own::Begin]),
            commands => {
                // What follows may be SET TRANSACTION, which must be the first in its transaction.
                if at_once {
                    leased.queue_apart(Own::ReadBarrier);
                }
                match commands {
                    Some(begin) if begin == BEGIN => leased.queue_begin(),
                    Some(commands) => {
                        leased.queue_begin();
                        let modes = commands.strip_prefix("BEGIN").unwrap_or_default();
                        leased.queue_query(&format!("SET TRANSACTION{modes}"));
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Might the slot show less than the session has seen? An open transaction that keeps its snapshot cannot be helped.
    fn needs_read_barrier(&mut self, slot: Slot) -> Result<bool> {
        let (place, at_once) = (slot.node(), self.uses_read_barriers());
        let is_stale = self.causality.is_stale(place);
        let epoch = self.context.doubt(place);
        let keeps_snapshot = self.isolation().is_some_and(Isolation::keeps_snapshot);
        let leased = self.links.link(slot)?;
        Ok(at_once && (is_stale || leased.read_barrier_at() < epoch) && !(leased.begun && keeps_snapshot))
    }

    /// Counts the slot to the block; gives what it must be sent for that.
    fn join(&mut self, slot: Slot) -> Result<String> {
        let block = self.block.as_mut().ok_or_else(|| PgError::internal("no transaction block is open"))?;
        block.clock.get_or_insert(slot.node());
        let commands = block.joining_commands();
        self.links.link(slot)?.begun = true;
        self.links.cancel().set_in_transaction(slot, true);
        Ok(commands)
    }

    /// To be called with a link to the home slot when the session starts.
    pub(crate) async fn note_defaults(&mut self) -> Result<()> {
        let login = self.links.login().await?;
        if login.defaults.get().is_some() {
            return Ok(());
        }
        let rows = self.rows_on(self.home, DEFAULTS).await?;
        let text = |value: Option<bytes::Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let pair = |row: Vec<Option<bytes::Bytes>>| {
            let mut values = row.into_iter();
            (text(values.next().flatten()), text(values.next().flatten()))
        };
        let _ = login.defaults.set(rows.into_iter().map(pair).collect());
        Ok(())
    }
}
