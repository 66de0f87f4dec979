//! The gtm's part of global snapshots: which barrier is on, who has shut its gate, which nodes cannot be in a global snapshot. No I/O: the hub feeds it
//! and sends what it puts into its outbox.
//!
//! ```text
//!  SnapshotRequest ─> waiting ── Close to all ─> closing ── all Closed ─> granted ── all Taken ─> Open to all
//!                                              └── a loss, or HOLD is over ─> SnapshotFailed, Open ──┘ (HOLD: OpenAjar)
//! ```
//!
//! Invariants:
//! * A global snapshot is granted only while every coordinator that may decide has its gate shut: those connected have said so, and all
//!   others are fenced out and have no lease ([`GlobalSnapshots::is_free`]).
//! * A coordinator is welcomed, and told a generation, between barriers only.
//! * A requester that is lost after the grant may still be taking its snapshots: the barrier then lasts its full [`HOLD`].
//! * A coordinator that has still not said Taken then may be taking snapshots later, if its clock stands still. The gates are
//!   opened *ajar*: coordinators mark the nodes ([`crate::marks`]), and nobody is told the generation of that barrier any more, but
//!   a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info};

use super::event::ClientId;
use super::message::Message;
use crate::gate::{Exposed, HOLD};
use crate::gid::Gid;

/// A request that is older when its barrier could begin is sent back: little of its time would be left.
const REQUEST_AGE_MAX: Duration = Duration::from_millis(300);

/// What the upkeep is to do; the latest counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Order {
    /// Number of fences wanted since the gtm began to lead.
    pub fences: u64,
    /// Grows with each report of an unresolved transaction.
    pub reports: u64,
    /// Is something unresolved?
    pub hurry: bool,
}

/// What a pass of recovery has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// [`Order::reports`] as of its beginning.
    pub reports: u64,
    /// What is still prepared, whether its commit point still runs or not.
    pub waiting: HashSet<Gid>,
    /// Nodes that could not be asked.
    pub unreachable: HashSet<u16>,
}

struct Doubt {
    nodes: BTreeSet<u16>,
    report: u64,
}

struct Request {
    client: ClientId,
    request: u64,
    since: Instant,
}

struct CommitBarrier {
    number: u64,
    /// Coordinators that have not said Closed.
    closing: HashSet<ClientId>,
    /// Those of them that have not said anything since Close.
    silent: HashSet<ClientId>,
    requests: BTreeSet<(ClientId, u64)>,
    granted: bool,
    /// It must last until the deadline.
    abandoned: bool,
    failed: bool,
    deadline: Instant,
}

/// See the module's page.
pub(super) struct GlobalSnapshots {
    last_barrier: u64,
    waiting: Vec<Request>,
    barrier: Option<CommitBarrier>,
    clients: BTreeMap<ClientId, Option<u64>>,
    unresolved: HashMap<Gid, Doubt>,
    order: Order,
    fences_done: u64,
    /// In force on all datanodes.
    generation: Option<u64>,
    /// Gates were opened ajar under it.
    is_stained: bool,
    /// Until then coordinators that are not connected here may commit on single nodes.
    leases_until: Instant,
    pub outbox: Vec<(ClientId, Message)>,
}

/// What the hub is to do beside sending the outbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All gates are shut: [`GlobalSnapshots::grant`].
    Grant,
    /// The barrier is over: [`GlobalSnapshots::open`].
    Open,
    /// Nothing for now.
    Rest,
}

impl GlobalSnapshots {
    /// A gtm that begins to lead knows of nobody: it fences.
    pub fn new(leases_until: Instant) -> Self {
        Self {
            last_barrier: 0,
            waiting: Vec::new(),
            barrier: None,
            clients: BTreeMap::new(),
            unresolved: HashMap::new(),
            order: Order { fences: 1, ..Order::default() },
            fences_done: 0,
            generation: None,
            is_stained: false,
            leases_until,
            outbox: Vec::new(),
        }
    }

    pub fn order(&self) -> Order {
        Order { hurry: !self.unresolved.is_empty(), ..self.order }
    }

