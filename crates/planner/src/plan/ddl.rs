//! Plans of what changes the catalog, and where a table's rows are to be.

#![allow(missing_docs)]

use std::sync::Arc;

use catalog::{MapId, NodeId, Relation, RelationKind};
use pgerror::PgError;

/// What kind of change a [`DdlPlan`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdlKind {
    /// The catalog changes: bump its version and tell every coordinator.
    Schema,
    /// Rows change, the catalog does not (TRUNCATE, REFRESH MATERIALIZED VIEW).
    Data,
    /// LOCK TABLE.
    Lock { nowait: bool },
    /// ANALYZE, VACUUM, REINDEX, CLUSTER, CHECKPOINT.
    Maintenance,
}

/// See [`Plan::Ddl`](super::Plan::Ddl).
#[derive(Clone, Debug)]
pub struct DdlPlan {
    /// What changes.
    pub kind: DdlKind,
    /// Where `node_sql` runs: all datanodes, or the home node alone (temp objects). The primary datanode first.
    pub nodes: Vec<NodeId>,
    /// Tables that move before, in this order: the statement asks for rows to lie otherwise.
    pub moves: Vec<Redistribute>,
    /// The statement without our clauses.
    pub node_sql: String,
    /// What the other nodes run in its place.
    pub elsewhere: Elsewhere,
    /// Changes of our own metadata, in the same transaction, after `node_sql`.
    pub effects: Vec<Effect>,
    /// WARNING and NOTICE messages for the client.
    pub notices: Vec<PgError>,
    /// It is about something in `pg_temp`: only this session has it, and its backend must stay with the session.
    pub temporary: bool,
    /// It is about what all databases of a server share: roles, tablespaces, databases themselves.
    pub of_all_databases: bool,
    /// Cannot run inside a transaction block (VACUUM, CREATE INDEX CONCURRENTLY, …): run it node by node, no two-phase commit.
    pub outside_transaction: bool,
    /// Undoes what runs outside a transaction, on the nodes that have done it when another one cannot.
    pub undo: Option<String>,
    /// A statement to plan and run in the same transaction, under the new catalog, once the effects are applied:
    /// `INSERT INTO t <query>` of CREATE TABLE AS, whose row count makes the command tag `SELECT n`.
    pub follow_up: Option<String>,
    /// The follow-up without its query: `INSERT INTO t`.
    pub fills_by: Option<String>,
    /// What the follow-up fills.
    pub fill: Fill,
}

/// Only the primary datanode has the session's temporary objects, and the rows of materialized views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// The text of the primary datanode.
    Same,
    /// The statement without them.
    Without(String),
    /// `CREATE TABLE … ()`: between the parentheses go the columns that this table has got on the primary datanode.
    Copied { table: String, sql: String },
}

/// What `follow_up` of a [`DdlPlan`] puts rows into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// A table.
    Table,
    /// The materialized view of this name: it has to be opened for INSERT first, and closed afterwards.
    MaterializedView(String),
    /// A new column of a table, by UPDATE; then this text runs on all nodes.
    Column { table: String, finish: String },
}

/// A change of the metadata in schema `loxo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A new distributed table.
    CreateTable { schema: String, name: String, distribution: Placement, by_default: bool },
    /// `ALTER TABLE … RENAME TO | SET SCHEMA`. The table keeps its distribution.
    RenameTable { schema: String, name: String, new_schema: String, new_name: String },
    /// A key column has a new name.
    RenameColumn { schema: String, name: String, column: String, new_column: String },
    /// `ALTER SCHEMA … RENAME TO`.
    RenameSchema { schema: String, new_schema: String },
    /// Something was dropped, perhaps by CASCADE: forget every table that is no longer there.
    ForgetMissing,
    /// Has the triggers of a replicated table fire on its first copy only.
    TendCopy { table: String },
    /// Has a table tell of rows that a foreign key gives another distribution key, if one can.
    WatchMoves { table: String },
    /// No node fires this trigger of a table; what captures for it goes when it goes.
    TieCapture { table: String, trigger: String },
    /// The other way round: it was made anew.
    UntieCapture { table: String, trigger: String },
    /// All triggers BEFORE … FOR EACH ROW of a table are captured for.
    CaptureOthers { table: String },
    /// ALTER DATABASE: how many sessions there may be, and whether any; `None` as before.
    SetConnections { database: String, limit: Option<i32>, allowed: Option<bool> },
    /// Triggers that nodes fire may do more than before: see [`hindered_tables`](crate::hindered_tables).
    JudgeTriggers,
    /// This statement runs on all nodes too.
    Run(String),
}

/// The resolved distribution of a new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    Hash { columns: Vec<String>, map: MapRequest },
    Modulo { column: String, map: MapRequest },
    Replicated { nodes: Vec<NodeId> },
    RoundRobin { nodes: Vec<NodeId> },
}

/// Which bucket map a new table uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapRequest {
    /// The one of the table it is co-located with.
    Existing(MapId),
    /// The round-robin map over these nodes: find it or make it.
    Over(Vec<NodeId>),
}

/// See [`Plan::Redistribute`](super::Plan::Redistribute).
#[derive(Clone, Debug)]
pub struct Redistribute {
    pub target: Arc<Relation>,
    /// The new placement, complete: what the statement leaves open is as before.
    pub placement: Placement,
    /// No clause says so.
    pub by_default: bool,
}

impl Redistribute {
    /// Do the rows lie right where they are?
    pub fn moves_nothing(&self) -> bool {
        let stays = match &self.placement {
            Placement::RoundRobin { nodes } => {
                let distribution = &self.target.distribution;
                distribution.is_partitioned() && distribution.nodes() == *nodes
            }
            _ => false,
        };
        // The rows of a partitioned table are its partitions'.
        stays || self.target.kind == RelationKind::PartitionedTable
    }
}
