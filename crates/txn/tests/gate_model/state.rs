//! What the model knows of the world: scenarios (fixed) and states (checked).

/// A set of small indices (nodes, transactions, coordinators or sessions).
pub type Set = u8;

pub const NODES: usize = 3;
pub const COORDINATORS: usize = 3;
pub const TRANSACTIONS: usize = 3;
pub const SESSIONS: usize = 4;
pub const GTMS: usize = 2;

pub fn one(index: usize) -> Set {
    1 << index
}

pub fn has(set: Set, index: usize) -> bool {
    set & one(index) != 0
}

pub fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..8).filter(move |index| has(set, *index))
}

/// The protocol, or the protocol without one of its rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    All,
    /// The pass is given back when the commit point has committed, before the last COMMIT PREPARED.
    PassUntilTheEnd,
    /// Commits on a single node take no pass.
    PassForSingleNodes,
    /// A global snapshot is granted although a coordinator was lost, without a fence.
    FenceAfterLoss,
    /// The fence ends without waiting for decided transactions to be finished.
    RecoveryInFence,
    /// The fence does not wait for announced transactions to end.
    FenceWaitsForAnnounced,
    /// Decisions are announced under any generation.
    GenerationAtAnnounce,
    /// A reader takes a global snapshot whatever generation the nodes answer.
    GenerationInSnapshot,
    /// The generation is read before the snapshot is taken.
    SnapshotBeforeGeneration,
    /// The new generation is told before all nodes have it.
    TellWhenAllAreFenced,
    /// A new gtm computes its number from what the nodes say, without the leader's lock.
    NumberUnderTheLock,
    /// A gtm sets a node's generation also backwards.
    NumbersOnlyGrow,
    /// A gate that was shut is opened by the gtm or never.
    OpenByItself,
    /// A coordinator that is cut off from the gtm opens its gate.
    BarrierOutlivesLink,
    /// A requester whose link broke counts as one that has its snapshots.
    LostRequesterKeepsBarrier,
    /// A coordinator may register, and be told the generation, while a barrier is on.
    RegisterBetweenBarriers,
    /// A coordinator says goodbye while it commits.
    GoodbyeWhenIdle,
    /// A coordinator that said goodbye goes on under its old generation.
    GoodbyeEndsGeneration,
    /// A pass that is dropped is reported, but maybe after Closed.
    UnresolvedBeforeClosed,
    /// A barrier that has waited long enough for a commit does not report it.
    OverdueIsReported,
    /// Unresolved nodes are taken into a global snapshot.
    UnresolvedStayOut,
    /// The client is told "committed" while a node does not show it.
    AcknowledgeWhenAllShow,
    /// Statements on one node do not wait for the prepared transactions there.
    ReadBarrier,
    /// Unresolved nodes count as fresh after a global snapshot.
    UnresolvedAreFresh,
    /// A coordinator without lease commits on single nodes unchecked.
    CheckWithoutLease,
    /// A gtm that has lost its lock extends leases as before.
    LeasesUnderTheLock,
    /// A lease is given before a generation is in force.
    LeaseAfterGeneration,
    /// The fence does not wait for leases of coordinators that it does not know.
    FenceWaitsForLeases,
    /// A coordinator whose gate was opened ajar commits on nodes that have no mark.
    MarkBeforeCommit,
    /// The gtm says Open although not everybody has said Taken.
    OpenedAjarByGtm,
    /// A coordinator that opened by itself takes it that everybody was done.
    OpenedAjarByItself,
    /// After gates were opened ajar coordinators are still told the old generation.
    NewGenerationAfterAjar,
}

/// One transaction that writes.
#[derive(Clone, Copy, Debug)]
pub struct Writes {
    pub session: usize,
    pub commit_point: usize,
    pub nodes: Set,
}

impl Writes {
    pub fn is_single(&self) -> bool {
        self.nodes == one(self.commit_point)
    }
}

