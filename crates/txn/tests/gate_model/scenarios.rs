//! Small worlds, and which rule is missed in which of them.

use crate::gtms::idle_gtm;
use crate::state::Step::{Commit, Read, Snapshot};
use crate::state::*;

impl Scenario {
    pub fn start(&self) -> State {
        let registered = (one(self.coordinators) - 1) & !self.late;
        let in_force = u8::from(!self.is_fence_needed);
        let gtm = Gtm {
            role: Role::Leading,
            generation: 1,
            in_force,
            wants_fence: self.is_fence_needed,
            registered,
            ..idle_gtm()
        };
        let mut state = State {
            nodes: [Node { generation: 1, ..Node::default() }; NODES],
            coordinators: [Coordinator::default(); COORDINATORS],
            transactions: [Transaction::default(); TRANSACTIONS],
            sessions: [Session { fresh: Set::MAX, ..Session::default() }; SESSIONS],
            gtms: [gtm, idle_gtm()],
            leader: 0,
            last_generation: 1,
            acknowledged: 0,
            left: self.accidents,
            broken: Broken::default(),
        };
        for x in members(registered) {
            state.coordinators[x] = Coordinator {
                link: Some(0),
                generation: Some(1),
                is_told: true,
                has_lease: true,
                ..Coordinator::default()
            };
        }
        state
    }
}

const NONE: Accidents =
    Accidents { kills: 0, cut_links: 0, drops: 0, goodbyes: 0, holds: 0, slow: 0, gtm_kills: 0, stale_gtms: 0 };

/// Two nodes, two coordinators, nothing to do.
const WORLD: Scenario = Scenario {
    name: "",
    nodes: 2,
    coordinators: 2,
    late: 0,
    is_fence_needed: false,
    writes: &[],
    clients: &[],
    accidents: NONE,
};

/// Nodes.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const AB: Set = 0b011;
const ABC: Set = 0b111;

const fn on_both(session: usize) -> Writes {
    Writes { session, commit_point: A, nodes: AB }
}

const fn on(session: usize, node: usize) -> Writes {
    Writes { session, commit_point: node, nodes: 1 << node }
}

const fn client(coordinator: usize, steps: &'static [Step]) -> Client {
    Client { coordinator, steps }
}

/// A transfer through one coordinator, a reader at each.
const TRANSFER: Scenario = Scenario {
    name: "a transfer and two snapshots",
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)]), client(0, &[Snapshot(AB)])],
    accidents: Accidents { kills: 1, holds: 1, ..NONE },
    ..WORLD
};

const TWO_TRANSFERS: Scenario = Scenario {
    name: "two transfers with different commit points",
    writes: &[on_both(0), Writes { session: 1, commit_point: B, nodes: AB }],
    clients: &[
        client(0, &[Commit(0)]),
        client(1, &[Commit(1)]),
        client(0, &[Snapshot(AB)]),
        client(1, &[Snapshot(AB)]),
    ],
    ..WORLD
};

const TWO_SINGLES: Scenario = Scenario {
    name: "two commits on two nodes and two snapshots",
    writes: &[on(0, A), on(1, B)],
    clients: &[
        client(0, &[Commit(0)]),
        client(1, &[Commit(1)]),
        client(0, &[Snapshot(AB)]),
        client(1, &[Snapshot(AB)]),
    ],
    accidents: Accidents { holds: 1, ..NONE },
    ..WORLD
};

const ORDER: Scenario = Scenario {
    name: "two commits, one after the other, on two nodes",
    writes: &[on(0, A), on(0, B)],
    clients: &[client(0, &[Commit(0), Commit(1)]), client(1, &[Snapshot(AB)])],
    accidents: Accidents { cut_links: 1, ..NONE },
    ..WORLD
};

const CUT_OFF: Scenario = Scenario {
    name: "coordinators are cut off from the gtm",
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)])],
    accidents: Accidents { cut_links: 1, ..NONE },
    ..WORLD
};

const GIVEN_UP: Scenario = Scenario {
    name: "a commit is given up half-way",
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)]), client(1, &[Snapshot(1 << A), Read(B)])],
    accidents: Accidents { drops: 1, ..NONE },
    ..WORLD
};

const SLOW: Scenario = Scenario {
    name: "a commit is slow, so that barriers do not wait for it",
    accidents: Accidents { drops: 1, slow: 1, ..NONE },
    ..GIVEN_UP
};

const LATE: Scenario = Scenario {
    name: "a coordinator comes late, one goes",
    late: 0b01,
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)])],
    accidents: Accidents { goodbyes: 1, kills: 1, ..NONE },
    ..WORLD
};

const TAKEOVER: Scenario = Scenario {
    name: "a gtm does not know that it leads no more",
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)])],
    accidents: Accidents { stale_gtms: 1, ..NONE },
    ..WORLD
};

const GTM_DIES: Scenario = Scenario {
    name: "the gtm dies, and a coordinator too",
    accidents: Accidents { gtm_kills: 1, kills: 1, ..NONE },
    ..TAKEOVER
};

