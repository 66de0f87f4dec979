//! What is known of a statement before it is planned: what it reads, changes, calls and leaves behind.
//!
//! * [`functions`], [`builtins`], [`code`]: what functions need, those that a statement names and those that a node calls by
//!   itself; [`definitions`]: what views are made of.
//! * [`used`], [`sized`]: which tables; [`constant`]: which node a constant key lives on; [`numbers`]: which values are exact;
//!   [`clock`]: what reads the clock.
//! * [`effects`], [`setting_calls`]: what is left in backends; [`values_drawn`]: values of sequences that a backend had.
//! * [`references`], [`key_setters`]: names in bodies of functions, and whether a trigger may change a distribution key.
//!
//! Invariant: facts come from PostgreSQL's analysis and catalogs; what they do not tell counts as the worst.

use std::sync::Arc;

use catalog::{NodeId, Relation};
use pgerror::{PgError, Result};

use crate::context::Context;

pub(crate) mod builtins;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod constant;
pub(crate) mod definitions;
pub(crate) mod effects;
pub(crate) mod functions;
pub(crate) mod key_setters;
pub(crate) mod numbers;
pub(crate) mod references;
pub(crate) mod setting_calls;
pub(crate) mod sized;
pub(crate) mod used;
pub(crate) mod values_drawn;

/// `FRAMEOPTION_ROWS` of PostgreSQL's parsenodes.h.
const FRAME_OF_ROWS: i32 = 0x4;

const AT_HOME_HINT: &str =
    "A function in pg_temp, and what it calls, runs on one datanode: create it in another schema.";

/// What a walk over a statement found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Something only the home node can evaluate: sequences, catalog look-ups, session state.
    pub home: Option<String>,
    /// A function that gives another value at each call (`random()`).
    pub volatile: Option<String>,
    /// Depends on the clock or on the transaction: nodes differ a little.
    pub clock: Option<String>,
    /// Does so where no constant can stand in its place: in a function.
    pub moving: Option<String>,
    /// May change something (`nextval`, a volatile user function).
    pub writes: bool,
    /// FOR UPDATE and its kin.
    pub locking: bool,
    /// Replicated tables whose rows are locked as if they were to be changed: see [`row_locks`](crate::row_locks).
    pub locked_copies: Vec<Arc<Relation>>,
    /// `ctid`, `xmin`, …; `tableoid` only if it is the only one.
    pub system_column: Option<String>,
    /// `tableoid::regclass`, which means the same on every node.
    pub names_table: bool,
    /// `tableoid` in any other way.
    pub bare_tableoid: bool,
    /// TABLESAMPLE.
    pub sample: bool,
    /// INSERT, UPDATE, DELETE or MERGE below WITH.
    pub modifying_cte: bool,
    /// `WHERE CURRENT OF`.
    pub current_of: bool,
    /// The size of a partitioned table is asked for.
    pub sizes: bool,
    /// A user function reads replicated tables: these nodes have them all.
    pub function_nodes: Option<Vec<NodeId>>,
    /// The result may depend on the order of rows: LIMIT, DISTINCT ON, array_agg, a sum of floating point, …
    pub order_sensitive: Option<String>,
    /// A relation that a user function reads, whatever it is.
    pub reads: Option<String>,
    /// One that a user function reads and that is not, under every search path, replicated on all nodes.
    pub reads_part: Option<String>,
    /// Why the statement cannot run on a distributed table at all.
    pub refused: Option<PgError>,
}

impl Facts {
    /// Does each evaluation count?
    pub fn differs_each_time(&self) -> bool {
        self.volatile.is_some() || self.writes
    }

    /// Gives the refusal, if there is one.
    pub fn check(&self) -> Result<()> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Has the node all tables that functions of the statement read?
    pub fn has_what_functions_read(&self, node: NodeId) -> bool {
        self.function_nodes.as_ref().is_none_or(|readable| readable.contains(&node))
    }

    /// Refuses a statement that runs on the home node if that has not all tables that its functions read.
    pub fn check_functions_at_home(&self, ctx: &Context<'_>) -> Result<()> {
        match self.has_what_functions_read(ctx.home()) {
            true => Ok(()),
            false => Err(PgError::unsupported("a function that reads tables which the home node does not have")
                .hint("Replicate those tables to all datanodes.")),
        }
    }
}
