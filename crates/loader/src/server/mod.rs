//! The server's side of a load: connections, the table's indexes, what the nodes do meanwhile.
//!
//! * [`session`]: one connection and one COPY on it, which notices an error while it sends; [`sql`]: names and values of answers.
//! * [`indexes`]: dropped for the time of a load, and made again; [`monitor`]: where the servers' COPYs wait.
//!
//! Invariant: datanodes are only looked at; all that changes anything goes through a coordinator.

pub(crate) mod indexes;
pub(crate) mod monitor;
pub(crate) mod session;
pub(crate) mod sql;
