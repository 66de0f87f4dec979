//! Global snapshots, as a coordinator asks for them. What a global snapshot is and why it holds: [`crate::gate`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::GtmClient;
use super::command::{Answer, Command};
use crate::clock;
use crate::gate::SNAPSHOT_MAX;

/// Takes the snapshot of a `BEGIN ISOLATION LEVEL REPEATABLE READ`, and gives what the [global snapshot](Global snapshot::holds_for) depends on.
pub const SNAPSHOT_SQL: &str = "SELECT last_value FROM loxo.generation";

/// Waits on a datanode until the distributed transactions that it holds prepared now are resolved, 30 s at most (57P03).
/// Microseconds if there are none.
pub const READ_BARRIER_SQL: &str = "SELECT loxo.read_barrier() FROM pg_catalog.pg_prepared_xact() LIMIT 1";

/// How long a statement waits for its global snapshot.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Before a request that got no global snapshot is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// A grant that comes later than this after its request leaves too little time for the snapshots.
const GRANT_AGE_MAX: Duration = Duration::from_millis(600);

/// All gates are shut until this is dropped: take the snapshots, quickly.
#[must_use]
pub struct GlobalSnapshot {
    _taken: Taken,
    generation: i64,
    barrier: i64,
    unresolved: Vec<u16>,
    /// By [`clock`].
    deadline: Duration,
}

/// Says Taken when it is dropped.
struct Taken {
    request: u64,
    commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Taken { request: self.request });
    }
}

impl GtmClient {
    /// Waits until every gate is shut. The snapshots that are taken then, before [`GlobalSnapshot::complete`], are of one moment.
    /// 57P03 if that is not possible within 30 s: no gtm, or a datanode that it cannot reach.
    pub async fn global_snapshot(&self) -> Result<GlobalSnapshot> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let asked = clock::now();
            let request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
            let (sender, answer) = oneshot::channel();
            let _ = self.commands.send(Command::Snapshot { request, answer: sender });
            // Made now, so that a caller which is cancelled while it waits gives the request up.
            let taken = Taken { request, commands: self.commands.clone() };
            match timeout_at(deadline, answer).await {
                Ok(Ok(Answer::Granted { generation, barrier, unresolved }))
                    if clock::now() <= asked + GRANT_AGE_MAX =>
                {
                    let number =
                        |number: u64| i64::try_from(number).map_err(|_| PgError::internal("a generation is too large"));
                    let (generation, barrier, deadline) = (number(generation)?, number(barrier)?, asked + SNAPSHOT_MAX);
                    return Ok(GlobalSnapshot { _taken: taken, generation, barrier, unresolved, deadline });
                }
                Ok(Ok(Answer::Granted { .. })) => {}
                Ok(Ok(Answer::Failed) | Err(_)) => sleep(RETRY_PAUSE).await,
                Err(_) => return Err(self.no_snapshot()),
            }
            if Instant::now() >= deadline {
                return Err(self.no_snapshot());
            }
        }
    }

    fn no_snapshot(&self) -> PgError {
        if !self.has_lease() {
            return self.shared.unreachable("Without it several datanodes cannot be read as of one moment.");
        }
        PgError::new(SqlState::CANNOT_CONNECT_NOW, "the datanodes could not be read as of one moment within 30 s")
            .detail(
                "The gtm has to reach every datanode first, to finish what a lost coordinator may have left behind.",
            )
            .hint("`loxo check` tells who does not answer. SET loxo.snapshot = 'local' reads without that.")
    }
}

impl GlobalSnapshot {
    /// Under which it was granted.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// May a datanode have answered this to [`SNAPSHOT_SQL`]? If not, the global snapshot does not count: there is another leader, or commits were
    /// let in again before the snapshot was taken ([`crate::marks`]).
    pub fn holds_for(&self, value: i64) -> bool {
        (self.generation..self.barrier).contains(&value)
    }

    /// Datanodes that cannot be in this cut: they hold a prepared part of a transaction that may be visible elsewhere.
    pub fn unresolved(&self) -> &[u16] {
        &self.unresolved
    }

    /// To be called when the last snapshot's answer is there. True: the snapshots are of one moment. False: ask for another global snapshot.
    pub fn complete(self) -> bool {
        clock::now() < self.deadline
    }
}
