//! Runs plans on datanodes.
//!
//! ```text
//!  coordinator ── Session::plan ──> planner          (catalog from Context, description from the home node)
//!       │
//!       └─ Session::run(plan) ── Link ── Link ── Link ──> datanodes        rows ──> Output ──> client
//!                                  └───── Pool ─────┘
//! ```
//!
//! * [`context`]: what the sessions of a coordinator share: [`Pool`], cached catalog, gtm client.
//! * [`session`]: the connections a session holds and the transaction that ties them; [`transaction`] ends it.
//! * [`run`]: one node, many nodes, replicated writes; [`gather`]: temp tables on the home node; [`exchange`]: temp
//!   tables on all nodes; [`staged`]: INSERT whose
//!   rows PostgreSQL makes first; [`ddl`]; [`explain`]; [`copy_in`] from [`copy_input`], [`copy_out`].
//! * [`snapshot`]: which state of the nodes a statement sees; [`portals`]: the same inside a transaction that has written.
//! * [`cancel`]: stopping a session from outside; its part in breaking deadlocks over several nodes.
//! * [`quick`]: plans of statements that differ from earlier ones in their constants only.
//! * [`load`]: the catalog, read off the primary datanode.
//!
//! Invariants: no SQL value is ever computed here; rows are moved as bytes and looked into only for their distribution
//! key; every buffer is bounded; a connection that was not read to the end of an answer is never used again.

mod aside;
mod block;
mod call;
mod cancel;
mod change;
mod cluster_command;
mod context;
mod control;
mod convert;
mod copy_in;
mod copy_input;
mod copy_out;
mod copy_pipeline;
mod copy_staged;
mod ddl;
mod describe;
mod estimates;
mod exchange;
mod explain;
mod gather;
mod load;
mod output;
mod own_settings;
mod pool;
mod portals;
mod quick;
mod readers;
mod run;
mod session;
mod settings;
mod snapshot;
mod staged;
mod transaction;
mod user_prepared;
mod write;

pub use call::{Call, Parameters};
pub use cancel::CancelSet;
pub use context::Context;
pub use copy_input::CopySource;
pub use copy_out::CopySink;
pub use describe::Description;
pub use load::Loaded;
pub use output::{Output, SPOOL_BYTES_MAX, Spool};
pub use own_settings::{IDLE_IN_TRANSACTION, IDLE_SESSION, duration, own_setting_name};
pub use pool::{Address, Identity, Pool};
pub use quick::Quick;
pub use run::Completion;
pub use session::{Mode, Session};
pub use settings::Settings;
pub use snapshot::{Isolation, SnapshotMode};
pub use txn::user_prepared::End;
