//! The gate of a coordinator: commits pass it one by one and never wait for each other, until the gtm has it shut for the moment
//! in which a statement takes its snapshots on several datanodes (a *global snapshot*).
//!
//! ```text
//!  commit ── enter ──> Pass ── COMMIT, COMMIT PREPARED … ── drop ──>        any number at once
//!  gtm: Close ── shut ──> new ones queue ── drained ──> Closed … Open ── open ──> the queue is let in, all of it
//! ```
//!
//! # What a global snapshot promises
//! A transaction that wrote on several nodes becomes visible node by node, from its COMMIT at the commit point to its last COMMIT
//! PREPARED: its *visible phase*. A global snapshot shows it on all its nodes or on none, and with a commit it shows all that was acknowledged
//! before that commit began. Both hold because no visible phase overlaps the global snapshot and no commit begins in it:
//! * every coordinator's gate is shut, and was drained, before the snapshots are taken; it stays shut for [`HOLD`] by its own
//!   clock even if nobody says Open. The snapshots count only if they are all there within [`SNAPSHOT_MAX`] of a moment before any gate
//!   was shut, and on no datanode after something that was let in because this time was over: page [`crate::marks`];
//! * a coordinator that the gtm does not know of cannot decide: see the fence, page [`crate::gtm`].
//!
//! # When a commit does not end
//! A drain waits [`DRAIN_MAX`] at most. A commit over several nodes that is still inside then, or that is dropped in its visible
//! phase, or gave up on a node, is *reported*: the gtm learns which nodes hold its prepared part, on the same ordered
//! channel and before it learns that the gate is shut; these nodes cannot be in a global snapshot until recovery has seen them without it.
//! A commit on one node needs no report: it is visible at once or not yet, was asked for before the global snapshot, and a client
//! that acts on its answer waits at the gate. (Two of them that are this slow may show one here and the other there to two global
//! snapshots of one barrier, before either is acknowledged. That is a known limit.)
//!
//! # Invariants
//! * A commit that queues when the gate opens is let in, even if it is shut again at once: global snapshots do not starve commits.
//! * A report is queued before its pass leaves, so it is ahead of the Closed that waited for the pass.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::figures;
use crate::gid::Gid;
use crate::gtm::command::Command;
use crate::marks::Ajar;

/// How long a gate stays shut when nobody opens it.
pub const HOLD: Duration = Duration::from_millis(1000);
/// How long after its request a global snapshot's last snapshot may come. Less than `HOLD`, for clocks that run at different speeds.
pub const SNAPSHOT_MAX: Duration = Duration::from_millis(900);
/// How long a barrier waits for the commits inside.
pub const DRAIN_MAX: Duration = Duration::from_millis(400);

/// See the module's page. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    core: Arc<Core>,
    reports: mpsc::UnboundedSender<Command>,
}

/// The right to publish writes; the drop gives it back.
#[must_use]
pub struct Pass {
    core: Arc<Core>,
    reports: mpsc::UnboundedSender<Command>,
    id: u64,
}

/// A distributed transaction that may be visible on some nodes and not yet on these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// Its name.
    pub gid: Gid,
    /// Where it is, or may be, prepared.
    pub nodes: Vec<u16>,
}

/// Which barrier has the gate shut; a later one takes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seal(u64);

/// The gate without the way to the gtm.
#[derive(Default)]
pub(crate) struct Core {
    state: Mutex<State>,
    left: Notify,
}

#[derive(Default)]
struct State {
    last_id: u64,
    inside: HashMap<u64, Option<Exposed>>,
    seal: Option<Seal>,
    /// Since when there is a seal.
    shut_since: Option<Instant>,
    queue: VecDeque<(oneshot::Sender<Pass>, Pass)>,
    ajar: Option<Ajar>,
}

impl Gate {
    pub(crate) fn new(core: Arc<Core>, reports: mpsc::UnboundedSender<Command>) -> Self {
        Self { core, reports }
    }