    /// May a coordinator be welcomed now?
    pub fn admits(&self) -> bool {
        self.barrier.is_none()
    }

    /// A coordinator is welcomed.
    pub fn join(&mut self, client: ClientId) {
        self.clients.insert(client, None);
        self.tell_generation();
    }

    /// Has the coordinator been told a generation that is, or was, in force since this gtm leads?
    pub fn is_told(&self, client: ClientId) -> bool {
        matches!(self.clients.get(&client), Some(Some(_)))
    }

    /// A coordinator is gone. Unless it did so in good order it must be fenced out. `lease_until`: the end of a lease that it may hold.
    pub fn leave(&mut self, client: ClientId, in_good_order: bool, lease_until: Option<Instant>) {
        if self.clients.remove(&client).is_none() {
            return;
        }
        self.waiting.retain(|request| request.client != client);
        if !in_good_order {
            self.order.fences += 1;
            self.leases_until = self.leases_until.max(lease_until.unwrap_or(self.leases_until));
        }
        let Some(barrier) = &mut self.barrier else { return };
        barrier.silent.remove(&client);
        barrier.closing.remove(&client);
        // Once it is granted, a lost coordinator's gate stays shut for HOLD by its own clock.
        barrier.failed |= !in_good_order && !barrier.granted;
        let before = barrier.requests.len();
        barrier.requests.retain(|(owner, _)| *owner != client);
        barrier.abandoned |= barrier.granted && !in_good_order && barrier.requests.len() < before;
    }

    /// Takes what is said about global snapshots; gives back what is not.
    pub fn hear(&mut self, client: ClientId, message: Message) -> Option<Message> {
        if let Some(barrier) = &mut self.barrier {
            barrier.silent.remove(&client);
        }
        match message {
            Message::SnapshotRequest(request) => self.waiting.push(Request { client, request, since: Instant::now() }),
            Message::Closed(number) => {
                if let Some(barrier) = self.barrier.as_mut().filter(|barrier| barrier.number == number) {
                    barrier.closing.remove(&client);
                }
            }
            Message::Taken(request) => {
                self.waiting.retain(|waiting| (waiting.client, waiting.request) != (client, request));
                if let Some(barrier) = &mut self.barrier {
                    barrier.requests.remove(&(client, request));
                }
            }
            Message::Unresolved(Exposed { gid, nodes }) => {
                info!(%gid, ?nodes, "a coordinator has left a transaction to recovery");
                self.order.reports += 1;
                let doubt = Doubt { nodes: nodes.into_iter().collect(), report: self.order.reports };
                self.unresolved.insert(gid, doubt);
            }
            other => return Some(other),
        }
        None
    }

    /// All datanodes have this generation, and no decision under an older one is under way.
    pub fn fence_bumped(&mut self, generation: u64) {
        self.generation = Some(generation);
        self.is_stained = false;
        self.tell_generation();
    }

    /// All nodes were seen by recovery after the fence of this number. What it could not finish is unresolved.
    pub fn fence_done(&mut self, fences: u64, unresolved: Vec<(Gid, u16)>) {
        self.fences_done = fences;
        for (gid, node) in unresolved {
            let doubt = self.unresolved.entry(gid).or_insert(Doubt { nodes: BTreeSet::new(), report: 0 });
            doubt.nodes.insert(node);
        }
    }

    /// Recovery has looked at the nodes.
    pub fn seen(&mut self, seen: &Seen) {
        self.unresolved.retain(|gid, doubt| {
            let was_looked_for = doubt.report <= seen.reports;
            !was_looked_for || seen.waiting.contains(gid) || doubt.nodes.iter().any(|n| seen.unreachable.contains(n))
        });
    }

    /// Nobody but those connected can commit unseen.
    fn is_free(&self) -> bool {
        self.fences_done == self.order.fences && self.generation.is_some() && Instant::now() >= self.leases_until
    }

