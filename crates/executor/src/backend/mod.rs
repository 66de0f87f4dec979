//! Connections to datanodes: shared in a pool, leased by sessions, clean when they go back.
//!
//! ```text
//!  Pool ── Link ──> Links: one LeasedConnection a Slot ── Call ──> datanode
//!    ▲                                    │
//!    └──────────── reset or closed ◄──────┘
//! ```
//!
//! * [`pool`]: connections that all sessions share, and what a backend starts with.
//! * [`links`]: those that a session holds, each in a [`slot`] (a node, and what the connection is for), with the settings they
//!   must have; [`leased`]: one of them; [`settings`], [`isolation`]: what a session has set, replayed on every backend that joins it.
//! * [`request`]: one statement on one link, its answer as a stream of events; [`call`]: how it is to be run; [`type_ids`]: ids of
//!   types inside its values; [`portals`]: bound on several nodes at one moment.
//! * [`own_statements`], [`own_calls`]: statements of ours, and functions of schema `loxo`, called with a proof.
//! * [`cancel`]: stopping a session from outside; [`activity`]: what it tells of itself.
//!
//! Invariants: nothing here knows a session; a link whose answer was not read to its end never returns to the pool, nor does one
//! that may hold a session's state and was not asked; a link is used by the role that it was opened for.

pub(crate) mod activity;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod isolation;
pub(crate) mod leased;
pub(crate) mod links;
pub(crate) mod own_calls;
pub(crate) mod own_statements;
pub(crate) mod pool;
pub(crate) mod portals;
pub(crate) mod request;
pub(crate) mod settings;
pub(crate) mod slot;
pub(crate) mod statement_figures;
pub(crate) mod type_ids;
