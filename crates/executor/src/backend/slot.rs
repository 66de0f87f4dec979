//! Which of its connections to a datanode a session means.

use catalog::NodeId;

/// What a connection does for the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Role {
    /// Its statements and its transaction.
    Main,
    /// What a transaction on the main one must not do, or cannot.
    Beside,
    /// It keeps the rows of a READ ONLY block's cursors.
    CursorHolder,
}

/// A session's place for one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    // Main ones come first, in the order of their nodes.
    role: Role,
    node: NodeId,
}

impl Slot {
    /// A second session on the node, for a transaction that may not write.
    pub(crate) fn beside(node: NodeId) -> Self {
        Self { role: Role::Beside, node }
    }

    /// A third one there: see [`cursor_holder`](crate::snapshot::cursor_holder).
    pub(crate) fn cursor_holder(node: NodeId) -> Self {
        Self { role: Role::CursorHolder, node }
    }

    /// The datanode.
    pub fn node(self) -> NodeId {
        self.node
    }

    pub(crate) fn is_main(self) -> bool {
        self.role == Role::Main
    }

    pub(crate) fn is_beside(self) -> bool {
        self.role == Role::Beside
    }

    pub(crate) fn is_cursor_holder(self) -> bool {
        self.role == Role::CursorHolder
    }
}

impl From<NodeId> for Slot {
    fn from(node: NodeId) -> Self {
        Self { role: Role::Main, node }
    }
}

impl PartialEq<NodeId> for Slot {
    fn eq(&self, node: &NodeId) -> bool {
        *self == Slot::from(*node)
    }
}

/// All of these.
pub(crate) fn slots(of: &[impl Copy + Into<Slot>]) -> Vec<Slot> {
    of.iter().map(|one| (*one).into()).collect()
}
