//! The model against the code: random walks in which the gtm's own state machine, and the model, are taken through the same events.
//!
//! What the code says to a coordinator must be a step that the model may take then (or the model has a rule that the code lacks); and
//! when the code has nothing more to say, no step of the gtm's may be left that the model would take (or the code has a rule that
//! the model lacks). Coordinators, sessions, datanodes and the leader's lock are the model's; sockets there are none.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use txn::gate::HOLD;
use txn::gtm::MARGIN;
use txn::gtm::driver::{Driver, End};
use txn::gtm::message::Message;
use txn::marks::GENERATION;

use crate::scenarios::{CUTS_ONLY, THREE_COORDINATORS};
use crate::state::*;
use crate::{Gate, Model, Rules};

const LEASE: Duration = Duration::from_millis(10);
const WALKS: u64 = 300;
const STEPS: usize = 200;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// What may come next that is not the gtm's doing.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Connect {
        coordinator: usize,
        gtm: usize,
    },
    Ping(usize),
    /// The gtm learns that a connection has ended.
    Notice(usize),
    /// A barrier's time is over.
    Wait,
    Model(Action),
}

struct Walk {
    gate: Gate,
    state: State,
    gtms: [Option<Driver>; GTMS],
    /// Fences that were begun.
    begun: [u64; GTMS],
    /// To which gtm, and as which client of it.
    connected: [Option<(usize, u64)>; COORDINATORS],
    /// Clients whose end the gtm has not noticed.
    lost: Vec<(usize, u64, usize)>,
    owners: BTreeMap<u64, usize>,
    barriers: [u64; COORDINATORS],
    requests: BTreeMap<u64, usize>,
    last: u64,
    log: Vec<String>,
    said: BTreeMap<&'static str, usize>,
}

impl Walk {
    async fn new(scenario: &'static Scenario) -> Self {
        let mut first = Driver::new(LEASE);
        first.tick().await;
        Self {
            gate: Gate { rules: Rules::All, scenario },
            state: scenario.start(),
            gtms: [Some(first), None],
            begun: [0; GTMS],
            connected: [None; COORDINATORS],
            lost: Vec::new(),
            owners: BTreeMap::new(),
            barriers: [0; COORDINATORS],
            requests: BTreeMap::new(),
            last: 0,
            log: Vec::new(),
            said: BTreeMap::new(),
        }
    }

    fn may(&self, action: Action) -> bool {
        self.gate.is_enabled(&self.state, action)
    }

    fn step(&mut self, action: Action) {
        assert!(self.may(action), "the model does not allow {action:?}\n{}", self.log.join("\n"));
        self.log.push(format!("    {action:?}"));
        self.state = self.gate.next_state(&self.state, action).expect("a next state");
    }

    fn happenings(&self) -> Vec<Happening> {
        let mut all = Vec::new();
        for x in 0..self.gate.scenario.coordinators {
            let Coordinator { link, .. } = self.state.coordinators[x];
            for gtm in 0..GTMS {
                let is_known = self.lost.iter().any(|(at, _, who)| (*at, *who) == (gtm, x));
                if self.gtms[gtm].is_some() && self.connected[x].is_none() && link.is_none() && !is_known {
                    all.push(Happening::Connect { coordinator: x, gtm });
                }
            }
            if link.is_some() {
                all.push(Happening::Ping(x));
            }
        }
        all.extend((0..self.lost.len()).map(Happening::Notice));
        for gtm in 0..GTMS {
            let is_granted = |gtm: usize| self.state.gtms[gtm].barrier.map(|barrier| barrier.is_granted);
            if self.may(Action::GiveUp(gtm)) && is_granted(gtm) == Some(true) && is_granted(1 - gtm).is_none() {
                all.push(Happening::Wait);
            }
        }
        self.gate.candidates(|action| {
            if !is_the_gtms(action) && self.may(action) {
                all.push(Happening::Model(action));
            }
        });
        all
    }

    async fn happen(&mut self, happening: Happening) {
        self.log.push(format!("{happening:?}"));
        match happening {
            Happening::Connect { coordinator, gtm } => {
                self.last += 1;
                self.owners.insert(self.last, coordinator);
                self.connected[coordinator] = Some((gtm, self.last));
                let id = self.last;
                self.gtm(gtm).join(id).await;
            }
            Happening::Ping(x) => {
                let Some((gtm, id)) = self.connected[x] else { return };
                let leads = self.state.leader == gtm;
                self.gtm(gtm).say(id, Message::Ping(1)).await;
                if leads {
                    self.gtm(gtm).led().await;
                }
            }
            Happening::Notice(at) => self.notice(at).await,
            Happening::Wait => self.pass(HOLD).await,
            Happening::Model(action) => self.follow(action).await,
        }
        self.listen();
    }

