//! Which nodes a session must not read before they have passed a read barrier; see [`snapshot`](crate::snapshot).

use std::collections::BTreeSet;

use catalog::NodeId;

/// Which nodes might show the session less than it has seen elsewhere.
#[derive(Debug, Default)]
pub(crate) struct CausalityTracker {
    stale: Stale,
    /// Nodes that have been sent a read barrier for the present statement. They have passed it if the statement does not fail.
    passing: Vec<NodeId>,
    /// Nodes that the present statement reads.
    touched: Vec<NodeId>,
}

/// Nodes come and go, so those are named that differ from all others.
#[derive(Debug)]
enum Stale {
    Only(BTreeSet<NodeId>),
    AllBut(BTreeSet<NodeId>),
}

impl Default for Stale {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl CausalityTracker {
    /// Must this node pass a read barrier before it is read?
    pub(crate) fn is_stale(&self, node: NodeId) -> bool {
        !self.passing.contains(&node)
            && match &self.stale {
                Stale::Only(nodes) => nodes.contains(&node),
                Stale::AllBut(nodes) => !nodes.contains(&node),
            }
    }

    /// This node is about to pass a read barrier.
    pub(crate) fn pass_read_barrier(&mut self, node: NodeId) {
        if self.is_stale(node) {
            self.passing.push(node);
        }
    }

    /// It is not known whether the barriers of the present statement were passed.
    pub(crate) fn failed(&mut self) {
        self.passing.clear();
    }

    /// It is not known whether this node's barrier was passed.
    pub(crate) fn not_passed(&mut self, node: NodeId) {
        self.passing.retain(|passing| *passing != node);
    }

    fn passed(&mut self) {
        for node in self.passing.drain(..) {
            match &mut self.stale {
                Stale::Only(nodes) => nodes.remove(&node),
                Stale::AllBut(nodes) => nodes.insert(node),
            };
        }
    }

    /// The present statement runs on this node.
    pub(crate) fn touch(&mut self, node: NodeId) {
        if !self.touched.contains(&node) {
            self.touched.push(node);
        }
    }

    /// The present statement is over: what it saw may be missing on the nodes where it did not run and, if it ran on several,
    /// on any.
    pub(crate) fn finished(&mut self) {
        self.passed();
        self.stale = match self.touched.as_slice() {
            [] => return,
            [one] if self.is_stale(*one) => Stale::AllBut(BTreeSet::new()),
            [one] => Stale::AllBut(BTreeSet::from([*one])),
            _ => Stale::AllBut(BTreeSet::new()),
        };
        self.touched.clear();
    }

    /// The present statement is over, and saw nothing but a global snapshot that [`CausalityTracker::snapshot_taken`] knows of.
    pub(crate) fn finished_in_snapshot(&mut self) {
        self.passed();
        self.touched.clear();
    }

    /// A global snapshot was taken: whatever any node shows, all show, but for these.
    pub(crate) fn snapshot_taken(&mut self, unresolved: &[u16]) {
        self.stale = Stale::Only(unresolved.iter().map(|node| NodeId(*node)).collect());
        self.passing.clear();
        self.touched.clear();
    }

    /// These nodes hold a transaction that this session knows to be committed.
    pub(crate) fn behind(&mut self, nodes: &[u16]) {
        for node in nodes.iter().map(|node| NodeId(*node)) {
            self.passing.retain(|passing| *passing != node);
            match &mut self.stale {
                Stale::Only(stale) => stale.insert(node),
                Stale::AllBut(fresh) => fresh.remove(&node),
            };
        }
    }
}

/// When a node that might show less than the session has seen has to catch up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadBarrier {
    /// Not for this statement, which takes no snapshot.
    Never,
    /// Before the statement, which may see what is there.
    First,
    /// It is enough that a session which sees the statement's rows sees what the session saw before. Only where each statement has
    /// a snapshot of its own.
    BeforeCommit,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(causality: &CausalityTracker) -> Vec<u16> {
        (0..3).filter(|node| causality.is_stale(NodeId(*node))).collect()
    }

    #[test]
    fn nodes_are_stale_after_something_was_seen_elsewhere() {
        let mut causality = CausalityTracker::default();
        assert_eq!(stale(&causality), [0; 0]);
        causality.touch(NodeId(1));
        causality.finished();
        assert_eq!(stale(&causality), [0, 2]);
        // Again the same node: nothing changes for it.
        causality.touch(NodeId(1));
        causality.finished();
        assert_eq!(stale(&causality), [0, 2]);
        causality.pass_read_barrier(NodeId(2));
        causality.touch(NodeId(2));
        causality.finished();
        assert_eq!(stale(&causality), [0, 1]);
    }

    #[test]
    fn a_barrier_counts_once_its_statement_has_ended_well() {
        let mut causality = CausalityTracker::default();
        causality.touch(NodeId(1));
        causality.finished();
        causality.pass_read_barrier(NodeId(2));
        assert_eq!(stale(&causality), [0], "one statement sends one barrier");
        causality.failed();
        assert_eq!(stale(&causality), [0, 2]);
        causality.pass_read_barrier(NodeId(2));
        causality.behind(&[2]);
        causality.finished();
        assert_eq!(stale(&causality), [0, 2]);
    }

    #[test]
    fn after_several_nodes_without_a_snapshot_none_is_sure() {
        let mut causality = CausalityTracker::default();
        causality.touch(NodeId(0));
        causality.touch(NodeId(1));
        causality.finished();
        assert_eq!(stale(&causality), [0, 1, 2]);
        causality.snapshot_taken(&[1]);
        assert_eq!(stale(&causality), [1]);
        causality.behind(&[2]);
        assert_eq!(stale(&causality), [1, 2]);
    }
}
