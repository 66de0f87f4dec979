//! Coordinators: their gates, their links to a gtm, their deaths.

use crate::Gate;
use crate::state::*;

impl Gate {
    fn has_passes(&self, state: &State, coordinator: usize) -> bool {
        (0..self.scenario.writes.len()).any(|t| self.owner(t) == coordinator && state.transactions[t].has_pass)
    }

    fn is_asked_to_shut(&self, state: &State, coordinator: usize) -> bool {
        let Coordinator { link, shut_for, .. } = state.coordinators[coordinator];
        let barrier = link.and_then(|gtm| state.gtms[gtm].barrier);
        shut_for.is_none() && barrier.is_some_and(|barrier| has(barrier.waits_for, coordinator))
    }

    /// Nothing of it is announced, visible in part or being taken; so it may say goodbye.
    fn is_idle(&self, state: &State, coordinator: usize) -> bool {
        let is_announced = |t: usize| has(state.nodes[self.scenario.writes[t].commit_point].announced, t);
        let is_under_way = |t: usize| is_announced(t) || state.transactions[t].has_pass;
        let is_busy = (0..self.scenario.writes.len()).any(|t| self.owner(t) == coordinator && is_under_way(t));
        let is_taking = self.sessions_of(coordinator).any(|s| state.sessions[s].snapshot.stage != Stage::None);
        !is_busy && !is_taking && state.coordinators[coordinator].shut_for.is_none()
    }

    /// Will the gtm of this barrier open the gate, by a message?
    fn is_opened_by_gtm(&self, state: &State, coordinator: usize, (gtm, number): BarrierId) -> bool {
        let is_on = state.gtms[gtm].barrier.is_some_and(|barrier| barrier.number == number);
        is_on && state.coordinators[coordinator].link == Some(gtm) && state.gtms[gtm].role == Role::Leading
    }

    fn is_between_barriers(&self, state: &State, gtm: usize) -> bool {
        let Gtm { role, barrier, .. } = state.gtms[gtm];
        role == Role::Leading && (barrier.is_none() || self.rules == Rules::RegisterBetweenBarriers)
    }

    /// Do its pings extend its lease?
    fn is_extended(&self, state: &State, coordinator: usize) -> bool {
        let Coordinator { link, is_told, .. } = state.coordinators[coordinator];
        let is_counted_on = is_told || self.rules == Rules::LeaseAfterGeneration;
        is_counted_on && link.is_some_and(|gtm| self.extends_leases(state, gtm))
    }

    pub fn is_coordinator_step_enabled(&self, state: &State, action: Action) -> bool {
        let left = &state.left;
        let of = |coordinator: usize| state.coordinators[coordinator];
        match action {
            Action::Shut(x) => self.is_asked_to_shut(state, x) && !self.has_passes(state, x),
            Action::LosePatience(x) => left.slow > 0 && self.is_asked_to_shut(state, x) && self.has_passes(state, x),
            Action::HoldIsOver(x) => {
                let may = |id| left.holds > 0 || !self.is_opened_by_gtm(state, x, id);
                of(x).shut_for.is_some_and(may) && !of(x).is_dead && self.rules != Rules::OpenByItself
            }
            Action::Mark { coordinator: x, node } => {
                of(x).ajar > state.nodes[node].mark && self.commits_soon(state, x, node)
            }
            Action::Report(x) => of(x).unreported != 0 && of(x).link.is_some(),
            // A pong extends a lease only after the gtm has looked whether it still holds its lock.
            Action::LeaseEnds(x) => of(x).has_lease && !self.is_extended(state, x),
            Action::Kill(x) => left.kills > 0 && !of(x).is_dead,
            Action::CutLink(x) => left.cut_links > 0 && of(x).link.is_some(),
            Action::Goodbye(x) => {
                let may = self.rules == Rules::GoodbyeWhenIdle || self.is_idle(state, x);
                left.goodbyes > 0 && of(x).link.is_some() && may
            }
            Action::Register { coordinator: x, gtm } => {
                let may = self.is_between_barriers(state, gtm) && !has(state.gtms[gtm].registered, x);
                may && of(x).link.is_none() && !of(x).is_dead
            }
            Action::Tell(x) => of(x).link.is_some_and(|gtm| {
                let in_force = state.gtms[gtm].in_force;
                let is_new = !of(x).is_told || of(x).generation != Some(in_force);
                let is_stained = state.gtms[gtm].is_stained && self.rules != Rules::NewGenerationAfterAjar;
                in_force != 0 && is_new && !is_stained && self.is_between_barriers(state, gtm)
            }),
            Action::ExtendLease(x) => !of(x).has_lease && self.is_extended(state, x),
            _ => false,
        }
    }