/// What a client does, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Commits this transaction.
    Commit(usize),
    /// A statement on this node alone.
    Read(usize),
    /// A statement, or a REPEATABLE READ block, over these nodes.
    Snapshot(Set),
}

#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub coordinator: usize,
    pub steps: &'static [Step],
}

/// How often what may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Accidents {
    /// A coordinator is killed.
    pub kills: u8,
    /// A coordinator is cut off from its gtm, and both live.
    pub cut_links: u8,
    /// A commit is given up in its visible phase; its coordinator lives.
    pub drops: u8,
    /// A coordinator says goodbye to its gtm and looks for one again.
    pub goodbyes: u8,
    /// Someone is so slow that HOLD passes.
    pub holds: u8,
    /// Commits take so long that a barrier does not wait for them.
    pub slow: u8,
    /// The leading gtm is killed.
    pub gtm_kills: u8,
    /// The leading gtm loses its lock and does not notice.
    pub stale_gtms: u8,
}

/// Who is there and what they do.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub nodes: usize,
    pub coordinators: usize,
    /// Coordinators that are not registered at the start.
    pub late: Set,
    /// Has the gtm a fence to make first?
    pub is_fence_needed: bool,
    pub writes: &'static [Writes],
    pub clients: &'static [Client],
    pub accidents: Accidents,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Node {
    pub generation: u8,
    /// The newest barrier, by [`Mark`], in which a gate was opened ajar.
    pub mark: Mark,
    /// Transactions whose rows a new snapshot shows.
    pub visible: Set,
    pub prepared: Set,
    /// Transactions that hold the fence's lock in share mode.
    pub announced: Set,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    #[default]
    NotBegun,
    /// Announced, or prepared everywhere but at the commit point.
    Preparing,
    /// Announced, and prepared everywhere but at the commit point.
    Prepared,
    /// COMMIT is sent.
    Sent,
    /// The coordinator knows that the commit point has committed.
    Decided,
    /// Given up in the visible phase.
    Dropped,
    Acknowledged,
    Aborted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Transaction {
    pub phase: Phase,
    pub has_pass: bool,
    pub is_in_flight: bool,
    /// Everything that was acknowledged, or that its session had seen, when it was about to commit.
    pub past: Set,
}

/// Which barrier: of this gtm, with this number.
pub type BarrierId = (usize, u8);

/// A barrier by the generation that it was granted under, and its number. (0, 0): none.
pub type Mark = (u8, u8);
pub const NO_MARK: Mark = (0, 0);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Coordinator {
    pub is_dead: bool,
    /// The gtm it is connected to.
    pub link: Option<usize>,
    /// The generation it was told last.
    pub generation: Option<u8>,
    /// … by the gtm that it is connected to.
    pub is_told: bool,
    /// It may take it that the gtm knows of it.
    pub has_lease: bool,
    pub shut_for: Option<BarrierId>,
    /// The generation then.
    pub shut_under: u8,
    /// The last barrier in which somebody may have been taking snapshots when the gate was opened.
    pub ajar: Mark,
    /// Dropped transactions that the gtm has not heard of.
    pub unreported: Set,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Stage {
    #[default]
    None,
    Requested,
    /// A barrier is on for it.
    Closing,
    Granted,
    /// Refused because of unresolved nodes.
    Denied,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GlobalSnapshot {
    pub stage: Stage,
    pub barrier: BarrierId,
    pub generation: u8,
    /// What it must show: acknowledged or seen before it was asked for.
    pub must_show: Set,
    pub unresolved_nodes: Set,
    pub taken: Set,
    pub shown: [Set; NODES],
    pub is_generation_read: bool,
    /// A node answered another generation.
    pub is_foreign: bool,
    /// A node had a mark of its barrier, or of a later one.
    pub is_late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Session {
    pub is_over: bool,
    pub step: u8,
    pub seen: Set,
    /// Nodes that need no read barrier.
    pub fresh: Set,
    /// Transactions whose end it waits for.
    pub waits_for: Set,
    pub snapshot: GlobalSnapshot,
    /// Transactions that its reads on single nodes should have shown, had they been one statement.
    pub missed: Set,
    /// Of its last global snapshot: transactions that it showed, and those that have rows on its nodes.
    pub result: (Set, Set),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    Off,
    #[default]
    Standby,
    /// It leads, or believes so.
    Leading,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fence {
    /// None is under way.
    Idle,
    /// These nodes have the new generation.
    Raising(Set),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommitBarrier {
    pub number: u8,
    /// Coordinators that have not answered.
    pub waits_for: Set,
    /// Sessions that have not said that they are done.
    pub requests: Set,
    pub is_granted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gtm {
    pub role: Role,
    /// Drawn last.
    pub generation: u8,
    /// All nodes have it; 0 before the first fence.
    pub in_force: u8,
    pub fence: Fence,
    /// Another fence is to be made.
    pub wants_fence: bool,
    /// Gates were opened ajar under the generation in force.
    pub is_stained: bool,
    pub registered: Set,
    pub barrier: Option<CommitBarrier>,
    pub barriers: u8,
    /// Transactions that it was told are unresolved.
    pub unresolved: Set,
}

/// What happened on the way here: promises that were broken, and one thing that is not promised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Broken {
    /// A global snapshot shows a transaction on one node and not on another.
    pub split: bool,
    /// A global snapshot, or a read, shows a transaction and not what came before it.
    pub order: bool,
    /// What was acknowledged, or seen by the session, before it asked is not shown.
    pub back: bool,
    /// Two global snapshots disagree about the order of two transactions.
    pub fork: bool,
    /// Reads of a session, node by node, show a transaction on the later node only.
    pub mixed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub nodes: [Node; NODES],
    pub coordinators: [Coordinator; COORDINATORS],
    pub transactions: [Transaction; TRANSACTIONS],
    pub sessions: [Session; SESSIONS],
    pub gtms: [Gtm; GTMS],
    /// The gtm that holds the lock on the primary datanode.
    pub leader: usize,
    /// The generation at the primary that was given out last.
    pub last_generation: u8,
    pub acknowledged: Set,
    pub left: Accidents,
    pub broken: Broken,
}

impl State {
    /// Marks that no global snapshot can meet any more make no difference. To take them away saves states.
    pub fn forget_marks(&mut self) {
        let is_in_barrier = |session: &Session| matches!(session.snapshot.stage, Stage::Closing | Stage::Granted);
        if !self.sessions.iter().any(is_in_barrier) {
            self.nodes.iter_mut().for_each(|node| node.mark = NO_MARK);
            self.coordinators.iter_mut().for_each(|coordinator| coordinator.ajar = NO_MARK);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    // Transactions.
    Announce(usize),
    Prepare(usize),
    SendCommit(usize),
    CommitLands(usize),
    CommitIsLost(usize),
    RollBack(usize),
    Finish { transaction: usize, node: usize },
    Acknowledge(usize),
    Drop(usize),
    Recover { transaction: usize, node: usize },
    // Coordinators and their gates.
    Shut(usize),
    LosePatience(usize),
    HoldIsOver(usize),
    Mark { coordinator: usize, node: usize },
    Report(usize),
    LeaseEnds(usize),
    Kill(usize),
    CutLink(usize),
    Goodbye(usize),
    Register { coordinator: usize, gtm: usize },
    Tell(usize),
    ExtendLease(usize),
    // Gtms.
    Close(usize),
    Grant(usize),
    GiveUp(usize),
    NoticeLoss { gtm: usize, coordinator: usize },
    ClearUnresolved { gtm: usize, transaction: usize },
    StartFence(usize),
    Raise { gtm: usize, node: usize },
    EndFence(usize),
    KillGtm,
    LoseLock,
    StepDown(usize),
    // Sessions.
    PassReadBarrier(usize),
    Read(usize),
    Request(usize),
    Retry(usize),
    ReadGenerations(usize),
    Snapshot { session: usize, node: usize },
    Complete(usize),
}
