//! `loxo deploy`: a cluster on several hosts, over ssh, from one file.
//!
//! ```text
//!  hosts.toml ─▶ inventory ─▶ plan ─▶ run ──▶ ssh ─▶ sh probe.sh                        what is there?
//!  hosts.d    ─▶ kept ────────┘        │      ssh ─▶ cat > bin/loxo                     the program itself
//!   passwords, keys, loxo.toml         └────▶ ssh ─▶ bin/loxo host STEP ─▶ cluster::host  all the rest
//! ```
//!
//! In: an inventory (`docs/operate/deploy.md`). Out: datanodes, gtms and coordinators that run on its hosts and know each other by
//! certificates; beside the inventory a directory with what is secret, and the cluster's configuration.
//!
//! Invariants:
//! - All hosts are looked at before anything is written on any of them, or beside the inventory.
//! - Every step may be repeated; the same command goes on where another one was killed.
//! - A datanode is never made anew in a cluster that exists, and nothing is ever removed.
//! - What is secret crosses ssh on its stdin only: it is on no command line, in no log and in no message.
//! - What a host does is decided by `cluster::host` there; here is decided what it shall be, and in which order.

mod inventory;
mod kept;
mod plan;
mod probe;
mod program;
mod run;
mod ssh;

pub use run::{Options, Outcome, deploy, stop};
