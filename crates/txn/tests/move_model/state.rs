//! What the model knows of the world: scenarios (fixed) and states (checked).

/// A set of small indices (nodes or clients).
pub type Set = u8;

/// The bucket is on node `map % 2`, where `map` counts the moves.
pub const NODES: usize = 2;
/// Has nothing but the map; it is the commit point of each step.
pub const HOME: usize = 2;
pub const COORDINATORS: usize = 2;
pub const CLIENTS: usize = 3;
/// A step has landed on all of them.
pub const EVERYWHERE: Set = 0b111;

pub fn one(index: usize) -> Set {
    1 << index
}

pub fn has(set: Set, index: usize) -> bool {
    set & one(index) != 0
}

pub fn place(map: u8) -> usize {
    usize::from(map) % NODES
}

/// The protocol, or the protocol without one of its rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    All,
    /// Reads ask whether their plan holds before their nodes have taken a snapshot, and not after.
    ReadsAskAfterSnapshot,
    /// A write that stands alone commits without asking.
    WritesAskBeforeCommit,
    /// Statements of a block do not ask.
    BlocksAskAtStatementEnd,
    /// A statement that goes from node to node asks after the first.
    AskAfterLastNode,
    /// A step commits before all coordinators have dropped their catalogs.
    AcknowledgedBeforeCommit,
    /// A step does not keep writers off.
    LockAgainstWriters,
    /// A catalog is read while a step is being committed.
    LoadWaitsForCommit,
    /// Catalogs count again when the step's coordinator has died, and nobody waits for what is prepared at a node.
    NoBarrierAfterLoad,
    /// Snapshots of several nodes are taken while a step becomes visible.
    SnapshotInsideBarrier,
    /// A block that keeps its snapshot plans with the present map.
    MapOfSnapshot,
    /// … with the map of its first plan, though that took no snapshot.
    MapNotOlderThanSnapshot,
    /// Whoever finds the bucket where it was takes it that it has not moved.
    ThereAndBackIsMoved,
}

/// What a client does. All of it is about the one bucket that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A read of one node.
    Read,
    /// A read of several nodes, one of which is where the bucket is thought to be.
    ReadSeveral,
    /// Two such reads in a REPEATABLE READ block, maybe behind a statement that is planned and takes no snapshot (PREPARE).
    RepeatableRead { prepares: bool },
    /// Changes the row that was there at the start; stands alone.
    Update,
    /// Brings a new row; stands alone.
    Insert,
    /// Insert, then update, then COMMIT.
    Block,
    /// An update in a block, without a key: all nodes, one after the other, this one first.
    UpdateAll { first: usize },
}

impl Work {
    pub fn inserts(self) -> bool {
        matches!(self, Work::Insert | Work::Block)
    }

    pub fn updates(self) -> bool {
        matches!(self, Work::Update | Work::Block | Work::UpdateAll { .. })
    }

    pub fn is_block(self) -> bool {
        matches!(self, Work::Block | Work::UpdateAll { .. })
    }

    pub fn writes(self) -> bool {
        self.inserts() || self.updates()
    }
}

/// Who is there.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// The bucket goes there, and back, …
    pub steps: u8,
    /// How often a coordinator is killed that makes a step.
    pub kills: u8,
    /// With the coordinator of each.
    pub clients: &'static [(usize, Work)],
}

/// The rows of the bucket: one that is changed, and new ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rows {
    /// Clients whose changes it has.
    pub row: Option<Set>,
    /// Clients whose rows are there.
    pub inserted: Set,
}

/// A datanode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Node {
    /// Committed and visible.
    pub rows: Rows,
    /// The step has the table locked.
    pub is_kept: bool,
    /// Clients that have it locked to write.
    pub writers: Set,
    /// The client that has changed the row.
    pub changed_by: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    #[default]
    Idle,
    Locked,
    /// Read and deleted here, written there.
    Copied,
    /// `loxo.committing` is locked, the gtm told.
    Announced,
    /// Prepared on both nodes; COMMIT is on its way to the home node.
    Sent,
    /// The home node has committed.
    Decided,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Step {
    pub phase: Phase,
    pub carried: Rows,
    /// Where it is visible.
    pub landed: Set,
    /// Its coordinator is dead.
    pub is_orphan: bool,
}

/// A coordinator has handled this many of the gtm's words, which are in turn "drop your catalog" and "it counts again".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Coordinator {
    pub heard: u8,
    /// The map in the catalog that counts.
    pub map: Option<u8>,
}

/// How far a client is with a statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum At {
    #[default]
    Start,
    Planned,
    /// The connection has passed a read barrier.
    PastReadBarrier,
    /// The nodes have answered.
    Answered,
    /// The plan was found to hold.
    Held,
    /// COMMIT is sent.
    Committing,
    Finished,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Client {
    pub at: At,
    /// Statements done.
    pub statement: u8,
    /// What the coordinator had heard, and the map, when it planned.
    pub plan: (u8, u8),
    /// The map of a snapshot that is kept.
    pub kept: Option<u8>,
    /// What its snapshots show on each node.
    pub shown: [Rows; NODES],
    /// Nodes where the present statement has run.
    pub visited: Set,
    /// Where its new row is to be.
    pub inserted_on: Option<usize>,
    /// Writes that were acknowledged before it began.
    pub past: Set,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub nodes: [Node; NODES],
    /// The map as it is visible on the home node.
    pub map: u8,
    pub step: Step,
    pub steps_left: u8,
    pub kills_left: u8,
    /// Words of the gtm.
    pub said: u8,
    pub coordinators: [Coordinator; COORDINATORS],
    pub clients: [Client; CLIENTS],
    pub acknowledged: Set,
    /// A read has shown a row twice or not at all, or not what was acknowledged.
    pub is_misread: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    // The step.
    Lock,
    Copy,
    Announce,
    SendCommit,
    Land(usize),
    Finish,
    Kill,
    Abort,
    // Coordinators.
    Hear(usize),
    Load(usize),
    // Clients.
    Prepare(usize),
    Plan(usize),
    PassReadBarrier(usize),
    Snapshot(usize),
    LockTable { client: usize, node: usize },
    Run { client: usize, node: usize },
    Ask(usize),
    Commit(usize),
    Committed(usize),
}