const START: Scenario = Scenario {
    name: "a start with two gtms",
    late: 0b01,
    is_fence_needed: true,
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)])],
    accidents: Accidents { stale_gtms: 1, ..NONE },
    ..WORLD
};

const START_SINGLE: Scenario = Scenario {
    name: "a start with two gtms, and two commits on two nodes",
    writes: &[on(0, A), on(0, B)],
    clients: &[client(0, &[Commit(0), Commit(1)]), client(1, &[Snapshot(AB)])],
    ..START
};

const STALE: Scenario = Scenario {
    name: "a coordinator stays with a gtm that leads no more",
    late: 0b10,
    is_fence_needed: false,
    ..START_SINGLE
};

const NEWCOMER: Scenario = Scenario {
    name: "a coordinator comes to a gtm that has just begun to lead",
    late: 0b01,
    is_fence_needed: false,
    ..START_SINGLE
};

const NODE_BY_NODE: Scenario = Scenario {
    name: "a session goes from node to node",
    writes: &[on_both(0)],
    clients: &[
        client(0, &[Commit(0)]),
        client(1, &[Read(A), Read(B), Snapshot(AB)]),
        client(1, &[Snapshot(AB), Read(B)]),
    ],
    accidents: Accidents { kills: 1, drops: 1, ..NONE },
    ..WORLD
};

const READ_THEN_WRITE: Scenario = Scenario {
    name: "a session writes elsewhere after it has read",
    nodes: 3,
    writes: &[on_both(0), on(1, C)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Read(A), Commit(1), Read(B)]), client(1, &[Snapshot(ABC)])],
    accidents: Accidents { drops: 1, ..NONE },
    ..WORLD
};

/// Nobody waits for a reader that takes its snapshots too late. Its clock may stand still: it need not know.
const LATE_READER: Scenario = Scenario {
    name: "a reader is late",
    writes: &[on_both(0)],
    clients: &[client(0, &[Commit(0)]), client(1, &[Snapshot(AB)])],
    accidents: Accidents { holds: 1, ..NONE },
    ..WORLD
};

const LATE_AND_NEWCOMER: Scenario = Scenario {
    name: "a reader is late, and a coordinator comes or goes",
    coordinators: 3,
    late: 0b01,
    writes: &[on_both(0)],
    accidents: Accidents { holds: 1, goodbyes: 1, ..NONE },
    ..LATE_READER
};

const LATE_WITHOUT_GTM: Scenario = Scenario {
    name: "a reader is late, and the gtm dies",
    accidents: Accidents { holds: 1, gtm_kills: 1, ..NONE },
    ..LATE_READER
};

/// Two COMMITs of a dead coordinator on single nodes arrive when they like: no fence waits for them.
const STRAYS: Scenario = Scenario {
    name: "two stray commits and two snapshots",
    writes: &[on(0, A), on(1, B)],
    clients: &[
        client(0, &[Commit(0)]),
        client(0, &[Commit(1)]),
        client(1, &[Snapshot(AB)]),
        client(1, &[Snapshot(AB)]),
    ],
    accidents: Accidents { kills: 1, ..NONE },
    ..WORLD
};

/// For walks: whatever may become of gtms, and of links to them.
pub const CUTS_ONLY: Scenario = Scenario {
    name: "snapshots, and nothing else",
    late: 0b11,
    is_fence_needed: true,
    clients: &[client(0, &[Snapshot(AB); 20]), client(1, &[Snapshot(AB); 20])],
    accidents: Accidents { cut_links: 4, goodbyes: 2, holds: 2, stale_gtms: 1, ..NONE },
    ..WORLD
};

pub const THREE_COORDINATORS: Scenario = Scenario {
    coordinators: 3,
    late: 0b111,
    clients: &[
        client(0, &[Snapshot(AB); 20]),
        client(1, &[Snapshot(AB); 20]),
        client(1, &[Snapshot(AB); 20]),
        client(2, &[Snapshot(AB); 20]),
    ],
    accidents: Accidents { cut_links: 6, goodbyes: 1, gtm_kills: 1, ..NONE },
    ..CUTS_ONLY
};

pub const SCENARIOS: &[&Scenario] = &[
    &TRANSFER,
    &TWO_TRANSFERS,
    &TWO_SINGLES,
    &ORDER,
    &CUT_OFF,
    &GIVEN_UP,
    &SLOW,
    &LATE,
    &TAKEOVER,
    &GTM_DIES,
    &START,
    &START_SINGLE,
    &STALE,
    &NEWCOMER,
    &READ_THEN_WRITE,
    &LATE_READER,
    &LATE_AND_NEWCOMER,
    &LATE_WITHOUT_GTM,
];

/// … or of a living one, which are so slow that a barrier does not wait for them.
const OVERDUE: Scenario = Scenario {
    name: "two overdue commits and two snapshots",
    writes: &[on(0, A), on(1, B)],
    clients: &[
        client(0, &[Commit(0)]),
        client(0, &[Commit(1)]),
        client(1, &[Snapshot(AB)]),
        client(1, &[Snapshot(AB)]),
    ],
    accidents: Accidents { slow: 1, ..NONE },
    ..WORLD
};

