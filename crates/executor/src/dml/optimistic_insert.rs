//! INSERT … SELECT over several nodes, outside a block, in as few waits as a global snapshot and a commit allow.
//!
//! ```text
//!  BEGIN, locks ─ all nodes ─┐
//!                            ├── generation, INSERT, who wrote? ─ all nodes ──> barrier valid? ── COMMIT
//!  barrier ─ gtm ────────────┘
//! ```
//!
//! As in [`optimistic_read`](crate::engine::reads::optimistic_read) only the case in which all goes well is here. A session that
//! finds a lock taken, a node in doubt, a barrier that has run out or another transaction that was faster rolls back, and the
//! statement is run as [`writes`](crate::dml::writes) says.

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use planner::Tables;

use crate::backend::call::Call;
use crate::backend::leased::LeasedConnection;
use crate::block::table_locks::Locks;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::shared::plan_validity::is_outdated;

impl Session {
    /// Runs the same INSERT on several nodes under one global snapshot; `None` if it has to be done the long way: nothing is left of it, and
    /// no row has gone to the client.
    pub(crate) async fn insert_optimistically(
        &mut self,
        parts: &[(NodeId, String)],
        tables: &Tables,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        debug_assert!(!self.in_block());
        let nodes: Vec<NodeId> = parts.iter().map(|(node, _)| *node).collect();
        self.refuse_serializable(&nodes)?;
        let rows_before = output.rows_sent();
        self.begin_over(&nodes, &[], Locks::of_tables(tables).commands(" NOWAIT"), false);
        let tried = self.run_within_barrier(&nodes, parts, LeasedConnection::ask_whether_wrote, call, output).await;
        let worked = match tried {
            Ok(Some(completion)) => self.plan_holds().await.map(|()| Some(completion)),
            other => other,
        };
        // When it is committed it is too late to ask whether the plan holds; if not, the next try is asked.
        let validity = self.validity.take();
        let ended = match worked {
            Ok(Some(completion)) => self.commit().await.map(|_| Some(completion)),
            other => {
                self.rollback().await;
                other
            }
        };
        match ended {
            Err(error) if is_overtaken(&error) && output.rows_sent() == rows_before => {
                self.validity = validity;
                Ok(None)
            }
            Ok(None) => {
                self.validity = validity;
                Ok(None)
            }
            ended => ended,
        }
    }
}

/// Has another transaction changed first what this one wanted?
fn is_overtaken(error: &PgError) -> bool {
    error.code() == SqlState::SERIALIZATION_FAILURE && !is_outdated(error)
}