    fn gtm(&mut self, gtm: usize) -> &mut Driver {
        self.gtms[gtm].as_mut().expect("a gtm that lives")
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::advance(time + Duration::from_millis(1)).await;
        for gtm in self.gtms.iter_mut().flatten() {
            gtm.tick().await;
        }
    }

    async fn notice(&mut self, at: usize) {
        let (gtm, id, coordinator) = self.lost.remove(at);
        if self.gtms[gtm].is_none() {
            return;
        }
        let action = Action::NoticeLoss { gtm, coordinator };
        if self.may(action) {
            self.step(action);
        }
        self.gtm(gtm).leave(id, End::ByPeer).await;
    }

    /// A step of the model's, and what the gtm hears of it.
    async fn follow(&mut self, action: Action) {
        let before = self.state.clone();
        if let Action::EndFence(_) = action {
            // Leases of coordinators that it does not know last so long at most.
            self.pass(LEASE + MARGIN).await;
            self.listen();
            if !self.may(action) {
                return;
            }
        }
        self.step(action);
        match action {
            Action::StartFence(g) => self.begun[g] = self.gtm(g).fences_wanted(),
            Action::Request(s) => {
                self.last += 1;
                self.requests.insert(self.last, s);
                self.say(self.gate.scenario.clients[s].coordinator, Message::SnapshotRequest(self.last)).await;
            }
            Action::Shut(x) => self.say(x, Message::Closed(self.barriers[x])).await,
            Action::Complete(s) => {
                let coordinator = self.gate.scenario.clients[s].coordinator;
                let request =
                    self.requests.iter().rev().find(|(_, session)| **session == s).map(|(request, _)| *request);
                if let (Some(request), Some((gtm, _))) = (request, self.connected[coordinator])
                    && before.sessions[s].snapshot.barrier.0 == gtm
                {
                    self.say(coordinator, Message::Taken(request)).await;
                }
            }
            Action::Raise { gtm, .. } if self.state.gtms[gtm].role == Role::Leading => {
                let in_force = self.state.gtms[gtm].in_force;
                if in_force != before.gtms[gtm].in_force {
                    self.gtm(gtm).bumped(u64::from(in_force) * GENERATION).await;
                }
            }
            Action::EndFence(g) => {
                let begun = self.begun[g];
                self.gtm(g).fenced(begun).await;
            }
            Action::Goodbye(x) => {
                self.say(x, Message::Goodbye).await;
                self.connected[x] = None;
            }
            Action::CutLink(x) => {
                self.snapshot_off(x, before.sessions.iter().any(|s| s.snapshot.stage == Stage::Requested)).await
            }
            _ => {}
        }
        self.follow_gtms().await;
    }

    async fn snapshot_off(&mut self, x: usize, asks: bool) {
        let Some((gtm, id)) = self.connected[x].take() else { return };
        self.lost.push((gtm, id, x));
        // A request of somebody who is gone is none for the model at once.
        if asks {
            self.notice(self.lost.len() - 1).await;
        }
    }

    /// Those that the model has switched off, or on.
    async fn follow_gtms(&mut self) {
        for g in 0..GTMS {
            let leads = self.state.gtms[g].role == Role::Leading;
            if leads && self.gtms[g].is_none() {
                let mut driver = Driver::new(LEASE);
                driver.tick().await;
                self.gtms[g] = Some(driver);
            } else if !leads && self.gtms[g].take().is_some() {
                self.lost.retain(|(gtm, ..)| *gtm != g);
                self.connected.iter_mut().for_each(|at| *at = at.filter(|(gtm, _)| *gtm != g));
            }
        }
    }

    async fn say(&mut self, coordinator: usize, message: Message) {
        if let Some((gtm, id)) = self.connected[coordinator] {
            self.gtm(gtm).say(id, message).await;
        }
    }

    /// Everything that the gtms have said is a step of the model's, in some order that keeps each coordinator's.
    fn listen(&mut self) {
        for g in 0..GTMS {
            let Some(driver) = &mut self.gtms[g] else { continue };
            let told = driver.told().into_iter();
            let mut told: Vec<(u64, VecDeque<Message>)> = told.map(|(id, said)| (id, said.into())).collect();
            while told.iter().any(|(_, said)| !said.is_empty()) {
                // A barrier begins when all else is said.
                let is_heard = self.hear(g, &mut told, false) || self.hear(g, &mut told, true);
                assert!(is_heard, "the gtm says what the model does not allow: {told:?}\n{}", self.log.join("\n"));
            }
        }
        self.nothing_is_left();
    }

    /// Takes what the model allows; false if that is nothing.
    fn hear(&mut self, g: usize, told: &mut [(u64, VecDeque<Message>)], barriers: bool) -> bool {
        let mut is_heard = false;
        for (id, said) in told {
            while let Some(message) = said.front().cloned()
                && (barriers || !matches!(message, Message::Close(_)))
                && self.accept(g, *id, &message)
            {
                self.log.push(format!("  gtm {g} to {}: {message:?}", self.owners[id]));
                said.pop_front();
                is_heard = true;
            }
        }
        is_heard
    }