/// Too many states for every day.
pub const LARGE: &[&Scenario] = &[
    &Scenario { accidents: Accidents { kills: 1, drops: 1, gtm_kills: 1, ..NONE }, ..READ_THEN_WRITE },
    &Scenario { accidents: Accidents { kills: 1, cut_links: 1, holds: 1, ..NONE }, ..TRANSFER },
    &Scenario { accidents: Accidents { cut_links: 2, ..NONE }, ..CUT_OFF },
    &Scenario { accidents: Accidents { cut_links: 1, holds: 1, ..NONE }, ..LATE_READER },
    &Scenario { accidents: Accidents { cut_links: 1, stale_gtms: 1, ..NONE }, ..TAKEOVER },
    &Scenario { accidents: Accidents { kills: 1, drops: 1, holds: 1, ..NONE }, ..TWO_TRANSFERS },
    &Scenario { accidents: Accidents { kills: 1, cut_links: 1, holds: 1, slow: 1, ..NONE }, ..ORDER },
    &Scenario { accidents: Accidents { kills: 1, cut_links: 1, drops: 1, gtm_kills: 1, ..NONE }, ..TAKEOVER },
    &Scenario { accidents: Accidents { cut_links: 2, drops: 1, stale_gtms: 1, holds: 1, ..NONE }, ..TAKEOVER },
    &Scenario { accidents: Accidents { cut_links: 1, stale_gtms: 1, goodbyes: 1, ..NONE }, ..START_SINGLE },
    &Scenario { accidents: Accidents { cut_links: 1, drops: 1, slow: 1, ..NONE }, ..GIVEN_UP },
    &Scenario { coordinators: 3, accidents: Accidents { kills: 1, drops: 1, ..NONE }, ..GIVEN_UP },
];

pub const SPLIT: &str = "no snapshot splits a transaction";
pub const PAST: &str = "nothing is shown without its past";
pub const BACK: &str = "nobody goes back in time";
pub const FORK: &str = "no two snapshots disagree";
pub const STUCK: &str = "nothing is stuck";
pub const FINISH: &str = "all clients finish";
pub const MIXED: &str = "reads node by node show one moment";

pub const WITHOUT: &[(Rules, &Scenario, &str)] = &[
    (Rules::PassUntilTheEnd, &TRANSFER, SPLIT),
    (Rules::FenceAfterLoss, &TRANSFER, SPLIT),
    (Rules::RecoveryInFence, &TRANSFER, SPLIT),
    (Rules::FenceWaitsForAnnounced, &TRANSFER, SPLIT),
    (Rules::PassForSingleNodes, &ORDER, PAST),
    (Rules::PassForSingleNodes, &TWO_SINGLES, FORK),
    (Rules::CheckWithoutLease, &ORDER, PAST),
    (Rules::FenceWaitsForLeases, &ORDER, PAST),
    (Rules::GenerationAtAnnounce, &CUT_OFF, SPLIT),
    (Rules::OpenByItself, &CUT_OFF, STUCK),
    (Rules::BarrierOutlivesLink, &CUT_OFF, SPLIT),
    (Rules::LostRequesterKeepsBarrier, &CUT_OFF, SPLIT),
    (Rules::UnresolvedBeforeClosed, &GIVEN_UP, SPLIT),
    (Rules::UnresolvedStayOut, &GIVEN_UP, SPLIT),
    (Rules::OverdueIsReported, &SLOW, SPLIT),
    (Rules::AcknowledgeWhenAllShow, &GIVEN_UP, BACK),
    (Rules::UnresolvedAreFresh, &GIVEN_UP, BACK),
    (Rules::RegisterBetweenBarriers, &LATE, SPLIT),
    (Rules::GoodbyeWhenIdle, &LATE, SPLIT),
    (Rules::GoodbyeEndsGeneration, &LATE, SPLIT),
    (Rules::GenerationInSnapshot, &START, SPLIT),
    (Rules::SnapshotBeforeGeneration, &START, SPLIT),
    (Rules::TellWhenAllAreFenced, &START, SPLIT),
    (Rules::NumberUnderTheLock, &START, SPLIT),
    (Rules::NumbersOnlyGrow, &START_SINGLE, PAST),
    (Rules::LeasesUnderTheLock, &STALE, PAST),
    (Rules::LeaseAfterGeneration, &NEWCOMER, PAST),
    (Rules::ReadBarrier, &NODE_BY_NODE, BACK),
    (Rules::MarkBeforeCommit, &LATE_READER, SPLIT),
    (Rules::OpenedAjarByGtm, &LATE_READER, SPLIT),
    (Rules::OpenedAjarByItself, &LATE_WITHOUT_GTM, SPLIT),
    (Rules::NewGenerationAfterAjar, &LATE_AND_NEWCOMER, SPLIT),
];

/// What the protocol does not promise; `docs/consistency.md` says so.
pub const NOT_PROMISED: &[(&Scenario, &str)] = &[(&NODE_BY_NODE, MIXED), (&STRAYS, FORK), (&OVERDUE, FORK)];
