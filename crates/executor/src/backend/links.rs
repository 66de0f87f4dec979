//! The links that a session holds, one a node, and what goes with them: the settings they must have, the right to hold any, the
//! way to stop what runs on them.
//!
//! Invariants: at most one link a node; a link that is taken has the session's settings, or, inside a block, those from before it;
//! one whose answers were not read to the end, or that may hold what nobody has asked about, is closed instead of given back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use catalog::{Leavings, NodeId};
use futures_util::future::join_all;
use pgerror::{PgError, Result};
use pgproto::{CancelKey, Frame};

use crate::backend::cancel::{CancelSet, Entry};
use crate::backend::leased::{LeasedConnection, Replay};
use crate::backend::pool::admission::{Ticket, admit};
use crate::backend::pool::cluster::Cluster;
use crate::backend::pool::login::Login;
use crate::backend::pool::sequence_values::{DrawnValues, Elsewhere};
use crate::backend::pool::{Identity, Link, Pool};
use crate::backend::settings::Settings;
use crate::backend::slot::{Slot, slots};

/// Links by node, at work or at rest.
#[derive(Default)]
pub(crate) struct LinkSet(BTreeMap<Slot, LeasedConnection>);

impl LinkSet {
    pub(crate) fn get(&self, slot: impl Into<Slot>) -> Option<&LeasedConnection> {
        self.0.get(&slot.into())
    }

    pub(crate) fn get_mut(&mut self, slot: impl Into<Slot>) -> Option<&mut LeasedConnection> {
        self.0.get_mut(&slot.into())
    }

    /// A link that must be there.
    ///
    /// # Errors
    /// XX000 if it is not.
    pub(crate) fn link(&mut self, slot: impl Into<Slot>) -> Result<&mut LeasedConnection> {
        let slot = slot.into();
        let lost = || PgError::internal(format!("no link to node {} is held", slot.node().0));
        self.get_mut(slot).ok_or_else(lost)
    }

