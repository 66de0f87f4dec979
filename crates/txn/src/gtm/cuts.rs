//! The gtm's part of cuts: which closure is on, who has shut its gate, which nodes cannot be in a cut. No I/O: the hub feeds it
//! and sends what it puts into its outbox.
//!
//! ```text
//!  CutRequest ─> waiting ── Close to all ─> closing ── all Closed ─> granted ── all Taken ─> Open to all
//!                                              └── a loss, or HOLD is over ─> CutFailed, Open ──┘ (HOLD: OpenAjar)
//! ```
//!
//! Invariants:
//! * A cut is granted only while every coordinator that may decide has its gate shut: those connected have said so, and all
//!   others are fenced out and have no lease ([`Cuts::is_free`]).
//! * A coordinator is welcomed, and told a generation, between closures only.
//! * A requester that is lost after the grant may still be taking its snapshots: the closure then lasts its full [`HOLD`].
//! * Who has still not said Taken then may be taking snapshots later, if its clock stands still. The gates are opened *ajar*: coordinators
//!   mark the nodes ([`crate::marks`]), and nobody is told the generation of that closure any more, but a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info};

use super::message::Message;
use super::server::ClientId;
use crate::gate::{Exposed, HOLD};
use crate::gid::Gid;

/// A request that is older when its closure could begin is sent back: little of its time would be left.
const REQUEST_AGE_MAX: Duration = Duration::from_millis(300);

/// What the keeper is to do; the latest counts.
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

struct Closure {
    number: u64,
    /// Who has not said Closed.
    closing: HashSet<ClientId>,
    /// Who of them has not said anything since Close.
    silent: HashSet<ClientId>,
    requests: BTreeSet<(ClientId, u64)>,
    granted: bool,
    /// It must last until the deadline.
    abandoned: bool,
    failed: bool,
    deadline: Instant,
}

/// See the module's page.
pub(super) struct Cuts {
    last_closure: u64,
    waiting: Vec<Request>,
    closure: Option<Closure>,
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
    /// All gates are shut: [`Cuts::grant`].
    Grant,
    /// The closure is over: [`Cuts::open`].
    Open,
    /// Nothing for now.
    Rest,
}

impl Cuts {
    /// A gtm that begins to lead knows of nobody: it fences.
    pub fn new(leases_until: Instant) -> Self {
        Self {
            last_closure: 0,
            waiting: Vec::new(),
            closure: None,
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
        self.closure.is_none()
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
        let Some(closure) = &mut self.closure else { return };
        closure.silent.remove(&client);
        closure.closing.remove(&client);
        // Once it is granted, a lost coordinator's gate stays shut for HOLD by its own clock.
        closure.failed |= !in_good_order && !closure.granted;
        let before = closure.requests.len();
        closure.requests.retain(|(owner, _)| *owner != client);
        closure.abandoned |= closure.granted && !in_good_order && closure.requests.len() < before;
    }

    /// Takes what is said about cuts; gives back what is not.
    pub fn hear(&mut self, client: ClientId, message: Message) -> Option<Message> {
        if let Some(closure) = &mut self.closure {
            closure.silent.remove(&client);
        }
        match message {
            Message::CutRequest(request) => self.waiting.push(Request { client, request, since: Instant::now() }),
            Message::Closed(number) => {
                if let Some(closure) = self.closure.as_mut().filter(|closure| closure.number == number) {
                    closure.closing.remove(&client);
                }
            }
            Message::Taken(request) => {
                self.waiting.retain(|waiting| (waiting.client, waiting.request) != (client, request));
                if let Some(closure) = &mut self.closure {
                    closure.requests.remove(&(client, request));
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

    /// Sends requests into a closure if that is possible, and says what comes next.
    pub fn advance(&mut self) -> Step {
        if let Some(closure) = &self.closure {
            let in_time = Instant::now() < closure.deadline && !closure.failed;
            return match (closure.granted, in_time) {
                (_, false) => Step::Open,
                (true, true) if closure.requests.is_empty() && !closure.abandoned => Step::Open,
                (false, true) if closure.closing.is_empty() => Step::Grant,
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
        self.outbox.extend(old.into_iter().map(|old| (old.client, Message::CutFailed(old.request))));
        if fresh.is_empty() {
            return;
        }
        self.last_closure += 1;
        let number = self.generation.unwrap_or_default() + self.last_closure;
        let everyone: HashSet<ClientId> = self.clients.keys().copied().collect();
        self.outbox.extend(everyone.iter().map(|client| (*client, Message::Close(number))));
        self.closure = Some(Closure {
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

    /// Answers the requests of the closure, whose gates are all shut.
    pub fn grant(&mut self) {
        let free = self.is_free();
        let (Some(closure), Some(generation)) = (&mut self.closure, self.generation) else { return };
        if !free {
            closure.failed = true;
            return;
        }
        closure.granted = true;
        let nodes: BTreeSet<u16> = self.unresolved.values().flat_map(|doubt| doubt.nodes.iter().copied()).collect();
        let unresolved: Vec<u16> = nodes.into_iter().collect();
        self.outbox.extend(closure.requests.iter().map(|(client, request)| {
            let (request, closure, unresolved) = (*request, closure.number, unresolved.clone());
            (*client, Message::Granted { request, generation, closure, unresolved })
        }));
    }

    /// Ends the closure; gives the coordinators that have not answered at all.
    pub fn open(&mut self) -> Vec<ClientId> {
        let Some(closure) = self.closure.take() else { return Vec::new() };
        debug!(closure = closure.number, granted = closure.granted, "a closure is over");
        if !closure.granted {
            let failed = closure.requests.iter().map(|(client, request)| (*client, Message::CutFailed(*request)));
            self.outbox.extend(failed);
        }
        let is_ajar = closure.granted && (closure.abandoned || !closure.requests.is_empty());
        if is_ajar {
            info!(closure = closure.number, "gates are opened although a reader has not said that it is done");
            self.order.fences += 1;
            self.is_stained = true;
        }
        let open = if is_ajar { Message::OpenAjar(closure.number) } else { Message::Open(closure.number) };
        self.outbox.extend(self.clients.keys().map(|client| (*client, open.clone())));
        self.tell_generation();
        match closure.failed || closure.granted {
            true => Vec::new(),
            false => closure.closing.intersection(&closure.silent).copied().collect(),
        }
    }

    /// A new generation in the middle of a closure would let a coordinator decide that has not shut its gate.
    fn tell_generation(&mut self) {
        let (Some(generation), true) = (self.generation, self.admits() && !self.is_stained) else { return };
        for (client, told) in self.clients.iter_mut().filter(|(_, told)| **told != Some(generation)) {
            *told = Some(generation);
            self.outbox.push((*client, Message::Generation(generation)));
        }
    }

    /// When something happens without any message.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.closure {
            Some(closure) => Some(closure.deadline),
            None if self.waiting.is_empty() || self.fences_done != self.order.fences => None,
            None => Some(self.leases_until),
        }
    }
}
