//! Sessions: reads on one node, global snapshots, and whether what they show keeps the promises.

use crate::state::*;
use crate::{Gate, all_true};

impl Gate {
    pub fn sessions_of(&self, coordinator: usize) -> impl Iterator<Item = usize> + use<> {
        let clients = self.scenario.clients;
        (0..clients.len()).filter(move |s| clients[*s].coordinator == coordinator)
    }

    /// What the session does next.
    pub fn step(&self, state: &State, s: usize) -> Option<Step> {
        let session = &state.sessions[s];
        if session.is_over { None } else { self.scenario.clients[s].steps.get(usize::from(session.step)).copied() }
    }

    fn nodes_of(&self, step: Step) -> Set {
        match step {
            Step::Commit(t) => self.scenario.writes[t].nodes,
            Step::Read(node) => one(node),
            Step::Snapshot(_) => 0,
        }
    }

    /// The nodes that need no read barrier after a statement.
    pub fn fresh_after(&self, step: Step, unresolved_nodes: Set) -> Set {
        match step {
            _ if self.rules == Rules::ReadBarrier => Set::MAX,
            Step::Read(node) => one(node),
            Step::Commit(_) => 0,
            Step::Snapshot(_) if self.rules == Rules::UnresolvedAreFresh => Set::MAX,
            Step::Snapshot(_) => !unresolved_nodes,
        }
    }

    /// Everything that was prepared when it passed its read barrier is over on those nodes.
    pub fn is_past_read_barrier(&self, state: &State, s: usize) -> bool {
        let Some(step) = self.step(state, s) else { return false };
        all_true(members(self.nodes_of(step)).map(|node| state.nodes[node].prepared & state.sessions[s].waits_for == 0))
    }

    pub fn is_session_step_enabled(&self, state: &State, action: Action) -> bool {
        let of = |s: usize| (self.step(state, s), state.sessions[s]);
        match action {
            Action::PassReadBarrier(s) => {
                let (step, session) = of(s);
                step.is_some_and(|step| self.nodes_of(step) & !session.fresh != 0)
            }
            Action::Read(s) => {
                let (step, session) = of(s);
                matches!(step, Some(Step::Read(node)) if has(session.fresh, node))
                    && self.is_past_read_barrier(state, s)
            }
            Action::Request(s) => {
                let (step, session) = of(s);
                let is_linked = state.coordinators[self.scenario.clients[s].coordinator].link.is_some();
                matches!(step, Some(Step::Snapshot(_))) && session.snapshot.stage == Stage::None && is_linked
            }
            Action::Retry(s) => {
                let (_, session) = of(s);
                let link = state.coordinators[self.scenario.clients[s].coordinator].link;
                let is_news = |gtm: usize| match session.snapshot.is_foreign {
                    true => state.gtms[gtm].in_force != session.snapshot.generation,
                    false => state.gtms[gtm].unresolved == 0,
                };
                session.snapshot.stage == Stage::Denied && link.is_none_or(is_news)
            }
            Action::ReadGenerations(s) => {
                let snapshot = of(s).1.snapshot;
                let is_early = self.rules == Rules::SnapshotBeforeGeneration && !snapshot.is_generation_read;
                self.is_taking(state, s) && is_early
            }
            Action::Snapshot { session: s, node } => {
                let (step, session) = of(s);
                let is_wanted =
                    matches!(step, Some(Step::Snapshot(nodes)) if has(nodes & !session.snapshot.taken, node));
                let may = self.rules != Rules::SnapshotBeforeGeneration || session.snapshot.is_generation_read;
                is_wanted && may && self.is_taking(state, s)
            }
            Action::Complete(s) => {
                let (step, session) = of(s);
                let is_taken = matches!(step, Some(Step::Snapshot(nodes)) if nodes == session.snapshot.taken);
                session.snapshot.stage == Stage::Granted && (is_taken || is_void(session.snapshot)) && !session.is_over
            }
            _ => false,
        }
    }

    /// A global snapshot that is void already need not be gone on with.
    fn is_taking(&self, state: &State, s: usize) -> bool {
        let Session { snapshot, is_over, .. } = state.sessions[s];
        !is_over && snapshot.stage == Stage::Granted && !is_void(snapshot)
    }

