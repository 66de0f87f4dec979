//! Marks: the last word over snapshots that come too late.
//!
//! A gate opens although a reader of the barrier may still be taking snapshots, if nothing was heard of that reader for
//! [`HOLD`](crate::gate::HOLD). The reader looks at its clock before it believes in its global snapshot; but a clock may stand still, as that of a paused
//! virtual machine does. So a coordinator whose gate was opened like that **marks** a datanode, with the number of the barrier,
//! before it commits anything there. Snapshots are taken together with a look at the mark: none that shows what was committed after the
//! gate was opened counts.
//!
//! ```text
//!  loxo.generation of a datanode:   generation (a multiple of 2^40)  +  barrier (its number within the generation), 0: no mark
//!  a global snapshot under generation g, in barrier g + n, counts if all its nodes answered   g <= value < g + n
//! ```
//!
//! Invariants:
//! * Values only grow: numbers of barriers grow with the generations that they belong to, and a mark is made under the fence's lock.
//! * A mark is needed until the coordinator knows of a newer generation: then all datanodes have that, and no earlier global snapshot counts.
//!   The gtm has one made at once when it opens gates like that, and tells nobody else the old one meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use pgerror::{PgError, Result};
use pgproto::{ConnectOptions, Connection};

/// Generations are multiples of it.
pub const GENERATION: u64 = 1 << 40;
/// A datanode that does not take a mark within this time counts as down.
const MARK_MAX: Duration = Duration::from_secs(5);

/// A barrier whose end not all of its readers have confirmed, and the nodes that know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ajar {
    barrier: u64,
    marked: BTreeSet<u16>,
}

impl Ajar {
    pub(crate) fn new(barrier: u64) -> Self {
        Self { barrier, marked: BTreeSet::new() }
    }

    pub(crate) fn barrier(&self) -> u64 {
        self.barrier
    }

    /// These nodes do not know yet.
    pub(crate) fn unmarked(&self, nodes: &[u16]) -> Vec<u16> {
        nodes.iter().copied().filter(|node| !self.marked.contains(node)).collect()
    }

    /// The node knows of this barrier.
    pub(crate) fn is_marked(&mut self, barrier: u64, node: u16) {
        if barrier >= self.barrier {
            self.marked.insert(node);
        }
    }
}

/// Marks a datanode, on a connection of its own.
pub(crate) async fn mark(node: &ConnectOptions, barrier: u64) -> Result<()> {
    let sql = format!("BEGIN; SET LOCAL synchronous_commit = on; SELECT loxo.mark({barrier}); COMMIT");
    let attempt = async { Connection::connect(node).await?.query_rows(&sql).await.map(drop) };
    let silent = |_| PgError::connection(format!("a datanode has not answered within {} s", MARK_MAX.as_secs()));
    tokio::time::timeout(MARK_MAX, attempt).await.map_err(silent)?
}