    /// See [`Core::unmarked`].
    pub(crate) fn unmarked(&self, generation: u64, nodes: &[u16]) -> Option<(u64, Vec<u16>)> {
        self.core.unmarked(generation, nodes)
    }

    /// See [`Core::is_marked`].
    pub(crate) fn is_marked(&self, barrier: u64, node: u16) {
        self.core.is_marked(barrier, node);
    }

    /// Waits while a barrier is on, a second at most.
    pub(crate) async fn enter(&self) -> Pass {
        let mut waits_since = None;
        loop {
            let queued = {
                let mut state = self.core.lock();
                state.last_id += 1;
                let id = state.last_id;
                let pass = Pass { core: self.core.clone(), reports: self.reports.clone(), id };
                if state.seal.is_none() {
                    state.inside.insert(id, None);
                    return pass;
                }
                let (admit, queued) = oneshot::channel();
                state.queue.push_back((admit, pass));
                queued
            };
            let since = *waits_since.get_or_insert_with(Instant::now);
            if let Ok(pass) = queued.await {
                figures::GATE_WAITS.observe(since.elapsed());
                return pass;
            }
        }
    }
}

impl Pass {
    /// From now on, until it is resolved, the drop of this pass is reported.
    pub(crate) fn expose(&self, gid: Gid, nodes: Vec<u16>) {
        if let Some(exposed) = self.core.lock().inside.get_mut(&self.id) {
            *exposed = Some(Exposed { gid, nodes });
        }
    }

    /// The transaction is over on all nodes but these.
    pub(crate) fn leave(self, unresolved: &[u16]) {
        if let Some(exposed) = self.core.lock().inside.get_mut(&self.id) {
            exposed.iter_mut().for_each(|exposed| exposed.nodes.retain(|node| unresolved.contains(node)));
            exposed.take_if(|exposed| exposed.nodes.is_empty());
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.core.lock();
        // Gone already if a barrier has lost patience with it, and reported it.
        if let Some(Some(exposed)) = state.inside.remove(&self.id) {
            // The lock is held: no barrier can see the gate empty before the report is queued.
            let _ = self.reports.send(Command::Unresolved(exposed));
        }
        drop(state);
        self.core.left.notify_waiters();
    }
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nobody in from now on.
    pub(crate) fn shut(&self) -> Seal {
        let mut state = self.lock();
        state.last_id += 1;
        let seal = Seal(state.last_id);
        state.seal = Some(seal);
        state.shut_since.get_or_insert_with(Instant::now);
        seal
    }

    /// Waits until everybody has left, or for [`DRAIN_MAX`]; gives the transactions that it does not wait for any more.
    pub(crate) async fn drained(&self) -> Vec<Exposed> {
        let deadline = Instant::now() + DRAIN_MAX;
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // Registered before the look, so that a pass which leaves in between is noticed.
            left.as_mut().enable();
            if self.lock().inside.is_empty() {
                return Vec::new();
            }
            if timeout_at(deadline, left).await.is_err() {
                return self.lock().inside.drain().filter_map(|(_, exposed)| exposed).collect();
            }
        }
    }

    /// Lets everybody in, unless a later barrier has taken over. `ajar`: somebody may still be taking snapshots in this barrier.
    pub(crate) fn open(&self, seal: Seal, ajar: Option<u64>) {
        let mut state = self.lock();
        if state.seal != Some(seal) {
            return;
        }
        state.seal = None;
        if let Some(since) = state.shut_since.take() {
            figures::GATE_SHUT.observe(since.elapsed());
        }
        if let Some(barrier) = ajar {
            state.ajar = Some(Ajar::new(barrier));
        }
        let queue = std::mem::take(&mut state.queue);
        state.inside.extend(queue.iter().map(|(_, pass)| (pass.id, None)));
        drop(state);
        for (admit, pass) in queue {
            // If the receiver is gone, dropping the pass gives it back.
            let _ = admit.send(pass);
        }
    }
}

