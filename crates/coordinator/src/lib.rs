//! Client sessions of a coordinator: what psql, a driver or pgbench talks to.
//!
//! ```text
//!  client ── startup, authentication ── Client ── simple / extended protocol ── planner ── executor::Session ── datanodes
//! ```
//!
//! * [`protocol`](mod@protocol): accepts connections, hands out cancel keys, startup and SCRAM, the message loop, the two query protocols.
//! * [`session_commands`](mod@session_commands): statements that are the session's own business (BEGIN, SET, PREPARE, cursors, …).
//! * [`routines`](mod@routines): bodies of functions and blocks that no node can run by itself, statement by statement.
//!
//! Invariants: one task a client; a client that vanishes has its statement cancelled and its links given back or closed;
//! every message is answered as PostgreSQL would answer it, one ReadyForQuery for each Query or Sync.

mod protocol;
mod routines;
mod session_commands;
mod stack;

pub use protocol::listener::{Authentication, Coordinator, CoordinatorOptions, Stopper};
pub use stack::note_stack_base;
