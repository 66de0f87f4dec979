//! The live page of a coordinator: who works, who waits for whom, how fast rows come, where buckets are.
//!
//! ```text
//!  browser ─HTTP─► listen ─► guard ─► routes ─┬─► sessions ─► client ─SQL─► the coordinator's own port
//!                  limits    headers          │                 ├─ questions
//!                                             │                 └─ plan
//!                                             └─► Inside: figures, health, slow statements of this process
//! ```
//!
//! * [`listen`]: how many connections there may be, and for how long.
//! * [`guard`]: which requests are none of ours, and what browsers must not do with answers.
//! * [`sessions`]: logins, by cookie and token.
//! * [`client`]: a connection to the coordinator; [`questions`]: what it asks; [`plan`]: EXPLAIN.
//! * [`routes`]: requests and their answers; [`document`]: the page itself.
//!
//! Invariants: the page is an ordinary client of its coordinator, so it shows what the role could select, and does what the role may do.
//! What it knows beside that are numbers, and slow statements under the rule of `pg_stat_activity`. Every request but the page itself
//! and the login needs cookie and token. Values reach the browser as JSON, never as HTML. Nothing is kept on disk.

mod client;
mod document;
mod guard;
mod listen;
mod plan;
mod questions;
mod routes;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;

use pgerror::Result;
use pgproto::Encryption;
use serde::Serialize;
use tokio::net::TcpListener;

/// What the page learns from its process, and not by SQL.
pub trait Inside: Send + Sync + 'static {
    /// Figures in Prometheus' text format.
    fn figures(&self) -> String;

    /// Does the coordinator do its work?
    ///
    /// # Errors
    /// Why not.
    fn health(&self) -> std::result::Result<String, String>;

    /// The last slow statements, the latest first.
    fn slow(&self) -> Vec<SlowStatement>;

    /// Where the coordinator listens now.
    fn coordinator(&self) -> SocketAddr;

    /// How connections to the coordinator are encrypted; asked for each, since certificates change.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    fn encryption(&self) -> Result<Encryption>;
}

/// A statement that took longer than `loxo.log_min_duration`.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct SlowStatement {
    /// Seconds since 1970.
    pub ended: f64,
    pub duration_ms: f64,
    pub user: String,
    pub text: String,
    /// The coordinator's plan, an indented tree.
    pub plan: String,
    /// SQLSTATE if it failed.
    pub code: String,
}

/// Which coordinator the page is of.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Options {
    /// The coordinator's name.
    pub name: String,
    /// What a login form begins with.
    pub database: String,
}

/// Serves the page until the future is dropped.
pub async fn serve(listener: TcpListener, options: Options, inside: Arc<dyn Inside>) {
    routes::serve(listener, options, inside).await;
}
