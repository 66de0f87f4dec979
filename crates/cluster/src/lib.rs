//! Clusters as things on hosts: their configuration, their servers' settings, their life on this machine.
//!
//! ```text
//!   loxo up ──▶ local::up ──▶ initdb, postgres (datanodes)      a local cluster lives in one directory D:
//!                  │      └─▶ loxo gtm, loxo coordinator          D/cluster.toml   configuration (the only state)
//!                  ▼                                              D/dn1, D/dn2 …   data directories
//!   loxo init ─▶ init ──▶ schema "loxo" on every datanode         D/log/*.log      what each process said
//!   loxo check ▶ check                                            D/initialised    cluster id, once the metadata exists
//!   loxo status ▶ overview, or local
//!   loxo deploy ▶ host ─▶ what one real host does of it
//!   loxo node ─▶ join ──▶ one more datanode, or one less           D/dn2.removed    data directory of a datanode that left
//! ```
//!
//! In: a [`Config`] (a TOML file, documented in `docs/configuration.md`). Out: running processes, servers that carry the
//! metadata of `sql/metadata.sql`, reports on their state.
//!
//! Invariants:
//! - What runs is read off the process table, never off a file of ours, so no stale file can mislead; every process of
//!   a local cluster carries D on its command line or in its title.
//! - `up` leaves the cluster wholly running or as it was before the call; a directory is either never initialised
//!   (and then removed on failure) or complete.
//! - Metadata is created on all datanodes or on none (one two-phase commit).
//! - Nothing here depends on the planner, the executor or the coordinator: this room only starts their binary.

mod audit;
pub mod certificates;
mod check;
mod config;
mod disk;
pub mod host;
mod in_doubt;
mod init;
pub mod join;
pub mod local;
pub mod membership;
mod overview;
mod postgres;
mod proc;
mod progress;
pub mod settings;
pub mod sql;
mod upgrade;

pub use audit::{Audit, Repair, audit};
pub use check::{Finding, Level, Process, check, check_all, open_files_shortage, pool_left, pool_warnings};
pub use config::{
    Auth, ClusterSection, Config, Coordinator, Datanode, FAILED_LOGINS_MAX, FAILED_LOGINS_PAUSE, Gtm, Hba, Local, Log,
    LogFormat, MAX_CLIENTS, Map, SslMode, gtm_name,
};
pub use in_doubt::InDoubt;
pub use init::{METADATA_SQL, init};
pub use membership::{databases, duration};
pub use overview::{Named, Overview, overview};
pub use postgres::parse_major;
pub use proc::{detach, interrupted, raise_open_files, redirect_output};
pub use progress::Progress;
pub use upgrade::upgrade;
