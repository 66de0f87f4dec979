//! Connections to datanodes: shared in a pool, leased by sessions, clean when they go back.
//!
//! ```text
//!  Pool ── Link ──> acquire ──> LeasedConnection ── Call ──> datanode
//!    ▲                                    │
//!    └──────────── leftovers: asked, reset or closed ◄┘
//! ```
//!
//! * [`pool`], [`admission`]: links, and which sessions may hold any.
//! * [`login`]: what a backend starts with; [`settings`]: what a session has set, replayed on every backend that joins it.
//! * [`leased`]: a link while a session holds it; [`acquire`]: how it gets ready for a statement.
//! * [`request`]: one statement on one link, its answer as a stream of events; [`own_calls`]: functions of schema `loxo`, called with a
//!   proof; [`own_temp`]: temp tables of ours.
//! * [`leftovers`]: what statements leave in a backend; [`sequence_values`]: which backend has the session's last values.
//! * [`cancel`]: stopping a session from outside.
//!
//! Invariants: a link whose answer was not read to its end never returns to the pool, nor does one that may hold a session's
//! state and was not asked; a link is used by the role that it was opened for.

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