    pub fn step_coordinator(&self, state: &mut State, action: Action) {
        match action {
            Action::Shut(x) => {
                let Some(gtm) = state.coordinators[x].link else { return };
                let Some(barrier) = &mut state.gtms[gtm].barrier else { return };
                barrier.waits_for &= !one(x);
                state.coordinators[x].shut_for = Some((gtm, barrier.number));
                state.coordinators[x].shut_under = state.gtms[gtm].in_force;
            }
            Action::Mark { coordinator: x, node } => state.nodes[node].mark = state.coordinators[x].ajar,
            Action::LosePatience(x) => self.lose_patience(state, x),
            Action::HoldIsOver(x) => self.open_by_itself(state, x),
            Action::Report(x) => {
                let Some(gtm) = state.coordinators[x].link else { return };
                state.gtms[gtm].unresolved |= std::mem::take(&mut state.coordinators[x].unreported);
            }
            Action::LeaseEnds(x) => state.coordinators[x].has_lease = false,
            Action::Kill(x) => {
                state.left.kills -= 1;
                state.coordinators[x] = Coordinator { is_dead: true, ..Coordinator::default() };
                for t in (0..self.scenario.writes.len()).filter(|t| self.owner(*t) == x) {
                    state.transactions[t].has_pass = false;
                }
                for s in self.sessions_of(x) {
                    state.sessions[s].is_over = true;
                }
            }
            Action::CutLink(x) => {
                state.left.cut_links -= 1;
                self.lose_link(state, x);
            }
            Action::Goodbye(x) => {
                state.left.goodbyes -= 1;
                if let Some(gtm) = state.coordinators[x].link {
                    state.gtms[gtm].registered &= !one(x);
                    self.forget_requests_of(state, gtm, x);
                }
                self.lose_link(state, x);
                if self.rules != Rules::GoodbyeEndsGeneration {
                    state.coordinators[x].generation = None;
                }
                state.coordinators[x].has_lease = false;
                // It may be another process that comes back.
                state.coordinators[x].ajar = NO_MARK;
            }
            Action::Register { coordinator: x, gtm } => {
                state.gtms[gtm].registered |= one(x);
                let coordinator = &mut state.coordinators[x];
                coordinator.link = Some(gtm);
                coordinator.is_told = false;
            }
            Action::Tell(x) => {
                let Some(gtm) = state.coordinators[x].link else { return };
                let generation = state.gtms[gtm].in_force;
                let coordinator = &mut state.coordinators[x];
                (coordinator.generation, coordinator.is_told) = (Some(generation), true);
                // All nodes have a newer one than the global snapshots of that barrier.
                if coordinator.ajar.0 < generation {
                    coordinator.ajar = NO_MARK;
                }
            }
            Action::ExtendLease(x) => state.coordinators[x].has_lease = true,
            _ => {}
        }
    }

    /// The commits inside are not waited for any more. Those over several nodes are reported; they go on.
    fn lose_patience(&self, state: &mut State, x: usize) {
        state.left.slow -= 1;
        let Some(gtm) = state.coordinators[x].link else { return };
        for t in (0..self.scenario.writes.len()).filter(|t| self.owner(*t) == x) {
            let had_pass = std::mem::take(&mut state.transactions[t].has_pass);
            let is_reported = self.rules != Rules::OverdueIsReported && !self.scenario.writes[t].is_single();
            if had_pass && is_reported {
                state.gtms[gtm].unresolved |= one(t);
            }
        }
    }

    /// HOLD is over at one coordinator.
    fn open_by_itself(&self, state: &mut State, x: usize) {
        let Some(id) = state.coordinators[x].shut_for.take() else { return };
        let under = std::mem::take(&mut state.coordinators[x].shut_under);
        if self.rules != Rules::OpenedAjarByItself {
            state.coordinators[x].ajar = (under, id.1);
        }
        if self.is_opened_by_gtm(state, x, id) {
            state.left.holds -= 1;
        }
    }

    pub fn lose_link(&self, state: &mut State, x: usize) {
        let coordinator = &mut state.coordinators[x];
        coordinator.link = None;
        coordinator.is_told = false;
        coordinator.unreported = 0;
        if self.rules == Rules::BarrierOutlivesLink {
            coordinator.shut_for = None;
        }
        for s in self.sessions_of(x) {
            // What was granted stays granted; the rest is asked for again.
            if state.sessions[s].snapshot.stage != Stage::Granted {
                state.sessions[s].snapshot = GlobalSnapshot::default();
            }
        }
    }
}
