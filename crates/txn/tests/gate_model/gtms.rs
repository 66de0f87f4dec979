//! The gtm: barriers, the fence, and who leads.

use crate::state::*;
use crate::{Gate, all_true};

impl Gate {
    fn all_nodes(&self) -> Set {
        one(self.scenario.nodes) - 1
    }

    /// Is a requester gone that may still be taking its snapshots?
    fn has_lost_requester(&self, state: &State, gtm: usize, barrier: CommitBarrier) -> bool {
        let is_gone = |s: usize| state.coordinators[self.scenario.clients[s].coordinator].link != Some(gtm);
        barrier.is_granted && members(barrier.requests).any(is_gone)
    }

    /// Where this transaction is not finished.
    fn open_nodes(&self, state: &State, t: usize) -> Set {
        let prepared = (0..NODES).filter(|node| has(state.nodes[*node].prepared, t)).map(one).sum::<Set>();
        let deciding = if state.transactions[t].is_in_flight { one(self.scenario.writes[t].commit_point) } else { 0 };
        prepared | deciding
    }

    fn requests_at(&self, state: &State, gtm: usize) -> Set {
        let asks = |s: &usize| {
            let is_linked = state.coordinators[self.scenario.clients[*s].coordinator].link == Some(gtm);
            is_linked && state.sessions[*s].snapshot.stage == Stage::Requested
        };
        (0..self.scenario.clients.len()).filter(asks).map(one).sum()
    }

    /// Nothing is prepared anywhere whose commit point has committed.
    fn is_recovered(&self, state: &State) -> bool {
        let is_done = |t: usize| {
            let is_decided = has(state.nodes[self.scenario.writes[t].commit_point].visible, t);
            !is_decided || state.nodes.iter().all(|node| !has(node.prepared, t))
        };
        all_true((0..self.scenario.writes.len()).map(is_done))
    }

    pub fn extends_leases(&self, state: &State, gtm: usize) -> bool {
        gtm == state.leader || self.rules == Rules::LeasesUnderTheLock
    }

    /// The leases of all coordinators that this gtm does not know of are over. It waits as long as a lease lasts, so what another
    /// one extends meanwhile is not noticed.
    fn are_leases_over(&self, state: &State, gtm: usize) -> bool {
        let is_seen = |x: &usize| {
            let Coordinator { has_lease, link, .. } = state.coordinators[*x];
            let is_extended = link.is_some_and(|other| other == gtm || self.extends_leases(state, other));
            has_lease && !is_extended
        };
        self.rules == Rules::FenceWaitsForLeases || !(0..self.scenario.coordinators).any(|x| is_seen(&x))
    }

    pub fn is_gtm_step_enabled(&self, state: &State, action: Action) -> bool {
        let leads = |gtm: usize| state.gtms[gtm].role == Role::Leading;
        match action {
            Action::Close(g) => {
                leads(g) && self.is_free(state, g) && state.gtms[g].barrier.is_none() && self.requests_at(state, g) != 0
            }
            Action::Grant(g) => {
                state.gtms[g].barrier.is_some_and(|barrier| leads(g) && barrier.waits_for == 0 && !barrier.is_granted)
            }
            Action::GiveUp(g) => state.gtms[g].barrier.is_some_and(|barrier| {
                leads(g) && (state.left.holds > 0 || self.has_lost_requester(state, g, barrier))
            }),
            Action::NoticeLoss { gtm, coordinator } => {
                let is_registered = has(state.gtms[gtm].registered, coordinator);
                leads(gtm) && is_registered && state.coordinators[coordinator].link != Some(gtm)
            }
            Action::ClearUnresolved { gtm, transaction: t } => {
                let is_prepared = state.nodes.iter().any(|node| has(node.prepared, t));
                has(state.gtms[gtm].unresolved, t) && !is_prepared && !state.transactions[t].is_in_flight
            }
            Action::StartFence(g) => {
                // The number comes from the session that holds the lock, so only the true leader gets one.
                let has_lock = state.leader == g || self.rules == Rules::NumberUnderTheLock;
                let Gtm { fence, wants_fence, .. } = state.gtms[g];
                // One after the other; the recovery of the one before may be left out.
                let is_next = matches!(fence, Fence::Idle) || fence == Fence::Raising(self.all_nodes());
                leads(g) && wants_fence && is_next && has_lock
            }
            Action::Raise { gtm, node } => {
                let Fence::Raising(done) = state.gtms[gtm].fence else { return false };
                let is_quiet = state.nodes[node].announced == 0 || self.rules == Rules::FenceWaitsForAnnounced;
                leads(gtm) && !has(done, node) && is_quiet
            }
            Action::EndFence(g) => {
                let is_raised = state.gtms[g].fence == Fence::Raising(self.all_nodes());
                let is_recovered = self.rules == Rules::RecoveryInFence || self.is_recovered(state);
                leads(g) && is_raised && is_recovered && self.are_leases_over(state, g)
            }
            Action::KillGtm => state.left.gtm_kills > 0 && state.leader == 0,
            Action::LoseLock => state.left.stale_gtms > 0 && state.leader == 0,
            Action::StepDown(g) => leads(g) && state.leader != g,
            _ => false,
        }
    }