    pub fn step_session(&self, state: &mut State, action: Action) {
        match action {
            Action::PassReadBarrier(s) => {
                let nodes = self.step(state, s).map_or(0, |step| self.nodes_of(step));
                let stale = nodes & !state.sessions[s].fresh;
                let prepared = members(stale).fold(0, |all, node| all | state.nodes[node].prepared);
                state.sessions[s].waits_for = prepared;
                state.sessions[s].fresh |= nodes;
            }
            Action::Read(s) => self.read(state, s),
            Action::Request(s) => {
                let must_show = state.acknowledged | state.sessions[s].seen;
                state.sessions[s].snapshot =
                    GlobalSnapshot { stage: Stage::Requested, must_show, ..GlobalSnapshot::default() };
            }
            Action::Retry(s) => state.sessions[s].snapshot = GlobalSnapshot::default(),
            Action::ReadGenerations(s) => {
                let nodes = &state.nodes[..self.scenario.nodes];
                let snapshot = &mut state.sessions[s].snapshot;
                snapshot.is_foreign = nodes.iter().any(|node| node.generation != snapshot.generation);
                snapshot.is_generation_read = true;
            }
            Action::Snapshot { session, node } => {
                let Node { visible, generation, mark, .. } = state.nodes[node];
                let snapshot = &mut state.sessions[session].snapshot;
                snapshot.taken |= one(node);
                snapshot.shown[node] = visible;
                let is_checked = !matches!(self.rules, Rules::GenerationInSnapshot | Rules::SnapshotBeforeGeneration);
                snapshot.is_foreign |= is_checked && generation != snapshot.generation;
                snapshot.is_late |= mark >= (snapshot.generation, snapshot.barrier.1);
            }
            Action::Complete(s) => self.complete(state, s),
            _ => {}
        }
    }

    /// What these transactions came after, and they themselves.
    fn with_past(&self, state: &State, shown: Set) -> Set {
        members(shown).fold(shown, |all, t| all | state.transactions[t].past)
    }

    fn read(&self, state: &mut State, s: usize) {
        let Some(step @ Step::Read(node)) = self.step(state, s) else { return };
        let shown = state.nodes[node].visible;
        let covered = self.covered(one(node));
        let seen = state.sessions[s].seen;
        let past = self.with_past(state, shown);
        state.broken.back |= (seen | state.acknowledged) & covered & !shown != 0;
        state.broken.order |= past & covered & !shown != 0;
        let session = &mut state.sessions[s];
        state.broken.mixed |= session.missed & shown != 0;
        session.missed |= covered & !shown;
        session.seen |= past;
        session.fresh = self.fresh_after(step, 0);
        session.waits_for = 0;
        session.step += 1;
    }

    /// Transactions with rows on these nodes.
    fn covered(&self, nodes: Set) -> Set {
        let writes = self.scenario.writes.iter().enumerate();
        writes.filter(|(_, writes)| writes.nodes & nodes != 0).map(|(t, _)| one(t)).sum()
    }

    fn complete(&self, state: &mut State, s: usize) {
        let snapshot = std::mem::take(&mut state.sessions[s].snapshot);
        if snapshot.is_foreign {
            // The gtm does not lead any more; the session asks again when that one has noticed.
            state.sessions[s].snapshot =
                GlobalSnapshot { stage: Stage::Denied, taken: 0, shown: [0; NODES], ..snapshot };
        } else if !snapshot.is_late {
            self.judge(state, s, snapshot);
        }
        self.end_request(state, s, snapshot.barrier);
    }

    fn judge(&self, state: &mut State, s: usize, snapshot: GlobalSnapshot) {
        let covered = self.covered(snapshot.taken);
        let mut shown = 0;
        for t in members(covered) {
            let nodes = self.scenario.writes[t].nodes & snapshot.taken;
            let on = members(nodes).filter(|node| has(snapshot.shown[*node], t)).count();
            state.broken.split |= on != 0 && on != nodes.count_ones() as usize;
            shown |= if on == 0 { 0 } else { one(t) };
        }
        let past = self.with_past(state, shown);
        state.broken.back |= snapshot.must_show & covered & !shown != 0;
        state.broken.order |= past & covered & !shown != 0;
        for (other, session) in state.sessions.iter().enumerate() {
            let (other_shown, other_covered) = session.result;
            let both = covered & other_covered;
            let disagree = shown & !other_shown & both != 0 && other_shown & !shown & both != 0;
            state.broken.fork |= disagree && other != s;
        }
        let step = Step::Snapshot(snapshot.taken);
        let session = &mut state.sessions[s];
        session.result = (shown, covered);
        session.seen |= past;
        session.fresh = self.fresh_after(step, snapshot.unresolved_nodes);
        session.step += 1;
    }
}

/// It will not be used, whatever the nodes answer.
fn is_void(snapshot: GlobalSnapshot) -> bool {
    snapshot.is_foreign || snapshot.is_late
}
