//! A model of commit and recovery, checked exhaustively: one commit point, two participants, a coordinator that may die,
//! datanodes that may crash, two recovery agents and one that clears up decisions, every interleaving of their steps.
//!
//! The rules of `src/commit.rs` and `src/recovery/mod.rs` hold in all states; and each of them is needed: without it the
//! checker finds the transaction that is split (so the model is able to fail).

use std::hash::Hash;

use stateright::{Checker, Model, Property};

const PARTICIPANTS: usize = 2;
const AGENTS: usize = 2;

/// The protocol, or a wrong one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rules {
    Ours,
    /// Believes `pg_xact_status` where it says committed.
    TrustStatus,
    /// Looks for the decision before it asks whether the transaction is over.
    DecisionFirst,
    /// Sends the deciding COMMIT when the first participant is prepared.
    EarlyCommit,
    /// Lists the prepared transactions before it reads the decisions that it wants to delete.
    ListFirst,
}

/// The transaction id of the commit point and what the node knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum CommitPoint {
    Running {
        is_flushed: bool,
    },
    Committed,
    Aborted,
    /// Crashed before anything of it was flushed: the id is in the future again.
    Forgotten,
    /// The id has a new owner.
    Reused,
    ReusedCommitted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Participant {
    Open,
    Prepared,
    Committed,
    RolledBack,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Coordinator {
    Preparing,
    /// Has sent COMMIT to the commit point and waits for the answer.
    Deciding,
    Inquiring(Inquiry),
    Finishing,
    Aborting,
    /// It does not know and leaves it to recovery; its connections are gone.
    GaveUp,
    Dead,
}

/// The two steps of finding out the fate; `decision: None` is "not looked yet".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Inquiry {
    status: Option<Status>,
    decision: Option<bool>,
}

