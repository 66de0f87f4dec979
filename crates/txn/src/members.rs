//! Which datanodes the cluster has now, for the gtm and for recovery.
//!
//! The configuration says which datanode is the primary, and its addresses have precedence. Which datanodes there are is in
//! `loxo.node`: CREATE NODE and DROP NODE change it while the cluster runs, by one two-phase commit. The gtm is not told. What counts
//! is the table on the primary datanode, and the gtm reads it whenever something depends on it:
//!
//! ```text
//!  when it begins to lead                  the datanodes it works on
//!  in a fence, with its lock on the        a lost coordinator could decide on a datanode that is not fenced
//!  primary datanode, before the raise
//!  in each pass of recovery, after old     a decision could be deleted that a datanode needs which was not asked; a transaction could
//!  decisions were read and before          be taken for finished that is still prepared there
//!  prepared transactions are listed
//! ```
//!
//! If it finds other datanodes than it knows, it goes on with those, and begins with a fence. Coordinators and their leases have no
//! part in that: global snapshots are granted all the while. It is within a second of the change, the interval of passes.
//!
//! # Why nothing goes wrong in that second
//! CREATE NODE, in its transaction on the primary datanode, locks `loxo.fence` in ROW SHARE mode, as each decision does, reads the
//! generation there, gives it to the new datanode, and has the primary datanode for its commit point. A fence cannot come between
//! the reading and the commit. So either CREATE NODE comes first and the fence finds the new datanode in the table, or the fence
//! comes first and the new datanode has the generation of this fence. Hence, while the gtm does not know of a datanode:
//! * *Its generation is that of the others.* A coordinator that was fenced out is shut out there too. The gates of all others are
//!   shut for a global snapshot whatever datanodes they commit on.
//! * *What is left unresolved there stays so for the gtm*: a coordinator that reports such a transaction has planned with the new
//!   datanode, so the table showed it before; a pass that begins after the report finds it in the table and tells nothing.
//! * *A decision that it needs is not deleted*: likewise, the transaction is later than the row in `loxo.node`, and its decision was read before.
//! * *Deadlocks* over it are found a second later.
//!
//! Were CREATE NODE to break its promise, the datanode would have a generation of its own. A coordinator that knows a newer one
//! does not take it for the right server ([`crate::identity`]), and global snapshots with it do not count, until the next fence.
//!
//! DROP NODE commits only when nothing is prepared on the datanode, and nothing elsewhere whose commit point or registry it is; before,
//! with the fence's lock there, it has raised the datanode's generation above all that are ever told, so that nobody decides there any
//! more. From its commit on the datanode may be down: recovery and fences go on without it as soon as the gtm has read the table.
//!
//! DROP NODE LOST, of a datanode that does not answer, cannot do that. It first notes the datanode in `loxo.lost_datanode` on the
//! primary one: from then on the gtm goes on without it. What that means for its transactions: page [`crate::recovery`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection, Rows};
use tokio::time::timeout;

use crate::datanodes::Datanodes;
use crate::identity::Roster;

/// Those that were given up are not asked from the moment on when that was noted, before they have left: without them there may be no
/// generation under which anybody could decide that.
pub(crate) const MEMBERS_SQL: &str = "SELECT id, host, port, is_primary FROM loxo.node \
     WHERE type = 'D' AND id NOT IN (SELECT l.id FROM loxo.lost_datanode AS l) ORDER BY id";

/// A datanode that does not answer within this time is not asked.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// See the module's page.
pub(crate) struct Members {
    configured: Datanodes,
    roster: Option<Arc<Roster>>,
}

impl Members {
    /// The roster proves that servers are those that `loxo.node` means; `configured` have their proofs.
    pub fn new(configured: Datanodes, roster: Option<Arc<Roster>>) -> Self {
        Self { configured, roster }
    }

    /// `None` without datanodes.
    pub fn primary(&self) -> Option<&ConnectOptions> {
        self.configured.primary()
    }

    /// The database whose `loxo.node` counts.
    pub fn database(&self) -> &str {
        self.primary().map_or("", |primary| &primary.database)
    }

    /// As a datanode has them in `loxo.node`. Only what the primary datanode says counts.
    pub async fn ask(&self, connection: &mut Connection) -> Result<Datanodes> {
        let rows = timeout(ANSWER_MAX, connection.query_rows(MEMBERS_SQL)).await;
        self.read(&rows.unwrap_or_else(|_| Err(silent()))?)
    }

    /// As most datanodes have them that answer: one that was given up, and comes back, does not know of it. Of several answers that are
    /// as frequent the one of the lowest id; those of the configuration if none answers.
    pub async fn of_anybody(&self) -> Datanodes {
        let ask = async |(_, options)| self.ask(&mut Connection::connect(options).await?).await;
        let asked = self.configured.iter().map(|datanode| timeout(ANSWER_MAX, ask(datanode)));
        let found: Vec<Datanodes> = join_all(asked).await.into_iter().flatten().flatten().collect();
        let times = |one: &&Datanodes| found.iter().filter(|other| other.are(one)).count();
        // The last of equal ones is taken.
        found.iter().rev().max_by_key(times).unwrap_or(&self.configured).clone()
    }

    /// The rows of [`MEMBERS_SQL`].
    pub fn read(&self, rows: &Rows) -> Result<Datanodes> {
        let members = rows.iter().map(|row| self.member(row));
        let members = members.collect::<Option<Vec<_>>>().ok_or_else(|| wrong("is not understood"))?;
        let first = members.first().map(|(id, _, is_primary)| (*id, *is_primary));
        if first != self.configured.iter().next().map(|(id, _)| (id, true)) {
            return Err(wrong("does not have the primary datanode first"));
        }
        Ok(members.into_iter().map(|(id, options, _)| (id, options)).collect())
    }

    /// Id, way there, and whether it is the primary.
    fn member(&self, row: &[Option<bytes::Bytes>]) -> Option<(u16, ConnectOptions, bool)> {
        let text = |column: usize| std::str::from_utf8(row.get(column)?.as_deref()?).ok();
        let id = text(0)?.parse().ok()?;
        let listed = self.configured.get(id).cloned();
        let unlisted = || {
            Some(ConnectOptions {
                host: text(1)?.to_owned(),
                port: text(2)?.parse().ok()?,
                proof: self.roster.as_ref().map(|roster| roster.proof(id)),
                ..self.primary()?.clone()
            })
        };
        Some((id, listed.or_else(unlisted)?, text(3)? == "t"))
    }
}

fn wrong(what: &str) -> PgError {
    PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("loxo.node on a datanode {what}"))
        .hint("The first datanode of the configuration must be the cluster's primary datanode.")
}

fn silent() -> PgError {
    PgError::connection(format!("a datanode does not answer within {} s", ANSWER_MAX.as_secs()))
}
