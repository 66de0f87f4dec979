//! Runs plans on datanodes.
//!
//! ```text
//!  coordinator ── Session::plan ──> planner          (catalog from Context, description from the home node)
//!       │
//!       └─ Session::run(plan) ── Link ── Link ── Link ──> datanodes        rows ──> Output ──> client
//!                                  └───── Pool ─────┘
//! ```
//!
//! A folder a job, each with a page of its own. None uses one further down this list (`tests/rooms.rs` holds that):
//!
//! * [`backend`]: connections to datanodes, and what is known of the backend behind one.
//! * [`shared`]: what all sessions of a coordinator share.
//! * [`block`]: what is known of a session's open transaction.
//! * [`session`]: what a client's session is made of.
//! * [`transaction`]: the session's block over all its nodes, from BEGIN to the end.
//! * [`snapshot`]: which state of the nodes a statement sees.
//! * [`plan_cache`]: plans that are known already.
//! * [`engine`]: rows out of the nodes and between them; EXPLAIN.
//! * [`dml`], [`copy`], [`ddl`]: changes of rows, COPY, schema changes.
//! * [`commands`]: planning, cursors, and commands that need all of these.
//!
//! Invariants: no SQL value is ever computed here; rows are moved as bytes and looked into only for their distribution
//! key, or for sort keys that the nodes put in front; every buffer is bounded; a connection that was not read to the end of an answer is never used again.

mod backend;
mod block;
mod commands;
mod copy;
mod ddl;
mod dml;
mod engine;
mod growth;
mod plan_cache;
mod session;
mod shared;
mod snapshot;
mod transaction;

pub use backend::activity::{Activity, TlsStatus, Who};
pub use backend::call::Order;
pub use backend::call::{Call, Parameters};
pub use backend::cancel::CancelSet;
pub use backend::isolation::{Isolation, SnapshotMode};
pub use backend::pool::cluster::Cluster;
pub use backend::pool::members::Configured;
pub use backend::pool::{Address, Identity, Pool};
pub use backend::settings::{Parameters as ReportedParameters, Scope, Settings, duration, refused_in_definer};
pub use backend::slot::Slot;
pub use backend::statement_figures::Cost;
pub use backend::type_ids::{NodeTypes, TypesOfNodes};
pub use block::Mode;
pub use commands::closed_to_clients;
pub use commands::plan::ServerFiles;
pub use copy::input::CopySource;
pub use copy::to::CopySink;
pub use dml::insert_pipeline::Arrival;
pub use dml::trigger_events::TriggerEvent;
pub use engine::fixed_text::NamedType;
pub use engine::output::Output;
pub use engine::run::Completion;
pub use engine::spool::{Rows, Spool, changed_result, check_memory};
pub use growth::job::rebalance_when_wanted;
pub use plan_cache::by_shape::Quick;
pub use session::Session;
pub use session::describe::Description;
pub use session::own_settings::{IDLE_IN_TRANSACTION, IDLE_SESSION, SNAPSHOT, STATEMENT_TIMEOUT, own_setting_name};
pub use session::set::{other_constants, reads_constants_otherwise};
pub use session::slow::{SlowStatement, default_log_min_duration, default_log_parameters, recent_slow_statements};
pub use shared::catalog_load::Loaded;
pub use shared::context::Context;
pub use shared::figures::{count_command, count_plan};
pub use shared::long_texts::{Apart, is_lengthy};
pub use shared::plan_validity::{PlanValidity, is_outdated};
pub use txn::user_prepared::End;
