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
//! A transaction whose first statement needs several datanodes is wide. Who leaves his datanode later has a snapshot already:
//! that is 40001, and the session's next ones are wide from the start, until one of them has needed a single datanode only.
//! As in PostgreSQL nothing is promised about transactions of other levels.

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use planner::Plan;

use crate::backend::isolation::Isolation;
use crate::block::reach::Reach;
use crate::session::Session;

impl Session {
    /// Of a transaction that begins.
    pub(crate) fn reach_of(&self, isolation: Isolation) -> Reach {
        match isolation == Isolation::Serializable && self.context.nodes().len() > 1 {
            true if self.goes_wide => Reach::Wide(None, false),
            true => Reach::Narrow(None),
            false => Reach::Free,
        }
    }

    /// Is a statement that stands alone a SERIALIZABLE transaction that has to be told from others?
    pub fn alone_is_serializable(&self) -> bool {
        !self.in_block() && self.reach_of(self.default_isolation()) != Reach::Free
    }

    /// To be called before a statement takes its first snapshot.
    pub(crate) async fn reach_for(&mut self, plan: &Plan) -> Result<()> {
        match needs_several(plan) {
            true => self.reach_for_several().await,
            false => Ok(()),
        }
    }

    /// The same for a body that the coordinator runs: its expressions are the home node's, wherever its rows are.
    pub async fn reach_for_body(&mut self) -> Result<()> {
        let reached = self.reach_for_several().await;
        self.conclude(reached).await
    }

    /// The same for what needs several datanodes.
    pub(crate) async fn reach_for_several(&mut self) -> Result<()> {
        match self.block.as_ref().map(|block| block.reach) {
            Some(Reach::Narrow(None)) => self.widen().await,
            _ => Ok(()),
        }
    }

    /// A block is about to take a snapshot on a datanode, or to use the one it has there.
    pub(crate) fn reach_node(&mut self, place: NodeId) -> Result<()> {
        let Some(block) = &mut self.block else { return Ok(()) };
        block.reach = match block.reach {
            Reach::Free => Reach::Free,
            Reach::Narrow(None) => Reach::Narrow(Some(place)),
            Reach::Narrow(Some(known)) if known == place => return Ok(()),
            Reach::Narrow(Some(_)) => {
                self.goes_wide = true;
                return Err(left_its_datanode());
            }
            Reach::Wide(first, several) => {
                Reach::Wide(first.or(Some(place)), several || first.is_some_and(|first| first != place))
            }
        };
        Ok(())
    }

    /// Parts that were begun under the other lock are begun anew.
    async fn widen(&mut self) -> Result<()> {
        let begun = self.links.begun();
        let Some(block) = &mut self.block else { return Ok(()) };
        block.reach = Reach::Wide(None, false);
        self.goes_wide |= block.locked;
        self.start_over(&begun).await
    }

    /// Opens the parts of a block that takes its snapshots on all of `nodes`. Wide ones come to the home node first: nobody waits
    /// there for somebody who waits for him elsewhere.
    pub(crate) async fn open_in_turn(&mut self, nodes: &[NodeId]) -> Result<()> {
        if self.block.as_ref().is_some_and(|block| block.reach != Reach::Free) {
            self.open_on(&[self.home]).await?;
        }
        self.open_on(nodes).await
    }

    /// After `SET TRANSACTION ISOLATION LEVEL`.
    pub(crate) async fn isolation_is(&mut self, isolation: Isolation) -> Result<()> {
        let (reach, begun) = (self.reach_of(isolation), self.links.begun());
        let Some(block) = &mut self.block else { return Ok(()) };
        if block.isolation == isolation {
            return Ok(());
        }
        (block.isolation, block.reach) = (isolation, reach);
        match reach.lock() {
            Some(lock) => self.links.broadcast(&begun, lock).await,
            None => Ok(()),
        }
    }

    /// What the next transaction is to know of this one.
    pub(crate) fn reach_ended(&mut self) {
        if let Some(Reach::Wide(_, false)) = self.block.as_ref().map(|block| block.reach) {
            self.goes_wide = false;
        }
    }
}

/// Statements that are worked out on several datanodes.
fn needs_several(plan: &Plan) -> bool {
    match plan {
        Plan::Scatter(scatter) => scatter.nodes.len() > 1,
        Plan::Replicate(replicate) => replicate.nodes.len() > 1,
        Plan::InsertSplit(insert) => insert.parts.len() > 1,
        Plan::Explain(explain) => needs_several(&explain.inner),
        Plan::DeclareCursor(inner) => needs_several(inner),
        Plan::FirstCopy(_)
        | Plan::Gather(_)
        | Plan::ExchangePlan(_)
        | Plan::InsertStaged(_)
        | Plan::StagedDml(_)
        | Plan::SequencedCtes(_)
        | Plan::Locked(_)
        | Plan::Ddl(_)
        | Plan::AutoReplicate(_)
        | Plan::Redistribute(_) => true,
        // COPY says so itself, and the statements of a routine come one by one. The rest takes no snapshot, or one node's.
        Plan::Forward(_)
        | Plan::CopyFrom(_)
        | Plan::CopyHome(_)
        | Plan::CopyTo(_)
        | Plan::Cluster(_)
        | Plan::Routine(_)
        | Plan::Session => false,
    }
}

fn left_its_datanode() -> PgError {
    let message = "could not serialize access since the transaction began on one datanode and goes to another";
    PgError::new(SqlState::SERIALIZATION_FAILURE, message)
        .hint("Run it again: this session's next SERIALIZABLE transaction is over all datanodes.")
}
