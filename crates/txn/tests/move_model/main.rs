//! A model of buckets that move while clients work (`docs/growing.md`), checked exhaustively.
//!
//! One bucket goes from one datanode to the other, and back. A step locks the table on the old node, copies, has all coordinators drop
//! their catalogs, and becomes visible on the home node, which has the map, and then on the two others in any order. Its
//! coordinator may die at any moment. Clients read one node or several, keep a snapshot, and write: alone, in blocks, and node by node.
//! [`state`] says what exists; [`steps`] and [`clients`] say what may happen; [`scenarios`] are small worlds in which every
//! interleaving is tried.
//!
//! Promises, in all states of all scenarios:
//! * a read shows each row once, with what was acknowledged before it was planned;
//! * no acknowledged write is lost;
//! * rows are where the map says, and nowhere else, when no step is becoming visible;
//! * nothing is stuck: where only an accident could go on, the moves are made and all clients have finished.
//!
//! For each rule ([`state::Rules`]) there is a scenario in which the protocol *without* it breaks a promise, so the model can fail.
//!
//! Left out: the barrier, the fence and two-phase commit themselves, which `gate_model` and `model.rs` check (here nobody takes a
//! global snapshot while a step is visible in part); writes in REPEATABLE READ, which PostgreSQL or the plan's check refuses; leases
//! and lost links to the gtm; schema changes of other kinds; `loxo.snapshot = local`, where each node has a snapshot of its own.
//! Tables without a key are the case of a write on all nodes.
//!
//! `cargo test -p txn --test move_model`; larger worlds with `-- --ignored --nocapture`.

mod clients;
mod scenarios;
mod state;
mod steps;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::scenarios::*;
use crate::state::*;

/// One scenario under one set of rules.
#[derive(Clone, Copy, Debug)]
struct Moves {
    rules: Rules,
    scenario: &'static Scenario,
}

impl Moves {
    fn is_enabled(&self, state: &State, action: Action) -> bool {
        self.is_step_enabled(state, action) || self.is_client_enabled(state, action)
    }

    fn candidates(&self, mut visit: impl FnMut(Action)) {
        use Action::*;
        [Lock, Copy, Announce, SendCommit, Land(0), Land(1), Land(HOME), Finish, Kill, Abort]
            .into_iter()
            .for_each(&mut visit);
        (0..COORDINATORS).for_each(|x| [Hear(x), Load(x)].into_iter().for_each(&mut visit));
        for c in 0..self.scenario.clients.len() {
            [Prepare(c), Plan(c), PassReadBarrier(c), Snapshot(c), Ask(c), Commit(c), Committed(c)]
                .into_iter()
                .for_each(&mut visit);
            for node in 0..NODES {
                [LockTable { client: c, node }, Run { client: c, node }].into_iter().for_each(&mut visit);
            }
        }
    }

    fn is_finished(&self, state: &State) -> bool {
        let are_over = (0..self.scenario.clients.len()).all(|c| self.is_over(state, c));
        are_over && state.steps_left == 0 && state.step.phase == Phase::Idle
    }

    fn keeps_writes(&self, state: &State) -> bool {
        let is_there = |c: usize| {
            let work = self.scenario.clients[c].1;
            let is_between = state.step.phase == Phase::Decided;
            let carried = is_between.then_some(state.step.carried);
            let mut all = state.nodes.iter().map(|node| node.rows).chain(carried);
            let mut again = all.clone();
            let is_changed = all.any(|rows| rows.row.is_some_and(|changes| has(changes, c)));
            let is_inserted = again.any(|rows| has(rows.inserted, c));
            (is_changed || !work.updates()) && (is_inserted || !work.inserts())
        };
        (0..self.scenario.clients.len()).all(|c| !has(state.acknowledged, c) || is_there(c))
    }

    fn is_in_place(&self, state: &State) -> bool {
        let here = state.nodes[place(state.map)].rows;
        let there = state.nodes[1 - place(state.map)].rows;
        state.step.phase == Phase::Decided || here.row.is_some() && there == Rows::default()
    }
}

impl Model for Moves {
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
        self.take_step(&mut state, action);
        self.serve(&mut state, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(READ, |_, state| !state.is_misread),
            Property::<Self>::always(LOST, |moves, state| moves.keeps_writes(state)),
            Property::<Self>::always(PLACE, |moves, state| moves.is_in_place(state)),
            Property::<Self>::always(STUCK, |moves, state| {
                let mut actions = Vec::new();
                moves.actions(state, &mut actions);
                moves.is_finished(state) || !actions.into_iter().all(|action| action == Action::Kill)
            }),
            Property::<Self>::sometimes(FINISH, |moves, state| moves.is_finished(state)),
        ]
    }
}

#[test]
fn every_promise_holds_in_every_scenario() {
    SCENARIOS.iter().for_each(|scenario| check(scenario));
}

/// Half a minute: `cargo test -p txn --test move_model -- --ignored --nocapture`.
#[test]
#[ignore = "takes half a minute"]
fn every_promise_holds_in_larger_worlds() {
    LARGE.iter().for_each(|scenario| check(scenario));
}

fn check(scenario: &'static Scenario) {
    let checker = Moves { rules: Rules::All, scenario }.checker().threads(2).spawn_bfs().join();
    println!("{}: {} states", scenario.name, checker.unique_state_count());
    for promise in [READ, LOST, PLACE, STUCK] {
        checker.assert_no_discovery(promise);
    }
    checker.assert_any_discovery(FINISH);
}

#[test]
fn every_rule_is_needed() {
    for (rules, scenario, promise) in WITHOUT {
        let until = HasDiscoveries::AnyOf([*promise].into());
        let checker = Moves { rules: *rules, scenario }.checker().threads(2).finish_when(until).spawn_bfs().join();
        println!("{rules:?}, {}: {} states", scenario.name, checker.unique_state_count());
        assert!(checker.discovery(promise).is_some(), "without {rules:?}, {}: {promise} still holds", scenario.name);
    }
}