    pub(crate) fn has(&self, slot: impl Into<Slot>) -> bool {
        self.0.contains_key(&slot.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &LeasedConnection)> {
        self.0.iter().map(|(slot, leased)| (*slot, leased))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut LeasedConnection)> {
        self.0.iter_mut().map(|(slot, leased)| (*slot, leased))
    }

    /// Those to these nodes.
    pub(crate) fn of(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
    ) -> impl Iterator<Item = (Slot, &mut LeasedConnection)> {
        let wanted = slots(nodes);
        self.iter_mut().filter(move |(slot, _)| wanted.contains(slot))
    }

    /// The nodes whose links are like this.
    pub(crate) fn nodes_where(&self, is_wanted: impl Fn(&LeasedConnection) -> bool) -> Vec<Slot> {
        self.iter().filter(|(_, leased)| is_wanted(leased)).map(|(slot, _)| slot).collect()
    }

    /// Nodes with a part of the transaction.
    pub(crate) fn begun(&self) -> Vec<Slot> {
        self.nodes_where(|leased| leased.begun)
    }

    /// Takes links out, in this order, for work that borrows several at once. Work that is dropped half-way (the client is gone)
    /// drops them, which closes the connections.
    pub(crate) fn take(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<Vec<(Slot, LeasedConnection)>> {
        let lost = || PgError::internal("a link that a statement needs is not held");
        slots(nodes).into_iter().map(|slot| Ok((slot, self.0.remove(&slot).ok_or_else(lost)?))).collect()
    }

    /// Undoes [`LinkSet::take`].
    pub(crate) fn put_back(&mut self, links: Vec<(Slot, LeasedConnection)>) {
        self.0.extend(links);
    }

    /// Runs a statement that has no rows on each node, all at once; the first error wins. Used for SAVEPOINT and the like.
    pub(crate) async fn broadcast(&mut self, nodes: &[impl Copy + Into<Slot>], sql: &str) -> Result<()> {
        for node in nodes {
            self.link(*node)?.link.connection.query(sql.as_bytes());
        }
        let work = self.of(nodes).map(|(_, leased)| async {
            leased.link.connection.flush().await?;
            leased.skip_preamble().await?;
            leased.link.connection.read_rows().await
        });
        let results = join_all(work).await;
        results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Sends what is queued on these links and reads the answer to `BEGIN …`.
    pub(crate) async fn opened(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<()> {
        let work = self.of(nodes).map(|(_, leased)| async {
            leased.flush().await?;
            leased.skip_preamble().await
        });
        join_all(work).await.into_iter().collect()
    }

    /// Sends what was started on these nodes and reads the answers to their end; the first error wins.
    pub(crate) async fn finish_all(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<Vec<Option<String>>> {
        let work = self.of(nodes).map(|(_, leased)| async {
            leased.flush().await?;
            leased.finish().await
        });
        join_all(work).await.into_iter().collect()
    }

    /// What runs there is of no use.
    pub(crate) async fn cancel_on(&self, nodes: &[impl Copy + Into<Slot>]) {
        let wanted = slots(nodes);
        let leased = self.iter().filter(|(slot, _)| wanted.contains(slot));
        join_all(leased.map(|(_, leased)| leased.link.connection.cancel_key().cancel())).await;
    }
}

/// Links of a session while others work for it on the same nodes.
pub(crate) struct SuspendedLinks {
    leased: LinkSet,
    settings: Settings,
    pinned: BTreeSet<Slot>,
    _counted: Arc<()>,
}

impl SuspendedLinks {
    pub(crate) fn links(&mut self) -> &mut LinkSet {
        &mut self.leased
    }
}

/// See the module's page.
pub(crate) struct Links {
    cluster: Arc<Cluster>,
    identity: Identity,
    /// Names that the session's role has had since the session began: older links have them.
    earlier_names: Vec<String>,
    home: NodeId,
    /// A number of this session's own, to spread work over nodes.
    number: usize,
    leased: LinkSet,
    /// Links leased so far.
    leases: u64,
    /// State lives in these nodes' backends: keep them until the session ends.
    pinned: BTreeSet<Slot>,
    settings: Settings,
    /// The login that held when the session started, once it is known.
    login: Option<Arc<Login>>,
    cancel: Arc<CancelSet>,
    /// Where the gtm finds it.
    _entry: Entry,
    drawn: DrawnValues,
    /// While it holds connections.
    ticket: Option<Ticket>,
    /// Counts the suspended sets of links.
    suspended: Arc<()>,
}

impl Deref for Links {
    type Target = LinkSet;

    fn deref(&self) -> &LinkSet {
        &self.leased
    }
}

impl DerefMut for Links {
    fn deref_mut(&mut self) -> &mut LinkSet {
        &mut self.leased
    }
}

impl Links {
    /// The links of a session of `identity`, with no connection yet.
    pub(crate) fn new(cluster: Arc<Cluster>, identity: Identity, settings: Settings) -> Self {
        let number = cluster.next_session_number();
        let home = cluster.home();
        let cancel = Arc::new(CancelSet::new());
        let _entry = cluster.sessions().enter(number as u64, &cancel);
        Self {
            cluster,
            identity,
            earlier_names: Vec::new(),
            home,
            number,
            leased: LinkSet::default(),
            leases: 0,
            pinned: BTreeSet::new(),
            settings,
            login: None,
            cancel,
            _entry,
            drawn: DrawnValues::default(),
            ticket: None,
            suspended: Arc::default(),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Is this the name under which the backend of a held link was logged in to? It shows this one, whatever the role is called now.
    pub(crate) fn is_login_name(&mut self, slot: impl Into<Slot>, name: &str) -> Result<bool> {
        Ok(self.link(slot)?.link.user() == name)
    }

    /// A number of this session's own, to spread work over nodes.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn cancel(&self) -> &Arc<CancelSet> {
        &self.cancel
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The login, if a link was needed already.
    pub(crate) fn known_login(&self) -> Option<&Arc<Login>> {
        self.login.as_ref()
    }

    /// The login that held when the session started.
    pub(crate) async fn login(&mut self) -> Result<Arc<Login>> {
        if let Some(login) = &self.login {
            return Ok(login.clone());
        }
        let read = self.cluster.login(&self.identity.user);
        let login = self.cancel.interrupt().or(read).await??;
        Ok(self.login.insert(login).clone())
    }

    /// Makes the session hold a link that has its settings, or, inside a block, those of `before` it: SETs were sent to every link as
    /// they came; a link that joins gets the older ones first.
    pub(crate) async fn acquire(
        &mut self,
        slot: impl Into<Slot>,
        before: Option<&Settings>,
        leaves: &Leavings,
    ) -> Result<()> {
        let slot = slot.into();
        if !self.leased.has(slot) {
            let is_only = before.is_none() && self.is_empty() && !self.have_suspended();
            self.be_admitted(slot, is_only).await?;
            let login = self.login().await?;
            // What need not wait costs no future of its own.
            let link = match self.idle_link(slot, &login)? {
                Some(link) => link,
                None => Box::pin(self.cancel.interrupt().or(self.checkout(slot, &login))).await??,
            };
            self.lease(slot, link, leaves)?;
        }
        let settings = before.unwrap_or(&self.settings);
        match self.replay(slot, settings) {
            Some(replay) => self.leased.link(slot)?.replay(&replay).await,
            None => Ok(()),
        }
    }

    /// [`Links::acquire`] of several main links at the same time, if there are several that are not held: to open a connection, and to
    /// change its settings, takes a node some round trips.
    ///
    /// Second links to a node are not taken so: a session that holds some and waits for others must wait in the order of the nodes,
    /// since of those there may be too few for all (see [`admission`](crate::backend::pool::admission)).
    pub(crate) async fn acquire_together(
        &mut self,
        slots: &[Slot],
        before: Option<&Settings>,
        leaves: &Leavings,
    ) -> Result<()> {
        let is_missing = |slot: &&Slot| slot.is_main() && !self.leased.has(**slot);
        let missing: Vec<Slot> = slots.iter().filter(is_missing).copied().collect();
        let [first, _, ..] = missing.as_slice() else { return Ok(()) };
        if self.have_suspended() {
            return Ok(());
        }
        self.be_admitted(*first, false).await?;
        let login = self.login().await?;
        let checkouts = join_all(missing.iter().map(|slot| self.checkout(*slot, &login)));
        let links = self.cancel.interrupt().or(checkouts).await?;
        let mut outcome = Ok(());
        for (slot, link) in missing.iter().zip(links) {
            let leased = link.and_then(|link| self.lease(*slot, link, leaves));
            outcome = outcome.and(leased);
        }
        outcome?;
        let settings = before.unwrap_or(&self.settings);
        let replays: BTreeMap<Slot, Replay> =
            missing.iter().filter_map(|slot| Some((*slot, self.replay(*slot, settings)?))).collect();
        let work = self.leased.iter_mut().filter_map(|(slot, leased)| Some((leased, replays.get(&slot)?)));
        let replayed = work.map(async |(leased, replay)| leased.replay(replay).await);
        join_all(replayed).await.into_iter().collect()
    }

    /// Has the session admitted to connections, if it is not yet.
    async fn be_admitted(&mut self, slot: Slot, is_only: bool) -> Result<()> {
        if self.ticket.is_none() {
            self.ticket = self.cluster.admission.admit_at_once(slot.node(), is_only);
            if self.ticket.is_some() {
                return Ok(());
            }
        }
        let max = self.cluster.pool.connections_max();
        let admitted = admit(&self.cluster.admission, self.ticket.as_ref(), slot.node(), is_only, max);
        if let Some(ticket) = self.cancel.interrupt().or(admitted).await?? {
            self.ticket = Some(ticket);
        }
        Ok(())
    }

    /// A link that waits in the pool for anybody.
    fn idle_link(&self, slot: Slot, login: &Arc<Login>) -> Result<Option<Box<Link>>> {
        let drawn = self.drawn.present().filter(|_| slot == self.home);
        self.cluster.idle_link(slot.node(), &self.identity, login, self.settings.placeholders(), drawn)
    }

    /// A link out of the pool.
    async fn checkout(&self, slot: Slot, login: &Arc<Login>) -> Result<Box<Link>> {
        let drawn = self.drawn.present().filter(|_| slot == self.home);
        self.cluster.link_for(slot.node(), &self.identity, login, self.settings.placeholders(), drawn).await
    }

    fn lease(&mut self, slot: Slot, link: Box<Link>, leaves: &Leavings) -> Result<()> {
        self.cancel.add(slot, link.connection.cancel_key());
        let drawn_are_here = match slot == self.home && !self.have_suspended() {
            true => self.drawn.check(link.drawn.as_ref(), leaves),
            false => Ok(()),
        };
        // It has got another name meanwhile, unless the link is older than that.
        let is_older = self.earlier_names.iter().any(|earlier| earlier == link.user());
        if link.user() != self.identity.user && !is_older {
            let earlier = std::mem::replace(&mut self.identity.user, link.user().to_owned());
            self.earlier_names.push(earlier);
            self.cancel.activity().comes_to(&self.identity.database, &self.identity.user);
        }
        self.leases += 1;
        let mut leased = LeasedConnection::new(link);
        leased.link.has_others_plans |= std::mem::replace(&mut leased.link.used_by, self.number) != self.number;
        leased.earlier = self.leases;
        self.leased.0.insert(slot, leased);
        drawn_are_here
    }

    /// Has this link, on which no transaction is open, the session's settings?
    pub(crate) fn is_set(&self, slot: impl Into<Slot>) -> bool {
        let slot = slot.into();
        self.get(slot).is_some_and(|leased| !leased.begun) && self.replay(slot, &self.settings).is_none()
    }

    /// What a held link needs to have these settings; `None` if it has them.
    fn replay(&self, slot: Slot, settings: &Settings) -> Option<Replay> {
        let LeasedConnection { link, begun: false, .. } = self.leased.get(slot)? else { return None };
        let login = self.login.as_ref().unwrap_or(&link.login);
        let wanted = login.applied(settings.fingerprint(), &link.login);
        let is_foreign = link.left_by.is_some_and(|session| session != self.number);
        let keeps_plans = !settings.read_otherwise_untold();
        let plans_are_good = !link.reads_otherwise() && (keeps_plans || !link.has_others_plans);
        if link.applied_settings == wanted && !is_foreign && plans_are_good {
            return None;
        }
        let settings = settings.replay_after(&login.commands_on(&link.login));
        let commands = if is_foreign { format!("DISCARD SEQUENCES; {settings}") } else { settings };
        Some(Replay { commands, settings: wanted, is_foreign, keeps_plans })
    }

    /// Notes that the backend of a held link has the session's settings.
    pub(crate) fn has_settings(&mut self, slot: impl Into<Slot>) {
        let fingerprint = self.settings.fingerprint();
        let keeps_plans = !self.settings.read_otherwise_untold();
        let Some(leased) = self.leased.get_mut(slot) else { return };
        if !keeps_plans {
            leased.link.planned_at = u64::MAX;
        }
        let login = self.login.as_ref().unwrap_or(&leased.link.login);
        leased.link.applied_settings = login.applied(fingerprint, &leased.link.login);
    }

    /// The backend of a held link draws values of sequences.
    pub(crate) fn note_drawn(&mut self, slot: impl Into<Slot>) {
        if let Some(LeasedConnection { link, .. }) = self.leased.get_mut(slot) {
            link.left_by = Some(self.number);
            self.drawn.drawn(&mut link.drawn);
        }
    }

    pub(crate) fn drawn(&self) -> &DrawnValues {
        &self.drawn
    }

    /// What the held link to the home node does not have of what the session has drawn; `None` if it has all. Of suspended links nobody
    /// knows which is the later one.
    pub(crate) async fn drawn_elsewhere(&mut self, pool: &Pool) -> Result<Option<Elsewhere>> {
        if self.have_suspended() {
            return Ok(None);
        }
        let here = self.leased.get(self.home).and_then(|leased| leased.link.drawn.as_ref());
        // Nobody else may come for a link that rests in the pool.
        for drawn in self.drawn.untold(here) {
            pool.tell_drawn(&drawn).await;
        }
        self.cancel.interrupt().or(self.drawn.elsewhere(here)).await
    }

    /// Whatever was drawn is of no interest any more.
    pub(crate) fn forget_drawn(&mut self) {
        self.drawn = DrawnValues::default();
    }

    /// Keeps the link of `node` for the rest of the session.
    pub(crate) fn pin(&mut self, slot: impl Into<Slot>) {
        self.pinned.insert(slot.into());
    }

    pub(crate) fn is_pinned(&self, slot: impl Into<Slot>) -> bool {
        self.pinned.contains(&slot.into())
    }

    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// Lets go of all links that were kept for state in their backends; the backends end with their state.
    pub(crate) fn unpin_all(&mut self) {
        std::mem::take(&mut self.pinned).into_iter().for_each(|slot| self.close(slot));
    }

    /// Closes a link, with whatever is in its backend.
    pub(crate) fn close(&mut self, slot: impl Into<Slot>) {
        let slot = slot.into();
        self.pinned.remove(&slot);
        self.leased.0.remove(&slot);
        // The connection is closed, so it does not matter whether a breaker is at work.
        let _ = self.cancel.remove(slot);
    }

    /// Rolls back what is open on a link and gives it back; one that cannot be rolled back is closed, which has the same effect.
    pub(crate) async fn end_one(&mut self, slot: Slot) {
        if let Some(mut leased) = self.leased.0.remove(&slot)
            && leased.link.connection.is_drained()
            && (!leased.begun || leased.link.connection.execute("ROLLBACK").await.is_ok())
        {
            self.give_back(slot, leased);
        }
        let _ = self.cancel.remove(slot);
    }

    /// Gives back what need not be kept: inside a block nothing, unless it is broken. Gives the notices that came on them, and
    /// whether a part of the transaction was lost.
    pub(crate) fn release(&mut self, in_block: bool) -> (Vec<(Slot, Vec<Frame>)>, bool) {
        let (mut notices, mut is_torn) = (Vec::new(), false);
        let slots: Vec<Slot> = self.leased.0.keys().copied().collect();
        for slot in slots {
            let leased = &self.leased.0[&slot];
            let broken = leased.link.connection.is_broken() || !leased.link.connection.is_drained();
            let is_asked = leased.left.is_nothing();
            if !broken && (in_block || self.pinned.contains(&slot) || !is_asked) {
                continue;
            }
            if broken {
                // With a kept backend more is lost than what the block has done there.
                let was_kept = self.pinned.remove(&slot);
                is_torn |= leased.begun || was_kept;
            }
            if let Some(mut leased) = self.leased.0.remove(&slot) {
                let frames = leased.link.connection.take_notices();
                if !frames.is_empty() {
                    notices.push((slot, frames));
                }
                self.give_back(slot, leased);
            }
        }
        if !in_block && self.is_empty() && !self.have_suspended() {
            self.ticket = None;
        }
        (notices, is_torn)
    }

    /// Gives a link back that no transaction is open on.
    pub(crate) fn let_go(&mut self, slot: impl Into<Slot>) {
        let slot = slot.into();
        if let Some(leased) = self.leased.0.remove(&slot) {
            self.give_back(slot, leased);
        }
    }

    /// To the pool, unless a cancel may be under way to the backend, or nobody knows what is left in it.
    fn give_back(&self, slot: Slot, mut leased: LeasedConnection) {
        if self.cancel.remove(slot) && leased.left.is_nothing() {
            leased.link.hears_of(&self.settings);
            self.cluster.pool.give_back(leased.link);
        }
    }

    /// Nodes whose read barriers were not passed since this was asked last.
    pub(crate) fn lost_read_barriers(&mut self) -> Vec<NodeId> {
        let leased = self.leased.0.iter_mut();
        leased.filter_map(|(slot, leased)| leased.take_lost_read_barrier().then(|| slot.node())).collect()
    }

    /// How long nodes took for read barriers since this was asked last.
    pub(crate) fn take_read_barrier_waits(&mut self) -> Duration {
        self.leased.0.values_mut().map(LeasedConnection::take_read_barrier_waits).sum()
    }

    /// It is not known whether the read barriers under way were passed.
    pub(crate) fn read_barriers_failed(&mut self) {
        self.leased.0.values_mut().for_each(LeasedConnection::read_barrier_failed);
    }

    /// No transaction is open on any link any more.
    pub(crate) fn block_ended(&mut self) {
        for (slot, leased) in &mut self.leased.0 {
            self.cancel.set_in_transaction(*slot, false);
            leased.begun = false;
            leased.owes_read_barrier = false;
            leased.asked_whether_wrote = false;
            leased.temp = false;
            leased.gathered = false;
        }
    }

    /// Suspends all links; the next ones get the settings from `before` the block.
    pub(crate) fn suspend(&mut self, before: &Settings) -> SuspendedLinks {
        let settings = self.settings.clone();
        self.settings.go_back_to(before);
        self.cancel.suspend(working(&self.leased));
        SuspendedLinks {
            leased: std::mem::take(&mut self.leased),
            settings,
            pinned: std::mem::take(&mut self.pinned),
            _counted: self.suspended.clone(),
        }
    }

    /// Undoes [`Links::suspend`].
    pub(crate) fn resume(&mut self, suspended: SuspendedLinks) {
        // Those that were not let go of: nobody will ask what is left in them.
        for (slot, leased) in std::mem::take(&mut self.leased).0 {
            self.give_back(slot, leased);
        }
        self.settings.become_again(suspended.settings);
        self.cancel.resume(working(&suspended.leased));
        self.leased = suspended.leased;
        self.pinned = suspended.pinned;
    }

    /// Swaps the active and the suspended connections. Neither set gains a link until they are swapped back.
    pub(crate) fn swap(&mut self, suspended: &mut SuspendedLinks) {
        std::mem::swap(&mut self.leased, &mut suspended.leased);
        self.cancel.suspend(working(&suspended.leased));
        self.cancel.resume(working(&self.leased));
        std::mem::swap(&mut self.pinned, &mut suspended.pinned);
        std::mem::swap(&mut self.settings, &mut suspended.settings);
    }

    /// Does the session hold suspended connections?
    pub(crate) fn have_suspended(&self) -> bool {
        Arc::strong_count(&self.suspended) > 1
    }
}

/// What the cancel set wants to know of links.
fn working(links: &LinkSet) -> impl Iterator<Item = (Slot, &CancelKey, bool)> {
    links.iter().map(|(slot, leased)| (slot, leased.link.connection.cancel_key(), leased.begun))
}
