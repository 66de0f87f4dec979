//! Commits, the gates they pass, and the coordinators that make them.

use crate::state::*;
use crate::{Gate, all_true};

impl Gate {
    pub fn owner(&self, transaction: usize) -> usize {
        self.scenario.clients[self.scenario.writes[transaction].session].coordinator
    }

    /// Nobody is left to finish it but recovery.
    fn is_orphan(&self, state: &State, transaction: usize) -> bool {
        let phase = state.transactions[transaction].phase;
        let is_under_way = !matches!(phase, Phase::NotBegun | Phase::Acknowledged | Phase::Aborted);
        is_under_way && (phase == Phase::Dropped || state.coordinators[self.owner(transaction)].is_dead)
    }

    /// Is it the session's turn to commit this?
    fn is_due(&self, state: &State, transaction: usize) -> bool {
        let Writes { session, nodes, .. } = self.scenario.writes[transaction];
        let is_stale = nodes & !state.sessions[session].fresh != 0;
        self.step(state, session) == Some(Step::Commit(transaction))
            && !is_stale
            && self.is_past_read_barrier(state, session)
    }

    /// Does the commit point let this coordinator decide?
    fn may_announce(&self, state: &State, transaction: usize) -> bool {
        let node = self.scenario.writes[transaction].commit_point;
        self.rules == Rules::GenerationAtAnnounce
            || state.coordinators[self.owner(transaction)].generation == Some(state.nodes[node].generation)
    }

    /// A single-node commit needs no announcement while the gtm counts on its coordinator.
    fn goes_unchecked(&self, state: &State, transaction: usize) -> bool {
        state.coordinators[self.owner(transaction)].has_lease || self.rules == Rules::CheckWithoutLease
    }

    fn takes_pass(&self, transaction: usize) -> bool {
        self.rules != Rules::PassForSingleNodes || !self.scenario.writes[transaction].is_single()
    }

    /// May it be announced or prepared now, whichever comes first?
    fn is_preparing(&self, state: &State, t: usize) -> bool {
        let is_turn = match state.transactions[t].phase {
            Phase::NotBegun => self.is_due(state, t),
            Phase::Preparing => !self.is_orphan(state, t),
            _ => false,
        };
        is_turn && !self.scenario.writes[t].is_single()
    }

    /// But for the gate.
    fn is_ready(&self, state: &State, t: usize) -> bool {
        let phase = state.transactions[t].phase;
        let is_ready = match self.scenario.writes[t].is_single() {
            true => {
                phase == Phase::NotBegun
                    && self.is_due(state, t)
                    && (self.goes_unchecked(state, t) || self.may_announce(state, t))
            }
            false => phase == Phase::Prepared,
        };
        is_ready && !state.coordinators[self.owner(t)].is_dead
    }

    /// Is it about to commit there?
    pub fn commits_soon(&self, state: &State, coordinator: usize, node: usize) -> bool {
        let mut own = (0..self.scenario.writes.len()).filter(|t| self.owner(*t) == coordinator);
        own.any(|t| has(self.scenario.writes[t].nodes, node) && self.is_ready(state, t))
    }

    /// Whoever takes a snapshot later, for a barrier that its gate did not wait for, finds a mark on these nodes.
    fn is_marked(&self, state: &State, t: usize) -> bool {
        let ajar = state.coordinators[self.owner(t)].ajar;
        let is_known = |node: usize| state.nodes[node].mark >= ajar || state.nodes[node].generation > ajar.0;
        self.rules == Rules::MarkBeforeCommit || all_true(members(self.scenario.writes[t].nodes).map(is_known))
    }

    fn is_prepared(&self, state: &State, t: usize) -> bool {
        let Writes { commit_point, nodes, .. } = self.scenario.writes[t];
        all_true(members(nodes & !one(commit_point)).map(|node| has(state.nodes[node].prepared, t)))
    }

    pub fn is_transaction_step_enabled(&self, state: &State, action: Action) -> bool {
        let of = |t: usize| (self.scenario.writes[t], state.transactions[t]);
        match action {
            Action::Announce(t) => {
                let is_announced = has(state.nodes[of(t).0.commit_point].announced, t);
                self.is_preparing(state, t) && !is_announced && self.may_announce(state, t)
            }
            Action::Prepare(t) => self.is_preparing(state, t) && !self.is_prepared(state, t),
            Action::SendCommit(t) => {
                let is_shut = state.coordinators[self.owner(t)].shut_for.is_some() && self.takes_pass(t);
                self.is_ready(state, t) && !is_shut && self.is_marked(state, t)
            }
            Action::CommitLands(t) => of(t).1.is_in_flight,
            Action::CommitIsLost(t) => of(t).1.is_in_flight && self.is_orphan(state, t),
            Action::RollBack(t) => {
                matches!(of(t).1.phase, Phase::Preparing | Phase::Prepared) && self.is_orphan(state, t)
            }
            Action::Finish { transaction: t, node } => {
                let is_decided = of(t).1.phase == Phase::Decided && !self.is_orphan(state, t);
                is_decided && has(state.nodes[node].prepared, t)
            }
            Action::Acknowledge(t) => {
                let (writes, transaction) = of(t);
                let is_shown = all_true(members(writes.nodes).map(|node| has(state.nodes[node].visible, t)));
                transaction.phase == Phase::Decided && is_shown && !self.is_orphan(state, t)
            }
            Action::Drop(t) => {
                let phase = of(t).1.phase;
                let is_visible_phase = matches!(phase, Phase::Sent | Phase::Decided);
                state.left.drops > 0 && is_visible_phase && !self.is_orphan(state, t)
            }
            Action::Recover { transaction: t, node } => {
                let is_decided = has(state.nodes[of(t).0.commit_point].visible, t);
                is_decided && has(state.nodes[node].prepared, t) && self.is_orphan(state, t)
            }
            _ => false,
        }
    }

