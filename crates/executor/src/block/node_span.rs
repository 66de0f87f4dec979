//! How far a SERIALIZABLE transaction may go: see [`serializable`](crate::transaction::serializable).

use catalog::NodeId;

/// How far a transaction may go, as its isolation level has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeSpan {
    /// Not SERIALIZABLE, or there is one datanode only.
    Free,
    /// The one datanode where it has a snapshot, or none yet.
    SingleNode(Option<NodeId>),
    /// The first datanode it has been to, and whether it has been to another.
    MultiNode(Option<NodeId>, bool),
}

impl NodeSpan {
    /// What each datanode is told right after BEGIN. It takes no snapshot.
    pub(crate) fn lock(self) -> Option<&'static str> {
        match self {
            NodeSpan::Free => None,
            NodeSpan::SingleNode(_) => Some("LOCK TABLE loxo.serializable IN ROW SHARE MODE"),
            NodeSpan::MultiNode(..) => Some("LOCK TABLE loxo.serializable IN EXCLUSIVE MODE"),
        }
    }
}
