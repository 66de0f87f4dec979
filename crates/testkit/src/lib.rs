//! Real PostgreSQL servers and real clusters for tests, and a small client that hides nothing of the protocol.
//!
//! ```text
//! test ── wire::Client ──► Server   (one stock PostgreSQL: the oracle)
//!   └──── wire::Client ──► Cluster  (`loxo up`: coordinators, gtm, datanodes: what is under test)
//! ```
//!
//! [`rooms`] looks at how a crate is built inside.
//!
//! Invariants: everything lives in a temporary directory of its own and on ports that were free; servers run as the OS
//! user `postgres` when the test runs as root; nothing outlives the test process, however that ends, because a watchdog
//! process waits on a pipe for its death (a `static` in a test is never dropped, so `Drop` alone would not do).
//!
//! Environment: `LOXO_BIN` (the binary under test; by default the `loxo` beside the test's own build),
//! `LOXO_PG_BIN` (PostgreSQL's programs; by default the newest installed), `LOXO_E2E_SELFTEST=1` (a stock server plays the
//! cluster, which tests the tests).

mod cluster;
mod environment;
mod host;
mod relay;
mod rng;
pub mod rooms;
mod server;
pub mod wire;

pub use cluster::{Cluster, self_test};
pub use environment::{number, seed};
pub use host::{TempDir, free_ports, loxo_binary, pg_program};
pub use relay::Relay;
pub use rng::Rng;
pub use server::{Server, ServerOptions};