    pub fn step_transaction(&self, state: &mut State, action: Action) {
        match action {
            Action::Announce(t) => {
                state.nodes[self.scenario.writes[t].commit_point].announced |= one(t);
                self.prepare_further(state, t);
            }
            Action::Prepare(t) => {
                let Writes { commit_point, nodes, .. } = self.scenario.writes[t];
                for node in members(nodes & !one(commit_point)) {
                    state.nodes[node].prepared |= one(t);
                }
                self.prepare_further(state, t);
            }
            Action::SendCommit(t) => self.send_commit(state, t),
            Action::CommitLands(t) => self.land(state, t),
            Action::CommitIsLost(t) | Action::RollBack(t) => {
                state.transactions[t] = Transaction { phase: Phase::Aborted, ..Transaction::default() };
                for node in &mut state.nodes {
                    node.announced &= !one(t);
                    node.prepared &= !one(t);
                }
            }
            Action::Finish { transaction: t, node } | Action::Recover { transaction: t, node } => {
                state.nodes[node].prepared &= !one(t);
                state.nodes[node].visible |= one(t);
            }
            Action::Acknowledge(t) => self.acknowledge(state, t),
            Action::Drop(t) => self.give_up(state, t),
            _ => {}
        }
    }

    /// It has begun, and is ready when it is both announced and prepared.
    fn prepare_further(&self, state: &mut State, t: usize) {
        let Writes { session, commit_point, .. } = self.scenario.writes[t];
        if state.transactions[t].phase == Phase::NotBegun {
            state.transactions[t].past = state.acknowledged | state.sessions[session].seen;
        }
        let is_ready = has(state.nodes[commit_point].announced, t) && self.is_prepared(state, t);
        state.transactions[t].phase = if is_ready { Phase::Prepared } else { Phase::Preparing };
    }

    fn send_commit(&self, state: &mut State, t: usize) {
        let writes = self.scenario.writes[t];
        if writes.is_single() {
            state.transactions[t].past = state.acknowledged | state.sessions[writes.session].seen;
            if !self.goes_unchecked(state, t) {
                state.nodes[writes.commit_point].announced |= one(t);
            }
        }
        let transaction = &mut state.transactions[t];
        transaction.phase = Phase::Sent;
        transaction.is_in_flight = true;
        transaction.has_pass = self.takes_pass(t);
    }

    fn land(&self, state: &mut State, t: usize) {
        let writes = self.scenario.writes[t];
        state.nodes[writes.commit_point].visible |= one(t);
        state.nodes[writes.commit_point].announced &= !one(t);
        let is_orphan = self.is_orphan(state, t);
        let transaction = &mut state.transactions[t];
        transaction.is_in_flight = false;
        if !is_orphan {
            transaction.phase = Phase::Decided;
            transaction.has_pass &= self.rules != Rules::PassUntilTheEnd || writes.is_single();
        }
    }

    fn acknowledge(&self, state: &mut State, t: usize) {
        state.transactions[t].phase = Phase::Acknowledged;
        state.transactions[t].has_pass = false;
        self.tell_client(state, t);
    }

    fn tell_client(&self, state: &mut State, t: usize) {
        state.acknowledged |= one(t);
        let session = &mut state.sessions[self.scenario.writes[t].session];
        session.seen |= one(t) | state.transactions[t].past;
        session.step += 1;
        session.waits_for = 0;
        session.fresh = self.fresh_after(Step::Commit(t), 0);
    }

    fn give_up(&self, state: &mut State, t: usize) {
        state.left.drops -= 1;
        let is_decided = state.transactions[t].phase == Phase::Decided;
        state.transactions[t].phase = Phase::Dropped;
        state.transactions[t].has_pass = false;
        let owner = self.owner(t);
        match state.coordinators[owner].link {
            Some(gtm) if self.rules != Rules::UnresolvedBeforeClosed => state.gtms[gtm].unresolved |= one(t),
            Some(_) => state.coordinators[owner].unreported |= one(t),
            None => {}
        }
        match is_decided && self.rules == Rules::AcknowledgeWhenAllShow {
            true => self.tell_client(state, t),
            false => state.sessions[self.scenario.writes[t].session].is_over = true,
        }
    }
}