impl Core {
    /// The barrier in which the gate was opened too early for some reader, and those of these nodes that have no mark of it.
    pub(crate) fn unmarked(&self, generation: u64, nodes: &[u16]) -> Option<(u64, Vec<u16>)> {
        let state = self.lock();
        let ajar = state.ajar.as_ref().filter(|ajar| ajar.barrier() > generation)?;
        Some((ajar.barrier(), ajar.unmarked(nodes)))
    }

    /// The node has been marked.
    pub(crate) fn is_marked(&self, barrier: u64, node: u16) {
        if let Some(ajar) = &mut self.lock().ajar {
            ajar.is_marked(barrier, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn gate() -> (Gate, mpsc::UnboundedReceiver<Command>) {
        let (reports, inbox) = mpsc::unbounded_channel();
        (Gate::new(Arc::default(), reports), inbox)
    }

    fn gid() -> Gid {
        "loxo_1_0_700_00000000000000ff_1".parse().unwrap()
    }

    #[tokio::test]
    async fn a_barrier_waits_for_those_inside_and_holds_up_the_others() {
        let (gate, _inbox) = gate();
        let pass = gate.enter().await;
        let seal = gate.core.shut();
        let mut drained = std::pin::pin!(gate.core.drained());
        assert!(drained.as_mut().now_or_never().is_none());
        let mut late = std::pin::pin!(gate.enter());
        assert!(late.as_mut().now_or_never().is_none());
        drop(pass);
        assert_eq!(drained.await, []);
        // Shut again at once: commits that have queued are in all the same, and the second barrier waits for it.
        gate.core.open(seal, None);
        let second = gate.core.shut();
        assert!(gate.core.drained().now_or_never().is_none());
        let pass = late.await;
        drop(pass);
        assert_eq!(gate.core.drained().await, []);
        // The first barrier's end means nothing now.
        gate.core.open(seal, None);
        assert!(gate.enter().now_or_never().is_none());
        gate.core.open(second, None);
        assert!(gate.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_gives_up_queueing_is_not_waited_for() {
        let (gate, _inbox) = gate();
        let seal = gate.core.shut();
        assert!(gate.enter().now_or_never().is_none());
        gate.core.open(seal, None);
        gate.core.shut();
        assert_eq!(gate.core.drained().now_or_never(), Some(Vec::new()));
    }

    #[tokio::test]
    async fn a_transaction_that_is_not_over_is_reported_before_it_leaves() {
        let (gate, mut inbox) = gate();
        let exposed = |nodes: &[u16]| Exposed { gid: gid(), nodes: nodes.to_vec() };
        let mut next = || match inbox.try_recv() {
            Ok(Command::Unresolved(exposed)) => Some(exposed),
            _ => None,
        };
        for (unresolved, reported) in [(&[][..], None), (&[2], Some(exposed(&[2])))] {
            let pass = gate.enter().await;
            pass.expose(gid(), vec![1, 2]);
            pass.leave(unresolved);
            assert_eq!(next(), reported);
        }
        let pass = gate.enter().await;
        pass.expose(gid(), vec![1, 2]);
        drop(pass);
        assert_eq!(next(), Some(exposed(&[1, 2])));
        drop(gate.enter().await);
        assert_eq!(next(), None);
    }

    #[tokio::test]
    async fn a_barrier_loses_patience_once() {
        let (gate, mut inbox) = gate();
        let (several, one) = (gate.enter().await, gate.enter().await);
        several.expose(gid(), vec![1]);
        gate.core.shut();
        let started = Instant::now();
        assert_eq!(gate.core.drained().await, [Exposed { gid: gid(), nodes: vec![1] }]);
        assert!(started.elapsed() >= DRAIN_MAX);
        assert_eq!(gate.core.drained().now_or_never(), Some(Vec::new()));
        drop((several, one));
        assert!(inbox.try_recv().is_err());
    }
}
