//! Small worlds, and which rule is missed in which of them.

use crate::state::Work::*;
use crate::state::*;

impl Scenario {
    pub fn start(&self) -> State {
        let mut state = State {
            nodes: [Node::default(); NODES],
            map: 0,
            step: Step::default(),
            steps_left: self.steps,
            kills_left: self.kills,
            said: 0,
            coordinators: [Coordinator { heard: 0, map: Some(0) }; COORDINATORS],
            clients: [Client::default(); CLIENTS],
            acknowledged: 0,
            is_misread: false,
        };
        state.nodes[0].rows.row = Some(0);
        state
    }
}

const fn world(name: &'static str, steps: u8, clients: &'static [(usize, Work)]) -> Scenario {
    Scenario { name, steps, kills: 1, clients }
}

const READER: Scenario = world("a reader and a writer of one node", 2, &[(0, Read), (1, Update)]);
const SEVERAL: Scenario = world("a reader of several nodes and a new row", 2, &[(0, ReadSeveral), (1, Insert)]);
const WRITERS: Scenario = world("two writers", 2, &[(0, Insert), (1, Update)]);
const BLOCK: Scenario = world("a block and a writer", 2, &[(0, Block), (1, Update)]);
const ALL_NODES: Scenario = world("a write on all nodes and a reader", 2, &[(0, UpdateAll { first: 1 }), (1, Read)]);
const OTHER_WAY: Scenario = world("a write on all nodes, and one", 2, &[(0, UpdateAll { first: 0 }), (1, Update)]);
const KEPT: Scenario = world("a snapshot is kept", 2, &[(0, RepeatableRead { prepares: false }), (1, Update)]);
const PREPARED: Scenario =
    world("a plan without a snapshot", 2, &[(0, RepeatableRead { prepares: true }), (1, Insert)]);
const THREE: Scenario = world("two writers and a reader", 1, &[(0, Insert), (1, Update), (0, ReadSeveral)]);

pub const SCENARIOS: &[&Scenario] =
    &[&READER, &SEVERAL, &WRITERS, &BLOCK, &ALL_NODES, &OTHER_WAY, &KEPT, &PREPARED, &THREE];

/// Too many states for every day.
pub const LARGE: &[&Scenario] = &[
    &world("large: readers and a writer", 2, &[(0, Read), (1, Update), (1, ReadSeveral)]),
    &world("large: a block, a write on all nodes, a reader", 2, &[(0, Block), (1, UpdateAll { first: 1 }), (0, Read)]),
    &world("large: writes on all nodes", 2, &[(0, UpdateAll { first: 0 }), (1, UpdateAll { first: 1 }), (1, Insert)]),
    &world(
        "large: a kept snapshot and two writers",
        2,
        &[(0, RepeatableRead { prepares: true }), (1, Block), (0, Insert)],
    ),
    &world("large: three steps", 3, &[(0, Update), (1, UpdateAll { first: 1 }), (1, Read)]),
];

pub const READ: &str = "a read shows each row once, with what was acknowledged";
pub const LOST: &str = "no acknowledged write is lost";
pub const PLACE: &str = "rows are where the map says, and nowhere else";
pub const STUCK: &str = "nothing is stuck";
pub const FINISH: &str = "the moves are made, and all clients finish";

pub const WITHOUT: &[(Rules, &Scenario, &str)] = &[
    (Rules::ReadsAskAfterSnapshot, &READER, READ),
    (Rules::ReadsAskAfterSnapshot, &SEVERAL, READ),
    (Rules::WritesAskBeforeCommit, &WRITERS, LOST),
    (Rules::WritesAskBeforeCommit, &WRITERS, PLACE),
    (Rules::BlocksAskAtStatementEnd, &BLOCK, PLACE),
    (Rules::AskAfterLastNode, &ALL_NODES, LOST),
    (Rules::AcknowledgedBeforeCommit, &READER, READ),
    (Rules::AcknowledgedBeforeCommit, &WRITERS, PLACE),
    (Rules::LockAgainstWriters, &WRITERS, PLACE),
    (Rules::LoadWaitsForCommit, &READER, READ),
    (Rules::LoadWaitsForCommit, &WRITERS, LOST),
    (Rules::NoBarrierAfterLoad, &READER, READ),
    (Rules::NoBarrierAfterLoad, &WRITERS, LOST),
    (Rules::SnapshotInsideBarrier, &SEVERAL, READ),
    (Rules::MapOfSnapshot, &KEPT, READ),
    (Rules::MapNotOlderThanSnapshot, &PREPARED, READ),
    (Rules::ThereAndBackIsMoved, &READER, READ),
    (Rules::ThereAndBackIsMoved, &WRITERS, LOST),
];
