//! COPY: bytes of a client or a file to the nodes' rows, and back.
//!
//! ```text
//!  input ── chunks ──> feed (workers parse blocks ahead) ──> router (crate copyfmt) ── frames ──> one writer a node
//! ```
//!
//! * [`from`]: COPY FROM; [`input`]: where its bytes come from; [`feed`] and [`workers`]: rows parsed by several threads;
//!   [`pipeline`]: the router and its writers; [`staged`]: lines that only PostgreSQL can complete; [`convert`]: values that the
//!   router does not know.
//! * [`to`]: COPY TO.
//! * Whether the host has a core to spare for a worker [`shared::cores`](crate::shared::cores) knows.
//!
//! Invariants: a row is scanned once and written once, nothing is allocated for it; one COPY is one transaction on all nodes; every queue
//! is bounded.

pub(crate) mod convert;
pub(crate) mod feed;
pub(crate) mod from;
pub(crate) mod input;
pub(crate) mod pipeline;
pub(crate) mod staged;
pub(crate) mod to;
pub(crate) mod workers;