/// `pg_xact_status` of a transaction that is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Status {
    Committed,
    NotCommitted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Agent {
    Idle,
    Asking { participant: usize, inquiry: Inquiry },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Cleaner {
    saw_decision: bool,
    /// Participants seen to hold nothing prepared.
    listed: [bool; PARTICIPANTS],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    coordinator: Coordinator,
    commit_point: CommitPoint,
    is_decision_deleted: bool,
    participants: [Participant; PARTICIPANTS],
    /// PREPARE is on its way.
    prepare_in_flight: [bool; PARTICIPANTS],
    /// What the coordinator heard of its PREPARE.
    answers: [Option<bool>; PARTICIPANTS],
    /// COMMIT is on its way to the commit point; it may arrive although its sender is dead.
    commit_in_flight: bool,
    /// What the client was told: committed or not.
    told: Option<bool>,
    agents: [Agent; AGENTS],
    cleaner: Cleaner,
    crashes_left: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    PrepareArrives { participant: usize, succeeds: bool, is_answer_lost: bool },
    PrepareIsLost(usize),
    Decide,
    StartAbort,
    CommitArrives { succeeds: bool, is_answer_lost: bool },
    CommitIsLost,
    CoordinatorLosesConnection,
    CoordinatorAsksStatus,
    CoordinatorAsksDecision,
    CoordinatorConcludes,
    CoordinatorGivesUp,
    CoordinatorFinishes(usize),
    CoordinatorDies,
    CommitPointNotices,
    ParticipantNotices(usize),
    WalIsFlushed,
    CommitPointCrashes,
    ParticipantCrashes(usize),
    IdIsReused,
    NewOwnerEnds { commits: bool },
    AgentStarts { agent: usize, participant: usize },
    AgentAsksStatus(usize),
    AgentAsksDecision(usize),
    AgentActs(usize),
    CleanerReadsDecisions,
    CleanerLists(usize),
    CleanerDeletes,
}

/// What may happen, but must not be counted on.
fn is_accident(action: Action) -> bool {
    use Action::*;
    matches!(
        action,
        CoordinatorDies | CoordinatorGivesUp | CommitPointCrashes | ParticipantCrashes(_) | CoordinatorLosesConnection
    )
}

impl State {
    fn has_decision(&self) -> bool {
        self.commit_point == CommitPoint::Committed && !self.is_decision_deleted
    }

    /// `None` while it is in progress.
    fn status(&self) -> Option<Status> {
        match self.commit_point {
            CommitPoint::Running { .. } | CommitPoint::Reused => None,
            CommitPoint::Committed | CommitPoint::ReusedCommitted => Some(Status::Committed),
            CommitPoint::Aborted | CommitPoint::Forgotten => Some(Status::NotCommitted),
        }
    }

    /// The connections of the coordinator are closed.
    fn is_disconnected(&self) -> bool {
        matches!(self.coordinator, Coordinator::Dead | Coordinator::GaveUp)
    }

    fn finish(&mut self, participant: usize, commit: bool) {
        if self.participants[participant] == Participant::Prepared {
            self.participants[participant] = if commit { Participant::Committed } else { Participant::RolledBack };
        }
    }
}

/// May this question be asked now?
fn may_ask_status(rules: Rules, inquiry: Inquiry, state: &State) -> bool {
    let is_turn = rules != Rules::DecisionFirst || inquiry.decision.is_some();
    inquiry.status.is_none() && is_turn && state.status().is_some()
}

fn may_ask_decision(rules: Rules, inquiry: Inquiry) -> bool {
    inquiry.decision.is_none() && (inquiry.status.is_some() || rules == Rules::DecisionFirst)
}

/// `Some(true)`: committed, `Some(false)`: aborted, `None`: no decision though the log says committed.
fn fate(rules: Rules, inquiry: Inquiry) -> Option<bool> {
    match (inquiry.decision == Some(true), inquiry.status == Some(Status::Committed)) {
        (true, _) => Some(true),
        (false, true) if rules == Rules::TrustStatus => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    }
}

fn is_complete(inquiry: Inquiry) -> bool {
    inquiry.status.is_some() && inquiry.decision.is_some()
}

impl Model for Rules {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            coordinator: Coordinator::Preparing,
            commit_point: CommitPoint::Running { is_flushed: false },
            is_decision_deleted: false,
            participants: [Participant::Open; PARTICIPANTS],
            prepare_in_flight: [true; PARTICIPANTS],
            answers: [None; PARTICIPANTS],
            commit_in_flight: false,
            told: None,
            agents: [Agent::Idle; AGENTS],
            cleaner: Cleaner { saw_decision: false, listed: [false; PARTICIPANTS] },
            crashes_left: 2,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.coordinator_actions(state, actions);
        self.node_actions(state, actions);
        self.recovery_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.step_coordinator(&mut state, action);
        self.step_nodes(&mut state, action);
        self.step_recovery(&mut state, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("never half committed", |_, state| {
                let is_committed = state.commit_point == CommitPoint::Committed;
                let wrong = if is_committed { Participant::RolledBack } else { Participant::Committed };
                !state.participants.contains(&wrong)
            }),
            Property::<Self>::always("the client is told the truth", |_, state| match state.told {
                Some(told) => told == (state.commit_point == CommitPoint::Committed),
                None => true,
            }),
            // The graph of states has no cycle (every round of an agent ends a participant's being prepared), so each run ends.
            Property::<Self>::always("everything is resolved in the end", |rules, state| {
                let mut actions = Vec::new();
                rules.actions(state, &mut actions);
                let is_over = |p: &Participant| matches!(p, Participant::Committed | Participant::RolledBack);
                let is_resolved = state.participants.iter().all(is_over) && state.status().is_some();
                is_resolved || !actions.into_iter().all(is_accident)
            }),
            Property::<Self>::sometimes("it commits", |_, state| {
                state.told == Some(true) && state.participants == [Participant::Committed; PARTICIPANTS]
            }),
            Property::<Self>::sometimes("recovery commits", |_, state| {
                state.coordinator == Coordinator::Dead && state.participants == [Participant::Committed; PARTICIPANTS]
            }),
            Property::<Self>::sometimes("the id is reused and commits", |_, state| {
                state.commit_point == CommitPoint::ReusedCommitted
            }),
            Property::<Self>::sometimes("a decision is cleared up", |_, state| state.is_decision_deleted),
        ]
    }
}