    pub fn step_gtm(&self, state: &mut State, action: Action) {
        match action {
            Action::Close(g) => self.close(state, g),
            Action::Grant(g) => self.grant(state, g),
            Action::GiveUp(g) => self.give_barrier_up(state, g),
            Action::NoticeLoss { gtm, coordinator } => self.notice_loss(state, gtm, coordinator),
            Action::ClearUnresolved { gtm, transaction } => state.gtms[gtm].unresolved &= !one(transaction),
            Action::StartFence(g) => self.start_fence(state, g),
            Action::Raise { gtm, node } => self.raise(state, gtm, node),
            Action::EndFence(g) => {
                state.gtms[g].fence = Fence::Idle;
            }
            Action::KillGtm => {
                state.left.gtm_kills -= 1;
                self.switch_off(state, 0);
                self.take_over(state);
            }
            Action::LoseLock => {
                state.left.stale_gtms -= 1;
                self.take_over(state);
            }
            Action::StepDown(g) => self.switch_off(state, g),
            _ => {}
        }
    }

    fn close(&self, state: &mut State, g: usize) {
        let requests = self.requests_at(state, g);
        let gtm = &mut state.gtms[g];
        gtm.barriers += 1;
        let number = gtm.barriers;
        gtm.barrier = Some(CommitBarrier { number, waits_for: gtm.registered, requests, is_granted: false });
        for s in members(requests) {
            state.sessions[s].snapshot.stage = Stage::Closing;
            state.sessions[s].snapshot.barrier = (g, number);
        }
    }

    fn grant(&self, state: &mut State, g: usize) {
        let Some(barrier) = &mut state.gtms[g].barrier else { return };
        barrier.is_granted = true;
        let (id, requests) = ((g, barrier.number), barrier.requests);
        let unresolved = members(state.gtms[g].unresolved).fold(0, |nodes, t| nodes | self.open_nodes(state, t));
        for s in members(requests) {
            let wanted = match self.step(state, s) {
                Some(Step::Snapshot(nodes)) => nodes,
                _ => 0,
            };
            let snapshot = &mut state.sessions[s].snapshot;
            if snapshot.stage != Stage::Closing || snapshot.barrier != id {
                continue;
            }
            snapshot.generation = state.gtms[g].in_force;
            snapshot.unresolved_nodes = unresolved;
            let is_denied = unresolved & wanted != 0 && self.rules != Rules::UnresolvedStayOut;
            snapshot.stage = if is_denied { Stage::Denied } else { Stage::Granted };
            if is_denied {
                self.end_request(state, s, id);
            }
        }
    }

    /// The session is done with its global snapshot, and says so if it still can.
    pub fn end_request(&self, state: &mut State, s: usize, (g, number): BarrierId) {
        let is_linked = state.coordinators[self.scenario.clients[s].coordinator].link == Some(g);
        match &mut state.gtms[g].barrier {
            Some(barrier) if barrier.number == number && is_linked => barrier.requests &= !one(s),
            _ => return,
        }
        self.open_if_all_are_done(state, g);
    }

    fn open_if_all_are_done(&self, state: &mut State, g: usize) {
        if state.gtms[g].barrier.is_some_and(|barrier| barrier.is_granted && barrier.requests == 0) {
            self.open(state, g);
        }
    }

    /// Open is sent to all that can still be reached; OpenAjar if somebody has not said that he is done.
    fn open(&self, state: &mut State, g: usize) {
        let Some(barrier) = state.gtms[g].barrier.take() else { return };
        let is_ajar = barrier.is_granted && barrier.requests != 0 && self.rules != Rules::OpenedAjarByGtm;
        state.gtms[g].wants_fence |= is_ajar;
        state.gtms[g].is_stained |= is_ajar;
        for coordinator in &mut state.coordinators {
            if coordinator.link == Some(g) && coordinator.shut_for == Some((g, barrier.number)) {
                coordinator.shut_for = None;
                let under = std::mem::take(&mut coordinator.shut_under);
                if is_ajar {
                    coordinator.ajar = (under, barrier.number);
                }
            }
        }
    }