    /// Sends requests into a barrier if that is possible, and says what comes next.
    pub fn advance(&mut self) -> Step {
        if let Some(barrier) = &self.barrier {
            let in_time = Instant::now() < barrier.deadline && !barrier.failed;
            return match (barrier.granted, in_time) {
                (_, false) => Step::Open,
                (true, true) if barrier.requests.is_empty() && !barrier.abandoned => Step::Open,
                (false, true) if barrier.closing.is_empty() => Step::Grant,
                _ => Step::Rest,
            };
        }
        if !self.waiting.is_empty() && self.is_free() {
            self.close();
        }
        Step::Rest
    }

    fn close(&mut self) {
        let (fresh, old): (Vec<Request>, Vec<Request>) =
            self.waiting.drain(..).partition(|request| request.since.elapsed() <= REQUEST_AGE_MAX);
        self.outbox.extend(old.into_iter().map(|old| (old.client, Message::SnapshotFailed(old.request))));
        if fresh.is_empty() {
            return;
        }
        self.last_barrier += 1;
        let number = self.generation.unwrap_or_default() + self.last_barrier;
        let everyone: HashSet<ClientId> = self.clients.keys().copied().collect();
        self.outbox.extend(everyone.iter().map(|client| (*client, Message::Close(number))));
        self.barrier = Some(CommitBarrier {
            number,
            closing: everyone.clone(),
            silent: everyone,
            requests: fresh.into_iter().map(|request| (request.client, request.request)).collect(),
            granted: false,
            abandoned: false,
            failed: false,
            deadline: Instant::now() + HOLD,
        });
    }

    /// Answers the requests of the barrier, whose gates are all shut.
    pub fn grant(&mut self) {
        let free = self.is_free();
        let (Some(barrier), Some(generation)) = (&mut self.barrier, self.generation) else { return };
        if !free {
            barrier.failed = true;
            return;
        }
        barrier.granted = true;
        let nodes: BTreeSet<u16> = self.unresolved.values().flat_map(|doubt| doubt.nodes.iter().copied()).collect();
        let unresolved: Vec<u16> = nodes.into_iter().collect();
        self.outbox.extend(barrier.requests.iter().map(|(client, request)| {
            let (request, barrier, unresolved) = (*request, barrier.number, unresolved.clone());
            (*client, Message::Granted { request, generation, barrier, unresolved })
        }));
    }

    /// Ends the barrier; gives the coordinators that have not answered at all.
    pub fn open(&mut self) -> Vec<ClientId> {
        let Some(barrier) = self.barrier.take() else { return Vec::new() };
        debug!(barrier = barrier.number, granted = barrier.granted, "a barrier is over");
        if !barrier.granted {
            let failed = barrier.requests.iter().map(|(client, request)| (*client, Message::SnapshotFailed(*request)));
            self.outbox.extend(failed);
        }
        let is_ajar = barrier.granted && (barrier.abandoned || !barrier.requests.is_empty());
        if is_ajar {
            info!(barrier = barrier.number, "gates are opened although a reader has not said that it is done");
            self.order.fences += 1;
            self.is_stained = true;
        }
        let open = if is_ajar { Message::OpenAjar(barrier.number) } else { Message::Open(barrier.number) };
        self.outbox.extend(self.clients.keys().map(|client| (*client, open.clone())));
        self.tell_generation();
        match barrier.failed || barrier.granted {
            true => Vec::new(),
            false => barrier.closing.intersection(&barrier.silent).copied().collect(),
        }
    }

    /// A new generation in the middle of a barrier would let a coordinator decide that has not shut its gate.
    fn tell_generation(&mut self) {
        let (Some(generation), true) = (self.generation, self.admits() && !self.is_stained) else { return };
        for (client, told) in self.clients.iter_mut().filter(|(_, told)| **told != Some(generation)) {
            *told = Some(generation);
            self.outbox.push((*client, Message::Generation(generation)));
        }
    }

    /// When something happens without any message.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.barrier {
            Some(barrier) => Some(barrier.deadline),
            None if self.waiting.is_empty() || self.fences_done != self.order.fences => None,
            None => Some(self.leases_until),
        }
    }
}