impl Rules {
    fn coordinator_actions(self, state: &State, actions: &mut Vec<Action>) {
        if !state.is_disconnected() {
            actions.push(Action::CoordinatorDies);
        }
        let yes = |answer: &Option<bool>| *answer == Some(true);
        match state.coordinator {
            Coordinator::Preparing => {
                let is_prepared = match self {
                    Rules::EarlyCommit => state.answers.iter().any(yes),
                    _ => state.answers.iter().all(yes),
                };
                if is_prepared {
                    actions.push(Action::Decide);
                } else if state.answers.iter().all(Option::is_some) {
                    actions.push(Action::StartAbort);
                }
            }
            Coordinator::Inquiring(inquiry) => {
                actions.push(Action::CoordinatorGivesUp);
                if may_ask_status(self, inquiry, state) {
                    actions.push(Action::CoordinatorAsksStatus);
                }
                if may_ask_decision(self, inquiry) {
                    actions.push(Action::CoordinatorAsksDecision);
                }
                if is_complete(inquiry) {
                    actions.push(Action::CoordinatorConcludes);
                }
            }
            Coordinator::Finishing | Coordinator::Aborting => {
                let prepared = |i: &usize| state.participants[*i] == Participant::Prepared;
                // A participant that did not answer its PREPARE has no connection any more.
                let told = |i: &usize| state.answers[*i] == Some(true);
                actions.extend((0..PARTICIPANTS).filter(prepared).filter(told).map(Action::CoordinatorFinishes));
            }
            Coordinator::Deciding => actions.push(Action::CoordinatorLosesConnection),
            Coordinator::GaveUp | Coordinator::Dead => {}
        }
    }

    fn step_coordinator(self, state: &mut State, action: Action) {
        let inquiry = match state.coordinator {
            Coordinator::Inquiring(inquiry) => inquiry,
            _ => Inquiry::default(),
        };
        match action {
            Action::CoordinatorDies => state.coordinator = Coordinator::Dead,
            Action::CoordinatorGivesUp => state.coordinator = Coordinator::GaveUp,
            Action::Decide => {
                state.coordinator = Coordinator::Deciding;
                state.commit_in_flight = true;
            }
            Action::CoordinatorLosesConnection => state.coordinator = Coordinator::Inquiring(Inquiry::default()),
            Action::StartAbort => abort(state),
            Action::CoordinatorAsksStatus => {
                state.coordinator = Coordinator::Inquiring(Inquiry { status: state.status(), ..inquiry });
            }
            Action::CoordinatorAsksDecision => {
                let decision = Some(state.has_decision());
                state.coordinator = Coordinator::Inquiring(Inquiry { decision, ..inquiry });
            }
            Action::CoordinatorConcludes => match fate(self, inquiry) {
                Some(true) => {
                    state.coordinator = Coordinator::Finishing;
                    state.told = Some(true);
                }
                Some(false) => abort(state),
                None => state.coordinator = Coordinator::GaveUp,
            },
            Action::CoordinatorFinishes(i) => state.finish(i, state.coordinator == Coordinator::Finishing),
            _ => {}
        }
    }