    fn give_barrier_up(&self, state: &mut State, g: usize) {
        let Some(barrier) = state.gtms[g].barrier else { return };
        if !self.has_lost_requester(state, g, barrier) {
            state.left.holds -= 1;
        }
        self.fail_requests(state, (g, barrier.number));
        self.open(state, g);
    }

    /// SnapshotFailed: they ask again.
    fn fail_requests(&self, state: &mut State, id: BarrierId) {
        for session in &mut state.sessions {
            if session.snapshot.stage == Stage::Closing && session.snapshot.barrier == id {
                session.snapshot = GlobalSnapshot::default();
            }
        }
    }

    fn notice_loss(&self, state: &mut State, g: usize, x: usize) {
        state.gtms[g].registered &= !one(x);
        state.gtms[g].wants_fence |= self.rules != Rules::FenceAfterLoss;
        self.forget_requests_of(state, g, x);
        let Some(barrier) = &mut state.gtms[g].barrier else { return };
        barrier.waits_for &= !one(x);
        if !barrier.is_granted && state.gtms[g].wants_fence {
            // Nobody was granted anything yet: the barrier fails at once.
            let id = (g, barrier.number);
            self.fail_requests(state, id);
            self.open(state, g);
        }
    }

    /// Only if it says goodbye, or if the rule is missing: a lost requester may still be taking its snapshots.
    pub fn forget_requests_of(&self, state: &mut State, g: usize, x: usize) {
        let is_goodbye = state.coordinators[x].link == Some(g);
        let Some(barrier) = &mut state.gtms[g].barrier else { return };
        let was_granted = barrier.is_granted;
        if is_goodbye || !was_granted || self.rules == Rules::LostRequesterKeepsBarrier {
            barrier.requests &= !self.sessions_of(x).map(one).sum::<Set>();
            barrier.waits_for &= !one(x);
            self.open_if_all_are_done(state, g);
        }
    }

    fn start_fence(&self, state: &mut State, g: usize) {
        let highest = state.nodes.iter().map(|node| node.generation).max().unwrap_or_default();
        let generation = match self.rules {
            Rules::NumberUnderTheLock => highest + 1,
            _ => state.last_generation + 1,
        };
        state.last_generation = generation.max(state.last_generation);
        state.gtms[g].generation = generation;
        state.gtms[g].fence = Fence::Raising(0);
        state.gtms[g].wants_fence = false;
        if self.rules == Rules::TellWhenAllAreFenced {
            state.gtms[g].in_force = generation;
        }
    }

    fn raise(&self, state: &mut State, g: usize, n: usize) {
        let generation = state.gtms[g].generation;
        let node = &mut state.nodes[n];
        if node.generation > generation && self.rules != Rules::NumbersOnlyGrow {
            return self.switch_off(state, g);
        }
        node.generation = generation;
        let Fence::Raising(done) = &mut state.gtms[g].fence else { return };
        *done |= one(n);
        if *done == self.all_nodes() {
            state.gtms[g].in_force = generation;
            state.gtms[g].is_stained = false;
        }
    }

    /// Nobody but those registered can commit unseen.
    fn is_free(&self, state: &State, g: usize) -> bool {
        let Gtm { fence, wants_fence, in_force, .. } = state.gtms[g];
        fence == Fence::Idle && !wants_fence && in_force != 0
    }

    fn switch_off(&self, state: &mut State, g: usize) {
        state.gtms[g] = Gtm { role: Role::Off, ..idle_gtm() };
        for x in 0..self.scenario.coordinators {
            if state.coordinators[x].link == Some(g) {
                self.lose_link(state, x);
            }
        }
    }

    fn take_over(&self, state: &mut State) {
        state.leader = 1;
        state.gtms[1] = Gtm { role: Role::Leading, ..idle_gtm() };
    }
}

pub fn idle_gtm() -> Gtm {
    Gtm {
        role: Role::Standby,
        generation: 0,
        in_force: 0,
        fence: Fence::Idle,
        wants_fence: true,
        is_stained: false,
        registered: 0,
        barrier: None,
        barriers: 0,
        unresolved: 0,
    }
}
