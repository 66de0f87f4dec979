//! SERIALIZABLE over the cluster.
//!
//! PostgreSQL sees dangerous patterns of reads and writes only within one server. So a SERIALIZABLE transaction is one of two:
//!
//! * *narrow*: it stays on one datanode, which watches it beside all others there;
//! * *wide*: it may go everywhere. No other SERIALIZABLE transaction is under way at a datanode while a part of it is.
//!
//! Both lock `loxo.serializable` in each datanode's part before that takes its snapshot, to the part's end: narrow ones in ROW
//! SHARE, beside each other, wide ones in EXCLUSIVE, and these have all their locks before their first snapshot.
//!
//! Why that is serializable: order the wide ones by the moment at which they had all their locks. On each datanode the parts of
//! wide ones follow each other in that order, for one waits there for the locks of those before it. Every narrow one lies
//! between two of them, whole. Take the wide ones in this order, and between two of them the narrow ones of one datanode
//! after the other, each in the order which that datanode's PostgreSQL guarantees. If a transaction b must come after a, since a
//! read or wrote what b then wrote or read, both did it on one datanode. When they overlapped there, both are narrow and
//! between the same two wide ones, and PostgreSQL has seen to it. If they did not, the later one's snapshot and locks came after the
//! earlier one's end, so it saw all of it: b is the later one, and comes later here too.
//!
//! A transaction whose first statement needs several datanodes is wide. A transaction that leaves its datanode later has a
//! snapshot: that is 40001, and the session's next ones are wide from the start, until one of them has needed a single datanode
//! only. As in PostgreSQL nothing is promised about transactions of other levels.

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use planner::Plan;

use crate::backend::isolation::Isolation;
use crate::block::node_span::NodeSpan;
use crate::session::Session;

impl Session {
    /// Initial scope of a transaction of this isolation level.
    pub(crate) fn node_span_of(&self, isolation: Isolation) -> NodeSpan {
        match isolation == Isolation::Serializable && self.context.has_several_nodes() {
            true if self.goes_wide => NodeSpan::MultiNode(None, false),
            true => NodeSpan::SingleNode(None),
            false => NodeSpan::Free,
        }
    }

    /// Is a statement that stands alone a SERIALIZABLE transaction that has to be told from others?
    pub fn autocommit_is_serializable(&self) -> bool {
        !self.in_block() && self.node_span_of(self.default_isolation()) != NodeSpan::Free
    }

    /// To be called before a statement takes its first snapshot.
    pub(crate) async fn widen_for(&mut self, plan: &Plan) -> Result<()> {
        match plan.facts().is_on_several {
            true => self.widen_for_several().await,
            false => Ok(()),
        }
    }

    /// [`Session::widen_for`] for a body that the coordinator runs: its expressions are the home node's, wherever its rows are.
    pub async fn widen_for_body(&mut self) -> Result<()> {
        let reached = self.widen_for_several().await;
        if reached.is_err() {
            self.fail();
        }
        // The plan that wants the body has still to be judged.
        self.release();
        reached
    }

    /// [`Session::widen_for`] for what needs several datanodes.
    pub(crate) async fn widen_for_several(&mut self) -> Result<()> {
        match self.block.as_ref().map(|block| block.node_span) {
            Some(NodeSpan::SingleNode(None)) => self.widen().await,
            _ => Ok(()),
        }
    }

    /// A block is about to take a snapshot on a datanode, or to use the one it has there.
    pub(crate) fn widen_to(&mut self, place: NodeId) -> Result<()> {
        let Some(block) = &mut self.block else { return Ok(()) };
        block.node_span = match block.node_span {
            NodeSpan::Free => NodeSpan::Free,
            NodeSpan::SingleNode(None) => NodeSpan::SingleNode(Some(place)),
            NodeSpan::SingleNode(Some(known)) if known == place => return Ok(()),
            NodeSpan::SingleNode(Some(_)) => {
                self.goes_wide = true;
                return Err(left_its_datanode());
            }
            NodeSpan::MultiNode(first, several) => {
                NodeSpan::MultiNode(first.or(Some(place)), several || first.is_some_and(|first| first != place))
            }
        };
        Ok(())
    }

    /// Parts that were begun under the other lock are begun anew.
    async fn widen(&mut self) -> Result<()> {
        let begun = self.links.begun();
        let Some(block) = &mut self.block else { return Ok(()) };
        block.node_span = NodeSpan::MultiNode(None, false);
        self.goes_wide |= block.locked;
        self.start_over(&begun).await
    }

    /// Opens the parts of a block that takes its snapshots on all of `nodes`. Wide ones come to the home node first: nobody waits
    /// there for a session that waits for it elsewhere.
    pub(crate) async fn open_in_turn(&mut self, nodes: &[NodeId]) -> Result<()> {
        if self.block.as_ref().is_some_and(|block| block.node_span != NodeSpan::Free) {
            self.open_on(&[self.home]).await?;
        }
        self.open_on(nodes).await
    }

    /// After `SET TRANSACTION ISOLATION LEVEL`.
    pub(crate) async fn isolation_is(&mut self, isolation: Isolation) -> Result<()> {
        let (span, begun) = (self.node_span_of(isolation), self.links.begun());
        let Some(block) = &mut self.block else { return Ok(()) };
        if block.isolation == isolation {
            return Ok(());
        }
        (block.isolation, block.node_span) = (isolation, span);
        match span.lock() {
            Some(lock) => self.links.broadcast(&begun, lock).await,
            None => Ok(()),
        }
    }

    /// What the next transaction is to know of this one.
    pub(crate) fn node_span_ended(&mut self) {
        if let Some(NodeSpan::MultiNode(_, false)) = self.block.as_ref().map(|block| block.node_span) {
            self.goes_wide = false;
        }
    }
}

fn left_its_datanode() -> PgError {
    let message = "could not serialize access since the transaction began on one datanode and goes to another";
    PgError::new(SqlState::SERIALIZATION_FAILURE, message)
        .hint("Run it again: this session's next SERIALIZABLE transaction is over all datanodes.")
}