    fn node_actions(self, state: &State, actions: &mut Vec<Action>) {
        for participant in 0..PARTICIPANTS {
            let is_open = state.participants[participant] == Participant::Open;
            if state.prepare_in_flight[participant] {
                for (succeeds, is_answer_lost) in [(true, false), (true, true), (false, false)] {
                    actions.push(Action::PrepareArrives { participant, succeeds, is_answer_lost });
                }
                actions.push(Action::PrepareIsLost(participant));
            } else if is_open && (state.is_disconnected() || state.coordinator == Coordinator::Aborting) {
                actions.push(Action::ParticipantNotices(participant));
            }
            if is_open && state.crashes_left > 0 {
                actions.push(Action::ParticipantCrashes(participant));
            }
        }
        if state.commit_in_flight {
            for (succeeds, is_answer_lost) in [(true, false), (true, true), (false, false)] {
                actions.push(Action::CommitArrives { succeeds, is_answer_lost });
            }
            actions.push(Action::CommitIsLost);
        }
        match state.commit_point {
            CommitPoint::Running { is_flushed } => {
                if !is_flushed {
                    actions.push(Action::WalIsFlushed);
                }
                let is_left = state.is_disconnected() || matches!(state.coordinator, Coordinator::Inquiring(_));
                if is_left && !state.commit_in_flight {
                    actions.push(Action::CommitPointNotices);
                }
            }
            CommitPoint::Forgotten => actions.push(Action::IdIsReused),
            CommitPoint::Reused => {
                actions.extend([true, false].map(|commits| Action::NewOwnerEnds { commits }));
            }
            _ => {}
        }
        let can_lose = matches!(state.commit_point, CommitPoint::Running { .. } | CommitPoint::Reused);
        if can_lose && state.crashes_left > 0 {
            actions.push(Action::CommitPointCrashes);
        }
    }

    fn step_nodes(self, state: &mut State, action: Action) {
        match action {
            Action::PrepareArrives { participant: i, succeeds, is_answer_lost } => {
                state.prepare_in_flight[i] = false;
                let is_prepared = succeeds && state.participants[i] == Participant::Open;
                state.participants[i] = if is_prepared { Participant::Prepared } else { Participant::RolledBack };
                state.answers[i] = Some(is_prepared && !is_answer_lost);
            }
            Action::PrepareIsLost(i) => {
                // With the connection: the backend rolls back, the coordinator hears of it.
                state.prepare_in_flight[i] = false;
                state.participants[i] = Participant::RolledBack;
                state.answers[i] = Some(false);
            }
            Action::ParticipantNotices(i) => state.participants[i] = Participant::RolledBack,
            Action::ParticipantCrashes(i) => {
                state.crashes_left -= 1;
                state.participants[i] = Participant::RolledBack;
            }
            Action::CommitArrives { succeeds, is_answer_lost } => {
                let is_running = matches!(state.commit_point, CommitPoint::Running { .. });
                match (is_running, succeeds) {
                    (true, true) => state.commit_point = CommitPoint::Committed,
                    (true, false) => state.commit_point = CommitPoint::Aborted,
                    (false, _) => {}
                }
                state.commit_in_flight = false;
                if state.coordinator == Coordinator::Deciding {
                    match (is_running && !is_answer_lost, succeeds) {
                        (true, true) => {
                            state.coordinator = Coordinator::Finishing;
                            state.told = Some(true);
                        }
                        (true, false) => abort(state),
                        (false, _) => state.coordinator = Coordinator::Inquiring(Inquiry::default()),
                    }
                }
            }
            Action::CommitIsLost => {
                state.commit_in_flight = false;
                if state.coordinator == Coordinator::Deciding {
                    state.coordinator = Coordinator::Inquiring(Inquiry::default());
                }
            }
            Action::CommitPointNotices => state.commit_point = CommitPoint::Aborted,
            Action::WalIsFlushed => state.commit_point = CommitPoint::Running { is_flushed: true },
            Action::CommitPointCrashes => {
                state.crashes_left -= 1;
                state.commit_point = match state.commit_point {
                    CommitPoint::Running { is_flushed: true } => CommitPoint::Aborted,
                    _ => CommitPoint::Forgotten,
                };
            }
            Action::IdIsReused => state.commit_point = CommitPoint::Reused,
            Action::NewOwnerEnds { commits: true } => state.commit_point = CommitPoint::ReusedCommitted,
            Action::NewOwnerEnds { commits: false } => state.commit_point = CommitPoint::Aborted,
            _ => {}
        }
    }

