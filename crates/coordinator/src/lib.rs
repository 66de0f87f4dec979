//! Client sessions of a coordinator: what psql, a driver or pgbench talks to.
//!
//! ```text
//!  client ── startup, authentication ── Client ── simple / extended protocol ── planner ── executor::Session ── datanodes
//! ```
//!
//! * [`listener`](mod@listener): accepts connections, hands out cancel keys, ends everything on shutdown.
//! * `startup`: the startup packet and SCRAM; `client`: the message loop; `simple`, `extended`: the two query protocols;
//!   `commands`: statements that are the session's own business (BEGIN, SET, PREPARE, cursors, …);
//!   `routines`: bodies of functions and blocks that no node can run by itself, statement by statement.
//!
//! Invariants: one task a client; a client that vanishes has its statement cancelled and its links given back or closed;
//! every message is answered as PostgreSQL would answer it, one ReadyForQuery for each Query or Sync.

mod client;
mod commands;
mod copy;
mod cursors;
mod extended;
mod fastpath;
mod listener;
mod prepared;
mod routines;
mod set_config;
mod simple;
mod stack;
mod startup;
mod train;

pub use listener::{Authentication, Coordinator, CoordinatorOptions, Stopper};
pub use stack::note_stack_base;
