//! Client sessions of a coordinator: what psql, a driver or pgbench talks to.
//!
//! ```text
//!  listener ── client ── statements ─┬─ session_commands ── protocol ── shared
//!                                    └─ routines (over a StatementRunner)
//! ```
//!
//! Each uses only what stands to its right:
//!
//! * [`listener`](mod@listener): accepts connections, ends sessions.
//! * [`client`](mod@client): the message loop, the two query protocols, function calls.
//! * [`statements`](mod@statements): one statement from its text to its completion.
//! * [`session_commands`](mod@session_commands): statements that are the session's own business (BEGIN, SET, PREPARE, cursors, …).
//! * [`routines`](mod@routines): bodies of functions and blocks that no node can run by itself, statement by statement.
//! * [`protocol`](mod@protocol): startup and SCRAM, the socket, prepared statements and portals.
//! * [`shared`](mod@shared): what all sessions share: admission, cancel keys, caches of texts.
//!
//! Invariants: one task a client; a client that vanishes has its statement cancelled and its links given back or closed;
//! every message is answered as PostgreSQL would answer it, one ReadyForQuery for each Query or Sync.

mod client;
mod listener;
mod protocol;
mod query_id;
mod routines;
mod session_commands;
mod shared;
mod stack;
mod statements;

pub use listener::{Coordinator, CoordinatorOptions, Reloader, Stopper};
pub use query_id::query_id;
pub use shared::Authentication;
pub use shared::failed_logins::LoginLimits;
pub use shared::figures::Figures;
pub use shared::tls::TlsOptions;
pub use stack::note_stack_base;
