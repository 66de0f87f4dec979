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
//! * [`session`]: the connections a session holds and the transaction that ties them; [`held`]: one of them, and what goes to its
//!   node ahead of a statement; [`transaction`] ends it.
//! * [`run`]: one node, many nodes, replicated writes; [`gather`]: temp tables on the home node, or, of few rows,
//!   parameters ([`carried`]); [`merged`]: rows that the nodes have sorted, by their keys ([`sort_key`]); [`exchange`]: temp
//!   tables on all nodes; [`staged`]: INSERT whose
//!   rows PostgreSQL makes first; [`chain`]: data changes in WITH;
//!   [`ddl`], [`redistribute`]; [`explain`]; [`copy_in`] from [`copy_input`], [`copy_out`].
//!   [`apart`]: in which session a block's temp tables are.
//! * [`fixed_text`]: rows that travel as text.
//! * [`snapshot`]: which state of the nodes a statement sees; [`portals`]: the same inside a transaction that has written.
//!   [`read_alone`]: the shortest way for a SELECT by itself, [`insert_alone`] for an INSERT … SELECT.
//! * [`locked`]: rows of several nodes that a SELECT locks.
//! * [`pool`]: links to datanodes; [`login`]: what a backend starts with; [`search_path`].
//! * [`left`]: what statements leave in backends, and what becomes of it.
//! * [`cancel`]: stopping a session from outside; its part in breaking deadlocks over several nodes.
//! * [`listen`]: LISTEN and NOTIFY; [`firings`]: triggers that the coordinator is to run.
//! * [`own_temp`]: how temp tables of ours are made; [`temp_names`]: what a session has in `pg_temp`.
//! * [`quick`]: plans of statements that differ from earlier ones in their constants only; [`train`]: executions of one INSERT that
//!   go together, [`coupled`] into statements of many rows.
//! * [`load`]: the catalog, read off the primary datanode; [`basis`]: whether a plan made from it still holds.
//!
//! Invariants: no SQL value is ever computed here; rows are moved as bytes and looked into only for their distribution
//! key, or for sort keys that the nodes put in front; every buffer is bounded; a connection that was not read to the end of an answer is never used again.

mod admission;
mod alone;
mod analysis;
mod apart;
mod aside;
mod basis;
mod block;
mod call;
mod cancel;
mod carried;
mod chain;
mod change;
mod cluster_command;
mod context;
mod control;
mod convert;
mod copy_crew;
mod copy_feed;
mod copy_in;
mod copy_input;
mod copy_out;
mod copy_pipeline;
mod copy_staged;
mod cores;
mod coupled;
mod ddl;
mod describe;
mod drawn;
mod encoding;
mod estimates;
mod exchange;
mod explain;
mod firings;
mod first_copy;
mod fixed_text;
mod gather;
mod held;
mod hold;
mod insert_alone;
mod insert_split;
mod keeper;
mod left;
mod lengthy;
mod lent;
mod let_rows;
mod listen;
mod load;
mod locked;
mod locks;
mod login;
mod merged;
mod output;
mod own_settings;
mod own_temp;
mod pool;
mod portals;
mod pressure;
mod proven;
mod quick;
mod read_alone;
mod readers;
mod redistribute;
mod returning;
mod run;
mod search_path;
mod serializable;
mod session;
mod settings;
mod sight;
mod snapshot;
mod sort_key;
mod spool;
mod staged;
mod temp_names;
mod train;
mod transaction;
mod user_prepared;
mod write;

pub use basis::Basis;
pub use call::{Call, Parameters};
pub use cancel::CancelSet;
pub use context::{Context, own_options};
pub use copy_input::CopySource;
pub use copy_out::CopySink;
pub use describe::Description;
pub use encoding::is_foreign as is_foreign_encoding;
pub use firings::Firing;
pub use lengthy::lengthy;
pub use load::Loaded;
pub use merged::Order;
pub use output::Output;
pub use own_settings::{IDLE_IN_TRANSACTION, IDLE_SESSION, STATEMENT_TIMEOUT, duration, own_setting_name};
pub use pool::{Address, Identity, Pool};
pub use quick::Quick;
pub use run::Completion;
pub use session::{Mode, Session};
pub use settings::Settings;
pub use snapshot::{Isolation, SnapshotMode};
pub use spool::{Rows, Spool, check_memory};
pub use train::Arrival;
pub use txn::user_prepared::End;