    /// Could the model have done that now? It does it.
    fn accept(&mut self, g: usize, id: u64, message: &Message) -> bool {
        let x = self.owners[&id];
        let is_connected = self.connected[x] == Some((g, id));
        let (name, action, is_done) = match message {
            Message::Welcome { .. } => ("welcome", Some(Action::Register { coordinator: x, gtm: g }), !is_connected),
            Message::Generation(generation) => {
                let is_it = u64::from(self.state.gtms[g].in_force) * GENERATION == *generation;
                ("generation", is_it.then_some(Action::Tell(x)), !is_connected)
            }
            Message::Pong(_) => {
                let Coordinator { has_lease, is_told, .. } = self.state.coordinators[x];
                ("pong", Some(Action::ExtendLease(x)), !is_connected || has_lease && is_told && self.state.leader == g)
            }
            Message::Alive => ("alive", None, !is_connected || !self.state.coordinators[x].is_told),
            Message::Close(number) => {
                self.barriers[x] = *number;
                ("close", Some(Action::Close(g)), self.is_on(g, *number))
            }
            Message::Granted { request, generation, .. } => {
                let s = self.requests[request];
                let snapshot = self.state.sessions[s].snapshot;
                let is_it =
                    snapshot.stage == Stage::Granted && u64::from(snapshot.generation) * GENERATION == *generation;
                ("granted", Some(Action::Grant(g)), is_it || !is_connected)
            }
            Message::SnapshotFailed(request) => {
                let s = self.requests[request];
                // It was asked for so long ago that it would come too late.
                if self.state.sessions[s].snapshot.stage == Stage::Requested {
                    self.state.sessions[s].snapshot = GlobalSnapshot::default();
                }
                ("failed", Some(Action::GiveUp(g)), self.state.sessions[s].snapshot.stage == Stage::None)
            }
            Message::Open(number) => ("open", Some(Action::GiveUp(g)), !self.is_on(g, *number)),
            Message::OpenAjar(number) => {
                let is_it = self.state.gtms[g].is_stained;
                ("open ajar", Some(Action::GiveUp(g)), is_it && !self.is_on(g, *number))
            }
            _ => return false,
        };
        *self.said.entry(name).or_default() += 1;
        match action {
            _ if is_done => true,
            Some(action) if self.may(action) => {
                self.step(action);
                // The rest of what goes with it says the same.
                !matches!(message, Message::Granted { .. }) || self.accept(g, id, message)
            }
            _ => false,
        }
    }

    fn is_on(&self, g: usize, number: u64) -> bool {
        self.state.gtms[g].barrier.is_some_and(|barrier| u64::from(barrier.number) == number % GENERATION)
    }

    /// The model would do nothing more either.
    fn nothing_is_left(&self) {
        for g in 0..GTMS {
            let Some(driver) = &self.gtms[g] else { continue };
            let mut left = vec![Action::Close(g), Action::Grant(g)];
            for x in 0..self.gate.scenario.coordinators {
                if self.connected[x].is_some_and(|(gtm, _)| gtm == g) {
                    left.extend([Action::Register { coordinator: x, gtm: g }, Action::Tell(x)]);
                }
            }
            left.retain(|action| self.may(*action));
            assert!(left.is_empty(), "the gtm leaves out what the model does: {left:?}\n{}", self.log.join("\n"));
            let wants = driver.fences_wanted() > self.begun[g];
            assert_eq!(wants, self.state.gtms[g].wants_fence, "who wants a fence?\n{}", self.log.join("\n"));
        }
    }
}

/// Steps that the code takes by itself, or that are taken along with others.
fn is_the_gtms(action: Action) -> bool {
    use Action::*;
    matches!(
        action,
        Register { .. } | Tell(_) | ExtendLease(_) | Close(_) | Grant(_) | GiveUp(_) | NoticeLoss { .. } | Kill(_)
    )
}

#[tokio::test(start_paused = true)]
async fn the_gtm_does_what_the_model_does() {
    let mut said: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..WALKS {
        let scenario = if seed % 2 == 0 { &CUTS_ONLY } else { &THREE_COORDINATORS };
        let (mut dice, mut walk) = (Dice(seed), Walk::new(scenario).await);
        for _ in 0..STEPS {
            let happenings = walk.happenings();
            if happenings.is_empty() {
                break;
            }
            walk.happen(happenings[dice.below(happenings.len())]).await;
        }
        walk.said.iter().for_each(|(name, times)| *said.entry(name).or_default() += times);
    }
    println!("{said:?}");
    for name in ["welcome", "generation", "pong", "alive", "close", "granted", "open", "open ajar"] {
        assert!(said.get(name).copied().unwrap_or_default() > 20, "hardly ever was anything said of this kind: {name}");
    }
}
