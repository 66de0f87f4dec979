//! A model of the gate, the global snapshot and the fence (`docs/decisions/007-gate-and-fence.md`), checked exhaustively.
//!
//! Clients commit, read single nodes and take global snapshots through coordinators; coordinators die or lose their gtm; gtms die,
//! or lose their lock without noticing; commits are given up half-way; clocks are not compared, only HOLD is waited
//! for. [`state`] says what exists; [`transactions`], [`coordinators`], [`gtms`] and [`sessions`] say what may happen;
//! [`scenarios`] are small worlds in which every interleaving is tried.
//!
//! Promises, in all states of all scenarios:
//! * a global snapshot shows a transaction on all of its nodes or on none;
//! * what shows a transaction shows what was acknowledged, or seen by its session, before it committed;
//! * what was acknowledged, or seen by the session, before a statement began is shown by it;
//! * two global snapshots never disagree about the order of two transactions;
//! * nothing gets stuck: where only an accident could go on, every living client has finished.
//!
//! For each rule ([`state::Rules`]) there is a scenario in which the protocol *without* it breaks a promise, so the model can fail.
//!
//! A global snapshot stands for every statement over several nodes, whether it reads in REPEATABLE READ transactions or through portals
//! that are bound in the barrier; reads of one node after the other stand for a statement that goes node by node.
//!
//! [`replay`] compares the model with the code of the gtm, in both directions.
//!
//! How two-phase commit and recovery reach their decision is the business of `tests/model.rs`; here a transaction is
//! prepared on all other nodes in one step, and announced at the commit point before or after that.

mod coordinators;
mod gtms;
mod replay;
mod scenarios;
mod sessions;
mod state;
mod transactions;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::scenarios::*;
use crate::state::*;

/// One scenario under one set of rules.
#[derive(Clone, Copy, Debug)]
struct Gate {
    rules: Rules,
    scenario: &'static Scenario,
}

/// `Iterator::all` for booleans.
fn all_true(mut facts: impl Iterator<Item = bool>) -> bool {
    facts.all(|fact| fact)
}

/// What may happen, but must not be counted on.
fn is_accident(action: Action) -> bool {
    use Action::*;
    matches!(action, Kill(_) | CutLink(_) | Drop(_) | LosePatience(_) | Goodbye(_) | KillGtm | LoseLock)
}

impl Gate {
    fn is_enabled(&self, state: &State, action: Action) -> bool {
        self.is_transaction_step_enabled(state, action)
            || self.is_coordinator_step_enabled(state, action)
            || self.is_gtm_step_enabled(state, action)
            || self.is_session_step_enabled(state, action)
    }

    fn candidates(&self, mut visit: impl FnMut(Action)) {
        use Action::*;
        let Scenario { nodes, coordinators, writes, clients, .. } = *self.scenario;
        for (t, written) in writes.iter().enumerate() {
            [
                Announce(t),
                Prepare(t),
                SendCommit(t),
                CommitLands(t),
                CommitIsLost(t),
                RollBack(t),
                Acknowledge(t),
                Drop(t),
            ]
            .into_iter()
            .for_each(&mut visit);
            for node in members(written.nodes & !one(written.commit_point)) {
                [Finish { transaction: t, node }, Recover { transaction: t, node }].into_iter().for_each(&mut visit);
            }
            (0..GTMS).for_each(|gtm| visit(ClearUnresolved { gtm, transaction: t }));
        }
        for x in 0..coordinators {
            [
                Shut(x),
                LosePatience(x),
                HoldIsOver(x),
                Report(x),
                Tell(x),
                ExtendLease(x),
                LeaseEnds(x),
                Kill(x),
                CutLink(x),
                Goodbye(x),
            ]
            .into_iter()
            .for_each(&mut visit);
            (0..nodes).for_each(|node| visit(Mark { coordinator: x, node }));
            for gtm in 0..GTMS {
                [Register { coordinator: x, gtm }, NoticeLoss { gtm, coordinator: x }].into_iter().for_each(&mut visit);
            }
        }
        for g in 0..GTMS {
            [Close(g), Grant(g), GiveUp(g), StartFence(g), EndFence(g), StepDown(g)].into_iter().for_each(&mut visit);
            (0..nodes).for_each(|node| visit(Raise { gtm: g, node }));
        }
        [KillGtm, LoseLock].into_iter().for_each(&mut visit);
        for s in 0..clients.len() {
            [PassReadBarrier(s), Read(s), Request(s), Retry(s), ReadGenerations(s), Complete(s)]
                .into_iter()
                .for_each(&mut visit);
            (0..nodes).for_each(|node| visit(Snapshot { session: s, node }));
        }
    }

    /// Every client that still has a coordinator has finished.
    fn is_finished(&self, state: &State) -> bool {
        all_true((0..self.scenario.clients.len()).map(|s| self.step(state, s).is_none()))
    }
}

impl Model for Gate {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.scenario.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.candidates(|action| {
            if self.is_enabled(state, action) {
                actions.push(action);
            }
        });
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.step_transaction(&mut state, action);
        self.step_coordinator(&mut state, action);
        self.step_gtm(&mut state, action);
        self.step_session(&mut state, action);
        state.forget_marks();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(SPLIT, |_, state| !state.broken.split),
            Property::<Self>::always(PAST, |_, state| !state.broken.order),
            Property::<Self>::always(BACK, |_, state| !state.broken.back),
            Property::<Self>::always(FORK, |_, state| !state.broken.fork),
            Property::<Self>::always(MIXED, |_, state| !state.broken.mixed),
            Property::<Self>::always(STUCK, |gate, state| {
                let mut actions = Vec::new();
                gate.actions(state, &mut actions);
                gate.is_finished(state) || !actions.into_iter().all(is_accident)
            }),
            Property::<Self>::sometimes(FINISH, |gate, state| {
                gate.is_finished(state) && state.sessions.iter().all(|session| !session.is_over)
            }),
        ]
    }
}

#[test]
fn every_promise_holds_in_every_scenario() {
    SCENARIOS.iter().for_each(|scenario| check(scenario, MIXED));
}

/// Minutes: `cargo test --release -p txn --test gate_model -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn every_promise_holds_in_larger_worlds() {
    LARGE.iter().for_each(|scenario| check(scenario, MIXED));
}

/// All promises but this one.
fn check(scenario: &'static Scenario, except: &str) {
    let checker = Gate { rules: Rules::All, scenario }.checker().threads(2).spawn_bfs().join();
    println!("{}: {} states", scenario.name, checker.unique_state_count());
    for promise in [SPLIT, PAST, BACK, FORK, STUCK].into_iter().filter(|promise| *promise != except) {
        checker.assert_no_discovery(promise);
    }
    checker.assert_any_discovery(FINISH);
}

#[test]
fn every_rule_is_needed() {
    for (rules, scenario, promise) in WITHOUT {
        assert!(is_broken(*rules, scenario, promise), "without {rules:?}, {}: {promise} still holds", scenario.name);
    }
}

/// … and nothing else goes wrong there.
#[test]
fn what_is_not_promised_does_happen() {
    for (scenario, property) in NOT_PROMISED {
        assert!(is_broken(Rules::All, scenario, property), "{}: {property} after all", scenario.name);
        check(scenario, property);
    }
}

fn is_broken(rules: Rules, scenario: &'static Scenario, property: &'static str) -> bool {
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = Gate { rules, scenario }.checker().threads(2).finish_when(until).spawn_bfs().join();
    println!("{rules:?}, {}: {} states", scenario.name, checker.unique_state_count());
    checker.discovery(property).is_some()
}
