//! A step, the gtm's words about it, and what coordinators make of them.

use crate::Moves;
use crate::state::*;

impl Moves {
    /// `loxo.committing` on the home node.
    fn is_committing(&self, state: &State) -> bool {
        matches!(state.step.phase, Phase::Announced | Phase::Sent)
    }

    pub fn is_prepared(&self, state: &State, node: usize) -> bool {
        matches!(state.step.phase, Phase::Sent | Phase::Decided) && !has(state.step.landed, node)
    }

    pub fn is_step_enabled(&self, state: &State, action: Action) -> bool {
        let Step { phase, landed, is_orphan, .. } = state.step;
        let from = &state.nodes[place(state.map)];
        let has_all_heard = state.coordinators.iter().all(|coordinator| coordinator.heard == state.said);
        match action {
            Action::Lock => {
                let is_free = from.writers == 0 || self.rules == Rules::LockAgainstWriters;
                phase == Phase::Idle && state.steps_left > 0 && is_free
            }
            Action::Copy => phase == Phase::Locked && !is_orphan && from.changed_by.is_none(),
            Action::Announce => phase == Phase::Copied && !is_orphan,
            Action::SendCommit => {
                let may = has_all_heard || self.rules == Rules::AcknowledgedBeforeCommit;
                phase == Phase::Announced && !is_orphan && may
            }
            Action::Land(HOME) => phase == Phase::Sent,
            Action::Land(node) => phase == Phase::Decided && !has(landed, node),
            Action::Finish => phase == Phase::Decided && landed == EVERYWHERE,
            Action::Kill => phase != Phase::Idle && state.kills_left > 0 && !is_orphan,
            Action::Abort => is_orphan && !matches!(phase, Phase::Idle | Phase::Decided),
            Action::Hear(x) => state.coordinators[x].heard < state.said,
            Action::Load(x) => {
                let Coordinator { heard, map } = state.coordinators[x];
                let may = !self.is_committing(state) || self.rules == Rules::LoadWaitsForCommit;
                heard.is_multiple_of(2) && map.is_none() && may
            }
            _ => false,
        }
    }

    pub fn take_step(&self, state: &mut State, action: Action) {
        match action {
            Action::Lock => {
                state.step.phase = Phase::Locked;
                state.nodes[place(state.map)].is_kept = self.rules != Rules::LockAgainstWriters;
            }
            Action::Copy => {
                state.step.phase = Phase::Copied;
                state.step.carried = state.nodes[place(state.map)].rows;
            }
            Action::Announce => {
                state.step.phase = Phase::Announced;
                state.said += 1;
            }
            Action::SendCommit => state.step.phase = Phase::Sent,
            Action::Land(HOME) => {
                state.step.phase = Phase::Decided;
                state.step.landed = one(HOME);
                state.map += 1;
                state.steps_left -= 1;
            }
            Action::Land(node) => self.land(state, node),
            Action::Finish => {
                if !state.step.is_orphan {
                    state.said += 1;
                }
                state.step = Step::default();
            }
            // The gtm notices, and catalogs count again.
            Action::Kill => {
                state.kills_left -= 1;
                state.step.is_orphan = true;
                state.said = state.said.next_multiple_of(2);
            }
            Action::Abort => {
                state.nodes[place(state.map)].is_kept = false;
                state.step = Step::default();
            }
            Action::Hear(x) => {
                let coordinator = &mut state.coordinators[x];
                coordinator.heard += 1;
                coordinator.map = None;
            }
            Action::Load(x) => state.coordinators[x].map = Some(state.map),
            _ => {}
        }
    }

    fn land(&self, state: &mut State, node: usize) {
        state.step.landed |= one(node);
        let Rows { row, inserted } = state.step.carried;
        let Node { rows, is_kept, .. } = &mut state.nodes[node];
        match node == place(state.map) {
            true => {
                rows.row = row;
                rows.inserted |= inserted;
            }
            false => {
                rows.row = None;
                rows.inserted &= !inserted;
                *is_kept = false;
            }
        }
    }
}