    fn recovery_actions(self, state: &State, actions: &mut Vec<Action>) {
        for (agent, doing) in state.agents.iter().enumerate() {
            match *doing {
                Agent::Idle => {
                    let prepared = |i: &usize| state.participants[*i] == Participant::Prepared;
                    let starts = (0..PARTICIPANTS).filter(prepared);
                    actions.extend(starts.map(|participant| Action::AgentStarts { agent, participant }));
                }
                Agent::Asking { inquiry, .. } => {
                    if may_ask_status(self, inquiry, state) {
                        actions.push(Action::AgentAsksStatus(agent));
                    }
                    if may_ask_decision(self, inquiry) {
                        actions.push(Action::AgentAsksDecision(agent));
                    }
                    if is_complete(inquiry) {
                        actions.push(Action::AgentActs(agent));
                    }
                }
            }
        }
        let Cleaner { saw_decision, listed } = state.cleaner;
        let is_listed = listed == [true; PARTICIPANTS];
        if !saw_decision && state.has_decision() && (is_listed || self != Rules::ListFirst) {
            actions.push(Action::CleanerReadsDecisions);
        }
        if saw_decision || self == Rules::ListFirst {
            let is_new = |i: &usize| !listed[*i] && state.participants[*i] != Participant::Prepared;
            actions.extend((0..PARTICIPANTS).filter(is_new).map(Action::CleanerLists));
        }
        if saw_decision && is_listed && !state.is_decision_deleted {
            actions.push(Action::CleanerDeletes);
        }
    }

    fn step_recovery(self, state: &mut State, action: Action) {
        let (has_decision, status) = (state.has_decision(), state.status());
        match action {
            Action::AgentStarts { agent, participant } => {
                state.agents[agent] = Agent::Asking { participant, inquiry: Inquiry::default() };
            }
            Action::AgentAsksStatus(agent) | Action::AgentAsksDecision(agent) | Action::AgentActs(agent) => {
                let Agent::Asking { participant, inquiry } = &mut state.agents[agent] else { return };
                let (participant, asked) = (*participant, *inquiry);
                match action {
                    Action::AgentAsksStatus(_) => inquiry.status = status,
                    Action::AgentAsksDecision(_) => inquiry.decision = Some(has_decision),
                    _ => {
                        state.agents[agent] = Agent::Idle;
                        state.finish(participant, fate(self, asked) == Some(true));
                    }
                }
            }
            Action::CleanerReadsDecisions => state.cleaner.saw_decision = true,
            Action::CleanerLists(i) => state.cleaner.listed[i] = true,
            Action::CleanerDeletes => state.is_decision_deleted = true,
            _ => {}
        }
    }
}

/// The coordinator learned, or chose, that the transaction is aborted: it rolls back at the commit point, and says so.
fn abort(state: &mut State) {
    if matches!(state.commit_point, CommitPoint::Running { .. }) {
        state.commit_point = CommitPoint::Aborted;
    }
    state.coordinator = Coordinator::Aborting;
    state.told = Some(false);
}

#[test]
fn the_protocol_never_splits_a_transaction_and_always_ends() {
    let checker = Rules::Ours.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "{} states", checker.unique_state_count());
}

#[test]
fn every_rule_is_needed() {
    for rules in [Rules::TrustStatus, Rules::DecisionFirst, Rules::EarlyCommit, Rules::ListFirst] {
        let checker = rules.checker().threads(2).spawn_bfs().join();
        assert!(checker.discovery("never half committed").is_some(), "{rules:?} splits no transaction");
    }
}
